"""The replicas that have moved away from one node: their disk is cleared, once the registry says so beyond doubt.

It deletes records. So it rests on a fact that says, in so many words, that the partition is led elsewhere and this
node is none of its replicas. That fact is newer than the one by which this node became a replica, and of no older
leader epoch than its log has. A fact that is missing, malformed or older is not understood: the data stays, and a
notice has its path. All methods run in the registry's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from logstore.errors import LogstoreError, MalformedFactError, RegistryUnreachableError
from logstore.log import Log
from logstore.log.directory.files import Directory
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import NO_NODE, Registry
from logstore.replication.node.held_replicas import HeldReplica, HeldReplicas
from logstore.replication.node.member import Member
from logstore.replication.node.registration import NodeRegistration
from logstore.store import Store

#: Says what stands in the way of a subject, or nothing.
Say = Callable[[str, str], object]


class MovedReplicas:
    """The part of one node in the moves of replicas away from it.

    ``leave`` ends the part that the node takes in a partition: no call of its log is under way afterwards.
    """

    def __init__(
        self, store: Store, registration: NodeRegistration, say: Say, leave: Callable[[TopicPartition], object]
    ) -> None:
        self._store = store
        self._root: Directory = store._host.root
        self._registration = registration
        self._say = say
        self._leave = leave
        self._held = HeldReplicas.load(self._root)
        self._noted: set[TopicPartition] = set()  # in this life

    def is_clearing(self, place: TopicPartition) -> bool:
        """Whether a replica is half removed: no log of it is to be opened."""
        held = self._held.get(place)
        return held is not None and held.is_clearing

    def note(self, members: Collection[Member]) -> None:
        """Note the replicas that the node has taken part with, once their states are known.

        Raises:
            StorageError: the note cannot be written. Such a replica would not be cleared when it has moved away.
        """
        if len(self._noted) == len(members):
            return
        new: dict[TopicPartition, HeldReplica | None] = {}
        for member in members:
            state = member.state
            if member.place in self._noted or state is None or self._registration.node not in state.replicas:
                continue
            new[member.place] = HeldReplica(member.slot.topic_id, state.version)
        self._held.change(new)
        self._noted |= new.keys()

    def forget(self, topic: str) -> None:
        """Forget the replicas of a topic that is deleted."""
        gone = [place for place, _ in self._held.items() if place.topic == topic]
        self._noted -= set(gone)
        self._held.change(dict.fromkeys(gone))

    def go_on(
        self,
        registry: Registry,
        topics: Mapping[str, facts.Assignment],
        members: Mapping[tuple[str, int], Member],
        *,
        finish_only: bool = False,
    ) -> None:
        """Clear what has moved away, of the topics whose facts were read in this round.

        With ``finish_only`` only what is begun is finished. Whatever fails is tried again at the next call.
        """
        if self._held.damage:
            self._say("moved replicas", self._held.damage)
        for place, held in self._held.items():
            if not held.is_clearing and finish_only:
                continue
            subject = f"replica {place}"
            try:
                if not self._is_there(place):
                    self._held.change({place: None})
                elif held.is_clearing or self._has_moved(registry, place, held, topics, members.get(place)):
                    self._clear(place, held, topics)
                self._say(subject, "")
            except RegistryUnreachableError:
                raise
            except LogstoreError as error:
                self._say(subject, f"{error}; its records stay in {self._root.join(str(place))}")

    def _is_there(self, place: TopicPartition) -> bool:
        """Whether the store has a replica there: the user may have deleted it, and made another topic."""
        return place.topic in self._store and self._store[place.topic].config.replicated

    def _has_moved(
        self,
        registry: Registry,
        place: TopicPartition,
        held: HeldReplica,
        topics: Mapping[str, facts.Assignment],
        member: Member | None,
    ) -> bool:
        """Whether the registry says beyond doubt that this node has no part in a partition any more.

        Raises:
            MalformedFactError: what it says is not understood.
        """
        assignment = topics.get(place.topic)
        path = facts.topic_path(place.topic)
        if assignment is None:
            if registry.read(path) is None:
                raise _doubt(path, "nothing")
            return False  # it is malformed, or of a topic that is being deleted
        replicas = assignment.partitions.get(place.partition)
        if replicas is None or assignment.topic_id != held.topic_id:
            raise _doubt(path, f"topic {assignment.topic_id} with {len(assignment.partitions)} partitions")
        if self._registration.node in replicas:
            return False
        path = facts.state_path(place)
        fact = registry.read(path)
        if fact is None:
            raise _doubt(path, "nothing")
        state = facts.decode_state(fact, ())
        if self._registration.node in state.replicas:
            return False  # this node was asked to leave, and has not left
        known = -1 if member is None or member.state is None else member.state.version
        if state.version <= held.state_version or state.version < known:
            raise _doubt(path, f"version {state.version}, and had version {max(held.state_version, known)} before")
        if state.leader == NO_NODE or state.adding or state.removing:
            return False  # not there yet
        log = self._store._host._log_of(*place) if member is None else member.log
        newest = log.replica.leader_epoch if isinstance(log, Log) else state.leader_epoch + 1
        if state.leader_epoch < newest:
            raise _doubt(path, f"leader epoch {state.leader_epoch}, and the log has seen {newest}")
        self._registration.check_believed(registry)
        return True

    def _clear(self, place: TopicPartition, held: HeldReplica, topics: Mapping[str, facts.Assignment]) -> None:
        self._leave(place)
        self._noted.discard(place)
        self._held.change({place: held._replace(is_clearing=True)})
        self._store._host.topics_table.clear(place.topic, place.partition)
        self._delete_topic(place, held, topics.get(place.topic))
        self._held.change({place: None})

    def _delete_topic(self, place: TopicPartition, held: HeldReplica, assignment: facts.Assignment | None) -> None:
        """Delete the local topic if this node has no partition of it any more: another of its name may come."""
        if assignment is None or assignment.topic_id != held.topic_id:
            return
        others = (each for each, _ in self._held.items() if each.topic == place.topic and each != place)
        is_replica = any(self._registration.node in replicas for replicas in assignment.partitions.values())
        if not is_replica and not any(others):
            self._store.delete_topic(place.topic)


def _doubt(path: str, what: str) -> LogstoreError:
    return MalformedFactError(f"{path}: found {what}", fact=path)
