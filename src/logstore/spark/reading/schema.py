"""Columns of a query: their schema for Spark, and their decoding from records.

They are named, ordered and typed as in Spark's Kafka source; fields of ``valueSchema`` replace the value unless
``columns`` says otherwise. Spark takes only Arrow batches of exactly the types of its own conversion: other types
of decoders are cast. Spark's types are built as objects, since its workers have no session. Imports pyspark and
pyarrow when they are needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.errors import PayloadError, SparkOptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from logstore.batch._batch import Batches
    from logstore.columns._builder import Decoder
    from logstore.spark.reading.options import ReadOptions


def _struct(*fields: tuple[str, Any]) -> dict[str, Any]:
    """Return a struct with nullable fields in Spark's JSON."""
    return {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields],
    }


_HEADERS = {"type": "array", "elementType": _struct(("key", "string"), ("value", "binary")), "containsNull": True}


#: Column -> its type in Spark's JSON; headers come last and only when they are asked for.
COLUMNS: dict[str, Any] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "integer",
    "headers": _HEADERS,
}

_DEFAULT = tuple(COLUMNS)[:-1]

#: Arrow format of a field -> (its type in Spark, whether it has to be cast to that).
_FIELD_TYPES: dict[bytes, tuple[str, bool]] = {
    b"b": ("boolean", False),
    b"c": ("byte", False),
    b"s": ("short", False),
    b"i": ("integer", False),
    b"l": ("long", False),
    b"C": ("short", True),
    b"S": ("integer", True),
    b"I": ("long", True),
    b"e": ("float", True),
    b"f": ("float", False),
    b"g": ("double", False),
    b"u": ("string", False),
    b"z": ("binary", False),
    b"tdD": ("date", False),
    b"tsu:UTC": ("timestamp", False),
    b"tsm:UTC": ("timestamp", True),
    b"tss:UTC": ("timestamp", True),
    b"tsn:UTC": ("timestamp", True),
}


class _Field(NamedTuple):
    type: str
    is_cast: bool


class QueryColumns:
    """Columns of a query's result.

    Threads: immutable after construction.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Determine the columns.

        Raises:
            SparkOptionError: a column is unknown or named twice, or ``valueSchema`` is wrong.
        """
        narrowed: Callable[..., Decoder] | None = None
        self._fields: dict[str, _Field] = {}
        if options.value_schema is not None:
            narrowed, self._fields = _fields_of(options.value_schema, options.on_value_error)
        self.names = self._chosen(options)
        fields = [name for name in self.names if name in self._fields]
        self._decoder = narrowed(fields) if narrowed is not None and fields else None
        self._is_cast = any(self._fields[name].is_cast for name in fields)

    def _chosen(self, options: ReadOptions) -> tuple[str, ...]:
        if options.columns is None:
            default = _DEFAULT + ("headers",) * options.include_headers
            if not self._fields:
                return default
            place = default.index("value")
            return default[:place] + tuple(self._fields) + default[place + 1 :]
        known = {name.lower(): name for name in (*COLUMNS, *self._fields)}
        unknown = [name for name in options.columns if name.lower() not in known]
        if unknown:
            raise SparkOptionError(
                {"columns": f"unknown {', '.join(map(repr, unknown))}; there are {', '.join(known.values())}"}
            )
        names = tuple(name if name in self._fields else known[name.lower()] for name in options.columns)
        if len(set(names)) < len(names):
            raise SparkOptionError({"columns": f"a column can be named once, found {', '.join(names)}"})
        return names

    # -- for Spark

    def spark(self) -> StructType:
        """Return Spark's schema; every column is nullable, as in Spark's Kafka source."""
        from pyspark.sql.types import StructType

        types = COLUMNS | {name: field.type for name, field in self._fields.items()}
        return StructType.fromJson(_struct(*((name, types[name]) for name in self.names)))

    # -- of records

    def batches_of(self, runs: Iterable[Batches]) -> Iterator[pa.RecordBatch]:
        """Decode the visible records of runs to Arrow batches, at least one for each run that has any.

        Raises:
            CorruptRecordError: stored bytes are damaged.
            PayloadError: a value does not match ``valueSchema``.
        """
        import pyarrow as pa

        from logstore.columns._export import ColumnStream

        try:
            for columns in ColumnStream(runs, self.names, decoder=self._decoder, spark=True):
                batch = pa.record_batch(columns)
                yield self._cast(batch) if self._is_cast else batch
        except PayloadError as error:
            # The decoder names the option as a scan spells it, which Spark's user could not set.
            told = PayloadError(str(error).replace("on_error='null'", "onValueError=null"))
            told.offset = error.offset
            raise told from None

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        to = _arrow_types()
        arrays = []
        for name, array in zip(self.names, batch.columns, strict=True):
            field = self._fields.get(name)
            try:
                arrays.append(array.cast(to[field.type]) if field is not None and field.is_cast else array)
            except pa.ArrowInvalid as error:
                assert field is not None
                raise PayloadError(f"field {name!r} of a value does not fit {to[field.type]}: {error}") from None
        return pa.RecordBatch.from_arrays(arrays, names=self.names)


@functools.cache
def _arrow_types() -> dict[str, Any]:
    """Return Spark's types as Arrow's: those that a decoder of another type is cast to."""
    import pyarrow as pa

    return {
        "binary": pa.binary(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }


def _fields_of(schema: Mapping[str, Any], on_error: str) -> tuple[Callable[..., Decoder], dict[str, _Field]]:
    """Return a factory of decoders for some fields, and Spark's type of each field."""
    try:
        from logstore.columns.value_schema import decoder_of  # imports the whole store, which brokers do not need

        names, narrowed = decoder_of(schema, on_error)
        decoder = narrowed(names)
    except ValueError as error:
        raise SparkOptionError({"valueSchema": str(error)}) from None
    fields = {}
    taken = {name.lower(): name for name in COLUMNS if name not in decoder.names}
    for name in decoder.names:
        other = taken.setdefault(name.lower(), name)
        if other != name:
            raise SparkOptionError(
                {
                    "valueSchema": f"field {name!r} differs from {other!r} only in upper and lower case, which "
                    f'Spark does not tell apart; give it another name: {{"NAME": ["TYPE", "/{name}"]}}'
                }
            )
    for name, format in zip(decoder.names, decoder.formats, strict=True):
        if format == b"L":
            raise SparkOptionError(
                {"valueSchema": f"field {name!r} is an unsigned number of 64 bits, which Spark has no type for"}
            )
        # Spark has no type for bytes of a fixed size.
        fields[name] = _Field("binary", True) if format.startswith(b"w:") else _Field(*_FIELD_TYPES[format])
    return narrowed, fields
