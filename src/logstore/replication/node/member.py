"""One partition on one node: its log, its replica, and the lock that guards the replica.

The registry's thread, the fetching threads, the threads that answer other nodes and those that append share it.
Lock order: a member's lock, then its log's.
"""

from __future__ import annotations

import threading

from logstore.config.log import LogConfig
from logstore.errors import InvalidSettingError, NotLeaderError
from logstore.log import Log
from logstore.log.formats.last_stop import Stop
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import NO_NODE, PartitionState, Registry, Replica, Role
from logstore.replication.fetch_messages import Slot
from logstore.replication.insync import InSyncReplica
from logstore.replication.node.registration import NodeRegistration
from logstore.replication.placement import Arrival, InSyncPlacement, Placement
from logstore.replication.quorum import QuorumPlacement, QuorumReplica
from logstore.store import Store


class Member:
    """A partition that this node has a replica of."""

    def __init__(self, place: TopicPartition, slot: Slot, log: Log, placement: Placement) -> None:
        self.place = place
        self.slot = slot
        self.log = log
        self.calls = log.replica
        self.placement = placement
        self.lock = threading.Lock()
        self.refused_answers = 0  #: of leaders: what was no answer, or held something else than was asked for
        # Of the registry's thread:
        self.state: PartitionState | None = None  # as it was last read
        self.must_read = True
        self.has_accepted_stop = False
        self.open_again_at_s = 0.0  # if the log has failed

    @property
    def replica(self) -> Replica:
        return self.placement.replica

    @property
    def is_settled(self) -> bool:
        """Whether the newest state has been taken, and another one is wanted only if a node fails or lags."""
        state = self.state
        return (
            not self.must_read
            and self.placement.has_entered
            and state is not None
            and state.leader != NO_NODE
            and len(state.isr) == len(state.replicas)
        )

    @property
    def leads_or_fails(self) -> bool:
        """Whether there may be something to do though it is settled."""
        return self.replica.role is Role.LEADER or self.calls.failure is not None


class Members:
    """Makes the members of one node: opens their logs in its store, and gives them its rules."""

    def __init__(
        self, store: Store, registration: NodeRegistration, lag_max_ms: int, *, quorum: bool, controlled: bool
    ) -> None:
        self.store = store
        self._registration = registration
        self._lag_max_ms = lag_max_ms
        self._is_quorum = quorum
        self._is_controlled = controlled

    def make(self, topic: str, partition: int, assignment: facts.Assignment, registry: Registry) -> Member:
        """Make the local topic if it is missing, open the log, and make the replica."""
        settings = {
            **facts.decode_config(registry.read(facts.config_path(topic))),
            "logstore.replicated": "true",
        }
        made = self.store.create_topic(topic, len(assignment.partitions), settings, if_not_exists=True)
        if not made.config.replicated:
            raise InvalidSettingError(
                {topic: "the store has a topic of that name that is not replicated: rename or delete it"}
            )
        if made.partition_count < len(assignment.partitions):
            made = self.store.add_partitions(topic, len(assignment.partitions))
        place = TopicPartition(topic, partition)
        log = self.store._host._log_of(topic, partition)
        assert isinstance(log, Log)
        state = registry.read(facts.state_path(place))
        # A partition that is younger than this life has lost nothing by the end of an earlier one.
        is_young = state is not None and state.created > self._registration.created
        if is_young and (log.log_end_offset or log.replica.epochs.latest is not None):
            # As of a backup whose registry was lost: they would be taken for the new topic's.
            raise InvalidSettingError(
                {topic: "the store has records of an earlier topic of that name: export and delete that one first"}
            )
        arrival = Arrival(
            self._registration.has_same_disk or is_young,
            Stop.CLEAN if is_young else log.replica.last_stop.stop,
        )
        return Member(place, Slot(assignment.topic_id, partition), log, self._place(log, made.config, arrival))

    def delete(self, topic: str) -> None:
        """Delete the local topic, if there is one that is replicated."""
        if topic in self.store.topics() and self.store[topic].config.replicated:
            self.store.delete_topic(topic)

    def open_again(self, failed: Member) -> Member:
        """Open the log of a member again that has failed, and return the member that takes its place.

        Recovery writes again what the disk may lack; what is gone comes from the leader. Appends that wait fail.

        Raises:
            StorageError: the log cannot be opened. Try again later.
        """
        log = self.store._host.partitions.open_again(failed.place)
        with failed.lock:
            failed.replica.stop_waiting(NotLeaderError(f"{failed.place}: the disk of the leader has failed"))
        assert isinstance(log, Log)
        arrival = failed.placement.arrival_again(log.replica.last_stop.stop)
        placement = self._place(log, log.maintenance.config, arrival)
        member = Member(failed.place, failed.slot, log, placement)
        member.refused_answers = failed.refused_answers
        return member

    def _place(self, log: Log, config: LogConfig, arrival: Arrival) -> Placement:
        node, life = self._registration.node, self._registration.life
        if self._is_quorum:
            return QuorumPlacement(QuorumReplica(log, node, life), node, arrival)
        least = config.min_insync_replicas
        return InSyncPlacement(
            InSyncReplica(log, node, life, min_insync=least, lag_max_ms=self._lag_max_ms),
            node,
            arrival,
            min_insync=least,
            allows_unclean=config.unclean_leader_election_enable,
            elects=not self._is_controlled,
        )
