"""Transaction filter of a compaction: which transactional batches and markers may be discarded.

A compaction reads the batches of a log in order, and asks this filter about each transactional batch and each
marker. The rules are those of Kafka's `CleanedTransactionMetadata`. Batches of an aborted transaction are
discarded at once. A marker stays until a pass has met no batch of its transaction; an abort with batches is listed
in the new aborted index. No I/O.

The aborted index has no checksum, and batches discarded by it are lost for good. So the markers are
checked too: an index that contradicts them ends the pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from logstore.batch._batch import BatchView
from logstore.errors import CorruptRecordError
from logstore.records import AbortedTransaction, Marker


class TransactionFilter:
    """Transactions of one pass, all below the last stable offset."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Begin a pass; ``aborted`` are the aborted transactions that overlap it, each once."""
        # Reversed, so that `pop` gives the next one to begin.
        self._ahead = sorted(set(aborted), key=lambda entry: entry.first_offset, reverse=True)
        self._open: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()  # producers whose open aborted transaction has a batch in this pass
        self._committed: set[int] = set()  # producers with a batch in this pass of an open committed transaction
        #: Aborted transactions whose batches and marker this pass has read, in order of their markers.
        self.listed: list[AbortedTransaction] = []

    def may_discard(self, batch: BatchView) -> bool:
        """Return whether a transactional batch or marker can be discarded. Call it for each, in order."""
        while self._ahead and self._ahead[-1].first_offset <= batch.last_offset:
            begun = self._ahead.pop()
            self._open[begun.producer_id] = begun
        if batch.is_control:
            return self._is_spent(batch)
        if not batch.is_transactional:
            return False
        entry = self._open.get(batch.producer_id)
        if entry is not None and entry.last_offset < batch.base_offset:
            # An earlier pass has dropped the marker of this transaction.
            del self._open[batch.producer_id]
            self._met.discard(batch.producer_id)
            entry = None
        if entry is not None:
            self._met.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    @property
    def open_producers(self) -> set[int]:
        """Producers whose transactional batches this pass has read, and not yet their marker."""
        return self._met | self._committed

    def agree(self, producer_id: int, marker: Marker, offset: int) -> None:
        """Check a marker against the aborted index, by which earlier batches were kept or discarded.

        Raises:
            CorruptRecordError: the aborted index contradicts it.
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
            # A control record of another kind, which is no transaction marker.
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
