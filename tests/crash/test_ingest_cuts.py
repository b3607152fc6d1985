"""Power cuts, failing disks and interrupts while staged files are taken in.

Each batch is there once, whole, and keeps no reader waiting, wherever it was cut off. Bugs that are planted into it
are found.
"""

from __future__ import annotations

import contextlib
import errno
import random

import pytest

from logstore.errors import LogstoreError, StorageFailedError
from logstore.log import Log
from logstore.log.append import ingest_file
from logstore.log.directory.unsynced import Unsynced
from logstore.log.replica import LogReplica
from logstore.store.commit import staged_reader, staged_writer
from logstore.store.commit.commit_log import COMMITTING, INTENT, Sinks
from logstore.store.commit.ingest import Ingest
from logstore.testing import SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.ingest_workload import PARTITIONS, IngestWorkload, check, expected, open_store, seen, take_in
from tests.crash.planted import must_break

pytestmark = [pytest.mark.crash, pytest.mark.row("U3")]


class Violation(AssertionError):
    """A record was lost, doubled or half there; with all that repeats it."""


@pytest.fixture(autouse=True, params=["copied", "adopted"])
def adopted(monkeypatch, request):
    """How files come into a log: written behind its end, or made a segment as they are. How many were adopted."""
    monkeypatch.setattr(staged_reader.runs, "__defaults__", (300,))
    found = []
    if request.param == "adopted":
        honest = LogReplica.ingest_file

        def adopt(self, *args, **options):
            result = honest(self, *args, **options)
            found.extend([result] * (result is not None))
            return result

        monkeypatch.setattr(ingest_file, "LEAST_BYTES", 1)
        monkeypatch.setattr(ingest_file, "LEAST_BATCH_BYTES", 1)
        monkeypatch.setattr(LogReplica, "ingest_file", adopt)
    # On a simulated disk files are as old as the count of its operations.
    monkeypatch.setattr(staged_writer, "STALE_MS", 1 << 62)
    yield found
    assert bool(found) == (request.param == "adopted")


def cut_everywhere(*, seed: int = 1, share: float = 1.0, step: str = "") -> int:
    """Cut the power after operations of a workload, by every policy; how many states were examined."""
    rng = random.Random(seed)
    states: set[tuple[int, object]] = set()
    for at, moment in enumerate(IngestWorkload(SimDisk(seed)).run()):
        if rng.random() > share or step not in moment.step:
            continue
        for policy in POLICIES if moment.disk.pending else ("none",):
            cut = rng.getrandbits(63)
            after = moment.disk.crash(policy, seed=cut, page_bytes=512)
            key = after.state_hash(), (moment.before, moment.at_hand)
            if key in states:
                continue
            states.add(key)
            try:
                check(after, moment.before, moment.at_hand)
            except (AssertionError, LogstoreError) as error:
                raise Violation(f"moment {at}, {moment.step}: crash({policy!r}, seed={cut}): {error!r}") from error
    return len(states)


@pytest.mark.parametrize("seed", range(1, 3))
def test_power_cuts_leave_each_batch_once(seed):
    states = cut_everywhere(seed=seed, share=0.06)
    print(f"{states} states")
    assert states > 100


def test_a_killed_process_leaves_each_batch_once():
    examined = 0
    for moment in IngestWorkload(SimDisk(7)).run()[::5]:
        check(moment.disk.kill(), moment.before, moment.at_hand)
        examined += 1
    assert examined > 100


def test_readers_in_other_processes_see_each_part_whole():
    """At every moment of a workload, without any writer's help."""
    wholes = {}
    for moment in IngestWorkload(SimDisk(3)).run():
        with contextlib.suppress(LogstoreError), open_reader(moment.disk.kill()) as reader:
            if not set(PARTITIONS) <= set(reader.topics()):
                continue
            for topic in ("flights", "small"):
                for number in range(PARTITIONS[topic]):
                    values = read_committed(reader, topic, number)
                    before = expected_in(moment.before, topic, number)
                    after = expected_in(moment.before | {moment.at_hand} - {None}, topic, number)
                    assert values in (before, after), (moment.step, topic, number)
                    wholes[topic, number, len(values)] = True
    assert len(wholes) > 10


def open_reader(disk):
    import logstore
    from tests.crash.ingest_workload import ROOT

    return logstore.open(ROOT, files=disk, read_only=True)


def read_committed(reader, topic, number):
    log = reader[topic][number]
    values = [record.value for record in log.scan(isolation="read_committed")]
    return sorted(value for value in values if not value.startswith(b"plain"))


def expected_in(done, topic, number):
    from tests.crash.ingest_workload import values_of

    return sorted(value for key in done for value in values_of(key, topic, number))


# -- a disk that fails, and goes on


FAULTS = {
    "EIO": ("change", {"errno": errno.EIO}),
    "ENOSPC": ("change", {"errno": errno.ENOSPC}),
    "a sync": ("fdatasync", {"errno": errno.EIO}),
    "short, then ENOSPC": ("pwrite", {"errno": errno.ENOSPC, "short": 7}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_change_fails_in_turn_and_each_batch_is_there_once(fault):
    op, plan = FAULTS[fault]
    whole = SimDisk()
    IngestWorkload(whole).run(moments=False)
    count = whole.changes if op == "change" else whole.counts()[op]
    failed = 0
    for nth in range(1 + len(fault) % 5, count + 1, 13 if op != "fdatasync" else 3):
        disk = SimDisk(nth)
        disk.fail(op, nth, **plan)
        workload = IngestWorkload(disk)
        try:
            failed += run_with_faults(workload, stubborn=bool(nth % 2))
            final = workload.disk
            final.heal()
            with open_store(final.kill()) as store:
                store.housekeep()
                assert seen(store) == expected(workload.done)
            names_lost = any("." not in path for _, path, _ in disk.fired())
            check(final.kill(), frozenset(workload.done), None, cut_again=not names_lost)
        except (AssertionError, LogstoreError) as error:
            pytest.fail(f"{fault} at {op} {nth}, {disk.fired()}: {error!r}")
    print(f"{fault}: {count} calls, {failed} workloads had a failed step")
    assert failed > count // 90


def run_with_faults(workload: IngestWorkload, *, stubborn: bool) -> int:
    """The whole workload; a step that fails is tried again, in the same process if it is ``stubborn`` and may."""
    failures = 0
    abandoned = []
    for name, step, _ in workload.steps():
        for _ in range(4):
            try:
                step()
                break
            except LogstoreError as error:
                failures += 1
                if name == "close":
                    abandoned.append(workload.store)
                    workload.disk = workload.disk.kill()
                    break
                if not stubborn or name == "open" or isinstance(error, StorageFailedError):
                    abandoned.append(workload.store)
                    workload.disk = workload.disk.kill()
                    if name != "open":
                        workload.open()
                if name.startswith("take in") and was_taken_in(workload, name):
                    # It had failed after the decision, and is told to be there when it is asked for again.
                    break
        else:
            pytest.fail(f"{name} fails for good")
    for store in abandoned:
        if store is not None:
            store._host.files.heal()
            with contextlib.suppress(LogstoreError):
                store.close()
    return failures > 0


def was_taken_in(workload: IngestWorkload, name: str) -> bool:
    key = next(key for known, _, key in workload.steps() if known == name)
    if take_in(workload.store, key, attempt=2).duplicate:
        workload.done.add(key)
        return True
    workload.done.add(key)
    return True


# -- an interrupt in the middle of anything


STEPS = [
    (LogReplica, "ingest_file"),
    (LogReplica, "append_run"),
    (Log, "append"),
    (LogReplica, "append_control"),
    (Log, "flush"),
    (Sinks, "put"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("owner, name", STEPS)
def test_an_interrupt_before_or_after_any_step_leaves_each_batch_once(monkeypatch, adopted, owner, name, after):
    honest = getattr(owner, name)
    for nth in range(100):
        calls = 0

        def interrupted(*args, nth=nth, **kwargs):
            nonlocal calls
            calls += 1
            if calls - 1 != nth:
                return honest(*args, **kwargs)
            if after:
                honest(*args, **kwargs)
            raise KeyboardInterrupt

        disk = SimDisk(nth)
        workload = IngestWorkload(disk)
        workload.open()
        workload.create()
        take_in(workload.store, ("q", 0))
        monkeypatch.setattr(owner, name, interrupted)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                take_in(workload.store, ("q", 1))
        finally:
            monkeypatch.setattr(owner, name, honest)
        if nth % 2:
            check(disk.kill(), frozenset({("q", 0)}), ("q", 1))
            check(disk.crash("none"), frozenset({("q", 0)}), ("q", 1))
        take_in(workload.store, ("q", 1), attempt=1)
        assert seen(workload.store) == expected({("q", 0), ("q", 1)})
        workload.store.close()
        if calls <= nth:
            break
    # Each file is adopted or written.
    assert nth > 1 or (owner, name, bool(adopted)) == (LogReplica, "append_run", True)


# -- bugs that are planted; without them the same workload keeps everything


#: A batch that was taken in is not there, or not all of it.
NOT_WHOLE = "batches in part: found|(after taking in .* again|after another power cut): batches differ"


def find(broken: str, step: str = "('q', 1)") -> None:
    """Cut the power in a workload until a promise is broken: the one that reads ``broken``."""

    def search() -> None:
        for seed in range(2, 8):
            cut_everywhere(seed=seed, step=step, share=0.4)

    must_break(broken, search)


def test_planted_data_that_is_not_synced_before_the_decision_is_found(monkeypatch):
    honest = Ingest._flush
    committing = []

    def flush(self, logs):
        states = self._sinks._states.values()
        if any(state.phase == INTENT for state in states):
            committing.append(True)
            return
        honest(self, logs)

    monkeypatch.setattr(Ingest, "_flush", flush)
    find(NOT_WHOLE)
    assert committing


@pytest.mark.parametrize("adopted", ["adopted"], indirect=True)
def test_planted_an_adopted_file_whose_name_is_not_synced_is_found(monkeypatch):
    honest = LogReplica.ingest_file

    def adopt(self, *args, **options):
        with monkeypatch.context() as patch:
            patch.setattr(Unsynced, "names_changed", lambda self: None)
            return honest(self, *args, **options)

    monkeypatch.setattr(LogReplica, "ingest_file", adopt)
    find(NOT_WHOLE, "take in")


def test_planted_a_decision_that_is_not_synced_before_the_markers_is_found(monkeypatch):
    planted_unsynced(monkeypatch, COMMITTING)
    monkeypatch.setattr(Sinks, "flush", lambda self: None)
    find("was taken in twice")


def test_planted_an_intent_that_is_not_synced_before_the_data_is_found(monkeypatch):
    planted_unsynced(monkeypatch, INTENT)
    find("waits for a transaction", "take in")


def planted_unsynced(monkeypatch, phase):
    honest = Sinks.put

    def put(self, query, state, *, durable):
        honest(self, query, state, durable=durable and state.phase != phase)

    monkeypatch.setattr(Sinks, "put", put)


def test_planted_a_batch_that_no_query_asks_for_is_found(monkeypatch):
    honest = Sinks.get

    def get(self, query):
        state = honest(self, query)
        return None if state is None else state._replace(done=-1)

    monkeypatch.setattr(Sinks, "get", get)
    find("was taken in twice")


def test_planted_an_undecided_batch_that_is_left_alone_is_found(monkeypatch):
    honest = Ingest._settle

    def settle(self, query):
        self._sinks.load(create=False)
        state = self._sinks.get(query)
        if state is None or state.phase != INTENT:
            honest(self, query)

    monkeypatch.setattr(Ingest, "_settle", settle)
    find("waits for a transaction")


def test_planted_markers_that_are_not_synced_before_the_end_is_noted_are_found(monkeypatch):
    honest = Ingest._flush

    def flush(self, logs):
        states = self._sinks._states.values()
        if any(state.phase == COMMITTING for state in states):
            return
        honest(self, logs)

    monkeypatch.setattr(Ingest, "_flush", flush)
    find(f"waits for a transaction|{NOT_WHOLE}", "take in")
