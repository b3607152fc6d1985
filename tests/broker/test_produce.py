"""Appends by the loop's thread, and by the pool when something holds them up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstore.batch._encode import encode
from logstore.broker import Broker
from logstore.protocol.generated.messages import ApiVersionsRequest, ProduceRequest
from logstore.records import Codec
from logstore.store import Store
from tests.broker.wire import Wire
from tests.kit.inside import state_of

BATCH = bytes(encode([b"one", b"two"]))


def _request(records: bytes, acks: int = 1, name: str = "flights") -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name=name, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def _answer(wire: Wire, request: ProduceRequest) -> tuple[int, int]:
    (found,) = wire.ask(request, 9).responses[0].partition_responses
    return found.error_code, found.base_offset


def test_an_open_and_free_log_is_appended_to_without_the_pool(
    store: Store, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("flights").append(b"opens the log")
    monkeypatch.setattr(broker._served, "run", None)
    with Wire(broker) as wire:
        assert _answer(wire, _request(BATCH)) == (0, 1)


@pytest.mark.row("P12")
@pytest.mark.row("P13", part="served by logstore")
@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_retry_behind_a_batch_in_flight_changes_the_order_unless_the_producer_is_idempotent(
    store: Store, broker: Broker, is_idempotent: bool
) -> None:
    """Five are in flight, and the first one is lost on its way: here by a checksum."""
    topic = store.create_topic("flights")
    values = [b"%d" % n for n in range(5)]
    numbers = [{"producer_id": 7, "producer_epoch": 0, "base_sequence": n} for n in range(5)]
    batches = [
        bytes(encode([value], **(number if is_idempotent else {})))
        for value, number in zip(values, numbers, strict=True)
    ]
    with Wire(broker) as wire:
        if is_idempotent:  # the broker knows the producer
            wire.ask(_request(bytes(encode([b"before"], producer_id=7, producer_epoch=0, base_sequence=0))), 9)
            batches = [
                bytes(encode([value], **(number | {"base_sequence": n + 1})))
                for n, (value, number) in enumerate(zip(values, numbers, strict=True))
            ]
        for batch in [batches[0][:-1] + b"!", *batches[1:]]:
            wire.send(_request(batch), 9)
        found = [wire.receive(ProduceRequest, 9).responses[0].partition_responses[0].error_code for _ in batches]
        assert found == ([2, 45, 45, 45, 45] if is_idempotent else [2, 0, 0, 0, 0])
        for batch, code in zip(batches, found, strict=True):
            if code:
                assert _answer(wire, _request(batch))[0] == 0
        # Once more, as a client that has not heard the answer; of an idempotent one nothing is written.
        assert _answer(wire, _request(batches[4]))[0] == 0
    stored = [record.value for record in topic.log(0).read(0)]
    if is_idempotent:
        assert stored == [b"before", *values]
    else:
        assert stored == [*values[1:], values[0], values[4]]


def test_a_log_whose_lock_is_held_holds_up_its_own_connection_only(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights")
    topic.append(b"opens the log")
    with Wire(broker) as wire, Wire(broker) as other:
        with state_of(topic.log(0)).lock:
            wire.send(_request(BATCH), 9)
            assert other.ask(ApiVersionsRequest(), 0).error_code == 0
            assert topic.log(0).log_end_offset == 1
        (found,) = wire.receive(ProduceRequest, 9).responses[0].partition_responses
        assert (found.error_code, found.base_offset) == (0, 1)


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        pytest.param(lambda: _request(BATCH, acks=2), 21, id="acks"),
        pytest.param(lambda: _request(BATCH, name="missing"), 3, id="topic"),
        pytest.param(lambda: _request(BATCH, name="__consumer_offsets"), 17, id="internal topic"),
        pytest.param(lambda: _request(b""), 87, id="no batch"),
        pytest.param(lambda: _request(BATCH + BATCH), 87, id="two batches"),
        pytest.param(lambda: _request(BATCH[:16] + b"\1" + BATCH[17:]), 87, id="old magic"),
        pytest.param(lambda: _request(BATCH[:-1] + b"!"), 2, id="checksum"),
    ],
)
def test_a_refused_batch_gets_the_error_of_kafka(
    store: Store, broker: Broker, request_of: Callable[[], ProduceRequest], code: int
) -> None:
    topic = store.create_topic("flights")
    with Wire(broker) as wire:
        assert _answer(wire, request_of()) == (code, -1)
    assert topic.log(0).log_end_offset == 0


def test_zstd_is_refused_in_the_versions_before_it(store: Store, broker: Broker) -> None:
    """Kafka protocol: a client of Produce 3 to 6 may meet no reader that knows it (KIP-110)."""
    store.create_topic("flights")
    packed = bytes(encode([b"one" * 100] * 10, codec=Codec.ZSTD))
    with Wire(broker) as wire:
        for stored in (0, 10):  # the log is not open yet, and it is
            for version in range(3, 7):
                for records in (packed, packed[:-1] + b"!", packed + packed):
                    (found,) = wire.ask(_request(records), version).responses[0].partition_responses
                    assert (found.error_code, found.base_offset) == (76, -1)
            (found,) = wire.ask(_request(packed), 7).responses[0].partition_responses
            assert (found.error_code, found.base_offset) == (0, stored)


def test_an_answer_names_the_records_for_which_a_batch_is_refused(store: Store, broker: Broker) -> None:
    store.create_topic("flights", cleanup_policy="compact").append(b"first", key=b"key")
    keyless = bytes(encode([(b"key", b"1"), (None, b"2"), (b"key", b"3"), (None, b"4")], codec=Codec.GZIP))
    late = bytes(encode([(b"key", b"5", 1_000), (b"key", b"6", 1 << 50)]))
    many = bytes(encode([(None, b"")] * 5_000, codec=Codec.GZIP))
    with Wire(broker) as wire:
        for batch, code, numbers in (
            (keyless, 87, [1, 3]),
            (late, 32, [1]),
            (many, 87, list(range(1_000))),  # of very many the first ones
            (keyless[:-1] + b"!", 2, []),
        ):
            (found,) = wire.ask(_request(batch), 9).responses[0].partition_responses
            assert (found.error_code, found.base_offset) == (code, -1)
            assert [each.batch_index for each in found.record_errors] == numbers
            assert all(each.batch_index_error_message for each in found.record_errors)
            assert found.log_start_offset == (0 if numbers else -1)
    assert store["flights"].log(0).log_end_offset == 1


def test_acks_0_gets_no_answer_and_a_refused_one_closes_the_connection(store: Store, broker: Broker) -> None:
    store.create_topic("flights")
    with Wire(broker) as wire:
        wire.send(_request(BATCH, acks=0), 9)
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        assert store["flights"].log(0).log_end_offset == 2
        wire.send(_request(b"", acks=0), 9)
        assert wire.frame() == b""
