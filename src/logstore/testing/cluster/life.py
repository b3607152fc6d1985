"""One life of a simulated cluster: `live` runs it under load and under `Faults`, then heals and judges it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from logstore.errors import LogstoreError, StorageError
from logstore.replication.api import Acks
from logstore.testing.cluster.cluster import SimCluster
from logstore.testing.cluster.controllers import SimController
from logstore.testing.cluster.member import SimMember
from logstore.testing.cluster.network import Weather
from logstore.testing.cluster.node import SimNode
from logstore.testing.simdisk import SimDisk


class Faults:
    """A fault in each second of virtual time, chosen by the seed, within what the acknowledgements promise.

    No more copies are lost at a time than the `Tolerance` of the cluster has. Each method makes a fault and ends it
    later; it returns whether it could.
    """

    def __init__(self, cluster: SimCluster, until_ms: int) -> None:
        self._cluster = cluster
        self._until_ms = until_ms
        self.counts = cluster.fault_counts
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
        if cluster.controllers:
            self._kinds += [
                (3, self.kill_controller),
                (3, self.stall_controller),
                (4, self.slow_controller),
                (2, self.depose),
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
            self.counts.faults[name] = self.counts.faults.get(name, 0) + 1
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

    # -- of controllers

    def _controller(self) -> SimController | None:
        """Return the process that is the controller, or believes to be."""
        holders = [each for each in self._cluster.controllers if each.is_up and each.epoch is not None]
        return self._cluster.world.random.choice(holders) if holders else None

    def kill_controller(self) -> bool:
        """Kill the controller, and half the time a node with it, as if both were one process."""
        controller = self._controller()
        if controller is None:
            return False
        controller.kill()
        self._later(10, 2_500, lambda: None if controller.is_up else controller.start())
        if self._cluster.world.chance(0.5):
            self.kill()
        return True

    def stall_controller(self) -> bool:
        """Let the controller stand still until its session may have expired; then it goes on where it was."""
        controller = self._controller()
        if controller is None:
            return False
        world = self._cluster.world
        controller.stalled_until_ms = world.now_ms + world.between(50, 3_000)
        self.kill()
        return True

    def slow_controller(self) -> bool:
        """Let the next commit of the controller be late, and depose it meanwhile: it goes on as a zombie."""
        controller = self._controller()
        if controller is None:
            return False
        cluster = self._cluster

        def on_its_way() -> int:
            cluster.depose()
            return cluster.world.between(20, 600)

        controller.before_commit = on_its_way
        self.kill()
        return True

    def depose(self) -> bool:
        """Have an administrator take the office from the controller."""
        self._cluster.depose()
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
                self.counts.logs_failed += 1
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


def live(seed: int, *, seconds: int = 10, clocks_jump: bool = False, **settings: Any) -> SimCluster:
    """Run one life: a cluster under load with a fault in each second, a heal, and the judgement.

    ``seconds`` are of virtual time; ``settings`` are those of `SimCluster`. With ``clocks_jump`` the wall clocks of
    the nodes jump by up to an hour, twice a second; the `World.trace` is the same without. After the heal
    everything is in sync within ten virtual seconds. Returns the cluster, closed: `SimCluster.ledger` has what has
    happened.

    Raises:
        InvariantError: an invariant does not hold; the message has the seed.
    """
    cluster = SimCluster(seed, **settings)
    try:
        end_ms = seconds * 1_000
        cluster.produce(each_ms=10, acks=[Acks.ALL, Acks.ALL, Acks.LEADER], until_ms=end_ms)
        cluster.consume(each_ms=40, until_ms=end_ms)
        if clocks_jump:
            cluster.jump_clocks(each_ms=500, until_ms=end_ms)
        if cluster.deletes:
            cluster.delete(each_ms=150, until_ms=end_ms)
        if cluster.compacts:
            cluster.compact(each_ms=100, until_ms=end_ms)
        Faults(cluster, end_ms - 1_000)
        cluster.run(end_ms)
        cluster.settle()
    finally:
        try:
            cluster.close()
        except LogstoreError:
            pass
    return cluster
