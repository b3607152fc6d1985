"""Connection to one broker: requests and their answers, in order.

A `BrokerConnection` is responsible for the socket: timeouts of answers, versions of messages that both sides
know, the login, which it repeats before the broker's limit for it (KIP-368), and the broker's throttle time. It
knows neither topics nor leaders, and never retries. After an error of the socket or a malformed answer the
connection is broken, and its user opens another. One thread uses a connection at a time, in the process that opened
it.
"""

from __future__ import annotations

import functools
import os
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from logstore.config.remote import Address, WireConfig
from logstore.errors import (
    BrokerTimeoutError,
    BrokerUnreachableError,
    LogstoreError,
    MalformedMessageError,
    ProtocolError,
    UnsupportedVersionError,
)
from logstore.protocol import codes
from logstore.protocol.frames import decode_response, encode_request
from logstore.protocol.generated.messages import ApiVersionsRequest, ApiVersionsResponse
from logstore.records import INT32_MAX
from logstore.remote.credentials import Credentials
from logstore.remote.security.channels import Channel

#: Limit of the first answer: the first bytes of another protocol could read as the size of a gigabyte.
FIRST_FRAME_BYTES = 1 << 20
FRAME_BYTES = (1 << 30) - 1

_SIZE = struct.Struct(">i")
_ERROR_AFTER_HEADER = struct.Struct(">ih")

#: Added to the timeout if the broker itself may wait longer: the time for its answer to arrive.
_GRACE_MS = 500

#: A login is repeated after this share of the time for which the broker accepts it, as in Kafka's own client.
_LOGIN_SHARE = 0.85, 0.95
#: A broker refuses logins of one connection that follow each other faster.
_LOGIN_PAUSE_S = 1.0

#: The beginning of an alert of TLS, by which a listener with TLS answers a client without.
_TLS_ALERT = b"\x15\x03"


class _Asked(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    deadline: float


class BrokerConnection:
    """One socket to one broker, and the versions of messages that the broker knows.

    ``credentials`` are those of the client; without them, they are made from ``config``.

    Owns: the socket.

    Raises:
        AuthenticationError: client and broker do not accept each other's certificate or login.
        BrokerUnreachableError: the broker cannot be reached; host, port and what to check are named.
        BrokerTimeoutError: the broker accepts the connection and does not answer.
        ProtocolError: the peer does not use Kafka's protocol, or no version of it that this client knows.
    """

    def __init__(
        self, address: Address, config: WireConfig, credentials: Credentials | None = None, *, node: int = -1
    ) -> None:
        self.address = address
        self.node = node
        self.throttled_ms = 0  #: the broker's throttle time, summed over all answers
        self.used_at = time.monotonic()
        self._config = config
        self._pid = os.getpid()
        self._asked: deque[_Asked] = deque()
        self._correlation_id = 0
        self._not_before = 0.0
        self._credentials = Credentials(config) if credentials is None else credentials
        #: answers that arrived before a login was repeated
        self._drained: deque[tuple[_Asked, bytes | memoryview]] = deque()
        self._login_due = float("inf")
        self._has_worked = False  #: whether a request beside those of the opening was answered
        self._broken = False
        self._channel = self._connect()
        try:
            self.versions = self._negotiate()
            if self._credentials.logs_in:
                self._log_in()
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        host, port = self.address
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return place if self.node < 0 else f"broker {self.node} ({place})"

    # -- opening -----------------------------------------------------------------------------------

    def _connect(self) -> Channel:
        deadline = time.monotonic() + self._config.socket_connection_setup_timeout_ms / 1000
        try:
            made = socket.create_connection(
                self.address, timeout=self._config.socket_connection_setup_timeout_ms / 1000
            )
        except socket.gaierror as error:
            raise BrokerUnreachableError(
                f"{self}: the host name cannot be resolved ({error.strerror}); look at bootstrap.servers, or at "
                "the broker's advertised.listeners"
            ) from error
        except TimeoutError as error:
            raise BrokerUnreachableError(
                f"{self}: no connection within socket.connection.setup.timeout.ms="
                f"{self._config.socket_connection_setup_timeout_ms}; look for a firewall on the way, and at the "
                "broker's advertised.listeners"
            ) from error
        except OSError as error:
            raise BrokerUnreachableError(
                f"{self}: {error.strerror or error}; check that the broker runs, and that bootstrap.servers "
                "and its advertised.listeners name this host and port"
            ) from error
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, size in (
                (socket.SO_SNDBUF, self._config.send_buffer_bytes),
                (socket.SO_RCVBUF, self._config.receive_buffer_bytes),
            ):
                if size >= 0:
                    made.setsockopt(socket.SOL_SOCKET, option, size)
            return self._credentials.secure(made, self.address[0], str(self), deadline - time.monotonic())
        except BaseException:
            made.close()
            raise

    def _negotiate(self) -> Mapping[int, tuple[int, int]]:
        """Return for each API key the first and last version that the broker knows."""
        version = ApiVersionsRequest.MAX_VERSION
        request = ApiVersionsRequest(client_software_name="logstore", client_software_version=_own_version())
        asked = self._send(request, version, self._config.request_timeout_ms)
        try:
            frame = self._receive(asked.deadline, FIRST_FRAME_BYTES)
        except BrokerUnreachableError as error:
            raise BrokerUnreachableError(
                f"{self}: took the connection and closed it when it was asked for its versions; {self._advice()}"
            ) from error
        self._asked.clear()
        # A broker that does not know our version answers in version 0, which our version would misread.
        if len(frame) >= _ERROR_AFTER_HEADER.size:
            version = 0 if _ERROR_AFTER_HEADER.unpack_from(frame)[1] == codes.UNSUPPORTED_VERSION else version
        try:
            response = self._decoded(asked._replace(version=version), frame)
            assert isinstance(response, ApiVersionsResponse)
            if response.error_code == codes.UNSUPPORTED_VERSION and not response.api_keys:
                response = self._ask(ApiVersionsRequest(), 0, self._config.request_timeout_ms)
            elif response.error_code == codes.UNSUPPORTED_VERSION:
                known = {each.api_key: each.max_version for each in response.api_keys}
                version = min(known.get(ApiVersionsRequest.API_KEY, 0), ApiVersionsRequest.MAX_VERSION)
                response = self._ask(
                    request if version >= 3 else ApiVersionsRequest(), version, self._config.request_timeout_ms
                )
        except MalformedMessageError as error:
            raise ProtocolError(
                f"{self}: what answers there does not speak Kafka's protocol ({error}); {self._advice()}"
            ) from error
        if response.error_code:
            raise codes.error_of(response.error_code, f"versions of {self}")
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def _advice(self) -> str:
        return f"check that this is the port of a {self._credentials.protocol} listener (security.protocol)"

    def _log_in(self) -> None:
        """Authenticate the connection; no request may be in flight."""
        began = time.monotonic()
        self._login_due = float("inf")  # the requests of the login itself must not begin another
        timeout_ms = self._config.request_timeout_ms

        def ask(request: Any) -> Any:
            return self._ask(request, self.version_of(request), timeout_ms)

        try:
            lifetime_ms = self._credentials.log_in(ask, str(self), timeout_ms / 1000)
        except BrokerUnreachableError as error:
            if not self._broken:
                raise  # the endpoint of tokens
            raise BrokerUnreachableError(
                f"{self}: closed the connection during the login; {self._advice()}"
            ) from error
        except MalformedMessageError as error:
            raise ProtocolError(f"{self}: an answer to the login cannot be read ({error})") from error
        if lifetime_ms > 0:
            pause_s = lifetime_ms / 1000 * random.uniform(*_LOGIN_SHARE)
            self._login_due = began + max(pause_s, _LOGIN_PAUSE_S)

    def _repeat_login(self) -> None:
        """Authenticate again. Answers in flight arrive first; they are kept for `receive`."""
        try:
            while self._asked:
                asked = self._asked.popleft()
                self._drained.append((asked, self._receive(asked.deadline, FRAME_BYTES)))
            self._log_in()
        except BaseException:
            self.close()
            raise

    # -- versions ----------------------------------------------------------------------------------

    def version_of(self, request: Any, most: int | None = None) -> int:
        """Return the highest version of a request that both sides know, but at most ``most``.

        Raises:
            UnsupportedVersionError: there is no such version. The connection stays usable.
        """
        least = request.MIN_VERSION
        highest = request.MAX_VERSION if most is None else min(most, request.MAX_VERSION)
        theirs = self.versions.get(request.API_KEY)
        name = request.__name__ if isinstance(request, type) else type(request).__name__
        if theirs is None:
            raise UnsupportedVersionError(f"{self} does not know {name}")
        version = min(highest, theirs[1])
        if version < max(least, theirs[0]):
            raise UnsupportedVersionError(
                f"{self} knows versions {theirs[0]} to {theirs[1]} of {name}, this client {least} to {highest}"
            )
        return int(version)

    # -- asking ------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for their answers."""
        return len(self._asked) + len(self._drained)

    def ask(self, request: Any, *, version: int | None = None, wait_ms: int = 0) -> Any:
        """Send a request and wait for its answer.

        ``wait_ms`` is how long the broker itself may wait before it answers. The answer must arrive within
        ``request.timeout.ms``; if ``wait_ms`` is longer, within half a second after it.

        Raises:
            BrokerUnreachableError, BrokerTimeoutError: the connection is broken; it is unknown whether the
                request was carried out.
            MalformedMessageError: the answer cannot be read; the connection is broken.
        """
        self.send(request, version=version, wait_ms=wait_ms)
        return self.receive()

    def send(self, request: Any, *, version: int | None = None, wait_ms: int = 0) -> int:
        """Send a request and return its correlation id; `receive` returns the answers in order of the requests."""
        limit = self._config.request_timeout_ms
        if wait_ms > limit:
            limit = wait_ms + _GRACE_MS
        chosen = self.version_of(request) if version is None else version
        left_s = self._not_before - time.monotonic()
        if left_s > 0:
            # A throttling broker answers at once, then reads nothing from this connection for its throttle time.
            time.sleep(left_s)
        if time.monotonic() >= self._login_due:
            self._check()
            self._repeat_login()
        return self._send(request, chosen, limit).correlation_id

    def receive(self) -> Any:
        """Wait for the answer to the oldest request in flight, and return it; raises as `ask`."""
        if self._drained:
            asked, frame = self._drained.popleft()
        else:
            asked = self._asked.popleft()
            frame = self._receive(asked.deadline, FRAME_BYTES)
            self._has_worked = True
        response = self._decoded(asked, frame)
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_ms += throttle_ms
            self._not_before = time.monotonic() + throttle_ms / 1000
        return response

    @property
    def answer_due(self) -> float:
        """When the answer to the oldest request in flight is late, on the monotonic clock; infinity without one."""
        return self._asked[0].deadline if self._asked else float("inf")

    def fileno(self) -> int:
        """Return the descriptor that is readable once an answer arrives; but see `has_answer`."""
        return self._channel.fileno()

    def has_answer(self) -> bool:
        """Return whether the next answer has begun to arrive, or the connection is lost. Does not wait."""
        return self._broken or bool(self._drained) or self._channel.has_arrived()

    def _ask(self, request: Any, version: int, timeout_ms: int) -> Any:
        """Send a request of the opening or of a login, and return its answer; none other is in flight."""
        asked = self._send(request, version, timeout_ms)
        self._asked.clear()
        return self._decoded(asked, self._receive(asked.deadline, FIRST_FRAME_BYTES))

    def _send(self, request: Any, version: int, timeout_ms: int) -> _Asked:
        self._check()
        self._correlation_id = (self._correlation_id + 1) & INT32_MAX
        frame = encode_request(request, version, self._correlation_id, self._config.client_id)
        self.used_at = time.monotonic()
        asked = _Asked(self._correlation_id, request.API_KEY, version, self.used_at + timeout_ms / 1000)
        try:
            self._channel.send(frame, timeout_ms)
        except TimeoutError as error:
            self.close()
            raise BrokerTimeoutError(f"{self} took no request for {timeout_ms} ms") from error
        except OSError as error:
            self.close()
            raise self._lost(error) from error
        self._asked.append(asked)
        return asked

    def _receive(self, deadline: float, limit: int) -> bytes | memoryview:
        """Read the next frame without its size."""
        self._check()
        try:
            head = bytes(self._read(_SIZE.size, deadline))
            (size,) = _SIZE.unpack(head)
            if head.startswith(_TLS_ALERT) and limit == FIRST_FRAME_BYTES:
                raise ProtocolError(
                    f"{self}: this listener speaks TLS; set security.protocol to SSL or SASL_SSL, or check the port"
                )
            if not 4 <= size <= limit:
                raise ProtocolError(
                    f"{self}: what answers there does not speak Kafka's protocol: it announces {size} bytes; "
                    f"{self._advice()}"
                )
            return self._read(size, deadline)
        except BaseException:
            # The next call would read the rest of this frame as a new one.
            self.close()
            raise

    def _read(self, size: int, deadline: float) -> bytes | memoryview:
        data = self._read_some(size, deadline)
        if len(data) == size:
            return data
        parts = [data]
        left = size - len(data)
        while left:
            parts.append(self._read_some(left, deadline))
            left -= len(parts[-1])
        return b"".join(parts)

    def _read_some(self, size: int, deadline: float) -> bytes | memoryview:
        left_ms = int((deadline - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise BrokerTimeoutError(f"{self} did not answer in time")
        try:
            data = self._channel.receive(size, left_ms)
        except TimeoutError as error:
            raise BrokerTimeoutError(
                f"{self} did not answer for {left_ms} ms; check the broker's load, or raise request.timeout.ms"
            ) from error
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            # A listener with SASL answers the question for versions, and closes at the next request without login.
            is_refused = not self._has_worked and self._versions_known() and not self._credentials.logs_in
            advice = "; a listener with SASL does so to a client without a login: check security.protocol"
            raise BrokerUnreachableError(
                f"{self} closed the connection before it had answered{advice * is_refused}"
            )
        return data

    def _versions_known(self) -> bool:
        return hasattr(self, "versions")

    def _lost(self, error: OSError) -> LogstoreError:
        """Return the error for a socket that failed. With TLS 1.3 a refused certificate is told only now."""
        if self._credentials.has_tls and not self._has_worked:
            from logstore.remote.security.context import explained

            return explained(error, str(self), self.address[0])
        return BrokerUnreachableError(f"{self}: the connection was lost: {error.strerror or error}")

    def _decoded(self, asked: _Asked, frame: bytes | memoryview) -> Any:
        try:
            response = decode_response(asked.api_key, asked.version, frame)
        except MalformedMessageError:
            self.close()
            raise
        if response.correlation_id != asked.correlation_id:
            self.close()
            raise ProtocolError(
                f"{self} answered request {response.correlation_id} where {asked.correlation_id} was to be answered"
            )
        return response.message

    # -- ending ------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._broken:
            raise BrokerUnreachableError(f"{self}: the connection is closed")

    def is_usable(self) -> bool:
        """Return whether the connection can take a request.

        No request is in flight, the broker has not closed the connection, and it was not idle for too long.
        """
        if self._broken or self._asked or self._drained or self._pid != os.getpid():
            return False
        idle_ms = self._config.connections_max_idle_ms
        if 0 <= idle_ms <= (time.monotonic() - self.used_at) * 1000:
            return False
        # Unexpected bytes, or the end of the stream, would be read as the next answer.
        return not self.has_answer()

    def close(self) -> None:
        """Close the socket; answers in flight are lost. Calling it again does nothing."""
        self._broken = True
        self._asked.clear()
        self._drained.clear()
        self._channel.close()


@functools.cache
def _own_version() -> str:
    """Return this client's version as brokers list it: letters, digits, dots and dashes."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("logstore")
    except PackageNotFoundError:
        return "unknown"
    return found.replace("+", "-")
