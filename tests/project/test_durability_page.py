"""What docs/durability.md names is there: every file, and every test in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "durability.md"

needs_sources = pytest.mark.skipif(not PAGE.exists(), reason="no source tree around the tests")


def references(line: str) -> list[tuple[str, str]]:
    """(file, test) of each reference in a line; ``::test`` alone is in the file named before it."""
    found, file = [], ""
    for path, test in re.findall(r"`([\w/]+\.py)?::(test_\w+)`", line):
        file = path or file
        found.append((file, test))
    return found


def test_a_reference_without_its_file_is_in_the_one_before():
    assert references("`a/b.py::test_x`, `::test_y` and `c.py::test_z`") == [
        ("a/b.py", "test_x"),
        ("a/b.py", "test_y"),
        ("c.py", "test_z"),
    ]


@needs_sources
def test_every_test_that_the_page_names_is_there():
    named = [reference for line in PAGE.read_text().splitlines() for reference in references(line)]
    assert len(named) > 40
    missing = []
    for file, test in named:
        path = ROOT / "tests" / file
        tree = ast.parse(path.read_text()) if path.is_file() else ast.Module(body=[], type_ignores=[])
        if test not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            missing.append(f"{file}::{test}")
    assert missing == []


@needs_sources
def test_every_file_that_the_page_names_is_there():
    named = set(re.findall(r"`((?:log|tests)/[\w/]+\.py|_\w+\.pyx)`", PAGE.read_text()))
    assert len(named) > 10
    missing = [
        name for name in named if not ((ROOT / name).exists() or (ROOT / "src" / "logstore" / name).exists())
    ]
    assert missing == []
