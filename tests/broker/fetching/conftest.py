"""Two brokers over one store: one answers fetches from their bytes, the other by message objects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logstore.broker import Broker, serve
from logstore.store import Store
from tests.broker.fetching.twins import DELETED, NAMES, Decoding
from tests.log.read.test_fetch_region import filled


@pytest.fixture
def decoding(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr("logstore.broker.broker.RequestHandler", Decoding)
    with serve(store, "127.0.0.1:0", fetch_max_bytes=3_000) as broker:
        yield broker


@pytest.fixture
def quick(store: Store) -> Iterator[Broker]:
    with serve(store, "127.0.0.1:0", fetch_max_bytes=3_000) as broker:
        yield broker


@pytest.fixture
def topics(store: Store) -> dict[str, str]:
    """Return the ids of topics with transactions, in one segment and in many, and without."""
    for name in NAMES[:-1]:
        settings = {"segment.bytes": 700} if name == "rolled" else {}
        topic = store.create_topic(name, 3, settings)
        for partition in range(2):
            if name == "plain":
                for n in range(40):
                    topic.log(partition).append([b"v" * n, b"w"])
            else:
                filled(topic.log(partition))
        topic.log(0).delete_before(DELETED)
    return {name: store[name].id for name in NAMES[:-1]}
