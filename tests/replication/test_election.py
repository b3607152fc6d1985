"""Elections as pure functions: each rule by itself, and what holds for every state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.replication import PartitionState, election

THREE = PartitionState((1, 2, 3), (1, 2, 3), leader=1, leader_epoch=4, last_leader=1, version=0)


def test_a_new_partition_is_led_by_its_first_live_replica():
    state = election.created((3, 1, 2))
    assert (state.leader, state.leader_epoch, state.isr) == (-1, 0, (3, 1, 2))
    found = election.elect(state, {1, 2}, 1)
    assert (found.leader, found.leader_epoch, found.isr, found.last_leader) == (1, 1, (1, 2), 1)


def test_a_leader_that_lives_stays():
    assert election.elect(THREE, {1, 2}, 1) is None


@pytest.mark.row("F4", part="the rule")
def test_only_the_isr_is_elected():
    state = THREE._replace(isr=(1, 3))
    assert election.elect(state, {2, 3}, 1).leader == 3
    assert election.elect(state, {2}, 1) is None
    found = election.elect(state, {2}, 1, unclean=True)
    assert (found.leader, found.isr) == (2, (2,))
    assert election.is_unclean(state, found)
    assert not election.is_unclean(state, election.elect(state, {3}, 1))


def test_those_that_leave_below_the_minimum_are_eligible_until_it_is_reached():
    state = election.with_isr(THREE, {1}, 2)
    assert (state.isr, state.eligible) == ((1,), (2, 3))
    assert election.elect(state, {2}, 2).leader == 2
    # The old leader had every record, too.
    assert election.elect(state, {2}, 2).eligible == (1, 3)
    assert election.with_isr(state, {1, 3}, 2).eligible == ()
    assert election.with_isr(THREE, {1}, 1).eligible == ()


def test_a_minimum_above_the_replicas_counts_as_their_number():
    assert election.with_isr(THREE, {1, 2, 3}, 5).eligible == ()
    assert election.effective_minimum(THREE, 5) == 3


def test_the_last_leader_leads_when_nothing_else_is_left():
    state = THREE._replace(isr=(), leader=-1, last_leader=2)
    assert election.elect(state, {1, 3}, 1) is None
    found = election.elect(state, {1, 2}, 1)
    assert (found.leader, found.isr) == (2, (2,))
    assert election.elect(state._replace(eligible=(3,)), {1, 2}, 1) is None


def test_a_replica_that_is_not_trusted_leaves_both_sets():
    state = THREE._replace(isr=(1,), eligible=(2, 3))
    assert election.distrusted(state, 2, is_replaced=False).eligible == (3,)
    found = election.distrusted(state, 1, is_replaced=False)
    assert (found.isr, found.leader, found.leader_epoch, found.last_leader) == ((), -1, 5, 1)
    assert election.distrusted(state, 1, is_replaced=True).last_leader == -1
    alone = PartitionState((1,), (1,), 1, 4, last_leader=1)
    assert election.distrusted(alone, 1, is_replaced=True).last_leader == 1
    new = election.created((1, 2))
    assert election.distrusted(new, 1, is_replaced=True) == new


def test_a_node_gives_its_place_up():
    found = election.resigned(THREE, 1, {1, 2, 3}, 2)
    assert (found.leader, found.leader_epoch, found.isr) == (2, 5, (2, 3))
    assert election.resigned(THREE, 3, {1, 2, 3}, 2).isr == (1, 2)
    alone = THREE._replace(isr=(1,))
    assert election.resigned(alone, 1, {1, 2, 3}, 1) == alone
    assert election.resigned(THREE, 1, {1}, 1) == THREE


def test_a_node_that_cannot_open_its_log_hands_over_to_an_eligible_replica_too():
    state = THREE._replace(leader=1, leader_epoch=4, isr=(1,), eligible=(3,))
    found = election.given_up(state, 1, {1, 2, 3}, 2)
    assert (found.leader, found.leader_epoch, found.isr, found.eligible) == (3, 5, (3,), (1,))
    # Without a leader, another one is elected as if the node did not live.
    found = election.given_up(state._replace(leader=-1, isr=(1, 2)), 1, {1, 2, 3}, 2)
    assert (found.leader, found.isr) == (2, (2,))
    # A follower counts as not in sync. With none that may lead, all stays as it is.
    assert election.given_up(THREE, 3, {1, 2, 3}, 2).isr == (1, 2)
    assert election.given_up(state, 1, {1, 2}, 2) == state
    assert election.given_up(state, 1, {1, 2}, 2, unclean=True).leader == 2


def test_the_preferred_leader():
    state = THREE._replace(leader=2)
    assert election.preferred(state, {1, 2}).leader == 1
    assert election.preferred(state, {2}) is None
    assert election.preferred(THREE, {1}) is None
    assert election.preferred(state._replace(isr=(2, 3)), {1, 2}) is None


nodes = st.sampled_from((1, 2, 3, 4, 5))


@st.composite
def states(draw) -> PartitionState:
    replicas = tuple(draw(st.lists(nodes, min_size=1, unique=True)))
    isr = tuple(node for node in replicas if draw(st.booleans()))
    eligible = tuple(node for node in replicas if node not in isr and draw(st.booleans()))
    leader = draw(st.sampled_from((-1, *isr)))
    return PartitionState(
        replicas, isr, leader, draw(st.integers(1, 9)), eligible, draw(st.sampled_from((-1, *replicas)))
    )


@given(states(), st.sets(nodes), st.integers(1, 5), st.booleans())
def test_an_election_gives_a_live_leader_in_its_isr_and_a_higher_epoch(state, live, minimum, unclean):
    found = election.elect(state, live, minimum, unclean=unclean)
    if found is None:
        assert state.leader in live or unclean is False or not set(state.replicas) & live
        return
    assert found.leader in live
    assert found.leader in found.isr
    assert found.leader_epoch == state.leader_epoch + 1
    assert not set(found.isr) & set(found.eligible)
    assert set(found.isr) | set(found.eligible) <= set(state.replicas)
    if not unclean:
        nothing_left = not state.isr and not state.eligible
        assert not election.is_unclean(state, found) or (nothing_left and found.leader == state.last_leader)
    # What had every acknowledged record is not forgotten: it is in sync, eligible, or dead while there are enough.
    if not election.is_unclean(state, found) and len(found.isr) < election.effective_minimum(state, minimum):
        assert {*state.isr, *state.eligible} <= {*found.isr, *found.eligible}
