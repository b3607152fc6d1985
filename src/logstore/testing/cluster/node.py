"""One simulated node: a process that is killed, paused and started again, on a disk that may lose what it was told.

The objects are those of production: a `Log` on a `SimDisk`, a `Replica`, a `Placement`, the registry's facts. Only
threads are missing: each step is an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstore.batch._encode import encode
from logstore.errors import LogstoreError, NotLeaderError, StaleFactError
from logstore.log import FixedPolicy, Log, Moves
from logstore.log.directory.files import Directory
from logstore.log.formats.last_stop import Stop
from logstore.replication import facts
from logstore.replication.api import (
    Acks,
    FetchAnswer,
    FetchFrom,
    NodeId,
    PartitionState,
    Pending,
    Replica,
)
from logstore.replication.node.registration import NodeRegistration
from logstore.replication.placement import Arrival, Placement
from logstore.testing.cluster.ledger import Ledger
from logstore.testing.cluster.registry import SimSession
from logstore.testing.cluster.scene import Scene
from logstore.testing.simdisk import SimDisk

_ROOT = "/data"
_DIRECTORY = f"{_ROOT}/t-0"
_ROUND_MS = 100
_FETCH_MS = 15
_BUSY_FETCH_MS = 5
_FETCH_TIMEOUT_MS = 300


class SimNode:
    """One node of a simulated cluster, with one replica."""

    def __init__(self, scene: Scene, ledger: Ledger, node: NodeId) -> None:
        self.scene = scene
        self.ledger = ledger
        self.world = scene.world
        self.node = node
        self.disk = SimDisk(seed=node)
        self.is_up = False
        self.is_paused = False
        self.start_count = 0
        self.log: Log | None = None
        self.placement: Placement | None = None
        self.session: SimSession | None = None
        self.failures: list[LogstoreError] = []  #: errors of answers that were refused
        self._missed: list[Callable[[], None]] = []  # events that came while the process stood still
        self._is_asking_registry = False
        self._must_look = False
        self._has_accepted = False  # the unclean stop, if the log had one
        self._asked = 0  # the number of the newest question to the leader

    @property
    def replica(self) -> Replica | None:
        """The replica, once it takes part."""
        placement = self.placement
        return placement.replica if self.is_up and placement is not None and placement.has_entered else None

    # -- the process

    def start(self) -> None:
        self.world.note("start", self.node)
        self.is_up, self.is_paused = True, False
        self.start_count += 1
        root = Directory(_ROOT, self.disk)
        if not root.exists():
            root.create_durably()
        self._registration = NodeRegistration(root, self.node, "simulated")
        self._has_accepted = False
        self._is_asking_registry = self._must_look = False
        self._missed = []
        self._connect()
        self._tick()
        self._fetch_soon(0)

    def kill(self) -> None:
        """End the process as SIGKILL does; what it has written stays."""
        self._stop(self.disk.kill())

    def cut_power(self, policy: str) -> None:
        """End the process and the machine's run: what was not synced may be lost."""
        self._stop(self.disk.crash(policy))
        if not self.scene.tolerance.is_synced:
            self.ledger.note_loss(self.node)

    def wipe(self) -> None:
        """Kill the process, and put an empty disk into its machine."""
        self._stop(SimDisk(seed=self.node))
        self.ledger.note_loss(self.node)

    def _stop(self, disk: SimDisk) -> None:
        self.world.note("stop", self.node)
        old, self.disk = self.log, disk
        self.is_up = self.is_paused = False
        self.log = self.placement = None
        # Its session lasts until it expires. The files of the old disk are of no interest.
        self.session = None
        if old is not None:
            old.close()

    def pause(self) -> None:
        """Let the process stand still, as SIGSTOP or a long pause of its machine does."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        missed, self._missed = self._missed, []
        for event in missed:
            self.world.after(0, event)

    def _mine(self, event: Callable[[], None]) -> Callable[[], None]:
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

    def _after(self, delay_ms: int, event: Callable[[], None]) -> None:
        self.world.after(delay_ms, self._mine(event))

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
        session.registry.watch(facts.state_path(self.scene.place), self._notify)
        session.registry.watch(facts.IDS, self._notify)
        if self.log is None:
            self._open()
        self._look()

    def _notify(self) -> None:
        self._after(self.world.random.randint(0, 5), self._look)

    def _open(self) -> None:
        scene = self.scene
        log = Log.open(
            _DIRECTORY,
            scene.config,
            files=self.disk,
            clock=self.world.clock,
            policy=FixedPolicy(Moves.FROM_OUTSIDE),
        )
        self.log = log
        life, stop = self._registration.life, log.replica.last_stop.stop
        arrival = Arrival(self._registration.has_same_disk, stop)
        self.placement = scene.make_placement(scene.make_replica(log, self.node, life), self.node, arrival)

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
                self._mine(take)()

        self.scene.link.call(work, answered)

    def _tick(self) -> None:
        session = self.session
        if session is not None and session.is_alive:
            if not self.scene.link.is_down:
                session.renew()
            self._look()
        elif not self._is_asking_registry:
            self._connect()
        self._after(_ROUND_MS, self._tick)

    def _look(self) -> None:
        """Read the registry, and let the placement decide."""
        session = self.session
        if session is None or not session.is_alive or self.placement is None:
            return
        if self._is_asking_registry:
            self._must_look = True
            return
        registry = session.registry
        place = self.scene.place

        def read() -> tuple[PartitionState, dict[NodeId, int]]:
            state = registry.read(facts.state_path(place))
            assert state is not None
            lives = {}
            for name in registry.children(facts.IDS):
                node = facts.node_of(name)
                assert node is not None
                life = registry.read(facts.life_path(node))
                assert life is not None
                lives[node] = life.version
            return facts.decode_state(state, self.scene.replicas), lives

        self._ask_registry(read, self._read)

    def _read(self, found: tuple[PartitionState, dict[NodeId, int]] | None, error: Exception | None) -> None:
        placement, session = self.placement, self.session
        if error is not None or found is None or placement is None or session is None:
            return
        state, lives = found
        if lives.get(self.node) != self._registration.life:
            lives.pop(self.node, None)
        wanted = placement.take(state, lives, self.world.now_ms)
        if placement.has_entered:
            self._registration.confirm()
        self.ledger.look(self)
        self._accept_stop(state)
        if wanted is None:
            return
        registry = session.registry
        changes = facts.changes_to(self.scene.place, state, wanted, lives)

        def commit() -> None:
            registry.commit(changes)
            self.ledger.note_state(state, wanted, self.node)

        def committed(_: object, error: Exception | None) -> None:
            if error is None or isinstance(error, StaleFactError):
                self._look()

        self._ask_registry(commit, committed)

    def _accept_stop(self, state: PartitionState) -> None:
        """Once the replica is in sync again, a stop that was unclean is over."""
        log = self.log
        assert log is not None
        if self.node in state.isr and log.replica.last_stop.stop is Stop.UNCLEAN and not self._has_accepted:
            log.flush()
            log.replica.accept_stop()
            self._has_accepted = True

    # -- following

    def _fetch_soon(self, delay_ms: int) -> None:
        self._after(delay_ms, self._fetch)

    def _fetch(self) -> None:
        replica = self.replica
        question = None if replica is None else replica.ask(self.world.now_ms)
        if question is None:
            self._fetch_soon(_FETCH_MS)
            return
        leader, wants = question
        self._asked += 1
        number = self._asked

        def answered(fetched: FetchAnswer) -> None:
            self._mine(lambda: self._fetched(number, wants, fetched))()

        def timed_out() -> None:
            if self._asked == number:
                self._fetch()

        self.scene.network.call(self.node, leader, wants, self.scene.nodes[leader].receive_fetch, answered)
        self._after(_FETCH_TIMEOUT_MS, timed_out)

    def _fetched(self, number: int, wants: FetchFrom, fetched: FetchAnswer) -> None:
        replica = self.replica
        if replica is None:
            return
        moved = False
        try:
            # A late answer to an older question is handed over, too: the replica must see that it is late.
            moved = replica.take(wants, fetched, self.world.now_ms)
        except LogstoreError as error:
            self.failures.append(error)
        self.ledger.look(self)
        if number == self._asked:
            self._asked += 1
            self._fetch_soon(_BUSY_FETCH_MS if moved else _FETCH_MS)

    # -- what comes from the network

    def receive_fetch(self, wants: FetchFrom, answer: Callable[[FetchAnswer], None]) -> None:
        def handle() -> None:
            replica = self.replica
            if replica is None:
                return
            found = replica.answer(wants, self.world.now_ms)
            self.ledger.look(self)
            if found.records is not None:
                region: Any = found.records
                found = found._replace(records=region.read())
                region.close()
            answer(found)

        self._mine(handle)()

    def receive_append(self, request: tuple[list[bytes], Acks], answer: Callable[[Any], None]) -> None:
        """Append the values as a batch; answer with its offset and leader epoch, or with the error."""

        def handle() -> None:
            values, acks = request
            replica, ledger = self.replica, self.ledger
            if replica is None:
                answer(NotLeaderError(f"node {self.node} has no replica"))
                return
            pending: Pending | None = None

            def settled() -> None:
                if pending is None:
                    return  # it is settled before the append has returned
                if pending.error is None:
                    ledger.note_acknowledged(pending, values, acks)
                    answer((pending.result.first_offset, pending.epoch))
                else:
                    answer(pending.error)

            batch = encode(values, timestamp_ms=self.world.clock.now_ms())
            try:
                made = replica.append(batch, acks=acks, now_ms=self.world.now_ms, notify=settled)
            except LogstoreError as error:
                answer(error)
                return
            ledger.note_append(self.node, made, values)
            ledger.look(self)
            pending = made
            if made.is_settled:
                settled()

        self._mine(handle)()
