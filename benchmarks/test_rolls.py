"""Rolls and deletions: how long appends take while segments are sealed, synced and begun, or deleted."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from typing import Any

import pytest
from interleave import Runner, Target, race

from logstore import Log
from logstore.batch._encode import encode
from logstore.config.log import LogConfig

SEGMENT = 1 << 30
ROLLS = 3
DELETIONS = 2
VALUE = b"v" * 1_000


def worst(latencies: list[float], share: float = 0.999) -> float:
    """Return the latency, in ms, that this share of the calls does not exceed."""
    return statistics.quantiles(latencies, n=1_000)[round(share * 1_000) - 1] * 1e3


@pytest.mark.row("S1", part="appends beside rolls")
def test_appends_while_another_partition_rolls(benchmark: Any, places: Any) -> None:
    """One thread fills segments of 1 GiB as fast as it can; another appends records, and turns of ten batches."""
    place = places()
    batch = encode([b"x" * 1_000] * 1_000, timestamp_ms=1)
    turn = [encode([VALUE], timestamp_ms=1)] * 10
    settings = LogConfig(retention_ms=-1, message_timestamp_before_max_ms=1 << 62)
    done = threading.Event()
    appends: list[float] = []
    turns: list[float] = []

    def fill() -> None:
        with Log.open(place / "full-0", settings, segment_bytes=SEGMENT) as log:
            while log.metrics().counters["rolls"] < ROLLS:
                for _ in range(50):
                    log.replica.append_batch(batch)
            log.delete_before(log.log_end_offset)
        done.set()

    def measure() -> None:
        done.clear()  # a round before this one warms up
        appends.clear()
        turns.clear()
        filler = threading.Thread(target=fill)
        with Log.open(place / "other-0", settings, segment_bytes=16 << 20) as log:
            log.append([VALUE])
            filler.start()
            while not done.is_set():
                for _ in range(20):
                    began = time.perf_counter()
                    log.append([VALUE])
                    appends.append(time.perf_counter() - began)
                began = time.perf_counter()
                log.replica.append_turn(turn)
                turns.append(time.perf_counter() - began)
                # About 20,000 records a second: a writer that does not fill the disk itself.
                time.sleep(0.001)
            assert log.log_end_offset == 1 + len(appends) + 10 * len(turns)
        filler.join()

    def targets(_medians: dict[str, float]) -> list[Target]:
        return [
            Target("p99.9 of an append", worst(appends), "ms", 5),
            Target("p99.9 of a turn of ten batches", worst(turns), "ms", 20),
        ]

    race(
        benchmark,
        Runner(lambda _: measure(), lambda _state, _result: shutil.rmtree(place)),
        {},
        workload=f"append {len(VALUE):,} B beside {ROLLS} rolls of 1 GiB segments at full speed",
        records=0,
        size=ROLLS * SEGMENT,
        targets=targets,
        rounds=1,
        unit="s in all",
        codec="none",
    )


@pytest.mark.row("S18", part="appends beside deletions")
def test_appends_while_their_own_log_deletes(benchmark: Any, places: Any) -> None:
    """One thread appends records to a log; another has retention delete sealed segments of it, 1 GiB at a time.

    The longest append is the file system's: ext4 holds a write back while it frees the blocks of a large file.
    """
    place = places()
    batch = encode([b"x" * 1_000] * 1_000, timestamp_ms=1)
    settings = LogConfig(retention_ms=-1, message_timestamp_before_max_ms=1 << 62)
    appends: list[float] = []
    deletions: list[float] = []

    def retain(log: Log, done: threading.Event) -> None:
        for left in range(DELETIONS - 1, -1, -1):
            log.maintenance.reconfigure(retention_bytes=left * SEGMENT + SEGMENT // 2)
            began = time.perf_counter()
            assert log.maintenance.retain().deleted_segments
            deletions.append(time.perf_counter() - began)
        done.set()

    def measure() -> None:
        done = threading.Event()
        appends.clear()  # a round before this one warms up
        deletions.clear()
        with Log.open(place / "own-0", settings, segment_bytes=SEGMENT // 4) as log:
            while log.metrics().size < DELETIONS * SEGMENT:
                for _ in range(50):
                    log.replica.append_batch(batch)
            log.flush()
            deleter = threading.Thread(target=retain, args=(log, done))
            deleter.start()
            while not done.is_set() or len(appends) < 2_000:
                began = time.perf_counter()
                log.append([VALUE])
                appends.append(time.perf_counter() - began)
            deleter.join()

    def targets(_medians: dict[str, float]) -> list[Target]:
        return [
            Target("p99.9 of an append", worst(appends), "ms", 5),
            Target("longest append", max(appends) * 1e3, "ms", 200),
            Target("longest deletion of 1 GiB", max(deletions) * 1e3, "ms", 10_000),
        ]

    race(
        benchmark,
        Runner(lambda _: measure(), lambda _state, _result: shutil.rmtree(place)),
        {},
        workload=f"append {len(VALUE):,} B beside {DELETIONS} deletions of 1 GiB of the same log",
        records=0,
        size=DELETIONS * SEGMENT,
        targets=targets,
        rounds=1,
        unit="s in all",
        codec="none",
    )
