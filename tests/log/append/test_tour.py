"""The tour of an append: how many modules and calls are between a user's call and the disk.

Counted are calls of Python functions of the package, as a profiler sees them, and the files that they are in.
Compiled functions do not count, nor do the constructors that `typing.NamedTuple` makes, which stand in no file. The
compiled modules on the way are `log._partition_log`, `batch._encode`, `_segment`, `io._files` and `_crc32c`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import logstore
from logstore.batch._batch import stamp_producer
from logstore.batch._encode import encode
from logstore.io._files import LIBC
from tests.log.logs import NOW_MS, open_log

PACKAGE = os.path.dirname(logstore.__file__) + os.sep


class Call(NamedTuple):
    module: str
    function: str
    is_before_pwrite: bool  #: of the records; that of the published end follows it


def tour(append: Callable[[], object]) -> list[Call]:
    """Every call of the package in a call, in order."""
    found: list[Call] = []
    before = LIBC.call_counts()["pwrite"]

    def note(frame, event, _argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PACKAGE):
            is_before = LIBC.call_counts()["pwrite"] == before
            found.append(Call(path.removeprefix(PACKAGE), frame.f_code.co_name, is_before))

    sys.setprofile(note)
    try:
        append()
    finally:
        sys.setprofile(None)
    assert LIBC.call_counts()["pwrite"] == before + 2
    return found


def test_an_append_to_a_log_takes_few_calls(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for _ in range(3):
            log.append([b"value"])
        calls = tour(lambda: log.append([b"value"]))
    assert [call[:2] for call in calls] == [("log/log.py", "append")]


def test_an_append_to_a_topic_passes_few_modules(tmp_path: Path) -> None:
    with logstore.open(tmp_path / "store", environ={}) as store:
        topic = store.create_topic("t", 1)
        for _ in range(3):
            topic.append(b"value", partition=0)
        calls = tour(lambda: topic.append(b"value", partition=0))
    # Which topics there are and which log is open are no calls of Python.
    assert [call[:2] for call in calls] == [("store/topic.py", "append")]


def test_a_batch_of_a_client_takes_few_calls(tmp_path: Path) -> None:
    batch = encode([b"value"], timestamp_ms=NOW_MS)
    with open_log(tmp_path) as log:
        for _ in range(3):
            log.replica.append_batch(batch)
        replica = log.replica
        calls = tour(lambda: replica.append_batch(batch))
    assert [call[:2] for call in calls] == [("log/replica.py", "append_batch")]


def test_the_first_batch_of_a_producer_takes_few_calls(tmp_path: Path) -> None:
    """A producer to a thousand partitions begins in each of them."""
    batch = bytearray(encode([b"value"], timestamp_ms=NOW_MS))
    stamp_producer(batch, 7, 0, 0)
    with open_log(tmp_path) as log:
        log.append([b"value"])
        replica = log.replica
        calls = tour(lambda: replica.append_batch(bytes(batch)))
        assert replica.append_batch(bytes(batch)).duplicate
    assert [call[:2] for call in calls] == [("log/replica.py", "append_batch")]


def test_a_run_takes_no_step_in_python_under_the_lock(tmp_path: Path) -> None:
    run = encode([b"value"], timestamp_ms=NOW_MS) * 3
    with open_log(tmp_path) as log:
        log.append([b"value"])
        replica = log.replica
        calls = tour(lambda: replica.append_run(bytearray(run), max_timestamp_ms=NOW_MS))
    assert not [call for call in calls if call.function.endswith("_locked")], "\n".join(map(str, calls))


@pytest.mark.parametrize("count", [1, 200])
def test_an_append_makes_no_object_for_a_record(tmp_path: Path, count: int) -> None:
    """The answer, a time and a few numbers: as many for two hundred records as for one."""
    values = [b"value %d" % n for n in range(count)]
    with open_log(tmp_path) as log:
        for _ in range(3):
            log.append(values)
        before = sys.getallocatedblocks()
        kept = [log.append(values) for _ in range(100)]
        made = sys.getallocatedblocks() - before
    assert len(kept) == 100
    assert made < 100 * 10
