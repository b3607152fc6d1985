"""Logs that are opened while their topic is changed: what is open is what the catalogue says."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

import logstore
from logstore.errors import UnknownTopicError
from logstore.store import partitions


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path, housekeeping="manual") as store:
        store.create_topic("flights", retention_ms=1_000)
    with logstore.open(tmp_path, housekeeping="manual") as store:
        yield store


@contextmanager
def opening(store, monkeypatch, *, is_open: bool):
    """Another thread is in the middle of opening a log, before or after it is open, while the block begins."""
    there, go = threading.Event(), threading.Event()
    really = partitions.Log.open

    def slow(*args, **settings):
        log = really(*args, **settings) if is_open else None
        there.set()
        go.wait(300)
        return log or really(*args, **settings)

    monkeypatch.setattr(partitions.Log, "open", slow)
    other = threading.Thread(target=lambda: store.partition("flights", 0))
    other.start()
    assert there.wait(300)
    monkeypatch.setattr(partitions.Log, "open", really)
    try:
        yield lambda: threading.Timer(0.05, go.set).start()
    finally:
        go.set()
        other.join()


@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_is_opened_while_its_topic_is_deleted_takes_nothing_of_the_next_one(
    tmp_path, store, monkeypatch, is_open
):
    """Before, its files were removed under it, and what the next topic of that name acknowledged went there."""
    with opening(store, monkeypatch, is_open=is_open) as let_go:
        let_go()
        store.delete_topic("flights")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    with pytest.raises(UnknownTopicError):
        store.partition("flights", 0)
    store.create_topic("flights").append(b"AA 1141", ack="synced")
    store.close()
    with logstore.open(tmp_path) as again:
        assert [record.value for record in again["flights"].read()] == [b"AA 1141"]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_is_opened_while_its_topic_is_altered_goes_by_the_new_settings(store, monkeypatch, is_open):
    with opening(store, monkeypatch, is_open=is_open) as let_go:
        let_go()
        store.alter_topic("flights", retention_ms=-1)
    assert store.partition("flights", 0).config.retention_ms == -1
