"""The end of a whole partition: its directory goes, with all that is in it.

Called by whoever has written down durably that the partition is deleted; the log is closed. Readers
in other processes hold its files open: they are told first, through the published end, so that none
waits for ever at the end of a log that nobody writes, nor takes a later one of the same name for it.
"""

from __future__ import annotations

from logstore.errors import StorageError
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.formats.recovery_point import PublishedFile


def remove_partition(directory: Directory) -> None:
    """Remove a partition's directory. Not durable before the root is synced; may be called again.

    Raises:
        StorageError: something of it is still there.
    """
    if not directory.exists():
        return
    if checkpoints.PUBLISHED in directory.names():
        try:
            published = PublishedFile(directory)
            published.write(checkpoints.GONE_GENERATION, 0, 0, 0, 0)
            published.close()
        except StorageError:
            # On a full disk the news may not fit. A reader then finds the segments gone.
            pass
    directory.remove_tree()
