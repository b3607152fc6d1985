"""Committed offsets of a store's consumer groups, kept in ``__consumer_offsets``.

This module is responsible for appending to that topic and replaying it. The memory holds
the newest record for each key; a store that is open read-only replays the topic too and follows its writer.
Records and partitions are Kafka's (`logstore.groups.offsets`), so a broker on the same directory finds the
groups, and groups of an earlier broker are found here. Any thread may call.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Protocol

from logstore.client.backend.group_offsets import GroupOffsets
from logstore.client.backend.source import Opened, Source
from logstore.config.log import Setting
from logstore.config.store import StoreConfig
from logstore.errors import (
    CorruptRecordError,
    DiskFullError,
    LogstoreError,
    OffsetOutOfRangeError,
    ReadOnlyError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.groups.offsets import (
    OffsetAndMetadata,
    OffsetKey,
    check_commit,
    check_group,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    partition_of,
)
from logstore.io._interrupts import held
from logstore.log import Log
from logstore.records import Ack, Isolation, NewTopic, TopicPartition
from logstore.topic_names import CONSUMER_OFFSETS

_logger = logging.getLogger(__name__)

#: How often a partition is read again because it is truncated concurrently; then the last result is used.
_ATTEMPTS = 8

_Group = dict[TopicPartition, OffsetAndMetadata]


class _Partition:
    """The state of one partition of the topic, as far as it was replayed."""

    __slots__ = ("generation", "groups", "read_to")

    def __init__(self, generation: int, read_to: int) -> None:
        self.groups: dict[str, _Group] = {}
        self.generation = generation
        self.read_to = read_to

    def apply(self, key: OffsetKey, found: OffsetAndMetadata | None) -> None:
        if found is not None:
            self.groups.setdefault(key.group, {})[key.partition] = found
            return
        group = self.groups.get(key.group, {})
        group.pop(key.partition, None)
        if not group:
            self.groups.pop(key.group, None)


class CommitWriter(Protocol):
    """The process that writes a store, as the target of a reader's commits."""

    def check(self) -> None:
        """Raise `LogstoreError` if no commit could ever reach the writer."""

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        ack: Ack | None,
        at_ms: int,
    ) -> None:
        """Store a group's offsets; delete those of partitions with None. ``at_ms``: the time of the request."""


class CommittedOffsets(GroupOffsets):
    """The committed offsets of every group of a store.

    Owns: only memory; the logs are the store's.
    """

    def __init__(
        self, source: Source, config: StoreConfig | None = None, writer: CommitWriter | None = None
    ) -> None:
        """Use the store's ``offsets.*`` settings, and ``writer`` to store commits where the source is read-only."""
        self._source = source
        self._config = StoreConfig() if config is None else config
        self._writer = writer
        #: By broker that serves the store: the partitions that the topic gets if it is made now.
        self._served: dict[object, int] = {}
        self.retention_ms = self._config.offsets_retention_minutes * 60_000
        self._lock = threading.Lock()
        self._partitions: dict[int, _Partition] = {}
        self._holders: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()

    @property
    def renew_s(self) -> float | None:
        # Where another process writes, it does not know the consumers of this one.
        return self.retention_ms / 4000 if self._source.read_only else None

    # -- asking

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, of these partitions or of all.

        A partition without a commit is left out, and so is a commit for an earlier topic of the same name.

        Raises:
            InvalidGroupError: the group's name cannot be used.
            CorruptRecordError: a record of ``__consumer_offsets`` cannot be read; names its position.
        """
        check_group(group)
        with held(self._lock):
            found = self._group_locked(group)
            wanted = list(found if partitions is None else partitions)
            found = {partition: found[partition] for partition in wanted if partition in found}
        return {partition: commit for partition, commit in found.items() if self._is_of_today(partition, commit)}

    def groups(self) -> list[str]:
        """Return every group that has committed an offset, ordered by name."""
        with held(self._lock):
            return sorted(name for part in self._caught_up_locked().values() for name in part.groups)

    def _is_of_today(self, partition: TopicPartition, commit: OffsetAndMetadata) -> bool:
        if not commit.topic_id:
            return True
        try:
            return self._source.topic_id(partition.topic) in ("", commit.topic_id)
        except UnknownTopicError:
            # Deleted since, or not created yet: a read of the topic raises then.
            return True

    # -- committing

    def check_writable(self, group: str) -> None:
        """Raise if a group could never commit, before it has read anything.

        Raises:
            ReadOnlyError: the source is read-only, and its directory is Kafka's, or cannot be written.
        """
        if not self._source.read_only:
            return
        if self._writer is None:
            raise ReadOnlyError(f"group {group!r} cannot commit: the store is open read-only")
        try:
            self._writer.check()
        except LogstoreError as error:
            raise ReadOnlyError(
                f"group {group!r} cannot commit: {error}; give enable_auto_commit=False and keep offsets elsewhere "
                "(logstore.client.dbapi)"
            ) from error

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        ack: Ack | str | None = None,
        asked_ms: int | None = None,
    ) -> None:
        """Store the next offsets that a group has to read: all of them, or on an error none.

        With ``ack="written"`` they survive the process on return, with ``"synced"`` power loss; the default
        is the topic's ``logstore.ack``. With ``asked_ms`` offsets committed after that time are kept.

        Raises:
            InvalidGroupError, InvalidOffsetError, OffsetMetadataTooLargeError: nothing is stored.
            UnknownTopicError, UnknownPartitionError: there is no such partition. Nothing is stored.
            OwnerTimeoutError: the store is open read-only here, and the process that writes it does not answer.
            ReadOnlyError: read-only here, without a writer; this process may not write. Nothing is stored.
            DiskFullError: the disk is full. Nothing is stored; retry when there is space.
            StorageFailedError: the log of ``__consumer_offsets`` takes no more writes.
        """
        check_group(group)
        now = self._source.clock.now_ms()
        commits: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for place, given in offsets.items():
            partition = TopicPartition(*place)
            commit = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
            check_commit(partition, commit, self._config.offset_metadata_max_bytes)
            topic_id = self._check_place(partition)
            commits[partition] = commit._replace(
                commit_ms=now if commit.commit_ms < 0 else commit.commit_ms,
                topic_id=commit.topic_id or topic_id,
                leader_epoch=self._epoch_before(partition, commit),
            )
        if commits:
            self._write(group, commits, ack, asked_ms=asked_ms)

    def delete(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        ack: Ack | str | None = None,
        asked_ms: int | None = None,
    ) -> int:
        """Delete a group's offsets, of these partitions or all; return how many there were. Durable as `commit`.

        Raises:
            OwnerTimeoutError, ReadOnlyError, DiskFullError, StorageFailedError: as `commit`.
        """
        check_group(group)
        with held(self._lock):
            found = self._group_locked(group)
            gone = [partition for partition in (found if partitions is None else partitions) if partition in found]
        if gone:
            self._write(group, dict.fromkeys(gone), ack, asked_ms=asked_ms)
        return len(gone)

    def forget_topic(self, topic: str, topic_id: str = "") -> int:
        """Delete every group's offsets of a topic that was deleted; return how many.

        With ``topic_id`` offsets of a later topic of that name are kept.
        """
        with held(self._lock):
            found = self._all_locked()
        ids = ("", topic_id)
        return self._forget(
            {
                key: commit
                for key, commit in found
                if key.partition.topic == topic and (not topic_id or commit.topic_id in ids)
            }
        )

    def expire(self, now_ms: int | None = None) -> int:
        """Delete offsets older than offsets.retention.minutes; return how many.

        A group that has a consumer in this process keeps all of them, however old.
        """
        now = self._source.clock.now_ms() if now_ms is None else now_ms
        # `values` would fail if a thread adds a holder concurrently.
        kept = {self._holders.get(holder) for each in self._holders.keyrefs() if (holder := each()) is not None}
        with held(self._lock):
            found = self._all_locked()
        gone = {key: commit for key, commit in found if key.group not in kept and self._expiry_of(commit) <= now}
        if gone:
            _logger.info("offsets expired: count=%d", len(gone))
        return self._forget(gone)

    def _expiry_of(self, commit: OffsetAndMetadata) -> int:
        return commit.expire_ms if commit.expire_ms >= 0 else commit.commit_ms + self.retention_ms

    def pin(self, group: str, holder: object) -> None:
        """Keep a group's offsets from expiring as long as ``holder`` lives and has not released them."""
        self._holders[holder] = group

    def unpin(self, holder: object) -> None:
        """End `pin`. May be called again."""
        self._holders.pop(holder, None)

    # -- the topic

    def _count(self) -> int:
        """Return the number of the topic's partitions; 0 if there is none yet."""
        try:
            return self._source.partition_count(CONSUMER_OFFSETS)
        except UnknownTopicError:
            return 0

    def begin_serving(self, broker: object, partitions: int) -> None:
        """Make the topic with so many partitions, Kafka's default, while a broker serves the store."""
        self._served[broker] = partitions

    def end_serving(self, broker: object) -> None:
        """End `begin_serving`: other brokers may still serve the store. May be called again."""
        self._served.pop(broker, None)

    def topic(self) -> NewTopic:
        """Return the topic as it is made: as Kafka makes it, with segments small enough to be compacted soon."""
        partitions = max(self._served.values(), default=self._config.offsets_topic_num_partitions)
        settings: dict[str, Setting] = {
            "cleanup.policy": "compact",
            "segment.bytes": self._config.offsets_topic_segment_bytes,
            "compression.type": "producer",
        }
        return NewTopic(CONSUMER_OFFSETS, partitions, 1, settings)

    def _create(self) -> int:
        new = self.topic()
        self._source.create_topic(new.name, new.partitions, new.settings, if_not_exists=True)
        return self._count()

    def _epoch_before(self, partition: TopicPartition, commit: OffsetAndMetadata) -> int:
        """Return the epoch of the last record read: it tells later whether that record is still the same one."""
        if commit.leader_epoch >= 0 or not commit.offset:
            return commit.leader_epoch
        return self._source._log_of(*partition)._epoch_before(commit.offset)

    def _check_place(self, partition: TopicPartition) -> str:
        """Return the id of a partition's topic; raise if there is no such partition."""
        count = self._source.partition_count(partition.topic)
        if not 0 <= partition.partition < count:
            raise UnknownPartitionError(
                f"topic {partition.topic!r} has partitions 0 to {count - 1}, none with number {partition.partition}"
            )
        return self._source.topic_id(partition.topic)

    def _forget(self, doomed: Mapping[OffsetKey, OffsetAndMetadata]) -> int:
        """Delete these commits, except those replaced concurrently."""
        groups: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        for key, commit in doomed.items():
            groups.setdefault(key.group, {})[key.partition] = commit
        for group, commits in groups.items():
            self._write(group, dict.fromkeys(commits), None, instead_of=commits)
        return len(doomed)

    def _write(
        self,
        group: str,
        commits: Mapping[TopicPartition, OffsetAndMetadata | None],
        ack: Ack | str | None,
        *,
        instead_of: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        asked_ms: int | None = None,
    ) -> None:
        """Append commits. With ``instead_of``, only for partitions that still have this commit; with ``asked_ms``,
        only for those that have no later one.
        """
        source = self._source
        if source.read_only:
            if self._writer is None or instead_of is not None:
                raise ReadOnlyError(f"offsets of group {group!r} cannot be stored: the store is open read-only")
            self._writer.commit(group, commits, None if ack is None else Ack(ack), source.clock.now_ms())
            return
        count = self._count() or self._create()
        number = partition_of(group, count)
        log = source._log_of(CONSUMER_OFFSETS, number)
        assert isinstance(log, Log)
        settled = log._config.default_ack if ack is None else Ack(ack)
        with held(self._lock):
            part = self._caught_up_locked()[number]
            known = part.groups.get(group, {})
            if instead_of is not None:
                commits = {each: commits[each] for each, seen in instead_of.items() if known.get(each) == seen}
            if asked_ms is not None:
                # A commit time in the future comes from a clock that was set back; it must not block others.
                later = range(asked_ms + 1, source.clock.now_ms() + 1)
                commits = {
                    each: commit
                    for each, commit in commits.items()
                    if each not in known or known[each].commit_ms not in later
                }
            if not commits:
                return
            keys = {partition: OffsetKey(group, partition) for partition in commits}
            records = [
                (encode_key(keys[partition]), None if commit is None else encode_value(commit))
                for partition, commit in commits.items()
            ]
            # The sync runs outside the lock, so that commits of many groups share one.
            result = log.append(records, timestamp=source.clock.now_ms(), ack=Ack.WRITTEN)
            if result.first_offset == part.read_to:
                for partition, commit in commits.items():
                    part.apply(keys[partition], commit)
                part.read_to = result.last_offset + 1
        if settled is Ack.SYNCED:
            log.flush()

    def _group_locked(self, group: str) -> _Group:
        parts = self._caught_up_locked()
        return parts[partition_of(group, len(parts))].groups.get(group, {}) if parts else {}

    def _all_locked(self) -> list[tuple[OffsetKey, OffsetAndMetadata]]:
        return [
            (OffsetKey(group, partition), commit)
            for part in self._caught_up_locked().values()
            for group, commits in part.groups.items()
            for partition, commit in commits.items()
        ]

    def _caught_up_locked(self) -> dict[int, _Partition]:
        """Return the topic's current state, reading only the records added since."""
        for number in range(self._count()):
            try:
                log = self._source._log_of(CONSUMER_OFFSETS, number)
            except DiskFullError:
                # A commit that found the disk full may have made the topic, and not its first log.
                if self._source.is_unused(CONSUMER_OFFSETS):
                    return {}
                raise
            part = self._partitions.get(number)
            if part is None:
                self._partitions[number] = part = _Partition(log.replica.generation, log.log_start_offset)
            for left in reversed(range(_ATTEMPTS)):
                if part.generation != log.replica.generation:
                    # A truncation or the writer's crash may have removed records that were applied here.
                    self._partitions[number] = part = _Partition(log.replica.generation, log.log_start_offset)
                try:
                    _follow(log, part)
                except OffsetOutOfRangeError:
                    part.generation = -1
                    if not left:
                        raise
                    _logger.info("committed offsets are read again: log=%s read_to=%d", log.path, part.read_to)
                    continue
                # A truncation or a compaction's segment swap during the read makes its result unusable.
                if part.generation == log.replica.generation:
                    break
        return self._partitions


def _follow(log: Opened, part: _Partition) -> None:
    """Apply the records after the last one that was applied."""
    end = log.end_offset(Isolation.READ_COMMITTED)  # read once: another process may commit as fast as this reads
    while part.read_to < end:
        batches = log.read(part.read_to, isolation=Isolation.READ_COMMITTED)
        for record in batches:
            try:
                key = decode_key(record.key)
                if key is not None:
                    part.apply(key, None if record.value is None else decode_value(record.value))
            except CorruptRecordError as error:
                raise CorruptRecordError(str(error), path=log.path, offset=record.offset) from error
        if batches.next_offset <= part.read_to:
            return
        part.read_to = batches.next_offset


__all__ = ["CommittedOffsets", "OffsetAndMetadata"]
