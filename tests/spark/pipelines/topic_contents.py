"""What a topic holds, read by the library itself and not through Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import logstore
from logstore import Record

Headers = tuple[tuple[str, bytes | None], ...]
#: Partition, offset, timestamp in ms, key, value, headers.
Row = tuple[int, int, int, bytes | None, bytes | None, Headers]


def records_of(path: str | Path, topic: str) -> list[Record]:
    """What a consumer sees: committed records, by partition and offset."""
    with logstore.open(path, read_only=True, environ={}) as store:
        found = list(store[topic].scan(isolation="read_committed"))
    return sorted(found, key=lambda record: (record.partition, record.offset))


def values_of(path: str | Path, topic: str, **options: Any) -> list[dict[str, Any]]:
    """Their values, which are JSON."""
    return [json.loads(record.value or b"null", **options) for record in records_of(path, topic)]


def rows_of(path: str | Path, topic: str) -> list[Row]:
    """Every record with all that a client sees of it, by partition and offset."""
    with logstore.open(path, read_only=True, environ={}) as store:
        return [
            (number, r.offset, r.timestamp_ms, r.key, r.value, tuple(r.headers))
            for number, log in enumerate(store[topic].partitions)
            for r in log
        ]
