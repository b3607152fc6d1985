"""The groups of a `FakeCluster`: the coordinators of `tests.groups.coordinator` in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from logstore.protocol.generated import messages as m
from tests.groups.coordinator import CODE, ClassicCoordinator, ModernCoordinator
from tests.kit.waiting import wait_for

REQUESTS = (
    m.JoinGroupRequest,
    m.SyncGroupRequest,
    m.HeartbeatRequest,
    m.LeaveGroupRequest,
    m.ConsumerGroupHeartbeatRequest,
)

#: How often a request that waits lets time pass for its group.
TICK_S = 0.01
MOST_S = 600


class FakeGroups:
    """The members of every group. A group is at whichever broker is asked, until it is moved."""

    def __init__(self, *, session_ms: int, interval_ms: int) -> None:
        self.lock = threading.RLock()
        self.has_ended = False
        self.nodes: dict[str, int] = {}  #: group -> its coordinator, once it was moved
        self.groups: dict[str, ClassicCoordinator | ModernCoordinator] = {}
        self._session_ms = session_ms
        self._interval_ms = interval_ms

    def is_elsewhere(self, group: str, node: int) -> bool:
        return self.nodes.get(group, node) != node

    def move(self, group: str, node: int) -> None:
        """Another broker is the coordinator from now on, with what is stored."""
        with self.lock:
            self.nodes[group] = node
            self.groups[group].move(_now())

    def ask(self, node: int, request: Any, topics: Mapping[str, tuple[str, int]]) -> Any:
        """Return the answer to a member; waits as long as a broker lets it wait."""
        kind = m.RESPONSES[request.API_KEY]
        answers: list[Any] = []
        with self.lock:
            if self.is_elsewhere(request.group_id, node):
                return kind(error_code=CODE["NOT_COORDINATOR"])
            group = self._group(request, topics)
            group.deliver(request, _now(), answers.append)

        def is_answered() -> bool:
            with self.lock:
                group.tick(_now())
            return bool(answers) or self.has_ended

        wait_for(is_answered, MOST_S, every_s=TICK_S)
        if not answers:
            raise ConnectionError
        if isinstance(request, m.LeaveGroupRequest) and request.members:
            answers[0].members = [
                m.LeaveGroupResponse.MemberResponse(
                    member_id=one.member_id, group_instance_id=one.group_instance_id
                )
                for one in request.members
            ]
        return answers[0]

    def _group(self, request: Any, topics: Mapping[str, tuple[str, int]]) -> ClassicCoordinator | ModernCoordinator:
        found = self.groups.get(request.group_id)
        if found is None:
            if isinstance(request, m.ConsumerGroupHeartbeatRequest):
                found = ModernCoordinator({}, session_ms=self._session_ms, interval_ms=self._interval_ms)
            else:
                found = ClassicCoordinator(initial_delay_ms=20)
            self.groups[request.group_id] = found
        if isinstance(found, ModernCoordinator) and found.topics != topics:
            found.topics = dict(topics)
            found._divide()
        return found

    def refusal(self, request: Any) -> int:
        """Return the code with which a commit is refused; 0 if the member may commit."""
        with self.lock:
            group = self.groups.get(request.group_id)
            if group is None or not group.members:
                return 0 if request.generation_id_or_member_epoch < 0 else CODE["UNKNOWN_MEMBER_ID"]
            group.tick(_now())
            found = group.members.get(request.member_id)
            if found is None:
                return CODE["UNKNOWN_MEMBER_ID"]
            epoch = request.generation_id_or_member_epoch
            if isinstance(group, ModernCoordinator):
                return 0 if epoch == group.members[request.member_id].epoch else CODE["STALE_MEMBER_EPOCH"]
            if epoch != group.generation:
                return CODE["ILLEGAL_GENERATION"]
            return CODE["REBALANCE_IN_PROGRESS"] if group.state == "completing" else 0


def _now() -> int:
    return time.monotonic_ns() // 1_000_000
