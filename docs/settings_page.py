"""Writes the page of settings from the classes that parse them, so that it cannot fall behind.

Called by `conf.py` before the pages are read; the page is no part of the repository.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from logstore import ConsumerConfig, LogConfig, ProducerConfig, StoreConfig
from logstore.config import kafka_keys
from logstore.config.client import ClientConfig
from logstore.config.schema import fields_of, key_of
from logstore.config.store import COPIES, LISTENERS, PROTECTED_BY, UNKEPT, UNKEPT_FIELDS

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
        "dots are underscores. Keys of Kafka's that only tune what is not here are accepted without effect",
        "and logged once. Those of producers and consumers that would promise what is not kept here are refused,",
        "unless the value is Kafka's default or asks for what is done anyway. Those of brokers and topics that",
        "promise a protection which is not kept (copies, encryption, users) are accepted, since a",
        "`server.properties` is taken as it is, and named by a warning in the log. Any other key is refused.",
        "",
        "A number means what it means to Kafka: `retention.ms=7` is 7 milliseconds. What counts time or bytes also",
        "takes words: `7d`, `12h`, `15m`, `30s`, `500ms`, `1w`; `64KiB`, `512MiB`, `10GiB` (powers of 1024, also",
        "where written `10g` or `10GB`). A topic keeps the number. In a `server.properties` words are refused for",
        "Kafka's keys, as Kafka refuses them.",
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
        if issubclass(kind, ClientConfig):
            lines += _refused(kind)
        elif kind is StoreConfig:
            lines += _warned_of()
    return "\n".join(lines)


def _warned_of() -> list[str]:
    """The keys that a warning names, by what holds instead."""
    named = [(each.instead, f"`{each.key}{'*' * each.key.endswith('.')}`") for each in UNKEPT]
    named += [(PROTECTED_BY, f"`{key}` with SSL or SASL") for key in LISTENERS]
    named += [(COPIES, f"`{key}` above 1") for key in UNKEPT_FIELDS]
    reasons = dict.fromkeys(reason for reason, _ in named)
    lines = [f"- {reason}: {', '.join(key for why, key in named if why == reason)}." for reason in reasons]
    return ["Named by a warning, since they promise what is not kept:", "", *lines, ""]


def _refused(kind: type[ClientConfig]) -> list[str]:
    """The keys that are refused and those without effect, of one class."""
    lines = ["| refused | accepted values | instead |", "|---|---|---|"]
    for each in kind.REFUSED:
        key = f"{each.key}*" if each.key.endswith(".") else each.key
        accepted = ", ".join(f"`{name}`" for name in each.accepted) or "Kafka's default"
        lines.append(f"| `{key}` | {accepted} | {each.instead} |")
    honoured = {key_of(spec) for spec in fields_of(kind)}
    (scope,) = kind.SCOPES
    rest = [key for key in kafka_keys.keys(scope) if key not in honoured and kind.refusal(key, "any") is None]
    return [*lines, "", "Without effect: " + ", ".join(f"`{key}`" for key in rest) + ".", ""]


def write(folder: Path) -> None:
    """The page, only if it has changed: Sphinx reads what is new."""
    text, path = page(), folder / "settings.md"
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
