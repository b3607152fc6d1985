"""An interrupt takes effect before a change or after it: at any line, and in storms of signals.

`interrupts` is the process that is interrupted; see there. LOGSTORE_INTERRUPT_LINES says how many lines of all that
are run are tried, LOGSTORE_STORM_S how long the storms last, LOGSTORE_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import logstore
from logstore import Log, dropped
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import DirectoryLockedError
from logstore.io._interrupts import Condition, guarded, held, locked, made, shielded
from logstore.log.directory.files import Directory
from logstore.log.root import StoreLock
from tests.kit.striking import Struck

ROOT = Path(__file__).parents[2]
LINES = int(os.environ.get("LOGSTORE_INTERRUPT_LINES", "250"))
STORM_S = int(os.environ.get("LOGSTORE_STORM_S", "6"))


def interrupted(mode: str, path: Path, size: int) -> int:
    """Run `interrupts`; how many interrupts came."""
    seed = os.environ.get("LOGSTORE_SEED") or str(random.randrange(1 << 32))
    print(f"{mode}: LOGSTORE_SEED={seed}")
    run = subprocess.run(
        [sys.executable, "-m", "tests.crash.interrupts", mode, str(path), seed, str(size)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        # A store would take these for settings of its own.
        env={key: value for key, value in os.environ.items() if not key.startswith("LOGSTORE_")},
    )
    assert run.returncode == 0, f"seed {seed}:\n{run.stdout[-2000:]}{run.stderr[-8000:]}"
    count = int(run.stdout.split("interrupted=")[1].split()[0])
    print(f"{mode}: {count} interrupts")
    return count


@pytest.mark.timeout(0)
def test_an_interrupt_at_any_line_leaves_a_log_and_a_store_that_go_on(ram_path):
    assert interrupted("lines", ram_path, LINES) > 0


@pytest.mark.timeout(0)
def test_a_storm_of_signals_fails_no_log_stops_no_thread_and_loses_nothing(ram_path):
    assert interrupted("storm", ram_path, STORM_S) > 0


# --- the pieces -----------------------------------------------------------------------------------


def test_a_shielded_step_comes_to_its_end_and_the_interrupt_after_it(strike):
    done = []

    def step():
        strike()
        done.append("step")

    with pytest.raises(Struck):
        shielded(step)
    assert done == ["step"]


def test_what_was_made_for_a_caller_that_was_interrupted_is_given_back(strike):
    given_back = []

    def make():
        strike()
        return "log"

    with pytest.raises(Struck):
        made(make, given_back.append)
    assert given_back == ["log"]


def test_a_handler_may_have_steps_of_its_own_while_one_is_under_way():
    done = []

    def handle(number, frame):
        shielded(done.append, "handler")

    def step():
        os.kill(os.getpid(), signal.SIGUSR1)
        while not done:
            pass
        done.append("step")

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        shielded(step)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert done == ["handler", "step"]


def test_no_thread_of_a_shielded_step_is_left_when_a_process_forks():
    """Python warns a process of several threads that forks."""
    script = """
import os, threading
from logstore.io._interrupts import shielded

threads = []
alone = len(os.listdir("/proc/self/task"))  # a sanitizer may have a thread of its own
for n in range(20):
    shielded(threads.append, threading.get_ident())
    if os.fork() == 0:
        shielded(threads.append, 0)
        os._exit(len(threads))
    assert os.waitstatus_to_exitcode(os.wait()[1]) == n + 2
    while len(os.listdir("/proc/self/task")) > alone:
        pass
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=300)


def test_an_error_of_a_shielded_step_is_its_callers():
    with pytest.raises(KeyError, match="step"):
        shielded({}.__getitem__, "step")


def test_a_step_under_a_lock_that_is_cut_off_is_settled_before_the_lock_is_free():
    lock = threading.Lock()
    seen = []

    def step():
        raise Struck

    with pytest.raises(Struck):
        locked(lock, lambda: seen.append(lock.locked()), step)
    assert seen == [True]
    assert not lock.locked()


def test_a_cleanup_that_is_cut_off_is_done_again():
    calls = []

    def cleanup():
        calls.append(1)
        if len(calls) == 1:
            raise Struck

    with pytest.raises(Struck):
        guarded(lambda: None, cleanup)
    assert len(calls) == 2


def test_a_lock_is_free_after_its_block_even_where_the_end_of_the_block_was_cut_off():
    lock = threading.Lock()
    block = held(lock)
    block.__enter__()
    assert lock.locked()
    del block
    assert not lock.locked()


def test_a_wait_that_is_interrupted_holds_its_lock_and_passes_on_what_it_was_told(strike):
    condition = Condition()
    with condition:
        threading.Timer(0.1, strike).start()
        with pytest.raises(Struck):
            condition.wait(300)
        assert condition._is_owned()
        assert not condition._waiters
        condition.notify_all()


def test_an_interrupt_leaves_the_lock_of_what_was_dropped_free(tmp_path):
    """Objects that are dropped later were never released: their thread waited for the lock."""
    directory = Directory(tmp_path / "data")
    with logstore.open(directory.path, housekeeping="manual", environ={}):
        for nth in range(20):
            left = [nth]

            def trace(frame, event, arg, left=left):
                if event == "line" and frame.f_code.co_filename == dropped.__file__:
                    left[0] -= 1
                    if left[0] < 0:
                        sys.settrace(None)
                        raise Struck
                return trace

            sys.settrace(trace)
            try:
                StoreLock.acquire(directory, SYSTEM_CLOCK)
            except (Struck, DirectoryLockedError):
                pass
            finally:
                sys.settrace(None)
            free = []
            thread = threading.Thread(target=lambda free=free: free.append(dropped.release_all(10)))
            thread.start()
            thread.join()
            assert free == [True]


def test_a_directory_is_listed_without_a_bytecode_at_which_an_interrupt_could_come(tmp_path, monkeypatch):
    """It was told as a lack of memory, and lost."""
    from logstore.io._files import LIBC

    (tmp_path / "a\udcff").touch()

    def interrupted(name):
        raise Struck

    monkeypatch.setattr(os, "fsdecode", interrupted)
    assert LIBC.listdir(str(tmp_path)) == ["a\udcff"]


def test_a_log_that_is_opened_and_interrupted_can_be_opened_again_at_once(tmp_path, strike, monkeypatch):
    from logstore.log.state import State

    begin = State.__init__

    def slow(self, *arguments):
        strike()
        begin(self, *arguments)

    monkeypatch.setattr(State, "__init__", slow)
    with pytest.raises(Struck):
        Log.open(tmp_path / "t-0")
    monkeypatch.undo()
    with Log.open(tmp_path / "t-0") as log:
        assert log.append([b"x"]).first_offset == 0
