"""The log of changes behind the catalogue's checkpoint, in blocks of 512 bytes: the only module that knows them.

A change is a text in ASCII, written into as many blocks as it needs::

    18 1/2 {"topics": {"flights": {"id": "…", "partitions": 4,             … 5f0c81aa
    18 2/2 "state": "ready", …}}}                                          … 0c81b7d2

Each block is a line: the number of the change, which part of it this is, of how many; a piece of the text; spaces;
and the CRC-32C of all before it. The blocks behind the last change are zeros, up to the end of the file.

A disk writes a block whole or not at all, since no block crosses a sector. So a power cut in a change leaves some
of its blocks, and zeros in the place of the others; a write that fails half way leaves a block that ends in zeros.
The change was not acknowledged, and is passed over. Any other byte that differs is damage, and is found: a changed
byte by its block's checksum, a missing block before the last change by the numbers, a cut by the size of the file,
which the checkpoint tells.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from logstore.batch._crc32c import crc32c

#: A sector of a disk.
BLOCK: Final = 512

_HEAD = re.compile(rb"(\d{1,18}) (\d{1,9})/(\d{1,9}) ")
_SUM_BYTES: Final = 10
#: Room for the numbers in front of a piece of the text.
_HEAD_BYTES: Final = 40
_PIECE_BYTES: Final = BLOCK - _HEAD_BYTES - _SUM_BYTES


class Changes(NamedTuple):
    """The changes in a log."""

    texts: list[bytes]
    end: int  #: the position behind the last of them
    is_torn: bool  #: behind it there are blocks of one more, which was never acknowledged


def to_blocks(number: int, text: bytes) -> bytes:
    """Return the blocks of a change."""
    pieces = [text[at : at + _PIECE_BYTES] for at in range(0, len(text), _PIECE_BYTES)]
    blocks = []
    for part, piece in enumerate(pieces, 1):
        body = (b"%d %d/%d " % (number, part, len(pieces)) + piece).ljust(BLOCK - _SUM_BYTES)
        blocks.append(body + b" %08x\n" % crc32c(body))
    return b"".join(blocks)


def of_blocks(data: bytes, first: int) -> Changes:
    """Return the changes in a log, of which the first has the number ``first``.

    Raises:
        ValueError: the log is damaged.
    """
    texts: list[bytes] = []
    end = 0
    pieces: list[bytes] = []
    total, missing = 0, False
    for at in range(0, len(data.rstrip(b"\0")), BLOCK):
        block = data[at : at + BLOCK]
        part = (at - end) // BLOCK + 1
        if block[-1] == 0:
            missing = True
            continue
        number, told, of, piece = _parse(block, at)
        if number != first + len(texts) or told != part or not part <= of or total not in (0, of):
            raise ValueError(f"change {first + len(texts)} is not whole at {at}, where others follow")
        total = of
        pieces.append(piece)
        if part == total and not missing:
            texts.append(b"".join(pieces))
            end, total, pieces = at + BLOCK, 0, []
    return Changes(texts, end, is_torn=missing or bool(pieces))


def _parse(block: bytes, at: int) -> tuple[int, int, int, bytes]:
    body = block[:-_SUM_BYTES]
    head = _HEAD.match(body)
    if head is None or block[-_SUM_BYTES:] != b" %08x\n" % crc32c(body):
        raise ValueError(f"the checksum of a change disagrees at {at}")
    return int(head[1]), int(head[2]), int(head[3]), body[head.end() :][:_PIECE_BYTES]
