"""Removal of a whole partition: its directory with all files.

The caller has recorded durably that the partition is deleted; the log is closed. Readers in other
processes hold its files open: they are told first, by the published generation. Otherwise they would wait
for ever at the end of a log without a writer, or mistake a later log of the same name for it.
"""

from __future__ import annotations

from logstore.errors import StorageError
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.formats.recovery_point import PublishedFile


def remove_partition(directory: Directory) -> None:
    """Remove a partition's directory. Not durable before the root is synced; may be called again.

    Raises:
        StorageError: some of its files remain.
    """
    if not directory.exists():
        return
    if checkpoints.PUBLISHED in directory.names():
        try:
            published = PublishedFile(directory)
            published.write(checkpoints.GONE_GENERATION, 0, 0, 0, 0)
            published.close()
        except StorageError:
            # A full disk may refuse the write. A reader then finds the segments missing.
            pass
    directory.remove_tree()
