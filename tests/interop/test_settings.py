"""Our table of Kafka's keys, our defaults and our reading of properties agree with Kafka's own jars."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logstore.config.text import read_properties
from tests.interop.settings import TABLE, as_table, kafkas_definitions, kafkas_properties, write
from tests.test_properties import AWKWARD

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_jars")]


@pytest.mark.row("K1")
def test_the_table_of_keys_is_kafkas():
    table = as_table(kafkas_definitions())
    held = json.loads(TABLE.read_text())
    assert held.pop("version") in write(table).splitlines()[0]
    assert held == table


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
def test_properties_are_read_as_java_reads_them(text: bytes, tmp_path: Path):
    expected = {key: value.strip() for key, value in kafkas_properties(text, tmp_path).items()}
    assert read_properties(text, "server.properties") == expected
