"""A damaged log, opened read-only: what is whole can be read, the rest is an error with its place."""

from __future__ import annotations

import struct

import pytest

from logstore import Log
from logstore.errors import CorruptRecordError, DamagedLogError, LogstoreError, RecordError
from tests.crash.histories import PARTITION, image_of, places, quick_files, restore
from tests.kit.logs import tree

pytestmark = [pytest.mark.crash, pytest.mark.row("S8"), pytest.mark.row("S20", part="what is missing is told")]

SETTINGS = {"segment_bytes": 1_500, "index_interval_bytes": 250}
PUBLISHED, RECOVERY = f"{PARTITION}/logstore.published", f"{PARTITION}/logstore.recovery"
COUNT = 40


def values(n: int) -> bytes:
    return b"%02d" % n * 30


@pytest.fixture
def image(ram_path):
    """A closed log of forty batches in four segments."""
    with Log.open(ram_path / "w" / PARTITION, **SETTINGS) as log:
        for n in range(COUNT):
            log.append([values(n)], timestamp=1_000 + n)
    return image_of(ram_path / "w")


def changed(image, place, at: int, new: bytes):
    data = bytearray(image[place.name])
    data[place.position + at : place.position + at + len(new)] = new
    return {**image, place.name: bytes(data)}


DAMAGE = {
    "a value": lambda image, place: changed(image, place, 80, b"?"),
    "the CRC": lambda image, place: changed(image, place, 17, b"??"),
    "the magic byte": lambda image, place: changed(image, place, 16, b"\x01"),
    "a length that is too long": lambda image, place: changed(image, place, 8, struct.pack(">i", 1 << 20)),
    "a length that is too short": lambda image, place: changed(image, place, 8, struct.pack(">i", 20)),
    "the base offset": lambda image, place: changed(image, place, 0, struct.pack(">q", 1 << 40)),
    "zeros": lambda image, place: changed(image, place, 0, bytes(place.size)),
    "the rest is gone": lambda image, place: {**image, place.name: image[place.name][: place.position + 30]},
}


def read_each(log) -> tuple[set[int], dict[int, LogstoreError]]:
    """Every offset by itself: those that were read, and the error of the others."""
    found, errors = set(), {}
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            records = list(log.read(offset, max_bytes=1))
        except RecordError as error:
            errors[offset] = error
        else:
            assert [(record.offset, record.value) for record in records] == [(offset, values(offset))]
            found.add(offset)
    return found, errors


@pytest.mark.parametrize("kept", ["all", "no published end", "no promises"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_log_opens_read_only_and_gives_what_is_whole(ram_path, image, damage, kept):
    gone = {"all": (), "no published end": (PUBLISHED,), "no promises": (PUBLISHED, RECOVERY)}[kept]
    everything = places(image)
    assert len(everything) == COUNT
    for place in everything:
        damaged = DAMAGE[damage](image, place)
        path = restore({name: data for name, data in damaged.items() if name not in gone}, ram_path / "r")
        before = tree(path)
        with Log.open(path, read_only=True) as log:
            found, errors = read_each(log)
            # Without any promise the log of a process that was killed may end at a torn tail.
            is_tail = kept == "no promises" and place.name == everything[-1].name
            assert log.log_end_offset == COUNT or (is_tail and log.log_end_offset == place.base_offset)
        assert found >= {p.base_offset for p in everything if p.name != place.name}
        assert found >= {p.base_offset for p in everything if p.name == place.name and p.position < place.position}
        assert place.base_offset not in found
        for error in errors.values():
            assert error.path == str(ram_path / "r" / place.name), error
            assert error.position is not None
        assert tree(path) == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_for_writing_damage_in_the_last_segment_is_refused_with_the_way_to_look_at_it(ram_path, image, damage):
    """Where the open meets it: at the end of what was promised. Elsewhere it is met by who reads there."""
    refused = 0
    for place in places(image):
        path = restore(DAMAGE[damage](image, place), ram_path / "r")
        try:
            log = Log.open(path, files=quick_files(), **SETTINGS)
        except LogstoreError as error:
            assert type(error) is DamagedLogError
            assert "read_only=True" in str(error) or "restore" in str(error)
            assert error.path is not None
            assert image_of(ram_path / "r")[place.name] == DAMAGE[damage](image, place)[place.name]
            refused += 1
        else:
            with log:
                found, errors = read_each(log)
            assert place.base_offset not in found
            assert place.base_offset in errors
    assert refused or damage in ("a value", "the CRC")


def test_a_first_segment_that_is_gone_is_an_error_at_its_offsets_and_not_a_gap(ram_path, image):
    """A reader was given the records of the next segment instead, without a word."""
    first = min(name for name in image if name.endswith(".log"))
    begin = sorted(place.base_offset for place in places(image) if place.name != first)[0]
    path = restore({name: data for name, data in image.items() if name != first}, ram_path / "r")
    with Log.open(path, read_only=True) as log:
        found, errors = read_each(log)
        assert found == set(range(begin, COUNT))
        assert set(errors) == set(range(begin))
        with pytest.raises(CorruptRecordError, match=rf"offsets 0 to {begin - 1} are missing"):
            log.replica.locate(0)


def test_deleted_records_stay_deleted_for_a_reader_without_the_published_end(ram_path):
    """That file is never synced, so a power cut may take it; the recovery file knows the log start, too."""
    log = Log.open(ram_path / "w" / PARTITION, files=quick_files())
    log.append([b"a", b"b", b"c"])
    log.delete_before(2)
    image = image_of(ram_path / "w")
    log.close()
    del image[PUBLISHED]
    with Log.open(restore(image, ram_path / "r"), read_only=True) as log:
        assert log.log_start_offset == 2
        assert [record.value for record in log] == [b"c"]


@pytest.mark.parametrize("which", [0, -1])
def test_a_search_by_time_names_a_first_or_last_segment_that_is_gone(tmp_path, which):
    """It answered with the first record of what was left, or with none."""
    with Log.open(tmp_path / "t-0", segment_bytes=200) as log:
        for n in range(6):
            log.append([b"v" * 60], timestamp=1_000 + n)
    sorted((tmp_path / "t-0").glob("*.log"))[which].unlink()
    with Log.open(tmp_path / "t-0", read_only=True) as log:
        with pytest.raises(CorruptRecordError, match=r"are missing|no whole batch is found"):
            log.offset_for_time(1_000 if which == 0 else 1_005)
        if which:
            assert log.offset_for_time(1_000).offset == 0
