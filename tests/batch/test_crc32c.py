"""The checksum agrees with an independent one, whichever way this machine sums."""

from __future__ import annotations

import random
import re
import threading
from pathlib import Path

import crc32c as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._crc32c import crc32c, crc32c_with, implementation, implementations

pytestmark = pytest.mark.row("D1")

HEADER = (Path(__file__).parents[2] / "src" / "logstore" / "batch" / "_crc32c.h").read_text()
POLYNOMIAL = 0x1EDC6F41  # the bits below x^32; Castagnoli, highest degree first

NOISE = random.Random(20261101).randbytes(70_000)
each_way = pytest.mark.parametrize("way", implementations())
seeds = st.integers(0, 2**32 - 1)

#: where a way changes its step: words, lanes, registers, rounds of streams, the GIL
EDGES = sorted(
    {
        length
        for block in (0, 1, 2, 4, 8, 16, 64, 128, 256, 320, 384, 512, 1024, 3072, 3456, 6144, 16_384, 65_536)
        for length in range(block - 9, block + 10)
        if length >= 0
    }
)


def power_of_x(exponent: int) -> int:
    """x^exponent mod P as a reflected number, by plain long division."""
    remainder = 1
    for _ in range(exponent):
        remainder <<= 1
        if remainder >> 32:
            remainder ^= 1 << 32 | POLYNOMIAL
    return int(f"{remainder:032b}"[::-1], 2)


def defined(name: str) -> str:
    (value,) = re.findall(rf"#define {name} (\w+)", HEADER)
    return str(value)


def test_the_check_value_is_the_published_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, appendix B.4
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(b"") == 0


@each_way
def test_each_way_gives_the_check_value(way: str) -> None:
    assert crc32c_with(way, b"123456789") == 0xE3069283


@each_way
@pytest.mark.parametrize("offset", [0, 1, 7])
def test_each_way_agrees_with_the_oracle_around_every_block_boundary(way: str, offset: int) -> None:
    view = memoryview(NOISE)
    for length in EDGES:
        part = view[offset : offset + length]
        assert crc32c_with(way, part) == oracle.crc32c(part), length
        assert crc32c_with(way, part, 0xDEADBEEF) == oracle.crc32c(part, 0xDEADBEEF), length


@each_way
@given(noise=st.integers(0, 2**32), offset=st.integers(0, 65), length=st.integers(0, 5_000), seed=seeds)
def test_each_way_agrees_with_the_oracle(way: str, noise: int, offset: int, length: int, seed: int) -> None:
    data = memoryview(random.Random(noise).randbytes(offset + length))[offset:]
    assert crc32c_with(way, data, seed) == oracle.crc32c(data, seed)


@each_way
def test_each_way_agrees_with_the_oracle_on_every_short_length(way: str) -> None:
    view = memoryview(NOISE)
    for length in range(1_500):
        assert crc32c_with(way, view[:length], length) == oracle.crc32c(view[:length], length), length


@each_way
@given(first=st.binary(max_size=2_000), second=st.binary(max_size=2_000), seed=seeds)
def test_sums_compose(way: str, first: bytes, second: bytes, seed: int) -> None:
    whole = crc32c_with(way, first + second, seed)
    assert whole == crc32c_with(way, second, crc32c_with(way, first, seed))
    assert whole == crc32c(first + second, seed)


@each_way
def test_a_flip_of_any_bit_gives_a_sum_of_its_own(way: str) -> None:
    data = bytearray(NOISE[:700])
    sums = {crc32c_with(way, data)}
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        sums.add(crc32c_with(way, data))
        data[bit // 8] ^= 1 << bit % 8
    assert len(sums) == 8 * len(data) + 1


def test_every_constant_of_the_header_is_its_power_of_x() -> None:
    constants = {
        int(n): int(value, 16) for n, value in re.findall(r"#define LOGSTORE_CRC32C_X(\d+) (0x\w{8})u", HEADER)
    }
    assert constants == {exponent: power_of_x(exponent) for exponent in constants}
    assert {int(n) for n in re.findall(r"CRC32C_X(\d+)", HEADER)} == set(constants)


def test_the_exponents_fit_the_distances_they_are_for() -> None:
    constants = {int(n) for n in re.findall(r"#define LOGSTORE_CRC32C_X(\d+)", HEADER)}
    streams = {int(defined(f"LOGSTORE_CRC32C_{name}_BYTES")) for name in ("LONG", "SHORT")}
    past_streams = {8 * count * size - 33 for size in streams for count in (1, 2)}
    folds = {128 * lanes + word - 33 for lanes in (1, 2, 3, 4, 16) for word in (0, 64)}
    assert constants == past_streams | folds


def test_the_polynomial_of_the_tables_is_the_same_reflected() -> None:
    assert int(defined("LOGSTORE_CRC32C_POLYNOMIAL").rstrip("u"), 16) == power_of_x(32)


def test_the_fastest_way_is_chosen_and_the_table_is_always_there() -> None:
    assert implementation() == implementations()[0]
    assert implementations()[-1] == "table"
    assert set(implementations()) <= {"vpclmulqdq", "sse42", "arm", "table"}


@pytest.mark.parametrize("size", [0, 5, 16_383, 16_384, 65_000])
def test_every_kind_of_buffer_gives_the_same_sum(size: int) -> None:
    data = NOISE[:size]
    expected = oracle.crc32c(data, 7)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
        assert crc32c(buffer, 7) == expected
    words = memoryview(data[: size // 4 * 4]).cast("I")
    assert crc32c(words) == oracle.crc32c(words.tobytes())


def test_what_is_no_contiguous_buffer_is_refused() -> None:
    with pytest.raises(TypeError):
        crc32c("text")  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        crc32c(memoryview(NOISE)[::2])
    for value in (-1, 2**32):
        with pytest.raises(OverflowError):
            crc32c(b"", value)


def test_an_unknown_way_is_refused_with_the_known_ones_named() -> None:
    with pytest.raises(ValueError, match=r"expected one of .*table, found 'abacus'"):
        crc32c_with("abacus", b"")


def test_threads_sum_side_by_side() -> None:
    expected = oracle.crc32c(NOISE)
    wrong: list[int] = []

    def sum_often() -> None:
        wrong.extend(found for _ in range(200) if (found := crc32c(NOISE)) != expected)

    threads = [threading.Thread(target=sum_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
