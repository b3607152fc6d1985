"""Changes to bytes that a parser may meet: flips, cuts, splices, numbers at their edges, varints.

A `Mutator` draws everything from one generator that it is given, so a seed reproduces every input.
It knows bytes, numbers and varints; what a field means is known to the targets.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

#: Where parsers go wrong: around nothing, around the ends of each width, and sizes of our own formats.
EDGES = (
    *(0, 1, -1, 2, -2, 3, 7, 8, 12, 16, 48, 49, 60, 61, 62, 64, 100, 127, 128, 255, 256, 1000, 4096),
    *(2**15 - 1, 2**15, 2**16 - 1, 2**16, 2**20, 2**24, 2**28, 2**31 - 62, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1),
    *(-(2**15), -(2**31), -(2**31) + 1, 2**32, 2**33, 2**40, 2**56, 2**61, 2**62, 2**63 - 2**31, 2**63 - 2),
    *(2**63 - 1, 2**63, 2**64 - 1, -(2**62), -(2**63), -(2**63) + 1),
)
MOST_BYTES = 8_192


def encode_varint(value: int) -> bytes:
    """Zigzag varint of a number of up to 64 bits."""
    rest = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def varint_end(data: bytes | bytearray, start: int) -> int:
    """Where the varint that starts here ends; the end of the data cuts it."""
    end = start
    while end < len(data) and data[end] & 0x80:
        end += 1
    return min(end + 1, len(data))


class Mutator:
    """Random changes, all drawn from one generator."""

    __slots__ = ("_random", "bits")

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random
        self.bits = rng.getrandbits

    def chance(self, share: float) -> bool:
        return self._random() < share

    def below(self, count: int) -> int:
        """A number of [0, count)."""
        return int(self._random() * count)

    def number(self, near: int = 0) -> int:
        """A number as hostile writers would choose it: an edge, one close by, or anything."""
        kind = int(self._random() * 8)
        if kind < 4:
            return EDGES[int(self._random() * len(EDGES))]
        if kind < 6:
            return near + int(self._random() * 9) - 4
        if kind == 6:
            return int(self._random() * 300)
        return self.bits(1 + int(self._random() * 64))

    def set_number(self, data: bytearray, at: int, size: int, order: str = "big") -> None:
        """Replace a number of a known width."""
        near = int.from_bytes(data[at : at + size], order)  # type: ignore[arg-type]
        value = self.number(near) & ((1 << 8 * size) - 1)
        data[at : at + size] = value.to_bytes(size, order)  # type: ignore[arg-type]

    def set_varint(self, data: bytearray, at: int) -> None:
        """Replace the varint at a place, mostly by another, at times by what is none."""
        kind = int(self._random() * 10)
        if kind == 0:
            new = b"\xff" * (1 + int(self._random() * 11))
        elif kind == 1:
            new = encode_varint(self.number())[:-1] + b"\x80\x00"
        elif kind < 5:
            new = encode_varint(int(self._random() * 40) - 4)
        else:
            new = encode_varint(self.number())
        data[at : varint_end(data, at)] = new

    def change(self, data: bytearray, others: Sequence[bytes] = (), start: int = 0) -> None:
        """One change somewhere behind ``start``."""
        rand = self._random
        size = len(data) - start
        kind = int(rand() * 12)
        if size <= 0:
            data += self.bits(64).to_bytes(8, "big")
            return
        at = start + int(rand() * size)
        if kind < 3:
            data[at] ^= 1 << int(rand() * 8)
        elif kind < 5:
            data[at] = EDGES[int(rand() * len(EDGES))] & 0xFF
        elif kind == 5:
            width = 1 << int(rand() * 4)
            at = min(at, max(len(data) - width, start))
            self.set_number(data, at, min(width, len(data) - at), "big" if rand() < 0.7 else "little")
        elif kind == 6:
            self.set_varint(data, at)
        elif kind == 7:
            del data[at : at + 1 + int(rand() * 16)]
        elif kind == 8:
            if rand() < 0.3:
                del data[at:]
            else:
                del data[at : at + int(rand() * size)]
        elif kind == 9:
            data[at:at] = self.bits(64).to_bytes(8, "big")[: 1 + int(rand() * 8)]
        elif kind == 10:
            part = data[at : at + 1 + int(rand() * 64)]
            if len(data) < MOST_BYTES:
                data[at:at] = part * (1 + int(rand() * 4))
        elif others and len(data) < MOST_BYTES:
            other = others[int(rand() * len(others))]
            cut = int(rand() * (len(other) + 1))
            data[at:] = other[cut : cut + 1 + int(rand() * 512)]
        else:
            data[at] = self.bits(8)

    def changes(self, data: bytearray, others: Sequence[bytes] = (), start: int = 0) -> None:
        """One to four changes."""
        self.change(data, others, start)
        while self._random() < 0.4:
            self.change(data, others, start)
