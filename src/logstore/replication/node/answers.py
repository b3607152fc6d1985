"""Answers of a node to the followers of its partitions, and the sessions in which they ask.

A follower names all its partitions of a leader once; afterwards only those whose question has changed, and is told
of those that have news (Kafka's incremental fetch sessions, KIP-227). So a round costs what has changed, with one
busy partition among thousands of idle ones as well. A session is the follower's alone. The next first request
replaces it, a request out of turn is refused, and what is refused asks for everything again: a session holds
nothing that a lost message could make wrong. Any thread may call.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping

from logstore.clock import Clock
from logstore.errors import LogstoreError
from logstore.io._file_region import FileRegion
from logstore.io._notifier import Notifier
from logstore.log.marks._watermark import Registration
from logstore.records import INT32_MAX
from logstore.replication.api import FetchAnswer, FetchFrom, FetchRefusal, NodeId
from logstore.replication.fetch_messages import (
    FIRST_EPOCH,
    SESSION_NOT_FOUND,
    WRONG_SESSION_EPOCH,
    Question,
    Slot,
    decode_question,
    encode_answers,
    following_epoch,
)
from logstore.replication.node.member import Member

_logger = logging.getLogger(__name__)

#: At most so many sessions; a follower beyond them names everything each time. Kafka's default of
#: ``max.incremental.fetch.session.cache.slots``.
MAX_SESSIONS = 1_000

_NOTHING = (-2, -2)  # no offsets
_Answers = dict[Slot, FetchAnswer | None]


class _Wanted:
    """What a follower wants of one partition, and what it has been told."""

    __slots__ = ("member", "registration", "told", "wants")

    def __init__(self) -> None:
        self.wants: FetchFrom
        self.member: Member | None = None
        self.registration: Registration | None = None
        self.told = _NOTHING  #: high watermark and log start offset

    def disarm(self) -> None:
        """Have it looked at again: the question is another one, or the follower has not taken what there is."""
        if self.registration is not None:
            self.registration.disarm()

    @property
    def is_armed(self) -> bool:
        """Whether the log has not grown since it was looked at."""
        return self.registration is not None and self.registration.is_armed

    def is_quiet(self) -> bool:
        """Whether the log has not grown since it was looked at, and the follower knows its high watermark."""
        return self.is_armed and self.member is not None and self.member.log.high_watermark == self.told[0]

    def belongs_to(self, member: Member | None) -> None:
        """Take the member that has the partition now: another one, if its log was opened again."""
        if self.member is not member:
            self.member, self.registration = member, None

    def listen(self, notifier: Notifier) -> bool:
        """Have the notifier notified once the log grows; False if it has grown already, or is closed."""
        assert self.member is not None
        if self.registration is None:
            try:
                self.registration = self.member.calls.listen(notifier)
            except LogstoreError:
                return False  # closed after it has failed: the next answer says so, or has the log opened again
        return self.registration.arm_while(self.wants.offset)


class FetchSession:
    """What one follower wants of this node. One request at a time has it."""

    def __init__(self, question: Question, session_id: int, clock: Clock) -> None:
        self.id = session_id  #: 0 if the follower will name everything again
        self.life = question.life
        self.next_epoch = following_epoch(FIRST_EPOCH)
        self.notifier = Notifier(clock)
        self.wanted: dict[Slot, _Wanted] = {}
        self.looked_at_s = 0.0
        self.must_look = True  #: at every partition
        self.has_ended = False

    def take(self, question: Question) -> None:
        """Take what a request names."""
        for slot in question.forgotten:
            self.wanted.pop(slot, None)
        for slot, wants in question.wants.items():
            wanted = self.wanted.setdefault(slot, _Wanted())
            wanted.wants = wants
            # Answered also if there is nothing new: that it has everything is news to a follower that has asked.
            wanted.told = _NOTHING
            wanted.disarm()

    def wake(self, *, must_look: bool) -> None:
        self.must_look = self.must_look or must_look
        self.notifier.notify()

    def end(self) -> None:
        self.has_ended = True
        self.notifier.notify()


class FollowerAnswers:
    """The answers of one node. ``members`` returns its partitions, ``check_open`` raises once it is closed.

    ``look_s`` is how often every partition of a session is looked at: well within the lag that evicts a follower.
    """

    def __init__(
        self,
        node: NodeId,
        members: Callable[[], Mapping[Slot, Member]],
        clock: Clock,
        check_open: Callable[[], None],
        look_s: float,
    ) -> None:
        self._node = node
        self._members = members
        self._clock = clock
        self._check_open = check_open
        self._look_s = look_s
        self._lock = threading.Lock()  # guards what sessions there are, and the turn of their requests
        self._sessions: dict[NodeId, FetchSession] = {}
        self._waiting: set[FetchSession] = set()  # those that a request has

    def wake(self) -> None:
        """Have every request that waits look at all its partitions again."""
        with self._lock:
            sessions = {*self._sessions.values(), *self._waiting}
        for session in sessions:
            session.wake(must_look=True)

    def answer(self, request: bytes, wait_s: float | None) -> bytes:
        """Return the answer to a request; see `Node.answer`."""
        self._check_open()
        question = decode_question(request)
        session, refusal = self._session_of(question)
        if session is None:
            return encode_answers({}, question.correlation_id, error_code=refusal)
        try:
            session.take(question)
            answers = self._wait(session, question, wait_s)
            if session.has_ended:
                return encode_answers({}, question.correlation_id, error_code=SESSION_NOT_FOUND)
            return encode_answers(answers, question.correlation_id, session_id=session.id)
        except BaseException:
            self._end(question.node, session)
            raise
        finally:
            with self._lock:
                self._waiting.discard(session)

    def _session_of(self, question: Question) -> tuple[FetchSession | None, int]:
        """Return the session of a request, a new one for a first request; or None and Kafka's error code."""
        epoch, node = question.session.epoch, question.node
        with self._lock:
            known = self._sessions.get(node)
            if epoch > FIRST_EPOCH:
                if known is None or known.id != question.session.id or known.life != question.life:
                    return None, SESSION_NOT_FOUND
                if epoch != known.next_epoch or known in self._waiting:
                    return None, WRONG_SESSION_EPOCH
                known.next_epoch = following_epoch(epoch)
                self._waiting.add(known)
                return known, 0
            is_kept = epoch == FIRST_EPOCH and (known is None or known.life <= question.life)
            is_kept = is_kept and (known is not None or len(self._sessions) < MAX_SESSIONS)
            session = FetchSession(question, secrets.randbelow(INT32_MAX) + 1 if is_kept else 0, self._clock)
            self._waiting.add(session)
            if is_kept:
                self._sessions[node] = session
                if known is not None:
                    known.end()
            return session, 0

    def _end(self, node: NodeId, session: FetchSession) -> None:
        with self._lock:
            if self._sessions.get(node) is session:
                del self._sessions[node]

    def _wait(self, session: FetchSession, question: Question, wait_s: float | None) -> _Answers:
        """Return what there is to say, at once if there are news, else after the wait."""
        is_whole = question.session.epoch <= FIRST_EPOCH
        allowed_s = question.wait_ms / 1000 if wait_s is None else min(wait_s, question.wait_ms / 1000)
        until_s = self._clock.monotonic_s() + allowed_s
        while True:
            self._check_open()
            answers = self._look(session, question.max_bytes, is_whole=is_whole)
            left_s = until_s - self._clock.monotonic_s()
            has_news = any(each is None or _is_news(each) for each in answers.values())
            if left_s <= 0 or session.has_ended or has_news:
                for slot, found in answers.items():
                    session.wanted[slot].told = _numbers(found) or _NOTHING
                return answers
            if self._listen(session):
                session.notifier.wait(left_s)

    def _look(self, session: FetchSession, max_bytes: int, *, is_whole: bool) -> _Answers:
        """Return the answers of the partitions that may have news; with ``is_whole`` all answers."""
        now_s = self._clock.monotonic_s()
        looks_everywhere = is_whole or session.must_look or now_s - session.looked_at_s >= self._look_s
        if looks_everywhere:
            session.must_look, session.looked_at_s = False, now_s
        members, answers, left = self._members(), _Answers(), max_bytes
        for slot, wanted in list(session.wanted.items()):
            if not looks_everywhere and wanted.is_quiet():
                continue
            member = members.get(slot)
            wanted.belongs_to(member)
            found = None if member is None else self._answer_of(member, wanted.wants, int(now_s * 1000))
            region = None if found is None else found.records
            if found is not None and isinstance(region, FileRegion):
                if left <= 0:
                    # The next answer has it. The order is that in which the partitions were served.
                    region.close()
                    found = found._replace(records=None)
                    wanted.disarm()
                else:
                    left -= region.size
                    session.wanted[slot] = session.wanted.pop(slot)
            is_news = found is None or _is_news(found)
            if is_news:
                wanted.disarm()
            if is_whole or is_news or _numbers(found) != wanted.told:
                answers[slot] = found
        return answers

    def _answer_of(self, member: Member, wants: FetchFrom, now_ms: int) -> FetchAnswer | None:
        if not member.placement.has_entered:
            return None
        try:
            with member.lock:
                return member.replica.answer(wants, now_ms)
        except LogstoreError as error:
            _logger.warning("node %d cannot answer for %s: %s", self._node, member.place, error)
            return FetchAnswer(wants.leader_epoch, refusal=FetchRefusal.STORAGE_FAILED)

    def _listen(self, session: FetchSession) -> bool:
        """Have the session notified once one of the logs grows; False if one has grown already."""
        return all(wanted.listen(session.notifier) for wanted in session.wanted.values() if not wanted.is_armed)


def _is_news(found: FetchAnswer) -> bool:
    return found.records is not None or found.diverging is not None or found.refusal is not None


def _numbers(found: FetchAnswer | None) -> tuple[int, int] | None:
    return None if found is None else (found.high_watermark, found.log_start_offset)
