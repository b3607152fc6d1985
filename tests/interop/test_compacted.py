"""Kafka on a log that we have compacted: its dump tool, its broker, its clients, and its own cleaner as a judge.

The same log lies under a broker three times. ``ours``: as our compaction has left it. ``raw``: as it was
before, for Kafka's log cleaner to compact. ``again``: ours, for Kafka's cleaner to go over once more. All
three have to read alike, record by record.
"""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from logstore import Log
from logstore.records import Codec, TimestampType
from logstore.testing import ManualClock
from tests.interop.broker import Broker, forget_in_checkpoints
from tests.interop.clients import JavaClient, Read, Row
from tests.interop.test_dump import dump, parsed
from tests.kit.waiting import wait_for
from tests.log.keyed import Keyed, committed, kept

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.row("R3"),
]

WAIT_S = 120
DAY_MS = 86_400_000
SETTINGS = {"cleanup_policy": "compact", "segment_bytes": 3_000, "index_interval_bytes": 300}
TOPICS = ("ours", "raw", "again")


class Compaction(NamedTuple):
    """A log before and after our compaction, and what is to be read of it."""

    raw: Path
    ours: Path
    history: Keyed
    end: int
    records: list[Read]
    committed: list[Read]


def reads(log: Log, isolation: str) -> list[Read]:
    return [
        Read(r.offset, Row(r.timestamp_ms, r.key, r.value, tuple(r.headers))) for r in log.scan(isolation=isolation)
    ]


@pytest.fixture(scope="module")
def compaction(tmp_path_factory: pytest.TempPathFactory) -> Compaction:
    directory = tmp_path_factory.mktemp("compaction")
    clock = ManualClock(int(time.time() * 1000) - DAY_MS)
    raw, ours = directory / "raw" / "keys-0", directory / "ours" / "keys-0"
    with Log.open(raw, SETTINGS, clock=clock) as log:
        history = Keyed(log, clock, random.Random(4), keys=40)
        for _ in range(500):
            history.step()
            clock.advance(1)
        history.settle()
        log.maintenance.roll()
        end = log.log_end_offset
    shutil.copytree(raw, ours)
    with Log.open(ours, SETTINGS, clock=clock) as log:
        log.maintenance.compact()
        log.maintenance.compact()
        assert log.maintenance.cleanable().first_dirty_offset == end
        records, seen = reads(log, "read_uncommitted"), reads(log, "read_committed")
    assert len(records) < 100 < len(committed(history.parts))
    return Compaction(raw, ours, history, end, records, seen)


def test_the_dump_tool_reads_what_a_compaction_has_left(compaction: Compaction) -> None:
    files = sorted(compaction.ours.glob("*.log"))
    lines = dump(files, "--deep-iteration", "--print-data-log")
    # Gaps are what a compaction leaves; the tool names them.
    bad = ("ismatch", "out of order", "not found", "isvalid: false", "rror", "xception")
    assert [line for line in lines if any(word in line for word in bad) and not line.startswith("| ")] == []
    batches = [parsed(line) for line in lines if line.startswith("baseOffset: ")]
    with Log.open(compaction.ours, read_only=True) as log:
        views = [view for chunk in log.scan().chunks() for view in chunk.batches()]
    assert [
        (
            str(view.base_offset),
            str(view.last_offset),
            str(view.record_count),
            str(view.producer_id),
            str(view.base_sequence),
            str(view.last_sequence),
            str(view.crc),
            view.codec.name.lower(),
            "OptionalLong.empty" if view.delete_horizon_ms is None else f"OptionalLong[{view.delete_horizon_ms}]",
            str(view.max_timestamp_ms),
            "true",
        )
        for view in views
    ] == [
        (
            batch["baseOffset"],
            batch["lastOffset"],
            batch["count"],
            batch["producerId"],
            batch["baseSequence"],
            batch["lastSequence"],
            batch["crc"],
            batch["compresscodec"],
            batch["deleteHorizonMs"],
            batch["CreateTime"],
            batch["isvalid"],
        )
        for batch in batches
    ]
    found = [parsed(line.split(" payload: ")[0]) for line in lines if line.startswith("| offset: ")]
    data = [(int(f["offset"]), int(f["CreateTime"])) for f in found if "endTxnMarker" not in f]
    assert data == [(offset, row.timestamp_ms) for offset, row in compaction.records]
    # All of it was met: batches that lost records, headers alone, horizons, every codec, markers.
    assert any(0 < v.record_count <= v.last_offset - v.base_offset for v in views)
    assert any(v.record_count == 0 for v in views)
    assert any(v.delete_horizon_ms is not None for v in views)
    assert any(v.is_control for v in views)
    assert {v.codec for v in views} == set(Codec)
    assert {v.timestamp_type for v in views} == {TimestampType.CREATE_TIME}


def test_the_dump_tool_finds_its_way_by_our_indexes(compaction: Compaction) -> None:
    indexes = sorted([*compaction.ours.glob("*.index"), *compaction.ours.glob("*.timeindex")])
    lines = dump(indexes, "--verify-index-only")
    assert [line for line in lines if "ismatch" in line or "xception" in line] == []
    listed = dump(sorted(compaction.ours.glob("*.txnindex")))
    assert [line for line in listed if "xception" in line or "rror" in line] == []


@pytest.fixture(scope="module")
def served(compaction: Compaction, tmp_path_factory: pytest.TempPathFactory):
    """(what the Java client reads by topic and isolation, the broker's directory, what it has printed)."""
    directory = tmp_path_factory.mktemp("served")
    broker = Broker(directory / "broker", log_cleaner_backoff_ms=200, log_initial_task_delay_ms=500)
    log = directory / "client.log"
    with broker, JavaClient(broker.bootstrap, log) as java:
        for topic in TOPICS:
            policy = "delete" if topic == "ours" else "compact"
            java.create(topic, cleanup_policy=policy, min_cleanable_dirty_ratio="0.001")
    for topic in TOPICS:
        place = broker.data / f"{topic}-0"
        for path in place.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (compaction.raw if topic == "raw" else compaction.ours).iterdir():
            # Ours say where the log ends, and Kafka is going to append.
            if not path.name.startswith("logstore."):
                shutil.copy(path, place)
    forget_in_checkpoints(broker.data, [f"{topic}-0" for topic in TOPICS])
    with broker, JavaClient(broker.bootstrap, log) as java:
        wait_until_cleaned(broker.data, compaction.end)
        read = {
            (topic, isolation): java.read(topic, isolation)
            for topic in TOPICS
            for isolation in ("read_uncommitted", "read_committed")
        }
        java.open("plain", enable_idempotence="true")
        more = java.send("plain", "ours", [Row(int(time.time() * 1000), b"more", b"of theirs")])
    return read, broker.data, broker.printed(), more


def wait_until_cleaned(data: Path, end: int) -> None:
    def cleaned() -> dict[str, int]:
        lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
        return {line.split()[0]: int(line.split()[2]) for line in lines}

    def is_cleaned() -> bool:
        return all(cleaned().get(topic, -1) >= end for topic in ("raw", "again"))

    wait_for(is_cleaned, WAIT_S, lambda: f"not compacted: {cleaned()}", every_s=0.5)


@pytest.mark.parametrize("topic", TOPICS)
def test_javas_client_reads_what_we_read_and_kafkas_cleaner_keeps_what_we_keep(
    compaction: Compaction, served, topic: str
) -> None:
    read, *_ = served
    assert read[topic, "read_uncommitted"] == compaction.records
    assert read[topic, "read_committed"] == compaction.committed


def test_the_broker_finds_nothing_wrong_with_what_we_have_compacted(served) -> None:
    _, _, printed, _ = served
    lines = [line for line in printed.splitlines() if "ours-0" in line or "again-0" in line]
    assert lines
    assert [line for line in lines if " ERROR " in line or " WARN " in line] == []


def test_what_kafka_has_appended_and_compacted_is_read_by_us(compaction: Compaction, served) -> None:
    _, data, _, more = served
    with Log.open(data / "ours-0", read_only=True) as log:
        assert reads(log, "read_uncommitted") == [*compaction.records, *more]
    for topic in ("raw", "again"):
        with Log.open(data / f"{topic}-0", read_only=True) as log:
            assert reads(log, "read_uncommitted") == compaction.records
            assert reads(log, "read_committed") == compaction.committed
            assert kept(log.scan())
