from typing import final

from logstore.io._files import Files

@final
class SlowSyncFiles(Files):
    """`Files` whose syncs take `sync_us` microseconds, and sync nothing; each write takes `write_us` longer."""

    def __new__(cls, *, descriptor_limit: int | None = None) -> SlowSyncFiles: ...
    sync_us: int
    write_us: int
