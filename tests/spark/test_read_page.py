"""What the pages on reading with Spark show is run, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A session starts, and Python processes with it, on a machine that may be busy.
pytestmark = pytest.mark.timeout(600)

HOWTO = sessions.ROOT / "docs" / "howto"


@pytest.mark.row("M7", "M9")
def test_the_pages_on_reading_are_right(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    for page, count in (("spark-read.md", 4), ("spark-from-kafka.md", 1)):
        text = (HOWTO / page).read_text("utf-8")
        # Spark's own relative paths go by the directory in which it was started.
        for name in ("shop", "checkpoint", "parquet"):
            text = re.sub(rf'(open\(|"path", |"checkpointLocation", )"{name}"', rf'\1"{tmp_path / name}"', text)
        blocks = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
        assert len(blocks) == count
        for block in blocks:
            exec(block, names)
    assert names["total"] == sum(range(1000))
    assert spark.read.parquet(str(tmp_path / "parquet")).count() == 1000
    assert len(names["query"].recentProgress) >= 3
    assert names["events"].count() == 1000
