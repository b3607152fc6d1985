"""A fetch that is answered from its bytes gets the bytes that the decoded one gets, and is counted as that one."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from logstore.broker import Broker
from logstore.broker.requests import FAMILIES, FETCH
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest
from logstore.store import Store
from tests.broker.fetching.twins import (
    NAMES,
    REQUESTS,
    SEED,
    UNKNOWN_ID,
    Choices,
    answered_from_bytes,
    counts_of,
    partition_of,
    spoiled,
)
from tests.broker.wire import Wire

VERSIONS = range(FAMILIES[FETCH].min_version, FAMILIES[FETCH].max_version + 1)


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
    counts = counts_of(quick)
    assert counts == counts_of(decoding)
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
