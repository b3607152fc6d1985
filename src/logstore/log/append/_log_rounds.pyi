from collections.abc import Callable
from typing import Protocol, final

from logstore._segment import Segment
from logstore.errors import LogstoreError, StorageError
from logstore.log._partition_log import PartitionLog
from logstore.log.append._group_commit import GroupCommit, Rounds

INDEX_ENTRIES: int

class _Flusher(Protocol):
    """The rounds that have more to sync, and the steps of each that are rare."""

    @property
    def settle_locked(self) -> Callable[[], None]: ...
    def has_one_file_locked(self) -> bool: ...
    def sync_failed(self, segment: Segment, error: LogstoreError) -> None: ...
    def end_locked(self, active: Segment, target: int, position: int) -> None: ...
    def point_failed_locked(self, error: StorageError) -> None: ...
    def sync_round(self) -> None: ...

@final
class LogRounds(Rounds):
    """Rounds of a log: those that sync the active segment alone; `Flusher.sync_round` runs the others."""

    def __init__(self, log: PartitionLog, flusher: _Flusher) -> None: ...
    def is_done(self, offset: int) -> bool:
        """Return whether everything below an offset is on disk; raise if the log has failed or was closed."""
    def sync(self, commit: GroupCommit) -> None:
        """Make durable what is written now, raise the synced end, wake the waiters, write the recovery point."""
