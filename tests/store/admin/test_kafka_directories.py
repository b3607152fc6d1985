"""Taking over what Kafka wrote, and giving it back: nothing is lost, changed by surprise, or deleted."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import random
import shutil
import sys
from pathlib import Path

import pytest

import logstore
from logstore.batch._encode import Encoder
from logstore.errors import (
    ConfigError,
    CorruptRecordError,
    DirectoryLockedError,
    NotALogError,
    OldBatchError,
    StorageError,
    TooManyFilesError,
    UnsupportedFormatError,
)
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import RootLock
from logstore.log.formats import checkpoints
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.root import Root, StoreLock
from logstore.store.admin import kafka_metadata
from logstore.store.admin.kafka_directories import FIRST_PRODUCER_ID
from logstore.store.catalog.topic_list import Catalogue
from logstore.store.commit.staged_writer import Manifest, StagedFileWriter
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from tests.crash.interrupts import Lines, at_line
from tests.kit.files import flip

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
KAFKA = FIXTURES / "kafka-4.3.1"
EXPECTED = json.loads((FIXTURES / "kafka-4.3.1.json").read_text(encoding="utf-8"))
YEAR_MS = 365 * 86_400_000
#: Of the changes that a hand-back makes, each of so many is failed; `make soak` tries them all.
EVERY = int(os.environ.get("LOGSTORE_HAND_BACK_EVERY", "7"))


@pytest.fixture
def root(tmp_path):
    """A directory that a real Kafka 4.3.1 wrote and was stopped on."""
    return shutil.copytree(KAFKA, tmp_path / "kafka")


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def offsets(log):
    return [record.offset for record in log.scan()]


def test_before_it_is_adopted_it_opens_read_only(root):
    before = tree(root)
    with pytest.raises(NotALogError, match="adopt"):
        logstore.open(root)
    with logstore.open(root, read_only=True) as store:
        assert "records" in store.topics()
        assert offsets(store["records"][0]) == [row[0] for row in EXPECTED["records"]["records"]]
    assert tree(root) == before


def test_adopting_writes_the_catalogue_and_its_mark_and_nothing_else(root):
    before = tree(root)
    adopted = logstore.adopt_kafka_directory(root)
    after = tree(root)
    assert set(after) - set(before) == {"logstore.topics", "logstore.newest", "logstore.adopted", ".lock"}
    assert {name: after[name] for name in before} == before
    assert adopted.from_metadata
    assert adopted.cluster_id == "AFpKPn13QWYpNmdFiIX9Dg"
    assert set(adopted.topics) == {*EXPECTED, "__transaction_state"}


def test_adopting_may_be_cut_off_anywhere(small, tmp_path):
    """It is a store that knows what it is, or still Kafka's directory."""
    for nth in itertools.count(1):
        files = FaultyFiles()
        files.fail("change", nth, errno=5)
        copy = shutil.copytree(small, tmp_path / f"copy-{nth}")
        with contextlib.suppress(StorageError):
            logstore.adopt_kafka_directory(copy, files=files)
        if not files.fired():
            break
        if not (copy / "logstore.topics").exists():
            with logstore.open(copy, read_only=True) as store:
                assert len(offsets(store["records"][0])) == EXPECTED["records"]["end"]
            logstore.adopt_kafka_directory(copy)
        with logstore.open(copy):
            assert (copy / "logstore.adopted").exists()
    assert nth > 5


@pytest.mark.parametrize("op", ["open", "fsync_dir", "listdir"])
def test_adopting_without_a_descriptor_changes_nothing(small, tmp_path, op):
    whole = FaultyFiles()
    logstore.adopt_kafka_directory(shutil.copytree(small, tmp_path / "whole"), files=whole)
    before = tree(small)
    for nth in range(1, whole.counts()[op] + 1):
        files = FaultyFiles()
        files.fail(op, nth, errno.EMFILE, times=-1)
        copy = shutil.copytree(small, tmp_path / f"{op}-{nth}")
        try:
            logstore.adopt_kafka_directory(copy, files=files)
        except TooManyFilesError:
            assert {name: data for name, data in tree(copy).items() if name != ".lock"} == before
            logstore.adopt_kafka_directory(copy)
        # Else it was only the mark, or the root that is given back.
        with logstore.open(copy) as store:
            assert len(offsets(store["records"][0])) == EXPECTED["records"]["end"]
            assert (copy / "logstore.adopted").exists()


@pytest.mark.parametrize("what", ["adopt_kafka_directory", "release_to_kafka", "rebuild"])
def test_an_interrupt_at_any_line_leaves_the_root_unlocked(small, tmp_path, what):
    """And what was cut off is a store, or a directory of Kafka's, that the same call finishes."""
    prepared = shutil.copytree(small, tmp_path / "prepared")
    if what != "adopt_kafka_directory":
        logstore.adopt_kafka_directory(prepared)
    if what == "rebuild":
        (prepared / "logstore.topics").unlink()
    call = getattr(logstore, what)
    lines = Lines(1 << 60)
    sys.settrace(lines)
    call(shutil.copytree(prepared, tmp_path / "whole"))
    sys.settrace(None)
    count = (1 << 60) - lines.left
    # Some anywhere, and each where the root is given back.
    for nth in [*random.Random(1).sample(range(1, count), 15), *range(count - 30, count)]:
        copy = shutil.copytree(prepared, tmp_path / f"{what}-{nth}")
        was_interrupted, where, _ = at_line(nth, lambda copy=copy: call(copy))
        assert was_interrupted
        assert not RootLock.is_taken(Directory(str(copy)), str(StoreLock._NAME)), where
        StoreLock.acquire(Directory(str(copy)), ManualClock()).release()
        with contextlib.suppress(NotALogError):  # it had come to its end
            call(copy)
        shutil.rmtree(copy)


def test_every_topic_is_as_kafkas_client_read_it_and_goes_on(root):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root, clock=ManualClock()) as store:
        assert store._host.cluster_id == "AFpKPn13QWYpNmdFiIX9Dg"
        for name, facts in EXPECTED.items():
            log = store[name][0]
            assert (log.log_start_offset, log.log_end_offset) == (facts["start"], facts["end"]), name
            assert offsets(log) == [row[0] for row in facts["records"]], name
            told = (root / f"{name}-0" / "partition.metadata").read_text()
            assert store[name].id in told
        at = store["records"].append(b"one more")
        assert at.offset == EXPECTED["records"]["end"]
    with logstore.open(root) as store:
        assert offsets(store["records"][0])[-1] == at.offset
        assert (root / "meta.properties").read_bytes() == (KAFKA / "meta.properties").read_bytes()


def test_settings_are_those_of_kafkas_metadata(root):
    adopted = logstore.adopt_kafka_directory(root)
    compacted = adopted.topics["compacted"].settings
    assert compacted["cleanup.policy"] == "compact"
    assert compacted["segment.ms"] == "3599999"
    assert compacted["min.cleanable.dirty.ratio"] == "0.001"
    assert adopted.topics["append-time"].settings["message.timestamp.type"] == "LogAppendTime"
    # A key that Kafka keeps for its own tests, and means.
    assert adopted.topics["transactions"].settings["segment.bytes"] == "900"
    with logstore.open(root) as store:
        assert store["append-time"].config.message_timestamp_type == "logappendtime"
        assert store["compacted"].config.cleanup_policy == "compact"


@pytest.mark.row("R4")
def test_retention_that_is_not_given_is_for_ever(root):
    adopted = logstore.adopt_kafka_directory(root)
    assert adopted.topics["records"].settings["retention.ms"] == "-1"
    # Years later, and with a default of the store that deletes.
    clock = ManualClock()
    clock.advance(3 * YEAR_MS)
    with logstore.open(root, retention_ms=1, retention_bytes=1, clock=clock) as store:
        store.housekeep()
        for name, facts in EXPECTED.items():
            if "compacted" not in name:
                assert offsets(store[name][0]) == [row[0] for row in facts["records"]], name


def test_settings_of_the_caller_hold_where_kafka_says_nothing(root, tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("log.retention.hours=48\nlog.segment.bytes=1000000\nnum.network.threads=3\n")
    adopted = logstore.adopt_kafka_directory(root, properties)
    assert adopted.topics["records"].settings["retention.ms"] == str(48 * 3_600_000)
    assert adopted.topics["records"].settings["segment.bytes"] == "1000000"
    assert adopted.topics["transactions"].settings["segment.bytes"] == "900"


def test_what_the_caller_says_counts_even_if_it_is_the_default(root):
    adopted = logstore.adopt_kafka_directory(root, {"retention.ms": 604_800_000})
    assert adopted.topics["records"].settings["retention.ms"] == "604800000"


def test_a_wrong_setting_is_refused_and_nothing_is_written(root):
    before = tree(root)
    with pytest.raises(ConfigError):
        logstore.adopt_kafka_directory(root, {"retention.msec": 5})
    assert tree(root) == before


def test_without_metadata_directories_tell_and_internal_topics_are_compacted(root):
    shutil.rmtree(root / "__cluster_metadata-0")
    adopted = logstore.adopt_kafka_directory(root)
    assert not adopted.from_metadata
    assert adopted.topics["__transaction_state"].settings["cleanup.policy"] == "compact"
    assert adopted.topics["records"].settings["retention.ms"] == "-1"
    assert adopted.topics["records"].id in (root / "records-0" / "partition.metadata").read_text()


def test_a_directory_of_a_cluster_with_zookeeper_is_adopted_too(root):
    shutil.rmtree(root / "__cluster_metadata-0")
    (root / "meta.properties").write_text("version=0\nbroker.id=3\ncluster.id=tPaAzZ5mQ5uSTsVJ6NjmUw\n")
    for metadata in root.glob("*/partition.metadata"):
        metadata.unlink()
    adopted = logstore.adopt_kafka_directory(root)
    assert adopted.cluster_id == "tPaAzZ5mQ5uSTsVJ6NjmUw"
    assert len({entry.id for entry in adopted.topics.values()}) == len(adopted.topics)
    with logstore.open(root) as store:
        assert offsets(store["epochs"][0]) == [row[0] for row in EXPECTED["epochs"]["records"]]


def test_what_kafka_left_when_it_was_killed_is_adopted_and_recovered(tmp_path):
    root = shutil.copytree(FIXTURES / "kafka-4.3.1-running", tmp_path / "kafka")
    expected = json.loads((FIXTURES / "kafka-4.3.1-running.json").read_text(encoding="utf-8"))
    logstore.adopt_kafka_directory(root)
    with logstore.open(root, clock=ManualClock()) as store:
        for name, facts in expected.items():
            assert offsets(store[name][0]) == [row[0] for row in facts["records"]], name


def test_producer_ids_of_ours_are_far_from_kafkas(root):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        assert store._host.next_producer_id() >= FIRST_PRODUCER_ID > 2**32


# -- bad input


def test_a_running_kafka_is_told_by_its_lock(root):
    from logstore.log.directory.files import Directory
    from logstore.log.root import StoreLock

    hold = StoreLock.acquire(Directory(root), ManualClock())
    try:
        with pytest.raises(DirectoryLockedError):
            logstore.adopt_kafka_directory(root)
    finally:
        hold.release()
    assert not (root / "logstore.topics").exists()


def refused(root, error, match):
    before = tree(root)
    with pytest.raises(error, match=match):
        logstore.adopt_kafka_directory(root)
    after = tree(root)
    after.pop(".lock", None)
    before.pop(".lock", None)
    assert after == before


def test_what_is_no_directory_of_kafkas_is_refused(tmp_path, root):
    refused(tmp_path / "nowhere", NotALogError, "does not exist")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", NotALogError, "is not Kafka's")
    logstore.adopt_kafka_directory(root)
    refused(root, NotALogError, "a store already")
    with logstore.open(tmp_path / "ours") as store:
        store.create_topic("flights")
    refused(tmp_path / "ours", NotALogError, "a store already")


def test_what_kafka_has_moved_aside_is_named_with_what_helps(root):
    """Kafka leaves such directories for good: to start it once more would not help."""
    (root / "__logstore_sinks-0.0123456789abcdef-stray").mkdir()
    refused(root, NotALogError, r"__logstore_sinks-0\.0123456789abcdef-stray aside.*move them out.*once more then")


@pytest.mark.parametrize("suffix", ["-delete", "-future"])
def test_what_kafka_has_not_finished_with_is_named(root, suffix):
    (root / f"gone-0.0123456789abcdef{suffix}").mkdir()
    refused(root, NotALogError, rf"gone-0\.0123456789abcdef{suffix}.*start and stop it once")


def test_foreign_directories_and_files_are_named(root):
    (root / "photos").mkdir()
    refused(root, NotALogError, "photos")
    (root / "photos").rmdir()
    (root / "records-0" / "photo.jpg").write_bytes(b"")
    refused(root, NotALogError, r"photo\.jpg")


def test_a_topic_of_which_only_a_part_is_here_is_refused(root):
    shutil.copytree(root / "records-0", root / "records-2")
    refused(root, NotALogError, r"'records' lacks its partitions 1")


def test_a_topic_that_kafka_has_deleted_meanwhile_is_refused(root):
    shutil.copytree(root / "records-0", root / "old-0")
    refused(root, NotALogError, "'old' is not in Kafka's metadata any more")


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_refused(root, magic):
    segment = next((root / "records-0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[16] = magic
    segment.write_bytes(data)
    refused(root, UnsupportedFormatError, f"message format {magic}")


def test_damaged_metadata_are_refused(root):
    segment = next((root / "__cluster_metadata-0").glob("*.log"))
    flip(segment, 9_000)
    refused(root, CorruptRecordError, "__cluster_metadata-0")


# -- Kafka's log of metadata


def text(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def config(what: int, resource_name: str, key: str, value: str | None) -> bytes:
    return b"\x01\x04\x00" + bytes([what]) + text(resource_name) + text(key) + text(value) + b"\0"


def cluster_of(*values: bytes) -> kafka_metadata.KafkaMetadata:
    cluster = kafka_metadata.KafkaMetadata()
    for value in values:
        kafka_metadata.apply(cluster, value)
    return cluster


TOPIC = b"\x01\x02\x00" + text("flights") + bytes(range(16)) + b"\0"


def test_the_last_word_on_a_setting_counts():
    cluster = cluster_of(
        TOPIC,
        config(2, "flights", "retention.ms", "5"),
        config(2, "flights", "segment.bytes", "7"),
        config(2, "flights", "retention.ms", None),
        config(4, "", "log.retention.ms", "9"),
        config(4, "1", "log.retention.ms", "10"),
    )
    assert cluster.topic_settings == {"flights": {"segment.bytes": "7"}}
    assert cluster.broker_settings == {"log.retention.ms": "9"}
    assert cluster.ids == {"flights": "AAECAwQFBgcICQoLDA0ODw"}


def test_a_topic_that_was_removed_is_gone_with_its_settings():
    cluster = cluster_of(
        TOPIC, config(2, "flights", "retention.ms", "5"), b"\x01\x09\x00" + bytes(range(16)) + b"\0"
    )
    assert (cluster.ids, cluster.topic_settings, cluster.partitions) == ({}, {}, {})


def test_every_cut_of_a_record_is_damage():
    whole = config(2, "flights", "retention.ms", "5")
    for size in range(len(whole) - 1):
        with pytest.raises(CorruptRecordError):
            cluster_of(whole[:size])
    with pytest.raises(CorruptRecordError, match="frame version 2"):
        cluster_of(b"\x02" + whole[1:])
    with pytest.raises(CorruptRecordError, match="32 bits"):
        cluster_of(b"\xff" * 9)


def test_a_snapshot_of_the_metadata_stands_for_what_it_replaced(root):
    directory = root / "__cluster_metadata-0"
    segment = next(directory.glob("*.log"))
    # All of it as one snapshot, and nothing behind.
    (directory / "00000000000000000340-0000000003.checkpoint").write_bytes(segment.read_bytes())
    for name in (segment.name, segment.with_suffix(".index").name, segment.with_suffix(".timeindex").name):
        (directory / name).unlink()
    (directory / "00000000000000000340.log").write_bytes(b"")
    adopted = logstore.adopt_kafka_directory(root)
    assert set(adopted.topics) == {*EXPECTED, "__transaction_state"}
    assert adopted.topics["compacted"].settings["cleanup.policy"] == "compact"


# -- giving it back


def test_handing_back_leaves_a_directory_of_kafkas_that_may_be_adopted_again(root):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        store["records"].append(b"one")
        store["deleted"].delete_records({0: -1})
        with pytest.raises(DirectoryLockedError):
            logstore.release_to_kafka(root)
        for name in store.topics(internal=True):
            store.describe_topic(name)
        ends = {name: store[name][0].log_end_offset for name in EXPECTED}
    told = logstore.release_to_kafka(root)
    assert told.stray == ()
    assert set(told.known) == {*EXPECTED, "__transaction_state"}
    assert told.was_clean
    assert not [name for name in tree(root) if "logstore." in name]
    with pytest.raises(NotALogError, match="adopt"):
        logstore.open(root)
    with logstore.open(root, read_only=True) as store:
        assert {name: store[name][0].log_end_offset for name in EXPECTED} == ends
    recovery = checkpoints.read_offsets((root / checkpoints.RECOVERY_POINTS).read_bytes(), "")
    assert {name: recovery[logstore.TopicPartition(name, 0)] for name in EXPECTED} == ends
    # As Kafka does it: segments go, and nothing of ours is there to miss them.
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        assert {name: store[name][0].log_end_offset for name in EXPECTED} == ends
        assert store["deleted"][0].log_start_offset == ends["deleted"]
        assert offsets(store["records"][0])[-1] == EXPECTED["records"]["end"]


def test_a_store_that_reads_goes_on_when_the_directory_changes_hands(root, tmp_path):
    """A reader that went by what the writer had published would see nothing of what Kafka writes."""
    end = EXPECTED["records"]["end"]
    with logstore.open(root, read_only=True) as reader:
        assert len(offsets(reader["records"][0])) == end
        logstore.adopt_kafka_directory(root)
        with logstore.open(root) as store:
            store["records"].append(b"ours")
            assert len(offsets(reader["records"][0])) == end + 1
        logstore.release_to_kafka(root)
        # As Kafka does: behind the end, and nothing of ours is kept up.
        ours = shutil.copytree(root, tmp_path / "copy")
        logstore.adopt_kafka_directory(ours)
        with logstore.open(ours) as store:
            store["records"].append(b"Kafka's")
        for segment in (ours / "records-0").glob("*.log"):
            (root / "records-0" / segment.name).write_bytes(segment.read_bytes())
        assert len(offsets(reader["records"][0])) == end + 2


def test_topics_that_kafka_does_not_know_are_named_before_anything_changes(root):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        store.create_topic("ours").append(b"two")
    before = tree(root)
    with pytest.raises(NotALogError, match=r"does not know ours.*leave_stray"):
        logstore.release_to_kafka(root)
    assert set(tree(root)) == set(before)
    assert logstore.release_to_kafka(root, leave_stray=True).stray == ("ours",)
    assert (root / "ours-0").exists()


def test_handing_back_may_be_cut_off_anywhere(root):
    """Until its last step the directory is a store that opens, with all its records."""
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        store["records"].append(b"one")
        end = store["records"][0].log_end_offset
    cut = 0
    for nth in range(1, 7):
        files = FaultyFiles()
        files.fail("unlink", nth, errno=5)
        copy = shutil.copytree(root, root.parent / f"copy-{nth}")
        try:
            logstore.release_to_kafka(copy, files=files)
        except StorageError:
            cut += 1
            with logstore.open(copy) as store:
                assert store["records"][0].log_end_offset == end
            logstore.release_to_kafka(copy)
        assert not [name for name in tree(copy) if "logstore." in name]
    assert cut > 2


# -- leader epochs


def killed(root: Path, to: Path) -> Path:
    """What a process leaves that has appended to a topic and is killed."""
    with logstore.open(root) as store:
        store["records"].append(b"one more", ack="synced")
        with store.consumer(group="readers", auto_offset_reset="earliest") as consumer:
            consumer.assign_topics(["records"])
            while consumer.poll():
                pass
            consumer.commit()
        return shutil.copytree(root, to, ignore=shutil.ignore_patterns("logstore.socket"))


def epochs_in(root: Path) -> list[int]:
    """The leader epoch of each batch of a topic."""
    found, offset = [], 0
    with logstore.Log.open(root / "records-0", read_only=True) as log:
        while offset < log.log_end_offset:
            run = log.read(offset)
            found += [batch.leader_epoch for batch in run.batches()]
            offset = run.next_offset
    return found


def newest_epoch(root: Path) -> int:
    """Of those that Kafka's metadata name for the topic."""
    cluster = kafka_metadata.read(Directory(root / "__cluster_metadata-0"))
    return cluster.leader_epochs[cluster.ids["records"], 0]


@pytest.mark.parametrize("adopted_by", ["this version", "an earlier version"])
@pytest.mark.parametrize("metadata", ["here", "elsewhere"])
def test_killed_writers_of_an_adopted_directory_raise_no_leader_epoch(root, tmp_path, metadata, adopted_by):
    """Kafka goes on with the next epoch of its own metadata, and its consumers wait for ever behind a later one."""
    before = epochs_in(root)
    newest = newest_epoch(root)
    # That of a leader which wrote nothing.
    known = Epochs.load(Directory(root / "records-0")).latest.epoch
    if metadata == "elsewhere":
        shutil.rmtree(root / "__cluster_metadata-0")
    logstore.adopt_kafka_directory(root)
    if adopted_by == "an earlier version":
        (root / "logstore.adopted").unlink()
        rewrite_catalogue(root, lambda facts: facts.pop("adopted"))
    for number in range(3):
        root = killed(root, tmp_path / f"killed-{number}")
    with logstore.open(root):
        pass
    # A log that is opened alone goes by the same.
    with logstore.Log.open(root / "records-0") as log:
        log.append([b"alone"])
        again = shutil.copytree(root, tmp_path / "alone")
    with logstore.Log.open(again / "records-0") as log:
        assert not log.maintenance.was_clean
        log.append([b"alone again"])
    after = epochs_in(again)
    assert after == [*before, *[known] * 5]
    assert max(after) <= newest


def rewrite_catalogue(root: Path, change) -> None:
    from logstore.batch._crc32c import crc32c

    head, facts, *_ = Catalogue.load(Directory(root)).to_bytes().split(b"\n")
    told = json.loads(facts)
    change(told)
    body = head + b"\n" + json.dumps(told).encode() + b"\n"
    (root / "logstore.topics").write_bytes(body + b"crc32c %08x\n" % crc32c(body))


def test_a_store_of_its_own_still_tells_what_came_after_an_unclean_stop(tmp_path):
    with logstore.open(tmp_path / "ours") as store:
        store.create_topic("records").append(b"one")
        copy = shutil.copytree(
            tmp_path / "ours", tmp_path / "copy", ignore=shutil.ignore_patterns("logstore.socket")
        )
    with logstore.open(copy) as store:
        store["records"].append(b"two")
    assert epochs_in(copy) == [0, 1]


def test_kafkas_metadata_tell_the_leader_epochs(root):
    cluster = kafka_metadata.read(Directory(root / "__cluster_metadata-0"))
    for name, topic_id in cluster.ids.items():
        latest = Epochs.load(Directory(root / f"{name}-0")).latest
        assert cluster.leader_epochs[topic_id, 0] >= (-1 if latest is None else latest.epoch)
    # Each stop of the broker that had it, and each start, is a change of the leader.
    assert cluster.leader_epochs[cluster.ids["epochs"], 0] >= 2


def partition(number: int, epoch: int) -> bytes:
    one = b"\x02" + (7).to_bytes(4, "big")
    brokers = one + one + b"\x01\x01"
    numbers = (7).to_bytes(4, "big") + epoch.to_bytes(4, "big") + bytes(4)
    return b"\x01\x03\x00" + number.to_bytes(4, "big") + bytes(range(16)) + brokers + numbers + b"\0"


def change(number: int, *tagged: tuple[int, bytes]) -> bytes:
    fields = b"".join(bytes([tag, len(data)]) + data for tag, data in tagged)
    return b"\x01\x05\x00" + number.to_bytes(4, "big") + bytes(range(16)) + bytes([len(tagged)]) + fields


def test_a_leader_epoch_rises_with_each_change_of_the_leader():
    topic_id = "AAECAwQFBgcICQoLDA0ODw"
    none, seven = (-1).to_bytes(4, "big", signed=True), (7).to_bytes(4, "big")
    isr = (0, b"\x02" + seven)
    records = [TOPIC, partition(0, 3), change(0, (1, none)), change(0, isr, (1, seven)), change(0, isr), change(0)]
    cluster = cluster_of(*records, change(0, (1, (-2).to_bytes(4, "big", signed=True))))
    assert cluster.leader_epochs == {(topic_id, 0): 5}
    # A snapshot, or an assignment by hand, names it again.
    assert cluster_of(*records, partition(0, 9)).leader_epochs == {(topic_id, 0): 9}
    assert cluster_of(*records, b"\x01\x09\x00" + bytes(range(16)) + b"\0").leader_epochs == {}
    for record in (partition(0, 3), change(0, isr, (1, seven))):
        for size in range(len(record) - 5):
            with pytest.raises(CorruptRecordError):
                cluster_of(TOPIC, record[:size])


@pytest.fixture
def small(root):
    """One topic of it, so that trying every step takes no longer than it has to."""
    for directory in root.iterdir():
        if directory.is_dir() and directory.name not in ("records-0", "__cluster_metadata-0"):
            shutil.rmtree(directory)
    return root


@pytest.fixture
def raised(small, tmp_path, monkeypatch):
    """A directory in which a version before this one was killed three times."""
    root = small
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store, store.consumer(group="readers", auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(["records"])
        consumer.poll()
        consumer.commit()
        topic_id = store["__consumer_offsets"].id
    # As Kafka would know it.
    monkeypatch.setattr(kafka_metadata, "read", with_topic(kafka_metadata.read, "__consumer_offsets", topic_id))
    with monkeypatch.context() as before:
        before.setattr(Root, "is_kafkas", lambda self: False)
        for number in range(3):
            root = killed(root, tmp_path / f"killed-{number}")
    return root


def with_topic(read, name, topic_id):
    def read_more(directory):
        cluster = read(directory)
        cluster.ids[name] = topic_id
        cluster.partitions[topic_id] = {0}
        cluster.leader_epochs[topic_id, 0] = 0
        return cluster

    return read_more


def test_leader_epochs_above_kafkas_are_lowered_when_a_directory_goes_back(raised, tmp_path):
    kafkas = newest_epoch(raised)
    assert max(epochs_in(raised)) > kafkas
    with logstore.open(raised) as store:
        store.snapshot(tmp_path / "snapshot")
        everything = [record.value for record in store["records"][0].scan()]
    snapshot = tree(tmp_path / "snapshot")
    logstore.release_to_kafka(raised)
    told = epochs_in(raised)
    assert max(told) <= kafkas
    assert told == sorted(told)
    assert Epochs.load(Directory(raised / "records-0")).latest.epoch <= kafkas
    with logstore.open(raised, read_only=True) as store:
        assert [record.value for record in store["records"][0].scan()] == everything
        (commit,) = store.committed("readers").values()
        assert (commit.offset, commit.leader_epoch) == (len(everything), kafkas)
    # It may have segments in common with the directory.
    assert tree(tmp_path / "snapshot") == snapshot


def cut_off_anywhere(root: Path, tmp_path: Path):
    """Hand copies back, each with another change that fails, and those again; (copy, another of the cut one)."""
    for nth in itertools.count(1, EVERY):
        files = FaultyFiles()
        files.fail("change", nth, errno=5)
        copy, cut = shutil.copytree(root, tmp_path / f"copy-{nth}"), None
        try:
            logstore.release_to_kafka(copy, files=files)
        except StorageError:
            if (copy / "logstore.topics").exists():
                cut = shutil.copytree(copy, tmp_path / f"cut-{nth}")
                logstore.release_to_kafka(copy)
        if not files.fired():
            return
        yield copy, cut


def test_lowering_epochs_may_be_cut_off_anywhere(raised, tmp_path):
    with logstore.open(raised, read_only=True) as store:
        everything = [record.value for record in store["records"][0].scan()]
    kafkas = newest_epoch(raised)
    count = 0
    for copy, cut in cut_off_anywhere(raised, tmp_path):
        if cut is not None:
            count += 1
            with logstore.open(cut) as store:
                assert [record.value for record in store["records"][0].scan()] == everything
        assert max(epochs_in(copy)) <= kafkas
        with logstore.open(copy, read_only=True) as store:
            assert [record.value for record in store["records"][0].scan()] == everything
            assert [commit.leader_epoch for commit in store.committed("readers").values()] == [kafkas]
    assert count > 20 // EVERY


# -- what the store remembers


def sink(store, batch: int, values: list[bytes]):
    """Commit a batch as Spark's sink does."""
    topic_id = store["records"].id
    file = StagedFileWriter.create(store.path, "records", topic_id, 0, query="q", batch=batch, attempt=0)
    encoder = Encoder().begin(timestamp_ms=store._host.clock.now_ms())
    encoder.add_all(values)
    file.write(encoder.finish())
    return store._host.ingest(Manifest("q", batch, "exactly_once", (file.close(),)))


def test_a_batch_that_is_in_stays_in_when_the_directory_goes_to_kafka_and_comes_back(root):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        for batch in range(3):
            assert not sink(store, batch, [b"batch %d" % batch]).duplicate
        end = store["records"][0].log_end_offset
    for _ in range(2):
        told = logstore.release_to_kafka(root)
        assert told.stray == ()
        # Kafka knows no such topic, and would move it aside for good.
        assert not (root / "__logstore_sinks-0").exists()
        logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        assert sink(store, 2, [b"batch 2"]).duplicate
        assert store["records"][0].log_end_offset == end
        with pytest.raises(OldBatchError):
            sink(store, 1, [b"batch 1"])
        assert not sink(store, 3, [b"batch 3"]).duplicate
    logstore.release_to_kafka(root)
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        assert sink(store, 3, [b"batch 3"]).duplicate


def test_a_copy_of_a_store_that_came_back_remembers_too(root, tmp_path):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        sink(store, 0, [b"batch 0"])
    logstore.release_to_kafka(root)
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        store.snapshot(tmp_path / "copy")
    with logstore.open(tmp_path / "copy") as store:
        assert sink(store, 0, [b"batch 0"]).duplicate


def test_what_sinks_remember_outlives_a_cut_anywhere(small, tmp_path):
    logstore.adopt_kafka_directory(small)
    with logstore.open(small) as store:
        sink(store, 0, [b"batch 0"])
    count = 0
    for copy, cut in cut_off_anywhere(small, tmp_path):
        count += cut is not None
        logstore.adopt_kafka_directory(copy)
        for each in filter(None, (copy, cut)):
            with logstore.open(each) as store:
                assert sink(store, 0, [b"batch 0"]).duplicate
    assert count > 10 // EVERY


def test_what_is_remembered_and_damaged_is_named_before_anything_changes(root):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        sink(store, 0, [b"batch 0"])
    logstore.release_to_kafka(root)
    data = (root / "logstore-kept").read_bytes()
    for damaged in (data[:-1], data.replace(b'"done":0', b'"done":1'), b"", b"logstore kept 2\n{}\n"):
        (root / "logstore-kept").write_bytes(damaged)
        refused(root, CorruptRecordError, "sinks' commits is damaged.*ingested again")
    (root / "logstore-kept").write_bytes(data)
    logstore.adopt_kafka_directory(root)


def test_no_producer_id_is_given_out_again_after_adopting_again(root):
    """The logs know the producers of the time before, and would take records of a second one for repeated ones."""
    given = []
    for _ in range(3):
        logstore.adopt_kafka_directory(root)
        with logstore.open(root) as store, store.producer() as producer:
            given.append(store._host.next_producer_id())
            producer.send("records", b"by a producer of its own").result()
            end = store["records"][0].log_end_offset
        logstore.release_to_kafka(root)
    assert len(set(given)) == 3
    assert end == EXPECTED["records"]["end"] + 3


def test_producer_ids_of_a_store_of_its_own_are_far_from_kafkas_too(tmp_path):
    """Its partitions may be given to a Kafka, which begins with 0, and would take new records for repeated ones."""
    with logstore.open(tmp_path / "ours") as store:
        assert store._host.next_producer_id() >= FIRST_PRODUCER_ID


def test_offsets_that_kafka_would_move_aside_are_named(root):
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store, store.consumer(group="readers") as consumer:
        consumer.assign_topics(["records"])
        consumer.commit({logstore.TopicPartition("records", 0): 3})
    with pytest.raises(NotALogError, match=r"__consumer_offsets.*what groups have committed is lost"):
        logstore.release_to_kafka(root)


def test_there_is_nothing_to_hand_back_where_there_is_no_store(tmp_path, root):
    before = tree(root)
    for place in (root, tmp_path / "nowhere"):
        with pytest.raises(NotALogError, match="no store"):
            logstore.release_to_kafka(place)
    assert tree(root) == before
