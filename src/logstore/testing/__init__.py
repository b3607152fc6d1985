"""Test tools for programs that use logstore: fakes that replace the disk and the clock.

Start with `temporary_store`, a store in memory on a clock that stands still. `SimDisk` and `FaultyFiles` replace
the machine's files, `ManualClock` its clock. `logstore.testing.strategies` (needs hypothesis) generates records,
batches, names and settings. `logstore.testing.conformance` (needs pytest) has test suites for your own
implementations of logstore's interfaces. `logstore.testing.plugin` provides fixtures for pytest.

No other part of logstore imports this package.
"""

from typing import TYPE_CHECKING, Any

from logstore.testing.clock import ManualClock

if TYPE_CHECKING:
    from logstore.testing._faults import FaultyFiles
    from logstore.testing.simdisk import SimDisk
    from logstore.testing.stores import after_power_cut, temporary_store

# Imported on first use, since some modules import the whole store.
_HOMES = {
    "FaultyFiles": "logstore.testing._faults",
    "SimDisk": "logstore.testing.simdisk",
    "after_power_cut": "logstore.testing.stores",
    "temporary_store": "logstore.testing.stores",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FaultyFiles", "ManualClock", "SimDisk", "after_power_cut", "temporary_store"]
