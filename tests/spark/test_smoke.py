"""The least that has to hold on each PySpark; the other tests run on one of them."""

from __future__ import annotations


def test_a_session_runs_python_in_its_workers(spark) -> None:
    assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
