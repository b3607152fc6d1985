"""Files cut at every byte, after a stop that was not clean.

The image is a log killed with segments that were synced and segments that were not. Above the
recovery point a cut costs exactly the batches that it tears; below it the log is refused and not
touched. Every other file is a hint: whatever is left of it, the records are the same.
"""

from __future__ import annotations

import random

import pytest

from logstore import Log
from logstore.errors import CorruptRecordError, DamagedLogError
from logstore.log.formats.checkpoints import RECOVERY
from tests.crash.histories import (
    PARTITION,
    SETTINGS,
    History,
    committed,
    expect,
    fields,
    image_of,
    partition_of,
    places,
    quick_files,
    restore,
    until,
    visible,
)

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="recovery, step by step")]


class Killed:
    """A killed log: its files, what was sent to it and up to where it was synced."""

    def __init__(self, root, synced_rounds: int, rounds: int) -> None:
        log = Log.open(root / PARTITION, files=quick_files(), **SETTINGS)
        history = History(log, random.Random(20))
        history.mixed(synced_rounds)
        log.flush()
        self.synced = log.log_end_offset
        recovery = {f"{PARTITION}/{RECOVERY}": (root / PARTITION / RECOVERY).read_bytes()}
        history.mixed(rounds)
        # Later recovery points are not synced, so a crash may well bring this one back.
        self.image = image_of(root) | recovery
        self.sent = list(history.sent)
        log.close()
        self.clean_image = image_of(root)
        self.places = places(self.image)
        self.logs = sorted({place.name for place in self.places})


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return Killed(tmp_path_factory.mktemp("killed"), 2, 2)


@pytest.fixture(scope="module")
def files():
    return quick_files()


def cut(image, name, size):
    return {**image, name: image[name][:size]}


def reopened(path, files):
    return Log.open(path, files=files, **SETTINGS)


def kept_after_cut(killed, name, size):
    """The batches before the first one that the cut touches, in the order of the log."""
    for place in killed.places:
        if place.name > name or (place.name == name and place.position + place.size > size):
            return place.base_offset
    return killed.places[-1].next_offset


def test_the_image_has_segments_on_both_sides_of_the_recovery_point(killed):
    bases = [place.base_offset for place in killed.places if place.position == 0]
    assert sum(base > killed.synced for base in bases) >= 2
    assert sum(base <= killed.synced for base in bases) >= 3
    assert {batch.producer is None for batch in killed.sent} == {True, False}
    assert sum(name.endswith(".txnindex") for name in killed.image) >= 2


def test_a_log_that_was_only_killed_loses_nothing(killed, files, ram_path):
    with reopened(restore(killed.image, ram_path / "r"), files) as log:
        expect(log, killed.sent)
        assert not log.maintenance.was_clean
    with reopened(ram_path / "r" / PARTITION, files) as log:
        expect(log, killed.sent)
        assert log.maintenance.was_clean


def test_recovery_keeps_exactly_the_whole_batches_before_the_cut(killed, files, ram_path):
    """Every byte of the unsynced segments, the one with the recovery point among them."""
    cases = 0
    for name in killed.logs:
        tail = [place for place in killed.places if place.name == name and place.next_offset > killed.synced]
        if not tail:
            continue
        for size in range(tail[0].position, len(killed.image[name])):
            image = cut(killed.image, name, size)
            end = kept_after_cut(killed, name, size)
            path = restore(image, ram_path / "r")
            with reopened(path, files) as log:
                edge = size in (place.position for place in tail)
                expect(log, until(killed.sent, end), thorough=edge)
                if edge:
                    History(log, random.Random(size), kept := until(killed.sent, end)).append(2)
                    expect(log, kept, thorough=False)
            cases += 1
    assert cases > 2_000


def test_a_cut_below_the_recovery_point_is_refused_and_nothing_changes(killed, files, ram_path):
    """Every byte of the segment that holds the recovery point."""
    below = [place for place in killed.places if place.next_offset <= killed.synced]
    name = below[-1].name
    below = [place for place in below if place.name == name]
    assert len(below) >= 3
    for size in range(below[-1].position + below[-1].size):
        image = cut(killed.image, name, size)
        path = restore(image, ram_path / "r")
        with pytest.raises(DamagedLogError) as caught:
            reopened(path, files)
        assert caught.value.path.endswith(name)
        assert partition_of(image_of(ram_path / "r")) == partition_of(image)


def test_a_cut_in_an_older_segment_is_found_when_it_is_read(killed, files, ram_path):
    """An open does not scan what was synced, which would cost a read of the whole log; it sees an emptied file."""
    older = [
        name for name in killed.logs if name < [p for p in killed.places if p.next_offset <= killed.synced][-1].name
    ]
    assert len(older) >= 2
    for name in older:
        edges = {place.position for place in killed.places if place.name == name}
        for size in sorted({*range(0, len(killed.image[name]), 3), *edges}):
            path = restore(cut(killed.image, name, size), ram_path / "r")
            if size == 0:
                with pytest.raises(DamagedLogError, match="are missing"):
                    reopened(path, files)
                continue
            with reopened(path, files) as log:
                assert log.log_end_offset == killed.sent[-1].last + 1
                served = []
                with pytest.raises(CorruptRecordError) as raised:  # noqa: PT012  what came before it counts
                    for record in log.scan(max_bytes=1):
                        served.append(fields(record))
                assert raised.value.path.endswith(name)
                assert raised.value.position <= size
                assert isinstance(raised.value, DamagedLogError) == (size in edges)
                whole = [r for r in visible(killed.sent) if r[0] < kept_after_cut(killed, name, size)]
                assert served[: len(whole)] == whole
                assert set(served) <= set(visible(killed.sent))


def test_a_synced_segment_that_is_gone_is_damage(killed, files, ram_path):
    synced = [p for p in killed.places if p.next_offset <= killed.synced][-1].name
    for name in (killed.logs[0], synced):
        image = {key: data for key, data in killed.image.items() if key != name}
        path = restore(image, ram_path / "r")
        with pytest.raises(DamagedLogError, match="restore"):
            reopened(path, files)
        assert partition_of(image_of(ram_path / "r")) == partition_of(image)


def test_no_segment_at_all_is_damage(killed, files, ram_path):
    image = {key: data for key, data in killed.image.items() if not key.endswith(".log")}
    path = restore(image, ram_path / "r")
    with pytest.raises(DamagedLogError, match="no segment"):
        reopened(path, files)
    assert partition_of(image_of(ram_path / "r")) == partition_of(image)


def hints(image):
    return sorted(name for name in image if not name.endswith(".log") and not name.endswith(".lock"))


def undetectable(name, size):
    """A .txnindex has no checksum and no count: cut between two entries of 34 bytes it looks whole."""
    return name.endswith(".txnindex") and size % 34 == 0


def expect_committed_holds(log, sent):
    """Whatever became of a .txnindex, a committed reader misses nothing that was committed."""
    found = {fields(record) for record in log.scan(isolation="read_committed")}
    assert set(committed(sent)) <= found <= set(visible(sent))


@pytest.mark.parametrize("state", ["killed", "closed"])
def test_any_other_file_may_be_cut_anywhere_and_no_record_is_lost(killed, files, ram_path, state):
    """Index, time index, snapshots, txnindex, epochs, our own files, Kafka's checkpoints in the root."""
    image = killed.image if state == "killed" else killed.clean_image
    kinds = {name.rsplit("/")[-1].split(".", 1)[-1] for name in hints(image)}
    assert {"index", "timeindex", "snapshot", "txnindex", "recovery", "published"} <= kinds
    cases = 0
    for name in hints(image):
        size = len(image[name])
        # logstore.recovery is two slots with 4 KiB of nothing between them.
        points = range(size) if size <= 300 else [*range(70), *range(70, size - 70, 97), *range(size - 70, size)]
        for number, at in enumerate(points):
            path = restore(cut(image, name, at), ram_path / "r")
            try:
                with reopened(path, files) as log:
                    expect(log, killed.sent, thorough=number % 20 == 0, isolation=not undetectable(name, at))
                    expect_committed_holds(log, killed.sent)
            except CorruptRecordError as error:
                # A cut text checkpoint in the root cannot be told from a lower promise: it is refused.
                assert error.path.endswith(name), name
                assert "checkpoint" in name
                assert not name.startswith(PARTITION)
                assert partition_of(image_of(ram_path / "r")) == partition_of(image)
            cases += 1
    assert cases > 800


@pytest.mark.parametrize("state", ["killed", "closed"])
def test_any_other_file_may_be_missing_and_no_record_is_lost(killed, files, ram_path, state):
    image = killed.image if state == "killed" else killed.clean_image
    for name in hints(image):
        path = restore({key: data for key, data in image.items() if key != name}, ram_path / "r")
        with reopened(path, files) as log:
            expect(log, killed.sent, isolation=not undetectable(name, 0))
            expect_committed_holds(log, killed.sent)
    only_logs = {name: data for name, data in image.items() if name.endswith((".log", "logstore.recovery"))}
    path = restore(only_logs, ram_path / "r")
    with reopened(path, files) as log:
        expect(log, killed.sent, isolation=False)
        expect_committed_holds(log, killed.sent)


def test_without_a_recovery_point_only_the_last_segment_may_be_torn(killed, files, ram_path):
    image = {name: data for name, data in killed.image.items() if not name.endswith("logstore.recovery")}
    for name in killed.logs:
        for size in range(len(image[name]) - 40, len(image[name]), 7):
            path = restore(cut(image, name, size), ram_path / "r")
            if name == killed.logs[-1]:
                with reopened(path, files) as log:
                    expect(log, until(killed.sent, kept_after_cut(killed, name, size)), thorough=False)
            else:
                with pytest.raises(DamagedLogError):
                    reopened(path, files)
                assert partition_of(image_of(ram_path / "r")) == partition_of(cut(image, name, size))


def test_a_read_only_log_serves_the_whole_batches_before_a_cut(killed, ram_path):
    """Nothing is recovered by a reader: it serves what is whole, then says that a file is too short."""
    name = killed.logs[-1]
    last = [place for place in killed.places if place.name == name]
    for size in range(last[0].position, len(killed.image[name]), 3):
        path = restore(cut(killed.image, name, size), ram_path / "r")
        end = kept_after_cut(killed, name, size)
        served = []
        with Log.open(path, read_only=True) as log:
            try:
                for record in log.scan(max_bytes=1):
                    served.append(record.offset)
            except CorruptRecordError as error:
                assert error.path.endswith(name)
                assert error.position <= size
            else:
                pytest.fail(f"cut at {size}: what was published is not there, and no error was raised")
        assert served == [r[0] for batch in until(killed.sent, end) for r in batch.records]
        assert image_of(ram_path / "r") == cut(killed.image, name, size)
