# cython: language_level=3
"""Headers of record batches in requests and answers: whole batches, aborted transactions, a producer's sequences.

The functions use no socket and decode no record except transaction markers. Any thread may call them.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t

from logstore.batch._batch cimport (
    AT_BASE_SEQUENCE,
    AT_PRODUCER_EPOCH,
    AT_PRODUCER_ID,
    BatchHeader,
    CONTROL_FLAG,
    HEADER_BYTES,
    RecordView,
    last_offset_of,
    next_record,
    parse_header,
    raise_batch_status,
    seal_batch,
    sequence_after,
    whole_header,
)
from logstore.batch._bytes cimport OK, SHORT, load16, store16, store32, store64
from logstore.batch._crc32c cimport logstore_crc32c_init

logstore_crc32c_init()

cdef enum:
    ABORT = 0       # the type in the key of a transaction marker


def whole_batches(source):
    """Return the whole record batches at the beginning of a fetch's records, which may be truncated anywhere.

    Returns a tuple of three: a copy of these batches; the offset after their last record, or -1 without a batch;
    and the size of the first batch by its header. If even that header is truncated, the third is the size of a
    header; without any bytes it is 0. Only headers are read.

    Raises:
        UnsupportedFormatError, CorruptRecordError: the bytes are not batches of format 2.
    """
    cdef Py_buffer view
    cdef const uint8_t *start
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef BatchHeader header
    cdef int status = OK
    cdef int64_t next_offset = -1, first_bytes = 0
    if source is None:
        return b"", -1, 0
    PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
    try:
        start = p = <const uint8_t *>view.buf
        end = p + view.len
        with nogil:
            while p < end:
                status = parse_header(p, end, &header)
                if status != OK:
                    break
                if p == start:
                    first_bytes = header.size
                if header.size > end - p:
                    status = SHORT
                    break
                next_offset = last_offset_of(&header) + 1
                p += header.size
        if status != OK and status != SHORT:
            raise_batch_status(status, p, end, None, None)
        if p == start and p < end and first_bytes == 0:
            first_bytes = HEADER_BYTES
        return PyBytes_FromStringAndSize(<const char *>start, p - start), next_offset, first_bytes
    finally:
        PyBuffer_Release(&view)


def aborted_ranges(bytes data not None, transactions):
    """Return (producer id, first offset, last offset) of each aborted transaction, as `Batches` accepts them.

    ``data`` holds whole batches; ``transactions`` holds (producer id, first offset) pairs as a broker lists them.
    The last offset is that of the abort marker; without a marker in ``data`` it is the largest possible offset.
    """
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *end = p + PyBytes_GET_SIZE(data)
    cdef const uint8_t *cursor
    cdef BatchHeader header
    cdef RecordView record
    cdef dict open_ = {}
    cdef list found = [], still
    for producer_id, first in sorted(transactions):
        open_.setdefault(producer_id, []).append(first)
    while p < end and open_:
        raise_batch_status(whole_header(p, end, &header), p, end, None, None)
        if header.attributes & CONTROL_FLAG and header.producer_id in open_:
            cursor = p + HEADER_BYTES
            if (next_record(&cursor, p + header.size, header.base_offset, header.base_timestamp, &record) == OK
                    and record.key_size >= 4 and load16(record.key + 2) == ABORT):
                still = []
                for first in open_.pop(header.producer_id):
                    if first <= header.base_offset:
                        found.append((header.producer_id, first, header.base_offset))
                    else:
                        still.append(first)
                if still:
                    open_[header.producer_id] = still
        p += header.size
    for producer_id, firsts in open_.items():
        for first in firsts:
            found.append((producer_id, first, INT64_MAX))
    return tuple(found)


def sequenced(batches, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence):
    """Set the producer id and consecutive sequences in the batches of a writable buffer, and update their CRCs.

    With ``base_sequence=-1`` every batch gets -1. Returns (position, size, record count, base sequence) of each
    batch.

    Raises:
        CorruptRecordError, UnsupportedFormatError: the buffer does not hold whole batches.
    """
    cdef Py_buffer view
    cdef uint8_t *start
    cdef uint8_t *p
    cdef uint8_t *end
    cdef BatchHeader header
    cdef list found = []
    PyObject_GetBuffer(batches, &view, PyBUF_WRITABLE)
    try:
        start = p = <uint8_t *>view.buf
        end = p + view.len
        while p < end:
            raise_batch_status(whole_header(p, end, &header), p, end, None, None)
            store64(p + AT_PRODUCER_ID, producer_id)
            store16(p + AT_PRODUCER_EPOCH, producer_epoch)
            store32(p + AT_BASE_SEQUENCE, base_sequence)
            with nogil:
                seal_batch(p, header.size)
            found.append((p - start, header.size, header.record_count, base_sequence))
            if base_sequence >= 0:
                base_sequence = sequence_after(base_sequence, header.record_count)
            p += header.size
    finally:
        PyBuffer_Release(&view)
    return found
