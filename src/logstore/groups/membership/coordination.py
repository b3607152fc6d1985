"""The requests of a member that have no answer yet, and the search for the group's coordinator.

A request has a number; its answer counts only while the member waits for that number. So an answer that comes after
the member has given up on it, or comes twice, changes nothing.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from logstore.errors import LogstoreError
from logstore.groups.membership.steps import SendRequest
from logstore.groups.membership.timing import MemberSettings, Tries
from logstore.protocol import codes
from logstore.protocol.generated.messages import FindCoordinatorRequest, FindCoordinatorResponse
from logstore.protocol.message import Message

#: The coordinator has moved, or is not there yet: it is looked for again.
ELSEWHERE = frozenset({"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})


class Unanswered(NamedTuple):
    """A request without an answer: what it was for, and the generation or epoch that it named."""

    kind: str
    generation: int
    until_ms: int  #: an answer after this counts as none: the process may have stood still meanwhile


class Requests:
    """The requests of one member that have no answer yet."""

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[int, Unanswered] = {}

    def send(
        self,
        kind: str,
        message: Message,
        node_id: int | None,
        *,
        timeout_ms: int,
        now_ms: int,
        generation: int = -1,
    ) -> SendRequest:
        """Return the step that sends a request, and wait for its answer."""
        self._last += 1
        self._waiting[self._last] = Unanswered(kind, generation, now_ms + timeout_ms)
        return SendRequest(self._last, message, node_id, timeout_ms)

    def has(self, kind: str) -> bool:
        """Tell whether a request of this kind has no answer yet."""
        return any(one.kind == kind for one in self._waiting.values())

    def take(self, number: int) -> Unanswered | None:
        """Return the request of that number, if its answer still counts; it counts once."""
        return self._waiting.pop(number, None)

    def forget(self, *kinds: str) -> None:
        """Ignore the answers to requests of these kinds; without a kind, to all."""
        for number, one in [*self._waiting.items()]:
            if not kinds or one.kind in kinds:
                del self._waiting[number]


class CoordinatorSearch:
    """Which broker is the coordinator of the group."""

    KIND = "find coordinator"

    def __init__(self, settings: MemberSettings, requests: Requests, rng: Random) -> None:
        self.node_id: int | None = None  #: None while it is not known
        self._settings = settings
        self._requests = requests
        self._tries = Tries(settings, rng)

    def next_request(self, now_ms: int) -> SendRequest | None:
        """Return the request that finds the coordinator, if it is to be sent now."""
        if self.node_id is not None or self._requests.has(self.KIND) or not self._tries.is_ready(now_ms):
            return None
        message = FindCoordinatorRequest(coordinator_keys=[self._settings.group_id])
        timeout_ms = self._settings.request_timeout_ms
        return self._requests.send(self.KIND, message, None, timeout_ms=timeout_ms, now_ms=now_ms)

    def deadline_ms(self) -> int | None:
        """Return when `next_request` has one, if that is a matter of time."""
        if self.node_id is not None or self._requests.has(self.KIND):
            return None
        return self._tries.ready_ms

    def answered(self, response: FindCoordinatorResponse, now_ms: int) -> LogstoreError | None:
        """Take the answer; return the error if the search is hopeless."""
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code == 0:
            self.node_id = found.node_id
            self._tries.reset()
            return None
        self._tries.pause(now_ms)
        if codes.is_retriable(found.error_code):
            return None
        return codes.error_of(
            found.error_code, f"coordinator of group {self._settings.group_id!r}", found.error_message
        )

    def failed(self, now_ms: int) -> None:
        """Note that the search has got no answer."""
        self._tries.pause(now_ms)

    def lose(self, now_ms: int) -> None:
        """Look for the coordinator again."""
        if self.node_id is not None:
            self.node_id = None
            self._tries.pause(now_ms)
