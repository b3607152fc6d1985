from collections.abc import Callable
from typing import final

from logstore.broker._counts import TopicCounts
from logstore.broker.served import end_of_epoch as end_of_epoch
from logstore.log import Log
from logstore.log._partition_log import PartitionLog

@final
class FetchRoute:
    """The way to a partition's records: its open log, and the counts of its topic."""

    def __init__(self, log: PartitionLog, log_of_records: Log, counts: TopicCounts) -> None: ...

@final
class FetchRoutes:
    """The routes that were found."""

    def __init__(
        self, route_to: Callable[[bytes, int, bool], FetchRoute | None], table: Callable[[], object]
    ) -> None: ...
