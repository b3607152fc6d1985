"""Waiting for what another thread or process does: a poll with a deadline.

The only module of the tests that sleeps. A test that knows what it waits for waits on that itself: on a watermark
(`Log.wait_for`), an event, a thread, a process; or it moves a `ManualClock`.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable
from typing import Any


def wait_for(
    holds: Callable[[], object], timeout_s: float = 10, what: object = "", *, every_s: float = 0.005
) -> None:
    """Wait until something holds; fail with ``what`` if it does not within ``timeout_s``.

    ``what`` may be a function, which is called at the deadline.
    """
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, what() if callable(what) else what or f"not within {timeout_s:g} s"
        time.sleep(every_s)


async def until(holds: Callable[[], object], timeout_s: float = 60) -> None:
    """Let the event loop go on until something holds."""
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.001)


def is_readable(file: Any, timeout_s: float = 0) -> bool:
    """Whether ``file`` (a number, or what has a ``fileno``) can be read within ``timeout_s``.

    By ``poll``: ``select`` takes no descriptor above 1,023, and a process that runs many tests has those.
    """
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(timeout_s * 1_000))
