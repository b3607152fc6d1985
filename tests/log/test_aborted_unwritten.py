"""The list of aborted transactions cannot be written, or only later: their records stay hidden."""

from __future__ import annotations

import errno

import pytest

from logstore import Log
from logstore.errors import DiskFullError
from logstore.log import Marker, ProducerStamp
from logstore.log.rolling import worker
from logstore.testing import SimDisk
from tests.kit.inside import state_of
from tests.kit.rolling import HeldTasks

PATH = "/r/t-0"


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> HeldTasks:
    held = HeldTasks()
    monkeypatch.setattr(worker, "worker_of", lambda files: held)
    return held


def opened(disk: SimDisk, **settings) -> Log:
    return Log.open(PATH, files=disk, retention_ms=-1, **settings)


def abort(log: Log, sequence: int, producer_id: int = 5) -> None:
    log.append([b"aborted"], producer=ProducerStamp(producer_id, 0, sequence, True))
    log.replica.append_control(Marker.ABORT, producer_id=producer_id, producer_epoch=0)


def committed(log: Log) -> list[bytes | None]:
    return [record.value for record in log.scan(isolation="read_committed")]


def shown_elsewhere(disk: SimDisk) -> list[bytes | None]:
    with Log.open(PATH, files=disk, read_only=True) as other:
        return committed(other)


def refuse_lists(disk: SimDisk) -> None:
    """Have no index and no note written, for want of space."""
    for name in (".txnindex", "logstore.aborted"):
        disk.fail("open", errno=errno.ENOSPC, times=-1, path_contains=name)


@pytest.mark.parametrize("act", ["save", "sync"])
def test_an_index_without_space_is_an_error_though_the_note_has_none_either(tasks, act):
    disk = SimDisk(1)
    with opened(disk) as log:
        state = state_of(log)
        abort(log, 0)
        refuse_lists(disk)
        with pytest.raises(DiskFullError):
            if act == "save":
                state.save_aborted()
            else:
                with state.lock:
                    state.transactions.sync()
        assert not state.transactions.is_saved
        disk.heal()


def test_a_roll_at_once_without_space_for_the_index_changes_nothing(tasks):
    disk = SimDisk(1)
    with opened(disk, segment_bytes=1000) as log:
        abort(log, 0)
        refuse_lists(disk)
        with pytest.raises(DiskFullError), state_of(log).lock:
            state_of(log).roll_locked()
        assert len(state_of(log).segments) == 1
        disk.heal()
        log.append([b"last"])
        assert committed(log) == [b"last"]
    with opened(disk) as log:
        assert committed(log) == [b"last"]
