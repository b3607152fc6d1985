"""The registry in memory: a registry as every other, and what it alone promises."""

from __future__ import annotations

import pytest

from logstore.errors import StaleFactError
from logstore.replication import Create, Delete, LocalRegistry, Registry, Write
from logstore.testing.conformance import RegistryConformance


class TestLocalRegistry(RegistryConformance):
    def make_registry(self) -> Registry:
        return LocalRegistry()

    def connect(self, registry: Registry) -> Registry:
        assert isinstance(registry, LocalRegistry)
        return registry.connect()


def test_a_value_that_is_too_large_changes_nothing():
    registry = LocalRegistry()
    with pytest.raises(ValueError, match="/b: a fact has at most 1048576 bytes, found 1048577"):
        registry.commit([Create("/a", b""), Create("/b", bytes(2**20 + 1))])
    assert registry.children("/") == frozenset()
    [made] = registry.commit([Create("/b", bytes(2**20))])
    assert made is not None
    assert made.created == 1


def test_a_commit_that_is_undone_leaves_numbers_children_and_owners_as_they_were():
    registry = LocalRegistry()
    other = registry.connect()
    other.commit([Create("/ids/1", b"", ephemeral=True)])
    with pytest.raises(StaleFactError, match=r"^/none: expected version 0, but it is not there$"):
        registry.commit(
            [
                Create("/q/n", b"", sequential=True),
                Delete("/ids/1", 0),
                Create("/ids/1/below/deep", b""),
                Write("/none", b"", 0),
            ]
        )
    assert registry.children("/") == {"ids"}
    assert registry.children("/ids/1") == frozenset()
    [fact] = registry.commit([Create("/q/n", b"", sequential=True)])
    assert fact is not None
    assert fact.path == "/q/n0000000000"
    # It is still the other session's.
    other.close()
    assert registry.children("/ids") == frozenset()


def test_watches_of_a_session_that_has_ended_are_gone():
    registry = LocalRegistry()
    other = registry.connect()
    calls: list[str] = []
    other.watch("/a", lambda: calls.append("ended"))
    other.close()
    registry.commit([Create("/a", b"")])
    assert calls == ["ended"]
    assert registry._tree.watches == {}
