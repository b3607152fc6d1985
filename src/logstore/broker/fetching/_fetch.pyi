from typing import final

from logstore.broker._loop import QuickRequests
from logstore.broker.fetching._routes import FetchRoutes
from logstore.broker.fetching._steps import SessionSteps
from logstore.broker.served import MOST_ITEMS as MOST_ITEMS
from logstore.io._files import Files

@final
class FetchAnswers(QuickRequests):
    """The fetch requests that are answered from their bytes."""

    def __init__(
        self,
        routes: FetchRoutes,
        steps: SessionSteps,
        files: Files,
        most_open: int,
        most_bytes: int,
        asks_rights: bool = False,
    ) -> None: ...
    @property
    def answered(self) -> int: ...
