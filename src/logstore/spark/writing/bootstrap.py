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

from logstore.config.log import NAMES, LogConfig
from logstore.config.schema import Setting
from logstore.errors import LogstoreError, UnknownTopicError
from logstore.records import INT64_MAX, TimestampType, TopicPartition
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from logstore.spark.writing.options import WriteOptions
from logstore.spark.writing.rows import Rows, TargetTopic, unknown_topics

if TYPE_CHECKING:
    import pyarrow as pa

    from logstore.batch._encode import Encoder

_logger = logging.getLogger(__name__)

#: The sink fetches the settings of at most this many topics; with more, only the broker checks the records.
_DESCRIBED = 20

#: For limits that the broker does not tell: the broker itself refuses timestamps beyond them.
_ANY_TIME: dict[str, Setting] = dict.fromkeys(
    ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"), INT64_MAX
)


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
        config = _config(client, name) if len(there) <= _DESCRIBED else LogConfig.of(_ANY_TIME)
        if config.timestamp_type is TimestampType.LOG_APPEND_TIME:
            # The broker sets append times, and refuses a batch that is marked with one.
            config = config.replace(message_timestamp_type="CreateTime", **_ANY_TIME)
        target = TargetTopic.of(name, each.id, len(each.partitions), config, options.codec)
        found[name] = target._replace(limits=(*target.limits, most))
    return found


def _config(client: Client, topic: str) -> LogConfig:
    """Return the topic's settings that a sink checks; defaults where the broker does not tell them."""
    wanted = (
        *("max.message.bytes", "segment.bytes", "compression.type", "cleanup.policy"),
        *("message.timestamp.type", *_ANY_TIME),
    )
    try:
        told = client.describe_configs(topic)
        settings = {key: value for key in wanted if key in NAMES and (value := told.get(key)) is not None}
        return LogConfig.of(_ANY_TIME | {key: value.lower() for key, value in settings.items()})
    except LogstoreError as error:
        # A client with the right to write may lack the right to describe; the broker then refuses bad records.
        _logger.info("settings of a topic are not known: topic=%s error=%s", topic, error)
        return LogConfig.of(_ANY_TIME)
