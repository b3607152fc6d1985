from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._crc32c import crc32c
from logstore.errors import CorruptRecordError
from logstore.log.formats import _published, checkpoints
from logstore.log.formats.checkpoints import LogKind, Published, RecoveryPoint
from logstore.records import TopicPartition
from tests.log.fakes import MemoryDirectory, cuts, flips

NAMES = st.builds(
    TopicPartition,
    st.text("abcXYZ019._-", min_size=1, max_size=249),
    st.integers(0, 2**31 - 1),
)
UINT64 = st.integers(0, 2**64 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
POINT = RecoveryPoint(7, 3, 1042, 1000, 65_536, 12, 1000, clean=True, suspect=False)
PUBLISHED = Published(3, 12, 1040, 1030, 1042)


@st.composite
def points(draw, sequence=UINT64):
    recovery_point = draw(OFFSETS)
    return RecoveryPoint(
        draw(sequence),
        draw(UINT64),
        recovery_point,
        draw(st.integers(0, recovery_point)),
        draw(OFFSETS),
        draw(OFFSETS),
        draw(OFFSETS),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(LogKind)),
    )


def file_of(*slots: RecoveryPoint) -> bytes:
    data = bytearray(checkpoints.RECOVERY_BYTES)
    for point in slots:
        at = checkpoints.slot_position(point.sequence)
        data[at : at + checkpoints.SLOT_BYTES] = checkpoints.encode_slot(point)
    return bytes(data)


# --- Kafka's text


@given(st.dictionaries(NAMES, OFFSETS, max_size=8))
def test_offsets_come_back_as_written(offsets):
    assert checkpoints.read_offsets(checkpoints.write_offsets(offsets), "x") == offsets


def test_the_text_is_kafkas():
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a.b-c_D", 0): 2**63 - 1}
    assert checkpoints.write_offsets(offsets) == b"0\n2\na.b-c_D 0 9223372036854775807\nb 1 7\n"
    assert checkpoints.write_offsets({}) == b"0\n0\n"


def test_a_text_checkpoint_cut_anywhere_is_damage_that_names_its_path():
    data = checkpoints.write_offsets({TopicPartition("flights", n): 100 * n for n in range(12)})
    for cut in filter(None, cuts(data)):
        with pytest.raises(CorruptRecordError) as raised:
            checkpoints.read_offsets(cut, "/d/recovery-point-offset-checkpoint")
        assert raised.value.path == "/d/recovery-point-offset-checkpoint"


def test_a_flipped_bit_in_a_text_checkpoint_is_damage_or_text_that_kafka_could_have_written():
    data = checkpoints.write_offsets({TopicPartition("flights", 0): 42, TopicPartition("t", 3): 7})
    for damaged in flips(data):
        try:
            offsets = checkpoints.read_offsets(damaged, "x")
        except CorruptRecordError:
            continue
        lines = sorted(damaged.splitlines()[2:])
        assert sorted(checkpoints.write_offsets(offsets).splitlines()[2:]) == lines


def test_the_empty_file_that_kafka_creates_first_holds_no_offsets():
    assert checkpoints.read_offsets(b"", "cleaner-offset-checkpoint") == {}


@pytest.mark.parametrize(
    "text",
    [
        b"\n",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n0\na 0 1\n",
        b"0\n1\na 0 +1\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na 0 01\n",
        b"0\n1\na 0 1_0\n",
        b"0\n1\na 0 1 \n",
        b"0\n1\na  0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 1\r\n",
        b"0\n1\n 0 1\n",
        b"0\n1\na/b 0 1\n",
        b"0\n1\n\xc3\xa4 0 1\n",
        "0\n1\na 0 \u0661\n".encode(),
        b"0\n1\na 2147483648 1\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n2\na 0 1\na 0 2\n",
        b"0\n99999999999999999999999\na 0 1\n",
    ],
)
def test_text_that_kafka_does_not_write_is_damage(text):
    with pytest.raises(CorruptRecordError):
        checkpoints.read_offsets(text, "x")


@given(st.binary(max_size=80))
def test_any_bytes_are_offsets_or_damage(data):
    with contextlib.suppress(CorruptRecordError):
        checkpoints.read_offsets(data, "x")


# --- the recovery point


@pytest.mark.row("S20", part="recovery, step by step")
@given(points())
def test_a_recovery_point_comes_back_as_written(point):
    assert checkpoints.decode_slots(file_of(point)) == point
    assert len(checkpoints.encode_slot(point)) == 64


@pytest.mark.row("S20", part="recovery, step by step")
@given(st.data())
def test_the_newest_whole_slot_counts(data):
    sequence = data.draw(st.integers(0, 2**40))
    older = data.draw(points(st.just(sequence)))
    newer = data.draw(points(st.just(sequence + 1)))
    assert checkpoints.decode_slots(file_of(older, newer)) == newer
    torn = bytearray(file_of(older, newer))
    torn[checkpoints.slot_position(newer.sequence) + data.draw(st.integers(0, 63))] ^= 0xFF
    assert checkpoints.decode_slots(bytes(torn)) == older


@pytest.mark.row("S20", part="recovery, step by step")
def test_a_slot_with_any_bit_flipped_is_not_believed():
    for damaged in flips(checkpoints.encode_slot(POINT)):
        data = bytes(checkpoints.SLOT_SPACING_BYTES) + damaged
        assert checkpoints.decode_slots(data) is None


@pytest.mark.row("S20", part="recovery, step by step")
def test_a_recovery_file_cut_anywhere_gives_the_slots_that_are_whole():
    older = POINT._replace(sequence=6)
    data = file_of(older, POINT)
    for cut in cuts(data):
        assert checkpoints.decode_slots(cut) == (older if len(cut) >= 64 else None)


@pytest.mark.row("S20", part="recovery, step by step")
@pytest.mark.parametrize("data", [b"", bytes(64), bytes(4160), b"\xff" * 4160])
def test_an_empty_or_foreign_recovery_file_is_unknown(data):
    assert checkpoints.decode_slots(data) is None


@pytest.mark.row("S20", part="recovery, step by step")
def test_a_slot_in_the_place_of_the_other_is_not_believed():
    assert checkpoints.decode_slots(checkpoints.encode_slot(POINT)) is None


@pytest.mark.row("S20", part="recovery, step by step")
def test_a_slot_of_another_version_or_with_negative_offsets_is_unknown_even_with_a_good_crc():
    def sealed(version, flags, recovery_point, base_offset):
        body = struct.pack(">2sBBQQqqqqq", b"lr", version, flags, 6, 1, recovery_point, base_offset, 0, 0, 0)
        return body + struct.pack(">I", crc32c(body))

    assert checkpoints.decode_slots(sealed(1, 27, 5, 0)) is not None
    for slot in (
        sealed(2, 0, 5, 0),
        sealed(1, 12, 5, 0),
        sealed(1, 32, 5, 0),
        sealed(1, 0, -5, -9),
        sealed(1, 0, 5, 6),
    ):
        assert checkpoints.decode_slots(slot) is None


@pytest.mark.row("S20", part="recovery, step by step")
def test_a_slot_of_before_kinds_were_recorded_says_that_of_none():
    body = struct.pack(">2sBBQQqqqqq", b"lr", 1, 3, 6, 1, 5, 0, 0, 0, 0)
    point = checkpoints.decode_slots(body + struct.pack(">I", crc32c(body)))
    assert point is not None
    assert (point.clean, point.suspect, point.kind) == (True, True, LogKind.UNRECORDED)


# --- the published end


@given(st.integers(0, 2**64 - 1), st.lists(OFFSETS, min_size=4, max_size=4).map(sorted))
def test_published_comes_back_as_written(generation, offsets):
    start, stable, high, end = offsets
    published = Published(generation, start, high, stable, end)
    data = _published.pack(*published)
    assert len(data) == 64
    assert checkpoints.decode_published(data) == published


def test_published_that_is_cut_or_flipped_anywhere_is_read_again():
    data = _published.pack(*PUBLISHED)
    assert all(checkpoints.decode_published(cut) is None for cut in cuts(data))
    assert all(checkpoints.decode_published(damaged) is None for damaged in flips(data))
    assert checkpoints.decode_published(data + b"\0") is None
    assert checkpoints.decode_published(bytes(64)) is None


def test_published_that_mixes_two_writes_is_read_again():
    before = _published.pack(*PUBLISHED)
    after = _published.pack(3, 12, 2040, 2030, 2042)
    for at in range(1, 64):
        mixed = after[:at] + before[at:]
        assert mixed in (before, after) or checkpoints.decode_published(mixed) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"log_start_offset": -1},
        {"last_stable_offset": -1},
        {"high_watermark": PUBLISHED.log_end_offset + 1},
        {"last_stable_offset": PUBLISHED.high_watermark + 1},
    ],
)
def test_published_marks_that_no_log_has_are_not_believed(fields):
    """Found by fuzzing: a whole block was believed whatever its numbers said."""
    data = bytearray(_published.pack(*PUBLISHED))
    struct.pack_into(">qqqq", data, 16, *PUBLISHED._replace(**fields)[1:])
    struct.pack_into(">I", data, 60, crc32c(data[:60]))
    assert checkpoints.decode_published(bytes(data)) is None


# --- clean shutdown


def test_clean_shutdown_is_the_presence_of_kafkas_file():
    root = MemoryDirectory()
    assert not checkpoints.was_shut_down_cleanly(root)
    checkpoints.mark_clean_shutdown(root)
    assert root.files == {".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}'}
    root.files[".kafka_cleanshutdown"] = b""
    assert checkpoints.was_shut_down_cleanly(root)


def test_the_clean_shutdown_mark_is_durably_gone_before_clear_returns():
    root = MemoryDirectory()
    checkpoints.mark_clean_shutdown(root)
    checkpoints.clear_clean_shutdown(root)
    assert not checkpoints.was_shut_down_cleanly(root)
    assert root.calls == [
        ("replace", ".kafka_cleanshutdown", "durable"),
        ("remove", ".kafka_cleanshutdown"),
        ("sync",),
    ]


def test_the_clean_shutdown_mark_is_synced_away_even_if_a_killed_process_removed_it():
    root = MemoryDirectory()
    checkpoints.clear_clean_shutdown(root)
    assert root.calls[-1] == ("sync",)
