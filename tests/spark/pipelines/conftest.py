"""What the tests of pipelines share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logstore.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.pipelines.feed import Feed


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """Micro-batches without a topic."""
    from tests.spark.pipelines.feed import Feed

    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def engine(spark: SparkSession) -> SparkSession:
    """The shared session, with ``format("logstore")``."""
    register(spark)
    return spark
