# cython: language_level=3
"""Fetch sessions (KIP-227): the broker keeps what a client fetches, requests and answers name what has changed.

`FetchSessions.plan` says what a decoded request asks for, and `Plan.to_tell` which partitions its answer names. A
request that is answered from its bytes changes the same partitions, by `find` and `go_on`: there is no other copy
of what a client fetches. Used by the loop's thread. No file, no socket.
"""

from base64 import urlsafe_b64decode
import random

cimport cython
from libc.stdint cimport int32_t, int64_t

from logstore.clock import SYSTEM_CLOCK
from logstore.protocol import codes
from logstore.records import INT32_MAX
from logstore.replication.fetch_messages import FIRST_EPOCH, following_epoch

#: The idle time after which a session may give its place to another one, as in Kafka.
IDLE_S = 120.0
#: Partitions of all sessions: some 100 MiB, which outlive their clients' connections. Kafka has no such bound.
MOST_FETCHED = 1 << 18

cdef enum:
    SESSIONS = 7                  # the version from which on there are sessions
    TOPIC_IDS = 13                # the version from which on requests name topics by their ids
    UUID_BYTES = 16
    LAST_EPOCH = -1

cdef int64_t BEGIN_EPOCH = FIRST_EPOCH


@cython.final
cdef class FetchedPartition:
    """What a client fetches of one partition, and the marks that it was told last.

    Invariant: ``topic`` has the bytes of ``name``, or of ``topic_id`` if that is empty.
    """

    def __init__(self, bytes topic not None, str name not None, str topic_id not None, int32_t partition):
        self.topic, self.name, self.topic_id, self.partition = topic, name, topic_id, partition
        self._high_watermark = self._log_start = -1

    cdef int _ask(self, int64_t epoch, int64_t offset, int64_t last_epoch, int64_t max_bytes) except -1:
        """Set what the client asks for from now on."""
        self.current_leader_epoch, self.fetch_offset = <int32_t>epoch, offset
        self.last_fetched_epoch, self.partition_max_bytes = <int32_t>last_epoch, <int32_t>max_bytes
        return 0

    cdef int _note(self, int64_t high_watermark, int64_t log_start) except -1:
        """Record the marks that the client is told."""
        self._high_watermark, self._log_start = high_watermark, log_start
        return 0

    def tell(self, found: FoundPartition) -> bool:
        """Record what an answer says; return whether it says anything that the client does not know."""
        is_news = (
            found.region is not None
            or found.diverging is not None
            or found.code != 0
            or found.high_watermark != self._high_watermark
            or found.log_start_offset != self._log_start
        )
        # After an error the client is told the marks again.
        self._note(-1 if found.code else found.high_watermark, found.log_start_offset)
        return is_news


@cython.final
cdef class ClientFetchSession:
    """What one client fetches, in the order in which its partitions take their turn.

    Invariants: `_known` has the partitions of `partitions`, and no other ones. A list that was given out stays as
    it is.
    """

    def __init__(self, int64_t number, bint by_id, dict wanted not None, double now_s):
        self.number, self.by_id, self._known = number, by_id, wanted
        self.epoch = following_epoch(FIRST_EPOCH)
        self.partitions = list(wanted.values())
        self.made_s = self.used_s = now_s

    def update(self, asked: FetchRequest) -> None:
        """Apply what a request changes."""
        cdef FetchedPartition each, known
        cdef list added = [], dropped = []
        for each in _wanted(asked, self.by_id).values():
            known = self.find(each.topic, each.partition)
            if known is None:
                added.append(each)
            else:
                known._ask(each.current_leader_epoch, each.fetch_offset, each.last_fetched_epoch,
                           each.partition_max_bytes)
        self.add(added)
        for topic in asked.forgotten_topics_data:
            key = _bytes_of(topic, self.by_id)
            for partition in topic.partitions:
                known = self.find(key, partition)
                if known is not None:
                    dropped.append(known)
        self.drop(dropped)

    cdef frozenset topics(self):
        """Return the bytes of the names or ids of the session's topics."""
        if self._topics is None:
            self._topics = frozenset([topic for topic, _ in self._known])
        return self._topics

    cdef int disarm(self) except -1:
        """Wait for no mark."""
        cdef FetchedPartition each
        for each in self.partitions:
            if each._registration is not None:
                each._registration.disarm()
        return 0

    cdef FetchedPartition find(self, bytes topic, int64_t partition):
        """Return a partition of the session; None if it is not in it."""
        return self._known.get((topic, partition))

    cdef int add(self, list added) except -1:
        """Add partitions behind the others."""
        cdef FetchedPartition each
        if added:
            self._topics = None
            for each in added:
                self._known[each.topic, each.partition] = each
            self.partitions = self.partitions + added
        return 0

    cdef int drop(self, list dropped) except -1:
        """Drop partitions of the session; one may be named twice."""
        cdef FetchedPartition each
        if dropped:
            self._topics = None
            for each in dropped:
                each._is_dropped = True
                self._known.pop((each.topic, each.partition), None)
            self.partitions = [each for each in self.partitions if not each._is_dropped]
        return 0

    cpdef int move_back(self, list moved) except -1:
        """Let partitions that gave records take their next turn behind the others."""
        cdef FetchedPartition each
        if moved:
            for each in moved:
                each._moves = True
            self.partitions = [each for each in self.partitions if not each._moves]
            for each in moved:
                each._moves = False
                if not each._is_dropped:
                    self.partitions.append(each)
        return 0


@cython.final
cdef class Plan:
    """What a request asks for."""

    def __init__(self, list wanted not None, ClientFetchSession session=None, bint is_incremental=False,
                 int code=0):
        self.wanted, self.session, self.is_incremental, self.code = wanted, session, is_incremental, code

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.number

    def to_tell(
        self, found: list[tuple[FetchedPartition, FoundPartition]]
    ) -> list[tuple[FetchedPartition, FoundPartition]]:
        """Return the partitions that the answer names: all of them, or those with news."""
        if self.session is None:
            return found
        told, moved = [], []
        for wanted, each in found:
            is_news = wanted.tell(each)
            if is_news or not self.is_incremental:
                told.append((wanted, each))
            if each.region is not None:
                moved.append(wanted)
        self.session.move_back(moved)
        return told


@cython.final
cdef class FetchSessions:
    """The sessions of one broker's clients.

    A session ends when its client closes it, fetches nothing more, or another one needs its place; and when it
    grows and all of them have more than ``most_partitions``.

    Invariant: `_partitions` is the sum of what is counted of the sessions: what each had after its last step.
    """

    def __init__(self, int64_t most, clock: Clock = SYSTEM_CLOCK, rng: random.Random | None = None,
                 int64_t most_partitions=MOST_FETCHED):
        self._most, self._clock, self._rng = most, clock, rng or random.Random()
        self.most_partitions = most_partitions
        self._sessions = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, asked: FetchRequest, int version) -> Plan:
        """Return what a request asks for; with an error code, nothing."""
        cdef ClientFetchSession session
        if asked.session_epoch in (BEGIN_EPOCH, LAST_EPOCH):
            session = self._sessions.get(asked.session_id)
            if session is not None:
                self._end(session)
            wanted = _wanted(asked, version >= TOPIC_IDS)
            session = None
            if asked.session_epoch == BEGIN_EPOCH and version >= SESSIONS and wanted:
                session = self._begin(version >= TOPIC_IDS, wanted)
            return Plan(list(wanted.values()), session)
        session = self._sessions.get(asked.session_id)
        if session is None:
            return Plan([], code=codes.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != asked.session_epoch:
            return Plan([], code=codes.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != (version >= TOPIC_IDS):
            return Plan([], code=codes.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(asked)
        return self.go_on(session)

    cdef ClientFetchSession find(self, int64_t number, int64_t epoch, bint by_id):
        """Return the session whose next request this is; None if there is none, and `plan` says why."""
        cdef ClientFetchSession session = self._sessions.get(number)
        if session is None or epoch <= BEGIN_EPOCH or session.epoch != epoch or session.by_id != by_id:
            return None
        return session

    cdef Plan go_on(self, ClientFetchSession session):
        """Take the next step of a session, which has what its request has changed."""
        cdef Py_ssize_t before = session._counted, count = len(session.partitions)
        session.epoch = following_epoch(session.epoch)
        session.used_s = self._clock.monotonic_s()
        self._end(session)
        if not count:
            return Plan([])
        if count > before and self._partitions + count > self.most_partitions:
            return Plan([], code=codes.FETCH_SESSION_ID_NOT_FOUND)  # its client begins another one
        self._keep(session)
        return Plan(session.partitions, session, True)

    def _begin(self, bint by_id: bool, dict wanted: dict[tuple[bytes, int], FetchedPartition]
               ) -> ClientFetchSession | None:
        """Return a new session; None if there is no place for it."""
        cdef ClientFetchSession session
        now_s = self._clock.monotonic_s()
        if len(self._sessions) >= self._most and not self._make_place(len(wanted), now_s):
            return None
        while self._partitions + len(wanted) > self.most_partitions:
            if not self._end_idle(now_s):
                return None
        number = 0
        while number == 0 or number in self._sessions:
            number = self._rng.randrange(1, INT32_MAX)
        session = ClientFetchSession(number, by_id, wanted, now_s)
        self._keep(session)
        return session

    cdef int _keep(self, ClientFetchSession session) except -1:
        session._counted = len(session.partitions)
        self._partitions += session._counted
        self._sessions[session.number] = session
        return 0

    cdef int _end(self, ClientFetchSession session) except -1:
        self._partitions -= session._counted
        del self._sessions[session.number]
        return 0

    cdef bint _end_idle(self, double now_s) except -1:
        """End the session that was idle for longest; False if none was for long."""
        cdef ClientFetchSession idle = next(iter(self._sessions.values()), None)
        if idle is None or now_s - idle.used_s <= IDLE_S:
            return False
        self._end(idle)
        return True

    def _make_place(self, Py_ssize_t size: int, double now_s: float) -> bool:
        """End the session that was idle for longest, or a smaller one that is not young."""
        cdef ClientFetchSession smallest
        if self._end_idle(now_s):
            return True
        smallest = min(self._sessions.values(), key=_size_and_birth, default=None)
        if smallest is None or len(smallest.partitions) >= size or now_s - smallest.made_s <= IDLE_S:
            return False
        self._end(smallest)
        return True


def _size_and_birth(ClientFetchSession session) -> tuple[int, float]:
    return len(session.partitions), session.made_s


cdef bytes _bytes_of(object topic, bint by_id):
    """Return the bytes of a topic's name or id."""
    if not by_id:
        return (<str>topic.topic).encode()
    return urlsafe_b64decode(topic.topic_id + "==") if topic.topic_id else bytes(UUID_BYTES)


cdef dict _wanted(object asked, bint by_id):
    """Return the partitions of a request in order; of one that is named twice, what is asked last."""
    cdef dict wanted = {}
    cdef FetchedPartition each
    for topic in asked.topics:
        key = _bytes_of(topic, by_id)
        for one in topic.partitions:
            each = FetchedPartition(key, topic.topic, topic.topic_id, one.partition)
            each._ask(one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch, one.partition_max_bytes)
            wanted[key, one.partition] = each
    return wanted
