"""One partition's log on one disk."""

from logstore.log.log import Log
from logstore.log.policies import HighWatermarkPolicy, StandalonePolicy
from logstore.log.read.live_reader import LogReader
from logstore.records import ProducerStamp

__all__ = ["HighWatermarkPolicy", "Log", "LogReader", "ProducerStamp", "StandalonePolicy"]
