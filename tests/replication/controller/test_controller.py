"""What a controller decides, step by step, on a registry in memory and brokers without logs."""

from __future__ import annotations

import pytest

from logstore.errors import RegistryUnreachableError, StaleFactError
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import NO_NODE, Create, Delete
from logstore.replication.controller import Command, CommandGate, HeldState
from logstore.replication.deletion import request_path
from tests.replication.controller.brokers import StubCluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster():
    return StubCluster({1: "a", 2: "b", 3: "c", 4: "a"})


@pytest.fixture
def office(cluster):
    return cluster.office(1)


def test_a_new_topic_gets_states_leaders_and_everybody_in_sync(cluster, office):
    cluster.create("t", {0: (1, 2, 3), 1: (2, 3, 1)})
    cluster.settle(office)
    assert [cluster.state("t", partition).leader for partition in (0, 1)] == [1, 2]
    assert cluster.state("t").isr == (1, 2, 3)
    assert cluster.state("t").controller_epoch == office.controller.epoch == 1
    assert cluster.brokers[3].told[T0] == cluster.state("t")


def test_a_new_partition_is_led_by_a_replica_that_lives(cluster, office):
    cluster.brokers[1].stop()
    cluster.create("t", {0: (1, 2, 3)})
    office.turn()
    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2, 3))


def test_a_topic_of_an_old_tool_gets_an_id(cluster, office):
    cluster.put(facts.topic_path("t"), b'{"version": 1, "partitions": {"0": [1, 2]}}')
    cluster.settle(office)
    assert len(cluster.assignment("t").topic_id) == 22
    assert cluster.state("t").isr == (1, 2)


@pytest.mark.row("Z4", part="without a broker")
def test_a_lost_broker_is_replaced_and_comes_back(cluster, office):
    cluster.create("t", {0: (1, 2, 3)}, min_insync_replicas=2)
    cluster.settle(office)
    cluster.brokers[1].stop()
    office.turn()
    led = cluster.state("t")
    assert (led.leader, led.leader_epoch, led.isr) == (2, 2, (2, 3))
    assert cluster.brokers[3].told[T0] == led
    cluster.brokers[1].start()
    cluster.settle(office)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (1, 2, 3))
    office.call(lambda controller: controller.balance(0))
    cluster.settle(office)
    assert cluster.state("t").leader == 1


def test_a_lost_follower_leaves_the_isr_at_once(cluster, office):
    cluster.create("t", {0: (1, 2, 3)})
    cluster.settle(office)
    cluster.brokers[3].stop()
    office.turn()
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (1, 2))


@pytest.mark.row("F4", part="the controller elects")
def test_the_last_of_the_isr_leads_once_it_is_back_and_no_other(cluster, office):
    cluster.create("t", {0: (1, 2)})
    cluster.settle(office)
    cluster.brokers[2].stop()
    office.turn()
    cluster.brokers[1].stop()
    office.turn()
    assert (cluster.state("t").leader, cluster.state("t").isr) == (NO_NODE, (1,))
    cluster.brokers[2].start()
    office.turn()
    assert cluster.state("t").leader == NO_NODE
    cluster.brokers[1].start()
    office.turn()
    assert cluster.state("t").leader == 1


@pytest.mark.row("F13")
def test_an_unclean_election_is_made_where_it_is_allowed_and_counted(cluster, office):
    cluster.create("t", {0: (1, 2)}, unclean_leader_election_enable="true")
    cluster.settle(office)
    cluster.brokers[2].stop()
    office.turn()
    cluster.brokers[1].stop()
    cluster.brokers[2].start()
    office.turn()
    assert cluster.state("t").leader == 2
    assert office.controller.unclean_elections == 1


@pytest.mark.row("F13")
def test_a_broker_that_shuts_down_and_has_everything_leads_before_one_that_lacks_records(cluster, office):
    cluster.create("t", {0: (1, 2, 3)}, min_insync_replicas=2, unclean_leader_election_enable="true")
    cluster.settle(office)
    cluster.brokers[3].stop()
    office.turn()
    cluster.brokers[3].start()
    office.call(lambda controller: controller.shut_down(2, cluster.brokers[2].life))
    office.turn()
    assert (cluster.state("t").isr, cluster.state("t").eligible) == ((1,), (2,))
    cluster.brokers[1].stop()
    office.turn()
    assert cluster.state("t").leader == 2
    assert office.controller.unclean_elections == 0


@pytest.mark.row("F15")
def test_a_partition_moves_and_its_old_replicas_go(cluster, office):
    cluster.create("t", {0: (1, 2), 1: (2, 3)})
    cluster.settle(office)
    cluster.move(T0, (4, 2))
    office.turn()
    begun = cluster.state("t")
    assert (begun.replicas, begun.adding, begun.removing) == ((4, 2, 1), (4,), (1,))
    assert cluster.assignment("t")[1:] == ({0: (4, 2, 1), 1: (2, 3)}, {0: (4,)}, {0: (1,)})
    cluster.settle(office)
    ended = cluster.state("t")
    assert (ended.replicas, ended.isr, ended.leader, ended.adding) == ((4, 2), (4, 2), 4, ())
    assert cluster.assignment("t")[1:] == ({0: (4, 2), 1: (2, 3)}, {}, {})
    assert cluster.registry.read(facts.REASSIGNMENTS) is None


@pytest.mark.row("F15")
def test_a_move_is_cancelled(cluster, office):
    cluster.create("t", {0: (1, 2)})
    cluster.settle(office)
    cluster.brokers[4].stop()
    cluster.brokers[3].session = None  # it is registered, and answers nothing
    cluster.move(T0, (3,))
    office.turn()
    assert cluster.state("t").adding == (3,)
    cluster.move(T0, ())
    cluster.settle(office)
    state = cluster.state("t")
    assert (set(state.replicas), state.adding, state.removing) == ({1, 2}, (), ())
    assert cluster.assignment("t").adding == {}


def test_a_move_to_a_node_that_does_not_live_is_refused_and_said(cluster, office, caplog):
    cluster.create("t", {0: (1, 2)})
    cluster.settle(office)
    cluster.move(T0, (1, 9))
    cluster.settle(office)
    assert cluster.state("t").replicas == (1, 2)
    assert cluster.registry.read(facts.REASSIGNMENTS) is None
    assert "node 9 does not live" in caplog.text


def test_a_move_waits_while_those_that_stay_are_below_the_minimum(cluster, office):
    cluster.create("t", {0: (1, 2)}, min_insync_replicas=2)
    cluster.settle(office)
    cluster.move(T0, (3, 4))
    office.turn()
    cluster.brokers[4].stop()
    cluster.settle(office)
    # 3 is in sync, 4 is not: nothing goes.
    assert cluster.state("t").removing == (1, 2)
    cluster.brokers[4].start()
    cluster.settle(office)
    assert cluster.state("t").replicas == (3, 4)


def test_a_request_for_preferred_leaders_is_met_and_removed(cluster, office):
    cluster.create("t", {0: (1, 2), 1: (2, 1)})
    cluster.settle(office)
    cluster.brokers[1].stop()
    office.turn()
    cluster.brokers[1].start()
    cluster.settle(office)
    assert cluster.state("t").leader == 2
    cluster.put(facts.PREFERRED_ELECTIONS, facts.encode_requests([facts.PartitionRequest(T0, None)]))
    cluster.settle(office)
    assert cluster.state("t").leader == 1
    assert cluster.registry.read(facts.PREFERRED_ELECTIONS) is None


def test_partitions_are_added(cluster, office):
    cluster.create("t", {0: (1, 2)})
    cluster.settle(office)
    known = cluster.assignment("t")
    cluster.put(facts.topic_path("t"), facts.encode_assignment(known.topic_id, {0: (1, 2), 1: (2, 3)}))
    cluster.settle(office)
    assert (cluster.state("t", 1).leader, cluster.state("t", 1).isr) == (2, (2, 3))


def test_a_topic_goes_once_every_broker_has_deleted_it(cluster, office):
    cluster.create("t", {0: (1, 2), 1: (2, 3)})
    cluster.settle(office)
    cluster.brokers[3].stop()
    cluster.put(request_path("t"), b"")
    cluster.settle(office)
    assert cluster.registry.children(request_path("t")) == {"1", "2"}
    assert cluster.registry.read(facts.topic_path("t")) is not None
    cluster.brokers[3].start()
    cluster.settle(office)
    for path in (facts.TOPICS, facts.DELETED_TOPICS, facts.CONFIGS):
        assert cluster.registry.children(path) == frozenset()
    cluster.create("t", {0: (1, 2)})
    cluster.settle(office)
    assert cluster.state("t").leader_epoch == 1


def test_a_request_to_delete_what_is_not_there_is_removed(cluster, office):
    cluster.put(request_path("unknown"), b"")
    cluster.settle(office)
    assert cluster.registry.children(facts.DELETED_TOPICS) == frozenset()


def test_a_broker_that_shuts_down_hands_over_and_is_counted_down(cluster, office):
    cluster.create("t", {0: (1, 2), 1: (1, 3), 2: (2, 1), 3: (1,)})
    cluster.settle(office)
    left: list[int] = []
    life = cluster.brokers[1].life

    def ask(controller):
        left.append(controller.shut_down(1, life))

    office.call(ask)
    office.turn()
    office.call(ask)
    office.turn()
    assert left == [2, 0]  # the partition that no other replica has does not count
    assert [cluster.state("t", partition).leader for partition in range(4)] == [2, 3, 2, 1]
    assert all(1 not in cluster.state("t", partition).isr for partition in range(3))


@pytest.mark.row("Z2", "Z3", part="without a broker")
def test_another_controller_takes_over_and_the_first_one_changes_nothing(cluster, office, caplog):
    cluster.create("t", {0: (1, 2, 3)})
    cluster.settle(office)
    first = office.controller
    cluster.registry.commit([Delete(facts.CONTROLLER, 0)])
    second = cluster.office(2)
    second.turn()
    assert second.controller.epoch == 2
    cluster.brokers[1].stop()
    # The first one has not heard of it, and decides once more.
    first.view.take(facts.id_path(1), None)
    [step] = first.steps()
    with pytest.raises(StaleFactError, match="/controller_epoch"):
        cluster.registry.commit(step.changes)
    office.turn()
    assert office.controller is None
    second.turn()
    assert cluster.state("t").controller_epoch == 2


def test_an_isr_that_its_leader_has_changed_meanwhile_is_not_overwritten(cluster):
    def before(call):
        if call == "commit" and cluster.brokers[2].session is None and cluster.state("t").version == grown - 1:
            leader.step()  # node 3 joins, and an acknowledgement may rest on it

    office = cluster.office(1, before)
    cluster.create("t", {0: (1, 2, 3)})
    leader = cluster.brokers[1]
    cluster.brokers[3].stop()
    office.turn()
    assert cluster.state("t").isr == (1, 2)
    cluster.brokers[3].start()
    grown = cluster.state("t").version + 1
    cluster.brokers[2].stop()
    office.turn()
    assert cluster.state("t").isr == (1, 3)


def test_an_answer_that_was_lost_does_not_cost_the_office(cluster):
    lost = ["committed"]

    def before(call):
        if call in lost:
            lost.remove(call)
            raise RegistryUnreachableError("the answer was lost")

    office = cluster.office(1, before)
    with pytest.raises(RegistryUnreachableError):
        office.turn()
    assert cluster.registry.read(facts.CONTROLLER) is not None
    office.turn()
    assert office.controller.epoch == 1


def test_malformed_facts_change_nothing_and_are_named(cluster, office):
    cluster.create("t", {0: (1, 2)})
    cluster.settle(office)
    before = cluster.state("t")
    other = facts.state_path(TopicPartition("t", 1))
    for path in (facts.topic_path("bad"), facts.REASSIGNMENTS, facts.PREFERRED_ELECTIONS, other):
        cluster.registry.commit([Create(path, b"\xff")])
    cluster.put(facts.topic_path("t"), facts.encode_assignment("A" * 22, {0: (1, 2), 1: (1, 2)}))
    cluster.settle(office)
    assert cluster.state("t") == before
    assert cluster.registry.read(other).value == b"\xff"
    assert set(office.controller.view.malformed) == {
        facts.topic_path("bad"),
        facts.REASSIGNMENTS,
        facts.PREFERRED_ELECTIONS,
        other,
    }


def test_a_command_that_does_not_arrive_is_sent_again_as_it_is_then(cluster, office):
    cluster.create("t", {0: (1, 2)})
    session, cluster.brokers[2].session = cluster.brokers[2].session, None
    office.turn()
    assert cluster.brokers[2].told == {}
    cluster.brokers[2].session = session
    office.turn()
    assert cluster.brokers[2].told[T0] == cluster.state("t")


@pytest.mark.row("Z3", part="without a broker")
def test_commands_of_an_older_controller_or_for_an_earlier_process_are_not_obeyed(cluster, office):
    cluster.create("t", {0: (1, 2)})
    cluster.settle(office)
    state = cluster.state("t")
    broker = cluster.brokers[2]
    broker.obey(Command(2, broker.life, 5))
    stale = HeldState("A" * 22, T0, state._replace(leader=2, leader_epoch=9))
    broker.obey(Command(2, broker.life, 4, (stale,)))
    broker.obey(Command(2, broker.life - 1, 6, (stale,)))
    assert broker.told[T0] == state
    gate = CommandGate(broker.life)
    assert gate.admits(Command(2, broker.life, 6))
    assert gate.controller_epoch == 6
