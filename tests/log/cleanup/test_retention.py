"""Old and surplus segments go, and nothing else: by record time, by size, from the start, whole."""

from __future__ import annotations

import pytest

from logstore import Codec, Log
from logstore.errors import (
    InvalidSettingError,
    LogClosedError,
    OffsetOutOfRangeError,
    ReadOnlyError,
    RetentionWarning,
    UnknownSettingError,
)
from logstore.log import Marker, ProducerStamp
from logstore.testing import ManualClock
from tests.log.logs import open_log

DAY_MS = 86_400_000
MINUTE_MS = 60_000


def filled(root, clock, segments=5, each_ms=0, **settings):
    """A log of so many sealed segments, each of one record, and one more record in the active one."""
    log = open_log(root, clock=clock, **settings)
    for n in range(segments + 1):
        log.append([b"%d" % n])
        if n < segments:
            log.maintenance.roll()
        clock.advance(each_ms)
    return log


def bases(log) -> list[int]:
    return [segment.base_offset for segment in log._state.segments.all]


@pytest.mark.row("R1")
@pytest.mark.row("V8")
@pytest.mark.parametrize(
    ("retention_ms", "days"), [(7 * DAY_MS, 7), (3 * DAY_MS, 3), (14 * DAY_MS, 14), (30 * DAY_MS, 30)]
)
def test_a_segment_goes_when_its_newest_record_is_older_than_retention_ms(tmp_path, retention_ms, days):
    """At +7 d 1 min the segment is gone, at +6 d it is there; whether it was read does not matter."""
    clock = ManualClock()
    with filled(tmp_path, clock, segments=2, segment_ms=400 * DAY_MS, retention_ms=retention_ms) as log:
        clock.advance((days - 1) * DAY_MS)
        assert log.maintenance.retain().deleted_segments == 0
        assert len(list(log.scan())) == 3
        clock.advance(DAY_MS)
        assert log.maintenance.retain().deleted_segments == 0
        clock.advance(MINUTE_MS)
        done = log.maintenance.retain()
        assert (done.deleted_segments, done.log_start_offset) == (3, 3)
        assert done.deleted_bytes > 0
        assert list(log.scan()) == []
        assert log.append([b"next"]).first_offset == 3


@pytest.mark.row("R1")
def test_a_record_of_the_future_keeps_its_segment_and_all_behind_it(tmp_path):
    clock = ManualClock()
    with open_log(tmp_path, clock=clock, retention_ms=1_000, message_timestamp_after_max_ms=10**12) as log:
        with pytest.warns(RetentionWarning):
            log.append([(None, b"old", clock.now_ms() - 5_000)])
        log.maintenance.roll()
        log.append([(None, b"future", clock.now_ms() + 5_000), (None, b"old", clock.now_ms() - 9_000)])
        log.maintenance.roll()
        log.append([(None, b"old", clock.now_ms() - 5_000)])
        assert log.maintenance.retain().deleted_segments == 1
        assert [r.value for r in log.scan()] == [b"future", b"old", b"old"]
        clock.advance(6_001)
        assert log.maintenance.retain().deleted_segments == 2


@pytest.mark.row("R2")
def test_the_log_is_never_larger_than_its_limit_and_one_segment(tmp_path):
    clock, limit, segment = ManualClock(), 5_000, 1_000
    with open_log(tmp_path, clock=clock, retention_bytes=limit, segment_bytes=segment) as log:
        for n in range(300):
            log.append([b"%4d" % n + b"v" * (n % 150)])
            log.maintenance.retain()
            size = log.metrics().size
            assert size <= limit + segment
        assert size > limit - segment
        assert [r.offset for r in log.scan()] == list(range(log.log_start_offset, 300))
        assert log.log_start_offset > 0


@pytest.mark.row("R4")
def test_minus_one_keeps_all_for_ever(tmp_path):
    clock = ManualClock()
    with filled(tmp_path, clock, retention_ms=-1, retention_bytes=-1) as log:
        clock.advance(10_000 * DAY_MS)
        assert log.maintenance.retain().deleted_segments == 0
        assert len(list(log.scan())) == 6


@pytest.mark.row("R5")
def test_reading_removes_nothing_and_keeps_nothing(tmp_path):
    """Two readers see the same data a day apart; a third that never came keeps nothing back."""
    clock = ManualClock()
    with filled(tmp_path, clock, retention_ms=7 * DAY_MS) as log:
        first = [r.value for r in log.scan()]
        clock.advance(DAY_MS)
        log.maintenance.retain()
        assert [r.value for r in log.scan()] == first
        clock.advance(7 * DAY_MS)
        log.maintenance.retain()
        assert list(log.scan()) == []


@pytest.mark.row("R6")
def test_below_the_log_start_there_is_nothing_to_go_back_to(tmp_path):
    clock = ManualClock()
    with filled(tmp_path, clock, each_ms=10_000, retention_ms=25_000) as log:
        log.maintenance.retain()
        start = log.log_start_offset
        assert 0 < start < 6
        for offset in range(start):
            with pytest.raises(OffsetOutOfRangeError, match="begin again at log_start_offset"):
                log.read(offset)
        assert log.read(start).records()[0].offset == start
        with Log.open(log.path, read_only=True) as reader:
            assert reader.log_start_offset == start
            with pytest.raises(OffsetOutOfRangeError):
                reader.read(0)
    with open_log(tmp_path, clock=clock, retention_ms=25_000) as log:
        assert log.log_start_offset == start


@pytest.mark.row("R1")
def test_nothing_above_the_high_watermark_goes(tmp_path):
    from logstore.log import HighWatermarkPolicy

    class Held(HighWatermarkPolicy):
        mark = 2

        def high_watermark(self, log_end_offset, synced_end, current):
            return min(self.mark, log_end_offset)

    clock, policy = ManualClock(), Held()
    with filled(tmp_path, clock, retention_ms=1, policy=policy) as log:
        clock.advance(DAY_MS)
        assert log.maintenance.retain().log_start_offset == 2
        policy.mark = 99
        log.append([(None, b"more", clock.now_ms())])
        assert log.maintenance.retain().log_start_offset == 5
        assert [r.value for r in log.scan()] == [b"5", b"more"]


@pytest.mark.row("R1")
@pytest.mark.parametrize(("policy", "left"), [("delete", 0), ("compact,delete", 0), ("compact", 6)])
def test_a_log_that_is_only_compacted_does_not_expire(tmp_path, policy, left):
    clock = ManualClock()
    log = open_log(tmp_path, clock=clock, cleanup_policy=policy, retention_ms=1_000, retention_bytes=0)
    with log:
        for n in range(6):
            log.append([(b"%d" % n, b"v")])
            log.maintenance.roll()
        clock.advance(DAY_MS)
        log.maintenance.retain()
        assert len(list(log.scan())) == left


@pytest.mark.row("R1")
def test_an_idle_segment_is_sealed_once_segment_ms_has_passed_and_old_records_seal_no_segment_each(tmp_path):
    clock = ManualClock()
    with open_log(tmp_path, clock=clock, segment_ms=10_000, retention_ms=-1) as log:
        assert not log.maintenance.retain().rolled
        log.append([b"a"])
        clock.advance(10_000)
        assert not log.maintenance.retain().rolled
        clock.advance(1)
        assert log.maintenance.retain().rolled
        assert bases(log) == [0, 1]
        # Nothing in the new one: it is not sealed.
        clock.advance(DAY_MS)
        assert not log.maintenance.retain().rolled
        # Records of long ago, imported: the segment's age counts from when it was begun.
        log.append([(None, b"of 2013", 1_357_000_000_000)])
        assert log.maintenance.retain().rolled
        log.append([(None, b"of 2013", 1_357_000_000_000)])
        assert not log.maintenance.retain().rolled
        clock.advance(10_001)
        assert log.maintenance.retain().rolled
        assert bases(log) == [0, 1, 2, 3]


@pytest.mark.row("R1")
def test_silent_producers_are_forgotten_by_a_log_without_writers(tmp_path):
    clock = ManualClock()
    with open_log(tmp_path, clock=clock, producer_id_expiration_ms=DAY_MS, retention_ms=-1) as log:
        log.append([b"a"], producer=ProducerStamp(7, 0, 0))
        log.append([b"b"], producer=ProducerStamp(8, 0, 0, True))
        clock.advance(2 * DAY_MS)
        assert log.maintenance.retain().expired_producers == 1
        # An open transaction is not forgotten.
        assert log.metrics().producer_count == 1
        log.replica.append_control(Marker.COMMIT, producer_id=8, producer_epoch=0)
        clock.advance(2 * DAY_MS)
        assert log.maintenance.retain().expired_producers == 1


@pytest.mark.row("R1")
def test_what_a_cut_off_deletion_has_left_below_the_start_goes(tmp_path, monkeypatch):
    from logstore.log.cleanup import truncation

    clock = ManualClock()
    with filled(tmp_path, clock, retention_ms=-1) as log:
        with monkeypatch.context() as patch:
            patch.setattr(truncation, "_below", lambda state, offset: [])
            log.delete_before(3)
        assert bases(log)[0] == 0
        log.maintenance.retain()
        assert bases(log) == [3, 4, 5]
        assert [r.value for r in log.scan()] == [b"3", b"4", b"5"]


def test_a_log_that_is_closed_or_read_only_keeps_no_house(tmp_path):
    clock = ManualClock()
    log = filled(tmp_path, clock)
    with Log.open(log.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.maintenance.retain()
    log.close()
    with pytest.raises(LogClosedError):
        log.maintenance.retain()


# --- settings of an open log --------------------------------------------------------------------


def test_other_settings_hold_from_the_next_call_on(tmp_path):
    clock = ManualClock()
    with open_log(tmp_path, clock=clock) as log:
        log.append([(b"a", b"1")])
        log.maintenance.reconfigure(
            compression_type="zstd", segment_bytes=500, message_timestamp_type="LogAppendTime"
        )
        assert log.maintenance.config.segment_bytes == 500
        log.append([(b"a", b"1", 5)])
        batch = log.read(1).batches()[0]
        assert (batch.codec, batch.max_timestamp_ms) == (Codec.ZSTD, clock.now_ms())
        for _ in range(30):
            log.append([(b"a", b"v" * 60)])
        assert log.metrics().segment_count > 2
        log.maintenance.reconfigure({"cleanup.policy": "compact"})
        assert log.maintenance.config.compression_type == "producer"
        log.maintenance.roll()
        log.maintenance.compact()
        assert [r.offset for r in log.scan()] == [log.log_end_offset - 1]
        log.maintenance.reconfigure(flush_messages=1)
        log.append([b"synced"])
        assert log.synced_end == log.log_end_offset
        log.maintenance.reconfigure(flush_ms=1_000)
        log.append([b"later"])
        assert log.synced_end == log.log_end_offset - 1
        clock.advance(1_000)
        log.maintenance.tick()
        assert log.synced_end == log.log_end_offset
        log.maintenance.reconfigure(ack="synced")
        log.append([b"now"])
        assert log.synced_end == log.log_end_offset


def test_retention_goes_by_the_settings_of_now(tmp_path):
    clock = ManualClock()
    with filled(tmp_path, clock, producer_id_expiration_ms=10 * DAY_MS) as log:
        log.append([b"a"], producer=ProducerStamp(7, 0, 0))
        clock.advance(DAY_MS)
        assert log.maintenance.retain() == (0, 0, 0, False, 0)
        log.maintenance.reconfigure(retention_ms=DAY_MS // 2, producer_id_expiration_ms=DAY_MS // 2)
        clock.advance(DAY_MS // 10)
        done = log.maintenance.retain()
        assert (done.log_start_offset, done.expired_producers) == (7, 1)


def test_what_cannot_change_is_named_and_nothing_has_changed(tmp_path):
    with open_log(tmp_path, clock=ManualClock()) as log:
        before = log.maintenance.config
        with pytest.raises(InvalidSettingError) as caught:
            log.maintenance.reconfigure(tail="memory", visible_after="flush", segment_bytes=500)
        assert set(caught.value.problems) == {"logstore.tail", "logstore.visible.after"}
        with pytest.raises(UnknownSettingError, match="retention"):
            log.maintenance.reconfigure({"retention.msec": 1})
        with pytest.raises(InvalidSettingError):
            log.maintenance.reconfigure(segment_bytes=1)
        assert log.maintenance.config is before
        assert log._state.config is before
