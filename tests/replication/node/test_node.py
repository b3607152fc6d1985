"""Nodes of one process: a registry in memory, a transport that calls the other node."""

from __future__ import annotations

import threading

import pytest

import logstore
from logstore.errors import (
    DeliveryTimeoutError,
    InvalidSettingError,
    MalformedMessageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    RegistryUnreachableError,
    StorageError,
    StorageFailedError,
    StoreClosedError,
    TopicExistsError,
)
from logstore.io._interrupts import held
from logstore.replication import LocalRegistry, Node, Role, Write
from logstore.store.catalog.node_file import NODE_FILE
from tests.kit.inside import state_of
from tests.kit.waiting import wait_for
from tests.replication.node.nodes import Cluster


@pytest.mark.row("F1", part="in one process")
@pytest.mark.row("F7", part="the metrics of a node")
def test_a_record_is_on_every_replica_when_it_is_acknowledged(cluster):
    cluster.start(1, 2, 3)
    topic = cluster.create(1, 2, 3, minimum=2)
    assert topic.append(b"a", acks="all").offset == 0
    for number in (1, 2, 3):
        [found] = cluster.nodes[number].metrics()
        assert (found.log_end_offset, found.leader, found.leader_epoch) == (1, 1, 1)
        assert found.role is (Role.LEADER if number == 1 else Role.FOLLOWER)
    assert topic.append(b"b", acks=1).offset == 1
    wait_for(lambda: all(cluster.values(number) == [b"a", b"b"] for number in (1, 2, 3)))


def test_only_the_leader_takes_appends(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    other = cluster.nodes[2].wait_for_topic("t")
    with pytest.raises(NotLeaderError, match="node 2 does not lead it, node 1 does"):
        other.append(b"a", acks="all")
    for append in (
        lambda: other.append(b"a"),
        lambda: other.append_many([b"a"]),
        lambda: other.log(0).append([b"a"]),
        lambda: other.log(0).append([b"a"], expect=0),
    ):
        with pytest.raises(NotLeaderError, match="this replica does not lead"):
            append()
    assert other[0].log_end_offset == 0


@pytest.mark.row("F12", part="a node that is closed, in one process")
def test_a_node_that_is_closed_hands_over_and_comes_back(cluster):
    cluster.start(1, 2, 3)
    cluster.create(1, 2, 3).append(b"a", acks="all")
    cluster.stop(1)
    wait_for(lambda: cluster.leader() == 2)
    cluster.stores[2]["t"].append(b"b", acks="all")
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2, 3))
    cluster.stores[2]["t"].append(b"c", acks="all")
    wait_for(lambda: all(cluster.values(number) == [b"a", b"b", b"c"] for number in (1, 2, 3)))
    assert cluster.nodes[2].metrics()[0].leader_epoch == 2


@pytest.mark.row("F5", part="a follower that does not answer, in one process")
@pytest.mark.row("F9", part="in one process")
def test_a_follower_that_is_silent_leaves_the_isr_and_comes_back(cluster):
    cluster.start(1, 2)
    topic = cluster.create(1, 2, minimum=2)
    topic.append(b"a", acks="all")
    cluster.transport.cut.add(1)
    wait_for(lambda: cluster.in_sync(1))
    with pytest.raises(NotEnoughReplicasError, match=r"1 replicas are in sync, min\.insync\.replicas asks for 2"):
        topic.append(b"b", acks="all")
    assert topic.append(b"c", acks=1).offset == 1
    assert cluster.values(1) == [b"a"]
    cluster.transport.cut.clear()
    wait_for(lambda: cluster.in_sync(1, 2))
    topic.append(b"d", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a", b"c", b"d"])


def test_the_session_of_a_leader_ends_and_the_log_goes_on(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2).append(b"a", acks="all")
    wait_for(lambda: cluster.in_sync(1, 2))
    loop = cluster.nodes[1]._registry_loop

    def unreachable() -> LocalRegistry:
        raise RegistryUnreachableError("the registry is down for node 1")

    loop._connect = unreachable
    loop._registry.close()

    wait_for(lambda: cluster.nodes[2].metrics()[0].leader_epoch == 2)
    # Node 1 does not know. It leads on in its epoch, and nothing that it takes is acknowledged.
    with pytest.raises((NotEnoughReplicasAfterAppendError, DeliveryTimeoutError)):
        cluster.stores[1]["t"].append(b"zombie", acks="all", timeout_s=0.2)
    loop._connect = cluster.registry.connect
    wait_for(lambda: cluster.append(2, b"b"))
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.values(1) == cluster.values(2))
    assert cluster.values(1)[0] == b"a"
    assert b"b" in cluster.values(1)
    assert b"zombie" not in cluster.values(1)


def test_answers_that_are_garbled_are_asked_again(cluster):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    cluster.transport.garble = 5
    for number in range(20):
        topic.append(b"%d" % number, acks=1)
    wait_for(lambda: cluster.transport.garble == 0)
    topic.append(b"last", acks="all")
    wait_for(lambda: cluster.values(2) == [*(b"%d" % number for number in range(20)), b"last"])


@pytest.mark.parametrize("request_bytes", [b"", b"\x00", bytes(40), b"\x00\x01\x00\x11" + bytes(60)])
def test_a_request_that_is_none_is_refused(cluster, request_bytes):
    cluster.start(1)
    with pytest.raises((MalformedMessageError, logstore.errors.ProtocolError)):
        cluster.nodes[1].answer(request_bytes)


def test_a_store_is_opened_without_a_node_and_takes_no_appends(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2).append(b"a", acks="all")
    path = cluster.path / "1"
    cluster.close()
    with logstore.open(path) as store:
        assert [record.value for record in store["t"][0]] == [b"a"]
        with pytest.raises(NotLeaderError, match="this replica does not lead"):
            store["t"].append(b"b")
        with pytest.raises(NotLeaderError, match="no node runs on this store"):
            store["t"].append(b"b", acks="all")


def test_a_topic_without_replicas_takes_every_acks(tmp_path):
    with logstore.open(tmp_path) as store:
        topic = store.create_topic("alone")
        assert [topic.append(b"a", acks=acks).offset for acks in (0, 1, "all", -1)] == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="acks= is 0, 1 or \"all\", found 'most'"):
            topic.append(b"a", acks="most")


def test_a_leader_whose_disk_fails_gives_its_place_up(cluster, caplog):
    cluster.start(1, 2, 3)
    topic = cluster.create(1, 2, 3)
    topic.append(b"a", acks="all")
    state = state_of(cluster.nodes[1]._registry_loop.members[("t", 0)].log)
    with held(state.lock):
        state.fail_locked(StorageError("fdatasync: Input/output error"))
    with pytest.raises(StorageFailedError):
        topic.append(b"b", acks="all")
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2)
    # Opened again, the log is what its disk has; the rest comes from the leader.
    wait_for(lambda: cluster.in_sync(1, 2, 3))
    assert "this node does so by itself" in caplog.text
    wait_for(lambda: cluster.append(2, b"c"))
    wait_for(lambda: cluster.values(1) == [b"a", b"c"])


@pytest.mark.row("F11", part="three nodes in one process")
def test_a_quorum_goes_on_with_two_of_three(tmp_path):
    cluster = Cluster(tmp_path, quorum=True, fetch_wait_ms=50)
    cluster.start(1, 2, 3)
    cluster.nodes[1].create_topic("t", replicas=[1, 2, 3])

    wait_for(lambda: cluster.append(1, b"a"), 30)
    leader = cluster.nodes[1].leader_of("t")
    cluster.stop(leader)
    other = next(iter(cluster.nodes))
    wait_for(lambda: cluster.append(other, b"b"), 30)
    cluster.start(leader)
    wait_for(lambda: cluster.append(other, b"c"), 30)
    wait_for(lambda: all(cluster.values(number)[-1:] == [b"c"] for number in (1, 2, 3)))
    assert cluster.values(1) == cluster.values(2) == cluster.values(3)
    assert cluster.values(1)[0] == b"a"
    cluster.close()


# -- what is refused


def test_a_directory_of_another_node_is_refused(cluster):
    cluster.start(1)
    cluster.stop(1)
    with (
        logstore.open(cluster.path / "1") as store,
        pytest.raises(InvalidSettingError, match="belongs to node 1, not to node 2"),
    ):
        Node(store, 2, cluster.registry.connect, cluster.transport)


def test_a_directory_of_another_cluster_is_refused(cluster):
    cluster.start(1)
    cluster.stop(1)
    with (
        logstore.open(cluster.path / "1") as store,
        logstore.open(cluster.path / "2") as other,
    ):
        elsewhere = LocalRegistry()
        Node(other, 2, elsewhere.connect, cluster.transport).close()
        with pytest.raises(InvalidSettingError, match=r"belongs to cluster .*, and the registry is of"):
            Node(store, 1, elsewhere.connect, cluster.transport)


def test_two_directories_cannot_be_one_node(cluster, monkeypatch):
    monkeypatch.setattr("logstore.replication.node.node._SETTLE_S", 0.2)
    cluster.start(1)
    with (
        logstore.open(cluster.path / "other") as store,
        pytest.raises(RegistryUnreachableError, match="node 1 is registered by another directory"),
    ):
        Node(store, 1, cluster.registry.connect, cluster.transport)


def test_one_store_has_one_node(cluster):
    cluster.start(1)
    with pytest.raises(InvalidSettingError, match="found one that a node runs on"):
        Node(cluster.stores[1], 1, cluster.registry.connect, cluster.transport)
    assert cluster.nodes[1].create_topic("t").append(b"a", acks="all").offset == 0


@pytest.mark.row("F13", part="through a node")
def test_an_unclean_election_reports_what_is_lost(cluster, caplog):
    cluster.start(1, 2)
    topic = cluster.nodes[1].create_topic("t", replicas=[1, 2], settings={"unclean.leader.election.enable": True})
    wait_for(lambda: cluster.in_sync(1, 2))
    topic.append(b"a", acks="all")
    cluster.transport.cut.add(1)
    wait_for(lambda: cluster.in_sync(1))
    topic.append(b"b", acks="all")
    topic.append(b"c", acks="all")
    cluster.kill(1)
    cluster.transport.cut.clear()
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2, timeout_s=20)
    wait_for(lambda: cluster.append(2, b"x"))
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2) and cluster.values(1) == cluster.values(2))
    assert cluster.values(1) == [b"a", b"x"]
    assert cluster.metrics(1).lost_records == 2
    assert "records that consumers had seen are lost: partition=t-0 first_offset=1 end_offset=3" in caplog.text


def test_a_damaged_node_file_is_named(cluster):
    cluster.start(1)
    cluster.stop(1)
    (cluster.path / "1" / NODE_FILE).write_bytes(b"{}")
    with (
        logstore.open(cluster.path / "1") as store,
        pytest.raises(logstore.errors.NotALogError, match=r"logstore\.node is damaged"),
    ):
        Node(store, 1, cluster.registry.connect, cluster.transport)


def test_topics_that_cannot_be_are_refused_whole(cluster):
    cluster.start(1, 2)
    node = cluster.nodes[1]
    for arguments, what in (
        ({"replication_factor": 3}, "3 replicas need as many nodes, and 2 live"),
        ({"replicas": [1, 1]}, "expected different nodes"),
        ({"replicas": [1, -3]}, r"expected numbers of nodes, found \[-3\]"),
        ({"replicas": [1, "2"]}, "expected numbers of nodes"),
        ({"replicas": [1, 2**40]}, "expected numbers of nodes"),
        ({"replicas": [1, 2], "settings": {"min.insync.replicas": 3}}, "3 is more than the 2 replicas"),
        ({"settings": {"logstore.tail": "memory"}}, "a replica has its records in the file"),
        ({"settings": {"logstore.visible.after": "flush"}}, "rises with the other replicas"),
    ):
        with pytest.raises(InvalidSettingError, match=what):
            node.create_topic("t", **arguments)
    assert cluster.registry.read("/brokers/topics/t") is None
    node.create_topic("t")
    with pytest.raises(TopicExistsError):
        node.create_topic("t")


def test_settings_that_no_replica_can_have_are_refused_later_too(cluster):
    cluster.start(1, 2)
    topic = cluster.create(1, 2, minimum=2)
    wait_for(lambda: cluster.in_sync(1, 2))
    for setting, value, what in (
        ("logstore.tail", "memory", "a replica has its records in the file"),
        ("logstore.visible.after", "flush", "rises with the other replicas"),
    ):
        with pytest.raises(InvalidSettingError, match=what):
            cluster.stores[1].alter_topic("t", {setting: value})
    # As in Kafka, a minimum above the number of replicas counts as that number.
    cluster.stores[1].alter_topic("t", {"min.insync.replicas": "3"})
    assert topic.append(b"a", acks="all").offset == 0


@pytest.mark.parametrize("value", [b"\xff", b"[]", b'{"leader": 1, "leader_epoch": 1, "isr": [2]}'])
def test_a_state_that_is_not_ours_is_named_and_changes_nothing(cluster, caplog, value):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    wait_for(lambda: cluster.in_sync(1, 2))
    path = "/brokers/topics/t/partitions/0/state"
    good = cluster.registry.read(path)
    cluster.registry.commit([Write(path, value, good.version)])
    wait_for(lambda: f"{path}: found " in caplog.text)
    topic.append(b"a", acks="all")
    assert cluster.registry.read(path).value == value
    cluster.registry.commit([Write(path, good.value, good.version + 1)])
    # What is ours again is read again: the follower that stops leaves the ISR.
    cluster.stop(2)
    wait_for(lambda: cluster.in_sync(1))
    assert cluster.nodes[1].metrics()[0].leader_epoch == 1


# -- the end


def test_a_closed_node_answers_nothing_and_ends_its_threads(cluster):
    before = threading.active_count()
    cluster.start(1, 2)
    cluster.create(1, 2).append(b"a", acks="all")
    node = cluster.nodes[1]
    cluster.close()
    node.close()
    with pytest.raises(StoreClosedError):
        node.answer(b"")
    wait_for(lambda: threading.active_count() <= before)


def test_a_wait_for_acks_ends_with_the_node(cluster):
    cluster.start(1, 2)
    topic = cluster.create(1, 2, minimum=2)
    wait_for(lambda: cluster.in_sync(1, 2))
    cluster.transport.cut.add(1)
    errors: list[BaseException] = []

    def append() -> None:
        try:
            topic.append(b"a", acks="all")
        except logstore.errors.LogstoreError as error:
            errors.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    wait_for(lambda: topic[0].log_end_offset == 1)
    cluster.stop(1)
    thread.join()
    assert isinstance(errors[0], logstore.errors.LogstoreError)
