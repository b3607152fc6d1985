"""The sparse indexes find what a binary search over their entries finds, however they came in."""

from __future__ import annotations

import bisect
import itertools
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore._index import Entries, OffsetIndex, TimeIndex
from logstore.io._files import Files

pytestmark = pytest.mark.row("S3")

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1

int32s = st.integers(0, INT32_MAX) | st.integers(0, 40)
int64s = st.integers(0, INT64_MAX) | st.integers(0, 40)


def pairs(
    first: st.SearchStrategy[int], second: st.SearchStrategy[int]
) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Entries whose both numbers rise, and whose second one is above 0: none looks like padding."""
    return st.integers(0, 30).flatmap(
        lambda count: st.tuples(
            st.lists(first, min_size=count, max_size=count, unique=True).map(sorted),
            st.lists(second.map(lambda n: max(n, 1)), min_size=count, max_size=count, unique=True).map(sorted),
        ).map(lambda columns: list(zip(*columns, strict=True)))
    )


offset_entries = pairs(int32s, int32s)
time_entries = pairs(int64s, int32s)


def offset_bytes(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_bytes(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def mapped(index: Entries, directory: Path, data: bytes) -> Entries:
    path = directory / "00000000000000000000.index"
    path.unlink(missing_ok=True)  # a mapped file is replaced, never cut
    path.write_bytes(data)
    file = Files().open(str(path))
    try:
        return index.map(file.map())
    finally:
        file.close()


def entries_of(index: OffsetIndex | TimeIndex) -> list[tuple[int, int]]:
    return [index.entry(number) for number in range(len(index))]


# --- finding -----------------------------------------------------------------------------------


@given(entries=offset_entries, asked=st.lists(st.integers(-1, 2**40) | st.integers(-1, 41), max_size=20))
def test_the_floor_of_an_offset_is_that_of_bisect(entries: list[tuple[int, int]], asked: list[int]) -> None:
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    offsets = [offset for offset, _ in entries]
    for offset in [*asked, *offsets, *(offset - 1 for offset in offsets), *(offset + 1 for offset in offsets)]:
        place = bisect.bisect_right(offsets, offset) - 1
        assert index.floor(offset) == (None if place < 0 else entries[place])
    assert index.to_bytes() == index.unsaved() == offset_bytes(entries)
    assert index.size == 8 * len(entries)


@given(entries=time_entries, asked=st.lists(st.integers(-2, INT64_MAX) | st.integers(-2, 41), max_size=20))
def test_the_last_entry_below_a_time_is_that_of_bisect(entries: list[tuple[int, int]], asked: list[int]) -> None:
    index = TimeIndex()
    for entry in entries:
        index.append(*entry)
    times = [timestamp for timestamp, _ in entries]
    for timestamp in [
        *asked,
        *times,
        *(time - 1 for time in times),
        *(min(time, INT64_MAX - 1) + 1 for time in times),
    ]:
        place = bisect.bisect_left(times, timestamp) - 1
        assert index.last_below(timestamp) == (None if place < 0 else entries[place])
    assert index.to_bytes() == index.unsaved() == time_bytes(entries)
    assert index.size == 12 * len(entries)


@given(entries=time_entries, more=st.lists(st.tuples(int64s, int32s), max_size=10))
def test_the_time_index_takes_only_what_rises(entries: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    index = TimeIndex()
    expected: list[tuple[int, int]] = []
    for timestamp, offset in [*entries, *more]:
        index.append(timestamp, offset)
        if not expected or (timestamp > expected[-1][0] and offset > expected[-1][1]):
            expected.append((timestamp, offset))
    assert entries_of(index) == expected
    assert index.is_sound()


@pytest.mark.parametrize("entry", [(5, 100), (4, 101), (6, 99), (6, 100), (5, 101)])
def test_an_offset_entry_that_does_not_rise_is_refused(entry: tuple[int, int]) -> None:
    index = OffsetIndex()
    index.append(5, 100)
    with pytest.raises(ValueError, match=r"does not rise over \(5, 100\)"):
        index.append(*entry)
    assert entries_of(index) == [(5, 100)]


@pytest.mark.parametrize("index", [OffsetIndex(), TimeIndex()], ids=["offset", "time"])
def test_an_entry_that_is_not_there_is_no_entry(index: OffsetIndex | TimeIndex) -> None:
    for number in (-1, 0, 1):
        with pytest.raises(IndexError, match=f"entry {number} of 0"):
            index.entry(number)


# --- files -------------------------------------------------------------------------------------


@given(
    entries=offset_entries,
    times=time_entries,
    padding=st.integers(0, 5),
    tail=st.binary(max_size=7),
    partial=st.integers(0, 11),
)
def test_padding_and_half_entries_are_none_whether_loaded_or_mapped(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[tuple[int, int]],
    times: list[tuple[int, int]],
    padding: int,
    tail: bytes,
    partial: int,
) -> None:
    directory = tmp_path_factory.getbasetemp()
    cases: list[tuple[type[OffsetIndex] | type[TimeIndex], list[tuple[int, int]], bytes]] = [
        (OffsetIndex, entries, offset_bytes(entries) + bytes(8 * padding) + tail),
        (TimeIndex, times, time_bytes(times) + bytes(12 * padding) + bytes(partial)),
    ]
    for kind, expected, data in cases:
        for index in (kind().load(data), mapped(kind(), directory, data)):
            assert entries_of(index) == expected
            assert (index.count, len(index), index.saved) == (len(expected),) * 3
            assert index.unsaved() == b""
            assert index.to_bytes() == data[: index.size]


def test_a_preallocated_index_of_kafka_is_read() -> None:
    """10 MiB of zeros behind the entries of an active segment."""
    data = offset_bytes([(41, 4_107), (82, 8_214)])
    index = OffsetIndex().load(data + bytes((10 << 20) - len(data)))
    assert entries_of(index) == [(41, 4_107), (82, 8_214)]
    assert OffsetIndex().load(bytes(10 << 20)).count == 0


def test_an_index_without_a_file_is_empty() -> None:
    for index in (OffsetIndex().map(None), TimeIndex().map(None), OffsetIndex().load(b"")):
        assert (len(index), index.to_bytes(), index.unsaved()) == (0, b"", b"")
    assert OffsetIndex().map(None).floor(2**40) is None
    assert TimeIndex().map(None).last_below(2**40) is None
    assert OffsetIndex().map(None).is_sound(0)


@given(entries=offset_entries, more=st.integers(1, 40), again=st.booleans())
def test_a_mapped_index_grows_in_memory_and_its_file_stays(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int]], more: int, again: bool
) -> None:
    entries = [entry for entry in entries if max(entry) < INT32_MAX - 100]
    directory = tmp_path_factory.getbasetemp()
    index = mapped(OffsetIndex(), directory, offset_bytes(entries))
    assert isinstance(index, OffsetIndex)
    if again:
        index = index.load(index.to_bytes())
    offset, position = entries[-1] if entries else (0, 0)
    grown = [*entries, *((offset + n, position + n) for n in range(1, more + 1))]
    for entry in grown[len(entries) :]:
        index.append(*entry)
    assert entries_of(index) == grown
    assert index.unsaved() == offset_bytes(grown[len(entries) :])
    index.mark_saved()
    assert (index.unsaved(), index.saved) == (b"", len(grown))
    index.unmark_saved()
    assert index.unsaved() == offset_bytes(grown)
    assert (directory / "00000000000000000000.index").read_bytes() == offset_bytes(entries)


def test_a_mapping_outlives_its_file(tmp_path: Path) -> None:
    entries = [(n, n) for n in range(1, 3_000)]
    index = mapped(OffsetIndex(), tmp_path, offset_bytes(entries))
    (tmp_path / "00000000000000000000.index").unlink()
    assert isinstance(index, OffsetIndex)
    assert entries_of(index) == entries
    assert entries_of(index.load(offset_bytes(entries[:2]))) == entries[:2]


# --- soundness and cutting ---------------------------------------------------------------------


@given(
    entries=st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9)), max_size=5),
    log_bytes=st.integers(0, 12),
)
def test_soundness_is_rising_inside_the_log(entries: list[tuple[int, int]], log_bytes: int) -> None:
    index = OffsetIndex().load(offset_bytes(entries))
    kept = entries_of(index)  # less what looks like padding
    columns = ([-1, *(entry[column] for entry in kept)] for column in (0, 1))
    rising = all(a < b for column in columns for a, b in itertools.pairwise(column))
    assert index.is_sound(log_bytes) == (rising and (not kept or kept[-1][1] < log_bytes))


@given(entries=st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9)), max_size=5))
def test_soundness_of_times_is_not_falling(entries: list[tuple[int, int]]) -> None:
    index = TimeIndex().load(time_bytes(entries))
    kept = entries_of(index)
    times = [-2, *(timestamp for timestamp, _ in kept)]
    offsets = [0, *(offset for _, offset in kept)]
    assert index.is_sound() == (times == sorted(times) and offsets == sorted(offsets))


@given(entries=offset_entries, times=time_entries, at=st.integers(0, 41) | int32s, saved=st.booleans())
def test_cutting_drops_what_is_at_or_behind_a_place(
    entries: list[tuple[int, int]], times: list[tuple[int, int]], at: int, saved: bool
) -> None:
    index, time_index = OffsetIndex(), TimeIndex()
    for entry in entries:
        index.append(*entry)
    for entry in times:
        time_index.append(*entry)
    if saved:
        index.mark_saved()
    index.cut_to(at)
    time_index.cut_to(at)
    kept = [entry for entry in entries if entry[1] < at]
    assert entries_of(index) == kept
    assert entries_of(time_index) == [entry for entry in times if entry[1] < at]
    assert index.saved == (len(kept) if saved else 0)
    last, position = kept[-1] if kept else (0, 0)
    if last < INT32_MAX:
        index.append(last + 1, position + 1)
        kept.append((last + 1, position + 1))
    assert index.to_bytes() == offset_bytes(kept)
