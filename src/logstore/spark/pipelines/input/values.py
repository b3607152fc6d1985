"""What a pipeline takes for a good value: text, JSON with the fields of a schema. Expressions over columns.

A value that is none of these is refused and counted, as one that is broken: it becomes neither a null nor a zero.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from logstore.errors import InvalidSettingError
from logstore.spark.pipelines.reasons import reason_of

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

#: What is filled, beside the fields, of a value that does not fit them.
_MISFIT = "_logstore_misfit"


def is_text(name: str) -> Column:
    """Whether a column of bytes is null, or text in UTF-8: Parquet's readers refuse a file with any other text."""
    from pyspark.sql import functions as F

    return F.col(name).isNull() | F.is_valid_utf8(F.col(name).cast("string"))


def fields_of(text: Column, schema: str) -> tuple[Column, Column]:
    """The fields of JSON, a struct; and whether it is an object whose fields have their types, or are missing."""
    from pyspark.sql import functions as F

    found = F.from_json(text, f"{schema}, {_MISFIT} STRING", {"columnNameOfCorruptRecord": _MISFIT})
    fits = F.coalesce(found[_MISFIT].isNull() & found.isNotNull(), F.lit(False))
    return found.dropFields(_MISFIT), fits


def checked(schema: str) -> StructType:
    """The columns of Spark's DDL. Needs a session.

    Raises:
        InvalidSettingError: it is none, or names a column twice.
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
    """A column's name where an expression is expected."""
    return "`" + name.replace("`", "``") + "`"


def names_of(schema: str) -> list[str]:
    """The names of the columns in Spark's DDL, such as ``a INT, `b c` STRUCT<d: INT, e: INT>``; needs no Spark.

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
