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
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, TypeVar

from logstore.client.backend.backend import OneRound
from logstore.config.remote import Address, WireConfig
from logstore.errors import (
    AuthenticationError,
    BrokerError,
    BrokerTimeoutError,
    BrokerUnreachableError,
    ClientClosedError,
    ForkedError,
    LogstoreError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.protocol import codes
from logstore.protocol.generated.messages import MetadataRequest
from logstore.records import TopicPartition
from logstore.remote.backoff import Attempts
from logstore.remote.credentials import Credentials
from logstore.remote.metadata.known import KnownCluster, KnownPartition, KnownTopic
from logstore.remote.network.link import BrokerLink
from logstore.remote.network.loop import Network
from logstore.remote.network.metadata_updates import MetadataUpdates
from logstore.remote.sasl.tokens import OAuthToken

_T = TypeVar("_T")

#: A topic counts as missing after so many answers: a new topic may not have reached the asked broker yet.
UNKNOWN_TOPIC_TRIES = 3


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
        self._closed = False
        #: Whether a forked child may call, by connections of its own; False refuses it each call.
        self.serves_children = True
        self._credentials = Credentials(config, oauth_token)
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: dict[Address, list[BrokerLink]] = defaultdict(list)
        self._learnt: dict[str, float] = {}  #: topic -> when a call has learnt of it
        self._network = Network(self.config, self._credentials)
        #: The metadata that the thread of the sockets and all calls work by.
        self._updates = MetadataUpdates(self._network.thread, self.config)

    def close(self) -> None:
        """Close every connection, and end the thread of the sockets."""
        self._closed = True
        with self._lock:
            self._idle.clear()
        self._network.close()

    # -- the thread of the sockets -----------------------------------------------------------------

    @property
    def network(self) -> Network:
        """The thread of the sockets."""
        self._check()
        return self._network

    @property
    def updates(self) -> MetadataUpdates:
        """The metadata that the thread of the sockets keeps up to date."""
        self._check()
        return self._updates

    # -- connections -------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def check_open(self) -> None:
        """Raise if the client is closed, or refuses the forked child that calls."""
        if not self.serves_children and self._pid != os.getpid():
            raise ForkedError("the client was made before a fork; call logstore.connect() in the child")
        if self._closed:
            raise ClientClosedError("the client is closed")

    def _check(self) -> None:
        self.check_open()
        if self._pid != os.getpid():
            # The parent still uses these sockets, and the child has no thread that serves them.
            self._credentials = self._credentials.again()
            self._begin()

    @contextlib.contextmanager
    def connection(self, node: int) -> Iterator[BrokerLink]:
        """Lend one caller a connection to a broker; afterwards the connection returns to the pool if it is usable.

        Raises:
            BrokerUnreachableError: the broker cannot be reached, or its address is not known.
        """
        made = self.take(node)
        try:
            yield made
        finally:
            self.give_back(made)

    def take(self, node: int) -> BrokerLink:
        """Return a connection to a broker, for this caller only until `give_back`; raises as `connection`."""
        self._check()
        broker = self.known.brokers.get(node)
        if broker is None:
            raise BrokerUnreachableError(f"broker {node} is not known to the cluster")
        return self._take(broker.address, node)

    def give_back(self, connection: BrokerLink) -> None:
        """Return a connection to the pool, or close it if it is not usable or the client is closed."""
        if connection.is_usable():
            with self._lock:
                # Asked under the lock: `close` has taken what was there before, and nothing comes after it.
                if not self._closed:
                    self._idle[connection.address].append(connection)
                    return
        connection.close()

    def _take(self, address: Address, node: int = -1) -> BrokerLink:
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
        return BrokerLink(self.network, self.config, address, node=node)

    @contextlib.contextmanager
    def any_connection(self) -> Iterator[BrokerLink]:
        """Lend a connection to any broker that can be reached: a known broker or a bootstrap server.

        Raises:
            AuthenticationError: one broker refuses this client's login or certificate; the others are not asked.
            BrokerUnreachableError: no broker answers; the message names each with its reason.
        """
        self._check()
        known = [(node, each.address) for node, each in self.known.brokers.items()]
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
        return Attempts(
            what,
            timeout_ms=self.timeout_ms(timeout_ms),
            backoff_ms=self.config.retry_backoff_ms,
            backoff_max_ms=self.config.retry_backoff_max_ms,
        )

    def timeout_ms(self, timeout_ms: int | None = None) -> int:
        """Return how long a call retries, by default ``default.api.timeout.ms``."""
        limit = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        if not self.known.brokers and not self._is_patient:
            # The address is probably wrong: without this limit the user would wait for the whole timeout.
            limit = min(limit, self.config.socket_connection_setup_timeout_ms)
        return limit

    # -- metadata ----------------------------------------------------------------------------------

    @property
    def known(self) -> KnownCluster:
        """The cached metadata, without a request."""
        return self._updates.known

    def refresh(self, topics: Iterable[str] | None, attempts: Attempts | None = None) -> KnownCluster:
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

    def _ask_metadata(self, names: list[str] | None) -> tuple[KnownCluster, dict[str, int]]:
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
        if not answer.brokers:
            raise BrokerUnreachableError(f"{connection} has just started, and knows no broker yet")
        known, faults = self._updates.learn(self._network, answer, all_topics=names is None)
        told = {each.name for each in answer.topics if not each.error_code}
        with self._lock:
            self._learnt.update(dict.fromkeys(told, time.monotonic()))
        found = {name: each for name, each in known.topics.items() if name in told}
        return known._replace(topics=MappingProxyType(found)), {each.name: each.code for each in faults}

    def topic(self, name: str, attempts: Attempts | None = None) -> KnownTopic:
        """Return a topic from the cache, or from a broker if its metadata is missing or too old.

        Raises as `refresh`.
        """
        self._check()
        known = self.known.topics.get(name)
        age_ms = (time.monotonic() - self._learnt.get(name, -math.inf)) * 1000
        if known is not None and age_ms < self.config.metadata_max_age_ms:
            return known
        return self.refresh([name], attempts).topics[name]

    def forget(self, topics: Iterable[str]) -> None:
        """Mark the cached metadata of topics as too old: the next `topic` asks a broker."""
        with self._lock:
            for name in topics:
                self._learnt.pop(name, None)

    def check_partition(self, tp: TopicPartition, attempts: Attempts | None = None) -> KnownPartition:
        """Return what is known of a partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
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
        return found

    def leader(self, tp: TopicPartition, attempts: Attempts | None = None) -> tuple[int, KnownPartition]:
        """Return the broker that leads a partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
            BrokerError: LEADER_NOT_AVAILABLE: the partition has no leader at the moment; retry.
        """
        found = self.check_partition(tp, attempts)
        if found.leader < 0 or found.leader not in self.known.brokers:
            raise BrokerError(
                f"partition {tp} has no leader now",
                code=codes.LEADER_NOT_AVAILABLE,
                name="LEADER_NOT_AVAILABLE",
                retriable=True,
            )
        return found.leader, found

    # -- requests ----------------------------------------------------------------------------------

    def at_any(self, what: str, ask: Callable[[BrokerLink], _T], timeout_ms: int | None = None) -> _T:
        """Call ``ask`` with a connection to any broker, and retry after a retriable error."""

        def once() -> _T:
            with self.any_connection() as connection:
                return ask(connection)

        return self.attempts(what, timeout_ms).run(once)

    def at_controller(self, what: str, ask: Callable[[BrokerLink], _T]) -> _T:
        """Call ``ask`` with a connection to the controller that the metadata names; retry after a retriable error.

        With KRaft that is any broker: it forwards the request to the controller.
        """
        attempts = self.attempts(what)
        while True:
            try:
                if not self.known.brokers:
                    self.refresh([], attempts)
                if self.known.controller not in self.known.brokers:
                    return self.at_any(what, ask)
                with self.connection(self.known.controller) as connection:
                    return ask(connection)
            except LogstoreError as error:
                attempts.retry(error)
                self.refresh([], attempts)

    def at_leaders(
        self,
        what: str,
        partitions: Iterable[TopicPartition],
        make: Callable[[BrokerLink, list[TopicPartition]], Any],
        read: Callable[[Any], Iterable[tuple[TopicPartition, int, _T]]],
        asked: OneRound | None = None,
    ) -> dict[TopicPartition, _T]:
        """Send each leader one request for all of its partitions, and retry those with a retriable error.

        ``make`` makes the request for some partitions. ``read`` returns (partition, error code, result) for each
        partition of an answer. With a round nothing is retried, and slow leaders are left; see `OneRound`.

        Raises:
            LogstoreError: the error for a partition's error code, naming the partition and the broker.
        """
        attempts = self.attempts(what)
        left = list(dict.fromkeys(partitions))
        done: dict[TopicPartition, _T] = {}
        if asked is not None:
            return self._at_leaders_once(what, left, make, read, asked, attempts)
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

    def _at_leaders_once(
        self,
        what: str,
        partitions: list[TopicPartition],
        make: Callable[[BrokerLink, list[TopicPartition]], Any],
        read: Callable[[Any], Iterable[tuple[TopicPartition, int, _T]]],
        asked: OneRound,
        attempts: Attempts,
    ) -> dict[TopicPartition, _T]:
        done: dict[TopicPartition, _T] = {}
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in partitions:
            try:
                by_leader[self.leader(tp, attempts)[0]].append(tp)
            except BrokerError as error:
                if not error.retriable:
                    raise
                asked.left[tp] = error
        #: From each leader: its number, what it says, or an error.
        answers: SimpleQueue[tuple[int, list[tuple[TopicPartition, int, _T]], Exception | None]] = SimpleQueue()

        def ask(node: int, theirs: list[TopicPartition]) -> None:
            try:
                with self.connection(node) as connection:
                    found = list(read(connection.ask(make(connection, theirs))))
                answers.put((node, found, None))
            except Exception as error:  # noqa: BLE001  the caller raises it
                answers.put((node, [], error))

        for node, theirs in by_leader.items():
            if len(by_leader) == 1 and not asked.counts_at_once:
                ask(node, theirs)
            else:
                threading.Thread(target=ask, args=(node, theirs), name="logstore-question", daemon=True).start()
        deadline = time.monotonic() + asked.patience_s if asked.counts_at_once else math.inf
        lasting: Exception | None = None
        while by_leader:
            try:
                left_s = None if deadline == math.inf else max(deadline - time.monotonic(), 0.0)
                node, found, problem = answers.get(timeout=left_s)
            except Empty:
                break
            theirs = by_leader.pop(node)
            if problem is None:
                deadline = min(deadline, time.monotonic() + asked.patience_s)
            elif not isinstance(problem, LogstoreError) or not problem.retriable:
                lasting = problem
            else:
                asked.left.update(dict.fromkeys(theirs, problem))
            for tp, code, result in found:
                if not code:
                    done[tp] = result
                elif codes.is_retriable(code):
                    asked.left[tp] = codes.error_of(code, f"{what} of {tp} at broker {node}")
                else:
                    lasting = codes.error_of(code, f"{what} of {tp} at broker {node}")
        if lasting is not None:
            raise lasting
        for tp in partitions:
            if tp not in done and tp not in asked.left:
                asked.left[tp] = BrokerTimeoutError(f"{what}: no answer for {tp}")
        return done
