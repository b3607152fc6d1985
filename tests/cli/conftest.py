"""A command line in this process, and one in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import logstore
from logstore.cli.main import cli

SRC = Path(__file__).resolve().parent.parent.parent / "src"


class Line:
    """Runs commands on one directory; what they print is kept apart from what they say."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._runner = CliRunner(env={"LOGSTORE_DIR": str(directory), "LOGSTORE_CONFIG": None})

    def __call__(self, *words: object, input: str | bytes | None = None, status: int = 0) -> str:
        """What a command prints; it has to end with this status."""
        result = self.result(*words, input=input)
        assert result.exit_code == status, (result.stdout, result.stderr, result.exception)
        return result.stdout

    def result(self, *words: object, input: str | bytes | None = None) -> Result:
        result = self._runner.invoke(cli, [str(word) for word in words], input=input, prog_name="logstore")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    def json(self, *words: object, **options: Any) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self(*words, "--json", **options).splitlines()]

    def error(self, *words: object, status: int = 1, input: str | bytes | None = None) -> str:
        """What a command says that has to fail."""
        result = self.result(*words, input=input)
        assert result.exit_code == status, (result.stdout, result.stderr)
        return result.stderr


@pytest.fixture
def run(tmp_path: Path) -> Line:
    """Commands on an empty directory."""
    return Line(tmp_path / "data")


@pytest.fixture
def flights(run: Line) -> Line:
    """Commands on a store with topic ``flights`` of two partitions, three records in each."""
    with logstore.open(run.directory, environ={}) as store:
        topic = store.create_topic("flights", partitions=2)
        for number in range(6):
            topic.append(
                f"value {number}".encode(),
                key=b"AA",
                partition=number % 2,
                timestamp=1_700_000_000_000 + number * 1_000,
                headers=[("gate", b"B2")],
            )
    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts ``logstore`` in a process of its own."""

    def start(*words: object, **options: Any) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "PYTHONPATH": str(SRC), "LOGSTORE_DIR": str(tmp_path / "data")}
        # A variable that users do not set: with it, output that is never flushed would still arrive.
        environ.pop("PYTHONUNBUFFERED", None)
        command = [sys.executable, "-m", "logstore", *map(str, words)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, env=environ, **pipes)

    return start
