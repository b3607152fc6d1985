"""Every setting that is honoured changes what its page says it changes: one small observation for each.

What is seen with the setting is compared with what is seen without it. Settings whose effect has a test of its
own in the place where it belongs are listed with that test; what only replication will use is named as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore import ConsumerConfig, LogConfig, ProducerConfig, StoreConfig
from logstore.config.schema import keys_of
from logstore.errors import LogstoreError, PolicyViolationError, UnknownTopicError
from logstore.log import Log
from logstore.log.tools import verify
from logstore.records import TopicPartition
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles

pytestmark = pytest.mark.row("K1")

TESTS = Path(__file__).resolve().parent.parent
HOUR_MS = 3_600_000

#: Key -> (a value, what is seen of a store or topic with it).
Probe = Callable[[Path, dict[str, Any]], Any]


class World:
    """A store with a topic ``t`` and a clock that stands still."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.store = logstore.open(path / "data", settings, clock=self.clock, files=self.files, environ={})

    def __enter__(self) -> World:
        self.topic = self.store.create_topic("t", if_not_exists=True)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.store.close()

    @property
    def log(self) -> Log:
        log = self.topic[0]
        assert isinstance(log, Log)
        return log

    def fill(self, count: int = 40, step_ms: int = 0) -> None:
        for number in range(count):
            self.topic.append(b"%0100d" % number, b"k%d" % (number % 3))
            self.clock.advance(step_ms)

    def refused(self, call: Callable[[], object]) -> bool:
        try:
            call()
        except LogstoreError:
            return True
        return False


def seen(**options: Any) -> Callable[[Callable[[World], Any]], Probe]:
    """An observation of a world that has the setting, and ``options`` besides."""

    def decorate(look: Callable[[World], Any]) -> Probe:
        def probe(path: Path, settings: dict[str, Any]) -> Any:
            with World(path, {**{k.replace("__", "."): v for k, v in options.items()}, **settings}) as world:
                return look(world)

        return probe

    return decorate


# --- what is seen ------------------------------------------------------------------------------


@seen()
def segment_count(world: World) -> int:
    world.fill()
    return world.log.maintenance.segment_count


@seen()
def segments_of_days(world: World) -> int:
    world.fill(10, step_ms=HOUR_MS)
    return world.log.maintenance.segment_count


@seen(index__interval__bytes=0)
def segments_by_index(world: World) -> int:
    world.fill()
    return world.log.maintenance.segment_count


@seen()
def index_entries(world: World) -> int:
    world.fill()
    path = world.log.path
    world.store.close()
    return len(verify.index_entries(verify.find(path).directory, 0))


@seen()
def refuses_2000_bytes(world: World) -> bool:
    return world.refused(lambda: world.topic.append(b"x" * 2_000))


@seen()
def timestamp_given(world: World) -> int:
    return world.topic.append(b"x", timestamp=world.clock.now_ms() - 7).timestamp_ms - world.clock.now_ms()


@seen()
def refuses_old(world: World) -> bool:
    return world.refused(lambda: world.topic.append(b"x", timestamp=world.clock.now_ms() - 2 * HOUR_MS))


@seen()
def refuses_far_ahead(world: World) -> bool:
    return world.refused(lambda: world.topic.append(b"x", timestamp=world.clock.now_ms() + 2 * HOUR_MS))


def stored_size(world: World) -> int:
    text = b"".join(b"%d the quick brown fox %d " % (n * n, n % 17) for n in range(500))
    world.topic.append_many([text] * 3)
    return world.log.maintenance.size


compressed = {codec: seen(**{"compression.type": codec})(stored_size) for codec in ("gzip", "lz4", "zstd")}


@seen()
def syncs(world: World) -> int:
    world.fill(10, step_ms=100)
    return world.files.call_counts()["fdatasync"]


@seen()
def offsets_left(world: World) -> int:
    world.log.maintenance.roll()
    world.fill(20)
    world.log.maintenance.roll()
    world.clock.advance(HOUR_MS)
    world.store.housekeep()
    return world.log.log_end_offset - world.log.log_start_offset


@seen(cleanup__policy="compact", segment__bytes=500)
def records_left_by_compaction(world: World) -> int:
    world.fill(30)
    world.clock.advance(1)
    world.store.housekeep()
    return world.topic.scan().count()


@seen(cleanup__policy="compact", segment__bytes=500)
def tombstone_is_left(world: World) -> bool:
    world.topic.append(None, b"k")
    world.fill(30)
    for _ in range(3):
        world.clock.advance(HOUR_MS)
        world.store.housekeep()
        world.fill(9)
    return any(record.value is None for record in world.topic.scan())


@seen(segment__bytes=500)
def keys_left(world: World) -> bool:
    world.fill(30)
    world.clock.advance(1)
    world.store.housekeep()
    return world.topic.scan().count() < 30


@seen()
def visible_before_flush(world: World) -> int:
    world.topic.append(b"x", ack="written")
    return world.log.high_watermark


@seen()
def file_size_before_flush(world: World) -> int:
    world.topic.append(b"x" * 2_000, ack="written")
    return Path(world.log.path, f"{0:020}.log").stat().st_size


@seen(logstore__tail="memory")
def tail_flushed(world: World) -> int:
    world.topic.append(b"x" * 2_000, ack="written")
    return Path(world.log.path, f"{0:020}.log").stat().st_size


@seen()
def partitions_made(world: World) -> int:
    return world.store.create_topic("other").partition_count


@seen()
def topic_is_made_by_sending(world: World) -> list[str]:
    with world.store.producer() as producer:
        try:
            producer.send("made", b"x")
        except UnknownTopicError:
            pass
    return world.store.topics()


@seen()
def topic_can_be_deleted(world: World) -> bool:
    try:
        world.store.delete_topic("t")
    except PolicyViolationError:
        return False
    return True


@seen()
def node_in_meta_properties(world: World) -> str:
    return next(
        line
        for line in Path(world.store.path, "meta.properties").read_text().splitlines()
        if line.startswith("node.id=")
    )


@seen()
def offsets_partitions(world: World) -> int:
    world.store.commit_offsets("g", {TopicPartition("t", 0): 0})
    return len(world.store["__consumer_offsets"])


@seen()
def offsets_segment_bytes(world: World) -> int:
    world.store.commit_offsets("g", {TopicPartition("t", 0): 0})
    return world.store["__consumer_offsets"].config.segment_bytes


@seen()
def takes_long_metadata(world: World) -> bool:
    from logstore.groups.offsets import OffsetAndMetadata

    commit = {TopicPartition("t", 0): OffsetAndMetadata(0, metadata="m" * 100)}
    return not world.refused(lambda: world.store.commit_offsets("g", commit))


@seen()
def offsets_after_an_hour(world: World) -> int:
    world.store.commit_offsets("g", {TopicPartition("t", 0): 0})
    world.clock.advance(HOUR_MS)
    world.store.housekeep()
    return len(world.store.committed("g"))


@seen()
def periods(world: World) -> dict[str, float]:
    scheduler = next(value for value in vars(world.store._host).values() if type(value).__name__ == "Scheduler")
    return {task.name: task.period_s for task in scheduler._tasks}


def where_log_dirs_leads(path: Path, settings: dict[str, Any]) -> str | None:
    try:
        with logstore.open(None, {key: str(path / value) for key, value in settings.items()}, environ={}) as store:
            return str(Path(store.path).relative_to(path))
    except LogstoreError:
        return None


def produced(look: Callable[[World, Any], Any], **options: Any) -> Probe:
    """An observation of a producer that has the setting."""

    def probe(path: Path, settings: dict[str, Any]) -> Any:
        with World(path, {}) as world:
            many = world.store.create_topic("many", 4)
            assert many.partition_count == 4
            with world.store.producer({**{k.replace("__", "."): v for k, v in options.items()}, **settings}) as p:
                return look(world, p)

    return probe


def batches_of_ten(world: World, producer: Any) -> int:
    for number in range(10):
        producer.send("t", b"%0200d" % number, b"k")
        world.clock.advance(2)
        producer.tick()
    producer.flush()
    return sum(len(chunk.batches()) for chunk in world.log.scan(0).chunks())


def codec_of_batches(world: World, producer: Any) -> str:
    producer.send("t", b"x" * 1_000)
    producer.flush()
    return next(world.log.scan(0).chunks()).batches()[0].codec.name


def size_sent(world: World, producer: Any) -> int:
    text = b"".join(b"%d the quick brown fox %d " % (n * n, n % 17) for n in range(500))
    producer.send("t", text)
    producer.flush()
    return world.log.maintenance.size


def refuses_a_large_record(world: World, producer: Any) -> bool:
    def send() -> None:
        future = producer.send("t", b"x" * 5_000)
        producer.flush()
        future.result()

    return world.refused(send)


def is_durable(world: World, producer: Any) -> bool:
    # The first use of a topic syncs its directories.
    world.store["t"].append(b"first")
    before = world.files.call_counts()["fdatasync"]
    producer.send("t", b"x")
    producer.flush()
    return world.files.call_counts()["fdatasync"] > before


def has_a_producer_id(world: World, producer: Any) -> bool:
    return producer.producer_id >= 0


def partitions_used(world: World, producer: Any) -> set[int]:
    for _ in range(8):
        producer.send("many", b"x" * 10, b"always")
    producer.flush()
    topic = world.store.topic("many")
    return {len(list(topic[number].scan(0))) for number in range(4)}


def consumed(look: Callable[[World, Any], Any], **options: Any) -> Probe:
    """An observation of a consumer that has the setting; 30 records wait for it."""

    def probe(path: Path, settings: dict[str, Any]) -> Any:
        with World(path, {}) as world:
            world.fill(30)
            given = {**{k.replace("__", "."): v for k, v in options.items()}, **settings}
            with world.store.consumer(given) as consumer:
                consumer.assign_topics(["t"])
                return look(world, consumer)

    return probe


def first_poll(world: World, consumer: Any) -> int:
    return len(consumer.poll())


def committed_later(world: World, consumer: Any) -> bool:
    consumer.poll(max_records=3)
    world.clock.advance(1_000)
    consumer.poll(max_records=3)
    return bool(world.store.committed("g"))


def committed_ever(path: Path, settings: dict[str, Any]) -> bool:
    with World(path, {}) as world:
        world.fill(3)
        given = {"auto.offset.reset": "earliest", "group.id": "g", **settings}
        with world.store.consumer(given) as consumer:
            consumer.assign_topics(["t"])
            consumer.poll()
        return bool(world.store.committed("g"))


def group_can_commit(world: World, consumer: Any) -> bool:
    return not world.refused(lambda: consumer.commit({TopicPartition("t", 0): 1}))


# --- the table ---------------------------------------------------------------------------------

#: scope -> key -> (value, what is seen, with the setting)
EFFECTS: dict[str, dict[str, tuple[Any, Probe, Any]]] = {
    "topic": {
        "segment.bytes": (500, segment_count, 20),
        "segment.ms": (HOUR_MS, segments_of_days, 5),
        "segment.index.bytes": (80, segments_by_index, 4),
        "index.interval.bytes": (200, index_entries, 19),
        "max.message.bytes": (1_000, refuses_2000_bytes, True),
        "message.timestamp.type": ("LogAppendTime", timestamp_given, 0),
        "message.timestamp.before.max.ms": (HOUR_MS, refuses_old, True),
        "message.timestamp.after.max.ms": (3 * HOUR_MS, refuses_far_ahead, False),
        "compression.gzip.level": (1, compressed["gzip"], None),
        "compression.lz4.level": (12, compressed["lz4"], None),
        "compression.zstd.level": (19, compressed["zstd"], None),
        "flush.messages": (1, syncs, None),
        "flush.ms": (150, syncs, None),
        "retention.ms": (HOUR_MS // 2, offsets_left, 0),
        "retention.bytes": (0, offsets_left, 0),
        "cleanup.policy": ("compact", keys_left, True),
        "min.cleanable.dirty.ratio": (1.0, records_left_by_compaction, 30),
        "min.compaction.lag.ms": (HOUR_MS, records_left_by_compaction, 30),
        "delete.retention.ms": (0, tombstone_is_left, False),
        "logstore.ack": ("synced", syncs, None),
        "logstore.visible.after": ("flush", visible_before_flush, 0),
        "logstore.tail": ("memory", file_size_before_flush, 0),
        "logstore.tail.bytes": (1_000, tail_flushed, None),
    },
    "store": {
        "num.partitions": (3, partitions_made, 3),
        "auto.create.topics.enable": (True, topic_is_made_by_sending, ["made", "t"]),
        "delete.topic.enable": (False, topic_can_be_deleted, False),
        "node.id": (7, node_in_meta_properties, "node.id=7"),
        "log.dirs": ("elsewhere", where_log_dirs_leads, "elsewhere"),
        "offsets.topic.num.partitions": (5, offsets_partitions, 5),
        "offsets.topic.segment.bytes": (5_000, offsets_segment_bytes, 5_000),
        "offset.metadata.max.bytes": (50, takes_long_metadata, False),
        "offsets.retention.minutes": (30, offsets_after_an_hour, 0),
        "offsets.retention.check.interval.ms": (7_000, periods, None),
        "log.retention.check.interval.ms": (7_000, periods, None),
        "producer.id.expiration.check.interval.ms": (7_000, periods, None),
        "log.flush.offset.checkpoint.interval.ms": (7_000, periods, None),
        "log.flush.start.offset.checkpoint.interval.ms": (7_000, periods, None),
        "log.cleaner.backoff.ms": (7_000, periods, None),
        "log.cleaner.threads": (0, periods, None),
        "log.cleaner.enable": (False, periods, None),
    },
    "producer": {
        "batch.size": (0, produced(batches_of_ten, linger__ms=1_000), 10),
        "linger.ms": (1, produced(batches_of_ten), 10),
        "compression.type": ("zstd", produced(codec_of_batches), "ZSTD"),
        "compression.gzip.level": (1, produced(size_sent, compression__type="gzip"), None),
        "compression.lz4.level": (12, produced(size_sent, compression__type="lz4"), None),
        "compression.zstd.level": (19, produced(size_sent, compression__type="zstd"), None),
        "max.request.size": (1_000, produced(refuses_a_large_record), True),
        "logstore.ack": ("synced", produced(is_durable), True),
        "enable.idempotence": (False, produced(has_a_producer_id), False),
        "partitioner.class": ("roundrobin", produced(partitions_used), {2}),
        "partitioner.ignore.keys": (
            True,
            produced(partitions_used, partitioner__class="default", batch__size=1),
            None,
        ),
    },
    "consumer": {
        "group.id": ("g", consumed(group_can_commit), True),
        "auto.offset.reset": ("earliest", consumed(first_poll), 30),
        "enable.auto.commit": (False, committed_ever, False),
        "auto.commit.interval.ms": (
            500,
            consumed(committed_later, group__id="g", auto__offset__reset="earliest"),
            True,
        ),
        "max.poll.records": (7, consumed(first_poll, auto__offset__reset="earliest"), 7),
    },
}

#: What is seen best where it is at home: (file, test).
ELSEWHERE = {
    "topic min.insync.replicas": ("replication/node/test_node.py", "min.insync.replicas"),
    "topic unclean.leader.election.enable": ("replication/test_simulated_lives.py", "allows_unclean=True"),
    "topic logstore.replicated": ("replication/node/test_node.py", "this replica does not lead"),
    "topic segment.jitter.ms": ("log/test_log.py", "test_the_jitter_is_taken_off_the_time_of_a_segment"),
    "topic preallocate": ("io/test_preallocation.py", "test_kafkas_preallocate_asks_for_it_too"),
    "topic compression.type": ("log/test_log.py", "compression_type="),
    "topic max.compaction.lag.ms": ("log/compaction/test_compaction.py", "max_compaction_lag_ms"),
    "topic producer.id.expiration.ms": ("crash/test_processes.py", "producer_id_expiration_ms"),
    "topic logstore.write.strategy": ("io/test_preallocation.py", "test_every_strategy_leaves_the_same_files"),
    "topic logstore.linger.ms": ("log/test_log.py", "test_an_appender_lingers"),
    "topic logstore.batch.bytes": ("log/append/test_appender.py", "batch_bytes"),
    "topic logstore.offset.mode": ("log/directory/test_positions.py", "offset_mode"),
    "topic logstore.decompressed.max.bytes": ("log/append/test_bad_input.py", "decompressed_max_bytes"),
    "store log.cleaner.dedupe.buffer.size": ("log/compaction/test_compaction.py", "map_bytes"),
    "store log.cleaner.io.max.bytes.per.second": ("store/maintenance/test_housekeeping.py", "Throttle("),
    "store logstore.housekeeping": ("store/maintenance/test_housekeeping.py", "manual"),
    "store logstore.disk.budget": ("store/maintenance/test_disk_quota.py", "disk.budget"),
    "store logstore.disk.reserve": ("store/maintenance/test_disk_quota.py", "disk.reserve"),
    "producer buffer.memory": ("client/test_producer.py", "buffer_memory"),
    "producer max.block.ms": ("client/test_producer.py", "max_block_ms"),
    "producer acks": ("client/test_producer.py", "test_with_acks_0_no_caller_is_told_of_a_failure"),
    "producer delivery.timeout.ms": (
        "client/test_producer.py",
        "test_a_disk_that_stays_full_fails_the_records_after_the_delivery_timeout",
    ),
    "producer retries": ("client/test_producer.py", "test_without_retries_a_full_disk_fails_at_once"),
    "producer retry.backoff.ms": ("client/test_producer.py", "retry_backoff_ms"),
    "consumer fetch.max.bytes": ("client/test_consumer.py", "fetch_max_bytes"),
    "consumer max.partition.fetch.bytes": ("client/test_consumer.py", "max_partition_fetch_bytes"),
    "consumer isolation.level": ("client/test_consumer.py", "isolation_level"),
}

#: Kept for the replicas that a store of one process does not have.
REPLICATION = {
    "store default.replication.factor",
}

CLASSES = {"topic": LogConfig, "store": StoreConfig, "producer": ProducerConfig, "consumer": ConsumerConfig}


@pytest.mark.parametrize(
    ("scope", "key"), [(scope, key) for scope, effects in EFFECTS.items() for key in effects], ids=lambda word: word
)
def test_a_setting_changes_what_is_seen(tmp_path, scope, key):
    value, probe, expected = EFFECTS[scope][key]
    without, with_it = probe(tmp_path / "without", {}), probe(tmp_path / "with", {key: value})
    assert with_it != without
    if expected is not None:
        assert with_it == expected


def test_every_honoured_setting_is_shown_somewhere():
    shown = [f"{scope} {key}" for scope, effects in EFFECTS.items() for key in effects]
    honoured = [f"{scope} {key}" for scope, cls in CLASSES.items() for key in keys_of(cls)]
    assert sorted([*shown, *ELSEWHERE, *REPLICATION]) == sorted(honoured)


@pytest.mark.parametrize("key", ELSEWHERE)
def test_what_is_shown_elsewhere_is_there(key):
    file, words = ELSEWHERE[key]
    assert re.search(re.escape(words), (TESTS / file).read_text()), key
