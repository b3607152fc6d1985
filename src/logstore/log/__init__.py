"""One partition's log on one disk."""

from logstore.log.log import Log, ProducerStamp
from logstore.log.policies import HighWatermarkPolicy, StandalonePolicy
from logstore.log.read.live_reader import LogReader

__all__ = ["HighWatermarkPolicy", "Log", "LogReader", "ProducerStamp", "StandalonePolicy"]
