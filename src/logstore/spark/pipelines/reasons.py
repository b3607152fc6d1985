"""Reason of a Spark failure in one line, extracted from its errors, plans and stack traces.

The original error is the innermost one: below the query that ended, below the task, below a call between Python and
Java. It comes first here; Spark's context, such as the file that it was reading, follows in brackets.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from logstore import errors
from logstore.errors import LogstoreError, SparkQueryError

#: A Python error in a traceback: its class, and its message up to the end of the line.
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
#: An error of ours anywhere in a text: Java's messages have it in the middle of a line.
_NAMED = re.compile(r"\b(?:[a-z_]+\.)*([A-Z]\w+Error): (.+)")

#: Prefixes of a message: Spark's condition of a query that has ended, a call from Python, a Java class.
_BEFORE = (
    re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: "),
    re.compile(r"^An error occurred while calling \S+\s*:\s*"),
    re.compile(r"^(?:[a-z_$][\w$]*\.)+[A-Z][\w$]*: "),
)
#: Beginnings of the text after a message.
_BEHIND = re.compile(r"\n\s*at |\n=+ |\nCaused by: |\n'|\n\+- |\n\s*File \"")
_STATE = re.compile(r"\s*;?\s*SQLSTATE: \w{5}(?:; line \d+ pos \d+)?;?")

_LONGEST = 600


def reason_of(error: BaseException | str) -> str:
    """Return the message that matters in a Spark error: one of ours, else Python's or Java's innermost.

    >>> reason_of("[STREAM_FAILED] Query [id = 1] ... logstore.errors.DataLossError: t-0 was deleted\\n  at ...")
    't-0 was deleted'
    """
    texts = [str(error), *_causes_of(error)]
    for text in texts:
        for name, what in _NAMED.findall(text):
            if isinstance(getattr(errors, name, None), type):
                return str(what).strip()
    for text in texts:
        # Such as in the function of a foreachBatch; Java's message about it may follow.
        if "Traceback (most recent call last)" in text and (raised := _RAISED.findall(text)):
            name, what = raised[-1]
            if not name.startswith("Py4J"):
                return _plain(what)
    found = [plain for plain in map(_plain, texts) if plain]
    if not found:
        return "Spark has failed without saying why"
    first, innermost = found[0], found[-1]
    if innermost in first:
        return first
    return innermost if first in innermost else f"{innermost} ({first})"


def is_of_spark(error: BaseException) -> bool:
    """Return whether PySpark, or the gateway to Java, raised the error. Needs PySpark."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JError)


@contextlib.contextmanager
def short_reasons() -> Iterator[None]:
    """Show the user the reason of a failed query in one line, instead of Spark's plans and stack traces.

    Raises:
        SparkQueryError: Spark has raised an error, which is the cause.
    """
    try:
        yield
    except LogstoreError:
        raise  # first: `is_of_spark` would fail where PySpark is missing
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise SparkQueryError(reason_of(error)) from error


def _causes_of(error: BaseException | str) -> Iterator[str]:
    """Yield the messages of an error's Java causes, the innermost last."""
    from py4j.protocol import Py4JError

    java: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        while java is not None and (java := java.getCause()) is not None:
            if message := java.getMessage():
                yield str(message)
    except (Py4JError, ConnectionError):
        return  # Java has exited


def _plain(text: str) -> str:
    """Reduce a text to its message in one line, without prefix and trace."""
    text = text.strip()
    for _ in range(4):
        for pattern in _BEFORE:
            text = pattern.sub("", text)
    text = _BEHIND.split(text, maxsplit=1)[0]
    return " ".join(_STATE.sub("", text).split())[:_LONGEST]
