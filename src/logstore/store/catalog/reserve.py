"""Disk space that a store reserves for its own small files: a file of random bytes, truncated on a full disk.

Records fill a disk; small writes help to empty it: an offset that a group commits, the catalogue without a topic.
The first commit creates a topic, and a producer's ids need a new version of the catalogue. Both need space at a
time when there may be none. The file takes it when the store opens. Its end is truncated where one of these finds
the disk, or a quota, full, and it is filled again once there is space. It stays when the store is closed, for the
next open may come on a full disk.

Released space is free for all until it is written: another writer that finds it first has it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from logstore.errors import DiskFullError, StorageError
from logstore.io._interrupts import held
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.space_quota import SpaceQuota
from logstore.store.catalog.topic_list import CATALOGUE

_logger = logging.getLogger(__name__)

RESERVE: Final = files.OURS + "reserve"

#: Space for a topic with its first log, in blocks of 4 KiB, and some thousand commits.
RESERVE_BYTES: Final = 128 << 10
#: Bytes that are released for a topic or a version of the catalogue; and for an append.
TOPIC_BYTES: Final = 48 << 10
APPEND_BYTES: Final = 8 << 10

T = TypeVar("T")


class Reserve:
    """The reserve of one store. Any thread of any process: its size is stored in the file alone."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Fill the reserve to its size, as far as there is space."""
        with held(self._lock):
            try:
                with contextlib.closing(self._root.open(CATALOGUE)) as catalogue:
                    # A catalogue is written whole, beside the one before it.
                    wanted = RESERVE_BYTES + catalogue.size()
                with contextlib.closing(self._root.open(RESERVE, create=True, writable=True, hint=True)) as file:
                    size = file.size()
                    if size < wanted:
                        # Random bytes: a file system could store others in less space.
                        file.write(os.urandom(wanted - size), size)
            except StorageError as error:
                # The store works without a reserve, until the disk is full.
                _logger.debug("no room for the reserve: root=%s error=%s", self._root.path, error)

    def release(self, size: int) -> bool:
        """Release ``size`` bytes; False if there is nothing left."""
        with held(self._lock):
            try:
                with contextlib.closing(self._root.open(RESERVE, writable=True, hint=True)) as file:
                    had = file.size()
                    if had:
                        file.truncate(max(had - size, 0))
                    return had > 0
            except StorageError as error:
                # The file may have been deleted by hand. The next `fill` makes it again.
                _logger.debug("the reserve could not be given up: root=%s error=%s", self._root.path, error)
                return False

    def with_space(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``; retry it from scratch while the disk is full and space can be released.

        Raises:
            DiskFullError: there is no space, and no reserve any more. The error is that of ``work``.
        """
        while True:
            try:
                return work()
            except DiskFullError:
                if not self.release(TOPIC_BYTES):
                    raise


class ReserveGate(SpaceQuota):
    """The quota of a log of the store's own."""

    def __init__(self, quota: SpaceQuota, reserve: Reserve) -> None:
        self._quota = quota
        self._reserve = reserve

    def reserve(self, needed: int) -> int:
        return self._quota.reserve(needed)

    def reclaim(self, needed: int) -> bool:
        return self._reserve.release(needed + APPEND_BYTES) or self._quota.reclaim(needed)
