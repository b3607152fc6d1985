"""A directory in memory, for tests of what is written where."""

from __future__ import annotations

from collections.abc import Collection


class MemoryDirectory:
    """Keeps names and bytes, and the calls in their order."""

    def __init__(self, path: str = "/memory") -> None:
        self.path = path
        self.files: dict[str, bytes] = {}
        self.calls: list[tuple[str, ...]] = []

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str, names: Collection[str] | None = None) -> bytes | None:
        return self.files.get(name) if names is None or name in names else None

    def replace(self, name: str, data: bytes, *, durable: bool, whole: bool = False) -> None:
        self.calls.append(("replace", name, "durable" if durable else "cached"))
        self.files[name] = data

    def remove(self, name: str) -> bool:
        self.calls.append(("remove", name))
        return self.files.pop(name, None) is not None

    def sync(self) -> None:
        self.calls.append(("sync",))


def cuts(data: bytes):
    """Every proper prefix."""
    return (data[:end] for end in range(len(data)))


def flips(data: bytes):
    """Every copy with one bit changed."""
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            yield bytes(damaged)
