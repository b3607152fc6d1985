"""What ends with its back end, or is told of changes by it: its consumers."""

from __future__ import annotations

import logging
import weakref
from typing import Protocol

from logstore.errors import ConcurrentUseError, LogstoreError

_logger = logging.getLogger(__name__)


class ReaderMember(Protocol):
    """A consumer, as its back end sees it. The back end does not keep it alive. Any thread may call."""

    def _look_around(self) -> None:
        """Look for new partitions of the topics that are read, also while waiting."""

    def _abandon(self) -> None:
        """Commit what is known to be processed, and close."""

    def _end_with_store(self) -> None:
        """End a wait of another thread with `StoreClosedError`."""


class ReaderMembers:
    """The consumers of one back end that are alive: woken for new partitions, ended with it. Any thread."""

    def __init__(self) -> None:
        #: No WeakSet: iterating one fails if another thread adds to it.
        self._consumers: weakref.WeakKeyDictionary[ReaderMember, None] = weakref.WeakKeyDictionary()

    def add(self, consumer: ReaderMember) -> None:
        """Register a consumer. It is not kept alive."""
        self._consumers[consumer] = None

    def notify(self) -> None:
        """Wake waiting consumers, so that they look for partitions that were added to a topic."""
        for consumer in self._alive():
            consumer._look_around()

    def end(self) -> None:
        """Have each commit the records that it is known to have processed, while the back end is open."""
        for consumer in self._alive():
            try:
                consumer._abandon()
            except ConcurrentUseError:
                # Another thread waits in the consumer; it raises that the store is closed.
                consumer._end_with_store()
            except LogstoreError as error:
                # An error raised here would leave the back end open; records without a commit are read again.
                _logger.warning("a consumer could not commit at the end of its store: %r: %s", consumer, error)

    def _alive(self) -> list[ReaderMember]:
        return [consumer for each in self._consumers.keyrefs() if (consumer := each()) is not None]
