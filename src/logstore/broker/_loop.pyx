# cython: language_level=3
"""The epoll loop of a broker: sockets, frames, answers in the order of their requests, timers, calls from outside.

What a request means is the business of its `Handler`. One thread runs a loop and everything that it calls; only
`Loop.post` and `Loop.stop` may be called by others. Memory follows the bytes that have arrived: the size that a
frame announces is compared with the limit and reserves nothing.
"""

import collections
import functools
import heapq
import logging
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR
from libc.errno cimport EAGAIN, EINTR, errno as c_errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from logstore.batch._bytes cimport load16, load32
from logstore.io._file_region cimport FileRegion
from logstore.io._notifier cimport Notifier, NotifierGroup

from logstore.clock import SYSTEM_CLOCK

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int most, int timeout_ms)
    enum: EPOLL_CLOEXEC
    enum: EPOLL_CTL_ADD
    enum: EPOLL_CTL_MOD
    enum: EPOLL_CTL_DEL
    enum: EPOLLIN
    enum: EPOLLOUT
    enum: EPOLLERR
    enum: EPOLLHUP
    enum: EPOLLRDHUP

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t c_readv "readv"(int fd, const iovec *parts, int count)

cdef extern from "<sys/socket.h>" nogil:
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t c_sendmsg "sendmsg"(int fd, const msghdr *message, int flags)
    enum: MSG_MORE
    enum: MSG_NOSIGNAL

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t size) except NULL
    int _PyBytes_Resize(PyObject **data, Py_ssize_t size) except -1

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)

cdef extern from "<time.h>" nogil:
    struct timespec:
        int64_t tv_sec
        int64_t tv_nsec
    int clock_gettime(int clock, timespec *now)
    enum: CLOCK_MONOTONIC

cdef enum:
    EVENTS = 256                  # taken from the kernel at once
    RECEIVE_BYTES = 1 << 18       # received at once
    SIZE_BYTES = 4
    FIRST_FRAME_BYTES = 1 << 20   # memory that a frame gets at first; untouched, it costs nothing
    PARTS = 64                    # of answers, sent by one call
    TURN_BYTES = 1 << 20          # sent to one connection in a turn: a fast reader does not hold up the others
    IN_FLIGHT = 256               # requests of one connection that are not answered; more are not read
    WARM_NS = 1_000_000_000       # as long as what was in memory is taken to be there still
    ACCEPT_PAUSE_MS = 100         # without a descriptor for a connection
    MOST_CANCELLED = 64           # timers that are kept until their time, or until half of all are cancelled

_logger = logging.getLogger(__name__)


cdef inline int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


# The garbage collector's clear would drop the loop before `__dealloc__` tells it.
@cython.no_gc_clear
cdef class Answer:
    """The place of one request in the order of its connection.

    Owns: the bytes of its frame in `Loop.queued_bytes`, until it is given, dropped, or `release_frame` is called.
    """

    def __dealloc__(self):
        # Of a connection that has closed, perhaps, in any thread: the frame was in use until now.
        self.release_frame()

    def complete(self, object pieces) -> None:
        """Answer with bytes and file regions, in this order; with none, if the client waits for no answer.

        An answer whose connection has closed meanwhile is dropped.
        """
        self.give(list(pieces))

    cdef int give(self, list pieces) except -1:
        if self._pieces is not None:
            raise ValueError("the request is answered already")
        self._pieces = pieces
        self.release_frame()
        self._loop._owe(self.connection)
        return 0

    cpdef int release_frame(self) noexcept:
        """Count the frame as queued no more: it is not kept, or waits for what other requests may bring."""
        cdef Loop loop = self._loop
        if self._frame_bytes:
            loop.queued_bytes -= self._frame_bytes
            self._frame_bytes = 0
            if loop._stopped and not loop._is_choked():
                loop._posted.notify()
        return 0

    def hold(self) -> None:
        """Take no further request of the connection until this answer is sent: a client has one at most."""
        if not self._holds:
            self._holds = True
            self.connection.hold()

    @property
    def is_done(self) -> bool:
        """Whether the request is answered, or its connection closed."""
        return self._pieces is not None or self.connection.is_closed


cdef class QuickRequests:
    """The requests that need no object of Python each, if any: the handler gets all others."""

    cdef bint gathers(self, int api_key) except -1:
        """Return whether requests of a key may wait for the end of the turn."""
        return False

    cdef bint take(self, Answer answer, bytes frame) except -1:
        """Take a frame, to be answered at once or by the end of the turn; False leaves it to the handler.

        An exception closes the connection.
        """
        return False

    cdef int end_turn(self) except -1:
        """Do what was gathered from requests of this turn; answers are sent after it."""
        return 0


cdef class ClientConnection:
    """One connection of a client.

    Owns: its socket, until it is closed. Invariants: at most one of `_waiting`, `_head` and `_frame` holds bytes.
    """

    def __dealloc__(self):
        Py_CLEAR(self._frame)

    def hold(self) -> None:
        """Take no further request until as many calls of `release`: the order of what is in progress matters."""
        self._holds += 1

    def close(self) -> None:
        """Close the connection; its requests get no answer."""
        self._loop._close(self)

    def release(self) -> None:
        """Take requests again."""
        self._holds -= 1
        if not self.is_closed:
            self._loop._owe(self)

    cdef bint _takes_requests(self) except -1:
        """Return whether another request may be handed over: a client that does not read is not read either."""
        return not (self.is_closed or self._holds or self._is_full or self._loop._is_choked()) and (
            len(self._answers) < IN_FLIGHT)

    cdef int _begin_frame(self, int64_t size, const uint8_t *data, int64_t there) except -1:
        """Keep the first bytes of a frame, of which more will come."""
        self._frame_capacity = min(size, max(there, <int64_t>FIRST_FRAME_BYTES))
        self._frame = new_bytes(NULL, self._frame_capacity)
        self._frame_size, self._filled = size, there
        memcpy(PyBytes_AS_STRING(<object>self._frame), data, <size_t>there)
        return 0

    cdef int _grow_frame(self) except -1:
        """Double the memory of a frame, up to its size: it follows what has come."""
        self._frame_capacity = min(2 * self._frame_capacity, self._frame_size)
        _PyBytes_Resize(&self._frame, self._frame_capacity)
        return 0

    cdef bytes _whole_frame(self):
        cdef bytes frame = <bytes>self._frame
        Py_CLEAR(self._frame)
        return frame

    cdef int _drop_requests(self) except -1:
        self._held_bytes, self._head_bytes, self._waiting = 0, 0, b""
        Py_CLEAR(self._frame)
        return 0

    cdef int _advance(self, int64_t count) except -1:
        """Step over bytes that were sent, and over answers that are sent; each piece releases its file."""
        cdef Answer answer
        cdef object piece
        cdef int64_t left
        while self._answers:
            answer = self._answers[0]
            if answer._pieces is None:
                return 0
            while self._piece < len(answer._pieces):
                piece = answer._pieces[self._piece]
                left = ((<FileRegion>piece).size if isinstance(piece, FileRegion)
                        else PyBytes_GET_SIZE(<bytes?>piece)) - self._sent
                if count < left:
                    self._sent += count
                    return 0
                count -= left
                answer._pieces[self._piece] = None
                self._piece += 1
                self._sent = self._warm_end = 0
            self._loop._count_answer(answer)
            self._answers.popleft()
            self._holds -= answer._holds
            self._piece = 0
        return 0


cdef class Loop:
    """The loop of one broker's connections.

    ``handler.request(answer, frame)`` is called for each frame, without its size, and answers at once or later; an
    exception closes the connection. Each of ``quick`` is asked first. ``handler.closed(connection)`` is called for
    each connection that ends. If ``handler.notified(notifier)`` fails, ``handler.waits_for(connection, notifier)``
    says which connections are closed.

    ``max_frame_bytes`` is the largest frame; a connection that announces more is closed. ``max_received_bytes``
    bounds what all connections have sent of requests that are not whole; beyond it, the one with most of them is
    closed. It bounds the bytes of requests in progress as well: beyond it no connection is read until some are
    answered. A connection that has neither sent nor read anything for ``max_idle_s`` is closed, unless it waits for
    an answer and may still send; negative: it stays. Connections beyond ``max_connections`` in all, and
    ``max_connections_per_ip`` from one address, are closed when they are accepted.

    ``in_other(call)`` has another thread make a call: it reads what is not in memory before it is sent. Without it,
    the loop waits for the disk.

    A turn is what one look at the sockets brings. Answers are sent at its end, those of one connection together,
    and of long ones a part: the rest is sent in turns that follow.

    Owns: the epoll descriptor, listening sockets and connections, until `run` returns.
    """

    def __cinit__(self):
        self._epoll = -1
        self._buffer = <uint8_t *>malloc(RECEIVE_BYTES)
        if self._buffer == NULL:
            raise MemoryError

    def __init__(self, handler: object, *, max_frame_bytes: int, max_received_bytes: int, max_connections: int,
                 max_connections_per_ip: int = 2**31 - 1, double max_idle_s: float = -1,
                 quick: Iterable[QuickRequests] = (), in_other: object = None,
                 clock: object = SYSTEM_CLOCK):
        self._epoll = epoll_create1(EPOLL_CLOEXEC)
        if self._epoll < 0:
            raise OSError(c_errno, os.strerror(c_errno))
        self.group = NotifierGroup()
        self._posted = Notifier(group=self.group)
        self._calls = collections.deque()
        self._handler = handler
        self._quick = tuple(quick)
        self._clock, self._in_other = clock, in_other
        self._listeners, self._connections, self._timers, self._owed, self._stopped = {}, {}, [], [], {}
        self.max_frame_bytes = max_frame_bytes
        self.max_received_bytes = max_received_bytes
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_idle_s = max_idle_s
        self._per_ip, self._by_use = {}, collections.OrderedDict()
        self._watch(EPOLL_CTL_ADD, self.group.fileno(), EPOLLIN)

    def __dealloc__(self):
        free(self._buffer)
        if self._epoll >= 0:
            c_close(self._epoll)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def stopped_count(self) -> int:
        """The number of connections that are not read since too many bytes of requests are in progress."""
        return len(self._stopped)

    @property
    def timer_count(self) -> int:
        """The number of timers that are kept, with those that were cancelled and are not dropped yet."""
        return len(self._timers)

    def by_key(self) -> dict[int, tuple[int, int]]:
        """Return the requests of each API key that has come, and the nanoseconds until answers were sent."""
        return {key: (self._requests_of[key], self._answered_ns[key]) for key in range(KEYS)
                if self._requests_of[key]}

    # -- for other threads

    def post(self, call: object) -> None:
        """Have the loop's thread make a call; any thread may. After the end of `run` it is not made."""
        self._calls.append(call)
        self._posted.notify()

    def stop(self) -> None:
        """Have `run` close every connection and return; any thread may call."""
        self._stops = True
        self._posted.notify()

    # -- for the handler, in the loop's thread

    def listen(self, listener: object, name: str = "") -> None:
        """Accept the connections of a listening socket, which belongs to the loop from now on. Before `run` too.

        Each connection has ``name`` as its ``listener``.
        """
        listener.setblocking(False)
        self._listeners[listener.fileno()] = (listener, name)
        self._watch(EPOLL_CTL_ADD, listener.fileno(), EPOLLIN)

    def call_later(self, double delay_s, call: object, ClientConnection connection = None) -> list:
        """Make a call after some seconds; return the timer, for `cancel`. An exception closes ``connection``."""
        self._timer_count += 1
        cdef list timer = [self._clock.monotonic_s() + delay_s, self._timer_count, call, connection]
        heapq.heappush(self._timers, timer)
        return timer

    def cancel(self, list timer) -> None:
        """Have a timer's call not made."""
        if timer[2] is None:
            return
        self._resumed = timer[3]
        timer[2] = timer[3] = None
        self._cancelled += 1
        if self._cancelled > MOST_CANCELLED and 2 * self._cancelled > len(self._timers):
            # Those of long waits would be kept for as long as the waits could have taken.
            self._timers = [each for each in self._timers if each[2] is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def run(self) -> None:
        """Serve until `stop`."""
        cdef epoll_event events[EVENTS]
        cdef int count, n, timeout_ms, fd
        cdef uint32_t number
        cdef int64_t began_ns
        cdef ClientConnection connection
        try:
            while not self._stops:
                self._settle()
                timeout_ms = self._run_timers()
                with nogil:
                    began_ns = now_ns()
                    count = epoll_wait(self._epoll, events, EVENTS, timeout_ms)
                    self._turn_ns = now_ns()
                    self.turns += 1
                    self.idle_ns += self._turn_ns - began_ns
                if count < 0:
                    if c_errno == EINTR:
                        continue
                    raise OSError(c_errno, os.strerror(c_errno))
                for n in range(count):
                    # An event may be of a connection that was closed in this turn: another one may have its
                    # descriptor by now.
                    fd = <int>(events[n].data.u64 & 0xFFFF_FFFF)
                    number = <uint32_t>(events[n].data.u64 >> 32)
                    connection = self._connections.get(fd)
                    if number:
                        if connection is None or connection._number != number:
                            continue
                        try:
                            self._serve(connection, events[n].events)
                        except Exception:
                            self._fail(connection)
                    elif fd in self._listeners:
                        listener, name = self._listeners[fd]
                        self._accept(listener, name)
                    else:
                        self._take_notes()
        finally:
            self._end()

    cdef int _end(self) except -1:
        for connection in list(self._connections.values()):
            self._close(connection)
        for listener, _ in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self._timers.clear()
        return 0

    cdef int _watch(self, int operation, int fd, uint32_t events, uint32_t number=0) except -1:
        cdef epoll_event event
        event.events = events
        event.data.u64 = <uint64_t>number << 32 | <uint32_t>fd
        if epoll_ctl(self._epoll, operation, fd, &event) < 0:
            raise OSError(c_errno, os.strerror(c_errno))
        return 0

    cdef int _run_timers(self) except -2:
        """Make the calls that are due; return the milliseconds until the next, -1 without one."""
        cdef double now = self._clock.monotonic_s()
        while self._timers and (self._timers[0][2] is None or self._timers[0][0] <= now):
            timer = heapq.heappop(self._timers)
            call, timer[2] = timer[2], None
            if call is None:
                self._cancelled -= 1
                continue
            try:
                call()
            except Exception:
                self._fail(timer[3])
        if self._calls or self._owed:
            return 0
        if not self._timers:
            return -1
        return <int>min(1000 * (self._timers[0][0] - now) + 1, 60_000)

    cdef int _take_notes(self) except -1:
        for notifier in self.group.take():
            if notifier is not self._posted:
                self._notify(notifier)
                continue
            while self._calls:
                try:
                    self._calls.popleft()()
                except Exception:
                    self._fail(None)
        return 0

    cdef int _notify(self, object notifier) except -1:
        self._resumed = None
        try:
            self._handler.notified(notifier)
        except Exception:
            # Of the wait that it has ended, or of those that go on.
            self._fail(self._resumed)
            for connection in list(self._connections.values()):
                if self._handler.waits_for(connection, notifier):
                    self._close(connection)
        return 0

    cdef int _fail(self, ClientConnection connection) except -1:
        """Log the exception, and close the connection that it is about, if it is about one: others go on."""
        self.failed_requests += 1
        _logger.exception("a call of the loop failed: client=%s", None if connection is None else connection.peer)
        if connection is not None:
            self._close(connection)
        return 0

    cdef bint _gathers(self, int api_key) except -1:
        cdef QuickRequests each
        for each in self._quick:
            if each.gathers(api_key):
                return True
        return False

    cdef bint _is_taken(self, Answer answer, bytes frame) except -1:
        cdef QuickRequests each
        for each in self._quick:
            if each.take(answer, frame):
                return True
        return False

    cdef int _end_turn(self) except -1:
        cdef QuickRequests each
        for each in self._quick:
            each.end_turn()
        return 0

    cdef int _settle(self) except -1:
        """End a turn: appends that were gathered, answers, and then the requests whose turn has come by that."""
        cdef ClientConnection connection
        while True:
            self._end_turn()
            if self._stopped and not self._is_choked():
                self._go_on_reading()
            if not self._owed:
                return 0
            owed, self._owed = self._owed, []
            for connection in owed:
                connection._is_owed = False
                try:
                    self._send(connection)
                    self._take_waiting(connection)
                except Exception:
                    self._fail(connection)

    cdef bint _is_choked(self) noexcept:
        """Return whether no request is taken until one of those in progress is answered."""
        return self.queued_bytes >= self.max_received_bytes

    cdef int _go_on_reading(self) except -1:
        stopped, self._stopped = self._stopped, {}
        for connection in stopped:
            if not (<ClientConnection>connection).is_closed:
                self._owe(connection)
        return 0

    cdef int _owe(self, ClientConnection connection) except -1:
        """Look at a connection at the end of the turn."""
        if not connection._is_owed:
            connection._is_owed = True
            self._owed.append(connection)
        return 0

    # -- connections

    cdef bint _has_space(self, object address) except -1:
        return (len(self._connections) < self.max_connections
                and self._per_ip.get(address, 0) < self.max_connections_per_ip)

    def _close_idle(self) -> None:
        """Close the connections that have been idle for too long, and look again when the next one will be."""
        cdef ClientConnection connection
        now_s = self._clock.monotonic_s()
        self._idle_timer = self.call_later(self.max_idle_s, self._close_idle)  # if this look fails
        for connection, used_s in list(self._by_use.items()):
            if used_s + self.max_idle_s > now_s:
                break
            if connection._answers and not (connection._is_full or connection._ends):
                self._by_use[connection] = now_s  # it waits for us
                self._by_use.move_to_end(connection)
            else:
                _logger.info("connection of %s closed: idle for %.0f s", connection.peer, now_s - used_s)
                self._close(connection)
        self.cancel(self._idle_timer)
        self._idle_timer = None
        if self._by_use:
            next_s = next(iter(self._by_use.values())) + self.max_idle_s
            self._idle_timer = self.call_later(max(next_s - now_s, 0.001), self._close_idle)

    cdef int _accept(self, object listener, object name) except -1:
        cdef ClientConnection connection
        try:
            socket, peer = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return 0
        except OSError as error:
            # Without a descriptor the listener stays readable, and the loop would spin until one is free. An error
            # of the network is one of that connection (accept(2)).
            _logger.warning("a connection cannot be accepted: %s", error)
            self._watch(EPOLL_CTL_MOD, listener.fileno(), 0)
            self.call_later(ACCEPT_PAUSE_MS / 1000.0, lambda: self._resume(listener))
            return 0
        address = _host_of(peer)
        if not self._has_space(address):
            self.refused_connections += 1
            socket.close()
            return 0
        try:
            socket.setblocking(False)
            socket.setsockopt(1, 9, 1)  # SOL_SOCKET, SO_KEEPALIVE, as Kafka: a host that vanished is noticed
            if socket.family.name != "AF_UNIX":
                socket.setsockopt(6, 1, 1)  # IPPROTO_TCP, TCP_NODELAY: an answer does not wait for the next
            local = socket.getsockname()
        except OSError:
            socket.close()
            return 0
        connection = ClientConnection.__new__(ClientConnection)
        connection._loop = self
        connection.socket = socket
        connection.peer = peer
        connection.local = local
        connection.listener = name
        connection._fd = socket.fileno()
        connection._number = <uint32_t>(1 + self.accepted_connections % 0xFFFF_FFFF)
        connection._waiting = b""
        connection._answers = collections.deque()
        connection._events = EPOLLIN | EPOLLRDHUP
        self._connections[connection._fd] = connection
        self.accepted_connections += 1
        self._per_ip[address] = self._per_ip.get(address, 0) + 1
        self._use(connection)
        if self._idle_timer is None and self.max_idle_s >= 0:
            self._idle_timer = self.call_later(self.max_idle_s, self._close_idle)
        try:
            self._watch(EPOLL_CTL_ADD, connection._fd, connection._events, connection._number)
        except OSError:
            self._fail(connection)
        return 0

    cdef int _use(self, ClientConnection connection) except -1:
        """Note that a connection has sent or read something."""
        if self.max_idle_s >= 0 and connection._used_ns != self._turn_ns:
            connection._used_ns = self._turn_ns
            self._by_use[connection] = self._clock.monotonic_s()
            self._by_use.move_to_end(connection)
        return 0

    def _resume(self, listener: object) -> None:
        if listener.fileno() in self._listeners:
            self._watch(EPOLL_CTL_MOD, listener.fileno(), EPOLLIN)

    cdef int _serve(self, ClientConnection connection, uint32_t events) except -1:
        if events & (EPOLLERR | EPOLLHUP):
            self._close(connection)
            return 0
        if events & EPOLLOUT:
            connection._is_full = False
            self._owe(connection)
        if events & EPOLLIN:
            self._receive(connection)
        if events & EPOLLRDHUP and not connection.is_closed:
            connection._ends = True
            self._set_events(connection)
        return 0

    cdef int _close(self, ClientConnection connection) except -1:
        if connection.is_closed:
            return 0
        connection.is_closed = True
        self.received_bytes -= connection._held_bytes
        connection._drop_requests()
        connection._answers.clear()
        self._by_use.pop(connection, None)
        self._stopped.pop(connection, None)
        address = _host_of(connection.peer)
        self._per_ip[address] -= 1
        if not self._per_ip[address]:
            del self._per_ip[address]
        del self._connections[connection._fd]
        connection.socket.close()
        try:
            self._handler.closed(connection)
        except Exception:
            self._fail(None)
        return 0

    cdef int _receive(self, ClientConnection connection) except -1:
        """Receive what the socket has: the rest of a frame into its own memory, and what follows behind it."""
        cdef iovec parts[2]
        cdef int count = 0
        cdef int64_t found, space = 0, head = connection._head_bytes
        if not connection._takes_requests() or connection._waiting:
            return self._set_events(connection)  # an event of before
        if connection._frame != NULL:
            if connection._filled == connection._frame_capacity:
                connection._grow_frame()
            space = connection._frame_capacity - connection._filled
            parts[0].iov_base = PyBytes_AS_STRING(<object>connection._frame) + connection._filled
            parts[0].iov_len = <size_t>space
            count = 1
        memcpy(self._buffer, connection._head, <size_t>head)
        if connection._frame == NULL or connection._frame_capacity == connection._frame_size:
            parts[count].iov_base = self._buffer + head
            parts[count].iov_len = <size_t>(RECEIVE_BYTES - head)
            count += 1
        # With the interpreter's lock: the call does not wait, and to get the lock back may take 5 ms.
        found = c_readv(connection._fd, parts, count)
        if found < 0 and c_errno in (EAGAIN, EINTR):
            return 0
        if found < 0 or found == 0 and not connection._answers:
            self._close(connection)
            return 0
        if found == 0:
            # Half closed: what was asked is still answered.
            connection._ends = connection._has_ended = True
            self._set_events(connection)
            return 0
        self._use(connection)
        self.bytes_in += found
        self.received_bytes += found
        connection._held_bytes += found
        if space:
            space = min(space, found)
            found -= space
            connection._filled += space
            if connection._filled == connection._frame_size:
                self._hand_over(connection, connection._whole_frame())
        if found:
            connection._head_bytes = 0
            self._take(connection, self._buffer, head + found)
        if self.received_bytes > self.max_received_bytes:
            self._close_greatest()
        if not connection.is_closed:
            self._set_events(connection)
        return 0

    cdef int _close_greatest(self) except -1:
        """Close the connection with most of the unfinished requests: not one that has just sent a little."""
        cdef ClientConnection each, greatest = None
        for each in self._connections.values():
            if greatest is None or each._held_bytes > greatest._held_bytes:
                greatest = each
        if greatest is None:
            return 0
        _logger.warning("connection of %s closed: it has %d of %d bytes of unfinished requests, the limit is %d",
                        greatest.peer, greatest._held_bytes, self.received_bytes, self.max_received_bytes)
        self._close(greatest)
        return 0

    cdef int64_t _check_size(self, ClientConnection connection, const uint8_t *data) except -2:
        """Return the size that a frame announces; -1, with the connection closed, if it is none."""
        cdef int64_t size = load32(data)
        if 0 <= size <= self.max_frame_bytes:
            return size
        _logger.info("connection of %s closed: a frame of %d bytes, expected 0 to %d",
                     connection.peer, size, self.max_frame_bytes)
        self._close(connection)
        return -1

    cdef int _take(self, ClientConnection connection, const uint8_t *data, int64_t size) except -1:
        """Hand over the whole frames in bytes that have come, and keep what is left."""
        cdef int64_t frame_size
        while size >= SIZE_BYTES and connection._takes_requests():
            frame_size = self._check_size(connection, data)
            if frame_size < 0:
                return 0
            if size - SIZE_BYTES < frame_size:
                connection._begin_frame(frame_size, data + SIZE_BYTES, size - SIZE_BYTES)
                return 0
            if frame_size < 2 or not self._gathers(load16(data + SIZE_BYTES)):
                # What was gathered comes before it, and may hold the connection.
                self._end_turn()
                if not connection._takes_requests():
                    break
            data += SIZE_BYTES
            size -= SIZE_BYTES
            self._hand_over(connection, PyBytes_FromStringAndSize(<const char *>data, frame_size))
            data += frame_size
            size -= frame_size
        if connection.is_closed or not size:
            return 0
        if size < SIZE_BYTES:
            memcpy(connection._head, data, <size_t>size)
            connection._head_bytes = <int>size
        else:
            connection._waiting = PyBytes_FromStringAndSize(<const char *>data, size)
        return 0

    cdef int _hand_over(self, ClientConnection connection, bytes frame) except -1:
        cdef Answer answer = Answer.__new__(Answer)
        cdef int64_t size = SIZE_BYTES + PyBytes_GET_SIZE(frame)
        self.received_bytes -= size
        connection._held_bytes -= size
        self.requests += 1
        answer.connection, answer._loop, answer._frame_bytes = connection, self, size
        self.queued_bytes += size
        self._count_request(answer, frame)
        connection._answers.append(answer)
        try:
            if not self._is_taken(answer, frame):
                self._handler.request(answer, frame)
        except Exception as error:
            self.failed_requests += 1
            _logger.info("connection of %s closed: %s: %s", connection.peer, type(error).__name__, error)
            self._close(connection)
        return 0

    cdef void _count_request(self, Answer answer, bytes frame) noexcept:
        cdef int key = -1
        if PyBytes_GET_SIZE(frame) >= 2:
            key = load16(<const uint8_t *>PyBytes_AS_STRING(frame))
        answer._key, answer._began_ns = key if 0 <= key < KEYS else -1, self._turn_ns
        if answer._key >= 0:
            self._requests_of[answer._key] += 1

    cdef void _count_answer(self, Answer answer) noexcept:
        if answer._key >= 0:
            self._answered_ns[answer._key] += now_ns() - answer._began_ns

    cdef int _take_waiting(self, ClientConnection connection) except -1:
        """Hand over frames that have waited, if the connection takes requests again."""
        cdef bytes waiting = connection._waiting
        if waiting and connection._takes_requests():
            connection._waiting = b""
            self._take(connection, <const uint8_t *>PyBytes_AS_STRING(waiting), PyBytes_GET_SIZE(waiting))
        if connection._has_ended and not connection._answers and not connection._waiting:
            self._close(connection)
        if not connection.is_closed:
            self._set_events(connection)
        return 0

    cdef int _set_events(self, ClientConnection connection) except -1:
        """Ask for what the connection can take now."""
        cdef uint32_t wanted = 0
        if connection._is_full:
            wanted = EPOLLOUT
        elif connection._takes_requests() and not connection._waiting and not connection._has_ended:
            wanted = EPOLLIN
        elif connection._waiting and connection._takes_requests():
            self._owe(connection)  # what kept them waiting has ended meanwhile
        elif self._is_choked():
            self._stopped[connection] = None
        if not connection._ends:
            wanted |= EPOLLRDHUP  # an end behind what is not read now would not be seen
        if wanted != connection._events:
            connection._events = wanted
            self._watch(EPOLL_CTL_MOD, connection._fd, wanted, connection._number)
        return 0

    cdef int _send(self, ClientConnection connection) except -1:
        """Send the answers whose turn has come, as far as the socket takes them."""
        if connection.is_closed or connection._is_full or connection._is_cold:
            return 0
        if connection._sent_in != self._turn_ns:
            connection._sent_in, connection._left = self._turn_ns, TURN_BYTES
        try:
            while self._send_next(connection):
                pass
        except Exception as error:
            # The socket's error, or a file that ends inside a region.
            if not isinstance(error, ConnectionError):
                _logger.warning("connection of %s closed: %s: %s", connection.peer, type(error).__name__, error)
            self._close(connection)
        return 0

    cdef bint _send_next(self, ClientConnection connection) except -1:
        """Send bytes up to the next region, of several answers together, or that region; False: no more for now.

        What is beyond the share of a turn is sent in the next one, as if the socket were full.
        """
        cdef iovec parts[PARTS]
        cdef msghdr message
        cdef Answer answer
        cdef FileRegion region = None
        cdef object piece
        cdef Py_ssize_t at
        cdef size_t count = 0
        cdef int64_t wanted = 0, sent, start, size
        connection._advance(0)
        if not connection._left:
            connection._is_full = bool(connection._answers) and (<Answer>connection._answers[0])._pieces is not None
            return False
        at, start = connection._piece, connection._sent
        for answer in connection._answers:
            if answer._pieces is None:
                break
            while at < len(answer._pieces) and count < PARTS and wanted < connection._left:
                piece = answer._pieces[at]
                if isinstance(piece, FileRegion):
                    region = piece
                    break
                size = min(PyBytes_GET_SIZE(<bytes?>piece) - start, connection._left - wanted)
                parts[count].iov_base = PyBytes_AS_STRING(piece) + start
                parts[count].iov_len = <size_t>size
                wanted += size
                start = 0
                count += 1
                at += 1
            if region is not None or count == PARTS or wanted == connection._left:
                break
            at = 0
        if count:
            memset(&message, 0, sizeof(message))
            message.msg_iov, message.msg_iovlen = parts, count
            # The region that follows goes out in the same packet.
            sent = c_sendmsg(connection._fd, &message, MSG_NOSIGNAL | (MSG_MORE if region is not None else 0))
            if sent < 0 and c_errno not in (EAGAIN, EINTR):
                raise OSError(c_errno, os.strerror(c_errno))
            sent = max(sent, <int64_t>0)
            self.bytes_copied += sent
        elif region is not None:
            if not self._is_at_hand(connection, region, start):
                return False
            wanted = min(region.size - start, connection._left)
            if self._in_other is not None:
                wanted = min(wanted, connection._warm_end - start)
            sent = region.send_to(connection._fd, start, wanted)
            self.bytes_sendfile += sent
        else:
            return False
        if sent:
            self._use(connection)
        connection._left -= sent
        connection._advance(sent)
        connection._is_full = sent < wanted
        return sent == wanted

    cdef bint _is_at_hand(self, ClientConnection connection, FileRegion region, int64_t start) except -1:
        """Return whether the loop may send from a region now; if not, another thread reads what comes next first.

        It is read once: what has left the memory by the time it is sent is read again by the send, in the loop.
        """
        cdef int64_t size = min(region.size - start, <int64_t>TURN_BYTES)
        if (self._in_other is None
                or connection._warm_end > start and self._turn_ns - connection._warm_ns < WARM_NS):
            return True
        connection._warm_end, connection._warm_ns = start + size, self._turn_ns
        if not region.is_cold(start, size):
            return True
        self.cold_reads += 1
        connection._is_cold = True
        self._in_other(functools.partial(self._warm, connection, region, start, size))
        return False

    def _warm(self, ClientConnection connection, FileRegion region, start: int, size: int) -> None:
        """Read what a connection is sent next, in another thread."""
        try:
            region.warm(start, size)
        finally:
            self.post(functools.partial(self._go_on, connection))

    def _go_on(self, ClientConnection connection) -> None:
        """Send what was read."""
        connection._is_cold, connection._warm_ns = False, self._turn_ns
        if not connection.is_closed:
            self._owe(connection)


cdef object _host_of(object peer):
    """Return the address of a client without its port; those of a Unix socket have none of their own."""
    return peer[0] if isinstance(peer, tuple) else ""
