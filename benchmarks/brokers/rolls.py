"""Round trips of one record while another partition of the same broker rolls segments of 1 GiB at full speed.

The other partition is filled by a process of its own, which is this module's `main`.
"""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.brokers import load
from benchmarks.brokers.load import Connection

ROLLS = 3
_RECORDS = 512  # of a batch: 512 KiB
_REQUESTS = (ROLLS << 30) // (_RECORDS * load.SIZE) + 100


def round_trips(bootstrap: str, number: int) -> list[float]:
    """Return the seconds of each round trip until the other partition has rolled, in rising order."""
    connection, topic, other = Connection(bootstrap), f"beside-{number}", f"rolls-{number}"
    connection.create(topic, other)
    frames = [load.produce_frame(topic, batch) for batch in load.batches(1)]
    for each in (topic, other):
        load.wait_until_taken(connection, load.produce_frame(each, load.batches(1)[0]))
    load.round_trips(connection, frames, 200)  # warm
    found: list[float] = []
    with subprocess.Popen([sys.executable, "-m", "benchmarks.brokers.rolls", bootstrap, other]) as filling:
        while filling.poll() is None:
            found += load.round_trips(connection, frames, 100)
    assert filling.returncode == 0, "the other partition was not filled"
    connection.delete(topic, other)
    connection.close()
    return sorted(found)


def main() -> None:
    """Fill a partition of a broker: ``HOST:PORT TOPIC``."""
    bootstrap, topic = sys.argv[1:]
    connection = Connection(bootstrap)
    frames = [load.produce_frame(topic, batch) for batch in load.batches(_RECORDS)]
    load.produce(connection, load.repeated(frames, _REQUESTS), _RECORDS, os.getpid())
    connection.close()


if __name__ == "__main__":
    main()
