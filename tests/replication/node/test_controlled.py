"""Nodes under a controller, and topics that end: real nodes, stores and logs, a registry in memory."""

from __future__ import annotations

import contextlib

import pytest

import logstore
from logstore.errors import InvalidSettingError, NotLeaderError, UnknownTopicError
from logstore.records import TopicPartition
from logstore.replication import Node, election, facts
from logstore.replication.api import Create, Write
from logstore.replication.controller import ControllerLoop
from logstore.replication.deletion import request_path
from logstore.store.catalog.topic_list import new_id
from tests.kit.waiting import wait_for
from tests.replication.node.nodes import Cluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def controlled(tmp_path):
    cluster = Cluster(tmp_path, controlled=True, fetch_wait_ms=50)
    cluster.start(1, 2, 3)
    loops = [ControllerLoop(node, cluster.registry.connect, lambda command: None) for node in (1, 2)]
    cluster.loops = loops
    yield cluster
    for loop in loops:
        loop.close()
    cluster.close()


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path, fetch_wait_ms=50)
    yield cluster
    cluster.close()


def state(cluster, place=T0):
    return facts.decode_state(cluster.registry.read(facts.state_path(place)), ())


@pytest.mark.row("Z2", part="nodes of one process")
def test_the_controller_elects_and_another_one_takes_over(controlled):
    cluster = controlled
    cluster.create(1, 2, 3, minimum=2)
    assert state(cluster).controller_epoch == 1
    assert cluster.append(2, b"a")
    first = next(loop for loop in cluster.loops if loop.epoch is not None)
    first.close()
    cluster.kill(1)
    wait_for(lambda: state(cluster).leader in (2, 3))
    wait_for(lambda: cluster.in_sync(2, 3))
    assert state(cluster).controller_epoch == 2
    assert cluster.append(3, b"b")
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2, 3))
    for store in cluster.stores.values():
        assert [record.value for record in store["t"].read()] == [b"a", b"b"]


@pytest.mark.row("F15", part="nodes of one process")
def test_a_partition_moves_to_a_new_node_while_records_are_written(controlled):
    cluster = controlled
    cluster.create(1, 2, minimum=2)
    cluster.start(4)
    written = []

    def move(*replicas):
        request = facts.encode_requests([facts.PartitionRequest(T0, replicas)])
        cluster.registry.commit([Create(facts.REASSIGNMENTS, request)])
        while state(cluster).replicas != replicas:
            value = b"%d" % len(written)
            # As each client of a cluster does, it asks again for the leader. Any other error fails the test.
            with contextlib.suppress(KeyError, NotLeaderError):
                cluster.stores[cluster.nodes[2].leader_of("t")]["t"].append(value, acks="all", timeout_s=30)
                written.append(value)

    move(2, 4)
    assert set(state(cluster).isr) == {2, 4}
    wait_for(lambda: cluster.append(4, b"last"))

    def read():
        return [record.value for record in cluster.stores[4]["t"].read(max_bytes=1 << 20)]

    wait_for(lambda: read()[-1:] == [b"last"])
    found = read()
    # An append that failed at the change of the leader may be there all the same.
    assert [value for value in dict.fromkeys(found) if value in {*written, b"last"}] == [*written, b"last"]


@pytest.mark.row("F15")
def test_a_partition_whose_state_is_made_after_its_replicas_is_trusted(cluster):
    """A controller has read the topic later than the nodes."""
    cluster.start(1, 2)
    assigned = facts.encode_assignment(new_id(), {0: (1, 2)})
    cluster.registry.commit([Create(facts.topic_path("t"), assigned)])
    wait_for(lambda: all(("t", 0) in cluster.nodes[node]._registry_loop.members for node in (1, 2)))
    led = election.created((1, 2))._replace(leader=1, leader_epoch=1, last_leader=1)
    made = Create(facts.state_path(TopicPartition("t", 0)), facts.encode_state(led))
    cluster.registry.commit([made])
    wait_for(lambda: cluster.in_sync(1, 2))
    cluster.nodes[1].wait_for_topic("t").append(b"a", acks="all")


def test_partitions_are_added(controlled):
    cluster = controlled
    cluster.create(1, 2)
    fact = cluster.registry.read(facts.topic_path("t"))
    known = facts.decode_assignment(fact)
    grown = facts.encode_assignment(known.topic_id, {**known.partitions, 1: (2, 1)})
    cluster.registry.commit([Write(fact.path, grown, fact.version)])
    for node in (1, 2):
        wait_for(lambda node=node: [each.leader for each in cluster.nodes[node].metrics()] == [1, 2])
    cluster.stores[2]["t"].append(b"x", partition=1, acks="all")
    assert cluster.stores[1]["t"].partition_count == 2


def test_a_topic_is_deleted_under_a_controller(controlled):
    cluster = controlled
    cluster.create(1, 2)
    cluster.nodes[1].delete_topic("t")
    wait_for(lambda: not cluster.registry.children(facts.TOPICS))
    wait_for(lambda: all("t" not in store.topics() for store in cluster.stores.values()))


def test_a_topic_is_deleted_by_the_nodes_alone_once_each_has_deleted_it(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    cluster.append(1, b"a")
    cluster.kill(2)
    cluster.nodes[1].delete_topic("t")
    assert "t" not in cluster.stores[1].topics()
    assert cluster.registry.read(facts.topic_path("t")) is not None
    cluster.start(2)
    wait_for(lambda: not cluster.registry.children(facts.TOPICS))
    assert "t" not in cluster.stores[2].topics()
    assert not cluster.registry.children(facts.DELETED_TOPICS)
    assert not cluster.registry.children(facts.CONFIGS)
    # The name is free.
    cluster.create(2, 1)
    assert cluster.append(1, b"b")
    wait_for(lambda: cluster.nodes[1].metrics()[0].high_watermark == 1)
    assert [record.value for record in cluster.stores[1]["t"].read()] == [b"b"]


@contextlib.contextmanager
def inattentive(node):
    """Keep a node from looking at the topics: it is busy, or its registry is slow."""
    loop = node._registry_loop
    loop._read_topics = lambda registry: None
    try:
        yield
    finally:
        del loop._read_topics
        loop.notify(facts.TOPICS)


@pytest.mark.parametrize("number", [1, 3], ids=["has deleted it", "had none of it"])
def test_a_name_that_is_free_and_taken_again_before_a_node_looks_is_another_topic(cluster, number):
    """The node believed for ever that it had the first one, and took no part in the second."""
    cluster.start(1, 2, 3)
    cluster.create(1, 2)
    wait_for(lambda: "t" in cluster.nodes[number]._registry_loop.topics)
    cluster.kill(2)
    cluster.nodes[1].delete_topic("t")
    with inattentive(cluster.nodes[number]):
        cluster.start(2)
        wait_for(lambda: not cluster.registry.children(facts.TOPICS))
        cluster.nodes[2].create_topic("t", replicas=(2, number))
    wait_for(lambda: cluster.in_sync(2, number))
    assert cluster.append(number, b"b")
    wait_for(lambda: cluster.metrics(number).high_watermark == 1)
    assert cluster.values(number) == [b"b"]


def test_a_node_that_ended_between_its_deletion_and_its_confirmation_goes_on(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    cluster.kill(2)
    store = cluster.path / "2"
    with logstore.open(store) as opened:
        opened.delete_topic("t")
    cluster.registry.commit([Create(request_path("t"), b"")])
    cluster.start(2)
    wait_for(lambda: not cluster.registry.children(facts.TOPICS))
    assert "t" not in cluster.stores[2].topics()


def test_what_is_not_there_cannot_be_deleted(cluster):
    cluster.start(1)
    with pytest.raises(UnknownTopicError, match="'t' is not in the registry"):
        cluster.nodes[1].delete_topic("t")
    assert not cluster.registry.children(facts.DELETED_TOPICS)


@pytest.mark.row("F3")
def test_replicas_are_spread_over_all_nodes(cluster):
    cluster.start(1, 2, 3)
    cluster.nodes[2].create_topic("t", 12, replication_factor=2)
    assigned = facts.decode_assignment(cluster.registry.read(facts.topic_path("t"))).partitions
    leaders = [replicas[0] for replicas in assigned.values()]
    assert leaders[0] == 2
    assert [leaders.count(node) for node in (1, 2, 3)] == [4, 4, 4]
    assert [sum(node in each for each in assigned.values()) for node in (1, 2, 3)] == [8, 8, 8]


def test_a_quorum_under_a_controller_is_refused(tmp_path):
    with logstore.open(tmp_path / "s") as store, pytest.raises(InvalidSettingError, match="elects by itself"):
        Node(store, 1, None, None, quorum=True, controlled=True)
