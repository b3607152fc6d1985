"""A fetch session with one broker (KIP-227): the broker keeps the list of partitions, requests carry what changed.

`FetchRequests` makes the requests of one consumer to one broker and reads the answers. The first request is a full
one: it names every partition and asks for a session. If the broker grants one, the later requests are incremental:
they name the partitions that are new, that continue at another offset, or that are no longer wanted. After a lost
answer, an error of the session, or an answer that does not fit the session, the next request is a full one again,
and closes the session that is in doubt.

At most one request is out. No socket, no clock; one thread calls it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from logstore.protocol import codes
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import INT32_MAX, TopicPartition

#: The first version that names topics by their ids, and by nothing else.
FETCH_BY_ID_VERSION = 13
#: The first version with sessions.
SESSION_VERSION = 7

_NO_SESSION = 0
_FIRST_EPOCH = 0
_LAST_EPOCH = -1  #: closes a session


class WantedPartition(NamedTuple):
    """What is to be fetched of a partition, and from where on."""

    partition: TopicPartition
    offset: int
    max_bytes: int
    topic_id: str = ""
    leader_epoch: int = -1  #: that the client knows: a broker with another one refuses
    last_fetched_epoch: int = -1  #: of the last batch before ``offset``: a broker whose log differs there says so


class FetchLimits(NamedTuple):
    """What one answer may wait for and hold."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    is_committed: bool = False
    rack: str = ""


class Verdict(Enum):
    """What an answer is good for."""

    TAKEN = "its partitions can be used"
    THROTTLED = "the broker is over this client's quota, and has read nothing"
    BEGINS_AGAIN = "the session is lost: the next request is a full one"
    REFUSED = "the broker refuses the whole request"


class SessionAnswer(NamedTuple):
    """An answer, and its parts by partition. ``code`` is Kafka's error code of the whole, or 0."""

    verdict: Verdict
    code: int
    parts: dict[TopicPartition, Any]


class FetchRequests:
    """Requests of one consumer to one broker, in a session if the broker grants one."""

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._held: dict[TopicPartition, WantedPartition] = {}  #: what the broker holds after the last request
        self._by_id = False
        self._is_out = False

    @property
    def is_out(self) -> bool:
        """Whether a request waits for its answer."""
        return self._is_out

    @property
    def session_id(self) -> int:
        """The broker's number of the session; 0 without a session."""
        return self._session_id

    @staticmethod
    def version_for(wanted: Iterable[WantedPartition], most: int) -> int:
        """Return the version of a request for some partitions: by name if the id of one topic is not known."""
        return most if all(each.topic_id for each in wanted) else min(most, FETCH_BY_ID_VERSION - 1)

    def next_request(self, wanted: Iterable[WantedPartition], limits: FetchLimits, version: int) -> FetchRequest:
        """Return the request to send now, for partitions in the order of their turn.

        Its answer goes to `took`, its loss to `lost`.
        """
        assert not self._is_out, "one request at a time"
        asked = {each.partition: each for each in wanted}
        by_id = version >= FETCH_BY_ID_VERSION
        assert not by_id or all(each.topic_id for each in asked.values()), "a topic without id in a request by ids"
        if by_id is not self._by_id:
            self._begin_again()  # the broker's list is of the other kind
        self._by_id = by_id
        if version < SESSION_VERSION:
            self._session_id, self._epoch = _NO_SESSION, _FIRST_EPOCH
        forgotten: list[WantedPartition] = []
        changed = list(asked.values())
        if self._epoch != _FIRST_EPOCH:
            forgotten = [
                each
                for partition, each in self._held.items()
                if partition not in asked or asked[partition].topic_id != each.topic_id
            ]
            changed = [each for each in changed if self._held.get(each.partition) != each]
        self._held = asked
        self._is_out = True
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=int(limits.is_committed),
            session_id=self._session_id,
            session_epoch=self._epoch if version >= SESSION_VERSION else _LAST_EPOCH,
            topics=[
                FetchRequest.FetchTopic(
                    topic="" if by_id else topic,
                    topic_id=topic_id if by_id else "",
                    partitions=[_partition(each, version) for each in theirs],
                )
                for (topic, topic_id), theirs in _by_topic(changed)
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(
                    topic="" if by_id else topic,
                    topic_id=topic_id if by_id else "",
                    partitions=[each.partition.partition for each in theirs],
                )
                for (topic, topic_id), theirs in _by_topic(forgotten)
            ],
            rack_id=limits.rack if version >= 11 else "",
        )

    def took(self, answer: Any) -> SessionAnswer:
        """Read the answer to the request out."""
        assert self._is_out, "no request is out"
        self._is_out = False
        code = getattr(answer, "error_code", 0)
        session_id = getattr(answer, "session_id", _NO_SESSION)
        if code == codes.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id, self._epoch = _NO_SESSION, _FIRST_EPOCH
            return SessionAnswer(Verdict.BEGINS_AGAIN, code, {})
        if code:
            self._begin_again()
            is_of_session = code in _OF_SESSION
            return SessionAnswer(Verdict.BEGINS_AGAIN if is_of_session else Verdict.REFUSED, code, {})
        is_full = self._epoch == _FIRST_EPOCH
        parts = self._parts(answer)
        is_throttled = answer.throttle_time_ms > 0 and not answer.responses
        if is_throttled and is_full:
            # The broker has read nothing, and has made no session.
            self._session_id, self._epoch = session_id, _FIRST_EPOCH
            return SessionAnswer(Verdict.THROTTLED, 0, {})
        fits = parts is not None and (
            parts.keys() == self._held.keys() if is_full else session_id == self._session_id
        )
        if not fits or parts is None:
            if session_id != _NO_SESSION:
                self._session_id = session_id
            self._begin_again()
            return SessionAnswer(Verdict.BEGINS_AGAIN, 0, {})
        if session_id == _NO_SESSION:
            self._session_id, self._epoch = _NO_SESSION, _FIRST_EPOCH  # the broker has no room for a session
        else:
            self._session_id = session_id
            self._epoch = 1 if self._epoch >= INT32_MAX else self._epoch + 1
        return SessionAnswer(Verdict.THROTTLED if is_throttled else Verdict.TAKEN, 0, parts)

    def lost(self) -> None:
        """Take note that the request out gets no answer: the broker may have carried it out or not."""
        assert self._is_out, "no request is out"
        self._is_out = False
        self._begin_again()

    def closing_request(self) -> FetchRequest | None:
        """Return a request that closes the session, so that the broker need not wait to reuse its place."""
        if self._is_out or self._session_id == _NO_SESSION:
            return None
        closed, self._session_id = self._session_id, _NO_SESSION
        self._epoch = _FIRST_EPOCH
        return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=closed, session_epoch=_LAST_EPOCH)

    def _begin_again(self) -> None:
        """Make the next request a full one; with the former id, the broker closes that session."""
        self._epoch = _FIRST_EPOCH

    def _parts(self, answer: Any) -> dict[TopicPartition, Any] | None:
        """Return the parts of an answer by partition; None if it names one that was not asked for, or one twice."""
        names = {each.topic_id: each.partition.topic for each in self._held.values()} if self._by_id else {}
        found: dict[TopicPartition, Any] = {}
        for topic in answer.responses:
            name = names.get(topic.topic_id, "") if self._by_id else topic.topic
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition_index)
                if partition not in self._held or partition in found:
                    return None
                found[partition] = each
        return found


#: Errors that a full request cures.
_OF_SESSION = (
    codes.INVALID_FETCH_SESSION_EPOCH,
    codes.FETCH_SESSION_TOPIC_ID_ERROR,
    codes.INCONSISTENT_TOPIC_ID,
    codes.UNKNOWN_TOPIC_ID,
)


def _partition(wanted: WantedPartition, version: int) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(
        partition=wanted.partition.partition,
        current_leader_epoch=wanted.leader_epoch,
        fetch_offset=wanted.offset,
        last_fetched_epoch=wanted.last_fetched_epoch if version >= 12 else -1,
        partition_max_bytes=wanted.max_bytes,
    )


def _by_topic(wanted: Iterable[WantedPartition]) -> Iterable[tuple[tuple[str, str], list[WantedPartition]]]:
    """Group partitions that stand beside each other: the order says whose turn it is, so none moves."""
    groups: list[tuple[tuple[str, str], list[WantedPartition]]] = []
    for each in wanted:
        key = each.partition.topic, each.topic_id
        if not groups or groups[-1][0] != key:
            groups.append((key, []))
        groups[-1][1].append(each)
    return groups
