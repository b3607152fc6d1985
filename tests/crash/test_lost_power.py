"""What power cuts on the simulated disk have found, each as the smallest case that shows it."""

from __future__ import annotations

from logstore import Log
from logstore.testing import SimDisk

PATH = "/data/logs/t-0"


def values(disk: SimDisk, **options) -> list:
    with Log.open(PATH, files=disk, **options) as log:
        return [record.value for record in log.scan()]


def test_the_directories_above_a_new_root_are_durable():
    """Only the partition's and the root's names were synced, and the first power cut took the whole root."""
    disk = SimDisk()
    log = Log.open(PATH, files=disk)
    log.append([b"v"], ack="synced")
    assert values(disk.crash("none")) == [b"v"]
    log.close()


def test_a_kill_while_directories_are_made_leaves_none_unsynced():
    disk = SimDisk()
    disk.keep_moments()
    Log.open(PATH, files=disk).close()
    for number, moment in enumerate(disk.moments()):
        with Log.open(PATH, files=moment) as log:
            log.append([b"v"], ack="synced")
            assert values(moment.crash("none")) == [b"v"], f"killed after operation {number}"
    assert disk.moment_count > 12
