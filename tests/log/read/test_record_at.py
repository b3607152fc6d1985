"""One record by its offset: what `Log.record_at` finds is what a read finds, and damage is never passed on."""

from __future__ import annotations

import gc
import random

import pytest

from logstore import Codec, Log
from logstore.errors import CorruptRecordError, LogClosedError, OffsetOutOfRangeError
from logstore.log import Marker, ProducerStamp
from logstore.records import Isolation, Origin
from logstore.testing._faults import FaultyFiles
from tests.batch.model_batch import ModelRecord, encode_batch
from tests.log.logs import at, log_files, one_batch, open_log


def by_read(log, offset, **options):
    return next((r for r in log.read(offset, max_bytes=1, **options) if r.offset == offset), None)


@pytest.mark.row("M4", "S3")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("per_batch, size", [(1, 10), (7, 100), (50, 400), (3, 30_000)])
def test_every_offset_gives_what_a_read_gives(tmp_path, codec, per_batch, size):
    with open_log(tmp_path, segment_bytes=100_000) as log:
        for number in range(40):
            log.append(
                [
                    (b"k%d" % i, b"%d:%d" % (number, i) + bytes(size), 5 + i, [("h", b"x")] if i % 3 else None)
                    for i in range(per_batch)
                ],
                codec=codec,
            )
        for offset in range(log.log_end_offset):
            assert log.record_at(offset) == by_read(log, offset)
            assert log.record_at(offset, isolation="read_committed") == by_read(log, offset)
        with Log.open(log.path, read_only=True) as reader:
            assert [reader.record_at(o) for o in range(0, log.log_end_offset, 7)] == [
                log.record_at(o) for o in range(0, log.log_end_offset, 7)
            ]


def test_out_of_range_and_closed(tmp_path):
    log = open_log(tmp_path, segment_bytes=500)
    for _ in range(20):
        log.append([bytes(100)])
    log.delete_before(10)
    for offset in (-1, 0, 9, 20, 21, 10**12):
        with pytest.raises(OffsetOutOfRangeError, match=str(offset)):
            log.record_at(offset)
    for isolation in ("read_uncommitted", "read_committed"):
        with pytest.raises(OffsetOutOfRangeError, match="the log holds 10 to 19;"):
            log.record_at(20, isolation=isolation)
    assert log.record_at(10).offset == 10
    log.close()
    with pytest.raises(LogClosedError):
        log.record_at(10)


def test_markers_aborted_records_and_gaps_are_no_records(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"aborted"], producer=ProducerStamp(1, 0, 0, True))
        log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0)
        log.append([b"kept"])
        log.replica.append_batch(at(one_batch([b"behind a gap"]), 10), origin=Origin.REPLICATION)
        found = {offset: log.record_at(offset) for offset in range(11)}
        assert {o: r.value for o, r in found.items() if r is not None} == {
            0: b"aborted",
            2: b"kept",
            10: b"behind a gap",
        }
        assert log.record_at(0, isolation=Isolation.READ_COMMITTED) is None
        assert log.record_at(2, isolation=Isolation.READ_COMMITTED).value == b"kept"


def test_batches_from_which_records_are_missing(tmp_path):
    """As a compaction leaves them: the last delta stays, records between are gone."""
    records = [ModelRecord(offset, 5, b"k", b"v%d" % offset) for offset in (1, 4, 5)]
    kept = encode_batch(records, base_offset=0, last_offset_delta=6)
    with open_log(tmp_path) as log:
        log.replica.append_batch(kept, origin=Origin.REPLICATION)
        log.append([b"v7"])
        found = [record and record.value for record in map(log.record_at, range(8))]
        assert found == [None, b"v1", None, None, b"v4", b"v5", None, b"v7"]


@pytest.mark.row("S8")
def test_no_flipped_bit_is_passed_on(tmp_path):
    """Whatever bit of a batch flips, the record is the one that was written, or there is an error."""
    rng = random.Random(7)
    log = open_log(tmp_path)
    for number in range(60):
        log.append([b"%d" % number + bytes(1_000) for _ in range(5)])
    wanted = {offset: log.record_at(offset).value for offset in range(300)}
    (path,) = log_files(log).values()
    whole = path.read_bytes()
    refused = 0
    # The header of a batch in the middle bit by bit, and bits anywhere.
    middle = len(whole) // 60 * 30
    places = [(middle + n // 8, n % 8) for n in range(61 * 8)]
    places += [(rng.randrange(len(whole)), rng.randrange(8)) for _ in range(500)]
    for position, bit in places:
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(bytes([whole[position] ^ 1 << bit]))
        number = position // (len(whole) // 60)
        # The log itself knows the batch since `wanted`, and reads one piece of it.
        with Log.open(log.path, read_only=True) as reader:
            for offset in (5 * number, 5 * number + 4):
                try:
                    found = reader.record_at(offset)
                except CorruptRecordError:
                    refused += 1
                else:
                    assert found is not None
                    assert found.value == wanted[offset], (position, bit, offset)
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(whole[position : position + 1])
    assert refused > 1_500
    log.close()


@pytest.mark.row("S3")
@pytest.mark.parametrize("size", [10, 100, 150, 200])
def test_one_read_of_the_disk_for_one_record(tmp_path, size):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        for number in range(200):
            log.append([b"%d" % number + bytes(size) for _ in range(50)])
        log.record_at(0)
        before = files.counts()["preadv"]
        for offset in range(60, 9_000, 97):
            assert log.record_at(offset).offset == offset
        # Where two batches are between entries the second may reach behind what was read first.
        allowed = 1.6 if size == 100 else 1
        assert files.counts()["preadv"] - before <= allowed * len(range(60, 9_000, 97))


def test_a_record_holds_only_its_own_bytes(tmp_path):
    with open_log(tmp_path) as log:
        log.append([bytes(1_000) for _ in range(100)])
        log.append([bytes(1_000) for _ in range(100)])
        record = log.record_at(150)
        held = [x for x in gc.get_referents(record) if isinstance(x, bytes)]
        assert sum(map(len, held)) < 2_000
