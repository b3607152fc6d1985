"""What is known of a cluster after each answer: epochs never fall, and nothing new is nothing replaced."""

from __future__ import annotations

import random
from typing import Any

import pytest

from logstore.protocol.generated.messages import MetadataResponse as R
from logstore.records import TopicPartition
from logstore.remote.metadata.known import KnownBroker, KnownCluster, NewLeader, TopicFault

TP = TopicPartition("orders", 0)


def topic(name: str, *leaders: tuple[int, int], id: str = "one", code: int = 0) -> Any:
    return R.MetadataResponseTopic(
        name=name,
        topic_id=id,
        error_code=code,
        partitions=[
            R.MetadataResponsePartition(
                partition_index=number,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[leader],
            )
            for number, (leader, epoch) in enumerate(leaders)
        ],
    )


def answer(*topics: Any, brokers: tuple[int, ...] = (1, 2), cluster: str | None = "c") -> Any:
    return R(
        brokers=[R.MetadataResponseBroker(node_id=each, host=f"broker-{each}", port=9092) for each in brokers],
        cluster_id=cluster,
        controller_id=1,
        topics=topics,
    )


def learnt(*answers: Any, **given: Any) -> KnownCluster:
    known = KnownCluster()
    for each in answers:
        known, _ = known.learnt(each, **given)
    return known


def leader_of(known: KnownCluster, partition: TopicPartition = TP) -> tuple[int, int]:
    found = known.leader(partition)
    assert found is not None
    return found[:2]


def test_an_answer_is_known_by_name_and_by_id() -> None:
    known = learnt(answer(topic("orders", (1, 3), (2, 4))))
    assert leader_of(known) == (1, 3)
    assert known.names == {"one": "orders"}
    assert known.brokers[2].address == ("broker-2", 9092)
    assert known.leader(TopicPartition("orders", 2)) is known.leader(TopicPartition("others", 0)) is None


def test_a_broker_that_is_behind_changes_no_leader() -> None:
    known = learnt(answer(topic("orders", (2, 5), (2, 5))), answer(topic("orders", (1, 4))))
    assert leader_of(known) == (2, 5)
    assert leader_of(known, TopicPartition("orders", 1)) == (2, 5), "a partition does not vanish"


def test_the_same_epoch_may_lose_its_leader() -> None:
    assert leader_of(learnt(answer(topic("orders", (2, 5))), answer(topic("orders", (-1, 5))))) == (-1, 5)


def test_brokers_without_epochs_are_believed() -> None:
    assert leader_of(learnt(answer(topic("orders", (2, 5))), answer(topic("orders", (1, -1))))) == (1, -1)


def test_a_topic_made_again_begins_with_its_own_epochs_and_partitions() -> None:
    known = learnt(answer(topic("orders", (2, 5), (2, 5))), answer(topic("orders", (1, 0), id="two")))
    assert leader_of(known) == (1, 0)
    assert known.names == {"two": "orders"}
    assert len(known.topics["orders"].partitions) == 1


def test_an_answer_that_changes_nothing_replaces_nothing() -> None:
    known = learnt(answer(topic("orders", (2, 5))))
    assert known.learnt(answer(topic("orders", (2, 5))))[0] is known
    assert known.learnt(answer(topic("orders", (1, 4))))[0] is known
    assert known.learnt(answer(brokers=()))[0] is known
    assert known.led([NewLeader(TP, 1, 5)], {}) is known
    assert known.without(["others"]) is known


def test_another_cluster_has_other_epochs() -> None:
    known = learnt(answer(topic("orders", (2, 5))), answer(topic("orders", (1, 0)), cluster="d"))
    assert leader_of(known) == (1, 0)


def test_an_answer_with_every_topic_tells_which_are_deleted() -> None:
    first = answer(topic("orders", (1, 0)), topic("others", (1, 0), id="two"))
    assert set(learnt(first, answer(topic("others", (1, 0), id="two"))).topics) == {"orders", "others"}
    assert set(learnt(first, answer(topic("others", (1, 0), id="two")), all_topics=True).topics) == {"others"}


@pytest.mark.parametrize(("id", "kept"), [("", False), ("one", False), ("former", True)])
def test_a_refused_topic_is_forgotten_unless_the_answer_is_about_a_former_one(id: str, kept: bool) -> None:
    known, faults = learnt(answer(topic("orders", (1, 0)))).learnt(answer(topic("orders", id=id, code=3)))
    assert faults == [TopicFault("orders", id, 3)]
    assert ("orders" in known.topics) is kept


def test_new_leaders_of_an_error_are_taken_with_their_addresses() -> None:
    known = learnt(answer(topic("orders", (1, 3)), brokers=(1,)))
    assert known.led([NewLeader(TP, 7, 4)], {}) is known, "no address"
    led = known.led([NewLeader(TP, 7, 4)], {7: KnownBroker("broker-7", 9092)})
    assert leader_of(led) == (7, 4)
    assert led.brokers[7].host == "broker-7"
    assert leader_of(known) == (1, 3), "the former value is as it was"
    assert led.led([NewLeader(TP, 1, 3)], {}) is led
    assert led.led([NewLeader(TopicPartition("others", 0), 1, 9)], {}) is led


@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_answers_lowers_an_epoch(seed: int) -> None:
    rng = random.Random(seed)
    known, highest = learnt(answer(topic("orders", (1, 0)))), 0
    for _ in range(200):
        epoch, leader = rng.randrange(50), rng.randrange(1, 3)
        if rng.random() < 0.5:
            known, _ = known.learnt(answer(topic("orders", (leader, epoch))))
        else:
            known = known.led([NewLeader(TP, leader, epoch)], {})
        highest = max(highest, epoch)
        assert leader_of(known)[1] == highest, f"seed {seed}"


def test_values_cannot_be_changed() -> None:
    known = learnt(answer(topic("orders", (1, 0))))
    with pytest.raises(TypeError):
        known.topics["others"] = known.topics["orders"]  # type: ignore[index]  # refused
    with pytest.raises(TypeError):
        del known.topics["orders"].partitions[0]  # type: ignore[attr-defined]  # refused
