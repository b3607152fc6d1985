from typing import Final, Self, final

from typing_extensions import disjoint_base

from logstore.batch._batch import Batches

NAMES: Final[tuple[str, ...]]

@disjoint_base
class Decoder:
    """A decoder of a table's values into columns; the base of those in `_values`."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def formats(self) -> list[bytes]: ...

@final
class Filler:
    """A builder that fills one table after the other from one run of batches."""

    def __new__(
        cls,
        run: Batches,
        names: tuple[str, ...],
        views: bool,
        most_bytes: int,
        topic: str | None,
        partition: int | None,
        decoder: Decoder | None,
        spark: bool = False,
    ) -> Self: ...
