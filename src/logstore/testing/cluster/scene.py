"""What the nodes of a simulated cluster share: the world, the network, the way to the registry, the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from logstore.config.log import LogConfig
from logstore.log import Log
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import FetchAnswer, FetchFrom, NodeId, PartitionState, Registry, Replica
from logstore.replication.local_registry import LocalRegistry
from logstore.replication.placement import Arrival, Placement
from logstore.testing.cluster.network import SimNetwork
from logstore.testing.cluster.registry import RegistryLink
from logstore.testing.cluster.world import World

#: Makes the replica of a log, by its node and the number of the node's registration.
MakeReplica = Callable[[Log, NodeId, int], Replica]

#: Makes the placement of a replica, by its node and by what the process has found.
MakePlacement = Callable[[Replica, NodeId, Arrival], Placement]


class SeenNode(Protocol):
    """A node as the others see it, and the ledger."""

    node: NodeId
    log: Log | None

    @property
    def replica(self) -> Replica | None: ...
    def receive_fetch(self, wants: FetchFrom, answer: Callable[[FetchAnswer], None]) -> None: ...
    def receive_append(self, request: Any, answer: Callable[[Any], None]) -> None: ...


class Scene:
    """The parts of one simulation that stand above no node."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int,
        session_ms: int,
        make_replica: MakeReplica,
        make_placement: MakePlacement,
        registry: LocalRegistry,
        is_quorum: bool,
    ) -> None:
        self.seed = seed
        self.world = World(seed)
        self.network = SimNetwork(self.world)
        self.link = RegistryLink(self.world)
        self.place = TopicPartition("t", 0)
        self.replicas: tuple[NodeId, ...] = tuple(range(1, nodes + 1))
        self.session_ms = session_ms
        self.config = LogConfig(segment_bytes=16_384, index_interval_bytes=512)
        self.is_quorum = is_quorum  #: whether a majority is enough, which has synced what counts
        self.make_replica = make_replica
        self.make_placement = make_placement
        self.nodes: dict[NodeId, SeenNode] = {}
        self._registry = registry

    def connect(self) -> Registry:
        """Open a session with the registry."""
        return self._registry.connect()

    def state(self) -> PartitionState:
        """Return what the registry has now."""
        fact = self._registry.read(facts.state_path(self.place))
        assert fact is not None
        return facts.decode_state(fact, self.replicas)
