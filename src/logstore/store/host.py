"""The parts of an open store, and the store as its topics, producers, consumers and requests see it.

Holds the root's lock while it is open: one process writes a directory, any number read it. Also holds the
catalogue, the open logs and the recurring tasks. Everything that a store hands out refers to its host and keeps it
open; `Store` has the calls of users. Any thread may call.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from logstore.client.backend.members import ReaderMembers
from logstore.client.backend.source import Acknowledger, Opened
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig, Setting, canonical
from logstore.config.store import StoreConfig, warn_of_unkept
from logstore.errors import (
    ForkedError,
    LogstoreError,
    NotALogError,
    ReadOnlyError,
    StoreClosedError,
)
from logstore.io._files import LIBC, Files, fork_generation
from logstore.io._interrupts import held, made, shielded
from logstore.log.directory.files import Directory
from logstore.log.root import StoreLock
from logstore.log.space_quota import SpaceQuota, UnlimitedSpace
from logstore.records import Ack, NewTopic, TopicPartition
from logstore.store.catalog import layout
from logstore.store.catalog.partitions import Partitions, lent
from logstore.store.catalog.reserve import ReserveGate
from logstore.store.catalog.topics import FollowedTopics, Topics, TopicTable
from logstore.store.lifecycle import StoreLifecycle, StoreMember
from logstore.store.maintenance.disk_quota import DiskQuota, Limits
from logstore.store.maintenance.scheduler import Progress, Scheduler
from logstore.store.maintenance.tasks import MaintenanceTasks
from logstore.store.requests.commit_server import FIRST_SWEEP_S, SETTLE_MS, SWEEP_MS, LeftFiles, RequestServer
from logstore.store.topic import Topic
from logstore.topic_names import CONSUMER_OFFSETS, INTERNAL

if TYPE_CHECKING:
    import random

    from logstore.groups.offsets import OffsetAndMetadata
    from logstore.store.admin.snapshots import Snapshot
    from logstore.store.catalog.topic_list import Catalogue
    from logstore.store.commit.ingest import Ingest, Ingested
    from logstore.store.commit.staged_writer import Manifest
    from logstore.store.committed_offsets import CommittedOffsets
    from logstore.store.requests.requests import StoreRequest

_logger = logging.getLogger(__name__)

R = TypeVar("R")

Path = str | os.PathLike[str]
Settings = StoreConfig | Mapping[str, Setting] | None


#: How often the quota is compared with the used space, to reclaim ahead of need; it compares two numbers.
DISK_PERIOD_MS = 1_000
#: How often every file is measured for that, and the reserve is filled again if there is space.
MEASURE_PERIOD_MS = 60_000


class StoreHost:
    """One open store: a `Source`."""

    def __init__(
        self,
        path: Path,
        config: StoreConfig,
        *,
        read_only: bool = False,
        create: bool,
        clock: Clock,
        files: Files,
        rng: random.Random | None = None,
        brief: bool = False,
        patient: bool = True,
    ) -> None:
        """Open the store, see `logstore.open`."""
        root = Directory(path, files)
        self._root = root
        self.path = root.path
        self.config = config
        self.read_only = read_only
        self.clock = clock
        self.files = files
        self.rng = rng
        self._fork = fork_generation()
        self.consumers = ReaderMembers()
        self._offsets: CommittedOffsets | None = None
        self._ingest_made: Ingest | None = None
        self._parts_lock = threading.Lock()  # held while one of the two above is made
        self.requests: RequestServer | None = None
        #: The node that has this store's replicas, while there is one: it waits for their acks.
        self.replicas: Acknowledger | None = None
        hold = None
        table: FollowedTopics | Topics
        if read_only:
            table = FollowedTopics(root, config)
        else:
            if layout.check_root(root) is None:
                if not create:
                    raise NotALogError(
                        "the directory holds no store; logstore.open(path, create=True) creates one", path=path
                    )
                root.create_durably()
            hold = StoreLock.acquire(root, clock, brief=brief, patient=patient)
            try:
                # Checked above without the lock: another process may have changed the root since.
                names = layout.check_root(root)
                table = Topics(root, config, clock, rng, hold, names or [])
            except BaseException:
                hold.release()
                raise
        partitions = Partitions(
            root,
            read_only=read_only,
            config_of=table.config_of,
            kind_of=lambda topic: table.entry(topic).kind,
            drops_keyless=table.is_compaction_confirmed,
            is_new=lambda topic: not table.entry_now(topic).is_synced,
            clock=clock,
        )
        table.manage(partitions)
        self.table: TopicTable = table
        self.partitions = partitions
        self.lifecycle = StoreLifecycle(self.path, partitions, hold)
        if hold is not None:
            assert isinstance(table, Topics)
            try:
                self._maintain(root, table, partitions, hold, brief=brief)
            except BaseException:
                self.lifecycle.close()
                raise
        # The lifecycle's own exit hook flushes and closes a store that is open when the program ends.
        self._finalizer = weakref.finalize(self, self.lifecycle.forgotten)
        self._finalizer.atexit = False

    def _maintain(
        self, root: Directory, topics: Topics, partitions: Partitions, hold: StoreLock, *, brief: bool
    ) -> None:
        scheduler = Scheduler(self.clock, self.path)
        tasks = MaintenanceTasks(topics, partitions, hold, self.config, scheduler)
        limits = Limits(self.config.disk_budget, self.config.disk_reserve)
        self.disk_quota = DiskQuota(limits, root, tasks, self.clock)
        reserve, budget = topics.reserve, self.disk_quota if limits.is_set else None

        def quota_of(name: TopicPartition) -> SpaceQuota | None:
            quota = None if budget is None else budget.quota(name)
            return quota if name.topic not in INTERNAL else ReserveGate(quota or UnlimitedSpace(), reserve)

        partitions.quota_of, partitions.with_space = quota_of, reserve.with_space
        partitions.make = topics.make
        if budget is not None:
            budget.open()
            scheduler.add("disk space", MEASURE_PERIOD_MS, self.disk_quota.measure_and_reclaim)
            scheduler.add("disk budget", DISK_PERIOD_MS, self.disk_quota.reclaim_ahead)
        if not brief:
            reserve.fill()
            scheduler.add("reserve", MEASURE_PERIOD_MS, reserve.fill)
        tasks.schedule()
        # A task that referred to the store would keep it alive after its user has dropped it.
        host = weakref.ref(self)
        scheduler.add("offsets", self.config.offsets_retention_check_interval_ms, lambda: _expire_offsets(host))
        self.scheduler = scheduler
        # Soon after the start: an undecided batch keeps readers waiting.
        scheduler.add("undecided batches", SETTLE_MS, lambda: _settle(host)).due_s = self.clock.monotonic_s() + 1
        left = scheduler.add("left files", SWEEP_MS, LeftFiles(root, self.clock).sweep)
        left.due_s = self.clock.monotonic_s() + FIRST_SWEEP_S
        self.lifecycle.threads.append(scheduler)
        if not brief:
            self.requests = RequestServer(root, reserve, lambda: _open_of(host))
            self.lifecycle.threads.append(self.requests)
            self.lifecycle.before_release = self.requests.remove
        if self.clock is SYSTEM_CLOCK and self.config.housekeeping == "thread":
            scheduler.start()
            if self.requests is not None:
                self.requests.start()

    @property
    def root(self) -> Directory:
        """The store's directory, for what stands above the store and keeps a file there."""
        return self._root

    def topic(self, name: str, store: object = None) -> Topic:
        """Return a topic by its name, for the user of ``store``."""
        self.check_open()
        self.table.refresh()
        return Topic(self, name, self.table.entry(name).id, store)

    def has(self, name: str) -> bool:
        """Return whether there is a topic of that name."""
        self.check_open()
        # Another process may have deleted it.
        self.table.refresh()
        return self.table.find(name) is not None

    def topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; with ``internal`` also those of the store itself."""
        self.check_open()
        return self.table.names(internal=internal)

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        settings: Mapping[str, Setting] | None = None,
        *,
        if_not_exists: bool = False,
        store: object = None,
    ) -> Topic:
        """Create a topic; see `Store.create_topic`."""
        count = self.config.num_partitions if partitions is None else partitions
        wanted = NewTopic(name, count, 1, settings or {})
        return self.create_topics([wanted], if_not_exists=if_not_exists, store=store)[0]

    def create_topics(
        self, topics: Sequence[NewTopic], *, if_not_exists: bool = False, store: object = None
    ) -> list[Topic]:
        """Create topics together; see `Store.create_topics`."""
        self.check_writable()
        entries = shielded(self.topics_table.create_all, topics, if_not_exists=if_not_exists)
        for each in topics:
            warn_of_unkept(canonical(each.settings))
        return [Topic(self, each.name, entry.id, store) for each, entry in zip(topics, entries, strict=True)]

    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """Return the number of a topic's partitions; with ``topic_id``, of that very topic and none made later."""
        self.check_open()
        return self.table.entry_now(topic, topic_id).partitions

    def is_unused(self, topic: str) -> bool:
        """Return whether no log of a topic was ever opened for writing: there are no records in it."""
        self.check_open()
        entry = self.table.entry_now(topic)
        return not entry.is_synced or self.partitions.is_unused(topic, entry.partitions)

    def added_from(self, topic: str, topic_id: str | None = None) -> int:
        """Return the number of the first partition added after the topic was made, whether it exists or not."""
        self.check_open()
        entry = self.table.entry(topic, topic_id)
        return entry.made_with or entry.partitions

    def topic_id(self, topic: str) -> str:
        """Return a topic's id in Kafka's text form, which no other topic of its name has; "" if it has none."""
        self.check_open()
        return self.table.entry(topic).id

    def topic_config(self, topic: str, topic_id: str | None = None) -> LogConfig:
        """Return the settings of a topic's logs: its own, and the store's for all others."""
        self.check_open()
        self.table.entry(topic, topic_id)
        return self.table.config_of(topic)

    def partition(self, topic: str, partition: int, *, topic_id: str | None = None) -> Opened:
        """Return one partition's log, opened if it is not. It belongs to the store: do not close it.

        Like a topic, the log keeps the store open, even if nothing else refers to the store any more.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none.
            DamagedLogError, StorageError: it cannot be opened; other partitions can still be used.
        """
        return lent(self._log_of(topic, partition, topic_id), self)

    def _log_of(self, topic: str, partition: int, topic_id: str | None = None) -> Opened:
        """Return a log as `partition` does, but one that does not keep the store open: the caller does."""
        self.check_open()
        self.table.check_partition(topic, partition, topic_id)
        return self.partitions.get(TopicPartition(topic, partition))

    def _log_there(self, topic: str, partition: int) -> Opened:
        """Return a log as `_log_of` does, of a partition that the caller has found in `_topics_known`."""
        found = self.partitions.found((topic, partition))
        return self.partitions.get(TopicPartition(topic, partition)) if found is None else found

    def topic_to_send_to(self, name: str) -> Topic:
        """Return a topic by its name, made if there is none and ``auto.create.topics.enable`` is true.

        Raises:
            UnknownTopicError: there is none, and none is made.
            InvalidTopicError, StorageError: as `create_topic`.
        """
        if self.config.auto_create_topics_enable and not self.has(name):
            return self.create_topic(name, if_not_exists=True)
        return self.topic(name)

    def _topics_known(self) -> Catalogue:
        """Return the catalogue of all topics: another object after each change."""
        if self.lifecycle.closed or self._fork != fork_generation():
            self.check_open()
        return self.table.catalogue

    @property
    def offsets(self) -> CommittedOffsets:
        """The committed offsets of every group: to list groups, to delete, to expire."""
        self.check_open()
        if self._offsets is None:
            from logstore.store.committed_offsets import CommittedOffsets

            with held(self._parts_lock):
                if self._offsets is None:
                    self._offsets = CommittedOffsets(self, self.config, _OffsetsWriter(self))
        return self._offsets

    def attach(self, member: StoreMember) -> None:
        """Register ``member`` to be closed before the store's logs; it is not kept alive."""
        self.check_open()
        self.lifecycle.attach(member)

    def detach(self, member: StoreMember) -> None:
        """Forget a member that has been closed."""
        self.lifecycle.detach(member)

    def drop(self, member: StoreMember) -> None:
        """Register a member as `attach` does, for the finalizer of a dropped one: takes no lock."""
        self.lifecycle.drop(member)

    def ingest(self, manifest: Manifest) -> Ingested:
        """Ingest the staged files of a batch: all of them or none, durable and visible together on return.

        With the mode ``exactly_once`` a batch of a query that was ingested before, by whichever process, is
        not ingested again: the result has ``duplicate=True``. Readers with ``read_committed`` see a batch
        only once all of it is in; see `logstore.store.commit.ingest`. The staged files are removed. Blocks while
        another batch is ingested, and on the disk.

        Raises:
            InvalidManifestError, StagedFileError: the manifest, or a file, is not what it should be.
            UnknownTopicError, UnknownPartitionError: a topic was deleted, or another one has its name.
            CorruptRecordError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: a batch breaks
                a rule of its log; the file and the position are named.
            DiskFullError, StorageError: it could not be written. Ingest the same batch again: if it was decided
                before the error came, the result has ``duplicate=True``.
            ReadOnlyError: the store is open read-only.
        """
        self.check_writable()
        return self._ingest.ingest(manifest)

    @property
    def cluster_id(self) -> str:
        """The store's id, in Kafka's text form; empty for a directory that has none."""
        return self.table.catalogue.cluster_id

    def next_producer_id(self) -> int:
        """Return a producer id that this store has never given before. Some calls block on the disk."""
        self.check_writable()
        return shielded(self.topics_table.next_producer_id)

    def snapshot(self, path: Path, *, link: bool, verify: bool, progress: Progress | None = None) -> Snapshot:
        """Copy the store; see `Store.snapshot`."""
        self.check_open()
        if self.read_only:
            from logstore.store.requests.requests import Copy

            return self.ask_writer(Copy(Directory(path).path, link, verify))
        from logstore.store.admin.snapshots import take

        # The copies of the logs and of the record of ingested batches must be of one moment.
        with self.scheduler.paused(), self._ingest.paused():
            return take(
                self.topics_table, self.partitions, self._root, path, link=link, verify=verify, progress=progress
            )

    def ask_writer(self, request: StoreRequest[R]) -> R:
        """Execute a request in the process that writes the store; without one, in this process."""
        from logstore.store.requests.asking import ask

        opener = partial(briefly, self.path, self.config, patient=False, clock=self.clock, files=self.files)
        return ask(self._root, request, opener, clock=self.clock)

    @property
    def closed(self) -> bool:
        return self.lifecycle.closed

    def close(self) -> None:
        """Flush and close every log, and release the directory. May be called again."""
        shielded(self._end)

    def _end(self) -> None:
        if self._fork != fork_generation():
            # The parent owns the files and the lock: the child must not release them.
            self.lifecycle.closed = True
            self._finalizer.detach()
            return
        self._finalizer.detach()
        try:
            if not self.lifecycle.closed:
                self.consumers.end()
        finally:
            self.lifecycle.close()

    @property
    def _ingest(self) -> Ingest:
        if self._ingest_made is None:
            from logstore.store.commit.ingest import Ingest  # here: few stores need it and its imports

            with held(self._parts_lock):
                if self._ingest_made is None:
                    self._ingest_made = Ingest(self, self._root)
        return self._ingest_made

    @property
    def topics_table(self) -> Topics:
        """The catalogue, for writing."""
        assert isinstance(self.table, Topics)
        return self.table

    def check_open(self) -> None:
        """Raise if the store is closed."""
        if self.lifecycle.closed:
            raise StoreClosedError("the store is closed; call logstore.open() again", path=self.path)
        if self._fork != fork_generation():
            raise ForkedError(
                "the store was opened before a fork; call logstore.open() in the child", path=self.path
            )

    def check_writable(self) -> None:
        """Raise if the store is closed or read-only."""
        self.check_open()
        if self.read_only:
            raise ReadOnlyError(
                "the store is open read-only; open it without read_only=True to change it", path=self.path
            )


class _OffsetsWriter:
    """The process that writes a store, asked by one that is open read-only."""

    def __init__(self, host: StoreHost) -> None:
        self._host = host

    def check(self) -> None:
        from logstore.store.requests.asking import check  # here: few readers need it

        check(self._host.path)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        ack: Ack | None,
        at_ms: int,
    ) -> None:
        from logstore.store.requests.requests import Commit

        self._host.ask_writer(Commit(group, offsets, ack, at_ms))


def _expire_offsets(reference: weakref.ref[StoreHost]) -> None:
    """Delete committed offsets that no commit has renewed for ``offsets.retention.minutes``."""
    store = _open_of(reference)
    if store is not None and store.has(CONSUMER_OFFSETS):
        store.offsets.expire()


def _open_of(reference: weakref.ref[StoreHost]) -> StoreHost | None:
    """Return the store if it still exists and is open, else None."""
    store = reference()
    return None if store is None or store.lifecycle.closed else store


def _settle(reference: weakref.ref[StoreHost]) -> None:
    """Finish or abort staged batches that a failure has left undecided."""
    store = _open_of(reference)
    if store is not None:
        try:
            store._ingest.settle()
        except LogstoreError as error:
            _logger.error("undecided batches cannot be looked for: store=%s error=%s", store.path, error)


def briefly(
    path: Path,
    settings: Settings = None,
    *,
    create: bool = False,
    brief: bool = True,
    patient: bool = True,
    clock: Clock = SYSTEM_CLOCK,
    files: Files = LIBC,
) -> StoreHost:
    """Open a store for one piece of work, without housekeeping; if it is ``brief``, other processes wait for it.

    A ``patient`` caller waits for others that do the same. Raises as `open_store`.
    """
    config = StoreConfig.layered(settings, environ=os.environ, arguments={"logstore.housekeeping": "manual"})
    return made(
        lambda: StoreHost(path, config, create=create, clock=clock, files=files, brief=brief, patient=patient),
        StoreHost.close,
    )
