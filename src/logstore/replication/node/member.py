"""One partition on one node: its log, its replica, and the lock that guards the replica.

The registry's thread, the fetching threads, the threads that answer other nodes and those that append share it.
Lock order: a member's lock, then its log's.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from logstore.config.log import LogConfig
from logstore.errors import (
    ConfigError,
    InvalidSettingError,
    LogstoreError,
    MalformedFactError,
    NotLeaderError,
    RecordError,
    StorageError,
)
from logstore.log import Log
from logstore.log.formats.last_stop import Stop
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import NO_NODE, NodeId, PartitionState, Registry, Replica, Role
from logstore.replication.election import given_up, resigned
from logstore.replication.fetch_messages import Slot
from logstore.replication.insync import InSyncReplica
from logstore.replication.node.registration import NodeRegistration
from logstore.replication.placement import Arrival, InSyncPlacement, Placement
from logstore.replication.quorum import QuorumPlacement, QuorumReplica, without_leadership
from logstore.store import Store

#: How long after a failure, or after an attempt, a log that has failed is opened again.
OPEN_AGAIN_S = 1.0
#: The most between two attempts to open a log that could not be opened: each one waits twice as long.
MOST_OPEN_AGAIN_S = 30.0


class Member:
    """A partition that this node has a replica of."""

    def __init__(self, place: TopicPartition, slot: Slot, log: Log, placement: Placement) -> None:
        self.place = place
        self.slot = slot
        self.log = log
        self.calls = log.replica
        self.placement = placement
        self.lock = threading.Lock()
        #: Records lost by unclean elections, as the replicas before this one have found since the node began.
        self.lost_before = 0
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
    def lost_records(self) -> int:
        """How many records an unclean election has lost, that consumers had seen here, since the node began."""
        return self.lost_before + sum(each.end_offset - each.start_offset for each in self.replica.lost)

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


class Unopened:
    """A partition that the registry gives this node a replica of, and whose log it cannot open.

    The replica counts as not in sync, and leads nothing that another one may lead, until an attempt succeeds.
    """

    def __init__(self, place: TopicPartition, error: LogstoreError, config: LogConfig) -> None:
        self.place = place
        self.error = error  #: of the last attempt
        self.config = config  # of the topic
        self.state: PartitionState | None = None  # as it was last read
        self.must_read = True
        self.wait_s = 0.0
        self.open_again_at_s = 0.0

    def note(self, failed: Unopened, now_s: float) -> None:
        """Note another attempt that has failed: the next one waits for longer."""
        self.error, self.config = failed.error, failed.config
        self.wait_s = min(2 * self.wait_s, MOST_OPEN_AGAIN_S) or OPEN_AGAIN_S
        self.open_again_at_s = now_s + self.wait_s


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

    def make(
        self, topic: str, partition: int, assignment: facts.Assignment, registry: Registry
    ) -> Member | Unopened:
        """Make the local topic if it is missing, open the log, and make the replica, if the disk allows it."""
        settings = {
            **facts.decode_config(registry.read(facts.config_path(topic))),
            "logstore.replicated": "true",
        }
        try:
            config = LogConfig.of(settings)
        except ConfigError as error:
            path = facts.config_path(topic)
            raise MalformedFactError(f"{path}: {error}", fact=path) from error
        place = TopicPartition(topic, partition)
        try:
            return self._opened(place, assignment, settings, registry)
        except (StorageError, RecordError) as error:
            known = topic in self.store.topics()
            return Unopened(place, error, self.store[topic].config if known else config)

    def _opened(
        self, place: TopicPartition, assignment: facts.Assignment, settings: dict[str, str], registry: Registry
    ) -> Member:
        topic, partition = place
        made = self.store.create_topic(topic, len(assignment.partitions), settings, if_not_exists=True)
        if not made.config.replicated:
            raise InvalidSettingError(
                {topic: "the store has a topic of that name that is not replicated: rename or delete it"}
            )
        if made.partition_count < len(assignment.partitions):
            made = self.store.add_partitions(topic, len(assignment.partitions))
        log = self.store._host._log_of(topic, partition)
        assert isinstance(log, Log)
        if log.replica.failure is not None:
            # It failed before it had a member, as at the first sync of a quorum's replica: nothing else opens it.
            log = self.store._host.partitions.open_again(place)
            assert isinstance(log, Log)
        state = registry.read(facts.state_path(place))
        has_records = bool(log.log_end_offset) or log.replica.epochs.latest is not None
        # A partition that is younger than this life has lost nothing by the end of an earlier one. Without a state
        # it is younger too, as what was there at the registration is seen since: a controller is about to make it.
        is_young = not has_records if state is None else state.created > self._registration.created
        if is_young and has_records:
            # As of a backup whose registry was lost: they would be taken for the new topic's.
            raise InvalidSettingError(
                {topic: "the store has records of an earlier topic of that name: export and delete that one first"}
            )
        arrival = Arrival(
            self._registration.has_same_disk or is_young,
            Stop.CLEAN if is_young else log.replica.last_stop.stop,
        )
        return Member(place, Slot(assignment.topic_id, partition), log, self._place(log, made.config, arrival))

    def given_up(self, unopened: Unopened, state: PartitionState, lives: Mapping[NodeId, int]) -> PartitionState:
        """Return the state in which this node has given up its place in a partition whose log it cannot open."""
        node, config = self._registration.node, unopened.config
        if self._is_quorum:
            return without_leadership(state, node)
        if self._is_controlled and state.leader != node:
            return resigned(state, node, lives, config.min_insync_replicas)
        unclean = config.unclean_leader_election_enable and not self._is_controlled
        return given_up(state, node, lives, config.min_insync_replicas, unclean=unclean)

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
        member.lost_before, member.refused_answers = failed.lost_records, failed.refused_answers
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
