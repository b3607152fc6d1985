"""The table of open logs, beside changes and deletions of their topics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import logstore
from logstore.config import LogConfig
from logstore.errors import UnknownTopicError


def held_while_opening(
    store: logstore.Store, monkeypatch: pytest.MonkeyPatch
) -> tuple[threading.Event, threading.Event]:
    """(being opened, may go on): the next open of a log stops once it knows its settings."""
    opening, go_on = threading.Event(), threading.Event()
    ask: Callable[[str], LogConfig] = store._partitions._config_of

    def config_of(topic: str) -> LogConfig:
        config = ask(topic)
        if not opening.is_set():
            opening.set()
            assert go_on.wait(30)
        return config

    monkeypatch.setattr(store._partitions, "_config_of", config_of)
    return opening, go_on


def test_a_log_that_is_opened_during_a_change_of_its_settings_has_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with logstore.open(tmp_path) as store:
        store.create_topic("t")
        opening, go_on = held_while_opening(store, monkeypatch)
        reader = threading.Thread(target=lambda: store.partition("t", 0))
        reader.start()
        assert opening.wait(30)
        store.alter_topic("t", {"retention.ms": 5})
        go_on.set()
        reader.join()
        assert store.partition("t", 0).config.retention_ms == 5


def test_a_log_that_is_opened_during_the_deletion_of_its_topic_is_closed_before_its_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with logstore.open(tmp_path) as store:
        store.create_topic("t")
        opening, go_on = held_while_opening(store, monkeypatch)
        found: list[object] = []

        def open_it() -> None:
            try:
                found.append(store.partition("t", 0))
            except UnknownTopicError as error:
                found.append(error)

        reader = threading.Thread(target=open_it)
        reader.start()
        assert opening.wait(30)
        deleter = threading.Thread(target=store.delete_topic, args=("t",))
        deleter.start()
        go_on.set()
        reader.join()
        deleter.join()
        assert len(found) == 1
        assert not (tmp_path / "t-0").exists()
        assert store.topics() == []
        assert store.create_topic("t").append(b"anew").offset == 0
