"""`Node`: the replicas of a store in this process, and the threads that drive them.

One thread deals with the registry, one for each leader copies from it. The embedder's server hands requests of
other nodes to `Node.answer`. A node elects through the registry, without a controller.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from logstore.config.log import LogConfig, Setting
from logstore.errors import (
    DeliveryTimeoutError,
    InvalidPartitionsError,
    InvalidSettingError,
    RegistryUnreachableError,
    StaleFactError,
    StoreClosedError,
    TopicExistsError,
    UnknownTopicError,
)
from logstore.metrics import ReplicaMetrics
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import (
    NO_NODE,
    Change,
    Create,
    NodeId,
    Registry,
    Role,
    Transport,
)
from logstore.replication.controller.spread import circle, spread
from logstore.replication.deletion import request_path
from logstore.replication.election import created
from logstore.replication.insync import LAG_MAX_MS
from logstore.replication.node.answers import FollowerAnswers
from logstore.replication.node.fetcher import Fetcher
from logstore.replication.node.member import Member, Members
from logstore.replication.node.registration import NodeRegistration
from logstore.replication.node.registry_loop import TICK_S, RegistryLoop
from logstore.replication.node.replicas import NodeReplicas
from logstore.store import Store, Topic
from logstore.store.catalog.topic_list import new_id

_logger = logging.getLogger(__name__)

#: Kafka's default of ``replica.fetch.wait.max.ms``.
FETCH_WAIT_MS = 500

#: How often, within `LAG_MAX_MS`, follower and leader look at every partition that one copies from the other.
_LOOKS_IN_LAG = 16

#: How long a new topic may take to have leaders, and a node to be registered.
_SETTLE_S = 30.0


class Node:
    """One node of a cluster: the replicas of a store, replicated with those of other nodes.

    ``connect`` opens a session with the registry; it is called again when a session has ended. ``transport``
    carries requests to the nodes, whose servers hand them to their `answer`. ``lag_max_ms`` is Kafka's
    ``replica.lag.time.max.ms``, and ``timeout_s`` how long a request may take beyond its wait.

    With ``quorum`` a record is acknowledged once a majority of the replicas has it on disk, and a majority elects;
    without it Kafka's rules of in-sync replicas hold. All nodes of a cluster have the same rules.

    ``rack`` is Kafka's ``broker.rack``: where the node stands. The replicas of a new topic, and those that a
    controller places, stand in different racks as far as there are such.

    A ``controlled`` node elects nothing: a `logstore.replication.controller.ControllerLoop` does, on one node of
    the cluster for all of them.

    The node is registered when the constructor returns. Close it before its store. Any thread may call.

    Raises:
        InvalidSettingError: the directory belongs to another node or another cluster, ``rack`` is no name, or both
            ``quorum`` and ``controlled`` are set: a majority elects by itself.
        RegistryUnreachableError: the registry does not answer, or another directory is registered as this node.
    """

    def __init__(
        self,
        store: Store,
        node: NodeId,
        connect: Callable[[], Registry],
        transport: Transport,
        *,
        rack: str | None = None,
        quorum: bool = False,
        controlled: bool = False,
        lag_max_ms: int = LAG_MAX_MS,
        fetch_wait_ms: int = FETCH_WAIT_MS,
        timeout_s: float = 30.0,
    ) -> None:
        if not 0 <= node < 2**31:
            raise InvalidSettingError({"node": f"expected a number from 0 to 2147483647, found {node!r}"})
        if rack is not None and (type(rack) is not str or not rack):
            raise InvalidSettingError(
                {"rack": f"expected a name, or None for a node without a rack, found {rack!r}"}
            )
        if quorum and controlled:
            raise InvalidSettingError({"controlled": "a quorum elects by itself: leave controlled or quorum out"})
        if store._host.replicas is not None:
            raise InvalidSettingError({"node": "expected a store without a node, found one that a node runs on"})
        self.node = node
        self._store = store
        self._host = store._host
        self._clock = self._host.clock
        self._transport = transport
        self._lag_max_ms, self._fetch_wait_ms, self._timeout_s = lag_max_ms, fetch_wait_ms, timeout_s
        self._look_s = lag_max_ms / 1000 / _LOOKS_IN_LAG
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._is_closed = False
        self._moved = threading.Condition()  # notified after each state that a replica has taken
        self._registration = NodeRegistration(self._host.root, node, self._host.cluster_id, rack)
        members = Members(store, self._registration, lag_max_ms, quorum=quorum, controlled=controlled)
        self._registry_loop = RegistryLoop(
            self._registration, connect, members, self._clock, self._changed, controlled=controlled
        )
        loop = self._registry_loop
        self._replicas = NodeReplicas(
            node, lambda: loop.members, lambda: loop.unopened, lambda: loop.topics, self._clock
        )
        self._answers = FollowerAnswers(
            node, lambda: self._registry_loop.by_slot, self._clock, self._check_open, self._look_s
        )
        self._connect = connect
        self._thread = threading.Thread(target=self._registry_loop.run, name=f"logstore-node-{node}", daemon=True)
        try:
            self._start()
            self._thread.start()
        except BaseException:
            # The first round may have begun to copy, and have registered the node.
            self._is_closed = True
            self._end()
            raise
        self._host.replicas = self._replicas

    def _start(self) -> None:
        until_s = self._clock.monotonic_s() + _SETTLE_S
        while True:
            try:
                self._registry_loop.start()
                return
            except RegistryUnreachableError:
                # Most often the session of the process before this one, which has not expired yet.
                if self._clock.monotonic_s() >= until_s:
                    raise
                with self._moved:
                    self._clock.wait(self._moved, TICK_S)

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: Sequence[NodeId] | None = None,
        replication_factor: int | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> Topic:
        """Create a topic on several nodes; return it once its partitions have leaders.

        ``replicas`` are the nodes of every partition; their order turns from one partition to the next, so that the
        leaders are spread. Without them each partition has ``replication_factor`` of the nodes that live, all by
        default: leaders and replicas are spread evenly, over racks first, and this node leads the first partition.
        ``settings`` are those of `Store.create_topic`; ``min.insync.replicas`` is one of them.

        Raises:
            TopicExistsError: there is one of that name.
            InvalidSettingError: a ``replication_factor`` above the number of nodes that live, a minimum above the
                number of replicas, or a setting that cannot go with replicas. Named nodes may start later.
            MalformedFactError: a node that lives has a fact that is not ours, so its rack is unknown. Give
                ``replicas``.
            UnknownTopicError: the topic is made, on other nodes than this one.
            DeliveryTimeoutError: the topic is made, and after 30 s a partition has no leader.
        """
        self._check_open()
        if not 1 <= partitions <= 10_000:
            raise InvalidPartitionsError(f"topic {name!r}: expected 1 to 10000 partitions, found {partitions}")
        own = {key: str(value) for key, value in (settings or {}).items()}
        least = LogConfig.of({**own, "logstore.replicated": "true"}).min_insync_replicas
        registry = self._connect()
        try:
            assigned = dict(enumerate(self._assigned(registry, partitions, replicas, replication_factor)))
            if registry.read(facts.topic_path(name)) is None and self._has_records(name):
                raise TopicExistsError(
                    f"topic {name!r} has records in the store, and is not in the registry: export what it has, and "
                    "delete it"
                )
            count = len(assigned[0])
            if least > count:
                problem = f"{least} is more than the {count} replicas of topic {name!r}"
                raise InvalidSettingError({"min.insync.replicas": problem})
            changes: list[Change] = [
                Create(facts.topic_path(name), facts.encode_assignment(new_id(), assigned)),
                Create(facts.config_path(name), facts.encode_config(own)),
            ]
            for partition, chosen in assigned.items():
                state = facts.encode_state(created(chosen))
                changes.append(Create(facts.state_path(TopicPartition(name, partition)), state))
            registry.commit(changes)
        except StaleFactError as error:
            raise TopicExistsError(f"topic {name!r} exists already") from error
        finally:
            registry.close()
        self._registry_loop.notify(facts.TOPICS)
        self._wait_until(
            lambda: all(
                self._has_leader(TopicPartition(name, each)) for each in assigned if self.node in assigned[each]
            ),
            f"topic {name!r} is made, and not all of its partitions have a leader",
        )
        return self._store.topic(name)

    def _has_records(self, name: str) -> bool:
        """Whether the store has records of a topic, which a new one of its name would be taken to have."""
        topic = self._store[name] if name in self._store.topics() else None
        return topic is not None and any(topic.log(each).log_end_offset for each in range(topic.partition_count))

    def _assigned(
        self, registry: Registry, partitions: int, replicas: Sequence[NodeId] | None, factor: int | None
    ) -> list[tuple[NodeId, ...]]:
        if replicas is None:
            racks = self._racks(registry)
            first = circle(racks).index(self.node)
            return spread(partitions, len(racks) if factor is None else factor, racks, first=first)
        if not replicas or len(set(replicas)) < len(replicas):
            raise InvalidSettingError({"replicas": f"expected different nodes, found {list(replicas)}"})
        if wrong := [node for node in replicas if type(node) is not int or not 0 <= node < 2**31]:
            raise InvalidSettingError({"replicas": f"expected numbers of nodes, found {wrong}"})
        turns = range(len(replicas))
        return [tuple(replicas[(first + turn) % len(replicas)] for turn in turns) for first in range(partitions)]

    def _racks(self, registry: Registry) -> dict[NodeId, str | None]:
        """Return the nodes that live, each with its rack."""
        racks = {self.node: self._registration.rack}
        for name in registry.children(facts.IDS):
            node = facts.node_of(name)
            if node is not None and node != self.node and (fact := registry.read(facts.id_path(node))) is not None:
                racks[node] = facts.rack_of(fact)
        return racks

    def delete_topic(self, name: str, *, timeout_s: float = _SETTLE_S) -> None:
        """Delete a topic of the cluster, on all its nodes; return once this one has deleted its replicas.

        A node that is away does so when it is back; until then no topic of that name can be created.

        Raises:
            UnknownTopicError: the cluster has no such topic.
            DeliveryTimeoutError: the deletion is asked for, and this node has not got to it.
        """
        self._check_open()
        registry = self._connect()
        try:
            if registry.read(facts.topic_path(name)) is None:
                raise UnknownTopicError(f"topic {name!r} is not in the registry")
            registry.commit([Create(request_path(name), b"")])
        except StaleFactError:
            pass  # it is asked for already
        finally:
            registry.close()
        self._registry_loop.notify(facts.DELETED_TOPICS)
        self._wait_until(
            lambda: all(topic != name for topic, _ in self._registry_loop.members),
            f"topic {name!r} is still there",
            timeout_s,
        )

    def wait_for_topic(self, name: str, *, timeout_s: float = _SETTLE_S) -> Topic:
        """Return a topic once this node has it, and a leader for each partition that it has a replica of."""
        self._wait_until(lambda: self._has_topic(name), f"topic {name!r} is not there, or has no leader", timeout_s)
        return self._store.topic(name)

    def _has_topic(self, name: str) -> bool:
        places = [member.place for member in self._registry_loop.members.values() if member.place.topic == name]
        return bool(places) and all(self._has_leader(place) for place in places)

    def _has_leader(self, place: TopicPartition) -> bool:
        member = self._registry_loop.members.get(place)
        state = None if member is None else member.replica.state
        return state is not None and state.leader >= 0

    def _wait_until(self, is_so: Callable[[], bool], what: str, timeout_s: float = _SETTLE_S) -> None:
        until_s = self._clock.monotonic_s() + timeout_s
        with self._moved:
            while not is_so():
                left_s = until_s - self._clock.monotonic_s()
                if left_s <= 0:
                    raise DeliveryTimeoutError(f"{what} after {timeout_s:g} s")
                self._clock.wait(self._moved, min(left_s, 1.0))
                self._check_open()

    # -- progress

    def _changed(self, member: Member) -> None:
        """A replica has taken a state: it may follow another leader, and requests that wait are out of date."""
        state = member.replica.state
        leader = state.leader if state is not None and member.replica.role is Role.FOLLOWER else NO_NODE
        if leader != NO_NODE and leader not in self._fetchers:
            self._fetchers[leader] = Fetcher(
                leader,
                self.node,
                self._registration.life,
                self._members,
                self._transport,
                self._clock,
                wait_ms=self._fetch_wait_ms,
                lag_max_ms=self._lag_max_ms,
                look_s=self._look_s,
                timeout_s=self._timeout_s,
            )
        self._wake()
        self._replicas.changed()

    def _wake(self) -> None:
        """Have everything that waits look again."""
        for fetcher in self._fetchers.values():
            fetcher.notify()
        self._answers.wake()
        with self._moved:
            self._moved.notify_all()

    def _members(self) -> list[Member]:
        return list(self._registry_loop.members.values())

    # -- answering other nodes

    def answer(self, request: bytes, *, wait_s: float | None = None) -> bytes:
        """Answer a request of another node's `Transport`; return what its `call` returns.

        Blocks until there are records for it, at most as long as the request allows, or ``wait_s`` seconds. Any
        number of threads may call.

        Raises:
            MalformedMessageError, UnsupportedVersionError: the bytes are no request of a node. Nothing has changed.
            StoreClosedError: the node is closed.
        """
        return self._answers.answer(request, wait_s)

    # -- what is seen

    def metrics(self) -> list[ReplicaMetrics]:
        """Return the numbers of each replica of this node, sorted by topic and partition."""
        return self._replicas.metrics()

    def leader_of(self, topic: str, partition: int = 0) -> NodeId:
        """Return the node that leads a partition, as far as this node knows; -1 if none does.

        Raises:
            UnknownTopicError: this node has no replica of it.
        """
        member = self._registry_loop.members.get((topic, partition))
        unopened = self._registry_loop.unopened.get((topic, partition))
        if member is None and unopened is None:
            raise UnknownTopicError(f"node {self.node} has no replica of {topic}-{partition}")
        if member is not None:
            state = member.replica.state
        else:
            state = None if unopened is None else unopened.state
        return -1 if state is None else state.leader

    # -- the end

    def close(self) -> None:
        """Hand over what this node leads, leave the ISRs, end the session and the threads. May be called again.

        Appends that wait for acks fail. The store stays open: close it afterwards, and its logs are marked clean.
        """
        if self._is_closed:
            return
        self._registry_loop.stop()
        self._thread.join(self._timeout_s)
        try:
            if self._thread.is_alive():
                raise RegistryUnreachableError(f"a call of the registry has not returned in {self._timeout_s:g} s")
            self._registry_loop.resign()
        except BaseException as error:  # noqa: BLE001  a registry of an embedder may raise anything
            _logger.warning("node %d ends without handing over: %s: %s", self.node, type(error).__name__, error)
        # From now on an append that fails is not made again.
        self._host.replicas = None
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        """End the threads that copy, whatever waits, and the session."""
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._wake()
        for fetcher in self._fetchers.values():
            fetcher.join(self._timeout_s)
        self._replicas.close()
        try:
            self._registry_loop.close_session()
        except BaseException as error:  # noqa: BLE001  a registry of an embedder may raise anything
            _logger.warning("node %d: its session may last until it expires: %s", self.node, error)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError(f"node {self.node} is closed")

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Node {self.node} of {self._store!r}{', closed' if self._is_closed else ''}>"
