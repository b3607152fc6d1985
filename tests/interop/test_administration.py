"""The same requests of administration to a real broker and to ours, good and bad: the answers are alike.

What may differ stands in this file, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import logstore
from logstore.batch._encode import encode
from logstore.broker import serve
from logstore.protocol.generated import messages as m
from logstore.protocol.message import Message, Struct
from tests.broker.wire import Wire
from tests.interop.broker import Broker
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPIC, NODE = 2, 4


class Twins(NamedTuple):
    """A connection to Kafka, and one to us."""

    kafka: Wire
    ours: Wire

    def ask(self, message: Message, version: int) -> tuple[Any, Any]:
        return self.kafka.ask(message, version), self.ours.ask(message, version)


@pytest.fixture(scope="module")
def twins(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    directory = tmp_path_factory.mktemp("twins")
    with (
        Broker(directory / "kafka") as kafka,
        logstore.open(directory / "ours", {"log.retention.ms": -1}) as store,
        serve(store, "127.0.0.1:0") as ours,
    ):
        host, _, port = kafka.bootstrap.rpartition(":")
        place: Any = SimpleNamespace(address=(host, int(port)))
        with Wire(place) as one, Wire(ours) as other:
            made = Twins(one, other)
            for name, partitions in (("flights", 2), ("keyed", 1), ("grown", 1)):
                new = m.CreateTopicsRequest.CreatableTopic(
                    name=name, num_partitions=partitions, replication_factor=1, configs=[]
                )
                if name == "keyed":
                    new.configs = [
                        m.CreateTopicsRequest.CreatableTopicConfig(name="cleanup.policy", value="compact")
                    ]
                for answer in made.ask(m.CreateTopicsRequest(topics=[new]), 7):
                    assert answer.topics[0].error_code == 0
            places = (("flights", 0), ("flights", 1), ("keyed", 0), ("grown", 0))
            # Kafka has made a topic before its broker leads the partitions.
            wait_for(lambda: all(_leads(made.kafka, *place) for place in places))
            for sequence, when in enumerate((1000, 3000, 2000)):
                batch = encode([(b"k", b"AA", when, None)], producer_id=7, producer_epoch=1, base_sequence=sequence)
                data = m.ProduceRequest.PartitionProduceData(index=0, records=batch)
                topic = m.ProduceRequest.TopicProduceData(name="flights", partition_data=[data])
                request = m.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
                for answer in made.ask(request, 9):
                    assert answer.responses[0].partition_responses[0].error_code == 0
            yield made


def _leads(wire: Wire, name: str, partition: int) -> bool:
    R = m.ListOffsetsRequest
    asked = [R.ListOffsetsPartition(partition_index=partition, timestamp=-1)]
    found: Any = wire.ask(R(replica_id=-1, topics=[R.ListOffsetsTopic(name=name, partitions=asked)]), 6)
    return bool(found.topics[0].partitions[0].error_code == 0)


def plain(value: Any, without: frozenset[str]) -> Any:
    """Return a message as plain values, without some fields."""
    if isinstance(value, list | tuple):
        return [plain(each, without) for each in value]
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name), without) for name in value.__slots__ if name not in without}
    return value


#: Kafka's words differ from ours, and each broker gives topics ids of its own.
OWN = frozenset({"error_message", "topic_id", "throttle_time_ms"})


def alike(twins: Twins, message: Message, version: int, *without: str) -> Any:
    kafkas, ours = twins.ask(message, version)
    one, other = (plain(each, OWN | set(without)) for each in (kafkas, ours))
    assert one == other
    return ours


# --- settings ----------------------------------------------------------------------------------


def _described(twins: Twins, kind: int, name: str) -> list[Any]:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = m.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    return [each.results[0] for each in twins.ask(request, 4)]


#: Kafka gives this to all brokers at once when it keeps eligible leaders (KIP-966), which we do not.
ELIGIBLE = "min.insync.replicas"

#: Keys of our topics that Kafka's topics do not have, besides ``logstore.*``.
DIFFERENT_TOPIC = {
    "producer.id.expiration.ms",  # a topic's here, a broker's in Kafka
}


def test_a_topic_has_the_keys_of_kafka_with_the_same_values_and_types(twins: Twins) -> None:
    kafkas, ours = _described(twins, TOPIC, "keyed")
    assert kafkas.error_code == ours.error_code == 0
    one, other = ({each.name: each for each in found.configs} for found in (kafkas, ours))
    assert {name for name in set(other) - set(one) if not name.startswith("logstore.")} == DIFFERENT_TOPIC
    assert set(one) <= set(other)

    def facts(each: Any) -> tuple[Any, ...]:
        synonyms = [(s.name, s.value, s.source) for s in each.synonyms]
        return each.value, each.config_type, each.config_source, each.read_only, each.is_sensitive, synonyms

    del one[ELIGIBLE]
    # Kafka's default is 168 hours, ours for ever: it stands behind what both were given.
    assert facts(one.pop("retention.ms"))[:5] == facts(other["retention.ms"])[:5] == ("-1", 5, 4, False, False)
    differ = {
        name: (facts(one[name]), facts(other[name])) for name in one if facts(one[name]) != facts(other[name])
    }
    assert differ == {}


def test_a_broker_has_the_keys_of_kafka_with_the_same_types(twins: Twins) -> None:
    kafkas, ours = _described(twins, NODE, "1")
    one, other = ({each.name: each for each in found.configs} for found in (kafkas, ours))
    assert set(one) - set(other) == set()
    assert {
        name: (one[name].config_type, other[name].config_type)
        for name in one
        if (one[name].config_type, one[name].is_sensitive) != (other[name].config_type, other[name].is_sensitive)
    } == {}
    kafkas, ours = _described(twins, NODE, "")
    assert ([each.name for each in kafkas.configs], list(ours.configs)) == ([ELIGIBLE], [])


def test_an_unknown_operation_is_refused_by_each_in_its_way(twins: Twins) -> None:
    kafkas, ours = twins.ask(_change(TOPIC, "flights", ("retention.ms", 4, "5")), 1)
    assert (kafkas.responses[0].error_code, ours.responses[0].error_code) == (-1, 42)


@pytest.mark.parametrize(
    ("kind", "name"), [(TOPIC, "missing"), (TOPIC, "a/b"), (TOPIC, ""), (NODE, "2"), (NODE, "one"), (NODE, "-1")]
)
def test_what_is_not_described_has_the_same_error(twins: Twins, kind: int, name: str) -> None:
    kafkas, ours = _described(twins, kind, name)
    assert (kafkas.error_code, list(kafkas.configs)) == (ours.error_code, list(ours.configs))


def _change(kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = True) -> Message:
    R = m.IncrementalAlterConfigsRequest
    configs = [R.AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in changes]
    resource = R.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return R(resources=[resource], validate_only=validate_only)


@pytest.mark.parametrize(
    "message",
    [
        _change(TOPIC, "flights", ("retention.ms", 0, "5")),
        _change(TOPIC, "flights", ("retention.ms", 0, "soon")),
        _change(TOPIC, "flights", ("no.such.key", 0, "5")),
        _change(TOPIC, "flights", ("log.retention.hours", 0, "5")),
        _change(TOPIC, "flights", ("retention.ms", 2, "5")),
        _change(TOPIC, "flights", ("retention.ms", 3, "5")),
        _change(TOPIC, "flights", ("retention.ms", 0, None)),
        _change(TOPIC, "flights", ("retention.ms", 1, None)),
        _change(TOPIC, "flights", ("retention.ms", 1, "5")),
        _change(TOPIC, "flights", ("retention.ms", 0, "5"), ("retention.ms", 0, "6")),
        _change(TOPIC, "flights", ("cleanup.policy", 2, "delete")),
        _change(TOPIC, "flights", ("cleanup.policy", 2, "other")),
        _change(TOPIC, "flights"),
        _change(TOPIC, "missing", ("retention.ms", 0, "5")),
        _change(TOPIC, "missing", ("retention.ms", 0, "soon")),
        _change(TOPIC, "a/b", ("retention.ms", 0, "5")),
        _change(TOPIC, "", ("retention.ms", 0, "5")),
        _change(NODE, "1", ("node.id", 0, "5")),
        _change(NODE, "2", ("node.id", 0, "5")),
        _change(NODE, "one", ("node.id", 0, "5")),
        _change(0, "", ("retention.ms", 0, "5")),
        _change(3, "flights", ("retention.ms", 0, "5")),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_a_change_has_the_same_outcome(twins: Twins, message: Message, version: int) -> None:
    alike(twins, message, version)


def test_changes_that_are_made_are_described_alike(twins: Twins) -> None:
    for change in (("cleanup.policy", 2, "delete"), ("cleanup.policy", 3, "compact"), ("retention.ms", 0, "7")):
        alike(twins, _change(TOPIC, "grown", change, validate_only=False), 1)
    R = m.AlterConfigsRequest
    replaced = R.AlterConfigsResource(
        resource_type=TOPIC, resource_name="grown", configs=[R.AlterableConfig(name="flush.ms", value="9")]
    )
    for _ in range(2):
        alike(twins, R(resources=[replaced]), 2)
        kafkas, ours = _described(twins, TOPIC, "grown")
        one, other = (
            {each.name: each.value for each in found.configs if each.config_source == 1} for found in (kafkas, ours)
        )
        assert one == other == {"flush.ms": "9"}


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({"name": "new"}, 7),
        ({"name": "new", "num_partitions": 0}, 7),
        ({"name": "new", "num_partitions": -2}, 7),
        ({"name": "new", "replication_factor": 0}, 7),
        ({"name": "new", "replication_factor": 2}, 7),
        ({"name": "flights"}, 5),
        ({"name": "a/b"}, 5),
        ({"name": ""}, 5),
        ({"name": "new", "configs": {"retention.ms": "soon"}}, 5),
        ({"name": "new", "configs": {"retention.ms": None}}, 5),
        ({"name": "new", "configs": {"no.such": "1"}}, 5),
        ({"name": "new", "configs": {"retention.ms": "5", "cleanup.policy": "compact,delete"}}, 5),
    ],
)
def test_a_topic_that_is_only_validated_has_the_same_outcome(
    twins: Twins, fields: dict[str, Any], version: int
) -> None:
    R = m.CreateTopicsRequest
    configs = [R.CreatableTopicConfig(name=key, value=value) for key, value in fields.get("configs", {}).items()]
    topic = R.CreatableTopic(**{"num_partitions": -1, "replication_factor": -1} | fields | {"configs": configs})
    kafkas, ours = twins.ask(R(topics=[topic], validate_only=True), version)
    (one,), (other,) = kafkas.topics, ours.topics
    assert (one.error_code, one.num_partitions, one.replication_factor) == (
        other.error_code,
        other.num_partitions,
        other.replication_factor,
    )
    assert _told(one.configs).items() <= _told(other.configs).items()


def _told(configs: Any) -> dict[str, tuple[str, int]]:
    return {each.name: (each.value, each.config_source) for each in configs or () if each.name != ELIGIBLE}


@pytest.mark.parametrize("types", [[TOPIC], [NODE], [3], [16]])
def test_resources_are_listed_alike(twins: Twins, types: list[int]) -> None:
    kafkas, ours = twins.ask(m.ListConfigResourcesRequest(resource_types=types), 1)
    one, other = (
        (each.error_code, sorted((r.resource_type, r.resource_name) for r in each.config_resources))
        for each in (kafkas, ours)
    )
    assert one == other


# --- partitions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count", "assigned"),
    [
        ("flights", 3, None),
        ("flights", 2, None),
        ("flights", 1, None),
        ("flights", 0, None),
        ("flights", -1, None),
        ("flights", 3, [[1]]),
        ("flights", 4, [[1]]),
        ("flights", 3, [[2]]),
        ("flights", 3, [[1, 1]]),
        ("flights", 3, [[]]),
        ("flights", 3, []),
        ("missing", 3, None),
        ("a/b", 3, None),
    ],
)
def test_partitions_are_added_alike(twins: Twins, name: str, count: int, assigned: list[list[int]] | None) -> None:
    R = m.CreatePartitionsRequest
    topic = R.CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assigned is None
        else [R.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned],
    )
    alike(twins, R(topics=[topic], timeout_ms=1000, validate_only=True), 3)


@pytest.mark.parametrize(
    ("names", "limit", "cursor"),
    [
        (["flights", "missing", "a/b", "flights"], 2000, None),
        (["flights"], 1, None),
        (["flights"], 1, ("flights", 1)),
        (["flights"], 5, ("flights", 7)),
        (["flights"], 5, ("flights", -1)),
        (["flights"], 5, ("keyed", 0)),
        (["flights", "keyed"], 2, None),
        (["flights", "keyed"], 0, None),
        (["flights", "keyed"], -1, None),
    ],
)
def test_partitions_are_described_alike(
    twins: Twins, names: list[str], limit: int, cursor: tuple[str, int] | None
) -> None:
    R = m.DescribeTopicPartitionsRequest
    request = R(topics=[R.TopicRequest(name=name) for name in names], response_partition_limit=limit)
    if cursor is not None:
        request.cursor = R.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    # The epoch of a log that is not open is not known.
    alike(twins, request, 0, "leader_epoch")


#: Where each broker is, and what it is called.
PLACE = ("cluster_id", "host", "port", "leader_epoch")


@pytest.mark.parametrize("version", range(8, 14))
@pytest.mark.parametrize("is_asked", [False, True])
def test_what_a_client_may_do_with_topics_is_told_alike(twins: Twins, is_asked: bool, version: int) -> None:
    R = m.MetadataRequest
    for names in (["flights", "missing", "a/b"], []):
        request = R(
            topics=[R.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=is_asked,
        )
        if version <= 10:
            request.include_cluster_authorized_operations = is_asked
        alike(twins, request, version, *PLACE)
    if version >= 12:
        unknown = R(
            topics=[R.MetadataRequestTopic(name=None, topic_id="6OsWVLkoQ0uC2wDnQZGdUw")],
            include_topic_authorized_operations=is_asked,
        )
        alike(twins, unknown, version, *PLACE)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("is_asked", [False, True])
def test_what_a_client_may_do_with_the_cluster_is_told_alike(twins: Twins, is_asked: bool, version: int) -> None:
    request = m.DescribeClusterRequest(include_cluster_authorized_operations=is_asked)
    alike(twins, request, version, *PLACE)


@pytest.mark.parametrize("version", range(3))
def test_elections_are_alike(twins: Twins, version: int) -> None:
    R = m.ElectLeadersRequest
    asked = [
        R.TopicPartitions(topic="flights", partitions=[0, 9]),
        R.TopicPartitions(topic="missing", partitions=[0]),
    ]
    kafkas, ours = twins.ask(R(topic_partitions=asked, timeout_ms=5000), version)

    def told(found: Any) -> Any:
        return found.error_code, {
            (topic.topic, each.partition_id): each.error_code
            for topic in found.replica_election_results
            for each in topic.partition_result
        }

    assert told(kafkas) == told(ours)
    kafkas, ours = twins.ask(R(topic_partitions=None, timeout_ms=5000), version)
    assert told(kafkas) == told(ours)


def test_moves_are_alike(twins: Twins) -> None:
    R = m.ListPartitionReassignmentsRequest
    alike(twins, R(topics=None, timeout_ms=5000), 0)
    topics = [R.ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in ("flights", "no")]
    alike(twins, R(topics=topics, timeout_ms=5000), 0)


# --- logs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_are_alike(twins: Twins, version: int) -> None:
    R = m.ListOffsetsRequest
    for when in (-7, -6, -5, -4, -3, -2, -1, 0, 1500, 2500, 9999):
        for name, partition in (("flights", 0), ("flights", 1), ("flights", 9), ("missing", 0)):
            each = R.ListOffsetsPartition(partition_index=partition, timestamp=when)
            topics = [R.ListOffsetsTopic(name=name, partitions=[each])]
            alike(twins, R(replica_id=-1, topics=topics, timeout_ms=0), version)
    twice = [R.ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
    alike(twins, R(replica_id=-1, topics=[R.ListOffsetsTopic(name="flights", partitions=twice)]), version)


@pytest.mark.parametrize("version", range(2, 5))
def test_ends_of_epochs_are_alike(twins: Twins, version: int) -> None:
    R = m.OffsetForLeaderEpochRequest
    for epoch in (-1, 0, 1):
        for current in (-1, 0, 1):
            for name, partition in (("flights", 0), ("flights", 1), ("flights", 9), ("missing", 0)):
                each = R.OffsetForLeaderPartition(
                    partition=partition, leader_epoch=epoch, current_leader_epoch=current
                )
                request = R(topics=[R.OffsetForLeaderTopic(topic=name, partitions=[each])])
                if version >= 3:
                    request.replica_id = -1
                alike(twins, request, version)


def test_producers_are_alike(twins: Twins) -> None:
    R = m.DescribeProducersRequest
    asked = [R.TopicRequest(name=name, partition_indexes=[0, 1, 9]) for name in ("flights", "missing", "a/b")]
    for topic in asked:
        alike(twins, R(topics=[topic]), 0)


def test_deletions_are_alike(twins: Twins) -> None:
    R = m.DeleteRecordsRequest
    for name, partition, offset in (
        ("flights", 0, 0),
        ("flights", 0, 1),
        ("flights", 0, 9),
        ("flights", 0, -2),
        ("flights", 1, -1),
        ("flights", 9, 0),
        ("missing", 0, 0),
        ("keyed", 0, 0),
        ("a/b", 0, 0),
    ):
        each = R.DeleteRecordsPartition(partition_index=partition, offset=offset)
        alike(twins, R(topics=[R.DeleteRecordsTopic(name=name, partitions=[each])], timeout_ms=5000), 2)


def test_sizes_are_alike(twins: Twins) -> None:
    R = m.DescribeLogDirsRequest
    topics = [R.DescribableLogDirTopic(topic=name, partitions=[0, 1, 9]) for name in ("flights", "missing")]
    kafkas, ours = twins.ask(R(topics=topics), 4)
    one, other = (plain(each.results[0].topics, OWN) for each in (kafkas, ours))
    by_partition = [
        {each["partition_index"]: each for topic in found for each in topic["partitions"]} for found in (one, other)
    ]
    assert by_partition[0] == by_partition[1]
    kafkas, ours = twins.ask(R(topics=[]), 4)
    assert (list(kafkas.results[0].topics), list(ours.results[0].topics)) == ([], [])
