"""How far a stream goes, trigger by trigger, over logs that are only numbers."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.errors import DataLossError
from logstore.records import TopicPartition
from logstore.spark.reading import triggers
from logstore.spark.reading.offsets import StreamOffsets
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.triggers import StreamPlanner
from logstore.testing import ManualClock
from tests.spark.reading.test_plan import Logs

TP = TopicPartition
ZERO, ONE = TP("a", 0), TP("a", 1)


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    made = Logs({ZERO: (0, 100), ONE: (0, 300)}, {"a": "one"})
    made.epochs = {ZERO: {3: 100}, ONE: {3: 300}}
    monkeypatch.setattr(triggers, "backend_of", lambda options: made)
    return made


def follower(clock: Any = None, **more: str) -> StreamPlanner:
    choice = {} if "subscribepattern" in more else {"subscribe": "a"}
    options = ReadOptions.of({"path": "/data", **choice, **more})
    return StreamPlanner(options) if clock is None else StreamPlanner(options, clock)


def grow(logs: Logs, **more: int) -> None:
    for tp, size in zip((ZERO, ONE), more.values(), strict=False):
        first, end = logs.ends[tp]
        logs.ends[tp] = (first, end + size)
        logs.epochs[tp][3] = end + size


def read(made: StreamPlanner, start: StreamOffsets, end: StreamOffsets) -> dict[TP, tuple[int, int]]:
    return {TP(one.topic, one.partition): (one.start, one.end) for one in made.ranges(start, end)}


def test_a_stream_begins_at_the_end_unless_it_is_told_otherwise(logs: Logs) -> None:
    begun = StreamOffsets({ZERO: 100, ONE: 300}, {"a": "one"}, {ZERO: 3, ONE: 3}, is_first=True)
    assert follower().initial() == begun
    assert follower(startingoffsets="earliest").initial().offsets == {ZERO: 0, ONE: 0}
    assert follower(startingoffsets='{"a": {"0": 7, "1": -1}}').initial().offsets == {ZERO: 7, ONE: 300}
    assert follower(startingtimestamp="50").initial().offsets == {ZERO: 50, ONE: 50}


def test_offsets_to_begin_at_that_are_not_there_are_an_error_or_passed_over(logs: Logs) -> None:
    logs.ends[ZERO] = (20, 100)
    with pytest.raises(DataLossError, match="a-0: offsets 7 to 19 are deleted"):
        follower(startingoffsets='{"a": {"0": 7, "1": 0}}').initial()
    begun = follower(startingoffsets='{"a": {"0": 7, "1": 900}}', failondataloss="false").initial()
    assert begun.offsets == {ZERO: 20, ONE: 300}


def test_nothing_new_gives_the_same_offset_to_the_letter(logs: Logs) -> None:
    made = follower()
    start = made.initial()
    assert made.latest(StreamOffsets.of_json(start.to_json())).to_json() == start.to_json()
    logs.epochs[ZERO][4] = 100  # a new leader without records
    assert made.latest(start).to_json() == start.to_json()
    grow(logs, zero=1)
    end = made.latest(start)
    assert end.is_at(StreamOffsets({ZERO: 101, ONE: 300}, {"a": "one"}, {ZERO: 4, ONE: 3}))
    assert StreamOffsets.of_json(end.to_json()) == end


def test_a_first_batch_that_is_done_again_begins_where_it_began(logs: Logs) -> None:
    """Spark asks again where the query begins, which may be elsewhere by now."""
    made = follower(startingoffsets="earliest")
    end = StreamOffsets.of_json(made.latest(made.initial()).to_json())
    assert read(made, made.initial(), end) == {ZERO: (0, 100), ONE: (0, 300)}
    grow(logs, zero=10, one=10)
    again = follower(startingoffsets="latest")
    assert read(again, again.initial(), end) == {ZERO: (0, 100), ONE: (0, 300)}
    assert read(again, end, again.latest(end)) == {ZERO: (100, 110), ONE: (300, 310)}
    then = again.latest(end)
    assert again.latest(StreamOffsets.of_json(then.to_json())).to_json() == then.to_json()
    logs.ends[ZERO] = (50, 110)
    with pytest.raises(DataLossError, match="a-0: offsets 0 to 49 are deleted, the log begins at 50"):
        read(made, made.initial(), end)
    spared = follower(startingoffsets="earliest", failondataloss="false")
    assert read(spared, spared.initial(), end) == {ZERO: (50, 100), ONE: (0, 300)}


def test_limits_are_dealt_out_in_proportion_and_reach_the_end(logs: Logs) -> None:
    made = follower(startingoffsets="earliest", maxoffsetspertrigger="40")
    start = made.initial()
    end = made.latest(start)
    assert end.offsets == {ZERO: 10, ONE: 30}
    assert made.latest(start, everything=True).offsets == {ZERO: 100, ONE: 300}
    batches = 0
    while (end := made.latest(start)) != start:
        assert sum(end.offsets.values()) - sum(start.offsets.values()) <= 42
        start, batches = end, batches + 1
    assert start.offsets == {ZERO: 100, ONE: 300}
    assert 10 <= batches <= 12


def test_bytes_are_a_limit_too_and_the_lower_of_both_holds(logs: Logs) -> None:
    start = follower(startingoffsets="earliest").initial()
    assert follower(maxbytespertrigger="400").latest(start).offsets == {ZERO: 10, ONE: 30}
    both = follower(maxbytespertrigger="400", maxoffsetspertrigger="20")
    assert both.latest(start).offsets == {ZERO: 5, ONE: 15}
    assert follower(maxbytespertrigger="1").latest(start).offsets == {ZERO: 1, ONE: 1}


def test_a_batch_waits_for_enough_records_but_not_for_ever(logs: Logs) -> None:
    clock = ManualClock()
    made = follower(clock, minoffsetspertrigger="50", maxtriggerdelay="10s")
    start = made.initial()
    assert made.latest(start) == start
    grow(logs, zero=10)
    assert made.latest(start) == start, "the first trigger counts from when it went on"
    clock.advance(9_000)
    assert made.latest(start) == start
    clock.advance(1_500)
    assert made.latest(start).offsets[ZERO] == 110
    start = made.latest(start, everything=True)
    grow(logs, zero=10)
    assert made.latest(start) == start
    grow(logs, zero=0, one=45)
    assert made.latest(start).offsets == {ZERO: 120, ONE: 345}


def test_available_now_ends_where_the_log_ended_when_it_began(logs: Logs) -> None:
    made = follower(startingoffsets="earliest", maxoffsetspertrigger="350", minoffsetspertrigger="300")
    made.prepare()
    start = made.initial()
    grow(logs, zero=50, one=50)
    first = made.latest(start)
    second = made.latest(first)
    assert second.offsets == {ZERO: 100, ONE: 300}
    assert made.latest(second).to_json() == second.to_json()
    assert made.newest() == {ZERO: 100, ONE: 300}


def test_new_partitions_and_topics_begin_at_their_earliest_offset(logs: Logs) -> None:
    made = follower(subscribepattern="[ab]")
    start = made.initial()
    logs.ends |= {TP("a", 2): (5, 9), TP("b", 0): (0, 3)}
    end = made.latest(start)
    assert end.offsets == {ZERO: 100, ONE: 300, TP("a", 2): 9, TP("b", 0): 3}
    assert read(made, start, end) == {TP("a", 2): (5, 9), TP("b", 0): (0, 3)}


def test_a_topic_made_again_is_told_by_its_id(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    start = follower().initial()
    logs.ids["a"] = "two"
    logs.ends = {ZERO: (0, 500), ONE: (0, 500)}
    made = follower()
    with pytest.raises(
        DataLossError,
        match=r"topic 'a' was deleted and created again since .*failOnDataLoss.* a new checkpoint",
    ):
        made.latest(start)
    made = follower(failondataloss="false")
    end = made.latest(start)
    assert end.ids == {"a": "two"}
    assert not caplog.text
    assert read(made, start, end) == {ZERO: (0, 500), ONE: (0, 500)}
    assert caplog.text.count("topic 'a' was deleted and created again") == 1


def test_a_batch_that_was_planned_before_the_topic_was_made_again_reads_nothing_of_it(logs: Logs) -> None:
    made = follower(startingoffsets="earliest")
    start = made.initial()
    end = made.latest(start)
    logs.ids["a"] = "two"
    with pytest.raises(DataLossError, match="created again"):
        made.ranges(start, end)
    assert follower(failondataloss="false").ranges(start, end) == []


def test_a_log_that_was_cut_is_told_by_the_end_of_its_epoch(logs: Logs) -> None:
    start = follower().initial()
    logs.epochs[ZERO] = {3: 60, 4: 150}
    logs.ends[ZERO] = (0, 150)
    with pytest.raises(DataLossError, match="a-0: the log was truncated to offset 60 since offset 100 was read"):
        follower().latest(start)
    made = follower(failondataloss="false")
    assert read(made, start, made.latest(start)) == {ZERO: (60, 150)}


def test_an_end_that_lags_behind_for_a_moment_is_no_loss(logs: Logs) -> None:
    start = follower().initial()
    logs.ends[ZERO] = (0, 90)  # its high watermark after a change of leaders; the epoch's end is known
    assert follower().latest(start).offsets == {ZERO: 100, ONE: 300}
    logs.epochs = {}
    with pytest.raises(DataLossError, match="a-0: offset 100 was reached, but the log ends at 90 now"):
        follower().latest(start)


def test_deleted_records_are_named(logs: Logs) -> None:
    start = follower(startingoffsets="earliest").initial()
    logs.ends[ONE] = (40, 300)
    with pytest.raises(DataLossError, match="a-1: offsets 0 to 39 are deleted, the log begins at 40"):
        follower().latest(start)
    made = follower(failondataloss="false")
    assert read(made, start, made.latest(start)) == {ZERO: (0, 100), ONE: (40, 300)}


def test_deleted_topics_and_partitions_are_named(logs: Logs) -> None:
    made = follower(subscribepattern="[ab]")
    logs.ends[TP("b", 0)] = (0, 3)
    start = made.initial()
    del logs.ends[TP("b", 0)]
    with pytest.raises(DataLossError, match="b-0: deleted, or not subscribed"):
        made.latest(start)
    made = follower(subscribepattern="[ab]", failondataloss="false")
    assert made.latest(start).offsets == {ZERO: 100, ONE: 300}
    with pytest.raises(DataLossError, match="a-0, a-1: deleted, or not subscribed to any more, since the"):
        follower(subscribepattern="c").latest(StreamOffsets({ZERO: 1, ONE: 1}))


def test_a_checkpoint_of_sparks_kafka_source_goes_on(logs: Logs) -> None:
    made = follower()
    start = StreamOffsets.of_json({"a": {"0": 90, "1": 300}})
    end = made.latest(start)
    assert end.offsets == {ZERO: 100, ONE: 300}
    assert end.epochs == {ZERO: 3, ONE: -1}
    assert read(made, start, end) == {ZERO: (90, 100)}


def test_ranges_are_split_as_those_of_a_batch(logs: Logs) -> None:
    made = follower(startingoffsets="earliest", minpartitions="8")
    start = made.initial()
    found = made.ranges(start, made.latest(start))
    assert [one.partition for one in found] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert {(one.topic_id, one.leader_epoch) for one in found} == {("one", 3)}
