"""Seeded requests of each key but Produce and Fetch, in each version, to a real broker and to ours: alike answers.

The requests are good and bad, and make, change and delete topics on the way. What may differ stands in `OWN`,
`PLACE` and in the shapes of answers, with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import logstore
from logstore.broker import serve
from logstore.broker.requests import API_VERSIONS, FAMILIES, FETCH, PRODUCE
from logstore.protocol.generated import messages as m
from logstore.protocol.message import Message
from tests.broker.wire import Wire
from tests.interop.broker import Broker
from tests.interop.test_administration import OWN, PLACE, Twins, _leads, plain
from tests.interop.test_record_twins import UNKNOWN_ID, ids
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SEED = 2026
COUNT = 8
MOST_TOLD = 5
#: Until what Kafka's controller has changed is known to its broker.
SETTLED_S = 2
#: They stay; others are made and deleted.
KEPT = {"flights": 2, "keyed": 1}
MADE = ("made", "made-too", "made-again")
BAD = ("a/b", "", "..", "x" * 250)
SETTINGS = (("retention.ms", "5000"), ("retention.ms", "soon"), ("cleanup.policy", "compact"), ("no.such.key", "1"))


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
            R = m.CreateTopicsRequest
            for name, count in KEPT.items():
                compact = R.CreatableTopicConfig(name="cleanup.policy", value="compact")
                new = R.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                new.configs = [compact] if name == "keyed" else []
                for answer in made.ask(R(topics=[new]), 7):
                    assert answer.topics[0].error_code == 0
            wait_for(lambda: all(_leads(one, name, n) for name, count in KEPT.items() for n in range(count)))
            yield made


class Choices:
    """Chooses the fields of a request for one of the two: both get the same, but for ids of topics."""

    def __init__(self, seed: int, version: int, topic_ids: dict[str, str]) -> None:
        self.rng = Random(seed)
        self.version = version
        self.topic_ids = topic_ids

    def of(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def some(self, values: Any, most: int = 3) -> list[Any]:
        return self.rng.sample([*values], self.rng.randrange(1, most + 1))

    def id_of(self, name: str) -> str:
        return self.topic_ids.get(name, UNKNOWN_ID)


def metadata(choose: Choices) -> Message:
    R = m.MetadataRequest
    request = R()
    if choose.version >= 4:
        request.allow_auto_topic_creation = False
    if choose.version >= 8:
        request.include_topic_authorized_operations = choose.of(False, True)
    if 8 <= choose.version <= 10:
        request.include_cluster_authorized_operations = choose.of(False, True)
    # Before version 4 a name that is missing is made: Kafka's answer comes before it is, ours after it.
    names = [*KEPT, *BAD[:2], *(("missing",) if choose.version >= 4 else ())]
    kind = choose.of("named", "named", "named", "all", "none", "ids")
    if kind == "all" and choose.version:
        request.topics = None
    elif kind == "ids" and choose.version >= 12:
        names = [*KEPT, "missing"]
        request.topics = [R.MetadataRequestTopic(name=None, topic_id=choose.id_of(n)) for n in choose.some(names)]
    elif kind != "none":
        request.topics = [R.MetadataRequestTopic(name=name) for name in choose.some(names)]
    return request


def create_topics(choose: Choices) -> Message:
    R = m.CreateTopicsRequest
    topics = []
    for name in choose.some([*MADE, *KEPT, *BAD]):
        topic = R.CreatableTopic(name=name)
        topic.num_partitions = choose.of(1, 1, 2, -1 if choose.version >= 4 else 3, 0)
        topic.replication_factor = choose.of(1, 1, 1, -1 if choose.version >= 4 else 1, 2)
        if choose.of(0, 0, 1):
            key, value = choose.of(*SETTINGS)
            topic.configs = [R.CreatableTopicConfig(name=key, value=value)]
        topics.append(topic)
    if choose.of(0, 0, 0, 1):
        topics.append(topics[0])
    return R(topics=topics, timeout_ms=5_000, validate_only=choose.of(False, False, True))


def delete_topics(choose: Choices) -> Message:
    R = m.DeleteTopicsRequest
    names = choose.some([*MADE, "missing", "a/b"])
    request = R(timeout_ms=5_000)
    if choose.version < 6:
        request.topic_names = names
        return request
    if choose.of(0, 0, 0, 1):
        names.append(names[0])
    for name in names:
        if choose.of(0, 1):
            state = R.DeleteTopicState(name=None, topic_id=choose.id_of(name))
        else:
            state = R.DeleteTopicState(name=name)
        request.topics = [*request.topics, state]
    return request


def create_partitions(choose: Choices) -> Message:
    R = m.CreatePartitionsRequest
    topics = []
    for name in choose.some([*MADE, "missing", "keyed"]):
        assigned = choose.of(None, None, None, [R.CreatePartitionsAssignment(broker_ids=[choose.of(1, 7)])])
        topics.append(R.CreatePartitionsTopic(name=name, count=choose.of(1, 2, 3, 4, 0, -1), assignments=assigned))
    if choose.of(0, 0, 0, 1):
        topics.append(topics[0])
    return R(topics=topics, timeout_ms=5_000, validate_only=choose.of(False, True))


def list_offsets(choose: Choices) -> Message:
    R = m.ListOffsetsRequest
    topics = []
    for name in choose.some([*KEPT, "missing"], 2):
        each = R.ListOffsetsPartition(partition_index=choose.of(0, 0, 1, 9))
        each.timestamp = choose.of(-1, -2, -3, -4, -5, -6, 0, 1_500, 1 << 50)
        if choose.version >= 4:
            each.current_leader_epoch = choose.of(-1, -1, 0, 5)
        topics.append(R.ListOffsetsTopic(name=name, partitions=[each]))
    request = R(replica_id=-1, topics=topics)
    if choose.version >= 2:
        request.isolation_level = choose.of(0, 1)
    return request


def offset_for_leader_epoch(choose: Choices) -> Message:
    R = m.OffsetForLeaderEpochRequest
    topics = []
    for name in choose.some([*KEPT, "missing"], 2):
        each = R.OffsetForLeaderPartition(
            partition=choose.of(0, 0, 1, 9),
            leader_epoch=choose.of(-1, 0, 0, 3),
            current_leader_epoch=choose.of(-1, 0, 5),
        )
        topics.append(R.OffsetForLeaderTopic(topic=name, partitions=[each]))
    request = R(topics=topics)
    if choose.version >= 3:
        request.replica_id = -1
    return request


def delete_records(choose: Choices) -> Message:
    R = m.DeleteRecordsRequest
    each = R.DeleteRecordsPartition(partition_index=choose.of(0, 0, 1, 9), offset=choose.of(0, -1, -2, 5))
    name = choose.of("flights", "flights", "keyed", "missing", "a/b")
    return R(topics=[R.DeleteRecordsTopic(name=name, partitions=[each])], timeout_ms=5_000)


def describe_configs(choose: Choices) -> Message:
    R = m.DescribeConfigsRequest
    request = R(include_synonyms=choose.of(False, True))
    for name in choose.some([*KEPT, "missing", "a/b"]):
        keys = choose.of(
            ["cleanup.policy"], ["segment.bytes", "no.such.key"], ["cleanup.policy", "max.message.bytes"]
        )
        each = R.DescribeConfigsResource(resource_type=choose.of(2, 2, 2, 3), resource_name=name)
        each.configuration_keys = keys
        request.resources = [*request.resources, each]
    if choose.of(0, 0, 1):
        each = R.DescribeConfigsResource(resource_type=4, resource_name=choose.of("9", "one"))
        request.resources = [*request.resources, each]
    return request


def alter_configs(choose: Choices) -> Message:
    R = m.AlterConfigsRequest
    key, value = choose.of(*SETTINGS)
    each = R.AlterConfigsResource(resource_type=2, resource_name=choose.of("keyed", "missing", "a/b"))
    each.configs = [R.AlterableConfig(name=key, value=value)]
    return R(resources=[each], validate_only=True)


def incremental_alter_configs(choose: Choices) -> Message:
    R = m.IncrementalAlterConfigsRequest
    key, value = choose.of(*SETTINGS)
    each = R.AlterConfigsResource(resource_type=2, resource_name=choose.of("keyed", "missing", "a/b"))
    operation = choose.of(0, 0, 1, 2, 3)
    each.configs = [
        R.AlterableConfig(name=key, config_operation=operation, value=None if operation == 1 else value)
    ]
    return R(resources=[each], validate_only=True)


def describe_log_dirs(choose: Choices) -> Message:
    R = m.DescribeLogDirsRequest
    topics = [R.DescribableLogDirTopic(topic=name, partitions=[0, 9]) for name in choose.some([*KEPT, "missing"])]
    return R(topics=topics)


def describe_cluster(choose: Choices) -> Message:
    request = m.DescribeClusterRequest(include_cluster_authorized_operations=choose.of(False, True))
    if choose.version >= 1:
        request.endpoint_type = choose.of(1, 1, 2, 3)
    return request


def describe_producers(choose: Choices) -> Message:
    R = m.DescribeProducersRequest
    asked = [R.TopicRequest(name=choose.of(*KEPT, "missing", "a/b"), partition_indexes=[choose.of(0, 1, 9)])]
    return R(topics=asked)


def describe_topic_partitions(choose: Choices) -> Message:
    R = m.DescribeTopicPartitionsRequest
    names = choose.some([*KEPT, "missing", "a/b"])
    request = R(topics=[R.TopicRequest(name=name) for name in names])
    request.response_partition_limit = choose.of(2_000, 1, 2, 0)
    if choose.of(0, 0, 1):
        request.cursor = R.Cursor(topic_name=names[0], partition_index=choose.of(0, 1))
    return request


def elect_leaders(choose: Choices) -> Message:
    R = m.ElectLeadersRequest
    topic = R.TopicPartitions(topic=choose.of(*KEPT, "missing"), partitions=[choose.of(0, 9)])
    request = R(topic_partitions=[topic], timeout_ms=5_000)
    if choose.version >= 1:
        request.election_type = choose.of(0, 1)
    return request


def list_partition_reassignments(choose: Choices) -> Message:
    R = m.ListPartitionReassignmentsRequest
    topic = R.ListPartitionReassignmentsTopics(
        name=choose.of(*KEPT, "missing"), partition_indexes=[choose.of(0, 9)]
    )
    return R(topics=choose.of(None, [topic]), timeout_ms=5_000)


def list_config_resources(choose: Choices) -> Message:
    if not choose.version:
        return m.ListConfigResourcesRequest()
    return m.ListConfigResourcesRequest(resource_types=choose.of([2], [4], [2, 16], [9], [16]))


def init_producer_id(choose: Choices) -> Message:
    request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    if choose.version >= 3:
        request.producer_id = choose.of(-1, -1, 5)
        request.producer_epoch = choose.of(-1, -1, 3)
    return request


MAKE: dict[int, Callable[[Choices], Message]] = {
    2: list_offsets,
    3: metadata,
    19: create_topics,
    20: delete_topics,
    21: delete_records,
    22: init_producer_id,
    23: offset_for_leader_epoch,
    32: describe_configs,
    33: alter_configs,
    35: describe_log_dirs,
    37: create_partitions,
    43: elect_leaders,
    44: incremental_alter_configs,
    46: list_partition_reassignments,
    60: describe_cluster,
    61: describe_producers,
    74: list_config_resources,
    75: describe_topic_partitions,
}


def _sorted(values: list[Any], *fields: str) -> list[Any]:
    """Return what Kafka answers in the order of its tables, in one order."""
    return sorted(values, key=lambda each: [str(each[field]) for field in fields])


def told(key: int, answer: Any) -> Any:
    """Return what is compared of an answer."""
    found = plain(answer, OWN | set(PLACE))
    if key in (2, 3, 19, 75):
        found["topics"] = _sorted(found["topics"], "name")
    if key == 19:
        for topic in found["topics"]:
            topic.pop("configs", None)  # test_administration compares them
    if key in (20, 33, 44):
        found["responses"] = _sorted(found["responses"], *(["name"] if key == 20 else ["resource_name"]))
    if key in (32, 37):
        found["results"] = _sorted(found["results"], "name" if key == 37 else "resource_name")
    if key == 32:
        for result in found["results"]:
            for each in result["configs"]:
                each.pop("documentation", None)
            result["configs"] = _sorted(result["configs"], "name")
    if key == 35:
        for result in found["results"]:
            result["log_dir"] = ""
            for field in ("total_bytes", "usable_bytes"):
                result.pop(field, None)
            result["topics"] = _sorted(result["topics"], "name")
    if key == 43:
        found["replica_election_results"] = _sorted(found["replica_election_results"], "topic")
        for topic in found["replica_election_results"]:
            topic["partition_result"] = _sorted(topic["partition_result"], "partition_id")
    if key == 74:
        found["config_resources"] = _sorted(found["config_resources"], "resource_type", "resource_name")
    if key == 22:
        found["producer_id"] = found["producer_id"] >= 0
    return found


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Return each field that differs: where it is, what Kafka says, what we say."""
    if isinstance(one, dict) and isinstance(other, dict) and set(one) == set(other):
        return [line for name in one for line in differences(one[name], other[name], f"{where}.{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for n, pair in pairs for line in differences(*pair, f"{where}[{n}]")]
    return [] if one == other else [f"{where}: {one!r} {other!r}"]


def test_each_key_has_its_requests() -> None:
    assert set(MAKE) == set(FAMILIES) - {PRODUCE, FETCH, API_VERSIONS}


@pytest.mark.parametrize("key", MAKE)
def test_a_key_has_the_same_outcome_in_each_version(twins: Twins, key: int) -> None:
    family = FAMILIES[key]
    changes = key in (19, 20, 21, 37)
    rng = Random(SEED + key)
    found = []
    for version in range(family.min_version, family.max_version + 1):
        for _ in range(COUNT):
            if key in (20, 37):
                _made(twins, rng)
            seed = rng.getrandbits(64)
            named = ids(twins.kafka), ids(twins.ours)
            requests = [MAKE[key](Choices(seed, version, each)) for each in named]
            answers: list[Any] = []

            def same(requests: list[Message] = requests, version: int = version, into: list[Any] = answers) -> bool:
                into[:] = [told(key, wire.ask(each, version)) for wire, each in zip(twins, requests, strict=True)]
                return bool(into[0] == into[1])

            if changes:
                same()
                _known(twins)
            else:
                try:
                    wait_for(same, SETTLED_S)
                except AssertionError:
                    pass
            if answers[0] != answers[1]:
                found.append((version, requests[0], differences(answers[0], answers[1])))
            if len(found) == MOST_TOLD:
                pytest.fail("\n".join(map(str, found)), pytrace=False)
    assert found == []


def _made(twins: Twins, rng: Random) -> None:
    """Make a topic that a request may be about, if it is not there."""
    new = m.CreateTopicsRequest.CreatableTopic(name=rng.choice(MADE), num_partitions=2, replication_factor=1)
    codes = {answer.topics[0].error_code for answer in twins.ask(m.CreateTopicsRequest(topics=[new]), 7)}
    assert len(codes) == 1
    _known(twins)


def _known(twins: Twins) -> None:
    """Wait until Kafka's broker knows the topics that its controller has made or deleted."""
    wait_for(lambda: set(ids(twins.kafka)) == set(ids(twins.ours)), SETTLED_S, lambda: str([*map(ids, twins)]))


@pytest.mark.parametrize("version", range(FAMILIES[API_VERSIONS].max_version + 1))
def test_the_versions_of_each_key_are_those_of_kafka(twins: Twins, version: int) -> None:
    request = m.ApiVersionsRequest()
    if version >= 3:
        request.client_software_name, request.client_software_version = "test", "1"
    kafkas, ours = twins.ask(request, version)
    assert (kafkas.error_code, ours.error_code) == (0, 0)
    theirs = {each.api_key: (each.min_version, each.max_version) for each in kafkas.api_keys}
    told = {each.api_key: (each.min_version, each.max_version) for each in ours.api_keys}
    assert {key: (theirs[key], span) for key, span in told.items() if theirs[key] != span} == {}
