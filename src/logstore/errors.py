"""Errors that logstore raises on purpose, with Kafka's error codes.

There is one class for each different reaction of a caller. `code` is the number that a broker answers with
(Kafka protocol guide, "Error Codes"). `retriable` says whether the same call may succeed later without a change
by the caller. A class also inherits the builtin that a Python programmer would catch (`LookupError`,
`ValueError`, `BlockingIOError` and so on).

An error can be pickled and copied with its message, attributes and notes, so a worker process can return it.
Its ``__cause__`` and traceback are lost, as with every Python exception.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

#: Largest length of a record batch (Kafka protocol guide, "Record Batch"), approximate: used only for advice.
_LARGEST_BATCH = 2**31 - 1


class LogstoreError(Exception):
    """Root of every error that logstore raises on purpose.

    ``path`` and ``position`` name the file and the byte in it where the error was found, ``offset`` the record.
    Each is None if it does not apply.
    """

    code: ClassVar[int] = -1  #: Kafka's error code; the broker answers with it
    retriable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        self.path = None if path is None else os.fspath(path)
        self.position = position
        self.offset = offset
        places = []
        if offset is not None:
            places.append(f"offset {offset}")
        if self.path is not None:
            places.append(f"file {self.path}")
        if position is not None:
            places.append(f"position {position}")
        super().__init__(f"{message} [{', '.join(places)}]" if places else message)

    def __str__(self) -> str:
        # An OSError among the bases would show an errno and a file name of its own.
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # Python unpickles an exception by calling its class with `args`, which here hold the finished message and
        # no keywords. If that call fails, the result thread of a `multiprocessing.Pool` dies and the caller waits
        # for ever.
        state = dict(self.__dict__)
        if "__notes__" in state:
            # A copy that shared the list would add its notes to the original.
            state["__notes__"] = list(state["__notes__"])
        return made_again, (type(self), self.args), state


def made_again(
    kind: type[LogstoreError], args: tuple[Any, ...], attributes: dict[str, Any] | None = None
) -> LogstoreError:
    """Return an error as it was before it was pickled, copied or sent; no subclass's ``__init__`` is called."""
    error: LogstoreError = kind.__new__(kind)
    error.args = args
    for name, value in (attributes or {}).items():
        setattr(error, name, value)
    return error


def refused(problems: Mapping[str, str], kind: str) -> str:
    """Return the message that names every problem."""
    listed = "; ".join(f"{name}: {what}" for name, what in problems.items())
    return f"{len(problems)} {kind}(s) refused: {listed}"


# --- the bytes of records --------------------------------------------------------------------


class RecordError(LogstoreError):
    """The bytes of a record or batch are not accepted.

    If stored records cannot be read, ``offset`` is that of the first of them. ``next_offset`` is that of the next
    readable batch, or the log end offset if no such batch follows. It is None if it is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        offset: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        super().__init__(message, path=path, position=position, offset=offset)
        self.next_offset = next_offset
        self.reason = str(self.args[0])  #: the message, without the advice that `bound` adds

    def bound(self, offset: int, next_offset: int | None) -> None:
        """Set the offsets that cannot be read, and add them and how to read on to the message."""
        self.offset, self.next_offset = offset, next_offset
        if next_offset is None:
            how = f"cannot be read from offset {offset} on; where the next whole batch begins is not known"
        else:
            how = f"offsets {offset} to {next_offset - 1} cannot be read; read on from offset {next_offset}"
            if isinstance(self, CorruptRecordError | UnsupportedFormatError):
                how += ', or scan with on_damage="skip"'
        self.args = (f"{self.reason}; {how}", *self.args[1:])


class CorruptRecordError(RecordError, ValueError):
    """Stored or received bytes disagree with their own length, count, varint or CRC-32C."""

    code = 2
    retriable = True


class DamagedLogError(CorruptRecordError):
    """A file of a log is damaged or missing below its recovery point, where every byte had been flushed.

    Nothing was truncated. Restore the file from a copy, or open the log read-only to copy the undamaged records.
    """

    code = 56
    retriable = False


class InvalidRecordError(RecordError, ValueError):
    """A batch is undamaged but breaks a rule of the log: its count, offset deltas or flags."""

    code = 87


class RecordTypeError(RecordError, TypeError):
    """A key, value, header or timestamp has a type that no record can hold, such as `str`."""

    code = 87


class SparkColumnsError(RecordTypeError):
    """Columns for Spark to write are missing, unknown or of wrong types. All are in ``problems``."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__(refused(problems, "column"))


class UnsupportedFormatError(RecordError, ValueError):
    """The batch has a magic byte other than 2: a format before Kafka 0.11, or no batch at all."""

    code = 43


class UnsupportedCodecError(RecordError, ValueError):
    """The codec number is unknown, or the package that implements it is not installed."""

    code = 76


class RecordTooLargeError(RecordError, ValueError):
    """The batch is larger than ``max.message.bytes``, or decompressed than ``logstore.decompressed.max.bytes``."""

    code = 10

    @classmethod
    def over(cls, what: str, size: int, limits: Iterable[tuple[str, int]], ways: Iterable[str]) -> Self:
        """Return the error for a size, naming every setting that it exceeds: raising one of two does not help.

        A setting that the size equals is named too, since a record also has a header.
        """
        pairs = list(limits)
        passed = [pair for pair in pairs if size >= pair[1]] or [min(pairs, key=lambda pair: pair[1])]
        named = " and ".join(f"{key} {limit}" for key, limit in passed)
        if size > _LARGEST_BATCH or (len(passed) > 1 and "segment.bytes" in dict(passed)):
            all_ways = [*ways, "keep what is so large in a file of its own and append the file's path"]
        else:
            all_ways = ["raise that setting" if len(passed) == 1 else "raise these settings", *ways]
        advice = ", ".join(all_ways[:-1]) + " or " + all_ways[-1]
        return cls(f"{what} of {size} bytes does not fit {named}; {advice}")


class InvalidTimestampError(RecordError, ValueError):
    """A record's timestamp is outside ``message.timestamp.before.max.ms`` or ``.after.max.ms``."""

    code = 32


class PayloadError(RecordError, ValueError):
    """A record's value does not match ``value_schema``. The record itself is undamaged."""

    code = 87


# --- the protocol ----------------------------------------------------------------------------


class ProtocolError(LogstoreError, ValueError):
    """Bytes or values of Kafka's protocol cannot be decoded or encoded."""


class MalformedMessageError(ProtocolError):
    """Received bytes are not a message of that version: a length, count or varint disagrees with them."""

    code = 42


class UnsupportedVersionError(ProtocolError):
    """The message or its version does not exist, or the version cannot carry a field that was given."""

    code = 35


class UnsupportedOperationError(LogstoreError, NotImplementedError):
    """What a store can do and a cluster cannot, or the reverse; the message says what to use instead."""

    code = 42


# --- producers and transactions --------------------------------------------------------------


class ProducerStateError(LogstoreError):
    """A producer's batch does not fit the producer's state in the log."""


class OutOfOrderSequenceError(ProducerStateError):
    """A sequence number is missing before this batch."""

    code = 45


class DuplicateSequenceError(ProducerStateError):
    """The batch was written before the last five batches, the only ones whose offsets are known."""

    code = 46


class ProducerFencedError(ProducerStateError):
    """A newer epoch of this producer id has written here."""

    code = 47


class InvalidTransactionError(ProducerStateError):
    """The batch does not fit the state of the producer's transaction."""

    code = 48


class CoordinatorFencedError(ProducerStateError):
    """A transaction marker comes from an older transaction coordinator."""

    code = 52


class _TimedOutError(LogstoreError, TimeoutError):
    """An operation took longer than a setting or an argument allows."""

    code = 7
    retriable = True


class DeliveryTimeoutError(_TimedOutError):
    """Records were not acknowledged in time. They may have been written, or be written later.

    An embedded producer keeps them in its buffer; a producer on brokers gives them up. The message says which."""


class BufferExhaustedError(_TimedOutError):
    """``buffer.memory`` stayed full for ``max.block.ms``, so `send` did not accept the record.

    Send the record again when there is space. (After a `DeliveryTimeoutError`, sending again could write it twice.)
    """


# --- consumers and groups --------------------------------------------------------------------


class ConsumerError(LogstoreError):
    """A call does not fit the state of the consumer."""


class NotAssignedError(ConsumerError, LookupError):
    """The consumer has no partitions, or not this one. Call `assign` first."""

    code = 3


class ConcurrentUseError(ConsumerError, RuntimeError):
    """Two threads use one consumer at the same time. Give each thread a consumer of its own."""


class WakeupError(ConsumerError):
    """Another thread called `wakeup`; nothing was lost. Call again, or close."""


class ConsumerClosedError(ConsumerError, ValueError):
    """The consumer is closed."""


class NoOffsetError(ConsumerError, LookupError):
    """A partition has no committed offset and auto.offset.reset is none. Seek, or commit one.

    Kafka's NoOffsetForPartitionException. A program that keeps its offsets elsewhere catches it, and seeks.
    """


class InvalidGroupError(ConsumerError, ValueError):
    """The group's name is not valid, or a required one is missing."""

    code = 24


class InvalidOffsetError(ConsumerError, ValueError):
    """An offset or its metadata cannot be committed, or is not a position for `seek`."""

    code = 1


class OffsetMetadataTooLargeError(ConsumerError, ValueError):
    """The metadata of a committed offset is longer than ``offset.metadata.max.bytes``."""

    code = 12


class NoTransactionError(ConsumerError, RuntimeError):
    """The connection commits each statement by itself, so offsets and effects would not be atomic.

    Nothing was stored. Turn its autocommit off, or begin a transaction; `DatabaseOffsets.transaction` does.
    """


class GroupFencedError(ConsumerError):
    """Another consumer has taken over these partitions of the group. Nothing was stored; stop, or start again."""

    code = 22


# --- offsets of a log ------------------------------------------------------------------------


class OffsetOutOfRangeError(LogstoreError, LookupError):
    """The offset is below the log start offset or above the end that the reader may see."""

    code = 1


class UnexpectedOffsetError(LogstoreError, ValueError):
    """Records with offsets of their own do not continue the log: a replicated batch, or rows with offsets."""

    code = 1


class ExpectedOffsetError(UnexpectedOffsetError):
    """A conditional append found another log end offset: another writer appended first. Nothing is written.

    ``found`` is the log end offset, ``expected`` the one that the append named. A writer catches it to read what
    was appended and decide again; another `UnexpectedOffsetError` is a mistake in the batch.
    """

    def __init__(self, message: str, *, found: int, expected: int) -> None:
        self.found = found
        self.expected = expected
        super().__init__(message)


class NotLeaderError(LogstoreError):
    """This replica does not lead the partition."""

    code = 6
    retriable = True


class FencedLeaderEpochError(NotLeaderError):
    """The leader epoch of the caller is older than the one of the log."""

    code = 74


# --- topics ----------------------------------------------------------------------------------


class TopicError(LogstoreError):
    """A request does not fit the topics that exist."""


class UnknownTopicError(TopicError, LookupError):
    """The topic does not exist, or was deleted."""

    code = 3


class UnknownPartitionError(TopicError, LookupError):
    """The topic has no partition of that number."""

    code = 3


class TopicExistsError(TopicError, ValueError):
    """A topic of that name exists already. It was not changed."""

    code = 36


class InvalidTopicError(TopicError, ValueError):
    """The name breaks Kafka's rule for topics, or looks the same as that of another topic."""

    code = 17


class InvalidPartitionsError(TopicError, ValueError):
    """A topic cannot have this number of partitions, or cannot be changed to it."""

    code = 37


class PolicyViolationError(TopicError, ValueError):
    """The topic's ``cleanup.policy``, or a setting of the store, does not allow the call."""

    code = 44


# --- files -----------------------------------------------------------------------------------


class StorageError(LogstoreError, OSError):
    """A file operation failed. Its `OSError` is the ``__cause__``."""

    code = 56


class StorageFailedError(StorageError):
    """A write or flush failed, now or earlier; the log accepts no more writes.

    Records acknowledged as synced are on disk. Close the log and open it again: opening rewrites
    what the kernel may have lost.
    """


class DiskFullError(StorageError):
    """The disk has no space for the batch. Nothing of it is left in the log; retry when there is space."""

    retriable = True


class DiskBudgetError(DiskFullError):
    """The store has used up ``logstore.disk.budget``, and nothing more may be deleted. Nothing was written.

    Reads continue, and appends resume once there is space: delete records or a topic, or raise the budget. If the
    disk itself is full, neither may be enough.
    """


class TooManyFilesError(StorageError):
    """The process or the machine cannot open another file at the moment (EMFILE, ENFILE).

    Nothing was changed and nothing is lost. Close files or sockets, or raise the limit, and retry.
    """

    retriable = True

    @classmethod
    def to(cls, action: str, cause: OSError, *, path: str | None = None, position: int | None = None) -> Self:
        """Return the error for an action that needs a descriptor."""
        return cls(
            f"the process has no file descriptor left to {action}: {cause.strerror}; close files or sockets, or "
            "raise the limit on open files (ulimit -n), and try again",
            path=path,
            position=position,
        )


#: Errors for lack of space or of a descriptor, raised before anything is changed. The log stays usable.
OUT_OF_RESOURCES = (DiskFullError, TooManyFilesError)


class NotSyncedError(StorageError):
    """The records are in the log, but space or a descriptor was missing to sync them to disk.

    Do not append them again: free space, then call `flush`.
    """


class AppendTruncatedError(StorageError):
    """The records are not in the log: a truncation removed them while they were on their way to the disk.

    A log is truncated where another replica leads, or by a call. Append them again, to the leader if there is one.
    """

    code = 6
    retriable = True


class PartialAppendError(StorageError):
    """Some partitions of one append were written before another failed; its error is the ``__cause__``.

    ``results`` has the offsets of each partition that was written: do not append those records again.
    """

    def __init__(self, message: str, *, results: Mapping[int, tuple[int, int, int, bool]]) -> None:
        self.results = dict(results)
        super().__init__(message)


class LogChangedError(StorageError):
    """Another process truncated or compacted the log during each of many attempts to read it. Read again."""

    retriable = True


class CheckpointCopyError(StorageError):
    """Segments were deleted or swapped during every attempt to copy them. Nothing is left of the copy."""

    retriable = True


class DirectoryLockedError(StorageError, BlockingIOError):
    """Another process, or another open log of this process, writes the directory."""


class ReadOnlyError(StorageError, PermissionError):
    """The log was opened read-only, or its directory cannot be written."""


class NotALogError(StorageError):
    """The directory is not a log, or not one that this process may write."""

    code = 57


class DamagedCatalogueError(StorageError):
    """``logstore.topics``, which names the topics of a store, is damaged or missing. Nothing was changed."""


class LaterCatalogueError(DamagedCatalogueError):
    """``logstore.topics`` is undamaged but was written by a later version. Nothing was changed."""


class MissingLibraryError(LogstoreError, ImportError):
    """An optional library is not installed; the message names the extra that installs it.

    A caller that does not need the library catches it like an ImportError.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        again, made_of, state = super().__reduce__()
        # An ImportError keeps these outside its `__dict__`; a copy would lose them.
        return again, made_of, {**state, "msg": self.msg, "path": self.path}


class LogClosedError(LogstoreError, ValueError):
    """The log is closed."""

    code = 56


class TopicDeletedError(LogClosedError, UnknownTopicError):
    """The topic of this log or scan was deleted, or deleted and created again with the same name.

    It is an `UnknownTopicError`, which a cluster raises for the same, and a `LogClosedError`: the files are closed.
    """

    code = 3


class StoreClosedError(LogClosedError):
    """The store, or the producer or consumer of it, is closed."""


class ForkedError(LogstoreError, RuntimeError):
    """The log was opened before a fork and is used in the child. Open it again there."""

    code = 56


# --- settings --------------------------------------------------------------------------------


class ConfigError(LogstoreError, ValueError):
    """Settings are not valid. Every such setting is named in the message and in ``problems``."""

    code = 40

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__(refused(problems, "setting"))


class UnknownSettingError(ConfigError):
    """At least one key is unknown to Kafka and to logstore."""


class InvalidSettingError(ConfigError):
    """At least one value is not allowed; every key is known."""


# --- brokers -----------------------------------------------------------------------------------


class BrokerError(LogstoreError):
    """A broker refused a request.

    ``code`` and ``name`` are Kafka's number and name for the reason; ``retriable`` is the same as in Kafka's
    own clients.
    """

    def __init__(self, message: str, *, code: int = -1, name: str = "", retriable: bool = False) -> None:
        super().__init__(message)
        # From the answer, not the class: a broker has more reasons than a caller has reactions.
        self.code = code  # type: ignore[misc]
        self.name = name
        self.retriable = retriable  # type: ignore[misc]


class BrokerUnreachableError(LogstoreError, ConnectionError):
    """No broker can be reached, or a connection was lost. The outcome of its last requests is unknown."""

    code = 13
    retriable = True


class BrokerTimeoutError(_TimedOutError):
    """A broker did not answer in ``request.timeout.ms``, or a call did not complete within its timeout."""


class AuthenticationError(LogstoreError):
    """Client and broker do not accept what the other proves itself with: certificate, password, token, mechanism.

    It is not retried: it would fail again, and brokers lock users after many failures.
    """

    code = 58


class TopicRecreatedError(UnknownTopicError):
    """The topic was deleted and created again with the same name: state of the old topic is not valid."""

    code = 100


class ClientClosedError(LogstoreError, ValueError):
    """The client, or the producer on it, is closed."""


# --- replication -----------------------------------------------------------------------------


class StaleFactError(LogstoreError, LookupError):
    """A condition of a commit to the registry does not hold: a fact is missing, there, or has another version.

    ``fact`` is its path in the registry. Nothing was changed.
    """

    def __init__(self, message: str, *, fact: str = "") -> None:
        super().__init__(message)
        self.fact = fact


class MalformedFactError(LogstoreError, ValueError):
    """A fact of the registry holds something else than what belongs there.

    ``fact`` is its path. The node that has read it goes on with what it knew before.
    """

    def __init__(self, message: str, *, fact: str = "") -> None:
        super().__init__(message)
        self.fact = fact


class RegistryUnreachableError(LogstoreError, ConnectionError):
    """The registry gave no answer, or the session has ended. Whether a commit took place is unknown."""

    retriable = True


class PeerUnreachableError(LogstoreError, ConnectionError):
    """Another node gave no answer in time. Whether the request has reached it is unknown."""

    retriable = True


class NotEnoughReplicasError(LogstoreError):
    """Fewer replicas are in sync than ``min.insync.replicas`` asks for. Nothing was written."""

    code = 19
    retriable = True


class NotEnoughReplicasAfterAppendError(LogstoreError):
    """The records are in the leader's log, and fewer replicas than the minimum are in sync by now.

    They may be committed later, or be lost with the leader. An idempotent producer sends them again.
    """

    code = 20
    retriable = True


# --- Spark -----------------------------------------------------------------------------------


class SparkOptionError(ConfigError):
    """Options of the Spark source or sink are not valid. All are named; nothing was read or written."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = dict(problems)
        LogstoreError.__init__(self, refused(problems, "option"))


class DataLossError(LogstoreError, LookupError):
    """Records that a query should read no longer exist: deleted, truncated, or of a topic created again."""

    code = 1


class SparkNotReadyError(LogstoreError, RuntimeError):
    """Java, PySpark or the workers' Python is missing or the wrong version; the message says how to get it."""


class CheckpointMismatchError(LogstoreError, ValueError):
    """A pipeline's checkpoint, output or archive do not match, or are from different times.

    Continuing would lose or duplicate rows. Nothing was read or written. The message names both, and what to do.
    """


class SparkQueryError(LogstoreError, RuntimeError):
    """A query of a pipeline failed; the message is the cause, without Spark's plans and stack traces."""


# --- sinks -----------------------------------------------------------------------------------


class InvalidManifestError(LogstoreError, ValueError):
    """A manifest of staged files is not valid in itself; its files were not read. Nothing was changed."""

    code = 42


class StagedFileError(LogstoreError, ValueError):
    """A staged file is missing or differs from its manifest. Nothing was changed: stage it again."""

    code = 2


class OldBatchError(LogstoreError, ValueError):
    """A query commits a batch that is older than the newest committed one. Nothing was changed.

    Its checkpoint was restored from a copy, or two queries share one. Which rows are already committed is unknown.
    """

    code = 42


class OwnerTimeoutError(_TimedOutError):
    """The process that writes the store did not complete a request in time; the message names the process.

    The request was withdrawn, unless the message says otherwise: retrying is safe.
    """


# --- warnings ----------------------------------------------------------------------------------


class RetentionWarning(UserWarning):
    """Appended records are older than ``retention.ms``: the next round of retention deletes them."""


# --- old names, kept for one release --------------------------------------------------------------

#: Old name -> the class of today: renamed, or merged with one to which a caller reacts in the same way.
_RENAMED = {
    "ArchiveIncompleteError": "CheckpointMismatchError",
    "BudgetTooSmallError": "InvalidSettingError",
    "DecompressedTooLargeError": "RecordTooLargeError",
    "ImageMovedError": "CheckpointCopyError",
    "UnsupportedSecurityError": "InvalidSettingError",
}

if not TYPE_CHECKING:
    # A type checker that sees it accepts every name of the module.
    def __getattr__(name: str) -> object:
        if name not in _RENAMED:
            raise AttributeError(f"module 'logstore.errors' has no attribute {name!r}")
        from logstore.renamed import warn

        warn(f"logstore.errors.{name}", _RENAMED[name])
        return globals()[_RENAMED[name]]
