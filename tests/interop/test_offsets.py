"""Committed offsets and a real Kafka: what its clients commit is read by ours, and the other way round."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import logstore
from logstore import Log
from logstore.groups.offsets import OffsetAndMetadata, OffsetKey, encode_key, encode_value
from logstore.records import TopicPartition
from logstore.topic_names import CONSUMER_OFFSETS
from tests.interop.broker import Broker
from tests.interop.clients import JavaClient
from tests.interop.offset_records import ask_kafka, load

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.row("C11", part="one process")]

A, B = TopicPartition("flights", 0), TopicPartition("gates", 0)


def test_the_fixture_is_what_kafka_writes_today(kafka_jars: Path) -> None:
    asked = ask_kafka()
    assert asked == load()
    for written in asked:
        assert encode_key(written.key) == written.key_bytes
        assert encode_value(written.found) == written.value_bytes


def consumer_of(broker: Broker, group: str):
    from kafka import KafkaConsumer

    return KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)


def topic_id_of(data: Path, topic: str) -> str:
    return re.search(r"topic_id: (\S+)", (data / f"{topic}-0" / "partition.metadata").read_text())[1]


def empty_log(place: Path) -> None:
    for path in place.iterdir():
        if path.name != "partition.metadata":
            path.unlink()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_offsets_go_to_a_broker_and_come_back(kafka_jars: Path, tmp_path: Path) -> None:
    """A client commits to a broker, ours reads its directory; ours commits, and the client is told so."""
    from kafka import TopicPartition as KafkaPartition
    from kafka.structs import OffsetAndMetadata as Commit

    broker = Broker(tmp_path / "broker")
    with broker:
        with JavaClient(broker.bootstrap, tmp_path / "client.log") as java:
            java.create("flights")
            java.create("gates")
        for group, offsets in (("crew", {A: 5, B: 7}), ("crew", {A: 6}), ("tower-größe", {B: 1})):
            client = consumer_of(broker, group)
            client.assign([KafkaPartition(*place) for place in offsets])
            client.commit(
                {KafkaPartition(*place): Commit(offset, f"at {offset}", -1) for place, offset in offsets.items()}
            )
            client.close()
    with logstore.open(broker.data, read_only=True) as store:
        assert store.offsets.groups() == ["crew", "tower-größe"]
        found = store.committed("crew")
        assert {place: commit[:3] for place, commit in found.items()} == {A: (6, "at 6", -1), B: (7, "at 7", -1)}
        assert found[A].topic_id in ("", topic_id_of(broker.data, "flights"))
        assert store.committed("tower-größe")[B].offset == 1
        assert CONSUMER_OFFSETS in store.topics(internal=True)

    # The other way: a log of ours takes the place of the broker's.
    with Log.open(tmp_path / "ours" / f"{CONSUMER_OFFSETS}-0", cleanup_policy="compact") as log:
        for group, place, offset in (("crew", A, 50), ("crew", B, 70), ("crew", A, 60), ("new", B, 3)):
            commit = OffsetAndMetadata(
                offset,
                f"ours {offset}",
                commit_ms=1_900_000_000_000,
                topic_id=topic_id_of(broker.data, place.topic),
            )
            log.append([(encode_key(OffsetKey(group, place)), encode_value(commit))])
        log.append([(encode_key(OffsetKey("crew", B)), None)])
    place = broker.data / f"{CONSUMER_OFFSETS}-0"
    empty_log(place)
    for path in (tmp_path / "ours" / f"{CONSUMER_OFFSETS}-0").glob("*.log"):
        shutil.copy(path, place)
    (broker.data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    with broker:
        for group, expected in (("crew", {A: 60, B: None}), ("new", {A: None, B: 3}), ("tower-größe", {B: None})):
            client = consumer_of(broker, group)
            assert {each: client.committed(KafkaPartition(*each)) for each in expected} == expected
            client.close()


@pytest.mark.row("V1")
def test_kafkas_client_reads_offsets_that_are_positions(kafka_jars: Path, tmp_path: Path) -> None:
    """Gaps between batches are legal: a broker serves them, the Java client reads and appends behind them."""
    from tests.interop.clients import Row

    with Log.open(tmp_path / "ours" / "positions-0", offset_mode="bytes", segment_bytes=2_000) as log:
        sent = {}
        for n in range(60):
            value = b"%d" % n * (n % 20 + 1)
            result = log.append([(b"k", value, 1_700_000_000_000 + n)])
            sent[result.first_offset] = value
        end = log.log_end_offset
        files = list((tmp_path / "ours" / "positions-0").glob("*.log"))
    assert len(files) > 2
    broker = Broker(tmp_path / "broker")
    with broker, JavaClient(broker.bootstrap, tmp_path / "client.log") as java:
        java.create("positions")
    place = broker.data / "positions-0"
    empty_log(place)
    for path in files:
        shutil.copy(path, place)
    (broker.data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    with broker, JavaClient(broker.bootstrap, tmp_path / "client.log") as java:
        assert java.offsets("positions") == (0, end)
        assert {read.offset: read.row.value for read in java.read("positions")} == sent
        java.open("plain", enable_idempotence="false")
        (read,) = java.send("plain", "positions", [Row(1_700_000_001_000, None, b"behind")])
        assert read.offset == end
        java.close("plain")
