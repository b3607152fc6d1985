"""A short slice of every fuzz target, and proof that the fuzzer finds what is planted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from logstore.errors import CorruptRecordError
from tests.fuzz import run
from tests.fuzz.loop import TAKEN, feed, inputs, one_input
from tests.fuzz.targets import TARGETS, Target

SLICE = int(os.environ.get("LOGSTORE_FUZZ_SLICE", "2000"))
SEED = 2026
RUNNER = Path(run.__file__)

each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))


@pytest.mark.row("S8")
@each_target
def test_hostile_input_is_taken_or_refused_in_the_parsers_own_words(target: Target) -> None:
    counts, findings = feed(target, target.prepare(), SEED, 0, SLICE)
    assert not findings, f"{target.name}, seed {SEED}, input {findings[0].number}:\n{findings[0].report}"
    assert sum(counts.values()) == SLICE
    # A target all of whose inputs are refused, or taken, tests one half of a parser only.
    assert counts[TAKEN] > SLICE // 100
    assert not target.refusals or sum(counts.values()) - counts[TAKEN] > SLICE // 20, counts


@each_target
def test_the_number_of_an_input_names_it_for_ever(target: Target) -> None:
    made = dict(inputs(target, target.prepare(), 7, 990, 1_010))
    assert list(made) == list(range(990, 1_010))
    assert one_input(target, 7, 1_003) == made[1_003]
    assert dict(inputs(target, target.prepare(), 8, 990, 1_010)) != made


# --- the fuzzer finds what is planted -----------------------------------------------------------


def trusting(read: Callable[[bytes], None]) -> Target:
    return replace(TARGETS["batch"], read=read, refusals=(CorruptRecordError,))


def test_an_error_that_is_not_documented_is_a_finding() -> None:
    def read(data: bytes) -> None:
        count = int.from_bytes(data[57:61], "big")
        [bytes(1)] * min(count, 50)  # a parser that believes a count ...
        data[61 + 7 * count]  # ... and looks where it leads

    counts, findings = feed(trusting(read), TARGETS["batch"].prepare(), SEED, 0, 500)
    assert findings
    assert findings[0].what == "IndexError"
    assert "IndexError" in findings[0].report
    assert one_input(TARGETS["batch"], SEED, findings[0].number) == findings[0].data
    assert counts["(IndexError)"] == len(findings)


#: A runner whose target "batch" does something else with its inputs.
_PLANTED = """
import os, sys, time
from dataclasses import replace
sys.path.insert(0, {root!r})
sys.argv[0] = {runner!r}
from tests.fuzz import run, targets

hoard = []
def read(data):
    {body}

targets.TARGETS["batch"] = run.TARGETS["batch"] = replace(targets.TARGETS["batch"], read=read)
run.__file__ = __file__
run.FINDINGS = run.Path({findings!r})
run.STILL_S = 3.0
run.WARM_BLOCKS = 2
run.GROWTH_MB, run.PEAK_MB = 20, 100
sys.exit(run.main())
"""


@pytest.mark.parametrize(
    ("body", "inputs", "said"),
    [
        ("if data[57:61] > b'\\x00\\x00\\x01\\x00': os.abort()", 400, "ended with -6"),
        ("if data[57:61] > b'\\x00\\x00\\x01\\x00': time.sleep(60)", 400, "stands still"),
        ("hoard.append(bytes(10_000))", 6_000, "growth of memory"),
        ("b'x' * (150 << 20) if data[57:61] > b'\\x7f' else None", 4_000, "peak of memory"),
    ],
    ids=["crash", "hang", "leak", "bomb"],
)
def test_a_crash_a_hang_and_a_leak_are_found_and_named(body: str, inputs: int, said: str, tmp_path: Path) -> None:
    script = tmp_path / "planted.py"
    script.write_text(
        _PLANTED.format(root=str(run.ROOT), runner=str(RUNNER), body=body, findings=str(tmp_path / "found"))
    )
    still = 2 if "sleep" in body else 20
    done = subprocess.run(
        [sys.executable, str(script), "--target", "batch", "--inputs", str(inputs), "--most", str(still)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert said in done.stdout, done.stdout
    assert list((tmp_path / "found").glob("batch-1-*.bin"))


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--target", "nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown target(s) nothing; known are batch, " in done.stderr
