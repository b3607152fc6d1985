"""Rights of clients for tests: an authorizer that goes by a table, and requests of each key that need rights.

The requests are about the topics of `TOPICS`: ``own``, ``other``, ``missing`` and ``made``. Two of them exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from logstore.batch._encode import encode
from logstore.broker import AclOperation, Authorizer, ClientIdentity, ResourceType
from logstore.protocol.generated import messages as m
from logstore.protocol.message import Message

_A, _R = AclOperation, ResourceType

Rule = tuple[AclOperation, ResourceType, str]
Ids = Mapping[str, str]

TOPICS = ("own", "other")
CLUSTER = "kafka-cluster"

BATCH = bytes(encode([b"one", b"two"]))
#: With the bit of a transaction; its checksum is wrong, which is looked at later than rights.
TRANSACTIONAL = BATCH[:22] + bytes([BATCH[22] | 0x10]) + BATCH[23:]

#: As Kafka's ACLs: what is allowed with another operation.
_IMPLIED = {_A.DESCRIBE: {_A.READ, _A.WRITE, _A.DELETE, _A.ALTER}, _A.DESCRIBE_CONFIGS: {_A.ALTER_CONFIGS}}

OF_TOPIC = (
    _A.READ,
    _A.WRITE,
    _A.CREATE,
    _A.DELETE,
    _A.ALTER,
    _A.DESCRIBE,
    _A.DESCRIBE_CONFIGS,
    _A.ALTER_CONFIGS,
)
OF_CLUSTER = (
    _A.CREATE,
    _A.ALTER,
    _A.DESCRIBE,
    _A.CLUSTER_ACTION,
    _A.DESCRIBE_CONFIGS,
    _A.ALTER_CONFIGS,
    _A.IDEMPOTENT_WRITE,
)

#: User -> what it may do.
USERS: dict[str, list[Rule]] = {
    "nothing": [],
    "owner": [(each, _R.TOPIC, "own") for each in OF_TOPIC],
    "viewer": [(_A.DESCRIBE, _R.TOPIC, name) for name in ("own", "missing", "made")]
    + [(_A.READ, _R.TOPIC, "other")],
    "maker": [(_A.CREATE, _R.TOPIC, "made"), (_A.WRITE, _R.TOPIC, "other")],
    "operator": [(each, _R.CLUSTER, CLUSTER) for each in OF_CLUSTER],
}


class TableAuthorizer(Authorizer):
    """What goes by rules, which a test may change, and keeps what it was asked."""

    def __init__(self, rules: Iterable[Rule] = (), *, fails: bool = False) -> None:
        self.rules = set(rules)
        self.fails = fails
        self.fails_at = 0  #: the number of the question that it fails at
        self.asked: list[tuple[ClientIdentity, AclOperation, ResourceType, frozenset[str]]] = []

    def _may(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        ways = {operation} | _IMPLIED.get(operation, set())
        return any((each, resource_type, name) in self.rules for each in ways)

    def authorize(
        self, client: ClientIdentity, operation: AclOperation, resource_type: ResourceType, names: Collection[str]
    ) -> Collection[str]:
        self.asked.append((client, operation, resource_type, frozenset(names)))
        if self.fails or len(self.asked) == self.fails_at:
            raise OSError("the rules cannot be read")
        return [name for name in names if self._may(operation, resource_type, name)]

    def authorize_any(self, client: ClientIdentity, operation: AclOperation, resource_type: ResourceType) -> bool:
        return any(rule[:2] == (operation, resource_type) for rule in self.rules)


class Case(NamedTuple):
    """A request in one version; the ids of topics differ from broker to broker."""

    name: str
    version: int
    request: Callable[[Ids], Message]


def _produce(version: int, records: bytes = BATCH, user: str | None = None) -> Callable[[Ids], Message]:
    P = m.ProduceRequest

    def of(ids: Ids) -> Message:
        topics = []
        for name in (*TOPICS, "missing")[: 2 if version >= 13 else 3]:
            data = [P.PartitionProduceData(index=0, records=records)]
            key = {"topic_id": ids[name]} if version >= 13 else {"name": name}
            topics.append(P.TopicProduceData(partition_data=data, **key))
        return P(acks=-1, timeout_ms=5000, topic_data=topics, transactional_id=user)

    return of


def _fetch(version: int, replica: int = -1) -> Callable[[Ids], Message]:
    F = m.FetchRequest

    def of(ids: Ids) -> Message:
        topics = []
        for name in (*TOPICS, "missing")[: 2 if version >= 13 else 3]:
            partitions = [F.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)]
            key = {"topic_id": ids[name]} if version >= 13 else {"topic": name}
            topics.append(F.FetchTopic(partitions=partitions, **key))
        sender = {"replica_state": F.ReplicaState(replica_id=replica)} if version >= 15 else {"replica_id": replica}
        return F(max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=-1, topics=topics, **sender)

    return of


def _metadata(
    *names: str, by_id: bool = False, makes: bool = False, bits: bool = False
) -> Callable[[Ids], Message]:
    T = m.MetadataRequest.MetadataRequestTopic

    def of(ids: Ids) -> Message:
        wanted = [T(name=None, topic_id=ids[name]) if by_id else T(name=name) for name in names] or None
        return m.MetadataRequest(
            topics=wanted, allow_auto_topic_creation=makes, include_topic_authorized_operations=bits
        )

    return of


def _always(message: Message) -> Callable[[Ids], Message]:
    return lambda _: message


def _create() -> Message:
    topics = [
        m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("made", "own", "twice", "twice")
    ]
    return m.CreateTopicsRequest(topics=topics, validate_only=True, timeout_ms=5000)


def _delete(version: int) -> Callable[[Ids], Message]:
    D = m.DeleteTopicsRequest

    def of(ids: Ids) -> Message:
        if version < 6:
            return D(topic_names=["other", "missing"], timeout_ms=5000)
        by_name = [D.DeleteTopicState(name=name) for name in ("missing",)]
        return D(topics=[*by_name, D.DeleteTopicState(name=None, topic_id=ids["other"])], timeout_ms=5000)

    return of


def _offsets() -> Message:
    L = m.ListOffsetsRequest
    part = [L.ListOffsetsPartition(partition_index=0, timestamp=-2)]
    return L(topics=[L.ListOffsetsTopic(name=name, partitions=part) for name in ("own", "other", "missing")])


def _epochs() -> Message:
    E = m.OffsetForLeaderEpochRequest
    part = [E.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    topics = [E.OffsetForLeaderTopic(topic=name, partitions=part) for name in ("own", "other", "missing")]
    return E(replica_id=-1, topics=topics)


def _grow() -> Message:
    G = m.CreatePartitionsRequest
    topics = [G.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("own", "other", "missing")]
    return G(topics=topics, validate_only=True, timeout_ms=5000)


def _delete_records() -> Message:
    D = m.DeleteRecordsRequest
    part = [D.DeleteRecordsPartition(partition_index=0, offset=0)]
    topics = [D.DeleteRecordsTopic(name=name, partitions=part) for name in ("own", "other", "missing")]
    return D(topics=topics, timeout_ms=5000)


_RESOURCES = ((2, "own"), (2, "other"), (2, "missing"), (4, "1"))


def _describe_configs() -> Message:
    D = m.DescribeConfigsRequest
    wanted = [D.DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in _RESOURCES]
    return D(resources=wanted)


def _alter_configs() -> Message:
    A = m.AlterConfigsRequest
    setting = [A.AlterableConfig(name="retention.ms", value="86400000")]
    wanted = [
        A.AlterConfigsResource(resource_type=2, resource_name=name, configs=setting)
        for name in ("own", "other", "missing")
    ]
    return A(resources=wanted, validate_only=True)


def _incremental() -> Message:
    A = m.IncrementalAlterConfigsRequest
    setting = [A.AlterableConfig(name="retention.ms", config_operation=0, value="86400000")]
    wanted = [
        A.AlterConfigsResource(resource_type=2, resource_name=name, configs=setting)
        for name in ("own", "other", "missing")
    ]
    return A(resources=wanted, validate_only=True)


def _elect() -> Message:
    E = m.ElectLeadersRequest
    return E(election_type=0, topic_partitions=[E.TopicPartitions(topic="own", partitions=[0])], timeout_ms=5000)


def _moves() -> Message:
    L = m.ListPartitionReassignmentsRequest
    topics = [L.ListPartitionReassignmentsTopics(name="own", partition_indexes=[0])]
    return L(topics=topics, timeout_ms=5000)


def _producers() -> Message:
    D = m.DescribeProducersRequest
    return D(topics=[D.TopicRequest(name=name, partition_indexes=[0]) for name in ("own", "other", "missing")])


def _described(*names: str) -> Message:
    D = m.DescribeTopicPartitionsRequest
    return D(topics=[D.TopicRequest(name=name) for name in names], response_partition_limit=100)


CASES = [
    *(Case("produce", version, _produce(version)) for version in (3, 9, 13)),
    *(Case("produce in a transaction", version, _produce(version, TRANSACTIONAL, "tx")) for version in (3, 12)),
    *(Case("fetch", version, _fetch(version)) for version in (4, 12, 13, 17)),
    *(Case("fetch of a follower", version, _fetch(version, 2)) for version in (12, 17)),
    *(Case("offsets", version, _always(_offsets())) for version in (1, 7)),
    *(Case("metadata", version, _metadata("own", "other", "missing")) for version in (4, 9, 13)),
    Case("metadata of all", 12, _metadata()),
    Case("metadata by id", 12, _metadata("own", "other", by_id=True)),
    Case("metadata with rights", 9, _metadata("own", "other", "missing", bits=True)),
    Case("metadata of all with rights", 12, _metadata(bits=True)),
    Case(
        "rights on the cluster in metadata",
        9,
        _always(m.MetadataRequest(include_cluster_authorized_operations=True)),
    ),
    *(Case("topics made", version, _always(_create())) for version in (2, 5, 7)),
    *(Case("topics deleted", version, _delete(version)) for version in (1, 5, 6)),
    *(Case("records deleted", version, _always(_delete_records())) for version in (0, 2)),
    *(Case("producer id", version, _always(m.InitProducerIdRequest(transactional_id=None))) for version in (0, 4)),
    *(Case("epochs", version, _always(_epochs())) for version in (2, 4)),
    *(Case("settings", version, _always(_describe_configs())) for version in (1, 4)),
    *(Case("settings altered", version, _always(_alter_configs())) for version in (0, 2)),
    *(Case("settings changed", version, _always(_incremental())) for version in (0, 1)),
    *(Case("log directories", version, _always(m.DescribeLogDirsRequest(topics=None))) for version in (1, 4)),
    *(Case("partitions added", version, _always(_grow())) for version in (0, 3)),
    *(Case("elections", version, _always(_elect())) for version in (1, 2)),
    Case("moves", 0, _always(_moves())),
    *(
        Case("cluster", version, _always(m.DescribeClusterRequest(include_cluster_authorized_operations=True)))
        for version in (0, 1)
    ),
    Case("producers", 0, _always(_producers())),
    *(Case("resources", version, _always(m.ListConfigResourcesRequest())) for version in (0, 1)),
    Case("partitions", 0, _always(_described("own", "other", "missing"))),
    Case("partitions of all", 0, _always(_described())),
]

#: Asked for by one that may describe the topic and not make it.
MAKING = Case("metadata that makes", 9, _metadata("made", makes=True))
TRANSACTIONS = Case("transactional id", 4, _always(m.InitProducerIdRequest(transactional_id="tx")))
