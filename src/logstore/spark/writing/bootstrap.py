"""Sink of ``format("logstore")`` for a broker over Kafka's protocol: at least once, as Spark's own Kafka sink.

Each task appends its rows through a back end of its own (`logstore.client.backend`), and ends when all in-sync
replicas have them. So a lost response duplicates nothing. But sent rows stay in the topic: if Spark runs a task or
a batch again, they are written twice. The commit has nothing left to do. A writer belongs to one process.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from logstore.client.backend.backend import Backend
from logstore.errors import UnknownTopicError
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.spark.writing.options import WriteOptions
from logstore.spark.writing.rows import Rows, TargetTopic, unknown_topics

if TYPE_CHECKING:
    import pyarrow as pa

    from logstore.batch._encode import Encoder

_logger = logging.getLogger(__name__)


class SentRows(WriterCommitMessage):
    """Message from a task to the commit: how many rows the broker has acknowledged."""

    def __init__(self, row_count: int) -> None:
        self.row_count = row_count


class BrokerSink:
    """Sink for a broker: sends the rows of tasks; the commit has nothing left to do.

    Raises:
        BrokerUnreachableError, UnknownTopicError: no broker answers, or the topic does not exist.
    """

    def __init__(self, options: WriteOptions) -> None:
        assert options.bootstrap is not None
        self.options = options
        self.bootstrap = options.bootstrap
        with contextlib.closing(self.backend()) as backend:
            self.targets = targets_of(backend, options)

    def backend(self) -> RemoteBackend:
        """Return the cluster's topics, over connections of their own."""
        settings = dict(self.options.kafka)
        if "max.block.ms" in settings:
            # max.block.ms is how long a Kafka producer waits for metadata.
            settings["default.api.timeout.ms"] = settings["max.block.ms"]
        return RemoteBackend.open(self.bootstrap, settings, is_patient=True)

    def write(self, batches: Iterable[pa.RecordBatch], _job: str | None) -> SentRows:
        """Send rows; on return the broker has acknowledged them all."""
        row_count = 0
        context = TaskContext.get()
        with contextlib.closing(self.backend()) as backend, backend.batch_appends() as appends:

            def outlet(target: TargetTopic, partition: int, encoder: Encoder) -> None:
                appends.submit(TopicPartition(target.name, partition), encoder)

            rows = Rows(
                self.targets,
                outlet,
                topic=self.options.topic,
                keyless=self.options.keyless,
                seed=0 if context is None else context.partitionId() + context.taskAttemptId(),
                # A broker takes 1.5 times as many bytes a second in batches of 125 kB as of 1 MB.
                flush_bytes=appends.batch_bytes,
            )
            for batch in batches:
                rows.add(batch)
                row_count += batch.num_rows
            rows.finish()
            appends.flush()
        return SentRows(row_count)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _logger.info("rows=%d", sum(each.row_count for each in messages if isinstance(each, SentRows)))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: rows that tasks have sent stay."""


def targets_of(backend: Backend, options: WriteOptions) -> Mapping[str, TargetTopic]:
    """Return the topics that rows may be written to: the one that the option names, or all."""
    names = backend.topics() if options.topic is None else [options.topic]
    there = {}
    for name in names:
        with contextlib.suppress(UnknownTopicError):  # or deleted since it was listed
            there[name] = backend.facts(name)
    if options.topic is not None and (options.topic not in there or there[options.topic].is_internal):
        raise UnknownTopicError(unknown_topics([options.topic], [], where="at the broker"))
    rules = backend.batch_rules(there)
    return {
        name: TargetTopic.of(each.name, each.id, each.partitions, rules[name], options.codec)
        for name, each in there.items()
    }
