from collections.abc import Iterable
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
class Layout:
    """The columns that are wanted, and their form."""

    def __new__(
        cls,
        columns: Iterable[str] | None,
        decoder: Decoder | None,
        *,
        views: bool,
        spark: bool,
        most_bytes: int,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Self: ...
    @property
    def names(self) -> tuple[str, ...]: ...

@final
class Filler:
    """A builder that fills one table after the other from one run of batches."""

    def __new__(cls, run: Batches, layout: Layout) -> Self: ...
    @property
    def layout(self) -> Layout: ...
