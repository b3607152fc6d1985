"""Validation of a pipeline's values: text, or JSON with the fields of a schema; expressions over columns.

Any other value is refused and counted as broken: it becomes neither a null nor a zero.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from logstore.errors import InvalidSettingError
from logstore.spark import functions as F
from logstore.spark.pipelines.reasons import reason_of

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

#: Field that is filled, beside those of the schema, if a value does not fit them.
_MISFIT = "_logstore_misfit"


def is_text(name: str) -> Column:
    """Test whether bytes are null, or text in UTF-8: Parquet's readers refuse a file with any other text."""
    return F.col(name).isNull() | F.is_valid_utf8(F.col(name).cast("string"))


def fields_of(text: Column, schema: str) -> tuple[Column, Column]:
    """Parse JSON to a struct, and test whether it is an object whose fields have their types or are missing."""
    found = F.from_json(text, f"{schema}, {_MISFIT} STRING", {"columnNameOfCorruptRecord": _MISFIT})
    fits = F.coalesce(found[_MISFIT].isNull() & found.isNotNull(), F.lit(False))
    return found.dropFields(_MISFIT), fits


def json_record(key: str, fields: Column) -> tuple[Column, Column]:
    """Return the columns key and value of a record: a column as bytes, and a struct as JSON."""
    return F.col(key).cast("binary").alias("key"), F.to_json(fields).cast("binary").alias("value")


def checked(schema: str) -> StructType:
    """Parse the columns of Spark's DDL. Needs a session.

    Raises:
        InvalidSettingError: it is not valid DDL, or names a column twice.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(schema)
    except AnalysisException as error:
        raise InvalidSettingError({"schema": reason_of(error)}) from error
    if not isinstance(found, StructType):
        raise InvalidSettingError({"schema": f"expected columns such as a INT, b STRING, found {schema!r}"})
    twice = sorted({name for name in found.names if found.names.count(name) > 1})
    if twice:
        raise InvalidSettingError({"schema": f"it has {', '.join(twice)} twice"})
    return found


def quoted(name: str) -> str:
    """Quote a column's name for use in an expression."""
    return "`" + name.replace("`", "``") + "`"


def names_of(schema: str) -> list[str]:
    """Return the columns' names in Spark's DDL, such as ``a INT, `b c` STRUCT<d: INT, e: INT>``; needs no Spark.

    >>> names_of("a INT, `b c` STRUCT<d: INT, e: DECIMAL(3, 1)>, f STRING COMMENT 'x, y'")
    ['a', 'b c', 'f']
    """
    names, depth, begins = [], 0, True
    for token in re.findall(r"`(?:[^`]|``)*`|'[^']*'|[<>(),]|[^<>(),`'\s:]+", schema):
        if begins:
            names.append(token[1:-1].replace("``", "`") if token.startswith("`") else token)
        depth += (token in "<(") - (token in ">)")
        begins = token == "," and depth == 0
    return names
