"""The tour of an append: how many modules and calls are between a user's call and the disk.

`tour` counts calls of Python functions of the package, as a profiler sees them, and the files that they are in.
It counts no compiled functions, and no constructors that `typing.NamedTuple` makes, which stand in no file. The
compiled modules on the way are `log._partition_log`, `batch._encode`, `_segment`, `io._files` and `_crc32c`.

No profiler sees a call of a compiled method. So `calls_in` traces every instruction that Python code of the package
runs, and names each call among them by its source: of Python, of the compiled core, or of anything else.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

import logstore
from logstore.batch._batch import stamp_producer
from logstore.batch._encode import encode
from logstore.io._files import LIBC
from logstore.log import Log
from logstore.log import log as log_module
from logstore.records import Isolation, Marker, ProducerStamp
from tests.log.logs import NOW_MS, open_log

PACKAGE = os.path.dirname(logstore.__file__) + os.sep


class Call(NamedTuple):
    module: str
    function: str
    is_before_pwrite: bool  #: of the records; that of the published end follows it


def tour(append: Callable[[], object], writes: int = 2) -> list[Call]:
    """Every call of the package in a call, in order; it makes so many writes."""
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
    assert LIBC.call_counts()["pwrite"] == before + writes
    return found


CALLS = {dis.opmap[name] for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") if name in dis.opmap}


@cache
def called(code: CodeType, instruction: int) -> str:
    """What a call instruction of Python code calls, as its source says."""
    first, last, start, end = list(code.co_positions())[instruction // 2]
    assert first is not None
    assert last is not None
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    found = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    assert isinstance(found, ast.Call), lines
    return ast.unparse(found.func)


def calls_in(act: Callable[[], object]) -> list[str]:
    """Every call that Python code of the package makes in a call, but those of Python's own builtins."""
    found: list[str] = []

    def note(frame, event, _argument):
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and code.co_code[frame.f_lasti] in CALLS:
            found.append(called(code, frame.f_lasti))
        return note

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks for one such frame before it traces any
    sys.settrace(note)
    try:
        act()
    finally:
        sys.settrace(before)
    return [name for name in found if not hasattr(builtins, name)]


def test_one_call_crosses_from_an_append_into_the_core(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append([b"value"], ack="synced")
        assert calls_in(lambda: log.append([b"value"])) == ["self._state.append"]
        assert calls_in(lambda: log.append([b"value"] * 200)) == ["self._state.append"]
        assert calls_in(lambda: log.append([(b"key", b"value")], ack="synced")) == ["self._state.append"]


def test_one_call_crosses_from_each_usual_call_into_the_core(tmp_path: Path) -> None:
    batch = encode([b"value"], timestamp_ms=NOW_MS)
    with open_log(tmp_path) as log:
        log.append([b"value"])
        log.flush()
        replica = log.replica
        assert calls_in(lambda: replica.append_batch(batch)) == ["self._state.append_plain_batch"]
        assert calls_in(lambda: replica.append_batch(batch, ack="synced")) == ["self._state.append_plain_batch"]
        assert calls_in(lambda: replica.fetch_region(0)) == ["self._state._fetch_region"]
        assert calls_in(log.flush) == ["self._state._flush"]


def test_two_calls_cross_from_an_append_to_a_topic_into_the_core(tmp_path: Path) -> None:
    """The first asks which log is open."""
    with logstore.open(tmp_path / "store", environ={}) as store:
        topic = store.create_topic("t", 1)
        for _ in range(3):
            topic.append(b"value", partition=0)
        found = calls_in(lambda: topic.append(b"value", partition=0))
    assert found == ["self._open_log", "opened._state.append_one"]


def test_planted_a_second_call_into_the_core_is_found(tmp_path: Path, monkeypatch) -> None:
    """And no call of Python is there more: a count of these alone would find nothing."""
    honest = "        result = self._state.append("
    source = textwrap.dedent(inspect.getsource(Log.append))
    assert source.count(honest) == 1
    source = source.replace(honest, "        self._state.wanted_mark()\n" + honest)
    name, made = PACKAGE + "log/planted.py", dict[str, Callable[..., object]]()
    monkeypatch.setitem(linecache.cache, name, (len(source), None, source.splitlines(keepends=True), name))
    exec(compile(source, name, "exec"), vars(log_module), made)
    with open_log(tmp_path) as log:
        for _ in range(3):
            log.append([b"value"])
        monkeypatch.setattr(Log, "append", made["append"])
        assert calls_in(lambda: log.append([b"value"])) == ["self._state.wanted_mark", "self._state.append"]
        assert [call.function for call in tour(lambda: log.append([b"value"]))] == ["append"]


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


def test_a_synced_append_crosses_into_the_core_once(tmp_path: Path) -> None:
    """From the append to the end of its sync: the third write is that of the recovery point."""
    batch = encode([b"value"], timestamp_ms=NOW_MS)
    with open_log(tmp_path) as log:
        for _ in range(3):
            log.append([b"value"], ack="synced")
        synced = tour(lambda: log.append([b"value"], ack="synced"), writes=3)
        assert log.synced_end == log.log_end_offset
        replica = log.replica
        of_client = tour(lambda: replica.append_batch(batch, ack="synced"), writes=3)
        assert log.synced_end == log.log_end_offset
    assert [call[:2] for call in synced] == [("log/log.py", "append")]
    assert [call[:2] for call in of_client] == [("log/replica.py", "append_batch")]


def test_a_synced_append_by_the_settings_crosses_into_the_core_once(tmp_path: Path) -> None:
    batch = encode([b"value"], timestamp_ms=NOW_MS)
    with open_log(tmp_path, ack="synced") as log:
        for _ in range(3):
            log.append([b"value"])
        synced = tour(lambda: log.append([b"value"]), writes=3)
        replica = log.replica
        of_client = tour(lambda: replica.append_batch(batch), writes=3)
        assert log.synced_end == log.log_end_offset
    assert [call[:2] for call in synced] == [("log/log.py", "append")]
    assert [call[:2] for call in of_client] == [("log/replica.py", "append_batch")]


@pytest.mark.parametrize("has_producer", [False, True])
def test_a_flush_crosses_into_the_core_once(tmp_path: Path, has_producer: bool) -> None:
    with open_log(tmp_path) as log:
        log.append([b"value"], producer=ProducerStamp(7, 0, 0) if has_producer else None)
        log.flush()
        log.append([b"value"])
        calls = tour(log.flush, writes=1)
        assert log.synced_end == log.log_end_offset
        none = tour(log.flush, writes=0)
    assert [call[:2] for call in calls] == [("log/log.py", "flush")]
    assert [call[:2] for call in none] == [("log/log.py", "flush")]


@pytest.mark.parametrize("to_log_end", [False, True])
@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_fetch_crosses_into_the_core_once(tmp_path: Path, isolation: Isolation, to_log_end: bool) -> None:
    with open_log(tmp_path) as log:
        for number in range(3):
            log.append([b"value"], producer=ProducerStamp(7, 0, number))
        replica, end = log.replica, log.log_end_offset
        for offset in (0, 1, end):
            calls = tour(
                lambda offset=offset: replica.fetch_region(offset, isolation=isolation, to_log_end=to_log_end),
                writes=0,
            )
            assert [call[:2] for call in calls] == [("log/replica.py", "fetch_region")]
        # The object that has the calls of replicas is made at each use.
        calls = tour(lambda: log.replica.fetch_region(0, isolation=isolation), writes=0)
    assert [call.function for call in calls] == ["replica", "__init__", "__init__", "fetch_region"]


def test_a_committed_fetch_asks_for_aborted_transactions_only_where_there_are_any(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append([b"value"], producer=ProducerStamp(7, 0, 0, True))
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
        replica = log.replica
        calls = tour(lambda: replica.fetch_region(0, isolation=Isolation.READ_COMMITTED), writes=0)
    assert [call.function for call in calls][:2] == ["fetch_region", "aborted_between"]


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
