"""Settings of the property tests, a directory in memory, and what a sanitizer build leaves out."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from logstore.log.rolling import worker
from tests.kit.striking import Struck
from tests.sanitize.unsuited import UNSUITED

# The machine may be busy: how long an example takes says nothing about it.
_SLOW = [HealthCheck.too_slow]

settings.register_profile(
    "default", max_examples=60, deadline=None, print_blob=True, derandomize=False, suppress_health_check=_SLOW
)
settings.register_profile("long", parent=settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


#: PySpark does not go with the pandas of the other tests, so it has an environment of its own.
HAS_PYSPARK = importlib.util.find_spec("pyspark") is not None

collect_ignore = [] if HAS_PYSPARK else ["spark"]


# A shell starts its background jobs with SIGINT ignored, and every child inherits that: tests that interrupt
# a program would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def ram_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where the machine has one, for thousands of files that never need the disk itself.

    A SIGKILL loses nothing of either.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="logstore-test-", dir=memory))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def strike() -> Iterator[Callable[[], None]]:
    """Return a function that has a handler raise `Struck` in the main thread, which is the one that waits."""

    def handle(number: int, frame: object) -> NoReturn:
        raise Struck

    before = signal.signal(signal.SIGUSR1, handle)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def pytest_configure(config: pytest.Config) -> None:
    """Where logstore is not installed but is on the path, its plugin has no entry point to be found by."""
    if not config.pluginmanager.has_plugin("logstore"):
        from logstore.testing import plugin

        config.pluginmanager.register(plugin, "logstore")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what an ordinary run leaves out: it is chosen by a marker, not skipped."""
    if config.option.markexpr == "not interop":
        terminalreporter.write_line("tests marked interop are left out: make interop runs them, with a real Kafka")
    if not HAS_PYSPARK:
        terminalreporter.write_line("tests/spark is left out: make test runs it in an environment with PySpark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under `make sanitize`, leave out what cannot be asked there."""
    if "asan" not in os.environ.get("LD_PRELOAD", ""):
        return
    for item in items:
        for name, reason in UNSUITED.items():
            if item.nodeid.removeprefix("tests/").startswith(name):
                item.add_marker(pytest.mark.skip(reason=f"under sanitizers: {reason}"))


@pytest.fixture(autouse=True)
def rolls_in_turn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have appends finish their rolls themselves, right after them: a test sees files under their names.

    Tests marked ``threads``, and all other processes, have the background threads of `logstore.log.rolling.worker`.
    """
    chosen = worker.Inline() if request.node.get_closest_marker("threads") is None else worker.Threads()
    monkeypatch.setattr(worker, "worker_of", lambda files: chosen)
