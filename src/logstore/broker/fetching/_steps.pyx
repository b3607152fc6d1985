# cython: language_level=3
"""Steps of fetch sessions from bytes: what a request changes, what there is now, and the wait for more.

A step is usual if its session goes on, in logs that are open and in the present leader epoch. A request is left as
it is before its session is changed. From then on it is this step of its session: if its answer is not usual, it
goes on in `fetches` behind that change. An answer has the bytes that `fetches` would send. Used by the loop's
thread.
"""

import weakref

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from logstore.broker._loop cimport Answer, Loop
from logstore.broker._wire cimport copied, length_in, put_end, put_length, taken
from logstore.broker.fetching._fields cimport (
    AskedFields, Head, TOPIC_IDS, UUID_BYTES, answer_of, ends, ends_with_rack, is_held_back, put_partition,
    put_topic, read_partition, set_size,
)
from logstore.broker.fetching._routes cimport FetchRoute, FetchRoutes
from logstore.broker.fetching._sessions cimport ClientFetchSession, FetchedPartition, FetchSessions, Plan
from logstore.io._files cimport Files
from logstore.io._notifier cimport Notifier
from logstore.log.marks._watermark cimport Registration, Watermark
from logstore.protocol._reading cimport Reader, integer
from logstore.protocol._writing cimport Writer

from logstore.broker.served import MOST_ITEMS, id_text
from logstore.errors import LogstoreError


@cython.final
cdef class SessionSteps:
    """The steps of sessions that are answered from their bytes, and those that wait.

    ``go_on(answer, version, correlation_id, wait_ms, min_bytes, max_bytes, isolation, plan, client_id,
    was_parked)`` gets each request whose session has what it has changed, and whose answer is not a usual one. An
    answer has more than one region only while ``files`` has at most ``most_open`` descriptors.
    ``allows(connection, client_id, topics, is_id)`` is asked once for each request, before it is answered or
    waits: a step is usual if its client may read all topics of the session.
    """

    def __init__(self, FetchSessions sessions not None, FetchRoutes routes not None, go_on: object,
                 Files files not None, int64_t most_open, allows: object = None):
        self._sessions, self._routes, self._go_on, self._allows = sessions, routes, go_on, allows
        self._files, self._most_open = files, most_open
        self._notified = weakref.WeakValueDictionary()

    cdef ClientFetchSession session_of(self, Reader r, const Head *head, int64_t number, int64_t epoch):
        """Return the session whose next step a request is; None if that is not usual. Nothing is changed."""
        cdef ClientFetchSession session = self._sessions.find(number, epoch, head.is_id)
        cdef const uint8_t *changes = r.p
        if session is None or not _read_changes(r, session, False):
            return None
        r.p = changes
        return session

    cdef int take(self, Answer answer, Reader r, const Head *head, ClientFetchSession session,
                  bytes client_id) except -1:
        """Take a request of `session_of`, which has read each field: none is refused now."""
        _read_changes(r, session, True)
        return self._begin(answer, head, self._sessions.go_on(session), client_id)

    cdef bint _is_allowed(self, Answer answer, const Head *head, Plan plan, bytes client_id) except -1:
        return self._allows is None or plan.session is None or self._allows(
            answer.connection, client_id, plan.session.topics(), head.is_id)

    cdef int _begin(self, Answer answer, const Head *head, Plan plan, bytes client_id) except -1:
        """Answer a request whose session has what it has changed, or park it."""
        cdef list told = [], moved = []
        cdef int64_t size = -1
        cdef bint waits
        if self._is_allowed(answer, head, plan, client_id):
            size = self._look(plan, head, told, moved)
        waits = 0 <= size < head.min_bytes and head.wait_ms > 0
        if size >= 0 and not waits:
            self._tell(answer, head, plan, told, moved)
            return 0
        _release(moved)
        if waits and plan.session._step is None:
            self._park(answer, head, plan)
        else:  # not usual, or a client that sends the next step while one waits
            self._hand_over(answer, head, plan, head.wait_ms, client_id, False)
        return 0

    cdef int64_t _look(self, Plan plan, const Head *head, list told, list moved) except -2:
        """Find what there is for a step, and return its bytes: -1 if the answer is not usual.

        ``told`` gets the partitions with news, which keep what the answer says; ``moved`` those that gave records.
        """
        cdef FetchedPartition each
        cdef FetchRoute route
        cdef AskedFields asked
        cdef int64_t left, size = 0
        if plan.session is None:
            return -1
        try:
            table = self._routes.now()
            for each in plan.wanted:
                route = each._route
                if each._table is not table or route is None or route._log.closed:
                    route = each._route = self._routes.find(each.topic, each.partition, head.is_id)
                    each._table = table
                    if route is None:
                        return -1
                left = max(min(head.most - size, <int64_t>each.partition_max_bytes), <int64_t>0)
                if size and self._files.open_descriptors > self._most_open:
                    left = 0  # the next fetch brings the rest
                asked.epoch, asked.last_epoch = each.current_leader_epoch, each.last_fetched_epoch
                asked.offset = each.fetch_offset
                each._region = route.look(&asked, left, size, head.committed, &each._moment)
                if not each._moment.is_usual:
                    each._region = None
                    return -1
                if each._region is not None:
                    size += each._region.size
                    moved.append(each)
                elif (each._moment.high_watermark == each._high_watermark
                        and each._moment.log_start == each._log_start):
                    continue
                each._has_list = head.committed and not is_held_back(each._region, left, asked.offset,
                                                                     &each._moment)
                told.append(each)
        except LogstoreError:
            return -1
        except BaseException:
            _release(plan.wanted)  # the session may outlive the connection, and each region keeps its file open
            raise
        return size

    cdef int _tell(self, Answer answer, const Head *head, Plan plan, list told, list moved) except -1:
        """Answer with what was found, and note what the client is told."""
        cdef FetchedPartition each
        self.answered += 1
        try:
            answer.give(_pieces_in_session(head, plan.session.number, told))
            for each in plan.wanted:
                each._route._counts.fetches += 1
            for each in told:
                if each._region is not None:
                    each._route._counts.bytes_out += each._region.size
                each._note(each._moment.high_watermark, each._moment.log_start)
        finally:
            _release(moved)
        plan.session.move_back(moved)
        return 0

    cdef int _hand_over(self, Answer answer, const Head *head, Plan plan, int64_t wait_ms,
                        bytes client_id, bint was_parked) except -1:
        self._go_on(answer, head.version, head.correlation_id, wait_ms, head.min_bytes, head.most,
                    <int>head.committed, plan, client_id, was_parked)
        return 0

    cdef int _park(self, Answer answer, const Head *head, Plan plan) except -1:
        """Keep a step until its marks have moved, its time is over, or its connection has closed."""
        cdef ParkedStep step = ParkedStep.__new__(ParkedStep)
        cdef ClientFetchSession session = plan.session
        cdef Loop loop = answer.connection._loop
        if session._notifier is None:
            session._notifier = Notifier(group=loop.group)
            self._notified[session._notifier] = session
        self.parked += 1
        answer.release_frame()
        session._step = step
        step._steps, step._answer, step._head, step._plan = self, answer, head[0], plan
        step._until_s = loop._clock.monotonic_s() + head.wait_ms / 1000.0
        step._timer = loop.call_later(head.wait_ms / 1000.0, step.end, answer.connection)
        if answer.connection.state is None:
            answer.connection.state = set()
        answer.connection.state.add(session._notifier)
        self._arm(plan, head.committed)
        return 0

    cdef int _arm(self, Plan plan, bint committed) except -1:
        """Register with the marks that lack it, and look once more if one has moved since the look."""
        cdef FetchedPartition each
        cdef Watermark mark
        cdef int64_t seen
        cdef Notifier notifier = plan.session._notifier
        for each in plan.wanted:
            mark = each._route._log.last_stable if committed else each._route._log.high_watermark
            if each._registration is None or each._registration.mark is not mark:
                each._registration = Registration(mark, notifier)
            # What was found was too little: only a mark beyond the one of the look brings more.
            seen = each._moment.last_stable if committed else each._moment.high_watermark
            if not each._registration.arm_for(max(seen, each.fetch_offset) + 1):
                notifier.notify()
                return 0
        return 0

    cdef int _unpark(self, ParkedStep step) except -1:
        cdef ClientFetchSession session = step._plan.session
        session._step = None
        step._answer.connection.state.discard(session._notifier)
        step._answer.connection._loop.cancel(step._timer)
        return 0

    cdef int _look_again(self, ParkedStep step, bint is_over) except -1:
        """Answer a parked step if there is enough, or if its time is over."""
        cdef list told = [], moved = []
        cdef int64_t size = self._look(step._plan, &step._head, told, moved), left_ms = 0
        cdef double now_s = step._answer.connection._loop._clock.monotonic_s()
        if 0 <= size < step._head.min_bytes and not is_over:
            _release(moved)
            self._arm(step._plan, step._head.committed)
            return 0
        self._unpark(step)
        if size < 0:
            _release(moved)
            if not is_over:
                left_ms = 1 + <int64_t>(1000 * max(step._until_s - now_s, 0.0))
            self._hand_over(step._answer, &step._head, step._plan, left_ms, None, True)
        else:
            self._tell(step._answer, &step._head, step._plan, told, moved)
        return 0

    def notified(self, notifier: Notifier) -> bool:
        """Look at the step that waits for a notifier; False if it is not that of a session."""
        cdef ClientFetchSession session = self._notified.get(notifier)
        if session is None:
            return False
        if session._step is not None:
            self._look_again(session._step, False)
        else:
            session.disarm()  # each append to its partitions would wake the loop for nothing
        return True

    def closed(self, notifier: Notifier) -> bool:
        """Forget the step that waits for a notifier: its connection has closed; False as `notified`."""
        cdef ClientFetchSession session = self._notified.get(notifier)
        if session is None:
            return False
        if session._step is not None:
            self._unpark(session._step)
            session.disarm()
        return True


@cython.final
cdef class ParkedStep:
    """A step of a session that waits for more bytes."""

    def end(self) -> None:
        """Answer with what there is: the time of the step is over."""
        self._steps._look_again(self, True)


cdef int _release(list partitions) except -1:
    """Drop the regions of a look: each keeps its file open."""
    cdef FetchedPartition each
    for each in partitions:
        each._region = None
    return 0


cdef bint _read_changes(Reader r, ClientFetchSession session, bint applies) except -1:
    """Read what a request changes in a session, to its end, and change it if that is asked; False if not usual."""
    cdef bint is_id = r.version >= TOPIC_IDS, is_forgotten
    cdef int64_t topics, partitions, topic_size, items = 0
    cdef AskedFields asked
    cdef FetchedPartition each
    cdef bytes topic
    cdef str name, topic_id
    cdef dict added = {}
    cdef list dropped = []
    asked.epoch = asked.last_epoch = -1
    asked.offset = asked.max_bytes = 0
    for is_forgotten in range(2):
        topics = length_in(r, "topics", 4)
        if topics < 0:
            return False
        while topics > 0:
            topics -= 1
            topic_size = UUID_BYTES if is_id else length_in(r, "topic", 2)
            if not 0 < topic_size <= r.end - r.p:
                return False
            topic = copied(taken(r, topic_size), topic_size)
            if not is_id and not topic.isascii():
                return False
            partitions = length_in(r, "partitions", 4)
            items += 1 + partitions
            if partitions < 0 or items > MOST_ITEMS:
                return False
            name = None
            while partitions > 0:
                partitions -= 1
                if is_forgotten:
                    asked.partition = <int32_t>integer(r, "partition", 4)
                elif not read_partition(r, &asked):
                    return False
                if not applies:
                    continue
                each = session.find(topic, asked.partition)
                if is_forgotten:
                    if each is not None:
                        dropped.append(each)
                    continue
                if each is None:
                    each = added.get((topic, asked.partition))
                if each is None:
                    if name is None:
                        name = "" if is_id else topic.decode()
                        topic_id = id_text(topic) if is_id and any(topic) else ""
                    each = FetchedPartition(topic, name, topic_id, asked.partition)
                    added[topic, asked.partition] = each
                each._ask(asked.epoch, asked.offset, asked.last_epoch, asked.max_bytes)
            if not ends(r):
                return False
        if not is_forgotten and added:
            session.add(list(added.values()))
    session.drop(dropped)
    return ends_with_rack(r)


cdef list _pieces_in_session(const Head *head, int64_t number, list told):
    """Return the pieces of an answer that names partitions of a session, in their order."""
    cdef Writer w = answer_of(head, number)
    cdef FetchedPartition each, other
    cdef list pieces = []
    cdef Py_ssize_t n, end = 0, count = len(told)
    cdef int64_t topics = 0
    cdef bytes topic = None
    # A topic may come more than once: its partitions keep the order of their turns.
    for each in told:
        if each.topic != topic:
            topic = each.topic
            topics += 1
    put_length(w, topics, 4)
    for n in range(count):
        each = told[n]
        if n == end:
            while end < count:
                other = told[end]
                if other.topic != each.topic:
                    break
                end += 1
            put_topic(w, each.topic, end - n, head.is_id)
        put_partition(w, each.partition, &each._moment, each._has_list, each._region)
        if each._region is not None:
            pieces += [w.taken(), each._region]
            w = Writer(head.version, head.flexible)
        put_end(w)
        if n + 1 == end:
            put_end(w)  # of the topic
    put_end(w)
    pieces.append(w.taken())
    set_size(pieces)
    return pieces
