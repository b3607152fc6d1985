"""Fixtures of this folder."""

from __future__ import annotations

import pytest

from logstore.log.rolling import worker
from tests.kit.rolling import HeldTasks


@pytest.fixture
def background(monkeypatch: pytest.MonkeyPatch) -> HeldTasks:
    """Background work of rolls, which runs when a test says so."""
    tasks = HeldTasks()
    monkeypatch.setattr(worker, "worker_of", lambda files: tasks)
    return tasks
