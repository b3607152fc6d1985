"""The user's ``value_schema``, converted to the decoder of the values.

Forms of a schema::

    {"dep_delay": "float64", "plane.tailnum": "string"}      JSON objects, with a dot before a nested field
    {"tail": ("string", "/plane/tailnum")}                   the same, with a column name unlike the path
    {"format": "<qid", "names": ["id", "delay", "price"]}    structs, as the `struct` module writes them
    numpy.dtype([("id", "<i8"), ("delay", "<i4")])           structs, as numpy writes them

Nothing is decoded here; `logstore.columns._values` does that.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logstore.columns._values import WORDS, JsonDecoder, StructDecoder

if TYPE_CHECKING:
    from logstore.columns._builder import Decoder

#: A schema of the values: see the module's docstring. Any stands for numpy.dtype, so that numpy is not imported.
ValueSchema = Mapping[str, Any] | Any

#: A function that makes the decoder of the named fields of a schema.
Narrowed = Callable[[Sequence[str]], "Decoder"]

#: The columns that every record has; a field must not have one of these names.
TAKEN = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

_ON_ERROR = ("raise", "null")

#: Letter of the struct module -> Arrow format. Letters for text and padding are handled separately.
_STRUCT_FORMATS = {
    "?": b"b", "b": b"c", "B": b"C", "h": b"s", "H": b"S", "i": b"i", "I": b"I", "l": b"l", "L": b"L",
    "q": b"l", "Q": b"L", "n": b"l", "N": b"L", "e": b"e", "f": b"f", "d": b"g", "c": b"w:1",
}  # fmt: skip

#: (numpy kind, bytes) -> Arrow format.
_NUMPY_FORMATS = {
    ("b", 1): b"b", ("i", 1): b"c", ("i", 2): b"s", ("i", 4): b"i", ("i", 8): b"l", ("u", 1): b"C",
    ("u", 2): b"S", ("u", 4): b"I", ("u", 8): b"L", ("f", 2): b"e", ("f", 4): b"f", ("f", 8): b"g",
}  # fmt: skip

_ITEM = re.compile(r"(\d*)(.)", re.DOTALL)


def decoder_of(schema: ValueSchema, on_error: str = "raise") -> tuple[tuple[str, ...], Narrowed]:
    """Return the names of a schema's fields, and a function that makes the decoder of the requested ones.

    Raises:
        ValueError: the schema, or ``on_error``, has none of the forms above; names the field and the reason.
    """
    if on_error not in _ON_ERROR:
        raise ValueError(f"on_error is 'raise' or 'null', found {on_error!r}")
    null_bad = on_error == "null"
    if hasattr(schema, "fields") and hasattr(schema, "itemsize"):
        return _struct(_of_dtype(schema), schema.itemsize, null_bad)
    if not isinstance(schema, Mapping):
        raise ValueError(
            "value_schema is a mapping of names to types, of 'format' and 'names', or a numpy dtype, "
            f"found {schema!r}"
        )
    if set(schema) == {"format", "names"} and not _is_type(schema["format"]):
        return _struct(*_of_format(schema["format"], schema["names"]), null_bad)
    return _json(schema, null_bad)


def _check_names(names: Sequence[Any]) -> None:
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong:
        raise ValueError(f"a field's name is a text, found {', '.join(map(repr, wrong))}")
    taken = [name for name in names if name in TAKEN]
    if taken:
        raise ValueError(
            f"field {', '.join(map(repr, taken))}: every record has a column of that name; give the field "
            "another, for JSON as {'other_name': ('string', 'path')}"
        )
    if len(set(names)) != len(names):
        raise ValueError(f"every field needs a name of its own, found {', '.join(map(repr, names))}")
    if not names:
        raise ValueError("value_schema names no field; leave it out to get the values as they are")


# --- JSON --------------------------------------------------------------------------------------


def _json(schema: Mapping[str, Any], null_bad: bool) -> tuple[tuple[str, ...], Narrowed]:
    names = tuple(schema)
    _check_names(names)
    fields = {}
    for name, said in schema.items():
        word, path = (said, name) if isinstance(said, str) else _word_and_path(name, said)
        if word not in WORDS:
            raise ValueError(f"field {name!r}: unknown type {word!r}; known are {', '.join(WORDS)}")
        fields[name] = (name, word, _keys(name, path))
    return names, lambda wanted: JsonDecoder([fields[name] for name in wanted], null_bad=null_bad)


def _is_type(said: object) -> bool:
    return isinstance(said, tuple) or said in WORDS


def _word_and_path(name: str, said: object) -> tuple[str, str]:
    if isinstance(said, (tuple, list)) and len(said) == 2 and all(isinstance(part, str) for part in said):
        return said[0], said[1]
    raise ValueError(f"field {name!r}: expected a type or (type, path), found {said!r}")


def _keys(name: str, path: str) -> tuple[str, ...]:
    """Return the keys of a path: a JSON pointer (RFC 6901) if it begins with a slash, else dotted names."""
    if not path.startswith("/"):
        keys = tuple(path.split("."))
        if "" in keys:
            raise ValueError(f"field {name!r}: the path {path!r} has an empty key; write it as a JSON pointer")
        return keys
    if re.search("~(?![01])", path):
        raise ValueError(f"field {name!r}: in the JSON pointer {path!r} a ~ must be written as ~0")
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in path[1:].split("/"))


# --- structs -----------------------------------------------------------------------------------

#: (name, Arrow format, offset, bytes, whether they are in the other byte order)
_StructField = tuple[str, bytes, int, int, bool]


def _struct(fields: list[_StructField], size: int, null_bad: bool) -> tuple[tuple[str, ...], Narrowed]:
    names = tuple(name for name, *_ in fields)
    _check_names(names)
    by_name = {field[0]: field for field in fields}
    return names, lambda wanted: StructDecoder([by_name[name] for name in wanted], size, null_bad=null_bad)


def _of_format(format: Any, names: Any) -> tuple[list[_StructField], int]:
    """Return the fields of a struct, as in Python's `struct` module, and its size."""
    if not isinstance(format, str) or isinstance(names, str) or not isinstance(names, Sequence):
        raise ValueError(f"a struct is given as a format and a list of names, found {format!r} and {names!r}")
    try:
        size = struct.calcsize(format)
    except struct.error as error:
        raise ValueError(f"format {format!r}: {error}") from error
    order = format[0] if format[:1] in ("@", "=", "<", ">", "!") else "@"
    reverse = order in (">", "!") if sys.byteorder == "little" else order == "<"
    before, fields = "" if order == "@" and format[:1] != "@" else order, []
    for count, letter in _ITEM.findall(re.sub(r"\s", "", format[len(before) :])):
        times = int(count) if count else 1
        if letter != "x" and letter != "s" and letter not in _STRUCT_FORMATS:
            raise ValueError(f"format {format!r}: the character {letter!r} has no column; read the value as it is")
        if times == 0:
            before += f"0{letter}"  # aligns the next field
        for _ in range(min(times, 1) if letter in "sx" else times):
            item = f"{times}{letter}" if letter in "sx" else letter
            end = struct.calcsize(before + item)
            width = struct.calcsize(f"{order}{item}")
            before += item
            if letter == "x":
                continue
            kind = f"w:{times}".encode() if letter == "s" else _STRUCT_FORMATS[letter]
            if letter in "lLnN":
                # Native sizes are those of the machine; the standard size is four bytes.
                kind = (b"l" if width == 8 else b"i") if letter in "ln" else (b"L" if width == 8 else b"I")
            fields.append((kind, end - width, width, reverse and width > 1 and not kind.startswith(b"w")))
    if len(fields) != len(names):
        raise ValueError(f"format {format!r} has {len(fields)} values, there are {len(names)} names")
    return [(name, *field) for name, field in zip(names, fields, strict=True)], size


def _of_dtype(dtype: Any) -> list[_StructField]:
    """Return the fields of a structured numpy dtype."""
    if not dtype.names:
        raise ValueError(f"a numpy dtype with named fields is needed, found {dtype!r}")
    out = []
    for name in dtype.names:
        kind, offset = dtype.fields[name][:2]
        reverse = not kind.isnative
        if kind.kind in ("S", "V") and kind.names is None and kind.subdtype is None and kind.itemsize:
            format = f"w:{kind.itemsize}".encode()
        elif kind.kind == "M" and (unit := re.search(r"\[(s|ms|us|ns)\]$", kind.str)):
            format = f"ts{unit[1][0]}:UTC".encode()
        elif (kind.kind, kind.itemsize) in _NUMPY_FORMATS:
            format = _NUMPY_FORMATS[kind.kind, kind.itemsize]
        else:
            raise ValueError(f"field {name!r}: {kind!r} has no column; read the value as it is")
        out.append((name, format, offset, kind.itemsize, reverse))
    return out
