"""Log of one partition on one disk: `Log`, and the types that a program with an embedded log uses with it."""

from logstore.batch._batch import Batches, BatchView
from logstore.io._file_region import FileRegion
from logstore.log.formats.last_stop import LastStop, Stop
from logstore.log.formats.leader_epochs import EpochEntry, Epochs
from logstore.log.log import Log
from logstore.log.maintenance import LogMaintenance
from logstore.log.marks.policies import FOLLOWS, FixedPolicy, HighWatermarkPolicy, Moves, StandalonePolicy
from logstore.log.marks.view import FetchedRegion
from logstore.log.read.live_reader import LogReader
from logstore.log.recovery.recovered import RecoveredLog
from logstore.log.replica import LogReplica
from logstore.records import AbortedTransaction, Marker, Origin, ProducerStamp

__all__ = [
    "FOLLOWS",
    "AbortedTransaction",
    "BatchView",
    "Batches",
    "EpochEntry",
    "Epochs",
    "FetchedRegion",
    "FileRegion",
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
