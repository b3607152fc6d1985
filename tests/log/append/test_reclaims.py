"""Space is reclaimed outside the log's lock: other threads append, read and flush the same log meanwhile."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logstore import Log
from logstore.batch._batch import stamp_producer
from logstore.batch._encode import encode
from logstore.errors import DiskBudgetError, ExpectedOffsetError
from logstore.io._interrupts import held
from logstore.log.append import ingest_file
from logstore.log.append.ingest_file import Whole
from logstore.log.space_quota import SpaceQuota
from logstore.records import ProducerStamp
from logstore.testing import FaultyFiles
from tests.crash.planted import must_break
from tests.kit.inside import locks_of
from tests.log.logs import NOW_MS, open_log, values_of

WATCHDOG_S = 60


class SlowToReclaim(SpaceQuota):
    """Refuses when it is told to; a reclaim lasts until other threads have used the log."""

    def __init__(self, patience_s: float = WATCHDOG_S) -> None:
        self.log: Log | None = None
        self.refuses = False
        self.patience_s = patience_s
        self.is_replica = False
        self.found: list[list[bytes]] = []
        self.threads: list[threading.Thread] = []

    def reserve(self, needed: int) -> int:
        if self.refuses:
            raise DiskBudgetError("no space")
        return needed

    def reclaim(self, needed: int) -> bool:
        self.refuses = False
        beside = threading.Thread(target=self._use, daemon=True)
        self.threads.append(beside)
        beside.start()
        beside.join(self.patience_s)
        assert not beside.is_alive(), "a reclaim holds up the other threads of its log"
        return True

    def _use(self) -> None:
        log = self.log
        assert log is not None
        if not self.is_replica:
            log.append([b"beside"])
            log.append([b"beside"], ack="synced")
            log.replica.append_batch(encode([b"beside"], timestamp_ms=NOW_MS))
        log.flush()
        region = log.replica.fetch_region(0).region
        assert region is not None
        assert log.record_at(0) is not None
        assert log.read(0).size > 0
        self.found.append(values_of(log))


class LockedWhileItReclaims(SlowToReclaim):
    """The planted bug: space is reclaimed under the lock of the log."""

    def reclaim(self, needed: int) -> bool:
        assert self.log is not None
        with held(locks_of(self.log)["append"]):
            return super().reclaim(needed)


def of_a_producer() -> bytes:
    batch = bytearray(encode([b"value"], timestamp_ms=NOW_MS))
    stamp_producer(batch, 7, 0, 0)
    return bytes(batch)


def at_an_offset(log: Log) -> object:
    """The condition is looked at once more: the offset is another's now."""
    with pytest.raises(ExpectedOffsetError):
        log.append([b"value"], expect=1)
    return None


def in_an_appender(log: Log) -> object:
    with log.appender() as appender:
        return appender.append(b"value")


def as_a_file(log: Log) -> object:
    batch = bytearray(encode([b"value"], timestamp_ms=NOW_MS))
    Path(log.path, "staged").write_bytes(batch)
    whole = Whole("staged", len(batch), 1, 1, NOW_MS, NOW_MS)
    return log.replica.ingest_file(whole, iter([(batch, 1)]))


def of_a_leader(log: Log) -> object:
    run = bytearray(encode([b"value"], timestamp_ms=NOW_MS))
    run[:8] = log.log_end_offset.to_bytes(8, "big")
    return log.replica.append_replicated(bytes(run))


def one_batch() -> bytes:
    return encode([b"value"], timestamp_ms=NOW_MS)


#: Every call that writes records.
WAYS: dict[str, Callable[[Log], object]] = {
    "records": lambda log: log.append([b"value"]),
    "records, synced": lambda log: log.append([b"value"], ack="synced"),
    "records of a producer": lambda log: log.append([b"value"], producer=ProducerStamp(7, 0, 0)),
    "records at an offset": at_an_offset,
    "records of an appender": in_an_appender,
    "batch": lambda log: log.replica.append_batch(one_batch()),
    "batch of a producer": lambda log: log.replica.append_batch(of_a_producer()),
    "batches of a turn": lambda log: log.replica.append_turn([one_batch()] * 2),
    "run": lambda log: log.replica.append_run(bytearray(one_batch()), max_timestamp_ms=NOW_MS),
    "run of a leader": of_a_leader,
    "file": as_a_file,
}


def reclaim_in(root: Path, quota: SlowToReclaim, way: Callable[[Log], object], *, is_device: bool, **settings: Any):
    """Make a call for which the disk or the quota has no space, and check what the log holds."""
    files = FaultyFiles()
    with open_log(root, files=files, quota=quota, **settings) as log:
        quota.log, quota.is_replica = log, way is of_a_leader
        log.append([b"first"])
        if is_device and way is as_a_file:
            files.fail("rename", 1, errno.ENOSPC, path_contains="staged")
        elif is_device:
            files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log")
        else:
            quota.refuses = True
        try:
            way(log)
        finally:
            for thread in quota.threads:
                thread.join(WATCHDOG_S)
        assert len(quota.found) == 1, "nothing was reclaimed"
        wanted = ["first"] + ["beside"] * (0 if quota.is_replica else 3)
        assert [value.decode() for value in quota.found[0]][: len(wanted)] == wanted
        written = 0 if way is at_an_offset else 2 if way is WAYS["batches of a turn"] else 1
        assert values_of(log).count(b"value") == written
        assert log.metrics().counters["disk_full"] == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_device", [True, False], ids=["full disk", "full quota"])
def test_other_threads_use_the_log_while_an_append_reclaims_space(tmp_path, monkeypatch, way, is_device):
    monkeypatch.setattr(ingest_file, "LEAST_BYTES", 1)
    monkeypatch.setattr(ingest_file, "LEAST_BATCH_BYTES", 1)
    reclaim_in(tmp_path, SlowToReclaim(), WAYS[way], is_device=is_device)


def test_planted_a_reclaim_under_the_lock_is_found(tmp_path):
    plant = LockedWhileItReclaims(patience_s=0.5)
    must_break(
        "holds up the other threads",
        lambda: reclaim_in(tmp_path, plant, WAYS["records"], is_device=True),
    )
