"""Logs for tests: opened with settings in one line, looked at from outside."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

from logstore import Log
from logstore.batch._encode import encode
from logstore.log.directory.files import Directory
from logstore.log.formats import transaction_index
from logstore.log.formats.recovery_point import RecoveryPointFile
from logstore.log.recovery import recovery
from logstore.log.rolling.worker import THREADS

NOW_MS = 1_700_000_000_000


def open_log(root: Path, **settings):
    """The log ``t-0`` below a root; settings are those of `Log.open` and `LogConfig`."""
    return Log.open(Path(root) / "t-0", **settings)


def crashed_copy(log, to: Path) -> Path:
    """A copy of a log's root as its process would leave it if it died now: the root of the copy.

    The log itself stays open. A copy holds what is in the page cache, as after a SIGKILL. What rolls have left to
    do is done before: a copy beside a rename is of two moments.
    """
    finish_rolls()
    # The socket of an open store cannot be copied.
    shutil.copytree(os.path.dirname(log.path), to, ignore=shutil.ignore_patterns("logstore.socket"))
    (to / ".lock").unlink(missing_ok=True)
    return to


def finish_rolls() -> None:
    """Wait until the threads that finish rolls have ended."""
    until_s = time.monotonic() + 60
    while THREADS.is_busy:
        assert time.monotonic() < until_s, "the rolls do not end"
        time.sleep(0.001)


def tree(root: Path) -> dict[str, tuple[str, int]]:
    """Every path below a directory, with the SHA-256 of its bytes and its mode."""
    found = {}
    for path in sorted(Path(root).rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (hashlib.sha256(data).hexdigest(), path.stat().st_mode)
    return found


def one_batch(values, *, timestamp_ms=NOW_MS, **fields) -> bytes:
    """One record batch of these records, base offset 0."""
    return encode(list(values), timestamp_ms=timestamp_ms, **fields)


def at(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """A batch as a leader would send it: with its own base offset and epoch, which no CRC covers."""
    return base_offset.to_bytes(8, "big") + batch[8:12] + leader_epoch.to_bytes(4, "big") + batch[16:]


def values_of(readable, **scan) -> list[bytes | None]:
    return [record.value for record in readable.scan(**scan)]


def log_files(log) -> dict[int, Path]:
    """Segment files by base offset."""
    return {int(path.name[:20]): path for path in sorted(Path(log.path).glob("*.log"))}


def forget_sums(path: Path) -> None:
    """Take a closed log back to what an earlier release, or Kafka, knows of its aborted transactions."""
    directory = Directory(path)
    directory.remove(transaction_index.NOTE)
    point = recovery.read_point(directory)
    assert point is not None
    file = RecoveryPointFile(directory, point)
    file.write_durably(point._replace(lists_aborted=False))
    file.close()
