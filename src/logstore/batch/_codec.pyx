"""Compression of a batch's records: the one seam over zlib, lz4, zstandard and cramjam.

This module is responsible for Kafka's framing of each codec (KIP-57, KIP-110, KIP-390), and for the memory that a
compressed batch may take. Sizes in the input are claims. Before a byte is allocated, a leaf reads the frame's
headers and finds its end and the most content that it can hold. So a truncated frame, one with bytes after its end
and a bomb are detected without calling the library. Normally the library is called once, with a destination of the
right size.

Any thread may call; the libraries release the GIL for the work itself. Their contexts are reused
but are not safe for two threads, so each call takes one off a free list. The packages are imported
at first use, so programs without compression do not import them.

lz4 frame (lz4_Frame_format.md), as Kafka writes it, integers little-endian:

    magic 0x184D2204 | FLG | BD | [content size 8] | [dictionary 4] | header checksum 1
    { size 4, high bit: stored | data | [checksum 4] } ...  | 0 4 | [checksum 4]

zstd frame (RFC 8878, 3.1.1):

    magic 0xFD2FB528 | descriptor | [window 1] | [dictionary 0-4] | [content size 0-8]
    { last 1 bit, type 2 bits, size 21 bits | data } ... | [checksum 4]

snappy (xerial's SnappyOutputStream), integers big-endian; without the magic it is one raw block:

    82 "SNAPPY" 00 | version 4 | compatible 4 | { size 4 | raw block } ...
    raw block: length of the content as a varint | elements
"""

import zlib

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from logstore.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCodecError

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

cdef tuple _NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

cdef enum:
    OK = 0
    SHORT = -1          # the frame continues after the last byte
    NO_MAGIC = -2       # no frame begins here
    BAD_HEADER = -3     # version, reserved bits or block size that no writer sets
    BAD_BLOCK = -4      # a block of a size or type that no writer makes
    DICTIONARY = -5     # needs a dictionary, and Kafka has none

cdef dict _FINDINGS = {
    SHORT: "the frame ends too early",
    NO_MAGIC: "no frame",
    BAD_HEADER: "a malformed frame header",
    BAD_BLOCK: "a malformed block header",
    DICTIONARY: "a frame that needs a dictionary",
}

cdef enum:
    UNKNOWN = -1
    # Java's zstd writer streams with 2 MiB at its default level; a context that has seen more
    # would keep that much for ever.
    KEPT_WINDOW_BYTES = 2 * 1024 * 1024
    # One for each thread at work concurrently; more are made when needed, and dropped after.
    KEPT_CONTEXTS = 8
    # Java reads concatenated gzip members, so these are read too; zlib copies the rest at each.
    GZIP_MEMBERS = 64
    GZIP_WINDOW_BITS = 31       # zlib's for a gzip header and the largest window
    LZ4_MAGIC = 0x184D2204
    LZ4_BLOCK_BYTES = 64 * 1024
    LZ4_BLOCK_SIZE_ID = 4       # lz4's for 64 KiB, the block that Kafka's Java client writes
    LZ4_KAFKA_LEVEL = 9         # KIP-390: the default, and the fast mode
    SKIPPABLE_MAGIC = 0x184D2A50
    ZSTD_BLOCK_BYTES = 128 * 1024
    ZSTD_KAFKA_LEVEL = 3
    SNAPPY_BLOCK_BYTES = 32 * 1024
    SNAPPY_HEADER_BYTES = 16

# Too large for C's int, so not in the enum.
cdef uint32_t ZSTD_MAGIC = 0xFD2FB528
cdef bytes SNAPPY_HEADER = b"\x82SNAPPY\x00" b"\x00\x00\x00\x01" b"\x00\x00\x00\x01"


# --- leaves ------------------------------------------------------------------------------------

cdef struct Frame:
    int64_t size            # bytes of the frame; on an error, its position
    int64_t bound           # its content is no larger than this
    int64_t announced       # size of the content as its header says, or UNKNOWN
    int64_t window_bytes    # memory that a decoder may need for it


cdef inline uint32_t load_le32(const uint8_t *p) noexcept nogil:
    return <uint32_t>p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24


cdef inline uint32_t load_be32(const uint8_t *p) noexcept nogil:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | <uint32_t>p[3]


cdef inline int64_t load_claim(const uint8_t *p, int size) noexcept nogil:
    """Read a little-endian size of 1 to 8 bytes; a value that does not fit is too large in any case."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value |= <uint64_t>p[i] << 8 * i
    return <int64_t>value if value <= <uint64_t>INT64_MAX else INT64_MAX


cdef int measure_skippable(const uint8_t *data, int64_t size, Frame *frame) noexcept nogil:
    """Measure a frame of user data: magic, size, bytes that hold no content."""
    frame.bound = frame.announced = frame.window_bytes = 0
    frame.size = size
    if size < 8 or <int64_t>load_le32(data + 4) > size - 8:
        return SHORT
    frame.size = 8 + <int64_t>load_le32(data + 4)
    return OK


cdef int measure_lz4(const uint8_t *data, int64_t size, Frame *frame) noexcept nogil:
    """Walk one lz4 frame from its magic to its end.

    At the top of the loop, the frame is whole up to `at` and the bytes before it hold at
    most `bound` bytes.
    """
    cdef int64_t at, block, block_bytes
    cdef int flags, trailer
    cdef bint stored
    frame.size = size
    frame.bound = 0
    frame.announced = UNKNOWN
    if size < 4:
        return SHORT
    if load_le32(data) != <uint32_t>LZ4_MAGIC:
        frame.size = 0
        return NO_MAGIC
    if size < 7:
        return SHORT
    flags = data[4]
    frame.size = 4
    if flags >> 6 != 1 or flags & 0x02 or data[5] & 0x8F or data[5] >> 4 < 4:
        return BAD_HEADER
    if flags & 0x01:
        return DICTIONARY
    frame.size = size
    # 4 to 7 mean 64 KiB, 256 KiB, 1 MiB and 4 MiB.
    frame.window_bytes = block_bytes = <int64_t>1 << (8 + 2 * (data[5] >> 4))
    at = 6
    if flags & 0x08:
        if size - at < 8:
            return SHORT
        frame.announced = load_claim(data + at, 8)
        at += 8
    at += 1                                                 # header checksum: checked by the library
    trailer = 4 if flags & 0x10 else 0
    while True:
        if size - at < 4:
            return SHORT
        block = load_le32(data + at)
        if block == 0:
            break
        stored = block >> 31
        block &= 0x7FFFFFFF
        if block > block_bytes:
            frame.size = at
            return BAD_BLOCK
        at += 4
        if size - at < block + trailer:
            return SHORT
        # A byte of lz4 holds 255 at most. A bound below 64 KiB saves nothing, and the library
        # decodes in place only where a whole block fits.
        frame.bound += block if stored else min(block_bytes, max(255 * block, <int64_t>LZ4_BLOCK_BYTES))
        at += block + trailer
    at += 4
    trailer = 4 if flags & 0x04 else 0
    if size - at < trailer:
        return SHORT
    frame.size = at + trailer
    return OK


cdef int measure_zstd(const uint8_t *data, int64_t size, Frame *frame) noexcept nogil:
    """Walk one zstd frame from its magic to its end; the invariant is that of `measure_lz4`."""
    cdef int64_t at, block_bytes, content, window
    cdef uint32_t header
    cdef int flags, kind, content_size_bytes, dictionary_bytes
    frame.size = size
    frame.bound = 0
    frame.announced = UNKNOWN
    if size < 4:
        return SHORT
    if load_le32(data) & <uint32_t>0xFFFFFFF0 == <uint32_t>SKIPPABLE_MAGIC:
        return measure_skippable(data, size, frame)
    if load_le32(data) != ZSTD_MAGIC:
        frame.size = 0
        return NO_MAGIC
    if size < 6:
        return SHORT
    flags = data[4]
    if flags & 0x08:
        frame.size = 4
        return BAD_HEADER
    at = 5
    window = -1
    if not flags & 0x20:
        window = <int64_t>1 << (10 + (data[at] >> 3))
        window += (window >> 3) * (data[at] & 7)
        at += 1
    dictionary_bytes = (1 << (flags & 3)) >> 1              # 0, 1, 2 or 4
    content_size_bytes = 1 << (flags >> 6)                  # 1, 2, 4 or 8; the 1 is there
    if content_size_bytes == 1 and not flags & 0x20:        # only without a window
        content_size_bytes = 0
    if size - at < dictionary_bytes + content_size_bytes:
        return SHORT
    if dictionary_bytes and load_claim(data + at, dictionary_bytes):
        frame.size = at
        return DICTIONARY
    at += dictionary_bytes
    if content_size_bytes:
        frame.announced = load_claim(data + at, content_size_bytes)
        if content_size_bytes == 2:
            frame.announced += 256
        at += content_size_bytes
    if window < 0:
        window = frame.announced
    frame.window_bytes = window
    block_bytes = min(window, <int64_t>ZSTD_BLOCK_BYTES)
    while True:
        if size - at < 3:
            return SHORT
        header = <uint32_t>data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16
        kind = header >> 1 & 3
        content = header >> 3
        if kind == 3 or content > <int64_t>ZSTD_BLOCK_BYTES:
            frame.size = at
            return BAD_BLOCK
        at += 3
        frame.bound += block_bytes if kind == 2 else content
        if kind == 1:                                       # one byte, repeated
            content = 1
        if size - at < content:
            return SHORT
        at += content
        if header & 1:
            break
    if flags & 0x04:
        if size - at < 4:
            return SHORT
        at += 4
    frame.size = at
    return OK


cdef int64_t snappy_content_bytes(const uint8_t *block, int64_t size) noexcept nogil:
    """Return the content size in a raw block's header, or a status: more than its bytes can hold is BAD_BLOCK."""
    cdef uint64_t value = 0
    cdef int64_t i
    for i in range(min(size, <int64_t>5)):
        value |= <uint64_t>(block[i] & 0x7F) << 7 * i
        if block[i] < 0x80:
            # Three bytes hold 64 at most (a copy with a 2-byte offset).
            return <int64_t>value if value <= 22 * <uint64_t>size else BAD_BLOCK
    return SHORT if size < 5 else BAD_BLOCK


# --- errors ------------------------------------------------------------------------------------

cdef object _corrupt(int codec, str found, int64_t position=UNKNOWN):
    where = "" if position == UNKNOWN else f" at byte {position} of the records"
    return CorruptRecordError(f"{_NAMES[codec]}: expected compressed records, found {found}{where}")


cdef object _too_large(int codec, int64_t limit, int64_t announced=UNKNOWN):
    found = "more" if announced == UNKNOWN else f"{announced} announced"
    return RecordTooLargeError(
        f"{_NAMES[codec]}: expected at most {limit} bytes decompressed, found {found}")


cdef object _behind(int codec, int64_t position, int64_t size):
    return _corrupt(codec, f"{size - position} bytes behind the last frame", position)


cdef dict _MODULES = {SNAPPY: "cramjam", LZ4: "lz4.frame", ZSTD: "zstandard"}
cdef dict _loaded = {}      # by codec


cdef object _package(int codec):
    """Return the module of a codec, imported at its first use, or raise with the package to install."""
    module = _loaded.get(codec)
    if module is None:
        name = _MODULES[codec]
        package = name.partition(".")[0]
        try:
            module = _loaded[codec] = __import__(name, fromlist=["_"])
        except ImportError as error:
            raise UnsupportedCodecError(
                f"codec {_NAMES[codec]} needs the package {package}, which cannot be imported here "
                f"({error}); pip install {'logstore[snappy]' if codec == SNAPPY else package}") from error
    return module


# --- gzip --------------------------------------------------------------------------------------

cdef bytes _gzip_compress(object data, int level):
    if not -1 <= level <= 9:
        raise ValueError(f"gzip: expected a level of 1 to 9, or -1 or 0 for the default, found {level}")
    return zlib.compress(data, level or -1, GZIP_WINDOW_BITS)


cdef bytes _gzip_decompress(object data, Py_ssize_t size, int64_t limit):
    cdef list parts = []
    cdef object rest = data
    cdef bytes part
    cdef int64_t left = limit
    for _ in range(GZIP_MEMBERS):
        member = zlib.decompressobj(GZIP_WINDOW_BITS)
        try:
            # One more than allowed, to tell an exact fit from an overflow.
            part = member.decompress(rest, min(left, <int64_t>PY_SSIZE_T_MAX - 1) + 1)
        except zlib.error as error:
            raise _corrupt(GZIP, str(error)) from error
        if PyBytes_GET_SIZE(part) > left:
            raise _too_large(GZIP, limit)
        if not member.eof:
            raise _corrupt(GZIP, _FINDINGS[SHORT], size)
        left -= PyBytes_GET_SIZE(part)
        rest = member.unused_data
        if not rest and not parts:
            return part
        parts.append(part)
        if not rest:
            return b"".join(parts)
        if not rest.startswith(b"\x1f\x8b"):
            raise _behind(GZIP, size - len(rest), size)
    raise _corrupt(GZIP, f"more than {GZIP_MEMBERS} members", size - len(rest))


# --- snappy ------------------------------------------------------------------------------------

cdef bytes _snappy_compress(object data, const uint8_t *start, Py_ssize_t size):
    compress_raw = _package(SNAPPY).snappy.compress_raw
    cdef list parts = [SNAPPY_HEADER]
    cdef Py_ssize_t at = 0, taken
    # An empty input is one empty block: aiokafka does not accept a bare header as framing.
    while True:
        taken = min(size - at, <Py_ssize_t>SNAPPY_BLOCK_BYTES)
        block = compress_raw(
            data if taken == size else PyBytes_FromStringAndSize(<const char *>start + at, taken))
        parts.append((<Py_ssize_t>len(block)).to_bytes(4, "big"))
        parts.append(block)
        at += taken
        if at == size:
            return b"".join(parts)


cdef bytes _snappy_block(object block):
    cramjam = _package(SNAPPY)
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(SNAPPY, str(error)) from error


cdef int64_t _snappy_claim(
        const uint8_t *start, int64_t at, int64_t size, int64_t total, int64_t limit) except -1:
    """Return the content size of the raw block at `at`, if that fits; `total` is that of the blocks before."""
    cdef int64_t content = snappy_content_bytes(start + at, size)
    if content < 0:
        raise _corrupt(SNAPPY, _FINDINGS[<int>content], at)
    if content > limit - total:
        raise _too_large(SNAPPY, limit, total + content)
    return content


cdef bytes _snappy_decompress(object data, const uint8_t *start, Py_ssize_t size, int64_t limit):
    cdef int64_t at, block, total = 0
    _package(SNAPPY)
    if size < 8 or memcmp(start, <const char *>SNAPPY_HEADER, 8) != 0:
        _snappy_claim(start, 0, size, 0, limit)
        return _snappy_block(data)
    if size < SNAPPY_HEADER_BYTES:
        raise _corrupt(SNAPPY, _FINDINGS[SHORT], size)
    if load_be32(start + 12) != 1:
        raise _corrupt(SNAPPY, f"framing of version {load_be32(start + 12)}", 12)

    cdef list parts = []
    at = SNAPPY_HEADER_BYTES
    while at < size:
        if size - at < 4:
            raise _corrupt(SNAPPY, _FINDINGS[SHORT], size)
        block = load_be32(start + at)
        at += 4
        if block > size - at:
            raise _corrupt(SNAPPY, f"a block of {block} bytes with {size - at} left", at - 4)
        total += _snappy_claim(start, at, block, total, limit)
        parts.append(_snappy_block(PyBytes_FromStringAndSize(<const char *>start + at, block)))
        at += block
    return parts[0] if len(parts) == 1 else b"".join(parts)


# --- frames of lz4 and zstd --------------------------------------------------------------------

cdef bytes _frames_decompress(
        int codec, object data, const uint8_t *start, Py_ssize_t size, int64_t limit):
    """Decompress every frame of the records; nearly always there is one, and `data` is passed on as it is."""
    cdef Frame frame
    cdef int64_t at = 0, left = limit
    cdef int status
    cdef list parts = []
    cdef bytes part
    if size == 0:
        raise _corrupt(codec, _FINDINGS[NO_MAGIC], 0)
    while at < size:
        if codec == LZ4:
            status = measure_lz4(start + at, size - at, &frame)
        else:
            status = measure_zstd(start + at, size - at, &frame)
        if at > 0 and (status == NO_MAGIC or status < 0 and size - at < 4):
            raise _behind(codec, at, size)
        if status < 0:
            raise _corrupt(codec, _FINDINGS[status], at + frame.size)
        if frame.announced != UNKNOWN and frame.announced > frame.bound:
            # Before the limit is checked: a claim that its own blocks cannot fill is damage.
            raise _corrupt(
                codec, f"{frame.announced} bytes announced by blocks of at most {frame.bound}", at)
        if frame.announced > left:
            raise _too_large(codec, limit, limit - left + frame.announced)
        whole = data
        if frame.size != size:
            whole = PyBytes_FromStringAndSize(<const char *>start + at, frame.size)
        if frame.bound == 0:
            part = b""
        elif codec == LZ4:
            part = _lz4_frame(whole, &frame, left, limit)
        else:
            part = _zstd_frame(whole, &frame, left, limit)
        left -= PyBytes_GET_SIZE(part)
        at += frame.size
        if frame.size == size:
            return part
        parts.append(part)
    return b"".join(parts)


cdef list _lz4_contexts = []


cdef bytes _lz4_compress(object data, int level):
    # Independent blocks, which every Kafka client can read; no checksum, since the batch has its own.
    return _package(LZ4).compress(
        data, compression_level=0 if level == LZ4_KAFKA_LEVEL else level,
        block_size=LZ4_BLOCK_SIZE_ID, block_linked=False, store_size=False)


cdef bytes _lz4_frame(object whole, Frame *frame, int64_t left, int64_t limit):
    cdef int64_t most = min(left, frame.bound if frame.announced == UNKNOWN else frame.announced)
    cdef bytes part
    lz4 = _package(LZ4)
    context = _lz4_contexts.pop() if _lz4_contexts else lz4.create_decompression_context()
    try:
        # One more than can come, so that a full destination always means too much.
        part, _, ended = lz4.decompress_chunk(
            context, whole, max_length=min(most, <int64_t>PY_SSIZE_T_MAX - 1) + 1)
    except RuntimeError as error:
        raise _corrupt(LZ4, str(error)) from error
    if PyBytes_GET_SIZE(part) > left:
        raise _too_large(LZ4, limit)
    if not ended:
        raise _corrupt(LZ4, "a frame that does not end with its last block")
    if frame.window_bytes <= KEPT_WINDOW_BYTES and len(_lz4_contexts) < KEPT_CONTEXTS:
        lz4.reset_decompression_context(context)
        _lz4_contexts.append(context)
    return part


cdef dict _zstd_compressors = {}        # by level
cdef list _zstd_decompressors = []


cdef bytes _zstd_compress(object data, int level):
    cdef list kept = <list>_zstd_compressors.get(level)
    # An invalid level raises here, before the table grows by it.
    compressor = kept.pop() if kept else _package(ZSTD).ZstdCompressor(level=level or ZSTD_KAFKA_LEVEL)
    cdef bytes compressed = compressor.compress(data)
    kept = <list>_zstd_compressors.setdefault(level, [])
    if len(kept) < KEPT_CONTEXTS:
        kept.append(compressor)
    return compressed


cdef bytes _zstd_frame(object whole, Frame *frame, int64_t left, int64_t limit):
    cdef bytes part
    zstandard = _package(ZSTD)
    decompressor = _zstd_decompressors.pop() if _zstd_decompressors else zstandard.ZstdDecompressor()
    try:
        if frame.announced == UNKNOWN and frame.bound > left:
            part = _zstd_streamed(decompressor, whole, left, limit)
        else:
            part = decompressor.decompress(whole, max_output_size=frame.bound)
    except zstandard.ZstdError as error:
        raise _corrupt(ZSTD, str(error)) from error
    if frame.window_bytes <= KEPT_WINDOW_BYTES and len(_zstd_decompressors) < KEPT_CONTEXTS:
        _zstd_decompressors.append(decompressor)
    return part


cdef bytes _zstd_streamed(object decompressor, object whole, int64_t left, int64_t limit):
    """Decompress, block by block, a frame of unknown size that may hold too much."""
    cdef list parts = []
    cdef bytes part
    with decompressor.stream_reader(whole, read_across_frames=False) as reader:
        while True:
            part = reader.read(ZSTD_BLOCK_BYTES)
            if not part:
                return b"".join(parts)
            if PyBytes_GET_SIZE(part) > left:
                raise _too_large(ZSTD, limit)
            left -= PyBytes_GET_SIZE(part)
            parts.append(part)


# --- edges -------------------------------------------------------------------------------------

cdef object _unknown(int codec):
    return UnsupportedCodecError(f"codec {codec} is unknown, expected 0 to {ZSTD}")


cpdef bytes compress(int codec, object data, int level=0):
    """Compress ``data`` as the records of one batch.

    ``codec`` is a `logstore.records.Codec`; ``NONE`` returns the bytes as they are. ``data`` is
    bytes or any contiguous buffer. ``level`` is the codec's own scale, as in
    Kafka: gzip 1 to 9, lz4 1 to 17 with 9 for the fast mode, zstd -131072 to 22; 0 is the
    default, snappy has none. Other threads can run meanwhile.

    Raises:
        UnsupportedCodecError: the number is not a codec's, or its package is not installed.
        ValueError: there is no such level.
        TypeError, BufferError: ``data`` offers no buffer, or one that is not contiguous.

    >>> decompress(1, compress(1, b"to be or not to be"), limit=100)
    b'to be or not to be'
    """
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if codec == LZ4:
            return _lz4_compress(data, level)
        if codec == ZSTD:
            return _zstd_compress(data, level)
        if codec == SNAPPY:
            return _snappy_compress(data, <const uint8_t *>view.buf, view.len)
        if codec == GZIP:
            return _gzip_compress(data, level)
        if codec == NONE:
            return bytes(data)
        raise _unknown(codec)
    finally:
        PyBuffer_Release(&view)


cpdef bytes decompress(int codec, object data, int64_t limit):
    """Decompress the output of `compress`, or of any other Kafka client; at most ``limit`` bytes.

    ``codec`` is a `logstore.records.Codec`; ``NONE`` returns the bytes as they are. ``limit`` is
    at least 0. Content never takes more memory than that, whatever size the data announces, except
    for one block and the second copy that joining parts takes. Other threads can run meanwhile.

    Several gzip members, and several lz4 or zstd frames, are concatenated.

    Raises:
        CorruptRecordError: the data is truncated, damaged, or has bytes after its end.
        RecordTooLargeError: there are more than ``limit`` bytes.
        UnsupportedCodecError: the number is not a codec's, or its package is not installed.
        ValueError: ``limit`` is negative.
        TypeError, BufferError: ``data`` offers no buffer, or one that is not contiguous.

    >>> decompress(1, compress(1, bytes(1000)), limit=999)
    Traceback (most recent call last):
    ...
    logstore.errors.RecordTooLargeError: gzip: expected at most 999 bytes decompressed, found more
    """
    cdef Py_buffer view
    if limit < 0:
        raise ValueError(f"expected a limit of at least 0 bytes, found {limit}")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if codec == LZ4 or codec == ZSTD:
            _package(codec)
            return _frames_decompress(codec, data, <const uint8_t *>view.buf, view.len, limit)
        if codec == SNAPPY:
            return _snappy_decompress(data, <const uint8_t *>view.buf, view.len, limit)
        if codec == GZIP:
            return _gzip_decompress(data, view.len, limit)
        if codec == NONE:
            if view.len > limit:
                raise _too_large(NONE, limit, view.len)
            return bytes(data)
        raise _unknown(codec)
    finally:
        PyBuffer_Release(&view)
