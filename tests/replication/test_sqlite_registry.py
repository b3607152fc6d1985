"""The example's registry on SQLite passes the suite of registries."""

from __future__ import annotations

import sqlite3
import time

import pytest

from examples.replicated.sqlite_registry import SqliteRegistry
from logstore.errors import RegistryUnreachableError
from logstore.replication import Create, Registry
from logstore.testing.conformance import RegistryConformance


class TestSqliteRegistry(RegistryConformance):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        self.file = tmp_path / "registry.db"
        self.made: list[Registry] = []
        yield
        for registry in self.made:
            registry.close()

    def make_registry(self) -> Registry:
        self.made.append(SqliteRegistry(self.file, timeout_s=30))
        return self.made[-1]

    def connect(self, registry: Registry) -> Registry:
        return self.make_registry()


def test_a_file_that_another_process_is_making_is_a_registry_that_does_not_answer_yet(tmp_path, monkeypatch):
    """`Node` asks again then; sqlite3's own error would end it."""
    file = tmp_path / "registry.db"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, **{**options, "timeout": 0}))
    with pytest.raises(RegistryUnreachableError, match="SQLite: database is locked"):
        SqliteRegistry(file)
    other.rollback()
    other.close()
    SqliteRegistry(file).close()


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wall_clock_that_jumps_ends_no_session_and_keeps_none(tmp_path, monkeypatch, hours):
    file, clock, wall = tmp_path / "registry.db", time.monotonic, time.time
    first, second = SqliteRegistry(file, timeout_s=30), SqliteRegistry(file, timeout_s=90)
    first.commit([Create("/here", b"", ephemeral=True)])
    monkeypatch.setattr(time, "time", lambda: wall() + hours * 3_600)
    second.commit([Create("/a", b"")])
    assert second.read("/here") is not None
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 31)
    second.commit([Create("/b", b"")])
    assert second.read("/here") is None
    second.close()


def test_a_session_does_not_outlive_the_run_of_its_machine(tmp_path, monkeypatch):
    file = tmp_path / "registry.db"
    first = SqliteRegistry(file, timeout_s=30)
    first.commit([Create("/here", b"", ephemeral=True)])
    monkeypatch.setattr("examples.replicated.sqlite_registry.BOOT", "another")
    second = SqliteRegistry(file, timeout_s=30)
    second.commit([Create("/a", b"")])
    assert second.read("/here") is None
    second.close()
