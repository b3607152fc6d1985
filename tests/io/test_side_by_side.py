"""Many steps side by side: each is made once, all are made, a failure is told, and none is left under way."""

from __future__ import annotations

import errno
import threading

import pytest

import logstore
from logstore.errors import StorageError
from logstore.io import side_by_side as module
from logstore.io._files import Files
from logstore.io.side_by_side import MANY, in_turn, side_by_side
from logstore.testing import FaultyFiles
from tests.kit.waiting import wait_for


@pytest.mark.parametrize("each", [in_turn, side_by_side])
@pytest.mark.parametrize("count", [0, 1, 2, MANY, 500])
def test_each_is_done_once(each, count):
    done = []
    each(done.append, range(count))
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("each", [in_turn, side_by_side])
def test_after_a_failure_the_others_are_done(each):
    done = []

    def work(number):
        if number == 7:
            raise ValueError(f"not {number}")
        done.append(number)

    with pytest.raises(ValueError, match="not 7"):
        each(work, range(40))
    assert sorted(done) == [number for number in range(40) if number != 7]


def test_they_are_done_at_the_same_time():
    together = threading.Barrier(4)
    side_by_side(lambda _: together.wait(timeout=30), range(4))
    assert not [thread for thread in threading.enumerate() if thread.name == "logstore-side"]


def test_few_are_done_by_the_caller():
    done = []
    side_by_side(lambda n: done.append((n, threading.current_thread())), range(9), at_least=10)
    assert done == [(n, threading.main_thread()) for n in range(9)]


def test_on_another_table_things_keep_their_order():
    done = []
    side_by_side(lambda n: done.append((n, threading.current_thread())), range(9), Files())
    assert done == [(n, threading.main_thread()) for n in range(9)]


def test_without_threads_the_caller_does_all(monkeypatch):
    class NoThread(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module.threading, "Thread", NoThread)
    done = []
    side_by_side(done.append, range(100))
    assert done == list(range(100))


def test_an_interrupt_waits_for_what_is_under_way(monkeypatch):
    """What the caller does then, such as aborting a transaction, must meet no append of it."""
    under_way, finished = threading.Event(), []
    honest = threading.Thread.join
    interrupts = [KeyboardInterrupt(), KeyboardInterrupt()]

    def join(self, timeout=None):
        if self.name == "logstore-side" and interrupts:
            raise interrupts.pop()
        honest(self, timeout)

    def work(n):
        if threading.current_thread() is threading.main_thread():
            under_way.wait(5)
        else:
            under_way.set()
            wait_for(lambda: not interrupts)
            finished.append(n)

    monkeypatch.setattr(threading.Thread, "join", join)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(2))
    assert len(finished) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "logstore-side"]


def test_of_many_logs_each_is_closed_though_one_fails(tmp_path):
    files = FaultyFiles()
    store = logstore.open(tmp_path, files=files)
    store.create_topics([f"t{number}" for number in range(40)])
    for number in range(40):
        store[f"t{number}"].append(b"x")
    files.fail("fdatasync", errno=errno.EIO, path_contains="t17-0/")
    with pytest.raises(StorageError):
        store.close()
    files.heal()
    with logstore.open(tmp_path) as again:
        for number in range(40):
            log = again[f"t{number}"][0]
            assert log.maintenance.was_clean == (number != 17)
            assert [record.value for record in log] == [b"x"]
