"""What a broker serves: the store, topics by name and by id, the logs that it leads, pools for what is slow.

Every family of requests reaches a log through `Served.led`, which is the one place that decides whether this node
leads a partition: one without replicas always, one with replicas while the store's node says so. Two functions
compare the leader epochs that a client names with those of a log. Used by the loop's thread; the pools run what was
handed to them.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from logstore.accumulator.acknowledging import ReplicaSource, ReplicatedPartition
from logstore.broker._counts import TopicCounts
from logstore.broker.access.authorizer import ANONYMOUS, AclOperation, Authorizer, ClientIdentity, ResourceType
from logstore.broker.access.rights import Rights
from logstore.config.broker import SERVED_DEFAULTS, BrokerConfig
from logstore.config.log import canonical
from logstore.config.store import DEFAULTS, KAFKA_RETENTION_MS, ConfigLayer, warn_of_unkept
from logstore.errors import (
    LogstoreError,
    NotLeaderError,
    PolicyViolationError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.log import Log
from logstore.protocol import codes
from logstore.records import NewTopic, TopicPartition

if TYPE_CHECKING:
    from logstore.broker._loop import ClientConnection, Loop
    from logstore.store import Store
    from logstore.store.catalog.topic_list import Catalogue, TopicEntry
    from logstore.store.committed_offsets import CommittedOffsets

R = TypeVar("R")

_logger = logging.getLogger(__name__)

#: The number of this node on a store without a `logstore.replication.Node`, which has its own.
NODE = 1
#: Items of all arrays of one request: topics, partitions, keys. An item of two bytes takes a hundred as an object,
#: and several hundred with its answer; a request of more closes its connection. Kafka has no such bound.
MOST_ITEMS = 65_536
#: Partitions that one request may make, as Kafka: they are made together, under the lock of the table of topics.
MOST_NEW_PARTITIONS = 10_000
#: Threads for appends that wait, syncs and openings of logs.
_POOL = 4
#: Threads that read what is not in memory before it is sent: slow disks hold up no append.
_READS = 4
#: Threads for the other requests: what describes or changes topics holds up no append.
_ADMINISTRATION = 4


def id_text(topic_id: bytes) -> str:
    """Return the 16 bytes of a topic's id as Kafka's text form of it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


class Served:
    """The store of one broker."""

    def __init__(self, store: Store, config: BrokerConfig, authorizer: Authorizer | None = None) -> None:
        self.store = store
        self.config = config
        self.authorizer = authorizer  #: None: every client may do all
        self._advertised = config.advertised()
        self.host = store._host
        self.loop: Loop
        self._offsets: CommittedOffsets | None = None  # once it has begun, unless the store is read-only
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix="logstore-broker-pool")
        self._reads = ThreadPoolExecutor(_READS, thread_name_prefix="logstore-broker-reads")
        self._administration = ThreadPoolExecutor(_ADMINISTRATION, thread_name_prefix="logstore-broker-requests")
        self._catalogue: Catalogue | None = None
        self._by_id: dict[str, str] = {}
        self._node = NODE
        #: Topic -> its counts; "" has those of names that are no topic's, which any client may make up.
        self.counts: dict[str, TopicCounts] = {}

    def begin(self, loop: Loop) -> None:
        """Set the loop that calls come back to."""
        self.loop = loop
        if not self.host.read_only:
            self._offsets = self.host.offsets
            self._offsets.begin_serving(self, self.settings()["offsets.topic.num.partitions"])

    def end(self) -> None:
        """Wait for what the pools have begun; what waits in them is not begun, and was not answered."""
        self._administration.shutdown(cancel_futures=True)
        self._pool.shutdown(cancel_futures=True)
        self._reads.shutdown(cancel_futures=True)
        if self._offsets is not None:
            self._offsets.end_serving(self)

    def rights(self, client_id: str | None, connection: ClientConnection) -> Rights:
        """Return what the client of a request may do."""
        host = connection.peer[0] if isinstance(connection.peer, tuple) else str(connection.peer)
        principal = connection.principal or ANONYMOUS
        return Rights(self.authorizer, ClientIdentity(principal, connection.listener, client_id, host))

    def allows(
        self,
        operation: AclOperation,
        connection: ClientConnection,
        client_id: bytes | None,
        topics: Iterable[bytes],
        is_id: bool,
    ) -> bool:
        """Return whether a client may do something to each of some topics, all of which are there."""
        try:
            name = None if client_id is None else client_id.decode()
            named = [self.name_of(id_text(each)) if is_id else each.decode() for each in topics]
        except UnicodeDecodeError:
            return False
        known = [each for each in named if each is not None]
        return len(known) == len(named) and not self.rights(name, connection).denied(
            operation, ResourceType.TOPIC, known
        )

    def counts_of(self, name: str | None, code: int = 0) -> TopicCounts:
        """Return the counts for an answer with an error code about a topic."""
        if code and (name is None or self.host.table.find(name) is None):
            name = None
        found = self.counts.get(name or "")
        if found is None:
            found = self.counts[name or ""] = TopicCounts()
        return found

    def address_for(self, connection: ClientConnection) -> tuple[str, int]:
        """Return host and port that a client is told: those that it has connected to, unless others are set."""
        told = self._advertised.get(connection.listener)
        if told is not None:
            return told.host, told.port
        host, port = connection.local[:2]
        return host, port

    @property
    def makes_topics(self) -> bool:
        """Whether a topic is made when a client asks for it; as with Kafka, unless a setting says no."""
        return bool(self.settings()["auto.create.topics.enable"])

    def settings(self) -> dict[str, bool | int]:
        """Return the settings of the store that are other ones while it is served, unless they were given."""
        config = self.host.config
        found = {}
        for key, kafkas in SERVED_DEFAULTS.items():
            own: bool | int = getattr(config, key.replace(".", "_"))
            is_given = config.source(key).origin is not ConfigLayer.DEFAULT or own != DEFAULTS[key]
            found[key] = own if is_given else kafkas
        return found

    def defaults(self) -> dict[str, str]:
        """Return the defaults recorded with a topic of a client: Kafka's retention, where the store has none."""
        given = self.host.config.source("retention.ms").origin is not ConfigLayer.DEFAULT
        return {} if given or self.host.config.broker_file else {"retention.ms": str(KAFKA_RETENTION_MS)}

    def create_topics(self, wanted: Iterable[NewTopic], *, if_not_exists: bool = False) -> dict[str, LogstoreError]:
        """Create topics of clients, each for itself; see `Store.create_topics`, and `defaults`.

        Those that can be made are made together. Returns the error of each other one.
        """
        recorded, wanted = self.defaults(), list(wanted)
        errors = _too_many({new.name: new.partitions for new in wanted})
        if errors:
            return errors

        def check(new: NewTopic) -> None:
            self.host.check_writable()
            if not (if_not_exists and self.host.has(new.name)):
                self.host.topics_table.check_new(new, recorded)

        def create(together: Sequence[NewTopic]) -> None:
            self.host.topics_table.create_all(together, recorded, if_not_exists=if_not_exists)
            for each in together:
                warn_of_unkept(canonical(each.settings))

        return _each_for_itself({new.name: new for new in wanted}, check, create)

    def add_partitions(self, totals: Mapping[str, int]) -> dict[str, LogstoreError]:
        """Give topics more partitions, each for itself; see `Store.add_partitions`.

        They grow together, or, if one of them cannot, one by one: the caller has looked at each (`check_grow`).
        Returns the error of each that has not grown.
        """
        table = self.host.table
        entries = {name: table.find(name) for name in totals}
        errors = _too_many(
            {name: totals[name] - entry.partitions for name, entry in entries.items() if entry is not None}
        )
        if errors:
            return errors

        return _each_for_itself(
            {each[0]: each for each in totals.items()},
            lambda _: self.host.check_writable(),
            lambda each: self.store._add_partitions(dict(each)),
        )

    @property
    def node(self) -> int:
        """The number of this node; it stays when the store's node is closed."""
        replicas = self.host.replicas
        if replicas is not None:
            self._node = replicas.node
        return self._node

    @property
    def cluster_id(self) -> str:
        return self.host.cluster_id

    def topics(self) -> list[tuple[str, TopicEntry]]:
        """Return every topic with its entry, sorted by name."""
        # One may be deleted meanwhile, by an embedded caller.
        found = ((name, self.host.table.find(name)) for name in self.host.topics(internal=True))
        return [(name, entry) for name, entry in found if entry is not None]

    def table(self) -> object:
        """Return the table of topics: another object after each change."""
        return self.host._topics_known()

    def name_of(self, topic_id: str) -> str | None:
        """Return the name of the topic with an id; None if there is none."""
        self.host.check_open()
        catalogue = self.host.table.catalogue
        if catalogue is not self._catalogue:
            self._by_id = {entry.id: name for name, entry in catalogue.topics.items()}
            self._catalogue = catalogue
        return self._by_id.get(topic_id)

    def entry(self, name: str) -> TopicEntry:
        """Return a topic's entry.

        Raises:
            UnknownTopicError: there is none.
        """
        entry = self.host.table.find(name)
        if entry is None:
            raise UnknownTopicError(f"topic {name!r} does not exist")
        return entry

    def is_replicated(self, name: str) -> bool:
        """Return whether a topic, which exists, has replicas."""
        return self.host.table.config_of(name).replicated

    def replicas(self, name: str, partition: int) -> ReplicaSource:
        """Return the replicas through which a partition of a topic with replicas is led.

        Raises:
            NotLeaderError: no node runs on the store, or it does not lead the partition.
        """
        replicas = self.host.replicas
        if replicas is None:
            raise NotLeaderError(f"{name}-{partition}: the topic has replicas, and no node runs on this store")
        if not replicas.leads(name, partition):
            raise NotLeaderError(f"{name}-{partition}: node {replicas.node} does not lead it")
        return replicas

    def state(self, name: str, partition: int) -> ReplicatedPartition:
        """Return what is known here of a partition, with replicas or without."""
        if not self.is_replicated(name):
            alone = (self.node,)
            return ReplicatedPartition(True, self.node, self.epoch(name, partition), alone, alone)
        replicas = self.host.replicas
        found = None if replicas is None else replicas.partition(name, partition)
        return ReplicatedPartition(False) if found is None else found

    def epoch(self, name: str, partition: int, *, is_sought: bool = True) -> int:
        """Return the leader epoch of a partition without replicas; -1 if it is not known until its log is opened.

        A log that is not open is looked at only if that ``is_sought``: it takes two files.
        """
        try:
            return self.host.partitions.leader_epoch(TopicPartition(name, partition), is_sought=is_sought)
        except LogstoreError:
            return -1  # who uses the partition is told why

    def offline(self, name: str, nodes: Sequence[int]) -> list[int]:
        """Return those of a topic's nodes that no client can reach: addresses of other nodes are not known here.

        Nor does this one serve a topic with replicas once the store's node is closed.
        """
        is_served = self.host.replicas is not None or not self.is_replicated(name)
        return [each for each in nodes if each != self.node or not is_served]

    def leader_told(self, name: str | None, partition: int, code: int) -> tuple[int, int] | None:
        """Return leader and epoch for an answer with an error code (KIP-951); None if it is not to be told."""
        if code not in (codes.NOT_LEADER_OR_FOLLOWER, codes.FENCED_LEADER_EPOCH) or name is None:
            return None
        if self.host.table.find(name) is None or not self.is_replicated(name):
            return None
        found = self.state(name, partition)
        return found.leader, found.leader_epoch

    def find_open(self, name: str, partition: int) -> Log | None:
        """Return the log of a partition that this node leads; None if it has to be opened, by the pool.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none.
            NotLeaderError: another node leads it, or no node that runs here.
        """
        entry = self.entry(name)
        if not 0 <= partition < entry.partitions:
            raise UnknownPartitionError(f"topic {name!r} has {entry.partitions} partitions, not {partition}")
        found = self.host.partitions.found((name, partition))
        if found is None:
            # A log of a topic with replicas is opened by its node: an empty one here would be taken for a copy.
            if self.is_replicated(name):
                self.replicas(name, partition)
                raise NotLeaderError(f"{name}-{partition}: its log is being opened again")
            return None
        assert isinstance(found, Log), found
        if found.maintenance.config.replicated:
            self.replicas(name, partition)
        return found

    def led(self, name: str, partition: int) -> Log:
        """Return the log of a partition that this node leads, opened if it is not.

        Raises:
            UnknownTopicError, UnknownPartitionError, NotLeaderError: as `find_open`.
            DamagedLogError, StorageError: it cannot be opened.
        """
        log = self.find_open(name, partition)
        if log is None:
            self.host.partitions.get(TopicPartition(name, partition))
            log = self.find_open(name, partition)
            assert log is not None
        return log

    def in_pool(self, work: Callable[[], object], *, reads: bool = False) -> None:
        """Run ``work`` in the pool, or in that of ``reads``; nothing waits for it."""
        (self._reads if reads else self._pool).submit(work)

    def run(self, connection: ClientConnection, work: Callable[[], R], then: Callable[[R], object]) -> None:
        """Run ``work`` in the pool, then ``then`` with its result in the loop's thread.

        ``work`` turns the errors that it expects into answers. Any other is logged and closes the connection: its
        client would wait for an answer that does not come.
        """
        self._run(self._pool, connection, work, then)

    def administer(self, connection: ClientConnection, work: Callable[[], R], then: Callable[[R], object]) -> None:
        """Do as `run`, for what neither appends nor reads records: it has a pool of its own."""
        self._run(self._administration, connection, work, then)

    def _run(
        self,
        pool: ThreadPoolExecutor,
        connection: ClientConnection,
        work: Callable[[], R],
        then: Callable[[R], object],
    ) -> None:
        def go_on(result: R) -> None:
            try:
                then(result)
            except Exception:
                _logger.exception("an answer failed: client=%s", connection.peer)
                connection.close()

        def in_pool() -> None:
            try:
                result = work()
            except BaseException:
                _logger.exception("a request failed in the pool: client=%s", connection.peer)
                self.loop.post(connection.close)
                return
            self.loop.post(lambda: go_on(result))

        pool.submit(in_pool)


def _too_many(counts: Mapping[str, int]) -> dict[str, LogstoreError]:
    """Return an error for each topic if they get more new partitions together than one request may make."""
    total = sum(max(count, 0) for count in counts.values())
    if total <= MOST_NEW_PARTITIONS:
        return {}
    why = f"one request makes at most {MOST_NEW_PARTITIONS:,} partitions, found {total:,}; send several"
    return {name: PolicyViolationError(why) for name in counts}


def _each_for_itself(
    wanted: Mapping[str, R], check: Callable[[R], object], make: Callable[[Sequence[R]], object]
) -> dict[str, LogstoreError]:
    """Make what passes the check together; one by one if that fails. Return the errors by name."""
    errors: dict[str, LogstoreError] = {}

    def passes(name: str, step: Callable[[], object]) -> bool:
        try:
            step()
        except LogstoreError as error:
            errors[name] = error
        return name not in errors

    sound = {name: each for name, each in wanted.items() if passes(name, partial(check, each))}
    try:
        if sound:
            make(list(sound.values()))
    except LogstoreError:
        for name, each in sound.items():
            passes(name, partial(make, [each]))
    return errors


def epoch_error(log: Log, epoch: int) -> int:
    """Return Kafka's code for the leader epoch that a client believes in; 0 if it is the current one, or -1."""
    current = log.replica.leader_epoch
    if epoch in (-1, current):
        return 0
    return codes.FENCED_LEADER_EPOCH if epoch < current else codes.UNKNOWN_LEADER_EPOCH


def end_of_epoch(log: Log, epoch: int) -> tuple[int, int]:
    """Return the newest epoch up to one, and the offset at which its records end; (-1, -1) if it is not known.

    The table of a new log has no epoch: the present one is in it from the first record on.
    """
    end = log.log_end_offset
    return (epoch, end) if epoch == log.replica.leader_epoch else log.replica.epochs.end_offset_for(epoch, end)
