"""``latest``: a changelog topic as a table of the latest value for each key, in Parquet.

The topic may be compacted or not: a table is what is left when only the last record of each key counts, and a
record without a value (a tombstone) deletes its key. "Last" goes by offset within a partition; a key whose records
lie in several partitions, as after partitions were added, has the value of the partition with its newest timestamp.
Records without a key are left out and counted.

The table is a directory on a file system with symbolic links: ``current`` leads to the version to be read, and a
new version takes its place in one step, so that a reader sees a table before or after a micro-batch and nothing in
between. The version before is kept for those who are reading it; `table_path` names the one to read.

    key, value                       text, or with ``no-text`` bytes; with ``schema`` the fields of the JSON value
                                     take value's place
    partition, offset, timestamp     of the record that the row comes from

Every micro-batch merges what is new into the table and writes it anew. Doing one again gives the same table, so
restarts and kills leave no trace. ``rebuild`` makes the table from the whole topic instead, in one batch.

Event time plays no part.

Scale: a merge costs the table plus the changes, spread over ``--shuffle-partitions``; make micro-batches
large (``max_offsets`` 0, a long ``interval_s``) where the table is.
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logstore.errors import NotALogError
from logstore.paths import local_path
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.running import finish, start
from logstore.spark.pipelines.topics import ensure_topics, read_batch, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Columns of a record that the table keeps: a merge needs them to tell which is the later one.
ORIGIN = ("partition", "offset", "timestamp")


@dataclass(frozen=True, kw_only=True)
class LatestParameters(Parameters):
    """Which topic, which table."""

    topic: str = parameter(help="The changelog; created if missing.")
    table: str = parameter(help="Directory of the table.")
    text: bool = parameter(True, "Keys and values are text; otherwise they stay bytes.")
    schema: str = parameter("", "Fields of JSON values as Spark's DDL, to be columns of the table.")
    rebuild: bool = parameter(False, "Make the table from the whole topic, now, in one batch.")

    def __post_init__(self) -> None:
        Parameters.__post_init__(self)
        self.require("table", _is_local(self.table), "a directory on a file system with symbolic links")
        self.require("rebuild", not (self.rebuild and self.continuous), "to be used without continuous")


# -- data frames


def changes(records: DataFrame, parameters: LatestParameters) -> DataFrame:
    """Records of the topic as changes: the table's columns, and ``deleted``. Those without a key are left out."""
    from pyspark.sql import functions as F

    counts = F.count(F.lit(1)).alias("records"), F.count_if(F.col("key").isNull()).alias("keyless")
    kept = records.observe("changes", *counts).where(F.col("key").isNotNull())
    deleted = F.col("value").isNull().alias("deleted")
    if not parameters.text:
        return kept.select("key", "value", *ORIGIN, deleted)
    key, text = F.col("key").cast("string").alias("key"), F.col("value").cast("string")
    if not parameters.schema:
        return kept.select(key, text.alias("value"), *ORIGIN, deleted)
    fields = F.from_json(text, parameters.schema).alias("fields")
    return kept.select(key, fields, *ORIGIN, deleted).select("key", "fields.*", *ORIGIN, "deleted")


def last_of(rows: DataFrame) -> DataFrame:
    """The last change of each key; a deletion, too, is one."""
    from pyspark.sql import functions as F

    whole = F.struct(*(name for name in rows.columns if name != "key"))
    in_partition = rows.groupBy("key", "partition").agg(F.max_by(whole, "offset").alias("row"))
    latest = F.max_by("row", F.struct("row.timestamp", "row.partition")).alias("row")
    return in_partition.groupBy("key").agg(latest).select("key", "row.*")


def merge(table: DataFrame | None, new: DataFrame) -> DataFrame:
    """The table (None: there is none yet) after these changes."""
    from pyspark.sql import functions as F

    rows = new if table is None else table.withColumn("deleted", F.lit(False)).unionByName(new)
    return last_of(rows).where(~F.col("deleted")).drop("deleted")


# -- versions of the table


def _is_local(table: str) -> bool:
    try:
        local_path(table)
    except NotALogError:
        return False
    return True


def table_path(table: str | os.PathLike[str]) -> str | None:
    """The directory of the version of a table that is to be read now; None as long as there is none.

    It stays while the next version takes its place, and goes with the one after that.
    """
    current = Path(local_path(table)) / "current"
    return os.path.realpath(current) if current.is_symlink() else None


def publish(table: str, version: str) -> None:
    """Make a version the current one, in one step; those before the last one go."""
    root = Path(local_path(table))
    before = table_path(table)
    link = root / f"current.{version}"
    link.symlink_to(os.path.join("versions", version))
    os.replace(link, root / "current")
    keep = {version, os.path.basename(before or "")}
    for old in (root / "versions").iterdir():
        if old.name not in keep:
            shutil.rmtree(old, ignore_errors=True)  # what is left goes next time


def write(frame: DataFrame, table: str) -> None:
    """Write rows as the new version of a table. One writer at a time."""
    version = uuid.uuid4().hex
    versions = Path(local_path(table), "versions")
    versions.mkdir(parents=True, exist_ok=True)
    frame.write.parquet(str(versions / version))
    publish(table, version)


# -- the whole


@pipeline("latest", "A changelog topic into a Parquet table of the latest value for each key.", LatestParameters)
def run(spark: SparkSession, parameters: LatestParameters) -> Report:
    """Merge what is new into the table, or make it anew."""
    ensure_topics(parameters, parameters.topic)
    if parameters.rebuild:
        records = read_batch(spark, parameters, parameters.topic)
        write(merge(None, changes(records, parameters)), parameters.table)
        return Report("latest", {"rows": _row_count(spark, parameters)})

    def apply(batch: DataFrame, _batch_id: int) -> None:
        before = table_path(parameters.table)
        table = None if before is None else batch.sparkSession.read.parquet(before)
        write(merge(table, batch), parameters.table)

    new = changes(read_stream(spark, parameters, parameters.topic), parameters)
    (counts,) = finish(start(spark, new.writeStream.foreachBatch(apply), parameters, "latest"))
    found = {name: counts.total(name) for name in ("records", "keyless")}
    return Report("latest", found | {"rows": _row_count(spark, parameters)})


def _row_count(spark: SparkSession, parameters: LatestParameters) -> int:
    version = table_path(parameters.table)
    return 0 if version is None else spark.read.parquet(version).count()
