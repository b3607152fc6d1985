from collections.abc import Callable
from typing import Any, Protocol, final

from typing_extensions import Buffer, disjoint_base

from logstore.accumulator._alarms import Alarm
from logstore.batch._batch import Record
from logstore.batch._encode import Encoder
from logstore.clock import Clock
from logstore.errors import AppendTruncatedError, LogstoreError, StorageFailedError
from logstore.log.directory.segments import Segments
from logstore.log.formats._published import PublishedFile
from logstore.log.formats.epoch_file import EpochFile
from logstore.log.marks._marks import LogMarks
from logstore.log.marks._watermark import LogLock, Watermark
from logstore.log.marks.policies import HighWatermarkPolicy
from logstore.log.marks.view import FetchedRegion, View
from logstore.log.space_quota import SpaceQuota
from logstore.log.write_modes import WriteMode
from logstore.records import Ack, AppendResult, Isolation, ProducerStamp, RecordMetadata

READY_ATTEMPTS: int

def mark_appended(batches: object, first: int) -> int:
    """Record in an encoder that its batches are in the log, from an offset on."""

class _Commit(Protocol):
    """Group commit of the log."""

    def run(self, offset: int) -> object: ...

class _Admitted(Protocol):
    """A batch that was checked, and changed as the settings of the log ask."""

    @property
    def data(self) -> bytearray: ...

class _Writer(Protocol):
    """The steps of an append that are rare: `LogWriter` has them."""

    @property
    def commit(self) -> _Commit: ...
    def not_synced(self, result: AppendResult, error: LogstoreError) -> LogstoreError: ...
    @property
    def settle_locked(self) -> Callable[[], None]: ...
    def flush(self) -> None: ...
    def plain_encoder(self, now: int) -> Encoder: ...
    def check(self, encoder: Encoder, now: int) -> None: ...
    def admitted(self, batch: bytes, now: int) -> _Admitted | LogstoreError: ...
    def attempt(self, batch: bytes, admitted: Any, now: int) -> tuple[AppendResult | LogstoreError, int]: ...
    def write_other_locked(self, encoder: Encoder, producer: ProducerStamp | None, now: int) -> AppendResult: ...

@final
class Counters:
    """Counters of one log since it was opened. Changed under its lock."""

    appends: int
    appended_records: int
    appended_batches: int
    appended_bytes: int
    duplicates: int
    flushes: int
    rolls: int
    truncations: int
    deleted_segments: int
    roll_waits: int
    disk_full: int

    @property
    def unflushed_records(self) -> int: ...
    @property
    def last_flush_s(self) -> float: ...
    @property
    def sync_s(self) -> float: ...
    def __init__(self, clock: Clock) -> None: ...
    def count(self, records: int, batches: int, size: int) -> None:
        """Count one append."""

    def take_unflushed(self) -> int:
        """Return the count of records since the last flush, as the next one begins."""

    def untake_unflushed(self, records: int) -> int:
        """Count records again as not flushed: the flush has ended without its sync."""

    def flush_within(self, alarm: Alarm | None, seconds: float) -> None:
        """Set an alarm from now on for what is not flushed: after ``seconds`` at the latest. None: no longer."""

    def ask_flush(self) -> int:
        """Set the alarm if there is something to flush."""

    def count_sync(self, began_s: float) -> int:
        """Count the time of a sync of appended batches, from its begin until now."""

    def snapshot(self) -> dict[str, int]:
        """Return the current counts by name."""

@disjoint_base
class PartitionLog:
    """The numbers of a log that is open for writing, and its append."""

    lock: LogLock
    clock: Clock
    fork: int
    published: PublishedFile
    segments: Segments
    transactions: Any
    quota: SpaceQuota
    mode: WriteMode
    closed: bool
    failed: StorageFailedError | None
    mutation_depth: int
    @property
    def appending(self) -> bool: ...
    rolls: Any
    prepare_bytes: int
    has_work: bool
    rolls_have_work: bool
    must_unmark: bool
    must_check_keys: bool
    leader_epoch: int
    @property
    def noted_epoch(self) -> int: ...
    epochs: EpochFile
    old_below_ms: int
    reserved_bytes: int
    roll_after_ms: int

    @property
    def end(self) -> Watermark: ...
    @property
    def synced(self) -> Watermark: ...
    @property
    def high_watermark(self) -> Watermark: ...
    @property
    def last_stable(self) -> Watermark: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def marks(self) -> LogMarks: ...
    @property
    def log_start(self) -> int:
        """The log start offset."""

    def set_marks(self, marks: LogMarks) -> None:
        """Begin with the offsets that recovery has found."""

    def note_epoch(self, epoch: int) -> None:
        """Record that the epoch table ends with an epoch: appends in it need not look there; -1: they have to."""

    def begin_epoch(self, epoch: int) -> None:
        """Write in a leader epoch from now on; the epoch table has it."""

    def has_unmarked(self) -> None:
        """Record that no slot of the recovery file says any more that the log was closed cleanly."""

    def begin_append(self) -> None:
        """Record that bytes are about to be written: an interrupt leaves them behind the log end offset."""

    def end_append(self) -> None:
        """Record that an append is in the log as a whole, or not at all."""

    def prepare_from(self, size: int) -> None:
        """Have the append by which the active segment reaches this size ask for the next segment."""

    def ask_follow_up(self, *, rolls: bool = False) -> None:
        """Have the thread that has appended do more once it has released the lock; ``rolls``: what they need."""

    def set_limits(self, segment_bytes: int, index_bytes: int) -> None:
        """Set the size of a segment and of its indexes from which on the next append rolls."""

    @property
    def policy(self) -> HighWatermarkPolicy: ...
    @property
    def leads(self) -> bool: ...
    def follow(self, policy: HighWatermarkPolicy) -> None:
        """Let the high watermark move as a policy says, which is asked if it names no fixed way."""

    def view(self) -> View:
        """Return segments and marks of one moment, without the lock; raise if the log is closed or was forked.

        While a truncation lowers the marks (`SegmentSet.changing`), the moment may be between two of them.
        """

    def record_at(self, offset: int, committed: bool, name: tuple[str, int]) -> Record | None:
        """Return the record at an offset as readers may see it; None if the steps of `Readable` have to decide."""

    def _fetch_region(
        self, offset: int, max_bytes: int, at_least_one: bool, isolation: Isolation | str, to_log_end: bool
    ) -> FetchedRegion | None:
        """Return what `LogReplica.fetch_region` does; None if its steps have to decide, such as what is wrong."""

    def wanted_mark(self) -> int:
        """Return where the high watermark should be now; it never falls, nor rises above the log end offset."""

    def expect_records(
        self,
        *,
        plain: bool,
        synced: bool,
        times: bool,
        keys: bool,
        before_max_ms: int,
        after_max_ms: int,
        codec: int,
        message_bytes: int,
        decompressed_bytes: int,
    ) -> None:
        """Apply the settings of an append: see `LogWriter.configure`. Encoders of the old settings are dropped."""

    def append(self, records: list[Any], writer: _Writer, synced: bool = False) -> AppendResult | None:
        """Encode records and append them; None, with nothing done, if that takes the steps of ``writer``."""

    def _check_kept(self, first: int, last: int, cuts: int) -> None:
        """Raise if records that were appended after so many cuts of the log were removed by a later one."""

    def _loss_of(self, first: int, last: int, cuts: int) -> AppendTruncatedError | None:
        """Return the error of records that were appended after so many cuts of the log, if a later one has them."""

    def _note_cuts(self, encoder: Encoder) -> None:
        """Record in an encoder, under the lock, how often the log was cut before the append that follows."""

    def _flush(self, writer: _Writer) -> None:
        """Make everything that was appended before this call durable; raises as `Log.flush`."""

    def append_one(
        self, value: Buffer | None, key: Buffer | None, topic: str, partition: int, writer: _Writer
    ) -> RecordMetadata | None:
        """Append one record, with the time of this call; None, with nothing done, as `append`."""

    def _append_gathered(
        self, encoder: Encoder, producer: ProducerStamp | None, ack: Ack | str | None, writer: _Writer
    ) -> AppendResult | None:
        """Write a batch of an accumulator as `append_encoded`; None, with nothing done, as `append`."""

    def _append_gathered_turn(
        self, encoders: list[Encoder], producers: list[ProducerStamp | None], writer: _Writer
    ) -> list[AppendResult]:
        """Write batches of one accumulator in one write, and move the marks once; return their results."""

    def append_encoded(
        self, encoder: Encoder, producer: ProducerStamp | None, now: int, writer: _Writer
    ) -> AppendResult:
        """Check keys and times of an encoder's batches, and write them; ``writer`` has the steps that are rare."""

    def check_encoded(self, encoder: Encoder, now: int, writer: _Writer) -> None:
        """Close an encoder's batches, and check keys and times, before anything of several appends is written."""

    def append_plain(self, encoder: Encoder, now: int, writer: _Writer) -> AppendResult | None:
        """Write an encoder's batches as `append_encoded`; None, with nothing done, as `append`."""

    def append_batch(self, batch: bytes, now: int, writer: _Writer, synced: bool = False) -> AppendResult | None:
        """Append one whole batch of a client; None, with nothing done, if that takes the steps of ``writer``."""

    def append_plain_batch(self, batch: bytes, writer: _Writer, synced: bool = False) -> AppendResult | None:
        """Append one whole batch of a client as `append_batch`; None, with nothing done, also as `append`."""

    def append_run(
        self, run: Buffer, producer: ProducerStamp, newest: int, now: int, writer: _Writer
    ) -> tuple[int, AppendResult] | None:
        """Append the first batches of a run that the caller owns, as many as one segment takes, in one write."""

    def append_turn(
        self, batches: list[bytes], now: int, writer: _Writer, cuts: list[int]
    ) -> list[AppendResult | LogstoreError]:
        """Append whole batches of several clients in their order; return a result or an error for each."""

    def roll_is_due_locked(self, size: int, last_offset: int, newest: int) -> bool:
        """Return whether an append of these bytes, last offset and newest timestamp needs a new segment."""

    def raise_end(self, batches: object, first: int, end: int) -> None:
        """Raise the log end offset over an append; an encoder learns that its batches are in the log."""
