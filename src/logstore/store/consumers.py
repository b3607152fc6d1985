"""Consumers that a store has opened: woken for partitions that were added, and ended with their store."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

from logstore.errors import ConcurrentUseError, LogstoreError

if TYPE_CHECKING:
    from logstore.client.consumer import Consumer

_logger = logging.getLogger(__name__)


class Consumers:
    """The consumers of one store that are alive. Any thread may call."""

    def __init__(self) -> None:
        #: No WeakSet: iterating one fails if another thread adds to it.
        self._consumers: weakref.WeakKeyDictionary[Consumer, None] = weakref.WeakKeyDictionary()

    def add(self, consumer: Consumer) -> None:
        """Register a consumer. It is not kept alive."""
        self._consumers[consumer] = None

    def notify(self) -> None:
        """Wake waiting consumers, so that they look for partitions that were added to a topic."""
        for consumer in self._alive():
            consumer._look_around()

    def end(self) -> None:
        """Have each commit the records that it is known to have processed, while the logs are still open."""
        for consumer in self._alive():
            try:
                consumer._abandon()
            except ConcurrentUseError:
                # Another thread waits in the consumer; it raises that the store is closed.
                consumer._end_with_store()
            except LogstoreError as error:
                # An error raised here would leave the logs open; records without a commit are read again.
                _logger.warning("a consumer could not commit at the end of its store: %r: %s", consumer, error)

    def _alive(self) -> list[Consumer]:
        return [consumer for each in self._consumers.keyrefs() if (consumer := each()) is not None]
