"""The scenarios of replication: each text below ``scenarios/`` prints what it says that it prints.

After a change that is meant: ``LOGSTORE_REWRITE_SCENARIOS=1 pytest tests/replication/test_scenarios.py``, and read
the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.replication.scenario import play

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario(path):
    found = play(path)
    if os.environ.get("LOGSTORE_REWRITE_SCENARIOS"):
        path.write_text(found)
    assert found == path.read_text()
