"""Writes the types of settings as keyword arguments from the classes that parse them.

    python -m codegen.keywords

tests/config/test_keywords.py finds a file that is not what this gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.log import LogConfig
from logstore.config.remote import WireConfig
from logstore.config.schema import Rule, fields_of
from logstore.config.store import StoreConfig

FILE = Path(__file__).resolve().parent.parent / "src" / "logstore" / "config" / "generated" / "keywords.py"

_HEAD = '''"""Settings as keyword arguments: type checkers refuse a misspelt key and a value of a wrong type.

Written by ``python -m codegen.keywords`` from the classes of settings: change those, and nothing here.

    def producer(**settings: Unpack[ProducerSettings]) -> Producer: ...
"""

from typing import TypedDict
'''

#: Name, base, class of settings, first line of the docstring, what each value may be besides.
_TYPES: list[tuple[str, str, type[Any], str, str]] = [
    ("LogSettings", "TypedDict", LogConfig, "Settings of a topic or a log.", ""),
    ("TopicChanges", "TypedDict", LogConfig, "Changes of a topic's settings; None resets a key.", " | None"),
    ("StoreSettings", "LogSettings", StoreConfig, "Settings of a store, and of all its topics.", ""),
    ("ProducerSettings", "TypedDict", ProducerConfig, "Settings of a producer.", ""),
    ("ConsumerSettings", "TypedDict", ConsumerConfig, "Settings of a consumer.", ""),
    ("ClientSettings", "TypedDict", WireConfig, "Settings of a client of brokers.", ""),
]


def type_of(rule: Rule) -> str:
    """Return the type of the values of a key; a number with a unit may also be words such as ``7d``."""
    if rule.boolean:
        return "bool"
    if rule.text or rule.secret or rule.words:
        # acks=1 and acks="1" are the same.
        return "str | int" if any(word.isdigit() for word in rule.words) else "str"
    number = "float" if isinstance(rule.most, float) else "int"
    return f"{number} | str" if rule.unit or rule.share else number


def keywords() -> str:
    """Return the module."""
    parts = [_HEAD]
    for name, base, kind, meaning, also in _TYPES:
        lines = [f"class {name}({base}, total=False):", f'    """{meaning}"""', ""]
        lines += [f"    {spec.name}: {type_of(spec.metadata['rule'])}{also}" for spec in fields_of(kind)]
        parts.append("\n".join(lines) + "\n")
    return "\n\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(keywords(), encoding="utf-8")
