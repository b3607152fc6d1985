"""Bugs to plant into the rules of replication: each is a mistake that a replicated log has had, or could have.

`test_plants` shows that each is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from logstore.errors import LogstoreError
from logstore.log import LogReplica, Stop
from logstore.replication import facts
from logstore.replication.api import (
    Change,
    Check,
    Diverging,
    Fact,
    FetchAnswer,
    FetchFrom,
    FetchRefusal,
    NodeId,
    PartitionState,
    Replica,
    Role,
    Standing,
    Write,
)
from logstore.replication.controller import Command, CommandGate
from logstore.replication.insync import InSyncReplica
from logstore.replication.local.local_registry import LocalRegistry
from logstore.replication.log_copy import LogCopy
from logstore.replication.placement import Arrival, InSyncPlacement
from logstore.replication.quorum import QuorumPlacement, QuorumReplica
from logstore.testing.cluster import Tolerance
from tests.kit.inside import state_of


class CutsByHighWatermark(InSyncReplica):
    """KIP-101: a follower cuts its log to its high watermark, and asks nothing about epochs."""

    def _begin(self, state: PartitionState, now_ms: int) -> None:
        super()._begin(state, now_ms)
        if self.role is Role.FOLLOWER:
            self._calls.truncate_to(self.log.high_watermark)


class FindsNoDivergence(LogCopy):
    """KIP-101: a leader compares no epochs."""

    def divergence(self, wants: FetchFrom) -> Diverging | None:
        return None


CutsByHighWatermark.make_copy = FindsNoDivergence


class ComparesNoEpochs(InSyncReplica):
    """KIP-101, see `FindsNoDivergence`; a follower keeps the tail that it had."""

    make_copy = FindsNoDivergence


class BeginsAtTheMark(LogCopy):
    """A follower that ends below its leader's log begins at the leader's high watermark, not at its log start."""

    def _begin_again(self, offset: int, state: PartitionState) -> None:
        super()._begin_again(max(offset, self.leader_mark), state)


class LeavesAGap(InSyncReplica):
    """See `BeginsAtTheMark`."""

    make_copy = BeginsAtTheMark


class AsksOnce(LogCopy):
    """KIP-279: a follower asks once, cuts to the end that its leader names, and asks nothing more."""

    _cut_in = -1  # the leader epoch in which it has cut

    def _cut(self, diverging: Diverging, leader_start: int, state: PartitionState) -> None:
        self._cut_in = state.leader_epoch
        self.calls.truncate_to(max(diverging.end_offset, self.log.log_start_offset))

    def question(self, epoch: int) -> FetchFrom:
        asked = super().question(epoch)
        return asked._replace(last_epoch=-1) if self._cut_in == epoch else asked

    def take(self, asked: FetchFrom, answer: FetchAnswer, state: PartitionState) -> bool:
        if self._cut_in == state.leader_epoch:
            asked = asked._replace(last_epoch=self.last_epoch())
        return super().take(asked, answer, state)


class KeepsWhatIsTooOld(LogCopy):
    """D3: a copy goes on though tombstones went that it has not seen."""

    def _is_too_old(self, answer: FetchAnswer) -> bool:
        return False


class RevivesDeletedKeys(InSyncReplica):
    """See `KeepsWhatIsTooOld`."""

    make_copy = KeepsWhatIsTooOld


class TakesTheLeadersEnd(InSyncReplica):
    """KIP-279, see `AsksOnce`."""

    make_copy = AsksOnce


class TrustsARegionsEnd(InSyncReplica):
    """A follower asks from where the records of an answer end, also if its log has not taken all of them."""

    _trusted, _trusted_in = -1, -1

    def take(self, asked: FetchFrom, fetched: FetchAnswer, now_ms: int) -> bool:
        left = b"" if fetched.records is None else bytes(fetched.records)
        self._trusted_in = fetched.leader_epoch if left else -1
        while left:
            self._trusted = int.from_bytes(left[:8], "big") + int.from_bytes(left[23:27], "big") + 1
            left = left[int.from_bytes(left[8:12], "big") + 12 :]
        return super().take(asked, fetched, now_ms)

    def ask(self, now_ms: int) -> tuple[NodeId, FetchFrom] | None:
        found = super().ask(now_ms)
        if found is None:
            return None
        leader, wants = found
        if wants.leader_epoch != self._trusted_in:
            return found
        return leader, wants._replace(offset=max(wants.offset, self._trusted))


class KeepsAcks(InSyncReplica):
    """I4: an append that waits is acknowledged in a later epoch of the same leader."""

    def stop_waiting(self, error: LogstoreError) -> None:
        pass

    def _acknowledge(self) -> None:
        waiting, mark = self._waiting.pending, self.log.high_watermark
        while waiting and waiting[0].result.last_offset < mark:
            waiting.popleft().settle()

    def take(self, asked: FetchFrom, fetched: FetchAnswer, now_ms: int) -> bool:
        moved = super().take(asked, fetched, now_ms)
        self._acknowledge()
        return moved


class AcksBeforeTheSmallerIsr(InSyncReplica):
    """F6: a smaller ISR counts when it is proposed, before the registry has it."""

    def _maximal_isr(self, state: PartitionState) -> set[int]:
        return set(state.isr if self._proposed is None else self._proposed.isr)

    def propose(self, lives: Any, now_ms: int) -> PartitionState | None:
        wanted = super().propose(lives, now_ms)
        self._raise_high_watermark(now_ms)
        return wanted


class AnswersEveryEpoch(InSyncReplica):
    """KIP-890's kind: writes of a leader that was fenced are taken."""

    def _refusal(self, wants: FetchFrom, state: PartitionState | None) -> FetchRefusal | None:
        found = super()._refusal(wants, state)
        return (
            None
            if found in (FetchRefusal.OLD_EPOCH, FetchRefusal.NEW_EPOCH) and self.role is Role.LEADER
            else found
        )

    def take(self, asked: FetchFrom, fetched: FetchAnswer, now_ms: int) -> bool:
        state = self.state
        if state is not None:
            asked = asked._replace(leader_epoch=state.leader_epoch)
            fetched = fetched._replace(leader_epoch=state.leader_epoch)
        return super().take(asked, fetched, now_ms)


class JoinsInAnyLife(InSyncReplica):
    """KIP-903: what an earlier process of a follower had asked for lets the later one join."""

    def _refusal(self, wants: FetchFrom, state: PartitionState | None) -> FetchRefusal | None:
        found = super()._refusal(wants, state)
        return None if found is FetchRefusal.STALE_REGISTRATION else found

    def _may_join(self, follower: Any, life: int | None) -> bool:
        follower.life = -1 if life is None else life
        return super()._may_join(follower, life)


class JoinsBehind(InSyncReplica):
    """I8: a follower joins the ISR before it has reached the high watermark."""

    def _may_join(self, follower: Any, life: int | None) -> bool:
        return life is not None and follower.life == life

    def _raise_high_watermark(self, now_ms: int) -> None:
        # Without the assertion of the production code, which finds it at once.
        state = self._state
        if state is None or self.role is not Role.LEADER or self._is_below_minimum(state):
            return
        needed = set(state.isr)
        mark = min([self.log.log_end_offset, *(f.end for node, f in self._followers.items() if node in needed)])
        if mark > self.log.high_watermark:
            self._calls.advance_high_watermark(mark)
        self._acknowledge()


class MovesBelowTheMinimum(InSyncReplica):
    """I7: the high watermark moves while the ISR is below the minimum, and eligible replicas lack records."""

    def _raise_high_watermark(self, now_ms: int) -> None:
        least, self._min_insync = self._min_insync, 1
        super()._raise_high_watermark(now_ms)
        self._min_insync = least


class LagsByTheWallClock(InSyncReplica):
    """The lag of followers is measured by the wall clock, which may jump."""

    def answer(self, wants: FetchFrom, now_ms: int) -> FetchAnswer:
        return super().answer(wants, state_of(self.log).clock.now_ms())

    def propose(self, lives: Any, now_ms: int) -> PartitionState | None:
        return super().propose(lives, state_of(self.log).clock.now_ms())

    def apply(self, state: PartitionState, now_ms: int) -> None:
        super().apply(state, state_of(self.log).clock.now_ms())

    def wait(self, *append: Any, now_ms: int, **options: Any) -> Any:
        return super().wait(*append, now_ms=state_of(self.log).clock.now_ms(), **options)


class TakesEveryStopForClean(InSyncPlacement):
    """KIP-966: a replica that has lost records stays in the ISR (the last replica standing)."""

    def __init__(self, replica: Replica, node: NodeId, arrival: Arrival, **options: Any) -> None:
        super().__init__(replica, node, arrival._replace(is_same_disk=True, stop=Stop.CLEAN), **options)


class TrustsAnOpenedLog(InSyncPlacement):
    """I10: a log that has failed, and was opened again in the same process, keeps its place."""

    def __init__(self, replica: Replica, node: NodeId, arrival: Arrival, **options: Any) -> None:
        if arrival.asked_in_epoch >= 0:
            arrival = Arrival(is_same_disk=True, stop=Stop.CLEAN)
        super().__init__(replica, node, arrival, **options)


class AsksBeforeTheSync(QuorumReplica):
    """A replica of a quorum asks, and is counted, with records that are not on its disk."""

    def _sync(self) -> None:
        pass

    def _raise_high_watermark(self) -> None:
        state = self.state
        if state is not None and self.role is Role.LEADER:
            mark = self._majority_end(state)
            if mark > max(self._epoch_start, self.log.high_watermark):
                self._calls.advance_high_watermark(mark)
            self._waiting.acknowledge_below(self.log.high_watermark, state.leader_epoch)


class ElectsTheShortest(QuorumPlacement):
    """The replica of a quorum that reaches least leads."""

    def _best(self, standings: Mapping[NodeId, Standing]) -> NodeId:
        return min(standings, key=lambda node: (standings[node], node))


class CountsOlderEpochs(QuorumReplica):
    """A leader of a quorum takes older records for committed before a record of its own epoch is."""

    def _raise_high_watermark(self) -> None:
        start, self._epoch_start = self._epoch_start, -1
        super()._raise_high_watermark()
        self._epoch_start = start


class IgnoresVersions(LocalRegistry):
    """A registry without compare-and-set: the last writer wins."""

    def connect(self) -> IgnoresVersions:
        session = IgnoresVersions()
        session._tree = self._tree
        return session

    def commit(self, changes: Any) -> Any:
        current = []
        for change in changes:
            found = self.read(change.path) if isinstance(change, Write) else None
            current.append(change if found is None else change._replace(version=found.version))
        return super().commit(current)


class IgnoresControllerEpochs(LocalRegistry):
    """I11: a write of a controller is taken though its epoch is old."""

    def connect(self) -> IgnoresControllerEpochs:
        session = IgnoresControllerEpochs()
        session._tree = self._tree
        return session

    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        return unfenced(super().commit, changes)


def unfenced(
    commit: Callable[[Sequence[Change]], list[Fact | None]], changes: Sequence[Change]
) -> list[Fact | None]:
    """Commit changes without the check of the controller's epoch."""
    fences = [isinstance(change, Check) and change.path == facts.CONTROLLER_EPOCH for change in changes]
    made = iter(commit([change for change, is_fence in zip(changes, fences, strict=True) if not is_fence]))
    return [None if is_fence else next(made) for is_fence in fences]


class ObeysEveryController(CommandGate):
    """I11: a node obeys a controller that another one has replaced."""

    def admits(self, command: Command) -> bool:
        return True


class NotesNoEpoch(InSyncReplica):
    """It leads without a note of its epoch on the disk."""

    def _begin(self, state: PartitionState, now_ms: int) -> None:
        noted, self._calls = self._calls, cast("Any", _WithoutNotes(self._calls))
        super()._begin(state, now_ms)
        self._calls = noted


class _WithoutNotes:
    def __init__(self, calls: LogReplica) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return (lambda epoch: None) if name == "begin_epoch" else getattr(self._calls, name)


def quorum(
    replica: type[QuorumReplica] = QuorumReplica, placement: type[QuorumPlacement] = QuorumPlacement, nodes: int = 3
) -> dict[str, Any]:
    """Return the settings of a cluster of a quorum."""
    return {
        "nodes": nodes,
        "tolerance": Tolerance(nodes // 2, is_synced=True, isr_has_all=False),
        "make_replica": replica,
        "make_placement": placement,
    }


def with_replica(kind: type[InSyncReplica], min_insync: int = 2) -> dict[str, Any]:
    """Return the settings of a cluster whose replicas have a bug."""
    return {
        "make_replica": lambda log, node, life: kind(log, node, life, min_insync=min_insync, lag_max_ms=1_500),
        "min_insync": min_insync,
    }
