from collections.abc import Iterable, Iterator, Sequence
from typing import final

from logstore.batch._batch import Batches
from logstore.columns._builder import Decoder

@final
class ColumnBatch:
    """The visible records of a run as one Arrow struct array."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...
    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object:
        """Return a capsule with the Arrow schema."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return capsules with the Arrow schema and array; another schema than ours is not provided."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with an Arrow stream of this one array, for consumers that take only streams."""

@final
class ColumnStream:
    """Runs of batches as a stream of Arrow arrays, one for each run, read as the consumer asks."""

    def __init__(
        self,
        chunks: Iterable[Batches],
        columns: Sequence[str] | None = None,
        *,
        views: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        array_bytes: int = ...,
        decoder: Decoder | None = None,
        spark: bool = False,
    ) -> None: ...
    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""

    @property
    def error(self) -> BaseException | None: ...
    def __iter__(self) -> Iterator[ColumnBatch]:
        """Hand the stream over as `ColumnBatch`es, one after the other."""

    def __arrow_c_schema__(self) -> object:
        """Return a capsule with the Arrow schema; the stream stays usable."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with the Arrow stream; another schema than ours is not provided."""

def columns_of(
    batches: Batches,
    columns: Sequence[str] | None = None,
    *,
    views: bool = False,
    array_bytes: int = ...,
    decoder: Decoder | None = None,
    spark: bool = False,
) -> ColumnBatch:
    """Return the visible records of ``batches`` as one Arrow array."""
