"""Commits of one consumer: which records count as processed, and when their offsets are stored.

With ``enable.auto.commit``, returned records count as processed when the next ones are requested. Their offsets
are then stored, at most once in ``auto.commit.interval.ms``. Before a new assignment, and when the consumer
is closed, they are stored at once. One thread at a time may call; the consumer enforces this.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from logstore.batch._batch import RecordIterator
from logstore.client.backend.backend import Backend
from logstore.client.backend.membership import GroupMembership
from logstore.client.partition_position import PartitionPosition
from logstore.client.subscription import Subscription
from logstore.config.client import ConsumerConfig
from logstore.errors import GroupFencedError, InvalidGroupError, LogstoreError, UnknownTopicError
from logstore.groups.offsets import OffsetAndMetadata, check_group
from logstore.records import Ack, TopicPartition

_logger = logging.getLogger(__name__)


class Commits:
    """The offsets that one consumer stores for its group."""

    def __init__(self, backend: Backend, config: ConsumerConfig, subscription: Subscription) -> None:
        self._backend = backend
        self._clock = backend.clock
        self._offsets = offsets = backend.offsets
        self._subscription = subscription
        self.group = config.group_id
        self.are_automatic = bool(self.group) and config.enable_auto_commit
        self.member: GroupMembership | None = None  #: set while the group assigns the partitions
        self._interval_s = config.auto_commit_interval_ms / 1000
        if self.group:
            check_group(self.group)
            if self.are_automatic:
                offsets.check_writable(self.group)
        self._committed_s = self._clock.monotonic_s()
        self._renewed_s = self._committed_s

    def named_group(self) -> str:
        """Return the name of the group.

        Raises:
            InvalidGroupError: the consumer has no group.
        """
        if not self.group:
            raise InvalidGroupError("the consumer has no group; open it with store.consumer(group='name')")
        return self.group

    def store(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None, ack: Ack | str | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Store these offsets, by default the position in each partition; see `Consumer.commit`."""
        group = self.named_group()
        partitions = self._subscription.partitions
        if offsets is None:
            self._subscription.check_assigned()
            offsets = {name: each.position for name, each in partitions.items() if each.position >= 0}
        given = {
            TopicPartition(*name): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
            for name, each in offsets.items()
        }
        self._commit(group, {name: self._of_its_topic(name, each) for name, each in given.items()}, ack)
        for name, each in given.items():
            partition = partitions.get(name)
            if partition is not None:
                partition.stored = each.offset
                # Records below the stored offset count as processed. Otherwise the next automatic commit could
                # store a smaller offset.
                partition.done = max(partition.done, each.offset)
        return given

    def stored(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of the group in each partition; None if there is none."""
        names = list(names)
        found = self._offsets.committed(self.named_group(), names)
        return {name: found.get(name) for name in names}

    def settle(self) -> None:
        """Commit the records returned before, if automatic commits are on and the interval has passed.

        Called when more records are requested: the earlier ones then count as processed. In a store that is open
        read-only, each quarter of ``offsets.retention.minutes`` the group's offsets are stored again.
        """
        if not self.group:
            return
        now_s = self._clock.monotonic_s()
        renew_s = self._offsets.renew_s if self.member is None else None
        if renew_s is not None and now_s - self._renewed_s >= renew_s:
            self._renewed_s = now_s
            self._renew()
        if not self.are_automatic:
            return
        self._settle_all()
        if now_s - self._committed_s >= self._interval_s:
            self._committed_s = now_s
            self._commit_processed()

    def settle_now(self) -> None:
        """Commit all returned records if automatic commits are on; before a new assignment, and at close."""
        if self.are_automatic:
            self._settle_all()
            self._commit_processed()

    def settle_all_but_the_last(self, handed: RecordIterator | None) -> None:
        """Commit when the consumer is closed after an error, if automatic commits are on.

        ``handed`` are the records that a loop was reading. The last one that the loop got does not count as
        processed; the earlier ones do.
        The records of a list from `poll` do not count, since the number of processed ones is unknown.
        """
        if not self.are_automatic:
            return
        for partition in self._subscription.turns:
            run = partition.run
            if run is not None and run is handed and not run.exhausted:
                partition.done = max(partition.done, run.position - 1)
        self._commit_processed()

    def _settle_all(self) -> None:
        for partition in self._subscription.turns:
            partition.done = partition.position

    def _commit_processed(self) -> None:
        news = {
            each.name: OffsetAndMetadata(each.done, topic_id=each.topic_id)
            for each in self._subscription.turns
            if each.done >= 0 and each.done != each.stored and not self._is_another_topic(each)
        }
        if news:
            try:
                self._commit(self.group, news, None)
            except LogstoreError as error:
                if self.member is None or not _is_of_the_group(error):
                    raise
                # The group divides its partitions, or has done so without this consumer: read again.
                _logger.warning("not committed: group=%s error=%s", self.group, error)
                return
            for name, commit in news.items():
                self._subscription.partitions[name].stored = commit.offset

    def _commit(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], ack: Ack | str | None
    ) -> None:
        if self.member is None:
            self._offsets.commit(group, offsets, ack=ack)
        else:
            self.member.commit(offsets)

    def _renew(self) -> None:
        """Store the group's committed offsets of the assigned partitions again, so that they do not expire.

        The process that writes the store does not know the consumers of other processes. Without this it would
        delete their offsets after ``offsets.retention.minutes``.
        """
        names = [
            each.name for each in self._subscription.turns if each.stored >= 0 and not self._is_another_topic(each)
        ]
        try:
            found = self._offsets.committed(self.group, names)
            if found:
                self._offsets.commit(
                    self.group, {name: commit._replace(commit_ms=-1) for name, commit in found.items()}
                )
        except LogstoreError as error:
            # A failed renewal is not fatal: two retries follow before the offsets expire.
            _logger.warning("offsets not renewed: group=%s error=%s", self.group, error)

    def _of_its_topic(self, name: TopicPartition, given: OffsetAndMetadata) -> OffsetAndMetadata:
        """Return the commit with its topic's id, so that it does not apply to a later topic of the same name."""
        partition = self._subscription.partitions.get(name)
        if partition is None or given.topic_id:
            return given
        self._subscription.rules.check_exists(partition)
        return given._replace(topic_id=partition.topic_id)

    def _is_another_topic(self, partition: PartitionPosition) -> bool:
        """Return whether the partition's topic was deleted; a topic of the same name may exist again."""
        try:
            return self._backend.facts(partition.name.topic).id != partition.topic_id
        except UnknownTopicError:
            # An error here would keep the offsets of the other topics from being committed.
            return True


def _is_of_the_group(error: LogstoreError) -> bool:
    """Tell whether an error says that the group's partitions are being divided, or were without this consumer."""
    return isinstance(error, GroupFencedError) or getattr(error, "name", "") == "REBALANCE_IN_PROGRESS"
