"""Membership of one consumer in a group that divides partitions, as a back end keeps it.

The back end talks with the group's coordinator by itself, and runs no code of users. What changes for the consumer
waits as a `GroupChange` until the consumer's thread makes it, with the callbacks of its user, and tells so.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TypeAlias

from logstore.groups.membership.steps import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from logstore.groups.offsets import OffsetAndMetadata
from logstore.io._notifier import Notifier
from logstore.records import TopicPartition

#: What changes for a member.
GroupChange: TypeAlias = PartitionsAssigned | PartitionsRevoked | PartitionsLost

#: Names of topics, or a pattern that the whole name of a topic matches.
Topics: TypeAlias = Collection[str] | re.Pattern[str]


class GroupMembership(ABC):
    """One membership. One thread at a time, the consumer's, calls everything but `has_change` and `commit`."""

    #: How often a waiting consumer calls `polled`, in seconds.
    poll_s: float

    @abstractmethod
    def subscribe(self, topics: Topics) -> None:
        """Subscribe to these topics instead of others; to none is to leave the group. Does not wait."""

    @abstractmethod
    def listen(self, notifier: Notifier) -> None:
        """Notify this notifier of changes from now on, and no other."""

    @abstractmethod
    def has_change(self) -> bool:
        """Tell whether `change` or `polled` has news. Any thread; does no I/O."""

    @abstractmethod
    def polled(self) -> None:
        """Note that the consumer polls: one that does not for ``max.poll.interval.ms`` leaves the group.

        Raises:
            LogstoreError: the membership has failed. The next poll joins again, if that can help.
        """

    @abstractmethod
    def change(self) -> GroupChange | None:
        """Return the change that is to be made now; the same one until `changed`. Does not wait."""

    @abstractmethod
    def changed(self, change: GroupChange) -> None:
        """Tell that the change is made: of partitions that were revoked, nothing is read any more."""

    @abstractmethod
    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, waits: bool = False) -> None:
        """Store offsets as this member. The same commit may be repeated. Any thread.

        With ``waits`` in the consumer's thread only: a rebalance under way is waited for, half a minute at most.
        The partitions stay with the consumer meanwhile, or nothing is stored.

        Raises:
            GroupFencedError: the partitions may belong to other members; nothing is stored.
            BrokerError: ``REBALANCE_IN_PROGRESS``: the group is being divided; poll, and commit again.
            and as `GroupOffsets.commit`.
        """

    @abstractmethod
    def leave(self) -> None:
        """Begin to leave the group for good. `change` may have one more change then. Does not wait."""

    @abstractmethod
    def wait_for_end(self) -> bool:
        """Wait after `leave` until there is a change, then return False; True once the membership has ended.

        It ends without an answer of the coordinator, too, after a time-out.
        """

    @abstractmethod
    def close(self) -> None:
        """End at once. May be called again."""
