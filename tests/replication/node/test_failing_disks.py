"""Disks of nodes that are full, fail, were wiped or restored: a replica is refilled before it counts again."""

from __future__ import annotations

import errno
import json
import shutil

import pytest

from logstore.errors import LogstoreError, NotLeaderError, StorageError, StorageFailedError
from logstore.records import Acks, TopicPartition
from logstore.replication import Node, Role
from logstore.replication.api import LostRange
from logstore.testing import FaultyFiles
from tests.kit.waiting import wait_for
from tests.replication.node.nodes import Cluster

LOG = "/t-0/"
STATE = "/brokers/topics/t/partitions/0/state"


def isr_of(cluster: Cluster) -> list[int]:
    """Return the stored ISR."""
    return json.loads(cluster.registry.read(STATE).value)["isr"]


@pytest.mark.row("F5", part="a follower whose disk is full, in one process")
def test_a_follower_whose_disk_is_full_leaves_the_isr_and_comes_back_by_itself(cluster):
    files = cluster.files[2] = FaultyFiles()
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a"])
    files.fail("pwrite", 1, errno.ENOSPC, times=-1, path_contains=LOG)
    topic.append(b"b", acks=1)
    wait_for(lambda: isr_of(cluster) == [1])
    topic.append(b"c", acks="all")
    assert cluster.values(2) == [b"a"]
    files.heal()
    wait_for(lambda: cluster.in_sync(1, 2))
    topic.append(b"d", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a", b"b", b"c", b"d"])
    # A full disk is no failure, and what the leader sent was no wrong answer.
    assert (cluster.metrics(1).leader_epoch, cluster.metrics(2).refused_answers) == (1, 0)


def fail_sync(cluster: Cluster, number: int) -> None:
    """Let one sync of a node's log fail, and what was written since the one before it be lost."""
    cluster.files[number].fail("fdatasync", 1, errno.EIO, path_contains=LOG)
    with pytest.raises(StorageFailedError):
        cluster.stores[number]["t"][0].flush()
    cluster.files[number].heal()


@pytest.mark.row("F5", part="a follower whose sync fails, in one process")
def test_a_follower_whose_sync_fails_opens_its_log_again_and_is_refilled(cluster):
    cluster.files[2] = FaultyFiles()
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    for value in (b"a", b"b"):
        topic.append(value, acks="all")
    before = cluster.stores[2]["t"][0]
    fail_sync(cluster, 2)
    # The leader forgets in another epoch how far this replica had come.
    wait_for(lambda: cluster.metrics(2).leader_epoch == 2)
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.append(1, b"c"))
    wait_for(lambda: cluster.values(2) == cluster.values(1) == [b"a", b"b", b"c"])
    with pytest.raises(LogstoreError, match="was opened again"):
        before.flush()
    # It may lead at once.
    cluster.stop(1)
    wait_for(lambda: cluster.metrics(2).role is Role.LEADER)
    assert cluster.values(2) == [b"a", b"b", b"c"]


def test_a_replica_that_has_lost_its_end_is_not_taken_for_what_it_was(cluster):
    """The leader has seen it reach further, in the same life: it joins with what it has now."""
    cluster.files[2] = FaultyFiles()
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    for value in (b"a", b"b", b"c"):
        topic.append(value, acks="all")
    cluster.transport.cut.add(1)  # nothing is refilled
    member = cluster.nodes[2]._registry_loop.members["t", 0]
    fail_sync(cluster, 2)
    wait_for(lambda: cluster.nodes[2]._registry_loop.members["t", 0] is not member)
    wait_for(lambda: isr_of(cluster) == [1])
    wait_for(lambda: cluster.metrics(1).leader_epoch == 2)
    replica = cluster.nodes[1]._registry_loop.members["t", 0].replica
    assert replica._followers[2].end == -1
    cluster.transport.cut.clear()
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.values(2) == [b"a", b"b", b"c"])


@pytest.mark.parametrize("others", [(), (2, 3)])
def test_a_leader_whose_sync_fails_opens_its_log_again(cluster, others):
    cluster.files[1] = FaultyFiles()
    cluster.start(1, *others)
    topic = cluster.create(1, *others)
    topic.append(b"a", acks="all")
    fail_sync(cluster, 1)
    wait_for(lambda: cluster.append(1, b"b"))
    wait_for(lambda: cluster.in_sync(1, *others))
    wait_for(lambda: all(cluster.values(number) == [b"a", b"b"] for number in (1, *others)))
    assert cluster.nodes[1].leader_of("t") == (2 if others else 1)


def test_what_an_unclean_election_has_lost_is_still_told_after_the_log_was_opened_again(cluster):
    cluster.files[2] = FaultyFiles()
    cluster.start(1, 2)
    cluster.create(1, 2).append(b"a", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a"])
    loop = cluster.nodes[2]._registry_loop
    member = loop.members["t", 0]
    member.replica.lost.append(LostRange(1, 4, 1))
    assert cluster.metrics(2).lost_records == 3
    for _ in range(2):
        wait_for(lambda: cluster.append(1, b"b"))  # something to sync
        failed = loop.members["t", 0]
        fail_sync(cluster, 2)
        wait_for(lambda failed=failed: loop.members["t", 0] is not failed)
        wait_for(lambda: cluster.in_sync(1, 2))
        assert cluster.metrics(2).lost_records == 3


def test_a_disk_that_stays_broken_is_tried_again(cluster, caplog):
    files = cluster.files[2] = FaultyFiles()
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    files.fail("open", 1, errno.EIO, times=-1, path_contains=LOG)
    files.fail("fdatasync", 1, errno.EIO, times=-1, path_contains=LOG)
    with pytest.raises(StorageFailedError):
        cluster.stores[2]["t"][0].flush()
    wait_for(lambda: isr_of(cluster) == [1])
    topic.append(b"b", acks="all")
    loop = cluster.nodes[2]._registry_loop
    wait_for(lambda: loop.members["t", 0].open_again_at_s > 0)
    with pytest.raises(StorageError):
        cluster.stores[2]["t"][0]
    files.heal()
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.append(1, b"c"))
    wait_for(lambda: cluster.values(2) == [b"a", b"b", b"c"])
    assert "node 2, disk of t-0: " in caplog.text


@pytest.mark.row("F11", part="a replica whose sync fails, in one process")
def test_a_replica_of_a_quorum_whose_sync_fails_comes_back(tmp_path):
    cluster = Cluster(tmp_path, quorum=True, fetch_wait_ms=50)
    for number in (1, 2, 3):
        cluster.files[number] = FaultyFiles()
    cluster.start(1, 2, 3)
    cluster.nodes[1].create_topic("t", replicas=[1, 2, 3])
    wait_for(lambda: cluster.append(1, b"a"), 30)
    leader = cluster.nodes[1].leader_of("t")
    follower = leader % 3 + 1
    # The next sync is its own: it syncs before it asks.
    for number in (follower, leader):
        cluster.files[number].fail("fdatasync", 1, errno.EIO, path_contains=LOG)
        wait_for(lambda: cluster.append(1, b"b"), 30)
        wait_for(lambda number=number: cluster.files[number].fired(), 30)
        cluster.files[number].heal()
    wait_for(lambda: cluster.append(1, b"c"), 30)
    wait_for(lambda: all(cluster.values(number)[-1:] == [b"c"] for number in (1, 2, 3)), 30)
    assert cluster.values(1) == cluster.values(2) == cluster.values(3)
    cluster.close()


@pytest.mark.row("F11", part="a replica whose first sync fails, in one process")
def test_a_replica_of_a_quorum_whose_first_sync_fails_comes_back(tmp_path):
    cluster = Cluster(tmp_path, fetch_wait_ms=50)
    files = cluster.files[1] = FaultyFiles()
    cluster.start(1)
    cluster.create(1).append(b"a", acks="all")
    cluster.nodes[1].close()  # the store stays open, and its record is not synced
    log = cluster.stores[1]["t"][0]
    assert log.synced_end < log.log_end_offset
    files.fail("fdatasync", 1, errno.EIO, path_contains=LOG)
    cluster.nodes[1] = Node(cluster.stores[1], 1, cluster.registry.connect, cluster.transport, quorum=True)
    assert files.fired()
    wait_for(lambda: cluster.append(1, b"b"), 30)
    assert cluster.values(1) == [b"a", b"b"]
    cluster.close()


# -- logs that cannot be opened


def restart_within_its_session(cluster: Cluster, number: int) -> None:
    """Kill a node and start it again before the registry has noticed; its log cannot be opened any more."""
    loop = cluster.nodes[number]._registry_loop
    loop.close_session = lambda: None
    cluster.kill(number)
    cluster.files[number].fail("open", 1, errno.EIO, times=-1, path_contains=LOG)
    cluster.start(number)


@pytest.fixture
def patient(tmp_path):
    """A cluster in which no replica leaves the ISR for its lag."""
    made = Cluster(tmp_path, lag_max_ms=60_000, fetch_wait_ms=50)
    made.files.update({number: FaultyFiles() for number in (1, 2, 3)})
    yield made
    made.close()


@pytest.mark.row("F5", part="a leader whose log cannot be opened, in one process")
def test_a_leader_that_cannot_open_its_log_gives_leadership_up_and_comes_back_by_itself(patient, caplog):
    patient.start(1, 2)
    patient.create(1, 2).append(b"a", acks="all")
    restart_within_its_session(patient, 1)
    wait_for(lambda: patient.metrics(2).role is Role.LEADER)
    assert isr_of(patient) == [2]
    assert patient.append(2, b"b")
    wait_for(lambda: patient.nodes[1].leader_of("t") == 2)
    found = patient.metrics(1)
    assert (found.role, found.leader, found.log_end_offset, found.isr) == (Role.NONE, 2, -1, (2,))
    assert "Input/output error" in found.problem
    assert "node 1, disk of t-0: " in caplog.text
    with pytest.raises(NotLeaderError, match=r"t-0: node 1 cannot open its log: .*Input/output error"):
        patient.nodes[1]._replicas.check_append(TopicPartition("t", 0), Acks.ALL)
    patient.files[1].heal()
    wait_for(lambda: patient.in_sync(1, 2), 30)
    wait_for(lambda: patient.values(1) == patient.values(2) == [b"a", b"b"])
    assert patient.metrics(1).problem == ""


def test_a_follower_that_cannot_open_its_log_counts_as_not_in_sync(patient):
    patient.start(1, 2, 3)
    topic = patient.create(1, 2, 3)
    topic.append(b"a", acks="all")
    restart_within_its_session(patient, 2)
    wait_for(lambda: isr_of(patient) == [1, 3])
    topic.append(b"b", acks=1)
    wait_for(lambda: patient.metrics(3).log_end_offset == 2)
    # It is passed over, though it comes first among those that live.
    patient.stop(1)
    wait_for(lambda: patient.metrics(3).role is Role.LEADER)
    patient.files[2].heal()
    wait_for(lambda: patient.in_sync(2, 3), 30)
    wait_for(lambda: patient.values(2) == [b"a", b"b"])


def test_the_only_replica_that_cannot_open_its_log_leads_once_it_can(patient):
    patient.start(1)
    patient.create(1).append(b"a", acks="all")
    restart_within_its_session(patient, 1)
    wait_for(lambda: patient.metrics(1).problem)
    unopened = patient.nodes[1]._registry_loop.unopened["t", 0]
    first_s = unopened.wait_s
    wait_for(lambda: unopened.wait_s >= 2 * first_s)  # each attempt waits for longer
    assert isr_of(patient) == [1]
    patient.files[1].heal()
    wait_for(lambda: patient.append(1, b"b"), 30)
    assert patient.values(1) == [b"a", b"b"]
    assert not patient.nodes[1]._registry_loop.unopened


@pytest.mark.row("F11", part="a replica whose log cannot be opened, in one process")
def test_a_leader_of_a_quorum_that_cannot_open_its_log_is_replaced(tmp_path):
    cluster = Cluster(tmp_path, quorum=True, fetch_wait_ms=50)
    cluster.files.update({number: FaultyFiles() for number in (1, 2, 3)})
    cluster.start(1, 2, 3)
    cluster.nodes[1].create_topic("t", replicas=[1, 2, 3])
    wait_for(lambda: cluster.append(1, b"a"), 30)
    leader = cluster.nodes[1].leader_of("t")
    restart_within_its_session(cluster, leader)
    other = leader % 3 + 1
    wait_for(lambda: cluster.nodes[other].leader_of("t") not in (-1, leader), 30)
    wait_for(lambda: cluster.append(other, b"b"), 30)
    cluster.files[leader].heal()
    wait_for(lambda: cluster.append(other, b"c"), 30)
    wait_for(lambda: all(cluster.metrics(number).problem == "" for number in (1, 2, 3)), 30)
    wait_for(lambda: cluster.values(1) == cluster.values(2) == cluster.values(3), 30)
    cluster.close()


# -- other directories


@pytest.mark.parametrize("what", ["wiped", "restored"])
def test_a_directory_that_is_not_the_nodes_last_one_is_refilled_before_it_leads(tmp_path, what):
    cluster = Cluster(tmp_path, lag_max_ms=60_000, fetch_wait_ms=50)  # the ISR is that of the kills
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    cluster.stop(2)
    backup = tmp_path / "backup"
    shutil.copytree(tmp_path / "2", backup)
    cluster.start(2)
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.append(1, b"b"))
    cluster.kill(2)
    cluster.kill(1)
    assert isr_of(cluster) == [1, 2]
    shutil.rmtree(tmp_path / "2")
    if what == "restored":
        shutil.copytree(backup, tmp_path / "2")
    cluster.start(2)
    wait_for(lambda: isr_of(cluster) == [1])
    assert cluster.leader() != 2
    # Again, before it has copied anything.
    cluster.kill(2)
    cluster.start(2)
    wait_for(lambda: cluster.metrics(2).leader_epoch > 0)
    assert (cluster.leader() != 2, isr_of(cluster)) == (True, [1])
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.values(2) == cluster.values(1) == [b"a", b"b"])
    cluster.stop(1)
    wait_for(lambda: cluster.metrics(2).role is Role.LEADER)
    assert cluster.values(2) == [b"a", b"b"]
    cluster.close()
