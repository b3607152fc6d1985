"""Chain replication, as a set of rules for `logstore.replication`.

The replicas that count stand in a chain (van Renesse and Schneider, OSDI 2004). Its first one, the head, takes the
appends, and each of the others copies from its predecessor. What the tail has is committed. In the registry's words
the head is the leader, and the ISR is the chain. A replica outside the chain copies from the head, and joins as the
tail once it has caught up.

Each time its log has grown, a replica asks the head, too. This reports how far it has come, and the head answers
with its marks alone. The first question of an epoch goes to the head as well, which says where the log must be
cut. From then on, until the epoch ends, the log of each replica is the beginning of the head's, and only grows.
All rests on this: whatever becomes of the chain in an epoch, a report stays true, and each predecessor is good to
copy from.

The high watermark is the smallest end in the chain. That is the tail's, except after a change of the chain, until
each replica has passed its successor. A chain that is shorter than ``shortest`` takes no appends with `Acks.ALL`.
Only a lost copy makes it so short: a replica that is merely away stays as long as that length needs it. If all
copies are lost, the chain is empty, and none leads until an operator decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from typing_extensions import Buffer

from logstore.errors import LogstoreError, MalformedFactError, NotEnoughReplicasError, NotLeaderError
from logstore.log import FOLLOWS, FileRegion, FixedPolicy, Log, Moves
from logstore.records import Acks, AppendResult
from logstore.replication import (
    NO_NODE,
    Arrival,
    FetchAnswer,
    FetchFrom,
    FetchRefusal,
    LogCopy,
    LostRange,
    NodeId,
    PartitionState,
    Pending,
    Placement,
    Replica,
    Role,
    Standing,
    WaitingAppends,
)

UNKNOWN = -1


def chain_of(state: PartitionState) -> tuple[NodeId, ...]:
    """Return the chain from head to tail.

    The registry keeps the ISR in the order of the assignment. So ``standings`` say when a replica joined: the
    leader epoch, and the version of the state. A replica that was there from the beginning has none.
    """
    joined = dict(state.standings)
    first = Standing(UNKNOWN, UNKNOWN)
    return tuple(sorted(state.isr, key=lambda each: (each != state.leader, joined.get(each, first))))


def with_chain(
    state: PartitionState, chain: tuple[NodeId, ...], joining: tuple[NodeId, ...] = ()
) -> PartitionState:
    """Return a state whose chain has these replicas; ``joining`` are at the tail."""
    now = Standing(state.leader_epoch, state.version)
    joined = {**dict(state.standings), **dict.fromkeys(joining, now)}
    return state._replace(
        isr=tuple(each for each in state.replicas if each in chain),
        standings=tuple((each, joined[each]) for each in state.replicas if each in chain and each in joined),
    )


def without_head(state: PartitionState) -> PartitionState:
    """Return the state in which the epoch has ended, and none leads."""
    return state._replace(leader=NO_NODE, leader_epoch=state.leader_epoch + 1)


@dataclass(slots=True)
class Report:
    """What the head knows of another replica in this epoch."""

    kept_up_ms: int  # when it last had all that it was to reach
    to_reach: int  # the head's log end at that time
    end: int = UNKNOWN  # its log is the head's up to here
    life: int = UNKNOWN  # the registration in which it has reported


class ChainReplica(Replica):
    """One replica of a chain.

    A chain of fewer than ``shortest`` acknowledges nothing. A replica that has not caught up for ``lag_max_ms`` is
    taken out of it.
    """

    def __init__(self, log: Log, node: NodeId, life: int, *, shortest: int, lag_max_ms: int) -> None:
        self._log = log
        self._node = node
        self._shortest = shortest
        self._lag_max_ms = lag_max_ms
        self._copy = LogCopy(log, node, life)
        self._waiting = WaitingAppends()
        self._state: PartitionState | None = None
        self._chain: tuple[NodeId, ...] = ()
        # Of a head, in its epoch.
        self._reports: dict[NodeId, Report] = {}
        self._first_offset = 0
        self._proposed: PartitionState | None = None
        self._joining: dict[NodeId, int] = {}  # the lives of those that the proposal adds
        # Of the others: the log end that the head has confirmed in this epoch.
        self._reported = UNKNOWN
        log.replica.set_policy(FOLLOWS)

    @property
    def state(self) -> PartitionState | None:
        return self._state

    @property
    def role(self) -> Role:
        if self._state is None or self._node not in self._state.replicas:
            return Role.NONE
        return Role.LEADER if self._state.leader == self._node else Role.FOLLOWER

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def lost(self) -> list[LostRange]:
        return self._copy.lost

    def standing(self) -> Standing:
        return self._copy.standing()

    def lag(self) -> dict[NodeId, int]:
        if self.role is Role.LEADER:
            return {each: self._copy.lag_of(report.end) for each, report in self._reports.items()}
        return {self._node: self._copy.lag()} if self.role is Role.FOLLOWER else {}

    # -- the registry's state

    def apply(self, state: PartitionState, now_ms: int) -> None:
        known = self._state
        if known is not None and state.version <= known.version:
            return
        if known is None or state.leader_epoch > known.leader_epoch:
            self._begin(state, now_ms)
        elif (state.leader_epoch, state.leader) != (known.leader_epoch, known.leader):
            raise MalformedFactError(
                f"leader {state.leader} of epoch {state.leader_epoch} follows on leader {known.leader} "
                f"of epoch {known.leader_epoch}; was the registry restored?"
            )
        for other in set(state.replicas) - {self._node}:
            self._reports.setdefault(other, Report(now_ms, self._log.log_end_offset))
        self._state = state
        self._chain = chain_of(state)
        self._proposed = None
        self._advance()

    def _begin(self, state: PartitionState, now_ms: int) -> None:
        """Enter an epoch. What the log may refuse comes first, so that a refusal changes nothing."""
        if state.leader == self._node:
            self._log.replica.begin_epoch(state.leader_epoch)
            self._log.replica.set_policy(FixedPolicy(Moves.FROM_OUTSIDE))
        else:
            self._log.replica.set_policy(FOLLOWS)
        self._first_offset = self._log.log_end_offset
        self._reports.clear()
        self._reported = UNKNOWN
        self._waiting.fail(NotLeaderError(f"leader epoch {state.leader_epoch} has begun: the append's is over"))

    def propose(self, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        state = self._state
        if state is None or self.role is not Role.LEADER:
            return None
        if self._proposed is not None and not self._is_void(lives):
            return self._proposed
        others = [each for each in state.replicas if each in lives and each != self._node]
        keeping_up = [each for each in others if self._keeps_up(each, now_ms)]
        outside = [each for each in keeping_up if each not in self._chain]
        joining = tuple(each for each in outside if self._has_caught_up(each, lives))[:1]
        leaving = [each for each in self._chain[1:] if each not in keeping_up][:1]  # those behind it wait for it
        longer = self._chain + joining
        shorter = tuple(each for each in longer if each not in leaving)
        wanted = shorter if len(shorter) >= self._shortest else longer
        self._proposed = with_chain(state, wanted, joining) if wanted != self._chain else None
        self._joining = {each: lives[each] for each in joining}
        return self._proposed

    def _is_void(self, lives: Mapping[NodeId, int]) -> bool:
        """Whether a later process of a node that was to join has begun: the commit cannot take place any more."""
        return any(lives.get(each, life) != life for each, life in self._joining.items())

    def _keeps_up(self, node: NodeId, now_ms: int) -> bool:
        report = self._reports[node]
        if report.end >= report.to_reach:
            report.kept_up_ms, report.to_reach = now_ms, self._log.log_end_offset
        return now_ms - report.kept_up_ms <= self._lag_max_ms

    def _has_caught_up(self, node: NodeId, lives: Mapping[NodeId, int]) -> bool:
        report = self._reports[node]
        return report.life == lives[node] and report.end >= max(self.high_watermark, self._first_offset)

    def _advance(self) -> None:
        state = self._state
        if state is None or self.role is not Role.LEADER or len(state.isr) < self._shortest:
            return
        self._log.replica.advance_high_watermark(max(self.high_watermark, self._committed_end(state)))
        self._waiting.acknowledge_below(self.high_watermark, state.leader_epoch)

    def _committed_end(self, state: PartitionState) -> int:
        """Return how far the whole chain has come: the stored one, and the one that may be stored by now."""
        chain = {*state.isr, *(self._proposed.isr if self._proposed else ())} - {self._node}
        return min((self._reports[each].end for each in chain), default=self._log.log_end_offset)

    # -- appends, at the head

    def check_append(self, acks: Acks) -> int:
        state = self._state
        if state is None or self.role is not Role.LEADER:
            raise NotLeaderError(f"{self._log.name}: node {self._node} is not the head of the chain")
        if acks is Acks.ALL and len(state.isr) < self._shortest:
            raise NotEnoughReplicasError(
                f"{self._log.name}: the chain {state.isr} is shorter than {self._shortest}; nothing was written"
            )
        return state.leader_epoch

    def append(
        self, batch: Buffer, *, acks: Acks, now_ms: int, notify: Callable[[], object] | None = None
    ) -> Pending:
        epoch = self.check_append(acks)
        result = self._log.replica.append_batch(batch)
        return self.wait(result, epoch, acks=acks, now_ms=now_ms, notify=notify)

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
        led = self._state.leader_epoch if self._state is not None and self.role is Role.LEADER else None
        self._waiting.begin(pending, acks=acks, led=led, name=self._log.name)
        self._advance()
        return pending

    def stop_waiting(self, error: LogstoreError) -> None:
        self._waiting.fail(error)

    # -- records, from each replica to the next

    def ask(self, now_ms: int) -> tuple[NodeId, FetchFrom] | None:
        state = self._state
        if state is None or self.role is not Role.FOLLOWER or state.leader == NO_NODE:
            return None
        is_reported = self._reported == self._log.log_end_offset
        node = self._predecessor(state, self._node) if is_reported else state.leader
        return node, self._copy.question(state.leader_epoch)

    def answer(self, wants: FetchFrom, now_ms: int) -> FetchAnswer:
        state = self._state
        if state is None:
            return FetchAnswer(0, refusal=FetchRefusal.NOT_LEADER)
        refusal = self._refusal(wants, state)
        if refusal is not None:
            return FetchAnswer(state.leader_epoch, refusal=refusal)
        marks = FetchAnswer(state.leader_epoch, self.high_watermark, self._log.log_start_offset)
        if self.role is Role.FOLLOWER:
            is_ahead = wants.offset > self._log.log_end_offset  # `LogCopy` would tell it to cut that
            return marks if is_ahead else self._copy.answer(wants, state.leader_epoch)[0]
        answer, end = self._copy.answer(wants, state.leader_epoch)
        self._hear(wants, is_agreed=end != UNKNOWN)
        if isinstance(answer.records, FileRegion) and self._predecessor(state, wants.node) != self._node:
            answer.records.close()
            return marks
        return answer

    def _refusal(self, wants: FetchFrom, state: PartitionState) -> FetchRefusal | None:
        if wants.leader_epoch != state.leader_epoch:
            is_old = wants.leader_epoch < state.leader_epoch
            return FetchRefusal.OLD_EPOCH if is_old else FetchRefusal.NEW_EPOCH
        if wants.node not in state.replicas or wants.node == self._node:
            return FetchRefusal.NOT_A_REPLICA
        if wants.life < self._reports[wants.node].life:
            return FetchRefusal.STALE_REGISTRATION
        if self.role is not Role.LEADER and self._reported == UNKNOWN:
            return FetchRefusal.NOT_LEADER  # this log may still have to be cut
        return None

    def _hear(self, wants: FetchFrom, *, is_agreed: bool) -> None:
        report = self._reports[wants.node]
        if wants.life > report.life:
            report.life, report.end = wants.life, UNKNOWN
        if is_agreed and wants.offset > report.end:
            report.end = wants.offset
            self._advance()

    def take(self, asked: FetchFrom, fetched: FetchAnswer, now_ms: int) -> bool:
        state = self._state
        if state is None or self.role is not Role.FOLLOWER or state.leader == NO_NODE:
            return False
        # Before the head has confirmed a log end, only the head is asked: so this answer is the head's.
        is_agreed = (
            asked == self._copy.question(state.leader_epoch)
            and fetched.leader_epoch == state.leader_epoch
            and fetched.refusal is None
            and fetched.diverging is None
        )
        has_changed = self._copy.take(asked, fetched, state)
        if is_agreed:
            self._reported = asked.offset
        return has_changed

    def _predecessor(self, state: PartitionState, node: NodeId) -> NodeId:
        """Return the replica to copy from: the one before in the chain; outside the chain, the head."""
        return self._chain[self._chain.index(node) - 1] if node in self._chain else state.leader


class ChainPlacement(Placement):
    """The elections of a chain: if the head is away, the first of the others that lives becomes the head."""

    def __init__(self, replica: Replica, node: NodeId, arrival: Arrival, *, shortest: int) -> None:
        super().__init__(replica, node, arrival)
        self._shortest = shortest

    def entered(self, state: PartitionState, lives: Mapping[NodeId, int], first_epoch: int) -> PartitionState:
        if not self.arrival.is_whole and state.leader_epoch > 0:
            state = with_chain(state, tuple(each for each in state.isr if each != self.node))
        if state.leader == self.node:
            return without_head(state)
        if state.leader_epoch <= self.arrival.asked_in_epoch:
            return state._replace(leader_epoch=state.leader_epoch + 1)  # the head forgets how far this log reached
        return state

    def wanted(self, state: PartitionState, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        if state.leader == self.node:
            return self.replica.propose(lives, now_ms)
        chain = chain_of(state)
        alive = [each for each in chain if each in lives]
        if state.leader in lives or alive[:1] != [self.node]:
            return None
        away = [each for each in chain if each not in lives]
        kept = (*alive, *away)[: max(len(alive), self._shortest)]
        return with_chain(state, kept)._replace(leader=self.node, leader_epoch=state.leader_epoch + 1)

    def resigned(self, state: PartitionState, lives: Mapping[NodeId, int]) -> PartitionState:
        """End the epoch if another replica can lead. It is not named here, since it may not have entered."""
        has_next = any(each in lives for each in state.isr if each != self.node)
        return without_head(state) if state.leader == self.node and has_next else state
