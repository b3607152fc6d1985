"""The same produce requests, good and bad, in each version, to a real broker and to ours: the answers are alike.

What may differ stands in `OWN` and `DIFFERENT`, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import logstore
from logstore.batch._encode import encode
from logstore.broker import serve
from logstore.broker.requests import FAMILIES, PRODUCE
from logstore.protocol.generated import messages as m
from logstore.records import Codec
from tests.broker.wire import Wire
from tests.interop.broker import Broker
from tests.interop.test_administration import Twins, _leads, plain
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SEED = 2026
TOPICS = ("flights", "keyed")
#: Kafka's words differ from ours, and each broker gives topics ids of its own.
OWN = frozenset({"error_message", "batch_index_error_message", "topic_id", "throttle_time_ms"})

INVALID_RECORD = 87
#: Of a batch that a log refuses: Kafka tells its start and each record, we tell the error alone.
DIFFERENT = ("log_start_offset", "record_errors")


@pytest.fixture(scope="module")
def twins(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    directory = tmp_path_factory.mktemp("twins")
    with (
        Broker(directory / "kafka") as kafka,
        logstore.open(directory / "ours", {"log.retention.ms": -1, "auto.create.topics.enable": "false"}) as store,
        serve(store, "127.0.0.1:0") as ours,
    ):
        host, _, port = kafka.bootstrap.rpartition(":")
        place: Any = SimpleNamespace(address=(host, int(port)))
        with Wire(place) as one, Wire(ours) as other:
            made = Twins(one, other)
            for name in TOPICS:
                kept = m.CreateTopicsRequest.CreatableTopicConfig(name="cleanup.policy", value="compact")
                new = m.CreateTopicsRequest.CreatableTopic(
                    name=name, num_partitions=2, replication_factor=1, configs=[kept] if name == "keyed" else []
                )
                for answer in made.ask(m.CreateTopicsRequest(topics=[new]), 7):
                    assert answer.topics[0].error_code == 0
            wait_for(lambda: all(_leads(one, name, n) for name in TOPICS for n in range(2)))
            yield made


def ids(wire: Wire) -> dict[str, str]:
    """Return the topic ids of one of the two."""
    asked = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in TOPICS]
    found: Any = wire.ask(m.MetadataRequest(topics=asked), 12)
    return {each.name: each.topic_id for each in found.topics}


#: No topic has it.
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAZw"


def batch(rng: Random) -> bytes:
    key = rng.choice([None, b"k", b"key"])
    rows = [(key, b"v" * rng.randrange(50), 1_000 + rng.randrange(9), None) for _ in range(rng.randrange(1, 4))]
    return bytes(encode(rows, codec=rng.choice([Codec.NONE, Codec.GZIP, Codec.LZ4])))


def spoiled(rng: Random) -> bytes:
    """Return what is no batch that a log takes."""
    data = bytearray(batch(rng))
    kind = rng.randrange(4)
    if kind == 0:
        data[17] ^= 1  # of the CRC
    elif kind == 1:
        data[16] = 3  # the magic
    elif kind == 2:
        data += batch(rng)  # two batches
    else:
        del data[30:]
    return bytes(data)


def produce(rng: Random, version: int, topic_ids: dict[str, str]) -> m.ProduceRequest:
    R = m.ProduceRequest
    name = rng.choice([*TOPICS, "flights", "missing"])
    records = batch(rng) if rng.random() < 0.6 else spoiled(rng)
    data = [R.PartitionProduceData(index=rng.choice([0, 0, 1, 5]), records=records)]
    topic = R.TopicProduceData(partition_data=data)
    if version >= 13:
        topic.topic_id = topic_ids.get(name, UNKNOWN_ID)
    else:
        topic.name = name
    return R(acks=rng.choice([-1, 1, 1, 2]), timeout_ms=5_000, topic_data=[topic])


def told(answer: Any) -> Any:
    return plain(answer, OWN)


def _may_differ(kafkas: Any, ours: Any) -> bool:
    """Return whether a refusal of records without keys differs in what `DIFFERENT` names alone."""
    pairs = [
        (one, other)
        for each, twin in zip(kafkas["responses"], ours["responses"], strict=True)
        for one, other in zip(each.get("partition_responses", ()), twin.get("partition_responses", ()), strict=True)
    ]
    for one, other in pairs:
        if one["error_code"] == other["error_code"] == INVALID_RECORD:
            for name in DIFFERENT:
                del one[name], other[name]
    return bool(kafkas == ours)


def differences(twins: Twins, make: Any, key: int, count: int) -> list[tuple[int, Any, Any, Any]]:
    rng = Random(SEED)
    named = ids(twins.kafka), ids(twins.ours)
    family = FAMILIES[key]
    found = []
    for version in range(family.min_version, family.max_version + 1):
        for _ in range(count):
            state = rng.getrandbits(64)
            requests = [make(Random(state), version, each) for each in named]
            one, other = (told(wire.ask(each, version)) for wire, each in zip(twins, requests, strict=True))
            if one != other and not _may_differ(one, other):
                found.append((version, requests[0], one, other))
    return found


def test_produce_has_the_same_outcome_in_each_version(twins: Twins) -> None:
    assert differences(twins, produce, PRODUCE, 40) == []
