"""Ingest of staged files: all of a manifest or nothing, once, and visible together.

Exactly once depends on transactions in the logs: readers with ``read_committed`` see nothing of a batch before its
end. It also depends on one record for each query in ``__logstore_sinks`` (`store.commit.commit_log`), which goes
through these phases for every batch:

1. *intent*, synced: the producer (id and epoch, never used before) and the partitions;
2. transactional batches into every partition, then every partition synced;
3. *committing*, synced: the decision. From here on the batch will be committed, whatever happens;
4. a commit marker in every partition, then every partition synced;
5. *done*. The staged files are removed.

**Why no crash loses or duplicates a batch.** What follows a crash depends on the newest record of the query alone,
and that is read after it was synced:

- *intent*: no marker was ever written, since the first one follows the synced decision. Every open transaction of
  the producer is aborted, then the state is *aborted*, and the batch may be ingested again, with another epoch. No
  caller was told that it was ingested. This cannot follow an executed *committing*. Markers are written only once
  the decision is on the disk, and a newer record of the query replaces it only when all markers are written.
- *committing*: all data was synced before this record was written, so it is there after any crash. Where
  the producer's transaction is still open, its commit marker is missing and is written; where it is not, the
  marker is there. Then *done*. No abort follows: only an *intent* is aborted.
- *done* or *aborted*: every marker was synced before, so nothing is left to do. These records are not synced.
  Where one is lost, the record before it tells what to do, and doing it again changes nothing.

Data cannot reach the disk before its intent, which is synced before the first byte of it. So every open
transaction has a record. Nothing here depends on the batches in a log, so retention, compaction and the expiry of
producers may delete any. A producer with an open transaction does not expire.

An intent that is not settled holds the last stable offset back. So the process that loads the states settles those
of all queries first, and each ingest that of its own.

**Visible together** means: each partition's part of a batch becomes visible to ``read_committed`` as a whole. All
parts do so while the markers are written, one partition after the other. A reader of two partitions in that moment
may see the batch in one of them and not yet in the other.

One ingest runs at a time. Any thread may call.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from logstore.client.backend.source import Source
from logstore.errors import LogstoreError, OldBatchError, StagedFileError, UnknownPartitionError, UnknownTopicError
from logstore.io._interrupts import held, tried
from logstore.io.side_by_side import side_by_side
from logstore.log import Log, ProducerStamp
from logstore.log.append.append import NO_PRODUCER
from logstore.log.directory.files import Directory
from logstore.records import INT32_MAX, AppendResult, Marker, TopicPartition
from logstore.store.commit import staged_reader
from logstore.store.commit.commit_log import ABORTED, COMMITTING, DONE, INTENT, Share, Sinks, SinkState
from logstore.store.commit.kept import KEPT, Kept
from logstore.store.commit.restore import Restore
from logstore.store.commit.staged_reader import Checked
from logstore.store.commit.staged_writer import AT_LEAST_ONCE, REPLAY, Manifest, remove_staged, sweep

_logger = logging.getLogger(__name__)

_Offsets = dict[TopicPartition, tuple[int, int]]


class Ingested(NamedTuple):
    """Result of a manifest: the offsets of its records, or that the batch was ingested already.

    ``offsets`` holds the first and the last offset of each partition; others may have written between them. For the
    first batch of a query ``others`` names the queries that have written into the same topics before it.
    """

    duplicate: bool
    offsets: dict[TopicPartition, tuple[int, int]]
    others: tuple[str, ...] = ()


class Ingest:
    """Ingests manifests into one store."""

    def __init__(self, source: Source, root: Directory) -> None:
        self._source = source
        self._root = root
        self._lock = threading.Lock()
        self._sinks = Sinks(source)
        self._is_settled = False
        self._is_restored = False  # states that were kept elsewhere have been read

    def ingest(self, manifest: Manifest) -> Ingested:
        """Ingest a manifest, see `StoreHost.ingest`."""
        manifest = manifest._replace(files=tuple(manifest.files)).check()
        with held(self._lock):
            if manifest.mode == AT_LEAST_ONCE:
                found = self._at_least_once(manifest)
            else:
                found = self._once(manifest)
        remove_staged(self._root, manifest.files)
        return found

    def settle(self) -> None:
        """Finish or abort batches of all queries that a failure left undecided, unless an ingest is running."""
        tried(self._lock, False, self._settle_all, None)

    def _settle_all(self) -> None:
        self._is_settled = False
        self._load(create=False)

    def paused(self) -> held:
        """Hold off every ingest until the lock is released."""
        return held(self._lock)

    # -- the modes

    def _at_least_once(self, manifest: Manifest) -> Ingested:
        with self._checked(manifest) as checked:
            offsets = self._append(checked, NO_PRODUCER)
            self._flush(self._logs(each.staged.place for each in checked))
        return Ingested(False, offsets)

    def _once(self, manifest: Manifest) -> Ingested:
        query = manifest.query
        self._load(create=False)
        self._settle(query)
        state = self._sinks.get(query)
        if state is not None and manifest.batch <= state.done:
            self._sweep(manifest)
            if manifest.batch < state.done:
                # Never in the life of a query: only the newest batch is retried. Dropping this one could drop new
                # rows.
                raise OldBatchError(
                    f"{self._root.path}: query {query!r} commits batch {manifest.batch}, but its batch "
                    f"{state.done} is committed, as if its checkpoint had been restored from a copy or were used "
                    "by two queries. Go on with a new checkpoint that begins where this store ends"
                )
            return Ingested(True, {})
        with self._checked(manifest) as checked:
            if not checked:
                return Ingested(False, {})
            others = self._others(manifest) if state is None or state.done < 0 else ()
            take_in = self._restore_partitions if manifest.mode == REPLAY else self._exactly_once
            found = Ingested(False, take_in(manifest, checked), others)
        self._sweep(manifest)
        if query in self._sinks.pending():
            # Decided, with markers still missing: the states may have to be read again before that.
            return found
        try:
            self._sinks.forget_jobs(self._source.clock.now_ms())
            self._sinks.tidy()
        except LogstoreError as error:
            # The batch is ingested, and the result has to say so. The next batch retries this.
            _logger.warning("the states of sinks were not tidied: store=%s error=%s", self._root.path, error)
        return found

    def _others(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the streams that have written into the topics of a query that begins."""
        if manifest.is_job:
            return ()
        topic_ids = {file.topic_id for file in manifest.files}
        return tuple(query for query in self._sinks.streams() if topic_ids & self._sinks.topic_ids(query))

    def _sweep(self, manifest: Manifest) -> None:
        """Remove files that earlier attempts at this batch, and earlier batches, have left beside the same logs."""
        sweep(
            self._root.path,
            manifest.query,
            manifest.batch,
            places={file.place for file in manifest.files},
            files=self._root.files,
            clock=self._source.clock,
        )

    def _exactly_once(self, manifest: Manifest, checked: Sequence[Checked]) -> _Offsets:
        query = manifest.query
        self._load(create=True)
        intent = self._intent(manifest, checked)
        try:
            self._sinks.put(query, intent, durable=True)
            offsets = self._append(
                checked, ProducerStamp(intent.producer_id, intent.producer_epoch, 0, transactional=True)
            )
            # Before the decision, which promises that all data is on the disk.
            self._flush(self._logs(share.place for share in intent.shares))
            self._sinks.put(query, self._now(intent, COMMITTING), durable=True)
        except BaseException:
            self._try_to_settle(query)
            raise
        # The batch will be committed: an error now would have a job write its rows again.
        self._try_to_settle(query)
        return offsets

    def _restore_partitions(self, manifest: Manifest, checked: Sequence[Checked]) -> _Offsets:
        restores = {place: Restore(self._log(place), share) for place, share in _by_place(checked).items()}
        for restore in restores.values():
            restore.check()
        self._load(create=True)
        offsets = {place: restore.append() for place, restore in restores.items()}
        self._flush(self._logs(restores))
        for restore in restores.values():
            restore.raise_start()
        before = self._sinks.get(manifest.query) or SinkState(-1, -1, -1, manifest.batch, DONE, 0)
        self._sinks.put(manifest.query, self._now(before._replace(batch=manifest.batch), DONE), durable=True)
        return offsets

    def _intent(self, manifest: Manifest, checked: Sequence[Checked]) -> SinkState:
        counts: dict[tuple[str, str, int], int] = {}
        for each in checked:
            key = each.staged.topic, each.staged.topic_id, each.staged.partition
            counts[key] = counts.get(key, 0) + each.staged.record_count
        logs = {key: self._log(TopicPartition(key[0], key[2])) for key in counts}
        producer_id, epoch = self._sinks.next_producer(
            manifest.query,
            lambda producer_id: max(log.replica.producer_epoch(producer_id) for log in logs.values()),
        )
        shares = tuple(Share(*key, logs[key].log_end_offset, count) for key, count in counts.items())
        before = self._sinks.get(manifest.query)
        done = -1 if before is None else before.done
        return SinkState(done, producer_id, epoch, manifest.batch, INTENT, self._source.clock.now_ms(), shares)

    def _now(self, state: SinkState, phase: str) -> SinkState:
        shares = state.shares
        if phase != COMMITTING:
            # Nothing is left to do; the topics are needed when another query begins.
            shares = tuple({share.topic_id: share for share in shares}.values())
        if phase == DONE:
            state = state._replace(done=state.batch)
        return state._replace(phase=phase, shares=shares, updated_ms=self._source.clock.now_ms())

    # -- settling

    def _load(self, *, create: bool) -> None:
        """Load the states, and settle undecided batches of all queries, which keep readers waiting."""
        if not self._is_restored:
            self._restore()
        if not self._sinks.load(create=create) or self._is_settled:
            return
        for query in self._sinks.pending():
            self._try_to_settle(query)
        self._is_settled = True

    def _restore(self) -> None:
        """Continue from the states that the directory has kept while it was Kafka's."""
        kept = Kept.load(self._root)
        if kept is not None:
            if kept.sinks:
                self._sinks.load(create=True)
                self._sinks.take_in(kept.sinks)
            # Durable before the next batch: a file that came back would override newer states of the topic.
            self._root.remove(KEPT)
            self._root.sync()
        self._is_restored = True

    def _try_to_settle(self, query: str) -> None:
        try:
            self._settle(query)
        except LogstoreError as error:
            # A partition of it may be damaged, or the disk full: the next ingest of the query retries.
            _logger.error("a batch is left undecided: store=%s query=%s error=%s", self._root.path, query, error)

    def _settle(self, query: str) -> None:
        """Do what the newest record of a query requires; see the module's docstring."""
        self._sinks.load(create=False)
        state = self._sinks.get(query)
        if state is None or not state.is_pending:
            return
        marker, phase = (Marker.COMMIT, DONE) if state.phase == COMMITTING else (Marker.ABORT, ABORTED)
        # In this process the record may be written and not yet synced, if the sync has failed.
        self._sinks.flush()
        logs = [log for log in map(self._log_of, state.shares) if log is not None]
        failures = []
        for log in logs:
            try:
                if log.replica.open_transaction(state.producer_id) is not None:
                    log.replica.append_control(
                        marker,
                        producer_id=state.producer_id,
                        producer_epoch=state.producer_epoch,
                        ack="written",
                    )
            except LogstoreError as error:
                # A log that has failed keeps its own readers waiting, not those of the others.
                failures.append(error)
        if failures:
            raise failures[0]
        self._flush(logs)
        self._sinks.put(query, self._now(state, phase), durable=False)

    def _log_of(self, share: Share) -> Log | None:
        """Return the log of a share, or None if its topic, and with it the share, was deleted."""
        try:
            return self._log(share.place, share.topic_id)
        except (UnknownTopicError, UnknownPartitionError):
            return None

    # -- checking and writing

    @contextlib.contextmanager
    def _checked(self, manifest: Manifest) -> Iterator[list[Checked]]:
        """Open and check every file that is not empty, whole, in the order of the manifest."""
        found: dict[int, Checked] = {}
        now_ms = self._source.clock.now_ms()

        def check(number: int) -> None:
            file = manifest.files[number]
            # Opened here, concurrently: a store that is opened for one batch has none of its logs open.
            self._log(file.place, file.topic_id)
            config = self._source.topic_config(file.topic, file.topic_id)
            found[number] = staged_reader.check(self._root, file, config, now_ms, replay=manifest.mode == REPLAY)

        try:
            side_by_side(check, range(len(manifest.files)), self._root.files)
            yield [found[number] for number in sorted(found) if found[number].staged.record_count]
        finally:
            for each in found.values():
                each.file.close()

    def _append(self, checked: Sequence[Checked], producer: ProducerStamp) -> _Offsets:
        offsets: _Offsets = {}

        def append(place: TopicPartition) -> None:
            stamp, first, last = producer, -1, -1
            for each in shares[place]:
                for result, record_count in _put(log_of[place], each, stamp):
                    first = result.first_offset if first < 0 else first
                    last = result.last_offset
                    stamp = _behind(stamp, record_count)
            offsets[place] = first, last

        shares = _by_place(checked)
        log_of = {place: self._log(place, share[0].staged.topic_id) for place, share in shares.items()}
        side_by_side(append, shares, self._root.files)
        return {place: offsets[place] for place in shares}

    def _log(self, place: TopicPartition, topic_id: str | None = None) -> Log:
        log = self._source._log_of(*place, topic_id)
        assert isinstance(log, Log)
        return log

    def _flush(self, logs: Iterable[Log]) -> None:
        side_by_side(Log.flush, logs, self._root.files)

    def _logs(self, places: Iterable[TopicPartition]) -> list[Log]:
        return [self._log(place) for place in dict.fromkeys(places)]


def _by_place(checked: Iterable[Checked]) -> dict[TopicPartition, list[Checked]]:
    shares: dict[TopicPartition, list[Checked]] = {}
    for each in checked:
        shares.setdefault(each.staged.place, []).append(each)
    return shares


def _put(log: Log, checked: Checked, stamp: ProducerStamp) -> Iterator[tuple[AppendResult, int]]:
    """Append a file to a log, whole as a segment or run by run; yield offsets and record counts."""
    replica = log.replica
    adopted = replica.ingest_file(checked.whole(), _runs(checked), producer=stamp)
    if adopted is not None:
        yield adopted, checked.staged.record_count
        return
    for run, record_count in _runs(checked):
        yield (
            replica.append_run(run, producer=stamp, max_timestamp_ms=staged_reader.newest_ms(run)),
            record_count,
        )
        stamp = _behind(stamp, record_count)


def _behind(stamp: ProducerStamp, record_count: int) -> ProducerStamp:
    """Return the stamp of the same producer after so many records."""
    return stamp._replace(base_sequence=(stamp.base_sequence + record_count) & INT32_MAX)


def _runs(checked: Checked) -> Iterator[tuple[bytearray, int]]:
    """Read the batches of a file again, as many records as were found when it was checked.

    Raises:
        StagedFileError: the file has changed since then.
    """
    count = 0
    for run, record_count in staged_reader.runs(checked.file, checked.staged.size, checked.config):
        count += record_count
        yield bytearray(run), record_count
    if count != checked.staged.record_count:
        raise StagedFileError("a staged file has changed while it was ingested", path=checked.file.path)
