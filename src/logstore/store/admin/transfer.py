"""Records as JSON lines, in both directions, and whole logs from one directory into another.

A line is one record::

    {"topic": "flights", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "key": "AA", "value": "AA 1141", "headers": [["source", "gate"]]}

``key``, ``value`` and the values of headers are text where the bytes are UTF-8, else an object ``{"base64":
"..."}``, or null. Reading a line requires only ``value``; a record that was written with `record_to_json` reads
back the same. Only this module knows the form. Copies of logs (`copy_log`) keep batches as they are, byte for
byte.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from logstore.batch._batch import Record
from logstore.errors import InvalidRecordError, UnexpectedOffsetError
from logstore.log import Log
from logstore.log.read.reader import Readable
from logstore.records import INT64_MAX, Isolation, Origin

_FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})


class Line(NamedTuple):
    """One record as a line gives it; None for a field that is missing."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None


def record_to_json(record: Record) -> str:
    """Return a record as one line, without its newline."""
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _shown(record.key),
        "value": _shown(record.value),
        "headers": [[name, _shown(value)] for name, value in record.headers],
    }
    return json.dumps(shown, ensure_ascii=False)


def _shown(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def record_of_json(line: str | bytes) -> Line:
    """Return the record in one line.

    >>> record_of_json('{"value": "AA 1141", "key": {"base64": "/w=="}}')[:2]
    (b'AA 1141', b'\\xff')

    Raises:
        InvalidRecordError: the line is no JSON object, lacks ``value``, has another field or a value of the
            wrong kind.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRecordError(f"the line is not JSON: {error}") from None
    if not isinstance(found, dict) or "value" not in found:
        raise InvalidRecordError('a record is an object with "value", such as {"key": "a", "value": "b"}')
    if strange := sorted(found.keys() - _FIELDS):
        raise InvalidRecordError(f"fields {', '.join(strange)} are unknown; known are {', '.join(sorted(_FIELDS))}")
    return Line(
        _bytes(found["value"], "value"),
        _bytes(found.get("key"), "key"),
        _number(found.get("timestamp"), "timestamp"),
        _headers(found.get("headers") or []),
        _number(found.get("partition"), "partition"),
    )


def _bytes(value: Any, field: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise InvalidRecordError(f"{field}: a lone surrogate is no text; give base64") from None
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise InvalidRecordError(f"{field}: no base64: {error}") from None
    raise InvalidRecordError(f'{field}: expected text, null or {{"base64": "..."}}, found {value!r:.80}')


def _number(value: Any, field: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT64_MAX:
        raise InvalidRecordError(f"{field}: expected a whole number from 0 on, found {value!r:.80}")
    return value


def _headers(value: Any) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(value.items()) if isinstance(value, dict) and "base64" not in value else value
    if not isinstance(pairs, list):
        raise InvalidRecordError(f"headers: expected a list of pairs or an object, found {value!r:.80}")
    headers = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidRecordError(f"headers: expected [name, value], found {pair!r:.80}")
        _bytes(pair[0], "headers")  # a name is text that has bytes, too
        headers.append((pair[0], _bytes(pair[1], "headers")))
    return tuple(headers)


# --- logs --------------------------------------------------------------------------------------


def copy_log(
    source: Readable, target: Log, *, keep_offsets: bool = False, step: Callable[[int], None] = lambda count: None
) -> int:
    """Append all records of one log that readers see to another, batch by batch; return the number of bytes.

    Timestamps, keys, headers and compression are kept. With ``keep_offsets`` so are offsets, transactions
    and producers' sequences: ``target`` must end at or below the first of them. Otherwise control batches and
    aborted records are left out, and the other records get new offsets. Not durable on return: `Log.flush`.

    Raises:
        UnexpectedOffsetError: with ``keep_offsets``, the target has those offsets already. Nothing was
            copied.
        CorruptRecordError: a batch of the source is damaged; the batches before it were copied.
        LogstoreError: as `LogReplica.append_batch`.
    """
    first, end = source.log_start_offset, source.high_watermark
    if keep_offsets and first < end and target.log_end_offset > first:
        raise UnexpectedOffsetError(
            f"{target.name}: its log end offset is {target.log_end_offset}, the records to keep begin at offset "
            f"{first}; copy into an empty topic, or without keeping offsets"
        )
    copied, replica = 0, target.replica
    isolation = Isolation.READ_UNCOMMITTED if keep_offsets else Isolation.READ_COMMITTED
    if not keep_offsets:
        end = source.last_stable_offset
    for chunk in source.scan(first, end, isolation=isolation).chunks():
        if keep_offsets:
            for batch in chunk.batches():
                replica.append_batch(batch, origin=Origin.REPLICATION)
                copied += batch.size
                step(batch.size)
        else:
            records = chunk.records()
            if records:
                target.append([(r.key, r.value, r.timestamp_ms, r.headers) for r in records])
            copied += chunk.size
            step(chunk.size)
    if keep_offsets and target.log_start_offset < first <= target.high_watermark:
        target.delete_before(first)
    return copied
