# cython: language_level=3
"""The loop, as other compiled modules of the broker see it; `_loop.pyx` describes it."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t

from logstore.io._file_region cimport FileRegion
from logstore.io._notifier cimport Notifier, NotifierGroup

cdef enum:
    KEYS = 128                    # API keys that are counted


cdef class Answer:
    cdef readonly ClientConnection connection
    cdef list _pieces             # None: the request is in progress
    cdef bint _holds              # the connection takes no request until it is sent
    cdef int _key                 # the API key; -1: not one that is counted
    cdef int64_t _began_ns        # the turn in which the request came
    cdef Loop _loop
    cdef int64_t _frame_bytes     # that count as queued
    cdef int give(self, list pieces) except -1
    cpdef int release_frame(self) noexcept


cdef class QuickRequests:
    cdef bint gathers(self, int api_key) except -1
    cdef bint take(self, Answer answer, bytes frame) except -1
    cdef int end_turn(self) except -1


cdef class ClientConnection:
    cdef Loop _loop
    cdef readonly object socket
    cdef readonly object peer
    cdef readonly object local    # the address that the client has connected to
    cdef readonly object listener       # the name that `listen` was given
    cdef readonly bint is_closed
    cdef public object state      # of its handler
    cdef public object principal  # of its login; None: there was none
    cdef int _fd
    cdef uint32_t _number         # of its events; others of the loop have 0
    # What has come of requests that are not handed over.
    cdef int64_t _held_bytes
    cdef bytes _waiting           # whole frames, and perhaps a part of one, while the connection takes no request
    cdef uint8_t _head[4]         # the first bytes of a frame's size
    cdef int _head_bytes
    cdef PyObject *_frame         # a bytes object of a frame that has come in part; NULL: there is none
    cdef int64_t _frame_size      # the whole frame's
    cdef int64_t _frame_capacity      # of the object
    cdef int64_t _filled          # bytes of the frame that have come
    # Answers.
    cdef object _answers          # in the order of the requests
    cdef Py_ssize_t _piece        # of the first answer, which is being sent
    cdef int64_t _sent            # bytes of that piece
    cdef int64_t _sent_in         # the last turn that has sent something
    cdef int64_t _left            # bytes that may still be sent in it
    cdef bint _is_owed            # the loop looks at it at the end of the turn
    cdef bint _is_full            # the socket takes no more for now
    cdef bint _is_cold            # another thread reads what is to be sent next
    cdef int64_t _warm_end        # of the piece that is being sent: what is before it was in memory
    cdef int64_t _warm_ns         # in this turn
    cdef bint _ends               # the client sends no more; it may still read, and be read
    cdef bint _has_ended          # and all that it has sent is read
    cdef int64_t _used_ns         # the turn in which it was last put at the end of `_by_use`
    cdef uint32_t _events
    cdef int _holds
    cdef bint _takes_requests(self) except -1
    cdef int _begin_frame(self, int64_t size, const uint8_t *data, int64_t there) except -1
    cdef int _grow_frame(self) except -1
    cdef bytes _whole_frame(self)
    cdef int _drop_requests(self) except -1
    cdef int _advance(self, int64_t count) except -1


cdef class Loop:
    cdef int _epoll
    cdef readonly NotifierGroup group
    cdef Notifier _posted
    cdef object _calls, _handler, _clock, _in_other
    cdef tuple _quick
    cdef dict _listeners, _connections
    cdef list _timers, _owed
    cdef int64_t _timer_count                     # made so far
    cdef int64_t _cancelled                       # of `_timers`
    cdef readonly int64_t max_frame_bytes, max_received_bytes, max_connections, max_connections_per_ip
    cdef readonly double max_idle_s               # of a connection; negative: no end
    cdef dict _per_ip                             # address -> connections
    cdef object _by_use                           # connections, the one that sent or read last is the last
    cdef list _idle_timer
    cdef ClientConnection _resumed                # of the timer that was cancelled last
    cdef readonly int64_t received_bytes          # held of requests that are not whole
    cdef readonly int64_t queued_bytes            # of requests that are in progress
    cdef readonly int64_t turns
    cdef dict _stopped                            # connections that are not read since too much is queued
    cdef readonly int64_t bytes_sendfile, bytes_copied, bytes_in, requests, refused_connections, cold_reads
    cdef readonly int64_t accepted_connections, failed_requests     # failed: errors of this loop
    cdef readonly int64_t idle_ns                 # without anything to do
    cdef int64_t _turn_ns                         # when the turn began
    cdef int64_t _requests_of[KEYS]
    cdef int64_t _answered_ns[KEYS]
    cdef bint _stops
    cdef uint8_t *_buffer
    cdef int _end(self) except -1
    cdef int _watch(self, int operation, int fd, uint32_t events, uint32_t number=*) except -1
    cdef int _run_timers(self) except -2
    cdef int _take_notes(self) except -1
    cdef int _notify(self, object notifier) except -1
    cdef int _fail(self, ClientConnection connection) except -1
    cdef bint _gathers(self, int api_key) except -1
    cdef bint _is_taken(self, Answer answer, bytes frame) except -1
    cdef int _end_turn(self) except -1
    cdef int _settle(self) except -1
    cdef bint _is_choked(self) noexcept
    cdef int _go_on_reading(self) except -1
    cdef int _owe(self, ClientConnection connection) except -1
    cdef int _accept(self, object listener, object name) except -1
    cdef int _use(self, ClientConnection connection) except -1
    cdef bint _has_space(self, object address) except -1
    cdef int _serve(self, ClientConnection connection, uint32_t events) except -1
    cdef int _close(self, ClientConnection connection) except -1
    cdef int _receive(self, ClientConnection connection) except -1
    cdef int _close_greatest(self) except -1
    cdef int64_t _check_size(self, ClientConnection connection, const uint8_t *data) except -2
    cdef int _take(self, ClientConnection connection, const uint8_t *data, int64_t size) except -1
    cdef int _hand_over(self, ClientConnection connection, bytes frame) except -1
    cdef void _count_request(self, Answer answer, bytes frame) noexcept
    cdef void _count_answer(self, Answer answer) noexcept
    cdef int _take_waiting(self, ClientConnection connection) except -1
    cdef int _set_events(self, ClientConnection connection) except -1
    cdef int _send(self, ClientConnection connection) except -1
    cdef bint _is_at_hand(self, ClientConnection connection, FileRegion region, int64_t start) except -1
    cdef bint _send_next(self, ClientConnection connection) except -1
