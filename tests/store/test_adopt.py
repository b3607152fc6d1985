"""Taking over what Kafka wrote, and giving it back: nothing is lost, changed by surprise, or deleted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import logstore
from logstore.errors import (
    ConfigError,
    CorruptRecordError,
    DirectoryLockedError,
    NotALogError,
    StorageError,
    UnsupportedFormatError,
)
from logstore.log import checkpoint
from logstore.store import kraft
from logstore.store.adopt import FIRST_PRODUCER_ID
from logstore.testing import ManualClock

FIXTURES = Path(__file__).parent.parent / "fixtures"
KAFKA = FIXTURES / "kafka-4.3.1"
EXPECTED = json.loads((FIXTURES / "kafka-4.3.1.json").read_text(encoding="utf-8"))
YEAR_MS = 365 * 86_400_000


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


def test_adopting_writes_the_catalogue_and_nothing_else(root):
    before = tree(root)
    adopted = logstore.adopt(root)
    after = tree(root)
    assert set(after) - set(before) == {"logstore.topics", ".lock"}
    assert {name: after[name] for name in before} == before
    assert adopted.from_metadata
    assert adopted.cluster_id == "AFpKPn13QWYpNmdFiIX9Dg"
    assert set(adopted.topics) == {*EXPECTED, "__transaction_state"}


def test_every_topic_is_as_kafkas_client_read_it_and_goes_on(root):
    logstore.adopt(root)
    with logstore.open(root, clock=ManualClock()) as store:
        assert store.cluster_id == "AFpKPn13QWYpNmdFiIX9Dg"
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
    adopted = logstore.adopt(root)
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
def test_what_nobody_says_of_retention_is_for_ever(root):
    adopted = logstore.adopt(root)
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
    adopted = logstore.adopt(root, properties)
    assert adopted.topics["records"].settings["retention.ms"] == str(48 * 3_600_000)
    assert adopted.topics["records"].settings["segment.bytes"] == "1000000"
    assert adopted.topics["transactions"].settings["segment.bytes"] == "900"


def test_what_the_caller_says_counts_even_if_it_is_the_default(root):
    adopted = logstore.adopt(root, {"retention.ms": 604_800_000})
    assert adopted.topics["records"].settings["retention.ms"] == "604800000"


def test_a_wrong_setting_is_refused_and_nothing_is_written(root):
    before = tree(root)
    with pytest.raises(ConfigError):
        logstore.adopt(root, {"retention.msec": 5})
    assert tree(root) == before


def test_without_metadata_directories_tell_and_internal_topics_are_compacted(root):
    shutil.rmtree(root / "__cluster_metadata-0")
    adopted = logstore.adopt(root)
    assert not adopted.from_metadata
    assert adopted.topics["__transaction_state"].settings["cleanup.policy"] == "compact"
    assert adopted.topics["records"].settings["retention.ms"] == "-1"
    assert adopted.topics["records"].id in (root / "records-0" / "partition.metadata").read_text()


def test_a_directory_of_a_cluster_with_zookeeper_is_adopted_too(root):
    shutil.rmtree(root / "__cluster_metadata-0")
    (root / "meta.properties").write_text("version=0\nbroker.id=3\ncluster.id=tPaAzZ5mQ5uSTsVJ6NjmUw\n")
    for metadata in root.glob("*/partition.metadata"):
        metadata.unlink()
    adopted = logstore.adopt(root)
    assert adopted.cluster_id == "tPaAzZ5mQ5uSTsVJ6NjmUw"
    assert len({entry.id for entry in adopted.topics.values()}) == len(adopted.topics)
    with logstore.open(root) as store:
        assert offsets(store["epochs"][0]) == [row[0] for row in EXPECTED["epochs"]["records"]]


def test_what_kafka_left_when_it_was_killed_is_adopted_and_recovered(tmp_path):
    root = shutil.copytree(FIXTURES / "kafka-4.3.1-running", tmp_path / "kafka")
    expected = json.loads((FIXTURES / "kafka-4.3.1-running.json").read_text(encoding="utf-8"))
    logstore.adopt(root)
    with logstore.open(root, clock=ManualClock()) as store:
        for name, facts in expected.items():
            assert offsets(store[name][0]) == [row[0] for row in facts["records"]], name


def test_producer_ids_of_ours_are_far_from_kafkas(root):
    logstore.adopt(root)
    with logstore.open(root) as store:
        assert store.next_producer_id() >= FIRST_PRODUCER_ID > 2**32


# -- bad input


def test_a_running_kafka_is_told_by_its_lock(root):
    from logstore.log.files import Directory
    from logstore.log.root import RootHold

    hold = RootHold.acquire(Directory(root), ManualClock())
    try:
        with pytest.raises(DirectoryLockedError):
            logstore.adopt(root)
    finally:
        hold.release()
    assert not (root / "logstore.topics").exists()


def refused(root, error, match):
    before = tree(root)
    with pytest.raises(error, match=match):
        logstore.adopt(root)
    after = tree(root)
    after.pop(".lock", None)
    before.pop(".lock", None)
    assert after == before


def test_what_is_no_directory_of_kafkas_is_refused(tmp_path, root):
    refused(tmp_path / "nowhere", NotALogError, "nothing to adopt")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", NotALogError, "no directory of Kafka's")
    logstore.adopt(root)
    refused(root, NotALogError, "a store already")
    with logstore.open(tmp_path / "ours") as store:
        store.create_topic("flights")
    refused(tmp_path / "ours", NotALogError, "a store already")


@pytest.mark.parametrize("suffix", ["-delete", "-future", "-stray"])
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
    refused(root, NotALogError, r"'records' the partitions 1 are not here")


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
    data = bytearray(segment.read_bytes())
    data[9_000] ^= 1
    segment.write_bytes(data)
    refused(root, CorruptRecordError, "__cluster_metadata-0")


# -- Kafka's log of metadata


def text(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def config(what: int, whose: str, key: str, value: str | None) -> bytes:
    return b"\x01\x04\x00" + bytes([what]) + text(whose) + text(key) + text(value) + b"\0"


def cluster_of(*values: bytes) -> kraft.Cluster:
    cluster = kraft.Cluster()
    for value in values:
        kraft.apply(cluster, value)
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
    adopted = logstore.adopt(root)
    assert set(adopted.topics) == {*EXPECTED, "__transaction_state"}
    assert adopted.topics["compacted"].settings["cleanup.policy"] == "compact"


# -- giving it back


def test_handing_back_leaves_a_directory_of_kafkas_that_may_be_adopted_again(root):
    logstore.adopt(root)
    with logstore.open(root) as store:
        store["records"].append(b"one")
        store["deleted"].delete_records({0: -1})
        with pytest.raises(DirectoryLockedError):
            logstore.hand_back(root)
        for name in store.topics(internal=True):
            store.describe_topic(name)
        ends = {name: store[name][0].log_end_offset for name in EXPECTED}
    told = logstore.hand_back(root)
    assert told.stray == ()
    assert set(told.known) == {*EXPECTED, "__transaction_state"}
    assert told.was_clean
    assert not [name for name in tree(root) if "logstore." in name]
    with pytest.raises(NotALogError, match="adopt"):
        logstore.open(root)
    with logstore.open(root, read_only=True) as store:
        assert {name: store[name][0].log_end_offset for name in EXPECTED} == ends
    recovery = checkpoint.read_offsets((root / checkpoint.RECOVERY_POINTS).read_bytes(), "")
    assert {name: recovery[logstore.TopicPartition(name, 0)] for name in EXPECTED} == ends
    # As Kafka does it: segments go, and nothing of ours is there to miss them.
    logstore.adopt(root)
    with logstore.open(root) as store:
        assert {name: store[name][0].log_end_offset for name in EXPECTED} == ends
        assert store["deleted"][0].log_start_offset == ends["deleted"]
        assert offsets(store["records"][0])[-1] == EXPECTED["records"]["end"]


def test_topics_that_kafka_does_not_know_are_named_before_anything_changes(root):
    logstore.adopt(root)
    with logstore.open(root) as store:
        store.create_topic("ours").append(b"two")
    before = tree(root)
    with pytest.raises(NotALogError, match=r"does not know ours.*leave_stray"):
        logstore.hand_back(root)
    assert set(tree(root)) == set(before)
    assert logstore.hand_back(root, leave_stray=True).stray == ("ours",)
    assert (root / "ours-0").exists()


def test_handing_back_may_be_cut_off_anywhere(root):
    """Until its last step the directory is a store that opens, with all its records."""
    from logstore.testing._faults import FaultyFiles

    logstore.adopt(root)
    with logstore.open(root) as store:
        store["records"].append(b"one")
        end = store["records"][0].log_end_offset
    cut = 0
    for nth in range(1, 7):
        files = FaultyFiles()
        files.fail("unlink", nth, errno=5)
        copy = shutil.copytree(root, root.parent / f"copy-{nth}")
        try:
            logstore.hand_back(copy, files=files)
        except StorageError:
            cut += 1
            with logstore.open(copy) as store:
                assert store["records"][0].log_end_offset == end
            logstore.hand_back(copy)
        assert not [name for name in tree(copy) if "logstore." in name]
    assert cut > 2


def test_there_is_nothing_to_hand_back_where_there_is_no_store(tmp_path, root):
    before = tree(root)
    for place in (root, tmp_path / "nowhere"):
        with pytest.raises(NotALogError, match="no store"):
            logstore.hand_back(place)
    assert tree(root) == before
