from collections.abc import Callable, Iterable
from socket import socket as Socket
from typing import Any, Protocol

from typing_extensions import disjoint_base

from logstore.clock import Clock
from logstore.io._file_region import FileRegion
from logstore.io._notifier import Notifier, NotifierGroup

class _Handler(Protocol):
    def request(self, answer: Answer, frame: bytes) -> None: ...
    def notified(self, notifier: Notifier) -> None: ...
    def closed(self, connection: ClientConnection) -> None: ...
    def waits_for(self, connection: ClientConnection, notifier: Notifier) -> bool: ...

@disjoint_base
class Answer:
    """The place of one request in the order of its connection."""

    connection: ClientConnection
    def complete(self, pieces: Iterable[bytes | FileRegion]) -> None:
        """Answer with bytes and file regions, in this order; with none, if the client waits for no answer."""

    def release_frame(self) -> int:
        """Count the frame as queued no more: it is not kept, or waits for what other requests may bring."""

    def hold(self) -> None:
        """Take no further request of the connection until this answer is sent: a client has one at most."""

    @property
    def is_done(self) -> bool:
        """Whether the request is answered, or its connection closed."""

@disjoint_base
class QuickRequests:
    """The requests that need no object of Python each, if any: the handler gets all others."""

@disjoint_base
class ClientConnection:
    """One connection of a client."""

    socket: Socket
    peer: Any
    local: Any
    listener: str
    is_closed: bool
    state: Any
    principal: Any
    def hold(self) -> None:
        """Take no further request until as many calls of `release`: the order of what is in progress matters."""

    def close(self) -> None:
        """Close the connection; its requests get no answer."""

    def release(self) -> None:
        """Take requests again."""

@disjoint_base
class Loop:
    """The loop of one broker's connections."""

    group: NotifierGroup
    max_frame_bytes: int
    max_received_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_s: float
    received_bytes: int
    queued_bytes: int
    turns: int
    bytes_sendfile: int
    bytes_copied: int
    bytes_in: int
    requests: int
    refused_connections: int
    accepted_connections: int
    failed_requests: int
    cold_reads: int
    idle_ns: int
    def __init__(
        self,
        handler: _Handler,
        *,
        max_frame_bytes: int,
        max_received_bytes: int,
        max_connections: int,
        max_connections_per_ip: int = ...,
        max_idle_s: float = ...,
        quick: Iterable[QuickRequests] = (),
        in_other: Callable[[Callable[[], object]], object] | None = None,
        clock: Clock = ...,
    ) -> None: ...
    @property
    def connection_count(self) -> int:
        """The number of open connections."""

    @property
    def stopped_count(self) -> int:
        """The number of connections that are not read since too many bytes of requests are in progress."""

    @property
    def timer_count(self) -> int:
        """The number of timers that are kept, with those that were cancelled and are not dropped yet."""

    def by_key(self) -> dict[int, tuple[int, int]]:
        """Return the requests of each API key that has come, and the nanoseconds until answers were sent."""

    def post(self, call: Callable[[], object]) -> None:
        """Have the loop's thread make a call; any thread may. After the end of `run` it is not made."""

    def stop(self) -> None:
        """Have `run` close every connection and return; any thread may call."""

    def listen(self, listener: Socket, name: str = "") -> None:
        """Accept the connections of a listening socket, which belongs to the loop from now on. Before `run` too."""

    def call_later(
        self, delay_s: float, call: Callable[[], object], connection: ClientConnection | None = None
    ) -> list[Any]:
        """Make a call after some seconds; return the timer, for `cancel`. An exception closes ``connection``."""

    def cancel(self, timer: list[Any]) -> None:
        """Have a timer's call not made."""

    def run(self) -> None:
        """Serve until `stop`."""
