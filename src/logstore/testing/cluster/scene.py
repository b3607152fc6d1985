"""What the nodes of a simulated cluster share: the world, the network, the way to the registry, the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from logstore.config.log import LogConfig
from logstore.log import Log
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import Fact, FetchAnswer, FetchFrom, NodeId, PartitionState, Registry, Replica
from logstore.replication.controller import CommandGate
from logstore.replication.placement import Arrival, Placement
from logstore.testing.cluster.network import SimNetwork
from logstore.testing.cluster.registry import RegistryLink
from logstore.testing.cluster.world import SimClock, World
from logstore.testing.simdisk import SimDisk

#: Makes the replica of a log, by its node and the number of the node's registration.
MakeReplica = Callable[[Log, NodeId, int], Replica]

#: Makes the placement of a replica, by its node and by what the process has found.
MakePlacement = Callable[[Replica, NodeId, Arrival], Placement]

#: Makes what one process knows of controllers, by the number of the node's registration.
MakeGate = Callable[[int], CommandGate]

#: Of a compacted topic: small segments, and tombstones that are deleted while a node may be away.
_COMPACTED = LogConfig(
    cleanup_policy="compact",
    segment_bytes=4_096,
    index_interval_bytes=512,
    delete_retention_ms=700,
    min_cleanable_dirty_ratio=0.01,
)

#: Of a topic whose old records are deleted: what a node that is away for two seconds asks for is gone.
_DELETED = LogConfig(segment_bytes=4_096, index_interval_bytes=512, retention_bytes=12_288)


class Tolerance(NamedTuple):
    """What a set of rules promises of a record that was acknowledged with `Acks.ALL`."""

    #: How many copies may be lost at a time without the loss of such a record: by a wiped disk, or by a power cut
    #: that takes what was not synced. The record is on one copy more when it is acknowledged.
    lost_copies: int
    #: Whether those copies have synced it by then. A power cut loses no copy, then.
    is_synced: bool = False
    #: Whether every member of the ISR has what is below the high watermark; else as many replicas have it as an
    #: acknowledgement needs.
    isr_has_all: bool = True
    #: The size of the ISR below which the high watermark stands still; a replica joins the ISR once a leader has
    #: seen it at the high watermark and at the start of the epoch. 0: neither is a rule of these.
    min_insync: int = 0

    def may_lag(self, replicas: int) -> int:
        """Return how many members of the ISR may lack what is below the high watermark."""
        return 0 if self.isr_has_all else replicas - self.lost_copies - 1


@dataclass
class FaultCounts:
    """Which faults a life has had."""

    faults: dict[str, int] = field(default_factory=dict)  #: kind -> how many
    logs_failed: int = 0  #: how many planned failures of file operations have taken place
    clock_jumps: int = 0  #: how often the wall clock of a node has jumped


class SeenMember(Protocol):
    """One partition on one node, as the other nodes see it, and the ledger."""

    node: NodeId
    log: Log | None

    @property
    def replica(self) -> Replica | None: ...
    @property
    def disk(self) -> SimDisk: ...
    def receive_fetch(self, wants: FetchFrom, answer: Callable[[FetchAnswer], None]) -> None: ...
    def receive_append(self, request: Any, answer: Callable[[Any], None]) -> None: ...


class Scene:
    """The parts of one simulation that stand above no node."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int,
        partitions: int,
        session_ms: int,
        make_replica: MakeReplica,
        make_placement: MakePlacement,
        connect: Callable[[], Registry],
        tolerance: Tolerance,
        allows_unclean: bool,
        compacts: bool,
        deletes: bool,
        is_controlled: bool,
        make_gate: MakeGate,
    ) -> None:
        self.seed = seed
        self.root = "/data"  #: the directory of each node on its own disk
        self.world = World(seed)
        self.client_clock = SimClock(self.world)  #: of the producers, which stamp the records
        self.network = SimNetwork(self.world)
        self.link = RegistryLink(self.world)
        self.places = tuple(TopicPartition("t", partition) for partition in range(partitions))
        self.replicas: tuple[NodeId, ...] = tuple(range(1, nodes + 1))
        self.session_ms = session_ms
        self.compacts = compacts
        self.config = LogConfig(segment_bytes=16_384, index_interval_bytes=512)
        if compacts or deletes:
            self.config = _COMPACTED if compacts else _DELETED
        self.tolerance = tolerance
        self.allows_unclean = allows_unclean
        self.is_controlled = is_controlled  #: a controller elects, and the nodes do not
        self.balance_s = 2.0  #: how often a controller lets the preferred replicas lead
        self.make_gate = make_gate
        self.make_replica = make_replica
        self.make_placement = make_placement
        #: For each partition its members, by their nodes.
        self.members: tuple[dict[NodeId, SeenMember], ...] = tuple({} for _ in self.places)
        #: Opens a session with the registry.
        self.connect = connect
        self._registry = connect()  # of the judges
        self._decoded: dict[int, tuple[Fact, PartitionState]] = {}  # partition -> the fact that was last decoded

    def life(self, node: NodeId) -> int:
        """Return the number of a node's registration, as the registry has it now; -1 if it has none."""
        fact = self._registry.read(facts.life_path(node))
        return -1 if fact is None else fact.version

    def controller_epoch(self) -> int:
        """Return the epoch of the newest controller."""
        return facts.controller_epoch_of(self._registry.read(facts.CONTROLLER_EPOCH))

    def assigned(self, partition: int) -> tuple[NodeId, ...]:
        """Return the replicas of a partition. Each node is the first one, the preferred leader, of some."""
        first = partition % len(self.replicas)
        return self.replicas[first:] + self.replicas[:first]

    def state(self, partition: int, registry: Registry | None = None) -> PartitionState:
        """Return what the registry has now, read in a session or from above."""
        fact = (self._registry if registry is None else registry).read(facts.state_path(self.places[partition]))
        assert fact is not None
        known = self._decoded.get(partition)
        if known is None or known[0] != fact:
            known = self._decoded[partition] = (fact, facts.decode_state(fact, self.assigned(partition)))
        return known[1]
