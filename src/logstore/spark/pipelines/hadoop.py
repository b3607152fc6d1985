"""Small files through Spark's Hadoop layer, on any of its file systems, read and written by the driver.

For lists and markers of a few kilobytes, where a Spark job would take longer than all the rest. Needs a classic
session, not Spark Connect. Any thread.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def exists(spark: SparkSession, path: str) -> bool:
    """Return whether a file or directory exists."""
    files, found = _at(spark, path)
    return bool(files.exists(found))


def qualified(spark: SparkSession, path: str) -> str:
    """Return the absolute path with its scheme, the same for every process."""
    files, found = _at(spark, path)
    return str(files.makeQualified(found))


def names(spark: SparkSession, directory: str) -> list[str]:
    """Return the sorted names in a directory, without those that begin with a dot; none if it does not exist."""
    files, found = _at(spark, directory)
    if not files.exists(found):
        return []
    listed = (str(each.getPath().getName()) for each in files.listStatus(found))
    return sorted(name for name in listed if not name.startswith("."))


def read_text(spark: SparkSession, path: str) -> str:
    """Read a whole file, in UTF-8."""
    files, found = _at(spark, path)
    with contextlib.closing(files.open(found)) as stream:
        return str(spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))


def first_line(spark: SparkSession, path: str) -> str | None:
    """Return a file's first line that is not blank, None without one; decompressed if its name says so."""
    files, found = _at(spark, path)
    jvm = spark._jvm
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(files.getConf()).getCodec(found)
    with contextlib.closing(files.open(found)) as opened:
        stream = opened if codec is None else codec.createInputStream(opened)
        lines = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8"))
        while (line := lines.readLine()) is not None:
            if (text := str(line).removeprefix("\ufeff")).strip():
                return text
        return None


def without_patterns(path: str) -> str:
    """Escape the characters of a path that Spark's readers take for patterns."""
    return re.sub(r"([][{}*?\\^,])", r"\\\1", path)


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Create a new file; it gets its name when it is complete, so that no reader sees a part of it.

    Raises:
        FileExistsError: a file of that name exists. It was not changed.
    """
    files, found = _at(spark, path)
    half = found.suffix(".half")
    hidden = spark._jvm.org.apache.hadoop.fs.Path(half.getParent(), "." + half.getName())
    with contextlib.closing(files.create(hidden, True)) as stream:
        stream.write(bytearray(text.encode()))
        stream.hsync()
    if files.exists(found) or not files.rename(hidden, found):
        files.delete(hidden, False)
        raise FileExistsError(path)


def delete(spark: SparkSession, path: str) -> None:
    """Delete a file, if it exists."""
    files, found = _at(spark, path)
    files.delete(found, False)


def _at(spark: SparkSession, path: str) -> tuple[Any, Any]:
    found = spark._jvm.org.apache.hadoop.fs.Path(path)
    return found.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), found
