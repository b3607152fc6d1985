from collections.abc import Callable
from typing import final

from logstore.broker._loop import Answer, ClientConnection, QuickRequests
from logstore.broker.served import MOST_ITEMS as MOST_ITEMS
from logstore.log.append._offers import BatchOffers
from logstore.protocol.frames import Request

@final
class Route:
    """The way of a partition's batches into its log."""

    def __init__(self, offers: BatchOffers) -> None: ...

@final
class OfferedBatch:
    """One batch of a request, and what has become of it."""

@final
class ProduceRequestBytes:
    """One request of the turn."""

    @property
    def answer(self) -> Answer:
        """Its place among the answers of the connection."""

    def decode(self) -> Request:
        """Return the request as a message; raise MalformedMessageError if it is none."""

    @property
    def results(self) -> list[tuple[int, int, int] | None]:
        """Error code, first offset, log start offset of each batch, in their order; None if it is to be appended."""

@final
class ProduceTurn(QuickRequests):
    """The produce requests of one turn of the loop."""

    def __init__(
        self,
        route_to: Callable[[bytes, int, bool], Route | None],
        table: Callable[[], object],
        finish: Callable[[ClientConnection, list[ProduceRequestBytes]], object],
        allows: Callable[[ClientConnection, bytes | None, set[bytes], bool], bool] | None = ...,
    ) -> None: ...
