"""Contract of appends of finished batches: for a caller that encodes records itself, such as the tasks of Spark.

A producer gathers records one by one, and its `BatchWriter` makes batches of them. Here whole batches are handed
over, several of them in flight, and one `flush` waits for all. `BatchRules` says how they have to be encoded.
Imports the vocabulary and the encoder only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

from logstore.batch._encode import Encoder
from logstore.config.log import LogConfig
from logstore.errors import LogstoreError
from logstore.records import TopicPartition


class BatchRules(NamedTuple):
    """What the batches of a topic have to keep to. Can be pickled.

    ``config`` has defaults for what is not known, and there allows every timestamp.
    """

    config: LogConfig
    limits: tuple[tuple[str, int], ...]  #: of a batch in bytes, by setting, as an `Encoder` takes them

    @classmethod
    def of(cls, config: LogConfig) -> Self:
        """Return the rules that the settings of a topic make."""
        return cls(config, config.batch_limits)


@dataclass(slots=True, eq=False)
class Delivery:
    """What becomes of the batches of one `BatchAppends.submit`.

    ``first_offset`` and ``last_offset`` are valid once ``is_done`` is true and ``error`` is None. They are -1 if
    the broker detects a repeated batch whose offsets it no longer knows.
    """

    topic_partition: TopicPartition
    record_count: int
    waiting: int  #: batches that are not acknowledged
    first_offset: int = -1
    last_offset: int = -1
    append_time_ms: int = -1  #: of the last batch, in a topic with log-append time
    error: LogstoreError | None = None

    @property
    def is_done(self) -> bool:
        """True once every batch is acknowledged, or one has failed."""
        return self.waiting == 0 or self.error is not None


class BatchAppends(ABC):
    """Appends of finished batches. One thread uses it at a time.

    A batch is written whole or not at all. The batches of one partition are written in the order of their
    hand-over. Records that are encoded and handed over again, also after an error, are written a second time:
    nothing here remembers them.
    """

    #: How many bytes one hand-over had best hold.
    batch_bytes: int

    @abstractmethod
    def submit(self, tp: TopicPartition, batches: Encoder) -> Delivery:
        """Hand over the batches of an encoder, which may be renewed at once.

        Waits only while too many bytes are not acknowledged. A refusal is in the `Delivery`, and `flush` raises it.

        Raises:
            StoreClosedError, ClientClosedError: this or its back end is closed.
            ForkedError: it was opened by another process.
        """

    @abstractmethod
    def flush(self) -> None:
        """Wait until everything that was handed over is acknowledged, or has failed.

        A store's batches are then as durable as the ``logstore.ack`` of their topic says, a cluster's as the
        ``acks`` of its client.

        Raises:
            LogstoreError: the first refusal since the last call. Other batches may be written.
        """

    @abstractmethod
    def close(self) -> None:
        """Call `flush`, and release what this holds. May be called again."""

    @abstractmethod
    def abandon(self) -> None:
        """Release what this holds without waiting. What was handed over may be written or not."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.abandon()
