"""The programs of a service, an analyst and an operator do what they say. Type checkers see them in `make lint`."""

from __future__ import annotations

import pytest

import logstore
from examples import analysis, operations, service
from logstore.records import TopicPartition
from tests.kit.files import flip

pytestmark = pytest.mark.row("D4", "M9")


def test_the_service_bills_every_order_once_also_after_a_restart(tmp_path):
    orders = [service.Order(f"c{number % 3}", "book", 100) for number in range(30)]
    assert service.serve(tmp_path / "data", orders) == {"c0": 1_000, "c1": 1_000, "c2": 1_000}
    # What was billed before is not billed again.
    assert service.serve(tmp_path / "data", orders[:3]) == {"c0": 100, "c1": 100, "c2": 100}
    with logstore.open(tmp_path / "data", read_only=True) as store:
        assert store["orders"].scan().count() == 33


def test_the_analyst_gets_tables_and_counts(tmp_path):
    assert analysis.fill(tmp_path / "data") == 3 * 24 * 60
    with logstore.open(tmp_path / "data", read_only=True) as store:
        lines = list(analysis.report(store))
    assert lines[0] == "4320 values in 3 partitions, of s0, s1, s2"
    assert lines[1] == "2160 of them since 12:00"
    assert sum(line.startswith("mean of hour") for line in lines) == 3


@pytest.mark.row("O8")
def test_the_operator_sees_what_is_late_and_what_is_damaged_and_copies_what_is_whole(tmp_path):
    with logstore.open(tmp_path / "data", segment_bytes=2_000) as store:
        topic = store.create_topic("orders", 2)
        for number in range(100):
            topic.append_many([(b"%d" % (number % 2), b"x" * 100)])
        store.commit_offsets("late", {TopicPartition("orders", 0): 1})
        # Beside the writer.
        alarms = operations.check(tmp_path / "data", most_records=10)
        assert [alarm.where for alarm in alarms] == ["late in orders-0"]
        operations.rewind(tmp_path / "data", "late", "orders", 50)
        assert operations.back_up(tmp_path / "data", tmp_path / "copy") == 3
        assert operations.keep_a_week(tmp_path / "copy", "orders").startswith("orders keeps 7d")
        assert operations.keep_a_week(tmp_path / "copy", "others").startswith("nothing was changed")
    segment = sorted((tmp_path / "data").glob("orders-*/*.log"))[1]
    flip(segment, 100, 0xFF)
    found = operations.check(tmp_path / "data", most_records=1_000)
    assert [alarm.where for alarm in found] == [segment.parent.name]
