"""Interrupts of a test's own main thread: `Struck` is what its handler raises, see the fixture `strike`."""

from __future__ import annotations


class Struck(BaseException):
    """An exception of a signal handler, as of a Ctrl-C."""
