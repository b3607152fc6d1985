"""Fetch sessions (KIP-227): the broker keeps what a client fetches, requests and answers name what has changed.

`FetchSessions.plan` says what a request asks for, `Plan.to_tell` which partitions its answer names. Used by the
loop's thread. No file, no socket.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.io._file_region import FileRegion
from logstore.protocol import codes
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import INT32_MAX, AbortedTransaction
from logstore.replication.fetch_messages import FIRST_EPOCH, following_epoch

#: The idle time after which a session may give its place to another one, as in Kafka.
IDLE_S = 120.0

#: The version from which on requests name topics by their ids.
BY_ID = 13
_LAST_EPOCH = -1

#: A topic's name, its id and a partition: a request has one of the two.
_Key = tuple[str, str, int]


class AskedPartition:
    """What a client fetches of one partition, and the marks that it was told last."""

    __slots__ = ("_high_watermark", "_log_start_offset", "asked", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: str, asked: FetchRequest.FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self._high_watermark = self._log_start_offset = -1

    @property
    def key(self) -> _Key:
        return self.topic, self.topic_id, self.asked.partition

    def tell(self, found: FoundPartition) -> bool:
        """Record what an answer says; return whether it says anything that the client does not know."""
        is_news = (
            found.region is not None
            or found.diverging is not None
            or found.code != 0
            or found.high_watermark != self._high_watermark
            or found.log_start_offset != self._log_start_offset
        )
        # After an error the client is told the marks again.
        self._high_watermark = -1 if found.code else found.high_watermark
        self._log_start_offset = found.log_start_offset
        return is_news


class FoundPartition(NamedTuple):
    """The answer for one partition."""

    code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    region: FileRegion | None = None
    diverging: tuple[int, int] | None = None  #: epoch and end of the log's part that agrees with the client's
    leader: tuple[int, int] | None = None  #: node and epoch, for a client that has asked another one (KIP-951)


class ClientFetchSession:
    """What one client fetches, in the order in which its partitions take their turn."""

    def __init__(self, number: int, by_id: bool, wanted: dict[_Key, AskedPartition], now_s: float) -> None:
        self.number = number
        self.by_id = by_id
        self.epoch = following_epoch(FIRST_EPOCH)  #: of the next request
        self.partitions = wanted
        self.made_s = self.used_s = now_s

    def update(self, asked: FetchRequest, now_s: float) -> None:
        """Apply what a request changes."""
        for key, each in _wanted(asked).items():
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = each
            else:
                known.asked = each.asked
        for topic in asked.forgotten_topics_data:
            for partition in topic.partitions:
                self.partitions.pop((topic.topic, topic.topic_id, partition), None)
        self.epoch = following_epoch(self.epoch)
        self.used_s = now_s

    def move_back(self, wanted: AskedPartition) -> None:
        """Let a partition that gave records take its next turn behind the others."""
        if self.partitions.pop(wanted.key, None) is not None:
            self.partitions[wanted.key] = wanted


class Plan(NamedTuple):
    """What a request asks for."""

    wanted: list[AskedPartition]
    session: ClientFetchSession | None = None
    is_incremental: bool = False
    code: int = 0  #: of the whole answer

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.number

    def to_tell(
        self, found: list[tuple[AskedPartition, FoundPartition]]
    ) -> list[tuple[AskedPartition, FoundPartition]]:
        """Return the partitions that the answer names: all of them, or those with news."""
        if self.session is None:
            return found
        told = []
        for wanted, each in found:
            is_news = wanted.tell(each)
            if is_news or not self.is_incremental:
                told.append((wanted, each))
            if each.region is not None:
                self.session.move_back(wanted)
        return told


class FetchSessions:
    """The sessions of one broker's clients.

    A session ends when its client closes it, fetches nothing more, or another one needs its place.
    """

    def __init__(self, most: int, clock: Clock = SYSTEM_CLOCK, rng: random.Random | None = None) -> None:
        self._most = most
        self._clock = clock
        self._rng = rng or random.Random()
        self._sessions: dict[int, ClientFetchSession] = {}  # the one that was used last is the last

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, asked: FetchRequest, version: int) -> Plan:
        """Return what a request asks for; with an error code, nothing."""
        now_s = self._clock.monotonic_s()
        if asked.session_epoch in (FIRST_EPOCH, _LAST_EPOCH):
            self._sessions.pop(asked.session_id, None)
            wanted = _wanted(asked)
            session = None
            if asked.session_epoch == FIRST_EPOCH and version >= 7 and wanted:
                session = self._begin(version >= BY_ID, wanted, now_s)
            return Plan(list(wanted.values()), session)
        session = self._sessions.get(asked.session_id)
        if session is None:
            return Plan([], code=codes.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != asked.session_epoch:
            return Plan([], code=codes.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != (version >= BY_ID):
            return Plan([], code=codes.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(asked, now_s)
        del self._sessions[session.number]
        if not session.partitions:
            return Plan([])
        self._sessions[session.number] = session
        return Plan(list(session.partitions.values()), session, is_incremental=True)

    def _begin(self, by_id: bool, wanted: dict[_Key, AskedPartition], now_s: float) -> ClientFetchSession | None:
        """Return a new session; None if there is no place for it."""
        if len(self._sessions) >= self._most and not self._make_place(len(wanted), now_s):
            return None
        number = 0
        while number == 0 or number in self._sessions:
            number = self._rng.randrange(1, INT32_MAX)
        session = self._sessions[number] = ClientFetchSession(number, by_id, wanted, now_s)
        return session

    def _make_place(self, size: int, now_s: float) -> bool:
        """End the session that was idle for longest, or a smaller one that is not young."""
        idle = next(iter(self._sessions.values()), None)
        if idle is not None and now_s - idle.used_s <= IDLE_S:
            idle = min(self._sessions.values(), key=lambda each: (len(each.partitions), each.made_s))
            if len(idle.partitions) >= size or now_s - idle.made_s <= IDLE_S:
                idle = None
        if idle is None:
            return False
        del self._sessions[idle.number]
        return True


def _wanted(asked: FetchRequest) -> dict[_Key, AskedPartition]:
    """Return the partitions of a request in order; of one that is named twice, what is asked last."""
    wanted: dict[_Key, AskedPartition] = {}
    for topic in asked.topics:
        for partition in topic.partitions:
            each = AskedPartition(topic.topic, topic.topic_id, partition)
            wanted[each.key] = each
    return wanted
