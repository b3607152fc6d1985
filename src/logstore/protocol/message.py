"""What all messages have in common: comparing, showing, encoding and decoding. `messages` holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Codec(Protocol):
    """The generated module that codes messages by their numbers."""

    def encode(self, message: int, value: object, version: int, /) -> bytes: ...
    def decode(self, message: int, buffer: Buffer, version: int, position: int = 0, /) -> Any: ...


class Struct:
    """A struct inside a message: fields of Kafka's names in snake case, all given by keyword."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({fields})"


def _equal(one: object, other: object) -> bool:
    """As `==`, but that a list equals a tuple of the same."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return one == other


class Message(Struct):
    """A whole request or response, without its header."""

    __slots__ = ()
    API_KEY: ClassVar[int]
    IS_REQUEST: ClassVar[bool]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]  #: the newest that Kafka announces; one more may be coded where Kafka tries it out
    FLEXIBLE_SINCE: ClassVar[int | None]  #: the first version with compact lengths and tagged fields
    NUMBER: ClassVar[int]  #: in the codec
    CODEC: ClassVar[Codec]  #: set by `messages`, which `message` does not import

    def encode(self, version: int) -> bytes:
        """The message as bytes of that version, without size and header.

        Raises:
            UnsupportedVersionError: the version is none of this message, or cannot carry a field that was given.
            ProtocolError: a field has a value that its type cannot hold.

        >>> from logstore.protocol.generated.messages import MetadataRequest
        >>> MetadataRequest(topics=None).encode(1)
        b'\\xff\\xff\\xff\\xff'
        """
        return self.CODEC.encode(self.NUMBER, self, version)

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> Self:
        """The message that the bytes from ``position`` to the end are.

        Records in it are views of ``buffer``; everything else is copied.

        Raises:
            MalformedMessageError: they are no such message. Unknown tagged fields are skipped.
            UnsupportedVersionError: the version is none of this message.
        """
        found: Self = cls.CODEC.decode(cls.NUMBER, buffer, version, position)
        return found
