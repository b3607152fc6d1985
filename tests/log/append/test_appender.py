"""The futures of a buffered appender: each is answered once, whatever becomes of its record."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import CancelledError

import pytest

from logstore import Log
from logstore.errors import DiskFullError, InvalidTimestampError, LogClosedError, StorageError, StorageFailedError
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from tests.log.logs import values_of


class Told:
    """Futures, with how often each was answered."""

    def __init__(self) -> None:
        self.answers: list[list] = []

    def watch(self, future):
        mine: list = []
        self.answers.append(mine)
        future.add_done_callback(lambda done: mine.append(done.exception() or done.result()))
        return future


def test_every_future_is_answered_once_by_closing(tmp_path):
    told = Told()
    with Log.open(tmp_path / "t-0", clock=ManualClock()) as log:
        appender = log.appender(linger_ms=60_000)
        for n in range(3):
            told.watch(appender.submit(b"%d" % n))
        assert told.answers == [[], [], []]
        appender.close()
        assert told.answers == [[0], [1], [2]]
        appender.close()
        with pytest.raises(LogClosedError):
            appender.submit(b"late")
    assert told.answers == [[0], [1], [2]]


@pytest.mark.parametrize("by", ["flush", "tick", "close", "a full batch"])
def test_every_future_fails_once_with_the_write_that_failed(tmp_path, by):
    files, clock, told = FaultyFiles(), ManualClock(), Told()
    log = Log.open(tmp_path / "t-0", files=files, clock=clock)
    appender = log.appender(linger_ms=10, batch_bytes=500)
    for n in range(3):
        told.watch(appender.submit(b"%d" % n))
    files.fail("pwrite", 1, errno.EIO, path_contains=".log")
    clock.advance(20)
    act = {
        "flush": appender.flush,
        "tick": appender.tick,
        "close": appender.close,
        "a full batch": lambda: [appender.submit(b"x" * 300) for _ in range(3)],
    }[by]
    with pytest.raises(StorageFailedError):
        act()
    assert [len(answers) for answers in told.answers[:3]] == [1, 1, 1]
    assert all(isinstance(answers[0], StorageFailedError) for answers in told.answers[:3])
    for again in (appender.flush, appender.close, appender.close):
        try:
            again()
        except (StorageError, LogClosedError):
            pass
    assert [len(answers) for answers in told.answers[:3]] == [1, 1, 1]
    log.close()


def test_without_space_an_appender_stays_open_with_its_records_and_futures(tmp_path):
    """Closing it without room dropped the records, and left the threads that waited for their offsets waiting."""
    files, told = FaultyFiles(), Told()
    with Log.open(tmp_path / "t-0", files=files, clock=ManualClock()) as log:
        appender = log.appender(linger_ms=60_000)
        future = told.watch(appender.submit(b"kept"))
        files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", times=3)
        for act in (appender.flush, appender.close, appender.close):
            with pytest.raises(DiskFullError):
                act()
            assert not future.done()
        told.watch(appender.submit(b"and one more"))
        appender.close()
        assert told.answers == [[0], [1]]
        assert values_of(log) == [b"kept", b"and one more"]
        with pytest.raises(LogClosedError):
            appender.flush()


def test_a_future_that_was_cancelled_is_not_answered_and_its_record_is_written(tmp_path):
    with Log.open(tmp_path / "t-0", clock=ManualClock()) as log:
        with log.appender(linger_ms=60_000) as appender:
            cancelled, other = appender.submit(b"a"), appender.submit(b"b")
            assert cancelled.cancel()
        assert other.result(timeout=0) == 1
        with pytest.raises(CancelledError):
            cancelled.result(timeout=0)
        assert values_of(log) == [b"a", b"b"]


def test_a_callback_that_is_told_an_offset_may_use_the_appender_at_once(tmp_path):
    """The callback ran under the appender's lock, and waited for it for ever."""
    with Log.open(tmp_path / "t-0", clock=ManualClock()) as log:
        appender = log.appender(linger_ms=60_000)
        appender.submit(b"a").add_done_callback(lambda done: appender.submit(b"b"))
        answered = threading.Event()

        def flush():
            appender.flush()
            answered.set()

        threading.Thread(target=flush, daemon=True).start()
        assert answered.wait(300)
        appender.close()
        assert values_of(log) == [b"a", b"b"]


def test_a_flush_that_waits_for_a_failing_background_write_raises_its_error(tmp_path, monkeypatch):
    """The flush found nothing left to write, and returned as if its records were in the log."""
    files, clock = FaultyFiles(), ManualClock()
    log = Log.open(tmp_path / "t-0", files=files, clock=clock)
    appender = log.appender(linger_ms=10)
    future = appender.submit(b"lost", timestamp_ms=5)
    writing, flushing = threading.Event(), threading.Event()

    def refused(*arguments, **options):
        writing.set()
        assert flushing.wait(300)
        raise InvalidTimestampError("refused")

    monkeypatch.setattr(log, "_append_encoded", refused, raising=False)
    clock.advance(20)
    ticking = threading.Thread(target=appender.tick, daemon=True)
    ticking.start()
    assert writing.wait(300)
    write = appender._batcher.write
    monkeypatch.setattr(appender._batcher, "write", lambda **options: (flushing.set(), write(**options))[1])
    with pytest.raises(InvalidTimestampError):
        appender.flush()
    ticking.join()
    assert isinstance(future.exception(timeout=0), InvalidTimestampError)
    appender.close()
    log.close()
