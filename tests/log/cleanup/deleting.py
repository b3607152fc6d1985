"""A log whose beginning is deleted, and a look at what is done while its lock is held."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from logstore import Log
from logstore.io._interrupts import held

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 100}
COUNT = 30


def value(n: int) -> bytes:
    return b"%03d" % n * 20


def fill(log: Log) -> None:
    for n in range(COUNT):
        log.append([value(n)])
    log.flush()
    # What is appended beside a deletion needs no new segment, for which it would wait.
    log.maintenance.reconfigure(segment_bytes=1 << 20)


class Watched:
    """``with held(lock)`` that calls a function once the log's lock is held, and around its release."""

    def __init__(self, lock: object, step: Callable[[str], object]) -> None:
        self.lock = lock
        self.step = step

    def __call__(self, lock: object, **options: object) -> Iterator[None]:
        return self.holding(lock, **options) if lock is self.lock else held(lock, **options)

    @contextmanager
    def holding(self, lock: object, **options: object) -> Iterator[None]:
        try:
            with held(lock, **options):
                self.step("acquired")
                try:
                    yield
                finally:
                    self.step("releases")
        finally:
            self.step("released")

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patches:
            for name, module in list(sys.modules.items()):
                if name.startswith("logstore.log.") and getattr(module, "held", None) is held:
                    patches.setattr(module, "held", self)
            yield


def delete_some(log: Log) -> None:
    assert log.delete_before(17) == 17


def delete_all(log: Log) -> None:
    assert log.delete_before(log.log_end_offset) == log.log_end_offset == COUNT


def retain(log: Log) -> None:
    assert log.maintenance.retain().deleted_segments > 2


def delete_epochs(log: Log) -> None:
    assert log.delete_before(COUNT) == COUNT
    assert len(log.replica.epochs.entries) == 1
