"""Filters, as the classes of PySpark and in a real session: the same rows, and fewer of them read."""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource

import logstore
from logstore.records import TopicPartition
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.partition import read_ranges
from logstore.spark.reading.pushdown import understand
from logstore.spark.source import PushdownReader
from logstore.store.ranges import StoreRanges
from tests.spark import stores

#: A session starts, and Python processes with it, on a machine that may be busy.
pytestmark = pytest.mark.timeout(600)

FIRST = stores.FIRST_TIMESTAMP_MS


def moment(timestamp_ms: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topics ``events`` and ``others``, their partitions in many segments and batches."""
    root = str(tmp_path_factory.mktemp("pushdown") / "store")
    with logstore.open(root, environ={}, retention_ms=-1) as store:
        for name in ("events", "others"):
            topic = store.create_topic(name, partitions=2, settings={"segment.bytes": 2048})
            for n in range(0, 200, 5):
                records = [(b"k", b"v%d" % m, FIRST + m * 1000) for m in range(n, n + 5)]
                topic.append_many([(*record, []) for record in records], partition=n // 5 % 2)
    return root


def reader(path: str, *filters: Any) -> tuple[PushdownReader, list[Any]]:
    made = PushdownReader(ReadOptions.of({"path": path, "subscribe": "events,others", "fetchBytes": "4k"}))
    return made, list(made.pushFilters(list(filters)))


def rows(made: PushdownReader) -> list[dict[str, Any]]:
    found = []
    for part in made.partitions():
        for batch in read_ranges(part, made.options):
            found.extend(batch.to_pylist())
    return found


@functools.cache
def whole(path: str) -> list[dict[str, Any]]:
    found = rows(reader(path)[0])
    assert len(found) == 400
    return found


_columns = st.sampled_from(["topic", "partition", "offset", "timestamp", "timestampType"])
_values = {
    "topic": st.sampled_from(["events", "others", "event", "", "zz"]),
    "partition": st.integers(-1, 3),
    "offset": st.integers(-2, 130),
    "timestamp": st.builds(lambda ms: moment(FIRST + ms / 2), st.integers(-100, 420_000)),
    "timestampType": st.integers(0, 1),
}


@st.composite
def _filters(draw: st.DrawFn) -> Any:
    column = draw(_columns)
    value = _values[column]
    names = ["EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "In"]
    if column == "topic":
        names += ["StringStartsWith", "StringEndsWith", "StringContains"]
    name = draw(st.sampled_from([*names, "IsNull", "IsNotNull"]))
    if name in ("IsNull", "IsNotNull"):
        found = getattr(datasource, name)((column,))
    elif name == "In":
        found = datasource.In((column,), tuple(draw(st.lists(st.none() | value, max_size=3))))
    else:
        null = st.none() if name in ("EqualTo", "EqualNullSafe") else st.nothing()
        found = getattr(datasource, name)((column,), draw(value | null))
    return datasource.Not(found) if draw(st.booleans()) else found


def holds(filter: Any, row: dict[str, Any]) -> bool | None:
    """What SQL says of a row; None is its null."""
    if isinstance(filter, datasource.Not):
        found = holds(filter.child, row)
        return None if found is None else not found
    value, name = row[filter.attribute[0]], type(filter).__name__
    if name in ("IsNull", "IsNotNull"):
        return (value is None) is (name == "IsNull")
    if name == "In":
        return value in filter.value or (None if None in filter.value else False)
    if filter.value is None:
        return False if name == "EqualNullSafe" else None
    return {
        "EqualTo": lambda: value == filter.value,
        "EqualNullSafe": lambda: value == filter.value,
        "GreaterThan": lambda: value > filter.value,
        "GreaterThanOrEqual": lambda: value >= filter.value,
        "LessThan": lambda: value < filter.value,
        "LessThanOrEqual": lambda: value <= filter.value,
        "StringStartsWith": lambda: value.startswith(filter.value),
        "StringEndsWith": lambda: value.endswith(filter.value),
        "StringContains": lambda: filter.value in value,
    }[name]()


@settings(max_examples=60, deadline=None)
@given(filters=st.lists(_filters(), max_size=3))
def test_what_is_not_returned_is_done_to_the_letter_and_nothing_is_lost(path: str, filters: list[Any]) -> None:
    everything = whole(path)
    made, left = reader(path, *filters)
    found = rows(made)
    taken = [one for one in filters if not any(one is other for other in left)]
    assert all(holds(one, row) is True for row in found for one in taken)
    wanted = [row for row in everything if all(holds(one, row) is True for one in filters)]
    assert [row for row in found if all(holds(one, row) is True for one in left)] == wanted


def test_filters_of_other_columns_are_sparks() -> None:
    strange = [
        datasource.EqualTo(("value",), b"x"),
        datasource.EqualTo(("headers", "key"), "x"),
        datasource.EqualTo(("timestamp",), datetime.datetime(2026, 1, 1)),
        datasource.Not(datasource.EqualTo(("offset",), 5)),
        datasource.IsNotNull(("key",)),
    ]
    wanted, left = understand(strange)
    assert left == strange
    assert wanted == understand([])[0]


# --- what is read --------------------------------------------------------------------------------


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int, int]]:
    """(topic, partition, first offset, next offset) of every fetch."""
    found: list[tuple[str, int, int, int]] = []
    plain = StoreRanges.fetch

    def fetch(self: StoreRanges, range: Any, max_bytes: int) -> Any:
        batches = plain(self, range, max_bytes)
        found.append((range.topic, range.partition, range.start, batches.next_offset))
        return batches

    monkeypatch.setattr(StoreRanges, "fetch", fetch)
    return found


@pytest.mark.row("M7")
def test_partitions_and_offsets_that_no_query_wants_are_not_fetched(path: str, fetched: list[Any]) -> None:
    rows(reader(path)[0])
    whole = len(fetched)
    fetched.clear()
    where = (datasource.EqualTo(("topic",), "others"), datasource.EqualTo(("partition",), 1),
             datasource.GreaterThanOrEqual(("offset",), 40), datasource.LessThan(("offset",), 50))  # fmt: skip
    made, left = reader(path, *where)
    assert not left
    assert [row["offset"] for row in rows(made)] == list(range(40, 50))
    assert {(topic, partition) for topic, partition, *_ in fetched} == {("others", 1)}
    assert min(start for _, _, start, _ in fetched) == 40
    assert len(fetched) <= 2 < whole
    assert [part.ranges[0][2:4] for part in made.partitions()] == [(40, 50)]


def test_segments_older_than_a_time_are_not_fetched(path: str, fetched: list[Any]) -> None:
    since = datasource.GreaterThanOrEqual(("timestamp",), moment(FIRST + 180_000))
    made, left = reader(path, since)
    assert left == [since]
    found = rows(made)
    assert len(found) == 40
    assert min(row["timestamp"] for row in found) == moment(FIRST + 180_000)
    assert min(start for _, _, start, _ in fetched) >= 80
    fetched.clear()
    nothing, _ = reader(path, datasource.GreaterThan(("timestamp",), moment(FIRST + 500_000)))
    assert rows(nothing) == []


def test_a_time_before_which_to_read_keeps_rows_from_spark(path: str) -> None:
    made, left = reader(path, before := datasource.LessThan(("timestamp",), moment(FIRST + 10_500)))
    assert left == [before]
    assert {row["timestamp"] for row in rows(made)} == {moment(FIRST + n * 1000) for n in range(11)}


def test_segments_whose_records_are_all_older_are_left_out_at_the_end_too(
    tmp_path: Path, fetched: list[Any]
) -> None:
    path = str(tmp_path / "store")
    with logstore.open(path, environ={}, retention_ms=-1) as store:
        topic = store.create_topic("events", settings={"segment.bytes": 2048})
        for n in itertools.chain(range(100), range(50)):
            topic.append(b"x" * 100, timestamp=FIRST + n * 1000)
    backend = StoreRanges(path)
    whole = PushdownReader(ReadOptions.of({"path": path, "subscribe": "events"}))
    whole.pushFilters([datasource.GreaterThanOrEqual(("timestamp",), moment(FIRST + 90_000))])
    (part,) = whole.partitions()
    assert part.ranges[0].start >= 80
    # The active segment may grow, and is always looked at.
    assert part.ranges[0].end == backend.latest([TopicPartition("events", 0)])[TopicPartition("events", 0)]
    assert len(list(itertools.chain.from_iterable(
        batch.to_pylist() for batch in read_ranges(part, whole.options)))) == 10  # fmt: skip


# --- in a session --------------------------------------------------------------------------------


@pytest.fixture
def pushing(spark: Any) -> Iterator[Any]:
    """The session, with filters handed down."""
    from logstore.spark import PUSHDOWN, register

    register(spark, pushdown=True)
    assert spark.conf.get(PUSHDOWN) == "true"
    yield spark
    spark.conf.unset(PUSHDOWN)
    register(spark)


def table_of(spark: Any, path: str) -> Any:
    return spark.read.format("logstore").options(path=path, subscribe="events,others").load()


def test_a_session_hands_filters_down(pushing: Any, path: str) -> None:
    query = table_of(pushing, path).where("topic = 'events' and partition = 1 and offset between 10 and 19")
    assert sorted(row.offset for row in query.collect()) == list(range(10, 20))
    plan = query._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan, plan
    assert query.rdd.getNumPartitions() == 1
    late = table_of(pushing, path).where(f"timestamp >= timestamp_millis({FIRST + 190_000})")
    assert late.count() == 20
    assert table_of(pushing, path).where("topic like 'oth%' and partition in (0, 7)").count() == 100
    assert table_of(pushing, path).where("offset is null").count() == 0


def test_a_filter_of_one_query_is_not_that_of_the_next(spark: Any, path: str) -> None:
    """Which is why nothing is handed down unless the user asks for it."""
    table = table_of(spark, path)
    whole = table.count()
    part = table.where("partition = 1")
    count = part.count()
    assert 0 < count < whole
    assert table.count() == whole
    assert table.where("partition = 1 or topic = 'others'").count() > count
    assert part.union(table).count() == count + whole
    assert table.where("offset = 0").limit(1).count() == 1
    assert table.select("value").count() == whole


def test_spark_still_keeps_a_filter_for_the_next_query(pushing: Any, path: str) -> None:
    """Its fault, in 4.2 and 4.3: when this fails, `register` may hand filters down again without being asked."""
    table = table_of(pushing, path)
    part = table.where("partition = 1").count()
    assert table.count() == part


def test_what_a_session_has_set_changes_nothing(spark: Any, path: str) -> None:
    from logstore.spark import PUSHDOWN

    for word in ("true", "false"):
        spark.conf.set(PUSHDOWN, word)
        try:
            table = table_of(spark, path)
            assert table.where("topic = 'events' and partition = 1 and offset < 5").count() == 5
            assert table.count() > 100
        finally:
            spark.conf.unset(PUSHDOWN)
