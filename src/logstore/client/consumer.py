"""An embedded consumer: it reads assigned partitions in turn and keeps its position in each of them.

This module is responsible for the order of partitions, waiting for several of them, and automatic commits;
positions belong to `subscription`. Records are read through the store's logs, so a consumer without a group
stores nothing.

Delivery is at least once. With a group and ``enable.auto.commit`` an offset is committed once the
records below it have been handed out *and* the next ones are asked for, at the earliest every
``auto.commit.interval.ms``, and by `close`. A `with` block that ends with an error does not commit the record
being processed. Records that were not committed are read again.

One thread at a time: concurrent use is detected. `wakeup` may be called by another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from logstore.batch._batch import Record, RecordChain, RecordIterator
from logstore.client.backend import Source
from logstore.client.offsets import CommittedOffsets
from logstore.client.partition_position import PartitionPosition
from logstore.client.subscription import Subscription, Wanted
from logstore.clock import seconds_of
from logstore.config.client import ConsumerConfig
from logstore.config.log import Setting
from logstore.config.schema import INT64_MAX
from logstore.errors import (
    InvalidGroupError,
    InvalidOffsetError,
    LogstoreError,
    StoreClosedError,
    UnknownTopicError,
    WakeupError,
)
from logstore.groups.offsets import OffsetAndMetadata, check_group, is_whole
from logstore.io._interrupts import shielded
from logstore.log.read.wait import OffsetListener, wait_for_any
from logstore.log.watermark import Notifier
from logstore.records import Ack, TopicPartition

_logger = logging.getLogger(__name__)

#: The most bytes of one read. Larger pieces leave the processor's cache before they are decoded, and each
#: costs fresh pages of memory (benchmarks/test_consumer.py: a quarter slower with 1 MiB).
READ_BYTES = 256 << 10

#: How often a waiting reader in another process than the writer checks that its topics still exist.
LOOK_AROUND_S = 1.0


class Consumer(Subscription):
    """A consumer that reads partitions of a store from any position and keeps the positions of its group.

    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=2)
    ...     at = flights.append(b"AA 1141", key=b"AA")
    ...     with store.consumer("billing", auto_offset_reset="earliest") as consumer:
    ...         consumer.assign(["flights"])
    ...         [record.value for record in consumer.poll()]
    [b'AA 1141']

    Owns: nothing; the logs are the store's. Only `close` commits what is left to commit.
    """

    def __init__(
        self,
        store: Source,
        config: ConsumerConfig | None = None,
        *,
        offsets: CommittedOffsets,
    ) -> None:
        super().__init__(store, ConsumerConfig() if config is None else config, offsets)
        self._clock = store.clock
        self._offsets = offsets
        self._group = self.config.group_id
        self._commits_itself = bool(self._group) and self.config.enable_auto_commit
        if self._group:
            check_group(self._group)
            if self._commits_itself:
                offsets.check_writable(self._group)
            offsets.hold(self._group, self)
        self._handed: RecordIterator | None = None  # the run that a loop is reading
        self._notifier = Notifier(clock=self._clock)
        self._notify: Callable[[], None] | None = None
        self._woken = False
        self._store_ends = False
        self._committed_s = self._clock.monotonic_s()
        self._renew_s = self._committed_s + offsets.retention_ms / 4000
        self._look_again_s = self._committed_s + LOOK_AROUND_S
        self._found_there: object = None  #: what was known of topics when every assigned one was there

    # -- reading

    def poll(self, timeout_s: float | None = 0.0, max_records: int | None = None) -> list[Record]:
        """Return the next records, at most ``max_records`` (default ``max.poll.records``), in a list.

        Available records are returned at once; if there are none, the call waits for up to ``timeout_s``
        (None or infinity: without limit). Each call begins with another partition, so that a busy one
        cannot starve the others; records of one partition come in order. The records of the
        previous call count as processed.

        Raises:
            NotAssignedError: `assign` was not called.
            OffsetOutOfRangeError, NoOffsetError: ``auto.offset.reset`` is none, and that is needed.
            CorruptRecordError: a stored batch is damaged; names file and position. The next call raises again.
            UnknownTopicError: an assigned topic was deleted.
            WakeupError: another thread has called `wakeup`.
            ConcurrentUseError: another thread is using this consumer.
            and, with auto commit, the errors of `commit`.
        """
        limit = check_limit(self.config.max_poll_records if max_records is None else max_records)
        deadline = self._clock.deadline_s(timeout_s)
        with self._use():
            self._check_assigned()
            self._settle_and_commit()
            while True:
                self._check_woken()
                self._look_for_partitions()
                records = self._take(limit)
                if records or not self._wait(deadline):
                    return records

    def _take(self, limit: int) -> list[Record]:
        records: list[Record] = []
        for place in self._in_turn():
            try:
                while len(records) < limit:
                    run = self._reading.run_of(place, self._read_bytes())
                    if run is None:
                        break
                    records.extend(run.allow(limit - len(records)))
            except LogstoreError:
                # Records of other partitions are past their positions, so they are returned before the error.
                if not records:
                    raise
                self._turns = [place, *self._turns[:-1]]
                break
            if len(records) >= limit:
                break
        return records

    def _in_turn(self) -> Iterator[PartitionPosition]:
        """Yield each position that may have records, beginning with the next turn; it then has the last turn."""
        turns = self._turns
        for at, place in enumerate(turns, 1):
            # The whole cost of an idle partition.
            if place.end is not None and place.run is None and place.end.value == place.offset:
                continue
            # In one step: an interrupt between two would leave a partition out for good.
            self._turns = [*turns[at:], *turns[:at]]
            yield place

    def _read_bytes(self) -> int:
        """Return the most bytes of one read: all partitions together hold at most fetch.max.bytes."""
        share = self.config.fetch_max_bytes // max(len(self._places), 1)
        return max(1, min(self.config.max_partition_fetch_bytes, share, READ_BYTES))

    def _wait(self, deadline: float | None) -> bool:
        """Wait until there may be new records; return False at the deadline."""
        self._check_there()
        left = None if deadline is None else deadline - self._clock.monotonic_s()
        if left is not None and left <= 0:
            return False
        if self._store.read_only:
            left = LOOK_AROUND_S if left is None else min(left, LOOK_AROUND_S)
        waiting = [(place.log, place.position) for place in self._places.values() if not place.paused]
        return (
            wait_for_any(waiting, self._isolation, self._notifier, self._clock, left)
            or deadline is None
            or self._clock.monotonic_s() < deadline
        )

    def _check_there(self) -> None:
        """Raise if a topic was deleted, whose log would never get another record."""
        known = self._store._topics_known()
        # One is still asked for where nothing has changed: the store may have been closed.
        turns = self._turns[:1] if known is self._found_there else self._turns
        for place in turns:
            self._reading.check_there(place)
        self._found_there = known

    def _look_for_partitions(self) -> None:
        # The writer is another process and does not notify this one of new partitions.
        if self._store.read_only and self._clock.monotonic_s() >= self._look_again_s:
            self._look_again_s = self._clock.monotonic_s() + LOOK_AROUND_S
            self._store.topics()
            self._may_have_grown = True
        if self._may_have_grown:
            self._follow()

    def look_around(self) -> None:
        """Make a waiting call check its topics for new partitions. For another thread."""
        self._may_have_grown = True
        self._notifier.notify()
        notify = self._notify
        if notify is not None:
            notify()

    def __iter__(self) -> Iterator[Record]:
        """Iterate over all records; wait at the end for more, until `close`. See `records`."""
        return self.records()

    def records(self, timeout_s: float | None = None) -> Iterator[Record]:
        """Iterate over records; end when none has arrived for ``timeout_s`` (None: never).

        The fastest way to read many records. A record counts as processed when the next one is asked for;
        partitions take turns. `seek`, `pause` and `commit` may be called in the loop.

        >>> with logstore.open(tmp / "data") as store:
        ...     at = store.create_topic("flights").append(b"AA 1141")
        ...     consumer = store.consumer(auto_offset_reset="earliest")
        ...     consumer.assign(["flights"])
        ...     [record.value for record in consumer.records(timeout_s=0)]
        [b'AA 1141']

        Raises:
            as `poll`.
        """
        self._check_assigned()
        return RecordChain(self._runs(seconds_of(timeout_s)))

    def _runs(self, timeout_s: float | None) -> Generator[RecordIterator, None, None]:
        deadline = self._clock.deadline_s(timeout_s)
        while not self._closed:
            with self._use():
                self._handed = None
                self._check_assigned()
                self._settle_and_commit()
                self._check_woken()
                self._look_for_partitions()
                run = self._next_run()
                if run is None:
                    if not self._wait(deadline):
                        return
                    continue
                self._handed = run
                if self._woken:
                    # A wakeup during the read: either `wakeup` has seen the run, or this sees the wakeup.
                    run.allow(0)
            yield run
            if deadline is not None:
                deadline = self._clock.deadline_s(timeout_s)

    def _next_run(self) -> RecordIterator | None:
        for place in self._in_turn():
            run = self._reading.run_of(place, self._read_bytes())
            if run is not None:
                # Offsets are committed between two turns; without automatic commits a turn is all that was read.
                return run.allow(self.config.max_poll_records if self._commits_itself else INT64_MAX)
        return None

    # -- for an event loop (`logstore.aio`), where no thread may wait

    def ready(self) -> list[RecordIterator]:
        """Return runs of records that are available now, one for each partition that has any, without waiting.

        None is handed out yet: records not taken from a run come again in a later one. The records
        taken before count as processed. Raises as `poll`.
        """
        with self._use():
            self._check_assigned()
            self._settle_and_commit()
            self._check_woken()
            self._look_for_partitions()
            self._turns = [*self._turns[1:], *self._turns[:1]]
            runs: list[RecordIterator] = []
            for number, place in enumerate(self._turns):
                try:
                    run = self._reading.run_of(place, self._read_bytes())
                except LogstoreError:
                    if not runs:
                        raise
                    # The other partitions' records come first; the next call begins with this one and raises.
                    first, *others = self._turns[:number]
                    self._turns = [first, place, *others, *self._turns[number + 1 :]]
                    break
                if run is not None:
                    runs.append(run)
            if not runs:
                self._check_there()
            return runs

    def listen(self, notify: Callable[[], None]) -> OffsetListener:
        """Return a listener that calls ``notify()`` once there may be records beyond the current positions.

        From now on ``notify()`` is also called when partitions are added; see `has_grown`.
        """
        self._notify = notify
        places = [(place.log, place.position) for place in self._places.values() if not place.paused]
        return OffsetListener(places, self._isolation, notify)

    def has_grown(self) -> bool:
        """Tell whether there may be new partitions that the consumer has not looked for. Does no I/O."""
        return self._may_have_grown

    def wakeup(self) -> None:
        """Make a waiting call, a loop, or else the next call, raise `WakeupError`. For another thread.

        A loop hands out no further record, and none is lost: the next call continues with it.
        """
        self._woken = True
        handed = self._handed
        if handed is not None:
            handed.allow(0)
        self._notifier.notify()

    def end_with_store(self) -> None:
        """Wake up as `wakeup` does, for a store that is closing: a waiting call raises `StoreClosedError`."""
        self._store_ends = True
        self.wakeup()

    def _check_woken(self) -> None:
        if self._woken:
            self._woken = False
            if self._store_ends:
                raise StoreClosedError(
                    "the store was closed while its records were read; call logstore.open() again",
                    path=self._store.path,
                )
            raise WakeupError("wakeup() was called; call again to go on, or close()")

    # -- committing

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        ack: Ack | str | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Store the group's offsets: by default the next one after every record that was handed out.

        That applies to every assigned partition, from the first poll on, also where nothing has been read yet.
        An offset is that of the next record to read. A commit before processing means at most once,
        afterwards at least once. With ``ack="synced"`` it survives power loss; the
        default is the ``logstore.ack`` of ``__consumer_offsets``. Returns the stored offsets.

        Raises:
            InvalidGroupError: the consumer has no group.
            UnknownTopicError: an assigned topic was deleted, or created again since. Nothing was stored.
            InvalidOffsetError, OffsetMetadataTooLargeError: nothing was stored.
            OwnerTimeoutError, ReadOnlyError: nothing was stored; see `CommittedOffsets.commit`.
            DiskFullError: the disk is full; nothing was stored. Retry when there is space.
        """
        with self._use():
            group = self._named_group()
            if offsets is None:
                self._check_assigned()
                given = {p.name: OffsetAndMetadata(p.position) for p in self._places.values() if p.position >= 0}
            else:
                given = {
                    TopicPartition(*name): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
                    for name, each in offsets.items()
                }
            self._offsets.commit(
                group, {name: self._of_its_topic(name, each) for name, each in given.items()}, ack=ack
            )
            for name, each in given.items():
                place = self._places.get(name)
                if place is not None:
                    place.stored = each.offset
                    # An explicitly committed offset counts as processed: a smaller one at the end would undo it.
                    place.done = max(place.done, each.offset)
            return given

    def committed(
        self, partitions: Iterable[Wanted] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions or the assigned ones; None where there is none.

        Raises:
            InvalidGroupError: the consumer has no group.
        """
        with self._use():
            names = list(self._places) if partitions is None else self._named(partitions)
            found = self._offsets.committed(self._named_group(), names)
            return {name: found.get(name) for name in names}

    def _named_group(self) -> str:
        if not self._group:
            raise InvalidGroupError("the consumer has no group; open it with store.consumer('name of the group')")
        return self._group

    def _before_assignment(self) -> None:
        if self._commits_itself:
            self._settle()
            self._commit_done()

    def _settle(self) -> None:
        """Count the records handed out as processed: the caller has asked for more."""
        for place in self._turns:
            place.done = place.position

    def _settle_and_commit(self) -> None:
        if self._store.read_only and self._group and self._clock.monotonic_s() >= self._renew_s:
            self._renew()
        if not self._commits_itself:
            return
        self._settle()
        now = self._clock.monotonic_s()
        if (now - self._committed_s) * 1000 >= self.config.auto_commit_interval_ms:
            self._committed_s = now
            self._commit_done()

    def _commit_done(self) -> None:
        news = {
            p.name: OffsetAndMetadata(p.done, topic_id=p.topic_id)
            for p in self._turns
            if p.done >= 0 and p.done != p.stored and not self._was_made_anew(p)
        }
        if news:
            self._offsets.commit(self._group, news)
            for name, each in news.items():
                self._places[name].stored = each.offset

    def _renew(self) -> None:
        """Commit the group's offsets again. The writing process does not know consumers of other processes, and
        would expire the offsets after offsets.retention.minutes.
        """
        self._renew_s = self._clock.monotonic_s() + self._offsets.retention_ms / 4000
        names = [p.name for p in self._turns if p.stored >= 0 and not self._was_made_anew(p)]
        try:
            found = self._offsets.committed(self._group, names)
            if found:
                self._offsets.commit(
                    self._group, {name: commit._replace(commit_ms=-1) for name, commit in found.items()}
                )
        except LogstoreError as error:
            # A failed renewal is not fatal: three more follow before the offsets expire.
            _logger.warning("offsets not renewed: group=%s error=%s", self._group, error)

    def _of_its_topic(self, name: TopicPartition, given: OffsetAndMetadata) -> OffsetAndMetadata:
        """Return the commit with its topic's id: a later topic of that name begins from scratch."""
        place = self._places.get(name)
        if place is None or given.topic_id:
            return given
        self._reading.check_there(place)
        return given._replace(topic_id=place.topic_id)

    def _was_made_anew(self, place: PartitionPosition) -> bool:
        try:
            return self._store.topic_id(place.name.topic) != place.topic_id
        except UnknownTopicError:
            # A deleted topic: nothing is left to commit for it, and the other topics' offsets are to be committed.
            return True

    # -- life

    def close(self) -> None:
        """Commit what was handed out, if auto commit is on, and close. May be called again.

        Raises:
            the errors of `commit`; the consumer is closed all the same.
        """
        self._close(processed=True)

    def abandon(self) -> None:
        """Close as after an error, committing only what is known to be processed. For the store that closes."""
        self._close(processed=False)

    def _close(self, *, processed: bool) -> None:
        if not self._closed:
            shielded(self._end, processed)

    def _end(self, processed: bool) -> None:
        with self._use():
            self._closed = True
            for place in self._turns:
                place.hold_up()
            try:
                if self._commits_itself:
                    if processed:
                        self._settle()
                    else:
                        self._settle_all_but_the_last()
                    self._commit_done()
            finally:
                self._offsets.let_go(self)

    def _settle_all_but_the_last(self) -> None:
        """Count all but the last record of an interrupted loop as processed.

        How far the caller came in a list returned by `poll` is unknown, so none of it counts.
        """
        for place in self._turns:
            if place.run is not None and place.run is self._handed and not place.run.exhausted:
                place.done = max(place.done, place.run.position - 1)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        if kind is None:
            self._close(processed=True)
            return
        try:
            self._close(processed=False)
        except LogstoreError as error:
            # The error that ended the block is the one to raise; what is not committed is read again.
            _logger.warning("not committed after an error: group=%s error=%s", self._group, error)

    def __repr__(self) -> str:
        places = ", ".join(f"{name}@{place.position}" for name, place in sorted(self._places.items()))
        state = "closed" if self._closed else places or "unassigned"
        return f"<Consumer {self._group or 'without group'}: {state}>"


def check_limit(max_records: int) -> int:
    """Return ``max_records``, or raise if it is no valid number of records for a poll."""
    if not is_whole(max_records) or max_records < 1:
        raise InvalidOffsetError(f"max_records is a whole number from 1 on, found {max_records!r}")
    return max_records


def open_consumer(
    store: Source,
    offsets: CommittedOffsets,
    group: str | None,
    config: ConsumerConfig | Mapping[str, Setting] | None,
    more_settings: Mapping[str, Setting],
) -> Consumer:
    """Open a consumer with settings from several places; ``group`` is short for ``group.id``."""
    settings = ConsumerConfig.of(config, **more_settings)
    if group is not None:
        if settings.group_id not in ("", check_group(group)):
            raise InvalidGroupError(f"group {group!r} was asked for, but group.id says {settings.group_id!r}")
        settings = settings.replace(group_id=group)
    return Consumer(store, settings, offsets=offsets)


__all__ = ["Consumer", "ConsumerConfig"]
