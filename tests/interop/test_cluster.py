"""The test bed itself: three brokers come up, leaders and coordinators move, brokers die and return, ACLs deny."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.batch._batch import Batches
from logstore.batch._encode import encode
from logstore.errors import BrokerError
from logstore.records import TopicPartition
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from tests.interop.broker import BrokerFailedError
from tests.interop.cluster import OFFSETS, RACKS, Cluster
from tests.interop.secured import LISTENERS, MECHANISMS, Secured, secured

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def bed(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = secured(tmp_path_factory.mktemp("bed") / "cluster")
    with made.cluster:
        yield made


@pytest.fixture
def cluster(bed: Secured) -> Iterator[Cluster]:
    """Three brokers that run, before and after each test."""
    yield bed.cluster
    lost = set(bed.cluster.brokers) - set(bed.cluster.running)
    if lost:
        bed.cluster.start(*lost)


def write(bootstrap: str, topic: str, *values: bytes) -> None:
    with Client(bootstrap) as client, IdempotentProducer(client) as producer:
        for value in values:
            producer.submit(TopicPartition(topic, 0), encode([value], timestamp_ms=1))
        producer.flush()


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    with Client(bootstrap) as client:
        while len(found) < count:
            fetched = client.fetch(TopicPartition(topic, 0), len(found))
            found += Batches(fetched.data, start_offset=len(found)).values()
    return found


@pytest.mark.row("Z6", part="three brokers of Kafka")
def test_three_brokers_come_up_in_their_racks_and_hold_a_copy_each(cluster: Cluster) -> None:
    assert cluster.running == [1, 2, 3]
    assert cluster.racks() == dict(enumerate(RACKS, 1))
    cluster.create("copied", 6)
    found = cluster.partitions("copied")
    assert {tuple(sorted(each.isr_nodes)) for each in found.values()} == {(1, 2, 3)}
    assert {each.leader_id for each in found.values()} == {1, 2, 3}
    for node in cluster.brokers:
        assert cluster.partitions("copied", node) == found


@pytest.mark.row("P6", part="three brokers of Kafka")
def test_a_leader_moves_and_the_records_stay(cluster: Cluster) -> None:
    cluster.create("moved")
    for number, node in enumerate((1, 2, 3, 1)):
        cluster.move_leader("moved", 0, node)
        assert cluster.leader("moved") == node
        write(cluster.bootstrap, "moved", b"%d" % number)
    assert read(cluster.bootstrap, "moved", 4) == [b"0", b"1", b"2", b"3"]
    cluster.move_leader("moved", 0, 1)  # where it is already
    with pytest.raises(BrokerFailedError, match="moved-0"):
        cluster.move_leader("moved", 0, 9)
    assert cluster.leader("moved") == 1


@pytest.mark.parametrize("group", ["a", "group of \u00e4 and \U0001f600", "polygenelubricants"])
def test_a_coordinator_moves_to_each_broker(cluster: Cluster, group: str) -> None:
    """The last group's hash in Java is the least number, which has no absolute value."""
    for node in (1, 2, 3, 2):
        cluster.move_coordinator(group, node)
        assert cluster.coordinator(group) == node
    assert len(cluster.partitions(OFFSETS)) == 4


def test_a_coordinator_is_another_after_its_broker_has_stopped(cluster: Cluster) -> None:
    cluster.move_coordinator("g", 3)
    cluster.stop(3)
    assert cluster.running == [1, 2]
    assert cluster.coordinator("g") in (1, 2)
    cluster.start(3)
    assert cluster.racks().keys() == {1, 2, 3}


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_broker_is_killed_and_comes_back_with_the_records_it_has_missed(cluster: Cluster, node: int) -> None:
    """Whichever it is: one of the three is the controller, and the test's own questions go to another."""
    topic = f"killed-{node}"
    cluster.create(topic)
    cluster.move_leader(topic, 0, node)
    write(cluster.bootstrap, topic, b"before")
    pid = cluster.brokers[node].pid
    cluster.kill(node)
    assert node not in cluster.running
    assert cluster.leader(topic) not in (node, -1)
    write(cluster.bootstrap, topic, b"while")
    assert node not in cluster.partitions(topic)[0].isr_nodes
    cluster.start(node)
    assert cluster.brokers[node].pid != pid
    assert set(cluster.partitions(topic)[0].isr_nodes) == {1, 2, 3}
    cluster.move_leader(topic, 0, node)
    assert read(cluster.bootstrap, topic, 2) == [b"before", b"while"]


def test_each_listener_and_mechanism_is_on_each_broker(bed: Secured, cluster: Cluster) -> None:
    cluster.allow("alice", "All", topic="everywhere")
    cluster.create("everywhere")
    cluster.move_leader("everywhere", 0, 3)
    ways = [(each, which) for each in ("SASL_PLAINTEXT", "SASL_SSL") for which in MECHANISMS]
    for count, (listener, mechanism) in enumerate(ways, 1):
        settings = {"security.protocol": LISTENERS[listener], **bed.tls(), **bed.login(mechanism)}
        token = {"oauth_token": lambda: bed.signer.token("alice")} if mechanism == "OAUTHBEARER" else {}
        first = cluster.brokers[1 + count % 2].address(listener)
        with Client(first, settings, **token) as client, IdempotentProducer(client) as producer:
            producer.submit(TopicPartition("everywhere", 0), encode([mechanism.encode()], timestamp_ms=1))
            producer.flush()
    assert read(cluster.bootstrap, "everywhere", len(ways)) == [which.encode() for _, which in ways]


def test_acls_deny_allow_and_deny_above_all(bed: Secured, cluster: Cluster) -> None:
    cluster.create("guarded")
    write(cluster.bootstrap, "guarded", b"a")
    settings = {"security.protocol": "SASL_SSL", **bed.tls(), **bed.login("SCRAM-SHA-512", "bob")}

    def fetched() -> list[bytes | None]:
        with Client(cluster.address("SASL_SSL"), settings) as client:
            return Batches(client.fetch(TopicPartition("guarded", 0), 0).data, start_offset=0).values()

    for node in cluster.brokers:
        cluster.move_leader("guarded", 0, node)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            fetched()
    cluster.allow("bob", "Read", "Describe", topic="guarded")
    assert fetched() == [b"a"]
    cluster.deny("bob", "Read", topic="guarded")
    for node in cluster.brokers:
        cluster.move_leader("guarded", 0, node)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            fetched()
