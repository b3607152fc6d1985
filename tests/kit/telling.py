"""A notifier that tells a test of each notification. `Notifier` itself is final and takes no code of a caller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstore.io import _notifier
from logstore.io._interrupts import Condition
from logstore.io._notifier import Notifier
from logstore.testing import ManualClock


class Telling:
    """A `notifier`, the `count` of its notifications, and a function that is called at each of them."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        telling = self

        class Told(Condition):
            def notify_all(self) -> None:
                telling.count += 1
                act()
                super().notify_all()

        with pytest.MonkeyPatch.context() as patched:
            # Where another clock than the machine's waits, there is a condition.
            patched.setattr(_notifier, "Condition", Told)
            self.notifier = Notifier(ManualClock())
