"""Conformance suite of the reading half of a log."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager

import pytest

from logstore.errors import OffsetOutOfRangeError
from logstore.log.read.reader import Readable


class ReadableConformance:
    """The suite for `Readable`: a log that is written here, or by another process."""

    @abstractmethod
    def holding(self, values: list[list[bytes]]) -> AbstractContextManager[Readable]:
        """Return an open log that holds these values from offset 0 on, each list in a batch of its own.

        The timestamp of a record is its offset.
        """

    def test_reading_goes_on_where_it_has_ended(self) -> None:
        batches = [[b"%d.%d" % (batch, n) for n in range(batch + 1)] for batch in range(6)]
        flat = [value for batch in batches for value in batch]
        with self.holding(batches) as log:
            assert (log.log_start_offset, log.log_end_offset) == (0, len(flat))
            found: list[bytes | None] = []
            while run := log.read(len(found), max_bytes=1):
                found += run.values()
                assert run.next_offset == len(found)
            assert found == flat
            for start in range(len(flat) + 1):
                # One read stays in one segment.
                offsets = [record.offset for record in log.read(start)]
                assert offsets == list(range(start, start + len(offsets)))
                assert offsets or start == len(flat)

    def test_the_three_ends_are_in_order(self) -> None:
        with self.holding([[b"a"], [b"b"]]) as log:
            assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
            assert log.end_offset() == log.high_watermark
            assert log.end_offset("read_committed") == log.last_stable_offset

    def test_offsets_outside_are_refused_with_what_there_is(self) -> None:
        with self.holding([[b"a", b"b", b"c"]]) as log:
            assert not log.read(3)
            for offset in (-1, 4, 2**62):
                with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset} .* holds 0 to 2"):
                    log.read(offset)
            with pytest.raises(OffsetOutOfRangeError):
                log.scan(0, 4)
            with pytest.raises(OffsetOutOfRangeError):
                log.record_at(3)

    def test_a_scan_is_bounded_and_may_be_used_again(self) -> None:
        with self.holding([[b"%d" % n] * 3 for n in range(5)]) as log:
            scan = log.scan(2, 11)
            for _ in range(2):
                assert [record.offset for record in scan] == list(range(2, 11))
            assert scan.count() == 9
            assert sum(map(len, scan.values())) == 9
            assert log.scan(5, 5).count() == 0

    def test_single_records_are_found(self) -> None:
        with self.holding([[b"a", b"b"], [b"c"]]) as log:
            for offset, value in enumerate([b"a", b"b", b"c"]):
                record = log.record_at(offset)
                assert record is not None
                assert (record.offset, record.value, record.timestamp_ms) == (offset, value, offset)
                assert (record.topic, record.partition) == log.name

    def test_records_are_found_by_their_time(self) -> None:
        with self.holding([[b"a", b"b"], [b"c"]]) as log:
            for moment in range(3):
                found = log.offset_for_time(moment)
                assert found is not None
                assert found.offset == moment
            assert log.offset_for_time(3) is None
            assert [record.value for record in log.scan(since=1, until=2)] == [b"b"]

    def test_the_epoch_of_each_record_ends_where_the_records_do(self) -> None:
        with self.holding([[b"a", b"b"], [b"c"]]) as log:
            epoch = log._epoch_before(1)
            assert epoch >= 0
            assert [log._epoch_before(offset) for offset in (0, 1, 2, 3)] == [-1, epoch, epoch, epoch]
            assert log._end_of_epoch(epoch) == 3
            assert log._end_of_epoch(epoch + 1) is None
            assert log._end_of_epoch(-1) is None

    def test_a_wait_for_what_is_there_is_over_at_once(self) -> None:
        with self.holding([[b"a"]]) as log:
            assert log.wait_for(0, timeout_s=0)
            assert not log.wait_for(1, timeout_s=0)

    def test_what_a_region_names_is_what_is_read(self) -> None:
        with self.holding([[b"a"], [b"b"]]) as log:
            found = log.replica.locate(0)
            assert found is not None
            assert found.read() == log.read(0).data
            found.close()
            assert log.replica.locate(2) is None
