"""Calls of a log for brokers, replicas and transaction coordinators.

They set a leader's high watermark, append a follower's batches, truncate, write markers, and append the runs and
files of a sink. `Log` has the calls of users. A `LogReplica` is made at each use and owns nothing. Any thread may
use it while its log is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.batch._encode import Encoder, encode_marker
from logstore.batch.runs import DEFAULT_READ_BYTES
from logstore.errors import LogstoreError, OffsetOutOfRangeError
from logstore.io._interrupts import held, locked, shielded
from logstore.io._notifier import Notifier
from logstore.log.append import ingest_file
from logstore.log.append._offers import BatchOffers
from logstore.log.append.append import NO_PRODUCER, LogWriter
from logstore.log.append.encoded_run import append_run
from logstore.log.append.ingest_file import Whole
from logstore.log.append.replicated import append_replicated
from logstore.log.cleanup import truncation
from logstore.log.formats.last_stop import LastStop
from logstore.log.marks._watermark import Registration
from logstore.log.marks.policies import HighWatermarkPolicy
from logstore.log.marks.view import FetchedRegion, View
from logstore.log.read.reader import Readable
from logstore.log.read.replica import ReaderReplica, located
from logstore.log.state import State
from logstore.records import (
    INT32_MAX,
    AbortedTransaction,
    Ack,
    AppendResult,
    Isolation,
    Marker,
    Origin,
    ProducerStamp,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


class ActiveProducer(NamedTuple):
    """A producer that a log remembers, see `LogReplica.active_producers`."""

    producer_id: int
    epoch: int
    last_sequence: int  #: of its newest record; -1 if it has written none with a sequence in this epoch
    last_timestamp_ms: int  #: of its newest batch or marker
    coordinator_epoch: int  #: of its newest transaction marker; -1 if it has none
    transaction_first_offset: int | None  #: None without an open transaction


#: An offset above it would leave no room for a batch, see `batch._batch`.
LAST_START = 2**62


class LogReplica(ReaderReplica):
    """The calls of one open log for brokers, replicas and coordinators."""

    __slots__ = ("_state", "_writer")
    log: Readable

    def __init__(self, log: Readable, writer: LogWriter) -> None:
        super().__init__(log)
        self._writer = writer
        self._state = writer.state

    # -- offsets and epochs

    @property
    def next_offset(self) -> int:
        """The base offset of the next append: the log end offset, or a position with offset.mode=bytes."""
        with held(self._state.lock):
            return self._state.next_offset_locked()

    @property
    def leader_epoch(self) -> int:
        """The leader epoch stamped into appended batches."""
        return self._state.leader_epoch

    def begin_epoch(self, epoch: int) -> None:
        """Lead with a leader epoch from the log end offset on: later batches of clients are stamped with it.

        The epoch and its start offset are durable on return, in Kafka's ``leader-epoch-checkpoint``. The epoch that
        the log has already may begin once more: only what is missing of it is recorded.

        Appends wait meanwhile, for one small file and the names of one directory: a batch of the old epoch must not
        follow the entry of the new one.

        Only the layer whose `HighWatermarkPolicy` the log has calls this. A log without one begins an epoch by
        itself when it is opened after an unclean stop.

        Raises:
            FencedLeaderEpochError: ``epoch`` is below one that the log has seen. Nothing has changed.
            ValueError: ``epoch`` is not from 0 to 2**31 - 1.
            DiskFullError, TooManyFilesError: there is no space or no descriptor for the file. Nothing has changed.
            StorageFailedError: the file may not be on the disk; the log takes no more writes.
        """
        if not 0 <= epoch <= INT32_MAX:
            raise ValueError(f"a leader epoch is from 0 to {INT32_MAX}, found {epoch}")
        self._state.check_writable()
        shielded(_begin_epoch, self._state, epoch)

    @property
    def failure(self) -> LogstoreError | None:
        """The error that has stopped the log from taking writes for good; None while it takes them."""
        return self._state.failed

    @property
    def last_stop(self) -> LastStop:
        """How the log was stopped before it was opened, and why that is known.

        After `Stop.CLEAN` and `Stop.PROCESS_DIED` every record that was acknowledged is there. After `Stop.UNCLEAN`
        records that were not synced may be missing, and `Stop.NEW` says only that the log has nothing. What cannot
        be known counts as unclean: another machine's file system, a copy, a system without boot ids. A directory
        that was restored by writing over its files, since the machine started, is not recognized.
        """
        return self._state.durability.last_stop

    def accept_stop(self) -> None:
        """Record that an unclean stop was dealt with, such as by fetching from a leader what was missing.

        Until then each opening reports it, even after a close, unless the log has `StandalonePolicy`. Call this
        after a `flush` of what was fetched: the record says that the log has lost nothing up to now.

        Raises:
            DiskFullError, TooManyFilesError: the record is not written. Nothing has changed.
            StorageFailedError: the write failed; the log takes no more writes.
        """
        self._state.check_writable()
        shielded(_accept_stop, self._state)

    def open_transaction(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction in this log; None if it has none."""
        self._state.check_open()
        with held(self._state.lock):
            found = self._state.transactions.producers.get(producer_id)
            return None if found is None else found.transaction_first_offset

    def producer_epoch(self, producer_id: int) -> int:
        """Return the newest epoch with which a producer has written here; -1 if the producer is unknown."""
        self._state.check_open()
        with held(self._state.lock):
            found = self._state.transactions.producers.get(producer_id)
            return -1 if found is None else found.epoch

    def active_producers(self) -> list[ActiveProducer]:
        """Return the producers with an id that have written here, until ``producer.id.expiration.ms`` after it."""
        self._state.check_open()
        with held(self._state.lock):
            return [
                ActiveProducer(
                    each.producer_id,
                    each.epoch,
                    each.batches[-1].last_sequence if each.batches else -1,
                    each.timestamp_ms,
                    each.coordinator_epoch,
                    each.transaction_first_offset,
                )
                for each in self._state.transactions.producers
            ]

    # -- appending

    def append_batch(
        self, batch: Any, *, ack: Ack | str | None = None, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Write one record batch at the log end offset.

        ``batch`` is a whole v2 record batch. Base offset and leader epoch are set in a copy of its header. Its
        compressed records are kept as they are, unless ``compression.type`` names another codec. With
        ``origin=Origin.REPLICATION`` this is `append_replicated`.

        With ``ack="written"`` the batch is in the page cache on return, with ``"synced"`` on disk; for
        ``logstore.tail=memory`` see `Log.append`. It is visible to consumers only below the high watermark.

        Returns the offsets of its records. For a sequence already written, these are the offsets of the first
        append, with ``duplicate=True``.

        Raises:
            CorruptRecordError: length, magic or CRC-32C disagree with the bytes. Nothing is written.
            InvalidRecordError, InvalidTimestampError, RecordTooLargeError: the batch breaks a rule of
                the log. Nothing is written.
            OutOfOrderSequenceError: a sequence is missing before this one. Nothing is written.
            ProducerFencedError: a newer producer epoch has written here. Nothing is written.
            DiskFullError: there is no space. Nothing is written.
            StorageFailedError: this or an earlier write or flush failed; the log takes no more writes.
        """
        if (
            origin is Origin.CLIENT
            and type(batch) is bytes
            and (ack is None or ack is Ack.SYNCED or ack == "synced")
        ):
            result = self._state.append_plain_batch(batch, self._writer, ack is not None)
            if result is not None:
                return result
        if origin is Origin.REPLICATION:
            return self.append_replicated(batch, ack=ack)
        self._state.check_writable()
        return self._writer.append_batch(batch, origin, ack)

    def append_replicated(
        self,
        run: Buffer,
        *,
        ack: Ack | str | None = None,
        leader_epoch: int = INT32_MAX,
        is_contiguous: bool = False,
    ) -> AppendResult:
        """Write whole record batches as their leader stores them: offsets, epochs and bytes are kept.

        A follower calls this with what it has read from the leader's log. CRC-32C, headers, offsets and epochs are
        checked; records are neither decompressed nor checked, and no size, time or key is refused. Offsets may be
        missing between batches, where the leader has compacted its log, unless ``is_contiguous``. ``leader_epoch``
        is the one in which the leader has answered: no batch is of a newer one. Producer state, transactions and
        leader epochs change as on the leader. ``run`` must not change until the call returns.

        Batches that one segment takes are one write, and readers see them at once. On return they are as durable as
        ``ack`` says, see `append_batch`.

        Returns the first and the last offset of the batches. A bad batch ends the run before it: what comes before
        it is written, and as durable as asked. Then the error is raised, which names its position in the run.

        Raises:
            CorruptRecordError: a batch is cut, or its length or CRC-32C disagrees with its bytes.
            UnsupportedFormatError, InvalidRecordError: a header has values that no v2 batch has, or its leader
                epoch is newer than ``leader_epoch``.
            UnexpectedOffsetError: a batch begins below the log end offset, or inside the batch before it, or with
                ``is_contiguous`` behind it.
            FencedLeaderEpochError: a batch is of an older leader epoch than the batch before it in the log.
            DiskFullError: there is no space for the rest. The batches before it are written.
            StorageFailedError: this or an earlier write failed; the log takes no more writes.
        """
        self._state.check_writable()
        return append_replicated(self._writer, run, ack, leader_epoch, is_contiguous)

    def offers(self) -> BatchOffers:
        """Return what a loop of sockets offers clients' batches to: it appends only what waits for nothing.

        Raises:
            LogClosedError, ForkedError: the log cannot be used.
        """
        self._state.check_open()
        return BatchOffers(self._state, self._writer)

    def append_turn(
        self, batches: Iterable[Buffer], *, ack: Ack | str | None = None
    ) -> list[AppendResult | LogstoreError]:
        """Write record batches of several clients in their order, as `append_batch` writes each.

        Returns, for each batch, its offsets or the error that `append_batch` would have raised; an error of one
        changes nothing for the others. Batches that fit the active segment take one write, and readers see them
        at once, also those whose codec or time the log sets. By itself goes a batch that needs a roll, that the log
        has already, that is out of sequence or begins a transaction. So does each in a log whose tail is in memory,
        or whose offsets are positions. With ``ack="synced"`` one sync follows for all of them.

        Ctrl-C is raised, and the results are lost: some of the batches may be in the log.

        Raises:
            TypeError: one of ``batches`` is no buffer. Nothing is written.
            LogClosedError, ForkedError, StorageFailedError: the log takes no writes. Nothing is written.
        """
        # Copies of buffers that could change while a thread waits for the lock.
        wholes = [batch if type(batch) is bytes else bytes(memoryview(batch)) for batch in batches]
        self._state.check_writable()
        return self._writer.append_turn(wholes, ack)

    def append_encoded(
        self,
        encoder: Encoder,
        *,
        producer: ProducerStamp | None = None,
        ack: Ack | str | None = None,
        expect: int | None = None,
    ) -> AppendResult:
        """Write the finished batches of an encoder, for a caller that fills it itself; raise as `Log.append`.

        With ``producer``, the encoder must hold one batch, whose header names this producer. An encoder with an
        open batch is refused (BufferError): call its `finish`.
        """
        self._state.check_writable()
        memoryview(encoder).release()  # refuses an encoder with an open batch
        return self._writer.append_encoded(encoder, producer, self._state.clock.now_ms(), ack, expect)

    def append_control(
        self,
        marker: Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
        ack: Ack | str | None = None,
    ) -> AppendResult:
        """Write a transaction marker, which commits or aborts the producer's open transaction here.

        Raises:
            ProducerFencedError, CoordinatorFencedError: a newer epoch has written here.
            DiskFullError, StorageFailedError: as `append_batch`.
        """
        batch = encode_marker(
            int(marker), coordinator_epoch, producer_id, producer_epoch, self._state.clock.now_ms()
        )
        return self.append_batch(batch, ack=ack, origin=Origin.COORDINATOR)

    def append_run(
        self, run: bytearray, *, producer: ProducerStamp | None = None, max_timestamp_ms: int
    ) -> AppendResult:
        """Write a run of consecutive whole batches that were encoded elsewhere.

        The caller has checked their records, keys, timestamps and sizes. Offsets, epoch, producer and, with
        log append time, the timestamp are set in ``run`` itself. ``max_timestamp_ms`` is the newest timestamp.
        Compressed records are kept as they are. On return the run is written; `Log.flush` makes it durable.

        Raises:
            CorruptRecordError: a batch is not whole, or its CRC-32C disagrees. Nothing is written.
            ProducerFencedError, OutOfOrderSequenceError, InvalidTransactionError: ``producer`` does not fit.
            DiskFullError: there is no space for the whole run. Its first batches may be written.
            StorageFailedError: this or an earlier write failed; the log takes no more writes.
        """
        return append_run(self._writer, run, producer, max_timestamp_ms)

    def ingest_file(
        self, whole: Whole, runs: Iterable[tuple[bytearray, int]], *, producer: ProducerStamp | None = None
    ) -> AppendResult | None:
        """Append a whole file of batches by making it a segment; return None if it needs `append_run` instead.

        The caller has checked the file as for `append_run`. The file is in the log's directory or below it, and
        no writer has it open any more. ``runs`` are its batches from the beginning, with their counts of records.
        On return the log owns the file and has renamed it. `Log.flush` makes the append durable.

        After any error, headers of the file may be changed up to some batch, and the file cannot be used any more.

        Raises:
            CorruptRecordError: a batch is not whole, or its CRC-32C disagrees. The log is unchanged.
            ProducerFencedError, OutOfOrderSequenceError, InvalidTransactionError: ``producer`` does not fit. The
                log is unchanged.
            DiskFullError: there is no space in the disk quota, or for the file's name. The log is unchanged.
            StorageFailedError: this or an earlier write failed; the log takes no more writes.
        """
        self._state.check_writable()
        stamp = NO_PRODUCER if producer is None else producer
        # One file replaces many appends. So the cost of `shielded`, a second thread, is small here.
        result = shielded(
            ingest_file.ingest,
            self._state,
            whole,
            runs,
            stamp,
            self._state.clock.now_ms(),
            append_time=self._writer.append_time,
        )
        if result is not None:
            self._writer.acknowledge(result)
        return result

    # -- reading, for followers and for the connections of clients

    def fetch_region(
        self,
        offset: int,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        at_least_one: bool = True,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        to_log_end: bool = False,
    ) -> FetchedRegion:
        """Return what an answer to a fetch needs, all of one moment: file region, marks, aborted transactions.

        The region has whole batches from the one that holds ``offset`` on, at most ``max_bytes`` of them, and ends
        at the end that ``isolation`` may see. With ``to_log_end`` it ends at the log end offset: for followers
        only, since what is above the high watermark may be lost. With ``at_least_one`` the first batch is
        returned whole whatever its size (Kafka's ``minOneMessage``). The region pins its file, and its bytes are
        not checked, as `locate` says.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset or above that end.
            LogClosedError, ForkedError: the log cannot be used.
        """
        quick = self._state._fetch_region(offset, max_bytes, at_least_one, isolation, to_log_end)
        if quick is not None:
            return quick
        log, wanted = self.log, Isolation(isolation)

        def fetch(view: View, _hold: object) -> FetchedRegion:
            start, visible, stable, log_end, _, _ = view
            end = log_end if to_log_end else stable if wanted is Isolation.READ_COMMITTED else visible
            log._check_range(offset, start, end)
            region = located(log, view, offset, max_bytes, end) if offset < end else None
            if region is not None and region.size > max_bytes and not at_least_one:
                region = None
            aborted: Sequence[AbortedTransaction] = ()
            if region is not None and wanted is Isolation.READ_COMMITTED:
                aborted = log._aborted_in(view, offset, region.next_offset)
            return FetchedRegion(region, start, stable, visible, log_end, tuple(aborted))

        return log._of_one_moment(fetch, log._view())

    def wait_for(self, offset: int, *, timeout_s: float | None = None) -> bool:
        """Block until a record at ``offset`` is in the log, visible or not; return False on timeout.

        For a follower's fetch that waits at the log end offset.
        """
        self._state.check_open()
        return self._state.end.wait_for(offset + 1, timeout_s)

    def listen(self, notifier: Notifier) -> Registration:
        """Return the interest of a notifier in the log end offset: for a follower's fetch of many logs.

        It is not armed yet, see `Registration`, and lasts as long as the returned object. The thread of an append
        notifies after it has released the log's lock. `Notifier` is final: no code of a caller runs there.
        """
        self._state.check_open()
        return Registration(self._state.end, notifier)

    # -- high watermark, truncation

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to ``offset``. Only the log's `HighWatermarkPolicy` may call it.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the log end offset.
        """
        self._state.check_open()
        locked(self._state.lock, self._writer.settle_locked, self._advance_locked, offset)

    def _advance_locked(self, offset: int) -> None:
        if offset > self._state.end.value:
            raise OffsetOutOfRangeError(
                f"{self._state.name}: high watermark {offset} above the log end offset {self._state.end.value}",
                offset=offset,
            )
        if offset > self._state.high_watermark.value:
            self._state.marks.raise_visible(offset, self._state.transactions.last_stable_offset(offset))
            self._state.publish_locked()

    def truncate_to(self, offset: int) -> int:
        """Truncate the log to end at or before ``offset``; return the new log end offset.

        A batch that contains ``offset``, but begins below it, is removed whole. Durable on return. The high
        watermark falls with the end. So this call is for a follower that has found where its leader's log ends.
        Leader epochs without a record are removed, even if nothing else is.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset.
            StorageFailedError: the truncation failed half way; opening the log again finishes it.
        """
        return shielded(truncation.truncate_to, self._state, offset)

    def restart_at(self, offset: int) -> None:
        """Remove every record, producer, transaction and epoch; the log is empty and begins at ``offset``.

        For a follower whose log ends below where its leader's begins, or must not be trusted. ``offset`` may be
        below or above every offset that the log has had. Durable on return; after a crash in between, the log is
        empty, at its old start or at ``offset``.

        Raises:
            ValueError: ``offset`` is not from 0 to 2**62.
            DiskFullError, TooManyFilesError: there is no space or no descriptor for a new segment. The log may be
                empty already, and begins where it began.
            StorageFailedError: it failed half way; opening the log again finishes or undoes it.
        """
        if not 0 <= offset <= LAST_START:
            raise ValueError(f"a log begins at an offset from 0 to {LAST_START}, found {offset}")
        shielded(truncation.restart_at, self._state, offset)

    # -- what compaction has dropped

    @property
    def dropped_end(self) -> int:
        """The offset after the newest tombstone or transaction marker that may be missing here; 0 if none is.

        Compaction deletes them ``delete.retention.ms`` after it has first met them. A follower that ends below this
        offset never gets them, so it would keep the records that they delete: it begins again. A log that is a copy
        of another lacks what the other did, see `begin_copy`. Durable before the first tombstone is missing.
        """
        return self._state.cleaned.dropped_end

    @property
    def clean_end(self) -> int:
        """The offset below which no record is left that a tombstone would delete, be it here or dropped."""
        return self._state.cleaned.clean_end

    def begin_copy(self, clean_end: int) -> None:
        """Begin an empty log as a copy of another one that has this `clean_end`; durable on return.

        The copy's `dropped_end` is then that offset: tombstones below it may be missing in what is copied, and so
        are the records that they deleted. It ends with `end_copy`, `begin_epoch`, or when the log is closed.

        Raises:
            ValueError: the log is not empty, or the offset is not from 0 to 2**62.
            DiskFullError, TooManyFilesError: there is no space or no descriptor for the file. Nothing has changed.
            StorageFailedError: the file may not be on the disk; the log takes no more writes.
        """
        if not 0 <= clean_end <= LAST_START:
            raise ValueError(f"a log is clean below an offset from 0 to {LAST_START}, found {clean_end}")
        self._state.check_writable()
        shielded(_begin_copy, self._state, clean_end)

    def end_copy(self) -> None:
        """Continue the log with records of another log than the one that it was begun as a copy of.

        `dropped_end` is lowered to the log end if it is above it; durable on return. Raises as `begin_copy`.
        """
        self._state.check_writable()
        shielded(_end_copy, self._state)

    # -- the policy

    @property
    def policy(self) -> HighWatermarkPolicy:
        """The policy that decides the high watermark."""
        return self._state.policy

    def set_policy(self, policy: HighWatermarkPolicy) -> None:
        """Let ``policy`` decide the high watermark from now on, as when the replica becomes leader or follower.

        The high watermark rises at once if the policy says so, and never falls. Nothing of this is stored: the next
        `Log.open` takes a policy of its own.

        Raises:
            LogClosedError, ForkedError, StorageFailedError: the log takes no writes. Nothing has changed.
        """
        self._state.check_writable()
        shielded(_set_policy, self._state, policy)


def _set_policy(state: State, policy: HighWatermarkPolicy) -> None:
    with held(state.lock):
        state.check_whole_locked()
        before = state.policy
        state.follow(policy)
        try:
            state.move_marks_locked()
        except BaseException:
            # The new policy's own error: the log goes on with the old one.
            state.follow(before)
            raise


def _begin_copy(state: State, clean_end: int) -> None:
    with held(state.lock):
        state.check_whole_locked()
        end = state.end.value
        if end > state.log_start:
            raise ValueError(f"{state.name}: a copy begins in an empty log, this one ends at {end}")
        with state.storing_locked(is_append=False):
            state.cleaned.begin_copy(clean_end, end)


def _end_copy(state: State) -> None:
    with held(state.lock):
        state.check_whole_locked()
        with state.storing_locked(is_append=False):
            state.cleaned.end_copy(state.end.value)


def _accept_stop(state: State) -> None:
    with held(state.lock):
        state.check_whole_locked()
        with state.storing_locked(is_append=False):
            state.durability.accept_stop_locked()


def _begin_epoch(state: State, epoch: int) -> None:
    with held(state.lock):
        state.check_whole_locked()
        with state.storing_locked(is_append=False):
            state.cleaned.end_copy(state.end.value)  # what follows is this log's own
        state.durability.begin_epoch_locked(epoch)
        state.begin_epoch(epoch)
