"""Coordinators of groups for tests, with the rules by which Kafka's broker answers members; no sockets, no clock.

``deliver`` takes a request and later calls ``reply`` once, or never if the coordinator has moved meanwhile.
``tick`` lets time pass: sessions end, rebalances run out of time.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from logstore.groups.assignors import sticky
from logstore.groups.assignors.claims import OwnedClaim
from logstore.groups.assignors.members import GroupMember
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from logstore.records import TopicPartition

CODE = {known.name: number for number, known in codes.CODES.items()}

Reply = Callable[[Any], None]


@dataclass
class ClassicEntry:
    """A member as the classic coordinator knows it."""

    member_id: str
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    protocols: dict[str, bytes]
    heard_ms: int
    joined: int = -1  #: generation that it has joined
    join: Reply | None = None
    sync: Reply | None = None
    assignment: bytes = b""


class ClassicCoordinator:
    """The coordinator of one classic group."""

    def __init__(self, *, initial_delay_ms: int = 0, max_size: int = 100) -> None:
        self.state = "empty"
        self.generation = 0
        self.members: dict[str, ClassicEntry] = {}
        self.protocol = ""
        self.leader = ""
        self.rebalances: list[str | None] = []  #: the reason that each join has given
        self.left: list[str | None] = []  #: the reason that each leave has given
        self._initial_delay_ms = initial_delay_ms
        self._max_size = max_size
        self._pending: dict[str, int] = {}  #: ids given out, not joined yet -> until when
        self._made = 0
        self._deadline_ms = 0
        self._not_before_ms = 0
        self._stored: tuple[Any, ...] = ("empty", 0, {}, "", "")

    def counts(self, member_id: str) -> bool:
        """Whether this member is in the group as it is now."""
        found = self.members.get(member_id)
        return found is not None and found.joined == self.generation

    def instance(self, instance_id: str | None) -> ClassicEntry | None:
        return next((one for one in self.members.values() if instance_id and one.instance_id == instance_id), None)

    def deliver(self, message: Any, now: int, reply: Reply) -> None:
        self.tick(now)
        if isinstance(message, JoinGroupRequest):
            self._join(message, now, reply)
        elif isinstance(message, SyncGroupRequest):
            self._sync(message, now, reply)
        elif isinstance(message, HeartbeatRequest):
            reply(HeartbeatResponse(error_code=CODE[self._heartbeat(message, now)]))
        elif isinstance(message, LeaveGroupRequest):
            self._leave(message, now)
            reply(LeaveGroupResponse())
        self.tick(now)

    def move(self, now: int) -> None:
        """Another broker takes over with what is stored: the last round that was complete."""
        for one in self.members.values():
            for waiting in (one.join, one.sync):
                if waiting is not None:
                    kind = JoinGroupResponse if waiting is one.join else SyncGroupResponse
                    waiting(kind(error_code=CODE["NOT_COORDINATOR"]))
            one.join = one.sync = None
        if self.state != "stable":
            self.state, self.generation, members, self.protocol, self.leader = self._stored
            self.members = copy.deepcopy(members)
        self._pending.clear()
        for one in self.members.values():
            one.heard_ms = now

    # --- time ---

    def tick(self, now: int) -> None:
        for name in [name for name, until in self._pending.items() if now >= until]:
            del self._pending[name]
        for one in [*self.members.values()]:
            if one.join is None and one.sync is None and now >= one.heard_ms + one.session_ms:
                self._remove(one, now)
        if self.state == "preparing":
            self._complete_join(now)
        elif self.state == "completing" and now >= self._deadline_ms:
            for one in [one for one in self.members.values() if one.sync is None]:
                self._remove(one, now)

    def _remove(self, one: ClassicEntry, now: int) -> None:
        del self.members[one.member_id]
        for waiting, kind in ((one.join, JoinGroupResponse), (one.sync, SyncGroupResponse)):
            if waiting is not None:
                waiting(kind(error_code=CODE["UNKNOWN_MEMBER_ID"]))
        if not self.members:
            self.state = "empty"
            self.generation += 1
        elif self.state in ("stable", "completing"):
            self._prepare(now)
        self._store()

    # --- requests ---

    def _check(self, message: Any, member_id: str, instance_id: str | None) -> str:
        static = self.instance(instance_id)
        if instance_id is not None and static is None:
            return "UNKNOWN_MEMBER_ID"
        if static is not None and static.member_id != member_id:
            return "FENCED_INSTANCE_ID"
        if member_id not in self.members:
            return "UNKNOWN_MEMBER_ID"
        if not isinstance(message, JoinGroupRequest) and message.generation_id != self.generation:
            return "ILLEGAL_GENERATION"
        return "NONE"

    def _heartbeat(self, message: HeartbeatRequest, now: int) -> str:
        error = self._check(message, message.member_id, message.group_instance_id)
        if error == "NONE":
            self.members[message.member_id].heard_ms = now
            if self.state == "preparing":
                return "REBALANCE_IN_PROGRESS"
        return error

    def _leave(self, message: LeaveGroupRequest, now: int) -> None:
        for one in message.members:
            self._pending.pop(one.member_id, None)
            found = self.members.get(one.member_id)
            if found is not None:
                self.left.append(one.reason)
                self._remove(found, now)

    def _join(self, message: JoinGroupRequest, now: int, reply: Reply) -> None:
        def refuse(name: str, member_id: str = message.member_id) -> None:
            reply(JoinGroupResponse(error_code=CODE[name], member_id=member_id))

        protocols = {one.name: one.metadata for one in message.protocols}
        others = [one for one in self.members.values() if one.member_id != message.member_id]
        if others and not protocols.keys() & frozenset.intersection(*(frozenset(one.protocols) for one in others)):
            refuse("INCONSISTENT_GROUP_PROTOCOL")
            return
        static = self.instance(message.group_instance_id)
        if not message.member_id:
            if len(self.members) >= self._max_size and static is None:
                refuse("GROUP_MAX_SIZE_REACHED", "")
                return
            self._made += 1
            member_id = f"{message.group_instance_id or 'member'}-{self._made}"
            if message.group_instance_id is None:
                self._pending[member_id] = now + message.session_timeout_ms
                refuse("MEMBER_ID_REQUIRED", member_id)
                return
            if static is not None:
                self._replace(static, member_id, message, now, reply)
                return
        else:
            member_id = message.member_id
            if member_id not in self._pending:
                error = self._check(message, member_id, message.group_instance_id)
                if error != "NONE":
                    refuse(error)
                    return
        known = self.members.get(member_id)
        if known is not None:
            unchanged = known.protocols == protocols
            if unchanged and (self.state == "completing" or (self.state == "stable" and member_id != self.leader)):
                known.heard_ms = now
                reply(self._joined(known))
                return
        self._pending.pop(member_id, None)
        entry = known or ClassicEntry(member_id, message.group_instance_id, 0, 0, {}, now)
        entry.session_ms, entry.rebalance_ms = message.session_timeout_ms, message.rebalance_timeout_ms
        entry.protocols, entry.heard_ms, entry.join = protocols, now, reply
        self.members[member_id] = entry
        self.rebalances.append(message.reason)
        if self.state != "preparing":
            self._prepare(now)

    def _replace(
        self, old: ClassicEntry, member_id: str, message: JoinGroupRequest, now: int, reply: Reply
    ) -> None:
        """A static member has come back with another member id (KIP-345)."""
        for waiting, kind in ((old.join, JoinGroupResponse), (old.sync, SyncGroupResponse)):
            if waiting is not None:
                waiting(kind(error_code=CODE["FENCED_INSTANCE_ID"]))
        del self.members[old.member_id]
        was_leader = self.leader == old.member_id
        old.member_id, old.heard_ms, old.join, old.sync = member_id, now, None, None
        old.protocols = {one.name: one.metadata for one in message.protocols}
        self.members[member_id] = old
        if was_leader:
            self.leader = member_id
        if self.state == "stable" and self._chosen() == self.protocol:
            self._store()
            found = self._joined(old)
            found.skip_assignment = was_leader
            reply(found)
            return
        old.join = reply
        if self.state != "preparing":
            self._prepare(now)

    def _sync(self, message: SyncGroupRequest, now: int, reply: Reply) -> None:
        error = self._check(message, message.member_id, message.group_instance_id)
        if error == "NONE" and self.state == "preparing":
            error = "REBALANCE_IN_PROGRESS"
        if error != "NONE":
            reply(SyncGroupResponse(error_code=CODE[error]))
            return
        one = self.members[message.member_id]
        one.heard_ms = now
        if self.state == "stable":
            reply(SyncGroupResponse(assignment=one.assignment))
            return
        one.sync = reply
        if message.member_id == self.leader:
            given = {row.member_id: row.assignment for row in message.assignments}
            self.state = "stable"
            for other in self.members.values():
                other.assignment = given.get(other.member_id, b"")
            self._store()
            for other in self.members.values():
                if other.sync is not None:
                    other.heard_ms = now
                    waiting, other.sync = other.sync, None
                    waiting(SyncGroupResponse(assignment=other.assignment))

    # --- rounds ---

    def _store(self) -> None:
        if self.state in ("stable", "empty"):
            members = {
                name: ClassicEntry(
                    name, one.instance_id, one.session_ms, one.rebalance_ms, dict(one.protocols), one.heard_ms,
                    one.joined, None, None, one.assignment,
                )
                for name, one in self.members.items()
            }  # fmt: skip
            self._stored = (self.state, self.generation, members, self.protocol, self.leader)

    def _prepare(self, now: int) -> None:
        for one in self.members.values():
            if one.sync is not None:
                one.heard_ms = now
                waiting, one.sync = one.sync, None
                waiting(SyncGroupResponse(error_code=CODE["REBALANCE_IN_PROGRESS"]))
        self._not_before_ms = now + (self._initial_delay_ms if self.state == "empty" else 0)
        self.state = "preparing"
        self._deadline_ms = now + max(one.rebalance_ms for one in self.members.values())

    def _chosen(self) -> str:
        common = frozenset.intersection(*(frozenset(one.protocols) for one in self.members.values()))
        votes = [next(name for name in one.protocols if name in common) for one in self.members.values()]
        return max(sorted(set(votes)), key=votes.count)

    def _joined(self, one: ClassicEntry) -> JoinGroupResponse:
        kind = JoinGroupResponse.JoinGroupResponseMember
        members = (
            [
                kind(
                    member_id=other.member_id,
                    group_instance_id=other.instance_id,
                    metadata=other.protocols[self.protocol],
                )
                for other in self.members.values()
            ]
            if one.member_id == self.leader
            else []
        )
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=self.protocol,
            leader=self.leader,
            member_id=one.member_id,
            members=members,
        )

    def _complete_join(self, now: int) -> None:
        waits = bool(self._pending) or any(one.join is None for one in self.members.values())
        if now < self._not_before_ms or (waits and now < self._deadline_ms):
            return
        for name in [name for name, one in self.members.items() if one.join is None and one.instance_id is None]:
            del self.members[name]
        if not any(one.join for one in self.members.values()):
            if not self.members:
                self.state = "empty"
                self.generation += 1
                self._store()
            return
        self.generation += 1
        self.protocol = self._chosen()
        if self.leader not in self.members or self.members[self.leader].join is None:
            self.leader = next(name for name, one in self.members.items() if one.join)
        self.state = "completing"
        self._deadline_ms = now + max(one.rebalance_ms for one in self.members.values())
        for one in self.members.values():
            if one.join is not None:
                one.joined = self.generation
                one.heard_ms = now
                waiting, one.join = one.join, None
                waiting(self._joined(one))


# --- KIP-848 -----------------------------------------------------------------------------------

Part = tuple[str, int]  #: topic id and number


@dataclass
class ModernEntry:
    """A member as the coordinator of a KIP-848 group knows it."""

    member_id: str
    instance_id: str | None
    heard_ms: int
    epoch: int = 0
    previous: int = -1
    names: frozenset[str] = frozenset()
    pattern: str | None = None
    rebalance_ms: int = -1
    state: str = "stable"
    assigned: set[Part] = field(default_factory=set)
    revoking: set[Part] = field(default_factory=set)
    revoke_by_ms: int = 0


class ModernCoordinator:
    """The coordinator of one KIP-848 group. ``topics`` is topic -> (its id, number of partitions)."""

    def __init__(
        self,
        topics: Mapping[str, tuple[str, int]],
        *,
        session_ms: int = 45_000,
        interval_ms: int = 5_000,
        max_size: int = 100,
    ) -> None:
        self.topics = dict(topics)
        self.epoch = 0
        self.members: dict[str, ModernEntry] = {}
        self.fenced: list[str] = []
        self._session_ms = session_ms
        self._interval_ms = interval_ms
        self._max_size = max_size
        self._target: dict[str, set[Part]] = {}

    def counts(self, member_id: str) -> bool:
        """Whether this member is in the group as it is now."""
        return member_id in self.members

    def move(self, now: int) -> None:
        """Another broker takes over: all is stored, sessions begin again."""
        for one in self.members.values():
            one.heard_ms = now

    def tick(self, now: int) -> None:
        for one in [*self.members.values()]:
            if now >= one.heard_ms + self._session_ms or (one.state == "unrevoked" and now >= one.revoke_by_ms):
                self._remove(one)

    def add_partitions(self, topic: str, count: int) -> None:
        self.topics[topic] = (self.topics[topic][0], count)
        self._divide()

    def deliver(self, message: ConsumerGroupHeartbeatRequest, now: int, reply: Reply) -> None:
        self.tick(now)
        error, entry, has_changed = self._heartbeat(message, now)
        if error is not None:
            if error in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
                self.fenced.append(message.member_id)
            reply(ConsumerGroupHeartbeatResponse(error_code=CODE[error]))
            return
        if entry is None:
            reply(ConsumerGroupHeartbeatResponse(member_id=message.member_id, member_epoch=message.member_epoch))
            return
        is_full = message.topic_partitions is not None and message.subscribed_topic_names is not None
        found = None
        if has_changed or is_full or message.member_epoch == 0:
            kind = ConsumerGroupHeartbeatResponse
            found = kind.Assignment(
                topic_partitions=[
                    kind.TopicPartitions(topic_id=one, partitions=numbers)
                    for one, numbers in _by_id(entry.assigned).items()
                ]
            )
        reply(
            ConsumerGroupHeartbeatResponse(
                member_id=entry.member_id,
                member_epoch=entry.epoch,
                heartbeat_interval_ms=self._interval_ms,
                assignment=found,
            )
        )

    def _heartbeat(
        self, message: ConsumerGroupHeartbeatRequest, now: int
    ) -> tuple[str | None, ModernEntry | None, bool]:
        member_id, epoch, instance_id = message.member_id, message.member_epoch, message.instance_id
        static = next(
            (one for one in self.members.values() if instance_id and one.instance_id == instance_id), None
        )
        if epoch < 0:
            found = self.members.get(member_id)
            if found is None:
                return "UNKNOWN_MEMBER_ID", None, False
            if epoch == -2:
                found.epoch = -2
            else:
                self._remove(found)
            return None, None, False
        if epoch == 0 and (message.topic_partitions is None or message.topic_partitions):
            return "INVALID_REQUEST", None, False
        if epoch == 0 and message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
            return "INVALID_REQUEST", None, False
        entry = self.members.get(member_id)
        if static is not None and static.member_id != member_id:
            if epoch != 0:
                return "FENCED_INSTANCE_ID", None, False
            if static.epoch != -2:
                return "UNRELEASED_INSTANCE_ID", None, False
            entry = self._replace(static, member_id)
        elif entry is not None and entry.epoch == -2 and epoch == 0:
            entry = self._replace(entry, member_id)
        if entry is None:
            if epoch != 0:
                return "UNKNOWN_MEMBER_ID", None, False
            if len(self.members) >= self._max_size:
                return "GROUP_MAX_SIZE_REACHED", None, False
            entry = self.members[member_id] = ModernEntry(member_id, instance_id, now)
        owned = None
        if message.topic_partitions is not None:
            owned = {(one.topic_id, n) for one in message.topic_partitions for n in one.partitions}
        if epoch > entry.epoch:
            return "FENCED_MEMBER_EPOCH", None, False
        if epoch < entry.epoch and (epoch != entry.previous or owned is None or not owned <= entry.assigned):
            return "FENCED_MEMBER_EPOCH", None, False
        entry.heard_ms = now
        if message.rebalance_timeout_ms != -1:
            entry.rebalance_ms = message.rebalance_timeout_ms
        before = (entry.names, entry.pattern)
        if message.subscribed_topic_names is not None:
            entry.names = frozenset(message.subscribed_topic_names)
        if message.subscribed_topic_regex is not None:
            entry.pattern = message.subscribed_topic_regex or None
        if before != (entry.names, entry.pattern) or entry.epoch == 0:
            self._divide()
        was = set(entry.assigned)
        self._reconcile(entry, owned, now)
        return None, entry, was != entry.assigned

    def _replace(self, old: ModernEntry, member_id: str) -> ModernEntry:
        """A static member that had left for a while has come back: it continues with what it had."""
        del self.members[old.member_id]
        self._target[member_id] = self._target.pop(old.member_id, set())
        old.member_id, old.epoch, old.previous, old.state = member_id, 0, -1, "stable"
        old.revoking = set()
        self.members[member_id] = old
        return old

    def _remove(self, one: ModernEntry) -> None:
        del self.members[one.member_id]
        self._divide()

    # --- rounds ---

    def _subscribed(self, one: ModernEntry) -> tuple[str, ...]:
        return tuple(
            topic
            for topic in self.topics
            if topic in one.names or (one.pattern is not None and re.fullmatch(one.pattern, topic))
        )

    def _divide(self) -> None:
        """Begin a group epoch with another target."""
        self.epoch += 1
        counts = {topic: count for topic, (_, count) in self.topics.items()}
        name_of = {topic_id: topic for topic, (topic_id, _) in self.topics.items()}
        members = {name: GroupMember(self._subscribed(one)) for name, one in self.members.items()}
        claims = {
            name: OwnedClaim(
                sorted(
                    TopicPartition(name_of[topic_id], n)
                    for topic_id, n in self._target.get(name, ())
                    if name_of.get(topic_id) in member.topics
                ),
                1,
            )
            for name, member in members.items()
        }
        divided = sticky.divide(counts, members, claims, None) if members else {}
        self._target = {
            name: {(self.topics[one.topic][0], one.partition) for one in found} for name, found in divided.items()
        }

    def _reconcile(self, one: ModernEntry, owned: Collection[Part] | None, now: int) -> None:
        """Move a member towards its target, as far as others have released what it is to get."""
        if one.state == "unrevoked":
            if owned is None or one.revoking & set(owned):
                return
            one.revoking = set()
        if one.state == "stable" and one.epoch == self.epoch:
            return
        target = self._target[one.member_id]
        keeps = one.assigned & target
        goes = one.assigned - target
        taken = {part for other in self.members.values() if other is not one for part in _all(other)}
        free = {part for part in target - keeps if part not in taken}
        waits = bool(target - keeps - free)
        if goes and one.epoch != 0:
            one.assigned, one.revoking, one.state = keeps, goes, "unrevoked"
            one.revoke_by_ms = now + one.rebalance_ms
            return
        one.assigned = keeps | free
        one.state = "unreleased" if waits else "stable"
        if one.epoch != self.epoch:
            one.previous, one.epoch = one.epoch, self.epoch


def _all(one: ModernEntry) -> Iterable[Part]:
    return one.assigned | one.revoking


def _by_id(parts: Iterable[Part]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic_id, number in sorted(parts):
        found.setdefault(topic_id, []).append(number)
    return found
