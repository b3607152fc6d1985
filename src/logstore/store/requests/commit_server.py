"""The owner's side of the inbox: a store that is open for writing carries out requests of other processes.

It runs in a thread of its own beside the maintenance of the logs: a sender waits for its answer, and a compaction
may take long. Until the first letter ever, it looks once in a second; after that every 50 ms, which
costs one small read. A store with ``logstore.housekeeping=manual`` answers in `Store.housekeep`.

The thread does not refer to the `Store`, which would keep it alive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from logstore.clock import Clock
from logstore.errors import LogstoreError
from logstore.io._interrupts import held
from logstore.log.directory.files import Directory
from logstore.store.maintenance.scheduler import Interrupted, Scheduler

if TYPE_CHECKING:
    from logstore.store.requests.requests import Request, StoreWriter

_logger = logging.getLogger(__name__)

#: How often the bell is read; before the first letter ever, and after.
IDLE_MS: Final = 1_000
PERIOD_MS: Final = 50
#: How often litter is looked for.
SWEEP_MS: Final = 86_400_000
#: How often undecided batches after a failure are looked for, whose query may not continue.
SETTLE_MS: Final = 30_000

_LONG: Final = "long requests"


class Answering:
    """Accepts letters for one store, and answers them."""

    def __init__(
        self, root: Directory, clock: Clock, owner: Callable[[], StoreWriter | None], settle: Callable[[], None]
    ) -> None:
        """``owner`` gives None once the store is closed; ``settle`` ends batches that a failure left undecided."""
        self._root = root
        self._clock = clock
        self._owner = owner
        self._settle_all = settle
        self._heard: bytes | None = None
        self._is_first = True
        self._settled_ms = 0
        #: Results that could not be written yet, as on a full disk.
        self._untold: dict[str, dict[str, Any] | BaseException] = {}
        self._telling = threading.Lock()
        self._swept_ms = 0
        self.keeper = Scheduler(clock, f"inbox of {root.path}")
        self._task = self.keeper.add("inbox", IDLE_MS, self.run)
        #: Starts its thread with the first long request.
        self.copier = Scheduler(clock, f"copies of {root.path}")
        self.copier.add(_LONG, SWEEP_MS, self._carry_out_long)
        self._long: list[tuple[str, Request[Any]]] = []

    def run(self) -> None:
        """Answer every letter that waits."""
        owner = self._owner()
        if owner is None:
            return
        self._settle()
        from logstore.store.requests import request_files  # here: many stores close before the first run

        # Read before the letters are listed: a letter that comes meanwhile is found by the next run.
        heard = request_files.notifier(self._root)
        if heard is None:
            return
        self._task.period_s = PERIOD_MS / 1000
        for slip in list(self._untold):
            self._tell(slip)
        if self._is_first or heard != self._heard:
            for slip in request_files.waiting(self._root, taken=self._is_first):
                self.keeper.check()
                self._take(owner, slip)
            # Last: letters left by an error or a full disk are found by the next run.
            self._is_first, self._heard = False, heard
        now_ms = self._clock.now_ms()
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            from logstore.store.commit.staged_writer import sweep

            request_files.remove_litter(self._root, now_ms)
            sweep(self._root.path, "", -1, files=self._root.files, clock=self._clock)

    def _settle(self) -> None:
        """Settle undecided batches of queries that do not continue, which would hold readers back for ever."""
        now_ms = self._clock.now_ms()
        if self._settled_ms and abs(now_ms - self._settled_ms) < SETTLE_MS:
            return
        self._settled_ms = now_ms
        try:
            self._settle_all()
        except LogstoreError as error:
            # Letters are still answered: each answer has its own error.
            _logger.error("undecided batches cannot be looked for: store=%s error=%s", self._root.path, error)

    def _take(self, owner: StoreWriter, slip: str) -> None:
        from logstore.store.requests import request_files

        if slip in self._untold:
            return
        try:
            letter = request_files.take(self._root, slip)
            if letter is None:
                return
            if self._clock.now_ms() > letter.until_ms:
                # Its sender may have begun something else by now, or have ended.
                deed = letter.request.deed
                _logger.warning("not done, its sender waits no more: store=%s request=%s", self._root.path, deed)
                request_files.drop(self._root, slip)
                return
        except LogstoreError as error:
            self._tell_of(slip, error)
            return
        if letter.request.takes_long and self.keeper.has_thread:
            self._long.append((slip, letter.request))
            self.copier.start()
            self.copier.hasten(_LONG)
        else:
            self._carry_out(owner, slip, letter.request, self.keeper.check)

    def _carry_out_long(self) -> None:
        """Carry out long requests, for which other letters would wait too long."""
        while self._long:
            owner = self._owner()
            if owner is None:
                return
            slip, request = self._long.pop(0)
            self._carry_out(owner, slip, request, self.copier.check)

    def _carry_out(self, owner: StoreWriter, slip: str, request: Request[Any], check: Callable[[], None]) -> None:
        found: dict[str, Any] | BaseException
        try:
            found = request.answer(request.done_by(owner, check))
        except Interrupted:
            # The letter stays accepted: its sender finds no owner any more, and does the work itself.
            raise
        except LogstoreError as error:
            found = error
        except Exception as error:
            _logger.exception("a request could not be carried out: store=%s slip=%s", self._root.path, slip)
            found = error
        self._tell_of(slip, found)

    def _tell_of(self, slip: str, found: dict[str, Any] | BaseException) -> None:
        self._untold[slip] = found
        self._tell(slip)

    def _tell(self, slip: str) -> None:
        """Write an answer, or keep it for the next run: otherwise the letter would be carried out a second time."""
        from logstore.store.requests import request_files

        with held(self._telling):
            if slip not in self._untold:
                return
            try:
                request_files.answer(self._root, slip, self._untold[slip])
            except LogstoreError as error:
                _logger.warning("an answer waits for room: store=%s slip=%s error=%s", self._root.path, slip, error)
            else:
                del self._untold[slip]


__all__ = ["Answering"]
