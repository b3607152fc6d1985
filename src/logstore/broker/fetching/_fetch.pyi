from collections.abc import Callable, Set
from typing import final

from logstore.broker._loop import Answer, ClientConnection, QuickRequests
from logstore.broker.fetching._routes import FetchRoutes
from logstore.broker.fetching._steps import SessionSteps
from logstore.broker.served import MOST_ITEMS as MOST_ITEMS
from logstore.io._files import Files
from logstore.io._notifier import Notifier

@final
class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes, and those of them that wait."""

    def __init__(
        self,
        routes: FetchRoutes,
        steps: SessionSteps,
        go_on: Callable[[Answer, bytes], object],
        files: Files,
        most_open: int,
        most_bytes: int,
        allows: Callable[[ClientConnection, bytes | None, Set[bytes], bool], bool] | None = None,
    ) -> None: ...
    @property
    def answered(self) -> int: ...
    @property
    def parked(self) -> int: ...
    def notified(self, notifier: Notifier) -> bool: ...
    def closed(self, notifier: Notifier) -> bool: ...

@final
class ParkedFetch:
    """A request outside of a session that waits for more bytes."""

    def end(self) -> None: ...
