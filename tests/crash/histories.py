"""Logs with everything in them, what they must hold, and directories as images that can be damaged.

A `History` drives a log and keeps what it has sent; `expect` holds a log against a part of it, by
the slow and obvious way. An image is a root with one partition as ``{relative path: bytes}``: taken
from a log that is still open, it is what a SIGKILL at that moment leaves.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import struct
from pathlib import Path
from typing import NamedTuple

from logstore import Codec, Log
from logstore.batch._batch import stamp as stamp_offsets
from logstore.batch._batch import stamp_producer
from logstore.batch._encode import encode, encode_marker
from logstore.log import Marker, ProducerStamp
from logstore.testing._faults import FaultyFiles

PARTITION = "t-0"
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
SETTINGS = {"segment_bytes": 1000, "index_interval_bytes": 150}


def quick_files() -> FaultyFiles:
    """A table whose syncs claim success and do nothing: a crash of the process alone cannot tell."""
    files = FaultyFiles()
    files.fail("fdatasync", errno=0, times=-1)
    files.fail("fsync_dir", errno=0, times=-1)
    return files


def seeded(name: str) -> random.Random:
    """A generator whose seed is printed, and can be set by LOGSTORE_SEED."""
    seed = int(os.environ.get("LOGSTORE_SEED", random.SystemRandom().randrange(2**32)))
    print(f"{name}: LOGSTORE_SEED={seed}")
    return random.Random(seed)


# --- what was sent ----------------------------------------------------------------------------


class Sent(NamedTuple):
    """One batch, as it must be in the log. A record is (offset, key, value, timestamp, headers)."""

    first: int
    last: int
    records: tuple
    producer: ProducerStamp | None = None
    marker: Marker | None = None


class History:
    """Writes to a log and keeps what it has written."""

    def __init__(self, log: Log, rng: random.Random, sent: list[Sent] | None = None) -> None:
        self.log = log
        self.rng = rng
        self.sent: list[Sent] = sent if sent is not None else []
        self.sequences: dict[int, int] = {}
        self.attempted: Sent | None = None  #: given to the log, and not acknowledged

    def append(
        self,
        count: int,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        transactional: bool = False,
        ack: str = "written",
    ) -> Sent:
        records, stamp, batch = self._drawn(self.log.log_end_offset, count, producer_id, transactional)
        self.attempted = batch
        result = self.log.append(records, codec=codec, producer=stamp, ack=ack)
        assert (result.first_offset, result.last_offset) == (batch.first, batch.last)
        self.attempted = None
        if stamp is not None:
            self.sequences[producer_id] = stamp.base_sequence + count
        self.sent.append(batch)
        return batch

    def turn(self, producer_ids: list[int], ack: str = "written", *, as_follower: bool = False) -> list[Sent]:
        """Append a batch of each of these producers (-1: of none) in one turn, or in one run as from a leader."""
        first, sent, encoded = self.log.log_end_offset, [], []
        for producer_id in producer_ids:
            count = self.rng.randrange(1, 4)
            records, stamp, batch = self._drawn(first, count, producer_id, False)
            codec = self.rng.choice(CODECS) if self.rng.random() < 0.2 else Codec.NONE
            data = bytearray(encode(records, timestamp_ms=5_000, codec=codec))
            if stamp is not None:
                stamp_producer(data, producer_id, 0, stamp.base_sequence)
                self.sequences[producer_id] = stamp.base_sequence + count
            if as_follower:
                stamp_offsets(data, first, self.log.replica.leader_epoch)
            sent.append(batch)
            encoded.append(bytes(data))
            first += count
        if as_follower:
            results = [self.log.replica.append_replicated(b"".join(encoded), ack=ack)]
            assert [result[:2] for result in results] == [(sent[0].first, sent[-1].last)]
        else:
            results = self.log.replica.append_turn(encoded, ack=ack)
            assert [result[:2] for result in results] == [batch[:2] for batch in sent]
        self.sent += sent
        return sent

    def transactions_of_leader(self, parts: list[tuple[int, Marker | None]], ack: str = "written") -> list[Sent]:
        """Append a run as from a leader: for each part a record of a producer's transaction, or its marker."""
        first, sent, encoded = self.log.log_end_offset, [], []
        for producer_id, marker in parts:
            if marker is None:
                records, stamp, batch = self._drawn(first, 1, producer_id, True)
                assert stamp is not None
                data = bytearray(encode(records, timestamp_ms=5_000))
                stamp_producer(data, producer_id, 0, stamp.base_sequence, transactional=True)
                self.sequences[producer_id] = stamp.base_sequence + 1
            else:
                batch = Sent(first, first, (), ProducerStamp(producer_id, 0, -1, True), marker)
                data = bytearray(encode_marker(int(marker), 0, producer_id, 0, 5_000))
            stamp_offsets(data, first, self.log.replica.leader_epoch)
            sent.append(batch)
            encoded.append(bytes(data))
            first += 1
        result = self.log.replica.append_replicated(b"".join(encoded), ack=ack)
        assert result[:2] == (sent[0].first, sent[-1].last)
        self.sent += sent
        return sent

    def _drawn(
        self, first: int, count: int, producer_id: int, transactional: bool
    ) -> tuple[list[tuple], ProducerStamp | None, Sent]:
        """Random records, the stamp of their producer, and what the log then holds from an offset on."""
        records = []
        for n in range(count):
            key = self.rng.choice([None, b"", b"k%d" % self.rng.randrange(99)])
            value = self.rng.choice([None, b"", self.rng.randbytes(self.rng.randrange(40)), b"v" * 30])
            headers = [("h", b"%d" % n)] if self.rng.random() < 0.2 else []
            records.append((key, value, self.rng.randrange(1_000, 9_000), headers))
        stamp = None
        if producer_id >= 0:
            stamp = ProducerStamp(producer_id, 0, self.sequences.get(producer_id, 0), transactional)
        batch = Sent(
            first,
            first + count - 1,
            tuple(
                (first + n, key, value, timestamp, tuple((k, v) for k, v in headers))
                for n, (key, value, timestamp, headers) in enumerate(records)
            ),
            stamp,
        )
        return records, stamp, batch

    def end(self, producer_id: int, marker: Marker) -> Sent:
        first = self.log.log_end_offset
        self.attempted = batch = Sent(first, first, (), ProducerStamp(producer_id, 0, -1, True), marker)
        result = self.log.replica.append_control(marker, producer_id=producer_id, producer_epoch=0)
        assert (result.first_offset, result.last_offset) == (batch.first, batch.last)
        self.attempted = None
        self.sent.append(batch)
        return batch

    def mixed(self, rounds: int) -> None:
        """Every codec, plain, idempotent and transactional, committed, aborted and open."""
        for number in range(rounds):
            for codec in CODECS:
                self.append(self.rng.randrange(1, 4), codec)
            self.append(2, producer_id=7)
            self.append(1, Codec.LZ4, producer_id=8, transactional=True)
            self.append(1, producer_id=9, transactional=True)
            self.end(8, Marker.ABORT if number % 2 == 0 else Marker.COMMIT)
            self.append(1, Codec.ZSTD, producer_id=7)
            if number % 3 != 2:
                self.end(9, Marker.COMMIT if number % 2 == 0 else Marker.ABORT)


# --- what must be read ------------------------------------------------------------------------


def visible(sent: list[Sent], start: int = 0) -> list[tuple]:
    """What a reader sees without isolation."""
    return [record for batch in sent for record in batch.records if record[0] >= start]


def committed(sent: list[Sent], start: int = 0) -> list[tuple]:
    """What a read-committed reader sees: below the first undecided record, without aborted ones."""
    opened: dict[int, list[Sent]] = {}
    hidden: set[int] = set()
    for batch in sent:
        if batch.marker is not None:
            done = opened.pop(batch.producer.producer_id, [])
            if batch.marker is Marker.ABORT:
                hidden.update(record[0] for data in done for record in data.records)
        elif batch.producer is not None and batch.producer.transactional:
            opened.setdefault(batch.producer.producer_id, []).append(batch)
    end = min((data[0].first for data in opened.values()), default=1 << 62)
    return [record for record in visible(sent, start) if record[0] < end and record[0] not in hidden]


def fields(record) -> tuple:
    return record.offset, record.key, record.value, record.timestamp_ms, tuple(record.headers)


def same(found: list[tuple], wanted: list[tuple]) -> None:
    """Two lists of records; the first difference is named, also where pytest explains nothing."""
    if found != wanted:
        pairs = enumerate(zip(found, wanted, strict=False))
        place = next((n for n, (one, other) in pairs if one != other), min(len(found), len(wanted)))
        raise AssertionError(
            f"{len(found)} records, expected {len(wanted)}; the first difference: found "
            f"{found[place : place + 1]}, expected {wanted[place : place + 1]}"
        )


def expect(log, sent: list[Sent], start: int = 0, *, thorough: bool = True, isolation: bool = True) -> None:
    """Hold everything that a log answers against what was sent to it."""
    end = sent[-1].last + 1 if sent else start
    assert log.log_end_offset == end, f"sent up to {end}, but the log ends at {log.log_end_offset}"
    wanted = visible(sent, start)
    same([fields(record) for record in log.scan()], wanted)
    if isolation:
        same([fields(record) for record in log.scan(isolation="read_committed")], committed(sent, start))
    if not thorough:
        return
    for offset in range(start, end):
        first = next((record for record in wanted if record[0] >= offset), None)
        found = next((fields(record) for record in log.scan(offset, max_bytes=1)), None)
        assert found == first, f"read at offset {offset}"
    for timestamp in range(900, 9_100, 700):
        first = next((record for record in wanted if record[3] >= timestamp), None)
        found = log.offset_for_time(timestamp)
        assert (found and (found.offset, found.timestamp_ms)) == (first and (first[0], first[3])), timestamp


# --- images -----------------------------------------------------------------------------------


def image_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def restore(image: dict[str, bytes], root: Path) -> Path:
    """Make a root hold exactly the files of an image; returns the partition's path."""
    shutil.rmtree(root, ignore_errors=True)
    (root / PARTITION).mkdir(parents=True)
    base = str(root)
    for name, data in image.items():
        # Plain calls: this runs some ten thousand times.
        descriptor = os.open(f"{base}/{name}", os.O_WRONLY | os.O_CREAT, 0o666)
        os.write(descriptor, data)
        os.close(descriptor)
    return root / PARTITION


def partition_of(image: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in image.items() if name.startswith(PARTITION)}


class BatchLocation(NamedTuple):
    """Where a batch is."""

    name: str
    position: int
    size: int
    base_offset: int
    next_offset: int


def places(image: dict[str, bytes]) -> list[BatchLocation]:
    """The batches in the .log files of an image, parsed by length and delta alone."""
    found = []
    for name, data in sorted(image.items()):
        position = 0
        while name.endswith(".log") and position < len(data):
            base, length = struct.unpack_from(">qi", data, position)
            (delta,) = struct.unpack_from(">i", data, position + 23)
            found.append(BatchLocation(name, position, length + 12, base, base + delta + 1))
            position += length + 12
    return found


def until(sent: list[Sent], next_offset: int) -> list[Sent]:
    return [batch for batch in sent if batch.last < next_offset]


DISK_FULL = errno.ENOSPC
