"""The end of a whole partition: its directory goes, with all that is in it.

Called by whoever has written down durably that the partition is deleted; the log is closed. Readers
in other processes hold its files open: they are told first, through the published end, so that none
waits for ever at the end of a log that nobody writes, nor takes a later one of the same name for it.
"""

from __future__ import annotations

from logstore.errors import StorageError
from logstore.log import checkpoint
from logstore.log.files import Directory
from logstore.log.promises import PublishedFile


def remove_partition(directory: Directory) -> None:
    """Remove a partition's directory. Not durable before the root is synced; may be called again.

    Raises:
        StorageError: something of it is still there.
    """
    if not directory.exists():
        return
    if checkpoint.PUBLISHED in directory.names():
        try:
            published = PublishedFile(directory)
            published.write(checkpoint.GONE_GENERATION, 0, 0, 0, 0)
            published.close()
        except StorageError:
            # On a full disk the news may not fit. A reader then finds the segments gone.
            pass
    directory.remove_tree()
