"""The owner's side of the channel: a store that is open for writing executes requests of other processes. A thread
waits for connections, and executes one request after the other; long ones have their own threads. It runs beside
the maintenance of the logs: a sender waits for its answer, and a compaction may take long. A store without threads
answers in `Store.housekeep`; until then its connections wait in the backlog.

The thread does not refer to the `Store`, which would keep it alive. The socket stays in the root until the last
log is closed, just before the lock is released. Senders wait that long, and then execute their requests
themselves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from logstore.clock import Clock
from logstore.errors import LogstoreError, StorageError
from logstore.io._files import fork_generation
from logstore.io._interrupts import held, shielded
from logstore.log.directory.files import Directory
from logstore.store.catalog.reserve import Reserve
from logstore.store.maintenance.scheduler import Interrupted

if TYPE_CHECKING:
    from logstore.store.requests.requests import StoreRequest, StoreWriter

_logger = logging.getLogger(__name__)

#: A sender that was accepted gets so long to send its request, and to receive its answer.
SENDER_S: Final = 5.0
#: Pause before the next connection is accepted, if no descriptor is left for it.
_PAUSE_S: Final = 1.0

#: Period of the search for batches that a failure has left undecided, and whose query may not continue.
SETTLE_MS: Final = 30_000
#: Period of the search for files that ended processes have left; those of senders are removed after a day.
SWEEP_MS: Final = 86_400_000
#: The first search comes so long after the opening of a store: it looks at each partition, and is not urgent.
FIRST_SWEEP_S: Final = 600.0
#: Requests and answers of versions that had files for them. This version does not act on them.
_EARLIER: Final = ("logstore.inbox.", "logstore.taken.", "logstore.answer.")

#: Held while a thread imports, and while a process forks.
_importing = threading.Lock()

#: No WeakSet: iterating one fails if a thread adds to it.
_SERVERS: weakref.WeakKeyDictionary[RequestServer, None] = weakref.WeakKeyDictionary()


class RequestServer:
    """Answers requests to one store. It has a socket from the start, and a thread after `start`."""

    def __init__(self, root: Directory, reserve: Reserve, owner: Callable[[], StoreWriter | None]) -> None:
        """``owner`` gives None once the store is closed."""
        from logstore.store.requests import channel

        self._root = root
        self._owner = owner
        self._fork = fork_generation()
        self._turn = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._long: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        try:
            self._listener = reserve.with_space(lambda: channel.listen(root))
        except OSError as error:
            # Other processes are refused; whatever is done in this one works.
            level = logging.DEBUG if root.files.namespace is not None else logging.WARNING
            _logger.log(level, "no requests of other processes: store=%s error=%s", root.path, error)
        _SERVERS[self] = None

    def start(self) -> None:
        """Answer requests from now on, in a thread."""
        if self._listener is not None:
            self._thread = self._run(self._serve_all, self._listener)

    def serve_waiting(self) -> None:
        """Answer the requests that wait now, unless a thread does."""
        if self._listener is not None and self._thread is None:
            with held(self._turn), contextlib.suppress(Interrupted):
                self._listener.settimeout(0)
                while self._serve_next(self._listener):
                    pass

    def check(self) -> None:
        """Raise if the store is being closed: long requests call it repeatedly.

        Raises:
            Interrupted: it is.
        """
        if self._stopping.is_set():
            raise Interrupted("the store is being closed")

    def stop(self) -> None:
        """Begin no further request; a long one ends at its next `check`. Does not wait for it."""
        if self._fork == fork_generation():
            self._stopping.set()
            if self._listener is not None:
                with contextlib.suppress(OSError):
                    self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread

    def close(self) -> None:
        """Answer no request any more. Returns when the last one has ended; may be called again."""
        if self._fork == fork_generation():
            self.stop()
            for threads in ([self._thread], self._long):  # the first one starts the others
                for thread in threads:
                    if thread is not None and thread is not threading.current_thread():
                        thread.join()
            with held(self._turn):
                pass  # another thread may be in `serve_waiting`

    def remove(self) -> None:
        """Remove the socket: the lock of the root is about to be released."""
        if self._listener is not None and self._fork == fork_generation():
            from logstore.store.requests import channel

            with contextlib.suppress(StorageError):
                self._root.remove(channel.SOCKET)
            self.forget()

    def forget(self) -> None:
        """Close the descriptor, and leave the socket to the process that has made it."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _run(self, work: Callable[..., object], *arguments: Any) -> threading.Thread:
        def until_closed() -> None:
            with contextlib.suppress(Interrupted):
                work(*arguments)

        name = f"logstore-housekeeping requests of {self._root.path}"
        thread = threading.Thread(target=until_closed, name=name, daemon=True)
        thread.start()
        return thread

    def _serve_all(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            if not self._serve_next(listener):
                # The connection stays in the backlog: without a pause, this thread would run in circles.
                self._stopping.wait(_PAUSE_S)

    def _serve_next(self, listener: socket.socket) -> bool:
        """Execute the request of the next connection; False if none can be accepted."""
        from logstore.store.requests import channel

        try:
            connection = channel.accept(listener)
        except OSError as error:
            if not isinstance(error, BlockingIOError) and not self._stopping.is_set():
                _logger.warning("a connection was not accepted: store=%s error=%s", self._root.path, error)
            return False
        with contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            accepted, request_of = shielded(_handlers)
            patience = _patience()

            def check() -> None:
                self.check()
                patience()

            try:
                channel.send(connection, accepted(), check)
                request = request_of(channel.receive(connection, check))
            except (EOFError, OSError) as error:
                _logger.debug("no request came: store=%s error=%s", self._root.path, error)
            except Interrupted:
                raise
            except LogstoreError as error:
                self._answer(connection, channel.message_of_error(error))
            else:
                if request.takes_long and self._thread is not None:
                    stack.pop_all()
                    self._long = [thread for thread in self._long if thread.is_alive()]
                    self._long.append(self._run(self._carry_out, connection, request))
                else:
                    self._carry_out(connection, request)
        return True

    def _carry_out(self, connection: socket.socket, request: StoreRequest[Any]) -> None:
        from logstore.store.requests import channel

        with connection:
            owner = self._owner()
            if owner is None or channel.is_abandoned(connection):
                # Its sender may have begun something else by now, or have ended.
                _logger.warning("not done, its sender has gone: store=%s request=%s", self._root.path, request.deed)
                return
            try:
                told = {"result": request.answer(request.done_by(owner, self.check))}
            except Interrupted:
                # Without an answer, its sender finds no owner any more, and does the work itself.
                raise
            except LogstoreError as error:
                told = channel.message_of_error(error)
            except Exception as error:
                _logger.exception("a request failed: store=%s request=%s", self._root.path, request.deed)
                told = channel.message_of_error(error)
            self._answer(connection, told)

    def _answer(self, connection: socket.socket, told: dict[str, Any]) -> None:
        from logstore.store.requests import channel

        try:
            channel.send(connection, told, _patience())
        except (OSError, LogstoreError) as error:
            # Its sender asks again, and learns what was done.
            _logger.warning("an answer was not received: store=%s error=%s", self._root.path, error)


def _handlers() -> tuple[Callable[[], dict[str, Any]], Callable[[dict[str, Any]], StoreRequest[Any]]]:
    """Return what reads requests: imported late, as most stores are closed before the first request.

    No fork comes in between: its child would wait for ever for the import of a thread that it does not have.
    """
    with held(_importing):
        from logstore.store.requests.requests import accepted, request_of
    return accepted, request_of


def _patience() -> Callable[[], None]:
    """Return a check that a sender does not take too long."""
    until_s = time.monotonic() + SENDER_S

    def check() -> None:
        if time.monotonic() >= until_s:
            raise TimeoutError("the sender of a request takes too long")

    return check


class LeftFiles:
    """Files that ended processes have left below a root: staged ones, and those of senders of earlier versions."""

    def __init__(self, root: Directory, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._swept_ms = 0

    def sweep(self) -> None:
        """Remove those of yesterday and before, once a day."""
        now_ms = self._clock.now_ms()
        if self._swept_ms and abs(now_ms - self._swept_ms) < SWEEP_MS:
            return
        with held(_importing):
            from logstore.store.commit.staged_writer import sweep

        self._swept_ms = now_ms
        for name in self._root.names():
            if name.startswith(_EARLIER):
                with contextlib.suppress(StorageError), contextlib.closing(self._root.open(name)) as file:
                    if now_ms - file.modified_ms() > SWEEP_MS:
                        self._root.remove(name)
        sweep(self._root.path, "", -1, files=self._root.files, clock=self._clock)


def _forget_in_child() -> None:
    """Close a parent's sockets in its forked child, which must not answer, nor keep connections open."""
    for reference in _SERVERS.keyrefs():
        server = reference()
        if server is not None:
            server.forget()


os.register_at_fork(
    before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
)
os.register_at_fork(after_in_child=_forget_in_child)
