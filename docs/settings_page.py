"""Writes the page of settings from the classes that parse them, so that it cannot fall behind.

Called by `conf.py` before the pages are read; the page is no part of the repository.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from logstore import ConsumerConfig, LogConfig, ProducerConfig, StoreConfig, kafka_keys
from logstore.settings import fields_of, key_of

_GROUPS: list[tuple[str, type[Any], str]] = [
    ("Topics and logs", LogConfig, "Given to a topic, or to the store for all topics."),
    ("Stores", StoreConfig, "Given to `logstore.open`, beside those of topics."),
    ("Producers", ProducerConfig, "Given to `store.producer`."),
    ("Consumers", ConsumerConfig, "Given to `store.consumer`."),
]


def page() -> str:
    """Markdown: for each class of settings a table of key, default, range and meaning."""
    meanings = kafka_keys.meanings()
    lines = [
        "# Settings",
        "",
        f"Keys are those of Kafka {kafka_keys.version()}; our own begin with `logstore.`. As keyword arguments,",
        "dots are underscores. Keys of Kafka's that are not listed are accepted without effect and logged once;",
        "any other is refused.",
        "",
    ]
    shown: set[str] = set()
    for title, kind, note in _GROUPS:
        lines += [f"## {title}", "", note, "", "| key | default | allowed | |", "|---|---|---|---|"]
        for spec in fields_of(kind):
            key = key_of(spec)
            if key in shown and kind is StoreConfig:
                continue
            shown.add(key)
            default = f"`{spec.default}`" if spec.default not in ("", dataclasses.MISSING) else ""
            cells = [f"`{key}`", default, spec.metadata["rule"].describe(), meanings.get(key, "")]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def write(folder: Path) -> None:
    """The page, only if it has changed: Sphinx reads what is new."""
    text, path = page(), folder / "settings.md"
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
