import random
from typing import Final, final

from logstore.broker.fetching.found import FoundPartition
from logstore.clock import Clock
from logstore.protocol.generated.messages import FetchRequest

IDLE_S: Final[float]
MOST_FETCHED: Final[int]
FIRST_EPOCH: Final[int]
INT32_MAX: Final[int]

@final
class FetchedPartition:
    """What a client fetches of one partition, and the marks that it was told last."""

    def __init__(self, topic: bytes, name: str, topic_id: str, partition: int) -> None: ...
    @property
    def topic(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def current_leader_epoch(self) -> int: ...
    @property
    def fetch_offset(self) -> int: ...
    @property
    def last_fetched_epoch(self) -> int: ...
    @property
    def partition_max_bytes(self) -> int: ...
    def tell(self, found: FoundPartition) -> bool:
        """Record what an answer says; return whether it says anything that the client does not know."""

@final
class ClientFetchSession:
    """What one client fetches, in the order in which its partitions take their turn."""

    epoch: int
    def __init__(
        self, number: int, by_id: bool, wanted: dict[tuple[bytes, int], FetchedPartition], now_s: float
    ) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def by_id(self) -> bool: ...
    @property
    def partitions(self) -> list[FetchedPartition]: ...
    @property
    def made_s(self) -> float: ...
    @property
    def used_s(self) -> float: ...
    def update(self, asked: FetchRequest) -> None:
        """Apply what a request changes."""

    def move_back(self, moved: list[FetchedPartition]) -> int:
        """Let partitions that gave records take their next turn behind the others."""

@final
class Plan:
    """What a request asks for."""

    def __init__(
        self,
        wanted: list[FetchedPartition],
        session: ClientFetchSession | None = None,
        is_incremental: bool = False,
        code: int = 0,
    ) -> None: ...
    @property
    def wanted(self) -> list[FetchedPartition]: ...
    @property
    def session(self) -> ClientFetchSession | None: ...
    @property
    def is_incremental(self) -> bool: ...
    @property
    def code(self) -> int: ...
    @property
    def session_id(self) -> int: ...
    def to_tell(
        self, found: list[tuple[FetchedPartition, FoundPartition]]
    ) -> list[tuple[FetchedPartition, FoundPartition]]:
        """Return the partitions that the answer names: all of them, or those with news."""

@final
class FetchSessions:
    """The sessions of one broker's clients."""

    most_partitions: int
    def __init__(
        self, most: int, clock: Clock = ..., rng: random.Random | None = None, most_partitions: int = ...
    ) -> None: ...
    def __len__(self) -> int: ...
    def plan(self, asked: FetchRequest, version: int) -> Plan:
        """Return what a request asks for; with an error code, nothing."""
