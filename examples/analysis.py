"""An analyst: what sensors have sent, as tables, counts and single records, while a service goes on writing.

    python -m examples.analysis --directory data

The store is opened read-only, which takes no lock. Needs the extra logstore[tables].
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import logstore
from logstore import Record, Store, Topic

TOPIC = "temperatures"
BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
FIELDS = {"sensor": "string", "celsius": "float64"}


class Hottest(NamedTuple):
    """The record of the highest temperature."""

    sensor: str
    celsius: float
    at: datetime


def fill(directory: Path, *, hours: int = 24, seed: int = 7) -> int:
    """What a service would write: a value of each of three sensors every minute; how many."""
    rng = random.Random(seed)
    with logstore.open(directory) as store:
        topic = store.create_topic(TOPIC, partitions=3, if_not_exists=True)
        for sensor in range(3):
            rows = []
            for minute in range(hours * 60):
                value = {"sensor": f"s{sensor}", "celsius": round(20 + sensor + rng.gauss(0, 2), 2)}
                at = BEGIN + timedelta(minutes=minute)
                rows.append((b"s%d" % sensor, json.dumps(value).encode(), int(at.timestamp() * 1000)))
            topic.append_many(rows)
        return topic.scan().count()


def mean_by_hour(topic: Topic) -> dict[int, float]:
    """The mean temperature of each hour of the day, by DuckDB over the Arrow columns."""
    scan = topic.scan(columns=["timestamp", "celsius"], value_schema=FIELDS)
    hour = "hour(timestamp at time zone 'UTC')"
    rows = scan.to_duckdb().aggregate(f"{hour} as h, avg(celsius)", hour).order("h").fetchall()
    return {int(number): float(mean) for number, mean in rows}


def sensors(topic: Topic) -> list[str]:
    """Which sensors there are, by a pandas data frame."""
    frame = topic.scan(columns=["sensor"], value_schema=FIELDS).to_pandas()
    return sorted(str(name) for name in frame["sensor"].unique())


def hottest(records: Iterator[Record]) -> Hottest | None:
    """The highest temperature, record by record."""
    found: Hottest | None = None
    for record in records:
        value = json.loads(record.value or b"{}")
        if found is None or value["celsius"] > found.celsius:
            at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
            found = Hottest(str(value["sensor"]), float(value["celsius"]), at)
    return found


def report(store: Store) -> Iterator[str]:
    """Lines about everything that is there now."""
    topic = store[TOPIC]
    yield f"{topic.scan().count()} values in {len(topic)} partitions, of {', '.join(sensors(topic))}"
    noon = BEGIN + timedelta(hours=12)
    yield f"{topic.scan(since=noon).count()} of them since {noon:%H:%M}"
    found = hottest(iter(topic.scan()))
    if found is not None:
        yield f"the hottest: {found.celsius} at {found.sensor}, {found.at:%H:%M}"
    for hour, mean in list(mean_by_hour(topic).items())[:3]:
        yield f"mean of hour {hour}: {mean:.1f}"
    last = topic[0].scan(start=-1).to_arrow()
    yield f"the last row of partition 0 has offset {last['offset'][0].as_py()}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Tables and counts of what sensors have sent.")
    parser.add_argument("--directory", type=Path, default=Path("analysis-data"))
    directory: Path = parser.parse_args().directory
    if not directory.exists():
        fill(directory)
    with logstore.open(directory, read_only=True) as store:
        for line in report(store):
            print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
