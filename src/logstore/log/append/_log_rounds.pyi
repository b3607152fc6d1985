from typing import final

from logstore.log._partition_log import PartitionLog
from logstore.log.append._group_commit import GroupCommit, Rounds
from logstore.log.append.flush import Flusher

@final
class LogRounds(Rounds):
    """Rounds of a log: those that sync the active segment alone; `Flusher.sync_round` runs the others."""

    def __init__(self, log: PartitionLog, flusher: Flusher) -> None: ...
    def is_done(self, offset: int) -> bool:
        """Return whether everything below an offset is on disk; raise if the log has failed or was closed."""
    def sync(self, commit: GroupCommit) -> None:
        """Make durable what is written now, raise the synced end, wake the waiters, write the recovery point."""
