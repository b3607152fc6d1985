"""Ready-made Arrow files as a Spark source: what any source in Python can reach, as nothing is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


class ReadyArrow(DataSource):
    """``format("ready-arrow")``; option ``path``: a folder of Arrow files, one for each task."""

    @classmethod
    def name(cls) -> str:
        return "ready-arrow"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_open(_files(self.options["path"])[0]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["path"])


class _Reader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(path) for path in _files(self._folder)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file = _open(partition.value)
        for number in range(file.num_record_batches):
            yield file.get_batch(number)


def _files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.arrow")))


def _open(path: str) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(pa.memory_map(path))
