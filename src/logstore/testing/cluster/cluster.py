"""A simulated cluster, `SimCluster`: nodes, a network, a registry and clients in one process, from one seed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from logstore.errors import LogstoreError, StorageError
from logstore.log import Log
from logstore.replication import facts
from logstore.replication.api import Acks, Create, NodeId, PartitionState, Replica
from logstore.replication.election import created
from logstore.replication.insync import InSyncReplica
from logstore.replication.local.local_registry import LocalRegistry
from logstore.replication.placement import Arrival, InSyncPlacement, Placement
from logstore.testing.cluster.ledger import Ledger, values_below
from logstore.testing.cluster.member import SimMember
from logstore.testing.cluster.network import Weather
from logstore.testing.cluster.node import SimNode
from logstore.testing.cluster.scene import MakePlacement, MakeReplica, Scene, Tolerance
from logstore.testing.simdisk import SimDisk

_CLIENT = -1  # the address of producers and consumers


class SimCluster:
    """Partitions with a replica on each node, and clients that write and read them, in virtual time.

    The nodes are 1 to ``nodes``; each leads some of the ``partitions`` where all is well. Without ``make_replica``
    and ``make_placement`` they replicate by Kafka's rules, with ``min_insync``, ``allows_unclean`` and
    ``lag_max_ms``. Other rules need both, and ``tolerance``: what they promise. A session of the registry lasts
    ``session_ms`` after its node was heard of for the last time. ``registry`` is an empty one; it may be an
    embedder's own kind of `LocalRegistry`. With ``compacts`` the topic is compacted: a value is ``key:text``, and
    ``key:`` deletes the key.

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
        registry: LocalRegistry | None = None,
    ) -> None:
        def in_sync(log: Log, node: NodeId, life: int) -> Replica:
            return InSyncReplica(log, node, life, min_insync=min_insync, lag_max_ms=lag_max_ms)

        def placed(replica: Replica, node: NodeId, arrival: Arrival) -> Placement:
            return InSyncPlacement(replica, node, arrival, min_insync=min_insync, allows_unclean=allows_unclean)

        common = LocalRegistry() if registry is None else registry
        self._scene = scene = Scene(
            seed,
            nodes=nodes,
            partitions=partitions,
            session_ms=session_ms,
            make_replica=in_sync if make_replica is None else make_replica,
            make_placement=placed if make_placement is None else make_placement,
            registry=common,
            tolerance=Tolerance(min_insync - 1, min_insync=min_insync) if tolerance is None else tolerance,
            allows_unclean=allows_unclean,
            compacts=compacts,
        )
        self.compacts = compacts
        self.world, self.network, self.link = scene.world, scene.network, scene.link
        self.replicas, self.tolerance = scene.replicas, scene.tolerance
        self.partitions = range(partitions)
        #: What has happened to each partition, and what must hold because of it.
        self.ledgers = tuple(Ledger(scene, partition) for partition in self.partitions)
        self.faults: Faults | None = None
        self.answers: list[Any] = []  #: what the producers have heard
        assigned = {partition: scene.assigned(partition) for partition in self.partitions}
        states = [
            Create(facts.state_path(place), facts.encode_state(created(assigned[place.partition])))
            for place in scene.places
        ]
        common.commit([Create(facts.topic_path("t"), facts.encode_assignment("A" * 22, assigned)), *states])
        self.nodes = {node: SimNode(scene, self.ledgers, node) for node in self.replicas}
        for node, each in self.nodes.items():
            for member in each.members:
                scene.members[member.partition][node] = member
        for each in self.nodes.values():
            each.start()

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
        """Close the logs; the virtual disks are gone with this object."""
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
        world = self.world

        def run() -> None:
            if world.now_ms >= until_ms:
                return
            node = self.nodes[world.random.choice(self.replicas)]
            if not node.is_paused:
                node.members[self._any_partition()].compact()
            world.after(world.between(1, 2 * each_ms), run)

        run()

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


class Faults:
    """A fault in each second of virtual time, chosen by the seed, within what the acknowledgements promise.

    No more copies are lost at a time than the `Tolerance` of the cluster has. Each method makes a fault and ends it
    later; it returns whether it could.
    """

    def __init__(self, cluster: SimCluster, until_ms: int) -> None:
        self._cluster = cluster
        self._until_ms = until_ms
        self.counts: dict[str, int] = {}
        self.logs_failed = 0  #: how many planned failures of file operations have taken place
        self._kinds: list[tuple[int, Callable[[], bool]]] = [
            (4, self.kill),
            (2, self.pause),
            (2, self.isolate),
            (2, self.cut_one_way),
            (3, self.bad_weather),
            (1, self.registry_outage),
            (2, self.lost_answers),
            (3, self.power_cut),
            (1, self.wipe),
            (2, self.full_disk),
            (3, self.failing_log),
            (2, self.failing_reads),
            (2, self.failing_opens),
        ]
        self._failing: list[_FailingLog] = []
        cluster.world.watchers.append(self._note_losses)
        cluster.world.after(self._delay(), self._next)

    def _delay(self) -> int:
        return self._cluster.world.between(300, 1_700)

    def _next(self) -> None:
        cluster = self._cluster
        if cluster.world.now_ms >= self._until_ms:
            return
        weights = [weight for weight, _ in self._kinds]
        [(_, fault)] = cluster.world.random.choices(self._kinds, weights)
        if fault():
            name = fault.__name__
            self.counts[name] = self.counts.get(name, 0) + 1
            cluster.world.note("fault", name)
        cluster.world.after(self._delay(), self._next)

    def _any(self) -> SimNode | None:
        up = [node for node in self._cluster.nodes.values() if node.is_up and not node.is_paused]
        return self._cluster.world.random.choice(up) if up else None

    def _later(self, least: int, most: int, event: Callable[[], None]) -> None:
        self._cluster.world.after(self._cluster.world.between(least, most), event)

    def _restart(self, node: SimNode) -> None:
        self._later(10, 2_500, lambda: None if node.is_up else node.start())

    def kill(self) -> bool:
        node = self._any()
        if node is None:
            return False
        node.kill()
        self._restart(node)
        return True

    def pause(self) -> bool:
        node = self._any()
        if node is None:
            return False
        node.pause()
        self._later(50, 3_000, lambda: node.resume() if node.is_paused else None)
        return True

    def isolate(self) -> bool:
        cluster = self._cluster
        node = cluster.world.random.choice(cluster.replicas)
        cluster.network.isolate(node, list(cluster.replicas))
        self._later(100, 2_500, cluster.network.heal)
        return True

    def cut_one_way(self) -> bool:
        cluster = self._cluster
        source, target = cluster.world.random.sample(cluster.replicas, 2)
        cluster.network.cut(source, target)
        self._later(100, 2_500, cluster.network.heal)
        return True

    def bad_weather(self) -> bool:
        self._cluster.network.weather = Weather((1, 30), slow=0.1, loss=0.1, repeat=0.1)
        self._later(500, 2_000, self._cluster.network.heal)
        return True

    def registry_outage(self) -> bool:
        link = self._cluster.link
        link.is_down = True

        def end() -> None:
            link.is_down = False

        self._later(100, 1_500, end)
        return True

    def lost_answers(self) -> bool:
        link = self._cluster.link
        link.lost_answers, link.delay_ms = 0.3, (1, 100)

        def end() -> None:
            link.lost_answers, link.delay_ms = 0.0, (1, 3)

        self._later(300, 1_500, end)
        return True

    def _may_lose(self) -> SimNode | None:
        cluster = self._cluster
        node = self._any()
        failing = {each.member.node for each in self._failing}
        if node is None or len(cluster.lossy | failing | {node.node}) > cluster.tolerance.lost_copies:
            return None
        return node

    def power_cut(self) -> bool:
        node = self._any() if self._cluster.tolerance.is_synced else self._may_lose()
        if node is None:
            return False
        node.cut_power(self._cluster.world.random.choice(["none", "prefix", "torn", "lost", "reordered"]))
        self._restart(node)
        return True

    def wipe(self) -> bool:
        node = self._may_lose()
        if node is None:
            return False
        node.wipe()
        self._restart(node)
        return True

    def full_disk(self) -> bool:
        """Let no log of a node grow for a while."""
        node = self._any()
        if node is None:
            return False
        disk = node.disk
        disk.fail("pwrite", 1, errno.ENOSPC, times=-1, path_contains="/t-")
        self._later(100, 1_500, disk.heal)
        return True

    def failing_log(self) -> bool:
        """Let one file operation of one log fail soon, or each for a while, and lose what a failed sync loses.

        The rules take a log that has failed for a copy that is lost, unless it holds only what was synced.
        """
        chance = self._cluster.world.random
        node = self._may_fail()
        if node is None:
            return False
        disk, member = node.disk, chance.choice(node.members)
        operation = chance.choice(["fdatasync", "fdatasync", "pwrite", "change", "fsync_dir"])
        error = chance.choice([errno.EIO, errno.EIO, errno.ENOSPC])
        times = chance.choice([1, 1, -1])
        torn = chance.randint(0, 60) if operation == "pwrite" and chance.random() < 0.5 else -1
        disk.rereads = chance.random() < 0.5
        disk.fail(
            operation,
            chance.randint(1, 3),
            error,
            times=times,
            torn=torn,
            path_contains=f"/{member.place}/",
        )
        failing = self._await(_FailingLog(member, disk))
        if chance.random() < 0.7:
            self._later(0, 100, lambda: self._sync(failing))
        return True

    def failing_reads(self) -> bool:
        """Let one read of one log fail soon, or each for a while. Nothing is lost by that alone."""
        node = self._may_fail()
        if node is None:
            return False
        chance = self._cluster.world.random
        self._fail_calls("preadv", errno.EIO, node, chance.choice(node.members))
        return True

    def failing_opens(self) -> bool:
        """Let a file of one log not be opened soon, or none for a while; perhaps while its process starts again."""
        node = self._may_fail()
        if node is None:
            return False
        chance = self._cluster.world.random
        if chance.random() < 0.5:
            node.kill()
            self._later(10, 300, lambda: None if node.is_up else node.start())
        error = chance.choice([errno.EIO, errno.EMFILE, errno.ENFILE])
        self._fail_calls("open", error, node, chance.choice(node.members))
        return True

    def _may_fail(self) -> SimNode | None:
        """Return a node one of whose logs may fail."""
        return self._any() if self._cluster.tolerance.is_synced else self._may_lose()

    def _fail_calls(self, operation: str, error: int, node: SimNode, member: SimMember) -> None:
        chance = self._cluster.world.random
        node.disk.fail(
            operation,
            chance.randint(1, 3),
            error,
            times=chance.choice([1, 3, -1]),
            path_contains=f"/{member.place}/",
        )
        self._await(_FailingLog(member, node.disk, loses=False))

    def _await(self, failing: _FailingLog) -> _FailingLog:
        """Note what planned failures do to a log; end them some time later."""
        self._failing.append(failing)

        def end() -> None:
            failing.disk.heal()
            self._failing.remove(failing)

        self._later(100, 1_500, end)
        return failing

    def _sync(self, failing: _FailingLog) -> None:
        """Sync a log, as a replica of a quorum does all the time, and one of the ISR when a segment is full."""
        member, log = failing.member, failing.member.log
        if member.replica is None or log is None or member.process.disk is not failing.disk:
            return
        try:
            log.flush()
        except StorageError as error:
            member.failures.append(error)

    def _note_losses(self) -> None:
        """Tell the ledgers which of the planned failures have taken place."""
        for each in self._failing:
            fired = sum(count for _, _, count in each.disk.fired())
            is_new = fired > each.fired
            if is_new:
                each.fired = fired
                self.logs_failed += 1
            if not self._cluster.tolerance.is_synced and (is_new if each.loses else each.has_failed_now()):
                each.member.ledger.note_loss(each.member.node)


class _FailingLog:
    """A log with a file operation that is to fail. Without ``loses`` nothing is lost unless the log fails by it."""

    def __init__(self, member: SimMember, disk: SimDisk, *, loses: bool = True) -> None:
        self.member, self.disk = member, disk
        self.loses = loses
        self.fired = 0
        self._has_failed = False

    def has_failed_now(self) -> bool:
        """Whether the log has failed since this was asked for the last time."""
        log, before = self.member.log, self._has_failed
        self._has_failed = log is not None and log.replica.failure is not None
        return self._has_failed and not before


def live(seed: int, *, seconds: int = 10, **settings: Any) -> SimCluster:
    """Run one life: a cluster under load with a fault in each second, a heal, and the judgement.

    ``seconds`` are of virtual time; ``settings`` are those of `SimCluster`. After the heal everything is in sync
    within ten virtual seconds. Returns the cluster, closed: `SimCluster.ledger` has what has happened.

    Raises:
        InvariantError: an invariant does not hold; the message has the seed.
    """
    cluster = SimCluster(seed, **settings)
    try:
        end_ms = seconds * 1_000
        cluster.produce(each_ms=10, acks=[Acks.ALL, Acks.ALL, Acks.LEADER], until_ms=end_ms)
        cluster.consume(each_ms=40, until_ms=end_ms)
        if cluster.compacts:
            cluster.compact(each_ms=100, until_ms=end_ms)
        cluster.faults = Faults(cluster, end_ms - 1_000)
        cluster.run(end_ms)
        cluster.settle()
    finally:
        try:
            cluster.close()
        except LogstoreError:
            pass
    return cluster
