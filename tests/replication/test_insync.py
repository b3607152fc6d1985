"""What a leader of in-sync replicas proposes, with a follower that is played by the test."""

from __future__ import annotations

import pytest

from logstore.batch._encode import encode
from logstore.errors import StaleFactError
from logstore.log import FixedPolicy, Log, Moves
from logstore.records import TopicPartition
from logstore.replication import Acks, FetchFrom, InSyncReplica, PartitionState, facts
from logstore.replication.insync import LAG_MAX_MS

LED = PartitionState((1, 2), (1,), leader=1, leader_epoch=1, last_leader=1, version=3)


@pytest.fixture
def leader(tmp_path):
    with Log.open(tmp_path / "t-0", policy=FixedPolicy(Moves.FROM_OUTSIDE)) as log:
        replica = InSyncReplica(log, 1, 0, min_insync=1)
        replica.apply(LED, 0)
        yield replica


def ask(leader: InSyncReplica, life: int, offset: int) -> None:
    """Let node 2 ask for what follows an offset."""
    leader.answer(FetchFrom(2, life, 1, offset, 1 if offset else -1, 0, 1 << 20), 0)


@pytest.mark.row("F4")
def test_a_proposal_does_not_outlive_the_registration_of_the_node_that_joins(leader):
    leader.append(encode([b"a"], timestamp_ms=0), acks=Acks.ALL, now_ms=0)
    ask(leader, life=4, offset=1)
    proposed = leader.propose({1: 0, 2: 4}, 0)
    assert proposed.isr == (1, 2)
    assert leader.propose({1: 0, 2: 4}, 0) == proposed
    # The answer to its commit was lost, and node 2 comes back with an empty disk: it must not join by it.
    for lives in ({1: 0, 2: 5}, {1: 0}):
        assert leader.propose(lives, 0).isr == (1,)
    # The first commit may still take place, so acknowledgements wait for node 2.
    pending = leader.append(encode([b"b"], timestamp_ms=0), acks=Acks.ALL, now_ms=0)
    assert not pending.is_settled
    # Once the ISR without it is stored, they do not.
    leader.apply(LED._replace(version=4), LAG_MAX_MS + 1)
    assert pending.is_settled
    assert pending.error is None


def test_a_node_that_lives_no_more_cannot_be_stored_as_in_sync():
    joined = LED._replace(isr=(1, 2))
    with pytest.raises(StaleFactError, match="/brokers/lives/2: node 2 does not live"):
        facts.changes_to(TopicPartition("t", 0), LED, joined, {1: 0})


def test_a_follower_that_was_about_to_join_and_is_gone_holds_no_record_back(leader):
    """Nothing else happens: no append, no question, and the ISR is the leader alone as before."""
    leader.append(encode([b"a"], timestamp_ms=0), acks=Acks.LEADER, now_ms=0)
    ask(leader, life=4, offset=1)
    leader.append(encode([b"b"], timestamp_ms=0), acks=Acks.LEADER, now_ms=0)
    assert leader.propose({1: 0}, LAG_MAX_MS) is None
    assert leader.high_watermark == 1
    assert leader.propose({1: 0}, LAG_MAX_MS + 1) is None
    assert leader.high_watermark == 2


def test_a_follower_begins_where_its_leader_starts_inside_a_batch(tmp_path, leader):
    leader.append(encode([b"a", b"b", b"c"], timestamp_ms=0), acks=Acks.ALL, now_ms=0)
    leader.append(encode([b"d"], timestamp_ms=0), acks=Acks.ALL, now_ms=0)
    leader.log.delete_before(2)
    with Log.open(tmp_path / "copy-0", policy=FixedPolicy(Moves.FROM_OUTSIDE)) as log:
        follower = InSyncReplica(log, 2, 4, min_insync=1)
        follower.apply(LED, 0)
        for _ in range(4):
            _, wants = follower.ask(0)
            answer = leader.answer(wants, 0)
            if answer.records is not None:
                answer = answer._replace(records=answer.records.read())
            follower.take(wants, answer, 0)
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 4, 4)
        assert [record.value for record in log.scan()] == [b"c", b"d"]


def fetch(follower: InSyncReplica, leader: InSyncReplica, times: int = 1) -> None:
    for _ in range(times):
        _, wants = follower.ask(0)
        answer = leader.answer(wants, 0)
        if answer.records is not None:
            answer = answer._replace(records=answer.records.read())
        follower.take(wants, answer, 0)


@pytest.mark.row("F8", part="a log start inside the first batch of an epoch")
def test_a_tail_below_a_log_start_inside_a_batch_does_not_hold_a_follower_back(tmp_path):
    """The leader has deleted the start of its epoch: it names its log start as the end of the one before."""
    policy = FixedPolicy(Moves.FROM_OUTSIDE)
    with Log.open(tmp_path / "one-0", policy=policy) as one, Log.open(tmp_path / "two-0", policy=policy) as two:
        first, second = InSyncReplica(one, 1, 0, min_insync=1), InSyncReplica(two, 2, 0, min_insync=1)
        led_by_2 = PartitionState((1, 2), (1, 2), leader=2, leader_epoch=1, last_leader=2, version=1)
        for replica in (first, second):
            replica.apply(led_by_2, 0)
        second.append(encode([b"a"], timestamp_ms=0), acks=Acks.ALL, now_ms=0)
        fetch(first, second, times=2)
        # These are on node 2 alone when node 1 takes its place.
        for value in (b"x", b"y"):
            second.append(encode([value], timestamp_ms=0), acks=Acks.LEADER, now_ms=0)
        led_by_1 = PartitionState((1, 2), (1,), leader=1, leader_epoch=2, last_leader=1, version=2)
        first.apply(led_by_1, 0)
        first.append(encode([b"b", b"c", b"d"], timestamp_ms=0), acks=Acks.ALL, now_ms=0)
        one.delete_before(2)
        second.apply(led_by_1, 0)
        fetch(second, first)
        assert [record.value for record in two.scan()] == [b"a"]
        assert (two.log_end_offset, two.replica.epochs.latest.epoch) == (2, 1)  # it keeps x
        fetch(second, first, times=3)
        assert (two.log_start_offset, two.log_end_offset, two.high_watermark) == (2, 4, 4)
        assert [record.value for record in two.scan()] == [b"c", b"d"]
        assert second.lost == []
