"""Formats of an export: JSON lines, CSV or Parquet, to standard output or a file.

A file gets its name once it is complete: an export that fails leaves no file, and does not change an earlier one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import click

from logstore.batch._batch import Batches, Record
from logstore.cli import output
from logstore.client.backend.partitions import RangeScan
from logstore.columns._export import ColumnStream
from logstore.columns.tables import library
from logstore.errors import InvalidRecordError
from logstore.records import TopicPartition
from logstore.store.admin.transfer import record_to_json

#: The columns of CSV and Parquet, in the words of JSON lines.
COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]

Write = Callable[[bytes], object]


class Form(ABC):
    """A writer of the records of scans, one scan after the other. `end` is called after the last."""

    @abstractmethod
    def take(self, name: TopicPartition, scan: RangeScan, step: Callable[[int], None]) -> int:
        """Write the records of one partition; return their number. ``step`` gets the number of offsets passed."""

    def end(self) -> None:  # noqa: B027  most have nothing to add
        """Write the end of the output."""


def _stepping(scan: RangeScan, step: Callable[[int], None]) -> Iterator[Batches]:
    at = scan.start_offset
    for chunk in scan.chunks():
        yield chunk
        step(chunk.next_offset - at)
        at = chunk.next_offset


class Lines(Form):
    """A line for each record."""

    def __init__(self, write: Write, line_of: Callable[[Record], str], head: str = "") -> None:
        self._write = write
        self._line_of = line_of
        if head:
            write(f"{head}\n".encode())

    def take(self, name: TopicPartition, scan: RangeScan, step: Callable[[int], None]) -> int:
        count = 0
        for chunk in _stepping(scan, step):
            for record in chunk:
                self._write(self._line_of(record).encode("utf-8", "surrogateescape") + b"\n")
                count += 1
            output.flush()
        return count


class Parquet(Form):
    """One table of all scans: keys and values as binary, times in UTC."""

    def __init__(self, write: Write) -> None:
        self._arrow: Any = library("pyarrow", "export --format parquet")
        self._parquet: Any = library("pyarrow.parquet", "export --format parquet")
        self._sink = self._arrow.PythonFile(_Sink(write), "w")
        self._writer: Any = None

    def take(self, name: TopicPartition, scan: RangeScan, step: Callable[[int], None]) -> int:
        count = 0
        stream = ColumnStream(_stepping(scan, step), COLUMNS, topic=name.topic, partition=name.partition)
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._sink, self._arrow.schema(stream))
        for each in stream:
            self._writer.write_batch(self._arrow.record_batch(each))
            count += len(each)
        return count

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _Sink:
    """The file object that pyarrow writes to."""

    closed = False

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, data: Any) -> int:
        self._write(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


# --- CSV ---------------------------------------------------------------------------------------


def csv_line(as_base64: bool) -> Callable[[Record], str]:
    """Return a function that makes a line of CSV: text in quotes; a null is nothing, an empty text is ``""``."""

    def shown(data: bytes | None, what: str, record: Record) -> str | None:
        try:
            if data is None or not as_base64:
                return None if data is None else data.decode()
            return base64.b64encode(data).decode("ascii")
        except UnicodeDecodeError:
            raise InvalidRecordError(
                f"{record.topic}-{record.partition}: the {what} at offset {record.offset} is no text in UTF-8, as "
                "which CSV holds it; give --base64, or export as jsonl or parquet"
            ) from None

    def line(record: Record) -> str:
        headers = [[name, shown(value, f"header {name!r}", record)] for name, value in record.headers]
        return ",".join(
            [
                record.topic,
                str(record.partition),
                str(record.offset),
                str(record.timestamp_ms),
                _quoted(shown(record.key, "key", record)),
                _quoted(shown(record.value, "value", record)),
                _quoted(json.dumps(headers, ensure_ascii=False)),
            ]
        )

    return line


def _quoted(text: str | None) -> str:
    return "" if text is None else '"' + text.replace('"', '""') + '"'


# --- destinations ------------------------------------------------------------------------------


@contextlib.contextmanager
def written(form: str, out: str, *, as_base64: bool) -> Iterator[Form]:
    """Open a writer of records in a format, to a file, or with ``-`` to standard output.

    Raises:
        MissingLibraryError: the format needs a library that is not installed. Nothing is written.
        click.UsageError: the format is binary, and standard output is a terminal.
    """
    if out == "-":
        if form == "parquet" and sys.stdout.isatty():
            raise click.UsageError("Parquet is no text for a terminal; give --out FILE")
        made = _made(form, output.write, as_base64)
        yield made
        made.end()
        return
    partial = out + ".part"
    try:
        with open(partial, "wb") as file:
            made = _made(form, file.write, as_base64)
            yield made
            made.end()
        os.replace(partial, out)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _made(form: str, write: Write, as_base64: bool) -> Form:
    if form == "parquet":
        return Parquet(write)
    if form == "csv":
        return Lines(write, csv_line(as_base64), ",".join(COLUMNS))
    return Lines(write, record_to_json)
