"""Appends to a cluster that wait for their acknowledgement: finished batches, without gathering.

One `BatchAppends` of the back end sends them all, over connections of its own. So a lost answer writes nothing
twice, and the batches of one call to several partitions are in flight together.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from logstore.batch._encode import Encoder
from logstore.client.backend.backend import Backend
from logstore.client.backend.batch_appends import BatchAppends, Delivery
from logstore.errors import LogstoreError, PartialAppendError
from logstore.records import AppendResult, TopicPartition


class Appends:
    """Sends batches and waits for the brokers. Any thread may call; calls take turns.

    Owns: the `BatchAppends`, which the first append opens.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._producer: BatchAppends | None = None

    def append(self, batches: Mapping[TopicPartition, Encoder]) -> dict[TopicPartition, AppendResult]:
        """Send batches, and return their offsets once the brokers have acknowledged them, by the client's acks.

        Raises:
            PartialAppendError: some partitions have acknowledged, another one has not; it names them.
            RecordTooLargeError, InvalidRecordError, UnknownTopicError, BrokerError: a batch was refused.
            DeliveryTimeoutError: a batch was not acknowledged in time. It may have been written.
        """
        with self._lock:
            if self._producer is None:
                self._producer = self._backend.batch_appends()
            producer = self._producer
            sent: dict[TopicPartition, Delivery] = {}
            try:
                for name, encoder in batches.items():
                    sent[name] = producer.submit(name, encoder)
                producer.flush()
            except LogstoreError as error:
                done = {name: _result(each) for name, each in sent.items() if each.is_done and each.error is None}
                if not done:
                    raise
                left = ", ".join(str(name) for name in batches if name not in done)
                raise PartialAppendError(
                    f"{error}; partitions {', '.join(map(str, done))} of this append are written (see `results`), "
                    f"{left} may be not: append only the records of those again",
                    results={name.partition: each for name, each in done.items()},
                ) from error
            except BaseException:
                # An interrupt: the producer may still have batches to send, for which no call waits.
                self._producer = None
                producer.abandon()
                raise
            return {name: _result(each) for name, each in sent.items()}

    def close(self) -> None:
        """Release the connections. May be called again."""
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.abandon()


def _result(delivery: Delivery) -> AppendResult:
    return AppendResult(delivery.first_offset, delivery.last_offset)
