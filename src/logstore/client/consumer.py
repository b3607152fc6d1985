"""An embedded consumer: it reads assigned partitions in turn and keeps its position in each of them.

Responsible for the order of partitions, for waiting on several of them, and for one thread at a time.
`subscription` is responsible for positions, `commits` for commits. Records are read through the store's logs, so a
consumer without a group stores nothing.

Delivery is at least once. With a group and ``enable.auto.commit`` an offset is committed once the records below it
were returned *and* the next ones are requested, and by `close`. That happens at most once in
``auto.commit.interval.ms``. A `with` block that ends with an error does not commit the record being processed.
Records that were not committed are read again.

One thread at a time: concurrent use is detected. `wakeup` may be called by another thread.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from logstore.batch._batch import Record, RecordChain, RecordIterator
from logstore.batch.moments import When, moment_of
from logstore.client.backend.backend import Backend
from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.backend.partitions import PartitionCursor
from logstore.client.commits import Commits, OnCommit
from logstore.client.group_subscription import GroupSubscription, Listener, OnPartitions
from logstore.client.partition_position import PartitionPosition
from logstore.client.subscription import Followed, Subscription, Wanted
from logstore.clock import seconds_of
from logstore.config.client import ConsumerConfig
from logstore.config.log import Setting
from logstore.errors import (
    ConcurrentUseError,
    ConsumerClosedError,
    ConsumerError,
    InvalidGroupError,
    InvalidOffsetError,
    LogstoreError,
    StoreClosedError,
    WakeupError,
)
from logstore.groups.offsets import OffsetAndMetadata, check_group, is_whole
from logstore.groups.resume import not_behind_its_epoch
from logstore.io._interrupts import held, kept, shielded, undone
from logstore.io._notifier import Notifier
from logstore.records import INT64_MAX, Ack, TimestampOffset, TopicPartition
from logstore.renamed import keep_names, warn

_logger = logging.getLogger(__name__)

#: The most bytes of one read. Larger pieces leave the processor's cache before they are decoded, and each
#: costs fresh pages of memory (benchmarks/test_consumer.py: a quarter slower with 1 MiB).
READ_BYTES = 256 << 10


def _take_back(taken: list[tuple[PartitionPosition, int]]) -> None:
    for partition, offset in taken:
        partition.take_back(offset)


class Consumer:
    """A consumer that reads partitions of a store from any position and keeps the positions of its group.

    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=2)
    ...     at = flights.append(b"AA 1141", key=b"AA")
    ...     with store.consumer(group="billing", auto_offset_reset="earliest") as consumer:
    ...         consumer.assign_topics(["flights"])
    ...         [record.value for record in consumer.poll()]
    [b'AA 1141']

    Owns: nothing; the logs are the store's. Only `close` commits what is left to commit.
    """

    def __init__(
        self,
        backend: Backend,
        config: ConsumerConfig | None = None,
    ) -> None:
        self._config = ConsumerConfig() if config is None else config
        self._backend = backend
        self._clock = backend.clock
        self._isolation = self._config.isolation
        self._notifier = Notifier(clock=self._clock)
        self._fetcher = backend.fetcher(self._config, self._notifier)
        self._subscription = Subscription(backend, self._config, self._fetcher)
        self._rules = self._subscription.rules
        self._rules.wake = weakref.WeakMethod(self._look_around)
        self._commits = Commits(backend, self._config, self._subscription)
        if self._commits.group:
            backend.offsets.pin(self._commits.group, self)
        self._group: GroupSubscription | None = None  # once `subscribe` was called
        self._leaving: GroupSubscription | None = None
        self._in_use = threading.Lock()
        self._closed = False
        self._handed: RecordIterator | None = None  # the run that a loop is reading
        self._woken = False
        self._store_ends = False
        self._looked_s = self._clock.monotonic_s()
        self._found_there: object = None  #: what was known of topics when every assigned one was there
        backend.add_reader(self)

    # -- partitions

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions from now on, and no others.

        A partition that was assigned before keeps its position. The others begin at their group's committed
        offset, else where ``auto.offset.reset`` says. On an error nothing has changed. A topic's name among them
        is taken as in `assign_topics`, with a DeprecationWarning.

        Raises:
            UnknownTopicError, UnknownPartitionError: one of them does not exist.
        """
        given: Any = partitions
        wanted: list[Wanted] = [given] if isinstance(given, str) else list(given)
        topics = [each for each in wanted if isinstance(each, str)]
        if topics:
            warn("Consumer.assign with the name of a topic", "Consumer.assign_topics")
        self._assign(wanted, topics)

    def assign_topics(self, topics: str | Iterable[str]) -> None:
        """Read all partitions of these topics from now on, those that they get later included, and no others.

        Partitions begin as in `assign`; one that is added later begins at offset 0.

        Raises:
            UnknownTopicError: one of them does not exist.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        self._assign(names, names)

    def _assign(self, wanted: Iterable[Wanted], topics: Iterable[str]) -> None:
        with self._use_alone():
            followed = self._subscription.topics(topics)
            self._read(self._subscription.named(wanted), followed)

    def _assign_share(self, topic: str, partition_count: int, turn: int, shares: int) -> None:
        """Read one of ``shares`` shares of a topic, and no others, also if the topic has fewer partitions.

        The first ``partition_count`` partitions are assigned in ranges, those that are added later in turn.
        """
        share = range(turn * partition_count // shares, (turn + 1) * partition_count // shares)
        with self._use_alone():
            followed = self._subscription.share(topic, partition_count, turn, shares)
            self._read([TopicPartition(topic, number) for number in share], followed)

    def _read(self, names: Iterable[TopicPartition], followed: dict[str, Followed]) -> None:
        """Read these partitions from now on, and no others. On an error nothing has changed."""
        if self._group is not None:
            raise ConsumerError("the group assigns partitions to this consumer; call unsubscribe() before assign()")
        partitions = self._subscription.prepare(names)
        self._commits.settle_now()
        self._subscription.replace(partitions, followed)

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Read the partitions of these topics that the group assigns to this consumer, from now on.

        A compiled pattern stands for all topics whose whole name matches it, those made later included: they are
        found within ``metadata.max.age.ms``. The members of the group divide the partitions among them, and divide
        again when members come and go. `poll` and `records` take part in that: a consumer that calls neither for
        ``max.poll.interval.ms`` loses its partitions.

        The callbacks get a list of partitions, run inside `poll`, `records` and `close`, and may commit, seek and
        pause. ``on_assigned`` is called before the first record of new partitions, also if there are none.
        ``on_revoked`` is called before other members get partitions; with auto commit their offsets are committed
        before. ``on_lost`` is called instead where others may have them already, and it is too late to commit;
        without it ``on_revoked`` is. Subscribing again changes the topics; to none is `unsubscribe`.

        Raises:
            InvalidGroupError: the consumer has no group.
            ConsumerError: partitions were assigned by `assign`.
            UnsupportedOperationError: the groups of a store assign no partitions.
        """
        wanted = topics if isinstance(topics, re.Pattern) else {topics} if isinstance(topics, str) else set(topics)
        if not wanted:
            self.unsubscribe()
            return
        with self._use_alone():
            self._commits.named_group()
            if self._group is None:
                if self._subscription.partitions:
                    raise ConsumerError(
                        "the consumer has partitions by assign(); call store.consumer() for another to subscribe"
                    )
                membership = self._backend.membership(self._config, self._notifier)
                self._group = GroupSubscription(membership, self._commits, self._subscription)
                self._commits.member = membership
            self._group.listener = Listener(on_assigned, on_revoked, on_lost)
            self._group.membership.subscribe(wanted)

    def unsubscribe(self) -> None:
        """Leave the group, after commits as in `close`; the consumer may subscribe or assign again."""
        with self._use_alone():
            if self._group is None:
                return
            try:
                self._commits.settle_now()
            finally:
                self._leave_group()

    def _leave_group(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            self._leaving = group
            try:
                group.end()
            finally:
                self._leaving = None
                self._subscription.replace({}, {})

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return frozenset(self._subscription.partitions)

    def pause(self, *partitions: Wanted) -> None:
        """Return no records of these partitions (default: of all) until `resume`; positions are kept."""
        with self._use():
            chosen = self._subscription.chosen(partitions)
            for partition in chosen:
                partition.paused = True
                partition.stop()
            self._fetcher.want([each.cursor for each in chosen], is_wanted=False)

    def resume(self, *partitions: Wanted) -> None:
        """End `pause`, for these partitions or for all."""
        with self._use():
            chosen = self._subscription.chosen(partitions)
            for partition in chosen:
                partition.paused = False
                if partition.position < 0:
                    self._subscription.may_have_grown = True  # where they begin is asked for all at once
            # A poll that finds records of others tells the fetcher nothing, and this one may have none ahead.
            self._fetcher.want([each.cursor for each in chosen], is_wanted=True)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(name for name, each in self._subscription.partitions.items() if each.paused)

    # -- positions

    def position(self, partition: Wanted) -> int:
        """Return the offset of the next record that will be handed out.

        Raises:
            NotAssignedError: the partition is not assigned.
            NoOffsetError: there is neither a committed offset nor a rule where to begin.
        """
        with self._use():
            found = self._subscription.one(partition)
            self._rules.find([found])
            return found.position

    def seek(self, partition: Wanted, offset: int | OffsetAndMetadata) -> None:
        """Seek to the record at ``offset``, or the next one after it if there is none.

        An offset outside the log is only noticed by the next read, which then does as ``auto.offset.reset`` says.
        An `OffsetAndMetadata` has the epoch of the record before it; `committed` returns such offsets, and
        programs store them. It is compared with the log. A power cut may have removed records acknowledged as
        written only, and others may have their offsets now: the position is then below it.

        Raises:
            NotAssignedError: the partition is not assigned.
            InvalidOffsetError: the offset is no whole number from 0 on.
        """
        to = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if not is_whole(to.offset) or to.offset < 0:
            raise InvalidOffsetError(f"an offset is a whole number from 0 on, found {to.offset!r}")
        with self._use():
            found = self._subscription.one(partition)
            found.go_to(not_behind_its_epoch(found.cursor, to.offset, to.leader_epoch), to.leader_epoch)

    def seek_to_beginning(self, *partitions: Wanted) -> None:
        """Seek to the oldest record that is kept, in these partitions or in all."""
        self._go_to(partitions, self._rules.starts)

    def seek_to_end(self, *partitions: Wanted) -> None:
        """Seek past the last record, in these partitions or in all."""
        self._go_to(partitions, self._rules.ends)

    def seek_to_time(self, timestamp: When, *partitions: Wanted) -> None:
        """Seek to the first record of this time or later, else to the end.

        ``timestamp`` is milliseconds, an aware datetime, or an age: a timedelta, or a text such as ``"-2h"``.
        """
        wanted = moment_of(timestamp, self._clock)
        self._go_to(partitions, lambda chosen: self._rules.offsets_at(chosen, wanted))

    def _go_to(
        self,
        partitions: tuple[Wanted, ...],
        offsets_in: Callable[[list[PartitionPosition]], dict[PartitionPosition, int]],
    ) -> None:
        with self._use():
            for partition, offset in offsets_in(self._subscription.chosen(partitions)).items():
                partition.go_to(offset)

    def beginning_offsets(self, partitions: Iterable[Wanted]) -> dict[TopicPartition, int]:
        """Return the oldest offsets that are kept; the partitions need not be assigned."""
        return self._backend.start_offsets(self._named(partitions))

    def end_offsets(self, partitions: Iterable[Wanted]) -> dict[TopicPartition, int]:
        """Return the offsets that the next visible records will get; the partitions need not be assigned."""
        return self._backend.end_offsets(self._named(partitions), self._isolation)

    def offsets_for_times(self, times: Mapping[Wanted, When]) -> dict[TopicPartition, TimestampOffset | None]:
        """Return the first record of each partition that has this time or a later one, or None."""
        moments = {
            name: moment_of(when, self._clock) for wanted, when in times.items() for name in self._named([wanted])
        }
        return self._backend.offsets_for_times(moments, self._isolation)

    def _named(self, partitions: Iterable[Wanted]) -> list[TopicPartition]:
        self._check_open()
        return self._subscription.named(partitions)

    # -- reading

    @undone(_take_back)
    def poll(self, timeout_s: float | None = 0.0, max_records: int | None = None) -> list[Record]:
        """Return the next records, at most ``max_records`` (default ``max.poll.records``), in a list.

        Available records are returned at once; if there are none, the call waits for up to ``timeout_s``
        (None or infinity: without limit). Each call begins with another partition, so that a busy one
        cannot starve the others; records of one partition come in order. The records of the
        previous call count as processed.

        On a cluster, a call that has to find out where partitions begin waits for brokers up to
        ``default.api.timeout.ms``, even beyond ``timeout_s``. Once one partition has a position, those whose leader
        does not answer are left to later calls, after a second at most.

        Raises:
            NotAssignedError: `assign` was not called.
            OffsetOutOfRangeError, NoOffsetError: ``auto.offset.reset`` is none, and that is needed.
            CorruptRecordError: a stored batch is damaged; names file and position. The next call raises again.
            UnsupportedCodecError: a batch has a codec that is unknown or not installed. The next call raises again;
                `seek` passes the batch.
            UnknownTopicError: an assigned topic was deleted.
            BrokerUnreachableError, BrokerTimeoutError: no broker has told where any partition begins. The next
                call asks again.
            WakeupError: another thread has called `wakeup`.
            ConcurrentUseError: another thread is using this consumer.
            and, with auto commit of a store, the errors of `commit`. On a cluster these commits are not waited for:
            a refused one is logged, and the next one has its records too.
        """
        limit = check_limit(self._config.max_poll_records if max_records is None else max_records)
        deadline = self._clock.deadline_s(timeout_s)
        # After an interrupt, up to the return, the list is lost, and the positions are behind its records.
        taken: list[tuple[PartitionPosition, int]] = kept()
        with self._use_alone():
            self._check_reads()
            self._commits.settle()
            while True:
                self._check_woken()
                self._look_for_partitions()
                taken.clear()
                records = self._take(limit, taken)
                if records or not self._wait(deadline):
                    return records

    def _take(self, limit: int, taken: list[tuple[PartitionPosition, int]]) -> list[Record]:
        """Return the next records; add the positions to ``taken`` before they move."""
        records: list[Record] = []
        for partition in self._in_turn():
            try:
                while len(records) < limit:
                    run = self._rules.run_of(partition, self._read_bytes(), self._subscription.turns)
                    if run is None:
                        break
                    taken.append((partition, run.position))
                    records.extend(run.allow(limit - len(records)))
            except LogstoreError:
                # Records of other partitions are past their positions, so they are returned before the error.
                if not records:
                    raise
                self._subscription.turns = [partition, *self._subscription.turns[:-1]]
                break
            if len(records) >= limit:
                break
        return records

    def _in_turn(self) -> Iterator[PartitionPosition]:
        """Yield each position that may have records, beginning with the next turn; it then has the last turn."""
        subscription = self._subscription
        turns = subscription.turns
        for at, partition in enumerate(turns, 1):
            # The whole cost of an idle partition.
            if partition.end is not None and partition.run is None and partition.end.value == partition.offset:
                continue
            # In one step: an interrupt between two would leave a partition out for good.
            subscription.turns = [*turns[at:], *turns[:at]]
            yield partition

    def _read_bytes(self) -> int:
        """Return the most bytes of one read: all partitions together hold at most fetch.max.bytes."""
        share = self._config.fetch_max_bytes // max(len(self._subscription.partitions), 1)
        return max(1, min(self._config.max_partition_fetch_bytes, share, READ_BYTES))

    def _wait(self, deadline: float | None) -> bool:
        """Wait until there may be new records; return False at the deadline."""
        self._check_exists()
        left = None if deadline is None else deadline - self._clock.monotonic_s()
        if left is not None and left <= 0:
            return False
        look_s = self._backend.look_s
        if self._group is not None:
            look_s = min(self._group.membership.poll_s, look_s or math.inf)
            if self._group.membership.has_change():
                return True
        if look_s is not None:
            left = look_s if left is None else min(left, look_s)
        return self._fetcher.wait(self._waiting(), left) or deadline is None or self._clock.monotonic_s() < deadline

    def _check_exists(self) -> None:
        """Raise if a topic was deleted, whose log would never get another record."""
        known = self._backend.topics_known()
        # One is still asked for where nothing has changed: the store may have been closed.
        turns = self._subscription.turns[:1] if known is self._found_there else self._subscription.turns
        for partition in turns:
            self._rules.check_exists(partition)
        self._found_there = known

    def _look_for_partitions(self) -> None:
        if self._group is not None:
            self._group.follow()
        # Nothing notifies this process of new partitions, since another one writes.
        look_s = self._backend.look_s
        if look_s is not None and self._clock.monotonic_s() - self._looked_s >= look_s:
            self._looked_s = self._clock.monotonic_s()
            self._backend.look_again(self._subscription.topic_names())
            self._subscription.may_have_grown = True
        if self._subscription.may_have_grown:
            self._subscription.follow()

    def _look_around(self) -> None:
        """Make a waiting call check its topics for new partitions, and for positions. For another thread."""
        self._subscription.may_have_grown = True
        self._notifier.notify()

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
        ...     consumer.assign_topics(["flights"])
        ...     [record.value for record in consumer.records(timeout_s=0)]
        [b'AA 1141']

        Raises:
            as `poll`.
        """
        self._check_open()
        self._check_reads()
        return RecordChain(self._runs(seconds_of(timeout_s)))

    def _runs(self, timeout_s: float | None) -> Generator[RecordIterator, None, None]:
        deadline = self._clock.deadline_s(timeout_s)
        while not self._closed:
            with self._use_alone():
                self._handed = None
                self._check_reads()
                self._commits.settle()
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
        for partition in self._in_turn():
            run = self._rules.run_of(partition, self._read_bytes(), self._subscription.turns)
            if run is not None:
                # Offsets are committed between two turns; without automatic commits a turn is all that was read.
                # A member has to poll now and then, too.
                is_short = self._commits.are_automatic or self._group is not None
                return run.allow(self._config.max_poll_records if is_short else INT64_MAX)
        return None

    # -- for an event loop (`logstore.aio`), where no thread may wait

    def _ready(self) -> list[RecordIterator]:
        """Return runs of records that are available now, one for each partition that has any, without waiting.

        None is handed out yet: records not taken from a run come again in a later one. The records
        taken before count as processed. Raises as `poll`.
        """
        with self._use_alone():
            self._check_reads()
            self._commits.settle()
            self._check_woken()
            self._look_for_partitions()
            self._subscription.turns = [*self._subscription.turns[1:], *self._subscription.turns[:1]]
            runs: list[RecordIterator] = []
            for number, partition in enumerate(self._subscription.turns):
                try:
                    run = self._rules.run_of(partition, self._read_bytes(), self._subscription.turns)
                except LogstoreError:
                    if not runs:
                        raise
                    # The other partitions' records come first; the next call begins with this one and raises.
                    first, *others = self._subscription.turns[:number]
                    self._subscription.turns = [first, partition, *others, *self._subscription.turns[number + 1 :]]
                    break
                if run is not None:
                    runs.append(run)
            if not runs:
                self._check_exists()
            return runs

    def _listen(self, notifier: Notifier) -> None:
        """Have this notifier notified from now on: of records, of new partitions (`_has_grown`) and by `wakeup`."""
        self._notifier = notifier
        self._fetcher.listen(notifier)
        if self._group is not None:
            self._group.membership.listen(notifier)

    def _begin_wait(self) -> PartitionFetcher | None:
        """Begin a wait for records beyond the current positions; None if there may be some now. Does no I/O."""
        is_waiting = self._fetcher.begin(self._waiting()) and not self._has_grown() and not self._woken
        return self._fetcher if is_waiting else None

    @property
    def _poll_s(self) -> float | None:
        """How long a member of a group may wait before it calls `_ready` again; None: without limit."""
        return None if self._group is None else self._group.membership.poll_s

    def _waiting(self) -> list[tuple[PartitionCursor, int]]:
        partitions = self._subscription.partitions.values()
        return [(each.cursor, each.position) for each in partitions if not each.paused and each.position >= 0]

    def _has_grown(self) -> bool:
        """Tell whether there may be new partitions that the consumer has not looked for. Does no I/O."""
        return self._subscription.may_have_grown or (
            self._group is not None and self._group.membership.has_change()
        )

    def wakeup(self) -> None:
        """Make a waiting call, a loop, or else the next call, raise `WakeupError`. For another thread.

        A loop hands out no further record, and none is lost: the next call continues with it.
        """
        self._woken = True
        handed = self._handed
        if handed is not None:
            handed.allow(0)
        self._notifier.notify()

    def _end_with_store(self) -> None:
        """Wake up as `wakeup` does, for a store that is closing: a waiting call raises `StoreClosedError`."""
        self._store_ends = True
        self.wakeup()

    def _check_woken(self) -> None:
        if self._woken:
            self._woken = False
            if self._store_ends:
                raise StoreClosedError(
                    "the store was closed while its records were read; call logstore.open() again",
                    path=self._backend.location,
                )
            raise WakeupError("wakeup() was called; call again to go on, or close()")

    # -- committing

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        ack: Ack | str | None = None,
        wait: bool = True,
        on_commit: OnCommit | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Store the group's offsets: by default the next one after every record that was handed out.

        That applies to every assigned partition, from the first poll on, also where nothing has been read yet.
        An offset is that of the next record to read. A commit before processing means at most once,
        afterwards at least once. With ``ack="synced"`` it survives power loss; the
        default is the ``logstore.ack`` of ``__consumer_offsets``. Returns the stored offsets.

        With ``wait=False`` the offsets are stored later, in the order of the calls, and nothing is durable on
        return. A commit that is waited for, `close` and the loss of partitions to other members wait for all
        earlier ones. ``on_commit(offsets, error)`` is then called by the next `poll`, `records`, `commit` or
        `close`, with None for no error; it may commit again. Without it that call raises the error, but for those
        that say that the group divides its partitions: these are logged, as with auto commit.

        Raises:
            InvalidGroupError: the consumer has no group.
            UnknownTopicError: an assigned topic was deleted, or created again since. Nothing was stored.
            InvalidOffsetError, OffsetMetadataTooLargeError: nothing was stored.
            OwnerTimeoutError, ReadOnlyError: nothing was stored; see `CommittedOffsets.commit`.
            DiskFullError: the disk is full; nothing was stored. Retry when there is space.
        """
        with self._use():
            return self._commits.store(offsets, ack, wait=wait, on_commit=on_commit)

    def committed(
        self, partitions: Iterable[Wanted] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions or the assigned ones; None where there is none.

        Raises:
            InvalidGroupError: the consumer has no group.
        """
        with self._use():
            subscription = self._subscription
            return self._commits.stored(
                subscription.partitions if partitions is None else subscription.named(partitions)
            )

    # -- life

    def close(self) -> None:
        """Commit what was handed out, if auto commit is on, and close. May be called again.

        In a group that is dividing its partitions, this commit waits for that, half a minute at most.

        Raises:
            the errors of `commit`; the consumer is closed all the same.
        """
        self._close(processed=True)

    def _abandon(self) -> None:
        """Close as after an error, committing only what is known to be processed."""
        self._close(processed=False)

    def _close(self, *, processed: bool) -> None:
        if not self._closed:
            shielded(self._end, processed)

    def _end(self, processed: bool) -> None:
        with self._use_alone():
            for partition in self._subscription.turns:
                partition.stop()
            try:
                if processed:
                    self._commits.settle_now()
                else:
                    self._commits.settle_all_but_the_last(self._handed)
            finally:
                try:
                    self._leave_group()
                    self._commits.tell()
                finally:
                    self._closed = True
                    self._fetcher.close()
                    self._backend.offsets.unpin(self)

    # -- one thread at a time

    def _use(self) -> AbstractContextManager[None]:
        """Use the consumer, in a callback of `subscribe` too."""
        return nullcontext() if self._is_in_callback() else self._use_alone()

    def _use_alone(self) -> held:
        refusal = _used_in_callback if self._is_in_callback() else _used_elsewhere
        return held(self._in_use, refusal=refusal, check=self._check_open)

    def _is_in_callback(self) -> bool:
        group = self._group or self._leaving
        callers = (self._commits.calling, None if group is None else group.calling)
        return threading.get_ident() in callers

    def _check_reads(self) -> None:
        if self._group is None:
            self._subscription.check_assigned()

    def _check_open(self) -> None:
        if self._closed:
            raise ConsumerClosedError("the consumer is closed; call store.consumer() for another")

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
            _logger.warning("not committed after an error: group=%s error=%s", self._commits.group, error)

    def __repr__(self) -> str:
        partitions = ", ".join(
            f"{name}@{partition.position}" for name, partition in sorted(self._subscription.partitions.items())
        )
        state = "closed" if self._closed else partitions or "unassigned"
        return f"<Consumer {self._commits.group or 'without group'}: {state}>"


def _seek_to_committed(consumer: Consumer, partition: Wanted, offset: int, leader_epoch: int) -> int:
    consumer.seek(partition, OffsetAndMetadata(offset, leader_epoch=leader_epoch))
    return consumer.position(partition)


def _positions(consumer: Consumer) -> dict[TopicPartition, int]:
    with consumer._use():
        return consumer._subscription.positions()


#: Names of the last release.
FORMER: dict[str, tuple[str, str | Callable[..., Any]]] = {
    **{
        name: ("private", f"_{name}") for name in ("abandon", "end_with_store", "has_grown", "look_around", "ready")
    },
    "assign_share": ("Consumer.assign", "_assign_share"),
    "config": ("the settings given to store.consumer()", "_config"),
    "leader_epoch": ("OffsetAndMetadata.leader_epoch", "_subscription.leader_epoch"),
    "positions": ("Consumer.position", _positions),
    "seek_to_committed": ("Consumer.seek with an OffsetAndMetadata", _seek_to_committed),
    "seek_to_stored": ("Consumer.seek with an OffsetAndMetadata", _seek_to_committed),
    "topic_id": ("OffsetAndMetadata.topic_id", lambda self, *given: self._subscription.one(*given).topic_id),
    "was_added": ("Store.describe_topic", "_subscription.was_added"),
}
keep_names("Consumer", FORMER)(Consumer)


def _used_in_callback() -> ConcurrentUseError:
    return ConcurrentUseError(
        "a callback of subscribe() or commit() runs; call commit(), seek() or pause() in it, and nothing else of "
        "the consumer"
    )


def _used_elsewhere() -> ConcurrentUseError:
    return ConcurrentUseError(
        "another thread is using this consumer; give each thread its own, or call wakeup() to interrupt it"
    )


def check_limit(max_records: int) -> int:
    """Return ``max_records``, or raise if it is no valid number of records for a poll."""
    if not is_whole(max_records) or max_records < 1:
        raise InvalidOffsetError(f"max_records is a whole number from 1 on, found {max_records!r}")
    return max_records


def open_consumer(
    backend: Backend,
    group: str | None,
    config: ConsumerConfig | Mapping[str, Setting] | None,
    more_settings: Mapping[str, Setting],
) -> Consumer:
    """Open a consumer with settings from several places; ``group`` is short for ``group.id``."""
    kind = backend.consumer_config
    if isinstance(config, ConsumerConfig):
        config = config._said()
    if config is None or isinstance(config, Mapping):
        given = config or {}
        names = {key.replace(".", "_") for key in given}
        below = {name: value for name, value in backend.consumer_defaults.items() if name not in names}
        config = {**below, **given}
    settings = kind.of(config, **more_settings)
    if group is not None:
        if settings.group_id not in ("", check_group(group)):
            raise InvalidGroupError(f"group {group!r} was asked for, but group.id says {settings.group_id!r}")
        settings = settings.replace(group_id=group)
    return Consumer(backend, settings)
