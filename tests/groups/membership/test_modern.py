"""One member of a KIP-848 group, driven step by step: what it says, and how it reacts to each answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from logstore.errors import UnsupportedVersionError
from logstore.groups.membership.member import MemberPhase
from logstore.groups.membership.modern import MemberSubscription, ModernMember
from logstore.groups.membership.steps import (
    MembershipFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    SendRequest,
    TopicIdsWanted,
)
from logstore.groups.membership.timing import MemberSettings
from logstore.protocol.generated.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from logstore.records import TopicPartition
from tests.groups.coordinator import CODE
from tests.groups.membership.drive import MemberDrive

X = [TopicPartition("x", n) for n in range(4)]
SUBSCRIBED = MemberSubscription(frozenset({"x"}))


class Drive(MemberDrive):
    """The driver of one member."""

    member: ModernMember

    def __init__(self, subscription: MemberSubscription = SUBSCRIBED, **settings: Any) -> None:
        super().__init__()
        self.member = ModernMember(
            MemberSettings(group_id="g", **settings), 0, server_assignor="uniform", rng=Random(1)
        )
        self.member.subscribe(subscription, 0)
        self.run()
        found = FindCoordinatorResponse.Coordinator(key="g", node_id=7)
        (search,) = self.seen(SendRequest)
        assert isinstance(search.message, FindCoordinatorRequest)
        self.coordinator_is(found)

    def coordinator_is(self, found: FindCoordinatorResponse.Coordinator) -> None:
        last = [one for one in self.seen(SendRequest) if isinstance(one.message, FindCoordinatorRequest)][-1]
        self.member.answered(last.number, FindCoordinatorResponse(coordinators=[found]), self.now)
        self.run()

    @property
    def sent(self) -> list[SendRequest]:
        return [one for one in self.seen(SendRequest) if isinstance(one.message, ConsumerGroupHeartbeatRequest)]

    @property
    def last(self) -> Any:
        return self.sent[-1].message

    def answer(
        self, epoch: int = 1, assigned: dict[str, list[int]] | None = None, error: str = "NONE", **fields: Any
    ) -> None:
        kind = ConsumerGroupHeartbeatResponse
        found = None
        if assigned is not None:
            rows = [kind.TopicPartitions(topic_id=one, partitions=numbers) for one, numbers in assigned.items()]
            found = kind.Assignment(topic_partitions=rows)
        response = kind(
            error_code=CODE[error], member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=found, **fields
        )
        self.member.answered(self.sent[-1].number, response, self.now)
        self.run()

    def holding(self, numbers: list[int]) -> Drive:
        self.answer(1, {"id-x": numbers})
        self.member.topics_named({"id-x": "x"}, self.now)
        self.run()
        self.finish()
        self.finish()
        self.answer(1)
        assert self.member.held == {X[n] for n in numbers}
        return self


def owned(message: Any) -> dict[str, list[int]] | None:
    if message.topic_partitions is None:
        return None
    return {one.topic_id: [*one.partitions] for one in message.topic_partitions}


def test_the_first_heartbeat_says_everything_and_later_ones_only_what_has_changed() -> None:
    one = Drive(client_rack="east", max_poll_interval_ms=60_000)
    first = one.last
    assert one.sent[0].node_id == 7
    assert (first.member_epoch, first.rack_id, first.rebalance_timeout_ms) == (0, "east", 60_000)
    assert (first.subscribed_topic_names, first.server_assignor, owned(first)) == (["x"], "uniform", {})
    assert first.member_id == one.member.member_id
    first.encode(0)
    one.answer(3, {})
    one.run(for_ms=5_000)
    later = one.last
    assert (later.member_epoch, later.subscribed_topic_names, later.server_assignor) == (3, None, None)
    assert (owned(later), later.rebalance_timeout_ms, later.rack_id) == (None, -1, None)
    one.answer(3)
    one.member.subscribe(MemberSubscription(frozenset({"x", "y"})), one.now)
    one.run()
    assert one.last.subscribed_topic_names == ["x", "y"]


def test_topics_are_named_by_id_and_wait_for_their_names() -> None:
    one = Drive()
    one.answer(1, {"id-x": [0, 1]})
    assert one.seen(TopicIdsWanted) == [TopicIdsWanted(("id-x",))]
    assert one.seen(PartitionsAssigned) == [PartitionsAssigned(())]
    one.finish()
    one.member.topics_named({"id-x": "x"}, one.now)
    one.run()
    assert one.seen(PartitionsAssigned)[-1] == PartitionsAssigned((X[0], X[1]))
    heartbeats = len(one.sent)
    one.finish()
    assert len(one.sent) == heartbeats + 1  # at once: what it holds is confirmed
    assert owned(one.last) == {"id-x": [0, 1]}


def test_a_partition_is_said_to_be_held_until_on_revoked_has_ended() -> None:
    one = Drive().holding([0, 1, 2])
    one.run(for_ms=5_000)
    one.answer(1, {"id-x": [0]})
    assert one.seen(PartitionsRevoked) == [PartitionsRevoked((X[1], X[2]))]
    one.run(for_ms=5_000)
    assert owned(one.last) is None  # no change: the callback runs
    one.answer(1)
    heartbeats = len(one.sent)
    one.finish()
    assert len(one.sent) == heartbeats + 1
    assert owned(one.last) == {"id-x": [0]}
    one.answer(2, {"id-x": [0, 3]})
    one.finish()
    assert one.member.held == {X[0], X[3]}
    assert one.member.epoch == 2


def test_a_topic_that_was_made_again_is_another_one() -> None:
    one = Drive().holding([0, 1])
    one.member.topics_named({"id-again": "x"}, one.now)
    one.run(for_ms=5_000)
    one.answer(2, {"id-again": [0, 1]})
    assert one.seen(PartitionsRevoked) == [PartitionsRevoked((X[0], X[1]))]
    one.finish()
    one.finish()
    assert one.seen(PartitionsAssigned)[-1] == PartitionsAssigned((X[0], X[1]))
    assert len(one.seen(PartitionsAssigned)) == 3
    assert owned(one.last) == {"id-again": [0, 1]}  # the former ones are not held any more


def test_after_a_heartbeat_without_an_answer_it_says_everything() -> None:
    one = Drive().holding([0, 1])
    one.run(for_ms=5_000)
    one.member.failed(one.sent[-1].number, one.now)
    one.run(for_ms=150)
    one.coordinator_is(FindCoordinatorResponse.Coordinator(key="g", node_id=8))
    assert (one.sent[-1].node_id, one.last.member_epoch) == (8, 1)
    assert (one.last.subscribed_topic_names, owned(one.last)) == (["x"], {"id-x": [0, 1]})


def test_an_answer_after_its_time_counts_as_none() -> None:
    one = Drive().holding([0])
    one.run(for_ms=5_000)
    one.now += one.sent[-1].timeout_ms + 1  # the process stands still
    one.answer(1, {"id-x": [0, 1]})
    assert one.member.held == {X[0]}
    one.run(for_ms=150)
    one.coordinator_is(FindCoordinatorResponse.Coordinator(key="g", node_id=7))
    assert owned(one.last) == {"id-x": [0]}


@pytest.mark.parametrize("name", ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_an_error_of_the_coordinator_is_tried_again(name: str) -> None:
    one = Drive().holding([0])
    one.run(for_ms=5_000)
    heartbeats = len(one.sent)
    one.answer(error=name)
    assert len(one.sent) == heartbeats
    one.run(for_ms=150)
    if one.member.coordinator is None:
        one.coordinator_is(FindCoordinatorResponse.Coordinator(key="g", node_id=7))
    assert len(one.sent) == heartbeats + 1
    assert one.member.held == {X[0]}


@pytest.mark.parametrize("name", ["FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
def test_a_fenced_member_loses_all_before_it_joins_again_with_its_id(name: str) -> None:
    one = Drive().holding([0, 1])
    one.run(for_ms=5_000)
    heartbeats = len(one.sent)
    one.answer(error=name)
    assert one.seen(PartitionsLost) == [PartitionsLost((X[0], X[1]))]
    assert len(one.sent) == heartbeats  # `on_lost` comes first
    one.finish()
    assert (one.last.member_epoch, owned(one.last)) == (0, {})
    assert one.last.member_id == one.sent[0].message.member_id  # type: ignore[attr-defined]  # any message
    one.answer(error=name)
    assert len(one.sent) == heartbeats + 1  # an older life of this id is still there: no storm
    one.run(for_ms=150)
    assert len(one.sent) == heartbeats + 2


FINAL = "FENCED_INSTANCE_ID"
FAILS = [
    FINAL,
    "UNRELEASED_INSTANCE_ID",
    "UNSUPPORTED_ASSIGNOR",
    "GROUP_MAX_SIZE_REACHED",
    "GROUP_AUTHORIZATION_FAILED",
    "INVALID_REGULAR_EXPRESSION",
    "INVALID_REQUEST",
    "UNSUPPORTED_VERSION",
]


@pytest.mark.parametrize("name", FAILS)
def test_other_errors_fail_with_kafkas_code_and_text(name: str) -> None:
    one = Drive(group_instance_id="host").holding([0])
    one.run(for_ms=5_000)
    one.answer(error=name, error_message="as the broker says")
    one.finish()
    assert one.seen(PartitionsLost) == [PartitionsLost((X[0],))]
    (failure,) = one.seen(MembershipFailed)
    assert failure.error.code == CODE[name]
    assert "as the broker says" in str(failure.error)
    assert failure.is_final is (name == FINAL)
    heartbeats = len(one.sent)
    one.run(for_ms=60_000)
    one.member.polled(one.now)
    one.run()
    assert len(one.sent) == heartbeats + (name != FINAL)


def test_a_topic_without_rights_is_reported_and_the_membership_goes_on() -> None:
    one = Drive().holding([0])
    one.run(for_ms=5_000)
    one.answer(error="TOPIC_AUTHORIZATION_FAILED")
    assert [failure.is_final for failure in one.seen(MembershipFailed)] == [False]
    assert one.member.held == {X[0]}
    one.run(for_ms=150)
    assert one.last.member_epoch == 1
    assert owned(one.last) == {"id-x": [0]}


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("host", -2)])
def test_it_leaves_after_on_revoked(instance_id: str | None, epoch: int) -> None:
    one = Drive(group_instance_id=instance_id).holding([0])
    heartbeats = len(one.sent)
    one.member.close(one.now)
    one.run()
    assert len(one.sent) == heartbeats
    one.finish()
    assert (one.last.member_epoch, one.last.instance_id) == (epoch, instance_id)
    assert one.seen(PartitionsRevoked) == [PartitionsRevoked((X[0],))]
    one.answer(epoch)
    assert one.member.phase is MemberPhase.CLOSED
    assert one.member.deadline_ms() is None


def test_a_member_whose_first_heartbeat_has_no_answer_leaves_too() -> None:
    one = Drive()
    one.member.close(one.now)
    one.run()
    assert one.last.member_epoch == -1


def test_a_member_that_does_not_poll_leaves_and_joins_when_it_polls() -> None:
    one = Drive(max_poll_interval_ms=10_000).holding([0])
    one.run(for_ms=5_000)
    one.answer(1)
    one.run(for_ms=5_000)
    assert one.last.member_epoch == -1
    assert one.seen(PartitionsLost) == [PartitionsLost((X[0],))]
    one.finish()
    heartbeats = len(one.sent)
    one.run(for_ms=60_000)
    assert len(one.sent) == heartbeats
    one.member.polled(one.now)
    one.run()
    assert (one.last.member_epoch, owned(one.last)) == (0, {})


def test_a_pattern_is_resolved_by_the_broker_from_version_1_on() -> None:
    one = Drive(MemberSubscription(pattern="x.*"))
    assert (one.last.subscribed_topic_regex, one.last.subscribed_topic_names) == ("x.*", [])
    one.last.encode(1)
    with pytest.raises(UnsupportedVersionError):
        one.last.encode(0)
    one.answer(1, {})
    one.finish()
    one.member.subscribe(SUBSCRIBED, one.now)
    one.run()
    assert (one.last.subscribed_topic_regex, one.last.subscribed_topic_names) == ("", ["x"])


def test_a_commit_that_is_refused_tells_about_the_membership() -> None:
    one = Drive().holding([0])
    assert one.member.commit_refused(CODE["NOT_COORDINATOR"], 1, one.now)
    assert one.member.coordinator is None
    one = Drive().holding([0])
    assert one.member.commit_refused(CODE["STALE_MEMBER_EPOCH"], 0, one.now)
    assert not one.member.commit_refused(CODE["STALE_MEMBER_EPOCH"], 1, one.now)
    heartbeats = len(one.sent)
    assert not one.member.commit_refused(CODE["UNKNOWN_MEMBER_ID"], 1, one.now)
    one.run()
    assert len(one.sent) == heartbeats + 1
    assert not one.seen(PartitionsLost)  # the next heartbeat tells
