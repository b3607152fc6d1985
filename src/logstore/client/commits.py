"""Commits of one consumer: which records count as processed, and when their offsets are stored.

With ``enable.auto.commit``, returned records count as processed when the next ones are requested. Their offsets
are then stored, at most once in ``auto.commit.interval.ms``. Before a new assignment, and when the consumer
is closed, they are stored at once. One thread at a time may call; the consumer enforces this.

A commit that is not waited for is made by a thread, after those made before it. `Commits.drain` waits for all of
them: before a commit that is waited for, before partitions pass to other members, and at the end.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from logstore.batch._batch import RecordIterator
from logstore.client.backend.backend import Backend
from logstore.client.backend.membership import GroupMembership
from logstore.client.partition_position import PartitionPosition
from logstore.client.subscription import Subscription
from logstore.config.client import ConsumerConfig
from logstore.errors import GroupFencedError, InvalidGroupError, LogstoreError, UnknownTopicError
from logstore.groups.offsets import OffsetAndMetadata, check_group
from logstore.io._interrupts import Condition, held, in_step, step_interrupted
from logstore.records import Ack, TopicPartition

#: How long Ctrl-C may take while a consumer closes.
_STEP_LOOK_S = 0.1

_logger = logging.getLogger(__name__)

#: What a user is told of a commit that was not waited for: its offsets, and the error or None.
OnCommit: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], object]


class _Commit(NamedTuple):
    offsets: dict[TopicPartition, OffsetAndMetadata]
    ack: Ack | str | None
    on_commit: OnCommit | None


class _Answer(NamedTuple):
    """What became of a commit."""

    commit: _Commit
    error: Exception | None


class CommitQueue:
    """Commits that are made one after another, in the order in which they were put.

    Those that come while one is being made are made as one; if that is refused, each by itself. The thread begins
    with the first, and ends with the last: a consumer that is dropped leaves none behind.
    """

    def __init__(
        self, make: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Ack | str | None], None]
    ) -> None:
        self._make = make
        self._changed = Condition()
        self._waiting: list[_Commit] = []
        self._thread: threading.Thread | None = None
        self.answers: deque[_Answer] = deque()  #: in order; the consumer's thread takes them

    def put(self, commit: _Commit) -> None:
        """Add a commit. Does not wait."""
        with held(self._changed):
            self._waiting.append(commit)
            self._begin()

    def drain(self) -> None:
        """Wait until every commit that was put has its answer, or an interrupt waits for the end of this step."""
        with held(self._changed):
            if self._waiting or self._thread is not None:
                self._begin()
            # No signal ends a wait within the `close` of a consumer: it looks for one itself.
            while self._thread is not None and not step_interrupted():
                self._changed.wait(_STEP_LOOK_S if in_step() else None)
            if self._thread is not None:
                # The caller goes on to its last commit: an older one must not come behind it.
                self._waiting.clear()

    def _begin(self) -> None:
        # One that is not alive was interrupted before it began, or is that of the process before a fork.
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="logstore-commits", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with held(self._changed):
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                ack = self._waiting[0].ack
                commits = [*takewhile(lambda one: one.ack == ack, self._waiting)]  # noqa: B023  used at once
                del self._waiting[: len(commits)]
            offsets: dict[TopicPartition, OffsetAndMetadata] = {}
            for one in commits:
                offsets |= one.offsets
            error = self._error_of(offsets, ack)
            if error is None or len(commits) == 1 or getattr(error, "retriable", False):
                self.answers += [_Answer(one, error) for one in commits]
            else:
                self.answers += [_Answer(one, self._error_of(one.offsets, ack)) for one in commits]

    def _error_of(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], ack: Ack | str | None
    ) -> Exception | None:
        try:
            self._make(offsets, ack)
        except Exception as error:  # noqa: BLE001  the consumer's thread tells it, or raises it
            return error
        return None


class Commits:
    """The offsets that one consumer stores for its group."""

    def __init__(self, backend: Backend, config: ConsumerConfig, subscription: Subscription) -> None:
        self._backend = backend
        self._clock = backend.clock
        self._offsets = offsets = backend.offsets
        self._subscription = subscription
        self.group = config.group_id
        self.are_automatic = bool(self.group) and config.enable_auto_commit
        self.member: GroupMembership | None = None  #: set while the group assigns the partitions
        self._automatic: _Commit | None = None  #: the one that has no answer yet; the next has its records too
        self._interval_s = config.auto_commit_interval_ms / 1000
        if self.group:
            check_group(self.group)
            if self.are_automatic:
                offsets.check_writable(self.group)
        self._committed_s = self._clock.monotonic_s()
        self._renewed_s = self._committed_s
        self._queue = CommitQueue(lambda offsets, ack: self._commit(self.group, offsets, ack))
        self._untold: deque[Callable[[], object]] = deque()
        self._failed: Exception | None = None
        self.calling: int | None = None  #: the thread in which a callback of a commit runs

    def named_group(self) -> str:
        """Return the name of the group.

        Raises:
            InvalidGroupError: the consumer has no group.
        """
        if not self.group:
            raise InvalidGroupError("the consumer has no group; open it with store.consumer(group='name')")
        return self.group

    def store(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None,
        ack: Ack | str | None,
        *,
        wait: bool = True,
        on_commit: OnCommit | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Store these offsets, by default the position in each partition; see `Consumer.commit`."""
        if wait and on_commit is not None:
            raise ValueError("on_commit needs a commit that is not waited for; call commit(wait=False)")
        group = self.named_group()
        if wait:
            self.drain()
        self.tell()
        partitions = self._subscription.partitions
        if offsets is None:
            self._subscription.check_assigned()
            offsets = {name: each.position for name, each in partitions.items() if each.position >= 0}
        given = {
            TopicPartition(*name): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
            for name, each in offsets.items()
        }
        made = {name: self._with_epoch(name, self._of_its_topic(name, each)) for name, each in given.items()}
        if wait:
            self._commit(group, made, ack)
            self._note(made)
        else:
            self._queue.put(_Commit(made, ack, on_commit))
        for name, each in given.items():
            partition = partitions.get(name)
            if partition is not None:
                # Records below the stored offset count as processed. Otherwise the next automatic commit could
                # store a smaller offset.
                partition.done = max(partition.done, each.offset)
        return given

    def drain(self) -> None:
        """Wait for the commits that were not waited for. `tell` has what became of them."""
        self._queue.drain()
        self._take_answers()

    def tell(self) -> None:
        """Call the callbacks of commits that were answered; for one without a callback raise its error.

        As with automatic commits, no error is raised that says that the group divides its partitions.
        """
        self._take_answers()
        while self._untold and self.calling is None:
            self.calling = threading.get_ident()
            try:
                self._untold.popleft()()
            finally:
                self.calling = None

    def _take_answers(self) -> None:
        while self._queue.answers:
            one, error = self._queue.answers.popleft()
            if one is self._automatic:
                self._automatic = None
            if error is None:
                self._note(one.offsets)
            if one.on_commit is not None:
                self._untold.append(partial(one.on_commit, one.offsets, error))
            elif error is not None and error is not self._failed:
                self._failed = error  # of commits that were made as one
                self._untold.append(partial(self._fail, error))

    def _fail(self, error: Exception) -> None:
        if not _is_of_the_group(error):
            raise error.with_traceback(None)
        _logger.warning("not committed: group=%s error=%s", self.group, error)

    def _note(self, stored: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for name, each in stored.items():
            partition = self._subscription.partitions.get(name)
            if partition is not None:
                partition.stored, partition.stored_epoch = each.offset, each.leader_epoch

    def stored(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of the group in each partition; None if there is none."""
        names = list(names)
        found = self._offsets.committed(self.named_group(), names)
        return {name: found.get(name) for name in names}

    def settle(self) -> None:
        """Commit the records returned before, if automatic commits are on and the interval has passed.

        Called when more records are requested: the earlier ones then count as processed. In a store that is open
        read-only, each quarter of ``offsets.retention.minutes`` the group's offsets are stored again.
        """
        if not self.group:
            return
        self.tell()
        now_s = self._clock.monotonic_s()
        renew_s = self._offsets.renew_s if self.member is None else None
        if renew_s is not None and now_s - self._renewed_s >= renew_s:
            self._renewed_s = now_s
            self._renew()
        if not self.are_automatic:
            return
        self._settle_all()
        if now_s - self._committed_s >= self._interval_s and self._automatic is None:
            self._committed_s = now_s
            if self._backend.is_remote:
                # A coordinator that is away keeps no poll waiting. Before partitions pass on, these are waited for.
                news = self._processed()
                if news:
                    self._automatic = _Commit(news, None, self._log_failure)
                    self._queue.put(self._automatic)
            else:
                self._commit_processed()

    def _log_failure(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        if error is not None:
            # The next commit, after the interval, has these records too.
            _logger.warning("not committed: group=%s error=%s", self.group, error)

    def settle_now(self) -> None:
        """Commit all returned records if automatic commits are on; before a new assignment, and at close.

        Waits for the commits that were not waited for.
        """
        self.drain()
        if self.are_automatic:
            self._settle_all()
            self._commit_processed()

    def settle_all_but_the_last(self, handed: RecordIterator | None) -> None:
        """Commit when the consumer is closed after an error, if automatic commits are on.

        ``handed`` are the records that a loop was reading. The last one that the loop got does not count as
        processed; the earlier ones do.
        The records of a list from `poll` do not count, since the number of processed ones is unknown.
        """
        self.drain()
        if not self.are_automatic:
            return
        for partition in self._subscription.turns:
            run = partition.run
            if run is not None and run is handed and not run.exhausted:
                partition.done = max(partition.done, run.position - 1)
        self._commit_processed()

    def _settle_all(self) -> None:
        for partition in self._subscription.turns:
            partition.done = partition.position

    def _processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets of what is processed and not committed."""
        return {
            each.name: self._with_epoch(each.name, OffsetAndMetadata(each.done, topic_id=each.topic_id))
            for each in self._subscription.turns
            if each.done >= 0 and each.done != each.stored and not self._is_another_topic(each)
        }

    def _commit_processed(self) -> None:
        self.drain()
        news = self._processed()
        if news:
            try:
                # It may be the last commit, as in `close`: the next owner reads again what a rebalance refuses.
                self._commit(self.group, news, None, waits=True)
            except LogstoreError as error:
                if self.member is None or not _is_of_the_group(error):
                    raise
                # The group divides its partitions, or has done so without this consumer: read again.
                _logger.warning("not committed: group=%s error=%s", self.group, error)
                return
            self._note(news)

    def _commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        ack: Ack | str | None,
        *,
        waits: bool = False,
    ) -> None:
        if self.member is None:
            self._offsets.commit(group, offsets, ack=ack)
        else:
            self.member.commit(offsets, waits=waits)

    def _renew(self) -> None:
        """Store the group's committed offsets of the assigned partitions again, so that they do not expire.

        The process that writes the store does not know the consumers of other processes. Without this it would
        delete their offsets after ``offsets.retention.minutes``.
        """
        names = [
            each.name for each in self._subscription.turns if each.stored >= 0 and not self._is_another_topic(each)
        ]
        try:
            found = self._offsets.committed(self.group, names)
            if found:
                self._offsets.commit(
                    self.group, {name: commit._replace(commit_ms=-1) for name, commit in found.items()}
                )
        except LogstoreError as error:
            # A failed renewal is not fatal: two retries follow before the offsets expire.
            _logger.warning("offsets not renewed: group=%s error=%s", self.group, error)

    def _of_its_topic(self, name: TopicPartition, given: OffsetAndMetadata) -> OffsetAndMetadata:
        """Return the commit with its topic's id, so that it does not apply to a later topic of the same name."""
        partition = self._subscription.partitions.get(name)
        if partition is None or given.topic_id:
            return given
        self._subscription.rules.check_exists(partition)
        return given._replace(topic_id=partition.topic_id)

    def _with_epoch(self, name: TopicPartition, given: OffsetAndMetadata) -> OffsetAndMetadata:
        """Return the commit with the epoch of the record before it, as far as the consumer of a cluster knows it.

        A group that resumes learns from it that records were replaced meanwhile (KIP-320). A store finds the epoch
        in its log.
        """
        partition = self._subscription.partitions.get(name)
        if partition is None or given.leader_epoch >= 0 or not self._backend.is_remote:
            return given
        epoch = partition.cursor._epoch_before(given.offset)
        if epoch < 0 and given.offset == partition.stored:
            epoch = partition.stored_epoch
        return given._replace(leader_epoch=epoch)

    def _is_another_topic(self, partition: PartitionPosition) -> bool:
        """Return whether the partition's topic was deleted; a topic of the same name may exist again."""
        try:
            return self._backend.facts(partition.name.topic).id != partition.topic_id
        except UnknownTopicError:
            # An error here would keep the offsets of the other topics from being committed.
            return True


def _is_of_the_group(error: Exception) -> bool:
    """Tell whether an error says that the group's partitions are being divided, or were without this consumer."""
    return isinstance(error, GroupFencedError) or getattr(error, "name", "") == "REBALANCE_IN_PROGRESS"
