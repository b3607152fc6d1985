"""The file of the catalogue, `logstore.topics`, for the writer of a store and for its readers in other processes.

`topic_list` draws its bytes. However many topics there are, a change costs the writer one write and one sync, and a
reader two short reads.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
from collections.abc import Callable, Mapping

from logstore.errors import DiskFullError
from logstore.log.directory.files import Directory, passing
from logstore.store.catalog.change_blocks import BLOCK, to_blocks
from logstore.store.catalog.topic_list import CATALOGUE, Catalogue, TopicEntry, Written, change_text, note_newest

_logger = logging.getLogger(__name__)


class CatalogueWriter:
    """Writes the catalogue of a store that this process holds. The store's lock keeps its callers apart."""

    def __init__(self, root: Directory) -> None:
        """Load the catalogue. Raises as `Catalogue.load`."""
        self._root = root
        #: What the file has; None if that is not known, as after a failed write.
        self._written = Written.load(root)
        self.found = None if self._written is None else self._written.catalogue

    def replace(self, catalogue: Catalogue) -> Catalogue:
        """Write a checkpoint of the catalogue; return it with its number. Durable on return.

        Raises:
            StorageError: as `Catalogue.save`.
        """
        self._written = None
        self._written = catalogue.save(self._root)
        return self._written.catalogue

    def settle(self, catalogue: Catalogue, with_space: Callable[[Callable[[], Catalogue]], Catalogue]) -> Catalogue:
        """Make what was found durable, before anything is made to depend on it; return it with its number.

        The process that wrote the last change may have been killed before its sync, or the sync may have failed. A
        power cut would take the change back, and with a topic all that was acknowledged of it since.
        """
        if self._written is not None and self._written.is_checkpoint:
            return catalogue
        try:
            return with_space(lambda: self.replace(catalogue))
        except DiskFullError as error:
            _logger.debug("no room for a checkpoint of the catalogue: root=%s error=%s", self._root.path, error)
            with self._root.open(CATALOGUE, writable=True) as file:
                file.mark_dirty()
                file.sync()
            return catalogue

    def change(
        self,
        catalogue: Catalogue,
        entries: Mapping[str, TopicEntry | None],
        next_producer_id: int | None = None,
    ) -> Catalogue:
        """Change topics, or the next producer id; return the catalogue after it. Durable on return.

        Raises:
            StorageError: the old catalogue still holds, unless only a sync has failed. Then either may be
                found after a power cut, and the new one before.
        """
        changed = catalogue.with_topics(entries)
        if next_producer_id is not None:
            changed = changed.with_next_producer_id(next_producer_id)
        known, self._written = self._written, None
        if known is None:
            return self.replace(changed)
        changed = dataclasses.replace(changed, number=known.catalogue.number + 1)
        data = to_blocks(changed.number, change_text(entries, next_producer_id))
        if len(data) > known.size - known.end:
            return self.replace(changed)
        with self._root.open(CATALOGUE, writable=True) as file:
            file.write(data, known.end)
            file.sync()
        note_newest(self._root, changed.number)
        self._written = Written(changed, data[-BLOCK:], known.end + len(data), known.size)
        return changed


class CatalogueFollower:
    """Reads the catalogue of a store that another process may be writing."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self._written: Written | None = None

    def read(self) -> Catalogue | None:
        """Return the catalogue as it is now, the same object if nothing has changed; None if there is none.

        Raises:
            DamagedCatalogueError, LaterCatalogueError: as `Catalogue.load`.
        """
        self._written = self._read_on() or Written.load(self._root)
        return None if self._written is None else self._written.catalogue

    def _read_on(self) -> Written | None:
        """Return what is in the file if it has only grown since it was read; else None."""
        known = self._written
        if known is None:
            return None
        with passing(errno.ENOENT), self._root.open(CATALOGUE) as file:
            before = len(known.last)
            data = file.read(known.end - before, before + BLOCK)
            if file.size() != known.size or data[:before] != known.last:
                return None
            if any(data[before:]):
                data = known.last + file.read(known.end, known.size - known.end)
            try:
                return known.followed_by(data[before:])
            except (ValueError, KeyError, TypeError, AttributeError):
                return None  # half a write of this moment, or damage: reading all of it tells
        return None
