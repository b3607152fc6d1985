"""The end of a store: what other threads do meanwhile keeps nothing from being closed."""

from __future__ import annotations

import _weakrefset
import socket
import sys
import threading
import weakref

import pytest

import logstore


@pytest.mark.row("Z9", part="one process")
def test_a_store_needs_no_coordination_service_and_no_network(tmp_path, monkeypatch):
    class UnixSocket(socket.socket):
        """Processes on the same machine ask the writer through one; others need a network."""

        def __init__(self, family=-1, *args, **options):
            assert family == socket.AF_UNIX, "a socket is made"
            super().__init__(family, *args, **options)

    def refuse(*_args, **_options):
        raise AssertionError("a socket is made")

    monkeypatch.setattr(socket, "socket", UnixSocket)
    monkeypatch.setattr(socket, "create_connection", refuse)
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights", 2)
        with store.producer() as producer:
            producer.send("flights", b"one", b"key")
        with store.consumer(group="crew", auto_offset_reset="earliest") as consumer:
            consumer.assign_topics(["flights"])
            assert [record.value for record in consumer.poll()] == [b"one"]
            consumer.commit()
        assert list(store.topics()) == ["flights"]


def beside(act, meanwhile):
    """Call ``act`` in a thread that another one gets in the way of wherever Python goes through weak references."""
    failure = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename not in (weakref.__file__, _weakrefset.__file__):
            return trace if frame.f_code.co_filename.startswith(logstore.__path__[0]) else None
        if event == "line" and frame.f_code.co_name in ("__iter__", "keys", "values", "items", "keyrefs"):
            meanwhile()
        return trace

    def run():
        sys.settrace(trace)
        try:
            act()
        except BaseException as error:  # noqa: BLE001  raised below
            failure.append(error)
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive()
    for error in failure:
        raise error


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_store_is_closed_also_while_producers_and_consumers_are_made(tmp_path, kind):
    """It was half closed, with its directory locked: "Set changed size during iteration"."""
    store = logstore.open(tmp_path / "data")
    store.create_topic("flights")
    kept = [getattr(store, kind)() for _ in range(3)]
    beside(store.close, lambda: kept.append(getattr(store, kind)()))
    assert store._host.closed
    logstore.open(tmp_path / "data").close()


def test_partitions_are_added_while_consumers_are_made(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights")
        kept = [store.consumer() for _ in range(3)]
        beside(lambda: store.add_partitions("flights", 2), lambda: kept.append(store.consumer()))
        assert store["flights"].partition_count == 2


def test_offsets_expire_while_consumers_are_made(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights").append(b"v")
        store.commit_offsets("gone", {("flights", 0): 1})
        store.commit_offsets("g", {("flights", 0): 1})
        kept = [store.consumer(group="g") for _ in range(3)]
        beside(lambda: store.offsets.expire(2**50), lambda: kept.append(store.consumer(group="g")))
        assert store.offsets.groups() == ["g"]
