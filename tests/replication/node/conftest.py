"""A cluster in this process for each test of nodes."""

from __future__ import annotations

import pytest

from tests.replication.node.nodes import Cluster


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, lag_max_ms=1_000, fetch_wait_ms=50)
    yield made
    made.close()
