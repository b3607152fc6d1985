"""Lives of controllers: brokers and controllers come and go at any call, and everything ends as it should be.

Several controllers take turns on one registry. Ahead of each call of theirs anything may happen: a broker is lost
or returns, an administrator asks for something, another controller takes over, the call fails, its answer is lost.
LOGSTORE_SIMULATIONS=10000 for more lives, LOGSTORE_SEED for others.
"""

from __future__ import annotations

import logging
import os
import random

import pytest

from logstore.errors import RegistryUnreachableError, StaleFactError
from logstore.records import TopicPartition
from logstore.replication import election, facts
from logstore.replication.api import Delete
from logstore.replication.controller import controller as controllers
from logstore.replication.deletion import request_path
from tests.replication.controller.brokers import StubCluster

COUNT = int(os.environ.get("LOGSTORE_SIMULATIONS", "300")) // 2
SEED = int(os.environ.get("LOGSTORE_SEED", "0"))
PARTS = 6
NODES = range(1, 6)
TOPICS = ("a", "b", "c")


class Ledger:
    """Judges each state that the registry gets: I1, and what a controller may do."""

    def __init__(self, cluster: StubCluster) -> None:
        self.cluster = cluster
        self.epochs: dict[tuple[int, TopicPartition], dict[int, int]] = {}

    @property
    def elections(self) -> int:
        return sum(max(led) for led in self.epochs.values())

    def look(self) -> None:
        registry = self.cluster.registry
        for topic in registry.children(facts.TOPICS):
            if registry.read(facts.topic_path(topic)) is None:
                continue  # its facts go
            for name in registry.children(f"{facts.TOPICS}/{topic}/partitions"):
                place = TopicPartition(topic, int(name))
                fact = registry.read(facts.state_path(place))
                state = facts.decode_state(fact, ())
                led = self.epochs.setdefault((fact.created, place), {})
                if led.setdefault(state.leader_epoch, state.leader) != state.leader:
                    raise AssertionError(f"I1: two leaders in epoch {state.leader_epoch} of {place}: {state}")
                assert state.leader_epoch == max(led), f"the epoch of {place} fell: {state}"
                assert state.isr, state
                assert not state.leader >= 0 or state.leader in state.isr, state


class Chaos:
    """Does something ahead of some calls of the controllers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = StubCluster({node: "xy"[node % 2] for node in NODES})
        self.ledger = Ledger(self.cluster)
        self.offices = {node: self.cluster.office(node, self.before) for node in (1, 2, 3)}
        self.is_calm = False
        self.is_nested = False

    def before(self, call: str) -> None:
        if self.is_calm or self.is_nested:
            return
        if self.random.random() < 0.03:
            raise RegistryUnreachableError("lost" if call == "committed" else "silent")
        if self.random.random() < 0.1:
            self.is_nested = True
            try:
                self.act()
            finally:
                self.is_nested = False

    def act(self) -> None:
        kinds = [self.broker, self.broker, self.steps, self.topic, self.delete, self.move, self.prefer, self.depose]
        self.random.choice(kinds)()
        self.ledger.look()

    def broker(self) -> None:
        broker = self.cluster.brokers[self.random.choice(NODES)]
        if broker.is_up:
            broker.stop()
        else:
            broker.start()

    def steps(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.step()

    def place(self) -> TopicPartition:
        return TopicPartition(self.random.choice(TOPICS), self.random.randrange(3))

    def nodes(self) -> tuple[int, ...]:
        return tuple(self.random.sample(NODES, self.random.choice((1, 2, 3))))

    def topic(self) -> None:
        name = self.random.choice(TOPICS)
        fact = self.cluster.registry.read(facts.topic_path(name))
        if fact is None:
            if not self.cluster.registry.children(request_path(name)):
                try:
                    self.cluster.create(name, {0: self.nodes(), 1: self.nodes()}, min_insync_replicas=2)
                except StaleFactError:
                    pass  # the settings of the one before are there still
            return
        known = facts.decode_assignment(fact)
        grown = {**known.partitions, len(known.partitions): self.nodes()}
        self.cluster.put(fact.path, facts.encode_assignment(known.topic_id, grown, known.adding, known.removing))

    def delete(self) -> None:
        if self.random.random() < 0.5:
            self.cluster.put(request_path(self.random.choice(TOPICS)), b"")

    def move(self) -> None:
        self.cluster.move(self.place(), self.nodes() if self.random.random() < 0.7 else ())

    def prefer(self) -> None:
        self.cluster.put(
            facts.PREFERRED_ELECTIONS, facts.encode_requests([facts.PartitionRequest(self.place(), None)])
        )

    def depose(self) -> None:
        fact = self.cluster.registry.read(facts.CONTROLLER)
        if fact is not None:
            self.cluster.registry.commit([Delete(fact.path, fact.version)])

    # -- a life

    def live(self, turns: int = 40) -> None:
        for _ in range(turns):
            office = self.random.choice(list(self.offices.values()))
            try:
                office.turn()
            except RegistryUnreachableError:
                if self.random.random() < 0.2:
                    office.close()
            self.ledger.look()
        self.is_calm = True
        for broker in self.cluster.brokers.values():
            if not broker.is_up:
                broker.start()
        for _ in range(30):
            self.cluster.clock.advance(10_000)
            for office in self.offices.values():
                office.turn()
            self.steps()
            self.ledger.look()
        self.judge()

    def judge(self) -> None:
        """Nothing is half done: every request is met, every partition led by all in sync."""
        registry = self.cluster.registry
        for path in (facts.REASSIGNMENTS, facts.PREFERRED_ELECTIONS):
            assert registry.read(path) is None, path
        for path in (facts.DELETED_TOPICS, facts.ISR_CHANGES):
            assert registry.children(path) == frozenset(), path
        assert registry.children(facts.CONFIGS) == registry.children(facts.TOPICS)
        for topic in registry.children(facts.TOPICS):
            known = self.cluster.assignment(topic)
            assert not known.adding, known
            assert not known.removing, known
            names = registry.children(f"{facts.TOPICS}/{topic}/partitions")
            assert names == {str(each) for each in known.partitions}
            for partition, replicas in known.partitions.items():
                state = self.cluster.state(topic, partition)
                assert state.replicas == replicas
                assert state.leader in replicas, state
                assert set(state.isr) == set(replicas), state
                for node in replicas:
                    told = self.cluster.brokers[node].told[TopicPartition(topic, partition)]
                    assert told.leader_epoch == state.leader_epoch, (node, told, state)


def live(seed: int) -> Chaos:
    chaos = Chaos(seed)
    try:
        chaos.live()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return chaos


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.row("F10", "F15", "P9")
def test_controllers_come_and_go_and_leave_nothing_half_done(part):
    elections = 0
    for seed in range(SEED + part, SEED + COUNT, PARTS):
        elections += live(seed).ledger.elections
    assert elections > 2 * COUNT // PARTS


@pytest.mark.row("P9")
def test_a_zombie_makes_the_state_of_a_topic_that_is_gone_unless_its_epoch_is_checked():
    """Lives do not find it: the zombie must sleep between the creation of a topic and its end.

    A state that is created has no version to be conditional on, so the check of the controller's epoch alone keeps
    the one that sleeps from making it.
    """
    for is_planted in (False, True):
        cluster = StubCluster({1: None, 2: None})
        sleeper = cluster.office(1)
        sleeper.turn()
        cluster.create("t", {0: (1, 2)})
        sleeper.notify(facts.TOPICS)
        zombie = sleeper.controller
        zombie.view.take_names(facts.TOPICS, {"t"})
        while zombie.view.to_read:
            paths, zombie.view.to_read = zombie.view.to_read, {}
            for path in paths:
                zombie.view.take(path, cluster.registry.read(path))
        [step] = zombie.steps()
        # It sleeps here, with its commit to come. Another controller makes the topic, and deletes it.
        cluster.registry.commit([Delete(facts.CONTROLLER, 0)])
        other = cluster.office(2)
        cluster.settle(other)
        cluster.put(request_path("t"), b"")
        cluster.settle(other)
        assert cluster.registry.children(facts.TOPICS) == frozenset()
        if is_planted:
            cluster.registry.commit(step.changes[1:])
            assert cluster.registry.children(facts.TOPICS) == {"t"}
        else:
            with pytest.raises(StaleFactError, match="/controller_epoch"):
                cluster.registry.commit(step.changes)


def elects_the_dead(monkeypatch):
    monkeypatch.setattr(controllers, "elect", lambda state, live, least, unclean=False: None)


def raises_no_epoch(monkeypatch):
    def led_by(state, node):
        return state._replace(leader=node, last_leader=node)

    monkeypatch.setattr(election, "_led_by", led_by)


def leaves_the_topic_of_a_move(monkeypatch):
    def topic_step(self, topic, states):
        written = [change for place, state in states.items() for change in self._stored(place, state)]
        return controllers.Step((self._fence, *written))

    monkeypatch.setattr(controllers.Controller, "_topic_step", topic_step)


def deletes_no_topic(monkeypatch):
    monkeypatch.setattr(controllers.Controller, "_deletion", lambda self, topic, known: [])


@pytest.mark.parametrize("plant", [elects_the_dead, raises_no_epoch, leaves_the_topic_of_a_move, deletes_no_topic])
def test_planted_mistakes_of_a_controller_are_found(plant, monkeypatch):
    plant(monkeypatch)
    for seed in range(100):
        try:
            live(seed)
        except AssertionError:
            return
    pytest.fail(f"{plant.__name__}: a hundred lives have not found it")
