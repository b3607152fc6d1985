"""One partition's log on one disk, and what programs that embed it need beside `Log`."""

from logstore.batch._batch import Batches, BatchView
from logstore.log.log import Log, ProducerStamp
from logstore.log.policies import HighWatermarkPolicy, StandalonePolicy
from logstore.log.read.live_reader import LogReader
from logstore.records import AbortedTransaction, Marker, Origin

__all__ = [
    "AbortedTransaction",
    "BatchView",
    "Batches",
    "HighWatermarkPolicy",
    "Log",
    "LogReader",
    "Marker",
    "Origin",
    "ProducerStamp",
    "StandalonePolicy",
]
