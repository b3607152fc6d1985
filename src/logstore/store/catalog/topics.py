"""The topics of a store: creating, changing, growing and deleting them, each completely or not at all.

The catalogue is authoritative; directories follow it. A change that needs both is announced in the catalogue
first, durably, then made, then declared done. The next process that opens the root for writing settles what a
crash has left. It removes a topic that was only announced, since no call has returned it, and partitions that were
being added. It finishes a deletion.

`Topics` belongs to the writer, which holds the root; `FollowedTopics` reads the same file concurrently. The
catalogue is an immutable value: reading it takes no lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from logstore.clock import Clock
from logstore.config.log import LogConfig, Setting, canonical, canonical_keys
from logstore.config.store import KEEPING, StoreConfig
from logstore.errors import (
    InvalidPartitionsError,
    LogClosedError,
    LogstoreError,
    NotALogError,
    PolicyViolationError,
    StorageError,
    TopicDeletedError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.groups.offsets import is_whole
from logstore.io._interrupts import held
from logstore.log import Log
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import LogKind
from logstore.log.root import ADOPTED, is_kafkas
from logstore.records import NewTopic, TopicPartition
from logstore.store.catalog import layout
from logstore.store.catalog.catalogue_file import CatalogueFollower, CatalogueWriter
from logstore.store.catalog.reserve import Reserve
from logstore.store.catalog.topic_list import (
    FIRST_PRODUCER_ID,
    Catalogue,
    TopicEntry,
    TopicState,
    new_id,
)
from logstore.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    INTERNAL,
    SINKS,
    check_is_name,
    check_names,
    check_partition_count,
    look_of,
)

if TYPE_CHECKING:
    import random

    from logstore.log.root import StoreLock
    from logstore.store.catalog.partitions import Partitions

_logger = logging.getLogger(__name__)

#: How many producer ids are reserved at a time, so that few of them cost a write of the catalogue (as in Kafka).
PRODUCER_ID_BLOCK = 1000

#: The records of which a topic of the store's own keeps the newest.
_NEWEST_OF = {CONSUMER_OFFSETS: "offset of each group", SINKS: "batch of each sink"}

#: Errors for a caller that still uses the logs of a topic that was deleted, or made again.
DELETED = "its topic was deleted; store.topics() names those that there are"
REPLACED = "its topic was deleted and another one has its name; ask the store for the topic again"

#: The number of partitions of new topics whose directories are made durable together.
_MADE_TOGETHER = 64

#: A store with more topics than this names none of them in an error.
_MOST_NAMED = 1_000

#: Different settings of topics that are kept parsed, some hundred bytes each.
_KEPT_CONFIGS = 1_000

_THERE = (TopicState.READY, TopicState.GROWING)


def _check_internal(name: str, config: LogConfig) -> None:
    """Refuse settings under which the newest record of a group, or of a sink, could be deleted."""
    if name in _NEWEST_OF and (not config.compacts or config.deletes):
        raise PolicyViolationError(
            f"topic {name!r} holds the newest {_NEWEST_OF[name]}: its cleanup.policy is compact, and nothing else"
        )


RETENTION_UNRECORDED = "made before retention was recorded: it is kept for ever"

#: Retention of a topic that no user has set.
FOR_EVER: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
)


def settings_unknown(name: str) -> dict[str, str]:
    """Return the settings of a topic whose own are lost: nothing of it is deleted until its user sets retention."""
    if name in INTERNAL:
        return {"cleanup.policy": "compact"}
    return dict(FOR_EVER)


def effective_config(
    config: StoreConfig, entry: TopicEntry, settings: Mapping[str, Setting] | None = None
) -> LogConfig:
    """Return all settings of a topic: its own, or ``settings`` instead; the store's; its recorded defaults.

    A topic of an older catalogue has no recorded defaults: it is kept for ever.
    """
    defaults = FOR_EVER if entry.defaults is None else entry.defaults
    return LogConfig.of({**defaults, **config.said_of_logs(), **(entry.settings if settings is None else settings)})


def is_retention_unrecorded(name: str, entry: TopicEntry, config: LogConfig) -> bool:
    """Return whether a topic was made before retention was recorded, and is kept for ever only because of that."""
    keeps = config.deletes and config.retention_ms < 0 and config.retention_bytes < 0
    return entry.defaults is None and keeps and name not in INTERNAL and "retention.ms" not in entry.settings


class TopicTable:
    """The topics of a store, for reading."""

    def __init__(self, root: Directory, config: StoreConfig, catalogue: Catalogue) -> None:
        self._root = root
        self._config = config
        #: As it is known now: another object after each change.
        self.catalogue = catalogue
        self._partitions: Partitions | None = None
        #: By defaults and settings of a topic: thousands of topics mostly have the same.
        self._configs: dict[tuple[object, ...], LogConfig] = {}

    def manage(self, partitions: Partitions) -> None:
        """Set the logs to be closed or changed when their topic is."""
        self._partitions = partitions

    def refresh(self) -> None:
        """Read the catalogue again if it has changed; a writer knows its own."""

    def names(self, *, internal: bool = False) -> list[str]:
        """Return every topic, sorted; those of the store itself only with ``internal``."""
        self.refresh()
        return sorted(
            name
            for name, entry in self.catalogue.topics.items()
            if entry.state in _THERE and (internal or name not in INTERNAL)
        )

    def find(self, name: str) -> TopicEntry | None:
        """Return a topic's entry, or None if there is no such topic now."""
        entry = self.catalogue.topics.get(name)
        return entry if entry is not None and entry.state in _THERE else None

    def entry(self, name: str, topic_id: str | None = None) -> TopicEntry:
        """Return a topic's entry.

        Raises:
            UnknownTopicError: there is no such topic, or the one with ``topic_id`` was deleted.
        """
        entry = self.find(name)
        if entry is None:
            check_is_name(name)
            self.refresh()
            entry = self.find(name)
        if entry is None:
            # Sorting thousands of names would cost a caller that only asks more than all its other work.
            many = len(self.catalogue.topics)
            known = f"{many} topics" if many > _MOST_NAMED else ", ".join(self.names()[:10]) or "none"
            gone = "any more: it was deleted" if topic_id else "in this store"
            raise UnknownTopicError(
                f"topic {name!r} does not exist {gone} (it has: {known}); create it with create_topic()",
                path=self._root.path,
            )
        if topic_id is not None and entry.id != topic_id:
            raise UnknownTopicError(
                f"topic {name!r} was deleted, and another of this name was made since; call store.topic() again",
                path=self._root.path,
            )
        return entry

    def entry_now(self, name: str, topic_id: str | None = None) -> TopicEntry:
        """Return `entry` as the catalogue has it at this moment. Raises as that does."""
        return self.entry(name, topic_id)

    def is_compaction_confirmed(self, name: str) -> bool:
        """Return whether a topic's own settings ask for compaction: its records were checked when they were set."""
        return "compact" in self.entry(name).settings.get("cleanup.policy", "")

    def check_partition(self, name: str, partition: int, topic_id: str | None = None) -> None:
        """Refuse a partition that the topic does not have.

        Raises:
            UnknownTopicError, UnknownPartitionError
        """
        entry = self.entry(name, topic_id)
        is_number = type(partition) is int or is_whole(partition)
        if is_number and not 0 <= partition < entry.partitions:
            self.refresh()
            entry = self.entry(name, topic_id)
        if not is_number or not 0 <= partition < entry.partitions:
            why = "" if is_number else ": a partition is an int"
            raise UnknownPartitionError(
                f"topic {name!r} has partitions 0 to {entry.partitions - 1}, none with number {partition!r}{why}"
            )

    def config_of(self, name: str) -> LogConfig:
        """Return the settings of a topic's logs: see `effective_config`.

        The store's own topics are compacted even if their settings are lost, as after a loss of the catalogue. The
        defaults would delete the newest record of a group or of a sink by age.
        """
        entry = self.entry(name)
        if name in INTERNAL and "cleanup.policy" not in entry.settings:
            return self.effective(entry, {**entry.settings, "cleanup.policy": "compact"})
        return self.effective(entry)

    def effective(self, entry: TopicEntry, settings: Mapping[str, Setting] | None = None) -> LogConfig:
        """Return all settings of a topic, with its own or with ``settings`` instead."""
        if settings is not None:
            return effective_config(self._config, entry, settings)
        key = (None if entry.defaults is None else tuple(entry.defaults.items()), tuple(entry.settings.items()))
        found = self._configs.get(key)
        if found is None:
            if len(self._configs) >= _KEPT_CONFIGS:
                self._configs.clear()
            found = self._configs[key] = effective_config(self._config, entry)
        return found

    def is_retention_chosen(self, name: str, settings: Mapping[str, str] | None = None) -> bool:
        """Return whether a topic's retention was set, or would be with these settings; else it is the default."""
        entry = self.find(name)
        own = settings if settings is not None or entry is None else entry.settings
        said = {*(own or ()), *self._config.said_of_logs(), *self._config.sources}
        return not said.isdisjoint(("retention.ms", "retention.bytes"))


class Topics(TopicTable):
    """The topics of a store that is open for writing."""

    def __init__(
        self,
        root: Directory,
        config: StoreConfig,
        clock: Clock,
        rng: random.Random | None,
        hold: StoreLock,
        names: list[str],
    ) -> None:
        """Read the catalogue; ``names`` are those in the root, listed under its lock."""
        self._clock = clock
        self._rng = rng
        self._hold = hold
        self._lock = threading.RLock()
        self._ids_left = range(0)
        #: The topics that there may be, by what `check_names` compares: a new one is compared with no other.
        self._by_look: dict[str, str] = {}
        #: Topics whose directories a power cut may take, see `make`.
        self._new: dict[str, None] = {}
        self.reserve = Reserve(root)
        self._file = CatalogueWriter(root)
        found = self._file.found
        fresh = found or Catalogue(
            cluster_id=layout.read_meta_properties(root).get("cluster.id") or new_id(rng),
            next_producer_id=FIRST_PRODUCER_ID,
            adopted=is_kafkas(root),
        )
        super().__init__(root, config, fresh)
        self._settle(found, names)
        for name, entry in self.catalogue.topics.items():
            self._by_look[look_of(name)] = name
            if not entry.is_synced:
                self._new[name] = None

    # -- recovery after a crash

    def _settle(self, found: Catalogue | None, names: list[str]) -> None:
        settled: dict[str, TopicEntry | None] = {}
        for name, entry in self.catalogue.topics.items():
            if entry.state in (TopicState.CREATING, TopicState.DELETING):
                settled[name] = None
            elif entry.state is TopicState.GROWING:
                settled[name] = entry.replace(state=TopicState.READY, target=0)
        before = self.catalogue
        if settled:
            doomed = {name: before.topics[name] for name, entry in settled.items() if entry is None}
            self._hold.root.forget(_partitions_of(doomed))
            for name in settled:
                entry = before.topics[name]
                first = entry.partitions if entry.state is TopicState.GROWING else 0
                count = layout.remove_partitions(self._root, name, range(first, _most(entry)))
                _logger.info("settled a topic: topic=%s state=%s removed=%d", name, entry.state.value, count)
            self._root.sync()
        catalogue = self._take_in(before.with_topics(settled), names)
        if catalogue != found:
            catalogue = self._file.replace(catalogue)
        else:
            catalogue = self._file.settle(catalogue, self.reserve.with_space)
        if catalogue.adopted and ADOPTED not in names:
            # Made by an earlier version, or the mark is lost: a log that is opened alone needs it.
            layout.mark_adopted(self._root)
        layout.write_meta_properties(self._root, catalogue.cluster_id, self._config.node_id, new_id(self._rng))
        self.catalogue = catalogue

    def _take_in(self, catalogue: Catalogue, names: list[str]) -> Catalogue:
        """Make topics of the logs below the root that the catalogue does not know.

        Single logs follow the store's settings. A topic that a store has created had settings, which an older
        catalogue, restored in place of the last one, does not have. So it is kept for ever. A topic with the id of
        a known one is left alone: it is a copy, or was moved.
        """
        numbers: dict[str, set[int]] = {}
        # Kafka's own metadata log of a directory that was adopted: it stays Kafka's.
        for name in files.logs_below(self._root, names, besides={*catalogue.topics, CLUSTER_METADATA}):
            numbers.setdefault(name.topic, set()).add(name.partition)
        for topic, found in sorted(numbers.items()):
            directories = [layout.partition_directory(self._root, TopicPartition(topic, n)) for n in sorted(found)]
            if not all(layout.is_ours(directory) for directory in directories):
                _logger.warning("passed over what is no log of ours: root=%s topic=%s", self._root.path, topic)
                continue
            known_id = next(filter(None, map(layout.read_partition_metadata, directories)), None)
            of = next((name for name, entry in catalogue.topics.items() if entry.id == known_id), None)
            if of is not None:
                # A copy, or moved: two topics of one id would be one to any code that uses ids.
                _logger.warning(
                    "passed over a copy of another topic: root=%s topic=%s of=%s", self._root.path, topic, of
                )
                continue
            count = max(found) + 1
            catalogue = catalogue.with_topic(
                topic,
                TopicEntry(
                    id=known_id or new_id(self._rng),
                    partitions=count,
                    settings=settings_unknown(topic) if known_id or topic in INTERNAL else {},
                    created_ms=self._clock.now_ms(),
                    defaults=FOR_EVER,
                ),
            )
            _logger.info("took in a topic: root=%s topic=%s partitions=%d", self._root.path, topic, count)
        return catalogue

    # -- changing

    def unchanged(self) -> held:
        """Hold off every change: no topic is made, changed or deleted until the lock is released."""
        return held(self._lock)

    def create(
        self, name: str, partitions: int, settings: Mapping[str, Setting], *, if_not_exists: bool = False
    ) -> TopicEntry:
        """Make a topic. Durable on return; on an error nothing of it is left."""
        return self.create_all([NewTopic(name, partitions, 1, settings)], if_not_exists=if_not_exists)[0]

    def create_all(
        self,
        wanted: Sequence[NewTopic],
        recorded: Mapping[str, str] = MappingProxyType({}),
        *,
        if_not_exists: bool = False,
    ) -> list[TopicEntry]:
        """Make topics together. Durable on return; on an error nothing of any is left.

        ``recorded`` are default values of `KEEPING` for these topics, which a store's own settings go before.
        """
        make = partial(self._create, wanted, recorded, if_not_exists=if_not_exists)
        return self.reserve.with_space(make) if any(each.name in INTERNAL for each in wanted) else make()

    def _create(
        self, wanted: Sequence[NewTopic], recorded: Mapping[str, str], *, if_not_exists: bool
    ) -> list[TopicEntry]:
        with held(self._lock):
            missing = [each for each in wanted if not self._is_there(each, if_not_exists)]
            known = self.catalogue.topics
            half_made = {each.name: known[each.name] for each in missing if each.name in known}
            alike = (self._by_look.get(look_of(each.name), "") for each in missing)
            check_names([each.name for each in missing], [name for name in alike if name in known])
            announced = {each.name: self._announced(each, recorded) for each in missing}
            if half_made:
                # An earlier call failed half way, as on a full disk: its directories would be in the way.
                self._remove_locked(half_made)
            for name, entry in announced.items():
                self._refuse_in_the_way(name, range(entry.partitions))
            if announced:
                self._make_locked(announced)
            return [self.catalogue.topics[each.name] for each in wanted]

    def check_new(self, wanted: NewTopic, recorded: Mapping[str, str] = MappingProxyType({})) -> LogConfig:
        """Return all settings that a new topic would have; create nothing.

        Raises what `create_all` would raise, without the disk's errors.
        """
        alike = self._by_look.get(look_of(wanted.name), "")
        check_names([wanted.name], [alike] if alike in self.catalogue.topics else [])
        self._is_there(wanted, if_not_exists=False)
        return self.effective(self._announced(wanted, recorded))

    def _is_there(self, wanted: NewTopic, if_not_exists: bool) -> bool:
        found = self.find(check_is_name(wanted.name))
        if found is not None and not if_not_exists:
            raise TopicExistsError(f"topic {wanted.name!r} exists already, with {found.partitions} partition(s)")
        return found is not None

    def _announced(self, wanted: NewTopic, recorded: Mapping[str, str]) -> TopicEntry:
        check_partition_count(wanted.partitions)
        entry = TopicEntry(
            id=new_id(self._rng),
            partitions=wanted.partitions,
            state=TopicState.CREATING,
            settings=canonical(wanted.settings),
            created_ms=self._clock.now_ms(),
            defaults={**self._new_defaults(), **recorded},
            kind=LogKind.CONTIGUOUS,
        )
        _check_internal(wanted.name, self.effective(entry))
        return entry

    def _make_locked(self, announced: Mapping[str, TopicEntry]) -> None:
        self._save_locked(announced)
        self._by_look.update((look_of(name), name) for name in announced)
        try:
            layout.begin_partitions(self._root, _ids_of(announced))
            ready = {
                name: entry.replace(state=TopicState.READY, is_synced=False) for name, entry in announced.items()
            }
            self._save_locked(ready)
            self._new.update(dict.fromkeys(ready))
        except BaseException:
            self._undo_locked(announced)
            raise
        for name, entry in announced.items():
            _logger.info("created a topic: topic=%s partitions=%d id=%s", name, entry.partitions, entry.id)

    def make(self, name: str) -> None:
        """Make the directories of a new topic durable, and note it: from now on one that is missing is lost.

        Done before the first log of the topic is opened for writing: nothing was acknowledged in them before.
        """
        if name in self._new:
            make = partial(self._make_synced, name)
            self.reserve.with_space(make) if name in INTERNAL else make()

    def _make_synced(self, name: str) -> None:
        with held(self._lock):
            if name not in self._new:
                return
            try:
                # Others with it: their syncs cost little beside its own, and they will be used soon.
                self._make_synced_locked(self._together(name))
            except StorageError:
                self._make_synced_locked([name])

    def _together(self, name: str) -> list[str]:
        """Return some new topics, beginning with a certain one, of not many partitions in all."""
        names, count = [name], 0
        for other in self._new:
            found = self.find(other)
            count += 0 if found is None else found.partitions
            if count > _MADE_TOGETHER:
                break
            names.append(other)
        return names

    def _make_synced_locked(self, names: Sequence[str]) -> None:
        entries = {name: entry for name in names if (entry := self.find(name)) is not None}
        if entries:
            layout.make_partitions(self._root, _ids_of(entries))
            self._save_locked({name: entry.replace(is_synced=True) for name, entry in entries.items()})
        for name in names:
            self._new.pop(name, None)

    def _new_defaults(self) -> Mapping[str, str]:
        """Return the retention recorded with a new topic: for ever, but Kafka's with a ``server.properties``."""
        if not self._config.broker_file:
            return FOR_EVER
        return {key: str(value) for key, value in self._config.log.items() if key in KEEPING}

    def _refuse_in_the_way(self, name: str, numbers: range) -> None:
        """Refuse directories in the place of new partitions: if the call fails, they would be removed with them.

        Raises:
            NotALogError: there is a directory.
        """
        for number in numbers:
            place = layout.partition_directory(self._root, TopicPartition(name, number))
            if place.exists():
                raise NotALogError(
                    f"a directory of this name is there already, which the catalogue does not know; move it away, "
                    f"or copy its records with `logstore import {name} {place.path}`",
                    path=place.path,
                )

    def _undo_locked(self, half_made: Mapping[str, TopicEntry]) -> None:
        """Undo topics that could not be made; where that fails too, the next open does it."""
        # Whatever the file says now, in this process the topics do not exist.
        self.catalogue = self.catalogue.with_topics(half_made)
        try:
            # The file may say "ready" already, if only the last sync has failed.
            self._save_locked(half_made)
            self._remove_locked(half_made)
        except OSError as error:
            _logger.warning("topics are left half made: topics=%s error=%s", ",".join(half_made), error)

    def alter(self, name: str, changes: Mapping[str, Setting], *, drop_keyless: bool = False) -> TopicEntry:
        """Change settings of a topic; None resets a key to the store's default. Durable on return."""
        with held(self._lock):
            entry = self.entry(name)
            own = _changed(entry.settings, changes)
            before, after = self.effective(entry), self.effective(entry, own)
            _check_internal(name, after)
            if after.compacts and not drop_keyless and not self.is_compaction_confirmed(name):
                # Opening looks for records without a key: one that is opened after the change would be too late.
                for number in range(entry.partitions):
                    if self._partitions is not None:
                        self._partitions.get(TopicPartition(name, number))
            # Opened for the first time, the topic has another entry now.
            entry = self.entry(name)
            changed = entry.replace(settings=own)
            try:
                # Tried first: an open log cannot change some settings.
                self._reconfigure(name, after, drop_keyless)
                self._save_locked({name: changed})
                if self._partitions is not None:
                    # A log that was being opened meanwhile may have the old settings.
                    self._partitions.settle(name)
                self._reconfigure(name, after, drop_keyless)
            except BaseException:
                if self.catalogue.topics[name] is changed:
                    self._save_locked({name: entry})
                self._reconfigure(name, before, drop_keyless=True)
                raise
            return changed

    def check_alter(
        self, name: str, changes: Mapping[str, Setting], check_space: Callable[[str, LogConfig, bool], None]
    ) -> LogConfig:
        """Return all settings of a topic as they would be after `alter`; change nothing.

        Raises what `alter` would raise, but for records without a key and for the disk's errors; and what
        ``check_space`` raises of the topic, its new settings, and whether its retention is chosen.
        """
        entry = self.entry(name)
        own = _changed(entry.settings, changes)
        after = self.effective(entry, own)
        _check_internal(name, after)
        if self._partitions is not None:
            for log in self._partitions.opened(name):
                if isinstance(log, Log):
                    log.maintenance.check_reconfigure(after)
        check_space(name, after, self.is_retention_chosen(name, own))
        return after

    def _reconfigure(self, name: str, config: LogConfig, drop_keyless: bool) -> None:
        if self._partitions is not None:
            for log in self._partitions.opened(name):
                if isinstance(log, Log) and log._config != config:
                    log.maintenance.reconfigure(config, drop_keyless=drop_keyless)

    def check_grow(self, name: str, total: int) -> TopicEntry:
        """Return a topic's entry; raise what `grow` would raise, without the disk's errors. Change nothing.

        Raises:
            UnknownTopicError: there is no such topic.
            InvalidPartitionsError: it cannot have that number of partitions.
        """
        entry = self.entry(name)
        check_partition_count(total)
        if name in INTERNAL:
            # The partition of a group's offsets follows from the partition count.
            raise InvalidPartitionsError(f"topic {name!r} has a fixed number of partitions, set when it is created")
        if total <= entry.partitions:
            raise InvalidPartitionsError(
                f"topic {name!r} has {entry.partitions} partition(s) already; a topic can only grow"
            )
        return entry

    def grow(self, name: str, total: int) -> TopicEntry:
        """Give a topic more partitions. Durable on return; on an error it has the old ones."""
        return self.grow_all({name: total})[name]

    def grow_all(self, totals: Mapping[str, int]) -> dict[str, TopicEntry]:
        """Give topics more partitions, together. Durable on return; on an error each has the old ones."""
        with held(self._lock):
            for name in totals:
                self.make(name)
            before = {name: self.check_grow(name, total) for name, total in totals.items()}
            added = {name: range(entry.partitions, totals[name]) for name, entry in before.items()}
            for name, numbers in added.items():
                self._refuse_in_the_way(name, numbers)
            growing = {
                name: entry.replace(state=TopicState.GROWING, target=totals[name]) for name, entry in before.items()
            }
            self._save_locked(growing)
            try:
                layout.make_partitions(
                    self._root,
                    {TopicPartition(name, n): before[name].id for name, numbers in added.items() for n in numbers},
                )
                grown = {
                    name: entry.replace(
                        partitions=totals[name],
                        state=TopicState.READY,
                        target=0,
                        made_with=entry.made_with or entry.partitions,
                    )
                    for name, entry in before.items()
                }
                self._save_locked(grown)
            except BaseException:
                self.catalogue = self.catalogue.with_topics(growing)
                undone = {}
                for name, numbers in added.items():
                    # Each for itself: the others may be grown again, one by one.
                    try:
                        layout.remove_partitions(self._root, name, numbers)
                        undone[name] = before[name].replace(state=TopicState.READY, target=0)
                    except OSError as error:
                        _logger.warning("new partitions are left half made: topic=%s error=%s", name, error)
                try:
                    self._root.sync()
                    self._save_locked(undone)
                except OSError as error:
                    _logger.warning(
                        "new partitions are left half made: topics=%s error=%s", ",".join(growing), error
                    )
                raise
            return grown

    def clear(self, name: str, partition: int) -> None:
        """Remove a partition's records with everything that its log has, and make its directory as a new topic's.

        Durable on return. After a failure or a crash half way the partition has no log that can be opened, or one
        that lacks records: the caller has recorded that it is to be cleared, and calls this again.

        Raises:
            StorageError: some of it remains.
        """
        place = TopicPartition(name, partition)
        with held(self._lock):
            self.make(name)
            self.check_partition(name, partition)
            topic_id = self.entry(name).id

            def make() -> None:
                self.reserve.with_space(lambda: self._hold.root.forget([place]))
                layout.remove_partitions(self._root, name, range(partition, partition + 1))
                self._root.sync()
                layout.make_partitions(self._root, {place: topic_id})

            assert self._partitions is not None
            self._partitions.renew(place, make)
            _logger.info("cleared a partition: topic=%s partition=%d", name, partition)

    def delete(self, names: Sequence[str]) -> list[TopicEntry]:
        """Delete topics with all their records; return their last entries. They are gone for good on return.

        If that fails half way, the topics are deleted for every caller, and the next open removes the rest.
        """
        with held(self._lock):
            entries = {name: self.entry(name) for name in names}
            if not entries:
                return []
            doomed = {name: entry.replace(state=TopicState.DELETING) for name, entry in entries.items()}
            # Deleting a topic frees a full disk, but has to write first.
            self.reserve.with_space(lambda: self._save_locked(doomed))
            self._remove_locked(doomed)
            for name, entry in entries.items():
                _logger.info("deleted a topic: topic=%s id=%s", name, entry.id)
            return list(entries.values())

    def _remove_locked(self, doomed: Mapping[str, TopicEntry]) -> None:
        for name in doomed:
            try:
                if self._partitions is not None:
                    self._partitions.close_topic(name, DELETED, TopicDeletedError)
            except LogstoreError as error:
                # Unflushed records of a deleted topic are not wanted, and a full disk is freed by deleting.
                _logger.warning("a log was not closed cleanly, it is deleted: topic=%s error=%s", name, error)
        # What is written before the records are removed needs room on a full disk.
        self.reserve.with_space(lambda: self._hold.root.forget(_partitions_of(doomed)))
        for name, entry in doomed.items():
            layout.remove_partitions(self._root, name, range(_most(entry)))
        self._root.sync()
        self.reserve.with_space(lambda: self._save_locked(dict.fromkeys(doomed)))
        for name in doomed:
            self._by_look.pop(look_of(name), None)
            self._new.pop(name, None)

    def _save_locked(self, entries: Mapping[str, TopicEntry | None]) -> None:
        self.catalogue = self._file.change(self.catalogue, entries)

    def next_producer_id(self) -> int:
        """Return a producer id that was never given before, nor will be after any crash."""
        with held(self._lock):
            if not self._ids_left:
                catalogue = self.catalogue
                first = catalogue.next_producer_id
                last = first + PRODUCER_ID_BLOCK
                self.catalogue = self.reserve.with_space(lambda: self._file.change(catalogue, {}, last))
                self._ids_left = range(first, last)
            number, self._ids_left = self._ids_left[0], self._ids_left[1:]
            return number


def _most(entry: TopicEntry) -> int:
    """Return the number of directories that a topic may have."""
    return max(entry.partitions, entry.target)


def _partitions_of(entries: Mapping[str, TopicEntry]) -> Iterator[TopicPartition]:
    for name, entry in entries.items():
        for number in range(_most(entry)):
            yield TopicPartition(name, number)


def _ids_of(entries: Mapping[str, TopicEntry]) -> dict[TopicPartition, str]:
    return {
        TopicPartition(name, number): entry.id
        for name, entry in entries.items()
        for number in range(entry.partitions)
    }


def _changed(settings: Mapping[str, str], changes: Mapping[str, Setting]) -> dict[str, str]:
    own = dict(settings)
    for key in canonical_keys(key for key, value in changes.items() if value is None):
        own.pop(key, None)
    return own | canonical({key: value for key, value in changes.items() if value is not None})


class FollowedTopics(TopicTable):
    """The topics of a store that another process may be writing, or that Kafka has written."""

    def __init__(self, root: Directory, config: StoreConfig) -> None:
        names = files.refuse_file(root)
        if names is None:
            raise NotALogError("the directory does not exist; check the path", path=root.path)
        files.refuse_incomplete(root, names)
        self._file = CatalogueFollower(root)
        found = self._file.read()
        super().__init__(root, config, found or Catalogue(cluster_id=""))
        self._is_listed = found is None
        self.refresh()
        if not self.catalogue.topics and not files.is_ours(root.names()):
            named = ", ".join(map(str, files.partitions_below(root)[:5]))
            raise NotALogError(
                "the directory holds no store: no catalogue and no partitions"
                f"{f' ({named} hold no log)' if named else ''}; check the path",
                path=root.path,
            )

    def entry_now(self, name: str, topic_id: str | None = None) -> TopicEntry:
        self.refresh()
        return self.entry(name, topic_id)

    def refresh(self) -> None:
        found = self._file.read()
        if found is not None and found is self.catalogue:
            return
        changed = self._listed() if found is None else found
        # Released to Kafka, or adopted: a reader's knowledge of a log's end is that of the former writer.
        changed_hands = (found is None) != self._is_listed
        self._is_listed = found is None
        known, self.catalogue = self.catalogue, changed
        for name, entry in known.topics.items():
            now = changed.topics.get(name)
            if self._partitions is not None and (changed_hands or now is None or now.id != entry.id):
                is_there = now is not None and now.id == entry.id
                self._partitions.close_topic(
                    name, DELETED if now is None else REPLACED, LogClosedError if is_there else TopicDeletedError
                )

    def _listed(self) -> Catalogue:
        """Return the topics that the directories tell, of a root written by Kafka or holding single logs only."""
        layout.refuse_lost_catalogue(self._root)
        topics: dict[str, TopicEntry] = {}
        for name in files.logs_below(self._root):
            known = topics.get(name.topic)
            topic_id = layout.read_partition_metadata(layout.partition_directory(self._root, name)) or ""
            count = max(name.partition + 1, 0 if known is None else known.partitions)
            topics[name.topic] = TopicEntry(
                id=topic_id if known is None else known.id or topic_id, partitions=count, defaults=FOR_EVER
            )
        cluster_id = layout.read_meta_properties(self._root).get("cluster.id", "")
        return Catalogue(cluster_id=cluster_id, topics=topics)
