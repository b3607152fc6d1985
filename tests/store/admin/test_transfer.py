"""Records as JSON lines: what is written reads back the same, and what is no record is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore import Record
from logstore.errors import InvalidRecordError
from logstore.log import Log
from logstore.records import TimestampType
from logstore.store.admin.transfer import copy_log, record_of_json, record_to_json
from tests.kit.logs import values_of

DATA = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(DATA, DATA, st.integers(0, 2**63 - 1), st.lists(st.tuples(NAMES, DATA), max_size=3))
def test_a_record_reads_back_as_it_was_written(key, value, timestamp_ms, headers):
    record = Record("flights", 3, 7, timestamp_ms, TimestampType.CREATE_TIME, key, value, headers)
    line = record_to_json(record)
    assert "\n" not in line
    read = record_of_json(line.encode())
    assert (read.key, read.value, read.timestamp_ms, read.partition) == (key, value, timestamp_ms, 3)
    assert list(read.headers) == headers


@given(
    st.fixed_dictionaries(
        {"value": JSON}, optional={"key": JSON, "timestamp": JSON, "headers": JSON, "partition": JSON}
    )
)
def test_any_json_is_a_record_or_is_refused(line):
    try:
        read = record_of_json(json.dumps(line))
    except InvalidRecordError:
        return
    assert read.value is None or isinstance(read.value, bytes)
    assert read.partition is None or read.partition >= 0
    assert all(isinstance(name, str) for name, _ in read.headers)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "5",
        '{"key": "a"}',
        '{"value": "a", "x": 1}',
        "[" * 100_000,
        '{"value": "\\ud800"}',
        '{"value": "a", "headers": [["\\ud800", null]]}',
    ],
)
def test_what_is_no_object_with_a_value_is_refused(line):
    with pytest.raises(InvalidRecordError):
        record_of_json(line)


def test_a_copy_without_its_offsets_leaves_out_what_readers_do_not_see(tmp_path):
    from logstore.log import Marker, ProducerStamp

    with Log.open(tmp_path / "a" / "t-0") as source, Log.open(tmp_path / "b" / "t-0") as target:
        source.append([b"one"])
        source.append([b"aborted"], producer=ProducerStamp(7, 0, 0, transactional=True))
        source.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0)
        source.append([b"two"])
        source.append([b"open"], producer=ProducerStamp(8, 0, 0, transactional=True))
        assert copy_log(source, target) > 0
        assert values_of(target) == [b"one", b"two"]
        assert target.log_end_offset == 2
