"""Interrupted segment swaps of compactions: finishing them, as Kafka's log loader does.

A compaction writes the new form of some segments beside them as ``.cleaned`` and syncs it. Once it is
complete, the files become ``.swap``, highest base offset first. Then the old segments are deleted, and
then the suffix is removed. So a ``.swap`` file is whole and replaces every segment that begins inside
its offsets. If a ``.cleaned`` file is left at or before it, the new form is incomplete, and the old
one is whole.

Each step may be interrupted by a crash in turn: the files left lead to the same decision again.
"""

from __future__ import annotations

import logging

from logstore.config.log import LogConfig
from logstore.errors import DamagedLogError
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import scan_file

_logger = logging.getLogger(__name__)

#: Files that a compaction writes again; snapshots stay, since the offsets do.
_SWAPPED = (files.OFFSET_INDEX, files.TIME_INDEX, files.ABORTED_INDEX)


def finish(directory: Directory, names: list[str], config: LogConfig) -> bool:
    """Replace old segments by whole new ones, and remove an incomplete set; return True if anything was done.

    ``names`` are the files in the directory.

    Raises:
        DamagedLogError: a new segment is damaged. Nothing was changed.
    """
    # Other files may have the suffix; only those of segments replace others.
    names = [name for name in names if files.belongs_to_a_segment(name)]
    swap_files = [name for name in names if name.endswith(files.SWAP)]
    if not swap_files:
        return False
    half_made = min((_base(name) for name in names if name.endswith(files.CLEANED)), default=None)
    whole = [name for name in swap_files if half_made is None or _base(name) < half_made]
    # Check everything before any change: damage found later would leave a half swapped log.
    ends = {_base(name): _end(directory, name, config) for name in whole if name.endswith(files.LOG + files.SWAP)}
    for name in swap_files:
        if name not in whole:
            directory.remove(name)
    # Durable before the .cleaned files are removed: without these, a .swap that came back would seem complete.
    directory.sync()
    if ends:
        _remove_replaced(directory, min(ends), max(ends.values()), set(ends))
    # The .log first: after a crash, a .swap of an index alone can still be renamed at any later open.
    for name in sorted(whole, key=lambda name: (not name.endswith(files.LOG + files.SWAP), name)):
        directory.rename(name, name.removesuffix(files.SWAP))
    directory.sync()
    _logger.info("finished a swap: log=%s files=%s", directory.path, ",".join(whole) or "none, half made")
    return True


def _base(name: str) -> int:
    return int(name[:20])


def _end(directory: Directory, name: str, config: LogConfig) -> int:
    """Check every byte of a new segment; return the offset after its last batch."""
    extent = scan_file(directory, name)
    problem = extent.problem
    if problem is None and extent.file_bytes == 0 and not config.compacts:
        problem = "it is empty, and the log is not compacted"
    if problem is not None:
        raise DamagedLogError(
            f"a compaction was interrupted, and the segment that it has left is damaged: {problem}; nothing "
            "was changed. Restore it from a copy or, if the segments that it replaces all exist, remove it",
            path=directory.join(name),
            position=extent.valid_bytes,
        )
    return max(extent.next_offset, _base(name))


def _remove_replaced(directory: Directory, start: int, end: int, swapped: set[int]) -> None:
    """Durably remove the segments that begin in ``[start, end)``, before any rename.

    If a rename survived a power cut and a removal did not, two segments would hold the same offsets.
    """
    for name in directory.names():
        for suffix in (files.LOG, *_SWAPPED):
            for base in files.base_offsets([name], suffix):
                # Indexes of a replaced .log are removed too; the rename replaces the .log itself.
                if (start <= base < end or base in swapped) and (suffix != files.LOG or base not in swapped):
                    directory.remove(name)
    directory.sync()
