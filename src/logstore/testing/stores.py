"""Stores for a single test: in memory, on a clock that stands still, with simulated power cuts.

With the defaults no call waits, no file is left on the machine, and the same seed repeats all random choices.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Unpack

from logstore.io._files import LIBC
from logstore.store.store import open_store
from logstore.testing.clock import ManualClock
from logstore.testing.simdisk import SimDisk

if TYPE_CHECKING:
    import os

    from logstore.clock import Clock
    from logstore.config.generated.keywords import StoreSettings
    from logstore.config.log import Setting
    from logstore.config.store import StoreConfig
    from logstore.io._files import Files
    from logstore.store.store import Store

#: Path of a store in memory; the machine's disk is not used.
PATH = "/store"


@contextmanager
def temporary_store(
    settings: Mapping[str, Setting] | StoreConfig | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    files: Files | None = None,
    clock: Clock | None = None,
    seed: int = 0,
    **more_settings: Unpack[StoreSettings],
) -> Iterator[Store]:
    """Open a store for one test and close it at the end; ``LOGSTORE_…`` environment variables are ignored.

    The store is in memory, on a `SimDisk` with ``seed``. With ``path`` it is in that directory of the machine,
    such as pytest's ``tmp_path``, which is not deleted. ``files`` is another table of file operations, such as a
    `FaultyFiles` or the disk that `SimDisk.crash` returned. Without ``clock`` it has a `ManualClock`: time passes
    only when the test moves it, and maintenance runs only when the test calls ``store.housekeep()``. Settings are
    those of `logstore.open`.

    Raises:
        as `logstore.open`. An error of the test is raised after the store is closed.

    >>> from logstore.testing import ManualClock, temporary_store
    >>> clock = ManualClock()
    >>> with temporary_store(num_partitions=2, clock=clock) as store:
    ...     flights = store.create_topic("flights")
    ...     at = flights.append(b"AA 1141", key=b"AA", ack="synced")
    ...     clock.advance(1_000)
    ...     later = flights.append(b"AA 1142", key=b"AA")
    ...     later.offset - at.offset, later.timestamp_ms - at.timestamp_ms
    (1, 1000)
    """
    if files is None:
        files = SimDisk(seed) if path is None else LIBC
    store = open_store(
        PATH if path is None else path,
        settings,
        clock=ManualClock() if clock is None else clock,
        files=files,
        rng=random.Random(seed),
        environ={},
        read_only=False,
        create=True,
        wait_s=0,
        **more_settings,
    )
    with store:
        yield store


@contextmanager
def after_power_cut(
    store: Store, policy: str = "none", *, seed: int | None = None, clock: Clock | None = None
) -> Iterator[Store]:
    """Open the store as found after a power cut at this moment; ``store`` is not affected.

    ``policy`` selects the unsynced changes that are kept; see `SimDisk.crash`. The new store has the settings of
    ``store``, and its clock unless another is given.

    Raises:
        ValueError: the store is not on a `SimDisk`.

    >>> from logstore.testing import after_power_cut, temporary_store
    >>> with temporary_store() as store:
    ...     flights = store.create_topic("flights")
    ...     safe = flights.append(b"AA 1141", ack="synced")
    ...     lost = flights.append(b"UA 1545")
    ...     with after_power_cut(store) as found:
    ...         [record.value for record in found.topic("flights").scan()]
    [b'AA 1141']
    """
    host = store._host
    disk = host.files
    if not isinstance(disk, SimDisk):
        raise ValueError(
            f"the disk of the store is {disk!r}, and only a SimDisk loses power; use temporary_store()"
        )
    after = disk.crash(policy, seed=seed)
    with open_store(
        host.path, host.config, clock=clock or host.clock, files=after, rng=host.rng, environ={}
    ) as found:
        yield found
