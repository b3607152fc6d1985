"""The chain's rules keep what they promise, and the simulator finds the mistakes that are planted into them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from logstore.log import Log
from logstore.replication import Arrival, NodeId, PartitionState, Placement, Replica
from logstore.testing.cluster import InvariantError, SimCluster, Tolerance, live
from logstore.testing.conformance import ReplicaConformance
from tests.replication.third.chain import ChainPlacement, ChainReplica

SHORTEST = 2


def life_of(seed: int, replica: type[ChainReplica], placement: type[ChainPlacement]) -> SimCluster:
    """Run ten virtual seconds of a chain of three."""

    def make_replica(log: Log, node: NodeId, life: int) -> Replica:
        return replica(log, node, life, shortest=SHORTEST, lag_max_ms=1_500)

    def make_placement(replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        return placement(replica, node, arrival, shortest=SHORTEST)

    return live(
        seed,
        seconds=10,
        nodes=3,
        tolerance=Tolerance(lost_copies=SHORTEST - 1, min_insync=SHORTEST),
        make_replica=make_replica,
        make_placement=make_placement,
    )


@pytest.mark.row("D3")
class TestChain(ReplicaConformance):
    """A chain of three that acknowledges while it has two: one copy may be lost, and one node may be down."""

    nodes = 3
    lost_copies = 1
    nodes_down = 1
    seeds = range(2)  # the test below has thirty more

    def make_replica(self, log: Log, node: NodeId, life: int) -> Replica:
        return ChainReplica(log, node, life, shortest=SHORTEST, lag_max_ms=1_500)

    def make_placement(self, replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        return ChainPlacement(replica, node, arrival, shortest=SHORTEST)


@pytest.mark.row("D3")
@pytest.mark.parametrize("seed", range(30))
def test_a_life_of_a_chain_loses_nothing_that_was_acknowledged(seed: int) -> None:
    cluster = life_of(seed, ChainReplica, ChainPlacement)
    assert cluster.ledger.acknowledged


class CommittedAtTheHead(ChainReplica):
    """Acknowledges what the head alone has."""

    def _committed_end(self, state: PartitionState) -> int:
        return self._log.log_end_offset


class JoinsBehind(ChainReplica):
    """Takes a replica into the chain that has not caught up."""

    def _has_caught_up(self, node: NodeId, lives: Mapping[NodeId, int]) -> bool:
        return True


class CountsTheStoredChain(ChainReplica):
    """Does not count the replica that a proposal adds: its commit may have taken place."""

    def _committed_end(self, state: PartitionState) -> int:
        return min(self._reports[each].end for each in state.isr if each != self._node)


class KeepsItsPlace(ChainPlacement):
    """Stays in the chain with a log that may have lost records."""

    def entered(self, state: PartitionState, lives: Mapping[NodeId, int], first_epoch: int) -> PartitionState:
        return state


@pytest.mark.row("D3")
@pytest.mark.parametrize(
    ("replica", "placement", "first_seed"),
    [
        (CommittedAtTheHead, ChainPlacement, 0),
        (JoinsBehind, ChainPlacement, 0),
        (CountsTheStoredChain, ChainPlacement, 1),
        (ChainReplica, KeepsItsPlace, 7),
    ],
)
def test_a_mistake_in_the_rules_is_found(
    replica: type[ChainReplica], placement: type[ChainPlacement], first_seed: int
) -> None:
    """``first_seed`` spares the time of lives that do not find it."""
    assert any(has_failed(seed, replica, placement) for seed in range(first_seed, first_seed + 30))


def has_failed(seed: int, replica: type[ChainReplica], placement: type[ChainPlacement]) -> bool:
    try:
        life_of(seed, replica, placement)
    except InvariantError:
        return True
    return False
