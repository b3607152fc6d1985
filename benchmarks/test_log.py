"""A log on disk beside other ways to keep one: append, scan, random read, no sync anywhere."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peers
import pytest
import records
from interleave import Runner, race

from logstore import Log

SIZE = 100


class Ours:
    """logstore behind the peers' methods, its settings as they come."""

    def __init__(self, directory: Path) -> None:
        self.log = Log.open(directory / "race-0")
        self.append = self.log.append

    def scan(self) -> int:
        return sum(len(values) for values in self.log.scan().values())

    def get(self, offset: int) -> bytes:
        return next(iter(self.log.read(offset, max_bytes=1))).value

    def close(self) -> None:
        self.log.close()


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Makes empty directories."""

    def make() -> Path:
        return Path(tempfile.mkdtemp(dir=tmp_path))

    yield make
    shutil.rmtree(tmp_path)


def appending(kind: type[Any], places: Callable[[], Path], batches: list[list[bytes]]) -> Runner:
    """Append every batch to an empty log; afterwards everything must be there, in order."""
    total = sum(map(len, batches))

    def prepare() -> tuple[Path, Any]:
        place = places()
        return place, kind(place)

    def work(state: Any) -> None:
        append = state[1].append
        for batch in batches:
            append(batch)

    def check(state: Any, _result: None) -> None:
        place, log = state
        assert log.scan() == total
        assert [log.get(offset) for offset in (0, total // 2, total - 1)] == [
            batches[0][0],
            batches[total // 2 // len(batches[0])][total // 2 % len(batches[0])],
            batches[-1][-1],
        ]
        log.close()
        shutil.rmtree(place)

    return Runner(work, check, prepare)


@pytest.mark.row("S6", "S14")
@pytest.mark.parametrize("per_batch, count", [(100, 2_000), (1, 20_000)])
def test_append(benchmark: Any, places: Any, per_batch: int, count: int) -> None:
    """Written, not synced: what is left is encoding, CRC, index and the system call."""
    batches = records.groups(SIZE, per_batch, count)
    names = ("naive file", "naive file + crc32", "aiokafka + file", "sqlite", "lmdb", "rocksdict")
    bars = {"naive file": 1.5, "rocksdict": 2.5, "sqlite": 10.0} if per_batch > 1 else {}
    race(
        benchmark,
        appending(Ours, places, batches),
        {name: appending(kind, places, batches) for name, kind in peers.logs(*names).items()},
        workload=f"append {SIZE} B x {per_batch}, no sync",
        records=per_batch * count,
        size=per_batch * count * SIZE,
        bars=bars,
        rounds=5,
        codec="none",
    )


@pytest.mark.row("S6")
def test_single_appends_through_the_appender(benchmark: Any, places: Any) -> None:
    """One call for each record; the appender gathers 64 KiB. The naive file writes each record."""
    singles = [value for (value,) in records.groups(SIZE, 1, 50_000)]
    one_by_one = [[value] for value in singles]
    plain = appending(Ours, places, one_by_one)

    def work(state: Any) -> None:
        with state[1].log.appender() as appender:
            append = appender.append
            for value in singles:
                append(value)

    race(
        benchmark,
        Runner(work, plain.check, plain.prepare),
        {name: appending(kind, places, one_by_one) for name, kind in peers.logs("naive file").items()},
        workload=f"single {SIZE} B appends, buffered",
        records=len(singles),
        size=len(singles) * SIZE,
        bars={"naive file": 4.0},
        codec="none",
    )


@contextlib.contextmanager
def filled(
    names: tuple[str, ...], places: Callable[[], Path], batches: list[list[bytes]]
) -> Iterator[dict[str, Any]]:
    """Ours and the peers, open, holding the same records."""
    with contextlib.ExitStack() as stack:
        logs = {}
        for name, kind in {"ours": Ours, **peers.logs(*names)}.items():
            logs[name] = log = kind(places())
            stack.callback(log.close)
            for batch in batches:
                log.append(batch)
        yield logs


def same(expected: Any) -> Any:
    def check(_state: Any, result: Any) -> None:
        assert result == expected, "the result of the work is wrong"

    return check


@pytest.mark.row("S14")
def test_scan_to_values(benchmark: Any, places: Any) -> None:
    """Every value as a bytes object, from the page cache."""
    batches = records.groups(SIZE, 100, 3_000)
    total = 100 * len(batches)
    with filled(
        ("naive file", "naive file + crc32", "aiokafka + file", "lmdb", "rocksdict"), places, batches
    ) as logs:
        runners = {name: Runner(lambda _, log=log: log.scan(), same(total)) for name, log in logs.items()}
        race(
            benchmark,
            runners.pop("ours"),
            runners,
            workload=f"scan {SIZE} B to values",
            records=total,
            size=total * SIZE,
            bars={"lmdb": 1.5},
            codec="none",
        )


@pytest.mark.row("S2", "S3", "S16")
def test_random_reads(benchmark: Any, places: Any) -> None:
    """One value at a random offset of 1,000,000, in batches of 100. The naive file and aiokafka's keep
    every position in memory, the others do not."""
    batches = records.groups(SIZE, 100, 10_000)
    total = 100 * len(batches)
    offsets = random.Random(1).choices(range(total), k=5_000)
    expected = [batches[offset // 100][offset % 100] for offset in offsets]
    with filled(("naive file", "aiokafka + file", "lmdb", "rocksdict"), places, batches) as logs:
        runners = {
            name: Runner(lambda _, get=log.get: [get(offset) for offset in offsets], same(expected))
            for name, log in logs.items()
        }
        race(
            benchmark,
            runners.pop("ours"),
            runners,
            workload="random read by offset, 100 MB",
            records=len(offsets),
            size=len(offsets) * SIZE,
            bars={"lmdb": 0.5},
            codec="none",
        )
