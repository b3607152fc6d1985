"""Fetch: regions of files for each partition, at once or when marks have moved.

A region goes from the page cache to the socket by sendfile. A fetch that finds less than its ``min_bytes`` is
parked: one notifier is registered with the mark of each partition, and a timer ends it. So does the loss of a
partition with replicas, of which the store's node tells another notifier. Used by the loop's thread.
"""

from __future__ import annotations

from functools import partial

from logstore.accumulator.acknowledging import ReplicaSource
from logstore.broker._loop import Answer, ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.fetching._fetch import FetchAnswers
from logstore.broker.fetching._routes import FetchRoute, FetchRoutes
from logstore.broker.fetching._sessions import FetchedPartition, FetchSessions, Plan
from logstore.broker.fetching._steps import SessionSteps
from logstore.broker.fetching.answer import pieces_of
from logstore.broker.fetching.found import FoundPartition
from logstore.broker.served import MOST_ITEMS, Served, end_of_epoch, epoch_error, id_text
from logstore.errors import LogstoreError, OffsetOutOfRangeError
from logstore.io._notifier import Notifier
from logstore.log import Log
from logstore.log.marks._watermark import Registration
from logstore.protocol import codes
from logstore.protocol.frames import Request, decode_request
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import Isolation

#: The longest wait of a fetch: a timer that a client sets.
_MAX_WAIT_MS = 2**31 - 1

#: Of partitions that do not exist. As from Kafka, their answers come last, in this order of codes, with an empty
#: list of transactions.
_UNKNOWN = (codes.UNKNOWN_TOPIC_ID, codes.UNKNOWN_TOPIC_OR_PARTITION)
#: Of partitions that the client may not read: they come last as well, among the unknown ones.
_DENIED = FoundPartition(codes.TOPIC_AUTHORIZATION_FAILED, aborted=())
_LAST = {codes.UNKNOWN_TOPIC_ID: 0, codes.UNKNOWN_TOPIC_OR_PARTITION: 1, codes.TOPIC_AUTHORIZATION_FAILED: 1}

_Found = list[tuple[FetchedPartition, FoundPartition]]


class _Asked:
    """One fetch in progress. While it is parked, the registrations of its notifier end with it."""

    __slots__ = (
        "answer",
        "correlation_id",
        "denied",
        "is_follower",
        "isolation",
        "led",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "plan",
        "registrations",
        "timer",
        "version",
    )

    def __init__(
        self,
        answer: Answer,
        version: int,
        correlation_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        plan: Plan,
        *,
        is_follower: bool = False,
    ) -> None:
        self.answer = answer
        self.version = version
        self.correlation_id = correlation_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = Isolation.READ_COMMITTED if isolation_level == 1 else Isolation.READ_UNCOMMITTED
        self.plan = plan
        #: Of a broker that would copy. The nodes of a cluster copy by their own transport.
        self.is_follower = is_follower
        self.denied: frozenset[str | None] = frozenset()  #: topics that the client may not read
        self.led: list[tuple[str, int]] = []  #: the partitions with replicas, while it is parked
        self.registrations: list[Registration] = []
        self.timer: list[object] = []

    def complete(self, found: _Found) -> None:
        told = self.plan.to_tell(found)
        self.answer.complete(
            pieces_of(self.version, self.correlation_id, told, code=self.plan.code, session_id=self.plan.session_id)
        )


class Fetches:
    """The fetches of all connections, with those that wait, and the sessions of the clients."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._parked: dict[Notifier, _Asked] = {}
        self._states: Notifier | None = None  # of partitions with replicas: notified when they change
        self._watched: ReplicaSource | None = None  # that tells `_states`
        self._most_bytes = served.config.fetch_max_bytes
        self._files = served.host.files
        # More than the cache keeps open are pinned by answers on their way; the rest is for sockets and for logs.
        self._most_open = self._files.descriptor_limit * 5 // 4
        self.sessions = FetchSessions(served.config.max_incremental_fetch_session_cache_slots)
        routes = FetchRoutes(self._route_to, served.table)
        #: The steps of sessions that take no message object.
        allows = None if served.authorizer is None else partial(served.allows, AclOperation.READ)
        self.steps = SessionSteps(self.sessions, routes, self._go_on, self._files, self._most_open, allows)
        #: The fetches that take no message object: the loop asks it first.
        self.quick = FetchAnswers(
            routes,
            self.steps,
            lambda answer, frame: self.fetch(decode_request(frame, max_items=MOST_ITEMS), answer),
            self._files,
            self._most_open,
            self._most_bytes,
            allows,
        )

    def fetch(self, request: Request, answer: Answer) -> None:
        """Answer a fetch, or park it; a partition whose log is not open is opened by the pool first."""
        message = request.message
        assert isinstance(message, FetchRequest)
        asked = _Asked(
            answer,
            request.version,
            request.correlation_id,
            message.max_wait_ms,
            message.min_bytes,
            min(message.max_bytes, self._most_bytes) if message.max_bytes > 0 else self._most_bytes,
            message.isolation_level,
            self.sessions.plan(message, request.version),
            is_follower=max(message.replica_id, message.replica_state.replica_id) >= 0,
        )
        asked.denied = self._denied(request.client_id, asked)
        self._open_and_begin(asked)

    def _go_on(
        self,
        answer: Answer,
        version: int,
        correlation_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        plan: Plan,
        client_id: bytes | None,
        was_parked: bool,
    ) -> None:
        """Go on with a fetch whose session has what it has changed, since its answer is not a usual one."""
        asked = _Asked(answer, version, correlation_id, max_wait_ms, min_bytes, max_bytes, isolation_level, plan)
        if was_parked:  # its client might read all topics of the session when it came
            self._begin(asked)
        else:
            asked.denied = self._denied(None if client_id is None else client_id.decode(), asked)
            self._open_and_begin(asked)

    def _open_and_begin(self, asked: _Asked) -> None:
        closed = self._closed_logs(asked)
        if not closed:
            self._begin(asked)
            return

        def open_logs() -> None:
            for name, partition in closed:
                try:
                    self._served.led(name, partition)
                except LogstoreError:
                    continue  # the answer says why

        self._served.run(asked.answer.connection, open_logs, lambda _: self._begin(asked))

    def notified(self, notifier: Notifier) -> None:
        """Look at a parked fetch: a mark that it waits for has moved."""
        if self.quick.notified(notifier) or self.steps.notified(notifier):
            return
        parked = self._parked.get(notifier)
        if parked is not None:
            self._look(notifier, parked)
        elif notifier is self._states:
            # Each is looked at for itself: an error in one closes its connection, and no other.
            for each, asked in self._parked.items():
                if asked.led:
                    each.notify()

    def end(self) -> None:
        """Watch no states any more, once the loop has ended."""
        if self._watched is not None and self._states is not None:
            self._watched.unwatch(self._states.notify)

    def closed(self, connection: ClientConnection) -> None:
        """Forget the fetches of a connection."""
        for notifier in list(connection.state or ()):
            if not (self.quick.closed(notifier) or self.steps.closed(notifier)):
                self._unpark(notifier, self._parked[notifier])

    def _denied(self, client_id: str | None, asked: _Asked) -> frozenset[str | None]:
        if self._served.authorizer is None:
            return frozenset()
        rights = self._served.rights(client_id, asked.answer.connection)
        names = frozenset(self._name(each) for each in asked.plan.wanted)
        if asked.is_follower:
            return frozenset() if rights.on_cluster(AclOperation.CLUSTER_ACTION) else names
        known = [each for each in names if each is not None]
        return frozenset(rights.denied(AclOperation.READ, ResourceType.TOPIC, known))

    def _route_to(self, topic: bytes, partition: int, is_id: bool) -> FetchRoute | None:
        """Return the way to the records of a log that is open; None if there is none."""
        try:
            name = self._served.name_of(id_text(topic)) if is_id else topic.decode()
            log = None if name is None else self._served.find_open(name, partition)
        except (LogstoreError, UnicodeDecodeError):
            return None
        if log is None:
            return None
        if log.maintenance.config.replicated:
            return None  # whether this node leads it is asked each time
        return FetchRoute(log._state, log, self._served.counts_of(name))

    def _name(self, wanted: FetchedPartition) -> str | None:
        return wanted.name or self._served.name_of(wanted.topic_id)

    def _closed_logs(self, asked: _Asked) -> list[tuple[str, int]]:
        closed = []
        for each in asked.plan.wanted:
            name = self._name(each)
            if name is None or name in asked.denied:
                continue
            try:
                if self._served.find_open(name, each.partition) is None:
                    closed.append((name, each.partition))
            except LogstoreError:
                continue
        return closed

    def _begin(self, asked: _Asked) -> None:
        if asked.answer.is_done:
            return
        found, size, must_answer = self._find(asked)
        if must_answer or size >= asked.min_bytes or asked.max_wait_ms <= 0 or not asked.plan.wanted:
            self._complete(asked, found)
            return
        notifier = Notifier(group=self._served.loop.group)
        wait_s = min(asked.max_wait_ms, _MAX_WAIT_MS) / 1000
        asked.timer = self._served.loop.call_later(
            wait_s, lambda: self._time_out(notifier), asked.answer.connection
        )
        self._parked[notifier] = asked
        asked.answer.release_frame()
        connection = asked.answer.connection
        if connection.state is None:
            connection.state = set()
        connection.state.add(notifier)
        self._arm(notifier, asked, found)

    def _complete(self, asked: _Asked, found: _Found) -> None:
        for wanted, each in found:
            counts = self._served.counts_of(self._name(wanted), each.code)
            counts.fetches += 1
            if each.code:
                counts.failed_fetches += 1
            elif each.region is not None:
                counts.bytes_out += each.region.size
        asked.complete(found)

    def _arm(self, notifier: Notifier, asked: _Asked, found: _Found) -> None:
        """Register with every mark, and look once more if one has moved since the look that has ``found`` this."""
        asked.registrations, asked.led = [], []
        for each, one in found:
            name = self._name(each)
            log = self._log(name, each.partition)
            if log is None:  # there is an answer now that says so
                notifier.notify()
                return
            if name is not None and log.maintenance.config.replicated:
                asked.led.append((name, each.partition))
            registration = Registration(log._end_mark(asked.isolation), notifier)
            asked.registrations.append(registration)
            # What was found was too little: only a mark beyond the one of the look brings more.
            seen = one.last_stable_offset if asked.isolation is Isolation.READ_COMMITTED else one.high_watermark
            if not registration.arm_for(max(seen, each.fetch_offset) + 1):
                notifier.notify()
                return
        if asked.led:
            self._watch_states(notifier, asked.led)

    def _watch_states(self, notifier: Notifier, led: list[tuple[str, int]]) -> None:
        """Have a parked fetch looked at when this node leads one of its partitions no more."""
        if self._states is None:
            self._states = Notifier(group=self._served.loop.group)
        replicas = self._served.host.replicas
        if replicas is not None and replicas is not self._watched:
            self._watched = replicas
            replicas.watch(self._states.notify)
        if not all(self._log(*place) is not None for place in led):
            notifier.notify()  # lost since it was looked at

    def _look(self, notifier: Notifier, asked: _Asked, *, is_over: bool = False) -> None:
        found, size, must_answer = self._find(asked)
        if is_over or must_answer or size >= asked.min_bytes:
            self._unpark(notifier, asked)
            self._complete(asked, found)
        else:
            self._arm(notifier, asked, found)

    def _time_out(self, notifier: Notifier) -> None:
        parked = self._parked.get(notifier)
        if parked is not None:
            self._look(notifier, parked, is_over=True)

    def _unpark(self, notifier: Notifier, asked: _Asked) -> None:
        del self._parked[notifier]
        asked.answer.connection.state.discard(notifier)
        self._served.loop.cancel(asked.timer)
        for registration in asked.registrations:
            registration.disarm()

    def _log(self, name: str | None, partition: int) -> Log | None:
        try:
            return None if name is None else self._served.find_open(name, partition)
        except LogstoreError:
            return None

    def _find(self, asked: _Asked) -> tuple[_Found, int, bool]:
        """Return what there is now, its size in bytes, and whether something asks for an answer at once."""
        size, is_urgent, found = 0, False, []
        for each in asked.plan.wanted:
            most = max(min(asked.max_bytes - size, each.partition_max_bytes), 0)
            if size and self._files.open_descriptors > self._most_open:
                most = 0  # the next fetch brings the rest
            if asked.denied and self._name(each) in asked.denied:
                one = _DENIED
            else:
                one = self._of_partition(each, most, size == 0, asked.isolation, asked.is_follower)
            is_urgent = is_urgent or one.code != 0 or one.diverging is not None
            size += 0 if one.region is None else one.region.size
            found.append((each, one))
        if is_urgent:
            found.sort(key=lambda pair: _LAST.get(pair[1].code, -1))
        return found, size, is_urgent

    def _of_partition(
        self, asked: FetchedPartition, max_bytes: int, at_least_one: bool, isolation: Isolation, is_follower: bool
    ) -> FoundPartition:
        name = self._name(asked)
        if name is None:
            return FoundPartition(codes.UNKNOWN_TOPIC_ID, aborted=())
        try:
            log = self._served.find_open(name, asked.partition)
            if log is None:
                return FoundPartition(codes.NOT_LEADER_OR_FOLLOWER)
            if is_follower and log.maintenance.config.replicated:
                # As Kafka's leader to a broker outside of the assignment: no node copies by this protocol, and what
                # reads below the high watermark only must not take itself for a replica.
                return FoundPartition(codes.NOT_LEADER_OR_FOLLOWER)
            code = epoch_error(log, asked.current_leader_epoch)
            if code:
                leader = self._served.leader_told(name, asked.partition, code)
                return FoundPartition(code, leader=leader)
            diverging = _divergence(log, asked)
            found = log.replica.fetch_region(
                log.log_start_offset if diverging else asked.fetch_offset,
                max_bytes=0 if diverging else max_bytes,
                at_least_one=at_least_one and not diverging,
                isolation=isolation,
            )
        except LogstoreError as error:
            leader = self._served.leader_told(name, asked.partition, error.code)
            return FoundPartition(error.code, aborted=() if error.code in _UNKNOWN else None, leader=leader)
        # As from Kafka: no list where a first batch does not fit, or where there is an epoch to go back to.
        is_held_back = diverging is not None or (
            found.region is None and max_bytes > 0 and asked.fetch_offset < found.last_stable_offset
        )
        return FoundPartition(
            0,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            found.aborted if isolation is Isolation.READ_COMMITTED and not is_held_back else None,
            found.region,
            diverging,
        )


def _divergence(log: Log, asked: FetchedPartition) -> tuple[int, int] | None:
    """Return where the log leaves the one that a client has read, by the epoch of its last batch (KIP-595)."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end = end_of_epoch(log, asked.last_fetched_epoch)
    if epoch < 0:
        raise OffsetOutOfRangeError(
            f"{log.name}: a client has read leader epoch {asked.last_fetched_epoch}, which the log does not know"
        )
    return (epoch, end) if end < asked.fetch_offset or epoch < asked.last_fetched_epoch else None
