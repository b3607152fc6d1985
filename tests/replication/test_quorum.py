"""The rules of a quorum, step by step; `test_simulated_lives` has them under faults."""

from __future__ import annotations

import pytest

from logstore.batch._encode import encode
from logstore.errors import MalformedFactError, NotLeaderError
from logstore.log import Log, Stop
from logstore.replication import Acks, PartitionState, Role
from logstore.replication.api import FetchRefusal, Standing
from logstore.replication.placement import Arrival
from logstore.replication.quorum import QuorumPlacement, QuorumReplica
from logstore.testing import ManualClock, SimDisk
from tests.replication.plants import CountsOlderEpochs

THREE = PartitionState((1, 2, 3), (1, 2, 3), leader=1, leader_epoch=1, last_leader=1, version=1)


class Quorum:
    """Three replicas on disks in memory, and a registry that is a variable."""

    def __init__(self, kind: type[QuorumReplica] = QuorumReplica) -> None:
        self.disks = {node: SimDisk(seed=node) for node in (1, 2, 3)}
        self.logs = {
            node: Log.open("/data/t-0", files=disk, clock=ManualClock()) for node, disk in self.disks.items()
        }
        self.replicas = {node: kind(log, node, 1) for node, log in self.logs.items()}
        self.version = 0

    def lead(self, node: int, epoch: int, *, known_to: tuple[int, ...] = (1, 2, 3)) -> None:
        self.version += 1
        state = THREE._replace(leader=node, leader_epoch=epoch, last_leader=node, version=self.version)
        for each in known_to:
            self.replicas[each].apply(state, 0)

    def append(self, node: int, *values: bytes, acks: Acks = Acks.ALL):
        return self.replicas[node].append(encode(values, timestamp_ms=0), acks=acks, now_ms=0)

    def fetch(self, node: int) -> None:
        leader, wants = self.replicas[node].ask(0)
        found = self.replicas[leader].answer(wants, 0)
        if found.records is not None:
            found = found._replace(records=found.records.read())
        self.replicas[node].take(wants, found, 0)

    def close(self) -> None:
        for log in self.logs.values():
            log.close()


@pytest.fixture
def quorum():
    made = Quorum()
    yield made
    made.close()


def test_a_record_is_acknowledged_when_a_majority_has_synced_it(quorum):
    quorum.lead(1, 1)
    pending = quorum.append(1, b"a")
    quorum.fetch(2)
    assert not pending.is_settled  # node 2 has it, and has not said so
    assert quorum.logs[2].synced_end == 0
    quorum.fetch(2)
    assert (pending.is_settled, pending.error) == (True, None)
    assert quorum.logs[1].synced_end == quorum.logs[2].synced_end == 1
    assert [quorum.logs[node].high_watermark for node in (1, 2, 3)] == [1, 1, 0]


@pytest.mark.parametrize("kind", [QuorumReplica, CountsOlderEpochs])
def test_older_records_are_committed_by_one_of_the_own_epoch(kind):
    quorum = Quorum(kind)
    quorum.lead(1, 1)
    quorum.append(1, b"a", acks=Acks.LEADER)
    quorum.fetch(2)
    quorum.lead(2, 2)
    quorum.fetch(1)
    # Both have a, of epoch 1. A third replica with a record of an epoch in between could still replace it.
    assert quorum.logs[2].high_watermark == (0 if kind is QuorumReplica else 1)
    pending = quorum.append(2, b"b")
    quorum.fetch(3)
    quorum.fetch(3)
    assert pending.is_settled
    assert quorum.logs[2].high_watermark == 2
    quorum.close()


def test_a_new_epoch_fails_what_waits(quorum):
    quorum.lead(1, 1)
    pending = quorum.append(1, b"a")
    quorum.lead(2, 2)
    assert isinstance(pending.error, NotLeaderError)
    assert quorum.replicas[1].role is Role.FOLLOWER
    with pytest.raises(NotLeaderError, match="node 1 does not lead it, node 2 does"):
        quorum.append(1, b"b")


def test_questions_of_other_epochs_lives_and_nodes_are_refused(quorum):
    quorum.lead(1, 2)
    _, wants = quorum.replicas[2].ask(0)
    leader = quorum.replicas[1]
    assert leader.answer(wants._replace(leader_epoch=1), 0).refusal is FetchRefusal.OLD_EPOCH
    assert leader.answer(wants._replace(leader_epoch=3), 0).refusal is FetchRefusal.NEW_EPOCH
    assert leader.answer(wants._replace(node=9), 0).refusal is FetchRefusal.NOT_A_REPLICA
    assert leader.answer(wants._replace(life=5), 0).refusal is None
    assert leader.answer(wants, 0).refusal is FetchRefusal.STALE_REGISTRATION
    assert quorum.replicas[3].answer(wants, 0).refusal is FetchRefusal.NOT_LEADER


def test_a_registry_that_goes_back_is_refused(quorum):
    quorum.lead(1, 5)
    with pytest.raises(MalformedFactError, match="has leader 2 in epoch 4, and had leader 1 in epoch 5"):
        quorum.lead(2, 4, known_to=(1,))


def test_a_standing_is_of_what_is_on_the_disk(quorum):
    quorum.lead(1, 1)
    quorum.append(1, b"a", b"b", acks=Acks.LEADER)
    assert quorum.replicas[1].standing() == Standing(1, 2)
    assert quorum.logs[1].synced_end == 2
    # An epoch in which nothing was written counts for nothing.
    quorum.lead(1, 7)
    assert quorum.replicas[1].standing() == Standing(1, 2)


# -- the registry


def placement(quorum: Quorum, node: int, *, is_same_disk: bool = True) -> QuorumPlacement:
    return QuorumPlacement(quorum.replicas[node], node, Arrival(is_same_disk, Stop.CLEAN))


def stored(state: PartitionState | None, before: PartitionState) -> PartitionState:
    assert state is not None
    return state._replace(version=before.version + 1)


def test_a_majority_promises_and_the_greatest_leads(quorum):
    quorum.lead(1, 1)
    quorum.append(1, b"a", acks=Acks.LEADER)
    quorum.fetch(3)
    lives = {2: 1, 3: 1}
    second, third = placement(quorum, 2), placement(quorum, 3)
    state = THREE._replace(version=9)
    fenced = stored(second.take(state, lives, 0), state)
    assert (fenced.leader, fenced.leader_epoch, fenced.standings) == (-1, 2, ())
    one = stored(second.take(fenced, lives, 0), fenced)
    assert one.standings == ((2, Standing(-1, 0)),)
    assert second.take(one, lives, 0) is None
    both = stored(third.take(one, lives, 0), one)
    assert dict(both.standings) == {2: Standing(-1, 0), 3: Standing(1, 1)}
    assert second.take(both, lives, 0) is None
    led = third.take(both, lives, 0)
    assert (led.leader, led.leader_epoch, led.standings) == (3, 3, ())
    # No replica that has promised asks in the old epoch.
    assert quorum.replicas[2].ask(0) is None


def test_one_of_three_elects_no_leader(quorum):
    state = THREE._replace(leader=-1, leader_epoch=4, version=9)
    only = placement(quorum, 2)
    one = stored(only.take(state, {2: 1}, 0), state)
    assert only.take(one, {2: 1}, 0) is None


def test_the_greatest_has_died_and_the_others_begin_again(quorum):
    standings = ((1, Standing(3, 9)), (2, Standing(3, 5)))
    state = THREE._replace(leader=-1, leader_epoch=4, standings=standings, version=9)
    third = placement(quorum, 3)
    assert dict(third.take(state, {3: 1}, 0).standings)[3] == Standing(-1, 0)
    second = placement(quorum, 2)
    assert second.take(state, {2: 1}, 0) is None
    again = second.take(state, {2: 1, 3: 1}, 0)
    assert (again.leader, again.leader_epoch, again.standings) == (-1, 5, ())


def test_a_replica_whose_disk_was_wiped_stands_in_no_election_before_it_has_caught_up(quorum):
    quorum.lead(1, 3, known_to=(1, 2))
    quorum.append(1, b"a", acks=Acks.LEADER)
    third = placement(quorum, 3, is_same_disk=False)
    lives = {1: 1, 2: 1, 3: 1}
    state = THREE._replace(leader_epoch=3, version=1)
    without = stored(third.take(state, lives, 0), state)
    assert without.isr == (1, 2)
    assert third.take(without, lives, 0) is None
    quorum.fetch(3)
    assert third.take(without, lives, 0) is None
    quorum.fetch(3)
    assert third.take(without, lives, 0).isr == (1, 2, 3)


def test_a_process_that_led_leads_no_more_in_its_old_epoch(quorum):
    first = placement(quorum, 1)
    fenced = first.take(THREE, {1: 1, 2: 1, 3: 1}, 0)
    assert (fenced.leader, fenced.leader_epoch) == (-1, 2)
