"""What Spark pickles to its workers: it arrives whole, and a worker without this package says what it lacks."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

import logstore
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.partition import PartitionRanges, RangeReader
from logstore.spark.source import (
    BatchReader,
    LogstoreDataSource,
    PushdownDataSource,
    PushdownReader,
    StreamReader,
)
from logstore.spark.writing.sink import stream_writer, writer

pytestmark = pytest.mark.row("D5")

SCHEMA = StructType([StructField("value", BinaryType())])

#: A Python that has no logstore, wherever the tests' own has it.
WORKER = """
import pickle, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "logstore":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Missing())
pickle.loads(sys.stdin.buffer.read())
"""


@pytest.fixture
def travellers(tmp_path: Path) -> list[Any]:
    with logstore.open(tmp_path, environ={}) as store:
        store.create_topic("t")
    read = ReadOptions.of({"path": str(tmp_path), "subscribe": "t", "startingOffsets": "earliest"})
    write = {"path": str(tmp_path), "topic": "t"}
    return [
        BatchReader(read.for_batch()),
        PushdownReader(read.for_batch()),
        StreamReader(read),
        PartitionRanges([]),
        LogstoreDataSource({"path": str(tmp_path)}),
        PushdownDataSource({"path": str(tmp_path)}),
        writer(write, SCHEMA, False),
        stream_writer(write, SCHEMA, False),
        RangeReader(read),
    ]


@pytest.mark.parametrize("how", [pickle, cloudpickle])
def test_everything_arrives_as_it_left(travellers: list[Any], how: Any) -> None:
    for one in travellers:
        arrived = how.loads(how.dumps(one))
        assert type(arrived) is type(one)
        if hasattr(one, "options"):
            assert arrived.options == one.options


def test_somebodys_own_subclass_arrives_too() -> None:
    class Own(LogstoreDataSource):
        pass

    arrived = cloudpickle.loads(cloudpickle.dumps(Own({"path": "/here"})))
    assert arrived.options == {"path": "/here"}


def test_a_worker_without_the_package_says_so_in_one_sentence(travellers: list[Any]) -> None:
    for one in travellers:

        def task(one: Any = one) -> Any:
            return one

        ended = subprocess.run(
            [sys.executable, "-c", WORKER], input=cloudpickle.dumps(task), capture_output=True, check=False
        )
        last = ended.stderr.decode().strip().splitlines()[-1]
        assert ended.returncode == 1
        assert last.startswith("RuntimeError: the package logstore cannot be imported by Python 3."), last
        assert "No module named 'logstore" in last
        assert "Install the same wheel on every machine" in last
