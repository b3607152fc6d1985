"""Timestamps that a sender gives: the quick way takes what any log would, the others are asked about one by one."""

from __future__ import annotations

import datetime

import pytest

import logstore
from logstore.errors import InvalidTimestampError, RecordTypeError
from logstore.testing import ManualClock

HOUR_MS = 3_600_000


def sent(path, timestamps, **settings):
    """The timestamps in the log, those in the futures, and what was refused."""
    clock = ManualClock()
    refused = []
    with logstore.open(path, clock=clock) as store:
        store.create_topic("flights", **settings)
        with store.producer(linger_ms=60_000) as producer:
            producer.send("flights", b"first")
            futures = []
            for timestamp in timestamps:
                try:
                    futures.append(producer.send("flights", b"value", timestamp=timestamp))
                except (InvalidTimestampError, RecordTypeError) as error:
                    refused.append((timestamp, type(error)))
            producer.flush()
            told = [future.result().timestamp_ms for future in futures]
        stored = [record.timestamp_ms for record in store["flights"].read()]
    assert stored.pop(0) == clock.now_ms()
    return stored, told, refused


def test_a_timestamp_that_is_given_is_the_records(tmp_path):
    now = ManualClock().now_ms()
    given = [5, 0, now, now + HOUR_MS, now - 1, 7]
    stored, told, refused = sent(tmp_path, given)
    assert stored == told == given
    assert refused == []


def test_one_too_far_ahead_is_refused_alone_and_the_batch_goes_on(tmp_path):
    now = ManualClock().now_ms()
    far, huge = now + HOUR_MS + 1, 2**70
    stored, told, refused = sent(tmp_path, [5, far, 6, huge, True, 7])
    assert stored == told == [5, 6, 7]
    assert refused == [(far, InvalidTimestampError), (huge, InvalidTimestampError), (True, RecordTypeError)]


def test_one_too_far_behind_is_refused_alone(tmp_path):
    now = ManualClock().now_ms()
    stored, told, refused = sent(tmp_path, [now - 10, now - 11, now], message_timestamp_before_max_ms=10)
    assert stored == told == [now - 10, now]
    assert refused == [(now - 11, InvalidTimestampError)]


def test_a_log_with_append_time_gives_its_own(tmp_path):
    now = ManualClock().now_ms()
    stored, told, refused = sent(tmp_path, [5, now + 1], message_timestamp_type="LogAppendTime")
    assert stored == told == [now, now]
    assert refused == []


@pytest.mark.parametrize("given", [datetime.datetime(2013, 7, 1, tzinfo=datetime.UTC), 1_372_636_800_000])
def test_a_datetime_is_milliseconds(tmp_path, given):
    assert sent(tmp_path, [given])[0] == [1_372_636_800_000]
