"""Aborted transactions: their index follows the marker without the log's lock, and no fault shows their records.

The power is cut after every operation, each call fails once, and a reader in another process looks at every moment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from logstore.errors import LogstoreError
from logstore.log.state import State
from logstore.log.transactions import Transactions
from logstore.records import INT64_MAX
from logstore.testing import SimDisk
from tests.crash.aborting import AbortingScript, AbortingWorkload, shown_to_others
from tests.crash.late_rolls import patch_late_tasks
from tests.crash.planted import must_break
from tests.crash.power_cuts import Examined, cut_all, moment_count
from tests.crash.scripted import FAULTS
from tests.crash.test_disk_faults import fail_further
from tests.kit.rolling import LateTasks

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="aborted transactions")]

STATES_EACH = 400
STATES_A_MOMENT = 4


def workload_of(seed: int, monkeypatch: pytest.MonkeyPatch) -> AbortingWorkload:
    """Run a workload; the background of every second seed is late."""
    late = patch_late_tasks(monkeypatch, seed) if seed % 2 else LateTasks(seed)
    workload = AbortingWorkload(seed, late, steps=35)
    workload.run()
    return workload


def cut(seed: int, monkeypatch: pytest.MonkeyPatch, most: int = STATES_EACH) -> int:
    examined = Examined()
    with monkeypatch.context() as patch:
        workload = workload_of(seed, patch)
        try:
            cut_all(workload, examined, share=most / moment_count(workload) / STATES_A_MOMENT)
        finally:
            workload.forget()
    return len(examined.states)


def show(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    with monkeypatch.context() as patch:
        workload = workload_of(seed, patch)
        try:
            return shown_to_others(workload)
        finally:
            workload.forget()


@pytest.mark.parametrize("seed", range(8))
def test_every_power_cut_leaves_aborted_transactions_hidden(seed, monkeypatch):
    assert cut(seed, monkeypatch) > 100


@pytest.mark.parametrize("seed", range(8))
def test_a_reader_in_another_process_is_never_shown_an_aborted_record(seed, monkeypatch):
    assert show(seed, monkeypatch) > 20


@pytest.mark.parametrize("fault", FAULTS)
def test_every_change_fails_in_turn_and_aborted_transactions_stay_hidden(fault):
    op, plan = FAULTS[fault]
    root, whole = Path("/r"), SimDisk()
    assert AbortingScript(root, whole).run() == "done"
    count = whole.changes if op == "change" else whole.counts()[op]
    assert count > 60
    for nth in range(1, count + 1):
        disk = SimDisk(nth)
        disk.fail(op, nth, **plan)
        workload = AbortingScript(root, disk)
        try:
            workload.run()
            above = {path for _, path, _ in disk.fired()} & {"/", str(root)}
            fail_further(disk, workload, nth, claims="for good" not in fault and not above)
        except (AssertionError, LogstoreError) as error:
            pytest.fail(f"{fault} at {op} {nth}, {disk.fired()}: {error!r}")
        finally:
            disk.heal()
            workload.abandon()


def find(broken: str, search, monkeypatch, seeds=range(24)) -> None:
    must_break(broken, lambda: [search(seed, monkeypatch) for seed in seeds])


def test_planted_a_stable_offset_that_is_published_before_the_list_is_found(monkeypatch):
    honest = Transactions.note_aborted

    def hasty(self, entry):
        honest(self, entry)
        self.listed_end = INT64_MAX

    monkeypatch.setattr(Transactions, "note_aborted", hasty)
    find("which is not committed", show, monkeypatch)


def test_planted_a_recovery_point_above_a_marker_that_is_not_listed_is_found(monkeypatch):
    monkeypatch.setattr(Transactions, "is_saved", property(lambda self: True))
    monkeypatch.setattr(State, "save_aborted", lambda self: None)
    find("expected|which is not committed", cut, monkeypatch)
