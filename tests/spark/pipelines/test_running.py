"""How queries of a pipeline are counted, end together, and say why they failed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import logstore
from logstore.errors import SparkQueryError
from logstore.spark.pipelines import files, latest
from logstore.spark.pipelines.running import Counts, finish, plainly, reason_of


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
    counts = Counts(Query([progress(0, 7), progress(0, 0)]))  # type: ignore[arg-type]
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
        ("[COLUMN] There is no column `x`.\n'Project\n+- y", "[COLUMN] There is no column `x`."),
        ("ValueError: not ours\nmore", "ValueError: not ours"),
        ("", "Spark has failed without saying why"),
    ],
)
def test_what_matters_of_a_message_of_spark(text: str, reason: str) -> None:
    assert reason_of(text) == reason


def message_of(run: Any, spark: Any, parameters: Any) -> str:
    with pytest.raises(SparkQueryError) as raised, plainly():
        run(spark, parameters)
    assert raised.value.__cause__ is not None
    return str(raised.value)


def test_a_column_that_is_not_there_is_named(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a,b\n1,2\n")
    places = {"path": tmp_path / "store", "checkpoint": tmp_path / "checkpoint", "source": tmp_path / "in"}
    told = files.FilesParameters(topic="t", key="c", **{name: str(path) for name, path in places.items()})
    said = message_of(files.run, engine, told)
    assert "`c`" in said
    assert "\n" not in said


@pytest.mark.timeout(300)
def test_a_topic_made_anew_ends_a_pipeline_with_one_line_and_leaves_its_table(engine: Any, tmp_path: Path) -> None:
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
    said = message_of(latest.run, engine, told)
    assert said.startswith("topic 't' was deleted and made again")
    assert "\n" not in said
    assert latest.table_path(told.table) == before
    assert latest.run(engine, dataclasses.replace(told, fail_on_data_loss=False)).counts["records"] == 1
