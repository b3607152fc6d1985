"""Our own implementations pass the suites that we give to embedders, and wrong ones do not."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore import Log, LogConfig
from logstore.client.partitioners import CallablePartitioner, RandomPartitioner
from logstore.clock import Clock, SystemClock
from logstore.errors import LogstoreError
from logstore.io._files import LIBC, Files
from logstore.log import HighWatermarkPolicy, StandalonePolicy
from logstore.log.read.reader import Readable
from logstore.testing import FaultyFiles, ManualClock, SimDisk
from logstore.testing.conformance import (
    ClockConformance,
    DatabaseConformance,
    FilesConformance,
    HighWatermarkPolicyConformance,
    PartitionerConformance,
    ReadableConformance,
)

# --- clocks ------------------------------------------------------------------------------------


class TestSystemClock(ClockConformance):
    def make_clock(self) -> Clock:
        return SystemClock()


class TestManualClock(ClockConformance):
    def make_clock(self) -> Clock:
        return ManualClock()


# --- owners ------------------------------------------------------------------------------------


class TestStandalonePolicy(HighWatermarkPolicyConformance):
    def make_policy(self, config: LogConfig) -> HighWatermarkPolicy:
        return StandalonePolicy(config)


class HalfwayPolicy(HighWatermarkPolicy):
    """Shows what is on disk, and of the rest one half."""

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        return (log_end_offset + synced_end) // 2


class TestHalfwayPolicy(HighWatermarkPolicyConformance):
    def make_policy(self, config: LogConfig) -> HighWatermarkPolicy:
        return HalfwayPolicy()


# --- partitioners ------------------------------------------------------------------------------


class TestDefaultPartitioner(PartitionerConformance):
    def make_partitioner(self) -> Any:
        return "default"


class TestStickyPartitioner(PartitionerConformance):
    keys_decide = False

    def make_partitioner(self) -> Any:
        return "sticky"


class TestRoundRobinPartitioner(PartitionerConformance):
    keys_decide = False

    def make_partitioner(self) -> Any:
        return "round_robin"


class TestRandomPartitioner(PartitionerConformance):
    keys_decide = False

    def make_partitioner(self) -> Any:
        return RandomPartitioner(random.Random(3))


class TestFunction(PartitionerConformance):
    def make_partitioner(self) -> Any:
        return lambda topic, key, value, count: sum(key or b"") % count


class TestCallablePartitioner(PartitionerConformance):
    def make_partitioner(self) -> Any:
        return CallablePartitioner(lambda topic, key, value, count: len(key or b"") * 7 % count)


# --- files -------------------------------------------------------------------------------------


class OnTheMachine(FilesConformance):
    @pytest.fixture(autouse=True)
    def below(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def make_directory(self, files: Files) -> str:
        return tempfile.mkdtemp(dir=self.root)


class TestLibc(OnTheMachine):
    def make_files(self) -> Files:
        return LIBC


class TestFaultyFiles(OnTheMachine):
    def make_files(self) -> Files:
        return FaultyFiles()


class TestSimDisk(FilesConformance):
    def make_files(self) -> Files:
        return SimDisk()

    def make_directory(self, files: Files) -> str:
        files.mkdir("/place")
        return "/place"


# --- readers -----------------------------------------------------------------------------------


def write(log: Log, values: list[list[bytes]]) -> None:
    for batch in values:
        first = log.log_end_offset
        log.append([(None, value, first + n) for n, value in enumerate(batch)])


class TestLog(ReadableConformance):
    @contextlib.contextmanager
    def holding(self, values: list[list[bytes]]) -> Iterator[Readable]:
        with Log.open("/data/t-0", files=SimDisk()) as log:
            write(log, values)
            yield log


class TestLogReader(ReadableConformance):
    """Beside the log that writes."""

    @contextlib.contextmanager
    def holding(self, values: list[list[bytes]]) -> Iterator[Readable]:
        disk = SimDisk()
        with Log.open("/data/t-0", files=disk) as log:
            write(log, values)
            with Log.open("/data/t-0", files=disk, read_only=True) as reader:
                yield reader


class TestClosedLog(ReadableConformance):
    """Read-only, when the writer is gone."""

    @contextlib.contextmanager
    def holding(self, values: list[list[bytes]]) -> Iterator[Readable]:
        disk = SimDisk()
        with Log.open("/data/t-0", files=disk, segment_bytes=200) as log:
            write(log, values)
        with Log.open("/data/t-0", files=disk, read_only=True) as reader:
            yield reader


# --- databases ---------------------------------------------------------------------------------


class TestSqlite(DatabaseConformance):
    @pytest.fixture(autouse=True)
    def below(self, tmp_path: Path) -> None:
        self.path = tmp_path / "offsets.db"

    def connect(self) -> Any:
        return sqlite3.connect(self.path)


# --- wrong ones are found ------------------------------------------------------------------------


def suite_of(base: type[Any], make: str, thing: Callable[..., Any]) -> Any:
    return type("Planted", (base,), {make: lambda self, *given: thing(*given)})()


class BackwardsClock(SystemClock):
    def __init__(self) -> None:
        self._now = 1e6

    def monotonic_s(self) -> float:
        self._now -= 1
        return self._now


class HeldLockClock(SystemClock):
    """Gives up without a release of the lock, and says that it was notified."""

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        return True


class WildPolicy(HighWatermarkPolicy):
    def __init__(self) -> None:
        self._rng = random.Random(1)

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        return self._rng.randrange(log_end_offset + 1)


class SilentPolicy(HighWatermarkPolicy):
    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("suite", "expected", "broken"),
    [
        (
            suite_of(ClockConformance, "make_clock", BackwardsClock),
            "test_monotonic_time_never_goes_back",
            "AssertionError: monotonic time went back",
        ),
        (
            suite_of(ClockConformance, "make_clock", HeldLockClock),
            "test_a_wait_of_no_time_is_over",
            "AssertionError: a wait of no time said that it was notified",
        ),
        (
            suite_of(HighWatermarkPolicyConformance, "make_policy", lambda config: WildPolicy()),
            "test_an_answer_depends",
            "AssertionError: asked the same three times, it gave different answers",
        ),
        (
            suite_of(HighWatermarkPolicyConformance, "make_policy", lambda config: SilentPolicy()),
            "test_everything_is_shown",
            "AssertionError: a settled log does not show all its records",
        ),
        (
            suite_of(PartitionerConformance, "make_partitioner", lambda: lambda *given: given[3]),
            "test_every_record_goes_to",
            "InvalidPartitionsError: topic 't' has partitions 0 to 0; CallablePartitioner chose 1",
        ),
        (
            suite_of(PartitionerConformance, "make_partitioner", lambda: RandomPartitioner(random.Random(1))),
            "test_a_key_keeps",
            "AssertionError: a key has changed its partition",
        ),
        (
            suite_of(DatabaseConformance, "connect", lambda: sqlite3.connect(":memory:")),
            "test_what_was_committed_is_found",
            "OperationalError: no such table: logstore_conformance",
        ),
    ],
    ids=["backwards", "held", "wild", "silent", "outside", "keyless", "private"],
)
def test_what_breaks_the_contract_fails_the_suite(suite: Any, expected: str, broken: str) -> None:
    (name,) = (name for name in dir(suite) if name.startswith(expected))
    with pytest.raises((AssertionError, LogstoreError, sqlite3.Error)) as failure:
        getattr(suite, name)()
    assert f"{failure.type.__name__}: {failure.value}".startswith(broken)
