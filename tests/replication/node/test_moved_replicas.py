"""A replica that has moved away is cleared, and never because of a fact that is not understood."""

from __future__ import annotations

import errno
import json
import logging

import pytest

import logstore
from logstore.log.directory.files import Directory
from logstore.records import Origin, TopicPartition
from logstore.replication import LocalRegistry, facts
from logstore.replication.api import Create, Delete, PartitionState, Write
from logstore.replication.controller import ControllerLoop
from logstore.replication.node.held_replicas import REPLICAS_FILE, HeldReplica, HeldReplicas
from logstore.replication.node.moved_replicas import MovedReplicas
from logstore.replication.node.registration import CLUSTER_ID, NodeRegistration
from logstore.store.catalog import layout
from logstore.testing import FaultyFiles, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.kit.logs import at, one_batch
from tests.kit.waiting import wait_for
from tests.replication.node.nodes import Cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = "A" * 22
PATH = "/data"


class Scene:
    """The store of node 1 with records in both partitions of a topic, and a registry where t-0 has moved away."""

    def __init__(self, files, registry: LocalRegistry | None = None) -> None:
        self.store = logstore.open(PATH, {"logstore.housekeeping": "manual"}, files=files)
        self.notices: dict[str, str] = {}
        self.left: list[TopicPartition] = []
        self.topics: dict[str, facts.Assignment] = {}
        if registry is None:
            registry = LocalRegistry()
            self.store.create_topic("t", 2, {"logstore.replicated": "true"})
            for place in (T0, T1):
                log = self.store._host._log_of(*place)
                log.replica.append_batch(at(one_batch([b"x" * 100]), 0, leader_epoch=4), origin=Origin.REPLICATION)
                log.flush()
            HeldReplicas.load(self.root).change({place: HeldReplica(ID, 2) for place in (T0, T1)})
        self.registry = registry.connect()
        self.registration = NodeRegistration(self.root, 1, "cluster")
        assert self.registration.register(self.registry)
        self.registration.confirm()
        self.begin()

    def begin(self) -> None:
        self.moved = MovedReplicas(self.store, self.registration, self.notices.__setitem__, self.left.append)

    @property
    def root(self) -> Directory:
        return self.store._host.root

    def put(self, path: str, value: bytes) -> None:
        fact = self.registry.read(path)
        self.registry.commit([Create(path, value) if fact is None else Write(path, value, fact.version)])

    def move(self, *, version: int = 3, **changes) -> None:
        """Let the registry say that t-0 has moved to nodes 2 and 3, by a state of some version."""
        self.put(facts.topic_path("t"), facts.encode_assignment(ID, {0: (2, 3), 1: (1, 2)}))
        state = PartitionState((2, 3), (2, 3), leader=2, leader_epoch=5)._replace(**changes)
        for _ in range(version + 1):
            self.put(facts.state_path(T0), facts.encode_state(state))

    def go_on(self, *, finish_only: bool = False) -> None:
        read = {}
        for topic in self.registry.children(facts.TOPICS):
            try:
                read[topic] = facts.decode_assignment(self.registry.read(facts.topic_path(topic)))
            except logstore.errors.MalformedFactError:
                pass
        self.moved.go_on(self.registry, {} if finish_only else read, {}, finish_only=finish_only)

    @property
    def is_clearing(self) -> bool:
        return self.moved.is_clearing(T0)

    def is_unused(self, place: TopicPartition) -> bool:
        return layout.is_unused(layout.partition_directory(self.root, place))

    def records(self, place: TopicPartition) -> int:
        log = self.store._host._log_of(*place)
        return log.log_end_offset - log.log_start_offset

    def close(self) -> None:
        self.registry.close()
        self.store.close()


@pytest.fixture
def scene():
    made = Scene(SimDisk())
    yield made
    made.close()


def test_a_replica_that_has_moved_away_is_cleared_and_the_others_stay(scene):
    scene.move()
    scene.go_on()
    assert scene.is_unused(T0)
    assert scene.records(T1) == 1
    assert scene.left == [T0]
    assert [place for place, _ in HeldReplicas.load(scene.root).items()] == [T1]
    assert not any(scene.notices.values())
    # It is an empty log, as of a new topic.
    assert (scene.records(T0), scene.store._host._log_of(*T0).replica.leader_epoch) == (0, 0)


def doubts():
    def topic(scene, **changes):
        given = {"topic_id": ID, "partitions": {0: (2, 3), 1: (1, 2)}, **changes}
        scene.put(facts.topic_path("t"), facts.encode_assignment(**given))

    def delete(scene, path):
        scene.registry.commit([Delete(path, scene.registry.read(path).version)])

    state, of_topic, life = facts.state_path(T0), facts.topic_path("t"), facts.life_path(1)
    return {
        "no topic": (lambda scene: [delete(scene, path) for path in (state, of_topic)], of_topic),
        "another topic": (lambda scene: topic(scene, topic_id="B" * 22), of_topic),
        "no such partition": (lambda scene: topic(scene, partitions={}) or None, ""),
        "malformed topic": (lambda scene: scene.put(of_topic, b"\xff"), ""),
        "no state": (lambda scene: delete(scene, state), state),
        "malformed state": (lambda scene: scene.put(state, b'{"leader": 2}'), state),
        "no cluster": (lambda scene: delete(scene, CLUSTER_ID), CLUSTER_ID),
        "another cluster": (lambda scene: scene.put(CLUSTER_ID, b'{"id": "other"}'), CLUSTER_ID),
        "malformed cluster": (lambda scene: scene.put(CLUSTER_ID, b"[]"), CLUSTER_ID),
        "another life": (lambda scene: scene.put(life, scene.registry.read(life).value), life),
        "another directory": (lambda scene: setattr(scene.registration, "life", 1) or scene.put(life, b"?"), life),
        "no life": (lambda scene: delete(scene, life), life),
        "not trusted": (lambda scene: setattr(scene.registration, "has_same_disk", False), life),
    }


@pytest.mark.parametrize("doubt", sorted(doubts()))
def test_a_fact_that_is_not_understood_deletes_nothing_and_is_named(scene, doubt):
    change, path = doubts()[doubt]
    scene.move()
    change(scene)
    scene.go_on()
    assert (scene.records(T0), scene.left) == (1, [])
    if path:
        assert scene.notices["replica t-0"].startswith(f"{path}: found " if doubt != "not trusted" else path)
        assert scene.notices["replica t-0"].endswith("its records stay in /data/t-0")
    assert {place for place, _ in HeldReplicas.load(scene.root).items()} == {T0, T1}


@pytest.mark.parametrize(
    ("move", "what"),
    [
        ({"version": 2}, "version 2, and had version 2 before"),  # yesterday's registry
        ({"version": 0}, "version 0, and had version 2 before"),
        ({"leader_epoch": 3}, "leader epoch 3, and the log has seen 4"),
        ({"leader": -1}, ""),  # there may be no other copy
        ({"replicas": (2, 3, 1)}, ""),
        ({"replicas": (2, 1), "isr": (2,), "removing": (1,)}, ""),
        ({"adding": (3,)}, ""),
        ({"removing": (3,)}, ""),
    ],
)
def test_a_move_that_is_old_or_not_done_deletes_nothing(scene, move, what):
    scene.move(**move)
    scene.go_on()
    assert (scene.records(T0), scene.left) == (1, [])
    assert what in scene.notices["replica t-0"]
    assert bool(what) == bool(scene.notices["replica t-0"])


def test_a_topic_of_the_user_in_the_place_of_a_replica_stays(scene):
    scene.move()
    scene.store.delete_topic("t")
    scene.store.create_topic("t", 2).append(b"mine", partition=0)
    scene.go_on()
    assert scene.records(T0) == 1
    assert HeldReplicas.load(scene.root).items() == []


def copied(registry: LocalRegistry) -> LocalRegistry:
    """Return a registry with the same facts, but the sessions'."""
    made = LocalRegistry()
    for path, fact in registry._tree.facts.items():
        if path not in registry._tree.owners:
            made._tree.put(fact, None, [])
    made._tree.created = registry._tree.created
    return made


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_power_cut_half_way_is_finished_by_the_next_process(policy):
    disk = SimDisk(5)
    scene = Scene(disk)
    scene.move()
    disk.keep_moments()
    scene.go_on()
    assert scene.is_unused(T0)
    moments = [moment.crash(policy) for moment in disk.moments()]
    begun = 0
    for number, moment in enumerate(moments):
        # The partition is this node's again, or not: what is begun is finished before anything is opened.
        after = Scene(moment, copied(scene.registry))
        held = HeldReplicas.load(after.root).get(T0)
        if held is not None and held.is_clearing:
            begun += 1
            after.go_on(finish_only=True)
            assert after.is_unused(T0)
        elif held is not None:
            assert after.records(T0) == 1
            after.go_on()
        assert (after.is_clearing, after.records(T0)) == (False, 0), number
        assert after.records(T1) == 1
        after.close()
    assert begun
    scene.close()


@pytest.mark.parametrize("op", ["open", "pwrite", "fdatasync", "fsync_dir", "unlink", "rmdir", "mkdir", "rename"])
def test_whatever_fails_is_tried_again(tmp_path, monkeypatch, op):
    monkeypatch.setattr("tests.replication.node.test_moved_replicas.PATH", str(tmp_path))
    registry: LocalRegistry | None = None
    for nth in range(1, 40):
        files = FaultyFiles()
        scene = Scene(files, registry)
        registry = scene.registry
        if nth == 1:
            scene.move()
        else:
            refill(scene)
        files.fail(op, nth, errno.EIO)
        scene.go_on()
        has_failed = bool(files.fired())
        # Some failures do no harm, as that of the close of a log that is removed.
        assert has_failed or not scene.notices["replica t-0"]
        files.heal()
        scene.go_on()
        assert (scene.is_clearing, scene.notices["replica t-0"]) == (False, "")
        assert scene.is_unused(T0)
        assert scene.records(T1) == 1
        scene.store.close()
        if not has_failed:
            scene.registry.close()
            assert nth > 1 or op == "rename"
            return
    raise AssertionError("the operation is called for ever")


def refill(scene: Scene) -> None:
    log = scene.store._host._log_of(*T0)
    log.replica.append_batch(at(one_batch([b"again"]), 0, leader_epoch=4), origin=Origin.REPLICATION)
    HeldReplicas.load(scene.root).change({T0: HeldReplica(ID, 2)})
    scene.begin()


def test_a_note_that_is_cut_or_changed_at_any_place_clears_nothing(scene):
    scene.move()
    whole = scene.root.read(REPLICAS_FILE)
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(len(whole))]
    damaged += [whole * 2, b"{}\n"]
    for data in damaged:
        scene.root.replace(REPLICAS_FILE, data, durable=False)
        scene.begin()
        scene.go_on()
        assert f"{PATH}/{REPLICAS_FILE} is damaged" in scene.notices["moved replicas"]
    assert (scene.records(T0), scene.left) == (1, [])
    scene.root.remove(REPLICAS_FILE)
    scene.begin()
    scene.go_on()
    assert scene.records(T0) == 1


# -- whole nodes


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path, controlled=True, fetch_wait_ms=50)
    cluster.start(1, 2, 3)
    with ControllerLoop(2, cluster.registry.connect, lambda command: None):
        yield cluster
        cluster.close()


def state(cluster, place=T0):
    return facts.decode_state(cluster.registry.read(facts.state_path(place)), ())


def move(cluster, place, *replicas):
    request = facts.encode_requests([facts.PartitionRequest(place, replicas)])
    cluster.registry.commit([Create(facts.REASSIGNMENTS, request)])
    wait_for(lambda: state(cluster, place).replicas == replicas)
    wait_for(lambda: cluster.registry.read(facts.REASSIGNMENTS) is None)


def values(cluster, partition):
    return [record.value for record in cluster.stores[1]["t"][partition]]


def is_cleared(cluster, node, place):
    return layout.is_unused(Directory(cluster.path / str(node) / str(place)))


@pytest.mark.row("F15", part="nodes of one process")
def test_a_node_clears_the_partition_that_moves_away_and_copies_it_when_it_comes_back(cluster):
    topic = cluster.nodes[1].create_topic("t", 2, replicas=[1, 2])
    wait_for(lambda: all(len(state(cluster, place).isr) == 2 for place in (T0, T1)))
    topic.append(b"a", partition=0, acks="all")
    wait_for(lambda: cluster.nodes[2].leader_of("t", 1) == 2)
    cluster.stores[2]["t"].append(b"b", partition=1, acks="all")
    move(cluster, T0, 2, 3)
    wait_for(lambda: is_cleared(cluster, 1, T0))
    assert [each.partition for each in cluster.nodes[1].metrics()] == [1]
    assert values(cluster, 1) == [b"b"]
    cluster.stores[2]["t"].append(b"c", partition=0, acks="all")
    move(cluster, T0, 1, 2)
    wait_for(lambda: cluster.append(2, b"d"))
    wait_for(lambda: values(cluster, 0)[-1:] == [b"d"])
    assert values(cluster, 0) == [b"a", b"c", b"d"]


def test_a_topic_that_has_left_a_node_altogether_is_deleted_there(cluster):
    cluster.create(1, 2, minimum=2)
    cluster.append(1, b"a")
    move(cluster, T0, 2, 3)
    wait_for(lambda: "t" not in cluster.stores[1].topics())
    wait_for(lambda: not (cluster.path / "1" / "t-0").exists())
    wait_for(lambda: b"is_clearing" not in (cluster.path / "1" / REPLICAS_FILE).read_bytes())
    assert json.loads((cluster.path / "1" / REPLICAS_FILE).read_bytes().split(b"\n")[0])["replicas"] == {}
    # And it comes back.
    move(cluster, T0, 1, 2)
    wait_for(lambda: cluster.in_sync(1, 2))
    assert cluster.append(1, b"b")
    wait_for(lambda: cluster.values(1) == [b"a", b"b"])


def test_a_node_that_was_away_clears_when_it_is_back_and_one_that_died_half_way_goes_on(cluster, caplog):
    cluster.create(1, 2, minimum=1)
    cluster.append(1, b"a")
    cluster.kill(1)
    move(cluster, T0, 2, 3)
    files = cluster.files[1] = FaultyFiles()
    files.fail("unlink", errno=errno.EIO, times=-1, path_contains="/t-0/")
    with caplog.at_level(logging.WARNING, "logstore.replication.node"):
        cluster.start(1)
        wait_for(lambda: "its records stay in" in caplog.text)
    cluster.kill(1)
    # It is this node's again before it has finished.
    now, fact = state(cluster), cluster.registry.read(facts.topic_path("t"))
    assignment = facts.encode_assignment(facts.decode_assignment(fact).topic_id, {0: (2, 3, 1)})
    given_back = facts.encode_state(now._replace(replicas=(2, 3, 1)))
    cluster.registry.commit(
        [Write(fact.path, assignment, fact.version), Write(facts.state_path(T0), given_back, now.version)]
    )
    assert "true" in (cluster.path / "1" / REPLICAS_FILE).read_text()
    files.heal()
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2, 3))
    assert cluster.append(2, b"b")
    wait_for(lambda: cluster.values(1) == [b"a", b"b"])
