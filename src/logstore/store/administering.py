"""Management of a store's topics: create, describe, alter, grow and delete them.

The half of `Store` that changes the catalogue; `topics` is responsible for doing that safely. Any thread may call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Unpack, cast

from logstore.config.log import LogConfig, Setting, canonical, canonical_keys
from logstore.config.schema import naming_arguments
from logstore.config.store import warn_of_unkept
from logstore.errors import PolicyViolationError
from logstore.io._interrupts import shielded
from logstore.log import Log
from logstore.store.catalog.topics import Topics, TopicTable, is_retention_unrecorded
from logstore.store.maintenance.disk_quota import DiskQuota, may_go
from logstore.store.topic import Topic
from logstore.topic_names import INTERNAL, SINKS

if TYPE_CHECKING:
    from logstore.client.backend import Opened, Source
    from logstore.client.offsets import CommittedOffsets
    from logstore.config.generated_keywords import LogSettings, TopicChanges
    from logstore.config.store import StoreConfig
    from logstore.store.catalog.topic_list import Catalogue


class PartitionDescription(NamedTuple):
    """State of one partition. Offsets as of one moment; ``size`` is bytes of segments, without indexes."""

    partition: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int
    segment_count: int


class TopicDescription(NamedTuple):
    """A topic as it is now: ``settings`` are its own, ``config`` all that hold for its logs."""

    name: str
    id: str
    partitions: tuple[PartitionDescription, ...]
    settings: Mapping[str, str]
    config: LogConfig
    internal: bool
    created_ms: int
    #: False for a topic made before retention was recorded, which is kept for ever: set ``retention.ms``.
    retention_recorded: bool = True


class Administering(ABC):
    """A `Source` whose topics can be managed."""

    config: StoreConfig
    _table: TopicTable
    _disk_quota: DiskQuota

    # -- supplied by the store

    @property
    @abstractmethod
    def offsets(self) -> CommittedOffsets:
        """The committed offsets of every group."""

    @abstractmethod
    def topic(self, name: str) -> Topic:
        """Return a topic by its name."""

    @abstractmethod
    def partition(self, topic: str, partition: int, *, topic_id: str | None = None) -> Opened:
        """Return one partition's log."""

    @abstractmethod
    def __contains__(self, name: object) -> bool: ...

    @property
    @abstractmethod
    def _topics(self) -> Topics:
        """The catalogue, for writing."""

    @abstractmethod
    def _tell_consumers(self) -> None:
        """Wake waiting consumers, so that they look for partitions that were added to a topic."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the store is closed."""

    @abstractmethod
    def _check_writable(self) -> None:
        """Raise if the store is closed or read-only."""

    # -- topics

    @naming_arguments
    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        settings: Mapping[str, Setting] | None = None,
        *,
        if_not_exists: bool = False,
        **more_settings: Unpack[LogSettings],
    ) -> Topic:
        """Create a topic. Durable on return; on an error nothing of it is left.

        ``partitions`` is 1 to 10,000, by default ``num.partitions``. ``settings`` are Kafka's topic settings
        by their dotted keys, ``more_settings`` the same with underscores; what is not set follows the store. Unless
        either says otherwise, records are kept for ever; by a store that was opened with a ``server.properties``
        a topic is made with the retention that Kafka would give it.
        With ``if_not_exists`` a topic that exists is returned as it is.

        Raises:
            TopicExistsError: there is one of that name.
            InvalidTopicError: the name breaks Kafka's rule.
            InvalidPartitionsError, ConfigError: a number or a setting is out of range; all are named.
            DiskFullError, StorageError: the disk refused.
            ReadOnlyError: the store is open read-only.
        """
        self._check_writable()
        own = {**(settings or {}), **cast("Mapping[str, Setting]", more_settings)}
        count = self.config.num_partitions if partitions is None else partitions
        entry = shielded(self._topics.create, name, count, own, if_not_exists=if_not_exists)
        warn_of_unkept(canonical(own))
        return Topic(cast("Source", self), name, entry.id)

    def topic_to_send_to(self, name: str) -> Topic:
        """Return a topic by its name, made if there is none and ``auto.create.topics.enable`` is true.

        Raises:
            UnknownTopicError: there is none, and none is made.
            InvalidTopicError, StorageError: as `create_topic`.
        """
        if self.config.auto_create_topics_enable and name not in self:
            return self.create_topic(name, if_not_exists=True)
        return self.topic(name)

    def _topics_known(self) -> Catalogue:
        """Return the catalogue of all topics: another object after each change."""
        self._check_open()
        return self._table.catalogue

    def describe_topic(self, name: str) -> TopicDescription:
        """Describe a topic: its partitions with their offsets and sizes, and its settings.

        Raises:
            UnknownTopicError: there is none.
        """
        self._check_open()
        entry = self._table.entry(name)
        partitions = []
        for number in range(entry.partitions):
            log = self.partition(name, number)
            partitions.append(
                PartitionDescription(
                    number,
                    log.log_start_offset,
                    log.high_watermark,
                    log.log_end_offset,
                    log.size,
                    log.segment_count,
                )
            )
        return TopicDescription(
            name,
            entry.id,
            tuple(partitions),
            dict(entry.settings),
            self._table.config_of(name),
            name in INTERNAL,
            entry.created_ms,
            not is_retention_unrecorded(name, entry, self._table.config_of(name)),
        )

    @naming_arguments
    def alter_topic(
        self,
        name: str,
        settings: Mapping[str, Setting] | None = None,
        *,
        drop_keyless: bool = False,
        **more_settings: Unpack[TopicChanges],
    ) -> Mapping[str, str]:
        """Change settings of a topic, also while it is used; None resets a key to the topic's default.

        Durable on return. Returns the topic's own settings as they are now. Compaction deletes records without a
        key: a topic that has any is made a compacted one only with ``drop_keyless``. Without it, its keys are read
        up to the first record that has none.

        Raises:
            UnknownTopicError: there is none.
            ConfigError: a setting is unknown or out of range, or cannot change while the topic is open.
                Nothing was changed.
            PolicyViolationError: compaction would delete records that have no key. Nothing was changed.
            InvalidSettingError: more than ``logstore.disk.budget`` would have to be kept. Nothing was changed.
        """
        self._check_writable()
        changes = {**(settings or {}), **cast("Mapping[str, Setting]", more_settings)}
        after, own = self._topics.altered(name, changes)
        if self._disk_quota.limits.is_set:
            chosen = self._topics.is_retention_chosen(name, own)
            self._disk_quota.check_pinned(
                lambda topic, config: (
                    may_go(topic, after, chosen=chosen) if topic == name else self._disk_quota.may_go(topic, config)
                )
            )
        if after.compacts and not self._topics.config_of(name).compacts and not drop_keyless:
            # Read all keys before the catalogue is locked; `alter` checks the records that are appended meanwhile.
            for number in range(self._topics.entry(name).partitions):
                log = self.partition(name, number)
                assert isinstance(log, Log), log
                log.check_keys()
        altered = shielded(self._topics.alter, name, changes, drop_keyless=drop_keyless).settings
        changed = canonical_keys(changes)
        warn_of_unkept({key: value for key, value in altered.items() if key in changed})
        return dict(altered)

    def add_partitions(self, name: str, total: int) -> Topic:
        """Give a topic more partitions, up to ``total``, while it is used. Durable on return.

        Existing records stay where they are: a key may go to another partition from now on. Consumers
        that were assigned the topic by its name read the new partitions too, from offset 0.

        Raises:
            UnknownTopicError: there is none.
            InvalidPartitionsError: the topic has as many already.
        """
        self._check_writable()
        shielded(self._topics.grow, name, total)
        self._tell_consumers()
        return self.topic(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records. It is gone for good on return; its consumers get an error.

        Raises:
            UnknownTopicError: there is none.
            PolicyViolationError: ``delete.topic.enable`` is false, or the store needs it.
            StorageError: some files are still there; the topic is deleted, the next open removes them.
        """
        self._check_writable()
        if not self.config.delete_topic_enable:
            raise PolicyViolationError(
                f"topic {name!r} cannot be deleted: delete.topic.enable is false in this store"
            )
        if name == SINKS:
            raise PolicyViolationError(
                f"topic {name!r} cannot be deleted: without it, committed batches would be ingested again"
            )
        entry = shielded(self._topics.delete, name)
        # Last: a crash before it leaves offsets that do no harm, since each names the id of its topic.
        self.offsets.forget_topic(name, entry.id)
