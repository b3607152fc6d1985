"""Appends to more logs than the process has descriptors for: an append waits for its own write only."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from logstore import Log
from logstore.log.state import State
from logstore.testing import FaultyFiles
from tests.kit.inside import locks_of
from tests.kit.waiting import wait_for

LIMIT = 16
LOGS = 24


def written(root: Path, files: FaultyFiles) -> list[Log]:
    """Logs with unsynced records, more than may have their files open."""
    logs = [Log.open(root / f"flights-{n}", files=files) for n in range(LOGS)]
    for log in logs:
        log.append([b"first"])
    assert files.open_descriptors <= LIMIT
    return logs


def locked_while_another_file_is_synced(root: Path) -> list[bool]:
    files = FaultyFiles(descriptor_limit=LIMIT)
    logs = written(root, files)
    files.hold_syncs()
    appending = threading.Thread(target=logs[0].append, args=([b"second"],))
    appending.start()
    wait_for(files.held_syncs)
    found = [locks_of(log)["append"].locked() for log in logs]
    files.release_syncs()
    appending.join()
    for log in logs:
        assert log.log_end_offset == 1 + (log is logs[0])
        log.close()
    return found


def test_the_file_that_is_closed_for_another_is_synced_under_no_lock_of_a_log(tmp_path: Path) -> None:
    assert not any(locked_while_another_file_is_synced(tmp_path))


def test_planted_an_append_that_opens_its_file_under_the_lock_is_found(tmp_path: Path, monkeypatch) -> None:
    # The append is then made by the steps that do everything under the lock.
    monkeypatch.setattr(State, "is_ready_locked", lambda *given: True)
    assert any(locked_while_another_file_is_synced(tmp_path))


def test_every_way_to_append_finds_its_file_closed_and_goes_on(tmp_path: Path) -> None:
    files = FaultyFiles(descriptor_limit=LIMIT)
    logs = written(tmp_path, files)
    batch = logs[0].read(0).data
    for turn in range(1, 4):
        for log in logs:
            if turn == 1:
                log.replica.append_batch(batch)
            elif turn == 2:
                log.replica.append_turn([batch])
            else:
                with log.appender() as appender:
                    appender.append(b"fourth")
    for log in logs:
        assert log.log_end_offset == 4
        log.close()


def test_a_lost_file_still_fails_the_log(tmp_path: Path) -> None:
    from logstore.errors import StorageFailedError

    files = FaultyFiles(descriptor_limit=LIMIT)
    logs = written(tmp_path, files)
    next((tmp_path / "flights-0").glob("*.log")).unlink()
    with pytest.raises(StorageFailedError, match="flights-0"):
        logs[0].append([b"second"])
    assert logs[0].replica.failure is not None
    for log in logs:
        try:
            log.close()
        except StorageFailedError:
            assert log is logs[0]
