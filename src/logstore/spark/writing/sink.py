"""Sink of ``format("logstore")`` for the files of a store: tasks stage files, the commit ingests them.

A task encodes its rows into staged files beside their partitions and sends their names to the driver; it touches
no log. The commit passes one manifest of all these files to the store (`logstore.store.commit_client`). The store
ingests them as one transaction under the query's id and the batch's number, and drops a batch that it has ingested
before. So every row is in the topic exactly once, even after a task that ran twice, a repeated batch, or a process
that was killed at any point. ``exactlyOnce=false`` appends instead and remembers nothing.

For each batch of a stream Spark makes the writer twice: once to pickle to the tasks, once to commit. One informs
the other through the messages of the tasks. For a batch job the same writer, pickled, does both.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from logstore.client.backend.batch_appends import BatchRules
from logstore.errors import NotALogError, SparkOptionError, UnknownTopicError
from logstore.spark.pickling import PickledByName
from logstore.spark.reading.partition import short_errors
from logstore.spark.writing.columns import check_columns, columns_of
from logstore.spark.writing.options import WriteOptions
from logstore.spark.writing.rows import Rows, TargetTopic, unknown_topics
from logstore.store import commit_client, open_store
from logstore.store.commit.staged_writer import Manifest, StagedFile, StagedFileWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from logstore.batch._encode import Encoder
    from logstore.spark.writing.bootstrap import BrokerSink

_logger = logging.getLogger(__name__)


# --- tasks and their messages ------------------------------------------------------------------


class SinkTask(NamedTuple):
    """Identity of a task: query, batch and partition; attempts of one task differ in ``attempt``."""

    query: str
    batch: int
    partition: int
    attempt: str


def task_of(job: str | None, batch: int = 0) -> SinkTask:
    """Return the current task. ``job`` names a batch job; for a stream Spark gives query id and batch number."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows are written by tasks of Spark only")
    attempt = f"{context.partitionId()}-{context.attemptNumber()}-{context.taskAttemptId()}"
    if job is not None:
        return SinkTask(job, batch, context.partitionId(), attempt)
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise RuntimeError("the task belongs to no streaming query: Spark gave it no query id")
    return SinkTask(query, int(batch), context.partitionId(), attempt)


class StagedRows(WriterCommitMessage):
    """Message from a task to the commit: its staged files, with their query and batch."""

    def __init__(self, query: str, batch: int, files: tuple[StagedFile, ...]) -> None:
        self.query = query
        self.batch = batch
        self.files = files


# --- files of a store --------------------------------------------------------------------------


class StoreSink:
    """Sink for the files of a store: stages the rows of tasks, and commits them.

    Raises:
        NotALogError, UnknownTopicError: the path has no store, or the topic does not exist.
    """

    def __init__(self, options: WriteOptions) -> None:
        assert options.path is not None
        self.options = options
        self.root = options.path
        self.targets = targets_of(options)

    def write(self, batches: Iterable[pa.RecordBatch], job: str | None) -> StagedRows:
        """Write rows to staged files, one for each partition that gets any; on an error all are removed."""
        task = task_of(job, self.options.batch)
        files: dict[tuple[str, int], StagedFileWriter] = {}

        def outlet(target: TargetTopic, partition: int, encoder: Encoder) -> None:
            file = files.get((target.name, partition))
            if file is None:
                file = files[target.name, partition] = StagedFileWriter.create(
                    self.root,
                    target.name,
                    target.id,
                    partition,
                    query=task.query,
                    batch=task.batch,
                    attempt=task.attempt,
                )
            file.write(encoder)

        rows = Rows(
            self.targets,
            outlet,
            topic=self.options.topic,
            keyless=self.options.keyless,
            replay=self.options.replay,
            seed=task.partition + task.batch,
        )
        try:
            for batch in batches:
                rows.add(batch)
            rows.finish()
            return StagedRows(task.query, task.batch, tuple(file.close() for file in files.values()))
        except BaseException:
            for file in files.values():
                with contextlib.suppress(Exception):
                    file.abandon()
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Ingest the files that the tasks have staged. On return they are durable, and visible as a whole.

        Raises:
            LogstoreError: they were not ingested, or no confirmation came in time. The batch may be committed
                again: if it was ingested, it is dropped.
        """
        manifest = self.manifest(messages)
        if manifest is None:
            return  # an empty batch leaves nothing to deduplicate
        taken = commit_client.commit(
            self.root,
            manifest,
            timeout_s=self.options.commit_timeout_s,
            settings=self.options.settings,
        )
        if taken.others:
            _logger.warning(
                "query %s begins to write where %s %s written before. If that was this one, and its checkpoint is "
                "deleted, rows are written a second time: restore the checkpoint, or continue from where it ended "
                "(startingOffsets). topics=%s path=%s",
                manifest.query,
                ", ".join(taken.others),
                "has" if len(taken.others) == 1 else "have",
                ", ".join(sorted({file.topic for file in manifest.files})),
                self.root,
            )
        _logger.info(
            "%s: query=%s batch=%d files=%d records=%d",
            "dropped a batch that is there already" if taken.duplicate else "ingested a batch",
            manifest.query,
            manifest.batch,
            len(manifest.files),
            sum(file.record_count for file in manifest.files),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files that the tasks have staged, unless the store has begun to ingest them."""
        manifest = self.manifest(messages)
        if manifest is not None:
            commit_client.abort(self.root, manifest)

    def manifest(self, messages: Sequence[WriterCommitMessage | None]) -> Manifest | None:
        """Return a manifest of all staged files, None if there are none. A task that failed has no message."""
        staged = [message for message in messages if isinstance(message, StagedRows)]
        files = tuple(file for message in staged for file in message.files)
        if not files:
            return None
        return Manifest(staged[0].query, staged[0].batch, self.options.mode, files)


def targets_of(options: WriteOptions) -> Mapping[str, TargetTopic]:
    """Return the topics that rows may be written to: the one of the option, or all."""
    assert options.path is not None
    commit_client.check(options.path)
    try:
        store = open_store(options.path, options.settings, read_only=True)
    except NotALogError as error:
        raise NotALogError(
            f"{error}; a store is made by: logstore topic create NAME --dir PATH, or by "
            "logstore.open(PATH).create_topic(NAME)"
        ) from None
    with store:
        names = store.topics()
        if options.topic is not None:
            if options.topic not in names:
                raise UnknownTopicError(unknown_topics([options.topic], names), path=options.path)
            names = [options.topic]
        topics = [store[name] for name in names]
        return {
            each.name: TargetTopic.of(each.name, each.id, len(each), BatchRules.of(each.config), options.codec)
            for each in topics
        }


# --- writers that Spark calls ------------------------------------------------------------------


class _Writer(PickledByName):
    """Part of every writer: the sink of its destination, which does the work, and the batch job, if there is one.

    Raises:
        SparkColumnsError: columns are missing or have wrong types.
    """

    job: str | None = None
    sink: StoreSink | BrokerSink

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(columns_of(schema), topic=options.topic, replay=options.replay)
        if options.bootstrap is None:
            self.sink = StoreSink(options)
        else:
            from logstore.spark.writing.bootstrap import BrokerSink  # loads the client only for a broker

            self.sink = BrokerSink(options)

    @short_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.sink.write(iterator, self.job)

    @short_errors()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:
        self.sink.commit(messages)

    @short_errors()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:
        self.sink.abort(messages)


class TableWriter(_Writer, DataSourceArrowWriter):
    """Writer of a batch job. Through files all of its rows become visible when the job is done, or none."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        # A batch job that is run again is another job, unless the option query names the one it belongs to.
        self.job = options.query or f"job:{uuid.uuid4()}"


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writer of a stream's batches: through files each exactly once, to a broker at least once."""


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> TableWriter:
    """Return the writer of a batch job.

    Raises:
        SparkOptionError, SparkColumnsError, NotALogError, UnknownTopicError: before any task has run.
    """
    if overwrite:
        raise SparkOptionError(
            {"mode": "overwrite: a topic is only appended to; use mode('append'), or delete the topic first"}
        )
    return TableWriter(WriteOptions.of(options), schema)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer of a stream. In output mode complete each batch appends the whole result, as with Kafka.

    Raises:
        SparkOptionError, SparkColumnsError, NotALogError, UnknownTopicError: before any task has run.
    """
    found = WriteOptions.of(options)
    if found.query is not None:
        raise SparkOptionError({"query": "is for a job, as in foreachBatch: a stream has its own"})
    return StreamWriter(found, schema)
