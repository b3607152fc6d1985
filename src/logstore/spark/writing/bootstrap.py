"""Sink of ``format("logstore")`` for a broker over Kafka's protocol: at least once, as Spark's own Kafka sink.

Each task sends its rows with its own idempotent producer, and ends when all in-sync replicas have them. So a lost
response duplicates nothing. But sent rows stay in the topic: if Spark runs a task or a batch again, they are
written twice. The commit has nothing left to do. A writer belongs to one process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from logstore.config.log import LogConfig
from logstore.errors import UnknownTopicError
from logstore.records import TopicPartition
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from logstore.remote.topic_settings import ANY_TIME, writing_config
from logstore.spark.writing.options import WriteOptions
from logstore.spark.writing.rows import Rows, TargetTopic, unknown_topics

if TYPE_CHECKING:
    import pyarrow as pa

    from logstore.batch._encode import Encoder

_logger = logging.getLogger(__name__)

#: The sink fetches the settings of at most this many topics; with more, only the broker checks the records.
_DESCRIBED = 20


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
        with self.client() as client:
            self.targets = targets_of(client, options)

    def client(self) -> Client:
        settings = dict(self.options.kafka)
        if "max.block.ms" in settings:
            # max.block.ms is how long a Kafka producer waits for metadata.
            settings["default.api.timeout.ms"] = settings["max.block.ms"]
        return Client(self.bootstrap, settings, is_patient=True)

    def write(self, batches: Iterable[pa.RecordBatch], _job: str | None) -> SentRows:
        """Send rows; on return the broker has acknowledged them all."""
        row_count = 0
        context = TaskContext.get()
        with self.client() as client, IdempotentProducer(client) as producer:

            def outlet(target: TargetTopic, partition: int, encoder: Encoder) -> None:
                producer.submit(TopicPartition(target.name, partition), encoder)

            rows = Rows(
                self.targets,
                outlet,
                topic=self.options.topic,
                keyless=self.options.keyless,
                seed=0 if context is None else context.partitionId() + context.taskAttemptId(),
                # A broker takes 1.5 times as many bytes a second in batches of 125 kB as of 1 MB.
                flush_bytes=client.config.batch_size,
            )
            for batch in batches:
                rows.add(batch)
                row_count += batch.num_rows
            rows.finish()
            producer.flush()
        return SentRows(row_count)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _logger.info("rows=%d", sum(each.row_count for each in messages if isinstance(each, SentRows)))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: rows that tasks have sent stay."""


def targets_of(client: Client, options: WriteOptions) -> Mapping[str, TargetTopic]:
    """Return the topics that rows may be written to: the one that the option names, or all."""
    try:
        topics = client.metadata([options.topic] if options.topic is not None else None).topics
    except UnknownTopicError:
        topics = {}
    there = {name: each for name, each in topics.items() if not each.is_internal}
    if options.topic is not None and options.topic not in there:
        raise UnknownTopicError(unknown_topics([options.topic], [], where="at the broker"))
    most = ("max.request.size", client.config.max_request_size)
    found = {}
    for name, each in there.items():
        config = writing_config(client, name) if len(there) <= _DESCRIBED else LogConfig.of(ANY_TIME)
        target = TargetTopic.of(name, each.id, len(each.partitions), config, options.codec)
        found[name] = target._replace(limits=(*target.limits, most))
    return found
