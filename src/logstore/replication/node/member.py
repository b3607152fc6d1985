"""One partition on one node: its log, its replica, and the lock that guards the replica.

The registry's thread, the fetching threads, the threads that answer other nodes and those that append share it.
Lock order: a member's lock, then its log's.
"""

from __future__ import annotations

import threading

from logstore.log import Log
from logstore.records import TopicPartition
from logstore.replication.api import PartitionState, Replica
from logstore.replication.fetch_messages import Slot
from logstore.replication.placement import Placement


class Member:
    """A partition that this node has a replica of."""

    def __init__(self, place: TopicPartition, slot: Slot, log: Log, placement: Placement) -> None:
        self.place = place
        self.slot = slot
        self.log = log
        self.placement = placement
        self.lock = threading.Lock()
        # Of the registry's thread:
        self.state: PartitionState | None = None  # as it was last read
        self.must_read = True
        self.has_accepted_stop = False

    @property
    def replica(self) -> Replica:
        return self.placement.replica
