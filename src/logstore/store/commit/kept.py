"""State of a former store that its directory keeps while it is Kafka's: `logstore-kept`, a small text file.

`release_to_kafka` writes it and `adopt_kafka_directory` reads it. Without it a sink's batch would be ingested
twice, and a producer be given the id of one that the logs know. Kafka ignores plain files in its root. The name is
none of those by which a directory is known as ours. Only this module knows the bytes::

    logstore kept 1
    {"next_producer_id": 1099511628776, "sinks": {"query": {"version": 1, "done": 3, …}}}
    crc32c 1f9a2b44

The third line is the CRC-32C of the two above it, newlines included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from logstore.errors import CorruptRecordError
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import with_crc_line, without_crc_line
from logstore.store.commit.commit_log import SinkState

KEPT = "logstore-kept"

_HEAD = b"logstore kept 1\n"


@dataclass(frozen=True)
class Kept:
    """State that the logs and Kafka's own metadata do not hold."""

    next_producer_id: int  #: any id below it may have been given out
    sinks: Mapping[str, SinkState] = field(default_factory=dict)  #: the state of each query

    def save(self, root: Directory) -> None:
        """Replace the file. Durable on return."""
        facts = {
            "next_producer_id": self.next_producer_id,
            "sinks": {query: json.loads(state.to_bytes()) for query, state in sorted(self.sinks.items())},
        }
        body = _HEAD + json.dumps(facts, separators=(",", ":")).encode() + b"\n"
        root.replace(KEPT, with_crc_line(body), durable=True)

    @classmethod
    def load(cls, root: Directory) -> Kept | None:
        """Return the contents of the root's file, or None if there is none.

        Raises:
            CorruptRecordError: the file is not whole.
        """
        data = root.read(KEPT)
        if data is None:
            return None
        try:
            body = without_crc_line(data)
            if body is None or not body.startswith(_HEAD):
                raise ValueError("the checksum disagrees, or the version is a later one")
            facts = json.loads(body[len(_HEAD) :])
            sinks = {
                query: SinkState.of_bytes(json.dumps(state).encode()) for query, state in facts["sinks"].items()
            }
            return cls(int(facts["next_producer_id"]), sinks)
        except (ValueError, KeyError, TypeError, AttributeError, CorruptRecordError) as error:
            raise CorruptRecordError(
                f"the store's record of its sinks' commits is damaged: {error}; restore the file from a copy, or "
                "remove it: then a batch that a sink commits again is ingested again",
                path=root.join(KEPT),
            ) from error


def newest(*known: Mapping[str, SinkState]) -> dict[str, SinkState]:
    """Return the state of each query with the newest ingested batch."""
    found: dict[str, SinkState] = {}
    for states in known:
        for query, state in states.items():
            if query not in found or state.done > found[query].done:
                found[query] = state
    return found
