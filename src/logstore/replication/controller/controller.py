"""The decisions of a cluster's controller, in one epoch: facts in, changes and commands out.

A state machine without clock, thread or I/O. Its driver reads facts and hands them to `Controller.view`, commits
the steps that `Controller.steps` returns, and hands what they have made to the view again. Whatever is half done is
in the registry, so another controller that reads everything goes on where this one stopped.

I11: each step is committed on condition of the controller's epoch, each state on that of its version, and each
election on that of the leader's registration. So a controller that has been replaced changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from logstore.errors import LogstoreError
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import NO_NODE, Change, Check, Create, Delete, NodeId, PartitionState, Write
from logstore.replication.controller.cluster_view import ClusterView, TopicView
from logstore.replication.controller.commands import Command, HeldState
from logstore.replication.deletion import MOST_CHANGES, facts_to_delete, is_confirmed, request_path
from logstore.replication.election import (
    created,
    elect,
    finished,
    is_unclean,
    moved,
    preferred,
    resigned,
    settled_replicas,
    with_isr,
    without_leader,
)

_logger = logging.getLogger(__name__)

#: Kafka's default of ``leader.imbalance.per.broker.percentage``.
IMBALANCE_PERCENT = 10


class Step(NamedTuple):
    """Changes for one commit, which all take place or none. Steps of one round touch different facts."""

    changes: tuple[Change, ...]


class Controller:
    """The controller of one epoch. ``version`` is that of the fact of the controller's epoch, as its claim made it.

    ``new_id`` makes the id of a topic that a tool has made without one. One caller at a time.
    """

    def __init__(self, epoch: int, version: int, new_id: Callable[[], str]) -> None:
        self.epoch = epoch
        self.view = ClusterView()
        self.unclean_elections = 0
        self._fence = Check(facts.CONTROLLER_EPOCH, version)
        self._new_id = new_id
        self._stopping: dict[NodeId, int] = {}  # nodes that shut down, with their registrations
        self._wants_preferred: set[TopicPartition] = set()
        self._told: dict[TopicPartition, tuple[object, ...]] = {}
        self._owed: dict[NodeId, dict[TopicPartition, HeldState]] = {}
        self._refused: dict[TopicPartition, str] = {}

    # -- what others ask for

    def shut_down(self, node: NodeId, life: int) -> int:
        """Move the leaders of a node that stops elsewhere, and take it out of the ISRs, in the next steps.

        Returns how many partitions it leads that another replica in sync could lead: 0 when it may stop.
        """
        if self.view.lives.get(node) != life:
            return 0
        places = self.view.of_node.get(node, ())
        if self._stopping.get(node) != life:
            self._stopping[node] = life
            self.view.changed.update(dict.fromkeys(places))
        return sum(
            self.view.states[place].leader == node and self._decide(place).leader != node for place in places
        )

    def elect_preferred(self, places: Iterable[TopicPartition]) -> None:
        """Have the first replica of each assignment lead in the next steps, where it is in sync."""
        self._wants_preferred.update(places)
        self.view.changed.update(dict.fromkeys(self._wants_preferred))

    def balance(self, percent: float = IMBALANCE_PERCENT) -> None:
        """Do so for the nodes that do not lead more than ``percent`` of the partitions that prefer them."""
        preferring: dict[NodeId, list[TopicPartition]] = {}
        states = self.view.states
        for place, state in states.items():
            preferring.setdefault(state.replicas[0], []).append(place)
        for node, places in preferring.items():
            strayed = [place for place in places if states[place].leader != node]
            if len(strayed) * 100 > percent * len(places):
                self.elect_preferred(strayed)

    # -- what it decides

    def steps(self) -> list[Step]:
        """Return what is to be committed now; none, if everything is as it should be.

        Whatever becomes of a step, the driver reads the paths of its changes again and hands them to the view.
        """
        view = self.view
        steps: list[Step] = []
        busy: set[str] = set()  # topics whose facts a step of this round writes
        topics, view.changed_topics = view.changed_topics, {}
        for topic in topics:
            changes = self._topic_changes(topic)
            if changes:
                busy.add(topic)
                steps.append(Step((self._fence, *changes)))
        steps += self._reassign(busy)
        steps += self._move_on(busy)
        if view.isr_changes:
            # Their states were read before.
            steps += self._cut([Delete(path, fact.version) for path, fact in view.isr_changes.items()])
        return steps

    def _cut(self, changes: list[Change]) -> list[Step]:
        """Return the steps of changes of which any number may take place, in their order."""
        return [
            Step((self._fence, *changes[start : start + MOST_CHANGES]))
            for start in range(0, len(changes), MOST_CHANGES)
        ]

    # -- topics

    def _topic_changes(self, topic: str) -> list[Change]:
        view = self.view
        known = view.topics.get(topic)
        if topic in view.deleting:
            return self._deletion(topic, known)
        if known is None:
            return []
        assignment = known.assignment
        if not assignment.topic_id:
            named = assignment._replace(topic_id=self._new_id())
            return [Write(facts.topic_path(topic), facts.encode_assignment(*named), known.version)]
        changes: list[Change] = []
        for partition, replicas in assignment.partitions.items():
            if len(changes) >= MOST_CHANGES:
                view.changed_topics[topic] = None
                break
            place = TopicPartition(topic, partition)
            if place in view.states:
                view.changed[place] = None  # a setting may be another
            elif facts.state_path(place) not in view.to_read and facts.state_path(place) not in view.malformed:
                changes += self._creation(place, replicas)
        return changes

    def _creation(self, place: TopicPartition, replicas: tuple[NodeId, ...]) -> list[Change]:
        """Return the changes that make a new partition: it is led by the first replica that lives."""
        new = created(replicas)
        least = self.view.rules(place.topic).min_insync
        state = (elect(new, self.view.lives, least) or new)._replace(controller_epoch=self.epoch)
        lives = [
            Check(facts.life_path(node), self.view.lives[node]) for node in state.isr if node in self.view.lives
        ]
        return [*lives, Create(facts.state_path(place), facts.encode_state(state))]

    def _deletion(self, topic: str, known: TopicView | None) -> list[Change]:
        """Once every node has deleted its replicas, return the changes that delete the topic's facts."""
        view = self.view
        partitions = {} if known is None else known.assignment.partitions
        confirmed = view.deleting[topic]
        if not is_confirmed(partitions.values(), confirmed):
            return []
        places = [TopicPartition(topic, partition) for partition in partitions]
        states = {place: view.states[place].version for place in places if place in view.states}
        paths = (facts.topic_path(topic), facts.config_path(topic), request_path(topic))
        versions = {path: version for path in paths if (version := view.version_of(path)) is not None}
        if len(states) > MOST_CHANGES:
            view.changed_topics[topic] = None
        return facts_to_delete(topic, states, versions, confirmed)

    # -- moves

    def _reassign(self, busy: set[str]) -> list[Step]:
        """Begin or cancel the moves that are asked for; when all are begun or refused, delete the request."""
        view = self.view
        request = view.reassignments
        if request is None:
            return []
        try:
            asked = facts.decode_requests(request)
        except LogstoreError as error:
            view.malformed[request.path] = str(error)
            return []
        waits = False
        begun: dict[str, dict[TopicPartition, PartitionState]] = {}
        for place, replicas in asked:
            state = view.states.get(place)
            target = replicas or (() if state is None else settled_replicas(state))
            problem = self._problem(place, state, target)
            if problem:
                self._refuse(place, problem)
                continue
            assert state is not None
            after = moved(state, target, view.lives, view.rules(place.topic).min_insync)
            if after != state:
                waits = True
                if after is not None and place.topic not in busy:
                    begun.setdefault(place.topic, {})[place] = after
        busy |= begun.keys()
        if not waits:
            return self._cut([Delete(request.path, request.version)])
        return [self._topic_step(topic, states) for topic, states in begun.items()]

    def _problem(self, place: TopicPartition, state: PartitionState | None, target: tuple[NodeId, ...]) -> str:
        """Return why a partition cannot move to some nodes; empty if it can."""
        if state is None or place.topic not in self.view.topics or place.topic in self.view.deleting:
            return "there is no such partition"
        unknown = [node for node in target if node not in self.view.lives and node not in state.replicas]
        return f"node {unknown[0]} does not live" if unknown else ""

    def _refuse(self, place: TopicPartition, problem: str) -> None:
        if self._refused.get(place) != problem:
            self._refused[place] = problem
            _logger.warning("controller: %s cannot be moved: %s", place, problem)

    def _topic_step(self, topic: str, states: dict[TopicPartition, PartitionState]) -> Step:
        """Return the step that stores states of a topic together with the topic's fact."""
        known = self.view.topics[topic]
        partitions, adding, removing = (dict(each) for each in known.assignment[1:])
        changes: list[Change] = [self._fence]
        for place, state in states.items():
            partitions[place.partition] = state.replicas
            adding[place.partition], removing[place.partition] = state.adding, state.removing
            changes += self._stored(place, state)
        value = facts.encode_assignment(known.assignment.topic_id, partitions, adding, removing)
        changes.append(Write(facts.topic_path(topic), value, known.version))
        return Step(tuple(changes))

    # -- partitions

    def _move_on(self, busy: set[str]) -> list[Step]:
        """Return the steps of the partitions that have changed, or whose nodes have."""
        view = self.view
        steps: list[Step] = []
        ended: dict[str, dict[TopicPartition, PartitionState]] = {}
        asked = self._asked_for_preferred()
        changed, view.changed = view.changed, {}
        is_preferring = False
        for place in dict.fromkeys((*changed, *asked)):
            state = view.states.get(place)
            if state is None or place.topic in view.deleting:
                continue
            if place.topic in busy:
                view.changed[place] = None
                continue
            after = self._decide(place)
            if after == state:
                self._wants_preferred.discard(place)
                self._tell(place, state)
                continue
            is_preferring |= place in asked
            if after.adding != state.adding or after.removing != state.removing:
                ended.setdefault(place.topic, {})[place] = after
            else:
                steps.append(Step((self._fence, *self._stored(place, after))))
        steps += [self._topic_step(topic, states) for topic, states in ended.items()]
        if view.preferred is not None and view.preferred.path not in view.malformed and not is_preferring:
            steps += self._cut([Delete(view.preferred.path, view.preferred.version)])
        return steps

    def _asked_for_preferred(self) -> list[TopicPartition]:
        request = self.view.preferred
        if request is None:
            return []
        try:
            places = [each.place for each in facts.decode_requests(request)]
        except LogstoreError as error:
            self.view.malformed[request.path] = str(error)
            return []
        self._wants_preferred.update(places)
        return places

    def _decide(self, place: TopicPartition) -> PartitionState:
        """Return the state that a partition should have."""
        view = self.view
        state = view.states[place]
        least, allows_unclean = view.rules(place.topic)
        live = [node for node in state.replicas if node in view.lives]
        ready = [node for node in live if self._stopping.get(node) != view.lives[node]]
        after = finished(state, ready, least) or state
        if after.leader not in view.lives:
            # One that stops, and has every record, before one that lacks some.
            led = elect(after, ready, least) or elect(after, live, least)
            if led is None and allows_unclean:
                led = elect(after, ready or live, least, unclean=True)
            if led is not None:
                after = led
            elif after.leader != NO_NODE:
                after = without_leader(after)
        for node in live:
            if node not in ready:
                after = resigned(after, node, ready, least)
        if after.leader != NO_NODE and not set(after.isr) <= set(live):
            # At once: else appends would wait for a node that is gone until its lag is noticed.
            after = with_isr(after, [node for node in after.isr if node in live], least)
        if place in self._wants_preferred:
            after = preferred(after, ready) or after
        return after

    def _stored(self, place: TopicPartition, after: PartitionState) -> list[Change]:
        """Return the changes that store a state in the place of the known one."""
        before = self.view.states[place]
        if after.leader not in (NO_NODE, before.leader) and is_unclean(before, after):
            self.unclean_elections += 1
            _logger.warning("controller: %s: node %d leads, which was not in sync", place, after.leader)
        return facts.changes_to(place, before, after._replace(controller_epoch=self.epoch), self.view.lives)

    # -- commands

    def _tell(self, place: TopicPartition, state: PartitionState) -> None:
        """Owe a state to the nodes that have a replica, unless they have it in their present life."""
        lives = self.view.lives
        live = [(node, lives[node]) for node in state.replicas if node in lives]
        told = (state.version, state.leader_epoch, *live)
        topic = self.view.topics.get(place.topic)
        if topic is None or self._told.get(place) == told:
            return
        self._told[place] = told
        for node, _ in live:
            self._owed.setdefault(node, {})[place] = HeldState(topic.assignment.topic_id, place, state)

    def commands(self) -> list[Command]:
        """Return what is owed to the nodes, one command for each. One that does not arrive goes to `repeat`."""
        owed, self._owed = self._owed, {}
        lives = self.view.lives
        return [
            Command(node, lives[node], self.epoch, tuple(states.values()))
            for node, states in sorted(owed.items())
            if node in lives
        ]

    def repeat(self, command: Command) -> None:
        """Owe again what a command had, as it is now: it has not arrived."""
        for held in command.states:
            self._told.pop(held.place, None)
            self.view.changed[held.place] = None
