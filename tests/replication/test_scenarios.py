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


#: The rows of the mission that a scenario is the proof of.
ROWS = {
    "high_watermark": pytest.mark.row("C17", "F7"),
    "rf5_minimum3": pytest.mark.row("F9"),
    "rf5_minimum5": pytest.mark.row("F9"),
    "smaller_isr_before_the_ack": pytest.mark.row("F6"),
    "unclean_election": pytest.mark.row("F13"),
    "zombie_controller": pytest.mark.row("Z3", part="without a broker"),
}


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=ROWS.get(path.stem, ()), id=path.stem) for path in SCENARIOS]
)
def test_a_scenario(path):
    found = play(path)
    if os.environ.get("LOGSTORE_REWRITE_SCENARIOS"):
        path.write_text(found)
    assert found == path.read_text()
