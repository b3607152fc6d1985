"""Taking in staged files: what becomes visible and when, what is refused, and that a refusal changes nothing.

Crashes are asked for in `tests.crash.test_ingest_cuts`, other processes in `test_commit_client`.
"""

from __future__ import annotations

import errno
import json

import pytest

import logstore
from logstore.batch._encode import Encoder, encode, encode_marker
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import (
    CorruptRecordError,
    DiskFullError,
    InvalidManifestError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    LogClosedError,
    OldBatchError,
    PolicyViolationError,
    ReadOnlyError,
    RecordTooLargeError,
    StagedFileError,
    StorageError,
    StorageFailedError,
    UnexpectedOffsetError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.log.replica import LogReplica
from logstore.records import Codec, TopicPartition
from logstore.store.commit import commit_log, staged_reader, staged_writer
from logstore.store.commit.commit_log import Sinks, SinkState, producer_id_of
from logstore.store.commit.restore import Restore
from logstore.store.commit.staged_writer import Manifest, StagedFileWriter, sweep
from logstore.testing import ManualClock, SimDisk

ROOT = "/data"
pytestmark = pytest.mark.row("U3")


@pytest.fixture
def disk():
    return SimDisk()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(disk, clock):
    with logstore.open(ROOT, files=disk, clock=clock) as store:
        store.create_topic("flights", 3)
        yield store


def stage(store, content, *, query="q", batch=0, mode="exactly_once", attempt=0, stamp=None, **encoding):
    """A manifest of what is staged: for each (topic, partition) lists of records, a batch each."""
    files = []
    for place, batches in content.items():
        staged_file = begin(store, *place, query=query, batch=batch, attempt=attempt)
        for records in batches:
            first = None
            if mode == "replay":
                first, records = records
            encoder = Encoder().begin(
                timestamp_ms=store._host.clock.now_ms() if stamp is None else stamp, **encoding
            )
            encoder.add_all(records)
            staged_file.write(encoder.finish(), base_offset=first)
        files.append(staged_file.close())
    return Manifest(query, batch, mode, tuple(files))


def begin(store, topic, partition, *, query="q", batch=0, attempt=0):
    return StagedFileWriter.create(
        store.path,
        topic,
        store[topic].id,
        partition,
        query=query,
        batch=batch,
        attempt=attempt,
        files=store._host.files,
    )


def stage_bytes(store, data, *, batch_count=1, record_count=1, partition=0):
    """A manifest of a file with these bytes."""
    staged_file = begin(store, "flights", partition)
    staged_file._file.write(data, 0)
    staged_file._file.close()
    told = staged_file._staged._replace(size=len(data), batch_count=batch_count, record_count=record_count)
    return Manifest("q", 0, "exactly_once", (told,))


def batches(store, partition=0):
    """Every batch of a partition, control batches too; one read does not cross segments or gaps."""
    log, offset, found = store["flights"][partition], 0, []
    while offset < log.log_end_offset:
        run = log.read(offset)
        found += run.batches()
        offset = run.next_offset
    return found


def committed(store, topic="flights"):
    """What committed readers see of each partition."""
    return [
        [record.value for record in store[topic][number].scan(isolation="read_committed")]
        for number in range(len(store[topic]))
    ]


F0, F1, F2 = ("flights", 0), ("flights", 1), ("flights", 2)


# -- what becomes visible


def test_a_batch_is_there_whole_in_every_partition(store):
    found = store._host.ingest(stage(store, {F0: [[b"a", b"b"], [b"c"]], F2: [[b"d"]]}))
    assert found == (False, {TopicPartition(*F0): (0, 2), TopicPartition(*F2): (0, 0)}, ())
    assert committed(store) == [[b"a", b"b", b"c"], [], [b"d"]]
    for number in range(3):
        log = store["flights"][number]
        assert log.last_stable_offset == log.log_end_offset == log.synced_end


def test_keys_times_headers_and_compression_are_kept(store, clock):
    records = [(b"k", b"v" * 500, clock.now_ms() - 5, [("h", b"1")]), (None, None, clock.now_ms(), [])]
    store._host.ingest(stage(store, {F0: [records]}, codec=Codec.ZSTD))
    (batch,) = store["flights"][0].read(0).batches()[:1]
    assert batch.codec is Codec.ZSTD
    assert batch.is_transactional
    assert batch.check().producer_id >= 1 << 62
    seen = [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in store["flights"][0].scan()]
    assert seen == records


def test_the_same_batch_is_taken_in_once(store):
    for attempt in range(3):
        found = store._host.ingest(stage(store, {F0: [[b"a"]]}, attempt=attempt))
        assert found.duplicate == (attempt > 0)
    assert committed(store)[0] == [b"a"]
    assert staged_names(store) == []


def test_an_older_batch_is_refused_and_a_newer_one_is_taken_in(store):
    store._host.ingest(stage(store, {F0: [[b"five"]]}, batch=5))
    with pytest.raises(OldBatchError, match="batch 5 is committed"):
        store._host.ingest(stage(store, {F0: [[b"four"]]}, batch=4))
    assert not store._host.ingest(stage(store, {F0: [[b"nine"]]}, batch=9)).duplicate
    assert committed(store)[0] == [b"five", b"nine"]


def test_queries_do_not_know_of_each_other(store):
    store._host.ingest(stage(store, {F0: [[b"q"]]}, query="q"))
    assert not store._host.ingest(stage(store, {F0: [[b"r"]]}, query="r")).duplicate
    ids = {batch.producer_id for batch in store["flights"][0].read(0).batches()}
    assert ids == {producer_id_of("q"), producer_id_of("r")}


def test_a_query_that_begins_is_told_of_the_writer_before_it(store, disk, clock):
    """As after its checkpoint was deleted: Spark then gives it another id."""
    store.create_topic("others")
    store._host.ingest(stage(store, {F0: [[b"a"]], F1: [[b"b"]]}, query="old"))
    store._host.ingest(stage(store, {F2: [[b"c"]]}, query="old", batch=1))
    store._host.ingest(stage(store, {("others", 0): [[b"d"]]}, query="elsewhere"))
    store._host.ingest(stage(store, {F0: [[b"e"]]}, query="job:nightly"))
    store.close()
    with logstore.open(ROOT, files=disk, clock=clock) as again:
        assert again._host.ingest(stage(again, {F1: [[b"b"]]}, query="new")).others == ("old",)
        assert again._host.ingest(stage(again, {F1: [[b"b"]]}, query="new", batch=1)).others == ()
        assert again._host.ingest(stage(again, {F1: [[b"b"]]}, query="job:hourly")).others == ()


def test_a_query_whose_first_try_failed_is_told_too(store, monkeypatch):
    store._host.ingest(stage(store, {F0: [[b"a"]]}, query="old"))
    with monkeypatch.context() as patch:
        patch.setattr(LogReplica, "append_run", broken)
        with pytest.raises(StorageError):
            store._host.ingest(stage(store, {F0: [[b"b"]]}, query="new"))
    assert store._host.ingest(stage(store, {F0: [[b"b"]]}, query="new", attempt=1)).others == ("old",)


def broken(*_arguments, **_keywords):
    raise StorageError("the disk refused")


def test_it_is_known_after_the_store_was_opened_again(store, disk, clock):
    store._host.ingest(stage(store, {F0: [[b"a"]]}))
    store.close()
    with logstore.open(ROOT, files=disk, clock=clock) as store:
        assert store._host.ingest(stage(store, {F0: [[b"a"]]})).duplicate
        assert committed(store)[0] == [b"a"]


def test_others_may_write_in_between(store):
    store["flights"].append(b"plain", partition=0)
    store._host.ingest(stage(store, {F0: [[b"a"]]}))
    store["flights"].append(b"plain", partition=0)
    store._host.ingest(stage(store, {F0: [[b"b"]]}, batch=1))
    assert committed(store)[0] == [b"plain", b"a", b"plain", b"b"]


def test_a_file_is_read_in_pieces_and_its_log_rolls_meanwhile(store, disk, clock, monkeypatch):
    monkeypatch.setattr(staged_reader.runs, "__defaults__", (700,))
    store.create_topic("small", 1, {"segment.bytes": 1000})
    values = [b"%d" % n * 20 for n in range(100)]
    store._host.ingest(stage(store, {("small", 0): [values[n : n + 5] for n in range(0, 100, 5)]}))
    assert committed(store, "small") == [values]
    assert store["small"][0].metrics().segment_count > 3
    sequences = [(b.base_sequence, b.record_count) for b in store["small"][0].read(0, max_bytes=1 << 20).batches()]
    assert [s for s, _ in sequences if s >= 0] == list(range(0, 100, 5))[: len([s for s, _ in sequences if s >= 0])]
    copy = disk.kill()
    with logstore.open(ROOT, files=copy, clock=clock) as again:
        assert committed(again, "small") == [values]


def test_a_batch_larger_than_a_piece_is_taken_in(store, monkeypatch):
    monkeypatch.setattr(staged_reader.runs, "__defaults__", (100,))
    store._host.ingest(stage(store, {F0: [[b"x" * 1000], [b"y"], [b"z" * 5000]]}))
    assert [len(value) for value in committed(store)[0]] == [1000, 1, 5000]


def test_a_large_file_becomes_a_segment_and_is_on_its_way_to_the_disk_before(store, disk):
    values = [bytes([n]) * 900_000 for n in range(20)]
    manifest = stage(store, {F0: [[value] for value in values]})
    assert disk.counts()["writeback"] == 2
    written = disk.counts()["pwrite"]
    store._host.ingest(manifest)
    # The headers, not the bytes behind them.
    assert disk.counts()["pwrite"] - written < 100
    assert committed(store)[0] == values
    assert staged_names(store) == []
    store.close()
    with logstore.open(ROOT, files=disk.crash("none")) as again:
        assert committed(again)[0] == values


def test_an_aborted_batch_is_seen_by_no_reader_and_its_epoch_is_never_used_again(store, monkeypatch):
    put = Sinks.put

    def fails(self, query, state, *, durable):
        if state.phase == "committing":
            monkeypatch.setattr(Sinks, "put", put)
            raise logstore.errors.DiskFullError("no room")
        put(self, query, state, durable=durable)

    monkeypatch.setattr(Sinks, "put", fails)
    with pytest.raises(logstore.errors.DiskFullError):
        store._host.ingest(stage(store, {F0: [[b"a"]], F1: [[b"b"]]}))
    assert committed(store) == [[], [], []]
    assert store["flights"][0].last_stable_offset == store["flights"][0].log_end_offset == 2
    store._host.ingest(stage(store, {F0: [[b"a"]], F1: [[b"b"]]}))
    assert committed(store) == [[b"a"], [b"b"], []]
    assert [batch.producer_epoch for batch in store["flights"][0].read(0).batches()] == [0, 0, 1, 1]


def test_at_least_once_leaves_no_trace_but_the_records(store):
    for _ in range(2):
        found = store._host.ingest(stage(store, {F0: [[b"a"]], F1: [[b"b"]]}, mode="at_least_once"))
        assert not found.duplicate
    assert committed(store) == [[b"a"] * 2, [b"b"] * 2, []]
    assert "__logstore_sinks" not in store
    assert staged_names(store) == []
    assert all(batch.producer_id == -1 for batch in store["flights"][0].read(0).batches())
    assert store["flights"][0].synced_end == 2


def test_a_log_that_gives_the_time_gives_it(store, clock):
    store.create_topic("timed", 1, {"message.timestamp.type": "LogAppendTime"})
    clock.advance(5000)
    for mode in ("exactly_once", "at_least_once"):
        store._host.ingest(
            stage(store, {("timed", 0): [[b"a"]]}, mode=mode, stamp=17, append_time=mode == "exactly_once")
        )
    assert {record.timestamp_ms for record in store["timed"][0].scan()} == {clock.now_ms()}
    for batch in store["timed"][0].read(0).batches():
        batch.check()


def test_compacted_topics_take_batches_with_keys(store):
    store.create_topic("table", 1, {"cleanup.policy": "compact"})
    store._host.ingest(stage(store, {("table", 0): [[(b"k", b"v")]]}))
    assert committed(store, "table") == [[b"v"]]


def test_logs_whose_offsets_are_positions_take_batches(store):
    store.create_topic("placed", 1, {"logstore.offset.mode": "bytes"})
    store._host.ingest(stage(store, {("placed", 0): [[b"a", b"b"], [b"c"]]}))
    assert committed(store, "placed") == [[b"a", b"b", b"c"]]


def test_a_job_is_forgotten_after_some_days_and_a_query_never(store, clock):
    store._host.ingest(stage(store, {F0: [[b"a"]]}, query="job:1"))
    store._host.ingest(stage(store, {F0: [[b"b"]]}, query="q"))
    assert store._host.ingest(stage(store, {F0: [[b"a"]]}, query="job:1")).duplicate
    clock.advance(commit_log.JOB_RETENTION_MS + 1)
    store._host.ingest(stage(store, {F0: [[b"c"]]}, query="q", batch=1))
    newest = {record.key: record.value for record in store["__logstore_sinks"][0].scan()}
    assert newest[b"job:1"] is None
    assert store._host.ingest(stage(store, {F0: [[b"c"]]}, query="q", batch=1)).duplicate


def test_an_empty_manifest_changes_nothing(store, disk):
    before = disk.image(ROOT)
    assert store._host.ingest(Manifest("q", 0, "exactly_once", ())) == (False, {}, ())
    assert disk.image(ROOT) == before


def test_files_without_records_are_passed_over(store):
    manifest = stage(store, {F0: [[b"a"]], F1: []})
    assert store._host.ingest(manifest).offsets == {TopicPartition(*F0): (0, 0)}
    assert store["flights"][1].log_end_offset == 0
    assert staged_names(store) == []


# -- what is refused


def refuse(store, disk, manifest, error, match):
    """The manifest is refused, by name, and nothing at all has changed."""
    for number in range(len(store["flights"])):
        # Opening a log writes its first files.
        store["flights"][number]
    before = disk.image(ROOT)
    with pytest.raises(error, match=match):
        store._host.ingest(manifest)
    assert disk.image(ROOT) == before


def test_a_topic_that_is_not_there_or_not_the_same(store, disk):
    manifest = stage(store, {F0: [[b"a"]]})
    file = manifest.files[0]
    gone = manifest._replace(files=(file._replace(topic="gone"),))
    refuse(store, disk, gone, UnknownTopicError, "topic 'gone' does not exist")
    another = manifest._replace(files=(file._replace(topic_id="another"),))
    refuse(store, disk, another, UnknownTopicError, "another of this name")
    beyond = manifest._replace(files=(file, file._replace(partition=7)))
    refuse(store, disk, beyond, UnknownPartitionError, "partitions 0 to 2")


def test_a_topic_made_again_does_not_get_what_was_meant_for_the_old_one(store, disk):
    manifest = stage(store, {F0: [[b"a"]]})
    store.delete_topic("flights")
    store.create_topic("flights", 3)
    refuse(store, disk, manifest, UnknownTopicError, "another of this name")


def test_a_file_that_is_missing_or_of_another_size(store, disk):
    manifest = stage(store, {F0: [[b"a"]], F1: [[b"b"]]})
    file = manifest.files[1]
    refuse(
        store, disk, with_file(manifest, file._replace(size=file.size + 1)), StagedFileError, "its manifest says"
    )
    counts = file._replace(record_count=2)
    refuse(store, disk, with_file(manifest, counts), StagedFileError, "1 batches with 1 records")
    counts = file._replace(batch_count=2)
    refuse(store, disk, with_file(manifest, counts), StagedFileError, "1 batches with 1 records")
    missing = file._replace(name=file.name[:-1] + ("0" if file.name[-1] != "0" else "1"))
    refuse(store, disk, with_file(manifest, missing), StagedFileError, "is missing")


def with_file(manifest, file):
    return manifest._replace(files=(*manifest.files[:-1], file))


def test_every_flipped_bit_of_a_staged_file_is_found(store, disk):
    data = bytearray(encode([b"a" * 10], timestamp_ms=store._host.clock.now_ms()))
    manifest = stage_bytes(store, data)
    path = f"{ROOT}/flights-0/.staging/{manifest.files[0].name}"
    outside_crc = (*range(8), *range(12, 16))
    for position in range(len(data)):
        for bit in (0, 7):
            disk.flip(path, position * 8 + bit)
            if position in outside_crc[8:]:
                # The leader epoch is the log's to set.
                disk.flip(path, position * 8 + bit)
                continue
            with pytest.raises(
                (
                    CorruptRecordError,
                    InvalidRecordError,
                    RecordTooLargeError,
                    StagedFileError,
                    logstore.errors.UnsupportedFormatError,
                )
            ):
                store._host.ingest(manifest)
            disk.flip(path, position * 8 + bit)
    store._host.ingest(manifest)
    assert committed(store)[0] == [b"a" * 10]


def test_batches_that_no_task_may_stage(store, disk):
    now = store._host.clock.now_ms()
    cases = [
        (encode([b"a"], timestamp_ms=now, producer_id=5, producer_epoch=0, base_sequence=0), InvalidRecordError),
        (
            encode([b"a"], timestamp_ms=now, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
            InvalidRecordError,
        ),
        (encode_marker(1, 0, 5, 0, now), InvalidRecordError),
        (encode([b"a"], timestamp_ms=now, append_time=True), InvalidRecordError),
        (encode([b"a" * 2_000_000], timestamp_ms=now), RecordTooLargeError),
        (encode([b"a"], timestamp_ms=now)[:-1], StagedFileError),
        (encode([b"a"], timestamp_ms=now) + b"x" * 20, StagedFileError),
        (encode([b"a"], timestamp_ms=now) + bytes(70), CorruptRecordError),
    ]
    for data, error in cases:
        manifest = stage_bytes(store, data)
        refuse(store, disk, manifest, error, "flights-0|staged")
        sweep(ROOT, "q", 0, files=disk, clock=store._host.clock)


def test_what_the_settings_of_the_topic_forbid(store, disk, clock):
    store.create_topic("table", 1, {"cleanup.policy": "compact"})
    store["table"][0]
    manifest = stage(store, {("table", 0): [[(b"k", b"v")], [(None, b"v")]]})
    refuse(store, disk, manifest, InvalidRecordError, "without key")
    store.create_topic("recent", 1, {"message.timestamp.before.max.ms": 1000})
    store["recent"][0]
    manifest = stage(store, {("recent", 0): [[b"v"]]}, stamp=clock.now_ms() - 1001)
    refuse(store, disk, manifest, InvalidTimestampError, "message.timestamp.before.max.ms")
    store.create_topic("brief", 1, {"max.message.bytes": 100})
    store["brief"][0]
    refuse(store, disk, stage(store, {("brief", 0): [[b"v" * 100]]}), RecordTooLargeError, "max.message.bytes")


def test_one_bad_file_of_many_keeps_all_out(store, disk):
    good = stage(store, {F0: [[b"a"]], F1: [[b"b"]]})
    bad = stage_bytes(store, encode([b"c"], timestamp_ms=0)[:-1] + b"?", partition=2)
    refuse(store, disk, good._replace(files=good.files + bad.files), CorruptRecordError, "flights-2.*position 0")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../../flights-1/00000000000000000000.log"},
        {"name": "../logstore.recovery"},
        {"name": "/etc/passwd"},
        {"name": ""},
        {"name": None},
        {"name": "0" * 32 + ".0.0." + "0" * 16},
        {"topic": "../x"},
        {"topic": "__logstore_sinks"},
        {"topic": "__consumer_offsets"},
        {"topic": None},
        {"topic_id": None},
        {"partition": -1},
        {"partition": "0/../flights-1"},
        {"partition": True},
        {"size": -1},
        {"record_count": 1.5},
    ],
)
def test_a_manifest_that_leads_elsewhere(store, disk, changes):
    manifest = stage(store, {F0: [[b"a"]]})
    forged = manifest._replace(files=(manifest.files[0]._replace(**changes),))
    refuse(store, disk, forged, (InvalidManifestError, InvalidTopicError), ".")
    with pytest.raises((InvalidManifestError, InvalidTopicError)):
        Manifest.from_json(forged.to_json())


@pytest.mark.parametrize(
    "changes",
    [
        {"query": ""},
        {"query": "x" * 2000},
        {"query": 5},
        {"query": "\ud800"},
        {"batch": -1},
        {"batch": 2**63},
        {"batch": True},
        {"mode": "twice"},
        {"mode": None},
    ],
)
def test_a_manifest_that_breaks_a_rule_of_its_own(store, disk, changes):
    refuse(store, disk, stage(store, {F0: [[b"a"]]})._replace(**changes), InvalidManifestError, ".")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"version": 2}',
        "[" * 100_000,
        '{"version": 1, "query": "q", "batch": 0, "mode": "replay", "files": [[]]}',
    ],
)
def test_a_text_that_is_no_manifest(text):
    with pytest.raises(InvalidManifestError):
        Manifest.from_json(text)


def test_a_manifest_comes_back_from_its_text(store):
    manifest = stage(store, {F0: [[b"a"]], F1: [[b"b"]]}, query="job:ü")
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert json.loads(manifest.to_json())["version"] == 1


def test_the_same_file_twice(store, disk):
    manifest = stage(store, {F0: [[b"a"]]})
    refuse(store, disk, manifest._replace(files=manifest.files * 2), InvalidManifestError, "listed twice")


def test_a_store_that_is_read_only_takes_nothing_in(store, disk, clock):
    manifest = stage(store, {F0: [[b"a"]]})
    with logstore.open(ROOT, files=disk, clock=clock, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader._host.ingest(manifest)


# -- replays


def test_a_replay_keeps_offsets_times_and_headers(store, clock):
    old = clock.now_ms() - 10**10
    records = [(b"k", b"a", old, [("h", None)]), (None, b"b", old + 1, [])]
    found = store._host.ingest(
        stage(store, {F0: [(100, records), (500, [b"c"])], F1: [(0, [b"d"])]}, mode="replay")
    )
    assert found.offsets == {TopicPartition(*F0): (100, 500), TopicPartition(*F1): (0, 0)}
    log = store["flights"][0]
    assert [(r.offset, r.value) for r in log.scan()] == [(100, b"a"), (101, b"b"), (500, b"c")]
    assert (log.log_start_offset, log.log_end_offset, log.synced_end) == (100, 501, 501)
    assert [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in log.scan(100, 102)] == records
    assert {batch.leader_epoch for batch in log.read(100).batches()} == {log.replica.leader_epoch}


def test_files_of_a_replay_are_merged_by_their_offsets(store):
    evens = stage(store, {F0: [(0, [b"0", b"1"]), (4, [b"4", b"5"])]}, mode="replay")
    odds = stage(store, {F0: [(2, [b"2", b"3"]), (6, [b"6"])]}, mode="replay")
    store._host.ingest(evens._replace(files=odds.files + evens.files))
    assert committed(store)[0] == [b"%d" % n for n in range(7)]


def test_a_replay_goes_on_where_another_ended(store):
    for batch, first in enumerate((0, 3, 9)):
        store._host.ingest(stage(store, {F0: [(first, [b"x"] * 3)]}, batch=batch, mode="replay"))
    assert [record.offset for record in store["flights"][0].scan()] == [0, 1, 2, 3, 4, 5, 9, 10, 11]
    assert store._host.ingest(stage(store, {F0: [(9, [b"x"] * 3)]}, batch=2, mode="replay")).duplicate


def test_what_is_there_is_passed_over_however_it_is_cut(store):
    store._host.ingest(stage(store, {F0: [(5, [b"5", b"6", b"7"])]}, query="a", mode="replay"))
    again = {F0: [(5, [b"5"]), (6, [b"6", b"7", b"8"]), (20, [b"20"])]}
    assert not store._host.ingest(stage(store, again, query="b", mode="replay")).duplicate
    assert [(r.offset, r.value) for r in store["flights"][0].scan()] == [
        (5, b"5"),
        (6, b"6"),
        (7, b"7"),
        (8, b"8"),
        (20, b"20"),
    ]


@pytest.mark.parametrize("content", [[(1, [b"another"])], [(0, [b"a", b"b", b"another"])], [(7, [b"d"])]])
def test_a_replay_over_other_records_is_refused(store, disk, content):
    store._host.ingest(stage(store, {F0: [(0, [b"a", b"b", b"c"]), (8, [b"e"])]}, query="a", mode="replay"))
    manifest = stage(store, {F0: content, F1: [(0, [b"x"])]}, query="b", mode="replay")
    refuse(store, disk, manifest, UnexpectedOffsetError, "another record, or none")


def test_the_parts_of_an_archive_in_the_wrong_order_are_refused(store, disk):
    """Anything below the log start was never here: to pass over it would lose it without a word."""
    store._host.ingest(stage(store, {F0: [(500, [b"x"] * 3)]}, batch=0, mode="replay"))
    manifest = stage(store, {F0: [(0, [b"older"] * 5)]}, batch=1, mode="replay")
    refuse(store, disk, manifest, UnexpectedOffsetError, "begins at offset 500, .*the oldest first")


def test_in_a_compacted_topic_only_what_a_compaction_went_over_may_be_missing(store, clock):
    name, place = "newest", ("newest", 0)
    store.create_topic(name, 1, {"cleanup.policy": "compact"})
    records = [(b"k", b"0"), (b"k", b"1"), (b"k", b"2")]
    store._host.ingest(stage(store, {place: [(0, records[:2]), (9, records[2:])]}, batch=0, mode="replay"))
    missing = stage(store, {place: [(4, [(b"other", b"x")])]}, batch=1, mode="replay")
    with pytest.raises(UnexpectedOffsetError, match="or none"):
        store._host.ingest(missing)
    log = store[name][0]
    log.maintenance.roll()
    log.maintenance.compact()
    assert committed(store, name) == [[b"2"]]
    again = stage(store, {place: [(0, records[:2]), (9, records[2:])]}, query="again", mode="replay")
    assert not store._host.ingest(again).duplicate
    assert committed(store, name) == [[b"2"]]


def test_a_writer_during_a_replay_does_not_take_the_place_of_its_records(store, monkeypatch):
    append = Restore.append

    def late(self):
        store["flights"].append(b"another writer's", partition=0)
        return append(self)

    monkeypatch.setattr(Restore, "append", late)
    manifest = stage(store, {F0: [(0, [b"a", b"b"])]}, mode="replay")
    with pytest.raises(UnexpectedOffsetError):
        store._host.ingest(manifest)
    assert not store._host.ingest(stage(store, {F1: [[b"next"]]}, batch=0)).duplicate


def test_batches_of_a_replay_that_overlap_are_named(store, disk):
    one = stage(store, {F0: [(0, [b"a"] * 5)]}, mode="replay")
    other = stage(store, {F0: [(4, [b"a"] * 5)]}, mode="replay")
    both = one._replace(files=one.files + other.files)
    refuse(
        store, disk, both, InvalidManifestError, f"0 to 4 in {one.files[0].name}, 4 to 8 in {other.files[0].name}"
    )
    back = stage(store, {F0: [(9, [b"a"]), (3, [b"a"])]}, mode="replay")
    refuse(store, disk, back, InvalidRecordError, "begins at offset 3, the one before it ends at 9")


def test_a_query_may_go_from_replay_to_exactly_once_and_back(store):
    store._host.ingest(stage(store, {F0: [(0, [b"a"])]}, batch=0, mode="replay"))
    store._host.ingest(stage(store, {F0: [[b"b"]]}, batch=1))
    store._host.ingest(stage(store, {F0: [(9, [b"c"])]}, batch=2, mode="replay"))
    store._host.ingest(stage(store, {F0: [[b"d"]]}, batch=3))
    assert committed(store)[0] == [b"a", b"b", b"c", b"d"]
    assert [b.producer_epoch for b in batches(store)] == [-1, 0, 0, -1, 1, 1]


# -- staged files


def staged_names(store):
    return [path for path in store._host.files.image(ROOT) if "/.staging/" in path]


def test_a_staged_file_that_is_abandoned_is_gone(store):
    with begin(store, *F0) as staged_file:
        staged_file.write(Encoder().begin(timestamp_ms=0).finish())
        staged_file.abandon()
    with pytest.raises(ZeroDivisionError), begin(store, *F0):
        1 / 0  # noqa: B018
    assert staged_names(store) == []
    with pytest.raises(LogClosedError):
        staged_file.close()


def test_a_staged_file_whose_sync_has_failed_is_no_part_of_a_manifest(store, disk):
    """A full table of descriptors syncs files to close them, and the kernel tells of a failure once."""
    staged_file = begin(store, "flights", 0)
    staged_file.write(one_encoder([b"a"]))
    disk.fail("fdatasync", 1, errno=errno.EIO)
    with pytest.raises(StorageError):
        staged_file._file.sync()
    disk.heal()
    with pytest.raises(StorageFailedError, match="stage it again"):
        staged_file.close()
    staged_file.abandon()
    assert staged_names(store) == []


def one_encoder(values):
    encoder = Encoder().begin(timestamp_ms=0)
    encoder.add_all(values)
    return encoder.finish()


def test_a_partition_that_is_not_there_is_not_made_by_staging(store):
    with pytest.raises(UnknownTopicError, match="flights-9"):
        StagedFileWriter.create(ROOT, "flights", "id", 9, query="q", batch=0, attempt=0, files=store._host.files)
    assert not [path for path in store._host.files.image(ROOT) if "flights-9" in path]


@pytest.mark.parametrize(
    "changes", [{"topic": "../x"}, {"topic": "__logstore_sinks"}, {"attempt": "../x"}, {"query": ""}, {"batch": -1}]
)
def test_names_of_staged_files_lead_nowhere_else(store, changes):
    given = {"topic": "flights", "attempt": 0, "query": "q", "batch": 0, **changes}
    with pytest.raises((InvalidTopicError, InvalidManifestError)):
        StagedFileWriter.create(ROOT, given.pop("topic"), "id", 0, **given, files=store._host.files)


def test_a_sweep_takes_what_is_over_and_what_is_stale(tmp_path, clock):
    store = logstore.open(tmp_path, clock=clock)
    store.create_topic("flights", 2)

    def staged_names(store):
        return sorted(tmp_path.glob("*/.staging/*"))

    for query, batch in (("q", 1), ("q", 2), ("q", 3), ("r", 1)):
        stage(store, {F0: [[b"a"]], F1: [[b"b"]]}, query=query, batch=batch)
    assert sweep(tmp_path, "q", 2) == 4
    assert sweep(tmp_path, "nobody", 9) == 0
    assert len(staged_names(store)) == 4
    late = ManualClock(SYSTEM_CLOCK.now_ms() + staged_writer.STALE_MS + 1)
    assert sweep(tmp_path, "nobody", -1, clock=late) == 4
    assert staged_names(store) == []
    store.close()


def test_the_files_of_attempts_that_were_lost_go_with_their_batch(store):
    stage(store, {F0: [[b"lost"]]}, attempt=0)
    store._host.ingest(stage(store, {F0: [[b"a"]]}, attempt=1))
    assert staged_names(store) == []


def test_a_log_with_staged_files_opens_and_goes_with_its_topic(store, disk, clock):
    stage(store, {F0: [[b"a"]]})
    store.close()
    with logstore.Log.open(f"{ROOT}/flights-0", files=disk, clock=clock) as log:
        log.append([b"one"])
    with logstore.open(ROOT, files=disk, clock=clock) as again:
        again.delete_topic("flights")
        assert not [path for path in disk.image(ROOT) if "flights" in path]


# -- the topic of the store's own


def test_the_topic_of_sinks_is_internal_compacted_and_kept(store):
    store._host.ingest(stage(store, {F0: [[b"a"]]}))
    assert store.topics() == ["flights"]
    assert store.topics(internal=True) == ["__logstore_sinks", "flights"]
    assert store["__logstore_sinks"].config.compacts
    for attempt in (
        lambda: store.delete_topic("__logstore_sinks"),
        lambda: store.alter_topic("__logstore_sinks", {"cleanup.policy": "delete"}),
    ):
        with pytest.raises(PolicyViolationError):
            attempt()
    with pytest.raises(InvalidTopicError):
        store["__logstore_sinks"].append(b"x", b"k")


def test_it_stays_small_without_maintenance_tasks(store, monkeypatch):
    monkeypatch.setattr(commit_log, "_TIDY_BYTES", 4000)
    for batch in range(60):
        store._host.ingest(stage(store, {F0: [[b"%d" % batch]]}, batch=batch))
        assert store["__logstore_sinks"][0].maintenance.size < 8000
    assert store._host.ingest(stage(store, {F0: [[b"x"]]}, batch=59)).duplicate


def test_a_checkpoint_that_was_restored_from_a_copy_is_told(store):
    for batch in (0, 1):
        store._host.ingest(stage(store, {F0: [[b"a"]]}, batch=batch))
    assert store._host.ingest(stage(store, {F0: [[b"a"]]}, batch=1)).duplicate
    with pytest.raises(OldBatchError, match="checkpoint had been restored from a copy"):
        store._host.ingest(stage(store, {F0: [[b"b"]]}, batch=0))
    assert committed(store)[0] == [b"a", b"a"]


def test_a_batch_that_is_decided_is_no_error_though_its_markers_are_late(store, monkeypatch):
    def fails(*_args, **_kwargs):
        raise DiskFullError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(LogReplica, "append_control", fails)
        assert not store._host.ingest(stage(store, {F0: [[b"a"]]})).duplicate
    assert committed(store)[0] == []
    assert store._host.ingest(stage(store, {F0: [[b"a"]]})).duplicate
    assert committed(store)[0] == [b"a"]


def test_a_log_that_takes_no_marker_does_not_keep_the_readers_of_others_waiting(store, monkeypatch):
    honest = LogReplica.append_control

    def fails(self, *args, **options):
        if self.log.name.partition == 0:
            raise DiskFullError("planted")
        return honest(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(LogReplica, "append_control", fails)
        store._host.ingest(stage(store, {F0: [[b"a"]], F1: [[b"b"]], F2: [[b"c"]]}))
    assert committed(store) == [[], [b"b"], [b"c"]]
    assert store._host.ingest(stage(store, {F0: [[b"a"]], F1: [[b"b"]], F2: [[b"c"]]})).duplicate
    assert committed(store) == [[b"a"], [b"b"], [b"c"]]


def test_records_of_many_days_do_not_roll_a_segment_for_each_run(store):
    days = [[(None, b"x" * 900_000, 2 * 86_400_000 * number, None)] for number in range(8)]
    store._host.ingest(stage(store, {F0: days}))
    # With segment.ms at seven days; by the newest record of the whole file it would be one for each run.
    assert store["flights"][0].maintenance.segment_count <= 3


def test_in_a_rebuilt_catalogue_what_is_in_is_kept_for_ever_nevertheless(store, disk, clock):
    store._host.ingest(stage(store, {F0: [[b"a"]]}))
    store.close()
    disk.unlink(f"{ROOT}/logstore.topics")
    logstore.rebuild(ROOT, files=disk, clock=clock)
    with logstore.open(ROOT, files=disk, clock=clock) as store:
        config = store["__logstore_sinks"].config
        assert (config.compacts, config.deletes) == (True, False)
        assert store["__logstore_sinks"][0].maintenance.config.compacts
        assert store._host.ingest(stage(store, {F0: [[b"a"]]})).duplicate


def test_a_record_that_is_no_state_is_named_and_nothing_is_taken_in(store, disk, clock):
    store._host.ingest(stage(store, {F0: [[b"a"]]}))
    store["__logstore_sinks"][0].append([(b"q", b"{}")])
    store.close()
    with logstore.open(ROOT, files=disk, clock=clock) as again:
        with pytest.raises(CorruptRecordError, match=r"no state of a sink.*offset 3"):
            again._host.ingest(stage(again, {F0: [[b"b"]]}, batch=1))
        assert committed(again)[0] == [b"a"]


def test_producers_of_queries_are_told_apart_also_where_their_ids_collide(store, monkeypatch):
    monkeypatch.setattr(commit_log, "producer_id_of", lambda query, attempt=0: (1 << 62) + attempt)
    for query in ("a", "b", "c"):
        store._host.ingest(stage(store, {F0: [[query.encode()]]}, query=query))
    ids = [batch.producer_id - (1 << 62) for batch in store["flights"][0].read(0).batches()]
    assert ids == [0, 0, 1, 1, 2, 2]


def test_a_producer_begins_again_when_its_epochs_are_used_up(store, monkeypatch):
    monkeypatch.setattr(commit_log, "LAST_EPOCH", 2)
    for batch in range(7):
        store._host.ingest(stage(store, {F0: [[b"%d" % batch]]}, batch=batch))
    assert committed(store)[0] == [b"%d" % batch for batch in range(7)]
    pairs = [(b.producer_id, b.producer_epoch) for b in store["flights"][0].read(0).batches() if not b.is_control]
    assert len(set(pairs)) == 7
    assert len({producer for producer, _ in pairs}) == 3


def test_a_state_comes_back_from_its_bytes():
    state = SinkState(4, 1 << 62, 3, 5, "intent", 7, (commit_log.Share("t", "id", 0, 10, 20),))
    assert SinkState.of_bytes(state.to_bytes()) == state
    for data in (b"", b"null", b"{}", state.to_bytes().replace(b"intent", b"unheard"), b"[1]"):
        with pytest.raises(CorruptRecordError):
            SinkState.of_bytes(data)


def test_a_snapshot_of_the_store_knows_what_it_holds(store, disk, clock):
    store._host.ingest(stage(store, {F0: [[b"a"]]}))
    store.snapshot("/copy")
    store._host.ingest(stage(store, {F0: [[b"b"]]}, batch=1))
    with logstore.open("/copy", files=disk, clock=clock) as copy:
        assert copy._host.ingest(stage(copy, {F0: [[b"a"]]})).duplicate
        assert not copy._host.ingest(stage(copy, {F0: [[b"b"]]}, batch=1)).duplicate
        assert committed(copy)[0] == [b"a", b"b"]
