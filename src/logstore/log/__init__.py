"""One partition's log on one disk."""

from logstore.log.log import Log, ProducerStamp
from logstore.log.maintenance import LogMaintenance
from logstore.log.read.live_reader import LogReader
from logstore.log.replica import LogReplica
from logstore.log.watermark import HighWatermarkPolicy, StandalonePolicy

__all__ = [
    "HighWatermarkPolicy",
    "Log",
    "LogMaintenance",
    "LogReader",
    "LogReplica",
    "ProducerStamp",
    "StandalonePolicy",
]
