"""Stop of a pipeline by a signal: Ctrl-C, or the SIGTERM of a service manager.

Python answers a signal with an exception wherever the main thread is. Here that is inside a call to Spark's
gateway, which would be interrupted, and print pages of stack traces. Instead a signal makes a second thread stop
the queries, so that the pipeline ends by itself. Only this module handles signals; for the main thread of a process
that runs one pipeline. A second signal has its previous effect.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

#: Seconds that a query may take to finish its micro-batch; the next run repeats an interrupted one.
GRACE_S: Final = 5.0
_LOOK_S: Final = 0.05


@contextlib.contextmanager
def stoppable(spark: SparkSession, *, continuous: bool) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the pipeline that runs inside ``with``.

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
        if not asked.is_set() or (continuous and not _is_gone(error)):
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


def _is_gone(error: Exception) -> bool:
    """Return whether the error says that Spark's gateway has lost its Java process."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)


def end(spark: SparkSession) -> None:
    """Stop a session, even if its Java process has already exited."""
    try:
        spark.stop()
    except Exception as error:
        if not _is_gone(error):
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


__all__ = ["GRACE_S", "SIGNALS", "end", "stoppable"]
