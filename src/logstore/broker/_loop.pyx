# cython: language_level=3
"""The epoll loop of a broker: sockets, frames, answers in the order of their requests, timers, calls from outside.

What a request means is the business of its `Handler`. One thread runs a loop and everything that it calls; only
`Loop.post` and `Loop.stop` may be called by others. Memory follows the bytes that have arrived: the size that a
frame announces is compared with the limit and reserves nothing.
"""

import collections
import errno
import heapq
import logging
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno as c_errno
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from logstore.batch._bytes cimport load32
from logstore.io._file_region cimport FileRegion
from logstore.io._notifier cimport Notifier, NotifierGroup

from logstore.clock import SYSTEM_CLOCK

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        int fd
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

cdef extern from "<sys/socket.h>" nogil:
    ssize_t c_send "send"(int fd, const void *data, size_t size, int flags)
    ssize_t c_recv "recv"(int fd, void *data, size_t size, int flags)
    enum: MSG_NOSIGNAL

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)

cdef enum:
    EVENTS = 256                  # taken from the kernel at once
    RECEIVE_BYTES = 1 << 18       # received at once
    SIZE_BYTES = 4
    IN_FLIGHT = 256               # requests of one connection that are not answered; more are not read
    ACCEPT_PAUSE_MS = 100         # without a descriptor for a connection

_logger = logging.getLogger(__name__)


cdef class Answer:
    """The place of one request in the order of its connection."""

    cdef readonly ClientConnection connection
    cdef object _pieces           # None: the request is in progress

    def complete(self, object pieces) -> None:
        """Answer with bytes and file regions, in this order; with none, if the client waits for no answer.

        An answer whose connection has closed meanwhile is dropped.
        """
        if self._pieces is not None:
            raise ValueError("the request is answered already")
        self._pieces = list(pieces)
        self.connection._loop._send(self.connection)

    @property
    def is_done(self) -> bool:
        """Whether the request is answered, or its connection closed."""
        return self._pieces is not None or self.connection.is_closed


cdef class ClientConnection:
    """One connection of a client.

    Owns: its socket, until it is closed.
    """

    cdef Loop _loop
    cdef readonly object socket
    cdef readonly object peer
    cdef readonly object local    # the address that the client has connected to
    cdef readonly bint is_closed
    cdef public object state      # of its handler
    cdef int _fd
    cdef bytearray _received      # bytes that are no whole frame yet, or whose turn has not come
    cdef object _answers          # in the order of the requests
    cdef Py_ssize_t _piece        # of the first answer, which is being sent
    cdef int64_t _sent            # bytes of that piece
    cdef uint32_t _events
    cdef int _holds
    cdef bint _sends              # `_send` runs, perhaps below a handler that answers at once
    cdef bint _parses

    def hold(self) -> None:
        """Take no further request until as many calls of `release`: the order of what is in progress matters."""
        self._holds += 1

    def close(self) -> None:
        """Close the connection; its requests get no answer."""
        self._loop._close(self)

    def release(self) -> None:
        """Take requests again."""
        self._holds -= 1
        if self._holds == 0 and not self.is_closed:
            self._loop._parse(self)


cdef class Loop:
    """The loop of one broker's connections.

    ``handler.request(answer, frame)`` is called for each frame, without its size, and answers at once or later; an
    exception closes the connection. ``handler.closed(connection)`` is called for each connection that ends.
    ``max_frame_bytes`` is the largest frame, ``max_received_bytes`` bounds what all connections have sent of
    requests that are not whole; the connection that exceeds either is closed.

    Owns: the epoll descriptor, listening sockets and connections, until `run` returns.
    """

    cdef int _epoll
    cdef readonly NotifierGroup group
    cdef Notifier _posted
    cdef object _calls, _handler, _clock
    cdef dict _listeners, _connections
    cdef list _timers
    cdef int64_t _timer_count
    cdef readonly int64_t max_frame_bytes, max_received_bytes, max_connections
    cdef readonly int64_t received_bytes          # held of requests that are not whole
    cdef readonly int64_t bytes_sendfile, bytes_copied, bytes_in, requests, refused_connections
    cdef bint _stops
    cdef uint8_t *_buffer

    def __cinit__(self):
        self._epoll = -1
        self._buffer = <uint8_t *>malloc(RECEIVE_BYTES)
        if self._buffer == NULL:
            raise MemoryError

    def __init__(self, handler: object, *, max_frame_bytes: int, max_received_bytes: int, max_connections: int,
                 clock: object = SYSTEM_CLOCK):
        self._epoll = epoll_create1(EPOLL_CLOEXEC)
        if self._epoll < 0:
            raise OSError(c_errno, os.strerror(c_errno))
        self.group = NotifierGroup()
        self._posted = Notifier(group=self.group)
        self._calls = collections.deque()
        self._handler = handler
        self._clock = clock
        self._listeners, self._connections, self._timers = {}, {}, []
        self.max_frame_bytes = max_frame_bytes
        self.max_received_bytes = max_received_bytes
        self.max_connections = max_connections
        self._watch(EPOLL_CTL_ADD, self.group.fileno(), EPOLLIN)

    def __dealloc__(self):
        free(self._buffer)
        if self._epoll >= 0:
            c_close(self._epoll)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._connections)

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

    def listen(self, listener: object) -> None:
        """Accept the connections of a listening socket, which belongs to the loop from now on. Before `run` too."""
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self._watch(EPOLL_CTL_ADD, listener.fileno(), EPOLLIN)

    def call_later(self, double delay_s, call: object) -> list:
        """Make a call after some seconds; return the timer, for `cancel`."""
        self._timer_count += 1
        cdef list timer = [self._clock.monotonic_s() + delay_s, self._timer_count, call]
        heapq.heappush(self._timers, timer)
        return timer

    def cancel(self, list timer) -> None:
        """Have a timer's call not made."""
        timer[2] = None

    def run(self) -> None:
        """Serve until `stop`."""
        cdef epoll_event events[EVENTS]
        cdef int count, n, timeout_ms, fd
        cdef ClientConnection connection
        try:
            while not self._stops:
                timeout_ms = self._run_timers()
                with nogil:
                    count = epoll_wait(self._epoll, events, EVENTS, timeout_ms)
                if count < 0:
                    if c_errno == EINTR:
                        continue
                    raise OSError(c_errno, os.strerror(c_errno))
                for n in range(count):
                    fd = events[n].data.fd
                    connection = self._connections.get(fd)
                    if connection is not None:
                        self._serve(connection, events[n].events)
                    elif fd in self._listeners:
                        self._accept(self._listeners[fd])
                    else:
                        self._take_notes()
        finally:
            self._end()

    cdef int _end(self) except -1:
        for connection in list(self._connections.values()):
            self._close(connection)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self._timers.clear()
        return 0

    cdef int _watch(self, int operation, int fd, uint32_t events) except -1:
        cdef epoll_event event
        event.events = events
        event.data.fd = fd
        if epoll_ctl(self._epoll, operation, fd, &event) < 0:
            raise OSError(c_errno, os.strerror(c_errno))
        return 0

    cdef int _run_timers(self) except -2:
        """Make the calls that are due; return the milliseconds until the next, -1 without one."""
        cdef double now = self._clock.monotonic_s()
        while self._timers and (self._timers[0][2] is None or self._timers[0][0] <= now):
            call = heapq.heappop(self._timers)[2]
            if call is not None:
                call()
        if self._calls:
            return 0
        if not self._timers:
            return -1
        return <int>min(1000 * (self._timers[0][0] - now) + 1, 60_000)

    cdef int _take_notes(self) except -1:
        for notifier in self.group.take():
            if notifier is self._posted:
                while self._calls:
                    self._calls.popleft()()
            else:
                self._handler.notified(notifier)
        return 0

    # -- connections

    cdef int _accept(self, object listener) except -1:
        cdef ClientConnection connection
        try:
            socket, peer = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return 0
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            # The listener stays readable: the loop would spin until a descriptor is free.
            self._watch(EPOLL_CTL_MOD, listener.fileno(), 0)
            self.call_later(ACCEPT_PAUSE_MS / 1000.0, lambda: self._resume(listener))
            return 0
        if len(self._connections) >= self.max_connections:
            self.refused_connections += 1
            socket.close()
            return 0
        try:
            socket.setblocking(False)
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
        connection._fd = socket.fileno()
        connection._received = bytearray()
        connection._answers = collections.deque()
        connection._events = EPOLLIN
        self._connections[connection._fd] = connection
        self._watch(EPOLL_CTL_ADD, connection._fd, EPOLLIN)
        return 0

    def _resume(self, listener: object) -> None:
        if listener.fileno() in self._listeners:
            self._watch(EPOLL_CTL_MOD, listener.fileno(), EPOLLIN)

    cdef int _serve(self, ClientConnection connection, uint32_t events) except -1:
        if events & (EPOLLERR | EPOLLHUP):
            self._close(connection)
            return 0
        if events & EPOLLOUT:
            self._send(connection)
        if events & EPOLLIN and not connection.is_closed:
            self._receive(connection)
        return 0

    cdef int _close(self, ClientConnection connection) except -1:
        if connection.is_closed:
            return 0
        connection.is_closed = True
        self.received_bytes -= len(connection._received)
        connection._received = bytearray()
        connection._answers.clear()
        del self._connections[connection._fd]
        connection.socket.close()
        self._handler.closed(connection)
        return 0

    cdef int _receive(self, ClientConnection connection) except -1:
        cdef ssize_t count
        cdef int fd = connection._fd
        cdef uint8_t *buffer = self._buffer
        with nogil:
            count = c_recv(fd, buffer, RECEIVE_BYTES, 0)
        if count < 0 and c_errno in (EAGAIN, EINTR):
            return 0
        if count <= 0:
            self._close(connection)
            return 0
        self.bytes_in += count
        connection._received += PyBytes_FromStringAndSize(<char *>buffer, count)
        self.received_bytes += count
        self._parse(connection)
        if self.received_bytes > self.max_received_bytes and not connection.is_closed and connection._received:
            _logger.warning("connection of %s closed: %d bytes of unfinished requests are held, the limit is %d",
                            connection.peer, self.received_bytes, self.max_received_bytes)
            self._close(connection)
        return 0

    cdef int _parse(self, ClientConnection connection) except -1:
        """Hand over the whole frames that have come, as far as the connection may have requests in progress."""
        cdef bytearray received
        cdef int64_t size
        cdef Answer answer
        cdef object frame
        if connection._parses:
            return 0  # the frame before this one is being handled: the loop below goes on with the next
        connection._parses = True
        try:
            while not connection.is_closed and connection._holds == 0 and len(connection._answers) < IN_FLIGHT:
                received = connection._received
                if len(received) < SIZE_BYTES:
                    break
                size = load32(<const uint8_t *><char *>received)
                if size < 0 or size > self.max_frame_bytes:
                    _logger.info("connection of %s closed: a frame of %d bytes, expected 0 to %d",
                                 connection.peer, size, self.max_frame_bytes)
                    self._close(connection)
                    break
                if len(received) - SIZE_BYTES < size:
                    break
                frame = PyBytes_FromStringAndSize(<char *>received + SIZE_BYTES, size)
                del received[:SIZE_BYTES + size]
                self.received_bytes -= SIZE_BYTES + size
                self.requests += 1
                answer = Answer.__new__(Answer)
                answer.connection = connection
                connection._answers.append(answer)
                try:
                    self._handler.request(answer, frame)
                except Exception as error:
                    _logger.info("connection of %s closed: %s: %s", connection.peer, type(error).__name__, error)
                    self._close(connection)
        finally:
            connection._parses = False
        if not connection.is_closed:
            self._set_events(connection)
        return 0

    cdef int _set_events(self, ClientConnection connection) except -1:
        """Ask for what the connection can take now: a client that does not read its answers is not read either."""
        cdef uint32_t wanted = 0
        cdef Answer first = connection._answers[0] if connection._answers else None
        if connection._holds == 0 and len(connection._answers) < IN_FLIGHT:
            wanted = EPOLLIN
        if first is not None and first._pieces is not None:
            wanted = EPOLLOUT
        if wanted != connection._events:
            connection._events = wanted
            self._watch(EPOLL_CTL_MOD, connection._fd, wanted)
        return 0

    cdef int _send(self, ClientConnection connection) except -1:
        """Send the answers whose turn has come, as far as the socket takes them."""
        cdef Answer answer
        cdef bint was_sent = True
        if connection.is_closed or connection._sends:
            return 0
        connection._sends = True
        try:
            while connection._answers and was_sent:
                answer = connection._answers[0]
                if answer._pieces is None:
                    break
                was_sent = self._send_pieces(connection, <list>answer._pieces)
                if was_sent:
                    connection._answers.popleft()
                    connection._piece = connection._sent = 0
        except Exception as error:
            # The socket's error, or a file that ends inside a region.
            if not isinstance(error, ConnectionError):
                _logger.warning("connection of %s closed: %s: %s", connection.peer, type(error).__name__, error)
            self._close(connection)
        finally:
            connection._sends = False
        if not connection.is_closed:
            self._set_events(connection)
            if connection._received:
                self._parse(connection)
        return 0

    cdef bint _send_pieces(self, ClientConnection connection, list pieces) except -1:
        """Send an answer from where it stands; return whether all of it is sent."""
        cdef object piece
        cdef int64_t size, count
        while connection._piece < len(pieces):
            piece = pieces[connection._piece]
            if isinstance(piece, FileRegion):
                size = (<FileRegion>piece).size
                count = piece.send_to(connection._fd, connection._sent)
                self.bytes_sendfile += count
            else:
                size = PyBytes_GET_SIZE(<bytes?>piece)
                count = c_send(connection._fd, PyBytes_AS_STRING(piece) + connection._sent,
                               <size_t>(size - connection._sent), MSG_NOSIGNAL)
                if count < 0:
                    if c_errno in (EAGAIN, EINTR):
                        return False
                    raise OSError(c_errno, os.strerror(c_errno))
                self.bytes_copied += count
            connection._sent += count
            if connection._sent < size:
                return False
            pieces[connection._piece] = None  # releases its file
            connection._piece += 1
            connection._sent = 0
        return True
