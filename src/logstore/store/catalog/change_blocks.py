"""The log of changes behind the catalogue's checkpoint, in blocks of 512 bytes: the only module that knows them.

A change is a text in ASCII, written into as many blocks as it needs::

    18 1/2 {"topics": {"flights": {"id": "…", "partitions": 4,             … 5f0c81aa
    18 2/2 "state": "ready", …}}}                                          … 0c81b7d2

Each block is a line: the number of the change, which part of it this is, of how many; a piece of the text; spaces;
and the CRC-32C of all before it. The blocks behind the last change are zeros, up to the end of the file.

No byte of a block is zero, and no block is written twice. So a power cut in a change, or a write that fails half
way, leaves zeros in the place of what is missing, whatever unit the disk writes in: 512 bytes, 4,096, or 8. Such a
change was not acknowledged, and is passed over. Any other byte that differs is damage, and is found: a changed
byte, or up to seven zeros, by the checksum of its block; a missing block before the last change by the numbers; a
cut by the size of the file, which the checkpoint tells. An acknowledged last change with eight or more zeros in it
looks like an unfinished one; `logstore.newest` has its number.

A block crosses no sector and shares none: a sector that a power cut makes unreadable takes no other change with it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from logstore.batch._crc32c import crc32c

#: A sector of a disk.
BLOCK: Final = 512
#: The smallest unit in which a device writes: fewer zeros between other bytes were not left by a power cut.
_LEAST_UNIT: Final = 8

_HEAD = re.compile(rb"(\d{1,18}) (\d{1,9})/(\d{1,9}) ")
_GAP = re.compile(rb"\0+")
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
    used = data.rstrip(b"\0")
    texts: list[bytes] = []
    pieces: list[bytes] = []
    end, total, missing = 0, 0, False
    for at in range(0, len(used), BLOCK):
        block = data[at : at + BLOCK]
        head = _HEAD.match(block)
        if 0 not in block:
            _check_sum(head, block, at)
        if head is not None:
            number, part, of = int(head[1]), int(head[2]), int(head[3])
            if number != first + len(texts) or part != (at - end) // BLOCK + 1 or total not in (0, of) or part > of:
                raise ValueError(f"the change {first + len(texts)} is not whole at {at}, where others follow")
            total = of
        if head is None or 0 in block:
            missing = True
            continue
        pieces.append(block[head.end() : -_SUM_BYTES][:_PIECE_BYTES])
        if part == total and not missing:
            texts.append(b"".join(pieces))
            end, total, pieces = at + BLOCK, 0, []
    for gap in _GAP.finditer(used, end):
        if len(gap[0]) < _LEAST_UNIT:
            raise ValueError(f"the bytes of a change are zero at {gap.start()}")
    return Changes(texts, end, is_torn=missing or bool(pieces))


def _check_sum(head: re.Match[bytes] | None, block: bytes, at: int) -> None:
    if head is None or block[-_SUM_BYTES:] != b" %08x\n" % crc32c(block[:-_SUM_BYTES]):
        raise ValueError(f"the checksum of a change disagrees at {at}")
