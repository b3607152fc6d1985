# cython: language_level=3
"""Fetch from bytes: the usual request takes no message object, and is answered at once.

Usual is a request outside of a session that names each partition once, of logs that are open, in the present leader
epoch, and that finds as many bytes as it asks for. Anything else (errors, sessions, a request that has to wait,
aborted transactions, a client that has read another epoch, tagged fields) is left to `fetch`, which decides what is
right: an answer of this module has the bytes that `fetch` would send. Used by the loop's thread.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT16_MAX, int32_t, int64_t, uint8_t

from logstore.batch._bytes cimport store32
from logstore.broker._loop cimport Answer
from logstore.broker._wire cimport copied, length_in, put_end, put_length, put_raw, taken
from logstore.io._file_region cimport FileRegion
from logstore.io._files cimport Files
from logstore.log._partition_log cimport Moment, PartitionLog
from logstore.protocol._reading cimport Reader, integer
from logstore.protocol._writing cimport Writer, plain_number

from logstore.broker.served import MOST_ITEMS
from logstore.errors import LogstoreError

cdef enum:
    FETCH = 1                     # the API key
    FIRST_VERSION = 4
    LOG_STARTS = 5                # version from which on answers have log start offsets
    SESSIONS = 7
    LEADER_EPOCHS = 9
    RACKS = 11
    FLEXIBLE = 12
    TOPIC_IDS = 13                # version from which on topics are named by their ids
    NO_REPLICA = 15               # version from which on the replica is a tagged field
    LAST_VERSION = 18
    UUID_BYTES = 16
    COMMITTED = 1                 # isolation level


@cython.final
cdef class FetchRoute:
    """The way to a partition's records: its open log, and the counts of its topic."""

    def __init__(self, PartitionLog log not None, aborted_between: object, counts: object,
                 bint is_replicated=False):
        self._log, self._aborted_between, self._counts = log, aborted_between, counts
        self._is_replicated = is_replicated


@cython.final
cdef class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes.

    ``route_to(topic, partition, is_id)`` returns the route to a partition, or None; ``topic`` has the bytes of a
    name or an id. ``table()`` returns the table of topics, another object after each change. An answer has at most
    ``most_bytes``, and more than one region only while ``files`` has at most ``most_open`` descriptors.
    """

    def __init__(self, route_to: object, table: object, Files files not None, int64_t most_open,
                 int64_t most_bytes):
        self._route_to, self._table, self._files = route_to, table, files
        self._most_open, self._most_bytes, self._routes = most_open, most_bytes, {}

    cdef bint take(self, Answer answer, bytes frame) except -1:
        """Answer a usual request; leave all others."""
        cdef Reader r = Reader(frame, 0, 0, False)
        cdef list pieces
        try:
            if integer(r, "API key", 2) != FETCH:
                return False
            r.version = <int>integer(r, "version", 2)
            pieces = self._answer_to(r) if FIRST_VERSION <= r.version <= LAST_VERSION else None
        except LogstoreError:
            return False  # its decoder, or `fetch`, says what is wrong
        if pieces is None:
            return False
        self.answered += 1
        answer.give(pieces)
        return True

    cdef list _answer_to(self, Reader r):
        """Return the pieces of the answer; None if the request is not usual."""
        cdef int version = r.version
        cdef bint flexible = version >= FLEXIBLE, committed, is_id = version >= TOPIC_IDS
        cdef Writer w = Writer(version, flexible)
        cdef int64_t wait_ms, min_bytes, most, left, topics, partitions, topic_size, size = 0, offset, epoch
        cdef int64_t partition, items = 0, replica = -1
        cdef Moment moment
        cdef FetchRoute route
        cdef FileRegion region
        cdef bytes topic, before = None
        cdef list pieces = [], routes = []
        plain_number(w, 0, 4)  # the frame's size, set below
        plain_number(w, integer(r, "correlation id", 4), 4)
        put_end(w)  # of the header
        if not _is_ascii(r, -1):
            return None
        r.flexible = flexible
        if not _ends(r):
            return None
        if version < NO_REPLICA:
            replica = integer(r, "replica", 4)
        wait_ms, min_bytes = integer(r, "max wait", 4), integer(r, "min bytes", 4)
        most = integer(r, "max bytes", 4)
        most = min(most, self._most_bytes) if most > 0 else self._most_bytes
        committed = integer(r, "isolation level", 1) == COMMITTED
        plain_number(w, 0, 4)  # throttle time
        if version >= SESSIONS:
            if integer(r, "session id", 4) != 0 or integer(r, "session epoch", 4) != -1:
                return None
            plain_number(w, 0, 2)  # error of the request
            plain_number(w, 0, 4)  # no session
        topics = length_in(r, "topics", 4)
        if topics <= 0:
            return None
        put_length(w, topics, 4)
        self._requests += 1
        while topics > 0:
            topics -= 1
            topic_size = UUID_BYTES if is_id else length_in(r, "topic", 2)
            if not 0 < topic_size <= r.end - r.p:
                return None
            topic = copied(taken(r, topic_size), topic_size)
            partitions = length_in(r, "partitions", 4)
            items += 1 + partitions
            # The answer names a topic once whose parts follow each other.
            if partitions <= 0 or items > MOST_ITEMS or topic == before:
                return None
            before = topic
            if not is_id:
                put_length(w, topic_size, 2)
            put_raw(w, <const uint8_t *>PyBytes_AS_STRING(topic), topic_size)
            put_length(w, partitions, 4)
            while partitions > 0:
                partitions -= 1
                partition = integer(r, "partition", 4)
                epoch = integer(r, "leader epoch", 4) if version >= LEADER_EPOCHS else -1
                offset = integer(r, "offset", 8)
                if version >= FLEXIBLE and integer(r, "last epoch", 4) >= 0:
                    return None
                if version >= LOG_STARTS:
                    integer(r, "log start offset", 8)
                left = max(min(most - size, integer(r, "max bytes", 4)), <int64_t>0)
                if not _ends(r):
                    return None
                if size and self._files.open_descriptors > self._most_open:
                    left = 0  # the next fetch brings the rest
                route = self._route_of(topic, partition, is_id, replica >= 0)
                if route is None or route._request == self._requests or epoch not in (-1, route._log.leader_epoch):
                    return None
                route._request = self._requests
                region = route._log.region_at(offset, left, committed, &moment)
                if not moment.is_usual:
                    return None
                if region is not None and region.size > left and size:
                    region = None  # only the first one of an answer is larger
                if committed and region is not None and (
                        route._aborted_between(offset, region.next_offset) or not route._log.is_in(&moment)):
                    return None
                routes.append(route)
                route._size = -1 if region is None else region.size
                plain_number(w, partition, 4)
                plain_number(w, 0, 2)  # error
                plain_number(w, moment.high_watermark, 8)
                plain_number(w, moment.last_stable, 8)
                if version >= LOG_STARTS:
                    plain_number(w, moment.log_start, 8)
                # As from Kafka: no list where a first batch does not fit.
                put_length(w, 0 if committed and not (region is None and left > 0 and offset < moment.last_stable)
                           else -1, 4)
                if version >= RACKS:
                    plain_number(w, -1, 4)  # no preferred replica
                # "No records" is zero bytes: some clients cannot read null.
                put_length(w, max(route._size, <int64_t>0), 4)
                if region is not None:
                    size += region.size
                    pieces += [w.taken(), region]
                    w = Writer(version, flexible)
                put_end(w)
            if not _ends(r):
                return None
            put_end(w)
        put_end(w)
        if version >= SESSIONS and length_in(r, "forgotten topics", 4) != 0:
            return None
        if version >= RACKS and not _is_ascii(r, 0):
            return None
        if not _ends(r) or size < min_bytes and wait_ms > 0:
            return None
        for route in routes:
            route._counts.fetches += 1
            if route._size >= 0:
                route._counts.bytes_out += route._size
        pieces.append(w.taken())
        _set_size(pieces)
        return pieces

    cdef FetchRoute _route_of(self, bytes topic, int64_t partition, bint is_id, bint is_follower):
        """Return the route to a partition; None if there is none, or if this node leads it no more."""
        cdef FetchRoute route
        table = self._table()
        if table is not self._known:
            self._known = table
            self._routes.clear()
        key = (topic, partition, is_id)  # the bytes of an id may be those of a name
        route = self._routes.get(key)
        if route is None or route._log.closed:
            route = self._route_to(topic, partition, is_id)
            if route is not None:
                self._routes[key] = route
        # Of a replica that follows, a route would go on answering with what it has copied.
        if route is not None and route._is_replicated and (is_follower or not route._log.leads):
            return None
        return route


cdef bint _is_ascii(Reader r, int64_t least) except -1:
    """Step over a text of at least so many bytes, -1 for null; False if its decoder has to look at it."""
    cdef int64_t size = length_in(r, "text", 2), n
    if size < least or size > INT16_MAX:
        return False
    for n in range(size):
        if r.p[n] >= 0x80:
            return False
    r.p += max(size, <int64_t>0)
    return True


cdef bint _ends(Reader r) noexcept:
    """Step over the end of a struct; False if it has tagged fields, or does not end."""
    if r.flexible:
        if r.p == r.end or r.p[0]:
            return False
        r.p += 1
    return True


cdef int _set_size(list pieces) except -1:
    """Write the size of a frame into its first piece, which has no other owner yet."""
    cdef int64_t size = -4
    for piece in pieces:
        size += (<FileRegion>piece).size if isinstance(piece, FileRegion) else PyBytes_GET_SIZE(<bytes>piece)
    store32(<uint8_t *>PyBytes_AS_STRING(<bytes>pieces[0]), <int32_t>size)
    return 0
