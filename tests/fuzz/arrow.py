"""Arrow arrays made by hand, as no library would hand them over.

An input is a list of changes: (which array, and then field and number, several times). The arrays
are small and real; a change sets one number of the C structs or one entry of a buffer. What the C
data interface leaves to the exporter's word stays true: that buffers are as large as lengths and
last offsets say. Everything else may be wrong.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from logstore.batch._batch import Batches, BatchView
from logstore.batch._encode import Encoder
from logstore.columns._import import add_arrow
from tests.fuzz.mutate import EDGES, Mutator


class CSchema(ctypes.Structure):
    pass


class CArray(ctypes.Structure):
    pass


CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
CArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

FORMATS = (b"z", b"Z", b"u", b"U", b"vz", b"vu", b"n", b"i", b"l", b"+s", b"+l", b"+m", b"+L", b"tsm:", b"tss:UTC")
FORMATS += (b"tsu:", b"tsn:", b"ts", b"w:", b"w:0", b"w:-1", b"w:x", b"w:2147483648", b"w:9223372036854775807")
FORMATS += (b"w:99999999999999999999", b"w:" + b"9" * 5_000, b"", b"\xff", b"w:3 ", b"+w:2", b"z" * 100)
NAMES = (b"value", b"key", b"timestamp", b"headers", b"topic", b"offset", b"", None, b"\xff\xfe", b"other")

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def arrays() -> list[Any]:
    """Small arrays of every kind that is taken."""
    values = [b"a", None, b"", b"longer than twelve bytes", b"b" * 40]
    headers = [
        [{"key": "k", "value": b"v"}],
        None,
        [],
        [{"key": "x", "value": None}] * 3,
        [{"key": "", "value": b""}],
    ]
    kinds = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()]
    out = [
        pa.array([v and v.decode() for v in values] if "string" in str(kind) else values, kind) for kind in kinds
    ]
    out.append(pa.array([b"abc", None, b"def", b"\0\0\0", b"xyz"], pa.binary(3)))
    for value_kind, list_kind in (
        (pa.binary(), _HEADERS),
        (pa.binary_view(), pa.large_list(_HEADERS.value_type)),
        (pa.large_binary(), pa.map_(pa.string(), pa.binary())),
    ):
        lists = headers
        if pa.types.is_map(list_kind):
            lists = [row and [(item["key"], item["value"]) for item in row] for row in headers]
        out.append(
            pa.RecordBatch.from_arrays(
                [
                    pa.array(values, pa.binary()),
                    pa.array(values, value_kind),
                    pa.array([0, 1_000, None, 2**40, 5], pa.timestamp("us" if len(out) % 2 else "s")),
                    pa.array(lists, list_kind),
                ],
                names=["key", "value", "timestamp", "headers"],
            )
        )
    # Offsets that are kept.
    out.append(
        pa.RecordBatch.from_arrays(
            [pa.array(values, pa.binary()), pa.array([0, 1, 5, 2**20, 2**40], pa.int64())],
            names=["value", "offset"],
        )
    )
    return out


class Table(NamedTuple):
    """A buffer of numbers that an importer follows."""

    array: Any
    place: int
    kind: str  #: starts (offsets), views, sizes (of the buffers of views) or times
    width: int
    count: int


class Owned:
    """One exported array: copies of its structs to hand over, and what must be put back after a change."""

    def __init__(self, array: Any) -> None:
        exported = array.__arrow_c_array__()
        self._keep = (array, exported)
        self.schema = CSchema.from_address(_pointer_of(exported[0], b"arrow_schema"))
        self.array = CArray.from_address(_pointer_of(exported[1], b"arrow_array"))
        self.schemas: list[Any] = []
        self.arrays: list[Any] = []
        self._collect(self.schema, self.array)
        self.tables = [
            Table(node, *table)
            for schema, node in zip(self.schemas, self.arrays, strict=True)
            for table in _tables_of(schema.format, node)
            if node.buffers[table[0]]
        ]
        self.shifted: list[Any] = []  #: copies that a change has made, alive until it is taken back

    def _collect(self, schema: Any, array: Any) -> None:
        self.schemas.append(schema)
        self.arrays.append(array)
        for child in range(schema.n_children):
            self._collect(schema.children[child][0], array.children[child][0])


def _tables_of(kind: bytes, array: Any) -> list[tuple[int, str, int, int]]:
    rows = array.length
    if kind in (b"z", b"u", b"+l", b"+m"):
        return [(1, "starts", 4, rows + 1)]
    if kind in (b"Z", b"U", b"+L"):
        return [(1, "starts", 8, rows + 1)]
    if kind in (b"vz", b"vu"):
        return [(1, "views", 4, 4 * rows), (array.n_buffers - 1, "sizes", 8, array.n_buffers - 3)]
    if kind.startswith(b"ts") or kind == b"l":
        return [(1, "times", 8, rows)]
    return []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release(struct_address: int) -> None:
    """Mark a copy as released; the original lives on."""
    ctypes.c_void_p.from_address(struct_address + _RELEASE_AT[0]).value = None


_RELEASE_AT = [CArray.release.offset]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release_schema(struct_address: int) -> None:
    ctypes.c_void_p.from_address(struct_address + CSchema.release.offset).value = None


_release_address = ctypes.cast(_release, ctypes.c_void_p).value
_release_schema_address = ctypes.cast(_release_schema, ctypes.c_void_p).value


class Handed:
    """What `add_arrow` is given: capsules around copies of the outer structs."""

    def __init__(self, owned: Owned) -> None:
        self.schema = CSchema()
        self.array = CArray()
        ctypes.pointer(self.schema)[0] = owned.schema
        ctypes.pointer(self.array)[0] = owned.array
        self.schema.release = _release_schema_address
        self.array.release = _release_address

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return (
            _new_capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
            _new_capsule(ctypes.addressof(self.array), b"arrow_array", None),
        )


_owned: list[Owned] = []
_encoder = Encoder()


def all_owned() -> list[Owned]:
    if not _owned:
        _owned.extend(Owned(array) for array in arrays())
    return _owned


# --- changes ------------------------------------------------------------------------------------

LENGTH, NULLS, OFFSET, BUFFERS, CHILDREN, NO_BUFFER, FORMAT, NAME, ENTRY, SCHEMA_CHILDREN, SHIFTED = range(11)
_CHANGE = struct.Struct(">BBHq")


def changed_arrays(m: Mutator, _: Sequence[bytes] = ()) -> bytes:
    """The number of an array and one to three changes of it."""
    out = bytearray([m.below(11)])
    while True:
        kind = m.below(11) if m.chance(0.6) else ENTRY
        number = EDGES[m.below(len(EDGES))]
        out += _CHANGE.pack(kind, m.below(16), m.below(2**16), max(min(number, 2**63 - 1), -(2**63)))
        if m.chance(0.6):
            return bytes(out)


def read_arrays(data: bytes) -> None:
    """Hand a changed array over; what becomes records of it can be read."""
    everything = all_owned()
    owned = everything[data[0] % len(everything)]
    keeps_offsets = owned is everything[-1]
    undo: list[tuple[Any, str | int, Any]] = []
    try:
        for at in range(1, len(data) - _CHANGE.size + 1, _CHANGE.size):
            apply(owned, *_CHANGE.unpack_from(data, at), undo)
        _encoder.begin(timestamp_ms=1_234, keep_offsets=keeps_offsets)
        count = add_arrow(_encoder, Handed(owned))
        encoded = bytes(_encoder.finish())
    finally:
        for thing, place, value in reversed(undo):
            if isinstance(place, str):
                setattr(thing, place, value)
            else:
                thing[place] = value
        owned.shifted.clear()
    if encoded:
        assert BatchView(encoded).check().record_count <= count
        assert len(Batches(encoded).records()) == count


def apply(owned: Owned, kind: int, node: int, where: int, number: int, undo: list[Any]) -> None:
    """One change; ``undo`` tells how to take it back."""
    array = owned.arrays[node % len(owned.arrays)]
    schema = owned.schemas[node % len(owned.schemas)]
    if kind == LENGTH:
        # More rows than there are is what the exporter's word says: fewer, or none that can be.
        change(array, "length", min(number, array.length), undo)
    elif kind == NULLS:
        if array.n_buffers and array.buffers[0]:
            change(array, "null_count", number, undo)
    elif kind == OFFSET:
        change(array, "offset", number if number < 0 or number > 2**63 - 6 else array.offset, undo)
    elif kind == BUFFERS:
        change(array, "n_buffers", min(number, array.n_buffers), undo)
    elif kind == CHILDREN:
        change(array, "n_children", number, undo)
    elif kind == SCHEMA_CHILDREN:
        change(schema, "n_children", min(number, schema.n_children), undo)
    elif kind == NO_BUFFER:
        if array.n_buffers > 0:
            change(array.buffers, where % array.n_buffers, None, undo)
    elif kind == FORMAT:
        # A type of a larger layout would read behind true buffers: only what takes no more than this one.
        new = FORMATS[where % len(FORMATS)]
        if not may_read_as(schema.format, new):
            return
        change(schema, "format", new, undo)
    elif kind == NAME:
        change(schema, "name", NAMES[where % len(NAMES)], undo)
    elif owned.tables:
        table = owned.tables[where % len(owned.tables)]
        address = table.array.buffers[table.place]
        if not address:
            return
        if kind == ENTRY:
            change_entry(table, address, where >> 4, number, undo)
        elif kind == SHIFTED:
            # The same numbers at an address that is no multiple of their size.
            memory = ctypes.create_string_buffer(table.width * table.count + 8)
            owned.shifted.append(memory)
            shifted = ctypes.addressof(memory) + 1 + node % 7
            ctypes.memmove(shifted, address, table.width * table.count)
            change(table.array.buffers, table.place, shifted, undo)


def may_read_as(old: bytes, new: bytes) -> bool:
    """Whether an array of a type may claim another one without reading behind its buffers."""
    layouts = {b"z": 4, b"u": 4, b"Z": 8, b"U": 8, b"vz": 16, b"vu": 16}
    if old in layouts and new in layouts:
        return layouts[old] == layouts[new]
    if old.startswith(b"ts") and new.startswith(b"ts"):
        return True
    return new not in layouts and not new.startswith((b"ts", b"l", b"+l", b"+L", b"+m", b"w:3"))


def change(thing: Any, place: Any, value: Any, undo: list[Any]) -> None:
    if isinstance(place, str):
        undo.append((thing, place, getattr(thing, place)))
        setattr(thing, place, value)
    else:
        undo.append((thing, place, thing[place]))
        thing[place] = value


def change_entry(table: Table, address: int, where: int, number: int, undo: list[Any]) -> None:
    """One number of a table; what the exporter's word covers is never more than the truth."""
    kind = ctypes.c_int32 if table.width == 4 else ctypes.c_int64
    cells = (kind * table.count).from_address(address)
    at = where % table.count
    value = kind(number).value
    if table.kind == "starts":
        # May fall or be below 0, but never pass the last one, which says how large the data are.
        value = min(value, cells[table.count - 1])
    elif table.kind == "sizes":
        value = min(value, cells[at])
    change(cells, at, value, undo)
