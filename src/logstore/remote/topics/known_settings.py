"""Settings of a cluster's topics, as a broker told them at most ``metadata.max.age.ms`` ago."""

from __future__ import annotations

from logstore.clock import Clock
from logstore.config.log import NAMES, LogConfig
from logstore.remote.client import Client
from logstore.remote.topic_settings import writing_config


class TopicSettings:
    """The settings of each topic. Any thread may ask; two may ask a broker for the same."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        #: Topic -> its settings, and the time in seconds until which they are used.
        self._known: dict[str, tuple[LogConfig, float]] = {}

    def for_writing(self, topic: str) -> LogConfig:
        """Return what records have to keep to; defaults where a broker does not tell it."""
        found = self._known.get(topic)
        if found is None or self._clock.monotonic_s() >= found[1]:
            until_s = self._clock.monotonic_s() + self._client.config.metadata_max_age_ms / 1000
            found = self._known[topic] = writing_config(self._client, topic), until_s
        return found[0]

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
