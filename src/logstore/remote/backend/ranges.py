"""Ranges of topics of a Kafka cluster, read over its protocol: from any Kafka broker, or logstore's own.

A `ClusterRanges` serves the tasks of a query. It asks the leaders of partitions, and caches what they say only
briefly. Record batches go from the broker's response to the decoder unchanged, whatever their codec. The
broker lists the aborted transactions that a committed reader skips. Any thread may use it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from functools import partial

from logstore.batch._batch import Batches
from logstore.client.backend.ranges import Range, RangeBackend
from logstore.config.schema import Setting
from logstore.errors import (
    BrokerTimeoutError,
    DataLossError,
    LogstoreError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UnknownTopicError,
)
from logstore.records import Isolation, TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.backend.partition import next_batch_offset
from logstore.remote.client import LATEST, Client, Fetched

#: How long the size of a partition is cached.
SIZES_S = 30.0

#: How long the leader epoch of a partition is cached.
EPOCHS_S = 0.1

#: How long a fetch of records that were readable at planning may return none.
STALLED_MS = 15_000

#: How long a topic that existed at planning may be unknown to the broker.
UNKNOWN_MS = 5_000

#: A fetch asks for this much more than the estimated size of its range, so that a second one is rarely needed.
SLACK = 1.25
SLACK_BYTES = 65_536


class ClusterRanges(RangeBackend):
    """Back end for the cluster behind some bootstrap servers.

    ``settings`` are Kafka's client settings by their dotted names. It connects at the first request.

    Owns: the connections, until `close`.

    Raises:
        UnknownSettingError, InvalidSettingError: a setting is refused.
    """

    is_remote = True

    def __init__(
        self,
        bootstrap: str,
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        given = dict(settings or {})
        # An impatient client would fail a stream whose batch is planned in a new process while brokers restart.
        self._client = Client(bootstrap, given, is_patient=True)
        super().__init__(RemoteBackend(self._client), isolation)
        self._fetch_bytes = (
            self._client.config.max_partition_fetch_bytes if "max.partition.fetch.bytes" in given else None
        )
        #: Bytes per offset: of a partition's last fetch, and of the whole partition with the time of measuring.
        self._seen: dict[TopicPartition, float] = {}
        self._sizes: dict[TopicPartition, tuple[float, float]] = {}
        self._epochs: dict[TopicPartition, tuple[int, float]] = {}

    # -- epochs

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._client.list_offsets(dict.fromkeys(partitions, LATEST), self._isolation)
        now = time.monotonic()
        self._epochs.update({tp: (each.leader_epoch, now) for tp, each in found.items()})
        return {tp: each.offset for tp, each in found.items()}

    def epoch_at(self, tp: TopicPartition) -> int:
        # A trigger calls `latest` for all partitions just before: its responses had the epochs, so save a request.
        found = self._epochs.get(tp)
        if found is None or time.monotonic() - found[1] > EPOCHS_S:
            self.latest([tp])
            found = self._epochs[tp]
        return found[0]

    # -- ranges

    def offset_after_bytes(self, tp: TopicPartition, start: int, end: int, max_bytes: int) -> int:
        if end <= start + 1:
            return end
        density = self._density(tp, start)
        return min(end, start + max(1, math.floor(max_bytes / density)))

    def _density(self, tp: TopicPartition, start: int) -> float:
        """Return the bytes per offset of a partition."""
        found = self._sizes.get(tp)
        if found is None or time.monotonic() - found[1] > SIZES_S:
            found = self._sizes[tp] = (self._measured(tp, start), time.monotonic())
        return found[0]

    def _measured(self, tp: TopicPartition, start: int) -> float:
        try:
            size = self._client.log_dir_sizes([tp.topic]).get(tp, 0)
            offsets = self.latest([tp])[tp] - self.earliest([tp])[tp]
        except UnknownTopicError:
            raise
        except LogstoreError:
            # A broker may not let this client describe its directories: estimate from a piece of the log.
            sample = self._client.fetch(tp, start, max_bytes=SLACK_BYTES, isolation=self._isolation)
            size, offsets = len(sample.data), sample.next_offset - start
        return max(size / offsets, 1e-3) if size > 0 and offsets > 0 else 100.0

    def prune_by_time(self, range: Range, since_ms: int | None, until_ms: int | None) -> Range:
        # Producers give timestamps in any order, so older records may follow a newer one in the log. Moving the
        # end would lose those; only the start can move.
        if since_ms is None or range.start >= range.end:
            return range
        tp = range.tp
        first = self.offsets_for_time({tp: since_ms})[tp]
        if first is None:
            return range._replace(start=range.end)
        return range._replace(start=min(max(range.start, first), range.end))

    # -- records

    def fetch(self, range: Range, max_bytes: int) -> Batches:
        tp, offset = range.tp, range.start
        run_of = partial(
            Batches, start_offset=offset, end_offset=range.end, topic=range.topic, partition=range.partition
        )
        size = self._fetch_bytes or max_bytes
        attempts = self._client.cluster.attempts(
            f"fetch of {tp} from offset {offset}", min(self._client.config.default_api_timeout_ms, STALLED_MS)
        )
        unknown = self._client.cluster.attempts(f"topic {range.topic!r}", UNKNOWN_MS)
        while offset < range.end:
            density = self._seen.get(tp)
            wanted = size
            if density is not None:
                wanted = min(size, int((range.end - offset) * density * SLACK) + SLACK_BYTES)
            try:
                found = self._client.fetch(
                    tp, offset, max_bytes=wanted, isolation=self._isolation, topic_id=range.topic_id
                )
            except TopicRecreatedError as error:
                raise range._replace(start=offset).recreated() from error
            except UnknownTopicError as error:
                # The topic existed at planning: a broker with old metadata may not know it yet.
                unknown.pause(error)
                continue
            if found.data:
                self._seen[tp] = len(found.data) / max(found.next_offset - offset, 1)
                committed = self._isolation is Isolation.READ_COMMITTED
                reached = min(found.next_offset, range.end)
                return run_of(found.data, aborted=found.aborted, committed_only=committed, next_offset=reached)
            # Only a committed reader may not see the batch that shows a gap.
            is_committed = self._isolation is Isolation.READ_COMMITTED
            first = next_batch_offset(self._client, tp, offset, range.topic_id) if is_committed else -1
            if first > offset:
                offset = min(first, range.end)
            else:
                # The range was readable at planning. The cause may pass (a quota, a broker that fetches from other
                # storage, a new leader without the high watermark yet), or the log was truncated.
                attempts.pause(self._stalled(tp, offset, range, found))
        return run_of(b"", next_offset=max(range.start, range.end))

    def _stalled(self, tp: TopicPartition, offset: int, range: Range, found: Fetched) -> LogstoreError:
        """Return the error for a range that could be read when the query was planned, and now cannot."""
        end = self.latest([tp])[tp]
        where = f"nothing comes from offset {offset} on, of offsets {range.start} to {range.end - 1}"
        if end < range.end:
            return OffsetOutOfRangeError(f"partition {tp} ends at offset {end}: {where}", offset=offset)
        said = f"partition {tp} has records up to offset {end}, but {where}"
        if found.high_watermark < range.end:
            return BrokerTimeoutError(said)
        return DataLossError(
            f"{said}: the broker answers, without records. Either it is slow to fetch them, so try again, or "
            "compaction has left none there, which failOnDataLoss=false passes over"
        )

    def close(self) -> None:
        self._client.close()
