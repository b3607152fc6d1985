"""Rows of Arrow data become records of the right partitions, in their order, in batches of a sensible size."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.batch._batch import Batches, BatchView
from logstore.batch._encode import Encoder
from logstore.batch._key_hash import partition_of
from logstore.client.backend.batch_appends import BatchRules
from logstore.config.log import LogConfig
from logstore.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordTypeError,
    SparkColumnsError,
    UnexpectedOffsetError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.records import Codec
from logstore.spark.writing import rows as rows_module
from logstore.spark.writing.columns import check_columns
from logstore.spark.writing.rows import Keyless, Rows, TargetTopic

NOW = 1_700_000_000_000
TIME = pa.timestamp("us", "UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Sink:
    """An outlet that keeps every batch."""

    def __init__(self, *targets: TargetTopic, **choices: Any) -> None:
        self.written: dict[tuple[str, int], list[bytes]] = {}
        self.rows = Rows({target.name: target for target in targets}, self.take, clock=lambda: NOW, **choices)

    def take(self, target: TargetTopic, partition: int, encoder: Encoder) -> None:
        # Each batch by itself: they all have base offset 0, as if each were the first of its log.
        data = bytes(encoder)
        while data:
            size = int.from_bytes(data[8:12], "big") + 12
            self.written.setdefault((target.name, partition), []).append(data[:size])
            data = data[size:]

    def records(self, topic: str, partition: int) -> list[Any]:
        return [record for data in self.written.get((topic, partition), []) for record in Batches(data)]

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        return [record.value for record in self.records(topic, partition)]

    def batch_count(self, topic: str, partition: int) -> int:
        return len(self.written.get((topic, partition), []))


def target(name: str = "t", partitions: int = 4, codec: Codec | None = None, **config: Any) -> TargetTopic:
    return TargetTopic.of(name, f"id-{name}", partitions, BatchRules.of(LogConfig(**config)), codec)


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def written(sink: Sink, *batches: pa.RecordBatch) -> Sink:
    for batch in batches:
        sink.rows.add(batch)
    sink.rows.finish()
    return sink


# --- columns


GOOD = [
    ("value", "binary"),
    ("key", "string"),
    ("headers", "array<struct<key:string,value:binary>>"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]


def test_what_a_read_gives_may_be_written() -> None:
    check_columns(GOOD, topic=None, replay=False)
    check_columns(GOOD, topic=None, replay=True)
    check_columns([("value", "string")], topic="t", replay=False)


@pytest.mark.parametrize(
    ("columns", "topic", "replay", "said"),
    [
        ([("key", "binary")], "t", False, {"value": "is missing.*to_json"}),
        ([("value", "int")], "t", False, {"value": "has the type int, expected binary or string; cast it"}),
        ([("value", "binary")], None, False, {"topic": "is missing, and so is the option topic"}),
        (
            [("value", "binary"), ("kye", "string"), ("user", "string")],
            "t",
            False,
            {"kye": "the nearest name is key", "user": "unknown.*drop it, or put it into the value"},
        ),
        (
            [
                ("value", "binary"),
                ("partition", "bigint"),
                ("timestamp", "bigint"),
                ("headers", "map<string,string>"),
            ],
            "t",
            False,
            {
                "partition": 'expected int; cast it: col\\("partition"\\).cast\\("int"\\)',
                "timestamp": "has the type bigint, expected timestamp",
                "headers": "has the type map<string,string>, expected array<struct<key:string,value:binary>>",
            },
        ),
        ([("value", "binary"), ("value", "binary")], "t", False, {"value": "occurs twice"}),
        (
            [("value", "binary"), ("offset", "int")],
            "t",
            True,
            {
                "topic": "missing; a replay",
                "partition": "missing",
                "offset": "expected bigint",
                "timestamp": "missing",
            },
        ),
    ],
)
def test_columns_that_cannot_be_written_are_all_named(
    columns: list[tuple[str, str]], topic: str | None, replay: bool, said: dict[str, str]
) -> None:
    with pytest.raises(SparkColumnsError) as caught:
        check_columns(columns, topic=topic, replay=replay)
    assert set(caught.value.problems) == set(said)
    for name, pattern in said.items():
        assert re.search(pattern, caught.value.problems[name])
        assert f"{name}: {caught.value.problems[name]}" in str(caught.value)


# --- where rows go


@st.composite
def tables(draw: Any) -> list[dict[str, Any]]:
    count = draw(st.integers(0, 40))
    return [
        {
            "topic": draw(st.sampled_from(["a", "b", "c"])),
            "key": draw(st.none() | st.binary(max_size=6)),
            "value": draw(st.none() | st.binary(max_size=20)),
            "partition": draw(st.none() | st.integers(0, 2)),
            "timestamp": draw(st.none() | st.integers(NOW - 5_000, NOW + 5_000)),
            "headers": draw(
                st.none() | st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2)
            ),
        }
        for _ in range(count)
    ]


def arrow(table: list[dict[str, Any]], *names: str) -> pa.RecordBatch:
    kinds = {
        "topic": pa.string(),
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "timestamp": TIME,
        "headers": HEADERS,
        "offset": pa.int64(),
    }
    columns = {name: [row[name] for row in table] for name in names}
    if "timestamp" in names:
        columns["timestamp"] = [None if ms is None else ms * 1000 for ms in columns["timestamp"]]
    if "headers" in names:
        columns["headers"] = [
            None if pairs is None else [{"key": key, "value": value} for key, value in pairs]
            for pairs in columns["headers"]
        ]
    return pa.RecordBatch.from_arrays([pa.array(columns[name], kinds[name]) for name in names], names=list(names))


@pytest.mark.row("D5")
@settings(max_examples=120)
@given(tables(), st.lists(st.integers(0, 40), max_size=3), st.integers(0, 5), st.sampled_from([None, Codec.LZ4]))
def test_each_partition_gets_its_rows_in_their_order(
    table: list[dict[str, Any]], cuts: list[int], seed: int, codec: Codec | None
) -> None:
    sink = Sink(*(target(name, 3, codec) for name in "abc"), seed=seed)
    whole = arrow(table, "topic", "key", "value", "partition", "timestamp", "headers")
    bounds = [0, *sorted(min(cut, len(table)) for cut in cuts), len(table)]
    written(sink, *(whole.slice(start, end - start) for start, end in itertools.pairwise(bounds)))

    for topic in "abc":
        for partition in range(3):
            expected = [
                (
                    row["key"],
                    row["value"],
                    NOW if row["timestamp"] is None else row["timestamp"],
                    row["headers"] or [],
                )
                for row in table
                if row["topic"] == topic and partition == _place(row, seed)
            ]
            found = [
                (record.key, record.value, record.timestamp_ms, list(record.headers))
                for record in sink.records(topic, partition)
            ]
            assert found == expected


def _place(row: dict[str, Any], seed: int) -> int:
    if row["partition"] is not None:
        return row["partition"]
    return seed % 3 if row["key"] is None else partition_of(row["key"], 3)


def test_the_option_topic_wins_over_the_column() -> None:
    sink = written(Sink(target("a", 1), topic="a"), batch_of(topic=["x", None], value=[b"1", b"2"]))
    assert sink.values("a", 0) == [b"1", b"2"]


def test_text_columns_are_written_as_utf8() -> None:
    sink = written(Sink(target("a", 1), topic="a"), batch_of(key=["é"], value=["ü"]))
    assert [(record.key, record.value) for record in sink.records("a", 0)] == [("é".encode(), "ü".encode())]


def test_topics_that_there_are_not_are_all_named_with_advice() -> None:
    sink = Sink(target("a"), target("b"))
    with pytest.raises(
        UnknownTopicError, match=r"topic 'x', 'y' does not exist .there are: a, b.; create it with"
    ) as caught:
        sink.rows.add(batch_of(topic=["y", "a", "x"], value=[b"1", b"2", b"3"]))
    assert "logstore topic create" in str(caught.value)


def test_a_row_without_topic_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="1 rows have no topic; fill the column topic"):
        Sink(target("a")).rows.add(batch_of(topic=["a", None], value=[b"1", b"2"]))


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partition_that_there_is_not_is_refused(partition: int) -> None:
    rows = batch_of(value=[b"1", b"2", b"3"], partition=pa.array([0, None, partition], pa.int32()))
    with pytest.raises(UnknownPartitionError, match="topic 't': partitions are 0 to 3"):
        Sink(target(), topic="t").rows.add(rows)


def test_rows_without_key_stay_with_a_partition_until_it_has_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "FLUSH_BYTES", 10_000)
    sink = Sink(target(partitions=3), topic="t", seed=4)
    written(sink, *(batch_of(value=[bytes(1_000)] * 4) for _ in range(6)))
    # Three pieces make a batch, then the next partition has its turn.
    assert {place: len(sink.records(*place)) for place in sink.written} == {("t", 1): 12, ("t", 2): 12}


@pytest.mark.parametrize("ignore_keys", [False, True])
def test_kafkas_other_partitioners(ignore_keys: bool) -> None:
    sink = Sink(target(partitions=3), topic="t", keyless=Keyless(ignore_keys, in_turn=True), seed=1)
    data = {"key": pa.array([None, b"k", None, None], pa.binary()), "value": [b"0", b"1", b"2", b"3"]}
    written(sink, batch_of(**data), batch_of(**data))
    everything = [sink.values("t", partition) for partition in range(3)]
    if ignore_keys:
        assert everything == [[b"2", b"1"], [b"0", b"3", b"2"], [b"1", b"0", b"3"]]
    else:
        mine = partition_of(b"k", 3)
        turn = [b"0", b"2", b"3", b"0", b"2", b"3"]
        for partition in range(3):
            free = [value for value in everything[partition] if value != b"1"]
            assert free == turn[(partition - 1) % 3 :: 3]
            assert everything[partition].count(b"1") == (2 if partition == mine else 0)


def test_keys_can_be_passed_over_and_partitions_named_all_the_same() -> None:
    sink = Sink(target(partitions=3), topic="t", keyless=Keyless(ignore_keys=True), seed=1)
    data = {"key": [b"a", b"b", b"c"], "value": [b"0", b"1", b"2"]}
    written(sink, batch_of(**data, partition=pa.array([2, None, None], pa.int32())))
    assert [sink.values("t", partition) for partition in range(3)] == [[], [b"1", b"2"], [b"0"]]


# --- batches


def test_small_arrow_batches_do_not_make_small_record_batches() -> None:
    sink = Sink(target(partitions=2), topic="t")
    written(
        sink, *(batch_of(value=[bytes(100)] * 50, partition=pa.array([0, 1] * 25, pa.int32())) for _ in range(400))
    )
    assert [len(sink.records("t", partition)) for partition in (0, 1)] == [10_000, 10_000]
    assert [sink.batch_count("t", partition) for partition in (0, 1)] == [3, 3]


def test_a_batch_stays_within_the_limit_of_the_topic() -> None:
    sink = written(
        Sink(target(partitions=1, max_message_bytes=2_000), topic="t"), batch_of(value=[bytes(100)] * 100)
    )
    assert max(map(len, sink.written["t", 0])) <= 2_000
    assert len(sink.records("t", 0)) == 100


def test_a_task_holds_little_whatever_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "FLUSH_BYTES", 50_000)
    monkeypatch.setattr(rows_module, "TASK_BYTES", 200_000)
    sink = Sink(target(partitions=100), topic="t")
    places = pa.array(list(range(100)) * 10, pa.int32())
    most = 0
    for _ in range(30):
        sink.rows.add(batch_of(value=[bytes(100)] * 1_000, partition=places))
        held = sum(
            encoder.pending_bytes for share in sink.rows._shares.values() for encoder in share._encoders.values()
        )
        most = max(most, held)
    assert most <= 200_000
    sink.rows.finish()
    assert sum(len(sink.records(*place)) for place in sink.written) == 30_000


def test_the_topic_imposes_its_codec_and_else_the_writer_chooses() -> None:
    def codec_of(one: TargetTopic) -> Codec:
        sink = written(Sink(one, topic="t"), batch_of(value=[b"a" * 500]))
        return BatchView(sink.written["t", 0][0]).codec

    assert codec_of(target(partitions=1)) is Codec.NONE
    assert codec_of(target(partitions=1, codec=Codec.ZSTD)) is Codec.ZSTD
    assert codec_of(target(partitions=1, codec=Codec.ZSTD, compression_type="lz4")) is Codec.LZ4
    assert codec_of(target(partitions=1, codec=Codec.ZSTD, compression_type="uncompressed")) is Codec.NONE


def test_nothing_gives_nothing() -> None:
    assert written(Sink(target(), topic="t"), batch_of(value=pa.array([], pa.binary()))).written == {}


# --- rules of a topic


def test_a_null_key_for_a_compacted_topic_is_refused_with_its_name() -> None:
    sink = Sink(target("latest", cleanup_policy="compact"), topic="latest")
    sink.rows.add(batch_of(key=pa.array([b"k", None], pa.binary()), value=[b"1", b"2"]))
    with pytest.raises(InvalidRecordError, match=r"1 rows without key for topic 'latest'.*give each row a key"):
        sink.rows.finish()
    assert all(None not in sink.values(*place) for place in sink.written)


@pytest.mark.parametrize(("ms", "setting"), [(NOW + 3_600_001, "after"), (NOW - 1_001, "before")])
def test_times_that_the_topic_does_not_take_are_refused(ms: int, setting: str) -> None:
    sink = Sink(target(message_timestamp_before_max_ms=1_000), topic="t")
    sink.rows.add(batch_of(value=[b"1"], timestamp=pa.array([ms * 1000], TIME)))
    with pytest.raises(
        InvalidTimestampError, match=f"topic 't': timestamp {ms} is .*message.timestamp.{setting}.max.ms"
    ):
        sink.rows.finish()


def test_the_log_gives_the_time_where_its_topic_says_so() -> None:
    sink = Sink(target(partitions=1, message_timestamp_type="logappendtime"), topic="t")
    written(sink, batch_of(value=[b"1"], timestamp=pa.array([5_000], TIME)))
    assert [record.timestamp_ms for record in sink.records("t", 0)] == [NOW]


def test_a_wrong_row_is_named_with_its_topic() -> None:
    with pytest.raises(RecordTypeError) as caught:
        Sink(target(), topic="t").rows.add(
            batch_of(value=[b"1"], headers=pa.array([[{"key": None, "value": b""}]], HEADERS))
        )
    assert caught.value.__notes__ == ["in record 0 of this append", "for topic 't'"]


# --- replay


def replayed(table: list[dict[str, Any]]) -> pa.RecordBatch:
    return arrow(table, "topic", "partition", "offset", "timestamp", "key", "value", "headers")


@pytest.mark.row("U13")
def test_a_replay_keeps_offsets_with_their_gaps_and_times() -> None:
    table = [
        {
            "topic": topic,
            "partition": partition,
            "offset": 10 + 3 * number + number % 2,
            "timestamp": number * 17,
            "key": None,
            "value": b"%d" % number,
            "headers": [("n", b"%d" % number)],
        }
        for topic in "ab"
        for partition in (0, 2)
        for number in range(100)
    ]
    sink = Sink(target("a", 3, message_timestamp_before_max_ms=1), target("b", 3), replay=True)
    whole = replayed(table)
    written(sink, *(whole.slice(start, 70) for start in range(0, len(table), 70)))
    found = [
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": record.key,
            "value": record.value,
            "headers": list(record.headers),
        }
        for topic, partition in sink.written
        for record in sink.records(topic, partition)
    ]
    assert found == table
    # Gaps cost no batches.
    assert {sink.batch_count(*place) for place in sink.written} == {1}


@pytest.mark.parametrize("apart", [False, True])
def test_a_replay_out_of_order_says_how_to_sort(apart: bool) -> None:
    row = {"topic": "t", "partition": 0, "timestamp": 1, "key": None, "value": b"", "headers": None}
    rows = [{**row, "offset": 7}, {**row, "offset": 6}]
    sink = Sink(target(), replay=True)
    parts = [rows[:1], rows[1:]] if apart else [rows]
    for part in parts[:-1]:
        sink.rows.add(replayed(part))
    with pytest.raises(UnexpectedOffsetError, match=r"offset 6 comes after offset 7.*sortWithinPartitions\("):
        sink.rows.add(replayed(parts[-1]))


@pytest.mark.parametrize("name", ["partition", "offset", "timestamp"])
def test_a_replay_needs_every_row_whole(name: str) -> None:
    row = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 1, "key": None, "value": b"", "headers": None}
    with pytest.raises(InvalidRecordError, match=f"1 rows for topic 't' have no {name}"):
        Sink(target(), replay=True).rows.add(replayed([row | {name: None}]))
