"""Brokers of a cluster: their addresses, the leaders of partitions, and connections to the brokers.

The first metadata comes from a bootstrap server. Metadata of a topic is used for ``metadata.max.age.ms``, or until
an error shows that it is out of date. A connection has one user at a time, so any number of threads may make
requests concurrently. After a fork the child starts again without connections and metadata. This module does not
interpret records.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from logstore.config.remote import Address, WireConfig
from logstore.errors import (
    AuthenticationError,
    BrokerError,
    BrokerUnreachableError,
    ClientClosedError,
    LogstoreError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.protocol import codes
from logstore.protocol.generated.messages import MetadataRequest
from logstore.records import TopicPartition
from logstore.remote.backoff import Attempts
from logstore.remote.connection import BrokerConnection
from logstore.remote.credentials import Credentials
from logstore.remote.network.loop import Network
from logstore.remote.network.metadata_updates import MetadataUpdates
from logstore.remote.sasl.tokens import OAuthToken

_T = TypeVar("_T")

#: A topic counts as missing after so many answers: a new topic may not have reached the asked broker yet.
UNKNOWN_TOPIC_TRIES = 3


class PartitionMetadata(NamedTuple):
    """Leader and replicas of a partition. ``leader`` is a broker's number, -1 while there is no leader."""

    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    """A topic; ``id`` is empty if the brokers have no topic ids."""

    name: str
    id: str
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


class ClusterMetadata(NamedTuple):
    """Metadata of a cluster, as a broker reports it."""

    cluster_id: str | None
    controller: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, TopicMetadata]


_NOTHING = ClusterMetadata(None, -1, {}, {})


class Cluster:
    """Connections to the brokers of one cluster, and metadata of its topics.

    ``is_patient``: a call retries until ``default.api.timeout.ms`` even if no broker was ever reached.

    Owns: the connections. Threads: any, in any number.
    """

    def __init__(
        self,
        config: WireConfig,
        *,
        is_patient: bool = False,
        oauth_token: Callable[[], OAuthToken] | None = None,
    ) -> None:
        self.config = config
        self._is_patient = is_patient
        self._bootstrap = config.addresses
        self._credentials = Credentials(config, oauth_token)
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: dict[Address, list[BrokerConnection]] = defaultdict(list)
        self._known = _NOTHING
        self._learnt: dict[str, float] = {}  #: topic -> when its metadata arrived
        self._unreachable_until: dict[Address, float] = {}
        self._failures: dict[Address, int] = {}
        self._network: Network | None = None
        self._updates: MetadataUpdates | None = None

    def close(self) -> None:
        """Close every idle connection; `give_back` closes those that are in use now."""
        self._closed = True
        with self._lock:
            idle = [each for pool in self._idle.values() for each in pool]
            self._idle.clear()
            network = self._network
        for each in idle:
            each.close()
        if network is not None:
            network.close()

    # -- the thread of the sockets -----------------------------------------------------------------

    @property
    def network(self) -> Network:
        """The thread of the sockets, which fetches for consumers."""
        self._check()
        with self._lock:
            if self._network is None:
                self._network = Network(self.config, self._credentials)
            return self._network

    @property
    def updates(self) -> MetadataUpdates:
        """The metadata that the thread of the sockets works by."""
        network = self.network
        with self._lock:
            if self._updates is None:
                self._updates = MetadataUpdates(network.thread, self.config)
                network.add(self._updates)
            return self._updates

    # -- connections -------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def check_open(self) -> None:
        """Raise if the client is closed."""
        if self._closed:
            raise ClientClosedError("the client is closed")

    def _check(self) -> None:
        if self._closed:
            raise ClientClosedError("the client is closed")
        if self._pid != os.getpid():
            # The parent still uses these sockets; the child would mix its requests with the parent's.
            self._begin()
            self._credentials = self._credentials.again()

    @contextlib.contextmanager
    def connection(self, node: int) -> Iterator[BrokerConnection]:
        """Lend one caller a connection to a broker; afterwards the connection returns to the pool if it is usable.

        Raises:
            BrokerUnreachableError: the broker cannot be reached, or its address is not known.
        """
        made = self.take(node)
        try:
            yield made
        finally:
            self.give_back(made)

    def take(self, node: int) -> BrokerConnection:
        """Return a connection to a broker, for this caller only until `give_back`; raises as `connection`."""
        self._check()
        address = self._known.brokers.get(node)
        if address is None:
            raise BrokerUnreachableError(f"broker {node} is not known to the cluster")
        return self._take(address, node)

    def give_back(self, connection: BrokerConnection) -> None:
        """Return a connection to the pool, or close it if it is not usable or the client is closed."""
        if connection.is_usable():
            with self._lock:
                # Asked under the lock: `close` has taken what was there before, and nothing comes after it.
                if not self._closed:
                    self._idle[connection.address].append(connection)
                    return
        connection.close()

    def _take(self, address: Address, node: int = -1) -> BrokerConnection:
        while True:
            with self._lock:
                pool = self._idle.get(address)
                found = pool.pop() if pool else None
            if found is None:
                break
            if found.is_usable():
                if node >= 0:
                    found.node = node  # the number was unknown if the address was a bootstrap server's
                return found
            found.close()
        left_s = self._unreachable_until.get(address, 0.0) - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
        try:
            made = BrokerConnection(address, self.config, self._credentials, node=node)
        except (AuthenticationError, BrokerUnreachableError):
            # A program that calls again and again must not ask the broker as often: brokers lock users.
            failures = self._failures[address] = self._failures.get(address, 0) + 1
            pause_ms = min(
                self.config.reconnect_backoff_ms * 2.0 ** min(failures - 1, 30),
                self.config.reconnect_backoff_max_ms,
            )
            self._unreachable_until[address] = time.monotonic() + pause_ms / 1000
            raise
        self._failures.pop(address, None)
        self._unreachable_until.pop(address, None)
        return made

    @contextlib.contextmanager
    def any_connection(self) -> Iterator[BrokerConnection]:
        """Lend a connection to any broker that can be reached: a known broker or a bootstrap server.

        Raises:
            AuthenticationError: one broker refuses this client's login or certificate; the others are not asked.
            BrokerUnreachableError: no broker answers; the message names each with its reason.
        """
        self._check()
        known = list(self._known.brokers.items())
        random.shuffle(known)
        wanted = {address: node for node, address in known} | {
            address: -1 for address in self._bootstrap if address not in dict.fromkeys(a for _, a in known)
        }
        problems: list[LogstoreError] = []
        # Open connections first: opening one could cost a connection timeout.
        for address in sorted(wanted, key=lambda each: not self._idle.get(each)):
            try:
                made = self._take(address, wanted[address])
            except AuthenticationError:
                raise  # the others would refuse it too, and count one more failure
            except LogstoreError as error:
                problems.append(error)
                continue
            try:
                yield made
            finally:
                self.give_back(made)
            return
        if len(problems) == 1:
            raise problems[0]
        raise BrokerUnreachableError("bootstrap.servers: no broker answers: " + "; ".join(map(str, problems)))

    def attempts(self, what: str, timeout_ms: int | None = None) -> Attempts:
        """Return the `Attempts` of one call, with the timeouts and pauses of the settings."""
        limit = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        if not self._known.brokers and not self._is_patient:
            # The address is probably wrong: without this limit the user would wait for the whole timeout.
            limit = min(limit, self.config.socket_connection_setup_timeout_ms)
        return Attempts(
            what,
            timeout_ms=limit,
            backoff_ms=self.config.retry_backoff_ms,
            backoff_max_ms=self.config.retry_backoff_max_ms,
        )

    # -- metadata ----------------------------------------------------------------------------------

    @property
    def known(self) -> ClusterMetadata:
        """The cached metadata, without a request."""
        return self._known

    def refresh(self, topics: Iterable[str] | None, attempts: Attempts | None = None) -> ClusterMetadata:
        """Ask a broker for topics, None for all, and cache the answer. Return only the topics in the answer.

        Raises:
            UnknownTopicError: a named topic does not exist.
            InvalidTopicError, BrokerError: the broker refuses one of the topics.
            BrokerUnreachableError, BrokerTimeoutError: no broker answers.
        """
        names = None if topics is None else sorted(set(topics))
        tries = attempts or self.attempts("metadata")
        unknown = 0
        while True:
            found, faults = tries.run(partial(self._ask_metadata, names))
            self._keep(found, faults, all_topics=names is None)
            if not faults or names is None:
                # Among all topics, one that is still being created has an error: it must not fail the others.
                return found
            name, code = next(iter(faults.items()))
            problem = codes.error_of(code, f"topic {name!r}")
            if code in (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID):
                unknown += 1
                if unknown >= UNKNOWN_TOPIC_TRIES:
                    missing = ", ".join(repr(each) for each, fault in faults.items() if fault == code)
                    raise UnknownTopicError(f"the cluster has no topic {missing}")
            elif not codes.is_retriable(code):
                raise problem
            tries.pause(problem)

    def _ask_metadata(self, names: list[str] | None) -> tuple[ClusterMetadata, dict[str, int]]:
        wanted = None
        if names is not None:
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        with self.any_connection() as connection:
            version = connection.version_of(MetadataRequest)
            if wanted is None and version == 0:
                wanted = []
            answer = connection.ask(
                MetadataRequest(topics=wanted, allow_auto_topic_creation=version < 4), version=version
            )
        top = getattr(answer, "error_code", 0)
        if top:
            raise codes.error_of(top, f"metadata from {connection}")
        brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found, faults = {}, {}
        for topic in answer.topics:
            if topic.error_code:
                faults[topic.name] = topic.error_code
                continue
            found[topic.name] = TopicMetadata(
                topic.name,
                topic.topic_id,
                topic.is_internal,
                {
                    each.partition_index: PartitionMetadata(
                        each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
                    )
                    for each in topic.partitions
                },
            )
        return ClusterMetadata(answer.cluster_id, answer.controller_id, brokers, found), faults

    def _keep(self, found: ClusterMetadata, faults: Mapping[str, int], *, all_topics: bool) -> None:
        now = time.monotonic()
        with self._lock:
            topics = {} if all_topics else dict(self._known.topics)
            for name in faults:
                topics.pop(name, None)
            topics.update(found.topics)
            # The same object where nothing has changed: readers compare it by identity.
            self._known = found._replace(topics=self._known.topics if topics == self._known.topics else topics)
            self._learnt.update(dict.fromkeys(found.topics, now))

    def topic(self, name: str, attempts: Attempts | None = None) -> TopicMetadata:
        """Return a topic from the cache, or from a broker if its metadata is missing or too old.

        Raises as `refresh`.
        """
        self._check()
        known = self._known.topics.get(name)
        age_ms = (time.monotonic() - self._learnt.get(name, -math.inf)) * 1000
        if known is not None and age_ms < self.config.metadata_max_age_ms:
            return known
        return self.refresh([name], attempts).topics[name]

    def forget(self, topics: Iterable[str]) -> None:
        """Mark the cached metadata of topics as too old: the next `topic` asks a broker."""
        with self._lock:
            for name in topics:
                self._learnt.pop(name, None)

    def leader(self, tp: TopicPartition, attempts: Attempts | None = None) -> tuple[int, PartitionMetadata]:
        """Return the broker that leads a partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
            BrokerError: LEADER_NOT_AVAILABLE: the partition has no leader at the moment; retry.
        """
        topic = self.topic(tp.topic, attempts)
        found = topic.partitions.get(tp.partition)
        if found is None:
            topic = self.refresh([tp.topic], attempts).topics[tp.topic]
            found = topic.partitions.get(tp.partition)
        if found is None:
            raise UnknownPartitionError(
                f"topic {tp.topic!r} has partitions 0 to {len(topic.partitions) - 1}, but no {tp.partition}"
            )
        if found.leader < 0 or found.leader not in self._known.brokers:
            raise BrokerError(
                f"partition {tp} has no leader now",
                code=codes.LEADER_NOT_AVAILABLE,
                name="LEADER_NOT_AVAILABLE",
                retriable=True,
            )
        return found.leader, found

    # -- requests ----------------------------------------------------------------------------------

    def at_any(self, what: str, ask: Callable[[BrokerConnection], _T], timeout_ms: int | None = None) -> _T:
        """Call ``ask`` with a connection to any broker, and retry after a retriable error."""

        def once() -> _T:
            with self.any_connection() as connection:
                return ask(connection)

        return self.attempts(what, timeout_ms).run(once)

    def at_controller(self, what: str, ask: Callable[[BrokerConnection], _T]) -> _T:
        """Call ``ask`` with a connection to the controller that the metadata names; retry after a retriable error.

        With KRaft that is any broker: it forwards the request to the controller.
        """
        attempts = self.attempts(what)
        while True:
            try:
                if not self._known.brokers:
                    self.refresh([], attempts)
                if self._known.controller not in self._known.brokers:
                    return self.at_any(what, ask)
                with self.connection(self._known.controller) as connection:
                    return ask(connection)
            except LogstoreError as error:
                attempts.retry(error)
                self.refresh([], attempts)

    def at_leaders(
        self,
        what: str,
        partitions: Iterable[TopicPartition],
        make: Callable[[BrokerConnection, list[TopicPartition]], Any],
        read: Callable[[Any], Iterable[tuple[TopicPartition, int, _T]]],
    ) -> dict[TopicPartition, _T]:
        """Send each leader one request for all of its partitions, and retry those with a retriable error.

        ``make`` makes the request for some partitions. ``read`` returns (partition, error code, result) for each
        partition of an answer.

        Raises:
            LogstoreError: the error for a partition's error code, naming the partition and the broker.
        """
        attempts = self.attempts(what)
        left = list(dict.fromkeys(partitions))
        done: dict[TopicPartition, _T] = {}
        while left:
            again: LogstoreError | None = None
            by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
            for tp in left:
                try:
                    by_leader[self.leader(tp, attempts)[0]].append(tp)
                except BrokerError as error:
                    if not error.retriable:
                        raise
                    again = error
            for node, theirs in by_leader.items():
                try:
                    with self.connection(node) as connection:
                        answers = list(read(connection.ask(make(connection, theirs))))
                except LogstoreError as error:
                    if not error.retriable:
                        raise
                    again = error
                    continue
                for tp, code, result in answers:
                    if not code:
                        done[tp] = result
                        continue
                    problem = codes.error_of(code, f"{what} of {tp} at {connection}")
                    if not codes.is_retriable(code):
                        raise problem
                    again = problem
            left = [tp for tp in left if tp not in done]
            if left:
                attempts.pause(again or BrokerUnreachableError(f"{what}: no answer for {left[0]}"))
                self.forget({tp.topic for tp in left})
        return done
