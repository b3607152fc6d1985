"""Metadata of the topics that the services of one client use, kept up to date by the thread of the sockets.

`MetadataUpdates` gives the requests of a `MetadataRefresher` to a broker that is known, or again to the bootstrap
servers (KIP-899). What is known is one reference that any thread may read; all else is called by the thread of the
sockets.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterable, Mapping
from typing import Any

from logstore.clock import SYSTEM_CLOCK, retry_pause_ms
from logstore.config.remote import Address, WireConfig
from logstore.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClientClosedError,
    LogstoreError,
    ProtocolError,
)
from logstore.protocol import codes
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import MetadataRequest
from logstore.remote.metadata.bootstrap import BootstrapServers
from logstore.remote.metadata.known import KnownBroker, KnownCluster, NewLeader, TopicFault
from logstore.remote.metadata.refresher import MetadataRefresher
from logstore.remote.network.calls import Call, Waiting, answer_of
from logstore.remote.network.connection import NodeConnection, Stage
from logstore.remote.network.loop import Network, NetworkThread
from logstore.remote.network.opening import version_for

_logger = logging.getLogger(__name__)


class MetadataUpdates:
    """Asks for metadata when it is due. A `Service`."""

    def __init__(self, thread: NetworkThread, config: WireConfig) -> None:
        self._thread = thread
        self._config = config
        self._refresher = MetadataRefresher(config, SYSTEM_CLOCK)
        # The connection looks up the name each time, and tries all of its addresses.
        self._bootstrap = BootstrapServers(config.addresses, SYSTEM_CLOCK, lambda address: [address])
        self._rng = random.Random()
        self._candidates: list[tuple[int, Address]] = []
        self._connection: NodeConnection | None = None
        self._is_busy = False  #: whether a connection is being opened or a request is out
        self._failures = 0  #: rounds in a row in which no broker could be reached
        self._not_before_s = -math.inf
        self._has_begun = False  #: whether the thread calls it
        #: Why no broker accepts this client, until one does.
        self.refused: AuthenticationError | None = None
        #: Why there was no answer the last time; None after an answer.
        self.problem: LogstoreError | None = None

    @property
    def known(self) -> KnownCluster:
        return self._refresher.known

    # -- for services

    def want(self, topics: Iterable[str]) -> None:
        """Ask for topics that are not known, and keep them up to date."""
        self._refresher.want(topics)
        self._begin()

    def is_wanted(self, topic: str) -> bool:
        """Return whether a topic is kept up to date."""
        return self._refresher.is_wanted(topic)

    def mark_out_of_date(self) -> None:
        """Ask again soon: an answer has shown that something has changed."""
        self._refresher.mark_out_of_date()
        self._begin()

    def _begin(self) -> None:
        # A service that ends with the client may ask still: what it was handed is to fail, not this call.
        if not self._has_begun and self._thread.is_usable():
            self._has_begun = True
            self._thread.hand_over(self._thread.add, self)
        self._thread.look_again()

    def is_missing(self, topic: str) -> bool:
        """Return whether several answers in a row did not know a topic."""
        return self._refresher.is_missing(topic)

    def refusal(self, topic: str) -> int:
        """Return the code by which a broker refuses a topic and that no repetition changes, or 0."""
        return self._refresher.refusal(topic)

    def led(self, leaders: Iterable[NewLeader], endpoints: Mapping[int, KnownBroker]) -> bool:
        """Learn new leaders from an answer (KIP-951); return whether any of them was new."""
        return self._refresher.led(leaders, endpoints)

    # -- for any thread

    def learn(self, network: Network, answer: Any, *, all_topics: bool) -> tuple[KnownCluster, list[TopicFault]]:
        """Have the thread learn from an answer to a call; return what is known then, and the refused topics."""
        learnt: Waiting[tuple[KnownCluster, list[TopicFault]]] = Waiting()
        network.hand_over(self._learn, answer, all_topics, learnt)
        return learnt.wait(network.is_alive)

    def _learn(self, answer: Any, all_topics: bool, learnt: Waiting[Any], now_s: float) -> None:
        try:
            found = self._refresher.learn(answer, all_topics=all_topics)
        except Exception as error:
            learnt.settle(None, ProtocolError(f"an answer with metadata cannot be used: {error!r}"))
            raise
        learnt.settle(found)

    # -- the thread's

    def turn(self, now_s: float) -> float:
        if self._is_busy:
            return math.inf
        due_s = max(self._refresher.due_s(), self._not_before_s)
        if due_s > now_s:
            return due_s
        connection = self._connection
        if connection is not None and connection.stage is Stage.READY:
            self._ask(connection, now_s)
        else:
            self._open()
        return max(now_s, self._not_before_s)

    def end(self, error: LogstoreError) -> None:
        self._is_busy = True

    def _open(self) -> None:
        """Open a connection to the next broker that is worth a try."""
        if self._connection is not None:
            self._connection.fail(BrokerUnreachableError("another broker is asked for metadata"))
            self._connection = None
        if not self._candidates:
            self._candidates = self._bootstrap.candidates(self.known.brokers)
        node, address = self._candidates.pop(0)
        self._is_busy = True
        self._connection = self._thread.open_soon(address, node=node, then=self._opened)

    def _opened(self, found: Waiting[None]) -> None:
        self._is_busy = False
        if found.error is None:
            self._candidates = []
            return
        connection, self._connection = self._connection, None
        assert connection is not None
        self.problem = found.error
        if isinstance(found.error, AuthenticationError):
            # The others would refuse it too, and count one more failure.
            self.refused = found.error
            self._candidates = []
        self._bootstrap.failed(connection.node)
        if not self._candidates:
            self._pause(found.error)

    def _ask(self, connection: NodeConnection, now_s: float) -> None:
        try:
            version = version_for(MetadataRequest, connection.versions, connection)
        except LogstoreError as error:
            self._bootstrap.failed(connection.node)
            connection.fail(error)
            self._pause(error)
            return
        request = self._refresher.next_request(version)
        number = connection.next_number()
        frame = encode_request(request, version, number, self._config.client_id)
        self._is_busy = True
        limit_s = self._config.request_timeout_ms / 1000
        call = Call(frame, MetadataRequest.API_KEY, version, number, limit_s, self._answered)
        connection.put(call, now_s)

    def _answered(self, call: Call) -> None:
        self._is_busy = False
        connection = self._connection
        error, answer = None, None
        try:
            answer = answer_of(call)
        except LogstoreError as problem:
            error = problem
        code = getattr(answer, "error_code", 0)
        if answer is None or code:
            self._refresher.failed()
            self.problem = error or codes.error_of(code, "metadata")
            if connection is not None:
                self._bootstrap.failed(connection.node)
                connection.fail(error or codes.error_of(code, f"metadata from {connection}"))
                self._connection = None
            if code == codes.REBOOTSTRAP_REQUIRED:
                self._bootstrap.begin_again()
            return
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0 and connection is not None:
            connection.throttle(throttle_ms)
        self._refresher.took(answer)
        self._bootstrap.answered()
        self._failures = 0
        self.refused = self.problem = None

    def _pause(self, error: LogstoreError) -> None:
        if not self._failures and not isinstance(error, ClientClosedError):
            _logger.warning("no broker answers, they are asked again: %s", error)
        config = self._config
        pause_ms = retry_pause_ms(self._failures, config.retry_backoff_ms, config.retry_backoff_max_ms, self._rng)
        self._failures += 1
        self._not_before_s = SYSTEM_CLOCK.monotonic_s() + pause_ms / 1000
