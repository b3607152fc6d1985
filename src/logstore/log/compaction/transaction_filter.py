"""Which transactions of a log were committed and which aborted, followed batch by batch.

A compaction passes the batches of a log in their order, and asks here of each one that belongs to a
transaction, and of each marker, whether it may go: the rules of Kafka's `CleanedTransactionMetadata`.
Batches of an aborted transaction go at once. A marker stays until a pass has met no batch of its
transaction; an abort with batches is listed in the new aborted index. No I/O.

The aborted index has no checksum, and what goes by it is gone for good. So the markers are asked too: an
index that says otherwise than they do ends the pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from logstore.batch._batch import BatchView
from logstore.errors import CorruptRecordError
from logstore.records import AbortedTransaction, Marker


class Decided:
    """The transactions of one pass. All of it lies below the last stable offset."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """``aborted`` are those that touch what is passed, each once."""
        # The next one to begin is the last.
        self._ahead = sorted(set(aborted), key=lambda entry: entry.first_offset, reverse=True)
        self._open: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()  # producers of whose open aborted transaction a batch was met
        self._committed: set[int] = set()  # producers of whose open transaction, to be committed, a batch was met
        #: Aborted transactions whose marker was passed and of which there were batches, in order of their markers.
        self.listed: list[AbortedTransaction] = []

    def may_discard(self, batch: BatchView) -> bool:
        """Whether a transactional batch, or a marker, is needed no more. To be asked of each, in order."""
        while self._ahead and self._ahead[-1].first_offset <= batch.last_offset:
            begun = self._ahead.pop()
            self._open[begun.producer_id] = begun
        if batch.is_control:
            return self._is_spent(batch)
        if not batch.is_transactional:
            return False
        entry = self._open.get(batch.producer_id)
        if entry is not None and entry.last_offset < batch.base_offset:
            # Its marker is gone: an earlier pass has dropped it.
            del self._open[batch.producer_id]
            self._met.discard(batch.producer_id)
            entry = None
        if entry is not None:
            self._met.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    @property
    def undecided(self) -> set[int]:
        """Producers of whose transactions batches were met, and no marker yet."""
        return self._met | self._committed

    def agree(self, producer_id: int, marker: Marker, offset: int) -> None:
        """Hold a marker against what was said of the batches before it.

        Raises:
            CorruptRecordError: the aborted index says otherwise.
        """
        entry = self._open.get(producer_id)
        is_listed = entry is not None and entry.first_offset <= offset <= entry.last_offset
        if is_listed if marker is Marker.COMMIT else producer_id in self._committed:
            raise CorruptRecordError(
                f"the transaction of producer {producer_id} that ends at offset {offset} is "
                f"{'committed' if marker is Marker.COMMIT else 'aborted'} by its marker, and the aborted index "
                "(.txnindex) says otherwise; restore that file from a copy",
                offset=offset,
            )

    def _is_spent(self, batch: BatchView) -> bool:
        producer_id = batch.producer_id
        if batch.record_count == 0:
            return True
        marker = batch.marker
        if marker is None:
            # A control record of another kind, which is none of a transaction's.
            return False
        self.agree(producer_id, marker[0], batch.last_offset)
        if marker[0] is Marker.COMMIT:
            was_met = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_met
        entry = self._open.pop(producer_id, None)
        was_met = producer_id in self._met
        self._met.discard(producer_id)
        if entry is not None and was_met:
            self.listed.append(entry)
            return False
        return True
