"""Every codec reads what Kafka's clients write, is read by them, and holds no more than it may."""

from __future__ import annotations

import gzip
import os
import random
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiokafka.codec
import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._codec import compress, decompress
from logstore.errors import (
    CorruptRecordError,
    LogstoreError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from logstore.records import Codec

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of the way it reads its own files
    import kafka.codec

pytestmark = pytest.mark.row("S7")

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LIMIT = MIB
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())


def repeated(unit: bytes, size: int) -> bytes:
    return (unit * (size // len(unit) + 1))[:size]


contents = st.one_of(
    st.binary(max_size=2_000),
    st.builds(repeated, st.binary(min_size=1, max_size=300), st.integers(0, 300 * KIB)),
    st.builds(
        lambda seed, size: random.Random(seed).randbytes(size), st.integers(0, 99), st.integers(0, 300 * KIB)
    ),
)

#: half of it compresses, so that frames hold both kinds of block
SAMPLE = b"".join(random.Random(n).randbytes(24) + b'{"event": "%d", "user": 7}' % n for n in range(30))
SIZES = [0, 1, 100, 16 * KIB, 32 * KIB, 32 * KIB + 1, 64 * KIB, 64 * KIB + 1, 300 * KIB]


# --- round trips -------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
@given(data=contents)
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", SIZES)
def test_any_buffer_may_come_in(codec: Codec, size: int) -> None:
    data = repeated(SAMPLE, size)
    compressed = compress(codec, data)
    assert type(compressed) is bytes
    for kind in (bytearray, memoryview, lambda raw: memoryview(bytearray(b"x" + raw))[1:]):
        assert compress(codec, kind(data)) == compressed
        found = decompress(codec, kind(compressed), size)
        assert type(found) is bytes
        assert found == data


@pytest.mark.parametrize("codec", Codec)
def test_what_is_no_contiguous_buffer_is_refused(codec: Codec) -> None:
    with pytest.raises(TypeError):
        compress(codec, "text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        decompress(codec, None, 1)  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        compress(codec, memoryview(SAMPLE)[::2])
    with pytest.raises(BufferError):
        decompress(codec, memoryview(SAMPLE)[::2], 1)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 6, 9)), (Codec.LZ4, (1, 3, 9, 12, 17)), (Codec.ZSTD, (-131_072, -5, 1, 3, 19, 22))],
)
def test_every_level_of_the_configuration_is_taken(codec: Codec, levels: tuple[int, ...]) -> None:
    data = repeated(SAMPLE, 20 * KIB)
    for level in levels:
        assert decompress(codec, compress(codec, data, level), len(data)) == data


@pytest.mark.parametrize(("codec", "kafkas"), [(Codec.GZIP, -1), (Codec.GZIP, 6), (Codec.LZ4, 9), (Codec.ZSTD, 3)])
def test_level_0_is_kafkas_default(codec: Codec, kafkas: int) -> None:
    assert compress(codec, SAMPLE) == compress(codec, SAMPLE, kafkas)


def test_lz4_level_9_is_the_fast_mode_and_10_the_thorough_one() -> None:
    data = repeated(SAMPLE, 60 * KIB) + bytes(random.Random(1).choices(b"abcd", k=60 * KIB))
    fast = lz4.frame.compress(data, compression_level=0, block_size=4, block_linked=False, store_size=False)
    assert compress(Codec.LZ4, data, 9) == fast
    assert len(compress(Codec.LZ4, data, 10)) < len(fast)


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 10), (Codec.GZIP, -2), (Codec.ZSTD, 23)])
def test_a_level_that_does_not_exist_is_refused(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        compress(codec, b"data", level)


# --- other clients -----------------------------------------------------------------------------

ENCODERS: dict[Codec, list[Callable[[bytes], bytes]]] = {
    Codec.GZIP: [aiokafka.codec.gzip_encode, kafka.codec.gzip_encode, gzip.compress],
    Codec.SNAPPY: [
        aiokafka.codec.snappy_encode,
        kafka.codec.snappy_encode,
        lambda data: aiokafka.codec.snappy_encode(data, xerial_compatible=False),
        lambda data: bytes(cramjam.snappy.compress_raw(data)),  # librdkafka: one raw block
    ],
    Codec.LZ4: [
        aiokafka.codec.lz4_encode,
        kafka.codec.lz4_encode,
        lz4.frame.compress,  # linked blocks, announced size
        lambda data: lz4.frame.compress(data, content_checksum=True, block_checksum=True, block_size=7),
    ],
    Codec.ZSTD: [
        aiokafka.codec.zstd_encode,
        kafka.codec.zstd_encode,
        lambda data: zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data),
        # Java's ZstdOutputStream: a window of 2 MiB, no announced size
        lambda data: streamed_zstd(data, level=3),
        lambda data: streamed_zstd(data, level=22),
    ],
}

DECODERS: dict[Codec, list[Callable[[bytes], bytes]]] = {
    Codec.GZIP: [aiokafka.codec.gzip_decode, kafka.codec.gzip_decode, gzip.decompress],
    Codec.SNAPPY: [aiokafka.codec.snappy_decode, kafka.codec.snappy_decode],
    Codec.LZ4: [aiokafka.codec.lz4_decode, kafka.codec.lz4_decode, lz4.frame.decompress],
    Codec.ZSTD: [aiokafka.codec.zstd_decode, kafka.codec.zstd_decode],
}


def streamed_zstd(data: bytes, *, level: int = 3, step: int = 1 << 30) -> bytes:
    writer = zstandard.ZstdCompressor(level=level, write_content_size=False).compressobj()
    parts = []
    for start in range(0, len(data), step):
        parts += [
            writer.compress(data[start : start + step]),
            writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
        ]
    return b"".join(parts) + writer.flush()


@each_codec
@pytest.mark.parametrize("size", SIZES)
def test_other_clients_read_ours(codec: Codec, size: int) -> None:
    data = repeated(SAMPLE, size)
    for decode in DECODERS[codec]:
        assert bytes(decode(compress(codec, data))) == data


@each_codec
@pytest.mark.parametrize("size", SIZES)
def test_we_read_other_clients(codec: Codec, size: int) -> None:
    data = repeated(SAMPLE, size)
    for encode in ENCODERS[codec]:
        assert decompress(codec, bytes(encode(data)), size) == data
        if size:
            with pytest.raises(RecordTooLargeError):
                decompress(codec, bytes(encode(data)), size - 1)


def test_lz4_frames_are_those_of_the_java_client() -> None:
    frame = compress(Codec.LZ4, bytes(70 * KIB))
    flags, block = frame[4], frame[5]
    assert flags == 0b0110_0000  # version 1; independent blocks; no checksums, no announced size
    assert block == 4 << 4  # 64 KiB


def test_snappy_is_framed_as_xerial_does() -> None:
    data = repeated(SAMPLE, 33 * KIB)
    framed = compress(Codec.SNAPPY, data)
    assert framed[:16] == XERIAL
    (size,) = struct.unpack_from(">i", framed, 16)
    assert cramjam.snappy.decompress_raw_len(framed[20 : 20 + size]) == 32 * KIB


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_frames_that_follow_one_another_are_one_content(codec: Codec) -> None:
    parts = [b"first", b"", b"third" * 1_000]
    whole = b"".join(parts)
    frames = b"".join(compress(codec, part) for part in parts)
    assert decompress(codec, frames, len(whole)) == whole
    with pytest.raises(RecordTooLargeError):
        decompress(codec, frames, len(whole) - 1)


def test_a_zstd_frame_of_user_data_holds_nothing() -> None:
    user = struct.pack("<II", 0x184D2A53, 4) + b"user"
    assert decompress(Codec.ZSTD, user + compress(Codec.ZSTD, b"data") + user, 4) == b"data"


def test_a_zstd_stream_that_might_hold_too_much_is_read_to_its_end() -> None:
    data = repeated(SAMPLE, 50_000)
    frame = streamed_zstd(data, step=100)  # 500 blocks, each of which could hold 128 KiB
    assert decompress(Codec.ZSTD, frame, len(data)) == data
    with pytest.raises(RecordTooLargeError):
        decompress(Codec.ZSTD, frame, len(data) - 1)


def test_threads_do_not_share_a_context() -> None:
    def failures(seed: int) -> list[Codec]:
        data = random.Random(seed).randbytes(100) * 300
        work = CODECS * 40
        return [codec for codec in work if decompress(codec, compress(codec, data), len(data)) != data]

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(failures, range(12))) == [[]] * 12


# --- bombs -------------------------------------------------------------------------------------


def gzip_bomb() -> bytes:
    writer = zlib.compressobj(9, zlib.DEFLATED, -15)
    mebibyte = writer.compress(bytes(MIB)) + writer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08" + bytes(7) + mebibyte * 1024


def gzip_members_bomb() -> bytes:
    return gzip.compress(bytes(MIB // 2)) * 60


def snappy_bomb_announced() -> bytes:
    return b"\x80\x80\x80\x80\x04" + b"\x00\x00" + b"\xfe\x01\x00" * (GIB // 64)


def snappy_bomb_streamed() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(32 * KIB)))
    return XERIAL + (struct.pack(">i", len(block)) + block) * (GIB // (32 * KIB))


def lz4_frame_of(*blocks: bytes, announced: int | None = None) -> bytes:
    head = lz4.frame.LZ4FrameCompressor(block_size=7, block_linked=False).begin(source_size=announced or 0)
    return bytes(head) + b"".join(struct.pack("<I", len(block)) + block for block in blocks) + bytes(4)


def lz4_bomb(announced: int | None = None) -> bytes:
    block = lz4.block.compress(bytes(4 * MIB), store_size=False)
    return lz4_frame_of(*[block] * 256, announced=announced)


def zstd_frame_of(*blocks: bytes, announced: int | None = None) -> bytes:
    head = b"\x28\xb5\x2f\xfd"
    head += b"\x00\x50" if announced is None else b"\xe0" + struct.pack("<Q", announced)
    return head + b"".join(blocks)


def zstd_bomb(announced: int | None = None) -> bytes:
    zeros = [struct.pack("<I", 128 * KIB << 3 | 1 << 1 | last)[:3] + b"\0" for last in (0, 1)]
    return zstd_frame_of(*[zeros[0]] * (GIB // (128 * KIB) - 1), zeros[1], announced=announced)


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "none": (Codec.NONE, lambda: bytes(2 * MIB)),
    "gzip": (Codec.GZIP, gzip_bomb),
    "gzip members": (Codec.GZIP, gzip_members_bomb),
    "snappy announced": (Codec.SNAPPY, snappy_bomb_announced),
    "snappy streamed": (Codec.SNAPPY, snappy_bomb_streamed),
    "lz4 announced": (Codec.LZ4, lambda: lz4_bomb(GIB)),
    "lz4 streamed": (Codec.LZ4, lz4_bomb),
    "lz4 frames": (Codec.LZ4, lambda: compress(Codec.LZ4, bytes(MIB // 2)) * 1000),
    "zstd announced": (Codec.ZSTD, lambda: zstd_bomb(GIB)),
    "zstd streamed": (Codec.ZSTD, zstd_bomb),
    "zstd frames": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(MIB // 2)) * 1000),
    "zstd window of 128 MiB": (Codec.ZSTD, lambda: streamed_zstd(bytes(64 * MIB), level=22)),
}


def resident_peak_bytes() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * KIB


@pytest.fixture
def growth() -> Iterator[Callable[[], int]]:
    """How far memory has risen above where it stood: Python's own, and the whole process's."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        resident = resident_peak_bytes()
    except OSError:
        resident = None
    tracemalloc.start()
    try:
        yield lambda: max(
            tracemalloc.get_traced_memory()[1],
            0 if resident is None else resident_peak_bytes() - resident,
        )
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_within_its_limit(bomb: str, request: pytest.FixtureRequest) -> None:
    codec, build = BOMBS[bomb]
    decompress(codec, compress(codec, b"import the library before memory is measured"), 100)
    data = build()
    growth = request.getfixturevalue("growth")  # only now: building one takes memory, too
    with pytest.raises(
        RecordTooLargeError, match=rf"^{codec.name.lower()}: expected at most {LIMIT} bytes"
    ) as caught:
        decompress(codec, data, LIMIT)
    assert growth() < 12 * MIB
    assert caught.value.code == 10


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.SNAPPY, b"\x80\x80\x80\x80\x04" + b"\x00\x00"),
        (Codec.SNAPPY, XERIAL + struct.pack(">i", 6) + b"\x80\x80\x80\x80\x04\0"),
        (Codec.SNAPPY, XERIAL + struct.pack(">I", GIB) + b"\x01\0a"),
        (Codec.LZ4, lz4_frame_of(b"\x10a", announced=GIB)),
        (Codec.ZSTD, zstd_frame_of(b"\x09\0\0a", announced=GIB)),
        (Codec.ZSTD, zstd_frame_of(b"\x09\0\0a", announced=2**64 - 1)),
    ],
)
def test_a_claim_that_its_bytes_cannot_fill_is_damage_and_allocates_nothing(
    codec: Codec, data: bytes, growth: Callable[[], int]
) -> None:
    decompress(codec, compress(codec, b"import"), 100)
    with pytest.raises(CorruptRecordError, match=f"^{codec.name.lower()}: expected compressed records, found"):
        decompress(codec, data, 2**62)
    assert growth() < 12 * MIB


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_inclusive_and_may_be_anything(codec: Codec) -> None:
    compressed = compress(codec, b"ten bytes!")
    for limit in (10, 11, 2**31, 2**63 - 1):
        assert decompress(codec, compressed, limit) == b"ten bytes!"
    for limit in (0, 9):
        with pytest.raises(RecordTooLargeError):
            decompress(codec, compressed, limit)
    assert decompress(codec, compress(codec, b""), 0) == b""
    with pytest.raises(ValueError, match="limit of at least 0"):
        decompress(codec, compressed, -1)


# --- damage ------------------------------------------------------------------------------------


def whole_prefixes(codec: Codec, data: bytes) -> set[int]:
    """Where a cut leaves something whole: only xerial's stream of blocks does not say its end."""
    if codec is not Codec.SNAPPY or not data.startswith(XERIAL):
        return set()
    ends = {at := len(XERIAL)}
    while at < len(data):
        at += 4 + struct.unpack_from(">i", data, at)[0]
        ends.add(at)
    return ends


@each_codec
@pytest.mark.row("S8")
def test_a_cut_at_every_byte_is_damage(codec: Codec) -> None:
    for encode in (lambda data: compress(codec, data), *ENCODERS[codec]):
        data = bytes(encode(SAMPLE))
        kept = whole_prefixes(codec, data)
        for cut in range(len(data)):
            if cut in kept:
                assert SAMPLE.startswith(decompress(codec, data[:cut], LIMIT))
                continue
            with pytest.raises(CorruptRecordError, match=f"^{codec.name.lower()}: ") as caught:
                decompress(codec, data[:cut], LIMIT)
            assert caught.value.code == 2


@each_codec
def test_a_cut_between_the_blocks_of_a_long_frame_is_damage(codec: Codec) -> None:
    data = compress(codec, SAMPLE + random.Random(3).randbytes(300 * KIB))
    kept = whole_prefixes(codec, data)
    for cut in sorted({*range(0, len(data), 997), *(65_543 + delta for delta in range(-9, 10))} - kept):
        with pytest.raises(CorruptRecordError):
            decompress(codec, data[:cut], LIMIT)


@each_codec
@pytest.mark.row("S8")
def test_a_flip_of_any_bit_raises_our_errors_or_decodes(codec: Codec) -> None:
    for encode in (lambda data: compress(codec, data), *ENCODERS[codec]):
        data = bytearray(encode(SAMPLE[:400]))
        for bit in range(8 * len(data)):
            data[bit // 8] ^= 1 << bit % 8
            try:
                assert len(decompress(codec, data, LIMIT)) <= LIMIT
            except (CorruptRecordError, RecordTooLargeError) as error:
                assert str(error).startswith(f"{codec.name.lower()}: ")
            data[bit // 8] ^= 1 << bit % 8
        assert decompress(codec, data, LIMIT) == SAMPLE[:400]


@each_codec
@given(noise=st.binary(max_size=200), kept=st.integers(0, 40), at=st.integers(0, 900))
def test_noise_raises_our_errors_or_decodes(codec: Codec, noise: bytes, kept: int, at: int) -> None:
    whole = compress(codec, SAMPLE)
    for data in (noise, whole[:kept] + noise, whole[:at] + noise + whole[at + len(noise) :]):
        try:
            assert len(decompress(codec, data, 10_000)) <= 10_000
        except (CorruptRecordError, RecordTooLargeError):
            pass


@each_codec
@pytest.mark.parametrize("garbage", [b"\0", b"gar", b"garbage behind the end"])
def test_bytes_behind_the_end_are_damage(codec: Codec, garbage: bytes) -> None:
    with pytest.raises(CorruptRecordError, match=f"^{codec.name.lower()}: "):
        decompress(codec, compress(codec, SAMPLE) + garbage, LIMIT)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_the_message_says_where_garbage_begins(codec: Codec) -> None:
    whole = compress(codec, SAMPLE)
    with pytest.raises(CorruptRecordError, match=f"found 7 bytes behind the last frame at byte {len(whole)} of"):
        decompress(codec, whole + b"garbage", LIMIT)


@each_codec
def test_no_bytes_at_all_are_damage(codec: Codec) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(codec, b"", LIMIT)


def test_more_gzip_members_than_anyone_writes_are_damage() -> None:
    member = gzip.compress(b"a")
    assert decompress(Codec.GZIP, member * 64, 64) == b"a" * 64
    with pytest.raises(CorruptRecordError, match="more than 64 members"):
        decompress(Codec.GZIP, member * 65, 65)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_a_frame_that_needs_a_dictionary_is_damage(codec: Codec) -> None:
    frame = bytearray(compress(codec, SAMPLE))
    frame[4] |= 1
    with pytest.raises(CorruptRecordError, match="dictionary"):
        decompress(codec, frame, LIMIT)


def test_a_context_that_met_damage_is_not_used_again() -> None:
    for codec in CODECS:
        whole = compress(codec, repeated(SAMPLE, 100 * KIB))
        broken = bytearray(whole)
        broken[len(whole) // 2 :] = bytes(len(whole) - len(whole) // 2)
        for _ in range(20):
            with pytest.raises(LogstoreError):
                decompress(codec, broken, LIMIT)
            assert decompress(codec, whole, LIMIT) == repeated(SAMPLE, 100 * KIB)


# --- what is not there -------------------------------------------------------------------------


@pytest.mark.parametrize("number", [5, 6, 7, 8, -1])
def test_a_number_that_is_no_codec_is_refused(number: int) -> None:
    for call in (lambda: compress(number, b""), lambda: decompress(number, b"", 1)):
        with pytest.raises(UnsupportedCodecError, match=f"codec {number}") as caught:
            call()
        assert caught.value.code == 76


@pytest.mark.parametrize(
    ("codec", "package", "requirement"),
    [
        (Codec.SNAPPY, "cramjam", "logstore[snappy]"),
        (Codec.LZ4, "lz4", "lz4"),
        (Codec.ZSTD, "zstandard", "zstandard"),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(codec: Codec, package: str, requirement: str) -> None:
    # A process of its own: here the package is long imported, and the codec keeps it.
    script = f"""
import sys
from logstore.batch._codec import compress, decompress
from logstore.errors import UnsupportedCodecError
assert not {{"cramjam", "lz4", "zstandard"}} & set(sys.modules), "imported before it was needed"
sys.modules[{package!r}] = None
for call in (lambda: compress({int(codec)}, b"data"), lambda: decompress({int(codec)}, b"data", 9)):
    try:
        call()
    except UnsupportedCodecError as error:
        assert error.code == 76 and isinstance(error.__cause__, ImportError)
        print(error)
for other in {{0, 1, 2, 3, 4}} - {{{int(codec)}}}:
    assert decompress(other, compress(other, b"data"), 4) == b"data"
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    ).stdout.splitlines()
    assert len(found) == 2
    for line in found:
        assert f"codec {codec.name.lower()} needs the package {package}" in line
        assert line.endswith(f"pip install {requirement}")
