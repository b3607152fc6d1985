"""What a log costs: descriptors, memory, objects, bytes read from the disk.

Each figure is taken in a process of its own, so that neither pytest nor another test is counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from logstore import Log
from logstore.batch._batch import Batches
from logstore.batch._encode import encode

COMMON = """
import gc, json, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
from logstore import Log
from logstore.io._files import LIBC

def resident_mb():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6

def report(**facts):
    print(json.dumps(facts))
"""


def run(script: str, *arguments: object) -> dict[str, Any]:
    """The facts that a script reports."""
    done = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


PARTITIONS = """
count = int(sys.argv[2])
logs = [Log.open(f"{sys.argv[1]}/t-{i}") for i in range(count)]
for turn in range(2):
    for i, log in enumerate(logs):
        log.append([b"%d of %d" % (turn, i)])
most = len(os.listdir("/proc/self/fd"))
for i, log in enumerate(logs):
    assert log.read(0).values() == [b"0 of %d" % i, b"1 of %d" % i]
memory = resident_mb()
for log in logs:
    log.close()
report(descriptors=most, limit=LIBC.descriptor_limit, resident_mb=memory)
"""


@pytest.mark.row("S9")
@pytest.mark.row("S20", part="time of 1,000 partitions")
def test_a_thousand_partitions_are_open_with_4096_descriptors(ram_path: Path) -> None:
    facts = run(PARTITIONS, ram_path, 1_000)
    assert facts["descriptors"] <= 4_096
    # DESIGN's bar for 1 000 open partitions.
    assert facts["resident_mb"] <= 60


@pytest.mark.timeout(600)  # half a minute of work, which a busy machine makes minutes
def test_ten_thousand_partitions_share_4096_descriptors_through_the_cache(ram_path: Path) -> None:
    facts = run(PARTITIONS, ram_path, 10_000)
    # The cache keeps to its limit; beside it the process has only its own few.
    assert facts["descriptors"] <= facts["limit"] + 64 < 4_096


@pytest.mark.row("S20", part="time of 1,000 partitions")
def test_a_thousand_partitions_are_recovered_after_a_kill(ram_path: Path) -> None:
    script = """
        import signal
        logs = [Log.open(f"{sys.argv[1]}/t-{i}") for i in range(1000)]
        for i, log in enumerate(logs):
            log.append([b"value of %d" % i])
        print(json.dumps({"written": len(logs)}), flush=True)
        if sys.argv[2] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(script), str(ram_path), "kill"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    for number in range(1_000):
        with Log.open(ram_path / f"t-{number}") as log:
            assert not log.maintenance.was_clean
            assert log.read(0).values() == [b"value of %d" % number]


@pytest.mark.row("S9")
def test_memory_does_not_grow_with_the_data(ram_path: Path) -> None:
    facts = run(
        """
        import shutil
        values = [bytes(1000)] * 1000
        with Log.open(sys.argv[1] + "/t-0", segment_bytes=16 << 20, retention_ms=-1) as log:
            for _ in range(20):
                log.append(values)
            sum(batches.count() for batches in log.scan().chunks())
            before = resident_mb()
            for turn in range(380):
                log.append(values)
                if turn % 20 == 0:
                    # Only the log's memory is asked for; where the files are in memory they need not pile up.
                    log.delete_before(log.log_end_offset - 40_000)
            counted = log.scan().count()
            sizes = sum(len(batches.data) for batches in log.scan().chunks())
            after = resident_mb()
        report(before=before, after=after, counted=counted, sizes=sizes)
        """,
        ram_path,
    )
    assert facts["sizes"] > 40_000_000
    # 380 MB went through: a few chunks and index entries may stay, the data may not.
    assert facts["after"] - facts["before"] < 12


@pytest.mark.row("S9", "M9")
def test_a_scan_of_columns_takes_the_memory_of_one_chunk(ram_path: Path) -> None:
    facts = run(
        """
        from logstore.client.scan.topic_scan import TopicScan
        values = [b'{"n": %d, "text": "%s"}' % (n, b"x" * 200) for n in range(1000)]
        with Log.open(sys.argv[1] + "/t-0") as log:
            for _ in range(400):
                log.append(values)
            def scan():
                return TopicScan("t", {0: log}, value_schema={"n": "int64", "text": "string"}, views=True)
            sum(len(batch) for _, batch in zip(range(3), scan().batches()))
            before = resident_mb()
            rows = sum(len(batch) for batch in scan().batches())
            after = resident_mb()
            size = log.maintenance.size
        report(before=before, after=after, rows=rows, size=size)
        """,
        ram_path,
    )
    assert facts["rows"] == 400_000
    assert facts["size"] > 90_000_000
    assert facts["after"] - facts["before"] < 12


@pytest.mark.row("S11")
def test_a_read_makes_as_many_objects_for_ten_thousand_records_as_for_ten(ram_path: Path) -> None:
    with Log.open(ram_path / "t-0") as log:
        log.append([b"x" * 50] * 10)
        log.append([b"x" * 50] * 10_000)

        def objects_of(offset: int) -> int:
            log.read(offset)
            before = sys.getallocatedblocks()
            kept = log.read(offset)
            made = sys.getallocatedblocks() - before
            assert isinstance(kept, Batches)
            return made

        few, many = objects_of(0), objects_of(10)
        assert log.read(10).count() == 10_000
        assert many <= few + 2
        assert many < 20


@pytest.mark.row("S11")
def test_arrow_columns_make_as_many_objects_for_ten_thousand_records_as_for_ten() -> None:
    from logstore.columns._export import columns_of

    def objects_of(count: int) -> int:
        batches = Batches(encode([(b"k", b"v" * 20, 1)] * count))
        columns_of(batches).__arrow_c_array__()
        before = sys.getallocatedblocks()
        kept = columns_of(batches).__arrow_c_array__()
        made = sys.getallocatedblocks() - before
        assert len(kept) == 2
        return made

    assert objects_of(10_000) <= objects_of(10) + 2


@pytest.mark.row("S9", "S10")
@pytest.mark.row("X5", part="page cache")
def test_a_second_process_reads_the_hot_tail_without_the_disk(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        for _ in range(20):
            log.append([b"x" * 1_000] * 1_000)
        log.flush()
        # Of three processes one: the kernel may drop a page, of the log or of a library, and read it again.
        read = []
        for _ in range(3):
            facts = run(
                """
                def from_disk():
                    fields = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
                    return int(fields["read_bytes"])
                with Log.open(sys.argv[1], read_only=True) as log:
                    before = from_disk()
                    counted = log.scan().count()
                    sizes = sum(len(batches.data) for batches in log.scan().chunks())
                    report(disk=from_disk() - before, counted=counted, sizes=sizes)
                """,
                tmp_path / "t-0",
            )
            assert facts["counted"] == 20_000
            assert facts["sizes"] > 20_000_000
            read.append(facts["disk"])
            if read[-1] == 0:
                break
    assert min(read) == 0, read
