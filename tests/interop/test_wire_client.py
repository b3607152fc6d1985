"""Our client against a real broker: what Kafka's Java client wrote is read, what we write it reads.

Fetches go through Spark's back end where they can, since that is what depends on them; the broker's own answers
(offsets, times, epochs) are compared with what the Java client says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from logstore.batch._batch import Batches
from logstore.batch._encode import Encoder, encode
from logstore.client.backend.ranges import Range
from logstore.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConfigError,
    DataLossError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicExistsError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.protocol.generated.messages import FetchRequest, ListOffsetsRequest, MetadataRequest
from logstore.records import Codec, Isolation, TopicPartition
from logstore.remote.backend.ranges import ClusterRanges
from logstore.remote.client import EARLIEST, LATEST, Client, EpochEnd, NewTopic
from logstore.remote.network.link import BrokerLink
from logstore.remote.producer import IdempotentProducer
from tests.interop.broker import Broker
from tests.interop.clients import JavaClient, Read, Row
from tests.interop.make_fixtures import AWKWARD, START_MS, several
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

CODECS = list(Codec)


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.bootstrap) as made:
        yield made


@pytest.fixture(scope="module")
def backends(broker: Broker) -> Iterator[Callable[[Isolation], ClusterRanges]]:
    made = {each: ClusterRanges(broker.bootstrap, isolation=each) for each in Isolation}
    yield made.__getitem__
    for each in made.values():
        each.close()


def scan(backend: ClusterRanges, tp: TopicPartition, max_bytes: int = 4 << 20) -> list[Read]:
    """Every record of a partition that the back end's isolation sees, as a reader goes about it."""
    found: list[Read] = []
    range = Range(tp.topic, tp.partition, backend.earliest([tp])[tp], backend.latest([tp])[tp])
    range = range._replace(topic_id=backend.topic(tp.topic).id)
    while range.start < range.end:
        run = backend.fetch(range, max_bytes)
        found += [Read(r.offset, Row(r.timestamp_ms, r.key, r.value, r.headers)) for r in run]
        assert run.next_offset > range.start
        range = range._replace(start=run.next_offset)
    return found


def rows_as_encoded(
    rows: list[Row],
) -> list[tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]]:
    return [(row.key, row.value, row.timestamp_ms, row.headers) for row in rows]


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """A broker ends transactions, compacts and deletes when it likes."""
    wait_for(condition, seconds, every_s=0.05)


# --- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_what_java_wrote_is_read_in_every_codec(
    java: JavaClient, backends: Callable[[Isolation], ClusterRanges], codec: Codec
) -> None:
    topic = f"java-{codec.name.lower()}"
    java.create(topic)
    java.open(topic, compression_type=codec.name.lower())
    sent = []
    for number in range(20):
        sent += java.send(topic, topic, AWKWARD if number == 7 else several(50, number))
    java.close(topic)
    for size in (1, 3_000, 4 << 20):
        assert scan(backends(Isolation.READ_COMMITTED), TopicPartition(topic, 0), size) == sent


def test_transactions_are_filtered_as_java_does(
    java: JavaClient, client: Client, backends: Callable[[Isolation], ClusterRanges]
) -> None:
    topic = "transactions"
    java.create(topic)
    for name in ("one", "two"):
        java.open(name, transactional_id=name)
    java.open("plain")
    for number in range(12):
        java.begin("one")
        java.begin("two")
        java.send("one", topic, several(3, number))
        java.send("two", topic, several(2, number + 100))
        java.send("plain", topic, several(1, number + 200))
        java.send("one", topic, several(2, number + 300))
        java.commit("one") if number % 3 else java.abort("one")
        java.send("two", topic, several(1, number + 400))
        java.abort("two") if number % 2 else java.commit("two")
    java.begin("one")
    java.send("one", topic, several(1, 999))
    java.send("plain", topic, several(4, 1000))
    tp = TopicPartition(topic, 0)
    until(lambda: len(scan(backends(Isolation.READ_COMMITTED), tp)) == len(java.read(topic, "read_committed")))
    for isolation in Isolation:
        wanted = java.read(topic, isolation.value)
        for size in (1, 700, 4 << 20):
            assert scan(backends(isolation), tp, size) == wanted
    committed, high = (
        client.list_offsets({tp: LATEST}, each)[tp].offset for each in ("read_committed", "read_uncommitted")
    )
    assert committed < high
    java.commit("one")
    until(lambda: client.list_offsets({tp: LATEST}, "read_committed")[tp].offset > high)
    for name in ("one", "two", "plain"):
        java.close(name)


def test_times_and_epochs_are_as_the_broker_says(java: JavaClient, client: Client) -> None:
    java.create("times")
    java.open("times")
    java.send("times", "times", [Row(START_MS + step, b"k", b"v") for step in (5, 1, 9, 3, 9, 12)])
    java.close("times")
    tp = TopicPartition("times", 0)
    times = [START_MS + step for step in range(14)]
    wanted = java.times("times", times)
    found = [client.list_offsets({tp: each})[tp] for each in times]
    assert [(each.timestamp_ms, each.offset) if each.offset >= 0 else None for each in found] == wanted
    assert client.list_offsets({tp: EARLIEST})[tp].offset == 0
    assert client.list_offsets({tp: LATEST})[tp].leader_epoch == 0
    assert client.offset_for_leader_epoch({tp: 0})[tp] == EpochEnd(0, 6)
    assert client.offset_for_leader_epoch({tp: 3})[tp].end_offset == -1


def test_gaps_of_compaction_are_passed(
    java: JavaClient, client: Client, backends: Callable[[Isolation], ClusterRanges]
) -> None:
    topic = "compacted"
    java.create(topic, cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio="0.01")
    java.open(topic)
    deadline = time.monotonic() + 120
    count = 0
    tp = TopicPartition(topic, 0)
    while True:
        # A segment is rolled by the times of its records.
        rows = [Row(START_MS + count, b"%d" % (number % 7), b"%d" % (count + number)) for number in range(50)]
        java.send(topic, topic, rows)
        count += len(rows)
        found = scan(backends(Isolation.READ_COMMITTED), tp)
        if len(found) < count // 2 and count > 1000:
            break
        assert time.monotonic() < deadline
    java.close(topic)
    end = client.list_offsets({tp: LATEST})[tp].offset
    assert end == count
    for size in (1, 4 << 20):
        found = scan(backends(Isolation.READ_COMMITTED), tp, size)
        last = {read.row.key: read.row.value for read in found}
        assert last == {b"%d" % key: b"%d" % max(n for n in range(count) if n % 50 % 7 == key) for key in range(7)}
        assert [read.offset for read in found] == sorted({read.offset for read in found})


def test_deleted_offsets_and_a_topic_made_again(
    java: JavaClient, client: Client, backends: Callable[[Isolation], ClusterRanges]
) -> None:
    topic = "short-lived"
    tp = TopicPartition(topic, 0)
    java.create(topic)
    java.open(topic)
    for _ in range(3):
        java.send(topic, topic, several(10, 1))
    java.delete(topic, 15)
    old = client.topic(topic).id
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 3 of partition short-lived-0 was deleted: .* 15 to"):
        client.fetch(tp, 3)
    with pytest.raises(OffsetOutOfRangeError, match="offset 31 of partition short-lived-0 is not there yet"):
        client.fetch(tp, 31)
    backend = backends(Isolation.READ_COMMITTED)
    assert [read.offset for read in scan(backend, tp)] == list(range(15, 30))
    client.delete_topics([topic])
    until(lambda: topic not in client.metadata().topics)
    with pytest.raises(UnknownTopicError):
        client.fetch(tp, 20, topic_id=old)
    client.create_topics([NewTopic(topic, 1)])
    java.send(topic, topic, several(1, 5))
    java.close(topic)
    with pytest.raises(TopicRecreatedError):
        client.fetch(tp, 20, topic_id=old)
    with pytest.raises(DataLossError, match="deleted and created again"):
        backend.fetch(Range(topic, 0, 20, 30, old), 1000)
    assert len(scan(backend, tp)) == 1


def test_every_version_that_both_know_reads_the_same(java: JavaClient, client: Client) -> None:
    java.create("versions")
    java.open("versions", compression_type="lz4")
    java.send("versions", "versions", several(200, 3))
    java.close("versions")
    topic = client.topic("versions")
    (broker,) = client.cluster.known.brokers.values()
    connection = BrokerLink(client.cluster.network, client.config, broker.address)
    seen = set()
    for version in range(connection.versions[1][0], connection.version_of(FetchRequest) + 1):
        by_id = version >= 13
        answer = connection.ask(
            FetchRequest(
                max_bytes=1 << 20,
                topics=[
                    FetchRequest.FetchTopic(
                        topic="" if by_id else "versions",
                        topic_id=topic.id if by_id else "",
                        partitions=[FetchRequest.FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20)],
                    )
                ],
            ),
            version=version,
        )
        seen.add(bytes(answer.responses[0].partitions[0].records))
    assert len(seen) == 1
    assert Batches(seen.pop()).count() == 200
    for version in range(connection.version_of(ListOffsetsRequest) + 1):
        if version < connection.versions[ListOffsetsRequest.API_KEY][0]:
            continue
        part = ListOffsetsRequest.ListOffsetsPartition(timestamp=LATEST)
        answer = connection.ask(
            ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="versions", partitions=[part])]
            ),
            version=version,
        )
        assert answer.topics[0].partitions[0].offset == 200
    for version in range(connection.version_of(MetadataRequest) + 1):
        wanted = [MetadataRequest.MetadataRequestTopic(name="versions")]
        answer = connection.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=version < 4), version=version
        )
        assert len(answer.topics[0].partitions) == 1
    connection.close()


def test_a_long_poll_ends_with_the_next_record(client: Client) -> None:
    client.create_topics([NewTopic("polled", 1)])
    tp = TopicPartition("polled", 0)
    assert client.fetch(tp, 0, max_wait_ms=50).next_offset == 0
    with IdempotentProducer(client) as producer:
        producer.send(tp, encode([b"a"], timestamp_ms=START_MS))
        assert Batches(client.fetch(tp, 0, max_wait_ms=30_000).data).values() == [b"a"]
        fetched = client.fetch(tp, 1, max_wait_ms=10, min_bytes=1)
        assert (fetched.data, fetched.next_offset, fetched.high_watermark) == (b"", 1, 1)


# --- writing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_what_we_write_java_reads_in_every_codec(java: JavaClient, client: Client, codec: Codec) -> None:
    topic = f"ours-{codec.name.lower()}"
    client.create_topics([NewTopic(topic, 1)])
    tp = TopicPartition(topic, 0)
    wanted: list[Row] = []
    with IdempotentProducer(client) as producer:
        encoder = Encoder()
        for number in range(30):
            rows = AWKWARD if number == 7 else several(50, number)
            encoder.begin(timestamp_ms=START_MS, codec=codec, max_batch_bytes=2_000 if number % 2 else 100_000)
            encoder.add_all(rows_as_encoded(rows))
            producer.submit(tp, encoder)
            wanted += rows
    assert java.read(topic) == [Read(offset, row) for offset, row in enumerate(wanted)]
    assert java.offsets(topic) == (0, len(wanted))


def test_many_partitions_are_written_and_read(
    client: Client, backends: Callable[[Isolation], ClusterRanges]
) -> None:
    client.create_topics([NewTopic("wide", 40)])
    tps = [TopicPartition("wide", number) for number in range(40)]
    with IdempotentProducer(client) as producer:
        for step in range(25):
            for tp in tps:
                producer.submit(tp, encode([b"%d-%d" % (tp.partition, step)], timestamp_ms=START_MS + step))
    backend = backends(Isolation.READ_COMMITTED)
    assert backend.latest(tps) == dict.fromkeys(tps, 25)
    assert backend.offsets_for_time(dict.fromkeys(tps, START_MS + 20)) == dict.fromkeys(tps, 20)
    for tp in tps:
        assert [read.row.value for read in scan(backend, tp)] == [b"%d-%d" % (tp.partition, n) for n in range(25)]
    assert set(client.log_dir_sizes(["wide"])) == set(tps)
    assert 1 <= backend.offset_after_bytes(tps[0], 0, 25, 200) <= 5


def test_a_batch_sent_twice_is_there_once(java: JavaClient, client: Client) -> None:
    client.create_topics([NewTopic("once", 1)])
    tp = TopicPartition("once", 0)
    with IdempotentProducer(client) as producer:
        for number in range(3):
            assert producer.send(tp, encode([b"%d" % number], timestamp_ms=START_MS)) == number
        # As if the answers had been lost: the same batches with the same sequences again.
        partition = producer._queues[tp].partition
        assert partition is not None
        for number in range(3):
            partition.next_sequence = number
            assert producer.send(tp, encode([b"%d" % number], timestamp_ms=START_MS)) == number
        assert producer.send(tp, encode([b"3"], timestamp_ms=START_MS)) == 3
    assert [read.row.value for read in java.read("once")] == [b"0", b"1", b"2", b"3"]


def test_a_hole_in_the_sequence_is_repaired_with_another_producer_id(java: JavaClient, client: Client) -> None:
    client.create_topics([NewTopic("holes", 1)])
    tp = TopicPartition("holes", 0)
    with IdempotentProducer(client) as producer:
        producer.send(tp, encode([b"0"], timestamp_ms=START_MS))
        before = producer.producer_id
        partition = producer._queues[tp].partition
        assert partition is not None
        partition.next_sequence = 17
        for number in range(1, 10):
            producer.submit(tp, encode([b"%d" % number], timestamp_ms=START_MS))
        producer.flush()
        assert producer.producer_id != before
    assert [read.row.value for read in java.read("holes")] == [b"%d" % number for number in range(10)]


def test_refusals_of_a_real_broker_are_ours(client: Client) -> None:
    client.create_topics(
        [NewTopic("keyed", 1, settings={"cleanup.policy": "compact", "max.message.bytes": "1000"})]
    )
    tp = TopicPartition("keyed", 0)
    assert client.describe_configs("keyed")["max.message.bytes"] == "1000"
    with IdempotentProducer(client) as producer:
        with pytest.raises(InvalidRecordError, match="produce to keyed-0"):
            producer.send(tp, encode([b"no key"], timestamp_ms=START_MS))
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            producer.send(tp, encode([(b"k", b"x" * 2000)], timestamp_ms=START_MS))
        assert producer.send(tp, encode([(b"k", b"v")], timestamp_ms=START_MS)) == 0
        with pytest.raises(UnknownPartitionError):
            producer.send(TopicPartition("keyed", 9), encode([b"x"], timestamp_ms=START_MS))
        with pytest.raises(UnknownTopicError):
            producer.send(TopicPartition("nowhere", 0), encode([b"x"], timestamp_ms=START_MS))
    with pytest.raises(TopicExistsError):
        client.create_topics(["keyed"])
    with pytest.raises(ConfigError, match="Unknown topic config name: bla"):
        client.create_topics([NewTopic("bad", settings={"bla": "1"})])
    with pytest.raises(BrokerError, match="INVALID_REPLICATION_FACTOR"):
        client.create_topics([NewTopic("bad", 1, 5)])


# --- a broker that goes and comes ---------------------------------------------------------------------


def test_a_restart_in_the_middle_loses_and_doubles_nothing(broker: Broker, client: Client) -> None:
    """Last in here: it stops the broker that all share.

    A broker that comes up again forgets producers by the times of their records, so these are of now.
    """
    now_ms = int(time.time() * 1000)
    client.create_topics([NewTopic("restarted", 2)])
    tps = [TopicPartition("restarted", number) for number in (0, 1)]
    with Client(broker.bootstrap, delivery_timeout_ms=300_000) as own, IdempotentProducer(own) as producer:
        for number in range(300):
            for tp in tps:
                producer.submit(tp, encode([b"%d" % number] * 3, timestamp_ms=now_ms))
            if number == 100:
                broker.kill()
                with pytest.raises(BrokerUnreachableError):
                    Client(broker.bootstrap, socket_connection_setup_timeout_ms=200).metadata()
                broker.start()
        producer.flush()
        backend = ClusterRanges(broker.bootstrap)
        for tp in tps:
            assert [read.row.value for read in scan(backend, tp)] == [b"%d" % (each // 3) for each in range(900)]
        backend.close()
    # And a client that was connected before finds its way again.
    assert client.list_offsets(dict.fromkeys(tps, LATEST))[tps[0]].offset == 900
