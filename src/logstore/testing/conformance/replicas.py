"""Conformance suite of a set of rules for replication: of `Replica` and `Placement`."""

from __future__ import annotations

import errno
import random
from abc import abstractmethod
from contextlib import closing
from typing import Any

import pytest

from logstore.batch._encode import encode
from logstore.errors import (
    FencedLeaderEpochError,
    MalformedFactError,
    NotLeaderError,
    RecordError,
    StorageError,
    UnexpectedOffsetError,
)
from logstore.log import Log
from logstore.log.formats.last_stop import Stop
from logstore.log.formats.leader_epochs import LEADER_EPOCHS
from logstore.replication.api import (
    NO_NODE,
    Acks,
    FetchAnswer,
    FetchFrom,
    NodeId,
    PartitionState,
    Replica,
    Role,
    Standing,
)
from logstore.replication.election import created
from logstore.replication.placement import Arrival, Placement
from logstore.testing.cluster import SimCluster, Tolerance, live
from logstore.testing.cluster.ledger import records_of
from logstore.testing.conformance.copies import DIRECTORY, PATIENCE, Copies, bytes_of, received
from logstore.testing.simdisk import SimDisk

#: Virtual seconds in which a partition has a leader again, and its appends are acknowledged.
_PATIENCE_S = 15


class ReplicaConformance:
    """The suite for a set of rules: `logstore.replication.Replica` and `logstore.replication.Placement`.

    The class says what the rules promise, and the suite holds them to it: on a few replicas step by step, and in
    whole lives of a simulated cluster, which has lost, late and repeated messages, killed and paused processes,
    power cuts and wiped disks, and an unreliable registry.
    """

    #: How many replicas a partition has, at least 2.
    nodes: int = 3
    #: How many copies may be lost at a time without the loss of a record that was acknowledged with `Acks.ALL`: by
    #: a wiped disk, or by a power cut that takes what was not synced. It is on one copy more when it is
    #: acknowledged. In-sync replicas with a minimum of m: m - 1. A quorum of 2F + 1: F. A chain: 1 less than its
    #: shortest length that acknowledges. An asynchronous standby: 0, since the leader alone acknowledges.
    lost_copies: int
    #: How many nodes, whichever they are, may be down while appends with `Acks.ALL` are acknowledged, if need be by
    #: another leader. In-sync replicas: ``nodes`` - m. A quorum of 2F + 1: F. An asynchronous standby that only an
    #: operator makes the leader: 0. With ``lost_copies`` it is less than ``nodes``.
    nodes_down: int
    #: Whether an acknowledged record is synced on those copies. A power cut is no lost copy then.
    is_synced: bool = False
    #: Whether every member of the ISR has what is below the high watermark. Else (a quorum, an asynchronous
    #: standby) ``lost_copies`` + 1 replicas have it.
    isr_has_all: bool = True
    #: The lives that are run, and how many virtual seconds each has.
    seeds: range = range(10)
    seconds: int = 6

    @abstractmethod
    def make_replica(self, log: Log, node: NodeId, life: int) -> Replica:
        """Return the replica of a log, in the life that its node's registration has.

        In the simulation a session of the registry lasts 0.8 virtual seconds, and everything must be in sync ten
        virtual seconds after the last fault: choose timeouts of one or two seconds.
        """

    @abstractmethod
    def make_placement(self, replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        """Return the placement of a replica, of what the process has found when it began."""

    # -- the registry's state

    def test_before_it_has_a_state_a_replica_takes_no_part(self) -> None:
        with self._copies() as copies:
            replica = copies.replicas[1]
            assert (replica.state, replica.role, replica.high_watermark) == (None, Role.NONE, 0)
            assert replica.ask(0) is None
            assert replica.propose(copies.lives, 0) is None
            assert replica.standing() == Standing(-1, 0)
            assert replica.answer(FetchFrom(2, 1, 1, 0, -1, 0, 1_000), 0).refusal is not None
            with pytest.raises(NotLeaderError):
                replica.check_append(Acks.LEADER)

    def test_a_state_gives_each_replica_its_role(self) -> None:
        with self._copies() as copies:
            copies.lead(2)
            roles = {node: replica.role for node, replica in copies.replicas.items()}
            assert roles == {node: Role.LEADER if node == 2 else Role.FOLLOWER for node in copies.nodes}
            assert [node for node in copies.nodes if copies.replicas[node].ask(0) is None] == [2]
            # An epoch without a leader, and an assignment without this node.
            copies.lead(NO_NODE)
            assert not [node for node in copies.nodes if copies.replicas[node].role is Role.LEADER]
            assert not [node for node in copies.nodes if copies.replicas[node].ask(0) is not None]
            others = tuple(node for node in copies.nodes if node != 2)
            copies.state = copies.state._replace(replicas=others, isr=others)
            copies.lead(1)
            assert (copies.replicas[2].role, copies.replicas[2].ask(0)) == (Role.NONE, None)

    def test_a_new_leader_has_its_epoch_on_the_disk(self) -> None:
        with self._copies() as copies:
            copies.lead(1)
            copies.append(b"a", acks=Acks.LEADER)
            copies.logs[1].flush()
            copies.lead(1)
            after = copies.disks[1].crash("none").image(DIRECTORY)
            assert b"2 1" in after[f"{DIRECTORY}/{LEADER_EPOCHS}"].splitlines()

    def test_an_older_state_has_no_effect_and_an_older_epoch_is_refused(self) -> None:
        """Refused is a newer version with an older epoch, or with another leader in the same one."""
        with self._copies() as copies:
            first = copies.lead(1)
            copies.append(b"a")
            copies.converge()
            newest = copies.lead(2)
            copies.append(b"b")
            for node, replica in copies.replicas.items():
                before = copies.image(node)
                for older in (first, newest._replace(isr=(2,)), newest._replace(leader=1, version=first.version)):
                    replica.apply(older, 0)
                    assert copies.image(node) == before, f"node {node} has taken an older state"
                for wrong in (newest._replace(leader_epoch=1, version=9), newest._replace(leader=1, version=9)):
                    with pytest.raises(MalformedFactError):
                        replica.apply(wrong, 0)
                    assert copies.image(node) == before

    # -- appends

    def test_only_the_leader_takes_appends(self) -> None:
        with self._copies() as copies:
            copies.lead(1)
            batch = encode([b"a"], timestamp_ms=0)
            for node in copies.nodes[1:]:
                replica, log = copies.replicas[node], copies.logs[node]
                for acks in Acks:
                    with pytest.raises(NotLeaderError):
                        replica.append(batch, acks=acks, now_ms=0)
                    with pytest.raises(NotLeaderError):
                        replica.check_append(acks)
                # A driver's threads append without its lock. So the log itself refuses them.
                with pytest.raises(NotLeaderError):
                    log.replica.append_batch(batch)
                assert log.log_end_offset == 0
            copies.lead(2)
            with pytest.raises(NotLeaderError):
                copies.logs[1].replica.append_batch(batch)

    @pytest.mark.parametrize("is_by_driver", [False, True])
    def test_a_batch_is_acknowledged_once_enough_copies_have_it(self, is_by_driver: bool) -> None:
        """By `append`, or by `check_append` and `wait`."""
        with self._copies() as copies:
            copies.lead(1)
            leader, log = copies.replicas[1], copies.logs[1]
            assert all(copies.append(b"a", acks=acks).is_settled for acks in (Acks.NONE, Acks.LEADER))
            told: list[str] = []
            if is_by_driver:
                epoch = leader.check_append(Acks.ALL)
                result = log.replica.append_batch(encode([b"b", b"c"], timestamp_ms=0))
                pending = leader.wait(result, epoch, acks=Acks.ALL, now_ms=0, notify=lambda: told.append("told"))
            else:
                pending = copies.append(b"b", b"c", acks=Acks.ALL, notify=lambda: told.append("told"))
            assert (pending.result.first_offset, pending.result.last_offset, pending.epoch) == (2, 3, 1)
            for turn in range(PATIENCE * self.nodes):
                if pending.is_settled:
                    break
                copies.fetch(copies.nodes[1 + turn % (self.nodes - 1)])
            assert (pending.is_settled, pending.error, told) == (True, None, ["told"])
            assert leader.high_watermark >= 4
            have = [each.synced_end if self.is_synced else each.log_end_offset for each in copies.logs.values()]
            least = self.nodes if self.isr_has_all else self.lost_copies + 1
            assert sum(end >= 4 for end in have) >= least, "too few copies have an acknowledged record"

    @pytest.mark.parametrize("next_leader", [1, 2])
    def test_an_append_of_an_older_epoch_fails(self, next_leader: NodeId) -> None:
        with self._copies() as copies:
            copies.lead(1)
            epoch = copies.replicas[1].check_append(Acks.ALL)
            waiting = copies.append(b"a", acks=Acks.ALL)
            was_settled = waiting.is_settled  # by a leader that waits for no other copy
            copies.lead(next_leader)
            late = [
                copies.replicas[1].wait(waiting.result, epoch, acks=acks, now_ms=0)
                for acks in (Acks.LEADER, Acks.ALL)
            ]
            copies.append(b"b", acks=Acks.ALL)
            copies.converge()
            for pending in late if was_settled else [waiting, *late]:
                assert pending.is_settled
                assert isinstance(pending.error, NotLeaderError)

    def test_a_driver_that_stops_fails_every_append_that_waits(self) -> None:
        with self._copies() as copies:
            copies.lead(1)
            told: list[int] = []
            made = [copies.append(b"a", acks=Acks.ALL, notify=lambda at=at: told.append(at)) for at in range(3)]
            waiting = [pending for pending in made if not pending.is_settled]
            reason = NotLeaderError("the driver is closed")
            copies.replicas[1].stop_waiting(reason)
            copies.converge()
            assert all(pending.error is reason for pending in waiting)
            assert sorted(told) == [0, 1, 2]

    # -- answers

    def test_answers_that_are_late_repeated_or_of_another_epoch_have_no_effect(self) -> None:
        with self._copies() as copies:
            copies.lead(1)
            copies.append(b"a")
            follower = copies.replicas[2]
            first = copies.asked(2)
            assert first is not None
            if first[1].records is None:
                pytest.skip("node 2 does not ask the leader")
            assert follower.take(*first, 0)
            copies.append(b"b")
            second = copies.asked(2)
            assert second is not None

            def check_no_effect(wants: FetchFrom, answer: FetchAnswer) -> None:
                before = copies.image(2)
                assert not follower.take(wants, answer, 0)
                assert copies.image(2) == before

            check_no_effect(*first)
            check_no_effect(second[0], second[1]._replace(leader_epoch=9))
            check_no_effect(second[0]._replace(leader_epoch=9), second[1]._replace(leader_epoch=9))
            assert follower.take(*second, 0)
            for late in (second, first):
                check_no_effect(*late)
            copies.append(b"c")
            third = copies.asked(2)
            assert third is not None
            copies.lead(1)
            check_no_effect(*third)
            check_no_effect(third[0]._replace(leader_epoch=2), third[1])
            copies.lead(2)
            for old in (first, second, third):
                check_no_effect(*old)

    @pytest.mark.parametrize("damage", ["cut", "short", "garbled", "checksum", "repeated", "older epoch", "noise"])
    def test_a_damaged_answer_is_refused_and_what_follows_is_asked_for_again(self, damage: str) -> None:
        with self._copies() as copies:
            copies.lead(1)
            copies.lead(1)
            copies.append(b"a")
            copies.converge()
            before = bytes_of(copies.logs[2])
            copies.append(b"b" * 50)
            whole = len(bytes_of(copies.logs[1]))
            copies.append(b"c" * 50)
            good, bad = (part := bytes_of(copies.logs[1]))[len(before) : whole], bytearray(part[whole:])
            match damage:
                case "cut":
                    del bad[-1:]
                case "short":
                    del bad[20:]
                case "garbled":
                    bad[-10] ^= 0x10
                case "checksum":
                    bad[17] ^= 1
                case "repeated":
                    bad[:8] = bytes(8)
                case "older epoch":
                    bad[12:16] = (1).to_bytes(4, "big")
                case _:
                    bad[:] = random.Random(1).randbytes(len(bad))
            found = copies.asked(2)
            assert found is not None
            for records in (good + bad, bytes(bad)):
                if found[0].offset != copies.logs[2].log_end_offset:
                    break
                with pytest.raises((RecordError, UnexpectedOffsetError, FencedLeaderEpochError)):
                    copies.replicas[2].take(found[0], found[1]._replace(records=records), 0)
                assert bytes_of(copies.logs[2]) in (before, before + good), "bytes are written that are no batch"
                assert copies.logs[2].high_watermark <= copies.logs[2].log_end_offset
            copies.converge()
            copies.append(b"d", acks=Acks.ALL)
            copies.converge()
            copies.check_equal()

    # -- the high watermark

    def test_questions_that_come_again_and_late_lower_nothing(self) -> None:
        with self._copies() as copies:
            copies.lead(1)
            leader, questions = copies.replicas[1], []
            for number in range(6):
                copies.append(b"%d" % number)
                for node in copies.nodes[1:]:
                    question = copies.replicas[node].ask(0)
                    assert question is not None
                    questions += [question[1]] if question[0] == 1 else []
                    copies.fetch(node)
            chance, mark = random.Random(1), leader.high_watermark
            for wants in chance.sample(questions * 2, 2 * len(questions)):
                received(leader.answer(wants, 0))
                assert mark <= leader.high_watermark <= copies.logs[1].log_end_offset
                mark = leader.high_watermark

    def test_an_earlier_process_of_a_follower_counts_no_more(self) -> None:
        """Its late question says how far its log reached, which its successor's may have lost (KIP-903)."""
        with self._copies() as copies:
            copies.lead(1)
            leader, pending = copies.replicas[1], copies.append(b"a", acks=Acks.ALL)
            if pending.is_settled:
                return  # the leader waits for no other copy
            for node in copies.nodes[1:]:
                question = copies.replicas[node].ask(0)
                assert question is not None
                to, wants = question
                if to == 1:
                    received(leader.answer(wants._replace(life=wants.life + 1), 0))
                    received(leader.answer(wants._replace(offset=1, last_epoch=1), 0))
            assert not pending.is_settled, "a record is acknowledged that its followers may have lost"

    @pytest.mark.parametrize("seed", range(8))
    def test_copies_become_equal_whichever_leads_next(self, seed: int) -> None:
        """Leaders by chance, also without what others have: each replica cuts what differs."""
        chance = random.Random(seed)
        with self._copies() as copies:
            copies.lead(chance.choice(copies.nodes))
            marks: dict[NodeId, tuple[int, int, int]] = {}
            for number in range(80):
                leader, other = copies.state.leader, chance.choice(copies.nodes)
                match chance.choice(["append", "append", "fetch", "fetch", "fetch", "fetch", "lead", "restart"]):
                    case "append":
                        copies.append(*[b"%d" % number] * chance.randint(1, 3))
                    case "fetch":
                        copies.fetch(other)
                    case "lead":
                        copies.lead(other)
                    case _ if other != leader:
                        copies.start(other, copies.disks[other].kill())
                        copies.replicas[other].apply(copies.state, 0)
                for node, replica in copies.replicas.items():
                    log, life, epoch = copies.logs[node], copies.lives[node], copies.state.leader_epoch
                    mark = replica.high_watermark
                    assert mark == log.high_watermark <= log.log_end_offset
                    if marks.get(node, ())[:2] == (life, epoch) and not replica.lost:
                        assert mark >= marks[node][2], f"the high watermark of node {node} falls in epoch {epoch}"
                    marks[node] = (life, epoch, mark)
            copies.converge()
            copies.append(b"last", acks=Acks.ALL)
            copies.converge()
            copies.check_equal()

    def test_what_was_shown_and_is_cut_is_reported(self) -> None:
        """A leader is elected that was not in sync."""
        with self._copies() as copies:
            copies.lead(1)
            copies.append(b"a", acks=Acks.ALL)
            copies.converge()
            copies.start(2, SimDisk(seed=9))
            copies.lead(2)
            copies.append(b"b")
            copies.converge()
            for node in copies.nodes:
                if node != 2:
                    assert [tuple(lost) for lost in copies.replicas[node].lost] == [(0, 1, 2)]
            copies.append(b"c", acks=Acks.ALL)
            copies.converge()
            copies.check_equal()

    def test_an_empty_copy_begins_where_the_logs_of_others_begin(self) -> None:
        with self._copies() as copies:
            copies.lead(1)
            for number in range(6):
                copies.append(b"%d" % number)
            copies.append(b"last", acks=Acks.ALL)
            copies.converge()
            copies.logs[1].delete_before(4)
            copies.converge()
            copies.start(self.nodes, SimDisk(seed=9))
            copies.replicas[self.nodes].apply(copies.state, 0)
            copies.converge()
            question = copies.replicas[self.nodes].ask(0)
            assert question is not None
            log, source = copies.logs[self.nodes], copies.logs[question[0]]
            assert log.log_start_offset == source.log_start_offset, "it hides what it lacks"
            assert records_of(log) == records_of(source)

    # -- what it says to its driver

    def test_a_proposal_stays_until_a_newer_state_comes(self) -> None:
        with self._copies() as copies:
            state = copies.lead(1)
            copies.append(b"a")
            copies.converge()
            assert all(copies.replicas[node].propose(copies.lives, 1 << 40) is None for node in copies.nodes[1:])
            leader, wanted = copies.replicas[1], None
            for copies.now_ms in (0, 1_000, 10_000, 100_000, 1_000_000):
                wanted = leader.propose(copies.lives, copies.now_ms)
                if wanted is not None:
                    break
            if wanted is None:
                return  # these rules change no state while their leader lives
            assert (wanted.version, wanted.leader, wanted.leader_epoch) == (state.version, 1, state.leader_epoch)
            copies.converge()
            leader.apply(state, copies.now_ms)
            for lives in (copies.lives, {1: 1}, {}):
                assert leader.propose(lives, copies.now_ms) == wanted, "a proposal has changed"
            leader.apply(wanted._replace(version=state.version + 1), copies.now_ms)
            other = leader.propose(copies.lives, copies.now_ms)
            assert other is None or other.version == state.version + 1

    def test_a_standing_is_compared_by_epoch_and_then_by_end(self) -> None:
        with self._copies() as copies:
            copies.lead(1)
            copies.append(b"a", b"b", b"c")
            standing = copies.replicas[1].standing()
            assert standing == Standing(1, 3)
            if self.is_synced:
                assert copies.logs[1].synced_end == 3
            copies.lead(1)
            assert copies.replicas[1].standing() == standing, "an epoch without a record counts"
            copies.lead(2, known_to=(2,))
            copies.append(b"d")
            assert copies.replicas[2].standing() == Standing(3, 1) > standing
            copies.start(2, copies.disks[2].kill())
            assert copies.replicas[2].standing() == Standing(3, 1)

    def test_a_log_that_has_failed_refuses_for_good(self) -> None:
        with self._copies() as copies:
            state = copies.lead(1)
            copies.append(b"a")
            found = copies.asked(2)
            assert found is not None
            for node in (1, 2):
                copies.disks[node].fail("change", errno=errno.EIO, times=-1)
            ends = [log.log_end_offset for log in copies.logs.values()]
            for _ in range(2):
                with pytest.raises(StorageError):
                    copies.append(b"b", acks=Acks.ALL)
                if found[1].records is not None:
                    with pytest.raises(StorageError):
                        copies.replicas[2].take(*found, 0)
                copies.disks[1].heal()
                copies.disks[2].heal()
            with pytest.raises(StorageError):
                copies.replicas[1].apply(state._replace(leader_epoch=2, version=9), 0)
            assert copies.replicas[1].state == state
            assert [log.log_end_offset for log in copies.logs.values()] == ends

    # -- the registry, and whole lives

    def test_placements_elect_one_leader_and_a_new_process_leads_in_a_new_epoch(self) -> None:
        with self._copies() as copies:
            whole = Arrival(True, Stop.CLEAN)
            placements = {
                node: self.make_placement(replica, node, whole) for node, replica in copies.replicas.items()
            }
            state = created(copies.nodes)._replace(version=0)
            for node, placement in placements.items():
                # Without its own registration a replica only learns, and takes no part before it does.
                others = {each: 1 for each in copies.nodes if each != node}
                assert placement.take(state, others, 0) is None
                assert not placement.has_entered
            state = _settled(placements, state, copies.lives)
            roles = {node: replica.role for node, replica in copies.replicas.items()}
            expected = dict.fromkeys(copies.nodes, Role.FOLLOWER) | {state.leader: Role.LEADER}
            assert roles == expected
            given_up = placements[state.leader].resigned(state, copies.lives)
            assert given_up == state or given_up.leader != state.leader
            # The next process of the leader finds itself named.
            led, epoch = state.leader, state.leader_epoch
            copies.start(led, copies.disks[led].kill())
            placements[led] = self.make_placement(copies.replicas[led], led, Arrival(True, Stop.PROCESS_DIED))
            state = _settled(placements, state, copies.lives)
            assert state.leader_epoch > epoch
            assert [node for node in copies.nodes if copies.replicas[node].role is Role.LEADER] == [state.leader]

    def test_lives_lose_nothing_that_was_promised(self) -> None:
        elections = acknowledged = 0
        for seed in self.seeds:
            ledger = live(seed, seconds=self.seconds, **self._settings()).ledger
            elections += ledger.elections
            acknowledged += len([each for each in ledger.acknowledged if each.acks is Acks.ALL])
        assert elections >= len(self.seeds)
        assert acknowledged > len(self.seeds), "the lives have acknowledged next to nothing"

    def test_appends_are_acknowledged_while_as_many_nodes_are_down_as_may_be(self) -> None:
        for seed in self.seeds:
            with closing(SimCluster(seed, **self._settings())) as cluster:
                cluster.run(2_000)
                for node in cluster.world.random.sample(cluster.replicas, self.nodes_down):
                    cluster.nodes[node].kill()
                for _ in range(_PATIENCE_S):
                    cluster.append([b"a"], Acks.ALL)
                    cluster.run(1_000)
                    if cluster.ledger.acknowledged:
                        break
                assert cluster.ledger.acknowledged, (
                    f"seed {seed}: with {self.nodes_down} nodes down no append goes on"
                )

    def test_as_many_copies_as_may_be_lost_cost_nothing(self) -> None:
        """Some followers stand still until they count no more. Then others lose their copies, and those return."""
        assert self.lost_copies + self.nodes_down < self.nodes, "a copy that is down has nothing to save"
        for seed in self.seeds:
            with closing(SimCluster(seed, **self._settings())) as cluster:
                cluster.run(2_000)
                chance, leader = cluster.world.random, cluster.state().leader
                still = chance.sample([node for node in cluster.replicas if node != leader], seed % self.nodes)
                for node in still:
                    cluster.nodes[node].pause()
                cluster.run(3_000)
                cluster.append([b"a", b"b"], Acks.ALL)
                cluster.run(1_000)
                if cluster.ledger.acknowledged:
                    others = [node for node in cluster.replicas if node not in still]
                    _lose(cluster, chance.sample(others, min(self.lost_copies, len(others))))
                for node in still:
                    cluster.nodes[node].resume()
                cluster.run(3_000)
                cluster.settle()

    def test_one_copy_more_than_may_be_lost_costs_records_and_nothing_else(self) -> None:
        """The copies become equal without them, or no leader is elected. No epoch has two leaders."""
        for seed in self.seeds:
            with closing(SimCluster(seed, **self._settings())) as cluster:
                cluster.produce(each_ms=10, acks=[Acks.ALL, Acks.LEADER], until_ms=4_000)
                cluster.consume(each_ms=40, until_ms=4_000)
                cluster.run(2_000)
                _lose(cluster, cluster.world.random.sample(cluster.replicas, self.lost_copies + 1))
                cluster.run(3_000)
                cluster.settle()

    # -- what the tests are made of

    def _copies(self) -> Copies:
        return Copies(self.make_replica, self.nodes)

    def _settings(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "tolerance": Tolerance(self.lost_copies, is_synced=self.is_synced, isr_has_all=self.isr_has_all),
            "make_replica": self.make_replica,
            "make_placement": self.make_placement,
        }


def _settled(
    placements: dict[NodeId, Placement], state: PartitionState, lives: dict[NodeId, int]
) -> PartitionState:
    """Commit what the placements want, one after the other, until none wants anything."""
    for _ in range(PATIENCE):
        wishes = [placement.take(state, lives, 0) for placement in placements.values()]
        wanted = next((each for each in wishes if each is not None), None)
        if wanted is None:
            return state
        state = wanted._replace(version=state.version + 1)
    pytest.fail(f"the placements want something else than {state} for ever")


def _lose(cluster: SimCluster, nodes: list[NodeId]) -> None:
    """Have nodes lose their disks, or what they have not synced; their processes begin again some time later."""
    chance = cluster.world.random
    for node in nodes:
        lost = cluster.nodes[node]
        if chance.random() < 0.5:
            lost.wipe()
        else:
            lost.cut_power("none")
        cluster.world.after(chance.randint(10, 2_500), lost.start)
