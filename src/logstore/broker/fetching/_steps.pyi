from collections.abc import Callable, Set
from typing import final

from logstore.broker._loop import Answer, ClientConnection
from logstore.broker.fetching._routes import FetchRoutes
from logstore.broker.fetching._sessions import FetchSessions, Plan
from logstore.broker.served import MOST_ITEMS as MOST_ITEMS
from logstore.broker.served import id_text as id_text
from logstore.io._files import Files
from logstore.io._notifier import Notifier

@final
class SessionSteps:
    """The steps of sessions that are answered from their bytes, and those that wait."""

    def __init__(
        self,
        sessions: FetchSessions,
        routes: FetchRoutes,
        go_on: Callable[[Answer, int, int, int, int, int, int, Plan, bytes | None, bool], None],
        files: Files,
        most_open: int,
        allows: Callable[[ClientConnection, bytes | None, Set[bytes], bool], bool] | None = None,
    ) -> None: ...
    @property
    def answered(self) -> int: ...
    @property
    def parked(self) -> int: ...
    def notified(self, notifier: Notifier) -> bool:
        """Look at the step that waits for a notifier; False if it is not that of a session."""

    def closed(self, notifier: Notifier) -> bool:
        """Forget the step that waits for a notifier: its connection has closed; False as `notified`."""

@final
class ParkedStep:
    """A step of a session that waits for more bytes."""

    def __init__(self) -> None: ...
    def end(self) -> None:
        """Answer with what there is: the time of the step is over."""
