"""Sessions of followers: a request names what has changed, and whatever goes wrong asks for everything again."""

from __future__ import annotations

import threading

import pytest

from logstore.replication.api import FetchFrom
from logstore.replication.fetch_messages import (
    FIRST_EPOCH,
    NO_SESSION,
    SESSION_NOT_FOUND,
    WRONG_SESSION_EPOCH,
    LeaderResponse,
    Question,
    Session,
    Slot,
    decode_answers,
    decode_question,
    encode_answers,
    encode_question,
)
from logstore.replication.node import answers
from tests.kit.waiting import wait_for
from tests.replication.node.nodes import Cluster

PARTITIONS = 20


class Asked:
    """Every question that followers ask, and what is answered."""

    def __init__(self, cluster: Cluster) -> None:
        self.rounds: list[tuple[Question, LeaderResponse]] = []
        cluster.transport.alter = self

    def __call__(self, request: bytes, answer: bytes) -> bytes:
        question = decode_question(request)
        self.rounds.append((question, decode_answers(answer, question.correlation_id)))
        return answer


class Follower:
    """Node 2's part, played by a test."""

    def __init__(self, cluster: Cluster, partitions: int = 1) -> None:
        cluster.start(1, 2)
        self.topic = cluster.nodes[1].create_topic("t", replicas=[1, 2])
        self.topics = [cluster.nodes[1].create_topic(f"t{n}", replicas=[1, 2]) for n in range(1, partitions)]
        wait_for(lambda: all(each.isr == (1, 2) for each in cluster.nodes[1].metrics()))
        seen = Asked(cluster)
        wait_for(lambda: any(question.node == 2 for question, _ in seen.rounds))
        self.life = next(question.life for question, _ in seen.rounds if question.node == 2)
        cluster.kill(2)
        self.node = cluster.nodes[1]
        self._slots = {each.place: each.slot for each in self.node._members()}
        self.number = 0

    def wants(self, offset: int, topic: str = "t") -> dict[Slot, FetchFrom]:
        slot = self._slots[topic, 0]
        epoch = next(each.leader_epoch for each in self.node.metrics() if each.topic == topic)
        return {slot: FetchFrom(2, self.life, epoch, offset, epoch if offset else -1, 0, 1 << 20)}

    def ask(
        self, wants, session=NO_SESSION, *, life=0, forgotten=(), wait_ms=0, max_bytes=1 << 20
    ) -> LeaderResponse:
        self.number = number = self.number + 1
        request = encode_question(
            wants,
            node=2,
            life=self.life + life,
            wait_ms=wait_ms,
            max_bytes=max_bytes,
            correlation_id=number,
            session=session,
            forgotten=forgotten,
        )
        return decode_answers(self.node.answer(request), number)

    def begin(self, wants, **options) -> tuple[LeaderResponse, Session]:
        found = self.ask(wants, Session(0, FIRST_EPOCH), **options)
        assert found.session_id > 0
        return found, Session(found.session_id, 1)


def following(session: Session) -> Session:
    return session._replace(epoch=session.epoch + 1)


@pytest.mark.row("S9", part="a request names what has changed")
def test_a_busy_partition_among_idle_ones_is_named_alone(tmp_path):
    cluster = Cluster(tmp_path, fetch_wait_ms=50)
    try:
        cluster.start(1, 2)
        topics = [cluster.nodes[1].create_topic(f"t{n}", replicas=[1, 2]) for n in range(PARTITIONS)]
        wait_for(lambda: all(each.isr == (1, 2) for each in cluster.nodes[1].metrics()))
        topics[0].append(b"before", acks="all")
        seen = Asked(cluster)
        # The session has every partition: the last states have come, and nothing is new.
        wait_for(lambda: any(question.session.epoch > 5 and not question.wants for question, _ in seen.rounds))
        seen.rounds.clear()
        for number in range(50):
            topics[3].append(b"%d" % number, acks="all")
        cluster.transport.alter = lambda request, answer: answer
        rounds = list(seen.rounds)
        assert len(rounds) > 20
        # Now and then both sides look at everything; a partition whose question is the same is still not named.
        assert sum(len(question.wants) for question, _ in rounds) <= 2 * len(rounds)
        assert sum(len(response.answers) for _, response in rounds) <= 3 * len(rounds)
        log = cluster.stores[2]["t3"][0]
        wait_for(lambda: log.high_watermark == 50)
    finally:
        cluster.close()


def test_only_what_has_changed_is_answered(cluster):
    follower = Follower(cluster, 3)
    whole = {**follower.wants(0), **follower.wants(0, "t1"), **follower.wants(0, "t2")}
    found, session = follower.begin(whole)
    assert found.answers.keys() == whole.keys()
    assert follower.ask({}, session).answers == {}
    follower.topics[0].append(b"a", acks=1)
    found = follower.ask({}, session := following(session))
    assert found.answers.keys() == follower.wants(0, "t1").keys()
    # Not taken: it is answered again, until the question is another one.
    found = follower.ask({}, session := following(session))
    assert [bool(each.records) for each in found.answers.values()] == [True]
    found = follower.ask(follower.wants(1, "t1"), session := following(session))
    assert all(not each.records for each in found.answers.values())
    # The high watermark has risen by that question, to 1, and is told once.
    assert [each.high_watermark for each in found.answers.values()] == [1]
    assert follower.ask({}, following(session)).answers == {}


def test_a_partition_that_is_forgotten_is_not_answered(cluster):
    follower = Follower(cluster, 2)
    _, session = follower.begin({**follower.wants(0), **follower.wants(0, "t1")})
    follower.topic.append(b"a", acks=1)
    follower.topics[0].append(b"b", acks=1)
    found = follower.ask({}, session, forgotten=list(follower.wants(0)))
    assert found.answers.keys() == follower.wants(0, "t1").keys()


def test_a_request_that_waits_ends_with_a_record_and_with_another_session(cluster):
    follower = Follower(cluster)
    _, session = follower.begin(follower.wants(0))
    found: list[LeaderResponse] = []

    def waits(session: Session) -> threading.Thread:
        thread = threading.Thread(target=lambda: found.append(follower.ask({}, session, wait_ms=20_000)))
        thread.start()
        wait_for(lambda: follower.node._answers._waiting)
        return thread

    thread = waits(session)
    follower.topic.append(b"a", acks=1)
    thread.join(10)
    assert [bytes(each.records)[-2:-1] for each in found[0].answers.values()] == [b"a"]
    follower.ask(follower.wants(1), following(session))
    thread = waits(Session(session.id, 3))
    _, newest = follower.begin(follower.wants(1))
    thread.join(10)
    assert (found[1].answers, found[1].has_lost_session) == ({}, True)
    assert not follower.ask({}, newest).has_lost_session


@pytest.mark.parametrize(
    "wrong",
    [
        lambda session: Session(session.id, session.epoch - 1),
        lambda session: Session(session.id, session.epoch + 1),
        lambda session: Session(session.id % (2**31 - 1) + 1, session.epoch),
    ],
    ids=["repeated", "too early", "of another"],
)
def test_a_request_out_of_turn_is_refused_and_changes_nothing(cluster, wrong):
    follower = Follower(cluster)
    _, session = follower.begin(follower.wants(0))
    follower.ask({}, session)
    session = following(session)
    follower.topic.append(b"a", acks=1)
    found = follower.ask(follower.wants(1), wrong(session))
    assert (found.answers, found.has_lost_session) == ({}, True)
    assert follower.topic[0].high_watermark == 0
    assert [bool(each.records) for each in follower.ask({}, session).answers.values()] == [True]


def test_a_process_of_before_takes_no_session_away(cluster):
    follower = Follower(cluster)
    _, session = follower.begin(follower.wants(0))
    late = follower.ask(follower.wants(0), Session(0, FIRST_EPOCH), life=-1)
    assert late.session_id == 0
    assert follower.ask({}, session, life=-1).has_lost_session
    assert not follower.ask({}, session).has_lost_session


def test_without_a_session_and_beyond_the_most_everything_is_answered(cluster, monkeypatch):
    follower = Follower(cluster)
    for _ in range(2):
        found = follower.ask(follower.wants(0))
        assert (found.session_id, len(found.answers)) == (0, 1)
    monkeypatch.setattr(answers, "MAX_SESSIONS", 0)
    follower.node._answers._sessions.clear()
    for _ in range(2):
        found = follower.ask(follower.wants(0), Session(0, FIRST_EPOCH))
        assert (found.session_id, len(found.answers)) == (0, 1)


def test_an_answer_is_no_larger_than_asked_and_every_partition_has_its_turn(cluster):
    follower = Follower(cluster, 4)
    topics = [follower.topic, *follower.topics]
    for topic in topics:
        topic.append(bytes(10_000), acks=1)
    names = ["t", "t1", "t2", "t3"]
    whole = {slot: wants for name in names for slot, wants in follower.wants(0, name).items()}
    found, session = follower.begin(whole, max_bytes=1)
    served: list[Slot] = []
    for _ in range(8):
        assert all(each.refusal is None for each in found.answers.values())
        [slot] = [slot for slot, each in found.answers.items() if each.records]
        served.append(slot)
        found = follower.ask({}, session, max_bytes=1)
        session = following(session)
    assert set(served[:4]) == set(served[4:]) == set(whole)


def test_a_leader_that_has_started_again_is_asked_for_everything(cluster):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    cluster.kill(1)
    wait_for(lambda: cluster.leader() == 2)
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2))
    cluster.stores[2]["t"].append(b"b", acks="all")
    wait_for(lambda: cluster.values(1) == [b"a", b"b"])


@pytest.mark.parametrize(
    "alter",
    [
        lambda answer, number: encode_answers(answer.answers, number, session_id=7),
        lambda answer, number: encode_answers({}, number, error_code=SESSION_NOT_FOUND),
        lambda answer, number: encode_answers({}, number, error_code=WRONG_SESSION_EPOCH),
        lambda answer, number: encode_answers({}, number, error_code=1),
        lambda answer, number: encode_answers(answer.answers, number),
    ],
    ids=["of another session", "not found", "out of turn", "an error", "of no session"],
)
def test_whatever_a_leader_says_of_the_session_the_follower_asks_again(cluster, alter):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    wrong = 0

    def altered(request: bytes, answer: bytes) -> bytes:
        nonlocal wrong
        question = decode_question(request)
        if question.node != 2 or wrong == 5:
            return answer
        wrong += 1
        return alter(decode_answers(answer, question.correlation_id), question.correlation_id)

    cluster.transport.alter = altered
    wait_for(lambda: wrong == 5)
    topic.append(b"a", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a"])
