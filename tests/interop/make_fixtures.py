"""Makes ``tests/fixtures``: directories that a real Kafka has written, and what its client reads in them.

``python -m tests.interop.make_fixtures`` (``make fixtures``) starts a broker, writes, has it compact,
delete, restart and crash, and copies its partitions. Two directories come of it: the broker's after a
clean shutdown, and ``-running``, a copy made while it ran, with indexes as large as they may become.
Beside each lies a JSON file: for every topic the offsets where it starts and ends, and the records
as Kafka's Java client reads them by both levels of isolation. A run replaces all of it.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.interop.broker import ROOT, VERSION, Broker, MissingToolError
from tests.interop.clients import JavaClient, Read, Row, text
from tests.kit.waiting import wait_for

FIXTURES = ROOT / "tests" / "fixtures"
START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: Values above this are listed by their SHA-256.
LONGEST = 100
WAIT_S = 120

#: A new segment for every hour of record time, small indexes with many entries.
HOURLY = {"segment_ms": HOUR_MS - 1, "index_interval_bytes": 300, "segment_index_bytes": 1_200}

AWKWARD = [
    Row(START_MS, None, b"no key"),
    Row(START_MS + 1, b"no value", None),
    Row(START_MS + 2, None, None),
    Row(START_MS + 3, b"", b"", (("empty", b""), ("null", None), ("", b"no name"))),
    Row(START_MS + 4, b"key", b"value", (("twice", b"1"), ("twice", b"2"), ("naïve-ключ", b"\0\xff"))),
    Row(START_MS - 86_400_000, b"earlier", b"than the ones before"),
    Row(START_MS + 86_400_000, b"k" * 130, bytes(range(256))),
]


def words(seed: int, size: int) -> bytes:
    """Bytes that a codec can make about a quarter as long."""
    rng = random.Random(seed)
    return b" ".join(b"%x" % rng.getrandbits(8) for _ in range(size))[:size]


def several(count: int, at_ms: int, name: bytes = b"v") -> list[Row]:
    return [Row(at_ms + n, b"k%d" % (n % 5), b"%s %d" % (name, n)) for n in range(count)]


# --- what is written ---------------------------------------------------------------------------


def write_codecs(java: JavaClient) -> None:
    """A batch of short records and one above 64 KiB, by each codec."""
    for number, codec in enumerate(CODECS):
        java.create(f"codec-{codec}")
        java.open(codec, compression_type=codec, enable_idempotence="false")
        java.send(codec, f"codec-{codec}", several(20, START_MS))
        java.send(
            codec, f"codec-{codec}", [Row(START_MS + n, None, words(10 * number + n, 9_000)) for n in range(8)]
        )
        java.send(codec, f"codec-{codec}", AWKWARD)
        java.close(codec)


def write_plain(java: JavaClient) -> None:
    """Records of every shape; timestamps of the log; a producer with an id."""
    java.create("records", index_interval_bytes=300)
    java.create("append-time", message_timestamp_type="LogAppendTime")
    java.create("empty")
    java.open("plain", enable_idempotence="false")
    for row in AWKWARD:
        java.send("plain", "records", [row])
    java.send("plain", "records", AWKWARD)
    java.send("plain", "append-time", AWKWARD)
    java.close("plain")
    java.create("idempotent", **HOURLY)
    java.open("one", enable_idempotence="true")
    java.open("two", enable_idempotence="true", compression_type="lz4")
    for hour in range(3):
        for part in range(6):
            java.send("one", "idempotent", several(3, START_MS + hour * HOUR_MS + part, b"one"))
            java.send("two", "idempotent", several(2, START_MS + hour * HOUR_MS + part, b"two"))
    java.close("one")
    java.close("two")


def write_transactions(java: JavaClient) -> None:
    """Commits and aborts of two producers, one inside the other, over several segments; one is left open."""
    # By size: the markers carry the clock's time, and a segment that begins with one would never be old.
    java.create("transactions", internal_segment_bytes=900, index_interval_bytes=300)
    java.create("open-transaction")
    for name in ("a", "b", "left-open"):
        java.open(name, transactional_id=name, transaction_timeout_ms=800_000)
    java.open("plain", enable_idempotence="false")

    def send(producer: str, hour: int, count: int) -> None:
        java.send(producer, "transactions", several(count, START_MS + hour * HOUR_MS, producer.encode()))

    for hour in range(4):
        java.begin("a")
        send("a", hour, 4)
        java.begin("b")
        send("b", hour, 3)
        send("plain", hour, 2)
        send("a", hour, 2)
        java.commit("a") if hour % 2 else java.abort("a")
        send("plain", hour, 1)
        # The transaction of b ends in a later segment than it began in.
        send("b", hour + 1, 2)
        java.abort("b") if hour % 2 else java.commit("b")
    java.send("plain", "open-transaction", several(3, START_MS))
    java.begin("left-open")
    java.send("left-open", "open-transaction", several(2, START_MS, b"undecided"))
    java.send("plain", "open-transaction", several(3, START_MS, b"behind"))
    for name in ("a", "b", "plain"):
        java.close(name)


def write_preallocated(java: JavaClient) -> None:
    """Segments whose files are as large as they may become from the start, filled with zeros."""
    java.create("preallocated", preallocate="true", internal_segment_bytes=4_000, index_interval_bytes=300)
    java.open("room", enable_idempotence="true")
    for part in range(12):
        java.send("room", "preallocated", several(30, START_MS + part))
    java.close("room")


def write_compacted(java: JavaClient) -> None:
    """Keys that come again, tombstones, and transactions; compacted but for the last segment."""
    compacted = {
        "cleanup_policy": "compact",
        "min_cleanable_dirty_ratio": "0.001",
        "segment_ms": HOUR_MS - 1,
        "index_interval_bytes": 300,
    }
    java.create("compacted", **compacted)
    java.create("compacted-transactions", internal_segment_bytes=500, **compacted)
    java.open("keys", enable_idempotence="true", compression_type="zstd")
    java.open("plain", enable_idempotence="false")
    java.open("t", transactional_id="t")
    for hour in range(6):
        at_ms = START_MS + hour * HOUR_MS
        for part in range(4):
            rows = [Row(at_ms, b"k%d" % n, b"%d.%d" % (hour, part)) for n in range(part, 10 - hour)]
            java.send("keys" if part % 2 else "plain", "compacted", rows)
        java.send("plain", "compacted", [Row(at_ms + 1, b"gone %d" % hour, None)])
        java.begin("t")
        java.send("t", "compacted-transactions", several(6 - hour, at_ms, b"%d" % hour))
        java.abort("t") if hour % 3 == 1 else java.commit("t")
    for name in ("keys", "plain", "t"):
        java.close(name)


def wait_until_compacted(java: JavaClient, data: Path) -> None:
    """Until the cleaner has gone over all but the active segment of both topics."""

    def is_compacted() -> bool:
        nonlocal cleaned, active
        lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
        cleaned = {line.split()[0]: int(line.split()[2]) for line in lines}
        active = {
            topic: max(int(path.stem) for path in (data / f"{topic}-0").glob("*.log"))
            for topic in ("compacted", "compacted-transactions")
        }
        return all(cleaned.get(topic, -1) >= base for topic, base in active.items())

    cleaned: dict[str, int] = {}
    active: dict[str, int] = {}
    wait_for(is_compacted, WAIT_S, lambda: f"not compacted: {cleaned}, active segments at {active}", every_s=0.5)


def write_epochs(java: JavaClient, epoch: int) -> None:
    """Some segments of each life of the broker, which has a leader epoch of its own."""
    if epoch == 0:
        java.create("epochs", **HOURLY)
    java.open("e", enable_idempotence="false", compression_type=CODECS[epoch])
    for hour in range(2 * epoch, 2 * epoch + 3):
        for part in range(8):
            java.send("e", "epochs", several(3, START_MS + hour * HOUR_MS + part, b"life %d" % epoch))
    java.close("e")


def write_deleted(java: JavaClient) -> None:
    """Records deleted up to the middle of a batch in the middle of a segment."""
    java.create("deleted", file_delete_delay_ms=0, **HOURLY)
    java.open("d", enable_idempotence="true")
    for hour in range(4):
        for part in range(4):
            java.send("d", "deleted", several(5, START_MS + hour * HOUR_MS + part))
    java.close("d")
    java.delete("deleted", 47)


# --- what is kept ------------------------------------------------------------------------------


def shortened(value: bytes | None) -> Any:
    if value is None or len(value) <= LONGEST:
        return text(value)
    return {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def listed(records: Iterable[Read]) -> list[Any]:
    return [
        [offset, row.timestamp_ms, shortened(row.key), shortened(row.value), [[k, text(v)] for k, v in row.headers]]
        for offset, row in records
    ]


def read_all(java: JavaClient, topics: Iterable[str]) -> dict[str, Any]:
    """What the Java client sees of each topic."""
    expected = {}
    for topic in topics:
        start, end = java.offsets(topic)
        uncommitted = listed(java.read(topic))
        committed = listed(java.read(topic, "read_committed"))
        expected[topic] = {"start": start, "end": end, "records": uncommitted}
        if committed != uncommitted:
            expected[topic]["committed_offsets"] = [fields[0] for fields in committed]
    return expected


def keep(data: Path, name: str, expected: dict[str, Any], *, leave_out: Iterable[str] = ()) -> None:
    """Copy a broker's directory into the fixtures, with what is expected in it."""
    target = FIXTURES / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(data, target, ignore=lambda _, names: [n for n in names if n == ".lock" or n in leave_out])
    lines = [f"{json.dumps(topic)}: {json.dumps(facts, ensure_ascii=False)}" for topic, facts in expected.items()]
    target.with_suffix(target.suffix + ".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make(directory: Path) -> None:
    settings = {
        "log_cleaner_backoff_ms": 200,
        "log_initial_task_delay_ms": 500,
        "log_retention_check_interval_ms": 1_000,
        "log_index_size_max_bytes": 12_000,
        "transaction_max_timeout_ms": 900_000,
    }
    broker = Broker(directory / "broker", **settings)
    client_log = directory / "client.log"
    with broker, JavaClient(broker.bootstrap, client_log) as java:
        write_codecs(java)
        write_plain(java)
        write_compacted(java)
        write_deleted(java)
        write_epochs(java, 0)
        wait_until_compacted(java, broker.data)
    with broker, JavaClient(broker.bootstrap, client_log) as java:
        write_epochs(java, 1)
        broker.kill()
    with broker:
        with JavaClient(broker.bootstrap, client_log) as java:
            write_epochs(java, 2)
            write_preallocated(java)
            write_transactions(java)
            topics = sorted(path.name[:-2] for path in broker.data.glob("*-0") if not path.name.startswith("__"))
            expected = read_all(java, topics)
            running = {"epochs", "transactions", "open-transaction", "preallocated"}
            left_out = {f"{topic}-0" for topic in topics if topic not in running}
            left_out |= {path.name for path in broker.data.glob("__*")}
            keep(
                broker.data,
                f"kafka-{VERSION}-running",
                {topic: expected[topic] for topic in sorted(running)},
                leave_out=left_out,
            )
            java.kill()
    keep(broker.data, f"kafka-{VERSION}", expected)


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory(prefix="logstore-fixtures-") as working:
            make(Path(working))
    except MissingToolError as error:
        sys.exit(str(error))
