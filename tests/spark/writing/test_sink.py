"""The sink as plain objects, driven as Spark drives it: attempts fail, batches come again, commits fail."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import logstore
from logstore.errors import (
    InvalidRecordError,
    LogstoreError,
    NotALogError,
    OwnerTimeoutError,
    RecordTooLargeError,
    SparkColumnsError,
    SparkOptionError,
    UnknownTopicError,
)
from logstore.records import Codec
from tests.spark import sinks

pytestmark = pytest.mark.row("D5")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with the topics ``t`` and ``u``, 3 and 1 partitions."""
    with logstore.open(tmp_path / "store", environ={}) as store:
        store.create_topic("t", partitions=3)
        store.create_topic("u", partitions=1)
    return tmp_path / "store"


def stream(root: Path, **options: Any) -> sinks.Query:
    return sinks.Query(root, **{"topic": "t", **options})


# --- a stream


@pytest.mark.row("U3")
def test_batches_of_a_stream_are_in_the_topic_once(root: Path) -> None:
    query = stream(root)
    for batch in range(3):
        query.run(batch)
    assert sinks.values_in(root, "t") == sorted(query.expected(range(3)))
    assert sinks.staged_in(root) == []


@pytest.mark.row("U3")
def test_a_batch_that_comes_again_is_dropped(root: Path) -> None:
    query = stream(root)
    query.run(0)
    query.run(1)
    # Spark was killed before it wrote down that batch 1 is done.
    query.run(1)
    query.run(2)
    assert sinks.values_in(root, "t") == sorted(query.expected(range(3)))
    assert sinks.staged_in(root) == []


@pytest.mark.row("U3")
def test_only_the_attempts_that_succeeded_count(root: Path) -> None:
    query = stream(root)
    lost = query.write(0, task=0, attempt=0)
    messages = [query.write(0, task=0, attempt=1), query.write(0, task=1)]
    assert len({file.name for message in [lost, *messages] for file in message.files}) == 9
    query.commit(messages, 0)
    assert sinks.values_in(root, "t") == sorted(query.expected([0]))
    # What the lost attempt has staged went with the commit.
    assert sinks.staged_in(root) == []


@pytest.mark.row("U3")
def test_queries_do_not_know_each_other(root: Path) -> None:
    one, other = stream(root, query="one"), stream(root, query="other")
    for batch in range(2):
        messages = [one.write(batch, task) for task in range(2)]
        other.run(batch)
        one.commit(messages, batch)
    assert sinks.values_in(root, "t") == sorted([*one.expected(range(2)), *other.expected(range(2))])


def test_a_query_that_begins_where_another_has_written_warns_by_name(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Spark does after a checkpoint was deleted: under another id it writes everything a second time."""
    first, second = stream(root, query="first"), stream(root, query="second")
    first.run(0)
    assert "begins to write" not in caplog.text
    second.run(0)
    assert "query second begins to write where first has written before" in caplog.text
    caplog.clear()
    second.run(1)
    first.run(1)
    assert "begins to write" not in caplog.text


def test_an_abort_removes_what_was_staged_and_the_batch_may_come_again(root: Path) -> None:
    query = stream(root)
    message = query.write(0, task=0)
    assert len(sinks.staged_in(root)) == 3
    query.abort([message, None], 0)
    assert sinks.staged_in(root) == []
    assert sinks.values_in(root, "t") == []
    query.run(0)
    assert sinks.values_in(root, "t") == sorted(query.expected([0]))


def test_a_commit_that_failed_is_repeated_with_the_same_batch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logstore.store.commit import ingest

    query = stream(root)
    query.run(0)
    with monkeypatch.context() as context:
        context.setattr(ingest.Ingest, "_append", sinks.failing(LogstoreError("no room")))
        messages = [query.write(1, task) for task in range(2)]
        with pytest.raises(LogstoreError, match="no room"):
            query.commit(messages, 1)
        query.abort(messages, 1)
    assert sinks.values_in(root, "t") == sorted(query.expected([0]))
    query.run(1)
    assert sinks.values_in(root, "t") == sorted(query.expected(range(2)))


def test_a_batch_without_rows_touches_nothing(root: Path) -> None:
    query = stream(root, rows=0)
    before = sorted(path for path in root.rglob("*"))
    query.run(0)
    query.abort([query.write(1, 0)], 1)
    assert sorted(path for path in root.rglob("*")) == before
    query.commit([], 2)


def test_readers_see_all_of_a_batch_or_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logstore.store.commit import ingest

    seen: list[int] = []
    whole = ingest.Ingest._append

    def watched(self: Any, *arguments: Any) -> Any:
        result = whole(self, *arguments)
        seen.append(len(sinks.values_in(root, "t")))
        return result

    monkeypatch.setattr(ingest.Ingest, "_append", watched)
    query = stream(root)
    query.run(0)
    assert seen == [0]
    assert len(sinks.values_in(root, "t")) == len(query.expected([0]))


def test_at_least_once_appends_what_comes(root: Path) -> None:
    query = stream(root, exactlyonce="false")
    query.run(0)
    query.run(0)
    assert sinks.values_in(root, "t") == sorted(query.expected([0]) * 2)
    with logstore.open(root, environ={}) as store:
        assert store.topics(internal=True) == ["t", "u"]


def test_rows_name_their_topics(root: Path) -> None:
    query = stream(root, topic=None)
    rows = pa.record_batch({"topic": ["t", "u", "t"], "value": [b"1", b"2", b"3"]})
    query.commit([query.write_rows([rows], 0)], 0)
    assert sinks.values_in(root, "t") == [b"1", b"3"]
    assert sinks.values_in(root, "u") == [b"2"]


@pytest.mark.parametrize("option", ["compression", "kafka.compression.type"])
def test_the_writer_may_choose_the_codec(root: Path, option: str) -> None:
    query = stream(root, topic="u", **{option: "zstd"})
    query.run(0)
    with logstore.open(root, environ={}) as store:
        views = list(store.topic("u")[0].read(0).batches())
    assert {view.codec for view in views if not view.is_control} == {Codec.ZSTD}


# --- a batch job


def test_a_job_is_committed_by_the_writer_that_was_pickled(root: Path) -> None:
    job = sinks.Job(root, topic="t")
    messages = [job.write(task) for task in range(2)]
    job.commit(messages)
    # As often as it is run.
    again = sinks.Job(root, topic="t")
    again.commit([again.write(0)])
    assert sinks.values_in(root, "t") == sorted([*job.expected(range(2)), *job.expected([0])])
    assert sinks.staged_in(root) == []


def test_a_job_that_is_aborted_leaves_nothing(root: Path) -> None:
    job = sinks.Job(root, topic="t")
    job.abort([job.write(0), None])
    assert sinks.values_in(root, "t") == []
    assert sinks.staged_in(root) == []


def test_a_lost_attempt_of_a_job_goes_with_its_commit(root: Path) -> None:
    job = sinks.Job(root, topic="t")
    job.write(0)
    job.commit([job.write(0, attempt=1)])
    assert sinks.values_in(root, "t") == sorted(job.expected([0]))
    assert sinks.staged_in(root) == []


# --- a replay


def archived(root: Path, topic: str) -> list[Any]:
    with logstore.open(root, read_only=True, environ={}) as store:
        return sorted(
            (record.partition, record.offset, record.timestamp_ms, record.key, record.value, tuple(record.headers))
            for record in store.topic(topic).scan(isolation="read_committed")
        )


def replayed(records: list[Any]) -> pa.RecordBatch:
    """What an archive of a topic holds."""
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = list(zip(*records, strict=True))
    return pa.record_batch(
        {
            "topic": ["t"] * len(records),
            "partition": pa.array(columns[0], pa.int32()),
            "offset": pa.array(columns[1], pa.int64()),
            "timestamp": pa.array([ms * 1000 for ms in columns[2]], pa.timestamp("us", "UTC")),
            "key": pa.array(columns[3], pa.binary()),
            "value": pa.array(columns[4], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in pairs] for pairs in columns[5]], headers),
        }
    )


@pytest.mark.row("U13")
def test_what_was_read_is_restored_with_offsets_times_and_headers(root: Path, tmp_path: Path) -> None:
    query = stream(root)
    for batch in range(3):
        query.run(batch)  # its markers leave gaps between offsets
    with logstore.open(root, environ={}) as store:
        store.topic("t").append(b"v", key=b"k", timestamp=1_000, headers=[("h", b"1"), ("n", None)])
    records = archived(root, "t")
    restored = tmp_path / "restored"
    with logstore.open(restored, environ={}) as store:
        store.create_topic("t", partitions=3)
    again = sinks.Query(restored, replay="true")
    again.columns = sinks.schema(
        topic="string", partition="int", offset="bigint", timestamp="timestamp", key="binary", value="binary"
    )
    third = len(records) // 3
    for batch, part in enumerate([records[:third], records[third:]]):
        messages = [again.write_rows([replayed(part)], batch)]
        again.commit(messages, batch)
    # Killed before Spark wrote down that the last batch is done, which therefore comes again.
    again.commit([again.write_rows([replayed(records[third:])], 1)], 1)
    assert archived(restored, "t") == records
    assert sinks.staged_in(restored) == []


# --- a process that has the store open for writing


def test_the_process_that_writes_the_store_takes_batches_in(root: Path) -> None:
    query = stream(root)
    with owner_of(root, "thread") as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        try:
            query.run(0)
            query.run(0)
            assert sinks.values_in(root, "t") == sorted(query.expected([0]))
        finally:
            owner.kill()
    query.run(1)
    assert sinks.values_in(root, "t") == sorted(query.expected(range(2)))


def test_a_process_that_does_not_answer_is_named_and_nothing_is_changed(root: Path) -> None:
    query = stream(root, committimeout="300ms")
    with owner_of(root, "manual") as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        try:
            messages = [query.write(0, task) for task in range(2)]
            with pytest.raises(OwnerTimeoutError, match=rf"pid {owner.pid}\b.*within 0.3 s.*bootstrap"):
                query.commit(messages, 0)
            query.abort(messages, 0)
            assert sinks.staged_in(root) == []
        finally:
            owner.kill()
    query.run(0)
    assert sinks.values_in(root, "t") == sorted(query.expected([0]))


def test_settings_of_the_store_hold_where_no_process_has_it_open(root: Path, tmp_path: Path) -> None:
    """A budget that the batch does not fit into: it is refused, and is in once there is room."""
    settings = tmp_path / "store.properties"
    settings.write_text("logstore.disk.budget=1\n")
    query = stream(root, settings=str(settings))
    messages = [query.write(0, task) for task in range(2)]
    with pytest.raises(LogstoreError, match=r"logstore\.disk\.budget"):
        query.commit(messages, 0)
    query.abort(messages, 0)
    assert sinks.staged_in(root) == []
    settings.write_text("log.segment.bytes=1048576\n")
    query.run(0)
    assert sinks.values_in(root, "t") == sorted(query.expected([0]))
    # What tasks encode by, too: no batch is larger than the store takes.
    settings.write_text("message.max.bytes=20000\n")
    query = stream(root, rows=5_000, query="other", settings=str(settings))
    query.run(0)
    with logstore.open(root, read_only=True, environ={}) as store:
        sizes = [view.size for log in store["t"].partitions for view in log.read(0, max_bytes=1 << 24).batches()]
    assert max(sizes) <= 20_000
    settings.write_text("log.segment.bytes=many\n")
    with pytest.raises(SparkOptionError, match=r"settings: .*log\.segment\.bytes.*many"):
        query.run(1)


OWNER = """
import sys
import logstore
with logstore.open(sys.argv[1], {"logstore.housekeeping": sys.argv[2]}, environ={}):
    print("open", flush=True)
    sys.stdin.read()
"""


def owner_of(root: Path, housekeeping: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", OWNER, str(root), housekeeping]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


# --- what is refused, before and in the tasks


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["path"]),
        ({"topick": "t", "pth": "x"}, ["topick", "pth", "path"]),
        ({"path": "x", "bootstrap": "b:9092"}, ["path"]),
        ({"path": "x", "exactlyonce": "yes", "committimeout": "soon"}, ["exactlyOnce", "commitTimeout"]),
        ({"path": "x", "committimeout": "0"}, ["commitTimeout"]),
        ({"path": "x", "query": "q"}, ["query"]),
        ({"path": "x", "query": "q", "batch": "-1"}, ["batch"]),
        ({"path": "x", "query": "q", "batch": "1", "exactlyonce": "false"}, ["query"]),
        ({"bootstrap": "h:1", "query": "q", "batch": "1"}, ["query"]),
        ({"path": "x", "settings": "/no/such/file"}, ["settings"]),
        ({"bootstrap": "b:9092", "settings": "store.toml"}, ["settings"]),
        ({"path": "x", "compression": "brotli"}, ["compression"]),
        ({"path": "x", "compression": "lz4", "kafka.compression.type": "zstd"}, ["compression"]),
        ({"path": "x", "kafka.batch.sise": "1", "kafka.linger.ms": "-1"}, ["kafka.batch.sise", "kafka.linger.ms"]),
        ({"path": "x", "kafka.linger.ms": "-1"}, ["kafka.linger.ms"]),
        ({"path": "x", "kafka.key.serializer": "StringSerializer"}, ["kafka.key.serializer"]),
        ({"kafka.bootstrap.servers": "b:9092", "exactlyonce": "true", "replay": "true"}, ["exactlyOnce", "replay"]),
    ],
)
def test_options_that_are_wrong_are_all_named(options: dict[str, str], names: list[str]) -> None:
    with pytest.raises(SparkOptionError) as caught:
        sinks.stream_writer(options, sinks.schema(value="binary"))
    assert sorted(caught.value.problems) == sorted(names)
    for name in names:
        assert f"{name}: " in str(caught.value)


def test_exactly_once_on_a_broker_is_refused_by_name() -> None:
    with pytest.raises(SparkOptionError, match="exactlyOnce: is for path only until the broker has transactions"):
        sinks.stream_writer({"bootstrap": "b:9092", "exactlyonce": "true"}, sinks.schema(value="binary"))


def test_what_spark_adds_to_the_options_is_no_option(root: Path) -> None:
    sinks.stream_writer(
        {"path": str(root), "topic": "t", "checkpointlocation": "x", "queryname": "y"}, sinks.schema(value="binary")
    )


def test_options_of_sparks_kafka_sink_are_taken(root: Path) -> None:
    given = {"path": str(root), "topic": "t", "includeheaders": "true", "kafka.linger.ms": "5"}
    sinks.stream_writer(given, sinks.schema(value="binary"))


def test_a_path_means_the_same_wherever_an_executor_stands(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    writer = sinks.stream_writer({"path": root.name, "topic": "t"}, sinks.schema(value="binary"))
    assert writer.sink.root == str(root)


def test_a_topic_is_not_overwritten_but_a_stream_may_write_all_it_has(root: Path) -> None:
    options, schema = {"path": str(root), "topic": "t"}, sinks.schema(value="binary")
    with pytest.raises(SparkOptionError, match="mode: overwrite: a topic is only appended to"):
        sinks.writer(options, schema, overwrite=True)
    sinks.stream_writer(options, schema, overwrite=True)


def test_columns_are_looked_at_before_any_task_runs(root: Path) -> None:
    with pytest.raises(SparkColumnsError, match=r"2 column.s. refused: value: has the type int.*user: unknown"):
        sinks.writer({"path": str(root), "topic": "t"}, sinks.schema(value="int", user="string"))


def test_a_directory_of_kafkas_is_refused_before_anything_is_staged_in_it(root: Path) -> None:
    for path in root.rglob("logstore.*"):
        path.unlink()
    (root / "t-0" / "00000000000000000000.log").touch()
    with pytest.raises(NotALogError, match=r"Kafka wrote this directory.*adopt"):
        stream(root).write(0, task=0)
    assert sinks.staged_in(root) == []


@pytest.mark.parametrize("there", [False, True])
def test_a_path_that_is_no_store_is_refused_with_advice(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "x").mkdir()
    with pytest.raises(NotALogError, match=r"the directory .*logstore topic create"):
        sinks.writer({"path": str(tmp_path / "x"), "topic": "t"}, sinks.schema(value="binary"))
    assert (tmp_path / "x").exists() is there


def test_a_topic_that_is_not_there_is_refused_with_advice(root: Path) -> None:
    with pytest.raises(
        UnknownTopicError, match=r"topic 'v' does not exist .there are: t, u.; create it with logstore topic create"
    ):
        sinks.writer({"path": str(root), "topic": "v"}, sinks.schema(value="binary"))


def test_a_topic_of_the_store_itself_is_not_written(root: Path) -> None:
    stream(root).run(0)
    with pytest.raises(UnknownTopicError):
        sinks.writer({"path": str(root), "topic": "__logstore_sinks"}, sinks.schema(value="binary"))


def test_a_task_that_fails_leaves_no_staged_file(root: Path) -> None:
    query = stream(root)
    good, large = query.rows(0, 0), pa.record_batch({"value": [bytes(2 << 20)]})
    with pytest.raises(RecordTooLargeError):
        query.write_rows([good, large], 0)
    assert sinks.staged_in(root) == []


def test_a_null_key_for_a_compacted_topic_fails_the_task_with_its_name(root: Path) -> None:
    with logstore.open(root, environ={}) as store:
        store.create_topic("latest", partitions=1, settings={"cleanup.policy": "compact"})
    query = stream(root, topic="latest")
    rows = pa.record_batch({"key": pa.array([None], pa.binary()), "value": [b""]})
    with pytest.raises(InvalidRecordError, match="1 rows without key for topic 'latest'"):
        query.write_rows([rows], 0)
    assert sinks.staged_in(root) == []


def test_a_topic_that_was_made_again_takes_nothing_staged_for_the_old_one(root: Path) -> None:
    query = stream(root)
    message = query.write(0, 0)
    with logstore.open(root, environ={}) as store:
        store.delete_topic("t")
        store.create_topic("t", partitions=3)
    with pytest.raises(LogstoreError, match="t"):
        query.commit([message], 0)
    assert sinks.values_in(root, "t") == []


def test_writers_and_messages_can_be_pickled(root: Path) -> None:
    query = stream(root)
    writer = pickle.loads(pickle.dumps(query.writer()))
    assert writer.sink.targets == query.writer().sink.targets
    message = pickle.loads(pickle.dumps(query.write(0, 0)))
    query.commit([message], 0)
    assert sinks.values_in(root, "t") == sorted(query.expected([0], tasks=[0]))
