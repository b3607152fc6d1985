"""Brokers without logs, for tests of the controller: they register, grow ISRs, obey commands and delete topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from logstore.errors import PeerUnreachableError, StaleFactError
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import Change, Create, Fact, NodeId, PartitionState, Registry, Write
from logstore.replication.controller import Command, CommandGate
from logstore.replication.controller.office import ControllerOffice
from logstore.replication.deletion import confirmation
from logstore.replication.election import with_isr
from logstore.replication.local.local_registry import LocalRegistry
from logstore.testing import ManualClock


class BrokerStub:
    """One broker: it has no records, so its replicas are in sync as soon as they are told of their state."""

    def __init__(self, cluster: StubCluster, node: NodeId, rack: str | None = None) -> None:
        self.cluster, self.node, self.rack = cluster, node, rack
        self.session: LocalRegistry | None = None
        self.life = -1
        self.gate = CommandGate(-1)
        self.told: dict[TopicPartition, PartitionState] = {}
        self.obeyed: list[Command] = []  # by this process

    @property
    def is_up(self) -> bool:
        return self.session is not None

    def start(self) -> None:
        session = self.session = self.cluster.registry.connect()
        path = facts.life_path(self.node)
        before = session.read(path)
        life = Create(path, b"") if before is None else Write(path, b"", before.version)
        rack = "" if self.rack is None else f'"rack": "{self.rack}"'
        made = session.commit([life, Create(facts.id_path(self.node), f"{{{rack}}}".encode(), ephemeral=True)])[0]
        assert made is not None
        self.life = made.version
        self.gate, self.told, self.obeyed = CommandGate(self.life), {}, []

    def stop(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def obey(self, command: Command) -> None:
        if not self.is_up:
            raise PeerUnreachableError(f"node {self.node} is down")
        if self.gate.admits(command):
            self.obeyed.append(command)
            self.told |= {held.place: held.state for held in command.states}

    def step(self) -> None:
        """As leader, take the followers that live into the ISR; delete what shall be deleted."""
        session = self.session
        if session is None:
            return
        lives = {node: each.life for node, each in self.cluster.brokers.items() if each.is_up}
        for place, told in list(self.told.items()):
            if told.leader != self.node:
                continue
            fact = session.read(facts.state_path(place))
            if fact is None:
                del self.told[place]
                continue
            state = facts.decode_state(fact, told.replicas)
            grown = with_isr(state, [node for node in state.replicas if node in {*state.isr, *lives}], 1)
            if state.leader == self.node and grown.isr != state.isr:
                self.try_commit([*facts.changes_to(place, state, grown, lives), facts.isr_change([place])])
        for topic in session.children(facts.DELETED_TOPICS):
            fact = session.read(facts.topic_path(topic))
            if fact is not None and any(
                self.node in each for each in facts.decode_assignment(fact).partitions.values()
            ):
                self.told = {place: state for place, state in self.told.items() if place.topic != topic}
                self.try_commit([confirmation(topic, self.node)])

    def try_commit(self, changes: list[Change]) -> None:
        assert self.session is not None
        try:
            self.session.commit(changes)
        except StaleFactError:
            pass


class CalledRegistry(LocalRegistry):
    """A session of a controller; ``before`` is called ahead of each of its calls, and may raise or do anything."""

    def __init__(self, registry: LocalRegistry, before: Callable[[str], object]) -> None:
        super().__init__()
        self._tree = registry._tree
        self._before = before

    def read(self, path: str) -> Fact | None:
        self._before("read")
        return super().read(path)

    def children(self, path: str) -> frozenset[str]:
        self._before("children")
        return super().children(path)

    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        self._before("commit")
        made = super().commit(changes)
        self._before("committed")
        return made


class StubCluster:
    """Brokers and a registry; `office` gives the controllers of some nodes, whose turns the test takes."""

    def __init__(self, racks: Mapping[NodeId, str | None]) -> None:
        self.registry = LocalRegistry()
        self.clock = ManualClock()
        self.brokers = {node: BrokerStub(self, node, rack) for node, rack in racks.items()}
        self.sent: list[Command] = []
        for broker in self.brokers.values():
            broker.start()

    def office(self, node: NodeId, before: Callable[[str], object] = lambda call: None) -> ControllerOffice:
        def connect() -> Registry:
            return CalledRegistry(self.registry, before)

        return ControllerOffice(node, connect, self.send, self.clock, balance_s=300)

    def send(self, command: Command) -> None:
        self.sent.append(command)
        self.brokers[command.to].obey(command)

    def settle(self, office: ControllerOffice, turns: int = 12) -> None:
        """Let the controller and the brokers go on until everything is as it should be."""
        for _ in range(turns):
            office.turn()
            for broker in self.brokers.values():
                broker.step()
        office.turn()

    # -- what administrators do, and see

    def create(self, topic: str, partitions: Mapping[int, tuple[NodeId, ...]], **settings: Any) -> None:
        named = {key.replace("_", "."): str(value) for key, value in settings.items()}
        self.registry.commit(
            [
                Create(facts.topic_path(topic), facts.encode_assignment("A" * 22, partitions)),
                Create(facts.config_path(topic), facts.encode_config(named)),
            ]
        )

    def put(self, path: str, value: bytes) -> None:
        found = self.registry.read(path)
        change: Change = Create(path, value) if found is None else Write(path, value, found.version)
        self.registry.commit([change])

    def move(self, place: TopicPartition, replicas: tuple[NodeId, ...]) -> None:
        self.put(facts.REASSIGNMENTS, facts.encode_requests([facts.PartitionRequest(place, replicas)]))

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        fact = self.registry.read(facts.state_path(TopicPartition(topic, partition)))
        assert fact is not None
        return facts.decode_state(fact, ())

    def assignment(self, topic: str) -> facts.Assignment:
        fact = self.registry.read(facts.topic_path(topic))
        assert fact is not None
        return facts.decode_assignment(fact)
