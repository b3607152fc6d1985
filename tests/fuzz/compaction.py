"""Hostile batches through a compaction: the map of keys, then the filter, with every decision that there is.

The first eight bytes of an input choose what is known and what time it is; the rest are batches.
"""

from __future__ import annotations

from logstore.batch import _compaction_filter, _offset_map
from logstore.batch._batch import Batches, BatchView
from logstore.batch._compaction_filter import Filter
from logstore.batch._offset_map import SLOT_BYTES, KeyMap
from logstore.log.compaction.transaction_filter import TransactionFilter
from logstore.records import AbortedTransaction
from tests.fuzz.batches import LIMIT

END = 2**63 - 1


def read_compaction(data: bytes) -> None:
    """What is left are whole batches, with records of the old ones, in their order; or a refusal."""
    choice, body = data[:8], data[8:]
    slots, known, now, flags = 2 + choice[0] % 60, choice[1], choice[2] * 50, choice[3]
    aborted = [AbortedTransaction(7, 0, 20, 0), AbortedTransaction(2**62, choice[4], 2**62, 0)] if flags & 1 else []
    keys = KeyMap(slots * SLOT_BYTES, bytes(16))
    _fill(keys, body, choice[5], TransactionFilter(aborted))
    chosen = Filter(
        keys,
        known_offset=max(keys.latest_offset, known if flags & 2 else -1),
        now_ms=now,
        delete_retention_ms=choice[6] * 100,
        level_of=lambda codec: 1,
        limit=LIMIT,
    )
    chosen.begin(0, [known, known + 3] if flags & 4 else [])
    transaction_filter = TransactionFilter(aborted)
    at = 0
    while True:
        at, why = chosen.run(body, at, END, bool(flags & 8))
        if why != _compaction_filter.DECIDE:
            break
        batch = BatchView(memoryview(body)[at:])
        spent = transaction_filter.may_discard(batch)
        at = chosen.decide(
            body, at, END, discard=spent and bool(flags & 16), marker_goes=spent, stays_empty=bool(flags & 32)
        )
    left = bytes(memoryview(chosen))
    assert (chosen.bytes_read, chosen.bytes_kept) == (at, len(left))
    _check(body[:at], left)


def _fill(keys: KeyMap, body: bytes, start: int, transaction_filter: TransactionFilter) -> None:
    at = 0
    while True:
        at, why = keys.add_run(body, start, position=at, limit=LIMIT)
        if why != _offset_map.DECIDE:
            return
        batch = BatchView(memoryview(body)[at:])
        if transaction_filter.may_discard(batch) or batch.is_control:
            keys.pass_over(batch.last_offset)
        elif keys.add_batch(body, start, position=at, limit=LIMIT)[1] == _offset_map.FILLED:
            return
        at += batch.size


def _check(before: bytes, left: bytes) -> None:
    old = {record.offset: record for record in Batches(before, limit=LIMIT, check=False)}
    last, at = -1, 0
    while at < len(left):
        batch = BatchView(left[at:]).check()
        assert batch.base_offset > last, (batch, last)
        last = batch.last_offset
        at += batch.size
    for record in Batches(left, limit=LIMIT):
        was = old[record.offset]
        assert (record.key, record.value) == (was.key, was.value)
        assert record.timestamp_ms == was.timestamp_ms
