"""The power is cut after every operation of many workloads; whatever is left opens, and keeps every promise.

LOGSTORE_STATES says how many distinct states of the disk are examined, 10 000 if it is not set. Every second seed
has rolls that are finished late, see `late_rolls`; the others have each finished right after its append.
"""

from __future__ import annotations

import itertools
import os

import pytest

from logstore import Log
from logstore.batch._encode import encode
from logstore.records import Origin
from logstore.testing import ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.late_rolls import RollingWorkload, patch_late_tasks
from tests.crash.power_cuts import Examined, cut_all, moment_count
from tests.crash.workload import Workload

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="power cuts")]

STATES = int(os.environ.get("LOGSTORE_STATES", "10000"))
STATES_EACH = 1_000
STATES_A_MOMENT = 4


def cut_workloads(seed: int, monkeypatch: pytest.MonkeyPatch, most: int) -> Examined:
    """Cut the power in workloads of a seed until as many distinct states were examined."""
    late = patch_late_tasks(monkeypatch, seed) if seed % 2 else None
    examined = Examined()
    workloads = 0
    while len(examined.states) < most:
        number = seed + 1_000_000 * workloads
        workload = Workload(number) if late is None else RollingWorkload(number, late)
        try:
            workload.run()
            # A workload has more states than are asked of it, so they are taken from all its moments alike.
            missing = most - len(examined.states)
            cut_all(workload, examined, share=missing / moment_count(workload) / STATES_A_MOMENT)
        finally:
            workload.forget()
        workloads += 1
    print(f"seed {seed}: {len(examined.states)} distinct states, {examined.cuts} power cuts, {workloads} workloads")
    return examined


@pytest.mark.parametrize("seed", range(-(-STATES // STATES_EACH)))
def test_every_power_cut_leaves_what_was_promised(seed, monkeypatch):
    """Each seed has disks of its own: a state of one is none of another, for its path is in the names."""
    assert len(cut_workloads(seed, monkeypatch, STATES_EACH).states) >= STATES_EACH


def test_the_point_of_a_killed_process_is_on_disk_before_there_is_a_second_segment():
    """It was in the page cache alone, and its file counted as synced: this process had not written it."""
    path, disk = "/killed/t-0", SimDisk()
    killed = Log.open(path, files=disk, clock=ManualClock())
    killed.append([b"first"])
    disk = disk.kill()
    log = Log.open(path, files=disk, clock=ManualClock())
    disk.keep_moments()
    log.append([b"second"])
    log.maintenance.roll()
    log.append([b"third"])
    with_two = 0
    for moment in disk.moments():
        with_two += sum(name.endswith(".log") or "after-" in name for name in moment.image("/killed")) > 1
        for policy, seed in itertools.product(POLICIES, range(8)):
            after = moment.crash(policy, seed=seed, page_bytes=64)
            with Log.open(path, files=after, clock=ManualClock()) as found:
                values = [value for chunk in found.scan().values() for value in chunk]
                assert values == [b"first", b"second", b"third"][: len(values)]
    assert with_two
    log.close()
    killed.close()


def test_a_gap_in_the_offsets_survives_power_cuts():
    """A replica's next batch lies more than 2**31 offsets ahead, so a segment begins there."""
    path, disk = "/gap/t-0", SimDisk()
    far = 2**31 + 10
    log = Log.open(path, files=disk, clock=ManualClock())
    log.append([b"a"], ack="synced")
    log.append([b"b"])
    disk.keep_moments()
    batch = encode([b"far"], timestamp_ms=1)
    log.replica.append_batch(far.to_bytes(8, "big") + batch[8:], origin=Origin.REPLICATION)
    skipped = disk.operations
    log.append([b"next"], ack="synced")
    synced = disk.operations - skipped
    whole = [b"a", b"b", b"far", b"next"]
    states = set()
    for number, moment in enumerate(disk.moments()):
        for policy in POLICIES:
            for seed in range(4):
                after = moment.crash(policy, seed=seed, page_bytes=64)
                states.add(after.state_hash())
                with Log.open(path, files=after, clock=ManualClock()) as again:
                    found = [record.value for record in again.scan()]
                    assert found[:1] == [b"a"]
                    assert found == whole[: len(found)]
                    assert len(found) == 4 or number + 1 < disk.moment_count
                    assert again.append([b"on"], ack="synced").first_offset == again.log_end_offset - 1
                    with Log.open(path, files=after.crash("none"), clock=ManualClock()) as last:
                        assert [record.value for record in last.scan()] == [*found, b"on"]
    assert synced > 0
    assert len(states) > 20
    log.close()
