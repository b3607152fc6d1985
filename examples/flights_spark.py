"""A year of departures from New York and the weather there, through Spark: files, topics, a join in time, Parquet.

    python -m examples.flights_spark --directory demo-data-spark

Two tables become CSV files, and the files two topics. A stream joins each departure with the weather of its airport
in the hour that it was scheduled for, into a third topic, and another one takes that to Parquet. What the Parquet
table says of delays in wind, fog and rain is compared with the same figures computed with pandas from the source;
the exit status is 1 if anything differs. With ``--bootstrap`` the topics are those of a Kafka broker.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import logstore
from examples.flights_source import read_source, read_table
from examples.show import DemoError, expect
from logstore.spark import jvm
from logstore.spark.pipelines import Parameters, files
from logstore.spark.pipelines.files import FilesParameters
from logstore.spark.pipelines.running.queries import finish, start_into_parquet, start_into_topic
from logstore.spark.pipelines.topics import ensure_topics, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARK = "made-by-the-flights-demo-on-spark"
FILES = 4  #: of flights, each with a part of the year
BATCHES = 4  #: micro-batches of the join
#: Flights are spread over partitions by hash, so that none is much ahead of the others in time; this is more than
#: they are apart.
LATENESS = "14 days"

FLIGHT = {
    "carrier": "string",
    "flight": "int32",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "dep_delay": "int32",
    "time_hour": "string",
}
WEATHER = {
    "origin": "string",
    "wind_speed": "float64",
    "precip": "float64",
    "visib": "float64",
    "time_hour": "string",
}
DELAY = {
    "origin": "string",
    "carrier": "string",
    "dest": "string",
    "dep_delay": "int32",
    "wind_speed": "float64",
    "precip": "float64",
    "visib": "float64",
}
_DDL = {"string": "STRING", "int32": "INT", "float64": "DOUBLE"}

ORIGINS = ("EWR", "JFK", "LGA")


class Weather(NamedTuple):
    """A line of the table: what the weather was like, as a condition that Spark and pandas both understand."""

    name: str
    condition: str


CLASSES = (
    Weather("wind below 10 mph", "wind_speed < 10"),
    Weather("wind of 10 to 20 mph", "wind_speed >= 10 and wind_speed < 20"),
    Weather("wind of 20 mph and more", "wind_speed >= 20"),
    Weather("visibility of 10 miles", "visib >= 10"),
    Weather("visibility of 3 to 10 miles", "visib >= 3 and visib < 10"),
    Weather("visibility below 3 miles", "visib < 3"),
    Weather("dry", "precip == 0"),
    Weather("rain or snow", "precip > 0"),
)

#: (line of the table, airport) -> flights that departed, sum of their delays in minutes
Figures = dict[tuple[str, str], tuple[int, int]]


@dataclass
class Step:
    """What went through, and how long it took."""

    name: str
    rows: int
    seconds: float


@dataclass(frozen=True)
class Workspace:
    """Where the demo keeps everything: a directory, and the topics in it or on a broker."""

    directory: Path
    bootstrap: str
    suffix: str  #: of the names of topics: on a broker each run has its own
    profile: str = ""  #: a file with settings of the connection to the broker

    def topic(self, name: str) -> str:
        return name + self.suffix

    def parameters(self, stage: str, **given: Any) -> dict[str, Any]:
        store = {"path": str(self.directory / "store")}
        if self.bootstrap:
            store = {"bootstrap": self.bootstrap, "profile": self.profile}
        return {**store, "checkpoint": str(self.directory / "checkpoints" / stage), **given}


# --- the source, as files ----------------------------------------------------------------------


def write_files(directory: Path, flights: Any, weather: Any) -> None:
    """The tables as CSV files in the order of time: of flights some, each older than the next, of weather one."""
    for name, table, columns, count in (
        ("flights", flights, FLIGHT, FILES),
        ("weather", weather, WEATHER, 1),
    ):
        folder = directory / "files" / name
        folder.mkdir(parents=True)
        ordered = table.sort_values(["time_hour", "origin"], kind="stable")[list(columns)].convert_dtypes()
        for number in range(count):
            part = ordered.iloc[len(ordered) * number // count : len(ordered) * (number + 1) // count]
            file = folder / f"{name}-{number}.csv"
            part.to_csv(file, index=False)
            os.utime(file, (1_000_000_000 + number,) * 2)  # Spark takes files by age


def load(spark: SparkSession, place: Workspace, name: str, columns: dict[str, str], key: str) -> int:
    """Files into the topic of that name; how many rows."""
    schema = ", ".join(f"{column} {_DDL[kind]}" for column, kind in columns.items())
    report = files.run(
        spark,
        FilesParameters(
            **place.parameters(name),
            source=str(place.directory / "files" / name),
            topic=place.topic(name),
            format="csv",
            schema=schema,
            key=key,
            timestamp="to_timestamp(time_hour)",
            files_per_trigger=1,
        ),
    )
    return report.counts["records"]


# --- the join ----------------------------------------------------------------------------------


def joined(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Each departure with the weather of its airport in its hour. Flights that did not depart are left out."""
    from pyspark.sql import functions as F

    # Windows have the watermark; a second column of a stream with one would be refused.
    hour = F.window("timestamp", "1 hour").alias("hour")
    left, right = (each.withWatermark("timestamp", LATENESS) for each in (flights, weather))
    departed = left.where("dep_delay is not null").select("origin", "carrier", "dest", "dep_delay", hour)
    return departed.join(right.select("origin", "wind_speed", "precip", "visib", hour), ["origin", "hour"])


def start_join(spark: SparkSession, place: Workspace, rows: int) -> Any:
    """Both topics to the topic of delays, in a few micro-batches."""
    from pyspark.sql import functions as F

    def read(name: str, columns: dict[str, str], count: int) -> DataFrame:
        parameters = Parameters(**place.parameters("join", max_offsets=-(-count // BATCHES)))
        chosen = {column: kind for column, kind in columns.items() if column in DELAY}
        return read_stream(
            spark,
            parameters,
            place.topic(name),
            valueSchema=json.dumps(chosen),
            columns=",".join((*chosen, "timestamp")),
        )

    parameters = Parameters(**place.parameters("join"))
    ensure_topics(parameters, place.topic("delays"))
    delays = joined(read("flights", FLIGHT, rows), read("weather", WEATHER, 26_115))
    records = delays.select(
        F.col("origin").cast("binary").alias("key"),
        F.to_json(F.struct(*DELAY)).cast("binary").alias("value"),
        F.col("hour.start").alias("timestamp"),
    )
    return start_into_topic(spark, records, parameters, "join", place.topic("delays"))


def start_table(spark: SparkSession, place: Workspace) -> Any:
    """The topic of delays to Parquet, in folders by airport."""
    parameters = Parameters(**place.parameters("table"))
    rows = read_stream(
        spark,
        parameters,
        place.topic("delays"),
        valueSchema=json.dumps(DELAY),
        columns=",".join((*DELAY, "timestamp", "partition", "offset")),
    )
    return start_into_parquet(spark, rows, parameters, "table", str(place.directory / "delays"), ("origin",))


# --- the figures -------------------------------------------------------------------------------


def figures_of_spark(table: DataFrame) -> Figures:
    """The figures of the Parquet table, in one pass."""
    from pyspark.sql import functions as F

    sums = []
    for number, each in enumerate(CLASSES):
        matches = F.expr(each.condition)
        sums += [
            F.count_if(matches).alias(f"n{number}"),
            F.sum(F.when(matches, F.col("dep_delay"))).alias(f"s{number}"),
        ]
    found: Figures = {}
    for row in table.groupBy("origin").agg(*sums).collect():
        for number, each in enumerate(CLASSES):
            found[each.name, row["origin"]] = (row[f"n{number}"], row[f"s{number}"] or 0)
    return found


def figures_of_pandas(flights: Any, weather: Any) -> Figures:
    """The same from the source, by another way."""
    departed = flights[flights["dep_delay"].notna()]
    both = departed.merge(weather, on=["origin", "time_hour"])
    found: Figures = {}
    for each in CLASSES:
        chosen = both.query(each.condition).groupby("origin")["dep_delay"].agg(["count", "sum"])
        for origin, row in chosen.iterrows():
            found[each.name, str(origin)] = (int(row["count"]), int(row["sum"]))
    return found


def table_of(figures: Figures) -> str:
    """The figures as lines of text."""
    lines = ["".ljust(28) + "".join(f"{origin:>18}" for origin in ORIGINS)]
    for each in CLASSES:
        line = each.name.ljust(28)
        for origin in ORIGINS:
            count, total = figures.get((each.name, origin), (0, 0))
            cell = f"{total / count:.1f} ({count:,})" if count else "-"
            line += f"{cell:>18}"
        lines.append(line)
    return "\n".join(lines)


# --- the demo ----------------------------------------------------------------------------------


def empty_place(directory: Path) -> None:
    """Make the directory; what an earlier run of this demo has left there is removed.

    Raises `DemoError`, having removed nothing, if the directory was not made by this demo.
    """
    if directory.exists() and any(directory.iterdir()):
        if not (directory / MARK).exists():
            raise DemoError(f"{directory} was not made by this demo; choose another --directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARK).touch()


def run(
    spark: SparkSession, directory: Path, bootstrap: str = "", rows: int = 0, profile: str = ""
) -> Sequence[Step]:
    """The whole story, with the first ``rows`` flights of the year or all.

    ``profile`` has settings of the connection to ``bootstrap``. ``directory`` is emptied, if this demo has made it.
    It has to be one that all executors see.

    Raises:
        DemoError: the story does not hold.
    """
    directory = directory.resolve()
    empty_place(directory)
    place = Workspace(directory, bootstrap, f"-{time.time_ns() // 1_000_000}" if bootstrap else "", profile)
    flights, weather = read_source(), read_table("weather")
    if rows:
        flights = flights.sort_values(["time_hour", "origin"], kind="stable").head(rows)
        weather = weather[weather["time_hour"] <= flights["time_hour"].max()]
    write_files(directory, flights, weather)
    steps: list[Step] = []

    def step(name: str, count: int, began: float) -> None:
        steps.append(Step(name, count, time.perf_counter() - began))
        print(f"  {name:<44}{count:>10,} rows {steps[-1].seconds:>7.1f} s", flush=True)

    began = time.perf_counter()
    step("flights, files to a topic", load(spark, place, "flights", FLIGHT, "concat(carrier, flight)"), began)
    expect("flights in the topic", steps[-1].rows, len(flights))
    began = time.perf_counter()
    step("weather, files to a topic", load(spark, place, "weather", WEATHER, "concat(origin, time_hour)"), began)
    expect("hours of weather in the topic", steps[-1].rows, len(weather))

    wanted = figures_of_pandas(flights, weather)
    began = time.perf_counter()
    (counts,) = finish(start_join(spark, place, len(flights)))
    step("departures joined with the hour's weather", counts.total(), began)
    began = time.perf_counter()
    (counts,) = finish(start_table(spark, place))
    step("topic of delays to Parquet", counts.total(), began)
    departed = flights[flights["dep_delay"].notna()]
    both = len(departed.merge(weather[["origin", "time_hour"]], on=["origin", "time_hour"]))
    expect("departures with weather", counts.total(), both)

    found = figures_of_spark(spark.read.parquet(str(directory / "delays")))
    print(f"\nmean departure delay in minutes (flights), New York 2013, {both:,} departures:\n")
    print(table_of(found))
    for line, figure in wanted.items():
        expect(f"flights and minutes of delay, {line[0]}, {line[1]}", found.get(line), figure)
    expect("lines of the table", {line for line, (count, _) in found.items() if count}, set(wanted))
    print(
        f"\nproven: each of the {2 * len(wanted)} figures is what pandas computes from the source; "
        f"{len(departed) - both:,} departures of an hour without weather data and {len(flights) - len(departed):,} "
        "cancelled flights are in no line."
    )
    return steps


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="flights and weather on Spark: files, topics, join, Parquet")
    parser.add_argument("--directory", type=Path, default=Path("demo-data-spark"), help="made if it is missing")
    parser.add_argument("--master", default="local[2]", help="where Spark runs; default: this machine, two cores")
    parser.add_argument("--bootstrap", default="", metavar="HOST:PORT", help="a Kafka broker, for the topics")
    parser.add_argument("--profile", default="", metavar="FILE", help="settings of the connection to the broker")
    parser.add_argument("--rows", type=int, default=0, help="only the first flights of the year")
    given = parser.parse_args(arguments)
    began = time.perf_counter()
    try:
        jvm.prepare()
        spark = session(given.master)
        try:
            print(f"Spark {spark.version} on {given.master}, ready in {time.perf_counter() - began:.1f} s")
            run(spark, given.directory, given.bootstrap, given.rows, given.profile)
        finally:
            spark.stop()
    except (DemoError, logstore.LogstoreError) as error:
        print(f"flights_spark: {error}", file=sys.stderr)
        return 1
    print(f"{time.perf_counter() - began:.0f} s in all")
    return 0


def session(master: str) -> SparkSession:
    """A session that says nothing but errors."""
    from logstore.spark.pipelines.running import session as sessions

    root = Path(__file__).resolve().parent.parent
    paths = [str(root / "src"), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    quiet = Path(tempfile.gettempdir()) / f"flights-spark-{os.getpid()}.properties"
    quiet.write_text(_QUIET)
    try:
        return sessions.session(
            "flights",
            master=master,
            shuffle_partitions=2,
            settings={
                "spark.ui.showConsoleProgress": "false",
                "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet}",
            },
        )
    finally:
        quiet.unlink()


_QUIET = """status=ERROR
appender.c.type=Console
appender.c.name=C
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%p %c{1} %m%n
rootLogger.level=ERROR
rootLogger.appenderRef.c.ref=C
"""


if __name__ == "__main__":
    sys.exit(main())
