"""Topics of a store: named by rule, made once, changed and deleted whole, seen alike by every process."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
import threading

import pytest

import logstore
from logstore.errors import (
    ConfigError,
    DirectoryLockedError,
    DiskFullError,
    ForkedError,
    InvalidPartitionsError,
    InvalidSettingError,
    InvalidTopicError,
    LogClosedError,
    NotALogError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    ReadOnlyError,
    RecordTypeError,
    StorageError,
    StoreClosedError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownSettingError,
    UnknownTopicError,
)
from logstore.log import Marker, ProducerStamp
from logstore.records import Isolation, NewTopic
from logstore.store.admin.diagnosis import diagnose
from logstore.store.catalog import layout
from logstore.testing import FaultyFiles, ManualClock, SimDisk
from logstore.topic_names import SINKS


@pytest.fixture
def disk():
    return SimDisk(seed=1)


@pytest.fixture
def store(disk):
    with open_store(disk) as opened:
        yield opened


def open_store(disk, **settings):
    return logstore.open("/data", settings, files=disk, clock=ManualClock())


# -- names


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "../up", "a b", "naïve", "a\0b", "a:b", "x" * 250, "a\n", "/etc/passwd"],
)
def test_names_by_kafkas_rule(store, disk, name):
    before = disk.image("/data")
    with pytest.raises(InvalidTopicError) as refused:
        store.create_topic(name)
    assert refused.value.code == 17
    assert disk.image("/data") == before


@pytest.mark.parametrize("name", [None, 5, b"flights"])
def test_a_name_is_text(store, name):
    with pytest.raises(InvalidTopicError, match="is a str"):
        store.create_topic(name)


@pytest.mark.parametrize("name", ["a", "x" * 249, "flights-0", "A.b_c-9", "-", "...", "0"])
def test_every_name_that_kafka_allows(disk, name):
    with open_store(disk) as store:
        store.create_topic(name, 2).append(b"one", partition=1)
    with open_store(disk) as store:
        assert store.topics() == [name]
        assert [record.value for record in store[name].read(1)] == [b"one"]


def test_names_that_look_the_same_in_metrics_are_refused(store):
    store.create_topic("a.b")
    with pytest.raises(InvalidTopicError, match="looks the same"):
        store.create_topic("a_b")


# -- creating


@pytest.mark.row("M1")
def test_a_topic_is_made_once(store):
    made = store.create_topic("flights", 2)
    store.create_topic("weather")
    with pytest.raises(TopicExistsError) as refused:
        store.create_topic("flights")
    assert refused.value.code == 36
    again = store.create_topic("flights", 7, if_not_exists=True)
    assert (again.id, again.partition_count) == (made.id, 2)
    assert sorted(store.topics()) == ["flights", "weather"]


@pytest.mark.parametrize("count", [0, -1, 10_001, 1.5, "3", True])
def test_a_number_of_partitions(store, disk, count):
    before = disk.image("/data")
    with pytest.raises(InvalidPartitionsError) as refused:
        store.create_topic("flights", count)
    assert refused.value.code == 37
    assert disk.image("/data") == before
    assert store.topics() == []


def test_wrong_settings_are_all_named_and_nothing_is_made(store, disk):
    before = disk.image("/data")
    with pytest.raises(ConfigError) as refused:
        store.create_topic("flights", 1, {"retention.msec": 5, "segment.bytes": -1})
    assert set(refused.value.problems) == {"retention.msec", "segment.bytes"}
    assert disk.image("/data") == before


def test_threads_that_make_the_same_topic_get_one(store):
    made, refused = [], []

    def make():
        try:
            made.append(store.create_topic("flights", 3))
        except TopicExistsError as error:
            refused.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 7)


def test_a_full_disk_leaves_no_half_made_topic(disk):
    with open_store(disk) as store:
        store.create_topic("flights")
        disk.fail("pwrite", 2, errno=28, times=-1)
        with pytest.raises(DiskFullError):
            store.create_topic("weather", 4)
        assert store.topics() == ["flights"]
        disk.heal()
        store.create_topic("weather", 2)
    with open_store(disk) as store:
        assert store["weather"].partition_count == 2


# -- describing and changing


def test_a_topic_is_described(store):
    topic = store.create_topic("flights", 2, retention_ms=5000)
    topic.append(b"one", partition=1)
    told = store.describe_topic("flights")
    assert (told.name, told.id, told.internal) == ("flights", topic.id, False)
    assert told.settings == {"retention.ms": "5000"}
    assert told.config.retention_ms == 5000
    assert [(p.partition, p.log_end_offset, p.segment_count) for p in told.partitions] == [(0, 0, 1), (1, 1, 1)]
    assert told.partitions[1].size > 60


def test_settings_change_while_the_topic_is_used_and_stay(disk):
    with open_store(disk, **{"segment.bytes": 1000}) as store:
        topic = store.create_topic("flights", 1, {"segment.bytes": 200})
        for _ in range(4):
            topic.append(b"x" * 60)
        assert topic[0].maintenance.segment_count > 1
        assert store.alter_topic("flights", {"segment.bytes": 1 << 20, "retention.ms": 7}) == {
            "segment.bytes": str(1 << 20),
            "retention.ms": "7",
        }
        count = topic[0].maintenance.segment_count
        for _ in range(20):
            topic.append(b"x" * 60)
        assert topic[0].maintenance.segment_count <= count + 1
        # None takes a key back to the store's default.
        assert store.alter_topic("flights", {"segment.bytes": None}) == {"retention.ms": "7"}
        assert topic.config.segment_bytes == 1000
    with open_store(disk) as store:
        assert store["flights"].config.retention_ms == 7


def test_a_wrong_change_changes_nothing(store):
    store.create_topic("flights", retention_ms=5)
    with pytest.raises(UnknownSettingError):
        store.alter_topic("flights", {"retention.ms": 9, "no.such.key": 1})
    with pytest.raises(UnknownSettingError):
        store.alter_topic("flights", {"no.such.key": None})
    assert store["flights"].config.retention_ms == 5
    with pytest.raises(UnknownTopicError):
        store.alter_topic("weather", {"retention.ms": 9})


def test_partitions_are_added_while_the_topic_is_used(disk):
    with open_store(disk) as store:
        topic = store.create_topic("flights")
        topic.append(b"one")
        grown = store.add_partitions("flights", 3)
        assert (topic.partition_count, grown.id) == (3, topic.id)
        topic.append(b"two", partition=2)
        for total in (3, 1, 0, 10_001):
            with pytest.raises(InvalidPartitionsError):
                store.add_partitions("flights", total)
    with open_store(disk) as store:
        assert [record.value for record in store["flights"].read(2)] == [b"two"]
        assert [record.value for record in store["flights"].read(0)] == [b"one"]


# -- deleting


def test_a_deleted_topic_is_gone_with_its_files(store, disk):
    topic = store.create_topic("flights", 2)
    topic.append(b"one")
    log = topic[0]
    store.delete_topic("flights")
    assert "flights" not in store
    assert not [path for path in disk.image("/data") if "flights" in path]
    for use in (lambda: topic.append(b"two"), lambda: topic[0], lambda: store["flights"], topic.read):
        with pytest.raises(UnknownTopicError) as refused:
            use()
        assert refused.value.code == 3
    with pytest.raises(LogClosedError):
        log.append([b"two"])
    with pytest.raises(UnknownTopicError):
        store.delete_topic("flights")


def test_a_topic_made_again_is_another_one(store):
    old = store.create_topic("flights")
    old.append(b"old")
    store.delete_topic("flights")
    new = store.create_topic("flights")
    assert new.id != old.id
    assert list(new.read()) == []
    with pytest.raises(UnknownTopicError, match="another of this name"):
        old.append(b"one")
    assert new.append(b"one").offset == 0


def test_a_topic_at_hand_gives_no_record_of_another_one_of_its_name(store):
    """Its log was found before: what is asked for from then on is compared with the topics as they are."""
    old = store.create_topic("flights")
    old.append(b"old")
    assert [old.record_at(0, 0).value for _ in range(2)] == [b"old"] * 2
    store.delete_topic("flights")
    new = store.create_topic("flights")
    new.append(b"new")
    assert [new.record_at(0, 0).value for _ in range(2)] == [b"new"] * 2
    for use in (lambda: old.record_at(0, 0), lambda: old.read(0), lambda: old.offset_for_time(0)):
        with pytest.raises(UnknownTopicError, match="another of this name"):
            use()
    for number in (1, -1, False):
        with pytest.raises(UnknownPartitionError):
            new.record_at(number, 0)


def test_a_topic_finds_the_records_that_its_partitions_find(store):
    """Its own call for a record at hand answers as `Log.record_at` does, and leaves the rest to it."""
    topic = store.create_topic("flights", partitions=2)
    for number in (0, 1, 1):
        topic.append(b"%d" % number, key=b"k", partition=number, headers=[("h", b"x")])
    topic[1].append([b"of a transaction"], producer=ProducerStamp(7, 0, 0, True))
    for number, log in enumerate(topic.partitions):
        for isolation in (None, *Isolation, "read_committed"):
            chosen = isolation or Isolation.READ_UNCOMMITTED
            end = log.end_offset(chosen)
            for offset in range(end):
                found = topic.record_at(number, offset, isolation=isolation)
                assert found == log.record_at(offset, isolation=chosen)
                assert (found.topic, found.partition, found.offset) == ("flights", number, offset)
            for offset in (-1, end, 10**30):
                with pytest.raises(OffsetOutOfRangeError):
                    topic.record_at(number, offset, isolation=isolation)
    topic[1].replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
    assert topic.record_at(1, 2).value == b"of a transaction"
    assert topic.record_at(1, 2, isolation="read_committed") is None
    assert topic.record_at(1, 3) is None


def test_deleting_beside_callers_that_open_leaves_no_directory(disk):
    """A thread that asks for a partition while its topic is deleted must not make the directory again."""
    with open_store(disk) as store:
        for _ in range(15):
            topic = store.create_topic("flights", 4)
            begin = threading.Barrier(3)

            def use(topic=topic, begin=begin):
                begin.wait()
                for _ in range(3):
                    for number in range(4):
                        try:
                            topic[number].append([b"one"])
                        except (UnknownTopicError, LogClosedError, NotALogError):
                            pass

            threads = [threading.Thread(target=use) for _ in range(2)]
            for thread in threads:
                thread.start()
            begin.wait()
            store.delete_topic("flights")
            for thread in threads:
                thread.join()
            assert not [path for path in disk.image("/data") if "/flights-" in path]
            assert disk.listdir("/data").count("flights-0") == 0


def test_a_log_that_is_being_opened_while_its_topic_goes_is_closed_with_it(disk, monkeypatch):
    """It would make the directory again, and keep its files."""
    with open_store(disk) as store:
        topic = store.create_topic("flights")
        opening, go_on = threading.Event(), threading.Event()
        honest = logstore.Log.open
        got = []

        def slowly(path, *args, **options):
            opening.set()
            assert go_on.wait(300)
            return honest(path, *args, **options)

        def ask():
            try:
                got.append(topic[0])
            except UnknownTopicError as error:
                got.append(error)

        monkeypatch.setattr(logstore.Log, "open", slowly)
        opener = threading.Thread(target=ask)
        opener.start()
        assert opening.wait(300)
        deleter = threading.Thread(target=lambda: store.delete_topic("flights"))
        deleter.start()
        deleter.join(0.05)
        go_on.set()
        deleter.join(300)
        opener.join(300)
        assert "flights-0" not in disk.listdir("/data")
        if not isinstance(got[0], UnknownTopicError):
            with pytest.raises(LogClosedError):
                got[0].append([b"one"])


# -- bad input


def test_unknown_topics_and_partitions(store):
    with pytest.raises(UnknownTopicError, match="it has: none"):
        store["flights"]
    topic = store.create_topic("flights", 2)
    with pytest.raises(UnknownTopicError, match="it has: flights"):
        store["fligths"]
    for number in (2, -1, 100):
        with pytest.raises(UnknownPartitionError) as refused:
            topic[number]
        assert refused.value.code == 3
        with pytest.raises(UnknownPartitionError):
            topic.append(b"one", partition=number)


def test_a_topic_is_a_sequence_of_its_logs(store):
    """Iterating it raised behind the last one, and so did asking for a partition that it does not have."""
    topic = store.create_topic("flights", partitions=3)
    topic.append(b"v", partition=1)
    assert len(topic) == 3
    assert [log.name for log in topic] == [("flights", 0), ("flights", 1), ("flights", 2)]
    assert [log.high_watermark for log in list(topic)] == [0, 1, 0]
    first, *_, last = topic
    assert (first.name.partition, last.name.partition) == (0, 2)
    assert 0 in topic
    assert 2 in topic
    for other in (3, -1, True, 1.0, "1", None, topic[1]):
        assert other not in topic
    store.delete_topic("flights")
    with pytest.raises(UnknownTopicError):
        iter(topic)
    with pytest.raises(UnknownTopicError):
        2 in topic  # noqa: B015


def test_iterating_a_topic_opens_its_logs_one_by_one(store):
    logs = iter(store.create_topic("flights", partitions=3))
    next(logs)
    assert len(list(store._host.partitions.opened("flights"))) == 1


def test_a_str_is_no_record(store):
    topic = store.create_topic("flights")
    with pytest.raises(RecordTypeError):
        topic.append("text")
    with pytest.raises(RecordTypeError):
        topic.append(b"value", key="text")
    assert topic[0].log_end_offset == 0


def test_a_compacted_topic_needs_keys_and_keeps_its_beginning(store):
    topic = store.create_topic("latest", 1, {"cleanup.policy": "compact"})
    with pytest.raises(logstore.LogstoreError, match="key"):
        topic.append(b"one")
    topic.append(b"one", b"key")
    with pytest.raises(PolicyViolationError) as refused:
        topic.delete_records({0: 1})
    assert refused.value.code == 44


def test_deleting_records_is_whole_or_not_at_all(store):
    topic = store.create_topic("flights", 2)
    for number in range(6):
        topic.append(b"one", partition=number % 2)
    with pytest.raises(OffsetOutOfRangeError):
        topic.delete_records({0: 2, 1: 4})
    with pytest.raises(UnknownPartitionError):
        topic.delete_records({0: 2, 5: 1})
    assert [log.log_start_offset for log in topic.partitions] == [0, 0]
    assert topic.delete_records({0: 2, 1: -1}) == {0: 2, 1: 3}


def test_a_closed_store_says_so(disk):
    store = open_store(disk)
    topic = store.create_topic("flights")
    log = topic[0]
    topic.append(b"before")
    assert topic.record_at(0, 0).value == b"before"
    store.close()
    store.close()
    for use in (
        lambda: store.create_topic("weather"),
        lambda: store["flights"],
        lambda: topic.append(b"one"),
        lambda: topic.record_at(0, 0),
        store.topics,
        store.housekeep,
        store.flush,
        lambda: store.delete_topic("flights"),
    ):
        with pytest.raises(StoreClosedError):
            use()
    with pytest.raises(LogClosedError):
        log.append([b"one"])


def test_a_read_only_store_changes_nothing(disk):
    with open_store(disk) as store:
        store.create_topic("flights")
    before = disk.image("/data")
    with logstore.open("/data", files=disk, read_only=True) as reader:
        for use in (
            lambda: reader.create_topic("weather"),
            lambda: reader["flights"].append(b"one"),
            lambda: reader.alter_topic("flights", {"retention.ms": 1}),
            lambda: reader.add_partitions("flights", 2),
            lambda: reader.delete_topic("flights"),
            lambda: reader["flights"].delete_records({0: -1}),
            reader.housekeep,
        ):
            with pytest.raises(ReadOnlyError):
                use()
    assert disk.image("/data") == before


def test_foreign_directories_are_refused_and_left_alone(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(NotALogError, match=r"photo\.jpg"):
        logstore.open(tmp_path)
    assert os.listdir(tmp_path) == ["photo.jpg"]
    with pytest.raises(NotALogError, match="holds no store"):
        logstore.open(tmp_path / "nowhere", create=False)
    with pytest.raises(NotALogError, match="the directory does not exist"):
        logstore.open(tmp_path / "nowhere", read_only=True)
    with pytest.raises(NotALogError, match="a file stands"):
        logstore.open(tmp_path / "photo.jpg")
    assert os.listdir(tmp_path) == ["photo.jpg"]


# -- processes


def test_a_directory_is_no_store_because_of_a_name_in_it(tmp_path):
    """A folder such as `dbus-1` is a partition only with what a log has."""
    etc = tmp_path / "etc"
    (etc / "dbus-1" / "session.d").mkdir(parents=True)
    (etc / "dbus-1" / "session.conf").write_text("<busconfig/>")
    (etc / "empty-0").mkdir()
    (etc / "passwd").write_text("root")
    with pytest.raises(NotALogError, match=r"holds no store.*\(dbus-1, empty-0 hold no log\)"):
        logstore.open(etc, read_only=True)
    with pytest.raises(NotALogError, match="others that are no partitions: dbus-1"):
        logstore.open(etc)
    with pytest.raises(NotALogError, match="is not Kafka's"):
        logstore.adopt_kafka_directory(etc)
    assert sorted(path.name for path in etc.iterdir()) == ["dbus-1", "empty-0", "passwd"]
    assert {finding.name for finding in diagnose(etc)} >= {"foreign-file", "no-log"}


@pytest.mark.parametrize(
    "names",
    [["00000000000000000000.log"], ["logstore.recovery"], ["partition.metadata"], ["leader-epoch-checkpoint"]],
)
def test_a_directory_with_anything_of_a_log_is_listed_beside_one_without(tmp_path, names):
    (tmp_path / "dbus-1").mkdir()
    (tmp_path / "dbus-1" / "session.conf").write_text("<busconfig/>")
    (tmp_path / "t-0").mkdir()
    for name in names:
        (tmp_path / "t-0" / name).write_bytes(b"")
    with logstore.open(tmp_path, read_only=True) as store:
        assert store.topics() == ["t"]


def test_a_store_passes_over_a_folder_that_is_no_log(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("t").append(b"one")
    (tmp_path / "dbus-1").mkdir()
    (tmp_path / "dbus-1" / "session.conf").write_text("<busconfig/>")
    for read_only in (True, False):
        with logstore.open(tmp_path, read_only=read_only) as store:
            assert store.topics() == ["t"]
    with logstore.open(tmp_path) as store:
        with pytest.raises(NotALogError, match="dbus-1"):
            store.create_topic("dbus", 2)
        assert "dbus" not in store
    assert (tmp_path / "dbus-1" / "session.conf").read_text() == "<busconfig/>"


@pytest.mark.parametrize("carry", [shutil.copytree, os.rename], ids=["copied", "moved"])
def test_a_copy_of_a_partition_becomes_no_second_topic_of_its_id(tmp_path, caplog, carry):
    """Moved by mistake, it can be moved back, and nothing was taken in or made in its place meanwhile."""
    with logstore.open(tmp_path) as store:
        store.create_topic("flights").append(b"one")
        store.create_topic("planes").append(b"two")
    carry(tmp_path / "flights-0", tmp_path / "freight-0")
    for _ in range(2):
        with logstore.open(tmp_path) as store:
            assert store.topics() == ["flights", "planes"]
            assert [record.value for record in store["planes"].scan()] == [b"two"]
            ids = {store[name].id for name in store.topics()}
            assert len(ids) == 2
    assert "passed over" in caplog.text
    (finding,) = [each for each in diagnose(tmp_path) if each.name == "partition-unknown"]
    assert "'flights'" in finding.what
    if carry is os.rename:
        os.rename(tmp_path / "freight-0", tmp_path / "flights-0")
        assert not [each for each in diagnose(tmp_path) if each.name.startswith("partition-")]
        with logstore.open(tmp_path) as store:
            assert [record.value for record in store["flights"].scan()] == [b"one"]


def test_a_second_writer_is_told_the_pid(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        with pytest.raises(DirectoryLockedError, match=f"pid {os.getpid()}, this process"):
            logstore.open(tmp_path / "data")
        code = "import logstore, sys; logstore.open(sys.argv[1])"
        told = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "data")], capture_output=True, text=True, check=False
        )
        assert told.returncode
        assert f"DirectoryLockedError: the root is locked by pid {os.getpid()}" in told.stderr
        store.create_topic("flights")


def test_a_child_of_a_fork_is_refused_and_the_parent_goes_on(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights")
        topic.append(b"one")
        assert topic.record_at(0, 0).value == b"one"
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for use in (
                    lambda: topic.append(b"child"),
                    lambda: topic.record_at(0, 0),
                    store.topics,
                    lambda: store.create_topic("weather"),
                ):
                    try:
                        use()
                    except ForkedError:
                        continue
                    break
                else:
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        topic.append(b"two")
        assert [record.value for record in topic.read()] == [b"one", b"two"]


def test_a_reader_follows_topics_that_come_go_and_come_again(disk):
    with open_store(disk) as store, logstore.open("/data", files=disk, read_only=True) as reader:
        assert reader.topics() == []
        flights = store.create_topic("flights")
        flights.append(b"old")
        old = reader["flights"]
        assert [record.value for record in old.read()] == [b"old"]
        store.add_partitions("flights", 2)
        flights.append(b"second", partition=1)
        assert [record.value for record in old.read(1)] == [b"second"]
        store.delete_topic("flights")
        assert "flights" not in reader
        with pytest.raises(UnknownTopicError):
            old.read()
        store.create_topic("flights").append(b"new")
        assert [record.value for record in reader["flights"].read()] == [b"new"]
        with pytest.raises(UnknownTopicError, match="another of this name"):
            old.read()


def test_producer_ids_are_never_given_twice(disk):
    given = set()
    for _ in range(3):
        with open_store(disk) as store:
            mine = {store._host.next_producer_id() for _ in range(5)}
        assert not mine & given
        given |= mine
    after = disk.crash("none")
    with open_store(after) as store:
        assert store._host.next_producer_id() not in given


def test_records_without_a_key_take_turns_whichever_handle_appends_them(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 4)
        assert [store["flights"].append(b"value").partition for _ in range(8)] == [0, 1, 2, 3] * 2


# -- many together


def test_topics_are_made_and_deleted_together(tmp_path):
    with logstore.open(tmp_path) as store:
        wanted = [
            "plain",
            NewTopic("wide", 40, 1, {"retention.ms": 5000}),
            NewTopic("kept", settings={"cleanup.policy": "compact"}),
        ]
        made = store.create_topics(wanted)
        assert [(topic.name, topic.partition_count) for topic in made] == [("plain", 1), ("wide", 40), ("kept", 1)]
        assert len({topic.id for topic in made}) == 3
        assert store.describe_topic("wide").settings == {"retention.ms": "5000"}
        made[1].append(b"x", partition=39)
        assert store.create_topics(iter(["plain", "new"]), if_not_exists=True)[0].id == made[0].id
    with logstore.open(tmp_path) as store:
        assert store.topics() == ["kept", "new", "plain", "wide"]
        assert [record.value for record in store["wide"].read(39)] == [b"x"]
        store.delete_topics(["wide", "plain", "wide"])
        store.delete_topics("kept")
        # One name, and no topic for each of its letters.
        assert [topic.name for topic in store.create_topics("xyz")] == ["xyz"]
        assert store.create_topics(NewTopic("two", 2))[0].partition_count == 2
        store.delete_topics(["xyz", "two"])
        store.delete_topics([])
        assert (store.topics(), store.create_topics([])) == (["new"], [])
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["new-0"]


@pytest.mark.parametrize(
    ("wanted", "error", "text"),
    [
        (["a", "b", "a"], InvalidTopicError, "'a' is named twice"),
        (["a.b", "a_b"], InvalidTopicError, "'a_b' looks the same as 'a.b'"),
        (["new", "there.is"], InvalidTopicError, "'there.is' looks the same as 'there_is'"),
        (["new", "there_is"], TopicExistsError, "'there_is' exists already"),
        (["new", "bad name"], InvalidTopicError, "bad name"),
        (["new", 5], InvalidTopicError, "a topic's name is a str, found int"),
        (["new", ("other", 0)], InvalidPartitionsError, "1 to 10"),
        (["new", ("other", 1, 3)], InvalidSettingError, "a store has one copy, found 3"),
        (["new", ("other", 1, 1, {"retention": 5})], UnknownSettingError, "retention"),
    ],
)
def test_of_topics_that_cannot_be_made_none_is(disk, wanted, error, text):
    with logstore.open("/data", files=disk) as store:
        store.create_topic("there_is")
        before = disk.operations
        with pytest.raises(error, match=text):
            store.create_topics([NewTopic(*each) if isinstance(each, tuple) else each for each in wanted])
        assert (store.topics(), disk.operations) == (["there_is"], before)


def test_of_topics_that_cannot_be_deleted_none_is(disk):
    with logstore.open("/data", files=disk) as store:
        store.create_topics(["a", "b"])
        before = disk.operations
        with pytest.raises(UnknownTopicError, match="'c' does not exist"):
            store.delete_topics(["a", "c", "b"])
        with pytest.raises(PolicyViolationError, match="committed batches"):
            store.delete_topics(["a", SINKS])
        assert (store.topics(), disk.operations) == (["a", "b"], before)


def test_a_directory_in_the_way_of_one_topic_stops_all_and_stays(tmp_path):
    with logstore.open(tmp_path) as store:
        (tmp_path / "b-1").mkdir()
        (tmp_path / "b-1" / "mine").write_text("mine")
        with pytest.raises(NotALogError, match="a directory of this name is there already"):
            store.create_topics(["a", NewTopic("b", 2)])
        assert store.topics() == []
        # A directory that no topic has claimed is not removed with one.
        store.create_topic("b", 1)
        store.delete_topic("b")
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["b-1"]
        assert (tmp_path / "b-1" / "mine").read_text() == "mine"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_when_one_of_many_directories_cannot_be_made_nothing_is_made(tmp_path, error):
    files = FaultyFiles()
    with logstore.open(tmp_path, files=files) as store:
        files.fail("mkdir", errno=error, path_contains="/t-33")
        with pytest.raises(StorageError):
            store.create_topics(["other", NewTopic("t", 50)])
        assert store.topics() == []
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
        assert store.create_topics(["other", NewTopic("t", 50)])[1].partition_count == 50


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_when_one_of_many_syncs_fails_the_topic_is_not_used_and_is_there(tmp_path, error):
    files = FaultyFiles()
    with logstore.open(tmp_path, files=files) as store:
        topic = store.create_topics(["other", NewTopic("t", 50)])[1]
        files.fail("fsync_dir", errno=error, times=2, path_contains="/t-33")
        with pytest.raises(StorageError):
            topic.append(b"one", partition=0)
        files.heal()
        assert topic.append(b"one", partition=0).offset == 0
        assert store["other"].append(b"one").offset == 0


class Asked(SimDisk):
    """Remembers which directories are listed."""

    listed: list[str]

    def listdir(self, path: str) -> list[str]:
        self.__dict__.setdefault("listed", []).append(path)
        return super().listdir(path)


def test_making_and_deleting_topics_lists_no_other_directory():
    """Else a thousand topics would be listed for each new one."""
    disk = Asked(seed=1)
    with logstore.open("/data", files=disk) as store:
        for topic in store.create_topics([f"t{number}" for number in range(30)]):
            topic.append(b"value")
    with logstore.open("/data", files=disk) as store:  # it has read facts about each partition
        store.topic("t8").append(b"value")
        disk.listed.clear()
        store.create_topic("one")
        store.create_topics(["two", "three"])
        store.delete_topic("t7")
        assert "/data/t7-0" in disk.listed
        assert set(disk.listed) <= {f"/data/{name}-0" for name in ("one", "two", "three", "t7")}


def test_a_store_opens_with_three_listings_of_its_root_and_none_of_its_partitions():
    """Once before the lock, once for the lock's facts, once under the lock."""
    disk = Asked(seed=1)
    with logstore.open("/data", files=disk) as store:
        for topic in store.create_topics([f"t{number}" for number in range(30)]):
            topic.append(b"value")
    disk.listed.clear()
    with logstore.open("/data", files=disk) as store:
        assert disk.listed == ["/data"] * 3
        disk.listed.clear()
        store.topic("t8").append(b"value")
        # A log looks at its place before the root is locked for it, and once more under the lock.
        assert disk.listed == ["/data/t8-0"] * 2
        disk.listed.clear()
    assert disk.listed == []


def test_a_close_after_an_unclean_stop_lists_no_partition_that_is_clean():
    disk = Asked(seed=1)
    with logstore.open("/data", files=disk) as store:
        for topic in store.create_topics([f"t{number}" for number in range(30)]):
            topic.append(b"value")
    disk.unlink("/data/.kafka_cleanshutdown")
    with logstore.open("/data", files=disk) as store:
        store.topic("t8").append(b"value")
        disk.listed.clear()
    assert disk.listed == ["/data"]
    assert ".kafka_cleanshutdown" in disk.listdir("/data")


def test_a_log_opens_with_two_listings_of_its_directory():
    disk = Asked(seed=1)
    for is_new in (True, False):
        with logstore.Log.open("/data/t-0", files=disk) as log:
            assert disk.listed.count("/data/t-0") == 2
            assert disk.listed.count("/data") == 2 + is_new
            log.append([b"value"])
        disk.listed.clear()
    with logstore.Log.open("/data/t-0", files=disk, read_only=True):
        assert disk.listed == ["/data/t-0"] * 2


@pytest.mark.parametrize("step", ["make", "done", "undo"])
def test_topics_that_cannot_be_grown_together_all_keep_their_partitions(tmp_path, monkeypatch, step):
    """One announcement is for all of them: the next open removes what is half made of each."""
    totals = {"a": 3, "b": 2}
    with logstore.open(tmp_path / "data") as store:
        for name in totals:
            store.create_topic(name).append(b"its directories are durable")
        topics = store._host.topics_table
        with monkeypatch.context() as patched:

            def fail(*_: object) -> None:
                raise StorageError("the disk refused")

            def save_or_fail(entries):
                number = next(count)
                if number == 2 or (number == 3 and step == "undo"):
                    raise StorageError("the disk refused")
                save(entries)

            save, count = topics._save_locked, itertools.count(1)
            if step == "make":
                patched.setattr(layout, "make_partitions", fail)
            else:
                patched.setattr(topics, "_save_locked", save_or_fail)
            with pytest.raises(StorageError):
                topics.grow_all(totals)
        assert {name: topics.find(name).partitions for name in totals} == {"a": 1, "b": 1}
    with logstore.open(tmp_path / "data") as store:
        assert {name: store[name].partition_count for name in totals} == {"a": 1, "b": 1}
        assert sorted(each.name for each in (tmp_path / "data").iterdir() if each.is_dir()) == ["a-0", "b-0"]
        grown = store._host.topics_table.grow_all(totals)
        assert {name: entry.partitions for name, entry in grown.items()} == totals
        store["a"].log(2).append([b"in a new one"])
