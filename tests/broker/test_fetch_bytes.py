"""A fetch that is answered from its bytes gets the bytes that the decoded one gets, and is counted as that one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from logstore.broker import Broker, serve
from logstore.broker.requests import FAMILIES, FETCH, RequestHandler
from logstore.broker.served import Served
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest
from logstore.store import Store
from tests.broker.wire import Wire
from tests.log.read.test_fetch_region import filled

SEED = 2027
NAMES = ("mixed", "plain", "rolled", "missing")
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAZw"
DELETED, END = 7, 80
REQUESTS = 600
VERSIONS = range(FAMILIES[FETCH].min_version, FAMILIES[FETCH].max_version + 1)


class Decoding(RequestHandler):
    """Answers each fetch by its message object."""

    def __init__(self, served: Served) -> None:
        super().__init__(served)
        self.quick = self.quick[:1]


@pytest.fixture
def decoding(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr("logstore.broker.broker.RequestHandler", Decoding)
    with serve(store, "127.0.0.1:0", fetch_max_bytes=3_000) as broker:
        yield broker


@pytest.fixture
def quick(store: Store) -> Iterator[Broker]:
    with serve(store, "127.0.0.1:0", fetch_max_bytes=3_000) as broker:
        yield broker


@pytest.fixture
def topics(store: Store) -> dict[str, str]:
    """Return the ids of topics with transactions, in one segment and in many, and without."""
    for name in NAMES[:-1]:
        settings = {"segment.bytes": 700} if name == "rolled" else {}
        topic = store.create_topic(name, 3, settings)
        for partition in range(2):
            if name == "plain":
                for n in range(40):
                    topic.log(partition).append([b"v" * n, b"w"])
            else:
                filled(topic.log(partition))
        topic.log(0).delete_before(DELETED)
    return {name: store[name].id for name in NAMES[:-1]}


def answered_from_bytes(broker: Broker) -> int:
    return broker._requests.quick[1].answered


class Choices:
    """Chooses values of fields: of a usual request, or of any."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.is_usual = rng.random() < 0.5

    def of(self, usual: Sequence[Any], others: Sequence[Any]) -> Any:
        return self.rng.choice(usual if self.is_usual or self.rng.random() < 0.7 else others)


def partition_of(choose: Choices, version: int) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(
        partition=choose.of([0, 1], [2, 5, -1]),
        current_leader_epoch=choose.of([-1, 0], [3]),
        fetch_offset=choose.of(range(DELETED, END), [0, DELETED - 1, END, 1_000, -1]),
        last_fetched_epoch=choose.of([-1], [0, 3]) if version >= 12 else -1,
        partition_max_bytes=choose.of([1, 100, 700, 1 << 20], [0, -1]),
    )


def request_of(rng: Random, version: int, ids: dict[str, str]) -> FetchRequest:
    choose = Choices(rng)
    topics = []
    for name in rng.choices(NAMES[:-1] if choose.is_usual else NAMES, k=choose.of([1, 1, 2], [0, 3])):
        topic = FetchRequest.FetchTopic(
            partitions=[partition_of(choose, version) for _ in range(choose.of([1, 1, 2], [0, 3]))]
        )
        if version >= 13:
            topic.topic_id = ids.get(name, UNKNOWN_ID)
        else:
            topic.topic = name
        topics.append(topic)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=rng.choice([0, 1]),
        min_bytes=choose.of([0, 1], [1_000]),
        max_bytes=choose.of([500, 1 << 20], [0, 1]),
        isolation_level=rng.choice([0, 1]),
        session_id=choose.of([0], [77]),
        session_epoch=choose.of([-1], [5]),
        topics=topics,
    )
    if version >= 11:
        request.rack_id = choose.of(["", "east"], ["größte"])
    if version >= 7 and choose.of([False], [True]):
        request.forgotten_topics_data = [FetchRequest.ForgottenTopic(topic="plain", partitions=[0])]
        if version >= 13:
            request.forgotten_topics_data[0].topic = ""
    return request


def spoiled(rng: Random, frame: bytes, version: int) -> bytes:
    """Return a frame that is cut, longer, or wrong in a byte behind its times and numbers."""
    kind = rng.randrange(3)
    body = bytearray(frame[4:])
    if kind == 0:
        del body[rng.randrange(8, len(body)) :]
    elif kind == 1:
        body += rng.randbytes(3)
    else:
        begin = 8 + 2 + len("a test") + (version >= 12) + 4 * (version < 15) + 13 + 8 * (version >= 7)
        body[rng.randrange(begin, len(body))] = rng.choice([0, 1, 127, 128, 255])
    return len(body).to_bytes(4, "big") + bytes(body)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_answer_alike(quick: Broker, decoding: Broker, topics: dict[str, str], version: int) -> None:
    rng = Random(SEED + version)
    lengths = set()
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(Wire(broker)) for broker in (quick, decoding))
        for n in range(REQUESTS):
            frame = encode_request(request_of(rng, version, topics), version, rng.getrandbits(31), "a test")
            if n % 4 == 3:
                frame = spoiled(rng, frame, version)
            for wire in (one, other):
                wire.socket.sendall(frame)
            answer = one.frame()
            assert answer == other.frame(), (n, frame)
            lengths.add(len(answer))
            if not answer:
                one, other = (stack.enter_context(Wire(broker)) for broker in (quick, decoding))
    assert len(lengths) > 20
    assert answered_from_bytes(quick) > REQUESTS // 5
    counts, others = (
        {name: (each.fetches, each.failed_fetches, each.bytes_out) for name, each in broker._served.counts.items()}
        for broker in (quick, decoding)
    )
    assert counts == others
    assert counts["plain"][0] > counts["plain"][1] > 0


def test_a_topic_that_is_made_again_is_read_by_its_name_and_by_its_new_id(store: Store, broker: Broker) -> None:
    def read(version: int, topic: FetchRequest.FetchTopic) -> tuple[int, bytes]:
        topic.partitions = [FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)]
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic])
        found = wire.ask(request, version).responses[0].partitions[0]
        return found.error_code, bytes(found.records or b"")

    old = store.create_topic("flights")
    old.append(b"old")
    with Wire(broker) as wire:
        assert b"old" in read(12, FetchRequest.FetchTopic(topic="flights"))[1]
        assert b"old" in read(13, FetchRequest.FetchTopic(topic_id=old.id))[1]
        assert answered_from_bytes(broker) == 2
        store.delete_topic("flights")
        new = store.create_topic("flights")
        new.append(b"new")
        assert b"new" in read(12, FetchRequest.FetchTopic(topic="flights"))[1]
        assert read(13, FetchRequest.FetchTopic(topic_id=old.id)) == (100, b"")
        assert b"new" in read(13, FetchRequest.FetchTopic(topic_id=new.id))[1]
        assert answered_from_bytes(broker) == 4
        new.log(0).delete_before(1)
        assert read(12, FetchRequest.FetchTopic(topic="flights")) == (1, b"")
