# cython: language_level=3
"""Batches as Arrow columns, handed over through the Arrow C data and C stream interfaces.

The visible records of a run are written straight from their batches into the buffers of one Arrow
struct array; no record becomes a Python object and no Arrow library is imported. The columns are
named and ordered as in Spark's Kafka source::

    key, value      binary, or binary_view into the batches' own bytes     nullable
    topic           utf8
    partition       int32
    offset          int64
    timestamp       timestamp[ms, UTC]; -1 where the producer gave none
    timestampType   int32: 0 given by the producer, 1 by the log
    headers         list<struct<key: utf8, value: binary, nullable>>       only when asked for

A `Decoder` adds columns of its own, made of the values of each table once it is filled; `_payload`
has the kinds that there are. It reads the values where they lie, also if nobody asks for the column.

A consumer may release what it was given from any thread, with or without the GIL, in any order,
and after every object here is gone: the buffers are counted by themselves. Their sizes come from
bytes that were received, so each is bounded by the bytes that it is read from before it is filled.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset, strlen
from posix.stdlib cimport posix_memalign

from logstore._arrow cimport (
    ARROW_FLAG_NULLABLE, ArrowArray, ArrowArrayStream, ArrowSchema, drop_array, drop_schema,
    free_array_capsule, free_schema_capsule, free_stream_capsule,
)
from logstore._batch cimport Batches, RunReader
from logstore._bytes cimport OK

from logstore.errors import CorruptRecordError

cdef extern from *:
    """
    #include <stdint.h>
    static inline int64_t logstore_count_up(int64_t *n) { return __atomic_add_fetch(n, 1, __ATOMIC_RELAXED); }
    static inline int64_t logstore_count_down(int64_t *n)
    { return __atomic_sub_fetch(n, 1, __ATOMIC_ACQ_REL); }
    /* 0: taken */
    static inline int logstore_try_lock(char *lock) { return __atomic_test_and_set(lock, __ATOMIC_ACQUIRE); }
    static inline void logstore_unlock(char *lock) { __atomic_clear(lock, __ATOMIC_RELEASE); }
    """
    int64_t logstore_count_up(int64_t *n) noexcept nogil
    int64_t logstore_count_down(int64_t *n) noexcept nogil
    int logstore_try_lock(char *lock) noexcept nogil
    void logstore_unlock(char *lock) noexcept nogil

cdef extern from "Python.h":
    int Py_IsInitialized() nogil

# By the numbers of `_columns.pxd`.
_NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_DEFAULT = _NAMES[:HEADERS]

cdef enum:
    ALIGNMENT = 64
    NOGIL_BYTES = 4096            # below it a release of the GIL costs more than it gives others


# --- the buffers ------------------------------------------------------------------------------

# Blocks that were given back, for the next array of the same size: a stream of chunks then writes into
# pages that are there already. Without it a chunk of 1.2 MB took 40 ns a record instead of 12, most of
# it in page faults. Never waited for: who finds it in use does without.
cdef enum:
    SPARES = 24
    LEAST_SPARE_BYTES = 32 << 10
    MOST_SPARE_BYTES = 16 << 20       # of all of them

cdef Region spares[SPARES]
cdef int64_t spare_bytes = 0
cdef char spares_in_use = 0


cdef int allocate(Region *out, int64_t capacity) noexcept nogil:
    """A block of at least capacity bytes, but not many more; -1 when there is no memory."""
    cdef int i, best = -1
    cdef void *data
    global spare_bytes
    capacity = (capacity + ALIGNMENT - 1) & ~<int64_t>(ALIGNMENT - 1)
    if capacity >= LEAST_SPARE_BYTES and not logstore_try_lock(&spares_in_use):
        for i in range(SPARES):
            if capacity <= spares[i].capacity <= capacity + (capacity >> 2) and (
                    best < 0 or spares[i].capacity < spares[best].capacity):
                best = i
        if best >= 0:
            out[0] = spares[best]
            spares[best].data = NULL
            spares[best].capacity = 0
            spare_bytes -= out.capacity
        logstore_unlock(&spares_in_use)
        if best >= 0:
            return 0
    if posix_memalign(&data, ALIGNMENT, <size_t>capacity) != 0:
        return -1
    out.data = <uint8_t *>data
    out.capacity = capacity
    return 0


cdef void give_back(Region *region) noexcept nogil:
    """Keep a block as a spare, or free it."""
    cdef int i
    global spare_bytes
    if region.capacity >= LEAST_SPARE_BYTES and not logstore_try_lock(&spares_in_use):
        if spare_bytes + region.capacity <= MOST_SPARE_BYTES:
            for i in range(SPARES):
                if spares[i].data == NULL:
                    spares[i] = region[0]
                    spare_bytes += region.capacity
                    region.data = NULL
                    break
        logstore_unlock(&spares_in_use)
    free(region.data)
    region.data = NULL
    region.capacity = 0


cdef inline void free_slices(Slices *slices) noexcept nogil:
    give_back(&slices.starts)
    give_back(&slices.data)
    give_back(&slices.views)
    give_back(&slices.valid)


cdef void unpin(Table *table) noexcept with gil:
    cdef int i
    for i in range(table.segment_count):
        Py_DECREF(<object>table.segments[i].owner)


cdef void let_go(Table *table) noexcept nogil:
    """Give up one reference; the last one frees the buffers."""
    cdef int i
    if logstore_count_down(&table.references):
        return
    free_slices(&table.key)
    free_slices(&table.value)
    free_slices(&table.topic)
    give_back(&table.partition)
    give_back(&table.offset)
    give_back(&table.timestamp)
    give_back(&table.timestamp_type)
    give_back(&table.header_starts)
    free_slices(&table.header_key)
    free_slices(&table.header_value)
    for i in range(table.field_count):
        free_slices(&table.fields[i].slices)
    free(table.fields)
    free(table.columns)
    # A consumer may release after the interpreter has ended; its bytes are gone by then.
    if table.segment_count and Py_IsInitialized():
        unpin(table)
    free(table.segments)
    give_back(&table.segment_sizes)
    free(table)


cdef int reserve(Region *region, int64_t used, int64_t capacity) except -1:
    """Room for capacity bytes in all; the first ``used`` are kept."""
    cdef Region grown
    if capacity <= region.capacity:
        return 0
    if allocate(&grown, max(capacity, region.capacity * 2)) < 0:
        raise MemoryError
    if used:
        memcpy(grown.data, region.data, <size_t>used)
    give_back(region)
    region[0] = grown
    return 0


cdef int reserve_bits(Region *region, int64_t rows) except -1:
    """Room for a bit for each of ``rows``; new ones are set."""
    cdef int64_t known = region.capacity
    reserve(region, known, (rows + 7) >> 3)
    if region.capacity > known:
        memset(region.data + known, 0xFF, <size_t>(region.capacity - known))
    return 0


cdef void trim(Region *region, int64_t used) noexcept nogil:
    """Move into a smaller block what was reserved for much more than came: a consumer may keep it long."""
    cdef Region smaller
    if region.capacity - used <= max(4096, region.capacity >> 2) or allocate(&smaller, max(used, 1)) < 0:
        return
    memcpy(smaller.data, region.data, <size_t>used)
    give_back(region)
    region[0] = smaller


cdef int reserve_slices(Slices *slices, bint views, int64_t rows, int64_t more_rows,
                        int64_t more_bytes) except -1:
    cdef bint fresh
    if views:
        reserve(&slices.views, rows * 16, (rows + more_rows) * 16)
    else:
        fresh = slices.starts.capacity == 0
        reserve(&slices.starts, (rows + 1) * 4 if not fresh else 0, (rows + more_rows + 1) * 4)
        if fresh:
            (<int32_t *>slices.starts.data)[0] = 0
        reserve(&slices.data, slices.size, slices.size + more_bytes + 1)    # never NULL
    return reserve_bits(&slices.valid, rows + more_rows)


cdef void trim_slices(Slices *slices, int64_t rows) noexcept nogil:
    if slices.starts.data != NULL:
        trim(&slices.starts, (rows + 1) * 4)
        trim(&slices.data, slices.size)
    if slices.views.data != NULL:
        trim(&slices.views, rows * 16)
    if not slices.nulls:
        give_back(&slices.valid)


cdef class Decoder:
    """What makes columns of the values of a table; the base of those in `_payload`.

    Owns: nothing here. Threads: immutable after construction; several tables may be decoded at once.
    """

    cdef int set_up(self, Field *fields) except -1:
        """Say of which kind each field is; there is one for each of ``names``."""
        raise NotImplementedError

    cdef int decode(self, Table *table, Batches run) except -1:
        """Fill the fields of all rows from the values; the offsets are there too."""
        raise NotImplementedError

    cdef int set_field_schema(self, ArrowSchema *out, int field) except -1:
        """Make the schema of one field."""
        raise NotImplementedError


cdef tuple _chosen(object columns, Decoder decoder):
    """The names of columns, each known and given once."""
    cdef tuple fields = () if decoder is None else decoder.names
    if columns is None:
        # What is decoded stands in the place of the value.
        return _DEFAULT if decoder is None else _DEFAULT[:VALUE] + fields + _DEFAULT[VALUE + 1:]
    if isinstance(columns, str):
        raise ValueError(f"columns are a list of names, found the str {columns!r}; write [{columns!r}]")
    names = tuple(columns)
    unknown = [name for name in names if name not in _NAMES and name not in fields]
    if unknown:
        raise ValueError(
            f"unknown column(s) {', '.join(map(repr, unknown))}; known are {', '.join(_NAMES + fields)}")
    if len(set(names)) != len(names):
        raise ValueError(f"a column can be asked for once, found {', '.join(map(repr, names))}")
    return names


@cython.final
cdef class _Filler:
    """Fills one table after the other from one run of batches.

    Owns: the table that is being filled, until `take` hands it over. Threads: one at a time.
    """

    cdef RunReader _reader
    cdef tuple _names
    cdef bytes _topic
    cdef int32_t _partition
    cdef Decoder _decoder
    cdef bint _views
    cdef bint _offsets                    # are needed, if only to name a value that cannot be decoded
    cdef int64_t _most_bytes
    cdef bint pending                     # the reader stands at a batch that is in no table yet
    cdef Table *_table

    def __cinit__(self, Batches run not None, tuple names, bint views, int64_t most_bytes, topic, partition,
                  Decoder decoder):
        self._reader = RunReader(run)
        # One of which no field is asked for has nothing to do.
        self._decoder = decoder if decoder is not None and decoder.names else None
        self._names = names
        self._views = views
        self._most_bytes = most_bytes
        self._topic = (run.topic if topic is None else topic).encode()
        self._partition = run.partition if partition is None else partition

    def __dealloc__(self):
        if self._table != NULL:
            let_go(self._table)

    cdef int _begin(self) except -1:
        cdef Table *table = <Table *>calloc(1, sizeof(Table))
        cdef int column
        cdef Extent extent
        if table == NULL:
            raise MemoryError
        self._table = table
        table.references = 1
        table.columns = <int *>calloc(<size_t>len(self._names) + 1, sizeof(int))
        if table.columns == NULL:
            raise MemoryError
        self._offsets = self._decoder is not None
        for name in self._names:
            column = column_of(name, self._decoder)
            table.columns[table.column_count] = column
            table.column_count += 1
            if column == KEY:
                table.key.wanted = True
                table.key.as_views = self._views
            elif column == VALUE:
                table.value.wanted = True
                table.value.as_views = self._views
            elif column == OFFSET:
                self._offsets = True
        if self._decoder is not None:
            table.fields = <Field *>calloc(<size_t>len(self._decoder.names), sizeof(Field))
            if table.fields == NULL:
                raise MemoryError
            table.field_count = <int>len(self._decoder.names)
            self._decoder.set_up(table.fields)
            if not table.value.wanted:
                table.value.wanted = table.value.as_views = True
        table.views = table.key.as_views or table.value.as_views
        # One reservation for all batches that say how much they hold. They may claim what they like:
        # the bytes that are there bound it.
        measure(self._reader._next, self._reader._end, &extent)
        self._reserve(min(extent.rows, <int64_t>INT32_MAX), min(extent.bytes, self._most_bytes))
        if table.header_starts.data != NULL:
            (<int32_t *>table.header_starts.data)[0] = 0
            self._reserve_headers(0, 0, 0)
        return 0

    cdef int _reserve(self, int64_t more, int64_t more_bytes) except -1:
        """Room in every column for more rows, cut out of at most more_bytes."""
        cdef Table *table = self._table
        cdef int64_t rows = table.rows
        cdef int i, column
        if table.key.wanted:
            reserve_slices(&table.key, table.key.as_views, rows, more, more_bytes)
        if table.value.wanted:
            reserve_slices(&table.value, table.value.as_views, rows, more, more_bytes)
        if self._offsets:
            reserve(&table.offset, rows * 8, (rows + more + 1) * 8)
        for i in range(table.column_count):
            column = table.columns[i]
            if column == TIMESTAMP:
                reserve(&table.timestamp, rows * 8, (rows + more + 1) * 8)
            elif column == TIMESTAMP_TYPE:
                reserve(&table.timestamp_type, rows * 4, (rows + more + 1) * 4)
            elif column == HEADERS:
                reserve(&table.header_starts, (rows + 1) * 4 if table.header_starts.capacity else 0,
                        (rows + more + 1) * 4)
        return 0

    cdef int _reserve_headers(self, int64_t count, int64_t key_bytes, int64_t value_bytes) except -1:
        cdef Table *table = self._table
        reserve_slices(&table.header_key, False, table.headers, count, key_bytes)
        return reserve_slices(&table.header_value, False, table.headers, count, value_bytes)

    cdef bint _fits(self, int64_t rows, int64_t more_bytes, const HeaderExtent *headers) noexcept:
        """Whether a batch can be added with every int32 offset of the array inside its limit."""
        cdef Table *table = self._table
        cdef int64_t most = self._most_bytes
        # What is not copied has no size here.
        if max(table.key.size, table.value.size) + more_bytes > most:
            if (table.key.wanted and not table.key.as_views) or (table.value.wanted and not table.value.as_views):
                return False
        if table.field_count and table.payload_bytes + more_bytes > most:
            return False
        if max(table.header_key.size + headers.key_bytes, table.header_value.size + headers.value_bytes,
               table.headers + headers.count) > most:
            return False
        return (table.rows + rows) * max(PyBytes_GET_SIZE(self._topic), 1) <= most

    cdef int _pin(self, Run *run) except -1:
        """Make the bytes of the current batch part of a segment that views point into."""
        cdef Table *table = self._table
        cdef bytes owner = self._reader.payload
        cdef Segment *segment
        cdef int count = table.segment_count
        if count:
            segment = &table.segments[count - 1]
            if segment.owner == <PyObject *>owner and run.end - segment.base <= INT32_MAX:
                segment.size = run.end - segment.base
                run.segment = count - 1
                run.base = segment.base
                return 0
        if not count & (count - 1):   # at each power of two
            segment = <Segment *>realloc(table.segments, <size_t>max(2 * count, 1) * sizeof(Segment))
            if segment == NULL:
                raise MemoryError
            table.segments = segment
        segment = &table.segments[count]
        segment.owner = <PyObject *>owner
        segment.base = run.cursor
        segment.size = run.end - run.cursor
        run.segment = count
        run.base = run.cursor
        Py_INCREF(owner)
        table.segment_count = count + 1
        return 0

    cdef int _add_batch(self) except -1:
        """Add the batch at which the reader stands; 0 if it belongs into another array."""
        cdef RunReader reader = self._reader
        cdef Table *table = self._table
        cdef Run run
        cdef HeaderExtent headers
        cdef int status = OK
        cdef int64_t bytes_ahead = reader.records_end - reader.cursor
        cdef int64_t rows_ahead = min(<int64_t>reader.left, bytes_ahead // LEAST_RECORD_BYTES + 1)
        run.cursor = reader.cursor
        run.end = reader.records_end
        run.left = reader.left
        run.append_time = reader.append_time
        run.segment = 0
        run.base = NULL
        memset(&headers, 0, sizeof(headers))
        if not table.rows:
            table.payload_bytes = 0
        if table.header_starts.data != NULL:
            with nogil:
                status = measure_headers(&run, &headers)
            if status != OK:
                raise CorruptRecordError(
                    f"a header {'key is not UTF-8' if status == NO_TEXT else 'of a record is wrong'} in the "
                    f"batch at base offset {reader.header.base_offset}",
                    path=reader.run.path, offset=reader.header.base_offset)
        if not self._fits(rows_ahead, bytes_ahead, &headers):
            if table.rows:
                return 0
            raise OverflowError(
                f"the batch at base offset {reader.header.base_offset} holds up to {bytes_ahead} bytes in "
                f"{rows_ahead} records, a column of an Arrow array at most {self._most_bytes} bytes")
        self._reserve(rows_ahead, bytes_ahead)
        table.payload_bytes += bytes_ahead
        if headers.count:
            self._reserve_headers(headers.count, headers.key_bytes, headers.value_bytes)
        if table.views:
            self._pin(&run)
        if bytes_ahead < NOGIL_BYTES:
            status = fill(table, &run, &reader.header, &reader.run.bounds)
        else:
            with nogil:
                status = fill(table, &run, &reader.header, &reader.run.bounds)
        if status != OK:
            reader.left = run.left - 1    # as `raise_record` counts
            reader.raise_record(status)
        return 1

    cdef ColumnBatch take(self):
        """The next array. The last one is empty if the run has no visible record behind it."""
        cdef ColumnBatch taken
        if self._table == NULL:
            self._begin()
        while self.pending or self._reader.next_batch():
            self.pending = True
            if not self._add_batch():
                break
            self._reader.left = 0
            self.pending = False
        if self._decoder is not None:
            self._decode()
        self._fill_constants()
        taken = ColumnBatch.__new__(ColumnBatch)
        taken._names = self._names
        taken._decoder = self._decoder
        taken._views = self._views
        taken._table = self._table
        self._table = NULL
        return taken

    cdef int _decode(self) except -1:
        """The columns that are made of the values; what was there for them alone goes."""
        cdef Table *table = self._table
        self._decoder.decode(table, self._reader.run)
        if "value" not in self._names:
            free_slices(&table.value)
            table.value.wanted = table.value.as_views = False
            if not table.key.as_views:
                table.views = False
                unpin(table)
                table.segment_count = 0
        return 0

    cdef int _fill_constants(self) except -1:
        """The columns that are the same for all records; and what was reserved for more goes back."""
        cdef Table *table = self._table
        cdef int64_t rows = table.rows, i, width = PyBytes_GET_SIZE(self._topic)
        cdef const uint8_t *topic = <const uint8_t *>PyBytes_AS_STRING(self._topic)
        cdef int column
        for i in range(table.column_count):
            column = table.columns[i]
            if column == TOPIC:
                reserve_slices(&table.topic, False, 0, rows, rows * width)
            elif column == PARTITION:
                reserve(&table.partition, 0, (rows + 1) * 4)
        with nogil:
            if table.topic.starts.data != NULL:
                for i in range(rows):
                    memcpy(table.topic.data.data + i * width, topic, <size_t>width)
                    (<int32_t *>table.topic.starts.data)[i + 1] = <int32_t>((i + 1) * width)
                table.topic.size = rows * width
            if table.partition.data != NULL:
                for i in range(rows):
                    (<int32_t *>table.partition.data)[i] = self._partition
            trim_slices(&table.key, rows)
            trim_slices(&table.value, rows)
            trim_slices(&table.topic, rows)
            trim_slices(&table.header_key, table.headers)
            trim_slices(&table.header_value, table.headers)
            trim(&table.offset, rows * 8)
            trim(&table.timestamp, rows * 8)
            trim(&table.timestamp_type, rows * 4)
            trim(&table.header_starts, (rows + 1) * 4)
            for i in range(table.field_count):
                trim_slices(&table.fields[i].slices, rows)
        if table.segment_count:
            reserve(&table.segment_sizes, 0, table.segment_count * 8)
            for i in range(table.segment_count):
                (<int64_t *>table.segment_sizes.data)[i] = table.segments[i].size
        return 0


# --- handing over -----------------------------------------------------------------------------

# Both kinds of node are one allocation: what the struct points at, then its children.
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
    let_go(node.table)
    free(node)
    array.release = NULL


cdef int set_array(ArrowArray *out, Table *table, int64_t length, int64_t nulls, int64_t buffers,
                   int64_t children) except -1:
    """Make an array of the table's, whose buffers and children are still to be set."""
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
    logstore_count_up(&table.references)
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


cdef int set_numbers(ArrowArray *out, Table *table, const Region *region) except -1:
    set_array(out, table, table.rows, 0, 2, 0)
    out.buffers[1] = region.data
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
        if column == KEY:
            set_slices(child, table, &table.key, table.rows)
        elif column == VALUE:
            set_slices(child, table, &table.value, table.rows)
        elif column == TOPIC:
            set_slices(child, table, &table.topic, table.rows)
        elif column == PARTITION:
            set_numbers(child, table, &table.partition)
        elif column == OFFSET:
            set_numbers(child, table, &table.offset)
        elif column == TIMESTAMP:
            set_numbers(child, table, &table.timestamp)
        elif column == TIMESTAMP_TYPE:
            set_numbers(child, table, &table.timestamp_type)
        elif column >= COLUMNS:
            set_field(child, table, &table.fields[column - COLUMNS])
        else:
            set_array(child, table, table.rows, 0, 2, 1)
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
    """Make a schema whose children are still to be set; it has copies of its name and format."""
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


cdef int set_column_schema(ArrowSchema *out, int column, bint views) except -1:
    cdef const char *binary = "vz" if views else "z"
    if column == KEY:
        return set_schema(out, "key", binary, ARROW_FLAG_NULLABLE, 0)
    if column == VALUE:
        return set_schema(out, "value", binary, ARROW_FLAG_NULLABLE, 0)
    if column == TOPIC:
        return set_schema(out, "topic", "u", 0, 0)
    if column == PARTITION:
        return set_schema(out, "partition", "i", 0, 0)
    if column == OFFSET:
        return set_schema(out, "offset", "l", 0, 0)
    if column == TIMESTAMP:
        return set_schema(out, "timestamp", "tsm:UTC", 0, 0)
    if column == TIMESTAMP_TYPE:
        return set_schema(out, "timestampType", "i", 0, 0)
    set_schema(out, "headers", "+l", 0, 1)
    set_schema(out.children[0], "element", "+s", 0, 2)
    set_schema(out.children[0].children[0], "key", "u", 0, 0)
    return set_schema(out.children[0].children[1], "value", "z", ARROW_FLAG_NULLABLE, 0)


cdef int column_of(object name, Decoder decoder) except -1:
    """The number of a column that is known."""
    if name in _NAMES:
        return _NAMES.index(name)
    return COLUMNS + <int>decoder.names.index(name)


cdef int set_columns_schema(ArrowSchema *out, tuple names, bint views, Decoder decoder) except -1:
    cdef int i = 0, column
    set_schema(out, "", "+s", 0, len(names))
    for name in names:
        column = column_of(name, decoder)
        if column < COLUMNS:
            set_column_schema(out.children[i], column, views)
        else:
            decoder.set_field_schema(out.children[i], column - COLUMNS)
        i += 1
    return 0


cdef object schema_capsule(tuple names, bint views, Decoder decoder):
    cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
    if schema == NULL:
        raise MemoryError
    try:
        capsule = PyCapsule_New(schema, "arrow_schema", free_schema_capsule)
    except BaseException:
        free(schema)
        raise
    set_columns_schema(schema, names, views, decoder)
    return capsule


@cython.final
cdef class ColumnBatch:
    """The visible records of a run as one Arrow struct array.

    Give it to any Arrow library: ``pyarrow.record_batch(columns)``, ``polars.DataFrame(columns)``,
    ``pandas.DataFrame.from_arrow(columns)``. It may be given away any number of times; nothing is copied.

    Owns: one reference to the buffers, which outlive it as long as a consumer holds them.
    Threads: immutable after construction.
    """

    def __init__(self):
        raise TypeError("a ColumnBatch is made by columns_of()")

    def __dealloc__(self):
        if self._table != NULL:
            let_go(self._table)

    def __len__(self):
        return self._table.rows

    @property
    def columns(self):
        """The names of the columns, in their order."""
        return self._names

    def __arrow_c_schema__(self):
        """A capsule with the Arrow schema."""
        return schema_capsule(self._names, self._views, self._decoder)

    def __arrow_c_array__(self, requested_schema=None):
        """Capsules with the Arrow schema and array; another schema than ours is not provided."""
        cdef ArrowArray *array = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        if array == NULL:
            raise MemoryError
        try:
            capsule = PyCapsule_New(array, "arrow_array", free_array_capsule)
        except BaseException:
            free(array)
            raise
        set_columns(array, self._table)
        return self.__arrow_c_schema__(), capsule

    def __arrow_c_stream__(self, requested_schema=None):
        """A capsule with an Arrow stream of this one array, for those who take streams only."""
        cdef _Source source = _Source.__new__(_Source)
        source._names = self._names
        source._views = self._views
        source._decoder = self._decoder
        source._chunks = iter((self,))
        return stream_capsule(source)

    def __repr__(self):
        return f"<ColumnBatch of {self._table.rows} records: {', '.join(self.columns)}>"


def columns_of(Batches batches not None, columns=None, *, bint views=False, int32_t array_bytes=INT32_MAX,
               Decoder decoder=None):
    """The visible records of ``batches`` as one Arrow array.

    ``columns`` names the columns wanted, in their order: key, value, topic, partition, offset,
    timestamp, timestampType, headers; None means all but headers. With ``views`` keys and values
    are ``binary_view``: they point into the bytes of ``batches``, or into the decompressed bytes
    of each batch, and keep these alive. ``array_bytes`` limits the bytes of one column, in
    [1, 2**31-1]: Arrow's offsets are of 32 bits. `ColumnStream` splits where one array is not enough.
    The columns of a ``decoder`` can be named too; without ``columns`` they stand in place of the value.

    Raises:
        ValueError: a column is unknown, or named twice.
        PayloadError: a value is not what the decoder was told.
        CorruptRecordError: a record, or a header that was asked for, is not whole.
        OverflowError: the records do not fit one array.

    >>> from logstore._batch import Batches
    >>> from logstore._encode import encode
    >>> columns_of(Batches(encode([b"a", b"b"], timestamp_ms=1)), ["offset", "value"])
    <ColumnBatch of 2 records: offset, value>
    """
    cdef _Filler filler = _Filler(
        batches, _chosen(columns, decoder), views, array_bytes, None, None, decoder)
    cdef ColumnBatch taken = filler.take()
    if filler.pending:
        raise OverflowError(
            f"the records from offset {batches.start_offset} on pass {array_bytes} bytes in a column of one "
            "Arrow array; read less at a time, or use ColumnStream, which splits")
    return taken


# --- a stream of arrays -----------------------------------------------------------------------

@cython.final
cdef class _Source:
    """What a C stream draws from: an iterator of runs, and the run that is being read.

    Owns: the iterator, until the stream is released. Threads: one at a time, as Arrow demands.
    """

    cdef object _chunks
    cdef ColumnStream _stream             # is told of an error; None for the stream of one array
    cdef tuple _names
    cdef Decoder _decoder
    cdef bint _views
    cdef int64_t _array_bytes
    cdef object _topic
    cdef object _partition
    cdef _Filler _filler
    cdef bytes _error
    cdef int _errno

    cdef ColumnBatch next_batch(self):
        """The next array with records in it, or None at the end."""
        cdef ColumnBatch taken
        while True:
            if self._filler is None:
                chunk = next(self._chunks, None)
                if chunk is None or isinstance(chunk, ColumnBatch):
                    return chunk
                if not isinstance(chunk, Batches):
                    raise TypeError(
                        f"a chunk of a ColumnStream must be Batches, found {type(chunk).__name__}")
                self._filler = _Filler(
                    chunk, self._names, self._views, self._array_bytes, self._topic, self._partition,
                    self._decoder)
                chunk = None
            taken = self._filler.take()
            if not self._filler.pending:
                self._filler = None
            if taken._table.rows:
                return taken

    cdef int fail(self, object error):
        """Keep what went wrong for `get_last_error`; returns the errno that says it best."""
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
        return self._errno


cdef int get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef _Source source = <_Source>stream.private_data
    memset(out, 0, sizeof(ArrowSchema))
    try:
        set_columns_schema(out, source._names, source._views, source._decoder)
        return 0
    except BaseException as error:
        drop_schema(out)
        return source.fail(error)


cdef int get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    # Nothing may fly through C: whatever is raised, KeyboardInterrupt too, becomes an errno and a text.
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
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>calloc(1, sizeof(ArrowArrayStream))
    if stream == NULL:
        raise MemoryError
    try:
        capsule = PyCapsule_New(stream, "arrow_array_stream", free_stream_capsule)
    except BaseException:
        free(stream)
        raise
    Py_INCREF(source)
    stream.private_data = <void *>source
    stream.get_schema = get_schema
    stream.get_next = get_next
    stream.get_last_error = get_last_error
    stream.release = release_stream
    return capsule


def _drawn(_Source source):
    """What a source has to give, for Python."""
    cdef ColumnBatch taken = source.next_batch()
    while taken is not None:
        yield taken
        taken = source.next_batch()


@cython.final
cdef class ColumnStream:
    """Runs of batches as a stream of Arrow arrays, one for each run, read as the consumer asks.

    ``chunks`` is any iterable of `Batches`; the columns are those of `columns_of`. A run without
    visible records gives no array, one whose columns would pass ``array_bytes`` gives several.
    ``topic`` and ``partition`` stand in place of those that the runs name. No more than one run is
    held at a time; releasing the stream early lets go of the iterator, which closes a generator.

    A stream can be given away once. An exception of ``chunks`` or of the bytes reaches the consumer
    as an errno and a text, from which every Arrow library makes an exception of its own; the one
    that was raised is kept as ``error``.

    Owns: the iterable, until the stream is given away. Threads: one at a time; the consumer may draw
    from a thread of its own.
    """

    cdef object _chunks
    cdef tuple _names
    cdef Decoder _decoder
    cdef bint _views
    cdef int64_t _array_bytes
    cdef object _topic
    cdef object _partition
    cdef readonly object error

    def __init__(self, chunks, columns=None, *, bint views=False, topic=None, partition=None,
                 int32_t array_bytes=INT32_MAX, Decoder decoder=None):
        self._names = _chosen(columns, decoder)
        self._decoder = decoder
        self._views = views
        self._topic = topic
        self._partition = partition
        self._array_bytes = array_bytes
        self._chunks = iter(chunks)

    @property
    def columns(self):
        """The names of the columns, in their order."""
        return self._names

    def __arrow_c_schema__(self):
        """A capsule with the Arrow schema; does not use the stream up."""
        return schema_capsule(self._names, self._views, self._decoder)

    def __iter__(self):
        """Give the stream away as `ColumnBatch`es, one after the other.

        Raises:
            RuntimeError: the stream was given away before.
        """
        return _drawn(self._source())

    def __arrow_c_stream__(self, requested_schema=None):
        """A capsule with the Arrow stream; another schema than ours is not provided.

        Raises:
            RuntimeError: the stream was given away before.
        """
        cdef _Source source = self._source()
        source._stream = self
        return stream_capsule(source)

    cdef _Source _source(self):
        cdef _Source source
        if self._chunks is None:
            raise RuntimeError("this ColumnStream was consumed before; read again to get another one")
        source = _Source.__new__(_Source)
        source._names = self._names
        source._decoder = self._decoder
        source._views = self._views
        source._array_bytes = self._array_bytes
        source._topic = self._topic
        source._partition = self._partition
        source._chunks = self._chunks
        self._chunks = None
        return source

    def __repr__(self):
        return f"<ColumnStream: {', '.join(self._names)}{'' if self._chunks is not None else ', consumed'}>"
