"""The record with the largest timestamp: which one, and what is read for it in a log of many segments."""

from __future__ import annotations

import random

import pytest

from logstore.records import TimestampOffset
from logstore.testing import FaultyFiles
from tests.log.logs import open_log

SEGMENTS = 40
VALUE = b"v" * 400


def filled(log, times):
    """Return timestamp and negative offset of each record."""
    for time in times:
        log.append([(None, VALUE, time)])
    return [(record.timestamp_ms, -record.offset) for record in log]


@pytest.mark.parametrize("order", ["rising", "falling", "equal", "mixed"])
def test_it_is_the_first_of_the_largest(tmp_path, order):
    rng = random.Random(7)
    times = {
        "rising": list(range(1_000, 1_200)),
        "falling": list(range(1_200, 1_000, -1)),
        "equal": [1_000] * 200,
        "mixed": [1_000 + rng.randrange(30) for _ in range(200)],
    }[order]
    with open_log(tmp_path, segment_bytes=4_000) as log:
        records = filled(log, times)
        for start in (0, 5, 60, 150, 199):
            log.delete_before(start)
            time, place = max(each for each in records if -each[1] >= start)
            assert log.replica.offset_of_max_timestamp() == TimestampOffset(time, -place)


def test_one_segment_of_many_is_read_where_times_rise(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, segment_bytes=4_000, files=files) as log:
        filled(log, range(1_000, 1_000 + 8 * SEGMENTS))
        assert len(log.maintenance.segments) >= SEGMENTS
        log.replica.offset_of_max_timestamp()  # the indexes are loaded
        before = files.counts()
        log.append([(None, VALUE, 5_000)])
        assert log.replica.offset_of_max_timestamp() == TimestampOffset(5_000, 8 * SEGMENTS)
        reads = {name: count - before.get(name, 0) for name, count in files.counts().items() if "read" in name}
        assert 0 < sum(reads.values()) <= 4, reads
