"""Damage in stored bytes: what stands before it is given, what is lost is named, what follows is found."""

from __future__ import annotations

import asyncio
import copy
import itertools
import os
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pytest

import logstore
from logstore import Log, aio
from logstore.batch._batch import with_codec
from logstore.batch._encode import encode
from logstore.errors import CorruptRecordError, DamagedLogError, LogstoreError, RecordError, UnsupportedFormatError
from logstore.records import Codec, LeftOut, TopicPartition
from tests.crash.histories import seeded

DAMAGE = (CorruptRecordError, UnsupportedFormatError)
SETTINGS: dict[str, Any] = {"segment_bytes": 5 << 10, "index_interval_bytes": 512}
NAME = TopicPartition("flights", 0)


class Batch(NamedTuple):
    """A batch as it was written."""

    path: str
    position: int
    size: int
    first: int
    next: int


def value_of(offset: int) -> bytes:
    return b"flight %d " % offset * (1 + offset % 7)


def written(directory: Path, count: int = 120) -> list[Batch]:
    """A log of some segments, closed, of batches of one to seven records with every codec; what it holds."""
    rng = random.Random(7)
    with Log.open(directory, **SETTINGS) as log:
        for number in range(count):
            first = log.log_end_offset
            last = first + rng.randrange(1, 8)
            log.append([(b"key", value_of(n)) for n in range(first, last)], codec=Codec(number % 5))
        found = [
            # A roll gives its file its name a moment later.
            Batch(str(directory / f"{segment.base_offset:020d}.log"), position, size, base, last + 1)
            for segment in log.maintenance.segments
            for base, last, position, size, _, _ in segment.index.headers(0)
        ]
    assert len({batch.path for batch in found}) > 3
    return found


def changed(batch: Batch, change: Callable[[bytearray, Batch], None]) -> None:
    data = bytearray(Path(batch.path).read_bytes())
    change(data, batch)
    Path(batch.path).write_bytes(bytes(data))


def flip(at: int, bit: int = 1) -> Callable[[bytearray, Batch], None]:
    def flip(data: bytearray, batch: Batch) -> None:
        data[batch.position + at] ^= bit

    return flip


def zero(start: int, stop: int) -> Callable[[bytearray, Batch], None]:
    def zero(data: bytearray, batch: Batch) -> None:
        data[batch.position + start : batch.position + stop] = bytes(stop - start)

    return zero


def longer(data: bytearray, batch: Batch) -> None:
    """Let the batch swallow the next one, to its last byte."""
    at = batch.position
    size = int.from_bytes(data[at + 8 : at + 12], "big")
    following = int.from_bytes(data[at + 12 + size + 8 : at + 12 + size + 12], "big") + 12
    data[at + 8 : at + 12] = (size + following).to_bytes(4, "big")


KINDS: dict[str, Callable[[bytearray, Batch], None]] = {
    "base offset up": flip(7, 0x40),
    "base offset far up": flip(1),
    "base offset down": flip(7, 0x01),
    "length huge": flip(8, 0x40),
    "length negative": flip(8, 0x80),
    "length short": flip(11, 0x08),
    "length over the next batch": longer,
    "magic": flip(16),
    "crc": flip(17),
    "attributes": flip(22, 0x04),
    "last offset delta": flip(23, 0x01),
    "count": flip(60, 0x01),
    "records": flip(64),
    "header zeroed": zero(0, 61),
    "zeroed": zero(0, 70),
}


def offsets_of(left_out: Any) -> list[int]:
    return [n for each in left_out for n in range(each.first_offset, each.next_offset)]


def check_salvaged(log: Any, batches: list[Batch], damaged: set[int]) -> list[LeftOut]:
    """All that is readable is handed out at its offset, the rest is reported, and each damaged batch is in it."""
    end = batches[-1].next
    scan = log.scan(on_damage="skip")
    records = list(scan)
    gone = offsets_of(scan.left_out)
    assert [record.value for record in records] == [value_of(record.offset) for record in records]
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert sorted(offsets + gone) == list(range(end))
    assert gone == sorted(gone)
    assert damaged <= set(gone)
    assert scan.count() == len(records)
    assert list(itertools.chain.from_iterable(scan.values())) == [record.value for record in records]
    table = pyarrow.RecordBatchReader.from_stream(
        log.scan(on_damage="skip", columns=["offset", "value"])
    ).read_all()
    assert table["offset"].to_pylist() == offsets
    return list(scan.left_out)


def rows_of(scan: Any) -> Iterator[int]:
    """The offsets that an Arrow library gets, until it raises."""
    for rows in pyarrow.RecordBatchReader.from_stream(scan):
        yield from rows["offset"].to_pylist()


def check_told(log: Any, batches: list[Batch]) -> None:
    """Read from place to place by what the errors say, in every shape: all before the damage, then its offsets."""
    at, end, seen, gone = 0, batches[-1].next, [], []
    while at < end:
        try:
            for record in log.scan(at):
                seen.append(record.offset)
        except DAMAGE as error:
            first = seen[-1] + 1 if seen and seen[-1] >= at else at
            assert error.offset == first
            assert error.next_offset is not None
            assert error.next_offset > first
            assert f"offset {error.next_offset}" in str(error)
            with pytest.raises(DAMAGE) as caught:
                log.read(error.offset)
            assert (caught.value.offset, caught.value.next_offset) == (first, error.next_offset)
            with pytest.raises(DAMAGE):
                log.record_at(first)
            values: list[bytes | None] = []
            with pytest.raises(DAMAGE):
                values.extend(itertools.chain.from_iterable(log.scan(at).values()))
            assert values == [value_of(n) for n in seen if n >= at]
            rows: list[int] = []
            with pytest.raises((pyarrow.ArrowInvalid, OSError)):
                rows.extend(rows_of(log.scan(at, columns=["offset"])))
            assert rows == [n for n in seen if n >= at]
            gone += range(first, error.next_offset)
            at = error.next_offset
        else:
            break
    assert sorted(seen + gone) == list(range(end))
    for number in seen[:: max(len(seen) // 20, 1)]:
        found = log.record_at(number)
        assert found is not None
        assert found.value == value_of(number)


@pytest.mark.row("S8")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "no index"])
def test_of_one_damaged_batch_the_records_of_that_batch_are_left_out(
    tmp_path: Path, kind: str, indexed: bool
) -> None:
    batches = written(tmp_path / "flights-0")
    paths = list(dict.fromkeys(batch.path for batch in batches))
    inside = [batch for batch in batches if batch.path == paths[1]]
    # In the midst of a segment, its first batch and its last.
    for victim in (inside[len(inside) // 2], inside[0], inside[-1]):
        if kind == "length over the next batch" and victim is inside[-1]:
            continue
        whole = Path(victim.path).read_bytes()
        changed(victim, KINDS[kind])
        if not indexed:
            for suffix in (".index", ".timeindex"):
                Path(victim.path).with_suffix(suffix).unlink(missing_ok=True)
        for read_only in (True, False):
            with Log.open(tmp_path / "flights-0", read_only=read_only, **SETTINGS) as log:
                left_out = check_salvaged(log, batches, set(range(victim.first, victim.next)))
                assert offsets_of(left_out) == list(range(victim.first, victim.next)), (kind, victim, left_out)
                assert {(each.partition, each.path) for each in left_out} == {(NAME, victim.path)}
                assert left_out[0].position == victim.position
                check_told(log, batches)
        Path(victim.path).write_bytes(whole)


@pytest.mark.row("S8")
def test_whatever_is_damaged_what_is_handed_out_and_what_is_left_out_are_all(tmp_path: Path) -> None:
    batches = written(tmp_path / "flights-0")
    rng = seeded("damage")
    images = {batch.path: Path(batch.path).read_bytes() for batch in batches}
    last = batches[-1].path
    for _ in range(int(os.environ.get("LOGSTORE_FLIPS", "2400")) // 200):
        victims = rng.sample([batch for batch in batches if batch.path != last], rng.randrange(1, 5))
        outside, shifted = set(), []
        for victim in victims:
            kind = rng.choice(sorted(KINDS))
            if kind == "length over the next batch" and victim.position + victim.size == len(images[victim.path]):
                kind = "magic"
            if kind == "last offset delta":
                kind = "crc"
            if kind.startswith("base offset") and len(shifted) == 2:
                kind = "crc"  # three in no checksum may confirm each other
            changed(victim, KINDS[kind])
            outside |= set(range(victim.first, victim.next))
            shifted += [victim] if kind.startswith("base offset") else []
        if rng.random() < 0.3:
            path = rng.choice(sorted(set(images) - {last}))
            data = bytearray(Path(path).read_bytes())
            start = rng.randrange(len(data))
            data[start : start + 4096] = bytes(len(data[start : start + 4096]))
            Path(path).write_bytes(bytes(data))
        for victim in shifted:
            # A base offset is in no checksum. Only the one behind it shows that it is wrong, if it is there.
            data = Path(victim.path).read_bytes()
            behind = victim.position + victim.size
            if data[behind : behind + 8] == bytes(8):
                good = images[victim.path][victim.position : victim.position + 8]
                Path(victim.path).write_bytes(data[: victim.position] + good + data[victim.position + 8 :])
                outside -= set(range(victim.first, victim.next))
        for suffix in (".index", ".timeindex"):
            if rng.random() < 0.3:
                Path(victims[0].path).with_suffix(suffix).unlink(missing_ok=True)
        with Log.open(tmp_path / "flights-0", read_only=rng.random() < 0.7, **SETTINGS) as log:
            check_salvaged(log, batches, outside)
            check_told(log, batches)
        for path, data in images.items():
            Path(path).write_bytes(data)


@pytest.mark.parametrize(
    "kind",
    [
        "length negative",
        "length huge",
        "magic",
        "records",
        "last offset delta",
        "base offset up",
        "base offset far up",
        "base offset down",
    ],
)
def test_records_are_at_no_other_offset_though_the_batch_behind_them_is_damaged_too(
    tmp_path: Path, kind: str
) -> None:
    """A base offset is in no checksum: one too high shows by the next batch, whatever else of that is wrong."""
    batches = written(tmp_path / "flights-0")
    pairs = list(itertools.pairwise(batches))
    shifted, behind = next((a, b) for a, b in pairs if a.path == b.path and a.first % 2 == 0 and a.position)
    changed(shifted, KINDS["base offset down"])  # of an even one, up
    changed(behind, KINDS[kind])
    with Log.open(tmp_path / "flights-0", read_only=True, **SETTINGS) as log:
        check_salvaged(log, batches, set(range(shifted.first, behind.next)))
        check_told(log, batches)


def test_a_base_offset_that_is_too_high_by_the_records_of_the_last_batch_is_not_confirmed_by_the_end(
    tmp_path: Path,
) -> None:
    """Behind other damage, without an index, a batch is trusted if what follows confirms its offsets."""
    batches = written(tmp_path / "flights-0")
    ends = [(a, b) for a, b in itertools.pairwise(batches) if a.path == b.path and b.next - b.first == 1]
    newer = {batch.path: batch for batch in batches}
    shifted, _ = next((a, b) for a, b in ends if newer[b.path] is b and a.first % 2 == 0)
    victim = batches[batches.index(shifted) - 2]
    changed(victim, KINDS["length negative"])
    changed(shifted, KINDS["base offset down"])  # of an even one, up
    Path(victim.path).with_suffix(".index").unlink()
    with Log.open(tmp_path / "flights-0", read_only=True, **SETTINGS) as log:
        check_salvaged(log, batches, {*range(victim.first, victim.next), *range(shifted.first, shifted.next)})
        check_told(log, batches)


def test_an_index_that_is_built_over_a_wrong_length_confirms_nothing_behind_it(tmp_path: Path) -> None:
    """A batch has swallowed the next one, which is whole, and the base offset of the one behind is too low."""
    batches = written(tmp_path / "flights-0")
    for path in Path(batches[0].path).parent.glob("*.index"):
        path.unlink()
    for grown, swallowed, shifted in zip(batches, batches[1:], batches[2:], strict=False):
        if grown.path != shifted.path or shifted.first % 2 == 0 or shifted.path == batches[-1].path:
            continue
        whole = Path(grown.path).read_bytes()
        changed(grown, KINDS["length over the next batch"])
        changed(shifted, KINDS["base offset down"])
        damaged = {*range(grown.first, grown.next), *range(shifted.first, shifted.next)}
        with Log.open(tmp_path / "flights-0", read_only=True, **SETTINGS) as log:
            gone = set(offsets_of(check_salvaged(log, batches, damaged)))
            assert gone <= damaged | {*range(swallowed.first, swallowed.next)}
        Path(grown.path).write_bytes(whole)


def test_a_segment_that_is_cut_in_a_batch_is_left_out_up_to_the_next(tmp_path: Path) -> None:
    batches = written(tmp_path / "flights-0")
    paths = list(dict.fromkeys(batch.path for batch in batches))
    inside = [batch for batch in batches if batch.path == paths[1]]
    victim = inside[3]
    os.truncate(victim.path, victim.position + 30)
    with Log.open(tmp_path / "flights-0", read_only=True, **SETTINGS) as log:
        left_out = check_salvaged(log, batches, {victim.first})
        assert [(each.first_offset, each.next_offset) for each in left_out] == [(victim.first, inside[-1].next)]
        check_told(log, batches)


def test_damage_in_the_newest_segment_does_not_hide_what_is_behind_it_from_a_reader(tmp_path: Path) -> None:
    """The reader opens a log of another process, whose newest segment it measures itself."""
    batches = written(tmp_path / "flights-0", 110)
    inside = [batch for batch in batches if batch.path == batches[-1].path]
    assert len(inside) > 6
    victim = inside[len(inside) // 2]
    for kind in ("magic", "records", "length huge", "header zeroed", "base offset down"):
        whole = Path(victim.path).read_bytes()
        changed(victim, KINDS[kind])
        with Log.open(tmp_path / "flights-0", read_only=True, **SETTINGS) as log:
            left_out = check_salvaged(log, batches, {victim.first})
            assert offsets_of(left_out) == list(range(victim.first, victim.next)), kind
            check_told(log, batches)
        Path(victim.path).write_bytes(whole)


def test_damage_under_a_running_log_is_told_and_gone_when_the_bytes_come_back(tmp_path: Path) -> None:
    with Log.open(tmp_path / "flights-0", index_interval_bytes=512) as log:
        for n in range(50):
            log.append([(b"key", value_of(n))])
        (segment,) = log.maintenance.segments
        places = [position for _, _, position, _, _, _ in segment.index.headers(0)]
        path = Path(segment.path)
        whole = path.read_bytes()
        for number in (20, 49):
            data = bytearray(whole)
            data[places[number] + 16] = 0
            path.write_bytes(bytes(data))
            batches = [Batch(str(path), places[n], 0, n, n + 1) for n in range(50)]
            left_out = check_salvaged(log, batches, {number})
            assert offsets_of(left_out) == [number]
            check_told(log, batches)
            path.write_bytes(whole)
            assert [record.offset for record in log.scan()] == list(range(50))


def test_a_batch_inside_of_a_value_is_not_believed(tmp_path: Path) -> None:
    """A mirror stores batches as values: their offsets may fit, and their checksums do."""
    with Log.open(tmp_path / "flights-0", index_interval_bytes=1 << 20) as log:
        for n in range(30):
            inner = bytearray(encode([b"inner"], timestamp_ms=1))
            inner[0:8] = (n + 1).to_bytes(8, "big")
            log.append([(b"key", bytes(inner) * 2)])
        (segment,) = log.maintenance.segments
        places = [position for _, _, position, _, _, _ in segment.index.headers(0)]
        data = bytearray(Path(segment.path).read_bytes())
        data[places[10] + 16] = 0
        Path(segment.path).write_bytes(bytes(data))
        scan = log.scan(on_damage="skip")
        assert [record.offset for record in scan] == [n for n in range(30) if n != 10]
        assert all(record.value != b"inner" for record in scan)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD], ids=lambda codec: codec.name)
def test_a_batch_that_cannot_be_decoded_though_its_checksum_holds_is_damage_too(
    tmp_path: Path, codec: Codec
) -> None:
    def append(log: Any, value: bytes) -> None:
        log.append([(b"key", value), (b"key", value)])

    with Log.open(tmp_path / "flights-0") as log:
        for _ in range(6):
            append(log, b"whole")
        batch = log.read(6, max_bytes=1).batches()[0]
        bad = with_codec(batch, codec, b"\x7f" * (batch.size - 61))
        data = Path(log.maintenance.segments[0].path).read_bytes()
        Path(log.maintenance.segments[0].path).write_bytes(data.replace(bytes(batch), bytes(bad)))
        assert log.log_end_offset == 12
        seen: list[int] = []
        with pytest.raises(CorruptRecordError) as caught:
            seen.extend(record.offset for record in log)
        assert seen == list(range(6))
        assert (caught.value.offset, caught.value.next_offset) == (6, 8)
        assert caught.value.path == log.maintenance.segments[0].path
        values: list[bytes | None] = []
        with pytest.raises(CorruptRecordError):
            values.extend(itertools.chain.from_iterable(log.scan().values()))
        assert values == [b"whole"] * 6
        rows: list[int] = []
        with pytest.raises(pyarrow.ArrowInvalid, match="read on from offset 8"):
            rows.extend(rows_of(log.scan(columns=["offset"])))
        assert rows == list(range(6))
        scan = log.scan(on_damage="skip")
        assert [record.offset for record in scan] == [*range(6), *range(8, 12)]
        assert [each[:3] for each in scan.left_out] == [(NAME, 6, 8)]
        assert scan.count() == 10
        assert [record.offset for record in log.scan(7, on_damage="skip")] == [8, 9, 10, 11]


def test_an_error_of_damage_survives_pickling_and_copying() -> None:
    for cls in (CorruptRecordError, DamagedLogError, UnsupportedFormatError):
        error = cls("a batch is wrong", path="/data/flights-0/0.log", position=7)
        error.bound(20, 30)
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(twin) is cls
            assert (twin.offset, twin.next_offset, twin.path, twin.position) == (20, 30, error.path, 7)
            assert str(twin) == str(error)
        assert "offsets 20 to 29 cannot be read; read on from offset 30" in str(error)
        assert 'on_damage="skip"' in str(error)


def test_an_unknown_word_for_what_damage_does_is_refused(tmp_path: Path) -> None:
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights")
        with pytest.raises(ValueError, match="on_damage= is 'raise' or 'skip'"):
            topic.scan(on_damage="ignore")
        with pytest.raises(ValueError, match="on_damage"):
            topic[0].scan(on_damage="")


def test_an_error_that_is_no_damage_is_not_passed_over(tmp_path: Path) -> None:
    with Log.open(tmp_path / "flights-0") as log:
        log.append([b"x" * 100_000], codec=Codec.GZIP)
    with Log.open(tmp_path / "flights-0", decompressed_max_bytes=1_000) as log:
        with pytest.raises(RecordError, match="at most 1000 bytes"):
            list(log.scan(on_damage="skip"))
    assert issubclass(RecordError, LogstoreError)


def test_a_segment_that_is_gone_is_left_out_and_named(tmp_path: Path) -> None:
    batches = written(tmp_path / "flights-0")
    paths = list(dict.fromkeys(batch.path for batch in batches))
    lost = [batch for batch in batches if batch.path == paths[1]]
    for suffix in (".log", ".index", ".timeindex"):
        Path(paths[1]).with_suffix(suffix).unlink(missing_ok=True)
    inside = [batch for batch in batches if batch.path == paths[0]]
    changed(inside[3], KINDS["magic"])
    with Log.open(tmp_path / "flights-0", read_only=True, **SETTINGS) as log:
        left_out = check_salvaged(log, batches, {lost[0].first, inside[3].first})
        assert [each[1:3] for each in left_out] == [
            (inside[3].first, inside[3].next),
            (lost[0].first, lost[-1].next),
        ]


@pytest.mark.parametrize("kind", ["magic", "records", "length huge"])
def test_a_consumer_hands_out_what_stands_before_damage_and_goes_on_where_it_is_told(
    tmp_path: Path, kind: str
) -> None:
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights", partitions=2)
        for n in range(30):
            topic.append(value_of(n), partition=0)
        topic.append_many([b"other"] * 3, partition=1)
        (segment,) = topic[0].maintenance.segments
        at = [position for _, _, position, _, _, _ in segment.index.headers(0)]
        changed(Batch(segment.path, at[10], 0, 10, 11), KINDS[kind])
        consumer = store.consumer(auto_offset_reset="earliest")
        consumer.assign([NAME])
        assert [record.offset for record in consumer.poll()] == list(range(10))
        for _ in range(2):
            with pytest.raises(DAMAGE) as caught:
                consumer.poll()
            assert (caught.value.offset, caught.value.next_offset) == (10, 11)
            assert consumer.position(NAME) == 10
        assert caught.value.next_offset is not None
        consumer.seek(NAME, caught.value.next_offset)
        assert [record.offset for record in consumer.records(timeout_s=0)] == list(range(11, 30))
        scan = topic.scan(on_damage="skip")
        assert scan.count() == 32
        assert [each[:3] for each in scan.left_out] == [(NAME, 10, 11)]
        assert len(scan.to_numpy()["value"]) == 32
    assert asyncio.run(polled(tmp_path / "data")) == [*range(10), *range(3), "damage", "damage", *range(11, 30)]


async def polled(directory: Path) -> list[Any]:
    """What an asynchronous consumer is given of two partitions, of which the first is damaged."""
    seen: list[Any] = []
    async with (
        aio.open(directory, read_only=True) as store,
        store.consumer(auto_offset_reset="earliest") as consumer,
    ):
        await consumer.assign([NAME])
        seen += [record.offset for record in await consumer.poll()]
        await consumer.assign_topics(["flights"])
        for _ in range(3):
            try:
                seen += [record.offset for record in await consumer.poll()]
            except DAMAGE as error:
                seen.append("damage")
                at = error.next_offset
        assert at is not None
        await consumer.seek(NAME, at)
        seen += [record.offset for record in await consumer.poll()]
    return seen
