"""Lines of files: CSV read by the names in its headers, and lines that do not fit their columns.

Spark takes the columns of a stream of CSV files by position, and skips their headers. A file with its columns in
another order gives values under wrong names, without an error. So Spark's stream is used only to list the files of
a micro-batch. They are read as a batch, those with the same header together.

A line that does not fit ends the run, with an error that names file, line and column. Spark names the file at best,
in the middle of its stack traces. Here a task raises the line itself (`raised`). The driver finds its number and
the column that is wrong (`located`). Driver only, except `raised`.
"""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from logstore.errors import SparkQueryError
from logstore.spark import functions as F
from logstore.spark.pipelines import hadoop
from logstore.spark.pipelines.input.values import quoted
from logstore.spark.pipelines.reasons import is_of_spark
from logstore.spark.pipelines.running.queries import setting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


# --- CSV by its headers ------------------------------------------------------------------------


def files_of_batch(spark: SparkSession, checkpoint: str, number: int) -> list[str]:
    """Return the files of a micro-batch, oldest first, from the checkpoint of the query."""
    first, last = _end_of(spark, checkpoint, number - 1) + 1, _end_of(spark, checkpoint, number)
    found: list[tuple[int, str]] = []
    for batch in range(first, last + 1):
        log = f"{checkpoint}/sources/0/{batch}"
        path = log if hadoop.exists(spark, log) else f"{log}.compact"
        # The first line is a version; a compacted file has all batches up to its own.
        entries = [json.loads(line) for line in hadoop.read_text(spark, path).splitlines()[1:]]
        found += [(each["timestamp"], unquote(each["path"])) for each in entries if each["batchId"] == batch]
    return [path for _, path in sorted(found)]


def _end_of(spark: SparkSession, checkpoint: str, number: int) -> int:
    """Return the newest entry of the source's own log that belongs to a micro-batch."""
    if number < 0:
        return -1
    last = hadoop.read_text(spark, f"{checkpoint}/offsets/{number}").splitlines()[-1]
    return -1 if last == "-" else int(json.loads(last)["logOffset"])


def header_of(spark: SparkSession, path: str) -> tuple[str, ...] | None:
    """Return the names in the first line of a file that is not blank; None if there is none.

    Raises:
        SparkQueryError: a name occurs twice, or a column has none.
    """
    line = hadoop.first_line(spark, path)
    if line is None:
        return None
    names = fields_of(line)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not all(names):
        problem = f"column {', '.join(map(repr, twice))} twice" if twice else "a column without a name"
        raise SparkQueryError(f"{path}: its header has {problem}: {line.strip():.200}")
    return tuple(names)


def fields_of(line: str) -> list[str]:
    """Split a line into its fields, of any length."""
    before = csv.field_size_limit(max(len(line), 1))
    try:
        return next(csv.reader([line]), [])
    finally:
        csv.field_size_limit(before)


def read_by_name(spark: SparkSession, paths: Sequence[str], schema: StructType, **options: Any) -> DataFrame | None:
    """Read files with the columns of ``schema``, in any order in each file; None if no file has a header.

    Raises:
        SparkQueryError: the header of a file has other names; the message names the differences.
    """
    from pyspark.sql.types import StructType

    headers: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        header = header_of(spark, path)
        if header is not None:
            _check(path, header, schema)
            headers.setdefault(header, []).append(hadoop.without_patterns(path))
    reader = spark.read.format("csv").options(**options, columnNameOfCorruptRecord=CORRUPT)
    found: DataFrame | None = None
    for header, group in headers.items():
        in_place = StructType([schema[name] for name in header])
        rows = reader.schema(with_corrupt(in_place)).load(group)
        rows = rows.withColumn(FILE, F.col("_metadata.file_path")).select(*map(quoted, (*schema.names, *EXTRA)))
        found = rows if found is None else found.unionByName(rows)
    return found


#: Columns read beside those of a file: the line, if it does not fit, and the file it is from.
CORRUPT, FILE = EXTRA = ("_logstore_line", "_logstore_file")


def with_corrupt(schema: StructType) -> StructType:
    """Return a schema with a column for lines that do not fit it."""
    from pyspark.sql.types import StructType

    return StructType(schema.fields).add(CORRUPT, "string")


def _check(path: str, header: Sequence[str], schema: StructType) -> None:
    missing = [name for name in schema.names if name not in header]
    more = [name for name in header if name not in schema.names]
    if missing or more:
        parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(more)} besides"] * bool(more)
        raise SparkQueryError(
            f"{path}: its header {' and '.join(parts)}; the columns are {', '.join(schema.names)}. Fix the file, "
            "or begin again with another schema, checkpoint and topic"
        )


# --- lines that do not fit ---------------------------------------------------------------------

#: Marker by which an error raised in a task is found in Spark's message.
_MARK = "logstore: a line that does not fit: "


def raised(file: Column, line: Column) -> Column:
    """Return null where ``line`` is null; a line that does not fit fails the task."""
    told = F.concat(F.lit(_MARK), F.to_json(F.struct(file.alias("file"), line.alias("line"))))
    return F.when(line.isNotNull(), F.raise_error(told).cast("string"))


@contextlib.contextmanager
def located(spark: SparkSession, format: str, schema: StructType) -> Iterator[None]:
    """Raise an error about the line for which `raised` has ended the run.

    Raises:
        SparkQueryError: file, line, column, what was expected and found, and what to do.
    """
    try:
        yield
    except Exception as error:
        found = _found_in(str(error)) if is_of_spark(error) else None
        if found is None:
            raise
        what = _csv_problem if format == "csv" else _json_problem
        path, line = found
        number = _number_of(spark, path, line)
        place = f"{path}, line {number}" if number else path
        raise SparkQueryError(
            f"{place}: {what(spark, path, line, schema)}. Fix the line and run again, or leave such lines out "
            "(--no-strict)"
        ) from error


def _found_in(text: str) -> tuple[str, str] | None:
    """Return file and line from Spark's message about a task that `raised`."""
    _, mark, rest = text.partition(_MARK)
    if not mark:
        return None
    with contextlib.suppress(ValueError):
        found, _ = json.JSONDecoder().raw_decode(rest)
        return found["file"], found["line"]
    return None


def _number_of(spark: SparkSession, path: str, line: str) -> int | None:
    """Return the number of the first such line of a file, from 1."""
    with setting(spark, "spark.sql.files.maxPartitionBytes", str(1 << 50)):
        # Row ids count from 0 without gaps only within one task.
        lines = spark.read.text(hadoop.without_patterns(path)).select(
            "value", F.monotonically_increasing_id().alias("n")
        )
        row = lines.where(F.col("value") == line).agg(F.min("n")).first()
    return None if row is None or row[0] is None else int(row[0]) + 1


def _csv_problem(spark: SparkSession, path: str, line: str, schema: StructType) -> str:
    fields, header = fields_of(line), header_of(spark, path) or ()
    if len(fields) != len(header):
        return f"it has {len(fields)} fields, and the header {len(header)}"
    casts = [F.lit(text).try_cast(schema[name].dataType) for name, text in zip(header, fields, strict=True)]
    values = spark.range(1).select(*(each.isNull() for each in casts)).first() or ()
    for name, text, is_null in zip(header, fields, values, strict=True):
        if is_null and text:
            return f"column {name}: expected {schema[name].dataType.simpleString()}, found {text[:80]!r}"
    return f"expected {schema.simpleString()}, found {line[:80]!r}"


def _json_problem(spark: SparkSession, path: str, line: str, schema: StructType) -> str:
    from pyspark.sql.types import StructType

    try:
        found = json.loads(line)
    except ValueError as error:
        return f"no JSON: {error}"
    if not isinstance(found, dict):
        return f"expected an object, found {line[:80]!r}"
    for each in schema.fields:
        if found.get(each.name) is None:
            continue
        value = F.from_json(F.lit(line), StructType([each]))[each.name]
        row = spark.range(1).select(value.isNull()).first()
        if row is not None and row[0]:
            kind, text = each.dataType.simpleString(), json.dumps(found[each.name])
            return f"field {each.name}: expected {kind}, found {text[:80]}"
    return f"expected {schema.simpleString()}, found {line[:80]!r}"
