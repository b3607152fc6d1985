"""A slow and obvious model of one log: a list of batches, asked again for every answer.

Nothing here is clever: each question walks all batches from the first. Offsets of records that were
deleted are still in the list and are below `start`; producers are known by everything that they
have ever written and that was not truncated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

SEQUENCES = 2**31


class Sent(NamedTuple):
    """A record as it was handed in, with the timestamp that it is to have."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Seen(NamedTuple):
    """A record as a reader is to see it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Stamp(NamedTuple):
    """The producer that wrote a batch."""

    producer_id: int
    epoch: int
    sequence: int
    transactional: bool = False


@dataclass
class Batch:
    """What one append has written, or a transaction marker (without records)."""

    base_offset: int
    records: list[Sent]
    stamp: Stamp | None = None
    marker: str = ""  #: "commit", "abort", or empty

    @property
    def last_offset(self) -> int:
        return self.base_offset + max(len(self.records), 1) - 1

    def seen(self) -> list[Seen]:
        return [
            Seen(self.base_offset + n, record.timestamp_ms, record.key, record.value, record.headers)
            for n, record in enumerate(self.records)
        ]


class Duplicate(NamedTuple):
    """A batch that was written before, and where."""

    first_offset: int
    last_offset: int


@dataclass
class LogModel:
    """One log."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0

    # -- writing

    def append(self, records: list[Sent], stamp: Stamp | None = None) -> Duplicate | Batch:
        """The batch that an append makes, or where the same one was written before."""
        if stamp is not None and stamp.sequence >= 0:
            found = self.duplicate_of(stamp, len(records))
            if found is not None:
                return found
        return self._add(Batch(self.end, list(records), stamp))

    def append_split(self, parts: list[list[Sent]]) -> None:
        """An append that took several batches."""
        for part in parts:
            self._add(Batch(self.end, list(part)))

    def append_marker(self, producer_id: int, epoch: int, marker: str) -> Batch:
        return self._add(Batch(self.end, [], Stamp(producer_id, epoch, -1, True), marker))

    def _add(self, batch: Batch) -> Batch:
        self.batches.append(batch)
        self.end = batch.last_offset + 1
        return batch

    def truncate_to(self, offset: int) -> int:
        """A batch that holds the offset goes whole."""
        if offset < self.end:
            cut = [batch for batch in self.batches if batch.last_offset >= offset]
            self.end = min([offset, *(batch.base_offset for batch in cut)])
            self.batches = [batch for batch in self.batches if batch.last_offset < offset]
            # What was deleted stays deleted, though the batch that held the start had to go.
            self.end = max(self.end, self.start)
            self.high_watermark = min(self.high_watermark, self.end)
        return self.end

    def delete_before(self, offset: int) -> int:
        self.start = max(self.start, offset)
        return self.start

    def lose_from(self, offset: int) -> None:
        """A crash: what was written from an offset on is gone."""
        self.batches = [batch for batch in self.batches if batch.base_offset < offset]
        self.end = offset
        self.high_watermark = min(self.high_watermark, offset)

    # -- producers

    def data_of(self, producer_id: int) -> list[Batch]:
        """The batches of a producer's newest epoch, without markers."""
        mine = [batch for batch in self.batches if batch.stamp and batch.stamp.producer_id == producer_id]
        if not mine:
            return []
        epoch = self.epoch_of(producer_id)
        return [batch for batch in mine if batch.stamp.epoch == epoch and not batch.marker]

    def epoch_of(self, producer_id: int) -> int:
        epochs = [b.stamp.epoch for b in self.batches if b.stamp and b.stamp.producer_id == producer_id]
        return epochs[-1] if epochs else 0

    def next_sequence(self, producer_id: int) -> int:
        data = self.data_of(producer_id)
        if not data:
            return 0
        return (data[-1].stamp.sequence + len(data[-1].records)) % SEQUENCES

    def duplicate_of(self, stamp: Stamp, count: int) -> Duplicate | None:
        for old in self.data_of(stamp.producer_id)[-5:]:
            if (
                old.stamp.epoch == stamp.epoch
                and old.stamp.sequence == stamp.sequence
                and len(old.records) == count
            ):
                return Duplicate(old.base_offset, old.last_offset)
        return None

    # -- transactions

    def open_transactions(self) -> dict[int, int]:
        """Producer id and first offset of every open transaction."""
        opened: dict[int, int] = {}
        for batch in self.batches:
            if batch.marker:
                opened.pop(batch.stamp.producer_id, None)
            elif batch.stamp and batch.stamp.transactional:
                opened.setdefault(batch.stamp.producer_id, batch.base_offset)
        return opened

    def last_stable_offset(self) -> int:
        """The first offset that is not decided below the high watermark."""
        firsts: dict[int, int] = {}
        undecided = [self.high_watermark]
        for batch in self.batches:
            if batch.marker:
                first = firsts.pop(batch.stamp.producer_id, None)
                if first is not None and batch.base_offset >= self.high_watermark:
                    undecided.append(first)
            elif batch.stamp and batch.stamp.transactional:
                firsts.setdefault(batch.stamp.producer_id, batch.base_offset)
        return min([*undecided, *firsts.values()])

    def is_aborted(self, batch: Batch) -> bool:
        """Whether the next marker of the producer behind a transactional batch is an abort."""
        if batch.marker or not batch.stamp or not batch.stamp.transactional:
            return False
        for later in self.batches:
            if (
                later.base_offset > batch.base_offset
                and later.marker
                and later.stamp.producer_id == batch.stamp.producer_id
            ):
                return later.marker == "abort"
        return False

    # -- reading

    def end_offset(self, committed: bool = False) -> int:
        return self.last_stable_offset() if committed else self.high_watermark

    def visible(self, committed: bool = False, start: int | None = None, end: int | None = None) -> list[Seen]:
        """The records that a scan gives."""
        first = self.start if start is None else max(start, self.start)
        last = self.end_offset(committed) if end is None else min(end, self.end_offset(committed))
        return [
            record
            for batch in self.batches
            if not (committed and self.is_aborted(batch))
            for record in batch.seen()
            if first <= record.offset < last
        ]

    def offset_for_time(self, timestamp_ms: int, committed: bool = False) -> tuple[int, int] | None:
        for record in self.visible(committed):
            if record.timestamp_ms >= timestamp_ms:
                return record.timestamp_ms, record.offset
        return None

    def newest(self, committed: bool = False) -> tuple[int, int] | None:
        """Timestamp and offset of the first record of the largest timestamp."""
        found = [record for record in self.visible(committed) if record.timestamp_ms >= 0]
        newest = max(found, key=lambda record: record.timestamp_ms, default=None)
        return None if newest is None else (newest.timestamp_ms, newest.offset)


def seen(records) -> list[Seen]:
    """What a reader has given, in the model's words."""
    return [Seen(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records]
