"""What a controller knows of its cluster: the facts of the registry, decoded, and what has changed in them.

It reads nothing by itself: the driver hands it facts. A fact that is malformed changes nothing; its path is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from logstore.config.log import LogConfig
from logstore.errors import LogstoreError
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import Fact, NodeId, PartitionState

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: The paths whose children's names say what there is.
NAMED = (facts.IDS, facts.TOPICS, facts.DELETED_TOPICS, facts.ISR_CHANGES)


class TopicView(NamedTuple):
    """A topic as its facts have it."""

    version: int  #: of the topic's fact
    assignment: facts.Assignment


class _TopicRules(NamedTuple):
    """The settings of a topic that matter here."""

    min_insync: int
    allows_unclean: bool


_DEFAULTS = _TopicRules(LogConfig().min_insync_replicas, LogConfig().unclean_leader_election_enable)


class ClusterView:
    """The facts of one registry. One caller at a time."""

    def __init__(self) -> None:
        self.lives: dict[NodeId, int] = {}  #: nodes that live, with the numbers of their registrations
        self.racks: dict[NodeId, str | None] = {}
        self.topics: dict[str, TopicView] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.of_node: dict[NodeId, set[TopicPartition]] = {}  #: the partitions that each node has a replica of
        self.deleting: dict[str, frozenset[str]] = {}  #: topics that shall be deleted, and the nodes that have
        self.reassignments: Fact | None = None
        self.preferred: Fact | None = None
        self.isr_changes: dict[str, Fact] = {}
        self.malformed: dict[str, str] = {}
        #: What the controller has to look at, since it has looked last.
        self.changed: dict[TopicPartition, None] = {}
        self.changed_topics: dict[str, None] = {}
        #: Paths that the driver has to read, since what it has read names them; and those whose names it has to.
        self.to_read: dict[str, None] = {}
        self.to_list: dict[str, None] = {}
        self._life_versions: dict[NodeId, int] = {}
        self._rules: dict[str, _TopicRules] = {}
        self._seen: dict[str, tuple[int, int]] = {}  # path -> number of its creation, version
        self._below: dict[str, set[str]] = {path: set() for path in NAMED}  # the names of those of `_seen`

    def rules(self, topic: str) -> _TopicRules:
        """Return the settings of a topic."""
        return self._rules.get(topic, _DEFAULTS)

    def version_of(self, path: str) -> int | None:
        """Return the version of a fact as it was last taken; None if there is none."""
        seen = self._seen.get(path)
        return None if seen is None else seen[1]

    def retry(self, paths: Collection[str]) -> None:
        """Have paths read again, and what they say decided again: a commit of theirs may have failed."""
        for path in paths:
            place = facts.place_of(path)
            if place is not None:
                self.changed[place] = None
            match path.split("/"):
                case ["", "brokers", "topics", topic, *_]:
                    self.changed_topics[topic] = None
                case ["", "admin", "delete_topics", topic, *confirmed]:
                    self.changed_topics[topic] = None
                    if confirmed:
                        path = f"{facts.DELETED_TOPICS}/{topic}"
                        self.to_list[path] = None
            self.to_read[path] = None

    # -- names

    def take_names(self, path: str, names: Collection[str]) -> None:
        """Take the names below one of `NAMED`: what else was there is gone, what is new is to be read.

        Below a topic that shall be deleted they are the nodes that have deleted it.
        """
        parent, _, topic = path.rpartition("/")
        if parent == facts.DELETED_TOPICS:
            if topic in self.deleting:
                self.deleting[topic] = frozenset(names)
                self.changed_topics[topic] = None
            return
        for gone in sorted(self._below[path] - set(names)):
            self.take(f"{path}/{gone}", None)
        for name in sorted(names):
            full = f"{path}/{name}"
            node = facts.node_of(name) if path == facts.IDS else None
            if node is not None:
                # Read each time: a node that has registered again has the same name.
                self.to_read |= {full: None, facts.life_path(node): None}
            elif path != facts.IDS and full not in self._seen:
                self.to_read[full] = None

    # -- facts

    def take(self, path: str, fact: Fact | None) -> None:
        """Take what a path has now. An older version than the one that is known has no effect."""
        parent, _, name = path.rpartition("/")
        below = self._below.get(parent, set())
        if fact is None:
            self._seen.pop(path, None)
            below.discard(name)
        elif (fact.created, fact.version) <= self._seen.get(path, (-1, -1)):
            return
        else:
            self._seen[path] = (fact.created, fact.version)
            below.add(name)
        try:
            self._take(path, parent, name, fact)
        except LogstoreError as error:
            self.malformed[path] = str(error)
        else:
            self.malformed.pop(path, None)

    def _take(self, path: str, parent: str, name: str, fact: Fact | None) -> None:
        if path == facts.REASSIGNMENTS:
            self.reassignments = fact
        elif path == facts.PREFERRED_ELECTIONS:
            self.preferred = fact
        elif parent == facts.IDS:
            self._take_node(name, fact)
        elif parent == facts.REGISTRATIONS:
            self._take_life(name, fact)
        elif parent == facts.TOPICS:
            self._take_topic(name, fact)
        elif parent == facts.CONFIGS:
            self._take_config(name, fact)
        elif parent == facts.DELETED_TOPICS:
            self.changed_topics[name] = None
            _put(self.deleting, name, None if fact is None else self.deleting.get(name, frozenset()))
            if fact is not None:
                self.to_list[path] = None
        elif parent == facts.ISR_CHANGES:
            _put(self.isr_changes, path, fact)
            if fact is not None:
                self.to_read |= {facts.state_path(each.place): None for each in facts.decode_requests(fact)}
        elif (place := facts.place_of(path)) is not None:
            self._take_state(place, fact)

    def _take_node(self, name: str, fact: Fact | None) -> None:
        node = facts.node_of(name)
        if node is None:
            return
        if fact is None:
            self.racks.pop(node, None)
        else:
            self.racks[node] = facts.rack_of(fact)
        self._settle_node(node)

    def _take_life(self, name: str, fact: Fact | None) -> None:
        node = facts.node_of(name)
        if node is None or fact is None:
            return
        self._life_versions[node] = fact.version
        self._settle_node(node)

    def _settle_node(self, node: NodeId) -> None:
        """A node lives if it has both facts; its partitions are looked at if that has changed."""
        life = self._life_versions.get(node) if node in self.racks else None
        if self.lives.get(node) == life:
            return
        _put(self.lives, node, life)
        # Sorted: the steps of a controller have an order, and a set of names has another one in each process.
        self.changed.update(dict.fromkeys(sorted(self.of_node.get(node, ()))))

    def _take_topic(self, topic: str, fact: Fact | None) -> None:
        self.changed_topics[topic] = None
        if fact is None:
            self.topics.pop(topic, None)
            return
        assignment = facts.decode_assignment(fact, needs_id=False)
        self.topics[topic] = TopicView(fact.version, assignment)
        places = [TopicPartition(topic, partition) for partition in assignment.partitions]
        self.to_read |= {facts.state_path(place): None for place in places if place not in self.states}
        self.to_read[facts.config_path(topic)] = None

    def _take_config(self, topic: str, fact: Fact | None) -> None:
        found = LogConfig.of(facts.decode_config(fact))
        rules = _TopicRules(found.min_insync_replicas, found.unclean_leader_election_enable)
        if rules != self.rules(topic):
            self._rules[topic] = rules
            self.changed_topics[topic] = None

    def _take_state(self, place: TopicPartition, fact: Fact | None) -> None:
        known = self.states.get(place)
        if fact is None:
            if known is not None:
                self._index(place, known.replicas, set.discard)
                del self.states[place]
            self.changed_topics[place.topic] = None
            return
        topic = self.topics.get(place.topic)
        assigned = () if topic is None else topic.assignment.partitions.get(place.partition, ())
        state = facts.decode_state(fact, assigned)
        if known is not None:
            self._index(place, known.replicas, set.discard)
        self._index(place, state.replicas, set.add)
        self.states[place] = state
        self.changed[place] = None

    def _index(
        self,
        place: TopicPartition,
        nodes: Collection[NodeId],
        change: Callable[[set[TopicPartition], TopicPartition], None],
    ) -> None:
        for node in nodes:
            change(self.of_node.setdefault(node, set()), place)


def _put(table: dict[_Key, _Value], key: _Key, value: _Value | None) -> None:
    """Set or remove."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
