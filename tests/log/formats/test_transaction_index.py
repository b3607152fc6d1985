from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.log.formats import transaction_index
from logstore.records import AbortedTransaction
from tests.log.fakes import cuts, flips

pytestmark = pytest.mark.row("T5", part="one process")


@st.composite
def histories(draw):
    """A log of transactional records and markers; what a segment's index says, and the truth."""
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("wwac")), max_size=40))
    first: dict[int, int] = {}
    entries = []
    for offset, (producer, what) in enumerate(steps):
        if what == "w":
            first.setdefault(producer, offset)
        elif producer in first:
            began = first.pop(producer)
            stable = min(first.values(), default=offset + 1)
            if what == "a":
                entries.append(AbortedTransaction(producer, began, offset, stable))
    return entries, len(steps)


@given(histories())
def test_entries_come_back_as_written(history):
    entries, _ = history
    data = transaction_index.encode(entries)
    assert len(data) == transaction_index.ENTRY_BYTES * len(entries)
    assert transaction_index.decode(data) == entries


def test_the_entry_is_kafkas():
    entry = AbortedTransaction(1, 2, 3, 4)
    assert transaction_index.encode([entry]).hex() == "0000" + "".join(f"{n:016x}" for n in (1, 2, 3, 4))


@given(histories(), st.data())
def test_collect_finds_every_overlap_and_stops_only_when_no_later_one_can(history, data):
    entries, end = history
    start = data.draw(st.integers(0, end))
    bound = data.draw(st.integers(start, end + 1))
    split = data.draw(st.integers(0, len(entries)))
    overlapping = [e for e in entries if e.last_offset >= start and e.first_offset < bound]
    found, is_complete = transaction_index.collect(entries[:split], start, bound)
    if not is_complete:
        found = found + transaction_index.collect(entries[split:], start, bound).transactions
    assert found == overlapping


@given(histories(), st.integers(0, 45))
def test_truncation_keeps_the_entries_whose_marker_is_still_there(history, offset):
    entries, _ = history
    assert transaction_index.truncate_to(entries, offset) == [e for e in entries if e.last_offset < offset]


ENTRIES = [AbortedTransaction(7, 10, 20, 12), AbortedTransaction(8, 12, 30, 31)]


def test_an_index_cut_within_an_entry_is_rebuilt():
    data = transaction_index.encode(ENTRIES)
    for cut in cuts(data):
        whole, rest = divmod(len(cut), transaction_index.ENTRY_BYTES)
        assert transaction_index.decode(cut) == (None if rest else ENTRIES[:whole])


def test_a_flipped_bit_gives_none_or_entries_that_hold_together():
    data = transaction_index.encode(ENTRIES)
    believed = 0
    for damaged in flips(data):
        entries = transaction_index.decode(damaged, base_offset=15, end_offset=40)
        if entries is not None:
            believed += 1
            assert transaction_index.encode(entries) == damaged
            assert all(0 <= e.first_offset <= e.last_offset for e in entries)
    # Kafka's format has no checksum; this bounds how much of a flip can pass unseen.
    # Two producer ids of 63 bits each; few others.
    assert 2 * 63 <= believed < 2 * 63 + 32


@pytest.mark.parametrize(
    "entry",
    [
        AbortedTransaction(-1, 0, 1, 2),
        AbortedTransaction(1, -1, 1, 2),
        AbortedTransaction(1, 5, 4, 2),
        AbortedTransaction(1, 0, 1, 3),
        AbortedTransaction(1, 0, 1, -1),
    ],
)
def test_an_entry_that_contradicts_itself_is_rebuilt(entry):
    assert transaction_index.decode(transaction_index.encode([entry])) is None


def test_entries_that_contradict_each_other_are_rebuilt():
    first, second = ENTRIES
    assert transaction_index.decode(transaction_index.encode([second, first])) is None
    assert transaction_index.decode(transaction_index.encode([first, first])) is None
    assert (
        transaction_index.decode(transaction_index.encode([first, second._replace(last_stable_offset=11)])) is None
    )


def test_an_entry_whose_marker_is_before_its_segment_is_rebuilt():
    data = transaction_index.encode(ENTRIES)
    assert transaction_index.decode(data, base_offset=20) == ENTRIES
    assert transaction_index.decode(data, base_offset=21) is None


def test_an_entry_whose_marker_is_behind_its_segment_is_rebuilt():
    data = transaction_index.encode(ENTRIES)
    assert transaction_index.decode(data, 20, end_offset=31) == ENTRIES
    assert transaction_index.decode(data, 20, end_offset=30) is None


def test_another_version_is_rebuilt():
    assert transaction_index.decode(b"\0\1" + transaction_index.encode(ENTRIES)[2:]) is None


@given(st.binary(max_size=102))
def test_any_bytes_are_entries_or_none(data):
    transaction_index.decode(data)
