"""A directory of topics, as `logstore.open` returns it.

Holds the root's lock for as long as it is open (one process writes a directory, any number read it),
its catalogue and its open logs. It returns topics, producers and consumers that work on them, and is
responsible only for their lifetimes. Any thread may use a store.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar, Unpack, cast

from logstore.client.backend import Opened
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig, Setting
from logstore.config.schema import about_modes, check_settings, naming_arguments, with_arguments
from logstore.config.store import StoreConfig
from logstore.errors import (
    DirectoryLockedError,
    ForkedError,
    InvalidSettingError,
    NotALogError,
    ReadOnlyError,
    StoreClosedError,
    UnknownSettingError,
)
from logstore.io._files import LIBC, Files, fork_generation
from logstore.io._interrupts import Condition, held, made, shielded
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import Patience as Patience
from logstore.log.root import RootHold
from logstore.log.space_quota import SpaceQuota, UnlimitedSpace
from logstore.records import TopicPartition
from logstore.store.administering import Administering
from logstore.store.catalog import layout
from logstore.store.catalog.partitions import Partitions, lent
from logstore.store.catalog.reserve import ReserveGate
from logstore.store.catalog.topics import FollowedTopics, Topics, TopicTable
from logstore.store.consuming import Consuming
from logstore.store.lifecycle import Closeable, StoreLifecycle
from logstore.store.maintenance.disk_quota import DiskQuota, Holdings, Limits
from logstore.store.maintenance.scheduler import Progress, Scheduler
from logstore.store.maintenance.tasks import MaintenanceTasks
from logstore.store.requests.commit_server import Answering
from logstore.store.topic import Topic
from logstore.topic_names import CONSUMER_OFFSETS, INTERNAL

if TYPE_CHECKING:
    import random

    from logstore.client.partitioners import Choice, Partitioner
    from logstore.client.producer import Producer
    from logstore.config.client import ProducerConfig
    from logstore.config.generated_keywords import StoreSettings
    from logstore.store.admin.snapshots import Snapshot
    from logstore.store.commit.ingest import Ingest, Ingested
    from logstore.store.commit.staged_writer import Manifest
    from logstore.store.requests.requests import Request

_logger = logging.getLogger(__name__)

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


class Store(Consuming, Administering):
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
        super().__init__()
        root = Directory(path, files)
        self.path = root.path
        self.config = config
        self.read_only = read_only
        self.clock = clock
        self.files = files
        self.rng = rng
        self._fork = fork_generation()
        self._ingest_made: Ingest | None = None
        self._ingest_lock = threading.Lock()
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
        self._answering = Answering(root, self.clock, lambda: _open_of(store), lambda: _settle(store))
        self._lifecycle.keepers += (keeper, self._answering.keeper, self._answering.copier)
        if self.clock is SYSTEM_CLOCK and self.config.housekeeping == "thread":
            for each in (keeper, self._answering.keeper):
                each.start()

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

    # -- producers and consumers

    @naming_arguments
    def producer(
        self,
        settings: ProducerConfig | Mapping[str, Setting] | None = None,
        *,
        partitioner: str | Partitioner | Choice | None = None,
        **more_settings: Setting,
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
        self._answering.keeper.run_all()
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
                self._end_consumers()
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

            with held(self._ingest_lock):
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
        store._ingest.settle()


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
