"""The one thread that touches the sockets of a cluster.

Other threads hand it work and wait; it runs no code of users and never waits but for sockets and the next time that
something is due. State of connections and of `Service` objects is changed by this thread alone, so it has no locks.
Looking up names and logins may take long: they are errands in threads of their own.

The thread begins with the first work, and ends with `Network.close`, with the end of the interpreter, or when the
`Network` is dropped. After a fork the child has no such thread: it is refused.
"""

from __future__ import annotations

import atexit
import logging
import random
import selectors
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from logstore.clock import retry_pause_ms
from logstore.config.remote import Address, WireConfig
from logstore.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClientClosedError,
    ForkedError,
    LogstoreError,
)
from logstore.io._eventfd import EventFd
from logstore.io._files import fork_generation
from logstore.io._interrupts import held
from logstore.remote.credentials import Credentials
from logstore.remote.network.calls import Waiting
from logstore.remote.network.connection import NodeConnection, Stage
from logstore.remote.network.frames_in import READ_BYTES

_logger = logging.getLogger(__name__)

#: How long the thread sleeps at most while nothing happens.
_IDLE_S = 30.0
#: How long the end of the interpreter, and how long `Network.close`, waits for the thread.
_END_S = 2.0
_CLOSE_S = 30.0
#: See `_keep_freed_blocks`; glibc heeds 32 MiB at most.
_KEPT_BYTES = 1 << 24
#: A service that has failed is called again after this pause.
_SERVICE_PAUSE_S = 1.0


class Service(Protocol):
    """A state machine that the thread of the sockets calls."""

    def turn(self, now_s: float) -> float:
        """Do what is due, and return when the next call is due. No call waits."""

    def end(self, error: LogstoreError) -> None:
        """The thread ends: tell all that wait."""


class Network:
    """Connections to brokers, served by one thread. Any thread may call any method.

    Raises:
        ClientClosedError, ForkedError: from every method, after `close` or in a forked child.
    """

    def __init__(
        self, config: WireConfig, credentials: Credentials | None = None, rng: random.Random | None = None
    ) -> None:
        self.thread = NetworkThread(config, Credentials(config) if credentials is None else credentials, rng)
        # A collector of garbage must not wait for a thread; the end of the interpreter does.
        self._finalizer = weakref.finalize(self, self.thread.stop, 0.0)
        self._finalizer.atexit = False

    def open(self, address: Address, *, node: int = -1) -> NodeConnection:
        """Open a connection, after the pause that failed ones of that address ask for.

        Raises:
            AuthenticationError, BrokerUnreachableError, BrokerTimeoutError, ProtocolError: the broker
                refuses this client, cannot be reached, does not answer, or speaks another protocol.
        """
        thread = self.thread
        made = thread.connection(address, node)
        try:
            thread.hand_over(thread.open_at, made)
            made.opened.wait(thread.is_alive)
        except BaseException:
            self.drop(made)
            raise
        return made

    def drop(self, connection: NodeConnection) -> None:
        """Close a connection. Does not wait, and raises nothing."""
        thread = self.thread
        if thread.is_usable():
            thread.hand_over(_closed, connection)

    def hand_over(self, work: Callable[..., Any], *args: Any) -> None:
        """Have the thread call ``work`` soon, with ``args`` and the monotonic time. Does not wait."""
        self.thread.hand_over(work, *args)

    def add(self, service: Service) -> None:
        """Have the thread call a service in each of its turns."""
        self.thread.hand_over(self.thread.add, service)

    def remove(self, service: Service) -> None:
        """Have the thread call a service no more. Does not wait, and raises nothing."""
        thread = self.thread
        if thread.is_usable():
            thread.hand_over(thread.remove, service)

    def wake(self) -> None:
        """Have the thread call its services."""
        self.thread.check()
        self.thread.wake()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self.thread.is_alive()

    def check(self) -> None:
        """Raise if it cannot be used."""
        self.thread.check()

    def close(self) -> None:
        """Close the connections and end the thread. May be called again."""
        self._finalizer.detach()
        self.thread.stop(_CLOSE_S)


def _keep_freed_blocks() -> None:
    """Have glibc keep freed memory, up to twice `_KEPT_BYTES`, unless the program has set that itself (mallopt).

    It returns large blocks to the system otherwise, and each answer is read into fresh pages: that took a third of
    the CPU of a scan (``python -m benchmarks.clients.tls``, plain and not compressed).
    """
    # The free of a mapped block raises both of its limits; no page of it is touched.
    bytes(_KEPT_BYTES)


def _closed(connection: NodeConnection, now_s: float) -> None:
    connection.fail(ClientClosedError(f"{connection}: the connection is closed"))


class NetworkThread:
    """The thread, and what it shares with others: a queue of work and two flags."""

    def __init__(self, config: WireConfig, credentials: Credentials, rng: random.Random | None) -> None:
        self._config = config
        self._credentials = credentials
        self.rng = rng or random.Random()
        self._fork = fork_generation()
        self._work: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._ends = False
        self._is_asleep = False
        self._wakeup = EventFd()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None
        # -- of the thread alone
        self._selector = selectors.EpollSelector()
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._scratch = bytearray(READ_BYTES)
        self._looks_again = False
        self._connections: dict[NodeConnection, None] = {}
        self._services: dict[Service, None] = {}
        self._delayed: list[tuple[float, NodeConnection]] = []
        #: Address -> how often in a row it has failed, and until when it is left alone.
        self._failures: dict[Address, tuple[int, float]] = {}

    # -- from any thread

    def now_s(self) -> float:
        """Return the time by which this thread works."""
        return time.monotonic()

    def is_usable(self) -> bool:
        return not self._ends and self._fork == fork_generation()

    def check(self) -> None:
        if self._fork != fork_generation():
            raise ForkedError("the client was made before a fork; call Client() in the child")
        if self._ends:
            raise ClientClosedError("the client is closed")

    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and self._fork == fork_generation()

    def hand_over(self, work: Callable[..., Any], *args: Any) -> None:
        self.check()
        self._work.append((work, args))
        if self._thread is None:
            self._begin()
        if self._is_asleep:
            self.wake()

    def _begin(self) -> None:
        with held(self._start):
            if self._thread is None:
                _keep_freed_blocks()
                _running.add(self)
                thread = threading.Thread(target=self._run, name="logstore-network", daemon=True)
                thread.start()
                self._thread = thread

    def wake(self) -> None:
        self._wakeup.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread, and wait for that; without a thread, release what it would have released."""
        if self._fork != fork_generation():
            return  # the sockets are the parent's
        self._ends = True
        thread = self._thread
        if thread is None:
            self._release()
        elif thread is not threading.current_thread():
            self.wake()
            thread.join(timeout_s)

    def open_soon(
        self, address: Address, *, node: int = -1, then: Callable[[Waiting[None]], object]
    ) -> NodeConnection:
        """Begin to open a connection; for services. ``then`` is called later, in this thread."""
        made = self.connection(address, node, then)
        self.hand_over(self.open_at, made)
        return made

    def connection(
        self, address: Address, node: int, then: Callable[[Waiting[None]], object] | None = None
    ) -> NodeConnection:
        return NodeConnection(address, self._config, self._credentials, self, self._scratch, node=node, then=then)

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._ends:
                self._turn()
        except BaseException as error:
            self._ends = True
            _logger.error("the thread of the sockets has failed", exc_info=error)
        finally:
            self._release()

    def _turn(self) -> None:
        # What is called here is left before the wait: its variables would keep dropped objects alive.
        due_s, is_hungry = self._do_what_is_due(time.monotonic())
        self._is_asleep = True
        # Work that came before the flag has woken nothing.
        wait_s = 0.0 if self._work or self._ends or is_hungry else max(due_s - time.monotonic(), 0.0)
        ready = self._selector.select(min(wait_s, _IDLE_S))
        self._is_asleep = False
        if ready or is_hungry:
            self._move_bytes(ready, is_hungry, time.monotonic())

    def _do_what_is_due(self, now_s: float) -> tuple[float, bool]:
        """Do all work, and return when something is due, and whether something is to be done without a wait."""
        while self._work:
            work, args = self._work.popleft()
            self._guarded(work, *args, now_s)
        if self._delayed:
            self._open_delayed(now_s)
        # Before the services: a time-out is what they may have waited for.
        for each in list(self._connections):
            if now_s >= each.due_s():
                self._guarded(each.on_time, now_s)
        due_s = min((each[0] for each in self._delayed), default=now_s + _IDLE_S)
        for service in list(self._services):
            due_s = min(due_s, self._turn_of(service, now_s))
        is_hungry, self._looks_again = self._looks_again, False
        for each in list(self._connections):
            if each.stage is Stage.CLOSED:
                self._connections.pop(each, None)
                continue
            is_hungry = is_hungry or each.is_hungry
            due_s = min(due_s, each.due_s())
        return due_s, is_hungry

    def _move_bytes(self, ready: list[Any], is_hungry: bool, now_s: float) -> None:
        if is_hungry:
            for each in list(self._connections):
                if each.is_hungry:
                    self._guarded(each.on_ready, selectors.EVENT_READ | selectors.EVENT_WRITE, now_s)
        for key, events in ready:
            if key.data is None:
                self._wakeup.clear()
            else:
                self._guarded(key.data.on_ready, events, now_s)

    def _guarded(self, work: Callable[..., Any], *args: Any) -> None:
        """Call a function of which an error must not end the thread."""
        try:
            work(*args)
        except Exception as error:
            _logger.error("the thread of the sockets goes on after an error", exc_info=error)
            failed = getattr(getattr(work, "func", work), "__self__", None)
            if isinstance(failed, NodeConnection):
                failed.fail(ClientClosedError(f"{failed}: the thread of the sockets has failed: {error!r}"))

    def _turn_of(self, service: Service, now_s: float) -> float:
        try:
            return service.turn(now_s)
        except Exception as error:
            if not self._ends or not isinstance(error, ClientClosedError):
                _logger.error("the thread of the sockets goes on after an error", exc_info=error)
            return now_s + _SERVICE_PAUSE_S

    def look_again(self) -> None:
        """Call each service once more before anything is waited for: one has given another something to do."""
        self._looks_again = True

    def add(self, service: Service, now_s: float) -> None:
        self._services[service] = None

    def remove(self, service: Service, now_s: float) -> None:
        if service in self._services:
            del self._services[service]
            service.end(ClientClosedError("the client is closed"))

    def open_at(self, connection: NodeConnection, now_s: float) -> None:
        """Open a connection now, or after the pause for its address."""
        _, until_s = self._failures.get(connection.address, (0, 0.0))
        if now_s < until_s:
            self._delayed.append((until_s, connection))
            return
        self._connections[connection] = None
        self._guarded(connection.open, now_s)

    def _open_delayed(self, now_s: float) -> None:
        due = [each for each in self._delayed if each[0] <= now_s]
        self._delayed = [each for each in self._delayed if each[0] > now_s]
        for _, connection in due:
            if connection.stage is Stage.CLOSED:
                continue
            # The first of several may have failed meanwhile.
            self.open_at(connection, now_s)

    # -- for connections

    def opened(self, connection: NodeConnection, error: LogstoreError | None) -> None:
        if isinstance(error, AuthenticationError | BrokerUnreachableError):
            # A program that calls again and again must not ask the broker as often: brokers lock users.
            count, _ = self._failures.get(connection.address, (0, 0.0))
            config = self._config
            pause_ms = retry_pause_ms(count, config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self.rng)
            self._failures[connection.address] = count + 1, time.monotonic() + pause_ms / 1000
        elif error is None:
            self._failures.pop(connection.address, None)

    def watch(self, connection: NodeConnection, file: socket.socket, events: int) -> None:
        try:
            self._selector.modify(file, events, connection)
        except KeyError:
            self._selector.register(file, events, connection)

    def unwatch(self, file: socket.socket) -> None:
        try:
            self._selector.unregister(file)
        except (KeyError, ValueError):
            pass

    def errand(self, work: Callable[[], Any], then: Callable[[Any, BaseException | None, float], None]) -> None:
        def run() -> None:
            result, problem = None, None
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  the thread of the sockets deals with it
                problem = error
            if self.is_usable():
                self.hand_over(then, result, problem)

        threading.Thread(target=run, name="logstore-errand", daemon=True).start()

    def _release(self) -> None:
        """Close everything; all that wait get an error."""
        error = ClientClosedError("the client is closed")
        while self._work:
            # Calls that came too late would wait for ever.
            _work, args = self._work.popleft()
            for each in args:
                if isinstance(each, Waiting):
                    each.settle(None, error)
                elif isinstance(each, NodeConnection):
                    each.fail(error)
        for _, connection in self._delayed:
            connection.fail(error)
        for connection in list(self._connections):
            self._guarded(connection.fail, error)
        for service in list(self._services):
            self._guarded(service.end, error)
        self._connections.clear()
        self._services.clear()
        self._selector.close()
        self._wakeup.close()


_running: weakref.WeakSet[NetworkThread] = weakref.WeakSet()


def _end_all() -> None:
    """End the threads before the interpreter does: a thread that it stops anywhere leaves connections half open."""
    for each in list(_running):
        each.stop(_END_S)


atexit.register(_end_all)
