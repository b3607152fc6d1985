"""Syncs of batches that are in their log and wait for the disk: one sync of a log acknowledges many batches.

A thread syncs each log that has batches waiting, so records can be added meanwhile. The first batch that is added
starts it. A caller that waits for a future does not wait for the thread: it syncs the log itself, and concurrent
callers share one sync. With a clock other than the machine's no thread runs: `sync` does the work.
Assumes that an added batch is in its log.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any, NamedTuple, Protocol

from logstore.accumulator._batcher import BatchResult
from logstore.batch._encode import Encoder
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig
from logstore.errors import OUT_OF_RESOURCES, LogstoreError, NotSyncedError
from logstore.io._interrupts import Condition, held
from logstore.records import Ack, AppendResult, ProducerStamp, TopicPartition

_logger = logging.getLogger(__name__)


class AppendableLog(Protocol):
    """The log of one partition: the part of it that an accumulator uses."""

    name: TopicPartition
    path: str
    _config: LogConfig

    @property
    def log_end_offset(self) -> int: ...
    @property
    def synced_end(self) -> int: ...

    def _append_encoded(
        self, encoder: Encoder, *, producer: ProducerStamp | None = None, ack: Ack | str | None = None
    ) -> AppendResult:
        """Write the finished batches of an encoder, all or none, at the log end offset.

        If an earlier call that was interrupted has written them, only acknowledge them.
        """

    def _append_encoded_turn(
        self, encoders: list[Encoder], producers: list[ProducerStamp | None]
    ) -> list[AppendResult]:
        """Write the closed batches of the first encoders, in one write; return their results, perhaps none.

        What is left takes `_append_encoded`, which says what is wrong with it.
        """

    def _holds_batch(self, offset: int, producer: ProducerStamp) -> bool:
        """Return whether the log has a batch of that producer and sequence at an offset."""

    def _loss_of(self, first_offset: int, last_offset: int, cuts: int) -> LogstoreError | None:
        """Return the error of records that a truncation has removed since they were appended, None if none has.

        ``cuts`` is that of their encoder.
        """

    def flush(self) -> Any:
        """Return once every offset below the log end offset is on disk."""


class _Waiting(NamedTuple):
    """A batch in its log, whose futures wait for the disk."""

    result: BatchResult
    end: int  #: the offset after its last record
    first_offset: int
    append_time_ms: int
    cuts: int  #: of its encoder


class Syncing:
    """A queue of batches, each acknowledged once it is on disk.

    Owns: the thread, which ends with `close`.
    """

    def __init__(self, clock: Clock) -> None:
        self._by_thread = clock is SYSTEM_CLOCK
        self._lock = Condition()
        self._waiting: dict[AppendableLog, deque[_Waiting]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        self.sync_count = 0  # a sync of two logs counts twice

    def add(
        self,
        log: AppendableLog,
        result: BatchResult,
        first_offset: int,
        last_offset: int,
        append_time_ms: int,
        cuts: int,
    ) -> None:
        """Queue a batch that is in the log; its batch result is answered once it is on disk. Does not block.

        ``cuts`` is that of its encoder: a truncation since then may remove the batch.
        """
        with held(self._lock):
            batches = self._waiting.setdefault(log, deque())
            batches.append(_Waiting(result, last_offset + 1, first_offset, append_time_ms, cuts))
            if self._by_thread and not self._closed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="logstore-syncing", daemon=True)
                    self._thread.start()
                self._lock.notify()
        # After it is queued: from now on a thread that waits for the batch result may sync the log itself.
        result.appended(first_offset, append_time_ms, lambda: self.sync_log(log))

    def sync(self) -> None:
        """Sync every log that has batches waiting, and answer these. An error is passed to their batch results."""
        with held(self._lock):
            logs = list(self._waiting)
        for log in logs:
            self.sync_log(log)

    def sync_log(self, log: AppendableLog) -> None:
        """Sync one log and answer its waiting batches. An error is passed to their batch results."""
        error: Exception | None = None
        synced = log.log_end_offset
        try:
            self.sync_count += 1
            log.flush()
        except OUT_OF_RESOURCES as failure:
            # The disk has no space for a tail that is still in memory (logstore.tail=memory), or no file could be
            # opened. The records are in the log: sending them again would duplicate them.
            error = NotSyncedError(
                f"{log.name}: appended, but not on the disk: {failure}; free space and call flush(), do not send "
                "these records again",
                path=log.path,
            )
            error.__cause__ = failure
        except Exception as failure:  # noqa: BLE001  passed to the futures
            error = failure
            synced = log.synced_end
        answered = []
        with held(self._lock):
            batches = self._waiting.get(log, deque())
            while batches:
                batch = batches[0]
                lost = log._loss_of(batch.first_offset, batch.end - 1, batch.cuts)
                if error is None and lost is None and batch.end > synced:
                    break
                batches.popleft()
                # Answered under the lock: a thread that finds no batch waiting may report that all are answered.
                if lost is not None:
                    batch.result.fail(lost)
                elif error is not None and (batch.end > synced or isinstance(error, NotSyncedError)):
                    batch.result.fail(error)
                else:
                    batch.result.acknowledge(batch.first_offset, batch.append_time_ms)
                answered.append(batch.result)
            if not batches:
                self._waiting.pop(log, None)
        for result in answered:
            result.notify()

    def _run(self) -> None:
        while True:
            with held(self._lock):
                while not self._waiting and not self._closed:
                    self._lock.wait()
                if not self._waiting:
                    return
            try:
                self.sync()
            except Exception:
                # The thread ends here: waiting threads and `close` sync the batches that are left.
                _logger.exception("records that wait for the disk are synced by flush and close only")
                return

    def close(self) -> None:
        """Sync the waiting batches, and wait until the thread has ended. May be called again."""
        with held(self._lock):
            self._closed = True
            self._lock.notify_all()
        self.sync()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
