"""Fixtures for pytest, there as soon as logstore is installed; nothing else of it is imported before one is used.

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

# The suites that embedders subclass are tests: their asserts say what they have found.
pytest.register_assert_rewrite("logstore.testing.conformance")


@pytest.fixture
def logstore_clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    from logstore.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def logstore_disk() -> SimDisk:
    """A disk in memory whose power can be cut."""
    from logstore.testing.simdisk import SimDisk

    return SimDisk()


@pytest.fixture
def logstore_store(logstore_clock: ManualClock, logstore_disk: SimDisk) -> Iterator[Store]:
    """An empty store in memory, on ``logstore_disk`` and ``logstore_clock``, closed after the test."""
    from logstore.testing.stores import temporary_store

    with temporary_store(files=logstore_disk, clock=logstore_clock) as store:
        yield store
