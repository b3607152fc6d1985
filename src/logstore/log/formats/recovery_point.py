"""Recovery point, log start offset and published offsets of a log, in three small files.

``logstore.recovery`` tells the next recovery what is on disk. ``logstore.start`` is a second copy of
the log start offset, for a recovery that finds the first file lost. ``logstore.published`` tells readers
in other processes what is in the files. Each is overwritten in place, as a block with its own CRC: the first two
by one `pwrite`, the third as `_published` says. `checkpoints` shows the bytes. Called under the log's lock, but
for a deletion and the first append: these sync the recovery file without it.

Invariant: a recovery point that can be read after a crash is never above what was synced. It is
raised only after a sync, and lowered durably, in both slots, before a truncation.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import threading

from logstore.errors import OUT_OF_RESOURCES
from logstore.io._files import File
from logstore.io._interrupts import held
from logstore.log.directory.files import Directory, passing
from logstore.log.formats import checkpoints
from logstore.log.formats._published import PublishedFile
from logstore.log.formats._recovery_slot import RecoverySlots
from logstore.log.formats.checkpoints import LogKind, Published, RecoveryPoint

_logger = logging.getLogger(__name__)


class RecoveryPointFile(RecoverySlots):
    """Two slots of ``logstore.recovery``, or of another file of that form."""

    def __init__(self, directory: Directory, point: RecoveryPoint, name: str = checkpoints.RECOVERY) -> None:
        super().__init__()
        self._directory = directory
        self._name = name
        self.turn = threading.RLock()  #: of one write; the first append and deletions write without the log's lock
        self.begin_at(point)
        self.least_start = 0  #: log start offset of a deletion in progress: no point is made with a lower one

    def opened(self) -> File:
        """Return the file, opened if this is its first use."""
        if self.file is None:
            self.use(self._directory.open(self._name, create=True, writable=True))
        assert self.file is not None
        return self.file

    def write(self, point: RecoveryPoint) -> None:
        """Overwrite the older slot. Not synced: if the write is lost, the other slot remains."""
        self._write_slot(point)

    def write_durably(self, point: RecoveryPoint) -> None:
        """Write both slots, each synced before the other is overwritten; durable on return.

        No earlier slot is left: a later torn write of one could bring an older recovery point back.
        """
        with held(self.turn):
            for _ in range(2):
                self._write_slot(point)
                self.opened().sync()

    def announce_start(self, offset: int) -> None:
        """Have every point that is made under the log's lock from now on begin at least at an offset."""
        self.least_start = offset

    def settle_start(self) -> None:
        """End what `announce_start` has begun: the log start is at that offset, or the deletion was given up."""
        self.least_start = 0

    def write_next(self, point: RecoveryPoint) -> bool:
        """Overwrite the older slot, unless another was written since this point was made from `point`.

        For writers without the log's lock: a point from before a newer one would take back what that has promised.
        """
        with held(self.turn):
            if point.sequence != self.point.sequence:
                return False
            self._write_slot(point)
            return True

    def _write_slot(self, point: RecoveryPoint) -> None:
        with held(self.turn):
            self.put_next(point._replace(sequence=self.point.sequence + 1))

    def write_run(self, data: bytes) -> None:
        """Overwrite the record of the run (`last_stop`). Not synced: it has no meaning after a restart."""
        self.opened().write(data, checkpoints.RUN_POSITION)

    def identity(self) -> tuple[int, int]:
        """Return inode and time of creation of the file: a copy of it has others."""
        return self.opened().identity()

    def sync(self) -> None:
        """Make both slots durable, also what an earlier process has written and not synced before it was killed."""
        file = self.opened()
        # A file without writes of this process counts as synced.
        file.mark_dirty()
        file.sync()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def write_point(directory: Directory, point: RecoveryPoint) -> None:
    """Write ``logstore.recovery`` of a log that is not open; durable on return."""
    with contextlib.closing(RecoveryPointFile(directory, point)) as file:
        file.write_durably(point)


def note_start(directory: Directory, log_start: int, kind: LogKind, *, durable: bool = True) -> None:
    """Write log start offset and kind of the log into ``logstore.start``, if they have changed.

    Called after ``logstore.recovery`` was written: the file is read only if that one is lost. On a full disk,
    or without a free descriptor, it is removed: an outdated file would be worse than none.
    """
    point = RecoveryPoint(0, 0, log_start, 0, 0, log_start, -1, kind=kind)
    try:
        noted = checkpoints.decode_slots(directory.read(checkpoints.START) or b"")
        if noted is not None and (noted.log_start_offset, noted.kind) == (log_start, kind):
            return
        with contextlib.closing(RecoveryPointFile(directory, noted or point, checkpoints.START)) as file:
            file.write(point)
            if durable:
                file.sync()
                if noted is None:
                    directory.sync()
    except OUT_OF_RESOURCES as error:
        _logger.warning("log start not written a second time: log=%s error=%s", directory.path, error)
        # A disk that refuses this, too, leaves the outdated file. Raising here would fail a change already made.
        with contextlib.suppress(*OUT_OF_RESOURCES):
            directory.remove(checkpoints.START)


def published_file(directory: Directory) -> PublishedFile:
    """Open ``logstore.published`` for its writer."""
    return PublishedFile(directory.open(checkpoints.PUBLISHED, create=True, writable=True, hint=True))


class PublishedReader:
    """``logstore.published`` as readers in other processes see it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._file: File | None = None
        self._newest: tuple[bytes, Published] | None = None  # as they were read last

    def read(self, *, attempts: int = 100) -> Published | None:
        """Return the offsets that the log's writer has published, or None if there is no such file.

        A block that is being overwritten while it is read fails its CRC and is read again. None too if
        it never becomes whole, as after a power cut: the log then ends after its last valid batch.
        """
        if self._file is None:
            with passing(errno.ENOENT):
                self._file = self._directory.open(checkpoints.PUBLISHED)
            if self._file is None:
                return None
        for _ in range(attempts):
            data, newest = self._file.read(0, checkpoints.PUBLISHED_BYTES), self._newest
            if newest is not None and data == newest[0]:
                return newest[1]
            published = checkpoints.decode_published(data)
            if published is not None:
                self._newest = data, published
                return published
        return None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
