# cython: language_level=3
"""Produce from bytes: the batches of one turn of the loop, one write for each log.

The usual request takes no message object: its batches are found in the frame, offered to their logs at the end of
the turn, and answered. What is not usual (a log that is not open or whose lock is held, a roll, a batch that is
refused, a sync) goes on in `produce`, which appends what is left, in the order of the requests of a connection.
Used by the loop's thread.
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from logstore.batch._batch cimport (
    AT_ATTRIBUTES, AT_LENGTH, AT_MAGIC, CODEC_MASK, CONTROL_FLAG, HEADER_BYTES, LENGTH_END, TRANSACTIONAL_FLAG,
)
from logstore.batch._bytes cimport load16, load32, store32
from logstore.broker._loop cimport Answer, ClientConnection
from logstore.broker._wire cimport (
    copied, end_struct, length_in, put_end, put_length, put_raw, skip_text, taken,
)
from logstore.log._partition_log cimport Offer
from logstore.log.append._offers cimport BatchOffers
from logstore.protocol._reading cimport Reader, integer
from logstore.protocol._writing cimport Writer, plain_number

import logging

from logstore.broker.served import MOST_ITEMS
from logstore.errors import LogstoreError
from logstore.protocol.frames import decode_request

_logger = logging.getLogger(__name__)

cdef enum:
    PRODUCE = 0                   # the API key
    FIRST_VERSION = 3
    FLEXIBLE = 9
    TOPIC_IDS = 13                # version from which on topics are named by their ids
    UUID_BYTES = 16
    CLIENT_ID_AT = 8              # behind key, version and correlation id
    OFFERED = 32                  # batches that a log is offered at once
    ZSTD = 4                      # a codec, and the version that it came with
    ZSTD_SINCE = 7


@cython.final
cdef class Route:
    """The way of a partition's batches into its log."""

    def __init__(self, BatchOffers offers not None):
        self._offers = offers
        self._batches = []


@cython.final
@cython.freelist(64)
cdef class OfferedBatch:
    """One batch of a request, and what has become of it."""


@cython.final
cdef class ProduceRequestBytes:
    """One request of the turn.

    Owns: the frame, which its batches point into.
    """

    @property
    def answer(self) -> Answer:
        """Its place among the answers of the connection."""
        return self._answer

    def decode(self) -> Request:
        """Return the request as a message; raise MalformedMessageError if it is none."""
        if self._request is None:
            self._request = decode_request(self._frame, max_items=MOST_ITEMS)
        return self._request

    @property
    def results(self) -> list[tuple[int, int, int] | None]:
        """Error code, first offset, log start offset of each batch, in their order; None if it is to be appended.

        Empty if nothing of the request is done.
        """
        cdef OfferedBatch each
        return [(each._error, each._first, each._log_start) if each._is_done else None for each in self._batches]

    cdef bint _parse(self) except -1:
        """Find the batches in the frame; False if it is not a usual request, whose decoder says what is wrong."""
        cdef OfferedBatch batch
        cdef Reader r = Reader(self._frame, 2, 0, False)
        cdef int64_t topics, partitions, n, size, topic_size
        cdef int16_t attributes
        cdef const uint8_t *topic
        self._batches = []
        self._version = <int16_t>integer(r, "version", 2)
        self._correlation_id = <int32_t>integer(r, "correlation id", 4)
        skip_text(r, "client id")
        r.flexible = self._version >= FLEXIBLE
        end_struct(r)
        skip_text(r, "transactional id")
        self._acks = <int16_t>integer(r, "acks", 2)
        if self._acks < -1 or self._acks > 1:
            return False
        integer(r, "timeout", 4)
        topics = self._topic_count = length_in(r, "topics", 4)
        while topics > 0:
            topics -= 1
            topic_size = UUID_BYTES if self._version >= TOPIC_IDS else length_in(r, "name", 2)
            if topic_size <= 0 or topic_size > r.end - r.p:
                return False
            topic = taken(r, topic_size)
            partitions = length_in(r, "partitions", 4)
            if partitions <= 0 or partitions > MOST_ITEMS - len(self._batches):
                return False
            for n in range(partitions):
                batch = OfferedBatch.__new__(OfferedBatch)
                batch._frame = self._frame
                batch._topic, batch._topic_size = topic, topic_size
                batch._partitions = 0 if n else partitions
                batch._partition = <int32_t>integer(r, "index", 4)
                size = length_in(r, "records", 4)
                if size < HEADER_BYTES:
                    return False
                batch._data, batch._size, batch._first, batch._log_start = taken(r, size), size, -1, -1
                attributes = load16(batch._data + AT_ATTRIBUTES)
                if (batch._data[AT_MAGIC] != 2 or load32(batch._data + AT_LENGTH) + LENGTH_END != size
                        or attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
                        or (self._version < ZSTD_SINCE and attributes & CODEC_MASK == ZSTD)):
                    return False
                end_struct(r)
                self._batches.append(batch)
            end_struct(r)
        end_struct(r)
        return len(self._batches) > 0

    cdef bint _is_done(self) except -1:
        cdef OfferedBatch each
        if not self._batches:
            return False
        for each in self._batches:
            if not each._is_done:
                return False
        return True

    cdef bint _has_error(self) except -1:
        cdef OfferedBatch each
        for each in self._batches:
            if each._error:
                return True
        return False

    cdef bytes _response(self):
        """Return the frame of the answer (Kafka protocol guide, "Produce Response")."""
        cdef Writer w = Writer(self._version, self._version >= FLEXIBLE)
        cdef OfferedBatch each
        cdef int64_t left = 0
        plain_number(w, 0, 4)  # the frame's size, set below
        plain_number(w, self._correlation_id, 4)
        put_end(w)  # of the header
        put_length(w, self._topic_count, 4)
        for each in self._batches:
            if each._partitions:
                if self._version < TOPIC_IDS:
                    put_length(w, each._topic_size, 2)
                put_raw(w, each._topic, each._topic_size)
                put_length(w, each._partitions, 4)
                left = each._partitions
            plain_number(w, each._partition, 4)
            plain_number(w, each._error, 2)
            plain_number(w, each._first, 8)
            plain_number(w, -1, 8)  # the log keeps the times of the batch
            if self._version >= 5:
                plain_number(w, each._log_start, 8)
            if self._version >= 8:
                put_length(w, 0, 4)  # errors of records
                put_length(w, -1, 2)  # no message
            put_end(w)
            left -= 1
            if not left:
                put_end(w)
        plain_number(w, 0, 4)  # throttle time
        put_end(w)
        store32(w.data, <int32_t>(w.size - 4))
        return w.taken()


@cython.final
cdef class ProduceTurn:
    """The produce requests of one turn of the loop.

    ``route_to(topic, partition, is_id)`` returns the route to a partition, or None; ``topic`` has the bytes of a
    name or an id. ``table()`` returns the table of topics, another object after each change. ``finish(connection,
    requests)`` gets the requests of a connection that are not done at the end of the turn. ``allows(connection,
    client_id, topics, is_id)`` says whether a client may write to all of the topics: if not, ``finish`` gets the
    request.
    """

    def __init__(self, route_to: object, table: object, finish: object, allows: object = None):
        self._route_to, self._table, self._finish, self._allows = route_to, table, finish, allows
        self._routes, self._requests, self._active, self._waiting = {}, [], [], set()

    cdef bint gathers(self, int api_key) except -1:
        return api_key == PRODUCE

    cdef bint take(self, Answer answer, bytes frame) except -1:
        """Take a request of a version that is served into the turn; raise MalformedMessageError as its decoder."""
        cdef ProduceRequestBytes request
        cdef OfferedBatch each
        cdef Route route
        cdef list routes = None
        cdef Reader r = Reader(frame, 0, 0, False)
        if integer(r, "API key", 2) != PRODUCE or not FIRST_VERSION <= integer(r, "version", 2) <= TOPIC_IDS:
            return False
        request = ProduceRequestBytes.__new__(ProduceRequestBytes)
        request._answer, request._frame = answer, frame
        # Behind one that goes to the pool: the batches of a connection keep their order.
        if (request._parse() and answer.connection not in self._waiting
                and (self._allows is None or self._is_allowed(request))):
            routes = self._routes_of(request)
        if routes is None:
            self._waiting.add(answer.connection)
            request._batches = []
            request.decode()  # what is no request is refused here
        else:
            for each, route in zip(request._batches, routes, strict=True):
                if not route._batches:
                    self._active.append(route)
                route._batches.append(each)
        self._requests.append(request)
        return True

    cdef bint _is_allowed(self, ProduceRequestBytes request) except -1:
        """Return whether the client of a request may write to all of its topics."""
        cdef OfferedBatch each
        cdef Reader r = Reader(request._frame, CLIENT_ID_AT, 0, False)
        cdef int64_t size = length_in(r, "client id", 2)
        client_id = None if size < 0 else copied(taken(r, size), size)
        topics = {copied(each._topic, each._topic_size) for each in request._batches if each._partitions}
        return self._allows(request._answer.connection, client_id, topics, request._version >= TOPIC_IDS)

    cdef list _routes_of(self, ProduceRequestBytes request):
        """Return the route of each batch; None if there is none for one of them."""
        cdef OfferedBatch each
        cdef Route route
        cdef list routes = []
        table = self._table()
        if table is not self._known:
            self._known = table
            self._routes.clear()
        for each in request._batches:
            # The bytes of an id may be those of a name.
            key = (copied(each._topic, each._topic_size), each._partition, request._version >= TOPIC_IDS)
            route = self._routes.get(key)
            if route is None or not route._offers.is_open():
                route = self._route_to(key[0], each._partition, request._version >= TOPIC_IDS)
                if route is None:
                    return None
                self._routes[key] = route
            routes.append(route)
        return routes

    cdef int end_turn(self) except -1:
        """Append what was taken, one write for each log, and answer; what is left goes on in the pool."""
        cdef ProduceRequestBytes request
        cdef Route route
        cdef dict left = None
        if not self._requests:
            return 0
        requests, self._requests = self._requests, []
        self._waiting.clear()
        active, self._active = self._active, []
        for route in active:
            try:
                self._append(route)
            except Exception:
                # Its batches are not done: they go on in the pool, as those that a log does not take at once.
                _logger.exception("an append of a turn failed")
        for request in requests:
            connection = request._answer.connection
            try:
                if left is not None and connection in left or not request._is_done():
                    # Behind one that is not done: the answers of a connection, and its batches, keep their order.
                    left = {} if left is None else left
                    left.setdefault(connection, []).append(request)
                elif request._acks:
                    request._answer.give([request._response()])
                elif request._has_error():
                    # As Kafka: it is all that a producer without acks can be told.
                    _logger.info("connection of %s closed: a batch with acks=0 was refused", connection.peer)
                    connection.close()
                else:
                    request._answer.give([])
            except Exception:
                (<ClientConnection>connection)._loop._fail(connection)
        if left is not None:
            for connection, undone in left.items():
                try:
                    self._finish(connection, undone)
                except Exception:
                    (<ClientConnection>connection)._loop._fail(connection)
        return 0

    cdef int _append(self, Route route) except -1:
        """Offer the batches of a log to it, and note what it took."""
        cdef Offer offers[OFFERED]
        cdef OfferedBatch each
        cdef list batches = route._batches
        cdef Py_ssize_t done = 0, count, n, written
        route._batches = []
        try:
            while done < len(batches):
                count = min(<Py_ssize_t>OFFERED, len(batches) - done)
                for n in range(count):
                    each = batches[done + n]
                    offers[n].data, offers[n].size = each._data, each._size
                written = route._offers.put(offers, count)
                for n in range(written):
                    each = batches[done + n]
                    each._first, each._is_done = offers[n].first, True
                    each._log_start = route._offers.log.marks.log_start
                done += written
                if not written:
                    break
        except LogstoreError as error:
            # The log has failed with some of them written: none of them may be called so.
            _logger.warning("produce failed: %s", error)
            for each in batches[done:]:
                each._error, each._is_done = <int16_t>error.code, True
        return 0
