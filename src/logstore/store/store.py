"""A directory of topics, as `logstore.open` returns it.

Holds the root's lock for as long as it is open (one process writes a directory, any number read it),
its catalogue and its open logs. It returns topics, producers and consumers that work on them, and is
responsible only for their lifetimes. Any thread may use a store.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, ParamSpec, TypeVar, Unpack, cast

from logstore.client.backend import Opened
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig, Setting, canonical, canonical_keys
from logstore.config.schema import about_modes, check_settings, naming_arguments, with_arguments
from logstore.config.store import StoreConfig, warn_of_unkept
from logstore.errors import (
    DirectoryLockedError,
    ForkedError,
    InvalidSettingError,
    LogstoreError,
    NotALogError,
    PolicyViolationError,
    ReadOnlyError,
    StoreClosedError,
    UnknownSettingError,
)
from logstore.io._files import LIBC, Files, fork_generation
from logstore.io._interrupts import Condition, held, made, shielded
from logstore.log import Log
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import Patience as Patience
from logstore.log.root import RootHold
from logstore.log.space_quota import SpaceQuota, UnlimitedSpace
from logstore.records import Ack, Isolation, TopicPartition
from logstore.store.catalog import layout
from logstore.store.catalog.partitions import Partitions, lent
from logstore.store.catalog.reserve import ReserveGate
from logstore.store.catalog.topics import FollowedTopics, Topics, TopicTable
from logstore.store.consumers import Consumers
from logstore.store.descriptions import TopicDescription, describe
from logstore.store.lifecycle import Closeable, StoreLifecycle
from logstore.store.maintenance.disk_quota import DiskQuota, Holdings, Limits, may_go
from logstore.store.maintenance.scheduler import Progress, Scheduler
from logstore.store.maintenance.tasks import MaintenanceTasks
from logstore.store.requests.commit_server import SETTLE_MS, SWEEP_MS, LeftFiles, RequestServer
from logstore.store.topic import Topic
from logstore.topic_names import CONSUMER_OFFSETS, INTERNAL, SINKS

if TYPE_CHECKING:
    import random

    from logstore.client.consumer import Consumer
    from logstore.client.lag import Lag
    from logstore.client.offsets import CommittedOffsets
    from logstore.client.partitioners import Choice, Partitioner
    from logstore.client.producer import Producer
    from logstore.config.client import ConsumerConfig, ProducerConfig
    from logstore.config.generated_keywords import (
        ConsumerSettings,
        LogSettings,
        ProducerSettings,
        StoreSettings,
        TopicChanges,
    )
    from logstore.groups.offsets import OffsetAndMetadata
    from logstore.store.admin.snapshots import Snapshot
    from logstore.store.catalog.topic_list import Catalogue
    from logstore.store.commit.ingest import Ingest, Ingested
    from logstore.store.commit.staged_writer import Manifest
    from logstore.store.requests.requests import Request

_logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

Path = str | os.PathLike[str]
Settings = StoreConfig | Mapping[str, Setting] | None


#: How often the quota is compared with the used space, to reclaim ahead of need; it compares two numbers.
DISK_PERIOD_MS = 1_000
#: How often every file is measured for that, and the reserve is filled again if there is space.
MEASURE_PERIOD_MS = 60_000


class DiskUsage(NamedTuple):
    """Disk space of a store, in bytes: used (including what logs have reserved) and allowed."""

    used_bytes: int
    limit_bytes: int


def _earlier_arguments(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a call so that it takes, for one release, a group in the first place and ``settings`` by name."""

    @functools.wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        store, *given = args
        if len(given) > 1 or (given and isinstance(given[0], str)):
            _warn(f"store.consumer({given[0]!r}, …) is store.consumer(…, group={given[0]!r})")
            kwargs["group"], *given = given
        elif "settings" in kwargs:
            _warn(f"store.{call.__name__}(settings=…) is store.{call.__name__}(…)")
            given = [kwargs.pop("settings")]
        return call(store, *given, **kwargs)  # type: ignore[arg-type]

    return called


def _warn(change: str) -> None:
    warnings.warn(f"{change} now; the next release refuses the former", DeprecationWarning, 3)


class Store:
    """Topics in a directory.

    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=4)
    ...     flights.append(b"AA 1141", key=b"AA").offset
    0
    """

    def __init__(
        self,
        path: Path,
        config: StoreConfig,
        *,
        read_only: bool,
        create: bool,
        clock: Clock,
        files: Files,
        rng: random.Random | None,
        brief: bool = False,
        patient: bool = True,
    ) -> None:
        """Open the store, see `open_store` and `open_briefly`."""
        root = Directory(path, files)
        self.path = root.path
        self.config = config
        self.read_only = read_only
        self.clock = clock
        self.files = files
        self.rng = rng
        self._fork = fork_generation()
        self._consumers = Consumers()
        self._offsets: CommittedOffsets | None = None
        self._ingest_made: Ingest | None = None
        self._parts_lock = threading.Lock()  # held while one of the two above is made
        self._requests: RequestServer | None = None
        hold = None
        table: FollowedTopics | Topics
        if read_only:
            table = FollowedTopics(root, config)
        else:
            layout.check_root(root)
            if not root.exists():
                if not create:
                    raise NotALogError(
                        "the directory holds no store; logstore.open(path, create=True) creates one", path=path
                    )
                root.create_durably()
            hold = RootHold.acquire(root, clock, brief=brief, patient=patient)
            try:
                # Checked above without the lock: another process may have changed the root since.
                layout.check_root(root)
                table = Topics(root, config, clock, rng, hold)
            except BaseException:
                hold.release()
                raise
        partitions = Partitions(
            root,
            read_only=read_only,
            config_of=table.config_of,
            kind_of=lambda topic: table.entry(topic).kind,
            drops_keyless=table.is_compaction_confirmed,
            clock=clock,
            files=files,
        )
        table.manage(partitions)
        self._table: TopicTable = table
        self._partitions = partitions
        self._lifecycle = StoreLifecycle(self.path, partitions, hold)
        if hold is not None:
            assert isinstance(table, Topics)
            try:
                self._keep_house(root, table, partitions, hold, brief=brief)
            except BaseException:
                self._lifecycle.close()
                raise
        # The lifecycle's own exit hook flushes and closes a store that is open when the program ends.
        self._finalizer = weakref.finalize(self, self._lifecycle.forgotten)
        self._finalizer.atexit = False

    def _keep_house(
        self, root: Directory, topics: Topics, partitions: Partitions, hold: RootHold, *, brief: bool
    ) -> None:
        keeper = Scheduler(self.clock, self.path)
        upkeep = MaintenanceTasks(topics, partitions, hold, self.config, keeper)
        holdings = Holdings(
            root,
            opened=upkeep.opened,
            logs=upkeep.logs,
            retain=upkeep.retain,
            is_retention_chosen=topics.is_retention_chosen,
        )
        self._disk_quota = DiskQuota(
            Limits(self.config.disk_budget, self.config.disk_reserve), holdings, self.clock
        )
        reserve, budget = topics.reserve, self._disk_quota if self._disk_quota.limits.is_set else None

        def quota_of(name: TopicPartition) -> SpaceQuota | None:
            quota = None if budget is None else budget.quota(name)
            return quota if name.topic not in INTERNAL else ReserveGate(quota or UnlimitedSpace(), reserve)

        partitions.quota_of, partitions.with_room = quota_of, reserve.with_room
        if budget is not None:
            budget.open()
            keeper.add("disk space", MEASURE_PERIOD_MS, self._disk_quota.keep_house)
            keeper.add("disk budget", DISK_PERIOD_MS, self._disk_quota.keep_slack)
        if not brief:
            reserve.fill()
            keeper.add("reserve", MEASURE_PERIOD_MS, reserve.fill)
        upkeep.schedule()
        # A task that referred to the store would keep it alive after its user has dropped it.
        store = weakref.ref(self)
        keeper.add("offsets", self.config.offsets_retention_check_interval_ms, lambda: _expire_offsets(store))
        self._scheduler = keeper
        # Soon after the start: an undecided batch keeps readers waiting.
        keeper.add("undecided batches", SETTLE_MS, lambda: _settle(store)).due_s = self.clock.monotonic_s() + 1
        keeper.add("left files", SWEEP_MS, LeftFiles(root, self.clock).sweep)
        self._lifecycle.threads.append(keeper)
        if not brief:
            self._requests = RequestServer(root, reserve, lambda: _open_of(store))
            self._lifecycle.threads.append(self._requests)
            self._lifecycle.before_release = self._requests.remove
        if self.clock is SYSTEM_CLOCK and self.config.housekeeping == "thread":
            keeper.start()
            if self._requests is not None:
                self._requests.start()

    # -- topics

    def topic(self, name: str) -> Topic:
        """Return a topic by its name.

        Raises:
            UnknownTopicError: there is none; the message names the topics that exist.
        """
        self._check_open()
        self._table.refresh()
        return Topic(self, name, self._table.entry(name).id)

    def __getitem__(self, name: str) -> Topic:
        return self.topic(name)

    def __contains__(self, name: object) -> bool:
        self._check_open()
        # Another process may have deleted it.
        self._table.refresh()
        return self._table.find(name) is not None  # type: ignore[arg-type]  # any object may be asked for

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics())

    def topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; with ``internal`` also those of the store itself."""
        self._check_open()
        return self._table.names(internal=internal)

    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """Return the number of a topic's partitions; with ``topic_id``, of that very topic and none made later."""
        self._check_open()
        return self._table.entry_now(topic, topic_id).partitions

    def added_from(self, topic: str, topic_id: str | None = None) -> int:
        """Return the number of the first partition added after the topic was made, whether it exists or not."""
        self._check_open()
        entry = self._table.entry(topic, topic_id)
        return entry.made_with or entry.partitions

    def topic_id(self, topic: str) -> str:
        """Return a topic's id in Kafka's text form, which no other topic of its name has; "" if it has none."""
        self._check_open()
        return self._table.entry(topic).id

    def topic_config(self, topic: str, topic_id: str | None = None) -> LogConfig:
        """Return the settings of a topic's logs: its own, and the store's for all others."""
        self._check_open()
        self._table.entry(topic, topic_id)
        return self._table.config_of(topic)

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
        self._check_open()
        self._table.check_partition(topic, partition, topic_id)
        return self._partitions.get(TopicPartition(topic, partition))

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
        return Topic(self, name, entry.id)

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
        logs = (self._log_of(name, number) for number in range(entry.partitions))
        return describe(name, entry, self._table.config_of(name), logs)

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
                log.maintenance.check_keys()
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
        self._consumers.notify()
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

    # -- producers and consumers

    @_earlier_arguments
    @naming_arguments
    def producer(
        self,
        settings: ProducerConfig | Mapping[str, Setting] | None = None,
        /,
        *,
        partitioner: str | Partitioner | Choice | None = None,
        **more_settings: Unpack[ProducerSettings],
    ) -> Producer:
        """Open a producer for records that come one by one; see `Producer`. It is closed with the store.

        ``settings`` are Kafka's producer settings by their dotted keys, ``more_settings`` the same with
        underscores; ``partitioner`` is a word, a `Partitioner` or a function.

        Raises:
            ConfigError: settings are unknown or out of range; every one is named.
            ReadOnlyError: the store is open read-only.
        """
        from logstore.client.producer import Producer  # here: readers seldom need it and its settings

        self._check_writable()
        return Producer(self, settings, partitioner=partitioner, **more_settings)

    @property
    def offsets(self) -> CommittedOffsets:
        """The committed offsets of every group: to list groups, to delete, to expire."""
        self._check_open()
        if self._offsets is None:
            from logstore.client.offsets import CommittedOffsets

            with held(self._parts_lock):
                if self._offsets is None:
                    self._offsets = CommittedOffsets.of(self, self.config, _Writer(self))
        return self._offsets

    @_earlier_arguments
    @naming_arguments
    def consumer(
        self,
        settings: ConsumerConfig | Mapping[str, Setting] | None = None,
        /,
        *,
        group: str | None = None,
        **more_settings: Unpack[ConsumerSettings],
    ) -> Consumer:
        """Open a consumer: `assign` it partitions, then iterate it or `poll`. A group keeps its offsets here.

        ``settings`` are Kafka's consumer settings by their dotted keys, ``more_settings`` the same with
        underscores. Where the store is open read-only, offsets are committed by the process that writes it; if
        there is none, by this one, which opens it for that moment. If the store is closed first, the consumer
        commits the records that it is known to have processed.

        Raises:
            InvalidGroupError: the name cannot be used.
            ConfigError: settings are unknown or out of range; every one is named.
            ReadOnlyError: the group would have to commit by itself, the store is open read-only, and its directory
                is Kafka's or cannot be written.
        """
        from logstore.client.consumer import open_consumer

        self._check_open()
        consumer = open_consumer(self, self.offsets, group, settings, cast("Mapping[str, Setting]", more_settings))
        self._consumers.add(consumer)
        return consumer

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        ack: Ack | str | None = None,
    ) -> None:
        """Store the next offsets that a group will read, all of them or none; see `CommittedOffsets.commit`."""
        self.offsets.commit(group, offsets, ack=ack)

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, of these partitions or of all; one without a commit is left out."""
        return self.offsets.committed(group, partitions)

    def lag(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> list[Lag]:
        """Return how far a group is behind, in records and seconds, for each partition that it has committed.

        Partitions that were added to a topic that the group reads count from offset 0 until it has committed
        there. Only records that a reader of that isolation will see are counted; see `logstore.client.lag`.
        """
        from logstore.client.lag import lag_of_group

        return lag_of_group(self, self.offsets, group, Isolation(isolation), partitions)

    def attach(self, member: Closeable) -> None:
        """Register ``member`` to be closed before the store's logs; it is not kept alive."""
        self._check_open()
        self._lifecycle.attach(member)

    def detach(self, member: Closeable) -> None:
        """Forget a member that has been closed."""
        self._lifecycle.detach(member)

    def drop(self, member: Closeable) -> None:
        """Register a member as `attach` does, for the finalizer of a dropped one: takes no lock."""
        self._lifecycle.drop(member)

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
        self._check_writable()
        return self._ingest.ingest(manifest)

    def next_producer_id(self) -> int:
        """Return a producer id that this store has never given before. Blocks on the disk now and then."""
        self._check_writable()
        return shielded(self._topics.next_producer_id)

    # -- lifetime

    @property
    def cluster_id(self) -> str:
        """The store's id, in Kafka's text form; empty for a directory that has none."""
        return self._table.catalogue.cluster_id

    @property
    def closed(self) -> bool:
        return self._lifecycle.closed

    def flush(self) -> None:
        """Make everything that was appended to any partition before this call durable.

        Raises:
            StorageFailedError: a sync failed; the others were still made.
        """
        self._check_writable()
        failure: BaseException | None = None
        for log in self._partitions.opened():
            try:
                log.flush()
            except BaseException as error:  # noqa: BLE001  raised below, once every log has had its turn
                failure = failure or error
        if failure is not None:
            raise failure

    def snapshot(
        self, path: Path, *, link: bool = True, verify: bool = False, progress: Progress | None = None
    ) -> Snapshot:
        """Copy the whole store to a path that does not exist yet, while it is in use. Durable on return.

        Each partition is copied as of one moment during the call, committed offsets as of an earlier one than
        any record; everything acknowledged before the call is in it. Sealed segments are hard links where the
        file system has them and ``link`` is true, so that the copy takes hardly any space. Choose ``link=False``
        where another program shall change the files in place, as Kafka does. With ``verify`` every checksum in
        the copy is compared. ``progress`` is called with the number of steps done and of all steps, each a
        partition that was copied or compared; it may not use the store. To restore, open the copy as a store, or
        move it to where the store was.

        Where the store is open read-only, the process that writes it takes the snapshot, with its own rights and
        without ``progress``; if there is none, this process opens the store for that time. Creating and deleting
        topics waits for a snapshot, and so does the first commit of a store, which creates ``__consumer_offsets``.

        Raises:
            NotALogError: something is at that path already, or it is inside the store. A whole snapshot is there
                where the writer took it and was killed before it could answer.
            CorruptRecordError: a partition is damaged; with ``verify`` also the copy. There is no snapshot.
            DiskFullError, StorageError: it could not be written. There is none.
            OwnerTimeoutError: the store is open read-only here, and the process that writes it does not answer.
        """
        self._check_open()
        if self.read_only:
            from logstore.store.requests.requests import Copy

            return self._ask_owner(Copy(Directory(path).path, link, verify))
        from logstore.store.admin.snapshots import take

        # The copies of the logs and of the record of ingested batches must be of one moment.
        with self._scheduler.paused(), self._ingest.paused():
            root = Directory(self.path, self.files)
            return take(
                self._topics, self._partitions, root, os.fspath(path), link=link, verify=verify, progress=progress
            )

    def _ask_owner(self, request: Request[R]) -> R:
        from logstore.store.requests.asking import ask

        opener = partial(open_briefly, self.path, self.config, patient=False, clock=self.clock, files=self.files)
        return ask(Directory(self.path, self.files), request, opener, clock=self.clock)

    def disk_usage(self) -> DiskUsage:
        """Measure the disk space of the logs, and return it with their limit; -1 where there is no budget."""
        self._check_writable()
        self._disk_quota.measure(all_files=True)
        limited = self._disk_quota.limits.is_set
        return DiskUsage(self._disk_quota.used_bytes, self._disk_quota.limit_bytes if limited else -1)

    def set_disk_budget(self, budget: int | str | None = None, reserve: int | str | None = None) -> None:
        """Change ``logstore.disk.budget`` or ``logstore.disk.reserve`` of a store that was opened with one of them.

        Holds until the store is closed; the next open uses its own settings. Appends that were refused
        continue if there is space now.

        Raises:
            InvalidSettingError: a value is out of range, or the store was opened without a budget.
            InvalidSettingError: records that may not be deleted exceed it. Nothing was changed.
        """
        self._check_writable()
        before = self._disk_quota.limits
        if not before.is_set:
            raise InvalidSettingError(
                {
                    "logstore.disk.budget": "the store was opened without one; call logstore.open() again with "
                    "disk_budget="
                }
            )
        wanted = {
            "logstore.disk.budget": before.budget if budget is None else budget,
            "logstore.disk.reserve": before.reserve if reserve is None else reserve,
        }
        config = StoreConfig.of(wanted)
        self._disk_quota.change(Limits(config.disk_budget, config.disk_reserve))

    def housekeep(self, *, progress: Progress | None = None) -> None:
        """Do all recurring work now, in this thread: retention, compaction, expiry, checkpoints.

        Each log is worked on once, as it is when its turn comes; the call returns also while others write.
        A store with the machine's clock does this work by itself. One with a clock of its own, or with
        ``logstore.housekeeping=manual``, does it only here. A partition that cannot be worked on is logged and
        skipped. ``progress`` is called with the number of parts done, and of all parts as far as known.

        Raises:
            StorageError: the checkpoints of the root could not be written.
        """
        self._check_writable()
        if self._requests is not None:
            self._requests.serve_waiting()
        self._scheduler.run_all(progress)

    def close(self) -> None:
        """Flush and close every log, and release the directory. May be called again.

        An interrupt (Ctrl-C) is raised once all is closed.
        """
        shielded(self._end)

    def _end(self) -> None:
        if self._fork != fork_generation():
            # The parent owns the files and the lock: the child must not release them.
            self._lifecycle.closed = True
            self._finalizer.detach()
            return
        self._finalizer.detach()
        try:
            if not self._lifecycle.closed:
                self._consumers.end()
        finally:
            self._lifecycle.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else "open"
        return f"<Store {state} {self.path!r}>"

    @property
    def _ingest(self) -> Ingest:
        if self._ingest_made is None:
            from logstore.store.commit.ingest import Ingest  # here: few stores need it and its imports

            with held(self._parts_lock):
                if self._ingest_made is None:
                    self._ingest_made = Ingest(self, Directory(self.path, self.files))
        return self._ingest_made

    @property
    def _topics(self) -> Topics:
        assert isinstance(self._table, Topics)
        return self._table

    def _check_open(self) -> None:
        if self._lifecycle.closed:
            raise StoreClosedError("the store is closed; call logstore.open() again", path=self.path)
        if self._fork != fork_generation():
            raise ForkedError(
                "the store was opened before a fork; call logstore.open() in the child", path=self.path
            )

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise ReadOnlyError(
            "the store is open read-only; open it without read_only=True to change it", path=self.path
        )


class _Writer:
    """The process that writes a store, asked by one that is open read-only."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self) -> None:
        from logstore.store.requests.asking import check  # here: few readers need it

        check(self._store.path)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        ack: Ack | None,
        at_ms: int,
    ) -> None:
        from logstore.store.requests.requests import Commit

        self._store._ask_owner(Commit(group, offsets, ack, at_ms))


def _expire_offsets(reference: weakref.ref[Store]) -> None:
    """Delete committed offsets that no commit has renewed for ``offsets.retention.minutes``."""
    store = reference()
    if store is not None and not store.closed and CONSUMER_OFFSETS in store:
        store.offsets.expire()


def _open_of(reference: weakref.ref[Store]) -> Store | None:
    """Return the store if it still exists and is open, else None."""
    store = reference()
    return None if store is None or store.closed else store


def _settle(reference: weakref.ref[Store]) -> None:
    """Finish or abort staged batches that a failure has left undecided."""
    store = _open_of(reference)
    if store is not None:
        try:
            store._ingest.settle()
        except LogstoreError as error:
            _logger.error("undecided batches cannot be looked for: store=%s error=%s", store.path, error)


def open_store(
    path: Path | None = None,
    settings: Settings | Path = None,
    *,
    read_only: bool = False,
    create: bool = True,
    wait_s: float | None = 0.0,
    clock: Clock = SYSTEM_CLOCK,
    files: Files = LIBC,
    rng: random.Random | None = None,
    environ: Mapping[str, str] | None = None,
    **more_settings: Unpack[StoreSettings],
) -> Store:
    """Open the store in a directory, which is made if there is none.

    ``path`` may begin with ``~``, or be a ``file:`` URL; an empty one, and any other URL, is refused.
    ``settings`` are Kafka's broker and topic settings by their dotted keys, the path of a TOML file or of
    a ``server.properties`` with them, or a `StoreConfig`; ``more_settings`` the same keys with underscores. Their
    log settings hold for every topic that does not set its own. The retention of a ``server.properties`` holds
    only for topics made with it. By default, a store keeps records for ever. Arguments
    win over variables ``LOGSTORE_…`` of ``environ`` (the process's, if it is None), those over a file. Without a
    ``path``, ``log.dirs`` names it.

    One process at a time writes a store; with ``read_only`` any number of others read it concurrently, and see
    what is written. A writer waits ``wait_s`` seconds (None: for ever) for another process to close it.
    A store that was not closed is recovered, each partition when it is first used.

    Raises:
        DirectoryLockedError: another process writes here; its pid is named. A process that opened it briefly, to
            commit what Spark has staged or a group has read, is waited for, up to ten seconds.
        NotALogError: the directory is another program's, or Kafka's; or the path is no directory.
        DamagedCatalogueError: the list of topics is damaged. Nothing was changed.
        ConfigError: settings are unknown or out of range; every one is named.
        ReadOnlyError: the directory cannot be written.
    """
    if about_modes(settings) and not os.path.exists(str(settings)):
        check_settings(settings)
    given = StoreConfig.load(settings) if isinstance(settings, str | os.PathLike) else settings
    try:
        config = StoreConfig.layered(
            given,
            environ=os.environ if environ is None else environ,
            arguments=cast("Mapping[str, Setting]", more_settings),
        )
    except UnknownSettingError as error:
        raise with_arguments(error, open_store, more_settings) from None
    where = config.directory(path)

    def opened() -> Store:
        return made(
            lambda: Store(where, config, read_only=read_only, create=create, clock=clock, files=files, rng=rng),
            Store.close,
        )

    patience, never = Patience(clock, wait_s, files), Condition()
    while True:
        try:
            return opened()
        except DirectoryLockedError as error:
            pause_s = patience.pause_s(error)
        with held(never):
            clock.wait(never, pause_s)


def open_briefly(
    path: Path,
    settings: Settings = None,
    *,
    create: bool = False,
    brief: bool = True,
    patient: bool = True,
    clock: Clock = SYSTEM_CLOCK,
    files: Files = LIBC,
) -> Store:
    """Open a store for one piece of work, without housekeeping; if it is ``brief``, other processes wait for it.

    A ``patient`` caller waits for others that do the same. Raises as `open_store`.
    """
    config = StoreConfig.layered(settings, environ=os.environ, arguments={"logstore.housekeeping": "manual"})
    return made(
        lambda: Store(
            path,
            config,
            read_only=False,
            create=create,
            clock=clock,
            files=files,
            rng=None,
            brief=brief,
            patient=patient,
        ),
        Store.close,
    )
