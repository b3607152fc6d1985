"""Appends and reads at the tail do not care how much is stored before them: a log of 100 GB beside one of 1 GB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import records
from interleave import Bar, Runner, race
from runners import COPY_AND_SUM

from logstore import Log
from tests.kit import vast

SIZE, PER_BATCH, BATCHES = 100, 100, 2_000


@pytest.mark.row("S16")
@pytest.mark.parametrize("kind", ["append", "tail read"])
def test_speed_at_1_gb_and_at_100_gb(benchmark: Any, places: Any, kind: str) -> None:
    """Old bodies are holes; headers, indexes and whatever is written and read here are real."""
    batches = records.groups(SIZE, PER_BATCH, BATCHES)

    def opened(segments: int) -> Log:
        partition: Path = places() / "t-0"
        vast.build(partition, segments=segments)
        log = Log.open(partition, retention_ms=-1)
        assert log.maintenance.was_clean
        assert log.metrics().size == segments * vast.GIB
        return log

    def appending(log: Log) -> Runner:
        end = log.log_end_offset

        def work(_state: None) -> None:
            for batch in batches:
                log.append(batch)

        def check(_state: None, _result: None) -> None:
            assert log.scan(end).count() == PER_BATCH * BATCHES
            log.replica.truncate_to(end)

        return Runner(work, check, parts=COPY_AND_SUM)

    def reading(log: Log) -> Runner:
        first = log.log_end_offset
        for batch in batches:
            log.append(batch)
        log.flush()
        end = log.log_end_offset

        def work(_state: None) -> int:
            """As a consumer that keeps up: one batch a call, then the next."""
            count, offset = 0, first
            while offset < end:
                found = log.read(offset, max_bytes=1)
                count += len(found.values())
                offset = found.next_offset
            return count

        def check(_state: None, count: int) -> None:
            assert count == PER_BATCH * BATCHES

        return Runner(work, check)

    with opened(1) as one, opened(100) as hundred:
        runner = appending if kind == "append" else reading
        race(
            benchmark,
            runner(hundred),
            {"the same at 1 GB": runner(one)},
            workload=f"{kind} {SIZE} B x {PER_BATCH} at 100 GB",
            records=PER_BATCH * BATCHES,
            size=PER_BATCH * BATCHES * SIZE,
            bars={"the same at 1 GB": Bar(0.9)},
            rounds=15,
            codec="none",
        )
