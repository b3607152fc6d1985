"""Mistakes that new users make: each error names the mistake and the right call. One row each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import logstore
from logstore.errors import (
    InvalidSettingError,
    InvalidTopicError,
    LogClosedError,
    LogstoreError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    StoreClosedError,
    TopicDeletedError,
    UnknownPartitionError,
    UnknownSettingError,
    UnknownTopicError,
)
from tests.kit.waiting import wait_for

GIB = 1 << 30

#: What a thread must be done within, however busy the machine is.
WATCHDOG_S = 60


class Setting(NamedTuple):
    """Where a mistake is made: a store with a topic of 2 partitions, each with a record."""

    path: Path
    store: logstore.Store
    topic: logstore.Topic


class Mistake(NamedTuple):
    make: Callable[[Setting], Any]
    error: type[LogstoreError]
    says: tuple[str, ...]
    says_not: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def blob() -> bytes:
    return bytes(GIB)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Setting]:
    with logstore.open(tmp_path / "data", environ={}) as store:
        topic = store.create_topic("flights", partitions=2)
        for partition in range(2):
            topic.append(b"AA 1141", partition=partition)
        yield Setting(tmp_path, store, topic)


def scan_of_a_deleted_topic(place: Setting) -> object:
    scan = place.topic.scan()
    place.store.delete_topic("flights")
    return scan.count()


def log_of_a_deleted_topic(place: Setting) -> object:
    log = place.topic[0]
    place.store.delete_topic("flights")
    return list(log)


def deleted_topic(place: Setting) -> object:
    place.store.delete_topic("flights")
    return place.topic.read()


def deleted_topic_beside_its_writer(place: Setting) -> object:
    with logstore.open(place.path / "data", read_only=True, environ={}) as reader:
        scan = reader.topic("flights").scan()
        assert scan.count() == 2
        place.store.delete_topic("flights")
        place.store.create_topic("flights", partitions=2)
        reader.topics()
        return scan.count()


def scan_of_a_closed_store(place: Setting) -> object:
    scan = place.topic.scan()
    place.store.close()
    return scan.count()


def records_of_a_closed_store(place: Setting) -> object:
    """A loop that waits for more while another thread closes the store."""
    consumer = place.store.consumer(auto_offset_reset="earliest")
    consumer.assign_topics(["flights"])
    at_the_end = threading.Event()
    ended: list[BaseException] = []

    def read() -> None:
        try:
            for number, _ in enumerate(consumer.records(), 1):
                if number == 2:
                    at_the_end.set()
        except BaseException as error:  # noqa: BLE001  it is what the test looks at
            ended.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert at_the_end.wait(WATCHDOG_S)
    wait_for(lambda: ended or consumer._in_use.locked())  # inside a call again: there it waits for more
    place.store.close()
    thread.join(WATCHDOG_S)
    assert not thread.is_alive()
    raise ended[0]


def send(place: Setting, *args: Any, **more: Any) -> object:
    with place.store.producer() as producer:
        return producer.send(*args, **more)


def empty_log(place: Setting) -> object:
    log = place.topic.log(0)
    log.append([b"x"] * 99)
    log.delete_before(100)
    return log.read(0)


MISTAKES: dict[str, Mistake] = {
    "a scan of a deleted topic": Mistake(
        scan_of_a_deleted_topic,
        TopicDeletedError,
        ("flights-", "its topic was deleted", "store.topics()"),
        ("open it",),
    ),
    "the log of a deleted topic": Mistake(
        log_of_a_deleted_topic, TopicDeletedError, ("flights-0", "its topic was deleted"), ("open it",)
    ),
    "a handle of a deleted topic": Mistake(
        deleted_topic,
        UnknownTopicError,
        ("topic 'flights' does not exist any more: it was deleted", "create_topic"),
    ),
    "a scan of a topic that was made again": Mistake(
        deleted_topic_beside_its_writer,
        TopicDeletedError,
        ("its topic was deleted and another one has its name", "ask the store for the topic again"),
    ),
    "a scan of a closed store": Mistake(
        scan_of_a_closed_store,
        LogClosedError,
        ("the store is closed; call logstore.open() again",),
        ("the log is closed",),
    ),
    "records() while the store is closed": Mistake(
        records_of_a_closed_store,
        LogClosedError,
        ("the store", "closed", "call logstore.open() again"),
        ("wakeup",),
    ),
    "create_topic(partition=)": Mistake(
        lambda place: place.store.create_topic("gates", partition=3),
        UnknownSettingError,
        ("partition: unknown; the nearest name is partitions=",),
        ("retention",),
    ),
    "append_many(codec='zstd')": Mistake(
        lambda place: place.topic.append_many([b"x"], codec="zstd"),
        InvalidSettingError,
        ("codec: expected one of", "Codec.ZSTD", "found 'zstd'"),
    ),
    "append_many(codec='zstd') to one partition": Mistake(
        lambda place: place.topic.append_many([b"x"], codec="zstd", partition=0),
        InvalidSettingError,
        ("codec: expected one of", "Codec.ZSTD", "found 'zstd'"),
    ),
    "appender(codec='zstd')": Mistake(
        lambda place: place.topic.log(0).appender(codec="zstd"),
        InvalidSettingError,
        ("codec: expected one of", "Codec.ZSTD", "found 'zstd'"),
    ),
    "append(partition='1')": Mistake(
        lambda place: place.topic.append(b"x", partition="1"),
        UnknownPartitionError,
        ("topic 'flights' has partitions 0 to 1", "'1': a partition is an int"),
    ),
    "append(partition=True)": Mistake(
        lambda place: place.topic.append(b"x", partition=True),
        UnknownPartitionError,
        ("True: a partition is an int",),
    ),
    "append(partition=7)": Mistake(
        lambda place: place.topic.append(b"x", partition=7), UnknownPartitionError, ("none with number 7",)
    ),
    "send(partition='1')": Mistake(
        lambda place: send(place, "flights", b"x", partition="1"),
        UnknownPartitionError,
        ("found '1': a partition is an int",),
    ),
    "the keyword of logstore.ack, at a store": Mistake(
        lambda place: logstore.open(place.path / "new", logstore_ack="synced", environ={}),
        UnknownSettingError,
        ("logstore_ack: unknown; the nearest name is ack=, the keyword of logstore.ack",),
    ),
    "the keyword of logstore.ack, at a topic": Mistake(
        lambda place: place.store.create_topic("gates", logstore_ack="synced"),
        UnknownSettingError,
        ("the nearest name is ack=",),
    ),
    "the keyword of logstore.ack, at a producer": Mistake(
        lambda place: place.store.producer(logstore_ack="synced"),
        UnknownSettingError,
        ("the nearest name is ack=",),
    ),
    "the keyword of logstore.disk.budget": Mistake(
        lambda place: logstore.open(place.path / "new", logstore_disk_budget=1, environ={}),
        UnknownSettingError,
        ("the nearest name is disk_budget=",),
    ),
    "a Topic given to send": Mistake(
        lambda place: send(place, place.topic, b"x"),
        InvalidTopicError,
        ("a topic's name is a str, found Topic; give its name, topic.name",),
        ("create_topic",),
    ),
    "a Topic given to store.topic": Mistake(
        lambda place: place.store.topic(place.topic),
        InvalidTopicError,
        ("a topic's name is a str, found Topic; give its name, topic.name",),
    ),
    "an offset of an empty log": Mistake(
        empty_log, OffsetOutOfRangeError, ("offset 0", "is empty and begins and ends at 100"), ("100 to 99",)
    ),
    "open(d, 'w')": Mistake(
        lambda place: logstore.open(place.path / "new", "w", environ={}),
        InvalidSettingError,
        ("found 'w'", "there are no modes", "open(path, read_only=True) only reads"),
        ("No such file",),
    ),
    "Log.open(d, 'r')": Mistake(
        lambda place: logstore.Log.open(place.path / "solo-0", "r"),
        InvalidSettingError,
        ("found 'r'", "there are no modes", "open(path, read_only=True) only reads"),
    ),
    "open(readonly=)": Mistake(
        lambda place: logstore.open(place.path / "data", readonly=True, environ={}),
        UnknownSettingError,
        ("readonly: unknown; the nearest name is read_only=",),
    ),
    "Log.open(readonly=)": Mistake(
        lambda place: logstore.Log.open(place.path / "solo-0", readonly=True),
        UnknownSettingError,
        ("readonly: unknown; the nearest name is read_only=",),
    ),
    "a record over max.request.size": Mistake(
        lambda place: send(place, "flights", bytes(2_000_000)),
        RecordTooLargeError,
        ("max.request.size 1048576 and max.message.bytes 1048588", "raise these settings"),
    ),
    "a record over segment.bytes": Mistake(
        lambda place: place.store.create_topic("small", segment_bytes=5_000).append(bytes(6_000)),
        RecordTooLargeError,
        ("does not fit segment.bytes 5000; raise that setting",),
        ("max.message.bytes",),
    ),
    "LOGSTORE_LOGSTORE_ACK": Mistake(
        lambda place: logstore.open(place.path / "new", environ={"LOGSTORE_LOGSTORE_ACK": "synced"}),
        UnknownSettingError,
        ("the nearest name is LOGSTORE_ACK",),
    ),
}


def check(mistake: Mistake, place: Setting) -> None:
    with pytest.raises(mistake.error) as caught:
        mistake.make(place)
    said = str(caught.value)
    assert all(part in said for part in mistake.says), said
    assert not any(part in said for part in mistake.says_not), said


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_the_right_call(name: str, place: Setting) -> None:
    check(MISTAKES[name], place)


@pytest.mark.parametrize("how", ["append", "append_many", "send"])
def test_a_record_that_no_setting_helps_is_better_kept_in_a_file(how: str, place: Setting, blob: bytes) -> None:
    """Raising max.message.bytes alone would only bring the next refusal."""
    uses: dict[str, Callable[[Setting], object]] = {
        "append": lambda place: place.topic.append(blob),
        "append_many": lambda place: place.topic.append_many([blob]),
        "send": lambda place: send(place, "flights", blob),
    }
    says = ("max.message.bytes 1048588", f"segment.bytes {GIB}", "keep what is so large in a file of its own")
    check(Mistake(uses[how], RecordTooLargeError, says, ("raise",)), place)
    assert place.topic.scan().count() == 2


@pytest.mark.parametrize("variable", ["LOGSTORE_HOME", "LOGSTORE_LOG_LEVEL", "LOGSTORE_DATA_DIR", "LOGSTORE_URL"])
def test_a_variable_of_the_application_s_own_is_warned_of(
    variable: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with logstore.open(tmp_path, environ={variable: "/srv/app", "LOGSTORE_NUM_PARTITIONS": "3"}) as store:
        assert store._host.config.num_partitions == 3
    (said,) = [record for record in caplog.records if variable in record.getMessage()]
    assert said.levelname == "WARNING"
    assert "no settings have no effect" in said.getMessage()


@pytest.mark.parametrize("variable", ["LOGSTORE_AKC", "LOGSTORE_ACKS", "LOGSTORE_FLUSH_MESAGES"])
def test_a_variable_that_is_nearly_a_setting_is_refused(variable: str, tmp_path: Path) -> None:
    """Passed over, it would make the store less durable than was asked for."""
    with pytest.raises(UnknownSettingError, match=f"{variable}: unknown; the nearest name is LOGSTORE_"):
        logstore.open(tmp_path, environ={variable: "synced"})


def test_a_closed_store_ends_a_wait_with_its_own_error(place: Setting) -> None:
    """Whichever thread comes first, the waiting one never hears of a `wakeup` that it has not called."""
    consumer = place.store.consumer()
    consumer.assign_topics(["flights"])
    consumer._end_with_store()
    with pytest.raises(StoreClosedError, match="the store was closed"):
        consumer.poll(0)
