"""A log does what the slow model does, whatever is done to it in whatever order.

The machine below appends in every form, rolls, flushes, cuts, deletes, closes, opens, and dies; after
each step the log and a reader beside it answer as the model does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from logstore import Codec
from logstore.batch._encode import encode
from logstore.errors import OffsetOutOfRangeError, OutOfOrderSequenceError, ProducerStateError
from logstore.io._files import LIBC, Files
from logstore.log import Marker, Origin, ProducerStamp
from logstore.log.state import batches_of
from logstore.testing import ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.log.logs import NOW_MS, crashed_copy, open_log
from tests.log.model import Duplicate, LogModel, Sent, Stamp, seen

BYTES = st.one_of(st.none(), st.binary(max_size=12), st.sampled_from([b"x" * 90, b"yz" * 130]))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2)
TIMES = st.integers(NOW_MS - 50, NOW_MS + 50)
RECORDS = st.lists(
    st.builds(Sent, value=BYTES, key=BYTES, timestamp_ms=TIMES, headers=HEADERS.map(tuple)), min_size=1, max_size=4
)
CODECS = st.sampled_from(Codec)
PRODUCERS = st.sampled_from([1, 2, 2**62 + 1])


def as_tuples(records):
    return [(record.key, record.value, record.timestamp_ms, list(record.headers)) for record in records]


class LogMachine(RuleBasedStateMachine):
    """One log, its model, and a reader beside it."""

    tail = "file"

    @initialize(
        segment_bytes=st.sampled_from([650, 1_500, 1 << 20]),
        index_interval_bytes=st.sampled_from([0, 150, 4_096]),
        visible_after=st.sampled_from(["append", "append", "flush"]),
        max_message_bytes=st.sampled_from([650, 1 << 20]),
    )
    def begin(self, segment_bytes, index_interval_bytes, visible_after, max_message_bytes):
        self.files: Files = LIBC
        self.find_a_place()
        self.roots = 0
        self.clock = ManualClock(NOW_MS)
        self.settings = {
            "clock": self.clock,
            "segment_bytes": segment_bytes,
            "index_interval_bytes": index_interval_bytes,
            "max_message_bytes": max_message_bytes,
            "visible_after": visible_after,
            "tail": self.tail,
        }
        self.model = LogModel()
        self.after_flush = visible_after == "flush" or self.tail == "memory"
        self.synced = 0  #: everything below is flushed
        self.written = 0  #: everything below is in the files
        self.restarted_at = 0  #: batches of producers before may be remembered less well
        self.open()
        self.open_reader()

    def find_a_place(self):
        # In memory if there is such a place: what is asked here does not depend on the disk.
        self.base = Path(tempfile.mkdtemp(prefix="model-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))

    @property
    def root(self):
        return self.base / str(self.roots)

    def open(self):
        self.log = open_log(self.root, files=self.files, **self.settings)

    def open_reader(self):
        self.reader = open_log(self.root, read_only=True, clock=self.clock, files=self.files)

    def teardown(self):
        if hasattr(self, "log"):
            self.reader.close()
            self.log.close()
            self.leave_the_place()

    def leave_the_place(self):
        shutil.rmtree(self.base)

    def grew(self):
        if self.tail == "file":
            self.written = self.model.end
        self.show()

    def show(self):
        model = self.model
        if self.after_flush:
            # Rolls sync too, so more may be on disk than was flushed; never more than is in the files.
            model.high_watermark = max(model.high_watermark, self.synced)
            assert model.high_watermark <= self.log.high_watermark <= self.log.synced_end <= self.written
            model.high_watermark = self.log.high_watermark
        else:
            model.high_watermark = model.end

    # -- appending

    @rule(records=RECORDS, codec=CODECS)
    def append(self, records, codec):
        result = self.log.append(as_tuples(records), codec=codec)
        assert result[:2] == (self.model.end, self.model.end + len(records) - 1)
        self.model_append(records)

    def model_append(self, records):
        """Into the model, in the batches that the log has made of them: it splits what passes its limit."""
        left = list(records)
        parts = []
        for size in self.new_batches():
            parts.append(left[:size])
            left = left[size:]
        assert not left
        self.model.append_split(parts)
        self.grew()

    def new_batches(self):
        """Records of each batch from the model's end on, in the files or in a memory tail."""
        state = self.log._state
        for segment in state.segments.all:
            for base, last, *_ in segment.index.headers(0):
                if base >= self.model.end:
                    yield last - base + 1
        for held in getattr(state.mode, "_batches", ()):
            for batch in batches_of(held.data):
                if int.from_bytes(batch[:8], "big") >= self.model.end:
                    yield int.from_bytes(batch[23:27], "big") + 1

    @rule(values=st.lists(BYTES, min_size=1, max_size=3))
    def append_values(self, values):
        self.clock.advance(1)
        now = self.clock.now_ms()
        assert self.log.append(values).first_offset == self.model.end
        self.model_append([Sent(value, None, now) for value in values])

    @rule(records=RECORDS, codec=CODECS)
    def append_batch(self, records, codec):
        batch = encode(as_tuples(records), codec=int(codec))
        if len(batch) > min(self.settings["segment_bytes"], self.settings["max_message_bytes"]):
            return
        assert self.log.replica.append_batch(batch).first_offset == self.model.end
        self.model.append(records)
        self.grew()

    @rule(records=RECORDS)
    def append_singly(self, records):
        with self.log.appender() as appender:
            for record in records:
                appender.append(record.value, record.key, record.timestamp_ms, record.headers)
        self.model_append(records)

    @rule(
        producer_id=PRODUCERS,
        records=RECORDS.filter(lambda r: sum(len(x.value or b"") + len(x.key or b"") for x in r) < 150),
        transactional=st.booleans(),
        back=st.integers(0, 6),
        bump=st.integers(0, 9),
    )
    def produce(self, producer_id, records, transactional, back, bump):
        """The next batch of a producer, or one of its last again."""
        model = self.model
        epoch = model.epoch_of(producer_id)
        transactional = transactional or producer_id in model.open_transactions()
        data = model.data_of(producer_id)
        if back and back <= min(len(data), 5):
            self.repeat(data[-back], known=back == 1 or data[-back].base_offset >= self.restarted_at)
            return
        sequence = model.next_sequence(producer_id)
        if bump == 0 and producer_id not in model.open_transactions():
            epoch, sequence = epoch + 1, 0
        result = self.log.append(
            as_tuples(records), producer=ProducerStamp(producer_id, epoch, sequence, transactional)
        )
        assert not result.duplicate
        written = model.append(records, Stamp(producer_id, epoch, sequence, transactional))
        assert not isinstance(written, Duplicate)
        assert result[:2] == (written.base_offset, written.last_offset)
        self.grew()

    def repeat(self, batch, known):
        stamp = ProducerStamp(*batch.stamp)
        try:
            result = self.log.append(as_tuples(batch.records), producer=stamp)
        except ProducerStateError:
            # Only the last batch of each producer is sure to be remembered over a restart.
            assert not known
        else:
            assert result == (batch.base_offset, batch.last_offset, -1, True)

    @rule(producer_id=PRODUCERS)
    def skip_a_sequence(self, producer_id):
        if not self.model.data_of(producer_id):
            return
        sequence = (self.model.next_sequence(producer_id) + 5) % 2**31
        stamp = ProducerStamp(producer_id, self.model.epoch_of(producer_id), sequence, True)
        with pytest.raises(OutOfOrderSequenceError):
            self.log.append([b"gap"], producer=stamp)

    @rule(producer_id=PRODUCERS, marker=st.sampled_from(Marker))
    def end_transaction(self, producer_id, marker):
        if producer_id not in self.model.open_transactions():
            return
        epoch = self.model.epoch_of(producer_id)
        result = self.log.replica.append_control(marker, producer_id=producer_id, producer_epoch=epoch)
        written = self.model.append_marker(producer_id, epoch, marker.name.lower())
        assert result[:2] == (written.base_offset, written.base_offset)
        self.grew()

    @rule(records=RECORDS)
    def replicate(self, records):
        batch = encode(as_tuples(records))
        if len(batch) > min(self.settings["segment_bytes"], self.settings["max_message_bytes"]):
            return
        base, epoch = self.model.end, self.log.replica.leader_epoch
        batch = base.to_bytes(8, "big") + batch[8:12] + epoch.to_bytes(4, "big") + batch[16:]
        assert self.log.replica.append_batch(batch, origin=Origin.REPLICATION).first_offset == base
        self.model.append(records)
        # A memory tail is written first, and the batch goes into a file.
        self.written = self.model.end
        self.show()

    # -- the life of a log

    @rule()
    def flush(self):
        self.log.flush()
        self.synced = self.written = self.model.end
        self.show()

    @rule()
    def roll(self):
        self.log.maintenance.roll()
        self.written = self.model.end
        self.show()

    @precondition(lambda self: self.model.end > self.model.start)
    @rule(data=st.data())
    def truncate(self, data):
        offset = data.draw(st.integers(self.model.start, self.model.end), "truncate to")
        if offset == self.model.end:
            assert self.log.replica.truncate_to(offset) == offset
            return
        end = self.model.truncate_to(offset)
        assert self.log.replica.truncate_to(offset) == end
        self.synced = min(self.synced, end)
        self.written = end
        self.show()

    @rule(data=st.data())
    def delete(self, data):
        offset = data.draw(st.integers(0, self.model.high_watermark), "delete before")
        if offset > self.log.synced_end:
            self.written = self.model.end
        assert self.log.delete_before(offset) == self.model.delete_before(offset)
        self.synced = max(self.synced, offset)
        self.show()

    @rule()
    def reopen(self):
        self.log.close()
        self.open()
        assert self.log.maintenance.was_clean
        self.synced = self.written = self.model.end
        self.show()
        self.reader.refresh()

    @rule()
    def reopen_the_reader(self):
        self.reader.close()
        self.open_reader()

    def leave_a_dead_process(self):
        copy = crashed_copy(self.log, self.base / str(self.roots + 1))
        self.reader.close()
        self.log.close()
        shutil.rmtree(self.root)
        self.roots += 1
        assert copy == self.root

    @rule()
    def die(self):
        """The process is gone between two calls: what it had written is in the page cache."""
        self.leave_a_dead_process()
        if self.written < self.model.end:
            self.model.lose_from(self.written)
        self.restarted_at = self.model.end
        self.open()
        # A new process shows what it knows to be on disk, or all.
        self.model.high_watermark = max(self.synced if self.after_flush else self.model.end, self.model.start)
        self.show()
        self.open_reader()

    # -- what must hold

    @invariant()
    def the_marks_agree(self):
        if not hasattr(self, "log"):
            return
        model = self.model
        assert self.log.log_end_offset == model.end
        for readable in (self.log, self.reader):
            assert readable.log_start_offset == model.start
            assert readable.high_watermark == model.high_watermark
            assert readable.last_stable_offset == max(model.last_stable_offset(), model.start)

    @invariant()
    def the_records_agree(self):
        if not hasattr(self, "log"):
            return
        everything, committed = self.model.visible(), self.model.visible(committed=True)
        for readable in (self.log, self.reader):
            assert seen(readable.scan()) == everything
            assert seen(readable.scan(isolation="read_committed", max_bytes=1)) == committed
            assert readable.scan().count() == len(everything)

    @rule(data=st.data(), committed=st.booleans())
    def read_somewhere(self, data, committed):
        isolation = "read_committed" if committed else "read_uncommitted"
        first, last = self.model.start, max(self.model.end_offset(committed), self.model.start)
        offset = data.draw(st.integers(first, last), "offset")
        until = data.draw(st.integers(offset, last), "until")
        since = data.draw(TIMES, "since")
        for readable in (self.log, self.reader):
            wanted = self.model.visible(committed, offset, until)
            assert seen(readable.scan(offset, until, isolation=isolation)) == wanted
            batches = readable.read(
                offset, max_bytes=data.draw(st.sampled_from([1, 200, 1 << 20])), isolation=isolation
            )
            assert seen(batches) == self.model.visible(committed, offset, batches.next_offset)
            assert batches.next_offset > offset or offset == last
            assert readable.offset_for_time(since, isolation=isolation) == self.model.offset_for_time(
                since, committed
            )
            newest = readable.replica.offset_of_max_timestamp(isolation=isolation)
            assert newest == self.model.newest(committed)
            timed = seen(readable.scan(since=since, isolation=isolation))
            assert timed == [r for r in self.model.visible(committed) if r.timestamp_ms >= since]
            for outside in (first - 1, last + 1):
                with pytest.raises(OffsetOutOfRangeError):
                    readable.read(outside, isolation=isolation)


class MemoryTailMachine(LogMachine):
    """The same with a tail in memory."""

    tail = "memory"


class SimulatedMachine(LogMachine):
    """The same on a simulated disk, which can lose its power."""

    def find_a_place(self):
        self.base = Path("/model")
        self.files = SimDisk()

    def leave_the_place(self):
        self.files = LIBC

    def leave_a_dead_process(self):
        self.move_to(self.files.kill())

    def delete(self):
        """Not here: a power cut may take what is known of producers with no batch left. `tests/crash` does."""

    def move_to(self, disk):
        self.reader.close()
        self.log.close()
        self.files = disk

    @rule(policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32))
    def lose_power(self, policy, seed):
        """What is flushed is there, and of the rest as much as the log says, up to the end of a batch."""
        self.move_to(self.files.crash(policy, seed=seed, page_bytes=512))
        self.open()
        end = self.log.log_end_offset
        assert self.synced <= end <= self.written
        ends = {batch.last_offset + 1 for batch in self.model.batches}
        assert end in ends | {0, self.model.start}
        self.model.lose_from(end)
        self.written = self.restarted_at = end
        # The recovery point is written and not synced: what is on disk may be more than the log knows.
        self.synced = self.log.synced_end
        self.model.high_watermark = max(self.synced if self.after_flush else end, self.model.start)
        self.show()
        self.open_reader()


@pytest.mark.row("S20", part="recovery, step by step")
def test_a_log_on_a_disk_that_loses_power_does_what_the_model_does():
    run_state_machine_as_test(
        SimulatedMachine, settings=settings(max_examples=120, stateful_step_count=30, deadline=None)
    )


@pytest.mark.row("S18")
@pytest.mark.row("T5", "P13", part="one process")
@pytest.mark.row("S20", part="recovery, step by step")
def test_a_log_does_what_the_model_does():
    run_state_machine_as_test(
        LogMachine, settings=settings(max_examples=120, stateful_step_count=30, deadline=None)
    )


@pytest.mark.row("V3")
def test_a_log_with_a_memory_tail_does_what_the_model_does():
    run_state_machine_as_test(
        MemoryTailMachine, settings=settings(max_examples=120, stateful_step_count=30, deadline=None)
    )
