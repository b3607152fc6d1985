# cython: language_level=3
"""Fields of fetch requests and answers that take no message object.

Kafka protocol guide, "Fetch Request" and "Fetch Response". A function that returns False has found what a decoder
has to look at. No state; used by the loop's thread.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT16_MAX, int32_t, int64_t, uint8_t

from logstore.batch._bytes cimport store32
from logstore.broker._wire cimport length_in, put_end, put_length, put_raw
from logstore.io._file_region cimport FileRegion
from logstore.log._partition_log cimport Moment
from logstore.protocol._reading cimport Reader, integer
from logstore.protocol._writing cimport Writer, plain_number

cdef enum:
    FIRST_VERSION = 4
    LOG_STARTS = 5                # version from which on answers have log start offsets
    SESSIONS = 7
    LEADER_EPOCHS = 9
    RACKS = 11
    FLEXIBLE = 12
    TOPIC_IDS = 13                # version from which on topics are named by their ids
    NO_REPLICA = 15               # version from which on the replica is a tagged field
    LAST_VERSION = 18
    UUID_BYTES = 16
    COMMITTED = 1                 # isolation level


cdef struct Head:                     # of a request
    int version
    int32_t correlation_id
    int64_t wait_ms
    Py_ssize_t wait_at                # where it stands in the frame
    int64_t min_bytes
    int64_t most                      # bytes of the answer
    bint committed
    bint flexible
    bint is_id                        # topics are named by their ids


cdef struct AskedFields:              # of a partition in a request
    int32_t partition
    int64_t epoch                     # that the client believes in; -1: any
    int64_t offset
    int64_t last_epoch                # of the batch that the client has read last; -1: unknown
    int64_t max_bytes


cdef inline bint is_ascii(Reader r, int64_t least) except -1:
    """Step over a text of at least so many bytes, -1 for null; False if its decoder has to look at it."""
    cdef int64_t size = length_in(r, "text", 2), n
    if size < least or size > INT16_MAX:
        return False
    for n in range(size):
        if r.p[n] >= 0x80:
            return False
    r.p += max(size, <int64_t>0)
    return True


cdef inline bint ends(Reader r) noexcept:
    """Step over the end of a struct; False if it has tagged fields, or does not end."""
    if r.flexible:
        if r.p == r.end or r.p[0]:
            return False
        r.p += 1
    return True


cdef inline bint begins(Reader r, Head *head, int64_t most_bytes) except -1:
    """Read what stands before the session; False if the request is not usual."""
    head.version = r.version = <int>integer(r, "version", 2)
    if not FIRST_VERSION <= head.version <= LAST_VERSION:
        return False
    head.flexible, head.is_id = head.version >= FLEXIBLE, head.version >= TOPIC_IDS
    head.correlation_id = <int32_t>integer(r, "correlation id", 4)
    if not is_ascii(r, -1):
        return False
    r.flexible = head.flexible
    if not ends(r):
        return False
    if head.version < NO_REPLICA:
        if integer(r, "replica", 4) >= 0:
            return False  # a broker that would copy
    head.wait_at = r.p - r.start
    head.wait_ms, head.min_bytes = integer(r, "max wait", 4), integer(r, "min bytes", 4)
    head.most = integer(r, "max bytes", 4)
    head.most = min(head.most, most_bytes) if head.most > 0 else most_bytes
    head.committed = integer(r, "isolation level", 1) == COMMITTED
    return True


cdef inline bint read_partition(Reader r, AskedFields *asked) except -1:
    """Read what a request asks of a partition; False if it has tagged fields."""
    asked.partition = <int32_t>integer(r, "partition", 4)
    asked.epoch = integer(r, "leader epoch", 4) if r.version >= LEADER_EPOCHS else -1
    asked.offset = integer(r, "offset", 8)
    asked.last_epoch = integer(r, "last epoch", 4) if r.version >= FLEXIBLE else -1
    if r.version >= LOG_STARTS:
        integer(r, "log start offset", 8)
    asked.max_bytes = integer(r, "max bytes", 4)
    return ends(r)


cdef inline bint ends_with_rack(Reader r) except -1:
    """Step over what stands behind the topics; False if a decoder has to look at it."""
    if r.version >= RACKS and not is_ascii(r, 0):
        return False
    return ends(r)


cdef inline bint is_held_back(FileRegion region, int64_t left, int64_t offset, const Moment *moment) noexcept:
    """Return whether a first batch does not fit: as from Kafka, there is no list of transactions then."""
    return region is None and left > 0 and offset < moment.last_stable


cdef inline Writer answer_of(const Head *head, int64_t session_id):
    """Begin an answer."""
    cdef Writer w = Writer(head.version, head.flexible)
    plain_number(w, 0, 4)  # the frame's size, set at its end
    plain_number(w, head.correlation_id, 4)
    put_end(w)  # of the header
    plain_number(w, 0, 4)  # throttle time
    if head.version >= SESSIONS:
        plain_number(w, 0, 2)  # error of the request
        plain_number(w, session_id, 4)
    return w


cdef inline int put_topic(Writer w, bytes topic, int64_t partitions, bint is_id) except -1:
    cdef int64_t size = PyBytes_GET_SIZE(topic)
    if not is_id:
        put_length(w, size, 2)
    put_raw(w, <const uint8_t *>PyBytes_AS_STRING(topic), size)
    put_length(w, partitions, 4)
    return 0


cdef inline int put_partition(Writer w, int32_t partition, const Moment *moment, bint has_list,
                              FileRegion region) except -1:
    """Write what an answer says of a partition up to its records."""
    plain_number(w, partition, 4)
    plain_number(w, 0, 2)  # error
    plain_number(w, moment.high_watermark, 8)
    plain_number(w, moment.last_stable, 8)
    if w.version >= LOG_STARTS:
        plain_number(w, moment.log_start, 8)
    put_length(w, 0 if has_list else -1, 4)
    if w.version >= RACKS:
        plain_number(w, -1, 4)  # no preferred replica
    # "No records" is zero bytes: some clients cannot read null.
    put_length(w, 0 if region is None else region.size, 4)
    return 0


cdef inline int set_size(list pieces) except -1:
    """Write the size of a frame into its first piece, which has no other owner yet."""
    cdef int64_t size = -4
    for piece in pieces:
        size += (<FileRegion>piece).size if isinstance(piece, FileRegion) else PyBytes_GET_SIZE(<bytes>piece)
    store32(<uint8_t *>PyBytes_AS_STRING(<bytes>pieces[0]), <int32_t>size)
    return 0
