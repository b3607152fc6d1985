"""Work on many logs at once: all of it is done, and nothing of it is under way any more when the call is over."""

from __future__ import annotations

import threading

import pytest

from logstore.io._files import LIBC, Files
from logstore.store.commit.ingest import side_by_side
from tests.kit.waiting import wait_for


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_every_piece_has_its_turn_once(count):
    done = []
    side_by_side(done.append, range(count), LIBC)
    assert sorted(done) == list(range(count))


def test_on_another_table_pieces_keep_their_order():
    done = []
    side_by_side(lambda n: done.append((n, threading.current_thread())), range(9), Files())
    assert done == [(n, threading.main_thread()) for n in range(9)]


def test_a_failure_is_raised_once_all_have_had_their_turn():
    done = []

    def work(n):
        done.append(n)
        if n == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        side_by_side(work, range(40), LIBC)
    assert sorted(done) == list(range(40))


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
        side_by_side(work, range(2), LIBC)
    assert len(finished) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "logstore-side"]
