# cython: language_level=3
"""Fetch from bytes: the usual request takes no message object, answered at once or when its marks have moved.

Usual is a request outside of a session that names each partition once, of logs that are open, in the present
leader epoch; or a usual step of a session, by `_steps`. A request that finds less than it asks for waits with its
bytes, which are read again at each look. Anything else (errors, sessions that begin or end, aborted transactions,
a client that has read another log, tagged fields) is left to `fetches`, which decides what is right: an answer of
this module has the bytes that `fetches` would send. Used by the loop's thread.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

from logstore.batch._bytes cimport store32
from logstore.broker._loop cimport Answer, Loop, QuickRequests
from logstore.broker._wire cimport copied, length_in, put_end, put_length, taken
from logstore.broker.fetching._fields cimport (
    AskedFields, Head, SESSIONS, UUID_BYTES, answer_of, begins, ends, ends_with_rack, is_held_back, put_partition,
    put_topic, read_partition, set_size,
)
from logstore.broker.fetching._routes cimport FetchRoute, FetchRoutes
from logstore.broker.fetching._sessions cimport ClientFetchSession
from logstore.broker.fetching._steps cimport SessionSteps
from logstore.io._file_region cimport FileRegion
from logstore.io._files cimport Files
from logstore.io._notifier cimport Notifier
from logstore.log._partition_log cimport Moment
from logstore.log.marks._watermark cimport Registration
from logstore.protocol._reading cimport Reader, integer
from logstore.protocol._writing cimport Writer

from logstore.broker.served import MOST_ITEMS
from logstore.errors import LogstoreError

cdef enum:
    FETCH = 1                     # the API key
    CLIENT_ID_AT = 8              # behind key, version and correlation id


@cython.final
cdef class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes, and those of them that wait.

    ``steps`` takes those of sessions. ``go_on(answer, frame)`` gets each request that has waited and whose answer
    is not a usual one; its ``frame`` has the rest of the wait. An answer has at most ``most_bytes``, and more than
    one region only while ``files`` has at most ``most_open`` descriptors. ``allows(connection, client_id, topics,
    is_id)`` is asked once for each request, before it is answered or waits: one is usual if its client may read all
    of its topics.
    """

    def __init__(self, FetchRoutes routes not None, SessionSteps steps not None, go_on: object,
                 Files files not None, int64_t most_open, int64_t most_bytes, allows: object = None):
        self._routes, self._steps, self._go_on, self._files = routes, steps, go_on, files
        self._parked = {}
        self._most_open, self._most_bytes, self._allows = most_open, most_bytes, allows

    cdef bint take(self, Answer answer, bytes frame) except -1:
        """Answer a usual request, or have it wait; leave all others."""
        cdef Reader r = Reader(frame, 0, 0, False)
        cdef Head head
        cdef int64_t number = 0, epoch = -1
        cdef ClientFetchSession session = None
        cdef list pieces = None, routes = []
        try:
            if integer(r, "API key", 2) != FETCH or not begins(r, &head, self._most_bytes):
                return False
            if head.version >= SESSIONS:
                number, epoch = integer(r, "session id", 4), integer(r, "session epoch", 4)
            if number != 0 or epoch != -1:
                session = self._steps.session_of(r, &head, number, epoch)
            else:
                pieces = self._look(r, &head, routes)
        except LogstoreError:
            return False  # its decoder, or `fetches`, says what is wrong
        if session is not None:
            self._steps.take(answer, r, &head, session, self._client_of(frame))
            return True
        # Other bytes than those of the request would wait too.
        if pieces is None and not (number == 0 and epoch == -1 and self._is_short and r.p == r.end):
            return False
        if self._allows is not None and not self._allows(answer.connection, self._client_of(frame), self._topics,
                                                         head.is_id):
            return False
        if pieces is not None:
            self._count(routes)
            self.answered += 1
            answer.give(pieces)
            return True
        self._park(answer, frame, &head, routes)
        return True

    cdef bytes _client_of(self, bytes frame):
        """Return the client id of a request, if rights are to be asked."""
        cdef Reader r
        cdef int64_t size
        if self._allows is None:
            return None
        r = Reader(frame, CLIENT_ID_AT, 0, False)
        size = length_in(r, "client id", 2)
        return None if size < 0 else copied(taken(r, size), size)

    cdef int _count(self, list routes) except -1:
        """Count an answer for each of its partitions."""
        cdef FetchRoute route
        for route in routes:
            route._counts.fetches += 1
            if route._size >= 0:
                route._counts.bytes_out += route._size
        return 0

    cdef list _look(self, Reader r, const Head *head, list routes):
        """Return the pieces of the answer; None if the request is not usual, or if there is not enough.

        ``routes`` gets those of its partitions.
        """
        cdef Writer w = answer_of(head, 0)
        cdef int64_t topics, partitions, topic_size, size = 0, left, items = 0
        cdef AskedFields asked
        cdef Moment moment
        cdef FetchRoute route
        cdef FileRegion region
        cdef bytes topic, before = None
        cdef list pieces = []
        self._is_short = False
        self._topics = None if self._allows is None else set()
        topics = length_in(r, "topics", 4)
        if topics <= 0:
            return None
        put_length(w, topics, 4)
        self._requests += 1
        self._routes.now()
        while topics > 0:
            topics -= 1
            topic_size = UUID_BYTES if head.is_id else length_in(r, "topic", 2)
            if not 0 < topic_size <= r.end - r.p:
                return None
            topic = copied(taken(r, topic_size), topic_size)
            partitions = length_in(r, "partitions", 4)
            items += 1 + partitions
            # The answer names a topic once whose parts follow each other.
            if partitions <= 0 or items > MOST_ITEMS or topic == before:
                return None
            before = topic
            if self._topics is not None:
                self._topics.add(topic)
            put_topic(w, topic, partitions, head.is_id)
            while partitions > 0:
                partitions -= 1
                if not read_partition(r, &asked):
                    return None
                left = max(min(head.most - size, asked.max_bytes), <int64_t>0)
                if size and self._files.open_descriptors > self._most_open:
                    left = 0  # the next fetch brings the rest
                route = self._routes.find(topic, asked.partition, head.is_id)
                if route is None or route._request == self._requests:
                    return None
                route._request = self._requests
                region = route.look(&asked, left, size, head.committed, &moment)
                if not moment.is_usual:
                    return None
                routes.append(route)
                route._size = -1 if region is None else region.size
                route._seen = moment.last_stable if head.committed else moment.high_watermark
                put_partition(w, asked.partition, &moment,
                              head.committed and not is_held_back(region, left, asked.offset, &moment), region)
                if region is not None:
                    size += region.size
                    pieces += [w.taken(), region]
                    w = Writer(head.version, head.flexible)
                put_end(w)
            if not ends(r):
                return None
            put_end(w)
        put_end(w)
        if head.version >= SESSIONS and length_in(r, "forgotten topics", 4) != 0:
            return None
        if not ends_with_rack(r):
            return None
        if size < head.min_bytes and head.wait_ms > 0:
            self._is_short = True
            return None
        pieces.append(w.taken())
        set_size(pieces)
        return pieces

    cdef int _park(self, Answer answer, bytes frame, const Head *head, list routes) except -1:
        """Keep a request until its marks have moved, its time is over, or its connection has closed."""
        cdef ParkedFetch parked = ParkedFetch.__new__(ParkedFetch)
        cdef Loop loop = answer.connection._loop
        self.parked += 1
        answer.release_frame()
        parked._fetches, parked._answer, parked._frame = self, answer, frame
        parked._notifier = Notifier(group=loop.group)
        parked._until_s = loop._clock.monotonic_s() + head.wait_ms / 1000.0
        parked._timer = loop.call_later(head.wait_ms / 1000.0, parked.end, parked._answer.connection)
        self._parked[parked._notifier] = parked
        if answer.connection.state is None:
            answer.connection.state = set()
        answer.connection.state.add(parked._notifier)
        self._arm(parked, routes, head.committed)
        return 0

    cdef int _arm(self, ParkedFetch parked, list routes, bint committed) except -1:
        """Register with the mark of each partition, and look once more if one has moved since the look."""
        cdef FetchRoute route
        cdef Registration registration
        parked._registrations = []
        for route in routes:
            registration = Registration(route._log.last_stable if committed else route._log.high_watermark,
                                        parked._notifier)
            parked._registrations.append(registration)
            # What was found was too little: only a mark beyond the one of the look brings more.
            if not registration.arm_for(route._seen + 1):
                parked._notifier.notify()
                return 0
        return 0

    cdef int _unpark(self, ParkedFetch parked) except -1:
        del self._parked[parked._notifier]
        parked._answer.connection.state.discard(parked._notifier)
        parked._answer.connection._loop.cancel(parked._timer)
        return 0

    cdef int _look_again(self, ParkedFetch parked, bint is_over) except -1:
        """Answer a parked request if there is enough, or if its time is over."""
        cdef Reader r = Reader(parked._frame, 0, 0, False)
        cdef Head head
        cdef list pieces = None, routes = []
        try:
            integer(r, "API key", 2)
            begins(r, &head, self._most_bytes)
            if head.version >= SESSIONS:
                r.p += 8  # no session
            if is_over:
                head.wait_ms = 0
            pieces = self._look(r, &head, routes)
        except LogstoreError:
            pass  # `fetches` says what is wrong
        if pieces is None and self._is_short:
            self._arm(parked, routes, head.committed)
            return 0
        self._unpark(parked)
        if pieces is None:
            self._go_on(parked._answer, _with_wait(parked._frame, &head, self._left_ms(parked, is_over)))
        else:
            self._count(routes)
            self.answered += 1
            parked._answer.give(pieces)
        return 0

    cdef int32_t _left_ms(self, ParkedFetch parked, bint is_over) except -1:
        cdef double now_s = parked._answer.connection._loop._clock.monotonic_s()
        cdef int64_t left_ms = 1 + <int64_t>(1000 * max(parked._until_s - now_s, 0.0))
        return 0 if is_over else <int32_t>min(left_ms, <int64_t>INT32_MAX)

    def notified(self, notifier: Notifier) -> bool:
        """Look at the request that waits for a notifier; False if it is none of these."""
        cdef ParkedFetch parked = self._parked.get(notifier)
        if parked is None:
            return False
        self._look_again(parked, False)
        return True

    def closed(self, notifier: Notifier) -> bool:
        """Forget the request that waits for a notifier: its connection has closed; False as `notified`."""
        cdef ParkedFetch parked = self._parked.get(notifier)
        if parked is None:
            return False
        self._unpark(parked)
        return True


@cython.final
cdef class ParkedFetch:
    """A request outside of a session that waits for more bytes. Its registrations end with it."""

    def end(self) -> None:
        """Answer with what there is: the time of the request is over."""
        self._fetches._look_again(self, True)


cdef bytes _with_wait(bytes frame, const Head *head, int32_t wait_ms):
    """Return a frame whose client waits so long."""
    cdef bytes other = PyBytes_FromStringAndSize(PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
    store32(<uint8_t *>PyBytes_AS_STRING(other) + head.wait_at, wait_ms)
    return other
