"""The records of every benchmark: deterministic, JSON-like, each exactly as long as asked."""

from __future__ import annotations

import functools
import random

_TEXT = (
    "order cart checkout session latency gateway payment invoice refund shipment warehouse customer product "
    "catalog search click view purchase timeout retry success failure pending approved rejected region asia"
)
_WORDS = _TEXT.split()


def _one(rng: random.Random, number: int, size: int) -> bytes:
    text = f'{{"id":{number},"user":"u{rng.randrange(1_000_000):06d}","v":{rng.random() * 1000:.4f},"text":"'
    while len(text) < size - 2:
        text += (rng.choice(_WORDS) if rng.random() < 0.8 else f"{rng.getrandbits(40):x}") + " "
    return f'{text[: size - 2]}"}}'.encode()


@functools.cache
def values(size: int, count: int) -> list[bytes]:
    """``count`` values of ``size`` bytes."""
    rng = random.Random(7)
    made = [_one(rng, number, size) for number in range(count)]
    assert all(len(value) == size for value in made)
    return made


def groups(size: int, per_group: int, count: int) -> list[list[bytes]]:
    """``count`` lists of ``per_group`` values each; the same values come again after 20,000."""
    stock = values(size, max(20_000 // per_group, 1) * per_group)
    made = [stock[start : start + per_group] for start in range(0, len(stock), per_group)]
    return [made[n % len(made)] for n in range(count)]
