"""A change of a log's files that is stopped half way is waited for: no look at one half of it tells of damage.

Each test stops the thread that exchanges or cuts segments between two of its steps, and resumes it when a
reader waits. Without that wait the readers here see files of the old form beside those of the new one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from logstore import Log
from logstore.errors import CheckpointCopyError, OffsetOutOfRangeError
from logstore.io._files import Files
from logstore.log.compaction import segment_swap
from logstore.log.directory.files import LOG, Directory
from logstore.log.directory.segments import Segments
from logstore.log.read import reader
from logstore.log.read.live_reader import LogReader
from logstore.log.tools import verify
from logstore.testing import FaultyFiles, ManualClock
from tests.log.keyed import SETTINGS, Keyed, kept
from tests.log.logs import open_log

WATCHDOG_S = 60
#: So few that a segment's file is opened again, by its path, nearly each time it is read.
FEW = 2


class Stop:
    """A place in another thread where it stops until it may go on. Only the first thread to come there stops."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def here(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(WATCHDOG_S)


@pytest.fixture
def stop(monkeypatch) -> Iterator[Stop]:
    """A stop whose thread goes on as soon as a reader waits for it."""
    made = Stop()
    beside, within = LogReader._wait_for_writer, getattr(Log, "_wait_for_rest", None)

    def waits_beside(self, timeout_s):
        made.go_on.set()
        return beside(self, timeout_s)

    def waits_within(self):
        made.go_on.set()
        return within(self)

    monkeypatch.setattr(LogReader, "_wait_for_writer", waits_beside)
    monkeypatch.setattr(Log, "_wait_for_rest", waits_within, raising=False)
    yield made
    made.go_on.set()


@contextmanager
def running(act: Callable[[], object], *stops: Stop) -> Iterator[None]:
    """Run something in another thread, from when it has reached the first stop on; at the end it is through."""
    failed = []

    def guarded():
        try:
            act()
        except BaseException as error:  # noqa: BLE001  whatever it is, the test has to see it
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        assert stops[0].reached.wait(WATCHDOG_S)
        yield
    finally:
        for stop in stops:
            stop.go_on.set()
        thread.join(WATCHDOG_S)
    assert not thread.is_alive()
    assert not failed, failed


def written(root, *, descriptor_limit: int | None = None, **settings) -> Keyed:
    """A log of many sealed segments, in which nearly all records have been replaced."""
    clock = ManualClock()
    files = FaultyFiles(descriptor_limit=descriptor_limit)
    # No crash here: a test takes a few exchanges, and each of them a few syncs.
    files.fail("fdatasync", errno=0, times=-1)
    files.fail("fsync_dir", errno=0, times=-1)
    log = open_log(root, clock=clock, files=files, **{**SETTINGS, **settings})
    history = Keyed(log, clock, random.Random(3), keys=6)
    log.append([(b"of its own", b"never replaced", clock.now_ms())])
    for _ in range(60):
        history.append(3)
        clock.advance(1_000)
    log.maintenance.roll()
    assert log.maintenance.segment_count > 6
    return history


def stopped_at(monkeypatch, stop: Stop, step: str, *, after: bool, number: int = 2) -> None:
    """Have an exchange stop before or after one of its steps; the exchange of that number."""
    real, calls = getattr(segment_swap, step), []

    def stopping(*args):
        calls.append(args)
        if len(calls) == number and not after:
            stop.here()
        answer = real(*args)
        if len(calls) == number and after:
            stop.here()
        return answer

    monkeypatch.setattr(segment_swap, step, stopping)


def newest(records) -> dict:
    return {record.key: record for record in kept(records)}


@pytest.mark.row("R3")
@pytest.mark.parametrize("number", [1, 2])
def test_a_reader_with_few_descriptors_waits_while_the_old_files_are_away(tmp_path, monkeypatch, stop, number):
    """It knows of the exchange already, and has looked at the segments before that began."""
    log = written(tmp_path).log
    wanted = newest(log.scan())
    announced = Stop()
    stopped_at(monkeypatch, announced, "_name_swap", after=False, number=number)
    stopped_at(monkeypatch, stop, "_take_away", after=True, number=number)
    with (
        Log.open(log.path, read_only=True, files=Files(descriptor_limit=FEW)) as beside,
        running(log.maintenance.compact, announced, stop),
    ):
        assert newest(beside.scan()) == wanted
        announced.go_on.set()
        assert stop.reached.wait(WATCHDOG_S)
        assert newest(beside.scan()) == wanted
    log.close()


@pytest.mark.row("R3")
def test_a_reader_takes_no_segments_from_between_two_steps_of_a_swap(tmp_path, monkeypatch, stop):
    """Between its look for a swap and its look at the segments, the old files were deleted."""
    log = written(tmp_path).log
    wanted = newest(log.scan())
    announced = Stop()
    stopped_at(monkeypatch, announced, "_name_swap", after=False)
    stopped_at(monkeypatch, stop, "_take_away", after=True)
    real = Segments.open.__func__

    def slow_open(cls, *args, **options):
        announced.go_on.set()
        assert stop.reached.wait(WATCHDOG_S)
        return real(cls, *args, **options)

    with running(log.maintenance.compact, announced, stop):
        monkeypatch.setattr(Segments, "open", classmethod(slow_open))
        with Log.open(log.path, read_only=True) as beside:
            assert newest(beside.scan()) == wanted
            assert beside.record_at(log.log_end_offset - 1) == log.record_at(log.log_end_offset - 1)
    log.close()


@pytest.mark.row("R3")
def test_a_search_by_time_passes_over_no_segment_that_is_swapped_meanwhile(tmp_path, monkeypatch, stop):
    log = written(tmp_path).log
    announced = Stop()
    stopped_at(monkeypatch, announced, "_name_swap", after=False, number=1)
    stopped_at(monkeypatch, stop, "_take_away", after=True, number=1)
    real = Log._view
    with running(log.maintenance.compact, announced, stop):
        old = log._view()

        def slowly(self):
            """The view of before the exchange, until that is over."""
            announced.go_on.set()
            assert stop.reached.wait(WATCHDOG_S)
            return real(self) if stop.go_on.is_set() else old

        monkeypatch.setattr(Log, "_view", slowly)
        found = log.offset_for_time(0)
    assert found is not None
    assert found.offset == 0  # of a key that has no newer record
    log.close()


def cut_stopped_at_rename(monkeypatch, stop: Stop) -> None:
    """Have a truncation into a sealed segment stop when what is left of it has taken its place."""
    real = Directory.rename

    def rename(self, old, new):
        real(self, old, new)
        if new.endswith(LOG):
            stop.here()

    monkeypatch.setattr(Directory, "rename", rename)


def test_a_search_by_time_beside_a_truncation_takes_a_cut_segment_for_no_damage(tmp_path, monkeypatch, stop):
    log = written(tmp_path, descriptor_limit=FEW).log
    target = log.maintenance.segments[2]
    end = target.base_offset + 3
    assert end < target.next_offset
    cut_stopped_at_rename(monkeypatch, stop)
    with running(lambda: log.replica.truncate_to(end), stop):
        assert log.offset_for_time(2**62) is None
    assert log.log_end_offset == end
    log.close()


def test_a_copy_of_a_log_that_is_cut_meanwhile_is_asked_for_again(tmp_path):
    log = written(tmp_path / "log").log
    for _ in range(5):
        log.append([(b"k", b"v")])
    checkpoint = log.maintenance.checkpoint()
    log.replica.truncate_to(log.log_end_offset - 3)
    target = Directory(str(tmp_path / "copy"))
    (tmp_path / "copy").mkdir()
    with pytest.raises(CheckpointCopyError):
        log.maintenance.copy(checkpoint, target)
    log.close()


@pytest.mark.row("R3")
def test_a_compaction_takes_a_segment_that_is_cut_meanwhile_for_no_damage(tmp_path, monkeypatch, stop):
    log = written(tmp_path, descriptor_limit=FEW).log
    end = log.maintenance.segments[3].base_offset + 3
    cut_stopped_at_rename(monkeypatch, stop)
    cutting = threading.Thread(target=log.replica.truncate_to, args=(end,))

    def throttle(_size: int) -> None:
        """Have the cut begin when the first segment is read, before the one that is cut."""
        if not stop.reached.is_set():
            cutting.start()
            assert stop.reached.wait(WATCHDOG_S)

    try:
        done = log.maintenance.compact(throttle=throttle)
    finally:
        stop.go_on.set()
        cutting.join(WATCHDOG_S)
    assert not done.is_complete
    assert log.maintenance.cleanable().cleaner_error is None
    log.maintenance.roll()
    assert log.maintenance.compact().is_complete
    log.close()


@pytest.mark.row("R3")
def test_an_inspection_beside_a_swap_names_no_gap(tmp_path, monkeypatch, stop):
    log = written(tmp_path).log
    stopped_at(monkeypatch, stop, "_take_away", after=True)
    with running(log.maintenance.compact, stop):
        assert verify.gaps(Directory(log.path)) == []
        assert list(verify.verify(verify.find(log.path), is_live=True)) == []
    log.close()


def test_a_reader_beside_a_writer_that_died_in_a_change_reads_on(tmp_path, monkeypatch):
    """The change is waited for once: what can be read is read, and errors are told."""
    monkeypatch.setattr(reader, "REST_S", 0.05)
    monkeypatch.setattr("logstore.log.read.live_reader.REST_S", 0.05)
    log = written(tmp_path).log
    wanted = kept(log.scan())
    with log._state.lock:
        log._state.segments.begin_change()
        log._state.publish_locked()
    with Log.open(log.path, read_only=True) as beside:
        assert kept(beside.scan()) == wanted
        with pytest.raises(OffsetOutOfRangeError):
            beside.replica.locate(log.log_end_offset + 1)
        assert beside.offset_for_time(2**62) is None
        assert beside.scan().count() == len(wanted)
    log._state.segments.end_change()
    log.close()
