"""A log that was not closed: its root is free again, and the next open recovers it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings

import pytest

from logstore import Log, LogConfig
from logstore.dropped import release_all
from logstore.errors import DirectoryLockedError
from logstore.log.directory.lock import RootLock
from logstore.log.directory.unsynced import Unsynced
from logstore.log.marks.policies import StandalonePolicy
from logstore.log.rolling import worker
from tests.kit.rolling import HeldTasks
from tests.log.logs import open_log, values_of


def test_a_log_that_is_dropped_warns_and_gives_its_root_back(tmp_path):
    """It kept the partition locked until the process ended, and no caller had it to close it."""
    log = open_log(tmp_path)
    log.append([b"kept"])
    with pytest.raises(DirectoryLockedError):
        open_log(tmp_path)
    with pytest.warns(ResourceWarning, match="t-0 was dropped without close"):  # noqa: PT031
        del log
        release_all()
    with open_log(tmp_path) as log:
        assert not log.maintenance.was_clean
        assert values_of(log) == [b"kept"]
    other = [sys.executable, "-c", "import logstore, sys; logstore.Log.open(sys.argv[1]).close()", log.path]
    subprocess.run(other, check=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})


def test_a_log_that_dies_in_a_cycle_with_its_policy_gives_its_root_back(tmp_path):
    log = open_log(tmp_path, policy=StandalonePolicy(LogConfig()))
    log.replica.policy.log = log
    gc.disable()  # by itself, the collector may find the cycle before the call below
    try:
        with pytest.warns(ResourceWarning, match="dropped"):  # noqa: PT031
            del log
            assert gc.collect() > 0
            release_all()
    finally:
        gc.enable()
    open_log(tmp_path).close()


def test_a_log_that_dies_while_another_is_opened_waits_for_its_turn(tmp_path):
    """The collector of cycles runs in the middle of anything: of an open in the same thread, too."""
    log = open_log(tmp_path)
    with pytest.warns(ResourceWarning):  # noqa: PT031
        with RootLock.guarded():
            del log  # would wait for ever for what its own thread holds
        open_log(tmp_path).close()


def test_a_dropped_log_leaves_its_neighbours_their_root(tmp_path):
    first, second = open_log(tmp_path), Log.open(tmp_path / "u-0")
    with pytest.warns(ResourceWarning):  # noqa: PT031
        del first
        release_all()
    second.append([b"v"], ack="synced")
    with open_log(tmp_path) as first:
        second.close()
        assert RootLock.is_held(first._state.root.directory)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_ticking_log_may_be_dropped(tmp_path):
    dead = threading.Event()

    class Telling(StandalonePolicy):
        def __del__(self):
            dead.set()

    log = open_log(tmp_path, flush_ms=1)
    log.replica.set_policy(Telling(log.maintenance.config))
    log.append([b"v"])
    # The ticker has had it in its hands.
    assert log._state.synced.wait_for(1, timeout_s=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del log
        assert dead.wait(300)
        gc.collect()
        release_all()
    open_log(tmp_path).close()


def test_a_file_that_is_being_made_for_a_dropped_log_is_not_that_of_the_next_one(tmp_path, monkeypatch):
    """Both have one name; the maintenance thread removes it when it finds the log closed."""
    background, makes, goes_on = HeldTasks(), threading.Event(), threading.Event()
    monkeypatch.setattr(worker, "worker_of", lambda files: background)
    sync_names = Unsynced.sync_names

    def slow(unsynced: Unsynced) -> None:
        if threading.current_thread() is maintenance:
            makes.set()
            goes_on.wait(0.5)  # the release of the log may have to wait for this
        sync_names(unsynced)

    def half_full() -> Log:
        log = open_log(tmp_path, segment_bytes=4_000)
        while log.maintenance.segments[-1].size < 2_000:
            log.append([b"v" * 400])
        return log

    monkeypatch.setattr(Unsynced, "sync_names", slow)
    log = half_full()
    maintenance = threading.Thread(target=background.run)
    maintenance.start()
    assert makes.wait(30)
    with pytest.warns(ResourceWarning):  # noqa: PT031
        del log
        release_all()
    with half_full() as log:
        log.append([b"v" * 400])
        background.run()
        goes_on.set()
        maintenance.join()
        for _ in range(20):
            log.append([b"v" * 400])
        background.run()
        count = log.log_end_offset
    with open_log(tmp_path, segment_bytes=4_000) as log:
        assert values_of(log) == [b"v" * 400] * count


@pytest.mark.parametrize("leave", ["close", "fail to open"])
def test_a_log_that_was_closed_or_never_open_says_nothing(tmp_path, leave):
    log = open_log(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if leave == "close":
            log.close()
        else:
            with pytest.raises(DirectoryLockedError):
                open_log(tmp_path)
            log.close()
        del log
        gc.collect()
        release_all()
