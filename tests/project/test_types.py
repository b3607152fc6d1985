"""Type checkers accept programs that append bytes, and refuse those that append text."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GOOD = """\
import datetime

import numpy as np

import logstore.aio
from logstore import Log, Producer, Record, Topic


def append(topic: Topic, log: Log, producer: Producer, read: list[Record]) -> None:
    topic.append(b"value")
    topic.append(None, memoryview(b"key"), timestamp=datetime.datetime.now(datetime.UTC))
    topic.append(bytearray(b"value"), key=b"key", partition=1, headers=[("name", b"value"), ("empty", None)])
    topic.append_many([b"a", b"b"])
    topic.append_many([(b"key", b"value"), (None, None)])
    topic.append_many([(b"key", b"value", 5), (b"key", None, None)], partition=0)
    topic.append_many([(b"key", b"value", 5, [("name", b"value")])])
    topic.append_many(record for record in read)
    topic.append_many(np.zeros(3, "S8"))
    topic.append_many(topic.scan().to_arrow())
    topic.append_arrow(topic.scan().to_arrow())
    log.append([b"a", b"b"], ack="synced")
    log.append(log.scan())
    producer.send("topic", b"value", b"key", headers=(("name", b"value"),))


async def append_later(topic: logstore.aio.Topic, producer: logstore.aio.Producer) -> None:
    await topic.append(b"value", headers=[("name", b"value")])
    await topic.append_many([(b"key", b"value")])
    await producer.send("topic", b"value")
"""

#: Each line is one program's mistake.
BAD = """\
topic.append("text")
topic.append(b"value", "key")
topic.append(5)
topic.append(b"value", headers=[("a", "b")])
topic.append(b"value", headers={"a": b"b"})
topic.append_many(["text"])
topic.append_many("text")
topic.append_many(b"value")
topic.append_many([("key", b"value")])
topic.append_many([(b"key", b"value", "now")])
topic.append_many([(b"key", b"value", None, [("a", "b")])])
topic.append_many([b"value", "text"])
topic.append_many([b"value"], timestamp="now")
topic.append_arrow([b"value"])
log.append(["text"])
log.append([(b"key", "value")])
producer.send("topic", "text")
producer.send("topic", b"value", "key")
producer.send("topic", b"value", headers=[("a", "b")])
"""

PREAMBLE = """\
from logstore import Log, Producer, Topic


def append(topic: Topic, log: Log, producer: Producer) -> None:
"""

COMMANDS = {
    "mypy": ["--strict", "--no-error-summary", "--config-file=", "--cache-dir"],
    "pyright": ["--pythonpath", sys.executable],
}
ERROR = re.compile(r"\.py:(\d+):(?:\d+)?.*\berror\b")


@pytest.fixture(params=sorted(COMMANDS))
def errors_of(request, tmp_path):
    """Return a function from a program to the numbers of the lines that a type checker refuses."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is missing: make lint installs it")
    command = [sys.executable, "-m", request.param, *COMMANDS[request.param]]
    if request.param == "mypy":
        command.append(str(ROOT / ".mypy_cache" / "samples"))

    def check(text):
        # Without a configuration beside the program, pyright takes that of a folder above.
        (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT / "src")]}))
        program = tmp_path / "program.py"
        program.write_text(text)
        found = subprocess.run(
            [*command, program],
            cwd=tmp_path,
            env={**os.environ, "MYPYPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = {int(number) for number in ERROR.findall(found.stdout)}
        assert bool(lines) == bool(found.returncode), found.stdout + found.stderr
        return lines, found.stdout

    return check


@pytest.mark.timeout(300)
def test_type_checkers_accept_bytes_and_refuse_text(errors_of):
    refused, told = errors_of(GOOD)
    assert not refused, told
    mistakes = BAD.splitlines()
    refused, told = errors_of(PREAMBLE + "".join(f"    {line}\n" for line in mistakes))
    start = len(PREAMBLE.splitlines()) + 1
    assert [line for number, line in enumerate(mistakes, start) if number not in refused] == [], told
