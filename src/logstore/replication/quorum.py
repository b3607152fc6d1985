"""Replication by a quorum: a record is acknowledged when a majority of 2F + 1 replicas has it on its disk.

Nothing is evicted and there is no minimum: F replicas may fail. Elections go through the registry, without votes
among the nodes. A new epoch without a leader is stored. Each replica that reads it obeys no older epoch any more,
and adds how far it reaches. Once a majority has, the greatest of them leads the next epoch.

Why nothing is lost: an acknowledged record is on the disks of a majority, and a majority has promised before a
leader is chosen. So one of those that have promised has the record, and the leader reaches at least as far. As in
Raft, what a leader counts as acknowledged reaches into its own epoch: older records alone could still be replaced.

Replicas sync before they ask, and the leader before it counts itself. A replica whose disk was wiped has promised
what it does not have any more: it leaves the ISR, which here are the replicas that count, and stands in no election
before it has copied all that its leader has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from logstore.errors import LogstoreError, NotLeaderError
from logstore.log import FOLLOWS, FixedPolicy, Log, Moves
from logstore.records import AppendResult
from logstore.replication.api import (
    NO_NODE,
    Acks,
    FetchAnswer,
    FetchFrom,
    FetchRefusal,
    LostRange,
    NodeId,
    PartitionState,
    Pending,
    Replica,
    Role,
    Standing,
)
from logstore.replication.election import refuse_older_epoch
from logstore.replication.log_copy import FETCH_BYTES, LogCopy
from logstore.replication.placement import Placement
from logstore.replication.waiting_appends import WaitingAppends

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LEADS = FixedPolicy(Moves.FROM_OUTSIDE)


class QuorumReplica(Replica):
    """One replica of a quorum. `QuorumPlacement` deals with the registry for it."""

    def __init__(self, log: Log, node: NodeId, life: int, *, fetch_bytes: int = FETCH_BYTES) -> None:
        self.log = log
        self.node, self.life = node, life
        self._calls = log.replica
        self._calls.set_policy(FOLLOWS)
        self._copy = LogCopy(log, node, life, fetch_bytes)
        self._state: PartitionState | None = None
        self._role = Role.NONE
        self.has_caught_up = False  #: whether it has had all that its leader has, in this epoch
        # As leader, in this epoch:
        self._epoch_start = 0
        self._synced: dict[NodeId, tuple[int, int]] = {}  # follower -> (life, log end that it has synced)
        self._waiting = WaitingAppends()
        # What an earlier process has written is promised as soon as this one asks.
        self._sync()

    # -- what others may see

    @property
    def state(self) -> PartitionState | None:
        return self._state

    @property
    def role(self) -> Role:
        return self._role

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def lost(self) -> list[LostRange]:
        return self._copy.lost

    def standing(self) -> Standing:
        self._sync()
        return self._copy.standing()

    def lag(self) -> dict[NodeId, int]:
        state = self._state
        if state is not None and self._role is Role.LEADER:
            ends = {node: self._synced.get(node, (-1, -1))[1] for node in state.replicas if node != self.node}
            return {node: self._copy.lag_of(end) for node, end in ends.items()}
        return {self.node: self._copy.lag()} if self._role is Role.FOLLOWER else {}

    def _sync(self) -> None:
        if self.log.synced_end < self.log.log_end_offset:
            self.log.flush()

    # -- the registry's state

    def apply(self, state: PartitionState, now_ms: int) -> None:
        known = self._state
        if known is not None and state.version <= known.version:
            return
        refuse_older_epoch(self.log.name, known, state)
        if known is not None and state.leader_epoch == known.leader_epoch and self._role is not Role.NONE:
            self._state = state
            return
        leads = state.leader == self.node
        if leads:
            self._calls.begin_epoch(state.leader_epoch)
        self._calls.set_policy(_LEADS if leads else FOLLOWS)
        self.stop_waiting(NotLeaderError(f"{self.log.name}: leader epoch {state.leader_epoch} has begun"))
        self._state, self._synced, self.has_caught_up = state, {}, False
        self._epoch_start = self.log.log_end_offset
        self._role = Role.LEADER if leads else Role.FOLLOWER if self.node in state.replicas else Role.NONE
        self._raise_high_watermark()

    # -- leading

    def _led_epoch(self) -> int | None:
        state = self._state
        return None if state is None or self._role is not Role.LEADER else state.leader_epoch

    def append(
        self, batch: Buffer, *, acks: Acks, now_ms: int, notify: Callable[[], object] | None = None
    ) -> Pending:
        epoch = self.check_append(acks)
        return self.wait(self._calls.append_batch(batch), epoch, acks=acks, now_ms=now_ms, notify=notify)

    def check_append(self, acks: Acks) -> int:
        state = self._state
        if state is None or self._role is not Role.LEADER:
            leader = NO_NODE if state is None else state.leader
            raise NotLeaderError(f"{self.log.name}: node {self.node} does not lead it, node {leader} does")
        return state.leader_epoch

    def wait(
        self,
        result: AppendResult,
        epoch: int,
        *,
        acks: Acks,
        now_ms: int,
        notify: Callable[[], object] | None = None,
    ) -> Pending:
        pending = Pending(result, epoch, notify)
        self._waiting.begin(pending, acks=acks, led=self._led_epoch(), name=self.log.name)
        if self._role is Role.LEADER:
            self._raise_high_watermark()
        return pending

    def answer(self, wants: FetchFrom, now_ms: int) -> FetchAnswer:
        state = self._state
        epoch = -1 if state is None else state.leader_epoch
        if state is None or self._role is not Role.LEADER:
            return FetchAnswer(epoch, refusal=FetchRefusal.NOT_LEADER)
        if wants.leader_epoch != epoch:
            is_old = wants.leader_epoch < epoch
            return FetchAnswer(epoch, refusal=FetchRefusal.OLD_EPOCH if is_old else FetchRefusal.NEW_EPOCH)
        if wants.node not in state.replicas:
            return FetchAnswer(epoch, refusal=FetchRefusal.NOT_A_REPLICA)
        life, synced = self._synced.get(wants.node, (-1, -1))
        if wants.life < life:
            return FetchAnswer(epoch, refusal=FetchRefusal.STALE_REGISTRATION)
        found, end = self._copy.answer(wants, epoch)
        if end >= 0:
            self._synced[wants.node] = (
                wants.life,
                wants.offset if wants.life > life else max(synced, wants.offset),
            )
            self._raise_high_watermark()
            found = found._replace(high_watermark=self.log.high_watermark)
        return found

    def _raise_high_watermark(self) -> None:
        """Raise it to what a majority has synced, if that reaches into this epoch."""
        state = self._state
        assert state is not None
        if self._role is not Role.LEADER:
            return
        mark = self._majority_end(state)
        if mark > self.log.synced_end and (self._waiting or mark > self.log.high_watermark):
            # Only what would count is worth a sync.
            self._sync()
            mark = self._majority_end(state)
        if mark > self._epoch_start and mark > self.log.high_watermark:
            self._calls.advance_high_watermark(mark)
        self._waiting.acknowledge_below(self.log.high_watermark, state.leader_epoch)

    def _majority_end(self, state: PartitionState) -> int:
        """Return the end that a majority has, with this replica's own end taken for synced."""
        ends = [
            self.log.log_end_offset
            if node == self.node
            else self._synced.get(node, (-1, -1))[1]
            if node in state.isr
            else -1
            for node in state.replicas
        ]
        return sorted(ends, reverse=True)[len(ends) // 2]

    def forget(self, pending: Pending, error: LogstoreError) -> None:
        self._waiting.forget(pending, error)

    def stop_waiting(self, error: LogstoreError) -> None:
        self._waiting.fail(error)

    # -- a quorum has no ISR

    def propose(self, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        return None

    # -- following

    def ask(self, now_ms: int) -> tuple[NodeId, FetchFrom] | None:
        state = self._state
        if state is None or self._role is not Role.FOLLOWER or state.leader == NO_NODE:
            return None
        self._sync()
        return state.leader, self._copy.question(state.leader_epoch)

    def take(self, asked: FetchFrom, fetched: FetchAnswer, now_ms: int) -> bool:
        state = self._state
        if state is None or self._role is not Role.FOLLOWER:
            return False
        is_whole = fetched.records is None and fetched.diverging is None and fetched.refusal is None
        is_now = asked.leader_epoch == fetched.leader_epoch == state.leader_epoch
        if is_whole and is_now and asked.offset == self.log.log_end_offset:
            self.has_caught_up = True
        return self._copy.take(asked, fetched, state)


class QuorumPlacement(Placement):
    """A `Placement` by the rules of a quorum."""

    replica: QuorumReplica

    def wanted(self, state: PartitionState, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        if state.leader in lives:
            return self._returned(state)
        if state.leader != NO_NODE or state.leader_epoch == 0:
            return _fenced(state)
        return self._elected(state, lives)

    def resigned(self, state: PartitionState, lives: Mapping[NodeId, int]) -> PartitionState:
        return without_leadership(state, self.node)

    def entered(self, state: PartitionState, lives: Mapping[NodeId, int], first_epoch: int) -> PartitionState:
        # What was written and not synced was not promised: a power cut loses nothing that counts.
        # The only replica stays: no other has anything that it could copy.
        is_replaced = not self.arrival.is_same_disk and len(state.replicas) > 1
        if is_replaced and state.leader_epoch > 0 and self.node in state.isr:
            left = tuple(node for node in state.isr if node != self.node)
            without = state._replace(isr=left, standings=())
            return _fenced(without) if state.leader == self.node else without
        if state.leader == self.node and state.leader_epoch <= first_epoch:
            return _fenced(state)
        return state

    def _returned(self, state: PartitionState) -> PartitionState | None:
        """Return the state with this replica among those that count, once it has what its leader has."""
        if self.node in state.isr or self.node not in state.replicas or not self.replica.has_caught_up:
            return None
        counted = {*state.isr, self.node}
        return state._replace(isr=tuple(node for node in state.replicas if node in counted))

    def _elected(self, state: PartitionState, lives: Mapping[NodeId, int]) -> PartitionState | None:
        standings = dict(state.standings)
        if self.node in state.isr and self.node not in standings:
            standings[self.node] = self.replica.standing()
            return state._replace(standings=tuple(sorted(standings.items())))
        majority = len(state.replicas) // 2 + 1
        if len(standings) < majority:
            return None
        best = self._best(standings)
        if best == self.node:
            return state._replace(leader=best, last_leader=best, leader_epoch=state.leader_epoch + 1, standings=())
        # It has promised, and died. The others begin again, if there are enough of them.
        live = [node for node in state.isr if node in lives]
        return _fenced(state) if best not in lives and len(live) >= majority else None

    def _best(self, standings: Mapping[NodeId, Standing]) -> NodeId:
        """Return the replica that reaches furthest: by the epoch of its last record, then by its end."""
        return max(standings, key=lambda node: (standings[node], -node))


def without_leadership(state: PartitionState, node: NodeId) -> PartitionState:
    """Return the state in which a node leads no more: the replicas say how far they reach."""
    return _fenced(state) if state.leader == node else state


def _fenced(state: PartitionState) -> PartitionState:
    """Return a new epoch without a leader, in which replicas say how far they reach."""
    return state._replace(leader=NO_NODE, leader_epoch=state.leader_epoch + 1, standings=())
