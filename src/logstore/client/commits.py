"""Commits of one consumer: which records count as processed, and when their offsets are stored.

With ``enable.auto.commit`` an offset is stored once the records below it have been handed out and the next ones
are asked for, at the earliest every ``auto.commit.interval.ms``. Used by one thread at a time, which the consumer
enforces.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from logstore.batch._batch import RecordIterator
from logstore.client.backend import Source
from logstore.client.offsets import CommittedOffsets
from logstore.client.partition_position import PartitionPosition
from logstore.client.subscription import Subscription
from logstore.config.client import ConsumerConfig
from logstore.errors import InvalidGroupError, LogstoreError, UnknownTopicError
from logstore.groups.offsets import OffsetAndMetadata, check_group
from logstore.records import Ack, TopicPartition

_logger = logging.getLogger(__name__)


class Commits:
    """The offsets that one consumer stores for its group."""

    def __init__(
        self, store: Source, config: ConsumerConfig, offsets: CommittedOffsets, subscription: Subscription
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._offsets = offsets
        self._subscription = subscription
        self.group = config.group_id
        self.are_automatic = bool(self.group) and config.enable_auto_commit
        self._interval_s = config.auto_commit_interval_ms / 1000
        if self.group:
            check_group(self.group)
            if self.are_automatic:
                offsets.check_writable(self.group)
        self._committed_s = self._clock.monotonic_s()
        self._renew_s = self._committed_s + offsets.retention_ms / 4000

    def named_group(self) -> str:
        """Return the group.

        Raises:
            InvalidGroupError: the consumer has none.
        """
        if not self.group:
            raise InvalidGroupError("the consumer has no group; open it with store.consumer(group='name')")
        return self.group

    def store(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None, ack: Ack | str | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Store these offsets, by default those after every record that was handed out; see `Consumer.commit`."""
        group = self.named_group()
        partitions = self._subscription.partitions
        if offsets is None:
            self._subscription.check_assigned()
            offsets = {name: each.position for name, each in partitions.items() if each.position >= 0}
        given = {
            TopicPartition(*name): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
            for name, each in offsets.items()
        }
        self._offsets.commit(group, {name: self._of_its_topic(name, each) for name, each in given.items()}, ack=ack)
        for name, each in given.items():
            partition = partitions.get(name)
            if partition is not None:
                partition.stored = each.offset
                # An explicitly committed offset counts as processed: a smaller one at the end would undo it.
                partition.done = max(partition.done, each.offset)
        return given

    def stored(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; None where there is none."""
        names = list(names)
        found = self._offsets.committed(self.named_group(), names)
        return {name: found.get(name) for name in names}

    def settle(self) -> None:
        """Count the records handed out as processed, since the caller asks for more, and commit when it is time."""
        if not self.group:
            return
        now_s = self._clock.monotonic_s()
        if self._store.read_only and now_s >= self._renew_s:
            self._renew_s = now_s + self._offsets.retention_ms / 4000
            self._renew()
        if not self.are_automatic:
            return
        self._settle_all()
        if now_s - self._committed_s >= self._interval_s:
            self._committed_s = now_s
            self._commit_processed()

    def settle_now(self) -> None:
        """Count the records handed out as processed and commit: before others are assigned, and at the end."""
        if self.are_automatic:
            self._settle_all()
            self._commit_processed()

    def settle_all_but_the_last(self, handed: RecordIterator | None) -> None:
        """Commit after an error: all but the last record of the interrupted loop over ``handed`` are processed.

        How far the caller came in a list returned by `poll` is unknown, so none of it counts.
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
            self._offsets.commit(self.group, news)
            for name, commit in news.items():
                self._subscription.partitions[name].stored = commit.offset

    def _renew(self) -> None:
        """Commit the group's offsets again. The writing process does not know consumers of other processes, and
        would expire the offsets after offsets.retention.minutes.
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
            # A failed renewal is not fatal: three more follow before the offsets expire.
            _logger.warning("offsets not renewed: group=%s error=%s", self.group, error)

    def _of_its_topic(self, name: TopicPartition, given: OffsetAndMetadata) -> OffsetAndMetadata:
        """Return the commit with its topic's id: a later topic of that name begins from scratch."""
        partition = self._subscription.partitions.get(name)
        if partition is None or given.topic_id:
            return given
        self._subscription.fetcher.check_exists(partition)
        return given._replace(topic_id=partition.topic_id)

    def _is_another_topic(self, partition: PartitionPosition) -> bool:
        """Tell whether the partition's topic was deleted, or created again."""
        try:
            return self._store.topic_id(partition.name.topic) != partition.topic_id
        except UnknownTopicError:
            # Nothing is left to commit for it, and the other topics' offsets are to be committed.
            return True
