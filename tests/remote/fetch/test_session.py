"""Fetch sessions against a broker that keeps them as KIP-227 says: each fetch reads exactly what is wanted."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchResponse as R
from logstore.records import INT32_MAX, TopicPartition
from logstore.remote.fetch.session import FetchLimits, FetchRequests, Verdict, WantedPartition

LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20)

Held = dict[tuple[str, int], tuple[int, int, int]]  #: topic or id, number -> offset, most bytes, leader epoch


class SessionBroker:
    """The sessions of one broker. ``read`` is what the last request made it read."""

    def __init__(self, *, grants: bool = True) -> None:
        self.grants = grants
        self.sessions: dict[int, tuple[int, Held]] = {}
        self.read: Held = {}
        self.named = 0  #: partitions in the last request
        self._next_id = 100

    def answer(self, request: Any, *, quiet: bool = False) -> Any:
        """Answer a request; ``quiet``: no partition of an incremental fetch has anything to say."""
        self.named = sum(len(each.partitions) for each in request.topics)
        named = {
            (topic.topic_id or topic.topic, each.partition): (
                each.fetch_offset, each.partition_max_bytes, each.current_leader_epoch,
            )
            for topic in request.topics
            for each in topic.partitions
        }  # fmt: skip
        if request.session_epoch in (0, -1):
            self.sessions.pop(request.session_id, None)
            self.read = dict(named)
            if request.session_epoch == -1 or not self.grants:
                return self._said(0, self.read)
            self._next_id += 1
            self.sessions[self._next_id] = (1, self.read)
            return self._said(self._next_id, self.read)
        if request.session_id not in self.sessions:
            return R(error_code=70)
        epoch, held = self.sessions[request.session_id]
        if epoch != request.session_epoch:
            return R(error_code=71)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del held[topic.topic_id or topic.topic, number]
        held.update(named)
        self.sessions[request.session_id] = (1 if epoch == INT32_MAX else epoch + 1, held)
        self.read = dict(held)
        return self._said(request.session_id, {} if quiet else held)

    @staticmethod
    def _said(session_id: int, parts: Held) -> Any:
        topics = [
            R.FetchableTopicResponse(
                topic=key, topic_id=key, partitions=[R.PartitionData(partition_index=number, high_watermark=9)]
            )
            for key, number in parts
        ]
        return R(session_id=session_id, responses=topics)


def uuid(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


def wanted(topic: str, number: int = 0, offset: int = 0, *, id: str = "", epoch: int = 3) -> WantedPartition:
    return WantedPartition(TopicPartition(topic, number), offset, 1 << 16, id, epoch)


def expected(each: WantedPartition) -> tuple[tuple[str, int], tuple[int, int, int]]:
    return (each.topic_id or each.partition.topic, each.partition.partition), (
        each.offset, each.max_bytes, each.leader_epoch,
    )  # fmt: skip


def answered(requests: FetchRequests, broker: SessionBroker, *parts: WantedPartition, version: int = 12) -> Any:
    request = requests.next_request(parts, LIMITS, version)
    encode_request(request, version, 1, "client")
    taken = requests.took(broker.answer(request))
    if taken.verdict is Verdict.TAKEN:
        assert broker.read == dict(map(expected, parts))
    return taken


@pytest.mark.parametrize(("version", "id"), [(12, ""), (18, "i")])
def test_later_requests_name_only_what_changed(version: int, id: str) -> None:
    requests, broker = FetchRequests(), SessionBroker()
    parts = [wanted("orders", number, id=id and uuid(1)) for number in range(5)]
    assert len(answered(requests, broker, *parts, version=version).parts) == 5
    assert broker.named == 5
    answered(requests, broker, *parts, version=version)
    assert broker.named == 0
    answered(requests, broker, *parts[:3], parts[3]._replace(offset=7), version=version)
    assert broker.named == 1, "one has another offset, one is forgotten"
    answered(requests, broker, *parts, version=version)
    assert broker.named == 2
    assert len(broker.sessions) == 1


def test_an_answer_of_a_session_names_only_partitions_with_news() -> None:
    requests, broker = FetchRequests(), SessionBroker()
    answered(requests, broker, wanted("orders"))
    answer = broker.answer(requests.next_request([wanted("orders")], LIMITS, 12), quiet=True)
    assert requests.took(answer) == (Verdict.TAKEN, 0, {})


def test_without_a_session_every_request_is_full() -> None:
    requests, broker = FetchRequests(), SessionBroker(grants=False)
    for _ in range(3):
        assert answered(requests, broker, wanted("orders")).verdict is Verdict.TAKEN
        assert broker.named == 1
    assert requests.closing_request() is None


def test_an_old_broker_gets_no_session() -> None:
    requests, broker = FetchRequests(), SessionBroker()
    for _ in range(2):
        answered(requests, broker, wanted("orders"), version=6)
        assert broker.named == 1
    assert broker.sessions == {}


def test_a_topic_made_again_takes_the_place_of_the_former_one() -> None:
    requests, broker = FetchRequests(), SessionBroker()
    answered(requests, broker, wanted("orders", id=uuid(1)), version=18)
    answered(requests, broker, wanted("orders", id=uuid(2)), version=18)
    assert [key for key, _ in broker.read] == [uuid(2)]


def test_a_topic_without_id_is_asked_for_by_name_in_a_new_session() -> None:
    requests, broker = FetchRequests(), SessionBroker()
    parts = [wanted("orders", id=uuid(1)), wanted("others")]
    assert FetchRequests.version_for(parts[:1], 18) == 18
    assert FetchRequests.version_for(parts, 18) == 12
    answered(requests, broker, parts[0], version=18)
    request = requests.next_request(parts, LIMITS, 12)
    assert request.session_epoch == 0
    assert [each.topic for each in request.topics] == ["orders", "others"]


@pytest.mark.parametrize("code", [70, 71, 100, 103, 106])
def test_an_error_of_the_session_makes_the_next_request_full(code: int) -> None:
    requests, broker = FetchRequests(), SessionBroker()
    answered(requests, broker, wanted("orders"))
    former = requests.session_id
    requests.next_request([wanted("orders")], LIMITS, 12)
    assert requests.took(R(error_code=code)) == (Verdict.BEGINS_AGAIN, code, {})
    request = requests.next_request([wanted("orders")], LIMITS, 12)
    assert request.session_epoch == 0
    assert request.session_id == (0 if code == 70 else former), "a session that exists is closed"
    assert len(request.topics) == 1


def test_an_error_of_the_request_is_told() -> None:
    requests = FetchRequests()
    requests.next_request([wanted("orders")], LIMITS, 12)
    assert requests.took(R(error_code=31)).verdict is Verdict.REFUSED


def test_a_throttled_answer_is_none() -> None:
    requests, broker = FetchRequests(), SessionBroker()
    requests.next_request([wanted("orders")], LIMITS, 12)
    assert requests.took(R(throttle_time_ms=100)).verdict is Verdict.THROTTLED
    assert answered(requests, broker, wanted("orders")).verdict is Verdict.TAKEN
    request = requests.next_request([wanted("orders")], LIMITS, 12)
    throttled = broker.answer(request, quiet=True)
    throttled.throttle_time_ms = 100
    assert requests.took(throttled).verdict is Verdict.THROTTLED
    assert answered(requests, broker, wanted("orders")).verdict is Verdict.TAKEN
    assert broker.named == 0, "the session goes on"


@pytest.mark.parametrize("answer", ["lacks one", "has one more", "has one twice", "another session"])
def test_an_answer_that_does_not_fit_is_not_used(answer: str) -> None:
    requests, broker = FetchRequests(), SessionBroker()
    parts = [wanted("orders", 0), wanted("orders", 1)]
    if answer == "another session":
        answered(requests, broker, *parts)
    told = broker.answer(requests.next_request(parts, LIMITS, 12))
    if answer == "lacks one":
        told.responses = told.responses[:1]
    elif answer == "has one more":
        told.responses[1].partitions[0].partition_index = 2
    elif answer == "has one twice":
        told.responses = [*told.responses, told.responses[0]]
    else:
        told.session_id += 1
    assert requests.took(told) == (Verdict.BEGINS_AGAIN, 0, {})
    assert answered(requests, broker, *parts).verdict is Verdict.TAKEN
    assert broker.named == 2


def test_the_end_of_a_consumer_closes_its_session() -> None:
    requests, broker = FetchRequests(), SessionBroker()
    assert requests.closing_request() is None
    answered(requests, broker, wanted("orders"))
    closing = requests.closing_request()
    broker.answer(closing)
    assert broker.sessions == {}
    assert requests.closing_request() is None


def test_epochs_begin_again_with_one() -> None:
    requests, broker = FetchRequests(), SessionBroker()
    answered(requests, broker, wanted("orders"))
    requests._epoch = INT32_MAX
    broker.sessions[requests.session_id] = (INT32_MAX, broker.sessions[requests.session_id][1])
    for _ in range(2):
        assert answered(requests, broker, wanted("orders")).verdict is Verdict.TAKEN


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_lost_a_fetch_reads_exactly_what_is_wanted(seed: int) -> None:
    """Requests and answers are lost, the broker forgets sessions, partitions come, go, move and are made again."""
    rng = random.Random(seed)
    requests, broker = FetchRequests(), SessionBroker()
    parts: dict[TopicPartition, WantedPartition] = {}
    generation, taken = 0, 0
    for _ in range(300):
        for _ in range(rng.randrange(4)):
            topic, number = rng.choice(["orders", "payments"]), rng.randrange(6)
            chance = rng.random()
            if chance < 0.3:
                parts.pop(TopicPartition(topic, number), None)
            elif chance < 0.35:
                generation += 1
                parts = {key: each for key, each in parts.items() if key.topic != topic}
            else:
                topic_id = uuid(2 * generation + (topic == "orders") + 1)
                moved = wanted(topic, number, rng.randrange(50), id=topic_id, epoch=rng.randrange(3))
                parts = {
                    key: each for key, each in parts.items() if key.topic != topic or each.topic_id == topic_id
                }
                parts[moved.partition] = moved
        order = list(parts.values())
        rng.shuffle(order)
        if rng.random() < 0.05:
            broker.sessions.clear()
        version = 12 if rng.random() < 0.03 else 18
        request = requests.next_request(order, LIMITS, version)
        fate = rng.random()
        if fate < 0.05:
            requests.lost()  # before the broker has it
            continue
        answer = broker.answer(request, quiet=rng.random() < 0.3)
        if fate < 0.1:
            requests.lost()
            continue
        found = requests.took(answer)
        if found.verdict is Verdict.TAKEN:
            taken += 1
            by_id = version == 18
            assert broker.read == {
                (each.topic_id if by_id else each.partition.topic, each.partition.partition): expected(each)[1]
                for each in order
            }, f"seed {seed}"
            assert found.parts.keys() <= parts.keys()
    assert taken > 200, f"seed {seed}"
    assert len(broker.sessions) <= 2, "sessions in doubt are closed"
