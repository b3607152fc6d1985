"""The driver of one member in these tests: its clock, and every step that it has asked for."""

from __future__ import annotations

from typing import Any

from logstore.groups.membership.member import GroupMemberBase
from logstore.groups.membership.steps import PartitionsAssigned, PartitionsLost, PartitionsRevoked


class MemberDrive:
    """A member and its clock; every step it has asked for."""

    member: GroupMemberBase

    def __init__(self) -> None:
        self.now = 0
        self.steps: list[Any] = []

    def run(self, for_ms: int = 0) -> None:
        until = self.now + for_ms
        while True:
            self.steps += self.member.steps(self.now)
            assert self.member.steps(self.now) == []
            due = self.member.deadline_ms()
            if due is None or due > until:
                break
            assert due > self.now
            self.now = due
        self.now = until

    def seen(self, kind: type) -> list[Any]:
        return [step for step in self.steps if isinstance(step, kind)]

    def finish(self) -> None:
        for step in self.steps:
            if isinstance(step, PartitionsRevoked | PartitionsAssigned | PartitionsLost):
                self.member.finished(step, self.now)
        self.run()
