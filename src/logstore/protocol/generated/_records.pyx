"""Kafka's messages as bytes and back: one function for each struct that reads it and one that writes it.

Written by codegen/generate.py from codegen/records.txt; change those. `message` and `frames` are what
calls this. `bind` must have given it the classes of `records` before.

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
    leave_tag,
    put,
    read_number,
    read_numbers,
    read_string,
    read_structs,
    read_uuid,
    skip_tags,
    tag_count,
    unsigned_varint,
    uuid_of,
)
from logstore.protocol._writing cimport (
    WriteStruct,
    Writer,
    begin_tag,
    differs,
    end_tag,
    misplaced,
    plain_number,
    refuse,
    uuid_out,
    write_number,
    write_numbers,
    write_string,
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
    CLASSES = 7
    FIELDS = 40
    MESSAGES = 7

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


cdef object read_OffsetCommitKey(Reader r):
    v = PyType_GenericAlloc(CLASS[0], 0)
    read_string(r, at(v, 0), "group", False)
    read_string(r, at(v, 1), "topic", False)
    read_number(r, at(v, 2), "partition", 4, True)
    return v


cdef int write_OffsetCommitKey(Writer w, object v) except -1:
    if not is_a(v, 0):
        misplaced(v, <type>CLASS[0])
    write_string(w, at(v, 0), "group", False)
    write_string(w, at(v, 1), "topic", False)
    write_number(w, at(v, 2), "partition", 4, True)
    return 0


cdef object read_OffsetCommitValue(Reader r):
    v = PyType_GenericAlloc(CLASS[1], 0)
    read_number(r, at(v, 3), "offset", 8, True)
    if r.version >= 3:
        read_number(r, at(v, 4), "leader_epoch", 4, True)
    else:
        put(at(v, 4), -1)
    read_string(r, at(v, 5), "metadata", False)
    read_number(r, at(v, 6), "commit_timestamp", 8, True)
    if r.version >= 1 and r.version <= 1:
        read_number(r, at(v, 7), "expire_timestamp", 8, True)
    else:
        put(at(v, 7), -1)
    put(at(v, 8), "")
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0 and r.version >= 4:
                read_uuid(r, at(v, 8), "topic_id")
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_OffsetCommitValue(Writer w, object v) except -1:
    if not is_a(v, 1):
        misplaced(v, <type>CLASS[1])
    write_number(w, at(v, 3), "offset", 8, True)
    if w.version >= 3:
        write_number(w, at(v, 4), "leader_epoch", 4, True)
    write_string(w, at(v, 5), "metadata", False)
    write_number(w, at(v, 6), "commit_timestamp", 8, True)
    if w.version >= 1 and w.version <= 1:
        write_number(w, at(v, 7), "expire_timestamp", 8, True)
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if w.version >= 4 and differs(at(v, 8), "topic_id", ""):
            place = begin_tag(w, 0)
            write_uuid(w, at(v, 8), "topic_id")
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_TopicRecord(Reader r):
    v = PyType_GenericAlloc(CLASS[2], 0)
    read_string(r, at(v, 9), "name", False)
    read_uuid(r, at(v, 10), "topic_id")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_TopicRecord(Writer w, object v) except -1:
    if not is_a(v, 2):
        misplaced(v, <type>CLASS[2])
    write_string(w, at(v, 9), "name", False)
    write_uuid(w, at(v, 10), "topic_id")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionRecord(Reader r):
    v = PyType_GenericAlloc(CLASS[3], 0)
    read_number(r, at(v, 11), "partition_id", 4, True)
    read_uuid(r, at(v, 12), "topic_id")
    read_numbers(r, at(v, 13), "replicas", False, 4)
    read_numbers(r, at(v, 14), "isr", False, 4)
    read_numbers(r, at(v, 15), "removing_replicas", False, 4)
    read_numbers(r, at(v, 16), "adding_replicas", False, 4)
    read_number(r, at(v, 17), "leader", 4, True)
    put(at(v, 18), 0)
    read_number(r, at(v, 19), "leader_epoch", 4, True)
    read_number(r, at(v, 20), "partition_epoch", 4, True)
    if r.version >= 1:
        read_structs(r, at(v, 21), "directories", False, uuid_of)
    else:
        put(at(v, 21), [])
    put(at(v, 22), None)
    put(at(v, 23), None)
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0:
                read_number(r, at(v, 18), "leader_recovery_state", 1, True)
            elif tag == 1 and r.version >= 2:
                read_numbers(r, at(v, 22), "eligible_leader_replicas", r.version >= 2, 4)
            elif tag == 2 and r.version >= 2:
                read_numbers(r, at(v, 23), "last_known_elr", r.version >= 2, 4)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_PartitionRecord(Writer w, object v) except -1:
    if not is_a(v, 3):
        misplaced(v, <type>CLASS[3])
    write_number(w, at(v, 11), "partition_id", 4, True)
    write_uuid(w, at(v, 12), "topic_id")
    write_numbers(w, at(v, 13), "replicas", False, 4)
    write_numbers(w, at(v, 14), "isr", False, 4)
    write_numbers(w, at(v, 15), "removing_replicas", False, 4)
    write_numbers(w, at(v, 16), "adding_replicas", False, 4)
    write_number(w, at(v, 17), "leader", 4, True)
    write_number(w, at(v, 19), "leader_epoch", 4, True)
    write_number(w, at(v, 20), "partition_epoch", 4, True)
    if w.version >= 1:
        write_structs(w, at(v, 21), "directories", False, uuid_out)
    elif differs(at(v, 21), "directories", ()):
        refuse(w, v, "directories")
    if not (w.version >= 2):
        if differs(at(v, 22), "eligible_leader_replicas", None):
            refuse(w, v, "eligible_leader_replicas")
    if not (w.version >= 2):
        if differs(at(v, 23), "last_known_elr", None):
            refuse(w, v, "last_known_elr")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if differs(at(v, 18), "leader_recovery_state", 0):
            place = begin_tag(w, 0)
            write_number(w, at(v, 18), "leader_recovery_state", 1, True)
            end_tag(w, place)
            count += 1
        if w.version >= 2 and differs(at(v, 22), "eligible_leader_replicas", None):
            place = begin_tag(w, 1)
            write_numbers(w, at(v, 22), "eligible_leader_replicas", w.version >= 2, 4)
            end_tag(w, place)
            count += 1
        if w.version >= 2 and differs(at(v, 23), "last_known_elr", None):
            place = begin_tag(w, 2)
            write_numbers(w, at(v, 23), "last_known_elr", w.version >= 2, 4)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_ConfigRecord(Reader r):
    v = PyType_GenericAlloc(CLASS[4], 0)
    read_number(r, at(v, 24), "resource_type", 1, True)
    read_string(r, at(v, 25), "resource_name", False)
    read_string(r, at(v, 26), "name", False)
    read_string(r, at(v, 27), "value", True)
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_ConfigRecord(Writer w, object v) except -1:
    if not is_a(v, 4):
        misplaced(v, <type>CLASS[4])
    write_number(w, at(v, 24), "resource_type", 1, True)
    write_string(w, at(v, 25), "resource_name", False)
    write_string(w, at(v, 26), "name", False)
    write_string(w, at(v, 27), "value", True)
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


cdef object read_PartitionChangeRecord(Reader r):
    v = PyType_GenericAlloc(CLASS[5], 0)
    read_number(r, at(v, 28), "partition_id", 4, True)
    read_uuid(r, at(v, 29), "topic_id")
    put(at(v, 30), None)
    put(at(v, 31), -2)
    put(at(v, 32), None)
    put(at(v, 33), None)
    put(at(v, 34), None)
    put(at(v, 35), -1)
    put(at(v, 36), None)
    put(at(v, 37), None)
    put(at(v, 38), None)
    cdef int64_t count, tag
    cdef const uint8_t *outer
    if r.flexible:
        count = tag_count(r)
        while count > 0:
            tag = enter_tag(r, &outer)
            if tag == 0:
                read_numbers(r, at(v, 30), "isr", True, 4)
            elif tag == 1:
                read_number(r, at(v, 31), "leader", 4, True)
            elif tag == 2:
                read_numbers(r, at(v, 32), "replicas", True, 4)
            elif tag == 3:
                read_numbers(r, at(v, 33), "removing_replicas", True, 4)
            elif tag == 4:
                read_numbers(r, at(v, 34), "adding_replicas", True, 4)
            elif tag == 5:
                read_number(r, at(v, 35), "leader_recovery_state", 1, True)
            elif tag == 8 and r.version >= 1:
                read_structs(r, at(v, 36), "directories", r.version >= 1, uuid_of)
            elif tag == 6 and r.version >= 2:
                read_numbers(r, at(v, 37), "eligible_leader_replicas", r.version >= 2, 4)
            elif tag == 7 and r.version >= 2:
                read_numbers(r, at(v, 38), "last_known_elr", r.version >= 2, 4)
            else:
                r.p = r.end
            leave_tag(r, outer)
            count -= 1
    return v


cdef int write_PartitionChangeRecord(Writer w, object v) except -1:
    if not is_a(v, 5):
        misplaced(v, <type>CLASS[5])
    write_number(w, at(v, 28), "partition_id", 4, True)
    write_uuid(w, at(v, 29), "topic_id")
    if not (w.version >= 1):
        if differs(at(v, 36), "directories", None):
            refuse(w, v, "directories")
    if not (w.version >= 2):
        if differs(at(v, 37), "eligible_leader_replicas", None):
            refuse(w, v, "eligible_leader_replicas")
    if not (w.version >= 2):
        if differs(at(v, 38), "last_known_elr", None):
            refuse(w, v, "last_known_elr")
    cdef Py_ssize_t place, count_place
    cdef int count = 0
    if w.flexible:
        count_place = w.size
        plain_number(w, 0, 1)
        if differs(at(v, 30), "isr", None):
            place = begin_tag(w, 0)
            write_numbers(w, at(v, 30), "isr", True, 4)
            end_tag(w, place)
            count += 1
        if differs(at(v, 31), "leader", -2):
            place = begin_tag(w, 1)
            write_number(w, at(v, 31), "leader", 4, True)
            end_tag(w, place)
            count += 1
        if differs(at(v, 32), "replicas", None):
            place = begin_tag(w, 2)
            write_numbers(w, at(v, 32), "replicas", True, 4)
            end_tag(w, place)
            count += 1
        if differs(at(v, 33), "removing_replicas", None):
            place = begin_tag(w, 3)
            write_numbers(w, at(v, 33), "removing_replicas", True, 4)
            end_tag(w, place)
            count += 1
        if differs(at(v, 34), "adding_replicas", None):
            place = begin_tag(w, 4)
            write_numbers(w, at(v, 34), "adding_replicas", True, 4)
            end_tag(w, place)
            count += 1
        if differs(at(v, 35), "leader_recovery_state", -1):
            place = begin_tag(w, 5)
            write_number(w, at(v, 35), "leader_recovery_state", 1, True)
            end_tag(w, place)
            count += 1
        if w.version >= 1 and differs(at(v, 36), "directories", None):
            place = begin_tag(w, 8)
            write_structs(w, at(v, 36), "directories", w.version >= 1, uuid_out)
            end_tag(w, place)
            count += 1
        if w.version >= 2 and differs(at(v, 37), "eligible_leader_replicas", None):
            place = begin_tag(w, 6)
            write_numbers(w, at(v, 37), "eligible_leader_replicas", w.version >= 2, 4)
            end_tag(w, place)
            count += 1
        if w.version >= 2 and differs(at(v, 38), "last_known_elr", None):
            place = begin_tag(w, 7)
            write_numbers(w, at(v, 38), "last_known_elr", w.version >= 2, 4)
            end_tag(w, place)
            count += 1
        w.data[count_place] = <uint8_t>count
    return 0


cdef object read_RemoveTopicRecord(Reader r):
    v = PyType_GenericAlloc(CLASS[6], 0)
    read_uuid(r, at(v, 39), "topic_id")
    if r.flexible:
        skip_tags(r)
    return v


cdef int write_RemoveTopicRecord(Writer w, object v) except -1:
    if not is_a(v, 6):
        misplaced(v, <type>CLASS[6])
    write_uuid(w, at(v, 39), "topic_id")
    if w.flexible:
        plain_number(w, 0, 1)
    return 0


know(0, read_OffsetCommitKey, write_OffsetCommitKey, 1, 0, 0, 32767)
know(1, read_OffsetCommitValue, write_OffsetCommitValue, 1, 0, 4, 4)
know(2, read_TopicRecord, write_TopicRecord, 2, 0, 0, 0)
know(3, read_PartitionRecord, write_PartitionRecord, 3, 0, 2, 0)
know(4, read_ConfigRecord, write_ConfigRecord, 4, 0, 0, 0)
know(5, read_PartitionChangeRecord, write_PartitionChangeRecord, 5, 0, 2, 0)
know(6, read_RemoveTopicRecord, write_RemoveTopicRecord, 9, 0, 0, 0)


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


def decode(int message, object buffer, int version, Py_ssize_t position=0):
    """Bytes behind the fields are skipped: a later version may have more of them."""
    cdef Known *one = known(message, version)
    return one.read(Reader(buffer, position, version, version >= one.flexible))


def frame_of(object buffer):
    """The version of a metadata record's frame, the record's type and version, and where its fields begin."""
    cdef Reader r = Reader(buffer, 0, 0, True)
    cdef int64_t frame = unsigned_varint(r, "frame version")
    cdef int64_t kind = unsigned_varint(r, "record type")
    cdef int64_t version = unsigned_varint(r, "record version")
    return frame, kind, version, r.p - r.start
