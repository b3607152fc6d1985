"""Fixtures for pytest, available in every test once logstore is installed.

A test run that uses none of them imports no store and no disk: each fixture imports what it needs.

- ``logstore_clock``: a `ManualClock`;
- ``logstore_disk``: a `SimDisk`;
- ``logstore_store``: a `temporary_store` on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from logstore.store.store import Store
    from logstore.testing.clock import ManualClock
    from logstore.testing.simdisk import SimDisk

# Without this call, a failing assert in a conformance suite would not show its values.
pytest.register_assert_rewrite("logstore.testing.conformance")


@pytest.fixture
def logstore_clock() -> ManualClock:
    """Return a clock that stands still until the test moves it."""
    from logstore.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def logstore_disk() -> SimDisk:
    """Return a disk in memory that simulates power cuts."""
    from logstore.testing.simdisk import SimDisk

    return SimDisk()


@pytest.fixture
def logstore_store(logstore_clock: ManualClock, logstore_disk: SimDisk) -> Iterator[Store]:
    """Yield an empty store in memory, on ``logstore_disk`` and ``logstore_clock``, closed after the test."""
    from logstore.testing.stores import temporary_store

    with temporary_store(files=logstore_disk, clock=logstore_clock) as store:
        yield store
