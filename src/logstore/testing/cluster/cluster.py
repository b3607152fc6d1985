"""A simulated cluster, `SimCluster`: nodes, a network, a registry and clients in one process, from one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from random import Random
from typing import Any

from logstore.errors import StorageError
from logstore.log import Log
from logstore.replication import facts
from logstore.replication.api import (
    NO_NODE,
    Acks,
    Change,
    Create,
    Delete,
    Fact,
    NodeId,
    PartitionState,
    Registry,
    Replica,
    Write,
)
from logstore.replication.controller import Command, CommandGate
from logstore.replication.election import created
from logstore.replication.insync import InSyncReplica
from logstore.replication.local.local_registry import LocalRegistry
from logstore.replication.placement import Arrival, InSyncPlacement, Placement
from logstore.testing.cluster.controllers import ControllerJudge, SimController
from logstore.testing.cluster.ledger import Ledger, values_below
from logstore.testing.cluster.member import SimMember
from logstore.testing.cluster.node import SimNode
from logstore.testing.cluster.scene import FaultCounts, MakeGate, MakePlacement, MakeReplica, Scene, Tolerance

_CLIENT = -1  # the address of producers and consumers

#: The addresses of controllers begin here.
_CONTROLLER = 1_000

_HOUR_MS = 3_600_000


class SimCluster:
    """Partitions with a replica on each node, and clients that write and read them, in virtual time.

    The nodes are 1 to ``nodes``; each leads some of the ``partitions`` where all is well. Without ``make_replica``
    and ``make_placement`` they replicate by Kafka's rules, with ``min_insync``, ``allows_unclean`` and
    ``lag_max_ms``. Other rules need both, and ``tolerance``: what they promise. A session of the registry lasts
    ``session_ms`` after its node was heard of for the last time. ``connect`` opens a session with an empty
    registry, by default a `LocalRegistry`; an embedder's notifies its watches within the calls that change a fact,
    and has no time of its own. With ``controllers`` that many processes hold the controller's office in turn, and
    elect for the nodes. With ``compacts`` the topic is compacted: a value is ``key:text``, and ``key:`` deletes the
    key. With ``deletes`` old records are deleted, by retention or by a client.

    After each step of a node the invariants are judged: `InvariantError` is raised by `run`.

    >>> cluster = SimCluster(seed=7)
    >>> cluster.run(1_000)
    >>> cluster.append([b"a"], Acks.ALL)
    >>> cluster.run(100)
    >>> cluster.ledger.acknowledged[0].value
    b'a'
    """

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        partitions: int = 1,
        min_insync: int = 2,
        allows_unclean: bool = False,
        lag_max_ms: int = 1_500,
        session_ms: int = 800,
        make_replica: MakeReplica | None = None,
        make_placement: MakePlacement | None = None,
        tolerance: Tolerance | None = None,
        compacts: bool = False,
        deletes: bool = False,
        connect: Callable[[], Registry] | None = None,
        controllers: int = 0,
        make_gate: MakeGate = CommandGate,
    ) -> None:
        def in_sync(log: Log, node: NodeId, life: int) -> Replica:
            return InSyncReplica(log, node, life, min_insync=min_insync, lag_max_ms=lag_max_ms)

        def placed(replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
            return InSyncPlacement(
                replica,
                node,
                arrival,
                min_insync=min_insync,
                allows_unclean=allows_unclean,
                elects=controllers == 0,
            )

        if controllers and make_placement is not None:
            raise ValueError(
                "make_placement= has no use with controllers, which elect by the rules of in-sync replicas: "
                "leave it out"
            )
        connect = LocalRegistry().connect if connect is None else connect
        common = connect()  # what stands there before the first node comes
        self._scene = scene = Scene(
            seed,
            nodes=nodes,
            partitions=partitions,
            session_ms=session_ms,
            make_replica=in_sync if make_replica is None else make_replica,
            make_placement=placed if make_placement is None else make_placement,
            connect=connect,
            tolerance=Tolerance(min_insync - 1, min_insync=min_insync) if tolerance is None else tolerance,
            allows_unclean=allows_unclean,
            compacts=compacts,
            deletes=deletes,
            is_controlled=controllers > 0,
            make_gate=make_gate,
        )
        self.compacts, self.deletes = compacts, deletes
        self.world, self.network, self.link = scene.world, scene.network, scene.link
        self.replicas, self.tolerance = scene.replicas, scene.tolerance
        self.partitions = range(partitions)
        #: What has happened to each partition, and what must hold because of it.
        self.ledgers = tuple(Ledger(scene, partition) for partition in self.partitions)
        self.fault_counts = FaultCounts()
        self.answers: list[Any] = []  #: what the producers have heard
        assigned = {partition: scene.assigned(partition) for partition in self.partitions}
        states = [
            Create(facts.state_path(place), facts.encode_state(created(assigned[place.partition])))
            for place in scene.places
        ]
        common.commit([Create(facts.topic_path("t"), facts.encode_assignment("A" * 22, assigned)), *states])
        self.controller_judge = ControllerJudge(scene, self.ledger.fail)  #: of the controllers
        self.nodes = {node: SimNode(scene, self.ledgers, node, self.controller_judge) for node in self.replicas}
        for node, each in self.nodes.items():
            for member in each.members:
                scene.members[member.partition][node] = member
        for each in self.nodes.values():
            each.start()
        #: The processes that are the controller, or claim to be.
        self.controllers = tuple(
            SimController(scene, number, self._bring, self._commit) for number in range(controllers)
        )
        if controllers:
            rules = {
                "min.insync.replicas": str(min_insync),
                "unclean.leader.election.enable": str(allows_unclean).lower(),
            }
            common.commit([Create(facts.config_path("t"), facts.encode_config(rules))])
        for controller in self.controllers:
            controller.start()

    @property
    def ledger(self) -> Ledger:
        """The ledger of partition 0."""
        return self.ledgers[0]

    def state(self, partition: int = 0) -> PartitionState:
        """Return what the registry has now of a partition."""
        return self._scene.state(partition)

    @property
    def lossy(self) -> set[NodeId]:
        """The nodes with a copy that has lost something, until it is in sync again."""
        return set().union(*(ledger.lossy for ledger in self.ledgers))

    # -- controllers

    def _bring(self, controller: int, command: Command, answered: Callable[[object], None]) -> None:
        node = self.nodes[command.to]
        self.network.call(_CONTROLLER + controller, command.to, command, node.receive_command, answered)

    def _commit(self, registry: Registry, epoch: int | None, changes: Sequence[Change]) -> list[Fact | None]:
        """Commit what a controller wants, and tell the judges."""
        before = {
            place.partition: self.state(place.partition)._replace(version=change.version)
            for change in changes
            if isinstance(change, Write) and (place := facts.place_of(change.path)) is not None
        }
        made = registry.commit(changes)
        self.controller_judge.note_commit(epoch)
        for partition, state in before.items():
            self.ledgers[partition].note_state(state, self.state(partition), by=NO_NODE)
        return made

    def depose(self) -> None:
        """Delete the fact of the controller's office, as an administrator does: another one takes it."""
        with closing(self._scene.connect()) as session:
            found = session.read(facts.CONTROLLER)
            if found is not None:
                session.commit([Delete(found.path, found.version)])

    # -- time

    def run(self, ms: int) -> None:
        """Let that much virtual time pass."""
        self.world.run_until(self.world.now_ms + ms)

    def heal(self) -> None:
        """End every fault, and start the nodes that are down."""
        self.network.heal()
        self.link.is_down, self.link.lost_answers = False, 0.0
        for node in self.nodes.values():
            node.disk.heal()
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()
        for controller in self.controllers:
            controller.heal()

    def settle(self) -> None:
        """Heal, and judge the end: within ten seconds every replica is in sync, and the copies are equal.

        Raises:
            InvariantError: they are not, or a record is missing that was promised.
        """
        self.heal()
        for _ in range(10):
            self.run(1_000)
            if all(len(self.state(each).isr) == len(self.replicas) for each in self.partitions):
                break
        # With a quorum, a record of the new epoch commits those of older ones.
        for each in self.partitions:
            self.append([b"last"], Acks.ALL, partition=each)
        self.run(500)
        for ledger in self.ledgers:
            ledger.judge_end()

    def close(self) -> None:
        """End the controllers, and close the logs; the virtual disks are gone with this object."""
        for controller in self.controllers:
            controller.kill()
        for node in self.nodes.values():
            for member in node.members:
                if member.log is not None:
                    member.log.close()

    # -- clients

    def append(self, values: list[bytes], acks: Acks, *, to: NodeId | None = None, partition: int = 0) -> None:
        """Send a batch to a node, by default to the leader that the registry names; the answer comes later."""
        target = self.state(partition).leader if to is None else to
        if target not in self.nodes:
            return
        member = self.nodes[target].members[partition]
        self.network.call(_CLIENT, target, (values, acks), member.receive_append, self._heard)

    def _heard(self, answer: Any) -> None:
        self.answers.append(answer)
        self.world.note("heard", answer if isinstance(answer, tuple) else type(answer).__name__)

    def produce(self, *, each_ms: int, acks: list[Acks], until_ms: int) -> None:
        """Send batches of one to three records every few milliseconds, now and then to a follower."""
        world = self.world
        number = 0

        def send() -> None:
            nonlocal number
            if world.now_ms >= until_ms:
                return
            values = [self._value(b"%d.%d" % (number, index)) for index in range(world.between(1, 3))]
            number += 1
            stray = world.random.choice(self.replicas) if world.chance(0.05) else None
            self.append(values, world.random.choice(acks), to=stray, partition=self._any_partition())
            world.after(world.between(1, 2 * each_ms), send)

        send()

    def _value(self, text: bytes) -> bytes:
        if not self.compacts:
            return text
        chance = self.world.random
        return b"k%d:" % chance.randint(0, 30) + (b"" if chance.random() < 0.3 else text)

    def compact(self, *, each_ms: int, until_ms: int) -> None:
        """Compact one of the logs every few milliseconds."""
        self._visit(SimMember.compact, each_ms, until_ms)

    def delete(self, *, each_ms: int, until_ms: int) -> None:
        """Delete the oldest records of one of the logs every few milliseconds.

        Retention does it on any node, and a client on one that leads, or believes to.
        """
        self._visit(lambda member: member.delete(by_retention=self.world.chance(0.5)), each_ms, until_ms)

    def _visit(self, act: Callable[[SimMember], object], each_ms: int, until_ms: int) -> None:
        """Do something to a replica on a node that runs, every few milliseconds."""
        world = self.world

        def run() -> None:
            if world.now_ms >= until_ms:
                return
            node = self.nodes[world.random.choice(self.replicas)]
            if not node.is_paused:
                act(node.members[self._any_partition()])
            world.after(world.between(1, 2 * each_ms), run)

        run()

    def jump_clocks(self, *, each_ms: int, until_ms: int) -> None:
        """Set the wall clock of a node wrong every few milliseconds: an hour ahead, back, or anything in between.

        Chosen by the seed, and apart from all else: without jumps the same seed gives the same events.
        """
        world, chance = self.world, Random(f"clocks {self._scene.seed}")

        def jump() -> None:
            if world.now_ms >= until_ms:
                return
            node = self.nodes[chance.choice(self.replicas)]
            node.clock.offset_ms = chance.choice([_HOUR_MS, -_HOUR_MS, chance.randint(-_HOUR_MS, _HOUR_MS)])
            self.fault_counts.clock_jumps += 1
            world.after(chance.randint(1, 2 * each_ms), jump)

        jump()

    def consume(self, *, each_ms: int, until_ms: int) -> None:
        """Read from a node every few milliseconds, whatever it believes to be, what is below its high watermark."""
        world = self.world
        positions: dict[tuple[NodeId, int], int] = {}

        def read() -> None:
            if world.now_ms >= until_ms:
                return
            node = self.nodes[world.random.choice(self.replicas)]
            member = node.members[self._any_partition()]
            log = member.log
            if member.replica is not None and log is not None and not node.is_paused:
                at = (member.node, member.partition)
                start = max(log.log_start_offset, min(positions.get(at, 0), log.high_watermark))
                try:
                    found = values_below(log, start, log.high_watermark)
                    member.ledger.note_answer(member.node, start, log.high_watermark, [each for each, _ in found])
                except StorageError as error:
                    member.failures.append(error)
                    found = []
                for offset, value in found:
                    member.ledger.note_read(offset, value)
                    positions[at] = offset + 1
            world.after(world.between(1, 2 * each_ms), read)

        read()

    def _any_partition(self) -> int:
        return self.world.random.randrange(len(self.partitions)) if len(self.partitions) > 1 else 0
