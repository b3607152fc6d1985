"""A process that writes with five threads is killed at random moments, over and over, on one log.

After each kill the log is opened (as its next writer, or read-only with recovery left to the next
victim) and held against the ledger of acknowledgements: nothing acknowledged is missing or changed,
nothing is there that was not sent, offsets have no gap, a batch is whole or absent, a turn or a run of
batches has left the first of them, producers go on where they were, committed readers see exactly what was
committed, and every batch has the leader epoch that the table of epochs names for it.

A SIGKILL keeps the page cache, so this says nothing about a missing fsync: that is for simulated
power cuts. LOGSTORE_KILLS sets the number of kills.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from logstore import Log
from logstore.log import BatchView, LogReader, Marker, ProducerStamp
from tests.crash.histories import seeded
from tests.crash.killed_writer import (
    IDEMPOTENT,
    MOST,
    PRODUCERS,
    RUNS,
    SENDERS,
    SETTINGS,
    TRANSACTIONAL,
    TURNS,
    value_of,
)

KILLS = int(os.environ.get("LOGSTORE_KILLS", "100"))
SCRIPT = Path(__file__).with_name("killed_writer.py")


class Ledger:
    """What one victim has said, line by line."""

    def __init__(self, content: dict[int, tuple]) -> None:
        self.content = dict(content)  # offset -> (run, thread, n, i, count) that has to be there
        self.acked = {}  # thread -> the last n acknowledged
        self.started = False
        self.cut_at = self.end = 0
        self.cutting = self.deleting = self.ending = None
        self.start = 0
        self.epoch = -1  # the last one that has begun, unless the log was cut since then
        self.epochs = 0  # that have begun
        self.commits: list[int] = []

    def read(self, line: str, run: int) -> None:
        word, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if word == "S":
            self.started = True
        elif word == "A":
            thread, n, count, first, last = numbers
            assert last - first + 1 == count
            for i in range(count):
                assert first + i not in self.content, "one offset was given twice"
                self.content[first + i] = (run, thread, n, i, count)
            self.end = max(self.end, last + 1)
            assert n == self.acked.get(thread, -1) + 1
            self.acked[thread] = n
        elif word == "c":
            self.cutting = numbers[0]
            self.epoch = -1
        elif word == "C":
            self.cut_at = numbers[0]
            self.content = {offset: sender for offset, sender in self.content.items() if offset < numbers[0]}
            assert numbers[0] == self.cutting
            self.cutting = None
        elif word == "B":
            self.epoch = numbers[0]
            self.epochs += 1
        elif word == "d":
            self.deleting = numbers[0]
        elif word == "D":
            self.start = self.deleting
            self.deleting = None
        elif word == "e":
            self.ending = numbers[0]
        elif word == "E":
            marker, offset = numbers
            self.content[offset] = ("marker", marker)
            self.ending = None


class Trial:
    """One log through many kills."""

    def __init__(self, path: Path, rng) -> None:
        self.path = path
        self.rng = rng
        self.run = 0
        self.began = False
        self.content: dict[int, tuple] = {}
        self.start = self.cut_at = 0
        # Sent and not acknowledged by victims whose log is not recovered yet.
        self.pending: set[tuple[int, int, int]] = set()
        self.next_of: dict[tuple[int, int], int] = {}  # (run, thread): the first batch that was not acknowledged
        self.pending_markers: set[int] = set()
        self.pending_start = 0
        self.sequences = dict.fromkeys(PRODUCERS.values(), 0)
        self.seen = {
            "in flight": 0,
            "parts of turns and runs": 0,
            "epochs": 0,
            "duplicates": 0,
            "cut": 0,
            "mid cut": 0,
            "mid delete": 0,
            "deleted": 0,
            "unopened": 0,
            "unlisted aborts": 0,
        }
        self.next_victim = self.victim()

    def victim(self):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )

    def close(self) -> None:
        self.next_victim.kill()
        self.next_victim.communicate()

    def kill_once(self) -> None:
        """Let one victim write for a while, kill it, and look at what it has left."""
        victim, self.next_victim = self.next_victim, self.victim()
        orders = {
            "run": self.run,
            "seed": self.rng.randrange(2**32),
            "path": str(self.path),
            "sequences": self.sequences,
        }
        victim.stdin.write(json.dumps(orders).encode() + b"\n")
        victim.stdin.flush()
        ledger = Ledger(self.content)
        ledger.start = self.start
        lines = int(self.rng.expovariate(1 / 120)) if self.rng.random() < 0.95 else 0
        buffered = b""
        # Some die right in the middle of a truncation or a deletion.
        until = self.rng.choice([b"", b"", b"", b"", b"\nc ", b"\nd "])
        while (seen := buffered.count(b"\n")) < lines or (lines and until not in buffered[-400:] and seen < 900):
            data = os.read(victim.stdout.fileno(), 65_536)
            assert data, victim.stderr.read().decode()
            buffered += data
        victim.kill()
        rest, complaint = victim.communicate()
        assert victim.returncode == -9, complaint.decode()
        self.lines = (buffered + rest).decode().splitlines()
        for line in self.lines:
            ledger.read(line, self.run)
        if ledger.cut_at or ledger.cutting is not None:
            self.cut_at = ledger.cut_at if ledger.cutting is None else ledger.end
        if ledger.started:
            self.began = True
            for thread in SENDERS:
                self.next_of[self.run, thread] = n = ledger.acked.get(thread, -1) + 1
                most = MOST if thread in (TURNS, RUNS) else 1
                self.pending |= {(self.run, thread, number) for number in range(n, n + most)}
            self.pending_start = max(self.pending_start, ledger.deleting or 0)
            self.pending_markers |= {0} if ledger.ending is None else {ledger.ending}
        self.seen["epochs"] += ledger.epochs
        self.seen["cut"] += ledger.cut_at > 0
        self.seen["deleted"] += ledger.start > self.start
        self.seen["unopened"] += not ledger.started
        self.seen["mid cut"] += ledger.cutting is not None
        self.seen["mid delete"] += ledger.deleting is not None
        if ledger.started and (ledger.cutting is not None or self.rng.random() < 0.6):
            with Log.open(self.path, **SETTINGS) as log:
                self.examine(log, ledger)
                self.check_epochs(log)
                self.retry(log)
                self.give_up(log)
            self.pending.clear()
            self.pending_markers.clear()
        elif self.began:
            # Recovery is left to the next victim, which may be killed in the middle of it.
            with Log.open(self.path, read_only=True) as log:
                self.examine(log, ledger)
        self.run += 1

    # -- looking

    def examine(self, log, ledger: Ledger) -> None:
        start, end = log.log_start_offset, log.log_end_offset
        # A deletion that was cut off is finished by the process that recovers, which may be a later victim.
        assert ledger.start <= start <= max(ledger.start, self.pending_start)
        batches = raw_batches(log)
        content, in_flight = {}, {}
        expected = None
        for view in batches:
            assert expected is None or view.base_offset == expected, "a gap or an overlap"
            expected = view.next_offset
            if view.is_control:
                content[view.base_offset] = ("marker", int(view.marker[0]))
                continue
            for record in view:
                run, thread, n, i, count = (int(word) for word in record.value.split(b"|")[0].split())
                assert record.value == value_of(run, thread, n, i, count)
                assert view.record_count == count, "half a batch"
                content[record.offset] = (run, thread, n, i, count)
        assert expected is None or expected == end
        latest = log.replica.epochs.latest
        assert ledger.epoch <= (-1 if latest is None else latest.epoch), "an epoch that has begun is lost"
        of_batches = [view.leader_epoch for view in batches]
        assert of_batches == sorted(of_batches), "a batch of an older epoch follows a newer one"
        self.compare({o: sender for o, sender in content.items() if o >= start}, ledger, start, end, in_flight)
        self.check_isolation(log, batches, start)
        self.content, self.start = {o: sender for o, sender in content.items() if o >= start}, start
        for view in batches:
            if view.producer_id in self.sequences and not view.is_control:
                self.sequences[view.producer_id] = view.last_sequence + 1
        self.batches = batches

    def check_epochs(self, log) -> None:
        for view in self.batches:
            # Of offsets below the log start, the table knows nothing.
            assert log.replica.epochs.epoch_at(max(view.base_offset, self.start)) == view.leader_epoch

    def compare(self, content, ledger: Ledger, start: int, end: int, in_flight) -> None:
        assert end >= (ledger.cutting or 0)
        promised = end if ledger.cutting is not None else 1 << 62
        for offset, sender in ledger.content.items():
            if start <= offset < promised:
                assert content.get(offset) == sender, f"acknowledged at {offset}, run {self.run}: {sender}"
        for offset in content.keys() - ledger.content.keys():
            sender = content[offset]
            if sender[0] == "marker":
                assert sender[1] in (ledger.ending, *self.pending_markers), "a marker that no victim has sent"
            else:
                assert sender[:3] in self.pending, f"a phantom at {offset}: {sender}"
                in_flight.setdefault(sender[:3], []).append(offset)
        numbers: dict[tuple[int, int], list[int]] = {}
        for (run, thread, n), offsets in in_flight.items():
            self.seen["in flight"] += 1
            assert len(offsets) == content[offsets[0]][4]
            numbers.setdefault((run, thread), []).append(n)
        for sender, found in numbers.items():
            first = self.next_of[sender]
            assert sorted(found) == list(range(first, first + len(found))), "not the first batches of a call"
            self.seen["parts of turns and runs"] += sender[1] in (TURNS, RUNS)

    def check_isolation(self, log, batches, start: int) -> None:
        """By replaying the markers: committed readers see what was committed, and nothing else."""
        visible, open_since, pending, aborted = [], None, [], []
        for view in batches:
            if view.is_control:
                aborted += [open_since] if view.marker[0] is Marker.ABORT else []
                visible += pending if view.marker[0] is Marker.COMMIT else []
                pending, open_since = [], None
            elif view.is_transactional:
                open_since = view.base_offset if open_since is None else open_since
                pending += [record.offset for record in view]
            else:
                visible += [record.offset for record in view]
        stable = log.log_end_offset if open_since is None else open_since
        if isinstance(log, LogReader) and log.last_stable_offset in aborted:
            # Killed before the abort was in its index: from there on other processes see nothing until recovery.
            stable = log.last_stable_offset
            self.seen["unlisted aborts"] += 1
        assert log.last_stable_offset == stable, f"run {self.run}, {log!r}"
        found = [record.offset for record in log.scan(isolation="read_committed")]
        assert found == sorted(offset for offset in visible if start <= offset < stable)

    # -- going on

    def retry(self, log) -> None:
        """The last batches of the idempotent producer, sent again: all known, none written twice."""
        own = [v for v in self.batches if v.producer_id == PRODUCERS[IDEMPOTENT] and v.base_offset >= self.start]
        end = log.log_end_offset
        # A truncation goes back to one of Kafka's snapshots, which knows one batch of each producer.
        known = [v for v in own[-5:-1] if v.base_offset >= self.cut_at] + own[-1:]
        for view in known:
            stamp = ProducerStamp(view.producer_id, view.producer_epoch, view.base_sequence)
            done = log.append([record.value for record in view], producer=stamp)
            assert (done.first_offset, done.last_offset, done.duplicate) == (
                view.base_offset,
                view.last_offset,
                True,
            )
            self.seen["duplicates"] += 1
        assert log.log_end_offset == end

    def give_up(self, log) -> None:
        """As a coordinator does after a timeout: the open transaction is aborted."""
        done = log.replica.append_control(Marker.ABORT, producer_id=PRODUCERS[TRANSACTIONAL], producer_epoch=0)
        self.content[done.first_offset] = ("marker", 0)
        assert log.last_stable_offset == log.log_end_offset


def raw_batches(log) -> list[BatchView]:
    """Every stored batch, as it is: control batches and records below the log start too."""
    found = []
    offset, end = log.log_start_offset, log.high_watermark
    while offset < end:
        batches = log.read(offset)
        found += batches.batches()
        offset = batches.next_offset
    return found


def run_trial(path: Path, kills: int, rng) -> Trial:
    trial = Trial(path, rng)
    try:
        for _ in range(kills):
            trial.kill_once()
    finally:
        trial.close()
        counts = ", ".join(f"{count} {what}" for what, count in trial.seen.items())
        print(f"{kills} kills: {counts}; {trial.start} records deleted on the way, {len(trial.content)} left")
    return trial


@pytest.mark.crash
@pytest.mark.row("M4")
@pytest.mark.row("S20", part="kill -9")
@pytest.mark.row("M6", part="one process")
@pytest.mark.timeout(600 + KILLS * 10)
def test_no_kill_loses_what_was_acknowledged(ram_path):
    trial = run_trial(ram_path / "t-0", KILLS - KILLS // 5, seeded("kill"))
    assert trial.content
    assert trial.seen["in flight"]
    assert trial.seen["parts of turns and runs"]
    assert trial.seen["epochs"]
    assert trial.seen["duplicates"]
    assert trial.seen["cut"]
    assert trial.seen["deleted"]


@pytest.mark.crash
@pytest.mark.row("S4")
@pytest.mark.row("S20", part="kill -9")
@pytest.mark.timeout(600 + KILLS * 10)
def test_no_kill_on_a_real_disk_loses_what_was_acknowledged(tmp_path):
    """Syncs take their time here, so that appends gather behind them and kills fall into them."""
    trial = run_trial(tmp_path / "t-0", KILLS // 5, seeded("kill on disk"))
    assert trial.content
