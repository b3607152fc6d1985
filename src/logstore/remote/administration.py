"""Administration of topics: creation, deletion, settings and sizes on disk.

`Administrator` is the part of `Client` that creates, deletes and inspects topics. A request whose answer was lost
is retried. If the lost try has created a topic, the retry raises no `TopicExistsError`. Any thread may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from logstore.config.remote import WireConfig
from logstore.config.schema import Rule
from logstore.errors import (
    BrokerUnreachableError,
    ConfigError,
    InvalidPartitionsError,
    InvalidSettingError,
    LogstoreError,
    TopicExistsError,
    UnknownTopicError,
)
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
)
from logstore.protocol.grouping import by_topic
from logstore.records import INT32_MAX, NewTopic, TopicPartition
from logstore.remote.answers import the_one
from logstore.remote.cluster import Cluster
from logstore.remote.metadata.known import KnownCluster
from logstore.remote.network.link import BrokerLink

_TOPIC = 2  #: the resource type of a topic, in DescribeConfigs
_OF_TOPIC = 1  #: the source of a setting that a topic has of its own

#: Name, error code and message of one topic in an answer.
_Outcome = tuple[str, int, str | None]


class Administrator:
    """Administration of a cluster: a part of `Client`."""

    config: WireConfig
    cluster: Cluster

    def _limit_ms(self, timeout_ms: int | None) -> int:
        """Return the timeout of a call in ms; an invalid one is refused before the first request."""
        if timeout_ms is None:
            return self.config.default_api_timeout_ms
        try:
            limit_ms = Rule(0, INT32_MAX).parse(timeout_ms)
        except ValueError as error:
            raise InvalidSettingError({"timeout_ms": str(error)}) from None
        assert isinstance(limit_ms, int)
        return limit_ms

    def create_topics(self, topics: Iterable[NewTopic | str], *, timeout_ms: int | None = None) -> dict[str, str]:
        """Create topics and wait until this client can use them; return their ids (empty if brokers have none).

        Raises:
            TopicExistsError: a topic exists already. The others were created, unless they were refused, too.
            InvalidTopicError, InvalidPartitionsError, ConfigError, PolicyViolationError, BrokerError: a topic was
                refused. Only the first refusal is raised.
            InvalidSettingError: ``timeout_ms`` is out of range. No request was sent.
        """
        wanted = {
            each.name: each for each in (NewTopic(each) if isinstance(each, str) else each for each in topics)
        }
        limit = self._limit_ms(timeout_ms)
        ids: dict[str, str] = {}

        def send(connection: BrokerLink, names: list[str]) -> Iterable[_Outcome]:
            version = connection.version_of(CreateTopicsRequest)
            # Before version 4 a broker has no defaults for these numbers and refuses -1.
            least = -1 if version >= 4 else 1
            request = CreateTopicsRequest(
                topics=[
                    CreateTopicsRequest.CreatableTopic(
                        name=name,
                        num_partitions=max(wanted[name].partitions, least),
                        replication_factor=max(wanted[name].replication_factor, least),
                        assignments=[],
                        configs=[
                            CreateTopicsRequest.CreatableTopicConfig(name=key, value=str(value))
                            for key, value in wanted[name].settings.items()
                        ],
                    )
                    for name in names
                ],
                timeout_ms=min(limit, self.config.request_timeout_ms),
            )
            answer = connection.ask(request, version=version)
            ids.update((each.name, each.topic_id) for each in answer.topics if not each.error_code)
            return [(each.name, each.error_code, each.error_message) for each in answer.topics]

        self._change_topics("create topic", wanted, send, TopicExistsError)
        found = self._await_topics({name: ids.get(name, "") for name in wanted}, limit)
        return {name: found.topics[name].id for name in wanted}

    def _change_topics(
        self,
        what: str,
        names: Iterable[str],
        send: Callable[[BrokerLink, list[str]], Iterable[_Outcome]],
        done: type[LogstoreError],
    ) -> None:
        """Send a change to the controller until each topic is changed or refused; raise the first refusal.

        ``done`` is the error for a topic that is changed already: after a retry it counts as success.
        """
        left = dict.fromkeys(names)
        refused: list[LogstoreError] = []
        tried: set[str] = set()

        def ask(connection: BrokerLink) -> None:
            before = set(tried)
            tried.update(left)
            again: LogstoreError | None = None
            for name, code, message in send(connection, list(left)):
                problem = codes.error_of(code, f"{what} {name!r}", message)
                if codes.is_retriable(code) and not isinstance(problem, done):
                    again = problem
                    continue
                left.pop(name, None)
                # The previous try may have made the change and lost its answer.
                if code and not (isinstance(problem, done) and name in before):
                    is_setting = codes.name_of(code) == "INVALID_CONFIG"
                    refused.append(ConfigError({"settings": str(problem)}) if is_setting else problem)
            if left and again is None:
                again = BrokerUnreachableError(
                    f"{what} {next(iter(left))!r}: {connection} left it out of its answer"
                )
            if again:
                raise again

        self.cluster.at_controller(f"{what}s", ask)
        if refused:
            raise refused[0]

    def _await_topics(self, ids: Mapping[str, str], timeout_ms: int) -> KnownCluster:
        """Wait until a broker knows topics by their new ids ("" for one that is not known) and their leaders."""
        attempts = self.cluster.attempts("create topics", timeout_ms)
        while True:
            try:
                found = self.cluster.refresh(list(ids), attempts)
            except UnknownTopicError as error:
                attempts.pause(error)
                continue
            for name, wanted in ids.items():
                topic = found.topics[name]
                # A broker that lags behind still knows the topic that had this name before.
                if topic.id and wanted and topic.id != wanted:
                    attempts.pause(UnknownTopicError(f"a broker does not know the new topic {name!r} yet"))
                    break
                if any(each.leader < 0 for each in topic.partitions.values()):
                    attempts.pause(codes.error_of(codes.LEADER_NOT_AVAILABLE, f"create topic {name!r}"))
                    break
            else:
                return found

    def delete_topics(self, names: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics with all their records.

        Raises:
            UnknownTopicError: a topic does not exist. The others were deleted, unless they were refused, too.
            BrokerError: a topic was refused. Only the first refusal is raised.
            InvalidSettingError: ``timeout_ms`` is out of range. No request was sent.
        """
        limit = self._limit_ms(timeout_ms)
        wanted = list(dict.fromkeys(names))

        def send(connection: BrokerLink, names: list[str]) -> Iterable[_Outcome]:
            by_state = (version := connection.version_of(DeleteTopicsRequest)) >= 6
            request = DeleteTopicsRequest(
                timeout_ms=min(limit, self.config.request_timeout_ms),
                topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in names] if by_state else (),
                topic_names=() if by_state else names,
            )
            answer = connection.ask(request, version=version)
            return [(each.name, each.error_code, None) for each in answer.responses]

        try:
            self._change_topics("delete topic", wanted, send, UnknownTopicError)
        finally:
            self.cluster.forget(wanted)

    def create_partitions(self, topic: str, total: int, *, timeout_ms: int | None = None) -> None:
        """Give a topic more partitions, up to ``total``, and wait until this client can use them.

        Raises:
            UnknownTopicError, InvalidPartitionsError, BrokerError: the topic was refused.
            InvalidSettingError: ``timeout_ms`` is out of range. No request was sent.
        """
        limit = self._limit_ms(timeout_ms)

        def send(connection: BrokerLink, names: list[str]) -> Iterable[_Outcome]:
            request = CreatePartitionsRequest(
                topics=[
                    CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
                    for name in names
                ],
                timeout_ms=min(limit, self.config.request_timeout_ms),
            )
            answer = connection.ask(request)
            return [(each.name, each.error_code, each.error_message) for each in answer.results]

        self._change_topics("add partitions to topic", [topic], send, InvalidPartitionsError)
        attempts = self.cluster.attempts("add partitions", limit)
        while True:
            found = self.cluster.refresh([topic], attempts).topics[topic].partitions
            if len(found) >= total and all(each.leader >= 0 for each in found.values()):
                return
            attempts.pause(codes.error_of(codes.LEADER_NOT_AVAILABLE, f"new partitions of topic {topic!r}"))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records below an offset in each partition; -1 stands for all that consumers may see.

        Returns the log start offset of each.

        Raises:
            UnknownTopicError, UnknownPartitionError, OffsetOutOfRangeError, PolicyViolationError: a partition was
                refused; others may be done.
        """

        def make(connection: BrokerLink, partitions: list[TopicPartition]) -> DeleteRecordsRequest:
            R = DeleteRecordsRequest
            return R(
                topics=[
                    R.DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            R.DeleteRecordsPartition(
                                partition_index=number, offset=before[TopicPartition(topic, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
                timeout_ms=self.config.request_timeout_ms,
            )

        def read(answer: Any) -> Iterable[tuple[TopicPartition, int, int]]:
            for topic in answer.topics:
                for each in topic.partitions:
                    yield TopicPartition(topic.name, each.partition_index), each.error_code, each.low_watermark

        return self.cluster.at_leaders("delete records", before, make, read)

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        """Return the effective settings of a topic, defaults included. A secret setting has the value None.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        return {each.name: each.value for each in self._configs_of(topic)}

    def own_settings(self, topic: str) -> dict[str, str]:
        """Return the settings that a topic has of its own; raises as `describe_configs`."""
        found = self._configs_of(topic)
        return {
            each.name: each.value for each in found if each.config_source == _OF_TOPIC and each.value is not None
        }

    def _configs_of(self, topic: str) -> Sequence[Any]:
        def ask(connection: BrokerLink) -> Sequence[Any]:
            resource = DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=topic, configuration_keys=None
            )
            answer = connection.ask(DescribeConfigsRequest(resources=[resource]))
            found = the_one(answer.results, f"settings of topic {topic!r} at {connection}")
            if found.error_code:
                raise codes.error_of(found.error_code, f"settings of topic {topic!r}", found.error_message)
            return cast("Sequence[Any]", found.configs)

        return self.cluster.at_any("describe configs", ask)

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic, all or none; None removes its own value. May be repeated.

        Raises:
            UnknownTopicError: the topic does not exist.
            ConfigError: a broker has refused a setting. Nothing was changed.
            PolicyViolationError, BrokerError: it was refused as a whole.
        """
        R = IncrementalAlterConfigsRequest

        def ask(connection: BrokerLink) -> None:
            resource = R.AlterConfigsResource(
                resource_type=_TOPIC,
                resource_name=topic,
                configs=[
                    R.AlterableConfig(name=key, config_operation=int(value is None), value=value)
                    for key, value in changes.items()
                ],
            )
            answer = connection.ask(R(resources=[resource]))
            found = the_one(answer.responses, f"settings of topic {topic!r} at {connection}")
            if codes.name_of(found.error_code) == "INVALID_CONFIG":
                raise ConfigError({"settings": f"topic {topic!r}: {found.error_message}"})
            if found.error_code:
                raise codes.error_of(found.error_code, f"settings of topic {topic!r}", found.error_message)

        self.cluster.at_controller("alter configs", ask)

    def log_dir_sizes(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the bytes of each partition on the disk of its leader; a partition without a leader is left out.

        Raises:
            UnknownTopicError: a topic does not exist.
            BrokerError: CLUSTER_AUTHORIZATION_FAILED: the brokers' ACLs do not permit the request.
        """
        found = {name: self.cluster.topic(name) for name in dict.fromkeys(topics)}
        sizes: dict[TopicPartition, int] = {}
        leaders = {each.leader for topic in found.values() for each in topic.partitions.values()}
        for node in sorted(leaders - {-1}):
            theirs = {
                name: [number for number, each in topic.partitions.items() if each.leader == node]
                for name, topic in found.items()
            }
            attempts = self.cluster.attempts("sizes of logs")
            sizes.update(attempts.run(partial(self._sizes_at, node, theirs)))
        return sizes

    def _sizes_at(self, node: int, partitions: Mapping[str, list[int]]) -> dict[TopicPartition, int]:
        request = DescribeLogDirsRequest(
            topics=[
                DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=numbers)
                for name, numbers in partitions.items()
            ]
        )
        with self.cluster.connection(node) as connection:
            answer = connection.ask(request)
            where = f"sizes of logs at {connection}"
        if getattr(answer, "error_code", 0):
            raise codes.error_of(answer.error_code, where)
        sizes: dict[TopicPartition, int] = {}
        for directory in answer.results:
            if directory.error_code:
                raise codes.error_of(directory.error_code, where)
            for topic in directory.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        sizes[TopicPartition(topic.name, each.partition_index)] = each.partition_size
        return sizes
