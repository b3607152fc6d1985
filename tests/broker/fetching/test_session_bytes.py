"""A step of a session that is answered from its bytes gets, and leaves, what the decoded one does."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from random import Random

import pytest

from logstore.broker import Broker, serve
from logstore.broker.fetching._routes import FetchRoute
from logstore.broker.fetching.fetches import Fetches
from logstore.broker.requests import FAMILIES, FETCH
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest, FetchResponse
from logstore.store import Store
from tests.broker.fetching.twins import (
    DELETED,
    NAMES,
    REQUESTS,
    SEED,
    UNKNOWN_ID,
    Choices,
    counts_of,
    spoiled,
)
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

VERSIONS = range(7, FAMILIES[FETCH].max_version + 1)
CLIENTS = 3


class SessionOfTwo:
    """A client with a session in each of two brokers."""

    def __init__(self) -> None:
        self.numbers = [0, 0]
        self.epoch = 0
        self.is_usual = True

    def learn(self, answers: list[bytes], version: int) -> list[bytes]:
        """Take the next epoch, if the brokers did; return the answers without the numbers of the sessions."""
        at = 10 + (version >= 12)  # behind correlation id, throttle time and error
        plain = []
        found = []
        for n, answer in enumerate(answers):
            code, number = struct.unpack_from(">hi", answer, at - 2)
            known = self.numbers[n]
            found.append((code, number))
            is_ours = number != 0 and (self.epoch == 0 or number == known)
            plain.append(answer[:at] + (b"ours" if is_ours else b"none") + answer[at + 4 :])
        if found[0][0] == 0:
            self.numbers = [number for _, number in found]
            self.epoch = self.epoch + 1 if all(self.numbers) else 0
        return plain


def topics_of(
    rng: Random, choose: Choices, version: int, store: Store, ids: dict[str, str], most: int
) -> Iterator[FetchRequest.FetchTopic]:
    for name in rng.choices(NAMES[:-1] if choose.is_usual else NAMES, k=choose.of(range(most + 1), [0])):
        partitions = []
        for _ in range(rng.choice([1, 1, 2])):
            partition = choose.of([0, 1], [2, 5, -1])
            start, end = DELETED, 80
            if name in ids and 0 <= partition < 2:
                log = store[name].log(partition)
                start, end = log.log_start_offset, rng.choice([log.high_watermark, log.last_stable_offset])
            partitions.append(
                FetchRequest.FetchPartition(
                    partition=partition,
                    current_leader_epoch=choose.of([-1, -1, 0], [3]),
                    fetch_offset=choose.of([end, end, end, end - 1, rng.randrange(start, end)], [0, 1_000, -1]),
                    last_fetched_epoch=choose.of([-1, 0], [2, 3]) if version >= 12 else -1,
                    partition_max_bytes=choose.of([100, 700, 1 << 20], [0, -1]),
                )
            )
        topic = FetchRequest.FetchTopic(partitions=partitions)
        if version >= 13:
            topic.topic_id = ids.get(name, UNKNOWN_ID)
        else:
            topic.topic = name
        yield topic


def step_of(
    rng: Random, version: int, store: Store, ids: dict[str, str], epoch: int, is_usual: bool
) -> FetchRequest:
    """Return a request that begins or goes on with a session."""
    choose = Choices(rng)
    choose.is_usual = is_usual
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=rng.choice([0, 1]),
        min_bytes=choose.of([0, 1], [1_000]),
        max_bytes=choose.of([500, 1 << 20], [0, 1]),
        isolation_level=rng.choice([0, 0, 1]),
        session_epoch=epoch,
        topics=list(topics_of(rng, choose, version, store, ids, 2 if epoch else 6)),
    )
    if version >= 11:
        request.rack_id = choose.of(["", "east"], ["größte"])
    if epoch and rng.random() < 0.2:
        for name in rng.choices(NAMES, k=rng.choice([1, 1, 2])):
            forgotten = FetchRequest.ForgottenTopic(partitions=rng.choices([0, 1, 5], k=rng.choice([0, 1, 2])))
            if version >= 13:
                forgotten.topic_id = ids.get(name, UNKNOWN_ID)
            else:
                forgotten.topic = name
            request.forgotten_topics_data = [*request.forgotten_topics_data, forgotten]
    return request


def changed(rng: Random, store: Store, n: int) -> None:
    """Append to some partitions; sometimes make a topic, begin an epoch, or delete records."""
    for name in rng.sample(NAMES[:-1], k=rng.choice([0, 0, 1, 2])):
        partition = rng.randrange(2)
        log = store[name].log(partition)
        log.append([b"v" * rng.randrange(60)] * rng.randrange(1, 3))
        if name != "plain" and log.high_watermark < log.log_end_offset:
            log.replica.advance_high_watermark(rng.randrange(log.high_watermark, log.log_end_offset) + 1)
    if n % 97 == 50:
        store.create_topic(f"made-{n}")
    if n == 400:
        store["plain"].log(1).replica.begin_epoch(2)
    if n % 150 == 149:
        store["mixed"].log(0).delete_before(DELETED + n // 60)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_go_on_alike_with_a_session(
    store: Store, quick: Broker, decoding: Broker, topics: dict[str, str], version: int
) -> None:
    rng = Random(SEED + version)
    clients = [SessionOfTwo() for _ in range(CLIENTS)]
    lengths = set()
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker)) for broker in (quick, decoding)]
        for n in range(REQUESTS):
            changed(rng, store, n)
            client = rng.choice(clients)
            if client.epoch == 0 or rng.random() < 0.06:
                client.epoch = 0  # it begins again; the old session stays
                client.is_usual = rng.random() < 0.8
            epoch = client.epoch if rng.random() < 0.97 else client.epoch + rng.choice([1, -1])
            request = step_of(rng, version, store, topics, max(epoch, -1), client.is_usual and rng.random() < 0.97)
            correlation_id = rng.getrandbits(31)
            spoils = rng.random() < 0.1
            state = rng.getstate()
            answers = []
            for wire, number in zip(wires, client.numbers, strict=True):
                request.session_id = number if epoch else 0
                frame = encode_request(request, version, correlation_id, "a test")
                if spoils:
                    rng.setstate(state)  # both are spoiled alike
                    frame = spoiled(rng, frame, version)
                wire.socket.sendall(frame)
                answers.append(wire.frame())
            if not answers[0] or not answers[1]:
                assert answers == [b"", b""], (n, request)
                wires = [stack.enter_context(Wire(broker)) for broker in (quick, decoding)]
                continue
            one, other = client.learn(answers, version)
            assert one == other, (n, request)
            lengths.add(len(one))
    assert len(lengths) > 20, lengths
    assert quick._requests._fetches.steps.answered > REQUESTS // 5
    assert len(quick._requests._fetches.sessions) == len(decoding._requests._fetches.sessions)
    assert counts_of(quick) == counts_of(decoding)


@pytest.mark.parametrize("way", ["quick", "decoding"])
def test_a_session_that_grows_too_large_ends(
    store: Store, topics: dict[str, str], way: str, request: pytest.FixtureRequest
) -> None:
    broker: Broker = request.getfixturevalue(way)
    sessions = broker._requests._fetches.sessions
    sessions.most_partitions = 2

    def ask(wire: Wire, number: int, epoch: int, *partitions: int) -> FetchResponse:
        P = FetchRequest.FetchPartition
        asked = [
            P(partition=each, fetch_offset=40, last_fetched_epoch=-1, partition_max_bytes=99) for each in partitions
        ]
        topic = FetchRequest.FetchTopic(topic="plain", partitions=asked)
        fetch = FetchRequest(
            replica_id=-1, min_bytes=0, max_bytes=99, session_id=number, session_epoch=epoch, topics=[topic]
        )
        found = wire.ask(fetch, 12)
        assert isinstance(found, FetchResponse)
        return found

    with Wire(broker) as wire:
        number = ask(wire, 0, 0, 0).session_id
        assert ask(wire, number, 1, 1).session_id == number > 0
        found = ask(wire, number, 2, 2)
        assert (found.error_code, found.session_id, list(found.responses)) == (70, 0, [])
        assert len(sessions) == 0
        # Its client begins again, and gets all that it asks for without a session.
        found = ask(wire, 0, 0, 0, 1, 2)
        assert (found.error_code, found.session_id) == (0, 0)
        assert [each.partition_index for topic in found.responses for each in topic.partitions] == [0, 1, 2]


def test_an_error_in_a_step_closes_its_connection_and_keeps_no_file_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session outlives the connection."""
    names = ("early", "late")
    for name in names:
        store.create_topic(name).append(b"v")
    route_to, fails = Fetches._route_to, []

    def failing(self: Fetches, topic: bytes, partition: int, is_id: bool) -> FetchRoute | None:
        if topic in fails:
            raise MemoryError
        return route_to(self, topic, partition, is_id)

    def asked(epoch: int, number: int = 0) -> FetchRequest:
        part = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        topics = [FetchRequest.FetchTopic(topic=name, partitions=[part]) for name in names]
        return FetchRequest(max_bytes=1 << 20, session_id=number, session_epoch=epoch, topics=topics)

    monkeypatch.setattr(Fetches, "_route_to", failing)
    with serve(store, "127.0.0.1:0") as broker:
        sessions = broker._requests._fetches.sessions
        with Wire(broker) as wire:
            number = wire.ask(asked(0), 12).session_id
            assert len(wire.ask(asked(1, number), 12).responses) == 2
            store.create_topic("other")  # from now on the ways are looked for again
            fails.append(b"late")
            wire.send(asked(2, number), 12)
            assert wire.frame() == b""
        assert len(sessions) == 1
        store.delete_topic("early")
        wait_for(lambda: not [each for each in open_files() if each.endswith("(deleted)") and "early" in each])


def open_files() -> list[str]:
    found = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"/proc/self/fd/{each}"))
    return found
