from typing import Protocol, final

from logstore.log._partition_log import PartitionLog
from logstore.records import AppendResult

class _Writer(Protocol):
    """What an append leaves to do, such as asking for the next segment."""

    def follow_up(self) -> None: ...

@final
class BatchOffers:
    """What one caller offers to an open log. One thread at a time uses it; others may append meanwhile."""

    log: PartitionLog
    def __init__(self, log: PartitionLog, writer: _Writer) -> None: ...
    def offer(self, batches: list[bytes]) -> list[AppendResult]:
        """Append the first of whole batches of clients, as far as that waits for nothing; return their results."""
