"""A producer on the leader of a topic with replicas: its futures are done when the replicas have the records."""

from __future__ import annotations

import threading

import pytest

import logstore
from logstore.errors import (
    DeliveryTimeoutError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
)
from logstore.records import TopicPartition
from logstore.replication import Role, Write, facts
from tests.kit.waiting import wait_for
from tests.replication.node.test_node import Cluster


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, lag_max_ms=1_000, fetch_wait_ms=50)
    yield made
    made.close()


class Dam:
    """Keeps the answers to followers back, so that nothing is acknowledged and no replica leaves the ISR."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.open = threading.Event()
        self.open.set()
        call = cluster.transport.call

        def dammed(to, request, *, timeout_s):
            self.open.wait()
            return call(to, request, timeout_s=timeout_s)

        cluster.transport.call = dammed


@pytest.mark.row("F1", part="a producer, in one process")
def test_records_are_on_every_replica_when_their_futures_are_done(cluster):
    cluster.start(1, 2, 3)
    cluster.create(1, 2, 3, minimum=2)
    with cluster.stores[1].producer(batch_size=200) as producer:
        futures = [producer.send("t", b"%03d" % number) for number in range(200)]
        assert [future.result(10).offset for future in futures] == list(range(200))
        assert {each[0].log_end_offset for each in (node.metrics() for node in cluster.nodes.values())} == {200}
        producer.send("t", b"last")
        producer.flush()
        assert [node.metrics()[0].log_end_offset for node in cluster.nodes.values()] == [201] * 3
        assert producer.metrics().retries == 0
    wait_for(lambda: cluster.values(2) == [*(b"%03d" % number for number in range(200)), b"last"])


def test_closing_waits_for_the_acks(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2, minimum=2)
    producer = cluster.stores[1].producer()
    futures = [producer.send("t", b"%d" % number) for number in range(10)]
    producer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert cluster.nodes[2].metrics()[0].log_end_offset == 10
    wait_for(lambda: not [each for each in threading.enumerate() if each.name == "logstore-acks"])


def test_acks_1_does_not_wait_for_followers(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam = Dam(cluster)
    dam.open.clear()
    with cluster.stores[1].producer(acks=1) as one, cluster.stores[1].producer(acks=0) as none:
        assert one.send("t", b"a").result(10).offset == 0
        assert none.send("t", b"b").result(10).offset == 1
    dam.open.set()


@pytest.mark.row("F9", part="a producer, in one process")
def test_below_the_minimum_a_batch_waits_until_the_replica_is_back(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2, minimum=2)
    cluster.transport.cut.add(1)
    wait_for(lambda: cluster.in_sync(1))
    with cluster.stores[1].producer(delivery_timeout_ms=300) as producer:
        with pytest.raises(
            NotEnoughReplicasError, match=r"1 replicas are in sync, min\.insync\.replicas asks for 2"
        ):
            producer.send("t", b"a").result(10)
    assert cluster.stores[1]["t"][0].log_end_offset == 0
    with cluster.stores[1].producer() as producer:
        future = producer.send("t", b"b")
        wait_for(lambda: producer.metrics().retries > 0)
        cluster.transport.cut.clear()
        assert future.result(10).offset == 0
    wait_for(lambda: cluster.values(2) == [b"b"])


@pytest.mark.row("F5", part="a producer whose follower stops, in one process")
def test_a_follower_that_stops_delays_the_acks_until_it_has_left_the_isr(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    cluster.transport.cut.add(1)
    with cluster.stores[1].producer() as producer:
        futures = [producer.send("t", b"%d" % number) for number in range(3)]
        assert [future.result(10).offset for future in futures] == [0, 1, 2]
    assert cluster.nodes[1].metrics()[0].isr == (1,)


def test_an_isr_that_shrinks_below_the_minimum_makes_a_batch_wait_and_be_stored_once(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2, minimum=2)
    cluster.transport.cut.add(1)
    with cluster.stores[1].producer() as producer:
        future = producer.send("t", b"a")
        # Written, waiting, and failed by the smaller ISR: then sent again, which is refused.
        wait_for(lambda: producer.metrics().retries > 0)
        assert cluster.stores[1]["t"][0].log_end_offset == 1
        cluster.transport.cut.clear()
        assert future.result(10).offset == 0
    assert cluster.stores[1]["t"][0].metrics().counters["duplicates"] >= 1
    wait_for(lambda: cluster.values(2) == [b"a"])
    assert cluster.values(1) == [b"a"]


def test_a_batch_without_acks_fails_with_the_delivery_timeout(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2, minimum=2)
    dam = Dam(cluster)
    dam.open.clear()
    with cluster.stores[1].producer(delivery_timeout_ms=200) as producer:
        future = producer.send("t", b"a")
        with pytest.raises(
            (DeliveryTimeoutError, NotEnoughReplicasAfterAppendError),
            match=r"not acknowledged within delivery\.timeout\.ms 200",
        ):
            future.result(10)
    dam.open.set()
    wait_for(lambda: cluster.in_sync(1, 2))
    with cluster.stores[1].producer() as producer:
        assert producer.send("t", b"b").result(10).offset == 1


def test_a_partition_without_acks_does_not_hold_up_another(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2, minimum=2)
    cluster.nodes[1].create_topic("alone", replicas=[1])
    dam = Dam(cluster)
    dam.open.clear()
    producer = cluster.stores[1].producer()
    slow = [producer.send("t", b"%d" % number) for number in range(10)]
    for number in range(20):
        assert producer.send("alone", b"%d" % number).result(10).offset == number
    assert not any(future.done() for future in slow)
    dam.open.set()
    producer.close()
    assert [future.result().offset for future in slow] == list(range(10))


@pytest.mark.row("M6", "P13", part="through a change of leaders, in one process")
def test_a_change_of_leaders_stores_every_record_once_and_in_order(cluster):
    """Leadership leaves the producer's node, and returns: its batches are sent again."""
    cluster.start(1, 2)
    cluster.create(1, 2)
    values = [b"%03d" % number for number in range(60)]
    dam = Dam(cluster)
    with cluster.stores[1].producer(batch_size=1, linger_ms=0) as producer:
        for value in values[:20]:
            producer.send("t", value).result(10)
        dam.open.clear()
        waiting = [producer.send("t", value) for value in values[20:]]
        assert not waiting[0].done()
        # Node 2 is elected, as a controller would have it, and node 1 again.
        elect(cluster, 2)
        dam.open.set()
        wait_for(lambda: cluster.nodes[1].metrics()[0].role is Role.FOLLOWER)
        cluster.stores[2]["t"].append(b"other", acks="all")
        wait_for(lambda: cluster.in_sync(1, 2))
        elect(cluster, 1)
        offsets = [future.result(10).offset for future in waiting]
    assert offsets == sorted(offsets)
    wait_for(lambda: cluster.values(1) == cluster.values(2) and len(cluster.values(1)) >= 61)
    assert [value for value in cluster.values(1) if value != b"other"] == values


def elect(cluster: Cluster, leader: int) -> None:
    """Store a new epoch with this leader, as the node that shuts down or a controller does."""
    path = facts.state_path(TopicPartition("t", 0))

    def stored() -> bool:
        fact = cluster.registry.read(path)
        state = facts.decode_state(fact, (1, 2))
        wanted = state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, last_leader=leader)
        try:
            cluster.registry.commit([Write(path, facts.encode_state(wanted), fact.version)])
        except logstore.errors.StaleFactError:
            return False
        return True

    wait_for(stored)
    wait_for(lambda: all(node.leader_of("t") == leader for node in cluster.nodes.values()))


def test_producers_of_two_nodes_are_not_taken_for_each_other(cluster):
    """Both stores count their producers from the same number; the log of the topic has both."""
    cluster.start(1, 2)
    cluster.create(1, 2)
    with cluster.stores[1].producer() as producer:
        assert producer.send("t", b"a").result(10).offset == 0
        first = producer.producer_id
    elect(cluster, 2)
    with cluster.stores[2].producer() as producer:
        assert producer.producer_id == first
        assert producer.send("t", b"b").result(10).offset == 1
    wait_for(lambda: cluster.values(1) == cluster.values(2) == [b"a", b"b"])


def test_batches_that_wait_fail_when_their_node_is_closed(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2, minimum=2)
    cluster.transport.cut.add(1)
    producer = cluster.stores[1].producer()
    future = producer.send("t", b"a")
    wait_for(lambda: cluster.stores[1]["t"][0].log_end_offset == 1)
    cluster.nodes[1].close()
    with pytest.raises(NotLeaderError, match=r"node 1 is closed|no node runs"):
        future.result(10)
    assert isinstance(producer.send("t", b"b").exception(10), NotLeaderError)
    producer.close()


def test_on_a_follower_a_batch_waits_for_its_node_to_lead(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    cluster.nodes[2].wait_for_topic("t")
    with cluster.stores[2].producer(delivery_timeout_ms=200) as producer:
        with pytest.raises(NotLeaderError, match="node 2 does not lead it, node 1 does"):
            producer.send("t", b"a").result(10)
    with cluster.stores[2].producer() as producer:
        future = producer.send("t", b"b")
        wait_for(lambda: producer.metrics().retries > 0)
        cluster.stop(1)
        assert future.result(10).offset == 0


@pytest.mark.row("F11", part="a producer, three nodes in one process")
def test_a_quorum_acknowledges_what_a_majority_has(tmp_path):
    cluster = Cluster(tmp_path, quorum=True, fetch_wait_ms=50)
    cluster.start(1, 2, 3)
    cluster.nodes[1].create_topic("t", replicas=[1, 2, 3])
    wait_for(lambda: cluster.leader() >= 0)
    leader = cluster.leader()
    with cluster.stores[leader].producer(batch_size=100) as producer:
        futures = [producer.send("t", b"%d" % number) for number in range(50)]
        assert [future.result(30).offset for future in futures] == list(range(50))
    cluster.close()


# -- metrics


@pytest.mark.row("F7", part="the metrics of a store")
def test_a_store_has_the_metrics_of_its_replicas(cluster):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    [leads] = cluster.stores[1].metrics().replicas
    [follows] = cluster.stores[2].metrics().replicas
    assert (leads.role, leads.leader_epoch, leads.isr, leads.lag) == (Role.LEADER, 1, (1, 2), {2: 0})
    assert (follows.role, follows.leader_epoch, follows.isr) == (Role.FOLLOWER, 1, (1, 2))
    wait_for(lambda: cluster.stores[2].metrics().replicas[0].lag == {2: 0})
    cluster.transport.cut.add(1)
    for _ in range(3):
        topic.append(b"b", acks=1)
    wait_for(lambda: cluster.stores[1].metrics().replicas[0].lag == {2: 3})
    cluster.transport.cut.clear()
    wait_for(lambda: cluster.stores[1].metrics().replicas[0].lag == {2: 0})


def test_a_store_without_a_node_has_no_replicas(tmp_path):
    with logstore.open(tmp_path) as store:
        assert store.metrics().replicas == ()
    with pytest.raises(logstore.errors.StoreClosedError):
        store.metrics()
