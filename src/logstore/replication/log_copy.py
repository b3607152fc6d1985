"""One replica's log beside the others' logs: where it parts from a leader's, and how it becomes a copy of it.

Both sets of rules have one. It cuts by leader epochs, never by the high watermark (I9; KIP-101, KIP-279), appends
only what begins at its end, and reports what it has shown and cut. Its caller says in which epoch it leads.

**Tombstones.** Each replica compacts for itself, and a tombstone goes ``delete.retention.ms`` after it has been
compacted. A follower that was away for longer would never get it, and keep, or bring back as a leader, what it
deleted. So a leader says with its records below which offset it lacks tombstones (`LogReplica.dropped_end`), and a
follower whose log ends below that begins again at the leader's log start. It must neither begin again for ever, as
each copy ends below that offset for a while, nor trust a copy that was begun too early:

- A copy begins in an empty log, with the offset below which its leader is clean (`LogReplica.clean_end`), stored
  before its first record: whatever a tombstone below that offset deletes is not in the leader's log any more, so it
  does not come into the copy. The copy goes on while what the leader lacks stays below that offset. It begins again
  only if a tombstone went that the leader had not compacted when the copy began: if it takes longer than
  ``delete.retention.ms``.
- That holds for records of this leader only: another one may be less clean. With another leader epoch, or another
  process, the offset is lowered to the log end, and the copy goes on if nothing is missing above that.
- The number stays: a follower that becomes a leader lacks what its leader lacked, and says so.

**A cut of a compacted log.** A compaction deletes a record because a newer one of its key is there. After an
unclean election the newer one may be cut, and the deleted one be in the leader's log. Compactions end at the high
watermark, here and at the leader that was copied. So a log that compacts, and is cut below its high watermark or
below what it or its leader had cleaned, begins again at the leader's log start.

A replica in sync never begins again for this. Only what is committed is compacted, so it ends above every tombstone
that is missing anywhere. In a quorum, one that begins again was in no majority that what is committed rests on.
"""

from __future__ import annotations

import logging

from logstore.errors import MalformedMessageError, OffsetOutOfRangeError
from logstore.log import FetchedRegion, Log
from logstore.log.replica import LAST_START
from logstore.replication.api import (
    Diverging,
    FetchAnswer,
    FetchFrom,
    FetchRefusal,
    LostRange,
    NodeId,
    PartitionState,
    Standing,
)

_logger = logging.getLogger(__name__)

#: Kafka's default of ``replica.fetch.max.bytes``.
FETCH_BYTES = 1 << 20


class LogCopy:
    """The log of one replica. It is called by one thread at a time."""

    def __init__(self, log: Log, node: NodeId, life: int, fetch_bytes: int = FETCH_BYTES) -> None:
        self.log = log
        self.calls = log.replica
        self.node, self.life = node, life
        self._fetch_bytes = fetch_bytes
        self.lost: list[LostRange] = []
        self._copied_in = -1  # the leader epoch in which a copy was begun, or goes on
        self.leader_mark = 0  #: the high watermark that a leader last named

    def last_epoch(self) -> int:
        """Return the newest leader epoch that the log knows; -1 if it has none."""
        latest = self.calls.epochs.latest
        return -1 if latest is None else latest.epoch

    def standing(self) -> Standing:
        """Return how far the log reaches, by its records."""
        end = self.log.log_end_offset
        epochs = [entry.epoch for entry in self.calls.epochs.entries if entry.start_offset < end]
        return Standing(epochs[-1] if epochs else -1, end)

    def lag(self) -> int:
        """Return how many records this log lacks of those below the leader's high watermark, as last heard."""
        return max(0, self.leader_mark - self.log.log_end_offset)

    def lag_of(self, end: int) -> int:
        """Return how many records of this log a follower lacks whose log ends there; all if ``end`` is -1."""
        return max(0, self.log.log_end_offset - max(end, self.log.log_start_offset))

    # -- as leader

    def divergence(self, wants: FetchFrom) -> Diverging | None:
        """Return the end of the newest epoch that both have, if the follower's log is not the beginning of ours."""
        if wants.last_epoch < 0:
            return None
        epochs, end = self.calls.epochs, self.log.log_end_offset
        latest = epochs.latest
        assert latest is not None  # the epoch in which this replica leads
        if wants.last_epoch > latest.epoch:
            return Diverging(latest.epoch, end)
        found = Diverging(*epochs.end_offset_for(wants.last_epoch, end))
        if found.epoch != wants.last_epoch or found.end_offset < wants.offset:
            return found
        return None

    def answer(self, wants: FetchFrom, epoch: int) -> tuple[FetchAnswer, int]:
        """Return the answer to a follower, and the log end at which it was given.

        The end is -1 if the follower's log is not ours up to its end: how far it has come is unknown then.
        """
        diverging = self.divergence(wants)
        if diverging is not None:
            return FetchAnswer(epoch, self.log.high_watermark, self.log.log_start_offset, diverging=diverging), -1
        end = self.log.log_end_offset
        if wants.offset == end:
            return FetchAnswer(epoch, self.log.high_watermark, self.log.log_start_offset), end
        try:
            found, dropped_end = self._fetch(wants)
        except OffsetOutOfRangeError:
            refusal = FetchRefusal.OUT_OF_RANGE
            return FetchAnswer(epoch, -1, self.log.log_start_offset, refusal=refusal), -1
        answer = FetchAnswer(
            epoch, found.high_watermark, found.log_start_offset, found.region, dropped_end=dropped_end
        )
        return answer, found.log_end_offset

    def _fetch(self, wants: FetchFrom) -> tuple[FetchedRegion, int]:
        """Return records for a follower, and the offset below which tombstones are missing in them.

        A compaction may run meanwhile. What is missing is read after the records, so it is not too low for them.
        What an empty follower's copy begins with is read before them, so it is not too high.
        """
        while True:
            clean_end = self.calls.clean_end
            found = self.calls.fetch_region(wants.offset, max_bytes=wants.max_bytes, to_log_end=True)
            dropped_end = self.calls.dropped_end
            if wants.log_start_offset != wants.offset:
                return found, dropped_end
            if dropped_end <= clean_end:
                return found, clean_end if self.log.maintenance.config.compacts else dropped_end
            if found.region is not None:
                found.region.close()

    # -- as follower

    def question(self, epoch: int) -> FetchFrom:
        """Return what to ask a leader."""
        log = self.log
        return FetchFrom(
            self.node,
            self.life,
            epoch,
            log.log_end_offset,
            self.last_epoch(),
            log.log_start_offset,
            self._fetch_bytes,
        )

    def take(self, asked: FetchFrom, answer: FetchAnswer, state: PartitionState) -> bool:
        """Take a leader's answer; see `Replica.take`. The caller follows the leader of ``state``."""
        end = self.log.log_end_offset
        if not asked.leader_epoch == answer.leader_epoch == state.leader_epoch:
            return False
        if answer.high_watermark >= 0:
            self.leader_mark = answer.high_watermark
        if (asked.offset, asked.last_epoch) != (end, self.last_epoch()):
            return False  # the log has changed since
        if answer.refusal not in (None, FetchRefusal.OUT_OF_RANGE):
            return False
        self._check(answer)
        if answer.refusal is not None:
            self._begin_again(answer.log_start_offset, state)
            return True
        if answer.diverging is not None:
            self._cut(answer.diverging, answer.log_start_offset, state)
            return True
        if answer.records is not None:
            assert not hasattr(answer.records, "read"), "a driver hands over the bytes of a region"
            if self._is_too_old(answer):
                _logger.info(
                    "log begins again: partition=%s log_end_offset=%d leader=%d dropped_end=%d; its leader has "
                    "deleted tombstones that it lacks",
                    self.log.name,
                    end,
                    state.leader,
                    answer.dropped_end,
                )
                self.calls.restart_at(answer.log_start_offset)
                return True
            first = int.from_bytes(memoryview(answer.records)[:8], "big")
            if 0 <= first < end and self._is_below(answer):
                # The leader's log starts inside this batch, which it stores whole.
                self._note_loss(first, state)
                self.calls.restart_at(first)
            if self.log.log_start_offset == self.log.log_end_offset:
                self.calls.begin_copy(answer.dropped_end)
                self._copied_in = answer.leader_epoch
            compacts = self.log.maintenance.config.compacts
            self.calls.append_replicated(
                answer.records, leader_epoch=answer.leader_epoch, is_contiguous=not compacts
            )
        before = self.log.high_watermark
        self.calls.advance_high_watermark(min(max(answer.high_watermark, before), self.log.log_end_offset))
        if answer.log_start_offset > self.log.log_start_offset:
            self.log.delete_before(min(answer.log_start_offset, self.log.high_watermark))
        return self.log.log_end_offset != end or self.log.high_watermark != before

    def _is_below(self, answer: FetchAnswer) -> bool:
        """Whether this log has nothing, or nothing but what its leader has deleted.

        A leader's oldest epoch begins, as far as it knows, where its log starts. So a follower that has another
        tail is told to cut there, perhaps inside a batch of the leader's, and may keep some of that tail.
        """
        start, end = self.log.log_start_offset, self.log.log_end_offset
        return start == end or end == answer.log_start_offset

    def _is_too_old(self, answer: FetchAnswer) -> bool:
        """Whether this log may have records that a tombstone deletes which its leader lacks; see above."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        if start == end:
            return False
        if self._copied_in != answer.leader_epoch:
            self.calls.end_copy()
            self._copied_in = answer.leader_epoch
        return max(end, self.calls.dropped_end) < answer.dropped_end

    def _check(self, answer: FetchAnswer) -> None:
        """Refuse numbers that no leader sends, before the log is cut or deleted by them."""
        start, end = answer.log_start_offset, self.log.log_end_offset
        if answer.refusal is not None:
            # Where our log has records, only those of the leader that are missing are out of range.
            is_good = start > end or (start >= 0 and end == self.log.log_start_offset)
        elif answer.diverging is not None:
            is_good = 0 <= answer.diverging.end_offset <= LAST_START and 0 <= start <= LAST_START
            is_good = is_good and answer.diverging.epoch <= answer.leader_epoch
        else:
            is_good = 0 <= start <= answer.high_watermark and 0 <= answer.dropped_end <= LAST_START
        if not is_good:
            raise MalformedMessageError(
                f"{self.log.name}: an answer with log start offset {start}, high watermark {answer.high_watermark} "
                f"and {answer.diverging} to a log that ends at {end}",
                position=0,
            )

    def _cut(self, diverging: Diverging, leader_start: int, state: PartitionState) -> None:
        """Cut the log to the end of the newest epoch that leader and follower both have."""
        end = self.log.log_end_offset
        epochs = self.calls.epochs
        if diverging.epoch < 0 or not epochs.entries or diverging.epoch < epochs.entries[0].epoch:
            # None of our epochs is the leader's: nothing of this log is.
            self._begin_again(self.log.log_start_offset, state)
            return
        epoch, own_end = epochs.end_offset_for(diverging.epoch, end)
        if epoch < 0:
            own_end = end  # the leader names an epoch newer than ours: only the end can be wrong
        to = min(own_end, diverging.end_offset)
        if to < self.log.log_start_offset:
            self._begin_again(to, state)
            return
        if self._lacks_what_was_replaced(to):
            self._note_loss(to, state)
            self.calls.restart_at(leader_start)
            return
        self._note_loss(to, state)
        self.calls.truncate_to(to)

    def _lacks_what_was_replaced(self, to: int) -> bool:
        """Whether records below a cut may be missing that records above it had replaced; see above."""
        if not self.log.maintenance.config.compacts:
            return False
        return to < max(self.log.high_watermark, self.calls.clean_end, self.calls.dropped_end)

    def _begin_again(self, offset: int, state: PartitionState) -> None:
        """Remove the whole log, and begin at an offset of the leader's."""
        mark = self.log.high_watermark
        self._note_loss(self.log.log_start_offset if offset < mark else mark, state)
        self.calls.restart_at(offset)

    def _note_loss(self, to: int, state: PartitionState) -> None:
        mark = self.log.high_watermark
        if to < mark:
            self.lost.append(LostRange(to, mark, state.leader_epoch))
            _logger.warning(
                "records that consumers had seen are lost: partition=%s first_offset=%d end_offset=%d "
                "leader=%d leader_epoch=%d, which was elected without being in sync",
                self.log.name,
                to,
                mark,
                state.leader,
                state.leader_epoch,
            )
