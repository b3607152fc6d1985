"""Both sets of rules pass the suite that an embedder's own must pass, and planted mistakes do not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from logstore.errors import LogstoreError
from logstore.log import FixedPolicy, Log, Moves
from logstore.replication import (
    Acks,
    Arrival,
    FetchAnswer,
    FetchFrom,
    InSyncPlacement,
    InSyncReplica,
    LostRange,
    NodeId,
    PartitionState,
    Pending,
    Placement,
    QuorumPlacement,
    QuorumReplica,
    Replica,
)
from logstore.testing.conformance import ReplicaConformance
from tests.replication import plants


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


class InSync(ReplicaConformance):
    """Kafka's rules; ``kind`` and ``placement`` take a planted mistake."""

    minimum = 2
    lost_copies, nodes_down = 1, 1
    seeds = range(5)  # `test_simulated_lives` has many more
    kind: type[InSyncReplica] = InSyncReplica
    placement: type[InSyncPlacement] = InSyncPlacement

    def make_replica(self, log: Log, node: NodeId, life: int) -> Replica:
        return self.kind(log, node, life, min_insync=self.minimum, lag_max_ms=1_500)

    def make_placement(self, replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        return self.placement(replica, node, arrival, min_insync=self.minimum)


class Quorum(ReplicaConformance):
    """A majority of three."""

    lost_copies, nodes_down = 1, 1
    is_synced, isr_has_all = True, False
    seeds = range(5)
    kind: type[QuorumReplica] = QuorumReplica
    placement: type[QuorumPlacement] = QuorumPlacement

    def make_replica(self, log: Log, node: NodeId, life: int) -> Replica:
        return self.kind(log, node, life)

    def make_placement(self, replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
        return self.placement(replica, node, arrival)


@pytest.mark.row("F2")
class TestInSync(InSync):
    pass


@pytest.mark.row("F2")
class TestInSyncOneOfTwo(InSync):
    nodes, minimum = 2, 1
    lost_copies, nodes_down = 0, 1


@pytest.mark.row("F11")
class TestQuorum(Quorum):
    pass


# --- wrong ones are found ------------------------------------------------------------------------


class TakesOlderStates(InSyncReplica):
    """It asks no version: what comes last counts."""

    def apply(self, state: PartitionState, now_ms: int) -> None:
        self._state = None
        super().apply(state, now_ms)


class AppendsAsFollower(InSyncReplica):
    """It asks only at `check_append` whether it leads, and its log takes appends."""

    def _begin(self, state: PartitionState, now_ms: int) -> None:
        super()._begin(state, now_ms)
        self._calls.set_policy(FixedPolicy(Moves.FROM_OUTSIDE))


class AcksAtOnce(InSyncReplica):
    """It acknowledges what the leader alone has."""

    def check_append(self, acks: Acks) -> int:
        return super().check_append(Acks.LEADER)

    def wait(self, *given: Any, acks: Acks, **options: Any) -> Pending:
        return super().wait(*given, acks=Acks.LEADER, **options)


class FallingMark(InSyncReplica):
    """Its high watermark is where the follower that asked last is."""

    _asked: int | None = None

    def answer(self, wants: FetchFrom, now_ms: int) -> FetchAnswer:
        self._asked = wants.offset
        return super().answer(wants, now_ms)

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark if self._asked is None else min(self._asked, self.log.high_watermark)


class ChangesItsMind(InSyncReplica):
    """It forgets what it has proposed, which the registry may still store."""

    def propose(self, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        self._forget_proposals()
        return super().propose(lives, now_ms)


class TrustsTheOldEpoch(InSyncPlacement):
    """A process that finds itself named goes on leading in the epoch of the process before it."""

    def entered(self, state: PartitionState, lives: Mapping[NodeId, int], first_epoch: int) -> PartitionState:
        return state


class HidesLosses(InSyncReplica):
    """It does not say what it had shown and has cut."""

    @property
    def lost(self) -> list[LostRange]:
        return []


class WaitsForEver(InSyncReplica):
    """Its appends go on waiting when their driver is closed."""

    def stop_waiting(self, error: LogstoreError) -> None:
        if not str(error).startswith("the driver"):
            super().stop_waiting(error)


def planted(base: type[Any], **parts: Any) -> Any:
    return type("Planted", (base,), parts)()


MISTAKES: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "older state taken": (planted(InSync, kind=TakesOlderStates), "test_an_older_state", ()),
    "append as follower": (planted(InSync, kind=AppendsAsFollower), "test_only_the_leader", ()),
    "ack of the leader alone": (planted(InSync, kind=AcksAtOnce), "test_a_batch_is_acknowledged", (False,)),
    "high watermark that falls": (planted(InSync, kind=FallingMark), "test_questions_that_come", ()),
    "proposal that changes": (planted(InSync, kind=ChangesItsMind), "test_a_proposal_stays", ()),
    "epoch not noted": (planted(InSync, kind=plants.NotesNoEpoch), "test_a_new_leader_has", ()),
    "losses hidden": (planted(InSync, kind=HidesLosses), "test_what_was_shown", ()),
    "appends that wait for ever": (planted(InSync, kind=WaitsForEver), "test_a_driver_that_stops", ()),
    "old epoch trusted": (planted(InSync, placement=TrustsTheOldEpoch), "test_placements_elect", ()),
    "acks kept over an epoch": (planted(InSync, kind=plants.KeepsAcks), "test_an_append_of_an_older", (1,)),
    "late writes after fencing": (planted(InSync, kind=plants.AnswersEveryEpoch), "test_answers_that_are_late", ()),
    "KIP-101": (planted(InSync, kind=plants.CutsByHighWatermark), "test_copies_become_equal", ("any",)),
    "KIP-279": (planted(InSync, kind=plants.TakesTheLeadersEnd), "test_copies_become_equal", ("any",)),
    "KIP-903": (planted(InSync, kind=plants.JoinsInAnyLife), "test_an_earlier_process", ()),
    "KIP-966": (planted(InSync, placement=plants.TakesEveryStopForClean), "test_as_many", ()),
    "standing not synced": (planted(Quorum, kind=plants.AsksBeforeTheSync), "test_a_standing", ()),
    "ack before the sync": (planted(Quorum, kind=plants.AsksBeforeTheSync), "test_a_batch_is_ack", (False,)),
    "shortest log elected": (planted(Quorum, placement=plants.ElectsTheShortest), "test_lives", ()),
    "more promised than held": (planted(InSync, lost_copies=2, nodes_down=0), "test_as_many", ()),
    "acks of one copy": (planted(InSync, kind=AcksAtOnce), "test_as_many", ()),
    "too many nodes down": (planted(InSync, nodes_down=2), "test_appends_are_acknowledged_while", ()),
}


@pytest.mark.parametrize(("suite", "begins", "given"), MISTAKES.values(), ids=MISTAKES)
def test_a_planted_mistake_fails_the_suite(suite: Any, begins: str, given: tuple[Any, ...]) -> None:
    (name,) = (name for name in dir(suite) if name.startswith(begins))
    for each in [(seed,) for seed in range(8)] if given == ("any",) else [given]:
        try:
            getattr(suite, name)(*each)
        except (AssertionError, LogstoreError, pytest.fail.Exception):
            return
    pytest.fail(f"{name} passes")
