# cython: language_level=3
"""Sparse offset index and time index of one segment.

Bytes, big-endian, no header (Kafka's `OffsetIndex` and `TimeIndex`)::

    .index      8 bytes an entry:  last offset of a batch - base offset  i32 | start of that batch  i32
    .timeindex 12 bytes an entry:  largest timestamp so far  i64 | last offset of its batch - base offset  i32

In an offset index, offsets and positions rise from entry to entry. In a time index, timestamps and offsets never
fall. Kafka preallocates the indexes of its active segment, so zeros at the end of a file are not entries.
The entries of an active segment are in memory, and the file is written after the log's bytes. The entries of a
sealed segment are a read-only mapping of the file. An index is only a hint: `is_sound` checks its order, and a
search compares the entry that it uses with the batch at the entry's position.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from logstore.batch._bytes cimport load32, load64, store32, store64


cdef class Entries:
    """Fixed-size entries: in memory while their segment grows, a mapped file once it is sealed.

    Owns: the memory, or a reference to the mapping. Threads: one writer; readers hold the GIL.
    """

    def __cinit__(self):
        self._entry_bytes = 1

    def __dealloc__(self):
        free(self._memory)

    def load(self, bytes data not None):
        """Load the entries of an index file into memory; a partial entry at the file's end is dropped."""
        cdef int64_t count = PyBytes_GET_SIZE(data) // self._entry_bytes
        self._mapping = None
        self.count = 0
        self._grow(count)
        memcpy(self._memory, PyBytes_AS_STRING(data), <size_t>(count * self._entry_bytes))
        self.count = count
        self._drop_padding()
        self.saved = self.count
        return self

    def map(self, Mapping mapping):
        """Use the entries of a mapped index file in place (None: the file is empty)."""
        free(self._memory)
        self._memory = NULL
        self._capacity = 0
        self._mapping = mapping
        self.data = NULL
        self.count = 0
        if mapping is not None:
            self.data = mapping.data
            self.count = mapping.size // self._entry_bytes
        self._drop_padding()
        self.saved = self.count
        return self

    cdef int _drop_padding(self) except -1:
        cdef const uint8_t *entry
        cdef int i
        while self.count:
            entry = self.data + (self.count - 1) * self._entry_bytes
            for i in range(self._entry_bytes):
                if entry[i]:
                    return 0
            self.count -= 1
        return 0

    cdef int _grow(self, int64_t capacity) except -1:
        cdef uint8_t *memory
        capacity = max(capacity, 8)
        if self._memory != NULL and capacity <= self._capacity:
            return 0
        memory = <uint8_t *>realloc(self._memory, <size_t>(capacity * self._entry_bytes))
        if memory == NULL:
            raise MemoryError
        if self._mapping is not None:
            # An entry is added to a mapped index: its entries are copied to memory, which can grow.
            memcpy(memory, self.data, <size_t>(self.count * self._entry_bytes))
            self._mapping = None
        self._memory = memory
        self._capacity = capacity
        self.data = memory
        return 0

    cdef uint8_t *_append(self) except NULL:
        """Add space for one entry, which the caller fills; return its address."""
        if self._memory == NULL or self.count == self._capacity:
            self._grow(self.count + (self.count >> 1) + 8)
        self.count += 1
        return self._memory + (self.count - 1) * self._entry_bytes

    cdef int cut(self, int64_t count) except -1:
        """Keep only the first ``count`` entries."""
        if count < self.count:
            self.count = count
        if self.saved > self.count:
            self.saved = self.count
        return 0

    def unsaved(self):
        """Return the entries that the file does not hold yet, as bytes to append to the file."""
        return PyBytes_FromStringAndSize(<const char *>self.data + self.saved * self._entry_bytes,
                                         <Py_ssize_t>((self.count - self.saved) * self._entry_bytes))

    def mark_saved(self):
        self.saved = self.count

    def unmark_saved(self):
        """Mark all entries as not saved, because the file was deleted or emptied."""
        self.saved = 0

    def to_bytes(self):
        """Return all entries as the bytes of an index file."""
        if self.count == 0:
            return b""
        return PyBytes_FromStringAndSize(<const char *>self.data,
                                         <Py_ssize_t>(self.count * self._entry_bytes))

    @property
    def entry_bytes(self):
        return self._entry_bytes

    @property
    def size(self):
        """Bytes that the entries take in their file."""
        return self.count * self._entry_bytes

    def __len__(self):
        return self.count


cdef class OffsetIndex(Entries):
    """Offset index: last offset of a batch -> its position."""

    def __cinit__(self):
        self._entry_bytes = OFFSET_ENTRY_BYTES

    cdef int add(self, int32_t relative_offset, int32_t position) except -1:
        cdef uint8_t *entry = self._append()
        store32(entry, relative_offset)
        store32(entry + 4, position)
        return 0

    def append(self, int32_t relative_offset, int32_t position):
        """Add an entry; its offset and its position must be above those of the last entry.

        Raises:
            ValueError: one of them is not.
        """
        if self.count and (relative_offset <= self.offset_at(self.count - 1)
                           or position <= self.position_at(self.count - 1)):
            raise ValueError(f"entry ({relative_offset}, {position}) does not rise over "
                             f"{self.entry(self.count - 1)}")
        self.add(relative_offset, position)

    cdef int32_t offset_at(self, int64_t entry) noexcept nogil:
        return load32(self.data + entry * OFFSET_ENTRY_BYTES)

    cdef int32_t position_at(self, int64_t entry) noexcept nogil:
        return load32(self.data + entry * OFFSET_ENTRY_BYTES + 4)

    cdef int64_t last_by(self, int64_t position) noexcept nogil:
        """Return the number of the last entry whose position is at most ``position``, or -1."""
        cdef int64_t first = 0, behind = self.count, middle
        while first < behind:
            middle = (first + behind) // 2
            if self.position_at(middle) <= position:
                first = middle + 1
            else:
                behind = middle
        return first - 1

    cdef int64_t floor_entry(self, int64_t relative_offset) noexcept nogil:
        """Return the number of the last entry whose offset is at most relative_offset, or -1.

        Offsets mostly rise evenly. So the search begins at the entry where even steps would put the offset, and
        doubles its steps until it has passed the offset. A binary search finds the entry in the range that is
        left. It has no branches on the data: each step is a load and a conditional move. So a large index costs
        one or two cache misses instead of ten.
        """
        cdef int64_t first = 0, behind = self.count, step = 8, guess, last
        cdef const uint8_t *base
        cdef const uint8_t *middle
        cdef int64_t left, half
        if behind == 0 or self.offset_at(0) > relative_offset:
            return -1
        last = self.offset_at(behind - 1)
        if relative_offset >= last:
            return behind - 1
        # Offset and count are below 2^31, so their product fits in 64 bits. The guess is bounded, because the
        # offsets of a damaged index need not rise.
        guess = max(<int64_t>0, min(relative_offset * (behind - 1) // last if last else 0, behind - 1))
        if self.offset_at(guess) <= relative_offset:
            first = guess
            while first + step < behind and self.offset_at(first + step) <= relative_offset:
                first += step
                step <<= 1
            behind = min(behind, first + step)
        else:
            behind = guess
            while behind - step > 0 and self.offset_at(behind - step) > relative_offset:
                behind -= step
                step <<= 1
            first = max(<int64_t>0, behind - step)
        base = self.data + first * OFFSET_ENTRY_BYTES
        left = behind - first
        while left > 1:
            half = left >> 1
            middle = base + half * OFFSET_ENTRY_BYTES
            base = middle if load32(middle) <= relative_offset else base
            left -= half
        return (base - self.data) // OFFSET_ENTRY_BYTES

    def entry(self, int64_t number):
        """Return (relative offset, position) of an entry."""
        if not 0 <= number < self.count:
            raise IndexError(f"entry {number} of {self.count}")
        return self.offset_at(number), self.position_at(number)

    def floor(self, int64_t relative_offset):
        """Return (relative offset, position) of the last entry at or below relative_offset, or None."""
        cdef int64_t found = self.floor_entry(relative_offset)
        return None if found < 0 else self.entry(found)

    def is_sound(self, int64_t log_bytes):
        """Return whether offsets and positions rise and every position is within ``log_bytes``."""
        cdef int64_t i, offset = -1, position = -1
        with nogil:
            for i in range(self.count):
                if self.offset_at(i) <= offset or self.position_at(i) <= position:
                    break
                offset = self.offset_at(i)
                position = self.position_at(i)
            else:
                i = self.count
        return i == self.count and position < log_bytes

    def cut_to(self, int64_t position):
        """Remove the entries of batches that start at or after a position."""
        cdef int64_t count = self.count
        while count and self.position_at(count - 1) >= position:
            count -= 1
        self.cut(count)


cdef class TimeIndex(Entries):
    """Time index: largest timestamp so far -> last offset of its batch."""

    def __cinit__(self):
        self._entry_bytes = TIME_ENTRY_BYTES

    cdef int add(self, int64_t timestamp, int32_t relative_offset) except -1:
        """Add an entry if its timestamp and its offset are above those of the last entry."""
        cdef uint8_t *entry
        if self.count and (timestamp <= self.timestamp_at(self.count - 1)
                           or relative_offset <= self.offset_at(self.count - 1)):
            return 0
        entry = self._append()
        store64(entry, timestamp)
        store32(entry + 8, relative_offset)
        return 0

    def append(self, int64_t timestamp, int32_t relative_offset):
        """Add an entry if its timestamp and its offset are above those of the last entry; else do nothing."""
        self.add(timestamp, relative_offset)

    cdef int64_t timestamp_at(self, int64_t entry) noexcept nogil:
        return load64(self.data + entry * TIME_ENTRY_BYTES)

    cdef int32_t offset_at(self, int64_t entry) noexcept nogil:
        return load32(self.data + entry * TIME_ENTRY_BYTES + 8)

    cdef int64_t below(self, int64_t timestamp) noexcept nogil:
        """Return the number of the last entry whose timestamp is below ``timestamp``, or -1."""
        cdef const uint8_t *base = self.data
        cdef const uint8_t *middle
        cdef int64_t left = self.count, half
        if left == 0 or load64(base) >= timestamp:
            return -1
        while left > 1:
            half = left >> 1
            middle = base + half * TIME_ENTRY_BYTES
            base = middle if load64(middle) < timestamp else base
            left -= half
        return (base - self.data) // TIME_ENTRY_BYTES

    def entry(self, int64_t number):
        """Return (timestamp, relative offset) of an entry."""
        if not 0 <= number < self.count:
            raise IndexError(f"entry {number} of {self.count}")
        return self.timestamp_at(number), self.offset_at(number)

    def last_below(self, int64_t timestamp):
        """Return (timestamp, relative offset) of the last entry below ``timestamp``, or None."""
        cdef int64_t found = self.below(timestamp)
        return None if found < 0 else self.entry(found)

    def is_sound(self):
        """Return whether timestamps and offsets never fall from entry to entry; they may be equal."""
        cdef int64_t i, timestamp = -2, offset = -1
        with nogil:
            for i in range(self.count):
                if self.offset_at(i) < offset or self.timestamp_at(i) < timestamp or self.offset_at(i) < 0:
                    break
                offset = self.offset_at(i)
                timestamp = self.timestamp_at(i)
            else:
                i = self.count
        return i == self.count

    def cut_to(self, int64_t relative_offset):
        """Remove the entries at or after an offset."""
        cdef int64_t count = self.count
        while count and self.offset_at(count - 1) >= relative_offset:
            count -= 1
        self.cut(count)
