"""Benchmarks import their helpers by plain names; their results say which machine they come from."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The machine, with the file system that the logs are on, for the report."""
    from report import describe

    request.config.stash[_MACHINE] = describe(tmp_path_factory.getbasetemp())


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    machine_info["described"] = config.stash.get(_MACHINE, {})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A busy machine is no failure: a benchmark may take long, and says so by its range."""
    for item in items:
        item.add_marker(pytest.mark.timeout(900))


_MACHINE = pytest.StashKey[dict[str, str]]()


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Makes empty directories, and takes all of them away: logs are large."""

    def make() -> Path:
        return Path(tempfile.mkdtemp(dir=tmp_path))

    yield make
    shutil.rmtree(tmp_path)
