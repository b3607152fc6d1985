"""Compaction beside others who do it, its memory with ten million keys, and what appends lose to it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import peers
import pytest
import records
from interleave import Bar, Runner, Target, race
from runners import COPY_AND_SUM

import logstore
from logstore import Log
from logstore.log.compaction.compaction import Compacted
from logstore.store.maintenance.tasks import Throttle

SIZE, PER_BATCH, BATCHES = 100, 1_000, 200


class NaiveCompactor:
    """What one writes first: framed keys and values in a file, a dict of where the newest ones are, a copy."""

    def __init__(self, directory: Path, rows: list[tuple[bytes, bytes]]) -> None:
        self.path, self.kept = directory / "log", 0
        pack = struct.Struct(">II").pack
        self.path.write_bytes(b"".join(pack(len(key), len(value)) + key + value for key, value in rows))

    def compact(self) -> int:
        data, position, newest = self.path.read_bytes(), 0, {}
        unpack, end = struct.Struct(">II").unpack_from, len(data)
        while position < end:
            key_size, value_size = unpack(data, position)
            newest[data[position + 8 : position + 8 + key_size]] = position
            position += 8 + key_size + value_size
        with open(self.path.with_suffix(".new"), "wb", 1 << 20) as file:
            for position in sorted(newest.values()):
                file.write(data[position : position + 8 + sum(unpack(data, position))])
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.path.with_suffix(".new"), self.path)
        return len(newest)


class RocksCompactor:
    """RocksDB's own compaction of the same keys and values, by rocksdict, without compression."""

    def __init__(self, directory: Path, rows: list[tuple[bytes, bytes]]) -> None:
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.set_disable_auto_compactions(True)
        self.base = rocksdict.Rdict(str(directory / "rocks"), options)
        for start in range(0, len(rows), 100_000):
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key, value in rows[start : start + 100_000]:
                batch.put(key, value)
            self.base.write(batch)
            self.base.flush()

    def compact(self) -> int:
        self.base.compact_range(None, None)
        return peers.count_of(self.base.keys())


@pytest.mark.row("R3", "S6")
@pytest.mark.parametrize(("kind", "map_bytes"), [("one round", 64 << 20), ("several rounds", 4 << 20)])
def test_compaction(benchmark: Any, places: Any, kind: str, map_bytes: int) -> None:
    """A whole compaction, to the disk: of 1,000,000 records with 500,000 keys the newest of each is left.

    The naive file has all of it in memory and no CRC; what is fewer keys than the map holds takes one round.
    """
    total, keys = 1_000_000, 500_000
    values = records.values(SIZE, 20_000)
    rows = [(b"key-%012d" % (n * 7 % keys), values[n % len(values)]) for n in range(total)]
    rounds: list[int] = []

    def prepare() -> tuple[Path, Log]:
        place = places()
        log = Log.open(place / "race-0", cleanup_policy="compact", segment_bytes=32 << 20)
        for start in range(0, total, PER_BATCH):
            log.append(rows[start : start + PER_BATCH])
        log.maintenance.roll()
        log.flush()
        return place, log

    def check(state: tuple[Path, Log], done: Compacted) -> None:
        place, log = state
        rounds.append(done.rounds)
        assert log.scan().count() == keys
        assert (done.rounds > 3) == (kind == "several rounds"), done
        log.close()
        shutil.rmtree(place)

    def other(compactor: Callable[[Path, list[tuple[bytes, bytes]]], Any]) -> Runner:
        def prepare() -> tuple[Path, Any]:
            place = places()
            return place, compactor(place, rows)

        def check(state: tuple[Path, Any], kept: int) -> None:
            assert kept == keys
            state[1].__dict__.clear()  # closed with it
            shutil.rmtree(state[0])

        return Runner(lambda state: state[1].compact(), check, prepare)

    others = {"naive file and a dict": other(NaiveCompactor)}
    if importlib.util.find_spec("rocksdict"):
        others["rocksdict, compact_range"] = other(RocksCompactor)
    race(
        benchmark,
        Runner(lambda state: state[1].maintenance.compact(map_bytes=map_bytes), check, prepare, parts=COPY_AND_SUM),
        others,
        workload=f"compaction, half of {SIZE} B x {PER_BATCH:,} stays, {kind}",
        records=total,
        size=total * SIZE,
        touched=total * SIZE // 2,
        rounds=5,
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
log.maintenance.roll()
log.flush()
del keys
gc.collect()
pyarrow.default_memory_pool().release_unused()
def resident(word):
    return int(re.search(word + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e3
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
done = log.maintenance.compact(map_bytes=int(sys.argv[3]))
assert (done.rounds == 1) == (sys.argv[4] == "1"), done
peak = resident("VmHWM")
assert log.scan().count() == count
print(json.dumps(peak - before), flush=True)
os._exit(0)
"""


@pytest.mark.row("R3", "S9")
@pytest.mark.parametrize(
    ("count", "map_mib", "rounds", "bar"), [(10_000_000, 280, "1", 300), (3_000_000, 16, "several", 40)]
)
def test_memory_of_ten_million_keys(
    benchmark: Any, places: Any, count: int, map_mib: int, rounds: str, bar: int
) -> None:
    """Records each with a key of its own of 16 bytes, in a process of its own, in one round and in several."""
    found: list[float] = []

    def work(place: Path) -> float:
        words = [sys.executable, "-c", MEMORY, str(place), str(count), str(map_mib << 20), rounds]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return float(json.loads(done.stdout))

    def check(place: Path, megabytes: float) -> None:
        found.append(megabytes)
        shutil.rmtree(place)

    race(
        benchmark,
        Runner(work, check, places),
        {},
        workload=f"compaction, {count:,} distinct keys, map of {map_mib} MiB",
        records=count,
        size=0,
        targets=lambda _medians: [Target("memory over what there was", max(found), "MB", bar)],
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
            topic[0].maintenance.roll()
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
            assert log.maintenance.cleanable().first_dirty_offset > 0
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
