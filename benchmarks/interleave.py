"""Races: ours and its references take turns in one run, so that their ratio survives a noisy machine.

A runner prepares (not timed), works (timed) and is checked (not timed) in every round. pytest-benchmark times
ours; the others run in the set-up of each of its rounds. For each of them there is the ratio of the medians,
its time over ours, and how far the ratios of single rounds lie apart. What is no ratio (memory, appends in one
sync) is a `Target`. Nothing is asserted about time, with one exception: a rate above what the machine can copy
or sum cannot be true, so the benchmark is broken.
"""

from __future__ import annotations

import functools
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from logstore.batch._crc32c import crc32c


class BrokenBenchmarkError(AssertionError):
    """A rate that cannot be: the work was not done, or its size is wrong."""


@dataclass(frozen=True)
class Runner:
    """One competitor. ``work`` gets what ``prepare`` made; ``check`` gets both and raises if it is wrong.

    ``parts`` names what it must do at least with each byte, "memcpy" or "crc"; ``share`` is the share of the
    work that it does, where all of it would take too long: its time is scaled up.
    """

    work: Callable[[Any], Any]
    check: Callable[[Any, Any], None]
    prepare: Callable[[], Any] = lambda: None
    parts: tuple[str, ...] = ("memcpy",)
    share: float = 1.0


@dataclass(frozen=True)
class Bar:
    """Which ratio is wanted over a reference: its time over ours, so that more is better."""

    first: float
    stretch: float | None = None


@dataclass(frozen=True)
class Target:
    """A figure of ours that is no ratio, with its bar; `at_most` says that less is better."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    stretch: float | None = None
    at_most: bool = True
    reference: str = ""  #: what it is to be seen beside, measured in the same run


def verdict(value: float, bar: float | None, stretch: float | None, *, at_most: bool = False) -> str:
    """Whether a bar is met: "stretch", "yes", "no", or "" where there is none."""
    if bar is None:
        return ""
    sign = -1 if at_most else 1
    if stretch is not None and sign * value >= sign * stretch:
        return "stretch"
    return "yes" if sign * value >= sign * bar else "no"


def race(
    benchmark: Any,
    ours: Runner,
    peers: Mapping[str, Runner],
    *,
    workload: str,
    records: int,
    size: int,
    bars: Mapping[str, Bar | float] | None = None,
    targets: Callable[[dict[str, float]], Iterable[Target]] = lambda _medians: (),
    touched: int | None = None,
    rounds: int = 7,
    **facts: Any,
) -> None:
    """Run all in turn and leave the ratios in ``benchmark.extra_info``.

    ``size`` is in bytes of user data; ``targets`` gets the medians in seconds by name, "ours" among them;
    ``touched`` is how many bytes each runner must at least have copied or summed, if not ``size``.
    """
    times: dict[str, list[float]] = {name: [] for name in peers}
    pending: list[tuple[Any, Any]] = []
    wanted = {name: bar if isinstance(bar, Bar) else Bar(bar) for name, bar in (bars or {}).items()}

    def check_ours() -> None:
        while pending:
            ours.check(*pending.pop())

    def before_each_round() -> tuple[tuple[Any], dict[str, Any]]:
        check_ours()
        for name, peer in peers.items():
            state = peer.prepare()
            gc.collect()
            started = time.perf_counter()
            result = peer.work(state)
            times[name].append((time.perf_counter() - started) / peer.share)
            peer.check(state, result)
        state = ours.prepare()
        # Else the objects of earlier rounds are collected in the middle of one: 100 ms, with those of the tests.
        gc.collect()
        return (state,), {}

    def work(state: Any) -> None:
        pending.append((state, ours.work(state)))

    # A row of one round is long, or a process of its own: a warm-up would double its time.
    benchmark.pedantic(work, setup=before_each_round, rounds=rounds, warmup_rounds=min(1, rounds - 1))
    check_ours()
    if benchmark.stats is None:  # --benchmark-disable: run once, not timed
        return
    own = benchmark.stats.stats.data
    median = statistics.median(own)
    moved = size if touched is None else touched
    check_rate(workload, moved / median, ours.parts)
    found = {}
    for name, seconds in times.items():
        seconds = seconds[-len(own) :]
        paired = [theirs / mine for theirs, mine in zip(seconds, own, strict=True)]
        peer_median = statistics.median(seconds)
        check_rate(f"{workload}: {name}", moved / peer_median, peers[name].parts)
        ratio, bar = peer_median / median, wanted.get(name)
        found[name] = {
            "seconds": peer_median,
            "ratio": ratio,
            "lowest": min(paired),
            "highest": max(paired),
            "bar": bar and bar.first,
            "stretch": bar and bar.stretch,
            "met": verdict(ratio, bar.first, bar.stretch) if bar else "",
        }
    aims = [
        {**vars(target), "met": verdict(target.value, target.bar, target.stretch, at_most=target.at_most)}
        for target in targets({"ours": median, **{name: peer["seconds"] for name, peer in found.items()}})
    ]
    benchmark.extra_info.update(
        workload=workload,
        records=records,
        bytes=size,
        seconds=median,
        peers=found,
        targets=aims,
        ceiling_bytes_per_s=ceiling(ours.parts),
        **facts,
    )


# --- what the machine can do at best -----------------------------------------------------------


def check_rate(what: str, bytes_per_s: float, parts: tuple[str, ...]) -> None:
    """Refuse a rate that is above the ceiling of the parts of the work.

    Raises:
        BrokenBenchmarkError: it is, also when the ceiling is measured a second time.
    """
    if bytes_per_s <= ceiling(parts):
        return
    # The machine may have been busy when it was measured.
    part_seconds.cache_clear()
    if bytes_per_s > (limit := ceiling(parts)):
        raise BrokenBenchmarkError(
            f"broken benchmark: {what} at {bytes_per_s / 1e9:.1f} GB/s; this machine does {' and '.join(parts)} "
            f"at {limit / 1e9:.1f} GB/s and no faster"
        )


def ceiling(parts: tuple[str, ...]) -> float:
    """Bytes a second if the parts were all there is to do; no work with these parts is faster."""
    return 1 / sum(part_seconds(part) for part in parts)


@functools.cache
def part_seconds(part: str) -> float:
    """Seconds a byte of one part, in the caches and in long pieces, at best."""
    source = bytes(range(256)) * 64
    target = bytearray(len(source))

    def copy() -> None:
        target[:] = source

    work: Callable[[], object] = {"memcpy": copy, "crc": lambda: crc32c(source)}[part]
    fastest = 1.0
    for _ in range(10):
        started = time.perf_counter()
        for _ in range(2_000):
            work()
        fastest = min(fastest, time.perf_counter() - started)
    return fastest / (2_000 * len(source))
