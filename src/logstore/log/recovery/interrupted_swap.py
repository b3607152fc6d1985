"""Compactions that were cut off in the middle of their swap: finishing them, as Kafka's log loader does.

A compaction writes the new form of some segments beside them as ``.cleaned`` and syncs it. Once all
of it is there, the files become ``.swap``, highest base offset first; then the old segments go, and
then the suffix. So a ``.swap`` file is whole and stands for every segment that begins inside its
offsets, unless a ``.cleaned`` file is left at or before it: then the new form is not all there, and
the old one is.

Each step may be cut off in its turn: what is left is the same question again, with the same answer.
"""

from __future__ import annotations

import logging

from logstore._segment import Segment
from logstore.config.log import LogConfig
from logstore.errors import DamagedLogError
from logstore.log.directory import files
from logstore.log.directory.files import Directory

_logger = logging.getLogger(__name__)

#: What a compaction writes anew; snapshots stay, since the offsets do.
_SWAPPED = (files.OFFSET_INDEX, files.TIME_INDEX, files.ABORTED_INDEX)


def finish(directory: Directory, names: list[str], config: LogConfig) -> bool:
    """Put whole new segments in the place of the old ones, remove half a set; True if anything was done.

    ``names`` are those in the directory.

    Raises:
        DamagedLogError: a segment that was to take its place is damaged. Nothing was changed.
    """
    # Other files may bear the suffix; only those of segments take anybody's place.
    names = [name for name in names if files.belongs_to_a_segment(name)]
    swaps = [name for name in names if name.endswith(files.SWAP)]
    if not swaps:
        return False
    half_made = min((_base(name) for name in names if name.endswith(files.CLEANED)), default=None)
    whole = [name for name in swaps if half_made is None or _base(name) < half_made]
    # Everything is looked at before anything is touched.
    ends = {_base(name): _end(directory, name, config) for name in whole if name.endswith(files.LOG + files.SWAP)}
    for name in swaps:
        if name not in whole:
            directory.remove(name)
    # Gone for good before the .cleaned files that speak against them are.
    directory.sync()
    if ends:
        _remove_replaced(directory, min(ends), max(ends.values()), set(ends))
    # The records first: a .swap of an index alone takes its place at any later open.
    for name in sorted(whole, key=lambda name: (not name.endswith(files.LOG + files.SWAP), name)):
        directory.rename(name, name.removesuffix(files.SWAP))
    directory.sync()
    _logger.info("finished a swap: log=%s files=%s", directory.path, ",".join(whole) or "none, half made")
    return True


def _base(name: str) -> int:
    return int(name[:20])


def _end(directory: Directory, name: str, config: LogConfig) -> int:
    """The offset behind the last batch of a segment that is about to take its place, every byte checked."""
    base = _base(name)
    file = directory.open(name)
    try:
        size = file.size()
        segment = Segment(
            file,
            base,
            index_interval_bytes=config.index_interval_bytes,
            size=size,
            next_offset=-1,
            sealed=False,
        )
        extent = segment.scan(next_offset=base)
        problem = extent.problem
        if problem is None and size == 0 and not config.compacts:
            problem = "it is empty, and the log is not compacted"
        if problem is not None:
            raise DamagedLogError(
                f"a compaction was cut off, and the segment that it has left is damaged: {problem}; nothing was "
                "changed, restore it from a copy or, if the segments that it replaces are all there, remove it",
                path=directory.join(name),
                position=extent.valid_bytes,
            )
        return max(extent.next_offset, base)
    finally:
        file.close()


def _remove_replaced(directory: Directory, start: int, end: int, swapped: set[int]) -> None:
    """Remove the segments that begin in ``[start, end)``, durably, before anything takes their place.

    Were a rename to survive a power cut and a removal not, two segments would hold the same offsets.
    """
    for name in directory.names():
        for suffix in (files.LOG, *_SWAPPED):
            for base in files.base_offsets([name], suffix):
                # Indexes of what is replaced go, too; its .log is taken away by the rename.
                if (start <= base < end or base in swapped) and (suffix != files.LOG or base not in swapped):
                    directory.remove(name)
    directory.sync()
