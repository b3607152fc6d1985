"""What is wrong is refused by an error of its own, in words that help, and changes nothing on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from functools import partial

import pytest

from logstore import Codec
from logstore.batch._codec import compress
from logstore.batch._encode import Encoder, encode, encode_marker
from logstore.errors import (
    CoordinatorFencedError,
    CorruptRecordError,
    DamagedLogError,
    DirectoryLockedError,
    DuplicateSequenceError,
    FencedLeaderEpochError,
    InvalidRecordError,
    InvalidSettingError,
    InvalidTimestampError,
    InvalidTransactionError,
    LogClosedError,
    NotALogError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedOffsetError,
    UnknownSettingError,
    UnsupportedCodecError,
    UnsupportedFormatError,
)
from logstore.io._files import Files
from logstore.log import Marker, Origin, ProducerStamp
from logstore.testing import ManualClock
from tests.log.logs import NOW_MS, at, crashed_copy, log_files, one_batch, open_log, tree, values_of

HEADER = 61


@pytest.fixture
def log(tmp_path):
    """A log with something in it: records, a producer at sequence 2 of epoch 1, an open transaction."""
    with open_log(
        tmp_path / "root",
        clock=ManualClock(NOW_MS),
        max_message_bytes=5_000,
        message_timestamp_before_max_ms=1_000_000,
        decompressed_max_bytes=20_000,
    ) as log:
        log.append([b"a", b"b"])
        log.append([b"c", b"d"], producer=ProducerStamp(7, 1, 0))
        log.append([b"e"], producer=ProducerStamp(8, 0, 0, True))
        log.replica.append_control(Marker.COMMIT, producer_id=9, producer_epoch=0, coordinator_epoch=4)
        log.delete_before(1)
        log.replica.append_batch(at(one_batch([b"f"]), 6, leader_epoch=3), origin=Origin.REPLICATION)
        yield log


def refused(log, error, words, use):
    """The use raises exactly this error, with its words, and leaves disk and log as they were."""
    root = os.path.dirname(log.path)
    before, marks = tree(root), log.metrics()
    with pytest.raises(error, match=words) as caught:
        use()
    assert type(caught.value) is error
    assert tree(root) == before
    after = log.metrics()
    for name in (
        "log_start_offset",
        "log_end_offset",
        "high_watermark",
        "last_stable_offset",
        "size",
        "producer_count",
    ):
        assert getattr(after, name) == getattr(marks, name), name
    return caught.value


def sealed(batch: bytes) -> bytes:
    """The batch with length and CRC made to fit."""
    from logstore.batch._crc32c import crc32c

    batch = batch[:8] + (len(batch) - 12).to_bytes(4, "big") + batch[12:]
    return batch[:17] + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]


def patched(batch: bytes, position: int, data: bytes, *, seal: bool = True) -> bytes:
    changed = batch[:position] + data + batch[position + len(data) :]
    return sealed(changed) if seal else changed


def int32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


GOOD = one_batch([(b"key", b"value", None, [("h", b"x")]), b"second"])
PLAIN = one_batch([b"x", b"y"])

BATCHES = {
    "magic 0": (patched(GOOD, 16, b"\0", seal=False), UnsupportedFormatError, 43, "magic byte 0, expected 2"),
    "magic 1": (patched(GOOD, 16, b"\1", seal=False), UnsupportedFormatError, 43, "Kafka 0.11"),
    "magic 3": (patched(GOOD, 16, b"\3", seal=False), UnsupportedFormatError, 43, "magic byte 3"),
    "nothing": (b"", CorruptRecordError, 2, "61 bytes, found 0"),
    "half a header": (GOOD[:30], CorruptRecordError, 2, "61 bytes, found 30"),
    "half a batch": (GOOD[:-1], CorruptRecordError, 2, "bytes are there"),
    "two batches": (GOOD + GOOD, CorruptRecordError, 2, "one batch at a time"),
    "length too small": (patched(GOOD, 8, int32(10), seal=False), CorruptRecordError, 2, "batch length 10"),
    "length negative": (patched(GOOD, 8, int32(-1), seal=False), CorruptRecordError, 2, "batch length -1"),
    "length too large": (patched(GOOD, 8, int32(2**31 - 1), seal=False), CorruptRecordError, 2, "bytes are there"),
    "CRC": (patched(GOOD, len(GOOD) - 1, b"!", seal=False), CorruptRecordError, 2, "CRC-32C"),
    "count too large": (patched(GOOD, 57, int32(3)), CorruptRecordError, 2, "record count 3"),
    "count too small": (patched(GOOD, 57, int32(1)), InvalidRecordError, 87, "record count 1"),
    "count negative": (patched(GOOD, 57, int32(-1)), CorruptRecordError, 2, "record count -1"),
    "last delta negative": (patched(GOOD, 23, int32(-1)), CorruptRecordError, 2, "last offset delta -1"),
    "last delta too large": (patched(GOOD, 23, int32(7)), InvalidRecordError, 87, "last offset delta 7"),
    "count and delta too large": (
        patched(patched(GOOD, 57, int32(3)), 23, int32(2)), InvalidRecordError, 87, "record 2 of 3",
    ),
    "no records": (sealed(patched(GOOD, 57, int32(0))[:HEADER]), InvalidRecordError, 87, "no records|count 0"),
    "record length": (patched(GOOD, HEADER, b"\x7f"), InvalidRecordError, 87, "record 0 of 2"),
    "record length negative": (patched(GOOD, HEADER, b"\x01"), InvalidRecordError, 87, "record 0 of 2"),
    "varint without end": (patched(GOOD, HEADER, b"\xff" * 10), InvalidRecordError, 87, "varint"),
    "offset delta": (patched(PLAIN, HEADER + 3, b"\x04"), InvalidRecordError, 87, "offset delta of record 0"),
    "key length": (patched(PLAIN, HEADER + 4, b"\x7e"), InvalidRecordError, 87, "record 0"),
    "value length": (patched(PLAIN, HEADER + 5, b"\x03"), InvalidRecordError, 87, "record 0"),
    "header count": (patched(PLAIN, HEADER + 7, b"\x02"), InvalidRecordError, 87, "record 0"),
    "bytes behind": (sealed(PLAIN + b"\0\0"), InvalidRecordError, 87, "behind the last record"),
    "codec 5": (patched(GOOD, 21, b"\0\5"), UnsupportedCodecError, 76, "codec 5"),
    "codec 7": (patched(GOOD, 21, b"\0\7"), UnsupportedCodecError, 76, "codec 7"),
    "control batch": (
        encode_marker(1, 0, 9, 0, NOW_MS), InvalidRecordError, 87, "append_control",
    ),
    "delete horizon": (patched(GOOD, 21, b"\0\x40"), InvalidRecordError, 87, "delete horizon"),
    "transactional without producer": (patched(GOOD, 21, b"\0\x10"), InvalidRecordError, 87, "producer id"),
    "producer without epoch": (
        one_batch([b"x"], producer_id=5, producer_epoch=-1, base_sequence=0), InvalidRecordError, 87, "epoch",
    ),
    "producer without sequence": (
        one_batch([b"x"], producer_id=5, producer_epoch=0), InvalidRecordError, 87, "sequence",
    ),
    "too large": (one_batch([bytes(5_000)]), RecordTooLargeError, 10, r"max\.message\.bytes 5000.*raise that"),
    "too old": (one_batch([b"x"], timestamp_ms=1), InvalidTimestampError, 32, r"before\.max\.ms allows 1000000"),
    "of the future": (
        one_batch([b"x"], timestamp_ms=NOW_MS + 3_600_001), InvalidTimestampError, 32, r"after\.max\.ms",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_a_bad_batch_is_refused(log, name):
    batch, error, code, words = BATCHES[name]
    assert refused(log, error, words, lambda: log.replica.append_batch(batch)).code == code


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_damaged_compressed_batch_is_refused(log, codec):
    batch = one_batch([b"value %d" % n for n in range(50)], codec=codec)
    for bad in (batch[:HEADER] + b"nonsense" + batch[HEADER + 8 :], batch[:-5], batch[:HEADER]):
        error = refused(
            log,
            CorruptRecordError,
            codec.name.lower() + "|" + "frame|block|stream|empty",
            partial(log.replica.append_batch, sealed(bad)),
        )
        assert error.code == 2


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_decompresses_to_more_than_the_limit_is_refused(log, codec):
    bomb = one_batch([bytes(30_000)], codec=codec)
    assert len(bomb) < 5_000
    error = refused(log, RecordTooLargeError, "20000", lambda: log.replica.append_batch(bomb))
    assert error.code == 10


def test_a_codec_whose_package_is_missing_is_named(log):
    batch = one_batch([b"x"], codec=Codec.SNAPPY)
    script = """
        import sys
        sys.modules["cramjam"] = None
        from logstore import Log, Codec
        from logstore.errors import UnsupportedCodecError
        batch = bytes.fromhex(sys.argv[2])
        with Log.open(sys.argv[1]) as log:
            for use in (lambda: log.replica.append_batch(batch), lambda: log.append([b"x"], codec=Codec.SNAPPY)):
                try:
                    use()
                except UnsupportedCodecError as error:
                    assert error.code == 76
                    assert "cramjam" in str(error) and "logstore[snappy]" in str(error), error
                else:
                    raise AssertionError("taken")
            assert log.log_end_offset == 0
    """
    path = os.path.join(os.path.dirname(os.path.dirname(log.path)), "second", "t-0")
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), path, batch.hex()], check=True)


PRODUCERS = {
    "a missing sequence": (
        ProducerStamp(7, 1, 5),
        OutOfOrderSequenceError,
        45,
        "expected sequence 2, found 5",
    ),
    "a new epoch that begins late": (
        ProducerStamp(7, 2, 3),
        OutOfOrderSequenceError,
        45,
        "begins with sequence 0",
    ),
    "an old epoch": (ProducerStamp(7, 0, 2), ProducerFencedError, 47, "epoch 1 has written here"),
    "plain in a transaction": (ProducerStamp(8, 0, 1), InvalidTransactionError, 48, "transaction is open"),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_a_producer_that_does_not_fit_is_refused(log, name):
    stamp, error, code, words = PRODUCERS[name]
    assert refused(log, error, words, lambda: log.append([b"x"], producer=stamp)).code == code


def test_a_duplicate_older_than_the_last_five_batches_is_told_apart(log):
    for n in range(1, 7):
        log.append([b"x"], producer=ProducerStamp(7, 1, 1 + n))
    error = refused(
        log,
        DuplicateSequenceError,
        "written before",
        lambda: log.append([b"c", b"d"], producer=ProducerStamp(7, 1, 0)),
    )
    assert error.code == 46


def test_markers_of_older_producers_and_coordinators_are_refused(log):
    def marker(producer_id, epoch, coordinator_epoch):
        return lambda: log.replica.append_control(
            Marker.ABORT, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch
        )

    assert refused(log, CoordinatorFencedError, "coordinator epoch 3", marker(9, 0, 3)).code == 52
    assert refused(log, ProducerFencedError, "epoch 1", marker(7, 0, 9)).code == 47
    data = one_batch([b"x"], producer_id=9, producer_epoch=0, base_sequence=0)
    words = "control batches only"
    refused(log, InvalidRecordError, words, lambda: log.replica.append_batch(data, origin=Origin.COORDINATOR))


def test_replicated_batches_that_do_not_follow_are_refused(log):
    def replicate(base_offset, leader_epoch):
        return lambda: log.replica.append_batch(
            at(one_batch([b"x"]), base_offset, leader_epoch), origin=Origin.REPLICATION
        )

    assert refused(log, UnexpectedOffsetError, "begins at offset 6, the log ends at 7", replicate(6, 3)).code == 1
    assert refused(log, FencedLeaderEpochError, "leader epoch 2", replicate(7, 2)).code == 74


RECORDS = {
    "str": (["text"], RecordTypeError, "found str; encode it first"),
    "str key": ([("key", b"v")], RecordTypeError, "key must be bytes.*str"),
    "int": ([5], RecordTypeError, "found int"),
    "list": ([[b"v"]], RecordTypeError, "found list"),
    "one value": (b"value", RecordTypeError, r"one bytes; write \[value\]"),
    "one str": ("text", RecordTypeError, "one str"),
    "nothing iterable": (5, InvalidRecordError, "found int"),
    "a tuple of one": ([(b"v",)], RecordTypeError, "tuple of 1"),
    "a tuple of five": ([(b"k", b"v", 1, (), ())], RecordTypeError, "tuple of 5"),
    "headers of bytes": ([(b"k", b"v", NOW_MS, [(b"h", b"x")])], RecordTypeError, "header key must be str"),
    "str in a header": ([(b"k", b"v", NOW_MS, [("h", "x")])], RecordTypeError, "header value.*str"),
    "headers that are no pairs": ([(b"k", b"v", NOW_MS, [b"hx1"])], RecordTypeError, "pairs"),
    "a timestamp before 1970": ([(b"k", b"v", -5)], InvalidTimestampError, "-5"),
    "a timestamp as text": ([(b"k", b"v", "now")], RecordTypeError, "timestamp.*found str"),
    "a float timestamp": ([(b"k", b"v", 1.5)], RecordTypeError, "timestamp.*found float"),
    "the second of two": ([b"fine", "text"], RecordTypeError, "str"),
    "too large": ([bytes(5_000)], RecordTooLargeError, r"max\.message\.bytes 5000"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_bad_record_is_refused(log, name):
    records, error, words = RECORDS[name]
    caught = refused(log, error, words, lambda: log.append(records))
    if name == "the second of two":
        assert caught.__notes__ == ["in record 1 of this append"]


def test_a_batch_that_is_no_buffer_is_refused(log):
    refused(log, RecordTypeError, "str", lambda: log.replica.append_batch("text"))
    for bad in (5, None, [b"x"]):
        refused(log, RecordTypeError, type(bad).__name__, lambda bad=bad: log.replica.append_batch(bad))


def test_an_unknown_codec_or_acknowledgement_is_refused(log):
    refused(log, UnsupportedCodecError, "codec 9", lambda: log.append([b"x"], codec=9))
    for use in (
        lambda: log.append([b"x"], ack="sometimes"),
        lambda: log.replica.append_batch(PLAIN, ack="sometimes"),
        lambda: log.appender(ack="sometimes"),
    ):
        refused(log, InvalidSettingError, "ack: expected 'written' or 'synced', found 'sometimes'", use)
    with log.appender() as appender:
        for use in (
            lambda: log.append([b"x"], ack=5),
            lambda: appender.flush(ack=5),
        ):
            refused(log, InvalidSettingError, "ack: .* found 5", use)


def test_an_unknown_isolation_is_refused(log):
    for use in (
        lambda: log.read(1, isolation="sometimes"),
        lambda: log.replica.locate(1, isolation="sometimes"),
        lambda: log.scan(isolation="sometimes"),
        lambda: log.offset_for_time(0, isolation="sometimes"),
        lambda: log.wait_for(1, isolation="sometimes"),
    ):
        refused(log, InvalidSettingError, "isolation: expected 'read_uncommitted' or 'read_committed'", use)


OFFSETS = {
    "below the start": (lambda log: log.read(0), "offset 0 is out of range, the log holds 1 to 6"),
    "above the end": (lambda log: log.read(8), "offset 8 is out of range"),
    "negative": (lambda log: log.read(-1), "offset -1"),
    "a slice": (lambda log: log.replica.locate(8), "offset 8"),
    "a scan": (lambda log: log.scan(0), "begin again at log_start_offset"),
    "the end of a scan": (lambda log: log.scan(1, 99), "offset 99"),
    "a truncation": (lambda log: log.replica.truncate_to(0), "starts at 1"),
    "a deletion": (lambda log: log.delete_before(99), "high watermark is 7"),
    "a high watermark": (lambda log: log.replica.advance_high_watermark(99), "99"),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_an_offset_out_of_range_is_refused(log, name):
    use, words = OFFSETS[name]
    error = refused(log, OffsetOutOfRangeError, words, lambda: use(log))
    assert error.code == 1
    assert isinstance(error, LookupError)


def test_a_closed_log_is_refused(log):
    log.close()
    before = tree(os.path.dirname(log.path))
    for use in (
        lambda: log.append([b"x"]),
        lambda: log.read(1),
        lambda: log.replica.append_batch(PLAIN),
        log.flush,
    ):
        with pytest.raises(LogClosedError, match=r"t-0: the log is closed; call Log\.open\(\) again") as caught:
            use()
        assert caught.value.code == 56
    assert tree(os.path.dirname(log.path)) == before


# --- opens that are refused -----------------------------------------------------------------------


def written(root):
    with open_log(root, segment_bytes=200) as log:
        for n in range(6):
            log.append([b"%d" % n * 50])
    return root


def refused_open(root, error, words, **settings):
    before = tree(root)
    with pytest.raises(error, match=words) as caught:
        open_log(root, **settings)
    assert type(caught.value) is error
    after = tree(root)
    # The lock file names its holder, also a process that then finds the log damaged.
    if error is not DirectoryLockedError:
        before.pop(".lock", None)
        after.pop(".lock", None)
    assert after == before
    return caught.value


@pytest.mark.parametrize(
    "name", ["flights", "flights-", "-0", "flights-x", "a b-0", "..-0", "x" * 250 + "-0", "t-2147483648"]
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_name_that_is_no_partition_is_refused(tmp_path, name, read_only):
    from logstore import Log

    with pytest.raises(NotALogError, match=r"is no partition.*topic-N") as caught:
        Log.open(tmp_path / name, read_only=read_only)
    assert caught.value.code == 57
    assert tree(tmp_path) == {}


def test_foreign_files_are_refused_and_named(tmp_path):
    (written(tmp_path) / "t-0" / "notes.txt").write_text("mine")
    refused_open(tmp_path, NotALogError, r"belong to no log: notes\.txt; choose another")


def test_foreign_directories_beside_the_log_are_refused_and_named(tmp_path):
    (written(tmp_path) / "photos").mkdir()
    refused_open(tmp_path, NotALogError, "no partitions: photos; give logs a root of their own")
    os.rename(tmp_path / "photos", tmp_path / "lost+found")
    open_log(tmp_path).close()


def test_a_directory_that_kafka_wrote_is_refused_for_writing(tmp_path):
    written(tmp_path)
    for path in (*tmp_path.glob("logstore.*"), *(tmp_path / "t-0").glob("logstore.*")):
        path.unlink()
    refused_open(tmp_path, NotALogError, "Kafka wrote this log; open it with read_only=True")
    with open_log(tmp_path, read_only=True) as log:
        assert log.log_end_offset == 6


def test_a_log_that_is_not_there_is_refused_if_it_may_not_be_made(tmp_path):
    refused_open(tmp_path, NotALogError, "create=True", create=False)
    refused_open(tmp_path / "deeper", NotALogError, "create=True", create=False)
    refused_open(tmp_path, NotALogError, "the directory holds no log", read_only=True)
    (tmp_path / "t-0").mkdir()
    refused_open(tmp_path, NotALogError, "the directory holds no log", read_only=True)


def test_a_file_in_the_place_of_the_log_is_refused(tmp_path):
    (tmp_path / "t-0").write_bytes(b"a file")
    for read_only in (False, True):
        before = tree(tmp_path)
        with pytest.raises(NotALogError, match=r"a file stands where.*t-0"):
            open_log(tmp_path, read_only=read_only)
        assert tree(tmp_path) == before
    with pytest.raises(NotALogError, match="a file stands where"):
        open_log(tmp_path / "t-0")


def test_an_open_log_is_not_opened_again_in_this_process(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a"])
        error = refused_open(
            tmp_path, DirectoryLockedError, "already open for writing in this process.*read_only=True"
        )
        assert error.code == 56
        assert isinstance(error, BlockingIOError)
        log.append([b"b"])
        with open_log(tmp_path, read_only=True) as reader:
            assert reader.log_end_offset == 2
    open_log(tmp_path).close()


def test_a_root_that_another_process_writes_is_refused_with_its_pid(tmp_path):
    script = """
        import sys
        from logstore import Log
        log = Log.open(sys.argv[1])
        log.append([b"theirs"])
        print("open", flush=True)
        sys.stdin.read()
        log.close()
    """
    path = str(tmp_path / "t-0")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout.readline() == "open\n"
        error = refused_open(tmp_path, DirectoryLockedError, rf"locked by pid {other.pid} \(host=.*started_ms=")
        assert "read_only=True" in str(error)
        refused_open(tmp_path, DirectoryLockedError, f"pid {other.pid}")
        from logstore import Log

        with pytest.raises(DirectoryLockedError):
            Log.open(tmp_path / "other-0")
        with open_log(tmp_path, read_only=True) as reader:
            assert [record.value for record in reader] == [b"theirs"]
        other.stdin.close()
        assert other.wait() == 0
    with open_log(tmp_path) as log:
        assert log.log_end_offset == 1


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    """By a user without rights if the tests run as root, for whom modes mean nothing."""
    root = written(tmp_path / "root")
    script = """
        import os, sys
        from logstore import Log
        from logstore.errors import ReadOnlyError
        if os.getuid() == 0:
            os.setresuid(65534, 65534, 65534)
        try:
            Log.open(sys.argv[1])
        except ReadOnlyError as error:
            assert isinstance(error, PermissionError)
            assert "read_only=True" in str(error), error
            assert sys.argv[2] in str(error), error
        else:
            raise AssertionError("opened")
        with Log.open(sys.argv[1], read_only=True) as log:
            assert log.log_end_offset == 6
    """
    for path in [*root.rglob("*"), root]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for parent in root.parents[:5]:
        if os.access(parent, os.W_OK) and parent.stat().st_uid == os.getuid() and str(parent) != "/":
            parent.chmod(parent.stat().st_mode | 0o055)
    before = tree(root)
    try:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), str(root / "t-0"), str(root)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert tree(root) == before
    finally:
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_damage_below_the_recovery_point_is_refused_with_its_place(tmp_path):
    with open_log(tmp_path) as log:
        for n in range(10):
            log.append([b"%d" % n * 50])
        log.flush()
        path = log_files(log)[0]
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    error = refused_open(tmp_path, DamagedLogError, "offsets that were synced are missing; restore")
    assert error.path == str(path)
    path.unlink()
    error = refused_open(tmp_path, DamagedLogError, "there is no segment; restore")


def test_bad_settings_are_refused_before_anything_is_made(tmp_path):
    error = refused_open(
        tmp_path, UnknownSettingError, "segment.byte.*the nearest name is segment.bytes", **{"segment.byte": 1}
    )
    assert error.code == 40
    error = refused_open(tmp_path, InvalidSettingError, "segment.bytes.*61", segment_bytes=1, flush_ms="soon")
    assert set(error.problems) == {"segment.bytes", "flush.ms"}
    assert tree(tmp_path) == {}


def test_a_read_only_log_refuses_every_change(tmp_path):
    written(tmp_path)
    before = tree(tmp_path)
    with open_log(tmp_path, read_only=True) as log:
        for use in (
            lambda: log.append([b"x"]),
            lambda: log.replica.append_batch(PLAIN),
            lambda: log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0),
            lambda: log.replica.truncate_to(0),
            lambda: log.delete_before(1),
            log.appender,
            log.flush,
            log.maintenance.roll,
            lambda: log.replica.advance_high_watermark(0),
        ):
            with pytest.raises(ReadOnlyError, match="open it without read_only=True"):
                use()
        assert len(list(log)) == 6
    assert tree(tmp_path) == before


def test_a_damaged_batch_is_found_by_each_reader(tmp_path):
    with open_log(tmp_path) as log:
        for n in range(3):
            log.append([b"%d" % n * 50])
        path = log_files(log)[0]
    data = bytearray(path.read_bytes())
    position = len(data) // 3
    data[position + 80] ^= 1
    path.write_bytes(data)
    with open_log(tmp_path, read_only=True, files=Files()) as log:
        assert next(iter(log.read(0, max_bytes=1))).value == b"0" * 50
        with pytest.raises(CorruptRecordError, match="CRC-32C") as caught:
            log.read(1)
        assert (caught.value.path, caught.value.position) == (str(path), position)
        assert next(iter(log.read(2))).value == b"2" * 50
    assert path.read_bytes() == data


def test_compress_is_what_the_tests_here_rest_on():
    assert compress(Codec.GZIP, b"x" * 100, -1) != b"x" * 100
    assert len(encode([b"x"])) == len(PLAIN) - 8


def test_a_bad_magic_byte_below_the_recovery_point_is_damage(tmp_path):
    with open_log(tmp_path) as log:
        for n in range(10):
            log.append([b"%d" % n * 50])
        log.flush()
        log.append([b"not flushed"])
        path = log_files(log)[0]
        root = crashed_copy(log, tmp_path.parent / f"{tmp_path.name}-copy")
    path = root / "t-0" / path.name
    data = bytearray(path.read_bytes())
    data[16] = 1
    path.write_bytes(data)
    # The hint that leads past the head is gone, so recovery walks there from the first batch.
    promises = root / "t-0" / "logstore.recovery"
    promises.write_bytes(moved_hint(promises.read_bytes()))
    error = refused_open(root, DamagedLogError, "magic byte 1.*nothing was truncated")
    assert (error.path, error.position) == (str(path), 0)


def moved_hint(data):
    """The slots of a recovery file with a place in the segment that no batch begins at."""
    from logstore.log.formats import checkpoints

    point = checkpoints.decode_slots(data)._replace(position=7)
    slots = bytearray(data)
    position = checkpoints.slot_position(point.sequence)
    slots[position : position + 64] = checkpoints.encode_slot(point)
    return bytes(slots)


def test_entries_that_name_no_batch_are_passed_over(tmp_path):
    with open_log(tmp_path, index_interval_bytes=0) as log:
        for n in range(10):
            log.append([b"%d" % n * 50])
    path = tmp_path / "t-0" / "00000000000000000000.index"
    entries = path.read_bytes()
    # Each position one further: still rising, and inside the log.
    wrong = b"".join(
        entries[i : i + 4] + (int.from_bytes(entries[i + 4 : i + 8], "big") + 1).to_bytes(4, "big")
        for i in range(0, len(entries), 8)
    )
    path.write_bytes(wrong)
    for read_only in (True, False):
        with open_log(tmp_path, read_only=read_only) as log:
            assert [record.offset for record in log.scan(7)] == [7, 8, 9]
            assert [record.offset for record in log] == list(range(10))
            path.write_bytes(wrong)


def test_an_encoder_with_an_open_batch_is_refused(tmp_path):
    """Its header is not written yet, so its bytes are no batch."""
    with open_log(tmp_path) as log:
        log.append([b"first"])
        encoder = Encoder().begin(timestamp_ms=NOW_MS)
        encoder.add(b"second")
        with pytest.raises(BufferError, match=r"call finish\(\) first"):
            log.replica.append_encoded(encoder)
        assert log.log_end_offset == 1
        assert log.replica.append_encoded(encoder.finish()).first_offset == 1
        assert values_of(log) == [b"first", b"second"]
