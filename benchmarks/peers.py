"""What the same work costs elsewhere: each peer is a small log with the same methods.

`append(list of bytes)`, `scan()` -> number of values handed over as bytes, `get(offset)` -> bytes, `flush()` to
the disk, `close()`; opening an existing directory finds its end. None of them syncs unless told. Each is driven as
those who know it would: rows go in by its call for many at once, and come out of a cursor that is drained without a
line of Python for each. Peers whose package is missing are left out.
"""

from __future__ import annotations

import bisect
import collections
import importlib.util
import itertools
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TIMESTAMP = 1_760_000_000_000


_LENGTH, _KEY = struct.Struct(">I"), struct.Struct(">Q")


def count_of(values: Iterable[Any]) -> int:
    """How many there are, each of them taken and released, by compiled code alone."""
    numbers = itertools.count()
    collections.deque(zip(values, numbers, strict=False), maxlen=0)
    # `zip` takes a value before it takes a number, and finds that there is none.
    return next(numbers)


class Naive:
    """What one writes first: a length before each value, appended to a file; positions in a list."""

    checks = False

    def __init__(self, directory: Path) -> None:
        self.path = directory / "log"
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.head = 8 if self.checks else 4
        self.positions: list[int] = []
        self.end = 0
        for value in self.values():
            self.positions.append(self.end)
            self.end += self.head + len(value)

    def append(self, values: list[bytes]) -> None:
        parts = []
        for value in values:
            size = len(value)
            parts.append(struct.pack(">II", size, zlib.crc32(value)) if self.checks else struct.pack(">I", size))
            parts.append(value)
            self.positions.append(self.end)
            self.end += self.head + size
        os.write(self.fd, b"".join(parts))

    def values(self) -> Iterator[bytes]:
        with open(self.path, "rb", 1 << 20) as file:
            while len(head := file.read(self.head)) == self.head:
                (size,) = struct.unpack_from(">I", head)
                value = file.read(size)
                if len(value) < size:
                    return
                if self.checks and zlib.crc32(value) != struct.unpack_from(">I", head, 4)[0]:
                    return
                yield value

    def scan(self) -> int:
        return count_of(self.values())

    def get(self, offset: int) -> bytes:
        begin = self.positions[offset]
        end = self.positions[offset + 1] if offset + 1 < len(self.positions) else self.end
        return os.pread(self.fd, end - begin, begin)[self.head :]

    def flush(self) -> None:
        os.fdatasync(self.fd)

    def close(self) -> None:
        os.close(self.fd)


class NaiveCrc(Naive):
    """The naive file with a CRC of each value."""

    checks = True


class NaiveBuffered(Naive):
    """The naive file behind a buffer of 64 KiB: what is in it is lost with the process."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.file = open(self.path, "ab", 64 << 10)  # noqa: SIM115  closed by `close`

    def append(self, values: list[bytes]) -> None:
        write, pack = self.file.write, _LENGTH.pack
        for value in values:
            write(pack(len(value)))
            write(value)

    def values(self) -> Iterator[bytes]:
        # The first look is that of the opening, before there is a buffer.
        if hasattr(self, "file"):
            self.file.flush()
        return super().values()

    def get(self, offset: int) -> bytes:
        return next(itertools.islice(self.values(), offset, None))

    def flush(self) -> None:
        self.file.flush()
        super().flush()

    def close(self) -> None:
        self.file.close()
        super().close()


class AiokafkaFile:
    """Record batches of aiokafka's Cython codec in one file; the batches' positions in a list."""

    def __init__(self, directory: Path) -> None:
        self.fd = os.open(directory / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.bases: list[int] = []
        self.positions: list[int] = []
        self.end = self.next_offset = 0
        size = os.fstat(self.fd).st_size
        while self.end < size:
            head = os.pread(self.fd, 61, self.end)
            batch = decoder(os.pread(self.fd, 12 + struct.unpack_from(">i", head, 8)[0], self.end))
            if not batch.validate_crc():
                break
            self._add(12 + struct.unpack_from(">i", head, 8)[0], struct.unpack_from(">i", head, 57)[0])

    def _add(self, size: int, count: int) -> None:
        self.bases.append(self.next_offset)
        self.positions.append(self.end)
        self.end += size
        self.next_offset += count

    def append(self, values: list[bytes]) -> None:
        data = encode_values(values)
        struct.pack_into(">q", data, 0, self.next_offset)
        os.write(self.fd, data)
        self._add(len(data), len(values))

    def scan(self) -> int:
        from aiokafka.record.memory_records import MemoryRecords

        count = 0
        for begin, end in itertools.pairwise([*self.positions[::100], self.end]):
            run = MemoryRecords(os.pread(self.fd, end - begin, begin))
            while (batch := run.next_batch()) is not None:
                if not batch.validate_crc():
                    raise ValueError("bad CRC")
                for record in batch:
                    record.value  # noqa: B018
                    count += 1
        return count

    def get(self, offset: int) -> bytes:
        place = bisect.bisect_right(self.bases, offset) - 1
        end = self.positions[place + 1] if place + 1 < len(self.positions) else self.end
        batch = decoder(os.pread(self.fd, end - self.positions[place], self.positions[place]))
        if not batch.validate_crc():
            raise ValueError("bad CRC")
        return next(itertools.islice(batch, offset - self.bases[place], None)).value

    def flush(self) -> None:
        os.fdatasync(self.fd)

    def close(self) -> None:
        os.close(self.fd)


class Sqlite:
    """A table of SQLite, write-ahead log, synchronous=normal; one transaction for each append."""

    def __init__(self, directory: Path) -> None:
        self.base = sqlite3.connect(directory / "log.db", isolation_level=None)
        self.base.execute("pragma journal_mode=wal")
        self.base.execute("pragma synchronous=normal")
        self.base.execute("create table if not exists log(id integer primary key, value blob)")

    def append(self, values: list[bytes]) -> None:
        self.base.execute("begin")
        self.base.executemany("insert into log(value) values(?)", zip(values))
        self.base.execute("commit")

    def scan(self) -> int:
        return count_of(self.base.execute("select value from log order by id"))

    def get(self, offset: int) -> bytes:
        return self.base.execute("select value from log where id=?", (offset + 1,)).fetchone()[0]

    def flush(self) -> None:
        self.base.execute("pragma wal_checkpoint(full)")

    def close(self) -> None:
        self.base.close()


class Lmdb:
    """An LMDB environment with big-endian offsets as keys, not synced, written through its map."""

    def __init__(self, directory: Path) -> None:
        import lmdb

        self.env = lmdb.open(
            str(directory / "lmdb"),
            map_size=16 << 30,
            sync=False,
            metasync=False,
            writemap=True,
            map_async=True,
        )
        self.next_offset = self.env.stat()["entries"]

    def append(self, values: list[bytes]) -> None:
        end = self.next_offset + len(values)
        with self.env.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(zip(map(_KEY.pack, range(self.next_offset, end)), values, strict=True), append=True)
        self.next_offset = end

    def scan(self) -> int:
        with self.env.begin() as transaction:
            return count_of(transaction.cursor().iternext(keys=False, values=True))

    def get(self, offset: int) -> bytes:
        with self.env.begin() as transaction:
            return transaction.get(_KEY.pack(offset))

    def flush(self) -> None:
        self.env.sync(True)

    def close(self) -> None:
        self.env.close()


class RocksDict:
    """RocksDB without compression through rocksdict, one write batch for each append, not synced."""

    def __init__(self, directory: Path) -> None:
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.set_write_buffer_size(128 << 20)
        self.rocksdict = rocksdict
        self.base = rocksdict.Rdict(str(directory / "rocks"), options)
        self.next_offset = 0

    def append(self, values: list[bytes]) -> None:
        batch = self.rocksdict.WriteBatch(raw_mode=True)
        for offset, value in enumerate(values, self.next_offset):
            batch.put(_KEY.pack(offset), value)
        self.base.write(batch)
        self.next_offset += len(values)

    def scan(self) -> int:
        return count_of(self.base.values())

    def get(self, offset: int) -> bytes:
        return self.base[_KEY.pack(offset)]

    def flush(self) -> None:
        self.base.flush()

    def close(self) -> None:
        self.base.close()


#: Name in the table -> (class, package it needs).
_ALL: dict[str, tuple[type[Any], str]] = {
    "naive file": (Naive, "struct"),
    "naive file + crc32": (NaiveCrc, "zlib"),
    "naive file, 64 KiB buffer": (NaiveBuffered, "struct"),
    "aiokafka + file": (AiokafkaFile, "aiokafka"),
    "sqlite": (Sqlite, "sqlite3"),
    "lmdb": (Lmdb, "lmdb"),
    "rocksdict": (RocksDict, "rocksdict"),
}


def logs(*names: str) -> dict[str, type[Any]]:
    """The peers of these names that are installed."""
    return {name: _ALL[name][0] for name in names if importlib.util.find_spec(_ALL[name][1])}


# --- aiokafka's codec, driven as its users drive it --------------------------------------------


def _builder(codec: int) -> Any:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 26,
    )


def encode_values(values: list[bytes], codec: int = 0) -> bytearray:
    """A record batch of values alone."""
    builder = _builder(codec)
    append = builder.append
    for number, value in enumerate(values):
        append(number, TIMESTAMP, None, value, [])
    return builder.build()


def encode_tuples(rows: list[tuple[bytes, bytes, int]]) -> bytearray:
    """A record batch of (key, value, timestamp)."""
    builder = _builder(0)
    append = builder.append
    for number, (key, value, timestamp) in enumerate(rows):
        append(number, timestamp, key, value, [])
    return builder.build()


def decoder(data: bytes) -> Any:
    """aiokafka's view of one batch."""
    from aiokafka.record.default_records import DefaultRecordBatch

    return DefaultRecordBatch(data)


def iterate(data: bytes) -> int:
    """As `decode`, with nothing in the loop but the value."""
    batch = decoder(data)
    if not batch.validate_crc():
        raise ValueError("bad CRC")
    for record in batch:
        record.value  # noqa: B018
    return int(batch.next_offset - batch.base_offset)


def decode(data: bytes) -> int:
    """Check one batch and take the value of each record; returns how many."""
    batch = decoder(data)
    if not batch.validate_crc():
        raise ValueError("bad CRC")
    count = 0
    for record in batch:
        record.value  # noqa: B018
        count += 1
    return count
