from collections.abc import Callable, Iterable
from typing import Any, Self, final

from typing_extensions import Buffer

from logstore.batch._encode import Encoder

@final
class RowPartitioner:
    """A division of records among partitions: by Kafka's hash of the key, or to one partition without a key."""

    def __new__(cls, partition_count: int, keyless: int, begin: Callable[[int], Encoder]) -> Self: ...
    @property
    def encoders(self) -> dict[int, Encoder]:
        """The encoders that got records, by partition, in order."""

    def add_all(self, records: Iterable[Any]) -> None:
        """Divide an iterable of values, (key, value, timestamp, headers) or `Record`s."""

    @property
    def keyless(self) -> int:
        """The partition of records without a key from now on."""

    @keyless.setter
    def keyless(self, partition: int) -> None: ...
    def add_arrow(self, data: object, partitions: Buffer | None = None) -> int:
        """Divide the rows of Arrow data, as `add_arrow` of `_import` takes them; return how many."""
