"""When metadata is asked for, under a clock that stands still until the test moves it."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from logstore.config.remote import WireConfig
from logstore.records import TopicPartition
from logstore.remote.metadata.known import NewLeader
from logstore.remote.metadata.refresher import MISSING_ANSWERS, MetadataRefresher
from logstore.testing.clock import ManualClock
from tests.remote.metadata.test_known import answer, topic

AGE_MS = 10_000


class Refreshed:
    """A refresher, its clock, and brokers that a test plays."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = ManualClock()
        config = WireConfig(metadata_max_age_ms=AGE_MS, retry_backoff_ms=100, retry_backoff_max_ms=1_000)
        self.it = MetadataRefresher(config, self.clock, random.Random(seed))

    @property
    def is_due(self) -> bool:
        return self.it.due_s() <= self.clock.monotonic_s()

    def wait_ms(self) -> float:
        return (self.it.due_s() - self.clock.monotonic_s()) * 1000

    def ask(self, version: int = 13) -> list[str] | None:
        assert self.is_due
        asked = self.it.next_request(version).topics
        assert math.isinf(self.it.due_s()), "one request at a time"
        return None if asked is None else [each.topic_id or each.name or "" for each in asked]

    def answered(self, *topics: Any) -> list[str] | None:
        asked = self.ask()
        self.it.took(answer(*topics))
        return asked

    def pass_pause(self) -> float:
        pause_ms = self.wait_ms()
        self.clock.advance(math.ceil(pause_ms))
        return pause_ms


@pytest.fixture
def refreshed() -> Refreshed:
    made = Refreshed()
    made.it.want(["orders"])
    assert made.answered(topic("orders", (1, 3))) == ["orders"]
    return made


def test_nothing_is_asked_until_the_age_is_reached(refreshed: Refreshed) -> None:
    assert refreshed.wait_ms() == AGE_MS
    refreshed.clock.advance(AGE_MS - 1)
    assert not refreshed.is_due
    refreshed.clock.advance(1)
    assert refreshed.answered(topic("orders", (1, 3))) == ["orders"]
    assert refreshed.wait_ms() == AGE_MS


def test_a_client_without_topics_asks_once_for_the_brokers() -> None:
    refreshed = Refreshed()
    assert refreshed.answered() == []
    assert refreshed.it.known.brokers.keys() == {1, 2}
    assert math.isinf(refreshed.it.due_s())


def test_a_new_topic_is_asked_for_alone(refreshed: Refreshed) -> None:
    refreshed.it.want(["orders", "others"])
    assert refreshed.answered(topic("others", (1, 0), id="two")) == ["others"]
    assert set(refreshed.it.known.topics) == {"orders", "others"}
    assert refreshed.wait_ms() == AGE_MS


def test_an_error_asks_for_everything_again(refreshed: Refreshed) -> None:
    refreshed.it.mark_out_of_date()
    assert refreshed.answered(topic("orders", (2, 4))) == ["orders"]
    assert not refreshed.is_due


def test_what_is_found_out_of_date_while_a_request_is_out_is_asked_for_after_it(refreshed: Refreshed) -> None:
    refreshed.it.mark_out_of_date()
    refreshed.ask()
    refreshed.it.mark_out_of_date()
    refreshed.it.took(answer(topic("orders", (1, 3))))
    assert refreshed.is_due


def test_pauses_after_failures_grow_to_their_limit(refreshed: Refreshed) -> None:
    refreshed.it.mark_out_of_date()
    pauses = []
    for _ in range(8):
        refreshed.ask()
        refreshed.it.failed()
        pauses.append(refreshed.pass_pause())
    for pause_ms, expected in zip(pauses, [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000], strict=True):
        assert expected * 0.8 <= pause_ms <= expected * 1.2
    assert refreshed.answered(topic("orders", (1, 3))) == ["orders"], "a lost request is repeated whole"
    refreshed.it.mark_out_of_date()
    assert refreshed.is_due, "an answer ends the pauses"
    refreshed.ask()
    refreshed.it.failed()
    assert 80 <= refreshed.wait_ms() <= 120, "the next failure begins with the shortest pause"


def test_an_answer_without_brokers_is_none(refreshed: Refreshed) -> None:
    refreshed.it.mark_out_of_date()
    known = refreshed.it.known
    refreshed.ask()
    assert refreshed.it.took(answer(brokers=())) == []
    assert refreshed.it.known is known
    assert 80 <= refreshed.wait_ms() <= 120


def test_an_unknown_topic_is_asked_for_with_pauses_and_found_later(refreshed: Refreshed) -> None:
    refreshed.it.want(["others"])
    for count in range(MISSING_ANSWERS):
        assert refreshed.it.is_missing("others") is False
        assert refreshed.answered(topic("others", id="", code=3)) == ["others"]
        assert refreshed.pass_pause() >= 80 * 2**count
    assert refreshed.it.is_missing("others")
    assert refreshed.answered(topic("others", (1, 0), id="two")) == ["others"]
    assert not refreshed.it.is_missing("others")
    assert not refreshed.is_due


def test_a_topic_that_is_gone_keeps_no_news_of_others_waiting(refreshed: Refreshed) -> None:
    refreshed.it.want(["others"])
    for _ in range(MISSING_ANSWERS + 5):
        refreshed.answered(topic("others", id="", code=3))
        pause_ms = refreshed.wait_ms()
        assert pause_ms >= 80
        refreshed.it.mark_out_of_date()
        if refreshed.it.is_missing("others"):
            assert refreshed.is_due
            assert refreshed.answered(topic("orders", (1, 3)), topic("others", id="", code=3)) == [
                "orders",
                "others",
            ]
            assert refreshed.wait_ms() >= 320
        refreshed.pass_pause()


def test_a_missing_topic_is_asked_for_only_as_long_as_a_service_needs_it(refreshed: Refreshed) -> None:
    refreshed.it.want(["others"])
    pauses = []
    for _ in range(MISSING_ANSWERS + 5):
        assert refreshed.answered(topic("others", id="", code=3)) == ["others"]
        refreshed.it.is_missing("others")
        pauses.append(refreshed.pass_pause())
    assert min(pauses[5:]) >= 800, "Kafka's retry.backoff.max.ms, less a fifth"
    begun_s = refreshed.clock.monotonic_s()
    while refreshed.it.is_wanted("others"):
        asked = refreshed.ask()
        assert asked in (["others"], ["orders", "others"])
        refreshed.it.took(answer(*([topic("orders", (1, 3))] if len(asked) > 1 else []), topic("others", code=3)))
        refreshed.pass_pause()
    assert 10 <= refreshed.clock.monotonic_s() - begun_s <= 10 + AGE_MS / 1000 + 1.2
    assert refreshed.answered(topic("orders", (1, 3))) == ["orders"]
    assert refreshed.wait_ms() == AGE_MS
    refreshed.it.want(["others"])
    assert refreshed.answered(topic("others", (1, 0), id="two")) == ["others"]


def test_a_dropped_topic_is_forgotten_and_not_asked_for(refreshed: Refreshed) -> None:
    refreshed.it.want(["others"])
    refreshed.answered(topic("others", id="", code=3))
    refreshed.it.drop(["orders", "others"])
    assert refreshed.it.known.topics == {}
    assert math.isinf(refreshed.it.due_s())


def test_a_refused_topic_is_not_asked_for_again_until_the_age(refreshed: Refreshed) -> None:
    refreshed.it.want(["secret"])
    assert refreshed.answered(topic("secret", id="", code=29)) == ["secret"]
    assert refreshed.it.refusal("secret") == 29
    assert refreshed.wait_ms() == AGE_MS
    refreshed.clock.advance(AGE_MS)
    assert refreshed.answered(topic("orders", (1, 3)), topic("secret", (1, 0), id="two")) == [
        "orders",
        "secret",
    ]
    assert refreshed.it.refusal("secret") == 0


def test_a_partition_without_leader_is_asked_for_again_after_a_pause(refreshed: Refreshed) -> None:
    refreshed.it.mark_out_of_date()
    refreshed.answered(topic("orders", (-1, 3)))
    assert 80 <= refreshed.pass_pause() <= 120
    refreshed.answered(topic("orders", (2, 4)))
    assert not refreshed.is_due


def test_ids_are_asked_for_by_themselves_and_become_names(refreshed: Refreshed) -> None:
    refreshed.it.mark_out_of_date()
    refreshed.it.want_ids(["one", "two"])
    assert refreshed.ask() == ["two"], "the name of the other is known"
    refreshed.it.took(answer(topic("others", (1, 0), id="two")))
    assert refreshed.it.known.names == {"one": "orders", "two": "others"}
    assert refreshed.answered(topic("orders", (1, 3)), topic("others", (1, 0), id="two")) == [
        "orders",
        "others",
    ]
    assert not refreshed.is_due


def test_an_old_broker_is_asked_for_all_topics_where_an_id_is_unknown(refreshed: Refreshed) -> None:
    refreshed.it.want_ids(["two"])
    assert refreshed.ask(11) is None
    refreshed.it.took(
        answer(topic("orders", (1, 3)), topic("others", (1, 0), id="two"), topic("not wanted", (1, 0), id="three"))
    )
    assert set(refreshed.it.known.topics) == {"orders", "others"}


def test_an_id_that_no_broker_knows_is_given_up(refreshed: Refreshed) -> None:
    refreshed.it.want_ids(["two"])
    for _ in range(MISSING_ANSWERS):
        assert refreshed.answered(topic("", id="two", code=100)) == ["two"]
        refreshed.clock.advance(2_000)
    assert refreshed.it.is_missing("two")
    assert not refreshed.is_due


def test_every_topic_is_asked_for_where_a_pattern_needs_it(refreshed: Refreshed) -> None:
    refreshed.it.want_all()
    assert refreshed.answered(topic("others", (1, 0), id="two")) is None
    assert set(refreshed.it.known.topics) == {"others"}
    refreshed.pass_pause()
    assert refreshed.answered(topic("orders", (1, 3)), topic("others", (1, 0), id="two")) is None
    assert not refreshed.is_due


def test_a_new_leader_of_an_error_needs_no_request(refreshed: Refreshed) -> None:
    assert refreshed.it.led([NewLeader(TopicPartition("orders", 0), 2, 4)], {})
    assert not refreshed.it.led([NewLeader(TopicPartition("orders", 0), 1, 3)], {})
    assert refreshed.it.known.topics["orders"].partitions[0].leader == 2
    assert not refreshed.is_due


@pytest.mark.parametrize("seed", range(20))
def test_whatever_fails_the_last_leader_is_learnt_and_failures_pause(seed: int) -> None:
    """Answers are lost, come from brokers that are behind, or lack topics; then the cluster is whole."""
    rng = random.Random(seed)
    refreshed = Refreshed(seed)
    refreshed.it.want(["orders"])
    epoch, free_at_s = 0, -math.inf
    for _ in range(200):
        if rng.random() < 0.3:
            epoch += 1
            refreshed.it.mark_out_of_date()
        refreshed.clock.advance(rng.randrange(500))
        if not refreshed.is_due:
            continue
        assert refreshed.clock.monotonic_s() >= free_at_s, f"no pause after a failure, seed {seed}"
        refreshed.ask()
        fate = rng.random()
        if fate < 0.3:
            refreshed.it.failed()
        elif fate < 0.4:
            refreshed.it.took(answer(brokers=()))
        elif fate < 0.5:
            refreshed.it.took(answer(topic("orders", id="", code=rng.choice([3, 5]))))
        else:
            refreshed.it.took(
                answer(topic("orders", (rng.choice([-1, 1, 2]), rng.randint(max(0, epoch - 2), epoch))))
            )
        free_at_s = refreshed.clock.monotonic_s() + 0.08 if fate < 0.5 else -math.inf
    refreshed.it.mark_out_of_date()
    refreshed.clock.advance(2_000)
    refreshed.answered(topic("orders", (2, epoch + 1)))
    found = refreshed.it.known.topics["orders"].partitions[0]
    assert found[:2] == (2, epoch + 1), f"seed {seed}"
    assert not refreshed.is_due
