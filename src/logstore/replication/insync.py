"""Primary-backup replication by Kafka's rules: a leader, followers that fetch from it, and the replicas in sync.

An acknowledged record is on every replica of the ISR, so each of them may lead next. The rules are those of leader
epochs (KIP-101, 279, 320), of the maximal ISR (KIP-497), of lives (KIP-903) and of eligible leaders (KIP-966).
`election` says which replica leads.

Invariants, asserted where they could break (the names are those of ``docs/replication.md``):

- I1: an epoch has one leader; epochs and versions only rise.
- I4: an append is acknowledged in the leader epoch in which it was made, or not at all (`waiting_appends`).
- I6: the high watermark is at most the log end of each member of the stored ISR and of the proposed one.
- I7: the high watermark stands still while the stored ISR is below the minimum.
- I8: a replica joins the ISR once its end has reached the high watermark and the start of the leader's epoch, in
  the life that is registered.
- I9: a follower cuts its log by leader epochs, never by its high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from logstore.errors import (
    LogstoreError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
)
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
from logstore.replication.election import effective_minimum, refuse_older_epoch, with_isr
from logstore.replication.log_copy import FETCH_BYTES, LogCopy
from logstore.replication.waiting_appends import WaitingAppends

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Kafka's default of ``replica.lag.time.max.ms``.
LAG_MAX_MS = 30_000

_LONG_AGO = -(1 << 62)

#: Of a leader with followers in sync, which say how far the high watermark is.
_LEADS = FixedPolicy(Moves.FROM_OUTSIDE)
#: Of a leader that is alone in the ISR: what it has written is committed.
_LEADS_ALONE = FixedPolicy(Moves.WITH_END)


class _Follower:
    """What a leader knows of one follower, from what it has asked for."""

    __slots__ = ("asked_at_ms", "caught_up_ms", "end", "end_then", "life")

    def __init__(self, caught_up_ms: int) -> None:
        self.end = -1  #: its log end offset; -1 until it has asked in this epoch
        self.life = -1
        self.caught_up_ms = caught_up_ms  #: when it has had everything for the last time
        self.asked_at_ms = _LONG_AGO
        self.end_then = -1  #: the leader's log end when it last asked

    def note(self, offset: int, life: int, log_end: int, now_ms: int) -> None:
        """Note a question: the follower's log ends at ``offset``."""
        if offset >= log_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.end_then >= 0:
            # It has all that was there when it last asked. Else a busy partition would evict healthy followers.
            self.caught_up_ms = max(self.caught_up_ms, self.asked_at_ms)
        if life != self.life or offset > self.end:
            self.end, self.life = offset, life
        self.asked_at_ms, self.end_then = now_ms, log_end


class InSyncReplica(Replica):
    """One replica by Kafka's rules. It gives its log a policy: who may append, and what moves the high watermark.

    ``life`` is the number of this node's registration, ``min_insync`` the topic's ``min.insync.replicas``, and
    ``lag_max_ms`` the broker's ``replica.lag.time.max.ms``.
    """

    #: Made for the log of each replica.
    make_copy: Callable[[Log, NodeId, int, int], LogCopy] = LogCopy

    def __init__(
        self,
        log: Log,
        node: NodeId,
        life: int,
        *,
        min_insync: int = 1,
        lag_max_ms: int = LAG_MAX_MS,
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        if min_insync < 1:
            raise ValueError(f"min.insync.replicas is at least 1, found {min_insync}")
        self.log = log
        self.node = node
        self.life = life
        self._calls = log.replica
        self._copy = type(self).make_copy(log, node, life, fetch_bytes)
        self._calls.set_policy(FOLLOWS)
        self._min_insync = min_insync
        self._lag_max_ms = lag_max_ms
        self._state: PartitionState | None = None
        self._role = Role.NONE
        # As leader, in this epoch:
        self._epoch_start = 0  # the log end when it began
        self._followers: dict[NodeId, _Follower] = {}
        self._proposed: PartitionState | None = None
        self._joining: dict[NodeId, int] = {}  # nodes that it would add, with their registrations then
        #: The members of every ISR that was proposed since the state was stored: each proposal may take place.
        self._proposed_isr: set[NodeId] = set()
        self._waiting = WaitingAppends()

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
        return self._copy.standing()

    def lag(self) -> dict[NodeId, int]:
        if self._role is Role.LEADER:
            return {node: self._copy.lag_of(each.end) for node, each in self._followers.items()}
        return {self.node: self._copy.lag()} if self._role is Role.FOLLOWER else {}

    # -- the registry's state

    def apply(self, state: PartitionState, now_ms: int) -> None:
        known = self._state
        if known is not None and state.version <= known.version:
            return
        refuse_older_epoch(self.log.name, known, state)
        if known is None or state.leader_epoch > known.leader_epoch or self._role is Role.NONE:
            self._begin(state, now_ms)
        else:
            self._state = state
        if self._proposed is not None and state.version > self._proposed.version:
            self._forget_proposals()
        if self._role is Role.LEADER:
            self._forget_the_unassigned(state)
            self._raise_high_watermark(now_ms)
            self._refuse_below_minimum()

    def _begin(self, state: PartitionState, now_ms: int) -> None:
        """Take a new leader epoch."""
        leads = state.leader == self.node
        if leads:
            # Saved before anything is answered in this epoch. Kept in memory only, it would be gone after a clean
            # restart, and a tail that another leader does not have would survive.
            self._calls.begin_epoch(state.leader_epoch)
        # From here on the log takes appends of the new epoch, or none: the policy changes under the log's lock.
        self._set_policy(_LEADS if leads else FOLLOWS)
        self.stop_waiting(NotLeaderError(f"{self.log.name}: leader epoch {state.leader_epoch} has begun"))
        self._state = state
        self._forget_proposals()
        self._followers = {}
        if not leads:
            self._role = Role.FOLLOWER if self.node in state.replicas else Role.NONE
            return
        self._role = Role.LEADER
        self._epoch_start = self.log.log_end_offset
        for node in state.replicas:
            if node != self.node:
                self._followers[node] = _Follower(now_ms if node in state.isr else _LONG_AGO)

    def _forget_the_unassigned(self, state: PartitionState) -> None:
        for node in [node for node in self._followers if node not in state.replicas]:
            del self._followers[node]
        for node in state.replicas:
            if node != self.node and node not in self._followers:
                self._followers[node] = _Follower(_LONG_AGO)

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
        if acks is Acks.ALL and self._is_below_minimum(state):
            raise NotEnoughReplicasError(
                f"{self.log.name}: {len(state.isr)} replicas are in sync, min.insync.replicas asks for "
                f"{effective_minimum(state, self._min_insync)}"
            )
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
            # For any acks: a follower that was about to join, and is gone, holds the high watermark no longer.
            self._refuse_below_minimum()
            self._raise_high_watermark(now_ms)
        return pending

    def answer(self, wants: FetchFrom, now_ms: int) -> FetchAnswer:
        state = self._state
        epoch = -1 if state is None else state.leader_epoch
        refusal = self._refusal(wants, state)
        if refusal is not None:
            return FetchAnswer(epoch, refusal=refusal)
        found, end = self._copy.answer(wants, epoch)
        if end >= 0:
            self._followers[wants.node].note(wants.offset, wants.life, end, now_ms)
            self._raise_high_watermark(now_ms)
            if found.high_watermark != self.log.high_watermark:
                found = found._replace(high_watermark=self.log.high_watermark)
        return found

    def _refusal(self, wants: FetchFrom, state: PartitionState | None) -> FetchRefusal | None:
        if state is None:
            return FetchRefusal.NOT_LEADER
        if wants.leader_epoch < state.leader_epoch:
            return FetchRefusal.OLD_EPOCH
        if wants.leader_epoch > state.leader_epoch:
            return FetchRefusal.NEW_EPOCH
        if self._role is not Role.LEADER:
            return FetchRefusal.NOT_LEADER
        follower = self._followers.get(wants.node)
        if follower is None:
            return FetchRefusal.NOT_A_REPLICA
        return FetchRefusal.STALE_REGISTRATION if wants.life < follower.life else None

    def _is_below_minimum(self, state: PartitionState) -> bool:
        return len(state.isr) < effective_minimum(state, self._min_insync)

    def _maximal_isr(self, state: PartitionState) -> set[NodeId]:
        """Return the members of the stored ISR and of the proposed one (KIP-497).

        A larger ISR counts when it is proposed: the registry may have it already. A smaller one counts when it is
        stored: until then a replica that leaves may still be elected.
        """
        return {*state.isr, *self._proposed_isr}

    def _raise_high_watermark(self, now_ms: int) -> None:
        state = self._state
        assert state is not None
        if self._role is not Role.LEADER:
            return
        if self._is_below_minimum(state):
            self._set_policy(_LEADS)
            return  # I7
        needed = self._maximal_isr(state)
        waits = {
            node for node, each in self._followers.items() if node in needed or self._is_about_to_join(each, now_ms)
        }
        self._set_policy(_LEADS if waits else _LEADS_ALONE)
        mark = self.log.log_end_offset
        for node in waits:
            mark = min(mark, self._followers[node].end)
        if mark > self.log.high_watermark:
            assert all(self._followers[node].end >= mark for node in needed if node != self.node), ("I6", needed)
            self._calls.advance_high_watermark(mark)
        self._acknowledge()

    def _set_policy(self, policy: FixedPolicy) -> None:
        if self._calls.policy is not policy:
            self._calls.set_policy(policy)

    def _is_about_to_join(self, follower: _Follower, now_ms: int) -> bool:
        """Whether the high watermark waits for a follower outside the ISR, which else could never reach it."""
        return follower.end >= 0 and now_ms - follower.caught_up_ms <= self._lag_max_ms

    def _acknowledge(self) -> None:
        state = self._state
        assert state is not None
        self._waiting.acknowledge_below(self.log.high_watermark, state.leader_epoch)

    def _refuse_below_minimum(self) -> None:
        state = self._state
        assert state is not None
        if self._waiting and self._is_below_minimum(state):
            self.stop_waiting(
                NotEnoughReplicasAfterAppendError(
                    f"{self.log.name}: the records are written, but {len(state.isr)} replicas are in sync by now"
                )
            )

    def forget(self, pending: Pending, error: LogstoreError) -> None:
        self._waiting.forget(pending, error)

    def stop_waiting(self, error: LogstoreError) -> None:
        self._waiting.fail(error)

    # -- the ISR

    def propose(self, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        state = self._state
        if state is None or self._role is not Role.LEADER:
            return None
        # Also without an append: a follower that was about to join may be gone for longer than the lag.
        self._raise_high_watermark(now_ms)
        if self._proposed is None or any(lives.get(node) != life for node, life in self._joining.items()):
            isr = {self.node} | {
                node
                for node, follower in self._followers.items()
                if now_ms - follower.caught_up_ms <= self._lag_max_ms
                and (node in state.isr or self._may_join(follower, lives.get(node)))
            }
            wanted = with_isr(state, isr, self._min_insync)
            if self._proposed is None and wanted.isr == state.isr:
                return None
            # In the place of a proposal whose node has registered again even the ISR as it is will do: once it is
            # stored, the earlier one cannot be.
            self._proposed = wanted
            self._proposed_isr |= set(wanted.isr)
            self._joining = {node: lives[node] for node in wanted.isr if node not in state.isr}
        return self._proposed

    def _forget_proposals(self) -> None:
        self._proposed, self._joining, self._proposed_isr = None, {}, set()

    def _may_join(self, follower: _Follower, life: int | None) -> bool:
        """I8: a follower joins with all that an acknowledgement may rest on, in the life that is registered.

        It has also caught up within the lag, or it would leave again at once: below the minimum the high watermark
        stands still, and every follower would reach it.
        """
        return (
            life is not None
            and follower.life == life
            and follower.end >= self.log.high_watermark
            and follower.end >= self._epoch_start
        )

    # -- following

    def ask(self, now_ms: int) -> tuple[NodeId, FetchFrom] | None:
        state = self._state
        if state is None or self._role is not Role.FOLLOWER or state.leader == NO_NODE:
            return None
        return state.leader, self._copy.question(state.leader_epoch)

    def take(self, asked: FetchFrom, fetched: FetchAnswer, now_ms: int) -> bool:
        state = self._state
        if state is None or self._role is not Role.FOLLOWER:
            return False
        return self._copy.take(asked, fetched, state)
