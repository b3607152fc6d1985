"""Partitions that a group gives to one consumer: the consumer's side of a membership.

`GroupSubscription` makes the changes that the back end announces, in the thread that polls: it commits what was
processed, calls the callbacks of the user and changes what is read. Partitions are revoked after their callback,
and no record of them is handed out in between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from logstore.client.backend.membership import GroupChange, GroupMembership
from logstore.client.commits import Commits
from logstore.client.subscription import Subscription
from logstore.errors import LogstoreError, UnknownPartitionError, UnknownTopicError
from logstore.groups.membership.steps import PartitionsAssigned, PartitionsLost
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)

#: What a user is told of partitions.
OnPartitions: TypeAlias = Callable[[list[TopicPartition]], object]


class Listener(NamedTuple):
    """The callbacks of a user; each may be None."""

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None


class GroupSubscription:
    """The membership of one consumer, and what it does to the partitions that are read."""

    def __init__(self, membership: GroupMembership, commits: Commits, subscription: Subscription) -> None:
        self.membership = membership
        self.listener = Listener()
        self._commits = commits
        self._subscription = subscription
        self.calling: int | None = None  #: the thread in which a callback runs

    def follow(self) -> None:
        """Note a poll, and make the changes that wait.

        Raises:
            LogstoreError: the membership has failed, or a change cannot be made; the next call tries again.
            and what the callbacks raise.
        """
        self.membership.polled()
        while (change := self.membership.change()) is not None:
            self._make(change, commits=True)

    def end(self) -> None:
        """Leave the group. What was processed is committed already."""
        try:
            self._commits.drain()
            self.membership.leave()
            while not self.membership.wait_for_end():
                change = self.membership.change()
                if change is not None:
                    self._make(change, commits=False)
        finally:
            self._commits.member = None
            self.membership.close()

    def _make(self, change: GroupChange, *, commits: bool) -> None:
        given = list(change.partitions)
        if isinstance(change, PartitionsAssigned):
            self._assign(given)
            self._finish(change, self.listener.on_assigned, given)
            return
        if isinstance(change, PartitionsLost):
            # As in Kafka's consumer, on_revoked is told of lost partitions where there is no on_lost.
            callback = self.listener.on_lost or self.listener.on_revoked
        else:
            callback = self.listener.on_revoked
            if commits:
                self._commit()
        try:
            self._call(callback, given)
        finally:
            # A commit that arrived later could undo one of the next owner.
            self._commits.drain()
            self._drop(given)
            self.membership.changed(change)

    def _finish(self, change: GroupChange, callback: OnPartitions | None, given: list[TopicPartition]) -> None:
        try:
            self._call(callback, given)
        finally:
            self.membership.changed(change)

    def _call(self, callback: OnPartitions | None, given: list[TopicPartition]) -> None:
        if callback is None:
            return
        self.calling = threading.get_ident()
        try:
            callback(given)
        finally:
            self.calling = None

    def _commit(self) -> None:
        try:
            self._commits.settle_now()
        except LogstoreError as error:
            # The rebalance waits for this member. What is not committed is read again.
            _logger.warning("not committed before a rebalance: group=%s error=%s", self._commits.group, error)

    def _assign(self, given: list[TopicPartition]) -> None:
        partitions = dict(self._subscription.partitions)
        for name in given:
            try:
                partitions |= self._subscription.prepare([name])
            except (UnknownTopicError, UnknownPartitionError) as error:
                # It was deleted meanwhile; the group divides again when it learns of that.
                _logger.warning("assigned partition left out: group=%s error=%s", self._commits.group, error)
        self._subscription.replace(partitions, {})

    def _drop(self, given: list[TopicPartition]) -> None:
        gone = set(given)
        kept = {name: each for name, each in self._subscription.partitions.items() if name not in gone}
        self._subscription.replace(kept, {})
