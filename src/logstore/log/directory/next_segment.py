"""Next segment: the file that is prepared for the segment after the active one.

A roll must not wait for the disk, and the base offset of the next segment is known only at the roll. So the file is
created before, under a name that says which segment it follows: ``logstore.after-N`` follows the segment with base
offset N. Its name is durable before a roll writes the first batch into it. A background step then renames it to
the base offset of its first batch. Only the active segment can have such a name.

A crash leaves the file empty, or with batches. An open for writing renames it if its first batch continues the
newest segment, and removes it otherwise. A reader in another process uses it under either name.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from logstore.log.directory import files
from logstore.log.directory.files import NEXT, Directory, passing

#: Bytes of a batch header (Kafka protocol guide, record batch v2): base offset first, magic at byte 16.
_HEAD_BYTES: Final = 61


def name_after(base_offset: int) -> str:
    """Return the name of the file that is prepared to follow a segment.

    >>> name_after(2600)
    'logstore.after-00000000000000002600'
    """
    return f"{NEXT}{base_offset:020d}"


def find(directory: Directory, names: Sequence[str], last: int | None = None) -> tuple[str, int] | None:
    """Return name and base offset of the next segment if a roll has begun to write it, else None.

    ``last`` is the base offset of the newest segment, by default that in ``names``. Its own file is not looked at:
    whether it ends where the next one begins is for recovery and readers to check.

    Raises:
        StorageError: the file is gone: its writer has renamed it. List the names again.
    """
    if last is None:
        bases = files.base_offsets(names)
        if not bases:
            return None
        last = bases[-1]
    name = name_after(last)
    return _look(directory, name, last) if name in names else None


def after(directory: Directory, last: int) -> tuple[str, int] | None:
    """Return name and base offset of the segment after ``last`` as `find`; None too once it has its final name.

    The name is tried, not looked for in a listing, which may show a file under neither name while it is renamed.
    """
    with passing(errno.ENOENT):
        return _look(directory, name_after(last), last)
    return None


def _look(directory: Directory, name: str, last: int) -> tuple[str, int] | None:
    with directory.open(name) as file:
        head = bytes(file.read(0, _HEAD_BYTES))
    base = int.from_bytes(head[:8], "big", signed=True)
    return (name, base) if len(head) == _HEAD_BYTES and head[16] == 2 and base > last else None


def base_offsets(directory: Directory, names: Sequence[str] | None = None) -> list[int]:
    """Return the base offsets of the segments in a directory, in rising order, under either name.

    ``names`` are those in the directory, if they are known. Of a log that is written meanwhile, the newest may be
    left out.
    """
    names = directory.names() if names is None else names
    bases = files.base_offsets(names)
    if any(name.startswith(NEXT) for name in names):
        with passing(errno.ENOENT):  # its writer has just renamed it
            found = find(directory, names)
            if found is not None:
                bases.append(found[1])
    return bases


def segment_name(directory: Directory, base_offset: int, names: Sequence[str] | None = None) -> str:
    """Return the name of the file of a segment: until its roll is finished, the first one of the newest segment."""
    name = files.segment_file(base_offset, files.LOG)
    names = directory.names() if names is None else names
    if name not in names:
        with passing(errno.ENOENT):
            found = find(directory, names)
            if found is not None and found[1] == base_offset:
                return found[0]
    return name


def finish(directory: Directory, names: Sequence[str]) -> bool:
    """Give the next segment its final name if a roll has begun to write it; return whether it did.

    Before the segments are opened for writing. Durable with the next sync of the directory, and not needed before:
    until then an open finds the file under its first name again.
    """
    found = find(directory, names)
    if found is None:
        return False
    name, base = found
    directory.rename(name, files.segment_file(base, files.LOG))
    return True
