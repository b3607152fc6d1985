from collections.abc import Iterable
from typing import Final, Self, final

from logstore.columns._builder import Decoder

WORDS: Final[tuple[str, ...]]

@final
class JsonDecoder(Decoder):
    """Fields of JSON objects as columns."""

    def __new__(cls, fields: Iterable[tuple[str, str, tuple[str, ...]]], *, null_bad: bool = False) -> Self: ...

@final
class StructDecoder(Decoder):
    """Fields of structs of ``size`` bytes as columns."""

    def __new__(
        cls, fields: Iterable[tuple[str, bytes, int, int, bool]], size: int, *, null_bad: bool = False
    ) -> Self: ...
