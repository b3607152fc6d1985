"""Kafka's log as a Python library: durable, ordered, replayable records in plain files.

>>> import logstore
>>> with logstore.Log.open(tmp / "flights-0") as log:
...     log.append([b"AA 1141"], ack="synced").first_offset
0
"""

from logstore._batch import Batches, BatchView, Record
from logstore.config import LogConfig
from logstore.errors import LogstoreError
from logstore.log import Log, LogReader, ProducerStamp
from logstore.records import (
    AbortedTransaction,
    Ack,
    AppendResult,
    Codec,
    Isolation,
    Marker,
    Origin,
    TimestampOffset,
    TimestampType,
    TopicPartition,
)

__all__ = [
    "AbortedTransaction",
    "Ack",
    "AppendResult",
    "BatchView",
    "Batches",
    "Codec",
    "Isolation",
    "Log",
    "LogConfig",
    "LogReader",
    "LogstoreError",
    "Marker",
    "Origin",
    "ProducerStamp",
    "Record",
    "TimestampOffset",
    "TimestampType",
    "TopicPartition",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        # Asked for seldom, and dear to find out: importlib.metadata doubles the cost of the import.
        from importlib.metadata import version

        return version("logstore")
    raise AttributeError(f"module 'logstore' has no attribute {name!r}")
