"""The thread of a node that copies from one leader: one request at a time for all partitions that follow it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from logstore.clock import Clock
from logstore.errors import LogstoreError
from logstore.replication.api import FetchAnswer, FetchFrom, FetchRefusal, NodeId, Transport
from logstore.replication.fetch_messages import Slot, decode_answers, encode_question
from logstore.replication.node.member import Member

_logger = logging.getLogger(__name__)

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
        timeout_s: float,
    ) -> None:
        self._leader, self._node, self._life = leader, node, life
        self._members = members
        self._transport = transport
        self._clock = clock
        self._wait_ms, self._timeout_s = wait_ms, timeout_s
        self._wake = threading.Condition()
        self._is_stopping = False
        self._has_news = False
        self._correlation_id = 0
        self.refused_count = 0  #: answers that held something else than what was asked for
        self._said = ""
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

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            asked = self._questions()
            if not asked:
                self._pause(None)
                continue
            try:
                pause = not self._fetch(asked)
                self._say("")
            except Exception as error:  # noqa: BLE001  a transport of an embedder may raise anything
                # Whatever an embedder's transport raises, and every answer that is none: ask again.
                self._say(f"{type(error).__name__}: {error}")
                pause = True
            if pause:
                self._pause(_PAUSE_S)

    def _pause(self, timeout_s: float | None) -> None:
        with self._wake:
            if not self._has_news and not self._is_stopping:
                self._clock.wait(self._wake, timeout_s)
            self._has_news = False

    def _questions(self) -> dict[Slot, tuple[Member, FetchFrom]]:
        found = {}
        now_ms = int(self._clock.monotonic_s() * 1000)
        for member in self._members():
            with member.lock:
                if not member.placement.has_entered:
                    continue
                question = member.replica.ask(now_ms)
            if question is not None and question[0] == self._leader:
                found[member.slot] = (member, question[1])
        return found

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
        answers = decode_answers(data, self._correlation_id)
        is_good = True
        for slot, (member, wants) in asked.items():
            fetched = answers.get(slot)
            is_good = (fetched is not None and self._take(member, wants, fetched)) and is_good
        return is_good

    def _take(self, member: Member, wants: FetchFrom, fetched: FetchAnswer) -> bool:
        try:
            with member.lock:
                member.replica.take(wants, fetched, int(self._clock.monotonic_s() * 1000))
        except LogstoreError as error:
            self.refused_count += 1
            _logger.warning(
                "answer of node %d refused: partition=%s offset=%d error=%s",
                self._leader,
                member.place,
                wants.offset,
                error,
            )
            return False
        return fetched.refusal is None or fetched.refusal is FetchRefusal.OUT_OF_RANGE

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            if what:
                _logger.warning("node %d cannot fetch from node %d: %s", self._node, self._leader, what)
            else:
                _logger.info("node %d fetches from node %d", self._node, self._leader)
