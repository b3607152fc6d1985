"""Kafka's own dump tool reads every file that we write, and finds no mismatch."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from logstore import Log
from logstore.log.formats import producer_snapshot, transaction_index
from logstore.records import Codec
from tests.interop.broker import run_tool
from tests.interop.clients import Read
from tests.interop.histories import ABORTS, COMMITS, IDEMPOTENT, History, write_history
from tests.interop.make_fixtures import START_MS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.usefixtures("kafka_jars")]

DUMP = "org.apache.kafka.tools.DumpLogSegments"

#: What the tool says, on a line of its own, of files that do not agree.
COMPLAINTS = ("ismatch", "Non-consecutive", "out of order", "not found", "isvalid: false", "rror", "xception")

FIELD = re.compile(r"(\w+): (OptionalLong\[\d+\]|\[[^\]]*\]|\S+)")


@pytest.fixture(scope="module", params=Codec, ids=lambda codec: codec.name.lower())
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    directory = tmp_path_factory.mktemp("history")
    return write_history(directory / "root" / "ours-0", request.param, killed=directory / "killed")


def dump(files: list[Path], *options: str) -> list[str]:
    """The lines that the tool prints of files; its complaints are among them."""
    names = ",".join(map(str, files))
    return run_tool(DUMP, *options, "--files", names).splitlines()


def complaints(lines: list[str], first_offsets: set[int]) -> list[str]:
    """What does not hold; that a segment begins behind offset 0 is none of it."""
    found = []
    for place, line in enumerate(lines):
        begins = re.fullmatch(r" *-1 is followed by (\d+)", lines[place + 1]) if place + 1 < len(lines) else None
        is_start = line.startswith("Non-consecutive") and begins and int(begins[1]) in first_offsets
        if any(word in line for word in COMPLAINTS) and not is_start and not line.startswith("| offset"):
            found.append(line)
    return found


def parsed(line: str) -> dict[str, str]:
    return dict(FIELD.findall(line))


def files_of(history: History, *suffixes: str) -> list[Path]:
    return sorted(path for path in history.path.iterdir() if path.suffix in suffixes)


def bases_of(history: History) -> set[int]:
    return {int(path.stem) for path in files_of(history, ".log")}


def shown(read: Read) -> tuple[Any, ...]:
    """What the tool prints of a record, but for its bytes where they are no text."""
    offset, row = read
    names = ",".join(name for name, _ in row.headers)
    sizes = (-1 if row.key is None else len(row.key), -1 if row.value is None else len(row.value))
    return offset, row.timestamp_ms, *sizes, f"[{names}]"


def is_printable(value: bytes | None) -> bool:
    return value is not None and value.isascii() and value.decode().isprintable()


@pytest.mark.row("S7", "M5")
@pytest.mark.row("S5", part="one process")
def test_every_batch_and_record_is_what_we_wrote(history: History) -> None:
    lines = dump(files_of(history, ".log"), "--deep-iteration", "--print-data-log")
    assert complaints(lines, bases_of(history)) == []
    batches = [parsed(line) for line in lines if line.startswith("baseOffset: ")]
    with Log.open(history.path, read_only=True) as log:
        ours = [
            {
                "baseOffset": str(view.base_offset),
                "lastOffset": str(view.last_offset),
                "count": str(view.record_count),
                "baseSequence": str(view.base_sequence),
                "lastSequence": str(view.last_sequence),
                "producerId": str(view.producer_id),
                "producerEpoch": str(view.producer_epoch),
                "partitionLeaderEpoch": str(view.leader_epoch),
                "isTransactional": str(view.is_transactional).lower(),
                "isControl": str(view.is_control).lower(),
                "CreateTime": str(view.max_timestamp_ms),
                "size": str(view.size),
                "magic": "2",
                "compresscodec": view.codec.name.lower(),
                "crc": str(view.crc),
                "isvalid": "true",
            }
            for chunk in log.scan().chunks()
            for view in chunk.batches()
        ]
    keys = ours[0].keys()
    assert [{key: batch[key] for key in keys} for batch in batches] == ours
    assert {batch["partitionLeaderEpoch"] for batch in batches} == {"0", "1"}
    assert max(int(batch["size"]) for batch in batches) > 1 << 16

    records = [line for line in lines if line.startswith("| offset: ")]
    markers = [line for line in records if "endTxnMarker" in line]
    data = [line for line in records if "endTxnMarker" not in line]
    assert {parsed(line)["endTxnMarker"] for line in markers} == {"COMMIT", "ABORT"}
    assert {parsed(line)["coordinatorEpoch"] for line in markers} == {"3"}
    found = []
    for line in data:
        fields = parsed(line.split(" payload: ")[0])
        found.append(
            (
                *(int(fields[name]) for name in ("offset", "CreateTime", "keySize", "valueSize")),
                fields["headerKeys"],
            )
        )
    assert found == [shown(read) for read in history.records]
    for line, (_, row) in zip(data, history.records, strict=True):
        if is_printable(row.key) and is_printable(row.value):
            assert line.endswith(f" key: {row.key.decode()} payload: {row.value.decode()}")
        elif is_printable(row.value):
            assert line.endswith(f" payload: {row.value.decode()}")


@pytest.mark.row("S3")
def test_every_index_leads_where_it_says(history: History) -> None:
    indexes = files_of(history, ".index", ".timeindex")
    assert sum(path.stat().st_size for path in indexes) > 20 * len(bases_of(history))
    lines = dump(indexes, "--verify-index-only")
    assert complaints(lines, bases_of(history)) == []
    lines = dump(indexes, "--index-sanity-check")
    assert sum(line.endswith("passed sanity check.") for line in lines) == len(indexes)
    entries = [line for line in dump(indexes) if line.startswith(("offset: ", "timestamp: "))]
    assert len(entries) == sum(path.stat().st_size // (8 if path.suffix == ".index" else 12) for path in indexes)


@pytest.mark.row("T4", part="data partitions")
def test_snapshots_and_aborted_transactions_say_what_they_say_to_us(history: History) -> None:
    snapshots = files_of(history, ".snapshot")
    lines = dump(snapshots)
    found = [parsed(line) for line in lines if line.startswith("producerId: ")]
    states = [
        state
        for path in snapshots
        for state in producer_snapshot.decode_snapshot(path.read_bytes(), int(path.stem)) or pytest.fail(path.name)
    ]
    assert {state.producer_id for state in states} == {IDEMPOTENT, COMMITS, ABORTS}
    assert len(found) == len(states)
    for line, state in zip(found, states, strict=True):
        first = state.transaction_first_offset
        assert line["currentTxnFirstOffset"] == (
            "OptionalLong.empty" if first is None else f"OptionalLong[{first}]"
        )
        told = [int(line[name]) for name in ("producerId", "producerEpoch", "coordinatorEpoch")]
        assert told == [state.producer_id, state.epoch, state.coordinator_epoch]
        if state.batches:
            last = state.batches[-1]
            told = [int(line[name]) for name in ("firstSequence", "lastSequence", "lastOffset", "timestamp")]
            assert told == [last.base_sequence, last.last_sequence, last.last_offset, last.timestamp_ms]

    lists = files_of(history, ".txnindex")
    found = [parsed(line) for line in dump(lists) if line.startswith("version: 0")]
    entries = [
        entry
        for path in lists
        for entry in transaction_index.decode(path.read_bytes(), int(path.stem), 2**62) or pytest.fail(path.name)
    ]
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    assert [tuple(int(line[name]) for name in names) for line in found] == entries
    assert len(entries) == 4


@pytest.mark.parametrize("history", [Codec.ZSTD], indirect=True)
def test_a_log_that_is_being_written_is_read_too(history: History, tmp_path: Path) -> None:
    """Kafka's own active segment is refused for its padded time index; ours is not padded."""
    # An entry for nearly each batch: while a log is open they go to its files many at a time.
    with Log.open(tmp_path / "open-0", index_interval_bytes=1) as log:
        for read in history.records[:100]:
            log.append([(read.row.key, read.row.value, read.row.timestamp_ms, read.row.headers)])
        log.flush()
        log.append([(None, b"not flushed", START_MS)])
        files = sorted(Path(log.path).glob("0*"))
        assert [path.suffix for path in files] == [".index", ".log", ".timeindex"]
        assert all(path.stat().st_size for path in files)
        lines = dump(files, "--deep-iteration", "--print-data-log")
        assert complaints(lines, {0}) == []
        assert sum(line.startswith("| offset") for line in lines) == 101
        lines = dump([files[0], files[2]], "--index-sanity-check")
        assert sum(line.endswith("passed sanity check.") for line in lines) == 2


@pytest.mark.parametrize("history", [Codec.LZ4], indirect=True)
def test_the_tool_does_complain(history: History, tmp_path: Path) -> None:
    """A wrong index entry, a flipped bit and a hole: else the tests above would prove nothing."""
    log, index = files_of(history, ".log")[0], files_of(history, ".index")[0]
    (tmp_path / log.name).write_bytes(log.read_bytes())
    entries = bytearray(index.read_bytes())
    entries[3] += 1
    (tmp_path / index.name).write_bytes(entries)
    assert complaints(dump([tmp_path / index.name], "--verify-index-only"), bases_of(history))
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    (tmp_path / log.name).write_bytes(data)
    try:
        lines = dump([tmp_path / log.name])
    except subprocess.CalledProcessError as error:
        lines = error.stdout.decode(errors="replace").splitlines()
    assert complaints(lines, bases_of(history))
    whole = log.read_bytes()
    second = int.from_bytes(whole[8:12], "big") + 12
    third = second + int.from_bytes(whole[second + 8 : second + 12], "big") + 12
    (tmp_path / log.name).write_bytes(whole[:second] + whole[third:])
    assert complaints(dump([tmp_path / log.name], "--deep-iteration"), bases_of(history))
