"""Which partition a record goes to: Kafka's hash, evenness, own choices, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import logstore
from logstore.batch._key_hash import murmur2, partition_of
from logstore.client.partitioners import Partitioner, partitioner_of
from logstore.errors import InvalidPartitionsError, InvalidSettingError, RecordTypeError, UnknownPartitionError
from logstore.testing import temporary_store


@pytest.fixture
def store():
    with temporary_store(seed=5) as opened:
        yield opened


def counts(topic):
    return [log.log_end_offset for log in topic.partitions]


@pytest.mark.row("P4")
def test_the_hash_is_that_of_kafkas_clients():
    # The examples of Kafka's own UtilsTest.testMurmur2.
    for key, expected in {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }.items():
        assert murmur2(key) == expected
        assert murmur2(memoryview(bytearray(key))) == expected
        assert partition_of(key, 7) == (expected & 0x7FFFFFFF) % 7


@pytest.mark.row("P4")
def test_2_000_keys_land_where_the_java_client_puts_them():
    """Written by `tests/interop/Partitions.java` with Kafka 4.3.1, seed 7."""
    lines = (Path(__file__).parents[1] / "fixtures" / "partitions-4.3.1.csv").read_text().splitlines()
    assert len(lines) == 2_000
    for line in lines:
        key, count, partition = line.split(",")
        assert partition_of(bytes.fromhex(key), int(count)) == int(partition), line


def test_a_key_that_is_no_buffer_is_refused():
    with pytest.raises(RecordTypeError, match=r"text\.encode"):
        partition_of("AA", 4)
    with pytest.raises(RecordTypeError, match="found int"):
        murmur2(7)
    with pytest.raises(ValueError, match="found 0"):
        partition_of(b"AA", 0)


@pytest.mark.row("P4")
@pytest.mark.row("M2", part="one process")
def test_the_same_key_always_goes_to_the_same_partition(store):
    topic = store.create_topic("flights", partitions=7)
    keys = [b"%d" % (n % 300) for n in range(3_000)]
    with store.producer() as producer:
        futures = [producer.send("flights", b"v", key) for key in keys]
    assert [future.result().partition for future in futures] == [partition_of(key, 7) for key in keys]
    for partition in range(7):
        assert {record.key for record in topic[partition].scan()} == {
            key for key in keys if partition_of(key, 7) == partition
        }


@pytest.mark.row("P4")
def test_a_key_of_any_buffer_and_with_headers_goes_where_its_bytes_go(store):
    store.create_topic("flights", partitions=5)
    with store.producer() as producer:
        for key in (b"AA", b"", b"UA 1545"):
            plain = producer.send("flights", b"v", key)
            others = [
                producer.send("flights", b"v", bytearray(key)),
                producer.send("flights", b"v", memoryview(key), headers=[("h", b"1")]),
                producer.send("flights", b"v", key, timestamp=1_767_225_600_000),
            ]
            producer.flush()
            assert {future.result().partition for future in [plain, *others]} == {partition_of(key, 5)}


@pytest.mark.row("P2")
@pytest.mark.parametrize("partitioner", ["default", "sticky", "round_robin"])
def test_records_without_a_key_are_spread_evenly(store, partitioner):
    """90 k on 3 partitions: each 30 k, but for one batch."""
    topic = store.create_topic("flights", partitions=3)
    value = b"x" * 100
    with store.producer(partitioner=partitioner, batch_size=16_384) as producer:
        for _ in range(90_000):
            producer.send("flights", value)
    batches = [view.record_count for log in topic.partitions for c in log.scan().chunks() for view in c.batches()]
    one_batch = max(batches)
    assert one_batch < 1_000
    assert sum(counts(topic)) == 90_000
    assert all(abs(count - 30_000) <= one_batch for count in counts(topic)), counts(topic)
    # Sticking fills its batches: a record each would be as even.
    assert one_batch > 100


def test_sticking_fills_a_batch_before_it_moves_on(store):
    topic = store.create_topic("flights", partitions=4)
    with store.producer(batch_size=1_000) as producer:
        order = [producer.send("flights", b"x" * 90) for _ in range(400)]
        producer.flush()
    runs = [order[0].result().partition]
    for future in order:
        if future.result().partition != runs[-1]:
            runs.append(future.result().partition)
    # In turn, and as often as there are full batches.
    assert all((after - before) % 4 == 1 for before, after in itertools.pairwise(runs))
    assert 30 <= len(runs) <= 50
    assert sum(counts(topic)) == 400


@pytest.mark.row("P2")
def test_round_robin_gives_each_partition_the_same_to_one_record(store):
    topic = store.create_topic("flights", partitions=3)
    with store.producer(partitioner="round_robin") as producer:
        for n in range(1_000):
            # Some the slow way: with a header, or a value that is not bytes.
            producer.send("flights", bytearray(b"v"), headers=[("h", None)] if n % 3 else None)
        for _ in range(1_001):
            producer.send("flights", b"v", b"a key decides nothing")
    assert sorted(counts(topic)) == [667, 667, 667]


@pytest.mark.row("P3")
def test_a_random_partitioner_is_uniform(store):
    """Pearson's chi-squared of 8 partitions: 7 degrees of freedom pass 24.3 once in a thousand times."""
    topic = store.create_topic("flights", partitions=8)
    with store.producer(partitioner="random") as producer:
        for _ in range(20_000):
            producer.send("flights", b"v")
    expected = 20_000 / 8
    assert sum((count - expected) ** 2 / expected for count in counts(topic)) < 24.3


@pytest.mark.row("P5")
def test_a_function_chooses_by_what_it_likes(store):
    cities = [b"Lima", b"Oslo", b"Cairo"]
    topic = store.create_topic("flights", partitions=3)
    asked = []

    def by_city(name, key, value, partition_count):
        asked.append((name, key, value, partition_count))
        return cities.index(value.split()[0])

    with store.producer(partitioner=by_city) as producer:
        for n in range(300):
            producer.send("flights", cities[n % 3] + b" %d" % n, b"k")
    for number, city in enumerate(cities):
        values = [record.value for record in topic[number].scan()]
        assert len(values) == 100
        assert all(value.startswith(city) for value in values)
    assert asked[0] == ("flights", b"k", b"Lima 0", 3)
    assert len(asked) == 300


@pytest.mark.row("P5")
def test_a_partition_that_is_named_counts_for_more_than_a_partitioner(store):
    topic = store.create_topic("flights", partitions=3)
    with store.producer(partitioner=lambda *_: 0) as producer:
        futures = [producer.send("flights", b"v", b"k", partition=2) for _ in range(10)]
    assert {future.result().partition for future in futures} == {2}
    assert counts(topic) == [0, 0, 10]


@pytest.mark.parametrize("partition", [3, -1, 10**20, True, "1", 1.0])
def test_a_partition_that_is_none_is_refused_and_nothing_is_sent(store, partition):
    topic = store.create_topic("flights", partitions=3)
    with store.producer() as producer:
        for headers in (None, [("h", b"")]):
            with pytest.raises(UnknownPartitionError, match="partitions 0 to 2"):
                producer.send("flights", b"v", partition=partition, headers=headers)
    assert counts(topic) == [0, 0, 0]


def test_a_partitioner_that_chooses_wrongly_is_named(store):
    class Lost(Partitioner):
        def partition(self, topic, key, value, partition_count):
            return partition_count

    topic = store.create_topic("flights", partitions=3)
    with (
        store.producer(partitioner=Lost()) as producer,
        pytest.raises(InvalidPartitionsError, match="Lost chose 3"),
    ):
        producer.send("flights", b"v")
    assert counts(topic) == [0, 0, 0]


def test_what_a_partitioner_raises_reaches_the_sender(store):
    def choose(*_):
        raise KeyError("no city")

    topic = store.create_topic("flights", partitions=3)
    with store.producer(partitioner=choose) as producer, pytest.raises(KeyError):
        producer.send("flights", b"v")
    assert counts(topic) == [0, 0, 0]


def test_settings_choose_a_partitioner_as_in_kafka(store):
    topic = store.create_topic("flights", partitions=4)
    java = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    with store.producer({"partitioner.class": java}) as producer:
        for _ in range(8):
            producer.send("flights", b"v", b"same")
    assert counts(topic) == [2, 2, 2, 2]
    with store.producer({"partitioner.ignore.keys": "true"}) as producer:
        found = {producer.send("flights", b"v", b"%d" % n) for n in range(100)}
    assert len({future.result().partition for future in found}) == 1
    with pytest.raises(InvalidSettingError, match="found 'by_city'"):
        store.producer(partitioner="by_city")
    with pytest.raises(InvalidSettingError, match="found int"):
        partitioner_of(7)


@pytest.mark.row("F16", part="one process")
def test_partitions_that_are_added_are_used_from_the_next_batch_on(store):
    store.create_topic("flights", partitions=2)
    keys = [b"%d" % n for n in range(200)]
    with store.producer(batch_size=500) as producer:
        for key in keys:
            producer.send("flights", b"v", key)
        producer.flush()
        store.add_partitions("flights", 5)
        futures = [producer.send("flights", b"w", key) for key in keys]
        producer.flush()
        later = [producer.send("flights", b"x", key) for key in keys]
    assert producer.metrics().records == 600
    assert len({future.result().partition for future in futures}) == 5
    assert [future.result().partition for future in later] == [partition_of(key, 5) for key in keys]
    assert sum(counts(store["flights"])) == 600


@pytest.mark.row("M2", part="one process")
def test_256_partitions_take_and_return_every_record_and_none_is_empty(tmp_path):
    keys = [b"%d" % n for n in range(20_000)]
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights", partitions=256)
        with store.producer() as producer:
            for key in keys:
                producer.send("flights", key, key)
        found = [[record.value for record in log.scan()] for log in topic.partitions]
    assert all(found)
    assert sorted(value for values in found for value in values) == sorted(keys)
    for number, values in enumerate(found):
        assert {partition_of(value, 256) for value in values} == {number}
