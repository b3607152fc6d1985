"""The base of registries on a database: its commits, its sessions and its watches, on a database in memory."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from logstore.errors import RegistryUnreachableError
from logstore.replication import Create, Fact, Registry, TableRegistry
from logstore.testing.conformance import RegistryConformance
from tests.kit.waiting import wait_for


class Database:
    """Rows, sessions and counters that a transaction changes all or none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rows: dict[str, tuple[Fact, str | None]] = {}
        self.sessions: set[str] = set()
        self.counters: dict[str, int] = {}
        self.commits = 0
        self.error: Exception | None = None


class DictRegistry(TableRegistry):
    def __init__(self, database: Database, timeout_s: float = 30.0) -> None:
        super().__init__(timeout_s=timeout_s, poll_s=0.001)
        self.database = database
        self.open()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        base = self.database
        with base.lock:
            if base.error is not None:
                raise base.error
            before = copy.deepcopy((base.rows, base.sessions, base.counters))
            for path, (_, owner) in list(base.rows.items()):
                if owner is not None and owner not in base.sessions:
                    del base.rows[path]
            try:
                yield
            except BaseException:
                base.rows, base.sessions, base.counters = before
                raise
            base.commits += (base.rows, base.sessions, base.counters) != before

    def begin_session(self) -> None:
        self.database.sessions.add(self.session)

    def renew_session(self) -> bool:
        return self.session in self.database.sessions

    def end_session(self) -> None:
        self.database.sessions.discard(self.session)

    def version(self) -> object:
        return self.database.commits

    def row(self, path: str) -> tuple[Fact, str | None] | None:
        return self.database.rows.get(path)

    def paths_below(self, prefix: str) -> list[str]:
        return [path for path in self.database.rows if path.startswith(prefix)]

    def put(self, fact: Fact, owner: str | None) -> None:
        self.database.rows[fact.path] = fact, owner

    def remove(self, path: str) -> None:
        del self.database.rows[path]

    def next_number(self, name: str) -> int:
        number = self.database.counters.get(name, 0)
        self.database.counters[name] = number + 1
        return number


class TestTableRegistry(RegistryConformance):
    @pytest.fixture(autouse=True)
    def _closed(self):
        self.made: list[Registry] = []
        yield
        for registry in self.made:
            registry.close()

    def make_registry(self) -> Registry:
        self.made.append(DictRegistry(Database()))
        return self.made[-1]

    def connect(self, registry: Registry) -> Registry:
        assert isinstance(registry, DictRegistry)
        self.made.append(DictRegistry(registry.database))
        return self.made[-1]


def test_a_session_that_the_database_has_ended_is_over_and_its_watches_hear_of_it():
    registry = DictRegistry(Database(), timeout_s=0.02)
    registry.commit([Create("/a", b"", ephemeral=True)])
    heard = threading.Event()
    registry.watch("/a", heard.set)
    heard.clear()
    registry.database.sessions.clear()
    wait_for(lambda: not registry.is_alive)
    assert heard.wait(10)
    with pytest.raises(RegistryUnreachableError, match="the session has ended"):
        registry.read("/a")
    registry.close()
    other = DictRegistry(registry.database)
    assert other.read("/a") is None
    other.close()


@pytest.mark.parametrize("error", [RegistryUnreachableError("no answer"), KeyError("a database of its own kind")])
def test_a_database_that_refuses_for_a_time_ends_neither_session_nor_watches(error):
    registry = DictRegistry(Database(), timeout_s=0.02)
    heard = threading.Event()
    registry.watch("/a", heard.set)
    registry.database.error = error
    with pytest.raises(type(error)):
        registry.read("/a")
    renewals = threading.Event()
    registry.renew_session = lambda: bool(renewals.set() or True)
    registry.database.error = None
    # The thread goes on.
    assert renewals.wait(10)
    heard.clear()
    registry.commit([Create("/a", b"")])
    assert heard.wait(10)
    assert registry.is_alive
    registry.close()
