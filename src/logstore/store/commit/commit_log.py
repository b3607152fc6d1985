"""The ingested batches of each query: the topic ``__logstore_sinks``, with the newest record of each query.

Only this module appends to that topic and reads it. It has one partition and is compacted, so that the newest
record of each query is kept for ever. A record is the whole state of its query. Key: the query's name, UTF-8.
Value: JSON with the fields of `SinkState`, ``{"version": 1, "phase": "done", ...}``; null once a query is
forgotten. `store.commit.ingest` is responsible for the meaning of a state, and for when each is written.

`Sinks` belongs to the process that writes the store, and to one thread at a time: the caller holds the lock.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from logstore.client.backend.source import Source
from logstore.config.log import Setting
from logstore.errors import OUT_OF_RESOURCES, CorruptRecordError, RecordError, UnknownTopicError
from logstore.log import Log, LogReader
from logstore.records import INT16_MAX, Ack, Isolation, TopicPartition
from logstore.store.commit.staged_writer import is_job
from logstore.topic_names import SINKS

_logger = logging.getLogger(__name__)

INTENT: Final = "intent"
COMMITTING: Final = "committing"
DONE: Final = "done"
ABORTED: Final = "aborted"
PHASES: Final = (INTENT, COMMITTING, DONE, ABORTED)

#: Producer ids of sinks begin here; those of a store or a broker are small numbers.
FIRST_PRODUCER_ID: Final = 1 << 62
#: Kafka's last epoch; a producer then begins again under another id.
LAST_EPOCH: Final = INT16_MAX

#: A job commits once, and asks again only while it lives; after that its state may be deleted.
JOB_RETENTION_MS: Final = 7 * 86_400_000
_FORGET_PERIOD_MS = 3_600_000

#: The longest record: a state names every partition of its batch.
_MESSAGE_BYTES = 32 << 20
_SEGMENT_BYTES = 64 << 20
#: Without maintenance, the topic is compacted when it is this large and mostly out of date.
_TIDY_BYTES = 1 << 20
_TIDY_FACTOR = 8

_VERSION = 1


class Share(NamedTuple):
    """One partition's share of a batch."""

    topic: str
    topic_id: str
    partition: int
    end_offset: int  #: the log end offset before anything of the batch was written
    record_count: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class SinkState(NamedTuple):
    """The state of a query: its newest ingested batch, and the batch that was begun last."""

    done: int  #: the newest ingested batch, -1 before the first; kept while later batches are begun
    producer_id: int
    producer_epoch: int
    batch: int  #: the batch that was begun last
    phase: str
    updated_ms: int
    shares: tuple[Share, ...] = ()  #: of a pending batch, all its shares; of an ended one, one for each topic

    @property
    def is_pending(self) -> bool:
        return self.phase in (INTENT, COMMITTING)

    def to_bytes(self) -> bytes:
        found = {"version": _VERSION, **self._asdict(), "shares": [list(share) for share in self.shares]}
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> SinkState:
        """Return the state that `to_bytes` made.

        Raises:
            CorruptRecordError: the bytes are no state, or from a later version.
        """
        try:
            found: dict[str, Any] = json.loads(data)
            if found.pop("version") != _VERSION or found["phase"] not in PHASES:
                raise ValueError("the version or phase is unknown")
            shares = tuple(Share(*share) for share in found.pop("shares"))
            return cls(**found, shares=shares)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptRecordError(f"the record is no state of a sink: {error!r:.200}") from None


class Sinks:
    """The states of all queries. Owns: only memory; the log is the store's."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._states: dict[str, SinkState] = {}
        self._log: Log | None = None
        self._forgot_ms = 0

    def load(self, *, create: bool = True) -> bool:
        """Read the topic, unless that was done; False if there is none and ``create`` is false.

        Raises:
            CorruptRecordError: a record is not a state; its offset is named.
            DiskFullError, StorageError: the topic could not be made or opened.
        """
        if self._log is not None:
            return True
        if not self._is_there():
            if not create:
                return False
            settings: dict[str, Setting] = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "max.message.bytes": _MESSAGE_BYTES,
                "segment.bytes": _SEGMENT_BYTES,
            }
            self._source.create_topic(SINKS, 1, settings, if_not_exists=True)
        log = self._source._log_of(SINKS, 0)
        assert isinstance(log, Log)
        # Records of a killed process count from now on: unsynced ones could be lost later.
        log.flush()
        self._states = read_states(log)
        self._log = log
        return True

    def _is_there(self) -> bool:
        try:
            return self._source.partition_count(SINKS) > 0
        except UnknownTopicError:
            return False

    def get(self, query: str) -> SinkState | None:
        return self._states.get(query)

    def streams(self) -> list[str]:
        """Return the queries that have written a batch, and may write more."""
        return sorted(query for query, state in self._states.items() if not is_job(query) and state.done >= 0)

    def topic_ids(self, query: str) -> set[str]:
        """Return the topic ids of the batch that a query has begun last; perhaps none for an earlier program's."""
        return {share.topic_id for share in self._states[query].shares}

    def pending(self) -> list[str]:
        """Return the queries with a batch that is not settled."""
        return sorted(query for query, state in self._states.items() if state.is_pending)

    def next_producer(self, query: str, newest_epoch: Callable[[int], int]) -> tuple[int, int]:
        """Return producer id and epoch for another batch of a query; no batch of any query has had them.

        ``newest_epoch`` gives the newest epoch of a producer id in the logs, -1 if there is none.
        """
        state = self._states.get(query)
        others = {known.producer_id for name, known in self._states.items() if name != query}
        # A replay leaves a state without a producer.
        known = [] if state is None or state.producer_id < 0 else [state.producer_id]
        for found in itertools.chain(known, map(producer_id_of, itertools.repeat(query), itertools.count())):
            epoch = newest_epoch(found)
            if state is not None and found == state.producer_id:
                epoch = max(epoch, state.producer_epoch)
            if found not in others and epoch < LAST_EPOCH:
                return found, epoch + 1
        raise AssertionError("unreachable")

    def put(self, query: str, state: SinkState | None, *, durable: bool) -> None:
        """Write the state of a query, None to forget it; in the page cache on return, or on disk.

        Raises:
            DiskFullError, RecordTooLargeError: nothing was written, and nothing has changed.
            StorageFailedError: what was written before the failure counts; the log takes no more writes.
        """
        log = self._log
        assert log is not None
        value = None if state is None else state.to_bytes()
        # An interrupt half way would leave it unknown whether the record is in the log: it is read again then.
        self._log = None
        try:
            log.append([(query.encode(), value)], timestamp=self._source.clock.now_ms(), ack=Ack.WRITTEN)
        except (*OUT_OF_RESOURCES, RecordError):
            self._log = log
            raise
        # Before the sync: a record in the log is the state, whether or not it is on the disk by now.
        if state is None:
            self._states.pop(query, None)
        else:
            self._states[query] = state
        self._log = log
        if durable:
            log.flush()

    def take_in(self, states: Mapping[str, SinkState]) -> None:
        """Continue from states that were kept elsewhere, where they are further. Durable on return."""
        for query, state in states.items():
            known = self._states.get(query)
            if known is None or known.done < state.done:
                self.put(query, state, durable=False)
        self.flush()

    def flush(self) -> None:
        """Make everything that was read or written so far durable."""
        assert self._log is not None
        self._log.flush()

    def forget_jobs(self, now_ms: int) -> None:
        """Forget jobs that ended long ago; does nothing if it ran a short time before."""
        if abs(now_ms - self._forgot_ms) < _FORGET_PERIOD_MS:
            return
        self._forgot_ms = now_ms
        for query, state in list(self._states.items()):
            if is_job(query) and not state.is_pending and now_ms - state.updated_ms > JOB_RETENTION_MS:
                self.put(query, None, durable=False)

    def tidy(self) -> None:
        """Compact the topic if it is mostly out of date: a store opened for one batch runs no maintenance."""
        log = self._log
        assert log is not None
        if log.maintenance.size > max(
            _TIDY_BYTES, _TIDY_FACTOR * sum(len(state.to_bytes()) for state in self._states.values())
        ):
            log.maintenance.roll()
            log.maintenance.compact()


def producer_id_of(query: str, attempt: int = 0) -> int:
    """Return a producer id that is a query's own, as far as a digest can tell.

    >>> producer_id_of("q") >= FIRST_PRODUCER_ID
    True
    """
    digest = hashlib.sha256(f"{attempt} {query}".encode()).digest()
    return FIRST_PRODUCER_ID | (int.from_bytes(digest[:8], "big") & (FIRST_PRODUCER_ID - 1))


def read_states(log: LogReader | Log) -> dict[str, SinkState]:
    """Return the newest state of each query.

    Raises:
        CorruptRecordError: a record is not a state; its offset is named.
    """
    states: dict[str, SinkState] = {}
    for record in log.scan(isolation=Isolation.READ_UNCOMMITTED):
        try:
            query = (record.key or b"").decode()
            if record.value is None:
                states.pop(query, None)
            else:
                states[query] = SinkState.of_bytes(record.value)
        except (CorruptRecordError, UnicodeDecodeError) as error:
            raise CorruptRecordError(str(error), path=log.path, offset=record.offset) from error
    return states
