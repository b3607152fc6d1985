"""The table "Consistency or availability" of ``docs/replication.md``: a drill for each of its cells.

Three simulated nodes; the columns are the producer's acks and ``min.insync.replicas``.
"""

from __future__ import annotations

import pytest

from logstore.errors import NotEnoughReplicasError
from logstore.replication.api import Acks
from logstore.testing.cluster.cluster import SimCluster
from logstore.testing.cluster.node import SimNode

pytestmark = pytest.mark.row("F14", part="in a simulation")

#: The columns: acks and the minimum.
ONE = (Acks.LEADER, 1)
ALL_1 = (Acks.ALL, 1)
ALL_2 = (Acks.ALL, 2)
COLUMNS = pytest.mark.parametrize(("acks", "minimum"), [ONE, ALL_1, ALL_2], ids=["acks 1", "all, 1", "all, 2"])


class Drill:
    """A cluster whose three replicas have the record ``a``."""

    def __init__(self, minimum: int, *, unclean: bool = False) -> None:
        self.cluster = SimCluster(5, min_insync=minimum, allows_unclean=unclean)
        self.cluster.run(1_000)
        self.cluster.append([b"a"], Acks.ALL)
        self.cluster.run(300)
        self.leader = self.cluster.nodes[self.cluster.state().leader]
        self.others = [node for node in self.cluster.nodes.values() if node is not self.leader]

    def append(self, value: bytes, acks: Acks) -> None:
        self.cluster.append([value], acks, to=self.leader.node)

    def acknowledged(self) -> list[bytes]:
        return [each.value for each in self.cluster.ledger.acknowledged]

    def left_alone(self) -> None:
        """Let the two others die, until the leader alone is in sync."""
        for node in self.others:
            node.kill()
        self.cluster.run(4_000)

    def new_leader(self) -> SimNode:
        self.cluster.run(4_000)
        found = self.cluster.nodes[self.cluster.state().leader]
        assert found is not self.leader
        return found


def values(node: SimNode) -> list[bytes]:
    return [record.value for record in node.log.read(0)] if node.log.high_watermark else []


@COLUMNS
def test_the_leader_dies(acks, minimum):
    """The next one leads; records with acks=1 that it had not copied are lost, and no others."""
    drill = Drill(minimum)
    for node in drill.others:
        node.pause()
    drill.append(b"b", acks)
    drill.cluster.run(50)
    drill.leader.kill()
    for node in drill.others:
        node.resume()
    leader = drill.new_leader()
    assert drill.acknowledged() == ([b"a", b"b"] if acks is Acks.LEADER else [b"a"])
    assert values(leader) == [b"a"]
    drill.cluster.settle()
    assert [each.value for each in drill.cluster.ledger.lost_acknowledged] == (
        [b"b"] if acks is Acks.LEADER else []
    )
    drill.cluster.close()


@COLUMNS
def test_two_of_three_die(acks, minimum):
    """Writes go on, on one disk; below the minimum they are refused, and reads go on."""
    drill = Drill(minimum)
    drill.left_alone()
    drill.append(b"c", acks)
    drill.cluster.run(300)
    is_refused = minimum == 2
    assert drill.acknowledged() == ([b"a"] if is_refused else [b"a", b"c"])
    assert any(isinstance(answer, NotEnoughReplicasError) for answer in drill.cluster.answers) is is_refused
    assert values(drill.leader)[:1] == [b"a"]
    drill.cluster.settle()
    drill.cluster.close()


@COLUMNS
def test_a_disk_is_lost(acks, minimum):
    """With acks=1, what only it had; else nothing, as long as another disk of the ISR is left."""
    drill = Drill(minimum)
    drill.append(b"d", Acks.ALL)
    drill.cluster.run(300)
    if acks is Acks.LEADER:
        for node in drill.others:
            node.pause()
        drill.append(b"e", acks)
        drill.cluster.run(50)
    drill.leader.wipe()
    for node in drill.others:
        if node.is_paused:
            node.resume()
    leader = drill.new_leader()
    assert values(leader) == [b"a", b"d"]
    assert drill.acknowledged() == [b"a", b"d", *([b"e"] if acks is Acks.LEADER else [])]
    drill.leader.start()
    drill.cluster.run(3_000)
    assert values(drill.leader) == [b"a", b"d"]
    drill.cluster.close()


@COLUMNS
@pytest.mark.parametrize("unclean", [False, True])
def test_no_replica_in_sync_is_left(acks, minimum, unclean):
    """The partition waits for one; with unclean election another one leads, and the loss has its offsets."""
    drill = Drill(minimum, unclean=unclean)
    drill.left_alone()
    drill.append(b"f", Acks.LEADER)  # the leader alone has it
    drill.cluster.run(300)
    assert values(drill.leader)[:1] == [b"a"]
    drill.leader.pause()  # as one that is cut off from everything; its session ends
    drill.cluster.run(2_000)
    before = list(drill.acknowledged())
    for node in drill.others:
        node.start()
    drill.cluster.run(4_000)
    leader = drill.cluster.state().leader
    # Below a minimum of two the last ones to leave stay eligible (KIP-966): they have all that was promised.
    if not unclean and minimum == 1:
        assert leader not in [node.node for node in drill.others]
        assert drill.acknowledged() == before
        drill.leader.resume()
        drill.cluster.run(3_000)
        drill.cluster.append([b"g"], acks)
        drill.cluster.run(500)
        assert drill.acknowledged() == [b"a", b"f", b"g"]
        drill.cluster.close()
        return
    assert leader in [node.node for node in drill.others]
    drill.cluster.append([b"g"], acks)
    drill.cluster.run(500)
    assert drill.acknowledged()[-1] == b"g"
    drill.leader.resume()
    drill.cluster.run(4_000)
    lost = [(each.start_offset, each.end_offset) for each in drill.leader.replica.lost]
    assert lost == [(1, 2)] if minimum == 1 else lost == []
    assert values(drill.leader) == [b"a", b"g"]
    drill.cluster.close()
