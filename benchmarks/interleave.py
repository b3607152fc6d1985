"""Races: ours and its peers take turns in one run, so that their ratio survives a noisy machine.

A runner prepares (not timed), works (timed) and is checked (not timed) in every round. pytest-benchmark times
ours; the peers run in the set-up of each of its rounds. Per peer there is the ratio of the medians, peer's
time over ours, and how far the ratios of single rounds lie apart. Nothing is asserted about time, with one
exception: a rate above what the machine can copy or sum cannot be true, so the benchmark is broken.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from logstore._crc32c import crc32c


@dataclass(frozen=True)
class Runner:
    """One competitor. ``work`` gets what ``prepare`` made; ``check`` gets both and raises if it is wrong."""

    work: Callable[[Any], Any]
    check: Callable[[Any, Any], None]
    prepare: Callable[[], Any] = lambda: None


def race(
    benchmark: Any,
    ours: Runner,
    peers: Mapping[str, Runner],
    *,
    workload: str,
    records: int,
    size: int,
    bars: Mapping[str, float] | None = None,
    touched: int | None = None,
    rounds: int = 7,
    **facts: Any,
) -> None:
    """Run all in turn and leave the ratios in ``benchmark.extra_info``.

    ``size`` is in bytes of user data; ``bars`` says which ratio is wanted over which peer; ``touched`` is
    how many bytes ours must at least have copied or summed, if not ``size``.
    """
    times: dict[str, list[float]] = {name: [] for name in peers}
    pending: list[tuple[Any, Any]] = []

    def check_ours() -> None:
        while pending:
            ours.check(*pending.pop())

    def before_each_round() -> tuple[tuple[Any], dict[str, Any]]:
        check_ours()
        for name, peer in peers.items():
            state = peer.prepare()
            started = time.perf_counter()
            result = peer.work(state)
            times[name].append(time.perf_counter() - started)
            peer.check(state, result)
        return (ours.prepare(),), {}

    def work(state: Any) -> None:
        pending.append((state, ours.work(state)))

    benchmark.pedantic(work, setup=before_each_round, rounds=rounds, warmup_rounds=1)
    check_ours()
    if benchmark.stats is None:  # --benchmark-disable: run once, not timed
        return
    own = benchmark.stats.stats.data
    median = statistics.median(own)
    rate = (size if touched is None else touched) / median
    if rate > (limit := ceiling()):
        raise AssertionError(
            f"broken benchmark: {workload} at {rate / 1e9:.1f} GB/s, above the machine's {limit / 1e9:.1f}"
        )
    found = {}
    for name, seconds in times.items():
        paired = [theirs / mine for theirs, mine in zip(seconds[-len(own) :], own, strict=True)]
        peer_median = statistics.median(seconds[-len(own) :])
        found[name] = {
            "seconds": peer_median,
            "ratio": peer_median / median,
            "lowest": min(paired),
            "highest": max(paired),
            "bar": (bars or {}).get(name),
        }
    benchmark.extra_info.update(
        workload=workload,
        records=records,
        bytes=size,
        seconds=median,
        peers=found,
        ceiling_bytes_per_s=limit,
        **facts,
    )


@functools.cache
def ceiling() -> float:
    """Bytes a second that this machine copies or sums at best, in its caches: nothing real is faster."""
    source = bytes(range(256)) * 64
    target = bytearray(len(source))

    def copy() -> None:
        target[:] = source

    def best(work: Callable[[], object]) -> float:
        fastest = 1.0
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(2_000):
                work()
            fastest = min(fastest, time.perf_counter() - started)
        return 2_000 * len(source) / fastest

    return min(best(copy), best(lambda: crc32c(source)))
