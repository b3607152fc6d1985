"""``files``: the files of a directory as records of a topic, exactly once.

CSV (with a header line, and no line breaks inside fields), JSON lines, Parquet or plain text. Each line or row
becomes one record: its key is a SQL expression over the columns, its value another one, or a JSON object of chosen
columns; by default of all, and of text the line as it is.
Files are found by Spark's file stream: a file counts as soon as it has its final name in the directory, must
not change after that, and is taken once, whatever restarts come between. Sub-directories are looked into with
``recursive``.

Order: the rows of one file keep their order in each partition of the topic, and so for each key. Between
files, older ones (by modification time) come first by micro-batch; within a micro-batch nothing is promised.

Event time plays no part: a record's timestamp is when it was written, and what the rows say of time stays
in their values. ``timestamp`` names an expression where it should be the record's timestamp instead.

Columns: those of ``schema`` (Spark's DDL: ``carrier STRING, flight INT``), else as they are found in the files
that are there at the first run; that finding is kept in the checkpoint, so that later files cannot change it.

Scale: ``files_per_trigger`` bounds a micro-batch, ``partitions`` is how wide the topic is. Spark cuts large
files into tasks by ``spark.sql.files.maxPartitionBytes``; each task stages its own batches for every partition.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import Parameters, Report, hadoop, parameter, pipeline
from logstore.spark.pipelines.running import finish, start
from logstore.spark.pipelines.topics import ensure_topics, write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("csv", "json", "parquet", "text")


@dataclass(frozen=True, kw_only=True)
class FilesParameters(Parameters):
    """What is read, and what becomes of a row."""

    source: str = parameter(help="Directory of the files.")
    topic: str = parameter(help="Topic that the records go to; created if missing.")
    format: str = parameter("csv", "csv (with a header line), json (lines), parquet or text.")
    schema: str = parameter("", "Columns as Spark's DDL; by default those found at the first run.")
    key: str = parameter("", "SQL expression of the key, such as concat(carrier, flight); by default none.")
    value: str = parameter("", "SQL expression of the value; by default JSON of the columns, or the line of text.")
    columns: tuple[str, ...] = parameter((), "Columns in the JSON value; by default all.")
    timestamp: str = parameter("", "SQL expression of the record's timestamp; by default when it is written.")
    recursive: bool = parameter(False, "Look into sub-directories, too.")
    glob: str = parameter("", "Only files whose names match, such as *.csv.")
    strict: bool = parameter(True, "A line that does not fit the columns ends the run; else it gives nulls.")
    files_per_trigger: int = parameter(0, "Files taken in one micro-batch; 0 takes all.", scale=True)

    def __post_init__(self) -> None:
        Parameters.__post_init__(self)
        self.require("format", self.format in FORMATS, " or ".join(FORMATS))
        self.require("files_per_trigger", self.files_per_trigger >= 0, "0 or more")
        if self.value and self.columns:
            raise InvalidSettingError({"columns": "they choose what goes into the JSON value; give them or value"})


def transform(rows: DataFrame, parameters: FilesParameters) -> DataFrame:
    """Rows as records: columns key and value, and timestamp where one is asked for."""
    from pyspark.sql import functions as F

    shown = [F.col(name) for name in parameters.columns or rows.columns]
    as_it_is = "value" if parameters.format == "text" and not parameters.columns else ""
    asked = parameters.value or as_it_is
    value = F.expr(asked) if asked else F.to_json(F.struct(*shown))
    key = F.expr(parameters.key) if parameters.key else F.lit(None)
    records = [key.cast("string").cast("binary").alias("key"), value.cast("string").cast("binary").alias("value")]
    if parameters.timestamp:
        records.append(F.expr(parameters.timestamp).cast("timestamp").alias("timestamp"))
    return rows.select(*records)


def schema_of(spark: SparkSession, parameters: FilesParameters) -> StructType | str:
    """The columns of the files: as given, as the checkpoint keeps them, else as the files show them now.

    Raises:
        InvalidSettingError: there are no files yet to find columns in.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    if parameters.format == "text":
        return "value STRING"
    if parameters.schema:
        return parameters.schema
    kept = os.path.join(parameters.checkpoint, "columns")
    # Asked for first: Spark tells of a path that is not there with a stack trace.
    if hadoop.exists(spark, kept):
        (row,) = spark.read.json(kept).select("columns").collect()
        return StructType.fromJson(json.loads(row.columns))
    try:
        found = _configured(spark.read, parameters).option("inferSchema", True).load(parameters.source).schema
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        problem = f"no files in {parameters.source} to find columns in; give schema, or begin when there is one"
        raise InvalidSettingError({"source": problem}) from error
    spark.createDataFrame([(found.json(),)], "columns STRING").coalesce(1).write.json(kept)
    return found


def read(spark: SparkSession, parameters: FilesParameters) -> DataFrame:
    """The files as a stream of rows."""
    reader = _configured(spark.readStream, parameters).schema(schema_of(spark, parameters))
    if parameters.files_per_trigger:
        reader = reader.option("maxFilesPerTrigger", parameters.files_per_trigger)
    return reader.load(parameters.source)


def _configured(reader: Any, parameters: FilesParameters) -> Any:
    """A reader of batches or streams, told what the files are."""
    # A quote inside a quoted field is doubled, as every other writer of CSV has it.
    options = {"recursiveFileLookup": str(parameters.recursive), "header": "true", "escape": '"'}
    if parameters.glob:
        options["pathGlobFilter"] = parameters.glob
    if parameters.strict:
        options["mode"] = "FAILFAST"
    return reader.format(parameters.format).options(**options)


@pipeline("files", "Files (CSV, JSON lines, Parquet, text) into a topic, exactly once.", FilesParameters)
def run(spark: SparkSession, parameters: FilesParameters) -> Report:
    """Copy what is new in the directory."""
    ensure_topics(parameters, parameters.topic)
    records = transform(read(spark, parameters), parameters)
    (counts,) = finish(start(write_stream(records, parameters, parameters.topic), parameters, "files"))
    return Report("files", {"records": counts.total()})
