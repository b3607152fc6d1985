"""The thread of a node that copies from one leader: one request at a time for all partitions that follow it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from logstore.clock import Clock
from logstore.errors import LogClosedError, LogstoreError, MalformedMessageError, StorageError
from logstore.replication.api import FetchAnswer, FetchFrom, FetchRefusal, NodeId, Transport
from logstore.replication.fetch_messages import Slot, decode_answers, encode_question
from logstore.replication.node.member import Member
from logstore.replication.node.notices import Notices

#: Kafka's default of ``replica.fetch.response.max.bytes``.
RESPONSE_BYTES = 10 << 20

#: Pause after an answer that was refused or an error; a registry's news ends it.
_PAUSE_S = 0.1


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
                asked, is_good = self._questions()
                if asked:
                    is_good = self._fetch(asked) and is_good
                    self._notices.say(subject, "")
                if is_good:
                    if not asked:
                        self._pause(None)
                    continue
            except Exception as error:  # noqa: BLE001  a transport of an embedder may raise anything
                # Whatever an embedder's transport raises, and every answer that is none: ask again.
                self._notices.say(subject, f"{type(error).__name__}: {error}")
            self._pause(_PAUSE_S)

    def _pause(self, timeout_s: float | None) -> None:
        with self._wake:
            if not self._has_news and not self._is_stopping:
                self._clock.wait(self._wake, timeout_s)
            self._has_news = False

    def _questions(self) -> tuple[dict[Slot, tuple[Member, FetchFrom]], bool]:
        """Return what to ask, and whether every replica could say it."""
        found, is_whole, now_ms = {}, True, self._now_ms()
        for member in self._members():
            try:
                with member.lock:
                    is_ready = member.placement.has_entered and member.calls.failure is None
                    question = member.replica.ask(now_ms) if is_ready else None
            except LogstoreError as error:
                # The log cannot be synced, which a replica of a quorum does first: the others go on.
                self._notices.say(f"disk of {member.place}", f"{type(error).__name__}: {error}")
                is_whole = False
                continue
            if question is not None and question[0] == self._leader:
                found[member.slot] = (member, question[1])
        return found, is_whole

    def _fetch(self, asked: dict[Slot, tuple[Member, FetchFrom]]) -> bool:
        """Ask once, and take the answers; return whether all were of use."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request = encode_question(
            {slot: wants for slot, (_, wants) in asked.items()},
            node=self._node,
            life=self._life,
            wait_ms=self._wait_ms,
            max_bytes=RESPONSE_BYTES,
            correlation_id=self._correlation_id,
        )
        data = self._transport.call(self._leader, request, timeout_s=self._wait_ms / 1000 + self._timeout_s)
        try:
            answers = decode_answers(data, self._correlation_id)
        except Exception:
            for member, _ in asked.values():
                member.refused_answers += 1
            raise
        # While nothing happens it asks half as often. The high watermark has come with the last empty answer.
        is_idle = all(each.records is None and each.refusal is None for each in answers.values())
        self._wait_ms = self._idle_wait_ms if is_idle else self._least_wait_ms
        is_good = True
        for slot, (member, wants) in asked.items():
            is_good = self._take(member, wants, answers.get(slot)) and is_good
        return is_good

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
