from typing import Final, Self, final

from typing_extensions import disjoint_base

from logstore.batch._batch import Batches

NAMES: Final[tuple[str, ...]]

@disjoint_base
class Decoder:
    """What makes columns of the values of a table; the base of those in `_payload`."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def formats(self) -> list[bytes]: ...

@final
class Filler:
    """Fills one table after the other from one run of batches."""

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
