"""Fetch: regions of files for each partition, at once or when marks have moved.

A region goes from the page cache to the socket by sendfile: the answer is written here byte by byte around it
(Kafka protocol guide, "Fetch Response"). A fetch that finds less than its ``min_bytes`` is parked: one notifier is
registered with the mark of each partition, and a timer ends it. Sessions are not given: every answer has session 0,
so a client asks for all of its partitions each time. Used by the loop's thread.
"""

from __future__ import annotations

import base64
import struct
from typing import NamedTuple

from logstore.broker._loop import Answer, ClientConnection
from logstore.broker.offsets import epoch_error
from logstore.broker.served import Served
from logstore.errors import LogstoreError
from logstore.io._file_region import FileRegion
from logstore.io._notifier import Notifier
from logstore.log import Log
from logstore.log.marks._watermark import Registration
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import AbortedTransaction, Isolation

FETCH_SESSION_ID_NOT_FOUND = 70
UNKNOWN_TOPIC_ID = 100
NOT_LEADER_OR_FOLLOWER = 6

#: Kafka's default of ``fetch.max.bytes`` of a broker.
MAX_BYTES = 55 << 20
#: The longest wait of a fetch: a timer that a client sets.
_MAX_WAIT_MS = 2**31 - 1

_FLEXIBLE = 12
_TOPIC_IDS = 13


class _Found(NamedTuple):
    """The answer for one partition."""

    partition: int
    code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    region: FileRegion | None = None


_Topics = list[tuple[FetchRequest.FetchTopic, list[_Found]]]


class _Parked:
    """A fetch that waits for records. The registrations of its notifier end with it."""

    __slots__ = ("answer", "registrations", "request", "timer")

    def __init__(self, request: Request, answer: Answer, timer: list[object]) -> None:
        self.request = request
        self.answer = answer
        self.timer = timer
        self.registrations: list[Registration] = []


class Fetches:
    """The fetches of all connections, with those that wait."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._parked: dict[Notifier, _Parked] = {}

    def fetch(self, request: Request, answer: Answer) -> None:
        """Answer a fetch, or park it; a partition whose log is not open is opened by the pool first."""
        asked = request.message
        assert isinstance(asked, FetchRequest)
        if asked.session_id:
            # A session of a broker before this one.
            answer.complete([_encoded(request, [], FETCH_SESSION_ID_NOT_FOUND)])
            return
        closed = self._closed_logs(asked)
        if not closed:
            self._begin(request, answer)
            return

        def open_logs() -> None:
            for name, partition in closed:
                try:
                    self._served.led(name, partition)
                except LogstoreError:
                    continue  # the answer says why

        self._served.run(answer.connection, open_logs, lambda _: self._begin(request, answer))

    def notified(self, notifier: Notifier) -> None:
        """Look at a parked fetch: a mark that it waits for has moved."""
        parked = self._parked.get(notifier)
        if parked is not None:
            self._look(notifier, parked)

    def closed(self, connection: ClientConnection) -> None:
        """Forget the fetches of a connection."""
        for notifier, parked in list(self._parked.items()):
            if parked.answer.connection is connection:
                self._unpark(notifier, parked)

    def _closed_logs(self, asked: FetchRequest) -> list[tuple[str, int]]:
        closed = []
        for topic in asked.topics:
            name = topic.topic or self._served.name_of(topic.topic_id)
            for each in topic.partitions:
                try:
                    if name is not None and self._served.find_open(name, each.partition) is None:
                        closed.append((name, each.partition))
                except LogstoreError:
                    continue
        return closed

    def _begin(self, request: Request, answer: Answer) -> None:
        asked = request.message
        assert isinstance(asked, FetchRequest)
        if answer.is_done:
            return
        found, size, must_answer = self._find(asked)
        if must_answer or size >= asked.min_bytes or asked.max_wait_ms <= 0 or not asked.topics:
            answer.complete([*_pieces(request, found)])
            return
        notifier = Notifier(group=self._served.loop.group)
        wait_s = min(asked.max_wait_ms, _MAX_WAIT_MS) / 1000
        timer = self._served.loop.call_later(wait_s, lambda: self._time_out(notifier))
        parked = self._parked[notifier] = _Parked(request, answer, timer)
        self._arm(notifier, parked)

    def _arm(self, notifier: Notifier, parked: _Parked) -> None:
        """Register with every mark, and look once more if one has moved meanwhile."""
        asked = parked.request.message
        assert isinstance(asked, FetchRequest)
        isolation = _isolation(asked)
        parked.registrations = []
        for topic in asked.topics:
            name = topic.topic or self._served.name_of(topic.topic_id)
            for each in topic.partitions:
                log = self._log(name, each.partition)
                if log is None:
                    continue
                mark = log._end_mark(isolation)
                registration = Registration(mark, notifier)
                parked.registrations.append(registration)
                # What was found was too little: only a mark beyond what is there now brings more.
                if not registration.arm_for(max(mark.value, each.fetch_offset) + 1):
                    notifier.notify()
                    return

    def _look(self, notifier: Notifier, parked: _Parked, *, is_over: bool = False) -> None:
        asked = parked.request.message
        assert isinstance(asked, FetchRequest)
        found, size, must_answer = self._find(asked)
        if is_over or must_answer or size >= asked.min_bytes:
            self._unpark(notifier, parked)
            parked.answer.complete([*_pieces(parked.request, found)])
        else:
            self._arm(notifier, parked)

    def _time_out(self, notifier: Notifier) -> None:
        parked = self._parked.get(notifier)
        if parked is not None:
            self._look(notifier, parked, is_over=True)

    def _unpark(self, notifier: Notifier, parked: _Parked) -> None:
        del self._parked[notifier]
        self._served.loop.cancel(parked.timer)
        for registration in parked.registrations:
            registration.disarm()

    def _log(self, name: str | None, partition: int) -> Log | None:
        try:
            return None if name is None else self._served.find_open(name, partition)
        except LogstoreError:
            return None

    def _find(self, asked: FetchRequest) -> tuple[_Topics, int, bool]:
        """Return what there is now, its size in bytes, and whether an error asks for an answer at once."""
        left = min(asked.max_bytes if asked.max_bytes > 0 else MAX_BYTES, MAX_BYTES)
        isolation = _isolation(asked)
        size, has_error, found = 0, False, []
        for topic in asked.topics:
            name = topic.topic or self._served.name_of(topic.topic_id)
            answers = []
            for each in topic.partitions:
                one = self._of_partition(
                    name, each, min(left - size, each.partition_max_bytes), size == 0, isolation
                )
                has_error = has_error or one.code != 0
                size += 0 if one.region is None else one.region.size
                answers.append(one)
            found.append((topic, answers))
        return found, size, has_error

    def _of_partition(
        self,
        name: str | None,
        asked: FetchRequest.FetchPartition,
        max_bytes: int,
        at_least_one: bool,
        isolation: Isolation,
    ) -> _Found:
        if name is None:
            return _Found(asked.partition, UNKNOWN_TOPIC_ID)
        try:
            log = self._served.find_open(name, asked.partition)
            if log is None:
                return _Found(asked.partition, NOT_LEADER_OR_FOLLOWER)
            code = epoch_error(log, asked.current_leader_epoch)
            if code:
                return _Found(asked.partition, code)
            found = log.replica.fetch_region(
                asked.fetch_offset, max_bytes=max(max_bytes, 0), at_least_one=at_least_one, isolation=isolation
            )
        except LogstoreError as error:
            return _Found(asked.partition, error.code)
        aborted = found.aborted if isolation is Isolation.READ_COMMITTED else None
        return _Found(
            asked.partition,
            0,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            aborted,
            found.region,
        )


def _isolation(asked: FetchRequest) -> Isolation:
    return Isolation.READ_COMMITTED if asked.isolation_level == 1 else Isolation.READ_UNCOMMITTED


# -- the answer's bytes


def _encoded(request: Request, found: _Topics, code: int) -> bytes:
    return b"".join(piece for piece in _pieces(request, found, code) if isinstance(piece, bytes))


def _pieces(request: Request, found: _Topics, code: int = 0) -> list[bytes | FileRegion]:
    """Return the frame of an answer: bytes, and between them the regions of its partitions."""
    version = request.version
    flexible = version >= _FLEXIBLE
    pieces: list[bytes | FileRegion] = []
    out = bytearray(struct.pack(">i", request.correlation_id) + (b"\0" if flexible else b""))
    out += struct.pack(">i", 0)  # throttle time
    if version >= 7:
        out += struct.pack(">hi", code, 0)  # session 0: none
    out += _count(len(found), flexible)
    for topic, partitions in found:
        out += _topic(topic, version)
        out += _count(len(partitions), flexible)
        for each in partitions:
            _put_partition(out, each, version)
            if each.region is not None:
                pieces += [bytes(out), each.region]
                out = bytearray()
            if flexible:
                out += b"\0"
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    pieces.append(bytes(out))
    size = sum(piece.size if isinstance(piece, FileRegion) else len(piece) for piece in pieces)
    first = pieces[0]
    assert isinstance(first, bytes)
    pieces[0] = struct.pack(">i", size) + first
    return pieces


def _topic(topic: FetchRequest.FetchTopic, version: int) -> bytes:
    if version >= _TOPIC_IDS:
        return base64.urlsafe_b64decode(topic.topic_id + "==") if topic.topic_id else bytes(16)
    name = topic.topic.encode()
    return (_count(len(name), True) if version >= _FLEXIBLE else struct.pack(">h", len(name))) + name


def _put_partition(out: bytearray, found: _Found, version: int) -> None:
    flexible = version >= _FLEXIBLE
    out += struct.pack(">ihqq", found.partition, found.code, found.high_watermark, found.last_stable_offset)
    if version >= 5:
        out += struct.pack(">q", found.log_start_offset)
    if found.aborted is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        out += _count(len(found.aborted), flexible)
        for each in found.aborted:
            out += struct.pack(">qq", each.producer_id, each.first_offset)
            if flexible:
                out += b"\0"
    if version >= 11:
        out += struct.pack(">i", -1)  # no preferred replica
    # "No records" is zero bytes: some clients cannot read null.
    out += _count(0 if found.region is None else found.region.size, flexible)


def _count(number: int, flexible: bool) -> bytes:
    """Return a length or count: four bytes, or an unsigned varint of one more."""
    if not flexible:
        return struct.pack(">i", number)
    number += 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
