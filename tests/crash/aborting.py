"""Workloads of aborted transactions, as of a transactional producer and of a replica that follows one.

Nearly every marker aborts, segments are small, and so the index of aborted transactions is new again and again.
`shown_to_others` holds what a reader in another process sees at each moment against what was sent.
"""

from __future__ import annotations

from logstore.errors import LogstoreError
from logstore.log import Marker
from logstore.testing import SimDisk
from tests.crash.histories import committed, fields
from tests.crash.late_rolls import CHANCE, RollingWorkload
from tests.crash.power_cuts import Violation
from tests.crash.scripted import ScriptedWorkload
from tests.crash.workload import Step, Workload, open_log
from tests.kit.rolling import LateTasks

PRODUCERS = (20, 21, 22)

#: Segments of a few batches, and one of many.
SETTINGS = (
    {"segment_bytes": 420, "index_interval_bytes": 1},
    {"segment_bytes": 700, "index_interval_bytes": 150},
    {"segment_bytes": 5_000, "index_interval_bytes": 300},
    {"segment_bytes": 700, "index_interval_bytes": 150, "visible_after": "flush"},
)


class AbortingWorkload(RollingWorkload):
    """One log of transactions, of which most are aborted."""

    def __init__(self, seed: int, late: LateTasks, steps: int = 40) -> None:
        super().__init__(seed, late, steps, SETTINGS[seed // 2 % len(SETTINGS)])

    def step(self) -> None:
        rng, h = self.rng, self.history
        if rng.random() < CHANCE:
            self.do("background", self.late.run_one)
        chance = rng.random()
        if chance < 0.30:
            pid = self.next_of(rng.choice(PRODUCERS))
            self.append("append in a transaction", lambda: h.append(1, producer_id=pid, transactional=True))
        elif chance < 0.55:
            self.end_transaction()
        elif chance < 0.70:
            self.follow()
        elif chance < 0.74:
            self.append("append", lambda: h.append(rng.randrange(1, 3)))
        elif chance < 0.79:
            self.append("append synced", lambda: h.append(1, ack="synced"), synced=True)
        elif chance < 0.84:
            self.do("flush", self.log.flush)
        elif chance < 0.89:
            self.do("roll", self.log.maintenance.roll)
        elif chance < 0.91:
            self.cut()
        elif chance < 0.94:
            self.delete()
        elif chance < 0.96:
            self.close()
            self.open(self.disk.kill(), self.chapters[-1].steps[-1].after)
        elif chance < 0.98:
            self.die()
        else:
            self.lose_power()
        self.check_unsynced("step")

    def end_transaction(self) -> None:
        undecided = sorted(self.undecided())
        if undecided:
            pid = self.rng.choice(undecided)
            marker = Marker.ABORT if self.rng.random() < 0.85 else Marker.COMMIT
            self.append("marker", lambda: self.history.end(pid, marker))

    def follow(self) -> None:
        """A run of a leader, with records of transactions and the markers that end them."""
        parts: list[tuple[int, Marker | None]] = []
        undecided = self.undecided()
        for _ in range(self.rng.randrange(1, 7)):
            if undecided and self.rng.random() < 0.45:
                pid = self.rng.choice(sorted(undecided))
                undecided.discard(pid)
                parts.append((pid, Marker.ABORT if self.rng.random() < 0.85 else Marker.COMMIT))
            else:
                pid = self.next_of(self.rng.choice(PRODUCERS))
                undecided.add(pid)
                parts.append((pid, None))
        epoch, before, began = self.log.replica.leader_epoch, self.promise(), self.disk.operations
        ack = self.rng.choice(["written", "written", "synced"])
        sent = self.history.transactions_of_leader(parts, ack)
        self.epochs += [epoch] * len(sent)
        during = before._replace(sent=tuple(self.sent), epochs=tuple(self.epochs))
        after = self.promise()
        assert ack == "written" or after.least_end == sent[-1].last + 1
        step = Step(began, self.disk.operations, during, after, "transactions of a leader")
        self.chapters[-1].steps.append(step)


def shown_to_others(workload: Workload) -> int:
    """Read committed records in another process at each moment; return how often any were found.

    Raises:
        Violation: a record of an aborted or undecided transaction was shown.
    """
    found = 0
    for chapter in workload.chapters:
        for at, (moment, promise, what) in enumerate(chapter.moments()):
            if what.startswith(("in open", "in truncate", "in delete")):
                continue  # readers may look at what is about to be gone
            shown = _read_committed(workload, moment)
            wrong = shown - set(committed(list(promise.sent)))
            if wrong:
                raise Violation(
                    f"moment {at} {what}: a reader was shown {sorted(wrong)[0]}, which is not committed"
                )
            found += bool(shown)
    return found


def _read_committed(workload: Workload, disk: SimDisk) -> set[tuple]:
    try:
        with open_log(workload, disk, read_only=True) as log:
            return {fields(record) for record in log.scan(isolation="read_committed")}
    except LogstoreError:
        return set()


class AbortingScript(ScriptedWorkload):
    """Aborted transactions over rolls, of a producer and of a leader, for faults; see `ScriptedWorkload`."""

    def steps(self):
        h = self.history
        yield self.open
        for number in range(3):
            for pid in PRODUCERS[:2]:
                yield lambda pid=pid: h.append(1, producer_id=pid, transactional=True)
                yield lambda pid=pid: h.end(pid, Marker.ABORT)
            yield lambda: h.append(2, ack="synced")
            yield lambda: h.append(1, producer_id=22, transactional=True)
            yield lambda: self.log.maintenance.roll()
            yield lambda number=number: h.end(22, Marker.ABORT if number % 2 == 0 else Marker.COMMIT)
        yield self.close
        yield self.open
        yield lambda: h.append(1, producer_id=20, transactional=True)
        yield lambda: h.end(20, Marker.ABORT)
        yield lambda: self.cut(self.sent[-1].first)
        yield lambda: h.end(20, Marker.ABORT)
        yield lambda: self.delete(self.sent[5].first)
        yield lambda: h.append(2, ack="synced")
        yield self.close
