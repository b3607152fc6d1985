"""What one consumer fetches: one long poll for each broker, in fetch sessions, ahead of what is handed out.

`Fetching` is a service of the thread of the sockets. It has at most one fetch out to each broker, for all of the
partitions that it leads or is nearest of; a session (KIP-227) names only what has changed since the last one. It
follows leaders by what answers say (KIP-951) and by metadata, checks a position with each new leader (KIP-320), and
fetches from the nearest replica (KIP-392). Fetched bytes that wait to be handed out are at most
``fetch.max.bytes``, but for a single batch that is larger. The lock guards what the consumer's thread shares: the
cursors.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from logstore.clock import retry_pause_ms
from logstore.config.remote import WireConfig
from logstore.errors import (
    AuthenticationError,
    ClientClosedError,
    ForkedError,
    LogstoreError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from logstore.io._files import fork_generation
from logstore.io._interrupts import held
from logstore.io._notifier import Notifier
from logstore.protocol import codes
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest, OffsetForLeaderEpochRequest
from logstore.records import INT32_MAX, Isolation, TopicPartition
from logstore.remote.backend.cursors import Arrived, RemoteCursor
from logstore.remote.client import Fetched
from logstore.remote.fetch.position import AskedPlace, FetchedPart, Outcome
from logstore.remote.fetch.session import FetchLimits, FetchRequests, Verdict, WantedPartition
from logstore.remote.metadata.known import KnownBroker, KnownCluster, NewLeader
from logstore.remote.network.calls import Call, Waiting, answer_of
from logstore.remote.network.connection import NodeConnection, Stage
from logstore.remote.network.link import limit_ms
from logstore.remote.network.loop import NetworkThread
from logstore.remote.network.metadata_updates import MetadataUpdates
from logstore.remote.network.opening import version_for

_logger = logging.getLogger(__name__)

_UNKNOWN = (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID, codes.INCONSISTENT_TOPIC_ID)

#: So often the same long poll is repeated before all partitions are looked at again: replicas become too old.
_MOST_REPEATS = 20

#: An answer of so few bytes is handed out before the next fetch is made; after a larger one more is to be had.
_FEW_BYTES = 1 << 14


class _InRequest:
    """A partition in the request that is out: where it was asked for, and by which beginning of its cursor."""

    __slots__ = ("cursor", "epoch", "generation", "offset", "seeks")

    def __init__(self, cursor: RemoteCursor) -> None:
        self.cursor = cursor
        self.seeks = cursor.place_of
        self.offset = cursor.place.offset
        self.epoch = cursor.place.offset_epoch
        self.generation = cursor.place.generation


class _Node:
    """One broker: its connection, the session, and the request that is out."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.connection: NodeConnection | None = None
        self.requests = FetchRequests()
        self.asked: dict[TopicPartition, _InRequest] = {}
        self.is_opening = False
        self.checks = 0  #: requests for the ends of epochs that are out
        self.not_before_s = 0.0
        self.failures = 0  #: in a row
        #: Whether it had nothing for those partitions of which nothing waits to be handed out.
        self.is_dry = False
        #: The last request, to be repeated while nothing has changed; and how often in a row it was.
        self.last: tuple[list[WantedPartition], FetchLimits, int] | None = None
        self.repeats = 0

    @property
    def is_busy(self) -> bool:
        return self.is_opening or self.requests.is_out


class Fetching:
    """The fetches of one consumer. `go_on`, `stop` and what the lock guards are for its thread, the rest is not."""

    def __init__(
        self,
        thread: NetworkThread,
        metadata: MetadataUpdates,
        config: WireConfig,
        isolation: Isolation,
        notifier: Notifier,
    ) -> None:
        self.lock = threading.Lock()
        self.cursors: dict[TopicPartition, RemoteCursor] = {}
        self.notifier = notifier
        self._thread = thread
        self._metadata = metadata
        self._config = config
        self._committed = isolation is Isolation.READ_COMMITTED
        self._fork = fork_generation()
        self._ends = False
        self._has_begun = False
        self._must_look = False  #: whether a turn has something to do besides what is due
        self._wakes = True  #: whether `go_on` has to tell the thread
        self._due_s = math.inf
        self._nodes: dict[int, _Node] = {}
        self._known: KnownCluster | None = None

    # -- from other threads

    def go_on(self) -> None:
        """Have the thread look for what there is to fetch.

        Raises:
            ForkedError, ClientClosedError: the fetcher cannot be used.
        """
        if self._fork != fork_generation():
            raise ForkedError("the consumer was opened before a fork; call store.consumer() in the child")
        if self._ends:
            raise ClientClosedError("the client is closed")
        self._must_look = True
        if not self._has_begun:
            self._has_begun = True
            self._thread.hand_over(self._thread.add, self)
        elif self._wakes:
            # Work, and not a bare wake-up: it costs no system call while the thread is awake.
            self._thread.hand_over(self._look)

    def stop(self) -> None:
        """End the fetches. Takes no lock, and may be called again."""
        if not self._ends:
            self._ends = True
            if self._has_begun and self._thread.is_usable():
                self._thread.hand_over(self._thread.remove, self)

    # -- of the thread of the sockets

    def _look(self, now_s: float) -> None:
        self._must_look = True

    def turn(self, now_s: float) -> float:
        known = self._metadata.known
        if self._must_look or known is not self._known or now_s >= self._due_s:
            # Before the look: what is wanted from now on wakes the thread again.
            self._must_look = False
            self._wakes = True
            self._known = known
            self._due_s = self._ask_all(known, now_s)
        return now_s if self._must_look else self._due_s

    def end(self, error: LogstoreError) -> None:
        self._ends = True
        for node in self._nodes.values():
            connection = node.connection
            if connection is None:
                continue
            if node.requests.is_out:
                node.requests.lost()
            request = node.requests.closing_request()
            if request is not None and connection.stage is Stage.READY:
                # The broker keeps its place for other sessions; no answer is waited for.
                version = version_for(FetchRequest, connection.versions, connection)
                self._put(connection, request, version, 0, _drop, self._thread.now_s())
            connection.fail(ClientClosedError(f"{connection}: the consumer is closed"))
        self._fail(self._all(), error)

    def _ask_all(self, known: KnownCluster, now_s: float) -> float:
        """Send each broker that is free a request for what is wanted of it; return when something is due."""
        due_s = math.inf
        if self._metadata.refused is not None and not known.topics:
            self._fail([each for each in self._all() if each.is_wanted], self._metadata.refused)
            return due_s
        most = self._config.max_partition_fetch_bytes
        full: set[int] = set()  #: brokers of partitions that have enough
        wanted: list[RemoteCursor] = []
        out = sum(node.last[1].max_bytes for node in self._nodes.values() if node.requests.is_out and node.last)
        with held(self.lock):
            used = out + sum(cursor.buffered for cursor in self.cursors.values())
            for cursor in self.cursors.values():
                if not cursor.is_wanted or cursor.position < 0 or cursor.error is not None:
                    continue
                # Half of it: the next fetch is made while the last one's records are handed out.
                if cursor.buffered > most // 2:
                    full.add(cursor.node)
                    continue
                wanted.append(cursor)
                if cursor.place_of != cursor.seeks:
                    cursor.place_of = cursor.seeks
                    cursor.place.seek(cursor.position, cursor.epoch)
                    cursor.not_before_s = 0.0
            if wanted:
                used -= self._make_way_locked(self._config.fetch_max_bytes - used, out)
        by_node: dict[int, list[RemoteCursor]] = defaultdict(list)
        to_check: dict[int, list[RemoteCursor]] = defaultdict(list)
        for cursor in wanted:
            if cursor.not_before_s > now_s:
                due_s = min(due_s, cursor.not_before_s)
                continue
            leader = self._leader_of(cursor, known)
            if leader < 0:
                if cursor.name.topic not in known.topics and cursor.error is None:
                    # Answers that do not know a topic change nothing that is known: the last of them is looked for.
                    due_s = min(due_s, self._pause_end())
                continue
            if cursor.place.epoch_to_check() is not None:
                to_check[leader].append(cursor)
                continue
            chosen = cursor.place.node(now_s, known.brokers)
            if chosen is not None:
                by_node[chosen].append(cursor)
        # Asked after the leaders: a topic that is gone is told, also while all that may be fetched is asked for.
        left = self._config.fetch_max_bytes - used
        if used and left < most:
            return due_s
        # Those that are being connected to count: the others must leave them a share.
        free = [each for each in by_node if each not in self._nodes or not self._nodes[each].requests.is_out]
        share = max(1, left // max(len(free), 1))
        for number in [*to_check, *(each for each in by_node if each not in to_check)]:
            node = self._nodes.get(number) or self._nodes.setdefault(number, _Node(number))
            if node.is_opening:
                continue
            if now_s < node.not_before_s:
                due_s = min(due_s, node.not_before_s)
                continue
            if node.connection is None or node.connection.stage is Stage.CLOSED:
                self._open(node, known.brokers[number])
                continue
            if number in to_check and not node.checks:
                self._check(node, to_check[number], now_s)
            if number not in full:
                node.is_dry = False
            if number in by_node and not node.requests.is_out and not node.is_dry:
                # A long poll for the others would keep a partition waiting that is empty in a moment.
                wait_ms = 0 if number in full else self._config.fetch_max_wait_ms
                self._send(node, by_node[number], share, wait_ms, known, now_s)
        # While each broker that may be asked has a request out, its answer is what makes the next turn.
        with held(self.lock):
            leaders = {self._leader_now(each, known) for each in self.cursors.values()}
        is_each_busy = all(number in self._nodes and self._nodes[number].is_busy for number in leaders)
        # Without a partition there is no answer to come: a member of a group may get its first one any time.
        self._wakes = not (leaders and is_each_busy)
        return due_s

    def _make_way_locked(self, left: int, out: int) -> int:
        """Drop what waits for paused partitions, if that keeps the others from being fetched; return its bytes.

        ``left`` are the free bytes, ``out`` those that were asked for: all else is handed out, or answered, soon.
        """
        config = self._config
        if left >= config.max_partition_fetch_bytes:
            return 0
        paused = [cursor for cursor in self.cursors.values() if cursor.buffered and not cursor.is_wanted]
        waiting = sum(cursor.buffered for cursor in paused)
        if out and waiting <= config.fetch_max_bytes // 2:
            return 0
        for cursor in paused:
            cursor.drop_locked()
        return waiting

    def _all(self) -> list[RemoteCursor]:
        """Return the cursors of now: the consumer's thread may add one meanwhile."""
        with held(self.lock):
            return list(self.cursors.values())

    def _leader_now(self, cursor: RemoteCursor, known: KnownCluster) -> int:
        found = known.leader(cursor.name)
        return -1 if found is None else found.leader

    def _leader_of(self, cursor: RemoteCursor, known: KnownCluster) -> int:
        """Tell a cursor its leader; return -1 if there is none now."""
        name = cursor.name
        topic = known.topics.get(name.topic)
        if not self._metadata.is_wanted(name.topic):
            self._metadata.want([name.topic])
        if topic is None:
            if self._metadata.is_missing(name.topic):
                self._fail([cursor], UnknownTopicError(f"the cluster has no topic {name.topic!r}"))
            elif self._metadata.refusal(name.topic):
                self._fail([cursor], codes.error_of(self._metadata.refusal(name.topic), f"topic {name.topic!r}"))
            return -1
        found = topic.partitions.get(name.partition)
        if found is None or found.leader not in known.brokers:
            self._metadata.mark_out_of_date()
            cursor.not_before_s = self._pause_end()
            return -1
        cursor.place.led(found.leader, found.leader_epoch)
        return found.leader

    # -- connections

    def _open(self, node: _Node, broker: KnownBroker) -> None:
        node.is_opening = True
        node.connection = self._thread.open_soon(broker.address, node=node.number, then=partial(self._opened, node))

    def _opened(self, node: _Node, found: Waiting[None]) -> None:
        node.is_opening = False
        self._must_look = True
        if found.error is not None and not self._ends:
            node.connection = None
            self._node_failed(node, found.error)

    def _node_failed(self, node: _Node, error: LogstoreError) -> None:
        if isinstance(error, AuthenticationError) or not error.retriable:
            theirs = [each for each in self._all() if self._is_of(each, node.number)]
            self._fail(theirs, error)
        elif not node.failures:
            _logger.warning("a broker does not answer, it is asked again: %s", error)
        config = self._config
        pause_ms = retry_pause_ms(
            node.failures, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self._thread.rng
        )
        node.failures += 1
        node.not_before_s = self._thread.now_s() + pause_ms / 1000
        # Another broker may lead these partitions now.
        self._metadata.mark_out_of_date()

    def _is_of(self, cursor: RemoteCursor, number: int) -> bool:
        return cursor.is_wanted and self._leader_now(cursor, self._metadata.known) == number

    # -- fetches

    def _send(
        self,
        node: _Node,
        cursors: list[RemoteCursor],
        max_bytes: int,
        wait_ms: int,
        known: KnownCluster,
        now_s: float,
    ) -> None:
        connection, config = node.connection, self._config
        assert connection is not None
        wanted = []
        largest = 0
        for cursor in cursors:
            place = cursor.place
            size = cursor.max_bytes or config.max_partition_fetch_bytes
            largest = max(largest, cursor.max_bytes)
            # The id that the position belongs to: a broker refuses it once another topic has the name.
            topic_id = cursor.topic_id or known.topics[cursor.name.topic].id
            wanted.append(
                WantedPartition(cursor.name, place.offset, size, topic_id, place.leader_epoch, place.offset_epoch)
            )
        try:
            version = FetchRequests.version_for(wanted, version_for(FetchRequest, connection.versions, connection))
        except UnsupportedVersionError as error:
            self._fail(cursors, error)
            return
        limits = FetchLimits(
            max_wait_ms=wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=min(max(max_bytes, largest), INT32_MAX),
            is_committed=self._committed,
            rack=config.client_rack,
        )
        node.asked = {cursor.name: _InRequest(cursor) for cursor in cursors}
        node.last, node.repeats = (wanted, limits, version), 0
        self._send_last(node, connection, now_s)

    def _send_last(self, node: _Node, connection: NodeConnection, now_s: float) -> None:
        assert node.last is not None
        wanted, limits, version = node.last
        request = node.requests.next_request(wanted, limits, version)
        wait_ms = limits.max_wait_ms
        self._put(connection, request, version, wait_ms, partial(self._answered, node, wait_ms == 0), now_s)

    def _put(
        self,
        connection: NodeConnection,
        request: Any,
        version: int,
        wait_ms: int,
        then: Callable[[Call], object],
        now_s: float,
    ) -> None:
        number = connection.next_number()
        frame = encode_request(request, version, number, self._config.client_id)
        limit_s = limit_ms(self._config, wait_ms) / 1000
        connection.put(Call(frame, request.API_KEY, version, number, limit_s, then), now_s)

    def _answered(self, node: _Node, is_glance: bool, call: Call) -> None:
        is_repeated = False
        try:
            is_repeated = not self._ends and self._is_repeated(node, is_glance, call)
        finally:
            # Never to False: what `go_on` has set meanwhile would be lost.
            if not is_repeated:
                self._must_look = True

    def _is_repeated(self, node: _Node, is_glance: bool, call: Call) -> bool:
        """Take an answer; if nothing has come and nothing has changed, send the same request, and return True."""
        has_changed = self._must_look
        answer = self._decoded(node, call)
        if answer is None:
            node.requests.lost()
            return False
        now_s = self._thread.now_s()
        connection = node.connection
        assert connection is not None
        if answer.throttle_time_ms > 0:
            connection.throttle(answer.throttle_time_ms)
        found = node.requests.took(answer)
        where = f"fetch from {connection}"
        if found.verdict is Verdict.REFUSED:
            self._node_failed(node, codes.error_of(found.code, where))
            return False
        node.failures = 0
        if found.verdict is Verdict.BEGINS_AGAIN:
            if found.code in _UNKNOWN:
                self._metadata.mark_out_of_date()
                node.not_before_s = now_s + self._pause_s()
            return False
        if (
            found.verdict is Verdict.TAKEN
            and not (found.parts or has_changed or is_glance)
            and self._metadata.known is self._known
            and node.repeats < _MOST_REPEATS
        ):
            # A long poll in vain: without a look at each partition, a thousand idle ones cost next to nothing.
            node.repeats += 1
            self._send_last(node, connection, now_s)
            return True
        endpoints = {
            each.node_id: KnownBroker(each.host, each.port, each.rack)
            for each in getattr(answer, "node_endpoints", ())
        }
        news = False
        for name, part in found.parts.items():
            asked = node.asked.get(name)
            if asked is not None:
                news = self._took(node, asked, part, endpoints, where, now_s) or news
        node.is_dry = is_glance and not news
        if not news:
            return False
        if len(call.result or b"") <= _FEW_BYTES:
            # The consumer has waited for few records: these come first, and the next long poll after them.
            self.notifier.notify_first()
        else:
            self.notifier.notify()
        return False

    def _decoded(self, node: _Node, call: Call) -> Any | None:
        """Return the message of an answer; None if there is none, which is dealt with."""
        try:
            return answer_of(call)
        except LogstoreError as error:
            if node.connection is not None:
                node.connection.fail(error)
            self._node_failed(node, error)
            return None

    def _took(
        self,
        node: _Node,
        asked: _InRequest,
        part: Any,
        endpoints: dict[int, KnownBroker],
        where: str,
        now_s: float,
    ) -> bool:
        """Take a partition's part of an answer; return whether its consumer has to look."""
        cursor, place = asked.cursor, asked.cursor.place
        try:
            found = place.took(
                part,
                node=node.number,
                generation=asked.generation,
                now_s=now_s,
                near_s=self._config.metadata_max_age_ms / 1000,
                is_committed=self._committed,
            )
        except LogstoreError as error:
            return self._fail([cursor], error, asked)  # bytes that are no batches
        here = f"{where}: {cursor.name} at offset {asked.offset}"
        outcome = found.outcome
        if outcome is Outcome.RECORDS:
            return self._add(node, asked, part, found)
        if outcome is Outcome.RETRY:
            self._retry(asked, part, endpoints, here)
        elif outcome is Outcome.NEARER:
            if place.node(now_s, self._metadata.known.brokers) == node.number:
                # A replica whose address is not known yet: without the pause the leader would name it at once.
                self._metadata.mark_out_of_date()
                cursor.not_before_s = self._pause_end()
        elif outcome is Outcome.TOO_LARGE:
            size = cursor.max_bytes or self._config.max_partition_fetch_bytes
            if size >= INT32_MAX:
                return self._fail([cursor], RecordTooLargeError(f"{here}: only a part of a batch comes"), asked)
            cursor.max_bytes = min(max(2 * size, found.batch_bytes), INT32_MAX)
        elif outcome is Outcome.OUT_OF_RANGE:
            why = f"{here}: the log does not hold that offset"
            return self._fail([cursor], OffsetOutOfRangeError(why, offset=asked.offset), asked)
        elif outcome is Outcome.DIVERGED:
            return self._diverged(asked, found, here)
        elif outcome is Outcome.REFUSED:
            return self._fail([cursor], codes.error_of(found.code, here), asked)
        return False

    def _add(self, node: _Node, asked: _InRequest, part: Any, found: FetchedPart) -> bool:
        cursor = asked.cursor
        cursor.max_bytes = 0
        fetched = Fetched(
            found.data,
            max(found.offset, asked.offset),
            part.high_watermark,
            part.last_stable_offset,
            part.log_start_offset,
            found.aborted,
        )
        with held(self.lock):
            if self.cursors.get(cursor.name) is not cursor or cursor.seeks != asked.seeks:
                return False  # the consumer has gone elsewhere since
            cursor.node = node.number
            cursor.add_locked(Arrived(asked.offset, fetched, asked.epoch, found.epoch))
            # The partition goes to the end of the row: the others have their turn before it.
            self.cursors[cursor.name] = self.cursors.pop(cursor.name)
        return True

    def _retry(self, asked: _InRequest, part: Any, endpoints: dict[int, KnownBroker], here: str) -> None:
        """Ask again: at once of a new leader that the answer names, else after a pause."""
        cursor = asked.cursor
        told = getattr(part, "current_leader", None)
        if told is not None and told.leader_id >= 0:
            leader = NewLeader(cursor.name, told.leader_id, told.leader_epoch)
            if self._metadata.led([leader], endpoints):
                return
        self._metadata.mark_out_of_date()
        cursor.not_before_s = self._pause_end()
        if part.error_code in _UNKNOWN and cursor.topic_id:
            # Deleted, or a broker that has not heard of it yet: the metadata decide.
            topic = self._metadata.known.topics.get(cursor.name.topic)
            if topic is not None and topic.id and topic.id != cursor.topic_id:
                self._fail([cursor], UnknownTopicError(f"{here}: another topic has that name"), asked)

    def _diverged(self, asked: _InRequest, found: FetchedPart, here: str) -> bool:
        cursor = asked.cursor
        if found.offset < 0:
            why = f"{here}: the leader knows no epoch of the record before it"
            return self._fail([cursor], OffsetOutOfRangeError(why, offset=asked.offset), asked)
        if found.offset < asked.offset:
            _logger.warning(
                "the log was cut below the position, later records replace those read: partition=%s offset=%d "
                "new_offset=%d",
                cursor.name,
                asked.offset,
                found.offset,
            )
        with held(self.lock):
            if cursor.seeks == asked.seeks:
                cursor.cut_locked(min(found.offset, asked.offset), found.epoch)
        self.notifier.notify()
        return True

    # -- the check of positions

    def _check(self, node: _Node, cursors: list[RemoteCursor], now_s: float) -> None:
        """Ask a new leader where the epochs end that the positions were read in."""
        connection = node.connection
        assert connection is not None
        R = OffsetForLeaderEpochRequest
        try:
            version = version_for(R, connection.versions, connection)
        except UnsupportedVersionError:
            for cursor in cursors:
                cursor.place.skip_check()
            self._must_look = True
            return
        topics: dict[str, list[Any]] = defaultdict(list)
        asked: dict[TopicPartition, tuple[_InRequest, AskedPlace]] = {}
        for cursor in cursors:
            place = cursor.place
            topics[cursor.name.topic].append(
                R.OffsetForLeaderPartition(
                    partition=cursor.name.partition,
                    current_leader_epoch=place.leader_epoch,
                    leader_epoch=place.offset_epoch,
                )
            )
            asked[cursor.name] = _InRequest(cursor), place.asked()
        request = R(
            replica_id=-1,
            topics=[R.OffsetForLeaderTopic(topic=name, partitions=theirs) for name, theirs in topics.items()],
        )
        node.checks += 1
        self._put(connection, request, version, 0, partial(self._checked, node, asked), now_s)

    def _checked(self, node: _Node, asked: dict[TopicPartition, tuple[_InRequest, AskedPlace]], call: Call) -> None:
        node.checks -= 1
        self._must_look = True
        answer = None if self._ends else self._decoded(node, call)
        if answer is None:
            return
        for topic in answer.topics:
            for part in topic.partitions:
                entry = asked.get(TopicPartition(topic.topic, part.partition))
                if entry is None:
                    continue
                each, place = entry
                here = f"end of the epoch of {each.cursor.name} at offset {each.offset} from {node.connection}"
                if part.error_code and codes.is_retriable(part.error_code):
                    self._metadata.mark_out_of_date()
                    each.cursor.not_before_s = self._pause_end()
                elif part.error_code:
                    self._fail([each.cursor], codes.error_of(part.error_code, here), each)
                else:
                    found = each.cursor.place.checked(part.leader_epoch, part.end_offset, place)
                    if found.outcome is Outcome.DIVERGED:
                        self._diverged(each, found, here)

    # -- errors

    def _pause_s(self) -> float:
        config = self._config
        return retry_pause_ms(0, config.retry_backoff_ms, config.retry_backoff_max_ms, self._thread.rng) / 1000

    def _pause_end(self) -> float:
        return self._thread.now_s() + self._pause_s()

    def _fail(self, cursors: Iterable[RemoteCursor], error: LogstoreError, asked: _InRequest | None = None) -> bool:
        with held(self.lock):
            for cursor in cursors:
                if asked is None or asked.seeks == cursor.seeks:
                    cursor.fail_locked(error)
        self.notifier.notify()
        return True


def _drop(call: Call) -> None:
    """Take an answer that no caller waits for."""
