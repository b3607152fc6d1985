from collections.abc import Iterable
from typing import Final, Self, final

from logstore.columns._builder import Decoder

WORDS: Final[tuple[str, ...]]

@final
class JsonDecoder(Decoder):
    """A decoder of JSON objects: their fields as columns."""

    def __new__(cls, fields: Iterable[tuple[str, str, tuple[str, ...]]], *, null_bad: bool = False) -> Self: ...

@final
class StructDecoder(Decoder):
    """A decoder of structs of ``size`` bytes: their fields as columns."""

    def __new__(
        cls, fields: Iterable[tuple[str, bytes, int, int, bool]], size: int, *, null_bad: bool = False
    ) -> Self: ...
