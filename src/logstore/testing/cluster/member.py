"""One partition on one simulated node: its log, its replica, and the questions of the replica to its leader.

The process stands above it: it hands over what the registry has, and runs the events while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from logstore.batch._encode import encode
from logstore.errors import LogstoreError, NotLeaderError, StorageError
from logstore.log import FixedPolicy, Log, Moves
from logstore.log.formats.last_stop import Stop
from logstore.replication.api import (
    Acks,
    FetchAnswer,
    FetchFrom,
    FetchRefusal,
    NodeId,
    PartitionState,
    Pending,
    Replica,
    Role,
)
from logstore.replication.node.registration import NodeRegistration
from logstore.replication.placement import Arrival, Placement
from logstore.testing.cluster.ledger import Ledger, is_tombstone, key_of
from logstore.testing.cluster.scene import Scene
from logstore.testing.cluster.world import SimClock
from logstore.testing.simdisk import SimDisk

_FETCH_MS = 20
_BUSY_FETCH_MS = 5
_FETCH_TIMEOUT_MS = 300

#: How long after an attempt a log that has failed is opened again.
_OPEN_AGAIN_MS = 1_000


class SimProcess(Protocol):
    """The process of a node, as its members see it."""

    node: NodeId
    disk: SimDisk
    clock: SimClock
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
        #: Errors of answers that were refused, and of this node's own disk.
        self.failures: list[LogstoreError] = []
        self.opened_again = 0  #: how often the log was opened again after it had failed
        self._open_again_at_ms = 0
        self._has_accepted = False  # the unclean stop, if the log had one
        self._asked = 0  # the number of the newest question to the leader
        self._asked_at_ms = 0
        self._is_answered = True  # that question
        self._is_watched = False  # whether an event will look whether that question is answered
        self._rests = False  # whether there is no question before the registry has another state

    @property
    def replica(self) -> Replica | None:
        """The replica, once it takes part."""
        placement = self.placement
        if not self.process.is_up or self.log is None or placement is None or not placement.has_entered:
            return None
        return placement.replica

    @property
    def disk(self) -> SimDisk:
        return self.process.disk

    def open(self, registration: NodeRegistration) -> None:
        """Open the log, and make the replica and its placement for the life that is registered.

        Without effect while the disk refuses: it is called again.
        """
        self._open(registration.life, lambda stop: Arrival(registration.has_same_disk, stop))

    def _open_again(self, placement: Placement, life: int) -> None:
        """Open a log that has failed again, as after an unclean stop: it leaves both sets, and is refilled."""
        replica, old = placement.replica, self.log
        self.log = None
        self._close(old)
        self._open(life, placement.arrival_again)
        if self.placement is not placement:
            replica.stop_waiting(NotLeaderError(f"{self.place}: the disk of the leader has failed"))
            self.opened_again += 1
            if not self.scene.tolerance.is_synced:
                self.ledger.steps.note_doubt(self.node)

    def _open(self, life: int, arrival: Callable[[Stop], Arrival]) -> None:
        """Open the log and make its placement, unless the disk refuses or did so a moment ago."""
        if self.world.now_ms < self._open_again_at_ms:
            return
        self._open_again_at_ms = self.world.now_ms + _OPEN_AGAIN_MS
        log: Log | None = None
        try:
            log = Log.open(
                self.directory,
                self.scene.config,
                files=self.process.disk,
                clock=self.process.clock,
                policy=FixedPolicy(Moves.FROM_OUTSIDE),
            )
            replica = self.scene.make_replica(log, self.node, life)
        except StorageError as error:
            self.failures.append(error)
            self._close(log)
            return
        arrived = arrival(log.replica.last_stop.stop)
        self.log, self._has_accepted = log, False
        self.placement = self.scene.make_placement(replica, self.node, arrived)

    def _close(self, log: Log | None) -> None:
        try:
            if log is not None:
                log.close()
        except StorageError as error:
            self.failures.append(error)

    def leave(self) -> Log | None:
        """Forget the log of a process that has ended; return it, to be closed."""
        old, self.log, self.placement = self.log, None, None
        self._open_again_at_ms = 0
        self._is_watched = self._rests = False
        return old

    # -- the registry

    def take(
        self, state: PartitionState, lives: Mapping[NodeId, int], registration: NodeRegistration
    ) -> PartitionState | None:
        """Let the placement take the registry's state, and return the one to commit in its place.

        A replica whose log has failed gives its place up first. Then its log is opened again.
        """
        placement, log = self.placement, self.log
        if placement is None:
            return None
        if log is None or log.replica.failure is not None:
            given_up = placement.resigned(state, lives)
            if given_up != state:
                return given_up
            self._open_again(placement, registration.life)
            return None
        wanted = None
        try:
            wanted = placement.take(state, lives, self.world.now_ms)
            self._accept_stop(state)
        except StorageError as error:
            self.failures.append(error)
        self._go_on()
        return wanted

    def obey(self, state: PartitionState) -> None:
        """Take a state that a controller has sent, once the replica takes part."""
        replica, log = self.replica, self.log
        if replica is None or log is None or log.replica.failure is not None:
            return
        try:
            replica.apply(state, self.world.now_ms)
        except StorageError as error:
            self.failures.append(error)
        self._go_on()

    def _go_on(self) -> None:
        """Have the ledger look at the new state, and ask for records in it."""
        self.ledger.look(self)
        if self._rests:
            self._rests = False
            self.fetch_soon(0)

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
        if replica is None or self.log is None or self.log.replica.failure is not None:
            self._rests = True
            return
        try:
            question = replica.ask(self.world.now_ms)
        except StorageError as error:
            # A replica of a quorum syncs before it asks.
            self.failures.append(error)
            self.fetch_soon(_FETCH_MS)
            return
        if question is None:
            self._rests = True
            return
        leader, wants = question
        self._asked += 1
        self._asked_at_ms = self.world.now_ms
        self._is_answered = False
        number = self._asked

        def answered(fetched: FetchAnswer) -> None:
            self.process.only_mine(lambda: self._fetched(number, wants, fetched))()

        serving = self.scene.members[self.partition][leader]
        self.scene.network.call(self.node, leader, wants, serving.receive_fetch, answered)
        if not self._is_watched:
            self._is_watched = True
            self.process.after(_FETCH_TIMEOUT_MS, self._watch)

    def _watch(self) -> None:
        """Ask again if the newest question was not answered in time; look again later."""
        waits_ms = self.world.now_ms - self._asked_at_ms
        if not self._is_answered and waits_ms >= _FETCH_TIMEOUT_MS:
            self._is_watched = False
            self._fetch()
        elif self._rests:
            self._is_watched = False
        else:
            self.process.after(max(_FETCH_MS, _FETCH_TIMEOUT_MS - waits_ms), self._watch)

    def _fetched(self, number: int, wants: FetchFrom, fetched: FetchAnswer) -> None:
        replica, log = self.replica, self.log
        if replica is None or log is None:
            return
        moved, end = False, log.log_end_offset
        try:
            # A late answer to an older question is handed over, too: the replica must see that it is late.
            moved = replica.take(wants, fetched, self.world.now_ms)
        except LogstoreError as error:
            # The log may have been cut as the leader says, and its disk has failed at the next step.
            self.failures.append(error)
            moved = log.log_end_offset < end
        self.ledger.look(self, fetched if moved else None)
        if number == self._asked and not self._is_answered:
            self._is_answered = True
            self.fetch_soon(_BUSY_FETCH_MS if moved else _FETCH_MS)

    # -- compaction

    def compact(self) -> None:
        """Compact what is below the high watermark, as the maintenance of a store does."""
        log = self.log
        if not self.process.is_up or log is None or log.replica.failure is not None:
            return
        before = log.replica.dropped_end
        try:
            log.maintenance.roll()
            log.maintenance.compact()
        except StorageError as error:
            self.failures.append(error)
        self.ledger.compactions += 1
        self.ledger.tombstone_drops += log.replica.dropped_end > before
        self.ledger.look(self)

    # -- retention

    def delete(self, *, by_retention: bool) -> None:
        """Delete the oldest records, as the maintenance of a store does, or as a client asks a leader to."""
        log, replica = self.log, self.replica
        if replica is None or log is None or log.replica.failure is not None:
            return
        start, mark = log.log_start_offset, log.high_watermark
        to = mark if by_retention else self.world.between(start, mark)
        try:
            if by_retention:
                log.maintenance.retain()
            elif replica.role is Role.LEADER:
                log.delete_before(to)
            to = log.log_start_offset
        except StorageError as error:
            # The disk may have the new start, and the log not know it.
            self.failures.append(error)
        if to > start:
            self.ledger.deletions += 1
            self.ledger.contents.note_deleted(self.node, to, mark)
        self.ledger.look(self)

    def _records(self, contents: list[bytes]) -> list[Any]:
        if not self.scene.compacts:
            return contents
        return [(key_of(each), None if is_tombstone(each) else each) for each in contents]

    # -- what comes from the network

    def receive_fetch(self, wants: FetchFrom, answer: Callable[[FetchAnswer], None]) -> None:
        def handle() -> None:
            replica = self.replica
            if replica is None:
                return
            try:
                found = replica.answer(wants, self.world.now_ms)
                if found.records is not None:
                    region: Any = found.records
                    found = found._replace(records=region.read())
                    region.close()
            except StorageError as error:
                self.failures.append(error)
                found = FetchAnswer(wants.leader_epoch, refusal=FetchRefusal.STORAGE_FAILED)
            self.ledger.steps.note_question(wants, found)
            self.ledger.look(self)
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
                    state = replica.state
                    ledger.note_acknowledged(pending, values, acks, -1 if state is None else state.leader_epoch)
                    answer((pending.result.first_offset, pending.epoch))
                else:
                    answer(pending.error)

            batch = encode(self._records(values), timestamp_ms=self.scene.client_clock.now_ms())
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
