"""The simulated way to a registry: late answers, lost answers to commits that took place, expiry, an outage.

The registry itself is one that is tested: `LocalRegistry`, or an embedder's. Its calls are made at one moment of
virtual time, between the request and its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from logstore.errors import RegistryUnreachableError
from logstore.replication.api import Registry
from logstore.testing.cluster.world import World

_Answer = TypeVar("_Answer")


class SimSession:
    """One session of a node, seen through a network. Its owner renews it; unheard of, it expires."""

    def __init__(self, world: World, registry: Registry, timeout_ms: int) -> None:
        self._world = world
        self.registry = registry
        self._timeout_ms = timeout_ms
        self._heard_ms = world.now_ms
        self._check_expiry()

    @property
    def is_alive(self) -> bool:
        return self.registry.is_alive

    def renew(self) -> None:
        """Tell the registry that the node is there."""
        self._heard_ms = self._world.now_ms

    def end(self) -> None:
        self.registry.close()

    def _check_expiry(self) -> None:
        if not self.registry.is_alive:
            return
        if self._world.now_ms - self._heard_ms >= self._timeout_ms:
            self._world.note("expired")
            self.registry.close()
            return
        self._world.after(self._timeout_ms // 4, self._check_expiry)


class RegistryLink:
    """The way of every node to the registry."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_down = False
        self.lost_answers = 0.0  #: part of the calls that take place and whose answer is lost
        self.delay_ms = (1, 3)

    def call(
        self,
        work: Callable[[], _Answer],
        done: Callable[[_Answer | None, Exception | None], None],
    ) -> None:
        """Do some work at the registry a moment later, and hand over its result or its error after another one."""
        world = self._world

        def at_the_registry() -> None:
            result: Any = None
            failed: Exception | None = None
            if self.is_down:
                failed = RegistryUnreachableError("the registry is down")
            else:
                try:
                    result = work()
                except AssertionError:
                    raise  # the ledger's verdict on the state that was stored
                except Exception as error:  # noqa: BLE001  handed to the caller, as from a network
                    failed = error
                if world.chance(self.lost_answers):
                    result, failed = None, RegistryUnreachableError("the answer was lost")
            world.after(world.between(*self.delay_ms), lambda: done(result, failed))

        world.after(world.between(*self.delay_ms), at_the_registry)
