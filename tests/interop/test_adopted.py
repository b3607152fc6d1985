"""A directory goes from a real Kafka to a store and back: both find what the other has written.

Kafka writes and stops; the directory is adopted, read, appended to by the store and closed; Kafka starts on it
again with nothing but its own files to go by, and its Java client reads old and new records and appends more;
then the store opens it once more. The second way round Kafka is killed, not stopped, and the store is.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import logstore
from logstore.errors import DirectoryLockedError
from logstore.log import Marker, ProducerStamp
from tests.interop.broker import Broker
from tests.interop.clients import JavaClient, Row
from tests.interop.make_fixtures import START_MS, several
from tests.kit.logs import finish_rolls

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPICS = {
    "plain": {"retention_ms": 3_600_000_000_000},
    "latest": {"cleanup_policy": "compact", "segment_bytes": 1_048_576},
    "committed": {},
}


def values(records):
    return [None if record.value is None else bytes(record.value) for record in records]


def read_values(java: JavaClient, topic: str, isolation: str = "read_uncommitted") -> list[bytes | None]:
    return [read.row.value for read in java.read(topic, isolation)]


@pytest.fixture(scope="module")
def journey(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory):
    """A broker that has written and been stopped; its directory."""
    broker = Broker(tmp_path_factory.mktemp("adopted") / "broker")
    with broker, JavaClient(broker.bootstrap, broker.directory / "client.log") as java:
        for topic, config in TOPICS.items():
            java.create(topic, **config)
        java.open("writer", enable_idempotence="true")
        for topic in ("plain", "latest"):
            java.send("writer", topic, several(20, START_MS, name=b"kafka"))
        java.close("writer")
        java.open("transactional", transactional_id="t")
        java.begin("transactional")
        java.send("transactional", "committed", several(3, START_MS, name=b"kept"))
        java.commit("transactional")
        java.begin("transactional")
        java.send("transactional", "committed", several(2, START_MS, name=b"dropped"))
        java.abort("transactional")
        java.close("transactional")
        with pytest.raises(DirectoryLockedError):
            logstore.adopt_kafka_directory(broker.data)
    return broker


def test_a_directory_goes_to_the_store_and_back(journey: Broker) -> None:
    broker, root = journey, journey.data
    adopted = logstore.adopt_kafka_directory(root)
    assert set(TOPICS) <= set(adopted.topics)
    assert adopted.topics["plain"].settings["retention.ms"] == "3600000000000"
    assert adopted.topics["latest"].settings["cleanup.policy"] == "compact"
    with logstore.open(root) as store:
        old = values(store["plain"][0].scan())
        assert len(old) == 20
        assert len(list(store["committed"][0].scan(isolation="read_committed"))) == 3
        store["plain"].append_many(
            [(b"k", b"store %d" % number) for number in range(500)], codec=logstore.Codec.LZ4
        )
        log = store["committed"][0]
        stamp = store._host.next_producer_id()
        log.append([b"store's"], producer=ProducerStamp(stamp, 0, 0, transactional=True))
        log.replica.append_control(Marker.COMMIT, producer_id=stamp, producer_epoch=0)
        store["latest"].append(b"newest", key=b"k1")
        for name in store.topics(internal=True):
            store.describe_topic(name)
        store.housekeep()
        everything = {name: values(store[name][0].scan()) for name in TOPICS}
        committed = values(store["committed"][0].scan(isolation="read_committed"))
        ours = store.create_topic("ours")
        ours.append(b"one")
    told = logstore.release_to_kafka(root, leave_stray=True)
    assert told.was_clean
    assert set(TOPICS) <= set(told.known)
    assert told.stray == ("ours",)

    with broker, JavaClient(broker.bootstrap, broker.directory / "client.log") as java:
        for name in TOPICS:
            assert read_values(java, name) == everything[name], name
        assert read_values(java, "committed", "read_committed") == committed
        java.open("again", enable_idempotence="true")
        java.send("again", "plain", [Row(START_MS, b"k", b"kafka again")])
        java.close("again")
    # Kafka started by its own checkpoints: it had nothing to look for.
    assert broker.printed().count("since clean shutdown file was found") == 1
    # What it does not know it has moved aside, and told so.
    assert list(root.glob("ours-0*-stray")) or (root / "ours-0").exists()
    for stray in root.glob("*-stray"):
        shutil.move(stray, broker.directory)

    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        assert values(store["plain"][0].scan()) == [*everything["plain"], b"kafka again"]
        assert store["plain"].append(b"store again").offset == len(everything["plain"]) + 1


def test_back_again_after_a_kill_of_either(journey: Broker) -> None:
    broker, root = journey, journey.data
    with logstore.open(root) as store:
        expected = values(store["plain"][0].scan())
        store["plain"].append(b"before the copy", ack="synced")
        store.housekeep()
        store["plain"].append(b"behind the checkpoint", ack="synced")
        # What a killed process leaves: a copy while the store is open.
        finish_rolls()
        crashed = shutil.copytree(root, root.parent / "crashed", ignore=shutil.ignore_patterns("logstore.socket"))
    shutil.rmtree(root)
    crashed.rename(root)
    expected += [b"before the copy", b"behind the checkpoint"]
    logstore.release_to_kafka(root)
    broker.start()
    try:
        with JavaClient(broker.bootstrap, broker.directory / "client.log") as java:
            assert read_values(java, "plain") == expected
            java.open("last", enable_idempotence="false")
            java.send("last", "plain", [Row(START_MS, b"k", b"before the kill")])
            java.close("last")
    finally:
        broker.kill()
    for stray in root.glob("*-stray"):
        shutil.move(stray, broker.directory)
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        assert values(store["plain"][0].scan()) == [*expected, b"before the kill"]
