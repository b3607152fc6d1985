from collections.abc import Callable
from typing import Protocol, final

from logstore.broker._loop import QuickRequests
from logstore.broker.served import MOST_ITEMS as MOST_ITEMS
from logstore.io._files import Files
from logstore.log._partition_log import PartitionLog
from logstore.records import AbortedTransaction

class _Counts(Protocol):
    """What is counted of one topic."""

    fetches: int
    bytes_out: int

@final
class FetchRoute:
    """The way to a partition's records: its open log, and the counts of its topic."""

    def __init__(
        self,
        log: PartitionLog,
        aborted_between: Callable[[int, int], list[AbortedTransaction]],
        counts: _Counts,
        is_replicated: bool = ...,
    ) -> None: ...

@final
class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes."""

    answered: int
    def __init__(
        self,
        route_to: Callable[[bytes, int, bool], FetchRoute | None],
        table: Callable[[], object],
        files: Files,
        most_open: int,
        most_bytes: int,
    ) -> None: ...
