"""Steps of a fetch session: a consumer waits at the end of its partitions, of which one gets a record each time.

A producer sends one record while the step waits; the step is answered, and the next one names the partition that
has moved. The broker's CPU for the same records without the consumer is taken off. By itself it compares two
builds: ``python -m benchmarks.brokers.sessions PYTHON PYTHON``, each of an environment that has one.
"""

from __future__ import annotations

import contextlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.brokers import load
from benchmarks.brokers.load import FETCH_BYTES, Connection
from benchmarks.processes import cpu_of
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest

_VERSION = 11
_SESSION_AT = 10  # behind correlation id, throttle time and error
_STEPS = 3_000


class Session(NamedTuple):
    """So many partitions, each of a topic of its own, of which so many get records in turn."""

    name: str
    partitions: int
    hot: int


SESSIONS = (
    Session("1,000 idle partitions, each gets a record in turn", 1_000, 1_000),
    Session("1,000 idle partitions, one gets the records", 1_000, 1),
    Session("one partition", 1, 1),
)


def step_us(bootstrap: str, session: Session, number: int, pid: int, steps: int = _STEPS) -> float:
    """Return the microseconds of the broker's CPU that one step takes."""
    names = [f"idle-{number}-{session.partitions}-{session.hot}-{n}" for n in range(session.partitions)]
    producer, consumer = Connection(bootstrap), Connection(bootstrap)
    batch = load.batches(1)[0]
    producer.create(*names)
    frames = [load.produce_frame(name, batch) for name in names]
    load.produce(producer, frames, 1, pid)  # their logs are opened
    hot = frames[: session.hot]
    alone = cpu_of(pid)
    for frame in load.repeated(hot, steps):
        producer.send(frame)
        producer.receive()
    alone = cpu_of(pid) - alone
    ends = [1 + (steps - n + session.hot - 1) // session.hot if n < session.hot else 1 for n in range(len(names))]
    consumer.send(_asked(0, 0, dict(zip(names, ends, strict=True))))
    (session_id,) = struct.unpack_from(">i", consumer.receive(), _SESSION_AT)
    assert session_id > 0
    moved: dict[str, int] = {}
    # Made before, as the client of the other works: each names what the step before it has brought.
    asked = []
    for n in range(steps):
        asked.append(_asked(session_id, n + 1, moved))
        each = n % session.hot
        ends[each] += 1
        moved = {names[each]: ends[each]}
    both = cpu_of(pid)
    for frame, step in zip(load.repeated(hot, steps), asked, strict=True):
        consumer.send(step)
        producer.send(frame)
        producer.receive()
        assert len(consumer.receive()) > load.SIZE, "a step brought no record"
    both = cpu_of(pid) - both
    producer.delete(*names)
    producer.close()
    consumer.close()
    return (both - alone) / steps * 1e6


def _asked(session_id: int, epoch: int, offsets: dict[str, int]) -> bytes:
    topics = [
        FetchRequest.FetchTopic(
            topic=name,
            partitions=[
                FetchRequest.FetchPartition(
                    partition=0, fetch_offset=at, partition_max_bytes=FETCH_BYTES, log_start_offset=-1
                )
            ],
        )
        for name, at in offsets.items()
    ]
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=30_000 if epoch else 0,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
    )
    return encode_request(request, _VERSION, 1, "bench")


@contextlib.contextmanager
def _served(python: str, directory: Path) -> Iterator[tuple[str, int]]:
    """Serve a directory by the build of an environment; give its address and process."""
    command = [python, "-m", "logstore", "serve", str(directory), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=directory.parent) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()


def main() -> None:
    pythons = sys.argv[1:] or [sys.executable]
    with tempfile.TemporaryDirectory(prefix="sessions-") as folder, contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(_served(each, Path(folder) / str(n))) for n, each in enumerate(pythons)]
        for session in SESSIONS:
            steps = _STEPS if session.partitions > 1 else 5 * _STEPS
            found = [
                [step_us(bootstrap, session, turn, pid, steps) for bootstrap, pid in brokers] for turn in range(4)
            ]
            medians = [statistics.median(each) for each in zip(*found[1:], strict=True)]
            print(f"{session.name:50} CPU of a step " + ", ".join(f"{each:.0f} us" for each in medians), flush=True)


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"in {time.perf_counter() - began:.0f} s")
