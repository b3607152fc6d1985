"""Resume position of a group: a stored offset outlives the record that it refers to.

A consumer may read records that are only in the page cache, and sync its offset. A power cut then removes the
records and not the offset; others are written in their place, which the group would skip. The
leader epoch tells them apart: it rises at every unclean open. So an offset is stored with the epoch of the
last record read, and a consumer resumes where that epoch has ended (Kafka's KIP-320). Where Kafka's
metadata sets the epochs they do not rise; `docs/kafka.md` names the remaining risk.
"""

from __future__ import annotations

import logging

from logstore.log.read.reader import Readable

_logger = logging.getLogger(__name__)

UNKNOWN_EPOCH = -1


def epoch_before(log: Readable, offset: int) -> int:
    """Return the leader epoch of the record before an offset, or -1 if it has none."""
    epoch = log.replica.epochs.epoch_at(offset - 1) if offset > 0 else None
    return UNKNOWN_EPOCH if epoch is None else epoch


def not_behind_its_epoch(log: Readable, offset: int, epoch: int) -> int:
    """Return the stored offset, or the end of its epoch if lower: later records have replaced those read."""
    if epoch < 0:
        return offset
    known, end = log.replica.epochs.end_offset_for(epoch, log.log_end_offset)
    if known < 0 or end >= offset:
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
