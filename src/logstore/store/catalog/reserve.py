"""Room on the disk that a store keeps for its own notes: a file of noise, given up bit by bit on a full disk.

A disk is filled by records, and is emptied again with the help of what is small: an offset that a group commits,
the catalogue without a topic. The first commit makes a topic, and a producer's ids a new form of the catalogue,
so both need room at a time when there may be none. The file takes it when the store opens; its end is cut off
where one of these finds the disk, or a quota, full, and it is filled again once there is room. It stays when the
store is closed, for the next open may come on a full disk.

What is given up is anybody's until it is written: another writer that finds it first has it.
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

#: A topic with its first log, in blocks of 4 KiB, and some thousand commits.
RESERVE_BYTES: Final = 128 << 10
#: What a topic, or a form of the catalogue, is given; and what an append is.
TOPIC_BYTES: Final = 48 << 10
APPEND_BYTES: Final = 8 << 10

T = TypeVar("T")


class Reserve:
    """The reserve of one store. Any thread of any process: how much there is only the file says."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Take what is missing, as far as there is room."""
        with held(self._lock):
            try:
                with contextlib.closing(self._root.open(CATALOGUE)) as catalogue:
                    # It is written whole, beside the one before it.
                    wanted = RESERVE_BYTES + catalogue.size()
                with contextlib.closing(self._root.open(RESERVE, create=True, writable=True, hint=True)) as file:
                    size = file.size()
                    if size < wanted:
                        # Of nothing that a file system could store in less.
                        file.write(os.urandom(wanted - size), size)
            except StorageError as error:
                # The store works without it, until the disk is full.
                _logger.debug("no room for the reserve: root=%s error=%s", self._root.path, error)

    def release(self, size: int) -> bool:
        """Give up so much; False if there is nothing left."""
        with held(self._lock):
            try:
                with contextlib.closing(self._root.open(RESERVE, writable=True, hint=True)) as file:
                    had = file.size()
                    if had:
                        file.truncate(max(had - size, 0))
                    return had > 0
            except StorageError as error:
                # Deleted by hand, for one. The next `fill` makes it again.
                _logger.debug("the reserve could not be given up: root=%s error=%s", self._root.path, error)
                return False

    def with_room(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, done again from scratch while the disk is full and something can be given up.

        Raises:
            DiskFullError: there is no room, and no reserve any more. What ``work`` says of it holds.
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


__all__ = ["RESERVE", "RESERVE_BYTES", "Reserve", "ReserveGate"]
