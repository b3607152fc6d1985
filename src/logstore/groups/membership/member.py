"""What members of both kinds of groups do alike: callbacks, the coordinator, being late, failing and leaving.

`GroupMemberBase` is the frame in which `classic` and `modern` say what they send. Like them it has no clock, socket
or thread. One thread at a time may call it.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from random import Random

from logstore.errors import LogstoreError
from logstore.groups.membership.coordination import CoordinatorSearch, Requests, Unanswered
from logstore.groups.membership.holdings import Holdings
from logstore.groups.membership.steps import Callback, MembershipFailed, MemberStep, SendRequest
from logstore.groups.membership.timing import MemberSettings, PollTimer, Tries
from logstore.protocol.generated.messages import FindCoordinatorResponse
from logstore.protocol.message import Message
from logstore.records import TopicPartition

#: Kinds of requests that both have.
HEARTBEAT, LEAVE = "heartbeat", "leave"


class MemberPhase(enum.Enum):
    """Where a member stands."""

    OUTSIDE = "outside"  #: it subscribes to nothing
    JOINING = "joining"  #: it has no generation or epoch of this round
    SYNCING = "syncing"  #: only of a classic group: JoinGroup has been answered, and SyncGroup has not
    STABLE = "stable"
    LEAVING = "leaving"
    LATE = "late"  #: it has left because the application does not poll, and joins when it polls
    FAILED = "failed"  #: it joins again when the application polls
    CLOSED = "closed"


ACTIVE = frozenset({MemberPhase.JOINING, MemberPhase.SYNCING, MemberPhase.STABLE})


class GroupMemberBase(ABC):
    """One member of a group."""

    def __init__(self, settings: MemberSettings, now_ms: int, rng: Random) -> None:
        self._settings = settings
        self._phase = MemberPhase.OUTSIDE
        self._holdings = Holdings()
        self._requests = Requests()
        self._search = CoordinatorSearch(settings, self._requests, rng)
        self._tries = Tries(settings, rng)
        self._poll = PollTimer(settings, now_ms)
        self._heartbeat_ms = now_ms  #: when the next heartbeat is due
        self._failure: MembershipFailed | None = None
        self._is_fenced = False
        self._closes = False

    # --- what each kind of member says --------------------------------------------------------

    @abstractmethod
    def _look(self, now_ms: int, found: list[MemberStep]) -> None:
        """Do what the time, the subscription or the coordinator's last answer asks for, before callbacks."""

    @abstractmethod
    def _send_due(self, now_ms: int, found: list[MemberStep]) -> None:
        """Send the requests to the coordinator that are due."""

    @abstractmethod
    def _due_times(self) -> list[int]:
        """Return when `_look` and `_send_due` have something to do, but for what this class knows."""

    @abstractmethod
    def _take(self, response: Message, asked: Unanswered, now_ms: int) -> None:
        """Take the coordinator's answer to a request that is not for leaving."""

    @abstractmethod
    def _retry(self, kind: str, now_ms: int) -> None:
        """Try again what had no answer, or one that may be another soon."""

    @abstractmethod
    def _join_again(self, reason: str) -> None:
        """Begin to join, with nothing that has to be revoked first."""

    @abstractmethod
    def _drop_membership(self, *, keeps_id: bool = False) -> None:
        """Forget what the coordinator has given to this member, and perhaps who it is."""

    @abstractmethod
    def _subscribes(self) -> bool:
        """Tell whether the application subscribes to anything."""

    @abstractmethod
    def _is_member(self) -> bool:
        """Tell whether the coordinator counts on this member."""

    @abstractmethod
    def _has_to_tell(self) -> bool:
        """Tell whether the coordinator is to hear that this member leaves."""

    @abstractmethod
    def _leave_request(self, now_ms: int) -> SendRequest:
        """Return the request that leaves the group."""

    def _is_outlived(self, asked: Unanswered, now_ms: int) -> bool:
        """Tell whether the group may have gone on without this member since a request, whose answer comes now."""
        return False

    # --- what the driver reads ----------------------------------------------------------------

    @property
    def phase(self) -> MemberPhase:
        """Where the member stands."""
        return self._phase

    @property
    def held(self) -> frozenset[TopicPartition]:
        """The partitions that the application holds."""
        return frozenset(self._holdings.held)

    @property
    def coordinator(self) -> int | None:
        """The broker that coordinates the group, or None while it is not known."""
        return self._search.node_id

    # --- what the driver tells ----------------------------------------------------------------

    def polled(self, now_ms: int) -> None:
        """Note that the application polls. While one poll waits, the driver calls this now and then."""
        self._poll.polled(now_ms)
        has_failed = self._phase is MemberPhase.FAILED and self._failure is None and not self._is_fenced
        if self._phase is MemberPhase.LATE or has_failed:
            self._join_again("the application polls again")

    def finished(self, callback: Callback, now_ms: int) -> None:
        """Tell that the callback of a step has returned or raised."""
        self._holdings.finish(callback)

    def answered(self, number: int, response: Message, now_ms: int) -> None:
        """Take the response to a request."""
        asked = self._requests.take(number)
        if asked is None:
            return
        if now_ms > asked.until_ms or self._is_outlived(asked, now_ms):
            self._give_up(asked, now_ms)
        elif isinstance(response, FindCoordinatorResponse):
            error = self._search.answered(response, now_ms)
            if error is not None:
                self._fail(error)
        elif asked.kind == LEAVE:
            self._end_leave()
        else:
            self._take(response, asked, now_ms)

    def failed(self, number: int, now_ms: int) -> None:
        """Tell that a request has no answer: its connection broke, or its time is over."""
        asked = self._requests.take(number)
        if asked is not None:
            self._give_up(asked, now_ms)

    # --- what the driver does -----------------------------------------------------------------

    def steps(self, now_ms: int) -> list[MemberStep]:
        """Return what is to be done now. Each step is returned once."""
        found: list[MemberStep] = []
        self._look(now_ms, found)
        callback = self._holdings.next_callback()
        if callback is not None:
            found.append(callback)
        if self._failure is not None and self._holdings.is_settled:
            found.append(self._failure)
            self._failure = None
        if self._phase is MemberPhase.LEAVING and self._holdings.is_settled and not self._requests.has(LEAVE):
            self._send_leave(now_ms, found)
        if self._phase in ACTIVE:
            search = self._search.next_request(now_ms)
            if search is not None:
                found.append(search)
        self._send_due(now_ms, found)
        return found

    def deadline_ms(self) -> int | None:
        """Return when `steps` has something to do, if the driver tells nothing before; None is never.

        It is asked after `steps`.
        """
        is_active = self._phase in ACTIVE
        if not is_active and self._phase is not MemberPhase.LEAVING:
            return None
        times = self._due_times()
        if is_active:
            times.append(self._poll.expires_ms)
            search = self._search.deadline_ms()
            if search is not None:
                times.append(search)
        return min(times, default=None)

    # --- ends ---------------------------------------------------------------------------------

    def _give_up(self, asked: Unanswered, now_ms: int) -> None:
        """Go on without the answer to a request."""
        if asked.kind == CoordinatorSearch.KIND:
            self._search.failed(now_ms)
        elif asked.kind == LEAVE:
            self._end_leave()
        else:
            self._search.lose(now_ms)
            self._retry(asked.kind, now_ms)

    def _leave_late(self, now_ms: int, found: list[MemberStep], *, keeps_id: bool = False) -> None:
        """Leave the group because the application does not poll; its partitions may go to others at once."""
        self._requests.forget()
        self._holdings.lose()
        if self._search.node_id is not None and self._has_to_tell():
            found.append(self._leave_request(now_ms))
            self._requests.forget(LEAVE)
        self._drop_membership(keeps_id=keeps_id)
        self._phase = MemberPhase.LATE

    def _fail(self, error: LogstoreError, *, is_fenced: bool = False) -> None:
        if self._phase is MemberPhase.LEAVING:
            return
        self._drop_membership()
        self._holdings.lose()
        self._requests.forget()
        self._phase = MemberPhase.FAILED
        self._failure = MembershipFailed(error, is_fenced)
        self._is_fenced = is_fenced

    def _leave(self) -> None:
        """Begin to leave; what the application holds is revoked first, if it is a member's."""
        if self._phase is MemberPhase.LEAVING:
            return
        is_member = self._is_member()
        self._requests.forget()
        self._phase = MemberPhase.LEAVING
        if not is_member:
            self._holdings.lose()

    def _send_leave(self, now_ms: int, found: list[MemberStep]) -> None:
        if self._holdings.revoke(self._holdings.held):
            callback = self._holdings.next_callback()
            assert callback is not None
            found.append(callback)
        elif self._search.node_id is not None and self._has_to_tell():
            found.append(self._leave_request(now_ms))
        else:
            self._end_leave()

    def _end_leave(self) -> None:
        if self._phase is not MemberPhase.LEAVING:
            return
        self._drop_membership()
        if self._closes:
            self._phase = MemberPhase.CLOSED
        elif self._subscribes():
            self._join_again("the application has subscribed again")
        else:
            self._phase = MemberPhase.OUTSIDE
