"""One connection to one broker that never blocks: its opening, and its requests in flight in their order.

A `NodeConnection` is a state machine around a `SocketTransport`. It asks for versions, logs in, repeats the login
before the broker's limit (KIP-368), sends requests one behind the other without waiting for answers, and matches
answers by their order and number. An answer that is late closes the connection: all that wait on it get the error,
since the order is lost. It never retries, and knows neither topics nor leaders. Only the thread of the sockets
changes it; any thread may read what is said to be readable.
"""

from __future__ import annotations

import functools
import math
import os
import random
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Protocol

from logstore.config.remote import Address, WireConfig
from logstore.errors import (
    BrokerTimeoutError,
    BrokerUnreachableError,
    ClientClosedError,
    LogstoreError,
    MalformedMessageError,
    ProtocolError,
)
from logstore.protocol.frames import decode_response, encode_request
from logstore.records import INT32_MAX
from logstore.remote.credentials import Credentials
from logstore.remote.network.calls import Call, Waiting, each_its_own
from logstore.remote.network.frames_in import FRAME_BYTES, EndOfStreamError, FramesIn
from logstore.remote.network.opening import Asked, Errand, Versions, ask_versions, log_in
from logstore.remote.security.transports import SocketTransport

#: A login is repeated after this share of the time for which the broker accepts it, as in Kafka's own client.
_LOGIN_SHARE = 0.85, 0.95
#: A broker refuses logins of one connection that follow each other faster.
_LOGIN_PAUSE_S = 1.0
#: The beginning of an alert of TLS, by which a listener with TLS answers a client without.
_TLS_ALERT = b"\x15\x03"
#: A request whose time passed while it stood behind another one has so long left when its turn comes.
_TURN_S = 0.5


class Stage(Enum):
    """How far a connection is."""

    RESOLVES = "looks up the address of the broker's name"
    CONNECTS = "waits for the connection"
    SHAKES = "in the TLS handshake"
    NEGOTIATES = "asks for versions"
    LOGS_IN = "in the login"
    READY = "takes requests"
    CLOSED = "takes none any more"


class SocketThread(Protocol):
    """What a connection needs of the thread that serves it."""

    def watch(self, connection: NodeConnection, file: socket.socket, events: int) -> None:
        """Call `NodeConnection.on_ready` when a socket is ready for one of the events."""

    def unwatch(self, file: socket.socket) -> None:
        """Watch a socket no longer; it is still open."""

    def opened(self, connection: NodeConnection, error: LogstoreError | None) -> None:
        """Take note that a connection can take requests, or has failed before it could."""

    def errand(self, work: Callable[[], Any], then: Callable[[Any, BaseException | None, float], None]) -> None:
        """Run ``work`` in a thread of its own, then ``then`` with its result, error and the time in this one."""


class NodeConnection:
    """A connection to one broker.

    Readable by any thread: ``address``, ``node``, ``versions``, ``stage``, ``error``.

    Owns: the socket.
    """

    def __init__(
        self,
        address: Address,
        config: WireConfig,
        credentials: Credentials,
        thread: SocketThread,
        scratch: bytearray | None = None,
        *,
        node: int = -1,
        then: Callable[[Waiting[None]], object] | None = None,
    ) -> None:
        self.address = address
        self.node = node
        self.stage = Stage.RESOLVES
        self.versions: Versions = {}
        self.error: LogstoreError | None = None  #: why the connection is closed
        self.opened: Waiting[None] = Waiting(then)
        self.throttled_until_s = 0.0
        self.used_at_s = 0.0
        self._config = config
        self._credentials = credentials
        self._thread = thread
        self._correlation_id = 0
        self._socket: socket.socket | None = None
        self._transport: SocketTransport | None = None
        self._events = 0
        self._places: list[Any] = []  #: addresses that are left to try
        self._deadline_s = math.inf  #: of the opening, or of a step of it
        self._steps: Generator[Any, Any, Any] | None = None
        self._asked: tuple[Asked, int] | None = None  #: the request of an opening that is out, and its number
        self._ends_with: LogstoreError | None = None  #: the socket has ended while an errand was under way
        self._login_due_s = math.inf
        self._queue: deque[Call] = deque()
        self._in_flight: deque[Call] = deque()
        self._out: deque[memoryview] = deque()
        self._frames = FramesIn(scratch)
        self._has_worked = False  #: whether a request beside those of the opening was answered

    def __str__(self) -> str:
        host, port = self.address
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return place if self.node < 0 else f"broker {self.node} ({place})"

    @property
    def call_count(self) -> int:
        """The number of requests that wait to be sent or answered."""
        return len(self._queue) + len(self._in_flight)

    def next_number(self) -> int:
        """Return the correlation id of the next request. Any thread may call it: two calls may get one number."""
        # Answers come in the order of the requests: a number that is there twice changes nothing.
        self._correlation_id = number = (self._correlation_id + 1) & INT32_MAX
        return number

    def throttle(self, throttle_ms: int) -> None:
        """Send nothing for so long: an answer has said so. Any thread may call it.

        At most for ``default.api.timeout.ms``: a call that waits here must end.
        """
        pause_ms = min(throttle_ms, self._config.default_api_timeout_ms)
        self.throttled_until_s = time.monotonic() + pause_ms / 1000

    # -- opening -----------------------------------------------------------------------------------

    def open(self, now_s: float) -> None:
        """Begin to open the connection; `opened` is settled when it can take requests, or has failed."""
        self._deadline_s = now_s + self._config.socket_connection_setup_timeout_ms / 1000
        host, port = self.address
        try:
            places = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            self._thread.errand(
                lambda: socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM),
                self._resolved,
            )
            return
        self._resolved(places, None, now_s)

    def _resolved(self, places: list[Any], error: BaseException | None, now_s: float) -> None:
        if self.stage is not Stage.RESOLVES:
            return
        if error is not None:
            problem = BrokerUnreachableError(
                f"{self}: the host name cannot be resolved ({getattr(error, 'strerror', None) or error}); look at "
                "bootstrap.servers, or at the broker's advertised.listeners"
            )
            problem.__cause__ = error
            self.fail(problem)
            return
        self.stage = Stage.CONNECTS
        self._places = list(places)
        self._connect_next(None, now_s)

    def _connect_next(self, error: OSError | None, now_s: float) -> None:
        """Try the next address of the broker's name."""
        self._release()
        while self._places:
            family, kind, protocol, _, place = self._places.pop(0)
            try:
                made = self._socket = socket.socket(family, kind, protocol)
                made.setblocking(False)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, size in (
                    (socket.SO_SNDBUF, self._config.send_buffer_bytes),
                    (socket.SO_RCVBUF, self._config.receive_buffer_bytes),
                ):
                    if size >= 0:
                        made.setsockopt(socket.SOL_SOCKET, option, size)
                made.connect(place)
            except BlockingIOError:
                self._watch(selectors.EVENT_WRITE)
                return
            except OSError as found:
                error = found
                self._release()
                continue
            self._connected(now_s)
            return
        assert error is not None
        problem = BrokerUnreachableError(
            f"{self}: {error.strerror or error}; check that the broker runs, and that bootstrap.servers "
            "and its advertised.listeners name this host and port"
        )
        problem.__cause__ = error
        self.fail(problem)

    def _connected(self, now_s: float) -> None:
        assert self._socket is not None
        connected, self._socket = self._socket, None
        if self._events:
            self._thread.unwatch(connected)
        self._events = 0
        try:
            self._transport = self._credentials.transport(connected, self.address[0])
        except (OSError, ValueError) as error:
            connected.close()
            self.fail(self._lost(error if isinstance(error, OSError) else OSError(str(error))))
            return
        self._socket = self._transport.file
        self.stage = Stage.SHAKES
        self._shake(now_s)

    def _shake(self, now_s: float) -> None:
        assert self._transport is not None
        if not self._transport.shake():
            self._watch(self._transport.write_event)
            return
        self.stage = Stage.NEGOTIATES
        self._begin(ask_versions(str(self)), now_s)

    def _begin(self, steps: Generator[Any, Any, Any], now_s: float) -> None:
        self._steps = steps
        self._go_on(None, now_s)

    def _go_on(self, given: Any, now_s: float) -> None:
        """Do the next step of the opening or of a login."""
        steps = self._steps
        assert steps is not None
        try:
            needed = steps.send(given)
        except StopIteration as end:
            self._steps = None
            self._step_done(end.value, now_s)
            return
        except LogstoreError as error:
            self.fail(error)
            return
        self._deadline_s = now_s + self._config.request_timeout_ms / 1000
        if isinstance(needed, Errand):
            self._thread.errand(needed.work, functools.partial(self._errand_done, steps))
            return
        number = self.next_number()
        self._asked = needed, number
        self._out.append(memoryview(encode_request(needed.request, needed.version, number, self._config.client_id)))
        self._flush()

    def _errand_done(self, steps: Any, result: Any, error: BaseException | None, now_s: float) -> None:
        if steps is not self._steps:
            return  # closed since
        if error is None:
            self._go_on(result, now_s)
        elif isinstance(error, LogstoreError):
            self.fail(error)
        else:
            problem = ClientClosedError(f"{self}: the login failed: {type(error).__name__}")
            problem.__cause__ = error
            self.fail(problem)
        if self._ends_with is not None:
            self.fail(self._ends_with)

    def _step_done(self, result: Any, now_s: float) -> None:
        if self.stage is Stage.NEGOTIATES:
            self.versions = result
            if self._credentials.logs_in:
                self._begin_login(now_s)
                return
        else:
            lifetime_ms = result
            if lifetime_ms > 0:
                pause_s = lifetime_ms / 1000 * random.uniform(*_LOGIN_SHARE)
                self._login_due_s = now_s + max(pause_s, _LOGIN_PAUSE_S)
        self.stage = Stage.READY
        self._deadline_s = math.inf
        self._frames.limit = FRAME_BYTES
        self.used_at_s = now_s
        if not self.opened.is_settled:
            self._thread.opened(self, None)
            self.opened.settle(None)
        self._pump(now_s)

    def _begin_login(self, now_s: float) -> None:
        self.stage = Stage.LOGS_IN
        self._login_due_s = math.inf
        timeout_s = self._config.request_timeout_ms / 1000
        self._begin(log_in(self._credentials, self.versions, str(self), timeout_s), now_s)

    # -- requests ----------------------------------------------------------------------------------

    def put(self, call: Call, now_s: float) -> None:
        """Send a request when its turn comes; after an error it is settled at once."""
        if self.error is not None:
            call.settle(None, each_its_own(self.error))
            return
        self._queue.append(call)
        self._pump(now_s)

    def _pump(self, now_s: float) -> None:
        """Give the socket all requests that may be sent now."""
        if self.stage is not Stage.READY or not self._queue:
            return
        if now_s >= self._login_due_s:
            if not self._in_flight:  # a login comes between answers
                self._begin_login(now_s)
            return
        if now_s < self.throttled_until_s:
            # A throttling broker answers at once, then reads nothing from this connection for its throttle time.
            return
        while self._queue:
            call = self._queue.popleft()
            call.deadline_s = now_s + call.timeout_s
            self._in_flight.append(call)
            self._out.append(memoryview(call.frame))
            call.frame = b""
        self.used_at_s = now_s
        self._flush()

    def _flush(self) -> None:
        """Write what the socket takes now, and watch for more room if something is left."""
        transport, out = self._transport, self._out
        assert transport is not None
        try:
            while out:
                taken = transport.send(out)
                if not taken:
                    break
                while taken:
                    first = out[0]
                    if taken < len(first):
                        out[0] = first[taken:]
                        break
                    taken -= len(first)
                    out.popleft()
        except OSError as error:
            # What a broker has sent before it closed, such as an alert of TLS, says why.
            if not self._read_last_words():
                self.fail(self._lost(error))
            return
        self._watch(transport.read_event | (transport.write_event if out else 0))

    def _read_last_words(self) -> bool:
        assert self._transport is not None
        try:
            while self._transport.receive_into(memoryview(bytearray(1 << 12))) > 0:
                pass
        except OSError as error:
            if self._credentials.has_tls:
                self.fail(self._lost(error))
                return True
        return False

    # -- events ------------------------------------------------------------------------------------

    def on_ready(self, events: int, now_s: float) -> None:
        """Do what the socket is ready for."""
        try:
            if self.stage is Stage.CONNECTS:
                assert self._socket is not None
                code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    self._connect_next(OSError(code, os.strerror(code)), now_s)
                else:
                    self._connected(now_s)
                return
            if self.stage is Stage.SHAKES:
                self._shake(now_s)
                return
            transport = self._transport
            if transport is None:
                return
            if self._out and events & transport.write_event:
                self._flush()
            if self._transport is not None and events & transport.read_event:
                self._read(now_s)
        except OSError as error:
            self._end(self._lost(error))

    @property
    def is_hungry(self) -> bool:
        """Whether bytes are there of which the socket may tell nothing: `on_ready` is to be called again."""
        return self._frames.is_hungry and self._transport is not None

    def _read(self, now_s: float) -> None:
        transport = self._transport
        assert transport is not None
        try:
            for frame in self._frames.read(transport):
                self._take(frame, now_s)
                if self._transport is None:
                    return
        except EndOfStreamError:
            self._end(self._ended())
            return
        except ProtocolError as error:
            self.fail(self._no_frame(error))
            return
        if self._transport is not None:
            self._watch(transport.read_event | (transport.write_event if self._out else 0))

    def _take(self, frame: bytes | memoryview, now_s: float) -> None:
        """Give an answer to the request that it belongs to."""
        number = int.from_bytes(frame[:4], "big", signed=True)
        if self._asked is not None:
            (asked, expected), self._asked = self._asked, None
            try:
                answer = decode_response(asked.request.API_KEY, asked.version, frame).message
            except MalformedMessageError as error:
                self.fail(self._unreadable(error))
                return
            if number != expected:
                self.fail(self._misplaced(number, expected))
                return
            self._go_on(answer, now_s)
            return
        if not self._in_flight:
            self.fail(ProtocolError(f"{self} has sent an answer where nothing was asked"))
            return
        call = self._in_flight.popleft()
        if number != call.correlation_id:
            misplaced = self._misplaced(number, call.correlation_id)
            call.settle(None, each_its_own(misplaced))
            self.fail(misplaced)
            return
        self._has_worked = True
        if self._in_flight:
            first = self._in_flight[0]
            first.deadline_s = max(first.deadline_s, now_s + _TURN_S)
        call.settle(frame)
        if self._queue:
            self._pump(now_s)

    def due_s(self) -> float:
        """Return when `on_time` is to be called, on the monotonic clock."""
        if self.stage is not Stage.READY:
            return self._deadline_s
        if self._in_flight:
            due_s = self._in_flight[0].deadline_s
        elif self._queue:
            due_s = math.inf
        else:
            idle_ms = self._config.connections_max_idle_ms
            return math.inf if idle_ms < 0 else self.used_at_s + idle_ms / 1000
        return min(due_s, self.throttled_until_s) if self._queue else due_s

    def on_time(self, now_s: float) -> None:
        """Do what is due."""
        if self.stage is Stage.CLOSED:
            return
        if self.stage is not Stage.READY:
            if now_s >= self._deadline_s:
                self.fail(self._late_opening())
            return
        if self._in_flight:
            call = self._in_flight[0]
            if now_s >= call.deadline_s:
                limit_ms = round(call.timeout_s * 1000)
                self.fail(
                    BrokerTimeoutError(
                        f"{self} did not answer for {limit_ms} ms; check the broker's load, or raise "
                        "request.timeout.ms"
                    )
                )
                return
        elif not self._queue:
            idle_ms = self._config.connections_max_idle_ms
            if 0 <= idle_ms <= (now_s - self.used_at_s) * 1000:
                self.fail(BrokerUnreachableError(f"{self}: the connection was idle for connections.max.idle.ms"))
            return
        self._pump(now_s)

    # -- ending ------------------------------------------------------------------------------------

    def fail(self, error: LogstoreError) -> None:
        """Close the socket; everything that waits gets the error. A second time does nothing."""
        if self.stage is Stage.CLOSED:
            return
        self.error = error
        self.stage = Stage.CLOSED
        self._steps = self._asked = None
        self._deadline_s = math.inf
        self._release()
        calls = [*self._in_flight, *self._queue]
        self._in_flight.clear()
        self._queue.clear()
        if not self.opened.is_settled:
            self._thread.opened(self, error)
            self.opened.settle(None, each_its_own(error))
        for each in calls:
            each.settle(None, each_its_own(error))

    def _end(self, error: LogstoreError) -> None:
        """Fail: the socket has ended. An errand says first what the last answer meant, such as a refused login."""
        if self._steps is None or self._asked is not None:
            self.fail(error)
            return
        self._ends_with = error
        if self._socket is not None and self._events:
            self._thread.unwatch(self._socket)
            self._events = 0

    def _watch(self, events: int) -> None:
        if events != self._events and self._socket is not None:
            self._events = events
            self._thread.watch(self, self._socket, events)

    def _release(self) -> None:
        """Close the socket."""
        self._out.clear()
        found, self._socket = self._socket, None
        transport, self._transport = self._transport, None
        if found is not None and self._events:
            self._thread.unwatch(found)
        self._events = 0
        if transport is not None:
            transport.close()
        elif found is not None:
            found.close()

    # -- errors ------------------------------------------------------------------------------------

    def _advice(self) -> str:
        return f"check that this is the port of a {self._credentials.protocol} listener (security.protocol)"

    def _ended(self) -> LogstoreError:
        # With TLS 1.3 a client whose certificate is refused learns it at its first read.
        if self.stage is Stage.SHAKES or (self._credentials.has_tls and not self.versions):
            return self._lost(OSError("the end of the stream"))
        if self.stage is Stage.NEGOTIATES:
            return BrokerUnreachableError(
                f"{self}: took the connection and closed it when it was asked for its versions; {self._advice()}"
            )
        if self.stage is Stage.LOGS_IN:
            return BrokerUnreachableError(f"{self}: closed the connection during the login; {self._advice()}")
        if not self._in_flight:
            return BrokerUnreachableError(f"{self} has closed the connection")
        # A listener with SASL answers the question for versions, and closes at the next request without login.
        is_refused = not self._has_worked and not self._credentials.logs_in
        advice = "; a listener with SASL does so to a client without a login: check security.protocol"
        return BrokerUnreachableError(f"{self} closed the connection before it had answered{advice * is_refused}")

    def _lost(self, error: OSError) -> LogstoreError:
        """Return the error for a socket that failed. With TLS 1.3 a refused certificate is told only now."""
        if self._credentials.has_tls and not self._has_worked:
            from logstore.remote.security.context import explained

            problem = explained(error, str(self), self.address[0])
        elif self.stage is Stage.NEGOTIATES:
            problem = self._ended()
        else:
            problem = BrokerUnreachableError(f"{self}: the connection was lost: {error.strerror or error}")
        problem.__cause__ = error
        return problem

    def _no_frame(self, error: ProtocolError) -> LogstoreError:
        if self._frames.first_bytes.startswith(_TLS_ALERT) and not self._has_worked:
            return ProtocolError(
                f"{self}: this listener speaks TLS; set security.protocol to SSL or SASL_SSL, or check the port"
            )
        return ProtocolError(
            f"{self}: what answers there does not speak Kafka's protocol: {error}; {self._advice()}"
        )

    def _unreadable(self, error: MalformedMessageError) -> LogstoreError:
        if self.stage is Stage.NEGOTIATES:
            return ProtocolError(
                f"{self}: what answers there does not speak Kafka's protocol ({error}); {self._advice()}"
            )
        return ProtocolError(f"{self}: an answer to the login cannot be read ({error})")

    def _misplaced(self, number: int, expected: int) -> LogstoreError:
        return ProtocolError(f"{self} answered request {number} where {expected} was to be answered")

    def _late_opening(self) -> LogstoreError:
        limit_ms = self._config.socket_connection_setup_timeout_ms
        if self.stage in (Stage.RESOLVES, Stage.CONNECTS):
            return BrokerUnreachableError(
                f"{self}: no connection within socket.connection.setup.timeout.ms={limit_ms}; look for a firewall "
                "on the way, and at the broker's advertised.listeners"
            )
        if self.stage is Stage.SHAKES:
            return BrokerUnreachableError(
                f"{self}: no TLS handshake within socket.connection.setup.timeout.ms; check that this is the port "
                "of an SSL or SASL_SSL listener"
            )
        return BrokerTimeoutError(
            f"{self} did not answer for {self._config.request_timeout_ms} ms; check the broker's load, or raise "
            "request.timeout.ms"
        )
