"""A store's files behind the contract of a back end, with and without a live writer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import logstore
from logstore import Store
from logstore.client.backend.ranges import Range
from logstore.client.scan import spans
from logstore.errors import (
    DataLossError,
    NotALogError,
    OffsetOutOfRangeError,
    SparkOptionError,
    UnknownTopicError,
)
from logstore.records import Isolation, TopicPartition
from logstore.spark.reading.fetches import backend_of, read
from logstore.spark.reading.group_progress import GroupProgress
from logstore.spark.reading.offsets import StreamOffsets
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.plan import plan_batch
from logstore.spark.reading.schema import QueryColumns
from logstore.store.ranges import StoreRanges
from tests.spark import stores

TP = TopicPartition
ZERO = TP("events", 0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    with logstore.open(path, environ={}, housekeeping="manual", retention_ms=-1) as opened:
        yield opened


@pytest.fixture
def backend(store: Store, path: str) -> Iterator[StoreRanges]:
    made = StoreRanges(path)
    yield made
    made.close()


def offsets(backend: StoreRanges, whole: Range, max_bytes: int = 4096) -> list[int]:
    found, start = [], whole.start
    while start < whole.end:
        batches = backend.fetch(whole._replace(start=start), max_bytes)
        found.extend(record.offset for record in batches)
        assert batches.next_offset > start
        start = batches.next_offset
    return found


def test_topics_come_and_go_while_it_is_open(store: Store, backend: StoreRanges) -> None:
    assert backend.topics() == {}
    made = store.create_topic("events", partitions=3)
    assert backend.topic("events") == ("events", made.id, 3)
    store.add_partitions("events", 5)
    assert backend.topics()["events"].partitions == 5
    store.consumer(group="group", auto_offset_reset="earliest").close()
    assert list(backend.topics()) == ["events"], "internal topics are not offered"
    store.delete_topic("events")
    with pytest.raises(UnknownTopicError):
        backend.topic("events")


def test_what_is_appended_is_seen_at_once(store: Store, backend: StoreRanges) -> None:
    topic = store.create_topic("events")
    assert (backend.earliest([ZERO]), backend.latest([ZERO])) == ({ZERO: 0}, {ZERO: 0})
    for n in range(1, 4):
        topic.append_many([b"x"] * 10)
        assert backend.latest([ZERO]) == {ZERO: 10 * n}
    assert offsets(backend, Range("events", 0, 5, 25)) == list(range(5, 25))
    assert not backend.fetch(Range("events", 0, 30, 30), 100)
    with pytest.raises(OffsetOutOfRangeError):
        backend.fetch(Range("events", 0, 0, 31), 100)


def test_a_store_beside_a_writer_in_another_process(path: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    with writer:
        assert writer.stdout.readline() == "ready\n"
        backend = StoreRanges(path)
        for n in range(1, 6):
            writer.stdin.write("go\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"
            assert backend.latest([ZERO]) == {ZERO: 100 * n}
            assert offsets(backend, Range("events", 0, 0, 100 * n)) == list(range(100 * n))
        writer.stdin.close()
        backend.close()


_WRITER = """
import sys, logstore
with logstore.open(sys.argv[1], environ={}) as store:
    topic = store.create_topic("events", settings={"segment.bytes": 4096})
    print("ready", flush=True)
    for line in sys.stdin:
        for n in range(10):
            topic.append_many([b"x" * 50] * 10)
        print("done", flush=True)
"""


def test_retention_and_compaction_go_on_meanwhile(store: Store, backend: StoreRanges) -> None:
    compacted = {"segment.bytes": 1024, "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": 0}
    topic = store.create_topic("events", settings=compacted)
    for n in range(300):
        topic.append(b"v%d" % n, key=b"k%d" % (n % 3))
    assert offsets(backend, Range("events", 0, 0, 300), 300) == list(range(300))
    start = 0
    found = []
    while start < 300:
        batches = backend.fetch(Range("events", 0, start, 300), 200)
        found.extend(record.offset for record in batches)
        start = batches.next_offset
        store.housekeep()
    assert found == sorted(set(found))
    assert found[-1] == 299, "the newest is there"
    left = offsets(backend, Range("events", 0, 0, 300), 300)
    assert len(left) < 300
    topic.delete_records({0: 200})
    assert backend.earliest([ZERO]) == {ZERO: 200}
    with pytest.raises(OffsetOutOfRangeError):
        backend.fetch(Range("events", 0, 100, 300), 100)


def test_a_topic_made_again_is_told_from_the_planned_one(store: Store, backend: StoreRanges) -> None:
    store.create_topic("events").append(b"old")
    planned = Range("events", 0, 0, 1, backend.topic("events").id)
    store.delete_topic("events")
    with pytest.raises(UnknownTopicError):
        backend.fetch(planned, 100)
    store.create_topic("events").append(b"new")
    with pytest.raises(DataLossError, match="topic 'events' was deleted and created again since"):
        backend.fetch(planned, 100)
    assert backend.fetch(planned._replace(topic_id=""), 100).values() == [b"new"]


def test_another_store_in_the_same_place_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with logstore.open(path, environ={}) as first:
        first.create_topic("events")
    backend = StoreRanges(str(path))
    assert backend.is_current()
    path.rename(tmp_path / "away")
    assert not backend.is_current()
    with logstore.open(path, environ={}) as second:
        second.create_topic("others")
    assert not backend.is_current()
    backend.close()


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogError, match="the directory does not exist"):
        StoreRanges(str(tmp_path / "nothing"))
    with pytest.raises(NotALogError):
        StoreRanges(str(tmp_path))


def test_committed_readers_see_no_aborted_and_no_open_transaction(store: Store, path: str) -> None:
    log = store.create_topic("events")[0]
    assert isinstance(log, logstore.Log)
    committed, dirty = StoreRanges(path), StoreRanges(path, Isolation.READ_UNCOMMITTED)
    log.append([b"plain"])
    log.append([b"aborted"] * 3, producer=logstore.log.ProducerStamp(7, 0, 0, transactional=True))
    assert committed.latest([ZERO]) == {ZERO: 1}
    assert dirty.latest([ZERO]) == {ZERO: 4}
    log.replica.append_control(logstore.log.Marker.ABORT, producer_id=7, producer_epoch=0)
    log.append([b"good"] * 2, producer=logstore.log.ProducerStamp(7, 0, 3, transactional=True))
    log.replica.append_control(logstore.log.Marker.COMMIT, producer_id=7, producer_epoch=0)
    end = committed.latest([ZERO])[ZERO]
    assert end == 8
    assert offsets(committed, Range("events", 0, 0, end)) == [0, 5, 6]
    assert offsets(dirty, Range("events", 0, 0, end)) == [0, 1, 2, 3, 5, 6]
    committed.close()
    dirty.close()


def test_times_stand_for_offsets(store: Store, backend: StoreRanges) -> None:
    stores.fill(store)
    times = {TP("events", number): stores.FIRST_TIMESTAMP_MS + 500_000 for number in range(4)}
    assert backend.offsets_for_time(times) == dict.fromkeys(times, 125)
    assert backend.offsets_for_time({ZERO: 2**62}) == {ZERO: None}


# --- epochs --------------------------------------------------------------------------------------


def test_the_end_of_an_epoch_tells_of_records_that_a_crash_took(tmp_path: Path) -> None:
    path, image = tmp_path / "store", tmp_path / "image"
    with logstore.open(path, environ={}) as store:
        topic = store.create_topic("events")
        topic.append_many([b"x"] * 10)
        shutil.copytree(path, image, ignore=shutil.ignore_patterns("logstore.socket"))  # what a power cut leaves
        topic.append_many([b"lost"] * 10)
        backend = StoreRanges(str(path))
        epoch = backend.epoch_at(ZERO)
        assert backend.end_of_epoch(ZERO, epoch) == 20
        assert backend.end_of_epoch(ZERO, epoch + 5) is None
        backend.close()
    shutil.rmtree(path)
    image.rename(path)
    (path / ".lock").unlink()
    with logstore.open(path, environ={}) as store:
        store["events"].append_many([b"y"] * 30)
        backend = StoreRanges(str(path))
        assert backend.latest([ZERO]) == {ZERO: 40}
        assert backend.end_of_epoch(ZERO, epoch) == 10
        assert backend.epoch_at(ZERO) > epoch
        backend.close()


# --- spans ---------------------------------------------------------------------------------------


@pytest.fixture
def many(store: Store) -> Store:
    topic = store.create_topic("events", settings={"segment.bytes": 8192})
    for n in range(120):
        topic.append_many([b"x" * (10 if n < 60 else 190)] * 5)
    return store


def test_a_range_is_split_by_bytes_between_batches(many: Store, backend: StoreRanges) -> None:
    whole = Range("events", 0, 0, 600, "id", 3)
    for parts in (1, 2, 3, 7, 50):
        found = backend.split(whole, parts)
        assert found[0].start == 0
        assert found[-1].end == 600
        assert all(a.end == b.start for a, b in pairwise(found))
        assert len(found) <= parts
        assert {one[4:] for one in found} == {("id", 3)}
        assert all(one.start % 5 == 0 for one in found), "no batch is read twice"
    first, _ = backend.split(whole, 2)
    assert first.end > 400, "the second half of the records has nearly all the bytes"
    log = many["events"][0]
    assert backend.split(whole._replace(start=7, end=8), 4) == [whole._replace(start=7, end=8)]
    assert spans.parts_of(log, 5, 5, 3) == []


def test_a_range_is_cut_where_its_bytes_are_used_up(many: Store, backend: StoreRanges) -> None:
    log = many["events"][0]
    small = log.read(0, max_bytes=1).size
    assert backend.offset_after_bytes(ZERO, 0, 600, 1) == 5
    assert backend.offset_after_bytes(ZERO, 3, 600, 1) == 5
    assert backend.offset_after_bytes(ZERO, 0, 600, small) == 5
    assert backend.offset_after_bytes(ZERO, 0, 600, 3 * small) == 15
    assert backend.offset_after_bytes(ZERO, 0, 600, 4 * small - 1) == 15
    assert backend.offset_after_bytes(ZERO, 0, 600, 1 << 30) == 600
    assert backend.offset_after_bytes(ZERO, 0, 12, 1 << 30) == 12
    assert backend.offset_after_bytes(ZERO, 599, 600, 1) == 600
    start = 0
    while start < 600:
        end = backend.offset_after_bytes(ZERO, start, 600, 5000)
        assert start < end
        sizes = {b.base_offset: b.size for one in log.scan(start, end).chunks() for b in one.batches()}
        assert sum(size for base, size in sizes.items() if base < end) <= 5000
        start = end


def test_a_data_directory_of_kafka_is_read_as_it_is() -> None:
    path = str(Path(__file__).parent.parent.parent / "fixtures" / "kafka-4.3.1")
    given = ReadOptions.of(
        {"path": path, "subscribePattern": "codec-.*|compacted|deleted|transactions|append-time"}
    )
    backend, table = backend_of(given), QueryColumns(given)
    found = {
        one.topic: sum(batch.num_rows for batch in read(one, given, table)) for one in plan_batch(given, backend)
    }
    # Of the records below offset 150 a compaction has left 30; the deleted ones are those below 47.
    codecs = dict.fromkeys(["codec-gzip", "codec-lz4", "codec-none", "codec-snappy", "codec-zstd"], 35)
    assert found == codecs | {"append-time": 7, "compacted": 30, "deleted": 33, "transactions": 34}
    assert backend.earliest([TP("deleted", 0)]) == {TP("deleted", 0): 47}


def test_progress_is_committed_for_a_group_of_the_store_whether_it_is_written_or_not(tmp_path: Path) -> None:
    """By the process that writes it, or by this one; what cannot be committed is a warning."""
    path = str(tmp_path / "data")
    with logstore.open(path) as store:
        store.create_topic("flights").append_many([b"a", b"b", b"c"])
        name = TopicPartition("flights", 0)
        progress = GroupProgress(ReadOptions.of({"path": path, "subscribe": "flights", "commitGroup": "dashboard"}))
        progress.tell(StreamOffsets({name: 2}))
        assert store.committed("dashboard")[name].offset == 2
        assert [each.records for each in store.lag("dashboard")] == [1]
    progress.tell(StreamOffsets({name: 3}))
    with logstore.open(path) as store:
        assert store.committed("dashboard")[name].offset == 3


def test_progress_that_cannot_be_committed_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "data")
    with logstore.open(path) as store:
        store.create_topic("flights")
    progress = GroupProgress(ReadOptions.of({"path": path, "subscribe": "flights", "commitGroup": "dashboard"}))
    for _ in range(3):
        progress.tell(StreamOffsets({TopicPartition("gone", 0): 3}))
    (said,) = (
        record.getMessage() for record in caplog.records if "offsets are not committed" in record.getMessage()
    )
    assert "group=dashboard problem=UnknownTopicError" in said
    progress.tell(StreamOffsets({TopicPartition("flights", 0): 0}))
    progress.tell(StreamOffsets({TopicPartition("gone", 0): 3}))
    assert caplog.text.count("offsets are not committed") == 2


def test_a_batch_query_commits_nothing_and_says_so(tmp_path: Path) -> None:
    given = {"path": str(tmp_path), "subscribe": "flights", "commitGroup": "dashboard"}
    with pytest.raises(SparkOptionError, match=r"commitGroup.*is for streams"):
        ReadOptions.of(given).for_batch()
    with pytest.raises(SparkOptionError, match="commitGroup"):
        ReadOptions.of(given | {"commitGroup": " "})
