"""One partition's log on one disk."""

from logstore.log.log import Log, ProducerStamp
from logstore.log.policies import Owner, SoloOwner
from logstore.log.read.live_reader import LogReader

__all__ = ["Log", "LogReader", "Owner", "ProducerStamp", "SoloOwner"]
