"""What the strategies give is what the library takes, or refuses where they say so."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings

from logstore import Log, LogConfig
from logstore.batch._batch import BatchView
from logstore.errors import InvalidTopicError
from logstore.log import Batches
from logstore.testing import SimDisk, strategies, temporary_store
from logstore.topic_names import check_name, check_partition_count


@given(strategies.topic_names(), strategies.partition_counts())
def test_names_and_counts_are_allowed(name: str, count: int) -> None:
    assert check_name(name) == name
    assert check_partition_count(count) == count


@given(strategies.bad_topic_names())
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        check_name(name)


@given(strategies.batches())
def test_batches_are_whole(data: bytes) -> None:
    view = BatchView(data).check()
    records = list(Batches(data))
    assert len(records) == view.record_count
    with Log.open("/data/t-0", files=SimDisk()) as log:
        assert log.replica.append_batch(data).last_offset == len(records) - 1


@given(strategies.log_settings(workable=False))
def test_every_setting_is_in_its_range(given: dict[str, Any]) -> None:
    LogConfig.of(given)


@settings(max_examples=30)
@given(strategies.log_settings(), strategies.record_lists())
def test_records_come_back_as_they_went_in_under_workable_settings(given: dict[str, Any], records: Any) -> None:
    with temporary_store() as store:
        topic = store.create_topic("t", 1, given)
        topic.append_many(records)
        store.flush()
        found = list(topic.scan())
        assert [(record.key, record.value, tuple(record.headers)) for record in found] == [
            (key, value, headers) for key, value, _, headers in records
        ]
        if given.get("message.timestamp.type") != "logappendtime":
            assert [record.timestamp_ms for record in found] == [row[2] for row in records]


def test_hypothesis_and_pytest_are_imported_on_request() -> None:
    script = (
        "import sys, logstore, logstore.testing\n"
        "from logstore.testing import temporary_store, SimDisk, ManualClock, FaultyFiles\n"
        "with temporary_store() as store: store.create_topic('t')\n"
        "assert not {'hypothesis', 'pytest', 'pyarrow', 'click'} & set(sys.modules)\n"
        "import logstore.testing.strategies\n"
        "assert 'hypothesis' in sys.modules and 'pytest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
