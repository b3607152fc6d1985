"""Offsets that a stream has reached, in the format of its checkpoint.

The JSON is that of Spark's Kafka source, with one more key, which cannot be a topic's name::

    {"flights": {"0": 1042, "1": 998},
     "@logstore": {"flights": {"id": "4r-J0Zq8QcyHkcRC4L8O3g", "epochs": {"0": 3, "1": 3}}}}

The end of a query's first batch also stores where that batch began, as ``"@began"``. Spark does not keep where a
batch begins. When it repeats the first batch it asks again, and ``earliest`` may have moved. An offset at which a
query begins is marked with ``"@first"``.

The topic's id tells it from one that was re-created under its name. A partition's leader epoch is at least that of
the last record below the offset. So the end of this epoch shows whether the log was truncated. Both may be
missing: a checkpoint of Spark's Kafka source can be read. Pure values, no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from logstore.errors import SparkOptionError
from logstore.records import TopicPartition

RESERVED = "@logstore"
BEGAN = "@began"
FIRST = "@first"


class StreamOffsets(NamedTuple):
    """Offsets that a stream has reached, with topic ids and leader epochs to check that the records are the same.

    ``offsets`` are those of the next record; ``ids`` and ``epochs`` may be incomplete. ``began`` is set at the end
    of the query's first batch, to where that batch began. ``is_first`` is true if nothing was read yet.
    """

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = {}
    epochs: Mapping[TopicPartition, int] = {}
    began: StreamOffsets | None = None
    is_first: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for the checkpoint. Equal offsets give equal texts, which Spark compares."""
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
    def of_json(cls, found: Any) -> StreamOffsets:
        """Parse what `to_json` or Spark's Kafka source has written.

        Raises:
            SparkOptionError: it has another format; the checkpoint is not ours.
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

    def is_at(self, other: StreamOffsets) -> bool:
        """Return whether both are at the same records."""
        return self[:3] == other[:3]


def offsets_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Return offsets as Spark's Kafka source writes them, sorted."""
    found: dict[str, Any] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def _number(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(value)
