"""One partition of a consumer of a cluster: what was fetched ahead, and where the next fetch begins.

The fetcher's thread adds answers, the consumer's thread takes them; the lock is the fetcher's. No I/O but the
questions about offsets, which go through the client.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from logstore.batch._batch import Batches
from logstore.batch.runs import DEFAULT_READ_BYTES
from logstore.clock import Clock
from logstore.errors import LogstoreError
from logstore.io._interrupts import held
from logstore.records import Isolation, TopicPartition
from logstore.remote.backend.partition import RemotePartition, epoch_ends
from logstore.remote.client import Client, Fetched
from logstore.remote.fetch.position import FetchPosition

#: Of a batch's header: base offset, length of what follows, leader epoch; the last offset's delta.
_HEADER = Struct(">qii")
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23
_BEFORE_LENGTH = 12


class Arrived(NamedTuple):
    """One answer of a fetch: whole batches from ``start_offset`` on.

    ``epoch_before`` is the leader epoch of the record before them, ``epoch`` of their last one; -1 if not known.
    """

    start_offset: int
    fetched: Fetched
    epoch_before: int = -1
    epoch: int = -1


class ArrivalMark:
    """The end of what was fetched of a partition; -1 while a read is due wherever the consumer stands."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = -1


class RemoteCursor(RemotePartition):
    """A partition of a cluster, as its consumer reads it."""

    def __init__(
        self,
        name: TopicPartition,
        topic_id: str,
        client: Client,
        clock: Clock,
        lock: threading.Lock,
        go_on: Callable[[], None],
    ) -> None:
        super().__init__(client, name, topic_id, clock)
        self._lock = lock
        self._go_on = go_on  #: has what is wanted fetched
        self._runs: deque[Arrived] = deque()
        self._last: Arrived | None = None  #: the run that was handed out last
        self._mark = ArrivalMark()
        self._cut = self._cut_epoch = -1  #: where the log was cut, until a read begins there
        self._given = -1, -1  #: an offset that the consumer has sought, and the epoch of the record before it
        #: For the fetcher, under the lock.
        self.position = -1  #: where the next fetch begins; -1 while nothing is wanted
        self.epoch = -1  #: the leader epoch of the record before `position`; -1 if it is not known
        self.is_wanted = False  #: false while the consumer has paused the partition
        self.buffered = 0  #: bytes that wait to be handed out
        self.error: LogstoreError | None = None
        self.seeks = 0  #: rises with each new beginning
        #: For the fetcher alone.
        self.place = FetchPosition(name, -1)
        self.place_of = 0  #: the number of the beginning that `place` belongs to
        self.not_before_s = 0.0  #: when an error is retried
        self.node = -1  #: the broker that has sent records last
        self.max_bytes = 0  #: what to ask for; larger where a batch is larger than usual

    # -- the fetcher's part, under the lock

    def add_locked(self, found: Arrived) -> None:
        """Add the answer to a fetch from `position`."""
        self._runs.append(found)
        self.buffered += len(found.fetched.data)
        self.position, self.epoch = found.fetched.next_offset, found.epoch
        self._mark_locked()

    def fail_locked(self, error: LogstoreError) -> None:
        """Have the next read raise an error, once what has arrived before is handed out.

        The reads after that begin again at the same offset.
        """
        self.error = error
        self.seeks += 1
        self._mark_locked()

    def cut_locked(self, end_offset: int, epoch: int) -> None:
        """Have the next read go back to an offset: the records behind it were replaced by others.

        ``epoch`` is the one that ends there, by what the leader has told.
        What has arrived and was not handed out is fetched again. What arrives from now on waits for that read. Of
        several cuts before that read the lowest counts: what came behind it was not handed out.
        """
        if 0 <= self._cut < end_offset:
            end_offset, epoch = self._cut, self._cut_epoch
        self._runs.clear()
        self.buffered = 0
        self._given = -1, -1
        self._cut, self._cut_epoch = end_offset, epoch
        self.seeks += 1
        self.position, self.epoch = end_offset, epoch
        self._mark_locked()

    def drop_locked(self) -> None:
        """Forget what has arrived and was not handed out; it is fetched again once it is wanted."""
        first = self._runs[0]
        self.position, self.epoch = first.start_offset, first.epoch_before
        self._runs.clear()
        self.buffered = 0
        self.error = None
        self.seeks += 1
        self._mark_locked()

    def begin_locked(self, offset: int, epoch: int = -1) -> None:
        """Forget what was fetched, and fetch from an offset."""
        self._runs.clear()
        self.buffered = 0
        self.error = None
        self._cut = -1
        self.seeks += 1
        self.position, self.epoch = offset, epoch
        self._mark_locked()
        self.is_wanted = True

    def has_something_locked(self, offset: int) -> bool:
        """Return whether a read at an offset gives records or raises; if neither, have them fetched."""
        self._go_to_locked(offset)
        self.is_wanted = True
        return bool(self._runs) or self.error is not None or self._cut >= 0

    def _go_to_locked(self, offset: int) -> None:
        if offset <= self._cut:
            self._cut = -1  # it has not come so far
            self._mark_locked()
        if self._cut >= 0:
            return
        while self._runs and self._runs[0].fetched.next_offset <= offset:
            self.buffered -= len(self._runs.popleft().fetched.data)
        first = self._runs[0].start_offset if self._runs else self.position
        if offset < first or (not self._runs and offset != self.position):
            self.begin_locked(offset, self._epoch_at(offset))

    def _epoch_at(self, offset: int) -> int:
        """Return the epoch of the record before an offset where the consumer goes on; -1 if it is not known."""
        if self._given[0] == offset:
            return self._given[1]
        return self._last.epoch if self._last is not None and self._last.fetched.next_offset == offset else -1

    def _mark_locked(self) -> None:
        """Set the mark: a consumer that stands at it has nothing to read."""
        self._mark.value = -1 if self.error is not None or self._cut >= 0 else self.position

    # -- the consumer's part

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        isolation: Isolation | str | None = None,
        timeout_s: float = 0.0,
    ) -> Batches:
        """Return one answer's batches; those of one fetch are handed out together, whatever ``max_bytes`` is."""
        with held(self._lock):
            self._go_to_locked(offset)
            self.is_wanted = True
            found, error = None, None
            if self._cut >= 0:
                # The cut stays until a read begins there: this one may be interrupted before its caller moves.
                offset = self._cut
            elif self._runs:
                found = self._last = self._runs.popleft()
                self.buffered -= len(found.fetched.data)
            else:
                error, self.error = self.error, None
            self._mark_locked()
        self._go_on()
        if error is not None:
            raise error
        if found is None:
            return Batches(b"", start_offset=offset, next_offset=offset, topic=self.name[0], partition=self.name[1])
        fetched = found.fetched
        return Batches(
            fetched.data,
            start_offset=offset,
            topic=self.name.topic,
            partition=self.name.partition,
            aborted=fetched.aborted,
            committed_only=self._chosen(isolation) is Isolation.READ_COMMITTED,
            next_offset=fetched.next_offset,
        )

    def _sought(self, offset: int, epoch: int) -> None:
        with held(self._lock):
            self._cut = -1
            self.error = None
            self._given = offset, epoch
            # At once: what is found out about the former position is not about this one.
            was_wanted = self.is_wanted
            self._go_to_locked(offset)
            if not self._runs and self.epoch != epoch:
                self.begin_locked(offset, epoch)
            self.is_wanted = was_wanted
            self._mark.value = -1

    def _readable_end(self, isolation: Isolation) -> int:
        return self._mark.value

    def _live_end(self, isolation: Isolation) -> ArrivalMark:
        return self._mark

    def _epoch_before(self, offset: int) -> int:
        """Return the epoch of a record of the run that was handed out last, or before it; -1 for any other."""
        if self._last is None:
            return -1
        if offset == self._last.start_offset:
            return self._last.epoch_before
        data, at = self._last.fetched.data, 0
        while at + _LAST_DELTA_AT + _LAST_DELTA.size <= len(data):
            base, length, epoch = _HEADER.unpack_from(data, at)
            (delta,) = _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)
            if base < offset <= base + delta + 1:
                return int(epoch)
            at += _BEFORE_LENGTH + length
        return -1

    # -- what a broker is asked

    def _end_of_epoch(self, epoch: int) -> int | None:
        return epoch_ends(self._client, {self.name: epoch})[self.name]
