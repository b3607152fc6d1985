# cython: language_level=3
"""Fetch from bytes: the usual request takes no message object, and is answered at once.

Usual is a request outside of a session that names each partition once, or the next step of a session; of logs that
are open, in the present leader epoch, and with as many bytes as it asks for. Anything else (errors, sessions that
begin or end, aborted transactions, a client that has read another log, tagged fields) is left to `fetches`, which
decides what is right: an answer of this module has the bytes that `fetches` would send.

A request is left as it is before its session is changed. From then on it is this step of its session: if its answer
is not usual, it goes on in `fetches` behind that change. Used by the loop's thread.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT16_MAX, int32_t, int64_t, uint8_t

from logstore.batch._bytes cimport store32
from logstore.broker._loop cimport Answer
from logstore.broker._wire cimport copied, length_in, put_end, put_length, put_raw, taken
from logstore.broker.fetching._routes cimport FetchRoute, FetchRoutes
from logstore.broker.fetching._sessions cimport ClientFetchSession, FetchedPartition, FetchSessions, Plan
from logstore.io._file_region cimport FileRegion
from logstore.io._files cimport Files
from logstore.log._partition_log cimport Moment
from logstore.protocol._reading cimport Reader, integer
from logstore.protocol._writing cimport Writer, plain_number

from logstore.broker.served import MOST_ITEMS, id_text
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
cdef class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes.

    ``go_on(answer, version, correlation_id, wait_ms, min_bytes, max_bytes, isolation, plan)`` gets each request
    whose session has what it has changed, and whose answer is not a usual one. An answer has at most
    ``most_bytes``, and more than one region only while ``files`` has at most ``most_open`` descriptors. If rights
    are to be asked (``asks_rights``), no request is usual.
    """

    def __init__(self, FetchRoutes routes not None, FetchSessions sessions not None, go_on: object,
                 Files files not None, int64_t most_open, int64_t most_bytes, bint asks_rights=False):
        self._routes, self._sessions, self._go_on, self._files = routes, sessions, go_on, files
        self._most_open, self._most_bytes, self._asks_rights = most_open, most_bytes, asks_rights

    cdef bint take(self, Answer answer, bytes frame) except -1:
        """Answer a usual request; leave all others."""
        cdef Reader r = Reader(frame, 0, 0, False)
        cdef Head head
        cdef int64_t number = 0, epoch = -1
        cdef ClientFetchSession session = None
        cdef list pieces = None
        cdef const uint8_t *changes = NULL
        if self._asks_rights:
            return False
        try:
            if integer(r, "API key", 2) != FETCH or not _begins(r, &head, self._most_bytes):
                return False
            if head.version >= SESSIONS:
                number, epoch = integer(r, "session id", 4), integer(r, "session epoch", 4)
            if number != 0 or epoch != -1:
                session = self._sessions.find(number, epoch, head.is_id)
                changes = r.p
                if session is None or not _read_changes(r, session, False):
                    return False
            else:
                pieces = self._answer_to(r, &head)
        except LogstoreError:
            return False  # its decoder, or `fetches`, says what is wrong
        if session is not None:
            # Each field was read, so none is refused now.
            r.p = changes
            _read_changes(r, session, True)
            self._take_step(answer, &head, self._sessions.go_on(session))
            return True
        if pieces is None:
            return False
        self.answered += 1
        answer.give(pieces)
        return True

    # -- outside of a session

    cdef list _answer_to(self, Reader r, const Head *head):
        """Return the pieces of the answer; None if the request is not usual."""
        cdef Writer w = _answer_of(head, 0)
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
            _put_topic(w, topic, partitions, head.is_id)
            while partitions > 0:
                partitions -= 1
                if not _read_partition(r, &asked):
                    return None
                left = max(min(head.most - size, asked.max_bytes), <int64_t>0)
                if size and self._files.open_descriptors > self._most_open:
                    left = 0  # the next fetch brings the rest
                route = self._routes.find(topic, asked.partition, head.is_id)
                if route is None or route._request == self._requests:
                    return None
                route._request = self._requests
                region = self._find(route, &asked, left, size, head.committed, &moment)
                if not moment.is_usual:
                    return None
                routes.append(route)
                route._size = -1 if region is None else region.size
                _put_partition(w, asked.partition, &moment,
                               head.committed and not _is_held_back(region, left, asked.offset, &moment), region)
                if region is not None:
                    size += region.size
                    pieces += [w.taken(), region]
                    w = Writer(head.version, head.flexible)
                put_end(w)
            if not _ends(r):
                return None
            put_end(w)
        put_end(w)
        if head.version >= SESSIONS and length_in(r, "forgotten topics", 4) != 0:
            return None
        if not _ends_with_rack(r) or size < head.min_bytes and head.wait_ms > 0:
            return None
        for route in routes:
            route._counts.fetches += 1
            if route._size >= 0:
                route._counts.bytes_out += route._size
        pieces.append(w.taken())
        _set_size(pieces)
        return pieces

    cdef FileRegion _find(self, FetchRoute route, const AskedFields *asked, int64_t left, int64_t size,
                          bint committed, Moment *moment):
        """Return what a partition has for an answer of so many bytes; None if nothing, or if it is not usual."""
        cdef FileRegion region
        moment.is_usual = False
        if asked.epoch not in (-1, route._log.leader_epoch):
            return None
        if asked.last_epoch >= 0 and not route._agrees(asked.last_epoch, asked.offset):
            return None
        region = route._log.region_at(asked.offset, left, committed, moment)
        if region is None or not moment.is_usual:
            return None
        if region.size > left and size:
            return None  # only the first one of an answer is larger
        if committed and (route._log_of_records._aborted_between(asked.offset, region.next_offset)
                          or not route._log.is_in(moment)):
            moment.is_usual = False
        return region

    # -- in a session

    cdef int _take_step(self, Answer answer, const Head *head, Plan plan) except -1:
        """Answer a request whose session has what it has changed."""
        cdef FetchedPartition each
        cdef list pieces
        try:
            pieces = self._answer_in_session(plan, head)
        except LogstoreError:
            pieces = None  # as the others that are not usual
        if pieces is None:
            for each in plan.wanted:
                each._region = None  # it would keep a file open
            self._go_on(answer, head.version, head.correlation_id, head.wait_ms, head.min_bytes, head.most,
                        <int>head.committed, plan)
            return 0
        self.answered += 1
        self.answered_in_sessions += 1
        answer.give(pieces)
        return 0

    cdef list _answer_in_session(self, Plan plan, const Head *head):
        """Return the pieces of the answer, and note what it tells; None, with nothing noted, if it is not usual."""
        cdef ClientFetchSession session = plan.session
        cdef FetchedPartition each
        cdef FetchRoute route
        cdef AskedFields asked
        cdef int64_t left, size = 0
        cdef list told = [], moved = [], pieces
        if session is None:
            return None
        table = self._routes.now()
        for each in plan.wanted:
            each._region = None
            route = each._route
            if each._table is not table or route is None or route._log.closed:
                route = self._routes.find(each.topic, each.partition, head.is_id)
                each._route, each._table = route, table
                if route is None:
                    return None
            left = max(min(head.most - size, <int64_t>each.partition_max_bytes), <int64_t>0)
            if size and self._files.open_descriptors > self._most_open:
                left = 0  # the next fetch brings the rest
            asked.epoch, asked.last_epoch = each.current_leader_epoch, each.last_fetched_epoch
            asked.offset = each.fetch_offset
            each._region = self._find(route, &asked, left, size, head.committed, &each._moment)
            if not each._moment.is_usual:
                return None
            if each._region is not None:
                size += each._region.size
                moved.append(each)
            elif (each._moment.high_watermark == each._high_watermark
                    and each._moment.log_start == each._log_start):
                continue
            each._has_list = head.committed and not _is_held_back(each._region, left, asked.offset, &each._moment)
            told.append(each)
        if size < head.min_bytes and head.wait_ms > 0:
            return None
        pieces = _pieces_in_session(head, session.number, told)
        for each in plan.wanted:
            each._route._counts.fetches += 1
        for each in told:
            if each._region is not None:
                each._route._counts.bytes_out += each._region.size
                each._region = None
            each._note(each._moment.high_watermark, each._moment.log_start)
        session.move_back(moved)
        return pieces


cdef bint _begins(Reader r, Head *head, int64_t most_bytes) except -1:
    """Read what stands before the session; False if the request is not usual."""
    head.version = r.version = <int>integer(r, "version", 2)
    if not FIRST_VERSION <= head.version <= LAST_VERSION:
        return False
    head.flexible, head.is_id = head.version >= FLEXIBLE, head.version >= TOPIC_IDS
    head.correlation_id = <int32_t>integer(r, "correlation id", 4)
    if not _is_ascii(r, -1):
        return False
    r.flexible = head.flexible
    if not _ends(r):
        return False
    if head.version < NO_REPLICA:
        integer(r, "replica", 4)
    head.wait_ms, head.min_bytes = integer(r, "max wait", 4), integer(r, "min bytes", 4)
    head.most = integer(r, "max bytes", 4)
    head.most = min(head.most, most_bytes) if head.most > 0 else most_bytes
    head.committed = integer(r, "isolation level", 1) == COMMITTED
    return True


cdef bint _read_partition(Reader r, AskedFields *asked) except -1:
    """Read what a request asks of a partition; False if it has tagged fields."""
    asked.partition = <int32_t>integer(r, "partition", 4)
    asked.epoch = integer(r, "leader epoch", 4) if r.version >= LEADER_EPOCHS else -1
    asked.offset = integer(r, "offset", 8)
    asked.last_epoch = integer(r, "last epoch", 4) if r.version >= FLEXIBLE else -1
    if r.version >= LOG_STARTS:
        integer(r, "log start offset", 8)
    asked.max_bytes = integer(r, "max bytes", 4)
    return _ends(r)


cdef bint _read_changes(Reader r, ClientFetchSession session, bint applies) except -1:
    """Read what a request changes in a session, to its end, and change it if that is asked; False if not usual."""
    cdef bint is_id = r.version >= TOPIC_IDS, is_forgotten
    cdef int64_t topics, partitions, topic_size, items = 0
    cdef AskedFields asked
    cdef FetchedPartition each
    cdef bytes topic
    cdef str name, topic_id
    cdef dict added = {}
    cdef list dropped = []
    for is_forgotten in range(2):
        topics = length_in(r, "topics", 4)
        if topics < 0:
            return False
        while topics > 0:
            topics -= 1
            topic_size = UUID_BYTES if is_id else length_in(r, "topic", 2)
            if not 0 < topic_size <= r.end - r.p:
                return False
            topic = copied(taken(r, topic_size), topic_size)
            if not is_id and not topic.isascii():
                return False
            partitions = length_in(r, "partitions", 4)
            items += 1 + partitions
            if partitions < 0 or items > MOST_ITEMS:
                return False
            name = None
            while partitions > 0:
                partitions -= 1
                if is_forgotten:
                    asked.partition = <int32_t>integer(r, "partition", 4)
                elif not _read_partition(r, &asked):
                    return False
                if not applies:
                    continue
                each = session.find(topic, asked.partition)
                if is_forgotten:
                    if each is not None:
                        dropped.append(each)
                    continue
                if each is None:
                    each = added.get((topic, asked.partition))
                if each is None:
                    if name is None:
                        name = "" if is_id else topic.decode()
                        topic_id = id_text(topic) if is_id and any(topic) else ""
                    each = FetchedPartition(topic, name, topic_id, asked.partition)
                    added[topic, asked.partition] = each
                each._ask(asked.epoch, asked.offset, asked.last_epoch, asked.max_bytes)
            if not _ends(r):
                return False
        if not is_forgotten and added:
            session.add(list(added.values()))
    session.drop(dropped)
    return _ends_with_rack(r)


cdef bint _ends_with_rack(Reader r) except -1:
    """Step over what stands behind the topics; False if a decoder has to look at it."""
    if r.version >= RACKS and not _is_ascii(r, 0):
        return False
    return _ends(r)


cdef bint _is_held_back(FileRegion region, int64_t left, int64_t offset, const Moment *moment) noexcept:
    """Return whether a first batch does not fit: as from Kafka, there is no list of transactions then."""
    return region is None and left > 0 and offset < moment.last_stable


cdef Writer _answer_of(const Head *head, int64_t session_id):
    """Begin an answer."""
    cdef Writer w = Writer(head.version, head.flexible)
    plain_number(w, 0, 4)  # the frame's size, set at its end
    plain_number(w, head.correlation_id, 4)
    put_end(w)  # of the header
    plain_number(w, 0, 4)  # throttle time
    if head.version >= SESSIONS:
        plain_number(w, 0, 2)  # error of the request
        plain_number(w, session_id, 4)
    return w


cdef int _put_topic(Writer w, bytes topic, int64_t partitions, bint is_id) except -1:
    cdef int64_t size = PyBytes_GET_SIZE(topic)
    if not is_id:
        put_length(w, size, 2)
    put_raw(w, <const uint8_t *>PyBytes_AS_STRING(topic), size)
    put_length(w, partitions, 4)
    return 0


cdef int _put_partition(Writer w, int32_t partition, const Moment *moment, bint has_list,
                        FileRegion region) except -1:
    """Write what an answer says of a partition up to its records."""
    plain_number(w, partition, 4)
    plain_number(w, 0, 2)  # error
    plain_number(w, moment.high_watermark, 8)
    plain_number(w, moment.last_stable, 8)
    if w.version >= LOG_STARTS:
        plain_number(w, moment.log_start, 8)
    put_length(w, 0 if has_list else -1, 4)
    if w.version >= RACKS:
        plain_number(w, -1, 4)  # no preferred replica
    # "No records" is zero bytes: some clients cannot read null.
    put_length(w, 0 if region is None else region.size, 4)
    return 0


cdef list _pieces_in_session(const Head *head, int64_t number, list told):
    """Return the pieces of an answer that names partitions of a session, in their order."""
    cdef Writer w = _answer_of(head, number)
    cdef FetchedPartition each, other
    cdef list pieces = []
    cdef Py_ssize_t n, end = 0, count = len(told)
    cdef int64_t topics = 0
    cdef bytes topic = None
    # A topic may come more than once: its partitions keep the order of their turns.
    for each in told:
        if each.topic != topic:
            topic = each.topic
            topics += 1
    put_length(w, topics, 4)
    for n in range(count):
        each = told[n]
        if n == end:
            while end < count:
                other = told[end]
                if other.topic != each.topic:
                    break
                end += 1
            _put_topic(w, each.topic, end - n, head.is_id)
        _put_partition(w, each.partition, &each._moment, each._has_list, each._region)
        if each._region is not None:
            pieces += [w.taken(), each._region]
            w = Writer(head.version, head.flexible)
        put_end(w)
        if n + 1 == end:
            put_end(w)  # of the topic
    put_end(w)
    pieces.append(w.taken())
    _set_size(pieces)
    return pieces


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
