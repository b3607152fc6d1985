"""Brokers to ask for metadata: those that are known, or again the bootstrap servers (KIP-899).

A client whose known brokers are all out of reach, or that has had no metadata for a limited time, begins again with
``bootstrap.servers``. Their names are resolved each time: the cluster may have moved to other addresses.
Resolving is the caller's function. No socket; one thread calls it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from logstore.clock import Clock
from logstore.config.remote import Address
from logstore.errors import BrokerUnreachableError
from logstore.remote.metadata.known import KnownBroker

#: Kafka's default of metadata.recovery.rebootstrap.trigger.ms.
REBOOTSTRAP_MS = 300_000

#: The number of a broker that is known by its bootstrap address only.
BOOTSTRAP_NODE = -1


class BootstrapServers:
    """The addresses that a client begins with, and when it begins again with them.

    ``resolve`` returns every address of a name and port, or raises OSError.
    """

    def __init__(
        self,
        servers: list[Address],
        clock: Clock,
        resolve: Callable[[Address], list[Address]],
        *,
        rebootstrap_ms: int = REBOOTSTRAP_MS,
        rng: random.Random | None = None,
    ) -> None:
        self._servers = servers
        self._clock = clock
        self._resolve = resolve
        self._rebootstrap_ms = rebootstrap_ms
        self._rng = rng or random.Random()
        self._unreachable: set[int] = set()
        self._lacking_since_s: float | None = None  #: since when no request for metadata was answered
        self._is_told = False

    def failed(self, node: int) -> None:
        """Take note that a broker could not be asked for metadata, or gave no answer."""
        if node != BOOTSTRAP_NODE:
            self._unreachable.add(node)
        if self._lacking_since_s is None:
            self._lacking_since_s = self._clock.monotonic_s()

    def answered(self) -> None:
        """Take note of metadata from any broker."""
        self._unreachable.clear()
        self._lacking_since_s = None
        self._is_told = False

    def begin_again(self) -> None:
        """Use the bootstrap servers next: a broker has answered REBOOTSTRAP_REQUIRED."""
        self._is_told = True

    def must_begin_again(self, known: Mapping[int, KnownBroker]) -> bool:
        """Return whether the known brokers are of no more use."""
        if self._is_told or known.keys() <= self._unreachable:
            return True
        since_s = self._lacking_since_s
        return since_s is not None and (self._clock.monotonic_s() - since_s) * 1000 >= self._rebootstrap_ms

    def candidates(self, known: Mapping[int, KnownBroker]) -> list[tuple[int, Address]]:
        """Return number and address of the brokers to ask, in the order to try them.

        Raises:
            BrokerUnreachableError: no name of the bootstrap servers can be resolved; each is named.
        """
        if not self.must_begin_again(known):
            found = [(node, each.address) for node, each in known.items() if node not in self._unreachable]
            self._rng.shuffle(found)
            return found
        addresses: list[Address] = []
        problems = []
        for host, port in self._servers:
            try:
                addresses += self._resolve((host, port))
            except OSError as error:
                problems.append(f"{host}:{port} ({error.strerror or error})")
        if not addresses:
            raise BrokerUnreachableError(
                f"bootstrap.servers: no name can be resolved: {', '.join(problems)}; check the names"
            )
        return [(BOOTSTRAP_NODE, each) for each in dict.fromkeys(addresses)]
