"""Kafka's own definitions of its settings, as its jars tell them.

``python -m tests.interop.settings`` writes
``src/logstore/config/kafka_keys.json`` again, for a new version of Kafka.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.interop.broker import ROOT, VERSION, run_tool

TABLE = ROOT / "src" / "logstore" / "config" / "kafka_keys.json"
PROGRAM = Path(__file__).with_name("Settings.java")


def kafkas_definitions() -> list[dict[str, Any]]:
    """One entry for each scope and key: type, default, what is valid, synonyms, required, internal."""
    found: list[dict[str, Any]] = json.loads(run_tool(str(PROGRAM)))
    return found


def kafkas_properties(text: bytes, directory: Path) -> dict[str, str]:
    """What Java reads from a properties file."""
    path = directory / "read.properties"
    path.write_bytes(text)
    found: dict[str, str] = json.loads(run_tool(str(PROGRAM), path))
    return found


def as_table(definitions: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The definitions as our table holds them: by scope and key, without what is empty."""
    table: dict[str, dict[str, Any]] = {}
    for entry in definitions:
        facts = {name: entry[name] for name in ("type", "default", "valid", "synonyms", "required", "internal")}
        kept = {name: value for name, value in facts.items() if value not in (None, False, [])}
        table.setdefault(entry["scope"], {})[entry["key"]] = kept
    return table


def write(table: dict[str, dict[str, Any]]) -> str:
    """The table as text, one key a line, so that a difference is readable."""
    scopes = []
    for scope, keys in table.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(facts)}" for key, facts in keys.items()]
        scopes.append(f"{json.dumps(scope)}: {{\n" + ",\n".join(lines) + "\n }")
    return f'{{"version": {json.dumps(VERSION)},\n ' + ",\n ".join(scopes) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(write(as_table(kafkas_definitions())))
