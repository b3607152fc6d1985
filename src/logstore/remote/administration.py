"""Administration of topics: creation, deletion, settings and sizes on disk.

`Administrator` is the part of `Client` that changes a cluster or inspects its topics. A request whose answer was
lost is retried; if the lost try created a topic, the caller gets no `TopicExistsError`. Any thread may use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from logstore.config.remote import WireConfig
from logstore.config.schema import Rule
from logstore.errors import ConfigError, InvalidSettingError, LogstoreError, TopicExistsError, UnknownTopicError
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
)
from logstore.records import INT32_MAX, TopicPartition
from logstore.remote.cluster import Cluster, ClusterMetadata
from logstore.remote.connection import Connection

__all__ = ["Administrator", "NewTopic"]

_TOPIC = 2  #: a resource of DescribeConfigs


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves a number to the brokers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    settings: Mapping[str, str] = {}


class Administrator:
    """Administration of a cluster: a part of `Client`."""

    config: WireConfig
    cluster: Cluster

    def _limit_ms(self, timeout_ms: int | None) -> int:
        """Return how long a call may take, checked before the first request."""
        if timeout_ms is None:
            return self.config.default_api_timeout_ms
        try:
            return int(Rule(0, INT32_MAX).parse(timeout_ms))
        except ValueError as error:
            raise InvalidSettingError({"timeout_ms": str(error)}) from None

    def create_topics(self, topics: Iterable[NewTopic | str], *, timeout_ms: int | None = None) -> dict[str, str]:
        """Create topics and wait until this client can use them; return their ids (empty if brokers have none).

        Raises:
            TopicExistsError: one of them exists already; the others were created.
            InvalidTopicError, InvalidPartitionsError, ConfigError, PolicyViolationError, BrokerError: refused.
        """
        wanted = [NewTopic(each) if isinstance(each, str) else each for each in topics]
        limit = self._limit_ms(timeout_ms)
        waiting = {each.name: each for each in wanted}
        refused: list[LogstoreError] = []
        tried: set[str] = set()

        def ask(connection: Connection) -> None:
            before = set(tried)
            tried.update(waiting)
            version = connection.version_of(CreateTopicsRequest)
            # Before version 4 a broker has no defaults for these numbers and refuses -1.
            least = -1 if version >= 4 else 1
            answer = connection.ask(
                CreateTopicsRequest(
                    topics=[
                        CreateTopicsRequest.CreatableTopic(
                            name=each.name,
                            num_partitions=max(each.partitions, least),
                            replication_factor=max(each.replication_factor, least),
                            assignments=[],
                            configs=[
                                CreateTopicsRequest.CreatableTopicConfig(name=key, value=str(value))
                                for key, value in each.settings.items()
                            ],
                        )
                        for each in waiting.values()
                    ],
                    timeout_ms=min(limit, self.config.request_timeout_ms),
                ),
                version=version,
            )
            again: LogstoreError | None = None
            for each in answer.topics:
                problem = codes.error_of(each.error_code, f"create topic {each.name!r}", each.error_message)
                if codes.is_retriable(each.error_code):
                    again = problem
                    continue
                waiting.pop(each.name, None)
                # The previous try may have created it and lost its answer.
                if each.error_code and not (isinstance(problem, TopicExistsError) and each.name in before):
                    refused.append(_about_setting(problem, each.error_code))
            if again:
                raise again

        self.cluster.at_controller("create topics", ask)
        if refused:
            raise refused[0]
        made = [each.name for each in wanted]
        found = self._await_topics(made, limit)
        return {name: found.topics[name].id for name in made}

    def _await_topics(self, names: list[str], timeout_ms: int) -> ClusterMetadata:
        attempts = self.cluster.attempts("create topics", timeout_ms)
        while True:
            try:
                found = self.cluster.refresh(names, attempts)
            except UnknownTopicError as error:
                attempts.pause(error)
                continue
            leaderless = [
                name for name in names if any(each.leader < 0 for each in found.topics[name].partitions.values())
            ]
            if not leaderless:
                return found
            attempts.pause(codes.error_of(5, f"create topic {leaderless[0]!r}"))

    def delete_topics(self, names: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics with all their records.

        Raises:
            UnknownTopicError: one of them does not exist; the others were deleted.
            BrokerError: refused.
        """
        left = list(dict.fromkeys(names))
        limit = self._limit_ms(timeout_ms)
        refused: list[LogstoreError] = []
        tried: set[str] = set()

        def ask(connection: Connection) -> None:
            before = set(tried)
            tried.update(left)
            version = connection.version_of(DeleteTopicsRequest)
            answer = connection.ask(
                DeleteTopicsRequest(
                    timeout_ms=min(limit, self.config.request_timeout_ms),
                    topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in left]
                    if version >= 6
                    else (),
                    topic_names=list(left) if version < 6 else (),
                ),
                version=version,
            )
            again: LogstoreError | None = None
            for each in answer.responses:
                problem = codes.error_of(each.error_code, f"delete topic {each.name!r}")
                if codes.is_retriable(each.error_code) and each.error_code != codes.UNKNOWN_TOPIC_OR_PARTITION:
                    again = problem
                    continue
                left.remove(each.name)
                if each.error_code and not (isinstance(problem, UnknownTopicError) and each.name in before):
                    refused.append(problem)
            if again:
                raise again

        gone = list(left)
        self.cluster.at_controller("delete topics", ask)
        self.cluster.forget(gone)
        if refused:
            raise refused[0]

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        """Return the effective settings of a topic, defaults included; None for a secret one.

        Raises:
            UnknownTopicError: the topic does not exist.
        """

        def ask(connection: Connection) -> dict[str, str | None]:
            resource = DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=topic, configuration_keys=None
            )
            answer = connection.ask(DescribeConfigsRequest(resources=[resource]))
            (found,) = answer.results
            if found.error_code:
                raise codes.error_of(found.error_code, f"settings of topic {topic!r}", found.error_message)
            return {each.name: each.value for each in found.configs}

        return self.cluster.at_any("describe configs", ask)

    def log_dir_sizes(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the bytes of each partition on the disk of its leader.

        Raises:
            UnknownTopicError: a topic does not exist.
            BrokerError: CLUSTER_AUTHORIZATION_FAILED: the brokers' ACLs do not permit it.
        """
        found = {name: self.cluster.topic(name) for name in dict.fromkeys(topics)}
        sizes: dict[TopicPartition, int] = {}
        leaders = {each.leader for topic in found.values() for each in topic.partitions.values()}
        for node in sorted(leaders - {-1}):
            with self.cluster.connection(node) as connection:
                answer = connection.ask(
                    DescribeLogDirsRequest(
                        topics=[
                            DescribeLogDirsRequest.DescribableLogDirTopic(
                                topic=name,
                                partitions=[n for n, each in topic.partitions.items() if each.leader == node],
                            )
                            for name, topic in found.items()
                        ]
                    )
                )
                where = f"sizes of logs at {connection}"
            if getattr(answer, "error_code", 0):
                raise codes.error_of(answer.error_code, where)
            for directory in answer.results:
                if directory.error_code:
                    raise codes.error_of(directory.error_code, where)
                for topic_found in directory.topics:
                    for each in topic_found.partitions:
                        if not each.is_future_key:
                            sizes[TopicPartition(topic_found.name, each.partition_index)] = each.partition_size
        return sizes


def _about_setting(error: LogstoreError, code: int) -> LogstoreError:
    if codes.name_of(code) == "INVALID_CONFIG":
        return ConfigError({"settings": str(error)})
    return error
