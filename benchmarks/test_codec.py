"""Record batches in memory: encode and decode 100 B x 1,000 beside aiokafka's Cython codec and the bare codecs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import peers
import pytest
import records
from interleave import Bar, Runner, race
from runners import COPY_AND_SUM, same

from logstore import Codec
from logstore.batch._encode import Encoder
from logstore.log import Batches
from logstore.log.append.append import add_records

SIZE, PER_BATCH, BATCHES, PASSES = 100, 1_000, 40, 10
RECORDS = PER_BATCH * BATCHES * PASSES
VALUES = records.groups(SIZE, PER_BATCH, BATCHES)
TUPLES = [[(b"key-%05d" % n, value, peers.TIMESTAMP + n) for n, value in enumerate(group)] for group in VALUES]
STORED = [bytes(peers.encode_values(group)) for group in VALUES]


def encode(groups: list[Any], codec: Codec = Codec.NONE, level: int = 0) -> Iterator[Any]:
    """Each group as one batch in the encoder's own memory, reused as a log does: valid until the next."""
    encoder = Encoder()
    for group in groups:
        encoder.begin(timestamp_ms=peers.TIMESTAMP, codec=codec, level=level)
        add_records(encoder, group)
        encoder.finish()
        yield encoder


def sized(batches: Iterable[Any]) -> tuple[int, bytes]:
    """What is checked of an encoding: the bytes of all batches, and the last one (to keep all would be the
    larger part of the time, in page faults)."""
    size = 0
    for batch in batches:
        size += len(batch)
    return size, without_epoch(batch)


def passes(work: Callable[[], Any], combine: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    """Work that is done several times over, so that a round is long enough to time."""
    return lambda _state: combine([work() for _ in range(PASSES)])


def without_epoch(batch: Any) -> bytes:
    """A batch with leader epoch 0: a log stamps it later, outside the CRC, and aiokafka writes -1."""
    data = bytes(batch)
    return data[:12] + bytes(4) + data[16:]


def as_arrow(groups: list[list[bytes]]) -> list[Any]:
    pyarrow = pytest.importorskip("pyarrow")
    return [pyarrow.array(group, pyarrow.binary()) for group in groups]


@pytest.mark.row("S6")
@pytest.mark.row("S5", part="one process")
@pytest.mark.parametrize("kind, bar", [("values", None), ("tuples", Bar(5, 7)), ("Arrow", Bar(10, 15))])
def test_encode(benchmark: Any, kind: str, bar: Bar | None) -> None:
    """Byte for byte what aiokafka writes, so the ratio compares equal work."""
    theirs: Any = peers.encode_tuples if kind == "tuples" else peers.encode_values
    plain: Any = TUPLES if kind == "tuples" else VALUES
    ours = as_arrow(VALUES) if kind == "Arrow" else plain
    for batch, group in zip(encode(ours), plain, strict=True):
        assert without_epoch(batch) == without_epoch(theirs(group))
    size, last = sized(map(theirs, plain))
    race(
        benchmark,
        Runner(passes(lambda: sized(encode(ours)), set), same({(size, last)}), parts=COPY_AND_SUM),
        {"aiokafka": Runner(passes(lambda: sized(map(theirs, plain)), set), same({(size, last)}))},
        workload=f"encode {SIZE} B x {PER_BATCH:,} from {kind}",
        records=RECORDS,
        size=RECORDS * SIZE,
        bars={} if bar is None else {"aiokafka": bar},
        rounds=11,
        codec="none",
        output_bytes=size * PASSES,
    )


def bare_zstd(level: int) -> Callable[[bytes], bytes]:
    """The library's call with a context that is kept."""
    zstandard = pytest.importorskip("zstandard")
    compress: Callable[[bytes], bytes] = zstandard.ZstdCompressor(level=level).compress
    return compress


def bare_lz4(level: int) -> Callable[[bytes], bytes]:
    """The library's call for the frames that Kafka can read: independent blocks of 64 KiB.

    Kafka's level 9, the default, means lz4's fast mode, which the library calls 0.
    """
    frame = pytest.importorskip("lz4.frame")
    return lambda payload: frame.compress(
        payload,
        compression_level=0 if level == 9 else level,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )


@pytest.mark.row("S7")
@pytest.mark.parametrize(
    "codec, level, bare_call", [(Codec.LZ4, 9, bare_lz4), (Codec.ZSTD, 3, bare_zstd)], ids=["lz4", "zstd"]
)
def test_encode_compressed(benchmark: Any, codec: Codec, level: int, bare_call: Any) -> None:
    """A codec is nearly all of the time once it is on: the bar is the bare call, give or take 15 %.

    aiokafka takes its codec's own default level, which for lz4 is another: its ratio compares unequal work,
    so both sizes are stated.
    """
    groups = VALUES[:10]
    payloads = [data[61:] for data in STORED[:10]]
    compress = bare_call(level)
    for batch, group in zip(encode(groups, codec, level), groups, strict=True):
        assert Batches(bytes(batch)).values() == group

    def ours() -> tuple[int, bytes]:
        return sized(encode(groups, codec, level))

    def theirs() -> tuple[int, bytes]:
        return sized(peers.encode_values(group, int(codec)) for group in groups)

    def bare() -> int:
        return sum(len(compress(payload)) for payload in payloads)

    stored, bare_stored, their_stored = ours()[0], bare(), theirs()[0]
    assert stored == bare_stored + 61 * len(groups), "not the same work: the bare call makes other frames"
    name = codec.name.lower()
    race(
        benchmark,
        Runner(passes(ours, set), same({ours()}), parts=COPY_AND_SUM),
        {
            f"limit: bare {name} call": Runner(passes(bare, set), same({bare_stored})),
            "aiokafka": Runner(passes(theirs, set), same({theirs()})),
        },
        workload=f"encode {SIZE} B x {PER_BATCH:,}, {name} level {level}",
        records=len(groups) * PER_BATCH * PASSES,
        size=len(groups) * PER_BATCH * SIZE * PASSES,
        bars={f"limit: bare {name} call": Bar(1 / 1.15)},
        rounds=11,
        codec=name,
        level=level,
        output_bytes=stored * PASSES,
        peer_output_bytes={f"limit: bare {name} call": bare_stored * PASSES, "aiokafka": their_stored * PASSES},
    )


def decode_values() -> int:
    return sum(len(Batches(data).values()) for data in STORED)


def decode_records() -> int:
    count = 0
    for data in STORED:
        for record in Batches(data):
            record.value  # noqa: B018
            count += 1
    return count


def decode_columns() -> int:
    from logstore.columns._export import columns_of

    count = 0
    for data in STORED:
        columns = columns_of(Batches(data), ["offset", "timestamp", "key", "value"])
        columns.__arrow_c_array__()
        count += len(columns)
    return count


@pytest.mark.row("S8", "S11")
@pytest.mark.parametrize(
    "kind, work, bar",
    [
        ("values", decode_values, Bar(3, 4.5)),
        ("records", decode_records, Bar(1.8, 2.5)),
        ("Arrow", decode_columns, Bar(4, 6)),
    ],
    ids=["values", "records", "Arrow"],
)
def test_decode(benchmark: Any, kind: str, work: Any, bar: Bar) -> None:
    """Every CRC is checked on both sides. aiokafka hands over each value; Arrow holds four columns."""
    for data, group in zip(STORED, VALUES, strict=True):
        assert Batches(data).values() == group
    race(
        benchmark,
        Runner(passes(work, sum), same(RECORDS), parts=("crc",)),
        {"aiokafka": Runner(passes(lambda: sum(map(peers.decode, STORED)), sum), same(RECORDS))},
        workload=f"decode {SIZE} B x {PER_BATCH:,} to {kind}",
        records=RECORDS,
        size=RECORDS * SIZE,
        bars={"aiokafka": bar},
        rounds=11,
        codec="none",
        output_bytes=sum(map(len, STORED)) * PASSES,
    )
