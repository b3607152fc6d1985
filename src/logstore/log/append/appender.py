"""Appender: collects single records into batches, as Kafka's producer accumulator does.

It is an accumulator of one partition (`accumulator.partition_batcher`) that raises errors in the call that
writes. A record is encoded straight into the open batch, without a lock. The batch is appended when it reaches
`batch_bytes`, when it has waited `linger_ms`, or on a flush. A record in the open batch is not acknowledged.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from logstore.accumulator._batcher import FastAppend, SendFuture
from logstore.accumulator._partition_batches import Shared
from logstore.accumulator.lifecycle import Gathering
from logstore.accumulator.partition_batcher import BatchConfig, PartitionBatcher
from logstore.accumulator.syncing import AppendableLog
from logstore.accumulator.timer import TICKER
from logstore.batch._encode import timestamp_of
from logstore.clock import Clock
from logstore.errors import OUT_OF_RESOURCES, LogClosedError, RecordError
from logstore.io._interrupts import held
from logstore.records import Ack, AppendResult, Codec

if TYPE_CHECKING:
    from concurrent.futures import Future


_logger = logging.getLogger(__name__)


class AppenderLog(AppendableLog, Protocol):
    """The interface of a log that an appender uses."""

    @property
    def _appenders(self) -> set[int]:
        """Ids of the appenders that are not closed."""

    @property
    def _dropped_appenders(self) -> set[Appender]:
        """The dropped appenders among them: the log closes them before itself."""


class Appender(FastAppend, Gathering):
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

    _kind = "appender"
    _fork_advice = "the appender was opened before a fork; call Log.open() in the child"
    _batcher: PartitionBatcher

    def __init__(
        self,
        target: AppenderLog,
        *,
        linger_ms: int,
        batch_bytes: int,
        codec: Codec | None,
        ack: Ack | str | None,
        clock: Clock,
    ) -> None:
        self._target = target
        self._clock = clock
        self._ack = ack
        config = target._config
        codec = Codec(codec or 0) if config.codec is None else config.codec
        self._batches = BatchConfig(linger_ms, batch_bytes, codec, config.level_of(codec))
        self._shared = Shared(config=self._batches, clock=clock, raises=True, failures=[])
        self._batcher = PartitionBatcher(target.name, lambda: target, self._shared)
        self._no_write_until_s = 0.0  #: no background write before
        self._begin_lifecycle()
        target._appenders.add(id(self))
        self._shared.alarm = TICKER.add(self, clock)

    def _append_slowly(self, value: Any, key: Any, timestamp_ms: Any, headers: Any) -> SendFuture:
        self._check_usable()
        if self._batcher.is_due():
            # Before the record is added: a caller that gets an error may append it again.
            self._write()
        timestamp_ms = None if timestamp_ms is None else timestamp_of(timestamp_ms)
        added = self._batcher.add(value, key, timestamp_ms, headers)
        assert not isinstance(added, int), "an appender has no memory that could be full"
        if self._batcher.is_oversized():
            # At once: else another caller would get its error.
            self._write()
        return added

    def submit(
        self, value: Any, key: Any = None, timestamp_ms: int | None = None, headers: Any = None
    ) -> Future[int]:
        """Add one record as `append`; the future gives its offset once its batch is acknowledged."""
        from concurrent.futures import Future  # 3 ms of import that few processes need

        future: Future[int] = Future()
        self._append_slowly(value, key, timestamp_ms, headers).add_done_callback(partial(_answer, future))
        return future

    def flush(self, *, ack: Ack | str | None = None) -> AppendResult | None:
        """Append the open batch and wait for ``ack``; return its offsets, or None if it was empty.

        Raises:
            RecordError: the batch breaks a rule of the log. Its records are dropped, later ones are not.
            DiskFullError, TooManyFilesError: there is no room. The batch is kept: flush again later.
            StorageFailedError: the log takes no more writes; the batch is lost.
        """
        # An unknown ``ack`` is refused before the batch is touched.
        ack = self._ack if ack is None else Ack(ack)
        self._check_usable()
        return self._write(force=True, ack=ack)

    @property
    def _tick_waits(self) -> bool:
        """Whether `tick` may wait for a sync."""
        return self._shared.writes_wait or self._ack in (Ack.SYNCED, "synced")

    def tick(self) -> None:
        """Append a batch that has waited for ``linger_ms``."""
        if self._closed:
            return
        if self._clock.monotonic_s() < self._no_write_until_s:
            self._shared.alarm.set(self._no_write_until_s)
            return
        if not self._batcher.is_ready():
            self._batcher.set_alarm()
            return
        error = self._batcher.write(wait=False, ack=self._ack).error
        if isinstance(error, OUT_OF_RESOURCES):
            # The batch is kept; it is retried after another linger, or by a flush.
            _logger.warning("gathered records wait for room: %s", error)
            self._no_write_until_s = self._clock.monotonic_s() + self._batches.linger_ms / 1000
        elif error is not None and not isinstance(error, RecordError):
            raise error

    def _write(self, *, force: bool = False, ack: Ack | str | None = None) -> AppendResult | None:
        """Append what is due, or all with ``force``; return the offsets from the first to the last."""
        turn = self._batcher.write(force=force, ack=ack or self._ack)
        if turn.error is not None:
            raise turn.error
        if self._batcher.failure is not None:
            self._raise_failure()
        if len(turn.appended) > 1:
            return turn.appended[-1]._replace(first_offset=turn.appended[0].first_offset)
        return turn.appended[0] if turn.appended else None

    def _check_usable(self) -> None:
        self._check_process()
        if self._closed:
            raise _closed_error()
        if self._batcher.failure is not None:
            self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the error of a background write: only once if its records caused it."""
        failure = self._batcher.failure
        if failure is not None:
            if isinstance(failure, RecordError):
                self._batcher.failure = None
            raise failure

    def close(self) -> None:
        """Flush and stop. May be called again.

        Raises:
            DiskFullError, TooManyFilesError: there is no room. The appender stays open with its records:
                close it again once there is room.
            LogstoreError: this write, or an earlier one in the background, has failed.
        """
        self._check_process()
        with held(self._closing):
            if self._closed:
                return
            self._closed = True
            self._batcher.close(_closed_error)
            try:
                self._raise_failure()
                self._write(force=True)
            except OUT_OF_RESOURCES:
                self._closed = False
                self._batcher.close(None)
                self._batcher.set_alarm()  # a tick may have found it closed
                raise
            finally:
                if self._closed:
                    self._target._appenders.discard(id(self))
                    TICKER.remove(self)

    def _when_dropped(self) -> None:
        self._target._dropped_appenders.add(self)

    def _release_dropped(self) -> None:
        try:
            super()._release_dropped()
        finally:
            self._target._dropped_appenders.discard(self)

    def _describe(self) -> str:
        return f"an appender of {self._target!r}"


def _closed_error() -> LogClosedError:
    return LogClosedError("the appender is closed")


def _answer(future: Future[int], sent: SendFuture) -> None:
    """Complete the future of `submit`, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    error = sent.exception(0)
    if error is None:
        future.set_result(sent.result(0).offset)
    else:
        future.set_exception(error)
