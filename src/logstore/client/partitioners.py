"""Partitioners: how a producer chooses the partition of a record, by name or as an object.

Each producer has its own partitioner, which may keep state; its `partition` is called under no lock, by any
thread that sends. The built-in ones run in compiled code wherever a record takes the
fast path (`_batcher.TopicBatchers`, `_partition_rows`), so their flags describe them completely.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from logstore.batch._key_hash import partition_of
from logstore.errors import InvalidPartitionsError, InvalidSettingError, UnknownPartitionError

Choice = Callable[[str, Any, Any, int], int]


class Partitioner(ABC):
    """A choice of partition for each record that names none itself."""

    #: Kafka's hash decides for records with a key.
    hashes: ClassVar[bool] = False
    #: Records without a key stay with a partition until a batch of it is full, then move to the next.
    sticks: ClassVar[bool] = False
    #: Records without a key are sent to the partitions in turn.
    in_turn: ClassVar[bool] = False

    @abstractmethod
    def partition(self, topic: str, key: Any, value: Any, partition_count: int) -> int:
        """Return the partition of one record, 0 to ``partition_count`` - 1.

        ``key`` and ``value`` are as they were sent: buffers or None. An exception reaches the
        sender; the record is not sent.
        """


class _BuiltIn(Partitioner):
    """A partitioner in compiled code; a record on the slow path may still ask for its key's partition."""

    def partition(self, topic: str, key: Any, value: Any, partition_count: int) -> int:
        if self.hashes and key is not None:
            return partition_of(key, partition_count)
        raise NotImplementedError(
            f"{type(self).__name__} chooses by what was sent before, which its producer knows"
        )


class DefaultPartitioner(_BuiltIn):
    """Kafka's default: murmur2 of the key; records without one stay with a partition for a batch."""

    hashes = True
    sticks = True


class StickyPartitioner(_BuiltIn):
    """Every record stays with the previous record's partition until a batch is full; keys are ignored."""

    sticks = True


class RoundRobinPartitioner(_BuiltIn):
    """Every record is sent to the next partition; keys are ignored. As Kafka's class of that name."""

    in_turn = True


class RandomPartitioner(Partitioner):
    """Every record is sent to a random partition; keys are ignored."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    def partition(self, topic: str, key: Any, value: Any, partition_count: int) -> int:
        return self._rng.randrange(partition_count)


class CallablePartitioner(Partitioner):
    """A partitioner that calls a function ``choose(topic, key, value, partition_count)``."""

    def __init__(self, choose: Choice) -> None:
        self._choose = choose

    def partition(self, topic: str, key: Any, value: Any, partition_count: int) -> int:
        return self._choose(topic, key, value, partition_count)


_WORDS: dict[str, type[Partitioner]] = {
    "default": DefaultPartitioner,
    "murmur2": DefaultPartitioner,
    "sticky": StickyPartitioner,
    "uniform_sticky": StickyPartitioner,
    "roundrobin": RoundRobinPartitioner,
    "round_robin": RoundRobinPartitioner,
    "random": RandomPartitioner,
    # Kafka's own Java classes, so that its settings mean the same here.
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": DefaultPartitioner,
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": StickyPartitioner,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
}

#: The words for a partitioner in a setting.
WORDS = ("default", "murmur2", "sticky", "round_robin", "random")


def partitioner_of(
    choice: str | Partitioner | Choice | None, *, ignore_keys: bool = False, rng: random.Random | None = None
) -> Partitioner:
    """Return the partitioner for a word, an object or a function; None is Kafka's default.

    ``ignore_keys`` is Kafka's ``partitioner.ignore.keys``: the default then sticks for all records.

    Raises:
        InvalidSettingError: the word is unknown, or the object is none of these.
    """
    if choice is None:
        choice = "default"
    if isinstance(choice, str):
        kind = _WORDS.get(choice.replace("-", "_")) or _WORDS.get(choice)
        if kind is None:
            raise InvalidSettingError(
                {"partitioner": f"expected {', '.join(WORDS)} or a function, found {choice!r}"}
            )
        if kind is DefaultPartitioner and ignore_keys:
            return StickyPartitioner()
        return RandomPartitioner(rng) if kind is RandomPartitioner else kind()
    if isinstance(choice, Partitioner):
        return choice
    if callable(choice):
        return CallablePartitioner(choice)
    raise InvalidSettingError(
        {"partitioner": f"expected {', '.join(WORDS)}, a Partitioner or a function, found {type(choice).__name__}"}
    )


def checked(topic: str, chosen: Any, partition_count: int, *, by: Partitioner | None = None) -> int:
    """Return a partition that was named or chosen, or raise if the topic does not have it.

    Raises:
        UnknownPartitionError: it was named, and there is none of that number.
        InvalidPartitionsError: a partitioner chose a value that is no partition of the topic.
    """
    if isinstance(chosen, int) and not isinstance(chosen, bool) and 0 <= chosen < partition_count:
        return chosen
    has = f"topic {topic!r} has partitions 0 to {partition_count - 1}"
    if by is None:
        what = "" if isinstance(chosen, int) else ": a partition is an int"
        raise UnknownPartitionError(f"{has}, found {chosen!r}{what}")
    raise InvalidPartitionsError(f"{has}; {type(by).__name__} chose {chosen!r}")
