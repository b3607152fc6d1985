"""What logstore takes before it has done anything: memory of open partitions, time to import."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interleave import Runner, Target, race

PARTITIONS = 1_000

RESIDENT = """
import gc, json, os, resource, sys
def resident_mb():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
"""

#: Written to and read from, as partitions are.
OPEN = """
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
from logstore import Log
logs = [Log.open(f"{sys.argv[1]}/t-{i}") for i in range(int(sys.argv[2]))]
for i, log in enumerate(logs):
    log.append([b"value of %d" % i])
assert all(log.read(0).values() == [b"value of %d" % i] for i, log in enumerate(logs))
print(json.dumps(resident_mb()), flush=True)
os._exit(0)
"""


def run(script: str, *arguments: object) -> Any:
    """What a script prints, as JSON, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.row("S9")
def test_memory_of_a_thousand_open_partitions(benchmark: Any, places: Any) -> None:
    """Resident memory of a whole process that holds them, Python and library included."""
    found: list[float] = []

    def check(_place: Path, resident: float) -> None:
        found.append(resident)

    def targets(_medians: dict[str, float]) -> list[Target]:
        bare, imported = (run(f"{RESIDENT}{more}\nprint(resident_mb())") for more in ("", "import logstore"))
        reference = f"bare Python {bare:.0f}, with the import {imported:.0f}"
        return [Target("resident memory", statistics.median(found), "MB", 60, 40, reference=reference)]

    race(
        benchmark,
        Runner(lambda place: run(RESIDENT + OPEN, place, PARTITIONS), check, places),
        {},
        workload=f"{PARTITIONS:,} open partitions",
        records=PARTITIONS,
        size=0,
        targets=targets,
        rounds=5,
        unit="s in all",
        codec="none",
    )


#: Topics of one partition each: made together, opened lazily, written to, left alone, closed.
MANY = """
import time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
import logstore
from logstore.io._files import LIBC
# The descriptor cache keeps to the limit that it has found. Nothing else does from here on: a leak is seen.
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def took(step):
    began = time.perf_counter()
    result = step()
    return time.perf_counter() - began, result
path, count = sys.argv[1] + "/data", int(sys.argv[2])
names = [f"t{number}" for number in range(count)]
with logstore.open(path) as store:
    made, _ = took(lambda: store.create_topics(names[:1000]))
    store.create_topics(names[1000:])
opened, store = took(lambda: logstore.open(path))
descriptors = 0
for number, name in enumerate(names):
    store[name].append(b"x")
    if number % 100 == 99:
        descriptors = max(descriptors, len(os.listdir("/proc/self/fd")))
before = time.process_time()
time.sleep(60)
idle = (time.process_time() - before) / 60
closed, _ = took(store.close)
def make_files():
    for name in names:
        os.close(os.open(f"{path}/{name}-0/empty", os.O_CREAT | os.O_RDWR))
files, _ = took(make_files)
print(json.dumps([made, opened, descriptors, 100 * idle, closed, files]), flush=True)
"""


def kafkas_ms(folder: Path) -> float | None:
    """What Kafka takes to answer one request for 1,000 topics; None where none has been fetched.

    It makes the directories afterwards, and syncs none of them.
    """
    from tests.interop import broker

    if not broker.CACHE.joinpath(f"libs-{broker.VERSION}").exists():
        return None
    from kafka.admin import KafkaAdminClient, NewTopic  # here: installed with that Kafka

    kafka = broker.Broker(folder)
    kafka.start()
    try:
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
            admin.create_topics([NewTopic("first", 1, 1)], timeout_ms=60_000)
            wanted = [NewTopic(f"t{number}", 1, 1) for number in range(1_000)]
            began = time.perf_counter()
            admin.create_topics(wanted, timeout_ms=60_000)
            return (time.perf_counter() - began) * 1e3
    finally:
        # It may still be making the directories.
        kafka.kill()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # kafka-python
@pytest.mark.row("S9")
def test_a_store_of_ten_thousand_topics(benchmark: Any, places: Any, tmp_path: Path) -> None:
    """Topics made by one call, a store of them opened, idle after a record to each, and closed.

    Idle for a minute: each round of the housekeeping comes at least once, that of every five minutes, too.
    An ext4 without a journal passes over every inode that was deleted in the last minutes to make a file. So the
    row has, too, how long 10,000 empty files take in the same directories.
    Descriptors are the most that were open at once in a process that was begun with a limit of 4,096 of them, which
    was raised once the descriptor cache had read it.
    """
    found: list[list[float]] = []
    kafka = kafkas_ms(tmp_path / "kafka")

    def check(_place: Path, figures: list[float]) -> None:
        found.append(figures)

    def targets(_medians: dict[str, float]) -> list[Target]:
        medians = (statistics.median(column) for column in zip(*found, strict=True))
        made, opened, descriptors, idle, closed, files = medians
        # Kafka's 0.2 s of another machine, where there is none to ask.
        bar = 400 if kafka is None else 2 * kafka
        beside = "no Kafka in build/kafka: make interop fetches it" if kafka is None else f"Kafka {kafka:.0f}"
        return [
            Target("1,000 topics by one call", made * 1e3, "ms", bar, reference=beside),
            Target("opened", opened * 1e3, "ms", 1_000),
            Target("most descriptors", descriptors, "", 4_096),
            Target("idle", idle, "% of a core", 1),
            Target("closed", closed * 1e3, "ms", 5_000, reference=f"10,000 empty files {files * 1e3:.0f}"),
        ]

    race(
        benchmark,
        Runner(lambda place: run(RESIDENT + MANY, place, 10_000), check, places),
        {},
        workload="10,000 topics",
        records=10_000,
        size=0,
        targets=targets,
        rounds=1,
        unit="s in all",
        codec="none",
    )


FIRST = {
    "ours": """
import sys, logstore
with logstore.open(sys.argv[1] + "/data") as store:
    store.create_topic("first").append(b"record", ack="synced")
print(0)
""",
    "sqlite": """
import sys, os, sqlite3
os.makedirs(sys.argv[1] + "/data")
base = sqlite3.connect(sys.argv[1] + "/data/first.db")
base.execute("pragma journal_mode=wal")
base.execute("pragma synchronous=full")
base.execute("create table log(id integer primary key, value blob)")
base.execute("insert into log(value) values(?)", (b"record",))
base.commit()
base.close()
print(0)
""",
}


def race_processes(
    benchmark: Any,
    places: Any,
    scripts: dict[str, str],
    targets: Callable[[dict[str, float]], list[Target]],
    **about: Any,
) -> None:
    """Race processes that run a script each, "ours" among them, beside one that does nothing."""

    def runner(script: str) -> Runner:
        return Runner(lambda place: run(script, place), lambda _place, _result: None, places)

    runners = {name: runner(script) for name, script in (scripts | {"bare Python": "print(0)"}).items()}
    race(
        benchmark,
        runners.pop("ours"),
        runners,
        records=1,
        size=0,
        targets=targets,
        rounds=15,
        unit="ms",
        codec="none",
        **about,
    )


@pytest.mark.row("D4")
def test_first_synced_record(benchmark: Any, places: Any) -> None:
    """From the start of a process to its end: a new store, a topic, one record on the disk. An import is less."""

    def targets(medians: dict[str, float]) -> list[Target]:
        found = {name: (medians[name] - medians["bare Python"]) * 1e3 for name in ("ours", "sqlite")}
        return [Target("over bare Python", found["ours"], "ms", 40, reference=f"sqlite {found['sqlite']:.0f}")]

    race_processes(benchmark, places, FIRST, targets, workload="first synced record of a process")


@pytest.mark.row("D4")
def test_import(benchmark: Any, places: Any) -> None:
    """A process that imports logstore beside one that imports nothing."""

    def targets(medians: dict[str, float]) -> list[Target]:
        return [Target("over bare Python", (medians["ours"] - medians["bare Python"]) * 1e3, "ms", 40)]

    race_processes(benchmark, places, {"ours": "import logstore; print(0)"}, targets, workload="import logstore")
