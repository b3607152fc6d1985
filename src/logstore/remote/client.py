"""Client of a Kafka cluster: metadata of topics, offsets and records.

Creation, deletion and settings of topics are in `administration`. `cluster` handles leaders, lost connections and
retries; `protocol` encodes and decodes messages. A fetch returns whole record batches as stored in the log, and
aborted transactions as ranges of offsets. The caller decodes the batches with `Batches`. Any thread may use a
client.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from logstore.client.backend.backend import OneRound
from logstore.config.remote import WireConfig
from logstore.config.schema import Setting
from logstore.errors import (
    LogstoreError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicRecreatedError,
)
from logstore.protocol import codes
from logstore.protocol.generated.messages import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from logstore.protocol.grouping import by_topic
from logstore.records import INT32_MAX, Isolation, NewTopic, TopicPartition
from logstore.remote.administration import Administrator
from logstore.remote.answers import PartRecords, records_of
from logstore.remote.backoff import Attempts
from logstore.remote.cluster import Cluster
from logstore.remote.metadata.known import KnownCluster, KnownTopic
from logstore.remote.network.link import BrokerLink
from logstore.remote.sasl.tokens import OAuthToken

if TYPE_CHECKING:
    from logstore.config.generated.keywords import ClientSettings

__all__ = ["EARLIEST", "LATEST", "Client", "EpochEnd", "Fetched", "ListedOffset", "NewTopic"]

EARLIEST = -2  #: for `Client.list_offsets`: the log start offset
LATEST = -1  #: for `Client.list_offsets`: the high watermark, or the last stable offset

#: The first version of Fetch that names topics by their ids.
FETCH_BY_ID = 13


class ListedOffset(NamedTuple):
    """The offset found for a timestamp in one partition.

    ``offset`` is -1 if all records have older timestamps.
    """

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class EpochEnd(NamedTuple):
    """The leader epoch that a broker found for the requested one, and its end offset; both -1: none was found.

    Without the requested epoch it is the newest older one. If only newer epochs are left, ``end_offset`` is the
    start offset of the oldest of them.
    """

    leader_epoch: int
    end_offset: int


class Fetched(NamedTuple):
    """Whole record batches, and the offsets of the partition that the broker reports.

    The next fetch continues at ``next_offset``, even if the batches hold no record that a reader sees.
    The three offsets that the broker reports are -1 if its answer left the partition out. ``aborted`` holds the
    ranges of aborted records, which a committed reader skips. Each is (producer id, first offset, last offset), as
    `logstore.batch._batch.Batches` accepts them.
    """

    data: bytes
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int, int], ...] = ()


def fetched_of(part: Any, records: PartRecords, offset: int) -> Fetched:
    """Return what a partition's part of an answer holds, of a fetch from ``offset``."""
    return Fetched(
        records.data,
        max(records.next_offset, offset),
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        records.aborted,
    )


class Client(Administrator):
    """A client of one Kafka cluster.

    ``bootstrap`` is ``host:port``, comma-separated for several; settings are Kafka's client keys, dotted or as
    keywords (`WireConfig`). Connections are opened by the first call. A call retries after a retriable error until
    ``default.api.timeout.ms`` has passed. Before any broker has answered, a wrong address is more likely than a
    restart of the broker. Until then a call retries for at most ``socket.connection.setup.timeout.ms``;
    ``is_patient=True`` lifts this limit.

    ``security.protocol`` and the keys of ``ssl.*`` and ``sasl.*`` secure the connections. For the mechanism
    OAUTHBEARER, ``oauth_token`` is a function that returns a token, or a token and when it expires, in seconds
    since 1970. It is called when a connection logs in, in the thread of that call.

    >>> client = Client("broker-1:9092", client_id="report", request_timeout_ms=5_000)
    >>> client.config.request_timeout_ms
    5000
    >>> client.close()

    Raises:
        UnknownSettingError, InvalidSettingError: settings are unknown or out of range, or no bootstrap server
            is given; or settings of security are missing or contradict.
        MissingLibraryError: the settings of security need the extra ``[security]``.
    """

    def __init__(
        self,
        bootstrap: str = "",
        settings: Mapping[str, Setting] | None = None,
        /,
        *,
        is_patient: bool = False,
        oauth_token: Callable[[], OAuthToken] | None = None,
        **fields: Unpack[ClientSettings],
    ) -> None:
        if bootstrap:
            fields["bootstrap_servers"] = bootstrap
        self.config = WireConfig.of(settings, **fields)
        self.cluster = Cluster(self.config, is_patient=is_patient, oauth_token=oauth_token)
        #: Replicas that leaders named for fetches: (broker, monotonic time until which it is used).
        self._nearer: dict[TopicPartition, tuple[int, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Calling it again does nothing."""
        self.cluster.close()

    # -- topics ------------------------------------------------------------------------------------

    def metadata(self, topics: Iterable[str] | None = None) -> KnownCluster:
        """Return the brokers, and the given topics with their partitions and leaders; None: every topic.

        Raises:
            UnknownTopicError: a named topic does not exist.
        """
        return self.cluster.refresh(topics)

    def topic(self, name: str, *, fresh: bool = True) -> KnownTopic:
        """Return one topic as a broker reports it now.

        With ``fresh=False`` the cached topic is returned if it is at most ``metadata.max.age.ms`` old.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        return self.cluster.refresh([name]).topics[name] if fresh else self.cluster.topic(name)

    # -- offsets -----------------------------------------------------------------------------------

    def list_offsets(
        self,
        times: Mapping[TopicPartition, int],
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        *,
        asked: OneRound | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Return for each partition the offset of the first record at or after its timestamp in ``times``.

        Timestamps are milliseconds since 1970. If all records have older ones, the offset is -1. Two values stand
        for no timestamp: `EARLIEST` returns the log start offset. `LATEST` returns the high watermark, or with
        ``isolation="read_committed"`` the last stable offset. With a round, the answer lacks what is left in it.

        Raises:
            UnknownTopicError, UnknownPartitionError: a topic or partition does not exist.
        """
        committed = Isolation(isolation) is Isolation.READ_COMMITTED

        def make(connection: BrokerLink, partitions: list[TopicPartition]) -> Any:
            version = connection.version_of(ListOffsetsRequest)
            return ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(committed and version >= 2),
                timeout_ms=self.config.request_timeout_ms,
                topics=[
                    ListOffsetsRequest.ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsRequest.ListOffsetsPartition(
                                partition_index=number,
                                current_leader_epoch=self._epoch(TopicPartition(topic, number)),
                                timestamp=times[TopicPartition(topic, number)],
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
            )

        def read(answer: Any) -> Iterable[tuple[TopicPartition, int, ListedOffset]]:
            for topic in answer.topics:
                for each in topic.partitions:
                    found = ListedOffset(each.offset, each.timestamp, each.leader_epoch)
                    yield TopicPartition(topic.name, each.partition_index), each.error_code, found

        return self.cluster.at_leaders("list offsets", times, make, read, asked)

    def offset_for_leader_epoch(
        self, epochs: Mapping[TopicPartition, int], *, asked: OneRound | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Return for each partition the end offset of its leader epoch in ``epochs``; see `EpochEnd`.

        Raises:
            UnknownTopicError, UnknownPartitionError: a topic or partition does not exist.
        """

        def make(connection: BrokerLink, partitions: list[TopicPartition]) -> Any:
            return OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[
                    OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                        topic=topic,
                        partitions=[
                            OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                                partition=number,
                                current_leader_epoch=self._epoch(TopicPartition(topic, number)),
                                leader_epoch=epochs[TopicPartition(topic, number)],
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
            )

        def read(answer: Any) -> Iterable[tuple[TopicPartition, int, EpochEnd]]:
            for topic in answer.topics:
                for each in topic.partitions:
                    end = EpochEnd(each.leader_epoch, each.end_offset)
                    yield TopicPartition(topic.topic, each.partition), each.error_code, end

        return self.cluster.at_leaders("offset for leader epoch", epochs, make, read, asked)

    def _epoch(self, tp: TopicPartition) -> int:
        """Return the cached leader epoch of a partition, or -1.

        A request carries it: a former leader, whose epoch is older, refuses the request.
        """
        topic = self.cluster.known.topics.get(tp.topic)
        found = topic and topic.partitions.get(tp.partition)
        return found.leader_epoch if found else -1

    # -- records -----------------------------------------------------------------------------------

    def fetch(
        self,
        tp: TopicPartition,
        offset: int,
        *,
        max_bytes: int | None = None,
        max_wait_ms: int | None = None,
        min_bytes: int | None = None,
        isolation: Isolation | str | None = None,
        topic_id: str = "",
    ) -> Fetched:
        """Fetch record batches from ``offset`` on.

        The broker waits up to ``max_wait_ms`` until it has ``min_bytes``. It returns at most ``max_bytes``; a
        first batch that is larger is returned whole. The first batch may begin before ``offset``. An argument
        that is not given defaults to the setting.

        An answer without batches has ``next_offset == offset``. Usually the end is reached: the high watermark, or
        for a committed reader the last stable offset. The broker may also be over its quota, or not have read its
        remote storage yet. So records may follow an empty answer: fetch the same offset again.

        With ``client.rack`` a leader may name a replica in the same rack (KIP-392). This client fetches from that
        replica for ``metadata.max.age.ms``, or until the replica answers with a retriable error.

        ``topic_id`` is the id of the topic that the offset belongs to; empty: any topic of that name.
        CRCs are not checked here.

        Raises:
            OffsetOutOfRangeError: the offset was deleted, or is above the log end offset; the error names the
                partition and its range of offsets.
            RecordTooLargeError: the broker returns only a part of a batch, even for the largest ``max_bytes``.
            TopicRecreatedError: the topic with that id was deleted; another topic has its name.
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
        """
        config = self.config
        size = config.max_partition_fetch_bytes if max_bytes is None else max_bytes
        size = max(1, min(size, config.fetch_max_bytes, INT32_MAX))
        wait_ms = config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        committed = (config.isolation if isolation is None else Isolation(isolation)) is Isolation.READ_COMMITTED
        attempts = self.cluster.attempts("fetch")
        rack = config.client_rack
        while True:
            try:
                return self._fetch_once(
                    tp, offset, size, wait_ms, config.fetch_min_bytes if min_bytes is None else min_bytes,
                    committed, topic_id, rack, attempts,
                )  # fmt: skip
            except _NotWholeError as error:
                # This broker truncates a batch that is larger than `size`: the same request would always fail.
                if size >= INT32_MAX:
                    raise RecordTooLargeError(str(error)) from None
                size = min(max(size * 2, error.batch_bytes), INT32_MAX)
                continue
            except LogstoreError as error:
                if not error.retriable:
                    raise
                if self._nearer.pop(tp, None) is not None:
                    rack = ""  # a follower may be behind or down: the leader must answer itself
                attempts.pause(error)
                self.cluster.forget([tp.topic])
            except _ReplicaIsNearerError as found:
                if found.node in self.cluster.known.brokers:
                    self._nearer[tp] = found.node, time.monotonic() + config.metadata_max_age_ms / 1000
                else:
                    rack = ""  # a new broker whose address is not known yet
                    self.cluster.forget([tp.topic])

    def _fetch_once(
        self,
        tp: TopicPartition,
        offset: int,
        max_bytes: int,
        max_wait_ms: int,
        min_bytes: int,
        committed: bool,
        topic_id: str,
        rack: str,
        attempts: Attempts,
    ) -> Fetched:
        node, leader = self.cluster.leader(tp, attempts)
        current_id = self.cluster.known.topics[tp.topic].id
        if topic_id and current_id and current_id != topic_id:
            # The cached id may be out of date, and so may the caller's: a broker decides.
            current_id = self.cluster.refresh([tp.topic], attempts).topics[tp.topic].id
            node, leader = self.cluster.leader(tp, attempts)
        if topic_id and current_id and current_id != topic_id:
            raise TopicRecreatedError(
                f"topic {tp.topic!r} has the id {current_id}: the one with the id {topic_id} was deleted"
            )
        leading, node = node, self._nearest(tp, node)
        with self.cluster.connection(node) as connection:
            version = connection.version_of(FetchRequest, None if current_id else FETCH_BY_ID - 1)
            by_id = version >= FETCH_BY_ID
            partition = FetchRequest.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=leader.leader_epoch,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
            )
            request = FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                isolation_level=int(committed),
                topics=[
                    FetchRequest.FetchTopic(
                        topic="" if by_id else tp.topic,
                        topic_id=current_id if by_id else "",
                        partitions=[partition],
                    )
                ],
                rack_id=rack if version >= 11 else "",
            )
            answer = connection.ask(request, version=version, wait_ms=max_wait_ms)
            where = f"fetch of {tp} at offset {offset} from {connection}"
        if answer.error_code:
            raise codes.error_of(answer.error_code, where)
        parts = [each for topic in answer.responses for each in topic.partitions]
        if not parts:
            # A broker over its quota leaves the partition out of its answer.
            return Fetched(b"", offset, -1, -1, -1)
        part = parts[0]
        if part.error_code == codes.OFFSET_OUT_OF_RANGE:
            if node != leading:
                raise codes.error_of(codes.OFFSET_NOT_AVAILABLE, where)
            raise self._out_of_range(tp, offset, committed)
        if part.error_code:
            raise codes.error_of(part.error_code, where)
        nearer = getattr(part, "preferred_read_replica", -1)
        if node == leading and nearer not in (-1, leading):
            raise _ReplicaIsNearerError(nearer)
        records = records_of(part, is_committed=committed)
        if not records.data and records.batch_bytes:
            raise _NotWholeError(where, records.batch_bytes)
        return fetched_of(part, records, offset)

    def _nearest(self, tp: TopicPartition, leader: int) -> int:
        """Return the broker to fetch from: a replica that the leader named recently, else the leader itself."""
        node, until_s = self._nearer.get(tp, (leader, math.inf))
        if time.monotonic() < until_s and node in self.cluster.known.brokers:
            return node
        self._nearer.pop(tp, None)
        return leader

    def _out_of_range(self, tp: TopicPartition, offset: int, committed: bool) -> OffsetOutOfRangeError:
        start = self.list_offsets({tp: EARLIEST})[tp].offset
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        end = self.list_offsets({tp: LATEST}, isolation)[tp].offset
        why = "was deleted" if offset < start else "is not there yet, or was cut off"
        return OffsetOutOfRangeError(
            f"offset {offset} of partition {tp} {why}: it holds the offsets from {start} to before {end}",
            offset=offset,
        )


class _ReplicaIsNearerError(Exception):
    """A leader named a nearer replica to fetch from."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.node = node


class _NotWholeError(Exception):
    """A fetch returned only the beginning of one batch."""

    def __init__(self, where: str, batch_bytes: int) -> None:
        super().__init__(f"{where}: the broker returned only a part of a batch of {batch_bytes} bytes")
        self.batch_bytes = batch_bytes
