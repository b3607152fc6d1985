"""Workloads of a compacted log on a simulated disk: what a power cut at any moment of them has to leave.

A workload appends, rolls, compacts, retains, closes and opens by chance. Its promise at each moment is what was
sent, up to where it was acknowledged as synced, and when compactions have run: of what was sent nothing
may be missing but what a newer record of its key has replaced, or a tombstone whose time had come, and then the log
says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from logstore import Log
from logstore.config.log import LogConfig
from logstore.errors import LogstoreError
from logstore.testing import ManualClock, SimDisk
from tests.crash.power_cuts import Examined, Violation, new_states
from tests.log.keyed import DELETE_RETENTION_MS, SETTINGS, Keyed, Part, check, committed, kept, table

CONFIGS = (
    LogConfig(**SETTINGS),
    LogConfig(**{**SETTINGS, "segment_bytes": 400}),
    LogConfig(**{**SETTINGS, "segment_bytes": 3_000}),
    LogConfig(**{**SETTINGS, "cleanup_policy": "compact,delete", "retention_bytes": 2_000}),
)


class Vow(NamedTuple):
    """What has to be true of the disk after a power cut."""

    parts: tuple[Part, ...] = ()
    runs: tuple[int, ...] = ()
    least_end: int = 0
    start: int = 0
    most_start: int = 0


class KeyedWorkload:
    """One compacted log, driven by chance from a seed, on one disk that keeps its moments."""

    def __init__(self, seed: int, steps: int = 30, plant: Callable[[SimDisk], None] = lambda disk: None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.config = CONFIGS[seed % len(CONFIGS)]
        self.path = f"/{seed}/t-0"
        self.clock = ManualClock()
        self.disk = SimDisk(seed)
        self.length = steps
        plant(self.disk)
        self.log = open_log(self, self.disk)
        self.history = Keyed(self.log, self.clock, self.rng, keys=self.rng.choice([3, 10]))
        self.vows: list[tuple[int, Vow, Vow, str]] = []  # operations so far, vow during and after, what

    def vow(self) -> Vow:
        start = self.log.log_start_offset
        return Vow(tuple(self.history.parts), tuple(self.history.runs), self.log.synced_end, start, start)

    def do(self, what: str, act: Callable[[], object], **during: object) -> None:
        before = self.vow()
        act()
        after = self.vow()
        # What is under way may be there or not; what it has found before it is there.
        between = before._replace(parts=after.parts, runs=after.runs, **during)
        self.vows.append((self.disk.operations, between, after, what))

    def run(self) -> KeyedWorkload:
        self.disk.keep_moments()
        began = self.disk.operations
        try:
            for _ in range(self.length):
                self.step()
            self.do("settle", self.history.settle)
            self.do("roll", self.log.maintenance.roll)
            self.compact()
            self.clock.advance(DELETE_RETENTION_MS)
            self.compact()
        except BaseException:
            self.log.close()
            raise
        self.vows = [(count - began, *rest) for count, *rest in self.vows]
        return self

    def step(self) -> None:
        chance, rng = self.rng.random(), self.rng
        if chance < 0.6:
            self.do("step", self.history.step)
        elif chance < 0.72:
            self.do("synced append", lambda: self.history.append(rng.randrange(1, 4), ack="synced"))
        elif chance < 0.8:
            self.do("roll", self.log.maintenance.roll)
        elif chance < 0.9:
            self.compact()
        elif chance < 0.93:
            self.clock.advance(DELETE_RETENTION_MS // 2)
        elif chance < 0.96:
            self.do("retain", self.log.maintenance.retain, most_start=self.log.high_watermark)
        else:
            self.do("close", self.log.close)
            self.log = self.history.log = open_log(self, self.disk)
            self.do("open", lambda: None)

    def compact(self) -> None:
        slots = self.rng.choice([3, 100])
        self.do("compact", lambda: self.history.compact(map_bytes=slots * 24))
        check_vow(self.log, self.vow())

    def moments(self):
        """The disk after each operation, with the vow that holds for it."""
        place, kept_before = 0, Vow()
        for number, moment in enumerate(self.disk.moments(), start=1):
            while place < len(self.vows) and self.vows[place][0] < number:
                kept_before = self.vows[place][2]
                place += 1
            if place == len(self.vows):
                yield moment, kept_before, "at the end"
                continue
            until, during, after, what = self.vows[place]
            yield (moment, after, f"after {what}") if until == number else (moment, during, f"in {what}")


def open_log(workload: KeyedWorkload, disk: SimDisk) -> Log:
    return Log.open(workload.path, workload.config, files=disk, clock=workload.clock, rng=random.Random(0))


def cut_all(workload: KeyedWorkload, examined: Examined, *, share: float = 1.0, most: int | None = None) -> None:
    """Cut the power at every moment of a workload, by every policy.

    Raises:
        Violation: something was lost, or came back.
    """
    rng = random.Random(workload.seed)
    for at, (moment, vow, what) in enumerate(workload.moments()):
        for after, words in new_states(moment, vow, rng, examined, share):
            try:
                examine(workload, after, vow, rng)
            except (AssertionError, LogstoreError) as error:
                raise Violation(f"workload {workload.seed}, moment {at} {what}: {words}: {error!r}") from error
            if most is not None and len(examined.states) >= most:
                return


def examine(workload: KeyedWorkload, disk: SimDisk, vow: Vow, rng: random.Random) -> None:
    """Open what a power cut has left, hold it against the vow, go on with it, and lose the power again."""
    again = rng.random()
    if again < 0.15:
        disk.keep_moments()
    log = open_log(workload, disk)
    opened = disk.moment_count
    try:
        parts = check_vow(log, vow)
        if again < 0.4:
            clock_before = workload.clock.now_ms()
            history = Keyed(log, workload.clock, rng, keys=5)
            history.parts, history.runs = list(parts), list(vow.runs)
            history.append(2, ack="synced")
            log.maintenance.roll()
            history.compact()
            check(log, history.parts, history.runs, thorough=False, start=log.log_start_offset)
            workload.clock.set_now_ms(clock_before)
        left = [n for n in disk.listdir(workload.path) if n.endswith((".swap", ".cleaned", ".deleted", ".tmp"))]
        assert not left, f"files of a swap are left: {left}"
    finally:
        log.close()
    if again < 0.15 and opened:
        moment = next(disk.moments(rng.randrange(opened)))
        for policy in ("none", "torn", "reordered"):
            with open_log(workload, moment.crash(policy, seed=rng.getrandbits(63), page_bytes=512)) as once_more:
                check_vow(once_more, vow)


def check_vow(log: Log, vow: Vow) -> list[Part]:
    """Hold a log that was opened after a power cut against what was promised; the batches that are kept."""
    end, start = log.log_end_offset, log.log_start_offset
    assert end >= vow.least_end, f"synced up to {vow.least_end}, but the log ends at {end}"
    assert vow.start <= start <= vow.most_start, f"the log starts at {start}"
    parts = [part for part in vow.parts if part.last < end]
    assert end == max(parts[-1].last + 1 if parts else 0, start), f"the log ends at {end}, which ends no batch"
    sent = {record.offset: record for part in parts for record in part.records}
    everything = kept(log.scan())
    for record in everything:
        assert record == sent.get(record.offset), f"a record that was never sent: {record}"
    found = kept(log.scan(isolation="read_committed"))
    wanted = [record for record in committed(parts) if record.offset >= start]
    assert {r.offset for r in found} <= {r.offset for r in wanted}, "an aborted record is seen"
    assert table(found) == table(wanted), "the table of keys differs"
    newest = {record.key: record.offset for record in wanted}
    when = {record.offset: part.sent_ms for part in parts for record in part.records}
    there = set(found)
    for record in wanted:
        if record in there or newest[record.key] > record.offset:
            continue
        assert record.value is None, f"the newest record of its key is gone: {record}"
        met = [run for run in vow.runs if run >= when[record.offset]]
        dropped_end = log.replica.dropped_end
        assert record.offset < dropped_end, f"a tombstone went, and only those below {dropped_end} may be missing"
        assert met, f"a tombstone went without a compaction: {record}"
        assert vow.runs[-1] >= met[0] + DELETE_RETENTION_MS, f"a tombstone went too early: {record}"
    return parts
