"""What is read and how it is dealt out, without Spark and mostly without a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._batch import Batches
from logstore.client.backend.ranges import Range, RangeBackend, RangeTopic
from logstore.errors import DataLossError, SparkOptionError, UnknownPartitionError, UnknownTopicError
from logstore.records import TopicPartition
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.plan import plan_batch, split
from logstore.spark.reading.triggers import share

TP = TopicPartition


class Logs(RangeBackend):
    """Logs that are only numbers: (start, end) for each partition, record ``n`` at ``n`` milliseconds, 10 bytes."""

    def __init__(self, ends: Mapping[TP, tuple[int, int]], ids: Mapping[str, str] | None = None) -> None:
        self.ends = dict(ends)
        self.ids = dict(ids or {})
        self.epochs: dict[TP, dict[int, int]] = {}

    def topics(self) -> dict[str, RangeTopic]:
        names = sorted({tp.topic for tp in self.ends})
        return {
            name: RangeTopic(name, self.ids.get(name, ""), sum(tp.topic == name for tp in self.ends))
            for name in names
        }

    def topic(self, name: str) -> RangeTopic:
        if name not in self.topics():
            raise UnknownTopicError(name)
        return self.topics()[name]

    def earliest(self, partitions: Iterable[TP]) -> dict[TP, int]:
        return {tp: self.ends[tp][0] for tp in partitions}

    def latest(self, partitions: Iterable[TP]) -> dict[TP, int]:
        return {tp: self.ends[tp][1] for tp in partitions}

    def offsets_for_time(self, times: Mapping[TP, int]) -> dict[TP, int | None]:
        return {tp: max(time, self.ends[tp][0]) if time < self.ends[tp][1] else None for tp, time in times.items()}

    def epoch_at(self, tp: TP) -> int:
        return max(self.epochs.get(tp, {-1: 0}))

    def end_of_epoch(self, tp: TP, epoch: int) -> int | None:
        return self.epochs.get(tp, {}).get(epoch)

    def offset_after_bytes(self, tp: TP, start: int, end: int, max_bytes: int) -> int:
        return min(start + max(max_bytes // 10, 1), end)

    def split(self, range: Range, parts: int) -> list[Range]:
        step = -(-(range.end - range.start) // parts)
        cuts = [*_steps(range.start, range.end, step), range.end]
        return [range._replace(start=a, end=b) for a, b in pairwise(cuts)]

    def prune_by_time(self, range: Range, since_ms: int | None, until_ms: int | None) -> Range:
        start = range.start if since_ms is None else max(range.start, since_ms)
        end = range.end if until_ms is None else min(range.end, until_ms)
        return range._replace(start=min(start, end), end=end)

    def fetch(self, range: Range, max_bytes: int) -> Batches:
        raise AssertionError("planning fetches nothing")

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        raise AssertionError("a plan commits nothing")

    def close(self) -> None: ...


def _steps(start: int, end: int, step: int) -> list[int]:
    return list(range(start, end, step))


LOGS = Logs({TP("a", 0): (0, 100), TP("a", 1): (10, 30), TP("b", 0): (0, 0)}, {"a": "id-a"})


def options(**more: str) -> ReadOptions:
    choice = {} if {"subscribePattern", "assign"} & set(more) else {"subscribe": "a"}
    return ReadOptions.of({"path": "/data", **choice, **more})


def planned(logs: RangeBackend = LOGS, **more: str) -> dict[tuple[str, int], tuple[int, int]]:
    return {(range.topic, range.partition): (range.start, range.end) for range in plan_batch(options(**more), logs)}


def test_a_batch_reads_all_that_there_is_and_plans_nothing_for_what_is_empty() -> None:
    assert planned() == {("a", 0): (0, 100), ("a", 1): (10, 30)}
    assert planned(subscribe="b") == {}
    assert [range.topic_id for range in plan_batch(options(), LOGS)] == ["id-a", "id-a"]


def test_topics_are_chosen_by_name_by_pattern_or_by_partition() -> None:
    assert set(planned(subscribe="a,b")) == {("a", 0), ("a", 1)}
    assert set(planned(subscribePattern="[ac]")) == {("a", 0), ("a", 1)}
    assert planned(subscribePattern="aa.*") == {}
    assert planned(assign='{"a": [1]}') == {("a", 1): (10, 30)}
    with pytest.raises(UnknownTopicError, match="topic 'c', 'd' does not exist; there are a, b"):
        planned(subscribe="d,a,c")
    with pytest.raises(UnknownPartitionError, match="partition a-2, a-7 does not exist; 'a' has 2"):
        planned(assign='{"a": [7, 1, 2]}')


def test_offsets_are_given_for_every_partition() -> None:
    assert planned(startingOffsets='{"a": {"0": 40, "1": -2}}', endingOffsets='{"a": {"0": 50, "1": -1}}') == {
        ("a", 0): (40, 50),
        ("a", 1): (10, 30),
    }
    with pytest.raises(
        SparkOptionError, match=r"startingOffsets: every partition must be named.*a-1 left out.*-2 for"
    ):
        planned(startingOffsets='{"a": {"0": 40}}')
    with pytest.raises(SparkOptionError, match=r"endingOffsets: .*a-2, x-0 not subscribed"):
        planned(endingOffsets='{"a": {"0": 40, "1": 20, "2": 1}, "x": {"0": 1}}')


def test_an_end_before_the_start_reads_nothing() -> None:
    assert planned(startingOffsets='{"a": {"0": 40, "1": 20}}', endingOffsets='{"a": {"0": 30, "1": 20}}') == {}


def test_times_stand_for_the_first_record_as_new() -> None:
    assert planned(startingTimestamp="20", endingTimestamp="60") == {("a", 0): (20, 60), ("a", 1): (20, 30)}
    assert planned(startingOffsetsByTimestamp='{"a": {"0": 99, "1": 29}}') == {
        ("a", 0): (99, 100),
        ("a", 1): (29, 30),
    }


def test_a_starting_time_that_no_record_has_reached_is_an_error_or_the_end() -> None:
    with pytest.raises(
        SparkOptionError, match=r"startingTimestamp: no record of a-1 is as new as 1970.*\.050.*latest"
    ):
        planned(startingTimestamp="50")
    assert planned(startingTimestamp="50", startingOffsetsByTimestampStrategy="latest") == {("a", 0): (50, 100)}


@pytest.mark.parametrize(
    "start, end, said, left",
    [
        ({"0": 0, "1": 3}, {"0": 5, "1": 20}, "a-1: offsets 3 to 9 are deleted, the log begins at 10",
         {("a", 0): (0, 5), ("a", 1): (10, 20)}),
        ({"0": 0, "1": 3}, {"0": 5, "1": 7}, "a-1: offsets 3 to 6 are deleted, the log begins at 10",
         {("a", 0): (0, 5)}),
        ({"0": 0, "1": 10}, {"0": 101, "1": 30}, "a-0: offsets 101 and before were asked for, the log ends at 100",
         {("a", 0): (0, 100), ("a", 1): (10, 30)}),
        ({"0": 200, "1": 10}, {"0": -1, "1": 30}, "a-0: offsets 200 and before", {("a", 1): (10, 30)}),
    ],
)  # fmt: skip
def test_what_is_not_there_is_an_error_that_names_it_or_passed_over(
    start: dict[str, int], end: dict[str, int], said: str, left: object, caplog: pytest.LogCaptureFixture
) -> None:
    import json

    given = {"startingOffsets": json.dumps({"a": start}), "endingOffsets": json.dumps({"a": end})}
    with pytest.raises(DataLossError, match=said) as raised:
        planned(**given)
    assert "checkpoint" not in str(raised.value)  # a batch query has none
    assert planned(**given, failOnDataLoss="false") == left
    assert said in caplog.text


# --- dealt out ---------------------------------------------------------------------------------


def test_one_task_for_each_partition() -> None:
    ranges = plan_batch(options(), LOGS)
    assert split(ranges, options(), LOGS) == ranges
    assert split(ranges, options(minPartitions="2"), LOGS) == ranges


_sizes = st.lists(st.integers(0, 500), min_size=1, max_size=6)


@given(_sizes, st.integers(1, 40), st.integers(1, 200))
def test_a_split_covers_everything_once_and_keeps_its_limits(sizes: list[int], least: int, most: int) -> None:
    logs = Logs({TP("a", number): (7, 7 + size) for number, size in enumerate(sizes)})
    ranges = plan_batch(options(), logs)
    for more in ({"minPartitions": str(least)}, {"maxRecordsPerPartition": str(most)},
                 {"minPartitions": str(least), "maxRecordsPerPartition": str(most)}):  # fmt: skip
        parts = split(ranges, options(**more), logs)
        assert all(part.start < part.end for part in parts)
        covered = [(part.partition, offset) for part in parts for offset in range(part.start, part.end)]
        assert covered == [(n, offset) for n, size in enumerate(sizes) for offset in range(7, 7 + size)]
        if "maxRecordsPerPartition" in more:
            assert all(part.end - part.start <= most for part in parts)
        elif sum(sizes):
            assert len(parts) <= max(least + len(sizes), len(sizes))


def test_the_larger_partition_is_split_more() -> None:
    parts = split(plan_batch(options(), LOGS), options(minPartitions="6"), LOGS)
    assert [part.partition for part in parts] == [0, 0, 0, 0, 0, 1]


@given(st.dictionaries(st.builds(TP, st.just("a"), st.integers(0, 9)), st.integers(0, 1000)), st.integers(1, 2000))
def test_a_limit_is_dealt_out_in_proportion_and_starves_no_partition(lags: dict[TP, int], limit: int) -> None:
    parts = share(limit, lags)
    assert all(0 <= parts[tp] <= lag and (parts[tp] > 0) == (lag > 0) for tp, lag in lags.items())
    total = sum(lags.values())
    if total <= limit:
        assert parts == lags
    else:
        # A partition that lags at all gets one, as in Spark's Kafka source.
        assert sum(parts.values()) <= limit + len(lags)
        assert all(abs(parts[tp] - limit * lag / total) <= 1 for tp, lag in lags.items())
