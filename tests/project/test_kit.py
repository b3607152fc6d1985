"""The tests' own house: what they must not do, so that they stay quick, certain and independent of inner parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rows import ROOT

TESTS = ROOT / "tests"

#: The modules of a log's classes, whose private attributes only `tests/log` and `tests/kit` may touch.
LOG = (
    *("log/log.py", "log/replica.py", "log/maintenance.py", "log/append/append.py"),
    *("log/read/reader.py", "log/read/live_reader.py"),
)

#: Names for a log in the tests; any other expression that ends in one of them counts too.
LOGS = {"Log", "LogReader", "again", "log", "reader", "solo"}


def private_names() -> set[str]:
    """Every private method and attribute of a log's classes."""
    found = set()
    for module in LOG:
        path = ROOT / "src" / "logstore" / module
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
                    found.add(name)
    return {name for name in found if name.startswith("_") and not name.endswith("__")}


def of_a_log(tree: ast.AST, private: set[str]) -> Iterator[tuple[int, str]]:
    """The lines on which something touches a private attribute of a log, or its state."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name) if name == "_state" or name in private:
                receiver = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
                if receiver in LOGS or (name == "_state" and receiver != "self"):
                    yield node.lineno, ast.unparse(node)
            case ast.Call(
                func=ast.Name(id="setattr" | "getattr") | ast.Attribute(attr="setattr"),
                args=[ast.Name(id=receiver), ast.Constant(value=str(name)), *_],
            ) if receiver in LOGS and name in private:
                yield node.lineno, f"{receiver}.{name}"


def sleeps(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines that sleep. ``asyncio.sleep(0)`` does not: it gives other tasks their turn."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep"), args=[ast.Constant(value=0)]
            ):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "asyncio"), attr="sleep")):
                yield node.lineno, ast.unparse(node)
            case ast.ImportFrom(module="time" | "asyncio", names=names) if any(n.name == "sleep" for n in names):
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Attribute(value=ast.Call(func=made), attr="wait"), args=[_, *_]) if (
                ast.unparse(made).rpartition(".")[2] == "Event"
            ):
                yield node.lineno, ast.unparse(node)


def parsed(*, without: tuple[str, ...]) -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(TESTS.rglob("*.py")):
        if path.relative_to(TESTS).parts[0] not in without:
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def test_only_tests_of_the_log_and_the_kit_touch_a_logs_private_attributes() -> None:
    private = private_names()
    assert "_state" in private
    found = [
        f"{path}:{line}: {what}; use tests/kit/inside.py"
        for path, tree in parsed(without=("log", "kit"))
        for line, what in of_a_log(tree, private)
    ]
    assert not found, "\n".join(found)


def test_no_test_sleeps() -> None:
    found = [
        f"{path}:{line}: {what}; use tests/kit/waiting.py"
        for path, tree in parsed(without=("kit",))
        for line, what in sleeps(tree)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    ["log._state.lock", "self.log._state", "store[0]._state", "monkeypatch.setattr(Log, '_state', 1)"],
)
def test_a_private_attribute_of_a_log_is_seen(code: str) -> None:
    assert list(of_a_log(ast.parse(code), private_names()))


@pytest.mark.parametrize(
    "code",
    ["time.sleep(1)", "asyncio.sleep(0.1)", "from time import sleep", "threading.Event().wait(0.001)"],
)
def test_a_sleep_is_seen(code: str) -> None:
    assert list(sleeps(ast.parse(code)))


@pytest.mark.parametrize("code", ["asyncio.sleep(0)", "done.wait(300)", "producer._lock", "self._state"])
def test_what_is_neither_is_not_seen(code: str) -> None:
    tree = ast.parse(code)
    assert not [*sleeps(tree), *of_a_log(tree, private_names())]
