"""Whether what `make sanitize` leaves out is still there under its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sanitize.unsuited import UNSUITED

TESTS = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", UNSUITED)
def test_what_is_left_out_exists(name: str) -> None:
    file, _, test = name.partition("::")
    (path,) = TESTS.rglob(file)
    assert f"def {test.partition('[')[0]}(" in path.read_text()
    assert UNSUITED[name]
