"""The write strategies beside each other, and beside `write` of bytes that are ready.

What `docs/decisions/0006-write-strategies.md` quotes. The default is ours here; the others are its references.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import records
from interleave import race
from runners import Ours, appending, log_bytes, raw_writing


@pytest.mark.row("S6", "S14")
@pytest.mark.parametrize(
    "size, per_batch, count",
    [(100, 100, 3_000), (1_000, 60, 1_500), (1_000, 1_000, 150)],
    ids=["11 KB", "60 KB", "1 MB"],
)
def test_strategies(benchmark: Any, places: Any, size: int, per_batch: int, count: int) -> None:
    """Not synced; a ratio above 1 says how much dearer the other way to grow the file is."""
    batches = records.groups(size, per_batch, count)
    pieces = log_bytes(places, batches)

    def kind(strategy: str) -> Any:
        return appending(functools.partial(Ours, write_strategy=strategy), places, batches)

    race(
        benchmark,
        kind("preallocate"),
        {
            "extend": kind("extend"),
            "chunked, 64 KiB": kind("chunked"),
            "raw write": raw_writing(places, pieces),
        },
        workload=f"write strategies, appends of {len(pieces[0]):,} B",
        records=per_batch * count,
        size=per_batch * count * size,
        rounds=7,
        codec="none",
        output_bytes=sum(map(len, pieces)),
    )
