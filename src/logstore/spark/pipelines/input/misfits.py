"""Lines of files that do not fit their columns: the error that ends the run, with file, line and column.

Spark names the file at best, in the middle of its stack traces. Here a task raises the line itself, and the driver
finds its number and the column that is wrong. Driver only, except `raised`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from logstore.errors import SparkQueryError
from logstore.spark.pipelines import hadoop
from logstore.spark.pipelines.input import csv_files
from logstore.spark.pipelines.reasons import is_of_spark
from logstore.spark.pipelines.running.queries import setting

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

#: Marker by which an error raised in a task is found in Spark's message.
_MARK = "logstore: a line that does not fit: "


def raised(file: Column, line: Column) -> Column:
    """Return null where ``line`` is null; a line that does not fit fails the task."""
    from pyspark.sql import functions as F

    told = F.concat(F.lit(_MARK), F.to_json(F.struct(file.alias("file"), line.alias("line"))))
    return F.when(line.isNotNull(), F.raise_error(told).cast("string"))


@contextlib.contextmanager
def told(spark: SparkSession, format: str, schema: StructType) -> Iterator[None]:
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
    from pyspark.sql import functions as F

    with setting(spark, "spark.sql.files.maxPartitionBytes", str(1 << 50)):
        # Row ids count from 0 without gaps only within one task.
        lines = spark.read.text(hadoop.without_patterns(path)).select(
            "value", F.monotonically_increasing_id().alias("n")
        )
        row = lines.where(F.col("value") == line).agg(F.min("n")).first()
    return None if row is None or row[0] is None else int(row[0]) + 1


def _csv_problem(spark: SparkSession, path: str, line: str, schema: StructType) -> str:
    from pyspark.sql import functions as F

    fields, header = csv_files.fields_of(line), csv_files.header_of(spark, path) or ()
    if len(fields) != len(header):
        return f"it has {len(fields)} fields, and the header {len(header)}"
    casts = [F.lit(text).try_cast(schema[name].dataType) for name, text in zip(header, fields, strict=True)]
    values = spark.range(1).select(*(each.isNull() for each in casts)).first() or ()
    for name, text, is_null in zip(header, fields, values, strict=True):
        if is_null and text:
            return f"column {name}: expected {schema[name].dataType.simpleString()}, found {text[:80]!r}"
    return f"expected {schema.simpleString()}, found {line[:80]!r}"


def _json_problem(spark: SparkSession, path: str, line: str, schema: StructType) -> str:
    from pyspark.sql import functions as F
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
