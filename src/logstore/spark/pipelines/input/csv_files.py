"""CSV files of a stream, read by the names in their headers.

Spark takes the columns of a stream of CSV files by position, and skips their headers: a file with its columns in
another order gives values under wrong names, without an error. So Spark's stream is used only to list the files of
a micro-batch. They are read as a batch, those with the same header together. Driver only.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from logstore.errors import SparkQueryError
from logstore.spark.pipelines import hadoop
from logstore.spark.pipelines.input.values import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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
    found: DataFrame | None = None
    for header, group in headers.items():
        in_place = StructType([schema[name] for name in header])
        rows = rows_of(spark, group, in_place, **options).select(*map(quoted, (*schema.names, *EXTRA)))
        found = rows if found is None else found.unionByName(rows)
    return found


#: Columns read beside those of a file: the line, if it does not fit, and the file it is from.
CORRUPT, FILE = EXTRA = ("_logstore_line", "_logstore_file")


def rows_of(spark: SparkSession, paths: Sequence[str], schema: StructType, **options: Any) -> DataFrame:
    """Read rows with the columns in the order of the files, and `EXTRA`."""
    from pyspark.sql import functions as F

    reader = spark.read.format("csv").options(**options, columnNameOfCorruptRecord=CORRUPT)
    rows = reader.schema(with_corrupt(schema)).load(list(paths))
    return rows.select("*", F.col("_metadata.file_path").alias(FILE))


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
