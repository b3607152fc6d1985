"""Reader of a log that another process may write: nothing is locked, recovered or written.

The reader takes its marks from ``logstore.published``, which the writer keeps up to date. If that file is missing,
as in a directory that Kafka wrote, the log ends with its last whole valid batch. Inotify tells of the writer's
writes to any file of the directory, so no append has to make one for its readers. Any thread may use a reader.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any, NoReturn

from logstore._segment import Segment
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig
from logstore.errors import (
    CorruptRecordError,
    DamagedLogError,
    ForkedError,
    LogChangedError,
    LogClosedError,
    NotALogError,
    ReadOnlyError,
    RecordError,
    StorageError,
    UnknownTopicError,
)
from logstore.io._files import LIBC, fork_generation
from logstore.io._interrupts import held
from logstore.io._watch import Watch
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments, is_gone
from logstore.log.formats import checkpoints, transaction_index
from logstore.log.formats.checkpoints import LogKind, Published
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.formats.recovery_point import PublishedReader
from logstore.log.formats.transaction_index import Note
from logstore.log.marks._watermark import Watermark
from logstore.log.marks.view import View
from logstore.log.read.maintenance import ReaderMaintenance
from logstore.log.read.reader import REST_S, Answer, Readable
from logstore.log.read.replica import ReaderReplica
from logstore.log.recovery import recovery
from logstore.log.root import Root
from logstore.records import AbortedTransaction, Isolation, TopicPartition

POLL_S = 0.010
SOON_MS = (1, 2, 4)  #: pauses between looks for marks that follow a write; together less than `POLL_S`
_LOOKS = 100  #: of one read, while a writer changes what it looks at; see `LogReader._look_again`
ATTEMPTS = 500  #: to open files that a writer is changing


def _refuse(self: LogReader | ReaderReplica | ReaderMaintenance, *_args: Any, **_kwargs: Any) -> NoReturn:
    log = self if isinstance(self, LogReader) else self.log
    raise ReadOnlyError(
        f"{log.name}: the log is open read-only; open it without read_only=True to change it", path=log.path
    )


class LogReader(Readable):
    """One partition's log, opened for reading.

    >>> with Log.open(tmp / "flights-0", read_only=True) as log:
    ...     log.log_end_offset
    0
    """

    def __init__(
        self, directory: Directory, config: LogConfig, clock: Clock, kind: LogKind = LogKind.UNRECORDED
    ) -> None:
        self.name: TopicPartition = files.parse_partition(directory.path)
        self._config = config
        self.path = directory.path
        self._directory = directory
        self._clock = clock
        self._given_kind = kind
        self._kind: LogKind | None = None
        self._lock = threading.RLock()
        self._fork = fork_generation()
        self._closed = False
        self._why_closed = "the log is closed; call Log.open() again"
        self._closed_error: type[LogClosedError] = LogClosedError
        self._watch: Watch | None = None
        self._stuck = -1  # the odd generation whose wait has timed out
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        self._note = Note(None)
        self._latest: tuple[Published, View] | None = None  # the view, and what it was made of
        names = files.refuse_file(directory) or []
        root = Directory(os.path.dirname(directory.path), directory.files)
        if names and root.read(files.INCOMPLETE) is not None:
            files.refuse_incomplete(root, [files.INCOMPLETE])
        if not files.base_offsets(names) and not files.is_ours(names):
            raise NotALogError(
                "the directory holds no log: no segments and no logstore files; check the path", path=directory.path
            )
        self._published_file = PublishedReader(directory)
        self._published = self._read_published()
        if self._published is not None:
            self._refuse_gone(self._published)
        self._watched = self._published is not None
        self._open_segments()

    # -- following the writer

    def _open_segments(self) -> None:
        """Open the segments; retry if the writer truncates or removes a file meanwhile."""
        for left in reversed(range(ATTEMPTS)):
            try:
                self._segments = Segments.open(self._directory, self._config, writable=False)
                self._aborted = {}
                self._note = self._read_note()
                if not self._watched:
                    self._published = self._measure()
                self._take_published()
                return
            except (RecordError, StorageError) as error:
                if not left or not self._has_moved(error):
                    raise

    def _has_moved(self, error: Exception) -> bool:
        """Return whether an error came from the writer changing files; take its newest marks."""
        before = self._published
        published = self._published_file.read()
        if before is None or published is None:
            return is_gone(error)
        self._published = published = self._when_at_rest(published)
        return published.generation != before.generation or is_gone(error)

    def _refuse_gone(self, published: Published) -> None:
        if published.generation == checkpoints.GONE_GENERATION:
            raise UnknownTopicError(
                f"{self.name}: the partition was deleted; close() this reader, and call Log.open() again if the "
                "topic was made again",
                path=self.path,
            )

    def _read_published(self) -> Published | None:
        """Read the published marks; None if they are behind the recovery file, as in a file of an earlier copy."""
        # Recovery file first: the writer publishes marks before it writes this file, and deletes segments after.
        point = recovery.read_point(self._directory)
        published = self._published_file.read()
        if point is None or published is None or published.generation == checkpoints.GONE_GENERATION:
            return published
        is_behind = (
            published.log_end_offset < point.recovery_point or published.log_start_offset < point.log_start_offset
        )
        return None if is_behind else published

    def _measure(self) -> Published:
        """Compute the marks of a log without published ones, from its last whole batch and open transactions."""
        segments = self._segments
        if not len(segments):
            return Published(0, 0, 0, 0, 0)
        active = segments.active
        # An index may lead close to the end, but only checksums prove where the valid bytes end.
        extent = active.scan(adopt=True)
        facts = Root.open_for_reading(Directory(os.path.dirname(self.path), self._directory.files), self.name).found
        point = recovery.read_point(self._directory)
        recovery.check_start(segments, point or recovery.read_start(self._directory), facts)
        if point is None:
            start, end = recovery.noted_start(self._directory, facts), extent.next_offset
        else:
            # Not below the recovery point: records missing below it are damage, and not the end.
            start, end = point.log_start_offset, max(extent.next_offset, point.recovery_point)
        if extent.next_offset < end:
            # Damage below the recovery point must not hide the records after it.
            active.extend(end)
        start = max(segments.all[0].base_offset, start)
        producers = recovery.replay_producers(
            self._directory, segments, self._config, None, end, self._clock.now_ms()
        )
        start, unstable = min(start, end), producers.first_unstable_offset(end)
        # An open transaction may have begun below the log start offset.
        return Published(0, start, end, end if unstable is None else max(min(unstable, end), start), end)

    def _take_published(self) -> None:
        """Extend the segments to the published log end offset."""
        published = self._published
        assert published is not None
        if len(self._segments):
            known = self._segments.active
            if known.next_offset < published.log_end_offset or known.next_offset < 0:
                known.extend(published.log_end_offset)
            # Still behind: the writer has rolled since, perhaps several times.
            while known.next_offset < published.log_end_offset and self._segments.follow(
                published.log_start_offset
            ):
                known = self._segments.active
                known.extend(published.log_end_offset)
        elif published.log_end_offset > 0:
            self._segments = Segments.open(self._directory, self._config, writable=False)
            if len(self._segments):
                self._segments.active.extend(published.log_end_offset)

    def refresh(self) -> None:
        """Read the marks that the writer has published since."""
        self._view()

    def _view(self) -> View:
        self._check_open()
        with held(self._lock):
            self._follow_locked()
            published, segments, latest = self._published, self._segments.all, self._latest
            assert published is not None
            if latest is None or latest[0] is not published or latest[1].segments is not segments:
                start, end = published.log_start_offset, published.log_end_offset
                visible, stable = published.high_watermark, published.last_stable_offset
                view = View(start, visible, stable, end, segments, published.generation)
                latest = self._latest = published, view
            return latest[1]

    def _follow_locked(self) -> None:
        """Take the marks that the writer has published since, and the segments that belong to them."""
        published = self._published_file.read(attempts=ATTEMPTS if self._watched else 1)
        if published is None or published == self._published:
            return
        self._refuse_gone(published)
        if not self._watched:
            # The writer was still opening when this reader did, or has started since.
            published = self._read_published()
            if published is None:
                return
            self._watched = True
            self._published = published
            self._segments.close()
            self._open_segments()
            return
        before, self._published = self._published, published
        assert before is not None
        if published.generation == before.generation:
            try:
                self._take_published()
                return
            except (RecordError, StorageError) as error:
                if not self._has_moved(error):
                    raise
        # After a truncation, or the deletion of the last known segment, other records may be in place of
        # those that were read.
        self._segments.close()
        try:
            self._open_segments()
        except BaseException:
            # No published generation is -1, so the next refresh opens the segments again.
            self._published = published._replace(generation=-1)
            raise

    # -- offsets, segments, epochs

    def _is_as_in(self, view: View) -> bool:
        published = self._published_file.read() if self._watched else None
        return published is None or published.generation == view.generation

    def _look_again(self, look: Callable[..., Answer], arguments: tuple[object, ...]) -> Answer:
        """Look up to `_LOOKS` times, each time in the segments that the writer has published last.

        A view does not hold the files of another process: it cuts them in place and removes them, and takes no
        lock that a reader could hold. So a look can fail by each change that begins or ends while it lasts. The
        first one without a change ends the loop. Each change waits for the disk several times, so the bound is met
        only beside a writer that does nothing else; it keeps this call from lasting for ever.
        """
        for _ in range(_LOOKS):
            with suppress(LogChangedError):
                return self._look(look, self._view(), arguments)
        return self._look(look, self._view(), arguments)

    def _segments_now(self) -> tuple[Segment, ...]:
        return self._segments.all

    def _generation(self) -> int:
        published = self._published
        return 0 if published is None else published.generation

    @property
    def log_start_offset(self) -> int:
        return self._view().log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._view().log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._view().high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._view().last_stable_offset

    def _epochs(self) -> Epochs:
        return Epochs.load(self._directory) or Epochs()

    def _is_contiguous(self) -> bool:
        if self._kind is None:
            self._kind = recovery.read_kind(self._directory).with_other(self._given_kind)
        return self._kind is LogKind.CONTIGUOUS

    def _check_joined(self, segment: Segment) -> None:
        """Raise as `Readable._check_joined`, unless the writer has begun to leave gaps since."""
        try:
            super()._check_joined(segment)
        except DamagedLogError:
            self._kind = None
            if self._is_contiguous():
                raise

    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        # Lazily: `collect` stops where no later entry can touch the range.
        entries = chain.from_iterable(map(self._aborted_of, self._segments.from_offset(start_offset)))
        return transaction_index.collect(entries, start_offset, end_offset).transactions

    def _aborted_of(self, segment: Segment) -> list[AbortedTransaction]:
        known = self._aborted  # taken once: another generation has a dictionary of its own
        entries = known.get(segment.base_offset)
        if entries is None:
            # The note read at opening is for what a killed writer has left; a live one has added entries since.
            note = self._read_note() if segment.sealed and self._watched else self._note
            entries = recovery.load_aborted(self._segments, segment, self._config, note)
            if segment.sealed:
                known[segment.base_offset] = entries
        return entries

    def _read_note(self) -> Note:
        return recovery.read_note(self._directory, recovery.read_point(self._directory))

    def _end_mark(self, isolation: Isolation) -> Watermark:
        return _PolledMark(self, isolation)

    def _elsewhere(self) -> LogElsewhere:
        return LogElsewhere.of(self._directory, self._config, self._given_kind)

    def _wait_for_rest(self) -> None:
        published = self._published_file.read() if self._watched else None
        if published is not None:
            self._when_at_rest(published)

    def _when_at_rest(self, published: Published) -> Published:
        """Wait until no truncation or swap is in progress, and return the published marks.

        If the writer has died during a truncation or swap, its marks are returned after `REST_S`. Later calls that
        find the same generation return them at once.
        """
        waits_for, deadline = -1, 0.0
        while True:
            self._refuse_gone(published)
            generation = published.generation
            if generation % 2 == 0 or generation == self._stuck:
                return published
            if generation != waits_for:
                # By time, not by count: every append wakes the wait below. A new generation restarts it, for
                # its writer is alive.
                waits_for, deadline = generation, time.monotonic() + REST_S
            elif time.monotonic() >= deadline:
                self._stuck = generation
                return published
            self._wait_for_writer(POLL_S)
            published = self._published_file.read() or published

    def _wait_for_writer(self, timeout_s: float) -> None:
        """Wait until marks may have been published: woken by inotify, or after 10 ms."""
        with held(self._lock):
            if self._watch is None:
                self._watch = Watch(self._directory.path)
        if not self._watch.wait(max(int(min(timeout_s, POLL_S) * 1000), 1)):
            return
        # The writer has written to a segment, and moves its marks a moment later, without another write.
        for pause_ms in SOON_MS:
            if self._published_file.read(attempts=1) != self._published:
                return
            self._watch.wait(pause_ms)

    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error(f"{self.name}: {self._why_closed}", path=self.path)
        if self._fork != fork_generation():
            raise ForkedError(
                f"{self.name}: the log was opened before a fork; call Log.open() in the child", path=self.path
            )

    def _check_whole(self, view: View) -> None:
        # The writer publishes after the bytes: missing ones were lost, or cannot be recognised.
        active, found = view.segments[-1] if view.segments else None, _end_of(view)
        if found < view.log_end_offset:
            raise CorruptRecordError(
                f"{self.name}: the log was written up to offset {view.log_end_offset - 1}, but no whole batch "
                f"is found from offset {found} on; call Log.open() to write, which recovers it or "
                f"names the damage",
                path=self.path if active is None else active.path,
                position=None if active is None else active.size,
            )

    # -- refused writes, and closing

    append = appender = delete_before = flush = _refuse

    @property
    def replica(self) -> RefusingReplica:
        """The calls of brokers and replicas, as far as they only read."""
        return RefusingReplica(self)

    @property
    def maintenance(self) -> RefusingMaintenance:
        """The calls of maintenance, as far as they only read."""
        return RefusingMaintenance(self)

    def close(self, *, reason: str = "", error: type[LogClosedError] = LogClosedError) -> None:
        """Close the files. May be called again. Errors of later calls name the ``reason`` and are an ``error``."""
        if reason:
            self._why_closed, self._closed_error = reason, error
        if not self._closed:
            self._closed = True
            self._segments.close()
            self._published_file.close()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LogReader {self.name} {'closed' if self._closed else 'open'} {self.path!r}>"


def _end_of(view: View) -> int:
    """Return the end of the whole batches that were found in the segments of a view."""
    if not view.segments:
        return view.log_start_offset
    # An empty active segment has the end -1 (unknown); its end is its base offset.
    return max(view.segments[-1].next_offset, view.segments[-1].base_offset)


class RefusingReplica(ReaderReplica):
    """`ReaderReplica` of a log that is open read-only: calls that write are refused."""

    __slots__ = ()
    append_batch = append_control = truncate_to = advance_high_watermark = _refuse


class RefusingMaintenance(ReaderMaintenance):
    """`ReaderMaintenance` of a log that is open read-only: calls that write are refused."""

    __slots__ = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments as the writer has left them now, in order."""
        return self.log._view().segments

    roll = retain = compact = cleanable = reconfigure = _refuse


class LogElsewhere:
    """The log of an unpickled scan: opened for reading when it is first used.

    Not before: an error while unpickling would end the unpickling process, such as one of a pool.
    """

    def __init__(self, path: str, config: LogConfig, kind: LogKind, metadata: bytes | None) -> None:
        self.path = path
        self.name: TopicPartition = files.parse_partition(path)
        self._config = config
        self._kind = kind
        self._metadata = metadata  #: Kafka's partition metadata: tells the topic from a later one of its name
        self._opened: tuple[int, LogReader] | None = None

    @classmethod
    def of(cls, directory: Directory, config: LogConfig, kind: LogKind) -> LogElsewhere:
        """Build the stand-in for an open log in a pickle.

        Raises:
            TypeError: the log is stored on a disk that only this process has, as in a test.
        """
        if directory.files is not LIBC:
            raise TypeError(
                f"a scan of {directory.path} cannot be pickled: the log was opened with files= of this process"
            )
        return cls(directory.path, config, kind, directory.read(files.PARTITION_METADATA))

    def _elsewhere(self) -> LogElsewhere:
        return LogElsewhere(self.path, self._config, self._kind, self._metadata)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._log(), name)

    def _log(self) -> LogReader:
        opened = self._opened
        # A forked process opens its own reader. Without a lock two threads may both open one; either is dropped.
        if opened is None or opened[0] != fork_generation():
            directory = Directory(self.path)
            found = LogReader(directory, self._config, SYSTEM_CLOCK, self._kind)
            if directory.read(files.PARTITION_METADATA) != self._metadata:
                found.close()
                raise UnknownTopicError(
                    f"{self.name}: the topic was deleted and made again since the scan was made; call scan() again",
                    path=self.path,
                )
            opened = self._opened = fork_generation(), found
        return opened[1]

    def __reduce__(self) -> tuple[object, ...]:
        return LogElsewhere, (self.path, self._config, self._kind, self._metadata)


class _PolledMark(Watermark):
    """A reader's end, which another process moves."""

    __slots__ = ("_isolation", "_log")

    def __init__(self, log: LogReader, isolation: Isolation) -> None:
        super().__init__(log.end_offset(isolation), clock=log._clock)
        self._log = log
        self._isolation = isolation

    def wait_for(self, value: int, timeout_s: float | None = None) -> bool:
        return self._poll(lambda now: now >= value, timeout_s)

    def wait_while(self, value: int, timeout_s: float | None = None) -> bool:
        return self._poll(lambda now: now != value, timeout_s)

    def _poll(self, is_reached: Callable[[int], bool], timeout_s: float | None) -> bool:
        clock = self._log._clock
        deadline = clock.deadline_s(timeout_s)
        while not is_reached(self._log.end_offset(self._isolation)):
            left = POLL_S if deadline is None else deadline - clock.monotonic_s()
            if left <= 0:
                return False
            self._log._wait_for_writer(left)
        return True
