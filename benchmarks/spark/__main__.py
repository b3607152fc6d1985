"""Run the contenders in turn and print one table; ``make bench-spark``, or ``python -m benchmarks.spark --quick``.

Everything happens in one Spark session: in each pass of each operation all contenders take turns, beginning with
another one each time, and the first pass is not counted. Before that they have to have the same rows. Nothing is
asserted about time. Exit status 1: two contenders differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import describe
from benchmarks.spark import contenders as c
from benchmarks.spark import data, operations
from benchmarks.spark import sinks as s
from benchmarks.spark.bars import Bar, bars
from benchmarks.spark.contenders import Contender, chosen, contenders
from benchmarks.spark.session import session
from benchmarks.spark.sinks import sinks
from tests.interop.broker import Broker, MissingToolError, fetch, fetch_connector

RESULTS = Path(__file__).resolve().parent.parent / "results" / "spark.json"

OPERATIONS = [*operations.QUERIES, "available", "small", "sink", "stream sink", "memory"]

#: Contenders that are asked for one thing only: they show what an option gives there.
ASKED_FOR = {c.PATH_COLUMNS: "value", c.PATH_FIELDS: "json", c.PATH_SMALL: "scan", c.PATH_LARGE: "scan"}
QUICK = {"records": 20_000, "passes": 1, "batches": 6}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="in %(default)s records, 4 partitions")
    parser.add_argument("--passes", type=int, default=5, help="that are counted")
    parser.add_argument("--batches", type=int, default=20, help="small batches in each pass")
    parser.add_argument("--operations", default=",".join(OPERATIONS), help="some of: %(default)s")
    parser.add_argument(
        "--contenders", default="", help="some of them, by name, with semicolons between; all if not given"
    )
    parser.add_argument("--quick", action="store_true", help="few records once: to see that everything runs")
    parser.add_argument("--work", type=Path, help="where the records are put; else below TMPDIR, and removed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.quick:
        for name, value in QUICK.items():
            setattr(given, name, value)
    given.operations = given.operations.split(",")
    unknown = [name for name in given.operations if name not in OPERATIONS]
    if unknown:
        parser.error(f"no such operation: {', '.join(unknown)}")
    try:
        chosen(contenders(Path(), "", 0), given.contenders)
    except ValueError as error:
        parser.error(str(error))
    return given


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@contextmanager
def broker(work: Path) -> Iterator[tuple[str | None, list[Path]]]:
    """A real Kafka and the jars of the connector; neither where they cannot be had."""
    try:
        fetch()
        jars = fetch_connector()
    except MissingToolError as error:
        say(f"without Kafka: {error}")
        yield None, []
        return
    with Broker(work / "kafka") as running:
        yield running.bootstrap, jars


class Run:
    """One run: seconds by operation and contender."""

    def __init__(self, spark: Any, work: Path, given: argparse.Namespace) -> None:
        self.spark, self.work, self.given = spark, work, given
        self.passes: dict[str, dict[str, list[float]]] = {}
        self.small: dict[str, dict[str, float]] = {}
        self.failed: dict[str, str] = {}

    def take_turns(self, operation: str, entrants: Mapping[str, Callable[[], float]]) -> None:
        """Time all of them, pass by pass; who fails once is left out, and named."""
        found: dict[str, list[float]] = {name: [] for name in entrants}
        names = list(entrants)
        for number in range(self.given.passes + 1):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                if f"{operation}: {name}" in self.failed:
                    continue
                # What the one before has left for the disk is not this one's to wait for.
                os.sync()
                try:
                    seconds = entrants[name]()
                except Exception as error:  # noqa: BLE001  whatever Spark raises: the others go on
                    self.failed[f"{operation}: {name}"] = _first_line(error)
                    say(f"{operation}: {name} failed: {_first_line(error)}")
                    continue
                if number:
                    found[name].append(seconds)
        self.passes[operation] = {name: seconds for name, seconds in found.items() if seconds}
        for name, seconds in self.passes[operation].items():
            say(f"{operation}: {name} {statistics.median(seconds):.3f} s")

    def queries(self, entrants: Mapping[str, Contender]) -> None:
        for operation in filter(operations.QUERIES.__contains__, self.given.operations):
            query = operations.QUERIES[operation]
            asked = {name: one for name, one in entrants.items() if ASKED_FOR.get(name, operation) == operation}
            self.take_turns(
                operation,
                {
                    name: lambda one=one, query=query: operations.timed(
                        lambda: query(one.table(self.spark), self.work)
                    )
                    for name, one in asked.items()
                },
            )

    def streams(self, entrants: Mapping[str, Contender]) -> None:
        streaming = {name: one for name, one in entrants.items() if one.streams}
        if "available" in self.given.operations:
            self.take_turns(
                "available",
                {
                    name: lambda one=one: operations.available_now(self.spark, one, self.work, self.given.records)[
                        "seconds"
                    ]
                    for name, one in streaming.items()
                },
            )
        if "small" in self.given.operations:
            parts: dict[str, list[dict[str, float]]] = {name: [] for name in streaming}

            def one_round(name: str) -> float:
                parts[name].append(
                    operations.small_batches(self.spark, streaming[name], self.work, self.given.batches)
                )
                return parts[name][-1]["triggerExecution"] / 1_000

            self.take_turns("small", {name: lambda name=name: one_round(name) for name in streaming})
            for name in self.passes["small"]:
                counted = parts[name][1:]
                self.small[name] = {
                    part: statistics.median(found.get(part, 0) for found in counted) for part in counted[0]
                }

    def sinks(self, bootstrap: str | None) -> None:
        for operation in filter(("sink", "stream sink").__contains__, self.given.operations):
            entrants = {}
            for name, sink in sinks(self.work, bootstrap).items():
                write = sink.write if operation == "sink" else sink.stream

                def one_pass(sink: s.Sink = sink, write: Any = write, name: str = name) -> float:
                    sink.prepare()
                    seconds = operations.timed(lambda: write(self.spark, self.work))
                    if sink.count is not None and (count := sink.count()) != self.given.records:
                        raise AssertionError(f"{name} has {count} records of {self.given.records}")
                    return seconds

                entrants[name] = one_pass
            self.take_turns(operation, entrants)

    def memory(self, bootstrap: str | None, names: list[str]) -> dict[str, dict[str, float]]:
        """In a process of its own, behind this session."""
        asked = {"work": str(self.work), "bootstrap": bootstrap, "records": self.given.records, "names": names}
        command = [sys.executable, "-m", "benchmarks.spark.memory", json.dumps(asked)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            self.failed["memory"] = f"status {done.returncode}"
            return {}
        found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
        return found


def _first_line(error: Exception) -> str:
    """Where Python raised, what: the rest is how Spark came there."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b.*: ", line)]
    return (raised[-1:] or lines or [type(error).__name__])[0][:300]


def same_rows(spark: Any, entrants: Mapping[str, Contender]) -> tuple[dict[str, Contender], dict[str, str]]:
    """Those that can be read and have the rows that the first of their topic has; and why not, for the others."""
    good, wrong = {}, {}
    firsts: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, one in entrants.items():
        try:
            found = operations.fingerprint(one.table(spark))
        except Exception as error:  # noqa: BLE001  whatever Spark raises: the others go on
            wrong[name] = f"cannot be read: {_first_line(error)}"
            continue
        kind = f"{one.topic} {one.columns}"
        other, expected = firsts.setdefault(kind, (name, found))
        if found == expected:
            good[name] = one
        else:
            wrong[name] = f"has {found}, {other} has {expected}"
    return good, wrong


def table(medians: Mapping[str, Mapping[str, float]], records: int) -> Iterator[str]:
    """Lines: an operation in each block, a contender in each line."""
    for operation, found in medians.items():
        yield f"\n{operation:<24}{'seconds':>9}{'M rows/s':>10}"
        for name, seconds in sorted(found.items(), key=lambda item: item[1]):
            rate = "" if operation == "small" else f"{records / seconds / 1e6:10.2f}"
            yield f"  {name:<22}{seconds:9.3f}{rate}"


def report(result: Mapping[str, Any], wanted: list[Bar]) -> Iterator[str]:
    yield f"{result['records']} records in {data.PARTITIONS} partitions, medians of {result['passes']} passes"
    yield from (f"{name}: {value}" for name, value in result["machine"].items())
    yield from table(result["medians"], result["records"])
    for name, parts in result["small_ms"].items():
        yield f"\nsmall batch, {name}: " + ", ".join(f"{part} {value:.0f} ms" for part, value in parts.items())
    for name, peaks in result["memory_mib"].items():
        yield f"\nmemory, {name}: " + ", ".join(f"{mib:.0f} MiB for {size}" for size, mib in peaks.items())
    if wanted:
        yield f"\n{'bar':<48}{'found':>10}{'wanted':>12}  met"
    for bar in wanted:
        sign = "<=" if bar.at_most else ">="
        yield (
            f"  {bar.what:<46}{bar.value:8.2f} {bar.unit:<3}{sign:>4}{bar.bar:6g} {bar.unit:<3} "
            f"{'yes' if bar.is_met else 'NO'}"
        )
    yield from (f"left out: {what} {why}" for what, why in result["left_out"].items())
    yield from (f"failed: {what}: {why}" for what, why in result["failed"].items())


def measure(work: Path, given: argparse.Namespace) -> int:
    say(f"{given.records} records into files")
    data.write_files(work, given.records)
    with broker(work) as (bootstrap, jars):
        if bootstrap is not None:
            say("and into a broker, twice")
            data.write_topics(bootstrap, given.records)
        entrants = chosen(contenders(work, bootstrap, given.records), given.contenders)
        with session(work, dict(pair.split("=", 1) for pair in given.set), jars) as spark:
            c.register(spark)
            say(f"Spark {spark.version}: the same rows everywhere?")
            entrants, wrong = same_rows(spark, entrants)
            for name, why in wrong.items():
                say(f"{name} {why}")
            run = Run(spark, work, given)
            run.queries(entrants)
            run.streams(entrants)
            run.sinks(bootstrap)
            version = spark.version
        ours = [name for name in (c.PATH, c.BOOTSTRAP, c.BOOTSTRAP_FULL) if name in entrants]
        memory = run.memory(bootstrap, ours) if "memory" in given.operations else {}
    medians = {
        operation: {name: statistics.median(seconds) for name, seconds in found.items()}
        for operation, found in run.passes.items()
    }
    wanted = list(bars(medians, run.small, memory))
    result = {
        "machine": {**describe(work), "spark": version},
        "records": given.records,
        "passes": given.passes,
        "medians": medians,
        "seconds": run.passes,
        "small_ms": run.small,
        "memory_mib": memory,
        "bars": [{**bar._asdict(), "met": bar.is_met} for bar in wanted],
        "left_out": wrong,
        "failed": run.failed,
    }
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(result, indent=1))
    print("\n".join(report(result, wanted)))
    return 1 if wrong else 0


def main() -> int:
    given = arguments()
    work = given.work or Path(tempfile.mkdtemp(prefix="bench-spark-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        return measure(work, given)
    finally:
        if given.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
