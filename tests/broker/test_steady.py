"""Records at a steady rate from a producer through the broker to a consumer: all of them, in order, in flat memory.

LOGSTORE_STEADY_RATE=115741 LOGSTORE_STEADY_S=600 is ten billion records a day, for ten minutes; the output has the
rate and the latencies of each tenth of the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import logstore
from tests.broker.process import served_process
from tests.broker.steady import PARTITIONS, TOPIC
from tests.kit.waiting import wait_for

RATE = int(os.environ.get("LOGSTORE_STEADY_RATE", "10000"))
SECONDS = int(os.environ.get("LOGSTORE_STEADY_S", "4"))
ROOT = Path(__file__).parents[2]
MIB = 1 << 20


def _run(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.broker.steady", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.row("N5")
@pytest.mark.timeout(0)
def test_a_steady_stream_arrives_whole_in_order_and_in_flat_memory(tmp_path: Path) -> None:
    count = RATE * SECONDS // PARTITIONS * PARTITIONS
    with served_process(tmp_path / "data") as served:
        with logstore.connect(served.bootstrap) as cluster:
            # Old segments go while it runs, as in any broker that serves for long.
            cluster.create_topic(TOPIC, PARTITIONS, segment_bytes=64 * MIB, retention_bytes=512 * MIB)
        with _run("consume", served.bootstrap, count) as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "ready\n"
            began = time.monotonic()
            with _run("produce", served.bootstrap, RATE, SECONDS) as producer:
                wait_for(lambda: time.monotonic() - began > SECONDS / 2, SECONDS + 60, every_s=0.1)
                half = served.usage.memory_info().rss
                sent = json.loads(producer.communicate()[0])
            full = served.usage.memory_info().rss
            received = json.loads(consumer.communicate()[0])
        seconds = time.monotonic() - began
        used = served.usage.cpu_times()
    assert sent["sent"] == received.pop("received") == count
    print(f"{count} records in {seconds:.1f} s, {count / seconds:.0f} a second; sent in {sent['seconds']:.1f} s")
    cpu_s, at_half, at_end = used.user + used.system, half / MIB, full / MIB
    print(f"the broker: {cpu_s:.1f} s of CPU; {at_half:.1f} MiB at half of the time, {at_end:.1f} at the end")
    print(json.dumps(received))
    assert full - half < 16 * MIB
