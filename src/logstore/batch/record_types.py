"""Types of the records that an append accepts, for type checkers; no module imports this one at run time.

A text is no record and no header value: encode it first (``"text".encode()``).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias


class ArrowArray(Protocol):
    """An Arrow array: of values, or of structs with the columns key, value, timestamp, headers."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


class ArrowStream(Protocol):
    """An Arrow table or stream: of values, or with the columns key, value, timestamp, headers."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


if TYPE_CHECKING:
    from typing_extensions import Buffer

    from logstore.batch._batch import Record

    #: Milliseconds since 1970, or an aware datetime.
    Timestamp: TypeAlias = int | datetime.datetime

    #: Names and values, in order; a name may repeat.
    Headers: TypeAlias = Iterable[tuple[str, Buffer | None]]

    #: A value, a tuple that begins with key and value, or a record that was read.
    RecordLike: TypeAlias = (
        Buffer
        | Record
        | tuple[Buffer | None, Buffer | None]
        | tuple[Buffer | None, Buffer | None, Timestamp | None]
        | tuple[Buffer | None, Buffer | None, Timestamp | None, Headers | None]
        | None
    )

    #: A numpy array is one too: to a type checker, an iterable of any type.
    Records: TypeAlias = Iterable[RecordLike] | ArrowArray | ArrowStream
