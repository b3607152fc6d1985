"""``latest``: a changelog topic as a table of the latest value for each key, in Parquet.

The topic may be compacted or not. Only the last record of each key counts, and a record without a value (a
tombstone) deletes its key. "Last" means the highest offset within a partition. If a key has records in several
partitions, as after partitions were added, it has the value of the partition with its newest timestamp. Records
without a key are left out and counted as ``keyless``. Those whose key or value is not text (UTF-8), or not JSON of
the ``schema``, are counted as ``refused``: the good value before them stays.

The table is a directory on a file system with symbolic links: ``current`` points to the version to read. A new
version replaces it in one step, so that a reader sees a table before or after a micro-batch and nothing in between.
The version before is kept for its readers; `table_path` names the one to read.

    key, value                       text, or with ``no-text`` bytes; with ``schema`` the fields of the JSON value
                                     take value's place
    partition, offset, timestamp     of the record that the row comes from

Every micro-batch merges new records into the table and writes it from scratch. Beside the rows, in ``_others``, a
version keeps the last record of a key in every other partition, and tombstones. So later records are compared with
all earlier ones, and the table is the same however the topic is divided into runs. Repeating a micro-batch gives
the same table, so restarts, kills or a lost checkpoint do not change it. ``rebuild`` makes the table from the whole
topic instead, in one batch.

Event time plays no part.

Scale: a merge costs the table plus the changes, spread over ``--shuffle-partitions``; make micro-batches
large (``max_offsets`` 0, a long ``interval_s``) where the table is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from logstore.errors import CheckpointMismatchError, DirectoryLockedError, InvalidSettingError, NotALogError
from logstore.paths import local_path
from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.input.values import checked, fields_of, is_text, names_of
from logstore.spark.pipelines.output.outputs import CLAIM, Checkpoint, Output
from logstore.spark.pipelines.running.queries import finish, start
from logstore.spark.pipelines.topics import backend, ensure_topics, read_batch, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGE = "latest"

#: The directory of a version for records that are not rows of the table. Parquet readers skip names with ``_``.
OTHERS = "_others"

#: The file in the directory of a table that its writer locks by flock(2): killing the writer releases it.
LOCK = ".lock"

#: Columns of a record that the table keeps: a merge needs them to find the later record.
ORIGIN = ("partition", "offset", "timestamp")


@dataclass(frozen=True, kw_only=True)
class LatestParameters(Parameters):
    """Parameters of ``latest``: topic, table, and format of the values."""

    topic: str = parameter(help="The changelog; created if missing.")
    table: str = parameter(help="Directory of the table.")
    text: bool = parameter(True, "Keys and values are text; otherwise they stay bytes.")
    schema: str = parameter("", "Fields of JSON values as Spark's DDL, to be columns of the table.")
    rebuild: bool = parameter(False, "Make the table from the whole topic, now, in one batch.")

    def check(self) -> None:
        place = _local(self.table)
        self.require("table", place is not None, "a directory on a file system with symbolic links")
        self.require("schema", self.text or not self.schema, "text for it: leave out no-text")
        clashes = sorted({"key", *ORIGIN} & {name.lower() for name in names_of(self.schema)})
        self.require("schema", not clashes, f"no field {' or '.join(clashes)}: the table has a column of that name")
        self.require("table", not os.path.isfile(place or ""), "a directory")
        self.require("rebuild", not (self.rebuild and self.continuous), "to be used without continuous")


# -- data frames


def changes(records: DataFrame, parameters: LatestParameters) -> DataFrame:
    """Convert records of the topic to changes: the table's columns, and ``deleted``.

    Those without a key, and those that are refused, are left out and counted.
    """
    has_key, deleted = F.col("key").isNotNull(), F.col("value").isNull().alias("deleted")
    counts = F.count(F.lit(1)).alias("records"), F.count_if(~has_key).alias("keyless")
    if not parameters.text:
        kept = records.observe("changes", *counts, F.sum(F.lit(0)).alias("refused")).where(has_key)
        return kept.select("key", "value", *ORIGIN, deleted)
    text = F.col("value").cast("string")
    good, value, columns = is_text("key") & is_text("value"), text.alias("value"), ["value"]
    if parameters.schema:
        fields, fits = fields_of(text, parameters.schema)
        good, value, columns = good & (F.col("value").isNull() | fits), fields.alias("value"), ["value.*"]
    read = records.select(F.col("key").cast("string"), value, *ORIGIN, deleted, good.alias("good"))
    refused = F.count_if(has_key & ~F.col("good")).alias("refused")
    kept = read.observe("changes", *counts, refused).where(has_key & F.col("good"))
    return kept.select("key", *columns, *ORIGIN, "deleted")


def merge(known: DataFrame | None, new: DataFrame) -> DataFrame:
    """Merge new changes with known ones: keep each key's last change in each partition, deletions included."""
    rows = new if known is None else known.unionByName(new)
    whole = F.struct(*(name for name in rows.columns if name not in ("key", "partition")))
    # By key alone: partitioning by key and partition would cost a second shuffle later.
    last = rows.repartition("key").groupBy("key", "partition").agg(F.max_by(whole, "offset").alias("row"))
    return last.select("key", "partition", "row.*").select(rows.columns)


def rows_of(changes: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split the result of `merge` into the table's rows and the rest: tombstones, changes of other partitions."""
    from pyspark.sql import Window

    newest_first = Window.partitionBy("key").orderBy(F.desc("timestamp"), F.desc("partition"))
    is_row = (F.row_number().over(newest_first) == 1) & ~F.col("deleted")
    marked = changes.withColumn("is_row", is_row)
    return marked.where("is_row").drop("is_row", "deleted"), marked.where("not is_row").drop("is_row")


# -- versions of the table


def _local(table: str) -> str | None:
    """Return a table's directory on this machine's file systems; None if it is elsewhere."""
    try:
        return local_path(table)
    except NotALogError:
        return None


def table_path(table: str | os.PathLike[str]) -> str | None:
    """Return the directory of a table's current version; None if there is none yet.

    It is kept when the next version replaces it, and deleted by the one after that.
    """
    current = Path(local_path(table)) / "current"
    return os.path.realpath(current) if current.is_symlink() else None


def publish(table: str, version: str) -> None:
    """Make a version the current one, in one step; delete those before the last one."""
    root = Path(local_path(table))
    before = table_path(table)
    link = root / f"current.{version}"
    link.symlink_to(os.path.join("versions", version))
    os.replace(link, root / "current")
    keep = {version, os.path.basename(before or "")}
    for old in (root / "versions").iterdir():
        if old.name not in keep:
            shutil.rmtree(old, ignore_errors=True)  # the next call deletes what is left


@contextlib.contextmanager
def one_writer(table: str) -> Iterator[None]:
    """Lock a table for writing: two writers would delete the versions that the other one is writing.

    Raises:
        DirectoryLockedError: another run holds the lock, here or in another process. Nothing was changed.
        InvalidSettingError: its file system has no locks.
    """
    root = Path(local_path(table))
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DirectoryLockedError(
                f"the table in {table} is being written by another run; stop it, or wait for its end"
            ) from error
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            problem = f"{table} is on a file system without locks (flock); give a directory on one with them"
            raise InvalidSettingError({"table": problem}) from error
        yield


class Made(NamedTuple):
    """Origin of a version of the table: store, topic, query and micro-batch."""

    store: str
    topic: str
    topic_id: str
    query: str  #: the query whose micro-batch made it; "" if it was rebuilt without a checkpoint
    batch: int  #: the newest micro-batch that is in it

    @classmethod
    def of(cls, table: str) -> Made | None:
        """Return that of the current version; None if there is none, or an earlier program made it."""
        version = table_path(table)
        claim = None if version is None else Path(version, CLAIM)
        return cls(**json.loads(claim.read_text())) if claim is not None and claim.exists() else None


class TableOutput(Output):
    """The table as an output that one topic fills."""

    def __init__(self, parameters: LatestParameters) -> None:
        self.parameters = parameters

    def check(self, spark: SparkSession, checkpoint: Checkpoint) -> None:
        table, name = self.parameters.table, self.parameters.topic
        version, made = table_path(table), Made.of(table)
        if version is None:
            if checkpoint.ended >= 0:
                raise CheckpointMismatchError(
                    f"the table in {table} is missing, and checkpoint {checkpoint.path} says that it was made. "
                    "Rebuild it from the whole topic (--rebuild)"
                )
        elif made is not None:
            now = self.of_today(checkpoint)
            if (made.store, made.topic) != (now.store, now.topic):
                raise CheckpointMismatchError(
                    f"the table in {table} is that of topic {made.topic} in {made.store}; give another directory"
                )
            if made.topic_id != now.topic_id:
                raise CheckpointMismatchError(
                    f"topic {name!r} was deleted and created again, and the table in {table} is that of the "
                    "earlier one; rebuild it (--rebuild), and continue with a new checkpoint"
                )
            self._check_made(made, checkpoint)

    def _check_made(self, made: Made, checkpoint: Checkpoint) -> None:
        if checkpoint.is_new:
            return  # it reads the topic from its beginning, and merging a record again changes nothing
        if made.query != checkpoint.query:
            problem = f"was made with another checkpoint than {checkpoint.path}"
        elif made.batch < checkpoint.ended:
            problem = f"lacks micro-batch {checkpoint.ended} of checkpoint {checkpoint.path} (from a copy?)"
        else:
            return
        raise CheckpointMismatchError(
            f"the table in {self.parameters.table} {problem}: records would be missing. Rebuild it from the "
            "whole topic (--rebuild)"
        )

    def of_today(self, checkpoint: Checkpoint) -> Made:
        """Return the origin of a version that has all micro-batches that the checkpoint has finished."""
        topic = self.parameters.topic
        store = self.parameters.bootstrap or os.path.realpath(local_path(self.parameters.path))
        topic_id = backend(self.parameters, topic).topic(topic).id
        return Made(store, topic, topic_id, checkpoint.query, checkpoint.ended)


def write(changes: DataFrame, table: str, made: Made) -> None:
    """Write the result of `merge` as a new version of a table; the caller holds its `one_writer`."""
    version = uuid.uuid4().hex
    place = Path(local_path(table), "versions", version)
    place.parent.mkdir(parents=True, exist_ok=True)
    kept = changes.persist()
    try:
        rows, others = rows_of(kept)
        rows.write.parquet(str(place))
        others.write.parquet(str(place / OTHERS))
    finally:
        kept.unpersist()
    (place / CLAIM).write_text(json.dumps(made._asdict()) + "\n")
    publish(table, version)


def read(spark: SparkSession, table: str) -> DataFrame | None:
    """Read what the current version was written from; None if there is none."""
    version = table_path(table)
    if version is None:
        return None
    rows = spark.read.parquet(version).withColumn("deleted", F.lit(False))
    others = Path(version, OTHERS)
    # Versions written by earlier programs have none.
    return rows.unionByName(spark.read.parquet(str(others))) if others.exists() else rows


# -- the whole


@pipeline("latest", "A changelog topic into a Parquet table of the latest value for each key.", LatestParameters)
def run(spark: SparkSession, parameters: LatestParameters) -> Report:
    """Merge new records into the table, or rebuild it."""
    if parameters.schema:
        checked(parameters.schema)
    ensure_topics(parameters, parameters.topic)
    with one_writer(parameters.table):
        return _run(spark, parameters)


def _run(spark: SparkSession, parameters: LatestParameters) -> Report:
    table = TableOutput(parameters)
    checkpoint = parameters.checkpoint_of(STAGE)
    if parameters.rebuild:
        # Read before the topic: a checkpoint read later could have micro-batches that the table lacks.
        made = table.of_today(Checkpoint.read(spark, checkpoint))
        records = read_batch(spark, parameters, parameters.topic)
        write(merge(None, changes(records, parameters)), parameters.table, made)
        return Report("latest", {"rows": _row_count(spark, parameters)})

    def apply(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        made = table.of_today(Checkpoint.read(spark, checkpoint))._replace(batch=number)
        write(merge(read(spark, parameters.table), batch), parameters.table, made)

    new = changes(read_stream(spark, parameters, parameters.topic), parameters)
    _check_columns(read(spark, parameters.table), new, parameters.table)
    (counts,) = finish(start(spark, new.writeStream.foreachBatch(apply), parameters, STAGE, table))
    found = {name: counts.total(name) for name in ("records", "keyless", "refused")}
    return Report("latest", found | {"rows": _row_count(spark, parameters)})


def _check_columns(known: DataFrame | None, new: DataFrame, table: str) -> None:
    """Refuse to merge into a table with other columns.

    Raises:
        InvalidSettingError: the table has the columns of another schema.
    """
    if known is None:
        return
    before, after = (
        {each.name: each.dataType.simpleString() for each in frame.schema.fields} for frame in (known, new)
    )
    if before != after:
        found = ", ".join(f"{name} {kind}" for name, kind in before.items() if name not in (*ORIGIN, "deleted"))
        problem = f"the table in {table} has the columns {found}; rebuild it with the new schema (--rebuild)"
        raise InvalidSettingError({"schema": problem})


def _row_count(spark: SparkSession, parameters: LatestParameters) -> int:
    version = table_path(parameters.table)
    return 0 if version is None else spark.read.parquet(version).count()
