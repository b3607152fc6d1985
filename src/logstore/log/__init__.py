"""One partition's log on one disk."""

from logstore.log.log import Log, ProducerStamp
from logstore.log.read.live_reader import LogReader
from logstore.log.watermark import HighWatermarkPolicy, StandalonePolicy

__all__ = ["HighWatermarkPolicy", "Log", "LogReader", "ProducerStamp", "StandalonePolicy"]
