"""The dealings of one replica with the registry: how it enters, is elected, and has the ISR changed.

For nodes that elect through the registry without a controller. A `Placement` is as free of I/O as its replica: the
driver hands it what the registry has, and commits the state that it returns.

A process leads only in an epoch that began in its life. A replica that may have lost records leaves the ISR and the
eligible replicas before it is asked for anything (I10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from logstore.log.formats.last_stop import Stop
from logstore.replication.api import NodeId, PartitionState, Replica
from logstore.replication.election import distrusted, elect, resigned, without_leader


class Arrival(NamedTuple):
    """What a process finds when it begins a life: may it trust the log of this replica?"""

    #: It is the directory of the node's last life, or the partition is younger than this one.
    is_same_disk: bool
    stop: Stop  #: how the log was stopped; `Stop.NEW`: it has never had a record or an epoch
    #: Of a log that was opened again after it had failed: the newest leader epoch in which it has asked, in this
    #: life. The leader of that epoch may take an end for reached that the log does not have any more.
    asked_in_epoch: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether the log has everything that was written to it, synced or not."""
        return self.is_same_disk and self.stop in (Stop.CLEAN, Stop.PROCESS_DIED)


class Placement(ABC):
    """One replica of a node, from the node's registration to its end: what all sets of rules have in common.

    A process makes one for each replica and life, with what it has found when it began. A set of rules says in
    `entered`, `wanted` and `resigned` which state it wants; `take` calls the first two.
    """

    def __init__(self, replica: Replica, node: NodeId, arrival: Arrival) -> None:
        self.replica = replica
        self.node = node
        self.arrival = arrival  #: what this process has found when it began
        self._has_entered = False
        self._first_epoch: int | None = None  # the leader epoch when the registry was first read

    @property
    def has_entered(self) -> bool:
        """Whether the replica takes part. Before, it is not asked, and asks for nothing."""
        return self._has_entered

    def take(self, state: PartitionState, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        """Take the registry's state, and return the one to commit in its place; None if it is good as it is.

        ``lives`` has the nodes that live, with the numbers of their registrations; without this node's own, the
        replica only learns. Whatever becomes of the commit, the driver reads the registry, and calls this again.
        """
        if not self._has_entered:
            if self.node not in lives:
                return None
            if self._first_epoch is None:
                self._first_epoch = state.leader_epoch
            wanted = self.entered(state, lives, self._first_epoch)
            if wanted != state:
                return wanted
            self._has_entered = True
        self.replica.apply(state, now_ms)
        return self.wanted(state, lives, now_ms) if self.node in lives else None

    def arrival_again(self, stop: Stop) -> Arrival:
        """Return how the log arrives that has failed, and was opened again in the same life.

        What the replica knew when it had not entered yet still holds: the log may have failed before.
        """
        state = self.replica.state
        asked_in = max(self.arrival.asked_in_epoch, -1 if state is None else state.leader_epoch)
        is_same_disk = self._has_entered or self.arrival.is_same_disk
        return Arrival(is_same_disk, Stop.NEW if stop is Stop.NEW else Stop.UNCLEAN, asked_in)

    @abstractmethod
    def resigned(self, state: PartitionState, lives: Mapping[NodeId, int]) -> PartitionState:
        """Return the state in which this replica has given its place up; the same, if no other can have it."""

    @abstractmethod
    def entered(self, state: PartitionState, lives: Mapping[NodeId, int], first_epoch: int) -> PartitionState:
        """Return the state in which this replica may take part; the same state, if it may already.

        It is called with the newest state until it returns just that one, since a commit may fail. From then on it
        is called no more. ``first_epoch`` is the leader epoch when the registry was first read. While the state
        names this node as the leader of that epoch, an earlier process led: the returned state ends the epoch. If
        ``arrival`` says that the log may have lost records that count, the returned state lets it stand in no
        election (I10). Its epoch is above ``arrival.asked_in_epoch``, whose leader has seen a longer log.
        """

    @abstractmethod
    def wanted(self, state: PartitionState, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        """Return the state that this replica wants in the place of the one that it has taken; None if none.

        Elections belong here: each replica that may lead names itself when the leader is not in ``lives``, and the
        registry takes the first one. A leader returns what its `Replica.propose` says.
        """


class InSyncPlacement(Placement):
    """A `Placement` by the rules of in-sync replicas. Without ``elects`` a controller elects, and not this node."""

    def __init__(
        self,
        replica: Replica,
        node: NodeId,
        arrival: Arrival,
        *,
        min_insync: int,
        allows_unclean: bool = False,
        elects: bool = True,
    ) -> None:
        super().__init__(replica, node, arrival)
        self._min_insync = min_insync
        self._allows_unclean = allows_unclean
        self._elects = elects

    def resigned(self, state: PartitionState, lives: Mapping[NodeId, int]) -> PartitionState:
        return resigned(state, self.node, lives, self._min_insync)

    def entered(self, state: PartitionState, lives: Mapping[NodeId, int], first_epoch: int) -> PartitionState:
        if not self.arrival.is_whole:
            is_replaced = self.arrival.stop is Stop.NEW or not self.arrival.is_same_disk
            state = distrusted(state, self.node, is_replaced=is_replaced)
        if state.leader == self.node and state.leader_epoch <= first_epoch:
            # An earlier process of this node led. Its epoch ends here.
            ended = without_leader(state)
            return (elect(ended, lives, self._min_insync) if self._elects else None) or ended
        if state.leader_epoch <= self.arrival.asked_in_epoch:
            return state._replace(leader_epoch=state.leader_epoch + 1)
        return state

    def wanted(self, state: PartitionState, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        elected = None
        if self._elects:
            elected = elect(state, lives, self._min_insync, unclean=self._allows_unclean)
        if elected is not None:
            return elected if elected.leader == self.node else None
        return self.replica.propose(lives, now_ms)
