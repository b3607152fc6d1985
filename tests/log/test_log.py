"""One log by example: what goes in, what comes out, and which files and system calls it takes."""

from __future__ import annotations

import array
import datetime
import hashlib
import json
import os
import random
import threading

import pyarrow as pa
import pytest

from logstore import Ack, AppendResult, Codec, Log, Record
from logstore.batch._encode import encode
from logstore.errors import (
    FencedLeaderEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    LogClosedError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedOffsetError,
)
from logstore.io._files import Files
from logstore.log import Batches, FixedPolicy, Marker, Moves, Origin, ProducerStamp
from logstore.log.append.flush import Flusher
from logstore.log.state import State
from logstore.records import TimestampType
from logstore.testing import ManualClock
from tests.kit.nothing import NOTHING
from tests.kit.waiting import wait_for
from tests.log.logs import NOW_MS, at, crashed_copy, log_files, one_batch, open_log, values_of

UTC = datetime.UTC


@pytest.fixture
def clock():
    return ManualClock(NOW_MS)


@pytest.fixture
def log(tmp_path, clock):
    with open_log(tmp_path, clock=clock) as log:
        yield log


def facts(record):
    return record.offset, record.timestamp_ms, record.key, record.value, record.headers


# --- what goes in -------------------------------------------------------------------------------


def test_offsets_are_given_from_zero_without_gaps(log):
    assert log.append([b"a", b"b"])[:2] == (0, 1)
    assert log.append([b"c"])[:2] == (2, 2)
    assert log.append([b"d"] * 1_000)[:2] == (3, 1_002)
    assert log.log_end_offset == 1_003
    assert [record.offset for record in log] == list(range(1_003))


def test_every_form_of_record_is_taken(log):
    when = datetime.datetime(2023, 1, 2, tzinfo=UTC)
    when_ms = int(when.timestamp() * 1000)
    given = Record("other", 7, 99, 5, TimestampType.CREATE_TIME, b"rk", b"rv", [("h", b"x")])
    log.append(
        [
            b"value",
            (b"key", b"value"),
            (None, b"value", 7),
            (b"key", None, when),
            (b"key", b"", None, [("h", b"1"), ("h", None)]),
            given,
            None,
            bytearray(b"array"),
            memoryview(b"view"),
            array.array("B", b"numbers"),
            (memoryview(b"mk"), bytearray(b"mv")),
        ]
    )
    assert [facts(record)[1:] for record in log] == [
        (NOW_MS, None, b"value", ()),
        (NOW_MS, b"key", b"value", ()),
        (7, None, b"value", ()),
        (when_ms, b"key", None, ()),
        (NOW_MS, b"key", b"", (("h", b"1"), ("h", None))),
        (5, b"rk", b"rv", (("h", b"x"),)),
        (NOW_MS, None, None, ()),
        (NOW_MS, None, b"array", ()),
        (NOW_MS, None, b"view", ()),
        (NOW_MS, None, b"numbers", ()),
        (NOW_MS, b"mk", b"mv", ()),
    ]
    assert {(record.topic, record.partition) for record in log} == {("t", 0)}


@pytest.mark.parametrize("kind", [tuple, iter, lambda values: (value for value in values), dict.fromkeys])
def test_any_iterable_of_records_is_taken(log, kind):
    log.append(kind([b"a", b"b", b"c"]))
    assert values_of(log) == [b"a", b"b", b"c"]


def test_a_timestamp_for_the_whole_append(log):
    log.append([b"a", (None, b"b", 9)], timestamp=1_234)
    log.append([b"c"], timestamp=datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert [record.timestamp_ms for record in log] == [1_234, 9, 1_000]


def test_records_of_one_log_go_into_another_as_they_are(tmp_path, log):
    log.append([(b"k", b"v", 5, [("h", None)]), None, b"x"])
    with open_log(tmp_path / "second") as second:
        second.append(log.scan())
        assert [facts(record) for record in second] == [facts(record) for record in log]


@pytest.mark.row("M5")
@pytest.mark.parametrize("codec", list(Codec))
def test_keys_values_and_headers_come_back_as_they_were(tmp_path, clock, codec):
    large = random.Random(1).randbytes(1 << 20)
    sizes = [None, b"", b"x", large]
    records = [(key, value, NOW_MS + n, ()) for n, (key, value) in enumerate((k, v) for k in sizes for v in sizes)]
    headers = [("same", b"1"), ("same", b"2"), ("same", None), ("", b""), ("ключ", large[:70_000])]
    records.append((None, None, 0, headers))
    expected = [(n, ts, key, value, tuple(heads)) for n, (key, value, ts, heads) in enumerate(records)]
    settings = {"clock": clock, "max_message_bytes": 1 << 24}
    with open_log(tmp_path, **settings) as log:
        for record in records:
            log.append([record], codec=codec)
        assert [facts(record) for record in log] == expected
    with open_log(tmp_path, **settings) as log:
        assert [facts(record) for record in log] == expected
    with open_log(tmp_path, read_only=True, **settings) as log:
        assert [facts(record) for record in log] == expected


def test_a_large_append_is_split_into_batches_that_fit(tmp_path):
    with open_log(tmp_path, max_message_bytes=1_000) as log:
        assert log.append([b"%04d" % n for n in range(1_000)])[:2] == (0, 999)
        batches = log.read(0).batches()
        assert len(batches) > 10
        assert max(batch.size for batch in batches) <= 1_000
        assert values_of(log) == [b"%04d" % n for n in range(1_000)]


def test_an_append_larger_than_a_segment_goes_over_several(tmp_path):
    with open_log(tmp_path, segment_bytes=1_000) as log:
        log.append([b"%04d" % n for n in range(1_000)])
        assert log.metrics().segment_count > 10
        assert max(path.stat().st_size for path in log_files(log).values()) <= 1_000
        assert values_of(log) == [b"%04d" % n for n in range(1_000)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_records_that_do_not_compress_fit_where_plain_ones_fit(log, codec):
    noise = random.Random(2)
    values = [noise.randbytes(1_000) for _ in range(2_500)]
    log.append(values, codec=codec)
    assert values_of(log) == values


@pytest.mark.parametrize("kind", NOTHING)
def test_an_append_of_no_records_writes_nothing(log, kind):
    """A job that found nothing to do was refused."""
    log.append([b"0", b"1"])
    size = log.maintenance.size
    assert log.append(NOTHING[kind]()) == AppendResult(2, 1)
    assert log.append(NOTHING[kind](), ack="synced", codec=Codec.ZSTD) == AppendResult(2, 1)
    assert log.append(NOTHING[kind](), expect=7) == AppendResult(2, 1)
    assert log.append(NOTHING[kind](), producer=ProducerStamp(1, 0, 0)) == AppendResult(2, 1)
    assert (log.log_end_offset, log.maintenance.size) == (2, size)
    assert log.append([b"2"], producer=ProducerStamp(1, 0, 0)).first_offset == 2


def test_an_append_of_no_records_is_refused_where_any_append_is(log):
    with pytest.raises(ValueError, match="sometime"):
        log.append([], ack="sometime")
    log.close()
    with pytest.raises(LogClosedError):
        log.append([])


@pytest.mark.parametrize("arrow", [pa.array, lambda rows: pa.table({"value": rows})])
def test_rows_of_the_wrong_type_are_refused_behind_an_empty_chunk(log, arrow):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            chunks = [pa.array([], pa.int64()), pa.array([1], pa.int64())]
            return pa.chunked_array(chunks).__arrow_c_stream__(requested_schema)

    refused = Stream() if arrow is pa.array else pa.table({"value": pa.chunked_array([[], [1]], pa.int64())})
    with pytest.raises(RecordTypeError, match="int64"):
        log.append(refused)
    assert log.log_end_offset == 0


@pytest.mark.row("S7")
@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_compressed_as_a_whole_by_the_codec_of_the_append(log, codec):
    log.append([b"the same words again"] * 100, codec=codec)
    (batch,) = log.read(0).batches()
    assert batch.codec is codec
    assert (batch.size < 1_000) == (codec is not Codec.NONE)
    assert values_of(log) == [b"the same words again"] * 100


# --- order, immutability, position --------------------------------------------------------------


@pytest.mark.row("M6", part="one process")
def test_order_is_kept_for_each_of_eight_threads(tmp_path):
    with open_log(tmp_path, segment_bytes=20_000) as log:
        start = threading.Barrier(8)
        given: dict[int, list[int]] = {n: [] for n in range(8)}

        def write(name):
            start.wait()
            for n in range(200):
                given[name].append(log.append([b"%d:%d" % (name, n)]).first_offset)

        threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(offset for offsets in given.values() for offset in offsets) == list(range(1_600))
        read = values_of(log)
        for name, offsets in given.items():
            assert offsets == sorted(offsets)
            assert [read[offset] for offset in offsets] == [b"%d:%d" % (name, n) for n in range(200)]


@pytest.mark.row("M3")
def test_sealed_segments_keep_their_bytes_under_load(tmp_path):
    with open_log(tmp_path, segment_bytes=4_000) as log:
        sums: dict[int, str] = {}
        for _ in range(20):
            for _ in range(20):
                log.append([b"x" * 50])
            log.flush()
            found = log_files(log)
            *sealed, active = found
            for base in sealed:
                digest = hashlib.sha256(found[base].read_bytes()).hexdigest()
                assert sums.setdefault(base, digest) == digest
        assert len(sums) > 5
        # The active one only grows: what was there is its prefix.
        before = found[active].read_bytes()
        log.append([b"more"])
        assert found[active].read_bytes().startswith(before)


@pytest.mark.row("M3")
def test_no_public_method_changes_a_record(log):
    faces = (log, log.replica, log.maintenance)
    verbs = {name for face in faces for name in dir(face) if name[0] != "_" and callable(getattr(face, name))}
    writing = verbs - {
        *("open", "recover", "close", "read", "record_at", "scan"),
        *("locate", "fetch_region", "offset_for_time", "wait_for"),
        "offset_of_max_timestamp",
        *("metrics", "end_offset", "cleanable", "reconfigure", "facts", "oldest_segment"),
        *("open_transaction", "producer_epoch", "active_producers", "check_reconfigure"),
        *("checkpoint", "copy", "verify", "check_joined", "check_keys"),
        *("flush", "tick", "roll", "advance_high_watermark", "set_policy", "accept_stop", "log"),
        *("listen", "failure"),
    }
    assert writing == {
        *("append", "append_batch", "append_turn", "append_control", "append_encoded", "append_run"),
        *("append_replicated", "ingest_file", "appender", "begin_epoch", "offers"),
        # Of a record these take all or nothing.
        *("truncate_to", "restart_at", "begin_copy", "end_copy", "delete_before", "retain", "compact"),
    }
    log.append([b"value"])
    record = next(iter(log))
    for name in ("value", "key", "offset", "timestamp_ms"):
        with pytest.raises(AttributeError):
            setattr(record, name, b"other")


@pytest.mark.row("M4")
def test_an_offset_names_the_same_record_before_and_after_a_restart(tmp_path):
    with open_log(tmp_path, segment_bytes=2_000) as log:
        for n in range(100):
            log.append([b"a%d" % n, b"b%d" % n])
        names = {(r.topic, r.partition, r.offset): bytes(r.value) for r in log}
        raw = {n: log.read(n, max_bytes=1).data for n in range(0, 200, 7)}
    for _ in range(2):
        with open_log(tmp_path, segment_bytes=2_000) as log:
            assert {(r.topic, r.partition, r.offset): bytes(r.value) for r in log} == names
            assert {n: log.read(n, max_bytes=1).data for n in raw} == raw
            log.append([b"later"])
            names["t", 0, log.log_end_offset - 1] = b"later"


@pytest.mark.row("M8")
def test_a_key_value_service_is_rebuilt_from_offset_zero(tmp_path):
    rng = random.Random(3)
    state: dict[str, int] = {}
    with open_log(tmp_path, segment_bytes=5_000, retention_ms=-1) as log:
        for n in range(500):
            key = f"k{rng.randrange(40)}"
            if rng.random() < 0.2:
                state.pop(key, None)
                log.append([(key.encode(), None)])
            else:
                state[key] = n
                log.append([(key.encode(), json.dumps(n).encode())])
    rebuilt: dict[str, int] = {}
    with open_log(tmp_path, read_only=True) as log:
        for record in log.scan(0):
            if record.value is None:
                rebuilt.pop(record.key.decode(), None)
            else:
                rebuilt[record.key.decode()] = json.loads(record.value)
    assert rebuilt == state


# --- segments and their files -------------------------------------------------------------------


@pytest.mark.row("S1")
def test_segments_are_of_about_equal_size_and_only_the_last_grows(tmp_path):
    with open_log(tmp_path, segment_bytes=10_000) as log:
        for _ in range(300):
            log.append([b"v" * 500])
        found = log_files(log)
        *sealed, active = found.items()
        assert len(sealed) > 10
        assert all(9_000 < path.stat().st_size <= 10_000 for _, path in sealed)
        before = {base: path.stat() for base, path in sealed}
        size = active[1].stat().st_size
        log.append([b"v"])
        log.flush()
        assert {base: (path.stat().st_size, path.stat().st_mtime_ns) for base, path in sealed} == {
            base: (stat.st_size, stat.st_mtime_ns) for base, stat in before.items()
        }
        assert active[1].stat().st_size > size
        # A segment's name is the offset of its first record.
        for base, path in found.items():
            first = int.from_bytes(path.read_bytes()[:8], "big")
            assert base == first


@pytest.mark.row("S2")
def test_an_offset_opens_only_the_segment_that_holds_it(tmp_path):
    bases = [0, 1_000, 2_000, 2_500, 2_700]
    with open_log(tmp_path) as log:
        for base, following in zip(bases, [*bases[1:], 2_800], strict=True):
            if base:
                log.maintenance.roll()
            for n in range(base, following, 100):
                log.append([b"%d" % i for i in range(n, n + 100)])
        assert list(log_files(log)) == bases
    # One descriptor: whatever is opened pushes out the one before, so nothing is open from earlier.
    table = Files(descriptor_limit=1)
    with open_log(tmp_path, read_only=True, files=table) as log:
        for base, path in log_files(log).items():
            if base != 2_500:
                path.unlink()
        before = table.call_counts()["open"]
        assert next(iter(log.read(2_600))).value == b"2600"
        first = table.call_counts()["open"] - before
        before = table.call_counts()["open"]
        assert next(iter(log.read(2_650))).value == b"2650"
        again = table.call_counts()["open"] - before
        # The first time also opens both indexes, and the segment again behind them.
        assert first - again <= 3


@pytest.mark.row("S4", "K1")
def test_a_flush_comes_after_so_many_records(tmp_path):
    table = Files()
    with open_log(tmp_path, files=table, flush_messages=10) as log:
        log.append([b"warm"])
        log.flush()
        before = table.call_counts()["fdatasync"]
        for _ in range(9):
            log.append([b"x"])
        assert (table.call_counts()["fdatasync"], log.synced_end) == (before, 1)
        log.append([b"x"])
        assert (table.call_counts()["fdatasync"], log.synced_end) == (before + 1, 11)
        log.append([b"x"] * 25)
        assert (table.call_counts()["fdatasync"], log.synced_end) == (before + 2, 36)


@pytest.mark.row("S4", "K1")
def test_a_flush_comes_after_so_many_milliseconds(tmp_path, clock):
    table = Files()
    with open_log(tmp_path, files=table, clock=clock, flush_ms=100) as log:
        log.flush()
        before = table.call_counts()["fdatasync"]
        log.append([b"x"])
        clock.advance(99)
        log.maintenance.tick()
        assert (table.call_counts()["fdatasync"], log.synced_end) == (before, 0)
        clock.advance(1)
        log.maintenance.tick()
        assert (table.call_counts()["fdatasync"], log.synced_end) == (before + 1, 1)
        clock.advance(1_000)
        log.maintenance.tick()
        assert table.call_counts()["fdatasync"] == before + 1, "nothing was written meanwhile"
        log.append([b"y"])
        # Longer ago than flush.ms: the append itself does it, without anybody who ticks.
        assert log.synced_end == 2


@pytest.mark.row("S4")
def test_by_the_machines_clock_the_flush_comes_by_itself(tmp_path):
    with open_log(tmp_path, flush_ms=1, visible_after="flush") as log:
        log.append([b"x"])
        assert log.wait_for(0, timeout_s=60)
        assert log.synced_end == 1


@pytest.mark.row("S6")
def test_a_thousand_records_are_one_write_and_one_read_returns_many_batches(tmp_path):
    table = Files()
    with open_log(tmp_path, files=table) as log:
        for _ in range(10):
            log.append([b"warm"])
        before = table.call_counts()["pwrite"]
        log.append([b"x" * 100] * 1_000)
        # Of the log file; the published end is shared with readers in other processes.
        assert table.call_counts()["pwrite"] - before == 1
        for _ in range(50):
            log.append([b"y" * 100])
        before = table.call_counts()["preadv"]
        batches = log.read(0)
        assert len(batches.batches()) == 61
        assert batches.count() == 1_060
        assert table.call_counts()["preadv"] - before <= 2


@pytest.mark.row("S5", part="one process")
@pytest.mark.parametrize("codec", list(Codec))
def test_stored_and_read_bytes_are_the_producers_bytes(tmp_path, codec):
    with open_log(tmp_path) as log:
        log.append([b"before"])
        given = one_batch([(b"k%d" % n, b"v" * n) for n in range(200)], codec=codec)
        result = log.replica.append_batch(given)
        assert result[:2] == (1, 200)
        read = log.read(1).data
        stored = log_files(log)[0].read_bytes()[-len(given) :]
    assert read == stored
    assert hashlib.sha256(stored[21:]).digest() == hashlib.sha256(given[21:]).digest()
    assert stored == at(given, 1, log.replica.leader_epoch)
    assert stored[12:16] == bytes(4)


def test_the_batch_of_the_caller_is_left_as_it_is(log):
    given = bytearray(one_batch([b"a"]))
    before = bytes(given)
    log.append([b"x"])
    log.replica.append_batch(given)
    log.replica.append_batch(memoryview(given))
    assert given == before
    assert values_of(log) == [b"x", b"a", b"a"]


# --- rolling ------------------------------------------------------------------------------------


def bases(log):
    return list(log_files(log))


@pytest.mark.row("K1")
def test_a_segment_rolls_before_it_would_pass_its_size(tmp_path):
    size = len(one_batch([b"x" * 100]))
    with open_log(tmp_path, segment_bytes=3 * size) as log:
        for _ in range(7):
            log.append([b"x" * 100])
        assert bases(log) == [0, 3, 6]


@pytest.mark.row("K1")
def test_a_segment_rolls_by_the_time_of_its_records(tmp_path, clock):
    with open_log(tmp_path, clock=clock, segment_ms=1_000) as log:
        log.append([b"a"])
        clock.advance(1_000)
        log.append([b"b"])
        assert bases(log) == [0]
        clock.advance(1)
        log.append([b"c"])
        assert bases(log) == [0, 2]


@pytest.mark.parametrize("index_interval_bytes", [0, 4_096])
def test_a_segment_rolls_by_time_after_a_reopen_too(tmp_path, clock, index_interval_bytes):
    settings = {"clock": clock, "segment_ms": 1_000, "index_interval_bytes": index_interval_bytes}
    with open_log(tmp_path, **settings) as log:
        for _ in range(3):
            log.append([b"a" * 100])
    clock.advance(600)
    with open_log(tmp_path, **settings) as log:
        log.append([b"b"])
        assert bases(log) == [0]
        clock.advance(600)
        log.append([b"c"])
        assert bases(log) == [0, 4]


def test_the_age_of_a_segment_that_was_cut_to_nothing_begins_again(tmp_path, clock):
    with open_log(tmp_path, clock=clock, segment_ms=1_000) as log:
        log.append([b"a"])
        log.replica.truncate_to(0)
        clock.advance(5_000)
        log.append([b"b"])
        log.append([b"c"])
        assert bases(log) == [0]


@pytest.mark.row("K1")
def test_the_jitter_is_taken_off_the_time_of_a_segment(tmp_path, clock):
    class Most:
        def randint(self, least, most):
            return most

    with open_log(tmp_path, clock=clock, segment_ms=1_000, segment_jitter_ms=400, rng=Most()) as log:
        log.append([b"a"])
        clock.advance(600)
        log.append([b"b"])
        assert bases(log) == [0]
        clock.advance(1)
        log.append([b"c"])
        assert bases(log) == [0, 2]


@pytest.mark.row("K1")
def test_a_segment_rolls_when_its_index_is_full(tmp_path):
    with open_log(tmp_path, index_interval_bytes=0, segment_index_bytes=24) as log:
        for _ in range(6):
            log.append([b"x"])
        assert len(bases(log)) > 1
    for path in (tmp_path / "t-0").glob("*index"):
        assert path.stat().st_size <= 24


def test_offsets_too_far_for_a_segment_begin_another(tmp_path):
    limit = 2**31 - 1
    with open_log(tmp_path) as log:
        log.replica.append_batch(at(one_batch([b"a"]), 0), origin=Origin.REPLICATION)
        log.replica.append_batch(at(one_batch([b"b"]), limit), origin=Origin.REPLICATION)
        assert bases(log) == [0]
        log.replica.append_batch(at(one_batch([b"c"]), limit + 1), origin=Origin.REPLICATION)
        assert bases(log) == [0, limit + 1]
        assert [record.offset for record in log] == [0, limit, limit + 1]
        assert next(iter(log.read(5))).value == b"b"
    with open_log(tmp_path) as log:
        assert [record.offset for record in log] == [0, limit, limit + 1]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_gap_wider_than_a_segment_is_kept_through_a_crash(tmp_path, before):
    far = 10 * 2**31
    with open_log(tmp_path / "log") as log:
        for n in range(before):
            log.replica.append_batch(at(one_batch([b"%d" % n]), n), origin=Origin.REPLICATION)
        log.replica.append_batch(at(one_batch([b"far"]), far), origin=Origin.REPLICATION)
        log.replica.append_batch(at(one_batch([b"next"]), far + 1), origin=Origin.REPLICATION)
        expected = [*range(before), far, far + 1]
        assert [record.offset for record in log] == expected
        copy = crashed_copy(log, tmp_path / "copy")
        assert log.offset_for_time(NOW_MS).offset == expected[0]
    for root in (copy, tmp_path / "log"):
        with open_log(root) as log:
            assert [record.offset for record in log] == expected
            assert log.append([b"more"]).first_offset == far + 2


# --- reading ------------------------------------------------------------------------------------


def test_a_read_gives_whole_batches_within_its_limit_and_the_first_one_always(log):
    for n in range(10):
        log.append([b"%d" % n * 100, b"second"])
    size = log.read(0, max_bytes=1).size
    assert log.read(0, max_bytes=1).next_offset == 2
    assert log.read(3, max_bytes=size * 3).size == 3 * size
    assert log.read(3, max_bytes=size * 3 + size - 1).next_offset == 8
    assert [r.offset for r in log.read(3, max_bytes=1)] == [3]
    offset, seen = 0, []
    while offset < log.log_end_offset:
        batches = log.read(offset, max_bytes=2 * size)
        seen += [record.offset for record in batches]
        offset = batches.next_offset
    assert seen == list(range(20))
    end = log.read(20)
    assert (list(end), end.next_offset, bool(end)) == ([], 20, False)
    assert (end.high_watermark, end.log_start_offset) == (20, 0)


def test_a_range_of_offsets(log):
    log.append([b"%d" % n for n in range(50)])
    log.append([b"%d" % n for n in range(50, 100)])
    assert values_of(log, start=45, end=55) == [b"%d" % n for n in range(45, 55)]
    assert values_of(log, start=100) == []
    assert values_of(log, start=7, end=7) == []
    assert log.scan(10, 90).count() == 80
    scan = log.scan(0, 3)
    assert [list(scan), list(scan)] == [list(log.scan(0, 3))] * 2
    for bad in ((101, None), (0, 101), (0, -1)):
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(*bad)


def test_a_scan_ends_where_the_log_ended_when_it_began(log):
    log.append([b"a"])
    scan = log.scan()
    log.append([b"b"])
    assert [record.value for record in scan] == [b"a"]


@pytest.mark.parametrize("interval", [0, 200, 4_096])
@pytest.mark.parametrize("reopen", [False, True])
def test_records_are_found_by_time_whatever_their_order(tmp_path, interval, reopen):
    rng = random.Random(interval)
    stamps = [rng.randrange(1_000) for _ in range(400)]
    settings = {"index_interval_bytes": interval, "segment_bytes": 3_000}
    log = open_log(tmp_path, **settings)
    for n in range(0, 400, 4):
        log.append([(None, b"%d" % i, stamps[i]) for i in range(n, n + 4)])
    if reopen:
        log.close()
        log = open_log(tmp_path, **settings)
    with log:
        for wanted in (0, 1, 250, 500, 998, 999, 1_000, *range(990, 1_001)):
            expected = next(((ts, n) for n, ts in enumerate(stamps) if ts >= wanted), None)
            assert log.offset_for_time(wanted) == expected, wanted
        low, high = 300, 320
        assert values_of(log, since=low, until=high) == [
            b"%d" % n for n, ts in enumerate(stamps) if low <= ts < high
        ]
        assert values_of(log, start=100, end=200, since=500) == [
            b"%d" % n for n in range(100, 200) if stamps[n] >= 500
        ]


@pytest.mark.parametrize("seed", range(4))
def test_the_first_record_of_the_largest_timestamp_is_known(tmp_path, seed):
    rng = random.Random(seed)
    stamps = [rng.randrange(-1, 60) for _ in range(400)]
    policy = FixedPolicy(Moves.FROM_OUTSIDE)
    with open_log(tmp_path, segment_bytes=3_000, policy=policy) as log:
        for n in range(0, 400, 4):
            log.append([(None, b"%d" % i, stamps[i]) for i in range(n, n + 4)])
        with open_log(tmp_path, read_only=True) as reader:
            assert log.replica.offset_of_max_timestamp() is None
            for end in range(4, 401, 36):
                log.replica.advance_high_watermark(end)
                newest = max(stamps[:end])
                wanted = None if newest < 0 else (newest, stamps.index(newest))
                assert log.replica.offset_of_max_timestamp() == wanted, end
                assert reader.replica.offset_of_max_timestamp() == wanted, end
            log.replica.advance_high_watermark(400)
            for start in (*range(5, 400, 31), 399):
                log.delete_before(start)
                newest = max(stamps[start:])
                wanted = None if newest < 0 else (newest, stamps.index(newest, start))
                assert log.replica.offset_of_max_timestamp() == wanted, start
            log.delete_before(400)
            assert log.replica.offset_of_max_timestamp() is None
    with pytest.raises(LogClosedError):
        log.replica.offset_of_max_timestamp()


def test_an_empty_log_has_no_record_of_a_time_for_a_reader_beside_it_either(tmp_path):
    with open_log(tmp_path) as log, open_log(tmp_path, read_only=True) as reader:
        assert log.offset_for_time(0) is None
        assert reader.offset_for_time(0) is None


def test_times_may_be_aware_datetimes(log):
    log.append([(None, b"a", 1_000), (None, b"b", 2_000)])
    assert log.offset_for_time(datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)).offset == 1
    with pytest.raises(TypeError, match="time zone"):
        log.offset_for_time(datetime.datetime(1970, 1, 1))


@pytest.mark.row("K1")
def test_with_log_append_time_the_log_gives_the_timestamps(tmp_path, clock):
    with open_log(tmp_path, clock=clock, message_timestamp_type="LogAppendTime") as log:
        assert log.append([(None, b"a", 5)], timestamp=9).timestamp_ms == NOW_MS
        clock.advance(50)
        assert log.replica.append_batch(one_batch([b"b"], timestamp_ms=7)).timestamp_ms == NOW_MS + 50
        records = list(log)
        assert [record.timestamp_ms for record in records] == [NOW_MS, NOW_MS + 50]
        assert {record.timestamp_type for record in records} == {TimestampType.LOG_APPEND_TIME}
        assert log.offset_for_time(NOW_MS + 1) == (NOW_MS + 50, 1)
        assert values_of(log, since=NOW_MS, until=NOW_MS + 1) == [b"a"]


def test_a_wall_clock_that_goes_back_loses_nothing(tmp_path, clock):
    settings = {
        "clock": clock,
        "message_timestamp_type": "LogAppendTime",
        "segment_ms": 1_000,
        "flush_ms": 10,
    }
    stamps = []
    with open_log(tmp_path, **settings) as log:
        for now in (NOW_MS, NOW_MS - 3_600_000, NOW_MS + 10, 0, NOW_MS + 20):
            clock.set_now_ms(now)
            log.append([b"x"])
            stamps.append(now)
        assert [record.timestamp_ms for record in log] == stamps
        for wanted in (0, NOW_MS, NOW_MS + 1, NOW_MS + 20):
            assert log.offset_for_time(wanted) == next((t, n) for n, t in enumerate(stamps) if t >= wanted)
        clock.advance(10)
        log.maintenance.tick()
        assert log.synced_end == 5
    clock.set_now_ms(1_000)
    with open_log(tmp_path, **settings) as log:
        assert [record.timestamp_ms for record in log] == stamps
        assert log.append([b"y"]).first_offset == 5


@pytest.mark.row("S17")
def test_a_month_old_offset_is_readable_when_nothing_expires(tmp_path, clock):
    with open_log(tmp_path, clock=clock, retention_ms=-1, segment_bytes=2_000, segment_ms=86_400_000) as log:
        for day in range(31):
            log.append([b"day %d" % day] * 20)
            clock.advance(86_400_000)
        clock.advance(30 * 86_400_000)
        log.append([b"today"])
        log.maintenance.tick()
        assert values_of(log, start=0, end=1) == [b"day 0"]
        found = log.offset_for_time(NOW_MS + 86_400_000)
        assert next(iter(log.read(found.offset))).value == b"day 1"
    with open_log(tmp_path, clock=clock, retention_ms=-1) as log:
        assert values_of(log, start=0, end=1) == [b"day 0"]


# --- what may enter -----------------------------------------------------------------------------


@pytest.mark.row("K1")
def test_a_batch_over_the_limit_is_refused_and_one_at_the_limit_is_not(tmp_path):
    batch = one_batch([b"x" * 500])
    with open_log(tmp_path, max_message_bytes=len(batch)) as log:
        log.replica.append_batch(batch)
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            log.replica.append_batch(one_batch([b"x" * 501]))
        with pytest.raises(RecordTooLargeError):
            log.append([b"x" * 501])
        # The leader has let it in, so a follower must take it.
        log.replica.append_batch(at(one_batch([b"x" * 501]), 1), origin=Origin.REPLICATION)
        assert log.log_end_offset == 2


@pytest.mark.row("K1")
def test_timestamps_outside_the_bounds_are_refused(tmp_path, clock):
    settings = {"message_timestamp_before_max_ms": 1_000, "message_timestamp_after_max_ms": 500}
    with open_log(tmp_path, clock=clock, **settings) as log:
        for good in (NOW_MS - 1_000, NOW_MS, NOW_MS + 500):
            log.append([(None, b"x", good)])
            log.replica.append_batch(one_batch([b"x"], timestamp_ms=good))
        for bad in (NOW_MS - 1_001, NOW_MS + 501):
            with pytest.raises(InvalidTimestampError, match=r"message\.timestamp\.(before|after)\.max\.ms"):
                log.append([b"fine", (None, b"x", bad)])
            with pytest.raises(InvalidTimestampError):
                log.replica.append_batch(one_batch([b"x"], timestamp_ms=bad))
        assert log.log_end_offset == 6


@pytest.mark.row("K1")
@pytest.mark.parametrize("codec", list(Codec))
def test_the_codec_of_the_log_wins_over_the_producers(tmp_path, codec):
    with open_log(tmp_path, compression_type=codec.name.lower()) as log:
        log.append([b"same same same"] * 50, codec=Codec.GZIP)
        log.replica.append_batch(one_batch([b"same same same"] * 50, codec=Codec.LZ4))
        with log.appender(codec=Codec.ZSTD) as appender:
            for _ in range(50):
                appender.append(b"same same same")
        assert [batch.codec for batch in log.read(0).batches()] == [codec] * 3
        assert values_of(log) == [b"same same same"] * 150


@pytest.mark.row("K1")
def test_a_compression_level_is_passed_on(tmp_path):
    words = [b"%d" % (n * n % 1_009) for n in range(5_000)]
    sizes = {}
    for level in (1, 9):
        with open_log(tmp_path / str(level), compression_type="gzip", compression_gzip_level=level) as log:
            log.append(words, timestamp=1)
            sizes[level] = log.read(0).size
    assert sizes[9] < sizes[1]


@pytest.mark.row("K1")
def test_a_compacted_log_wants_keys(tmp_path):
    with open_log(tmp_path, cleanup_policy="compact") as log:
        with pytest.raises(InvalidRecordError, match="key"):
            log.append([(b"k", b"v"), b"keyless"])
        with pytest.raises(InvalidRecordError, match="key"):
            log.replica.append_batch(one_batch([b"keyless"]))
        log.append([(b"k", b"v")])
        assert log.log_end_offset == 1


@pytest.mark.row("K1")
def test_the_default_acknowledgement_is_a_setting(tmp_path):
    with open_log(tmp_path, ack="synced") as log:
        log.append([b"a"])
        assert log.synced_end == 1
        log.append([b"b"], ack=Ack.WRITTEN)
        assert log.synced_end == 1
        log.append([b"c"], ack="synced")
        assert log.synced_end == 3


@pytest.mark.row("K1", "S3")
def test_the_index_interval_decides_how_many_entries_there_are(tmp_path):
    entries = {}
    for interval in (0, 1_000, 10_000):
        with open_log(tmp_path / str(interval), index_interval_bytes=interval) as log:
            for _ in range(100):
                log.append([b"x" * 100])
        entries[interval] = (tmp_path / str(interval) / "t-0" / "00000000000000000000.index").stat().st_size // 8
    assert entries[0] == 99
    assert 10 <= entries[1_000] <= 20
    assert entries[10_000] == 1


# --- the end of a log moves back, its start moves up ----------------------------------------------


def test_truncation_takes_whole_batches_from_the_end(tmp_path):
    with open_log(tmp_path, segment_bytes=500) as log:
        for n in range(30):
            log.append([b"%d" % (3 * n + i) for i in range(3)])
        assert log.replica.truncate_to(1_000) == 90
        assert log.replica.truncate_to(61) == 60
        assert (log.log_end_offset, log.high_watermark) == (60, 60)
        assert values_of(log) == [b"%d" % n for n in range(60)]
        assert max(bases(log)) <= 60
        assert log.append([b"new"]).first_offset == 60
        with pytest.raises(OffsetOutOfRangeError):
            log.read(62)
    with open_log(tmp_path, segment_bytes=500) as log:
        assert values_of(log) == [*(b"%d" % n for n in range(60)), b"new"]
        assert log.replica.truncate_to(0) == 0
        assert log.append([b"again"]).first_offset == 0


def test_truncation_below_the_log_start_is_refused(log):
    log.append([b"a"] * 3)
    log.append([b"b"] * 3)
    log.delete_before(3)
    with pytest.raises(OffsetOutOfRangeError):
        log.replica.truncate_to(2)
    assert log.log_end_offset == 6


@pytest.mark.parametrize("before", [0, 1, 3])
def test_truncation_inside_the_batch_of_the_log_start_leaves_an_empty_log_there(tmp_path, before):
    with open_log(tmp_path / "log") as log:
        for _ in range(before):
            log.append([b"first"])
        log.append([b"%d" % n for n in range(10)])
        start = before + 5
        log.delete_before(start)
        assert log.replica.truncate_to(start + 2) == start
        assert (log.log_start_offset, log.log_end_offset, list(log)) == (start, start, [])
        emptied = crashed_copy(log, tmp_path / "emptied")
        assert log.append([b"new"]).first_offset == start
        assert values_of(log) == [b"new"]
        copy = crashed_copy(log, tmp_path / "copy")
    for root, values in ((tmp_path / "log", [b"new"]), (copy, [b"new"]), (emptied, [])):
        with open_log(root) as log:
            assert (log.log_start_offset, values_of(log)) == (start, values)


@pytest.mark.row("S18")
def test_deletion_unlinks_segments_that_lie_below(tmp_path):
    with open_log(tmp_path, segment_bytes=500) as log:
        for n in range(40):
            log.append([b"%03d" % n * 10])
        before = bases(log)
        assert log.delete_before(20) == 20
        assert log.delete_before(3) == 20
        kept = [base for base, after in zip(before, [*before[1:], 40], strict=True) if after > 20]
        assert bases(log) == kept
        assert {name[:20] for name in os.listdir(log.path) if name[0] == "0"} == {f"{base:020d}" for base in kept}
        assert next(iter(log)).offset == 20
        with pytest.raises(OffsetOutOfRangeError, match="log_start_offset"):
            log.read(19)
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_before(41)
        assert log.delete_before(40) == 40
        assert list(log) == []
        assert log.append([b"next"]).first_offset == 40
    with open_log(tmp_path) as log:
        assert (log.log_start_offset, values_of(log)) == (40, [b"next"])


@pytest.mark.row("S18", "R5")
def test_readers_inside_a_deleted_segment_finish(tmp_path):
    with open_log(tmp_path, segment_bytes=2_000) as log:
        for n in range(100):
            log.append([b"%03d" % n * 20])
        held = log.read(0, max_bytes=1_500)
        records = iter(held)
        first = next(records)
        piece = log.replica.locate(0, max_bytes=1_500)
        wanted = piece.read()
        scan = iter(log.scan(max_bytes=500))
        assert next(scan).offset == 0
        log.delete_before(100)
        for _ in range(5):
            log.append([b"after"])
        assert first.value == b"000" * 20
        assert [record.offset for record in records] == list(range(1, held.next_offset))
        assert piece.read() == wanted
        piece.close()
        assert [record.offset for record in scan] == list(range(1, 100))


def test_what_is_deleted_was_synced_first(tmp_path):
    """Else the new start, as the recovery point, would promise bytes that a power cut can take."""
    with open_log(tmp_path) as log:
        log.append([b"a"] * 5)
        log.append([b"b"] * 5)
        log.append([b"c"] * 5)
        log.delete_before(5)
        assert log.synced_end == 15
        log.append([b"d"] * 5)
        log.delete_before(8)
        assert log.synced_end == 15, "what is deleted is on disk already"


# --- what is visible ------------------------------------------------------------------------------


@pytest.mark.row("V2")
def test_records_are_visible_after_the_flush_if_so_configured(tmp_path):
    with open_log(tmp_path, visible_after="flush") as log:
        log.append([b"a"])
        assert (log.log_end_offset, log.high_watermark, list(log)) == (1, 0, [])
        with open_log(tmp_path, read_only=True) as reader:
            assert list(reader) == []
            log.flush()
            assert values_of(reader) == [b"a"]
        assert values_of(log) == [b"a"]
        log.append([b"b"], ack="synced")
        assert values_of(log) == [b"a", b"b"]
        log.append([b"c"])
        copy = crashed_copy(log, tmp_path / "copy")
    with open_log(copy, visible_after="flush") as log:
        assert log.log_end_offset == 3
        assert (log.synced_end, values_of(log)) == (3, [b"a", b"b", b"c"]), "what is found is synced, and shown"


@pytest.mark.row("V3")
def test_the_tail_may_stay_in_memory_until_the_flush(tmp_path):
    table = Files()
    with open_log(tmp_path, tail="memory", files=table) as log:
        log.append([b"a"], ack="synced")
        size = log_files(log)[0].stat().st_size
        log.append([b"b"])
        log.append([b"c"])
        assert log_files(log)[0].stat().st_size == size
        assert (log.log_end_offset, values_of(log)) == (3, [b"a"])
        copy = crashed_copy(log, tmp_path / "copy")
        log.flush()
        assert values_of(log) == [b"a", b"b", b"c"]
        assert log_files(log)[0].stat().st_size > size
    with open_log(copy) as log:
        assert values_of(log) == [b"a"], "a process that dies takes its tail along, and no reader had seen it"


@pytest.mark.row("V3", "K1")
def test_a_memory_tail_is_flushed_when_it_is_large(tmp_path):
    with open_log(tmp_path, tail="memory", tail_bytes=1_000) as log:
        for _ in range(5):
            log.append([b"x" * 100])
        assert log.synced_end == 0
        for _ in range(5):
            log.append([b"x" * 100])
        assert log.synced_end > 0


def test_a_memory_tail_is_spread_over_segments(tmp_path):
    with open_log(tmp_path, tail="memory", segment_bytes=1_000) as log:
        log.append([b"%04d" % n for n in range(1_000)])
        with pytest.raises(RecordTooLargeError):
            log.replica.append_batch(one_batch([b"x" * 1_000]))
        log.flush()
        assert values_of(log) == [b"%04d" % n for n in range(1_000)]
        assert max(path.stat().st_size for path in log_files(log).values()) <= 1_000


def test_a_deletion_leaves_what_the_producers_of_a_memory_tail_have_sent_known(tmp_path):
    settings = {"tail": "memory", "segment_bytes": 400}
    with open_log(tmp_path / "log", **settings) as log:
        for sequence in range(3):
            log.append([b"x" * 200], producer=ProducerStamp(7, 0, sequence))
        for _ in range(3):
            log.append([b"y" * 200])
        # Rolls while it is written, behind the producers' backs.
        log.flush()
        assert log.delete_before(5) == 5
        root = crashed_copy(log, tmp_path / "killed")
    with open_log(root, **settings) as log:
        assert log.append([b"x" * 200], producer=ProducerStamp(7, 0, 2)).duplicate
        with pytest.raises(OutOfOrderSequenceError):
            log.append([b"x"], producer=ProducerStamp(7, 0, 9))


def test_a_truncation_shows_no_committed_reader_what_a_marker_that_is_not_on_disk_decides(tmp_path):
    with open_log(tmp_path, visible_after="flush") as log:
        log.append([b"undecided"], producer=ProducerStamp(7, 0, 0, transactional=True))
        log.flush()
        log.replica.append_control(Marker.COMMIT, producer_id=7, producer_epoch=0)
        log.append([b"cut off"])
        assert log.replica.truncate_to(2) == 2
        assert (log.high_watermark, log.last_stable_offset) == (1, 0)
        log.flush()
        assert (log.high_watermark, log.last_stable_offset) == (2, 2)


def test_a_reader_that_opens_during_an_append_of_several_segments_sees_nothing_of_it(tmp_path, monkeypatch):
    seen = []
    roll = State.roll_locked

    def roll_and_look(state, **options):
        roll(state, **options)
        with open_log(tmp_path, segment_bytes=1_000, read_only=True) as reader:
            seen.append((reader.log_end_offset, values_of(reader)))

    monkeypatch.setattr(State, "roll_locked", roll_and_look)
    with open_log(tmp_path, segment_bytes=1_000) as log:
        log.append([b"before"])
        log.append([b"%0900d" % n for n in range(6)])
        assert len(log_files(log)) > 4
        assert set(map(repr, seen)) == {repr((1, [b"before"]))}
        log.flush()
        assert log.synced_end == log.log_end_offset == 7


def test_a_reader_waits_for_what_comes(log):
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(list(log.read(0, timeout_s=3_600))))
    log_end = log.log_end_offset
    assert not log.wait_for(0, timeout_s=0)
    waiter.start()
    log.append([b"a"])
    waiter.join()
    assert log_end == 0
    assert log.wait_for(0)


@pytest.mark.parametrize("beside", [False, True])
def test_a_reader_that_waits_at_the_end_is_told_when_the_log_is_cut_below_it(tmp_path, beside):
    """It went on waiting for the records after an end that was no longer there."""
    with open_log(tmp_path) as log:
        log.append([b"a", b"b"])
        log.append([b"c"])
        reader = open_log(tmp_path, read_only=True) if beside else log
        answers = []

        def wait_at_the_end():
            try:
                answers.append(reader.read(3, timeout_s=3_600))
            except OffsetOutOfRangeError as error:
                answers.append(error)

        waiter = threading.Thread(target=wait_at_the_end)
        waiter.start()
        wait_for(lambda: beside or log._state.high_watermark.waiters)
        log.replica.truncate_to(2)
        waiter.join()
        assert isinstance(answers[0], OffsetOutOfRangeError)
        assert reader.read(2, timeout_s=0.001).count() == 0
        reader.close()


@pytest.mark.row("C17", part="one process")
def test_only_an_owner_shows_more(tmp_path):
    from logstore.log.marks.policies import HighWatermarkPolicy

    class Careful(HighWatermarkPolicy):
        def high_watermark(self, log_end_offset, synced_end, current):
            return current

    with open_log(tmp_path, policy=Careful()) as log:
        log.append([b"a", b"b", b"c"])
        assert (log.high_watermark, list(log)) == (0, [])
        log.replica.advance_high_watermark(2)
        log.replica.advance_high_watermark(1)
        assert values_of(log) == [b"a", b"b"]
        with pytest.raises(OffsetOutOfRangeError):
            log.replica.advance_high_watermark(4)
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_before(3)


# --- the buffered appender --------------------------------------------------------------------------


@pytest.mark.row("K1")
@pytest.mark.row("P11", part="one process")
def test_an_appender_lingers(tmp_path, clock):
    with open_log(tmp_path, clock=clock, linger_ms=10) as log:
        with log.appender() as appender:
            appender.append(b"a")
            appender.append(b"b", key=b"k")
            clock.advance(9)
            appender.tick()
            assert log.log_end_offset == 0
            clock.advance(1)
            appender.tick()
            assert values_of(log) == [b"a", b"b"]
            clock.advance(50)
            appender.tick()
            appender.append(b"c")
            appender.tick()
            assert log.log_end_offset == 2, "the wait begins with the first record"
        assert values_of(log) == [b"a", b"b", b"c"]
        assert len(log.read(0).batches()) == 2


@pytest.mark.row("K1")
@pytest.mark.row("P11", part="one process")
def test_an_appender_writes_when_a_batch_is_full(tmp_path, clock):
    with open_log(tmp_path, clock=clock, batch_bytes=1_000) as log:
        with log.appender() as appender:
            for n in range(100):
                appender.append(b"%05d" % n * 10)
            written = log.log_end_offset
            assert 80 < written < 100
        batches = log.read(0).batches()
        assert all(900 <= batch.size <= 1_100 for batch in batches[:-1])
        assert values_of(log) == [b"%05d" % n * 10 for n in range(100)]


def test_a_submitted_record_knows_its_offset_once_it_is_acknowledged(tmp_path, clock):
    with open_log(tmp_path, clock=clock) as log:
        log.append([b"x"] * 3)
        with log.appender(ack="synced") as appender:
            futures = [appender.submit(b"%d" % n, headers=[("n", b"1")]) for n in range(5)]
            assert not any(future.done() for future in futures)
            assert appender.flush()[:2] == (3, 7)
            assert [future.result(timeout=0) for future in futures] == [3, 4, 5, 6, 7]
            assert log.synced_end == 8
            assert appender.flush() is None


def test_threads_keep_their_order_in_one_appender(tmp_path):
    with open_log(tmp_path, batch_bytes=2_000, segment_bytes=20_000) as log:
        with log.appender() as appender:

            def write(name):
                for n in range(500):
                    (appender.append if n % 7 else appender.submit)(b"%d:%d" % (name, n))

            threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        read = values_of(log)
    assert len(read) == 2_000
    for name in range(4):
        mine = [value for value in read if value.startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, n) for n in range(500)]


def test_by_the_machines_clock_the_appender_writes_by_itself(tmp_path):
    with open_log(tmp_path, linger_ms=1) as log, log.appender() as appender:
        appender.append(b"a")
        assert log.wait_for(0, timeout_s=60)


def test_a_bad_record_is_refused_and_the_gathered_ones_stay(tmp_path, clock):
    with open_log(tmp_path, clock=clock) as log, log.appender() as appender:
        appender.append(b"a")
        for bad in ("text", 5, [b"x"]):
            with pytest.raises(TypeError):
                appender.append(bad)
        with pytest.raises(TypeError):
            appender.append(b"x", key="text")
        with pytest.raises(RecordTooLargeError):
            appender.append(bytes(2_000_000))
        appender.append(b"b")
        appender.flush()
        assert values_of(log) == [b"a", b"b"]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_a_record_that_no_codec_makes_fit_is_refused_alone(tmp_path, clock, codec):
    noise = random.Random(4)
    with open_log(tmp_path, clock=clock, max_message_bytes=1_000) as log:
        with log.appender(codec=codec) as appender:
            appender.append(b"before")
            with pytest.raises(RecordTooLargeError):
                appender.append(noise.randbytes(2_000))
            future = appender.submit(b"after")
            appender.append(bytes(5_000))
            for _ in range(30):
                appender.append(noise.randbytes(100))
        assert future.result(timeout=0) == 1
        read = values_of(log)
        assert read[:3] == [b"before", b"after", bytes(5_000)]
        assert len(read) == 33


def test_a_batch_that_the_log_refuses_is_reported_and_dropped(tmp_path, clock):
    with open_log(tmp_path, clock=clock, message_timestamp_before_max_ms=1_000) as log:
        appender = log.appender(linger_ms=10)
        future = appender.submit(b"old", timestamp_ms=5)
        with pytest.raises(InvalidTimestampError):
            appender.flush()
        assert isinstance(future.exception(timeout=0), InvalidTimestampError)
        appender.append(b"good")
        appender.flush()
        appender.append(b"old", timestamp_ms=5)
        clock.advance(10)
        appender.tick()
        with pytest.raises(InvalidTimestampError):
            appender.append(b"told once")
        appender.append(b"again")
        appender.append(b"old", timestamp_ms=5)
        with pytest.raises(InvalidTimestampError):
            appender.close()
        appender.close()
        assert values_of(log) == [b"good"]
        with pytest.raises(LogClosedError):
            appender.append(b"late")


def test_an_appender_of_a_closed_log_says_so(tmp_path, clock):
    log = open_log(tmp_path, clock=clock)
    appender = log.appender()
    appender.append(b"a")
    log.close()
    with pytest.raises(LogClosedError):
        appender.flush()
    with pytest.raises(LogClosedError):
        appender.close()


# --- many threads, few syncs --------------------------------------------------------------------------


def test_threads_share_their_syncs(tmp_path):
    table = Files()
    with open_log(tmp_path, files=table) as log:
        log.append([b"warm"], ack="synced")
        before = table.call_counts()["fdatasync"]
        start = threading.Barrier(8)

        def write():
            start.wait()
            for _ in range(30):
                result = log.append([b"x" * 100], ack="synced")
                assert log.synced_end > result.last_offset

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.log_end_offset == log.synced_end == 241
        assert table.call_counts()["fdatasync"] - before < 240


# --- producers ------------------------------------------------------------------------------------


def idempotent(sequence, epoch=0, producer_id=7):
    return ProducerStamp(producer_id, epoch, sequence)


@pytest.mark.row("P13", part="one process")
@pytest.mark.parametrize("leave", ["stay", "close", "crash", "roll", "roll and close", "roll and crash"])
def test_duplicates_among_the_last_five_batches_are_dropped(tmp_path, leave):
    log = open_log(tmp_path / "log")
    first = [log.append([b"%d" % n, b"+"], producer=idempotent(2 * n)) for n in range(8)]
    if "roll" in leave:
        log.maintenance.roll()
    if "close" in leave:
        log.close()
        log = open_log(tmp_path / "log")
    if "crash" in leave:
        copy = crashed_copy(log, tmp_path / "copy")
        log.close()
        log = open_log(copy)
    with log:
        for n in range(3, 8):
            again = log.append([b"%d" % n, b"+"], producer=idempotent(2 * n))
            assert again == first[n]._replace(duplicate=True)
        assert log.log_end_offset == 16
        batch = one_batch([b"7", b"+"], producer_id=7, producer_epoch=0, base_sequence=14)
        assert log.replica.append_batch(batch).duplicate
        assert log.metrics().counters["duplicates"] == 6
        with pytest.raises(OutOfOrderSequenceError):
            log.append([b"x"], producer=idempotent(18))
        assert not log.append([b"x"], producer=idempotent(16)).duplicate


@pytest.mark.row("P13", part="one process")
def test_sequences_wrap(tmp_path):
    last = 2**31 - 1
    with open_log(tmp_path) as log:
        log.append([b"a", b"b"], producer=idempotent(last - 2))
        over = log.append([b"c", b"d", b"e"], producer=idempotent(last))
        assert log.append([b"c", b"d", b"e"], producer=idempotent(last)).duplicate
        log.append([b"f"], producer=idempotent(2))
    with open_log(tmp_path) as log:
        assert log.append([b"c", b"d", b"e"], producer=idempotent(last))[:2] == over[:2]
        assert not log.append([b"g"], producer=idempotent(3)).duplicate
        assert values_of(log) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


@pytest.mark.row("P13", part="one process")
def test_an_older_epoch_is_fenced(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a"], producer=idempotent(0, epoch=1))
        log.append([b"b"], producer=idempotent(0, epoch=2))
    with open_log(tmp_path) as log:
        with pytest.raises(ProducerFencedError):
            log.append([b"zombie"], producer=idempotent(1, epoch=1))
        with pytest.raises(OutOfOrderSequenceError):
            log.append([b"c"], producer=idempotent(5, epoch=3))
        log.append([b"c"], producer=idempotent(0, epoch=3))
        assert values_of(log) == [b"a", b"b", b"c"]


def test_truncation_takes_back_what_producers_have_written(tmp_path):
    with open_log(tmp_path, segment_bytes=200) as log:
        for n in range(6):
            log.append([b"%d" % n * 50], producer=idempotent(n))
        log.replica.truncate_to(3)
        assert log.append([b"3" * 50], producer=idempotent(3)).duplicate is False
        assert log.append([b"2" * 50], producer=idempotent(2)).duplicate
        with pytest.raises(OutOfOrderSequenceError):
            log.append([b"5"], producer=idempotent(5))


def test_a_truncation_leaves_no_snapshot_of_an_earlier_one(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"plain"])
        log.append([b"a"], producer=idempotent(0))
        log.replica.truncate_to(1)  # no producer is left: an empty snapshot at offset 1
        log.replica.truncate_to(0)
        log.append([b"a"], producer=idempotent(0))
        with open_log(crashed_copy(log, tmp_path / "crashed")) as again:
            assert again.append([b"a"], producer=idempotent(0)).duplicate
            with pytest.raises(OutOfOrderSequenceError):
                again.append([b"c"], producer=idempotent(2))


# --- transactions -----------------------------------------------------------------------------------


def write_transactions(log):
    """Committed, aborted and open ones over several segments; the values that commit."""
    sequences = {1: 0, 2: 0, 3: 0}

    def put(producer_id, value):
        log.append([value * 20], producer=ProducerStamp(producer_id, 0, sequences[producer_id], True))
        sequences[producer_id] += 1

    for n in range(6):
        put(1, b"one")
        log.append([b"plain" * 20])
        put(2, b"two")
        log.replica.append_control(Marker.COMMIT if n % 2 else Marker.ABORT, producer_id=1, producer_epoch=0)
        put(2, b"two")
        log.replica.append_control(Marker.ABORT if n % 2 else Marker.COMMIT, producer_id=2, producer_epoch=0)
    first_open = log.log_end_offset
    put(3, b"three")
    log.append([b"plain" * 20])
    return first_open


def committed_values(log, start=0):
    return [record.value[:5] for record in log.scan(start, isolation="read_committed")]


@pytest.mark.row("T5", part="one process")
@pytest.mark.row("T4", part="data partitions")
@pytest.mark.parametrize("tail", ["file", "memory"])
@pytest.mark.parametrize("segment_bytes", [250, 1_000, 1 << 20])
@pytest.mark.parametrize("leave", ["stay", "close", "crash", "beside"])
def test_committed_readers_see_decided_transactions_only(tmp_path, tail, segment_bytes, leave):
    settings = {"segment_bytes": segment_bytes, "tail": tail}
    log = open_log(tmp_path / "log", **settings)
    first_open = write_transactions(log)
    log.flush()
    everything = [record.value[:5] for record in log]
    assert len(everything) == 26
    beside = log
    if leave == "close":
        log.close()
        log = beside = open_log(tmp_path / "log", **settings)
    elif leave == "crash":
        copy = crashed_copy(log, tmp_path / "copy")
        log.close()
        log = beside = open_log(copy, **settings)
        log.flush()
    elif leave == "beside":
        beside = open_log(tmp_path / "log", read_only=True)
    assert (log.last_stable_offset, beside.last_stable_offset) == (first_open, first_open)
    assert [record.value[:5] for record in beside] == everything
    expected = [b"plain", b"twotw", b"twotw", b"oneon", b"plain"] * 3
    assert sorted(committed_values(beside)) == sorted(expected)
    whole = [(r.offset, r.value) for r in beside.scan(isolation="read_committed")]
    for start in range(first_open + 1):
        part = [(r.offset, r.value) for r in beside.scan(start, isolation="read_committed", max_bytes=300)]
        assert part == [(offset, value) for offset, value in whole if offset >= start]
    log.replica.append_control(Marker.COMMIT, producer_id=3, producer_epoch=0)
    log.flush()
    assert beside.last_stable_offset == log.log_end_offset
    assert committed_values(beside, first_open) == [b"three", b"plain"]
    for readable in {beside, log}:
        readable.close()


def test_an_aborted_transaction_is_known_though_the_snapshots_are_gone(tmp_path):
    """A power cut may take snapshots and the newest .txnindex; batches are what counts."""
    with open_log(tmp_path / "log", segment_bytes=300) as log:
        log.append([b"open" * 50], producer=ProducerStamp(1, 0, 0, True))
        log.append([b"x" * 200])
        log.append([b"x" * 200])
        log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0)
        copy = crashed_copy(log, tmp_path / "copy")
    gone = [*copy.glob("t-0/*.snapshot"), *copy.glob("t-0/*.txnindex"), *copy.glob("t-0/logstore.producers")]
    assert gone
    for path in gone:
        path.unlink()
    with open_log(copy, segment_bytes=300) as log:
        assert [record.value[:1] for record in log.scan(isolation="read_committed")] == [b"x", b"x"]


def test_the_aborted_index_of_a_sealed_segment_is_synced(tmp_path):
    def syncs(root, marker):
        table = Files()
        with open_log(root, files=table) as log:
            log.append([b"a"], producer=ProducerStamp(1, 0, 0, True))
            log.replica.append_control(marker, producer_id=1, producer_epoch=0)
            log.maintenance.roll()
            log.append([b"b"])
            log.flush()
            return table.call_counts()["fdatasync"]

    # One for the index, two for the note of what is in it: when it is made, and after the roll.
    assert syncs(tmp_path, Marker.ABORT) == syncs(tmp_path / "plain", Marker.COMMIT) + 3


# --- epochs, replication, restarts --------------------------------------------------------------------


def test_the_leader_epoch_rises_at_each_unclean_open(tmp_path):
    log = open_log(tmp_path / "0")
    assert log.replica.leader_epoch == 0
    log.append([b"a"])
    copy = crashed_copy(log, tmp_path / "1")
    log.close()
    with open_log(tmp_path / "0") as clean:
        assert (clean.replica.leader_epoch, clean.maintenance.was_clean) == (0, True)
    for epoch in (1, 2, 3):
        log = open_log(copy)
        assert (log.replica.leader_epoch, log.maintenance.was_clean) == (epoch, False)
        log.append([b"b"])
        copy = crashed_copy(log, tmp_path / str(epoch + 1))
        epochs = [batch.leader_epoch for batch in log.read(0).batches()]
        log.close()
    assert epochs == [0, 1, 2, 3]


def test_replicated_batches_keep_their_offsets_and_epochs(tmp_path):
    with open_log(tmp_path) as log:
        given = at(one_batch([b"a", b"b"]), 5, leader_epoch=3)
        assert log.replica.append_batch(given, origin=Origin.REPLICATION)[:2] == (5, 6)
        assert log.read(0).data == given
        with pytest.raises(UnexpectedOffsetError):
            log.replica.append_batch(at(one_batch([b"x"]), 6, leader_epoch=3), origin=Origin.REPLICATION)
        with pytest.raises(FencedLeaderEpochError):
            log.replica.append_batch(at(one_batch([b"x"]), 7, leader_epoch=2), origin=Origin.REPLICATION)
        assert log.log_end_offset == 7
        assert [record.offset for record in log.scan(0)] == [5, 6]


@pytest.mark.row("S16")
def test_a_clean_reopen_scans_nothing(tmp_path):
    with open_log(tmp_path, segment_bytes=5_000) as log:
        for _ in range(200):
            log.append([b"x" * 100])
    with open_log(tmp_path, segment_bytes=5_000) as log:
        metrics = log.metrics()
        assert (metrics.was_clean, metrics.recovered_bytes, metrics.cut_bytes) == (True, 0, 0)
        assert log.log_end_offset == 200


def test_a_close_ends_though_another_thread_appends_all_the_while(tmp_path, monkeypatch):
    """It flushed until nothing had come since the flush, which a writer can put off for ever."""
    log = open_log(tmp_path)
    flushed, sync_to = [], Flusher.sync_to

    def sync_and_append(flusher, offset):
        sync_to(flusher, offset)
        flushed.append(offset)
        if len(flushed) < 20:
            log.append([b"meanwhile"])

    monkeypatch.setattr(Flusher, "sync_to", sync_and_append)
    log.append([b"v"])
    log.close()
    assert flushed == [1]
    monkeypatch.undo()
    with open_log(tmp_path) as log:
        assert log.maintenance.was_clean
        assert values_of(log) == [b"v", b"meanwhile"]


def test_a_closed_log_may_be_closed_again_and_does_nothing_else(tmp_path):
    log = open_log(tmp_path)
    log.append([b"a"])
    log.close()
    log.close()
    for use in (
        lambda: log.append([b"x"]),
        lambda: log.replica.append_batch(one_batch([b"x"])),
        lambda: log.read(0),
        lambda: log.scan(),
        log.flush,
        log.maintenance.roll,
        log.appender,
        lambda: log.replica.truncate_to(0),
        lambda: log.delete_before(0),
        lambda: log.offset_for_time(0),
        lambda: log.replica.locate(0),
        lambda: log.wait_for(0),
    ):
        with pytest.raises(LogClosedError, match=r"call Log\.open\(\) again"):
            use()


# --- beside the writer --------------------------------------------------------------------------------


def test_a_reader_follows_its_writer(tmp_path):
    with open_log(tmp_path, segment_bytes=300) as log, open_log(tmp_path, read_only=True) as reader:
        for n in range(30):
            log.append([b"%d" % n * 20])
            assert reader.log_end_offset == n + 1
            assert next(iter(reader.read(n))).value == b"%d" % n * 20
        log.delete_before(10)
        assert reader.log_start_offset == 10
        assert [record.offset for record in reader] == list(range(10, 30))
        log.replica.truncate_to(20)
        assert [record.offset for record in reader] == list(range(10, 20))
        log.append([b"other" * 20])
        assert values_of(reader, start=20) == [b"other" * 20]
        assert reader.offset_for_time(0).offset == 10
        for change in (
            lambda: reader.append([b"x"]),
            reader.flush,
            lambda: reader.replica.truncate_to(0),
            reader.appender,
        ):
            with pytest.raises(ReadOnlyError, match="read_only"):
                change()


def test_a_reader_of_a_truncation_under_way_sees_no_old_records(tmp_path, monkeypatch):
    """It looks while the old segments are still there, and again when they are gone."""
    with open_log(tmp_path, segment_bytes=300) as log, open_log(tmp_path, read_only=True) as reader:
        for n in range(12):
            log.append([b"old %02d" % n * 20])
        segments = log._state.segments
        drop = type(segments).drop

        def look_and_drop(self, doomed):
            assert reader.log_end_offset == 3
            assert values_of(reader) == [b"old %02d" % n * 20 for n in range(3)]
            drop(self, doomed)

        monkeypatch.setattr(type(segments), "drop", look_and_drop)
        log.replica.truncate_to(3)
        monkeypatch.undo()
        for n in range(3, 12):
            log.append([b"new %02d" % n * 20])
            assert values_of(reader, start=3) == [b"new %02d" % i * 20 for i in range(3, n + 1)]


def test_a_reader_with_few_descriptors_survives_deletion(tmp_path):
    with open_log(tmp_path, segment_bytes=300) as log:
        for n in range(12):
            log.append([b"%d" % n * 50])
        with open_log(tmp_path, read_only=True, files=Files(descriptor_limit=1)) as reader:
            assert len(list(reader)) == 12
            log.delete_before(12)
            assert list(reader) == []
            for n in range(12, 20):
                log.append([b"%d" % n * 50])
                assert [record.offset for record in reader] == list(range(12, n + 1))


def test_many_descriptors_are_not_needed(tmp_path):
    table = Files(descriptor_limit=3)
    with open_log(tmp_path, segment_bytes=300, files=table) as log:
        for n in range(60):
            log.append([b"%d" % n * 30])
            if n % 7 == 0:
                assert [record.offset for record in log] == list(range(n + 1))
        log.flush()
        log.replica.truncate_to(40)
        log.delete_before(20)
        assert [record.offset for record in log] == list(range(20, 40))
    with open_log(tmp_path, segment_bytes=300, files=table) as log:
        assert [record.offset for record in log] == list(range(20, 40))


# --- as a table -----------------------------------------------------------------------------------------


@pytest.mark.row("M7", "M9")
def test_a_scan_is_an_arrow_table_whose_rows_name_their_place(tmp_path):
    pyarrow = __import__("pyarrow")
    with Log.open(tmp_path / "flights-3") as log:
        log.append([(b"k%d" % n, b"v%d" % n, 1_000 + n) for n in range(10)])
        log.append([None, b""], timestamp=5)
        table = pyarrow.table(log.scan(start=8))
    assert table.column("topic").to_pylist() == ["flights"] * 4
    assert table.column("partition").to_pylist() == [3] * 4
    assert table.column("offset").to_pylist() == [8, 9, 10, 11]
    assert table.column("key").to_pylist() == [b"k8", b"k9", None, None]
    assert table.column("value").to_pylist() == [b"v8", b"v9", None, b""]


def test_batches_stand_for_themselves(log):
    log.append([b"a", b"b"])
    copy = Batches(log.read(0).data)
    assert copy.values() == [b"a", b"b"]
    assert encode([b"a"], timestamp_ms=1)[16] == 2
