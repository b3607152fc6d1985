"""Lives of controllers: brokers and controllers come and go at any call, and everything ends as it should be.

Several controllers take turns on one registry. Ahead of each call of theirs anything may happen: a broker is lost
or returns, an administrator asks for something, another controller takes over, the call fails, its answer is lost.
LOGSTORE_SIMULATIONS=10000 for more lives, LOGSTORE_SEED for others.
"""

from __future__ import annotations

import logging
import os
import random
from functools import partial

import pytest

from logstore.errors import PeerUnreachableError, RegistryUnreachableError, StaleFactError
from logstore.records import TopicPartition
from logstore.replication import election, facts
from logstore.replication.api import Delete
from logstore.replication.controller import Controller
from logstore.replication.controller import controller as controllers
from logstore.replication.deletion import request_path
from logstore.replication.local.local_registry import LocalRegistry
from tests.replication import plants
from tests.replication.controller import brokers
from tests.replication.controller.brokers import StubCluster

COUNT = int(os.environ.get("LOGSTORE_SIMULATIONS", "300")) // 2
SEED = int(os.environ.get("LOGSTORE_SEED", "0"))
PARTS = 6
NODES = range(1, 6)
TOPICS = ("a", "b", "c")


class Ledger:
    """Judges each state that the registry gets, and each commit and command of a controller: I1 and I11."""

    def __init__(self, cluster: StubCluster) -> None:
        self.cluster = cluster
        self.epochs: dict[tuple[int, TopicPartition], dict[int, int]] = {}
        self.stored_by: dict[tuple[int, TopicPartition], int] = {}  # the controller's epoch in each state
        self.verdicts: list[str] = []
        self.late_commands = 0

    def note_commit(self, controller: Controller | None) -> None:
        """A controller, or a node that becomes one, has committed. `look` raises: an office takes any error."""
        current = facts.controller_epoch_of(self.cluster.registry.read(facts.CONTROLLER_EPOCH))
        if controller is not None and controller.epoch != current:
            self.verdicts.append(f"I11: the controller of epoch {controller.epoch} has committed in {current}")

    def look_at_commands(self) -> None:
        for broker in self.cluster.brokers.values():
            newest = 0
            for command in broker.obeyed:
                epoch = command.controller_epoch
                if command.life != broker.life or epoch < newest:
                    raise AssertionError(
                        f"I11: node {broker.node} obeys controller epoch {epoch} in life {command.life}; it knows "
                        f"{newest}, and is in life {broker.life}"
                    )
                newest = epoch
            del broker.obeyed[:-1]

    @property
    def elections(self) -> int:
        return sum(max(led) for led in self.epochs.values())

    def look(self) -> None:
        registry = self.cluster.registry
        if self.verdicts:
            raise AssertionError(self.verdicts[0])
        self.look_at_commands()
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
                key = (fact.created, place)
                if state.controller_epoch < self.stored_by.setdefault(key, state.controller_epoch):
                    raise AssertionError(f"I11: an older controller than {self.stored_by[key]} has stored {state}")
                self.stored_by[key] = state.controller_epoch
                assert state.isr, state
                assert not state.leader >= 0 or state.leader in state.isr, state


class Chaos:
    """Does something ahead of some calls of the controllers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = StubCluster({node: "xy"[node % 2] for node in NODES})
        self.ledger = Ledger(self.cluster)
        self.offices = {node: self.cluster.office(node, partial(self.before, node)) for node in (1, 2, 3)}
        self.turning = 0  # the node whose controller has its turn
        self.is_calm = False
        self.is_nested = False

    def before(self, node: int, call: str) -> None:
        if call == "committed":
            self.ledger.note_commit(self.offices[node].controller)
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
        kinds += [self.take_over, self.late_command]
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

    def take_over(self) -> None:
        """Another node becomes the controller in the middle of a turn, which goes on afterwards."""
        self.depose()
        self.offices[self.random.choice([node for node in self.offices if node != self.turning])].turn()

    def late_command(self) -> None:
        """A command arrives once more, of whichever controller."""
        if self.cluster.sent:
            try:
                command = self.random.choice(self.cluster.sent)
                self.cluster.brokers[command.to].obey(command)
                self.ledger.late_commands += 1
            except PeerUnreachableError:
                pass

    # -- a life

    def live(self, turns: int = 40) -> None:
        for _ in range(turns):
            self.turning = self.random.choice(list(self.offices))
            office = self.offices[self.turning]
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
    elections = late_commands = 0
    for seed in range(SEED + part, SEED + COUNT, PARTS):
        ledger = live(seed).ledger
        elections += ledger.elections
        late_commands += ledger.late_commands
    assert elections > 2 * COUNT // PARTS
    assert late_commands > 0


@pytest.mark.row("Z3", part="without a broker")
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


def stores_what_a_zombie_commits(monkeypatch):
    commit = LocalRegistry.commit
    monkeypatch.setattr(
        LocalRegistry, "commit", lambda self, changes: plants.unfenced(partial(commit, self), changes)
    )


def obeys_a_zombie(monkeypatch):
    monkeypatch.setattr(brokers, "CommandGate", plants.ObeysEveryController)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (elects_the_dead, ""),
        (raises_no_epoch, "I1:"),
        (leaves_the_topic_of_a_move, ""),
        (deletes_no_topic, ""),
        (stores_what_a_zombie_commits, "I11: the controller of epoch"),
        (obeys_a_zombie, "I11: node"),
    ],
)
def test_planted_mistakes_of_a_controller_are_found(plant, name, monkeypatch):
    plant(monkeypatch)
    for seed in range(100):
        try:
            live(seed)
        except AssertionError as error:
            if name in str(error):
                return
    pytest.fail(f"{plant.__name__}: a hundred lives have not found it")
