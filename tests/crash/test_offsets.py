"""Committed offsets through power cuts and disk faults: what was synced is there, and a commit is never halved."""

from __future__ import annotations

import errno
import random

import pytest

import logstore
from logstore.errors import LogstoreError
from logstore.records import TopicPartition
from logstore.store.committed_offsets import CommittedOffsets
from logstore.testing import ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from logstore.topic_names import CONSUMER_OFFSETS
from tests.crash.planted import must_break

pytestmark = [
    pytest.mark.crash,
    pytest.mark.row("C15"),
    pytest.mark.row("C11", part="one process"),
    pytest.mark.row("S20", part="killed processes"),
]

PLACES = [TopicPartition("flights", n) for n in range(3)]
GROUPS = ("crew", "tower")

#: group -> partition -> offset, as it was after each commit.
State = dict[str, dict[TopicPartition, int]]


def commits(seed: int, count: int):
    """Commits of two groups, deletions among them: (group, offsets or None, ack)."""
    rng = random.Random(seed)
    for n in range(1, count + 1):
        group = rng.choice(GROUPS)
        if n > 5 and rng.random() < 0.15:
            yield group, None, "written"
        else:
            # Every partition gets the same offset, so that half a commit would show.
            yield group, dict.fromkeys(PLACES, n), rng.choice(["written", "synced"])


def begin(disk: SimDisk):
    store = logstore.open("/r", files=disk, clock=ManualClock())
    store.create_topic("flights", 3)
    return store


def live(store, disk: SimDisk, seed: int, history: list[State], promised: list[tuple[int, int]]) -> None:
    """Commit one after the other; ``history`` grows with each, ``promised`` when something is synced."""
    began = disk.operations
    for group, offsets, ack in commits(seed, 25):
        state = {name: dict(found) for name, found in history[-1].items()}
        if offsets is None:
            state[group] = {}
        else:
            state[group] = offsets
        # Known before the call: a power cut inside it may leave it done.
        history.append(state)
        if offsets is None:
            store.offsets.delete(group)
        else:
            store.commit_offsets(group, offsets, ack=ack)
            if ack == "synced":
                promised.append((disk.operations - began, len(history) - 1))


def found_in(store) -> State:
    offsets = CommittedOffsets(store._host)
    return {g: {place: commit.offset for place, commit in offsets.committed(g).items()} for g in GROUPS}


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_leaves_whole_commits_and_all_that_were_synced(seed):
    assert examine(seed) > 60


def examine(seed: int, plant=lambda disk: None) -> int:
    """Cut the power at every moment; how many different states of the disk there were."""
    disk, rng = SimDisk(seed), random.Random(seed)
    history: list[State] = [{group: {} for group in GROUPS}]
    promised = [(0, 0)]
    with begin(disk) as store:
        plant(disk)
        disk.keep_moments()
        live(store, disk, seed, history, promised)
    states = set()
    for number, moment in enumerate(disk.moments(), 1):
        least = max(count for when, count in promised if when <= number)
        for policy in POLICIES:
            after = moment.crash(policy, seed=rng.getrandbits(32), page_bytes=64)
            if (key := (after.state_hash(), least)) in states:
                continue
            states.add(key)
            with logstore.open("/r", files=after, clock=ManualClock()) as again:
                found = found_in(again)
                assert found in history[least:], f"moment {number}, {policy}: {found}, promised {history[least]}"
                again.commit_offsets("crew", {PLACES[0]: 99}, ack="synced")
            with logstore.open("/r", files=after.crash("none"), clock=ManualClock()) as last:
                assert found_in(last) == {**found, "crew": {**found["crew"], PLACES[0]: 99}}
    return len(states)


def test_planted_commits_that_are_not_synced_are_found():
    def plant(disk: SimDisk) -> None:
        disk.fail("fdatasync", errno=0, times=-1, path_contains="__consumer_offsets")

    must_break("moment .*, promised", lambda: examine(0, plant))


@pytest.mark.parametrize("fault", [errno.EIO, errno.ENOSPC])
def test_each_call_fails_in_turn_and_no_commit_is_halved(fault):
    """An error is told, nothing of its commit counts, and what was synced before is there after a power cut."""
    whole = SimDisk()
    history: list[State] = [{group: {} for group in GROUPS}]
    with begin(whole) as store:
        live(store, whole, 1, history, [(0, 0)])
    count = whole.counts()["pwrite"] + whole.counts()["fdatasync"]
    outcomes = {"done": 0, "refused": 0}
    for nth in range(1, count):
        disk = SimDisk(nth)
        disk.fail("change", nth=nth, errno=fault, path_contains=CONSUMER_OFFSETS)
        history, promised = [{group: {} for group in GROUPS}], [(0, 0)]
        store = begin(disk)
        try:
            live(store, disk, 1, history, promised)
            outcomes["done"] += 1
        except LogstoreError:
            outcomes["refused"] += 1
        try:
            store.close()
        except LogstoreError:
            # A log that has failed is closed all the same.
            assert store._host.closed
        least = promised[-1][1]
        with logstore.open("/r", files=disk.crash("none"), clock=ManualClock()) as again:
            assert found_in(again) in history[least:]
    assert outcomes["refused"] > 10
