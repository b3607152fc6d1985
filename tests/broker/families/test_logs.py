"""What partitions are asked: offsets by time and epoch, sizes, producers, and to delete records."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.batch._encode import encode
from logstore.broker import Broker
from logstore.protocol.generated.messages import (
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from logstore.store import Store
from tests.broker.wire import Wire

# --- offsets -----------------------------------------------------------------------------------


def _list(wire: Wire, version: int, *times: int, name: str = "flights", partition: int = 0, epoch: int = -1) -> Any:
    R = ListOffsetsRequest
    asked = []
    for when in times:
        each = R.ListOffsetsPartition(partition_index=partition, timestamp=when)
        if version >= 4:
            each.current_leader_epoch = epoch
        asked.append(each)
    found: Any = wire.ask(R(replica_id=-1, topics=[R.ListOffsetsTopic(name=name, partitions=asked)]), version)
    return found.topics[0].partitions


def _offset(wire: Wire, version: int, when: int, **fields: Any) -> tuple[int, int, int]:
    (found,) = _list(wire, version, when, **fields)
    return found.error_code, found.timestamp, found.offset


NONE = (-1, -1)
#: Special time, the first version that has it, and the timestamp and offset found.
SPECIAL = [
    (-1, 1, (-1, 4)),
    (-2, 1, (-1, 1)),
    (-3, 7, (3000, 2)),
    (-4, 8, (-1, 1)),
    (-5, 9, NONE),
    (-6, 11, NONE),
    (-7, 99, NONE),
]


@pytest.fixture
def flights(store: Store) -> Store:
    topic = store.create_topic("flights")
    for when in (1000, 2000, 3000, 2500):
        topic.append(b"AA", timestamp=when)
    topic.delete_records({0: 1})
    return store


@pytest.mark.parametrize(("when", "since", "expected"), SPECIAL)
@pytest.mark.parametrize("version", range(1, 12))
def test_a_special_time_is_known_from_its_version_on(
    flights: Store, wire: Wire, when: int, since: int, expected: tuple[int, int], version: int
) -> None:
    assert _offset(wire, version, when) == ((0, *expected) if version >= since else (35, -1, -1))
    (found,) = _list(wire, version, when)
    assert found.leader_epoch == (0 if version >= 4 and found.offset >= 0 else -1)


@pytest.mark.parametrize("version", [1, 4, 6, 11])
def test_a_time_gives_the_first_record_from_it_on(flights: Store, wire: Wire, version: int) -> None:
    assert _offset(wire, version, 0) == (0, 2000, 1)
    assert _offset(wire, version, 2001) == (0, 3000, 2)
    assert _offset(wire, version, 3001) == (0, -1, -1)


def test_an_empty_log_has_ends_and_no_times(store: Store, wire: Wire) -> None:
    store.create_topic("flights")
    found = {when: _offset(wire, 11, when) for when in (0, -1, -2, -3, -4, -5)}
    assert found == {
        0: (0, -1, -1),
        -1: (0, -1, 0),
        -2: (0, -1, 0),
        -3: (0, -1, -1),
        -4: (0, -1, 0),
        -5: (0, -1, -1),
    }


def test_offsets_that_are_not_told_have_an_error_of_their_own(flights: Store, wire: Wire) -> None:
    assert _offset(wire, 11, -1, name="missing")[0] == 3
    assert _offset(wire, 11, -1, partition=1)[0] == 3
    assert _offset(wire, 11, -1, epoch=1)[0] == 75
    assert [each.error_code for each in _list(wire, 11, -1, -2)] == [42]  # one partition twice


@pytest.mark.parametrize("version", range(2, 5))
def test_a_leader_epoch_ends_where_the_next_begins(flights: Store, wire: Wire, version: int) -> None:
    log = flights["flights"].log(0)
    log.replica.begin_epoch(3)
    log.append([b"UA"])
    log.replica.begin_epoch(6)  # without a record
    R = OffsetForLeaderEpochRequest

    def end(epoch: int, current: int = -1, name: str = "flights", partition: int = 0) -> tuple[int, int, int]:
        asked = R.OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
        found: Any = wire.ask(R(topics=[R.OffsetForLeaderTopic(topic=name, partitions=[asked])]), version)
        (each,) = found.topics[0].partitions
        assert each.partition == partition
        return each.error_code, each.leader_epoch, each.end_offset

    assert (end(0), end(2), end(3), end(5)) == ((0, 0, 4), (0, 0, 4), (0, 3, 5), (0, 3, 5))
    assert (end(6, current=6), end(7), end(-1)) == ((0, 6, 5), (0, -1, -1), (0, -1, -1))
    assert (end(0, current=5), end(0, current=7)) == ((74, -1, -1), (75, -1, -1))
    assert (end(0, name="missing"), end(0, partition=1)) == ((3, -1, -1), (3, -1, -1))
    flights.create_topic("new")
    assert (end(0, name="new"), end(1, name="new")) == ((0, 0, 0), (0, -1, -1))


# --- records deleted ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_from_each_partition_for_itself(store: Store, wire: Wire, version: int) -> None:
    topic = store.create_topic("flights", 4)
    for number in range(4):
        topic.append_many([b"1", b"2", b"3"], partition=number)
    store.create_topic("keyed", cleanup_policy="compact")
    R = DeleteRecordsRequest
    asked = {
        "flights": {0: 2, 1: -1, 2: 4, 3: -2, 4: 0},
        "missing": {0: 0},
        "keyed": {0: 0},
        "__consumer_offsets": {0: 0},
    }
    topics = [
        R.DeleteRecordsTopic(
            name=name,
            partitions=[R.DeleteRecordsPartition(partition_index=n, offset=offset) for n, offset in each.items()],
        )
        for name, each in asked.items()
    ]
    found: Any = wire.ask(R(topics=topics, timeout_ms=1000), version)
    told = {each.name: [(part.error_code, part.low_watermark) for part in each.partitions] for each in found.topics}
    assert told == {
        "flights": [(0, 2), (0, 3), (1, -1), (1, -1), (3, -1)],
        "missing": [(3, -1)],
        "keyed": [(44, -1)],
        "__consumer_offsets": [(17, -1)],
    }
    assert [log.log_start_offset for log in topic] == [2, 3, 0, 0]


# --- sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_are_those_of_the_records(store: Store, broker: Broker, wire: Wire, version: int) -> None:
    store.create_topic("empty")
    topic = store.create_topic("flights", 2, segment_bytes=300)
    for _ in range(5):
        topic.append(b"x" * 100, partition=1)
    size = topic[1].maintenance.size
    assert size > 5 * 160
    found: Any = wire.ask(DescribeLogDirsRequest(topics=None), version)
    (directory,) = found.results
    assert (directory.error_code, directory.log_dir) == (0, store._host.path)
    told = {
        (each.name, part.partition_index): (part.partition_size, part.offset_lag, part.is_future_key)
        for each in directory.topics
        for part in each.partitions
    }
    assert told == {
        ("empty", 0): (0, 0, False),
        ("flights", 0): (0, 0, False),
        ("flights", 1): (size, 0, False),
    }
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0


def test_sizes_of_some_partitions_are_told_alone(store: Store, wire: Wire) -> None:
    store.create_topic("flights", 3)
    R = DescribeLogDirsRequest
    topics = [
        R.DescribableLogDirTopic(topic="flights", partitions=[2, 0, 0, 7, -1]),
        R.DescribableLogDirTopic(topic="missing", partitions=[0]),
    ]
    found: Any = wire.ask(R(topics=topics), 5)
    (topic,) = found.results[0].topics
    assert (topic.name, [each.partition_index for each in topic.partitions]) == ("flights", [0, 2])
    found = wire.ask(R(topics=[]), 5)
    assert list(found.results[0].topics) == []


# --- producers ---------------------------------------------------------------------------------


def test_the_producers_of_a_partition_are_told(store: Store, wire: Wire) -> None:
    topic = store.create_topic("flights", 2)
    records = [(None, b"AA", 1000, None), (None, b"UA", 2000, None)]
    topic.log(0).replica.append_batch(bytes(encode(records, producer_id=7, producer_epoch=2, base_sequence=0)))
    R = DescribeProducersRequest
    asked = [
        R.TopicRequest(name="flights", partition_indexes=[0, 1, 2]),
        R.TopicRequest(name="missing", partition_indexes=[0]),
        R.TopicRequest(name="a/b", partition_indexes=[0]),
    ]
    found: Any = wire.ask(R(topics=asked), 0)
    codes = [[each.error_code for each in topic.partitions] for topic in found.topics]
    assert codes == [[0, 0, 3], [3], [17]]
    (producer,) = found.topics[0].partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.last_timestamp, producer.coordinator_epoch, producer.current_txn_start_offset) == (
        2000,
        -1,
        -1,
    )
    assert list(found.topics[0].partitions[1].active_producers) == []
