"""What Kafka's own classes write into ``__consumer_offsets`` for given commits.

``python -m tests.interop.offset_records`` writes ``tests/fixtures/offset-records-4.3.1.json`` again, which the
ordinary tests compare with; `test_offsets` here asks Kafka again.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import NamedTuple

from logstore.groups.offsets import OffsetAndMetadata, OffsetKey
from logstore.records import TopicPartition
from tests.interop.broker import ROOT, VERSION, fetch, java

FIXTURE = ROOT / "tests" / "fixtures" / f"offset-records-{VERSION}.json"

ID = "ABEiM0RVZneImaq7zN3u_w"
NOW_MS = 1_700_000_000_000


class Written(NamedTuple):
    """A commit, and what Kafka makes of it."""

    key: OffsetKey
    found: OffsetAndMetadata
    key_bytes: bytes
    value_bytes: bytes
    partition_of_50: int


def _commit(group: str, topic: str, partition: int, **fields) -> tuple[OffsetKey, OffsetAndMetadata]:
    found = OffsetAndMetadata(**{"offset": 0, "commit_ms": NOW_MS, **fields})
    return OffsetKey(group, TopicPartition(topic, partition)), found


CASES = [
    _commit("crew", "departures", 3, offset=1_234_567_890_123, leader_epoch=7, metadata="at the gate", topic_id=ID),
    _commit("g", "t", 0, commit_ms=0),
    _commit("größe-😀-групп", "t", 0, offset=5, leader_epoch=2, metadata="naïve 😀", topic_id=ID),
    _commit("expires", "t", 1, offset=9, expire_ms=NOW_MS + 1),
    _commit("expires", "t", 2**31 - 1, offset=2**63 - 1, metadata="x", expire_ms=0),
    _commit("long", "a" * 249, 255, offset=1, metadata="m" * 4096, topic_id=ID),
    _commit("varint-126", "t", 0, metadata="m" * 126),
    _commit("varint-127", "t", 0, metadata="m" * 127),
    _commit("polygenelubricants", "t", 0),  # its hash is the least int, which has no opposite
    *(_commit(f"group-{n}", "t", n, offset=n) for n in range(40)),
]


def ask_kafka() -> list[Written]:
    """Every case, with what Kafka's serializer writes for it."""
    lines = []
    for key, found in CASES:
        group, topic, metadata = (word.encode().hex() for word in (key.group, key.partition.topic, found.metadata))
        topic_id = (base64.urlsafe_b64decode(found.topic_id + "==") or bytes(16)).hex()
        place = (group, topic, key.partition.partition)
        rest = (found.offset, found.leader_epoch, metadata, found.commit_ms, found.expire_ms, topic_id)
        lines.append("\t".join(map(str, (*place, *rest))))
    program = Path(__file__).with_name("OffsetRecords.java")
    done = subprocess.run(
        [java(), "-Xmx256m", "-cp", f"{fetch()}/*", str(program)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [line.split("\t") for line in done.stdout.splitlines()]
    return [
        Written(key, found, bytes.fromhex(answer[0]), bytes.fromhex(answer[1]), int(answer[2]))
        for (key, found), answer in zip(CASES, answers, strict=True)
    ]


def load() -> list[Written]:
    """The same from the fixture."""
    rows = json.loads(FIXTURE.read_text(encoding="utf-8"))
    return [
        Written(
            OffsetKey(group, TopicPartition(topic, partition)),
            OffsetAndMetadata(*found),
            bytes.fromhex(key),
            bytes.fromhex(value),
            place,
        )
        for group, topic, partition, found, key, value, place in rows
    ]


def main() -> None:
    rows = [
        [
            each.key.group,
            *each.key.partition,
            list(each.found),
            each.key_bytes.hex(),
            each.value_bytes.hex(),
            each.partition_of_50,
        ]
        for each in ask_kafka()
    ]
    FIXTURE.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    print(f"{FIXTURE}: {len(rows)} records")


if __name__ == "__main__":
    main()
