"""A producer: what is gathered, when it is written, who is told, and what is refused."""

from __future__ import annotations

import errno
import random
import threading

import pytest

import logstore
from logstore import Record
from logstore.config.remote import WireConfig
from logstore.dropped import release_all
from logstore.errors import (
    BufferExhaustedError,
    ConfigError,
    DeliveryTimeoutError,
    DiskFullError,
    InvalidRecordError,
    InvalidSettingError,
    InvalidTimestampError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
    StorageFailedError,
    StoreClosedError,
    UnknownTopicError,
)
from logstore.records import Codec, RecordMetadata
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from logstore.testing.clock import START_MS
from tests.kit.inside import interrupt_behind_an_append


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def files():
    return FaultyFiles()


@pytest.fixture
def store(tmp_path, clock, files):
    with logstore.open(tmp_path / "data", clock=clock, files=files, rng=random.Random(5)) as opened:
        opened.create_topic("flights", partitions=1)
        yield opened


def records_of(topic) -> list[Record]:
    return [record for log in topic.partitions for record in log.scan()]


def values_of(topic) -> list[bytes | None]:
    return [record.value for record in records_of(topic)]


def views_of(log):
    return [view for chunk in log.scan().chunks() for view in chunk.batches()]


# -- gathering and writing


@pytest.mark.row("M5")
def test_a_future_tells_where_its_record_went(store, clock):
    with store.producer() as producer:
        first = producer.send("flights", b"AA 1141", b"AA")
        second = producer.send("flights", None, b"UA", timestamp=START_MS + 7, headers=[("h", b"1"), ("h", None)])
        assert not first.done()
        assert not second.done()
        producer.flush()
        assert first.result() == RecordMetadata("flights", 0, 0, START_MS)
        assert second.get(timeout=0) == RecordMetadata("flights", 0, 1, START_MS + 7)
        assert first.exception() is None
    found = records_of(store["flights"])
    assert [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in found] == [
        (b"AA", b"AA 1141", START_MS, []),
        (b"UA", None, START_MS + 7, [("h", b"1"), ("h", None)]),
    ]


def test_nothing_is_written_before_a_batch_is_full_or_has_lingered(store, clock):
    log = store["flights"][0]
    with store.producer(batch_size=1_000, linger_ms=20) as producer:
        producer.send("flights", b"x" * 100)
        clock.advance(19)
        producer.tick()
        assert log.log_end_offset == 0
        clock.advance(1)
        producer.tick()
        assert log.log_end_offset == 1
        for _ in range(9):
            producer.send("flights", b"x" * 100)
        assert log.log_end_offset == 1
        # The one that makes it full waits while it is written.
        producer.send("flights", b"x" * 100)
        assert log.log_end_offset > 1
    assert log.log_end_offset == 11
    assert producer.metrics().batches == 3


@pytest.mark.row("P11", part="one process")
def test_lingering_makes_fewer_appends_of_the_same_records(store):
    appends = {}
    for linger_ms in (0, 20):
        before = store["flights"][0].metrics().counters["appends"]
        with store.producer(linger_ms=linger_ms) as producer:
            futures = [producer.send("flights", b"%d" % n) for n in range(500)]
            # Without lingering each record is in the log when `send` returns.
            assert all(future.done() for future in futures) == (linger_ms == 0)
        appends[linger_ms] = store["flights"][0].metrics().counters["appends"] - before
    assert appends == {0: 500, 20: 1}
    assert values_of(store["flights"]) == [b"%d" % n for n in range(500)] * 2


def test_the_ticker_writes_what_has_lingered(tmp_path):
    """With the machine's clock, no caller has to do anything."""
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights")
        with store.producer(linger_ms=1) as producer:
            assert producer.send("flights", b"v").result(timeout=300).offset == 0


@pytest.mark.row("S7")
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_a_producers_codec_is_kept_unless_the_topic_imposes_one(store, codec):
    store.create_topic("imposed", settings={"compression.type": "zstd"})
    with store.producer(compression_type=codec) as producer:
        for topic in ("flights", "imposed"):
            for n in range(100):
                producer.send(topic, b"flight %d " % n * 20)
    assert {view.codec for view in views_of(store["flights"][0])} == {Codec[codec.upper()]}
    assert {view.codec for view in views_of(store["imposed"][0])} == {Codec.ZSTD}
    assert values_of(store["flights"]) == values_of(store["imposed"])


def test_log_append_time_is_what_the_future_tells(store, clock):
    store.create_topic("stamped", settings={"message.timestamp.type": "LogAppendTime"})
    with store.producer() as producer:
        future = producer.send("stamped", b"v", timestamp=START_MS - 1_000)
        clock.advance(50)
        producer.flush()
    assert future.result().timestamp_ms == records_of(store["stamped"])[0].timestamp_ms


def test_a_producer_keeps_the_order_of_each_thread_in_each_partition(store):
    """Records of several sizes, some the quick way and some not."""
    with store.producer(batch_size=700) as producer:
        for n in range(2_000):
            producer.send("flights", b"%06d" % n + b"x" * (n % 90), headers=[("h", b"")] if n % 17 == 0 else None)
    assert [int(value[:6]) for value in values_of(store["flights"])] == list(range(2_000))


@pytest.mark.row("P1")
@pytest.mark.row("M6", part="one process")
def test_32_writers_at_once_lose_nothing_and_write_nothing_twice(tmp_path):
    """Two producers of sixteen threads each, with batches so small that their writes meet."""
    each, writers = 400, 32
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights", partitions=4)
        producers = [store.producer(batch_size=600, linger_ms=0 if n else 2) for n in range(2)]
        kept: dict[int, list] = {}
        started = threading.Barrier(writers)

        def write(writer: int) -> None:
            producer = producers[writer % 2]
            started.wait()
            kept[writer] = [
                producer.send("flights", b"%d %d" % (writer, n), b"%d" % writer if n % 2 else None)
                for n in range(each)
            ]

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for producer in producers:
            producer.close()
        found: dict[tuple[int, int], bytes] = {}
        for log in topic.partitions:
            last: dict[bytes, int] = {}
            for record in log.scan():
                found[log.name.partition, record.offset] = record.value
                writer, n = record.value.split()
                # Within a partition, a thread's records stand in the order in which it sent them.
                assert int(n) > last.get(writer, -1)
                last[writer] = int(n)
            offsets = [offset for partition, offset in found if partition == log.name.partition]
            assert offsets == list(range(log.log_end_offset))
        assert len(found) == len(set(found.values())) == writers * each
        for writer, futures in kept.items():
            for n, future in enumerate(futures):
                at = future.result(timeout=0)
                assert found[at.partition, at.offset] == b"%d %d" % (writer, n)


@pytest.mark.parametrize("ack", ["written", "synced"])
def test_a_flush_waits_for_answers_of_another_thread_and_not_for_its_callbacks(store, files, ack):
    """That thread has written two batches and hangs in a callback of the first."""
    producer = store.producer(batch_size=50, ack=ack)
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log")
    futures = [producer.send("flights", b"%d" % n) for n in range(2)]
    entered, go = threading.Event(), threading.Event()
    futures[0].add_done_callback(lambda _done: (entered.set(), go.wait(300)))
    other = threading.Thread(target=producer.flush)
    other.start()
    assert entered.wait(300)
    producer.flush()
    assert all(future.done() for future in futures)
    go.set()
    other.join()
    producer.close()


@pytest.mark.row("P1")
@pytest.mark.parametrize("ack", ["written", "synced"])
def test_a_flush_answers_all_that_its_thread_has_sent_whichever_thread_writes_it(tmp_path, ack):
    """Eight threads, the ticker and the syncing thread meet in one partition."""
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights")
        wrong = []
        with store.producer(batch_size=300, linger_ms=1, ack=ack) as producer:

            def write() -> None:
                for n in range(60):
                    futures = [producer.send("flights", b"x" * 20) for _ in range(n % 9)]
                    producer.flush()
                    wrong.extend(future for future in futures if not future.done())

            threads = [threading.Thread(target=write) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert wrong == []


# -- futures


def test_callbacks_run_once_also_those_that_come_late(store):
    told = []
    with store.producer() as producer:
        future = producer.send("flights", b"v")
        future.add_done_callback(lambda done: told.append(done.result().offset))
        future.add_done_callback(lambda _done: 1 / 0)
        future.add_done_callback(lambda _done: told.append("second"))
        assert told == []
        producer.flush()
        future.add_done_callback(lambda done: told.append(done.result().partition))
    assert told == [0, "second", 0]


def test_a_callback_may_send(store):
    sent = []
    with store.producer(batch_size=1) as producer:

        def again(done):
            if len(sent) < 5:
                sent.append(producer.send("flights", b"again"))
                sent[-1].add_done_callback(again)

        producer.send("flights", b"first").add_done_callback(again)
        producer.flush()
    assert values_of(store["flights"]) == [b"first"] + [b"again"] * 5


def test_waiting_for_a_record_that_no_producer_writes_ends_in_time(store):
    with store.producer(linger_ms=60_000) as producer:
        future = producer.send("flights", b"v")
        with pytest.raises(DeliveryTimeoutError, match="within 3 s") as raised:
            future.result(timeout=3)
        assert isinstance(raised.value, TimeoutError)
        producer.flush()
        assert future.result(timeout=0).offset == 0


def test_a_future_is_made_by_send_alone():
    from logstore.accumulator._batcher import SendFuture

    with pytest.raises(TypeError, match=r"Producer\.send"):
        SendFuture()


@pytest.mark.row("P14", part="one process")
def test_a_producer_does_the_same_whether_no_reader_or_many_are_behind(store, files):
    """Counted in calls to the system: consumers that are slow, or off, cost a producer none."""

    def calls_of_sending() -> dict[str, int]:
        before = files.counts()
        with store.producer(linger_ms=0) as producer:
            for n in range(50):
                producer.send("flights", b"%d" % n).result(0)
        return {op: count - before[op] for op, count in files.counts().items()}

    calls_of_sending()  # makes what the first batch of a log needs
    alone = calls_of_sending()
    consumers = []
    for count in (1, 10):
        while len(consumers) < count:
            consumer = store.consumer(group=f"slow {len(consumers)}", auto_offset_reset="earliest")
            consumer.assign_topics(["flights"])
            assert len(consumer.poll(max_records=1)) == 1
            consumers.append(consumer)
        assert calls_of_sending() == alone
    for consumer in consumers:
        consumer.close()


# -- acknowledgements


@pytest.mark.row("K1")
@pytest.mark.parametrize(
    ("settings", "topic_ack", "syncs"),
    [
        ({}, "written", False),
        ({}, "synced", True),
        ({"acks": "1"}, "synced", False),
        ({"acks": "0"}, "synced", False),
        ({"ack": "synced"}, "written", True),
        ({"ack": "written"}, "synced", False),
    ],
)
def test_what_a_done_future_promises(store, files, settings, topic_ack, syncs):
    topic = store.create_topic("sure", settings={"logstore.ack": topic_ack})
    with store.producer(**settings) as producer:
        future = producer.send("sure", b"v")
        producer.flush()
        assert future.done()
        assert topic[0].synced_end == (1 if syncs else 0)


@pytest.mark.row("S4")
def test_one_sync_serves_all_batches_of_a_partition(store):
    topic = store.create_topic("sure", partitions=2, settings={"logstore.ack": "synced"})
    with store.producer(batch_size=200) as producer:
        futures = [producer.send("sure", b"x" * 50, partition=n % 2) for n in range(100)]
        assert producer.metrics().batches > 10
        assert not any(future.done() for future in futures)
        producer.flush()
        assert all(future.done() for future in futures)
        assert producer.metrics().syncs == 2
    assert [log.synced_end for log in topic.partitions] == [50, 50]


def test_a_thread_that_waits_for_a_future_syncs_the_log_itself(store):
    """No thread, and no tick: the batch is in its log, so waiting for it can only mean a sync."""
    store.create_topic("sure", settings={"logstore.ack": "synced"})
    with store.producer(linger_ms=0) as producer:
        future = producer.send("sure", b"v")
        assert not future.done()
        assert future.result(timeout=0).offset == 0
        assert store["sure"][0].synced_end == 1


def test_synced_futures_are_answered_by_themselves(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("sure", settings={"logstore.ack": "synced"})
        with store.producer() as producer:
            done = threading.Event()
            producer.send("sure", b"v").add_done_callback(lambda _future: done.set())
            assert done.wait(300)
            assert store["sure"][0].synced_end == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("logstore-syncing")]


def test_a_failed_sync_fails_the_futures_that_waited_for_it(store, files):
    store.create_topic("sure", settings={"logstore.ack": "synced"})
    producer = store.producer(linger_ms=0)
    future = producer.send("sure", b"v")
    files.fail("fdatasync", 1, errno.EIO, path_contains=".log")
    with pytest.raises(StorageFailedError):
        future.result(timeout=0)
    with pytest.raises(StorageFailedError):
        producer.send("sure", b"w").result(timeout=0)
    producer.close()


@pytest.mark.row("P7")
def test_with_acks_0_no_caller_is_told_of_a_failure(store, files):
    producer = store.producer(acks=0)
    future = producer.send("flights", b"v")
    files.fail("pwrite", 1, errno.EIO, path_contains=".log")
    producer.flush()
    assert future.result(timeout=0).offset == -1
    assert producer.metrics().failed_records == 1
    producer.close()


# -- failures


def test_a_failed_write_reaches_every_future_of_its_batch(store, files):
    producer = store.producer()
    futures = [producer.send("flights", b"%d" % n) for n in range(3)]
    told = []
    futures[2].add_done_callback(lambda done: told.append(done.exception()))
    files.fail("pwrite", 1, errno.EIO, path_contains=".log")
    producer.flush()
    for future in futures:
        assert isinstance(future.exception(timeout=0), StorageFailedError)
        with pytest.raises(StorageFailedError):
            future.result(timeout=0)
    assert told == [futures[0].exception()]
    producer.close()


@pytest.mark.parametrize("by", ["send", "flush", "close"])
def test_a_failure_that_no_future_tells_is_raised_once_by_what_comes_next(store, files, by):
    producer = store.producer(linger_ms=10)
    producer.send("flights", b"lost")
    files.fail("pwrite", 1, errno.EIO, path_contains=".log")
    store._host.clock.advance(20)
    producer.tick()
    act = {"send": lambda: producer.send("flights", b"v"), "flush": producer.flush, "close": producer.close}[by]
    with pytest.raises(StorageFailedError):
        act()
    if by == "flush":
        producer.flush()
    producer.close()


def test_a_failure_that_one_kept_future_tells_still_counts_for_those_that_were_dropped(store, files):
    producer = store.producer()
    kept = producer.send("flights", b"kept")
    producer.send("flights", b"dropped")
    files.fail("pwrite", 1, errno.EIO, path_contains=".log")
    with pytest.raises(StorageFailedError):
        producer.flush()
    assert isinstance(kept.exception(), StorageFailedError)
    producer.close()


# -- a full disk, and memory


@pytest.mark.row("P10", "P13", part="one process")
def test_a_full_disk_is_waited_for_and_nothing_is_lost_doubled_or_out_of_order(store, files, clock):
    with store.producer(batch_size=400, retry_backoff_ms=100) as producer:
        futures = [producer.send("flights", b"%d" % n) for n in range(10)]
        files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", times=3)
        with pytest.raises(DeliveryTimeoutError, match="free space"):
            producer.flush(timeout_s=0.1)
        # Meanwhile the program goes on sending: into memory.
        futures += [producer.send("flights", b"%d" % n) for n in range(10, 200)]
        producer.flush()
        assert [future.result(timeout=0).offset for future in futures] == list(range(200))
        assert producer.metrics().retries == 3
    assert values_of(store["flights"]) == [b"%d" % n for n in range(200)]


def test_a_disk_that_stays_full_fails_the_records_after_the_delivery_timeout(store, files, clock):
    producer = store.producer(delivery_timeout_ms=1_000, retry_backoff_ms=100)
    future = producer.send("flights", b"v")
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", times=1_000)
    producer.flush()
    assert isinstance(future.exception(timeout=0), DiskFullError)
    assert clock.monotonic_s() >= 1
    files.heal()
    # What was given up leaves no gap in the sequences: the next batch is taken.
    assert producer.send("flights", b"w").exception is not None
    producer.close()
    assert values_of(store["flights"]) == [b"w"]


def test_a_flush_ends_on_a_full_disk_though_others_send_all_the_while(store, files, clock, monkeypatch):
    """It waited until nothing was gathered, which a sender can put off for ever."""
    producer = store.producer(delivery_timeout_ms=1_000, retry_backoff_ms=100, batch_size=100)
    future = producer.send("flights", b"v")
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", times=1_000_000)
    written, later, write = [], [], producer._write

    def write_and_send(*, force):
        done = write(force=force)
        written.append(done)
        if len(written) < 200:
            later.append(producer._add(producer._batchers[0], b"x" * 90, None, None, None))
        return done

    monkeypatch.setattr(producer, "_write", write_and_send)
    producer.flush()
    assert isinstance(future.exception(timeout=0), DiskFullError)
    assert len(written) < 100
    monkeypatch.undo()
    files.heal()
    producer.close()


@pytest.mark.row("P10", part="one process")
def test_without_retries_a_full_disk_fails_at_once(store, files):
    producer = store.producer(retries=0)
    future = producer.send("flights", b"v")
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log")
    producer.flush()
    assert isinstance(future.exception(timeout=0), DiskFullError)
    assert producer.producer_id == -1
    producer.close()
    assert values_of(store["flights"]) == []


def test_memory_that_is_full_of_records_that_cannot_be_written_stops_the_sender(store, files, clock):
    producer = store.producer(batch_size=1_000, buffer_memory=3_000, max_block_ms=500)
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", times=1_000_000)
    sent = (producer.send("flights", b"x" * 90) for _ in range(100))
    futures = []
    with pytest.raises(BufferExhaustedError, match=r"3000 of 3000 bytes of buffer\.memory"):
        futures.extend(sent)
    assert clock.monotonic_s() == pytest.approx(0.5)
    assert 20 < len(futures) < 40
    files.heal()
    future = producer.send("flights", b"again")
    producer.close()
    assert future.result().offset == len(futures)
    assert len(values_of(store["flights"])) == len(futures) + 1


def test_memory_that_is_full_of_records_that_only_linger_is_made_free_by_writing_them(store, clock):
    store.create_topic("many", partitions=50)
    with store.producer(batch_size=1_000, buffer_memory=5_000, max_block_ms=500, linger_ms=60_000) as producer:
        for n in range(500):
            producer.send("many", b"%d" % n, partition=n % 50)
            assert producer.metrics().buffered_bytes <= 5_000
        assert clock.monotonic_s() == 0
    assert sorted(map(int, values_of(store["many"]))) == list(range(500))


def test_a_record_larger_than_the_buffer_memory_is_sent_alone(store):
    with store.producer(batch_size=1_000, buffer_memory=2_000) as producer:
        producer.send("flights", b"small")
        assert producer.send("flights", b"x" * 10_000) is not None
        producer.send("flights", b"small")
    assert [len(value) for value in values_of(store["flights"])] == [5, 10_000, 5]


# -- idempotence


@pytest.mark.row("P13", part="one process")
def test_batches_carry_the_producers_id_and_consecutive_sequences(store):
    with store.producer(batch_size=300) as first, store.producer(batch_size=300) as second:
        assert first.producer_id != second.producer_id
        for n in range(100):
            first.send("flights", b"%d" % n)
            second.send("flights", b"%d" % n)
    for producer in (first, second):
        views = [view for view in views_of(store["flights"][0]) if view.producer_id == producer.producer_id]
        assert len(views) > 3
        expected = 0
        for view in views:
            assert (view.producer_epoch, view.base_sequence) == (0, expected)
            expected += view.record_count
        assert expected == 100


@pytest.mark.row("P13", part="one process")
def test_a_batch_whose_write_was_interrupted_is_not_written_twice(store, monkeypatch):
    """Ctrl-C right behind the write: the encoder of the batch knows that it is in the log."""
    log = store["flights"][0]
    producer = store.producer()
    future = producer.send("flights", b"once")
    interrupt_behind_an_append(monkeypatch, log)
    with pytest.raises(KeyboardInterrupt):
        producer.flush()
    assert not future.done()
    producer.send("flights", b"next")
    producer.close()
    assert future.result().offset == 0
    assert values_of(store["flights"]) == [b"once", b"next"]
    assert log.metrics().counters["duplicates"] == 0


def test_acks_that_no_caller_waits_for_turn_idempotence_off(store):
    for settings in ({"acks": "1"}, {"acks": "0"}, {"enable_idempotence": False}, {"retries": 0}):
        with store.producer(**settings) as producer:
            producer.send("flights", b"v")
            assert producer.producer_id == -1
    assert {view.producer_id for view in views_of(store["flights"][0])} == {-1}


@pytest.mark.parametrize("wanted", [True, "true"])
@pytest.mark.parametrize(("key", "value"), [("acks", "1"), ("acks", 0), ("retries", 0)])
def test_idempotence_that_is_asked_for_and_cannot_be_is_refused(store, wanted, key, value):
    with pytest.raises(InvalidSettingError, match=f"{key}: expected .* with enable.idempotence=true") as refused:
        store.producer({"enable.idempotence": wanted, key: value})
    assert "\n" not in str(refused.value)
    with pytest.raises(InvalidSettingError, match=key):
        WireConfig.of({"enable.idempotence": wanted}, **{key: value})
    with store.producer({"enable.idempotence": wanted, "acks": "-1"}) as producer:
        producer.send("flights", b"v")
        producer.flush()
        assert producer.producer_id >= 0


# -- bad input


@pytest.mark.parametrize(
    ("record", "error", "says"),
    [
        ({"value": "text"}, RecordTypeError, "encode it first"),
        ({"value": 7}, RecordTypeError, "found int"),
        ({"value": b"v", "key": "text"}, RecordTypeError, "encode it first"),
        ({"value": b"v", "headers": [("h", "text")]}, RecordTypeError, "header"),
        ({"value": b"v", "headers": 7}, RecordTypeError, "pairs"),
        ({"value": b"v", "headers": [(b"h", b"")]}, RecordTypeError, "header key"),
        ({"value": b"v", "timestamp": -5}, InvalidTimestampError, "1970"),
        ({"value": b"v", "timestamp": "now"}, RecordTypeError, "timestamp"),
        ({"value": b"v", "timestamp": START_MS + 10**9}, InvalidTimestampError, "future"),
        ({"value": b"x" * 2_000_000}, RecordTooLargeError, r"max\.request\.size"),
        ({"value": b"x" * 1_048_570}, RecordTooLargeError, r"max\.message\.bytes"),
    ],
)
def test_a_record_that_cannot_be_is_refused_at_once_and_harms_no_other(store, record, error, says):
    with store.producer() as producer:
        before = producer.send("flights", b"before")
        with pytest.raises(error, match=says):
            producer.send("flights", **record)
        after = producer.send("flights", b"after")
    assert (before.result().offset, after.result().offset) == (0, 1)
    assert values_of(store["flights"]) == [b"before", b"after"]


def test_a_record_that_cannot_be_and_opens_a_batch_leaves_nothing_behind(store):
    with store.producer(linger_ms=1) as producer:
        with pytest.raises(RecordTypeError):
            producer.send("flights", "text")
        store._host.clock.advance(10)
        producer.tick()
        producer.flush()
        assert producer.send("flights", b"v") is not None
    assert values_of(store["flights"]) == [b"v"]
    assert producer.metrics().buffered_bytes == 0


def test_a_compacted_topic_needs_keys_and_says_so_at_once(store):
    store.create_topic("latest", settings={"cleanup.policy": "compact"})
    with store.producer() as producer:
        producer.send("latest", b"v", b"k")
        with pytest.raises(InvalidRecordError, match="key"):
            producer.send("latest", b"v")
    assert values_of(store["latest"]) == [b"v"]


def test_records_that_fill_a_batch_to_the_brim_stay_one_batch_each(store):
    """Sizes around max.message.bytes: an idempotent append must be one batch, whatever was gathered before."""
    store.create_topic("tight", settings={"max.message.bytes": 1_000})
    rng = random.Random(3)
    with store.producer(batch_size=900) as producer:
        sizes = [rng.randrange(1, 920) for _ in range(300)]
        for size in sizes:
            producer.send("tight", b"x" * size, headers=[("h", b"y" * (size % 5))] if size % 3 == 0 else None)
    assert [len(value) for value in values_of(store["tight"])] == sizes
    assert max(view.size for view in views_of(store["tight"][0])) <= 1_000


def test_an_unknown_topic_is_refused_at_once(store):
    with store.producer() as producer, pytest.raises(UnknownTopicError):
        producer.send("trains", b"v")


def test_a_topic_that_is_deleted_fails_its_records_and_one_of_that_name_begins_again(store):
    producer = store.producer()
    producer.send("flights", b"a")
    producer.flush()
    lost = producer.send("flights", b"lost")
    store.delete_topic("flights")
    with pytest.raises(UnknownTopicError):
        producer.send("flights", bytearray(b"v"))
    store.create_topic("flights", partitions=2)
    new = producer.send("flights", bytearray(b"new"))
    producer.flush()
    assert lost.exception() is not None
    assert new.result().offset == 0
    producer.close()
    assert values_of(store["flights"]) == [b"new"]


def test_a_closed_producer_takes_nothing(store):
    producer = store.producer()
    producer.send("flights", b"v")
    producer.close()
    producer.close()
    for use in (lambda: producer.send("flights", b"w"), lambda: producer.partitions_for("flights")):
        with pytest.raises(StoreClosedError, match="producer is closed"):
            use()
    producer.tick()
    assert values_of(store["flights"]) == [b"v"]


def test_closing_the_store_flushes_its_producers(tmp_path, clock):
    store = logstore.open(tmp_path / "data", clock=clock)
    store.create_topic("flights")
    producers = [store.producer(), store.producer(linger_ms=60_000)]
    futures = [producer.send("flights", b"v") for producer in producers]
    store.close()
    assert all(future.done() for future in futures)
    assert all(producer.closed for producer in producers)
    with logstore.open(tmp_path / "data") as again:
        assert len(values_of(again["flights"])) == 2


def test_a_producer_that_is_dropped_is_flushed_and_warns(store):
    producer = store.producer()
    future = producer.send("flights", b"v")
    with pytest.warns(ResourceWarning, match="dropped without close"):  # noqa: PT031
        del producer
        release_all()
    assert future.result(timeout=0).offset == 0


def test_a_read_only_store_has_no_producer(store):
    with logstore.open(store.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.producer()


def test_wrong_settings_are_all_named(store):
    with pytest.raises(ConfigError) as raised:
        store.producer({"linger.ms": -1, "bach.size": 7}, acks="two")
    assert set(raised.value.problems) >= {"linger.ms", "bach.size", "acks"}


def test_a_close_that_runs_out_of_time_answers_every_future(store, files):
    producer = store.producer()
    future = producer.send("flights", b"v")
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", times=1_000_000)
    with pytest.raises(DeliveryTimeoutError):
        producer.close(timeout_s=1)
    assert isinstance(future.exception(timeout=0), DeliveryTimeoutError)
    assert producer.metrics().buffered_bytes == 0
    files.heal()


def test_partitions_for_and_metrics_tell_what_there_is(store):
    store.create_topic("many", partitions=5)
    with store.producer() as producer:
        assert producer.partitions_for("many") == {0, 1, 2, 3, 4}
        with pytest.raises(UnknownTopicError):
            producer.partitions_for("trains")
        producer.send("flights", b"x" * 100)
        assert producer.metrics().buffered_bytes > 0
        producer.flush()
        metrics = producer.metrics()
        assert (metrics.records, metrics.batches, metrics.buffered_bytes, metrics.failed_records) == (1, 1, 0, 0)
        assert metrics.appended_bytes == store["flights"][0].metrics().size
