"""A producer whose requests, answers and brokers get lost: every record once, and in its order."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.batch._batch import BatchView
from logstore.batch._encode import Encoder, encode
from logstore.dropped import release_all
from logstore.errors import (
    BrokerError,
    BrokerUnreachableError,
    ClientClosedError,
    CorruptRecordError,
    DeliveryTimeoutError,
    ForkedError,
    InvalidRecordError,
    LogstoreError,
    MalformedMessageError,
    RecordTooLargeError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from logstore.protocol.generated.messages import InitProducerIdRequest, ProduceRequest
from logstore.records import Codec, TopicPartition
from logstore.remote.client import Client
from logstore.remote.producer import Delivery, IdempotentProducer
from tests.kit.waiting import wait_for
from tests.remote import fake_cluster
from tests.remote.fake_cluster import ALL, FakeCluster

ORDERS = TopicPartition("orders", 0)

NOT_LEADER = 6
TIMED_OUT = 7
TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45
DUPLICATE = 46
UNKNOWN_PRODUCER = 59
INVALID_RECORD = 87


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as made:
        yield made


def quick(cluster: FakeCluster, **settings: Any) -> Client:
    chosen = {
        "retry_backoff_ms": 2,
        "retry_backoff_max_ms": 20,
        "reconnect_backoff_ms": 2,
        "reconnect_backoff_max_ms": 10,
        "request_timeout_ms": 300,
        "default_api_timeout_ms": 3_000,
        "delivery_timeout_ms": 5_000,
    }
    return Client(cluster.bootstrap, **(chosen | settings))


@pytest.fixture
def producer(cluster: FakeCluster) -> Iterator[IdempotentProducer]:
    with quick(cluster) as client:
        made = IdempotentProducer(client)
        yield made
        made.abandon()


def batch(*values: bytes, **how: Any) -> bytes:
    return encode(list(values), timestamp_ms=1, **how)


def numbered(count: int, prefix: bytes = b"") -> list[bytes]:
    return [prefix + b"%d" % number for number in range(count)]


# --- what is sent --------------------------------------------------------------------------------


def test_records_get_their_offsets_and_sequences(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    (partition,) = cluster.topic("orders")
    assert producer.send(ORDERS, batch(b"a", b"b")) == 0
    assert producer.send(ORDERS, batch(b"c")) == 2
    assert producer.send(ORDERS, batch(b"d", codec=Codec.ZSTD)) == 3
    views = [BatchView(each) for each in partition.batches]
    assert [view.base_sequence for view in views] == [0, 2, 3]
    assert {view.producer_id for view in views} == {producer.producer_id}
    assert partition.values() == [b"a", b"b", b"c", b"d"]
    assert all(request.acks == -1 for request in cluster.requests(ProduceRequest))


def test_an_encoder_is_free_at_once(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    (partition,) = cluster.topic("orders")
    encoder = Encoder()
    for number in range(20):
        encoder.begin(timestamp_ms=number)
        encoder.add_all([b"%d" % number])
        producer.submit(ORDERS, encoder)
    producer.flush()
    assert partition.values() == numbered(20)


def test_several_batches_of_one_encoder_go_one_by_one(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    """A broker takes one batch of a partition in each request."""
    (partition,) = cluster.topic("orders")
    encoder = Encoder().begin(timestamp_ms=1, max_batch_bytes=300)
    encoder.add_all(numbered(200))
    delivery = producer.submit(ORDERS, encoder)
    producer.flush()
    assert delivery.is_done
    assert (delivery.first_offset, delivery.last_offset, delivery.record_count) == (0, 199, 200)
    assert partition.values() == numbered(200)
    requests = cluster.requests(ProduceRequest)
    assert len(requests) == len(partition.batches) > 5
    views = [BatchView(each) for each in partition.batches]
    assert [view.base_sequence for view in views] == [view.base_offset for view in views]


def test_partitions_of_several_leaders_are_written_together(
    cluster: FakeCluster, producer: IdempotentProducer
) -> None:
    partitions = cluster.topic("orders", 6, leaders=(1, 2))
    for _ in range(5):
        for number in range(6):
            producer.submit(TopicPartition("orders", number), batch(b"%d" % number))
    producer.flush()
    for number, partition in enumerate(partitions):
        assert partition.values() == [b"%d" % number] * 5


def test_nothing_is_sent_for_nothing(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    cluster.topic("orders")
    assert producer.submit(ORDERS, b"").is_done
    assert producer.send(ORDERS, Encoder().begin(timestamp_ms=1)) == -1
    producer.flush()
    assert not cluster.requests(ProduceRequest)


def test_bytes_that_are_no_batches_are_refused(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    (partition,) = cluster.topic("orders")
    with pytest.raises(CorruptRecordError):
        producer.submit(ORDERS, batch(b"a")[:-1])
    assert producer.send(ORDERS, batch(b"b")) == 0
    assert partition.values() == [b"b"]


def test_an_old_broker_is_written_to_by_name(cluster: FakeCluster) -> None:
    cluster.versions = ALL | {ProduceRequest.API_KEY: (3, 7), InitProducerIdRequest.API_KEY: (0, 1)}
    (partition,) = cluster.topic("orders")
    with quick(cluster) as client, IdempotentProducer(client) as producer:
        assert producer.send(ORDERS, batch(b"a")) == 0
    assert partition.values() == [b"a"]


def test_without_idempotence_there_are_no_sequences(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    with quick(cluster, enable_idempotence=False, acks="1") as client, IdempotentProducer(client) as producer:
        for value in numbered(10):
            producer.submit(ORDERS, batch(value))
        producer.flush()
        assert producer.producer_id == -1
    assert partition.values() == numbered(10)
    assert not cluster.requests(InitProducerIdRequest)
    assert {request.acks for request in cluster.requests(ProduceRequest)} == {1}


# --- what gets lost ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        fake_cluster.disconnect,
        fake_cluster.cut,
        fake_cluster.silence,
        fake_cluster.garbage,
        fake_cluster.dribble,
        NOT_LEADER,
        TIMED_OUT,
        NOT_ENOUGH_REPLICAS,
    ],
)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_what_was_lost_is_sent_again_once_and_in_order(
    cluster: FakeCluster, producer: IdempotentProducer, fault: Any, at: int
) -> None:
    (partition,) = cluster.topic("orders")
    cluster.brokers[1].plan(ProduceRequest, *[None] * at, fault)
    deliveries = [producer.submit(ORDERS, batch(value)) for value in numbered(12)]
    if fault is fake_cluster.garbage:
        # An answer that cannot be read is no reason to believe that another can be.
        with pytest.raises(MalformedMessageError):
            producer.flush()
        assert all(each.is_done for each in deliveries)
        assert isinstance(deliveries[at].error, MalformedMessageError)
        assert all(each.error is None for each in deliveries[:at])
        return
    producer.flush()
    assert partition.values() == numbered(12)
    assert [each.first_offset for each in deliveries] == list(range(12))


def test_a_moved_leader_gets_everything_in_order(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    (partition,) = cluster.topic("orders")
    for number in range(40):
        producer.submit(ORDERS, batch(b"%d" % number))
        if number % 7 == 3:
            cluster.lead(ORDERS, 2 if partition.leader == 1 else 1)
    producer.flush()
    assert partition.values() == numbered(40)


def test_a_broker_that_restarts_gets_everything_in_order(
    cluster: FakeCluster, producer: IdempotentProducer
) -> None:
    (partition,) = cluster.topic("orders")
    for number in range(30):
        producer.submit(ORDERS, batch(b"%d" % number))
        if number == 10:
            cluster.brokers[1].stop()
            threading.Timer(0.1, cluster.brokers[1].restart).start()
    producer.flush()
    assert partition.values() == numbered(30)


def test_a_duplicate_is_a_success(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    (partition,) = cluster.topic("orders")
    cluster.brokers[1].plan(ProduceRequest, DUPLICATE)
    delivery = producer.submit(ORDERS, batch(b"a"))
    producer.flush()
    assert delivery.is_done
    assert delivery.error is None
    assert delivery.first_offset == -1
    partition.producers.clear()
    assert producer.send(ORDERS, batch(b"b")) == 0


@pytest.mark.parametrize("code", [UNKNOWN_PRODUCER, OUT_OF_ORDER])
def test_a_forgotten_producer_begins_again(cluster: FakeCluster, producer: IdempotentProducer, code: int) -> None:
    (partition,) = cluster.topic("orders")
    producer.send(ORDERS, batch(b"0"))
    before = producer.producer_id
    cluster.brokers[1].plan(ProduceRequest, code, code)
    for value in numbered(6)[1:]:
        producer.submit(ORDERS, batch(value))
    producer.flush()
    assert producer.producer_id != before
    assert partition.values() == numbered(6)
    views = [BatchView(each) for each in partition.batches if BatchView(each).producer_id == producer.producer_id]
    assert views[0].base_sequence == 0


def test_a_producer_id_that_is_not_to_be_had_yet_is_asked_for_again(
    cluster: FakeCluster, producer: IdempotentProducer
) -> None:
    cluster.topic("orders")
    for broker in cluster.brokers.values():
        broker.plan(InitProducerIdRequest, 14, fake_cluster.disconnect)
    assert producer.send(ORDERS, batch(b"a")) == 0


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (TOO_LARGE, RecordTooLargeError, "max.message.bytes"),
        (INVALID_RECORD, InvalidRecordError, "compacted topic"),
        (29, BrokerError, "ACL"),
        (999, BrokerError, "ERROR_999"),
    ],
)
def test_a_refusal_is_told_and_the_next_batch_is_taken(
    cluster: FakeCluster, producer: IdempotentProducer, code: int, error: type[Exception], said: str
) -> None:
    (partition,) = cluster.topic("orders")
    producer.send(ORDERS, batch(b"a"))
    cluster.brokers[1].plan(ProduceRequest, code)
    with pytest.raises(error, match=rf"produce to orders-0 at broker 1 .*{said}"):
        producer.send(ORDERS, batch(b"refused"))
    producer.flush()
    assert producer.send(ORDERS, batch(b"b")) == 1
    assert partition.values() == [b"a", b"b"]


def test_flush_tells_of_a_refusal_once(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    left, right = cluster.topic("orders", 2, leaders=(1, 2))
    other = TopicPartition("orders", 1)
    cluster.brokers[1].plan(ProduceRequest, TOO_LARGE)
    refused = producer.submit(ORDERS, batch(b"a"))
    taken = producer.submit(other, batch(b"b"))
    with pytest.raises(RecordTooLargeError):
        producer.flush()
    assert isinstance(refused.error, RecordTooLargeError)
    assert taken.first_offset == 0
    producer.flush()
    assert (left.values(), right.values()) == ([], [b"b"])


def test_a_topic_that_is_not_there_is_named(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    with pytest.raises(UnknownTopicError, match="'orders'"):
        producer.send(ORDERS, batch(b"a"))


def test_a_delivery_ends_in_its_time(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    with quick(cluster, delivery_timeout_ms=200) as client:
        producer = IdempotentProducer(client)
        cluster.brokers[1].plan(ProduceRequest, *[NOT_ENOUGH_REPLICAS] * 1000)
        with pytest.raises(DeliveryTimeoutError, match=r"1 records for orders-0 .*=200.*NOT_ENOUGH_REPLICAS"):
            producer.send(ORDERS, batch(b"a"))
        producer.abandon()


def test_tries_are_counted(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    with quick(cluster, retries=2) as client:
        producer = IdempotentProducer(client)
        cluster.brokers[1].plan(ProduceRequest, *[NOT_LEADER] * 10)
        with pytest.raises(DeliveryTimeoutError, match="3 tries"):
            producer.send(ORDERS, batch(b"a"))
        producer.abandon()


def test_no_broker_at_all_is_told(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    for broker in cluster.brokers.values():
        broker.stop()
    with quick(cluster, socket_connection_setup_timeout_ms=100) as client:
        producer = IdempotentProducer(client)
        with pytest.raises(BrokerUnreachableError, match="refused"):
            producer.send(ORDERS, batch(b"a"))
        producer.abandon()


# --- how it ends --------------------------------------------------------------------------------------


def test_a_with_block_ends_with_everything_written(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    with quick(cluster) as client:
        with IdempotentProducer(client) as producer:
            for value in numbered(10):
                producer.submit(ORDERS, batch(value))
        assert partition.values() == numbered(10)
        with pytest.raises(ClientClosedError):
            producer.submit(ORDERS, batch(b"a"))
        producer.close()


def test_a_with_block_that_fails_waits_for_nothing(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    cluster.brokers[1].plan(ProduceRequest, *[fake_cluster.silence] * 5)

    def fail(client: Client) -> None:
        with IdempotentProducer(client) as producer:
            producer.submit(ORDERS, batch(b"a"))
            raise ZeroDivisionError

    # More than this test may take: it ends because no caller waits.
    hours = {"request_timeout_ms": 7_200_000, "delivery_timeout_ms": 10_800_000}
    with quick(cluster, **hours) as client, pytest.raises(ZeroDivisionError):
        fail(client)


def test_a_producer_is_not_for_a_forked_child(cluster: FakeCluster, producer: IdempotentProducer) -> None:
    cluster.topic("orders")
    producer.send(ORDERS, batch(b"a"))
    pid = os.fork()
    if pid == 0:
        try:
            producer.submit(ORDERS, batch(b"b"))
        except ForkedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert producer.send(ORDERS, batch(b"c")) == 1


# --- nothing twice ------------------------------------------------------------------------------------

OTHER = TopicPartition("orders", 1)


def swallow(broker: Any, connection: Any, frame: bytes) -> bool:
    """The request is carried out and never answered; the connection stays."""
    return True


def test_what_is_in_flight_to_a_hung_leader_comes_before_what_goes_to_the_next(cluster: FakeCluster) -> None:
    """Or the batches would be sent again when the new leader knows only newer ones, and cannot tell."""
    first, _ = cluster.topic("orders", 2, leaders=(1, 2))
    with quick(cluster) as client, IdempotentProducer(client) as producer:
        producer.send(ORDERS, batch(b"0"))
        producer.send(OTHER, batch(b"0"))
        cluster.brokers[1].plan(ProduceRequest, *[swallow] * 5)
        for value in numbered(6)[1:]:
            producer.submit(ORDERS, batch(value))
        wait_for(lambda: len(first.values()) == 6)
        cluster.lead(ORDERS, 2)
        client.metadata(["orders"])
        for value in numbered(12)[6:]:
            producer.submit(OTHER, batch(value))
            producer.submit(ORDERS, batch(value))
        producer.flush()
        assert first.values() == numbered(12)


@pytest.mark.parametrize("code", [TOO_LARGE, INVALID_RECORD])
def test_a_refusal_elsewhere_has_nothing_written_again(cluster: FakeCluster, code: int) -> None:
    first, second = cluster.topic("orders", 2, leaders=(1, 2))
    with quick(cluster, retry_backoff_ms=50) as client:
        producer = IdempotentProducer(client)
        for tp in (ORDERS, OTHER):
            producer.send(tp, batch(b"0"))
        cluster.brokers[1].plan(ProduceRequest, fake_cluster.disconnect)
        cluster.brokers[2].plan(ProduceRequest, code)
        kept, refused = producer.submit(ORDERS, batch(b"1")), producer.submit(OTHER, batch(b"1"))
        with pytest.raises((RecordTooLargeError, InvalidRecordError)):
            producer.flush()
        assert refused.error is not None
        assert (kept.is_done, kept.error) == (True, None)
        for tp in (ORDERS, OTHER):
            producer.submit(tp, batch(b"2"))
        producer.close()
    assert first.values() == numbered(3)
    assert second.values() == [b"0", b"2"]


@pytest.mark.parametrize("code", [UNKNOWN_PRODUCER, OUT_OF_ORDER])
def test_what_may_be_written_is_not_written_again_where_the_producer_is_forgotten(
    cluster: FakeCluster, code: int
) -> None:
    (partition,) = cluster.topic("orders")
    with quick(cluster) as client:
        producer = IdempotentProducer(client)
        producer.send(ORDERS, batch(b"0"))
        cluster.brokers[1].plan(ProduceRequest, fake_cluster.disconnect, code)
        delivery = producer.submit(ORDERS, batch(b"1"))
        with pytest.raises(DeliveryTimeoutError, match=r"1 records for orders-0 .* may have been written or not"):
            producer.flush()
        assert delivery.error is not None
        producer.send(ORDERS, batch(b"2"))
        producer.close()
    assert partition.values() == numbered(3)


def test_a_broker_without_a_version_in_common_is_named(cluster: FakeCluster) -> None:
    with FakeCluster(versions=ALL | {ProduceRequest.API_KEY: (0, 1)}) as old, quick(old) as client:
        old.topic("orders")
        producer = IdempotentProducer(client)
        with pytest.raises(UnsupportedVersionError, match="versions 0 to 1 of ProduceRequest"):
            producer.send(ORDERS, batch(b"a"))
        producer.close()


def test_a_producer_that_is_dropped_says_how_much_was_not_acknowledged(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    with quick(cluster) as client:
        producer = IdempotentProducer(client)
        producer.send(ORDERS, batch(b"0"))
        cluster.brokers[1].plan(ProduceRequest, fake_cluster.silence)
        delivery = producer.submit(ORDERS, batch(b"1"))
        with pytest.warns(ResourceWarning, match=r"without close\(\): 1 were not acknowledged"):  # noqa: PT031
            with producer._cluster._lock:
                del producer  # waits for no lock: the collector of cycles runs in the middle of anything
            release_all()
        wait_for(lambda: delivery.is_done)
        assert isinstance(delivery.error, ClientClosedError)


def test_a_delivery_ends_in_its_time_where_no_broker_is_left(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    with quick(cluster, delivery_timeout_ms=400, default_api_timeout_ms=60_000) as client:
        producer = IdempotentProducer(client)
        producer.send(ORDERS, batch(b"0"))
        for broker in cluster.brokers.values():
            broker.stop()
        with pytest.raises(DeliveryTimeoutError):
            producer.send(ORDERS, batch(b"1"))
        producer.close()


def test_a_batch_that_is_refused_again_and_again_stays_among_the_five_that_its_leader_remembers(
    cluster: FakeCluster, producer: IdempotentProducer
) -> None:
    """Its first answer was lost: it was written, and with five others behind it nothing would tell."""
    (partition,) = cluster.topic("orders")
    producer.send(ORDERS, batch(b"known"))
    all_are_in_flight = threading.Event()

    def lost(broker: Any, connection: Any, frame: bytes) -> bool:
        assert all_are_in_flight.wait(300)
        raise ConnectionError

    first_id = producer.producer_id
    refused = [NOT_ENOUGH_REPLICAS, None, None, None, None]
    cluster.brokers[1].plan(ProduceRequest, lost, *refused, *refused)
    for number in range(20):
        producer.submit(ORDERS, batch(b"%d" % number))
    all_are_in_flight.set()
    producer.flush()
    assert partition.values() == [b"known", *numbered(20)]
    assert producer.producer_id == first_id


# --- any faults at all --------------------------------------------------------------------------------

_FAULTS = st.sampled_from(
    [
        *[None] * 6,
        NOT_LEADER,
        TIMED_OUT,
        NOT_ENOUGH_REPLICAS,
        fake_cluster.disconnect,
        fake_cluster.cut,
        "move",
    ]
)


@settings(max_examples=25, deadline=None)
@given(faults=st.lists(st.tuples(st.sampled_from([1, 2]), _FAULTS), max_size=25), seed=st.integers(0, 2**32))
def test_whatever_is_lost_each_record_is_there_once_and_in_order(faults: list[Any], seed: int) -> None:
    chosen = random.Random(seed)
    with FakeCluster(brokers=2) as cluster:
        partitions = cluster.topic("orders", 3, leaders=(1, 2))
        moves = 0
        for broker, fault in faults:
            if fault == "move":
                moves += 1
            else:
                cluster.brokers[broker].plan(ProduceRequest, fault)
        wanted: list[list[bytes]] = [[], [], []]
        # No answer is merely late: on a loaded machine one would be taken for lost, and its batch sent twice.
        patient = quick(cluster, delivery_timeout_ms=60_000, request_timeout_ms=30_000)
        with patient as client, IdempotentProducer(client) as producer:
            for step in range(40):
                number = chosen.randrange(3)
                values = numbered(chosen.randrange(1, 4), b"%d-" % step)
                wanted[number] += values
                producer.submit(TopicPartition("orders", number), batch(*values))
                if moves and chosen.random() < 0.2:
                    moves -= 1
                    tp = TopicPartition("orders", chosen.randrange(3))
                    cluster.lead(tp, 3 - cluster.partition(tp).leader)
        assert [partition.values() for partition in partitions] == wanted


_GRAVE = st.sampled_from(
    [
        *[None] * 3,
        *(NOT_LEADER, TIMED_OUT, TOO_LARGE, OUT_OF_ORDER, UNKNOWN_PRODUCER),
        *(fake_cluster.disconnect, swallow, fake_cluster.cut, "move"),
    ]
)


@settings(max_examples=25, deadline=None)
@given(faults=st.lists(st.tuples(st.sampled_from([1, 2]), _GRAVE), max_size=25), seed=st.integers(0, 2**32))
def test_whatever_is_refused_no_record_is_there_twice_and_all_that_were_promised(
    faults: list[Any], seed: int
) -> None:
    chosen = random.Random(seed)
    with FakeCluster(brokers=2) as cluster:
        partitions = cluster.topic("orders", 3, leaders=(1, 2))
        for broker, fault in faults:
            if fault != "move":
                cluster.brokers[broker].plan(ProduceRequest, fault)
        moves = sum(fault == "move" for _, fault in faults)
        promised: list[tuple[int, list[bytes], Delivery]] = []
        with quick(cluster, delivery_timeout_ms=60_000, request_timeout_ms=60) as client:
            producer = IdempotentProducer(client)
            for step in range(40):
                number, values = chosen.randrange(3), numbered(chosen.randrange(1, 4), b"%d-" % step)
                delivery = producer.submit(TopicPartition("orders", number), batch(*values))
                promised.append((number, values, delivery))
                if moves and chosen.random() < 0.2:
                    moves -= 1
                    tp = TopicPartition("orders", chosen.randrange(3))
                    cluster.lead(tp, 3 - cluster.partition(tp).leader)
                    client.metadata(["orders"])
            with contextlib.suppress(LogstoreError):
                producer.flush()
            producer.close()
        for number, partition in enumerate(partitions):
            found = partition.values()
            assert len(found) == len(set(found))
            kept = [
                value for at, values, each in promised if at == number and each.error is None for value in values
            ]
            assert [value for value in found if value in set(kept)] == kept


def test_a_client_that_is_closed_in_the_middle_of_a_turn_fails_the_batches_and_logs_no_error(
    cluster: FakeCluster,
    producer: IdempotentProducer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was logged as a bug when a store was dropped under load."""
    cluster.topic("orders")
    thread = producer._sending._thread

    def closed_meanwhile(*_: object) -> float:
        thread._ends = True
        thread.check()
        return 0.0

    monkeypatch.setattr(producer._sending, "_look_at_all", closed_meanwhile)
    with pytest.raises(ClientClosedError):
        producer.send(ORDERS, batch(b"a"))
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
