"""The simulated network: it loses, repeats, delays and reorders messages, and cuts links in one direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from logstore.testing.cluster.world import World

#: Delivers a request; the second argument sends the answer back.
Deliver = Callable[[Any, Callable[[Any], None]], None]


class Weather(NamedTuple):
    """How bad the network is."""

    delay_ms: tuple[int, int] = (1, 3)
    slow: float = 0.0  #: part of the messages that take up to half a second
    loss: float = 0.0
    repeat: float = 0.0


class SimNetwork:
    """Carries requests between addresses; the rules of a transport hold, and no others."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.weather = Weather()
        self._cut: set[tuple[int, int]] = set()

    def cut(self, source: int, target: int) -> None:
        """Let nothing through from one address to another; the other direction stays open."""
        self._cut.add((source, target))

    def isolate(self, address: int, others: list[int]) -> None:
        for other in others:
            if other != address:
                self.cut(address, other)
                self.cut(other, address)

    def heal(self) -> None:
        """Open every link, and let the weather be fine."""
        self._cut.clear()
        self.weather = Weather()

    def call(
        self, source: int, target: int, request: Any, deliver: Deliver, answered: Callable[[Any], None]
    ) -> None:
        """Carry a request and its answer; each may arrive late, twice or never."""

        def answer(value: Any) -> None:
            self._carry(target, source, lambda: answered(value))

        self._carry(source, target, lambda: deliver(request, answer))

    def _carry(self, source: int, target: int, arrive: Callable[[], None]) -> None:
        world, weather = self._world, self.weather
        if (source, target) in self._cut:
            return
        for _ in range(2 if world.chance(weather.repeat) else 1):
            if world.chance(weather.loss):
                continue
            delay = world.between(*weather.delay_ms)
            if world.chance(weather.slow):
                delay += world.between(0, 500)
            world.after(delay, arrive)
