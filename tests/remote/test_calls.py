"""A client against a cluster whose leaders move, whose brokers die and whose answers get lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from logstore.batch._batch import Batches
from logstore.batch._encode import encode
from logstore.errors import (
    BrokerError,
    BrokerTimeoutError,
    BrokerUnreachableError,
    ClientClosedError,
    ConfigError,
    CorruptRecordError,
    OffsetOutOfRangeError,
    TopicExistsError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
)
from logstore.records import Isolation, TopicPartition
from logstore.remote.client import EARLIEST, LATEST, Client, EpochEnd, ListedOffset, NewTopic
from logstore.remote.network.connection import NodeConnection
from logstore.remote.producer import IdempotentProducer
from tests.kit.waiting import wait_for
from tests.remote import fake_cluster
from tests.remote.fake_cluster import ALL, FakeCluster, FakePartition, disconnect

ORDERS = TopicPartition("orders", 0)
NOT_LEADER = 6


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as made:
        yield made


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with quick(cluster) as made:
        yield made


def quick(cluster: FakeCluster, **settings: Any) -> Client:
    """A client that neither pauses nor waits for long."""
    chosen = {
        "retry_backoff_ms": 5,
        "reconnect_backoff_ms": 5,
        "reconnect_backoff_max_ms": 20,
        "request_timeout_ms": 400,
        "default_api_timeout_ms": 3_000,
        "fetch_max_wait_ms": 10,
    }
    return Client(cluster.bootstrap, **(chosen | settings))


def values(client: Client, tp: TopicPartition = ORDERS, offset: int = 0, **how: Any) -> list[bytes | None]:
    found = client.fetch(tp, offset, **how)
    committed = how.get("isolation") == "read_committed"
    return Batches(found.data, start_offset=offset, aborted=found.aborted, committed_only=committed).values()


# --- topics ----------------------------------------------------------------------------------------


def test_metadata_names_the_leader_of_each_partition(cluster: FakeCluster, client: Client) -> None:
    cluster.topic("orders", 3, leaders=(1, 2))
    cluster.topic("__internal")
    found = client.metadata()
    assert set(found.brokers) == {1, 2}
    assert found.topics["orders"].id == cluster.topics["orders"].id
    assert [each.leader for each in found.topics["orders"].partitions.values()] == [1, 2, 1]
    assert found.topics["__internal"].is_internal
    assert list(client.metadata(["orders"]).topics) == ["orders"]


def test_the_oldest_metadata_will_do(cluster: FakeCluster) -> None:
    cluster.versions = ALL | {MetadataRequest.API_KEY: (0, 0), FetchRequest.API_KEY: (4, 4)}
    cluster.versions |= {ListOffsetsRequest.API_KEY: (1, 1)}
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    with quick(cluster) as client:
        assert client.topic("orders").id == ""
        assert list(client.metadata().topics) == ["orders"]
        assert values(client) == [b"a"]
        assert client.list_offsets({ORDERS: LATEST}) == {ORDERS: ListedOffset(1)}


def test_an_unknown_topic_or_partition_is_named(cluster: FakeCluster, client: Client) -> None:
    cluster.topic("orders", 2)
    with pytest.raises(UnknownTopicError, match="no topic 'nothing'"):
        client.topic("nothing")
    with pytest.raises(UnknownTopicError, match="no topic 'nothing'"):
        client.fetch(TopicPartition("nothing", 0), 0)
    with pytest.raises(UnknownPartitionError, match="'orders' has partitions 0 to 1, but no 7"):
        client.list_offsets({TopicPartition("orders", 7): LATEST})


def test_a_topic_whose_creation_is_on_its_way_is_waited_for(cluster: FakeCluster, client: Client) -> None:
    for broker in cluster.brokers.values():
        broker.plan(MetadataRequest, codes.UNKNOWN_TOPIC_OR_PARTITION)
    cluster.topic("orders")
    assert client.topic("orders").name == "orders"


def test_what_is_known_of_a_topic_is_not_asked_again_until_it_is_old(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    with quick(cluster) as client:
        for _ in range(3):
            client.topic("orders", fresh=False)
        assert len(cluster.requests(MetadataRequest)) == 1
    with quick(cluster, metadata_max_age_ms=0) as client:
        for _ in range(3):
            client.topic("orders", fresh=False)
        assert len(cluster.requests(MetadataRequest)) == 4


# --- leaders and connections -----------------------------------------------------------------------


@pytest.mark.row("P6", part="the client")
def test_a_moved_leader_is_found(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"a", b"b"])
    assert values(client) == [b"a", b"b"]
    cluster.lead(ORDERS, 2)
    assert values(client, offset=1) == [b"b"]
    cluster.lead(ORDERS, 1)
    assert client.list_offsets({ORDERS: LATEST})[ORDERS].offset == 2
    cluster.lead(ORDERS, 2)
    assert client.offset_for_leader_epoch({ORDERS: 3}) == {ORDERS: EpochEnd(3, 2)}
    assert client.offset_for_leader_epoch({ORDERS: 4}) == {ORDERS: EpochEnd(-1, -1)}


def test_only_partitions_that_failed_are_asked_for_again(cluster: FakeCluster, client: Client) -> None:
    partitions = cluster.topic("orders", 4, leaders=(1, 2))
    for number, partition in enumerate(partitions):
        partition.add([b"x"] * number)
    cluster.brokers[2].plan(ListOffsetsRequest, NOT_LEADER)
    wanted = {TopicPartition("orders", number): LATEST for number in range(4)}
    found = client.list_offsets(wanted)
    assert {tp.partition: each.offset for tp, each in found.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
    first, again, *_ = [each for each in cluster.brokers[2].got if isinstance(each, ListOffsetsRequest)]
    assert len(first.topics[0].partitions) == len(again.topics[0].partitions) == 2
    asked_of_one = [each for each in cluster.brokers[1].got if isinstance(each, ListOffsetsRequest)]
    assert len(asked_of_one) == 1, "what was answered is not asked again"


def test_a_partition_without_a_leader_is_waited_for(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    partition.leader = -1
    asked = len(cluster.requests(MetadataRequest))

    def elect() -> None:
        wait_for(lambda: len(cluster.requests(MetadataRequest)) > asked + 1)
        partition.leader = 2

    thread = threading.Thread(target=elect)
    thread.start()
    assert values(client) == [b"a"]
    thread.join()


def test_a_partition_that_never_gets_a_leader_is_named(cluster: FakeCluster) -> None:
    cluster.topic("orders")[0].leader = -1
    with quick(cluster, default_api_timeout_ms=150) as client:
        client.topic("orders")
        with pytest.raises(BrokerError, match="orders-0 has no leader now") as caught:
            client.fetch(ORDERS, 0)
    assert caught.value.code == 5
    assert caught.value.retriable


@pytest.mark.parametrize(
    "fault",
    [fake_cluster.disconnect, fake_cluster.cut, fake_cluster.dribble, fake_cluster.silence],
)
@pytest.mark.parametrize("request_", [FetchRequest, ListOffsetsRequest, MetadataRequest])
def test_a_lost_answer_is_asked_for_again(
    cluster: FakeCluster, client: Client, fault: Any, request_: type[Any]
) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"a", b"b"], timestamp_ms=7)
    for broker in cluster.brokers.values():
        broker.plan(request_, fault)
    assert client.topic("orders").id == cluster.topics["orders"].id
    assert client.list_offsets({ORDERS: 7})[ORDERS] == ListedOffset(0, 7, 0)
    assert values(client, offset=1) == [b"b"]


def test_the_other_broker_is_asked_when_one_is_down(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders", leaders=(2,))
    partition.add([b"a"])
    cluster.brokers[1].stop()
    assert values(client) == [b"a"]
    client.close()


def test_a_broker_that_comes_back_is_found_again(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    assert values(client) == [b"a"]
    cluster.brokers[1].stop()
    asked = len(cluster.requests(MetadataRequest))

    def start() -> None:
        wait_for(lambda: len(cluster.requests(MetadataRequest)) > asked)
        cluster.brokers[1].restart()

    thread = threading.Thread(target=start)
    thread.start()
    assert values(client) == [b"a"]
    thread.join()


def test_when_no_broker_answers_all_are_named(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.stop()
    with (
        quick(cluster, socket_connection_setup_timeout_ms=100) as client,
        pytest.raises(
            BrokerUnreachableError, match=r"bootstrap.servers: no broker answers: .*refused.*; .*refused"
        ),
    ):
        client.metadata()


@pytest.mark.row("U7")
def test_a_patient_client_waits_for_brokers_that_it_has_never_reached(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.topic("orders")
    for broker in cluster.brokers.values():
        broker.stop()
    tried, honest = [], NodeConnection.open

    def connect(connection: NodeConnection, now_s: float) -> None:
        tried.append(connection)
        honest(connection, now_s)

    monkeypatch.setattr(NodeConnection, "open", connect)

    def start() -> None:
        wait_for(lambda: len(tried) > 2 * len(cluster.brokers))
        cluster.brokers[1].restart()

    thread = threading.Thread(target=start)
    thread.start()
    with quick(cluster, socket_connection_setup_timeout_ms=100, is_patient=True) as client:
        assert client.topic("orders").name == "orders"
    thread.join()
    cluster.brokers[1].stop()
    with (
        quick(cluster, default_api_timeout_ms=300, is_patient=True) as client,
        pytest.raises(BrokerUnreachableError),
    ):
        client.topic("orders")


def test_a_call_ends_in_its_time(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    with quick(cluster, default_api_timeout_ms=300, request_timeout_ms=100) as client:
        client.topic("orders")
        cluster.brokers[1].plan(FetchRequest, *[fake_cluster.silence] * 20)
        with pytest.raises(BrokerTimeoutError, match=r"broker 1 \(127.0.0.1:\d+\) did not answer"):
            client.fetch(ORDERS, 0)


def test_what_may_not_be_tried_again_is_not(cluster: FakeCluster, client: Client) -> None:
    cluster.topic("orders")
    client.topic("orders")
    cluster.brokers[1].plan(FetchRequest, codes.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(
        BrokerError, match=r"fetch of orders-0 at offset 0 .*TOPIC_AUTHORIZATION_FAILED \(29\)"
    ) as found:
        client.fetch(ORDERS, 0)
    assert found.value.name == "TOPIC_AUTHORIZATION_FAILED"
    assert not found.value.retriable
    assert len(cluster.requests(FetchRequest)) == 1


def test_many_threads_share_one_client(cluster: FakeCluster, client: Client) -> None:
    for partition in cluster.topic("orders", 4, leaders=(1, 2)):
        partition.add([b"x"] * 100)
    problems: list[Exception] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                assert len(values(client, TopicPartition("orders", number))) == 100
        except Exception as error:  # noqa: BLE001  # told by the main thread
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number % 4,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert sum(broker.accepted for broker in cluster.brokers.values()) <= 24, "connections are used again"


def test_a_closed_client_says_so(cluster: FakeCluster) -> None:
    client = quick(cluster)
    client.close()
    client.close()
    with pytest.raises(ClientClosedError):
        client.metadata()


# --- fetches ---------------------------------------------------------------------------------------


def test_a_fetch_goes_on_behind_its_last_batch(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    for number in range(10):
        partition.add([b"%d-%d" % (number, each) for each in range(10)])
    offset, found = 0, []
    while offset < 100:
        fetched = client.fetch(ORDERS, offset, max_bytes=400)
        assert fetched.next_offset > offset
        assert fetched.high_watermark == 100
        found += Batches(fetched.data, start_offset=offset).values()
        offset = fetched.next_offset
    assert found == partition.values()
    assert client.fetch(ORDERS, 100).next_offset == 100


def test_a_batch_that_begins_before_the_offset_comes_whole(cluster: FakeCluster, client: Client) -> None:
    cluster.topic("orders")[0].add([b"a", b"b", b"c"])
    fetched = client.fetch(ORDERS, 2)
    assert Batches(fetched.data).values() == [b"a", b"b", b"c"]
    assert values(client, offset=2) == [b"c"]


def test_one_batch_comes_however_large_it_is(cluster: FakeCluster, client: Client) -> None:
    cluster.topic("orders")[0].add([b"x" * 10_000])
    assert values(client, max_bytes=1) == [b"x" * 10_000]


def test_a_broker_that_cuts_the_first_batch_is_asked_for_more(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"x" * 10_000])
    whole = partition.batches[0]
    partition.read = lambda offset, max_bytes, committed: whole[:max_bytes]  # type: ignore[method-assign]
    assert values(client, max_bytes=30) == [b"x" * 10_000]
    assert values(client, max_bytes=100) == [b"x" * 10_000]


def test_a_gap_is_stepped_over_when_a_batch_behind_it_shows_it(cluster: FakeCluster, client: Client) -> None:
    """Compaction may leave nothing between an offset and the end of the log: of that a broker says nothing."""
    (partition,) = cluster.topic("orders")
    partition.add([b"a", b"b"])
    partition.end = 50
    assert client.fetch(ORDERS, 2).next_offset == 2
    partition.add([b"c"])
    assert values(client, offset=2) == [b"c"]


def test_an_answer_without_the_partition_is_not_taken_for_a_gap(cluster: FakeCluster, client: Client) -> None:
    """A broker over its quota sends no records, and no marks either."""
    cluster.topic("orders")[0].add([b"a"])
    cluster.brokers[1].plan(FetchRequest, {"responses": [], "throttle_time_ms": 1})
    assert client.fetch(ORDERS, 0).next_offset == 0
    assert values(client) == [b"a"]


def test_empty_answers_are_not_taken_for_a_gap(
    cluster: FakeCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that still fetches from other storage answers without records, and with its high watermark."""
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    answers = [b""] * 5
    read = partition.read
    monkeypatch.setattr(partition, "read", lambda *how: answers.pop() if answers else read(*how))
    for _ in range(5):
        fetched = client.fetch(ORDERS, 0)
        assert (fetched.data, fetched.next_offset, fetched.high_watermark) == (b"", 0, 1)
    assert values(client) == [b"a"]


@pytest.fixture
def pair() -> Iterator[tuple[FakeCluster, FakePartition]]:
    """Broker 1 leads, and sends readers of rack ``r2`` to broker 2."""
    with FakeCluster(2) as cluster:
        (partition,) = cluster.topic("orders")
        partition.near = {"r2": 2}
        for number in range(10):
            partition.add([b"%d" % number])
        yield cluster, partition


def fetches(cluster: FakeCluster) -> list[int]:
    """How many each broker got."""
    return [sum(isinstance(each, FetchRequest) for each in cluster.brokers[number].got) for number in (1, 2)]


def test_the_replica_that_a_leader_names_is_read(pair: tuple[FakeCluster, FakePartition]) -> None:
    cluster, partition = pair
    with quick(cluster, client_rack="r2") as client:
        for _ in range(3):
            assert values(client) == partition.values()
        assert fetches(cluster) == [1, 3]
    with quick(cluster) as client:
        assert values(client) == partition.values()
        assert fetches(cluster) == [2, 3]


def test_a_leader_is_asked_again_where_its_follower_has_no_answer(pair: tuple[FakeCluster, FakePartition]) -> None:
    cluster, partition = pair
    with quick(cluster, client_rack="r2") as client:
        assert values(client) == partition.values()
        for fault in (1, 78, 6, disconnect):
            cluster.brokers[2].plan(FetchRequest, fault)
            assert values(client) == partition.values()
            assert values(client) == partition.values()


def test_a_replica_that_is_not_known_yet_is_not_gone_to(pair: tuple[FakeCluster, FakePartition]) -> None:
    cluster, partition = pair
    partition.near = {"r2": 9}
    with quick(cluster, client_rack="r2") as client:
        assert values(client) == partition.values()
        assert fetches(cluster) == [2, 0]


def test_a_replica_is_named_for_a_while(pair: tuple[FakeCluster, FakePartition]) -> None:
    cluster, partition = pair
    with quick(cluster, client_rack="r2", metadata_max_age_ms=100) as client:
        assert values(client) == partition.values()
        partition.near = {}
        wait_for(lambda: values(client) == partition.values() and fetches(cluster)[0] == 2)
        assert fetches(cluster)[1] >= 1


def test_soon_after_boot_a_leader_that_has_moved_is_found(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten is not as old as the machine's clock, which begins at 0."""
    real, began = time.monotonic, time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: real() - began + 60)
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    with quick(cluster) as client:
        assert values(client) == [b"a"]
        cluster.lead(ORDERS, 2)
        assert values(client) == [b"a"]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_codec_is_handed_through(cluster: FakeCluster, client: Client, codec: int) -> None:
    wanted = [b"value %d" % number for number in range(1000)]
    cluster.topic("orders")[0].add(wanted, codec=codec)
    assert values(client) == wanted


def test_bytes_that_changed_on_the_way_are_not_decoded(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"abc"])
    damaged = bytearray(partition.batches[0])
    damaged[-3] ^= 1
    partition.batches[0] = bytes(damaged)
    with pytest.raises(CorruptRecordError, match="CRC-32C"):
        values(client)


def test_offsets_that_are_gone_or_not_there_yet_are_named(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"x"] * 100)
    partition.start = 40
    with pytest.raises(
        OffsetOutOfRangeError, match=r"offset 7 of partition orders-0 was deleted: .* 40 to before 100"
    ):
        client.fetch(ORDERS, 7)
    with pytest.raises(OffsetOutOfRangeError, match="offset 101 of partition orders-0 is not there yet"):
        client.fetch(ORDERS, 101)


def test_a_topic_that_was_made_again_is_told_by_its_id(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"old"])
    old = client.topic("orders").id
    assert values(client, topic_id=old) == [b"old"]
    (partition,) = cluster.topic("orders")
    partition.add([b"new"])
    with pytest.raises(TopicRecreatedError, match=f"the one with the id {old} was deleted"):
        client.fetch(ORDERS, 0, topic_id=old)
    assert values(client) == [b"new"]


def test_a_caller_may_know_of_the_new_topic_before_the_client(cluster: FakeCluster, client: Client) -> None:
    cluster.topic("orders")[0].add([b"old"])
    assert values(client) == [b"old"]
    cluster.topic("orders", leaders=(2,))[0].add([b"new"])
    assert values(client, topic_id=cluster.topics["orders"].id) == [b"new"]


def test_a_deleted_topic_ends_a_fetch(cluster: FakeCluster, client: Client) -> None:
    cluster.topic("orders")[0].add([b"a"])
    values(client)
    del cluster.topics["orders"]
    with pytest.raises(UnknownTopicError):
        client.fetch(ORDERS, 0)


# --- transactions ----------------------------------------------------------------------------------


def test_a_committed_reader_sees_no_aborted_and_no_open_transaction(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")

    def write(producer_id: int, *data: bytes) -> int:
        return partition.add(data, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)

    first = write(7, b"a1")
    second = write(8, b"c1")
    partition.mark(7, commit=False, first=first)
    again = write(7, b"c2")
    partition.mark(8, commit=True)
    partition.mark(7, commit=True)
    third = write(8, b"a2", b"a3")
    partition.mark(8, commit=False, first=third)
    partition.add([b"plain"])
    open_ = write(9, b"open")
    partition.add([b"behind"])
    partition.stable = open_

    assert values(client, isolation="read_committed") == [b"c1", b"c2", b"plain"]
    assert values(client, isolation=Isolation.READ_UNCOMMITTED) == [
        *(b"a1", b"c1", b"c2", b"a2", b"a3", b"plain", b"open", b"behind")
    ]
    fetched = client.fetch(ORDERS, 0, isolation="read_committed")
    assert fetched.next_offset == fetched.last_stable_offset == open_
    assert fetched.high_watermark == partition.end
    assert (second, again) == (1, 3)
    # From the middle of an aborted transaction: what is left of it is skipped, too.
    assert values(client, offset=third + 1, isolation="read_committed") == [b"plain"]
    tp = {ORDERS: LATEST}
    assert client.list_offsets(tp, "read_committed")[ORDERS].offset == open_
    assert client.list_offsets(tp, "read_uncommitted")[ORDERS].offset == partition.end


# --- administration --------------------------------------------------------------------------------


def test_topics_are_made_described_and_deleted(cluster: FakeCluster, client: Client) -> None:
    made = client.create_topics([NewTopic("a", 3, 1, {"retention.ms": "5"}), "b"])
    assert made == {name: cluster.topics[name].id for name in ("a", "b")}
    assert client.describe_configs("a") == {"retention.ms": "5"}
    assert len(client.topic("a").partitions) == 3
    with pytest.raises(TopicExistsError, match="'a'"):
        client.create_topics(["a", "c"])
    assert "c" in cluster.topics, "the others are made"
    client.delete_topics(["a", "c"])
    assert list(cluster.topics) == ["b"]
    with pytest.raises(UnknownTopicError, match="'a'"):
        client.delete_topics(["a", "b"])
    assert not cluster.topics


def test_a_creation_whose_answer_was_lost_is_no_error(cluster: FakeCluster, client: Client) -> None:
    cluster.brokers[1].plan(CreateTopicsRequest, fake_cluster.disconnect)
    assert client.create_topics(["a"]) == {"a": cluster.topics["a"].id}
    cluster.brokers[1].plan(DeleteTopicsRequest, fake_cluster.disconnect)
    client.delete_topics(["a"])
    assert not cluster.topics


def test_a_broker_that_lags_behind_is_asked_until_it_knows_the_new_topic(
    cluster: FakeCluster, client: Client
) -> None:
    client.create_topics(["a"])
    old = client.topic("a").id
    R = MetadataResponse
    partition = R.MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
    told = {"topics": [R.MetadataResponseTopic(name="a", topic_id=old, partitions=[partition])]}
    client.delete_topics(["a"])
    cluster.brokers[1].plan(MetadataRequest, told, told)
    new = client.create_topics(["a"])["a"]
    assert new == client.topic("a").id == cluster.topics["a"].id != old


def test_a_creation_that_is_refused_for_now_is_tried_again(cluster: FakeCluster, client: Client) -> None:
    cluster.brokers[1].plan(CreateTopicsRequest, codes.NOT_CONTROLLER)
    assert client.create_topics(["a"]) == {"a": cluster.topics["a"].id}
    cluster.brokers[1].plan(CreateTopicsRequest, 40)
    with pytest.raises(ConfigError, match="INVALID_CONFIG"):
        client.create_topics(["b"])


def test_the_sizes_of_partitions_are_asked_of_their_leaders(cluster: FakeCluster, client: Client) -> None:
    for number, partition in enumerate(cluster.topic("orders", 3, leaders=(1, 2))):
        partition.add([b"x" * 100 * (number + 1)])
    sizes = client.log_dir_sizes(["orders"])
    assert sizes == {
        TopicPartition("orders", number): len(encode([b"x" * 100 * (number + 1)])) for number in range(3)
    }
    cluster.brokers[1].plan(DescribeLogDirsRequest, codes.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        client.log_dir_sizes(["orders"])


def test_earliest_and_times_are_listed(cluster: FakeCluster, client: Client) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"a"], timestamp_ms=10)
    partition.add([b"b"], timestamp_ms=20)
    partition.start = 1
    assert client.list_offsets({ORDERS: EARLIEST})[ORDERS].offset == 1
    assert client.list_offsets({ORDERS: 11})[ORDERS] == ListedOffset(1, 20, 0)
    assert client.list_offsets({ORDERS: 21})[ORDERS].offset == -1


# --- processes ----------------------------------------------------------------------------------------


def test_a_forked_child_makes_its_own_connections(cluster: FakeCluster) -> None:
    cluster.topic("orders", 2)
    client = Client(cluster.bootstrap)
    client.metadata(["orders"])
    accepted = sum(each.accepted for each in cluster.brokers.values())
    pid = os.fork()
    if pid == 0:
        try:
            found = client.metadata(["orders"])
            os._exit(0 if len(found.topics["orders"].partitions) == 2 else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sum(each.accepted for each in cluster.brokers.values()) == accepted + 1
    # The parent's own was left alone.
    client.metadata(["orders"])
    assert sum(each.accepted for each in cluster.brokers.values()) == accepted + 1
    client.close()


def test_calls_and_services_share_what_is_known_of_topics(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    with quick(cluster) as client:
        client.topic("orders")
        assert client.cluster.updates.known is client.cluster.known
        asked = len(cluster.requests(MetadataRequest))
        with IdempotentProducer(client) as producer:
            assert producer.send(TopicPartition("orders", 0), encode([b"v"], timestamp_ms=1)) == 0
        assert len(cluster.requests(MetadataRequest)) == asked
