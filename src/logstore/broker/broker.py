"""`serve` and `Broker`: the listeners of a broker, the thread of its loop, its page of metrics, and their end.

``docs/decisions/0015-the-broker.md`` says which thread does what. Any thread may call a `Broker`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from logstore.broker._loop import Loop
from logstore.broker.access.authorizer import Authorizer
from logstore.broker.exporter import MetricsPage, MetricsServer
from logstore.broker.requests import RequestHandler
from logstore.broker.served import Served
from logstore.config.broker import BrokerConfig, ListenAddress
from logstore.config.schema import Setting
from logstore.errors import BrokerUnreachableError, StoreClosedError

if TYPE_CHECKING:
    from logstore.store import Store

_logger = logging.getLogger(__name__)

_BACKLOG = 511


class Broker:
    """A store that is served, until `close`; made by `serve`."""

    def __init__(
        self,
        store: Store,
        config: BrokerConfig,
        listeners: list[tuple[socket.socket, str]],
        metrics: socket.socket | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.config = config
        self.addresses: list[tuple[str, int]] = [listener.getsockname()[:2] for listener, _ in listeners]
        self._served = Served(store, config, authorizer)
        self._requests = RequestHandler(self._served)
        self._loop = Loop(
            self._requests,
            max_frame_bytes=config.socket_request_max_bytes,
            max_received_bytes=config.queued_max_request_bytes,
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            max_idle_s=config.connections_max_idle_ms / 1000,
            quick=self._requests.quick,
            in_other=functools.partial(self._served.in_pool, reads=True),
        )
        page = None if metrics is None else MetricsPage(self._served, self._loop, self.bootstrap)
        self._served.begin(self._loop)
        for listener, name in listeners:
            self._loop.listen(listener, name)
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logstore-broker", daemon=True)
        self._thread.start()
        self._metrics = None if metrics is None or page is None else MetricsServer(metrics, page)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener."""
        return self.addresses[0]

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT`` of each listener, with commas, for ``bootstrap.servers`` of a client."""
        return ",".join(str(ListenAddress("", host, port)) for host, port in self.addresses)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port of the page for Prometheus; None without ``logstore.metrics.listener``."""
        return None if self._metrics is None else self._metrics.address

    def metrics(self) -> dict[str, int]:
        """Return counts since the start: requests, bytes received, bytes sent by sendfile and by copy.

        ``failed_requests`` are errors of the broker itself, most of which have closed a connection.
        ``cold_reads`` are parts of answers that were read from the disk before they were sent. ``connections`` is
        the number of now.
        """
        loop = self._loop
        return {
            "requests": loop.requests,
            "bytes_in": loop.bytes_in,
            "bytes_sendfile": loop.bytes_sendfile,
            "bytes_copied": loop.bytes_copied,
            "cold_reads": loop.cold_reads,
            "connections": loop.connection_count,
            "accepted_connections": loop.accepted_connections,
            "refused_connections": loop.refused_connections,
            "failed_requests": loop.failed_requests,
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
        if self._metrics is not None:
            self._metrics.close()
        self._served.end()
        self._requests.end()

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
    listen: str | None = None,
    config: Mapping[str, Setting] | BrokerConfig | None = None,
    /,
    *,
    authorizer: Authorizer | None = None,
    **fields: Setting,
) -> Broker:
    """Serve an open store to Kafka's clients, beside its embedded use; return once clients can connect.

    ``listen`` is ``HOST:PORT``, or several with commas, with port 0 for a free one; it takes the place of
    ``listeners``. Settings have Kafka's keys, such as ``max.connections.per.ip``; see "Settings". Each client is
    told the address to which it has connected, unless ``advertised.listeners`` names another.

    There is no login and no encryption: each client that reaches it may read, write and delete every topic,
    unless ``authorizer`` says no. It is asked about each request: see `Authorizer`.
    Close the broker before the store.

    Raises:
        UnknownSettingError, InvalidSettingError: a setting is unknown, or its value is outside its range.
        BrokerUnreachableError: an address is in use, or is none of this machine.
        ReadOnlyError: the store is open read-only.
        MissingLibraryError: ``logstore.metrics.listener`` is set, and prometheus-client is not installed.
    """
    store._host.check_writable()
    if listen is not None:
        fields["listeners"] = listen
    given = BrokerConfig.of(config, **fields)
    with contextlib.ExitStack() as undo:
        listeners = [(undo.enter_context(_listening(each)), each.name) for each in given.addresses()]
        metrics = given.metrics_address()
        page = None if metrics is None else undo.enter_context(_listening(metrics))
        broker = Broker(store, given, listeners, page, authorizer)
        undo.pop_all()
    return broker


def _listening(address: ListenAddress) -> socket.socket:
    try:
        if not address.host:
            found = socket.create_server(("", address.port), backlog=_BACKLOG)
        else:
            family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
            found = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise BrokerUnreachableError(f"{address} cannot be listened on: {why}") from error
    return found
