"""The names that a store shows to its user."""

from __future__ import annotations

import pytest

import logstore
from logstore.store.store import _MOVED, Store

MOST = 20


def test_a_store_shows_its_user_no_more_than_twenty_names():
    names = [name for name in vars(Store) if not name.startswith("_")]
    assert len(names) <= MOST, sorted(names)


def test_names_that_have_moved_are_there_for_one_release(tmp_path):
    with logstore.open(tmp_path) as store:
        topic = store.create_topic("flights", 2)
        for name in _MOVED:
            with pytest.warns(DeprecationWarning, match=rf"store.{name} is "):
                assert getattr(store, name) is not None
        with pytest.warns(DeprecationWarning, match="store.partition is"):
            assert store.partition("flights", 1).path == topic[1].path
        assert topic.store is store
        assert store["flights"].store is store
        with pytest.raises(AttributeError, match="no attribute 'flights'"):
            _ = store.flights
