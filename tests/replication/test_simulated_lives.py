"""Lives of simulated clusters: a fault in each second, then a heal, and nothing that was promised is lost.

LOGSTORE_SIMULATIONS=10000 LOGSTORE_SIMULATED_S=15 for more and longer ones; LOGSTORE_SEED for others.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
from collections import Counter
from functools import partial

import pytest

from logstore.batch._encode import encode
from logstore.errors import StorageFailedError
from logstore.log import Stop
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import Acks, Registry
from logstore.replication.insync import InSyncReplica
from logstore.replication.local.local_registry import LocalRegistry
from logstore.replication.log_copy import LogCopy
from logstore.replication.placement import Arrival, InSyncPlacement
from logstore.testing.cluster.cluster import SimCluster
from logstore.testing.cluster.ledger import Acknowledged, InvariantError
from logstore.testing.cluster.life import live
from logstore.testing.cluster.steps import StepJudge
from tests.replication.plants import quorum

#: All lives together, and how many of them are of which kind; the rest has one partition, in sync.
COUNT = int(os.environ.get("LOGSTORE_SIMULATIONS", "300"))
SEVERAL, QUORUM, COMPACTED = COUNT // 15, COUNT * 2 // 15, COUNT // 15
CLOCKS = COUNT // 30  # seeds, each of which lives twice: with clocks that jump, and without
CONTROLLED, DELETED = COUNT // 20, COUNT // 20
IN_SYNC = COUNT - SEVERAL - QUORUM - COMPACTED - 2 * CLOCKS - CONTROLLED - DELETED
SECONDS = int(os.environ.get("LOGSTORE_SIMULATED_S", "10"))
SEED = int(os.environ.get("LOGSTORE_SEED", "0"))
# Kinds of lives with seeds of their own.
CLOCK_SEED, CONTROLLER_SEED, DELETED_SEED = SEED + 100_000, SEED + 200_000, SEED + 300_000

#: (nodes, min.insync.replicas): what each life has, in turn.
SIZES = ((3, 2), (3, 2), (3, 1), (3, 3), (5, 3), (3, 2), (3, 2), (5, 2))

PARTS = 12


@pytest.fixture(autouse=True)
def quiet(caplog):
    """Log nothing, and collect garbage seldom: a life leaves little beside what pytest has made before."""
    caplog.set_level(logging.CRITICAL)
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, *before[1:])
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.row("F2", "F4", "F6", "F8", "F10", "F12", "C17", "M4", "P9")
def test_lives_lose_nothing_that_was_promised(part):
    acknowledged = elections = reads = logs_failed = 0
    faults: dict[str, int] = {}
    for seed in range(SEED + part, SEED + IN_SYNC, PARTS):
        nodes, minimum = SIZES[(seed // PARTS) % len(SIZES)]
        cluster = live(seed, seconds=SECONDS, nodes=nodes, min_insync=minimum)
        ledger = cluster.ledger
        assert not [each for each in ledger.lost_acknowledged if each.acks is Acks.ALL]
        acknowledged += len(ledger.acknowledged)
        elections += ledger.elections
        reads += ledger.read_count
        logs_failed += cluster.fault_counts.logs_failed
        for name, count in cluster.fault_counts.faults.items():
            faults[name] = faults.get(name, 0) + count
    # Else the lives were so quiet that they show nothing.
    assert acknowledged > 0
    assert reads > 0
    assert elections >= IN_SYNC // PARTS
    assert len(faults) >= 5, faults
    assert logs_failed > 0


@pytest.mark.parametrize("part", range(4))
@pytest.mark.row("F2", "F4", "F8", "C17")
def test_lives_of_several_partitions_lose_nothing_that_was_promised(part):
    """Each node leads some of them, and what fails on one node touches all of them at once."""
    for seed in range(SEED + part, SEED + SEVERAL, 4):
        by_quorum = quorum(nodes=3) if seed % 5 == 4 else {}
        nodes, minimum = SIZES[(seed // 4) % len(SIZES)]
        cluster = live(
            seed, seconds=SECONDS, partitions=3, **(by_quorum or {"nodes": nodes, "min_insync": minimum})
        )
        assert len(cluster.ledgers) == 3
        for ledger in cluster.ledgers:
            assert not [each for each in ledger.lost_acknowledged if each.acks is Acks.ALL]
            assert ledger.acknowledged
            assert ledger.read_count > 0
            assert ledger.elections > 0


def test_each_node_leads_some_partitions():
    cluster = SimCluster(1, nodes=3, partitions=4)
    cluster.run(1_000)
    assert [cluster.state(partition).leader for partition in cluster.partitions] == [1, 2, 3, 1]
    for partition in cluster.partitions:
        cluster.append([b"%d" % partition], Acks.ALL, partition=partition)
    cluster.run(200)
    values = [[each.value for each in ledger.acknowledged] for ledger in cluster.ledgers]
    assert values == [[b"0"], [b"1"], [b"2"], [b"3"]]
    cluster.settle()
    cluster.close()


@pytest.mark.parametrize("by_quorum", [False, True])
@pytest.mark.row("F5", "F11")
def test_a_log_that_fails_is_opened_again_and_refilled(by_quorum):
    """Its sync fails, on the leader and then on a follower; the disk has lost what was not synced by then."""
    cluster = SimCluster(4, **(quorum() if by_quorum else {"nodes": 3}))
    cluster.run(1_000)
    for role in ("leader", "follower"):
        leader = cluster.state().leader
        node = cluster.nodes[leader if role == "leader" else leader % 3 + 1]
        cluster.append([b"before, " + role.encode()], Acks.ALL)
        cluster.run(200)
        node.disk.rereads = True
        node.disk.fail("fdatasync", 1, errno.EIO, path_contains="/t-0/")
        if not by_quorum:  # which syncs by itself
            cluster.ledger.note_loss(node.node)
            with pytest.raises(StorageFailedError):
                node.log.flush()
        cluster.append([b"meanwhile, " + role.encode()], Acks.ALL)
        cluster.run(4_000)
        assert node.disk.fired()
        node.disk.heal()
        assert node.members[0].opened_again == 1
        assert len(cluster.state().isr) == 3
        cluster.append([b"after, " + role.encode()], Acks.ALL)
        cluster.run(200)
    cluster.settle()
    assert not cluster.ledger.may_have_lost
    values = [each.value for each in cluster.ledger.acknowledged]
    assert values[0] == b"before, leader"
    assert values[-2:] == [b"after, follower", b"last"]
    for node in cluster.nodes.values():
        held = [record.value for record in node.log]
        assert all(value in held for value in values)
    cluster.close()


@pytest.mark.row("F8")
def test_a_cut_that_a_leader_has_asked_for_is_judged_right_when_the_disk_fails_behind_it(monkeypatch):
    """The log is cut, and a later step of the same call raises: the answer was taken all the same (I9)."""
    cut, failed = LogCopy._cut, []

    def cut_and_fail(copy, *answer):
        cut(copy, *answer)
        failed.append(copy.log.log_end_offset)
        if len(failed) == 1:
            raise StorageFailedError("the disk has failed behind the cut")

    monkeypatch.setattr(LogCopy, "_cut", cut_and_fail)
    cluster = SimCluster(4, nodes=3)
    cluster.run(1_000)
    cluster.append([b"a"], Acks.ALL)
    cluster.run(200)
    former = cluster.nodes[cluster.state().leader]
    others = [node for node in cluster.nodes.values() if node is not former]
    for node in others:
        node.pause()
    cluster.append([b"b", b"c"], Acks.LEADER, to=former.node)
    cluster.run(50)
    former.pause()
    for node in others:
        node.resume()
    cluster.run(3_000)
    cluster.append([b"d"], Acks.ALL)
    cluster.run(200)
    former.resume()
    cluster.run(3_000)
    cluster.settle()
    assert failed[0] == 1
    assert [record.value for record in former.log] == [b"a", b"d", b"last"]
    cluster.close()


class _TrustsItsLog(InSyncPlacement):
    """The plant: a log that may have lost records is taken for whole."""

    def __init__(self, replica, node, arrival, **options):
        super().__init__(replica, node, Arrival(is_same_disk=True, stop=Stop.CLEAN), **options)


@pytest.mark.parametrize("trusts_its_log", [False, True])
@pytest.mark.row("F8", part="a leader that another node names again")
def test_a_leader_that_is_named_again_is_judged_when_it_leads(monkeypatch, trusts_its_log):
    """Its log has lost records; before it takes part, another node raises the epoch and leaves its name there.

    That is no election: the leader takes its own name out first. If it does not, the ledger finds it (I3).
    """
    kind = _TrustsItsLog if trusts_its_log else InSyncPlacement
    monkeypatch.setattr(StepJudge, "_judge_doubtful", lambda judge, node: None)  # which finds it by I10
    registry = LocalRegistry()
    cluster = SimCluster(
        4,
        connect=registry.connect,
        make_replica=lambda log, node, life: InSyncReplica(log, node, life, min_insync=2),
        make_placement=partial(kind, min_insync=2),
    )
    cluster.run(1_000)
    cluster.append([b"a", b"b"], Acks.ALL)
    cluster.run(200)
    before = cluster.state()
    leader = cluster.nodes[before.leader]
    leader.cut_power("lost")
    leader.start()
    session = registry.connect()
    after = before._replace(leader_epoch=before.leader_epoch + 1)
    session.commit(facts.changes_to(TopicPartition("t", 0), before, after, {}))
    cluster.ledger.note_state(before, after, by=before.leader % 3 + 1)
    session.close()
    if trusts_its_log:
        with pytest.raises(InvariantError, match=r"^I3 .*is elected"):
            cluster.run(3_000)
    else:
        cluster.run(3_000)
        assert cluster.state().leader != leader.node
        cluster.settle()
        assert [record.value for record in leader.log][:2] == [b"a", b"b"]
    cluster.close()


@pytest.mark.parametrize("partition", range(3))
def test_each_partition_is_judged_by_its_own_ledger(partition):
    """A record that one partition is said to have acknowledged, and lacks, is found there and nowhere else."""
    cluster = SimCluster(2, nodes=3, partitions=3)
    cluster.run(1_000)
    cluster.ledgers[partition].acknowledged.append(Acknowledged(0, 1, b"of another partition", Acks.ALL, 0))
    with pytest.raises(InvariantError, match=rf"^I3 .* t-{partition}: "):
        cluster.settle()
    cluster.close()


@pytest.mark.parametrize("part", range(4))
@pytest.mark.row("F11")
def test_lives_of_a_quorum_lose_nothing_that_was_promised(part):
    acknowledged = elections = 0
    for seed in range(SEED + part, SEED + QUORUM, 4):
        cluster = live(seed, seconds=SECONDS, **quorum(nodes=5 if seed % 3 == 0 else 3))
        ledger = cluster.ledger
        assert not [each for each in ledger.lost_acknowledged if each.acks is Acks.ALL]
        acknowledged += len(ledger.acknowledged)
        elections += ledger.elections
    assert acknowledged > 0
    assert elections > QUORUM // 4


@pytest.mark.parametrize("part", range(2))
@pytest.mark.row("D3", "F8", part="compacted topics, in lives")
def test_lives_of_a_compacted_topic_lose_no_key_and_revive_none(part):
    """Each replica compacts for itself, and deletes tombstones while others are away."""
    compactions = drops = 0
    for seed in range(SEED + part, SEED + COMPACTED, 2):
        by_quorum = quorum(nodes=3) if seed % 6 >= 4 else {}
        nodes, minimum = SIZES[(seed // 2) % len(SIZES)]
        cluster = live(
            seed, seconds=SECONDS, compacts=True, **(by_quorum or {"nodes": nodes, "min_insync": minimum})
        )
        ledger = cluster.ledger
        assert not [each for each in ledger.lost_acknowledged if each.acks is Acks.ALL]
        compactions += ledger.compactions
        drops += ledger.tombstone_drops
    assert compactions > COMPACTED
    assert drops > COMPACTED


@pytest.mark.parametrize("part", range(2))
@pytest.mark.row("F8", part="wall clocks that jump, in lives")
def test_wall_clocks_that_jump_by_an_hour_decide_nothing(part):
    """The same seed gives the same life, event by event, whether they jump or not.

    Only tombstones are deleted by the wall clock: a compacted topic lives another life, and loses nothing either.
    """
    jumps = 0
    for seed in range(CLOCK_SEED + part, CLOCK_SEED + CLOCKS // 2, 2):
        kinds = ({"nodes": 3}, {"nodes": 5, "min_insync": 3}, {"compacts": True}, {"partitions": 3}, quorum())
        settings = kinds[(seed // 2) % len(kinds)]
        cluster, without = (live(seed, seconds=SECONDS, clocks_jump=jump, **settings) for jump in (True, False))
        if not cluster.compacts:
            assert cluster.world.trace == without.world.trace, f"seed {seed}: a wall clock has decided something"
        for ledger, other in zip(cluster.ledgers, without.ledgers, strict=True):
            assert cluster.compacts or ledger.acknowledged == other.acknowledged
            assert not [each for each in ledger.lost_acknowledged if each.acks is Acks.ALL]
        jumps += cluster.fault_counts.clock_jumps
    assert jumps >= CLOCKS


@pytest.mark.parametrize("part", range(2))
@pytest.mark.row("F10", "F15", part="with the logs of the nodes, in lives")
def test_lives_with_controllers_lose_nothing_that_was_promised(part):
    """Controllers elect, and are killed, stalled, deposed and replaced between their reading and their commit."""
    taken = commits = commands = 0
    faults: dict[str, int] = {}
    for seed in range(CONTROLLER_SEED + part, CONTROLLER_SEED + CONTROLLED, 2):
        nodes, minimum = SIZES[(seed // 2) % len(SIZES)]
        partitions = 3 if seed % 5 == 4 else 1
        cluster = live(
            seed, seconds=SECONDS, nodes=nodes, min_insync=minimum, partitions=partitions, controllers=2 + seed % 2
        )
        for ledger in cluster.ledgers:
            assert not [each for each in ledger.lost_acknowledged if each.acks is Acks.ALL]
            assert ledger.acknowledged
            assert ledger.elections > 0
        judge = cluster.controller_judge
        taken, commits, commands = taken + judge.controllers, commits + judge.commits, commands + judge.commands
        for name, count in cluster.fault_counts.faults.items():
            faults[name] = faults.get(name, 0) + count
    assert taken > CONTROLLED  # in each life of either part the office has changed hands
    assert commits > CONTROLLED
    assert commands > CONTROLLED
    assert {"kill_controller", "stall_controller", "slow_controller", "depose"} <= faults.keys()


@pytest.mark.parametrize("part", range(2))
@pytest.mark.row("F2", "F8", "M4", part="log starts that move, in lives")
def test_lives_whose_log_starts_move_lose_only_what_was_deleted(part):
    """Retention and clients delete old records, while followers lag and restart, and consumers read."""
    deletions = restarts = 0
    for seed in range(DELETED_SEED + part, DELETED_SEED + DELETED, 2):
        by_quorum = quorum(nodes=3) if seed % 6 >= 4 else {}
        nodes, minimum = SIZES[(seed // 2) % len(SIZES)]
        settings = by_quorum or {"nodes": nodes, "min_insync": minimum}
        cluster = live(seed, seconds=SECONDS, deletes=True, partitions=3 if seed % 5 == 4 else 1, **settings)
        for ledger in cluster.ledgers:
            assert not [each for each in ledger.lost_acknowledged if each.acks is Acks.ALL]
            assert ledger.acknowledged
            assert ledger.read_count > 0
            deletions, restarts = deletions + ledger.deletions, restarts + ledger.restarts
    assert deletions > DELETED
    assert restarts > 0, "no follower has ended below the start of its leader"


@pytest.mark.parametrize("by_quorum", [False, True])
@pytest.mark.row("F12", part="in virtual time")
def test_a_killed_leader_is_replaced_within_two_session_timeouts(by_quorum):
    for seed in range(20):
        cluster = SimCluster(seed, session_ms=800, **(quorum() if by_quorum else {}))
        cluster.run(1_000)
        cluster.append([b"a"], Acks.ALL)
        cluster.run(200)
        began = cluster.world.now_ms
        cluster.nodes[cluster.state().leader].kill()
        done = len(cluster.ledger.acknowledged)
        while len(cluster.ledger.acknowledged) == done:
            cluster.append([b"b"], Acks.ALL)
            cluster.run(10)
            assert cluster.world.now_ms - began < 2 * 800, seed
        cluster.close()


@pytest.mark.parametrize("by_quorum", [False, True])
@pytest.mark.row("F5", "F11", part="a log that begins again, on a disk that fails")
def test_a_disk_that_fails_while_a_log_begins_again_lets_it_begin_again_later(by_quorum):
    """Its records are removed first. Then the new segment is refused, and the log is at neither offset."""
    cluster = SimCluster(3, **(quorum() if by_quorum else {}))
    cluster.run(1_000)
    cluster.append([b"old"], Acks.ALL)
    cluster.run(200)
    leader = cluster.nodes[cluster.state().leader]
    follower = cluster.nodes[leader.node % 3 + 1]
    follower.kill()
    cluster.append([b"deleted", b"too"], Acks.ALL)
    cluster.run(3_000)
    assert cluster.state().leader == leader.node
    mark = leader.log.high_watermark
    assert mark == 3
    leader.log.delete_before(mark)
    cluster.ledger.contents.note_deleted(leader.node, mark, mark)
    follower.disk.fail("open", 1, errno.EIO, times=-1, path_contains=f"/t-0/{mark:020d}.log")
    follower.start()
    cluster.run(1_000)
    assert follower.disk.fired()
    assert cluster.ledger.restarts == 0
    follower.disk.heal()
    cluster.append([b"new"], Acks.ALL)
    cluster.run(4_000)
    assert cluster.ledger.restarts == 1
    assert follower.members[0].opened_again >= 1
    cluster.settle()
    for node in cluster.nodes.values():
        assert [record.value for record in node.log] == [b"new", b"last"]
    cluster.close()


def test_other_bytes_below_the_high_watermark_are_found_at_the_next_step():
    cluster = SimCluster(3)
    cluster.run(1_000)
    cluster.append([b"a", b"b"], Acks.ALL)
    cluster.run(200)
    state = cluster.state()
    member = cluster.nodes[state.leader % 3 + 1].members[0]
    member.log.replica.restart_at(0)
    cluster.ledger.look(member)
    other = bytearray(encode([b"a", b"c"], timestamp_ms=0))
    other[12:16] = state.leader_epoch.to_bytes(4, "big")
    member.log.replica.append_replicated(other, leader_epoch=state.leader_epoch)
    cluster.ledger.look(member)
    with pytest.raises(InvariantError, match=r"^I2 at 1\d\d\d ms"):
        cluster.run(200)
    cluster.close()


def test_a_log_that_starts_above_what_was_deleted_is_found_at_the_next_step():
    cluster = SimCluster(3)
    cluster.run(1_000)
    cluster.append([b"a", b"b"], Acks.ALL)
    cluster.run(200)
    cluster.nodes[cluster.state().leader % 3 + 1].log.replica.restart_at(2)
    with pytest.raises(InvariantError, match=r"^I12 at 1\d\d\d ms"):
        cluster.run(200)
    cluster.close()


def test_a_controller_that_was_replaced_goes_on_with_its_commit_and_changes_nothing():
    cluster = SimCluster(3, controllers=2)
    cluster.run(1_000)
    first = next(each for each in cluster.controllers if each.epoch is not None)
    other = next(each for each in cluster.controllers if each is not first)
    leader = cluster.state().leader
    stored = []

    def on_its_way():
        cluster.depose()
        stored.append(cluster.state())
        return 1_000

    first.before_commit = on_its_way
    cluster.nodes[leader].kill()
    cluster.run(4_000)
    assert [each.leader for each in stored] == [leader]
    assert (first.epoch, other.epoch) == (None, 2)
    state = cluster.state()
    assert (state.controller_epoch, state.leader_epoch) == (2, stored[0].leader_epoch + 1)
    cluster.settle()
    cluster.close()


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_same_seed_gives_the_same_life(partitions):
    first, second, other = (live(seed, seconds=4, partitions=partitions) for seed in (5, 5, 6))
    assert first.world.trace == second.world.trace != other.world.trace
    for one, two in zip(first.ledgers, second.ledgers, strict=True):
        assert one.acknowledged == two.acknowledged


def test_the_same_seed_gives_the_same_life_with_controllers():
    first, second = (live(5, seconds=4, partitions=3, controllers=2) for _ in range(2))
    assert first.world.trace == second.world.trace
    assert first.controller_judge.commands == second.controller_judge.commands > 0


def test_the_same_seed_gives_the_same_life_of_a_compacted_topic():
    first, second = (live(5, seconds=4, compacts=True) for _ in range(2))
    assert first.world.trace == second.world.trace
    assert first.ledger.acknowledged == second.ledger.acknowledged
    assert first.ledger.table == second.ledger.table


@pytest.mark.row("P8")
def test_acks_1_loses_what_only_the_leader_had():
    with_leader = 0
    for seed in range(20):
        cluster = live(seed, seconds=6)
        lost, seen = cluster.ledger.lost_acknowledged, cluster.ledger.seen
        with_leader += len(lost)
        assert all(each.acks is Acks.LEADER for each in lost)
        # They were above the high watermark: no consumer has seen one.
        assert all(seen.get(each.offset) != each.value for each in lost)
        if lost:
            print(f"seed {seed}: lost with acks=1: offsets {[each.offset for each in lost]}")
    assert with_leader > 0, "twenty lives lost no record that the leader alone had acknowledged"


@pytest.mark.row("F13")
def test_an_unclean_election_loses_records_and_says_which():
    cluster = SimCluster(3, nodes=2, min_insync=1, allows_unclean=True)
    cluster.run(500)
    leader = cluster.state().leader
    other = 3 - leader
    cluster.append([b"a", b"b"], Acks.ALL)
    cluster.run(300)
    # The follower stands still until the ISR lacks it; what follows is the leader's alone, and acknowledged.
    cluster.nodes[other].pause()
    cluster.run(3_000)
    assert cluster.state().isr == (leader,)
    cluster.append([b"c", b"d"], Acks.ALL)
    cluster.run(300)
    assert [each.value for each in cluster.ledger.acknowledged] == [b"a", b"b", b"c", b"d"]
    # The leader is cut off from everything, and the other one comes back: it leads without c and d.
    cluster.nodes[leader].pause()
    cluster.nodes[other].resume()
    cluster.run(2_000)
    assert cluster.state().leader == other
    cluster.append([b"x"], Acks.ALL)
    cluster.run(300)
    cluster.nodes[leader].resume()
    cluster.run(3_000)
    replica = cluster.nodes[leader].replica
    assert [(each.start_offset, each.end_offset) for each in replica.lost] == [(2, 4)]
    assert [record.value for record in cluster.nodes[leader].log] == [b"a", b"b", b"x"]
    cluster.close()


class _OwnRegistry(Registry):
    """A registry of an embedder: none of our classes, on facts of its own."""

    def __init__(self, calls: Counter[str], facts: LocalRegistry) -> None:
        self._calls, self._session = calls, facts.connect()

    def read(self, path):
        self._calls["read"] += 1
        return self._session.read(path)

    def children(self, path):
        self._calls["children"] += 1
        return self._session.children(path)

    def commit(self, changes):
        self._calls["commit"] += 1
        return self._session.commit(changes)

    def watch(self, path, notify):
        self._calls["watch"] += 1
        return self._session.watch(path, notify)

    @property
    def is_alive(self):
        return self._session.is_alive

    def close(self):
        self._session.close()


def test_a_registry_of_an_embedder_lives_in_the_simulator():
    """The same life, event by event, as with ours."""
    calls: Counter[str] = Counter()
    facts_of_it = LocalRegistry()
    own = live(3, seconds=5, connect=lambda: _OwnRegistry(calls, facts_of_it))
    assert own.world.trace == live(3, seconds=5).world.trace
    assert set(calls) >= {"read", "commit", "watch"}
