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

import logstore
from logstore.io._files import LIBC
from tests.log.logs import open_log

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
    modules = {call.module for call in calls if call.is_before_pwrite}
    assert len(modules) <= 7, modules
    assert len(calls) <= 12, "\n".join(map(str, calls))
