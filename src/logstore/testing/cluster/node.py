"""One simulated node: a process that is killed, paused and started again, on a disk that may lose what it was told.

The objects are those of production: a `Log` on a `SimDisk`, a `Replica` and a `Placement` for each partition, the
registry's facts. Only threads are missing: each step is an event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from logstore.errors import LogstoreError, StaleFactError
from logstore.log import Log
from logstore.log.directory.files import Directory
from logstore.replication import facts
from logstore.replication.api import Change, NodeId, PartitionState, Replica
from logstore.replication.controller import Command, CommandGate
from logstore.replication.node.registration import NodeRegistration
from logstore.replication.placement import Placement
from logstore.testing.cluster.controllers import ControllerJudge
from logstore.testing.cluster.ledger import Ledger
from logstore.testing.cluster.member import SimMember
from logstore.testing.cluster.registry import SimSession
from logstore.testing.cluster.scene import Scene
from logstore.testing.cluster.world import SimClock
from logstore.testing.simdisk import SimDisk

_ROUND_MS = 100

#: A commit: of which member, in the place of which state, the new one, and the changes.
_Wish = tuple[SimMember, PartitionState, PartitionState, Sequence[Change]]


class SimNode:
    """One node of a simulated cluster, with a replica of each partition."""

    def __init__(
        self, scene: Scene, ledgers: Sequence[Ledger], node: NodeId, judge: ControllerJudge | None = None
    ) -> None:
        self.scene = scene
        self.world = scene.world
        self.node = node
        self.disk = SimDisk(seed=node)
        self.clock = SimClock(scene.world)
        self.is_up = False
        self.is_paused = False
        self.start_count = 0
        self.session: SimSession | None = None
        #: What it has of each partition, in their order.
        self.members = tuple(SimMember(scene, ledger, self, ledger.partition) for ledger in ledgers)
        self._judge = judge
        self._gate: CommandGate | None = None  # what this process knows of controllers
        self._missed: list[Callable[[], None]] = []  # events that came while the process stood still
        self._is_asking_registry = False
        self._must_look = False

    # -- of the first partition

    @property
    def log(self) -> Log | None:
        """The log of partition 0, while the process has it open."""
        return self.members[0].log

    @property
    def placement(self) -> Placement | None:
        return self.members[0].placement

    @property
    def replica(self) -> Replica | None:
        """The replica of partition 0, once it takes part."""
        return self.members[0].replica

    @property
    def failures(self) -> list[LogstoreError]:
        """The errors of answers for partition 0 that were refused."""
        return self.members[0].failures

    # -- the process

    def start(self) -> None:
        self.world.note("start", self.node)
        self.is_up, self.is_paused = True, False
        self.start_count += 1
        root = Directory(self.scene.root, self.disk)
        if not root.exists():
            root.create_durably()
        self._registration = NodeRegistration(root, self.node, "simulated")
        self._is_asking_registry = self._must_look = False
        self._missed, self._gate = [], None
        self._connect()
        self._tick()
        for member in self.members:
            member.fetch_soon(0)

    def kill(self) -> None:
        """End the process as SIGKILL does; what it has written stays."""
        self._stop(self.disk.kill())

    def cut_power(self, policy: str) -> None:
        """End the process and the machine's run: what was not synced may be lost."""
        self._stop(self.disk.crash(policy))
        if not self.scene.tolerance.is_synced:
            self._note_loss()

    def wipe(self) -> None:
        """Kill the process, and put an empty disk into its machine."""
        self._stop(SimDisk(seed=self.node))
        self._note_loss()

    def _note_loss(self) -> None:
        for member in self.members:
            member.ledger.note_loss(self.node)
            member.ledger.steps.note_doubt(self.node)

    def _stop(self, disk: SimDisk) -> None:
        self.world.note("stop", self.node)
        self.disk.heal()  # the old one: a process that is killed closes nothing, and cannot fail at it
        self.disk = disk
        self.is_up = self.is_paused = False
        # Its session lasts until it expires. The files of the old disk are of no interest.
        self.session = None
        for log in [member.leave() for member in self.members]:
            if log is not None:
                log.close()

    def pause(self) -> None:
        """Let the process stand still, as SIGSTOP or a long pause of its machine does."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        missed, self._missed = self._missed, []
        for event in missed:
            self.world.after(0, event)

    def only_mine(self, event: Callable[[], None]) -> Callable[[], None]:
        """Return an event of this process: it is late after a pause, and is lost with the process."""
        count = self.start_count

        def run() -> None:
            if not self.is_up or self.start_count != count:
                return
            if self.is_paused:
                self._missed.append(run)
                return
            event()

        return run

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Run an event of this process that many milliseconds from now."""
        self.world.after(delay_ms, self.only_mine(event))

    # -- the controller

    def receive_command(self, command: Command, answer: Callable[[object], None]) -> None:
        """Take the states that a controller sends, unless a newer one is known, or they are for another life."""

        def handle() -> None:
            life = self._registration.life
            if life < 0:
                return
            gate = self._gate
            if gate is None or gate.life != life:
                gate = self._gate = self.scene.make_gate(life)
            if gate.admits(command):
                if self._judge is not None:
                    self._judge.note_obeyed(command, life)
                for held in command.states:
                    self.members[held.place.partition].obey(held.state)
            answer(command.controller_epoch)

        self.only_mine(handle)()

    # -- the registry

    def _connect(self) -> None:
        session = self.session = SimSession(self.world, self.scene.connect(), self.scene.session_ms)
        registration = self._registration
        self._ask_registry(lambda: registration.register(session.registry), self._registered)

    def _registered(self, is_done: bool | None, error: Exception | None) -> None:
        session = self.session
        assert session is not None
        if error is not None or not is_done:
            # The registry did not answer, or the session of the process before this one has not ended yet.
            session.end()
            return
        if not session.is_alive:
            return  # it has expired meanwhile; the next tick connects again
        for place in self.scene.places:
            session.registry.watch(facts.state_path(place), self._notify)
        session.registry.watch(facts.IDS, self._notify)
        self._look()

    def _notify(self) -> None:
        self.after(self.world.between(0, 5), self._look)

    def _ask_registry(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self._is_asking_registry = True
        count = self.start_count

        def answered(result: Any, error: Exception | None) -> None:
            def take() -> None:
                self._is_asking_registry = False
                done(result, error)
                if self._must_look:
                    self._must_look = False
                    self._look()

            if self.start_count == count:
                self.only_mine(take)()

        self.scene.link.call(work, answered)

    def _tick(self) -> None:
        session = self.session
        if session is not None and session.is_alive:
            if not self.scene.link.is_down:
                session.renew()
            self._look()
        elif not self._is_asking_registry:
            self._connect()
        self.after(_ROUND_MS, self._tick)

    def _look(self) -> None:
        """Read the registry, and let the placements decide."""
        session = self.session
        if session is None or not session.is_alive or self._registration.life < 0:
            return
        if self._is_asking_registry:
            self._must_look = True
            return
        for member in self.members:
            if member.placement is None:
                member.open(self._registration)
        registry = session.registry

        def read() -> tuple[list[PartitionState], dict[NodeId, int]]:
            states = [self.scene.state(member.partition, registry) for member in self.members]
            lives = {}
            for name in registry.children(facts.IDS):
                node = facts.node_of(name)
                assert node is not None
                life = registry.read(facts.life_path(node))
                assert life is not None
                lives[node] = life.version
            return states, lives

        self._ask_registry(read, self._read)

    def _read(self, found: tuple[list[PartitionState], dict[NodeId, int]] | None, error: Exception | None) -> None:
        if error is not None or found is None or self.session is None:
            return
        states, lives = found
        if lives.get(self.node) != self._registration.life:
            lives.pop(self.node, None)
        wishes: deque[_Wish] = deque()
        for member, state in zip(self.members, states, strict=True):
            wanted = member.take(state, lives, self._registration)
            if wanted is not None:
                changes = facts.changes_to(member.place, state, wanted, lives)
                if self.scene.is_controlled:
                    changes.append(facts.isr_change([member.place]))
                wishes.append((member, state, wanted, changes))
        if all(member.placement is not None and member.placement.has_entered for member in self.members):
            self._registration.confirm()
        self._commit(wishes)

    def _commit(self, wishes: deque[_Wish]) -> None:
        """Commit one state after the other, then read again; an answer that is lost ends it."""
        session = self.session
        if not wishes or session is None:
            return
        member, state, wanted, changes = wishes.popleft()

        def commit() -> None:
            session.registry.commit(changes)
            member.ledger.note_state(state, wanted, self.node)

        def committed(_: object, error: Exception | None) -> None:
            if error is not None and not isinstance(error, StaleFactError):
                return
            if wishes:
                self._commit(wishes)
            else:
                self._look()

        self._ask_registry(commit, committed)
