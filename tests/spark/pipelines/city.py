"""A made-up city: requests and drivers by cell, and the prices of their windows, computed without Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from logstore.spark.pipelines.surge import DRIVERS, REQUESTS

START_MS = 1_700_000_000_000  #: begins a window of every length that divides 100 s


class Sign(NamedTuple):
    """A request, or a driver's sign of life."""

    at_ms: int
    cell: str
    driver: str | None

    @property
    def topic(self) -> str:
        return REQUESTS if self.driver is None else DRIVERS

    @property
    def key(self) -> bytes:
        return (self.driver or self.cell).encode()

    @property
    def value(self) -> bytes:
        return json.dumps({"cell": self.cell, **({"driver": self.driver} if self.driver else {})}).encode()


class Price(NamedTuple):
    demand: int
    supply: int
    price: float


def signs(seed: int, seconds: int, cells: int = 3) -> list[Sign]:
    """Drivers report every ten seconds and sometimes move; requests come in bursts. In the order of their time."""
    chooser = random.Random(seed)
    found = []
    for number in range(cells * 3):
        cell = number % cells
        for second in range(number % 10, seconds, 10):
            if chooser.random() < 0.2:
                cell = chooser.randrange(cells)
            found.append(Sign(START_MS + second * 1000 + chooser.randrange(1000), f"c{cell}", f"d{number}"))
    for cell in range(cells):
        for second in range(seconds):
            for _ in range(chooser.choice((0, 0, 0, 1)) if second % 90 < 60 else chooser.choice((0, 1, 3))):
                found.append(Sign(START_MS + second * 1000 + chooser.randrange(1000), f"c{cell}", None))
    return sorted(found, key=lambda sign: sign.at_ms)


def prices(signs: Sequence[Sign], window_s: int, slide_s: int, cap: float) -> dict[tuple[str, int], Price]:
    """(cell, end of a window in ms) -> its price, of the windows in whose last ``slide_s`` something happened."""
    found = {}
    for sign in signs:
        end = (sign.at_ms // (slide_s * 1000) + 1) * slide_s * 1000
        inside = [s for s in signs if s.cell == sign.cell and end - window_s * 1000 <= s.at_ms < end]
        demand = sum(s.driver is None for s in inside)
        supply = len({s.driver for s in inside if s.driver is not None})
        price = Decimal(repr(min(max(demand / max(supply, 1), 1.0), cap)))  # rounded as merchants do
        found[sign.cell, end] = Price(demand, supply, float(price.quantize(Decimal("0.01"), ROUND_HALF_UP)))
    return found
