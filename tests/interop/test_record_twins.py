"""The same produce and fetch requests, good and bad, in each version, to a real broker and to ours: alike answers.

What may differ stands in `OWN`, with its reason.
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
from logstore.broker.requests import FAMILIES, FETCH, PRODUCE
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
    found: Any = wire.ask(m.MetadataRequest(topics=None), 12)
    return {each.name: each.topic_id for each in found.topics}


#: No topic has it.
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAZw"


def batch(rng: Random, base_ms: int = 1_000) -> bytes:
    keys = rng.choice([[None], [b"k"], [b"key", None]])
    rows = [
        (rng.choice(keys), b"v" * rng.randrange(50), base_ms + rng.randrange(9), None)
        for _ in range(rng.randrange(1, 4))
    ]
    return bytes(encode(rows, codec=rng.choice([Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])))


def spoiled(rng: Random) -> bytes:
    """Return what is no batch that a log takes."""
    kind = rng.randrange(5)
    data = bytearray(batch(rng, 1 << 50 if kind == 4 else 1_000))
    if kind == 0:
        data[17] ^= 1  # of the CRC
    elif kind == 1:
        data[16] = 3  # the magic
    elif kind == 2:
        data += batch(rng)  # two batches
    elif kind == 3:
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
    """Return what is compared of an answer."""
    return _with_whole_batches(plain(answer, OWN))


def _with_whole_batches(value: Any) -> Any:
    """Return an answer whose records, views of what a connection received, are the bytes of whole batches.

    Kafka cuts the last batch where ``max_bytes`` ends; we leave it out. No client can read such a piece.
    """
    if isinstance(value, list):
        return [_with_whole_batches(each) for each in value]
    if isinstance(value, dict):
        return {name: _with_whole_batches(each) for name, each in value.items()}
    if not isinstance(value, memoryview):
        return value
    end = 0
    while end + 12 <= len(value) and (after := end + 12 + int.from_bytes(value[end + 8 : end + 12])) <= len(value):
        end = after
    return bytes(value[:end])


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
            if one != other:
                found.append((version, requests[0], one, other))
    return found


def test_produce_has_the_same_outcome_in_each_version(twins: Twins) -> None:
    assert differences(twins, produce, PRODUCE, 40) == []


# --- fetch ---------------------------------------------------------------------------------------

BATCHES, DELETED = 12, 4


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    """Both with the same batches of several records in `read`; the first ones are deleted."""
    new = m.CreateTopicsRequest.CreatableTopic(name="read", num_partitions=2, replication_factor=1)
    for answer in twins.ask(m.CreateTopicsRequest(topics=[new]), 7):
        assert answer.topics[0].error_code == 0
    wait_for(lambda: all(_leads(twins.kafka, "read", n) for n in range(2)))
    R = m.ProduceRequest
    rng = Random(SEED)
    for _ in range(BATCHES):
        data = [R.PartitionProduceData(index=0, records=batch(rng))]
        request = R(acks=-1, timeout_ms=5_000, topic_data=[R.TopicProduceData(name="read", partition_data=data)])
        for answer in twins.ask(request, 9):
            assert answer.responses[0].partition_responses[0].error_code == 0
    D = m.DeleteRecordsRequest
    deleted = D.DeleteRecordsPartition(partition_index=0, offset=DELETED)
    deletion = D(topics=[D.DeleteRecordsTopic(name="read", partitions=[deleted])], timeout_ms=5_000)
    for answer in twins.ask(deletion, 2):
        assert answer.topics[0].partitions[0].error_code == 0
    return twins


def fetched_partition(rng: Random, version: int) -> m.FetchRequest.FetchPartition:
    return m.FetchRequest.FetchPartition(
        partition=rng.choice([0, 0, 0, 1, 5]),
        current_leader_epoch=rng.choice([-1, -1, -1, 0, 3]),
        fetch_offset=rng.choice([0, DELETED, 5, 6, 7, 9, 1_000, -1]),
        last_fetched_epoch=rng.choice([-1, -1, -1, 0, 3]) if version >= 12 else -1,
        partition_max_bytes=rng.choice([0, 1, 100, 1 << 20]),
    )


def fetch(rng: Random, version: int, topic_ids: dict[str, str]) -> m.FetchRequest:
    R = m.FetchRequest
    topics = []
    for name in rng.sample(["read", "flights", "missing"], rng.choice([1, 1, 1, 2])):
        topic = R.FetchTopic(partitions=[fetched_partition(rng, version) for _ in range(rng.choice([1, 1, 2]))])
        if version >= 13:
            topic.topic_id = topic_ids.get(name, UNKNOWN_ID)
        else:
            topic.topic = name
        topics.append(topic)
    return R(
        replica_id=-1,
        max_wait_ms=rng.choice([0, 1]),
        min_bytes=rng.choice([0, 1, 100]),
        # Of other sizes Kafka's piece of a last batch leaves less for the next partition.
        max_bytes=rng.choice([1, 1 << 20]),
        isolation_level=rng.choice([0, 1]),
        session_id=rng.choice([0, 0, 0, 0, 77]),
        session_epoch=rng.choice([-1, -1, -1, -1, 5]),
        topics=topics,
    )


def test_fetch_has_the_same_outcome_in_each_version(filled: Twins) -> None:
    assert differences(filled, fetch, FETCH, 60) == []


class Session:
    """One fetch session with each of the two, from its first request to its last."""

    def __init__(self, twins: Twins, version: int) -> None:
        self.twins, self.version = twins, version
        self.named = ids(twins.kafka), ids(twins.ours)
        self.numbers = [0, 0]

    def fetch(self, epoch: int, **asked: int) -> tuple[Any, Any]:
        """Fetch partitions 0 of topics from offsets, which are added to the session; what both answer."""
        return self._both(epoch, asked, [])

    def forget(self, epoch: int, *names: str) -> tuple[Any, Any]:
        return self._both(epoch, {}, [*names])

    def _both(self, epoch: int, asked: dict[str, int], forgotten: list[str]) -> tuple[Any, Any]:
        R = m.FetchRequest
        answers = []
        for n, (wire, topic_ids) in enumerate(zip(self.twins, self.named, strict=True)):
            topics = [R.FetchTopic(partitions=[R.FetchPartition(fetch_offset=at)]) for at in asked.values()]
            left = [R.ForgottenTopic(partitions=[0]) for _ in forgotten]
            named: list[tuple[str, Any]] = [*zip(asked, topics, strict=True), *zip(forgotten, left, strict=True)]
            for name, each in named:
                if self.version >= 13:
                    each.topic_id = topic_ids.get(name, UNKNOWN_ID)
                else:
                    each.topic = name
            for topic in topics:
                topic.partitions[0].partition_max_bytes = 1 << 20
            request = R(max_bytes=1 << 20, session_id=self.numbers[n], session_epoch=epoch, topics=topics)
            request.forgotten_topics_data = left
            answer: Any = wire.ask(request, self.version)
            self.numbers[n] = answer.session_id or self.numbers[n]
            # Each chooses its own number.
            answer.session_id = int(answer.session_id != 0)
            answers.append(told(answer))
        return answers[0], answers[1]


def appended(twins: Twins, name: str) -> None:
    R = m.ProduceRequest
    data = [R.PartitionProduceData(index=0, records=bytes(encode([b"more"], timestamp_ms=1_000)))]
    request = R(acks=-1, timeout_ms=5_000, topic_data=[R.TopicProduceData(name=name, partition_data=data)])
    for answer in twins.ask(request, 9):
        assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_a_fetch_session_goes_as_with_kafka_from_its_first_request_to_its_last(filled: Twins, version: int) -> None:
    session = Session(filled, version)
    steps = {
        "begun": session.fetch(0, read=DELETED, flights=0),
        "as before": session.fetch(1),
        "with another offset": session.fetch(2, read=9),
        "at the end": session.fetch(3, read=1_000_000),
        "with a missing topic": session.fetch(4, missing=0),
        "with less": session.forget(5, "missing", "flights"),
        "twice": session.fetch(5),
        "too late": session.fetch(9),
        "as known": session.fetch(6),
    }
    assert all(session.numbers)
    appended(filled, "read")
    steps |= {
        "with new records": session.fetch(7, read=9),
        "with nothing": session.forget(8, "read"),
        "closed": session.fetch(-1),
        "after its end": session.fetch(9),
    }
    kafkas, ours = ({name: answers[n] for name, answers in steps.items()} for n in range(2))
    assert ours == kafkas
