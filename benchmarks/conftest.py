"""Benchmarks import their helpers by plain names; their results say which machine they come from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The machine in one line, with the file system that the logs are on, for the report."""
    from report import describe

    request.config.stash[_MACHINE] = describe(tmp_path_factory.getbasetemp())


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    machine_info["summary"] = config.stash.get(_MACHINE, "")


_MACHINE = pytest.StashKey[str]()
