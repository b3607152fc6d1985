"""The rack of a node: registered with it, and used where replicas are placed."""

from __future__ import annotations

import json

import pytest

import logstore
from logstore.errors import InvalidSettingError, MalformedFactError
from logstore.replication import Node, facts
from logstore.replication.api import Create
from logstore.replication.controller import Controller, ControllerLoop, spread
from logstore.replication.controller.cluster_view import ClusterView
from tests.kit.waiting import wait_for
from tests.replication.node.nodes import Cluster


class RackCluster(Cluster):
    """Nodes that stand in racks."""

    def __init__(self, path, racks, **options) -> None:
        super().__init__(path, fetch_wait_ms=50, **options)
        self.racks = racks

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.options["rack"] = self.racks.get(number)
            super().start(number)

    def assigned(self, topic: str = "t"):
        return facts.decode_assignment(self.registry.read(facts.topic_path(topic))).partitions


@pytest.fixture
def make(tmp_path):
    made = []

    def cluster(racks, **options):
        made.append(RackCluster(tmp_path, racks, **options))
        made[-1].start(*racks)
        return made[-1]

    yield cluster
    for each in made:
        each.close()


@pytest.mark.row("F3")
def test_replicas_of_a_new_topic_stand_in_different_racks(make):
    cluster = make({1: "a", 2: "a", 3: "b"})
    assert json.loads(cluster.registry.read(facts.id_path(3)).value)["rack"] == "b"
    cluster.nodes[2].create_topic("t", 6, replication_factor=2)
    for replicas in cluster.assigned().values():
        assert 3 in replicas
    # The node that makes the topic leads its first partition, and leaders are spread all the same.
    assert cluster.assigned()[0][0] == 2
    assert [replicas[0] for replicas in cluster.assigned().values()].count(2) == 2


def test_three_racks_have_a_replica_each(make):
    cluster = make({1: "a", 2: "b", 3: "c", 4: "a", 5: "b"})
    cluster.nodes[5].create_topic("t", 10, replication_factor=3)
    for replicas in cluster.assigned().values():
        assert {cluster.racks[node] for node in replicas} == {"a", "b", "c"}


@pytest.mark.row("F3")
def test_a_controller_knows_the_racks_of_nodes_and_elects_in_what_they_place(make, monkeypatch):
    cluster = make({1: "a", 2: "a", 3: "b"}, controlled=True)
    views: list[ClusterView] = []
    steps = Controller.steps
    monkeypatch.setattr(Controller, "steps", lambda self: (views.append(self.view), steps(self))[1])
    with ControllerLoop(1, cluster.registry.connect, lambda command: None):
        topic = cluster.nodes[1].create_topic("t", 4, replication_factor=2)
        assert all(3 in replicas for replicas in cluster.assigned().values())
        wait_for(lambda: all(len(each.isr) == 2 for node in (1, 2) for each in cluster.nodes[node].metrics()))
        assert topic.append(b"x", partition=0, acks="all").offset == 0
        wait_for(lambda: bool(views) and views[-1].racks == cluster.racks)
        assert all(3 in replicas for replicas in spread(6, 2, views[-1].racks))


def test_a_node_that_registers_again_has_its_new_rack(make):
    cluster = make({1: "a", 2: "b"})
    cluster.stop(2)
    cluster.racks[2] = "c"
    cluster.start(2)
    assert facts.rack_of(cluster.registry.read(facts.id_path(2))) == "c"
    cluster.racks.pop(1)
    cluster.stop(1)
    cluster.start(1)
    assert facts.rack_of(cluster.registry.read(facts.id_path(1))) is None


@pytest.mark.parametrize("rack", ["", 7, b"a"])
def test_a_rack_that_is_no_name_is_refused(tmp_path, rack):
    cluster = Cluster(tmp_path)
    with logstore.open(tmp_path / "1") as store, pytest.raises(InvalidSettingError, match="rack: expected a name"):
        Node(store, 1, cluster.registry.connect, cluster.transport, rack=rack)


@pytest.mark.parametrize("value", [b"\xff", b"[]", b'{"rack": 7}'])
def test_a_node_whose_rack_is_unknown_is_named_before_anything_is_made(make, value):
    cluster = make({1: "a"})
    other = cluster.registry.connect()
    other.commit([Create(facts.id_path(2), value, ephemeral=True)])
    with pytest.raises(MalformedFactError, match=r"^/brokers/ids/2: "):
        cluster.nodes[1].create_topic("t")
    assert cluster.registry.read(facts.topic_path("t")) is None
    assert cluster.nodes[1].create_topic("t", replicas=[1]).append(b"x").offset == 0
    other.close()
