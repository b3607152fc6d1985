"""Partitions that we write, for Kafka's own programs to read.

A history has everything a log can hold: batches above 64 KiB, awkward records, producers with ids,
transactions inside one another that end in later segments, and the leader epochs of a log that was
killed on the way.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import NamedTuple

from logstore import Log
from logstore.log import ProducerStamp
from logstore.records import Codec, Marker
from tests.interop.clients import Read, Row
from tests.interop.make_fixtures import AWKWARD, HOUR_MS, START_MS, several, words
from tests.kit.logs import crashed_copy

SETTINGS = {"segment_bytes": 200_000, "index_interval_bytes": 1_000}

#: Ids that no broker gives out in these tests.
IDEMPOTENT, COMMITS, ABORTS = 10**12, 10**12 + 1, 10**12 + 2


class History(NamedTuple):
    """A partition's directory, every record in it, and the offsets that a committed reader skips."""

    path: Path
    records: list[Read]
    aborted: set[int]

    @property
    def committed(self) -> list[Read]:
        return [read for read in self.records if read.offset not in self.aborted]

    @property
    def end(self) -> int:
        with Log.open(self.path, read_only=True) as log:
            return log.log_end_offset


class Writer:
    """Appends to one log and remembers what it wrote."""

    def __init__(self, log: Log, codec: Codec) -> None:
        self.log = log
        self.codec = codec
        self.records: list[Read] = []
        self.aborted: set[int] = set()
        self._open: dict[int, list[int]] = {}
        self._sequences: dict[int, int] = {}

    def send(self, rows: list[Row], producer: int | None = None) -> None:
        stamp = None
        if producer is not None:
            transactional = producer != IDEMPOTENT
            stamp = ProducerStamp(producer, 0, self._sequences.get(producer, 0), transactional)
            self._sequences[producer] = stamp.base_sequence + len(rows)
        result = self.log.append(
            [(row.key, row.value, row.timestamp_ms, row.headers) for row in rows], codec=self.codec, producer=stamp
        )
        offsets = list(range(result.first_offset, result.last_offset + 1))
        self.records += [Read(offset, row) for offset, row in zip(offsets, rows, strict=True)]
        if stamp is not None and stamp.transactional:
            self._open.setdefault(producer, []).extend(offsets)

    def end(self, producer: int, marker: Marker) -> None:
        self.log.replica.append_control(marker, producer_id=producer, producer_epoch=0, coordinator_epoch=3)
        offsets = self._open.pop(producer)
        if marker is Marker.ABORT:
            self.aborted.update(offsets)


def write_history(path: Path, codec: Codec, *, killed: Path, seed: int = 0) -> History:
    """Write a partition of several segments and two leader epochs; ``killed`` is a root to work in."""
    rng = random.Random(seed)
    with Log.open(killed / path.name, **SETTINGS) as log:
        writer = Writer(log, codec)
        _write_one_workload(writer, rng, START_MS)
        copy = crashed_copy(log, path.parent.with_name(path.parent.name + ".crashed"))
    if path.exists():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    (copy / path.name).rename(path)
    shutil.rmtree(copy)
    with Log.open(path, **SETTINGS) as log:
        assert log.replica.leader_epoch == 1
        writer.log = log
        _write_one_workload(writer, rng, START_MS + 24 * HOUR_MS)
        assert log.metrics().segment_count > 2
    return History(path, writer.records, writer.aborted)


def _write_one_workload(writer: Writer, rng: random.Random, at_ms: int) -> None:
    writer.send(several(20, at_ms))
    for row in AWKWARD:
        writer.send([row])
    writer.send(AWKWARD)
    writer.send(several(3, at_ms, b"begun early"), ABORTS)
    for part in range(3):
        # Above 64 KiB before it is compressed, and after it by a codec that finds nothing.
        writer.send([Row(at_ms + part, None, words(rng.getrandbits(30), 9_000)) for _ in range(8)])
        writer.send([Row(at_ms + part, b"noise", rng.randbytes(70_000))])
        writer.send(several(5, at_ms + part, b"once"), IDEMPOTENT)
        writer.send(several(4, at_ms + part, b"kept"), COMMITS)
        writer.send(several(4, at_ms + part, b"dropped"), ABORTS)
        writer.send(several(2, at_ms + part, b"between"))
        writer.end(COMMITS, Marker.COMMIT)
        if part % 2:
            writer.end(ABORTS, Marker.ABORT)
    writer.end(ABORTS, Marker.ABORT)
    writer.send(several(5, at_ms + 10, b"last"))
