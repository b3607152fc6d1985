"""Small files through Spark's Hadoop layer: on whatever file system a path is, read and written by the driver.

For lists and marks of a few kilobytes, where a Spark job would take longer than all the rest. Needs a classic
session, not Spark Connect. Any thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def exists(spark: SparkSession, path: str) -> bool:
    """Whether there is such a file or directory."""
    files, found = _at(spark, path)
    return bool(files.exists(found))


def qualified(spark: SparkSession, path: str) -> str:
    """The path with its scheme and from its root, as it is the same for everybody."""
    files, found = _at(spark, path)
    return str(files.makeQualified(found))


def names(spark: SparkSession, directory: str) -> list[str]:
    """The names in a directory, in order, without those that begin with a dot; none if there is no directory."""
    files, found = _at(spark, directory)
    if not files.exists(found):
        return []
    listed = (str(each.getPath().getName()) for each in files.listStatus(found))
    return sorted(name for name in listed if not name.startswith("."))


def read_text(spark: SparkSession, path: str) -> str:
    """The whole of a file, in UTF-8."""
    files, found = _at(spark, path)
    stream = files.open(found)
    try:
        return str(spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def first_line(spark: SparkSession, path: str) -> str | None:
    """The first line of a file that is not blank, unpacked if its name says so; None if there is none."""
    files, found = _at(spark, path)
    jvm = spark._jvm
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(files.getConf()).getCodec(found)
    opened = files.open(found)
    try:
        stream = opened if codec is None else codec.createInputStream(opened)
        lines = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8"))
        while (line := lines.readLine()) is not None:
            if (text := str(line).removeprefix("\ufeff")).strip():
                return text
        return None
    finally:
        opened.close()


def without_patterns(path: str) -> str:
    """A path in which no character stands for others, as Spark's readers take them."""
    return re.sub(r"([][{}*?\\^,])", r"\\\1", path)


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Make a file that is not there yet; it has its name when all is in it, so that nobody reads a half.

    Raises:
        FileExistsError: there is one of that name. It was not changed.
    """
    files, found = _at(spark, path)
    half = found.suffix(".half")
    hidden = spark._jvm.org.apache.hadoop.fs.Path(half.getParent(), "." + half.getName())
    stream = files.create(hidden, True)
    try:
        stream.write(bytearray(text.encode()))
        stream.hsync()
    finally:
        stream.close()
    if files.exists(found) or not files.rename(hidden, found):
        files.delete(hidden, False)
        raise FileExistsError(path)


def delete(spark: SparkSession, path: str) -> None:
    """Remove a file, if it is there."""
    files, found = _at(spark, path)
    files.delete(found, False)


def _at(spark: SparkSession, path: str) -> tuple[Any, Any]:
    found = spark._jvm.org.apache.hadoop.fs.Path(path)
    return found.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), found
