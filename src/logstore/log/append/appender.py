"""Appender: collects single records into batches, as Kafka's producer accumulator does.

A record is encoded straight into the open batch (`_encode.FastBatcher`, without a lock). The batch is
appended when it reaches `batch_bytes`, when it has waited `linger_ms`, or on a flush. A record in the
open batch is not acknowledged.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from logstore.batch._encode import Encoder, FastBatcher
from logstore.clock import Clock
from logstore.config.log import LogConfig
from logstore.dropped import hand_over
from logstore.errors import (
    NO_ROOM,
    ForkedError,
    LogClosedError,
    LogstoreError,
    NotSyncedError,
    RecordError,
)
from logstore.io._files import fork_generation
from logstore.io._interrupts import held
from logstore.log.timer import TICKER
from logstore.records import Ack, AppendResult, Codec, TimestampType

if TYPE_CHECKING:
    from concurrent.futures import Future


_logger = logging.getLogger(__name__)


class Target(Protocol):
    """The interface of a log that an appender uses."""

    @property
    def config(self) -> LogConfig: ...

    @property
    def _appenders(self) -> set[int]:
        """Ids of the appenders that are not closed."""

    @property
    def _dropped_appenders(self) -> set[Appender]:
        """The dropped appenders among them: the log closes them before itself."""

    def append_encoded(self, encoder: Encoder, *, ack: Ack | str | None) -> AppendResult: ...


class Appender(FastBatcher):
    """Batches single records for one log. Any thread may append; each thread's records keep their order.

    Closing flushes; so does leaving a ``with`` block. A dropped appender warns, and is flushed by a thread of
    its own, at the latest when its log is closed. `append(value, key, timestamp_ms, headers)` adds one
    record. Without a timestamp it gets the time at which its batch was begun, at most ``linger_ms``
    ago. `append` blocks only while a full batch is written, and raises the error of an earlier
    background write.

    >>> with log.appender(linger_ms=5) as appender:
    ...     appender.append(b"one")
    ...     appender.append(b"two", key=b"k")
    """

    def __init__(
        self,
        target: Target,
        *,
        linger_ms: int,
        batch_bytes: int,
        codec: Codec | None,
        ack: Ack | str | None,
        clock: Clock,
    ) -> None:
        self._target = target
        self._linger_ms = linger_ms
        self._clock = clock
        self._ack = ack
        config = target.config
        self._codec = config.codec if config.codec is not None else Codec(codec or 0)
        self._level = config.level_of(self._codec)
        self._append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._limit = config.batch_limit
        self._limits = config.batch_limits
        self._lock = threading.Lock()
        self._encoder = Encoder()
        self._futures: list[tuple[int, Future[int]]] = []
        self._settled: deque[tuple[Future[int], int | BaseException]] = deque()
        self._failure: BaseException | None = None
        self._closed = False
        self._fork = fork_generation()
        self._started_s = 0.0
        self._batch_bytes = min(batch_bytes, self._limit)
        self._begin()
        target._appenders.add(id(self))
        TICKER.add(self, clock)

    def _begin(self) -> None:
        self._encoder.begin(
            timestamp_ms=self._clock.now_ms(),
            codec=self._codec,
            level=self._level,
            limits=self._limits,
            append_time=self._append_time,
        )
        self._started_s = self._clock.monotonic_s()

    def _append_slowly(self, value: Any, key: Any, timestamp_ms: Any, headers: Any) -> None:
        self._check_process()
        try:
            with held(self._lock):
                self._add_locked(value, key, timestamp_ms, headers)
                self._write_oversized_locked()
                self.resume(self._encoder, self._batch_bytes)
        finally:
            self._settle()

    def _add_locked(self, value: Any, key: Any, timestamp_ms: Any, headers: Any) -> None:
        """Add one record under the lock; the caller resumes the fast path afterwards."""
        self._check_usable()
        self.pause()
        encoder = self._encoder
        if encoder.pending_bytes >= self._batch_bytes or (
            # A record that only compression can make fit is written alone and at once: else another caller
            # would get its error.
            encoder.pending_bytes and _size(value) + _size(key) > self._limit
        ):
            self._write_locked(self._ack)
        if not encoder.pending_bytes:
            self._begin()
        encoder.add(value, key, timestamp_ms, headers)

    def submit(
        self, value: Any, key: Any = None, timestamp_ms: int | None = None, headers: Any = None
    ) -> Future[int]:
        """Add one record as `append`; the future gives its offset once its batch is acknowledged."""
        from concurrent.futures import Future  # 3 ms of import that few processes need

        future: Future[int] = Future()
        self._check_process()
        try:
            with held(self._lock):
                self._add_locked(value, key, timestamp_ms, headers)
                self._futures.append((self._encoder.pending_records - 1, future))
                self._write_oversized_locked()
                self.resume(self._encoder, self._batch_bytes)
        finally:
            self._settle()
        return future

    def _write_oversized_locked(self) -> None:
        if self._encoder.pending_bytes > self._limit:
            self._write_locked(self._ack)

    def flush(self, *, ack: Ack | str | None = None) -> AppendResult | None:
        """Append the open batch and wait for ``ack``; return its offsets, or None if it was empty.

        Raises:
            RecordError: the batch breaks a rule of the log. Its records are dropped, later ones are not.
            DiskFullError, TooManyFilesError: there is no room. The batch is kept: flush again later.
            StorageFailedError: the log takes no more writes; the batch is lost.
        """
        # An unknown ``ack`` is refused before the batch is touched.
        ack = self._ack if ack is None else Ack(ack)
        self._check_process()
        try:
            with held(self._lock):
                self._check_usable()
                self.pause()
                try:
                    return self._write_locked(ack)
                finally:
                    self.resume(self._encoder, self._batch_bytes)
        finally:
            self._settle()

    def tick(self) -> None:
        """Append a batch that has waited for ``linger_ms``."""
        if (self._clock.monotonic_s() - self._started_s) * 1000 < self._linger_ms:
            return
        # A thread that holds the lock is writing or about to add a record; the next tick checks again.
        if not self._encoder.pending_bytes or self._closed or not self._lock.acquire(blocking=False):
            return
        try:
            self.pause()
            self._write_locked(self._ack)
            self.resume(self._encoder, self._batch_bytes)
        except NO_ROOM as error:
            # The batch is kept; it is retried after another linger, or by a flush.
            _logger.warning("gathered records wait for room: %s", error)
            self._started_s = self._clock.monotonic_s()
        except BaseException as error:
            self._failure = error
            if not isinstance(error, RecordError):
                raise
        finally:
            self._lock.release()
            self._settle()

    def _write_locked(self, ack: Ack | str | None) -> AppendResult | None:
        if not self._encoder.pending_bytes:
            return None
        try:
            result = self._target.append_encoded(self._encoder.finish(), ack=ack)
        except NO_ROOM:
            raise
        except BaseException as error:
            self._settled += [(future, error) for _, future in self._futures]
            self._futures = []
            if isinstance(error, (RecordError, NotSyncedError)):
                self._begin()
            raise
        # Before anything else: an error in between would leave the batch, and its records be appended twice.
        self._begin()
        self._settled += [(future, result.first_offset + index) for index, future in self._futures]
        self._futures = []
        return result

    def _settle(self) -> None:
        """Complete futures, without the lock: their callbacks may use this appender at once."""
        # As many as there are now: a thread that adds others meanwhile completes them itself.
        for _ in range(len(self._settled)):
            try:
                future, answer = self._settled.popleft()
            except IndexError:
                return  # another thread completes them
            if not future.set_running_or_notify_cancel():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _check_process(self) -> None:
        # Before the lock: a thread of the parent may have held it at the fork, and a child would wait forever.
        if self._fork != fork_generation():
            raise ForkedError("the appender was opened before a fork; call Log.open() in the child")

    def _check_usable(self) -> None:
        if self._closed:
            raise LogClosedError("the appender is closed")
        self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the error of a background write: only once if its records caused it."""
        failure = self._failure
        if failure is not None:
            if isinstance(failure, RecordError):
                self._failure = None
            raise failure

    def close(self) -> None:
        """Flush and stop. May be called again.

        Raises:
            DiskFullError, TooManyFilesError: there is no room. The appender stays open with its records:
                close it again once there is room.
            LogstoreError: this write, or an earlier one in the background, has failed.
        """
        self._check_process()
        try:
            with held(self._lock):
                self.pause()
                if self._closed:
                    return
                self._closed = True
                self._raise_failure()
                try:
                    self._write_locked(self._ack)
                except NO_ROOM:
                    self._closed = False
                    self.resume(self._encoder, self._batch_bytes)
                    raise
        finally:
            if self._closed:
                self._target._appenders.discard(id(self))
                TICKER.remove(self)
            self._settle()

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._fork != fork_generation() or sys.is_finalizing():
            return
        self._target._dropped_appenders.add(self)
        hand_over(self._release_dropped)

    def _release_dropped(self) -> None:
        try:
            self.close()
        except LogstoreError as error:
            _logger.error("records of a dropped appender were not written: log=%s error=%s", self._target, error)
        finally:
            self._target._dropped_appenders.discard(self)
        message = f"an appender of {self._target!r} was dropped without close(): it has been flushed"
        warnings.warn(message, ResourceWarning, stacklevel=1, source=self)

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _size(data: Any) -> int:
    """Return the bytes of a key or value; 0 for other objects, which the encoder refuses."""
    try:
        return 0 if data is None else memoryview(data).nbytes
    except (TypeError, ValueError, BufferError):  # all of them raised by numpy
        return 0
