"""How a log was stopped the last time: closed, or left by a process that died, or by a machine that went down.

A log whose process died while the machine stayed up has lost nothing: its bytes are in the page cache still. So a
replica keeps its place then, and must prove nothing to its leader. To tell this from a power cut, the log records
the run of the machine in ``logstore.recovery``, between the two slots. The record at position 2048, big-endian::

     0  2  magic "lm"
     2  1  version 1
     3  1  flags: 1 with logstore.tail=memory; 2 an unclean stop is not accepted yet
     4 16  boot id, a new one at each start of the machine (random(4))
    20  8  inode of this file
    28  8  time of its creation, ns since 1970; 0 if the file system does not tell
    36  4  CRC-32C of bytes [0, 36)

The record is written when the log is opened, and is not synced. It is trusted only in the run that it names, and
then the page cache has it. It counts for this file only: a copy of the directory has another inode, or another time
of creation. Flag 2 counts in every run: the close that calls the log clean has synced it.

An unclean stop is reported again at each opening until the layer above accepts it. Otherwise a replica that dies,
or is closed, before it has told its leader would hide the loss.
"""

from __future__ import annotations

import enum
import os
import re
import struct
from collections.abc import Iterable
from typing import NamedTuple

from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.formats.checkpoints import RUN_POSITION, with_crc, without_crc

_RUN = struct.Struct(">2sBB16sQQ")
_MAGIC, _VERSION = b"lm", 1
_MEMORY_TAIL, _PENDING = 1, 2

#: Bytes of the record.
RUN_BYTES = _RUN.size + 4

#: File systems whose bytes this machine alone holds, so that they are as the last process left them.
_LOCAL = frozenset(
    ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")
)
_MOUNTS = "/proc/self/mountinfo"
_BOOT_BYTES = 16
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Stop(enum.Enum):
    """How a log was stopped before it was opened."""

    #: There was no log, or an empty one that was never closed.
    NEW = "new"
    #: It was closed; nothing is lost.
    CLEAN = "clean"
    #: Its process died and the machine stayed up; every record that was acknowledged is there.
    PROCESS_DIED = "process died"
    #: Records that were acknowledged and not synced may be lost.
    UNCLEAN = "unclean"


class LastStop(NamedTuple):
    """How a log was stopped, and why that is known."""

    stop: Stop
    reason: str


class Run(NamedTuple):
    """The run of the machine in which a log was written."""

    boot: bytes
    inode: int
    born_ns: int
    has_memory_tail: bool
    is_pending: bool = False  #: an unclean stop was found, and is not accepted yet

    def encode(self) -> bytes:
        """Encode the bytes to write at `RUN_POSITION`."""
        flags = (_MEMORY_TAIL if self.has_memory_tail else 0) | (_PENDING if self.is_pending else 0)
        return with_crc(_RUN.pack(_MAGIC, _VERSION, flags, self.boot, self.inode, self.born_ns))


def decode_run(data: bytes) -> Run | None:
    """Decode the record in ``logstore.recovery``; None if there is none, or it is damaged."""
    body = without_crc(data[RUN_POSITION : RUN_POSITION + RUN_BYTES])
    if body is None or len(body) != _RUN.size:
        return None
    magic, version, flags, boot, inode, born_ns = _RUN.unpack(body)
    if (magic, version) != (_MAGIC, _VERSION) or flags & ~(_MEMORY_TAIL | _PENDING):
        return None
    return Run(boot, inode, born_ns, bool(flags & _MEMORY_TAIL), bool(flags & _PENDING))


class StopEvidence(NamedTuple):
    """What an opening has found that tells how the log was stopped."""

    is_clean: bool  #: it was closed
    is_new: bool  #: there is nothing that could have been lost
    is_suspect: bool  #: a write or sync had failed
    end_offset: int
    recorded: Run | None


def judge(found: StopEvidence, now: Run, directory: Directory) -> LastStop:
    """Judge how a log was stopped, by what is found and by the run of the machine now."""
    recorded = found.recorded
    if recorded is not None and recorded.is_pending:
        return _unclean("an earlier stop was unclean, and was not accepted (LogReplica.accept_stop)")
    if found.is_clean:
        return LastStop(Stop.CLEAN, "the log was closed")
    if found.is_new:
        return LastStop(Stop.NEW, "there was no log, or an empty one")
    if found.is_suspect:
        return _unclean("a write or a sync had failed")
    if recorded is None:
        return _unclean("nothing says in which run of the machine the log was written")
    if len(now.boot) != _BOOT_BYTES:
        return _unclean("the system has no id of its run (random(4), boot_id)")
    if recorded.boot != now.boot:
        return _unclean("the machine has restarted since")
    if (recorded.inode, recorded.born_ns) != (now.inode, now.born_ns):
        return _unclean("the directory is a copy")
    if recorded.has_memory_tail:
        return _unclean("records were in the memory of the process (logstore.tail=memory)")
    published = checkpoints.decode_published(directory.read(checkpoints.PUBLISHED) or b"")
    if published is not None and found.end_offset < published.log_end_offset:
        return _unclean(
            f"the log ends at offset {found.end_offset}, but was written up to {published.log_end_offset}"
        )
    if directory.files.namespace is None and (kind := file_system(directory.path)) not in _LOCAL:
        return _unclean(f"other machines may write to the file system ({kind or 'unknown'})")
    return LastStop(Stop.PROCESS_DIED, "the process died, the machine stayed up")


def _unclean(reason: str) -> LastStop:
    return LastStop(Stop.UNCLEAN, reason)


def file_system(path: str) -> str:
    """Return the kind of the file system that holds a path, as in the mount table; empty if that is not known."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as table:
            return mounted_at(os.path.realpath(path), table)
    except OSError:
        return ""


def mounted_at(path: str, mounts: Iterable[str]) -> str:
    """Return the kind of the file system at a path, from lines of mountinfo, proc(5)."""
    kind, longest = "", -1
    for line in mounts:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        place = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
        is_above = path == place or path.startswith(place.rstrip("/") + "/")
        # Of several at one place, the last one hides those before.
        if is_above and len(place) >= longest:
            kind, longest = after.split(" ", 1)[0], len(place)
    return kind
