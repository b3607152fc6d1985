"""Spark session of a pipeline that is run from the command line.

Only this module decides its settings. Callers with their own session pass that one to ``run`` instead.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from logstore.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Default settings of Spark for a pipeline. Unix sockets pass rows from Python to the JVM at less cost than TCP.
#: zstd: Spark's default codec needs a library that does not load on every machine, and compresses less.
SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@contextlib.contextmanager
def speaking_into(log: str) -> Iterator[None]:
    """Append the standard error of processes started inside ``with``, and so Spark's log, to a file.

    What this process writes to standard error meanwhile is written to that file too.
    """
    sys.stderr.flush()
    before = os.dup(2)
    try:
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(file, 2)
        os.close(file)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def session(
    name: str = "logstore",
    *,
    master: str | None = None,
    shuffle_partitions: int = 0,
    rocksdb: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session with ``format("logstore")`` registered; the existing one, if there is one.

    ``master`` is where it runs, such as ``local[2]`` or ``spark://host:7077``; by default what Spark is
    configured for, else this machine. ``shuffle_partitions`` is the number of tasks after a shuffle, for
    a stream also of its state, fixed when its checkpoint begins; 0 leaves Spark's default. ``rocksdb`` keeps
    the state of streams on the executors' disks instead of their memory. ``settings`` override all of these.

    Raises:
        SparkNotReadyError: Java, PySpark or the workers' Python is missing or unsuitable.
    """
    jvm.prepare()
    from pyspark.sql import SparkSession

    from logstore.spark import register

    builder = SparkSession.builder.appName(name)
    found = dict(SETTINGS)
    if shuffle_partitions:
        found["spark.sql.shuffle.partitions"] = str(shuffle_partitions)
    if rocksdb:
        found["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            found["spark.driver.bindAddress"] = "127.0.0.1"
    for key, value in {**found, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
