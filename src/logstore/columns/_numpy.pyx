# cython: language_level=3
"""Columns as Python objects: the bytes of numbers, which numpy takes as they are, and lists of objects.

For programs without an Arrow library. Everything is copied, so nothing here keeps a batch alive.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t

from logstore.columns._export cimport ColumnBatch, format_of_column
from logstore.columns._builder cimport (
    COLUMNS,
    HEADERS,
    TOPIC,
    Region,
    Slices,
    Table,
    column_of,
    is_null,
    slice_at,
)

cdef int _find(ColumnBatch batch, name) except -1:
    if name not in batch._layout.names:
        raise ValueError(f"column {name!r} does not exist; there are {', '.join(batch._layout.names)}")
    return column_of(name, batch._layout.decoder)


def format_of(ColumnBatch batch not None, str name not None):
    """Return the type of a column, in the format of the Arrow C data interface.

    Raises:
        ValueError: there is no such column.
    """
    return format_of_column(_find(batch, name), batch._layout)


def numbers_of(ColumnBatch batch not None, str name not None, int64_t width):
    """Return (data, validity) of a column of numbers of ``width`` bytes each, or of bits if ``width`` is 0.

    The validity is a bitmap, the lowest bit first, or None if nothing is null.

    Raises:
        ValueError: there is no such column of numbers.
    """
    cdef int column = _find(batch, name)
    cdef Table *table = batch._table
    cdef const Region *data = NULL
    cdef const Slices *slices
    cdef int64_t bits = (table.rows + 7) >> 3
    if TOPIC < column < HEADERS:
        data = &table.numbers[column]
    elif column >= COLUMNS and not table.fields[column - COLUMNS].is_slices:
        data = &table.fields[column - COLUMNS].slices.data
    if data == NULL or data.capacity < (table.rows * width if width else bits):
        raise ValueError(f"column {name!r} holds no numbers of {width} bytes")
    valid = None
    if column >= COLUMNS:
        slices = &table.fields[column - COLUMNS].slices
        if slices.nulls:
            valid = PyBytes_FromStringAndSize(<const char *>slices.valid.data, bits)
    return PyBytes_FromStringAndSize(<const char *>data.data, table.rows * width if width else bits), valid


def objects_of(ColumnBatch batch not None, str name not None):
    """Return a list with the bytes or text of every row, None for null; of headers, tuples of (key, value).

    Raises:
        ValueError: there is no such column of bytes or texts.
    """
    cdef int column = _find(batch, name)
    cdef Table *table = batch._table
    cdef const Slices *slices
    cdef const int32_t *starts
    cdef int64_t row
    if column == HEADERS:
        keys = _list_of(table, &table.header_key, table.headers, True)
        values = _list_of(table, &table.header_value, table.headers, False)
        starts = <const int32_t *>table.header_starts.data
        pairs = list(zip(keys, values))
        return [tuple(pairs[starts[row]:starts[row + 1]]) for row in range(table.rows)]
    if column >= COLUMNS:
        slices = &table.fields[column - COLUMNS].slices
        if not table.fields[column - COLUMNS].is_slices:
            raise ValueError(f"column {name!r} holds numbers")
        return _list_of(table, slices, table.rows, format_of_column(column, batch._layout) == b"u")
    if column > TOPIC:
        raise ValueError(f"column {name!r} holds numbers")
    return _list_of(table, &table.slices[column], table.rows, column == TOPIC)


cdef list _list_of(const Table *table, const Slices *slices, int64_t rows, bint text):
    cdef int64_t row
    cdef int32_t size
    cdef const uint8_t *data
    cdef list out = [None] * rows
    for row in range(rows):
        if is_null(slices, row):
            continue
        data = slice_at(table, slices, row, &size)
        if text:
            out[row] = PyUnicode_DecodeUTF8(<const char *>data, size, NULL)
        else:
            out[row] = PyBytes_FromStringAndSize(<const char *>data, size)
    return out
