"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(holds: Callable[[], bool], timeout_s: float = 10) -> None:
    """Until something holds; it has to within ``timeout_s``."""
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)
