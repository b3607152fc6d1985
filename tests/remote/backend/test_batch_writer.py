"""A `Producer` over brokers that fail in every way: order, nothing twice, the right answer, and every time-out."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.accumulator._batcher import SendFuture
from logstore.batch._batch import BatchView
from logstore.batch._encode import encode
from logstore.client.producer import Producer
from logstore.errors import (
    BrokerError,
    BufferExhaustedError,
    ClientClosedError,
    ConfigError,
    DeliveryTimeoutError,
    InvalidRecordError,
    LogstoreError,
    NotEnoughReplicasError,
    RecordTooLargeError,
    UnknownTopicError,
)
from logstore.protocol.generated.messages import DescribeConfigsRequest, InitProducerIdRequest, ProduceRequest
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.backend.batch_writer import RemoteBatchWriter
from logstore.remote.client import Client
from logstore.remote.produce.batches import HandedBatch, SendQueue
from logstore.remote.produce.sending import Sending
from logstore.remote.producer import IdempotentProducer
from tests.kit.waiting import wait_for
from tests.remote import fake_cluster
from tests.remote.fake_cluster import FakeCluster, FakePartition

NOT_LEADER = 6
TIMED_OUT = 7
TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45
DUPLICATE = 46
UNKNOWN_PRODUCER = 59
TOPIC_AUTHORIZATION_FAILED = 29
INVALID_RECORD = 87


def backend_of(cluster: FakeCluster, **settings: Any) -> RemoteBackend:
    chosen = {
        "retry_backoff_ms": 2,
        "retry_backoff_max_ms": 20,
        "reconnect_backoff_ms": 2,
        "reconnect_backoff_max_ms": 10,
        "request_timeout_ms": 300,
        "default_api_timeout_ms": 3_000,
    }
    return RemoteBackend(Client(cluster.bootstrap, **(chosen | settings)))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as made:
        yield made


@pytest.fixture
def backend(cluster: FakeCluster) -> Iterator[RemoteBackend]:
    made = backend_of(cluster)
    yield made
    made.close()


def producing(backend: RemoteBackend, **settings: Any) -> Producer:
    return Producer(backend, {"linger_ms": 0, "batch_size": 0, "retry_backoff_ms": 2, **settings})


def _has_in_flight(producer: Producer, count: int) -> bool:
    writer = producer._writer
    assert isinstance(writer, RemoteBatchWriter)
    return sum(each.in_flight for each in list(writer._sending._brokers.values())) == count


def numbered(count: int, prefix: bytes = b"") -> list[bytes]:
    return [prefix + b"%d" % number for number in range(count)]


class HeldAnswer:
    """A fault that keeps an answer back until the test says so."""

    def __init__(self, *, lost: bool = False) -> None:
        self.reached, self.opened, self.lost = threading.Event(), threading.Event(), lost

    def __call__(self, broker: Any, connection: Any, frame: bytes) -> bool:
        self.reached.set()
        assert self.opened.wait(60)
        if self.lost:
            raise ConnectionError
        return False


# --- what is sent --------------------------------------------------------------------------------


def test_batches_have_the_producers_id_and_consecutive_sequences(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend) as producer:
        assert producer.producer_id == -1
        for number in range(4):
            assert producer.send("orders", b"%d" % number).result(10).offset == number
        assert producer.producer_id == 1001
    views = [BatchView(each) for each in partition.batches]
    assert [view.base_sequence for view in views] == [0, 1, 2, 3]
    assert {view.producer_id for view in views} == {1001}
    assert {request.acks for request in cluster.requests(ProduceRequest)} == {-1}


@pytest.mark.parametrize("how", [{"acks": "1"}, {"acks": "0"}, {"enable_idempotence": False}, {"retries": 0}])
def test_without_idempotence_there_are_no_sequences(
    cluster: FakeCluster, backend: RemoteBackend, how: dict[str, Any]
) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend, **how) as producer:
        assert producer.send("orders", b"v").result(10).offset == 0
        assert producer.producer_id == -1
    (view,) = [BatchView(each) for each in partition.batches]
    assert (view.producer_id, view.base_sequence) == (-1, -1)
    assert not cluster.requests(InitProducerIdRequest)
    assert cluster.requests(ProduceRequest)[0].acks == (1 if "acks" in how else -1)


def test_several_batches_of_a_partition_are_in_flight_and_no_more_than_was_asked_for(cluster: FakeCluster) -> None:
    for most in (1, 3, 5):
        backend = backend_of(cluster, request_timeout_ms=30_000)
        (partition,) = cluster.topic(f"flights-{most}")
        settings = {"max.in.flight.requests.per.connection": most}
        with Producer(backend, settings, batch_size=0, linger_ms=0) as producer:
            producer.send(f"flights-{most}", b"known").result(10)
            held = HeldAnswer()
            cluster.brokers[1].plan(ProduceRequest, held)
            futures = [producer.send(f"flights-{most}", b"v" * 20_000) for _ in range(12)]
            assert held.reached.wait(10)
            wait_for(partial(_has_in_flight, producer, most))
            assert not any(future.done() for future in futures)
            held.opened.set()
            assert [future.result(10).offset for future in futures] == list(range(1, 13))
        assert len(partition.batches) > most
        backend.close()


def test_records_gather_while_batches_wait_to_be_sent(cluster: FakeCluster, backend: RemoteBackend) -> None:
    (partition,) = cluster.topic("orders")
    settings = {"max.in.flight.requests.per.connection": 1}
    with Producer(backend, settings, linger_ms=0, batch_size=16_384) as producer:
        producer.send("orders", b"first").result(10)
        held = HeldAnswer()
        cluster.brokers[1].plan(ProduceRequest, held)
        producer.send("orders", b"in flight")
        assert held.reached.wait(10)
        for number in range(500):
            producer.send("orders", b"%d" % number)
        held.opened.set()
        producer.flush(10)
    assert len(partition.values()) == 502
    assert len(partition.batches) < 10


def test_one_request_has_the_batches_of_many_partitions(cluster: FakeCluster, backend: RemoteBackend) -> None:
    cluster.topic("orders", 50)
    with producing(backend, batch_size=16_384, linger_ms=3_600_000) as producer:
        for number in range(50):
            producer.send("orders", b"v", partition=number)
        producer.flush(10)
    assert len(cluster.requests(ProduceRequest)) < 25


def test_producers_share_the_thread_of_the_sockets(cluster: FakeCluster, backend: RemoteBackend) -> None:
    cluster.topic("orders")
    first, second = producing(backend), producing(backend)
    first.send("orders", b"v").result(10)
    second.send("orders", b"v").result(10)
    assert first.producer_id != second.producer_id
    threads = [each.name for each in threading.enumerate() if each.name.startswith("logstore-")]
    assert threads.count("logstore-network") == 1
    assert set(threads) <= {"logstore-network", "logstore-acks", "logstore-ticker"}
    first.close()
    assert second.send("orders", b"v").result(10).offset == 2
    second.close()
    with producing(backend) as third:
        assert third.send("orders", b"v").result(10).offset == 3


def test_the_end_of_the_back_end_flushes_its_producers(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    backend = backend_of(cluster)
    producer = producing(backend, linger_ms=3_600_000, batch_size=1_000)
    future = producer.send("orders", b"v")
    backend.close()
    assert future.result(0).offset == 0
    assert producer.closed
    assert partition.values() == [b"v"]
    with pytest.raises(ClientClosedError):
        producing(backend)


def test_producers_that_are_open_at_the_end_of_the_program_are_flushed(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    program = f"""
from logstore.client.producer import Producer
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.backend.batch_writer import RemoteBatchWriter
from logstore.remote.client import Client
producer = Producer(RemoteBackend(Client({cluster.bootstrap!r})), linger_ms=3_600_000)
producer.send("orders", b"last words")
"""
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "were left open: they have been flushed" in done.stderr
    assert partition.values() == [b"last words"]


def test_a_hand_over_that_is_repeated_after_an_interrupt_sends_once(
    cluster: FakeCluster, backend: RemoteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition,) = cluster.topic("orders")
    hand_over = Sending.hand_over

    def interrupted(sending: Sending, queue: SendQueue, batch: HandedBatch) -> None:
        hand_over(sending, queue, batch)
        batch.is_handed = False

    monkeypatch.setattr(Sending, "hand_over", interrupted)
    with producing(backend) as producer:
        futures = [producer.send("orders", b"%d" % number) for number in range(50)]
        producer.flush(10)
    assert [future.result(0).offset for future in futures] == list(range(50))
    assert partition.values() == numbered(50)


def test_a_connection_that_the_broker_has_closed_meanwhile_costs_no_retry(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend, retries=0) as producer:
        producer.send("orders", b"0").result(10)
        cluster.brokers[1].stop()
        cluster.brokers[1].restart()
        assert producer.send("orders", b"1").result(10).offset == 1
    assert partition.values() == numbered(2)


def test_append_times_come_from_the_broker(cluster: FakeCluster, backend: RemoteBackend) -> None:
    cluster.topic("orders")
    cluster.topics["orders"].settings["message.timestamp.type"] = "LogAppendTime"

    with producing(backend) as producer:
        original = fake_cluster.FakeBroker.produce

        def produce(broker: Any, request: Any, code: int, version: int) -> Any:
            answer = original(broker, request, code, version)
            for topic in answer.responses:
                for each in topic.partition_responses:
                    each.log_append_time_ms = 77
            return answer

        fake_cluster._HANDLERS[ProduceRequest.API_KEY] = produce
        try:
            assert producer.send("orders", b"v", timestamp=5).result(10).timestamp_ms == 77
        finally:
            fake_cluster._HANDLERS[ProduceRequest.API_KEY] = original


def test_settings_of_the_topic_are_kept_to_where_the_brokers_tell_them(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    cluster.topic("orders")
    cluster.topics["orders"].settings |= {"cleanup.policy": "compact", "max.message.bytes": "2000"}
    cluster.topic("secret")
    with producing(backend) as producer:
        with pytest.raises(InvalidRecordError, match="key"):
            producer.send("orders", b"v")
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            producer.send("orders", b"v" * 3_000, b"k").result(10)
        assert producer.send("orders", b"v", b"k").result(10).offset == 0
        for broker in cluster.brokers.values():
            broker.plan(DescribeConfigsRequest, TOPIC_AUTHORIZATION_FAILED)
        assert producer.send("secret", b"v").result(10).offset == 0


def test_settings_that_brokers_do_not_have_are_refused(backend: RemoteBackend) -> None:
    with pytest.raises(ConfigError, match=r"logstore\.ack.*set acks"):
        Producer(backend, {"logstore.ack": "synced"})
    with pytest.raises(ConfigError, match=r"max\.in\.flight\.requests\.per\.connection.*at most 5"):
        Producer(backend, {"max.in.flight.requests.per.connection": 6})
    with Producer(backend, {"max.in.flight.requests.per.connection": 6, "acks": "1"}):
        pass


# --- what is refused, and what is lost -------------------------------------------------------------


def test_a_batch_that_is_refused_fails_alone(cluster: FakeCluster, backend: RemoteBackend) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        cluster.brokers[1].plan(ProduceRequest, INVALID_RECORD)
        refused = producer.send("orders", b"refused")
        later = [producer.send("orders", b"%d" % n) for n in (1, 2, 3)]
        with pytest.raises(InvalidRecordError):
            refused.result(10)
        assert [future.result(10).offset for future in later] == [1, 2, 3]
        assert producer.metrics().failed_records == 1
    assert partition.values() == numbered(4)


def test_a_lost_answer_is_asked_for_again_and_nothing_is_there_twice(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        cluster.brokers[1].plan(ProduceRequest, fake_cluster.disconnect, fake_cluster.cut, TIMED_OUT, NOT_LEADER)
        futures = [producer.send("orders", b"%d" % n) for n in range(1, 10)]
        assert [future.result(10).offset for future in futures] == list(range(1, 10))
        assert producer.metrics().retries
    assert partition.values() == numbered(10)


def test_a_duplicate_whose_offset_is_forgotten_is_acknowledged_without_one(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    cluster.topic("orders")
    with producing(backend) as producer:
        cluster.brokers[1].plan(ProduceRequest, DUPLICATE)
        assert producer.send("orders", b"v").result(10).offset == -1


@pytest.mark.parametrize("code", [UNKNOWN_PRODUCER, OUT_OF_ORDER])
def test_what_may_be_written_is_not_written_again_where_the_producer_is_forgotten(
    cluster: FakeCluster, backend: RemoteBackend, code: int
) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        cluster.brokers[1].plan(ProduceRequest, fake_cluster.disconnect, code)
        doubtful = producer.send("orders", b"1")
        with pytest.raises(DeliveryTimeoutError, match="may have been written or not"):
            doubtful.result(10)
        assert producer.send("orders", b"2").result(10).offset == 2
    assert partition.values() == numbered(3)


def test_without_retries_an_error_is_final_and_is_the_brokers(cluster: FakeCluster, backend: RemoteBackend) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend, retries=0) as producer:
        cluster.brokers[1].plan(ProduceRequest, NOT_ENOUGH_REPLICAS)
        with pytest.raises(NotEnoughReplicasError, match=r"orders-0.*NOT_ENOUGH_REPLICAS"):
            producer.send("orders", b"v").result(10)
        assert producer.send("orders", b"0").result(10).offset == 0
    assert partition.values() == [b"0"]


@pytest.mark.row("P10", part="on a cluster")
def test_without_retries_a_leader_that_is_not_ready_yet_is_waited_for(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    cluster.topic("orders")
    with producing(backend, acks="0") as producer:
        cluster.brokers[1].plan(ProduceRequest, NOT_LEADER, NOT_LEADER)
        assert producer.send("orders", b"0").result(10).offset == 0
        cluster.brokers[1].plan(ProduceRequest, NOT_LEADER)
        assert producer.send("orders", b"refused").result(10).offset == -1


def test_errors_of_dropped_futures_are_raised_once_and_with_acks_0_never(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    cluster.topic("orders")
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        cluster.brokers[1].plan(ProduceRequest, INVALID_RECORD)
        producer.send("orders", b"refused")
        with pytest.raises(InvalidRecordError):
            producer.flush(10)
        producer.flush(10)
    with producing(backend, acks="0") as producer:
        cluster.brokers[1].plan(ProduceRequest, INVALID_RECORD, NOT_ENOUGH_REPLICAS)
        for _ in range(2):
            producer.send("orders", b"refused")
            producer.flush(10)
        assert producer.send("orders", b"1").result(10).offset == 1


def test_a_deleted_topic_fails_its_records_and_no_others(cluster: FakeCluster, backend: RemoteBackend) -> None:
    cluster.topic("orders")
    (other,) = cluster.topic("flights")
    with producing(backend, linger_ms=3_600_000, batch_size=1_000) as producer:
        lost, kept = producer.send("orders", b"v"), producer.send("flights", b"v")
        with cluster.lock:
            del cluster.topics["orders"]
        producer.flush(10)
        with pytest.raises(UnknownTopicError, match="orders"):
            lost.result(0)
        assert kept.result(10).offset == 0
    assert other.values() == [b"v"]


# --- leaders ---------------------------------------------------------------------------------------


@pytest.mark.row("M6", part="leaders that move")
def test_a_leader_that_moves_with_batches_in_flight_changes_no_order(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    (partition,) = cluster.topic("orders")
    name = TopicPartition("orders", 0)
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        held = HeldAnswer(lost=True)
        cluster.brokers[1].plan(ProduceRequest, held)
        futures = [producer.send("orders", b"%d" % n) for n in range(1, 8)]
        assert held.reached.wait(10)
        cluster.lead(name, 2)
        held.opened.set()
        assert [future.result(10).offset for future in futures] == list(range(1, 8))
    assert partition.values() == numbered(8)


def test_brokers_that_come_back_get_what_was_sent_meanwhile(cluster: FakeCluster, backend: RemoteBackend) -> None:
    partitions = cluster.topic("orders", 6, leaders=(1, 2))
    with producing(backend, delivery_timeout_ms=60_000) as producer:
        for number in range(6):
            producer.send("orders", b"0", partition=number).result(10)
        for broker in cluster.brokers.values():
            broker.stop()
        futures = [producer.send("orders", b"%d" % n, partition=p) for n in range(1, 4) for p in range(6)]
        for broker in cluster.brokers.values():
            broker.restart()
        for future in futures:
            future.result(20)
    assert [partition.values() for partition in partitions] == [numbered(4)] * 6


# --- times -----------------------------------------------------------------------------------------


def test_a_batch_in_flight_ends_with_its_delivery_timeout_and_the_next_ones_go_on(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    backend = backend_of(cluster, request_timeout_ms=30_000)
    with producing(backend, delivery_timeout_ms=1_500) as producer:
        producer.send("orders", b"0").result(10)
        held = HeldAnswer()
        cluster.brokers[1].plan(ProduceRequest, held)
        late = producer.send("orders", b"1")
        assert held.reached.wait(10)
        with pytest.raises(DeliveryTimeoutError, match=r"delivery\.timeout\.ms 1500; they may have been written"):
            late.result(10)
        held.opened.set()
        assert producer.send("orders", b"2").result(10).offset == 2
        assert producer.producer_id == 1001
    assert partition.values() == numbered(3)
    backend.close()


def test_batches_that_are_never_sent_end_too_and_leave_no_gap_in_the_sequences(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    backend = backend_of(cluster, request_timeout_ms=30_000)
    settings = {"max.in.flight.requests.per.connection": 1}
    with Producer(backend, settings, linger_ms=0, batch_size=0, delivery_timeout_ms=1_500) as producer:
        producer.send("orders", b"0").result(10)
        held = HeldAnswer()
        cluster.brokers[1].plan(ProduceRequest, held)
        producer.send("orders", b"1")
        assert held.reached.wait(10)
        unsent = [producer.send("orders", b"never", partition=0) for _ in range(3)]
        for future in unsent:
            with pytest.raises(DeliveryTimeoutError, match="they were not sent"):
                future.result(10)
        held.opened.set()
        with contextlib.suppress(DeliveryTimeoutError):
            producer.flush(10)
        assert producer.send("orders", b"2").result(10).offset == 2
        assert producer.producer_id == 1001
    assert partition.values() == numbered(3)
    assert [BatchView(each).base_sequence for each in partition.batches] == [0, 1, 2]
    backend.close()


def test_records_end_in_their_time_where_no_broker_is_left(cluster: FakeCluster, backend: RemoteBackend) -> None:
    cluster.topic("orders")
    with producing(backend, delivery_timeout_ms=1_500) as producer:
        producer.send("orders", b"0").result(10)
        for broker in cluster.brokers.values():
            broker.stop()
        with pytest.raises(DeliveryTimeoutError, match=r"delivery\.timeout\.ms"):
            producer.send("orders", b"1").result(10)


def test_full_memory_blocks_and_is_free_again_with_the_answers(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    backend = backend_of(cluster, request_timeout_ms=30_000)
    with producing(backend, buffer_memory=10_000, max_block_ms=100, batch_size=1_000) as producer:
        producer.send("orders", b"0").result(10)
        held = HeldAnswer()
        cluster.brokers[1].plan(ProduceRequest, held)
        with pytest.raises(BufferExhaustedError, match=r"max\.block\.ms 100; the record was not sent"):  # noqa: PT012
            for _ in range(50):
                producer.send("orders", b"v" * 900)
        count = producer.metrics().buffered_bytes
        assert count <= 10_000
        held.opened.set()
        for _ in range(50):
            producer.send("orders", b"v" * 900)
        producer.flush(10)
        assert producer.metrics().buffered_bytes == 0
    assert len(partition.values()) > 50
    backend.close()


def test_flush_and_close_end_in_their_time(cluster: FakeCluster) -> None:
    cluster.topic("orders")
    backend = backend_of(cluster, request_timeout_ms=30_000)
    producer = producing(backend)
    producer.send("orders", b"0").result(10)
    cluster.brokers[1].plan(ProduceRequest, fake_cluster.silence)
    future = producer.send("orders", b"1")
    with pytest.raises(DeliveryTimeoutError, match=r"wait for answers of brokers, after 0\.1 s"):
        producer.flush(0.1)
    assert not future.done()
    with pytest.raises(DeliveryTimeoutError):
        producer.close(0.1)
    with pytest.raises(DeliveryTimeoutError):
        future.result(0)
    assert producer.metrics().buffered_bytes == 0
    backend.close()


def test_an_interrupt_ends_a_wait_and_the_record_arrives_all_the_same(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    (partition,) = cluster.topic("orders")
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        for waits_for in ("a future", "all records"):
            held = HeldAnswer()
            cluster.brokers[1].plan(ProduceRequest, held)
            future = producer.send("orders", b"v")
            assert held.reached.wait(10)
            striker = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012  what is interrupted, perhaps early
                striker.start()
                if waits_for == "a future":
                    future.result(10)
                else:
                    producer.flush(10)
            striker.join()
            held.opened.set()
            future.result(10)
    assert len(partition.values()) == 3


# --- who answers ---------------------------------------------------------------------------------


def _acks_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "logstore-acks"]


def test_plain_futures_are_answered_without_another_thread(cluster: FakeCluster, backend: RemoteBackend) -> None:
    cluster.topic("orders")
    with producing(backend) as producer:
        for number in range(5):
            assert producer.send("orders", b"v").result(10).offset == number
        assert not _acks_threads()
        producer.flush(10)
        assert producer.metrics().buffered_bytes == 0
        assert producer.metrics().records == 5


def test_callbacks_run_in_a_thread_that_serves_no_socket(cluster: FakeCluster, backend: RemoteBackend) -> None:
    cluster.topic("orders")
    called: list[str] = []
    goes_on = threading.Event()

    def call(future: object) -> None:
        called.append(threading.current_thread().name)
        assert goes_on.wait(60)

    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        held = HeldAnswer()
        cluster.brokers[1].plan(ProduceRequest, held)
        future = producer.send("orders", b"1")
        assert held.reached.wait(10)
        future.add_done_callback(call)
        held.opened.set()
        wait_for(lambda: called)
        # While it runs, the thread of the sockets goes on.
        cluster.topic("others")
        assert producer.send("others", b"2").result(10).offset == 0
        goes_on.set()
        assert future.result(10).offset == 1
    assert called == ["logstore-acks"]


def test_an_answer_that_comes_while_another_thread_writes_is_taken_all_the_same(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    cluster.topic("orders")
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        held = HeldAnswer()
        cluster.brokers[1].plan(ProduceRequest, held)
        future = producer.send("orders", b"1")
        assert held.reached.wait(10)
        (batcher,) = producer._writer.shared.active  # type: ignore[attr-defined]
        with batcher._writing:
            held.opened.set()
            wait_for(lambda: _acks_threads())
            assert not future.done()
        assert future.result(10).offset == 1


def test_a_batch_behind_an_answer_is_sent_at_once(cluster: FakeCluster, backend: RemoteBackend) -> None:
    (partition,) = cluster.topic("orders")
    settings = {"max.in.flight.requests.per.connection": 1}
    with Producer(backend, settings, linger_ms=0, batch_size=16_384) as producer:
        for number in range(20):
            held = HeldAnswer()
            cluster.brokers[1].plan(ProduceRequest, held)
            first = producer.send("orders", b"%d" % number)
            assert held.reached.wait(10)
            # It waits for the answer, and gathers meanwhile.
            second = producer.send("orders", b"behind")
            held.opened.set()
            assert second.result(10).offset == first.result(10).offset + 1
    assert len(partition.values()) == 40


# --- any faults at all -----------------------------------------------------------------------------

_FAULTS = st.sampled_from(
    [*[None] * 6, NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS, fake_cluster.disconnect, fake_cluster.cut, "move"]
)


def _send_all(
    cluster: FakeCluster,
    producer: Producer,
    partitions: list[FakePartition],
    faults: list[Any],
    chosen: random.Random,
) -> list[tuple[int, bytes, SendFuture]]:
    """Send 200 records while the faults strike; return each with its partition and future."""
    moves = 0
    for broker, fault in faults:
        if fault == "move":
            moves += 1
        else:
            cluster.brokers[broker].plan(ProduceRequest, fault)
    sent = []
    for step in range(200):
        number, value = chosen.randrange(len(partitions)), b"%d" % step
        sent.append((number, value, producer.send("orders", value, partition=number)))
        if moves and chosen.random() < 0.1:
            moves -= 1
            name = TopicPartition("orders", chosen.randrange(len(partitions)))
            cluster.lead(name, 3 - cluster.partition(name).leader)
    return sent


@pytest.mark.row("P13", part="the client")
@settings(max_examples=25, deadline=None)
@given(
    faults=st.lists(st.tuples(st.sampled_from([1, 2]), _FAULTS), max_size=25),
    seed=st.integers(0, 2**32),
    in_flight=st.integers(1, 5),
)
def test_whatever_is_lost_each_record_is_there_once_in_order_and_at_its_offset(
    faults: list[Any], seed: int, in_flight: int
) -> None:
    with FakeCluster(brokers=2) as cluster:
        partitions = cluster.topic("orders", 3, leaders=(1, 2))
        # No answer is merely late: on a loaded machine one would be taken for lost.
        backend = backend_of(cluster, request_timeout_ms=30_000)
        settings = {"max.in.flight.requests.per.connection": in_flight}
        with Producer(backend, settings, linger_ms=0, batch_size=60, retry_backoff_ms=2) as producer:
            sent = _send_all(cluster, producer, partitions, faults, random.Random(seed))
            producer.flush(60)
        backend.close()
        for number, partition in enumerate(partitions):
            values = [value for at, value, _ in sent if at == number]
            assert partition.values() == values
            assert [future.result(0).offset for at, _, future in sent if at == number] == list(range(len(values)))


@pytest.mark.row("P12", part="our producer keeps the order")
@settings(max_examples=25, deadline=None)
@given(
    faults=st.lists(
        st.tuples(st.sampled_from([1, 2]), st.sampled_from([*[None] * 3, NOT_LEADER, NOT_ENOUGH_REPLICAS, "move"])),
        max_size=25,
    ),
    seed=st.integers(0, 2**32),
)
def test_without_idempotence_refused_batches_keep_their_order_too(faults: list[Any], seed: int) -> None:
    with FakeCluster(brokers=2) as cluster:
        partitions = cluster.topic("orders", 3, leaders=(1, 2))
        backend = backend_of(cluster, request_timeout_ms=30_000)
        with producing(backend, acks="1", batch_size=60) as producer:
            sent = _send_all(cluster, producer, partitions, faults, random.Random(seed))
            producer.flush(60)
        backend.close()
        for number, partition in enumerate(partitions):
            assert partition.values() == [value for at, value, _ in sent if at == number]


_GRAVE = st.sampled_from(
    [
        *[None] * 3,
        *(NOT_LEADER, TIMED_OUT, TOO_LARGE, OUT_OF_ORDER, UNKNOWN_PRODUCER),
        *(fake_cluster.disconnect, fake_cluster.cut, "move"),
    ]
)


@settings(max_examples=25, deadline=None)
@given(faults=st.lists(st.tuples(st.sampled_from([1, 2]), _GRAVE), max_size=25), seed=st.integers(0, 2**32))
def test_whatever_is_refused_no_record_is_there_twice_and_each_answer_is_true(faults: list[Any], seed: int) -> None:
    with FakeCluster(brokers=2) as cluster:
        partitions = cluster.topic("orders", 3, leaders=(1, 2))
        backend = backend_of(cluster, request_timeout_ms=30_000)
        with producing(backend, batch_size=60) as producer:
            sent: list[tuple[int, bytes, SendFuture]] = []
            with contextlib.suppress(LogstoreError):
                sent = _send_all(cluster, producer, partitions, faults, random.Random(seed))
            with contextlib.suppress(LogstoreError):
                producer.flush(60)
        backend.close()
        for number, partition in enumerate(partitions):
            found = partition.values()
            assert len(found) == len(set(found))
            for at, value, future in sent:
                if at == number and future.exception(0) is None:
                    assert found[future.result(0).offset] == value


def test_errors_of_brokers_name_the_partition_and_have_their_code(
    cluster: FakeCluster, backend: RemoteBackend
) -> None:
    cluster.topic("orders")
    with producing(backend) as producer:
        cluster.brokers[1].plan(ProduceRequest, TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(BrokerError, match=r"orders-0.*TOPIC_AUTHORIZATION_FAILED") as caught:
            producer.send("orders", b"v").result(10)
        assert caught.value.code == TOPIC_AUTHORIZATION_FAILED


# --- batches that are too large for their broker ------------------------------------------------------


class SmallLimit:
    """Brokers that take no batch above a size, whatever the topic's settings say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        self.refused = 0
        honest = FakePartition.produce

        def produce(partition: FakePartition, batch: bytes) -> tuple[int, int]:
            if len(batch) > most:
                self.refused += 1
                return TOO_LARGE, -1
            return honest(partition, batch)

        monkeypatch.setattr(FakePartition, "produce", produce)


@pytest.mark.parametrize("how", [{}, {"enable_idempotence": False}])
def test_a_batch_that_is_too_large_is_sent_in_parts(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    backend = backend_of(cluster, request_timeout_ms=30_000)
    (partition,) = cluster.topic("orders")
    limit = SmallLimit(monkeypatch, 400)
    with producing(backend, batch_size=4_000, linger_ms=3_600_000, **how) as producer:
        futures = [producer.send("orders", b"%d" % n * 10) for n in range(300)]
        producer.flush(30)
        assert [future.result(0).offset for future in futures] == list(range(300))
        assert producer.metrics().failed_records == 0
    assert limit.refused
    assert partition.values() == [b"%d" % n * 10 for n in range(300)]
    if not how:
        # Each record has kept its sequence: nothing was refused as out of order for good.
        views = [BatchView(each) for each in partition.batches]
        assert [view.base_sequence for view in views] == [view.base_offset for view in views]
        assert {view.producer_id for view in views} == {1001}
    backend.close()


def test_offsets_of_parts_are_their_own(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another producer may write between two parts."""
    backend = backend_of(cluster, request_timeout_ms=30_000)
    (partition,) = cluster.topic("orders")
    SmallLimit(monkeypatch, 400)
    honest = FakePartition.put

    def put(partition: FakePartition, batches: bytes) -> int:
        first = honest(partition, batches)
        honest(partition, encode([b"between"]))
        return first

    monkeypatch.setattr(FakePartition, "put", put)
    with producing(backend, batch_size=1_000, linger_ms=3_600_000) as producer:
        values = [b"%d" % n * 10 for n in range(40)]
        futures = [producer.send("orders", value) for value in values]
        producer.flush(30)
        found = partition.values()
        assert [found[future.result(0).offset] for future in futures] == values
    backend.close()


def test_one_record_that_is_too_large_fails_alone(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of(cluster, request_timeout_ms=30_000)
    (partition,) = cluster.topic("orders")
    SmallLimit(monkeypatch, 400)
    with producing(backend, batch_size=4_000, linger_ms=3_600_000) as producer:
        values = [b"x" * 1_000 if n == 11 else b"%d" % n * 10 for n in range(30)]
        futures = [producer.send("orders", value) for value in values]
        with contextlib.suppress(RecordTooLargeError):
            producer.flush(30)
        errors = [n for n, future in enumerate(futures) if future.exception(0) is not None]
        assert errors == [11]
        with pytest.raises(RecordTooLargeError, match="MESSAGE_TOO_LARGE"):
            futures[11].result(0)
        assert futures[12].result(0).offset == 11
        assert producer.metrics().failed_records == 1
        assert producer.send("orders", b"last", partition=0).done() is False
    assert partition.values() == [*values[:11], *values[12:], b"last"]
    backend.close()


# --- topics that are made again -----------------------------------------------------------------------


def test_no_batch_reaches_a_topic_that_was_made_again(cluster: FakeCluster) -> None:
    """Not even one whose leader has not yet said that the old one is gone."""
    backend = backend_of(cluster, request_timeout_ms=30_000)
    cluster.topic("orders")
    with producing(backend, linger_ms=0) as producer:
        producer.send("orders", b"old").result(10)
        with cluster.lock:
            (made_again,) = cluster.topic("orders")
        with pytest.raises(UnknownTopicError, match="another one has its name"):
            producer.send("orders", b"for the old one").result(10)
    assert made_again.values() == []
    backend.close()


# --- what an error says of the records ----------------------------------------------------------------


@pytest.mark.parametrize("made_again", [False, True])
@pytest.mark.parametrize(
    ("fault", "fate"),
    [
        (fake_cluster.disconnect, "may have been written"),
        (TIMED_OUT, "may have been written"),
        (NOT_LEADER, "were not written"),
    ],
)
def test_a_batch_that_is_returned_to_a_deleted_topic_says_whether_it_may_be_written(
    cluster: FakeCluster, fault: Any, fate: str, made_again: bool
) -> None:
    backend = backend_of(cluster, request_timeout_ms=30_000)
    cluster.topic("orders")
    with producing(backend, linger_ms=0) as producer:
        producer.send("orders", b"0").result(10)

        before = len(cluster.requests(ProduceRequest))
        cluster.brokers[1].plan(ProduceRequest, *[fault] * 100)
        future = producer.send("orders", b"1")
        wait_for(lambda: len(cluster.requests(ProduceRequest)) > before + 1)
        with cluster.lock:
            del cluster.topics["orders"]
            if made_again:
                cluster.topic("orders")
        with pytest.raises(UnknownTopicError, match=f"; 1 records for orders-0 {fate}$"):
            future.result(30)
    backend.close()


def test_a_batch_that_was_never_sent_says_so(cluster: FakeCluster, backend: RemoteBackend) -> None:
    (partition,) = cluster.topic("orders")
    partition.leader = 9  # no such broker
    with producing(backend) as producer:
        future = producer.send("orders", b"v")
        wait_for(lambda: cluster.requests(InitProducerIdRequest))
        with cluster.lock:
            del cluster.topics["orders"]
        with pytest.raises(UnknownTopicError, match=r"; 1 records for orders-0 were not sent$"):
            future.result(30)


@pytest.mark.parametrize(
    ("faults", "fate"),
    [
        ([fake_cluster.garbage], "may have been written"),
        ([fake_cluster.disconnect, TOPIC_AUTHORIZATION_FAILED], "may have been written"),
        ([TOPIC_AUTHORIZATION_FAILED], "orders-0 at .*TOPIC_AUTHORIZATION_FAILED .*to the topic"),
    ],
)
def test_an_error_that_ends_the_tries_says_whether_an_earlier_one_may_have_written(
    cluster: FakeCluster, backend: RemoteBackend, faults: list[Any], fate: str
) -> None:
    cluster.topic("orders")
    with producing(backend) as producer:
        producer.send("orders", b"0").result(10)
        cluster.brokers[1].plan(ProduceRequest, *faults)
        with pytest.raises(LogstoreError, match=f"{fate}$"):
            producer.send("orders", b"1").result(10)


@pytest.mark.parametrize(
    ("faults", "fate"),
    [
        ([NOT_LEADER] * 9, "were not written"),
        ([fake_cluster.disconnect, *[NOT_LEADER] * 9], "may have been written"),
    ],
)
def test_records_whose_time_is_over_say_whether_they_may_be_written(
    cluster: FakeCluster, faults: list[Any], fate: str
) -> None:
    cluster.topic("orders")
    name = TopicPartition("orders", 0)
    with (
        Client(cluster.bootstrap, retries=3, retry_backoff_ms=2, reconnect_backoff_ms=2) as client,
        IdempotentProducer(client) as producer,
    ):
        producer.send(name, encode([b"0"], timestamp_ms=1))
        cluster.brokers[1].plan(ProduceRequest, *faults)
        with pytest.raises(DeliveryTimeoutError, match=f"in 4 tries .*; they {fate}"):
            producer.send(name, encode([b"1"], timestamp_ms=1))
