"""Makes `messages.txt`, `embedded.txt` and `records.txt` from the definitions inside Kafka's jars.

Run once for each new version of Kafka that logstore is to speak; each artifact is first fetched with
``mvn dependency:get -Dartifact=org.apache.kafka:kafka-clients:4.3.1`` and so on:

    cd ~/.m2/repository/org/apache/kafka
    python -m codegen.extract kafka-clients/4.3.1/kafka-clients-4.3.1.jar \\
        kafka-group-coordinator/4.3.1/kafka-group-coordinator-4.3.1.jar \\
        kafka-metadata/4.3.1/kafka-metadata-4.3.1.jar

Only facts are taken over: names, types, versions, nulls, defaults, tags. `table.py` says what a line means.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from codegen.table import EMBEDDED_TABLE, RECORDS_TABLE, TABLE

#: What clients send, admin tools and user interfaces included. Not here: what only brokers and controllers
#: say to one another, share groups (76-79, 83-92), delegation tokens (38-41), client telemetry (71, 72).
KEYS = {
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28),
    *(29, 30, 31, 32, 33, 34, 35, 36, 37, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57),
    *(60, 61, 65, 66, 68, 69, 74, 75),
}

#: Records of Kafka's internal topics that logstore reads or writes.
RECORDS = {
    *("OffsetCommitKey", "OffsetCommitValue"),
    *("TopicRecord", "PartitionRecord", "ConfigRecord", "PartitionChangeRecord", "RemoveTopicRecord"),
}

#: What members of a group say inside JoinGroup and SyncGroup, which brokers pass on unread.
EMBEDDED = {"ConsumerProtocolSubscription", "ConsumerProtocolAssignment"}

_HEAD = """\
# Kafka's {what}: facts of Kafka {version}. Written by codegen/extract.py.
# <key> {kinds} <Name> <versions> [flexible <versions>] [unstable <version>]
#   <Field> <type> <versions> [null <versions>] [tag <number> <versions>] [default <value>] [ignorable]
#   struct <Name>                  fields that several others share; a field's own struct stands below it
kafka {version}
"""


def definitions(jar: Path) -> list[dict[str, Any]]:
    """The definitions of every message with one of our keys; requests before responses."""
    found = [
        message
        for name, message in _all_of(jar)
        if name.endswith(("Request", "Response"))
        and message["apiKey"] in KEYS
        and message["validVersions"] != "none"
    ]
    return sorted(found, key=lambda message: (message["apiKey"], message["type"]))


def records(jars: Sequence[Path]) -> list[dict[str, Any]]:
    """The definitions of our records; keys before values."""
    found = [record for jar in jars for name, record in _all_of(jar) if name in RECORDS]
    return sorted(found, key=lambda record: (record["type"], record["apiKey"]))


def embedded(jar: Path) -> list[dict[str, Any]]:
    """The definitions of the embedded values; they have no key."""
    found = [value | {"apiKey": 0} for name, value in _all_of(jar) if name in EMBEDDED]
    return sorted(found, key=lambda value: value["name"])


def _all_of(jar: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with zipfile.ZipFile(jar) as archive:
        for path in archive.namelist():
            name = re.fullmatch(r"common/(?:message|metadata)/(\w+)\.json", path)
            if name is not None:
                text = re.sub(r"^\s*//.*$", "", archive.read(path).decode(), flags=re.MULTILINE)
                yield name[1], json.loads(text)


def lines_of(message: dict[str, Any]) -> list[str]:
    words = [str(message["apiKey"]), message["type"], message["name"], message["validVersions"]]
    if message["flexibleVersions"] != "none":
        words += ["flexible", message["flexibleVersions"]]
    if message.get("latestVersionUnstable"):
        words += ["unstable", message["validVersions"].rpartition("-")[2]]
    lines = ["", " ".join(words)]
    for struct in message.get("commonStructs", ()):
        lines.append(f"  struct {struct['name']}")
        lines += _fields(struct["fields"], 4)
    return lines + _fields(message["fields"], 2)


def _fields(fields: list[dict[str, Any]], indent: int) -> list[str]:
    lines = []
    for field in fields:
        words = [field["name"], field["type"], field["versions"]]
        if field.get("nullableVersions"):
            words += ["null", field["nullableVersions"]]
        if field.get("taggedVersions"):
            words += ["tag", str(field["tag"]), field["taggedVersions"]]
        if field.get("default", "") != "":
            words += ["default", str(field["default"]).lower()]
        if field.get("ignorable"):
            words.append("ignorable")
        lines.append(" " * indent + " ".join(words))
        lines += _fields(field.get("fields", ()), indent + 2)
    return lines


def main(jar: Path, *others: Path) -> None:
    """Write the tables from the jar of clients, and that of records from other jars that are given."""
    version = re.fullmatch(r"kafka-clients-(.+)\.jar", jar.name)
    if version is None:
        raise SystemExit(f"{jar} is not named kafka-clients-<version>.jar")
    head = _HEAD.format(version=version[1], what="messages that clients send and get", kinds="request|response")
    _write(TABLE, head, definitions(jar))
    head = _HEAD.format(version=version[1], what="values inside messages of groups", kinds="data")
    _write(EMBEDDED_TABLE, head, embedded(jar))
    if others:
        kinds = "metadata|coordinator-key|coordinator-value"
        head = _HEAD.format(version=version[1], what="records in its internal topics", kinds=kinds)
        _write(RECORDS_TABLE, head, records(others))


def _write(path: Path, head: str, messages: list[dict[str, Any]]) -> None:
    path.write_text(head + "\n".join(line for message in messages for line in lines_of(message)) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
