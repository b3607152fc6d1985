"""What the page on writing from Spark shows is run, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import logstore
from tests.kit.waiting import wait_for
from tests.spark import sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = sessions.ROOT / "docs" / "howto" / "spark-write.md"


@pytest.mark.row("D5", "U13")
@pytest.mark.timeout(600)
def test_the_page_on_writing_is_right(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Spark's own relative paths go by the directory in which it was started.
    text = PAGE.read_text("utf-8")
    for name in ("shop", "restored", "checkpoint"):
        text = text.replace(f'"{name}"', f'"{tmp_path / name}"')
    blocks = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {"spark": spark}
    for block in blocks[:2]:
        exec(block, names)
    query = names["query"]
    wait_for(lambda: len(query.recentProgress) >= 2, 60)
    query.stop()
    exec(blocks[2], names)

    found = []
    for name in ("shop", "restored"):
        with logstore.open(tmp_path / name, read_only=True, environ={}) as store:
            records = store.topic("orders").scan(isolation="read_committed")
            found.append([(one.partition, one.offset, one.timestamp_ms, one.key, one.value) for one in records])
    shop, restored = map(sorted, found)
    assert len(shop) >= 1_200
    assert restored == shop
