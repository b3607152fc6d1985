"""Logs that are opened while their topic is changed: what is open is what the catalogue says."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

import logstore
from logstore.errors import UnknownTopicError
from logstore.records import TopicPartition
from logstore.store.catalog import partitions


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
    other = threading.Thread(target=lambda: store["flights"][0])
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
    with opening(store, monkeypatch, is_open=is_open) as release:
        release()
        store.delete_topic("flights")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    with pytest.raises(UnknownTopicError):
        store["flights"][0]
    store.create_topic("flights").append(b"AA 1141", ack="synced")
    store.close()
    with logstore.open(tmp_path) as again:
        assert [record.value for record in again["flights"].read()] == [b"AA 1141"]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_is_opened_while_its_topic_is_altered_goes_by_the_new_settings(store, monkeypatch, is_open):
    with opening(store, monkeypatch, is_open=is_open) as release:
        release()
        store.alter_topic("flights", retention_ms=-1)
    assert store["flights"][0].maintenance.config.retention_ms == -1


def test_a_thread_that_waited_for_its_turn_takes_no_other_threads_turn_away(store, monkeypatch):
    """What it waited for was opened and closed again: it opens no second log beside a third thread."""
    name = TopicPartition("flights", 0)
    logs = store._host.partitions
    waits, opening, go = (threading.Event() for _ in range(3))
    opened, found = [], {}
    really = partitions.Log.open

    class Turns(dict):
        def setdefault(self, key, default=None):
            turn = super().setdefault(key, default)
            if threading.current_thread().name == "late":
                waits.set()
            return turn

    def counted(*args, **settings):
        opened.append(args)
        if len(opened) == 2:
            opening.set()
            go.wait(300)
        return really(*args, **settings)

    monkeypatch.setattr(partitions.Log, "open", counted)
    logs._opening = Turns()
    first = logs._opening.setdefault(name, threading.Lock())
    first.acquire()  # the turn of a thread that is opening the log
    late = threading.Thread(target=lambda: found.update(late=logs._opened(name)), name="late", daemon=True)
    late.start()
    assert waits.wait(300)
    del logs._opening[name]  # that one is through
    logs.get(name)
    logs.close_topic("flights")
    third = threading.Thread(target=lambda: found.update(third=logs._opened(name)), name="third", daemon=True)
    third.start()
    assert opening.wait(300)
    turn = logs._opening[name]
    first.release()
    late.join(0.2)  # it waits for the third thread; before, it opened the log, too, and took the turn away
    assert logs._opening.get(name) is turn
    go.set()
    late.join()
    third.join()
    assert len(opened) == 2
    assert found["late"] is found["third"]
