"""The tools of the benchmarks are right: rates that cannot be are refused, bars are judged, the table says so.

Nothing here is timed against a bar; a rate is compared only with what this machine can copy and sum.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import logstore
from benchmarks import before
from logstore.batch._crc32c import crc32c

FOLDER = Path(__file__).resolve().parent.parent.parent / "benchmarks"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


interleave = load("interleave")
report = load("report")


class Stopwatch:
    """What pytest-benchmark's fixture does for a race: so many rounds, timed."""

    def __init__(self) -> None:
        self.extra_info: dict[str, Any] = {}
        self.stats: Any = None

    def pedantic(self, work: Callable[..., Any], setup: Any, rounds: int, warmup_rounds: int) -> None:
        seconds = []
        for _ in range(warmup_rounds + rounds):
            arguments, _ = setup()
            started = time.perf_counter()
            work(*arguments)
            seconds.append(time.perf_counter() - started)
        self.stats = SimpleNamespace(stats=SimpleNamespace(data=seconds[warmup_rounds:]))


DATA = bytes(1 << 20)


def honest(_state: None) -> int:
    """Copies and sums all of it, twice."""
    for _ in range(2):
        crc32c(bytes(bytearray(DATA)))
    return len(DATA)


def idle(_state: None) -> int:
    """Does nothing, and says that it has done all."""
    return len(DATA)


def runner(work: Callable[[Any], int], expected: int = len(DATA)) -> Any:
    def check(_state: None, result: int) -> None:
        assert result == expected, "the result of the work is wrong"

    return interleave.Runner(work, check, parts=("memcpy", "crc"))


def race(ours: Any, **peers: Any) -> dict[str, Any]:
    watch = Stopwatch()
    interleave.race(
        watch,
        ours,
        peers,
        workload="copy and sum",
        records=1,
        size=len(DATA),
        bars={"slow": interleave.Bar(1e-9, 1e9)} if "slow" in peers else {},
        targets=lambda medians: [interleave.Target("memory", 50.0, "MB", 60, 40)],
        codec="none",
    )
    return watch.extra_info


@pytest.fixture
def no_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """For races of honest work: a ceiling that is measured on a loaded machine may be below what comes after it."""
    monkeypatch.setattr(interleave, "ceiling", lambda parts: 1e15)


@pytest.mark.usefixtures("no_ceiling")
def test_a_race_leaves_ratios_and_targets_with_their_bars() -> None:
    info = race(runner(honest), slow=runner(honest))
    slow = info["peers"]["slow"]
    assert slow["ratio"] == pytest.approx(slow["seconds"] / info["seconds"])
    assert slow["lowest"] <= slow["highest"]
    assert (slow["bar"], slow["stretch"], slow["met"]) == (1e-9, 1e9, "yes")
    assert info["targets"][0]["met"] == "yes"
    assert (info["records"], info["bytes"], info["codec"]) == (1, len(DATA), "none")
    json.dumps(info)


def test_a_rate_that_no_machine_has_is_a_broken_benchmark() -> None:
    with pytest.raises(
        interleave.BrokenBenchmarkError, match=r"copy and sum at .* this machine does memcpy and crc"
    ):
        race(runner(idle))


def test_a_reference_that_does_not_work_is_found_too() -> None:
    with pytest.raises(interleave.BrokenBenchmarkError, match="copy and sum: lazy at"):
        race(runner(honest), lazy=runner(idle))


def test_work_with_a_wrong_result_is_refused_from_every_library() -> None:
    with pytest.raises(AssertionError, match="is wrong"):
        race(runner(honest, expected=1))
    with pytest.raises(AssertionError, match="is wrong"):
        race(runner(honest), peer=runner(honest, expected=1))


@pytest.mark.parametrize(
    "value, bar, stretch, at_most, word",
    [
        (6.9, 5.0, 7.0, False, "yes"),
        (7.0, 5.0, 7.0, False, "stretch"),
        (4.9, 5.0, 7.0, False, "no"),
        (60.0, 60.0, 40.0, True, "yes"),
        (60.1, 60.0, 40.0, True, "no"),
        (39.0, 60.0, 40.0, True, "stretch"),
        (2.0, 1.5, None, False, "yes"),
        (2.0, None, None, False, ""),
    ],
)
def test_a_bar_is_met_missed_or_passed(value: float, bar: Any, stretch: Any, at_most: bool, word: str) -> None:
    assert interleave.verdict(value, bar, stretch, at_most=at_most) == word


@pytest.mark.usefixtures("no_ceiling")
def test_the_table_shows_each_reference_its_bars_and_what_is_missed() -> None:
    info = race(runner(honest), slow=runner(honest))
    info["peers"]["slow"].update(ratio=1.4, lowest=1.2, highest=1.6, bar=1.5, stretch=2.5, met="no")
    results = {
        "machine_info": {"described": report.describe(Path("/"))},
        "benchmarks": [
            {"name": "test_copy", "extra_info": info},
            {"name": "test_broken", "extra_info": {}},
        ],
    }
    page = report.render(results)
    assert "1.40x (1.20-1.60)" in page
    (line,) = (line for line in page.splitlines() if "1.40x" in line)
    assert line.split()[-3:] == ["1.5x", "2.5x", "no"]
    assert "<= 60" in page
    assert "bars met: 1 of 2" in page
    assert "missed: copy and sum: slow" in page
    assert "failed, see above: test_broken" in page
    for word in ("processor", "memory", "system", "python", "libraries"):
        assert word in page


def timed(seconds: float, *targets: dict[str, Any], workload: str = "copy") -> dict[str, Any]:
    return {"workload": workload, "records": 1_000, "bytes": 0, "seconds": seconds, "targets": list(targets)}


def figure(name: str, value: float, **changes: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": "MB", "at_most": True} | changes


def test_a_commit_beside_another_is_a_ratio_of_medians_with_the_range_of_its_rounds() -> None:
    pairs = [(2.0, 1.0), (3.0, 2.0), (8.0, 2.0)]
    rounds = [(before.Run({"f::a": timed(b)}), before.Run({"f::a": timed(n)})) for b, n in pairs]
    assert before.compare(rounds) == ([("copy", "0.3 k/s", "0.5 k/s", "1.50x (1.50-4.00)")], [])


@pytest.mark.parametrize(
    "then, now, ratio",
    [
        (figure("memory", 6), figure("memory", 3), "2.00x (2.00-2.00)"),
        (figure("rate", 6, at_most=False), figure("rate", 3, at_most=False), "0.50x (0.50-0.50)"),
        (figure("lag", 6), figure("lag", 0), ""),
    ],
)
def test_a_figure_beside_its_former_one_says_whether_it_is_better(then: Any, now: Any, ratio: str) -> None:
    only_now = figure("new", 1)
    pair = (before.Run({"f::a": timed(1, then)}), before.Run({"f::a": timed(1, only_now, now)}))
    rows, _ = before.compare([pair])
    assert [row[0].strip() for row in rows] == ["copy", then["name"]]
    assert rows[1][3] == ratio


def test_what_one_commit_cannot_run_is_named_with_its_reason() -> None:
    now = before.Run({"f::a": timed(1), "f::b": timed(1, workload="sum"), "g::c": timed(1, workload="read")})
    then = before.Run({"f::a": timed(1)}, {"f::b": "TypeError: no such argument", "g": "ImportError: no such name"})
    rows, lines = before.compare([(then, now), (then, before.Run(now.figures, {"h::d": "AssertionError"}))])
    assert [row[0] for row in rows] == ["copy"]
    assert lines == [
        "not run before, 2 of 2: sum: TypeError: no such argument",
        "not run before, 2 of 2: read: ImportError: no such name",
        "not run now, 2 of 2: h::d: AssertionError",
    ]


def test_a_round_that_failed_has_no_ratio_and_is_named() -> None:
    whole, broken = before.Run({"f::a": timed(1)}), before.Run({}, {"f::a": "OSError: disk full"})
    rows, lines = before.compare([(whole, whole), (broken, whole)])
    assert rows[0][3] == "1.00x (1.00-1.00)"
    assert lines == ["not run before, 1 of 2: copy: OSError: disk full"]


@pytest.mark.parametrize(
    "text, line",
    [
        (
            "def f():\n>   g(1)\nE   TypeError: g() takes none\nE   more\n\nfile.py:3: TypeError",
            "TypeError: g() takes none",
        ),
        ("Traceback:\nlast", "last"),
        ("", ""),
    ],
)
def test_the_reason_of_a_failure_is_one_line(text: str, line: str) -> None:
    assert before.reason(text) == line


@pytest.mark.parametrize("arguments", [[], [""], ["no-such-commit"], ["HEAD", "0"], ["--all"]])
def test_a_commit_that_is_none_is_refused_in_one_line(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.before", *arguments]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_a_tree_whose_package_is_not_the_one_imported_is_not_measured(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.before", "--measure", str(tmp_path), str(tmp_path / "results")]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"not of {tmp_path}" in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(importlib.util.find_spec("pytest_benchmark") is None, reason="needs the dependency group bench")
def test_a_process_that_measures_stores_figures_and_what_has_failed(tmp_path: Path) -> None:
    works, breaks, results = tmp_path / "test_works.py", tmp_path / "test_breaks.py", tmp_path / "results"
    works.write_text(
        "import logstore\n"
        "import pytest\n"
        "def test_whole(benchmark):\n"
        "    benchmark.pedantic(int, rounds=1)\n"
        "    benchmark.extra_info.update(workload='whole', seconds=1)\n"
        "@pytest.fixture\n"
        "def fails_at_its_end():\n"
        "    yield\n"
        "    logstore.no_such_name\n"
        "def test_broken_later(benchmark, fails_at_its_end):\n"
        "    test_whole(benchmark)\n"
        "def test_broken(benchmark):\n"
        "    benchmark.pedantic(logstore.no_such_name, rounds=1)\n"
    )
    breaks.write_text("from logstore.records import no_such_name\n")
    settings = (
        "-c",
        str(FOLDER.parent / "pyproject.toml"),
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'base'}",
    )
    source = Path(logstore.__file__).parent.parent
    command = [sys.executable, "-m", "benchmarks.before", "--measure", str(source), str(results), *settings]
    command += [f"--rootdir={tmp_path}", str(works), str(breaks)]
    # Of a worker of pytest-xdist, where pytest-benchmark would measure nothing.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=FOLDER.parent, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run = before.Run(**json.loads(results.read_text()))
    assert run.figures == {"test_works.py::test_whole": {"workload": "whole", "seconds": 1}}
    assert sorted(run.failed) == [
        "test_breaks.py",
        "test_works.py::test_broken",
        "test_works.py::test_broken_later",
    ]
    assert [why for why in run.failed.values() if "no_such_name" not in why] == []
