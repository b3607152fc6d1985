"""A count by headers is as many as iterating gives, and reads no more than it must."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore import Log
from logstore.batch._batch import Batches
from logstore.batch._encode import encode
from logstore.batch.runs import limited
from logstore.errors import CorruptRecordError, OffsetOutOfRangeError, RecordError
from logstore.log import ProducerStamp
from logstore.records import Codec, Marker, Origin
from logstore.testing import SimDisk
from tests.log.logs import at, log_files

batches_of = st.lists(
    st.tuples(
        st.integers(1, 5),  # records
        st.sampled_from([1, 300, 3_000]),  # bytes of each: small and large batches
        st.sampled_from(Codec),
        st.sampled_from([0, 0, 0, 5]),  # offsets missing before it, as after a compaction
        st.sampled_from(["plain", "plain", "commit", "abort"]),
    ),
    max_size=12,
)


def log_with(batches: Any) -> Log:
    log = Log.open("/data/t-0", files=SimDisk(), segment_bytes=40_000)
    sequence = 0
    for count, size, codec, gap, kind in batches:
        values = [b"x" * size] * count
        if kind == "plain":
            batch = encode(values, codec=codec, timestamp_ms=log.log_end_offset)
            log.replica.append_batch(at(batch, log.log_end_offset + gap), origin=Origin.REPLICATION)
        else:
            log.append(values, producer=ProducerStamp(1, 0, sequence, transactional=True), codec=codec)
            sequence += count
            log.replica.append_control(Marker[kind.upper()], producer_id=1, producer_epoch=0)
    return log


@pytest.mark.row("M9")
@settings(max_examples=60)
@given(batches_of, st.data())
def test_a_count_is_what_iterating_gives(batches: Any, data: st.DataObject) -> None:
    with log_with(batches) as log:
        start = data.draw(st.integers(0, log.log_end_offset))
        end = data.draw(st.integers(start, log.log_end_offset))
        for isolation in ("read_uncommitted", "read_committed"):
            scan = log.scan(start, end, isolation=isolation)
            assert scan.count() == len(list(scan))
            timed = log.scan(start, end, since=data.draw(st.integers(-1, end + 1)), isolation=isolation)
            assert timed.count() == len(list(timed))
            timed = log.scan(start, end, until=data.draw(st.integers(-1, end + 1)), isolation=isolation)
            assert timed.count() == len(list(timed))
        for chunk in log.scan(start, end).chunks():
            assert chunk.count() == len(list(chunk))


def test_a_count_reads_headers_and_no_records(tmp_path: Path) -> None:
    """Planted: the bytes of every record are broken, and only who reads them notices."""
    with Log.open(tmp_path / "t-0", segment_bytes=300_000) as log:
        for _ in range(50):
            log.append([b"x" * 1_000] * 20, codec=Codec.NONE)
        for path in log_files(log).values():
            data = bytearray(path.read_bytes())
            position = 0
            while position < len(data):
                size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
                data[position + 61 : position + size] = b"\xff" * (size - 61)
                position += size
            path.write_bytes(data)
        assert log.scan().count() == 1_000
        assert log.scan(20, 980).count() == 960
        with pytest.raises(CorruptRecordError, match="CRC-32C"):
            log.scan(21).count()  # half of a batch must be looked into
        with pytest.raises(CorruptRecordError, match="CRC-32C"):
            log.scan(since=0).count()


def test_a_header_that_is_wrong_is_damage_to_a_count_too(tmp_path: Path) -> None:
    for at_byte, new in ((16, b"\x09"), (8, b"\x7f"), (0, b"\x01"), (23, b"\x00\x00\x00\x00")):
        place = tmp_path / f"t{at_byte}-0"
        with Log.open(place) as log:
            sizes = [log.append([b"x"] * 5) and log.maintenance.size for _ in range(3)]
            (path,) = log_files(log).values()
            data = bytearray(path.read_bytes())
            position = sizes[0] + at_byte
            data[position : position + len(new)] = new
            path.write_bytes(data)
            with pytest.raises(RecordError, match=f"position {sizes[0]}"):
                log.scan().count()


def test_a_count_of_what_was_deleted_is_held_and_of_what_was_cut_out_of_range(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        for _ in range(5):
            log.append([b"x"] * 10)
        scan, rest = log.scan(), log.scan(25)
        log.delete_before(20)
        with pytest.raises(OffsetOutOfRangeError, match="offset 0 is out of range, the log holds 20 to 49"):
            log.scan(0)
        assert scan.count() == 50
        assert rest.count() == 25
        log.replica.truncate_to(30)
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(25, 31)
        assert log.scan(25).count() == 5


# --- a limit, and a start from the end ----------------------------------------------------------


@settings(max_examples=60)
@given(batches_of, st.data())
def test_a_limit_gives_the_first_records_of_what_it_limits(batches: Any, data: st.DataObject) -> None:
    with log_with(batches) as log:
        start = data.draw(st.integers(0, log.log_end_offset))
        limit = data.draw(st.integers(0, log.log_end_offset + 1))
        choices: dict[str, Any] = {
            "isolation": data.draw(st.sampled_from(["read_uncommitted", "read_committed"])),
            "since": data.draw(st.none() | st.integers(0, log.log_end_offset)),
            "on_damage": data.draw(st.sampled_from(["raise", "skip"])),
            "max_bytes": data.draw(st.sampled_from([1, 1 << 20])),
        }
        scan = log.scan(start, limit=limit, **choices)
        expected = list(log.scan(start, **choices))[:limit]
        assert list(scan) == expected
        assert scan.count() == len(expected)
        assert [value for chunk in scan.values() for value in chunk] == [record.value for record in expected]
        assert sum(chunk.count() for chunk in scan.chunks()) == len(expected)


def test_a_limit_reads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Planted: the second of three batches is broken, and a scan that needs only the first does not notice."""
    with Log.open(tmp_path / "t-0") as log:
        for _ in range(3):
            log.append([b"v"] * 10)
        (path,) = log_files(log).values()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert len(list(log.scan(limit=10, max_bytes=1))) == 10
        assert len(list(log.scan(limit=10))) == 10
        with pytest.raises(CorruptRecordError):
            list(log.scan(limit=11))


def test_damage_before_the_limit_raises_behind_what_stands_before_it() -> None:
    whole = encode([b"a", b"b"], timestamp_ms=0)
    data = bytearray(encode([b"v" * 100] * 3, timestamp_ms=0))
    data[61 + 109] = 1  # a negative length of the second record; the checksum is not looked at again
    run = Batches(bytes(whole) + at(bytes(data), 2), check=False, next_offset=5)
    found = []
    records = itertools.chain.from_iterable(limited([run], 4))
    with pytest.raises(CorruptRecordError):
        found.extend(record.offset for record in records)
    assert found == [0, 1, 2]


@pytest.mark.parametrize("limit", [-1, 1.5, True, "10"])
def test_a_limit_that_is_no_count_is_refused(limit: Any) -> None:
    with log_with([]) as log, pytest.raises(ValueError, match="limit= is the largest number of records to read"):
        log.scan(limit=limit)


def test_a_start_below_zero_counts_from_the_end_of_what_may_be_seen() -> None:
    with Log.open("/data/t-0", files=SimDisk()) as log:
        log.append([b"%d" % n for n in range(20)])
        log.append([b"open"], producer=ProducerStamp(1, 0, 0, transactional=True))
        assert [record.offset for record in log.scan(-3)] == [18, 19, 20]
        assert [record.offset for record in log.scan(-3, isolation="read_committed")] == [17, 18, 19]
        assert [record.offset for record in log.scan(-3, 19)] == [18]
        log.delete_before(19)
        assert [record.offset for record in log.scan(-100)] == [19, 20]
