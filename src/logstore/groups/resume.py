"""Where a group may go on: an offset that was stored outlives the record that it speaks of.

A consumer may read, and have its offset synced, what is only in the page cache. A power cut then takes the
records and not the offset, and others are written in their place, which the group would pass over. The
leader epoch tells them apart: it rises at every unclean open. So an offset is stored with the epoch of the
last record that was read, and a consumer resumes where that epoch has ended (Kafka's KIP-320). Where Kafka's
metadata name the epochs it does not rise; `docs/kafka.md` says what that leaves.
"""

from __future__ import annotations

import logging

from logstore.log.read.reader import Readable

_logger = logging.getLogger(__name__)

UNKNOWN_EPOCH = -1


def epoch_before(log: Readable, offset: int) -> int:
    """The leader epoch of the record before an offset, or -1 if it has none."""
    epoch = log.epochs.epoch_at(offset - 1) if offset > 0 else None
    return UNKNOWN_EPOCH if epoch is None else epoch


def not_behind_its_epoch(log: Readable, offset: int, epoch: int) -> int:
    """The stored offset, or the end of its epoch where that lies below: from there on the records are others."""
    if epoch < 0:
        return offset
    known, end = log.epochs.end_offset_for(epoch, log.log_end_offset)
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


__all__ = ["UNKNOWN_EPOCH", "epoch_before", "not_behind_its_epoch"]
