"""The chain's rules keep what they promise, and the suite and the simulator see when they do not."""

from __future__ import annotations

import pytest

from logstore.log import Log
from logstore.replication import Arrival, NodeId, Placement, Replica
from logstore.testing.cluster import Tolerance, live
from logstore.testing.conformance import ReplicaConformance
from tests.replication.third.chain import ChainPlacement, ChainReplica

SHORTEST = 2


def make_replica(log: Log, node: NodeId, life: int) -> Replica:
    return ChainReplica(log, node, life, shortest=SHORTEST, lag_max_ms=1_500)


def make_placement(replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
    return ChainPlacement(replica, node, arrival, shortest=SHORTEST)


@pytest.mark.row("D3")
class TestChain(ReplicaConformance):
    """A chain of three that is never shorter than two."""

    nodes = 3
    lost_copies = 1
    nodes_down = 1

    def make_replica(self, log: Log, node: NodeId, life: int) -> Replica:
        return make_replica(log, node, life)

    def make_placement(self, replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        return make_placement(replica, node, arrival)


@pytest.mark.row("D3")
@pytest.mark.parametrize("seed", range(30))
def test_lives_of_a_chain_lose_nothing_that_was_promised(seed: int) -> None:
    cluster = live(
        seed,
        seconds=10,
        nodes=3,
        make_replica=make_replica,
        make_placement=make_placement,
        tolerance=Tolerance(lost_copies=1),
    )
    assert cluster.ledger.acknowledged
