"""Log of one partition on one disk: `Log`, and the types that a program with an embedded log uses with it."""

from logstore.batch._batch import Batches, BatchView
from logstore.log.formats.last_stop import LastStop, Stop
from logstore.log.log import Log
from logstore.log.maintenance import LogMaintenance
from logstore.log.marks.policies import FixedPolicy, HighWatermarkPolicy, Moves, StandalonePolicy
from logstore.log.read.live_reader import LogReader
from logstore.log.recovery.recovered import RecoveredLog
from logstore.log.replica import LogReplica
from logstore.records import AbortedTransaction, Marker, Origin, ProducerStamp

__all__ = [
    "AbortedTransaction",
    "BatchView",
    "Batches",
    "FixedPolicy",
    "HighWatermarkPolicy",
    "LastStop",
    "Log",
    "LogMaintenance",
    "LogReader",
    "LogReplica",
    "Marker",
    "Moves",
    "Origin",
    "ProducerStamp",
    "RecoveredLog",
    "StandalonePolicy",
    "Stop",
]
