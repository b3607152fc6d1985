"""Resume position of a group: a stored offset outlives the record that it refers to.

A consumer may read records that are only in the page cache, and sync its offset. A power cut then removes the
records and not the offset; others are written in their place, which the group would skip. The
leader epoch tells them apart: it rises at every unclean open. So an offset is stored with the epoch of the
last record read, and a consumer resumes where that epoch has ended (Kafka's KIP-320). Where Kafka's
metadata sets the epochs they do not rise; `docs/kafka.md` names the remaining risk.
"""

from __future__ import annotations

import logging
from typing import Protocol

from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)


class EpochSource(Protocol):
    """A partition, as far as a resume position needs it: a log, or one that a broker answers for."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def log_start_offset(self) -> int: ...
    def _end_of_epoch(self, epoch: int) -> int | None:
        """Return the offset at which the records of a leader epoch end; None for an unknown epoch."""


def not_behind_its_epoch(log: EpochSource, offset: int, epoch: int) -> int:
    """Return the stored offset, or the end of its epoch if lower: later records have replaced those read."""
    return offset if epoch < 0 else resume_offset(log, offset, epoch, log._end_of_epoch(epoch))


def resume_offset(log: EpochSource, offset: int, epoch: int, end: int | None) -> int:
    """Return as `not_behind_its_epoch` for an epoch whose end is known; None: the epoch is not."""
    if end is None or end >= offset:
        return offset
    _logger.warning(
        "records that were read are gone, and others come in their place: "
        "partition=%s offset=%d epoch=%d new_offset=%d",
        log.name,
        offset,
        epoch,
        end,
    )
    return max(end, log.log_start_offset)
