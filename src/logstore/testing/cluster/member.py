"""One partition on one simulated node: its log, its replica, and the questions of the replica to its leader.

The process stands above it: it hands over what the registry has, and runs the events while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from logstore.batch._encode import encode
from logstore.errors import LogstoreError, NotLeaderError
from logstore.log import FixedPolicy, Log, Moves
from logstore.log.formats.last_stop import Stop
from logstore.replication.api import Acks, FetchAnswer, FetchFrom, NodeId, PartitionState, Pending, Replica
from logstore.replication.node.registration import NodeRegistration
from logstore.replication.placement import Arrival, Placement
from logstore.testing.cluster.ledger import Ledger
from logstore.testing.cluster.scene import Scene
from logstore.testing.simdisk import SimDisk

_FETCH_MS = 15
_BUSY_FETCH_MS = 5
_FETCH_TIMEOUT_MS = 300


class SimProcess(Protocol):
    """The process of a node, as its members see it."""

    node: NodeId
    disk: SimDisk
    is_up: bool

    def only_mine(self, event: Callable[[], None]) -> Callable[[], None]:
        """Return an event of this process: it is late after a pause, and is lost with the process."""

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Run an event of this process that many milliseconds from now."""


class SimMember:
    """A replica of one partition, with its log. It is made once for a node, and opened by each process."""

    def __init__(self, scene: Scene, ledger: Ledger, process: SimProcess, partition: int) -> None:
        self.scene = scene
        self.world = scene.world
        self.ledger = ledger
        self.process = process
        self.node = process.node
        self.partition = partition
        self.place = scene.places[partition]
        self.directory = f"{scene.root}/{self.place}"
        self.log: Log | None = None
        self.placement: Placement | None = None
        self.failures: list[LogstoreError] = []  #: errors of answers that were refused
        self._has_accepted = False  # the unclean stop, if the log had one
        self._asked = 0  # the number of the newest question to the leader

    @property
    def replica(self) -> Replica | None:
        """The replica, once it takes part."""
        placement = self.placement
        is_in = self.process.is_up and placement is not None and placement.has_entered
        return placement.replica if is_in and placement is not None else None

    def open(self, registration: NodeRegistration) -> None:
        """Open the log, and make the replica and its placement for the life that is registered."""
        log = self._opened()
        stop = log.replica.last_stop.stop
        self._place(log, registration.life, Arrival(registration.has_same_disk, stop))

    def _opened(self) -> Log:
        return Log.open(
            self.directory,
            self.scene.config,
            files=self.process.disk,
            clock=self.world.clock,
            policy=FixedPolicy(Moves.FROM_OUTSIDE),
        )

    def _place(self, log: Log, life: int, arrival: Arrival) -> None:
        self.log, self._has_accepted = log, False
        replica = self.scene.make_replica(log, self.node, life)
        self.placement = self.scene.make_placement(replica, self.node, arrival)

    def leave(self) -> Log | None:
        """Forget the log of a process that has ended; return it, to be closed."""
        old, self.log, self.placement = self.log, None, None
        return old

    # -- the registry

    def take(self, state: PartitionState, lives: Mapping[NodeId, int]) -> PartitionState | None:
        """Let the placement take the registry's state, and return the one to commit in its place."""
        placement = self.placement
        if placement is None:
            return None
        wanted = placement.take(state, lives, self.world.now_ms)
        self.ledger.look(self)
        self._accept_stop(state)
        return wanted

    def _accept_stop(self, state: PartitionState) -> None:
        """Once the replica is in sync again, a stop that was unclean is over."""
        log = self.log
        assert log is not None
        if self.node in state.isr and log.replica.last_stop.stop is Stop.UNCLEAN and not self._has_accepted:
            log.flush()
            log.replica.accept_stop()
            self._has_accepted = True

    # -- following

    def fetch_soon(self, delay_ms: int) -> None:
        self.process.after(delay_ms, self._fetch)

    def _fetch(self) -> None:
        replica = self.replica
        question = None if replica is None else replica.ask(self.world.now_ms)
        if question is None:
            self.fetch_soon(_FETCH_MS)
            return
        leader, wants = question
        self._asked += 1
        number = self._asked

        def answered(fetched: FetchAnswer) -> None:
            self.process.only_mine(lambda: self._fetched(number, wants, fetched))()

        def timed_out() -> None:
            if self._asked == number:
                self._fetch()

        serving = self.scene.members[self.partition][leader]
        self.scene.network.call(self.node, leader, wants, serving.receive_fetch, answered)
        self.process.after(_FETCH_TIMEOUT_MS, timed_out)

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
            self.fetch_soon(_BUSY_FETCH_MS if moved else _FETCH_MS)

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

        self.process.only_mine(handle)()

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

        self.process.only_mine(handle)()
