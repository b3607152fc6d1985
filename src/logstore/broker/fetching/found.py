"""What a look at one partition has found: its part of an answer. A value; no bytes of the protocol."""

from __future__ import annotations

from typing import NamedTuple

from logstore.io._file_region import FileRegion
from logstore.records import AbortedTransaction


class FoundPartition(NamedTuple):
    """The answer for one partition."""

    code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    region: FileRegion | None = None
    diverging: tuple[int, int] | None = None  #: epoch and end of the log's part that agrees with the client's
    leader: tuple[int, int] | None = None  #: node and epoch, for a client that has asked another one (KIP-951)
