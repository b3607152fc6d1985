"""Spark's part of a write, played: who calls the writers, with which batches, and what is in the store then."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.types import StructType

import logstore
from logstore.spark.writing import sink
from logstore.spark.writing.sink import SinkTask, StagedRows

TASKS = 2
ROWS = 30
KEYS = 7


def schema(**columns: str) -> StructType:
    """Columns and what Spark calls their types."""
    kinds = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
    }
    return StructType([types.StructField(name, kinds[kind]) for name, kind in columns.items()])


def writer(options: dict[str, str], columns: StructType, overwrite: bool = False) -> sink.TableWriter:
    made = sink.writer(options, columns, overwrite)
    assert isinstance(made, sink.TableWriter)
    return made


def stream_writer(options: dict[str, str], columns: StructType, overwrite: bool = False) -> sink.StreamWriter:
    made = sink.stream_writer(options, columns, overwrite)
    assert isinstance(made, sink.StreamWriter)
    return made


class _Rows:
    """Rows whose values say where they come from: query, batch, task and number."""

    def __init__(self, name: str, rows: int) -> None:
        self.name = name
        self.row_count = rows

    def value(self, batch: int, task: int, row: int) -> bytes:
        return b"%s %d %d %d" % (self.name.encode(), batch, task, row)

    def rows(self, batch: int, task: int) -> pa.RecordBatch:
        numbers = range(self.row_count)
        return pa.record_batch(
            {
                "key": pa.array(
                    [None if row % KEYS == 0 else b"k%d" % (row % KEYS) for row in numbers], pa.binary()
                ),
                "value": pa.array([self.value(batch, task, row) for row in numbers], pa.binary()),
            }
        )

    def pieces(self, batch: int, task: int) -> list[pa.RecordBatch]:
        """The rows of a task in several Arrow batches."""
        whole = self.rows(batch, task)
        return [whole.slice(start, 10) for start in range(0, whole.num_rows, 10)]

    def expected(self, batches: Iterable[int], tasks: Iterable[int] = range(TASKS)) -> list[bytes]:
        return [
            self.value(batch, task, row) for batch in batches for task in tasks for row in range(self.row_count)
        ]


class _Played:
    """Calls a writer's methods as a task, with what Spark would say of it."""

    def play(self, task: SinkTask, call: Callable[[], Any]) -> StagedRows:
        def task_of(job: str | None, _batch: int = 0) -> SinkTask:
            return task if job is None else task._replace(query=job)

        before, sink.task_of = sink.task_of, task_of
        try:
            message = call()
        finally:
            sink.task_of = before
        # Messages go through pickle on their way to the driver.
        found: StagedRows = pickle.loads(pickle.dumps(message))
        return found


class Query(_Rows, _Played):
    """A streaming query: a new writer for each call, as Spark makes them."""

    def __init__(self, root: Path | str, *, query: str = "q", rows: int = ROWS, **options: str | None) -> None:
        super().__init__(query, rows)
        self.query = query
        self.options = {"path": str(root)} | {name: value for name, value in options.items() if value is not None}
        self.columns = schema(key="binary", value="binary", **({} if options.get("topic") else {"topic": "string"}))

    def writer(self) -> sink.StreamWriter:
        return stream_writer(self.options, self.columns)

    def write_rows(self, rows: Iterable[pa.RecordBatch], batch: int, task: int = 0, attempt: int = 0) -> StagedRows:
        made = pickle.loads(pickle.dumps(self.writer()))
        return self.play(SinkTask(self.query, batch, task, f"{task}-{attempt}"), lambda: made.write(iter(rows)))

    def write(self, batch: int, task: int, attempt: int = 0) -> StagedRows:
        return self.write_rows(self.pieces(batch, task), batch, task, attempt)

    def commit(self, messages: list[Any], batch: int) -> None:
        self.writer().commit(messages, batch)

    def abort(self, messages: list[Any], batch: int) -> None:
        self.writer().abort(messages, batch)

    def run(self, batch: int) -> None:
        self.commit([self.write(batch, task) for task in range(TASKS)], batch)


class Job(_Rows, _Played):
    """A batch job: one writer, pickled to the tasks and to the commit."""

    def __init__(self, root: Path | str, **options: str) -> None:
        super().__init__("job", ROWS)
        self.pickled = pickle.dumps(writer({"path": str(root), **options}, schema(key="binary", value="binary")))

    def write(self, task: int, attempt: int = 0) -> StagedRows:
        made = pickle.loads(self.pickled)
        return self.play(SinkTask("", 0, task, f"{task}-{attempt}"), lambda: made.write(iter(self.pieces(0, task))))

    def commit(self, messages: list[Any]) -> None:
        pickle.loads(self.pickled).commit(messages)

    def abort(self, messages: list[Any]) -> None:
        pickle.loads(self.pickled).abort(messages)

    def expected(self, tasks: Iterable[int]) -> list[bytes]:  # type: ignore[override]
        return super().expected([0], tasks)


def values_in(root: Path | str, topic: str) -> list[bytes]:
    """Every value that a committed reader finds, sorted."""
    with logstore.open(root, read_only=True, environ={}) as store:
        return sorted(record.value for record in store.topic(topic).scan(isolation="read_committed"))


def staged_in(root: Path | str) -> list[str]:
    """Return the files that are still staged, of all processes."""
    return sorted(str(path.relative_to(root)) for path in Path(root).glob("*/.staging/*"))


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_arguments: object, **_named: object) -> Any:
        raise error

    return fail
