"""A read begins and ends at an instant, or so long before the call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from logstore import Log
from logstore.errors import InvalidTimestampError, RecordTypeError
from logstore.testing import ManualClock, SimDisk

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)


@pytest.fixture
def log() -> Any:
    """A record for each of the last six hours, its value the hour."""
    clock = ManualClock(int(NOW.timestamp() * 1000))
    with Log.open("/data/t-0", files=SimDisk(), clock=clock) as opened:
        for hour in range(7, 13):
            opened.append([(None, b"%d" % hour, NOW.replace(hour=hour))])
        yield opened


def hours(scan: Any) -> list[int]:
    return [int(record.value) for record in scan]


@pytest.mark.parametrize(
    "two_hours_ago",
    [
        "-2h",
        "-120m",
        "-7200s",
        "-7200000ms",
        "-2.0h",
        timedelta(hours=2),
        timedelta(hours=-2),
        NOW - timedelta(hours=2),
        (NOW - timedelta(hours=2)).astimezone(timezone(timedelta(hours=5))),
        "2026-11-02T10:00:00Z",
        "2026-11-02T11:00+01:00",
        "2026-11-02 10:00",
    ],
)
def test_a_scan_begins_and_ends_at_a_time_in_each_form(log: Log, two_hours_ago: Any) -> None:
    assert hours(log.scan(since=two_hours_ago)) == [10, 11, 12]
    assert hours(log.scan(until=two_hours_ago)) == [7, 8, 9]
    found = log.offset_for_time(two_hours_ago)
    assert found is not None
    assert found.offset == 3


def test_so_long_ago_is_counted_from_the_call_and_not_from_each_use(log: Log) -> None:
    scan = log.scan(since="-2h")
    log._clock.advance(3_600_000)
    assert hours(scan) == [10, 11, 12]
    assert hours(log.scan(since="-2h")) == [11, 12]


def test_longer_ago_than_1970_is_everything(log: Log) -> None:
    assert hours(log.scan(since="-9000w")) == hours(log.scan(since=timedelta.max)) == list(range(7, 13))


@pytest.mark.parametrize("word", ["2h", "-2", "-2y", "yesterday", "", "-٢h"])
def test_a_text_that_is_no_time_is_refused_with_the_forms_that_there_are(log: Log, word: str) -> None:
    with pytest.raises(InvalidTimestampError, match="a date like 2026-11-21T10:00:00Z, or -2h; found"):
        log.scan(since=word)


def test_a_datetime_without_a_zone_is_refused(log: Log) -> None:
    with pytest.raises(RecordTypeError, match="has no time zone"):
        log.scan(until=datetime(2026, 11, 2))
