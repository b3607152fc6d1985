"""Spark session of a process that runs one pipeline, such as the command line: its start, and its stop by a signal.

Only this module decides its settings and handles signals (Ctrl-C, the SIGTERM of a service manager). Callers with
their own session pass that one to ``run`` instead. Main thread only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Final

from logstore.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)

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

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

#: Seconds that a query may take to finish its micro-batch; the next run repeats an interrupted one.
GRACE_S: Final = 5.0
_LOOK_S: Final = 0.05


@contextlib.contextmanager
def stderr_to(log: str) -> Iterator[None]:
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
    # PySpark's server for accumulators prints a stack trace if Spark ends while it sends to it.
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = _log_lost_connection
    register(spark)
    return spark


def _log_lost_connection(_request: object, address: object) -> None:
    _logger.debug("Spark's connection for accumulators has ended: address=%s", address, exc_info=True)


# --- stop by a signal --------------------------------------------------------------------------


@contextlib.contextmanager
def stoppable(spark: SparkSession, *, continuous: bool) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the pipeline that runs inside ``with``; a second signal has its previous effect.

    Python answers a signal with an exception wherever the main thread is. That is inside a call to Spark's gateway,
    which would be interrupted, and print pages of stack traces. Instead a signal makes a second thread stop the
    queries, so that the pipeline ends by itself.

    A ``continuous`` pipeline has no other end: its queries are stopped, and it continues to its report. Any other
    pipeline is interrupted, and its jobs are cancelled.

    Raises:
        KeyboardInterrupt: the pipeline was not continuous, and has been interrupted.
    """
    asked, ended = threading.Event(), threading.Event()
    words = (spark, asked, ended, continuous)
    # Starting it in the handler could deadlock: the main thread may hold the locks that starting a thread takes.
    stopping = threading.Thread(target=_stop, args=words, name="logstore-stop", daemon=True)
    stopping.start()

    def ask(_number: int, _frame: FrameType | None) -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        # The gateway may close now: py4j would log errors about it to the user.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        asked.set()

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield
    except Exception as error:
        # Most likely its jobs were cancelled, or Spark received the signal too, and has exited.
        if not asked.is_set() or (continuous and not _has_exited(error)):
            raise
        continuous = False
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        was_asked = asked.is_set()
        ended.set()
        asked.set()
        stopping.join(GRACE_S)
    if was_asked and not continuous:
        raise KeyboardInterrupt


def _has_exited(error: Exception) -> bool:
    """Return whether the error says that Spark's gateway has lost its Java process."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)


def end(spark: SparkSession) -> None:
    """Stop a session, even if its Java process has already exited."""
    try:
        spark.stop()
    except Exception as error:
        if not _has_exited(error):
            raise


def _stop(spark: SparkSession, asked: threading.Event, ended: threading.Event, continuous: bool) -> None:
    """Wait for a signal, then stop every query, including those started later, until the pipeline has ended."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    asked.wait()
    until = time.monotonic() + (GRACE_S if continuous else 0)
    while not ended.is_set():
        try:
            for query in spark.streams.active:
                if not query.status["isTriggerActive"] or time.monotonic() >= until:
                    query.stop()
            if not continuous:
                spark.sparkContext.cancelAllJobs()
        except (PySparkException, Py4JError, ConnectionError) as error:
            # A query has not ended within spark.sql.streaming.stopTimeout, or Spark has exited.
            _logger.warning("a pipeline is slow to stop: error=%s", error)
        ended.wait(_LOOK_S)
