"""The example's registry on SQLite passes the suite of registries."""

from __future__ import annotations

import pytest

from examples.replicated.sqlite_registry import SqliteRegistry
from logstore.replication import Registry
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
