"""A store that is served, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore

# Before a broker has threads: two that compile modules at once, as pytest's import does, may fail in CPython 3.11
# ("AST constructor recursion depth mismatch").
import logstore.remote.topics.store
from logstore.broker import Broker, serve
from logstore.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with logstore.open(tmp_path / "data", {"auto.create.topics.enable": "true"}) as store:
        yield store


@pytest.fixture
def broker(store: Store) -> Iterator[Broker]:
    with serve(store, "127.0.0.1:0") as broker:
        yield broker
