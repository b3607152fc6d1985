"""Fuzz the parsers: ``python tests/fuzz/run.py --target batch --inputs 1000000 --seed 1``.

Each target runs in a process of its own, which notes in shared memory which input it is at. When it
dies (a sanitizer ends it at the first finding), stands still or grows, that input is saved, and it
goes on behind it. Findings are stored in ``build/fuzz``; ``--file`` runs one of them again.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.fuzz.loop import BLOCK, Finding, feed, one_input  # noqa: E402
from tests.fuzz.targets import TARGETS, Target  # noqa: E402

FINDINGS = ROOT / "build" / "fuzz"
STILL_S = 60.0  #: on one input: it hangs
GROWTH_MB = 64  #: from the warm process to its end: it leaks
PEAK_MB = 512  #: above the warm process: something is allocated that was only announced
WARM_BLOCKS = 20
SAVED_OF_A_KIND = 5

_number = struct.Struct("<q")


class Progress:
    """The number of the input that a worker is at, in a file that both processes map."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._file, _number.size)
        self._map = mmap.mmap(self._file, _number.size)

    def note(self, number: int) -> None:
        _number.pack_into(self._map, 0, number)

    def read(self) -> int:
        return int(_number.unpack_from(self._map, 0)[0])

    def close(self) -> None:
        self._map.close()
        os.close(self._file)


class Outcome(NamedTuple):
    """What a target's inputs came to."""

    count: int
    seconds: float
    classes: Counter[str]
    findings: list[Finding]


# --- the worker ---------------------------------------------------------------------------------


def rss_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def work(target: Target, seed: int, first: int, end: int, progress_path: str) -> None:
    """Feed the inputs [first, end), one line of JSON after each block."""
    progress = Progress(progress_path)
    make = target.prepare()
    for start in range(first - first % BLOCK, end, BLOCK):
        low, high = max(start, first), min(start + BLOCK, end)
        counts, findings = feed(target, make, seed, low, high, progress.note)
        progress.note(high)
        line = {
            "end": high,
            "classes": counts,
            "rss_mb": rss_mb(),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            "findings": [(f.number, f.data.hex(), f.what, f.report) for f in findings],
        }
        print(json.dumps(line), flush=True)


# --- the supervisor -----------------------------------------------------------------------------


def lines_of(
    process: subprocess.Popen[bytes], progress: Progress, still_s: float
) -> Iterator[dict[str, Any] | None]:
    """What a worker says; None and the end if it stands still."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    rest, seen, since = b"", -1, time.monotonic()
    while True:
        ended = process.poll() is not None
        rest += process.stdout.read() or b""
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield json.loads(line)
        if ended and not whole:
            return
        if whole:
            continue
        if progress.read() != seen:
            seen, since = progress.read(), time.monotonic()
        elif time.monotonic() - since > still_s:
            yield None
            return
        select.select([process.stdout], [], [], 0.02)


def fuzz(target: Target, seed: int, count: int, *, deadline: float | None = None, most: int = 20) -> Outcome:
    """Run a target's inputs [0, count), or as many as fit before the deadline or up to the ``most``th finding."""
    classes: Counter[str] = Counter()
    findings: list[Finding] = []
    began = time.monotonic()
    first, warm_mb, last_mb, blocks = 0, 0.0, 0.0, 0
    with tempfile.TemporaryDirectory(prefix="logstore-fuzz-") as directory:
        path = os.path.join(directory, "progress")
        progress = Progress(path)
        while first < count and len(findings) < most and (deadline is None or time.monotonic() < deadline):
            progress.note(first)
            worker = [sys.executable, __file__, "--target", target.name, "--seed", str(seed)]
            with open(os.path.join(directory, "stderr"), "w+", encoding="utf-8", errors="replace") as stderr:
                process = subprocess.Popen(
                    [*worker, "--inputs", str(count), "--first", str(first), "--progress", path],
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                )
                stands_still = False
                base_mb = warm_mb
                for line in lines_of(process, progress, STILL_S):
                    if line is None:
                        stands_still = True
                        break
                    first = line["end"]
                    classes.update(line["classes"])
                    findings += [
                        Finding(n, bytes.fromhex(d), what, report) for n, d, what, report in line["findings"]
                    ]
                    blocks += 1
                    last_mb = line["rss_mb"]
                    if blocks <= WARM_BLOCKS:
                        warm_mb = last_mb
                    elif line["peak_mb"] - warm_mb > PEAK_MB and base_mb != -1:
                        base_mb = -1
                        findings.append(Finding(first - BLOCK, b"", "peak of memory", f"{line['peak_mb']:.0f} MB"))
                    if len(findings) >= most or (deadline is not None and time.monotonic() > deadline):
                        break
                is_over = process.poll() is None and not stands_still
                process.kill()
                status = process.wait()
                assert process.stdout is not None
                process.stdout.close()
                stderr.seek(0)
                report = stderr.read()
            if stands_still or (status != 0 and not is_over):
                number = progress.read()
                what = "stands still" if stands_still else f"ended with {status}"
                try:
                    data = one_input(target, seed, number)
                except Exception as error:  # noqa: BLE001  # the seeds or the mutator are at fault, not the parser
                    data, report = b"", f"{report}\nthe input could not be made: {error!r}"
                findings.append(Finding(number, data, what, report))
                if number <= first and not data:
                    break
                classes[f"({what})"] += 1
                # What stands between the last line and the finding has gone well, uncounted by class.
                classes["before a finding"] += number - first
                first = number + 1
        progress.close()
    if blocks > 2 * WARM_BLOCKS and last_mb - warm_mb > GROWTH_MB:
        findings.append(Finding(first, b"", "growth of memory", f"from {warm_mb:.0f} to {last_mb:.0f} MB"))
    return Outcome(first, time.monotonic() - began, classes, findings)


def save(target: Target, seed: int, findings: list[Finding]) -> None:
    """Write the first findings of each kind, input and report, and say where."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    kinds: Counter[str] = Counter()
    for finding in findings:
        kinds[finding.what] += 1
        if kinds[finding.what] > SAVED_OF_A_KIND:
            continue
        path = FINDINGS / f"{target.name}-{seed}-{finding.number}.bin"
        path.write_bytes(finding.data)
        path.with_suffix(".txt").write_text(finding.report, encoding="utf-8")
        last = [line for line in finding.report.strip().splitlines() if line.strip()]
        said = next(
            (line for line in last if "ERROR:" in line or "runtime error" in line), last[-1] if last else ""
        )
        print(f"    {finding.what} at input {finding.number}: {said.strip()[:160]}")
        print(f"        python tests/fuzz/run.py --target {target.name} --file {path.relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="all", help=f"all, or some of: {','.join(TARGETS)}")
    parser.add_argument("--inputs", type=int, default=20_000, help="of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after this time, for all targets together")
    parser.add_argument("--most", type=int, default=20, help="stop a target at this many findings")
    parser.add_argument("--file", type=Path, help="hand one saved input to the target, in this process")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--progress", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = list(TARGETS) if arguments.target == "all" else arguments.target.split(",")
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        parser.error(f"unknown target(s) {', '.join(unknown)}; known are {', '.join(TARGETS)}")
    if arguments.progress:
        work(TARGETS[names[0]], arguments.seed, arguments.first, arguments.inputs, arguments.progress)
        return 0
    if arguments.file:
        TARGETS[names[0]].prepare()
        TARGETS[names[0]].read(arguments.file.read_bytes())
        print("taken")
        return 0
    found = 0
    began = time.monotonic()
    for turn, name in enumerate(names):
        deadline = None
        if arguments.minutes is not None:
            # What is left, shared by the targets that are left.
            left = began + arguments.minutes * 60 - time.monotonic()
            deadline = time.monotonic() + max(left, 0) / (len(names) - turn)
        outcome = fuzz(TARGETS[name], arguments.seed, arguments.inputs, deadline=deadline, most=arguments.most)
        found += len(outcome.findings)
        classes = ", ".join(f"{what} {number}" for what, number in outcome.classes.most_common())
        rate = outcome.count / max(outcome.seconds, 1e-9)
        print(
            f"{name}: {outcome.count} inputs, {rate:,.0f}/s, {len(outcome.findings)} findings; {classes}",
            flush=True,
        )
        if outcome.findings:
            save(TARGETS[name], arguments.seed, outcome.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
