"""Columns that a write accepts, with Spark's names of their types, and the check of those given.

One error lists every problem with advice, before a task runs. Knows neither Spark nor Arrow: imports the
vocabulary only. Any thread may use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from logstore.config.schema import nearest
from logstore.errors import SparkColumnsError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BYTES = ("binary", "string")
_HEADERS = ("array<struct<key:string,value:binary>>", "array<struct<value:binary,key:string>>")
#: Column -> the types that it may have, and advice for another one.
_COLUMNS: dict[str, tuple[tuple[str, ...], str]] = {
    "value": (_BYTES, 'cast it: col("value").cast("string"), or to_json(struct(...)).alias("value")'),
    "key": (_BYTES, 'cast it: col("key").cast("string")'),
    "headers": (_HEADERS, "give it as array(struct(lit(name).alias('key'), data.cast('binary').alias('value')))"),
    "topic": (("string",), 'cast it: col("topic").cast("string")'),
    "partition": (("int",), 'cast it: col("partition").cast("int")'),
    "timestamp": (("timestamp",), 'cast it: col("timestamp").cast("timestamp")'),
}
#: Columns of a read that a write ignores, so that a topic can be copied as it is read.
_GIVEN_ANEW = {"offset": ("bigint",), "timestampType": ("int",)}
#: Columns that a replay needs.
REPLAYED = ("topic", "partition", "offset", "timestamp")


def columns_of(schema: StructType) -> list[tuple[str, str]]:
    """Return the columns of a schema as `check_columns` takes them."""
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def check_columns(columns: Iterable[tuple[str, str]], *, topic: str | None, replay: bool) -> None:
    """Refuse columns that cannot be written. ``columns`` are pairs of a name and Spark's name of its type.

    ``topic`` is the option of that name, without which a column has to name the topic.

    Raises:
        SparkColumnsError: columns are missing, unknown, doubled, or have a wrong type; all are named, with advice.
    """
    problems: dict[str, str] = {}
    found: set[str] = set()
    for name, kind in columns:
        if name in found:
            problems[name] = "occurs twice"
        found.add(name)
        if name in _COLUMNS:
            types, advice = _COLUMNS[name]
            if kind not in types:
                problems[name] = f"has the type {kind}, expected {' or '.join(types[:2])}; {advice}"
        elif name in _GIVEN_ANEW:
            if replay and kind not in _GIVEN_ANEW[name]:
                problems[name] = f"has the type {kind}, expected {_GIVEN_ANEW[name][0]}"
        else:
            problems[name] = (
                f'{nearest(name, _COLUMNS)}; drop it, or put it into the value: to_json(struct("*")).alias("value")'
            )
    if "value" not in found:
        problems["value"] = 'is missing; to_json(struct("*")).alias("value") puts all columns into it'
    if replay:
        for name in REPLAYED:
            if name not in found:
                problems[name] = "is missing; a replay keeps what it says"
    elif topic is None and "topic" not in found:
        problems["topic"] = "is missing, and so is the option topic: one of them has to say where rows go"
    if problems:
        raise SparkColumnsError(problems)
