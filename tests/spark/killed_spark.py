"""What the soak of the sink has Spark run: a query that kills its whole Spark at a step of the sink.

Imported by the driver, which runs the query, and by each of Spark's Python processes, which count steps: the
classes of the data source and of its writer come from here. Run as
``python -m tests.spark.killed_spark ROOT DIRECTORY``; the environment says where and after how many steps, counted
over all processes, everything is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql.types import StructType

from logstore.spark.source import LogstoreDataSource
from logstore.spark.writing import rows, sink
from tests.kit.waiting import wait_for
from tests.spark.killed_sink import STEPS

POINT, STEP, DRIVER, COUNTER = (f"_LOGSTORE_SOAK_{name}" for name in ("POINT", "STEP", "DRIVER", "COUNTER"))


class KilledWriter(sink.StreamWriter):
    """The writer, found in this module so that every task imports it."""


class KilledSource(LogstoreDataSource):
    """The data source, found in this module so that each process that plans or commits imports it."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        made = super().streamWriter(schema, overwrite)
        made.__class__ = KilledWriter
        return made


def kill_all() -> None:
    """The driver, the Java machine, the workers: none of them may tidy up."""
    driver = psutil.Process(int(os.environ[DRIVER]))
    for process in [driver, *driver.children(recursive=True)]:
        if process.pid != os.getpid():
            os.kill(process.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class Steps:
    """The steps of the sink at one point."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.armed = point == "mid-write"

    def plant(self) -> None:
        rows.FLUSH_BYTES = 2_000
        for owner, name in STEPS[self.point]:
            setattr(owner, name, self.counted(getattr(owner, name)))
        sink.StoreSink.commit = self.around(  # type: ignore[method-assign]
            sink.StoreSink.commit, ("mid-commit", "during-sweep"), before="after-write", behind="after-marker"
        )
        sink.StoreSink.abort = self.around(  # type: ignore[method-assign]
            sink.StoreSink.abort, ("during-abort",), before="during-abort", behind="during-abort"
        )

    def around(
        self, call: Callable[..., Any], within: tuple[str, ...], before: str = "", behind: str = ""
    ) -> Callable[..., Any]:
        """Steps within the call, or one before it, or one behind it: as the point says."""

        def called(*arguments: Any) -> Any:
            if self.point == before:
                self.step()
            self.armed = self.point in within
            result = call(*arguments)
            self.armed = False
            if self.point == behind:
                self.step()
            return result

        return called

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            if self.armed:
                self.step()
            result = call(*arguments, **named)
            if self.armed:
                self.step()
            return result

        return counting

    def step(self) -> None:
        with open(os.environ[COUNTER], "ab") as counter:
            counter.write(b".")
            counter.flush()
            if counter.tell() == int(os.environ[STEP]):
                kill_all()


def failing(marker: Path, root: str) -> Any:
    """One task fails once, when another one has staged its rows."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                continue
            wait_for(lambda: len(list(Path(root).glob("*/.staging/*"))) >= 3, 120)
            begun_s = time.monotonic()
            wait_for(lambda begun_s=begun_s: time.monotonic() > begun_s + 2)  # the other tasks go on meanwhile
            raise RuntimeError("this task fails once")

    return pass_on


def main(root: str, directory: Path) -> None:
    from tests.spark import sessions

    os.environ[DRIVER] = str(os.getpid())
    session = sessions.start(directory / "spark")
    session.dataSource.register(KilledSource)
    data = session.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
    stream = data.json(str(directory / "in")).repartition(4)
    if os.environ.get(POINT) == "during-abort":
        stream = stream.mapInArrow(failing(directory / "failed", root), stream.schema)
    writer = stream.writeStream.format("logstore").option("path", root).option("topic", "t")
    query = writer.option("checkpointLocation", str(directory / "cp")).trigger(availableNow=True).start()
    query.awaitTermination()
    session.stop()


if os.environ.get(STEP):
    Steps(os.environ[POINT]).plant()

if __name__ == "__main__":
    # Not `__main__`: the class of the source has to be one that others can import.
    from tests.spark import killed_spark

    killed_spark.main(sys.argv[1], Path(sys.argv[2]))
