"""Topics of a real broker, by a client that is not ours: what is put there, what is found there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import logstore
from tests.spark.pipelines.topic_contents import Headers, Row, rows_of

TIMEOUT_S = 60

#: Partition, key, value, timestamp in ms, headers.
Sent = tuple[int, bytes | None, bytes | None, int, Headers]


class Topics:
    """The topics of one broker."""

    def __init__(self, bootstrap: str) -> None:
        import confluent_kafka.admin  # installed by make interop alone

        self.bootstrap = bootstrap
        self._kafka = confluent_kafka
        self._admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int) -> None:
        """A topic, which must be new."""
        new = self._kafka.admin.NewTopic(topic, partitions, 1)
        self._admin.create_topics([new])[topic].result(TIMEOUT_S)

    def partitions(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions; none if there is no such topic."""
        known = self._admin.list_topics(timeout=TIMEOUT_S).topics.get(topic)
        return [] if known is None else sorted(known.partitions)

    def remove_all(self) -> None:
        """Every topic but the broker's own."""
        names = [name for name in self._admin.list_topics(timeout=TIMEOUT_S).topics if not name.startswith("__")]
        for each in self._admin.delete_topics(names).values() if names else ():
            each.result(TIMEOUT_S)

    def write(self, topic: str, rows: Iterable[Sent]) -> None:
        """Append to a topic, in this order."""
        producer = self._kafka.Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        failed: list[Any] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        for partition, key, value, timestamp, headers in rows:
            producer.produce(topic, value, key, partition, delivered, timestamp=timestamp, headers=[*headers])
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0
        assert not failed, failed[0]

    def read(self, topic: str) -> list[Row]:
        """All committed records, by partition and offset."""
        consumer = self._kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        left = set(self.partitions(topic))
        found: list[Row] = []
        try:
            consumer.assign([self._kafka.TopicPartition(topic, number, 0) for number in left])
            while left:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"{topic}: nothing came"
                if message.error() is None:
                    place = message.partition(), message.offset(), message.timestamp()[1]
                    found.append((*place, message.key(), message.value(), tuple(message.headers() or ())))
                else:
                    assert message.error().code() == self._kafka.KafkaError._PARTITION_EOF, message.error()
                    left.discard(message.partition())
        finally:
            consumer.close()
        return sorted(found, key=lambda row: row[:2])

    def publish(self, path: str | Path, topic: str) -> None:
        """Bring a topic of a store here: what is not here yet, in the same partitions."""
        rows = rows_of(path, topic)
        if not self.partitions(topic):
            self.create(topic, 1 + max(row[0] for row in rows))
        there = {row[:2] for row in self.read(topic)}
        self.write(topic, (sent(row) for row in rows if row[:2] not in there))

    def mirror(self, topic: str, path: str | Path) -> None:
        """Bring a topic of here into a store, in the place of its own of that name."""
        with logstore.open(path, environ={}) as store:
            if topic in store:
                store.delete_topic(topic)
            made = store.create_topic(topic, len(self.partitions(topic)))
            for partition, _, timestamp, key, value, headers in self.read(topic):
                made.append(value, key=key, partition=partition, timestamp=timestamp, headers=headers)


def sent(row: Row) -> Sent:
    """A record that was found, to be written."""
    partition, _, timestamp, key, value, headers = row
    return partition, key, value, timestamp, headers
