from collections.abc import Callable, Iterable
from typing import Any, Self, final

from typing_extensions import Buffer

from logstore.batch._encode import Encoder

@final
class Spread:
    """Shares records out: those with a key by Kafka's hash, those without to one partition."""

    def __new__(cls, partition_count: int, keyless: int, begin: Callable[[int], Encoder]) -> Self: ...
    @property
    def encoders(self) -> dict[int, Encoder]:
        """The encoders that got records, by partition, in order."""

    def add_all(self, records: Iterable[Any]) -> None:
        """Share out an iterable of values, (key, value, timestamp, headers) or `Record`s."""

    @property
    def keyless(self) -> int:
        """Where records without a key go from now on."""

    @keyless.setter
    def keyless(self, partition: int) -> None: ...
    def add_arrow(self, data: object, partitions: Buffer | None = None) -> int:
        """Share out the rows of Arrow data, as `add_arrow` of `_arrow_in` takes them; returns how many."""
