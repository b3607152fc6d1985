"""``files``: the files of a directory as records of a topic, exactly once.

CSV (with a header line, and no line breaks inside fields), JSON lines, Parquet or plain text. Each line or row
becomes one record. Its key is a SQL expression over the columns. Its value is another expression, or a JSON object
of chosen columns; by default of all columns, and for text the line unchanged.
Spark's file stream finds the files. A file counts as soon as it has its final name in the directory, and must not
change after that. It is read once, even across restarts, however old it is. ``recursive`` includes sub-directories.

Columns: those of ``schema`` (Spark's DDL: ``carrier STRING, flight INT``), else those found in the files at the
first run. The columns found are kept in the checkpoint, so that later files cannot change them. They are text:
00123 stays 00123, and 1.10 is not 1.1. ``guess`` lets Spark guess types instead. Columns of CSV are matched by
the names in each file's header, in any order; a file whose header has other names ends the run. A line that does
not fit ends it too, unless ``no-strict`` leaves such lines out, and counts them as ``refused``.

Order: the rows of one file keep their order in each partition of the topic, and so for each key. Of the new
files that Spark finds, older ones (by modification time) are in earlier micro-batches. The files of one
micro-batch have no order.

Event time plays no part: a record's timestamp is when it was written, and times in the rows stay in their values.
``timestamp`` is an expression that gives the record's timestamp instead.

Scale: ``files_per_trigger`` bounds a micro-batch, ``partitions`` is the topic's partition count. Spark splits large
files into tasks by ``spark.sql.files.maxPartitionBytes``; each task stages its own batches for every partition.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from logstore.errors import InvalidSettingError
from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, hadoop, parameter, pipeline
from logstore.spark.pipelines.input import lines
from logstore.spark.pipelines.input.values import checked, quoted
from logstore.spark.pipelines.output.outputs import TopicOutput, query_of
from logstore.spark.pipelines.reasons import reason_of
from logstore.spark.pipelines.running.queries import finish, start
from logstore.spark.pipelines.topics import ensure_topics, write_batch, write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

STAGE = "files"
FORMATS = ("csv", "json", "parquet", "text")


@dataclass(frozen=True, kw_only=True)
class FilesParameters(Parameters):
    """Parameters of ``files``: the files to read, and how rows become records."""

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
    guess: bool = parameter(False, "Without schema: let Spark guess types; otherwise columns are text.")
    strict: bool = parameter(True, "A line that does not fit ends the run; else it is left out and counted.")
    files_per_trigger: int = parameter(0, "Files taken in one micro-batch; 0 takes all.", scale=True, least=0)

    def check(self) -> None:
        self.require("format", self.format in FORMATS, " or ".join(FORMATS))
        if self.value and self.columns:
            raise InvalidSettingError({"columns": "they choose what goes into the JSON value; give them or value"})


def transform(rows: DataFrame, parameters: FilesParameters) -> DataFrame:
    """Convert rows to records: columns key and value, and timestamp where one is asked for."""
    shown = [F.col(name) for name in parameters.columns or rows.columns]
    as_it_is = "value" if parameters.format == "text" and not parameters.columns else ""
    asked = parameters.value or as_it_is
    value = F.expr(asked) if asked else F.to_json(F.struct(*shown))
    key = F.expr(parameters.key) if parameters.key else F.lit(None)
    records = [key.cast("string").cast("binary").alias("key"), value.cast("string").cast("binary").alias("value")]
    if parameters.timestamp:
        records.append(F.expr(parameters.timestamp).cast("timestamp").alias("timestamp"))
    return rows.select(*records)


def check_expressions(rows: DataFrame, parameters: FilesParameters) -> None:
    """Refuse an expression that is invalid for the columns of the files, before anything is read.

    Raises:
        InvalidSettingError: an expression is invalid; its parameter is named.
    """
    from pyspark.errors import AnalysisException

    for name in ("key", "value", "timestamp", "columns"):
        given = getattr(parameters, name)
        try:
            rows.selectExpr(*map(quoted, given) if name == "columns" else [given] * bool(given))
        except AnalysisException as error:
            raise InvalidSettingError({name: reason_of(error)}) from error


# -- columns


def schema_of(spark: SparkSession, parameters: FilesParameters) -> StructType:
    """Return the columns of the files: as given, from the checkpoint, else as found in the files now.

    Raises:
        InvalidSettingError: there are no files yet to find columns in.
    """
    from pyspark.sql.types import StructType

    if parameters.format == "text":
        return StructType.fromDDL("value STRING")
    if parameters.schema:
        return checked(parameters.schema)
    kept = os.path.join(parameters.checkpoint, "columns")
    # Checked first: Spark reports a missing path with a stack trace.
    if hadoop.exists(spark, kept):
        (row,) = spark.read.json(kept).select("columns").collect()
        return StructType.fromJson(json.loads(row.columns))
    found = _found(spark, parameters)
    if found is None:
        problem = f"no files in {parameters.source} to find columns in; give schema, or begin when there is one"
        raise InvalidSettingError({"source": problem})
    spark.createDataFrame([(found.json(),)], "columns STRING").coalesce(1).write.json(kept)
    return found


def _found(spark: SparkSession, parameters: FilesParameters) -> StructType | None:
    """Find the columns of the existing files; return None without files."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    options = _options(parameters)
    try:
        if parameters.format == "csv":
            listed = spark.read.format("text").options(**_which(parameters)).load(parameters.source).inputFiles()
            headers = ((unquote(path), lines.header_of(spark, unquote(path))) for path in sorted(listed))
            path, header = next(((path, names) for path, names in headers if names), ("", None))
            if header is None:
                return None
            if not parameters.guess:
                return StructType.fromDDL(", ".join(f"{quoted(name)} STRING" for name in header))
            return spark.read.csv(hadoop.without_patterns(path), inferSchema=True, **options).schema
        if parameters.format == "json" and not parameters.guess:
            options["primitivesAsString"] = "true"
        reader = spark.read.format(parameters.format).options(**options, **_which(parameters))
        return reader.load(parameters.source).schema
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        return None


def _which(parameters: FilesParameters) -> dict[str, str]:
    """Return Spark's options that select files."""
    glob = {"pathGlobFilter": parameters.glob} if parameters.glob else {}
    return {"recursiveFileLookup": str(parameters.recursive), **glob}


def _options(parameters: FilesParameters) -> dict[str, str]:
    """Return Spark's options for the format of a file."""
    # Spark's default escape is a backslash; other writers of CSV double a quote inside a quoted field.
    return {"header": "true", "escape": '"'} if parameters.format == "csv" else {}


# -- rows


def read(spark: SparkSession, parameters: FilesParameters, schema: StructType) -> DataFrame:
    """Read the files as a stream of rows, with `lines.EXTRA` where lines may not fit.

    Raises:
        InvalidSettingError: the directory does not exist.
    """
    from pyspark.errors import AnalysisException

    has_lines = parameters.format in ("csv", "json")
    reader = spark.readStream.format(parameters.format).options(**_which(parameters), **_options(parameters))
    reader = reader.option("columnNameOfCorruptRecord", lines.CORRUPT)
    # By default Spark ignores a new file that is seven days older than the newest one: its lines would be lost.
    reader = reader.option("maxFileAge", "36500d")
    if parameters.files_per_trigger:
        reader = reader.option("maxFilesPerTrigger", parameters.files_per_trigger)
    try:
        rows = reader.schema(lines.with_corrupt(schema) if has_lines else schema).load(parameters.source)
    except AnalysisException as error:
        raise InvalidSettingError({"source": reason_of(error)}) from error
    return rows.select("*", F.col("_metadata.file_path").alias(lines.FILE)) if has_lines else rows


def fitting(rows: DataFrame, parameters: FilesParameters, seen: Observation | str = "lines") -> DataFrame:
    """Keep the rows that fit their columns, counted as ``records``; others end the run or count as ``refused``."""
    if lines.CORRUPT not in rows.columns:
        return rows.observe(seen, F.count(F.lit(1)).alias("records"))
    line = F.col(lines.CORRUPT)
    if parameters.strict:
        rows = rows.withColumn(lines.CORRUPT, lines.raised(F.col(lines.FILE), line))
    counted = rows.observe(seen, F.count_if(line.isNull()).alias("records"), F.count(line).alias("refused"))
    return counted.where(line.isNull()).drop(*lines.EXTRA)


@pipeline("files", "Files (CSV, JSON lines, Parquet, text) into a topic, exactly once.", FilesParameters)
def run(spark: SparkSession, parameters: FilesParameters) -> Report:
    """Copy new files of the directory into the topic."""
    ensure_topics(parameters, parameters.topic)
    schema = schema_of(spark, parameters)
    rows = read(spark, parameters, schema)
    check_expressions(rows, parameters)
    records = transform(fitting(rows, parameters), parameters)
    where = hadoop.qualified(spark, parameters.source)
    fills = TopicOutput(parameters, parameters.topic, source=f"{where}/{parameters.glob}".rstrip("/"))
    total = Counter({"records": 0, "refused": 0})

    def write(batch: DataFrame, number: int) -> None:
        total.update(write_csv(batch.sparkSession, parameters, schema, number))

    with lines.located(spark, parameters.format, schema):
        if parameters.format == "csv":
            finish(start(spark, rows.writeStream.foreachBatch(write), parameters, STAGE, fills))
        else:
            writer = write_stream(records, parameters, parameters.topic)
            (counts,) = finish(start(spark, writer, parameters, STAGE, fills))
            total.update({name: counts.total(name) for name in total})
    return Report("files", dict(total))


def write_csv(spark: SparkSession, parameters: FilesParameters, schema: StructType, number: int) -> dict[str, int]:
    """Write the files of a micro-batch into the topic, once; return the numbers of records and refused lines."""
    from pyspark.sql import Observation

    checkpoint = parameters.checkpoint_of(STAGE)
    paths = lines.files_of_batch(spark, checkpoint, number)
    rows = lines.read_by_name(spark, paths, schema, **_options(parameters))
    if rows is None:
        return {}
    seen = Observation("lines")
    records = transform(fitting(rows, parameters, seen), parameters)
    write_batch(records, parameters, parameters.topic, query_of(spark, checkpoint), number)
    return {name: int(count or 0) for name, count in seen.get.items()}
