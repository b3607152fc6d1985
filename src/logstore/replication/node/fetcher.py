"""The thread of a node that copies from one leader: one request at a time for all partitions that follow it.

It asks in a session (`answers`). The first request names every partition; a later one those whose question has
changed: those that the last answer had, and, every now and then or after news of the registry, any other. Whatever
goes wrong ends the session, and everything is asked again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from logstore.clock import Clock
from logstore.errors import LogClosedError, LogstoreError, MalformedMessageError, StorageError
from logstore.records import INT32_MAX
from logstore.replication.api import FetchAnswer, FetchFrom, FetchRefusal, NodeId, Transport
from logstore.replication.fetch_messages import (
    FIRST_EPOCH,
    LeaderResponse,
    Session,
    Slot,
    decode_answers,
    encode_question,
    following_epoch,
)
from logstore.replication.node.member import Member
from logstore.replication.node.notices import Notices

#: Kafka's default of ``replica.fetch.response.max.bytes``.
RESPONSE_BYTES = 10 << 20

#: Pause after an answer that was refused or an error; a registry's news ends it.
_PAUSE_S = 0.1


_Wants = dict[Slot, FetchFrom]
_Asked = dict[Slot, tuple[Member, FetchFrom]]
_FIRST = Session(0, FIRST_EPOCH)


class Fetcher:
    """Copies from one leader until it is stopped."""

    def __init__(
        self,
        leader: NodeId,
        node: NodeId,
        life: int,
        members: Callable[[], Iterable[Member]],
        transport: Transport,
        clock: Clock,
        *,
        wait_ms: int,
        lag_max_ms: int,
        look_s: float,
        timeout_s: float,
    ) -> None:
        self._leader, self._node, self._life = leader, node, life
        self._members = members
        self._transport = transport
        self._clock = clock
        self._least_wait_ms = self._wait_ms = wait_ms
        # Well within the time after which a leader takes a silent follower for one that lags.
        self._idle_wait_ms = max(wait_ms, min(2 * wait_ms, lag_max_ms // 4))
        self._timeout_s = timeout_s
        self._look_s = look_s
        self._session = _FIRST
        self._asked = _Asked()  # all that the session has
        self._answered: list[Member] = []  # by the last answer: their questions may have changed
        self._look_at_s = 0.0  # when all questions are looked at again
        self._wake = threading.Condition()
        self._is_stopping = False
        self._has_news = False
        self._correlation_id = 0
        self._notices = Notices(node)
        self._thread = threading.Thread(target=self._run, name=f"logstore-fetch-{node}-from-{leader}", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Tell it that replicas follow another leader, or another epoch."""
        with self._wake:
            self._has_news = True
            self._wake.notify()

    def stop(self) -> None:
        with self._wake:
            self._is_stopping = True
            self._wake.notify()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        subject = f"copying from node {self._leader}"
        while not self._is_stopping:
            try:
                changed, forgotten, is_good = self._questions()
                asks = bool(self._asked)
                if asks:
                    is_good = self._fetch(changed, forgotten) and is_good
                    self._notices.say(subject, "")
                if is_good:
                    if not asks:
                        self._begin_session(_FIRST)
                        self._pause(None)
                    continue
            except BaseException as error:  # noqa: BLE001  a transport of an embedder may raise anything
                # Whatever an embedder's transport raises, as a cancelled future or an exit, and every answer that
                # is none: ask again. Ctrl-C of the program reaches its main thread, never this one.
                self._notices.say(subject, f"{type(error).__name__}: {error}")
            self._begin_session(_FIRST)
            self._pause(_PAUSE_S)

    def _begin_session(self, session: Session) -> None:
        self._session = session
        if session is _FIRST:
            self._asked, self._answered = _Asked(), []

    def _pause(self, timeout_s: float | None) -> None:
        with self._wake:
            if not self._has_news and not self._is_stopping:
                self._clock.wait(self._wake, timeout_s)

    def _questions(self) -> tuple[_Wants, list[Slot], bool]:
        """Return what has changed, what to forget, and whether every replica could say what it asks."""
        is_whole, now_s = True, self._clock.monotonic_s()
        with self._wake:
            looks_everywhere = self._has_news or self._session is _FIRST or now_s >= self._look_at_s
            self._has_news = False
        if looks_everywhere:
            self._look_at_s = now_s + self._look_s
        known, changed = self._asked, _Wants()
        found = _Asked() if looks_everywhere else known
        forgotten: list[Slot] = []
        for member in self._members() if looks_everywhere else self._answered:
            try:
                with member.lock:
                    is_ready = member.placement.has_entered and member.calls.failure is None
                    question = member.replica.ask(int(now_s * 1000)) if is_ready else None
            except LogstoreError as error:
                # The log cannot be synced, which a replica of a quorum does first: the others go on.
                self._notices.say(f"disk of {member.place}", f"{type(error).__name__}: {error}")
                is_whole, question = False, None
            slot = member.slot
            before = known.get(slot)
            if question is None or question[0] != self._leader:
                if not looks_everywhere and found.pop(slot, None) is not None:
                    forgotten.append(slot)
                continue
            found[slot] = member, question[1]
            if before is None or before[1] != question[1]:
                changed[slot] = question[1]
        if looks_everywhere:
            forgotten = [slot for slot in known if slot not in found]
        self._asked = found
        return changed, forgotten, is_whole

    def _fetch(self, changed: _Wants, forgotten: list[Slot]) -> bool:
        """Ask once, and take the answers; return whether all were of use."""
        self._correlation_id = (self._correlation_id + 1) & INT32_MAX
        request = encode_question(
            changed,
            node=self._node,
            life=self._life,
            wait_ms=self._wait_ms,
            max_bytes=RESPONSE_BYTES,
            correlation_id=self._correlation_id,
            session=self._session,
            forgotten=forgotten,
        )
        data = self._transport.call(self._leader, request, timeout_s=self._wait_ms / 1000 + self._timeout_s)
        try:
            response = self._decoded(data)
        except BaseException:
            for member, _ in self._asked.values():
                member.refused_answers += 1
            raise
        if response.has_lost_session:
            self._begin_session(_FIRST)  # its process is another one by now, say
            return True
        answers = response.answers
        # While nothing happens it asks half as often. The high watermark has come with the last empty answer.
        is_idle = all(each.records is None and each.refusal is None for each in answers.values())
        self._wait_ms = self._idle_wait_ms if is_idle else self._least_wait_ms
        named = list(self._asked) if self._session is _FIRST else [slot for slot in answers if slot in self._asked]
        self._answered, is_good = [], True
        for slot in named:
            member, wants = self._asked[slot]
            self._answered.append(member)
            is_good = self._take(member, wants, answers.get(slot)) and is_good
        if is_good:
            following = Session(response.session_id, following_epoch(self._session.epoch))
            self._begin_session(following if response.session_id else _FIRST)
        return is_good

    def _decoded(self, data: bytes) -> LeaderResponse:
        response = decode_answers(data, self._correlation_id)
        if self._session is _FIRST:
            if response.has_lost_session:
                raise MalformedMessageError("a first request was answered with an error of its session", position=0)
        elif not response.has_lost_session and response.session_id != self._session.id:
            raise MalformedMessageError(
                f"an answer of session {response.session_id} to a request of session {self._session.id}", position=0
            )
        return response

    def _take(self, member: Member, wants: FetchFrom, fetched: FetchAnswer | None) -> bool:
        problem, is_refused = "", True
        try:
            if fetched is None:
                raise MalformedMessageError("the answer lacks the partition", position=0)
            if fetched.refusal is None and fetched.leader_epoch != wants.leader_epoch:
                raise MalformedMessageError(
                    f"an answer of leader epoch {fetched.leader_epoch} to a question of epoch {wants.leader_epoch}",
                    position=0,
                )
            with member.lock:
                member.replica.take(wants, fetched, self._now_ms())
        except (StorageError, LogClosedError) as error:
            # Our own disk: there is no room, or it has failed.
            problem, is_refused = f"{type(error).__name__}: {error}", False
        except Exception as error:  # noqa: BLE001  an answer may hold anything
            problem = f"answer refused at offset {wants.offset}: {type(error).__name__}: {error}"
        self._notices.say(f"{member.place} from node {self._leader}", problem)
        if problem:
            member.refused_answers += is_refused
            return False
        assert fetched is not None
        return fetched.refusal is None or fetched.refusal is FetchRefusal.OUT_OF_RANGE

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
