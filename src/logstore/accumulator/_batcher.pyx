# cython: language_level=3
"""Batcher of one partition, the fast path of `send` and `append`: add a record to a batch, return its future.

A `FastSend` has one `FastBatcher` for each partition of each topic; a `FastAppend` has one. A record of plain
bytes is added under the GIL alone if the open batch of its batcher has space. Every other record is passed to
`_send_slowly` or `_append_slowly` of the subclass, which takes locks, opens batches and writes them. All futures
of one batch share one `BatchResult`: an acknowledgement costs the same for one record and for a thousand.

Any thread may send, and wait for a future. A batch result is answered once.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SetItem
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from logstore.batch._encode cimport ADDED, Encoder
from logstore.batch._key_hash cimport partition_of_key
from logstore.io._files cimport fork_generation

import logging
import threading
from concurrent.futures import Future, InvalidStateError

from logstore.io._interrupts import Condition
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import DeliveryTimeoutError, ForkedError
from logstore.records import RecordMetadata

_logger = logging.getLogger(__name__)

cdef extern from *:
    """
    /* Under the stable ABI a type is opaque: futures are then allocated and freed by Python. */
    static int keep_memory(PyTypeObject *kind, void (*freed)(void *)) {
    #ifdef Py_LIMITED_API
        (void)kind;
        (void)freed;
    #else
        if (kind->tp_flags & Py_TPFLAGS_HAVE_GC)
            return -1;
        kind->tp_free = freed;
    #endif
        return 0;
    }
    """
    int keep_memory(PyTypeObject *kind, void (*freed)(void *) noexcept)

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t count)
    object PyObject_Init(void *memory, PyTypeObject *kind)
    void PyObject_Free(void *memory)
    void Py_CLEAR(PyObject *)


@cython.final
cdef class BatchResult:
    """Delivery result of one batch, shared by the futures of its records.

    Threads: one answers it, any may query it. `_waiter` is created by the first thread that waits.
    """

    def __init__(self, str topic, int32_t partition, *, clock=SYSTEM_CLOCK, list failures=None):
        """Add this result to ``failures`` if it fails after a future was dropped; None: errors are ignored."""
        self._begin(topic, partition, clock, failures)

    cdef int _begin(self, str topic, int32_t partition, object clock, list failures) except -1:
        self.topic = topic
        self.partition = partition
        self._failures = failures
        self.first_offset = -1
        self._append_time_ms = -1
        self._clock = clock
        self._fork = fork_generation()
        return 0

    cdef object claim_next(self, Encoder encoder, int64_t timestamp_ms):
        cdef SendFuture future = new_future()
        Py_INCREF(self)
        future._batch_result = <PyObject *>self
        future._index = <int32_t>(encoder.record_count + encoder._batch_records - 1)
        future._timestamp_ms = timestamp_ms
        self._claimed += 1
        self._kept += 1
        return future

    def claim(self, Encoder encoder not None, timestamp_ms):
        """Return the future of the record that was added last."""
        return self.claim_next(encoder, encoder._default_timestamp if timestamp_ms is None else timestamp_ms)

    @property
    def is_answered(self):
        return self._state >= ACKNOWLEDGED

    def appended(self, int64_t first_offset, int64_t append_time_ms, drive):
        """Note that the batch is in the log and waits for the disk; ``drive()`` syncs and answers it."""
        if self._state != GATHERED:
            return
        self.first_offset = first_offset
        self._append_time_ms = append_time_ms
        self._drive = drive
        self._state = APPENDED
        # A thread that waited for the write can now call `drive`.
        self._wake()

    def acknowledge(self, int64_t first_offset, int64_t append_time_ms=-1):
        """Answer every future with its offset, once. The caller calls `notify` after releasing its locks."""
        self.answer(first_offset, append_time_ms)

    cdef int answer(self, int64_t first_offset, int64_t append_time_ms) except -1:
        if self._state < ACKNOWLEDGED:
            self.first_offset = first_offset
            self._append_time_ms = append_time_ms
            self._answer(ACKNOWLEDGED)
        return 0

    def fail(self, error not None):
        """Answer every future with an error, once; as `acknowledge`.

        Without a list of failures the error is ignored: the futures return offset -1 (``acks=0``).
        """
        if self._failures is None:
            self.acknowledge(-1)
            return
        if self._state < ACKNOWLEDGED:
            self.error = error
            if self._kept < self._claimed:
                self._failures.append(self)
            self._answer(FAILED)

    def acknowledge_parts(self, parts):
        """Answer the futures of a batch that was written in parts, once; as `acknowledge`.

        Each part is (place of its first record, first offset, append time, error or None), in their order. A part
        with an error fails alone.
        """
        if self._state >= ACKNOWLEDGED:
            return
        # Plain tuples: futures read them, and without a list of failures no error.
        kept = [(record, offset, time, error if self._failures is not None else None)
                for record, offset, time, error in parts]
        self.error = next((part[3] for part in kept if part[3] is not None), None)
        if self.error is not None and self._kept < self._claimed:
            self._failures.append(self)
        self._parts = kept
        self._answer(ACKNOWLEDGED)

    cdef int _answer(self, State state) except -1:
        if self._state < ACKNOWLEDGED:
            self._state = state
            self._drive = None
            self._wake()
        return 0

    def notify(self):
        """Run the callbacks and wake the coroutines of a batch result that is answered."""
        self.tell()

    cdef bint is_quiet(self) noexcept:
        """Whether `tell` has nothing to do: no callback, no coroutine, and nothing waits for several futures."""
        return self._loops is None and self._watched is None and self._callbacks is None

    cdef int tell(self) except -1:
        cdef list loops
        if self.is_quiet():
            return 0
        loops, self._loops = self._loops, None
        if loops is not None:
            # One call for all coroutines of a loop: each call costs the loop a system call.
            for loop, awaited in loops:
                try:
                    loop.call_soon_threadsafe(_wake_coroutines, awaited)
                except RuntimeError:
                    pass      # a closed loop has no coroutine left that could wait
        self._notify_watched()
        self.run_callbacks()
        return 0

    cdef _notify_watched(self):
        cdef SendFuture future
        watched, self._watched = self._watched, None
        if watched is not None:
            for future in watched:
                (<_Watch>future._watch).notify(future, error_of(future) is not None)

    cdef run_callbacks(self):
        cdef list callbacks
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            self.seen = True
            for call, future in callbacks:
                _call(call, future)

    cdef await_in(self, loop):
        """Return the asyncio future that a coroutine of this loop awaits until the batch result is answered."""
        answered = loop.create_future()
        if self._loops is None:
            self._loops = []
        for other, awaited in self._loops:
            if other is loop:
                awaited.append(answered)
                break
        else:
            self._loops.append((loop, [answered]))
        # Checked last: a thread that has answered meanwhile did not find this future in the list.
        if self._state >= ACKNOWLEDGED and not answered.done():
            answered.set_result(None)
        return answered

    cdef int _wake(self) except -1:
        if self._waiter is not None:
            with self._waiter:
                self._waiter.notify_all()
        return 0

    cdef _await(self, timeout_s):
        """Wait until the batch result is answered; sync the log if only the sync is missing."""
        if self._fork != fork_generation():
            raise ForkedError(
                f"{self.topic}-{self.partition}: the record was sent before a fork, and is its parent's to write")
        deadline_s = self._clock.deadline_s(timeout_s, "timeout")
        if self._waiter is None:
            waiter = Condition()
            if self._waiter is None:          # checked again: another thread may run while a Condition is created
                self._waiter = waiter
        while self._state < ACKNOWLEDGED:
            drive = self._drive
            if drive is not None:
                drive()
                if self._state >= ACKNOWLEDGED:
                    return
            with self._waiter:
                if self._state >= ACKNOWLEDGED or (self._drive is not None and self._drive is not drive):
                    continue
                left_s = None if deadline_s is None else deadline_s - self._clock.monotonic_s()
                if left_s is not None and left_s <= 0:
                    raise DeliveryTimeoutError(
                        f"{self.topic}-{self.partition}: the record was not acknowledged within {timeout_s} s; it "
                        "is still buffered or waits for the disk, and its future completes later")
                self._clock.wait(self._waiter, left_s)

    def __repr__(self):
        state = ("gathered", "appended", "acknowledged", "failed")[<int>self._state]
        return f"<BatchResult {self.topic}-{self.partition} {state}>"


cdef BatchResult new_batch_result(str topic, int32_t partition, object clock, list failures):
    """Return a result without the arguments of a Python call."""
    cdef BatchResult result = BatchResult.__new__(BatchResult)
    result._begin(topic, partition, clock, failures)
    return result


cdef _call(call, future):
    try:
        call(future)
    except Exception:
        _logger.exception("a callback of %r failed", future)


cdef class _Plain:
    """The first base of `SendFuture`: Cython requires a compiled class there.

    It has the slot for weak references. Under the stable ABI Cython gives one class either this slot or that of a
    dict, and `SendFuture` has the dict.
    """

    cdef object __weakref__


@cython.final
cdef class _Watch:
    """State of one future for `concurrent.futures.wait` and `as_completed`, created on demand."""

    cdef readonly object condition
    cdef readonly list waiters
    cdef bint is_notified                       # the waiters know that the future is done

    def __cinit__(self):
        self.condition = threading.Condition()
        self.waiters = []

    cdef notify(self, future, bint failed):
        with self.condition:
            # Under the lock: a waiter that was added before has counted this future as pending, and is notified.
            self.is_notified = True
            for waiter in self.waiters:
                if failed:
                    waiter.add_exception(future)
                else:
                    waiter.add_result(future)
            self.condition.notify_all()


@cython.final
@cython.no_gc
cdef class SendFuture(_Plain, Future):
    """Delivery result of one record that was sent: `result()` waits for its `RecordMetadata`.

    A `concurrent.futures.Future`, so `wait`, `as_completed` and `asyncio.wrap_future` accept it. It has `get` as
    in kafka-python, and can be awaited inside a running event loop. A record that was sent cannot be taken back,
    so `cancel` returns False: the future counts as running until it is done.

    Owns: a reference to the `BatchResult` of its batch, and a `_Watch` once one is needed. Both are plain
    pointers, since `new_future` allocates a future without Cython's constructor. Python creates its dict on first
    use. The garbage collector does not track futures. A reference cycle through a callback ends when the
    batch is answered, at the latest when its producer closes. A cycle through an attribute that a program sets is
    never collected.
    """

    cdef PyObject *_batch_result                   # a BatchResult
    cdef PyObject *_watch                    # a _Watch, or NULL
    cdef int32_t _index
    cdef int64_t _timestamp_ms
    cdef dict __dict__                       # of the base: without its slot Python would refuse the subclass

    def __init__(self):
        raise TypeError("a SendFuture comes from Producer.send")

    def __dealloc__(self):
        if self._batch_result != NULL:
            (<BatchResult>self._batch_result)._kept -= 1
            Py_CLEAR(self._batch_result)
        Py_CLEAR(self._watch)

    def done(self) -> bool:
        """Tell whether the record is acknowledged or has failed."""
        return batch_result_of(self)._state >= ACKNOWLEDGED

    def running(self) -> bool:
        """Tell whether the record is neither acknowledged nor has failed."""
        return batch_result_of(self)._state < ACKNOWLEDGED

    def cancel(self) -> bool:
        """Do nothing and return False: a record that was sent cannot be taken back."""
        return False

    def cancelled(self) -> bool:
        """Return False: see `cancel`."""
        return False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement; return `RecordMetadata` of topic, partition, offset and timestamp.

        ``timeout`` is in seconds; None waits for ever. An open batch is written only when it is full, has lingered
        or is flushed: until then this call waits, too.

        Raises:
            DeliveryTimeoutError: ``timeout`` has passed before; the record may still be written.
            LogstoreError: the record was not written; the error is the reason.
        """
        cdef BatchResult batch_result = batch_result_of(self)
        if batch_result._state < ACKNOWLEDGED:
            batch_result._await(timeout)
        error = error_of(self)
        if error is not None:
            batch_result.seen = True
            raise error
        return metadata_of(self)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Call `result`; this is kafka-python's name of it."""
        return self.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does; return the error, or None if the record is acknowledged."""
        cdef BatchResult batch_result = batch_result_of(self)
        if batch_result._state < ACKNOWLEDGED:
            batch_result._await(timeout)
        error = error_of(self)
        if error is not None:
            batch_result.seen = True
        return error

    def add_done_callback(self, fn: Callable[[SendFuture], object]) -> None:
        """Call ``fn(future)`` in the thread that answers the future; at once if the future is done already."""
        cdef BatchResult batch_result = batch_result_of(self)
        if batch_result._callbacks is None:
            batch_result._callbacks = []
        batch_result._callbacks.append((fn, self))
        # Checked last: a thread that has answered meanwhile did not find this callback in the list.
        if batch_result._state >= ACKNOWLEDGED:
            batch_result.run_callbacks()

    # -- methods that an executor would call; this future has no executor

    def set_running_or_notify_cancel(self) -> bool:
        """Raise: the producer answers it."""
        raise InvalidStateError(f"{self!r} is answered by its producer")

    def set_result(self, result: RecordMetadata) -> None:
        """Raise: the producer answers it."""
        raise InvalidStateError(f"{self!r} is answered by its producer")

    def set_exception(self, exception: BaseException | None) -> None:
        """Raise: the producer answers it."""
        raise InvalidStateError(f"{self!r} is answered by its producer")

    # -- read by `wait` and `as_completed`, and by `asyncio.wrap_future` from Python 3.14 on

    @property
    def _condition(self):
        return watch_of(self).condition

    @property
    def _waiters(self):
        return watch_of(self).waiters

    @property
    def _state(self):
        cdef BatchResult batch_result = batch_result_of(self)
        if batch_result._state < ACKNOWLEDGED or (self._watch != NULL and not (<_Watch>self._watch).is_notified):
            return "RUNNING"
        return "FINISHED"

    @property
    def _result(self):
        is_acknowledged = batch_result_of(self)._state == ACKNOWLEDGED and error_of(self) is None
        return metadata_of(self) if is_acknowledged else None

    @property
    def _exception(self):
        return error_of(self)

    def __await__(self):
        import asyncio

        if batch_result_of(self)._state < ACKNOWLEDGED:
            yield from batch_result_of(self).await_in(asyncio.get_running_loop())
        return self.result(0)

    def __repr__(self):
        return f"<SendFuture {self._index} of {batch_result_of(self)!r}>"


cdef BatchResult batch_result_of(SendFuture future):
    if future._batch_result == NULL:
        raise TypeError("a SendFuture comes from Producer.send")
    return <BatchResult>future._batch_result


cdef _Watch watch_of(SendFuture future):
    cdef BatchResult batch_result = batch_result_of(future)
    if future._watch == NULL:
        watch = _Watch()
        if batch_result._watched is None:
            batch_result._watched = []
        # No other thread runs from here to the end. So a thread that answers the batch result has either answered
        # before, or finds the future in the list.
        if future._watch == NULL:
            if batch_result._state >= ACKNOWLEDGED:
                (<_Watch>watch).is_notified = True
            else:
                batch_result._watched.append(future)
            Py_INCREF(watch)
            future._watch = <PyObject *>watch
    return <_Watch>future._watch


cdef tuple part_of(SendFuture future):
    """Return the part of a batch that holds the record, of one that was written in parts."""
    cdef tuple found = None, part
    for part in (<BatchResult>future._batch_result)._parts:
        if part[0] <= future._index:
            found = part
    return found


cdef object error_of(SendFuture future):
    """Return the error of an answered future, or None."""
    cdef BatchResult batch_result = batch_result_of(future)
    return batch_result.error if batch_result._parts is None else part_of(future)[3]


cdef object metadata_of(SendFuture future):
    cdef BatchResult batch_result = batch_result_of(future)
    cdef int64_t offset = -1, timestamp_ms = future._timestamp_ms
    if batch_result._parts is not None:
        first_record, first_offset, append_time_ms, _ = part_of(future)
        if first_offset >= 0:
            offset = first_offset + future._index - first_record
        if append_time_ms >= 0:
            timestamp_ms = append_time_ms
        return new_metadata(batch_result.topic, batch_result.partition, offset, timestamp_ms)
    if batch_result.first_offset >= 0:
        offset = batch_result.first_offset + future._index
    if batch_result._append_time_ms >= 0:
        timestamp_ms = batch_result._append_time_ms
    return new_metadata(batch_result.topic, batch_result.partition, offset, timestamp_ms)


# The dict that Cython would create for each future costs more than the future itself. `new_future` leaves its
# pointer NULL, and Python creates the dict when a caller first sets an attribute. The memory of up to 256 freed
# futures is reused.
cdef enum:
    SPARE_FUTURES = 256

cdef void *_spare[SPARE_FUTURES]
cdef int _spare_count = 0


cdef void free_future(void *memory) noexcept:
    global _spare_count
    if _spare_count < SPARE_FUTURES:
        _spare[_spare_count] = memory
        _spare_count += 1
    else:
        PyObject_Free(memory)


cdef SendFuture new_future():
    global _spare_count
    cdef void *memory
    if not _spare_count:
        return <SendFuture>PyType_GenericAlloc(<PyTypeObject *>SendFuture, 0)
    _spare_count -= 1
    memory = _spare[_spare_count]
    memset(memory, 0, sizeof(SendFuture))
    return <SendFuture>PyObject_Init(memory, <PyTypeObject *>SendFuture)


if keep_memory(<PyTypeObject *>SendFuture, free_future):
    raise AssertionError("the memory of a future would have a header in front")


cdef int put(object made, Py_ssize_t index, object item) except -1:
    Py_INCREF(item)
    return PyTuple_SetItem(made, index, item)


cdef object new_metadata(str topic, int32_t partition, int64_t offset, int64_t timestamp_ms):
    """Return a `RecordMetadata` without its constructor, which takes longer than the rest of `result`."""
    cdef object made = PyType_GenericAlloc(<PyTypeObject *>_RECORD_METADATA, 4)
    put(made, 0, topic)
    put(made, 1, partition)
    put(made, 2, offset)
    put(made, 3, timestamp_ms)
    return made


cdef type _RECORD_METADATA = RecordMetadata
assert RecordMetadata._fields == ("topic", "partition", "offset", "timestamp_ms")


def _wake_coroutines(list awaited):
    for answered in awaited:
        if not answered.done():
            answered.set_result(None)


def size_of(data):
    """Return the bytes of a key or value; 0 for another type, which the encoder refuses."""
    if data is None:
        return 0
    if PyBytes_CheckExact(data):
        return PyBytes_GET_SIZE(data)
    try:
        return memoryview(data).nbytes
    except (TypeError, ValueError, BufferError):  # raised by numpy too
        return 0


def listed(headers):
    """Return headers that can be iterated twice; an invalid value is left for the encoder to refuse."""
    try:
        return list(headers)
    except TypeError:
        return headers


def headers_size(headers):
    """Return the most bytes that headers may take; 0 for an invalid value, which the encoder refuses."""
    cdef Py_ssize_t size = 10
    if not headers:
        return 0
    try:
        for key, value in headers:
            size += 4 * len(key) + size_of(value) + 20
    except (TypeError, ValueError):
        return 0
    return size


cdef class FastBatcher:
    """The fast path of a `PartitionBatcher`: add single records to its open batch, without a lock.

    A record of plain bytes that fits is added to the batch under the GIL alone. While the fast path is paused,
    every record takes the slow path.
    """

    def pause(self):
        """Send every record through the slow path from now on."""
        self._open = None

    def resume(self, Encoder encoder not None, BatchResult batch_result, Py_ssize_t full_bytes,
               int64_t ahead_ms=-1):
        """Add records to an encoder on the fast path, up to ``full_bytes``; all share the batch result.

        A record's own timestamp may be at most ``ahead_ms`` after the time at which the batch was begun. With -1 a
        record with a timestamp takes the slow path, which checks it by the log's settings.
        """
        self._full_bytes = full_bytes
        self._ahead_ms = ahead_ms
        self._batch_result = batch_result
        self._open = encoder

    cdef object add_slowly(self, object value, object key, object timestamp, object headers):
        """Add a record under the lock, as `PartitionBatcher.add`."""
        # A cdef class has no abstract methods.
        raise NotImplementedError("a subclass says how to add slowly")

    cdef int write_due(self) except -1:
        """Write the batches that are sealed or full."""
        return 0

    cdef int filled(self) except -1:
        """Hear that the open batch is full: it is to be written soon, whether another record comes or not."""
        return 0


cdef inline bint add_plain(FastBatcher batcher, const uint8_t *key, int64_t key_size, object value,
                           object timestamp, int64_t *stamp) except -1:
    """Add a record whose value is bytes to the open batch; return False if the slow path must add the record.

    ``stamp`` gets the timestamp of the record.
    """
    cdef int overflow = 0
    # `_open` is read at each use: a local variable would change the reference count for each record.
    if batcher._open is None or batcher._open.size >= batcher._full_bytes:
        return False
    stamp[0] = batcher._open._default_timestamp
    if timestamp is not None:
        if batcher._ahead_ms < 0 or not PyLong_CheckExact(timestamp):
            return False
        stamp[0] = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
        if overflow or stamp[0] < 0 or stamp[0] - batcher._open._default_timestamp > batcher._ahead_ms:
            return False
    if batcher._open.try_add(stamp[0], key, key_size, <const uint8_t *>PyBytes_AS_STRING(value),
                             PyBytes_GET_SIZE(value), NULL, 0) != ADDED:
        return False
    if batcher._full_bytes and batcher._open.size >= batcher._full_bytes:
        batcher.filled()
    return True


cdef inline bint is_plain(object key, const uint8_t **data, int64_t *size) noexcept:
    """Return whether a key is bytes or None, and set ``data`` and ``size``; size -1 stands for None."""
    if key is None:
        data[0], size[0] = NULL, -1
        return True
    if not PyBytes_CheckExact(key):
        return False
    data[0] = <const uint8_t *>PyBytes_AS_STRING(key)
    size[0] = PyBytes_GET_SIZE(key)
    return True


cdef class FastAppend:
    """The fast path of an appender: as `FastSend`, but with one batcher and without a future."""

    cdef public FastBatcher _batcher

    def append(
            self, value: Buffer | None, key: Buffer | None = None,
            timestamp_ms: Timestamp | None = None, headers: Headers | None = None) -> None:
        """Add one record; see `Appender`."""
        cdef const uint8_t *key_data
        cdef int64_t key_size, stamp
        if (headers is None and timestamp_ms is None and self._batcher is not None and PyBytes_CheckExact(value)
                and is_plain(key, &key_data, &key_size)
                and add_plain(self._batcher, key_data, key_size, value, None, &stamp)):
            return
        self._append_slowly(value, key, timestamp_ms, headers)

    def _append_slowly(self, value, key, timestamp_ms, headers):
        raise NotImplementedError("a subclass says how to append slowly")


cdef enum:                    # in place of a partition
    UNDECIDED = -1
    REFUSED = -2


@cython.final
cdef class TopicBatchers:
    """The batchers of one topic, and the rule by which its records are divided among them.

    With ``hashes`` Kafka's hash of the key chooses the partition. Other records stay with one partition until its
    batch is full (``sticks``), are sent to the partitions ``in_turn``, or take the slow path.
    """

    cdef readonly list batchers
    cdef readonly str topic_id
    cdef public object checked_with          # the list of topics by which the partitions were last counted
    cdef readonly bint hashes
    cdef readonly bint sticks
    cdef readonly bint in_turn
    cdef readonly bint needs_key
    cdef readonly int32_t partition          # of the next record whose key does not decide
    cdef Py_ssize_t _sticky_bytes
    cdef Py_ssize_t _stuck_bytes

    def __cinit__(self, list batchers not None, *, str topic_id, bint hashes, bint sticks, bint in_turn,
                  bint needs_key, int32_t partition, Py_ssize_t sticky_bytes):
        if not batchers or not 0 <= partition < len(batchers):
            raise ValueError(f"{len(batchers)} batchers, of which number {partition} is to be used")
        self.batchers = batchers
        self.topic_id = topic_id
        self.hashes = hashes
        self.sticks = sticks
        self.in_turn = in_turn
        self.needs_key = needs_key
        self.partition = partition
        self._sticky_bytes = sticky_bytes

    cdef int32_t decided(self, object partition, const uint8_t *key, int64_t key_size) except? UNDECIDED:
        """Return the partition that a caller or a key decides; else `UNDECIDED`, or `REFUSED` if it is none."""
        if partition is not None:
            if type(partition) is not int or not 0 <= partition < len(self.batchers):
                return REFUSED
            return partition
        if key_size >= 0 and self.hashes:
            return partition_of_key(key, key_size, <int32_t>len(self.batchers))
        return UNDECIDED

    cpdef int32_t take(self, Py_ssize_t size) except -1:
        """Return the partition of a record of ``size`` bytes whose key does not choose the partition."""
        cdef int32_t chosen
        if self.sticks and self._must_move():
            self._move()
        chosen = self.partition
        self._took(size)
        return chosen

    cdef bint _must_move(self):
        # As Kafka since 3.3 (KIP-794): change the partition when a batch is full. Change it with a batch open only
        # after twice the bytes.
        cdef FastBatcher batcher = <FastBatcher>PyList_GET_ITEM(self.batchers, self.partition)
        if batcher._open is not None and batcher._full_bytes and batcher._open.size >= batcher._full_bytes:
            return True
        if self._stuck_bytes < self._sticky_bytes:
            return False
        return batcher._open is None or self._stuck_bytes >= 2 * self._sticky_bytes

    cdef int _move(self) except -1:
        # The next partition, where Kafka chooses one at random: over many batches all get the same share.
        self.partition = (self.partition + 1) % <int32_t>len(self.batchers)
        self._stuck_bytes = 0
        return 0

    cdef int _took(self, Py_ssize_t size) except -1:
        if self.in_turn:
            return self._move()
        self._stuck_bytes += size
        return 0


cdef class FastSend:
    """The fast path of a producer; see the module docstring."""

    cdef dict _topics                        # name -> TopicBatchers
    cdef public object _topics_known         # returns another object after each change of a topic
    cdef public list _failures               # results whose error no future has raised: the slow path raises it

    def __cinit__(self, *args, **kwargs):
        self._topics = {}

    def _use(self, str topic not None, TopicBatchers batchers not None):
        """Send a topic's records through these batchers from now on."""
        self._topics[topic] = batchers

    def _forget(self):
        """Drop the batchers of every topic: the next record of each takes the slow path."""
        self._topics.clear()

    def _known(self, str topic not None):
        """Return the batchers of a topic, or None."""
        return self._topics.get(topic)

    def send(
            self, topic: str, value: Buffer | None, key: Buffer | None = None, *, partition: int | None = None,
            timestamp: int | datetime.datetime | None = None, headers: Headers | None = None) -> SendFuture:
        """Send one record: add it to a batch, and return the future of its delivery.

        ``value`` and ``key`` are buffers or None, ``headers`` pairs of (str, bytes or None). Without
        ``partition`` the producer's partitioner chooses one. Without ``timestamp`` (ms or an aware
        datetime) the record gets the time at which its batch was begun, at most ``linger.ms`` ago. The
        bytes are copied: a buffer may be reused on return.

        Blocks in two cases. The call that fills a batch writes it to the page cache. A call that needs a new
        batch waits while ``buffer.memory`` is full. The record is safe once its future is done: with
        ``ack="written"`` it then survives the end of the process, with ``ack="synced"`` a loss of power.

        Raises:
            RecordTypeError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: the record
                cannot be written. It was not sent.
            UnknownTopicError, UnknownPartitionError: there is no such partition. It was not sent.
            BufferExhaustedError: ``buffer.memory`` was full for ``max.block.ms``. It was not sent.
            StoreClosedError: the producer is closed. It was not sent.
            LogstoreError: an earlier record, whose future was dropped, could not be written. This one
                was not sent: send it again.
        """
        future = self.gather(topic, value, key, partition, timestamp, headers)
        if future is None:
            future = self._begin_next(topic, value, key, partition, timestamp, headers)
        if future is None:
            future = self._send_slowly(topic, value, key, partition, timestamp, headers)
        return future

    def _offer(
            self, topic: str, value: Buffer | None, key: Buffer | None = None, *, partition: int | None = None,
            timestamp: int | datetime.datetime | None = None, headers: Headers | None = None) -> SendFuture | None:
        """Send as `send` if that needs no lock and no system call, else do nothing and return None."""
        return self.gather(topic, value, key, partition, timestamp, headers)

    cdef object gather(self, object topic, object value, object key, object partition, object timestamp,
                       object headers):
        cdef PyObject *found
        cdef TopicBatchers batchers
        cdef FastBatcher batcher
        cdef const uint8_t *key_data
        cdef int64_t key_size, stamp
        cdef int32_t chosen
        cdef bint is_left = False
        if headers is not None or not (PyUnicode_CheckExact(topic) and PyBytes_CheckExact(value)):
            return None
        found = PyDict_GetItem(self._topics, topic)
        if found == NULL or not is_plain(key, &key_data, &key_size):
            return None
        batchers = <TopicBatchers>found
        if key is None and batchers.needs_key:
            return None
        chosen = batchers.decided(partition, key_data, key_size)
        if chosen >= 0:
            pass
        elif chosen == REFUSED:
            return None
        elif batchers.in_turn or (batchers.sticks and batchers._stuck_bytes < 2 * batchers._sticky_bytes):
            chosen = batchers.partition
            is_left = True
        else:
            return None
        batcher = <FastBatcher>PyList_GET_ITEM(batchers.batchers, chosen)
        if not add_plain(batcher, key_data, key_size, value, timestamp, &stamp):
            return None
        if is_left:
            batchers._took(PyBytes_GET_SIZE(value) + max(key_size, 0))
        return batcher._batch_result.claim_next(batcher._open, stamp)

    cdef object _begin_next(self, object topic, object value, object key, object partition, object timestamp,
                            object headers):
        """Add a record that needs the next batch of its partition, and write the full one before it.

        None, with nothing done, if the record or the topic needs more steps than that. After a close or a fork
        no topic is known.
        """
        cdef PyObject *found
        cdef TopicBatchers batchers
        cdef FastBatcher batcher
        cdef const uint8_t *key_data
        cdef int64_t key_size, stamp
        cdef int32_t chosen
        cdef bint is_other = False
        if headers is not None or self._failures or not (
                PyUnicode_CheckExact(topic) and PyBytes_CheckExact(value) and is_plain(key, &key_data, &key_size)):
            return None
        found = PyDict_GetItem(self._topics, topic)
        if found == NULL:
            return None
        batchers = <TopicBatchers>found
        # The topic may have been created again, or have more partitions.
        if batchers.checked_with is not self._topics_known():
            return None
        chosen = batchers.decided(partition, key_data, key_size)
        if chosen >= 0:
            pass
        elif chosen == REFUSED:
            return None
        elif batchers.in_turn or batchers.sticks:
            chosen = batchers.take(PyBytes_GET_SIZE(value) + max(key_size, 0))
            is_other = True
        else:
            return None
        batcher = <FastBatcher>PyList_GET_ITEM(batchers.batchers, chosen)
        if is_other and add_plain(batcher, key_data, key_size, value, timestamp, &stamp):
            # The open batch of another partition has room.
            return batcher._batch_result.claim_next(batcher._open, stamp)
        added = batcher.add_slowly(value, key, timestamp, None)
        if type(added) is int:
            # The buffer memory is full.
            return self._send_slowly(topic, value, key, chosen, timestamp, None)
        batcher.write_due()
        return added

    def _send_slowly(self, topic, value, key, partition, timestamp, headers):
        # A cdef class has no abstract methods.
        raise NotImplementedError("a subclass says how to send slowly")
