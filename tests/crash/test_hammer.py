"""Readers at full speed on a log that is cut under them: right records, or out of range, never an error.

A truncation takes bytes away in the middle of a read. What that reader finds may be half
old, half new or nothing at all; it has to notice, and look again.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading

import pytest

from logstore import Log
from logstore.errors import OffsetOutOfRangeError
from tests.crash.histories import seeded

pytestmark = [pytest.mark.crash, pytest.mark.row("S18")]

SETTINGS = {"segment_bytes": 4_000, "index_interval_bytes": 400}


class Child:
    """A Python process that runs a script with the package at hand, and talks in lines."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def says(self) -> str:
        line = self.process.stdout.readline().strip()
        assert line, self.process.stderr.read()
        return line

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ends(self) -> str:
        """What it says until it ends by itself, without an error."""
        out, complaint = self.process.communicate()
        assert self.process.returncode == 0, complaint
        return out

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


HAMMERING = """
import sys, random, logstore, threading
from logstore.errors import OffsetOutOfRangeError
rng = random.Random(int(sys.argv[2]))
log = logstore.Log.open(sys.argv[1], read_only=True)
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
print("ready", flush=True)
reads = records = missed = 0
while not done.is_set():
    start, end = log.log_start_offset, log.high_watermark
    offset = rng.randrange(start, end + 1) if end >= start else start
    try:
        last = -1
        for record in log.read(offset, max_bytes=rng.choice([1, 500, 9000])):
            assert record.offset >= offset
            assert last < 0 or record.offset == last + 1, "a gap"
            assert int(record.value.split(b"|")[0]) == record.offset, (record.offset, record.value)
            last = record.offset
            records += 1
        found = log.offset_for_time(1_000_000 + rng.randrange(1 + end))
        assert found is None or found.offset >= 0
    except OffsetOutOfRangeError:
        missed += 1
    reads += 1
print(reads, records, missed, flush=True)
"""


def test_a_reader_process_never_sees_garbage_while_the_log_is_cut_under_it(ram_path):
    """Random reads at full speed beside appends, rolls, truncations and deletions: right, or out of range."""
    rng = seeded("hammer")
    with (
        Log.open(ram_path / "t-0", **SETTINGS) as log,
        Child(HAMMERING, ram_path / "t-0", rng.randrange(2**32)) as reader,
    ):
        assert reader.says() == "ready"
        appended = 0
        for turn in range(15_000):
            end = log.log_end_offset
            count = rng.randrange(1, 6)
            log.append(
                [
                    (b"k", b"%d|" % offset + b"%d" % turn * rng.randrange(20), 1_000_000 + offset)
                    for offset in range(end, end + count)
                ]
            )
            appended += count
            choice = rng.random()
            if choice < 0.05:
                log.replica.truncate_to(max(log.log_start_offset, end - rng.randrange(60)))
            elif choice < 0.08:
                log.delete_before(max(log.log_start_offset, end - rng.randrange(100, 400)))
            elif choice < 0.10:
                log.flush()
        reader.process.stdin.close()
        reads, records, _ = map(int, reader.says().split())
        assert reads > 50
        assert records > 50
        assert log.metrics().counters["truncations"] > 20


def test_a_reader_thread_never_sees_garbage_while_the_log_is_cut_under_it(ram_path):
    """As above inside one process, through the writing log itself."""
    rng = seeded("hammer inside")
    failures: list[BaseException] = []
    stop = threading.Event()

    def hammer(log, own):
        while not stop.is_set():
            try:
                start, end = log.log_start_offset, log.high_watermark
                offset = own.randrange(start, max(end, start) + 1)
                for record in log.read(offset, max_bytes=own.choice([1, 500, 9000])):
                    assert int(record.value.split(b"|")[0]) == record.offset
                log.offset_for_time(1_000_000 + own.randrange(1 + end))
            except OffsetOutOfRangeError:
                continue
            except BaseException as error:  # noqa: BLE001  (handed to the test)
                failures.append(error)
                return

    with Log.open(ram_path / "t-0", **SETTINGS) as log:
        threads = [threading.Thread(target=hammer, args=(log, random.Random(rng.random()))) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(15_000):
                end = log.log_end_offset
                log.append(
                    [
                        (b"k", b"%d|" % (end + i) + b"%d" % turn * 9, 1_000_000 + end + i)
                        for i in range(turn % 4 + 1)
                    ]
                )
                if turn % 20 == 19:
                    log.replica.truncate_to(max(log.log_start_offset, end - turn % 60))
                if turn % 33 == 32:
                    log.delete_before(max(log.log_start_offset, end - 200))
                if failures:
                    break
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    if failures:
        raise failures[0]
