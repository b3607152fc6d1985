"""Messages and frames of Kafka's protocol.

What is taken must come back: the value that bytes stand for, written and read once more, is the same one.
An input names its message and version in its first two bytes; a frame names them itself.
"""

from __future__ import annotations

from random import Random

from logstore.protocol import frames
from logstore.protocol.generated.messages import REQUESTS, RESPONSES
from logstore.protocol.message import Message
from tests.fuzz.mutate import Mutator
from tests.protocol import made

KINDS: list[type[Message]] = [*REQUESTS.values(), *RESPONSES.values()]

#: Bytes that announce more than is there: counts and lengths of every width.
_CLAIMS = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff",
    b"\x80\x80\x80\x80\x80\x01",
)


def message_seeds() -> list[bytes]:
    seeds = []
    for message, version in made.VERSIONS:
        kind = made.python_class(message)
        value = made.value_of(message, version, Random(f"{message.name} {version}"))
        seeds.append(bytes([KINDS.index(kind), version]) + value.encode(version))
    return seeds


def frame_seeds() -> list[bytes]:
    seeds = []
    for message, version in made.VERSIONS:
        value = made.value_of(message, version, Random(f"{message.name} {version}"))
        if message.is_request:
            seeds.append(frames.encode_request(value, version, 7, "client"))
    return seeds


def changed_message(m: Mutator, seeds: list[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    if m.chance(0.1):
        return bytes(data)
    if m.chance(0.3):
        at = 2 + m.below(max(len(data) - 2, 1))
        claim = _CLAIMS[m.below(len(_CLAIMS))]
        data[at : at + len(claim)] = claim
    if m.chance(0.8):
        m.changes(data, seeds, 2 if m.chance(0.9) else 0)
    return bytes(data)


def changed_frame(m: Mutator, seeds: list[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    if m.chance(0.9):
        m.changes(data, seeds, 8 if m.chance(0.8) else 0)
    return bytes(data)


def read_message(data: bytes) -> None:
    kind = KINDS[data[0] % len(KINDS)] if data else KINDS[0]
    version = data[1] if len(data) > 1 else 0
    _same(kind, kind.decode(data, version, min(2, len(data))), version)


def read_frame(data: bytes) -> None:
    frames.frame_size(data)
    request = frames.decode_request(data, frames.SIZE_BYTES)
    _same(type(request.message), request.message, request.version)


def _same(kind: type[Message], value: Message, version: int) -> None:
    written = value.encode(version)
    again = kind.decode(written, version)
    # The bytes and not the values: a float may be no number, which equals nothing.
    assert again.encode(version) == written
    repr(value)
