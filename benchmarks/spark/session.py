"""The Spark of the benchmark: two threads on this machine, and Kafka's connector where there is a broker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from logstore.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    # As docs/howto/spark-read.md says; it changes nothing for what is read in Java.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # Spark's default, snappy, fails where the package musl is installed: its Java library takes that for the libc.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


@contextmanager
def session(work: Path, more: Mapping[str, str] | None = None, jars: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """A session that keeps its files below ``work``; ended behind the block."""
    from pyspark.sql import SparkSession

    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    jvm.prepare()
    settings = {
        **SETTINGS,
        "spark.local.dir": str(work / "local"),
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        **({"spark.jars": ",".join(map(str, jars))} if jars else {}),
        **(more or {}),
    }
    builder = SparkSession.builder.master("local[2]").appName("logstore-benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # that a query was stopped amid a batch is an error to Spark
    try:
        yield spark
    finally:
        spark.stop()
