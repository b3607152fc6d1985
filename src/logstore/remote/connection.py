"""Plaintext connection to one broker: requests and their answers, in order.

A `BrokerConnection` is responsible for the socket: timeouts of answers, versions of messages that both sides
know, and the broker's throttle time. It knows neither topics nor leaders, and never retries. After an error of
the socket or a malformed answer the connection is broken, and its user opens another. One thread uses a connection
at a time, in the process that opened it.
"""

from __future__ import annotations

import functools
import os
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
    MalformedMessageError,
    ProtocolError,
    UnsupportedVersionError,
)
from logstore.protocol import codes
from logstore.protocol.frames import decode_response, encode_request
from logstore.protocol.generated.messages import ApiVersionsRequest, ApiVersionsResponse
from logstore.records import INT32_MAX

#: Limit of the first answer: the first bytes of another protocol could read as the size of a gigabyte.
FIRST_FRAME_BYTES = 1 << 20
FRAME_BYTES = (1 << 30) - 1

_SIZE = struct.Struct(">i")
_ERROR_AFTER_HEADER = struct.Struct(">ih")

#: Added to the timeout if the broker itself may wait longer: the time for its answer to arrive.
_GRACE_MS = 500


class _Asked(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    deadline: float


class BrokerConnection:
    """One socket to one broker, and the versions of messages that the broker knows.

    Owns: the socket.

    Raises:
        BrokerUnreachableError: the broker cannot be reached; host, port and what to check are named.
        BrokerTimeoutError: the broker accepts the connection and does not answer.
        ProtocolError: the peer does not use Kafka's protocol, or no version of it that this client knows.
    """

    def __init__(self, address: Address, config: WireConfig, *, node: int = -1) -> None:
        self.address = address
        self.node = node
        self.throttled_ms = 0  #: the broker's throttle time, summed over all answers
        self.used_at = time.monotonic()
        self._config = config
        self._pid = os.getpid()
        self._asked: deque[_Asked] = deque()
        self._correlation_id = 0
        self._not_before = 0.0
        self._waits_ms = -1
        self._broken = False
        self._socket = self._connect()
        try:
            self.versions = self._negotiate()
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        host, port = self.address
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return place if self.node < 0 else f"broker {self.node} ({place})"

    # -- opening -----------------------------------------------------------------------------------

    def _connect(self) -> socket.socket:
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
            # With a timeout of Python's the socket would not block: each packet of a frame would be a system call.
            made.settimeout(None)
        except BaseException:
            made.close()
            raise
        return made

    def _negotiate(self) -> Mapping[int, tuple[int, int]]:
        """Return for each API key the first and last version that the broker knows."""
        version = ApiVersionsRequest.MAX_VERSION
        request = ApiVersionsRequest(client_software_name="logstore", client_software_version=_own_version())
        asked = self._send(request, version, self._config.request_timeout_ms)
        try:
            frame = self._receive(asked.deadline, FIRST_FRAME_BYTES)
        except BrokerUnreachableError as error:
            raise BrokerUnreachableError(
                f"{self}: took the connection and closed it when it was asked for its versions; check that "
                "this is the port of a PLAINTEXT listener"
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
                f"{self}: what answers there does not speak Kafka's protocol ({error}); check that this is the "
                "port of a PLAINTEXT listener"
            ) from error
        if response.error_code:
            raise codes.error_of(response.error_code, f"versions of {self}")
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

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
        return len(self._asked)

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
        return self._send(request, chosen, limit).correlation_id

    def receive(self) -> Any:
        """Wait for the answer to the oldest request in flight, and return it; raises as `ask`."""
        asked = self._asked.popleft()
        frame = self._receive(asked.deadline, FRAME_BYTES)
        response = self._decoded(asked, frame)
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_ms += throttle_ms
            self._not_before = time.monotonic() + throttle_ms / 1000
        return response

    def has_answer(self) -> bool:
        """Return whether the next answer has begun to arrive, or the connection is lost. Does not wait."""
        if self._broken:
            return True
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def _ask(self, request: Any, version: int, timeout_ms: int) -> Any:
        self._send(request, version, timeout_ms)
        return self.receive()

    def _send(self, request: Any, version: int, timeout_ms: int) -> _Asked:
        self._check()
        self._correlation_id = (self._correlation_id + 1) & INT32_MAX
        frame = encode_request(request, version, self._correlation_id, self._config.client_id)
        self.used_at = time.monotonic()
        asked = _Asked(self._correlation_id, request.API_KEY, version, self.used_at + timeout_ms / 1000)
        self._let_wait(timeout_ms)
        try:
            self._socket.sendall(frame)
        except BlockingIOError as error:
            self.close()
            raise BrokerTimeoutError(f"{self} took no request for {timeout_ms} ms") from error
        except OSError as error:
            self.close()
            raise BrokerUnreachableError(f"{self}: the connection was lost: {error.strerror or error}") from error
        self._asked.append(asked)
        return asked

    def _receive(self, deadline: float, limit: int) -> bytes:
        """Read the next frame without its size."""
        self._check()
        try:
            (size,) = _SIZE.unpack(self._read(_SIZE.size, deadline))
            if not 4 <= size <= limit:
                raise ProtocolError(
                    f"{self}: what answers there does not speak Kafka's protocol: it announces {size} bytes; check "
                    "that this is the port of a PLAINTEXT listener"
                )
            return self._read(size, deadline)
        except BaseException:
            # The next call would read the rest of this frame as a new one.
            self.close()
            raise

    def _read(self, size: int, deadline: float) -> bytes:
        data = self._read_some(size, deadline)
        if len(data) == size:
            return data
        parts = [data]
        left = size - len(data)
        while left:
            parts.append(self._read_some(left, deadline))
            left -= len(parts[-1])
        return b"".join(parts)

    def _read_some(self, size: int, deadline: float) -> bytes:
        left_ms = int((deadline - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise BrokerTimeoutError(f"{self} did not answer in time")
        self._let_wait(left_ms)
        try:
            data = self._socket.recv(size, socket.MSG_WAITALL)
        except BlockingIOError as error:
            raise BrokerTimeoutError(
                f"{self} did not answer for {left_ms} ms; check the broker's load, or raise request.timeout.ms"
            ) from error
        except OSError as error:
            raise BrokerUnreachableError(f"{self}: the connection was lost: {error.strerror or error}") from error
        if not data:
            raise BrokerUnreachableError(f"{self} closed the connection before it had answered")
        return data

    def _let_wait(self, wait_ms: int) -> None:
        """Limit how long a system call on the socket may take from now on.

        The previous limit is kept if it is up to a ninth longer: that saves system calls.
        """
        if self._waits_ms * 0.9 <= wait_ms <= self._waits_ms:
            return
        self._waits_ms = wait_ms
        seconds, rest = divmod(max(wait_ms, 1), 1000)
        value = struct.pack("@ll", seconds, rest * 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    def _decoded(self, asked: _Asked, frame: bytes) -> Any:
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
        if self._broken or self._asked or self._pid != os.getpid():
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
        self._socket.close()


@functools.cache
def _own_version() -> str:
    """Return this client's version as brokers list it: letters, digits, dots and dashes."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("logstore")
    except PackageNotFoundError:
        return "unknown"
    return found.replace("+", "-")
