"""The open logs of a store: each is opened when it is first used, and closed with the store.

`Partitions` owns every `Log` or `LogReader` of the store; no other object closes them. Threads that ask for
different partitions open them concurrently. Threads that ask for the same partition get the same log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

from logstore.client.backend.source import Opened
from logstore.clock import Clock
from logstore.config.log import LogConfig
from logstore.errors import LogClosedError, LogstoreError, NotALogError, StoreClosedError, TopicDeletedError
from logstore.io._interrupts import held, shielded
from logstore.io.side_by_side import MANY, side_by_side
from logstore.log import Log, LogReader
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import LogKind
from logstore.log.space_quota import SpaceQuota
from logstore.metrics import Taken
from logstore.records import TopicPartition
from logstore.store.catalog import layout
from logstore.topic_names import INTERNAL

_logger = logging.getLogger(__name__)


class Partitions:
    """The open logs: each is opened on first use and kept."""

    def __init__(
        self,
        root: Directory,
        *,
        read_only: bool,
        config_of: Callable[[str], LogConfig],
        kind_of: Callable[[str], LogKind],
        drops_keyless: Callable[[str], bool],
        is_new: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        self._root = root
        self._read_only = read_only
        self._config_of = config_of
        self._kind_of = kind_of
        self._drops_keyless = drops_keyless
        self._is_new = is_new
        self._clock = clock
        self._open: dict[TopicPartition, Opened] = {}
        #: Returns the log of a partition if it is open, else None; without a call of Python for each append.
        # The types do not say that a plain tuple finds the entry of a `TopicPartition`, which is one.
        self.found: Callable[[tuple[str, int]], Opened | None] = self._open.get  # type: ignore[assignment]
        #: Logs that are not open, with what the maintenance tasks have found there; opening one removes it.
        self.resting: dict[TopicPartition, object] = {}
        self._opening: dict[TopicPartition, threading.Lock] = {}
        self._failed: dict[TopicPartition, Opened] = {}  # to be closed before they are opened again
        self._lock = threading.Lock()
        self._closed = False
        #: Returns the disk-space quota of a log; set once, before any log is opened.
        self.quota_of: Callable[[TopicPartition], SpaceQuota | None] = lambda name: None
        #: Opens a log of an internal topic, and frees space if the disk is full; set once, before any is opened.
        self.with_space: Callable[[Callable[[], Opened]], Opened] = lambda work: work()
        #: Makes the directories of a new topic durable, before the first log of it is opened for writing.
        self.make: Callable[[str], None] = lambda topic: None

    def get(self, name: TopicPartition) -> Opened:
        """Return the log of an existing partition; open it if it is not open yet.

        Raises:
            DamagedLogError, StorageError: as `Log.open`; the next call retries.
        """
        found = self._open.get(name)
        if found is not None:
            return found
        # Before the turn, for which a thread waits that changes the topic, with the catalogue locked; and in this
        # thread, which may be the one.
        self.make(name.topic)
        return shielded(self._opened, name)

    def _opened(self, name: TopicPartition) -> Opened:
        while True:
            with held(self._lock):
                self._check_open()
                found = self._open.get(name)
                if found is not None:
                    return found
                turn = self._opening.setdefault(name, threading.Lock())
            with held(turn):
                # If this turn is no longer listed, another thread has used it during the wait. The log which that
                # thread opened may be closed by now, and other threads may share a newer turn: look again.
                if self._opening.get(name) is turn:
                    return self._open_in_turn(name)

    def open_again(self, name: TopicPartition) -> Opened:
        """Close the log of a partition if it has failed, and return the one that is opened in its place.

        Calls to the closed one raise `LogClosedError`. Raises as `get`, which the next call retries.
        """
        with held(self._lock):
            log = self._open.get(name)
            if isinstance(log, Log) and log.replica.failure is not None:
                self._failed[name] = self._open.pop(name)
        return self.get(name)

    def _open_in_turn(self, name: TopicPartition) -> Opened:
        found = None
        try:
            failed = self._failed.pop(name, None)
            if failed is not None:
                # In this turn: a thread that wants the log waits for the next one, and does not find it locked.
                failed.close(reason="the log has failed, and was opened again; ask the topic for it again")
            own = name.topic in INTERNAL
            found = self.with_space(lambda: self._open_log(name)) if own else self._open_log(name)
        finally:
            with held(self._lock):
                if found is not None and not self._closed:
                    self._open[name] = found
                    self.resting.pop(name, None)
                # The turn is removed under the same hold of the lock that stores the log. Between two holds,
                # another thread would open the log a second time.
                del self._opening[name]
        if self._closed:
            found.close()
            self._check_open()
        return found

    def _open_log(self, name: TopicPartition) -> Opened:
        directory = layout.partition_directory(self._root, name)
        path, files = directory.path, directory.files
        config, kind = self._config_of(name.topic), self._kind_of(name.topic)
        if not layout.is_a_log(directory):
            if self._read_only and self._is_new(name.topic):
                return LogReader(layout.NewDirectory(path, files), config, self._clock, kind)
            lost = "has lost the files of a log" if directory.exists() else "is gone"
            raise NotALogError(
                f"{name}: the topic has this partition, but its directory {lost}; restore it from a copy, or "
                "delete the topic. Where its records are gone for good, close the store, delete what is left of "
                f"that directory, and begin it again, empty, with logstore.Log.open({path!r}).close()",
                path=path,
            )
        if self._read_only:
            return Log.open(path, config, read_only=True, clock=self._clock, files=files, kind=kind)
        return Log.open(
            path,
            config,
            clock=self._clock,
            files=files,
            quota=self.quota_of(name),
            kind=kind,
            drop_keyless=self._drops_keyless(name.topic),
        )

    def at_rest(self, name: TopicPartition) -> LogReader | None:
        """Return a reader of a log that is not open, to be closed by the caller; None if it was never opened.

        It opens nothing for writing, and the log is not kept open.

        Raises:
            DamagedLogError, StorageError: as `Log.open`.
            LogstoreError: the log was not closed, and may be other than it looks until it is recovered.
        """
        self._check_open()
        directory = layout.partition_directory(self._root, name)
        if layout.was_closed(directory):
            return LogReader(directory, self._config_of(name.topic), self._clock, self._kind_of(name.topic))
        if layout.is_unused(directory):
            return None
        raise LogstoreError(f"{name}: the log was not closed; opening it for writing recovers it")

    def leader_epoch(self, name: TopicPartition, *, is_sought: bool) -> int:
        """Return the leader epoch of a log; -1 if it is not open and, as far as that is sought, no file tells it.

        Raises:
            StorageError: a file cannot be read.
        """
        found = self._open.get(name)
        if isinstance(found, Log):
            return found.replica.leader_epoch
        return layout.closed_epoch(layout.partition_directory(self._root, name)) if is_sought else -1

    def is_unused(self, topic: str, count: int) -> bool:
        """Return whether no log of a topic was ever opened for writing, of ``count`` partitions."""
        names = (TopicPartition(topic, number) for number in range(count))
        return all(layout.is_unused(layout.partition_directory(self._root, name)) for name in names)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("the store is closed; call logstore.open() again", path=self._root.path)

    def opened(self, topic: str | None = None) -> Iterator[Opened]:
        """Iterate over every log that is open now, of one topic or of all, by name."""
        with held(self._lock):
            found = sorted(self._open.items())
        for name, log in found:
            if topic is None or name.topic == topic:
                yield log

    def taken(self) -> Taken:
        """Return the disk and core usage of appends, summed over all open logs. It falls when a log is closed."""
        appends, size, sync_s = 0, 0, 0.0
        for log in list(self._open.values()):
            if isinstance(log, Log):
                taken = log.maintenance.taken
                appends += taken.appends
                size += taken.size
                sync_s += taken.sync_s
        return Taken(appends, size, sync_s)

    def settle(self, topic: str) -> None:
        """Wait for threads that are opening logs of a topic.

        The writer calls this after a change of the catalogue: logs opened afterwards follow the changed catalogue.
        """
        with held(self._lock):
            turns = [turn for name, turn in self._opening.items() if name.topic == topic]
        for turn in turns:
            with held(turn):
                pass

    def close_topic(self, topic: str, reason: str = "", error: type[LogClosedError] = LogClosedError) -> None:
        """Close and forget the logs of one topic; later calls raise ``error``. `get` opens the logs again."""
        if not self._read_only:
            # A log that is being opened would stay open with deleted files, for a later topic of the same name.
            # (A reader does not wait: it finds that its topic was deleted while it opens a log, so it would wait
            # for itself.)
            self.settle(topic)
        with held(self._lock):
            doomed = [name for name in self._open if name.topic == topic]
            logs = [self._open.pop(name) for name in doomed]
            for name in [name for name in self.resting if name.topic == topic]:
                del self.resting[name]
        side_by_side(lambda log: log.close(reason=reason, error=error), logs, at_least=MANY)

    def renew(self, name: TopicPartition, make: Callable[[], object]) -> None:
        """Close the log of a partition, and call ``make`` before it is opened again: threads that want it wait.

        Calls to the closed one raise `LogClosedError`.
        """
        while True:
            with held(self._lock):
                self._check_open()
                turn = self._opening.setdefault(name, threading.Lock())
            with held(turn):
                if self._opening.get(name) is not turn:
                    continue
                try:
                    with held(self._lock):
                        logs = [table.pop(name, None) for table in (self._open, self._failed)]
                    for log in logs:
                        if log is not None:
                            _close_unwanted(log)
                    make()
                finally:
                    with held(self._lock):
                        del self._opening[name]
                return

    def close(self) -> None:
        """Close every log. All are closed even if one fails; the first failure is raised."""
        with held(self._lock):
            self._closed = True
            logs = [*self._open.values(), *self._failed.values()]
            self._open.clear()
            self._failed.clear()
        reason = "the store is closed; call logstore.open() again"
        side_by_side(lambda log: log.close(reason=reason), logs, at_least=MANY)


def _close_unwanted(log: Opened) -> None:
    try:
        log.close(reason="the replica has moved to another node, and its records are removed here")
    except LogstoreError as error:
        # Records that are not flushed are not wanted any more.
        _logger.warning("a log was not closed cleanly, it is removed: log=%r error=%s", log, error)


class LentLog(Log):
    """A log of a store as its user gets it: it shares all state with that log, and keeps the store alive.

    The log itself cannot refer to the store: the finalizer of the store refers to its logs.
    """

    __slots__ = ("_log", "_store")

    def __init__(self, log: Log, store: object) -> None:
        self.__dict__ = log.__dict__  # shared: a change of either holds for both
        self._log = log
        self._store = store

    @property
    def log_start_offset(self) -> int:
        state = self._state
        if state.closed:
            self._check_that_topic_is_there()
        return state.log_start

    @property
    def log_end_offset(self) -> int:
        state = self._state
        if state.closed:
            self._check_that_topic_is_there()
        return state.end.value

    @property
    def high_watermark(self) -> int:
        state = self._state
        if state.closed:
            self._check_that_topic_is_there()
        return state.high_watermark.value

    @property
    def last_stable_offset(self) -> int:
        state = self._state
        if state.closed:
            self._check_that_topic_is_there()
        return state.last_stable.value

    def _check_that_topic_is_there(self) -> None:
        """Raise if the topic was deleted. After a `close` the offsets stay readable."""
        if self._state.closed_error is TopicDeletedError:
            self._state.check_open()

    def close(self, *, reason: str = "", error: type[LogClosedError] = LogClosedError) -> None:
        self._log.close(reason=reason, error=error)

    def __del__(self) -> None:
        """Do nothing: the store closes its logs."""


class LentReader(LogReader):
    """As `LentLog`, for a log of a store that is open read-only."""

    __slots__ = ("_store",)

    def __init__(self, log: LogReader, store: object) -> None:
        self.__dict__ = log.__dict__
        self._store = store


def lent(log: Opened, store: object) -> Opened:
    """Return a log for the user of a store. While the user has it, the store is not closed as a dropped one."""
    return LentLog(log, store) if isinstance(log, Log) else LentReader(log, store)
