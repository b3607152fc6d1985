"""Whether ThreadSanitizer is really on in what `make sanitize` runs on threads: a planted race must be reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import logstore.batch._batch

if "tsan" not in os.environ.get("LD_PRELOAD", ""):
    pytest.skip("not under ThreadSanitizer: run make sanitize", allow_module_level=True)

RACE = """
import threading, logstore_planted
both = threading.Barrier(2)
add = lambda: (both.wait(), logstore_planted.add_unguarded(200_000))
threads = [threading.Thread(target=add) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_a_planted_race_ends_the_process_and_names_its_line() -> None:
    options = os.environ["TSAN_OPTIONS"] + ":log_path=stderr"
    done = subprocess.run(
        [sys.executable, "-c", RACE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TSAN_OPTIONS": options},
    )
    assert done.returncode == 66, done.stderr
    assert "data race" in done.stderr, done.stderr
    assert "planted.pyx:" in done.stderr, done.stderr


def test_what_is_tested_here_is_the_instrumented_core() -> None:
    core = Path(logstore.batch._batch.__file__)
    assert b"__tsan_read" in core.read_bytes()
    assert "build/threads" in str(core)
