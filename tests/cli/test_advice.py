"""What a command advises: words of the command line, not calls of Python."""

from __future__ import annotations

import ast
import os
import re
import shutil

import pytest

import logstore
from logstore.cli import output
from logstore.cli.advice import PHRASES, of_a_command
from tests.cli.commands.test_administration import KAFKAS
from tests.cli.conftest import SRC, Line
from tests.log.tools.test_verify import flip

#: Calls, keyword arguments, and what only a program can do.
PYTHON = re.compile(
    r"=True|=False|\w\(\)|create_topic|on_damage|Store\.|Log\.|with adopt\b|open it\b|logstore\.rebuild"
)


def texts():
    """Every text in the sources below the command line, as it is put together."""
    for path in SRC.joinpath("logstore").rglob("*.py"):
        if "cli" not in path.relative_to(SRC).parts:
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
    for path in SRC.joinpath("logstore").glob("*.pyx"):
        yield re.sub(r'"\s*f?"', "", path.read_text("utf-8"))


def test_every_phrase_that_is_replaced_is_one_that_is_said():
    said = list(texts())
    assert [phrase for phrase, _ in PHRASES if not any(phrase in text for text in said)] == []
    assert [shown for _, shown in PHRASES if PYTHON.search(shown)] == []


def refusals(flights, tmp_path):
    """What commands say that are refused, one after the other."""
    kafkas = Line(shutil.copytree(KAFKAS, tmp_path / "kafkas"))
    yield flights.error("consume", "trains", "-e")
    yield kafkas.error("produce", "records", input=b"x\n")
    yield flights.error("adopt", "--yes")
    yield flights.error("rebuild")
    yield flights.error("produce", "x", "--dir", flights.directory / "deeper")
    with logstore.open(tmp_path / "empty", environ={}):
        pass
    kafkas("adopt", "--yes")
    kafkas("topic", "create", "new")
    yield kafkas.error("hand-back")
    flights("topic", "create", "keyless")
    flights("produce", "keyless", input=b"x\n")
    yield flights.error("topic", "alter", "keyless", "cleanup.policy=compact")
    flip(flights.directory / "flights-0" / "00000000000000000000.log", 70)
    yield flights.error("consume", "flights", "-p", 0, "-e")
    shutil.rmtree(flights.directory / "flights-0")
    yield flights.error("consume", "flights", "-p", 0, "-e")
    (flights.directory / "logstore.topics").unlink()
    yield flights.error("topic", "list")
    yield flights("doctor", status=1)
    yield flights("config", "check", "--set", "min.insync.replicas=2", "--dir", tmp_path / "empty")


def test_no_command_advises_a_call_of_python(flights, tmp_path):
    said = list(refusals(flights, tmp_path))
    assert len(said) == 12
    shown = [text.replace("python -c", "").split("`")[::2] for text in said]
    assert [text for parts in shown for text in parts if PYTHON.search(text)] == []
    assert "create it with `logstore topic create`" in said[0]
    assert "`logstore adopt` takes it over" in said[1]
    assert "--skip-damaged" in said[7]


def test_the_pid_of_an_owner_is_said_once(flights, process):
    with logstore.open(flights.directory, environ={}):
        with process("produce", "flights") as writing:
            _told, said = writing.communicate(b"x\n", timeout=300)
        told = flights("doctor", "--all") if writing.returncode == output.RETRY else ""
    for text in (said.decode(), next(line for line in told.splitlines() if "writes it now" in line)):
        assert text.count(str(os.getpid())) == 1
        assert f"pid {os.getpid()} (host=" in text
    assert "commands that only read work beside it" in said.decode()


def test_where_no_file_can_be_opened_the_limit_is_named_and_it_may_work_later(flights, monkeypatch):
    def refuse(*_words, **_options):
        raise OSError(24, "Too many open files", "/some/module.py")

    monkeypatch.setattr("logstore.cli.store_option.open_store", refuse)
    said = flights.error("topic", "list", status=output.RETRY)
    assert "raise the limit on open files (ulimit -n)" in said


@pytest.mark.parametrize("path", ["/a/b-0", "/it's/b-0"])
def test_a_call_that_no_command_makes_is_given_as_a_command(path):
    call = f"logstore.Log.open({path!r}).close()"
    said = of_a_command(f"begin it again, empty, with {call} [file x]")
    assert said == f'begin it again, empty, with `python -c "import logstore; {call}"` [file x]'
