"""One member of a consumer group that the broker divides: ConsumerGroupHeartbeat (KIP-848).

`ModernMember` has no clock, socket or thread: its driver does what `steps` returns (`steps` module). One thread at
a time may call it. The rules it keeps:

- A partition that the target leaves out is said to be held until its callback has finished; the coordinator gives
  it to no other member before.
- A heartbeat without an answer is followed by one that says everything: the coordinator may have taken it, or not.
- A member that is fenced loses everything, and joins with epoch 0.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from logstore.errors import LogstoreError
from logstore.groups.membership.coordination import ELSEWHERE, Unanswered
from logstore.groups.membership.member import ACTIVE, HEARTBEAT, LEAVE, GroupMemberBase, MemberPhase
from logstore.groups.membership.steps import MembershipFailed, MemberStep, SendRequest, TopicIdsWanted
from logstore.groups.membership.timing import MemberSettings
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from logstore.protocol.message import Message
from logstore.records import TopicPartition

_JOINS, _LEAVES, _LEAVES_FOR_A_WHILE = 0, -1, -2  #: member epochs with a meaning of their own

_FENCED = frozenset({"FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"})


class MemberSubscription(NamedTuple):
    """What a member subscribes to: names, or a regular expression of RE2 that the broker resolves (version 1)."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None


class _Said(NamedTuple):
    """What the coordinator has been told; fields that have not changed since are left out of a heartbeat."""

    subscription: MemberSubscription
    owned: dict[str, list[int]]


def new_member_id(rng: Random) -> str:
    """Return a random id of a member, written as Kafka writes UUIDs.

    >>> len(new_member_id(Random(1)))
    22
    """
    return base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode().rstrip("=")


class ModernMember(GroupMemberBase):
    """One member of a KIP-848 group.

    Its id is made here and stays for its life. A broker that has only version 0 of the heartbeat takes it, too.
    ``server_assignor`` is a name that the broker knows, such as ``uniform`` or ``range``.
    """

    def __init__(
        self,
        settings: MemberSettings,
        now_ms: int,
        *,
        server_assignor: str | None = None,
        rng: Random | None = None,
    ) -> None:
        rng = rng or Random()
        super().__init__(settings, now_ms, rng)
        self._server_assignor = server_assignor
        self._subscription = MemberSubscription()
        self._member_id = new_member_id(rng)
        self._epoch = _JOINS
        self._interval_ms = settings.heartbeat_interval_ms  #: the broker says another one
        self._said: _Said | None = None  #: None: the next heartbeat says everything
        self._sent: _Said | None = None  #: what the heartbeat without an answer says
        self._target: dict[str, frozenset[int]] | None = None  #: topic id -> partitions, as the broker wants it
        self._has_begun = False  #: partitions have been assigned since it joined
        self._name_of: dict[str, str] = {}
        self._id_of: dict[str, str] = {}  #: topic of partitions that are held -> its id
        self._asked: frozenset[str] = frozenset()
        self._is_known = False  #: the coordinator may have heard of this member

    # --- what the driver reads ----------------------------------------------------------------

    @property
    def member_id(self) -> str:
        """The id of the member, which a commit names."""
        return self._member_id

    @property
    def epoch(self) -> int:
        """The epoch of the member, which a commit names as its generation."""
        return self._epoch

    # --- what the driver tells ----------------------------------------------------------------

    def subscribe(self, subscription: MemberSubscription, now_ms: int) -> None:
        """Subscribe to this instead; to nothing is to leave the group."""
        if self._phase is MemberPhase.CLOSED:
            return
        self._subscription = subscription
        if not self._subscribes():
            self._leave()
        elif self._phase is MemberPhase.OUTSIDE:
            self._poll.polled(now_ms)
            self._join()

    def topics_named(self, names: Mapping[str, str], now_ms: int) -> None:
        """Tell the names of topic ids; the driver does so whenever it learns some."""
        self._name_of.update(names)
        self._asked -= names.keys()

    def close(self, now_ms: int) -> None:
        """Leave the group for good; the partitions of a static member wait until its session is over."""
        if self._phase is not MemberPhase.CLOSED:
            self._closes = True
            self._leave()

    def commit_refused(self, code: int, epoch: int, now_ms: int) -> bool:
        """Take the code of a commit that was refused; tell whether it is to be sent again with today's epoch.

        STALE_MEMBER_EPOCH means that the epoch has moved on; the membership is not in doubt. Other errors about the
        member say what the next heartbeat says, which is sent at once.
        """
        name = codes.name_of(code)
        if name in ELSEWHERE:
            self._search.lose(now_ms)
            return True
        if name == "STALE_MEMBER_EPOCH":
            return self._phase is MemberPhase.STABLE and epoch != self._epoch
        if name in _FENCED and epoch == self._epoch and self._phase is MemberPhase.STABLE:
            self._heartbeat_ms = now_ms
        return codes.is_retriable(code)

    # --- what the driver does -----------------------------------------------------------------

    def _look(self, now_ms: int, found: list[MemberStep]) -> None:
        if self._phase in ACTIVE and self._poll.is_expired(now_ms):
            self._leave_late(now_ms, found)
        if self._phase is MemberPhase.STABLE and self._holdings.is_settled:
            self._reconcile(found)

    def _send_due(self, now_ms: int, found: list[MemberStep]) -> None:
        self._send_heartbeat(now_ms, found)

    def _due_times(self) -> list[int]:
        if not self._may_send():
            return []
        ready_ms = self._tries.ready_ms
        return [ready_ms if self._has_news() else max(self._heartbeat_ms, ready_ms)]

    def _take(self, response: Message, asked: Unanswered, now_ms: int) -> None:
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            self._take_heartbeat(response, now_ms)

    # --- heartbeats ---------------------------------------------------------------------------

    def _join(self) -> None:
        self._phase = MemberPhase.JOINING
        self._epoch = _JOINS
        self._is_known = False
        self._said = self._sent = self._target = None
        self._has_begun = False
        self._asked = frozenset()
        self._requests.forget(HEARTBEAT)

    def _join_again(self, reason: str) -> None:
        self._join()

    def _subscribes(self) -> bool:
        return self._subscription != MemberSubscription()

    def _owned(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for one in sorted(self._holdings.held):
            found.setdefault(self._id_of[one.topic], []).append(one.partition)
        return found

    def _may_send(self) -> bool:
        if self._search.node_id is None or self._requests.has(HEARTBEAT):
            return False
        if self._phase is MemberPhase.JOINING:
            return self._holdings.is_settled  # what was lost is no longer held
        if self._phase is MemberPhase.LEAVING:
            return self._epoch > 0 and not self._requests.has(LEAVE)
        return self._phase is MemberPhase.STABLE

    def _has_news(self) -> bool:
        """Tell whether the coordinator waits for what this member has to say."""
        if self._phase is not MemberPhase.STABLE:
            return self._phase is MemberPhase.JOINING
        if self._said is None or self._said.subscription != self._subscription:
            return True
        return self._holdings.is_settled and self._said.owned != self._owned()

    def _send_heartbeat(self, now_ms: int, found: list[MemberStep]) -> None:
        if not self._may_send() or not self._tries.is_ready(now_ms):
            return
        if now_ms < self._heartbeat_ms and not self._has_news():
            return
        said = self._said
        owned = self._owned()
        subscription = self._subscription
        message = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._settings.group_instance_id,
        )
        if said is None:
            message.rack_id = self._settings.client_rack
            message.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            message.server_assignor = self._server_assignor
        if said is None or said.subscription != subscription:
            message.subscribed_topic_names = sorted(subscription.names)
            message.subscribed_topic_regex = subscription.pattern
            if subscription.pattern is None and said is not None and said.subscription.pattern is not None:
                message.subscribed_topic_regex = ""
        if said is None or said.owned != owned:
            message.topic_partitions = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in owned.items()
            ]
        assert self._epoch > 0 or not owned
        self._is_known = True
        self._sent = _Said(subscription, owned)
        self._heartbeat_ms = now_ms + self._interval_ms
        found.append(self._send(HEARTBEAT, message, now_ms))

    def _take_heartbeat(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        if self._phase not in ACTIVE:
            return
        if response.error_code != 0:
            self._refused(response, now_ms)
            return
        self._tries.reset()
        self._member_id = response.member_id or self._member_id
        self._epoch = response.member_epoch
        self._phase = MemberPhase.STABLE
        self._said = self._sent
        self._interval_ms = max(1, response.heartbeat_interval_ms)
        self._heartbeat_ms = now_ms + self._interval_ms
        if response.assignment is not None:
            self._target = {one.topic_id: frozenset(one.partitions) for one in response.assignment.topic_partitions}

    def _retry(self, kind: str, now_ms: int) -> None:
        """Say everything after a pause: the coordinator may have taken the last heartbeat, or not."""
        self._said = self._sent = None
        self._tries.pause(now_ms)
        self._heartbeat_ms = self._tries.ready_ms

    def _refused(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        name = codes.name_of(response.error_code)
        if name in ELSEWHERE:
            self._search.lose(now_ms)
            self._retry(HEARTBEAT, now_ms)
        elif name in _FENCED:
            if self._epoch == _JOINS:
                # The coordinator has an older life of this id, and forgets it when its session is over.
                self._tries.pause(now_ms)
            self._holdings.lose()
            self._join()
        elif codes.is_retriable(response.error_code) or name == "TOPIC_AUTHORIZATION_FAILED":
            self._retry(HEARTBEAT, now_ms)
            if not codes.is_retriable(response.error_code):
                # The membership goes on: rights may be given while it waits.
                self._failure = MembershipFailed(self._error(response), is_final=False)
        else:
            self._fail(self._error(response), is_fenced=name == "FENCED_INSTANCE_ID")

    def _error(self, response: ConsumerGroupHeartbeatResponse) -> LogstoreError:
        return codes.error_of(
            response.error_code, f"heartbeat of group {self._settings.group_id!r}", response.error_message
        )

    def _drop_membership(self, *, keeps_id: bool = False) -> None:
        self._said = self._target = None
        self._epoch = _JOINS

    # --- reconciliation -----------------------------------------------------------------------

    def _reconcile(self, found: list[MemberStep]) -> None:
        """Move towards the target: first revoke what it leaves out, then assign what it adds.

        Topics are named by id: one that was deleted and made again is another topic, though its name is the same.
        """
        if self._target is None:
            return
        target, held = self._target, self._holdings.held
        gone = {one for one in held if one.partition not in target.get(self._id_of[one.topic], ())}
        if self._holdings.revoke(gone):
            return
        unknown = target.keys() - self._name_of.keys()
        if not unknown <= self._asked:
            self._asked |= unknown
            found.append(TopicIdsWanted(tuple(sorted(unknown))))
        new: set[TopicPartition] = set()
        held_names = {one.topic for one in held}
        is_whole = not unknown
        for topic_id in sorted(target.keys() - unknown):
            name = self._name_of[topic_id]
            if name in held_names and self._id_of[name] != topic_id:
                is_whole = False  # until the target leaves out the former topic of that name
                continue
            held_names.add(name)
            self._id_of[name] = topic_id
            new |= {TopicPartition(name, partition) for partition in target[topic_id]}
        new -= held
        if new or not self._has_begun:
            self._has_begun = True
            self._holdings.assign(new)
        if is_whole:
            self._target = None

    # --- leaving ------------------------------------------------------------------------------

    def _is_member(self) -> bool:
        return self._phase is MemberPhase.STABLE

    def _has_to_tell(self) -> bool:
        return self._is_known

    def _leave_request(self, now_ms: int) -> SendRequest:
        message = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=_LEAVES if self._settings.group_instance_id is None else _LEAVES_FOR_A_WHILE,
            instance_id=self._settings.group_instance_id,
        )
        return self._send(LEAVE, message, now_ms)

    def _send(self, kind: str, message: Message, now_ms: int) -> SendRequest:
        timeout_ms = min(self._settings.request_timeout_ms, max(3 * self._interval_ms, 1_000))
        return self._requests.send(
            kind, message, self._search.node_id, timeout_ms=timeout_ms, now_ms=now_ms, generation=self._epoch
        )
