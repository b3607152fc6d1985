"""Waiting until any of several logs has moved on: for a reader that has come to the end of all of them.

Marks of this process ring a bell; a log that another process writes is looked at again every 10 ms, sooner
where inotify speaks of the first of them. Imports the reading half of the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from logstore.clock import Clock, SystemClock
from logstore.log.read.live_reader import POLL_S, LogReader
from logstore.log.read.reader import Readable
from logstore.log.watermark import Bell
from logstore.records import Isolation


def wait_for_any(
    places: Sequence[tuple[Readable, int]],
    isolation: Isolation,
    bell: Bell,
    clock: Clock,
    timeout_s: float | None = None,
) -> bool:
    """Block until the end of one of the logs is another than the offset beside it, or ``bell`` rings.

    An end that has fallen counts too: a truncation is news. False if ``timeout_s`` has passed first.
    """
    marks = [log._end_mark(isolation) for log, _ in places if not isinstance(log, LogReader)]
    readers = [(log, offset) for log, offset in places if isinstance(log, LogReader)]
    deadline = clock.deadline_s(timeout_s)
    for mark in marks:
        mark.attach(bell)
    try:
        while not any(log.end_offset(isolation) != offset for log, offset in places):
            left = None if deadline is None else deadline - clock.monotonic_s()
            if left is not None and left <= 0:
                return False
            if not readers:
                if bell.wait(left):
                    return True
                continue
            step = POLL_S if left is None else min(left, POLL_S)
            if marks or not isinstance(clock, SystemClock):
                # A clock that a test moves says itself how a wait passes.
                rung = bell.wait(step)
            else:
                rung = bell.wait(0)
                if not rung:
                    readers[0][0]._wait_for_writer(step)
            if rung:
                return True
        return True
    finally:
        for mark in marks:
            mark.detach(bell)
