"""A count by headers is as many as iterating gives, and reads no more than it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore import Log, ProducerStamp
from logstore._encode import encode
from logstore.errors import CorruptRecordError, OffsetOutOfRangeError, RecordError
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
            log.append_batch(at(batch, log.log_end_offset + gap), origin=Origin.REPLICATION)
        else:
            log.append(values, producer=ProducerStamp(1, 0, sequence, transactional=True), codec=codec)
            sequence += count
            log.append_control(Marker[kind.upper()], producer_id=1, producer_epoch=0)
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
            sizes = [log.append([b"x"] * 5) and log.size for _ in range(3)]
            (path,) = log_files(log).values()
            data = bytearray(path.read_bytes())
            position = sizes[0] + at_byte
            data[position : position + len(new)] = new
            path.write_bytes(data)
            with pytest.raises(RecordError, match=f"position {sizes[0]}"):
                log.scan().count()


def test_a_count_of_what_was_deleted_is_out_of_range(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        for _ in range(5):
            log.append([b"x"] * 10)
        scan, rest = log.scan(), log.scan(25)
        log.delete_before(20)
        with pytest.raises(OffsetOutOfRangeError, match="offset 0 is out of range, the log holds 20 to 49"):
            scan.count()
        assert rest.count() == 25
        log.truncate_to(30)
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(25, 31)
        assert log.scan(25).count() == 5
