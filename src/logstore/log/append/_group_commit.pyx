# cython: language_level=3
"""Group commit: threads that want bytes on disk share one sync.

The first thread becomes the leader and syncs for all threads whose bytes were written before it began. The others
wait and are woken when their bytes are on disk. Later writers are served by the next round, whose leader is the
thread that has waited longest. So no thread waits for more than two syncs. The module starts no thread.

Threads that append in a loop come back right after a round has woken them. A leader that synced at once would
leave half of them for the next round. So it waits until as many threads wait as at the end of the last round, but
at most five eighths of the last sync's time.

A served thread needs the GIL before anything else. Woken all at once, the threads would queue for it and fall
asleep a second time. So a round wakes the first one, and each thread that has come back wakes the next: that one
wakes up while this one works, and finds the GIL free when this one waits again.

A waiting thread sleeps on a semaphore on its stack, without the GIL and without a Python object. Leader and queues
change under the GIL only, and between two changes no bytecode runs. So an interrupt (Ctrl-C), which Python raises
in its main thread, cannot come between them: `run` ends with `_leave`, which any step may precede.
"""

cimport cython
from libc.errno cimport EINTR
from libc.stdint cimport int64_t

from logstore.io._files cimport fork_generation
from logstore.io._interrupts cimport in_main_thread

from logstore.errors import LogstoreError

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <sched.h>
    #include <semaphore.h>
    #include <stdint.h>
    #include <time.h>

    static int64_t logstore_monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    /* Waits for a post, at most so long; negative: without end. Returns 0, or an errno: EINTR after a signal. */
    static int logstore_wait(sem_t *turn, int64_t most_ns) {
        struct timespec until;
        if (most_ns < 0) return sem_wait(turn) == 0 ? 0 : errno;
        clock_gettime(CLOCK_MONOTONIC, &until);
        most_ns += until.tv_nsec;
        until.tv_sec += most_ns / 1000000000;
        until.tv_nsec = most_ns % 1000000000;
        return sem_clockwait(turn, CLOCK_MONOTONIC, &until) == 0 ? 0 : errno;
    }
    #define logstore_load(place) __atomic_load_n(place, __ATOMIC_RELAXED)
    #define logstore_store(place, value) __atomic_store_n(place, value, __ATOMIC_RELAXED)
    """
    int64_t logstore_monotonic_ns() nogil
    int logstore_wait(sem_t *turn, int64_t most_ns) nogil
    Py_ssize_t logstore_load(Py_ssize_t *place) nogil
    void logstore_store(Py_ssize_t *place, Py_ssize_t value) nogil

cdef extern from "<semaphore.h>" nogil:
    int sem_init(sem_t *turn, int shared, unsigned int value)
    int sem_post(sem_t *turn)
    int sem_destroy(sem_t *turn)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    LOOK_NS = 100_000_000           # longest wait of a signal that came right before a wait began
    SPIN_NS = 200_000               # a sleep as short as this takes longer than asked

cdef int64_t MOST_NS = 3_600_000_000_000


cdef void put(WaiterQueue *queue, Waiter *waiter) noexcept:
    waiter.before, waiter.after = queue.last, NULL
    if queue.last == NULL:
        queue.first = waiter
    else:
        queue.last.after = waiter
    queue.last = waiter


cdef void remove(WaiterQueue *queue, Waiter *waiter) noexcept:
    if waiter.before == NULL:
        queue.first = waiter.after
    else:
        waiter.before.after = waiter.after
    if waiter.after == NULL:
        queue.last = waiter.before
    else:
        waiter.after.before = waiter.before


cdef class Rounds:
    """What a group commit asks of a log: an interface, whose two methods an implementation overrides."""

    cpdef bint is_done(self, int64_t offset) except -1:
        """Return whether everything below an offset is on disk; raise if it never will be."""
        raise NotImplementedError

    cpdef sync(self, GroupCommit commit):
        """Make durable what is written now; one thread at a time calls this.

        It may call `GroupCommit.wake_served` as soon as `is_done` holds for more offsets.
        """
        raise NotImplementedError


@cython.final
cdef class GroupCommit:
    """Runs rounds so that at most one runs at a time and no thread syncs bytes that another has synced.

    Owns: nothing. Each thread in `run` owns its `Waiter`, which is queued or the leader only while `run` runs.
    """

    def __init__(self, Rounds rounds not None, *, double patience=0.625):
        self._rounds = rounds
        self._patience = patience
        self._fork = fork_generation()

    @property
    def waiting(self):
        """Count of the threads that wait for the leader."""
        return self._waiting

    @property
    def is_led(self):
        """Whether a thread leads, so that the next one waits."""
        return self._leader != NULL

    cpdef int run(self, int64_t offset) except -1:
        """Return once everything below ``offset`` is on disk; sync as the leader if no thread leads.

        An error of a round is raised in its leader, unless an earlier round had served that one. A waiter becomes
        the next leader and gets the error from `Rounds.is_done` or its own round.
        """
        cdef Waiter own
        if self._rounds.is_done(offset):
            return 0
        sem_init(&own.turn, 0, 0)
        own.offset = offset
        own.rounds = 2
        own.state = RUNS
        own.before = own.after = NULL
        try:
            while not self._rounds.is_done(offset):
                self._take_part(&own)
        finally:
            self._leave(&own)
            # No other thread knows it any more: it is posted to only as it leaves a queue.
            sem_destroy(&own.turn)
        return 0

    cdef int _take_part(self, Waiter *own) except -1:
        """Lead a round, or wait until a leader has served this thread or made it the next leader."""
        if self._leader == NULL:
            self._leader = own
        if self._leader == own:
            return self._lead(own)
        # The sync that is under way is the first that it waits for.
        own.rounds = 1
        self._enqueue(own)
        return self._wait(own)

    cdef int _lead(self, Waiter *own) except -1:
        """Run a round; a second one for the threads that came meanwhile, since waking one leaves the disk idle."""
        cdef int64_t began
        while True:
            self._gather(own)
            self._is_counted = False
            began = logstore_monotonic_ns()
            try:
                self._rounds.sync(self)
            except LogstoreError:
                # A round for others, or the log was closed meanwhile, and has synced everything before.
                if self._has_ended(own.offset):
                    return 0
                raise
            self._sync_ns = logstore_monotonic_ns() - began
            self.wake_served()
            own.rounds -= 1
            if own.rounds <= 0 or not self._waiting or not self._rounds.is_done(own.offset):
                return 0

    cdef void _gather(self, Waiter *own) noexcept:
        """Wait, as the leader, for the threads that the last round has woken."""
        cdef int64_t patience = <int64_t>min(self._patience * self._sync_ns, <double>MOST_NS)
        cdef int64_t until
        cdef Py_ssize_t wanted = self._gathered
        if patience <= 0 or self._waiting >= wanted:
            return
        until = logstore_monotonic_ns() + patience
        if patience < SPIN_NS:
            with nogil:
                while logstore_load(&self._waiting) < wanted and logstore_monotonic_ns() < until:
                    sched_yield()
            return
        self._expected = wanted
        with nogil:
            while logstore_load(&self._waiting) < wanted and patience > 0:
                if logstore_wait(&own.turn, patience) != 0:
                    break
                patience = until - logstore_monotonic_ns()
        self._expected = 0

    cdef int _wait(self, Waiter *own) except -1:
        """Wait until a leader has served this thread, or made it the leader."""
        cdef bint is_main = in_main_thread()
        cdef int64_t most_ns = LOOK_NS if is_main else -1
        cdef int status
        # A handler may fork: the child has no leader that would wake it, and `Rounds.is_done` says so.
        while own.state in (WAITS, SERVED) and self._fork == fork_generation():
            with nogil:
                status = logstore_wait(&own.turn, most_ns)
            if own.state in (WAITS, SERVED) and (is_main or status == EINTR):
                PyErr_CheckSignals()
        self._come_back(own)
        return 0

    cpdef int wake_served(self) except -1:
        """Wake the waiters whose bytes are on disk, or who will get an error."""
        cdef Waiter *waiter
        cdef bint is_served
        if not self._is_counted:
            self._gathered = self._waiting
            self._is_counted = True
        self._next = self._waiters.first
        while self._next != NULL:
            waiter = self._next
            # Other threads may run meanwhile, and an interrupted one may leave: `_dequeue` then moves `_next`.
            is_served = self._is_served(waiter.offset)
            if self._next != waiter:
                continue
            self._next = waiter.after
            if is_served:
                self._dequeue(waiter)
                waiter.state = SERVED
                put(&self._served, waiter)
                if not self._is_waking:
                    self._wake_next()
        return 0

    cdef void _wake_next(self) noexcept:
        """Wake the served thread that has waited longest; it wakes the next when it has come back."""
        cdef Waiter *waiter = self._served.first
        self._is_waking = waiter != NULL
        if self._is_waking:
            remove(&self._served, waiter)
            waiter.state = WOKEN
            sem_post(&waiter.turn)

    cdef void _come_back(self, Waiter *own) noexcept:
        if own.state == WOKEN:
            own.state = RUNS
            self._wake_next()

    cdef bint _is_served(self, int64_t offset) except -1:
        try:
            return self._rounds.is_done(offset)
        except LogstoreError:
            # Its error, not the leader's: woken, it raises that itself.
            return True

    cdef bint _has_ended(self, int64_t offset) except -1:
        try:
            return self._rounds.is_done(offset)
        except LogstoreError:
            return False

    cdef void _enqueue(self, Waiter *waiter) noexcept:
        put(&self._waiters, waiter)
        waiter.state = WAITS
        logstore_store(&self._waiting, self._waiting + 1)
        if 0 < self._expected <= self._waiting:
            sem_post(&self._leader.turn)

    cdef void _dequeue(self, Waiter *waiter) noexcept:
        if self._next == waiter:
            self._next = waiter.after
        remove(&self._waiters, waiter)
        waiter.state = RUNS
        logstore_store(&self._waiting, self._waiting - 1)

    cdef void _leave(self, Waiter *own) noexcept:
        """Stop waiting and leading; the thread that has waited longest leads next."""
        if own.state == WAITS:
            self._dequeue(own)
        elif own.state == SERVED:
            remove(&self._served, own)
        else:
            self._come_back(own)
        if self._leader != own:
            return
        self._leader = self._waiters.first
        if self._leader != NULL:
            self._dequeue(self._leader)
            sem_post(&self._leader.turn)
