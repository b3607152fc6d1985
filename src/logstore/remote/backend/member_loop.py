"""The thread of one member of a group: it sends what the member's state machine asks for, and its heartbeats.

The thread runs no code of users, so a busy handler costs no membership before ``max.poll.interval.ms``. What the
application has to do waits in `MemberLoop.change` and `MemberLoop.failures`. The member is called under
`MemberLoop.lock` only. JoinGroup and SyncGroup may be answered late; what is sent meanwhile goes by another
connection, since a broker reads the next request of one only after the answer.
"""

from __future__ import annotations

import contextlib
import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from logstore.client.backend.membership import GroupChange
from logstore.errors import (
    AuthenticationError,
    ClientClosedError,
    ForkedError,
    LogstoreError,
    MalformedMessageError,
    UnsupportedVersionError,
)
from logstore.groups.membership.classic import ClassicMember
from logstore.groups.membership.member import MemberPhase
from logstore.groups.membership.modern import MemberSubscription, ModernMember
from logstore.groups.membership.steps import (
    MembershipFailed,
    SendRequest,
    TopicIdsWanted,
    TopicsWanted,
    in_version,
)
from logstore.io._eventfd import EventFd
from logstore.io._files import fork_generation
from logstore.io._interrupts import Condition, held
from logstore.io._notifier import Notifier
from logstore.protocol import codes
from logstore.protocol.generated.messages import RESPONSES, JoinGroupRequest, SyncGroupRequest
from logstore.remote.backend.topic_lookup import TopicLookup, TopicsFound
from logstore.remote.client import Client
from logstore.remote.network.link import BrokerLink

Member: TypeAlias = ClassicMember | ModernMember

#: How long the thread sleeps at most while nothing happens.
_IDLE_S = 30.0
#: How often topics are looked for that are not there yet.
_MISSING_S = 1.0
#: How long the brokers' addresses are asked for before the member tries again.
_ADDRESSES_MS = 5_000

_UNSUPPORTED_VERSION = 35


class _Outstanding(NamedTuple):
    """A request without an answer yet."""

    connection: BrokerLink
    give_back: Callable[[], object]
    took: Callable[[Any], None]
    failed: Callable[[], None]
    until_s: float
    may_wait: bool  #: whether the broker may let others wait for its answer


class MemberLoop:
    """One member, and the thread that serves it. Owns: the thread, and the connections that it has in use."""

    def __init__(self, client: Client, member: Member, notifier: Notifier, *, takes_internal: bool) -> None:
        self.lock = threading.Lock()
        self.member = member
        self.notifier = notifier
        self.failures: deque[MembershipFailed] = deque(maxlen=4)
        self.change: GroupChange | None = None
        self._todo: deque[SendRequest | TopicsWanted | TopicIdsWanted] = deque()
        self._client = client
        self._cluster = client.cluster
        self._takes_internal = takes_internal
        self._pattern: re.Pattern[str] | None = None
        self._names: frozenset[str] = frozenset()
        self._fork = fork_generation()
        self._ends = False
        self._news = Condition()
        self._wakeup = EventFd()
        self._asked: list[_Outstanding] = []
        self._has_old_addresses = False
        self._ids: set[str] = set()  #: topic ids that are to be named
        self._look_s = float("inf")  #: when topics are looked up again
        self._looks = False  #: a lookup has no answer yet
        self._thread: threading.Thread | None = None

    # -- from the consumer's thread

    @staticmethod
    def now_ms() -> int:
        return time.monotonic_ns() // 1_000_000

    def subscribe(self, names: frozenset[str], pattern: re.Pattern[str] | None) -> None:
        """Subscribe to names, or to those that will match a pattern.

        Patterns are matched here by either protocol, and the coordinator is told names. Brokers could match one
        for a member by KIP-848, but they read it as RE2: lookarounds and references to groups are refused, and
        flags such as ``re.VERBOSE`` are no part of the text. One pattern would stand for other topics by the other
        protocol. Java's ``subscribe(Pattern)`` is matched by the client, too, for the same reason.
        """
        self.check_usable()
        with held(self.lock):
            self._pattern = pattern
            self._subscribe_locked(names)
            self._look_s = 0.0
        self.go_on()

    def _subscribe_locked(self, names: frozenset[str]) -> None:
        self._names = names
        now_ms = self.now_ms()
        if isinstance(self.member, ModernMember):
            self.member.subscribe(MemberSubscription(names), now_ms)
        else:
            self.member.subscribe(names, now_ms)

    def finish(self, change: GroupChange) -> None:
        """Tell the member that a change is made. The next one that is ready stands in `change` on return."""
        with held(self.lock):
            if self.change is change:
                self.change = None
            now_ms = self.now_ms()
            # The callback may have taken long.
            self.member.polled(now_ms)
            self.member.finished(change, now_ms)
            if not self._ends:
                self._step_locked(now_ms)
        if not self._ends:
            self.go_on()

    def check_usable(self) -> None:
        """Raise if this process, or the client, is not the one that it was.

        Raises:
            ForkedError, ClientClosedError: the membership cannot be used.
        """
        if self._fork != fork_generation():
            raise ForkedError("the consumer was opened before a fork; call store.consumer() in the child")
        if self._ends:
            raise ClientClosedError("the client is closed")

    def go_on(self) -> None:
        """Have the thread look at what the member has to do; begin it if there is none."""
        self.check_usable()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="logstore-group", daemon=True)
            self._thread.start()
        self._wake()

    def _wake(self) -> None:
        self._wakeup.set()

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing more to tell the coordinator."""
        return self._thread is None or self._ends or self.member.phase is MemberPhase.CLOSED

    def wait_for_news(self, timeout_s: float) -> None:
        """Wait until there is a change, or the membership has ended."""
        with self._news:
            if self.change is None and not self.has_ended:
                self._news.wait(timeout_s)

    def stop(self) -> None:
        """Tell the thread to end. Takes no lock."""
        self._ends = True
        self._wake()

    def join(self) -> None:
        if self._thread is not None and self._fork == fork_generation():
            self._thread.join()

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._ends:
                try:
                    self._turn()
                except LogstoreError as error:
                    self._raise_later(error)
                    self._sleep(1.0)
                except BaseException as error:  # noqa: BLE001  the consumer's thread raises it
                    self._raise_later(error)
                    break
        finally:
            self._ends = True
            for each in self._asked:
                each.connection.close()
            self._wakeup.close()
            self._tell()

    def _raise_later(self, error: BaseException) -> None:
        # An error of the loop itself is raised by `poll` as those of a broker are, whatever its class.
        self.failures.append(MembershipFailed(error, is_final=False))  # type: ignore[arg-type]
        self._tell()

    def _tell(self) -> None:
        """Have the consumer look."""
        self.notifier.notify()
        with self._news:
            self._news.notify_all()

    def _turn(self) -> None:
        if self._cluster.closed:
            # A consumer that was dropped without `close` may be alive yet: no coordinator can be asked any more.
            self._ends = True
            return
        now_ms = self.now_ms()
        with held(self.lock):
            has_news = self._step_locked(now_ms)
            due_ms = self.member.deadline_ms()
        if has_news:
            self._tell()
        if self._todo:
            while self._todo:
                self._do(self._todo.popleft())
            return
        if self.member.phase is MemberPhase.CLOSED:
            self._tell()
        self._look()
        left_s = _IDLE_S if due_ms is None else (due_ms - now_ms) / 1000
        now_s = time.monotonic()
        left_s = min([left_s, self._look_s - now_s, *(each.until_s - now_s for each in self._asked)])
        self._sleep(max(left_s, 0.0))
        for connection in {id(each.connection): each.connection for each in self._asked}.values():
            if connection.has_answer():
                self._receive(connection)
        now_s = time.monotonic()
        for late in [each for each in self._asked if now_s >= each.until_s]:
            if late in self._asked:
                self._lose(late.connection)

    def _sleep(self, left_s: float) -> None:
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if any(each.connection.has_answer() for each in self._asked):
            left_s = 0.0
        # Rounded up: a member that is asked too early has nothing to do, and would be asked again at once.
        poll.poll(int(left_s * 1000) + (left_s > 0))
        self._wakeup.clear()

    def _step_locked(self, now_ms: int) -> bool:
        """Have the member go on; tell whether there is news for the consumer."""
        has_news = False
        for step in self.member.steps(now_ms):
            if isinstance(step, SendRequest | TopicsWanted | TopicIdsWanted):
                self._todo.append(step)
            elif isinstance(step, MembershipFailed):
                self.failures.append(step)
                has_news = True
            else:
                self.change = step
                has_news = True
        return has_news

    def _do(self, step: SendRequest | TopicsWanted | TopicIdsWanted) -> None:
        if isinstance(step, SendRequest):
            self._send(step)
            return
        if isinstance(step, TopicIdsWanted):
            self._ids.update(step.topic_ids)
        self._look_s = 0.0

    # -- requests

    def _send(self, step: SendRequest) -> None:
        def took(answer: Any) -> None:
            with held(self.lock):
                self.member.answered(step.number, answer, self.now_ms())

        def failed() -> None:
            with held(self.lock):
                self.member.failed(step.number, self.now_ms())

        kind = type(step.message)
        may_wait = isinstance(step.message, JoinGroupRequest | SyncGroupRequest)
        try:
            connection, give_back = self._connection(step.node_id)
        except AuthenticationError as error:
            failed()
            self._raise_later(error)
            return
        except LogstoreError:
            self._has_old_addresses = True
            failed()
            return
        try:
            version = connection.version_of(kind)
            message = in_version(step.message, version)
            connection.send(message, version=version, wait_ms=step.timeout_ms, then=self._wake)
        except UnsupportedVersionError:
            give_back()
            # As a broker would say it, if it had been asked.
            took(RESPONSES[kind.API_KEY](error_code=_UNSUPPORTED_VERSION))  # type: ignore[call-arg]  # each answer has one
            return
        except LogstoreError:
            self._lose(connection)
            give_back()
            failed()
            return
        until_s = time.monotonic() + step.timeout_ms / 1000
        self._asked.append(_Outstanding(connection, give_back, took, failed, until_s, may_wait))

    def _connection(self, node: int | None) -> tuple[BrokerLink, Callable[[], object]]:
        """Return a connection to a broker, or to any, and how it is given back."""
        if node is None:
            lent = contextlib.ExitStack()
            return lent.enter_context(self._cluster.any_connection()), lent.close
        theirs = [each for each in self._asked if each.connection.node == node]
        for each in theirs:
            if not any(other.may_wait for other in theirs if other.connection is each.connection):
                return each.connection, each.give_back
        if self._has_old_addresses or node not in self._cluster.known.brokers:
            self._cluster.refresh([], self._cluster.attempts("addresses of brokers", _ADDRESSES_MS))
            self._has_old_addresses = False
        connection = self._cluster.take(node)
        return connection, lambda: self._cluster.give_back(connection)

    def _receive(self, connection: BrokerLink) -> None:
        """Take the next answer of a connection."""
        asked = next(each for each in self._asked if each.connection is connection)
        try:
            answer = connection.receive()
        except MalformedMessageError as error:
            self._lose(connection)
            self._raise_later(error)
            return
        except LogstoreError:
            self._lose(connection)
            return
        self._asked.remove(asked)
        if not any(each.connection is connection for each in self._asked):
            asked.give_back()
        asked.took(answer)

    def _lose(self, connection: BrokerLink) -> None:
        """Give up on every request of a connection."""
        lost = [each for each in self._asked if each.connection is connection]
        self._asked = [each for each in self._asked if each.connection is not connection]
        connection.close()
        for each in lost:
            each.give_back()
            each.failed()

    # -- topics

    def _look(self) -> None:
        """Ask about topics, if it is time."""
        if self._looks or time.monotonic() < self._look_s:
            return
        with held(self.lock):
            names = set(self._names)
            if isinstance(self.member, ClassicMember):
                names |= self.member.watched
        lookup = TopicLookup(names, self._ids, everything=self._pattern is not None)
        if not names and not self._ids and self._pattern is None:
            self._look_s = float("inf")
            return

        def failed() -> None:
            self._looks = False
            self._look_s = time.monotonic() + self._client.config.retry_backoff_max_ms / 1000

        self._looks = True
        self._look_s = float("inf")
        try:
            connection, give_back = self._connection(None)
            try:
                request, version = lookup.request(connection)
                connection.send(request, version=version, then=self._wake)
            except BaseException:
                give_back()
                raise
        except LogstoreError as error:
            failed()
            if not error.retriable:
                self._raise_later(error)
            return
        until_s = time.monotonic() + self._client.config.request_timeout_ms / 1000
        took = lambda answer: self._take_topics(lookup.read(answer))  # noqa: E731
        self._asked.append(_Outstanding(connection, give_back, took, failed, until_s, may_wait=False))

    def _take_topics(self, found: TopicsFound) -> None:
        self._looks = False
        is_missing = any(not count for count in found.counts.values())
        age_s = self._client.config.metadata_max_age_ms / 1000
        self._ids -= found.names.keys()
        if self._ids:
            is_missing = True
        with held(self.lock):
            # A subscription that was made meanwhile is looked up at once.
            self._look_s = min(self._look_s, time.monotonic() + (min(age_s, _MISSING_S) if is_missing else age_s))
            now_ms = self.now_ms()
            if isinstance(self.member, ModernMember):
                self.member.topics_named(found.names, now_ms)
            else:
                self.member.topics_known(found.counts, found.racks, now_ms)
            if self._pattern is not None:
                names = found.matching(self._pattern, internal=self._takes_internal)
                if names != self._names:
                    self._subscribe_locked(names)
        if found.refused is not None:
            topic, code = found.refused
            self._raise_later(codes.error_of(code, f"topic {topic!r}"))
