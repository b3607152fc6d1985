"""Simulated disk in memory, `SimDisk`, for tests of power cuts.

It replaces the machine's files under a log, and needs no root.
Readers see all writes, but only synced writes are sure to survive `SimDisk.crash`. A sync of a file covers its
bytes and its size; a sync of a directory covers its names. `_disk` (compiled) holds the synced state and decides
what a power cut keeps. `_simdisk` (compiled) is the table of file operations over it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from logstore.errors import StorageError
from logstore.io._files import errno_of
from logstore.testing._disk import Chance
from logstore.testing._simdisk import SimFiles

#: Policies of `SimDisk.crash`.
POLICIES = ("none", "all", "prefix", "torn", "lost", "zeroed", "reordered")


class SimDisk(SimFiles):
    """A disk in memory, passed to `Log.open(path, files=...)`; any absolute path works.

    ``seed`` determines all random choices. With ``capacity`` (bytes) the disk can be full: the write that fills it
    is short, the next one fails with ENOSPC. Writes succeed again once there is space. The methods of
    `FaultyFiles` make operations fail. A sync that fails here loses the file's unsynced bytes for good: readers
    still see them, but no later sync writes them. After ``disk.rereads = True`` readers see the bytes on the disk
    instead, once the file was closed and opened again.

    Two disks are independent: the same path may be open on both.

    >>> from logstore import Log
    >>> disk = SimDisk(seed=1)
    >>> log = Log.open("/data/flights-0", files=disk)
    >>> log.append([b"AA 1141"], ack="synced").last_offset, log.append([b"UA 1545"]).last_offset
    (0, 1)
    >>> with Log.open("/data/flights-0", files=disk.crash("none")) as after:
    ...     [record.value for record in after.scan()]
    [b'AA 1141']
    >>> log.close()
    """

    def __new__(cls, seed: int = 0, *, capacity: int | None = None, descriptor_limit: int | None = None) -> SimDisk:
        disk = super().__new__(cls, descriptor_limit=descriptor_limit)
        assert isinstance(disk, SimDisk)
        disk._chance = Chance(seed)
        disk.capacity = capacity
        return disk

    def crash(
        self, policy: str = "none", *, seed: int | None = None, keep: int | None = None, page_bytes: int = 4096
    ) -> SimDisk:
        """Return the disk as found after a power cut at this moment; this disk is not affected.

        Everything synced is kept. ``policy`` selects which of the later changes are kept:

        - ``none`` or ``all`` of them;
        - ``prefix``: the first ``keep`` changes (a random number if not given);
        - ``torn``: as ``prefix``, and a part of the next write, which ends at any byte or at a sector of 512;
        - ``lost``: a random part of the changes;
        - ``zeroed``: as ``lost``, but a file has grown by its lost writes, too, and reads zeros there;
        - ``reordered``: random pages of ``page_bytes`` of each write.

        With ``lost``, ``zeroed`` and ``reordered``, each directory keeps its oldest changes of names, a random
        number of them.

        The same ``seed`` repeats the random choices; without it each call makes others. The returned disk has no
        ``capacity`` and no planned faults.
        """
        if policy not in POLICIES:
            raise ValueError(f"policy= is one of {', '.join(POLICIES)}, found {policy!r}")
        if page_bytes < 1:
            raise ValueError(f"page_bytes: expected at least 1, found {page_bytes}")
        after = SimDisk()
        chance = Chance(self._chance.draw() if seed is None else seed)
        after._disk = self._disk.after_cut(policy, -1 if keep is None else keep, page_bytes, chance)
        return after

    def kill(self) -> SimDisk:
        """Return the disk as another process finds it after this process was killed.

        All changes are there, and the unsynced ones are still unsynced.
        """
        found = SimDisk()
        found._disk = self._disk.copied()
        found.capacity, found.rereads = self.capacity, self.rereads
        return found

    def moments(self, start: int = 0) -> Iterator[SimDisk]:
        """Yield a copy of the disk for each moment since `keep_moments`, from number ``start`` on.

        A moment is the state after an operation that changed or synced something.
        """
        for number in range(start, self.moment_count):
            moment = SimDisk(number)
            moment._disk = self._moments[number].copied()
            yield moment

    def image(self, path: str = "/") -> dict[str, bytes]:
        """Return the bytes of every file below a directory: path -> bytes."""
        found: dict[str, bytes] = {}
        for name in sorted(self.listdir(path)):
            below = f"{path.rstrip('/')}/{name}"
            try:
                found.update(self.image(below))
            except StorageError as error:
                if errno_of(error) != errno.ENOTDIR:
                    raise
                with self.open(below) as file:
                    found[below] = file.read(0, file.size())
        return found


__all__ = ["POLICIES", "SimDisk"]
