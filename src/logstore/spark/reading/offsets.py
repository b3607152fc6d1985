"""Where a stream stands, as its checkpoint keeps it.

The JSON is that of Spark's Kafka source, with one key more, which no topic can be named by::

    {"flights": {"0": 1042, "1": 998},
     "@logstore": {"flights": {"id": "4r-J0Zq8QcyHkcRC4L8O3g", "epochs": {"0": 3, "1": 3}}}}

The end of a query's first batch also has where that began, as ``"@began"``: Spark keeps the beginning of no
batch, and asks for that of the first one anew when it has to be done again, when ``earliest`` may be elsewhere. An
offset to begin at is marked with ``"@first"``.

The topic's id tells it from one that was made anew under its name; a leader epoch of a partition is at least that
of the last record below the offset, so that the end of this epoch tells of a log that was cut. Both may be
missing: a checkpoint of Spark's Kafka source is one of ours. Pure values, no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from logstore.errors import SparkOptionError
from logstore.records import TopicPartition

__all__ = ["RESERVED", "Standing"]

RESERVED = "@logstore"
BEGAN = "@began"
FIRST = "@first"


class Standing(NamedTuple):
    """The offsets that a stream has reached, and what tells whether they still mean the same records.

    ``offsets`` are those of the next record; ``ids`` and ``epochs`` hold what is known. ``began`` is where the
    first batch of the query began, at the end of that one; ``is_first`` says that nothing was read yet.
    """

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = {}
    epochs: Mapping[TopicPartition, int] = {}
    began: Standing | None = None
    is_first: bool = False

    def to_json(self) -> dict[str, Any]:
        """As the checkpoint keeps it. Equal standings give equal texts: Spark compares these."""
        facts: dict[str, dict[str, Any]] = {}
        for topic, topic_id in sorted(self.ids.items()):
            if topic_id:
                facts[topic] = {"id": topic_id}
        for tp, epoch in sorted(self.epochs.items()):
            if epoch >= 0:
                facts.setdefault(tp.topic, {}).setdefault("epochs", {})[str(tp.partition)] = epoch
        found = offsets_json(self.offsets)
        if facts:
            found[RESERVED] = dict(sorted(facts.items()))
        if self.began is not None:
            found[BEGAN] = self.began.to_json()
        if self.is_first:
            found[FIRST] = True
        return found

    @classmethod
    def of_json(cls, found: Any) -> Standing:
        """What `to_json` or Spark's Kafka source has written.

        Raises:
            SparkOptionError: it is something else; the checkpoint is not ours.
        """
        try:
            facts = found.get(RESERVED, {})
            offsets = {
                TopicPartition(topic, _number(partition)): _number(offset)
                for topic, numbers in found.items()
                if not topic.startswith("@")
                for partition, offset in numbers.items()
            }
            began = cls.of_json(found[BEGAN]) if BEGAN in found else None
            ids = {topic: str(known["id"]) for topic, known in facts.items() if "id" in known}
            epochs = {
                TopicPartition(topic, _number(partition)): _number(epoch)
                for topic, known in facts.items()
                for partition, epoch in known.get("epochs", {}).items()
            }
        except (AttributeError, TypeError, ValueError):
            raise SparkOptionError(
                {
                    "checkpointLocation": "its offsets are not those of a logstore or Kafka source: "
                    f"{json.dumps(found)[:200]}; give the query a checkpoint of its own"
                }
            ) from None
        return cls(offsets, ids, epochs, began, bool(found.get(FIRST)))

    def is_at(self, other: Standing) -> bool:
        """Whether both stand at the same records."""
        return self[:3] == other[:3]


def offsets_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Offsets as Spark's Kafka source writes them, in one order."""
    found: dict[str, Any] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def partitions_of(topic: str, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those of one topic."""
    return [tp for tp in partitions if tp.topic == topic]


def _number(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(value)
