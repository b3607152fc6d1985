"""Errors as callers meet them: they come whole out of a worker process."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore import errors
from logstore.errors import LogstoreError
from logstore.records import AppendResult
from logstore.store.requests import channel

#: A value for each parameter that an error takes.
GIVEN: dict[str, Any] = {
    "message": "what was found",
    "path": "/data/flights-0/0.log",
    "position": 7,
    "offset": 20,
    "next_offset": 30,
    "found": 12,
    "expected": 11,
    "problems": {"linger.ms": "-1 is below 0", "acks": "2 is not 0, 1 or all"},
    "results": {3: AppendResult(5, 6, 1_700_000_000_000, False)},
    "code": 61,
    "name": "DELEGATION_TOKEN_AUTH_DISABLED",
    "retriable": True,
    "fact": "/brokers/ids/1",
}

#: What a worker must hand over within, however busy the machine is.
WATCHDOG_S = 120


def defined_in(source: Path) -> Iterator[str]:
    """The public exception classes of one file: what has a base that is named like one."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = [
                base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases
            ]
            if any(base.endswith(("Error", "Exception", "Warning")) for base in bases):
                yield node.name


def homes() -> Iterator[str]:
    """The modules of the package that define exceptions. All others stay unimported: some need Spark."""
    for package, path in [("logstore", logstore.__path__), ("pyspark_logstore", None)]:
        roots = list(path or [str(Path(logstore.__path__[0]).parent / package)])
        for root in roots:
            for source in sorted(Path(root).rglob("*.py")):
                if any(defined_in(source)):
                    yield ".".join([package, *source.relative_to(root).with_suffix("").parts])


def public_errors() -> list[type[Exception]]:
    found: dict[type[Exception], None] = {}
    for name in homes():
        module = importlib.import_module(name)
        for value in vars(module).values():
            if not (isinstance(value, type) and issubclass(value, Exception)):
                continue
            if value.__module__ == name and not value.__name__.startswith("_"):
                found[value] = None
    return list(found)


def made(kind: type[Exception]) -> Exception:
    """One of this class, with all that it can be told, a note and an attribute that a caller has put on it."""
    if kind.__init__ in (Exception.__init__, UserWarning.__init__):
        error = kind("what was found")
    else:
        parameters = inspect.signature(kind).parameters.values()
        unknown = [each.name for each in parameters if each.name not in GIVEN]
        assert not unknown, f"give {kind.__name__}'s {unknown} a value in GIVEN"
        plain = [GIVEN[each.name] for each in parameters if each.kind is not each.KEYWORD_ONLY]
        error = kind(
            *plain, **{each.name: GIVEN[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY}
        )
    error.add_note("in record 3 of this append")
    error.request = "r-17"
    return error


def assert_same(twin: Exception, error: Exception) -> None:
    assert type(twin) is type(error)
    assert (str(twin), repr(twin), twin.args) == (str(error), repr(error), error.args)
    assert vars(twin) == vars(error)
    assert twin.__notes__ == ["in record 3 of this append"]
    for name in dir(type(error)):
        value = getattr(error, name, None)  # a BlockingIOError has no `characters_written` before it is given one
        if not name.startswith("__") and not callable(value):
            assert getattr(twin, name, None) == value, name


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle-{number}": lambda error, number=number: pickle.loads(pickle.dumps(error, number))
        for number in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.__name__)
def test_every_public_error_survives_pickle_and_copy(kind: type[Exception]) -> None:
    error = made(kind)
    for way in WAYS.values():
        assert_same(way(error), error)
        assert_same(way(way(error)), error)  # as what was unpickled in one process is handed to the next


@pytest.mark.parametrize(
    "kind",
    [kind for kind in public_errors() if kind.__module__ == "logstore.errors"],
    ids=lambda kind: kind.__name__,
)
def test_an_error_comes_whole_from_the_owner_of_a_store(kind: type[Exception]) -> None:
    if not issubclass(kind, LogstoreError):
        return  # a warning, which is not raised
    error = made(kind)
    message = json.loads(json.dumps(channel.message_of_error(error)))
    with pytest.raises(LogstoreError) as found:
        channel.result_of(message)
    if hasattr(error, "results"):
        assert str(found.value).startswith(f"{kind.__name__}: ")  # an AppendResult is not JSON
    else:
        assert_same(found.value, error)


def test_the_walk_finds_the_errors_of_every_part() -> None:
    found = {kind.__name__ for kind in public_errors()}
    own = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert {name for name in own if not name.startswith("_")} <= found
    assert {"BrokerError", "SparkColumnsError", "SparkOptionError", "ClosedPipeError"} <= found
    compiled = {
        kind.__name__
        for module in pkgutil.walk_packages(logstore.__path__, "logstore.")
        if module.name.rpartition(".")[2].startswith("_") and not module.name.endswith("__main__")
        for kind in vars(importlib.import_module(module.name)).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == module.name
    }
    assert not {name for name in compiled if not name.startswith("_")}


def test_a_note_on_a_copy_is_no_note_on_the_error() -> None:
    error = made(errors.ConfigError)
    copy.copy(error).add_note("of the copy")
    assert error.__notes__ == ["in record 3 of this append"]


def test_an_error_of_a_caller_s_own_survives_with_its_own_arguments() -> None:
    error = made(Own)
    for way in WAYS.values():
        assert_same(way(error), error)


class Own(errors.StorageError):
    """As a program may derive one: with an ``__init__`` that takes other arguments."""

    def __init__(self, offset: int, expected: int) -> None:
        super().__init__(f"{offset} and {expected}", path="/data", offset=offset)
        self.expected = expected


def raise_one(kind: type[Exception]) -> None:
    raise made(kind)


def open_wrongly(path: str) -> None:
    with logstore.open(path, {"log.nonsense": 1}, environ={}):
        pass


def test_a_pool_of_processes_hands_errors_to_its_caller(tmp_path: Path) -> None:
    kinds = [kind for kind in public_errors() if issubclass(kind, LogstoreError)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        answers = [pool.apply_async(raise_one, (kind,)) for kind in kinds]
        for kind, answer in zip(kinds, answers, strict=True):
            with pytest.raises(kind) as caught:
                answer.get(timeout=WATCHDOG_S)
            assert_same(caught.value, made(kind))
        with pytest.raises(errors.UnknownSettingError, match=r"log\.nonsense") as refused:
            pool.apply_async(open_wrongly, (str(tmp_path),)).get(timeout=WATCHDOG_S)
        assert list(refused.value.problems) == ["log.nonsense"]
