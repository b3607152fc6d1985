from typing_extensions import Buffer

def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C of ``data``, bytes or any contiguous buffer."""

def implementation() -> str:
    """Name of the way that `crc32c` sums on this machine."""

def implementations() -> tuple[str, ...]:
    """Names of all ways that this machine can sum, fastest first; ``"table"`` is always last."""

def crc32c_with(implementation: str, data: Buffer, value: int = 0) -> int:
    """`crc32c` by the way of that name, so that tests and benchmarks reach each one."""
