"""A store: a directory of topics, as `logstore.open` returns it.

It returns topics, producers and consumers that work on its host, which holds the root's lock, the catalogue and
the open logs. Any thread may use a store.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar, Unpack, cast

from logstore.client.backend.facts import TopicDescription
from logstore.client.store import AnyStore
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import Setting, canonical_keys
from logstore.config.schema import about_modes, check_settings, naming_arguments, with_arguments
from logstore.config.store import StoreConfig, warn_of_unkept
from logstore.errors import (
    DirectoryLockedError,
    InvalidSettingError,
    PolicyViolationError,
    UnknownSettingError,
)
from logstore.io._files import LIBC, Files
from logstore.io._interrupts import Condition, held, made, shielded
from logstore.io.side_by_side import in_turn
from logstore.log import Log
from logstore.log.directory.lock import Patience as Patience
from logstore.metrics import StoreMetrics
from logstore.records import NewTopic
from logstore.renamed import keep_names, warn
from logstore.store.backend import LocalBackend
from logstore.store.descriptions import describe
from logstore.store.host import Path, Settings, StoreHost, briefly
from logstore.store.maintenance.disk_quota import Limits
from logstore.store.maintenance.scheduler import Progress
from logstore.store.topic import Topic
from logstore.topic_names import SINKS

if TYPE_CHECKING:
    import random

    from logstore.client.consumer import Consumer
    from logstore.client.partitioners import Choice, Partitioner
    from logstore.client.producer import Producer
    from logstore.config.client import ConsumerConfig, ProducerConfig
    from logstore.config.generated.keywords import (
        ConsumerSettings,
        LogSettings,
        ProducerSettings,
        StoreSettings,
        TopicChanges,
    )
    from logstore.store.admin.snapshots import Snapshot
    from logstore.store.committed_offsets import CommittedOffsets

_logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


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
            warn(f"store.consumer({given[0]!r}, …)", f"store.consumer(…, group={given[0]!r})")
            kwargs["group"], *given = given
        elif "settings" in kwargs:
            warn(f"store.{call.__name__}(settings=…)", f"store.{call.__name__}(…)")
            given = [kwargs.pop("settings")]
        return call(store, *given, **kwargs)  # type: ignore[arg-type]  # the arguments were moved within P

    return called


#: Names of earlier releases -> their replacements. All of them are names of the host.
MOVED = {
    "partition": "store[topic][partition]",
    "partition_count": "len(store[topic])",
    "topic_id": "store[topic].id",
    "topic_config": "store[topic].config",
    **dict.fromkeys(
        ("added_from", "topic_to_send_to", "attach", "detach", "drop", "next_producer_id", "closed"),
        "the library's own",
    ),
    "ingest": "logstore.store.commit_client.commit",
    "cluster_id": "in meta.properties",
    **{name: f"the argument {name}= of logstore.open()" for name in ("clock", "files", "rng", "read_only")},
    "config": "the settings given to logstore.open()",
}


@keep_names("store", {name: (advice, f"_host.{name}") for name, advice in MOVED.items()})
class Store(AnyStore):
    """Topics in a directory.

    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=4)
    ...     flights.append(b"AA 1141", key=b"AA").offset
    0
    """

    def __init__(self, host: StoreHost) -> None:
        """Show an open store to its user, see `open_store` and `open_briefly`."""
        self._host = host
        self._backend = LocalBackend(host)
        self.path = host.path

    # -- topics

    def topic(self, name: str) -> Topic:
        """Return a topic by its name.

        Raises:
            UnknownTopicError: there is none; the message names the topics that exist.
        """
        return self._host.topic(name, self)

    def __getitem__(self, name: str) -> Topic:
        return self.topic(name)

    def __contains__(self, name: object) -> bool:
        return self._host.has(name)  # type: ignore[arg-type]  # any object may be asked for

    def topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; with ``internal`` also those of the store itself."""
        return self._host.topics(internal=internal)

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

        ``partitions`` is 1 to 10,000, by default ``num.partitions``. ``settings`` are Kafka's topic settings by
        their dotted keys, ``more_settings`` the same with underscores; a key that is not set has the store's
        value. If no retention is set, records are kept for ever. If the store was opened with a
        ``server.properties``, a topic gets the retention that Kafka would give it. With ``if_not_exists`` a topic
        that exists is returned as it is.

        Raises:
            TopicExistsError: there is one of that name.
            InvalidTopicError: the name breaks Kafka's rule.
            InvalidPartitionsError: the number of partitions is out of range.
            ConfigError: settings are unknown or out of range; every one is named.
            DiskFullError, StorageError: the disk refused.
            ReadOnlyError: the store is open read-only.
        """
        own = {**(settings or {}), **cast("Mapping[str, Setting]", more_settings)}
        return self._host.create_topic(name, partitions, own, if_not_exists=if_not_exists, store=self)

    def create_topics(self, topics: Iterable[NewTopic | str], *, if_not_exists: bool = False) -> list[Topic]:
        """Create topics together, all or none: a thousand cost little more than one. Durable on return.

        A topic is a name, or a `NewTopic` with partitions and settings as in `create_topic`. With
        ``if_not_exists`` topics that exist are returned as they are. The result is in the order of ``topics``.

        Raises:
            TopicExistsError, InvalidTopicError, InvalidPartitionsError, ConfigError: as `create_topic`, and
                `InvalidTopicError` for a name that is given twice. None is created.
            InvalidSettingError: a replication factor is neither 1 nor -1.
            DiskFullError, StorageError: the disk refused. None is created.
            ReadOnlyError: the store is open read-only.
        """
        wanted = []
        for each in (topics,) if isinstance(topics, (str, NewTopic)) else topics:
            topic = each if isinstance(each, NewTopic) else NewTopic(each)
            if topic.replication_factor not in (-1, 1):
                what = f"topic {topic.name!r}: a store has one copy, found {topic.replication_factor}"
                raise InvalidSettingError({"replication_factor": what})
            if topic.partitions == -1:
                topic = topic._replace(partitions=self._host.config.num_partitions)
            wanted.append(topic)
        return self._host.create_topics(wanted, if_not_exists=if_not_exists, store=self)

    def describe_topic(self, name: str) -> TopicDescription:
        """Describe a topic: its partitions with their offsets and sizes, and its settings.

        Raises:
            UnknownTopicError: there is none.
        """
        self._host.check_open()
        entry = self._host.table.entry(name)
        logs = (self._host._log_of(name, number) for number in range(entry.partitions))
        return describe(name, entry, self._host.table.config_of(name), logs)

    @naming_arguments
    def alter_topic(
        self,
        name: str,
        settings: Mapping[str, Setting] | None = None,
        *,
        drop_keyless: bool = False,
        **more_settings: Unpack[TopicChanges],
    ) -> Mapping[str, str]:
        """Change settings of a topic, also while it is used; None removes the topic's own value.

        Durable on return. Returns the topic's own settings as they are now. Compaction deletes records without a
        key. A topic that holds such records is compacted only with ``drop_keyless=True``. Without this argument,
        the call reads the keys of the topic up to the first record that has none.

        Raises:
            UnknownTopicError: there is none.
            ConfigError: a setting is unknown or out of range, or cannot change while the topic is open.
                Nothing was changed.
            PolicyViolationError: compaction would delete records that have no key. Nothing was changed.
            InvalidSettingError: records that may not be deleted would exceed ``logstore.disk.budget``. Nothing was
                changed.
        """
        changes = {**(settings or {}), **cast("Mapping[str, Setting]", more_settings)}
        return self._alter_topic(name, lambda: changes, drop_keyless=drop_keyless)

    def _alter_topic(
        self, name: str, changes: Callable[[], Mapping[str, Setting]], *, drop_keyless: bool = False
    ) -> Mapping[str, str]:
        """Change settings of a topic as `alter_topic`.

        ``changes`` tells the changes from the settings that the topic has. It is called for a first look, and then
        while no other caller can change the topic.
        """
        host = self._host
        host.check_writable()
        topics, given = host.topics_table, changes()
        after = topics.check_alter(name, given, host.disk_quota.check_alter)
        if after.compacts and not topics.config_of(name).compacts and not drop_keyless:
            # Read all keys before the catalogue is locked; `alter` checks the records that are appended meanwhile.
            for number in range(topics.entry(name).partitions):
                log = host.partition(name, number)
                assert isinstance(log, Log), log
                log.maintenance.check_keys()

        def alter() -> tuple[Mapping[str, Setting], Mapping[str, str]]:
            with topics.unchanged():
                now = changes()
                if now != given:
                    topics.check_alter(name, now, host.disk_quota.check_alter)
                return now, topics.alter(name, now, drop_keyless=drop_keyless).settings

        done, altered = shielded(alter)
        changed = canonical_keys(done)
        warn_of_unkept({key: value for key, value in altered.items() if key in changed})
        return dict(altered)

    def add_partitions(self, name: str, total: int) -> Topic:
        """Give a topic more partitions, up to ``total``, while it is used. Durable on return.

        Existing records stay where they are: a key may go to another partition from now on. Consumers
        that were assigned the topic by its name read the new partitions too, from offset 0.

        Raises:
            UnknownTopicError: there is none.
            InvalidPartitionsError: the topic has as many already, ``total`` is above 10,000, or the topic belongs
                to the store itself.
        """
        self._add_partitions({name: total})
        return self.topic(name)

    def _add_partitions(self, totals: Mapping[str, int]) -> None:
        """Give topics more partitions as `add_partitions`, all of them or none."""
        self._host.check_writable()
        shielded(self._host.topics_table.grow_all, totals)
        self._host.consumers.notify()

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records. Durable on return; its consumers get an error.

        Raises:
            UnknownTopicError: there is none.
            PolicyViolationError: ``delete.topic.enable`` is false, or the store needs it.
            StorageError: some files are still there; the topic is deleted, the next open removes them.
        """
        self.delete_topics([name])

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics together, with all their records. Durable on return; their consumers get an error.

        Raises:
            UnknownTopicError: there is no topic of one of the names. None is deleted.
            PolicyViolationError: ``delete.topic.enable`` is false, or the store needs one. None is deleted.
            StorageError: some files are still there; the topics are deleted, the next open removes them.
        """
        self._host.check_writable()
        doomed = list(dict.fromkeys([names] if isinstance(names, str) else names))
        for name in doomed:
            if not self._host.config.delete_topic_enable:
                raise PolicyViolationError(
                    f"topic {name!r} cannot be deleted: delete.topic.enable is false in this store"
                )
            if name == SINKS:
                raise PolicyViolationError(
                    f"topic {name!r} cannot be deleted: without it, committed batches would be ingested again"
                )
        entries = shielded(self._host.topics_table.delete, doomed)
        # Last: a crash before it leaves offsets that do no harm, since each names the id of its topic.
        for name, entry in zip(doomed, entries, strict=True):
            self.offsets.forget_topic(name, entry.id)

    @property
    def offsets(self) -> CommittedOffsets:
        """The committed offsets of every group: to list groups, to delete, to expire."""
        return self._host.offsets

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

        self._host.check_writable()
        return Producer(self._backend, settings, partitioner=partitioner, **more_settings)

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
        underscores. If the store is open read-only, the process that writes it commits the offsets. If there is
        none, this process opens the store for that moment. If the store is closed first, the consumer commits the
        records that it is known to have processed.

        Raises:
            InvalidGroupError: the name cannot be used.
            ConfigError: settings are unknown or out of range; every one is named.
            ReadOnlyError: the group would have to commit by itself, the store is open read-only, and its directory
                is Kafka's or cannot be written.
        """
        from logstore.client.consumer import open_consumer

        self._host.check_open()
        return open_consumer(self._backend, group, settings, cast("Mapping[str, Setting]", more_settings))

    # -- lifetime

    def flush(self) -> None:
        """Make everything that was appended to any partition before this call durable.

        Raises:
            StorageFailedError: a sync failed; the others were still made.
        """
        self._host.check_writable()
        in_turn(lambda log: log.flush(), self._host.partitions.opened())

    def snapshot(
        self, path: Path, *, link: bool = True, verify: bool = False, progress: Progress | None = None
    ) -> Snapshot:
        """Copy the whole store to a path that does not exist yet, while it is in use. Durable on return.

        Each partition is copied as of one moment during the call. Committed offsets are copied as of an earlier
        moment, so none is beyond the records of the copy. Everything acknowledged before the call is in it. Sealed
        segments are hard links where the file system has them and ``link`` is true, so that the copy takes hardly
        any space. Choose ``link=False`` if another program, such as Kafka, will change files of the copy in place.
        With ``verify`` every checksum in the copy is compared.

        Of a store with replicas, the copy has the facts of a `LocalRegistry.kept_in`, and says which node it is of.
        A node that runs on it leads what it alone has. It is never elected before others: it takes part in their
        partitions once it has copied what they have. Other nodes and other clusters refuse it.

        ``progress`` is called with the number of steps done
        and of all steps. A step is a partition that was copied or compared. ``progress`` must not use the store. To
        restore, open the copy as a store, or move it to where the store was.

        If the store is open read-only, the process that writes it takes the snapshot, with its own rights and
        without ``progress``. If there is none, this process opens the store for that time. Creating, altering
        and deleting topics waits for a snapshot, and so does the first commit of a store, which creates
        ``__consumer_offsets``.

        Raises:
            NotALogError: the path exists already, or is inside the store. It can be a complete snapshot of an
                earlier call, whose writing process was killed before it could answer.
            CorruptRecordError: a partition is damaged; with ``verify`` also the copy. There is no snapshot.
            DiskFullError, StorageError: it could not be written. There is none.
            OwnerTimeoutError: the store is open read-only here, and the process that writes it does not answer.
        """
        return self._host.snapshot(path, link=link, verify=verify, progress=progress)

    def disk_usage(self) -> DiskUsage:
        """Measure the disk space of the logs, and return it with its limit; -1 without budget and reserve."""
        self._host.check_writable()
        self._host.disk_quota.measure(all_files=True)
        limited = self._host.disk_quota.limits.is_set
        return DiskUsage(self._host.disk_quota.used_bytes, self._host.disk_quota.limit_bytes if limited else -1)

    def metrics(self) -> StoreMetrics:
        """Return the store's metrics at this moment: role, leader epoch, ISR and lag of each replica.

        Without a node on the store there are none.
        """
        self._host.check_open()
        node = self._host.replicas
        return StoreMetrics(() if node is None else tuple(node.metrics()))

    def set_disk_budget(self, budget: int | str | None = None, reserve: int | str | None = None) -> None:
        """Change ``logstore.disk.budget`` or ``logstore.disk.reserve`` of a store that was opened with one of them.

        Holds until the store is closed; the next open uses its own settings. Appends that were refused
        continue if there is space now.

        Raises:
            InvalidSettingError: a value is out of range; the store was opened without budget and reserve; or
                records that may not be deleted exceed the budget. Nothing was changed.
        """
        self._host.check_writable()
        before = self._host.disk_quota.limits
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
        self._host.disk_quota.change(Limits(config.disk_budget, config.disk_reserve))

    def housekeep(self, *, progress: Progress | None = None) -> None:
        """Do all recurring work now, in this thread: retention, compaction, expiry, checkpoints.

        Each log is worked on once, as it is when its turn comes. So the call ends even if other threads write on.
        A store with the machine's clock does this work by itself. One with a clock of its own, or with
        ``logstore.housekeeping=manual``, does it only here. A partition that cannot be worked on is logged and
        skipped. ``progress`` is called with the number of parts done, and of all parts as far as known.

        Raises:
            StorageError: the checkpoints of the root could not be written.
        """
        self._host.check_writable()
        if self._host.requests is not None:
            self._host.requests.serve_waiting()
        self._host.scheduler.run_all(progress)

    def close(self) -> None:
        """Flush and close every log, and release the directory. May be called again.

        An interrupt (Ctrl-C) is raised once all is closed.
        """
        self._host.close()

    @property
    def _is_closed(self) -> bool:
        return self._host.closed

    def __repr__(self) -> str:
        state = "closed" if self._host.closed else "read-only" if self._host.read_only else "open"
        return f"<Store {state} {self.path!r}>"


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
    """Open the store in a directory, which is made if there is none, unless ``create`` is false.

    ``path`` may begin with ``~``, or be a ``file:`` URL; an empty one, and any other URL, is refused. ``settings``
    are Kafka's broker and topic settings by their dotted keys, the path of a TOML file or ``server.properties``,
    or a `StoreConfig`. ``more_settings`` are the same keys with underscores. Their log settings hold for every
    topic that does not set its own. The retention of a ``server.properties`` holds only for topics made with it.
    By default, a store keeps records for ever. Arguments win over variables ``LOGSTORE_…`` of ``environ`` (the
    process's, if it is None), those over a file. Without a ``path``, ``log.dirs`` names the directory.

    One process at a time writes a store; with ``read_only`` any number of others read it concurrently, and see
    what is written. A writer waits ``wait_s`` seconds (None: for ever) for another process to close it.
    A store that was not closed is recovered, each partition when it is first used.

    Raises:
        DirectoryLockedError: another process writes here; its pid is named. A process that opened it briefly, to
            commit what Spark has staged or a group has read, is waited for, up to ten seconds.
        NotALogError: the directory is another program's, or Kafka's; the path is no directory; or nothing is there,
            and ``create`` is false or ``read_only`` is true.
        DamagedCatalogueError: the list of topics is damaged. Nothing was changed.
        ConfigError: settings are unknown or out of range; every one is named.
        ReadOnlyError: the directory cannot be written.
        StorageError: the file of settings cannot be read, or a file of the store.
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
        return Store(
            StoreHost(where, config, read_only=read_only, create=create, clock=clock, files=files, rng=rng)
        )

    patience, never = Patience(clock, wait_s, files), Condition()
    while True:
        try:
            return made(opened, Store.close)
        except DirectoryLockedError as error:
            pause_s = patience.pause_s(error)
        with held(never):
            clock.wait(never, pause_s)


def open_briefly(path: Path, settings: Settings = None, *, create: bool = False) -> Store:
    """Open a store for one piece of work, without housekeeping. Other processes wait until it is closed.

    Waits for other processes that have opened the store briefly. Raises as `open_store`.
    """
    return made(lambda: Store(briefly(path, settings, create=create)), Store.close)
