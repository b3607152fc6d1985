"""One partition of a cluster: ranges of its records, read by offset or time.

A range is fixed when it is made, and fetched piece by piece when it is used. What is readable then is waited for: a
broker may be over its quota, or follow a new leader. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from logstore.batch._batch import Batches, Record
from logstore.batch.moments import When, moment_of
from logstore.batch.runs import DEFAULT_READ_BYTES, check_limit, limited
from logstore.client.backend.backend import OneRound
from logstore.clock import Clock
from logstore.errors import (
    BrokerTimeoutError,
    LogstoreError,
    OffsetOutOfRangeError,
    UnsupportedOperationError,
)
from logstore.records import Isolation, LeftOut, TimestampOffset, TopicPartition
from logstore.remote.client import EARLIEST, LATEST, Client

#: How long records that were readable when a range was fixed may fail to come.
STALLED_MS = 15_000


def first_records(
    client: Client,
    times: Mapping[TopicPartition, int],
    isolation: Isolation | str,
    asked: OneRound | None = None,
) -> dict[TopicPartition, TimestampOffset | None]:
    """Return the first record of each partition that is of that time in milliseconds or later, or None."""
    # A negative time would be read as a special value such as LATEST; no record is older than 1970.
    found = client.list_offsets({name: max(when, 0) for name, when in times.items()}, isolation, asked=asked)
    return {
        name: None if each.offset < 0 else TimestampOffset(each.timestamp_ms, each.offset)
        for name, each in found.items()
    }


def epoch_ends(
    client: Client, epochs: Mapping[TopicPartition, int], asked: OneRound | None = None
) -> dict[TopicPartition, int | None]:
    """Return the offset at which the records of each partition's leader epoch end; None for an unknown epoch."""
    found = client.offset_for_leader_epoch(epochs, asked=asked)
    return {
        name: None if each.leader_epoch < 0 or each.end_offset < 0 else each.end_offset
        for name, each in found.items()
    }


def next_batch_offset(client: Client, name: TopicPartition, offset: int, topic_id: str) -> int:
    """Return the base offset of the batch that holds or follows an offset; -1 if the broker returns none.

    Batches from the last stable offset on count too: where compaction has left none before it, they show a gap to a
    committed reader. An answer without batches shows none.
    """
    isolation = Isolation.READ_UNCOMMITTED
    found = client.fetch(name, offset, max_bytes=1, max_wait_ms=0, isolation=isolation, topic_id=topic_id)
    return int.from_bytes(found.data[:8], "big") if found.data else -1


class RemotePartition:
    """A partition of a cluster, as scans and lookups read it.

    An ``isolation`` that is not given is the connection's. ``ends`` are the log start offset and the end, if both
    were asked for just now, for a scan of that isolation.
    """

    path = ""  #: no directory of this machine

    def __init__(
        self,
        client: Client,
        name: TopicPartition,
        topic_id: str,
        clock: Clock,
        ends: tuple[int, int] | None = None,
    ) -> None:
        self._ends = ends
        self.name = name
        self.topic_id = topic_id
        self._client = client
        self._clock = clock

    @property
    def log_start_offset(self) -> int:
        return self._client.list_offsets({self.name: EARLIEST})[self.name].offset

    def end_offset(self, isolation: Isolation | str | None = None) -> int:
        return self._client.list_offsets({self.name: LATEST}, self._chosen(isolation))[self.name].offset

    def _chosen(self, isolation: Isolation | str | None) -> Isolation:
        return self._client.config.isolation if isolation is None else Isolation(isolation)

    def offset_for_time(self, when: When, *, isolation: Isolation | str | None = None) -> TimestampOffset | None:
        moment = moment_of(when, self._clock)
        return first_records(self._client, {self.name: moment}, self._chosen(isolation))[self.name]

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        isolation: Isolation | str | None = None,
        timeout_s: float = 0.0,
    ) -> Batches:
        """Return what one fetch gives from ``offset`` on; see `Log.read`. It waits so long for records."""
        settled = self._chosen(isolation)
        wait_ms = round(1000 * max(timeout_s, 0.0))
        fetched = self._client.fetch(
            self.name,
            offset,
            max_bytes=max_bytes,
            max_wait_ms=min(wait_ms, self._client.config.request_timeout_ms),
            isolation=settled,
            topic_id=self.topic_id,
        )
        return Batches(
            fetched.data,
            start_offset=offset,
            topic=self.name.topic,
            partition=self.name.partition,
            aborted=fetched.aborted,
            committed_only=settled is Isolation.READ_COMMITTED,
            next_offset=fetched.next_offset,
        )

    def record_at(self, offset: int, *, isolation: Isolation | str | None = None) -> Record | None:
        """Return the record at one offset, or None if there is none; raises as `Log.record_at`."""
        settled = self._chosen(isolation)
        end = self.end_offset(settled)
        if not self.log_start_offset <= offset < end:
            raise self._out_of_range(offset, end)
        for batches in RemoteScan(self, offset, offset + 1, None, None, settled, 1, None).chunks():
            for record in batches:
                return record.copy()
        return None

    def scan(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        since: When | None = None,
        until: When | None = None,
        isolation: Isolation | str | None = None,
        max_bytes: int = DEFAULT_READ_BYTES,
        on_damage: str = "raise",
        limit: int | None = None,
    ) -> RemoteScan:
        """Fix a range of records; see `Log.scan`. Damage cannot be skipped, since brokers send whole batches.

        Raises:
            OffsetOutOfRangeError: ``start`` or ``end`` is outside of the partition.
            UnsupportedOperationError: ``on_damage`` is "skip".
            and as `Log.scan`.
        """
        if on_damage == "skip":
            raise UnsupportedOperationError(
                f"partition {self.name}: damage is skipped only in files; leave on_damage out on a cluster"
            )
        if on_damage != "raise":
            raise ValueError(f"on_damage is 'raise' or 'skip', found {on_damage!r}")
        settled = self._chosen(isolation)
        if self._ends is None:
            visible, first_kept = self.end_offset(settled), self.log_start_offset
        else:
            first_kept, visible = self._ends
        first = first_kept if start is None else start
        if first < 0:
            first = max(visible + first, first_kept)
        last = visible if end is None else end
        if not first_kept <= first <= visible:
            raise self._out_of_range(first, visible)
        if not 0 <= last <= visible:
            raise self._out_of_range(last, visible)
        since_ms = None if since is None else moment_of(since, self._clock)
        until_ms = None if until is None else moment_of(until, self._clock)
        check_limit(limit)
        return RemoteScan(self, first, last, since_ms, until_ms, settled, max_bytes, limit)

    def _out_of_range(self, offset: int, end: int) -> OffsetOutOfRangeError:
        start = self.log_start_offset
        return OffsetOutOfRangeError(
            f"{self.name}: offset {offset} is out of range, the partition holds {start} to {end - 1}", offset=offset
        )

    def __repr__(self) -> str:
        return f"<RemotePartition {self.name}>"


class RemoteScan:
    """A range of one partition, which may be used any number of times."""

    def __init__(
        self,
        partition: RemotePartition,
        start: int,
        end: int,
        since_ms: int | None,
        until_ms: int | None,
        isolation: Isolation,
        max_bytes: int,
        limit: int | None,
    ) -> None:
        self.start_offset = start
        self.end_offset = end
        self._partition = partition
        self._times = since_ms, until_ms
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._limit = limit

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Nothing: damage is never skipped."""
        return ()

    def chunks(self) -> Iterator[Batches]:
        """Iterate over the range as runs of whole batches, one fetch each.

        Raises:
            OffsetOutOfRangeError: records of the range were deleted, or cut off.
            BrokerTimeoutError: records that are there do not come.
            CorruptRecordError: a received batch is damaged.
            UnknownTopicError: the topic is gone, or another one has its name.
        """
        return self._chunks() if self._limit is None else limited(self._chunks(), self._limit)

    def count(self) -> int:
        """Count the records of the range, by reading it."""
        return sum(batches.count() for batches in self.chunks())

    def _chunks(self) -> Iterator[Batches]:
        partition, client = self._partition, self._partition._client
        name, offset, end = partition.name, self.start_offset, self.end_offset
        since_ms, until_ms = self._times
        if since_ms is not None and offset < end:
            found = partition.offset_for_time(since_ms, isolation=self._isolation)
            offset = end if found is None else max(offset, found.offset)
        committed = self._isolation is Isolation.READ_COMMITTED
        while offset < end:
            attempts = client.cluster.attempts(
                f"scan of {name} from offset {offset}", min(client.config.default_api_timeout_ms, STALLED_MS)
            )
            while True:
                fetched = client.fetch(
                    name,
                    offset,
                    max_bytes=self._max_bytes,
                    isolation=self._isolation,
                    topic_id=partition.topic_id,
                )
                if fetched.data:
                    break
                gap_end = next_batch_offset(client, name, offset, partition.topic_id) if committed else -1
                if gap_end > offset:
                    break
                attempts.pause(self._stalled(offset))
            if not fetched.data:
                offset = min(gap_end, end)
                continue
            reached = min(fetched.next_offset, end)
            yield Batches(
                fetched.data,
                start_offset=offset,
                end_offset=end,
                since_ms=since_ms,
                until_ms=until_ms,
                topic=name.topic,
                partition=name.partition,
                aborted=fetched.aborted,
                committed_only=committed,
                next_offset=reached,
            )
            offset = reached

    def _stalled(self, offset: int) -> LogstoreError:
        end = self._partition.end_offset(self._isolation)
        where = f"nothing comes from offset {offset} on, of offsets {self.start_offset} to {self.end_offset - 1}"
        if end < self.end_offset:
            return OffsetOutOfRangeError(
                f"{self._partition.name}: the partition ends at {end}: {where}", offset=offset
            )
        return BrokerTimeoutError(f"{self._partition.name}: {where}, though the partition reaches to {end}")

    def __iter__(self) -> Iterator[Record]:
        for batches in self.chunks():
            yield from batches

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            f"a scan of {self._partition.name} cannot be pickled: it belongs to a connection to a cluster; "
            "the other process needs its own, and the same offsets: call scan(start, end) there"
        )

    def __repr__(self) -> str:
        return f"<RemoteScan {self._partition.name} {self.start_offset}..{self.end_offset}>"
