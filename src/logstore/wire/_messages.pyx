"""Kafka's messages as bytes and back: one function for each struct that reads it and one that writes it.

Written by protocol/generate.py from protocol/messages.txt; change those. `message` and `frames` are what
calls this. `bind` must have given it the classes of `messages` before.
"""

from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t

from logstore.wire._primitives cimport (
    Reader, ReadStruct, WriteStruct, Writer,
    begin_tag, differs, end_tag, enter_tag, leave_tag, malformed, plain_int16, plain_int32, plain_number,
    plain_old_string, plain_old_text, read_bool, read_bytes, read_float64, read_int8, read_int16, read_int32,
    read_int64, read_numbers, read_records, read_string, read_strings, read_struct, read_structs, read_uint16,
    read_uuid, refuse, skip_tags, tag_count, write_bool, write_bytes, write_float64, write_int8, write_int16,
    write_int32, write_int64, write_numbers, write_records, write_string, write_strings, write_struct,
    write_structs, write_uint16, write_uuid,
)

from logstore.errors import UnsupportedVersionError

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)

cdef struct Known:
    ReadStruct read
    WriteStruct write
    int key
    int first
    int last
    int flexible

cdef enum:
    CLASSES = 268
    MESSAGES = 106

cdef PyTypeObject *CLASS[CLASSES]
cdef Known KNOWN[MESSAGES]
cdef tuple NAMES = ()


cdef void know(int n, ReadStruct read, WriteStruct write, int key, int first, int last, int flexible) noexcept:
    KNOWN[n].read = read
    KNOWN[n].write = write
    KNOWN[n].key = key
    KNOWN[n].first = first
    KNOWN[n].last = last
    KNOWN[n].flexible = flexible


cdef object read_PartitionProduceData(Reader r):
    v = PyType_GenericAlloc(CLASS[0], 0)
    read_int32(r, v, "index")
    read_records(r, v, "records", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_PartitionProduceData(Writer w, object v) except -1:
    write_int32(w, v, "index")
    write_records(w, v, "records", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TopicProduceData(Reader r):
    v = PyType_GenericAlloc(CLASS[1], 0)
    if r.version <= 12:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 13:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_structs(r, v, "partition_data", False, read_PartitionProduceData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TopicProduceData(Writer w, object v) except -1:
    if w.version <= 12:
        write_string(w, v, "name", False)
    if w.version >= 13:
        write_uuid(w, v, "topic_id")
    write_structs(w, v, "partition_data", False, write_PartitionProduceData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProduceRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[2], 0)
    read_string(r, v, "transactional_id", True)
    read_int16(r, v, "acks")
    read_int32(r, v, "timeout_ms")
    read_structs(r, v, "topic_data", False, read_TopicProduceData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProduceRequest(Writer w, object v) except -1:
    write_string(w, v, "transactional_id", True)
    write_int16(w, v, "acks")
    write_int32(w, v, "timeout_ms")
    write_structs(w, v, "topic_data", False, write_TopicProduceData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_BatchIndexAndErrorMessage(Reader r):
    v = PyType_GenericAlloc(CLASS[3], 0)
    if r.version >= 8:
        read_int32(r, v, "batch_index")
    else:
        v.batch_index = 0
    if r.version >= 8:
        read_string(r, v, "batch_index_error_message", r.version >= 8)
    else:
        v.batch_index_error_message = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_BatchIndexAndErrorMessage(Writer w, object v) except -1:
    if w.version >= 8:
        write_int32(w, v, "batch_index")
    elif differs(v, "batch_index", 0):
        refuse(w, v, "batch_index")
    if w.version >= 8:
        write_string(w, v, "batch_index_error_message", w.version >= 8)
    elif differs(v, "batch_index_error_message", None):
        refuse(w, v, "batch_index_error_message")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object fresh_ProduceResponse_LeaderIdAndEpoch():
    v = PyType_GenericAlloc(CLASS[4], 0)
    v.leader_id = -1
    v.leader_epoch = -1
    return v


cdef bint differ_ProduceResponse_LeaderIdAndEpoch(object v) except -1:
    if v is None:
        return True
    return differs(v, "leader_id", -1) or differs(v, "leader_epoch", -1)


cdef object read_ProduceResponse_LeaderIdAndEpoch(Reader r):
    v = PyType_GenericAlloc(CLASS[4], 0)
    if r.version >= 10:
        read_int32(r, v, "leader_id")
    else:
        v.leader_id = -1
    if r.version >= 10:
        read_int32(r, v, "leader_epoch")
    else:
        v.leader_epoch = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProduceResponse_LeaderIdAndEpoch(Writer w, object v) except -1:
    if w.version >= 10:
        write_int32(w, v, "leader_id")
    elif differs(v, "leader_id", -1):
        refuse(w, v, "leader_id")
    if w.version >= 10:
        write_int32(w, v, "leader_epoch")
    elif differs(v, "leader_epoch", -1):
        refuse(w, v, "leader_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionProduceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[5], 0)
    read_int32(r, v, "index")
    read_int16(r, v, "error_code")
    read_int64(r, v, "base_offset")
    read_int64(r, v, "log_append_time_ms")
    if r.version >= 5:
        read_int64(r, v, "log_start_offset")
    else:
        v.log_start_offset = -1
    if r.version >= 8:
        read_structs(r, v, "record_errors", False, read_BatchIndexAndErrorMessage)
    else:
        v.record_errors = []
    if r.version >= 8:
        read_string(r, v, "error_message", r.version >= 8)
    else:
        v.error_message = None
    v.current_leader = fresh_ProduceResponse_LeaderIdAndEpoch()
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 10:
                read_struct(r, v, "current_leader", False, read_ProduceResponse_LeaderIdAndEpoch)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_PartitionProduceResponse(Writer w, object v) except -1:
    write_int32(w, v, "index")
    write_int16(w, v, "error_code")
    write_int64(w, v, "base_offset")
    write_int64(w, v, "log_append_time_ms")
    if w.version >= 5:
        write_int64(w, v, "log_start_offset")
    if w.version >= 8:
        write_structs(w, v, "record_errors", False, write_BatchIndexAndErrorMessage)
    if w.version >= 8:
        write_string(w, v, "error_message", w.version >= 8)
    if not (w.version >= 10):
        if differ_ProduceResponse_LeaderIdAndEpoch(v.current_leader):
            refuse(w, v, "current_leader")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 10 and differ_ProduceResponse_LeaderIdAndEpoch(v.current_leader):
            place = begin_tag(w, 0)
            write_struct(w, v, "current_leader", False, write_ProduceResponse_LeaderIdAndEpoch)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_TopicProduceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[6], 0)
    if r.version <= 12:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 13:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_structs(r, v, "partition_responses", False, read_PartitionProduceResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TopicProduceResponse(Writer w, object v) except -1:
    if w.version <= 12:
        write_string(w, v, "name", False)
    if w.version >= 13:
        write_uuid(w, v, "topic_id")
    write_structs(w, v, "partition_responses", False, write_PartitionProduceResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProduceResponse_NodeEndpoint(Reader r):
    v = PyType_GenericAlloc(CLASS[7], 0)
    if r.version >= 10:
        read_int32(r, v, "node_id")
    else:
        v.node_id = 0
    if r.version >= 10:
        read_string(r, v, "host", False)
    else:
        v.host = ""
    if r.version >= 10:
        read_int32(r, v, "port")
    else:
        v.port = 0
    if r.version >= 10:
        read_string(r, v, "rack", r.version >= 10)
    else:
        v.rack = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProduceResponse_NodeEndpoint(Writer w, object v) except -1:
    if w.version >= 10:
        write_int32(w, v, "node_id")
    elif differs(v, "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 10:
        write_string(w, v, "host", False)
    elif differs(v, "host", ""):
        refuse(w, v, "host")
    if w.version >= 10:
        write_int32(w, v, "port")
    elif differs(v, "port", 0):
        refuse(w, v, "port")
    if w.version >= 10:
        write_string(w, v, "rack", w.version >= 10)
    elif differs(v, "rack", None):
        refuse(w, v, "rack")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProduceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[8], 0)
    read_structs(r, v, "responses", False, read_TopicProduceResponse)
    read_int32(r, v, "throttle_time_ms")
    v.node_endpoints = []
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 10:
                read_structs(r, v, "node_endpoints", False, read_ProduceResponse_NodeEndpoint)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_ProduceResponse(Writer w, object v) except -1:
    write_structs(w, v, "responses", False, write_TopicProduceResponse)
    write_int32(w, v, "throttle_time_ms")
    if not (w.version >= 10):
        if differs(v, "node_endpoints", ()):
            refuse(w, v, "node_endpoints")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 10 and differs(v, "node_endpoints", ()):
            place = begin_tag(w, 0)
            write_structs(w, v, "node_endpoints", False, write_ProduceResponse_NodeEndpoint)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object fresh_FetchRequest_ReplicaState():
    v = PyType_GenericAlloc(CLASS[9], 0)
    v.replica_id = -1
    v.replica_epoch = -1
    return v


cdef bint differ_FetchRequest_ReplicaState(object v) except -1:
    if v is None:
        return True
    return differs(v, "replica_id", -1) or differs(v, "replica_epoch", -1)


cdef object read_FetchRequest_ReplicaState(Reader r):
    v = PyType_GenericAlloc(CLASS[9], 0)
    if r.version >= 15:
        read_int32(r, v, "replica_id")
    else:
        v.replica_id = -1
    if r.version >= 15:
        read_int64(r, v, "replica_epoch")
    else:
        v.replica_epoch = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchRequest_ReplicaState(Writer w, object v) except -1:
    if w.version >= 15:
        write_int32(w, v, "replica_id")
    elif differs(v, "replica_id", -1):
        refuse(w, v, "replica_id")
    if w.version >= 15:
        write_int64(w, v, "replica_epoch")
    elif differs(v, "replica_epoch", -1):
        refuse(w, v, "replica_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[10], 0)
    read_int32(r, v, "partition")
    if r.version >= 9:
        read_int32(r, v, "current_leader_epoch")
    else:
        v.current_leader_epoch = -1
    read_int64(r, v, "fetch_offset")
    if r.version >= 12:
        read_int32(r, v, "last_fetched_epoch")
    else:
        v.last_fetched_epoch = -1
    if r.version >= 5:
        read_int64(r, v, "log_start_offset")
    else:
        v.log_start_offset = -1
    read_int32(r, v, "partition_max_bytes")
    v.replica_directory_id = ""
    v.high_watermark = 9223372036854775807
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 17:
                read_uuid(r, v, "replica_directory_id")
            elif tag == 1 and r.version >= 18:
                read_int64(r, v, "high_watermark")
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition")
    if w.version >= 9:
        write_int32(w, v, "current_leader_epoch")
    write_int64(w, v, "fetch_offset")
    if w.version >= 12:
        write_int32(w, v, "last_fetched_epoch")
    elif differs(v, "last_fetched_epoch", -1):
        refuse(w, v, "last_fetched_epoch")
    if w.version >= 5:
        write_int64(w, v, "log_start_offset")
    write_int32(w, v, "partition_max_bytes")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 17 and differs(v, "replica_directory_id", ""):
            place = begin_tag(w, 0)
            write_uuid(w, v, "replica_directory_id")
            end_tag(w, place)
            count += 1
        if w.version >= 18 and differs(v, "high_watermark", 9223372036854775807):
            place = begin_tag(w, 1)
            write_int64(w, v, "high_watermark")
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_FetchTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[11], 0)
    if r.version <= 12:
        read_string(r, v, "topic", False)
    else:
        v.topic = ""
    if r.version >= 13:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_structs(r, v, "partitions", False, read_FetchPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchTopic(Writer w, object v) except -1:
    if w.version <= 12:
        write_string(w, v, "topic", False)
    if w.version >= 13:
        write_uuid(w, v, "topic_id")
    write_structs(w, v, "partitions", False, write_FetchPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ForgottenTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[12], 0)
    if r.version >= 7 and r.version <= 12:
        read_string(r, v, "topic", False)
    else:
        v.topic = ""
    if r.version >= 13:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    if r.version >= 7:
        read_numbers(r, v, "partitions", False, 4)
    else:
        v.partitions = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ForgottenTopic(Writer w, object v) except -1:
    if w.version >= 7 and w.version <= 12:
        write_string(w, v, "topic", False)
    if w.version >= 13:
        write_uuid(w, v, "topic_id")
    if w.version >= 7:
        write_numbers(w, v, "partitions", False, 4)
    elif differs(v, "partitions", ()):
        refuse(w, v, "partitions")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[13], 0)
    v.cluster_id = None
    if r.version <= 14:
        read_int32(r, v, "replica_id")
    else:
        v.replica_id = -1
    v.replica_state = fresh_FetchRequest_ReplicaState()
    read_int32(r, v, "max_wait_ms")
    read_int32(r, v, "min_bytes")
    read_int32(r, v, "max_bytes")
    read_int8(r, v, "isolation_level")
    if r.version >= 7:
        read_int32(r, v, "session_id")
    else:
        v.session_id = 0
    if r.version >= 7:
        read_int32(r, v, "session_epoch")
    else:
        v.session_epoch = -1
    read_structs(r, v, "topics", False, read_FetchTopic)
    if r.version >= 7:
        read_structs(r, v, "forgotten_topics_data", False, read_ForgottenTopic)
    else:
        v.forgotten_topics_data = []
    if r.version >= 11:
        read_string(r, v, "rack_id", False)
    else:
        v.rack_id = ""
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 12:
                read_string(r, v, "cluster_id", r.version >= 12)
            elif tag == 1 and r.version >= 15:
                read_struct(r, v, "replica_state", False, read_FetchRequest_ReplicaState)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchRequest(Writer w, object v) except -1:
    if w.version <= 14:
        write_int32(w, v, "replica_id")
    elif differs(v, "replica_id", -1):
        refuse(w, v, "replica_id")
    if not (w.version >= 15):
        if differ_FetchRequest_ReplicaState(v.replica_state):
            refuse(w, v, "replica_state")
    write_int32(w, v, "max_wait_ms")
    write_int32(w, v, "min_bytes")
    write_int32(w, v, "max_bytes")
    write_int8(w, v, "isolation_level")
    if w.version >= 7:
        write_int32(w, v, "session_id")
    if w.version >= 7:
        write_int32(w, v, "session_epoch")
    write_structs(w, v, "topics", False, write_FetchTopic)
    if w.version >= 7:
        write_structs(w, v, "forgotten_topics_data", False, write_ForgottenTopic)
    elif differs(v, "forgotten_topics_data", ()):
        refuse(w, v, "forgotten_topics_data")
    if w.version >= 11:
        write_string(w, v, "rack_id", False)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 12 and differs(v, "cluster_id", None):
            place = begin_tag(w, 0)
            write_string(w, v, "cluster_id", w.version >= 12)
            end_tag(w, place)
            count += 1
        if w.version >= 15 and differ_FetchRequest_ReplicaState(v.replica_state):
            place = begin_tag(w, 1)
            write_struct(w, v, "replica_state", False, write_FetchRequest_ReplicaState)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object fresh_FetchResponse_EpochEndOffset():
    v = PyType_GenericAlloc(CLASS[14], 0)
    v.epoch = -1
    v.end_offset = -1
    return v


cdef bint differ_FetchResponse_EpochEndOffset(object v) except -1:
    if v is None:
        return True
    return differs(v, "epoch", -1) or differs(v, "end_offset", -1)


cdef object read_FetchResponse_EpochEndOffset(Reader r):
    v = PyType_GenericAlloc(CLASS[14], 0)
    if r.version >= 12:
        read_int32(r, v, "epoch")
    else:
        v.epoch = -1
    if r.version >= 12:
        read_int64(r, v, "end_offset")
    else:
        v.end_offset = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchResponse_EpochEndOffset(Writer w, object v) except -1:
    if w.version >= 12:
        write_int32(w, v, "epoch")
    elif differs(v, "epoch", -1):
        refuse(w, v, "epoch")
    if w.version >= 12:
        write_int64(w, v, "end_offset")
    elif differs(v, "end_offset", -1):
        refuse(w, v, "end_offset")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object fresh_FetchResponse_LeaderIdAndEpoch():
    v = PyType_GenericAlloc(CLASS[15], 0)
    v.leader_id = -1
    v.leader_epoch = -1
    return v


cdef bint differ_FetchResponse_LeaderIdAndEpoch(object v) except -1:
    if v is None:
        return True
    return differs(v, "leader_id", -1) or differs(v, "leader_epoch", -1)


cdef object read_FetchResponse_LeaderIdAndEpoch(Reader r):
    v = PyType_GenericAlloc(CLASS[15], 0)
    if r.version >= 12:
        read_int32(r, v, "leader_id")
    else:
        v.leader_id = -1
    if r.version >= 12:
        read_int32(r, v, "leader_epoch")
    else:
        v.leader_epoch = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchResponse_LeaderIdAndEpoch(Writer w, object v) except -1:
    if w.version >= 12:
        write_int32(w, v, "leader_id")
    elif differs(v, "leader_id", -1):
        refuse(w, v, "leader_id")
    if w.version >= 12:
        write_int32(w, v, "leader_epoch")
    elif differs(v, "leader_epoch", -1):
        refuse(w, v, "leader_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object fresh_SnapshotId():
    v = PyType_GenericAlloc(CLASS[16], 0)
    v.end_offset = -1
    v.epoch = -1
    return v


cdef bint differ_SnapshotId(object v) except -1:
    if v is None:
        return True
    return differs(v, "end_offset", -1) or differs(v, "epoch", -1)


cdef object read_SnapshotId(Reader r):
    v = PyType_GenericAlloc(CLASS[16], 0)
    read_int64(r, v, "end_offset")
    read_int32(r, v, "epoch")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SnapshotId(Writer w, object v) except -1:
    write_int64(w, v, "end_offset")
    write_int32(w, v, "epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AbortedTransaction(Reader r):
    v = PyType_GenericAlloc(CLASS[17], 0)
    read_int64(r, v, "producer_id")
    read_int64(r, v, "first_offset")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AbortedTransaction(Writer w, object v) except -1:
    write_int64(w, v, "producer_id")
    write_int64(w, v, "first_offset")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchResponse_PartitionData(Reader r):
    v = PyType_GenericAlloc(CLASS[18], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    read_int64(r, v, "high_watermark")
    read_int64(r, v, "last_stable_offset")
    if r.version >= 5:
        read_int64(r, v, "log_start_offset")
    else:
        v.log_start_offset = -1
    v.diverging_epoch = fresh_FetchResponse_EpochEndOffset()
    v.current_leader = fresh_FetchResponse_LeaderIdAndEpoch()
    v.snapshot_id = fresh_SnapshotId()
    read_structs(r, v, "aborted_transactions", True, read_AbortedTransaction)
    if r.version >= 11:
        read_int32(r, v, "preferred_read_replica")
    else:
        v.preferred_read_replica = -1
    read_records(r, v, "records", True)
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 12:
                read_struct(r, v, "diverging_epoch", False, read_FetchResponse_EpochEndOffset)
            elif tag == 1 and r.version >= 12:
                read_struct(r, v, "current_leader", False, read_FetchResponse_LeaderIdAndEpoch)
            elif tag == 2 and r.version >= 12:
                read_struct(r, v, "snapshot_id", False, read_SnapshotId)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchResponse_PartitionData(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    write_int64(w, v, "high_watermark")
    write_int64(w, v, "last_stable_offset")
    if w.version >= 5:
        write_int64(w, v, "log_start_offset")
    if not (w.version >= 12):
        if differ_FetchResponse_EpochEndOffset(v.diverging_epoch):
            refuse(w, v, "diverging_epoch")
    if not (w.version >= 12):
        if differ_FetchResponse_LeaderIdAndEpoch(v.current_leader):
            refuse(w, v, "current_leader")
    if not (w.version >= 12):
        if differ_SnapshotId(v.snapshot_id):
            refuse(w, v, "snapshot_id")
    write_structs(w, v, "aborted_transactions", True, write_AbortedTransaction)
    if w.version >= 11:
        write_int32(w, v, "preferred_read_replica")
    elif differs(v, "preferred_read_replica", -1):
        refuse(w, v, "preferred_read_replica")
    write_records(w, v, "records", True)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 12 and differ_FetchResponse_EpochEndOffset(v.diverging_epoch):
            place = begin_tag(w, 0)
            write_struct(w, v, "diverging_epoch", False, write_FetchResponse_EpochEndOffset)
            end_tag(w, place)
            count += 1
        if w.version >= 12 and differ_FetchResponse_LeaderIdAndEpoch(v.current_leader):
            place = begin_tag(w, 1)
            write_struct(w, v, "current_leader", False, write_FetchResponse_LeaderIdAndEpoch)
            end_tag(w, place)
            count += 1
        if w.version >= 12 and differ_SnapshotId(v.snapshot_id):
            place = begin_tag(w, 2)
            write_struct(w, v, "snapshot_id", False, write_SnapshotId)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_FetchableTopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[19], 0)
    if r.version <= 12:
        read_string(r, v, "topic", False)
    else:
        v.topic = ""
    if r.version >= 13:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_structs(r, v, "partitions", False, read_FetchResponse_PartitionData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchableTopicResponse(Writer w, object v) except -1:
    if w.version <= 12:
        write_string(w, v, "topic", False)
    if w.version >= 13:
        write_uuid(w, v, "topic_id")
    write_structs(w, v, "partitions", False, write_FetchResponse_PartitionData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchResponse_NodeEndpoint(Reader r):
    v = PyType_GenericAlloc(CLASS[20], 0)
    if r.version >= 16:
        read_int32(r, v, "node_id")
    else:
        v.node_id = 0
    if r.version >= 16:
        read_string(r, v, "host", False)
    else:
        v.host = ""
    if r.version >= 16:
        read_int32(r, v, "port")
    else:
        v.port = 0
    if r.version >= 16:
        read_string(r, v, "rack", r.version >= 16)
    else:
        v.rack = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FetchResponse_NodeEndpoint(Writer w, object v) except -1:
    if w.version >= 16:
        write_int32(w, v, "node_id")
    elif differs(v, "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 16:
        write_string(w, v, "host", False)
    elif differs(v, "host", ""):
        refuse(w, v, "host")
    if w.version >= 16:
        write_int32(w, v, "port")
    elif differs(v, "port", 0):
        refuse(w, v, "port")
    if w.version >= 16:
        write_string(w, v, "rack", w.version >= 16)
    elif differs(v, "rack", None):
        refuse(w, v, "rack")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FetchResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[21], 0)
    read_int32(r, v, "throttle_time_ms")
    if r.version >= 7:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.version >= 7:
        read_int32(r, v, "session_id")
    else:
        v.session_id = 0
    read_structs(r, v, "responses", False, read_FetchableTopicResponse)
    v.node_endpoints = []
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 16:
                read_structs(r, v, "node_endpoints", False, read_FetchResponse_NodeEndpoint)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_FetchResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    if w.version >= 7:
        write_int16(w, v, "error_code")
    if w.version >= 7:
        write_int32(w, v, "session_id")
    elif differs(v, "session_id", 0):
        refuse(w, v, "session_id")
    write_structs(w, v, "responses", False, write_FetchableTopicResponse)
    if not (w.version >= 16):
        if differs(v, "node_endpoints", ()):
            refuse(w, v, "node_endpoints")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 16 and differs(v, "node_endpoints", ()):
            place = begin_tag(w, 0)
            write_structs(w, v, "node_endpoints", False, write_FetchResponse_NodeEndpoint)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_ListOffsetsPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[22], 0)
    read_int32(r, v, "partition_index")
    if r.version >= 4:
        read_int32(r, v, "current_leader_epoch")
    else:
        v.current_leader_epoch = -1
    read_int64(r, v, "timestamp")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    if w.version >= 4:
        write_int32(w, v, "current_leader_epoch")
    write_int64(w, v, "timestamp")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[23], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_ListOffsetsPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_ListOffsetsPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[24], 0)
    read_int32(r, v, "replica_id")
    if r.version >= 2:
        read_int8(r, v, "isolation_level")
    else:
        v.isolation_level = 0
    read_structs(r, v, "topics", False, read_ListOffsetsTopic)
    if r.version >= 10:
        read_int32(r, v, "timeout_ms")
    else:
        v.timeout_ms = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsRequest(Writer w, object v) except -1:
    write_int32(w, v, "replica_id")
    if w.version >= 2:
        write_int8(w, v, "isolation_level")
    elif differs(v, "isolation_level", 0):
        refuse(w, v, "isolation_level")
    write_structs(w, v, "topics", False, write_ListOffsetsTopic)
    if w.version >= 10:
        write_int32(w, v, "timeout_ms")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsPartitionResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[25], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    read_int64(r, v, "timestamp")
    read_int64(r, v, "offset")
    if r.version >= 4:
        read_int32(r, v, "leader_epoch")
    else:
        v.leader_epoch = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsPartitionResponse(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    write_int64(w, v, "timestamp")
    write_int64(w, v, "offset")
    if w.version >= 4:
        write_int32(w, v, "leader_epoch")
    elif differs(v, "leader_epoch", -1):
        refuse(w, v, "leader_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsTopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[26], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_ListOffsetsPartitionResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsTopicResponse(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_ListOffsetsPartitionResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListOffsetsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[27], 0)
    if r.version >= 2:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_structs(r, v, "topics", False, read_ListOffsetsTopicResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListOffsetsResponse(Writer w, object v) except -1:
    if w.version >= 2:
        write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_ListOffsetsTopicResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[28], 0)
    if r.version >= 10:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_string(r, v, "name", r.version >= 10)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataRequestTopic(Writer w, object v) except -1:
    if w.version >= 10:
        write_uuid(w, v, "topic_id")
    write_string(w, v, "name", w.version >= 10)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[29], 0)
    read_structs(r, v, "topics", r.version >= 1, read_MetadataRequestTopic)
    if r.version >= 4:
        read_bool(r, v, "allow_auto_topic_creation")
    else:
        v.allow_auto_topic_creation = True
    if r.version >= 8 and r.version <= 10:
        read_bool(r, v, "include_cluster_authorized_operations")
    else:
        v.include_cluster_authorized_operations = False
    if r.version >= 8:
        read_bool(r, v, "include_topic_authorized_operations")
    else:
        v.include_topic_authorized_operations = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", w.version >= 1, write_MetadataRequestTopic)
    if w.version >= 4:
        write_bool(w, v, "allow_auto_topic_creation")
    elif differs(v, "allow_auto_topic_creation", True):
        refuse(w, v, "allow_auto_topic_creation")
    if w.version >= 8 and w.version <= 10:
        write_bool(w, v, "include_cluster_authorized_operations")
    elif differs(v, "include_cluster_authorized_operations", False):
        refuse(w, v, "include_cluster_authorized_operations")
    if w.version >= 8:
        write_bool(w, v, "include_topic_authorized_operations")
    elif differs(v, "include_topic_authorized_operations", False):
        refuse(w, v, "include_topic_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponseBroker(Reader r):
    v = PyType_GenericAlloc(CLASS[30], 0)
    read_int32(r, v, "node_id")
    read_string(r, v, "host", False)
    read_int32(r, v, "port")
    if r.version >= 1:
        read_string(r, v, "rack", r.version >= 1)
    else:
        v.rack = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponseBroker(Writer w, object v) except -1:
    write_int32(w, v, "node_id")
    write_string(w, v, "host", False)
    write_int32(w, v, "port")
    if w.version >= 1:
        write_string(w, v, "rack", w.version >= 1)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[31], 0)
    read_int16(r, v, "error_code")
    read_int32(r, v, "partition_index")
    read_int32(r, v, "leader_id")
    if r.version >= 7:
        read_int32(r, v, "leader_epoch")
    else:
        v.leader_epoch = -1
    read_numbers(r, v, "replica_nodes", False, 4)
    read_numbers(r, v, "isr_nodes", False, 4)
    if r.version >= 5:
        read_numbers(r, v, "offline_replicas", False, 4)
    else:
        v.offline_replicas = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponsePartition(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_int32(w, v, "partition_index")
    write_int32(w, v, "leader_id")
    if w.version >= 7:
        write_int32(w, v, "leader_epoch")
    write_numbers(w, v, "replica_nodes", False, 4)
    write_numbers(w, v, "isr_nodes", False, 4)
    if w.version >= 5:
        write_numbers(w, v, "offline_replicas", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[32], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "name", r.version >= 12)
    if r.version >= 10:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    if r.version >= 1:
        read_bool(r, v, "is_internal")
    else:
        v.is_internal = False
    read_structs(r, v, "partitions", False, read_MetadataResponsePartition)
    if r.version >= 8:
        read_int32(r, v, "topic_authorized_operations")
    else:
        v.topic_authorized_operations = -2147483648
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponseTopic(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "name", w.version >= 12)
    if w.version >= 10:
        write_uuid(w, v, "topic_id")
    if w.version >= 1:
        write_bool(w, v, "is_internal")
    write_structs(w, v, "partitions", False, write_MetadataResponsePartition)
    if w.version >= 8:
        write_int32(w, v, "topic_authorized_operations")
    elif differs(v, "topic_authorized_operations", -2147483648):
        refuse(w, v, "topic_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MetadataResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[33], 0)
    if r.version >= 3:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_structs(r, v, "brokers", False, read_MetadataResponseBroker)
    if r.version >= 2:
        read_string(r, v, "cluster_id", r.version >= 2)
    else:
        v.cluster_id = None
    if r.version >= 1:
        read_int32(r, v, "controller_id")
    else:
        v.controller_id = -1
    read_structs(r, v, "topics", False, read_MetadataResponseTopic)
    if r.version >= 8 and r.version <= 10:
        read_int32(r, v, "cluster_authorized_operations")
    else:
        v.cluster_authorized_operations = -2147483648
    if r.version >= 13:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MetadataResponse(Writer w, object v) except -1:
    if w.version >= 3:
        write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "brokers", False, write_MetadataResponseBroker)
    if w.version >= 2:
        write_string(w, v, "cluster_id", w.version >= 2)
    if w.version >= 1:
        write_int32(w, v, "controller_id")
    write_structs(w, v, "topics", False, write_MetadataResponseTopic)
    if w.version >= 8 and w.version <= 10:
        write_int32(w, v, "cluster_authorized_operations")
    elif differs(v, "cluster_authorized_operations", -2147483648):
        refuse(w, v, "cluster_authorized_operations")
    if w.version >= 13:
        write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitRequestPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[34], 0)
    read_int32(r, v, "partition_index")
    read_int64(r, v, "committed_offset")
    if r.version >= 6:
        read_int32(r, v, "committed_leader_epoch")
    else:
        v.committed_leader_epoch = -1
    read_string(r, v, "committed_metadata", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitRequestPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int64(w, v, "committed_offset")
    if w.version >= 6:
        write_int32(w, v, "committed_leader_epoch")
    write_string(w, v, "committed_metadata", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[35], 0)
    if r.version <= 9:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 10:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_structs(r, v, "partitions", False, read_OffsetCommitRequestPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitRequestTopic(Writer w, object v) except -1:
    if w.version <= 9:
        write_string(w, v, "name", False)
    if w.version >= 10:
        write_uuid(w, v, "topic_id")
    write_structs(w, v, "partitions", False, write_OffsetCommitRequestPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[36], 0)
    read_string(r, v, "group_id", False)
    read_int32(r, v, "generation_id_or_member_epoch")
    read_string(r, v, "member_id", False)
    if r.version >= 7:
        read_string(r, v, "group_instance_id", r.version >= 7)
    else:
        v.group_instance_id = None
    if r.version <= 4:
        read_int64(r, v, "retention_time_ms")
    else:
        v.retention_time_ms = -1
    read_structs(r, v, "topics", False, read_OffsetCommitRequestTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitRequest(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_int32(w, v, "generation_id_or_member_epoch")
    write_string(w, v, "member_id", False)
    if w.version >= 7:
        write_string(w, v, "group_instance_id", w.version >= 7)
    elif differs(v, "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.version <= 4:
        write_int64(w, v, "retention_time_ms")
    write_structs(w, v, "topics", False, write_OffsetCommitRequestTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[37], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitResponsePartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[38], 0)
    if r.version <= 9:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 10:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_structs(r, v, "partitions", False, read_OffsetCommitResponsePartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitResponseTopic(Writer w, object v) except -1:
    if w.version <= 9:
        write_string(w, v, "name", False)
    if w.version >= 10:
        write_uuid(w, v, "topic_id")
    write_structs(w, v, "partitions", False, write_OffsetCommitResponsePartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetCommitResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[39], 0)
    if r.version >= 3:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_structs(r, v, "topics", False, read_OffsetCommitResponseTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetCommitResponse(Writer w, object v) except -1:
    if w.version >= 3:
        write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_OffsetCommitResponseTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[40], 0)
    if r.version <= 7:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version <= 7:
        read_numbers(r, v, "partition_indexes", False, 4)
    else:
        v.partition_indexes = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequestTopic(Writer w, object v) except -1:
    if w.version <= 7:
        write_string(w, v, "name", False)
    elif differs(v, "name", ""):
        refuse(w, v, "name")
    if w.version <= 7:
        write_numbers(w, v, "partition_indexes", False, 4)
    elif differs(v, "partition_indexes", ()):
        refuse(w, v, "partition_indexes")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequestTopics(Reader r):
    v = PyType_GenericAlloc(CLASS[41], 0)
    if r.version >= 8 and r.version <= 9:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 10:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    if r.version >= 8:
        read_numbers(r, v, "partition_indexes", False, 4)
    else:
        v.partition_indexes = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequestTopics(Writer w, object v) except -1:
    if w.version >= 8 and w.version <= 9:
        write_string(w, v, "name", False)
    if w.version >= 10:
        write_uuid(w, v, "topic_id")
    if w.version >= 8:
        write_numbers(w, v, "partition_indexes", False, 4)
    elif differs(v, "partition_indexes", ()):
        refuse(w, v, "partition_indexes")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequestGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[42], 0)
    if r.version >= 8:
        read_string(r, v, "group_id", False)
    else:
        v.group_id = ""
    if r.version >= 9:
        read_string(r, v, "member_id", r.version >= 9)
    else:
        v.member_id = None
    if r.version >= 9:
        read_int32(r, v, "member_epoch")
    else:
        v.member_epoch = -1
    if r.version >= 8:
        read_structs(r, v, "topics", r.version >= 8, read_OffsetFetchRequestTopics)
    else:
        v.topics = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequestGroup(Writer w, object v) except -1:
    if w.version >= 8:
        write_string(w, v, "group_id", False)
    elif differs(v, "group_id", ""):
        refuse(w, v, "group_id")
    if w.version >= 9:
        write_string(w, v, "member_id", w.version >= 9)
    if w.version >= 9:
        write_int32(w, v, "member_epoch")
    if w.version >= 8:
        write_structs(w, v, "topics", w.version >= 8, write_OffsetFetchRequestTopics)
    elif differs(v, "topics", ()):
        refuse(w, v, "topics")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[43], 0)
    if r.version <= 7:
        read_string(r, v, "group_id", False)
    else:
        v.group_id = ""
    if r.version <= 7:
        read_structs(r, v, "topics", r.version >= 2 and r.version <= 7, read_OffsetFetchRequestTopic)
    else:
        v.topics = []
    if r.version >= 8:
        read_structs(r, v, "groups", False, read_OffsetFetchRequestGroup)
    else:
        v.groups = []
    if r.version >= 7:
        read_bool(r, v, "require_stable")
    else:
        v.require_stable = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchRequest(Writer w, object v) except -1:
    if w.version <= 7:
        write_string(w, v, "group_id", False)
    elif differs(v, "group_id", ""):
        refuse(w, v, "group_id")
    if w.version <= 7:
        write_structs(w, v, "topics", w.version >= 2 and w.version <= 7, write_OffsetFetchRequestTopic)
    elif differs(v, "topics", ()):
        refuse(w, v, "topics")
    if w.version >= 8:
        write_structs(w, v, "groups", False, write_OffsetFetchRequestGroup)
    elif differs(v, "groups", ()):
        refuse(w, v, "groups")
    if w.version >= 7:
        write_bool(w, v, "require_stable")
    elif differs(v, "require_stable", False):
        refuse(w, v, "require_stable")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[44], 0)
    if r.version <= 7:
        read_int32(r, v, "partition_index")
    else:
        v.partition_index = 0
    if r.version <= 7:
        read_int64(r, v, "committed_offset")
    else:
        v.committed_offset = 0
    if r.version >= 5 and r.version <= 7:
        read_int32(r, v, "committed_leader_epoch")
    else:
        v.committed_leader_epoch = -1
    if r.version <= 7:
        read_string(r, v, "metadata", r.version <= 7)
    else:
        v.metadata = ""
    if r.version <= 7:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponsePartition(Writer w, object v) except -1:
    if w.version <= 7:
        write_int32(w, v, "partition_index")
    elif differs(v, "partition_index", 0):
        refuse(w, v, "partition_index")
    if w.version <= 7:
        write_int64(w, v, "committed_offset")
    elif differs(v, "committed_offset", 0):
        refuse(w, v, "committed_offset")
    if w.version >= 5 and w.version <= 7:
        write_int32(w, v, "committed_leader_epoch")
    if w.version <= 7:
        write_string(w, v, "metadata", w.version <= 7)
    elif differs(v, "metadata", ""):
        refuse(w, v, "metadata")
    if w.version <= 7:
        write_int16(w, v, "error_code")
    elif differs(v, "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[45], 0)
    if r.version <= 7:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version <= 7:
        read_structs(r, v, "partitions", False, read_OffsetFetchResponsePartition)
    else:
        v.partitions = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponseTopic(Writer w, object v) except -1:
    if w.version <= 7:
        write_string(w, v, "name", False)
    elif differs(v, "name", ""):
        refuse(w, v, "name")
    if w.version <= 7:
        write_structs(w, v, "partitions", False, write_OffsetFetchResponsePartition)
    elif differs(v, "partitions", ()):
        refuse(w, v, "partitions")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponsePartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[46], 0)
    if r.version >= 8:
        read_int32(r, v, "partition_index")
    else:
        v.partition_index = 0
    if r.version >= 8:
        read_int64(r, v, "committed_offset")
    else:
        v.committed_offset = 0
    if r.version >= 8:
        read_int32(r, v, "committed_leader_epoch")
    else:
        v.committed_leader_epoch = -1
    if r.version >= 8:
        read_string(r, v, "metadata", r.version >= 8)
    else:
        v.metadata = ""
    if r.version >= 8:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponsePartitions(Writer w, object v) except -1:
    if w.version >= 8:
        write_int32(w, v, "partition_index")
    elif differs(v, "partition_index", 0):
        refuse(w, v, "partition_index")
    if w.version >= 8:
        write_int64(w, v, "committed_offset")
    elif differs(v, "committed_offset", 0):
        refuse(w, v, "committed_offset")
    if w.version >= 8:
        write_int32(w, v, "committed_leader_epoch")
    if w.version >= 8:
        write_string(w, v, "metadata", w.version >= 8)
    elif differs(v, "metadata", ""):
        refuse(w, v, "metadata")
    if w.version >= 8:
        write_int16(w, v, "error_code")
    elif differs(v, "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponseTopics(Reader r):
    v = PyType_GenericAlloc(CLASS[47], 0)
    if r.version >= 8 and r.version <= 9:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 10:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    if r.version >= 8:
        read_structs(r, v, "partitions", False, read_OffsetFetchResponsePartitions)
    else:
        v.partitions = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponseTopics(Writer w, object v) except -1:
    if w.version >= 8 and w.version <= 9:
        write_string(w, v, "name", False)
    if w.version >= 10:
        write_uuid(w, v, "topic_id")
    if w.version >= 8:
        write_structs(w, v, "partitions", False, write_OffsetFetchResponsePartitions)
    elif differs(v, "partitions", ()):
        refuse(w, v, "partitions")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponseGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[48], 0)
    if r.version >= 8:
        read_string(r, v, "group_id", False)
    else:
        v.group_id = ""
    if r.version >= 8:
        read_structs(r, v, "topics", False, read_OffsetFetchResponseTopics)
    else:
        v.topics = []
    if r.version >= 8:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponseGroup(Writer w, object v) except -1:
    if w.version >= 8:
        write_string(w, v, "group_id", False)
    elif differs(v, "group_id", ""):
        refuse(w, v, "group_id")
    if w.version >= 8:
        write_structs(w, v, "topics", False, write_OffsetFetchResponseTopics)
    elif differs(v, "topics", ()):
        refuse(w, v, "topics")
    if w.version >= 8:
        write_int16(w, v, "error_code")
    elif differs(v, "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetFetchResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[49], 0)
    if r.version >= 3:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    if r.version <= 7:
        read_structs(r, v, "topics", False, read_OffsetFetchResponseTopic)
    else:
        v.topics = []
    if r.version >= 2 and r.version <= 7:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.version >= 8:
        read_structs(r, v, "groups", False, read_OffsetFetchResponseGroup)
    else:
        v.groups = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetFetchResponse(Writer w, object v) except -1:
    if w.version >= 3:
        write_int32(w, v, "throttle_time_ms")
    if w.version <= 7:
        write_structs(w, v, "topics", False, write_OffsetFetchResponseTopic)
    elif differs(v, "topics", ()):
        refuse(w, v, "topics")
    if w.version >= 2 and w.version <= 7:
        write_int16(w, v, "error_code")
    if w.version >= 8:
        write_structs(w, v, "groups", False, write_OffsetFetchResponseGroup)
    elif differs(v, "groups", ()):
        refuse(w, v, "groups")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FindCoordinatorRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[50], 0)
    if r.version <= 3:
        read_string(r, v, "key", False)
    else:
        v.key = ""
    if r.version >= 1:
        read_int8(r, v, "key_type")
    else:
        v.key_type = 0
    if r.version >= 4:
        read_strings(r, v, "coordinator_keys", False)
    else:
        v.coordinator_keys = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FindCoordinatorRequest(Writer w, object v) except -1:
    if w.version <= 3:
        write_string(w, v, "key", False)
    elif differs(v, "key", ""):
        refuse(w, v, "key")
    if w.version >= 1:
        write_int8(w, v, "key_type")
    elif differs(v, "key_type", 0):
        refuse(w, v, "key_type")
    if w.version >= 4:
        write_strings(w, v, "coordinator_keys", False)
    elif differs(v, "coordinator_keys", ()):
        refuse(w, v, "coordinator_keys")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Coordinator(Reader r):
    v = PyType_GenericAlloc(CLASS[51], 0)
    if r.version >= 4:
        read_string(r, v, "key", False)
    else:
        v.key = ""
    if r.version >= 4:
        read_int32(r, v, "node_id")
    else:
        v.node_id = 0
    if r.version >= 4:
        read_string(r, v, "host", False)
    else:
        v.host = ""
    if r.version >= 4:
        read_int32(r, v, "port")
    else:
        v.port = 0
    if r.version >= 4:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.version >= 4:
        read_string(r, v, "error_message", r.version >= 4)
    else:
        v.error_message = ""
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Coordinator(Writer w, object v) except -1:
    if w.version >= 4:
        write_string(w, v, "key", False)
    elif differs(v, "key", ""):
        refuse(w, v, "key")
    if w.version >= 4:
        write_int32(w, v, "node_id")
    elif differs(v, "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 4:
        write_string(w, v, "host", False)
    elif differs(v, "host", ""):
        refuse(w, v, "host")
    if w.version >= 4:
        write_int32(w, v, "port")
    elif differs(v, "port", 0):
        refuse(w, v, "port")
    if w.version >= 4:
        write_int16(w, v, "error_code")
    elif differs(v, "error_code", 0):
        refuse(w, v, "error_code")
    if w.version >= 4:
        write_string(w, v, "error_message", w.version >= 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FindCoordinatorResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[52], 0)
    if r.version >= 1:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    if r.version <= 3:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.version >= 1 and r.version <= 3:
        read_string(r, v, "error_message", r.version >= 1 and r.version <= 3)
    else:
        v.error_message = ""
    if r.version <= 3:
        read_int32(r, v, "node_id")
    else:
        v.node_id = 0
    if r.version <= 3:
        read_string(r, v, "host", False)
    else:
        v.host = ""
    if r.version <= 3:
        read_int32(r, v, "port")
    else:
        v.port = 0
    if r.version >= 4:
        read_structs(r, v, "coordinators", False, read_Coordinator)
    else:
        v.coordinators = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FindCoordinatorResponse(Writer w, object v) except -1:
    if w.version >= 1:
        write_int32(w, v, "throttle_time_ms")
    if w.version <= 3:
        write_int16(w, v, "error_code")
    elif differs(v, "error_code", 0):
        refuse(w, v, "error_code")
    if w.version >= 1 and w.version <= 3:
        write_string(w, v, "error_message", w.version >= 1 and w.version <= 3)
    if w.version <= 3:
        write_int32(w, v, "node_id")
    elif differs(v, "node_id", 0):
        refuse(w, v, "node_id")
    if w.version <= 3:
        write_string(w, v, "host", False)
    elif differs(v, "host", ""):
        refuse(w, v, "host")
    if w.version <= 3:
        write_int32(w, v, "port")
    elif differs(v, "port", 0):
        refuse(w, v, "port")
    if w.version >= 4:
        write_structs(w, v, "coordinators", False, write_Coordinator)
    elif differs(v, "coordinators", ()):
        refuse(w, v, "coordinators")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupRequestProtocol(Reader r):
    v = PyType_GenericAlloc(CLASS[53], 0)
    read_string(r, v, "name", False)
    read_bytes(r, v, "metadata", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupRequestProtocol(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_bytes(w, v, "metadata", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[54], 0)
    read_string(r, v, "group_id", False)
    read_int32(r, v, "session_timeout_ms")
    if r.version >= 1:
        read_int32(r, v, "rebalance_timeout_ms")
    else:
        v.rebalance_timeout_ms = -1
    read_string(r, v, "member_id", False)
    if r.version >= 5:
        read_string(r, v, "group_instance_id", r.version >= 5)
    else:
        v.group_instance_id = None
    read_string(r, v, "protocol_type", False)
    read_structs(r, v, "protocols", False, read_JoinGroupRequestProtocol)
    if r.version >= 8:
        read_string(r, v, "reason", r.version >= 8)
    else:
        v.reason = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupRequest(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_int32(w, v, "session_timeout_ms")
    if w.version >= 1:
        write_int32(w, v, "rebalance_timeout_ms")
    write_string(w, v, "member_id", False)
    if w.version >= 5:
        write_string(w, v, "group_instance_id", w.version >= 5)
    elif differs(v, "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    write_string(w, v, "protocol_type", False)
    write_structs(w, v, "protocols", False, write_JoinGroupRequestProtocol)
    if w.version >= 8:
        write_string(w, v, "reason", w.version >= 8)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupResponseMember(Reader r):
    v = PyType_GenericAlloc(CLASS[55], 0)
    read_string(r, v, "member_id", False)
    if r.version >= 5:
        read_string(r, v, "group_instance_id", r.version >= 5)
    else:
        v.group_instance_id = None
    read_bytes(r, v, "metadata", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupResponseMember(Writer w, object v) except -1:
    write_string(w, v, "member_id", False)
    if w.version >= 5:
        write_string(w, v, "group_instance_id", w.version >= 5)
    write_bytes(w, v, "metadata", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_JoinGroupResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[56], 0)
    if r.version >= 2:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_int16(r, v, "error_code")
    read_int32(r, v, "generation_id")
    if r.version >= 7:
        read_string(r, v, "protocol_type", r.version >= 7)
    else:
        v.protocol_type = None
    read_string(r, v, "protocol_name", r.version >= 7)
    read_string(r, v, "leader", False)
    if r.version >= 9:
        read_bool(r, v, "skip_assignment")
    else:
        v.skip_assignment = False
    read_string(r, v, "member_id", False)
    read_structs(r, v, "members", False, read_JoinGroupResponseMember)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_JoinGroupResponse(Writer w, object v) except -1:
    if w.version >= 2:
        write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_int32(w, v, "generation_id")
    if w.version >= 7:
        write_string(w, v, "protocol_type", w.version >= 7)
    write_string(w, v, "protocol_name", w.version >= 7)
    write_string(w, v, "leader", False)
    if w.version >= 9:
        write_bool(w, v, "skip_assignment")
    elif differs(v, "skip_assignment", False):
        refuse(w, v, "skip_assignment")
    write_string(w, v, "member_id", False)
    write_structs(w, v, "members", False, write_JoinGroupResponseMember)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_HeartbeatRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[57], 0)
    read_string(r, v, "group_id", False)
    read_int32(r, v, "generation_id")
    read_string(r, v, "member_id", False)
    if r.version >= 3:
        read_string(r, v, "group_instance_id", r.version >= 3)
    else:
        v.group_instance_id = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_HeartbeatRequest(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_int32(w, v, "generation_id")
    write_string(w, v, "member_id", False)
    if w.version >= 3:
        write_string(w, v, "group_instance_id", w.version >= 3)
    elif differs(v, "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_HeartbeatResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[58], 0)
    if r.version >= 1:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_int16(r, v, "error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_HeartbeatResponse(Writer w, object v) except -1:
    if w.version >= 1:
        write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MemberIdentity(Reader r):
    v = PyType_GenericAlloc(CLASS[59], 0)
    if r.version >= 3:
        read_string(r, v, "member_id", False)
    else:
        v.member_id = ""
    if r.version >= 3:
        read_string(r, v, "group_instance_id", r.version >= 3)
    else:
        v.group_instance_id = None
    if r.version >= 5:
        read_string(r, v, "reason", r.version >= 5)
    else:
        v.reason = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MemberIdentity(Writer w, object v) except -1:
    if w.version >= 3:
        write_string(w, v, "member_id", False)
    elif differs(v, "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_string(w, v, "group_instance_id", w.version >= 3)
    elif differs(v, "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.version >= 5:
        write_string(w, v, "reason", w.version >= 5)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_LeaveGroupRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[60], 0)
    read_string(r, v, "group_id", False)
    if r.version <= 2:
        read_string(r, v, "member_id", False)
    else:
        v.member_id = ""
    if r.version >= 3:
        read_structs(r, v, "members", False, read_MemberIdentity)
    else:
        v.members = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_LeaveGroupRequest(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    if w.version <= 2:
        write_string(w, v, "member_id", False)
    elif differs(v, "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_structs(w, v, "members", False, write_MemberIdentity)
    elif differs(v, "members", ()):
        refuse(w, v, "members")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_MemberResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[61], 0)
    if r.version >= 3:
        read_string(r, v, "member_id", False)
    else:
        v.member_id = ""
    if r.version >= 3:
        read_string(r, v, "group_instance_id", r.version >= 3)
    else:
        v.group_instance_id = ""
    if r.version >= 3:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_MemberResponse(Writer w, object v) except -1:
    if w.version >= 3:
        write_string(w, v, "member_id", False)
    elif differs(v, "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_string(w, v, "group_instance_id", w.version >= 3)
    elif differs(v, "group_instance_id", ""):
        refuse(w, v, "group_instance_id")
    if w.version >= 3:
        write_int16(w, v, "error_code")
    elif differs(v, "error_code", 0):
        refuse(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_LeaveGroupResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[62], 0)
    if r.version >= 1:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_int16(r, v, "error_code")
    if r.version >= 3:
        read_structs(r, v, "members", False, read_MemberResponse)
    else:
        v.members = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_LeaveGroupResponse(Writer w, object v) except -1:
    if w.version >= 1:
        write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    if w.version >= 3:
        write_structs(w, v, "members", False, write_MemberResponse)
    elif differs(v, "members", ()):
        refuse(w, v, "members")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SyncGroupRequestAssignment(Reader r):
    v = PyType_GenericAlloc(CLASS[63], 0)
    read_string(r, v, "member_id", False)
    read_bytes(r, v, "assignment", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SyncGroupRequestAssignment(Writer w, object v) except -1:
    write_string(w, v, "member_id", False)
    write_bytes(w, v, "assignment", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SyncGroupRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[64], 0)
    read_string(r, v, "group_id", False)
    read_int32(r, v, "generation_id")
    read_string(r, v, "member_id", False)
    if r.version >= 3:
        read_string(r, v, "group_instance_id", r.version >= 3)
    else:
        v.group_instance_id = None
    if r.version >= 5:
        read_string(r, v, "protocol_type", r.version >= 5)
    else:
        v.protocol_type = None
    if r.version >= 5:
        read_string(r, v, "protocol_name", r.version >= 5)
    else:
        v.protocol_name = None
    read_structs(r, v, "assignments", False, read_SyncGroupRequestAssignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SyncGroupRequest(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_int32(w, v, "generation_id")
    write_string(w, v, "member_id", False)
    if w.version >= 3:
        write_string(w, v, "group_instance_id", w.version >= 3)
    elif differs(v, "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    if w.version >= 5:
        write_string(w, v, "protocol_type", w.version >= 5)
    if w.version >= 5:
        write_string(w, v, "protocol_name", w.version >= 5)
    write_structs(w, v, "assignments", False, write_SyncGroupRequestAssignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SyncGroupResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[65], 0)
    if r.version >= 1:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_int16(r, v, "error_code")
    if r.version >= 5:
        read_string(r, v, "protocol_type", r.version >= 5)
    else:
        v.protocol_type = None
    if r.version >= 5:
        read_string(r, v, "protocol_name", r.version >= 5)
    else:
        v.protocol_name = None
    read_bytes(r, v, "assignment", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SyncGroupResponse(Writer w, object v) except -1:
    if w.version >= 1:
        write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    if w.version >= 5:
        write_string(w, v, "protocol_type", w.version >= 5)
    if w.version >= 5:
        write_string(w, v, "protocol_name", w.version >= 5)
    write_bytes(w, v, "assignment", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeGroupsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[66], 0)
    read_strings(r, v, "groups", False)
    if r.version >= 3:
        read_bool(r, v, "include_authorized_operations")
    else:
        v.include_authorized_operations = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeGroupsRequest(Writer w, object v) except -1:
    write_strings(w, v, "groups", False)
    if w.version >= 3:
        write_bool(w, v, "include_authorized_operations")
    elif differs(v, "include_authorized_operations", False):
        refuse(w, v, "include_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribedGroupMember(Reader r):
    v = PyType_GenericAlloc(CLASS[67], 0)
    read_string(r, v, "member_id", False)
    if r.version >= 4:
        read_string(r, v, "group_instance_id", r.version >= 4)
    else:
        v.group_instance_id = None
    read_string(r, v, "client_id", False)
    read_string(r, v, "client_host", False)
    read_bytes(r, v, "member_metadata", False)
    read_bytes(r, v, "member_assignment", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribedGroupMember(Writer w, object v) except -1:
    write_string(w, v, "member_id", False)
    if w.version >= 4:
        write_string(w, v, "group_instance_id", w.version >= 4)
    write_string(w, v, "client_id", False)
    write_string(w, v, "client_host", False)
    write_bytes(w, v, "member_metadata", False)
    write_bytes(w, v, "member_assignment", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeGroupsResponse_DescribedGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[68], 0)
    read_int16(r, v, "error_code")
    if r.version >= 6:
        read_string(r, v, "error_message", r.version >= 6)
    else:
        v.error_message = None
    read_string(r, v, "group_id", False)
    read_string(r, v, "group_state", False)
    read_string(r, v, "protocol_type", False)
    read_string(r, v, "protocol_data", False)
    read_structs(r, v, "members", False, read_DescribedGroupMember)
    if r.version >= 3:
        read_int32(r, v, "authorized_operations")
    else:
        v.authorized_operations = -2147483648
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeGroupsResponse_DescribedGroup(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    if w.version >= 6:
        write_string(w, v, "error_message", w.version >= 6)
    elif differs(v, "error_message", None):
        refuse(w, v, "error_message")
    write_string(w, v, "group_id", False)
    write_string(w, v, "group_state", False)
    write_string(w, v, "protocol_type", False)
    write_string(w, v, "protocol_data", False)
    write_structs(w, v, "members", False, write_DescribedGroupMember)
    if w.version >= 3:
        write_int32(w, v, "authorized_operations")
    elif differs(v, "authorized_operations", -2147483648):
        refuse(w, v, "authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeGroupsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[69], 0)
    if r.version >= 1:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_structs(r, v, "groups", False, read_DescribeGroupsResponse_DescribedGroup)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeGroupsResponse(Writer w, object v) except -1:
    if w.version >= 1:
        write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "groups", False, write_DescribeGroupsResponse_DescribedGroup)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListGroupsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[70], 0)
    if r.version >= 4:
        read_strings(r, v, "states_filter", False)
    else:
        v.states_filter = []
    if r.version >= 5:
        read_strings(r, v, "types_filter", False)
    else:
        v.types_filter = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListGroupsRequest(Writer w, object v) except -1:
    if w.version >= 4:
        write_strings(w, v, "states_filter", False)
    elif differs(v, "states_filter", ()):
        refuse(w, v, "states_filter")
    if w.version >= 5:
        write_strings(w, v, "types_filter", False)
    elif differs(v, "types_filter", ()):
        refuse(w, v, "types_filter")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListedGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[71], 0)
    read_string(r, v, "group_id", False)
    read_string(r, v, "protocol_type", False)
    if r.version >= 4:
        read_string(r, v, "group_state", False)
    else:
        v.group_state = ""
    if r.version >= 5:
        read_string(r, v, "group_type", False)
    else:
        v.group_type = ""
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListedGroup(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_string(w, v, "protocol_type", False)
    if w.version >= 4:
        write_string(w, v, "group_state", False)
    if w.version >= 5:
        write_string(w, v, "group_type", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListGroupsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[72], 0)
    if r.version >= 1:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    read_int16(r, v, "error_code")
    read_structs(r, v, "groups", False, read_ListedGroup)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListGroupsResponse(Writer w, object v) except -1:
    if w.version >= 1:
        write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_structs(w, v, "groups", False, write_ListedGroup)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SaslHandshakeRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[73], 0)
    read_string(r, v, "mechanism", False)
    return v


cdef int write_SaslHandshakeRequest(Writer w, object v) except -1:
    write_string(w, v, "mechanism", False)
    return 0


cdef object read_SaslHandshakeResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[74], 0)
    read_int16(r, v, "error_code")
    read_strings(r, v, "mechanisms", False)
    return v


cdef int write_SaslHandshakeResponse(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_strings(w, v, "mechanisms", False)
    return 0


cdef object read_ApiVersionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[75], 0)
    if r.version >= 3:
        read_string(r, v, "client_software_name", False)
    else:
        v.client_software_name = ""
    if r.version >= 3:
        read_string(r, v, "client_software_version", False)
    else:
        v.client_software_version = ""
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ApiVersionsRequest(Writer w, object v) except -1:
    if w.version >= 3:
        write_string(w, v, "client_software_name", False)
    if w.version >= 3:
        write_string(w, v, "client_software_version", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ApiVersion(Reader r):
    v = PyType_GenericAlloc(CLASS[76], 0)
    read_int16(r, v, "api_key")
    read_int16(r, v, "min_version")
    read_int16(r, v, "max_version")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ApiVersion(Writer w, object v) except -1:
    write_int16(w, v, "api_key")
    write_int16(w, v, "min_version")
    write_int16(w, v, "max_version")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SupportedFeatureKey(Reader r):
    v = PyType_GenericAlloc(CLASS[77], 0)
    if r.version >= 3:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 3:
        read_int16(r, v, "min_version")
    else:
        v.min_version = 0
    if r.version >= 3:
        read_int16(r, v, "max_version")
    else:
        v.max_version = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SupportedFeatureKey(Writer w, object v) except -1:
    if w.version >= 3:
        write_string(w, v, "name", False)
    elif differs(v, "name", ""):
        refuse(w, v, "name")
    if w.version >= 3:
        write_int16(w, v, "min_version")
    elif differs(v, "min_version", 0):
        refuse(w, v, "min_version")
    if w.version >= 3:
        write_int16(w, v, "max_version")
    elif differs(v, "max_version", 0):
        refuse(w, v, "max_version")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FinalizedFeatureKey(Reader r):
    v = PyType_GenericAlloc(CLASS[78], 0)
    if r.version >= 3:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 3:
        read_int16(r, v, "max_version_level")
    else:
        v.max_version_level = 0
    if r.version >= 3:
        read_int16(r, v, "min_version_level")
    else:
        v.min_version_level = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FinalizedFeatureKey(Writer w, object v) except -1:
    if w.version >= 3:
        write_string(w, v, "name", False)
    elif differs(v, "name", ""):
        refuse(w, v, "name")
    if w.version >= 3:
        write_int16(w, v, "max_version_level")
    elif differs(v, "max_version_level", 0):
        refuse(w, v, "max_version_level")
    if w.version >= 3:
        write_int16(w, v, "min_version_level")
    elif differs(v, "min_version_level", 0):
        refuse(w, v, "min_version_level")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ApiVersionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[79], 0)
    read_int16(r, v, "error_code")
    read_structs(r, v, "api_keys", False, read_ApiVersion)
    if r.version >= 1:
        read_int32(r, v, "throttle_time_ms")
    else:
        v.throttle_time_ms = 0
    v.supported_features = []
    v.finalized_features_epoch = -1
    v.finalized_features = []
    v.zk_migration_ready = False
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 3:
                read_structs(r, v, "supported_features", False, read_SupportedFeatureKey)
            elif tag == 1 and r.version >= 3:
                read_int64(r, v, "finalized_features_epoch")
            elif tag == 2 and r.version >= 3:
                read_structs(r, v, "finalized_features", False, read_FinalizedFeatureKey)
            elif tag == 3 and r.version >= 3:
                read_bool(r, v, "zk_migration_ready")
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_ApiVersionsResponse(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_structs(w, v, "api_keys", False, write_ApiVersion)
    if w.version >= 1:
        write_int32(w, v, "throttle_time_ms")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 3 and differs(v, "supported_features", ()):
            place = begin_tag(w, 0)
            write_structs(w, v, "supported_features", False, write_SupportedFeatureKey)
            end_tag(w, place)
            count += 1
        if w.version >= 3 and differs(v, "finalized_features_epoch", -1):
            place = begin_tag(w, 1)
            write_int64(w, v, "finalized_features_epoch")
            end_tag(w, place)
            count += 1
        if w.version >= 3 and differs(v, "finalized_features", ()):
            place = begin_tag(w, 2)
            write_structs(w, v, "finalized_features", False, write_FinalizedFeatureKey)
            end_tag(w, place)
            count += 1
        if w.version >= 3 and differs(v, "zk_migration_ready", False):
            place = begin_tag(w, 3)
            write_bool(w, v, "zk_migration_ready")
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_CreatableReplicaAssignment(Reader r):
    v = PyType_GenericAlloc(CLASS[80], 0)
    read_int32(r, v, "partition_index")
    read_numbers(r, v, "broker_ids", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableReplicaAssignment(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_numbers(w, v, "broker_ids", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopicConfig(Reader r):
    v = PyType_GenericAlloc(CLASS[81], 0)
    read_string(r, v, "name", False)
    read_string(r, v, "value", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableTopicConfig(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_string(w, v, "value", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[82], 0)
    read_string(r, v, "name", False)
    read_int32(r, v, "num_partitions")
    read_int16(r, v, "replication_factor")
    read_structs(r, v, "assignments", False, read_CreatableReplicaAssignment)
    read_structs(r, v, "configs", False, read_CreatableTopicConfig)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_int32(w, v, "num_partitions")
    write_int16(w, v, "replication_factor")
    write_structs(w, v, "assignments", False, write_CreatableReplicaAssignment)
    write_structs(w, v, "configs", False, write_CreatableTopicConfig)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreateTopicsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[83], 0)
    read_structs(r, v, "topics", False, read_CreatableTopic)
    read_int32(r, v, "timeout_ms")
    read_bool(r, v, "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateTopicsRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", False, write_CreatableTopic)
    write_int32(w, v, "timeout_ms")
    write_bool(w, v, "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopicConfigs(Reader r):
    v = PyType_GenericAlloc(CLASS[84], 0)
    if r.version >= 5:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 5:
        read_string(r, v, "value", r.version >= 5)
    else:
        v.value = ""
    if r.version >= 5:
        read_bool(r, v, "read_only")
    else:
        v.read_only = False
    if r.version >= 5:
        read_int8(r, v, "config_source")
    else:
        v.config_source = -1
    if r.version >= 5:
        read_bool(r, v, "is_sensitive")
    else:
        v.is_sensitive = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatableTopicConfigs(Writer w, object v) except -1:
    if w.version >= 5:
        write_string(w, v, "name", False)
    elif differs(v, "name", ""):
        refuse(w, v, "name")
    if w.version >= 5:
        write_string(w, v, "value", w.version >= 5)
    elif differs(v, "value", ""):
        refuse(w, v, "value")
    if w.version >= 5:
        write_bool(w, v, "read_only")
    elif differs(v, "read_only", False):
        refuse(w, v, "read_only")
    if w.version >= 5:
        write_int8(w, v, "config_source")
    if w.version >= 5:
        write_bool(w, v, "is_sensitive")
    elif differs(v, "is_sensitive", False):
        refuse(w, v, "is_sensitive")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatableTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[85], 0)
    read_string(r, v, "name", False)
    if r.version >= 7:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    v.topic_config_error_code = 0
    if r.version >= 5:
        read_int32(r, v, "num_partitions")
    else:
        v.num_partitions = -1
    if r.version >= 5:
        read_int16(r, v, "replication_factor")
    else:
        v.replication_factor = -1
    if r.version >= 5:
        read_structs(r, v, "configs", r.version >= 5, read_CreatableTopicConfigs)
    else:
        v.configs = []
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 5:
                read_int16(r, v, "topic_config_error_code")
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_CreatableTopicResult(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    if w.version >= 7:
        write_uuid(w, v, "topic_id")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.version >= 5:
        write_int32(w, v, "num_partitions")
    if w.version >= 5:
        write_int16(w, v, "replication_factor")
    if w.version >= 5:
        write_structs(w, v, "configs", w.version >= 5, write_CreatableTopicConfigs)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 5 and differs(v, "topic_config_error_code", 0):
            place = begin_tag(w, 0)
            write_int16(w, v, "topic_config_error_code")
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_CreateTopicsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[86], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "topics", False, read_CreatableTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateTopicsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_CreatableTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteTopicState(Reader r):
    v = PyType_GenericAlloc(CLASS[87], 0)
    if r.version >= 6:
        read_string(r, v, "name", r.version >= 6)
    else:
        v.name = None
    if r.version >= 6:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteTopicState(Writer w, object v) except -1:
    if w.version >= 6:
        write_string(w, v, "name", w.version >= 6)
    elif differs(v, "name", None):
        refuse(w, v, "name")
    if w.version >= 6:
        write_uuid(w, v, "topic_id")
    elif differs(v, "topic_id", ""):
        refuse(w, v, "topic_id")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteTopicsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[88], 0)
    if r.version >= 6:
        read_structs(r, v, "topics", False, read_DeleteTopicState)
    else:
        v.topics = []
    if r.version <= 5:
        read_strings(r, v, "topic_names", False)
    else:
        v.topic_names = []
    read_int32(r, v, "timeout_ms")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteTopicsRequest(Writer w, object v) except -1:
    if w.version >= 6:
        write_structs(w, v, "topics", False, write_DeleteTopicState)
    elif differs(v, "topics", ()):
        refuse(w, v, "topics")
    if w.version <= 5:
        write_strings(w, v, "topic_names", False)
    write_int32(w, v, "timeout_ms")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeletableTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[89], 0)
    read_string(r, v, "name", r.version >= 6)
    if r.version >= 6:
        read_uuid(r, v, "topic_id")
    else:
        v.topic_id = ""
    read_int16(r, v, "error_code")
    if r.version >= 5:
        read_string(r, v, "error_message", r.version >= 5)
    else:
        v.error_message = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeletableTopicResult(Writer w, object v) except -1:
    write_string(w, v, "name", w.version >= 6)
    if w.version >= 6:
        write_uuid(w, v, "topic_id")
    write_int16(w, v, "error_code")
    if w.version >= 5:
        write_string(w, v, "error_message", w.version >= 5)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteTopicsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[90], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "responses", False, read_DeletableTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteTopicsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "responses", False, write_DeletableTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[91], 0)
    read_int32(r, v, "partition_index")
    read_int64(r, v, "offset")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int64(w, v, "offset")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[92], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_DeleteRecordsPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_DeleteRecordsPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[93], 0)
    read_structs(r, v, "topics", False, read_DeleteRecordsTopic)
    read_int32(r, v, "timeout_ms")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", False, write_DeleteRecordsTopic)
    write_int32(w, v, "timeout_ms")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsPartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[94], 0)
    read_int32(r, v, "partition_index")
    read_int64(r, v, "low_watermark")
    read_int16(r, v, "error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsPartitionResult(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int64(w, v, "low_watermark")
    write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[95], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_DeleteRecordsPartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsTopicResult(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_DeleteRecordsPartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteRecordsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[96], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "topics", False, read_DeleteRecordsTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteRecordsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_DeleteRecordsTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_InitProducerIdRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[97], 0)
    read_string(r, v, "transactional_id", True)
    read_int32(r, v, "transaction_timeout_ms")
    if r.version >= 3:
        read_int64(r, v, "producer_id")
    else:
        v.producer_id = -1
    if r.version >= 3:
        read_int16(r, v, "producer_epoch")
    else:
        v.producer_epoch = -1
    if r.version >= 6:
        read_bool(r, v, "enable2_pc")
    else:
        v.enable2_pc = False
    if r.version >= 6:
        read_bool(r, v, "keep_prepared_txn")
    else:
        v.keep_prepared_txn = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_InitProducerIdRequest(Writer w, object v) except -1:
    write_string(w, v, "transactional_id", True)
    write_int32(w, v, "transaction_timeout_ms")
    if w.version >= 3:
        write_int64(w, v, "producer_id")
    elif differs(v, "producer_id", -1):
        refuse(w, v, "producer_id")
    if w.version >= 3:
        write_int16(w, v, "producer_epoch")
    elif differs(v, "producer_epoch", -1):
        refuse(w, v, "producer_epoch")
    if w.version >= 6:
        write_bool(w, v, "enable2_pc")
    elif differs(v, "enable2_pc", False):
        refuse(w, v, "enable2_pc")
    if w.version >= 6:
        write_bool(w, v, "keep_prepared_txn")
    elif differs(v, "keep_prepared_txn", False):
        refuse(w, v, "keep_prepared_txn")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_InitProducerIdResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[98], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_int64(r, v, "producer_id")
    read_int16(r, v, "producer_epoch")
    if r.version >= 6:
        read_int64(r, v, "ongoing_txn_producer_id")
    else:
        v.ongoing_txn_producer_id = -1
    if r.version >= 6:
        read_int16(r, v, "ongoing_txn_producer_epoch")
    else:
        v.ongoing_txn_producer_epoch = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_InitProducerIdResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_int64(w, v, "producer_id")
    write_int16(w, v, "producer_epoch")
    if w.version >= 6:
        write_int64(w, v, "ongoing_txn_producer_id")
    elif differs(v, "ongoing_txn_producer_id", -1):
        refuse(w, v, "ongoing_txn_producer_id")
    if w.version >= 6:
        write_int16(w, v, "ongoing_txn_producer_epoch")
    elif differs(v, "ongoing_txn_producer_epoch", -1):
        refuse(w, v, "ongoing_txn_producer_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[99], 0)
    read_int32(r, v, "partition")
    read_int32(r, v, "current_leader_epoch")
    read_int32(r, v, "leader_epoch")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition")
    write_int32(w, v, "current_leader_epoch")
    write_int32(w, v, "leader_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[100], 0)
    read_string(r, v, "topic", False)
    read_structs(r, v, "partitions", False, read_OffsetForLeaderPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderTopic(Writer w, object v) except -1:
    write_string(w, v, "topic", False)
    write_structs(w, v, "partitions", False, write_OffsetForLeaderPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderEpochRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[101], 0)
    if r.version >= 3:
        read_int32(r, v, "replica_id")
    else:
        v.replica_id = -2
    read_structs(r, v, "topics", False, read_OffsetForLeaderTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderEpochRequest(Writer w, object v) except -1:
    if w.version >= 3:
        write_int32(w, v, "replica_id")
    write_structs(w, v, "topics", False, write_OffsetForLeaderTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderEpochResponse_EpochEndOffset(Reader r):
    v = PyType_GenericAlloc(CLASS[102], 0)
    read_int16(r, v, "error_code")
    read_int32(r, v, "partition")
    read_int32(r, v, "leader_epoch")
    read_int64(r, v, "end_offset")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderEpochResponse_EpochEndOffset(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_int32(w, v, "partition")
    write_int32(w, v, "leader_epoch")
    write_int64(w, v, "end_offset")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[103], 0)
    read_string(r, v, "topic", False)
    read_structs(r, v, "partitions", False, read_OffsetForLeaderEpochResponse_EpochEndOffset)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderTopicResult(Writer w, object v) except -1:
    write_string(w, v, "topic", False)
    write_structs(w, v, "partitions", False, write_OffsetForLeaderEpochResponse_EpochEndOffset)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetForLeaderEpochResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[104], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "topics", False, read_OffsetForLeaderTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OffsetForLeaderEpochResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_OffsetForLeaderTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[105], 0)
    read_string(r, v, "name", False)
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnTransaction(Reader r):
    v = PyType_GenericAlloc(CLASS[106], 0)
    if r.version >= 4:
        read_string(r, v, "transactional_id", False)
    else:
        v.transactional_id = ""
    if r.version >= 4:
        read_int64(r, v, "producer_id")
    else:
        v.producer_id = 0
    if r.version >= 4:
        read_int16(r, v, "producer_epoch")
    else:
        v.producer_epoch = 0
    if r.version >= 4:
        read_bool(r, v, "verify_only")
    else:
        v.verify_only = False
    if r.version >= 4:
        read_structs(r, v, "topics", False, read_AddPartitionsToTxnTopic)
    else:
        v.topics = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnTransaction(Writer w, object v) except -1:
    if w.version >= 4:
        write_string(w, v, "transactional_id", False)
    elif differs(v, "transactional_id", ""):
        refuse(w, v, "transactional_id")
    if w.version >= 4:
        write_int64(w, v, "producer_id")
    elif differs(v, "producer_id", 0):
        refuse(w, v, "producer_id")
    if w.version >= 4:
        write_int16(w, v, "producer_epoch")
    elif differs(v, "producer_epoch", 0):
        refuse(w, v, "producer_epoch")
    if w.version >= 4:
        write_bool(w, v, "verify_only")
    elif differs(v, "verify_only", False):
        refuse(w, v, "verify_only")
    if w.version >= 4:
        write_structs(w, v, "topics", False, write_AddPartitionsToTxnTopic)
    elif differs(v, "topics", ()):
        refuse(w, v, "topics")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[107], 0)
    if r.version >= 4:
        read_structs(r, v, "transactions", False, read_AddPartitionsToTxnTransaction)
    else:
        v.transactions = []
    if r.version <= 3:
        read_string(r, v, "v3_and_below_transactional_id", False)
    else:
        v.v3_and_below_transactional_id = ""
    if r.version <= 3:
        read_int64(r, v, "v3_and_below_producer_id")
    else:
        v.v3_and_below_producer_id = 0
    if r.version <= 3:
        read_int16(r, v, "v3_and_below_producer_epoch")
    else:
        v.v3_and_below_producer_epoch = 0
    if r.version <= 3:
        read_structs(r, v, "v3_and_below_topics", False, read_AddPartitionsToTxnTopic)
    else:
        v.v3_and_below_topics = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnRequest(Writer w, object v) except -1:
    if w.version >= 4:
        write_structs(w, v, "transactions", False, write_AddPartitionsToTxnTransaction)
    elif differs(v, "transactions", ()):
        refuse(w, v, "transactions")
    if w.version <= 3:
        write_string(w, v, "v3_and_below_transactional_id", False)
    elif differs(v, "v3_and_below_transactional_id", ""):
        refuse(w, v, "v3_and_below_transactional_id")
    if w.version <= 3:
        write_int64(w, v, "v3_and_below_producer_id")
    elif differs(v, "v3_and_below_producer_id", 0):
        refuse(w, v, "v3_and_below_producer_id")
    if w.version <= 3:
        write_int16(w, v, "v3_and_below_producer_epoch")
    elif differs(v, "v3_and_below_producer_epoch", 0):
        refuse(w, v, "v3_and_below_producer_epoch")
    if w.version <= 3:
        write_structs(w, v, "v3_and_below_topics", False, write_AddPartitionsToTxnTopic)
    elif differs(v, "v3_and_below_topics", ()):
        refuse(w, v, "v3_and_below_topics")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[108], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "results_by_partition", False, read_AddPartitionsToTxnPartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnTopicResult(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "results_by_partition", False, write_AddPartitionsToTxnPartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnPartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[109], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "partition_error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnPartitionResult(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "partition_error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnResult(Reader r):
    v = PyType_GenericAlloc(CLASS[110], 0)
    if r.version >= 4:
        read_string(r, v, "transactional_id", False)
    else:
        v.transactional_id = ""
    if r.version >= 4:
        read_structs(r, v, "topic_results", False, read_AddPartitionsToTxnTopicResult)
    else:
        v.topic_results = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnResult(Writer w, object v) except -1:
    if w.version >= 4:
        write_string(w, v, "transactional_id", False)
    elif differs(v, "transactional_id", ""):
        refuse(w, v, "transactional_id")
    if w.version >= 4:
        write_structs(w, v, "topic_results", False, write_AddPartitionsToTxnTopicResult)
    elif differs(v, "topic_results", ()):
        refuse(w, v, "topic_results")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddPartitionsToTxnResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[111], 0)
    read_int32(r, v, "throttle_time_ms")
    if r.version >= 4:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    if r.version >= 4:
        read_structs(r, v, "results_by_transaction", False, read_AddPartitionsToTxnResult)
    else:
        v.results_by_transaction = []
    if r.version <= 3:
        read_structs(r, v, "results_by_topic_v3_and_below", False, read_AddPartitionsToTxnTopicResult)
    else:
        v.results_by_topic_v3_and_below = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddPartitionsToTxnResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    if w.version >= 4:
        write_int16(w, v, "error_code")
    if w.version >= 4:
        write_structs(w, v, "results_by_transaction", False, write_AddPartitionsToTxnResult)
    elif differs(v, "results_by_transaction", ()):
        refuse(w, v, "results_by_transaction")
    if w.version <= 3:
        write_structs(w, v, "results_by_topic_v3_and_below", False, write_AddPartitionsToTxnTopicResult)
    elif differs(v, "results_by_topic_v3_and_below", ()):
        refuse(w, v, "results_by_topic_v3_and_below")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddOffsetsToTxnRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[112], 0)
    read_string(r, v, "transactional_id", False)
    read_int64(r, v, "producer_id")
    read_int16(r, v, "producer_epoch")
    read_string(r, v, "group_id", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddOffsetsToTxnRequest(Writer w, object v) except -1:
    write_string(w, v, "transactional_id", False)
    write_int64(w, v, "producer_id")
    write_int16(w, v, "producer_epoch")
    write_string(w, v, "group_id", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AddOffsetsToTxnResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[113], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AddOffsetsToTxnResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_EndTxnRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[114], 0)
    read_string(r, v, "transactional_id", False)
    read_int64(r, v, "producer_id")
    read_int16(r, v, "producer_epoch")
    read_bool(r, v, "committed")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_EndTxnRequest(Writer w, object v) except -1:
    write_string(w, v, "transactional_id", False)
    write_int64(w, v, "producer_id")
    write_int16(w, v, "producer_epoch")
    write_bool(w, v, "committed")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_EndTxnResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[115], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    if r.version >= 5:
        read_int64(r, v, "producer_id")
    else:
        v.producer_id = -1
    if r.version >= 5:
        read_int16(r, v, "producer_epoch")
    else:
        v.producer_epoch = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_EndTxnResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    if w.version >= 5:
        write_int64(w, v, "producer_id")
    if w.version >= 5:
        write_int16(w, v, "producer_epoch")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitRequestPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[116], 0)
    read_int32(r, v, "partition_index")
    read_int64(r, v, "committed_offset")
    if r.version >= 2:
        read_int32(r, v, "committed_leader_epoch")
    else:
        v.committed_leader_epoch = -1
    read_string(r, v, "committed_metadata", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitRequestPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int64(w, v, "committed_offset")
    if w.version >= 2:
        write_int32(w, v, "committed_leader_epoch")
    write_string(w, v, "committed_metadata", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[117], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_TxnOffsetCommitRequestPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitRequestTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_TxnOffsetCommitRequestPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[118], 0)
    read_string(r, v, "transactional_id", False)
    read_string(r, v, "group_id", False)
    read_int64(r, v, "producer_id")
    read_int16(r, v, "producer_epoch")
    if r.version >= 3:
        read_int32(r, v, "generation_id")
    else:
        v.generation_id = -1
    if r.version >= 3:
        read_string(r, v, "member_id", False)
    else:
        v.member_id = ""
    if r.version >= 3:
        read_string(r, v, "group_instance_id", r.version >= 3)
    else:
        v.group_instance_id = None
    read_structs(r, v, "topics", False, read_TxnOffsetCommitRequestTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitRequest(Writer w, object v) except -1:
    write_string(w, v, "transactional_id", False)
    write_string(w, v, "group_id", False)
    write_int64(w, v, "producer_id")
    write_int16(w, v, "producer_epoch")
    if w.version >= 3:
        write_int32(w, v, "generation_id")
    elif differs(v, "generation_id", -1):
        refuse(w, v, "generation_id")
    if w.version >= 3:
        write_string(w, v, "member_id", False)
    elif differs(v, "member_id", ""):
        refuse(w, v, "member_id")
    if w.version >= 3:
        write_string(w, v, "group_instance_id", w.version >= 3)
    elif differs(v, "group_instance_id", None):
        refuse(w, v, "group_instance_id")
    write_structs(w, v, "topics", False, write_TxnOffsetCommitRequestTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[119], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitResponsePartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[120], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_TxnOffsetCommitResponsePartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitResponseTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_TxnOffsetCommitResponsePartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TxnOffsetCommitResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[121], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "topics", False, read_TxnOffsetCommitResponseTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TxnOffsetCommitResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_TxnOffsetCommitResponseTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeAclsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[122], 0)
    read_int8(r, v, "resource_type_filter")
    read_string(r, v, "resource_name_filter", True)
    read_int8(r, v, "pattern_type_filter")
    read_string(r, v, "principal_filter", True)
    read_string(r, v, "host_filter", True)
    read_int8(r, v, "operation")
    read_int8(r, v, "permission_type")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeAclsRequest(Writer w, object v) except -1:
    write_int8(w, v, "resource_type_filter")
    write_string(w, v, "resource_name_filter", True)
    write_int8(w, v, "pattern_type_filter")
    write_string(w, v, "principal_filter", True)
    write_string(w, v, "host_filter", True)
    write_int8(w, v, "operation")
    write_int8(w, v, "permission_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AclDescription(Reader r):
    v = PyType_GenericAlloc(CLASS[123], 0)
    read_string(r, v, "principal", False)
    read_string(r, v, "host", False)
    read_int8(r, v, "operation")
    read_int8(r, v, "permission_type")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AclDescription(Writer w, object v) except -1:
    write_string(w, v, "principal", False)
    write_string(w, v, "host", False)
    write_int8(w, v, "operation")
    write_int8(w, v, "permission_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeAclsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[124], 0)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    read_int8(r, v, "pattern_type")
    read_structs(r, v, "acls", False, read_AclDescription)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeAclsResource(Writer w, object v) except -1:
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    write_int8(w, v, "pattern_type")
    write_structs(w, v, "acls", False, write_AclDescription)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeAclsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[125], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "resources", False, read_DescribeAclsResource)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeAclsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "resources", False, write_DescribeAclsResource)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AclCreation(Reader r):
    v = PyType_GenericAlloc(CLASS[126], 0)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    read_int8(r, v, "resource_pattern_type")
    read_string(r, v, "principal", False)
    read_string(r, v, "host", False)
    read_int8(r, v, "operation")
    read_int8(r, v, "permission_type")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AclCreation(Writer w, object v) except -1:
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    write_int8(w, v, "resource_pattern_type")
    write_string(w, v, "principal", False)
    write_string(w, v, "host", False)
    write_int8(w, v, "operation")
    write_int8(w, v, "permission_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreateAclsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[127], 0)
    read_structs(r, v, "creations", False, read_AclCreation)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateAclsRequest(Writer w, object v) except -1:
    write_structs(w, v, "creations", False, write_AclCreation)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AclCreationResult(Reader r):
    v = PyType_GenericAlloc(CLASS[128], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AclCreationResult(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreateAclsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[129], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "results", False, read_AclCreationResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreateAclsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "results", False, write_AclCreationResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsFilter(Reader r):
    v = PyType_GenericAlloc(CLASS[130], 0)
    read_int8(r, v, "resource_type_filter")
    read_string(r, v, "resource_name_filter", True)
    read_int8(r, v, "pattern_type_filter")
    read_string(r, v, "principal_filter", True)
    read_string(r, v, "host_filter", True)
    read_int8(r, v, "operation")
    read_int8(r, v, "permission_type")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsFilter(Writer w, object v) except -1:
    write_int8(w, v, "resource_type_filter")
    write_string(w, v, "resource_name_filter", True)
    write_int8(w, v, "pattern_type_filter")
    write_string(w, v, "principal_filter", True)
    write_string(w, v, "host_filter", True)
    write_int8(w, v, "operation")
    write_int8(w, v, "permission_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[131], 0)
    read_structs(r, v, "filters", False, read_DeleteAclsFilter)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsRequest(Writer w, object v) except -1:
    write_structs(w, v, "filters", False, write_DeleteAclsFilter)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsMatchingAcl(Reader r):
    v = PyType_GenericAlloc(CLASS[132], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    read_int8(r, v, "pattern_type")
    read_string(r, v, "principal", False)
    read_string(r, v, "host", False)
    read_int8(r, v, "operation")
    read_int8(r, v, "permission_type")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsMatchingAcl(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    write_int8(w, v, "pattern_type")
    write_string(w, v, "principal", False)
    write_string(w, v, "host", False)
    write_int8(w, v, "operation")
    write_int8(w, v, "permission_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsFilterResult(Reader r):
    v = PyType_GenericAlloc(CLASS[133], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "matching_acls", False, read_DeleteAclsMatchingAcl)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsFilterResult(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "matching_acls", False, write_DeleteAclsMatchingAcl)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteAclsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[134], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "filter_results", False, read_DeleteAclsFilterResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteAclsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "filter_results", False, write_DeleteAclsFilterResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[135], 0)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    read_strings(r, v, "configuration_keys", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResource(Writer w, object v) except -1:
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    write_strings(w, v, "configuration_keys", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[136], 0)
    read_structs(r, v, "resources", False, read_DescribeConfigsResource)
    read_bool(r, v, "include_synonyms")
    if r.version >= 3:
        read_bool(r, v, "include_documentation")
    else:
        v.include_documentation = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsRequest(Writer w, object v) except -1:
    write_structs(w, v, "resources", False, write_DescribeConfigsResource)
    write_bool(w, v, "include_synonyms")
    if w.version >= 3:
        write_bool(w, v, "include_documentation")
    elif differs(v, "include_documentation", False):
        refuse(w, v, "include_documentation")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsSynonym(Reader r):
    v = PyType_GenericAlloc(CLASS[137], 0)
    read_string(r, v, "name", False)
    read_string(r, v, "value", True)
    read_int8(r, v, "source")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsSynonym(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_string(w, v, "value", True)
    write_int8(w, v, "source")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResourceResult(Reader r):
    v = PyType_GenericAlloc(CLASS[138], 0)
    read_string(r, v, "name", False)
    read_string(r, v, "value", True)
    read_bool(r, v, "read_only")
    read_int8(r, v, "config_source")
    read_bool(r, v, "is_sensitive")
    read_structs(r, v, "synonyms", False, read_DescribeConfigsSynonym)
    if r.version >= 3:
        read_int8(r, v, "config_type")
    else:
        v.config_type = 0
    if r.version >= 3:
        read_string(r, v, "documentation", r.version >= 3)
    else:
        v.documentation = ""
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResourceResult(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_string(w, v, "value", True)
    write_bool(w, v, "read_only")
    write_int8(w, v, "config_source")
    write_bool(w, v, "is_sensitive")
    write_structs(w, v, "synonyms", False, write_DescribeConfigsSynonym)
    if w.version >= 3:
        write_int8(w, v, "config_type")
    if w.version >= 3:
        write_string(w, v, "documentation", w.version >= 3)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[139], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    read_structs(r, v, "configs", False, read_DescribeConfigsResourceResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResult(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    write_structs(w, v, "configs", False, write_DescribeConfigsResourceResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeConfigsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[140], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "results", False, read_DescribeConfigsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeConfigsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "results", False, write_DescribeConfigsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsRequest_AlterableConfig(Reader r):
    v = PyType_GenericAlloc(CLASS[141], 0)
    read_string(r, v, "name", False)
    read_string(r, v, "value", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsRequest_AlterableConfig(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_string(w, v, "value", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsRequest_AlterConfigsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[142], 0)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    read_structs(r, v, "configs", False, read_AlterConfigsRequest_AlterableConfig)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsRequest_AlterConfigsResource(Writer w, object v) except -1:
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    write_structs(w, v, "configs", False, write_AlterConfigsRequest_AlterableConfig)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[143], 0)
    read_structs(r, v, "resources", False, read_AlterConfigsRequest_AlterConfigsResource)
    read_bool(r, v, "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsRequest(Writer w, object v) except -1:
    write_structs(w, v, "resources", False, write_AlterConfigsRequest_AlterConfigsResource)
    write_bool(w, v, "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsResponse_AlterConfigsResourceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[144], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsResponse_AlterConfigsResourceResponse(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterConfigsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[145], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "responses", False, read_AlterConfigsResponse_AlterConfigsResourceResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterConfigsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "responses", False, write_AlterConfigsResponse_AlterConfigsResourceResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[146], 0)
    read_string(r, v, "name", False)
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDir(Reader r):
    v = PyType_GenericAlloc(CLASS[147], 0)
    read_string(r, v, "path", False)
    read_structs(r, v, "topics", False, read_AlterReplicaLogDirTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDir(Writer w, object v) except -1:
    write_string(w, v, "path", False)
    write_structs(w, v, "topics", False, write_AlterReplicaLogDirTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[148], 0)
    read_structs(r, v, "dirs", False, read_AlterReplicaLogDir)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirsRequest(Writer w, object v) except -1:
    write_structs(w, v, "dirs", False, write_AlterReplicaLogDir)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirPartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[149], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirPartitionResult(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[150], 0)
    read_string(r, v, "topic_name", False)
    read_structs(r, v, "partitions", False, read_AlterReplicaLogDirPartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirTopicResult(Writer w, object v) except -1:
    write_string(w, v, "topic_name", False)
    write_structs(w, v, "partitions", False, write_AlterReplicaLogDirPartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterReplicaLogDirsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[151], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "results", False, read_AlterReplicaLogDirTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterReplicaLogDirsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "results", False, write_AlterReplicaLogDirTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribableLogDirTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[152], 0)
    read_string(r, v, "topic", False)
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribableLogDirTopic(Writer w, object v) except -1:
    write_string(w, v, "topic", False)
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[153], 0)
    read_structs(r, v, "topics", True, read_DescribableLogDirTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", True, write_DescribableLogDirTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[154], 0)
    read_int32(r, v, "partition_index")
    read_int64(r, v, "partition_size")
    read_int64(r, v, "offset_lag")
    read_bool(r, v, "is_future_key")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int64(w, v, "partition_size")
    write_int64(w, v, "offset_lag")
    write_bool(w, v, "is_future_key")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[155], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_DescribeLogDirsPartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_DescribeLogDirsPartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[156], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "log_dir", False)
    read_structs(r, v, "topics", False, read_DescribeLogDirsTopic)
    if r.version >= 4:
        read_int64(r, v, "total_bytes")
    else:
        v.total_bytes = -1
    if r.version >= 4:
        read_int64(r, v, "usable_bytes")
    else:
        v.usable_bytes = -1
    if r.version >= 5:
        read_bool(r, v, "is_cordoned")
    else:
        v.is_cordoned = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsResult(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "log_dir", False)
    write_structs(w, v, "topics", False, write_DescribeLogDirsTopic)
    if w.version >= 4:
        write_int64(w, v, "total_bytes")
    if w.version >= 4:
        write_int64(w, v, "usable_bytes")
    if w.version >= 5:
        write_bool(w, v, "is_cordoned")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeLogDirsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[157], 0)
    read_int32(r, v, "throttle_time_ms")
    if r.version >= 3:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    read_structs(r, v, "results", False, read_DescribeLogDirsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeLogDirsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    if w.version >= 3:
        write_int16(w, v, "error_code")
    write_structs(w, v, "results", False, write_DescribeLogDirsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SaslAuthenticateRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[158], 0)
    read_bytes(r, v, "auth_bytes", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SaslAuthenticateRequest(Writer w, object v) except -1:
    write_bytes(w, v, "auth_bytes", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_SaslAuthenticateResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[159], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_bytes(r, v, "auth_bytes", False)
    if r.version >= 1:
        read_int64(r, v, "session_lifetime_ms")
    else:
        v.session_lifetime_ms = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_SaslAuthenticateResponse(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_bytes(w, v, "auth_bytes", False)
    if w.version >= 1:
        write_int64(w, v, "session_lifetime_ms")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsAssignment(Reader r):
    v = PyType_GenericAlloc(CLASS[160], 0)
    read_numbers(r, v, "broker_ids", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsAssignment(Writer w, object v) except -1:
    write_numbers(w, v, "broker_ids", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[161], 0)
    read_string(r, v, "name", False)
    read_int32(r, v, "count")
    read_structs(r, v, "assignments", True, read_CreatePartitionsAssignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_int32(w, v, "count")
    write_structs(w, v, "assignments", True, write_CreatePartitionsAssignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[162], 0)
    read_structs(r, v, "topics", False, read_CreatePartitionsTopic)
    read_int32(r, v, "timeout_ms")
    read_bool(r, v, "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", False, write_CreatePartitionsTopic)
    write_int32(w, v, "timeout_ms")
    write_bool(w, v, "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsTopicResult(Reader r):
    v = PyType_GenericAlloc(CLASS[163], 0)
    read_string(r, v, "name", False)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsTopicResult(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CreatePartitionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[164], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "results", False, read_CreatePartitionsTopicResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CreatePartitionsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "results", False, write_CreatePartitionsTopicResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteGroupsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[165], 0)
    read_strings(r, v, "groups_names", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteGroupsRequest(Writer w, object v) except -1:
    write_strings(w, v, "groups_names", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeletableGroupResult(Reader r):
    v = PyType_GenericAlloc(CLASS[166], 0)
    read_string(r, v, "group_id", False)
    read_int16(r, v, "error_code")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeletableGroupResult(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_int16(w, v, "error_code")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DeleteGroupsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[167], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "results", False, read_DeletableGroupResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DeleteGroupsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "results", False, write_DeletableGroupResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ElectLeadersRequest_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[168], 0)
    read_string(r, v, "topic", False)
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ElectLeadersRequest_TopicPartitions(Writer w, object v) except -1:
    write_string(w, v, "topic", False)
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ElectLeadersRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[169], 0)
    if r.version >= 1:
        read_int8(r, v, "election_type")
    else:
        v.election_type = 0
    read_structs(r, v, "topic_partitions", True, read_ElectLeadersRequest_TopicPartitions)
    read_int32(r, v, "timeout_ms")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ElectLeadersRequest(Writer w, object v) except -1:
    if w.version >= 1:
        write_int8(w, v, "election_type")
    elif differs(v, "election_type", 0):
        refuse(w, v, "election_type")
    write_structs(w, v, "topic_partitions", True, write_ElectLeadersRequest_TopicPartitions)
    write_int32(w, v, "timeout_ms")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[170], 0)
    read_int32(r, v, "partition_id")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_PartitionResult(Writer w, object v) except -1:
    write_int32(w, v, "partition_id")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReplicaElectionResult(Reader r):
    v = PyType_GenericAlloc(CLASS[171], 0)
    read_string(r, v, "topic", False)
    read_structs(r, v, "partition_result", False, read_PartitionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReplicaElectionResult(Writer w, object v) except -1:
    write_string(w, v, "topic", False)
    write_structs(w, v, "partition_result", False, write_PartitionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ElectLeadersResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[172], 0)
    read_int32(r, v, "throttle_time_ms")
    if r.version >= 1:
        read_int16(r, v, "error_code")
    else:
        v.error_code = 0
    read_structs(r, v, "replica_election_results", False, read_ReplicaElectionResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ElectLeadersResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    if w.version >= 1:
        write_int16(w, v, "error_code")
    elif differs(v, "error_code", 0):
        refuse(w, v, "error_code")
    write_structs(w, v, "replica_election_results", False, write_ReplicaElectionResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsRequest_AlterableConfig(Reader r):
    v = PyType_GenericAlloc(CLASS[173], 0)
    read_string(r, v, "name", False)
    read_int8(r, v, "config_operation")
    read_string(r, v, "value", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsRequest_AlterableConfig(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_int8(w, v, "config_operation")
    write_string(w, v, "value", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsRequest_AlterConfigsResource(Reader r):
    v = PyType_GenericAlloc(CLASS[174], 0)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    read_structs(r, v, "configs", False, read_IncrementalAlterConfigsRequest_AlterableConfig)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsRequest_AlterConfigsResource(Writer w, object v) except -1:
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    write_structs(w, v, "configs", False, write_IncrementalAlterConfigsRequest_AlterableConfig)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[175], 0)
    read_structs(r, v, "resources", False, read_IncrementalAlterConfigsRequest_AlterConfigsResource)
    read_bool(r, v, "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsRequest(Writer w, object v) except -1:
    write_structs(w, v, "resources", False, write_IncrementalAlterConfigsRequest_AlterConfigsResource)
    write_bool(w, v, "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[176], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_int8(r, v, "resource_type")
    read_string(r, v, "resource_name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_int8(w, v, "resource_type")
    write_string(w, v, "resource_name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_IncrementalAlterConfigsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[177], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "responses", False, read_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_IncrementalAlterConfigsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "responses", False, write_IncrementalAlterConfigsResponse_AlterConfigsResourceResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignablePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[178], 0)
    read_int32(r, v, "partition_index")
    read_numbers(r, v, "replicas", True, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignablePartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_numbers(w, v, "replicas", True, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignableTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[179], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_ReassignablePartition)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignableTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_ReassignablePartition)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterPartitionReassignmentsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[180], 0)
    read_int32(r, v, "timeout_ms")
    if r.version >= 1:
        read_bool(r, v, "allow_replication_factor_change")
    else:
        v.allow_replication_factor_change = True
    read_structs(r, v, "topics", False, read_ReassignableTopic)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterPartitionReassignmentsRequest(Writer w, object v) except -1:
    write_int32(w, v, "timeout_ms")
    if w.version >= 1:
        write_bool(w, v, "allow_replication_factor_change")
    elif differs(v, "allow_replication_factor_change", True):
        refuse(w, v, "allow_replication_factor_change")
    write_structs(w, v, "topics", False, write_ReassignableTopic)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignablePartitionResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[181], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignablePartitionResponse(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ReassignableTopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[182], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_ReassignablePartitionResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ReassignableTopicResponse(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_ReassignablePartitionResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterPartitionReassignmentsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[183], 0)
    read_int32(r, v, "throttle_time_ms")
    if r.version >= 1:
        read_bool(r, v, "allow_replication_factor_change")
    else:
        v.allow_replication_factor_change = True
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "responses", False, read_ReassignableTopicResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterPartitionReassignmentsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    if w.version >= 1:
        write_bool(w, v, "allow_replication_factor_change")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "responses", False, write_ReassignableTopicResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListPartitionReassignmentsTopics(Reader r):
    v = PyType_GenericAlloc(CLASS[184], 0)
    read_string(r, v, "name", False)
    read_numbers(r, v, "partition_indexes", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListPartitionReassignmentsTopics(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_numbers(w, v, "partition_indexes", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListPartitionReassignmentsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[185], 0)
    read_int32(r, v, "timeout_ms")
    read_structs(r, v, "topics", True, read_ListPartitionReassignmentsTopics)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListPartitionReassignmentsRequest(Writer w, object v) except -1:
    write_int32(w, v, "timeout_ms")
    write_structs(w, v, "topics", True, write_ListPartitionReassignmentsTopics)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OngoingPartitionReassignment(Reader r):
    v = PyType_GenericAlloc(CLASS[186], 0)
    read_int32(r, v, "partition_index")
    read_numbers(r, v, "replicas", False, 4)
    read_numbers(r, v, "adding_replicas", False, 4)
    read_numbers(r, v, "removing_replicas", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OngoingPartitionReassignment(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_numbers(w, v, "replicas", False, 4)
    write_numbers(w, v, "adding_replicas", False, 4)
    write_numbers(w, v, "removing_replicas", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OngoingTopicReassignment(Reader r):
    v = PyType_GenericAlloc(CLASS[187], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_OngoingPartitionReassignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OngoingTopicReassignment(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_OngoingPartitionReassignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListPartitionReassignmentsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[188], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "topics", False, read_OngoingTopicReassignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListPartitionReassignmentsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "topics", False, write_OngoingTopicReassignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OffsetDeleteRequestPartition(Reader r):
    v = PyType_GenericAlloc(CLASS[189], 0)
    read_int32(r, v, "partition_index")
    return v


cdef int write_OffsetDeleteRequestPartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    return 0


cdef object read_OffsetDeleteRequestTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[190], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_OffsetDeleteRequestPartition)
    return v


cdef int write_OffsetDeleteRequestTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_OffsetDeleteRequestPartition)
    return 0


cdef object read_OffsetDeleteRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[191], 0)
    read_string(r, v, "group_id", False)
    read_structs(r, v, "topics", False, read_OffsetDeleteRequestTopic)
    return v


cdef int write_OffsetDeleteRequest(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_structs(w, v, "topics", False, write_OffsetDeleteRequestTopic)
    return 0


cdef object read_OffsetDeleteResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[192], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    return v


cdef int write_OffsetDeleteResponsePartition(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    return 0


cdef object read_OffsetDeleteResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[193], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_OffsetDeleteResponsePartition)
    return v


cdef int write_OffsetDeleteResponseTopic(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_OffsetDeleteResponsePartition)
    return 0


cdef object read_OffsetDeleteResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[194], 0)
    read_int16(r, v, "error_code")
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "topics", False, read_OffsetDeleteResponseTopic)
    return v


cdef int write_OffsetDeleteResponse(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_OffsetDeleteResponseTopic)
    return 0


cdef object read_ComponentData(Reader r):
    v = PyType_GenericAlloc(CLASS[195], 0)
    read_string(r, v, "entity_type", False)
    read_int8(r, v, "match_type")
    read_string(r, v, "match", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ComponentData(Writer w, object v) except -1:
    write_string(w, v, "entity_type", False)
    write_int8(w, v, "match_type")
    write_string(w, v, "match", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[196], 0)
    read_structs(r, v, "components", False, read_ComponentData)
    read_bool(r, v, "strict")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasRequest(Writer w, object v) except -1:
    write_structs(w, v, "components", False, write_ComponentData)
    write_bool(w, v, "strict")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasResponse_EntityData(Reader r):
    v = PyType_GenericAlloc(CLASS[197], 0)
    read_string(r, v, "entity_type", False)
    read_string(r, v, "entity_name", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasResponse_EntityData(Writer w, object v) except -1:
    write_string(w, v, "entity_type", False)
    write_string(w, v, "entity_name", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ValueData(Reader r):
    v = PyType_GenericAlloc(CLASS[198], 0)
    read_string(r, v, "key", False)
    read_float64(r, v, "value")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ValueData(Writer w, object v) except -1:
    write_string(w, v, "key", False)
    write_float64(w, v, "value")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasResponse_EntryData(Reader r):
    v = PyType_GenericAlloc(CLASS[199], 0)
    read_structs(r, v, "entity", False, read_DescribeClientQuotasResponse_EntityData)
    read_structs(r, v, "values", False, read_ValueData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasResponse_EntryData(Writer w, object v) except -1:
    write_structs(w, v, "entity", False, write_DescribeClientQuotasResponse_EntityData)
    write_structs(w, v, "values", False, write_ValueData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClientQuotasResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[200], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "entries", True, read_DescribeClientQuotasResponse_EntryData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClientQuotasResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "entries", True, write_DescribeClientQuotasResponse_EntryData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasRequest_EntityData(Reader r):
    v = PyType_GenericAlloc(CLASS[201], 0)
    read_string(r, v, "entity_type", False)
    read_string(r, v, "entity_name", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasRequest_EntityData(Writer w, object v) except -1:
    write_string(w, v, "entity_type", False)
    write_string(w, v, "entity_name", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_OpData(Reader r):
    v = PyType_GenericAlloc(CLASS[202], 0)
    read_string(r, v, "key", False)
    read_float64(r, v, "value")
    read_bool(r, v, "remove")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_OpData(Writer w, object v) except -1:
    write_string(w, v, "key", False)
    write_float64(w, v, "value")
    write_bool(w, v, "remove")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasRequest_EntryData(Reader r):
    v = PyType_GenericAlloc(CLASS[203], 0)
    read_structs(r, v, "entity", False, read_AlterClientQuotasRequest_EntityData)
    read_structs(r, v, "ops", False, read_OpData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasRequest_EntryData(Writer w, object v) except -1:
    write_structs(w, v, "entity", False, write_AlterClientQuotasRequest_EntityData)
    write_structs(w, v, "ops", False, write_OpData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[204], 0)
    read_structs(r, v, "entries", False, read_AlterClientQuotasRequest_EntryData)
    read_bool(r, v, "validate_only")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasRequest(Writer w, object v) except -1:
    write_structs(w, v, "entries", False, write_AlterClientQuotasRequest_EntryData)
    write_bool(w, v, "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasResponse_EntityData(Reader r):
    v = PyType_GenericAlloc(CLASS[205], 0)
    read_string(r, v, "entity_type", False)
    read_string(r, v, "entity_name", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasResponse_EntityData(Writer w, object v) except -1:
    write_string(w, v, "entity_type", False)
    write_string(w, v, "entity_name", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasResponse_EntryData(Reader r):
    v = PyType_GenericAlloc(CLASS[206], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "entity", False, read_AlterClientQuotasResponse_EntityData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasResponse_EntryData(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "entity", False, write_AlterClientQuotasResponse_EntityData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterClientQuotasResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[207], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "entries", False, read_AlterClientQuotasResponse_EntryData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterClientQuotasResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "entries", False, write_AlterClientQuotasResponse_EntryData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UserName(Reader r):
    v = PyType_GenericAlloc(CLASS[208], 0)
    read_string(r, v, "name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UserName(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeUserScramCredentialsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[209], 0)
    read_structs(r, v, "users", True, read_UserName)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeUserScramCredentialsRequest(Writer w, object v) except -1:
    write_structs(w, v, "users", True, write_UserName)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_CredentialInfo(Reader r):
    v = PyType_GenericAlloc(CLASS[210], 0)
    read_int8(r, v, "mechanism")
    read_int32(r, v, "iterations")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_CredentialInfo(Writer w, object v) except -1:
    write_int8(w, v, "mechanism")
    write_int32(w, v, "iterations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeUserScramCredentialsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[211], 0)
    read_string(r, v, "user", False)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "credential_infos", False, read_CredentialInfo)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeUserScramCredentialsResult(Writer w, object v) except -1:
    write_string(w, v, "user", False)
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "credential_infos", False, write_CredentialInfo)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeUserScramCredentialsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[212], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "results", False, read_DescribeUserScramCredentialsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeUserScramCredentialsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "results", False, write_DescribeUserScramCredentialsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ScramCredentialDeletion(Reader r):
    v = PyType_GenericAlloc(CLASS[213], 0)
    read_string(r, v, "name", False)
    read_int8(r, v, "mechanism")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ScramCredentialDeletion(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_int8(w, v, "mechanism")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ScramCredentialUpsertion(Reader r):
    v = PyType_GenericAlloc(CLASS[214], 0)
    read_string(r, v, "name", False)
    read_int8(r, v, "mechanism")
    read_int32(r, v, "iterations")
    read_bytes(r, v, "salt", False)
    read_bytes(r, v, "salted_password", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ScramCredentialUpsertion(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_int8(w, v, "mechanism")
    write_int32(w, v, "iterations")
    write_bytes(w, v, "salt", False)
    write_bytes(w, v, "salted_password", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterUserScramCredentialsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[215], 0)
    read_structs(r, v, "deletions", False, read_ScramCredentialDeletion)
    read_structs(r, v, "upsertions", False, read_ScramCredentialUpsertion)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterUserScramCredentialsRequest(Writer w, object v) except -1:
    write_structs(w, v, "deletions", False, write_ScramCredentialDeletion)
    write_structs(w, v, "upsertions", False, write_ScramCredentialUpsertion)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterUserScramCredentialsResult(Reader r):
    v = PyType_GenericAlloc(CLASS[216], 0)
    read_string(r, v, "user", False)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterUserScramCredentialsResult(Writer w, object v) except -1:
    write_string(w, v, "user", False)
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_AlterUserScramCredentialsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[217], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "results", False, read_AlterUserScramCredentialsResult)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_AlterUserScramCredentialsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "results", False, write_AlterUserScramCredentialsResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumRequest_PartitionData(Reader r):
    v = PyType_GenericAlloc(CLASS[218], 0)
    read_int32(r, v, "partition_index")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumRequest_PartitionData(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumRequest_TopicData(Reader r):
    v = PyType_GenericAlloc(CLASS[219], 0)
    read_string(r, v, "topic_name", False)
    read_structs(r, v, "partitions", False, read_DescribeQuorumRequest_PartitionData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumRequest_TopicData(Writer w, object v) except -1:
    write_string(w, v, "topic_name", False)
    write_structs(w, v, "partitions", False, write_DescribeQuorumRequest_PartitionData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[220], 0)
    read_structs(r, v, "topics", False, read_DescribeQuorumRequest_TopicData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", False, write_DescribeQuorumRequest_TopicData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse_ReplicaState(Reader r):
    v = PyType_GenericAlloc(CLASS[221], 0)
    read_int32(r, v, "replica_id")
    if r.version >= 2:
        read_uuid(r, v, "replica_directory_id")
    else:
        v.replica_directory_id = ""
    read_int64(r, v, "log_end_offset")
    if r.version >= 1:
        read_int64(r, v, "last_fetch_timestamp")
    else:
        v.last_fetch_timestamp = -1
    if r.version >= 1:
        read_int64(r, v, "last_caught_up_timestamp")
    else:
        v.last_caught_up_timestamp = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse_ReplicaState(Writer w, object v) except -1:
    write_int32(w, v, "replica_id")
    if w.version >= 2:
        write_uuid(w, v, "replica_directory_id")
    elif differs(v, "replica_directory_id", ""):
        refuse(w, v, "replica_directory_id")
    write_int64(w, v, "log_end_offset")
    if w.version >= 1:
        write_int64(w, v, "last_fetch_timestamp")
    if w.version >= 1:
        write_int64(w, v, "last_caught_up_timestamp")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse_PartitionData(Reader r):
    v = PyType_GenericAlloc(CLASS[222], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    if r.version >= 2:
        read_string(r, v, "error_message", r.version >= 2)
    else:
        v.error_message = ""
    read_int32(r, v, "leader_id")
    read_int32(r, v, "leader_epoch")
    read_int64(r, v, "high_watermark")
    read_structs(r, v, "current_voters", False, read_DescribeQuorumResponse_ReplicaState)
    read_structs(r, v, "observers", False, read_DescribeQuorumResponse_ReplicaState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse_PartitionData(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    if w.version >= 2:
        write_string(w, v, "error_message", w.version >= 2)
    write_int32(w, v, "leader_id")
    write_int32(w, v, "leader_epoch")
    write_int64(w, v, "high_watermark")
    write_structs(w, v, "current_voters", False, write_DescribeQuorumResponse_ReplicaState)
    write_structs(w, v, "observers", False, write_DescribeQuorumResponse_ReplicaState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse_TopicData(Reader r):
    v = PyType_GenericAlloc(CLASS[223], 0)
    read_string(r, v, "topic_name", False)
    read_structs(r, v, "partitions", False, read_DescribeQuorumResponse_PartitionData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse_TopicData(Writer w, object v) except -1:
    write_string(w, v, "topic_name", False)
    write_structs(w, v, "partitions", False, write_DescribeQuorumResponse_PartitionData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Listener(Reader r):
    v = PyType_GenericAlloc(CLASS[224], 0)
    if r.version >= 2:
        read_string(r, v, "name", False)
    else:
        v.name = ""
    if r.version >= 2:
        read_string(r, v, "host", False)
    else:
        v.host = ""
    if r.version >= 2:
        read_uint16(r, v, "port")
    else:
        v.port = 0
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Listener(Writer w, object v) except -1:
    if w.version >= 2:
        write_string(w, v, "name", False)
    elif differs(v, "name", ""):
        refuse(w, v, "name")
    if w.version >= 2:
        write_string(w, v, "host", False)
    elif differs(v, "host", ""):
        refuse(w, v, "host")
    if w.version >= 2:
        write_uint16(w, v, "port")
    elif differs(v, "port", 0):
        refuse(w, v, "port")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Node(Reader r):
    v = PyType_GenericAlloc(CLASS[225], 0)
    if r.version >= 2:
        read_int32(r, v, "node_id")
    else:
        v.node_id = 0
    if r.version >= 2:
        read_structs(r, v, "listeners", False, read_Listener)
    else:
        v.listeners = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Node(Writer w, object v) except -1:
    if w.version >= 2:
        write_int32(w, v, "node_id")
    elif differs(v, "node_id", 0):
        refuse(w, v, "node_id")
    if w.version >= 2:
        write_structs(w, v, "listeners", False, write_Listener)
    elif differs(v, "listeners", ()):
        refuse(w, v, "listeners")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeQuorumResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[226], 0)
    read_int16(r, v, "error_code")
    if r.version >= 2:
        read_string(r, v, "error_message", r.version >= 2)
    else:
        v.error_message = ""
    read_structs(r, v, "topics", False, read_DescribeQuorumResponse_TopicData)
    if r.version >= 2:
        read_structs(r, v, "nodes", False, read_Node)
    else:
        v.nodes = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeQuorumResponse(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    if w.version >= 2:
        write_string(w, v, "error_message", w.version >= 2)
    write_structs(w, v, "topics", False, write_DescribeQuorumResponse_TopicData)
    if w.version >= 2:
        write_structs(w, v, "nodes", False, write_Node)
    elif differs(v, "nodes", ()):
        refuse(w, v, "nodes")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_FeatureUpdateKey(Reader r):
    v = PyType_GenericAlloc(CLASS[227], 0)
    read_string(r, v, "feature", False)
    read_int16(r, v, "max_version_level")
    if r.version <= 0:
        read_bool(r, v, "allow_downgrade")
    else:
        v.allow_downgrade = False
    if r.version >= 1:
        read_int8(r, v, "upgrade_type")
    else:
        v.upgrade_type = 1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_FeatureUpdateKey(Writer w, object v) except -1:
    write_string(w, v, "feature", False)
    write_int16(w, v, "max_version_level")
    if w.version <= 0:
        write_bool(w, v, "allow_downgrade")
    elif differs(v, "allow_downgrade", False):
        refuse(w, v, "allow_downgrade")
    if w.version >= 1:
        write_int8(w, v, "upgrade_type")
    elif differs(v, "upgrade_type", 1):
        refuse(w, v, "upgrade_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UpdateFeaturesRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[228], 0)
    read_int32(r, v, "timeout_ms")
    read_structs(r, v, "feature_updates", False, read_FeatureUpdateKey)
    if r.version >= 1:
        read_bool(r, v, "validate_only")
    else:
        v.validate_only = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UpdateFeaturesRequest(Writer w, object v) except -1:
    write_int32(w, v, "timeout_ms")
    write_structs(w, v, "feature_updates", False, write_FeatureUpdateKey)
    if w.version >= 1:
        write_bool(w, v, "validate_only")
    elif differs(v, "validate_only", False):
        refuse(w, v, "validate_only")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UpdatableFeatureResult(Reader r):
    v = PyType_GenericAlloc(CLASS[229], 0)
    read_string(r, v, "feature", False)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UpdatableFeatureResult(Writer w, object v) except -1:
    write_string(w, v, "feature", False)
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_UpdateFeaturesResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[230], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.version <= 1:
        read_structs(r, v, "results", False, read_UpdatableFeatureResult)
    else:
        v.results = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_UpdateFeaturesResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.version <= 1:
        write_structs(w, v, "results", False, write_UpdatableFeatureResult)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClusterRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[231], 0)
    read_bool(r, v, "include_cluster_authorized_operations")
    if r.version >= 1:
        read_int8(r, v, "endpoint_type")
    else:
        v.endpoint_type = 1
    if r.version >= 2:
        read_bool(r, v, "include_fenced_brokers")
    else:
        v.include_fenced_brokers = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClusterRequest(Writer w, object v) except -1:
    write_bool(w, v, "include_cluster_authorized_operations")
    if w.version >= 1:
        write_int8(w, v, "endpoint_type")
    elif differs(v, "endpoint_type", 1):
        refuse(w, v, "endpoint_type")
    if w.version >= 2:
        write_bool(w, v, "include_fenced_brokers")
    elif differs(v, "include_fenced_brokers", False):
        refuse(w, v, "include_fenced_brokers")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClusterBroker(Reader r):
    v = PyType_GenericAlloc(CLASS[232], 0)
    read_int32(r, v, "broker_id")
    read_string(r, v, "host", False)
    read_int32(r, v, "port")
    read_string(r, v, "rack", True)
    if r.version >= 2:
        read_bool(r, v, "is_fenced")
    else:
        v.is_fenced = False
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClusterBroker(Writer w, object v) except -1:
    write_int32(w, v, "broker_id")
    write_string(w, v, "host", False)
    write_int32(w, v, "port")
    write_string(w, v, "rack", True)
    if w.version >= 2:
        write_bool(w, v, "is_fenced")
    elif differs(v, "is_fenced", False):
        refuse(w, v, "is_fenced")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeClusterResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[233], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    if r.version >= 1:
        read_int8(r, v, "endpoint_type")
    else:
        v.endpoint_type = 1
    read_string(r, v, "cluster_id", False)
    read_int32(r, v, "controller_id")
    read_structs(r, v, "brokers", False, read_DescribeClusterBroker)
    read_int32(r, v, "cluster_authorized_operations")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeClusterResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    if w.version >= 1:
        write_int8(w, v, "endpoint_type")
    elif differs(v, "endpoint_type", 1):
        refuse(w, v, "endpoint_type")
    write_string(w, v, "cluster_id", False)
    write_int32(w, v, "controller_id")
    write_structs(w, v, "brokers", False, write_DescribeClusterBroker)
    write_int32(w, v, "cluster_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeProducersRequest_TopicRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[234], 0)
    read_string(r, v, "name", False)
    read_numbers(r, v, "partition_indexes", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeProducersRequest_TopicRequest(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_numbers(w, v, "partition_indexes", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeProducersRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[235], 0)
    read_structs(r, v, "topics", False, read_DescribeProducersRequest_TopicRequest)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeProducersRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", False, write_DescribeProducersRequest_TopicRequest)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ProducerState(Reader r):
    v = PyType_GenericAlloc(CLASS[236], 0)
    read_int64(r, v, "producer_id")
    read_int32(r, v, "producer_epoch")
    read_int32(r, v, "last_sequence")
    read_int64(r, v, "last_timestamp")
    read_int32(r, v, "coordinator_epoch")
    read_int64(r, v, "current_txn_start_offset")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ProducerState(Writer w, object v) except -1:
    write_int64(w, v, "producer_id")
    write_int32(w, v, "producer_epoch")
    write_int32(w, v, "last_sequence")
    write_int64(w, v, "last_timestamp")
    write_int32(w, v, "coordinator_epoch")
    write_int64(w, v, "current_txn_start_offset")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[237], 0)
    read_int32(r, v, "partition_index")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_structs(r, v, "active_producers", False, read_ProducerState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_PartitionResponse(Writer w, object v) except -1:
    write_int32(w, v, "partition_index")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_structs(w, v, "active_producers", False, write_ProducerState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_TopicResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[238], 0)
    read_string(r, v, "name", False)
    read_structs(r, v, "partitions", False, read_PartitionResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TopicResponse(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    write_structs(w, v, "partitions", False, write_PartitionResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeProducersResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[239], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "topics", False, read_TopicResponse)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeProducersResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_TopicResponse)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[240], 0)
    read_strings(r, v, "transactional_ids", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsRequest(Writer w, object v) except -1:
    write_strings(w, v, "transactional_ids", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsResponse_TopicData(Reader r):
    v = PyType_GenericAlloc(CLASS[241], 0)
    read_string(r, v, "topic", False)
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsResponse_TopicData(Writer w, object v) except -1:
    write_string(w, v, "topic", False)
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsResponse_TransactionState(Reader r):
    v = PyType_GenericAlloc(CLASS[242], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "transactional_id", False)
    read_string(r, v, "transaction_state", False)
    read_int32(r, v, "transaction_timeout_ms")
    read_int64(r, v, "transaction_start_time_ms")
    read_int64(r, v, "producer_id")
    read_int16(r, v, "producer_epoch")
    read_structs(r, v, "topics", False, read_DescribeTransactionsResponse_TopicData)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsResponse_TransactionState(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "transactional_id", False)
    write_string(w, v, "transaction_state", False)
    write_int32(w, v, "transaction_timeout_ms")
    write_int64(w, v, "transaction_start_time_ms")
    write_int64(w, v, "producer_id")
    write_int16(w, v, "producer_epoch")
    write_structs(w, v, "topics", False, write_DescribeTransactionsResponse_TopicData)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTransactionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[243], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "transaction_states", False, read_DescribeTransactionsResponse_TransactionState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTransactionsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "transaction_states", False, write_DescribeTransactionsResponse_TransactionState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListTransactionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[244], 0)
    read_strings(r, v, "state_filters", False)
    read_numbers(r, v, "producer_id_filters", False, 8)
    if r.version >= 1:
        read_int64(r, v, "duration_filter")
    else:
        v.duration_filter = -1
    if r.version >= 2:
        read_string(r, v, "transactional_id_pattern", r.version >= 2)
    else:
        v.transactional_id_pattern = None
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListTransactionsRequest(Writer w, object v) except -1:
    write_strings(w, v, "state_filters", False)
    write_numbers(w, v, "producer_id_filters", False, 8)
    if w.version >= 1:
        write_int64(w, v, "duration_filter")
    elif differs(v, "duration_filter", -1):
        refuse(w, v, "duration_filter")
    if w.version >= 2:
        write_string(w, v, "transactional_id_pattern", w.version >= 2)
    elif differs(v, "transactional_id_pattern", None):
        refuse(w, v, "transactional_id_pattern")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListTransactionsResponse_TransactionState(Reader r):
    v = PyType_GenericAlloc(CLASS[245], 0)
    read_string(r, v, "transactional_id", False)
    read_int64(r, v, "producer_id")
    read_string(r, v, "transaction_state", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListTransactionsResponse_TransactionState(Writer w, object v) except -1:
    write_string(w, v, "transactional_id", False)
    write_int64(w, v, "producer_id")
    write_string(w, v, "transaction_state", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListTransactionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[246], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_strings(r, v, "unknown_state_filters", False)
    read_structs(r, v, "transaction_states", False, read_ListTransactionsResponse_TransactionState)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListTransactionsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_strings(w, v, "unknown_state_filters", False)
    write_structs(w, v, "transaction_states", False, write_ListTransactionsResponse_TransactionState)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatRequest_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[247], 0)
    read_uuid(r, v, "topic_id")
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatRequest_TopicPartitions(Writer w, object v) except -1:
    write_uuid(w, v, "topic_id")
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[248], 0)
    read_string(r, v, "group_id", False)
    read_string(r, v, "member_id", False)
    read_int32(r, v, "member_epoch")
    read_string(r, v, "instance_id", True)
    read_string(r, v, "rack_id", True)
    read_int32(r, v, "rebalance_timeout_ms")
    read_strings(r, v, "subscribed_topic_names", True)
    if r.version >= 1:
        read_string(r, v, "subscribed_topic_regex", r.version >= 1)
    else:
        v.subscribed_topic_regex = None
    read_string(r, v, "server_assignor", True)
    read_structs(r, v, "topic_partitions", True, read_ConsumerGroupHeartbeatRequest_TopicPartitions)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatRequest(Writer w, object v) except -1:
    write_string(w, v, "group_id", False)
    write_string(w, v, "member_id", False)
    write_int32(w, v, "member_epoch")
    write_string(w, v, "instance_id", True)
    write_string(w, v, "rack_id", True)
    write_int32(w, v, "rebalance_timeout_ms")
    write_strings(w, v, "subscribed_topic_names", True)
    if w.version >= 1:
        write_string(w, v, "subscribed_topic_regex", w.version >= 1)
    elif differs(v, "subscribed_topic_regex", None):
        refuse(w, v, "subscribed_topic_regex")
    write_string(w, v, "server_assignor", True)
    write_structs(w, v, "topic_partitions", True, write_ConsumerGroupHeartbeatRequest_TopicPartitions)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatResponse_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[249], 0)
    read_uuid(r, v, "topic_id")
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatResponse_TopicPartitions(Writer w, object v) except -1:
    write_uuid(w, v, "topic_id")
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatResponse_Assignment(Reader r):
    v = PyType_GenericAlloc(CLASS[250], 0)
    read_structs(r, v, "topic_partitions", False, read_ConsumerGroupHeartbeatResponse_TopicPartitions)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatResponse_Assignment(Writer w, object v) except -1:
    write_structs(w, v, "topic_partitions", False, write_ConsumerGroupHeartbeatResponse_TopicPartitions)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupHeartbeatResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[251], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_string(r, v, "member_id", True)
    read_int32(r, v, "member_epoch")
    read_int32(r, v, "heartbeat_interval_ms")
    read_struct(r, v, "assignment", True, read_ConsumerGroupHeartbeatResponse_Assignment)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupHeartbeatResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_string(w, v, "member_id", True)
    write_int32(w, v, "member_epoch")
    write_int32(w, v, "heartbeat_interval_ms")
    write_struct(w, v, "assignment", True, write_ConsumerGroupHeartbeatResponse_Assignment)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[252], 0)
    read_strings(r, v, "group_ids", False)
    read_bool(r, v, "include_authorized_operations")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeRequest(Writer w, object v) except -1:
    write_strings(w, v, "group_ids", False)
    write_bool(w, v, "include_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse_TopicPartitions(Reader r):
    v = PyType_GenericAlloc(CLASS[253], 0)
    read_uuid(r, v, "topic_id")
    read_string(r, v, "topic_name", False)
    read_numbers(r, v, "partitions", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse_TopicPartitions(Writer w, object v) except -1:
    write_uuid(w, v, "topic_id")
    write_string(w, v, "topic_name", False)
    write_numbers(w, v, "partitions", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse_Assignment(Reader r):
    v = PyType_GenericAlloc(CLASS[254], 0)
    read_structs(r, v, "topic_partitions", False, read_ConsumerGroupDescribeResponse_TopicPartitions)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse_Assignment(Writer w, object v) except -1:
    write_structs(w, v, "topic_partitions", False, write_ConsumerGroupDescribeResponse_TopicPartitions)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_Member(Reader r):
    v = PyType_GenericAlloc(CLASS[255], 0)
    read_string(r, v, "member_id", False)
    read_string(r, v, "instance_id", True)
    read_string(r, v, "rack_id", True)
    read_int32(r, v, "member_epoch")
    read_string(r, v, "client_id", False)
    read_string(r, v, "client_host", False)
    read_strings(r, v, "subscribed_topic_names", False)
    read_string(r, v, "subscribed_topic_regex", True)
    read_struct(r, v, "assignment", False, read_ConsumerGroupDescribeResponse_Assignment)
    read_struct(r, v, "target_assignment", False, read_ConsumerGroupDescribeResponse_Assignment)
    if r.version >= 1:
        read_int8(r, v, "member_type")
    else:
        v.member_type = -1
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_Member(Writer w, object v) except -1:
    write_string(w, v, "member_id", False)
    write_string(w, v, "instance_id", True)
    write_string(w, v, "rack_id", True)
    write_int32(w, v, "member_epoch")
    write_string(w, v, "client_id", False)
    write_string(w, v, "client_host", False)
    write_strings(w, v, "subscribed_topic_names", False)
    write_string(w, v, "subscribed_topic_regex", True)
    write_struct(w, v, "assignment", False, write_ConsumerGroupDescribeResponse_Assignment)
    write_struct(w, v, "target_assignment", False, write_ConsumerGroupDescribeResponse_Assignment)
    if w.version >= 1:
        write_int8(w, v, "member_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse_DescribedGroup(Reader r):
    v = PyType_GenericAlloc(CLASS[256], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "error_message", True)
    read_string(r, v, "group_id", False)
    read_string(r, v, "group_state", False)
    read_int32(r, v, "group_epoch")
    read_int32(r, v, "assignment_epoch")
    read_string(r, v, "assignor_name", False)
    read_structs(r, v, "members", False, read_Member)
    read_int32(r, v, "authorized_operations")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse_DescribedGroup(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "error_message", True)
    write_string(w, v, "group_id", False)
    write_string(w, v, "group_state", False)
    write_int32(w, v, "group_epoch")
    write_int32(w, v, "assignment_epoch")
    write_string(w, v, "assignor_name", False)
    write_structs(w, v, "members", False, write_Member)
    write_int32(w, v, "authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConsumerGroupDescribeResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[257], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "groups", False, read_ConsumerGroupDescribeResponse_DescribedGroup)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConsumerGroupDescribeResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "groups", False, write_ConsumerGroupDescribeResponse_DescribedGroup)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListConfigResourcesRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[258], 0)
    if r.version >= 1:
        read_numbers(r, v, "resource_types", False, 1)
    else:
        v.resource_types = []
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListConfigResourcesRequest(Writer w, object v) except -1:
    if w.version >= 1:
        write_numbers(w, v, "resource_types", False, 1)
    elif differs(v, "resource_types", ()):
        refuse(w, v, "resource_types")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ConfigResource(Reader r):
    v = PyType_GenericAlloc(CLASS[259], 0)
    read_string(r, v, "resource_name", False)
    if r.version >= 1:
        read_int8(r, v, "resource_type")
    else:
        v.resource_type = 16
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConfigResource(Writer w, object v) except -1:
    write_string(w, v, "resource_name", False)
    if w.version >= 1:
        write_int8(w, v, "resource_type")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_ListConfigResourcesResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[260], 0)
    read_int32(r, v, "throttle_time_ms")
    read_int16(r, v, "error_code")
    read_structs(r, v, "config_resources", False, read_ConfigResource)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ListConfigResourcesResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_int16(w, v, "error_code")
    write_structs(w, v, "config_resources", False, write_ConfigResource)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsRequest_TopicRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[261], 0)
    read_string(r, v, "name", False)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsRequest_TopicRequest(Writer w, object v) except -1:
    write_string(w, v, "name", False)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsRequest_Cursor(Reader r):
    v = PyType_GenericAlloc(CLASS[262], 0)
    read_string(r, v, "topic_name", False)
    read_int32(r, v, "partition_index")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsRequest_Cursor(Writer w, object v) except -1:
    write_string(w, v, "topic_name", False)
    write_int32(w, v, "partition_index")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsRequest(Reader r):
    v = PyType_GenericAlloc(CLASS[263], 0)
    read_structs(r, v, "topics", False, read_DescribeTopicPartitionsRequest_TopicRequest)
    read_int32(r, v, "response_partition_limit")
    read_struct(r, v, "cursor", True, read_DescribeTopicPartitionsRequest_Cursor)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsRequest(Writer w, object v) except -1:
    write_structs(w, v, "topics", False, write_DescribeTopicPartitionsRequest_TopicRequest)
    write_int32(w, v, "response_partition_limit")
    write_struct(w, v, "cursor", True, write_DescribeTopicPartitionsRequest_Cursor)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponsePartition(Reader r):
    v = PyType_GenericAlloc(CLASS[264], 0)
    read_int16(r, v, "error_code")
    read_int32(r, v, "partition_index")
    read_int32(r, v, "leader_id")
    read_int32(r, v, "leader_epoch")
    read_numbers(r, v, "replica_nodes", False, 4)
    read_numbers(r, v, "isr_nodes", False, 4)
    read_numbers(r, v, "eligible_leader_replicas", True, 4)
    read_numbers(r, v, "last_known_elr", True, 4)
    read_numbers(r, v, "offline_replicas", False, 4)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponsePartition(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_int32(w, v, "partition_index")
    write_int32(w, v, "leader_id")
    write_int32(w, v, "leader_epoch")
    write_numbers(w, v, "replica_nodes", False, 4)
    write_numbers(w, v, "isr_nodes", False, 4)
    write_numbers(w, v, "eligible_leader_replicas", True, 4)
    write_numbers(w, v, "last_known_elr", True, 4)
    write_numbers(w, v, "offline_replicas", False, 4)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponseTopic(Reader r):
    v = PyType_GenericAlloc(CLASS[265], 0)
    read_int16(r, v, "error_code")
    read_string(r, v, "name", True)
    read_uuid(r, v, "topic_id")
    read_bool(r, v, "is_internal")
    read_structs(r, v, "partitions", False, read_DescribeTopicPartitionsResponsePartition)
    read_int32(r, v, "topic_authorized_operations")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponseTopic(Writer w, object v) except -1:
    write_int16(w, v, "error_code")
    write_string(w, v, "name", True)
    write_uuid(w, v, "topic_id")
    write_bool(w, v, "is_internal")
    write_structs(w, v, "partitions", False, write_DescribeTopicPartitionsResponsePartition)
    write_int32(w, v, "topic_authorized_operations")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponse_Cursor(Reader r):
    v = PyType_GenericAlloc(CLASS[266], 0)
    read_string(r, v, "topic_name", False)
    read_int32(r, v, "partition_index")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponse_Cursor(Writer w, object v) except -1:
    write_string(w, v, "topic_name", False)
    write_int32(w, v, "partition_index")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_DescribeTopicPartitionsResponse(Reader r):
    v = PyType_GenericAlloc(CLASS[267], 0)
    read_int32(r, v, "throttle_time_ms")
    read_structs(r, v, "topics", False, read_DescribeTopicPartitionsResponseTopic)
    read_struct(r, v, "next_cursor", True, read_DescribeTopicPartitionsResponse_Cursor)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_DescribeTopicPartitionsResponse(Writer w, object v) except -1:
    write_int32(w, v, "throttle_time_ms")
    write_structs(w, v, "topics", False, write_DescribeTopicPartitionsResponseTopic)
    write_struct(w, v, "next_cursor", True, write_DescribeTopicPartitionsResponse_Cursor)
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
    cdef int n = 0
    if len(classes) != CLASSES or len(names) != MESSAGES:
        raise ValueError(f"expected {<int>CLASSES} classes of {<int>MESSAGES} messages")
    for one in classes:
        Py_INCREF(one)  # for ever: values are made of it
        CLASS[n] = <PyTypeObject *>one
        n += 1
    NAMES = names


cdef Known *known(int message, int version) except NULL:
    if not 0 <= message < len(NAMES):
        raise ValueError(f"no message {message}")
    cdef Known *found = &KNOWN[message]
    if not found.first <= version <= found.last:
        raise UnsupportedVersionError(
            f"{NAMES[message]} has versions {found.first} to {found.last}, not {version}")
    return found


cdef object message_of(Known *one, Reader r):
    value = one.read(r)
    if r.p != r.end:
        malformed(r, "message", f"{r.end - r.p} bytes more than it has")
    return value


def encode(int message, object value, int version):
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    one.write(w, value)
    return w.taken()


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
    cdef int correlation_id = <int>plain_int32(r, "correlation_id")
    if r.flexible and one.key != API_VERSIONS:
        skip_tags(r)
    return correlation_id, message_of(one, r)


def request_header(object buffer, Py_ssize_t position=0):
    """API key, version and correlation id: what every request begins with, known or not."""
    cdef Reader r = Reader(buffer, position, 0, False)
    cdef int key = <int>plain_int16(r, "request_api_key")
    cdef int version = <int>plain_int16(r, "request_api_version")
    return key, version, <int>plain_int32(r, "correlation_id")


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
