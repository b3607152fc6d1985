"""A node on a restored directory, from a snapshot or a copy of yesterday: it leads nothing that others have."""

from __future__ import annotations

import shutil

import pytest

import logstore
from logstore.errors import DeliveryTimeoutError, InvalidSettingError, NotLeaderError, TopicExistsError
from logstore.log.directory.files import Directory
from logstore.records import TopicPartition
from logstore.replication import Create, LocalRegistry, Node, facts
from logstore.replication.election import created
from logstore.replication.node.held_replicas import REPLICAS_FILE
from logstore.replication.node.registration import CLUSTER_ID
from logstore.store.catalog.layout import FACTS_FILE
from logstore.store.catalog.node_file import NODE_FILE, NodeFile
from logstore.store.catalog.topic_list import new_id
from tests.kit.waiting import wait_for
from tests.replication.node.nodes import Cluster, Direct


def alone(store: logstore.Store, registry: LocalRegistry) -> Node:
    return Node(store, 1, registry.connect, Direct({}))


@pytest.mark.parametrize("quorum", [False, True])
def test_a_node_alone_goes_on_in_a_snapshot(tmp_path, quorum):
    with logstore.open(tmp_path / "data") as store:
        registry = LocalRegistry.kept_in(store)
        with Node(store, 1, registry.connect, Direct({}), quorum=quorum) as node:
            node.create_topic("t").append(b"a", acks="all")
            store.snapshot(tmp_path / "copy")
            store["t"].append(b"not in it", acks="all")
            registry.close()
    # Twice: what the first process did is there when the second begins.
    for offset in (1, 2):
        with logstore.open(tmp_path / "copy") as store:
            registry = LocalRegistry.kept_in(store)
            with Node(store, 1, registry.connect, Direct({}), quorum=quorum) as node:
                topic = node.wait_for_topic("t")
                assert topic.append(b"b", acks="all", timeout_s=10).offset == offset
                assert [record.value for record in topic[0]] == [b"a", b"b", b"b"][: offset + 1]
            registry.close()


def test_the_copy_is_of_the_node_and_was_never_registered(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2).append(b"a", acks="all")
    cluster.stores[1].snapshot(cluster.path / "copy")
    own, copied = (NodeFile.load(Directory(cluster.path / name)) for name in ("1", "copy"))
    assert own is not None
    assert copied is not None
    assert own.is_trusted
    assert (copied.cluster_id, copied.node, copied.life, copied.is_trusted) == (own.cluster_id, 1, -1, False)
    assert copied.directory_id != own.directory_id
    assert not (cluster.path / "copy" / REPLICAS_FILE).exists()
    other = LocalRegistry()
    other.commit([Create(CLUSTER_ID, b'{"version": "1", "id": "another"}')])
    with logstore.open(cluster.path / "copy") as store:
        with pytest.raises(InvalidSettingError, match="belongs to node 1, not to node 2"):
            Node(store, 2, cluster.registry.connect, cluster.transport)
        with pytest.raises(InvalidSettingError, match="belongs to cluster"):
            Node(store, 1, other.connect, cluster.transport)
        with pytest.raises(NotLeaderError):
            store["t"].append(b"b")


def restore(cluster: Cluster, number: int, backup: str) -> None:
    shutil.rmtree(cluster.path / str(number))
    shutil.copytree(cluster.path / backup, cluster.path / str(number))


def back_up(cluster: Cluster, way: str) -> None:
    """Make a backup of node 1: a snapshot while it runs, or a copy of its closed directory."""
    if way == "snapshot":
        cluster.stores[1].snapshot(cluster.path / "backup")
        return
    cluster.stop(1)
    shutil.copytree(cluster.path / "1", cluster.path / "backup")
    cluster.start(1)


@pytest.mark.parametrize("quorum", [False, True])
@pytest.mark.parametrize("way", ["snapshot", "copy"])
def test_a_restored_node_follows_and_gets_what_it_lacks(tmp_path, way, quorum):
    cluster = Cluster(tmp_path, lag_max_ms=1_000, fetch_wait_ms=50, quorum=quorum)
    try:
        cluster.start(1, 2, 3)
        cluster.create(1, 2, 3)
        wait_for(lambda: cluster.append(1, b"a"))
        back_up(cluster, way)
        wait_for(lambda: cluster.in_sync(1, 2, 3))
        wait_for(lambda: cluster.append(1, b"b"))
        cluster.kill(1)
        restore(cluster, 1, "backup")
        cluster.start(1)
        wait_for(lambda: cluster.in_sync(1, 2, 3), what=lambda: [cluster.metrics(n) for n in (1, 2, 3)])
        assert cluster.leader() != 1
        wait_for(lambda: cluster.append(2, b"c"))
        wait_for(lambda: all(cluster.values(number)[-1:] == [b"c"] for number in (1, 2, 3)))
        values = [cluster.values(number) for number in (1, 2, 3)]
        assert values[0] == values[1] == values[2]
        assert next(value for value in values[0] if value != b"a") == b"b"
    finally:
        cluster.close()


@pytest.mark.parametrize("way", ["snapshot", "copy"])
def test_the_last_leader_is_not_elected_on_a_restored_directory(cluster, way):
    """What it had acknowledged alone is lost. The other one may have more than the backup, so neither leads."""
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    back_up(cluster, way)
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.append(2, b"b"))
    if cluster.leader() != 1:
        cluster.stop(2)
        wait_for(lambda: cluster.leader() == 1)
    else:
        cluster.kill(2)
    wait_for(lambda: cluster.append(1, b"c"))
    wait_for(lambda: cluster.metrics(1).isr == (1,))
    cluster.stop(1)
    restore(cluster, 1, "backup")
    cluster.start(1)
    wait_for(lambda: cluster.metrics(1).leader == -1 and not cluster.metrics(1).isr)
    cluster.start(2)
    epoch = cluster.metrics(1).leader_epoch
    with pytest.raises(DeliveryTimeoutError):
        cluster.nodes[2].wait_for_topic("t", timeout_s=1.5)
    assert (cluster.metrics(1).leader, cluster.metrics(1).leader_epoch) == (-1, epoch)


def test_a_new_topic_does_not_take_over_the_records_of_a_backup(tmp_path, caplog):
    """The registry was lost, so the topic is made again: the records of the backup are none of it."""
    with logstore.open(tmp_path / "data") as store:
        registry = LocalRegistry.kept_in(store)
        with alone(store, registry) as node:
            node.create_topic("t").append(b"a", acks="all")
            registry.close()
    (tmp_path / "data" / FACTS_FILE).unlink()
    (tmp_path / "data" / NODE_FILE).unlink()
    with logstore.open(tmp_path / "data") as store:
        registry = LocalRegistry.kept_in(store)
        with alone(store, registry) as node:
            with pytest.raises(TopicExistsError, match="has records in the store, and is not in the registry"):
                node.create_topic("t")
            # Made by another node, or by a tool.
            registry.commit(
                [
                    Create(facts.topic_path("t"), facts.encode_assignment(new_id(), {0: (1,)})),
                    Create(facts.state_path(TopicPartition("t", 0)), facts.encode_state(created((1,)))),
                ]
            )
            wait_for(lambda: "records of an earlier topic of that name" in caplog.text)
            assert [record.value for record in store["t"][0]] == [b"a"]
            assert node.metrics() == []
            store.delete_topic("t")
            node.wait_for_topic("t").append(b"b", acks="all")
        registry.close()
