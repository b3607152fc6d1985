"""The process that `test_sink_kills` has killed: it runs a query against the sink and kills itself on the way.

Run as ``python -m tests.spark.killed_sink``. Each line of JSON on standard input is one run: a fork of this
process, so that nothing is imported twice, which goes on where the checkpoint says and may end at any of its steps.
A line on standard output says how it ended.

A run plays Spark: two tasks write each batch, one of them twice (its first attempt is lost), the driver
commits their messages, then writes down that the batch is done, which is what Spark's own commit log does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import logstore
from logstore.log import Log, LogReplica
from logstore.log.append import ingest_file
from logstore.log.directory.files import Directory
from logstore.spark.writing import rows
from logstore.store.commit import ingest
from logstore.store.commit.commit_log import DONE, Sinks, SinkState
from logstore.store.commit.staged_writer import StagedFileWriter
from logstore.store.requests import asking, channel
from tests.spark import sinks

#: Point -> what counts as a step there; the rest of it is in `DriverRun`.
STEPS: dict[str, tuple[tuple[Any, str], ...]] = {
    "mid-write": ((StagedFileWriter, "create"), (StagedFileWriter, "write"), (StagedFileWriter, "close")),
    "after-write": (),
    "mid-commit": (
        (LogReplica, "ingest_file"),
        (LogReplica, "append_run"),
        (LogReplica, "append_control"),
        (Log, "flush"),
        (Sinks, "put"),
    ),
    "after-marker": (),
    "during-abort": ((Directory, "remove"),),
    "during-sweep": ((Directory, "remove"),),
    # With another process that has the store open for writing.
    "mid-request": (*((channel, name) for name in ("connect", "send", "receive")), (asking, "message_of")),
}


class DriverRun:
    """One run of the driver and its tasks."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self.point = orders["point"]
        self.left = orders["steps"]  #: until it ends; 0: never
        self.seen = 0
        self.armed = False
        self.last_batch = orders["last_batch"]
        self.checkpoint = Path(orders["checkpoint"])
        options = {"topic": "t", "committimeout": "20"}
        self.query = sinks.Query(orders["root"], query=orders["query"], **options)
        rows.FLUSH_BYTES = 200  # several writes for each file
        if self.left % 2:
            # In every other run a file becomes a segment, as a large one does.
            ingest_file.LEAST_BYTES = ingest_file.LEAST_BATCH_BYTES = 1  # type: ignore[misc]  # constants
        for owner, name in STEPS[self.point]:
            setattr(owner, name, self.counted(getattr(owner, name)))
        if orders.get("bug") == "forgets":
            known = Sinks.get

            def forgotten(self: Sinks, query: str) -> SinkState | None:
                """A batch that is done is done again."""
                state = known(self, query)
                return state and (state._replace(batch=-1, done=-1) if state.phase == DONE else state)

            Sinks.get = forgotten  # type: ignore[method-assign]  # planted
        elif orders.get("bug") == "no-sweep":
            ingest.sweep = lambda *_, **__: 0  # type: ignore[assignment]  # planted
        elif orders.get("bug") == "no-abort":
            ingest.Ingest._try_to_settle = lambda *_: None  # type: ignore[method-assign]  # planted
            ingest.Ingest._settle = lambda *_: None  # type: ignore[method-assign]  # planted

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            self.step()
            result = call(*arguments, **named)
            self.step()
            return result

        return counting

    def step(self) -> None:
        if not self.armed:
            return
        self.seen += 1
        if self.seen == self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self) -> None:
        """Go on behind the checkpoint, to the last batch."""
        done = int(self.checkpoint.read_text()) if self.checkpoint.exists() else -1
        for batch in range(done + 1, self.last_batch + 1):
            self.run_batch(batch)
            # Whole or not at all, as Spark's log of commits is.
            fresh = self.checkpoint.with_suffix(".new")
            fresh.write_text(str(batch))
            fresh.replace(self.checkpoint)

    def run_batch(self, batch: int) -> None:
        query, point = self.query, self.point
        if point == "during-abort":
            self.armed = True
            query.abort([query.write(batch, 0), None], batch)
            self.armed = False
        self.armed = point == "mid-write"
        query.write(batch, 0, attempt=0)
        messages = [query.write(batch, 0, attempt=1), query.write(batch, 1)]
        self.armed = point in ("after-write", "mid-commit", "mid-request", "during-sweep")
        if point == "after-write":
            self.step()
        query.commit(messages, batch)
        self.armed = point == "after-marker"
        if self.armed:
            self.step()
        self.armed = False


def warm_up() -> None:
    """Write one batch, so that what is imported on the way is there in every fork."""
    with tempfile.TemporaryDirectory() as directory:
        with logstore.open(directory, environ={}) as store:
            store.create_topic("t", partitions=3)
        sinks.Query(directory, topic="t").run(0)


def main() -> None:
    warm_up()
    for line in sys.stdin:
        orders = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                driver_run = DriverRun(orders)
                driver_run.run()
                Path(orders["checkpoint"]).with_suffix(".seen").write_text(str(driver_run.seen))
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
