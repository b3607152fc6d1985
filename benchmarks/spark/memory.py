"""The most memory that a Python worker of Spark takes: for a quarter of the records, for half and for all.

Run in a process of its own.

Each task gets a worker of its own here (``spark.python.worker.reuse`` is off), and Linux keeps the peak of each
process.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import psutil

from benchmarks.spark import data
from benchmarks.spark.contenders import contenders, register
from benchmarks.spark.session import session

#: One part in so many of each partition. The heap of a process grows for about the first eight fetches, since
#: buffers of changing sizes leave gaps in it: a quarter of a compressed topic is over before, half is not.
PARTS = {"quarter": 4, "half": 2, "all": 1}


def peak_kib(process: psutil.Process) -> int:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


class Watch:
    """The peak of all workers there are while it is open. They are the children of Spark's Python daemon."""

    def __init__(self) -> None:
        self.kib = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._done.wait(0.02):
            for process in psutil.Process().children(recursive=True):
                try:
                    parent = process.parent()
                    if parent is not None and "pyspark.daemon" in " ".join(parent.cmdline()):
                        self.kib = max(self.kib, peak_kib(process))
                except (psutil.Error, OSError):  # it has ended
                    continue

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        self._thread.join()


def measure(work: Path, bootstrap: str | None, records: int, names: list[str]) -> dict[str, dict[str, float]]:
    """By contender, and by the part of each partition that is read: MiB."""
    with session(work, {"spark.python.worker.reuse": "false"}) as spark:
        register(spark)
        found = {}
        for name in names:
            contender = contenders(work, bootstrap, records)[name]
            found[name] = {}
            for size, part in PARTS.items():
                end = records // data.PARTITIONS // part
                ends = {contender.topic: {str(number): end for number in range(data.PARTITIONS)}}
                options = {"endingOffsets": json.dumps(ends)} if part > 1 else {}
                with Watch() as watch:
                    contender.table(spark, **options).write.format("noop").mode("overwrite").save()
                found[name][size] = watch.kib / 1024
    return found


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(measure(Path(asked["work"]), asked["bootstrap"], asked["records"], asked["names"])))
