"""The long tests, one after another, with what each has counted: ``python tests/soak.py``.

The same tests as in ``make test``, with larger numbers. Each prints its seed, and LOGSTORE_SEED
repeats it. Simulated clusters have other seeds each day. Ends with a table, and with 1 if anything has failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

#: The Python that has PySpark; `make soak` makes it where there is Java, and says so where there is none.
SPARK = os.environ.get("SPARK_PYTHON", str(ROOT / ".venv-spark" / "bin" / "python"))

_NOISE = re.compile(r"^[.sFEx]+(\s+\[\s*\d+%\])?$|^=+ .* =+$|^$")
_RESULT = re.compile(r"^=*\s*(\d+ (?:passed|failed|error).*?) in [\d.]+s")


class Step(NamedTuple):
    """One run of pytest with its environment."""

    title: str
    tests: tuple[str, ...]
    environment: dict[str, str]
    python: str = sys.executable
    marks: str = ""  #: the tests with these marks, and no others


def first_seed() -> int:
    """Return the first seed of the simulated clusters: LOGSTORE_SEED, else one of the day, far from other days'."""
    return int(os.environ.get("LOGSTORE_SEED") or date.today().toordinal() * 1_000_000)


def steps(options: argparse.Namespace) -> list[Step]:
    """What there is to run, without the tests that this checkout has not, or no Spark or Kafka for."""
    seed = str(first_seed())
    wanted = [
        Step(
            f"{options.kills} kills under load",
            ("tests/crash/test_kill.py",),
            {"LOGSTORE_KILLS": str(options.kills)},
        ),
        Step(
            f"{options.states} states after a power cut, half of them with rolls that are finished late",
            ("tests/crash/test_power_cuts.py", "tests/crash/test_roll_cuts.py"),
            {"LOGSTORE_STATES": str(options.states)},
        ),
        Step(
            f"{options.flips} flipped bits",
            ("tests/crash/test_flips.py",),
            {"LOGSTORE_FLIPS": str(options.flips)},
        ),
        Step(
            "every step of handing a directory back, cut off",
            ("tests/store/admin/test_kafka_directories.py",),
            {"LOGSTORE_HAND_BACK_EVERY": "1"},
        ),
        Step(
            f"each two files of a store are lost: {options.lost_pairs} pairs",
            ("tests/crash/test_lost_files.py",),
            {"LOGSTORE_LOST_PAIRS": str(options.lost_pairs)},
        ),
        Step(
            f"Spark's sink: {options.sink_kills} kills of its writers at each point",
            ("tests/spark/test_sink_kills.py",),
            {"LOGSTORE_KILLS": str(options.sink_kills)},
            SPARK,
        ),
        Step(
            f"Spark's sink: {options.spark_kills} kills of a Spark at each point",
            ("tests/spark/soak_sink.py",),
            {"LOGSTORE_KILLS": str(options.spark_kills)},
            SPARK,
        ),
        Step(
            f"Spark's staged pipeline: {options.pipeline_kills} kills of its process",
            ("tests/spark/pipelines/test_stages.py",),
            {"LOGSTORE_PIPELINE_KILLS": str(options.pipeline_kills)},
            SPARK,
        ),
        Step(
            "Spark's pipelines: everything that is done to them",
            ("tests/spark/pipelines/test_abuse.py", "tests/spark/pipelines/output/test_outputs.py"),
            {"LOGSTORE_ABUSE": "all"},
            SPARK,
        ),
        Step("Spark: the flights on a cluster", ("tests/spark/soak_cluster.py",), {}, SPARK),
        Step(
            f"aio: {options.aio_rounds} rounds of polls and cancellations",
            ("tests/aio/test_soak.py",),
            {"LOGSTORE_AIO_ROUNDS": str(options.aio_rounds)},
        ),
        Step(
            f"{options.drops} objects of each kind dropped under load",
            ("tests/test_dropped.py",),
            {"LOGSTORE_DROPS": str(options.drops)},
        ),
        Step(
            f"every line interrupted, {options.storm_s} s of signals",
            ("tests/crash/test_interrupts.py",),
            {"LOGSTORE_INTERRUPT_LINES": "1000000", "LOGSTORE_STORM_S": str(options.storm_s)},
        ),
        Step(
            f"replicas: {options.simulations} simulated clusters of 15 s, LOGSTORE_SEED={seed}",
            ("tests/replication/test_simulated_lives.py",),
            {
                "LOGSTORE_SIMULATIONS": str(options.simulations),
                "LOGSTORE_SIMULATED_S": "15",
                "LOGSTORE_SEED": seed,
            },
        ),
        Step(
            f"replicas: {options.simulations // 20} simulated clusters of 60 s, LOGSTORE_SEED={seed}",
            ("tests/replication/test_simulated_lives.py",),
            {
                "LOGSTORE_SIMULATIONS": str(options.simulations // 20),
                "LOGSTORE_SIMULATED_S": "60",
                "LOGSTORE_SEED": seed,
            },
        ),
        Step(
            f"replicas: {options.simulations // 2} lives of controllers, LOGSTORE_SEED={seed}",
            ("tests/replication/controller/test_controller_lives.py",),
            {"LOGSTORE_SIMULATIONS": str(options.simulations), "LOGSTORE_SEED": seed},
        ),
        Step(
            f"broker: {options.replica_kills} kills under load of each of two producers",
            ("tests/broker/test_kill.py",),
            {"LOGSTORE_KILLS": str(options.replica_kills)},
        ),
        Step(
            "broker: 10,000 partitions in 4,096 descriptors",
            ("tests/broker/test_scale.py",),
            {"LOGSTORE_SERVED_TOPICS": "20"},
        ),
        Step(
            f"broker: 115,741 records a second, end to end, for {options.steady_s} s",
            ("tests/broker/test_steady.py",),
            {"LOGSTORE_STEADY_RATE": "115741", "LOGSTORE_STEADY_S": str(options.steady_s)},
        ),
        Step(
            f"replicas: {options.replica_kills} kills of the example's processes",
            ("tests/replication/test_replicated_example.py",),
            {"LOGSTORE_KILLS": str(options.replica_kills)},
        ),
        Step(
            f"groups: {options.group_kills} kills and joins of members at a real Kafka, by each protocol",
            ("tests/interop/test_group_ledger.py",),
            {"LOGSTORE_GROUP_KILLS": str(options.group_kills)},
            marks="interop",
        ),
        Step(
            "a log against its model, 5 000 lives",
            ("tests/log/test_model.py",),
            {"HYPOTHESIS_PROFILE": "long"},
        ),
    ]
    there = [step for step in wanted if all((ROOT / test).exists() for test in step.tests)]
    if not [*ROOT.glob("build/kafka/libs-*")]:
        print("what needs a Kafka is left out: make interop fetches it", flush=True)
        there = [step for step in there if step.marks != "interop"]
    return [step for step in there if step.python != SPARK or Path(SPARK).exists()]


def run(step: Step) -> tuple[bool, str, list[str]]:
    """Whether it passed, pytest's own count, and the lines that the tests have printed."""
    command = [step.python, "-m", "pytest", "-q", "-s", "-p", "no:benchmark", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, "-o", "timeout=0", *(["-m", step.marks] if step.marks else []), *step.tests],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **step.environment},
        cwd=ROOT,
    )
    assert process.stdout is not None
    printed, result = [], "did not end"
    for line in process.stdout:
        line = line.rstrip().lstrip(".")
        found = _RESULT.match(line)
        if found:
            result = found[1]
        elif not _NOISE.match(line):
            printed.append(line)
            print(f"    {line}", flush=True)
    return process.wait() == 0, result, printed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--flips", type=int, default=24_000)
    parser.add_argument("--lost-pairs", default="all")
    parser.add_argument("--sink-kills", type=int, default=300)
    parser.add_argument("--spark-kills", type=int, default=2)
    parser.add_argument("--pipeline-kills", type=int, default=20)
    parser.add_argument("--aio-rounds", type=int, default=1_000)
    parser.add_argument("--storm-s", type=int, default=600)
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--replica-kills", type=int, default=200)
    parser.add_argument("--group-kills", type=int, default=200)
    parser.add_argument("--steady-s", type=int, default=600)
    parser.add_argument("--drops", type=int, default=10_000)
    parser.add_argument("--only", help="run the steps whose title contains this word")
    options = parser.parse_args()
    table = []
    for step in steps(options):
        if options.only and options.only not in step.title:
            continue
        print(f"{step.title}:", flush=True)
        began = time.monotonic()
        passed, result, _ = run(step)
        minutes = (time.monotonic() - began) / 60
        table.append((passed, step.title, result, f"{minutes:.1f} min"))
    width = max((len(title) for _, title, _, _ in table), default=0)
    print()
    for passed, title, result, minutes in table:
        print(f"{'ok    ' if passed else 'FAILED'} {title:{width}}  {result}, {minutes}")
    return 0 if table and all(passed for passed, *_ in table) else 1


if __name__ == "__main__":
    sys.exit(main())
