"""How a pipeline ends that is asked to: by Ctrl-C, or by the SIGTERM of whoever runs it as a service.

Python answers a signal with an exception wherever the main thread is, which here is in the middle of a call to
Spark's gateway: it is torn in two, and pages of stack traces follow. Here a signal has a second thread stop the
queries, so that the pipeline itself comes to its end. This module alone touches signals; for the main thread of a
process that runs one pipeline. A second signal does what it did before.
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

#: So long a query may go on until it is between two micro-batches; what is cut off is done again by the next run.
GRACE_S: Final = 5.0
_LOOK_S: Final = 0.05


@contextlib.contextmanager
def stoppable(spark: SparkSession, *, continuous: bool) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end what runs inside ``with``.

    What is ``continuous`` has no other end: its queries are stopped, and it goes on to its report. Anything else is
    cut off, and its jobs with it.

    Raises:
        KeyboardInterrupt: it was not continuous, and has been cut off.
    """
    asked, ended = threading.Event(), threading.Event()
    words = (spark, asked, ended, continuous)
    # Started now: a signal may come where the main thread has the locks that starting one takes.
    stopping = threading.Thread(target=_stop, args=words, name="logstore-stop", daemon=True)
    stopping.start()

    def ask(_number: int, _frame: FrameType | None) -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        # Of a gateway that goes away now, which nobody has to hear of.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        asked.set()

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield
    except Exception as error:
        # That its jobs were cancelled, most likely; or that Spark got the signal too, and is gone.
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
    """Whether it says that nobody is there any more behind Spark's gateway."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)


def end(spark: SparkSession) -> None:
    """Stop a session, also one whose Java has gone before."""
    try:
        spark.stop()
    except Exception as error:
        if not _is_gone(error):
            raise


def _stop(spark: SparkSession, asked: threading.Event, ended: threading.Event, continuous: bool) -> None:
    """Once asked: stop every query that runs, and that is begun yet, until the pipeline has ended."""
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
            # A query that does not end in spark.sql.streaming.stopTimeout, or Spark is gone.
            _logger.warning("a pipeline is slow to stop: error=%s", error)
        ended.wait(_LOOK_S)


__all__ = ["GRACE_S", "SIGNALS", "end", "stoppable"]
