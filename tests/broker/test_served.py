"""What a broker serves, while an embedded program changes it."""

from __future__ import annotations

import pytest

from logstore.broker import Broker
from logstore.store import Store


def test_a_topic_that_is_deleted_meanwhile_is_left_out(
    store: Store, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("flights")
    monkeypatch.setattr(store._host, "topics", lambda **_: ["deleted", "flights"])
    assert [name for name, _ in broker._served.topics()] == ["flights"]
