"""Open a log of 1 GB whose writer was killed: flushed to its end before, or with everything unsynced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import pytest
import records
from interleave import Runner, Target, race
from runners import same

from logstore import Log
from logstore.batch._crc32c import crc32c

SIZE, PER_BATCH, BATCHES = 1_000, 100, 10_000
TOTAL = PER_BATCH * BATCHES


def fill_and_die(kind: str, directory: Path, flush: bool) -> None:
    """The child: write everything, then be killed as by a crash."""
    log: Any = Log.open(directory / "race-0") if kind == "ours" else peers.logs(kind)[kind](directory)
    for batch in records.groups(SIZE, PER_BATCH, BATCHES):
        log.append(batch)
    if flush:
        log.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def killed(kind: str, directory: Path, flush: bool = False) -> Path:
    """A directory that a killed writer has left."""
    directory.mkdir()
    child = subprocess.run([sys.executable, __file__, kind, str(directory), "flush" * flush], check=False)
    assert child.returncode == -signal.SIGKILL
    return directory


def small_files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.suffix != ".log"}


def reopening(directory: Path) -> Runner:
    """Open the log as the kill left it: opening changes small files only, and each round begins with the old."""
    left = small_files(directory)
    data = {path: path.stat().st_size for path in directory.rglob("*.log")}

    def prepare() -> None:
        for path in small_files(directory).keys() - left.keys():
            path.unlink()
        for path, content in left.items():
            path.write_bytes(content)
        assert {path: path.stat().st_size for path in directory.rglob("*.log")} == data
        for path in data:
            assert sum(map(len, pieces_of(path))) == data[path]  # the page cache is warm

    def check(_state: None, log: Log) -> None:
        assert log.log_end_offset == TOTAL
        assert not log.maintenance.was_clean
        assert next(iter(log.read(TOTAL - 1, max_bytes=1))).value == last_value()
        log.close()

    return Runner(lambda _: Log.open(directory / "race-0"), check, prepare, parts=("crc",))


def reopening_peer(kind: type[Any], directory: Path) -> Runner:
    def check(_state: None, log: Any) -> None:
        assert log.get(TOTAL - 1) == last_value()
        log.close()

    return Runner(lambda _: kind(directory), check)


def pieces_of(path: Path) -> Any:
    """A file in pieces of 1 MiB, in one buffer."""
    buffer = memoryview(bytearray(1 << 20))
    fd, position = os.open(path, os.O_RDONLY), 0
    try:
        while got := os.preadv(fd, [buffer], position):
            yield buffer[:got]
            position += got
    finally:
        os.close(fd)


def reading_and_summing(directory: Path) -> Runner:
    """The limit of a scan: every byte read and summed, and nothing understood."""
    (path,) = directory.rglob("*.log")

    def work(_state: None) -> int:
        done = 0
        for piece in pieces_of(path):
            crc32c(piece)
            done += len(piece)
        return done

    return Runner(work, same(path.stat().st_size), parts=("memcpy", "crc"))


def last_value() -> bytes:
    return records.groups(SIZE, PER_BATCH, BATCHES)[-1][-1]


@pytest.mark.row("S10")
@pytest.mark.row("S20", part="time of 1,000 partitions")
@pytest.mark.parametrize(
    "flush, names",
    [(True, ("lmdb",)), (False, ("naive file", "aiokafka + file"))],
    ids=["flushed", "unsynced"],
)
def test_reopen_after_kill(benchmark: Any, places: Any, flush: bool, names: tuple[str, ...]) -> None:
    """The page cache is warm: what is measured is what the open reads and checks."""
    place = places()
    ours = killed("ours", place / "ours", flush)
    runners: dict[str, Runner] = {
        name: reopening_peer(kind, killed(name, place / name)) for name, kind in peers.logs(*names).items()
    }
    if not flush:
        runners["limit: read and CRC alone"] = reading_and_summing(ours)
    stored = sum(path.stat().st_size for path in ours.rglob("*.log"))

    def targets(medians: dict[str, float]) -> list[Target]:
        if flush:
            return [Target("to the log's end", medians["ours"] * 1e3, "ms", 5, 2)]
        rate = stored / medians["ours"] / 1e9
        return [Target("scanned and checked", rate, "GB/s", 2, 4, at_most=False)]

    race(
        benchmark,
        reopening(ours),
        runners,
        workload=f"reopen {TOTAL * SIZE / 1e9:.0f} GB after kill -9, {'flushed' if flush else 'nothing synced'}",
        records=TOTAL,
        size=TOTAL * SIZE,
        touched=0 if flush else None,
        targets=targets,
        rounds=5,
        unit="ms",
        codec="none",
        output_bytes=stored,
    )


if __name__ == "__main__":
    run: Callable[[str, Path, bool], None] = fill_and_die
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "flush")
