"""Fetcher of one consumer of a cluster: one thread that fetches ahead from all leaders.

Each leader gets one request at a time, for all of its partitions that are wanted. While its answer is awaited the
others are served. Fetched bytes that wait to be handed out are at most ``fetch.max.bytes``, but for a single batch
that is larger. The thread runs no code of users. It ends with `close`, or when the fetcher is dropped.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.backend.partitions import PartitionCursor
from logstore.clock import Clock
from logstore.errors import (
    AuthenticationError,
    ClientClosedError,
    ForkedError,
    LogstoreError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UnknownTopicError,
)
from logstore.io._files import fork_generation
from logstore.io._interrupts import held
from logstore.io._notifier import Notifier
from logstore.protocol import codes
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import INT32_MAX, Isolation, TopicPartition
from logstore.remote.answers import records_of
from logstore.remote.backend.cursors import Arrived, RemoteCursor
from logstore.remote.backoff import pause_s
from logstore.remote.client import FETCH_BY_ID, Client, fetched_of
from logstore.remote.connection import BrokerConnection

_logger = logging.getLogger(__name__)

#: How long the thread sleeps at most while nothing happens.
_IDLE_S = 30.0


class RemoteFetcher(PartitionFetcher):
    """Fetches the partitions of one consumer. Owns: a thread, and the connections that it has in use."""

    LOOK_S = 1.0

    def __init__(self, client: Client, isolation: Isolation, notifier: Notifier, clock: Clock) -> None:
        self._loop = _FetchLoop(client, isolation, notifier)
        self._client = client
        self._clock = clock
        self._finalizer = weakref.finalize(self, self._loop.stop)
        self._finalizer.atexit = False

    def cursor(self, name: TopicPartition, topic_id: str) -> PartitionCursor:
        self._client.cluster.leader(name)  # raises if there is no such partition
        loop = self._loop
        cursor = RemoteCursor(name, topic_id, self._client, self._clock, loop.lock, loop.go_on)
        with held(loop.lock):
            loop.cursors[name] = cursor
        return cursor

    def keep(self, names: Iterable[TopicPartition]) -> None:
        kept = set(names)
        with held(self._loop.lock):
            self._loop.cursors = {name: each for name, each in self._loop.cursors.items() if name in kept}

    def listen(self, notifier: Notifier) -> None:
        self._loop.notifier = notifier

    @property
    def must_look(self) -> bool:
        return False

    def begin(self, places: Sequence[tuple[PartitionCursor, int]]) -> bool:
        loop = self._loop
        offsets: Any = dict(places)
        with held(loop.lock):
            for cursor in loop.cursors.values():
                cursor.is_wanted = cursor in offsets
            # All are asked: the answer to the first must not keep the others from being fetched.
            found = [cursor for cursor, offset in offsets.items() if cursor.has_something_locked(offset)]
        loop.go_on()
        return not found

    def wait(self, places: Sequence[tuple[PartitionCursor, int]], timeout_s: float | None = None) -> bool:
        return True if not self.begin(places) else self._loop.notifier.wait(timeout_s)

    def close(self) -> None:
        self._finalizer.detach()
        self._loop.stop()
        self._loop.join()


class _InFlight:
    """The request that one broker has not answered yet."""

    def __init__(self, connection: BrokerConnection, asked: dict[TopicPartition, tuple[RemoteCursor, int]]) -> None:
        self.connection = connection
        self.asked = asked  #: each partition's cursor, and the offset that was asked for
        self.topic_names: dict[str, str] = {}


class _FetchLoop:
    """The thread of one fetcher, and what it shares with the consumer's thread."""

    def __init__(self, client: Client, isolation: Isolation, notifier: Notifier) -> None:
        self.lock = threading.Lock()
        self.cursors: dict[TopicPartition, RemoteCursor] = {}
        self.notifier = notifier
        self._client = client
        self._cluster = client.cluster
        self._config = client.config
        self._committed = isolation is Isolation.READ_COMMITTED
        self._fork = fork_generation()
        self._ends = False
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._in_flight: dict[int, _InFlight] = {}
        #: Broker -> when it may be asked again, and how often in a row it has failed.
        self._not_before: dict[int, tuple[float, int]] = {}
        self._sizes: dict[TopicPartition, int] = {}  #: bytes to ask for, where a batch is larger than usual
        self._nearer: dict[TopicPartition, tuple[int, float]] = {}
        self._thread: threading.Thread | None = None

    # -- from other threads

    def go_on(self) -> None:
        """Have the thread look for what there is to fetch; begin it if there is none.

        Raises:
            ForkedError, ClientClosedError: the fetcher cannot be used.
        """
        if self._fork != fork_generation():
            raise ForkedError("the consumer was opened before a fork; call store.consumer() in the child")
        if self._ends:
            raise ClientClosedError("the client is closed")
        if self._thread is None:
            with held(self.lock):
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="logstore-fetch", daemon=True)
                    self._thread.start()
        self._wake()

    def _wake(self) -> None:
        try:
            os.eventfd_write(self._wakeup, 1)
        except OSError:
            pass  # closed

    def stop(self) -> None:
        """Tell the thread to end. Takes no lock."""
        self._ends = True
        self._wake()

    def join(self) -> None:
        if self._thread is not None and self._fork == fork_generation():
            self._thread.join()

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._ends:
                try:
                    self._turn()
                except BaseException as error:  # noqa: BLE001  the consumer's thread raises it
                    self._fail_all(error)
        finally:
            for each in self._in_flight.values():
                each.connection.close()
            descriptor, self._wakeup = self._wakeup, -1
            os.close(descriptor)

    def _turn(self) -> None:
        wait_s = self._ask_all()
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        ready = [node for node, each in self._in_flight.items() if each.connection.has_answer()]
        if not ready:
            for each in self._in_flight.values():
                poll.register(each.connection.fileno(), select.POLLIN)
            poll.poll(max(wait_s, 0) * 1000)
            ready = [node for node, each in self._in_flight.items() if each.connection.has_answer()]
        try:
            os.eventfd_read(self._wakeup)
        except BlockingIOError:
            pass
        now = time.monotonic()
        late = [node for node, each in self._in_flight.items() if now >= each.connection.answer_due]
        for node in dict.fromkeys([*ready, *late]):
            self._receive(node)

    def _ask_all(self) -> float:
        """Send each broker that is free a request for what is wanted of it; return how long nothing is to do."""
        now = time.monotonic()
        wait_s = _IDLE_S
        for each in self._in_flight.values():
            wait_s = min(wait_s, each.connection.answer_due - now)
        with held(self.lock):
            used = sum(cursor.buffered for cursor in self.cursors.values())
            wanted = [
                cursor
                for cursor in self.cursors.values()
                if cursor.is_wanted
                and cursor.position >= 0
                and cursor.error is None
                # Half of it: the next fetch is made while the last one's records are handed out.
                and cursor.buffered <= self._config.max_partition_fetch_bytes // 2
            ]
        left = self._config.fetch_max_bytes - used
        if used and left < self._config.max_partition_fetch_bytes:
            return wait_s
        by_node: dict[int, list[RemoteCursor]] = defaultdict(list)
        for cursor in wanted:
            if cursor.not_before_s > now:
                wait_s = min(wait_s, cursor.not_before_s - now)
                continue
            try:
                by_node[self._node_of(cursor)].append(cursor)
            except LogstoreError as error:
                wait_s = min(wait_s, self._again(cursor, error))
        share = max(1, left // max(len(by_node), 1))
        for node, cursors in by_node.items():
            if node in self._in_flight:
                continue
            not_before, count = self._not_before.get(node, (0.0, 0))
            if now < not_before:
                wait_s = min(wait_s, not_before - now)
                continue
            try:
                self._send(node, cursors, share)
            except AuthenticationError as error:
                self._fail(cursors, error)
            except LogstoreError as error:
                wait_s = min(wait_s, self._broker_failed(node, count, error))
        return wait_s

    def _node_of(self, cursor: RemoteCursor) -> int:
        """Return the broker to fetch from: one that the leader has named as nearer, else the leader."""
        leader, _ = self._cluster.leader(cursor.name)
        node, until_s = self._nearer.get(cursor.name, (leader, 0.0))
        if node != leader and (time.monotonic() >= until_s or node not in self._cluster.known.brokers):
            del self._nearer[cursor.name]
            return leader
        return node

    def _send(self, node: int, cursors: list[RemoteCursor], max_bytes: int) -> None:
        config = self._config
        known = self._cluster.known.topics
        connection = self._cluster.take(node)
        try:
            has_ids = all(known[cursor.name.topic].id for cursor in cursors)
            version = connection.version_of(FetchRequest, None if has_ids else FETCH_BY_ID - 1)
            by_id = version >= FETCH_BY_ID
            asked: dict[TopicPartition, tuple[RemoteCursor, int]] = {}
            topics: dict[str, Any] = {}
            sent = _InFlight(connection, asked)
            with held(self.lock):
                places = [(cursor, cursor.position) for cursor in cursors if cursor.position >= 0]
            for cursor, offset in places:
                name, number = cursor.name
                topic = known[name]
                # The id that the position belongs to: a broker refuses it once another topic has the name.
                topic_id = cursor.topic_id or topic.id
                if name not in topics:
                    sent.topic_names[topic_id if by_id else name] = name
                    topics[name] = FetchRequest.FetchTopic(
                        topic="" if by_id else name, topic_id=topic_id if by_id else "", partitions=[]
                    )
                topics[name].partitions.append(
                    FetchRequest.FetchPartition(
                        partition=number,
                        current_leader_epoch=topic.partitions[number].leader_epoch,
                        fetch_offset=offset,
                        partition_max_bytes=self._sizes.get(cursor.name, config.max_partition_fetch_bytes),
                    )
                )
                asked[cursor.name] = cursor, offset
            largest = max(self._sizes.get(cursor.name, 0) for cursor in cursors)
            request = FetchRequest(
                max_wait_ms=config.fetch_max_wait_ms,
                min_bytes=config.fetch_min_bytes,
                max_bytes=min(max(max_bytes, largest), INT32_MAX),
                isolation_level=int(self._committed),
                topics=list(topics.values()),
                rack_id=config.client_rack if version >= 11 else "",
            )
            connection.send(request, version=version, wait_ms=config.fetch_max_wait_ms)
        except BaseException:
            self._cluster.give_back(connection)
            raise
        self._in_flight[node] = sent

    def _receive(self, node: int) -> None:
        sent = self._in_flight.pop(node)
        cursors = [cursor for cursor, _ in sent.asked.values()]
        try:
            answer = sent.connection.receive()
            if answer.error_code:
                raise codes.error_of(answer.error_code, f"fetch from {sent.connection}")
        except AuthenticationError as error:
            self._fail(cursors, error)
            return
        except LogstoreError as error:
            self._broker_failed(node, self._not_before.get(node, (0.0, 0))[1], error)
            if not error.retriable:
                self._fail(cursors, error)
            return
        finally:
            self._cluster.give_back(sent.connection)
        self._not_before.pop(node, None)
        news = False
        for topic in answer.responses:
            name = sent.topic_names.get(topic.topic_id or topic.topic)
            for part in topic.partitions:
                place = TopicPartition(name or topic.topic, part.partition_index)
                if place in sent.asked:
                    news = self._take(node, sent.connection, *sent.asked[place], part) or news
        if news:
            self.notifier.notify()

    def _take(self, node: int, connection: BrokerConnection, cursor: RemoteCursor, offset: int, part: Any) -> bool:
        """Take a partition's part of an answer; return whether its consumer has to look."""
        where = f"fetch of {cursor.name} at offset {offset} from {connection}"
        if part.error_code:
            return self._take_error(node, cursor, offset, part.error_code, where)
        nearer = getattr(part, "preferred_read_replica", -1)
        if nearer not in (-1, node):
            self._nearer[cursor.name] = nearer, time.monotonic() + self._config.metadata_max_age_ms / 1000
            return False
        records = records_of(part, is_committed=self._committed)
        if not records.data:
            if records.batch_bytes:
                # This broker cuts a batch that is larger than was asked for.
                size = self._sizes.get(cursor.name, self._config.max_partition_fetch_bytes)
                if size >= INT32_MAX:
                    return self._fail([cursor], RecordTooLargeError(f"{where}: only a part of a batch comes"))
                self._sizes[cursor.name] = min(max(2 * size, records.batch_bytes), INT32_MAX)
            return False
        self._sizes.pop(cursor.name, None)
        with held(self.lock):
            if self.cursors.get(cursor.name) is not cursor or cursor.position != offset:
                return False  # the consumer has gone elsewhere since
            cursor.add_locked(Arrived(offset, fetched_of(part, records, offset)))
        return True

    def _take_error(self, node: int, cursor: RemoteCursor, offset: int, code: int, where: str) -> bool:
        error = codes.error_of(code, where)
        is_near = self._nearer.pop(cursor.name, None) is not None
        if code == codes.OFFSET_OUT_OF_RANGE and not is_near:
            error = OffsetOutOfRangeError(f"{where}: the log does not hold that offset", offset=offset)
            return self._fail([cursor], error, offset)
        if isinstance(error, UnknownTopicError):
            # Deleted, or a broker that has not heard of it yet: the metadata decide.
            try:
                topic = self._cluster.refresh([cursor.name.topic]).topics[cursor.name.topic]
            except LogstoreError as problem:
                if not problem.retriable or isinstance(problem, UnknownTopicError):
                    return self._fail([cursor], problem, offset)
                error = problem
            else:
                if cursor.topic_id and topic.id and topic.id != cursor.topic_id:
                    return self._fail([cursor], UnknownTopicError(f"{where}: another topic has that name"), offset)
            self._again(cursor, error)
            return False
        if not error.retriable and code != codes.OFFSET_OUT_OF_RANGE:
            return self._fail([cursor], error, offset)
        self._again(cursor, error)
        return False

    # -- errors

    def _again(self, cursor: RemoteCursor, error: LogstoreError) -> float:
        """Ask for a partition again after a pause, of other brokers if they lead it now; return the pause."""
        if not error.retriable:
            self._fail([cursor], error)
            return _IDLE_S
        self._cluster.forget([cursor.name.topic])
        pause = pause_s(0, self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        cursor.not_before_s = time.monotonic() + pause
        return pause

    def _broker_failed(self, node: int, count: int, error: LogstoreError) -> float:
        if not count:
            _logger.warning("a broker does not answer, it is asked again: %s", error)
        pause = pause_s(count, self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms)
        self._not_before[node] = time.monotonic() + pause, count + 1
        # Another broker may lead these partitions now.
        self._cluster.forget({name.topic for name in self.cursors})
        return pause

    def _fail(self, cursors: Iterable[RemoteCursor], error: LogstoreError, offset: int = -1) -> bool:
        with held(self.lock):
            for cursor in cursors:
                if offset in (-1, cursor.position):
                    cursor.fail_locked(error)
        self.notifier.notify()
        return True

    def _fail_all(self, error: BaseException) -> None:
        told = (
            error
            if isinstance(error, LogstoreError)
            else ClientClosedError(f"the fetching thread failed: {error!r}")
        )
        if not isinstance(error, LogstoreError):
            _logger.error("the thread that fetches has failed, it goes on", exc_info=error)
        self._fail(list(self.cursors.values()), told)
        for each in self._in_flight.values():
            each.connection.close()
        self._in_flight.clear()
