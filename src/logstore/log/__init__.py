"""One partition's log on one disk."""

from logstore.log.log import Log, ProducerStamp
from logstore.log.owner import Owner, SoloOwner
from logstore.log.readonly import LogReader

__all__ = ["Log", "LogReader", "Owner", "ProducerStamp", "SoloOwner"]
