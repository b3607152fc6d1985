"""Open a log whose writer was killed: flushed to its end before, or with everything unsynced."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import pytest
import records
from interleave import Runner, race

from logstore import Log

SIZE, PER_BATCH, BATCHES = 1_024, 100, 2_600
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

    def check(_state: None, log: Log) -> None:
        assert log.log_end_offset == TOTAL
        assert not log.was_clean
        assert next(iter(log.read(TOTAL - 1, max_bytes=1))).value == last_value()
        log.close()

    return Runner(lambda _: Log.open(directory / "race-0"), check, prepare)


def reopening_peer(kind: type[Any], directory: Path) -> Runner:
    def check(_state: None, log: Any) -> None:
        assert log.get(TOTAL - 1) == last_value()
        log.close()

    return Runner(lambda _: kind(directory), check)


def last_value() -> bytes:
    return records.groups(SIZE, PER_BATCH, BATCHES)[-1][-1]


@pytest.fixture
def place(tmp_path: Path) -> Any:
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.row("S10", "S20")
@pytest.mark.parametrize(
    "flush, names, target",
    [
        (True, (), {"at_most_s": 0.005}),
        (False, ("naive file", "naive file + crc32", "aiokafka + file"), {"at_least_bytes_per_s": 2e9}),
    ],
    ids=["flushed", "unsynced"],
)
def test_reopen_after_kill(benchmark: Any, place: Path, flush: bool, names: tuple[str, ...], target: Any) -> None:
    """The page cache is warm: what is measured is what the open reads and checks."""
    runners: dict[str, Runner] = {
        name: reopening_peer(kind, killed(name, place / name)) for name, kind in peers.logs(*names).items()
    }
    state = "flushed" if flush else "nothing synced"
    race(
        benchmark,
        reopening(killed("ours", place / "ours", flush)),
        runners,
        workload=f"reopen {TOTAL * SIZE / 1e6:.0f} MB after kill, {state}",
        records=TOTAL,
        size=TOTAL * SIZE,
        touched=0 if flush else None,
        rounds=5,
        target=target,
    )


if __name__ == "__main__":
    run: Callable[[str, Path, bool], None] = fill_and_die
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "flush")
