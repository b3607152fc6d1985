"""Print one table from what `make bench` has measured, with the machine it was measured on.

python benchmarks/report.py [benchmarks/results/latest.json]
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

LATEST = Path(__file__).parent / "results" / "latest.json"


def describe(place: Path) -> str:
    """This machine in one line, with the file system of ``place``."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?"
    )
    cores = len(os.sched_getaffinity(0))
    return (
        f"{model}, {cores} cores; {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}; {file_system(place)}"
    )


def file_system(path: Path) -> str:
    """The kind of file system below a path."""
    mounts = [line.split()[1:3] for line in _lines("/proc/mounts")]
    inside = [(len(point), kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(inside)[1] if inside else "unknown file system"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """Workload, ours, peer, ratio with its spread, bar, met: a line for each peer."""
    lines = []
    for benchmark in results["benchmarks"]:
        info = benchmark["extra_info"]
        workload, ours = info["workload"], _speed(info)
        if "target" in info:
            lines.append((workload, ours, "-", "", *_target(info)))
            workload = ours = ""
        for name, peer in info["peers"].items():
            ratio = f"{peer['ratio']:.2f}x ({peer['lowest']:.2f}-{peer['highest']:.2f})"
            bar, met = "", ""
            if peer["bar"] is not None:
                bar, met = f"{peer['bar']:.2g}x", "yes" if peer["ratio"] >= peer["bar"] else "no"
            lines.append((workload, ours, name, ratio, bar, met))
            workload = ours = ""
    return lines


def _speed(info: dict[str, Any]) -> str:
    seconds, records = info["seconds"], info["records"]
    if "target" in info:
        return f"{seconds * 1e3:.2f} ms"
    if "random" in info["workload"]:
        return f"{seconds / records * 1e6:.2f} us each"
    return f"{records / seconds / 1e6:.2f} M/s"


def _target(info: dict[str, Any]) -> tuple[str, str]:
    if (limit := info["target"].get("at_most_s")) is not None:
        return f"{limit * 1e3:.0f} ms", "yes" if info["seconds"] <= limit else "no"
    limit = info["target"]["at_least_bytes_per_s"]
    rate = info["bytes"] / info["seconds"]
    return f"{limit / 1e9:.0f} GB/s", f"{'yes' if rate >= limit else 'no'}: {rate / 1e9:.1f}"


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else LATEST
    results = json.loads(path.read_text())
    heading = ("workload", "ours", "peer", "peer's time / ours (range)", "bar", "met")
    table = [heading, *rows(results)]
    widths = [max(len(line[column]) for line in table) for column in range(len(heading))]
    print(results["machine_info"]["summary"])
    print("medians of rounds in which all take turns; M/s: million records a second\n")
    for number, line in enumerate(table):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


if __name__ == "__main__":
    main()
