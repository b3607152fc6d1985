"""Whether the sanitizers are really on in what `make sanitize` runs: planted faults must be reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import logstore.batch._batch

pytest.importorskip("logstore_planted", reason="not a sanitizer build: run make sanitize")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("write_behind(40)", "heap-buffer-overflow"),
        ("read_behind(b'x' * 40)", "heap-buffer-overflow"),
        ("read_freed(40)", "heap-use-after-free"),
        ("shift(40)", "shift exponent 40 is too large"),
        ("add(2**31 - 1, 1)", "signed integer overflow"),
        ("read_unaligned(bytes(40))", "misaligned address"),
    ],
)
def test_a_planted_fault_ends_the_process_and_names_its_line(call: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import logstore_planted; print(logstore_planted.{call})"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    assert said in done.stderr, done.stderr
    assert "planted.pyx:" in done.stderr, done.stderr


def test_what_is_tested_here_is_the_instrumented_core() -> None:
    core = Path(logstore.batch._batch.__file__)
    assert b"__asan_report" in core.read_bytes()
    assert b"__ubsan_handle" in core.read_bytes()
    assert "build/sanitize" in str(core)


def test_memory_comes_from_the_allocator_that_is_watched() -> None:
    """With Python's own arenas an overread of one object into the next would go unseen."""
    assert os.environ.get("PYTHONMALLOC") == "malloc"
