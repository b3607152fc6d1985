"""Position of a consumer in one partition: where reading begins, and the next records.

This module decides where reading begins: at the group's committed offset; without one, at the log start in a
partition that was added since the group began to read the topic. Otherwise ``auto.offset.reset`` decides. That
rule also holds for an offset out of the log's range. One thread at a time: the consumer's.

On a cluster, brokers are asked by a thread of the round: a leader that does not answer keeps only its own
partitions waiting. The consumer's thread alone changes positions.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from logstore.batch._batch import RecordIterator
from logstore.client.backend.backend import Backend, OneRound
from logstore.client.backend.partitions import Mark, PartitionCursor
from logstore.config.client import ConsumerConfig
from logstore.errors import BrokerTimeoutError, LogstoreError, NoOffsetError, OffsetOutOfRangeError
from logstore.groups.resume import resume_offset
from logstore.io._interrupts import Condition, held
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)

#: How long leaders that are slow may keep the partitions of the others waiting, in the first round; it doubles.
PATIENCE_S = 1.0


class PartitionPosition:
    """A partition and how far it has been read.

    ``offset`` is where the next read begins, -1 until that is known; while there is a ``run``, its own
    position counts. Records below ``done`` are processed, as far as is known; ``stored`` is
    the offset committed last, with its epoch. ``added``: the partition was added after the consumer had begun
    to read the whole topic.
    """

    __slots__ = (
        "added",
        "cursor",
        "done",
        "end",
        "failures",
        "name",
        "offset",
        "paused",
        "reset_from",
        "run",
        "stored",
        "stored_epoch",
        "topic_id",
    )

    def __init__(
        self, name: TopicPartition, cursor: PartitionCursor, topic_id: str, *, added: bool = False
    ) -> None:
        self.name = name
        self.added = added
        self.cursor = cursor
        self.topic_id = topic_id
        self.offset = self.done = self.stored = self.stored_epoch = -1
        self.run: RecordIterator | None = None
        self.paused = False
        self.reset_from = -1  #: the offset that was out of range, until the one where the rule begins is found
        self.failures = 0  #: rounds of questions in a row that have not found where the first read begins
        #: The end of what can be handed out now, if it moves by itself; set once the position has come to it.
        self.end: Mark | None = None

    @property
    def position(self) -> int:
        """The offset of the next record to hand out; -1 if it is not known yet."""
        return self.offset if self.run is None else self.run.position

    def stop(self) -> None:
        """Stop the loop over the current run, if there is one."""
        if self.run is not None:
            self.run.allow(0)

    def go_to(self, offset: int, epoch: int = -1) -> None:
        """Begin the next read at ``offset``, behind a record of a leader epoch; -1 if that is not known."""
        self.stop()
        self.run = None
        self.offset = self.done = offset
        self.reset_from = -1
        # Last: an interrupt before it leaves a cut that is told again, one behind it would lose the cut.
        self.cursor._sought(offset, epoch)

    def take_back(self, offset: int) -> None:
        """Hand out the records from ``offset`` on once more: their reader did not get them.

        The cursor is not told: if the log was cut meanwhile, the next read still has to go back further.
        """
        self.stop()
        at = self.position
        offset = offset if at < 0 else min(offset, at)
        self.run = None
        self.offset = self.done = offset
        # Behind these records the offset was out of range, and that is found again: they may still be there.
        self.reset_from = -1


class _Beginning(NamedTuple):
    """Where the first read begins; ``stored`` is the group's committed offset, if that decided it."""

    offset: int
    epoch: int = -1
    stored: int = -1


class _Questions:
    """Questions about where some partitions begin, while a thread asks them."""

    def __init__(
        self, partitions: list[PartitionPosition], pause_s: float, failures: int, *, can_read: bool
    ) -> None:
        self.partitions = partitions
        self.resets = {one: one.reset_from for one in partitions}  #: what is asked of each
        self.pause_s = pause_s
        self.asked = OneRound(PATIENCE_S * 2.0 ** min(failures, 10), counts_at_once=failures > 0 or can_read)
        self.is_again = failures > 0
        self.is_waited_for = not failures  #: a poll waits for the slow ones once
        self.found: dict[PartitionPosition, _Beginning] = {}
        self.error: Exception | None = None
        self.is_over = False


class PositionRules:
    """The rules by which the partitions of one consumer are read.

    What ``wake`` refers to is called, in the thread of a round, when `find_soon` has more to say.
    """

    wake: weakref.WeakMethod[Callable[[], object]] | None = None

    def __init__(self, backend: Backend, config: ConsumerConfig) -> None:
        self._backend = backend
        self._group = config.group_id
        self._isolation = config.isolation
        self._rule = config.auto_offset_reset
        self._age_ms = config.reset_age_ms
        self._offsets = backend.offsets
        self._rounds: list[_Questions] = []
        self._round_over = Condition()
        self._last_error: LogstoreError | None = None

    def run_of(
        self, partition: PartitionPosition, max_bytes: int, among: Collection[PartitionPosition]
    ) -> RecordIterator | None:
        """Return records that can be handed out now, or None; those already read come first.

        ``among``: all partitions of the consumer; see `find_soon`.

        Raises:
            OffsetOutOfRangeError, NoOffsetError: the rule for such a case is none.
            CorruptRecordError: a stored batch is damaged.
            UnknownTopicError: the topic was deleted.
        """
        while not partition.paused:
            run = partition.run
            if run is not None:
                if not run.exhausted and not run.failed:
                    return run
                # A loop of another thread may be inside it, and would hand out records that are read again here.
                partition.stop()
                partition.offset, partition.run = run.position, None
            if partition.offset < 0:
                self.find_soon([partition], among)
                if partition.offset < 0:
                    return None
            try:
                if partition.cursor._readable_end(self._isolation) == partition.offset:
                    if partition.end is None:
                        partition.end = partition.cursor._live_end(self._isolation)
                    return None
                batches = partition.cursor.read(partition.offset, max_bytes=max_bytes, isolation=self._isolation)
            except OffsetOutOfRangeError as error:
                self._reset(partition, error)
                continue
            except LogstoreError:
                # The log may be closed because its topic was deleted: then that is the error to raise.
                self.check_exists(partition)
                raise
            if batches.next_offset == partition.offset:
                return None
            if batches.next_offset < partition.offset:
                # The log was cut: other records are there now, none of which is processed, nor is one committed.
                partition.done = min(partition.done, batches.next_offset)
                partition.stored = partition.stored_epoch = -1
            partition.run = iter(batches)
        return None

    def check_exists(self, partition: PartitionPosition) -> None:
        """Raise if the partition's topic was deleted or the back end is closed."""
        self._backend.check_exists(partition.name, partition.topic_id)

    # -- where to begin

    def find(self, partitions: Iterable[PartitionPosition]) -> None:
        """Find where the first read of each begins, if that is not known yet.

        Those of many are found together: on a cluster, by one request to each broker that has some of them.

        Raises:
            NoOffsetError: there is no committed offset and no rule.
        """
        unknown = _unknown(partitions)
        if unknown:
            found: dict[PartitionPosition, _Beginning] = {}
            try:
                self._look_up(unknown, found)
            finally:
                self._begin(found)

    def find_soon(self, partitions: Iterable[PartitionPosition], among: Collection[PartitionPosition]) -> None:
        """Find the same, and wait for brokers only while no partition ``among`` all has a position.

        The leaders of new partitions are waited for `PATIENCE_S`. Where no position is found now, brokers are asked
        again after a pause that grows, and `wake` is called then: call again.

        Raises:
            NoOffsetError: there is no committed offset and no rule.
            BrokerUnreachableError, BrokerTimeoutError, BrokerError: no partition has a position, and the time is
                over; or an error that lasts.
        """
        if not self._backend.is_remote:
            self.find(partitions)
            return
        self._backend.topics_known()  # raises in a forked child, where no thread ends the rounds
        given = list(partitions)
        self._take_answers()
        if not _unknown(given):
            return
        clock = self._backend.clock
        deadline = clock.deadline_s(self._backend.answers_within_s)
        while True:
            unknown = _unknown(given)
            if not unknown:
                return
            can_read = any(one.position >= 0 and not one.paused for one in among)
            # Those that have waited are asked for with it: a round for each would be a thread for each.
            late = [one for one in _unknown(among) if one.failures and one not in unknown]
            rounds = self._ask([*unknown, *late], can_read=can_read)
            if can_read:
                new = [each for each in rounds if each.is_waited_for]
                for each in new:
                    each.is_waited_for = False
                self._wait(lambda: all(each.is_over for each in new), PATIENCE_S)  # noqa: B023  called at once
                self._take_answers()
                return
            left_s = None if deadline is None else deadline - clock.monotonic_s()
            # A round that began at the same time ends with its own error.
            if left_s is not None and left_s <= -PATIENCE_S:
                raise self._too_late(unknown)
            wait_s = None if left_s is None else left_s + PATIENCE_S
            self._wait(lambda: any(each.is_over for each in rounds), wait_s)  # noqa: B023  called at once
            self._take_answers()
            if left_s is not None and left_s <= 0 and _unknown(given) == unknown:
                raise self._too_late(unknown)

    def _too_late(self, unknown: list[PartitionPosition]) -> LogstoreError:
        error, self._last_error = self._last_error, None
        if error is None:
            error = BrokerTimeoutError(
                f"{unknown[0].name}: where it begins is not known, since no broker has answered"
            )
        within_s = self._backend.answers_within_s or 0.0
        error.add_note(f"brokers were asked for {within_s:g} s where the assigned partitions begin")
        return error.with_traceback(None)

    def _ask(self, unknown: list[PartitionPosition], *, can_read: bool) -> list[_Questions]:
        """Begin a round for the partitions that have none; return the rounds of all."""
        rounds = [each for each in self._rounds if not set(unknown).isdisjoint(each.partitions)]
        new = set(unknown).difference(*(each.partitions for each in rounds))
        for is_again in (False, True):
            theirs = [one for one in unknown if one in new and (one.failures > 0) == is_again]
            if theirs:
                failures = max(one.failures for one in theirs)
                pause_s = self._backend.retry_pause_s(failures - 1) if is_again else 0.0
                made = _Questions(theirs, pause_s, failures, can_read=can_read)
                threading.Thread(target=self._run, args=(made,), name="logstore-positions", daemon=True).start()
                self._rounds.append(made)
                rounds.append(made)
        return rounds

    def _run(self, round: _Questions) -> None:
        try:
            if round.pause_s:
                threading.Event().wait(round.pause_s)
            if round.is_again:
                # Leaders may have changed. Here: metadata that a poll asks for could be a frozen broker's to tell.
                self._backend.look_again({one.name.topic for one in round.partitions})
            self._look_up(round.partitions, round.found, round.asked)
        except Exception as error:  # noqa: BLE001  the consumer's thread raises it
            round.error = error
        with held(self._round_over):
            round.is_over = True
            self._round_over.notify_all()
        wake = None if self.wake is None else self.wake()
        if wake is not None:
            wake()

    def _wait(self, holds: Callable[[], bool], timeout_s: float | None) -> None:
        with held(self._round_over):
            self._round_over.wait_for(holds, timeout_s)

    def _take_answers(self) -> None:
        """Begin the partitions of rounds that are over; raise an error that lasts."""
        over = [each for each in self._rounds if each.is_over]
        if not over:
            return
        self._rounds = [each for each in self._rounds if each not in over]
        lasting: Exception | None = None
        for each in over:
            # A partition may have been sought and reset meanwhile: the committed offset is no answer to that.
            self._begin({one: at for one, at in each.found.items() if one.reset_from == each.resets[one]})
            for one in each.partitions:
                one.failures = 0 if one in each.found else one.failures + 1
            errors = [*each.asked.left.values(), *([] if each.error is None else [each.error])]
            for error in errors:
                if isinstance(error, LogstoreError) and error.retriable:
                    self._last_error = error
                else:
                    lasting = error
        if lasting is not None:
            raise lasting.with_traceback(None)

    def _begin(self, found: dict[PartitionPosition, _Beginning]) -> None:
        for one, (offset, epoch, stored) in found.items():
            if one.run is not None or one.offset >= 0:
                continue  # it was sought meanwhile
            before = one.reset_from
            one.go_to(offset, epoch)
            if stored >= 0:
                one.stored, one.stored_epoch = stored, epoch
            if before >= 0:
                _logger.warning(
                    "offset out of range, reset: partition=%s group=%s offset=%d new_offset=%d rule=%s",
                    one.name,
                    self._group,
                    before,
                    offset,
                    self._rule,
                )

    def _look_up(
        self,
        unknown: list[PartitionPosition],
        found: dict[PartitionPosition, _Beginning],
        asked: OneRound | None = None,
    ) -> None:
        """Add where partitions begin to ``found``, all of them or, in one round, those that brokers answer for."""
        self._add_committed(unknown, found, asked)
        left = {} if asked is None else asked.left
        rest = [one for one in unknown if one not in found and one.name not in left]
        # With auto.offset.reset=latest, records from before the consumer saw the partition would be skipped.
        added = self._added_among([one for one in rest if one.reset_from < 0])
        _add(found, self.starts(added, asked))
        rest = [one for one in rest if one not in added]
        if rest and self._rule == "none":
            raise NoOffsetError(
                f"{rest[0].name}: group {self._group!r} has committed no offset and auto.offset.reset is none; "
                "call seek() or commit()"
            )
        _add(found, self._first_offsets(rest, asked))

    def _add_committed(
        self,
        partitions: list[PartitionPosition],
        found: dict[PartitionPosition, _Beginning],
        asked: OneRound | None,
    ) -> None:
        partitions = [one for one in partitions if one.reset_from < 0]
        if not self._group or not partitions:
            return
        commits = self._offsets.committed(self._group, [one.name for one in partitions])
        theirs = {
            one: commit
            for one in partitions
            if (commit := commits.get(one.name)) is not None and commit.topic_id in ("", one.topic_id)
        }
        epochs = {one.name: commit.leader_epoch for one, commit in theirs.items() if commit.leader_epoch >= 0}
        ends = self._backend.epoch_ends(epochs, asked) if epochs else {}
        for one, (offset, *_) in theirs.items():
            if asked is not None and one.name in asked.left:
                continue
            epoch = epochs.get(one.name, -1)
            found[one] = _Beginning(resume_offset(one.cursor, offset, epoch, ends.get(one.name)), epoch, offset)

    def _added_among(self, partitions: list[PartitionPosition]) -> list[PartitionPosition]:
        """Return those that were added to a topic that the consumer, or its group, already reads."""
        added = [one for one in partitions if one.added]
        late = [one for one in partitions if not one.added and self._group and self._was_added(one)]
        if late:
            commits = self._offsets.committed(self._group)
            known = {(name.topic, commit.topic_id) for name, commit in commits.items()}
            added += [
                one for one in late if not known.isdisjoint((one.name.topic, id) for id in ("", one.topic_id))
            ]
        return added

    def _was_added(self, partition: PartitionPosition) -> bool:
        topic, number = partition.name
        return number >= self._backend.facts(topic, partition.topic_id).added_from

    def _reset(self, partition: PartitionPosition, error: OffsetOutOfRangeError) -> None:
        """Reset the position: the offset is below the log start or past the end."""
        if self._rule == "none":
            raise error
        # Found as any beginning is, but for the committed offset: a leader that has died keeps no other waiting.
        # A poll passes over a partition that stands at its mark, and the mark of one with an error is -1 too.
        partition.end = None
        partition.reset_from, partition.offset = partition.offset, -1

    def _first_offsets(
        self, partitions: list[PartitionPosition], asked: OneRound | None = None
    ) -> dict[PartitionPosition, int]:
        if self._age_ms is not None:
            return self.offsets_at(partitions, max(self._backend.clock.now_ms() - self._age_ms, 0), asked)
        return self.starts(partitions, asked) if self._rule == "earliest" else self.ends(partitions, asked)

    def starts(
        self, partitions: list[PartitionPosition], asked: OneRound | None = None
    ) -> dict[PartitionPosition, int]:
        """Return the oldest offset that is kept of each; in one round, of those that brokers answer for."""
        found = self._backend.start_offsets([one.name for one in partitions], asked) if partitions else {}
        return {one: found[one.name] for one in partitions if one.name in found}

    def ends(
        self, partitions: list[PartitionPosition], asked: OneRound | None = None
    ) -> dict[PartitionPosition, int]:
        """Return the end of what the consumer sees of each; in one round, of those that brokers answer for."""
        names = [one.name for one in partitions]
        found = self._backend.end_offsets(names, self._isolation, asked) if partitions else {}
        return {one: found[one.name] for one in partitions if one.name in found}

    def offsets_at(
        self, partitions: list[PartitionPosition], timestamp_ms: int, asked: OneRound | None = None
    ) -> dict[PartitionPosition, int]:
        """Return the offset of the first record of ``timestamp_ms`` or later in each, or the end."""
        # The ends are read first: records appended concurrently must not be skipped.
        ends = self.ends(partitions, asked)
        times = {one.name: timestamp_ms for one in ends}
        found = self._backend.offsets_for_times(times, self._isolation, asked) if ends else {}
        return {
            one: end if (at := found[one.name]) is None else at.offset
            for one, end in ends.items()
            if one.name in found
        }


def _unknown(partitions: Iterable[PartitionPosition]) -> list[PartitionPosition]:
    return [one for one in partitions if one.run is None and one.offset < 0]


def _add(found: dict[PartitionPosition, _Beginning], offsets: dict[PartitionPosition, int]) -> None:
    for one, offset in offsets.items():
        found[one] = _Beginning(offset)
