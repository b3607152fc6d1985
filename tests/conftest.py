"""Settings of the property tests; a failure prints what reproduces it."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# The machine may be busy: how long an example takes says nothing about it.
_SLOW = [HealthCheck.too_slow]

settings.register_profile(
    "default", max_examples=60, deadline=None, print_blob=True, derandomize=False, suppress_health_check=_SLOW
)
settings.register_profile("long", parent=settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what an ordinary run leaves out: it is chosen by a marker, not skipped."""
    if config.option.markexpr == "not interop":
        terminalreporter.write_line("tests marked interop are left out: make interop runs them, with a real Kafka")
