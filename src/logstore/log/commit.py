"""Group commit: many threads that want the disk share one sync.

The first to come becomes the leader and syncs for all whose bytes were written before it began;
the others wait. Whoever wrote later is served by the next round. No thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class GroupCommit:
    """Runs a sync so that at most one runs at a time and nobody syncs what another has synced."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False

    def run(self, is_done: Callable[[], bool], sync: Callable[[], None]) -> None:
        """Return once ``is_done`` holds, having called ``sync`` as the leader if nobody else does.

        An error of ``sync`` is raised in its leader; a waiter becomes the next leader and meets it
        in ``is_done`` or ``sync`` itself.
        """
        while True:
            with self._changed:
                while self._busy and not is_done():
                    self._changed.wait()
                if is_done():
                    return
                self._busy = True
            try:
                sync()
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
