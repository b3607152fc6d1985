"""Cases of groups over a store, which refuses `subscribe`: each is expected to fail by that, until it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.errors import InvalidSettingError, UnsupportedOperationError
from logstore.records import TopicPartition
from logstore.store.backend import LocalBackend
from tests.remote.backend.group_cases import Brokers, GroupCases

#: What a store refuses: settings of members, such as ``group.protocol``, and `subscribe` itself.
REFUSALS = (InvalidSettingError, UnsupportedOperationError)

#: The cases that hold already.
HOLD = ("test_a_consumer_without_a_group_does_not_subscribe",)

WHY = "the groups of a store assign no partitions yet"


class BackendOfMember(LocalBackend):
    """One member's view of the store, which outlives it."""

    def close(self) -> None:
        """Do nothing: the other members have the same store."""


class StoreAsBrokers(Brokers):
    """A store, in place of the brokers. Its files have no coordinator that could move."""

    def __init__(self, store: logstore.Store) -> None:
        self.store = store

    def backend(self) -> Any:
        return BackendOfMember(self.store._host)

    def create(self, topic: str, partitions: int) -> None:
        self.store.create_topic(topic, partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self.store.add_partitions(topic, total)

    def append(self, name: TopicPartition, count: int) -> None:
        self.store[name.topic].append_many([b"%d" % number for number in range(count)], partition=name.partition)

    def move_coordinator(self, group: str) -> None:
        """Do nothing."""


class TestGroups(GroupCases):
    @pytest.fixture
    def brokers(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Brokers]:
        if request.node.originalname not in HOLD:
            request.applymarker(pytest.mark.xfail(raises=REFUSALS, strict=True, reason=WHY))
        with logstore.open(tmp_path / "data") as store:
            yield StoreAsBrokers(store)
