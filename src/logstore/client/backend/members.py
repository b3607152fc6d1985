"""What ends with its back end, or is told of changes by it: its consumers and producers."""

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


class WriterMember(Protocol):
    """A producer, as its back end sees it."""

    def close(self) -> None:
        """Write what it has gathered. May be called again."""


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


class WriterMembers:
    """The producers of one back end that are not closed: those that are alive, and dropped ones. Any thread."""

    def __init__(self) -> None:
        #: By their ids; also those that are garbage. Each use is one step: other threads may attach meanwhile.
        self._attached: dict[int, weakref.ref[WriterMember]] = {}
        self._dropped: set[WriterMember] = set()  #: finalizers add to it

    def attach(self, member: WriterMember) -> None:
        """Register a producer. It is not kept alive."""
        self._attached[id(member)] = weakref.ref(member)

    def detach(self, member: WriterMember) -> None:
        """Forget a producer that has been closed."""
        self._attached.pop(id(member), None)
        self._dropped.discard(member)

    @property
    def count(self) -> int:
        """The number of producers that are not closed."""
        return len(self._attached)

    def drop(self, member: WriterMember) -> None:
        """Register a producer as `attach` does, and keep it alive. Takes no lock."""
        self._dropped.add(member)

    def close(self) -> None:
        """Close all of them, and raise the first error."""
        alive = {member for each in list(self._attached.values()) if (member := each()) is not None}
        failure: BaseException | None = None
        for member in alive | self._dropped:
            try:
                member.close()
            except BaseException as error:  # noqa: BLE001  raised below, once every producer has been closed
                failure = failure or error
        if failure is not None:
            raise failure
