"""What embedders may use in their own tests: fakes that the library takes in the place of the real thing.

Outermost: nothing in logstore imports it.
"""

from typing import TYPE_CHECKING, Any

from logstore.testing.clock import ManualClock

if TYPE_CHECKING:
    from logstore.testing.simdisk import SimDisk


def __getattr__(name: str) -> Any:
    # Its compiled parts are loaded for those who ask.
    if name == "SimDisk":
        from logstore.testing.simdisk import SimDisk

        return SimDisk
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ManualClock", "SimDisk"]
