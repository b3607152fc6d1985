"""Topics of one request: made and grown together, each with an answer of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from logstore.broker import served
from logstore.errors import StorageError
from logstore.protocol.generated.messages import CreatePartitionsRequest, CreateTopicsRequest, MetadataRequest
from logstore.records import TopicPartition
from logstore.store import Store
from logstore.store.catalog import layout
from tests.broker.wire import Wire

COUNT = 20


@pytest.fixture
def saves(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the topics of each write of the catalogue from now on."""
    topics = store._host.topics_table
    save, found = topics._save_locked, []

    def save_and_note(entries: Mapping[str, Any]) -> None:
        found.append(sorted(entries))
        save(entries)

    monkeypatch.setattr(topics, "_save_locked", save_and_note)
    return found


def _create(wire: Wire, *wanted: Any) -> dict[str, int]:
    found = wire.ask(CreateTopicsRequest(topics=list(wanted), timeout_ms=1000), 7)
    assert [each.name for each in found.topics] == [each.name for each in wanted]
    return {each.name: each.error_code for each in found.topics}


def _new(name: str, partitions: int = 1, **settings: str) -> Any:
    R = CreateTopicsRequest
    configs = [R.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    return R.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)


def test_topics_of_one_request_are_made_together(store: Store, wire: Wire, saves: list[list[str]]) -> None:
    names = sorted(f"t{n}" for n in range(COUNT))
    store.create_topic("there")
    saves.clear()
    bad = {"there": 36, "a/b": 17, "none": 37, "soon": 40}
    wanted = [_new("there"), *map(_new, names), _new("a/b"), _new("none", 0), _new("soon", retention_ms="soon")]
    assert _create(wire, *wanted) == dict.fromkeys(names, 0) | bad
    assert saves == [names, names]  # announced, and made
    assert store.topics() == sorted([*names, "there"])


def test_topics_that_cannot_be_made_together_are_made_one_by_one(
    store: Store, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two names that look the same, of which one may be there.
    assert _create(wire, _new("a.b"), _new("c"), _new("a_b")) == {"a.b": 0, "c": 0, "a_b": 17}
    # A disk that refuses one of them.
    begin = layout.begin_partitions

    def begin_but_one(root: Any, wanted: Any) -> None:
        if any(name.topic == "refused" for name in wanted):
            raise StorageError("the disk refused")
        begin(root, wanted)

    monkeypatch.setattr(layout, "begin_partitions", begin_but_one)
    found = _create(wire, _new("d"), _new("refused"), _new("e"))
    assert (found["d"], found["e"], found["refused"]) == (0, 0, StorageError.code)
    assert store.topics() == ["a.b", "c", "d", "e"]


def test_topics_that_are_asked_for_are_made_together(store: Store, wire: Wire, saves: list[list[str]]) -> None:
    names = sorted(f"t{n}" for n in range(COUNT))
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in [*names, "a/b"]]
    found = wire.ask(MetadataRequest(topics=asked), 12)
    assert [(each.name, each.error_code) for each in found.topics] == [*((name, 0) for name in names), ("a/b", 17)]
    assert saves == [names, names]
    assert store.topics() == names


def test_topics_of_one_request_are_grown_together(store: Store, wire: Wire, saves: list[list[str]]) -> None:
    R = CreatePartitionsRequest
    names = sorted(f"t{n}" for n in range(COUNT))
    for topic in store.create_topics([*names, "large"]):
        topic.append(b"its directories are durable")
    store.add_partitions("large", 9)
    saves.clear()
    wanted = [
        R.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in [*names, "missing", "large"]
    ]
    found = wire.ask(R(topics=wanted, timeout_ms=1000), 3)
    codes = {each.name: each.error_code for each in found.results}
    assert codes == dict.fromkeys(names, 0) | {"missing": 3, "large": 37}
    assert saves == [names, names]
    assert {store[name].partition_count for name in names} == {3}
    store[names[0]].log(2).append([b"in a new one"])


def test_topics_that_cannot_be_grown_together_are_grown_one_by_one(store: Store, wire: Wire) -> None:
    R = CreatePartitionsRequest
    for name in ("a", "b", "c"):
        store.create_topic(name).append(b"its directories are durable")
    layout.partition_directory(
        store._host.root, TopicPartition("b", 1)
    ).create()  # which the catalogue does not know
    wanted = [R.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("a", "b", "c")]
    found = wire.ask(R(topics=wanted, timeout_ms=1000), 3)
    assert [each.error_code != 0 for each in found.results] == [False, True, False]
    assert [store[name].partition_count for name in ("a", "b", "c")] == [2, 1, 2]


def test_one_request_makes_at_most_as_many_partitions_as_with_kafka(
    store: Store, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made together, under a lock; of a request for more nothing is made."""
    monkeypatch.setattr(served, "MOST_NEW_PARTITIONS", 10)
    assert _create(wire, _new("a", 5), _new("b", 6), _new("none", 0)) == {"a": 44, "b": 44, "none": 44}
    assert store.topics() == []
    assert _create(wire, _new("a", 5), _new("b", 5), _new("none", 0)) == {"a": 0, "b": 0, "none": 37}
    grow = CreatePartitionsRequest.CreatePartitionsTopic
    grows = [grow(name=name, count=11, assignments=None) for name in ("a", "b")]
    found = wire.ask(CreatePartitionsRequest(topics=grows, timeout_ms=1000), 3)
    assert [each.error_code for each in found.results] == [44, 44]
    found = wire.ask(CreatePartitionsRequest(topics=grows[:1], timeout_ms=1000), 3)
    assert [each.error_code for each in found.results] == [0]
    assert (len(store["a"]), len(store["b"])) == (11, 5)
