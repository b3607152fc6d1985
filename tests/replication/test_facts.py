"""The facts of the registry as bytes: what is written is read, and what is not ours is refused with its path."""

from __future__ import annotations

import json

import pytest

from logstore.errors import MalformedFactError
from logstore.records import TopicPartition
from logstore.replication import Check, Fact, PartitionState, Standing, Write, facts

PLACE = TopicPartition("t", 0)
ID = "A" * 22


def fact(value: object, path: str = "/p") -> Fact:
    return Fact(path, value if isinstance(value, bytes) else json.dumps(value).encode(), 3, 9)


def test_a_state_is_read_as_it_was_written():
    state = PartitionState((1, 2, 3), (1, 3), 1, 4, eligible=(2,), last_leader=1, controller_epoch=5, version=3)
    assert facts.decode_state(fact(facts.encode_state(state)), (1, 2, 3)) == state


def test_the_standings_of_a_quorum_are_read_as_they_were_written():
    state = PartitionState((1, 2), (1, 2), standings=((1, Standing(-1, 0)), (2, Standing(3, 99))), version=3)
    assert facts.decode_state(fact(facts.encode_state(state)), (1, 2)) == state


def test_a_state_of_kafka_lacks_our_keys():
    value = {"version": 1, "leader": 2, "leader_epoch": 7, "isr": [2, 1], "controller_epoch": 1, "new": 1}
    found = facts.decode_state(fact(value), (1, 2))
    assert found == PartitionState((1, 2), (1, 2), 2, 7, last_leader=2, controller_epoch=1, version=3)


GOOD = {"version": 1, "leader": 1, "leader_epoch": 2, "isr": [1], "controller_epoch": 0}


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        ([], "no JSON object"),
        ({**GOOD, "leader": "1"}, "leader '1'"),
        ({**GOOD, "leader": True}, "leader True"),
        ({**GOOD, "leader": -2}, "leader -2"),
        ({**GOOD, "leader_epoch": 2**31}, "leader_epoch 2147483648"),
        ({**GOOD, "isr": None}, "the isr: None"),
        ({**GOOD, "isr": [1, 1]}, "the isr, one of them twice"),
        ({**GOOD, "isr": [2]}, "a leader 1 outside the isr"),
        ({**GOOD, "eligible": [1]}, "replicas both in the isr"),
        ({**GOOD, "standings": [1]}, "standings [1]"),
        ({**GOOD, "standings": {"x": [1, 2]}}, "a standing 'x'"),
        ({**GOOD, "standings": {"1": [1]}}, "a standing '1'"),
        ({key: GOOD[key] for key in GOOD if key != "leader"}, "leader None"),
    ],
)
def test_a_state_that_is_none_is_refused(value, what):
    with pytest.raises(MalformedFactError, match=r"^/p: found ") as caught:
        facts.decode_state(fact(value), (1, 2))
    assert what in str(caught.value)
    assert caught.value.fact == "/p"


def test_an_assignment_is_read_as_it_was_written():
    assignment = facts.Assignment(ID, {0: (1, 2), 1: (2, 1)})
    assert facts.decode_assignment(fact(facts.encode_assignment(*assignment))) == assignment


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"topic_id": ID},
        {"topic_id": "short", "partitions": {"0": [1]}},
        {"topic_id": ID, "partitions": {}},
        {"topic_id": ID, "partitions": {"1": [1]}},
        {"topic_id": ID, "partitions": {"00": [1]}},
        {"topic_id": ID, "partitions": {"0": []}},
        {"topic_id": ID, "partitions": {"0": [1, "2"]}},
        {"topic_id": ID, "partitions": {"0": [1, 1]}},
    ],
)
def test_an_assignment_that_is_none_is_refused(value):
    with pytest.raises(MalformedFactError):
        facts.decode_assignment(fact(value))


def test_settings():
    assert facts.decode_config(fact(facts.encode_config({"a": "1"}))) == {"a": "1"}
    assert facts.decode_config(None) == {}
    with pytest.raises(MalformedFactError):
        facts.decode_config(fact({"version": 1, "config": {"a": 1}}))


def test_the_number_of_a_node():
    assert [facts.node_of(name) for name in ("0", "7", "2147483647")] == [0, 7, 2147483647]
    assert [facts.node_of(name) for name in ("", "01", "-1", "x", "2147483648", "99999999999")] == [None] * 6


def test_a_commit_is_conditional_on_the_version_and_on_the_lives_of_those_that_join():
    before = PartitionState((1, 2, 3), (1,), 1, 4, version=6)
    after = before._replace(isr=(1, 3))
    state = Write(facts.state_path(PLACE), facts.encode_state(after), 6)
    assert facts.changes_to(PLACE, before, after, {1: 8, 3: 9}) == [Check("/brokers/lives/3", 9), state]
    led = before._replace(isr=(2,), leader=2, leader_epoch=5)
    assert facts.changes_to(PLACE, before, led, {1: 8, 2: 4})[:-1] == [Check("/brokers/lives/2", 4)]
