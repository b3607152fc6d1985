"""Runners that several benchmarks share: logstore behind the peers' methods, how a log is filled and checked."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peers
from interleave import Runner

from logstore import Log

Places = Callable[[], Path]

#: What an append of ours does with each byte, whatever else it does.
COPY_AND_SUM = ("memcpy", "crc")


class Ours:
    """logstore behind the peers' methods, its settings as they come."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.log = Log.open(directory / "race-0", **options)
        self.append = self.log.append

    def scan(self) -> int:
        return peers.count_of(itertools.chain.from_iterable(self.log.scan().values()))

    def get(self, offset: int) -> bytes:
        return self.log.record_at(offset).value

    def flush(self) -> None:
        self.log.flush()

    def close(self) -> None:
        self.log.close()


def same(expected: Any) -> Callable[[Any, Any], None]:
    """A check that the work's result is this."""

    def check(_state: Any, result: Any) -> None:
        assert result == expected, "the result of the work is wrong"

    return check


def appending(kind: Callable[[Path], Any], places: Places, batches: list[list[bytes]]) -> Runner:
    """Append every batch to an empty log; afterwards everything must be there, in order."""
    total = sum(map(len, batches))

    def prepare() -> tuple[Path, Any]:
        place = places()
        return place, kind(place)

    def work(state: Any) -> None:
        append = state[1].append
        for batch in batches:
            append(batch)

    def check(state: Any, _result: Any) -> None:
        place, log = state
        assert log.scan() == total
        assert [log.get(offset) for offset in (0, total // 2, total - 1)] == [
            batches[0][0],
            batches[total // 2 // len(batches[0])][total // 2 % len(batches[0])],
            batches[-1][-1],
        ]
        log.close()
        shutil.rmtree(place)

    return Runner(work, check, prepare, parts=COPY_AND_SUM if kind is Ours else ("memcpy",))


def raw_writing(places: Places, pieces: list[bytes], *, sync: bool = False, sync_each: bool = False) -> Runner:
    """The limit of an append: `write` of bytes that are ready; ``sync`` once at the end, or after each."""
    size = sum(map(len, pieces))

    def prepare() -> tuple[Path, int]:
        path = places() / "raw"
        return path, os.open(path, os.O_WRONLY | os.O_CREAT)

    def work(state: tuple[Path, int]) -> None:
        fd, write, fdatasync = state[1], os.write, os.fdatasync
        for piece in pieces:
            write(fd, piece)
            if sync_each:
                fdatasync(fd)
        if sync:
            fdatasync(fd)

    def check(state: tuple[Path, int], _result: None) -> None:
        path, fd = state
        os.close(fd)
        assert path.stat().st_size == size, "not all bytes were written"
        shutil.rmtree(path.parent)

    return Runner(work, check, prepare)


def log_bytes(places: Places, batches: list[list[bytes]]) -> list[bytes]:
    """The bytes that a log writes for these batches, one piece for each."""
    place = places()
    with Log.open(place / "race-0") as log:
        for batch in batches:
            log.append(batch)
        data = b"".join(chunk.data for chunk in log.scan().chunks())
    shutil.rmtree(place)
    pieces, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        pieces.append(data[position : position + size])
        position += size
    assert len(pieces) == len(batches)
    return pieces


@contextlib.contextmanager
def filled(
    names: tuple[str, ...], places: Places, batches: list[list[bytes]], ours: Callable[[Path], Any] = Ours
) -> Iterator[dict[str, Any]]:
    """Ours and the peers, open, holding the same records, on disk where they have a way to say so."""
    with contextlib.ExitStack() as stack:
        logs = {}
        for name, kind in {"ours": ours, **peers.logs(*names)}.items():
            logs[name] = log = kind(places())
            stack.callback(log.close)
            for batch in batches:
                log.append(batch)
            # So that the kernel does not write it back while something is timed.
            log.flush()
        yield logs


def drop_from_cache(*paths: Path) -> None:
    """Let the kernel forget clean pages of files: the next reader goes to the disk."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def file_size(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
