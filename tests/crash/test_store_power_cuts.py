"""Power cuts in the workload of a store: topics are made, changed, grown and deleted whole or not at all.

What each partition's log has to keep is asked in `test_power_cuts`; here it is what stands around the logs: the
catalogue, the directories, the checkpoints of the root. Bugs that are planted into it are found.
"""

from __future__ import annotations

import dataclasses
import errno
import random
import re

import pytest

from logstore.errors import LogstoreError
from logstore.log.directory.files import Directory
from logstore.log.maintenance import LogMaintenance
from logstore.log.root import Root
from logstore.records import TopicPartition
from logstore.store.catalog import topic_list
from logstore.store.catalog.catalogue_file import CatalogueWriter
from logstore.store.catalog.change_blocks import BLOCK, Changes, of_blocks, to_blocks
from logstore.store.catalog.topic_list import CATALOGUE, TopicState, Written, change_text
from logstore.store.catalog.topics import Topics
from logstore.testing import SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.planted import must_break
from tests.crash.store_workload import StoreWorkload, check, check_checkpoints, open_store

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="power cuts")]


#: Units in which a disk may write. The log of the catalogue's changes assumes none of them.
PAGES = (8, 64, 512, 4096)


class Violation(AssertionError):
    """Something was lost, half made, or came back; with all that repeats it."""


def cut_everywhere(*, seed: int = 1, draws: int = 1, most: int | None = None) -> int:
    """Cut the power after every operation of a workload, by every policy; how many states were examined."""
    rng = random.Random(seed)
    workload = StoreWorkload(SimDisk(seed))
    seen: set[tuple[int, int]] = set()
    for at, moment in enumerate(workload.run()):
        for policy in POLICIES:
            for _ in range(draws if moment.disk.pending else policy == "none"):
                cut = rng.getrandbits(63)
                page = rng.choice(PAGES)
                after = moment.disk.crash(policy, seed=cut, page_bytes=page)
                key = after.state_hash(), id(moment.after)
                if key in seen:
                    continue
                seen.add(key)
                try:
                    check(after, moment.before, moment.after, write_on=rng.random() < 0.3)
                except (AssertionError, LogstoreError) as error:
                    raise Violation(
                        f"moment {at}, {moment.step}: crash({policy!r}, seed={cut}, page_bytes={page}): {error!r}"
                    ) from error
        if most is not None and len(seen) >= most:
            break
    return len(seen)


def test_every_power_cut_leaves_topics_whole():
    states = cut_everywhere()
    print(f"{states} states")
    assert states > 500


# -- bugs that others have had, planted; without them the same workload keeps everything


def find(broken: str) -> None:
    """Cut the power in a workload until a promise is broken: the one that reads ``broken``."""
    must_break(broken, lambda: cut_everywhere(seed=2))


def unannounced(monkeypatch, state: TopicState) -> None:
    """A state that is known in memory only."""
    honest = Topics._save_locked

    def save(self, entries):
        if all(entry is not None and entry.state is state for entry in entries.values()):
            self.catalogue = self.catalogue.with_topics(entries)
        else:
            honest(self, entries)

    monkeypatch.setattr(Topics, "_save_locked", save)


def test_planted_a_checkpoint_of_the_catalogue_that_is_not_synced_is_found(monkeypatch):
    honest = Directory.replace

    def replace(self, name, data, *, durable, whole=False):
        honest(self, name, data, durable=durable and name != CATALOGUE, whole=whole)

    monkeypatch.setattr(Directory, "replace", replace)
    find("the catalogue of the store is damaged")


def test_planted_a_change_that_is_not_synced_is_found(monkeypatch):
    def change(self, catalogue, entries, next_producer_id=None):
        written = self._written
        changed = dataclasses.replace(catalogue.with_topics(entries), number=written.catalogue.number + 1)
        data = to_blocks(changed.number, change_text(entries, next_producer_id))
        with self._root.open(CATALOGUE, writable=True) as file:
            file.write(data, written.end)
        self._written = Written(changed, data[-BLOCK:], written.end + len(data), written.size)
        return changed

    monkeypatch.setattr(CatalogueWriter, "change", change)
    find("expected one of|that are no partition's")


def test_planted_half_a_change_that_is_taken_for_damage_is_found(monkeypatch):
    def strict(data, first):
        found = of_blocks(data, first)
        if found.is_torn:
            raise ValueError("torn")
        return found

    monkeypatch.setattr(topic_list, "of_blocks", strict)
    find("the catalogue of the store is damaged: ValueError: torn")


def test_planted_a_checkpoint_that_forgets_the_last_change_is_found(monkeypatch):
    # A log of two blocks is full all the time.
    monkeypatch.setattr(topic_list, "LOG_BYTES", 2 * BLOCK)
    assert cut_everywhere(seed=2, most=150) >= 150
    honest = CatalogueWriter.replace
    known = []

    def replace(self, catalogue):
        honest(self, known[-1] if known else catalogue)
        return dataclasses.replace(catalogue, number=self._written.catalogue.number)

    def change(self, catalogue, entries, next_producer_id=None):
        known.append(catalogue)
        try:
            return honest_change(self, catalogue, entries, next_producer_id)
        finally:
            known.clear()

    honest_change = CatalogueWriter.change
    monkeypatch.setattr(CatalogueWriter, "replace", replace)
    monkeypatch.setattr(CatalogueWriter, "change", change)
    find("small: found .*, expected one of|that are no partition's|there is no segment")


def test_planted_a_torn_block_that_is_taken_for_a_change_is_found(monkeypatch):
    def credulous(data, first):
        """Take a change as made once its last block has come, whatever is missing of it."""
        texts, end = [], 0
        for at in range(0, len(data.rstrip(b"\0")), BLOCK):
            head = re.match(rb"\d+ (\d+)/(\d+) ", data[at : at + BLOCK])
            if head is not None and head[1] == head[2]:
                blocks, end = data[end : at + BLOCK], at + BLOCK
                texts.append(re.sub(rb"\0| *\d+ \d+/\d+ | +[0-9a-f]{8}\n", b"", blocks))
        return Changes(texts, end, is_torn=False)

    monkeypatch.setattr(topic_list, "of_blocks", credulous)
    whole = StoreWorkload(SimDisk(2)).run()
    check(whole[-1].disk.kill(), whole[-1].after, whole[-1].after, write_on=False)
    find("the catalogue of the store is damaged: JSONDecodeError")


def killed_in_a_change() -> list[str]:
    """What is lost where a process is killed in a change, the next one goes on, and the power fails."""
    disk = SimDisk()
    lost = []
    with open_store(disk) as store:
        store.create_topic("t", 1).append(b"one", partition=0)
        disk.keep_moments()
        store.add_partitions("t", 2)
        moments = list(disk.moments())
    for moment in moments:
        with open_store(moment) as store:
            there = store["t"].partition_count
            for number in range(there):
                store["t"].append(b"another", partition=number, ack="synced")
            cut = moment.crash("none")
        with open_store(cut) as store:
            if store["t"].partition_count != there:
                lost.append(f"of {there} there is {store['t'].partition_count}")
    return lost


def test_what_a_killed_process_has_not_synced_is_synced_before_it_is_gone_by():
    assert killed_in_a_change() == []


def test_planted_a_change_that_is_gone_by_unsynced_is_found(monkeypatch):
    monkeypatch.setattr(CatalogueWriter, "settle", lambda self, catalogue, with_space: catalogue)
    assert "of 2 there is 1" in killed_in_a_change()


@pytest.mark.parametrize(
    ("state", "broken"),
    [
        (TopicState.CREATING, "directories that are no partition's"),
        (TopicState.GROWING, "directories that are no partition's"),
        (TopicState.DELETING, "there is no segment"),
    ],
)
def test_planted_directories_that_change_unannounced_are_found(monkeypatch, state, broken):
    unannounced(monkeypatch, state)
    find(broken)


def test_planted_an_entry_that_goes_before_its_directories_is_found(monkeypatch):
    honest = Topics._remove_locked

    def remove(self, doomed):
        self._save_locked(dict.fromkeys(doomed))
        honest(self, doomed)

    monkeypatch.setattr(Topics, "_remove_locked", remove)
    find("small: found .*, expected one of .*None")


def test_planted_names_in_the_root_that_are_never_synced_are_found(monkeypatch):
    honest = Directory.sync
    monkeypatch.setattr(Directory, "sync", lambda self: honest(self) if "-" in self.path else None)
    find("topics after another power cut: found {}")


def test_planted_checkpoints_of_what_is_not_synced_are_found(monkeypatch):
    honest = LogMaintenance.facts
    monkeypatch.setattr(
        LogMaintenance, "facts", lambda face: honest(face)._replace(recovery_point=face.log.log_end_offset + 1)
    )
    find("checkpoint .* above the end")


def test_planted_checkpoints_that_a_truncation_leaves_are_found(monkeypatch):
    assert truncated_checkpoints() == []
    monkeypatch.setattr(Root, "withdraw", lambda self: None)
    found = truncated_checkpoints()
    assert found
    assert all(re.search("checkpoint .* above the end", each) for each in found), found


def truncated_checkpoints() -> list[str]:
    """Checkpoints above what is promised, where a log is cut below them and the power fails."""
    disk = SimDisk()
    found = []
    with open_store(disk) as store:
        topic = store.create_topic("flights", 1)
        for _ in range(6):
            topic.append(b"one", ack="synced")
        store.housekeep()
        disk.keep_moments()
        topic[0].replica.truncate_to(3)
        topic.append(b"another", ack="written")
        for moment in disk.moments():
            try:
                check_checkpoints(moment.crash("none"), [TopicPartition("flights", 0)])
            except AssertionError as error:
                found.append(str(error))
    return found


# -- every operation fails in turn


FAULTS = {
    "EIO": ("change", {"errno": errno.EIO}),
    "ENOSPC": ("change", {"errno": errno.ENOSPC}),
    "short, then ENOSPC": ("pwrite", {"errno": errno.ENOSPC, "short": 7}),
    "ENOSPC for good": ("change", {"errno": errno.ENOSPC, "times": -1}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_change_fails_in_turn_and_topics_stay_whole(fault):
    op, plan = FAULTS[fault]
    whole = SimDisk()
    StoreWorkload(whole).run(moments=False)
    count = whole.changes if op == "change" else whole.counts()[op]
    assert count > 100
    failed = 0
    for nth in range(1, count + 1, 3 if "for good" not in fault else 7):
        disk = SimDisk(nth)
        disk.fail(op, nth, **plan)
        workload = StoreWorkload(disk)
        try:
            ended = workload.run_with_faults(stubborn=bool(nth % 2))
            failed += workload.failures > 0
            undecided = ended.removeprefix("create ")
            # Nothing restores names that a failed sync of a directory has lost; see durability.md.
            claims = "for good" not in fault and all("." in path for _, path, _ in disk.fired())
            workload.disk.heal()
            check(workload.disk.kill(), workload.view, workload.view, write_on=claims, undecided=undecided)
            if claims:
                check(workload.disk.crash("none"), workload.view, workload.view)
        except (AssertionError, LogstoreError) as error:
            pytest.fail(f"{fault} at {op} {nth}, {disk.fired()}: {error!r}")
        finally:
            workload.abandon()
    print(f"{fault}: {count} calls, {failed} workloads had a failed step")
    assert failed > count // 30 if "for good" not in fault else failed
