"""Settings of a cluster's topics: those that records must keep to, as a writer checks them, and all of them."""

from __future__ import annotations

import logging

from logstore.clock import Clock
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


class TopicSettings:
    """The settings of each topic, as a broker told them at most ``metadata.max.age.ms`` ago.

    One for all writers of a client. Any thread may ask; two may ask a broker for the same.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        #: Topic -> its id, its settings, and the time in seconds until which they are used.
        self._known: dict[str, tuple[str, LogConfig, float]] = {}

    def for_writing(self, topic: str, topic_id: str = "") -> LogConfig:
        """Return what records have to keep to; defaults where a broker does not tell it.

        Those of another topic that had the name before are not used for ``topic_id``.
        """
        found = self._known.get(topic)
        is_other = found is not None and topic_id and found[0] and found[0] != topic_id
        if found is None or is_other or self._clock.monotonic_s() >= found[2]:
            until_s = self._clock.monotonic_s() + self._client.config.metadata_max_age_ms / 1000
            found = self._known[topic] = topic_id, writing_config(self._client, topic), until_s
        return found[1]

    def all_of(self, topic: str) -> LogConfig:
        """Return all settings of a topic that this version knows, asked for now.

        Raises:
            UnknownTopicError: the topic does not exist.
            BrokerError: TOPIC_AUTHORIZATION_FAILED: the brokers' ACLs do not permit it.
        """
        told = self._client.describe_configs(topic)
        return LogConfig.of({key: value for key, value in told.items() if key in NAMES and value is not None})

    def forget(self, topic: str) -> None:
        """Ask again: the settings have changed."""
        self._known.pop(topic, None)
