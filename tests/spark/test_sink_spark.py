"""The sink under a real Spark: jobs and streams, tasks tried again, commits that fail, batches that come again."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import logstore
from tests.spark import sessions, sinks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Starting a Spark of its own takes a while on a busy machine.
pytestmark = [pytest.mark.row("D5"), pytest.mark.timeout(1_000)]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    from logstore.spark.source import LogstoreDataSource

    spark.dataSource.register(LogstoreDataSource)
    return spark


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with the topics ``t`` and ``u``, 3 and 1 partitions."""
    with logstore.open(tmp_path / "store", environ={}) as store:
        store.create_topic("t", partitions=3)
        store.create_topic("u", partitions=1)
    return tmp_path / "store"


def frame(session: SparkSession, rows: int, partitions: int = 2) -> DataFrame:
    return session.range(0, rows, 1, partitions).selectExpr(
        "cast(id % 50 as string) as key", "concat('v', cast(id as string)) as value"
    )


def save(data: DataFrame, root: Path, topic: str | None = "t", **options: Any) -> None:
    writer = data.write.format("logstore").option("path", str(root)).mode("append")
    for name, value in {**({} if topic is None else {"topic": topic}), **options}.items():
        writer = writer.option(name, value)
    writer.save()


def expected(*numbers: range) -> list[bytes]:
    return sorted(b"v%d" % number for some in numbers for number in some)


def test_a_job_is_written_and_visible_as_a_whole(session: SparkSession, root: Path) -> None:
    save(frame(session, 25_000), root)
    assert sinks.values_in(root, "t") == expected(range(25_000))
    with logstore.open(root, read_only=True, environ={}) as store:
        for record in itertools.islice(store.topic("t").scan(), 200):
            assert record.partition == logstore.partition_of(record.key, 3)
    assert sinks.staged_in(root) == []


def test_a_job_that_says_which_micro_batch_it_writes_is_taken_in_once(session: SparkSession, root: Path) -> None:
    """As in foreachBatch, where Spark does a micro-batch again after a kill, with other rows perhaps."""
    for batch, rows in ((3, 10), (3, 12), (4, 20)):
        save(frame(session, rows), root, query="mine", batch=batch)
    assert sinks.values_in(root, "t") == expected(range(10), range(20))
    save(frame(session, 5), root, query="another", batch=3)
    with pytest.raises(
        Exception, match=r"OldBatchError: .*query 'mine' commits batch 2, but its batch 4 is committed"
    ):
        save(frame(session, 10), root, query="mine", batch=2)
    assert sinks.values_in(root, "t") == expected(range(10), range(20), range(5))


def test_columns_say_where_and_when(session: SparkSession, root: Path) -> None:
    data = session.sql(
        "select array(named_struct('key', 'h', 'value', cast('1' as binary))) as headers, 'u' as topic, "
        "0 as partition, timestamp_millis(1700000000123) as timestamp, cast(null as binary) as key, "
        "cast('x' as binary) as value"
    )
    save(data, root, topic=None)
    with logstore.open(root, read_only=True, environ={}) as store:
        (record,) = store.topic("u").scan(isolation="read_committed")
    assert (record.key, record.value, record.timestamp_ms) == (None, b"x", 1_700_000_000_123)
    assert list(record.headers) == [("h", b"1")]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["value", "key as kye"], {}, "kye: unknown; the nearest name is key"),
        (["cast(key as int) as value"], {}, "value: has the type int, expected binary or string; cast it"),
        (
            ["value"],
            {"topic": "nope"},
            "topic 'nope' does not exist (there are: t, u); create it with logstore",
        ),
        (["value"], {"topick": "t"}, "topick: unknown; the nearest name is topic"),
        (
            ["value", "cast(9 as int) as partition"],
            {},
            "topic 't': partitions are 0 to 2, none with number 9",
        ),
    ],
)
def test_what_is_refused_is_one_message(
    session: SparkSession, root: Path, columns: list[str], options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=r"logstore\.errors") as caught:
        save(frame(session, 10).selectExpr(*columns), root, **options)
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert sinks.values_in(root, "t") == []
    assert sinks.staged_in(root) == []


# --- streams


def failing_once(marker: Path) -> Any:
    """The task that meets row 7 fails once, when it has passed it on."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if "v7" in batch.column("value").to_pylist() and not marker.exists():
                marker.touch()
                raise RuntimeError("this task fails once")

    return pass_on


def start(data: DataFrame, root: Path, checkpoint: Path, **options: Any) -> Any:
    writer = data.writeStream.format("logstore").option("path", str(root)).option("topic", "t")
    for name, value in options.items():
        writer = writer.option(name, value)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def stream(session: SparkSession, inputs: Path) -> DataFrame:
    return session.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).json(str(inputs))


def put(session: SparkSession, inputs: Path, first: int, last: int) -> None:
    """A file of input, which is one micro-batch; whole or not there."""
    staged = inputs.parent / f"{first}.json"
    lines = "".join(f'{{"key": "{n % 50}", "value": "v{n}"}}\n' for n in range(first, last))
    staged.write_text(lines)
    inputs.mkdir(exist_ok=True)
    os.utime(staged, (first, first))
    staged.rename(inputs / staged.name)


@pytest.mark.row("U3")
def test_a_stream_goes_on_where_it_was(session: SparkSession, root: Path, tmp_path: Path) -> None:
    for first in (0, 100, 200):
        put(session, tmp_path / "in", first, first + 100)
    start(stream(session, tmp_path / "in"), root, tmp_path / "cp").awaitTermination(900)
    put(session, tmp_path / "in", 300, 400)
    query = start(stream(session, tmp_path / "in"), root, tmp_path / "cp")
    query.awaitTermination(900)
    assert [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]] == [3]
    assert sinks.values_in(root, "t") == expected(range(400))
    assert sinks.staged_in(root) == []


@pytest.mark.row("U3")
def test_a_batch_that_failed_to_commit_comes_again_with_its_number(
    session: SparkSession, root: Path, tmp_path: Path
) -> None:
    put(session, tmp_path / "in", 0, 100)
    # Another process, this one, has the store open and answers no request.
    with logstore.open(root, {"logstore.housekeeping": "manual"}, environ={}):
        query = start(stream(session, tmp_path / "in"), root, tmp_path / "cp", commitTimeout="300ms")
        with pytest.raises(Exception, match=f"pid {os.getpid()}") as caught:
            query.awaitTermination(900)
    said = str(caught.value)
    assert "logstore.errors.OwnerTimeoutError: the store" in said
    assert "write through a broker (option bootstrap)" in said
    assert "Traceback" not in said
    assert sinks.values_in(root, "t") == []
    assert sinks.staged_in(root) == []
    start(stream(session, tmp_path / "in"), root, tmp_path / "cp").awaitTermination(900)
    assert sinks.values_in(root, "t") == expected(range(100))
    assert not list((tmp_path / "cp" / "commits").glob("1"))


@pytest.mark.row("U3")
def test_a_batch_that_was_in_before_spark_knew_is_not_there_twice(
    session: SparkSession, root: Path, tmp_path: Path
) -> None:
    for first in (0, 100):
        put(session, tmp_path / "in", first, first + 100)
    start(stream(session, tmp_path / "in"), root, tmp_path / "cp").awaitTermination(900)
    # As if Spark had been killed between our commit and its own.
    commits = tmp_path / "cp" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink(missing_ok=True)
    start(stream(session, tmp_path / "in"), root, tmp_path / "cp").awaitTermination(900)
    assert (commits / "1").exists()
    assert sinks.values_in(root, "t") == expected(range(200))
    assert sinks.staged_in(root) == []


def test_output_mode_complete_appends_every_result(session: SparkSession, root: Path, tmp_path: Path) -> None:
    for first in (0, 100):
        put(session, tmp_path / "in", first, first + 100)
    counted = (
        stream(session, tmp_path / "in").groupBy("key").count().selectExpr("key", "cast(count as string) value")
    )
    writer = counted.writeStream.format("logstore").option("path", str(root)).option("topic", "t")
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).outputMode("complete")
    query.trigger(availableNow=True).start().awaitTermination(900)
    assert Counter(sinks.values_in(root, "t")) == {b"2": 50, b"4": 50}


# --- tasks that are tried again: in a Spark of its own, since `local[2]` tries a task once. A second attempt of a
# task that is slow is begun on another machine only, so `test_sink` plays that.

_RETRYING = """
import sys
from pathlib import Path
from tests.spark import sessions, test_sink_spark as here
from logstore.spark.source import LogstoreDataSource

root, directory = Path(sys.argv[1]), Path(sys.argv[2])
session = sessions.start(directory / "spark", "local[2,3]")
session.dataSource.register(LogstoreDataSource)
data = here.frame(session, 20_000, 4)
here.save(data.mapInArrow(here.failing_once(directory / "job.failed"), data.schema), root)
here.put(session, directory / "in", 0, 5_000)
data = here.stream(session, directory / "in").repartition(4)
data = data.mapInArrow(here.failing_once(directory / "stream.failed"), data.schema)
here.start(data, root, directory / "cp").awaitTermination(900)
session.stop()
"""


@pytest.mark.row("U3")
def test_tasks_that_are_tried_again_leave_nothing_twice(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RETRYING, str(root), str(tmp_path)],
        env=sessions.environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert {path.name for path in tmp_path.glob("*.failed")} == {"job.failed", "stream.failed"}
    assert sinks.values_in(root, "t") == expected(range(20_000), range(5_000))
    assert sinks.staged_in(root) == []
