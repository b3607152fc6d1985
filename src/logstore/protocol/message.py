"""Base classes of messages and of records in Kafka's internal topics: comparison, repr, encoding and decoding.

`generated.messages` and `generated.records` define their subclasses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from logstore.protocol._schema import Schema


#: Fields with passwords, tokens and keys, which no output shows.
_HIDDEN = frozenset({"auth_bytes", "salted_password"})


class Struct:
    """A struct inside a message: its fields have Kafka's names in snake case, and are given by keyword."""

    #: Field -> its line of the tables in ``codegen/``: type, versions, "null", "tag", "ignorable".
    __slots__: dict[str, str] = {}
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={'[hidden]' if name in _HIDDEN else repr(getattr(self, name))}" for name in self.__slots__
        )
        return f"{type(self).__qualname__}({fields})"


def _equal(one: object, other: object) -> bool:
    """Compare as `==`, but a list equals a tuple of the same items."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return one == other


class Message(Struct):
    """A whole request or response, without its header."""

    __slots__ = {}
    API_KEY: ClassVar[int]
    IS_REQUEST: ClassVar[bool]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]  #: the newest version that Kafka announces
    UNSTABLE_VERSION: ClassVar[int | None] = None  #: a newer version that Kafka marks as unstable
    FLEXIBLE_SINCE: ClassVar[int | None]  #: the first version with compact lengths and tagged fields
    SCHEMA: ClassVar[Schema]  #: set by the generated module, after its classes

    def encode(self, version: int) -> bytes:
        """Encode the message as bytes of that version, without size and header.

        Raises:
            UnsupportedVersionError: the message has no such version, or that version cannot carry a field that
                was given.
            ProtocolError: a field has a value that its type cannot hold.

        >>> from logstore.protocol.generated.messages import MetadataRequest
        >>> MetadataRequest(topics=None).encode(1)
        b'\\xff\\xff\\xff\\xff'
        """
        return self.SCHEMA.encode(self, version)

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> Self:
        """Decode the message in the bytes from ``position`` to the end.

        Records in it are views of ``buffer``; everything else is copied.

        Raises:
            MalformedMessageError: the bytes are not such a message. Unknown tagged fields are no error: they are
                skipped.
            UnsupportedVersionError: the message has no such version.
        """
        found: Self = cls.SCHEMA.decode(buffer, version, position)
        return found


class KafkaRecord(Message):
    """The key or value of a record in one of Kafka's internal topics, without its type and version.

    It has a ``TYPE``, but no ``API_KEY`` and no ``IS_REQUEST``.
    `decode` ignores bytes after the last known field: a later version of Kafka may write more fields.
    """

    __slots__ = {}
    TYPE: ClassVar[int]
