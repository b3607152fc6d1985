"""Ours of this commit beside ours of another one: `make bench-before COMMIT=REV ARGS="-k append"`.

The benchmarks of this tree measure both. The other commit is a worktree below build/before, compiled there by the
Python of this environment. Each measurement is a process of its own, in which one of the two comes first in
PYTHONPATH; before and now take turns, so that their ratio survives a noisy machine.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import describe, speed

ROOT = Path(__file__).resolve().parent.parent
TREES = ROOT / "build" / "before"
#: What a figure depends on: a change here that is in no commit would belong to neither side.
MEASURED = ("src", "benchmarks", "tests/kit", "setup.py", "pyproject.toml")


@dataclass(eq=False)  # pytest hashes its plugins
class Run:
    """One measurement of one side, by pytest's names of tests; it is also the plugin that collects it."""

    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  #: tests, or files that could not be imported: why

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any) -> Generator[None, Any, Any]:
        report = yield
        if report.failed:
            # The first one: what a test has left undone may fail its end as well.
            self.failed.setdefault(item.nodeid, reason(report.longreprtext))
            self.figures.pop(item.nodeid, None)
        elif report.when == "call" and report.passed:
            info = item.funcargs["benchmark"].extra_info if "benchmark" in item.funcargs else {}
            self.figures |= {item.nodeid: info} if "workload" in info else {}
        return report

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed[report.nodeid] = reason(report.longreprtext)


def reason(text: str) -> str:
    """Return the line of a failure's text that says what was wrong."""
    lines = text.splitlines() or [""]
    return next((line[2:].strip() for line in lines if line.startswith("E  ")), lines[-1])


def compare(rounds: Sequence[tuple[Run, Run]]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Join rounds of (before, now) into a row for each figure of both, and a line for what one side has not run."""
    rows: list[tuple[str, ...]] = []
    names = {test: info["workload"] for pair in rounds for run in pair for test, info in run.figures.items()}
    for test, name in names.items():
        both = [[run.figures[test] for run in pair] for pair in rounds if all(test in run.figures for run in pair)]
        for target in ({}, *both[0][1]["targets"]) if both else ():
            label = target.get("name")
            found = [[value for info in pair for value in values(info, label)] for pair in both]
            if pairs := [(pair[0], pair[1]) for pair in found if len(pair) == 2]:
                medians = [statistics.median(side) for side in zip(*pairs, strict=True)]
                info, unit = both[0][1], target.get("unit")
                shown = [f"{m:.2f} {unit}".strip() if label else speed({**info, "seconds": m}) for m in medians]
                rows.append((f"  {label}" if label else name, *shown, ratio(pairs, target.get("at_most", True))))
    lines = []
    for number, side in enumerate(("before", "now")):
        runs = [pair[number] for pair in rounds]
        failed = {test: why for run in runs for test, why in run.failed.items()}
        # A file that could not be imported is named by each of its workloads, if the other side knows them.
        known = {*names, *(test.partition("::")[0] for test in names)}
        for test in [*names, *(test for test in failed if test not in known)]:
            if missing := sum(test not in run.figures for run in runs):
                why = failed.get(test) or failed.get(test.partition("::")[0]) or "skipped, or not there"
                lines.append(f"not run {side}, {missing} of {len(runs)}: {names.get(test, test)}: {why}")
    return rows, lines


def values(info: dict[str, Any], label: str | None) -> list[float]:
    """Return the value of a target, if there is one, or the time of the workload."""
    return [t["value"] for t in info["targets"] if t["name"] == label] if label else [info["seconds"]]


def ratio(pairs: Sequence[tuple[float, float]], at_most: bool) -> str:
    """Return how much better now is than before: by the medians, and the range of single rounds."""
    if not at_most:
        pairs = [(now, before) for before, now in pairs]
    if min(now for _, now in pairs) <= 0:
        return ""
    before, now = (statistics.median(side) for side in zip(*pairs, strict=True))
    single = [before / now for before, now in pairs]
    return f"{before / now:.2f}x ({min(single):.2f}-{max(single):.2f})"


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {(done.stderr.splitlines() or ['failed'])[-1]}")
    return done.stdout.strip()


def compiled(commit: str) -> Path:
    """Return the worktree of a commit with its compiled modules; both are made once."""
    tree, log = TREES / commit, TREES / f"{commit}.log"
    if not (tree / ".git").exists():
        # Forced: `make clean` removes the worktree, and git still knows its path.
        git("worktree", "add", "--force", "--detach", str(tree), commit)
    inside = ("-C", str(tree))
    if git(*inside, "rev-parse", "HEAD") != commit or git(*inside, "status", "--porcelain", "--", *MEASURED):
        sys.exit(f"{tree.relative_to(ROOT)} is no longer what the commit holds: remove it")
    if (tree / ".built").exists():
        return tree
    print(f"    compiles {commit[:12]}, which takes some minutes", flush=True)
    jobs = os.environ.get("LOGSTORE_BUILD_JOBS", "2")
    build = [sys.executable, "setup.py", "build_ext", "--inplace", "--parallel", jobs]
    with log.open("w") as output:
        if subprocess.run(build, cwd=tree, stdout=output, stderr=subprocess.STDOUT).returncode:
            sys.exit(f"{commit[:12]} does not compile: see {log.relative_to(ROOT)}")
    (tree / ".built").touch()
    return tree


def measured(tree: Path, side: str, arguments: Sequence[str]) -> Run:
    """Measure one side in a process of its own."""
    log, results = TREES / f"{side}.log", TREES / f"{side}.json"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.before", "--measure", str(tree / "src"), str(results), *arguments]
    with log.open("w") as output:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    if not results.exists():
        last = (log.read_text(errors="replace").splitlines() or ["nothing was printed"])[-1]
        sys.exit(f"no figures of {side}: {last} (see {log.relative_to(ROOT)})")
    return Run(**json.loads(results.read_text()))


def measure(source: str, results: str, *arguments: str) -> None:
    """Run the benchmarks in this process and store what they have found."""
    check_source(source)
    chosen = any(argument.startswith("benchmarks") or ".py" in argument for argument in arguments)
    options = ["-q", "--benchmark-quiet", "--continue-on-collection-errors", *([] if chosen else ["benchmarks"])]
    run = Run()
    code = pytest.main([*options, *arguments], plugins=[run])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"pytest ended with {pytest.ExitCode(code).name}")
    check_source(source)
    Path(results).write_text(json.dumps({"figures": run.figures, "failed": run.failed}))


def check_source(source: str) -> None:
    """Refuse a package from elsewhere. It is not imported for that: pytest wants to be the first to do so."""
    found = importlib.util.find_spec("logstore")
    if found is None or not Path(found.origin or "/").is_relative_to(source):
        sys.exit(f"logstore is that of {found and found.origin}, not of {source}")


def main(revision: str = "", rounds: str = "3", *arguments: str) -> None:
    if not revision or not rounds.isdecimal() or int(rounds) < 1:
        sys.exit("which commit? make bench-before COMMIT=REV [ROUNDS=3] [ARGS=...]")
    commit = git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").splitlines()[-1]
    if changed := git("status", "--porcelain", "--", *MEASURED):
        sys.exit(f"commit or stash first, a figure belongs to a commit: {changed.splitlines()[0].split()[-1]}")
    TREES.mkdir(parents=True, exist_ok=True)
    sides = {"before": compiled(commit), "now": ROOT}
    pairs = []
    for number in range(int(rounds)):
        print(f"    round {number + 1} of {rounds}", flush=True)
        before, now = (measured(tree, side, arguments) for side, tree in sides.items())
        pairs.append((before, now))
    rows, lines = compare(pairs)
    heads = {side: git("log", "-1", "--format=%h %s", at) for side, at in (("before", commit), ("now", "HEAD"))}
    for name, value in (describe(Path(tempfile.gettempdir())) | heads).items():
        print(f"{name:<10} {value}")
    print("\nMedians of rounds in turn. Ratio: how much faster, or better, now is (range of single rounds).\n")
    table = [("workload", "before", "now", "ratio"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(*lines, sep="\n")
    if not rows or any(now.failed for _, now in pairs):
        sys.exit("a benchmark of this commit has failed" if rows else "no workload was measured on both sides")


if __name__ == "__main__":
    measure(*sys.argv[2:]) if sys.argv[1:2] == ["--measure"] else main(*sys.argv[1:])
