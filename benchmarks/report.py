"""Print one table from what `make bench` has measured, with the machine it was measured on.

python benchmarks/report.py [benchmarks/results/latest.json]
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sqlite3
import sys
from pathlib import Path
from typing import Any

LATEST = Path(__file__).parent / "results" / "latest.json"

_LIBRARIES = ("logstore", "aiokafka", "lmdb", "lz4", "numpy", "pyarrow", "rocksdict", "zstandard")

_HEADING = ("workload", "ours", "beside", "ratio or figure", "bar", "stretch", "met")


def describe(place: Path) -> dict[str, str]:
    """This machine, with the file system of ``place`` and the versions of what takes part."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = [f"{name} {version}" for name in _LIBRARIES if (version := _version(name))]
    return {
        "processor": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, {file_system(place)}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": ", ".join([*versions, f"sqlite {sqlite3.sqlite_version}"]),
    }


def file_system(path: Path) -> str:
    """The kind of file system below a path."""
    mounts = [line.split()[1:3] for line in _lines("/proc/mounts")]
    inside = [(len(point), kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(inside)[1] if inside else "unknown file system"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line for each reference and each target of each benchmark, in the columns of the heading."""
    lines: list[tuple[str, ...]] = []
    for info in _finished(results):
        first, second = (info["workload"], speed(info)), (_facts(info), "")
        cells: list[tuple[str, ...]] = []
        for target in info["targets"]:
            sign, unit = "<=" if target["at_most"] else ">=", target["unit"]
            wanted = [f"{sign} {bar:g}" if (bar := target[key]) is not None else "" for key in ("bar", "stretch")]
            beside = target["name"] + (f" ({target['reference']})" if target["reference"] else "")
            cells.append((beside, f"{target['value']:.2f} {unit}".strip(), *wanted, target["met"]))
        for name, peer in info["peers"].items():
            ratio = f"{peer['ratio']:.2f}x ({peer['lowest']:.2f}-{peer['highest']:.2f})"
            wanted = [f"{bar:.2g}x" if (bar := peer[key]) is not None else "" for key in ("bar", "stretch")]
            cells.append((name, ratio, *wanted, peer["met"]))
        while len(cells) < 2:
            cells.append(("",) * 5)
        heads = [first, second] + [("", "")] * (len(cells) - 2)
        lines += [(*head, *cell) for head, cell in zip(heads, cells, strict=True)]
    return lines


def _finished(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What each benchmark has found; one that has failed has found nothing."""
    return [benchmark["extra_info"] for benchmark in results["benchmarks"] if "workload" in benchmark["extra_info"]]


def speed(info: dict[str, Any]) -> str:
    """Return the speed of a workload in the unit that it asks for."""
    seconds, records = info["seconds"], info["records"]
    match info.get("unit", "M/s"):
        case "ms":
            return f"{seconds * 1e3:.2f} ms"
        case "us each":
            return f"{seconds / records * 1e6:.2f} us each"
        case "s in all":
            return f"{seconds:.2f} s in all"
    rate = records / seconds
    return f"{rate / 1e6:.2f} M/s" if rate > 1e5 else f"{rate / 1e3:.1f} k/s"


def _facts(info: dict[str, Any]) -> str:
    """What is equal on both sides: records, bytes in, codec, bytes out."""
    if not info["bytes"]:
        return ""
    codec = f"{info['codec']} level {info['level']}" if "level" in info else info["codec"]
    words = [f"  {info['records']:,} records", f"{info['bytes'] / 1e6:,.1f} MB", f"codec {codec}"]
    if output := info.get("output_bytes"):
        words.append(f"{output / 1e6:,.1f} MB out")
    return ", ".join(words)


def verdicts(results: dict[str, Any]) -> tuple[int, list[str]]:
    """How many bars are met, and which are not."""
    met, missed = 0, []
    for info in _finished(results):
        bars = [(target["name"], target["met"]) for target in info["targets"]]
        bars += [(name, peer["met"]) for name, peer in info["peers"].items()]
        met += sum(1 for _, word in bars if word in ("yes", "stretch"))
        missed += [f"{info['workload']}: {name}" for name, word in bars if word == "no"]
    return met, missed


def render(results: dict[str, Any]) -> str:
    """The whole page."""
    page = [f"{name:<10} {value}" for name, value in results["machine_info"]["described"].items()]
    page += [
        "",
        "Medians of rounds in which all take turns. Ratio: the other's time over ours (range of rounds), so more",
        "than 1 means that logstore is faster. M/s, k/s: million, thousand records a second.",
        "",
    ]
    table = [_HEADING, *rows(results)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_HEADING))]
    for number, line in enumerate(table):
        page.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if number == 0:
            page.append("  ".join("-" * width for width in widths))
    met, missed = verdicts(results)
    page += ["", f"bars met: {met} of {met + len(missed)}", *(f"missed: {line}" for line in missed)]
    failed = [found["name"] for found in results["benchmarks"] if "workload" not in found["extra_info"]]
    page += [f"failed, see above: {name}" for name in failed]
    return "\n".join(page)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else LATEST
    page = render(json.loads(path.read_text()))
    path.with_suffix(".txt").write_text(page + "\n")
    print(page)


if __name__ == "__main__":
    main()
