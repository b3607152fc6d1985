"""One scripted workload of a log (create, append, roll, flush, delete, truncate, close, reopen), for faults.

Each run has another call failing. Whatever happens, either the operation raised an error of ours and the
log goes on, or the log is failed and acknowledges nothing more.
"""

from __future__ import annotations

import errno
import random

import pytest

from logstore import Codec, Log
from logstore.errors import DiskFullError, LogClosedError, LogstoreError, StorageError, StorageFailedError
from logstore.io._interrupts import held
from logstore.log import Marker
from logstore.log.append import flush
from logstore.log.append._group_commit import Rounds
from tests.crash.histories import PARTITION, History, Sent, expect, quick_files

SETTINGS = {"segment_bytes": 700, "index_interval_bytes": 150}

FAULTS = {
    "EIO": ("change", {"errno": errno.EIO}),
    "EIO for good": ("change", {"errno": errno.EIO, "times": -1}),
    "torn by EIO": ("pwrite", {"errno": errno.EIO, "torn": 40}),
    "ENOSPC": ("change", {"errno": errno.ENOSPC}),
    "short, then ENOSPC": ("pwrite", {"errno": errno.ENOSPC, "short": 7}),
    "ENOSPC for good": ("pwrite", {"errno": errno.ENOSPC, "times": -1}),
    "short, then ENOSPC for good": ("pwrite", {"errno": errno.ENOSPC, "times": -1, "short": 20}),
}


def promise_before_the_sync(monkeypatch) -> None:
    """Plant a recovery point that is written before the sync that it speaks of."""
    honest = flush.LogRounds

    class Hasty(Rounds):
        def __init__(self, state, flusher):
            self.state, self.rounds = state, honest(state, flusher)

        def is_done(self, offset):
            return self.rounds.is_done(offset)

        def sync(self, commit):
            state = self.state
            with held(state.lock):
                active = state.segments.active
                state.durability.write_locked(
                    recovery_point=state.end.value, segment_base_offset=active.base_offset, position=active.size
                )
            self.rounds.sync(commit)

    monkeypatch.setattr(flush, "LogRounds", Hasty)


def retry_syncs(monkeypatch) -> None:
    """Plant a second try of a sync that has failed: it says that all is well, for pages that are lost."""

    def stubborn(segment):
        try:
            segment.file.sync()
        except StorageError as error:
            again(None, segment, error)

    def again(_flusher, segment, _error):
        with segment.file.files.open(segment.path, writable=True) as file:
            file.mark_dirty()
            file.sync()

    monkeypatch.setattr(flush, "sync_unless_dropped", stubborn)
    monkeypatch.setattr(flush.Flusher, "sync_failed", again)


class ScriptedWorkload:
    """The workload, below a root of any table; `run` says how it ended."""

    def __init__(self, root, files) -> None:
        self.path = root / PARTITION
        self.files = files
        self.sent: list[Sent] = []
        self.history = History(None, random.Random(5), self.sent)
        self.start = self.least_start = 0
        self.cutting: int | None = None
        self.log: Log | None = None
        self.synced = 0  #: offsets below it were acknowledged as synced
        # What became full once has room again at the next try, unless the fault is for good.
        self.tries = 2

    def steps(self):
        h = self.history
        yield self.open
        for codec in (Codec.NONE, Codec.ZSTD):
            yield lambda codec=codec: h.append(2, codec)
        yield lambda: h.append(1, producer_id=8, transactional=True)
        yield lambda: h.append(3, Codec.LZ4, producer_id=7)
        yield lambda: self.log.flush()
        for _ in range(3):
            yield lambda: h.append(3)
        yield lambda: h.end(8, Marker.ABORT)
        yield lambda: h.append(1, producer_id=7, ack="synced")
        yield lambda: self.log.maintenance.roll()
        yield lambda: h.append(2, producer_id=8, transactional=True)
        yield lambda: self.delete(self.sent[2].first)
        for _ in range(4):
            yield lambda: h.append(3, ack="synced")
        yield lambda: h.end(8, Marker.COMMIT)
        yield lambda: self.delete(self.sent[7].first)
        yield lambda: self.cut(self.sent[-2].first)
        yield lambda: h.append(2)
        yield lambda: self.cut(self.sent[-5].first)
        yield lambda: h.append(2, Codec.GZIP)
        yield self.close
        yield self.open
        yield lambda: h.append(2, ack="synced")
        yield self.close

    def open(self) -> None:
        self.log = Log.open(self.path, files=self.files, **SETTINGS)
        self.history.log = self.log

    def close(self) -> None:
        self.log.close()

    def delete(self, offset: int) -> None:
        self.start = offset
        self.log.delete_before(offset)
        self.least_start = offset

    def cut(self, offset: int) -> None:
        if self.cutting is None:
            self.cutting = offset
        assert self.log.replica.truncate_to(self.cutting) == self.cutting
        self.cutting = None
        self.sent[:] = [batch for batch in self.sent if batch.last < offset]
        self.history.sequences[7] = next(
            (
                b.producer.base_sequence + len(b.records)
                for b in reversed(self.sent)
                if b.producer and b.producer[0] == 7
            ),
            0,
        )

    def run(self) -> str:
        """Until the end or the first failure that is not a full disk: how it ended."""
        for step in self.steps():
            for attempt in range(self.tries):
                try:
                    step()
                    self.synced = self.log.synced_end
                    break
                except DiskFullError:
                    self.history.attempted = None
                    if self.log is not None and not self.is_closed():
                        self.check_readable()
                    if attempt + 1 == self.tries:
                        return "full"
                except LogstoreError as error:
                    return self.failed(error)
        return "done"

    def is_closed(self) -> bool:
        try:
            self.log.read(self.log.log_end_offset)
        except LogClosedError:
            return True
        return False

    def failed(self, error: LogstoreError) -> str:
        assert isinstance(error, StorageError), f"not an error about storage: {error!r}"
        assert error.__cause__ is not None
        if self.log is None or self.is_closed():
            return "not open"
        self.synced = self.log.synced_end
        # Failed: nothing is acknowledged any more, and what is there can be read.
        syncs = self.files.counts()["fdatasync"]
        end = self.log.log_end_offset
        for act in (
            lambda: self.log.append([b"x"]),
            lambda: self.log.append([b"x"], ack="synced"),
            self.log.flush,
            self.log.maintenance.roll,
            lambda: self.log.replica.truncate_to(end - 1),
        ):
            with pytest.raises(StorageFailedError):
                act()
        if self.cutting is None:
            self.check_readable()
        self.log.close()
        assert self.files.counts()["fdatasync"] == syncs, "a sync was tried again"
        return "failed"

    def check_readable(self) -> None:
        assert {record.offset for record in self.log.scan()} <= {
            record[0] for batch in [*self.sent, *filter(None, [self.history.attempted])] for record in batch.records
        }

    # -- afterwards

    def abandon(self) -> None:
        if self.log is not None:
            try:
                self.log.close()
            except StorageError:
                pass

    def examine(self) -> None:
        """A healthy process opens what is left: all that was acknowledged, and nothing torn."""
        files = quick_files()
        try:
            log = Log.open(self.path, files=files, create=bool(not self.sent), **SETTINGS)
        except LogstoreError as error:
            raise AssertionError(f"does not open again: {error}") from error
        with log:
            assert self.least_start <= log.log_start_offset <= max(self.start, self.least_start)
            end = log.log_end_offset
            possible = [self.sent]
            if self.history.attempted is not None:
                possible.append([*self.sent, self.history.attempted])
            if self.cutting is not None:
                possible = [
                    self.sent[:n]
                    for n in range(len(self.sent) + 1)
                    if (self.sent[n - 1].last + 1 if n else 0) >= self.cutting
                ]
            found = [sent for sent in possible if (sent[-1].last + 1 if sent else 0) == end]
            assert found, f"the log ends at {end}, acknowledged was {self.sent[-1].last if self.sent else -1}"
            expect_from(log, found[0], log.log_start_offset)
            kept = list(found[0])
            History(log, random.Random(1), kept).append(2, ack="synced")
            expect_from(log, kept, log.log_start_offset)


def expect_from(log, sent, start):
    # The batches below the start are given too: transactions may have begun there.
    expect(log, sent, start, thorough=False)
