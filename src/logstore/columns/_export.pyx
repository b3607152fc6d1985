# cython: language_level=3
"""Batches as Arrow columns, handed over through the Arrow C data and C stream interfaces.

The visible records of a run are one Arrow struct array, whose buffers `_builder` fills; no Arrow library is
imported. The columns are named and ordered as in Spark's Kafka source::

    key, value      binary, or binary_view into the batches' own bytes     nullable
    topic           utf8
    partition       int32
    offset          int64
    timestamp       timestamp[ms, UTC]; -1 where the producer gave none
    timestampType   int32: 0 given by the producer, 1 by the log
    headers         list<struct<key: utf8, value: binary, nullable>>       only when requested

With ``spark`` they have exactly the types that Spark's own Arrow conversion requires. The timestamp is
timestamp[us, UTC], and every column, the headers' parts too, is nullable. As in its Kafka source, a record without
headers has null for them.

A `Decoder` adds columns of its own, made of the values; `_values` has its kinds.

A consumer may release its structs from any thread, with or without the GIL, in any order, and after every object
here was freed. The buffers have their own reference count.
"""

from threading import get_ident, main_thread

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pycapsule cimport PyCapsule_Destructor, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strlen

from logstore.columns._arrow cimport (
    ARROW_FLAG_NULLABLE,
    ArrowArray,
    ArrowArrayStream,
    ArrowSchema,
    drop_array,
    drop_schema,
    free_array_capsule,
    free_schema_capsule,
    free_stream_capsule,
)
from logstore.batch._batch cimport Batches
from logstore.columns._builder cimport (
    COLUMNS,
    HEADERS,
    TIMESTAMP,
    TOPIC,
    VALUE,
    Decoder,
    Field,
    Filler,
    Layout,
    Slices,
    Table,
    column_of,
    count_up,
    release_table,
)

from logstore.columns._builder import NAMES as _NAMES

cdef extern from "Python.h":
    int Py_IsInitialized() nogil
    void PyErr_SetInterrupt()

# Arrow's formats of the columns, by the numbers of `_builder.pxd`.
cdef tuple _FORMATS = (b"z", b"z", b"u", b"i", b"l", b"tsm:UTC", b"i", b"+l")


cdef bytes format_of_column(int column, Layout layout):
    """Return the Arrow format of a column."""
    if column >= COLUMNS:
        return layout.decoder.formats[column - COLUMNS]
    if column == TIMESTAMP and layout.spark:
        return b"tsu:UTC"
    return b"vz" if column <= VALUE and layout.views else _FORMATS[column]


cdef ColumnBatch _taken(Filler filler):
    """Return the next array of a run."""
    cdef ColumnBatch taken = ColumnBatch.__new__(ColumnBatch)
    taken._table = filler.take()
    taken._layout = filler.layout
    return taken


# --- export -----------------------------------------------------------------------------------

# Both kinds of node are one allocation: the arrays that the struct points at, then its children.
cdef struct ArrayNode:
    Table *table
    const void **buffers
    ArrowArray *children
    ArrowArray **pointers


cdef void release_array(ArrowArray *array) noexcept nogil:
    cdef ArrayNode *node = <ArrayNode *>array.private_data
    cdef int64_t i
    # A consumer may have moved a child out; its `release` is NULL then.
    for i in range(array.n_children):
        drop_array(array.children[i])
    release_table(node.table)
    free(node)
    array.release = NULL


cdef int set_array(ArrowArray *out, Table *table, int64_t length, int64_t nulls, int64_t buffers,
                   int64_t children) except -1:
    """Initialize an array of the table; its buffers and children are still to be set."""
    cdef int64_t i
    cdef ArrayNode *node = <ArrayNode *>calloc(
        1, sizeof(ArrayNode) + <size_t>buffers * sizeof(void *)
        + <size_t>children * (sizeof(ArrowArray) + sizeof(void *)))
    if node == NULL:
        raise MemoryError
    node.table = table
    node.buffers = <const void **>(node + 1)
    node.pointers = <ArrowArray **>(node.buffers + buffers)
    node.children = <ArrowArray *>(node.pointers + children)
    for i in range(children):
        node.pointers[i] = &node.children[i]
    count_up(table)
    out.length = length
    out.null_count = nulls
    out.offset = 0
    out.n_buffers = buffers
    out.n_children = children
    out.buffers = node.buffers
    out.children = node.pointers
    out.dictionary = NULL
    out.private_data = node
    out.release = release_array
    return 0


cdef int set_slices(ArrowArray *out, Table *table, const Slices *slices, int64_t length) except -1:
    cdef int i
    if slices.views.data == NULL:
        set_array(out, table, length, slices.nulls, 3, 0)
        out.buffers[1] = slices.starts.data
        out.buffers[2] = slices.data.data
    else:
        set_array(out, table, length, slices.nulls, 3 + table.segment_count, 0)
        out.buffers[1] = slices.views.data
        for i in range(table.segment_count):
            out.buffers[2 + i] = table.segments[i].base
        out.buffers[2 + table.segment_count] = table.segment_sizes.data
    out.buffers[0] = slices.valid.data
    return 0


cdef int set_field(ArrowArray *out, Table *table, const Field *field) except -1:
    if field.is_slices:
        return set_slices(out, table, &field.slices, table.rows)
    set_array(out, table, table.rows, field.slices.nulls, 2, 0)
    out.buffers[0] = field.slices.valid.data
    out.buffers[1] = field.slices.data.data
    return 0


cdef int set_columns(ArrowArray *out, Table *table) except -1:
    cdef int i, column
    cdef ArrowArray *child
    set_array(out, table, table.rows, 0, 1, table.column_count)
    for i in range(table.column_count):
        column = table.columns[i]
        child = out.children[i]
        if column <= TOPIC:
            set_slices(child, table, &table.slices[column], table.rows)
        elif column < HEADERS:
            set_array(child, table, table.rows, 0, 2, 0)
            child.buffers[1] = table.numbers[column].data
        elif column >= COLUMNS:
            set_field(child, table, &table.fields[column - COLUMNS])
        else:
            set_array(child, table, table.rows, table.headerless, 2, 1)
            child.buffers[0] = table.header_valid.data
            child.buffers[1] = table.header_starts.data
            set_array(child.children[0], table, table.headers, 0, 1, 2)
            set_slices(child.children[0].children[0], table, &table.header_key, table.headers)
            set_slices(child.children[0].children[1], table, &table.header_value, table.headers)
    return 0


cdef void release_schema(ArrowSchema *schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        drop_schema(schema.children[i])
    free(schema.private_data)
    schema.release = NULL


cdef int set_schema(ArrowSchema *out, const char *name, const char *format, int64_t flags,
                    int64_t children) except -1:
    """Initialize a schema, whose children are still to be set; it has copies of its name and format."""
    cdef int64_t i
    cdef size_t name_bytes = strlen(name) + 1, format_bytes = strlen(format) + 1
    cdef size_t nodes = <size_t>children * (sizeof(ArrowSchema) + sizeof(void *))
    cdef char *block = <char *>calloc(1, nodes + name_bytes + format_bytes)
    cdef ArrowSchema **pointers = <ArrowSchema **>block
    if block == NULL:
        raise MemoryError
    for i in range(children):
        pointers[i] = <ArrowSchema *>(pointers + children) + i
    memcpy(block + nodes, name, name_bytes)
    memcpy(block + nodes + name_bytes, format, format_bytes)
    out.name = block + nodes
    out.format = block + nodes + name_bytes
    out.metadata = NULL
    out.flags = flags
    out.n_children = children
    out.children = pointers if children else NULL
    out.dictionary = NULL
    out.private_data = block
    out.release = release_schema
    return 0


cdef int set_column_schema(ArrowSchema *out, int column, Layout layout) except -1:
    cdef bytes name = _NAMES[column].encode(), format = format_of_column(column, layout)
    cdef int64_t flags = ARROW_FLAG_NULLABLE if layout.spark else 0
    if column <= VALUE:
        return set_schema(out, name, format, ARROW_FLAG_NULLABLE, 0)
    if column != HEADERS:
        return set_schema(out, name, format, flags, 0)
    set_schema(out, name, format, flags, 1)
    set_schema(out.children[0], "element", "+s", flags, 2)
    set_schema(out.children[0].children[0], "key", "u", flags, 0)
    return set_schema(out.children[0].children[1], "value", "z", ARROW_FLAG_NULLABLE, 0)


cdef int set_columns_schema(ArrowSchema *out, Layout layout) except -1:
    cdef int i = 0, column
    set_schema(out, "", "+s", 0, len(layout.names))
    for name in layout.names:
        column = column_of(name, layout.decoder)
        if column < COLUMNS:
            set_column_schema(out.children[i], column, layout)
        else:
            layout.decoder.set_field_schema(out.children[i], column - COLUMNS)
        i += 1
    return 0


cdef object new_capsule(void **block, size_t size, const char *name, PyCapsule_Destructor destroy):
    """Return a capsule that owns a zeroed block, and set its address."""
    block[0] = calloc(1, size)
    if block[0] == NULL:
        raise MemoryError
    try:
        return PyCapsule_New(block[0], name, destroy)
    except BaseException:
        free(block[0])
        raise


cdef object schema_capsule(Layout layout):
    cdef ArrowSchema *schema
    capsule = new_capsule(<void **>&schema, sizeof(ArrowSchema), "arrow_schema", free_schema_capsule)
    set_columns_schema(schema, layout)
    return capsule


@cython.final
cdef class ColumnBatch:
    """The visible records of a run as one Arrow struct array.

    Pass it to any Arrow library: ``pyarrow.record_batch(columns)``, ``polars.DataFrame(columns)``,
    ``pandas.DataFrame.from_arrow(columns)``. It may be passed any number of times; nothing is copied.

    Owns: one reference to the buffers, which outlive it as long as a consumer holds them.
    Threads: immutable after construction.
    """

    def __init__(self):
        raise TypeError("a ColumnBatch is made by columns_of()")

    def __dealloc__(self):
        if self._table != NULL:
            release_table(self._table)

    def __len__(self):
        return self._table.rows

    @property
    def columns(self):
        """The names of the columns, in order."""
        return self._layout.names

    def __arrow_c_schema__(self):
        """Return a capsule with the Arrow schema."""
        return schema_capsule(self._layout)

    def __arrow_c_array__(self, requested_schema=None):
        """Return capsules with the Arrow schema and array; another schema than ours is not provided."""
        cdef ArrowArray *array
        capsule = new_capsule(<void **>&array, sizeof(ArrowArray), "arrow_array", free_array_capsule)
        set_columns(array, self._table)
        return self.__arrow_c_schema__(), capsule

    def __arrow_c_stream__(self, requested_schema=None):
        """Return a capsule with an Arrow stream of this one array, for consumers that take only streams."""
        cdef _Source source = _Source.__new__(_Source)
        source._layout = self._layout
        source._chunks = iter((self,))
        return stream_capsule(source)

    def __repr__(self):
        return f"<ColumnBatch of {self._table.rows} records: {', '.join(self.columns)}>"


def columns_of(Batches batches not None, columns=None, *, bint views=False, int32_t array_bytes=INT32_MAX,
               Decoder decoder=None, bint spark=False):
    """Return the visible records of ``batches`` as one Arrow array.

    ``columns`` names the columns wanted, in order: key, value, topic, partition, offset, timestamp, timestampType,
    headers; None means all but headers. With ``views`` keys and values are ``binary_view``: they point into the
    bytes of ``batches`` or of each decompressed batch, and keep these alive. ``array_bytes`` limits the bytes of
    one column, in [1, 2**31-1]: Arrow's offsets are of 32 bits. `ColumnStream` splits where one array is not
    enough. The columns of a ``decoder`` can be named too; without ``columns`` they replace the value. With
    ``spark`` times are in microseconds and every column is nullable.

    Raises:
        ValueError: a column is unknown, or named twice.
        PayloadError: a value does not fit the decoder's schema.
        CorruptRecordError: a record, or a requested header, is not whole.
        OverflowError: the records do not fit one array.

    >>> from logstore.batch._batch import Batches
    >>> from logstore.batch._encode import encode
    >>> columns_of(Batches(encode([b"a", b"b"], timestamp_ms=1)), ["offset", "value"])
    <ColumnBatch of 2 records: offset, value>
    """
    cdef Filler filler = Filler(batches, Layout(columns, decoder, views=views, spark=spark, most_bytes=array_bytes))
    cdef ColumnBatch taken = _taken(filler)
    if filler.failure is not None:
        raise filler.failure
    if filler.pending:
        raise OverflowError(
            f"the records from offset {batches.start_offset} on pass {array_bytes} bytes in a column of one "
            "Arrow array; read less at a time, or use ColumnStream, which splits")
    return taken


# --- a stream of arrays -----------------------------------------------------------------------

@cython.final
cdef class _Source:
    """The source of a C stream: an iterator of runs, and the run that is being read.

    Owns: the iterator, until the stream is released. Threads: one at a time, as Arrow demands.
    """

    cdef object _chunks
    cdef ColumnStream _stream             # gets an error; None for the stream of one array
    cdef Layout _layout
    cdef Filler _filler
    cdef bytes _error
    cdef int _errno

    cdef ColumnBatch next_batch(self):
        """Return the next array with records in it, or None at the end."""
        cdef ColumnBatch taken
        while True:
            if self._filler is None:
                chunk = next(self._chunks, None)
                if chunk is None or isinstance(chunk, ColumnBatch):
                    return chunk
                if not isinstance(chunk, Batches):
                    raise TypeError(
                        f"a chunk of a ColumnStream must be Batches, found {type(chunk).__name__}")
                self._filler = Filler(chunk, self._layout)
                chunk = None
            taken = _taken(self._filler)
            if not self._filler.pending:
                self._filler = None
            if taken._table.rows:
                return taken

    cdef int fail(self, object error):
        """Keep an error for `get_last_error`; return the errno that fits best."""
        number = getattr(error, "errno", None) if isinstance(error, OSError) else None
        if isinstance(error, MemoryError):
            self._errno = ENOMEM
        elif isinstance(number, int) and 0 < number < 4096:
            self._errno = number
        elif isinstance(error, (ValueError, TypeError)):
            self._errno = EINVAL
        else:
            self._errno = EIO
        self._error = f"{type(error).__name__}: {error}".encode("utf-8", "replace").replace(b"\0", b"?")
        if self._stream is not None:
            self._stream.error = error
        self._chunks = self._filler = None
        if isinstance(error, KeyboardInterrupt) and get_ident() == main_thread().ident:
            # The consumer turns it into an error of its own. The interrupt is raised again as soon as Python runs.
            PyErr_SetInterrupt()
        return self._errno


cdef int get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef _Source source = <_Source>stream.private_data
    memset(out, 0, sizeof(ArrowSchema))
    try:
        set_columns_schema(out, source._layout)
        return 0
    except BaseException as error:
        drop_schema(out)
        return source.fail(error)


cdef int get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    # No exception may pass through C: each one, KeyboardInterrupt too, becomes an errno and a text.
    cdef _Source source = <_Source>stream.private_data
    cdef ColumnBatch taken
    memset(out, 0, sizeof(ArrowArray))
    if source._errno:
        return source._errno
    try:
        taken = source.next_batch()
        if taken is not None:
            set_columns(out, taken._table)
        return 0
    except BaseException as error:
        drop_array(out)
        memset(out, 0, sizeof(ArrowArray))
        return source.fail(error)


cdef const char *get_last_error(ArrowArrayStream *stream) noexcept with gil:
    cdef _Source source = <_Source>stream.private_data
    return NULL if source._error is None else PyBytes_AS_STRING(source._error)


cdef void drop_source(void *source) noexcept with gil:
    Py_DECREF(<object>source)


cdef void release_stream(ArrowArrayStream *stream) noexcept nogil:
    if Py_IsInitialized():
        drop_source(stream.private_data)
    stream.private_data = NULL
    stream.release = NULL


cdef object stream_capsule(_Source source):
    cdef ArrowArrayStream *stream
    capsule = new_capsule(<void **>&stream, sizeof(ArrowArrayStream), "arrow_array_stream", free_stream_capsule)
    Py_INCREF(source)
    stream.private_data = <void *>source
    stream.get_schema = get_schema
    stream.get_next = get_next
    stream.get_last_error = get_last_error
    stream.release = release_stream
    return capsule


def _drawn(_Source source):
    """Yield the arrays of a source, for Python."""
    cdef ColumnBatch taken = source.next_batch()
    while taken is not None:
        yield taken
        taken = source.next_batch()


@cython.final
cdef class ColumnStream:
    """Runs of batches as a stream of Arrow arrays, one for each run, read as the consumer asks.

    ``chunks`` is any iterable of `Batches`; the columns are those of `columns_of`. A run without
    visible records gives no array, one whose columns would pass ``array_bytes`` gives several.
    ``topic`` and ``partition`` replace those that the runs name. No more than one run is
    held at a time; releasing the stream early releases the iterator, which closes a generator.

    A stream can be handed over once. An exception of ``chunks`` or of the bytes reaches the consumer as an errno
    and a text. Every Arrow library makes its own exception of these; the original is kept as ``error``. A Ctrl-C
    in the main thread is raised there too, directly afterwards.

    Owns: the iterable, until the stream is handed over. Threads: one at a time; the consumer may read
    from a thread of its own.
    """

    cdef object _chunks
    cdef Layout _layout
    cdef readonly object error

    def __init__(self, chunks, columns=None, *, bint views=False, topic=None, partition=None,
                 int32_t array_bytes=INT32_MAX, Decoder decoder=None, bint spark=False):
        self._layout = Layout(columns, decoder, views=views, spark=spark, most_bytes=array_bytes, topic=topic,
                              partition=partition)
        self._chunks = iter(chunks)

    @property
    def columns(self):
        """The names of the columns, in order."""
        return self._layout.names

    def __arrow_c_schema__(self):
        """Return a capsule with the Arrow schema; the stream stays usable."""
        return schema_capsule(self._layout)

    def __iter__(self):
        """Hand the stream over as `ColumnBatch`es, one after the other.

        Raises:
            RuntimeError: the stream was handed over before.
        """
        return _drawn(self._source())

    def __arrow_c_stream__(self, requested_schema=None):
        """Return a capsule with the Arrow stream; another schema than ours is not provided.

        Raises:
            RuntimeError: the stream was handed over before.
        """
        cdef _Source source = self._source()
        source._stream = self
        return stream_capsule(source)

    cdef _Source _source(self):
        cdef _Source source
        if self._chunks is None:
            raise RuntimeError("a ColumnStream is consumed once; call scan() for another one")
        source = _Source.__new__(_Source)
        source._layout = self._layout
        source._chunks = self._chunks
        self._chunks = None
        return source

    def __repr__(self):
        return f"<ColumnStream: {', '.join(self._layout.names)}{'' if self._chunks is not None else ', consumed'}>"
