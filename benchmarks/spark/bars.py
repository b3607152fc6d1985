"""Which figures are wanted, and whether they are met. Each is made from the medians of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.spark import contenders as c
from benchmarks.spark import sinks as s

#: Seconds of the passes, by operation and contender.
Passes = Mapping[str, Mapping[str, list[float]]]


class Bar(NamedTuple):
    """``first`` over ``second``, or less than it with `at_most`."""

    what: str
    value: float
    bar: float
    unit: str = "x"
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.value <= self.bar if self.at_most else self.value >= self.bar


#: Operation, the one that is to be quicker, the one beside it, by how many times.
QUICKER = [
    ("scan", c.PATH, c.KAFKA, 3.0),
    ("group", c.PATH, c.KAFKA, 2.5),
    ("copy", c.PATH, c.KAFKA, 1.6),
    ("scan", c.BOOTSTRAP_FULL, c.KAFKA_FULL, 2.5),
    ("group", c.BOOTSTRAP_FULL, c.KAFKA_FULL, 2.0),
    ("copy", c.BOOTSTRAP_FULL, c.KAFKA_FULL, 1.5),
    ("scan", c.PATH, c.PARQUET, 0.5),
    ("value", c.PATH_COLUMNS, c.PARQUET, 0.45),
    ("available", c.PATH, c.KAFKA, 1.6),
    ("available", c.BOOTSTRAP, c.KAFKA, 1.6),
    ("sink", s.EXACTLY, s.KAFKA, 2.0),
    ("sink", s.EXACTLY, s.KAFKA_TUNED, 2.0),
    ("stream sink", s.EXACTLY, s.KAFKA, 2.0),
    ("stream sink", s.EXACTLY, s.KAFKA_TUNED, 2.0),
]

#: A small batch may take so many milliseconds more than the connector's, and finding the end so many in all.
SMALL_BATCH_MS = 80
LATEST_OFFSET_MS = 5

EXACTLY_ONCE_COST = 1.5

#: A scan of everything may take so much more memory than that of half; of 4 M records a task then reads some 55 MB
#: more.
MEMORY_MIB = 32


def bars(
    medians: Mapping[str, Mapping[str, float]], small: Mapping[str, Any], memory: Mapping[str, Any]
) -> Iterator[Bar]:
    """Those that this run has the figures for."""
    for operation, ours, theirs, wanted in QUICKER:
        found = medians.get(operation, {})
        if ours in found and theirs in found:
            yield Bar(f"{operation}: {ours} / {theirs}", found[theirs] / found[ours], wanted)
    for operation in ("sink", "stream sink"):
        found = medians.get(operation, {})
        if s.EXACTLY in found and s.AT_LEAST in found:
            cost = found[s.EXACTLY] / found[s.AT_LEAST]
            yield Bar(f"{operation}: cost of exactly once", cost, EXACTLY_ONCE_COST, at_most=True)
    for name in (c.PATH, c.BOOTSTRAP):
        if name in small and c.KAFKA in small:
            more = small[name]["triggerExecution"] - small[c.KAFKA]["triggerExecution"]
            yield Bar(f"small batch: {name} above {c.KAFKA}", more, SMALL_BATCH_MS, "ms", at_most=True)
        if name in small:
            latest = small[name]["latestOffset"]
            yield Bar(f"small batch: {name}, latestOffset", latest, LATEST_OFFSET_MS, "ms", at_most=True)
    for name, peaks in memory.items():
        more = peaks["all"] - peaks["half"]
        yield Bar(f"memory: {name}, all above half", more, MEMORY_MIB, "MiB", at_most=True)
