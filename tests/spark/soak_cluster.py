"""A standalone cluster of processes: a topic is read on both workers, the flights run, and no process stays behind.

Not collected by itself: ``make soak`` names this file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kit.waiting import wait_for
from tests.spark import sessions

pytestmark = [pytest.mark.row("D5"), pytest.mark.timeout(900)]

FLIGHTS = 20_000


def start(directory: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "examples.spark_cluster",
        "--directory",
        str(directory),
        "--rows",
        str(FLIGHTS),
    ]
    environ = {**sessions.environment(), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=sessions.ROOT, env=environ, stdout=subprocess.PIPE, text=True)


def left_of(directory: Path) -> list[psutil.Process]:
    """Processes that name the directory: masters, workers and executors of its cluster."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(directory) in " ".join(process.cmdline()) or process.cwd().startswith(str(directory)):
                found.append(process)
        except (psutil.Error, OSError):  # it has ended, or is not ours
            continue
    return found


def test_the_flights_run_on_a_master_and_two_workers(tmp_path: Path) -> None:
    with start(tmp_path) as running:
        printed, _ = running.communicate()
    assert running.returncode == 0, printed
    assert "20,000 records read, each once, by 2 executors" in printed
    assert "proven: each of the" in printed
    assert left_of(tmp_path) == []


def test_a_killed_driver_leaves_no_cluster_behind(tmp_path: Path) -> None:
    with start(tmp_path) as running:
        assert running.stdout is not None
        assert "2 workers" in running.stdout.readline()
        os.kill(running.pid, signal.SIGKILL)
    wait_for(lambda: left_of(tmp_path) == [], 120)
