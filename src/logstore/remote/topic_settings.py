"""Settings of a topic of a cluster that its records must keep to, as a writer checks them."""

from __future__ import annotations

import logging

from logstore.config.log import NAMES, LogConfig
from logstore.config.schema import Setting
from logstore.errors import LogstoreError
from logstore.records import INT64_MAX, TimestampType
from logstore.remote.client import Client

_logger = logging.getLogger(__name__)

#: For limits that the broker does not tell: the broker itself refuses timestamps beyond them.
ANY_TIME: dict[str, Setting] = dict.fromkeys(
    ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"), INT64_MAX
)


def writing_config(client: Client, topic: str) -> LogConfig:
    """Return the settings of a topic that a writer checks; defaults where the broker does not tell them."""
    wanted = (
        *("max.message.bytes", "segment.bytes", "compression.type", "cleanup.policy"),
        *("message.timestamp.type", *ANY_TIME),
    )
    try:
        told = client.describe_configs(topic)
        settings = {key: value for key in wanted if key in NAMES and (value := told.get(key)) is not None}
        config = LogConfig.of(ANY_TIME | {key: value.lower() for key, value in settings.items()})
    except LogstoreError as error:
        # A client with the right to write may lack the right to describe; the broker then refuses bad records.
        _logger.info("settings of a topic are not known: topic=%s error=%s", topic, error)
        return LogConfig.of(ANY_TIME)
    if config.timestamp_type is TimestampType.LOG_APPEND_TIME:
        # The broker sets append times, and refuses a batch that is marked with one.
        config = config.replace(message_timestamp_type="CreateTime", **ANY_TIME)
    return config
