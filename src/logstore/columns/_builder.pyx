# cython: language_level=3
"""Tables of Arrow buffers, filled from the visible records of a run.

The records are written directly from their batches into the buffers; none becomes a Python object. Sizes come from
bytes that were received, so each is bounded by the bytes that it is read from before anything is filled. A
`Decoder` makes its own columns from the values of a table once it is filled. It reads the values in place, also if
that column was not requested. `_export` hands tables over.

The buffers have their own reference count. A holder may release them from any thread, with or without the GIL, and
after every object here was freed.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset
from posix.stdlib cimport posix_memalign

from logstore.columns._arrow cimport ArrowSchema
from logstore.batch._batch cimport Batches, RunReader
from logstore.batch._bytes cimport OK

from logstore.errors import CorruptRecordError, RecordError

cdef extern from *:
    """
    /* 0: taken */
    static inline int logstore_try_lock(char *lock) { return __atomic_test_and_set(lock, __ATOMIC_ACQUIRE); }
    static inline void logstore_unlock(char *lock) { __atomic_clear(lock, __ATOMIC_RELEASE); }
    """
    int logstore_try_lock(char *lock) noexcept nogil
    void logstore_unlock(char *lock) noexcept nogil

cdef extern from "Python.h":
    int Py_IsInitialized() nogil

# By the numbers of `_builder.pxd`.
NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_DEFAULT = NAMES[:HEADERS]

cdef enum:
    ALIGNMENT = 64
    NOGIL_BYTES = 4096            # below it releasing the GIL costs more than other threads gain


# --- the buffers ------------------------------------------------------------------------------

# Released blocks, for the next array of the same size: a stream of chunks then writes into
# pages that are mapped already. Without them a chunk of 1.2 MB took 40 ns a record instead of 12, most of
# it in page faults. Never waited for: a thread that finds the list in use allocates.
cdef enum:
    SPARES = 24
    LEAST_SPARE_BYTES = 32 << 10
    MOST_SPARE_BYTES = 16 << 20       # of all of them

cdef Region spares[SPARES]
cdef int64_t spare_bytes = 0
cdef char spares_in_use = 0


cdef int allocate(Region *out, int64_t capacity) noexcept nogil:
    """Allocate a block of at least capacity bytes, but not many more; return -1 when there is no memory."""
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


cdef void release_table(Table *table) noexcept nogil:
    """Release one reference; the last one frees the buffers."""
    cdef int i
    if logstore_count_down(&table.references):
        return
    for i in range(PARTITION):
        free_slices(&table.slices[i])
    for i in range(HEADERS):
        give_back(&table.numbers[i])
    give_back(&table.header_starts)
    give_back(&table.header_valid)
    free_slices(&table.header_key)
    free_slices(&table.header_value)
    for i in range(table.field_count):
        free_slices(&table.fields[i].slices)
    free(table.fields)
    free(table.columns)
    # A consumer may release after the interpreter has ended; the Python bytes are freed by then.
    if table.segment_count and Py_IsInitialized():
        unpin(table)
    free(table.segments)
    give_back(&table.segment_sizes)
    free(table)


cdef int reserve(Region *region, int64_t used, int64_t capacity) except -1:
    """Reserve capacity bytes in all; the first ``used`` are kept."""
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
    """Reserve a bit for each of ``rows``; new ones are set."""
    cdef int64_t known = region.capacity
    reserve(region, known, (rows + 7) >> 3)
    if region.capacity > known:
        memset(region.data + known, 0xFF, <size_t>(region.capacity - known))
    return 0


cdef void trim(Region *region, int64_t used) noexcept nogil:
    """Move a block into a smaller one if it is mostly unused: a consumer may keep it long."""
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
    """A decoder of a table's values into columns; the base of those in `_values`.

    Owns: nothing here. Threads: immutable after construction; several tables may be decoded concurrently.
    """

    cdef int set_up(self, Field *fields) except -1:
        """Set the kind of each field; there is one for each of ``names``."""
        raise NotImplementedError  # implemented by a subclass; a cdef class has no abstract methods

    cdef int decode(self, Table *table, Batches run) except -1:
        """Fill the fields of all rows from the values; the offsets are filled already."""
        raise NotImplementedError  # implemented by a subclass; a cdef class has no abstract methods

    cdef int set_field_schema(self, ArrowSchema *out, int field) except -1:
        """Make the schema of one field."""
        raise NotImplementedError  # implemented by a subclass; a cdef class has no abstract methods


cdef inline void repeat(uint8_t *out, const uint8_t *text, int64_t width, int64_t size) noexcept nogil:
    """Fill ``size`` bytes with a text of ``width``, doubling the copied part: a copy for each row was slower."""
    cdef int64_t filled = min(width, size), step
    memcpy(out, text, <size_t>filled)
    while 0 < filled < size:
        step = min(filled, size - filled)
        memcpy(out + filled, out, <size_t>step)
        filled += step


cdef int column_of(object name, Decoder decoder) except -1:
    """Return the number of a known column."""
    if name in NAMES:
        return NAMES.index(name)
    return COLUMNS + <int>decoder.names.index(name)


cdef int width_of(int column) noexcept nogil:
    """Return the bytes of a number in a column of `Table.numbers`."""
    return 8 if column == OFFSET or column == TIMESTAMP else 4


cdef tuple _chosen(object columns, Decoder decoder):
    """Return the names of columns, each known and listed once."""
    cdef tuple fields = () if decoder is None else decoder.names
    if columns is None:
        # The decoded fields replace the value.
        return _DEFAULT if decoder is None else _DEFAULT[:VALUE] + fields + _DEFAULT[VALUE + 1:]
    if isinstance(columns, str):
        raise ValueError(f"columns are a list of names, found the str {columns!r}; write [{columns!r}]")
    names = tuple(columns)
    unknown = [name for name in names if name not in NAMES and name not in fields]
    if unknown:
        raise ValueError(
            f"column {', '.join(map(repr, unknown))} is unknown; known are {', '.join(NAMES + fields)}")
    if len(set(names)) != len(names):
        raise ValueError(f"a column can be asked for once, found {', '.join(map(repr, names))}")
    return names


@cython.final
cdef class Layout:
    """The columns that are wanted, and their form.

    Owns: nothing. Threads: immutable after construction.

    Raises:
        ValueError: a column is unknown, or named twice.
    """

    def __cinit__(self, columns, Decoder decoder, *, bint views, bint spark, int64_t most_bytes, topic=None,
                  partition=None):
        self.names = _chosen(columns, decoder)
        self.decoder = decoder
        self.views = views
        self.spark = spark
        self.most_bytes = most_bytes
        self.topic = topic
        self.partition = partition


@cython.final
cdef class Filler:
    """A builder that fills one table after the other from one run of batches.

    Owns: the table that is being filled, until `take` returns it. Threads: one at a time.
    """

    def __cinit__(self, Batches run not None, Layout layout not None):
        self._reader = RunReader(run)
        self.layout = layout
        # A decoder without requested fields has nothing to do.
        self._decoder = layout.decoder if layout.decoder is not None and layout.decoder.names else None
        self._topic = (run.topic if layout.topic is None else layout.topic).encode()
        self._partition = run.partition if layout.partition is None else layout.partition

    def __dealloc__(self):
        if self._table != NULL:
            release_table(self._table)

    cdef int _begin(self) except -1:
        cdef Table *table = <Table *>calloc(1, sizeof(Table))
        cdef int column
        cdef Extent extent
        if table == NULL:
            raise MemoryError
        self._table = table
        table.references = 1
        table.columns = <int *>calloc(<size_t>len(self.layout.names) + 1, sizeof(int))
        if table.columns == NULL:
            raise MemoryError
        self._offsets = self._decoder is not None
        for name in self.layout.names:
            column = column_of(name, self._decoder)
            table.columns[table.column_count] = column
            table.column_count += 1
            if column == KEY or column == VALUE:
                table.slices[column].wanted = True
                table.slices[column].as_views = self.layout.views
            elif column == OFFSET:
                self._offsets = True
        if self._decoder is not None:
            table.fields = <Field *>calloc(<size_t>len(self._decoder.names), sizeof(Field))
            if table.fields == NULL:
                raise MemoryError
            table.field_count = <int>len(self._decoder.names)
            self._decoder.set_up(table.fields)
            if not table.slices[VALUE].wanted:
                table.slices[VALUE].wanted = table.slices[VALUE].as_views = True
        table.views = table.slices[KEY].as_views or table.slices[VALUE].as_views
        # One reservation for all batches whose headers give their sizes. These are claims:
        # the bytes present bound them.
        measure(self._reader._next, self._reader._end, &extent)
        self._reserve(min(extent.rows, <int64_t>INT32_MAX), min(extent.bytes, self.layout.most_bytes))
        if table.header_starts.data != NULL:
            (<int32_t *>table.header_starts.data)[0] = 0
            self._reserve_headers(0, 0, 0)
        return 0

    cdef int _reserve(self, int64_t more, int64_t more_bytes) except -1:
        """Make room in every column for more rows, decoded from at most more_bytes."""
        cdef Table *table = self._table
        cdef int64_t rows = table.rows
        cdef int i, column
        for i in range(TOPIC):
            if table.slices[i].wanted:
                reserve_slices(&table.slices[i], table.slices[i].as_views, rows, more, more_bytes)
        if self._offsets:
            reserve(&table.numbers[OFFSET], rows * 8, (rows + more + 1) * 8)
        for i in range(table.column_count):
            column = table.columns[i]
            if column == TIMESTAMP or column == TIMESTAMP_TYPE:
                reserve(&table.numbers[column], rows * width_of(column), (rows + more + 1) * width_of(column))
            elif column == HEADERS:
                reserve(&table.header_starts, (rows + 1) * 4 if table.header_starts.capacity else 0,
                        (rows + more + 1) * 4)
        return 0

    cdef int _reserve_headers(self, int64_t count, int64_t key_bytes, int64_t value_bytes) except -1:
        cdef Table *table = self._table
        reserve_slices(&table.header_key, False, table.headers, count, key_bytes)
        return reserve_slices(&table.header_value, False, table.headers, count, value_bytes)

    cdef bint _fits(self, int64_t rows, int64_t more_bytes, const HeaderExtent *headers) noexcept:
        """Tell whether a batch can be added with every int32 offset of the array inside its limit."""
        cdef Table *table = self._table
        cdef int64_t most = self.layout.most_bytes
        cdef int i
        # Values that are not copied have no size here.
        for i in range(TOPIC):
            if (table.slices[i].wanted and not table.slices[i].as_views
                    and max(table.slices[KEY].size, table.slices[VALUE].size) + more_bytes > most):
                return False
        if table.field_count and table.payload_bytes + more_bytes > most:
            return False
        if max(table.header_key.size + headers.key_bytes, table.header_value.size + headers.value_bytes,
               table.headers + headers.count) > most:
            return False
        return (table.rows + rows) * max(PyBytes_GET_SIZE(self._topic), 1) <= most

    cdef int _pin(self, Run *run) except -1:
        """Add the bytes of the current batch to a segment that views point into."""
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
        """Add the reader's current batch; return 0 if it belongs into another array."""
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
                raise reader.placed(CorruptRecordError(
                    f"a header {'key is not UTF-8' if status == NO_TEXT else 'of a record is wrong'} in the "
                    f"batch at base offset {reader.header.base_offset}"))
        if not self._fits(rows_ahead, bytes_ahead, &headers):
            if table.rows:
                return 0
            raise OverflowError(
                f"the batch at base offset {reader.header.base_offset} holds up to {bytes_ahead} bytes in "
                f"{rows_ahead} records, a column of an Arrow array at most {self.layout.most_bytes} bytes")
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

    cdef Table *take(self) except NULL:
        """Return the next table, owned by the caller; without a row if no visible record is left in the run."""
        cdef Table *table
        if self.failure is not None:
            raise self.failure
        if self._table == NULL:
            try:
                self._begin()
            except BaseException:
                # Discarded: the next call would otherwise fill columns that have no room.
                if self._table != NULL:
                    release_table(self._table)
                    self._table = NULL
                raise
        try:
            while self.pending or self._reader.next_batch():
                self.pending = True
                if not self._add_batch():
                    break
                self._reader.left = 0
                self.pending = False
        except RecordError as error:
            # The rows before the error are returned first; the next call raises it.
            if not self._table.rows:
                raise
            self.failure = error
            self.pending = True
        if self._decoder is not None:
            self._decode()
        self._fill_constants()
        table = self._table
        self._table = NULL
        return table

    cdef int _decode(self) except -1:
        """Decode the value columns, and free the values if they were needed only for that."""
        cdef Table *table = self._table
        self._decoder.decode(table, self._reader.run)
        if "value" not in self.layout.names:
            free_slices(&table.slices[VALUE])
            table.slices[VALUE].wanted = table.slices[VALUE].as_views = False
            if not table.slices[KEY].as_views:
                table.views = False
                unpin(table)
                table.segment_count = 0
        return 0

    cdef int _fill_constants(self) except -1:
        """Fill the columns that are the same for all records, and trim the buffers."""
        cdef Table *table = self._table
        cdef int64_t rows = table.rows, i, width = PyBytes_GET_SIZE(self._topic)
        cdef const uint8_t *topic = <const uint8_t *>PyBytes_AS_STRING(self._topic)
        cdef int column
        for i in range(table.column_count):
            column = table.columns[i]
            if column == TOPIC:
                reserve_slices(&table.slices[TOPIC], False, 0, rows, rows * width)
            elif column == PARTITION:
                reserve(&table.numbers[PARTITION], 0, (rows + 1) * 4)
            elif column == HEADERS and self.layout.spark:
                reserve_bits(&table.header_valid, rows + 1)
        with nogil:
            if self.layout.spark and table.numbers[TIMESTAMP].data != NULL:
                to_micros(<int64_t *>table.numbers[TIMESTAMP].data, rows)
            if table.header_valid.data != NULL:
                table.headerless = mark_headerless(
                    <const int32_t *>table.header_starts.data, table.header_valid.data, rows)
            if table.slices[TOPIC].starts.data != NULL:
                table.slices[TOPIC].size = rows * width
                repeat(table.slices[TOPIC].data.data, topic, width, table.slices[TOPIC].size)
                for i in range(rows):
                    (<int32_t *>table.slices[TOPIC].starts.data)[i + 1] = <int32_t>((i + 1) * width)
            if table.numbers[PARTITION].data != NULL:
                for i in range(rows):
                    (<int32_t *>table.numbers[PARTITION].data)[i] = self._partition
            for i in range(PARTITION):
                trim_slices(&table.slices[i], rows)
            for i in range(PARTITION, HEADERS):
                trim(&table.numbers[i], rows * width_of(<int>i))
            trim_slices(&table.header_key, table.headers)
            trim_slices(&table.header_value, table.headers)
            trim(&table.header_starts, (rows + 1) * 4)
            for i in range(table.field_count):
                trim_slices(&table.fields[i].slices, rows)
        if table.segment_count:
            reserve(&table.segment_sizes, 0, table.segment_count * 8)
            for i in range(table.segment_count):
                (<int64_t *>table.segment_sizes.data)[i] = table.segments[i].size
        return 0
