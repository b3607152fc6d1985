from typing_extensions import Buffer

def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of ``data``, bytes or any contiguous buffer."""

def implementation() -> str:
    """Return the name of the implementation that `crc32c` uses on this machine."""

def implementations() -> tuple[str, ...]:
    """Return the names of all implementations on this machine, fastest first; ``"table"`` is always last."""

def crc32c_with(implementation: str, data: Buffer, value: int = 0) -> int:
    """Compute `crc32c` with the implementation of that name, for tests and benchmarks."""
