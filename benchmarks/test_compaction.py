"""Compaction: slices beside records written anew, memory of ten million keys, and what appends lose to it."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import records
from interleave import Bar, Runner, Target, race
from runners import COPY_AND_SUM, same

import logstore
from logstore import Batches, Log
from logstore._arrow_in import add_arrow
from logstore._batch import stamp
from logstore._columns import columns_of
from logstore._compact import Filter
from logstore._encode import Encoder, encode
from logstore._keymap import KeyMap
from logstore.store.upkeep import Throttle

SIZE, PER_BATCH, BATCHES = 100, 1_000, 200
TIMESTAMP = 1_700_000_000_000
NOW = 2 * TIMESTAMP


def keyed(number: int, group: list[bytes], *, tombstone: bool) -> bytes:
    """One batch; of its records every second one is to go. One tombstone has all that stay written anew."""
    rows = [(b"stays" if n % 2 else b"goes", value, TIMESTAMP + n) for n, value in enumerate(group)]
    if tombstone:
        rows[1] = (rows[1][0], None, rows[1][2])
    batch = bytearray(encode(rows, timestamp_ms=TIMESTAMP))
    stamp(batch, number * PER_BATCH, 0)
    return bytes(batch)


@pytest.mark.row("R3", "S6")
def test_slices_beside_records_written_anew(benchmark: Any) -> None:
    """Half of the records of every batch stay, in turn with those that go: the worst case for slices. There are
    two keys, so that the copying is measured and not the memory of a map.

    ``written anew`` is the same filter on the same records, with one tombstone a batch, whose delete horizon
    is a new base of all timestamp deltas. ``Arrow out and in`` takes every record apart into columns and puts
    those that stay together again, all of it compiled; what stays it is told.
    """
    pyarrow = pytest.importorskip("pyarrow")
    groups = records.groups(SIZE, PER_BATCH, BATCHES)
    plain = b"".join(keyed(n, group, tombstone=False) for n, group in enumerate(groups))
    marked = b"".join(keyed(n, group, tombstone=True) for n, group in enumerate(groups))
    total = PER_BATCH * BATCHES
    keys = KeyMap(480, bytes(16))
    keys.put(b"goes", total)
    keys.put(b"stays", 0)

    def filtering(data: bytes) -> Runner:
        def work(_state: None) -> tuple[int, int]:
            chosen = Filter(
                keys, known_offset=2 * total, now_ms=NOW, delete_retention_ms=1, level_of=lambda codec: 0
            )
            chosen.begin(0, [])
            position = 0
            while position < len(data):
                step, _ = chosen.run(data[position : position + (1 << 20)], 0, 4 * total, False)
                chosen.clear()
                position += step
            return chosen.records_kept, chosen.batches_rewritten

        return Runner(work, same((total // 2, BATCHES)), parts=COPY_AND_SUM)

    stays = pyarrow.array([n % 2 == 1 for n in range(PER_BATCH)])
    batches = [keyed(n, group, tombstone=False) for n, group in enumerate(groups)]

    def re_encode(_state: None) -> tuple[int, int]:
        encoder, kept = Encoder(), 0
        for batch in batches:
            table = pyarrow.record_batch(columns_of(Batches(batch), ["key", "value", "timestamp"])).filter(stays)
            encoder.begin(timestamp_ms=TIMESTAMP)
            add_arrow(encoder, table)
            encoder.finish()
            kept += encoder.record_count
        return kept, len(batches)

    race(
        benchmark,
        filtering(plain),
        {"written anew": filtering(marked), "Arrow out and in": Runner(re_encode, same((total // 2, BATCHES)))},
        workload=f"compaction, half of {SIZE} B x {PER_BATCH:,} stays",
        records=total,
        size=total * SIZE,
        bars={"Arrow out and in": Bar(1.2)},
        touched=total * SIZE // 2,
        codec="none",
    )


#: Resident memory over what the process had before, at its highest, in MB; and what the run has said.
MEMORY = """
import gc, json, os, re, sys
import pyarrow
from logstore import Log
count, step = int(sys.argv[2]), 100_000
log = Log.open(sys.argv[1] + "/t-0", cleanup_policy="compact", segment_bytes=64 << 20)
for first in range(0, count, step):
    keys = pyarrow.array([b"%016d" % n for n in range(first, first + step)], pyarrow.binary())
    log.append(pyarrow.table({"key": keys, "value": keys}))
log.roll()
log.flush()
del keys
gc.collect()
pyarrow.default_memory_pool().release_unused()
def resident(word):
    return int(re.search(word + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e3
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
done = log.compact(map_bytes=280 << 20)
assert done.rounds == 1 and done.records_kept == count, done
print(json.dumps(resident("VmHWM") - before), flush=True)
os._exit(0)
"""


@pytest.mark.row("R3", "S9")
def test_memory_of_ten_million_keys(benchmark: Any, places: Any) -> None:
    """One round over ten million records, each with a key of its own of 16 bytes, in a process of its own."""
    count, found = 10_000_000, []

    def work(place: Path) -> float:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(place), str(count)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return float(json.loads(done.stdout))

    def check(place: Path, megabytes: float) -> None:
        found.append(megabytes)
        shutil.rmtree(place)

    race(
        benchmark,
        Runner(work, check, places),
        {},
        workload=f"compaction, {count:,} distinct keys",
        records=count,
        size=0,
        targets=lambda _medians: [Target("memory over what there was", max(found), "MB", 300)],
        rounds=1,
        unit="s in all",
        codec="none",
    )


STOCK = 600  #: batches: so much that a compaction outlasts the appends beside it


@pytest.mark.row("R3", "S6")
def test_appends_while_a_compaction_runs(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same appends to two logs; one is being compacted by its store, half of what it holds is replaced.

    Beside it stands what the compaction loses to them: how many times as long as alone it takes for each byte
    while these appends run, and from end to end beside a trickle of 100 records a second to another topic.
    In memory where there is such a place: on one disk both are mostly waiting for what the other has written.
    """
    above = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def places() -> Path:
        return Path(tempfile.mkdtemp(dir=above))

    live = [[(b"live", value) for value in group] for group in records.groups(SIZE, 100, 4_000)]
    stock = records.groups(SIZE, PER_BATCH, STOCK)
    old = [[(b"key-%06d" % (n * 7 % 300_000), value) for n, value in enumerate(group)] for group in stock]

    def prepared() -> Iterator[logstore.Store]:
        while True:
            store = logstore.open(places() / "data", housekeeping="manual", segment_bytes=48 << 20)
            topic = store.create_topic("race", 1, cleanup_policy="compact", max_compaction_lag_ms=1)
            for number, group in enumerate(old):
                topic.append_many([(b"%d" % (number // 2) + key, value) for key, value in group])
            topic[0].roll()
            store.flush()
            yield store

    fresh = prepared()
    passed = 0
    honest = Throttle.__call__

    def counted(self: Throttle, byte_count: int) -> None:
        nonlocal passed
        passed += byte_count
        honest(self, byte_count)

    monkeypatch.setattr(Throttle, "__call__", counted)

    def compaction(*, trickles: bool) -> float:
        """Seconds a byte of a whole compaction."""
        store = next(fresh)
        topic, ended, before = store.create_topic("trickle"), threading.Event(), passed

        def trickle() -> None:
            while not ended.wait(0.01):
                topic.append(b"%*d" % (SIZE, 1))

        thread = threading.Thread(target=trickle)
        if trickles:
            thread.start()
        started = time.perf_counter()
        store.housekeep()
        seconds = time.perf_counter() - started
        ended.set()
        if trickles:
            thread.join()
        store.close()
        shutil.rmtree(Path(store.path).parent)
        return seconds / (passed - before)

    during: list[tuple[float, int]] = []  # seconds of the appends, and what the compaction got through meanwhile

    def alone() -> tuple[logstore.Store, Log, None]:
        store = next(fresh)
        return store, cast("Log", store["race"][0]), None

    def beside() -> tuple[logstore.Store, Log, threading.Thread]:
        store, log, _ = alone()
        thread = threading.Thread(target=store.housekeep)
        thread.start()
        # Before it has begun to read there is nothing to be beside.
        while not log._state.compacting.locked():
            thread.join(0.001)
        return store, log, thread

    def work(state: Any) -> int:
        append, before, started = state[1].append, passed, time.perf_counter()
        for group in live:
            append(group)
        if state[2] is not None:
            during.append((time.perf_counter() - started, passed - before))
        return state[1].log_end_offset

    def targets(_medians: dict[str, float]) -> Iterator[Target]:
        own = statistics.median(compaction(trickles=False) for _ in range(3))
        beside_trickle = statistics.median(compaction(trickles=True) for _ in range(3))
        beside_appends = sum(seconds for seconds, _ in during) / max(sum(size for _, size in during), 1)
        yield Target("the compaction's slow-down beside them", beside_appends / own, "x", 20)
        yield Target("the compaction's slow-down beside 100 appends/s", beside_trickle / own, "x", 1.5)

    def check(state: Any, end: int) -> None:
        store, log, thread = state
        if thread is not None:
            assert thread.is_alive(), "the compaction was through before the appends were"
            thread.join()
            assert log.cleanable().first_dirty_offset > 0
        assert end == PER_BATCH * STOCK + 100 * len(live)
        store.close()
        shutil.rmtree(Path(store.path).parent)

    race(
        benchmark,
        Runner(work, check, beside, parts=COPY_AND_SUM),
        {"nothing beside": Runner(work, check, alone, parts=COPY_AND_SUM)},
        workload=f"append {SIZE} B x 100 beside a compaction",
        records=100 * len(live),
        size=100 * len(live) * SIZE,
        targets=targets,
        bars={"nothing beside": Bar(0.9)},
        codec="none",
    )
