"""Interrupts of a test's own main thread, by a handler of signals or at one line of the package.

`Struck` is what a handler raises; see the fixture `strike`. `at_line` raises KeyboardInterrupt, as a debugger does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import logstore

PACKAGE = str(Path(logstore.__file__).parent)


class Struck(BaseException):
    """An exception of a signal handler, as of a Ctrl-C."""


class Lines:
    """Raises at the nth line of the package that the main thread runs."""

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code.co_name == "__del__":
            # An error in a `__del__` reaches no caller.
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def at_line(nth: int, act: Callable[[], Any]) -> tuple[bool, str, Any]:
    """Whether ``act`` was interrupted at its nth line, where that was, and what it returned if not."""
    lines = Lines(nth)
    result = None
    sys.settrace(lines)
    try:
        result = act()
    except KeyboardInterrupt:
        return True, lines.where, None
    finally:
        sys.settrace(None)
    return False, lines.where, result
