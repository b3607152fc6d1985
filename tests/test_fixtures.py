"""Directories that a real Kafka has written, and that we must read for ever.

``tests/interop/make_fixtures.py`` has made them; the JSON file beside each says what Kafka's Java
client read in it. ``-running`` is a copy of a broker that was at work.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore import Log
from logstore.batch._batch import BatchView
from logstore.config.log import LogConfig
from logstore.errors import CorruptRecordError, NotALogError, OffsetOutOfRangeError
from logstore.log._producers import Producers
from logstore.log.directory.files import Directory, segment_file
from logstore.log.directory.segments import Segments
from logstore.log.formats import checkpoints, producer_snapshot, transaction_index
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.read.live_reader import LogReader
from logstore.log.recovery import recovery
from logstore.records import Codec, Marker, TimestampType, TopicPartition
from tests.kit.files import flip
from tests.kit.logs import NOW_MS, tree

FIXTURES = Path(__file__).parent / "fixtures"
LONGEST = 100  #: longer values are listed by their SHA-256
COMPACTED = ("compacted", "compacted-transactions")

EXPECTED: dict[tuple[str, str], dict[str, Any]] = {
    (listing.stem, topic): facts
    for listing in sorted(FIXTURES.glob("kafka-*.json"))
    for topic, facts in json.loads(listing.read_text(encoding="utf-8")).items()
}

each_log = pytest.mark.parametrize(
    ("broker", "topic"), [pytest.param(*names, id="/".join(names)) for names in EXPECTED]
)


def partition(broker: str, topic: str) -> Path:
    return FIXTURES / broker / f"{topic}-0"


def open_fixture(broker: str, topic: str) -> LogReader:
    return Log.open(partition(broker, topic), read_only=True)


def listed(value: bytes | None) -> Any:
    """A key or value as the listing has it."""
    if value is None or len(value) <= LONGEST:
        return None if value is None else base64.b64encode(value).decode()
    return {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def fields(record: Any) -> list[Any]:
    headers = [[name, listed(value)] for name, value in record.headers]
    return [record.offset, record.timestamp_ms, listed(record.key), listed(record.value), headers]


def batches(path: Path) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) of one segment file, by the lengths alone; room that is preallocated is none."""
    data, position = path.read_bytes(), 0
    while position < len(data) and any(data[position : position + 12]):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        yield position, BatchView(data[position : position + size]).check()
        position += size


def preallocated_bytes(path: Path) -> int:
    """How many bytes at the end of a segment file are room for more batches."""
    end = max((position + view.size for position, view in batches(path)), default=0)
    rest = path.read_bytes()[end:]
    assert not any(rest)
    return len(rest)


def produced(directory: Path, end: int) -> Producers:
    """The producers before an offset, by replaying the headers of all batches."""
    producers = Producers(expiration_ms=2**31 - 1)
    segments = Segments.open(Directory(directory), LogConfig(), writable=False)
    for batch in recovery.produced_batches(segments, 0, end):
        producers.apply(batch, NOW_MS)
    segments.close()
    return producers


def test_the_listings_are_there() -> None:
    assert len({broker for broker, _ in EXPECTED}) == 2
    assert len(EXPECTED) > 15
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < 1 << 20


# --- records -----------------------------------------------------------------------------------


@pytest.mark.row("S7", "M5")
@each_log
def test_every_record_is_what_kafkas_client_read(broker: str, topic: str) -> None:
    expected = EXPECTED[broker, topic]
    before = tree(partition(broker, topic))
    with open_fixture(broker, topic) as log:
        assert (log.log_start_offset, log.high_watermark) == (expected["start"], expected["end"])
        assert log.log_end_offset == expected["end"]
        assert [fields(record) for record in log.scan()] == expected["records"]
    assert tree(partition(broker, topic)) == before


@pytest.mark.row("T5", part="one process")
@each_log
def test_a_committed_reader_sees_what_kafkas_did(broker: str, topic: str) -> None:
    expected = EXPECTED[broker, topic]
    offsets = expected.get("committed_offsets", [record[0] for record in expected["records"]])
    with open_fixture(broker, topic) as log:
        assert [record.offset for record in log.scan(isolation="read_committed")] == offsets


def test_the_fixtures_hold_what_they_are_for() -> None:
    """Aborted and undecided records, gaps, a start above 0, several segments and epochs, all codecs."""
    name = next(broker for broker, _ in EXPECTED if not broker.endswith("running"))
    with open_fixture(name, "open-transaction") as log:
        assert log.last_stable_offset < log.high_watermark
    for topic in ("transactions", "compacted-transactions"):
        assert len(EXPECTED[name, topic]["committed_offsets"]) < len(EXPECTED[name, topic]["records"])
        assert list(partition(name, topic).glob("*.txnindex"))
    for topic in COMPACTED:
        assert len(EXPECTED[name, topic]["records"]) < EXPECTED[name, topic]["end"]
    horizons = [
        view.delete_horizon_ms for path in partition(name, "compacted").glob("*.log") for _, view in batches(path)
    ]
    assert any(horizons)  # attribute bit 6
    assert EXPECTED[name, "deleted"]["start"] > 0
    for topic in ("epochs", "transactions", "idempotent", "compacted", "deleted"):
        assert len(list(partition(name, topic).glob("*.log"))) > 1
    codecs = set()
    for codec in Codec:
        for path in partition(name, f"codec-{codec.name.lower()}").glob("*.log"):
            found = [view for _, view in batches(path)]
            assert max(len(view.payload()) for view in found) > 1 << 16
            codecs |= {view.codec for view in found}
    assert codecs == set(Codec)
    assert any(preallocated_bytes(path) for path in partition(f"{name}-running", "preallocated").glob("*.log"))
    with open_fixture(name, "append-time") as log:
        assert {record.timestamp_type for record in log.scan()} == {TimestampType.LOG_APPEND_TIME}


@pytest.mark.row("S2", "S3")
@each_log
def test_reading_from_every_offset_begins_there(broker: str, topic: str) -> None:
    expected = EXPECTED[broker, topic]
    with open_fixture(broker, topic) as log:
        records = expected["records"]
        for offset in range(expected["start"], expected["end"]):
            rest = [record for record in records if record[0] >= offset]
            first = next(iter(log.scan(offset, max_bytes=1)), None)
            assert (first and fields(first)) == (rest[0] if rest else None)
        for outside in (expected["start"] - 1, expected["end"] + 1):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(outside)


@each_log
def test_time_finds_the_first_record_from_it_on(broker: str, topic: str) -> None:
    expected = EXPECTED[broker, topic]
    times = sorted({record[1] for record in expected["records"]})
    with open_fixture(broker, topic) as log:
        for wanted in [0, *times, *(ms + 1 for ms in times), 2**62]:
            first = next(((ms, offset) for offset, ms, *_ in expected["records"] if ms >= wanted), None)
            assert log.offset_for_time(wanted) == first


@each_log
def test_records_are_found_without_any_index(broker: str, topic: str, tmp_path: Path) -> None:
    bare = shutil.copytree(FIXTURES / broker, tmp_path / broker) / f"{topic}-0"
    for path in bare.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            path.unlink()
    expected = EXPECTED[broker, topic]
    with Log.open(bare, read_only=True) as log:
        assert [fields(record) for record in log.scan()] == expected["records"]
        for record in expected["records"]:
            assert fields(next(iter(log.scan(record[0])))) == record


def test_a_flipped_bit_in_what_kafka_wrote_is_found(tmp_path: Path) -> None:
    name = next(iter(EXPECTED))[0]
    copy = shutil.copytree(partition(name, "epochs"), tmp_path / "epochs-0")
    path = sorted(copy.glob("*.log"))[1]
    flip(path, 100, 4)
    with Log.open(copy, read_only=True) as log, pytest.raises(CorruptRecordError, match=path.name):
        list(log.scan())


# --- Kafka's files beside the log --------------------------------------------------------------


@pytest.mark.row("S3")
@each_log
def test_every_entry_of_kafkas_indexes_is_true(broker: str, topic: str) -> None:
    """The rules by which we read indexes are those by which Kafka wrote them."""
    for path in sorted(partition(broker, topic).glob("*.log")):
        base = int(path.stem)
        found = list(batches(path))
        places = dict(found)
        entries = list(struct.iter_unpack(">ii", path.with_suffix(".index").read_bytes()))
        for relative, position in (entry for entry in entries if entry != (0, 0)):
            # A cleaner that kept the end of a batch writes the last offset that it has left.
            assert places[position].last_offset == base + relative
        times = list(struct.iter_unpack(">qi", path.with_suffix(".timeindex").read_bytes()))
        for timestamp, relative in (entry for entry in times if entry != (0, 0)):
            upto = [view for _, view in found if view.last_offset <= base + relative]
            assert max(view.max_timestamp_ms for view in upto) == timestamp


@each_log
def test_kafkas_snapshots_say_what_the_log_says(broker: str, topic: str) -> None:
    directory = partition(broker, topic)
    for path in directory.glob("*.snapshot"):
        offset = producer_snapshot.snapshot_offset(path.name)
        assert offset is not None
        states = producer_snapshot.decode_snapshot(path.read_bytes(), offset)
        assert states is not None
        assert producer_snapshot.encode_snapshot(states) == path.read_bytes()
        if EXPECTED[broker, topic]["start"] == 0 and topic not in COMPACTED:
            replayed = producer_snapshot.encode_snapshot(sorted(produced(directory, offset), key=_producer_id))
            assert replayed == producer_snapshot.encode_snapshot(sorted(states, key=_producer_id))


def _producer_id(state: Any) -> int:
    return state.producer_id


@pytest.mark.row("T5", part="one process")
@each_log
def test_kafkas_lists_of_aborted_transactions_are_what_replay_gives(broker: str, topic: str) -> None:
    directory = partition(broker, topic)
    config = LogConfig()
    segments = Segments.open(Directory(directory), config, writable=False)
    segments.active.scan(adopt=True)
    for segment in segments.all:
        path = directory / segment_file(segment.base_offset, ".txnindex")
        data = path.read_bytes() if path.exists() else b""
        found = transaction_index.decode(data, segment.base_offset, segment.next_offset)
        assert found is not None
        assert transaction_index.encode(found) == data
        if topic not in COMPACTED:
            assert recovery.rebuild_aborted(segments, segment, config) == found
    segments.close()


@each_log
def test_kafkas_leader_epochs_are_those_of_the_batches(broker: str, topic: str) -> None:
    directory = partition(broker, topic)
    epochs = Epochs.load(Directory(directory))
    assert epochs is not None
    seen: list[tuple[int, int]] = []
    for path in sorted(directory.glob("*.log")):
        for _, view in batches(path):
            if not seen or seen[-1][0] != view.leader_epoch:
                seen.append((view.leader_epoch, view.base_offset))
    listed_epochs = [(entry.epoch, entry.start_offset) for entry in epochs.entries]
    if topic in COMPACTED:
        # Compaction takes records away, not what is known of epochs.
        assert {epoch for epoch, _ in seen} <= {epoch for epoch, _ in listed_epochs}
    else:
        # A leader that wrote nothing has an epoch too, which begins at the end.
        facts = EXPECTED[broker, topic]
        with_records = [entry for entry in listed_epochs if entry[1] < facts["end"]]
        assert [(epoch, max(offset, facts["start"])) for epoch, offset in seen] == with_records
    assert (len(seen) == 3) == (topic == "epochs")


def test_kafkas_checkpoints_say_where_the_logs_start_and_end() -> None:
    name = next(broker for broker, _ in EXPECTED if not broker.endswith("running"))
    found = {}
    for file in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.LOG_START_OFFSETS):
        data = (FIXTURES / name / file).read_bytes()
        found[file] = checkpoints.read_offsets(data, file)
        lines = {f"{name.topic} {name.partition} {offset}" for name, offset in found[file].items()}
        assert lines == set(data.decode().splitlines()[2:])
    for (broker, topic), facts in EXPECTED.items():
        if broker == name:
            place = TopicPartition(topic, 0)
            assert found[checkpoints.HIGH_WATERMARKS][place] == facts["end"]
            # Kafka lists the recovery point of a log that it has ever synced.
            assert found[checkpoints.RECOVERY_POINTS].get(place, facts["end"]) == facts["end"]
            assert found[checkpoints.LOG_START_OFFSETS].get(place, 0) == facts["start"]
    assert checkpoints.was_shut_down_cleanly(Directory(FIXTURES / name))


def test_kafkas_own_logs_are_read_to_their_end() -> None:
    """Transaction states, and cluster metadata with control records of other kinds than markers."""
    name = next(broker for broker, _ in EXPECTED if not broker.endswith("running"))
    for topic, least in (("__transaction_state", 10), ("__cluster_metadata", 100)):
        with open_fixture(name, topic) as log:
            records = list(log.scan())
            assert len(records) > least
            assert log.last_stable_offset == log.log_end_offset > records[-1].offset
            assert list(log.scan(isolation="read_committed")) == records
    with open_fixture(name, "__cluster_metadata") as log:
        first = next(batches(Path(log.path) / segment_file(0, ".log")))[1]
        assert first.is_control
        assert first.last_offset not in [record.offset for record in log.scan()]


# --- taking a directory over -------------------------------------------------------------------


@each_log
def test_kafkas_directory_is_not_written_unasked(broker: str, topic: str, tmp_path: Path) -> None:
    copy = shutil.copytree(FIXTURES / broker, tmp_path / broker)
    before = tree(copy)
    with pytest.raises(NotALogError, match="Kafka wrote this log"):
        Log.open(copy / f"{topic}-0")
    assert tree(copy) == before


@each_log
def test_a_marked_copy_is_recovered_and_goes_on(broker: str, topic: str, tmp_path: Path) -> None:
    """A file of ours in the root says that the directory is ours; every batch is then looked at once."""
    copy = shutil.copytree(FIXTURES / broker, tmp_path / broker)
    (copy / "logstore.topics").touch()
    (copy / "logstore.adopted").touch()
    expected = EXPECTED[broker, topic]
    settings = {"cleanup_policy": "compact"} if topic in COMPACTED else {}
    known = Epochs.load(Directory(partition(broker, topic)))
    assert known is not None
    with Log.open(copy / f"{topic}-0", segment_bytes=2_000, **settings) as log:
        assert (log.log_start_offset, log.log_end_offset) == (expected["start"], expected["end"])
        assert [fields(record) for record in log.scan()] == expected["records"]
        preallocated = sum(preallocated_bytes(path) for path in partition(broker, topic).glob("*.log"))
        assert (log.metrics().cut_bytes, log.maintenance.was_clean) == (preallocated, False)
        # Kafka's metadata name the epochs, and Kafka could not follow one of ours.
        assert log.replica.leader_epoch == max(entry.epoch for entry in known.entries)
        for number in range(40):
            log.append([(b"k%d" % number, b"ours" * 20)])
        end = expected["end"] + 40
    for _ in range(2):
        with Log.open(copy / f"{topic}-0", segment_bytes=2_000, **settings) as log:
            assert (log.log_end_offset, log.maintenance.was_clean) == (end, True)
            records = list(log.scan())
            assert [fields(record) for record in records[:-40]] == expected["records"]
            assert [record.offset for record in records[-40:]] == list(range(expected["end"], end))
            committed = [record.offset for record in log.scan(isolation="read_committed")]
            theirs = expected.get("committed_offsets", [record[0] for record in expected["records"]])
            own = [] if topic == "open-transaction" else list(range(expected["end"], end))
            assert committed == theirs + own


def test_the_producer_of_an_open_transaction_may_still_end_it(tmp_path: Path) -> None:
    broker = next(iter(EXPECTED))[0]
    copy = shutil.copytree(FIXTURES / broker, tmp_path / broker)
    (copy / "logstore.topics").touch()
    with Log.open(copy / "open-transaction-0") as log:
        opened = next(
            view for _, view in batches(Path(log.path) / segment_file(0, ".log")) if view.is_transactional
        )
        log.replica.append_control(
            Marker.ABORT, producer_id=opened.producer_id, producer_epoch=opened.producer_epoch
        )
        assert log.last_stable_offset == log.high_watermark
        values = [record.value for record in log.scan(isolation="read_committed")]
    assert b"behind 2" in values
    assert not any(value is not None and value.startswith(b"undecided") for value in values)
