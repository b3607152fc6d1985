"""Leader epochs of one log: the offset at which each began.

A follower asks where an epoch ended and truncates its log there; nothing else decides a truncation,
least of all the high watermark. The table follows Kafka's `LeaderEpochFileCache`. One writer (the
log, under its lock); readers take no lock, since every change replaces the tuple atomically.
No I/O but `Epochs.load` and `Epochs.save`.

The file is Kafka's ``leader-epoch-checkpoint``, text without a checksum::

    0          version
    2          number of entries
    0 0        epoch, start offset; each line ends with a newline
    3 1042

It is a hint. A damaged file, or one whose epochs or offsets do not rise, is None, and the caller rebuilds the
table from batch headers. A whole file may still be older or newer than the log: after `load` the caller truncates
it to both ends of the log (KAFKA-10706).

Invariant: epochs and start offsets both rise, strictly.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from logstore.log.formats.checkpoints import decode_lines, encode_lines
from logstore.records import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from logstore.log.directory.files import Directory

LEADER_EPOCHS = "leader-epoch-checkpoint"

#: Kafka's answer for an unknown epoch: the follower must not truncate by it.
UNDEFINED = (-1, -1)

_LINE = re.compile(rb"(0|[1-9][0-9]{0,9}) (0|[1-9][0-9]{0,18})")


class EpochEntry(NamedTuple):
    """Leader epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


_epoch_of = attrgetter("epoch")
_start_of = attrgetter("start_offset")


class Epochs:
    """Table of leader epochs and the offsets that each wrote.

    >>> epochs = Epochs([EpochEntry(0, 0), EpochEntry(3, 100)])
    >>> epochs.end_offset_for(1, log_end_offset=150)
    (0, 100)
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        #: Every epoch with records, oldest first; a change replaces the tuple.
        self.entries = tuple(entries)
        assert _rises(self.entries), self.entries

    # -- queries

    @property
    def latest(self) -> EpochEntry | None:
        """The newest epoch with records; None if no record has one."""
        return self.entries[-1] if self.entries else None

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch that wrote this offset, None if it is before every known one.

        The end of the log is not known here: an offset beyond it belongs to the latest epoch.
        """
        entries = self.entries
        after = bisect_right(entries, offset, key=_start_of)
        return entries[after - 1].epoch if after else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch up to ``epoch``, and the offset at which it ended.

        The latest epoch ends at ``log_end_offset``. An epoch older than all known ones ends where
        the first known one begins: its records were deleted. `UNDEFINED` for an epoch newer than
        all known ones and for -1: truncating at a guess would lose records (KAFKA-7897).
        """
        entries = self.entries
        if epoch < 0 or not entries or epoch > entries[-1].epoch:
            return UNDEFINED
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        higher = bisect_right(entries, epoch, key=_epoch_of)
        floor = entries[higher - 1].epoch if higher else epoch
        return floor, entries[higher].start_offset

    # -- changes, under the log's lock

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Set the table to these entries, oldest first: none, or those of before a change that was not stored."""
        self.entries = tuple(entries)
        assert _rises(self.entries), self.entries

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that a batch of ``epoch`` begins at ``start_offset``; True if the table changed.

        Call it for every batch: all but the first of an epoch change nothing. Entries that
        contradict the new one, with a newer epoch or an equal or later start, are removed: so an
        epoch without records disappears. A batch without an epoch (-1) changes nothing.
        """
        entries = self.entries
        if epoch < 0:
            return False
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return False
        assert start_offset >= 0
        keep = min(bisect_left(entries, epoch, key=_epoch_of), bisect_left(entries, start_offset, key=_start_of))
        self.entries = (*entries[:keep], EpochEntry(epoch, start_offset))
        assert _rises(self.entries[-2:])
        return True

    def truncate_from_end(self, offset: int) -> bool:
        """Remove epochs that begin at or after ``offset``, the new log end offset; True if any did.

        Called in every truncation of the log. A remaining entry would assign the next leader's
        offsets to an earlier one (KAFKA-10706).
        """
        entries = self.entries
        keep = bisect_left(entries, offset, key=_start_of)
        self.entries = entries[:keep]
        return keep < len(entries)

    def truncate_from_start(self, offset: int) -> bool:
        """Remove epochs that ended at or before ``offset``, the new log start offset; True on a change.

        The epoch that wrote ``offset`` stays, and now begins there.
        """
        entries = self.entries
        after = bisect_right(entries, offset, key=_start_of)
        if after == 0 or (after == 1 and entries[0].start_offset == offset):
            return False
        self.entries = (EpochEntry(entries[after - 1].epoch, offset), *entries[after:])
        return True

    # -- the file

    @classmethod
    def decode(cls, data: bytes) -> Epochs | None:
        """Decode a ``leader-epoch-checkpoint``; None if it is damaged, or empty as Kafka creates it."""
        lines = decode_lines(data)
        if lines is None:
            return None
        entries = []
        for line in lines:
            match = _LINE.fullmatch(line)
            if match is None:
                return None
            entries.append(EpochEntry(int(match[1]), int(match[2])))
        if entries and (entries[-1].epoch > INT32_MAX or entries[-1].start_offset > INT64_MAX):
            return None
        return cls(entries) if _rises(entries) else None

    def encode(self) -> bytes:
        """Encode the table as Kafka's text."""
        return encode_lines(b"%d %d" % entry for entry in self.entries)

    @classmethod
    def load(cls, directory: Directory) -> Epochs | None:
        """Load the table of a partition's directory; None if the file is missing or damaged.

        Raises:
            StorageError: the file exists and cannot be read.
        """
        return cls.decode(directory.read(LEADER_EPOCHS) or b"")

    def save(self, directory: Directory, *, durable: bool) -> None:
        """Replace the file. It is a hint while the log has batches, whose headers hold the same epochs.

        After their deletion only this file holds the epoch, which must not fall. So after the first
        epoch the file is never lost: a power cut leaves the old contents or the new ones.
        """
        whole = bool(self.entries) and self.entries[-1].epoch > 0
        directory.replace(LEADER_EPOCHS, self.encode(), durable=durable, whole=whole)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Epochs) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Epochs({[tuple(entry) for entry in self.entries]})"


def _rises(entries: Iterable[EpochEntry]) -> bool:
    epoch = offset = -1
    for entry in entries:
        if entry.epoch <= epoch or entry.start_offset <= offset:
            return False
        epoch, offset = entry
    return True
