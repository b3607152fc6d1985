"""Both sets of rules pass the suite that an embedder's own must pass, and planted mistakes do not."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from logstore.log import Log
from logstore.replication import Arrival, InSyncPlacement, InSyncReplica, NodeId, Placement, QuorumPlacement, Replica
from logstore.replication.quorum import QuorumReplica
from logstore.testing.conformance import ReplicaConformance
from tests.replication import plants


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


class InSync(ReplicaConformance):
    """Kafka's rules; ``kind`` and ``placement`` take a planted mistake."""

    minimum = 2
    lost_copies, nodes_down = 1, 1
    kind: type[InSyncReplica] = InSyncReplica
    placement: type[InSyncPlacement] = InSyncPlacement

    def make_replica(self, log: Log, node: NodeId, life: int) -> Replica:
        return self.kind(log, node, life, min_insync=self.minimum, lag_max_ms=1_500)

    def make_placement(self, replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        return self.placement(replica, node, arrival, min_insync=self.minimum)


class Quorum(ReplicaConformance):
    """A majority of three."""

    lost_copies, nodes_down = 1, 1
    is_synced, isr_has_all = True, False
    kind: type[QuorumReplica] = QuorumReplica
    placement: type[QuorumPlacement] = QuorumPlacement

    def make_replica(self, log: Log, node: NodeId, life: int) -> Replica:
        return self.kind(log, node, life)

    def make_placement(self, replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        return self.placement(replica, node, arrival)


@pytest.mark.row("F2")
class TestInSync(InSync):
    pass


@pytest.mark.row("F2")
class TestInSyncOneOfTwo(InSync):
    nodes, minimum = 2, 1
    lost_copies, nodes_down = 0, 1


@pytest.mark.row("F11")
class TestQuorum(Quorum):
    pass
