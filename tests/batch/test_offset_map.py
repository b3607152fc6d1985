"""The map from keys to offsets: the newest offset of every key, in bounded memory, whatever the keys are."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._batch import stamp
from logstore.batch._encode import encode, encode_marker
from logstore.batch._offset_map import DECIDE, ENDED, FILLED, SLOT_BYTES, KeyMap
from logstore.errors import CorruptRecordError, RecordTooLargeError, UnsupportedFormatError
from logstore.records import Codec

pytestmark = pytest.mark.row("R3")

SECRET = bytes(range(16))


def batch(records, base_offset=0, **fields) -> bytes:
    data = bytearray(encode(records, timestamp_ms=1_000, **fields))
    stamp(data, base_offset, 0)
    return bytes(data)


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 2**62))))
def test_a_map_answers_as_a_dict_does(pairs):
    keys = KeyMap(400 * SLOT_BYTES, SECRET)
    model: dict[bytes, int] = {}
    for key, offset in pairs:
        assert keys.put(key, offset)
        model[key] = offset
    assert len(keys) == len(model)
    assert all(keys.get(key) == offset for key, offset in model.items())
    assert all(keys.get(key + b"?") == model.get(key + b"?", -1) for key in model)


@pytest.mark.parametrize("slots", [2, 3, 10, 1000])
def test_a_map_takes_nine_tenths_of_its_slots_and_goes_on_with_the_keys_that_it_has(slots):
    keys = KeyMap(slots * SLOT_BYTES, SECRET)
    assert (keys.capacity, keys.size) == (max(slots * 9 // 10, 1), slots * SLOT_BYTES)
    names = [b"%d" % n for n in range(keys.capacity)]
    assert all(keys.put(name, n) for n, name in enumerate(names))
    assert not keys.put(b"one more", 9)
    assert keys.get(b"one more") == -1
    assert keys.put(names[0], 99)
    assert [keys.get(name) for name in names] == [99, *range(1, len(names))]


@pytest.mark.parametrize("size", [0, 1, 2 * SLOT_BYTES - 1, -5, 2**62])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(ValueError, match="expected 48 bytes to a terabyte"):
        KeyMap(size, SECRET)


def test_a_secret_of_another_size_is_refused():
    with pytest.raises(ValueError, match="16 bytes, found 3"):
        KeyMap(480, b"abc")


def sip(data: bytes, secret: bytes) -> bytes:
    """SipHash-2-4 with 128 bits, slow and by its definition."""
    mask = 2**64 - 1
    low, high = (int.from_bytes(secret[n : n + 8], "little") for n in (0, 8))
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]
    v[1] ^= 0xEE

    def turn(value, bits):
        return (value << bits | value >> (64 - bits)) & mask

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1] = turn(v[1], 13) ^ v[0]
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[1]) & mask
            v[0] = (v[0] + v[3]) & mask
            v[1] = turn(v[1], 17) ^ v[2]
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = turn(v[2], 32)

    whole = len(data) // 8 * 8
    words = [data[n : n + 8] for n in range(0, whole, 8)]
    words.append(data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF]))
    for word in words:
        number = int.from_bytes(word, "little")
        v[3] ^= number
        rounds(2)
        v[0] ^= number
    v[2] ^= 0xEE
    rounds(4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return first.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def test_the_model_of_the_hash_is_the_published_one():
    """The first vectors of the reference implementation, and OpenSSL's where it is installed."""
    assert sip(b"", SECRET).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert sip(b"\0", SECRET).hex() == "da87c1d86b99af44347659119b22fc45"
    if shutil.which("openssl"):
        for size in (1, 7, 8, 9, 63, 300):
            data = random.Random(size).randbytes(size)
            asked = subprocess.run(
                ["openssl", "mac", "-macopt", f"hexkey:{SECRET.hex()}", "-macopt", "size:16", "SIPHASH"],
                input=data, capture_output=True, check=False,
            )  # fmt: skip
            if asked.returncode == 0:
                assert asked.stdout.decode().strip().lower() == sip(data, SECRET).hex()


@given(st.binary(max_size=70), st.binary(min_size=16, max_size=16))
def test_the_digest_is_sip_hash(key, secret):
    keys = KeyMap(10 * SLOT_BYTES, secret)
    assert keys.digest(key) == sip(key, secret)


# --- from batches ------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_a_run_of_batches_gives_every_key_its_newest_offset(codec):
    rng = random.Random(3)
    model: dict[bytes, int] = {}
    data, offset = b"", 100
    for _ in range(30):
        records = [
            (rng.choice([b"", b"a", b"b%d" % rng.randrange(50), None]), b"v") for _ in range(rng.randrange(1, 40))
        ]
        data += batch(records, offset, codec=codec)
        for n, (key, _) in enumerate(records):
            if key is not None and offset + n >= 150:
                model[key] = offset + n
        offset += len(records)
    keys = KeyMap(1000 * SLOT_BYTES, SECRET)
    assert keys.add_run(data, 150) == (len(data), ENDED)
    assert len(keys) == len(model)
    assert {key: keys.get(key) for key in model} == model
    assert keys.latest_offset == offset - 1


def test_a_run_stops_before_what_a_transaction_may_have_aborted_and_before_markers():
    plain = batch([(b"a", b"1")], 0)
    aborted = batch([(b"b", b"2")], 1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    marker = bytearray(encode_marker(0, 0, 5, 0, 1_000))
    stamp(marker, 2, 0)
    data = plain + aborted + bytes(marker)
    keys = KeyMap(100 * SLOT_BYTES, SECRET)
    assert keys.add_run(data, 0) == (len(plain), DECIDE)
    assert keys.latest_offset == 0
    keys.pass_over(1)
    at = len(plain) + len(aborted)
    assert keys.add_run(data, 0, position=at) == (at, DECIDE)
    assert keys.get(b"b") == -1
    assert keys.add_batch(data, 0, position=len(plain)) == (at, ENDED)
    assert keys.get(b"b") == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_full_map_stops_and_knows_the_batches_before(codec):
    data = b"".join(batch([(b"%d" % (4 * n + i), b"v") for i in range(4)], 4 * n, codec=codec) for n in range(9))
    keys = KeyMap(20 * SLOT_BYTES, SECRET)
    position, why = keys.add_run(data, 0)
    assert (why, keys.latest_offset) == (FILLED, 15)
    assert position == sum(sizes(data)[:4])
    assert all(keys.get(b"%d" % n) == n for n in range(16))


def sizes(data: bytes) -> list[int]:
    found = []
    while sum(found) < len(data):
        found.append(int.from_bytes(data[sum(found) + 8 : sum(found) + 12], "big") + 12)
    return found


def test_bytes_that_end_inside_a_batch_are_left_for_the_next_call():
    first, second = batch([(b"a", b"1")], 0), batch([(b"b", b"2")], 1)
    for cut in range(len(second)):
        keys = KeyMap(100 * SLOT_BYTES, SECRET)
        assert keys.add_run(first + second[:cut], 0) == (len(first), ENDED)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_damage_is_named_with_its_place(codec):
    data = bytearray(batch([(b"a", b"1")], 0) + batch([(b"b", b"2" * 50)], 1, codec=codec))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="CRC-32C") as caught:
        KeyMap(100 * SLOT_BYTES, SECRET).add_run(bytes(data), 0, path="/t-0/0.log", file_position=1000)
    assert (caught.value.path, caught.value.position) == ("/t-0/0.log", 1000 + sizes(data)[0])


def test_another_format_and_a_bomb_are_refused():
    data = bytearray(batch([(b"a", b"1")], 0))
    data[16] = 1
    with pytest.raises(UnsupportedFormatError):
        KeyMap(100 * SLOT_BYTES, SECRET).add_run(bytes(data), 0)
    bomb = batch([(b"a", bytes(100_000))], 0, codec=Codec.ZSTD)
    with pytest.raises(RecordTooLargeError):
        KeyMap(100 * SLOT_BYTES, SECRET).add_run(bomb, 0, limit=50_000)


def test_a_position_outside_the_bytes_is_refused():
    for position in (-1, 5):
        with pytest.raises(ValueError, match="outside 4 bytes"):
            KeyMap(100 * SLOT_BYTES, SECRET).add_run(b"abcd", 0, position=position)
