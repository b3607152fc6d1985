from collections.abc import Callable
from typing import final

from logstore.broker._loop import Answer, QuickRequests
from logstore.broker.fetching._routes import FetchRoutes
from logstore.broker.fetching._sessions import FetchSessions, Plan
from logstore.broker.served import MOST_ITEMS as MOST_ITEMS
from logstore.io._files import Files

@final
class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes."""

    def __init__(
        self,
        routes: FetchRoutes,
        sessions: FetchSessions,
        go_on: Callable[[Answer, int, int, int, int, int, int, Plan], None],
        files: Files,
        most_open: int,
        most_bytes: int,
        asks_rights: bool = False,
    ) -> None: ...
    @property
    def answered(self) -> int: ...
    @property
    def answered_in_sessions(self) -> int: ...
