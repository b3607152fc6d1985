"""Makes `messages.txt` from the message definitions inside a kafka-clients jar.

Run once for each new version of Kafka that logstore is to speak:

    mvn dependency:get -Dartifact=org.apache.kafka:kafka-clients:4.3.1
    python -m codegen.extract ~/.m2/repository/org/apache/kafka/kafka-clients/4.3.1/kafka-clients-4.3.1.jar

Only facts are taken over: names, types, versions, nulls, defaults, tags. `table.py` says what a line means.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from codegen.table import TABLE

#: What clients send, admin tools and user interfaces included. Not here: what only brokers and controllers
#: say to one another, share groups (76-79, 83-92), delegation tokens (38-41), client telemetry (71, 72).
KEYS = {
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28),
    *(29, 30, 31, 32, 33, 34, 35, 36, 37, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57),
    *(60, 61, 65, 66, 68, 69, 74, 75),
}

_HEAD = """\
# Kafka's messages that clients send and get: facts of Kafka {version}. Written by codegen/extract.py.
# <key> request|response <Name> <versions> [flexible <versions>] [unstable <version>]
#   <Field> <type> <versions> [null <versions>] [tag <number> <versions>] [default <value>] [ignorable]
#   struct <Name>                  fields that several others share; a field's own struct stands below it
kafka {version}
"""


def definitions(jar: Path) -> list[dict[str, Any]]:
    """The definitions of every message with one of our keys; requests before responses."""
    found = []
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+(Request|Response)\.json", name):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                message = json.loads(text)
                if message["apiKey"] in KEYS and message["validVersions"] != "none":
                    found.append(message)
    return sorted(found, key=lambda message: (message["apiKey"], message["type"]))


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


def main(jar: Path) -> None:
    version = re.fullmatch(r"kafka-clients-(.+)\.jar", jar.name)
    if version is None:
        raise SystemExit(f"{jar} is not named kafka-clients-<version>.jar")
    head = _HEAD.format(version=version[1])
    TABLE.write_text(head + "\n".join(line for message in definitions(jar) for line in lines_of(message)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
