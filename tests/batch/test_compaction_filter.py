"""The filter of a compaction against a slow model: which records of a batch stay, and what its header says then."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._batch import Batches, BatchView, stamp
from logstore.batch._compaction_filter import DECIDE, ENDED, Filter
from logstore.batch._encode import encode, encode_marker
from logstore.batch._offset_map import SLOT_BYTES, KeyMap
from logstore.errors import CorruptRecordError, UnsupportedFormatError
from logstore.records import Codec

pytestmark = pytest.mark.row("R3")

NOW, RETENTION = 50_000, 7_000
END = 2**40


class Given(NamedTuple):
    """A batch as it is written: records are (key, value, timestamp, headers)."""

    records: list[tuple]
    codec: Codec = Codec.NONE
    producer_id: int = -1
    append_time: bool = False


class Left(NamedTuple):
    """What is to be seen of a batch afterwards; records are (offset, timestamp, key, value, headers)."""

    base_offset: int
    last_offset: int
    records: list[tuple]
    horizon_ms: int | None
    codec: Codec
    producer_id: int
    base_sequence: int


keys = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c", b"d" * 200]))
values = st.one_of(st.none(), st.just(b""), st.binary(max_size=20), st.just(b"v" * 300))
records = st.tuples(
    keys, values, st.integers(0, 2**41), st.sampled_from([[], [("h", b"1")], [("h", None), ("", b"")]])
)
batches = st.builds(
    Given,
    st.lists(records, min_size=1, max_size=12),
    st.sampled_from(list(Codec)),
    st.sampled_from([-1, -1, 7]),
    st.booleans(),
)


def encoded(given_batches: list[Given], base_offset: int = 0, **more) -> tuple[bytes, list[int]]:
    """Their bytes, and the first offset of each; there is a gap behind every third."""
    data, firsts, offset = bytearray(), [], base_offset
    for number, batch in enumerate(given_batches):
        stamped = (
            {"producer_id": 7, "producer_epoch": 1, "base_sequence": offset % 1000}
            if batch.producer_id >= 0
            else {}
        )
        part = bytearray(
            encode(
                batch.records, timestamp_ms=3, codec=batch.codec, append_time=batch.append_time, **stamped, **more
            )
        )
        stamp(part, offset, 4)
        data += part
        firsts.append(offset)
        offset += len(batch.records) + (5 if number % 3 == 2 else 0)
    return bytes(data), firsts


def seen(data: bytes) -> list[Left]:
    """The batches of a run, every one checked and taken apart."""
    found, position = [], 0
    while position < len(data):
        view = BatchView(data[position:])
        view.check()
        view.validate(contiguous=False)
        run = Batches(data[position : position + view.size])
        found.append(
            Left(
                view.base_offset,
                view.last_offset,
                [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in run],
                view.delete_horizon_ms,
                view.codec,
                view.producer_id,
                view.base_sequence,
            )
        )
        if len(view) and not view.attributes & 8:
            assert view.max_timestamp_ms == max(r.timestamp_ms for r in run)
        assert view.leader_epoch == 4
        position += view.size
    return found


def newest(before: list[Left], known: int) -> dict[bytes, int]:
    return {r[2]: r[0] for batch in before for r in batch.records if r[2] is not None and r[0] <= known}


def model(before: list[Left], known: int, now: int, kept_last: set[int], ends_group: bool) -> list[Left]:
    """What has to be left, record by record."""
    offsets, left = newest(before, known), []
    for number, batch in enumerate(before):
        stays = []
        for record in batch.records:
            offset, _, key, value, _ = record
            is_over = batch.horizon_ms is not None and batch.horizon_ms <= now
            if offset > known or (
                key is not None and offset >= offsets.get(key, -1) and not (value is None and is_over)
            ):
                stays.append(record)
        horizon = batch.horizon_ms
        if horizon is None and any(record[3] is None for record in stays):
            horizon = now + RETENTION
        if stays:
            left.append(batch._replace(records=stays, horizon_ms=horizon))
        elif (batch.producer_id >= 0 and batch.last_offset in kept_last) or (
            ends_group and number + 1 == len(before)
        ):
            left.append(batch._replace(records=[], horizon_ms=None, codec=Codec.NONE))
    return left


def pass_on(
    data: bytes, known: int, now: int, kept_last=(), ends_group: bool = False, before=None
) -> tuple[bytes, Filter]:
    table = KeyMap(1000 * SLOT_BYTES, bytes(16))
    for key, offset in newest(seen(data) if before is None else before, known).items():
        table.put(key, offset)
    chosen = Filter(table, known_offset=known, now_ms=now, delete_retention_ms=RETENTION, level_of=lambda codec: 1)
    chosen.begin(0, sorted(kept_last))
    assert chosen.run(data, 0, END, ends_group) == (len(data), ENDED)
    return bytes(memoryview(chosen)), chosen


@given(st.lists(batches, min_size=1, max_size=6), st.data())
def test_what_stays_is_what_a_slow_model_keeps(given_batches, data):
    """Twice, since the second pass meets horizons, headers without records, and rewritten batches."""
    run, _ = encoded(given_batches)
    for now in (NOW, NOW + data.draw(st.sampled_from([1, RETENTION - 1, RETENTION, 3 * RETENTION]))):
        before = seen(run)
        lasts = [batch.last_offset for batch in before]
        known = data.draw(st.integers(-1, lasts[-1] + 1))
        kept_last = data.draw(st.sets(st.sampled_from(lasts)))
        ends_group = data.draw(st.booleans())
        left, chosen = pass_on(run, known, now, kept_last, ends_group)
        assert seen(left) == model(before, known, now, kept_last, ends_group)
        assert chosen.records_read == sum(len(batch.records) for batch in before)
        assert chosen.records_kept == sum(len(batch.records) for batch in seen(left))
        assert (chosen.bytes_read, chosen.bytes_kept) == (len(run), len(left))
        counts = chosen.batches_copied + chosen.batches_rewritten + chosen.batches_emptied
        assert (counts, counts + chosen.batches_dropped) == (len(seen(left)), len(before))
        pending = [b.horizon_ms for b in seen(left) if any(r[3] is None for r in b.records)]
        assert chosen.next_horizon_ms == min(pending, default=2**63 - 1)
        if not left:
            return
        run = left


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_stays_whole_is_copied_as_it_lies(codec):
    run, _ = encoded([Given([(b"a", b"1", 5, []), (b"b", b"2", 9, [])], codec)])
    left, chosen = pass_on(run, 1, NOW)
    assert left == run
    assert (chosen.batches_copied, chosen.batches_rewritten) == (1, 0)


def test_slices_keep_the_bytes_of_the_records_that_stay():
    run, _ = encoded([Given([(b"k%d" % (n % 4), b"v%d" % n, n, [("h", b"x")]) for n in range(8)])])
    whole, _ = encoded([Given([(b"k%d" % (n % 4), b"v%d" % n, n, [("h", b"x")]) for n in range(8)])])
    left, chosen = pass_on(run, 7, NOW)
    assert whole.endswith(left[61:])
    assert (chosen.records_kept, chosen.batches_rewritten) == (4, 1)


def test_a_tombstone_gets_a_horizon_and_goes_when_it_has_passed():
    run, _ = encoded([Given([(b"a", None, 5, []), (b"b", b"1", 2**41, [])])])
    once, _ = pass_on(run, 1, NOW)
    assert seen(once)[0].horizon_ms == NOW + RETENTION
    assert [record[1] for record in seen(once)[0].records] == [5, 2**41]
    for now, kept in ((NOW + RETENTION - 1, 2), (NOW + RETENTION, 1)):
        twice, _ = pass_on(once, 1, now)
        assert len(seen(twice)[0].records) == kept
        assert seen(twice)[0].horizon_ms == NOW + RETENTION


def test_a_horizon_that_no_clock_reaches_is_kept_within_64_bits():
    run, _ = encoded([Given([(b"a", None, 5, [])])])
    table = KeyMap(480, bytes(16))
    chosen = Filter(table, known_offset=0, now_ms=NOW, delete_retention_ms=2**63 - 1, level_of=lambda codec: 1)
    chosen.begin(0, [])
    chosen.run(run, 0, END, False)
    (left,) = seen(bytes(memoryview(chosen)))
    assert left.horizon_ms == 2**63 - 1
    assert left.records[0][1] == 5


def test_transactions_and_markers_are_decided_elsewhere():
    data = bytearray(
        encode([(b"a", b"1")], timestamp_ms=1, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    )
    marker = bytearray(encode_marker(1, 0, 7, 1, 2_000))
    stamp(data, 0, 4)
    stamp(marker, 1, 4)
    run = bytes(data + marker)
    table = KeyMap(480, bytes(16))

    def passed_on(**what) -> list[Left]:
        chosen = Filter(table, known_offset=1, now_ms=NOW, delete_retention_ms=RETENTION, level_of=lambda codec: 1)
        chosen.begin(0, [])
        assert chosen.run(run, 0, END, False) == (0, DECIDE)
        at = chosen.decide(run, 0, END, discard=True, marker_goes=False, stays_empty=False)
        assert (at, len(chosen)) == (len(data), 0)
        assert chosen.run(run, at, END, False) == (at, DECIDE)
        assert chosen.decide(run, at, END, **what) == len(run)
        return [BatchView(bytes(memoryview(chosen)))] if len(chosen) else []

    (kept,) = passed_on(discard=False, marker_goes=False, stays_empty=False)
    assert bytes(kept) == bytes(marker)
    (waiting,) = passed_on(discard=False, marker_goes=True, stays_empty=False)
    assert (waiting.delete_horizon_ms, waiting.marker, len(waiting)) == (NOW + RETENTION, (1, 0), 1)
    waiting.check()
    assert next(iter(Batches(bytes(waiting)).batches())).max_timestamp_ms == 2_000
    assert passed_on(discard=True, marker_goes=True, stays_empty=False) == []
    (header,) = passed_on(discard=True, marker_goes=True, stays_empty=True)
    header.check()
    assert (len(header), header.is_control, header.marker, header.producer_epoch) == (0, True, None, 1)
    assert (header.base_timestamp_ms, header.max_timestamp_ms, header.is_transactional) == (-1, 2_000, True)


# --- bad input ---------------------------------------------------------------------------------


def filter_of_nothing() -> Filter:
    chosen = Filter(
        KeyMap(480, bytes(16)), known_offset=10, now_ms=NOW, delete_retention_ms=RETENTION, level_of=lambda codec: 1
    )
    chosen.begin(0, [])
    return chosen


@pytest.mark.parametrize("codec", list(Codec))
def test_a_flipped_byte_is_named_with_its_place_and_what_came_before_is_kept(codec):
    run, _ = encoded([Given([(b"a", b"1", 5, [])]), Given([(b"b", b"2" * 40, 5, [])], codec)])
    first = int.from_bytes(run[8:12], "big") + 12
    for at in range(first + 17, len(run)):
        flipped = bytearray(run)
        flipped[at] ^= 0x10
        chosen = filter_of_nothing()
        with pytest.raises(CorruptRecordError, match=r"CRC-32C|cannot be") as caught:
            chosen.run(bytes(flipped), 0, END, False, path="/t-0/x.log", file_position=4096)
        assert (caught.value.path, caught.value.position) == ("/t-0/x.log", 4096 + first)
        assert bytes(memoryview(chosen)) == run[:first]


def test_offsets_that_do_not_rise_or_reach_the_next_segment_are_damage():
    run, _ = encoded([Given([(b"a", b"1", 5, [])] * 3)], base_offset=7)
    for data, end in ((run + run, END), (run, 9)):
        with pytest.raises(CorruptRecordError, match="does not rise"):
            filter_of_nothing().run(data, 0, end, False)


def test_records_that_do_not_fit_their_batch_are_damage():
    """Whole by its CRC, and wrong: its writer made it so."""
    run = bytearray(encoded([Given([(b"a", b"1", 5, [])] * 2)])[0])
    for at, value in ((57 + 3, 1), (57 + 3, 3), (26, 0)):
        wrong = bytearray(run)
        wrong[at] = value
        if at == 60 and value == 3:
            wrong[26] = 2
        resealed(wrong)
        with pytest.raises(CorruptRecordError):
            filter_of_nothing().run(bytes(wrong), 0, END, False)


def resealed(data: bytearray) -> None:
    from logstore.batch._crc32c import crc32c

    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")


def test_bytes_that_end_inside_a_batch_are_left_and_another_format_is_refused():
    run, _ = encoded([Given([(b"a", b"1", 5, [])]), Given([(b"b", b"2", 5, [])])])
    first = int.from_bytes(run[8:12], "big") + 12
    for cut in range(first, len(run)):
        assert filter_of_nothing().run(run[:cut], 0, END, False) == (first, ENDED)
    old = bytearray(run)
    old[16] = 0
    with pytest.raises(UnsupportedFormatError):
        filter_of_nothing().run(bytes(old), 0, END, False)
    with pytest.raises(ValueError, match="outside"):
        filter_of_nothing().run(run, len(run) + 1, END, False)


def test_what_stays_is_not_changed_while_a_reader_has_it():
    run, _ = encoded([Given([(b"a", b"1", 5, [])])])
    chosen = filter_of_nothing()
    chosen.run(run, 0, END, False)
    with memoryview(chosen) as view:
        for act in (chosen.clear, lambda: chosen.begin(0, []), lambda: chosen.run(run, 0, END, False)):
            with pytest.raises(BufferError, match="release it"):
                act()
        assert bytes(view) == run
    chosen.clear()
    assert len(chosen) == 0
