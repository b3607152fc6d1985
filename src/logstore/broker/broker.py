"""`serve` and `Broker`: the listener of a broker, the thread of its loop, and their end.

``docs/decisions/0015-the-broker.md`` says which thread does what. Any thread may call a `Broker`.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from typing import TYPE_CHECKING

from logstore.broker._loop import Loop
from logstore.broker.requests import RequestHandler
from logstore.broker.served import Served
from logstore.errors import BrokerUnreachableError, InvalidSettingError, StoreClosedError

if TYPE_CHECKING:
    from logstore.store import Store

_logger = logging.getLogger(__name__)

#: Kafka's default of ``socket.request.max.bytes``.
REQUEST_BYTES = 100 << 20
#: What all connections together may have sent of requests that are not whole.
RECEIVED_BYTES = 256 << 20
#: Connections beyond it are closed when they are accepted.
CONNECTIONS = 10_000

_BACKLOG = 511


class Broker:
    """A store that is served, until `close`; made by `serve`."""

    def __init__(self, store: Store, listener: socket.socket, *, request_bytes: int, received_bytes: int) -> None:
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._served = Served(store)
        self._requests = RequestHandler(self._served)
        self._loop = Loop(
            self._requests,
            max_frame_bytes=request_bytes,
            max_received_bytes=received_bytes,
            max_connections=CONNECTIONS,
            quick=self._requests.quick,
        )
        self._served.begin(self._loop)
        self._loop.listen(listener)
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logstore-broker", daemon=True)
        self._thread.start()

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT``, for ``bootstrap.servers`` of a client."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def metrics(self) -> dict[str, int]:
        """Return counts since the start: requests, bytes received, bytes sent by sendfile and by copy."""
        loop = self._loop
        return {
            "requests": loop.requests,
            "bytes_in": loop.bytes_in,
            "bytes_sendfile": loop.bytes_sendfile,
            "bytes_copied": loop.bytes_copied,
            "connections": loop.connection_count,
            "refused_connections": loop.refused_connections,
        }

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the broker has ended; return False if ``timeout_s`` passes first.

        Raises:
            StoreClosedError: the loop has ended by an error, which is the cause.
        """
        ended = self._ended.wait(timeout_s)
        if self._failure is not None:
            raise StoreClosedError("the broker has ended; call logstore.broker.serve() again") from self._failure
        return ended

    def stop(self) -> None:
        """Have the broker end, without waiting for it: for a signal handler. `close` is still to be called."""
        self._loop.stop()

    def close(self) -> None:
        """Close the listener and every connection, and end the threads. May be called again.

        Requests in progress get no answer. The store stays open: close it afterwards, and its logs are marked
        clean.
        """
        self._loop.stop()
        self._thread.join()
        self._served.end()

    def _run(self) -> None:
        try:
            self._loop.run()
        except BaseException as error:  # the thread's last line: `wait` raises it
            _logger.exception("broker ended: address=%s", self.bootstrap)
            self._failure = error
        finally:
            self._ended.set()

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Broker at {self.bootstrap}>"


def serve(
    store: Store,
    listen: str = "127.0.0.1:9092",
    *,
    request_bytes: int = REQUEST_BYTES,
    received_bytes: int = RECEIVED_BYTES,
) -> Broker:
    """Serve an open store to Kafka's clients, beside its embedded use; return once clients can connect.

    ``listen`` is ``HOST:PORT``, with port 0 for a free one. Each client is told the address to which it has
    connected. ``request_bytes`` is the size of the largest request (Kafka's ``socket.request.max.bytes``), and
    ``received_bytes`` bounds what all connections have sent of requests that are not whole.

    There is no login and no encryption: each client that reaches it may read, write and delete every topic.
    Close the broker before the store.

    Raises:
        InvalidSettingError: ``listen`` is not ``HOST:PORT``.
        BrokerUnreachableError: the address is in use, or is none of this machine.
        ReadOnlyError: the store is open read-only.
    """
    store._host.check_writable()
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidSettingError({"listen": f"expected HOST:PORT, found {listen!r}"})
    with contextlib.ExitStack() as undo:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
            listener = undo.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise BrokerUnreachableError(f"{listen} cannot be listened on: {error.strerror}") from error
        broker = Broker(store, listener, request_bytes=request_bytes, received_bytes=received_bytes)
        undo.pop_all()
    return broker
