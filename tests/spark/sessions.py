"""How the tests start a Spark: one for all in `conftest`, and those of tests that need a process of their own.

Nothing of it depends on what is on PATH: Java is found as `logstore.spark.jvm` finds it, and the workers run this
interpreter, with the package and the tests on their path.
"""

from __future__ import annotations

import os
import sys
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
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Spark's default, snappy, fails where the package musl is installed: its Java library takes that for the libc.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.streaming.stopTimeout": "60s",
}

_LOG4J = """status=ERROR
appender.c.type=Console
appender.c.name=C
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%p %c{1} %m%n
rootLogger.level=ERROR
rootLogger.appenderRef.c.ref=C
"""


def environment() -> dict[str, str]:
    """This process's, with what Spark's workers need to find: this interpreter, the package, these tests."""
    environ = dict(os.environ)
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    environ.pop("SPARK_HOME", None)  # of another PySpark
    jvm.prepare(environ)
    return environ


def settings(directory: Path) -> dict[str, str]:
    """`SETTINGS`, with all that Spark keeps below a directory, and its log no louder than errors."""
    directory.mkdir(parents=True, exist_ok=True)
    log4j = directory / "log4j2.properties"
    log4j.write_text(_LOG4J)
    return {
        **SETTINGS,
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j} -Dderby.system.home={directory}",
    }


def start(directory: Path, master: str = "local[2]", **more: str) -> SparkSession:
    """A session as the tests have it."""
    from pyspark.sql import SparkSession

    os.environ.update(environment())
    os.environ.pop("SPARK_HOME", None)
    builder = SparkSession.builder.master(master).appName("logstore-tests")
    for key, value in {**settings(directory), **more}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
