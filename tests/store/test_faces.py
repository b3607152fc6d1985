"""The names that a store shows to its user."""

from __future__ import annotations

import pytest

import logstore
from logstore.store.store import MOVED


def test_names_that_have_moved_are_there_for_one_release(tmp_path):
    with logstore.open(tmp_path) as store:
        topic = store.create_topic("flights", 2)
        for name in MOVED:
            with pytest.warns(DeprecationWarning, match=rf"store.{name} is "):
                getattr(store, name)
        with pytest.warns(DeprecationWarning, match="store.partition is"):
            assert store.partition("flights", 1).path == topic[1].path
        assert topic.store is store
        assert store["flights"].store is store
        with pytest.raises(AttributeError, match="no attribute 'flights'"):
            _ = store.flights
