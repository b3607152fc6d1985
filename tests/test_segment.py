"""A segment gives back what was appended, whatever its indexes say, and names the place of damage."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore._segment import Segment
from logstore._segment_scan import Extent
from logstore.batch._batch import Batches, BatchView, stamp
from logstore.batch._encode import encode, encode_marker
from logstore.errors import CorruptRecordError, StorageError, UnsupportedFormatError
from logstore.io._file_region import FileRegion
from logstore.io._files import Files
from logstore.records import Codec, Marker
from tests.batch.model_batch import ModelRecord, encode_batch

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
WINDOW_BYTES = 16_384


class Written(NamedTuple):
    """One batch as it stands in the file."""

    base: int
    last: int
    position: int
    data: bytes
    max_timestamp: int


def new_segment(path: Path, base_offset: int = 0, interval: int = 4_096) -> Segment:
    file = Files(descriptor_limit=4).open(str(path), create=True, writable=True, truncate=True)
    return Segment(file, base_offset, index_interval_bytes=interval, next_offset=base_offset)


def reopened(segment: Segment, *, sealed: bool = False, interval: int = 4_096) -> Segment:
    """The same file as a process finds it that knows its size and end only."""
    file = Files().lazy(segment.path, writable=not sealed)
    return Segment(
        file,
        segment.base_offset,
        index_interval_bytes=interval,
        size=segment.size,
        next_offset=segment.next_offset,
        sealed=sealed,
    )


def fill(segment: Segment, batches: list[bytes], epoch: int = 0) -> list[Written]:
    out = []
    for batch in batches:
        data, base, position = bytearray(batch), segment.next_offset, segment.size
        segment.append(data, base, epoch)
        view = BatchView(data)
        out.append(Written(base, view.last_offset, position, bytes(data), view.max_timestamp_ms))
    return out


def some_batches(seed: int, count: int = 40, largest: int = 3_000, codecs: bool = True) -> list[bytes]:
    """Batches of many sizes and codecs, with timestamps that do not only rise."""
    rng = random.Random(seed)
    out = []
    for turn in range(count):
        records = [
            (None, rng.randbytes(rng.randrange(largest)), turn * 10 + rng.randrange(-50, 50) + 100)
            for _ in range(rng.randrange(1, 6))
        ]
        out.append(encode(records, timestamp_ms=0, codec=rng.randrange(5) if codecs else 0))
    return out


def save_indexes(segment: Segment) -> None:
    for suffix, entries in ((".index", segment.index.offsets), (".timeindex", segment.index.times)):
        index_path(segment, suffix).write_bytes(entries.to_bytes())


def index_path(segment: Segment, suffix: str) -> Path:
    return Path(segment.path.removesuffix(".log") + suffix)


def log_path(directory: Path, base_offset: int = 0) -> Path:
    return directory / f"{base_offset:020}.log"


def brief(found: tuple[bytes, int, int] | None) -> tuple[int, int, int, int] | None:
    """What `Segment.read` gave, as a failed assertion can print it."""
    return None if found is None else (found[1], len(found[0]), zlib.crc32(found[0]), found[2])


def expected_read(
    written: list[Written], offset: int, max_bytes: int = 1, end: int = INT64_MAX
) -> tuple[int, int, int, int] | None:
    """What a read gives, by looking at every batch."""
    found = [batch for batch in written if batch.last >= offset and batch.base < end]
    if not found or next(batch for batch in written if batch.last >= offset) is not found[0]:
        return None
    taken = found[:1]
    for batch in found[1:]:
        if sum(len(b.data) for b in taken) + len(batch.data) > max_bytes:
            break
        taken.append(batch)
    return brief((b"".join(batch.data for batch in taken), taken[0].position, taken[-1].last + 1))


def assert_reads_everything(segment: Segment, written: list[Written]) -> None:
    """Every offset and every time leads where it does without an index."""
    for offset in range(segment.base_offset, written[-1].last + 2):
        assert brief(segment.read(offset, 1, INT64_MAX)) == expected_read(written, offset)
        assert segment.index.position_of(offset) == next(
            (batch.position for batch in written if batch.last >= offset), segment.size
        )
    whole = Batches(b"".join(batch.data for batch in written))
    newest = max(batch.max_timestamp for batch in written)
    assert segment.index.largest_timestamp() == (
        newest,
        next(batch.last for batch in written if batch.max_timestamp == newest),
    )
    times = {record.timestamp_ms for record in whole}
    for timestamp in sorted({*times, *(time + 1 for time in times), 0}):
        start = segment.index.offset_for_time(timestamp)
        expected = whole.first_at_or_after(timestamp)
        if start is None:
            assert expected is None
            continue
        found = segment.read(start, 1 << 30, INT64_MAX)
        assert found is not None
        assert Batches(found[0], check=False).first_at_or_after(timestamp) == expected


# --- reading and locating ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Segment, list[Written]]:
    """One segment for many questions: compressed and plain, some batches larger than the window."""
    segment = new_segment(log_path(tmp_path_factory.mktemp("kept"), 1_000), 1_000)
    batches = some_batches(1, 60)
    batches.insert(20, encode([bytes(3_000_000)], timestamp_ms=300))
    batches.insert(40, encode([random.Random(3).randbytes(300_000)], timestamp_ms=500, codec=Codec.LZ4))
    return segment, fill(segment, batches)


@settings(max_examples=300)
@given(draw=st.data())
def test_reads_and_regions_are_whole_batches_below_their_limits(
    kept: tuple[Segment, list[Written]], draw: st.DataObject
) -> None:
    segment, written = kept
    offset = draw.draw(st.integers(1_000, written[-1].last + 3), "offset")
    max_bytes = draw.draw(st.sampled_from([0, 1, 100, 5_000, 20_000, 200_000, 1 << 30]), "max_bytes")
    end = draw.draw(st.integers(1_000, written[-1].last + 3) | st.just(INT64_MAX), "end_offset")
    hint = draw.draw(
        st.sampled_from([-1, 0, segment.size, segment.size + 9, *(batch.position for batch in written)])
        | st.integers(-5, segment.size + 5),
        "hint",
    )
    expected = expected_read(written, offset, max_bytes, end)
    assert brief(segment.read(offset, max_bytes, end, hint)) == expected
    part = segment.locate(offset, max_bytes, end, hint)
    assert (part is None) == (expected is None)
    if part is not None and expected is not None:
        data = part.read()
        assert brief((data, part.position, part.next_offset)) == expected
        assert len(part) == part.size == len(data)
        assert part.base_offset == BatchView(data).base_offset


def test_an_empty_segment_holds_nothing(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path, 7), 7)
    assert segment.read(7, 100, INT64_MAX) is None
    assert segment.locate(7, 100, INT64_MAX) is None
    index = segment.index
    assert index.largest_timestamp() is index.first_timestamp() is index.offset_for_time(0) is None
    assert (index.position_of(7), index.floor(9)) == (0, 0)
    assert index.continues_at(0, 7)
    assert list(index.headers()) == []
    extent = segment.scan()
    assert (extent.is_whole, extent.valid_bytes, extent.next_offset, extent.epochs) == (True, 0, 7, [])


@pytest.mark.row("S3")
@pytest.mark.parametrize("interval", [1, 700, 4_096, 1 << 30])
@pytest.mark.parametrize("seed", range(4))
def test_everything_is_found_however_dense_the_index(tmp_path: Path, interval: int, seed: int) -> None:
    segment = new_segment(log_path(tmp_path, 50), 50, interval)
    batches = some_batches(seed)
    if seed == 0:
        batches.insert(10, encode([bytes(1_200_000)], timestamp_ms=150))
    written = fill(segment, batches)
    assert_reads_everything(segment, written)
    assert [h[:4] for h in segment.index.headers()] == [(b.base, b.last, b.position, len(b.data)) for b in written]
    distances = [segment.index.offsets.entry(n)[1] for n in range(len(segment.index.offsets))]
    sizes = {batch.position: len(batch.data) for batch in written}
    for before, after in zip([0, *distances], distances, strict=False):
        between = [size for position, size in sizes.items() if before <= position < after]
        # An entry stands as soon as there are more bytes than the interval behind the last one.
        assert sum(between) > interval >= sum(between[:-1])
    save_indexes(segment)
    assert_reads_everything(reopened(segment, interval=interval), written)
    segment.seal()
    save_indexes(segment)
    sealed = reopened(segment, sealed=True, interval=interval)
    assert_reads_everything(sealed, written)
    assert not sealed.index.stale
    assert sealed.index.first_timestamp() == written[0].max_timestamp


def test_a_sealed_segment_ends_where_the_next_begins(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path))
    written = fill(segment, some_batches(1, 3))
    segment.seal()
    segment.set_end(1_000)  # compaction took the last batches
    assert segment.next_offset == 1_000
    assert brief(segment.read(written[-1].last, 1, INT64_MAX)) == expected_read(written, written[-1].last)
    assert segment.read(written[-1].last + 1, 1, INT64_MAX) is None


# --- appending ---------------------------------------------------------------------------------


def test_appending_sets_offsets_and_epoch_in_the_callers_buffer(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path, 10), 10)
    run = bytearray(encode([b"a", b"b"]) + encode([b"c"]))
    assert segment.append(run, 10, 5) == 13
    assert [(v.base_offset, v.leader_epoch) for v in Batches(bytes(run)).batches()] == [(10, 5), (12, 5)]
    assert Path(segment.path).read_bytes() == run
    assert (segment.size, segment.next_offset) == (len(run), 13)
    other = encode_batch([ModelRecord(20, 0, None, b"d")], base_offset=20, leader_epoch=9)
    assert segment.append(other, 20, -1) == 21  # a leader's batch, kept as it is
    assert Path(segment.path).read_bytes() == run + other
    assert segment.append(b"", 21, -1) == 21
    assert segment.scan().epochs == [(5, 10), (9, 20)]


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        (bytearray(b"x"), CorruptRecordError),
        (bytearray(100), UnsupportedFormatError),
        (bytearray(encode([b"a"]))[:-1], CorruptRecordError),
        (bytearray(encode([b"a"]) + b"behind"), CorruptRecordError),
        (encode([b"a"]), BufferError),
        ("text", TypeError),
        (None, TypeError),
    ],
)
def test_what_is_no_run_of_batches_is_refused_and_nothing_is_written(
    tmp_path: Path, batches: object, error: type[Exception]
) -> None:
    segment = new_segment(log_path(tmp_path))
    written = fill(segment, [encode([b"first"])])
    with pytest.raises(error):
        segment.append(batches, 1, 0)  # type: ignore[arg-type]
    assert (segment.size, segment.next_offset) == (len(written[0].data), 1)
    assert Path(segment.path).read_bytes() == written[0].data


def test_a_segment_spans_no_more_than_its_indexes_can_say(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path, 5), 5)
    with pytest.raises(ValueError, match="should have been rolled"):
        segment.append(bytearray(encode([b"a"])), 5 + 2**31, 0)
    assert segment.size == 0
    assert segment.append(bytearray(encode([b"a"])), 5 + 2**31 - 1, 0) == 5 + 2**31
    assert segment.scan().is_whole


# --- indexes are hints -------------------------------------------------------------------------


@st.composite
def index_files(draw: st.DrawFn, entry: str, true: bytes, foreign: bytes) -> bytes | None:
    """Anything that may be there: nothing, noise, another segment's, a stale or an altered one."""
    kind = draw(st.sampled_from(["missing", "noise", "foreign", "prefix", "altered", "shuffled", "padded"]))
    width = struct.calcsize(entry)
    if kind == "missing":
        return None
    if kind == "noise":
        return draw(st.binary(max_size=100))
    if kind == "foreign":
        return foreign
    if kind == "prefix":
        return true[: draw(st.integers(0, len(true)))]
    if kind == "padded":
        return true + bytes(draw(st.integers(0, 50)))
    entries = [list(fields) for fields in struct.iter_unpack(entry, true)]
    if kind == "shuffled":
        entries = draw(st.permutations(entries))
    elif entries:
        for _ in range(draw(st.integers(1, 3))):
            fields = draw(st.sampled_from(entries))
            column = draw(st.integers(0, 1))
            fields[column] = max(min(fields[column] + draw(st.integers(-3_000, 3_000)), INT32_MAX), -INT32_MAX)
    assert all(len(struct.pack(entry, *fields)) == width for fields in entries)
    return b"".join(struct.pack(entry, *fields) for fields in entries)


@pytest.fixture(scope="module")
def indexed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Segment, list[Written], dict[str, tuple[bytes, bytes]]]:
    """A sealed segment, and of each index: its own bytes and those of another segment."""
    directory = tmp_path_factory.mktemp("indexed")
    segment, other = (new_segment(log_path(directory, base), base, 2_000) for base in (0, 1))
    written = fill(segment, some_batches(5, 25, 800))
    fill(other, some_batches(6, 30, 700))
    for each in (segment, other):
        each.seal()
    true = {
        ".index": (segment.index.offsets.to_bytes(), other.index.offsets.to_bytes()),
        ".timeindex": (segment.index.times.to_bytes(), other.index.times.to_bytes()),
    }
    return segment, written, true


@pytest.mark.row("S3")
@settings(max_examples=150)
@given(draw=st.data(), sealed=st.booleans())
def test_no_index_file_changes_what_is_read(
    indexed: tuple[Segment, list[Written], dict[str, tuple[bytes, bytes]]], draw: st.DataObject, sealed: bool
) -> None:
    segment, written, true = indexed
    for suffix, entry in ((".index", ">ii"), (".timeindex", ">qi")):
        path = index_path(segment, suffix)
        path.unlink(missing_ok=True)
        data = draw.draw(index_files(entry, *true[suffix]), suffix)
        if data is not None:
            path.write_bytes(data)
    assert_reads_everything(reopened(segment, sealed=sealed, interval=2_000), written)


@pytest.mark.row("S3")
@pytest.mark.parametrize("shift", [-1, 1, 40])
def test_an_index_of_which_every_entry_is_wrong_leads_to_every_offset(tmp_path: Path, shift: int) -> None:
    """Two wrong entries, one after the other, were taken for damage of the log."""
    segment = new_segment(log_path(tmp_path), interval=1)
    written = fill(segment, some_batches(2, 20))
    entries = struct.iter_unpack(">ii", segment.index.offsets.to_bytes())
    wrong = b"".join(struct.pack(">ii", offset, position + shift) for offset, position in entries)
    index_path(segment, ".index").write_bytes(wrong)
    index_path(segment, ".timeindex").write_bytes(segment.index.times.to_bytes())
    for offset in range(segment.next_offset):
        found = reopened(segment, sealed=True, interval=1)  # rebuilt: the first read repairs the index
        assert brief(found.read(offset, 1, INT64_MAX)) == expected_read(written, offset)


@pytest.mark.row("S3")
def test_a_rebuilt_index_is_the_one_that_was_written(tmp_path: Path) -> None:
    for seed in range(5):
        segment = new_segment(log_path(tmp_path), interval=2_000)
        fill(segment, some_batches(seed))
        before = segment.index.offsets.to_bytes(), segment.index.times.to_bytes()
        segment.index.rebuild()
        assert (segment.index.offsets.to_bytes(), segment.index.times.to_bytes()) == before
        assert segment.index.stale
        found = reopened(segment, interval=2_000)
        found.index.load()  # no files: rebuilt
        assert (found.index.offsets.to_bytes(), found.index.times.to_bytes()) == before
        scanned = reopened(segment, interval=2_000)
        assert scanned.scan(adopt=True).is_whole
        assert (scanned.index.offsets.to_bytes(), scanned.index.times.to_bytes()) == before
        assert scanned.index.largest_timestamp() == segment.index.largest_timestamp()


def test_entries_of_bytes_that_are_gone_are_left_out(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path), interval=1)
    written = fill(segment, some_batches(2, 20))
    save_indexes(segment)
    segment.cut(written[10].position, written[10].base)
    found = reopened(segment, interval=1)
    assert_reads_everything(found, written[:10])
    assert found.index.offsets.to_bytes() == segment.index.offsets.to_bytes()
    assert not found.index.stale


@pytest.mark.row("S8")
def test_damage_behind_what_is_read_does_not_matter_without_an_index(tmp_path: Path) -> None:
    """The index could not be rebuilt, so the first read failed, and only the first."""
    segment = new_segment(log_path(tmp_path), interval=1)
    written = fill(segment, some_batches(2, 10))
    segment.file.write(b"\xff", written[7].position + 16)
    found = reopened(segment, interval=1)
    for turn in range(2):
        for offset in range(written[7].base):
            assert brief(found.read(offset, 1, INT64_MAX)) == expected_read(written, offset), turn
        with pytest.raises(UnsupportedFormatError) as caught:
            found.read(written[7].base, 1, INT64_MAX)
        assert (caught.value.path, caught.value.position) == (segment.path, written[7].position)
        with pytest.raises(UnsupportedFormatError):
            found.index.largest_timestamp()
    with pytest.raises(UnsupportedFormatError):
        found.index.rebuild()


# --- cutting -----------------------------------------------------------------------------------


@given(seed=st.integers(0, 50), draw=st.data(), interval=st.sampled_from([1, 2_000, 10_000]))
def test_a_cut_segment_is_as_if_the_rest_had_never_been(
    tmp_path_factory: pytest.TempPathFactory, seed: int, draw: st.DataObject, interval: int
) -> None:
    segment = new_segment(log_path(tmp_path_factory.mktemp("cut")), interval=interval)
    written = fill(segment, some_batches(seed, 20))
    if draw.draw(st.booleans(), "through files"):
        save_indexes(segment)
        segment = reopened(segment, interval=interval)
    for _ in range(draw.draw(st.integers(1, 3), "cuts")):
        place = draw.draw(st.integers(0, len(written) - 1), "place")
        segment.cut(written[place].position, written[place].base)
        del written[place:]
        assert (segment.size, segment.next_offset) == (
            sum(len(batch.data) for batch in written),
            written[-1].last + 1 if written else 0,
        )
        assert segment.size == os.path.getsize(segment.path)
        written += fill(segment, some_batches(draw.draw(st.integers(0, 50), "more"), 5))
        assert_reads_everything(segment, written)
    index, newest = segment.index.offsets.to_bytes(), segment.index.largest_timestamp()
    segment.index.rebuild()
    assert segment.index.offsets.to_bytes() == index
    assert segment.index.largest_timestamp() == newest


# --- scanning ----------------------------------------------------------------------------------


def test_a_scan_tells_all_that_is_rebuilt_from_a_segment(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path, 100), 100)
    produced = {"producer_id": 7, "producer_epoch": 2, "transactional": True}
    written = fill(segment, [encode([b"plain"] * 3, timestamp_ms=5)], epoch=1)
    written += fill(segment, [encode([b"a", b"b"], timestamp_ms=9, base_sequence=2**31 - 1, **produced)], epoch=1)
    written += fill(segment, [encode_marker(Marker.ABORT, 4, 7, 2, 8)], epoch=3)
    other = encode_batch([ModelRecord(0, 1, b"\0\0\0\2", b"leader")], attributes=0x20, producer=(9, 0, -1))
    written += fill(segment, [other, encode([b"last"], timestamp_ms=3)], epoch=3)
    for check in (True, False):
        extent = segment.scan(check=check)
        assert extent.is_whole
        assert (extent.problem, extent.error) == (None, None)
        assert extent.valid_bytes == extent.file_bytes == segment.size
        assert (extent.batch_count, extent.record_count, extent.max_timestamp_ms) == (5, 8, 9)
        assert extent.next_offset == 108
        assert extent.epochs == [(1, 100), (3, 105)]
        assert extent.produced == [
            (103, 104, 7, 2, 2**31 - 1, 0, 9, True, False, None, -1),
            (105, 105, 7, 2, -1, -1, 8, True, True, Marker.ABORT, 4),
            (106, 106, 9, 0, -1, -1, 1, False, True, None, -1),
        ]
        assert repr(extent) == f"<Extent {segment.size} of {segment.size} bytes, next offset 108>"
    part = segment.scan(written[2].position, next_offset=105, end=written[4].position)
    assert (part.batch_count, part.valid_bytes, part.next_offset) == (2, written[4].position, 107)
    assert part.epochs == [(3, 105)]


@pytest.mark.row("S8")
@pytest.mark.crash
def test_a_scan_ends_where_the_file_was_cut_off(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path))
    written = fill(segment, some_batches(4, 4, 200))
    data = Path(segment.path).read_bytes()
    ends = [batch.position for batch in written] + [len(data)]
    for size in range(len(data)):
        os.truncate(segment.path, size)
        valid = max(end for end in ends if end <= size)
        extent = segment.scan()
        assert (extent.valid_bytes, extent.file_bytes) == (valid, size)
        assert extent.is_whole == (valid == size)
        assert extent.next_offset == next((b.base for b in written if b.position == valid), written[-1].last + 1)
        if valid != size:
            assert isinstance(extent.error, CorruptRecordError)
            assert (extent.error.path, extent.error.position) == (segment.path, valid)
            assert extent.problem == str(extent.error)
        Path(segment.path).write_bytes(data)


@pytest.mark.row("S8")
@pytest.mark.crash
def test_a_scan_and_a_read_name_the_batch_with_a_flipped_bit(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path))
    written = fill(segment, [encode([(b"k", b"value%d" % n)], timestamp_ms=n, codec=n % 5) for n in range(6)])
    victim = written[3]
    places = set()
    outside = {*range(8), *range(12, 16)}  # base offset and leader epoch: not under the checksum
    for bit in range(len(victim.data) * 8):
        damaged = bytearray(victim.data)
        damaged[bit // 8] ^= 1 << bit % 8
        segment.file.write(damaged, victim.position)
        extent = segment.scan()
        for offset in range(3):
            assert brief(segment.read(offset, 1, INT64_MAX)) == expected_read(written, offset)
        if bit // 8 in outside:
            # An offset that does not rise is noticed; one that leaves a gap is what compaction leaves,
            # until the batch behind it is lower.
            assert extent.valid_bytes in {victim.position, written[4].position, segment.size}
            assert extent.is_whole == (bit // 8 >= 12)
            continue
        assert extent.valid_bytes == victim.position
        assert extent.next_offset == victim.base
        assert extent.error is not None
        assert (extent.error.path, extent.error.position) == (segment.path, victim.position)
        with pytest.raises((CorruptRecordError, UnsupportedFormatError)) as caught:
            segment.read(victim.base, 1 << 20, INT64_MAX)
        places.add((caught.value.path, caught.value.position))
        # What stands before it is given.
        assert brief(segment.read(0, 1 << 20, INT64_MAX)) == expected_read(written[:3], 0, 1 << 20)
    assert places == {(segment.path, victim.position)}
    segment.file.write(victim.data, victim.position)
    assert segment.scan().is_whole


@pytest.mark.row("S8")
@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 5, 3_500_000])
def test_a_batch_larger_than_what_a_scan_reads_at_once_is_summed(tmp_path: Path, size: int) -> None:
    segment = new_segment(log_path(tmp_path))
    noise = random.Random(size).randbytes(size)
    written = fill(segment, [*some_batches(1, 5), encode([noise]), *some_batches(2, 5)])
    large = written[5]
    assert segment.scan().is_whole
    assert segment.scan(large.position, next_offset=large.base).is_whole
    for place in (21, 5_000, 1 << 19, len(large.data) - 1):
        segment.file.write(bytes([large.data[place] ^ 4]), large.position + place)
        extent = segment.scan()
        assert (extent.valid_bytes, extent.next_offset) == (large.position, large.base)
        assert extent.problem is not None
        assert "CRC-32C" in extent.problem or place == 21
        assert segment.scan(check=False).is_whole or place == 21
        segment.file.write(large.data[place : place + 1], large.position + place)
    os.truncate(segment.path, large.position + size // 2)
    assert segment.scan().valid_bytes == large.position


def test_a_scan_adopts_what_it_found(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path), interval=2_000)
    written = fill(segment, some_batches(3, 30))
    save_indexes(segment)
    torn = written[25]
    os.truncate(segment.path, torn.position + 30)
    for start in (0, 10, 20):
        found = Segment(Files().lazy(segment.path), 0, index_interval_bytes=2_000, size=torn.position + 30)
        extent = found.scan(written[start].position, next_offset=written[start].base, adopt=True)
        assert (extent.valid_bytes, extent.next_offset) == (torn.position, torn.base)
        assert (found.size, found.next_offset) == (torn.position, torn.base)
        assert_reads_everything(found, written[:25])


# --- beside a writer ---------------------------------------------------------------------------


@given(
    ends=st.lists(st.integers(0, 20), min_size=1, max_size=4).map(sorted),
    saved=st.sampled_from(["none", "some", "noise"]),
    torn=st.integers(0, 200),
)
def test_a_reader_beside_the_writer_goes_as_far_as_is_published(
    tmp_path_factory: pytest.TempPathFactory, ends: list[int], saved: str, torn: int
) -> None:
    directory = tmp_path_factory.mktemp("beside")
    writer = new_segment(log_path(directory), interval=1_500)
    written = fill(writer, some_batches(9, 20, 900))
    if saved == "some":
        save_indexes(writer)
    elif saved == "noise":
        index_path(writer, ".index").write_bytes(bytes(range(1, 81)))
        index_path(writer, ".timeindex").write_bytes(bytes(range(1, 25)))
    with open(writer.path, "ab") as file:
        file.write(written[0].data[:torn])  # what the writer is about to publish
    reader = Segment(Files().lazy(writer.path), 0, index_interval_bytes=1_500, size=writer.file.size())
    for end in ends:
        published = written[end].base if end < len(written) else written[-1].last + 1
        reader.extend(published)
        seen = written[:end]
        assert reader.next_offset == published
        assert reader.size == sum(len(batch.data) for batch in seen)
        if seen:
            assert_reads_everything(reader, seen)


@pytest.mark.parametrize("saved", [True, False])
def test_a_reader_never_believes_in_bytes_that_the_file_does_not_hold(tmp_path: Path, saved: bool) -> None:
    writer = new_segment(log_path(tmp_path), interval=1)
    written = fill(writer, some_batches(9, 5))
    if saved:
        save_indexes(writer)
    last, whole = written[-1], Path(writer.path).read_bytes()
    for size in (last.position + 1, last.position + 61, last.position + len(last.data) - 1):
        Path(writer.path).write_bytes(whole[:size])
        reader = Segment(Files().lazy(writer.path), 0, index_interval_bytes=1, size=size)
        reader.extend(writer.next_offset)
        assert (reader.size, reader.next_offset) == (last.position, last.base)
        assert_reads_everything(reader, written[:-1])


def test_reading_beside_appends_of_another_thread(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path), interval=300)
    batches = [bytearray(encode([b"%06d" % n] * 3, timestamp_ms=n)) for n in range(3_000)]
    wrong: list[object] = []

    def read(seed: int) -> None:
        rng = random.Random(seed)
        try:
            while segment.next_offset < 9_000:
                if not (end := segment.next_offset):
                    continue
                offset = rng.randrange(end)
                found = segment.read(offset, 1_000, end)
                if found is None or Batches(found[0]).values()[0] != b"%06d" % (offset // 3):
                    wrong.append((offset, found))
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
    for reader in readers:
        reader.start()
    for batch in batches:
        segment.append(batch, segment.next_offset, 0)
    for reader in readers:
        reader.join()
    assert wrong == []


# --- how much is read --------------------------------------------------------------------------


def bytes_read_by(call: Callable[[], object]) -> int:
    """Bytes that this process takes from files during a call, by the kernel's own count."""

    def so_far() -> int:
        fields = dict(line.split(b": ") for line in os.pread(counters, 1_000, 0).splitlines())
        return int(fields[b"rchar"])

    counters = os.open("/proc/self/io", os.O_RDONLY)
    try:
        overhead = -so_far() + so_far()
        before = so_far()
        call()
        return so_far() - before - overhead
    finally:
        os.close(counters)


@pytest.mark.row("S3", "D1")
@pytest.mark.parametrize("record_bytes", [100, 1_000, 10_000])
def test_a_seek_reads_one_index_interval_and_one_batch(tmp_path: Path, record_bytes: int) -> None:
    segment = new_segment(log_path(tmp_path))
    batch = encode([bytes(record_bytes)] * 10, timestamp_ms=1)
    run = bytearray(batch * ((1 << 20) // len(batch)))
    while segment.size < 64 << 20:
        segment.append(run, segment.next_offset, 0)
    segment.seal()
    save_indexes(segment)
    sealed = reopened(segment, sealed=True)
    sealed.index.load()
    rng = random.Random(record_bytes)
    for subject in (segment, sealed):
        for _ in range(200):
            offset = rng.randrange(segment.next_offset)
            found: list[object] = []
            taken = bytes_read_by(lambda: found.append(subject.read(offset, 1, INT64_MAX)))  # noqa: B023
            assert taken <= 4_096 + len(batch) + WINDOW_BYTES
            (answer,) = found
            assert isinstance(answer, tuple)
            assert BatchView(answer[0]).base_offset == offset - offset % 10


def reads_by(act: Callable[[], object]) -> int:
    """Count the system calls that read, as the kernel does, less those of the counting itself."""

    def count() -> int:
        (line,) = (line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("syscr"))
        return int(line.split()[1])

    count()
    itself = -count() + count()
    before = count()
    act()
    return count() - before - itself


@pytest.mark.row("S12", part="one process")
@pytest.mark.parametrize("kib", [1, 4, 16, 512])
def test_a_region_of_a_mebibyte_is_found_by_two_reads(tmp_path: Path, kib: int) -> None:
    segment = new_segment(log_path(tmp_path))
    written = fill(segment, [encode([bytes(kib * 1_024 - 80)]) for _ in range(8_192 // kib)])
    for subject in (segment, reopened(segment, sealed=True)):
        subject.index.load()
        for offset in (0, len(written) // 3, len(written) // 2 + 1):
            found: list[FileRegion | None] = []
            assert reads_by(lambda: found.append(subject.locate(offset, 1 << 20, INT64_MAX))) <= 2  # noqa: B023
            (part,) = found
            assert part is not None
            expected = expected_read(written, offset, 1 << 20, INT64_MAX)
            assert brief((part.read(), part.position, part.next_offset)) == expected


@pytest.mark.row("S12", part="one process")
@pytest.mark.parametrize("wrong", [-1, 1, 61, 3_000])
def test_a_region_ends_with_a_batch_though_the_index_is_wrong(tmp_path: Path, wrong: int) -> None:
    segment = new_segment(log_path(tmp_path))
    written = fill(segment, [encode([bytes(700)]) for _ in range(400)])
    entries = [segment.index.offsets.entry(number) for number in range(len(segment.index.offsets))]
    middle = len(entries) // 2
    segment.index.offsets.cut_to(entries[middle][1])
    segment.index.offsets.append(entries[middle][0], entries[middle][1] + wrong)
    part = segment.locate(0, entries[middle][1] + 500, INT64_MAX)
    assert part is not None
    expected = expected_read(written, 0, entries[middle][1] + 500, INT64_MAX)
    assert brief((part.read(), part.position, part.next_offset)) == expected


# --- sending -----------------------------------------------------------------------------------

each_way = pytest.mark.parametrize("send", [FileRegion.send_to, FileRegion.copy_to], ids=["sendfile", "copy"])


def large_region(directory: Path) -> tuple[FileRegion, bytes]:
    segment = new_segment(log_path(directory))
    written = fill(segment, [encode([random.Random(n).randbytes(50_000)]) for n in range(60)])
    part = segment.locate(5, 1 << 30, 55)
    assert part is not None
    return part, b"".join(batch.data for batch in written[5:55])


def received(peer: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = peer.recv(min(size, 1 << 20))
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@pytest.mark.row("X5", part="sendfile")
@pytest.mark.row("S12", part="one process")
@each_way
@pytest.mark.parametrize("start", [0, 1, 70_000])
def test_a_blocking_socket_takes_the_whole_region(tmp_path: Path, send: Callable[..., int], start: int) -> None:
    part, expected = large_region(tmp_path)
    mine, peer = socket.socketpair()
    with mine, peer:
        taken: list[bytes] = []
        reader = threading.Thread(target=lambda: taken.append(received(peer, len(expected) - start)))
        reader.start()
        assert send(part, mine, start) == len(expected) - start
        reader.join()
        assert taken == [expected[start:]]
        assert send(part, mine, len(expected)) == 0
    counts = part.file.files.call_counts()
    assert (counts["sendfile"] > 0) == (send is FileRegion.send_to)


@each_way
def test_a_part_of_a_region_is_sent(tmp_path: Path, send: Callable[..., int]) -> None:
    part, expected = large_region(tmp_path)
    mine, peer = socket.socketpair()
    with mine, peer:
        for start, most in ((0, 1), (1, 60_000), (60_001, 0), (len(expected) - 5, 1 << 40), (7, 2**63 - 1)):
            if most == 2**63 - 1:
                mine.setblocking(False)
                size = send(part, mine, start, most)
                assert size > 60_000
            else:
                size = min(most, len(expected) - start)
                assert send(part, mine, start, most) == size
            assert received(peer, size) == expected[start : start + size]


@pytest.mark.row("S12", part="one process")
@each_way
def test_a_socket_that_does_not_block_takes_what_it_has_space_for(tmp_path: Path, send: Callable[..., int]) -> None:
    part, expected = large_region(tmp_path)
    mine, peer = socket.socketpair()
    with mine, peer:
        mine.setblocking(False)
        done, taken, full = 0, b"", 0
        while done < len(expected):
            count = send(part, mine, done)
            done += count
            if count == 0:
                full += 1
                taken += received(peer, done - len(taken))
        taken += received(peer, done - len(taken))
        assert taken == expected
        assert full > 1


@pytest.mark.row("S18")
@pytest.mark.row("S12", part="one process")
@each_way
def test_a_region_is_sent_though_its_segment_is_gone(tmp_path: Path, send: Callable[..., int]) -> None:
    segment = new_segment(log_path(tmp_path))
    (batch,) = fill(segment, [encode([b"v"])])
    part = segment.locate(0, 1, 1)
    assert part is not None
    segment.file.sync()
    segment.close()
    os.unlink(segment.path)
    mine, peer = socket.socketpair()
    with mine, peer:
        assert send(part, mine) == len(batch.data)
        assert received(peer, len(batch.data)) == batch.data
        part.close()
        part.close()
        for use in (part.read, lambda: send(part, mine)):
            with pytest.raises(ValueError, match="region is closed"):
                use()
    with pytest.raises(StorageError, match="closed"):
        segment.read(0, 1, 1)


@each_way
def test_what_the_socket_says_is_the_callers_error(tmp_path: Path, send: Callable[..., int]) -> None:
    part, expected = large_region(tmp_path)
    mine, peer = socket.socketpair()
    with mine:
        peer.close()
        with pytest.raises(BrokenPipeError):
            send(part, mine)
    with pytest.raises(ValueError, match="file descriptor"):
        send(part, mine)
    with pytest.raises(TypeError):
        send(part, "socket")
    for start in (-1, len(expected) + 1):
        with pytest.raises(ValueError, match=f"from byte {start}"):
            send(part, 1, start)


@each_way
def test_a_file_that_ends_inside_a_region_is_damage(tmp_path: Path, send: Callable[..., int]) -> None:
    part, expected = large_region(tmp_path)
    os.truncate(part.file.path, part.position + 100)
    mine, peer = socket.socketpair()
    with mine, peer:
        assert send(part, mine) == 100
        with pytest.raises(CorruptRecordError, match="ends inside the region") as caught:
            send(part, mine, 100)
        assert caught.value.position == part.position + 100
    with pytest.raises(CorruptRecordError, match=f"{len(expected)} bytes expected, 100 are there"):
        part.read()


# --- small questions ---------------------------------------------------------------------------


def test_small_questions_about_places(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path), interval=1)
    written = fill(segment, some_batches(8, 6))
    for batch in written:
        assert segment.index.continues_at(batch.position, batch.base)
        assert not segment.index.continues_at(batch.position, batch.base + 1)
        assert not segment.index.continues_at(batch.position + 1, batch.base)
        assert segment.index.floor(batch.base) <= batch.position
        assert segment.index.continues_at(segment.size, batch.last + 1) == (batch is written[-1])
    assert not segment.index.continues_at(segment.size, segment.next_offset + 1)
    assert repr(segment) == f"<Segment 0..{segment.next_offset - 1}, {segment.size} bytes>"
    segment.seal()
    assert repr(segment).endswith(", sealed>")


def test_a_stamped_batch_in_the_wrong_place_is_not_read(tmp_path: Path) -> None:
    """The CRC does not cover base offsets, so the last one is held against the segment's end."""
    segment = new_segment(log_path(tmp_path))
    written = fill(segment, [encode([b"a"]), encode([b"b"])])
    for offset in (0, 2, 64):
        wrong = bytearray(written[1].data)
        stamp(wrong, offset, 0)
        segment.file.write(wrong, written[1].position)
        with pytest.raises(CorruptRecordError):
            segment.read(1, 1, INT64_MAX)


def test_an_extent_is_made_by_scans_only() -> None:
    assert Extent().is_whole  # an empty one, of no file


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("size", [10, WINDOW_BYTES], ids=["small", "larger than a window"])
def test_a_single_record_outlives_the_batch_that_it_was_read_from(tmp_path: Path, codec: Codec, size: int) -> None:
    """Found by fuzzing: whether a record has headers was looked up in the batch's bytes after they were freed."""
    rng = random.Random(1)
    records = [(b"k%d" % n, rng.randbytes(size), n, [("h", b"%d" % n)] if n % 2 else []) for n in range(4)]
    segment = new_segment(tmp_path / f"{0:020d}.log")
    fill(segment, [encode(records, timestamp_ms=0, codec=codec)] * 2)
    found = [segment.record_at(offset, ("flights", 0), 1 << 20) for offset in range(8)]
    # The first of two large batches has no entry of its own: it is left to `read`.
    assert None not in found[4:]
    for offset, record in enumerate(found):
        if record is not None:
            key, value, timestamp_ms, headers = records[offset % 4]
            assert (record.key, record.value, record.timestamp_ms) == (key, value, timestamp_ms)
            assert record.headers == tuple(headers)


@each_way
def test_a_region_that_is_closed_while_it_is_sent_sends_its_own_bytes(
    tmp_path: Path, send: Callable[..., int]
) -> None:
    """Another thread closes the region and the file, whose descriptor's number another file gets."""
    part, expected = large_region(tmp_path)
    number = next(int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.resolve() == Path(part.file.path))
    other = tmp_path / "other"
    other.write_bytes(b"\xff" * (part.position + part.size))
    mine, peer = socket.socketpair()
    with mine, peer:
        peer.settimeout(60)
        sent: list[int] = []
        sender = threading.Thread(target=lambda: sent.append(send(part, mine)))
        sender.start()
        begun = peer.recv(1)  # more than the socket has room for, so the rest is still to come
        part.close()
        part.file.close()
        taken = []
        while not taken or max(taken) < number:
            taken.append(os.open(other, os.O_RDONLY))
        try:
            assert begun + received(peer, len(expected) - 1) == expected
        finally:
            for fd in taken:
                os.close(fd)
            sender.join()
        assert sent == [len(expected)]
    assert not [fd for fd in Path("/proc/self/fd").iterdir() if fd.resolve() == Path(part.file.path)]


# --- what a failed call leaves -----------------------------------------------------------------


def address_space_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_a_scan_of_a_file_that_cannot_be_opened_leaves_no_memory_behind(tmp_path: Path) -> None:
    segment = new_segment(log_path(tmp_path))
    segment.close()
    before = address_space_mb()
    for _ in range(1_000):
        with pytest.raises(StorageError, match="closed"):
            segment.scan(end=1 << 30)
    assert address_space_mb() - before < 50
