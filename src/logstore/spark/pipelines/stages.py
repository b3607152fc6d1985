"""``stages``: a raw topic to an enriched topic to a topic of sums, each stage exactly once.

1. *enrich*: the raw records' JSON values are joined with a table (CSV with a header line, or Parquet) on one
   field. They are written with the table's columns among their fields, under their own key; a value without a
   match is written without them. Values are left out and counted as ``refused`` if they are not such JSON, or
   their time is before 1970 or more than ``ahead_s`` after the record's timestamp.
2. *sum up*: the enriched values are counted, and one field of them added up, by group and by window of time.

Each stage is a separate streaming query with its own checkpoint and topic. So other readers can use the topic
between them, and a stage can be stopped, changed and started again while the topic before it fills. A micro-batch
and its offsets take effect together. A stage killed at any point continues where it was, and neither loses a
record nor writes one twice.

The sums' topic has one record for each closed window: key is the group's values, joined by commas, value

    {"series": "books,eu", "start": 1700000000000, "seconds": 60, "count": 3, "sum": 4.5, "min": 1.0, "max": 2.0,
     "late": false}

Event time. ``time`` names the field with the time in milliseconds. A window is closed when its end is more than
``delay_s`` before the newest time seen in earlier micro-batches. Later values make rows with ``"late": true`` for
their window, so that the rows of a window together always have all of it.

The table is read when a run begins. A micro-batch that is repeated after a restart may see a newer table; the topic
has the result of one of the two, never both.

Scale: ``max_offsets`` bounds a micro-batch of either stage, ``partitions`` is the partition count of the topics,
and ``--shuffle-partitions`` that of the second stage's state. The table is sent to every task while it is smaller
than Spark's ``spark.sql.autoBroadcastJoinThreshold``, and joined by a shuffle beyond that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.errors import InvalidSettingError
from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.input.values import checked, fields_of, is_text, names_of, quoted
from logstore.spark.pipelines.reasons import reason_of
from logstore.spark.pipelines.rollup import plausible, roll_up, seconds_of, to_records
from logstore.spark.pipelines.running.queries import finish_in_turn, start_into_topic
from logstore.spark.pipelines.topics import ensure_topics, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

#: Column of the record's key beside the value's fields, one of which may be named key.
_KEY = "logstore.key"


@dataclass(frozen=True, kw_only=True)
class StagesParameters(Parameters):
    """Parameters of ``stages``: the three topics, the table, and the field that is added up."""

    raw: str = parameter(help="Topic of the raw records; created if missing.")
    enriched: str = parameter(help="Topic of the joined records; created if missing.")
    sums: str = parameter(help="Topic of the sums; created if missing.")
    schema: str = parameter(help="Fields of the raw JSON values, as Spark's DDL.")
    table: str = parameter(help="The table: a CSV file with a header line, or Parquet.")
    on: str = parameter(help="The field that the table is joined on; unique in the table.")
    group: tuple[str, ...] = parameter(help="Fields by which the sums are made.")
    amount: str = parameter(help="The field that is added up.")
    time: str = parameter("time", "The field with the time in milliseconds.")
    window: str = parameter("1m", "Length of the windows, such as 10s, 1m or 1h.")
    delay_s: float = parameter(60.0, "How long after its end a window waits for values that come late.", least=0)
    ahead_s: float = parameter(3600.0, "How far a time may lie ahead of when its record was written.", least=0)
    digits: int = parameter(6, "Digits behind the point of an amount that are kept.", least=0, most=12)

    def check(self) -> None:
        seconds_of(self.window, "window")
        self.require_different("raw", "enriched", "sums")
        names = names_of(self.schema)
        for field in ("on", "time"):
            self.require(field, getattr(self, field) in names, f"one of {', '.join(names)}")
        self.require("group", bool(self.group), "at least one field")


def read_table(spark: SparkSession, parameters: StagesParameters) -> DataFrame:
    """Read the table that the values are joined with.

    Raises:
        InvalidSettingError: the table does not exist, it lacks a requested field, or two rows have the same value
            of the join field: both would be joined and counted.
    """
    from pyspark.errors import AnalysisException

    path, on = parameters.table, parameters.on
    try:
        table = (
            spark.read.csv(path, header=True, inferSchema=True)
            if path.endswith(".csv")
            else spark.read.parquet(path)
        )
    except AnalysisException as error:
        raise InvalidSettingError({"table": f"cannot read {path}: {reason_of(error)}"}) from error
    known = {*names_of(parameters.schema), *table.columns}
    for name, field in [("on", on), ("amount", parameters.amount), *(("group", each) for each in parameters.group)]:
        if field not in (table.columns if name == "on" else known):
            where = "the table" if name == "on" else "the values and the table"
            raise InvalidSettingError({name: f"no field {field!r} in {where} ({', '.join(sorted(known))})"})
    twice = table.where(F.col(quoted(on)).isNotNull()).groupBy(quoted(on)).count().where("count > 1")
    rows = twice.orderBy(F.desc("count"), quoted(on)).limit(3).collect()
    if rows:
        found = ", ".join(f"{row[0]!r} ({row[1]} rows)" for row in rows)
        problem = f"{path} has {on} {found} more than once: its records would be multiplied; keep one row for each"
        raise InvalidSettingError({"table": problem})
    return table


def enrich(records: DataFrame, table: DataFrame, parameters: StagesParameters) -> DataFrame:
    """Join raw records with the table; their keys are kept."""
    fields, fits = fields_of(F.col("value").cast("string"), parameters.schema)
    is_read = (fits & is_text("value")).alias("is_read")
    parsed = records.select(F.col("key").alias(_KEY), fields.alias("v"), "timestamp", is_read)
    good = F.col("is_read") & F.coalesce(plausible(f"v.{parameters.time}", parameters.ahead_s), F.lit(False))
    kept = parsed.observe("raw", F.count_if(~good).alias("refused")).where(good).select(f"`{_KEY}`", "v.*")
    joined = kept.join(table, parameters.on, "left")
    value = F.to_json(F.struct(*(name for name in joined.columns if name != _KEY)))
    return joined.select(F.col(f"`{_KEY}`").alias("key"), value.cast("binary").alias("value"))


def sum_up(records: DataFrame, table: StructType, parameters: StagesParameters) -> DataFrame:
    """Sum up enriched records as records of the sums' topic."""
    added = [f"`{each.name}` {each.dataType.simpleString()}" for each in table if each.name != parameters.on]
    schema = ", ".join([parameters.schema, *added])
    fields = records.select(F.from_json(F.col("value").cast("string"), schema).alias("v")).select("v.*")
    names = (F.coalesce(F.col(name).cast("string"), F.lit("")) for name in parameters.group)
    amount = F.coalesce(F.col(parameters.amount).cast("decimal(38, 12)"), F.lit(0))
    units = F.round(amount * F.lit(10**parameters.digits), 0).cast("long")
    values = fields.select(
        F.concat_ws(",", *names).alias("series"),
        F.col(parameters.time).cast("long").alias("start"),
        F.lit(1).cast("long").alias("count"),
        *(units.alias(name) for name in ("sum", "min", "max")),
    )
    seconds = seconds_of(parameters.window)
    return to_records(roll_up(values, seconds, parameters.delay_s), seconds, parameters.digits)


@pipeline("stages", "Raw to enriched to aggregated topic, each stage exactly once through kills.", StagesParameters)
def run(spark: SparkSession, parameters: StagesParameters) -> Report:
    """Bring both stages up to date, one after the other; with ``continuous`` keep them so, concurrently."""
    checked(parameters.schema)
    ensure_topics(parameters, parameters.raw, parameters.enriched, parameters.sums)
    table = read_table(spark, parameters)

    def begin_first() -> StreamingQuery:
        enriched = enrich(read_stream(spark, parameters, parameters.raw), table, parameters)
        return start_into_topic(spark, enriched, parameters, "enrich", parameters.enriched)

    def begin_second() -> StreamingQuery:
        sums = sum_up(read_stream(spark, parameters, parameters.enriched), table.schema, parameters)
        return start_into_topic(spark, sums, parameters, "sum-up", parameters.sums)

    raw, summed = finish_in_turn(parameters, begin_first, begin_second)
    found = {"raw": raw.total(), "refused": raw.total("refused"), "enriched": summed.total()}
    return Report("stages", found | {"in time": summed.total("in_time"), "late": summed.total("late")})
