# cython: language_level=3
"""Fetch from bytes: the usual request takes no message object, and is answered at once.

Usual is a request outside of a session that names each partition once, of logs that are open, in the present
leader epoch, and that finds as many bytes as it asks for; or a usual step of a session, by `_steps`. Anything else
(errors, sessions that begin or end, aborted transactions, a client that has read another log, tagged fields) is
left to `fetches`, which decides what is right: an answer of this module has the bytes that `fetches` would send.
Used by the loop's thread.
"""

cimport cython
from libc.stdint cimport int64_t

from logstore.broker._loop cimport Answer, QuickRequests
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
from logstore.log._partition_log cimport Moment
from logstore.protocol._reading cimport Reader, integer
from logstore.protocol._writing cimport Writer

from logstore.broker.served import MOST_ITEMS
from logstore.errors import LogstoreError

cdef enum:
    FETCH = 1                     # the API key


@cython.final
cdef class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes.

    ``steps`` takes those of sessions. An answer has at most ``most_bytes``, and more than one region only while
    ``files`` has at most ``most_open`` descriptors. If rights are to be asked (``asks_rights``), no request is
    usual.
    """

    def __init__(self, FetchRoutes routes not None, SessionSteps steps not None, Files files not None,
                 int64_t most_open, int64_t most_bytes, bint asks_rights=False):
        self._routes, self._steps, self._files = routes, steps, files
        self._most_open, self._most_bytes, self._asks_rights = most_open, most_bytes, asks_rights

    cdef bint take(self, Answer answer, bytes frame) except -1:
        """Answer a usual request, or have it wait; leave all others."""
        cdef Reader r = Reader(frame, 0, 0, False)
        cdef Head head
        cdef int64_t number = 0, epoch = -1
        cdef ClientFetchSession session = None
        cdef list pieces = None
        if self._asks_rights:
            return False
        try:
            if integer(r, "API key", 2) != FETCH or not begins(r, &head, self._most_bytes):
                return False
            if head.version >= SESSIONS:
                number, epoch = integer(r, "session id", 4), integer(r, "session epoch", 4)
            if number != 0 or epoch != -1:
                session = self._steps.session_of(r, &head, number, epoch)
            else:
                pieces = self._answer_to(r, &head)
        except LogstoreError:
            return False  # its decoder, or `fetches`, says what is wrong
        if session is not None:
            self._steps.take(answer, r, &head, session)
            return True
        if pieces is None:
            return False
        self.answered += 1
        answer.give(pieces)
        return True

    cdef list _answer_to(self, Reader r, const Head *head):
        """Return the pieces of the answer; None if the request is not usual."""
        cdef Writer w = answer_of(head, 0)
        cdef int64_t topics, partitions, topic_size, size = 0, left, items = 0
        cdef AskedFields asked
        cdef Moment moment
        cdef FetchRoute route
        cdef FileRegion region
        cdef bytes topic, before = None
        cdef list pieces = [], routes = []
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
        if not ends_with_rack(r) or size < head.min_bytes and head.wait_ms > 0:
            return None
        for route in routes:
            route._counts.fetches += 1
            if route._size >= 0:
                route._counts.bytes_out += route._size
        pieces.append(w.taken())
        set_size(pieces)
        return pieces
