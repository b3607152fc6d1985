"""Kafka's messages as bytes and back: one function for each struct that reads it and one that writes it.

Written by codegen/generate.py from codegen/messages.txt; change those. `message` and `frames` are what
calls this. `bind` must have given it the classes of `messages` before.

A field is read and set where it lies in the object: `bind` has looked up the places of the slots of each class, and
an object's class is compared before. By way of attributes the same work takes two to three times as long.
"""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_TYPE
from libc.stdint cimport int64_t, uint8_t

from logstore.protocol._reading cimport (
    ReadStruct,
    Reader,
    enter_tag,
    integer,
    leave_tag,
    malformed,
    plain_old_string,
    put,
    read_bool,
    read_bytes,
    read_float64,
    read_number,
    read_numbers,
    read_records,
    read_string,
    read_strings,
    read_struct,
    read_structs,
    read_uuid,
    skip_tags,
    tag_count,
)
from logstore.protocol._writing cimport (
    WriteStruct,
    Writer,
    begin_tag,
    differs,
    end_tag,
    got,
    misplaced,
    plain_number,
    plain_old_text,
    refuse,
    write_bool,
    write_bytes,
    write_float64,
    write_number,
    write_numbers,
    write_string,
    write_strings,
    write_struct,
    write_structs,
    write_uuid,
)

from logstore.errors import UnsupportedVersionError

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)
    bint PyType_IsSubtype(PyTypeObject *a, PyTypeObject *b)

cdef struct Known:
    ReadStruct read
    WriteStruct write
    int key
    int first
    int last
    int flexible

cdef enum:
    CLASSES = 268
    FIELDS = 894
    MESSAGES = 106

cdef PyTypeObject *CLASS[CLASSES]
cdef Py_ssize_t OFFSET[FIELDS]
cdef Known KNOWN[MESSAGES]
cdef tuple NAMES = ()


cdef inline PyObject **at(object v, int field) noexcept:
    """Where a field of an object of its class is."""
    return <PyObject **>(<char *>(<PyObject *>v) + OFFSET[field])


cdef inline bint is_a(object v, int number) noexcept:
    return Py_TYPE(v) == CLASS[number] or PyType_IsSubtype(Py_TYPE(v), CLASS[number])


cdef void know(int n, ReadStruct read, WriteStruct write, int key, int first, int last, int flexible) noexcept:
    KNOWN[n].read = read
    KNOWN[n].write = write
    KNOWN[n].key = key
    KNOWN[n].first = first
    KNOWN[n].last = last
    KNOWN[n].flexible = flexible


cdef object read_PartitionProduceData(Reader r):
    v = PyType_GenericAlloc(CLASS[0], 0)
    read_number(r, at(v, 0), "index", 4, True)
    read_records(r, at(v, 1), "records", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_PartitionProduceData(Writer w, object v) except -1:
    if not is_a(v, 0):
        misplaced(v, <type>CLASS[0])
    write_number(w, at(v, 0), "index", 4, True)
    write_bytes(w, at(v, 1), "records", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TopicProduceData(Reader r):
    v = PyType_GenericAlloc(CLASS[1], 0)
    if r.version <= 12:
        read_string(r, at(v, 2), "name", False)
    else:
        put(at(v, 2), "")
    if r.version >= 13:
        read_uuid(r, at(v, 3), "topic_id")
    else:
        put(at(v, 3), "")
    read_structs(r, at(v, 4), "partition_data", False, read_PartitionProduceData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TopicProduceData(Writer w, object v) except -1:
    if not is_a(v, 1):
        misplaced(v, <type>CLASS[1])
    if w.version <= 12:
        write_string(w, at(v, 2), "name", False)
    if w.version >= 13:
        write_uuid(w, at(v, 3), "topic_id")
    write_structs(w, at(v, 4), "partition_data", False, write_PartitionProduceData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProduceRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[2], 0)
    read_string(r, at(v, 5), "transactional_id", True)
    read_number(r, at(v, 6), "acks", 2, True)
    read_number(r, at(v, 7), "timeout_ms", 4, True)
    read_structs(r, at(v, 8), "topic_data", False, read_TopicProduceData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProduceRequest(Writer w, object v) except -1:
    if not is_a(v, 2):
        misplaced(v, <type>CLASS[2])
    write_string(w, at(v, 5), "transactional_id", True)
    write_number(w, at(v, 6), "acks", 2, True)
    write_number(w, at(v, 7), "timeout_ms", 4, True)
    write_structs(w, at(v, 8), "topic_data", False, write_TopicProduceData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_BatchIndexAndErrorMessage(Reader r):
    v = PyType_GenericAlloc(CLASS[3], 0)
    if r.version >= 8:
        read_number(r, at(v, 9), "batch_index", 4, True)
    else:
        put(at(v, 9), 0)
    if r.version >= 8:
        read_string(r, at(v, 10), "batch_index_error_message", r.version >= 8)
    else:
        put(at(v, 10), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_BatchIndexAndErrorMessage(Writer w, object v) except -1:
    if not is_a(v, 3):
        misplaced(v, <type>CLASS[3])
    if w.version >= 8:
        write_number(w, at(v, 9), "batch_index", 4, True)
    elif differs(at(v, 9), "batch_index", 0):
        refuse(w, v, "batch_index")
    if w.version >= 8:
        write_string(w, at(v, 10), "batch_index_error_message", w.version >= 8)
    elif differs(at(v, 10), "batch_index_error_message", None):
        refuse(w, v, "batch_index_error_message")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object fresh_ProduceResponse_LeaderIdAndEpoch():
    v = PyType_GenericAlloc(CLASS[4], 0)
    put(at(v, 11), -1)
    put(at(v, 12), -1)
    return v


cdef bint differ_ProduceResponse_LeaderIdAndEpoch(object v) except -1:
    if not is_a(v, 4):
        return True
    return differs(at(v, 11), "leader_id", -1) or differs(at(v, 12), "leader_epoch", -1)


cdef object read_ProduceResponse_LeaderIdAndEpoch(Reader r):
    v = PyType_GenericAlloc(CLASS[4], 0)
    if r.version >= 10:
        read_number(r, at(v, 11), "leader_id", 4, True)
    else:
        put(at(v, 11), -1)
    if r.version >= 10:
        read_number(r, at(v, 12), "leader_epoch", 4, True)
    else:
        put(at(v, 12), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProduceResponse_LeaderIdAndEpoch(Writer w, object v) except -1:
    if not is_a(v, 4):
        misplaced(v, <type>CLASS[4])
    if w.version >= 10:
        write_number(w, at(v, 11), "leader_id", 4, True)
    elif differs(at(v, 11), "leader_id", -1):
        refuse(w, v, "leader_id")
    if w.version >= 10:
        write_number(w, at(v, 12), "leader_epoch", 4, True)
    elif differs(at(v, 12), "leader_epoch", -1):
        refuse(w, v, "leader_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionProduceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[5], 0)
    read_number(r, at(v, 13), "index", 4, True)
    read_number(r, at(v, 14), "error_code", 2, True)
    read_number(r, at(v, 15), "base_offset", 8, True)
    read_number(r, at(v, 16), "log_append_time_ms", 8, True)
    if r.version >= 5:
        read_number(r, at(v, 17), "log_start_offset", 8, True)
    else:
        put(at(v, 17), -1)
    if r.version >= 8:
        read_structs(r, at(v, 18), "record_errors", False, read_BatchIndexAndErrorMessage)
    else:
        put(at(v, 18), [])
    if r.version >= 8:
        read_string(r, at(v, 19), "error_message", r.version >= 8)
    else:
        put(at(v, 19), None)
    put(at(v, 20), fresh_ProduceResponse_LeaderIdAndEpoch())
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 10:
                read_struct(r, at(v, 20), "current_leader", False, read_ProduceResponse_LeaderIdAndEpoch)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_PartitionProduceResponse(Writer w, object v) except -1:
    if not is_a(v, 5):
        misplaced(v, <type>CLASS[5])
    write_number(w, at(v, 13), "index", 4, True)
    write_number(w, at(v, 14), "error_code", 2, True)
    write_number(w, at(v, 15), "base_offset", 8, True)
    write_number(w, at(v, 16), "log_append_time_ms", 8, True)
    if w.version >= 5:
        write_number(w, at(v, 17), "log_start_offset", 8, True)
    if w.version >= 8:
        write_structs(w, at(v, 18), "record_errors", False, write_BatchIndexAndErrorMessage)
    if w.version >= 8:
        write_string(w, at(v, 19), "error_message", w.version >= 8)
    if not (w.version >= 10):
        if differ_ProduceResponse_LeaderIdAndEpoch(got(at(v, 20), "current_leader")):
            refuse(w, v, "current_leader")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 10 and differ_ProduceResponse_LeaderIdAndEpoch(got(at(v, 20), "current_leader")):
            place = begin_tag(w, 0)
            write_struct(w, at(v, 20), "current_leader", False, write_ProduceResponse_LeaderIdAndEpoch)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_TopicProduceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[6], 0)
    if r.version <= 12:
        read_string(r, at(v, 21), "name", False)
    else:
        put(at(v, 21), "")
    if r.version >= 13:
        read_uuid(r, at(v, 22), "topic_id")
    else:
        put(at(v, 22), "")
    read_structs(r, at(v, 23), "partition_responses", False, read_PartitionProduceResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TopicProduceResponse(Writer w, object v) except -1:
    if not is_a(v, 6):
        misplaced(v, <type>CLASS[6])
    if w.version <= 12:
        write_string(w, at(v, 21), "name", False)
    if w.version >= 13:
        write_uuid(w, at(v, 22), "topic_id")
    write_structs(w, at(v, 23), "partition_responses", False, write_PartitionProduceResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProduceResponse_NodeEndpoint(Reader r):
    v = PyType_GenericAlloc(CLASS[7], 0)
    if r.version >= 10:
        read_number(r, at(v, 24), "node_id", 4, True)
    else:
        put(at(v, 24), 0)
    if r.version >= 10:
        read_string(r, at(v, 25), "host", False)
    else:
        put(at(v, 25), "")
    if r.version >= 10:
        read_number(r, at(v, 26), "port", 4, True)
    else:
        put(at(v, 26), 0)
    if r.version >= 10:
        read_string(r, at(v, 27), "rack", r.version >= 10)
    else:
        put(at(v, 27), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProduceResponse_NodeEndpoint(Writer w, object v) except -1:
    if not is_a(v, 7):
        misplaced(v, <type>CLASS[7])
    if w.version >= 10:
        write_number(w, at(v, 24), "node_id", 4, True)
    elif differs(at(v, 24), "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 10:
        write_string(w, at(v, 25), "host", False)
    elif differs(at(v, 25), "host", ""):
        refuse(w, v, "host")
    if w.version >= 10:
        write_number(w, at(v, 26), "port", 4, True)
    elif differs(at(v, 26), "port", 0):
        refuse(w, v, "port")
    if w.version >= 10:
        write_string(w, at(v, 27), "rack", w.version >= 10)
    elif differs(at(v, 27), "rack", None):
        refuse(w, v, "rack")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProduceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[8], 0)
    read_structs(r, at(v, 28), "responses", False, read_TopicProduceResponse)
    read_number(r, at(v, 29), "throttle_time_ms", 4, True)
    put(at(v, 30), [])
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 10:
                read_structs(r, at(v, 30), "node_endpoints", False, read_ProduceResponse_NodeEndpoint)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_ProduceResponse(Writer w, object v) except -1:
    if not is_a(v, 8):
        misplaced(v, <type>CLASS[8])
    write_structs(w, at(v, 28), "responses", False, write_TopicProduceResponse)
    write_number(w, at(v, 29), "throttle_time_ms", 4, True)
    if not (w.version >= 10):
        if differs(at(v, 30), "node_endpoints", ()):
            refuse(w, v, "node_endpoints")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 10 and differs(at(v, 30), "node_endpoints", ()):
            place = begin_tag(w, 0)
            write_structs(w, at(v, 30), "node_endpoints", False, write_ProduceResponse_NodeEndpoint)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object fresh_FetchRequest_ReplicaState():
    v = PyType_GenericAlloc(CLASS[9], 0)
    put(at(v, 31), -1)
    put(at(v, 32), -1)
    return v


cdef bint differ_FetchRequest_ReplicaState(object v) except -1:
    if not is_a(v, 9):
        return True
    return differs(at(v, 31), "replica_id", -1) or differs(at(v, 32), "replica_epoch", -1)


cdef object read_FetchRequest_ReplicaState(Reader r):
    v = PyType_GenericAlloc(CLASS[9], 0)
    if r.version >= 15:
        read_number(r, at(v, 31), "replica_id", 4, True)
    else:
        put(at(v, 31), -1)
    if r.version >= 15:
        read_number(r, at(v, 32), "replica_epoch", 8, True)
    else:
        put(at(v, 32), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchRequest_ReplicaState(Writer w, object v) except -1:
    if not is_a(v, 9):
        misplaced(v, <type>CLASS[9])
    if w.version >= 15:
        write_number(w, at(v, 31), "replica_id", 4, True)
    elif differs(at(v, 31), "replica_id", -1):
        refuse(w, v, "replica_id")
    if w.version >= 15:
        write_number(w, at(v, 32), "replica_epoch", 8, True)
    elif differs(at(v, 32), "replica_epoch", -1):
        refuse(w, v, "replica_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[10], 0)
    read_number(r, at(v, 33), "partition", 4, True)
    if r.version >= 9:
        read_number(r, at(v, 34), "current_leader_epoch", 4, True)
    else:
        put(at(v, 34), -1)
    read_number(r, at(v, 35), "fetch_offset", 8, True)
    if r.version >= 12:
        read_number(r, at(v, 36), "last_fetched_epoch", 4, True)
    else:
        put(at(v, 36), -1)
    if r.version >= 5:
        read_number(r, at(v, 37), "log_start_offset", 8, True)
    else:
        put(at(v, 37), -1)
    read_number(r, at(v, 38), "partition_max_bytes", 4, True)
    put(at(v, 39), "")
    put(at(v, 40), 9223372036854775807)
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 17:
                read_uuid(r, at(v, 39), "replica_directory_id")
            elif tag == 1 and r.version >= 18:
                read_number(r, at(v, 40), "high_watermark", 8, True)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchPartition(Writer w, object v) except -1:
    if not is_a(v, 10):
        misplaced(v, <type>CLASS[10])
    write_number(w, at(v, 33), "partition", 4, True)
    if w.version >= 9:
        write_number(w, at(v, 34), "current_leader_epoch", 4, True)
    write_number(w, at(v, 35), "fetch_offset", 8, True)
    if w.version >= 12:
        write_number(w, at(v, 36), "last_fetched_epoch", 4, True)
    elif differs(at(v, 36), "last_fetched_epoch", -1):
        refuse(w, v, "last_fetched_epoch")
    if w.version >= 5:
        write_number(w, at(v, 37), "log_start_offset", 8, True)
    write_number(w, at(v, 38), "partition_max_bytes", 4, True)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 17 and differs(at(v, 39), "replica_directory_id", ""):
            place = begin_tag(w, 0)
            write_uuid(w, at(v, 39), "replica_directory_id")
            end_tag(w, place)
            count += 1
        if w.version >= 18 and differs(at(v, 40), "high_watermark", 9223372036854775807):
            place = begin_tag(w, 1)
            write_number(w, at(v, 40), "high_watermark", 8, True)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_FetchTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[11], 0)
    if r.version <= 12:
        read_string(r, at(v, 41), "topic", False)
    else:
        put(at(v, 41), "")
    if r.version >= 13:
        read_uuid(r, at(v, 42), "topic_id")
    else:
        put(at(v, 42), "")
    read_structs(r, at(v, 43), "partitions", False, read_FetchPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchTopic(Writer w, object v) except -1:
    if not is_a(v, 11):
        misplaced(v, <type>CLASS[11])
    if w.version <= 12:
        write_string(w, at(v, 41), "topic", False)
    if w.version >= 13:
        write_uuid(w, at(v, 42), "topic_id")
    write_structs(w, at(v, 43), "partitions", False, write_FetchPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ForgottenTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[12], 0)
    if r.version >= 7 and r.version <= 12:
        read_string(r, at(v, 44), "topic", False)
    else:
        put(at(v, 44), "")
    if r.version >= 13:
        read_uuid(r, at(v, 45), "topic_id")
    else:
        put(at(v, 45), "")
    if r.version >= 7:
        read_numbers(r, at(v, 46), "partitions", False, 4)
    else:
        put(at(v, 46), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ForgottenTopic(Writer w, object v) except -1:
    if not is_a(v, 12):
        misplaced(v, <type>CLASS[12])
    if w.version >= 7 and w.version <= 12:
        write_string(w, at(v, 44), "topic", False)
    if w.version >= 13:
        write_uuid(w, at(v, 45), "topic_id")
    if w.version >= 7:
        write_numbers(w, at(v, 46), "partitions", False, 4)
    elif differs(at(v, 46), "partitions", ()):
        refuse(w, v, "partitions")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[13], 0)
    put(at(v, 47), None)
    if r.version <= 14:
        read_number(r, at(v, 48), "replica_id", 4, True)
    else:
        put(at(v, 48), -1)
    put(at(v, 49), fresh_FetchRequest_ReplicaState())
    read_number(r, at(v, 50), "max_wait_ms", 4, True)
    read_number(r, at(v, 51), "min_bytes", 4, True)
    read_number(r, at(v, 52), "max_bytes", 4, True)
    read_number(r, at(v, 53), "isolation_level", 1, True)
    if r.version >= 7:
        read_number(r, at(v, 54), "session_id", 4, True)
    else:
        put(at(v, 54), 0)
    if r.version >= 7:
        read_number(r, at(v, 55), "session_epoch", 4, True)
    else:
        put(at(v, 55), -1)
    read_structs(r, at(v, 56), "topics", False, read_FetchTopic)
    if r.version >= 7:
        read_structs(r, at(v, 57), "forgotten_topics_data", False, read_ForgottenTopic)
    else:
        put(at(v, 57), [])
    if r.version >= 11:
        read_string(r, at(v, 58), "rack_id", False)
    else:
        put(at(v, 58), "")
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 12:
                read_string(r, at(v, 47), "cluster_id", r.version >= 12)
            elif tag == 1 and r.version >= 15:
                read_struct(r, at(v, 49), "replica_state", False, read_FetchRequest_ReplicaState)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchRequest(Writer w, object v) except -1:
    if not is_a(v, 13):
        misplaced(v, <type>CLASS[13])
    if w.version <= 14:
        write_number(w, at(v, 48), "replica_id", 4, True)
    elif differs(at(v, 48), "replica_id", -1):
        refuse(w, v, "replica_id")
    if not (w.version >= 15):
        if differ_FetchRequest_ReplicaState(got(at(v, 49), "replica_state")):
            refuse(w, v, "replica_state")
    write_number(w, at(v, 50), "max_wait_ms", 4, True)
    write_number(w, at(v, 51), "min_bytes", 4, True)
    write_number(w, at(v, 52), "max_bytes", 4, True)
    write_number(w, at(v, 53), "isolation_level", 1, True)
    if w.version >= 7:
        write_number(w, at(v, 54), "session_id", 4, True)
    if w.version >= 7:
        write_number(w, at(v, 55), "session_epoch", 4, True)
    write_structs(w, at(v, 56), "topics", False, write_FetchTopic)
    if w.version >= 7:
        write_structs(w, at(v, 57), "forgotten_topics_data", False, write_ForgottenTopic)
    elif differs(at(v, 57), "forgotten_topics_data", ()):
        refuse(w, v, "forgotten_topics_data")
    if w.version >= 11:
        write_string(w, at(v, 58), "rack_id", False)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 12 and differs(at(v, 47), "cluster_id", None):
            place = begin_tag(w, 0)
            write_string(w, at(v, 47), "cluster_id", w.version >= 12)
            end_tag(w, place)
            count += 1
        if w.version >= 15 and differ_FetchRequest_ReplicaState(got(at(v, 49), "replica_state")):
            place = begin_tag(w, 1)
            write_struct(w, at(v, 49), "replica_state", False, write_FetchRequest_ReplicaState)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object fresh_FetchResponse_EpochEndOffset():
    v = PyType_GenericAlloc(CLASS[14], 0)
    put(at(v, 59), -1)
    put(at(v, 60), -1)
    return v


cdef bint differ_FetchResponse_EpochEndOffset(object v) except -1:
    if not is_a(v, 14):
        return True
    return differs(at(v, 59), "epoch", -1) or differs(at(v, 60), "end_offset", -1)


cdef object read_FetchResponse_EpochEndOffset(Reader r):
    v = PyType_GenericAlloc(CLASS[14], 0)
    if r.version >= 12:
        read_number(r, at(v, 59), "epoch", 4, True)
    else:
        put(at(v, 59), -1)
    if r.version >= 12:
        read_number(r, at(v, 60), "end_offset", 8, True)
    else:
        put(at(v, 60), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchResponse_EpochEndOffset(Writer w, object v) except -1:
    if not is_a(v, 14):
        misplaced(v, <type>CLASS[14])
    if w.version >= 12:
        write_number(w, at(v, 59), "epoch", 4, True)
    elif differs(at(v, 59), "epoch", -1):
        refuse(w, v, "epoch")
    if w.version >= 12:
        write_number(w, at(v, 60), "end_offset", 8, True)
    elif differs(at(v, 60), "end_offset", -1):
        refuse(w, v, "end_offset")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object fresh_FetchResponse_LeaderIdAndEpoch():
    v = PyType_GenericAlloc(CLASS[15], 0)
    put(at(v, 61), -1)
    put(at(v, 62), -1)
    return v


cdef bint differ_FetchResponse_LeaderIdAndEpoch(object v) except -1:
    if not is_a(v, 15):
        return True
    return differs(at(v, 61), "leader_id", -1) or differs(at(v, 62), "leader_epoch", -1)


cdef object read_FetchResponse_LeaderIdAndEpoch(Reader r):
    v = PyType_GenericAlloc(CLASS[15], 0)
    if r.version >= 12:
        read_number(r, at(v, 61), "leader_id", 4, True)
    else:
        put(at(v, 61), -1)
    if r.version >= 12:
        read_number(r, at(v, 62), "leader_epoch", 4, True)
    else:
        put(at(v, 62), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchResponse_LeaderIdAndEpoch(Writer w, object v) except -1:
    if not is_a(v, 15):
        misplaced(v, <type>CLASS[15])
    if w.version >= 12:
        write_number(w, at(v, 61), "leader_id", 4, True)
    elif differs(at(v, 61), "leader_id", -1):
        refuse(w, v, "leader_id")
    if w.version >= 12:
        write_number(w, at(v, 62), "leader_epoch", 4, True)
    elif differs(at(v, 62), "leader_epoch", -1):
        refuse(w, v, "leader_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object fresh_SnapshotId():
    v = PyType_GenericAlloc(CLASS[16], 0)
    put(at(v, 63), -1)
    put(at(v, 64), -1)
    return v


cdef bint differ_SnapshotId(object v) except -1:
    if not is_a(v, 16):
        return True
    return differs(at(v, 63), "end_offset", -1) or differs(at(v, 64), "epoch", -1)


cdef object read_SnapshotId(Reader r):
    v = PyType_GenericAlloc(CLASS[16], 0)
    read_number(r, at(v, 63), "end_offset", 8, True)
    read_number(r, at(v, 64), "epoch", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SnapshotId(Writer w, object v) except -1:
    if not is_a(v, 16):
        misplaced(v, <type>CLASS[16])
    write_number(w, at(v, 63), "end_offset", 8, True)
    write_number(w, at(v, 64), "epoch", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AbortedTransaction(Reader r):
    v = PyType_GenericAlloc(CLASS[17], 0)
    read_number(r, at(v, 65), "producer_id", 8, True)
    read_number(r, at(v, 66), "first_offset", 8, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AbortedTransaction(Writer w, object v) except -1:
    if not is_a(v, 17):
        misplaced(v, <type>CLASS[17])
    write_number(w, at(v, 65), "producer_id", 8, True)
    write_number(w, at(v, 66), "first_offset", 8, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchResponse_PartitionData(Reader r):
    v = PyType_GenericAlloc(CLASS[18], 0)
    read_number(r, at(v, 67), "partition_index", 4, True)
    read_number(r, at(v, 68), "error_code", 2, True)
    read_number(r, at(v, 69), "high_watermark", 8, True)
    read_number(r, at(v, 70), "last_stable_offset", 8, True)
    if r.version >= 5:
        read_number(r, at(v, 71), "log_start_offset", 8, True)
    else:
        put(at(v, 71), -1)
    put(at(v, 72), fresh_FetchResponse_EpochEndOffset())
    put(at(v, 73), fresh_FetchResponse_LeaderIdAndEpoch())
    put(at(v, 74), fresh_SnapshotId())
    read_structs(r, at(v, 75), "aborted_transactions", True, read_AbortedTransaction)
    if r.version >= 11:
        read_number(r, at(v, 76), "preferred_read_replica", 4, True)
    else:
        put(at(v, 76), -1)
    read_records(r, at(v, 77), "records", True)
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 12:
                read_struct(r, at(v, 72), "diverging_epoch", False, read_FetchResponse_EpochEndOffset)
            elif tag == 1 and r.version >= 12:
                read_struct(r, at(v, 73), "current_leader", False, read_FetchResponse_LeaderIdAndEpoch)
            elif tag == 2 and r.version >= 12:
                read_struct(r, at(v, 74), "snapshot_id", False, read_SnapshotId)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchResponse_PartitionData(Writer w, object v) except -1:
    if not is_a(v, 18):
        misplaced(v, <type>CLASS[18])
    write_number(w, at(v, 67), "partition_index", 4, True)
    write_number(w, at(v, 68), "error_code", 2, True)
    write_number(w, at(v, 69), "high_watermark", 8, True)
    write_number(w, at(v, 70), "last_stable_offset", 8, True)
    if w.version >= 5:
        write_number(w, at(v, 71), "log_start_offset", 8, True)
    if not (w.version >= 12):
        if differ_FetchResponse_EpochEndOffset(got(at(v, 72), "diverging_epoch")):
            refuse(w, v, "diverging_epoch")
    if not (w.version >= 12):
        if differ_FetchResponse_LeaderIdAndEpoch(got(at(v, 73), "current_leader")):
            refuse(w, v, "current_leader")
    if not (w.version >= 12):
        if differ_SnapshotId(got(at(v, 74), "snapshot_id")):
            refuse(w, v, "snapshot_id")
    write_structs(w, at(v, 75), "aborted_transactions", True, write_AbortedTransaction)
    if w.version >= 11:
        write_number(w, at(v, 76), "preferred_read_replica", 4, True)
    elif differs(at(v, 76), "preferred_read_replica", -1):
        refuse(w, v, "preferred_read_replica")
    write_bytes(w, at(v, 77), "records", True)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 12 and differ_FetchResponse_EpochEndOffset(got(at(v, 72), "diverging_epoch")):
            place = begin_tag(w, 0)
            write_struct(w, at(v, 72), "diverging_epoch", False, write_FetchResponse_EpochEndOffset)
            end_tag(w, place)
            count += 1
        if w.version >= 12 and differ_FetchResponse_LeaderIdAndEpoch(got(at(v, 73), "current_leader")):
            place = begin_tag(w, 1)
            write_struct(w, at(v, 73), "current_leader", False, write_FetchResponse_LeaderIdAndEpoch)
            end_tag(w, place)
            count += 1
        if w.version >= 12 and differ_SnapshotId(got(at(v, 74), "snapshot_id")):
            place = begin_tag(w, 2)
            write_struct(w, at(v, 74), "snapshot_id", False, write_SnapshotId)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_FetchableTopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[19], 0)
    if r.version <= 12:
        read_string(r, at(v, 78), "topic", False)
    else:
        put(at(v, 78), "")
    if r.version >= 13:
        read_uuid(r, at(v, 79), "topic_id")
    else:
        put(at(v, 79), "")
    read_structs(r, at(v, 80), "partitions", False, read_FetchResponse_PartitionData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchableTopicResponse(Writer w, object v) except -1:
    if not is_a(v, 19):
        misplaced(v, <type>CLASS[19])
    if w.version <= 12:
        write_string(w, at(v, 78), "topic", False)
    if w.version >= 13:
        write_uuid(w, at(v, 79), "topic_id")
    write_structs(w, at(v, 80), "partitions", False, write_FetchResponse_PartitionData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchResponse_NodeEndpoint(Reader r):
    v = PyType_GenericAlloc(CLASS[20], 0)
    if r.version >= 16:
        read_number(r, at(v, 81), "node_id", 4, True)
    else:
        put(at(v, 81), 0)
    if r.version >= 16:
        read_string(r, at(v, 82), "host", False)
    else:
        put(at(v, 82), "")
    if r.version >= 16:
        read_number(r, at(v, 83), "port", 4, True)
    else:
        put(at(v, 83), 0)
    if r.version >= 16:
        read_string(r, at(v, 84), "rack", r.version >= 16)
    else:
        put(at(v, 84), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchResponse_NodeEndpoint(Writer w, object v) except -1:
    if not is_a(v, 20):
        misplaced(v, <type>CLASS[20])
    if w.version >= 16:
        write_number(w, at(v, 81), "node_id", 4, True)
    elif differs(at(v, 81), "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 16:
        write_string(w, at(v, 82), "host", False)
    elif differs(at(v, 82), "host", ""):
        refuse(w, v, "host")
    if w.version >= 16:
        write_number(w, at(v, 83), "port", 4, True)
    elif differs(at(v, 83), "port", 0):
        refuse(w, v, "port")
    if w.version >= 16:
        write_string(w, at(v, 84), "rack", w.version >= 16)
    elif differs(at(v, 84), "rack", None):
        refuse(w, v, "rack")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[21], 0)
    read_number(r, at(v, 85), "throttle_time_ms", 4, True)
    if r.version >= 7:
        read_number(r, at(v, 86), "error_code", 2, True)
    else:
        put(at(v, 86), 0)
    if r.version >= 7:
        read_number(r, at(v, 87), "session_id", 4, True)
    else:
        put(at(v, 87), 0)
    read_structs(r, at(v, 88), "responses", False, read_FetchableTopicResponse)
    put(at(v, 89), [])
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 16:
                read_structs(r, at(v, 89), "node_endpoints", False, read_FetchResponse_NodeEndpoint)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchResponse(Writer w, object v) except -1:
    if not is_a(v, 21):
        misplaced(v, <type>CLASS[21])
    write_number(w, at(v, 85), "throttle_time_ms", 4, True)
    if w.version >= 7:
        write_number(w, at(v, 86), "error_code", 2, True)
    if w.version >= 7:
        write_number(w, at(v, 87), "session_id", 4, True)
    elif differs(at(v, 87), "session_id", 0):
        refuse(w, v, "session_id")
    write_structs(w, at(v, 88), "responses", False, write_FetchableTopicResponse)
    if not (w.version >= 16):
        if differs(at(v, 89), "node_endpoints", ()):
            refuse(w, v, "node_endpoints")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 16 and differs(at(v, 89), "node_endpoints", ()):
            place = begin_tag(w, 0)
            write_structs(w, at(v, 89), "node_endpoints", False, write_FetchResponse_NodeEndpoint)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_ListOffsetsPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[22], 0)
    read_number(r, at(v, 90), "partition_index", 4, True)
    if r.version >= 4:
        read_number(r, at(v, 91), "current_leader_epoch", 4, True)
    else:
        put(at(v, 91), -1)
    read_number(r, at(v, 92), "timestamp", 8, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsPartition(Writer w, object v) except -1:
    if not is_a(v, 22):
        misplaced(v, <type>CLASS[22])
    write_number(w, at(v, 90), "partition_index", 4, True)
    if w.version >= 4:
        write_number(w, at(v, 91), "current_leader_epoch", 4, True)
    write_number(w, at(v, 92), "timestamp", 8, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[23], 0)
    read_string(r, at(v, 93), "name", False)
    read_structs(r, at(v, 94), "partitions", False, read_ListOffsetsPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsTopic(Writer w, object v) except -1:
    if not is_a(v, 23):
        misplaced(v, <type>CLASS[23])
    write_string(w, at(v, 93), "name", False)
    write_structs(w, at(v, 94), "partitions", False, write_ListOffsetsPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[24], 0)
    read_number(r, at(v, 95), "replica_id", 4, True)
    if r.version >= 2:
        read_number(r, at(v, 96), "isolation_level", 1, True)
    else:
        put(at(v, 96), 0)
    read_structs(r, at(v, 97), "topics", False, read_ListOffsetsTopic)
    if r.version >= 10:
        read_number(r, at(v, 98), "timeout_ms", 4, True)
    else:
        put(at(v, 98), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsRequest(Writer w, object v) except -1:
    if not is_a(v, 24):
        misplaced(v, <type>CLASS[24])
    write_number(w, at(v, 95), "replica_id", 4, True)
    if w.version >= 2:
        write_number(w, at(v, 96), "isolation_level", 1, True)
    elif differs(at(v, 96), "isolation_level", 0):
        refuse(w, v, "isolation_level")
    write_structs(w, at(v, 97), "topics", False, write_ListOffsetsTopic)
    if w.version >= 10:
        write_number(w, at(v, 98), "timeout_ms", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsPartitionResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[25], 0)
    read_number(r, at(v, 99), "partition_index", 4, True)
    read_number(r, at(v, 100), "error_code", 2, True)
    read_number(r, at(v, 101), "timestamp", 8, True)
    read_number(r, at(v, 102), "offset", 8, True)
    if r.version >= 4:
        read_number(r, at(v, 103), "leader_epoch", 4, True)
    else:
        put(at(v, 103), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsPartitionResponse(Writer w, object v) except -1:
    if not is_a(v, 25):
        misplaced(v, <type>CLASS[25])
    write_number(w, at(v, 99), "partition_index", 4, True)
    write_number(w, at(v, 100), "error_code", 2, True)
    write_number(w, at(v, 101), "timestamp", 8, True)
    write_number(w, at(v, 102), "offset", 8, True)
    if w.version >= 4:
        write_number(w, at(v, 103), "leader_epoch", 4, True)
    elif differs(at(v, 103), "leader_epoch", -1):
        refuse(w, v, "leader_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsTopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[26], 0)
    read_string(r, at(v, 104), "name", False)
    read_structs(r, at(v, 105), "partitions", False, read_ListOffsetsPartitionResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsTopicResponse(Writer w, object v) except -1:
    if not is_a(v, 26):
        misplaced(v, <type>CLASS[26])
    write_string(w, at(v, 104), "name", False)
    write_structs(w, at(v, 105), "partitions", False, write_ListOffsetsPartitionResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[27], 0)
    if r.version >= 2:
        read_number(r, at(v, 106), "throttle_time_ms", 4, True)
    else:
        put(at(v, 106), 0)
    read_structs(r, at(v, 107), "topics", False, read_ListOffsetsTopicResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsResponse(Writer w, object v) except -1:
    if not is_a(v, 27):
        misplaced(v, <type>CLASS[27])
    if w.version >= 2:
        write_number(w, at(v, 106), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 107), "topics", False, write_ListOffsetsTopicResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[28], 0)
    if r.version >= 10:
        read_uuid(r, at(v, 108), "topic_id")
    else:
        put(at(v, 108), "")
    read_string(r, at(v, 109), "name", r.version >= 10)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataRequestTopic(Writer w, object v) except -1:
    if not is_a(v, 28):
        misplaced(v, <type>CLASS[28])
    if w.version >= 10:
        write_uuid(w, at(v, 108), "topic_id")
    write_string(w, at(v, 109), "name", w.version >= 10)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[29], 0)
    read_structs(r, at(v, 110), "topics", r.version >= 1, read_MetadataRequestTopic)
    if r.version >= 4:
        read_bool(r, at(v, 111), "allow_auto_topic_creation")
    else:
        put(at(v, 111), True)
    if r.version >= 8 and r.version <= 10:
        read_bool(r, at(v, 112), "include_cluster_authorized_operations")
    else:
        put(at(v, 112), False)
    if r.version >= 8:
        read_bool(r, at(v, 113), "include_topic_authorized_operations")
    else:
        put(at(v, 113), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataRequest(Writer w, object v) except -1:
    if not is_a(v, 29):
        misplaced(v, <type>CLASS[29])
    write_structs(w, at(v, 110), "topics", w.version >= 1, write_MetadataRequestTopic)
    if w.version >= 4:
        write_bool(w, at(v, 111), "allow_auto_topic_creation")
    elif differs(at(v, 111), "allow_auto_topic_creation", True):
        refuse(w, v, "allow_auto_topic_creation")
    if w.version >= 8 and w.version <= 10:
        write_bool(w, at(v, 112), "include_cluster_authorized_operations")
    elif differs(at(v, 112), "include_cluster_authorized_operations", False):
        refuse(w, v, "include_cluster_authorized_operations")
    if w.version >= 8:
        write_bool(w, at(v, 113), "include_topic_authorized_operations")
    elif differs(at(v, 113), "include_topic_authorized_operations", False):
        refuse(w, v, "include_topic_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponseBroker(Reader r):
    v = PyType_GenericAlloc(CLASS[30], 0)
    read_number(r, at(v, 114), "node_id", 4, True)
    read_string(r, at(v, 115), "host", False)
    read_number(r, at(v, 116), "port", 4, True)
    if r.version >= 1:
        read_string(r, at(v, 117), "rack", r.version >= 1)
    else:
        put(at(v, 117), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponseBroker(Writer w, object v) except -1:
    if not is_a(v, 30):
        misplaced(v, <type>CLASS[30])
    write_number(w, at(v, 114), "node_id", 4, True)
    write_string(w, at(v, 115), "host", False)
    write_number(w, at(v, 116), "port", 4, True)
    if w.version >= 1:
        write_string(w, at(v, 117), "rack", w.version >= 1)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[31], 0)
    read_number(r, at(v, 118), "error_code", 2, True)
    read_number(r, at(v, 119), "partition_index", 4, True)
    read_number(r, at(v, 120), "leader_id", 4, True)
    if r.version >= 7:
        read_number(r, at(v, 121), "leader_epoch", 4, True)
    else:
        put(at(v, 121), -1)
    read_numbers(r, at(v, 122), "replica_nodes", False, 4)
    read_numbers(r, at(v, 123), "isr_nodes", False, 4)
    if r.version >= 5:
        read_numbers(r, at(v, 124), "offline_replicas", False, 4)
    else:
        put(at(v, 124), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponsePartition(Writer w, object v) except -1:
    if not is_a(v, 31):
        misplaced(v, <type>CLASS[31])
    write_number(w, at(v, 118), "error_code", 2, True)
    write_number(w, at(v, 119), "partition_index", 4, True)
    write_number(w, at(v, 120), "leader_id", 4, True)
    if w.version >= 7:
        write_number(w, at(v, 121), "leader_epoch", 4, True)
    write_numbers(w, at(v, 122), "replica_nodes", False, 4)
    write_numbers(w, at(v, 123), "isr_nodes", False, 4)
    if w.version >= 5:
        write_numbers(w, at(v, 124), "offline_replicas", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[32], 0)
    read_number(r, at(v, 125), "error_code", 2, True)
    read_string(r, at(v, 126), "name", r.version >= 12)
    if r.version >= 10:
        read_uuid(r, at(v, 127), "topic_id")
    else:
        put(at(v, 127), "")
    if r.version >= 1:
        read_bool(r, at(v, 128), "is_internal")
    else:
        put(at(v, 128), False)
    read_structs(r, at(v, 129), "partitions", False, read_MetadataResponsePartition)
    if r.version >= 8:
        read_number(r, at(v, 130), "topic_authorized_operations", 4, True)
    else:
        put(at(v, 130), -2147483648)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponseTopic(Writer w, object v) except -1:
    if not is_a(v, 32):
        misplaced(v, <type>CLASS[32])
    write_number(w, at(v, 125), "error_code", 2, True)
    write_string(w, at(v, 126), "name", w.version >= 12)
    if w.version >= 10:
        write_uuid(w, at(v, 127), "topic_id")
    if w.version >= 1:
        write_bool(w, at(v, 128), "is_internal")
    write_structs(w, at(v, 129), "partitions", False, write_MetadataResponsePartition)
    if w.version >= 8:
        write_number(w, at(v, 130), "topic_authorized_operations", 4, True)
    elif differs(at(v, 130), "topic_authorized_operations", -2147483648):
        refuse(w, v, "topic_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[33], 0)
    if r.version >= 3:
        read_number(r, at(v, 131), "throttle_time_ms", 4, True)
    else:
        put(at(v, 131), 0)
    read_structs(r, at(v, 132), "brokers", False, read_MetadataResponseBroker)
    if r.version >= 2:
        read_string(r, at(v, 133), "cluster_id", r.version >= 2)
    else:
        put(at(v, 133), None)
    if r.version >= 1:
        read_number(r, at(v, 134), "controller_id", 4, True)
    else:
        put(at(v, 134), -1)
    read_structs(r, at(v, 135), "topics", False, read_MetadataResponseTopic)
    if r.version >= 8 and r.version <= 10:
        read_number(r, at(v, 136), "cluster_authorized_operations", 4, True)
    else:
        put(at(v, 136), -2147483648)
    if r.version >= 13:
        read_number(r, at(v, 137), "error_code", 2, True)
    else:
        put(at(v, 137), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponse(Writer w, object v) except -1:
    if not is_a(v, 33):
        misplaced(v, <type>CLASS[33])
    if w.version >= 3:
        write_number(w, at(v, 131), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 132), "brokers", False, write_MetadataResponseBroker)
    if w.version >= 2:
        write_string(w, at(v, 133), "cluster_id", w.version >= 2)
    if w.version >= 1:
        write_number(w, at(v, 134), "controller_id", 4, True)
    write_structs(w, at(v, 135), "topics", False, write_MetadataResponseTopic)
    if w.version >= 8 and w.version <= 10:
        write_number(w, at(v, 136), "cluster_authorized_operations", 4, True)
    elif differs(at(v, 136), "cluster_authorized_operations", -2147483648):
        refuse(w, v, "cluster_authorized_operations")
    if w.version >= 13:
        write_number(w, at(v, 137), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitRequestPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[34], 0)
    read_number(r, at(v, 138), "partition_index", 4, True)
    read_number(r, at(v, 139), "committed_offset", 8, True)
    if r.version >= 6:
        read_number(r, at(v, 140), "committed_leader_epoch", 4, True)
    else:
        put(at(v, 140), -1)
    read_string(r, at(v, 141), "committed_metadata", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitRequestPartition(Writer w, object v) except -1:
    if not is_a(v, 34):
        misplaced(v, <type>CLASS[34])
    write_number(w, at(v, 138), "partition_index", 4, True)
    write_number(w, at(v, 139), "committed_offset", 8, True)
    if w.version >= 6:
        write_number(w, at(v, 140), "committed_leader_epoch", 4, True)
    write_string(w, at(v, 141), "committed_metadata", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[35], 0)
    if r.version <= 9:
        read_string(r, at(v, 142), "name", False)
    else:
        put(at(v, 142), "")
    if r.version >= 10:
        read_uuid(r, at(v, 143), "topic_id")
    else:
        put(at(v, 143), "")
    read_structs(r, at(v, 144), "partitions", False, read_OffsetCommitRequestPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitRequestTopic(Writer w, object v) except -1:
    if not is_a(v, 35):
        misplaced(v, <type>CLASS[35])
    if w.version <= 9:
        write_string(w, at(v, 142), "name", False)
    if w.version >= 10:
        write_uuid(w, at(v, 143), "topic_id")
    write_structs(w, at(v, 144), "partitions", False, write_OffsetCommitRequestPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[36], 0)
    read_string(r, at(v, 145), "group_id", False)
    read_number(r, at(v, 146), "generation_id_or_member_epoch", 4, True)
    read_string(r, at(v, 147), "member_id", False)
    if r.version >= 7:
        read_string(r, at(v, 148), "group_instance_id", r.version >= 7)
    else:
        put(at(v, 148), None)
    if r.version <= 4:
        read_number(r, at(v, 149), "retention_time_ms", 8, True)
    else:
        put(at(v, 149), -1)
    read_structs(r, at(v, 150), "topics", False, read_OffsetCommitRequestTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitRequest(Writer w, object v) except -1:
    if not is_a(v, 36):
        misplaced(v, <type>CLASS[36])
    write_string(w, at(v, 145), "group_id", False)
    write_number(w, at(v, 146), "generation_id_or_member_epoch", 4, True)
    write_string(w, at(v, 147), "member_id", False)
    if w.version >= 7:
        write_string(w, at(v, 148), "group_instance_id", w.version >= 7)
    elif differs(at(v, 148), "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.version <= 4:
        write_number(w, at(v, 149), "retention_time_ms", 8, True)
    write_structs(w, at(v, 150), "topics", False, write_OffsetCommitRequestTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[37], 0)
    read_number(r, at(v, 151), "partition_index", 4, True)
    read_number(r, at(v, 152), "error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitResponsePartition(Writer w, object v) except -1:
    if not is_a(v, 37):
        misplaced(v, <type>CLASS[37])
    write_number(w, at(v, 151), "partition_index", 4, True)
    write_number(w, at(v, 152), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[38], 0)
    if r.version <= 9:
        read_string(r, at(v, 153), "name", False)
    else:
        put(at(v, 153), "")
    if r.version >= 10:
        read_uuid(r, at(v, 154), "topic_id")
    else:
        put(at(v, 154), "")
    read_structs(r, at(v, 155), "partitions", False, read_OffsetCommitResponsePartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitResponseTopic(Writer w, object v) except -1:
    if not is_a(v, 38):
        misplaced(v, <type>CLASS[38])
    if w.version <= 9:
        write_string(w, at(v, 153), "name", False)
    if w.version >= 10:
        write_uuid(w, at(v, 154), "topic_id")
    write_structs(w, at(v, 155), "partitions", False, write_OffsetCommitResponsePartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[39], 0)
    if r.version >= 3:
        read_number(r, at(v, 156), "throttle_time_ms", 4, True)
    else:
        put(at(v, 156), 0)
    read_structs(r, at(v, 157), "topics", False, read_OffsetCommitResponseTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitResponse(Writer w, object v) except -1:
    if not is_a(v, 39):
        misplaced(v, <type>CLASS[39])
    if w.version >= 3:
        write_number(w, at(v, 156), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 157), "topics", False, write_OffsetCommitResponseTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[40], 0)
    if r.version <= 7:
        read_string(r, at(v, 158), "name", False)
    else:
        put(at(v, 158), "")
    if r.version <= 7:
        read_numbers(r, at(v, 159), "partition_indexes", False, 4)
    else:
        put(at(v, 159), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequestTopic(Writer w, object v) except -1:
    if not is_a(v, 40):
        misplaced(v, <type>CLASS[40])
    if w.version <= 7:
        write_string(w, at(v, 158), "name", False)
    elif differs(at(v, 158), "name", ""):
        refuse(w, v, "name")
    if w.version <= 7:
        write_numbers(w, at(v, 159), "partition_indexes", False, 4)
    elif differs(at(v, 159), "partition_indexes", ()):
        refuse(w, v, "partition_indexes")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequestTopics(Reader r):
    v = PyType_GenericAlloc(CLASS[41], 0)
    if r.version >= 8 and r.version <= 9:
        read_string(r, at(v, 160), "name", False)
    else:
        put(at(v, 160), "")
    if r.version >= 10:
        read_uuid(r, at(v, 161), "topic_id")
    else:
        put(at(v, 161), "")
    if r.version >= 8:
        read_numbers(r, at(v, 162), "partition_indexes", False, 4)
    else:
        put(at(v, 162), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequestTopics(Writer w, object v) except -1:
    if not is_a(v, 41):
        misplaced(v, <type>CLASS[41])
    if w.version >= 8 and w.version <= 9:
        write_string(w, at(v, 160), "name", False)
    if w.version >= 10:
        write_uuid(w, at(v, 161), "topic_id")
    if w.version >= 8:
        write_numbers(w, at(v, 162), "partition_indexes", False, 4)
    elif differs(at(v, 162), "partition_indexes", ()):
        refuse(w, v, "partition_indexes")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequestGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[42], 0)
    if r.version >= 8:
        read_string(r, at(v, 163), "group_id", False)
    else:
        put(at(v, 163), "")
    if r.version >= 9:
        read_string(r, at(v, 164), "member_id", r.version >= 9)
    else:
        put(at(v, 164), None)
    if r.version >= 9:
        read_number(r, at(v, 165), "member_epoch", 4, True)
    else:
        put(at(v, 165), -1)
    if r.version >= 8:
        read_structs(r, at(v, 166), "topics", r.version >= 8, read_OffsetFetchRequestTopics)
    else:
        put(at(v, 166), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequestGroup(Writer w, object v) except -1:
    if not is_a(v, 42):
        misplaced(v, <type>CLASS[42])
    if w.version >= 8:
        write_string(w, at(v, 163), "group_id", False)
    elif differs(at(v, 163), "group_id", ""):
        refuse(w, v, "group_id")
    if w.version >= 9:
        write_string(w, at(v, 164), "member_id", w.version >= 9)
    if w.version >= 9:
        write_number(w, at(v, 165), "member_epoch", 4, True)
    if w.version >= 8:
        write_structs(w, at(v, 166), "topics", w.version >= 8, write_OffsetFetchRequestTopics)
    elif differs(at(v, 166), "topics", ()):
        refuse(w, v, "topics")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[43], 0)
    if r.version <= 7:
        read_string(r, at(v, 167), "group_id", False)
    else:
        put(at(v, 167), "")
    if r.version <= 7:
        read_structs(r, at(v, 168), "topics", r.version >= 2 and r.version <= 7, read_OffsetFetchRequestTopic)
    else:
        put(at(v, 168), [])
    if r.version >= 8:
        read_structs(r, at(v, 169), "groups", False, read_OffsetFetchRequestGroup)
    else:
        put(at(v, 169), [])
    if r.version >= 7:
        read_bool(r, at(v, 170), "require_stable")
    else:
        put(at(v, 170), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequest(Writer w, object v) except -1:
    if not is_a(v, 43):
        misplaced(v, <type>CLASS[43])
    if w.version <= 7:
        write_string(w, at(v, 167), "group_id", False)
    elif differs(at(v, 167), "group_id", ""):
        refuse(w, v, "group_id")
    if w.version <= 7:
        write_structs(w, at(v, 168), "topics", w.version >= 2 and w.version <= 7, write_OffsetFetchRequestTopic)
    elif differs(at(v, 168), "topics", ()):
        refuse(w, v, "topics")
    if w.version >= 8:
        write_structs(w, at(v, 169), "groups", False, write_OffsetFetchRequestGroup)
    elif differs(at(v, 169), "groups", ()):
        refuse(w, v, "groups")
    if w.version >= 7:
        write_bool(w, at(v, 170), "require_stable")
    elif differs(at(v, 170), "require_stable", False):
        refuse(w, v, "require_stable")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[44], 0)
    if r.version <= 7:
        read_number(r, at(v, 171), "partition_index", 4, True)
    else:
        put(at(v, 171), 0)
    if r.version <= 7:
        read_number(r, at(v, 172), "committed_offset", 8, True)
    else:
        put(at(v, 172), 0)
    if r.version >= 5 and r.version <= 7:
        read_number(r, at(v, 173), "committed_leader_epoch", 4, True)
    else:
        put(at(v, 173), -1)
    if r.version <= 7:
        read_string(r, at(v, 174), "metadata", r.version <= 7)
    else:
        put(at(v, 174), "")
    if r.version <= 7:
        read_number(r, at(v, 175), "error_code", 2, True)
    else:
        put(at(v, 175), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponsePartition(Writer w, object v) except -1:
    if not is_a(v, 44):
        misplaced(v, <type>CLASS[44])
    if w.version <= 7:
        write_number(w, at(v, 171), "partition_index", 4, True)
    elif differs(at(v, 171), "partition_index", 0):
        refuse(w, v, "partition_index")
    if w.version <= 7:
        write_number(w, at(v, 172), "committed_offset", 8, True)
    elif differs(at(v, 172), "committed_offset", 0):
        refuse(w, v, "committed_offset")
    if w.version >= 5 and w.version <= 7:
        write_number(w, at(v, 173), "committed_leader_epoch", 4, True)
    if w.version <= 7:
        write_string(w, at(v, 174), "metadata", w.version <= 7)
    elif differs(at(v, 174), "metadata", ""):
        refuse(w, v, "metadata")
    if w.version <= 7:
        write_number(w, at(v, 175), "error_code", 2, True)
    elif differs(at(v, 175), "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[45], 0)
    if r.version <= 7:
        read_string(r, at(v, 176), "name", False)
    else:
        put(at(v, 176), "")
    if r.version <= 7:
        read_structs(r, at(v, 177), "partitions", False, read_OffsetFetchResponsePartition)
    else:
        put(at(v, 177), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponseTopic(Writer w, object v) except -1:
    if not is_a(v, 45):
        misplaced(v, <type>CLASS[45])
    if w.version <= 7:
        write_string(w, at(v, 176), "name", False)
    elif differs(at(v, 176), "name", ""):
        refuse(w, v, "name")
    if w.version <= 7:
        write_structs(w, at(v, 177), "partitions", False, write_OffsetFetchResponsePartition)
    elif differs(at(v, 177), "partitions", ()):
        refuse(w, v, "partitions")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponsePartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[46], 0)
    if r.version >= 8:
        read_number(r, at(v, 178), "partition_index", 4, True)
    else:
        put(at(v, 178), 0)
    if r.version >= 8:
        read_number(r, at(v, 179), "committed_offset", 8, True)
    else:
        put(at(v, 179), 0)
    if r.version >= 8:
        read_number(r, at(v, 180), "committed_leader_epoch", 4, True)
    else:
        put(at(v, 180), -1)
    if r.version >= 8:
        read_string(r, at(v, 181), "metadata", r.version >= 8)
    else:
        put(at(v, 181), "")
    if r.version >= 8:
        read_number(r, at(v, 182), "error_code", 2, True)
    else:
        put(at(v, 182), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponsePartitions(Writer w, object v) except -1:
    if not is_a(v, 46):
        misplaced(v, <type>CLASS[46])
    if w.version >= 8:
        write_number(w, at(v, 178), "partition_index", 4, True)
    elif differs(at(v, 178), "partition_index", 0):
        refuse(w, v, "partition_index")
    if w.version >= 8:
        write_number(w, at(v, 179), "committed_offset", 8, True)
    elif differs(at(v, 179), "committed_offset", 0):
        refuse(w, v, "committed_offset")
    if w.version >= 8:
        write_number(w, at(v, 180), "committed_leader_epoch", 4, True)
    if w.version >= 8:
        write_string(w, at(v, 181), "metadata", w.version >= 8)
    elif differs(at(v, 181), "metadata", ""):
        refuse(w, v, "metadata")
    if w.version >= 8:
        write_number(w, at(v, 182), "error_code", 2, True)
    elif differs(at(v, 182), "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponseTopics(Reader r):
    v = PyType_GenericAlloc(CLASS[47], 0)
    if r.version >= 8 and r.version <= 9:
        read_string(r, at(v, 183), "name", False)
    else:
        put(at(v, 183), "")
    if r.version >= 10:
        read_uuid(r, at(v, 184), "topic_id")
    else:
        put(at(v, 184), "")
    if r.version >= 8:
        read_structs(r, at(v, 185), "partitions", False, read_OffsetFetchResponsePartitions)
    else:
        put(at(v, 185), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponseTopics(Writer w, object v) except -1:
    if not is_a(v, 47):
        misplaced(v, <type>CLASS[47])
    if w.version >= 8 and w.version <= 9:
        write_string(w, at(v, 183), "name", False)
    if w.version >= 10:
        write_uuid(w, at(v, 184), "topic_id")
    if w.version >= 8:
        write_structs(w, at(v, 185), "partitions", False, write_OffsetFetchResponsePartitions)
    elif differs(at(v, 185), "partitions", ()):
        refuse(w, v, "partitions")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponseGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[48], 0)
    if r.version >= 8:
        read_string(r, at(v, 186), "group_id", False)
    else:
        put(at(v, 186), "")
    if r.version >= 8:
        read_structs(r, at(v, 187), "topics", False, read_OffsetFetchResponseTopics)
    else:
        put(at(v, 187), [])
    if r.version >= 8:
        read_number(r, at(v, 188), "error_code", 2, True)
    else:
        put(at(v, 188), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponseGroup(Writer w, object v) except -1:
    if not is_a(v, 48):
        misplaced(v, <type>CLASS[48])
    if w.version >= 8:
        write_string(w, at(v, 186), "group_id", False)
    elif differs(at(v, 186), "group_id", ""):
        refuse(w, v, "group_id")
    if w.version >= 8:
        write_structs(w, at(v, 187), "topics", False, write_OffsetFetchResponseTopics)
    elif differs(at(v, 187), "topics", ()):
        refuse(w, v, "topics")
    if w.version >= 8:
        write_number(w, at(v, 188), "error_code", 2, True)
    elif differs(at(v, 188), "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[49], 0)
    if r.version >= 3:
        read_number(r, at(v, 189), "throttle_time_ms", 4, True)
    else:
        put(at(v, 189), 0)
    if r.version <= 7:
        read_structs(r, at(v, 190), "topics", False, read_OffsetFetchResponseTopic)
    else:
        put(at(v, 190), [])
    if r.version >= 2 and r.version <= 7:
        read_number(r, at(v, 191), "error_code", 2, True)
    else:
        put(at(v, 191), 0)
    if r.version >= 8:
        read_structs(r, at(v, 192), "groups", False, read_OffsetFetchResponseGroup)
    else:
        put(at(v, 192), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponse(Writer w, object v) except -1:
    if not is_a(v, 49):
        misplaced(v, <type>CLASS[49])
    if w.version >= 3:
        write_number(w, at(v, 189), "throttle_time_ms", 4, True)
    if w.version <= 7:
        write_structs(w, at(v, 190), "topics", False, write_OffsetFetchResponseTopic)
    elif differs(at(v, 190), "topics", ()):
        refuse(w, v, "topics")
    if w.version >= 2 and w.version <= 7:
        write_number(w, at(v, 191), "error_code", 2, True)
    if w.version >= 8:
        write_structs(w, at(v, 192), "groups", False, write_OffsetFetchResponseGroup)
    elif differs(at(v, 192), "groups", ()):
        refuse(w, v, "groups")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FindCoordinatorRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[50], 0)
    if r.version <= 3:
        read_string(r, at(v, 193), "key", False)
    else:
        put(at(v, 193), "")
    if r.version >= 1:
        read_number(r, at(v, 194), "key_type", 1, True)
    else:
        put(at(v, 194), 0)
    if r.version >= 4:
        read_strings(r, at(v, 195), "coordinator_keys", False)
    else:
        put(at(v, 195), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FindCoordinatorRequest(Writer w, object v) except -1:
    if not is_a(v, 50):
        misplaced(v, <type>CLASS[50])
    if w.version <= 3:
        write_string(w, at(v, 193), "key", False)
    elif differs(at(v, 193), "key", ""):
        refuse(w, v, "key")
    if w.version >= 1:
        write_number(w, at(v, 194), "key_type", 1, True)
    elif differs(at(v, 194), "key_type", 0):
        refuse(w, v, "key_type")
    if w.version >= 4:
        write_strings(w, at(v, 195), "coordinator_keys", False)
    elif differs(at(v, 195), "coordinator_keys", ()):
        refuse(w, v, "coordinator_keys")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Coordinator(Reader r):
    v = PyType_GenericAlloc(CLASS[51], 0)
    if r.version >= 4:
        read_string(r, at(v, 196), "key", False)
    else:
        put(at(v, 196), "")
    if r.version >= 4:
        read_number(r, at(v, 197), "node_id", 4, True)
    else:
        put(at(v, 197), 0)
    if r.version >= 4:
        read_string(r, at(v, 198), "host", False)
    else:
        put(at(v, 198), "")
    if r.version >= 4:
        read_number(r, at(v, 199), "port", 4, True)
    else:
        put(at(v, 199), 0)
    if r.version >= 4:
        read_number(r, at(v, 200), "error_code", 2, True)
    else:
        put(at(v, 200), 0)
    if r.version >= 4:
        read_string(r, at(v, 201), "error_message", r.version >= 4)
    else:
        put(at(v, 201), "")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Coordinator(Writer w, object v) except -1:
    if not is_a(v, 51):
        misplaced(v, <type>CLASS[51])
    if w.version >= 4:
        write_string(w, at(v, 196), "key", False)
    elif differs(at(v, 196), "key", ""):
        refuse(w, v, "key")
    if w.version >= 4:
        write_number(w, at(v, 197), "node_id", 4, True)
    elif differs(at(v, 197), "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 4:
        write_string(w, at(v, 198), "host", False)
    elif differs(at(v, 198), "host", ""):
        refuse(w, v, "host")
    if w.version >= 4:
        write_number(w, at(v, 199), "port", 4, True)
    elif differs(at(v, 199), "port", 0):
        refuse(w, v, "port")
    if w.version >= 4:
        write_number(w, at(v, 200), "error_code", 2, True)
    elif differs(at(v, 200), "error_code", 0):
        refuse(w, v, "error_code")
    if w.version >= 4:
        write_string(w, at(v, 201), "error_message", w.version >= 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FindCoordinatorResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[52], 0)
    if r.version >= 1:
        read_number(r, at(v, 202), "throttle_time_ms", 4, True)
    else:
        put(at(v, 202), 0)
    if r.version <= 3:
        read_number(r, at(v, 203), "error_code", 2, True)
    else:
        put(at(v, 203), 0)
    if r.version >= 1 and r.version <= 3:
        read_string(r, at(v, 204), "error_message", r.version >= 1 and r.version <= 3)
    else:
        put(at(v, 204), "")
    if r.version <= 3:
        read_number(r, at(v, 205), "node_id", 4, True)
    else:
        put(at(v, 205), 0)
    if r.version <= 3:
        read_string(r, at(v, 206), "host", False)
    else:
        put(at(v, 206), "")
    if r.version <= 3:
        read_number(r, at(v, 207), "port", 4, True)
    else:
        put(at(v, 207), 0)
    if r.version >= 4:
        read_structs(r, at(v, 208), "coordinators", False, read_Coordinator)
    else:
        put(at(v, 208), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FindCoordinatorResponse(Writer w, object v) except -1:
    if not is_a(v, 52):
        misplaced(v, <type>CLASS[52])
    if w.version >= 1:
        write_number(w, at(v, 202), "throttle_time_ms", 4, True)
    if w.version <= 3:
        write_number(w, at(v, 203), "error_code", 2, True)
    elif differs(at(v, 203), "error_code", 0):
        refuse(w, v, "error_code")
    if w.version >= 1 and w.version <= 3:
        write_string(w, at(v, 204), "error_message", w.version >= 1 and w.version <= 3)
    if w.version <= 3:
        write_number(w, at(v, 205), "node_id", 4, True)
    elif differs(at(v, 205), "node_id", 0):
        refuse(w, v, "node_id")
    if w.version <= 3:
        write_string(w, at(v, 206), "host", False)
    elif differs(at(v, 206), "host", ""):
        refuse(w, v, "host")
    if w.version <= 3:
        write_number(w, at(v, 207), "port", 4, True)
    elif differs(at(v, 207), "port", 0):
        refuse(w, v, "port")
    if w.version >= 4:
        write_structs(w, at(v, 208), "coordinators", False, write_Coordinator)
    elif differs(at(v, 208), "coordinators", ()):
        refuse(w, v, "coordinators")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupRequestProtocol(Reader r):
    v = PyType_GenericAlloc(CLASS[53], 0)
    read_string(r, at(v, 209), "name", False)
    read_bytes(r, at(v, 210), "metadata", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupRequestProtocol(Writer w, object v) except -1:
    if not is_a(v, 53):
        misplaced(v, <type>CLASS[53])
    write_string(w, at(v, 209), "name", False)
    write_bytes(w, at(v, 210), "metadata", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[54], 0)
    read_string(r, at(v, 211), "group_id", False)
    read_number(r, at(v, 212), "session_timeout_ms", 4, True)
    if r.version >= 1:
        read_number(r, at(v, 213), "rebalance_timeout_ms", 4, True)
    else:
        put(at(v, 213), -1)
    read_string(r, at(v, 214), "member_id", False)
    if r.version >= 5:
        read_string(r, at(v, 215), "group_instance_id", r.version >= 5)
    else:
        put(at(v, 215), None)
    read_string(r, at(v, 216), "protocol_type", False)
    read_structs(r, at(v, 217), "protocols", False, read_JoinGroupRequestProtocol)
    if r.version >= 8:
        read_string(r, at(v, 218), "reason", r.version >= 8)
    else:
        put(at(v, 218), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupRequest(Writer w, object v) except -1:
    if not is_a(v, 54):
        misplaced(v, <type>CLASS[54])
    write_string(w, at(v, 211), "group_id", False)
    write_number(w, at(v, 212), "session_timeout_ms", 4, True)
    if w.version >= 1:
        write_number(w, at(v, 213), "rebalance_timeout_ms", 4, True)
    write_string(w, at(v, 214), "member_id", False)
    if w.version >= 5:
        write_string(w, at(v, 215), "group_instance_id", w.version >= 5)
    elif differs(at(v, 215), "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    write_string(w, at(v, 216), "protocol_type", False)
    write_structs(w, at(v, 217), "protocols", False, write_JoinGroupRequestProtocol)
    if w.version >= 8:
        write_string(w, at(v, 218), "reason", w.version >= 8)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupResponseMember(Reader r):
    v = PyType_GenericAlloc(CLASS[55], 0)
    read_string(r, at(v, 219), "member_id", False)
    if r.version >= 5:
        read_string(r, at(v, 220), "group_instance_id", r.version >= 5)
    else:
        put(at(v, 220), None)
    read_bytes(r, at(v, 221), "metadata", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupResponseMember(Writer w, object v) except -1:
    if not is_a(v, 55):
        misplaced(v, <type>CLASS[55])
    write_string(w, at(v, 219), "member_id", False)
    if w.version >= 5:
        write_string(w, at(v, 220), "group_instance_id", w.version >= 5)
    write_bytes(w, at(v, 221), "metadata", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[56], 0)
    if r.version >= 2:
        read_number(r, at(v, 222), "throttle_time_ms", 4, True)
    else:
        put(at(v, 222), 0)
    read_number(r, at(v, 223), "error_code", 2, True)
    read_number(r, at(v, 224), "generation_id", 4, True)
    if r.version >= 7:
        read_string(r, at(v, 225), "protocol_type", r.version >= 7)
    else:
        put(at(v, 225), None)
    read_string(r, at(v, 226), "protocol_name", r.version >= 7)
    read_string(r, at(v, 227), "leader", False)
    if r.version >= 9:
        read_bool(r, at(v, 228), "skip_assignment")
    else:
        put(at(v, 228), False)
    read_string(r, at(v, 229), "member_id", False)
    read_structs(r, at(v, 230), "members", False, read_JoinGroupResponseMember)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupResponse(Writer w, object v) except -1:
    if not is_a(v, 56):
        misplaced(v, <type>CLASS[56])
    if w.version >= 2:
        write_number(w, at(v, 222), "throttle_time_ms", 4, True)
    write_number(w, at(v, 223), "error_code", 2, True)
    write_number(w, at(v, 224), "generation_id", 4, True)
    if w.version >= 7:
        write_string(w, at(v, 225), "protocol_type", w.version >= 7)
    write_string(w, at(v, 226), "protocol_name", w.version >= 7)
    write_string(w, at(v, 227), "leader", False)
    if w.version >= 9:
        write_bool(w, at(v, 228), "skip_assignment")
    elif differs(at(v, 228), "skip_assignment", False):
        refuse(w, v, "skip_assignment")
    write_string(w, at(v, 229), "member_id", False)
    write_structs(w, at(v, 230), "members", False, write_JoinGroupResponseMember)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_HeartbeatRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[57], 0)
    read_string(r, at(v, 231), "group_id", False)
    read_number(r, at(v, 232), "generation_id", 4, True)
    read_string(r, at(v, 233), "member_id", False)
    if r.version >= 3:
        read_string(r, at(v, 234), "group_instance_id", r.version >= 3)
    else:
        put(at(v, 234), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_HeartbeatRequest(Writer w, object v) except -1:
    if not is_a(v, 57):
        misplaced(v, <type>CLASS[57])
    write_string(w, at(v, 231), "group_id", False)
    write_number(w, at(v, 232), "generation_id", 4, True)
    write_string(w, at(v, 233), "member_id", False)
    if w.version >= 3:
        write_string(w, at(v, 234), "group_instance_id", w.version >= 3)
    elif differs(at(v, 234), "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_HeartbeatResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[58], 0)
    if r.version >= 1:
        read_number(r, at(v, 235), "throttle_time_ms", 4, True)
    else:
        put(at(v, 235), 0)
    read_number(r, at(v, 236), "error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_HeartbeatResponse(Writer w, object v) except -1:
    if not is_a(v, 58):
        misplaced(v, <type>CLASS[58])
    if w.version >= 1:
        write_number(w, at(v, 235), "throttle_time_ms", 4, True)
    write_number(w, at(v, 236), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MemberIdentity(Reader r):
    v = PyType_GenericAlloc(CLASS[59], 0)
    if r.version >= 3:
        read_string(r, at(v, 237), "member_id", False)
    else:
        put(at(v, 237), "")
    if r.version >= 3:
        read_string(r, at(v, 238), "group_instance_id", r.version >= 3)
    else:
        put(at(v, 238), None)
    if r.version >= 5:
        read_string(r, at(v, 239), "reason", r.version >= 5)
    else:
        put(at(v, 239), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MemberIdentity(Writer w, object v) except -1:
    if not is_a(v, 59):
        misplaced(v, <type>CLASS[59])
    if w.version >= 3:
        write_string(w, at(v, 237), "member_id", False)
    elif differs(at(v, 237), "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_string(w, at(v, 238), "group_instance_id", w.version >= 3)
    elif differs(at(v, 238), "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.version >= 5:
        write_string(w, at(v, 239), "reason", w.version >= 5)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_LeaveGroupRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[60], 0)
    read_string(r, at(v, 240), "group_id", False)
    if r.version <= 2:
        read_string(r, at(v, 241), "member_id", False)
    else:
        put(at(v, 241), "")
    if r.version >= 3:
        read_structs(r, at(v, 242), "members", False, read_MemberIdentity)
    else:
        put(at(v, 242), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_LeaveGroupRequest(Writer w, object v) except -1:
    if not is_a(v, 60):
        misplaced(v, <type>CLASS[60])
    write_string(w, at(v, 240), "group_id", False)
    if w.version <= 2:
        write_string(w, at(v, 241), "member_id", False)
    elif differs(at(v, 241), "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_structs(w, at(v, 242), "members", False, write_MemberIdentity)
    elif differs(at(v, 242), "members", ()):
        refuse(w, v, "members")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MemberResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[61], 0)
    if r.version >= 3:
        read_string(r, at(v, 243), "member_id", False)
    else:
        put(at(v, 243), "")
    if r.version >= 3:
        read_string(r, at(v, 244), "group_instance_id", r.version >= 3)
    else:
        put(at(v, 244), "")
    if r.version >= 3:
        read_number(r, at(v, 245), "error_code", 2, True)
    else:
        put(at(v, 245), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MemberResponse(Writer w, object v) except -1:
    if not is_a(v, 61):
        misplaced(v, <type>CLASS[61])
    if w.version >= 3:
        write_string(w, at(v, 243), "member_id", False)
    elif differs(at(v, 243), "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_string(w, at(v, 244), "group_instance_id", w.version >= 3)
    elif differs(at(v, 244), "group_instance_id", ""):
        refuse(w, v, "group_instance_id")
    if w.version >= 3:
        write_number(w, at(v, 245), "error_code", 2, True)
    elif differs(at(v, 245), "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_LeaveGroupResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[62], 0)
    if r.version >= 1:
        read_number(r, at(v, 246), "throttle_time_ms", 4, True)
    else:
        put(at(v, 246), 0)
    read_number(r, at(v, 247), "error_code", 2, True)
    if r.version >= 3:
        read_structs(r, at(v, 248), "members", False, read_MemberResponse)
    else:
        put(at(v, 248), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_LeaveGroupResponse(Writer w, object v) except -1:
    if not is_a(v, 62):
        misplaced(v, <type>CLASS[62])
    if w.version >= 1:
        write_number(w, at(v, 246), "throttle_time_ms", 4, True)
    write_number(w, at(v, 247), "error_code", 2, True)
    if w.version >= 3:
        write_structs(w, at(v, 248), "members", False, write_MemberResponse)
    elif differs(at(v, 248), "members", ()):
        refuse(w, v, "members")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SyncGroupRequestAssignment(Reader r):
    v = PyType_GenericAlloc(CLASS[63], 0)
    read_string(r, at(v, 249), "member_id", False)
    read_bytes(r, at(v, 250), "assignment", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SyncGroupRequestAssignment(Writer w, object v) except -1:
    if not is_a(v, 63):
        misplaced(v, <type>CLASS[63])
    write_string(w, at(v, 249), "member_id", False)
    write_bytes(w, at(v, 250), "assignment", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SyncGroupRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[64], 0)
    read_string(r, at(v, 251), "group_id", False)
    read_number(r, at(v, 252), "generation_id", 4, True)
    read_string(r, at(v, 253), "member_id", False)
    if r.version >= 3:
        read_string(r, at(v, 254), "group_instance_id", r.version >= 3)
    else:
        put(at(v, 254), None)
    if r.version >= 5:
        read_string(r, at(v, 255), "protocol_type", r.version >= 5)
    else:
        put(at(v, 255), None)
    if r.version >= 5:
        read_string(r, at(v, 256), "protocol_name", r.version >= 5)
    else:
        put(at(v, 256), None)
    read_structs(r, at(v, 257), "assignments", False, read_SyncGroupRequestAssignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SyncGroupRequest(Writer w, object v) except -1:
    if not is_a(v, 64):
        misplaced(v, <type>CLASS[64])
    write_string(w, at(v, 251), "group_id", False)
    write_number(w, at(v, 252), "generation_id", 4, True)
    write_string(w, at(v, 253), "member_id", False)
    if w.version >= 3:
        write_string(w, at(v, 254), "group_instance_id", w.version >= 3)
    elif differs(at(v, 254), "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.version >= 5:
        write_string(w, at(v, 255), "protocol_type", w.version >= 5)
    if w.version >= 5:
        write_string(w, at(v, 256), "protocol_name", w.version >= 5)
    write_structs(w, at(v, 257), "assignments", False, write_SyncGroupRequestAssignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SyncGroupResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[65], 0)
    if r.version >= 1:
        read_number(r, at(v, 258), "throttle_time_ms", 4, True)
    else:
        put(at(v, 258), 0)
    read_number(r, at(v, 259), "error_code", 2, True)
    if r.version >= 5:
        read_string(r, at(v, 260), "protocol_type", r.version >= 5)
    else:
        put(at(v, 260), None)
    if r.version >= 5:
        read_string(r, at(v, 261), "protocol_name", r.version >= 5)
    else:
        put(at(v, 261), None)
    read_bytes(r, at(v, 262), "assignment", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SyncGroupResponse(Writer w, object v) except -1:
    if not is_a(v, 65):
        misplaced(v, <type>CLASS[65])
    if w.version >= 1:
        write_number(w, at(v, 258), "throttle_time_ms", 4, True)
    write_number(w, at(v, 259), "error_code", 2, True)
    if w.version >= 5:
        write_string(w, at(v, 260), "protocol_type", w.version >= 5)
    if w.version >= 5:
        write_string(w, at(v, 261), "protocol_name", w.version >= 5)
    write_bytes(w, at(v, 262), "assignment", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeGroupsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[66], 0)
    read_strings(r, at(v, 263), "groups", False)
    if r.version >= 3:
        read_bool(r, at(v, 264), "include_authorized_operations")
    else:
        put(at(v, 264), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeGroupsRequest(Writer w, object v) except -1:
    if not is_a(v, 66):
        misplaced(v, <type>CLASS[66])
    write_strings(w, at(v, 263), "groups", False)
    if w.version >= 3:
        write_bool(w, at(v, 264), "include_authorized_operations")
    elif differs(at(v, 264), "include_authorized_operations", False):
        refuse(w, v, "include_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribedGroupMember(Reader r):
    v = PyType_GenericAlloc(CLASS[67], 0)
    read_string(r, at(v, 265), "member_id", False)
    if r.version >= 4:
        read_string(r, at(v, 266), "group_instance_id", r.version >= 4)
    else:
        put(at(v, 266), None)
    read_string(r, at(v, 267), "client_id", False)
    read_string(r, at(v, 268), "client_host", False)
    read_bytes(r, at(v, 269), "member_metadata", False)
    read_bytes(r, at(v, 270), "member_assignment", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribedGroupMember(Writer w, object v) except -1:
    if not is_a(v, 67):
        misplaced(v, <type>CLASS[67])
    write_string(w, at(v, 265), "member_id", False)
    if w.version >= 4:
        write_string(w, at(v, 266), "group_instance_id", w.version >= 4)
    write_string(w, at(v, 267), "client_id", False)
    write_string(w, at(v, 268), "client_host", False)
    write_bytes(w, at(v, 269), "member_metadata", False)
    write_bytes(w, at(v, 270), "member_assignment", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeGroupsResponse_DescribedGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[68], 0)
    read_number(r, at(v, 271), "error_code", 2, True)
    if r.version >= 6:
        read_string(r, at(v, 272), "error_message", r.version >= 6)
    else:
        put(at(v, 272), None)
    read_string(r, at(v, 273), "group_id", False)
    read_string(r, at(v, 274), "group_state", False)
    read_string(r, at(v, 275), "protocol_type", False)
    read_string(r, at(v, 276), "protocol_data", False)
    read_structs(r, at(v, 277), "members", False, read_DescribedGroupMember)
    if r.version >= 3:
        read_number(r, at(v, 278), "authorized_operations", 4, True)
    else:
        put(at(v, 278), -2147483648)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeGroupsResponse_DescribedGroup(Writer w, object v) except -1:
    if not is_a(v, 68):
        misplaced(v, <type>CLASS[68])
    write_number(w, at(v, 271), "error_code", 2, True)
    if w.version >= 6:
        write_string(w, at(v, 272), "error_message", w.version >= 6)
    elif differs(at(v, 272), "error_message", None):
        refuse(w, v, "error_message")
    write_string(w, at(v, 273), "group_id", False)
    write_string(w, at(v, 274), "group_state", False)
    write_string(w, at(v, 275), "protocol_type", False)
    write_string(w, at(v, 276), "protocol_data", False)
    write_structs(w, at(v, 277), "members", False, write_DescribedGroupMember)
    if w.version >= 3:
        write_number(w, at(v, 278), "authorized_operations", 4, True)
    elif differs(at(v, 278), "authorized_operations", -2147483648):
        refuse(w, v, "authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeGroupsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[69], 0)
    if r.version >= 1:
        read_number(r, at(v, 279), "throttle_time_ms", 4, True)
    else:
        put(at(v, 279), 0)
    read_structs(r, at(v, 280), "groups", False, read_DescribeGroupsResponse_DescribedGroup)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeGroupsResponse(Writer w, object v) except -1:
    if not is_a(v, 69):
        misplaced(v, <type>CLASS[69])
    if w.version >= 1:
        write_number(w, at(v, 279), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 280), "groups", False, write_DescribeGroupsResponse_DescribedGroup)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListGroupsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[70], 0)
    if r.version >= 4:
        read_strings(r, at(v, 281), "states_filter", False)
    else:
        put(at(v, 281), [])
    if r.version >= 5:
        read_strings(r, at(v, 282), "types_filter", False)
    else:
        put(at(v, 282), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListGroupsRequest(Writer w, object v) except -1:
    if not is_a(v, 70):
        misplaced(v, <type>CLASS[70])
    if w.version >= 4:
        write_strings(w, at(v, 281), "states_filter", False)
    elif differs(at(v, 281), "states_filter", ()):
        refuse(w, v, "states_filter")
    if w.version >= 5:
        write_strings(w, at(v, 282), "types_filter", False)
    elif differs(at(v, 282), "types_filter", ()):
        refuse(w, v, "types_filter")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListedGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[71], 0)
    read_string(r, at(v, 283), "group_id", False)
    read_string(r, at(v, 284), "protocol_type", False)
    if r.version >= 4:
        read_string(r, at(v, 285), "group_state", False)
    else:
        put(at(v, 285), "")
    if r.version >= 5:
        read_string(r, at(v, 286), "group_type", False)
    else:
        put(at(v, 286), "")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListedGroup(Writer w, object v) except -1:
    if not is_a(v, 71):
        misplaced(v, <type>CLASS[71])
    write_string(w, at(v, 283), "group_id", False)
    write_string(w, at(v, 284), "protocol_type", False)
    if w.version >= 4:
        write_string(w, at(v, 285), "group_state", False)
    if w.version >= 5:
        write_string(w, at(v, 286), "group_type", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListGroupsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[72], 0)
    if r.version >= 1:
        read_number(r, at(v, 287), "throttle_time_ms", 4, True)
    else:
        put(at(v, 287), 0)
    read_number(r, at(v, 288), "error_code", 2, True)
    read_structs(r, at(v, 289), "groups", False, read_ListedGroup)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListGroupsResponse(Writer w, object v) except -1:
    if not is_a(v, 72):
        misplaced(v, <type>CLASS[72])
    if w.version >= 1:
        write_number(w, at(v, 287), "throttle_time_ms", 4, True)
    write_number(w, at(v, 288), "error_code", 2, True)
    write_structs(w, at(v, 289), "groups", False, write_ListedGroup)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SaslHandshakeRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[73], 0)
    read_string(r, at(v, 290), "mechanism", False)
    return v


cdef int write_SaslHandshakeRequest(Writer w, object v) except -1:
    if not is_a(v, 73):
        misplaced(v, <type>CLASS[73])
    write_string(w, at(v, 290), "mechanism", False)
    return 0


cdef object read_SaslHandshakeResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[74], 0)
    read_number(r, at(v, 291), "error_code", 2, True)
    read_strings(r, at(v, 292), "mechanisms", False)
    return v


cdef int write_SaslHandshakeResponse(Writer w, object v) except -1:
    if not is_a(v, 74):
        misplaced(v, <type>CLASS[74])
    write_number(w, at(v, 291), "error_code", 2, True)
    write_strings(w, at(v, 292), "mechanisms", False)
    return 0


cdef object read_ApiVersionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[75], 0)
    if r.version >= 3:
        read_string(r, at(v, 293), "client_software_name", False)
    else:
        put(at(v, 293), "")
    if r.version >= 3:
        read_string(r, at(v, 294), "client_software_version", False)
    else:
        put(at(v, 294), "")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ApiVersionsRequest(Writer w, object v) except -1:
    if not is_a(v, 75):
        misplaced(v, <type>CLASS[75])
    if w.version >= 3:
        write_string(w, at(v, 293), "client_software_name", False)
    if w.version >= 3:
        write_string(w, at(v, 294), "client_software_version", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ApiVersion(Reader r):
    v = PyType_GenericAlloc(CLASS[76], 0)
    read_number(r, at(v, 295), "api_key", 2, True)
    read_number(r, at(v, 296), "min_version", 2, True)
    read_number(r, at(v, 297), "max_version", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ApiVersion(Writer w, object v) except -1:
    if not is_a(v, 76):
        misplaced(v, <type>CLASS[76])
    write_number(w, at(v, 295), "api_key", 2, True)
    write_number(w, at(v, 296), "min_version", 2, True)
    write_number(w, at(v, 297), "max_version", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SupportedFeatureKey(Reader r):
    v = PyType_GenericAlloc(CLASS[77], 0)
    if r.version >= 3:
        read_string(r, at(v, 298), "name", False)
    else:
        put(at(v, 298), "")
    if r.version >= 3:
        read_number(r, at(v, 299), "min_version", 2, True)
    else:
        put(at(v, 299), 0)
    if r.version >= 3:
        read_number(r, at(v, 300), "max_version", 2, True)
    else:
        put(at(v, 300), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SupportedFeatureKey(Writer w, object v) except -1:
    if not is_a(v, 77):
        misplaced(v, <type>CLASS[77])
    if w.version >= 3:
        write_string(w, at(v, 298), "name", False)
    elif differs(at(v, 298), "name", ""):
        refuse(w, v, "name")
    if w.version >= 3:
        write_number(w, at(v, 299), "min_version", 2, True)
    elif differs(at(v, 299), "min_version", 0):
        refuse(w, v, "min_version")
    if w.version >= 3:
        write_number(w, at(v, 300), "max_version", 2, True)
    elif differs(at(v, 300), "max_version", 0):
        refuse(w, v, "max_version")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FinalizedFeatureKey(Reader r):
    v = PyType_GenericAlloc(CLASS[78], 0)
    if r.version >= 3:
        read_string(r, at(v, 301), "name", False)
    else:
        put(at(v, 301), "")
    if r.version >= 3:
        read_number(r, at(v, 302), "max_version_level", 2, True)
    else:
        put(at(v, 302), 0)
    if r.version >= 3:
        read_number(r, at(v, 303), "min_version_level", 2, True)
    else:
        put(at(v, 303), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FinalizedFeatureKey(Writer w, object v) except -1:
    if not is_a(v, 78):
        misplaced(v, <type>CLASS[78])
    if w.version >= 3:
        write_string(w, at(v, 301), "name", False)
    elif differs(at(v, 301), "name", ""):
        refuse(w, v, "name")
    if w.version >= 3:
        write_number(w, at(v, 302), "max_version_level", 2, True)
    elif differs(at(v, 302), "max_version_level", 0):
        refuse(w, v, "max_version_level")
    if w.version >= 3:
        write_number(w, at(v, 303), "min_version_level", 2, True)
    elif differs(at(v, 303), "min_version_level", 0):
        refuse(w, v, "min_version_level")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ApiVersionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[79], 0)
    read_number(r, at(v, 304), "error_code", 2, True)
    read_structs(r, at(v, 305), "api_keys", False, read_ApiVersion)
    if r.version >= 1:
        read_number(r, at(v, 306), "throttle_time_ms", 4, True)
    else:
        put(at(v, 306), 0)
    put(at(v, 307), [])
    put(at(v, 308), -1)
    put(at(v, 309), [])
    put(at(v, 310), False)
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 3:
                read_structs(r, at(v, 307), "supported_features", False, read_SupportedFeatureKey)
            elif tag == 1 and r.version >= 3:
                read_number(r, at(v, 308), "finalized_features_epoch", 8, True)
            elif tag == 2 and r.version >= 3:
                read_structs(r, at(v, 309), "finalized_features", False, read_FinalizedFeatureKey)
            elif tag == 3 and r.version >= 3:
                read_bool(r, at(v, 310), "zk_migration_ready")
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_ApiVersionsResponse(Writer w, object v) except -1:
    if not is_a(v, 79):
        misplaced(v, <type>CLASS[79])
    write_number(w, at(v, 304), "error_code", 2, True)
    write_structs(w, at(v, 305), "api_keys", False, write_ApiVersion)
    if w.version >= 1:
        write_number(w, at(v, 306), "throttle_time_ms", 4, True)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 3 and differs(at(v, 307), "supported_features", ()):
            place = begin_tag(w, 0)
            write_structs(w, at(v, 307), "supported_features", False, write_SupportedFeatureKey)
            end_tag(w, place)
            count += 1
        if w.version >= 3 and differs(at(v, 308), "finalized_features_epoch", -1):
            place = begin_tag(w, 1)
            write_number(w, at(v, 308), "finalized_features_epoch", 8, True)
            end_tag(w, place)
            count += 1
        if w.version >= 3 and differs(at(v, 309), "finalized_features", ()):
            place = begin_tag(w, 2)
            write_structs(w, at(v, 309), "finalized_features", False, write_FinalizedFeatureKey)
            end_tag(w, place)
            count += 1
        if w.version >= 3 and differs(at(v, 310), "zk_migration_ready", False):
            place = begin_tag(w, 3)
            write_bool(w, at(v, 310), "zk_migration_ready")
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_CreatableReplicaAssignment(Reader r):
    v = PyType_GenericAlloc(CLASS[80], 0)
    read_number(r, at(v, 311), "partition_index", 4, True)
    read_numbers(r, at(v, 312), "broker_ids", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableReplicaAssignment(Writer w, object v) except -1:
    if not is_a(v, 80):
        misplaced(v, <type>CLASS[80])
    write_number(w, at(v, 311), "partition_index", 4, True)
    write_numbers(w, at(v, 312), "broker_ids", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopicConfig(Reader r):
    v = PyType_GenericAlloc(CLASS[81], 0)
    read_string(r, at(v, 313), "name", False)
    read_string(r, at(v, 314), "value", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableTopicConfig(Writer w, object v) except -1:
    if not is_a(v, 81):
        misplaced(v, <type>CLASS[81])
    write_string(w, at(v, 313), "name", False)
    write_string(w, at(v, 314), "value", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[82], 0)
    read_string(r, at(v, 315), "name", False)
    read_number(r, at(v, 316), "num_partitions", 4, True)
    read_number(r, at(v, 317), "replication_factor", 2, True)
    read_structs(r, at(v, 318), "assignments", False, read_CreatableReplicaAssignment)
    read_structs(r, at(v, 319), "configs", False, read_CreatableTopicConfig)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableTopic(Writer w, object v) except -1:
    if not is_a(v, 82):
        misplaced(v, <type>CLASS[82])
    write_string(w, at(v, 315), "name", False)
    write_number(w, at(v, 316), "num_partitions", 4, True)
    write_number(w, at(v, 317), "replication_factor", 2, True)
    write_structs(w, at(v, 318), "assignments", False, write_CreatableReplicaAssignment)
    write_structs(w, at(v, 319), "configs", False, write_CreatableTopicConfig)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreateTopicsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[83], 0)
    read_structs(r, at(v, 320), "topics", False, read_CreatableTopic)
    read_number(r, at(v, 321), "timeout_ms", 4, True)
    read_bool(r, at(v, 322), "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateTopicsRequest(Writer w, object v) except -1:
    if not is_a(v, 83):
        misplaced(v, <type>CLASS[83])
    write_structs(w, at(v, 320), "topics", False, write_CreatableTopic)
    write_number(w, at(v, 321), "timeout_ms", 4, True)
    write_bool(w, at(v, 322), "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopicConfigs(Reader r):
    v = PyType_GenericAlloc(CLASS[84], 0)
    if r.version >= 5:
        read_string(r, at(v, 323), "name", False)
    else:
        put(at(v, 323), "")
    if r.version >= 5:
        read_string(r, at(v, 324), "value", r.version >= 5)
    else:
        put(at(v, 324), "")
    if r.version >= 5:
        read_bool(r, at(v, 325), "read_only")
    else:
        put(at(v, 325), False)
    if r.version >= 5:
        read_number(r, at(v, 326), "config_source", 1, True)
    else:
        put(at(v, 326), -1)
    if r.version >= 5:
        read_bool(r, at(v, 327), "is_sensitive")
    else:
        put(at(v, 327), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableTopicConfigs(Writer w, object v) except -1:
    if not is_a(v, 84):
        misplaced(v, <type>CLASS[84])
    if w.version >= 5:
        write_string(w, at(v, 323), "name", False)
    elif differs(at(v, 323), "name", ""):
        refuse(w, v, "name")
    if w.version >= 5:
        write_string(w, at(v, 324), "value", w.version >= 5)
    elif differs(at(v, 324), "value", ""):
        refuse(w, v, "value")
    if w.version >= 5:
        write_bool(w, at(v, 325), "read_only")
    elif differs(at(v, 325), "read_only", False):
        refuse(w, v, "read_only")
    if w.version >= 5:
        write_number(w, at(v, 326), "config_source", 1, True)
    if w.version >= 5:
        write_bool(w, at(v, 327), "is_sensitive")
    elif differs(at(v, 327), "is_sensitive", False):
        refuse(w, v, "is_sensitive")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[85], 0)
    read_string(r, at(v, 328), "name", False)
    if r.version >= 7:
        read_uuid(r, at(v, 329), "topic_id")
    else:
        put(at(v, 329), "")
    read_number(r, at(v, 330), "error_code", 2, True)
    read_string(r, at(v, 331), "error_message", True)
    put(at(v, 332), 0)
    if r.version >= 5:
        read_number(r, at(v, 333), "num_partitions", 4, True)
    else:
        put(at(v, 333), -1)
    if r.version >= 5:
        read_number(r, at(v, 334), "replication_factor", 2, True)
    else:
        put(at(v, 334), -1)
    if r.version >= 5:
        read_structs(r, at(v, 335), "configs", r.version >= 5, read_CreatableTopicConfigs)
    else:
        put(at(v, 335), [])
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 5:
                read_number(r, at(v, 332), "topic_config_error_code", 2, True)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_CreatableTopicResult(Writer w, object v) except -1:
    if not is_a(v, 85):
        misplaced(v, <type>CLASS[85])
    write_string(w, at(v, 328), "name", False)
    if w.version >= 7:
        write_uuid(w, at(v, 329), "topic_id")
    write_number(w, at(v, 330), "error_code", 2, True)
    write_string(w, at(v, 331), "error_message", True)
    if w.version >= 5:
        write_number(w, at(v, 333), "num_partitions", 4, True)
    if w.version >= 5:
        write_number(w, at(v, 334), "replication_factor", 2, True)
    if w.version >= 5:
        write_structs(w, at(v, 335), "configs", w.version >= 5, write_CreatableTopicConfigs)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 5 and differs(at(v, 332), "topic_config_error_code", 0):
            place = begin_tag(w, 0)
            write_number(w, at(v, 332), "topic_config_error_code", 2, True)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_CreateTopicsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[86], 0)
    read_number(r, at(v, 336), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 337), "topics", False, read_CreatableTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateTopicsResponse(Writer w, object v) except -1:
    if not is_a(v, 86):
        misplaced(v, <type>CLASS[86])
    write_number(w, at(v, 336), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 337), "topics", False, write_CreatableTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteTopicState(Reader r):
    v = PyType_GenericAlloc(CLASS[87], 0)
    if r.version >= 6:
        read_string(r, at(v, 338), "name", r.version >= 6)
    else:
        put(at(v, 338), None)
    if r.version >= 6:
        read_uuid(r, at(v, 339), "topic_id")
    else:
        put(at(v, 339), "")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteTopicState(Writer w, object v) except -1:
    if not is_a(v, 87):
        misplaced(v, <type>CLASS[87])
    if w.version >= 6:
        write_string(w, at(v, 338), "name", w.version >= 6)
    elif differs(at(v, 338), "name", None):
        refuse(w, v, "name")
    if w.version >= 6:
        write_uuid(w, at(v, 339), "topic_id")
    elif differs(at(v, 339), "topic_id", ""):
        refuse(w, v, "topic_id")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteTopicsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[88], 0)
    if r.version >= 6:
        read_structs(r, at(v, 340), "topics", False, read_DeleteTopicState)
    else:
        put(at(v, 340), [])
    if r.version <= 5:
        read_strings(r, at(v, 341), "topic_names", False)
    else:
        put(at(v, 341), [])
    read_number(r, at(v, 342), "timeout_ms", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteTopicsRequest(Writer w, object v) except -1:
    if not is_a(v, 88):
        misplaced(v, <type>CLASS[88])
    if w.version >= 6:
        write_structs(w, at(v, 340), "topics", False, write_DeleteTopicState)
    elif differs(at(v, 340), "topics", ()):
        refuse(w, v, "topics")
    if w.version <= 5:
        write_strings(w, at(v, 341), "topic_names", False)
    write_number(w, at(v, 342), "timeout_ms", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeletableTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[89], 0)
    read_string(r, at(v, 343), "name", r.version >= 6)
    if r.version >= 6:
        read_uuid(r, at(v, 344), "topic_id")
    else:
        put(at(v, 344), "")
    read_number(r, at(v, 345), "error_code", 2, True)
    if r.version >= 5:
        read_string(r, at(v, 346), "error_message", r.version >= 5)
    else:
        put(at(v, 346), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeletableTopicResult(Writer w, object v) except -1:
    if not is_a(v, 89):
        misplaced(v, <type>CLASS[89])
    write_string(w, at(v, 343), "name", w.version >= 6)
    if w.version >= 6:
        write_uuid(w, at(v, 344), "topic_id")
    write_number(w, at(v, 345), "error_code", 2, True)
    if w.version >= 5:
        write_string(w, at(v, 346), "error_message", w.version >= 5)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteTopicsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[90], 0)
    read_number(r, at(v, 347), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 348), "responses", False, read_DeletableTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteTopicsResponse(Writer w, object v) except -1:
    if not is_a(v, 90):
        misplaced(v, <type>CLASS[90])
    write_number(w, at(v, 347), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 348), "responses", False, write_DeletableTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[91], 0)
    read_number(r, at(v, 349), "partition_index", 4, True)
    read_number(r, at(v, 350), "offset", 8, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsPartition(Writer w, object v) except -1:
    if not is_a(v, 91):
        misplaced(v, <type>CLASS[91])
    write_number(w, at(v, 349), "partition_index", 4, True)
    write_number(w, at(v, 350), "offset", 8, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[92], 0)
    read_string(r, at(v, 351), "name", False)
    read_structs(r, at(v, 352), "partitions", False, read_DeleteRecordsPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsTopic(Writer w, object v) except -1:
    if not is_a(v, 92):
        misplaced(v, <type>CLASS[92])
    write_string(w, at(v, 351), "name", False)
    write_structs(w, at(v, 352), "partitions", False, write_DeleteRecordsPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[93], 0)
    read_structs(r, at(v, 353), "topics", False, read_DeleteRecordsTopic)
    read_number(r, at(v, 354), "timeout_ms", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsRequest(Writer w, object v) except -1:
    if not is_a(v, 93):
        misplaced(v, <type>CLASS[93])
    write_structs(w, at(v, 353), "topics", False, write_DeleteRecordsTopic)
    write_number(w, at(v, 354), "timeout_ms", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsPartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[94], 0)
    read_number(r, at(v, 355), "partition_index", 4, True)
    read_number(r, at(v, 356), "low_watermark", 8, True)
    read_number(r, at(v, 357), "error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsPartitionResult(Writer w, object v) except -1:
    if not is_a(v, 94):
        misplaced(v, <type>CLASS[94])
    write_number(w, at(v, 355), "partition_index", 4, True)
    write_number(w, at(v, 356), "low_watermark", 8, True)
    write_number(w, at(v, 357), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[95], 0)
    read_string(r, at(v, 358), "name", False)
    read_structs(r, at(v, 359), "partitions", False, read_DeleteRecordsPartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsTopicResult(Writer w, object v) except -1:
    if not is_a(v, 95):
        misplaced(v, <type>CLASS[95])
    write_string(w, at(v, 358), "name", False)
    write_structs(w, at(v, 359), "partitions", False, write_DeleteRecordsPartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[96], 0)
    read_number(r, at(v, 360), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 361), "topics", False, read_DeleteRecordsTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsResponse(Writer w, object v) except -1:
    if not is_a(v, 96):
        misplaced(v, <type>CLASS[96])
    write_number(w, at(v, 360), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 361), "topics", False, write_DeleteRecordsTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_InitProducerIdRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[97], 0)
    read_string(r, at(v, 362), "transactional_id", True)
    read_number(r, at(v, 363), "transaction_timeout_ms", 4, True)
    if r.version >= 3:
        read_number(r, at(v, 364), "producer_id", 8, True)
    else:
        put(at(v, 364), -1)
    if r.version >= 3:
        read_number(r, at(v, 365), "producer_epoch", 2, True)
    else:
        put(at(v, 365), -1)
    if r.version >= 6:
        read_bool(r, at(v, 366), "enable2_pc")
    else:
        put(at(v, 366), False)
    if r.version >= 6:
        read_bool(r, at(v, 367), "keep_prepared_txn")
    else:
        put(at(v, 367), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_InitProducerIdRequest(Writer w, object v) except -1:
    if not is_a(v, 97):
        misplaced(v, <type>CLASS[97])
    write_string(w, at(v, 362), "transactional_id", True)
    write_number(w, at(v, 363), "transaction_timeout_ms", 4, True)
    if w.version >= 3:
        write_number(w, at(v, 364), "producer_id", 8, True)
    elif differs(at(v, 364), "producer_id", -1):
        refuse(w, v, "producer_id")
    if w.version >= 3:
        write_number(w, at(v, 365), "producer_epoch", 2, True)
    elif differs(at(v, 365), "producer_epoch", -1):
        refuse(w, v, "producer_epoch")
    if w.version >= 6:
        write_bool(w, at(v, 366), "enable2_pc")
    elif differs(at(v, 366), "enable2_pc", False):
        refuse(w, v, "enable2_pc")
    if w.version >= 6:
        write_bool(w, at(v, 367), "keep_prepared_txn")
    elif differs(at(v, 367), "keep_prepared_txn", False):
        refuse(w, v, "keep_prepared_txn")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_InitProducerIdResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[98], 0)
    read_number(r, at(v, 368), "throttle_time_ms", 4, True)
    read_number(r, at(v, 369), "error_code", 2, True)
    read_number(r, at(v, 370), "producer_id", 8, True)
    read_number(r, at(v, 371), "producer_epoch", 2, True)
    if r.version >= 6:
        read_number(r, at(v, 372), "ongoing_txn_producer_id", 8, True)
    else:
        put(at(v, 372), -1)
    if r.version >= 6:
        read_number(r, at(v, 373), "ongoing_txn_producer_epoch", 2, True)
    else:
        put(at(v, 373), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_InitProducerIdResponse(Writer w, object v) except -1:
    if not is_a(v, 98):
        misplaced(v, <type>CLASS[98])
    write_number(w, at(v, 368), "throttle_time_ms", 4, True)
    write_number(w, at(v, 369), "error_code", 2, True)
    write_number(w, at(v, 370), "producer_id", 8, True)
    write_number(w, at(v, 371), "producer_epoch", 2, True)
    if w.version >= 6:
        write_number(w, at(v, 372), "ongoing_txn_producer_id", 8, True)
    elif differs(at(v, 372), "ongoing_txn_producer_id", -1):
        refuse(w, v, "ongoing_txn_producer_id")
    if w.version >= 6:
        write_number(w, at(v, 373), "ongoing_txn_producer_epoch", 2, True)
    elif differs(at(v, 373), "ongoing_txn_producer_epoch", -1):
        refuse(w, v, "ongoing_txn_producer_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[99], 0)
    read_number(r, at(v, 374), "partition", 4, True)
    read_number(r, at(v, 375), "current_leader_epoch", 4, True)
    read_number(r, at(v, 376), "leader_epoch", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderPartition(Writer w, object v) except -1:
    if not is_a(v, 99):
        misplaced(v, <type>CLASS[99])
    write_number(w, at(v, 374), "partition", 4, True)
    write_number(w, at(v, 375), "current_leader_epoch", 4, True)
    write_number(w, at(v, 376), "leader_epoch", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[100], 0)
    read_string(r, at(v, 377), "topic", False)
    read_structs(r, at(v, 378), "partitions", False, read_OffsetForLeaderPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderTopic(Writer w, object v) except -1:
    if not is_a(v, 100):
        misplaced(v, <type>CLASS[100])
    write_string(w, at(v, 377), "topic", False)
    write_structs(w, at(v, 378), "partitions", False, write_OffsetForLeaderPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderEpochRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[101], 0)
    if r.version >= 3:
        read_number(r, at(v, 379), "replica_id", 4, True)
    else:
        put(at(v, 379), -2)
    read_structs(r, at(v, 380), "topics", False, read_OffsetForLeaderTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderEpochRequest(Writer w, object v) except -1:
    if not is_a(v, 101):
        misplaced(v, <type>CLASS[101])
    if w.version >= 3:
        write_number(w, at(v, 379), "replica_id", 4, True)
    write_structs(w, at(v, 380), "topics", False, write_OffsetForLeaderTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderEpochResponse_EpochEndOffset(Reader r):
    v = PyType_GenericAlloc(CLASS[102], 0)
    read_number(r, at(v, 381), "error_code", 2, True)
    read_number(r, at(v, 382), "partition", 4, True)
    read_number(r, at(v, 383), "leader_epoch", 4, True)
    read_number(r, at(v, 384), "end_offset", 8, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderEpochResponse_EpochEndOffset(Writer w, object v) except -1:
    if not is_a(v, 102):
        misplaced(v, <type>CLASS[102])
    write_number(w, at(v, 381), "error_code", 2, True)
    write_number(w, at(v, 382), "partition", 4, True)
    write_number(w, at(v, 383), "leader_epoch", 4, True)
    write_number(w, at(v, 384), "end_offset", 8, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[103], 0)
    read_string(r, at(v, 385), "topic", False)
    read_structs(r, at(v, 386), "partitions", False, read_OffsetForLeaderEpochResponse_EpochEndOffset)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderTopicResult(Writer w, object v) except -1:
    if not is_a(v, 103):
        misplaced(v, <type>CLASS[103])
    write_string(w, at(v, 385), "topic", False)
    write_structs(w, at(v, 386), "partitions", False, write_OffsetForLeaderEpochResponse_EpochEndOffset)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderEpochResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[104], 0)
    read_number(r, at(v, 387), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 388), "topics", False, read_OffsetForLeaderTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderEpochResponse(Writer w, object v) except -1:
    if not is_a(v, 104):
        misplaced(v, <type>CLASS[104])
    write_number(w, at(v, 387), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 388), "topics", False, write_OffsetForLeaderTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[105], 0)
    read_string(r, at(v, 389), "name", False)
    read_numbers(r, at(v, 390), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnTopic(Writer w, object v) except -1:
    if not is_a(v, 105):
        misplaced(v, <type>CLASS[105])
    write_string(w, at(v, 389), "name", False)
    write_numbers(w, at(v, 390), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnTransaction(Reader r):
    v = PyType_GenericAlloc(CLASS[106], 0)
    if r.version >= 4:
        read_string(r, at(v, 391), "transactional_id", False)
    else:
        put(at(v, 391), "")
    if r.version >= 4:
        read_number(r, at(v, 392), "producer_id", 8, True)
    else:
        put(at(v, 392), 0)
    if r.version >= 4:
        read_number(r, at(v, 393), "producer_epoch", 2, True)
    else:
        put(at(v, 393), 0)
    if r.version >= 4:
        read_bool(r, at(v, 394), "verify_only")
    else:
        put(at(v, 394), False)
    if r.version >= 4:
        read_structs(r, at(v, 395), "topics", False, read_AddPartitionsToTxnTopic)
    else:
        put(at(v, 395), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnTransaction(Writer w, object v) except -1:
    if not is_a(v, 106):
        misplaced(v, <type>CLASS[106])
    if w.version >= 4:
        write_string(w, at(v, 391), "transactional_id", False)
    elif differs(at(v, 391), "transactional_id", ""):
        refuse(w, v, "transactional_id")
    if w.version >= 4:
        write_number(w, at(v, 392), "producer_id", 8, True)
    elif differs(at(v, 392), "producer_id", 0):
        refuse(w, v, "producer_id")
    if w.version >= 4:
        write_number(w, at(v, 393), "producer_epoch", 2, True)
    elif differs(at(v, 393), "producer_epoch", 0):
        refuse(w, v, "producer_epoch")
    if w.version >= 4:
        write_bool(w, at(v, 394), "verify_only")
    elif differs(at(v, 394), "verify_only", False):
        refuse(w, v, "verify_only")
    if w.version >= 4:
        write_structs(w, at(v, 395), "topics", False, write_AddPartitionsToTxnTopic)
    elif differs(at(v, 395), "topics", ()):
        refuse(w, v, "topics")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[107], 0)
    if r.version >= 4:
        read_structs(r, at(v, 396), "transactions", False, read_AddPartitionsToTxnTransaction)
    else:
        put(at(v, 396), [])
    if r.version <= 3:
        read_string(r, at(v, 397), "v3_and_below_transactional_id", False)
    else:
        put(at(v, 397), "")
    if r.version <= 3:
        read_number(r, at(v, 398), "v3_and_below_producer_id", 8, True)
    else:
        put(at(v, 398), 0)
    if r.version <= 3:
        read_number(r, at(v, 399), "v3_and_below_producer_epoch", 2, True)
    else:
        put(at(v, 399), 0)
    if r.version <= 3:
        read_structs(r, at(v, 400), "v3_and_below_topics", False, read_AddPartitionsToTxnTopic)
    else:
        put(at(v, 400), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnRequest(Writer w, object v) except -1:
    if not is_a(v, 107):
        misplaced(v, <type>CLASS[107])
    if w.version >= 4:
        write_structs(w, at(v, 396), "transactions", False, write_AddPartitionsToTxnTransaction)
    elif differs(at(v, 396), "transactions", ()):
        refuse(w, v, "transactions")
    if w.version <= 3:
        write_string(w, at(v, 397), "v3_and_below_transactional_id", False)
    elif differs(at(v, 397), "v3_and_below_transactional_id", ""):
        refuse(w, v, "v3_and_below_transactional_id")
    if w.version <= 3:
        write_number(w, at(v, 398), "v3_and_below_producer_id", 8, True)
    elif differs(at(v, 398), "v3_and_below_producer_id", 0):
        refuse(w, v, "v3_and_below_producer_id")
    if w.version <= 3:
        write_number(w, at(v, 399), "v3_and_below_producer_epoch", 2, True)
    elif differs(at(v, 399), "v3_and_below_producer_epoch", 0):
        refuse(w, v, "v3_and_below_producer_epoch")
    if w.version <= 3:
        write_structs(w, at(v, 400), "v3_and_below_topics", False, write_AddPartitionsToTxnTopic)
    elif differs(at(v, 400), "v3_and_below_topics", ()):
        refuse(w, v, "v3_and_below_topics")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[108], 0)
    read_string(r, at(v, 401), "name", False)
    read_structs(r, at(v, 402), "results_by_partition", False, read_AddPartitionsToTxnPartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnTopicResult(Writer w, object v) except -1:
    if not is_a(v, 108):
        misplaced(v, <type>CLASS[108])
    write_string(w, at(v, 401), "name", False)
    write_structs(w, at(v, 402), "results_by_partition", False, write_AddPartitionsToTxnPartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnPartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[109], 0)
    read_number(r, at(v, 403), "partition_index", 4, True)
    read_number(r, at(v, 404), "partition_error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnPartitionResult(Writer w, object v) except -1:
    if not is_a(v, 109):
        misplaced(v, <type>CLASS[109])
    write_number(w, at(v, 403), "partition_index", 4, True)
    write_number(w, at(v, 404), "partition_error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnResult(Reader r):
    v = PyType_GenericAlloc(CLASS[110], 0)
    if r.version >= 4:
        read_string(r, at(v, 405), "transactional_id", False)
    else:
        put(at(v, 405), "")
    if r.version >= 4:
        read_structs(r, at(v, 406), "topic_results", False, read_AddPartitionsToTxnTopicResult)
    else:
        put(at(v, 406), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnResult(Writer w, object v) except -1:
    if not is_a(v, 110):
        misplaced(v, <type>CLASS[110])
    if w.version >= 4:
        write_string(w, at(v, 405), "transactional_id", False)
    elif differs(at(v, 405), "transactional_id", ""):
        refuse(w, v, "transactional_id")
    if w.version >= 4:
        write_structs(w, at(v, 406), "topic_results", False, write_AddPartitionsToTxnTopicResult)
    elif differs(at(v, 406), "topic_results", ()):
        refuse(w, v, "topic_results")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[111], 0)
    read_number(r, at(v, 407), "throttle_time_ms", 4, True)
    if r.version >= 4:
        read_number(r, at(v, 408), "error_code", 2, True)
    else:
        put(at(v, 408), 0)
    if r.version >= 4:
        read_structs(r, at(v, 409), "results_by_transaction", False, read_AddPartitionsToTxnResult)
    else:
        put(at(v, 409), [])
    if r.version <= 3:
        read_structs(r, at(v, 410), "results_by_topic_v3_and_below", False, read_AddPartitionsToTxnTopicResult)
    else:
        put(at(v, 410), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnResponse(Writer w, object v) except -1:
    if not is_a(v, 111):
        misplaced(v, <type>CLASS[111])
    write_number(w, at(v, 407), "throttle_time_ms", 4, True)
    if w.version >= 4:
        write_number(w, at(v, 408), "error_code", 2, True)
    if w.version >= 4:
        write_structs(w, at(v, 409), "results_by_transaction", False, write_AddPartitionsToTxnResult)
    elif differs(at(v, 409), "results_by_transaction", ()):
        refuse(w, v, "results_by_transaction")
    if w.version <= 3:
        write_structs(w, at(v, 410), "results_by_topic_v3_and_below", False, write_AddPartitionsToTxnTopicResult)
    elif differs(at(v, 410), "results_by_topic_v3_and_below", ()):
        refuse(w, v, "results_by_topic_v3_and_below")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddOffsetsToTxnRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[112], 0)
    read_string(r, at(v, 411), "transactional_id", False)
    read_number(r, at(v, 412), "producer_id", 8, True)
    read_number(r, at(v, 413), "producer_epoch", 2, True)
    read_string(r, at(v, 414), "group_id", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddOffsetsToTxnRequest(Writer w, object v) except -1:
    if not is_a(v, 112):
        misplaced(v, <type>CLASS[112])
    write_string(w, at(v, 411), "transactional_id", False)
    write_number(w, at(v, 412), "producer_id", 8, True)
    write_number(w, at(v, 413), "producer_epoch", 2, True)
    write_string(w, at(v, 414), "group_id", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddOffsetsToTxnResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[113], 0)
    read_number(r, at(v, 415), "throttle_time_ms", 4, True)
    read_number(r, at(v, 416), "error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddOffsetsToTxnResponse(Writer w, object v) except -1:
    if not is_a(v, 113):
        misplaced(v, <type>CLASS[113])
    write_number(w, at(v, 415), "throttle_time_ms", 4, True)
    write_number(w, at(v, 416), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_EndTxnRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[114], 0)
    read_string(r, at(v, 417), "transactional_id", False)
    read_number(r, at(v, 418), "producer_id", 8, True)
    read_number(r, at(v, 419), "producer_epoch", 2, True)
    read_bool(r, at(v, 420), "committed")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_EndTxnRequest(Writer w, object v) except -1:
    if not is_a(v, 114):
        misplaced(v, <type>CLASS[114])
    write_string(w, at(v, 417), "transactional_id", False)
    write_number(w, at(v, 418), "producer_id", 8, True)
    write_number(w, at(v, 419), "producer_epoch", 2, True)
    write_bool(w, at(v, 420), "committed")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_EndTxnResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[115], 0)
    read_number(r, at(v, 421), "throttle_time_ms", 4, True)
    read_number(r, at(v, 422), "error_code", 2, True)
    if r.version >= 5:
        read_number(r, at(v, 423), "producer_id", 8, True)
    else:
        put(at(v, 423), -1)
    if r.version >= 5:
        read_number(r, at(v, 424), "producer_epoch", 2, True)
    else:
        put(at(v, 424), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_EndTxnResponse(Writer w, object v) except -1:
    if not is_a(v, 115):
        misplaced(v, <type>CLASS[115])
    write_number(w, at(v, 421), "throttle_time_ms", 4, True)
    write_number(w, at(v, 422), "error_code", 2, True)
    if w.version >= 5:
        write_number(w, at(v, 423), "producer_id", 8, True)
    if w.version >= 5:
        write_number(w, at(v, 424), "producer_epoch", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitRequestPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[116], 0)
    read_number(r, at(v, 425), "partition_index", 4, True)
    read_number(r, at(v, 426), "committed_offset", 8, True)
    if r.version >= 2:
        read_number(r, at(v, 427), "committed_leader_epoch", 4, True)
    else:
        put(at(v, 427), -1)
    read_string(r, at(v, 428), "committed_metadata", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitRequestPartition(Writer w, object v) except -1:
    if not is_a(v, 116):
        misplaced(v, <type>CLASS[116])
    write_number(w, at(v, 425), "partition_index", 4, True)
    write_number(w, at(v, 426), "committed_offset", 8, True)
    if w.version >= 2:
        write_number(w, at(v, 427), "committed_leader_epoch", 4, True)
    write_string(w, at(v, 428), "committed_metadata", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[117], 0)
    read_string(r, at(v, 429), "name", False)
    read_structs(r, at(v, 430), "partitions", False, read_TxnOffsetCommitRequestPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitRequestTopic(Writer w, object v) except -1:
    if not is_a(v, 117):
        misplaced(v, <type>CLASS[117])
    write_string(w, at(v, 429), "name", False)
    write_structs(w, at(v, 430), "partitions", False, write_TxnOffsetCommitRequestPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[118], 0)
    read_string(r, at(v, 431), "transactional_id", False)
    read_string(r, at(v, 432), "group_id", False)
    read_number(r, at(v, 433), "producer_id", 8, True)
    read_number(r, at(v, 434), "producer_epoch", 2, True)
    if r.version >= 3:
        read_number(r, at(v, 435), "generation_id", 4, True)
    else:
        put(at(v, 435), -1)
    if r.version >= 3:
        read_string(r, at(v, 436), "member_id", False)
    else:
        put(at(v, 436), "")
    if r.version >= 3:
        read_string(r, at(v, 437), "group_instance_id", r.version >= 3)
    else:
        put(at(v, 437), None)
    read_structs(r, at(v, 438), "topics", False, read_TxnOffsetCommitRequestTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitRequest(Writer w, object v) except -1:
    if not is_a(v, 118):
        misplaced(v, <type>CLASS[118])
    write_string(w, at(v, 431), "transactional_id", False)
    write_string(w, at(v, 432), "group_id", False)
    write_number(w, at(v, 433), "producer_id", 8, True)
    write_number(w, at(v, 434), "producer_epoch", 2, True)
    if w.version >= 3:
        write_number(w, at(v, 435), "generation_id", 4, True)
    elif differs(at(v, 435), "generation_id", -1):
        refuse(w, v, "generation_id")
    if w.version >= 3:
        write_string(w, at(v, 436), "member_id", False)
    elif differs(at(v, 436), "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_string(w, at(v, 437), "group_instance_id", w.version >= 3)
    elif differs(at(v, 437), "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    write_structs(w, at(v, 438), "topics", False, write_TxnOffsetCommitRequestTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[119], 0)
    read_number(r, at(v, 439), "partition_index", 4, True)
    read_number(r, at(v, 440), "error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitResponsePartition(Writer w, object v) except -1:
    if not is_a(v, 119):
        misplaced(v, <type>CLASS[119])
    write_number(w, at(v, 439), "partition_index", 4, True)
    write_number(w, at(v, 440), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[120], 0)
    read_string(r, at(v, 441), "name", False)
    read_structs(r, at(v, 442), "partitions", False, read_TxnOffsetCommitResponsePartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitResponseTopic(Writer w, object v) except -1:
    if not is_a(v, 120):
        misplaced(v, <type>CLASS[120])
    write_string(w, at(v, 441), "name", False)
    write_structs(w, at(v, 442), "partitions", False, write_TxnOffsetCommitResponsePartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[121], 0)
    read_number(r, at(v, 443), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 444), "topics", False, read_TxnOffsetCommitResponseTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitResponse(Writer w, object v) except -1:
    if not is_a(v, 121):
        misplaced(v, <type>CLASS[121])
    write_number(w, at(v, 443), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 444), "topics", False, write_TxnOffsetCommitResponseTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeAclsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[122], 0)
    read_number(r, at(v, 445), "resource_type_filter", 1, True)
    read_string(r, at(v, 446), "resource_name_filter", True)
    read_number(r, at(v, 447), "pattern_type_filter", 1, True)
    read_string(r, at(v, 448), "principal_filter", True)
    read_string(r, at(v, 449), "host_filter", True)
    read_number(r, at(v, 450), "operation", 1, True)
    read_number(r, at(v, 451), "permission_type", 1, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeAclsRequest(Writer w, object v) except -1:
    if not is_a(v, 122):
        misplaced(v, <type>CLASS[122])
    write_number(w, at(v, 445), "resource_type_filter", 1, True)
    write_string(w, at(v, 446), "resource_name_filter", True)
    write_number(w, at(v, 447), "pattern_type_filter", 1, True)
    write_string(w, at(v, 448), "principal_filter", True)
    write_string(w, at(v, 449), "host_filter", True)
    write_number(w, at(v, 450), "operation", 1, True)
    write_number(w, at(v, 451), "permission_type", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AclDescription(Reader r):
    v = PyType_GenericAlloc(CLASS[123], 0)
    read_string(r, at(v, 452), "principal", False)
    read_string(r, at(v, 453), "host", False)
    read_number(r, at(v, 454), "operation", 1, True)
    read_number(r, at(v, 455), "permission_type", 1, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AclDescription(Writer w, object v) except -1:
    if not is_a(v, 123):
        misplaced(v, <type>CLASS[123])
    write_string(w, at(v, 452), "principal", False)
    write_string(w, at(v, 453), "host", False)
    write_number(w, at(v, 454), "operation", 1, True)
    write_number(w, at(v, 455), "permission_type", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeAclsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[124], 0)
    read_number(r, at(v, 456), "resource_type", 1, True)
    read_string(r, at(v, 457), "resource_name", False)
    read_number(r, at(v, 458), "pattern_type", 1, True)
    read_structs(r, at(v, 459), "acls", False, read_AclDescription)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeAclsResource(Writer w, object v) except -1:
    if not is_a(v, 124):
        misplaced(v, <type>CLASS[124])
    write_number(w, at(v, 456), "resource_type", 1, True)
    write_string(w, at(v, 457), "resource_name", False)
    write_number(w, at(v, 458), "pattern_type", 1, True)
    write_structs(w, at(v, 459), "acls", False, write_AclDescription)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeAclsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[125], 0)
    read_number(r, at(v, 460), "throttle_time_ms", 4, True)
    read_number(r, at(v, 461), "error_code", 2, True)
    read_string(r, at(v, 462), "error_message", True)
    read_structs(r, at(v, 463), "resources", False, read_DescribeAclsResource)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeAclsResponse(Writer w, object v) except -1:
    if not is_a(v, 125):
        misplaced(v, <type>CLASS[125])
    write_number(w, at(v, 460), "throttle_time_ms", 4, True)
    write_number(w, at(v, 461), "error_code", 2, True)
    write_string(w, at(v, 462), "error_message", True)
    write_structs(w, at(v, 463), "resources", False, write_DescribeAclsResource)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AclCreation(Reader r):
    v = PyType_GenericAlloc(CLASS[126], 0)
    read_number(r, at(v, 464), "resource_type", 1, True)
    read_string(r, at(v, 465), "resource_name", False)
    read_number(r, at(v, 466), "resource_pattern_type", 1, True)
    read_string(r, at(v, 467), "principal", False)
    read_string(r, at(v, 468), "host", False)
    read_number(r, at(v, 469), "operation", 1, True)
    read_number(r, at(v, 470), "permission_type", 1, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AclCreation(Writer w, object v) except -1:
    if not is_a(v, 126):
        misplaced(v, <type>CLASS[126])
    write_number(w, at(v, 464), "resource_type", 1, True)
    write_string(w, at(v, 465), "resource_name", False)
    write_number(w, at(v, 466), "resource_pattern_type", 1, True)
    write_string(w, at(v, 467), "principal", False)
    write_string(w, at(v, 468), "host", False)
    write_number(w, at(v, 469), "operation", 1, True)
    write_number(w, at(v, 470), "permission_type", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreateAclsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[127], 0)
    read_structs(r, at(v, 471), "creations", False, read_AclCreation)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateAclsRequest(Writer w, object v) except -1:
    if not is_a(v, 127):
        misplaced(v, <type>CLASS[127])
    write_structs(w, at(v, 471), "creations", False, write_AclCreation)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AclCreationResult(Reader r):
    v = PyType_GenericAlloc(CLASS[128], 0)
    read_number(r, at(v, 472), "error_code", 2, True)
    read_string(r, at(v, 473), "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AclCreationResult(Writer w, object v) except -1:
    if not is_a(v, 128):
        misplaced(v, <type>CLASS[128])
    write_number(w, at(v, 472), "error_code", 2, True)
    write_string(w, at(v, 473), "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreateAclsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[129], 0)
    read_number(r, at(v, 474), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 475), "results", False, read_AclCreationResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateAclsResponse(Writer w, object v) except -1:
    if not is_a(v, 129):
        misplaced(v, <type>CLASS[129])
    write_number(w, at(v, 474), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 475), "results", False, write_AclCreationResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsFilter(Reader r):
    v = PyType_GenericAlloc(CLASS[130], 0)
    read_number(r, at(v, 476), "resource_type_filter", 1, True)
    read_string(r, at(v, 477), "resource_name_filter", True)
    read_number(r, at(v, 478), "pattern_type_filter", 1, True)
    read_string(r, at(v, 479), "principal_filter", True)
    read_string(r, at(v, 480), "host_filter", True)
    read_number(r, at(v, 481), "operation", 1, True)
    read_number(r, at(v, 482), "permission_type", 1, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsFilter(Writer w, object v) except -1:
    if not is_a(v, 130):
        misplaced(v, <type>CLASS[130])
    write_number(w, at(v, 476), "resource_type_filter", 1, True)
    write_string(w, at(v, 477), "resource_name_filter", True)
    write_number(w, at(v, 478), "pattern_type_filter", 1, True)
    write_string(w, at(v, 479), "principal_filter", True)
    write_string(w, at(v, 480), "host_filter", True)
    write_number(w, at(v, 481), "operation", 1, True)
    write_number(w, at(v, 482), "permission_type", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[131], 0)
    read_structs(r, at(v, 483), "filters", False, read_DeleteAclsFilter)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsRequest(Writer w, object v) except -1:
    if not is_a(v, 131):
        misplaced(v, <type>CLASS[131])
    write_structs(w, at(v, 483), "filters", False, write_DeleteAclsFilter)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsMatchingAcl(Reader r):
    v = PyType_GenericAlloc(CLASS[132], 0)
    read_number(r, at(v, 484), "error_code", 2, True)
    read_string(r, at(v, 485), "error_message", True)
    read_number(r, at(v, 486), "resource_type", 1, True)
    read_string(r, at(v, 487), "resource_name", False)
    read_number(r, at(v, 488), "pattern_type", 1, True)
    read_string(r, at(v, 489), "principal", False)
    read_string(r, at(v, 490), "host", False)
    read_number(r, at(v, 491), "operation", 1, True)
    read_number(r, at(v, 492), "permission_type", 1, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsMatchingAcl(Writer w, object v) except -1:
    if not is_a(v, 132):
        misplaced(v, <type>CLASS[132])
    write_number(w, at(v, 484), "error_code", 2, True)
    write_string(w, at(v, 485), "error_message", True)
    write_number(w, at(v, 486), "resource_type", 1, True)
    write_string(w, at(v, 487), "resource_name", False)
    write_number(w, at(v, 488), "pattern_type", 1, True)
    write_string(w, at(v, 489), "principal", False)
    write_string(w, at(v, 490), "host", False)
    write_number(w, at(v, 491), "operation", 1, True)
    write_number(w, at(v, 492), "permission_type", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsFilterResult(Reader r):
    v = PyType_GenericAlloc(CLASS[133], 0)
    read_number(r, at(v, 493), "error_code", 2, True)
    read_string(r, at(v, 494), "error_message", True)
    read_structs(r, at(v, 495), "matching_acls", False, read_DeleteAclsMatchingAcl)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsFilterResult(Writer w, object v) except -1:
    if not is_a(v, 133):
        misplaced(v, <type>CLASS[133])
    write_number(w, at(v, 493), "error_code", 2, True)
    write_string(w, at(v, 494), "error_message", True)
    write_structs(w, at(v, 495), "matching_acls", False, write_DeleteAclsMatchingAcl)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[134], 0)
    read_number(r, at(v, 496), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 497), "filter_results", False, read_DeleteAclsFilterResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsResponse(Writer w, object v) except -1:
    if not is_a(v, 134):
        misplaced(v, <type>CLASS[134])
    write_number(w, at(v, 496), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 497), "filter_results", False, write_DeleteAclsFilterResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[135], 0)
    read_number(r, at(v, 498), "resource_type", 1, True)
    read_string(r, at(v, 499), "resource_name", False)
    read_strings(r, at(v, 500), "configuration_keys", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResource(Writer w, object v) except -1:
    if not is_a(v, 135):
        misplaced(v, <type>CLASS[135])
    write_number(w, at(v, 498), "resource_type", 1, True)
    write_string(w, at(v, 499), "resource_name", False)
    write_strings(w, at(v, 500), "configuration_keys", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[136], 0)
    read_structs(r, at(v, 501), "resources", False, read_DescribeConfigsResource)
    read_bool(r, at(v, 502), "include_synonyms")
    if r.version >= 3:
        read_bool(r, at(v, 503), "include_documentation")
    else:
        put(at(v, 503), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsRequest(Writer w, object v) except -1:
    if not is_a(v, 136):
        misplaced(v, <type>CLASS[136])
    write_structs(w, at(v, 501), "resources", False, write_DescribeConfigsResource)
    write_bool(w, at(v, 502), "include_synonyms")
    if w.version >= 3:
        write_bool(w, at(v, 503), "include_documentation")
    elif differs(at(v, 503), "include_documentation", False):
        refuse(w, v, "include_documentation")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsSynonym(Reader r):
    v = PyType_GenericAlloc(CLASS[137], 0)
    read_string(r, at(v, 504), "name", False)
    read_string(r, at(v, 505), "value", True)
    read_number(r, at(v, 506), "source", 1, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsSynonym(Writer w, object v) except -1:
    if not is_a(v, 137):
        misplaced(v, <type>CLASS[137])
    write_string(w, at(v, 504), "name", False)
    write_string(w, at(v, 505), "value", True)
    write_number(w, at(v, 506), "source", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResourceResult(Reader r):
    v = PyType_GenericAlloc(CLASS[138], 0)
    read_string(r, at(v, 507), "name", False)
    read_string(r, at(v, 508), "value", True)
    read_bool(r, at(v, 509), "read_only")
    read_number(r, at(v, 510), "config_source", 1, True)
    read_bool(r, at(v, 511), "is_sensitive")
    read_structs(r, at(v, 512), "synonyms", False, read_DescribeConfigsSynonym)
    if r.version >= 3:
        read_number(r, at(v, 513), "config_type", 1, True)
    else:
        put(at(v, 513), 0)
    if r.version >= 3:
        read_string(r, at(v, 514), "documentation", r.version >= 3)
    else:
        put(at(v, 514), "")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResourceResult(Writer w, object v) except -1:
    if not is_a(v, 138):
        misplaced(v, <type>CLASS[138])
    write_string(w, at(v, 507), "name", False)
    write_string(w, at(v, 508), "value", True)
    write_bool(w, at(v, 509), "read_only")
    write_number(w, at(v, 510), "config_source", 1, True)
    write_bool(w, at(v, 511), "is_sensitive")
    write_structs(w, at(v, 512), "synonyms", False, write_DescribeConfigsSynonym)
    if w.version >= 3:
        write_number(w, at(v, 513), "config_type", 1, True)
    if w.version >= 3:
        write_string(w, at(v, 514), "documentation", w.version >= 3)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[139], 0)
    read_number(r, at(v, 515), "error_code", 2, True)
    read_string(r, at(v, 516), "error_message", True)
    read_number(r, at(v, 517), "resource_type", 1, True)
    read_string(r, at(v, 518), "resource_name", False)
    read_structs(r, at(v, 519), "configs", False, read_DescribeConfigsResourceResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResult(Writer w, object v) except -1:
    if not is_a(v, 139):
        misplaced(v, <type>CLASS[139])
    write_number(w, at(v, 515), "error_code", 2, True)
    write_string(w, at(v, 516), "error_message", True)
    write_number(w, at(v, 517), "resource_type", 1, True)
    write_string(w, at(v, 518), "resource_name", False)
    write_structs(w, at(v, 519), "configs", False, write_DescribeConfigsResourceResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[140], 0)
    read_number(r, at(v, 520), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 521), "results", False, read_DescribeConfigsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResponse(Writer w, object v) except -1:
    if not is_a(v, 140):
        misplaced(v, <type>CLASS[140])
    write_number(w, at(v, 520), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 521), "results", False, write_DescribeConfigsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsRequest_AlterableConfig(Reader r):
    v = PyType_GenericAlloc(CLASS[141], 0)
    read_string(r, at(v, 522), "name", False)
    read_string(r, at(v, 523), "value", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsRequest_AlterableConfig(Writer w, object v) except -1:
    if not is_a(v, 141):
        misplaced(v, <type>CLASS[141])
    write_string(w, at(v, 522), "name", False)
    write_string(w, at(v, 523), "value", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsRequest_AlterConfigsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[142], 0)
    read_number(r, at(v, 524), "resource_type", 1, True)
    read_string(r, at(v, 525), "resource_name", False)
    read_structs(r, at(v, 526), "configs", False, read_AlterConfigsRequest_AlterableConfig)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsRequest_AlterConfigsResource(Writer w, object v) except -1:
    if not is_a(v, 142):
        misplaced(v, <type>CLASS[142])
    write_number(w, at(v, 524), "resource_type", 1, True)
    write_string(w, at(v, 525), "resource_name", False)
    write_structs(w, at(v, 526), "configs", False, write_AlterConfigsRequest_AlterableConfig)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[143], 0)
    read_structs(r, at(v, 527), "resources", False, read_AlterConfigsRequest_AlterConfigsResource)
    read_bool(r, at(v, 528), "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsRequest(Writer w, object v) except -1:
    if not is_a(v, 143):
        misplaced(v, <type>CLASS[143])
    write_structs(w, at(v, 527), "resources", False, write_AlterConfigsRequest_AlterConfigsResource)
    write_bool(w, at(v, 528), "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsResponse_AlterConfigsResourceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[144], 0)
    read_number(r, at(v, 529), "error_code", 2, True)
    read_string(r, at(v, 530), "error_message", True)
    read_number(r, at(v, 531), "resource_type", 1, True)
    read_string(r, at(v, 532), "resource_name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsResponse_AlterConfigsResourceResponse(Writer w, object v) except -1:
    if not is_a(v, 144):
        misplaced(v, <type>CLASS[144])
    write_number(w, at(v, 529), "error_code", 2, True)
    write_string(w, at(v, 530), "error_message", True)
    write_number(w, at(v, 531), "resource_type", 1, True)
    write_string(w, at(v, 532), "resource_name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[145], 0)
    read_number(r, at(v, 533), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 534), "responses", False, read_AlterConfigsResponse_AlterConfigsResourceResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsResponse(Writer w, object v) except -1:
    if not is_a(v, 145):
        misplaced(v, <type>CLASS[145])
    write_number(w, at(v, 533), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 534), "responses", False, write_AlterConfigsResponse_AlterConfigsResourceResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[146], 0)
    read_string(r, at(v, 535), "name", False)
    read_numbers(r, at(v, 536), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirTopic(Writer w, object v) except -1:
    if not is_a(v, 146):
        misplaced(v, <type>CLASS[146])
    write_string(w, at(v, 535), "name", False)
    write_numbers(w, at(v, 536), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDir(Reader r):
    v = PyType_GenericAlloc(CLASS[147], 0)
    read_string(r, at(v, 537), "path", False)
    read_structs(r, at(v, 538), "topics", False, read_AlterReplicaLogDirTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDir(Writer w, object v) except -1:
    if not is_a(v, 147):
        misplaced(v, <type>CLASS[147])
    write_string(w, at(v, 537), "path", False)
    write_structs(w, at(v, 538), "topics", False, write_AlterReplicaLogDirTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[148], 0)
    read_structs(r, at(v, 539), "dirs", False, read_AlterReplicaLogDir)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirsRequest(Writer w, object v) except -1:
    if not is_a(v, 148):
        misplaced(v, <type>CLASS[148])
    write_structs(w, at(v, 539), "dirs", False, write_AlterReplicaLogDir)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirPartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[149], 0)
    read_number(r, at(v, 540), "partition_index", 4, True)
    read_number(r, at(v, 541), "error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirPartitionResult(Writer w, object v) except -1:
    if not is_a(v, 149):
        misplaced(v, <type>CLASS[149])
    write_number(w, at(v, 540), "partition_index", 4, True)
    write_number(w, at(v, 541), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[150], 0)
    read_string(r, at(v, 542), "topic_name", False)
    read_structs(r, at(v, 543), "partitions", False, read_AlterReplicaLogDirPartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirTopicResult(Writer w, object v) except -1:
    if not is_a(v, 150):
        misplaced(v, <type>CLASS[150])
    write_string(w, at(v, 542), "topic_name", False)
    write_structs(w, at(v, 543), "partitions", False, write_AlterReplicaLogDirPartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[151], 0)
    read_number(r, at(v, 544), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 545), "results", False, read_AlterReplicaLogDirTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirsResponse(Writer w, object v) except -1:
    if not is_a(v, 151):
        misplaced(v, <type>CLASS[151])
    write_number(w, at(v, 544), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 545), "results", False, write_AlterReplicaLogDirTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribableLogDirTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[152], 0)
    read_string(r, at(v, 546), "topic", False)
    read_numbers(r, at(v, 547), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribableLogDirTopic(Writer w, object v) except -1:
    if not is_a(v, 152):
        misplaced(v, <type>CLASS[152])
    write_string(w, at(v, 546), "topic", False)
    write_numbers(w, at(v, 547), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[153], 0)
    read_structs(r, at(v, 548), "topics", True, read_DescribableLogDirTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsRequest(Writer w, object v) except -1:
    if not is_a(v, 153):
        misplaced(v, <type>CLASS[153])
    write_structs(w, at(v, 548), "topics", True, write_DescribableLogDirTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[154], 0)
    read_number(r, at(v, 549), "partition_index", 4, True)
    read_number(r, at(v, 550), "partition_size", 8, True)
    read_number(r, at(v, 551), "offset_lag", 8, True)
    read_bool(r, at(v, 552), "is_future_key")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsPartition(Writer w, object v) except -1:
    if not is_a(v, 154):
        misplaced(v, <type>CLASS[154])
    write_number(w, at(v, 549), "partition_index", 4, True)
    write_number(w, at(v, 550), "partition_size", 8, True)
    write_number(w, at(v, 551), "offset_lag", 8, True)
    write_bool(w, at(v, 552), "is_future_key")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[155], 0)
    read_string(r, at(v, 553), "name", False)
    read_structs(r, at(v, 554), "partitions", False, read_DescribeLogDirsPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsTopic(Writer w, object v) except -1:
    if not is_a(v, 155):
        misplaced(v, <type>CLASS[155])
    write_string(w, at(v, 553), "name", False)
    write_structs(w, at(v, 554), "partitions", False, write_DescribeLogDirsPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[156], 0)
    read_number(r, at(v, 555), "error_code", 2, True)
    read_string(r, at(v, 556), "log_dir", False)
    read_structs(r, at(v, 557), "topics", False, read_DescribeLogDirsTopic)
    if r.version >= 4:
        read_number(r, at(v, 558), "total_bytes", 8, True)
    else:
        put(at(v, 558), -1)
    if r.version >= 4:
        read_number(r, at(v, 559), "usable_bytes", 8, True)
    else:
        put(at(v, 559), -1)
    if r.version >= 5:
        read_bool(r, at(v, 560), "is_cordoned")
    else:
        put(at(v, 560), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsResult(Writer w, object v) except -1:
    if not is_a(v, 156):
        misplaced(v, <type>CLASS[156])
    write_number(w, at(v, 555), "error_code", 2, True)
    write_string(w, at(v, 556), "log_dir", False)
    write_structs(w, at(v, 557), "topics", False, write_DescribeLogDirsTopic)
    if w.version >= 4:
        write_number(w, at(v, 558), "total_bytes", 8, True)
    if w.version >= 4:
        write_number(w, at(v, 559), "usable_bytes", 8, True)
    if w.version >= 5:
        write_bool(w, at(v, 560), "is_cordoned")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[157], 0)
    read_number(r, at(v, 561), "throttle_time_ms", 4, True)
    if r.version >= 3:
        read_number(r, at(v, 562), "error_code", 2, True)
    else:
        put(at(v, 562), 0)
    read_structs(r, at(v, 563), "results", False, read_DescribeLogDirsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsResponse(Writer w, object v) except -1:
    if not is_a(v, 157):
        misplaced(v, <type>CLASS[157])
    write_number(w, at(v, 561), "throttle_time_ms", 4, True)
    if w.version >= 3:
        write_number(w, at(v, 562), "error_code", 2, True)
    write_structs(w, at(v, 563), "results", False, write_DescribeLogDirsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SaslAuthenticateRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[158], 0)
    read_bytes(r, at(v, 564), "auth_bytes", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SaslAuthenticateRequest(Writer w, object v) except -1:
    if not is_a(v, 158):
        misplaced(v, <type>CLASS[158])
    write_bytes(w, at(v, 564), "auth_bytes", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SaslAuthenticateResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[159], 0)
    read_number(r, at(v, 565), "error_code", 2, True)
    read_string(r, at(v, 566), "error_message", True)
    read_bytes(r, at(v, 567), "auth_bytes", False)
    if r.version >= 1:
        read_number(r, at(v, 568), "session_lifetime_ms", 8, True)
    else:
        put(at(v, 568), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SaslAuthenticateResponse(Writer w, object v) except -1:
    if not is_a(v, 159):
        misplaced(v, <type>CLASS[159])
    write_number(w, at(v, 565), "error_code", 2, True)
    write_string(w, at(v, 566), "error_message", True)
    write_bytes(w, at(v, 567), "auth_bytes", False)
    if w.version >= 1:
        write_number(w, at(v, 568), "session_lifetime_ms", 8, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsAssignment(Reader r):
    v = PyType_GenericAlloc(CLASS[160], 0)
    read_numbers(r, at(v, 569), "broker_ids", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsAssignment(Writer w, object v) except -1:
    if not is_a(v, 160):
        misplaced(v, <type>CLASS[160])
    write_numbers(w, at(v, 569), "broker_ids", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[161], 0)
    read_string(r, at(v, 570), "name", False)
    read_number(r, at(v, 571), "count", 4, True)
    read_structs(r, at(v, 572), "assignments", True, read_CreatePartitionsAssignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsTopic(Writer w, object v) except -1:
    if not is_a(v, 161):
        misplaced(v, <type>CLASS[161])
    write_string(w, at(v, 570), "name", False)
    write_number(w, at(v, 571), "count", 4, True)
    write_structs(w, at(v, 572), "assignments", True, write_CreatePartitionsAssignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[162], 0)
    read_structs(r, at(v, 573), "topics", False, read_CreatePartitionsTopic)
    read_number(r, at(v, 574), "timeout_ms", 4, True)
    read_bool(r, at(v, 575), "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsRequest(Writer w, object v) except -1:
    if not is_a(v, 162):
        misplaced(v, <type>CLASS[162])
    write_structs(w, at(v, 573), "topics", False, write_CreatePartitionsTopic)
    write_number(w, at(v, 574), "timeout_ms", 4, True)
    write_bool(w, at(v, 575), "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[163], 0)
    read_string(r, at(v, 576), "name", False)
    read_number(r, at(v, 577), "error_code", 2, True)
    read_string(r, at(v, 578), "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsTopicResult(Writer w, object v) except -1:
    if not is_a(v, 163):
        misplaced(v, <type>CLASS[163])
    write_string(w, at(v, 576), "name", False)
    write_number(w, at(v, 577), "error_code", 2, True)
    write_string(w, at(v, 578), "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[164], 0)
    read_number(r, at(v, 579), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 580), "results", False, read_CreatePartitionsTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsResponse(Writer w, object v) except -1:
    if not is_a(v, 164):
        misplaced(v, <type>CLASS[164])
    write_number(w, at(v, 579), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 580), "results", False, write_CreatePartitionsTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteGroupsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[165], 0)
    read_strings(r, at(v, 581), "groups_names", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteGroupsRequest(Writer w, object v) except -1:
    if not is_a(v, 165):
        misplaced(v, <type>CLASS[165])
    write_strings(w, at(v, 581), "groups_names", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeletableGroupResult(Reader r):
    v = PyType_GenericAlloc(CLASS[166], 0)
    read_string(r, at(v, 582), "group_id", False)
    read_number(r, at(v, 583), "error_code", 2, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeletableGroupResult(Writer w, object v) except -1:
    if not is_a(v, 166):
        misplaced(v, <type>CLASS[166])
    write_string(w, at(v, 582), "group_id", False)
    write_number(w, at(v, 583), "error_code", 2, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteGroupsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[167], 0)
    read_number(r, at(v, 584), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 585), "results", False, read_DeletableGroupResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteGroupsResponse(Writer w, object v) except -1:
    if not is_a(v, 167):
        misplaced(v, <type>CLASS[167])
    write_number(w, at(v, 584), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 585), "results", False, write_DeletableGroupResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ElectLeadersRequest_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[168], 0)
    read_string(r, at(v, 586), "topic", False)
    read_numbers(r, at(v, 587), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ElectLeadersRequest_TopicPartitions(Writer w, object v) except -1:
    if not is_a(v, 168):
        misplaced(v, <type>CLASS[168])
    write_string(w, at(v, 586), "topic", False)
    write_numbers(w, at(v, 587), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ElectLeadersRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[169], 0)
    if r.version >= 1:
        read_number(r, at(v, 588), "election_type", 1, True)
    else:
        put(at(v, 588), 0)
    read_structs(r, at(v, 589), "topic_partitions", True, read_ElectLeadersRequest_TopicPartitions)
    read_number(r, at(v, 590), "timeout_ms", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ElectLeadersRequest(Writer w, object v) except -1:
    if not is_a(v, 169):
        misplaced(v, <type>CLASS[169])
    if w.version >= 1:
        write_number(w, at(v, 588), "election_type", 1, True)
    elif differs(at(v, 588), "election_type", 0):
        refuse(w, v, "election_type")
    write_structs(w, at(v, 589), "topic_partitions", True, write_ElectLeadersRequest_TopicPartitions)
    write_number(w, at(v, 590), "timeout_ms", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[170], 0)
    read_number(r, at(v, 591), "partition_id", 4, True)
    read_number(r, at(v, 592), "error_code", 2, True)
    read_string(r, at(v, 593), "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_PartitionResult(Writer w, object v) except -1:
    if not is_a(v, 170):
        misplaced(v, <type>CLASS[170])
    write_number(w, at(v, 591), "partition_id", 4, True)
    write_number(w, at(v, 592), "error_code", 2, True)
    write_string(w, at(v, 593), "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReplicaElectionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[171], 0)
    read_string(r, at(v, 594), "topic", False)
    read_structs(r, at(v, 595), "partition_result", False, read_PartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReplicaElectionResult(Writer w, object v) except -1:
    if not is_a(v, 171):
        misplaced(v, <type>CLASS[171])
    write_string(w, at(v, 594), "topic", False)
    write_structs(w, at(v, 595), "partition_result", False, write_PartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ElectLeadersResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[172], 0)
    read_number(r, at(v, 596), "throttle_time_ms", 4, True)
    if r.version >= 1:
        read_number(r, at(v, 597), "error_code", 2, True)
    else:
        put(at(v, 597), 0)
    read_structs(r, at(v, 598), "replica_election_results", False, read_ReplicaElectionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ElectLeadersResponse(Writer w, object v) except -1:
    if not is_a(v, 172):
        misplaced(v, <type>CLASS[172])
    write_number(w, at(v, 596), "throttle_time_ms", 4, True)
    if w.version >= 1:
        write_number(w, at(v, 597), "error_code", 2, True)
    elif differs(at(v, 597), "error_code", 0):
        refuse(w, v, "error_code")
    write_structs(w, at(v, 598), "replica_election_results", False, write_ReplicaElectionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsRequest_AlterableConfig(Reader r):
    v = PyType_GenericAlloc(CLASS[173], 0)
    read_string(r, at(v, 599), "name", False)
    read_number(r, at(v, 600), "config_operation", 1, True)
    read_string(r, at(v, 601), "value", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsRequest_AlterableConfig(Writer w, object v) except -1:
    if not is_a(v, 173):
        misplaced(v, <type>CLASS[173])
    write_string(w, at(v, 599), "name", False)
    write_number(w, at(v, 600), "config_operation", 1, True)
    write_string(w, at(v, 601), "value", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsRequest_AlterConfigsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[174], 0)
    read_number(r, at(v, 602), "resource_type", 1, True)
    read_string(r, at(v, 603), "resource_name", False)
    read_structs(r, at(v, 604), "configs", False, read_IncrementalAlterConfigsRequest_AlterableConfig)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsRequest_AlterConfigsResource(Writer w, object v) except -1:
    if not is_a(v, 174):
        misplaced(v, <type>CLASS[174])
    write_number(w, at(v, 602), "resource_type", 1, True)
    write_string(w, at(v, 603), "resource_name", False)
    write_structs(w, at(v, 604), "configs", False, write_IncrementalAlterConfigsRequest_AlterableConfig)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[175], 0)
    read_structs(r, at(v, 605), "resources", False, read_IncrementalAlterConfigsRequest_AlterConfigsResource)
    read_bool(r, at(v, 606), "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsRequest(Writer w, object v) except -1:
    if not is_a(v, 175):
        misplaced(v, <type>CLASS[175])
    write_structs(w, at(v, 605), "resources", False, write_IncrementalAlterConfigsRequest_AlterConfigsResource)
    write_bool(w, at(v, 606), "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[176], 0)
    read_number(r, at(v, 607), "error_code", 2, True)
    read_string(r, at(v, 608), "error_message", True)
    read_number(r, at(v, 609), "resource_type", 1, True)
    read_string(r, at(v, 610), "resource_name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse(Writer w, object v) except -1:
    if not is_a(v, 176):
        misplaced(v, <type>CLASS[176])
    write_number(w, at(v, 607), "error_code", 2, True)
    write_string(w, at(v, 608), "error_message", True)
    write_number(w, at(v, 609), "resource_type", 1, True)
    write_string(w, at(v, 610), "resource_name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[177], 0)
    read_number(r, at(v, 611), "throttle_time_ms", 4, True)
    read_structs(
        r, at(v, 612), "responses", False, read_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsResponse(Writer w, object v) except -1:
    if not is_a(v, 177):
        misplaced(v, <type>CLASS[177])
    write_number(w, at(v, 611), "throttle_time_ms", 4, True)
    write_structs(
        w, at(v, 612), "responses", False, write_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignablePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[178], 0)
    read_number(r, at(v, 613), "partition_index", 4, True)
    read_numbers(r, at(v, 614), "replicas", True, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignablePartition(Writer w, object v) except -1:
    if not is_a(v, 178):
        misplaced(v, <type>CLASS[178])
    write_number(w, at(v, 613), "partition_index", 4, True)
    write_numbers(w, at(v, 614), "replicas", True, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignableTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[179], 0)
    read_string(r, at(v, 615), "name", False)
    read_structs(r, at(v, 616), "partitions", False, read_ReassignablePartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignableTopic(Writer w, object v) except -1:
    if not is_a(v, 179):
        misplaced(v, <type>CLASS[179])
    write_string(w, at(v, 615), "name", False)
    write_structs(w, at(v, 616), "partitions", False, write_ReassignablePartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterPartitionReassignmentsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[180], 0)
    read_number(r, at(v, 617), "timeout_ms", 4, True)
    if r.version >= 1:
        read_bool(r, at(v, 618), "allow_replication_factor_change")
    else:
        put(at(v, 618), True)
    read_structs(r, at(v, 619), "topics", False, read_ReassignableTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterPartitionReassignmentsRequest(Writer w, object v) except -1:
    if not is_a(v, 180):
        misplaced(v, <type>CLASS[180])
    write_number(w, at(v, 617), "timeout_ms", 4, True)
    if w.version >= 1:
        write_bool(w, at(v, 618), "allow_replication_factor_change")
    elif differs(at(v, 618), "allow_replication_factor_change", True):
        refuse(w, v, "allow_replication_factor_change")
    write_structs(w, at(v, 619), "topics", False, write_ReassignableTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignablePartitionResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[181], 0)
    read_number(r, at(v, 620), "partition_index", 4, True)
    read_number(r, at(v, 621), "error_code", 2, True)
    read_string(r, at(v, 622), "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignablePartitionResponse(Writer w, object v) except -1:
    if not is_a(v, 181):
        misplaced(v, <type>CLASS[181])
    write_number(w, at(v, 620), "partition_index", 4, True)
    write_number(w, at(v, 621), "error_code", 2, True)
    write_string(w, at(v, 622), "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignableTopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[182], 0)
    read_string(r, at(v, 623), "name", False)
    read_structs(r, at(v, 624), "partitions", False, read_ReassignablePartitionResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignableTopicResponse(Writer w, object v) except -1:
    if not is_a(v, 182):
        misplaced(v, <type>CLASS[182])
    write_string(w, at(v, 623), "name", False)
    write_structs(w, at(v, 624), "partitions", False, write_ReassignablePartitionResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterPartitionReassignmentsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[183], 0)
    read_number(r, at(v, 625), "throttle_time_ms", 4, True)
    if r.version >= 1:
        read_bool(r, at(v, 626), "allow_replication_factor_change")
    else:
        put(at(v, 626), True)
    read_number(r, at(v, 627), "error_code", 2, True)
    read_string(r, at(v, 628), "error_message", True)
    read_structs(r, at(v, 629), "responses", False, read_ReassignableTopicResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterPartitionReassignmentsResponse(Writer w, object v) except -1:
    if not is_a(v, 183):
        misplaced(v, <type>CLASS[183])
    write_number(w, at(v, 625), "throttle_time_ms", 4, True)
    if w.version >= 1:
        write_bool(w, at(v, 626), "allow_replication_factor_change")
    write_number(w, at(v, 627), "error_code", 2, True)
    write_string(w, at(v, 628), "error_message", True)
    write_structs(w, at(v, 629), "responses", False, write_ReassignableTopicResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListPartitionReassignmentsTopics(Reader r):
    v = PyType_GenericAlloc(CLASS[184], 0)
    read_string(r, at(v, 630), "name", False)
    read_numbers(r, at(v, 631), "partition_indexes", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListPartitionReassignmentsTopics(Writer w, object v) except -1:
    if not is_a(v, 184):
        misplaced(v, <type>CLASS[184])
    write_string(w, at(v, 630), "name", False)
    write_numbers(w, at(v, 631), "partition_indexes", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListPartitionReassignmentsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[185], 0)
    read_number(r, at(v, 632), "timeout_ms", 4, True)
    read_structs(r, at(v, 633), "topics", True, read_ListPartitionReassignmentsTopics)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListPartitionReassignmentsRequest(Writer w, object v) except -1:
    if not is_a(v, 185):
        misplaced(v, <type>CLASS[185])
    write_number(w, at(v, 632), "timeout_ms", 4, True)
    write_structs(w, at(v, 633), "topics", True, write_ListPartitionReassignmentsTopics)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OngoingPartitionReassignment(Reader r):
    v = PyType_GenericAlloc(CLASS[186], 0)
    read_number(r, at(v, 634), "partition_index", 4, True)
    read_numbers(r, at(v, 635), "replicas", False, 4)
    read_numbers(r, at(v, 636), "adding_replicas", False, 4)
    read_numbers(r, at(v, 637), "removing_replicas", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OngoingPartitionReassignment(Writer w, object v) except -1:
    if not is_a(v, 186):
        misplaced(v, <type>CLASS[186])
    write_number(w, at(v, 634), "partition_index", 4, True)
    write_numbers(w, at(v, 635), "replicas", False, 4)
    write_numbers(w, at(v, 636), "adding_replicas", False, 4)
    write_numbers(w, at(v, 637), "removing_replicas", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OngoingTopicReassignment(Reader r):
    v = PyType_GenericAlloc(CLASS[187], 0)
    read_string(r, at(v, 638), "name", False)
    read_structs(r, at(v, 639), "partitions", False, read_OngoingPartitionReassignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OngoingTopicReassignment(Writer w, object v) except -1:
    if not is_a(v, 187):
        misplaced(v, <type>CLASS[187])
    write_string(w, at(v, 638), "name", False)
    write_structs(w, at(v, 639), "partitions", False, write_OngoingPartitionReassignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListPartitionReassignmentsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[188], 0)
    read_number(r, at(v, 640), "throttle_time_ms", 4, True)
    read_number(r, at(v, 641), "error_code", 2, True)
    read_string(r, at(v, 642), "error_message", True)
    read_structs(r, at(v, 643), "topics", False, read_OngoingTopicReassignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListPartitionReassignmentsResponse(Writer w, object v) except -1:
    if not is_a(v, 188):
        misplaced(v, <type>CLASS[188])
    write_number(w, at(v, 640), "throttle_time_ms", 4, True)
    write_number(w, at(v, 641), "error_code", 2, True)
    write_string(w, at(v, 642), "error_message", True)
    write_structs(w, at(v, 643), "topics", False, write_OngoingTopicReassignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetDeleteRequestPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[189], 0)
    read_number(r, at(v, 644), "partition_index", 4, True)
    return v


cdef int write_OffsetDeleteRequestPartition(Writer w, object v) except -1:
    if not is_a(v, 189):
        misplaced(v, <type>CLASS[189])
    write_number(w, at(v, 644), "partition_index", 4, True)
    return 0


cdef object read_OffsetDeleteRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[190], 0)
    read_string(r, at(v, 645), "name", False)
    read_structs(r, at(v, 646), "partitions", False, read_OffsetDeleteRequestPartition)
    return v


cdef int write_OffsetDeleteRequestTopic(Writer w, object v) except -1:
    if not is_a(v, 190):
        misplaced(v, <type>CLASS[190])
    write_string(w, at(v, 645), "name", False)
    write_structs(w, at(v, 646), "partitions", False, write_OffsetDeleteRequestPartition)
    return 0


cdef object read_OffsetDeleteRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[191], 0)
    read_string(r, at(v, 647), "group_id", False)
    read_structs(r, at(v, 648), "topics", False, read_OffsetDeleteRequestTopic)
    return v


cdef int write_OffsetDeleteRequest(Writer w, object v) except -1:
    if not is_a(v, 191):
        misplaced(v, <type>CLASS[191])
    write_string(w, at(v, 647), "group_id", False)
    write_structs(w, at(v, 648), "topics", False, write_OffsetDeleteRequestTopic)
    return 0


cdef object read_OffsetDeleteResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[192], 0)
    read_number(r, at(v, 649), "partition_index", 4, True)
    read_number(r, at(v, 650), "error_code", 2, True)
    return v


cdef int write_OffsetDeleteResponsePartition(Writer w, object v) except -1:
    if not is_a(v, 192):
        misplaced(v, <type>CLASS[192])
    write_number(w, at(v, 649), "partition_index", 4, True)
    write_number(w, at(v, 650), "error_code", 2, True)
    return 0


cdef object read_OffsetDeleteResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[193], 0)
    read_string(r, at(v, 651), "name", False)
    read_structs(r, at(v, 652), "partitions", False, read_OffsetDeleteResponsePartition)
    return v


cdef int write_OffsetDeleteResponseTopic(Writer w, object v) except -1:
    if not is_a(v, 193):
        misplaced(v, <type>CLASS[193])
    write_string(w, at(v, 651), "name", False)
    write_structs(w, at(v, 652), "partitions", False, write_OffsetDeleteResponsePartition)
    return 0


cdef object read_OffsetDeleteResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[194], 0)
    read_number(r, at(v, 653), "error_code", 2, True)
    read_number(r, at(v, 654), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 655), "topics", False, read_OffsetDeleteResponseTopic)
    return v


cdef int write_OffsetDeleteResponse(Writer w, object v) except -1:
    if not is_a(v, 194):
        misplaced(v, <type>CLASS[194])
    write_number(w, at(v, 653), "error_code", 2, True)
    write_number(w, at(v, 654), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 655), "topics", False, write_OffsetDeleteResponseTopic)
    return 0


cdef object read_ComponentData(Reader r):
    v = PyType_GenericAlloc(CLASS[195], 0)
    read_string(r, at(v, 656), "entity_type", False)
    read_number(r, at(v, 657), "match_type", 1, True)
    read_string(r, at(v, 658), "match", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ComponentData(Writer w, object v) except -1:
    if not is_a(v, 195):
        misplaced(v, <type>CLASS[195])
    write_string(w, at(v, 656), "entity_type", False)
    write_number(w, at(v, 657), "match_type", 1, True)
    write_string(w, at(v, 658), "match", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[196], 0)
    read_structs(r, at(v, 659), "components", False, read_ComponentData)
    read_bool(r, at(v, 660), "strict")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasRequest(Writer w, object v) except -1:
    if not is_a(v, 196):
        misplaced(v, <type>CLASS[196])
    write_structs(w, at(v, 659), "components", False, write_ComponentData)
    write_bool(w, at(v, 660), "strict")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasResponse_EntityData(Reader r):
    v = PyType_GenericAlloc(CLASS[197], 0)
    read_string(r, at(v, 661), "entity_type", False)
    read_string(r, at(v, 662), "entity_name", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasResponse_EntityData(Writer w, object v) except -1:
    if not is_a(v, 197):
        misplaced(v, <type>CLASS[197])
    write_string(w, at(v, 661), "entity_type", False)
    write_string(w, at(v, 662), "entity_name", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ValueData(Reader r):
    v = PyType_GenericAlloc(CLASS[198], 0)
    read_string(r, at(v, 663), "key", False)
    read_float64(r, at(v, 664), "value")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ValueData(Writer w, object v) except -1:
    if not is_a(v, 198):
        misplaced(v, <type>CLASS[198])
    write_string(w, at(v, 663), "key", False)
    write_float64(w, at(v, 664), "value")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasResponse_EntryData(Reader r):
    v = PyType_GenericAlloc(CLASS[199], 0)
    read_structs(r, at(v, 665), "entity", False, read_DescribeClientQuotasResponse_EntityData)
    read_structs(r, at(v, 666), "values", False, read_ValueData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasResponse_EntryData(Writer w, object v) except -1:
    if not is_a(v, 199):
        misplaced(v, <type>CLASS[199])
    write_structs(w, at(v, 665), "entity", False, write_DescribeClientQuotasResponse_EntityData)
    write_structs(w, at(v, 666), "values", False, write_ValueData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[200], 0)
    read_number(r, at(v, 667), "throttle_time_ms", 4, True)
    read_number(r, at(v, 668), "error_code", 2, True)
    read_string(r, at(v, 669), "error_message", True)
    read_structs(r, at(v, 670), "entries", True, read_DescribeClientQuotasResponse_EntryData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasResponse(Writer w, object v) except -1:
    if not is_a(v, 200):
        misplaced(v, <type>CLASS[200])
    write_number(w, at(v, 667), "throttle_time_ms", 4, True)
    write_number(w, at(v, 668), "error_code", 2, True)
    write_string(w, at(v, 669), "error_message", True)
    write_structs(w, at(v, 670), "entries", True, write_DescribeClientQuotasResponse_EntryData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasRequest_EntityData(Reader r):
    v = PyType_GenericAlloc(CLASS[201], 0)
    read_string(r, at(v, 671), "entity_type", False)
    read_string(r, at(v, 672), "entity_name", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasRequest_EntityData(Writer w, object v) except -1:
    if not is_a(v, 201):
        misplaced(v, <type>CLASS[201])
    write_string(w, at(v, 671), "entity_type", False)
    write_string(w, at(v, 672), "entity_name", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OpData(Reader r):
    v = PyType_GenericAlloc(CLASS[202], 0)
    read_string(r, at(v, 673), "key", False)
    read_float64(r, at(v, 674), "value")
    read_bool(r, at(v, 675), "remove")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OpData(Writer w, object v) except -1:
    if not is_a(v, 202):
        misplaced(v, <type>CLASS[202])
    write_string(w, at(v, 673), "key", False)
    write_float64(w, at(v, 674), "value")
    write_bool(w, at(v, 675), "remove")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasRequest_EntryData(Reader r):
    v = PyType_GenericAlloc(CLASS[203], 0)
    read_structs(r, at(v, 676), "entity", False, read_AlterClientQuotasRequest_EntityData)
    read_structs(r, at(v, 677), "ops", False, read_OpData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasRequest_EntryData(Writer w, object v) except -1:
    if not is_a(v, 203):
        misplaced(v, <type>CLASS[203])
    write_structs(w, at(v, 676), "entity", False, write_AlterClientQuotasRequest_EntityData)
    write_structs(w, at(v, 677), "ops", False, write_OpData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[204], 0)
    read_structs(r, at(v, 678), "entries", False, read_AlterClientQuotasRequest_EntryData)
    read_bool(r, at(v, 679), "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasRequest(Writer w, object v) except -1:
    if not is_a(v, 204):
        misplaced(v, <type>CLASS[204])
    write_structs(w, at(v, 678), "entries", False, write_AlterClientQuotasRequest_EntryData)
    write_bool(w, at(v, 679), "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasResponse_EntityData(Reader r):
    v = PyType_GenericAlloc(CLASS[205], 0)
    read_string(r, at(v, 680), "entity_type", False)
    read_string(r, at(v, 681), "entity_name", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasResponse_EntityData(Writer w, object v) except -1:
    if not is_a(v, 205):
        misplaced(v, <type>CLASS[205])
    write_string(w, at(v, 680), "entity_type", False)
    write_string(w, at(v, 681), "entity_name", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasResponse_EntryData(Reader r):
    v = PyType_GenericAlloc(CLASS[206], 0)
    read_number(r, at(v, 682), "error_code", 2, True)
    read_string(r, at(v, 683), "error_message", True)
    read_structs(r, at(v, 684), "entity", False, read_AlterClientQuotasResponse_EntityData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasResponse_EntryData(Writer w, object v) except -1:
    if not is_a(v, 206):
        misplaced(v, <type>CLASS[206])
    write_number(w, at(v, 682), "error_code", 2, True)
    write_string(w, at(v, 683), "error_message", True)
    write_structs(w, at(v, 684), "entity", False, write_AlterClientQuotasResponse_EntityData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[207], 0)
    read_number(r, at(v, 685), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 686), "entries", False, read_AlterClientQuotasResponse_EntryData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasResponse(Writer w, object v) except -1:
    if not is_a(v, 207):
        misplaced(v, <type>CLASS[207])
    write_number(w, at(v, 685), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 686), "entries", False, write_AlterClientQuotasResponse_EntryData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UserName(Reader r):
    v = PyType_GenericAlloc(CLASS[208], 0)
    read_string(r, at(v, 687), "name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UserName(Writer w, object v) except -1:
    if not is_a(v, 208):
        misplaced(v, <type>CLASS[208])
    write_string(w, at(v, 687), "name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeUserScramCredentialsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[209], 0)
    read_structs(r, at(v, 688), "users", True, read_UserName)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeUserScramCredentialsRequest(Writer w, object v) except -1:
    if not is_a(v, 209):
        misplaced(v, <type>CLASS[209])
    write_structs(w, at(v, 688), "users", True, write_UserName)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CredentialInfo(Reader r):
    v = PyType_GenericAlloc(CLASS[210], 0)
    read_number(r, at(v, 689), "mechanism", 1, True)
    read_number(r, at(v, 690), "iterations", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CredentialInfo(Writer w, object v) except -1:
    if not is_a(v, 210):
        misplaced(v, <type>CLASS[210])
    write_number(w, at(v, 689), "mechanism", 1, True)
    write_number(w, at(v, 690), "iterations", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeUserScramCredentialsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[211], 0)
    read_string(r, at(v, 691), "user", False)
    read_number(r, at(v, 692), "error_code", 2, True)
    read_string(r, at(v, 693), "error_message", True)
    read_structs(r, at(v, 694), "credential_infos", False, read_CredentialInfo)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeUserScramCredentialsResult(Writer w, object v) except -1:
    if not is_a(v, 211):
        misplaced(v, <type>CLASS[211])
    write_string(w, at(v, 691), "user", False)
    write_number(w, at(v, 692), "error_code", 2, True)
    write_string(w, at(v, 693), "error_message", True)
    write_structs(w, at(v, 694), "credential_infos", False, write_CredentialInfo)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeUserScramCredentialsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[212], 0)
    read_number(r, at(v, 695), "throttle_time_ms", 4, True)
    read_number(r, at(v, 696), "error_code", 2, True)
    read_string(r, at(v, 697), "error_message", True)
    read_structs(r, at(v, 698), "results", False, read_DescribeUserScramCredentialsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeUserScramCredentialsResponse(Writer w, object v) except -1:
    if not is_a(v, 212):
        misplaced(v, <type>CLASS[212])
    write_number(w, at(v, 695), "throttle_time_ms", 4, True)
    write_number(w, at(v, 696), "error_code", 2, True)
    write_string(w, at(v, 697), "error_message", True)
    write_structs(w, at(v, 698), "results", False, write_DescribeUserScramCredentialsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ScramCredentialDeletion(Reader r):
    v = PyType_GenericAlloc(CLASS[213], 0)
    read_string(r, at(v, 699), "name", False)
    read_number(r, at(v, 700), "mechanism", 1, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ScramCredentialDeletion(Writer w, object v) except -1:
    if not is_a(v, 213):
        misplaced(v, <type>CLASS[213])
    write_string(w, at(v, 699), "name", False)
    write_number(w, at(v, 700), "mechanism", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ScramCredentialUpsertion(Reader r):
    v = PyType_GenericAlloc(CLASS[214], 0)
    read_string(r, at(v, 701), "name", False)
    read_number(r, at(v, 702), "mechanism", 1, True)
    read_number(r, at(v, 703), "iterations", 4, True)
    read_bytes(r, at(v, 704), "salt", False)
    read_bytes(r, at(v, 705), "salted_password", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ScramCredentialUpsertion(Writer w, object v) except -1:
    if not is_a(v, 214):
        misplaced(v, <type>CLASS[214])
    write_string(w, at(v, 701), "name", False)
    write_number(w, at(v, 702), "mechanism", 1, True)
    write_number(w, at(v, 703), "iterations", 4, True)
    write_bytes(w, at(v, 704), "salt", False)
    write_bytes(w, at(v, 705), "salted_password", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterUserScramCredentialsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[215], 0)
    read_structs(r, at(v, 706), "deletions", False, read_ScramCredentialDeletion)
    read_structs(r, at(v, 707), "upsertions", False, read_ScramCredentialUpsertion)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterUserScramCredentialsRequest(Writer w, object v) except -1:
    if not is_a(v, 215):
        misplaced(v, <type>CLASS[215])
    write_structs(w, at(v, 706), "deletions", False, write_ScramCredentialDeletion)
    write_structs(w, at(v, 707), "upsertions", False, write_ScramCredentialUpsertion)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterUserScramCredentialsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[216], 0)
    read_string(r, at(v, 708), "user", False)
    read_number(r, at(v, 709), "error_code", 2, True)
    read_string(r, at(v, 710), "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterUserScramCredentialsResult(Writer w, object v) except -1:
    if not is_a(v, 216):
        misplaced(v, <type>CLASS[216])
    write_string(w, at(v, 708), "user", False)
    write_number(w, at(v, 709), "error_code", 2, True)
    write_string(w, at(v, 710), "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterUserScramCredentialsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[217], 0)
    read_number(r, at(v, 711), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 712), "results", False, read_AlterUserScramCredentialsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterUserScramCredentialsResponse(Writer w, object v) except -1:
    if not is_a(v, 217):
        misplaced(v, <type>CLASS[217])
    write_number(w, at(v, 711), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 712), "results", False, write_AlterUserScramCredentialsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumRequest_PartitionData(Reader r):
    v = PyType_GenericAlloc(CLASS[218], 0)
    read_number(r, at(v, 713), "partition_index", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumRequest_PartitionData(Writer w, object v) except -1:
    if not is_a(v, 218):
        misplaced(v, <type>CLASS[218])
    write_number(w, at(v, 713), "partition_index", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumRequest_TopicData(Reader r):
    v = PyType_GenericAlloc(CLASS[219], 0)
    read_string(r, at(v, 714), "topic_name", False)
    read_structs(r, at(v, 715), "partitions", False, read_DescribeQuorumRequest_PartitionData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumRequest_TopicData(Writer w, object v) except -1:
    if not is_a(v, 219):
        misplaced(v, <type>CLASS[219])
    write_string(w, at(v, 714), "topic_name", False)
    write_structs(w, at(v, 715), "partitions", False, write_DescribeQuorumRequest_PartitionData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[220], 0)
    read_structs(r, at(v, 716), "topics", False, read_DescribeQuorumRequest_TopicData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumRequest(Writer w, object v) except -1:
    if not is_a(v, 220):
        misplaced(v, <type>CLASS[220])
    write_structs(w, at(v, 716), "topics", False, write_DescribeQuorumRequest_TopicData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse_ReplicaState(Reader r):
    v = PyType_GenericAlloc(CLASS[221], 0)
    read_number(r, at(v, 717), "replica_id", 4, True)
    if r.version >= 2:
        read_uuid(r, at(v, 718), "replica_directory_id")
    else:
        put(at(v, 718), "")
    read_number(r, at(v, 719), "log_end_offset", 8, True)
    if r.version >= 1:
        read_number(r, at(v, 720), "last_fetch_timestamp", 8, True)
    else:
        put(at(v, 720), -1)
    if r.version >= 1:
        read_number(r, at(v, 721), "last_caught_up_timestamp", 8, True)
    else:
        put(at(v, 721), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse_ReplicaState(Writer w, object v) except -1:
    if not is_a(v, 221):
        misplaced(v, <type>CLASS[221])
    write_number(w, at(v, 717), "replica_id", 4, True)
    if w.version >= 2:
        write_uuid(w, at(v, 718), "replica_directory_id")
    elif differs(at(v, 718), "replica_directory_id", ""):
        refuse(w, v, "replica_directory_id")
    write_number(w, at(v, 719), "log_end_offset", 8, True)
    if w.version >= 1:
        write_number(w, at(v, 720), "last_fetch_timestamp", 8, True)
    if w.version >= 1:
        write_number(w, at(v, 721), "last_caught_up_timestamp", 8, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse_PartitionData(Reader r):
    v = PyType_GenericAlloc(CLASS[222], 0)
    read_number(r, at(v, 722), "partition_index", 4, True)
    read_number(r, at(v, 723), "error_code", 2, True)
    if r.version >= 2:
        read_string(r, at(v, 724), "error_message", r.version >= 2)
    else:
        put(at(v, 724), "")
    read_number(r, at(v, 725), "leader_id", 4, True)
    read_number(r, at(v, 726), "leader_epoch", 4, True)
    read_number(r, at(v, 727), "high_watermark", 8, True)
    read_structs(r, at(v, 728), "current_voters", False, read_DescribeQuorumResponse_ReplicaState)
    read_structs(r, at(v, 729), "observers", False, read_DescribeQuorumResponse_ReplicaState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse_PartitionData(Writer w, object v) except -1:
    if not is_a(v, 222):
        misplaced(v, <type>CLASS[222])
    write_number(w, at(v, 722), "partition_index", 4, True)
    write_number(w, at(v, 723), "error_code", 2, True)
    if w.version >= 2:
        write_string(w, at(v, 724), "error_message", w.version >= 2)
    write_number(w, at(v, 725), "leader_id", 4, True)
    write_number(w, at(v, 726), "leader_epoch", 4, True)
    write_number(w, at(v, 727), "high_watermark", 8, True)
    write_structs(w, at(v, 728), "current_voters", False, write_DescribeQuorumResponse_ReplicaState)
    write_structs(w, at(v, 729), "observers", False, write_DescribeQuorumResponse_ReplicaState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse_TopicData(Reader r):
    v = PyType_GenericAlloc(CLASS[223], 0)
    read_string(r, at(v, 730), "topic_name", False)
    read_structs(r, at(v, 731), "partitions", False, read_DescribeQuorumResponse_PartitionData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse_TopicData(Writer w, object v) except -1:
    if not is_a(v, 223):
        misplaced(v, <type>CLASS[223])
    write_string(w, at(v, 730), "topic_name", False)
    write_structs(w, at(v, 731), "partitions", False, write_DescribeQuorumResponse_PartitionData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Listener(Reader r):
    v = PyType_GenericAlloc(CLASS[224], 0)
    if r.version >= 2:
        read_string(r, at(v, 732), "name", False)
    else:
        put(at(v, 732), "")
    if r.version >= 2:
        read_string(r, at(v, 733), "host", False)
    else:
        put(at(v, 733), "")
    if r.version >= 2:
        read_number(r, at(v, 734), "port", 2, False)
    else:
        put(at(v, 734), 0)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Listener(Writer w, object v) except -1:
    if not is_a(v, 224):
        misplaced(v, <type>CLASS[224])
    if w.version >= 2:
        write_string(w, at(v, 732), "name", False)
    elif differs(at(v, 732), "name", ""):
        refuse(w, v, "name")
    if w.version >= 2:
        write_string(w, at(v, 733), "host", False)
    elif differs(at(v, 733), "host", ""):
        refuse(w, v, "host")
    if w.version >= 2:
        write_number(w, at(v, 734), "port", 2, False)
    elif differs(at(v, 734), "port", 0):
        refuse(w, v, "port")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Node(Reader r):
    v = PyType_GenericAlloc(CLASS[225], 0)
    if r.version >= 2:
        read_number(r, at(v, 735), "node_id", 4, True)
    else:
        put(at(v, 735), 0)
    if r.version >= 2:
        read_structs(r, at(v, 736), "listeners", False, read_Listener)
    else:
        put(at(v, 736), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Node(Writer w, object v) except -1:
    if not is_a(v, 225):
        misplaced(v, <type>CLASS[225])
    if w.version >= 2:
        write_number(w, at(v, 735), "node_id", 4, True)
    elif differs(at(v, 735), "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 2:
        write_structs(w, at(v, 736), "listeners", False, write_Listener)
    elif differs(at(v, 736), "listeners", ()):
        refuse(w, v, "listeners")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[226], 0)
    read_number(r, at(v, 737), "error_code", 2, True)
    if r.version >= 2:
        read_string(r, at(v, 738), "error_message", r.version >= 2)
    else:
        put(at(v, 738), "")
    read_structs(r, at(v, 739), "topics", False, read_DescribeQuorumResponse_TopicData)
    if r.version >= 2:
        read_structs(r, at(v, 740), "nodes", False, read_Node)
    else:
        put(at(v, 740), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse(Writer w, object v) except -1:
    if not is_a(v, 226):
        misplaced(v, <type>CLASS[226])
    write_number(w, at(v, 737), "error_code", 2, True)
    if w.version >= 2:
        write_string(w, at(v, 738), "error_message", w.version >= 2)
    write_structs(w, at(v, 739), "topics", False, write_DescribeQuorumResponse_TopicData)
    if w.version >= 2:
        write_structs(w, at(v, 740), "nodes", False, write_Node)
    elif differs(at(v, 740), "nodes", ()):
        refuse(w, v, "nodes")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FeatureUpdateKey(Reader r):
    v = PyType_GenericAlloc(CLASS[227], 0)
    read_string(r, at(v, 741), "feature", False)
    read_number(r, at(v, 742), "max_version_level", 2, True)
    if r.version <= 0:
        read_bool(r, at(v, 743), "allow_downgrade")
    else:
        put(at(v, 743), False)
    if r.version >= 1:
        read_number(r, at(v, 744), "upgrade_type", 1, True)
    else:
        put(at(v, 744), 1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FeatureUpdateKey(Writer w, object v) except -1:
    if not is_a(v, 227):
        misplaced(v, <type>CLASS[227])
    write_string(w, at(v, 741), "feature", False)
    write_number(w, at(v, 742), "max_version_level", 2, True)
    if w.version <= 0:
        write_bool(w, at(v, 743), "allow_downgrade")
    elif differs(at(v, 743), "allow_downgrade", False):
        refuse(w, v, "allow_downgrade")
    if w.version >= 1:
        write_number(w, at(v, 744), "upgrade_type", 1, True)
    elif differs(at(v, 744), "upgrade_type", 1):
        refuse(w, v, "upgrade_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UpdateFeaturesRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[228], 0)
    read_number(r, at(v, 745), "timeout_ms", 4, True)
    read_structs(r, at(v, 746), "feature_updates", False, read_FeatureUpdateKey)
    if r.version >= 1:
        read_bool(r, at(v, 747), "validate_only")
    else:
        put(at(v, 747), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UpdateFeaturesRequest(Writer w, object v) except -1:
    if not is_a(v, 228):
        misplaced(v, <type>CLASS[228])
    write_number(w, at(v, 745), "timeout_ms", 4, True)
    write_structs(w, at(v, 746), "feature_updates", False, write_FeatureUpdateKey)
    if w.version >= 1:
        write_bool(w, at(v, 747), "validate_only")
    elif differs(at(v, 747), "validate_only", False):
        refuse(w, v, "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UpdatableFeatureResult(Reader r):
    v = PyType_GenericAlloc(CLASS[229], 0)
    read_string(r, at(v, 748), "feature", False)
    read_number(r, at(v, 749), "error_code", 2, True)
    read_string(r, at(v, 750), "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UpdatableFeatureResult(Writer w, object v) except -1:
    if not is_a(v, 229):
        misplaced(v, <type>CLASS[229])
    write_string(w, at(v, 748), "feature", False)
    write_number(w, at(v, 749), "error_code", 2, True)
    write_string(w, at(v, 750), "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UpdateFeaturesResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[230], 0)
    read_number(r, at(v, 751), "throttle_time_ms", 4, True)
    read_number(r, at(v, 752), "error_code", 2, True)
    read_string(r, at(v, 753), "error_message", True)
    if r.version <= 1:
        read_structs(r, at(v, 754), "results", False, read_UpdatableFeatureResult)
    else:
        put(at(v, 754), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UpdateFeaturesResponse(Writer w, object v) except -1:
    if not is_a(v, 230):
        misplaced(v, <type>CLASS[230])
    write_number(w, at(v, 751), "throttle_time_ms", 4, True)
    write_number(w, at(v, 752), "error_code", 2, True)
    write_string(w, at(v, 753), "error_message", True)
    if w.version <= 1:
        write_structs(w, at(v, 754), "results", False, write_UpdatableFeatureResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClusterRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[231], 0)
    read_bool(r, at(v, 755), "include_cluster_authorized_operations")
    if r.version >= 1:
        read_number(r, at(v, 756), "endpoint_type", 1, True)
    else:
        put(at(v, 756), 1)
    if r.version >= 2:
        read_bool(r, at(v, 757), "include_fenced_brokers")
    else:
        put(at(v, 757), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClusterRequest(Writer w, object v) except -1:
    if not is_a(v, 231):
        misplaced(v, <type>CLASS[231])
    write_bool(w, at(v, 755), "include_cluster_authorized_operations")
    if w.version >= 1:
        write_number(w, at(v, 756), "endpoint_type", 1, True)
    elif differs(at(v, 756), "endpoint_type", 1):
        refuse(w, v, "endpoint_type")
    if w.version >= 2:
        write_bool(w, at(v, 757), "include_fenced_brokers")
    elif differs(at(v, 757), "include_fenced_brokers", False):
        refuse(w, v, "include_fenced_brokers")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClusterBroker(Reader r):
    v = PyType_GenericAlloc(CLASS[232], 0)
    read_number(r, at(v, 758), "broker_id", 4, True)
    read_string(r, at(v, 759), "host", False)
    read_number(r, at(v, 760), "port", 4, True)
    read_string(r, at(v, 761), "rack", True)
    if r.version >= 2:
        read_bool(r, at(v, 762), "is_fenced")
    else:
        put(at(v, 762), False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClusterBroker(Writer w, object v) except -1:
    if not is_a(v, 232):
        misplaced(v, <type>CLASS[232])
    write_number(w, at(v, 758), "broker_id", 4, True)
    write_string(w, at(v, 759), "host", False)
    write_number(w, at(v, 760), "port", 4, True)
    write_string(w, at(v, 761), "rack", True)
    if w.version >= 2:
        write_bool(w, at(v, 762), "is_fenced")
    elif differs(at(v, 762), "is_fenced", False):
        refuse(w, v, "is_fenced")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClusterResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[233], 0)
    read_number(r, at(v, 763), "throttle_time_ms", 4, True)
    read_number(r, at(v, 764), "error_code", 2, True)
    read_string(r, at(v, 765), "error_message", True)
    if r.version >= 1:
        read_number(r, at(v, 766), "endpoint_type", 1, True)
    else:
        put(at(v, 766), 1)
    read_string(r, at(v, 767), "cluster_id", False)
    read_number(r, at(v, 768), "controller_id", 4, True)
    read_structs(r, at(v, 769), "brokers", False, read_DescribeClusterBroker)
    read_number(r, at(v, 770), "cluster_authorized_operations", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClusterResponse(Writer w, object v) except -1:
    if not is_a(v, 233):
        misplaced(v, <type>CLASS[233])
    write_number(w, at(v, 763), "throttle_time_ms", 4, True)
    write_number(w, at(v, 764), "error_code", 2, True)
    write_string(w, at(v, 765), "error_message", True)
    if w.version >= 1:
        write_number(w, at(v, 766), "endpoint_type", 1, True)
    elif differs(at(v, 766), "endpoint_type", 1):
        refuse(w, v, "endpoint_type")
    write_string(w, at(v, 767), "cluster_id", False)
    write_number(w, at(v, 768), "controller_id", 4, True)
    write_structs(w, at(v, 769), "brokers", False, write_DescribeClusterBroker)
    write_number(w, at(v, 770), "cluster_authorized_operations", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeProducersRequest_TopicRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[234], 0)
    read_string(r, at(v, 771), "name", False)
    read_numbers(r, at(v, 772), "partition_indexes", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeProducersRequest_TopicRequest(Writer w, object v) except -1:
    if not is_a(v, 234):
        misplaced(v, <type>CLASS[234])
    write_string(w, at(v, 771), "name", False)
    write_numbers(w, at(v, 772), "partition_indexes", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeProducersRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[235], 0)
    read_structs(r, at(v, 773), "topics", False, read_DescribeProducersRequest_TopicRequest)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeProducersRequest(Writer w, object v) except -1:
    if not is_a(v, 235):
        misplaced(v, <type>CLASS[235])
    write_structs(w, at(v, 773), "topics", False, write_DescribeProducersRequest_TopicRequest)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProducerState(Reader r):
    v = PyType_GenericAlloc(CLASS[236], 0)
    read_number(r, at(v, 774), "producer_id", 8, True)
    read_number(r, at(v, 775), "producer_epoch", 4, True)
    read_number(r, at(v, 776), "last_sequence", 4, True)
    read_number(r, at(v, 777), "last_timestamp", 8, True)
    read_number(r, at(v, 778), "coordinator_epoch", 4, True)
    read_number(r, at(v, 779), "current_txn_start_offset", 8, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProducerState(Writer w, object v) except -1:
    if not is_a(v, 236):
        misplaced(v, <type>CLASS[236])
    write_number(w, at(v, 774), "producer_id", 8, True)
    write_number(w, at(v, 775), "producer_epoch", 4, True)
    write_number(w, at(v, 776), "last_sequence", 4, True)
    write_number(w, at(v, 777), "last_timestamp", 8, True)
    write_number(w, at(v, 778), "coordinator_epoch", 4, True)
    write_number(w, at(v, 779), "current_txn_start_offset", 8, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[237], 0)
    read_number(r, at(v, 780), "partition_index", 4, True)
    read_number(r, at(v, 781), "error_code", 2, True)
    read_string(r, at(v, 782), "error_message", True)
    read_structs(r, at(v, 783), "active_producers", False, read_ProducerState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_PartitionResponse(Writer w, object v) except -1:
    if not is_a(v, 237):
        misplaced(v, <type>CLASS[237])
    write_number(w, at(v, 780), "partition_index", 4, True)
    write_number(w, at(v, 781), "error_code", 2, True)
    write_string(w, at(v, 782), "error_message", True)
    write_structs(w, at(v, 783), "active_producers", False, write_ProducerState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[238], 0)
    read_string(r, at(v, 784), "name", False)
    read_structs(r, at(v, 785), "partitions", False, read_PartitionResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TopicResponse(Writer w, object v) except -1:
    if not is_a(v, 238):
        misplaced(v, <type>CLASS[238])
    write_string(w, at(v, 784), "name", False)
    write_structs(w, at(v, 785), "partitions", False, write_PartitionResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeProducersResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[239], 0)
    read_number(r, at(v, 786), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 787), "topics", False, read_TopicResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeProducersResponse(Writer w, object v) except -1:
    if not is_a(v, 239):
        misplaced(v, <type>CLASS[239])
    write_number(w, at(v, 786), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 787), "topics", False, write_TopicResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[240], 0)
    read_strings(r, at(v, 788), "transactional_ids", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsRequest(Writer w, object v) except -1:
    if not is_a(v, 240):
        misplaced(v, <type>CLASS[240])
    write_strings(w, at(v, 788), "transactional_ids", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsResponse_TopicData(Reader r):
    v = PyType_GenericAlloc(CLASS[241], 0)
    read_string(r, at(v, 789), "topic", False)
    read_numbers(r, at(v, 790), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsResponse_TopicData(Writer w, object v) except -1:
    if not is_a(v, 241):
        misplaced(v, <type>CLASS[241])
    write_string(w, at(v, 789), "topic", False)
    write_numbers(w, at(v, 790), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsResponse_TransactionState(Reader r):
    v = PyType_GenericAlloc(CLASS[242], 0)
    read_number(r, at(v, 791), "error_code", 2, True)
    read_string(r, at(v, 792), "transactional_id", False)
    read_string(r, at(v, 793), "transaction_state", False)
    read_number(r, at(v, 794), "transaction_timeout_ms", 4, True)
    read_number(r, at(v, 795), "transaction_start_time_ms", 8, True)
    read_number(r, at(v, 796), "producer_id", 8, True)
    read_number(r, at(v, 797), "producer_epoch", 2, True)
    read_structs(r, at(v, 798), "topics", False, read_DescribeTransactionsResponse_TopicData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsResponse_TransactionState(Writer w, object v) except -1:
    if not is_a(v, 242):
        misplaced(v, <type>CLASS[242])
    write_number(w, at(v, 791), "error_code", 2, True)
    write_string(w, at(v, 792), "transactional_id", False)
    write_string(w, at(v, 793), "transaction_state", False)
    write_number(w, at(v, 794), "transaction_timeout_ms", 4, True)
    write_number(w, at(v, 795), "transaction_start_time_ms", 8, True)
    write_number(w, at(v, 796), "producer_id", 8, True)
    write_number(w, at(v, 797), "producer_epoch", 2, True)
    write_structs(w, at(v, 798), "topics", False, write_DescribeTransactionsResponse_TopicData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[243], 0)
    read_number(r, at(v, 799), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 800), "transaction_states", False, read_DescribeTransactionsResponse_TransactionState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsResponse(Writer w, object v) except -1:
    if not is_a(v, 243):
        misplaced(v, <type>CLASS[243])
    write_number(w, at(v, 799), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 800), "transaction_states", False, write_DescribeTransactionsResponse_TransactionState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListTransactionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[244], 0)
    read_strings(r, at(v, 801), "state_filters", False)
    read_numbers(r, at(v, 802), "producer_id_filters", False, 8)
    if r.version >= 1:
        read_number(r, at(v, 803), "duration_filter", 8, True)
    else:
        put(at(v, 803), -1)
    if r.version >= 2:
        read_string(r, at(v, 804), "transactional_id_pattern", r.version >= 2)
    else:
        put(at(v, 804), None)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListTransactionsRequest(Writer w, object v) except -1:
    if not is_a(v, 244):
        misplaced(v, <type>CLASS[244])
    write_strings(w, at(v, 801), "state_filters", False)
    write_numbers(w, at(v, 802), "producer_id_filters", False, 8)
    if w.version >= 1:
        write_number(w, at(v, 803), "duration_filter", 8, True)
    elif differs(at(v, 803), "duration_filter", -1):
        refuse(w, v, "duration_filter")
    if w.version >= 2:
        write_string(w, at(v, 804), "transactional_id_pattern", w.version >= 2)
    elif differs(at(v, 804), "transactional_id_pattern", None):
        refuse(w, v, "transactional_id_pattern")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListTransactionsResponse_TransactionState(Reader r):
    v = PyType_GenericAlloc(CLASS[245], 0)
    read_string(r, at(v, 805), "transactional_id", False)
    read_number(r, at(v, 806), "producer_id", 8, True)
    read_string(r, at(v, 807), "transaction_state", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListTransactionsResponse_TransactionState(Writer w, object v) except -1:
    if not is_a(v, 245):
        misplaced(v, <type>CLASS[245])
    write_string(w, at(v, 805), "transactional_id", False)
    write_number(w, at(v, 806), "producer_id", 8, True)
    write_string(w, at(v, 807), "transaction_state", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListTransactionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[246], 0)
    read_number(r, at(v, 808), "throttle_time_ms", 4, True)
    read_number(r, at(v, 809), "error_code", 2, True)
    read_strings(r, at(v, 810), "unknown_state_filters", False)
    read_structs(r, at(v, 811), "transaction_states", False, read_ListTransactionsResponse_TransactionState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListTransactionsResponse(Writer w, object v) except -1:
    if not is_a(v, 246):
        misplaced(v, <type>CLASS[246])
    write_number(w, at(v, 808), "throttle_time_ms", 4, True)
    write_number(w, at(v, 809), "error_code", 2, True)
    write_strings(w, at(v, 810), "unknown_state_filters", False)
    write_structs(w, at(v, 811), "transaction_states", False, write_ListTransactionsResponse_TransactionState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatRequest_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[247], 0)
    read_uuid(r, at(v, 812), "topic_id")
    read_numbers(r, at(v, 813), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatRequest_TopicPartitions(Writer w, object v) except -1:
    if not is_a(v, 247):
        misplaced(v, <type>CLASS[247])
    write_uuid(w, at(v, 812), "topic_id")
    write_numbers(w, at(v, 813), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[248], 0)
    read_string(r, at(v, 814), "group_id", False)
    read_string(r, at(v, 815), "member_id", False)
    read_number(r, at(v, 816), "member_epoch", 4, True)
    read_string(r, at(v, 817), "instance_id", True)
    read_string(r, at(v, 818), "rack_id", True)
    read_number(r, at(v, 819), "rebalance_timeout_ms", 4, True)
    read_strings(r, at(v, 820), "subscribed_topic_names", True)
    if r.version >= 1:
        read_string(r, at(v, 821), "subscribed_topic_regex", r.version >= 1)
    else:
        put(at(v, 821), None)
    read_string(r, at(v, 822), "server_assignor", True)
    read_structs(r, at(v, 823), "topic_partitions", True, read_ConsumerGroupHeartbeatRequest_TopicPartitions)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatRequest(Writer w, object v) except -1:
    if not is_a(v, 248):
        misplaced(v, <type>CLASS[248])
    write_string(w, at(v, 814), "group_id", False)
    write_string(w, at(v, 815), "member_id", False)
    write_number(w, at(v, 816), "member_epoch", 4, True)
    write_string(w, at(v, 817), "instance_id", True)
    write_string(w, at(v, 818), "rack_id", True)
    write_number(w, at(v, 819), "rebalance_timeout_ms", 4, True)
    write_strings(w, at(v, 820), "subscribed_topic_names", True)
    if w.version >= 1:
        write_string(w, at(v, 821), "subscribed_topic_regex", w.version >= 1)
    elif differs(at(v, 821), "subscribed_topic_regex", None):
        refuse(w, v, "subscribed_topic_regex")
    write_string(w, at(v, 822), "server_assignor", True)
    write_structs(w, at(v, 823), "topic_partitions", True, write_ConsumerGroupHeartbeatRequest_TopicPartitions)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatResponse_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[249], 0)
    read_uuid(r, at(v, 824), "topic_id")
    read_numbers(r, at(v, 825), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatResponse_TopicPartitions(Writer w, object v) except -1:
    if not is_a(v, 249):
        misplaced(v, <type>CLASS[249])
    write_uuid(w, at(v, 824), "topic_id")
    write_numbers(w, at(v, 825), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatResponse_Assignment(Reader r):
    v = PyType_GenericAlloc(CLASS[250], 0)
    read_structs(r, at(v, 826), "topic_partitions", False, read_ConsumerGroupHeartbeatResponse_TopicPartitions)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatResponse_Assignment(Writer w, object v) except -1:
    if not is_a(v, 250):
        misplaced(v, <type>CLASS[250])
    write_structs(w, at(v, 826), "topic_partitions", False, write_ConsumerGroupHeartbeatResponse_TopicPartitions)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[251], 0)
    read_number(r, at(v, 827), "throttle_time_ms", 4, True)
    read_number(r, at(v, 828), "error_code", 2, True)
    read_string(r, at(v, 829), "error_message", True)
    read_string(r, at(v, 830), "member_id", True)
    read_number(r, at(v, 831), "member_epoch", 4, True)
    read_number(r, at(v, 832), "heartbeat_interval_ms", 4, True)
    read_struct(r, at(v, 833), "assignment", True, read_ConsumerGroupHeartbeatResponse_Assignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatResponse(Writer w, object v) except -1:
    if not is_a(v, 251):
        misplaced(v, <type>CLASS[251])
    write_number(w, at(v, 827), "throttle_time_ms", 4, True)
    write_number(w, at(v, 828), "error_code", 2, True)
    write_string(w, at(v, 829), "error_message", True)
    write_string(w, at(v, 830), "member_id", True)
    write_number(w, at(v, 831), "member_epoch", 4, True)
    write_number(w, at(v, 832), "heartbeat_interval_ms", 4, True)
    write_struct(w, at(v, 833), "assignment", True, write_ConsumerGroupHeartbeatResponse_Assignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[252], 0)
    read_strings(r, at(v, 834), "group_ids", False)
    read_bool(r, at(v, 835), "include_authorized_operations")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeRequest(Writer w, object v) except -1:
    if not is_a(v, 252):
        misplaced(v, <type>CLASS[252])
    write_strings(w, at(v, 834), "group_ids", False)
    write_bool(w, at(v, 835), "include_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[253], 0)
    read_uuid(r, at(v, 836), "topic_id")
    read_string(r, at(v, 837), "topic_name", False)
    read_numbers(r, at(v, 838), "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse_TopicPartitions(Writer w, object v) except -1:
    if not is_a(v, 253):
        misplaced(v, <type>CLASS[253])
    write_uuid(w, at(v, 836), "topic_id")
    write_string(w, at(v, 837), "topic_name", False)
    write_numbers(w, at(v, 838), "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse_Assignment(Reader r):
    v = PyType_GenericAlloc(CLASS[254], 0)
    read_structs(r, at(v, 839), "topic_partitions", False, read_ConsumerGroupDescribeResponse_TopicPartitions)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse_Assignment(Writer w, object v) except -1:
    if not is_a(v, 254):
        misplaced(v, <type>CLASS[254])
    write_structs(w, at(v, 839), "topic_partitions", False, write_ConsumerGroupDescribeResponse_TopicPartitions)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Member(Reader r):
    v = PyType_GenericAlloc(CLASS[255], 0)
    read_string(r, at(v, 840), "member_id", False)
    read_string(r, at(v, 841), "instance_id", True)
    read_string(r, at(v, 842), "rack_id", True)
    read_number(r, at(v, 843), "member_epoch", 4, True)
    read_string(r, at(v, 844), "client_id", False)
    read_string(r, at(v, 845), "client_host", False)
    read_strings(r, at(v, 846), "subscribed_topic_names", False)
    read_string(r, at(v, 847), "subscribed_topic_regex", True)
    read_struct(r, at(v, 848), "assignment", False, read_ConsumerGroupDescribeResponse_Assignment)
    read_struct(r, at(v, 849), "target_assignment", False, read_ConsumerGroupDescribeResponse_Assignment)
    if r.version >= 1:
        read_number(r, at(v, 850), "member_type", 1, True)
    else:
        put(at(v, 850), -1)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Member(Writer w, object v) except -1:
    if not is_a(v, 255):
        misplaced(v, <type>CLASS[255])
    write_string(w, at(v, 840), "member_id", False)
    write_string(w, at(v, 841), "instance_id", True)
    write_string(w, at(v, 842), "rack_id", True)
    write_number(w, at(v, 843), "member_epoch", 4, True)
    write_string(w, at(v, 844), "client_id", False)
    write_string(w, at(v, 845), "client_host", False)
    write_strings(w, at(v, 846), "subscribed_topic_names", False)
    write_string(w, at(v, 847), "subscribed_topic_regex", True)
    write_struct(w, at(v, 848), "assignment", False, write_ConsumerGroupDescribeResponse_Assignment)
    write_struct(w, at(v, 849), "target_assignment", False, write_ConsumerGroupDescribeResponse_Assignment)
    if w.version >= 1:
        write_number(w, at(v, 850), "member_type", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse_DescribedGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[256], 0)
    read_number(r, at(v, 851), "error_code", 2, True)
    read_string(r, at(v, 852), "error_message", True)
    read_string(r, at(v, 853), "group_id", False)
    read_string(r, at(v, 854), "group_state", False)
    read_number(r, at(v, 855), "group_epoch", 4, True)
    read_number(r, at(v, 856), "assignment_epoch", 4, True)
    read_string(r, at(v, 857), "assignor_name", False)
    read_structs(r, at(v, 858), "members", False, read_Member)
    read_number(r, at(v, 859), "authorized_operations", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse_DescribedGroup(Writer w, object v) except -1:
    if not is_a(v, 256):
        misplaced(v, <type>CLASS[256])
    write_number(w, at(v, 851), "error_code", 2, True)
    write_string(w, at(v, 852), "error_message", True)
    write_string(w, at(v, 853), "group_id", False)
    write_string(w, at(v, 854), "group_state", False)
    write_number(w, at(v, 855), "group_epoch", 4, True)
    write_number(w, at(v, 856), "assignment_epoch", 4, True)
    write_string(w, at(v, 857), "assignor_name", False)
    write_structs(w, at(v, 858), "members", False, write_Member)
    write_number(w, at(v, 859), "authorized_operations", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[257], 0)
    read_number(r, at(v, 860), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 861), "groups", False, read_ConsumerGroupDescribeResponse_DescribedGroup)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse(Writer w, object v) except -1:
    if not is_a(v, 257):
        misplaced(v, <type>CLASS[257])
    write_number(w, at(v, 860), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 861), "groups", False, write_ConsumerGroupDescribeResponse_DescribedGroup)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListConfigResourcesRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[258], 0)
    if r.version >= 1:
        read_numbers(r, at(v, 862), "resource_types", False, 1)
    else:
        put(at(v, 862), [])
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListConfigResourcesRequest(Writer w, object v) except -1:
    if not is_a(v, 258):
        misplaced(v, <type>CLASS[258])
    if w.version >= 1:
        write_numbers(w, at(v, 862), "resource_types", False, 1)
    elif differs(at(v, 862), "resource_types", ()):
        refuse(w, v, "resource_types")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConfigResource(Reader r):
    v = PyType_GenericAlloc(CLASS[259], 0)
    read_string(r, at(v, 863), "resource_name", False)
    if r.version >= 1:
        read_number(r, at(v, 864), "resource_type", 1, True)
    else:
        put(at(v, 864), 16)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConfigResource(Writer w, object v) except -1:
    if not is_a(v, 259):
        misplaced(v, <type>CLASS[259])
    write_string(w, at(v, 863), "resource_name", False)
    if w.version >= 1:
        write_number(w, at(v, 864), "resource_type", 1, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListConfigResourcesResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[260], 0)
    read_number(r, at(v, 865), "throttle_time_ms", 4, True)
    read_number(r, at(v, 866), "error_code", 2, True)
    read_structs(r, at(v, 867), "config_resources", False, read_ConfigResource)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListConfigResourcesResponse(Writer w, object v) except -1:
    if not is_a(v, 260):
        misplaced(v, <type>CLASS[260])
    write_number(w, at(v, 865), "throttle_time_ms", 4, True)
    write_number(w, at(v, 866), "error_code", 2, True)
    write_structs(w, at(v, 867), "config_resources", False, write_ConfigResource)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsRequest_TopicRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[261], 0)
    read_string(r, at(v, 868), "name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsRequest_TopicRequest(Writer w, object v) except -1:
    if not is_a(v, 261):
        misplaced(v, <type>CLASS[261])
    write_string(w, at(v, 868), "name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsRequest_Cursor(Reader r):
    v = PyType_GenericAlloc(CLASS[262], 0)
    read_string(r, at(v, 869), "topic_name", False)
    read_number(r, at(v, 870), "partition_index", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsRequest_Cursor(Writer w, object v) except -1:
    if not is_a(v, 262):
        misplaced(v, <type>CLASS[262])
    write_string(w, at(v, 869), "topic_name", False)
    write_number(w, at(v, 870), "partition_index", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[263], 0)
    read_structs(r, at(v, 871), "topics", False, read_DescribeTopicPartitionsRequest_TopicRequest)
    read_number(r, at(v, 872), "response_partition_limit", 4, True)
    read_struct(r, at(v, 873), "cursor", True, read_DescribeTopicPartitionsRequest_Cursor)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsRequest(Writer w, object v) except -1:
    if not is_a(v, 263):
        misplaced(v, <type>CLASS[263])
    write_structs(w, at(v, 871), "topics", False, write_DescribeTopicPartitionsRequest_TopicRequest)
    write_number(w, at(v, 872), "response_partition_limit", 4, True)
    write_struct(w, at(v, 873), "cursor", True, write_DescribeTopicPartitionsRequest_Cursor)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[264], 0)
    read_number(r, at(v, 874), "error_code", 2, True)
    read_number(r, at(v, 875), "partition_index", 4, True)
    read_number(r, at(v, 876), "leader_id", 4, True)
    read_number(r, at(v, 877), "leader_epoch", 4, True)
    read_numbers(r, at(v, 878), "replica_nodes", False, 4)
    read_numbers(r, at(v, 879), "isr_nodes", False, 4)
    read_numbers(r, at(v, 880), "eligible_leader_replicas", True, 4)
    read_numbers(r, at(v, 881), "last_known_elr", True, 4)
    read_numbers(r, at(v, 882), "offline_replicas", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponsePartition(Writer w, object v) except -1:
    if not is_a(v, 264):
        misplaced(v, <type>CLASS[264])
    write_number(w, at(v, 874), "error_code", 2, True)
    write_number(w, at(v, 875), "partition_index", 4, True)
    write_number(w, at(v, 876), "leader_id", 4, True)
    write_number(w, at(v, 877), "leader_epoch", 4, True)
    write_numbers(w, at(v, 878), "replica_nodes", False, 4)
    write_numbers(w, at(v, 879), "isr_nodes", False, 4)
    write_numbers(w, at(v, 880), "eligible_leader_replicas", True, 4)
    write_numbers(w, at(v, 881), "last_known_elr", True, 4)
    write_numbers(w, at(v, 882), "offline_replicas", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[265], 0)
    read_number(r, at(v, 883), "error_code", 2, True)
    read_string(r, at(v, 884), "name", True)
    read_uuid(r, at(v, 885), "topic_id")
    read_bool(r, at(v, 886), "is_internal")
    read_structs(r, at(v, 887), "partitions", False, read_DescribeTopicPartitionsResponsePartition)
    read_number(r, at(v, 888), "topic_authorized_operations", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponseTopic(Writer w, object v) except -1:
    if not is_a(v, 265):
        misplaced(v, <type>CLASS[265])
    write_number(w, at(v, 883), "error_code", 2, True)
    write_string(w, at(v, 884), "name", True)
    write_uuid(w, at(v, 885), "topic_id")
    write_bool(w, at(v, 886), "is_internal")
    write_structs(w, at(v, 887), "partitions", False, write_DescribeTopicPartitionsResponsePartition)
    write_number(w, at(v, 888), "topic_authorized_operations", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponse_Cursor(Reader r):
    v = PyType_GenericAlloc(CLASS[266], 0)
    read_string(r, at(v, 889), "topic_name", False)
    read_number(r, at(v, 890), "partition_index", 4, True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponse_Cursor(Writer w, object v) except -1:
    if not is_a(v, 266):
        misplaced(v, <type>CLASS[266])
    write_string(w, at(v, 889), "topic_name", False)
    write_number(w, at(v, 890), "partition_index", 4, True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[267], 0)
    read_number(r, at(v, 891), "throttle_time_ms", 4, True)
    read_structs(r, at(v, 892), "topics", False, read_DescribeTopicPartitionsResponseTopic)
    read_struct(r, at(v, 893), "next_cursor", True, read_DescribeTopicPartitionsResponse_Cursor)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponse(Writer w, object v) except -1:
    if not is_a(v, 267):
        misplaced(v, <type>CLASS[267])
    write_number(w, at(v, 891), "throttle_time_ms", 4, True)
    write_structs(w, at(v, 892), "topics", False, write_DescribeTopicPartitionsResponseTopic)
    write_struct(w, at(v, 893), "next_cursor", True, write_DescribeTopicPartitionsResponse_Cursor)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef enum:
    API_VERSIONS = 18


know(0, read_ProduceRequest, write_ProduceRequest, 0, 3, 13, 9)
know(1, read_ProduceResponse, write_ProduceResponse, 0, 3, 13, 9)
know(2, read_FetchRequest, write_FetchRequest, 1, 4, 18, 12)
know(3, read_FetchResponse, write_FetchResponse, 1, 4, 18, 12)
know(4, read_ListOffsetsRequest, write_ListOffsetsRequest, 2, 1, 11, 6)
know(5, read_ListOffsetsResponse, write_ListOffsetsResponse, 2, 1, 11, 6)
know(6, read_MetadataRequest, write_MetadataRequest, 3, 0, 13, 9)
know(7, read_MetadataResponse, write_MetadataResponse, 3, 0, 13, 9)
know(8, read_OffsetCommitRequest, write_OffsetCommitRequest, 8, 2, 10, 8)
know(9, read_OffsetCommitResponse, write_OffsetCommitResponse, 8, 2, 10, 8)
know(10, read_OffsetFetchRequest, write_OffsetFetchRequest, 9, 1, 10, 6)
know(11, read_OffsetFetchResponse, write_OffsetFetchResponse, 9, 1, 10, 6)
know(12, read_FindCoordinatorRequest, write_FindCoordinatorRequest, 10, 0, 6, 3)
know(13, read_FindCoordinatorResponse, write_FindCoordinatorResponse, 10, 0, 6, 3)
know(14, read_JoinGroupRequest, write_JoinGroupRequest, 11, 0, 9, 6)
know(15, read_JoinGroupResponse, write_JoinGroupResponse, 11, 0, 9, 6)
know(16, read_HeartbeatRequest, write_HeartbeatRequest, 12, 0, 4, 4)
know(17, read_HeartbeatResponse, write_HeartbeatResponse, 12, 0, 4, 4)
know(18, read_LeaveGroupRequest, write_LeaveGroupRequest, 13, 0, 5, 4)
know(19, read_LeaveGroupResponse, write_LeaveGroupResponse, 13, 0, 5, 4)
know(20, read_SyncGroupRequest, write_SyncGroupRequest, 14, 0, 5, 4)
know(21, read_SyncGroupResponse, write_SyncGroupResponse, 14, 0, 5, 4)
know(22, read_DescribeGroupsRequest, write_DescribeGroupsRequest, 15, 0, 6, 5)
know(23, read_DescribeGroupsResponse, write_DescribeGroupsResponse, 15, 0, 6, 5)
know(24, read_ListGroupsRequest, write_ListGroupsRequest, 16, 0, 5, 3)
know(25, read_ListGroupsResponse, write_ListGroupsResponse, 16, 0, 5, 3)
know(26, read_SaslHandshakeRequest, write_SaslHandshakeRequest, 17, 0, 1, 32767)
know(27, read_SaslHandshakeResponse, write_SaslHandshakeResponse, 17, 0, 1, 32767)
know(28, read_ApiVersionsRequest, write_ApiVersionsRequest, 18, 0, 4, 3)
know(29, read_ApiVersionsResponse, write_ApiVersionsResponse, 18, 0, 4, 3)
know(30, read_CreateTopicsRequest, write_CreateTopicsRequest, 19, 2, 7, 5)
know(31, read_CreateTopicsResponse, write_CreateTopicsResponse, 19, 2, 7, 5)
know(32, read_DeleteTopicsRequest, write_DeleteTopicsRequest, 20, 1, 6, 4)
know(33, read_DeleteTopicsResponse, write_DeleteTopicsResponse, 20, 1, 6, 4)
know(34, read_DeleteRecordsRequest, write_DeleteRecordsRequest, 21, 0, 2, 2)
know(35, read_DeleteRecordsResponse, write_DeleteRecordsResponse, 21, 0, 2, 2)
know(36, read_InitProducerIdRequest, write_InitProducerIdRequest, 22, 0, 6, 2)
know(37, read_InitProducerIdResponse, write_InitProducerIdResponse, 22, 0, 6, 2)
know(38, read_OffsetForLeaderEpochRequest, write_OffsetForLeaderEpochRequest, 23, 2, 4, 4)
know(39, read_OffsetForLeaderEpochResponse, write_OffsetForLeaderEpochResponse, 23, 2, 4, 4)
know(40, read_AddPartitionsToTxnRequest, write_AddPartitionsToTxnRequest, 24, 0, 5, 3)
know(41, read_AddPartitionsToTxnResponse, write_AddPartitionsToTxnResponse, 24, 0, 5, 3)
know(42, read_AddOffsetsToTxnRequest, write_AddOffsetsToTxnRequest, 25, 0, 4, 3)
know(43, read_AddOffsetsToTxnResponse, write_AddOffsetsToTxnResponse, 25, 0, 4, 3)
know(44, read_EndTxnRequest, write_EndTxnRequest, 26, 0, 5, 3)
know(45, read_EndTxnResponse, write_EndTxnResponse, 26, 0, 5, 3)
know(46, read_TxnOffsetCommitRequest, write_TxnOffsetCommitRequest, 28, 0, 5, 3)
know(47, read_TxnOffsetCommitResponse, write_TxnOffsetCommitResponse, 28, 0, 5, 3)
know(48, read_DescribeAclsRequest, write_DescribeAclsRequest, 29, 1, 3, 2)
know(49, read_DescribeAclsResponse, write_DescribeAclsResponse, 29, 1, 3, 2)
know(50, read_CreateAclsRequest, write_CreateAclsRequest, 30, 1, 3, 2)
know(51, read_CreateAclsResponse, write_CreateAclsResponse, 30, 1, 3, 2)
know(52, read_DeleteAclsRequest, write_DeleteAclsRequest, 31, 1, 3, 2)
know(53, read_DeleteAclsResponse, write_DeleteAclsResponse, 31, 1, 3, 2)
know(54, read_DescribeConfigsRequest, write_DescribeConfigsRequest, 32, 1, 4, 4)
know(55, read_DescribeConfigsResponse, write_DescribeConfigsResponse, 32, 1, 4, 4)
know(56, read_AlterConfigsRequest, write_AlterConfigsRequest, 33, 0, 2, 2)
know(57, read_AlterConfigsResponse, write_AlterConfigsResponse, 33, 0, 2, 2)
know(58, read_AlterReplicaLogDirsRequest, write_AlterReplicaLogDirsRequest, 34, 1, 2, 2)
know(59, read_AlterReplicaLogDirsResponse, write_AlterReplicaLogDirsResponse, 34, 1, 2, 2)
know(60, read_DescribeLogDirsRequest, write_DescribeLogDirsRequest, 35, 1, 5, 2)
know(61, read_DescribeLogDirsResponse, write_DescribeLogDirsResponse, 35, 1, 5, 2)
know(62, read_SaslAuthenticateRequest, write_SaslAuthenticateRequest, 36, 0, 2, 2)
know(63, read_SaslAuthenticateResponse, write_SaslAuthenticateResponse, 36, 0, 2, 2)
know(64, read_CreatePartitionsRequest, write_CreatePartitionsRequest, 37, 0, 3, 2)
know(65, read_CreatePartitionsResponse, write_CreatePartitionsResponse, 37, 0, 3, 2)
know(66, read_DeleteGroupsRequest, write_DeleteGroupsRequest, 42, 0, 2, 2)
know(67, read_DeleteGroupsResponse, write_DeleteGroupsResponse, 42, 0, 2, 2)
know(68, read_ElectLeadersRequest, write_ElectLeadersRequest, 43, 0, 2, 2)
know(69, read_ElectLeadersResponse, write_ElectLeadersResponse, 43, 0, 2, 2)
know(70, read_IncrementalAlterConfigsRequest, write_IncrementalAlterConfigsRequest, 44, 0, 1, 1)
know(71, read_IncrementalAlterConfigsResponse, write_IncrementalAlterConfigsResponse, 44, 0, 1, 1)
know(72, read_AlterPartitionReassignmentsRequest, write_AlterPartitionReassignmentsRequest, 45, 0, 1, 0)
know(73, read_AlterPartitionReassignmentsResponse, write_AlterPartitionReassignmentsResponse, 45, 0, 1, 0)
know(74, read_ListPartitionReassignmentsRequest, write_ListPartitionReassignmentsRequest, 46, 0, 0, 0)
know(75, read_ListPartitionReassignmentsResponse, write_ListPartitionReassignmentsResponse, 46, 0, 0, 0)
know(76, read_OffsetDeleteRequest, write_OffsetDeleteRequest, 47, 0, 0, 32767)
know(77, read_OffsetDeleteResponse, write_OffsetDeleteResponse, 47, 0, 0, 32767)
know(78, read_DescribeClientQuotasRequest, write_DescribeClientQuotasRequest, 48, 0, 1, 1)
know(79, read_DescribeClientQuotasResponse, write_DescribeClientQuotasResponse, 48, 0, 1, 1)
know(80, read_AlterClientQuotasRequest, write_AlterClientQuotasRequest, 49, 0, 1, 1)
know(81, read_AlterClientQuotasResponse, write_AlterClientQuotasResponse, 49, 0, 1, 1)
know(82, read_DescribeUserScramCredentialsRequest, write_DescribeUserScramCredentialsRequest, 50, 0, 0, 0)
know(83, read_DescribeUserScramCredentialsResponse, write_DescribeUserScramCredentialsResponse, 50, 0, 0, 0)
know(84, read_AlterUserScramCredentialsRequest, write_AlterUserScramCredentialsRequest, 51, 0, 0, 0)
know(85, read_AlterUserScramCredentialsResponse, write_AlterUserScramCredentialsResponse, 51, 0, 0, 0)
know(86, read_DescribeQuorumRequest, write_DescribeQuorumRequest, 55, 0, 2, 0)
know(87, read_DescribeQuorumResponse, write_DescribeQuorumResponse, 55, 0, 2, 0)
know(88, read_UpdateFeaturesRequest, write_UpdateFeaturesRequest, 57, 0, 2, 0)
know(89, read_UpdateFeaturesResponse, write_UpdateFeaturesResponse, 57, 0, 2, 0)
know(90, read_DescribeClusterRequest, write_DescribeClusterRequest, 60, 0, 2, 0)
know(91, read_DescribeClusterResponse, write_DescribeClusterResponse, 60, 0, 2, 0)
know(92, read_DescribeProducersRequest, write_DescribeProducersRequest, 61, 0, 0, 0)
know(93, read_DescribeProducersResponse, write_DescribeProducersResponse, 61, 0, 0, 0)
know(94, read_DescribeTransactionsRequest, write_DescribeTransactionsRequest, 65, 0, 0, 0)
know(95, read_DescribeTransactionsResponse, write_DescribeTransactionsResponse, 65, 0, 0, 0)
know(96, read_ListTransactionsRequest, write_ListTransactionsRequest, 66, 0, 2, 0)
know(97, read_ListTransactionsResponse, write_ListTransactionsResponse, 66, 0, 2, 0)
know(98, read_ConsumerGroupHeartbeatRequest, write_ConsumerGroupHeartbeatRequest, 68, 0, 1, 0)
know(99, read_ConsumerGroupHeartbeatResponse, write_ConsumerGroupHeartbeatResponse, 68, 0, 1, 0)
know(100, read_ConsumerGroupDescribeRequest, write_ConsumerGroupDescribeRequest, 69, 0, 1, 0)
know(101, read_ConsumerGroupDescribeResponse, write_ConsumerGroupDescribeResponse, 69, 0, 1, 0)
know(102, read_ListConfigResourcesRequest, write_ListConfigResourcesRequest, 74, 0, 1, 0)
know(103, read_ListConfigResourcesResponse, write_ListConfigResourcesResponse, 74, 0, 1, 0)
know(104, read_DescribeTopicPartitionsRequest, write_DescribeTopicPartitionsRequest, 75, 0, 0, 0)
know(105, read_DescribeTopicPartitionsResponse, write_DescribeTopicPartitionsResponse, 75, 0, 0, 0)


def bind(tuple classes, tuple names):
    """Takes the classes, in the order of the functions above, and the names of the messages. Once."""
    global NAMES
    cdef int n = 0, field = 0
    if len(classes) != CLASSES or len(names) != MESSAGES:
        raise ValueError(f"expected {<int>CLASSES} classes of {<int>MESSAGES} messages")
    for one in classes:
        Py_INCREF(one)  # for ever: values are made of it
        CLASS[n] = <PyTypeObject *>one
        n += 1
        for name in one.__slots__:
            if field == FIELDS:
                raise ValueError(f"a message has more than {<int>FIELDS} fields")
            OFFSET[field] = place_of(one, name)
            field += 1
    if field != FIELDS:
        raise ValueError(f"{field} fields, expected {<int>FIELDS}")
    NAMES = names


cdef Py_ssize_t place_of(type one, str name) except -1:
    """How far into an object of the class the slot is: where a value turns up that is put there by its name."""
    cdef object v = PyType_GenericAlloc(<PyTypeObject *>one, 0)
    cdef Py_ssize_t offset
    mark = object()
    setattr(v, name, mark)
    for offset in range(sizeof(PyObject), one.__basicsize__, sizeof(PyObject *)):
        if (<PyObject **>(<char *>(<PyObject *>v) + offset))[0] == <PyObject *>mark:
            return offset
    raise SystemError(f"{one.__qualname__}.{name} is not in the object")


cdef Known *known(int message, int version) except NULL:
    if not 0 <= message < len(NAMES):
        raise ValueError(f"the message {message} is unknown")
    cdef Known *found = &KNOWN[message]
    if not found.first <= version <= found.last:
        raise UnsupportedVersionError(
            f"{NAMES[message]} has versions {found.first} to {found.last}, not {version}")
    return found


def encode(int message, object value, int version):
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    one.write(w, value)
    return w.taken()


cdef object message_of(Known *one, Reader r):
    value = one.read(r)
    if r.p != r.end:
        malformed(r, "message", f"{r.end - r.p} bytes more than it has")
    return value


def decode(int message, object buffer, int version, Py_ssize_t position=0):
    cdef Known *one = known(message, version)
    return message_of(one, Reader(buffer, position, version, version >= one.flexible))


def encode_request(int message, object value, int version, int correlation_id, object client_id):
    """Size, request header (version 1, or 2 with tagged fields) and body."""
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    plain_number(w, 0, 4)
    plain_number(w, one.key, 2)
    plain_number(w, version, 2)
    plain_number(w, correlation_id, 4)
    plain_old_text(w, client_id, "client_id")
    if w.flexible:
        plain_number(w, 0, 1)
    one.write(w, value)
    return framed(w)


def encode_response(int message, object value, int version, int correlation_id):
    """Size, response header (version 0, or 1 with tagged fields; ApiVersions always 0) and body."""
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    plain_number(w, 0, 4)
    plain_number(w, correlation_id, 4)
    if w.flexible and one.key != API_VERSIONS:
        plain_number(w, 0, 1)
    one.write(w, value)
    return framed(w)


cdef object framed(Writer w):
    cdef Py_ssize_t size = w.size
    if size - 4 > 0x7FFFFFFF:
        raise ValueError(f"a frame of {size - 4} bytes: 2 GiB is the most")
    w.size = 0
    plain_number(w, size - 4, 4)
    w.size = size
    return w.taken()


def decode_response(int message, object buffer, int version, Py_ssize_t position=0):
    """The correlation id and the message of a frame without its size."""
    cdef Known *one = known(message, version)
    cdef Reader r = Reader(buffer, position, version, version >= one.flexible)
    cdef int correlation_id = <int>integer(r, "correlation_id", 4)
    if r.flexible and one.key != API_VERSIONS:
        skip_tags(r)
    return correlation_id, message_of(one, r)


def request_header(object buffer, Py_ssize_t position=0):
    """API key, version and correlation id: what every request begins with, known or not."""
    cdef Reader r = Reader(buffer, position, 0, False)
    cdef int key = <int>integer(r, "request_api_key", 2)
    cdef int version = <int>integer(r, "request_api_version", 2)
    return key, version, <int>integer(r, "correlation_id", 4)


def decode_request(int message, object buffer, int version, Py_ssize_t position=0):
    """The client id and the message of a frame without its size, whose header `request_header` has read."""
    cdef Known *one = known(message, version)
    cdef Reader r = Reader(buffer, position, version, version >= one.flexible)
    request_header(buffer, position)
    r.p += 8
    client_id = plain_old_string(r, "client_id")
    if r.flexible:
        skip_tags(r)
    return client_id, message_of(one, r)
