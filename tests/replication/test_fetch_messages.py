"""Questions and answers as Kafka's Fetch: read as they were written, and every other input refused."""

from __future__ import annotations

import random

import pytest

from logstore.errors import ProtocolError
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest, MetadataRequest
from logstore.replication import Diverging, FetchAnswer, FetchFrom, FetchRefusal
from logstore.replication.fetch_messages import (
    Slot,
    decode_answers,
    decode_question,
    encode_answers,
    encode_question,
)
from logstore.store.catalog.topic_list import new_id

TOPIC = new_id()
WANTS = {
    Slot(TOPIC, 0): FetchFrom(2, 7, 4, 100, 3, 5, 1 << 20),
    Slot(TOPIC, 9): FetchFrom(2, 7, 1, 0, -1, 0, 1),
    Slot(new_id(), 0): FetchFrom(2, 7, 0, 2**62, 2**31 - 1, 2**62, 2**31 - 1),
}
ANSWERS = {
    Slot(TOPIC, 0): FetchAnswer(4, 90, 5, b"some bytes"),
    Slot(TOPIC, 1): FetchAnswer(4, -1, 5, None, Diverging(2, 9)),
    Slot(TOPIC, 2): FetchAnswer(4, 0, 0),
    Slot(TOPIC, 3): FetchAnswer(4, 90, 5, b"some bytes", dropped_end=7),
    **{Slot(TOPIC, 10 + refusal): FetchAnswer(4, refusal=refusal) for refusal in FetchRefusal},
}


def question() -> bytes:
    return encode_question(WANTS, node=2, life=7, wait_ms=500, max_bytes=1 << 20, correlation_id=9)


def test_a_question_is_read_as_it_was_written():
    found = decode_question(question())
    assert (found.node, found.life, found.wait_ms, found.correlation_id) == (2, 7, 500, 9)
    assert found.wants == WANTS


def test_an_answer_is_read_as_it_was_written():
    found = decode_answers(encode_answers(ANSWERS, 9), 9).answers
    assert {
        slot: each._replace(records=each.records and bytes(each.records)) for slot, each in found.items()
    } == ANSWERS


def test_a_partition_that_is_unknown_is_refused():
    [found] = decode_answers(encode_answers({Slot(TOPIC, 0): None}, 9), 9).answers.values()
    assert found.refusal is FetchRefusal.NOT_LEADER


def test_an_answer_to_another_question_is_refused():
    with pytest.raises(ProtocolError, match="an answer to request 9, expected one to 10"):
        decode_answers(encode_answers(ANSWERS, 9), 10)


@pytest.mark.parametrize("message", [MetadataRequest(topics=None), FetchRequest(replica_id=-1)])
def test_a_request_of_another_kind_is_refused(message):
    version = 12 if isinstance(message, MetadataRequest) else 4
    with pytest.raises(ProtocolError):
        decode_question(encode_request(message, version, 1, None)[4:])


@pytest.mark.parametrize("made", [question, lambda: encode_answers(ANSWERS, 9)], ids=["question", "answer"])
def test_cut_and_flipped_bytes_are_refused_or_are_another_message(made):
    whole, chance = made(), random.Random(1)

    def read(data: bytes) -> None:
        try:
            decode_question(data) if made is question else decode_answers(data, 9)
        except ProtocolError:
            pass

    for end in range(len(whole)):
        read(whole[:end])
    for _ in range(3_000):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        read(bytes(data))
