"""A connection in the hands of one caller, which sends requests and waits for their answers.

A `BrokerLink` encodes requests and decodes answers in the caller's thread; the thread of the sockets only moves
bytes. One thread uses it at a time; two of them to one broker do not wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from logstore.config.remote import Address, WireConfig
from logstore.errors import BrokerUnreachableError, MalformedMessageError
from logstore.protocol.frames import encode_request
from logstore.remote.network.calls import Call, answer_of
from logstore.remote.network.connection import Stage
from logstore.remote.network.loop import Network
from logstore.remote.network.opening import Versions, version_for

#: Added to the timeout if the broker itself may wait longer: the time for its answer to arrive.
GRACE_MS = 500


def limit_ms(config: WireConfig, wait_ms: int) -> int:
    """Return how long an answer may take if the broker itself may wait ``wait_ms``."""
    limit = config.request_timeout_ms
    return wait_ms + GRACE_MS if wait_ms > limit else limit


class BrokerLink:
    """One opened connection. Owns: the connection.

    Raises: as `Network.open`.
    """

    def __init__(self, network: Network, config: WireConfig, address: Address, *, node: int = -1) -> None:
        self.throttled_ms = 0  #: the broker's throttle time, summed over all answers
        self._network = network
        self._config = config
        self._asked: deque[Call] = deque()
        self._is_closed = False
        self._connection = network.open(address, node=node)

    def __str__(self) -> str:
        return str(self._connection)

    @property
    def address(self) -> Address:
        return self._connection.address

    @property
    def node(self) -> int:
        """The broker's number; -1 while it is known by its address only."""
        return self._connection.node

    @node.setter
    def node(self, number: int) -> None:
        self._connection.node = number

    @property
    def versions(self) -> Versions:
        """First and last version of each API key that the broker knows."""
        return self._connection.versions

    @property
    def in_flight(self) -> int:
        """The number of requests whose answers were not returned yet."""
        return len(self._asked)

    def version_of(self, request: Any, most: int | None = None) -> int:
        """Return the highest version of a request that both sides know, but at most ``most``.

        Raises:
            UnsupportedVersionError: there is no such version. The connection stays usable.
        """
        return version_for(request, self._connection.versions, self._connection, most)

    def ask(self, request: Any, *, version: int | None = None, wait_ms: int = 0) -> Any:
        """Send a request and return its answer; no other is in flight.

        ``wait_ms`` is how long the broker itself may wait before it answers. The answer must arrive within
        ``request.timeout.ms``; if ``wait_ms`` is longer, within half a second after it.

        Raises:
            BrokerUnreachableError, BrokerTimeoutError: the connection is broken; it is unknown whether the
                request was carried out.
            MalformedMessageError: the answer cannot be read; the connection is broken.
        """
        self.send(request, version=version, wait_ms=wait_ms)
        return self.receive()

    def send(
        self,
        request: Any,
        *,
        version: int | None = None,
        wait_ms: int = 0,
        then: Callable[[], object] | None = None,
    ) -> int:
        """Send a request and return its number; `receive` returns the answers in the order of the requests.

        ``then`` is called in the thread of the sockets once there is an answer or none will come: it wakes a
        thread, and does nothing else. That thread calls `receive` after `has_answer`.
        """
        connection = self._connection
        if self._is_closed or connection.stage is Stage.CLOSED:
            raise BrokerUnreachableError(f"{self}: the connection is closed") from connection.error
        chosen = self.version_of(request) if version is None else version
        number = connection.next_number()
        frame = encode_request(request, chosen, number, self._config.client_id)
        told = None if then is None else lambda _call: then()
        call = Call(frame, request.API_KEY, chosen, number, limit_ms(self._config, wait_ms) / 1000, told)
        self._asked.append(call)
        self._network.hand_over(connection.put, call)
        return number

    def receive(self) -> Any:
        """Wait for the answer to the oldest request in flight, and return it; raises as `ask`."""
        call = self._asked.popleft()
        try:
            if not call.is_settled:
                call.wait(self._network.is_alive)
        except BaseException:
            # An interrupted wait leaves an answer that no later call may get.
            self.close()
            raise
        try:
            answer = answer_of(call)
        except MalformedMessageError:
            self.close()
            raise
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_ms += throttle_ms
            self._connection.throttle(throttle_ms)
        return answer

    def has_answer(self) -> bool:
        """Return whether `receive` would not wait."""
        return not self._asked or self._asked[0].is_settled

    def is_usable(self) -> bool:
        """Return whether it can take a request, and none is in flight."""
        # A login that is repeated lets requests wait, and loses none.
        is_open = self._connection.opened.is_settled and self._connection.stage is not Stage.CLOSED
        return is_open and not self._asked and not self._is_closed

    def close(self) -> None:
        """Close the connection; answers in flight are lost. May be called again."""
        self._is_closed = True
        self._asked.clear()
        self._network.drop(self._connection)
