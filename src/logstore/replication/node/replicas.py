"""The replicas of a node as its store sees them: the acks that appends wait for, and metrics.

`Topic.append`, `Producer` and a broker reach it by `StoreHost.replicas`. Any thread may call.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping

from logstore.accumulator.acknowledging import AckWait, ReplicatedPartition
from logstore.clock import Clock
from logstore.errors import DeliveryTimeoutError, LogstoreError, NotLeaderError
from logstore.io._interrupts import held
from logstore.io._notifier import Notifier
from logstore.log import FOLLOWS
from logstore.metrics import ReplicaMetrics
from logstore.records import Acks, AppendResult, TopicPartition
from logstore.replication.api import NO_NODE, NodeId, PartitionState, Pending, Role
from logstore.replication.facts import Assignment
from logstore.replication.node.member import Member, Unopened


class NodeReplicas:
    """The replicas of one node: an `Acknowledger`."""

    def __init__(
        self,
        node: NodeId,
        members: Callable[[], Mapping[tuple[str, int], Member]],
        unopened: Callable[[], Mapping[tuple[str, int], Unopened]],
        topics: Callable[[], Mapping[str, Assignment]],
        clock: Clock,
    ) -> None:
        self.node = node
        self._members = members
        self._unopened = unopened
        self._topics = topics
        self._clock = clock
        self._watchers: frozenset[Callable[[], object]] = frozenset()
        self._watchers_lock = threading.Lock()
        self._is_closed = False

    def acknowledged(
        self, place: TopicPartition, acks: Acks, timeout_s: float, append: Callable[[], AppendResult]
    ) -> AppendResult:
        """Append to a partition that the node leads, and wait for the acks.

        Raises:
            NotLeaderError: the node does not lead the partition, is closed, or another epoch has begun before the
                acks. In the last case the records may be in the log, or not.
            NotEnoughReplicasError: the ISR is below the minimum. Nothing is written.
            NotEnoughReplicasAfterAppendError: it fell below it before the acks. The records may be lost.
            DeliveryTimeoutError: no acks within ``timeout_s``. The records may be acknowledged later.
        """
        epoch = self.check_append(place, acks)
        result = append()
        settled = Notifier(self._clock)
        pending = self.wait_for_acks(place, result, epoch, acks, settled.notify)
        if not pending.is_settled and not settled.wait(timeout_s):
            with held(self._member(place).lock):
                pending.settle(
                    DeliveryTimeoutError(
                        f"{place}: not acknowledged within {timeout_s:g} s; the records at offset "
                        f"{result.first_offset} may be acknowledged later"
                    )
                )
        if pending.error is not None:
            raise pending.error
        return result

    def check_append(self, place: TopicPartition, acks: Acks) -> int:
        """Return the leader epoch in which an append may be made now; it is made, then `wait_for_acks` called.

        Raises:
            NotLeaderError: the node does not lead the partition, or is closed.
            NotEnoughReplicasError: with `Acks.ALL`, the ISR is below the minimum.
        """
        member = self._member(place)
        with held(member.lock):
            self._check_open(place)
            return member.replica.check_append(acks)

    def wait_for_acks(
        self, place: TopicPartition, result: AppendResult, epoch: int, acks: Acks, notify: Callable[[], object]
    ) -> Pending:
        """Begin to wait for the acks of an append that was made in a leader epoch; see `Replica.wait`.

        ``notify()`` is called once it is settled, under the replica's lock: it wakes a thread, and does no more.
        """
        member = self._member(place)
        with held(member.lock):
            # `close` has failed the waiting ones already.
            self._check_open(place)
            now_ms = int(self._clock.monotonic_s() * 1000)
            return member.replica.wait(result, epoch, acks=acks, now_ms=now_ms, notify=notify)

    def forget(self, place: TopicPartition, wait: AckWait) -> None:
        """End a wait that `wait_for_acks` has begun: it has no waiter any more."""
        member = self._members().get(place)
        if member is None or not isinstance(wait, Pending):
            return
        with held(member.lock):
            member.replica.forget(wait, DeliveryTimeoutError(f"{place}: the acks are waited for no longer"))

    def watch(self, notify: Callable[[], object]) -> None:
        """Call ``notify()`` after each new state of a partition, and when the node is closed."""
        with held(self._watchers_lock):
            self._watchers |= {notify}

    def unwatch(self, notify: Callable[[], object]) -> None:
        """End a `watch`."""
        with held(self._watchers_lock):
            self._watchers -= {notify}

    def changed(self) -> None:
        """Tell those that watch: a replica has taken a state."""
        for notify in self._watchers:
            notify()

    def leads(self, topic: str, partition: int) -> bool:
        """Return whether the node leads a partition. Takes no lock: role and state change one after the other."""
        member = None if self._is_closed else self._members().get((topic, partition))
        if member is None:
            return False
        replica = member.replica
        state = replica.state
        return replica.role is Role.LEADER and state is not None and state.leader == self.node

    def partition(self, topic: str, partition: int) -> ReplicatedPartition | None:
        """Return what the node knows of a partition; of one that it has no replica of, the assignment alone."""
        at = topic, partition
        member = self._members().get(at)
        unopened = self._unopened().get(at)
        state = member.replica.state if member is not None else None if unopened is None else unopened.state
        if state is None:
            assignment = self._topics().get(topic)
            replicas = None if assignment is None else assignment.partitions.get(partition)
            return None if replicas is None else ReplicatedPartition(False, replicas=replicas)
        return ReplicatedPartition(
            self.leads(topic, partition),
            state.leader,
            state.leader_epoch,
            state.replicas,
            state.isr,
            state.eligible,
            state.last_leader,
            state.adding,
            state.removing,
        )

    def metrics(self) -> list[ReplicaMetrics]:
        """Return the numbers of each replica, sorted by topic and partition."""
        found = [
            ReplicaMetrics(
                *each.place,
                Role.NONE,
                NO_NODE if each.state is None else each.state.leader,
                0 if each.state is None else each.state.leader_epoch,
                () if each.state is None else each.state.isr,
                () if each.state is None else each.state.replicas,
                -1,
                -1,
                {},
                0,
                0,
                f"{type(each.error).__name__}: {each.error}",
            )
            for each in self._unopened().values()
        ]
        for member in self._members().values():
            with held(member.lock):
                replica, failure = member.replica, member.calls.failure
                state = replica.state or PartitionState((), ())
                found.append(
                    ReplicaMetrics(
                        *member.place,
                        replica.role,
                        state.leader,
                        state.leader_epoch,
                        state.isr,
                        state.replicas,
                        replica.high_watermark,
                        member.log.log_end_offset,
                        replica.lag(),
                        member.lost_records,
                        member.refused_answers,
                        "" if failure is None else f"{type(failure).__name__}: {failure}",
                    )
                )
        return sorted(found, key=lambda each: (each.topic, each.partition))

    def close(self) -> None:
        """Fail what waits for acks, and take no further append: others may lead from now on."""
        self._is_closed = True
        for member in self._members().values():
            with held(member.lock):
                with contextlib.suppress(LogstoreError):  # its log has failed, or is closed: it takes none anyway
                    member.calls.set_policy(FOLLOWS)
                member.replica.stop_waiting(self._closed(member.place))
        self.changed()

    def _member(self, place: TopicPartition) -> Member:
        member = self._members().get(place)
        if member is None:
            unopened = self._unopened().get(place)
            why = "has no replica of it" if unopened is None else f"cannot open its log: {unopened.error}"
            raise NotLeaderError(f"{place}: node {self.node} {why}")
        return member

    def _check_open(self, place: TopicPartition) -> None:
        if self._is_closed:
            raise self._closed(place)

    def _closed(self, place: TopicPartition) -> NotLeaderError:
        return NotLeaderError(f"{place}: node {self.node} is closed; records that waited for acks may be committed")
