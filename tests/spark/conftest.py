"""One Spark session for all tests that need one; the others do without."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed; make test brings it")


@pytest.fixture(scope="session")
def spark() -> Iterator[pyspark.sql.SparkSession]:
    from pyspark.sql import SparkSession

    import logstore.spark

    source = str(Path(logstore.__file__).parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("logstore")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    logstore.spark.register(session)
    yield session
    session.stop()
