"""The small files of a log and its settings: seeds, changes behind the checksum, and the way back.

What a parser takes is written again and taken again: it must come out the same.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from logstore.batch._crc32c import crc32c
from logstore.config.log import DEFAULTS, SYNONYMS, LogConfig
from logstore.log._producers import CompletedTransaction, ProducerState, WrittenBatch
from logstore.log.directory import files
from logstore.log.formats import _published, checkpoints, producer_snapshot, transaction_index
from logstore.log.formats.checkpoints import RecoveryPoint
from logstore.log.formats.leader_epochs import EpochEntry, Epochs
from logstore.records import AbortedTransaction, TopicPartition
from tests.fuzz.mutate import EDGES, Mutator

GENERATION = 3
END_OFFSET = 1_000

_crc = struct.Struct(">I")


# --- with a checksum behind or before -----------------------------------------------------------


def slot_seeds() -> list[bytes]:
    """Whole files of recovery points: both slots, one slot, short ones."""
    points = [
        RecoveryPoint(0, 0, 0, 0, 0, 0, -1),
        RecoveryPoint(7, 3, 500, 400, 12_345, 20, -1, clean=True),
        RecoveryPoint(2**63, 2**64 - 1, 2**63 - 1, 2**62, 2**31 - 1, 2**40, 5, suspect=True),
    ]
    out = []
    for point in points:
        file = bytearray(checkpoints.RECOVERY_BYTES)
        for each in (point, point._replace(sequence=point.sequence ^ 1, recovery_point=point.recovery_point)):
            at = checkpoints.slot_position(each.sequence)
            file[at : at + checkpoints.SLOT_BYTES] = checkpoints.encode_slot(each)
        out += [bytes(file), bytes(file[: checkpoints.SLOT_BYTES])]
    return out


def changed_slots(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    start = 4096 if len(data) > 4096 and m.chance(0.5) else 0
    slot = data[start : start + 64]
    while True:
        if m.chance(0.7) and len(slot) >= 64:
            m.set_number(slot, 4 + 8 * m.below(7), 8)
        else:
            m.change(slot)
        if m.chance(0.6):
            break
    if m.chance(0.9) and len(slot) >= 64:
        _crc.pack_into(slot, 60, crc32c(memoryview(slot)[:60]))
    data[start : start + 64] = slot
    if m.chance(0.1):
        m.change(data)
    return bytes(data)


def read_slots(data: bytes) -> None:
    point = checkpoints.decode_slots(data)
    if point is not None:
        at = checkpoints.slot_position(point.sequence)
        assert checkpoints.encode_slot(point) == data[at : at + checkpoints.SLOT_BYTES], point


def compacted_seeds() -> list[bytes]:
    both = (checkpoints.encode_compacted, checkpoints.encode_dropped)
    return [encode(offset) for encode in both for offset in (0, 42, 2**63 - 1)]


def changed_compacted(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    if m.chance(0.7):
        m.set_number(data, 4, 8)
    else:
        m.change(data)
    if m.chance(0.8) and len(data) >= 16:
        _crc.pack_into(data, 12, crc32c(memoryview(data)[:12]))
    return bytes(data)


def read_compacted(data: bytes) -> None:
    for decode, encode in (
        (checkpoints.decode_compacted, checkpoints.encode_compacted),
        (checkpoints.decode_dropped, checkpoints.encode_dropped),
    ):
        offset = decode(data)
        if offset is not None:
            assert encode(offset) == data, offset


def published_seeds() -> list[bytes]:
    return [
        _published.pack(0, 0, 0, 0, 0),
        _published.pack(3, 10, 30, 20, 40),
        _published.pack(2**64 - 1, 0, 2**63 - 1, 2**63 - 1, 2**63 - 1),
        _published.pack(3, 10, 30, 20, 40) + _published.pack(3, 10, 29, 20, 39),
    ]


def changed_published(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    if m.chance(0.7):
        m.set_number(data, 8 * (1 + m.below(5)), 8)
    else:
        m.changes(data)
    if m.chance(0.9) and len(data) >= 64:
        _crc.pack_into(data, 60, crc32c(memoryview(data)[:60]))
    return bytes(data)


def read_published(data: bytes) -> None:
    published = checkpoints.decode_published(data)
    if published is not None:
        assert _published.pack(*published) in (data[:64], data[64:]), published


def producer_states() -> list[ProducerState]:
    out = []
    for number, count in enumerate((0, 1, 5)):
        state = ProducerState(number * 7, number, number - 1, 1_000 + number, 2_000 + number)
        batches = [
            WrittenBatch((10 * n) % 2**31, 10 * n + 9, 100 * number + 10 * n, 100 * number + 10 * n + 9, 5_000 + n)
            for n in range(count)
        ]
        state.batches, state.chain_count = tuple(batches), 10 * count
        if number == 2:
            state.transaction_first_offset = 205
        out.append(state)
    return out


def snapshot_seeds() -> list[bytes]:
    states = producer_states()
    return [producer_snapshot.encode_snapshot(states[:count]) for count in range(len(states) + 1)]


def changed_snapshot(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    fields = ((0, 8), (8, 2), (10, 4), (14, 8), (22, 4), (26, 8), (34, 4), (38, 8))
    count = (len(data) - 10) // 46
    while True:
        kind = m.below(10)
        if kind < 6 and count:
            at, size = fields[m.below(len(fields))]
            m.set_number(data, 10 + 46 * m.below(count) + at, size)
        elif kind == 6:
            m.set_number(data, 6, 4)
        else:
            m.change(data, seeds, start=6)
        if m.chance(0.6):
            break
    if m.chance(0.3) and len(data) >= 10:
        struct.pack_into(">i", data, 6, (len(data) - 10) // 46)
    if m.chance(0.95) and len(data) >= 6:
        _crc.pack_into(data, 2, crc32c(memoryview(data)[6:]))
    return bytes(data)


def read_snapshot(data: bytes) -> None:
    states = producer_snapshot.decode_snapshot(data, END_OFFSET)
    if states is not None:
        again = producer_snapshot.decode_snapshot(producer_snapshot.encode_snapshot(states), END_OFFSET)
        assert again is not None, "what was read could not be read again"
        assert again == states


def producers_seeds() -> list[bytes]:
    states = producer_states()
    done = [CompletedTransaction(1, 10, 20, True), CompletedTransaction(2, 15, 30, False)]
    return [
        producer_snapshot.encode_producers(
            producer_snapshot.SavedProducers(END_OFFSET, states[:count], done[: count % 3]), GENERATION
        )
        for count in range(len(states) + 1)
    ]


def changed_producers(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    while True:
        kind = m.below(10)
        if kind < 3:
            m.set_number(data, 24 + 4 * m.below(2), 4)
        elif kind < 4:
            m.set_number(data, 8 + 8 * m.below(2), 8)
        elif kind < 7 and len(data) > 75:
            at, size = ((0, 8), (8, 2), (10, 4), (14, 8), (22, 8), (30, 8), (38, 4), (42, 1))[m.below(8)]
            m.set_number(data, 32 + at, size)
        else:
            m.change(data, seeds, start=0 if m.chance(0.1) else 32)
        if m.chance(0.6):
            break
    if m.chance(0.95) and len(data) >= 4:
        _crc.pack_into(data, len(data) - 4, crc32c(memoryview(data)[:-4]))
    return bytes(data)


def read_producers(data: bytes) -> None:
    saved = producer_snapshot.decode_producers(data, GENERATION)
    if saved is not None:
        again = producer_snapshot.decode_producers(
            producer_snapshot.encode_producers(saved, GENERATION), GENERATION
        )
        assert again is not None, "what was read could not be read again"
        assert again.completed == saved.completed
        assert again.states == saved.states
        # Kafka's form of it, as the next roll writes it, is taken too.
        assert (
            producer_snapshot.decode_snapshot(producer_snapshot.encode_snapshot(saved.states), saved.offset)
            is not None
        )


# --- without one --------------------------------------------------------------------------------


def aborted_seeds() -> list[bytes]:
    entries = [AbortedTransaction(7, 0, 10, 0), AbortedTransaction(8, 5, 20, 5), AbortedTransaction(7, 12, 30, 31)]
    return [transaction_index.encode(entries[:count]) for count in range(4)]


def changed_aborted(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    count = len(data) // 34
    if m.chance(0.6) and count:
        at, size = ((0, 2), (2, 8), (10, 8), (18, 8), (26, 8))[m.below(5)]
        m.set_number(data, 34 * m.below(count) + at, size)
    else:
        m.changes(data, seeds)
    return bytes(data)


def read_aborted(data: bytes) -> None:
    entries = transaction_index.decode(data, 0, END_OFFSET)
    if entries is not None:
        assert transaction_index.encode(entries) == data
        for start, end in ((0, END_OFFSET), (15, 25), (2**63 - 1, 2**63 - 1)):
            found = transaction_index.collect(entries, start, end).transactions
            assert set(found) <= set(entries)
        assert all(entry.last_offset < 20 for entry in transaction_index.truncate_to(entries, 20))


_NUMBERS = [b"%d" % edge for edge in EDGES] + [b"00", b"+1", b"1_0", b" 1", b"1e3", b"9" * 30, b"-0", "٣".encode()]


def changed_text(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    """A text whose numbers, lines or bytes were changed."""
    data = seeds[m.below(len(seeds))]
    kind = m.below(10)
    if kind < 5:
        # A field for a number; the count is put right now and then.
        lines = data.split(b"\n")
        number = m.below(len(lines))
        words = lines[number].split(b" ")
        words[m.below(len(words))] = _NUMBERS[m.below(len(_NUMBERS))] if m.chance(0.8) else b"t-%d" % m.below(99)
        lines[number] = b" ".join(words)
        return b"\n".join(lines)
    if kind < 7:
        lines = data.split(b"\n")
        at = m.below(len(lines))
        lines[at:at] = [lines[m.below(len(lines))]] * m.below(3)
        if m.chance(0.8) and len(lines) > 2:
            lines[1] = b"%d" % (len(lines) - 3)
        return b"\n".join(lines)
    changed = bytearray(data)
    m.changes(changed, seeds)
    return bytes(changed)


def epoch_seeds() -> list[bytes]:
    tables = [[], [(0, 0)], [(0, 0), (3, 100), (2**31 - 1, 2**63 - 1)], [(n, 10 * n) for n in range(12)]]
    return [Epochs(EpochEntry(*entry) for entry in table).encode() for table in tables] + [b""]


def read_epochs(data: bytes) -> None:
    epochs = Epochs.decode(data)
    if epochs is None:
        return
    assert Epochs.decode(epochs.encode()) == epochs
    for offset in (0, 50, 2**63 - 1):
        epochs.epoch_at(offset)
        epochs.end_offset_for(offset & 7, 2**63 - 1)
    epochs.truncate_from_start(15)
    epochs.truncate_from_end(90)
    epochs.assign(4, 95)
    assert Epochs.decode(epochs.encode()) == epochs


def offsets_seeds() -> list[bytes]:
    tables = [
        {},
        {("flights", 0): 42},
        {(f"t{n}", n): 2**n for n in range(12)},
        {("a" * 249, 2**31 - 1): 2**63 - 1},
    ]
    return [
        checkpoints.write_offsets({TopicPartition(*name): offset for name, offset in table.items()})
        for table in tables
    ] + [b""]


def read_offsets(data: bytes) -> None:
    offsets = checkpoints.read_offsets(data, "recovery-point-offset-checkpoint")
    assert checkpoints.read_offsets(checkpoints.write_offsets(offsets), "again") == offsets


# --- names and settings -------------------------------------------------------------------------


def name_seeds() -> list[bytes]:
    names = [
        "flights-0",
        "a.b_c-2147483647",
        "..-1",
        "-0",
        "00000000000000000042.log",
        "00000000000000000042.index",
    ]
    names += [
        "09223372036854775807.timeindex",
        "00000000000000000042.snapshot",
        "x-1.log.deleted",
        "logstore.inbox.1",
        "logstore.socket",
    ]
    return [name.encode() for name in names]


def read_name(data: bytes) -> None:
    """The names in a directory, as any file system may give them; the caller allows NotALogError."""
    name = data.decode("utf-8", "surrogateescape").replace("/", "").replace("\0", "")
    for suffix in (".log", ".index", ".timeindex"):
        for offset in files.base_offsets([name], suffix):
            assert 0 <= offset < 2**63
            assert name.startswith(f"{offset:020d}")
    offset = producer_snapshot.snapshot_offset(name)
    assert offset is None or producer_snapshot.snapshot_name(offset) == name
    partition = files.parse_partition(f"/data/{name}")
    assert 0 <= partition.partition < 2**31


def config_seeds() -> list[bytes]:
    every = "\n".join(f"{key}={value}" for key, value in DEFAULTS.items())
    broker = "\n".join(f"{synonym}={DEFAULTS[key]}" for synonym, key in SYNONYMS.items())
    lists = "cleanup.policy=compact,delete\ncompression.type=zstd\nlogstore.ack=synced\nmessage.format.version=3.0"
    return [every.encode(), broker.encode(), lists.encode(), b"# none\n\nsegment.bytes = 4096\n"]


def changed_config(m: Mutator, seeds: Sequence[bytes]) -> bytes:
    """A few lines of a seed, with values replaced and bytes changed."""
    lines = seeds[m.below(len(seeds))].split(b"\n")
    at = m.below(len(lines))
    lines = lines[at : at + 1 + m.below(4)]
    number = m.below(len(lines))
    key, _, value = lines[number].partition(b"=")
    if not key.strip():
        return b"\n".join(lines)
    kind = m.below(10) if m.chance(0.7) else 0
    if kind < 6:
        value = _VALUES[m.below(len(_VALUES))]
        lines[number] = key + b"=" + value
        return b"\n".join(lines)
    changed = bytearray(value if kind < 9 else key)
    m.changes(changed)
    if m.chance(0.8):
        # A line more is nearly always an unknown key, of which one now and then is enough.
        changed = changed.replace(b"\n", b" ")
    lines[number] = key + b"=" + bytes(changed) if kind < 9 else bytes(changed) + b"=" + value
    return b"\n".join(lines)


_VALUES = [
    *_NUMBERS,
    b"nan",
    b"inf",
    b"-inf",
    b"1e400",
    b"0x10",
    b"1.5",
    b"0.5",
    b"true",
    b"TRUE",
    b"no",
    b"",
    b" ",
]
_VALUES += [
    b",",
    b"delete,compact",
    b"compact,,",
    b"zstd",
    b"gzip ",
    b"9" * 5_000,
    "１２".encode(),
    b"\xff\xfe",
    b"None",
]


def read_config(data: bytes) -> None:
    """The text of a properties file, one key=value a line, as settings of a log."""
    settings = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        if line.strip() and not line.startswith("#"):
            key, _, value = line.partition("=")
            settings[key.strip()] = value.strip()
    config = LogConfig.of(settings)
    assert LogConfig.of(config.changed()) == config
    _ = config.codec, config.default_ack, config.timestamp_type, config.compacts
