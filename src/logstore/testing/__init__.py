"""Test tools for embedders: fakes that replace the disk and the clock.

Start with `temporary_store`, a store in memory on a clock that stands still. `SimDisk` and `FaultyFiles` replace
the machine's files, `ManualClock` its clock. `logstore.testing.strategies` (needs hypothesis) generates records,
batches, names and settings. `logstore.testing.conformance` (needs pytest) has a test suite for each
interface that an embedder can implement. `logstore.testing.plugin` provides fixtures for pytest.

No other module of logstore imports this package.
"""

from typing import TYPE_CHECKING, Any

from logstore.testing.clock import ManualClock

if TYPE_CHECKING:
    from logstore.testing._faults import FaultyFiles
    from logstore.testing.simdisk import SimDisk
    from logstore.testing.stores import after_power_cut, temporary_store

# Imported on use: some parts are compiled, some import the store.
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
