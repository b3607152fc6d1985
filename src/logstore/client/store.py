"""What holds topics, as its users see it, whether a store or a cluster: `AnyStore`.

Groups, lag and the names of topics are asked of the back end in the same way on both sides. How topics are made and
changed stands with each side. What only files can do raises one error here. Imports nothing of files and sockets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

from logstore.client.backend.backend import Backend
from logstore.client.topic import AnyTopic
from logstore.errors import UnsupportedOperationError
from logstore.records import Ack, Isolation, NewTopic, TopicPartition

if TYPE_CHECKING:
    from logstore.client.backend.group_offsets import GroupOffsets
    from logstore.client.consumer import Consumer
    from logstore.client.lag import Lag
    from logstore.client.producer import Producer
    from logstore.groups.offsets import OffsetAndMetadata

#: What only a store has -> what to do on a cluster.
ONLY_OF_STORES = {
    "flush": "send with acks='all': brokers flush by their own settings",
    "snapshot": "copy topics with `logstore export`, or mirror the cluster",
    "disk_usage": "use describe_topic(), whose partitions have the sizes that brokers tell",
    "metrics": "ask the brokers, by JMX",
    "set_disk_budget": "set retention.bytes of the topics with alter_topic()",
    "housekeep": "leave it out: brokers delete and compact by themselves",
}


class AnyStore(ABC):
    """Topics: of a store (`logstore.open`), or of a cluster (`logstore.connect`). Any thread may use it.

    ``store["flights"]`` is a topic, ``"flights" in store`` whether it exists, and iterating gives the names.
    """

    _backend: Backend

    # -- topics, of each side

    @abstractmethod
    def topic(self, name: str) -> AnyTopic:
        """Return a topic by its name.

        Raises:
            UnknownTopicError: there is none.
        """

    @abstractmethod
    def create_topic(self, name: str, *args: Any, **settings: Any) -> AnyTopic:
        """Create a topic."""

    @abstractmethod
    def create_topics(self, topics: Iterable[NewTopic | str], *, if_not_exists: bool = False) -> list[Any]:
        """Create topics; the result is in their order."""

    @abstractmethod
    def alter_topic(self, name: str, *args: Any, **settings: Any) -> Mapping[str, str]:
        """Change settings of a topic; None removes the topic's own value. Returns its own settings."""

    @abstractmethod
    def describe_topic(self, name: str) -> Any:
        """Describe a topic: its partitions with their offsets and sizes, and its settings."""

    @abstractmethod
    def add_partitions(self, name: str, total: int) -> AnyTopic:
        """Give a topic more partitions, up to ``total``."""

    @abstractmethod
    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all their records; their consumers get an error."""

    @abstractmethod
    def producer(self, *args: Any, **settings: Any) -> Producer:
        """Open a producer for records that come one by one; see `Producer`."""

    @abstractmethod
    def consumer(self, *args: Any, **settings: Any) -> Consumer:
        """Open a consumer; see `Consumer`."""

    @abstractmethod
    def close(self) -> None:
        """End the use of the topics. May be called again."""

    @property
    @abstractmethod
    def _is_closed(self) -> bool: ...

    # -- topics

    def __getitem__(self, name: str) -> AnyTopic:
        return self.topic(name)

    def __contains__(self, name: object) -> bool:
        return name in self.topics(internal=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics())

    def topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; with ``internal`` also those that belong to the store itself."""
        return self._backend.topics(internal=internal)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records; as `delete_topics`."""
        self.delete_topics([name])

    # -- groups

    @property
    def offsets(self) -> GroupOffsets:
        """The committed offsets of every group."""
        return self._backend.offsets

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        ack: Ack | str | None = None,
    ) -> None:
        """Store the next offsets that a group will read; see `GroupOffsets.commit`."""
        self.offsets.commit(group, offsets, ack=ack)

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, of these partitions or of all; one without a commit is left out."""
        return self.offsets.committed(group, partitions)

    def lag(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> list[Lag]:
        """Return how far a group is behind, in records and seconds, for each partition that it has committed.

        Partitions that were added to a topic that the group reads count from offset 0 until it has committed
        there. Only records that a reader of that isolation will see are counted; see `logstore.client.lag`.
        """
        from logstore.client.lag import lag_of_group

        return lag_of_group(self._backend, group, Isolation(isolation), partitions)

    # -- what only a store has

    def _only_of_stores(self, call: str) -> NoReturn:
        raise UnsupportedOperationError(
            f"{call}() is of a store, and {self._backend.location} is a cluster: {ONLY_OF_STORES[call]}"
        )

    def flush(self) -> None:
        """Make everything that was appended before this call durable; a cluster raises."""
        self._only_of_stores("flush")

    def snapshot(self, *args: Any, **options: Any) -> Any:
        """Copy the whole store; a cluster raises."""
        self._only_of_stores("snapshot")

    def disk_usage(self) -> Any:
        """Measure the disk space of the logs; a cluster raises."""
        self._only_of_stores("disk_usage")

    def metrics(self) -> Any:
        """Return the metrics of the replicas in this process; a cluster raises."""
        self._only_of_stores("metrics")

    def set_disk_budget(self, *args: Any, **options: Any) -> None:
        """Change the disk budget; a cluster raises."""
        self._only_of_stores("set_disk_budget")

    def housekeep(self, *args: Any, **options: Any) -> None:
        """Do all recurring work now; a cluster raises."""
        self._only_of_stores("housekeep")

    # -- lifetime

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
