"""What the README, the pages and the docstrings show is run, and must give what they say it gives."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

import logstore
from logstore import Log
from logstore._encode import encode

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]

needs_sources = pytest.mark.skipif(not PAGES, reason="no source tree around the tests")

# --- pages -------------------------------------------------------------------------------------

_run_python = PythonEvaluator()


def run_block(example: Example) -> None:
    """A block of Python; what it prints is kept for the block of output behind it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _run_python(example)
    example.namespace["__printed__"] = printed.getvalue()


def compare_output(example: Example) -> None:
    """A block of output: exactly what the Python before it has printed."""
    assert example.namespace.pop("__printed__") == str(example.parsed), f"{example.path}, line {example.line}"


@needs_sources
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_on_a_page_gives_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sybil = Sybil(parsers=[CodeBlockParser("python", run_block), CodeBlockParser("output", compare_output)])
    document = sybil.parse(page)
    document.namespace["tmp"] = tmp_path
    try:
        for example in document.examples():
            example.evaluate()
    finally:
        for value in document.namespace.values():
            if isinstance(value, Log):
                value.close()


# --- docstrings --------------------------------------------------------------------------------


def modules() -> Iterator[str]:
    yield "logstore"
    for module in pkgutil.walk_packages(logstore.__path__, "logstore."):
        yield module.name


def docstrings(module: Any) -> Iterator[tuple[str, str]]:
    """(name, text) of a module, its functions, its classes and their members, compiled ones too."""
    yield module.__name__, module.__doc__ or ""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        yield f"{module.__name__}.{name}", getattr(value, "__doc__", None) or ""
        if isinstance(value, type):
            for member, part in vars(value).items():
                text = getattr(getattr(part, "__func__", part), "__doc__", None)
                if isinstance(text, str) and not member.startswith("__"):
                    yield f"{module.__name__}.{name}.{member}", text


def examples() -> Iterator[Any]:
    parser = doctest.DocTestParser()
    for module_name in modules():
        module = importlib.import_module(module_name)
        for name, text in docstrings(module):
            if parser.get_examples(text):
                yield pytest.param(module, text, id=name)


@pytest.mark.parametrize("module, text", list(examples()))
def test_the_example_in_a_docstring_gives_what_it_says(module: Any, text: str, tmp_path: Path) -> None:
    Log.open(tmp_path / "root" / "flights-0").close()
    with Log.open(tmp_path / "another" / "log-0") as log:
        given = {"tmp": tmp_path / "root", "log": log, "batch_of": batch_of}
        names = {**vars(logstore), "logstore": logstore, **vars(module), **given}
        test = doctest.DocTestParser().get_doctest(text, names, module.__name__, module.__file__, None)
        report = io.StringIO()
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.write).failed
    assert not failed, report.getvalue()


def batch_of(values: list[bytes]) -> bytes:
    """One record batch."""
    return bytes(encode(values, timestamp_ms=0))


def test_examples_are_found_in_compiled_modules_too() -> None:
    found = {parameter.id for parameter in examples()}
    assert {"logstore", "logstore.log.log.Log", "logstore._crc32c.crc32c"} <= found
