"""Message streams: several blocking iterators that share the partitions of a topic, one for each thread.

The interface of the paper of 2011 ("Kafka: a Distributed Messaging System for Log Processing", section 3.1) and of
Kafka's first clients. `create_message_streams` returns the requested number of iterators for a topic. Each waits
for records for ever and ends with `ConsumerConnector.shutdown`. A stream is one `Consumer` and belongs to the
thread that iterates it; the connector may be used from any other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sized
from contextlib import suppress
from typing import Protocol

from logstore.batch._batch import Record
from logstore.client.consumer import Consumer
from logstore.config.client import ConsumerConfig
from logstore.config.log import Setting
from logstore.errors import ConcurrentUseError, ConsumerClosedError, InvalidPartitionsError, WakeupError
from logstore.groups.offsets import is_whole
from logstore.records import TopicPartition


class ConsumerHost(Protocol):
    """The store of a connector, as far as streams need it."""

    def __getitem__(self, topic: str, /) -> Sized: ...
    def consumer(
        self, settings: ConsumerConfig | Mapping[str, Setting] | None = None, /, *, group: str | None = None
    ) -> Consumer: ...


class MessageStream:
    """An endless iterator over records of some partitions. One thread iterates it.

    A stream without partitions, because there are more streams than partitions, waits until the topic has more.
    """

    def __init__(self, topic: str, consumer: Consumer) -> None:
        self.topic = topic
        self._consumer = consumer
        self._ended = threading.Event()
        self._commit_asked = False
        self._records: Iterator[Record] | None = None

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that the stream reads now."""
        return tuple(sorted(self._consumer.assignment))

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        """Return the next record when there is one; the previous record counts as processed."""
        while not self._ended.is_set():
            try:
                self._commit_if_asked()
                if self._records is None:
                    self._records = self._consumer.records()
                return next(self._records)
            except WakeupError:
                # A commit or the end was requested; a loop that was interrupted cannot continue.
                self._records = None
            except StopIteration:
                break
        self._consumer.close()
        raise StopIteration

    def _commit_if_asked(self) -> None:
        if self._commit_asked:
            self._commit_asked = False
            self._consumer.commit()

    def ask_for_commit(self) -> None:
        """Commit when the next record is asked for, or at once if the stream waits for one."""
        self._commit_asked = True
        self._consumer.wakeup()

    def end(self) -> None:
        """End the iteration, and commit what is known to be processed."""
        self._ended.set()
        self._consumer.wakeup()
        # Concurrent use: the stream's thread is inside, and the wakeup ends its loop, which closes.
        with suppress(ConcurrentUseError, ConsumerClosedError):
            # The stream may have no thread any more. The record in hand is not known to be processed.
            self._consumer._abandon()

    def __repr__(self) -> str:
        return f"<MessageStream {self.topic} partitions {[partition for _, partition in self.partitions]}>"


class ConsumerConnector:
    """A connector that creates message streams and ends them.

    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=4)
    ...     at = flights.append(b"AA 1141", partition=3)
    ...     with ConsumerConnector(store, "billing", auto_offset_reset="earliest") as connector:
    ...         first, second = connector.create_message_streams({"flights": 2})["flights"]
    ...         next(second).value
    b'AA 1141'

    Owns: its streams.
    """

    def __init__(
        self,
        store: ConsumerHost,
        group: str | None = None,
        settings: ConsumerConfig | Mapping[str, Setting] | None = None,
        **more_settings: Setting,
    ) -> None:
        """Use a store's consumers; a group keeps positions, and settings are those of `Store.consumer`."""
        self._store = store
        self._group = group
        self._settings = ConsumerConfig.of(settings, **more_settings)
        self._streams: list[MessageStream] = []
        self._closed = False

    def create_message_streams(self, topic_counts: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Create so many streams for each topic; together they return every record of it, each record once.

        Partitions are assigned in ranges, as evenly as possible. Partitions added to a topic later are assigned in
        turn and read from offset 0.

        Raises:
            UnknownTopicError: there is no such topic. No stream was created.
            InvalidPartitionsError: a number is below 1. No stream was created.
            ConsumerClosedError: after `shutdown`.
        """
        if self._closed:
            raise ConsumerClosedError("the connector was shut down; make another ConsumerConnector()")
        made: dict[str, list[MessageStream]] = {}
        streams: list[MessageStream] = []
        try:
            for topic, count in topic_counts.items():
                if not is_whole(count) or count < 1:
                    raise InvalidPartitionsError(f"a topic has 1 stream or more, found {count!r} for {topic!r}")
                made[topic] = []
                total = len(self._store[topic])
                for number in range(count):
                    consumer = self._store.consumer(self._settings, group=self._group)
                    streams.append(MessageStream(topic, consumer))
                    made[topic].append(streams[-1])
                    consumer._assign_share(topic, total, number, count)
        except BaseException:
            for stream in streams:
                stream.end()
            raise
        self._streams += streams
        return made

    def commit_offsets(self) -> None:
        """Make each stream commit when its thread asks for the next record, or at once if it waits for one."""
        for stream in self._streams:
            stream.ask_for_commit()

    def shutdown(self) -> None:
        """End every stream: waiting ones at once, others when their thread asks for the next record.

        With a group and auto commit, what is known to be processed is committed. May be called again.
        """
        self._closed = True
        for stream in self._streams:
            stream.end()

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()


__all__ = ["ConsumerConnector", "MessageStream"]
