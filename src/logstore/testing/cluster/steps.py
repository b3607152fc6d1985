"""What one step of a simulated cluster may change, beside the step before: the judge of I1, and of I7 to I11.

A `StepJudge` keeps what it has seen of each log at the last look, and what the leaders were asked for. The ledger
tells it of each look and of each state that the registry stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from logstore.log import Log
from logstore.log.formats.leader_epochs import EpochEntry
from logstore.replication.api import FetchAnswer, FetchFrom, NodeId, PartitionState, Replica, Role
from logstore.replication.election import effective_minimum
from logstore.testing.cluster.scene import Scene


class _View(NamedTuple):
    """What a look has seen of one node's log."""

    log: Log
    leader_epoch: int  # of the state that the replica has taken
    end: int
    high_watermark: int
    epochs: tuple[EpochEntry, ...]


class StepJudge:
    """Judges the steps of one partition. ``fail`` raises, with the name of what does not hold, and how."""

    def __init__(self, scene: Scene, partition: int, fail: Callable[[str, str], NoReturn]) -> None:
        self._scene = scene
        self._members = scene.members[partition]
        self._fail = fail
        self._newest: PartitionState | None = None
        self._version = -1  # of the newest state in the registry; -1 before the first one was stored here
        self._views: dict[NodeId, _View] = {}
        #: (leader epoch, follower, its life) -> the log end with which it has asked, and has not diverged
        self._asked: dict[tuple[int, NodeId, int], int] = {}
        #: The nodes whose log may have lost records, and has not joined since -> whether it has entered since.
        self._doubtful: dict[NodeId, bool] = {}

    # -- what happens

    def note_doubt(self, node: NodeId) -> None:
        """A log is gone that had what no disk has, or it was opened again after it had failed."""
        if self._newest is not None and self._newest.leader_epoch > 0:
            self._doubtful[node] = False

    def note_question(self, wants: FetchFrom, answer: FetchAnswer) -> None:
        """A leader has answered a follower."""
        if answer.refusal is None and answer.diverging is None:
            key = (answer.leader_epoch, wants.node, wants.life)
            self._asked[key] = max(self._asked.get(key, -1), wants.offset)

    def note_state(self, before: PartitionState, after: PartitionState) -> None:
        """The registry has stored a state in the place of another one."""
        newest, version = self._newest, self._version
        if version not in (-1, before.version):
            self._fail("I1", f"a state in the place of version {before.version} is stored over version {version}")
        if newest is not None and after.leader_epoch < newest.leader_epoch:
            self._fail("I1", f"the leader epoch falls: {after} follows on {newest}")
        if newest is not None and after.controller_epoch < newest.controller_epoch:
            self._fail("I11", f"an older controller than that of {newest} has stored {after}")
        self._newest, self._version = after, before.version + 1
        joined = [node for node in after.isr if node not in before.isr]
        if after.leader_epoch == before.leader_epoch and self._scene.tolerance.min_insync > 0:
            for node in joined:
                self._judge_join(node, after)
        for node in joined:
            if self._doubtful.get(node):
                del self._doubtful[node]

    def _judge_join(self, node: NodeId, state: PartitionState) -> None:
        """Demand that a member of the ISR has asked with all that counts, in the life that is registered (I8)."""
        view = self._views.get(state.leader)
        if view is None:
            return
        life = self._scene.life(node)
        start = next((entry.start_offset for entry in view.epochs if entry.epoch == state.leader_epoch), -1)
        end = self._asked.get((state.leader_epoch, node, life), -1)
        if start < 0 or end < max(view.high_watermark, start):
            self._fail(
                "I8",
                f"node {node} joins the ISR: in life {life} it has asked for offset {end}, the high watermark is "
                f"{view.high_watermark}, and epoch {state.leader_epoch} starts at {start}",
            )

    # -- each step

    def look(self, node: NodeId, replica: Replica, log: Log, taken: FetchAnswer | None) -> None:
        """Judge what a step has changed; ``taken`` is the answer that the replica has taken in it."""
        before = self._views.get(node)
        if self._doubtful:
            self._judge_doubtful(node)
        end, mark = log.log_end_offset, log.high_watermark
        epoch = -1 if replica.state is None else replica.state.leader_epoch
        if taken is None and before is not None and before[:4] == (log, epoch, end, mark):
            return
        self._views[node] = view = _View(log, epoch, end, mark, log.replica.epochs.entries)
        if before is not None and before.log is log:
            if end < before.end or (taken is not None and taken.diverging is not None):
                self._judge_cut(node, before, view, taken)
            if mark != before.high_watermark:
                self._judge_mark(node, replica, before.high_watermark, mark)

    def _judge_cut(self, node: NodeId, before: _View, after: _View, taken: FetchAnswer | None) -> None:
        """Demand that a log is cut where a leader's answer says, by the epochs of both (I9)."""
        if after.log.log_start_offset == after.end:
            return  # it has begun again
        what = f"node {node} has cut its log from {before.end} to {after.end}"
        diverging = None if taken is None else taken.diverging
        if diverging is None:
            self._fail("I9", f"{what}, and no leader has said that it diverges")
        kept = after.epochs[-1].epoch if after.epochs else -1
        if kept > diverging.epoch or after.end > diverging.end_offset:
            self._fail("I9", f"{what}, and keeps epoch {kept}; what both may have ends at {diverging}")
        removed = [entry.epoch for entry in before.epochs if entry.start_offset <= after.end]
        is_deleted = taken is not None and diverging.end_offset <= taken.log_start_offset  # what is below it
        is_short = after.end < min(before.end, diverging.end_offset) and not is_deleted
        if is_short and removed and removed[-1] <= diverging.epoch:
            self._fail("I9", f"{what}, and has removed records of epoch {removed[-1]}; both have up to {diverging}")

    def _judge_mark(self, node: NodeId, replica: Replica, before: int, after: int) -> None:
        """Demand that the high watermark stands still while the ISR that its leader knows is too small (I7)."""
        state, minimum = replica.state, self._scene.tolerance.min_insync
        if minimum <= 0 or state is None or replica.role is not Role.LEADER:
            return
        if len(state.isr) < effective_minimum(state, minimum):
            self._fail(
                "I7",
                f"the high watermark of leader {node} moves from {before} to {after} with {state.isr} in sync, and "
                f"a minimum of {minimum}",
            )

    def _judge_doubtful(self, node: NodeId) -> None:
        """Demand that a replica takes part after a loss only once it is in neither set (I10)."""
        newest = self._newest
        if newest is None or node not in self._doubtful:
            return
        self._doubtful[node] = True
        if node in newest.isr or node in newest.eligible:
            self._fail("I10", f"node {node} may have lost records, and takes part in {newest}")
