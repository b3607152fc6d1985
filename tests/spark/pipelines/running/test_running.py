"""How queries of a pipeline are counted, end together, and say why they failed."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import logstore
from logstore.errors import CheckpointMismatchError, InvalidSettingError, SparkQueryError
from logstore.spark.pipelines import files, latest
from logstore.spark.pipelines.reasons import reason_of, short_reasons
from logstore.spark.pipelines.running import session
from logstore.spark.pipelines.running.queries import QueryCounts, finish
from logstore.spark.pipelines.running.session import SIGNALS, stoppable
from tests.kit.waiting import wait_for
from tests.spark import sessions
from tests.spark.pipelines import killing
from tests.spark.pipelines.topic_contents import records_of


class Row(dict[str, Any]):
    def asDict(self) -> dict[str, Any]:
        return self


def progress(batch: int, rows: int, **observed: Any) -> Any:
    metrics = {"m": Row(observed)} if observed else {}
    return SimpleNamespace(batchId=batch, numInputRows=rows, observedMetrics=metrics, stateOperators=[])


class Query:
    """Gives what it is told, one list of progress for each look; the last one stays."""

    def __init__(self, *looks: list[Any], error: Exception | None = None) -> None:
        self.looks, self.error = list(looks), error
        self.isActive = True

    @property
    def recentProgress(self) -> list[Any]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def awaitTermination(self, _timeout: float) -> bool:
        if self.error is not None:
            raise self.error
        self.isActive = len(self.looks) > 1
        return not self.isActive

    def stop(self) -> None:
        self.isActive = False


def test_a_micro_batch_counts_once_though_it_is_seen_often_and_is_forgotten_by_spark() -> None:
    first, second = progress(0, 10, late=2), progress(1, 5, late=None)
    idle, closing = progress(2, 0), progress(2, 0, late=1)
    (counts,) = finish(Query([first], [first, second, idle], [second, idle, closing], [closing, progress(3, 0)]))  # type: ignore[arg-type]
    assert (counts.total(), counts.total("late"), counts.total("other")) == (15, 3, 0)


def test_a_batch_without_data_does_not_wipe_out_the_one_of_its_number() -> None:
    counts = QueryCounts(Query([progress(0, 7), progress(0, 0)]))  # type: ignore[arg-type]
    counts.look()
    counts.look()
    assert counts.total() == 7


def test_when_one_query_fails_the_others_are_stopped() -> None:
    going, failing = Query([], []), Query([], error=RuntimeError("no"))
    with pytest.raises(RuntimeError, match="no"):
        finish(going, failing)  # type: ignore[arg-type]
    assert not going.isActive


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[X] at y\n  Caused by: logstore.errors.DataLossError: t-0: gone\n  at z", "t-0: gone"),
        ("[X] java.lang.RuntimeError: no\nUnknownTopicError: there is no topic t\n", "there is no topic t"),
        (
            "[COLUMN] There is no column `x`. SQLSTATE: 42703; line 1 pos 0;\n'Project\n+- y",
            "[COLUMN] There is no column `x`.",
        ),
        ("ValueError: not ours\n\tat x", "ValueError: not ours"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [CAST] '1x' is no INT.\n"
            "== SQL ==\nx\n=== Streaming Query ===\n",
            "[CAST] '1x' is no INT.",
        ),
        ("An error occurred while calling o1.load.\n: java.io.IOException: no route\n\tat x", "no route"),
        (
            "[FOREACH] raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
            '  File "a.py", line 1, in f\n'
            "pyspark.errors.AnalysisException: [AMBIGUOUS] `x` is ambiguous.\n\n\tat y",
            "[AMBIGUOUS] `x` is ambiguous.",
        ),
        ("", "Spark has failed without saying why"),
    ],
)
def test_what_matters_of_a_message_of_spark(text: str, reason: str) -> None:
    assert reason_of(text) == reason


def message_of(run: Any, spark: Any, parameters: Any) -> str:
    with pytest.raises(SparkQueryError) as raised, short_reasons():
        run(spark, parameters)
    assert raised.value.__cause__ is not None
    return str(raised.value)


def in_files(tmp_path: Path, **more: Any) -> files.FilesParameters:
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "a.csv").write_text("a,b\n1,2\n")
    places = {"path": tmp_path / "store", "checkpoint": tmp_path / "checkpoint", "source": tmp_path / "in"}
    return files.FilesParameters(**{"topic": "t", **{name: str(path) for name, path in places.items()}, **more})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": "c"}, "key: .*`c`.* cannot be resolved.*`a`, `b`"),
        ({"value": "a +"}, "value: .*Syntax error"),
        ({"timestamp": "nope(a)"}, "timestamp: .*`nope`"),
        ({"columns": ("a", "c")}, "columns: .*`c`"),
        ({"schema": "a NOTYPE"}, 'schema: .*"NOTYPE"'),
        ({"schema": "a INT, a INT"}, "schema: it has a twice"),
        ({"source": "/no/such/place", "schema": "a INT"}, "source: .*/no/such/place"),
    ],
)
def test_the_parameter_that_is_wrong_is_named(
    engine: Any, tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidSettingError, match=said) as raised:
        files.run(engine, in_files(tmp_path, **wrong))
    assert "\n" not in str(raised.value)


def test_the_reason_comes_first_with_the_file_or_place(engine: Any, tmp_path: Path) -> None:
    """Where Spark has a function in Python, a file and a call from Python in its way."""
    assert message_of(files.run, engine, in_files(tmp_path, value="1 / (a - 1)")).startswith("[DIVIDE_BY_ZERO]")

    (tmp_path / "parquet").mkdir()
    (tmp_path / "parquet" / "a.parquet").write_text("not at all" * 10)
    broken = in_files(tmp_path, format="parquet", source=str(tmp_path / "parquet"), checkpoint=str(tmp_path / "c"))
    for each in (broken, dataclasses.replace(broken, schema="a INT")):
        assert re.match(r"file:\S+/a\.parquet is not a Parquet file", message_of(files.run, engine, each))

    (tmp_path / "file").touch()
    on_file = in_files(tmp_path, checkpoint=str(tmp_path / "file" / "c"))
    assert message_of(files.run, engine, on_file) == f"Parent path is not a directory: file:{tmp_path}/file"


@pytest.mark.timeout(600)
def test_a_topic_made_again_ends_a_pipeline_with_one_line_and_leaves_its_table(engine: Any, tmp_path: Path) -> None:
    places = {"path": tmp_path / "store", "checkpoint": tmp_path / "checkpoint", "table": tmp_path / "table"}
    told = latest.LatestParameters(topic="t", partitions=1, **{name: str(path) for name, path in places.items()})
    for topic_id in range(2):
        with logstore.open(told.path, environ={}) as store:
            if topic_id:
                store.delete_topic("t")
            store.create_topic("t", 1).append(b"v", key=b"k")
        if not topic_id:
            latest.run(engine, told)
    before = latest.table_path(told.table)
    with pytest.raises(CheckpointMismatchError, match="topic 't' was deleted and created again"):
        latest.run(engine, told)
    assert latest.table_path(told.table) == before
    # What the table has of the earlier one would win over what comes.
    going_on = dataclasses.replace(told, fail_on_data_loss=False)
    with pytest.raises(CheckpointMismatchError, match="rebuild it"):
        latest.run(engine, going_on)
    latest.run(engine, dataclasses.replace(told, rebuild=True))
    said = message_of(latest.run, engine, told)
    assert said.startswith("topic 't' was deleted and created again")
    assert "\n" not in said
    assert latest.run(engine, going_on).counts["records"] == 1


class Spark:
    """Queries that stop when they are told to, and what was told; ``busy`` for so many looks."""

    def __init__(self, *queries: Any) -> None:
        self._queries, self.cancelled = queries, 0
        self.streams, self.sparkContext = self, self

    @property
    def active(self) -> list[Any]:
        return [each for each in self._queries if each.isActive]

    def cancelAllJobs(self) -> None:
        self.cancelled += 1


def spark_with(*queries: Any) -> Any:
    """Stands in for a session."""
    return Spark(*queries)


class Busy:
    """A query that is between two micro-batches only at some look."""

    def __init__(self, looks: int) -> None:
        self.isActive, self.looks = True, looks

    @property
    def status(self) -> dict[str, bool]:
        self.looks -= 1
        return {"isTriggerActive": self.looks > 0}

    def stop(self) -> None:
        self.isActive = False


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_what_goes_on_between_two_micro_batches(number: signal.Signals) -> None:
    query, before = Busy(3), signal.getsignal(number)
    spark = spark_with(query)
    with stoppable(spark, continuous=True):
        signal.raise_signal(number)
        wait_for(lambda: not query.isActive)
    assert (query.looks, spark.cancelled) == (0, 0)
    assert signal.getsignal(number) is before


def test_what_is_never_between_two_micro_batches_is_stopped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.2)
    query = Busy(10**9)
    with stoppable(spark_with(query), continuous=True):
        signal.raise_signal(signal.SIGINT)
        wait_for(lambda: not query.isActive)


def test_a_run_that_is_cut_off_ends_with_its_queries_and_with_those_it_begins_yet() -> None:
    first, second = Busy(10**9), Busy(10**9)
    second.isActive = False
    spark = spark_with(first, second)

    def run() -> None:
        with stoppable(spark, continuous=False):
            signal.raise_signal(signal.SIGTERM)
            wait_for(lambda: not first.isActive)
            second.isActive = True
            wait_for(lambda: not second.isActive)
            raise RuntimeError("its jobs were cancelled")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert spark.cancelled


def fail(what: str, *, continuous: bool, asked: bool) -> None:
    with stoppable(spark_with(), continuous=continuous):
        if asked:
            signal.raise_signal(signal.SIGTERM)
        raise RuntimeError(what)


def test_an_error_of_its_own_is_told_and_signals_are_as_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(RuntimeError, match="own"):
        fail("own", continuous=False, asked=False)
    with pytest.raises(RuntimeError, match="late"):
        fail("late", continuous=True, asked=True)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_second_signal_does_what_it_did_before() -> None:
    def run() -> None:
        with stoppable(spark_with(Busy(10**9)), continuous=True):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        run()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_command_ends_at_once_and_without_stack_traces_and_the_next_goes_on(tmp_path: Path) -> None:
    """Cut off by Ctrl-C within a run; then, going on, told to end by SIGTERM."""
    lines = 20
    (tmp_path / "in").mkdir()
    for number in range(lines):
        (tmp_path / "in" / f"{number}.csv").write_text(f"a\n{number}\n")
    places = {"path": tmp_path / "store", "checkpoint": tmp_path / "checkpoint", "source": tmp_path / "in"}
    run = killing.Run(tmp_path, "files", topic="t", partitions=1, files_per_trigger=1, **places)

    def are_in(count: int) -> bool:
        return (tmp_path / "checkpoint/files/commits").exists() and len(
            records_of(tmp_path / "store", "t")
        ) >= count

    with run.going_on() as going:
        going.wait_for(lambda: are_in(2))
        assert going.end(signal.SIGINT) == (130, "")
    with run.going_on("--continuous", "--interval-s", "0") as going:
        going.wait_for(lambda: are_in(lines))
        status, report = going.end(signal.SIGTERM)
    assert status == 0, run.said
    assert json.loads(report)["pipeline"] == "files"
    # Cut off, and stopped: there is nothing to say, and Spark's own log is not the user's.
    assert run.said.strip() == ""
    found = [json.loads(record.value) for record in records_of(tmp_path / "store", "t")]
    assert sorted(int(each["a"]) for each in found) == list(range(lines))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_fails_says_so_in_one_line_and_where_sparks_log_is(tmp_path: Path) -> None:
    told = in_files(tmp_path)
    places = {"path": told.path, "checkpoint": told.checkpoint, "source": told.source}
    run = killing.Run(tmp_path, "files", topic="t", partitions=1, value="1 / (a - 1)", **places)
    with run.going_on() as going:
        assert going.wait() == (1, "")
    said = re.fullmatch(r"error: \[DIVIDE_BY_ZERO\].* \[Spark's log: (\S+)\]\n", run.said)
    assert said, run.said
    log = Path(said[1])
    assert "DIVIDE_BY_ZERO" in log.read_text()
    log.unlink()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_spark_that_does_not_start_says_why(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "logstore.cli", "pipeline", "run", "files", "--master", "lokal"]
    words += ["--source", "in", "--topic", "t", "--dir", str(tmp_path / "d"), "--checkpoint", str(tmp_path / "c")]
    words += ["--spark-log", str(tmp_path / "log")]
    done = subprocess.run(words, capture_output=True, text=True, env=sessions.environment(), check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"error: Spark did not start: .*Master must .*\[Spark's log: \S+/log\]\n", done.stderr), (
        done.stderr
    )


def test_a_connection_that_spark_has_ended_prints_no_stack_trace(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark ends while it sends an accumulator to PySpark: it looked like a failure of the pipeline."""
    server = session.session().sparkContext._accumulatorServer
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        server.handle_error(None, ("127.0.0.1", 1))
    assert capfd.readouterr() == ("", "")
