"""One member of a classic consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (KIP-62, KIP-429, KIP-345).

`ClassicMember` has no clock, socket or thread: its driver does what `steps` returns (`steps` module). One thread at
a time may call it. The rules it keeps:

- The member revokes before it joins: everything with an eager assignor, what it has lost with a cooperative one.
- What it says that it holds is what the application holds, since JoinGroup is sent only while no callback runs.
- After an error that means that the coordinator has removed it, it loses everything before it joins again.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from logstore.errors import LogstoreError, MalformedMessageError
from logstore.groups.assignors.embedded import PROTOCOL_TYPE, decode_assignment
from logstore.groups.assignors.members import NO_GENERATION
from logstore.groups.membership.coordination import ELSEWHERE, Unanswered
from logstore.groups.membership.member import ACTIVE, HEARTBEAT, LEAVE, GroupMemberBase, MemberPhase
from logstore.groups.membership.protocols import DEFAULT_ASSIGNORS, Leading, Protocols
from logstore.groups.membership.steps import MemberStep, SendRequest, TopicsWanted
from logstore.groups.membership.timing import MemberSettings
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from logstore.protocol.message import Message
from logstore.records import TopicPartition

_JOIN, _SYNC = "join", "sync"

#: A broker answers JoinGroup when all members have joined, at most this long after the rebalance timeout.
_JOIN_GRACE_MS = 5_000

_LATE = "the application has not polled for max.poll.interval.ms"


class GroupIdentity(NamedTuple):
    """What a member says of itself in each request, as in OffsetCommit."""

    member_id: str
    generation: int
    instance_id: str | None


class CommitOutcome(enum.Enum):
    """What becomes of a commit that the coordinator has answered."""

    STORED = "stored"
    RETRY = "retry"  #: commit again after a pause, to the coordinator that is found then
    REBALANCING = "rebalancing"  #: commit again after the rebalance, if the partition is still held
    FENCED = "fenced"  #: the partitions belong to other members; what was read since is read again
    REFUSED = "refused"  #: this commit has an error of its own


class ClassicMember(GroupMemberBase):
    """One member of a classic group."""

    def __init__(
        self,
        settings: MemberSettings,
        now_ms: int,
        *,
        assignors: Sequence[str] = DEFAULT_ASSIGNORS,
        rng: Random | None = None,
    ) -> None:
        super().__init__(settings, now_ms, rng or Random())
        self._protocols = Protocols(assignors, settings.client_rack)
        self._topics: frozenset[str] = frozenset()
        self._member_id = ""
        self._generation = NO_GENERATION
        self._held_since = NO_GENERATION  #: generation that has given what is held
        self._session_ms = now_ms  #: when the coordinator was last heard
        self._reason: str | None = None  #: why it joins again (KIP-800)
        self._is_prepared = False  #: what is to be revoked before JoinGroup has been
        self._joined_topics: frozenset[str] = frozenset()
        self._protocol = ""
        self._leading: Leading | None = None
        self._led: dict[str, int] | None = None  #: the partition counts of the division that this leader has made
        self._skips_division = False
        self._counts: dict[str, int] = {}
        self._racks: dict[str, Sequence[Collection[str]]] = {}
        self._leave_reason = ""

    # --- what the driver reads ----------------------------------------------------------------

    @property
    def identity(self) -> GroupIdentity:
        """What a commit says of the member."""
        return GroupIdentity(self._member_id, self._generation, self._settings.group_instance_id)

    @property
    def is_dividing(self) -> bool:
        """Whether the member is in a round whose end the coordinator tells, and has nothing to settle first."""
        return self._phase in (MemberPhase.JOINING, MemberPhase.SYNCING) and self._holdings.is_settled

    @property
    def watched(self) -> frozenset[str]:
        """The topics whose partition counts matter: its own, and for a leader those of all members."""
        return self._topics.union(self._leading.topics if self._leading else ())

    # --- what the driver tells ----------------------------------------------------------------

    def subscribe(self, topics: Collection[str], now_ms: int) -> None:
        """Subscribe to these topics instead of others; to none is to leave the group.

        For a pattern the driver subscribes again whenever other names match it.
        """
        if self._phase is MemberPhase.CLOSED:
            return
        self._topics = frozenset(topics)
        if not topics:
            self._leave_reason = "the application has unsubscribed"
            self._leave()
        elif self._phase is MemberPhase.OUTSIDE:
            self._poll.polled(now_ms)
            self._join_again("the application has subscribed")

    def topics_known(
        self, counts: Mapping[str, int], racks: Mapping[str, Sequence[Collection[str]]], now_ms: int
    ) -> None:
        """Tell the number of partitions of topics, 0 for one that does not exist, and racks of their replicas.

        The driver tells `watched` topics again when it learns other counts. A leader then divides again.
        """
        self._counts.update(counts)
        for topic in counts:
            self._racks.pop(topic, None)
        self._racks.update(racks)
        if self._phase is MemberPhase.SYNCING:
            self._tries.reset()  # the leader may have waited for these

    def rejoin(self, reason: str) -> None:
        """Let the group divide its partitions again."""
        if self._phase is MemberPhase.STABLE:
            self._reason = self._reason or reason

    def close(self, now_ms: int, reason: str = "the consumer is closed") -> None:
        """Leave the group for good. A static member only stops: its partitions wait for it (KIP-345)."""
        if self._phase is not MemberPhase.CLOSED:
            self._closes = True
            self._leave_reason = reason
            self._leave()

    def settle_commit(self, code: int, identity: GroupIdentity, now_ms: int) -> CommitOutcome:
        """Take the code that a partition has in the answer to OffsetCommit, and return what becomes of it.

        ``identity`` is the one that the commit was sent with: an answer to an older one tells nothing about now.
        """
        name = codes.name_of(code)
        is_current = identity == self.identity and self._phase in ACTIVE
        if code == 0:
            return CommitOutcome.STORED
        if name in ELSEWHERE or name == "REQUEST_TIMED_OUT":
            self._search.lose(now_ms)
            return CommitOutcome.RETRY
        if name == "REBALANCE_IN_PROGRESS":
            if is_current:
                self.rejoin("a commit has found a rebalance")
            return CommitOutcome.REBALANCING
        if name == "ILLEGAL_GENERATION" and is_current and self.is_dividing and self._phase is MemberPhase.JOINING:
            # The coordinator has ended the round: the answer to JoinGroup tells the new generation, or a removal.
            return CommitOutcome.REBALANCING
        if name in _REMOVED:
            if is_current:
                self._fence(name)
            return CommitOutcome.FENCED
        if name == "FENCED_INSTANCE_ID":
            if is_current:
                self._fail(self._error(code, "commit"), is_fenced=True)
            return CommitOutcome.FENCED
        if codes.is_retriable(code):
            return CommitOutcome.RETRY
        return CommitOutcome.REFUSED

    # --- what the driver does -----------------------------------------------------------------

    def _look(self, now_ms: int, found: list[MemberStep]) -> None:
        self._look_at_the_time(now_ms, found)
        if self._phase is MemberPhase.STABLE:
            self._look_for_reasons()
        if self._phase is MemberPhase.JOINING and not self._is_prepared and self._holdings.is_settled:
            self._prepare()

    def _send_due(self, now_ms: int, found: list[MemberStep]) -> None:
        if self._search.node_id is None:
            return
        if self._phase is MemberPhase.JOINING:
            self._send_join(now_ms, found)
        elif self._phase is MemberPhase.SYNCING:
            self._send_sync(now_ms, found)
        self._send_heartbeat(now_ms, found)

    def _due_times(self) -> list[int]:
        times: list[int] = []
        if self._search.node_id is not None:
            if self._is_heard():
                times.append(self._session_ms + self._settings.session_timeout_ms)
                if not self._requests.has(HEARTBEAT):
                    times.append(self._heartbeat_ms)
            if self._phase is MemberPhase.JOINING and self._holdings.is_settled and not self._requests.has(_JOIN):
                times.append(self._tries.ready_ms)
            if self._phase is MemberPhase.SYNCING and not self._requests.has(_SYNC):
                times.append(self._tries.ready_ms)
        return times

    def _take(self, response: Message, asked: Unanswered, now_ms: int) -> None:
        if isinstance(response, JoinGroupResponse):
            self._take_join(response, now_ms)
        elif isinstance(response, SyncGroupResponse):
            self._take_sync(response, now_ms)
        elif isinstance(response, HeartbeatResponse):
            self._take_heartbeat(response, asked, now_ms)

    # --- joining ------------------------------------------------------------------------------

    def _join(self, reason: str) -> None:
        """Begin to join; what must be revoked is, before JoinGroup is sent."""
        self._phase = MemberPhase.JOINING
        self._is_prepared = False
        self._reason = reason
        self._leading = None
        self._requests.forget(_JOIN, _SYNC)

    def _join_again(self, reason: str) -> None:
        self._join(reason)
        self._is_prepared = True

    def _subscribes(self) -> bool:
        return bool(self._topics)

    def _look_for_reasons(self) -> None:
        """Join again if the subscription, or the topics that this leader has divided, are others by now."""
        if self._reason is None and self._topics != self._joined_topics:
            self._reason = "the subscription has changed"
        counted = self._leading.counted(self._counts) if self._leading is not None else None
        if self._reason is None and self._led is not None and counted != self._led:
            self._reason = "the number of partitions has changed"
        if self._reason is not None:
            self._join(self._reason)

    def _prepare(self) -> None:
        """Revoke what other members may get by the rebalance that begins."""
        self._is_prepared = True
        held = self._holdings.held
        if self._protocols.is_cooperative:
            held = {one for one in held if one.topic not in self._topics}
        self._holdings.revoke(held)

    def _send_join(self, now_ms: int, found: list[MemberStep]) -> None:
        if not self._is_prepared or not self._holdings.is_settled or not self._tries.is_ready(now_ms):
            return
        if self._requests.has(_JOIN):
            return
        settings = self._settings
        self._joined_topics = self._topics
        message = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._protocols.said(self._topics, self._holdings.held, self._held_since),
            reason=self._reason,
        )
        timeout_ms = max(settings.request_timeout_ms, settings.max_poll_interval_ms + _JOIN_GRACE_MS)
        self._requests.forget(HEARTBEAT)
        found.append(self._send(_JOIN, message, timeout_ms, now_ms))

    def _take_join(self, response: JoinGroupResponse, now_ms: int) -> None:
        name = codes.name_of(response.error_code)
        if name == "MEMBER_ID_REQUIRED":
            self._member_id = response.member_id
        elif name == "UNKNOWN_MEMBER_ID":
            self._fence(name)
        elif response.error_code == 0:
            self._begin_sync(response, now_ms)
        else:
            self._refused(response.error_code, _JOIN, now_ms)

    def _begin_sync(self, response: JoinGroupResponse, now_ms: int) -> None:
        self._member_id = response.member_id
        self._generation = response.generation_id
        self._tries.reset()
        self._hear(now_ms)
        protocol = response.protocol_name or ""
        if response.protocol_type not in (None, PROTOCOL_TYPE) or protocol not in self._protocols.names:
            self._fail(codes.error_of(_INCONSISTENT, self._where(_JOIN), f"the group has chosen {protocol!r}"))
            return
        self._protocol = protocol
        self._phase = MemberPhase.SYNCING
        self._reason = None
        self._leading = self._led = None
        if response.leader == response.member_id:
            self._skips_division = response.skip_assignment
            try:
                self._leading = Leading(protocol, response.members)
                # Only its own topics were watched meanwhile; what is remembered of others may be out of date.
                self._counts = {name: count for name, count in self._counts.items() if name in self._topics}
            except MalformedMessageError as error:
                self._fail(error)

    def _send_sync(self, now_ms: int, found: list[MemberStep]) -> None:
        if self._requests.has(_SYNC) or not self._tries.is_ready(now_ms):
            return
        assignments: Sequence[SyncGroupRequest.SyncGroupRequestAssignment] = ()
        if self._leading is not None:
            counts = self._leading.counted(self._counts)
            if counts is None:
                self._ask(self._leading.topics, now_ms, found)
                return
            self._led = counts
            if not self._skips_division:
                assignments = self._leading.divided(counts, self._racks)
        message = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=assignments,
        )
        timeout_ms = max(self._settings.request_timeout_ms, self._settings.max_poll_interval_ms + _JOIN_GRACE_MS)
        found.append(self._send(_SYNC, message, timeout_ms, now_ms))

    def _ask(self, topics: tuple[str, ...], now_ms: int, found: list[MemberStep]) -> None:
        """Ask for the partition counts of topics that are not known, now and after each pause."""
        self._tries.pause(now_ms)
        found.append(TopicsWanted(tuple(topic for topic in topics if topic not in self._counts)))

    def _take_sync(self, response: SyncGroupResponse, now_ms: int) -> None:
        if response.error_code == 0:
            try:
                given = decode_assignment(response.assignment)
            except MalformedMessageError as error:
                self._fail(error)
                return
            self._hear(now_ms)
            self._tries.reset()
            self._begin_round(given.partitions)
        elif codes.name_of(response.error_code) == "REBALANCE_IN_PROGRESS":
            self._join("another rebalance has begun before this one ended")
            self._is_prepared = False
        else:
            self._refused(response.error_code, _SYNC, now_ms)

    def _begin_round(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with what the round has given: revoke what is lost by it, and assign what is new."""
        self._phase = MemberPhase.STABLE
        self._held_since = self._generation
        self._protocols.remember(partitions, self._generation)
        now = {one for one in partitions if one.topic in self._joined_topics}
        assert self._holdings.is_settled
        held = set(self._holdings.held)
        assert self._protocols.is_cooperative or not held
        if self._holdings.revoke(held - now):
            # Members that wait for these get them in a round that begins when they are revoked (KIP-429).
            self._reason = "partitions that the last round has taken are revoked"
        self._holdings.assign(now - held)

    # --- heartbeats ---------------------------------------------------------------------------

    def _is_heard(self) -> bool:
        """Tell whether the coordinator counts on heartbeats: the member has a generation and does not join now."""
        return (
            self._generation != NO_GENERATION
            and not self._requests.has(_JOIN)
            and (self._phase in ACTIVE or (self._phase is MemberPhase.LEAVING and not self._requests.has(LEAVE)))
        )

    def _hear(self, now_ms: int) -> None:
        self._session_ms = now_ms
        self._heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms

    def _send_heartbeat(self, now_ms: int, found: list[MemberStep]) -> None:
        if not self._is_heard() or self._requests.has(HEARTBEAT) or now_ms < self._heartbeat_ms:
            return
        self._heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
        message = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        # A third of the session: one lost answer does not cost the membership.
        timeout_ms = min(self._settings.request_timeout_ms, self._settings.session_timeout_ms // 3)
        found.append(self._send(HEARTBEAT, message, timeout_ms, now_ms))

    def _take_heartbeat(self, response: HeartbeatResponse, asked: Unanswered, now_ms: int) -> None:
        name = codes.name_of(response.error_code)
        if asked.generation != self._generation or self._phase not in ACTIVE:
            return
        if response.error_code == 0:
            self._hear(now_ms)
        elif name == "REBALANCE_IN_PROGRESS":
            self._hear(now_ms)
            self.rejoin("the group rebalances")
        else:
            self._refused(response.error_code, HEARTBEAT, now_ms)

    def _look_at_the_time(self, now_ms: int, found: list[MemberStep]) -> None:
        if self._phase in ACTIVE and self._poll.is_expired(now_ms):
            self._leave_reason = _LATE
            self._leave_late(now_ms, found, keeps_id=self._settings.group_instance_id is not None)
        elif self._is_session_over(now_ms):
            # The coordinator may be gone without a word: it is looked for again, and decides about the membership.
            self._requests.forget(HEARTBEAT, _SYNC)
            self._search.lose(now_ms)
            self._session_ms = now_ms

    def _is_session_over(self, now_ms: int) -> bool:
        return self._is_heard() and now_ms >= self._session_ms + self._settings.session_timeout_ms

    def _is_outlived(self, asked: Unanswered, now_ms: int) -> bool:
        # The group may have divided its partitions again while this process stood still.
        return asked.kind == _SYNC and self._is_session_over(now_ms)

    # --- errors -------------------------------------------------------------------------------

    def _retry(self, kind: str, now_ms: int) -> None:
        if kind == HEARTBEAT:
            self._tries.pause(now_ms)
            self._heartbeat_ms = max(now_ms, self._tries.ready_ms)
        else:
            self._tries.pause(now_ms)
            if kind == _SYNC:
                # The round may have ended without this member: only JoinGroup tells.
                self._join("SyncGroup has failed")

    def _refused(self, code: int, kind: str, now_ms: int) -> None:
        """React to an error that JoinGroup, SyncGroup or Heartbeat may have."""
        name = codes.name_of(code)
        if name in ELSEWHERE:
            self._search.lose(now_ms)
            self._retry(kind, now_ms)
        elif name in _REMOVED:
            self._fence(name)
        elif name == "REBALANCE_IN_PROGRESS" or codes.is_retriable(code):
            self._retry(kind, now_ms)
        else:
            self._fail(self._error(code, kind), is_fenced=name == "FENCED_INSTANCE_ID")

    def _fence(self, name: str) -> None:
        """Lose everything, since the coordinator does not count on this member any more, and join again."""
        self._drop_membership(keeps_id=name == "ILLEGAL_GENERATION")
        self._holdings.lose()
        self._join_again(f"the coordinator has answered {name}")

    def _drop_membership(self, *, keeps_id: bool = False) -> None:
        self._generation = self._held_since = NO_GENERATION
        self._leading = self._led = None
        self._requests.forget(_JOIN, _SYNC, HEARTBEAT)
        if not keeps_id:
            self._member_id = ""

    def _error(self, code: int, kind: str) -> LogstoreError:
        return codes.error_of(code, self._where(kind))

    def _where(self, kind: str) -> str:
        return f"{kind} of group {self._settings.group_id!r}"

    # --- leaving ------------------------------------------------------------------------------

    def _is_member(self) -> bool:
        return self._phase in ACTIVE and self._generation != NO_GENERATION

    def _has_to_tell(self) -> bool:
        # A static member comes back (KIP-345).
        return bool(self._member_id) and self._settings.group_instance_id is None

    def _leave_request(self, now_ms: int) -> SendRequest:
        message = LeaveGroupRequest(
            group_id=self._settings.group_id,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=self._member_id,
                    group_instance_id=self._settings.group_instance_id,
                    reason=self._leave_reason,
                )
            ],
        )
        return self._send(LEAVE, message, self._settings.request_timeout_ms, now_ms)

    def _send(self, kind: str, message: Message, timeout_ms: int, now_ms: int) -> SendRequest:
        return self._requests.send(
            kind,
            message,
            self._search.node_id,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            generation=self._generation,
        )


#: The coordinator has removed the member, or counts on another generation.
_REMOVED = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"})
_INCONSISTENT = 23
