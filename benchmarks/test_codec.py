"""Record batches in memory: encode and decode 100 B x 1,000 beside aiokafka's Cython codec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import peers
import pytest
import records
from interleave import Runner, race

from logstore import Batches, Codec
from logstore._encode import Encoder
from logstore.log.write import add_records

SIZE, PER_BATCH, BATCHES, PASSES = 100, 1_000, 40, 5
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


def equals(expected: Any) -> Callable[[Any, Any], None]:
    def check(_state: Any, result: Any) -> None:
        assert result == expected, "the result of the work is wrong"

    return check


@pytest.mark.row("S5", "S6")
@pytest.mark.parametrize("kind, bar", [("values", None), ("tuples", 5.0), ("Arrow", 10.0)])
def test_encode(benchmark: Any, kind: str, bar: float | None) -> None:
    """Byte for byte what aiokafka writes, so the ratio compares equal work."""
    theirs: Any = peers.encode_tuples if kind == "tuples" else peers.encode_values
    plain: Any = TUPLES if kind == "tuples" else VALUES
    ours = as_arrow(VALUES) if kind == "Arrow" else plain
    for batch, group in zip(encode(ours), plain, strict=True):
        assert without_epoch(batch) == without_epoch(theirs(group))
    size, last = sized(map(theirs, plain))
    race(
        benchmark,
        Runner(passes(lambda: sized(encode(ours)), set), equals({(size, last)})),
        {"aiokafka": Runner(passes(lambda: sized(map(theirs, plain)), set), equals({(size, last)}))},
        workload=f"encode {SIZE} B x {PER_BATCH:,} from {kind}",
        records=RECORDS,
        size=RECORDS * SIZE,
        bars={} if bar is None else {"aiokafka": bar},
        codec="none",
        output_bytes=size,
    )


@pytest.mark.row("S7")
def test_encode_zstd(benchmark: Any) -> None:
    """A codec is nearly all of the time once it is on: the bar is the bare call, give or take 15 %."""
    import zstandard

    groups, level = VALUES[:10], 3
    payloads = [data[61:] for data in STORED[:10]]
    compressor = zstandard.ZstdCompressor(level=level)
    for batch, group in zip(encode(groups, Codec.ZSTD, level), groups, strict=True):
        assert Batches(bytes(batch)).values() == group

    def ours() -> tuple[int, bytes]:
        return sized(encode(groups, Codec.ZSTD, level))

    def theirs() -> tuple[int, bytes]:
        return sized(peers.encode_values(group, int(Codec.ZSTD)) for group in groups)

    def bare() -> int:
        return sum(len(compressor.compress(payload)) for payload in payloads)

    race(
        benchmark,
        Runner(lambda _: ours(), equals(ours())),
        {
            "bare zstandard": Runner(lambda _: bare(), equals(bare())),
            "aiokafka": Runner(lambda _: theirs(), equals(theirs())),
        },
        workload=f"encode {SIZE} B x {PER_BATCH:,}, zstd",
        records=len(groups) * PER_BATCH,
        size=len(groups) * PER_BATCH * SIZE,
        bars={"bare zstandard": 1 / 1.15},
        codec="zstd",
        level=level,
        output_bytes=ours()[0],
        peer_output_bytes={"bare zstandard": bare(), "aiokafka": theirs()[0]},
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
    from logstore._columns import columns_of

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
        ("values", decode_values, 3.0),
        ("records", decode_records, 1.8),
        ("Arrow", decode_columns, 4.0),
    ],
    ids=["values", "records", "Arrow"],
)
def test_decode(benchmark: Any, kind: str, work: Any, bar: float) -> None:
    """Every CRC is checked on both sides. aiokafka hands over each value; Arrow holds four columns."""
    for data, group in zip(STORED, VALUES, strict=True):
        assert Batches(data).values() == group
    race(
        benchmark,
        Runner(passes(work, sum), equals(RECORDS)),
        {"aiokafka": Runner(passes(lambda: sum(map(peers.decode, STORED)), sum), equals(RECORDS))},
        workload=f"decode {SIZE} B x {PER_BATCH:,} to {kind}",
        records=RECORDS,
        size=RECORDS * SIZE,
        bars={"aiokafka": bar},
        codec="none",
        input_bytes=sum(map(len, STORED)),
    )
