"""The page that compares the library with other systems."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.rows import ROOT

PAGE = ROOT / "docs" / "comparison.md"

#: Systems of the page, by the packages that a program would import for them.
SYSTEMS = {
    "RocksDB": {"rocksdict"},
    "LMDB": {"lmdb"},
    "diskcache": {"diskcache"},
    "persist-queue": {"persist-queue"},
    "Pulsar": {"pulsar-client"},
    "Kafka": {"confluent-kafka", "kafka-python", "aiokafka"},
}


@pytest.mark.row("X4", part="systems to embed, Kafka and Pulsar")
def test_what_the_page_compares_is_no_dependency() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in SYSTEMS if name not in text] == []
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    needed = {re.split(r"[<>=!~;\[ ]", line, maxsplit=1)[0] for line in declared}
    assert not needed & set().union(*SYSTEMS.values())
