import datetime
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Any, Self, final

from typing_extensions import Buffer, disjoint_base

from logstore.batch._encode import Encoder
from logstore.batch.record_types import Headers, Timestamp
from logstore.clock import Clock
from logstore.records import RecordMetadata

@final
class BatchResult:
    """Delivery result of one batch, shared by the futures of its records."""

    def __init__(
        self, topic: str, partition: int, *, clock: Clock = ..., failures: list[BatchResult] | None = None
    ) -> None:
        """Add this result to ``failures`` if it fails after a future was dropped; None: errors are ignored."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def seen(self) -> bool: ...
    @property
    def is_answered(self) -> bool: ...
    def claim(self, encoder: Encoder, timestamp_ms: int | None) -> SendFuture:
        """Return the future of the record that was added last."""

    def appended(self, first_offset: int, append_time_ms: int, drive: Callable[[], None]) -> None:
        """Note that the batch is in the log and waits for the disk; ``drive()`` syncs and answers it."""

    def acknowledge(self, first_offset: int, append_time_ms: int = -1) -> None:
        """Answer every future with its offset, once."""

    def acknowledge_parts(self, parts: Sequence[tuple[int, int, int, BaseException | None]]) -> None:
        """Answer the futures of a batch that was written in parts, once; as `acknowledge`."""

    def fail(self, error: BaseException) -> None:
        """Answer every future with an error, once; as `acknowledge`."""

    def notify(self) -> None:
        """Run the callbacks and wake the coroutines of a batch result that is answered."""

class _Plain: ...

@final
class SendFuture(_Plain, Future[RecordMetadata]):
    """Delivery result of one record that was sent: `result()` waits for its `RecordMetadata`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def done(self) -> bool:
        """Tell whether the record is acknowledged or has failed."""

    def running(self) -> bool:
        """Tell whether the record is neither acknowledged nor has failed."""

    def cancel(self) -> bool:
        """Do nothing and return False: a record that was sent cannot be taken back."""

    def cancelled(self) -> bool:
        """Return False: see `cancel`."""

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement; return `RecordMetadata` of topic, partition, offset and timestamp."""

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Call `result`; this is kafka-python's name of it."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does; return the error, or None if the record is acknowledged."""

    def add_done_callback(self, fn: Callable[[SendFuture], object]) -> None:
        """Call ``fn(future)`` in the thread that answers the future; at once if the future is done already."""

    def set_running_or_notify_cancel(self) -> bool:
        """Raise: the producer answers it."""

    def set_result(self, result: RecordMetadata) -> None:
        """Raise: the producer answers it."""

    def set_exception(self, exception: BaseException | None) -> None:
        """Raise: the producer answers it."""

    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...

def size_of(data: Any) -> int:
    """Return the bytes of a key or value; 0 for another type, which the encoder refuses."""

def listed(headers: Any) -> Any:
    """Return headers that can be iterated twice; an invalid value is left for the encoder to refuse."""

def headers_size(headers: Any) -> int:
    """Return the most bytes that headers may take; 0 for an invalid value, which the encoder refuses."""

@disjoint_base
class FastBatcher:
    """The fast path of a `PartitionBatcher`: add single records to its open batch, without a lock."""

    def pause(self) -> None:
        """Send every record through the slow path from now on."""

    def resume(
        self, encoder: Encoder, batch_result: BatchResult | None, full_bytes: int, ahead_ms: int = -1
    ) -> None:
        """Add records to an encoder on the fast path, up to ``full_bytes``; all share the batch result."""

@disjoint_base
class FastAppend:
    """The fast path of an appender: as `FastSend`, but with one batcher and without a future."""

    _batcher: Any
    def append(
        self,
        value: Buffer | None,
        key: Buffer | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Add one record; see `Appender`."""

    def _append_slowly(self, value: Any, key: Any, timestamp_ms: Any, headers: Any) -> object: ...

@final
class TopicBatchers:
    """The batchers of one topic, and the rule by which its records are divided among them."""

    def __new__(
        cls,
        batchers: list[Any],
        *,
        topic_id: str,
        hashes: bool,
        sticks: bool,
        in_turn: bool,
        needs_key: bool,
        partition: int,
        sticky_bytes: int,
    ) -> Self: ...
    checked_with: object
    @property
    def batchers(self) -> list[Any]: ...
    @property
    def topic_id(self) -> str: ...
    @property
    def hashes(self) -> bool: ...
    @property
    def sticks(self) -> bool: ...
    @property
    def in_turn(self) -> bool: ...
    @property
    def needs_key(self) -> bool: ...
    @property
    def partition(self) -> int: ...
    def take(self, size: int) -> int:
        """Return the partition of a record of ``size`` bytes whose key does not choose the partition."""

@disjoint_base
class FastSend:
    """The fast path of a producer."""

    _topics_known: Callable[[], object]
    _failures: list[BatchResult]
    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def _use(self, topic: str, batchers: TopicBatchers) -> None:
        """Send a topic's records through these batchers from now on."""

    def _forget(self) -> None:
        """Drop the batchers of every topic: the next record of each takes the slow path."""

    def _known(self, topic: str) -> TopicBatchers | None:
        """Return the batchers of a topic, or None."""

    def send(
        self,
        topic: str,
        value: Buffer | None,
        key: Buffer | None = None,
        *,
        partition: int | None = None,
        timestamp: int | datetime.datetime | None = None,
        headers: Headers | None = None,
    ) -> SendFuture:
        """Send one record: add it to a batch, and return the future of its delivery."""

    def _offer(
        self,
        topic: str,
        value: Buffer | None,
        key: Buffer | None = None,
        *,
        partition: int | None = None,
        timestamp: int | datetime.datetime | None = None,
        headers: Headers | None = None,
    ) -> SendFuture | None:
        """Send as `send` if that needs no lock and no system call, else do nothing and return None."""

    def _send_slowly(
        self, topic: Any, value: Any, key: Any, partition: Any, timestamp: Any, headers: Any
    ) -> SendFuture: ...
