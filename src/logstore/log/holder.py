"""Who writes below a root, asked without disturbing anybody.

The lock of a root is an fcntl lock on its ``.lock`` (see `files.RootLock`). Taking it to find out whether
it is taken would keep out an owner that starts at this moment, so the kernel is only asked who has it.
The one place that looks at a lock past the table of file operations: what is asked is the machine, and
no simulated disk has processes.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import NamedTuple

from logstore.log.files import LOCK, Directory, RootLock

#: struct flock of Linux on 64 bits: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


class Holder(NamedTuple):
    """The process that has the lock of a root."""

    pid: int  #: 0 if it is in another pid namespace, as behind a container's wall
    told: str  #: what it wrote into the lock's file: pid, host, start time

    def __str__(self) -> str:
        return f"pid {self.pid or 'unknown'}" + (f" ({self.told})" if self.told else "")


def holder_of(root: Directory) -> Holder | None:
    """The process that writes below a root now, or None. May be this one."""
    # Guarded, so that nobody in this process takes the lock between the question and the end of it.
    with RootLock.guarded():
        if RootLock.is_held(root):
            # To close any descriptor of the file, also one that was only read, would give this process's lock away.
            return Holder(os.getpid(), RootLock.told(root))
        try:
            descriptor = os.open(root.join(LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            asked = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            told = os.pread(descriptor, 4096, 0).decode(errors="replace").strip()
        finally:
            os.close(descriptor)
    kind, _whence, _start, _length, pid = _FLOCK.unpack(asked)
    return None if kind == fcntl.F_UNLCK else Holder(max(pid, 0), told)
