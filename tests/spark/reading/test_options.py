"""Options as Spark hands them over: lower-cased names, texts."""

from __future__ import annotations

import pickle

import pytest

from logstore.errors import SparkOptionError
from logstore.records import Isolation, TopicPartition
from logstore.spark.reading.options import _READ, EARLIEST, LATEST, Bound, ReadOptions, duration_ms, size_of

HERE = {"path": "/data", "subscribe": "flights"}


def problems(**options: str) -> dict[str, str]:
    with pytest.raises(SparkOptionError) as raised:
        ReadOptions.of(options)
    return raised.value.problems


def test_two_options_are_enough() -> None:
    options = ReadOptions.of(HERE)
    assert (options.path, options.subscribe, options.bootstrap) == ("/data", ("flights",), None)
    assert options.isolation is Isolation.READ_COMMITTED
    assert options.fail_on_data_loss
    assert options.start is None
    assert options.end is None
    assert options.for_batch() is options


def test_names_are_taken_in_any_case_and_options_can_be_pickled() -> None:
    options = ReadOptions.of({"PATH": "/data", "SubScribe": "a, b,a", "startingoffsets": "Latest"})
    assert options.subscribe == ("a", "b")
    assert options.start == Bound("startingOffsets", word=LATEST)
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_wrong_option_is_named_with_the_nearest_known() -> None:
    found = problems(path="/data", subscribe="a", startingofsets="latest", maxoffsetpertrigger="5", wibble="1")
    assert found == {
        "startingofsets": "unknown; the nearest name is startingOffsets",
        "maxoffsetpertrigger": "unknown; the nearest name is maxOffsetsPerTrigger",
        "wibble": "unknown",
    }


def test_kafkas_settings_pass_through_and_unknown_ones_do_not() -> None:
    options = ReadOptions.of({"kafka.bootstrap.servers": "one:9092,two:9092", "kafka.fetch.max.bytes": "1",
                              "kafka.group.id": "g", "subscribe": "a"})  # fmt: skip
    assert options.bootstrap == "one:9092,two:9092"
    assert options.kafka["fetch.max.bytes"] == "1"
    found = problems(**HERE, **{"kafka.fetch.max.byte": "1", "kafka.key.deserializer": "x"})
    assert found["kafka.fetch.max.byte"] == "unknown; the nearest name is kafka.fetch.max.bytes"
    assert "binary" in found["kafka.key.deserializer"]


def test_isolation_is_said_in_two_ways_that_agree() -> None:
    assert ReadOptions.of({**HERE, "isolation": "read_uncommitted"}).isolation is Isolation.READ_UNCOMMITTED
    both = {**HERE, "kafka.isolation.level": "read_uncommitted"}
    assert ReadOptions.of(both).isolation is Isolation.READ_UNCOMMITTED
    assert "isolation" in problems(**both, isolation="read_committed")
    assert "kafka.isolation.level" in problems(**HERE, **{"kafka.isolation.level": "dirty"})


def test_one_place_and_one_way_to_choose_topics() -> None:
    assert problems(subscribe="a")["path"].startswith("missing")
    assert "bootstrap" in problems(path="/data", bootstrap="h:1", subscribe="a")["path"]
    assert "kafka.bootstrap.servers" in problems(subscribe="a", bootstrap="h:1",
                                                 **{"kafka.bootstrap.servers": "h:2"})["bootstrap"]  # fmt: skip
    assert problems(path="/data")["subscribe"].startswith("missing")
    assert "assign" in problems(path="/data", subscribe="a", assign='{"a": [0]}')["subscribe"]
    assert list(problems(path="/data", subscribe=" , ")) == ["subscribe"]


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("startingOffsets", '{"flights": {"0": 1.5}}', "found 1.5 for partition flights-0"),
        ("startingOffsets", '{"flights": [1]}', "found [1] for topic 'flights'"),
        ("startingOffsets", '{"flights": {"0": -3}}', "found -3"),
        ("startingOffsets", '{"flights": {"zero": 3}}', "partition 'zero'"),
        ("startingOffsets", '{"flights": {', "expected earliest, latest or JSON"),
        ("endingOffsets", "5", "expected earliest, latest or JSON"),
        ("startingTimestamp", "yesterday", "milliseconds since 1970"),
        ("endingOffsetsByTimestamp", '{"flights": {"0": -1}}', "in milliseconds"),
        ("startingOffsetsByTimestampStrategy", "earliest", "error or latest"),
        ("subscribePattern", "flights[", "regular expression"),
        ("assign", '{"flights": []}', "found [] for topic 'flights'"),
        ("maxOffsetsPerTrigger", "0", "expected 1 to"),
        ("maxBytesPerTrigger", "many", "number of bytes"),
        ("maxTriggerDelay", "soon", "15m"),
        ("failOnDataLoss", "yes", "true or false"),
        ("valueSchema", '"int64"', "expected JSON"),
        ("columns", ",", "names with commas"),
        ("fetchBytes", "0", "number of bytes"),
        ("minPartitions", "1e3", "whole number"),
    ],
)
def test_a_malformed_value_is_named_with_what_is_expected(name: str, value: str, said: str) -> None:
    found = problems(**{"path": "/data", name.lower(): value} | ({} if name in ("subscribePattern", "assign")
                                                               else {"subscribe": "flights"}))  # fmt: skip
    assert list(found) == [name]
    assert said in found[name]


def test_a_time_for_all_goes_before_times_for_each_and_those_before_offsets() -> None:
    given = {
        "startingoffsets": "earliest",
        "startingoffsetsbytimestamp": '{"a": {"0": 5}}',
        "startingtimestamp": "7",
    }
    assert ReadOptions.of(HERE | given).start == Bound("startingTimestamp", timestamp_ms=7)
    del given["startingtimestamp"]
    assert ReadOptions.of(HERE | given).start == Bound(
        "startingOffsetsByTimestamp", times={TopicPartition("a", 0): 5}
    )
    del given["startingoffsetsbytimestamp"]
    assert ReadOptions.of(HERE | given).start == Bound("startingOffsets", word=EARLIEST)


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_batch_neither_begins_at_the_latest_nor_ends_at_the_earliest_offset(name: str, as_json: bool) -> None:
    word, number = ("latest", LATEST) if name.startswith("start") else ("earliest", EARLIEST)
    options = ReadOptions.of({**HERE, name: f'{{"flights": {{"0": {number}}}}}' if as_json else word})
    with pytest.raises(SparkOptionError, match=name):
        options.for_batch()


def test_sizes_and_times_are_written_as_spark_writes_them() -> None:
    assert [size_of(text) for text in ("5", "2k", "1 MiB", "1g", "3kb")] == [5, 2048, 1 << 20, 1 << 30, 3072]
    assert [duration_ms(text) for text in ("5", "5ms", "2s", "15m", "1h", "1d")] == [
        5, 5, 2000, 900_000, 3_600_000, 86_400_000]  # fmt: skip


def test_all_names_of_sparks_kafka_source_are_known() -> None:
    kafkas = [
        "assign",
        "subscribe",
        "subscribePattern",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "endingOffsets",
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "startingOffsetsByTimestampStrategy",
        "includeHeaders",
        "groupIdPrefix",
    ]
    assert set(kafkas) <= set(_READ)
