"""The leader epochs of an open log, and the file that has them: Kafka's ``leader-epoch-checkpoint``.

`EpochFile` owns the table and knows whether the file has all of it. The file is written after the batches of a new
epoch, without the log's lock, or with it by a change of the whole log. Until it is saved, no recovery point rises:
an epoch that is in no file is found only by a scan.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from logstore.errors import LogstoreError, StorageError
from logstore.io._interrupts import held
from logstore.log.directory.files import Directory
from logstore.log.directory.unsynced import Unsynced
from logstore.log.formats.leader_epochs import LEADER_EPOCHS, Epochs
from logstore.log.marks._watermark import LogLock

_logger = logging.getLogger(__name__)


class EpochFile:
    """Part of an open log, guarded by its lock. Only `save` is called without it."""

    def __init__(self, directory: Directory, table: Epochs, unsynced: Unsynced) -> None:
        self.table = table
        self.is_saved = False  #: whether the file has the whole table: an opening may have found more than it has
        self._directory = directory
        self._unsynced = unsynced
        self._mutex = threading.Lock()  # one writer of the file; its holder waits for no other lock

    # -- changes of the table

    def note(self, epoch: int, first: int) -> bool:
        """Record the epoch of a batch; True if it is a new one, which has to be saved."""
        entries = self.table.entries
        if entries and entries[-1].epoch >= epoch:
            return False
        self.table.assign(epoch, first)
        self.is_saved = False
        return True

    def restarted(self) -> None:
        """Forget every epoch: the log begins again."""
        self.table.replace(())
        self.is_saved = False
        self.save_locked()

    def truncated(self, end: int) -> None:
        """Forget the epochs that begin at the new log end or above it."""
        if self.table.truncate_from_end(end):
            self.is_saved = False
            self.save_locked()

    def deleted_below(self, start: int) -> None:
        """Forget the epochs that end at the new log start or below it. The caller saves the file afterwards."""
        if self.table.truncate_from_start(start):
            self.is_saved = False

    def begin(self, epoch: int, end: int) -> None:
        """Record that an epoch begins at the log end, in the file too; its name is not durable yet.

        Raises:
            StorageError: the file is as before, and so is the table.
        """
        before = self.table.entries
        self.table.assign(epoch, end)
        try:
            with held(self._mutex):
                self._directory.replace(LEADER_EPOCHS, self.table.encode(), durable=False, whole=True)
        except LogstoreError:
            self.table.replace(before)
            raise
        self.is_saved = True
        self._unsynced.names_changed()

    # -- the file

    def save_locked(self) -> None:
        """Write the file; if that fails, a later append or flush retries."""
        try:
            with held(self._mutex):
                self.table.save(self._directory, durable=False)
        except StorageError as error:
            self._not_saved(error)
        else:
            self.is_saved = True
            self._unsynced.names_changed()

    def save(self, lock: LogLock, may_write: Callable[[], bool]) -> None:
        """Write the file without the log's lock, unless the log ``may_write`` no more; as `save_locked`."""
        with held(lock):
            if self.is_saved or not may_write():
                return
            table = Epochs(self.table.entries)
        try:
            with held(self._mutex):
                if self.table.entries is not table.entries:
                    return
                table.save(self._directory, durable=False)
        except StorageError as error:
            self._not_saved(error)
            return
        with held(lock):
            if self.table.entries is table.entries:
                self.is_saved = True
                self._unsynced.names_changed()

    def _not_saved(self, error: StorageError) -> None:
        _logger.warning("leader epochs not saved: log=%s error=%s", self._directory.path, error)
