"""The test files that the Makefile and the soak name are there: with one missing, pytest would run none at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

_FILE = re.compile(r"\btests/[\w/]+\.pyx?\b")


def missing(text: str) -> list[str]:
    return sorted({name for name in _FILE.findall(text) if not (ROOT / name).exists()})


@pytest.mark.parametrize("name", ["Makefile", "tests/soak.py", ".ci/run"])
def test_every_test_file_that_is_named_is_there(name: str) -> None:
    assert missing((ROOT / name).read_text()) == []


def test_a_file_that_has_moved_is_found() -> None:
    assert missing("run: tests/soak.py tests/log/test_moved.py") == ["tests/log/test_moved.py"]
