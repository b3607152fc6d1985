"""Record batches: seeds, changes that pass the CRC, and every way in which the core reads a batch.

A changed batch mostly gets its length and its CRC set again, so that the parser behind the CRC is
reached. The batches of a codec are changed in two places: in the records before they are
compressed, and in the compressed bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from logstore.batch._batch import Batches, BatchView, restamp_time, stamp_run, with_codec
from logstore.batch._codec import compress, decompress
from logstore.batch._crc32c import crc32c
from logstore.batch._encode import encode, encode_marker
from logstore.columns._export import columns_of
from logstore.errors import RecordError
from logstore.records import Codec
from tests.fuzz.mutate import Mutator, varint_end

LIMIT = 1 << 16  #: of decompressed bytes: low, so that a bomb that is let through shows
HEADER_BYTES = 61
AT_LENGTH, AT_CRC, AT_ATTRIBUTES, CHECKED_FROM = 8, 17, 21, 21
#: (position, size) of every field of the header but magic and CRC.
FIELDS = ((0, 8), (8, 4), (12, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))
FIRST_OFFSETS = (0, 0, 0, 1, 1000, 2**31 - 1, 2**62, 2**63 - 2**31 - 2, 2**63 - 2**31, 2**63 - 2)

_load32 = struct.Struct(">i").unpack_from
_store32 = struct.Struct(">i").pack_into
_store_crc = struct.Struct(">I").pack_into


class Seed(NamedTuple):
    """A whole batch, and where the varints of its records stand in it (none if it is compressed)."""

    data: bytes
    varints: tuple[int, ...]


# --- seeds --------------------------------------------------------------------------------------


def varints_of(payload: bytes) -> list[int]:
    """Where each varint of uncompressed records starts."""
    found = []
    at = 0

    def take() -> int:
        nonlocal at
        found.append(at)
        end = varint_end(payload, at)
        value = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(payload[at:end]))
        at = end
        return (value >> 1) ^ -(value & 1)

    while at < len(payload):
        take()
        at += 1
        take()
        take()
        at += max(take(), 0)
        at += max(take(), 0)
        for _ in range(take()):
            at += take()
            at += max(take(), 0)
    return found


def record_lists() -> list[tuple[list[Any], dict[str, Any]]]:
    """What the seeds are made of: records, and the settings of their batch."""
    headers = [("trace", b"0123456789"), ("", None), ("é", b"")]
    return [
        ([b"value"], {}),
        ([b""], {}),
        ([None], {}),
        ([(b"key", b"value", 1_000, headers)], {}),
        ([(b"k%d" % n, b"v" * n, 5_000 - n, headers[: n % 4]) for n in range(9)], {}),
        ([(None, b"x" * (n % 3), n * n) for n in range(40)], {}),
        ([(b"k", None, 2**40), (b"k", b"v" * 300, 2**62), (None, None, 0)], {}),
        ([b"v" * 130, b"w" * 9_000], {}),
        ([b"time"] * 3, {"append_time": True}),
        ([b"produced"] * 4, {"producer_id": 7, "producer_epoch": 2, "base_sequence": 2**31 - 2}),
        ([b"t"] * 2, {"producer_id": 2**62, "producer_epoch": 0, "base_sequence": 0, "transactional": True}),
    ]


def plain_seeds() -> list[Seed]:
    out = []
    for records, settings in record_lists():
        data = encode(records, timestamp_ms=1_234, **settings)
        out.append(Seed(data, tuple(HEADER_BYTES + at for at in varints_of(data[HEADER_BYTES:]))))
    for marker in (0, 1):
        data = encode_marker(marker, 5, 2**62, 3, 9_999)
        out.append(Seed(data, tuple(HEADER_BYTES + at for at in varints_of(data[HEADER_BYTES:]))))
    # What a compaction leaves: no record at all, and a delete horizon.
    emptied = bytearray(out[0].data[:HEADER_BYTES])
    struct.pack_into(">i", emptied, 57, 0)
    struct.pack_into(">h", emptied, AT_ATTRIBUTES, 0x40)
    repair(emptied)
    out.append(Seed(bytes(emptied), ()))
    return out


def compressed_seeds(codec: int) -> list[Seed]:
    """The same batches compressed, and bombs: few bytes that hold much, some far over the limit."""
    out = []
    for seed in plain_seeds():
        packed = with_codec(BatchView(seed.data), codec, compress(codec, seed.data[HEADER_BYTES:]))
        out.append(Seed(bytes(packed), ()))
    for size in (LIMIT - 200, LIMIT + 1, 4 << 20):
        out.append(Seed(encode([bytes(size)], timestamp_ms=0, codec=codec), ()))
    return out


# --- changes ------------------------------------------------------------------------------------


def repair(data: bytearray, *, length: bool = True) -> None:
    """Set the length and the CRC as the bytes ask for, or the CRC as the length says."""
    if len(data) < HEADER_BYTES:
        return
    if length:
        _store32(data, AT_LENGTH, len(data) - 12)
        end = len(data)
    else:
        end = _load32(data, AT_LENGTH)[0] + 12
        if not HEADER_BYTES <= end <= len(data):
            return
    _store_crc(data, AT_CRC, crc32c(memoryview(data)[CHECKED_FROM:end]))


def change_batch(m: Mutator, data: bytearray, varints: Sequence[int], others: Sequence[bytes]) -> None:
    """One to three changes of a batch in its header, its varints or anywhere behind the header."""
    while True:
        kind = m.below(10)
        if kind < 4 and len(data) >= HEADER_BYTES:
            at, size = FIELDS[m.below(len(FIELDS))]
            m.set_number(data, at, size)
        elif kind < 7 and varints:
            at = varints[m.below(len(varints))]
            if at < len(data):
                m.set_varint(data, at)
        else:
            m.change(data, others, start=0 if kind == 9 and m.chance(0.2) else HEADER_BYTES)
        if m.chance(0.6):
            return


def changed(m: Mutator, seeds: Sequence[Seed], others: Sequence[bytes]) -> bytes:
    """A seed with changes, mostly with a good length and nearly always with a good CRC."""
    seed = seeds[m.below(len(seeds))]
    data = bytearray(seed.data)
    change_batch(m, data, seed.varints, others)
    if m.chance(0.96):
        repair(data, length=m.chance(0.85))
    return bytes(data)


def changed_inside(m: Mutator, seeds: Sequence[Seed], others: Sequence[bytes], codec: int) -> bytes:
    """A seed whose records were changed before they were compressed."""
    seed = seeds[m.below(len(seeds))]
    data = bytearray(seed.data)
    change_batch(m, data, seed.varints, others)
    if len(data) < HEADER_BYTES:
        return bytes(data)
    data[HEADER_BYTES:] = compress(codec, bytes(data[HEADER_BYTES:]))
    data[AT_ATTRIBUTES + 1] = data[AT_ATTRIBUTES + 1] & 0xF8 | codec
    repair(data)
    return bytes(data)


# --- reading ------------------------------------------------------------------------------------


def read_headers(view: BatchView) -> None:
    """Every field of the header that is not read with the records."""
    assert view.next_offset == view.last_offset + 1 > view.base_offset >= 0
    assert view.record_count <= view.next_offset - view.base_offset
    assert view.last_sequence >= -1
    _ = view.leader_epoch, view.crc, view.attributes, view.timestamp_type, view.is_transactional, view.is_control
    _ = view.delete_horizon_ms, view.base_timestamp_ms, view.max_timestamp_ms, view.producer_id, view.producer_epoch
    _ = view.base_sequence, view.marker, len(view), view.size


def read_batch(data: bytes) -> None:
    """A batch as an append takes it and as a reader reads it; raises the last refusal of them."""
    refusal: RecordError | None = None
    view = BatchView(data)
    read_headers(view)
    is_valid = False
    try:
        view.check()
        view.validate(limit=LIMIT)
        is_valid = True
    except RecordError as error:
        refusal = error
    try:
        view.validate(contiguous=False, limit=LIMIT)
    except RecordError as error:
        refusal = error
    run = Batches(data[: view.size], limit=LIMIT, check=False)
    try:
        records = run.records()
        offsets = [record.offset for record in records]
        assert [record.value for record in records] == run.values(), "two ways of reading disagree"
        assert len(run.tuples()) == len(records)
        if is_valid:
            # What an append lets in can be read, all of it.
            hidden = view.is_control
            assert offsets == ([] if hidden else list(range(view.base_offset, view.next_offset))), offsets
            assert run.count() == len(records)
        assert all(offset >= 0 for offset in offsets), offsets
        for record in records:
            _ = record.key, record.headers, record.timestamp_ms
    except RecordError as error:
        assert not is_valid, f"an append takes what a reader refuses: {error}"
        refusal = error
    writable = bytearray(data[: view.size])
    stamp_run(writable, 1_000, 3)
    restamp_time(writable, 77, True)
    assert BatchView(writable).check().base_offset == 1_000
    if refusal is not None:
        raise refusal


def read_run(data: bytes) -> None:
    """Batches one behind the other, as a reader gets them, within bounds and without aborted ones.

    The first eight bytes choose the bounds.
    """
    start, span, since, shift = data[0], data[1], data[2], data[3]
    body = data[8:]
    Batches(body)
    bounded = Batches(
        body,
        start_offset=start,
        end_offset=(start + span) << (shift & 31),
        since_ms=since * 40 if since & 1 else None,
        until_ms=since * 80 if since & 2 else None,
        aborted=[(7, 0, 20), (2**62, start, 2**62)] if since & 4 else [],
        committed_only=bool(since & 8),
        limit=LIMIT,
        check=False,
    )
    refusal: RecordError | None = None
    for read in (bounded.records, bounded.values, bounded.tuples, bounded.count, bounded.batches):
        try:
            read()
        except RecordError as error:
            refusal = error
    try:
        bounded.first_at_or_after(since * 50)
        columns_of(bounded, views=bool(since & 16)).__arrow_c_array__()
    except RecordError as error:
        refusal = error
    if refusal is not None:
        raise refusal


def changed_run(m: Mutator, seeds: Sequence[Seed], others: Sequence[bytes]) -> bytes:
    """Two to four batches whose offsets rise, one or more of them changed; now and then changed as a whole."""
    out = bytearray(m.bits(64).to_bytes(8, "big"))
    base = FIRST_OFFSETS[m.below(len(FIRST_OFFSETS))] if m.chance(0.3) else m.below(50)
    for _ in range(2 + m.below(3)):
        seed = seeds[m.below(len(seeds))]
        data = bytearray(seed.data)
        if m.chance(0.5):
            change_batch(m, data, seed.varints, others)
            if m.chance(0.95):
                repair(data, length=m.chance(0.9))
        if len(data) >= HEADER_BYTES and m.chance(0.9):
            data[:8] = (base & (2**64 - 1)).to_bytes(8, "big")
            base += max(_load32(data, 23)[0], 0) + 1
        out += data
    if m.chance(0.1):
        m.change(out, others, start=8)
    return bytes(out)


# --- codecs -------------------------------------------------------------------------------------


def frame_seeds(codec: int) -> list[bytes]:
    """Frames of our own encoder, frames with what it never sets, and bombs."""
    bodies = [b"", b"a", b"ab" * 40, bytes(range(256)) * 3, bytes(70_000), bytes(1 << 20)]
    seeds = [compress(codec, body) for body in bodies]
    seeds.append(seeds[2] + seeds[3])
    if codec == Codec.LZ4:
        import lz4.frame

        for settings in (
            {"block_linked": True, "store_size": True, "content_checksum": True, "block_checksum": True},
            {"block_size": 7, "store_size": True},
        ):
            seeds += [lz4.frame.compress(body, **settings) for body in bodies[1:]]
    elif codec == Codec.ZSTD:
        import zstandard

        for settings in (
            {"write_checksum": True, "write_content_size": False},
            {"level": 19},
        ):
            compressor = zstandard.ZstdCompressor(**settings)
            seeds += [compressor.compress(body) for body in bodies]
        streamed = compressor.compressobj()
        seeds.append(streamed.compress(bodies[3]) + streamed.flush())
        seeds.append(b"\x50\x2a\x4d\x18\x03\0\0\0abc" + seeds[2])
    elif codec == Codec.SNAPPY:
        import cramjam

        seeds += [bytes(cramjam.snappy.compress_raw(body)) for body in bodies]
    return seeds


def read_frame(codec: int, data: bytes) -> None:
    out = decompress(codec, data, LIMIT)
    assert len(out) <= LIMIT, f"{len(out)} bytes where {LIMIT} are allowed"
