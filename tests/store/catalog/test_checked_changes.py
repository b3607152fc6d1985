"""Changes of topics that are only checked: the errors of the change itself, and nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.config.log import LogConfig
from logstore.errors import (
    InvalidPartitionsError,
    InvalidSettingError,
    PolicyViolationError,
    TopicExistsError,
    UnknownSettingError,
    UnknownTopicError,
)
from logstore.records import NewTopic
from logstore.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights", 2, retention_ms=1 << 50).append(None, b"AA", partition=0)
        yield store


def _checked(store: Store, name: str, changes: dict[str, Any]) -> LogConfig:
    return store._host.topics_table.check_alter(name, changes, store._host.disk_quota.check_alter)


def test_a_change_of_settings_is_told_and_not_made(store: Store) -> None:
    after = _checked(store, "flights", {"retention.ms": None, "segment.bytes": "4096"})
    assert (after.retention_ms, after.segment_bytes) == (-1, 4096)
    assert dict(store.describe_topic("flights").settings) == {"retention.ms": str(1 << 50)}
    assert store["flights"].log(0).maintenance.config.segment_bytes == 1 << 30


@pytest.mark.parametrize(
    ("name", "changes", "error"),
    [
        ("missing", {"retention.ms": 1}, UnknownTopicError),
        ("flights", {"retention.ms": "soon"}, InvalidSettingError),
        ("flights", {"no.such.key": 1}, UnknownSettingError),
        ("flights", {"logstore.tail": "memory"}, InvalidSettingError),  # fixed while a log is open
        ("__consumer_offsets", {"cleanup.policy": "delete"}, PolicyViolationError),
    ],
)
def test_the_errors_are_those_of_the_change(
    store: Store, name: str, changes: dict[str, Any], error: type[Exception]
) -> None:
    store.create_topic("__consumer_offsets", cleanup_policy="compact")
    with pytest.raises(error):
        _checked(store, name, changes)
    with pytest.raises(error):
        store.alter_topic(name, changes)


def test_a_log_tells_whether_it_could_take_settings(store: Store) -> None:
    maintenance = store["flights"].log(0).maintenance
    maintenance.check_reconfigure(maintenance.config.replace(segment_bytes=4096))
    with pytest.raises(InvalidSettingError, match=r"logstore\.tail"):
        maintenance.check_reconfigure(maintenance.config.replace(tail="memory"))
    assert maintenance.config.segment_bytes == 1 << 30


@pytest.mark.parametrize(
    ("name", "total", "error"),
    [
        ("missing", 3, UnknownTopicError),
        ("flights", 2, InvalidPartitionsError),
        ("flights", 0, InvalidPartitionsError),
        ("flights", 10_001, InvalidPartitionsError),
        ("__consumer_offsets", 9, InvalidPartitionsError),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    store: Store, name: str, total: int, error: type[Exception]
) -> None:
    store.create_topic("__consumer_offsets", cleanup_policy="compact")
    for call in (store._host.topics_table.check_grow, store.add_partitions):
        with pytest.raises(error):
            call(name, total)


def test_partitions_that_could_be_added_are_not(store: Store) -> None:
    assert store._host.topics_table.check_grow("flights", 9).partitions == 2
    assert len(store["flights"]) == 2


def test_a_new_topic_is_told_with_its_settings_and_not_made(store: Store) -> None:
    table = store._host.topics_table
    assert table.check_new(NewTopic("new", 3, 1, {"retention.ms": "7"})).retention_ms == 7
    assert store.topics() == ["flights"]
    refused: list[tuple[NewTopic, type[Exception]]] = [
        (NewTopic("flights", 1), TopicExistsError),
        (NewTopic("new", 0), InvalidPartitionsError),
        (NewTopic("new", 1, 1, {"retention.ms": "soon"}), InvalidSettingError),
    ]
    for new, error in refused:
        with pytest.raises(error):
            table.check_new(new)
