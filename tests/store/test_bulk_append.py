"""One append to several partitions: who gets what, in which order, and that it is checked as a whole."""

from __future__ import annotations

import errno
import threading

import numpy
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logstore
from logstore.batch._encode import Encoder
from logstore.batch._key_hash import partition_of
from logstore.columns._partition_rows import RowPartitioner
from logstore.errors import (
    DiskFullError,
    InvalidRecordError,
    InvalidTimestampError,
    PartialAppendError,
    RecordTooLargeError,
    RecordTypeError,
    UnknownPartitionError,
)
from logstore.records import Codec
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from tests.kit.inside import on_encoded_append
from tests.kit.nothing import NOTHING

COUNT = 4

keys = st.none() | st.binary(max_size=9)
records = st.lists(st.tuples(keys, st.none() | st.binary(max_size=30)), max_size=60)


@pytest.fixture
def files():
    return FaultyFiles()


@pytest.fixture
def topic(tmp_path, files):
    with logstore.open(tmp_path / "data", clock=ManualClock(), files=files) as store:
        yield store.create_topic("flights", partitions=COUNT)


def pairs_of(topic, partition):
    return [(record.key, record.value) for record in topic[partition].scan()]


def expected_of(pairs, partition, keyless):
    return [pair for pair in pairs if (keyless if pair[0] is None else partition_of(pair[0], COUNT)) == partition]


def bytes_of(pairs):
    return bytes(Encoder().begin(timestamp_ms=5).finish()) if not pairs else bytes(encoded(pairs).finish())


def encoded(pairs):
    encoder = Encoder().begin(timestamp_ms=5)
    encoder.add_all(pairs)
    return encoder


def partitioner_of(keyless=2):
    return RowPartitioner(COUNT, keyless, lambda _partition: Encoder().begin(timestamp_ms=5))


@pytest.mark.row("P4")
@pytest.mark.row("M6", part="one process")
@given(records, st.integers(0, COUNT - 1))
def test_every_partition_gets_its_own_records_in_their_order_and_byte_by_byte(pairs, keyless):
    """Lists and Arrow data give the same batches as an encoder that is handed each partition's records."""
    table = pa.table(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
        }
    )
    listed, arrow = partitioner_of(keyless), partitioner_of(keyless)
    listed.add_all(pairs)
    assert arrow.add_arrow(table) == len(pairs)
    for partitioner in (listed, arrow):
        found = {partition: bytes(encoder.finish()) for partition, encoder in partitioner.encoders.items()}
        wanted = {partition: expected_of(pairs, partition, keyless) for partition in range(COUNT)}
        assert found == {partition: bytes_of(mine) for partition, mine in wanted.items() if mine}


@given(records, st.integers(1, 7), st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
def test_arrow_data_in_chunks_with_offsets_and_of_other_types_is_shared_out_alike(pairs, chunk, kind):
    padded = [(b"padding", b"padding"), *pairs]
    # A sliced array begins inside its buffers.
    chunks = [
        pa.record_batch(
            {
                "value": pa.array([value for _, value in padded], kind),
                "key": pa.array([key for key, _ in padded], kind),
            }
        ).slice(1 + start, chunk)
        for start in range(0, len(pairs), chunk)
    ]
    if not chunks:
        return
    partitioner, plain = partitioner_of(), partitioner_of()
    partitioner.add_arrow(pa.Table.from_batches(chunks))
    plain.add_all(pairs)
    assert {p: bytes(e.finish()) for p, e in partitioner.encoders.items()} == {
        p: bytes(e.finish()) for p, e in plain.encoders.items()
    }


@pytest.mark.parametrize("count", [1, COUNT, 100])
@pytest.mark.parametrize("rows", [255, 256, 257, 4_095, 4_096, 5_000])
def test_rows_of_many_blocks_keep_their_order(rows, count):
    """Rows are divided in blocks, large arrays in another way than small ones; some encoders fill up in between."""
    values = [None if n % 7 == 0 else b"%d" % n * (n % 90) for n in range(rows)]
    pairs = [(None if n % 11 == 0 else b"key %d" % (n % 37), value) for n, value in enumerate(values)]
    headers = [[("name", b"x" * (n % 50))] if n % 5 == 0 else [] for n in range(rows)]
    header_type = pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(
                [[{"key": name, "value": value} for name, value in row] for row in headers], header_type
            ),
        }
    )
    begun = {"timestamp_ms": 5, "max_batch_bytes": 2_000 if count < 100 else 700}

    def begin(_partition):
        return Encoder().begin(**begun)

    listed, arrow = RowPartitioner(count, count - 1, begin), RowPartitioner(count, count - 1, begin)
    listed.add_all([(key, value, 5, row) for (key, value), row in zip(pairs, headers, strict=True)])
    assert arrow.add_arrow(table) == rows
    assert arrow.encoders.keys() == listed.encoders.keys()
    for partition, encoder in arrow.encoders.items():
        assert bytes(encoder.finish()) == bytes(listed.encoders[partition].finish())


@pytest.mark.parametrize("bad", [3, 300, 4_999])
def test_a_bad_row_is_named_in_any_block(bad):
    times = [1] * 5_000
    times[bad] = -7
    table = pa.table({"key": [b"%d" % (n % 9) for n in range(5_000)], "value": [b"v"] * 5_000, "timestamp": times})
    with pytest.raises(InvalidTimestampError) as raised:
        partitioner_of().add_arrow(table)
    assert raised.value.__notes__ == [f"in record {bad} of this append"]


def test_keys_of_every_kind_go_where_their_bytes_go():
    partitioner = partitioner_of()
    record = logstore.Record("t", 0, 0, 5, 0, b"AA", b"v", ())
    partitioner.add_all(
        [
            (b"AA", b"v"),
            (bytearray(b"AA"), b"v"),
            (memoryview(b"AA"), bytearray(b"v")),
            (b"AA", b"v", 5),
            (b"AA", b"v", 5, []),
            (b"AA", b"v", None, [("h", b"1")]),
            record,
        ]
    )
    assert list(partitioner.encoders) == [partition_of(b"AA", COUNT)]
    assert partitioner.encoders[partition_of(b"AA", COUNT)].pending_records == 7


@pytest.mark.row("S6")
def test_append_many_tells_where_everything_is(topic):
    pairs = [(b"%d" % (n % 50), b"%d" % n) for n in range(1_000)]
    results = topic.append_many(pairs)
    assert list(results) == [0, 1, 2, 3]
    for partition, result in results.items():
        mine = expected_of(pairs, partition, 0)
        assert (result.first_offset, result.last_offset) == (0, len(mine) - 1)
        assert pairs_of(topic, partition) == mine
        assert topic[partition].metrics().counters["appends"] == 1


@pytest.mark.row("P2")
def test_records_without_a_key_stay_together_and_take_turns_between_appends(topic):
    values = [b"%d" % n for n in range(100)]
    for turn in range(8):
        results = topic.append_many(values)
        assert list(results) == [turn % COUNT]
    assert [log.log_end_offset for log in topic.partitions] == [200] * COUNT


def test_append_arrow_takes_what_append_many_takes_and_the_other_columns_of_a_scan(topic):
    pairs = [(b"%d" % (n % 9), b"%d" % n) for n in range(300)]
    topic.append_many(pairs)
    table = pa.table(topic.scan())
    assert table.num_rows == 300
    topic.append_arrow(table)
    for partition in range(COUNT):
        assert pairs_of(topic, partition) == expected_of(pairs, partition, 0) * 2


def test_numpy_values_and_arrow_values_go_to_one_partition(topic):
    assert topic.append_many(numpy.array([b"ab", b"cd"], dtype="S2")).keys() == {0}
    assert topic.append_arrow(pa.array([b"ab", b"cd"])).keys() == {1}
    assert pairs_of(topic, 0) == pairs_of(topic, 1) == [(None, b"ab"), (None, b"cd")]


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        ((b"k", "text"), RecordTypeError, "encode it first"),
        (("text", b"v"), RecordTypeError, "encode it first"),
        ((7, b"v"), RecordTypeError, "found int"),
        ((b"k",), RecordTypeError, "tuple of 1"),
        ((b"k", b"v", -7), InvalidTimestampError, "1970"),
        ((b"k", b"x" * 2_000_000), RecordTooLargeError, r"max\.message\.bytes"),
        ((b"k", b"v", 10**15), InvalidTimestampError, "future"),
        (7, RecordTypeError, "found int"),
    ],
)
def test_one_bad_record_leaves_every_partition_as_it_was(topic, bad, error, says):
    good = [(b"%d" % n, b"v") for n in range(100)]
    with pytest.raises(error, match=says) as raised:
        topic.append_many([*good, bad, *good])
    if "future" not in says:
        assert raised.value.__notes__ == ["in record 100 of this append"]
    assert [log.log_end_offset for log in topic.partitions] == [0] * COUNT
    topic.append_many(good)
    assert sum(log.log_end_offset for log in topic.partitions) == 100


def test_a_bad_row_of_arrow_data_is_named_by_its_place_in_the_whole(topic):
    times = pa.array([5] * 30 + [-7] + [5] * 9, pa.int64())
    table = pa.table({"key": [b"%d" % n for n in range(40)], "value": [b"v"] * 40, "timestamp": times})
    chunked = pa.Table.from_batches([table.slice(0, 25).to_batches()[0], table.slice(25).to_batches()[0]])
    with pytest.raises(InvalidTimestampError) as raised:
        topic.append_arrow(chunked)
    assert raised.value.__notes__ == ["in record 30 of this append"]
    assert [log.log_end_offset for log in topic.partitions] == [0] * COUNT


@pytest.mark.parametrize("kind", NOTHING)
@pytest.mark.parametrize("partition", [None, 1])
def test_no_records_are_written_nowhere(topic, kind, partition):
    assert topic.append_many(NOTHING[kind](), partition=partition) == {}
    if hasattr(NOTHING[kind](), "__arrow_c_stream__"):
        assert topic.append_arrow(NOTHING[kind](), partition=partition) == {}
    single = topic.store.create_topic("single")
    assert single.append_many(NOTHING[kind](), ack="synced") == {}
    assert [log.log_end_offset for log in (*topic, *single)] == [0] * (COUNT + 1)


def test_a_scan_of_nothing_is_appended_as_nothing(topic):
    assert topic.append_many(topic.store.create_topic("empty", partitions=2).scan()) == {}


def test_a_producer_that_is_sent_nothing_writes_nothing(topic):
    with topic.store.producer(linger_ms=60_000) as producer:
        producer.flush()
    assert [log.maintenance.size for log in topic] == [0] * COUNT


def test_what_are_no_records_is_refused(topic):
    for what in (7, None):
        with pytest.raises(InvalidRecordError, match="must be a list"):
            topic.append_many(what)
    with pytest.raises(RecordTypeError, match="write \\[value\\]"):
        topic.append_many(b"one value")


def test_a_compacted_topic_refuses_the_whole_append_for_one_missing_key(topic):
    latest = topic.store.create_topic("latest", partitions=3, settings={"cleanup.policy": "compact"})
    with pytest.raises(InvalidRecordError, match="key"):
        latest.append_many([(b"a", b"1"), (b"b", b"2"), b"no key"])
    assert [log.log_end_offset for log in latest.partitions] == [0, 0, 0]


@pytest.mark.row("S7")
def test_the_codec_is_the_callers_unless_the_topic_imposes_one(topic):
    pairs = [(b"%d" % n, b"flight " * 30) for n in range(50)]
    imposed = topic.store.create_topic("imposed", partitions=2, settings={"compression.type": "lz4"})
    for target, expected in ((topic, Codec.ZSTD), (imposed, Codec.LZ4)):
        target.append_many(pairs, codec=Codec.ZSTD)
        assert {
            view.codec for log in target.partitions for chunk in log.scan().chunks() for view in chunk.batches()
        } == {expected}


def test_a_disk_that_is_full_from_the_start_writes_nothing(topic, files):
    pairs = [(b"%d" % n, b"v") for n in range(100)]
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log")
    with pytest.raises(DiskFullError):
        topic.append_many(pairs)
    assert [log.log_end_offset for log in topic.partitions] == [0] * COUNT


def test_a_disk_that_fills_up_half_way_says_what_is_written_and_what_is_not(topic, files):
    pairs = [(b"%d" % n, b"v") for n in range(100)]
    topic.append_many(pairs)
    files.fail("pwrite", 1, errno.ENOSPC, path_contains="flights-2")
    with pytest.raises(PartialAppendError, match=r"partitions 0, 1 .* are written .* 2, 3 are not") as raised:
        topic.append_many(pairs)
    assert isinstance(raised.value.__cause__, DiskFullError)
    ends = [log.log_end_offset for log in topic.partitions]
    assert {partition: result.last_offset + 1 for partition, result in raised.value.results.items()} == {
        0: ends[0],
        1: ends[1],
    }
    left = [pair for pair in pairs if partition_of(pair[0], COUNT) not in raised.value.results]
    topic.append_many(left)
    for partition in range(COUNT):
        assert pairs_of(topic, partition) == expected_of(pairs, partition, 0) * 2


@pytest.mark.parametrize("by", ["call", "setting"])
def test_synced_partitions_are_written_side_by_side(tmp_path, monkeypatch, by):
    pairs = [(b"%d" % (n % 50), b"%d" % n) for n in range(1_000)]
    threads = set()
    together = threading.Barrier(COUNT)

    def note(_log):
        threads.add(threading.current_thread())
        together.wait(timeout=30)

    with logstore.open(tmp_path / "data") as store:
        settings = {"logstore.ack": "synced"} if by == "setting" else {}
        topic = store.create_topic("flights", partitions=COUNT, settings=settings)
        on_encoded_append(monkeypatch, note)
        results = topic.append_many(pairs, ack="synced" if by == "call" else None)
        assert list(results) == [0, 1, 2, 3]
        for partition, result in results.items():
            mine = expected_of(pairs, partition, 0)
            assert (result.first_offset, result.last_offset) == (0, len(mine) - 1)
            assert pairs_of(topic, partition) == mine
        assert [log.synced_end for log in topic] == [result.last_offset + 1 for result in results.values()]
    assert len(threads) == COUNT


@pytest.mark.parametrize("failing", [{2}, {0}, {0, 3}, {0, 1, 2, 3}])
def test_a_synced_append_that_fails_half_way_says_what_is_written_and_what_is_not(tmp_path, monkeypatch, failing):
    pairs = [(b"%d" % n, b"v") for n in range(100)]
    refused = set(failing)

    def refuse(log):
        if log.name.partition in refused:
            raise DiskFullError("the disk is full")

    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights", partitions=COUNT)
        on_encoded_append(monkeypatch, refuse)
        error = DiskFullError if len(failing) == COUNT else PartialAppendError
        with pytest.raises(error) as raised:
            topic.append_many(pairs, ack="synced")
        written = set(range(COUNT)) - failing
        assert [log.log_end_offset > 0 for log in topic] == [number in written for number in range(COUNT)]
        if written:
            assert set(raised.value.results) == written
            assert f"{', '.join(map(str, sorted(failing)))} are not" in str(raised.value)
        refused.clear()
        topic.append_many([pair for pair in pairs if partition_of(pair[0], COUNT) not in written])
        for partition in range(COUNT):
            assert pairs_of(topic, partition) == expected_of(pairs, partition, 0)


@pytest.mark.row("S4")
def test_a_synced_append_is_on_disk_in_every_partition(topic):
    results = topic.append_many([(b"%d" % n, b"v") for n in range(100)], ack="synced")
    assert [log.synced_end for log in topic.partitions] == [result.last_offset + 1 for result in results.values()]


def test_expecting_an_offset_of_several_partitions_makes_no_sense(topic):
    with pytest.raises(InvalidRecordError, match="partition="):
        topic.append_many([b"v"], expect=0)
    assert topic.append_many([b"v"], partition=1, expect=0)[1].first_offset == 0


@given(st.lists(st.tuples(keys, st.none() | st.binary(max_size=30), st.integers(-1, COUNT - 1)), max_size=60))
def test_rows_may_name_their_partition(rows):
    partitioner = partitioner_of(keyless=1)
    data = pa.table({"key": pa.array([row[0] for row in rows], pa.binary()), "value": [row[1] for row in rows]})
    data = data.cast(pa.schema({"key": pa.binary(), "value": pa.binary()})).combine_chunks()
    partitioner.keyless = 3
    assert partitioner.add_arrow(data, numpy.array([row[2] for row in rows], numpy.int32)) == len(rows)
    for partition in range(COUNT):
        chosen = [
            (key, value)
            for key, value, named in rows
            if partition == (named if named >= 0 else 3 if key is None else partition_of(key, COUNT))
        ]
        encoder = partitioner.encoders.get(partition)
        assert (b"" if encoder is None else bytes(encoder.finish())) == bytes_of(chosen)


def test_a_partition_that_there_is_not_is_named_with_its_row():
    data = pa.table({"value": [b"a", b"b"]})
    for wrong in (-2, COUNT):
        with pytest.raises(
            UnknownPartitionError, match=f"partitions are 0 to 3, none with number {wrong}"
        ) as caught:
            partitioner_of().add_arrow(data, numpy.array([0, wrong], numpy.int32))
        assert caught.value.__notes__ == ["in record 1 of this append"]


@pytest.mark.parametrize("count", [1, 3])
def test_there_is_a_partition_for_each_row(count):
    with pytest.raises(ValueError, match=f"{count} partitions for"):
        partitioner_of().add_arrow(pa.table({"value": [b"a", b"b"]}), numpy.zeros(count, numpy.int32))
    with pytest.raises(ValueError, match="partition 4 of 4"):
        partitioner_of().keyless = COUNT
