"""A real Spark is killed while it writes, at six points, and every row is in the topic exactly once.

Not collected by itself: ``make soak`` names this file. Each kill takes driver, Java and workers at once; the query
is begun again from its checkpoint. LOGSTORE_KILLS sets the number of kills at each point.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import logstore
from tests.spark import killed_spark, sessions, sinks
from tests.spark.killed_sink import STEPS

KILLS = int(os.environ.get("LOGSTORE_KILLS", "2"))
BATCHES = 4
ROWS = 300

#: How many steps a query of so many batches makes at least, by the point.
LEAST = {
    "mid-write": 40,
    "after-write": 3,
    "mid-commit": 40,
    "after-marker": 3,
    "during-abort": 2,
    "during-sweep": 20,
}


def put(directory: Path, batch: int) -> None:
    """One file of input, which is one micro-batch; whole or not there."""
    lines = [json.dumps({"key": f"k{n % 20}", "value": f"v{n}"}) for n in range(batch * ROWS, (batch + 1) * ROWS)]
    path = directory / f"{batch}.json"
    path.write_text("\n".join(lines))
    os.utime(path, (batch + 1, batch + 1))
    (directory / "in").mkdir(exist_ok=True)
    path.rename(directory / "in" / path.name)


def live(root: Path, directory: Path, point: str = "", step: int = 0) -> int:
    """Run the query to its end, or until it is killed at a step; how its process has ended."""
    environment = sessions.environment()
    environment.pop("LOGSTORE_KILLS", None)
    if step:
        counter = directory / "counter"
        counter.unlink(missing_ok=True)
        environment |= {killed_spark.POINT: point, killed_spark.STEP: str(step), killed_spark.COUNTER: str(counter)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.killed_spark", str(root), str(directory)],
        env=environment,
        cwd=sessions.ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr[-3_000:]
    return done.returncode


@pytest.mark.row("U3", "D5")
@pytest.mark.parametrize("point", [point for point in STEPS if point != "mid-letter"])
def test_spark_is_killed_and_every_row_is_there_once(tmp_path: Path, point: str) -> None:
    root = tmp_path / "store"
    with logstore.open(root, environ={}) as store:
        store.create_topic("t", partitions=3)
    rng = random.Random(point)
    batches = 0
    for _ in range(KILLS):
        for _ in range(BATCHES):
            put(tmp_path, batches)
            batches += 1
        (tmp_path / "failed").unlink(missing_ok=True)
        assert live(root, tmp_path, point, rng.randint(1, LEAST[point])) == -9, "it was to be killed"
    assert live(root, tmp_path) == 0
    found = Counter(sinks.values_in(root, "t"))
    expected = Counter(b"v%d" % number for number in range(batches * ROWS))
    assert not expected - found, f"lost: {sorted(expected - found)[:5]}"
    assert not found - expected, f"twice: {sorted(found - expected)[:5]}"
