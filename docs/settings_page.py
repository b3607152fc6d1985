"""Write the page of settings from the classes that parse them.

    python docs/settings_page.py

tests/project/test_docs.py fails if the page differs from what this script writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from logstore import ConsumerConfig, LogConfig, ProducerConfig, StoreConfig
from logstore.config import kafka_keys
from logstore.config.broker import BrokerConfig
from logstore.config.client import CODE, CONSUMER_PROMISES, PRODUCER_PROMISES, ClientConfig
from logstore.config.remote import ClusterConsumerConfig, WireConfig
from logstore.config.schema import Refusal, fields_of, key_of
from logstore.config.secrets import Secret
from logstore.config.store import COPIES, LISTENERS, PROTECTED_BY, UNKEPT, UNKEPT_FIELDS

PAGE = Path(__file__).resolve().parent / "reference" / "settings.md"

_GROUPS: list[tuple[str, type[Any], str]] = [
    ("Topics and logs", LogConfig, "Given to a topic, or to the store as the default of all topics."),
    ("Stores", StoreConfig, "Given to `logstore.open`, as are those of topics."),
    ("Producers", ProducerConfig, "Given to `store.producer`."),
    ("Consumers", ConsumerConfig, "Given to `store.consumer`."),
    ("Brokers", BrokerConfig, "Given to `logstore.broker.serve`, or where `logstore serve` has its settings from."),
]


def page() -> str:
    """Return the page: for each class of settings a table of key, default, range and meaning."""
    meanings = kafka_keys.meanings()
    lines = [
        "# Settings",
        "",
        f"Keys are those of Kafka {kafka_keys.version()}; our own begin with `logstore.`.",
        "The name of a keyword argument is the key with underscores for the dots, without `logstore.`:",
        "`segment_bytes=`, `disk_budget=`. Keys without a meaning below are treated in one of four ways:",
        "",
        "- Keys that tune a part of Kafka which logstore lacks are accepted without effect. A line of the log",
        "  names them.",
        "- Keys of producers and consumers for unsupported features are refused. Kafka's default value is",
        "  accepted, and so is a value that describes what logstore does.",
        "- Keys of brokers and topics for protections that a store does not give (copies, encryption, users) are",
        "  accepted, so that a `server.properties` loads unchanged. A warning in the log names them.",
        "- Keys that neither Kafka nor logstore knows are refused.",
        "",
        "A number has Kafka's meaning: `retention.ms=7` is 7 milliseconds. A time or size may also have a unit:",
        "`7d`, `12h`, `15m`, `30s`, `500ms`, `1w`; `64KiB`, `512MiB`, `10GiB` (powers of 1024, also if written as",
        "`10g` or `10GB`). A topic stores such a value as a plain number. In a `server.properties`, Kafka's keys",
        "must have plain numbers, as in Kafka.",
        "",
    ]
    shown: set[str] = set()
    for title, kind, note in _GROUPS:
        lines += [f"## {title}", "", note, "", "| key | default | allowed | meaning |", "|---|---|---|---|"]
        for spec in fields_of(kind):
            key = key_of(spec)
            if key in shown and kind is StoreConfig:
                continue
            shown.add(key)
            lines.append(_line(spec, meanings))
        lines.append("")
        if issubclass(kind, ClientConfig):
            lines += _refused(kind)
        elif kind is StoreConfig:
            lines += _warned_of()
    return "\n".join([*lines, *_members(meanings), *_secured(meanings)])


def _line(spec: dataclasses.Field[Any], meanings: Mapping[str, str]) -> str:
    """Return the row of one setting."""
    key = key_of(spec)
    default = f"`{spec.default}`" if spec.default not in ("", Secret(""), dataclasses.MISSING) else ""
    cells = [f"`{key}`", default, spec.metadata["rule"].describe(), meanings.get(key, "")]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _members(meanings: Mapping[str, str]) -> list[str]:
    """Return the section on consumers of a cluster: what they have besides those of a store."""
    known = {key_of(spec) for spec in fields_of(ConsumerConfig)}
    rows = [_line(spec, meanings) for spec in fields_of(ClusterConsumerConfig) if key_of(spec) not in known]
    head = ["## Consumers of a cluster", "", "Of a consumer over brokers, besides those of consumers.", ""]
    return [*head, "| key | default | allowed | meaning |", "|---|---|---|---|", *rows, ""]


def _secured(meanings: Mapping[str, str]) -> list[str]:
    """Return the section on connections to brokers that are secured."""
    note = (
        "Given to a [client of brokers](client.md). Values of `ssl.*` and `sasl.*` may hold `{file:PATH}`, the "
        "content of a file, and `{env:NAME}`, an environment variable. "
        "[Secured clusters](../howto/secured-clusters.md) has examples."
    )
    lines = [
        "## Secured connections to brokers",
        "",
        note,
        "",
        "| key | default | allowed | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        _line(spec, meanings)
        for spec in fields_of(WireConfig)
        if key_of(spec).startswith(("security.", "ssl.", "sasl."))
    ]
    own = {*CODE, *PRODUCER_PROMISES, *CONSUMER_PROMISES}
    return [*lines, "", *_refusals(each for each in WireConfig.REFUSED if each not in own), ""]


def _warned_of() -> list[str]:
    """Return the lines for keys that a warning names, grouped by the reason."""
    named = [(each.instead, f"`{each.key}{'*' * each.key.endswith('.')}`") for each in UNKEPT]
    named += [(PROTECTED_BY, f"`{key}` with SSL or SASL") for key in LISTENERS]
    named += [(COPIES, f"`{key}` above 1") for key in UNKEPT_FIELDS]
    reasons = dict.fromkeys(reason for reason, _ in named)
    lines = [f"- {reason}: {', '.join(key for why, key in named if why == reason)}." for reason in reasons]
    return ["Accepted with a warning, since a store lacks the protection that these keys ask for:", "", *lines, ""]


def _refused(kind: type[ClientConfig]) -> list[str]:
    """Return the lines for the refused keys of one class, and for those without effect."""
    lines = _refusals(kind.REFUSED)
    honoured = {key_of(spec) for spec in fields_of(kind)}
    (scope,) = kind.SCOPES
    rest = [key for key in kafka_keys.keys(scope) if key not in honoured and kind.refusal(key, "any") is None]
    return [*lines, "", "Without effect: " + ", ".join(f"`{key}`" for key in rest) + ".", ""]


def _refusals(refused: Iterable[Refusal]) -> list[str]:
    """Return the table of refused keys."""
    lines = ["| refused | accepted values | instead |", "|---|---|---|"]
    for each in refused:
        key = f"{each.key}*" if each.key.endswith(".") else each.key
        accepted = ", ".join(f"`{name}`" for name in each.accepted) or "Kafka's default"
        lines.append(f"| `{key}` | {accepted} | {each.instead} |")
    return lines


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
