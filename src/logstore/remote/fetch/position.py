"""Where the reader of one partition stands: which broker it fetches from, and what each part of an answer means.

A `FetchPosition` keeps these rules:

- After a leader of a newer epoch, the offset is checked with it (OffsetForLeaderEpoch, KIP-320) before anything is
  fetched: the new leader's log may have been cut below the offset.
- A replica that the leader names (KIP-392) is used for ``metadata.max.age.ms``, until an error, or until the leader
  changes. Its errors are never told to the caller: the leader decides.
- An answer to a request from before a seek is dropped.

No socket, no clock of its own; one thread calls it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Container
from enum import Enum
from typing import Any, NamedTuple

from logstore.protocol import codes
from logstore.records import TopicPartition
from logstore.remote.answers import records_of

#: Protocol guide, "Record Batch": base offset, length, leader epoch of the partition.
_BATCH_HEAD = struct.Struct(">qii")
_BEFORE_LENGTH = 12


class Outcome(Enum):
    """What a part of an answer means for its reader."""

    RECORDS = "whole batches, and the position behind them"
    NOTHING = "the end is reached, or the broker has read nothing"
    DROPPED = "the reader has moved since the request was sent"
    NEARER = "another replica is to be asked"
    RETRY = "metadata is out of date, or the broker cannot answer now"
    OUT_OF_RANGE = "the leader does not hold the offset"
    DIVERGED = "the leader's log was cut below the offset"
    TOO_LARGE = "a batch did not fit the size asked for"
    REFUSED = "an error that no repetition changes"


class FetchedPart(NamedTuple):
    """The meaning of one part of an answer.

    ``aborted`` are the ranges of aborted records that a committed reader skips. ``offset`` is where batches end,
    where a log was cut, or -1 if that is not known; ``epoch`` the leader epoch of the record before it.
    """

    outcome: Outcome
    data: bytes = b""
    offset: int = -1
    aborted: tuple[tuple[int, int, int], ...] = ()
    epoch: int = -1
    code: int = 0
    batch_bytes: int = 0


class AskedPlace(NamedTuple):
    """What a leader was asked about: an answer counts only while all of it holds."""

    generation: int
    leader_epoch: int
    offset: int
    offset_epoch: int


class FetchPosition:
    """The next offset to fetch of one partition, and the broker to fetch it from.

    ``offset_epoch`` is the leader epoch of the record before ``offset``, -1 if it is not known.
    """

    def __init__(self, partition: TopicPartition, offset: int, offset_epoch: int = -1) -> None:
        self.partition = partition
        self.is_paused = False
        self.generation = 0  #: rises with each seek; a request carries it back to `took`
        self.leader_epoch = -1
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self._leader = -1
        self._near = -1
        self._near_until_s = -math.inf
        self._is_stopped = False
        self.seek(offset, offset_epoch)

    def seek(self, offset: int, offset_epoch: int = -1) -> None:
        """Continue at another offset."""
        self.generation += 1
        self.offset = offset
        self.offset_epoch = offset_epoch
        self._is_stopped = False
        self._must_check = offset_epoch >= 0

    def led(self, leader: int, leader_epoch: int) -> None:
        """Take note of the leader, -1 if there is none. A leader of a lower epoch is not taken."""
        if 0 <= leader_epoch < self.leader_epoch or (leader, leader_epoch) == (self._leader, self.leader_epoch):
            return
        self._near = -1
        if leader_epoch > self.leader_epoch and self.offset_epoch >= 0:
            self._must_check = True
        self._leader, self.leader_epoch = leader, leader_epoch

    # -- the check after a change of leaders -------------------------------------------------------

    def epoch_to_check(self) -> int | None:
        """Return the epoch whose end the leader must tell before anything is fetched; None if none."""
        return self.offset_epoch if self._must_check and self._leader >= 0 and not self._is_stopped else None

    def asked(self) -> AskedPlace:
        """Return what a leader is asked about with `epoch_to_check`."""
        return AskedPlace(self.generation, self.leader_epoch, self.offset, self.offset_epoch)

    def checked(self, epoch: int, end_offset: int, asked: AskedPlace) -> FetchedPart:
        """Take the end of an epoch that the leader told.

        ``epoch`` and ``end_offset`` are -1 if the leader knows no such epoch. A position that has moved since is
        checked again: a near replica's answer may have come between.
        """
        if asked != self.asked():
            return FetchedPart(Outcome.DROPPED)
        if epoch < 0 or end_offset < 0 or epoch < self.offset_epoch or end_offset < self.offset:
            return self._diverged(end_offset, epoch)
        self._must_check = False
        return FetchedPart(Outcome.NOTHING)

    def skip_check(self) -> None:
        """Fetch without the check: the broker does not know OffsetForLeaderEpoch."""
        self._must_check = False

    # -- fetching ----------------------------------------------------------------------------------

    def node(self, now_s: float, brokers: Container[int]) -> int | None:
        """Return the broker to fetch from, or None if nothing is to be fetched now."""
        if self.is_paused or self._is_stopped or self._must_check or self._leader not in brokers:
            return None
        if self._near >= 0 and (now_s >= self._near_until_s or self._near not in brokers):
            self._near = -1
        return self._leader if self._near < 0 else self._near

    def took(
        self, part: Any, *, node: int, generation: int, now_s: float, near_s: float, is_committed: bool = False
    ) -> FetchedPart:
        """Read one part of the answer of ``node`` to a request of ``generation``, and move behind its batches.

        ``near_s`` is for how long a nearer replica is used. The CRCs are left to the reader of the batches.
        """
        if generation != self.generation:
            return FetchedPart(Outcome.DROPPED)
        is_near = node != self._leader
        code = part.error_code
        if code == codes.OFFSET_OUT_OF_RANGE and not is_near:
            self._is_stopped = True
            return FetchedPart(Outcome.OUT_OF_RANGE, code=code, offset=part.log_start_offset)
        if code:
            is_retried = is_near or codes.is_retriable(code)
            self._near = -1
            self._is_stopped = not is_retried
            return FetchedPart(Outcome.RETRY if is_retried else Outcome.REFUSED, code=code)
        if part.diverging_epoch.epoch >= 0:
            if is_near:
                self._near = -1
                return FetchedPart(Outcome.RETRY)
            return self._diverged(part.diverging_epoch.end_offset, part.diverging_epoch.epoch)
        if not is_near and part.preferred_read_replica not in (-1, node):
            self._near, self._near_until_s = part.preferred_read_replica, now_s + near_s
            return FetchedPart(Outcome.NEARER)
        self.high_watermark = part.high_watermark
        self.last_stable_offset = part.last_stable_offset
        self.log_start_offset = part.log_start_offset
        data, next_offset, batch_bytes, aborted = records_of(part, is_committed=is_committed)
        if not data:
            return FetchedPart(Outcome.TOO_LARGE if batch_bytes else Outcome.NOTHING, batch_bytes=batch_bytes)
        if next_offset > self.offset:
            self.offset, self.offset_epoch = next_offset, _last_epoch(data)
        return FetchedPart(Outcome.RECORDS, data, self.offset, aborted, self.offset_epoch)

    def _diverged(self, end_offset: int, epoch: int) -> FetchedPart:
        self._is_stopped = True  # until the caller decides where to continue
        return FetchedPart(Outcome.DIVERGED, offset=end_offset, epoch=epoch)


def _last_epoch(data: bytes) -> int:
    """Return the leader epoch of the last of some whole batches."""
    position, epoch = 0, -1
    while position < len(data):
        _, length, epoch = _BATCH_HEAD.unpack_from(data, position)
        position += _BEFORE_LENGTH + length
    return epoch
