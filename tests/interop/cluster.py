"""A real Kafka of several brokers, each in a rack of its own: three unless a test asks for another number.

`Cluster` starts the brokers of `tests.interop.broker`, moves leaders and coordinators between them, stops, kills
and starts one of them, and gives users their ACLs. Its questions go to the plain listeners and take milliseconds,
since they need no Java. Each broker has a heap of 512 MiB.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from logstore.protocol import codes
from logstore.protocol.frames import decode_response, encode_request, frame_size
from logstore.protocol.generated import messages as m
from tests.interop.broker import Broker, BrokerFailedError, Seat, free_ports, new_cluster_id
from tests.kit.waiting import wait_for

RACKS = ("rack-a", "rack-b", "rack-c")
OFFSETS = "__consumer_offsets"

#: How long brokers and leaders may take for what was asked of them.
CHANGE_S = 90
ASK_S = 30

#: The versions that are asked for: Kafka 4.3.1 knows them.
_VERSIONS = {
    m.MetadataRequest: 12,
    m.FindCoordinatorRequest: 4,
    m.CreateTopicsRequest: 7,
    m.AlterPartitionReassignmentsRequest: 0,
    m.ElectLeadersRequest: 2,
    m.DescribeAclsRequest: 3,
    m.CreateAclsRequest: 3,
}

# Kafka's numbers in ACLs.
OPERATIONS = {
    "All": 2,
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}
RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5}
_DENY, _ALLOW, _LITERAL, _ANY = 2, 3, 3, 1

Partition = m.MetadataResponse.MetadataResponsePartition


class Cluster:
    """Brokers by their numbers, from 1 on; each is broker and controller, so two of three keep the cluster alive.

    ``racks`` has one name for each broker. The other arguments are those of `Broker`, and the same for all. A topic
    has a copy on each of three brokers; a fetch from a near replica is allowed (KIP-392).

    Owns: the processes, which end with its ``with`` block.
    """

    def __init__(
        self,
        directory: Path,
        *,
        racks: Iterable[str] = RACKS,
        properties: Mapping[str, object] | None = None,
        **more: Any,
    ) -> None:
        places = tuple(racks)
        controllers, cluster_id = tuple(free_ports(len(places))), new_cluster_id()
        self._copies = min(3, len(places))

        def made(node: int) -> Broker:
            settings = {
                "broker.rack": places[node - 1],
                "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
                "default.replication.factor": self._copies,
                "offsets.topic.num.partitions": 4,
                # A broker that was killed is noticed sooner than after Kafka's 9 s.
                "broker.session.timeout.ms": 5_000,
                "broker.heartbeat.interval.ms": 500,
                # Leaders move when the test says so.
                "auto.leader.rebalance.enable": "false",
                **(properties or {}),
            }
            seat = Seat(node, controllers, cluster_id)
            return Broker(directory / f"broker-{node}", properties=settings, seat=seat, **more)

        with ThreadPoolExecutor(len(places)) as threads:
            self.brokers = dict(enumerate(threads.map(made, range(1, len(places) + 1)), 1))

    @property
    def bootstrap(self) -> str:
        """The plain listeners of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def address(self, listener: str) -> str:
        """One of the further listeners, of all brokers."""
        return ",".join(broker.address(listener) for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        """The brokers that run."""
        return [node for node, broker in self.brokers.items() if broker.is_running]

    # -- brokers -------------------------------------------------------------------------------------

    def start(self, *nodes: int) -> None:
        """Start brokers, or all, and wait until they have caught up with the leaders of their partitions."""
        wanted = nodes or tuple(self.brokers)
        for node in wanted:
            self.brokers[node].launch()
        for node in wanted:
            self.brokers[node].await_answer()
        wait_for(lambda: self._all_know(set(self.running)), CHANGE_S, self._state, every_s=0.1)
        wait_for(lambda: self._are_in_sync(wanted), CHANGE_S, self._state, every_s=0.1)

    def stop(self, node: int) -> None:
        """Have a broker give its leaders away and shut down, and wait until the others know."""
        self.brokers[node].stop()
        self._await_loss(node)

    def kill(self, node: int) -> None:
        """End a broker as a crash would, and wait until the others have taken its leaders over."""
        self.brokers[node].kill()
        self._await_loss(node)

    def _await_loss(self, node: int) -> None:
        """With fewer than two of three brokers there is no controller: none learns of the loss."""
        if len(self.running) * 2 > len(self.brokers):
            wait_for(lambda: self._is_without(node), CHANGE_S, self._state, every_s=0.1)

    def _all_know(self, nodes: set[int]) -> bool:
        return all({each.node_id for each in self._metadata(node, []).brokers} == nodes for node in nodes)

    def _are_in_sync(self, nodes: Iterable[int]) -> bool:
        return all(
            set(nodes) & set(partition.replica_nodes) <= set(partition.isr_nodes)
            for node in self.running
            for topic in self._metadata(node, None).topics
            for partition in topic.partitions
        )

    def _is_without(self, lost: int) -> bool:
        """Whether no running broker knows the lost one, nor a partition that it leads."""
        for node in self.running:
            found = self._metadata(node, None)
            leaders = {each.leader_id for topic in found.topics for each in topic.partitions}
            if lost in leaders | {each.node_id for each in found.brokers}:
                return False
        return True

    def _state(self) -> str:
        """For a failure: which brokers run, what each tells, and what the first of them printed."""
        told = []
        for node in self.running:
            with contextlib.suppress(OSError):
                found = self._metadata(node, None)
                leaders = {topic.name: [each.leader_id for each in topic.partitions] for topic in found.topics}
                told.append(f"broker {node} knows {sorted(each.node_id for each in found.brokers)}, {leaders}")
        return "\n".join([f"brokers {self.running} run", *told, *(self.brokers[n].tail(20) for n in self.running)])

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        # The last brokers could not shut down: a clean shutdown needs a controller, and that a majority.
        self._kill_all()

    def _kill_all(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    # -- questions -----------------------------------------------------------------------------------

    def ask(self, request: Any, node: int | None = None) -> Any:
        """Return the answer to a request of `_VERSIONS`, of one broker or of the first that runs.

        Raises:
            OSError: the broker does not answer.
        """
        version = _VERSIONS[type(request)]
        host, port = self.brokers[node or self.running[0]].bootstrap.split(":")
        with (
            socket.create_connection((host, int(port)), ASK_S) as connection,
            connection.makefile("rb") as arriving,
        ):
            connection.sendall(encode_request(request, version, 1, "bed"))
            frame = arriving.read(frame_size(arriving.read(4) or b"\0\0\0\0"))
        if not frame:
            raise ConnectionError("the broker closed the connection")
        return decode_response(request.API_KEY, version, frame).message

    def _metadata(self, node: int | None, topics: list[str] | None) -> m.MetadataResponse:
        """What a broker knows of the cluster and of topics, or of all for None."""
        wanted = None if topics is None else [m.MetadataRequest.MetadataRequestTopic(name=each) for each in topics]
        found = self.ask(m.MetadataRequest(topics=wanted, allow_auto_topic_creation=False), node)
        assert isinstance(found, m.MetadataResponse)
        return found

    def partitions(self, topic: str, node: int | None = None) -> dict[int, Partition]:
        """Leader, copies and in-sync copies of each partition, as one broker knows them."""
        (found,) = self._metadata(node, [topic]).topics
        return {each.partition_index: each for each in found.partitions}

    def racks(self) -> dict[int, str | None]:
        """The rack of each broker, as clients learn it."""
        return {each.node_id: each.rack for each in self._metadata(None, []).brokers}

    def create(self, topic: str, partitions: int = 1, **settings: str | int) -> None:
        """Create a topic with a copy on each of three brokers, known to all; dots in settings are underscores."""
        Topic, Config = m.CreateTopicsRequest.CreatableTopic, m.CreateTopicsRequest.CreatableTopicConfig
        configs = [Config(name=key.replace("_", "."), value=str(value)) for key, value in settings.items()]
        new = Topic(name=topic, num_partitions=partitions, replication_factor=self._copies, configs=configs)
        (made,) = self.ask(m.CreateTopicsRequest(topics=[new], timeout_ms=ASK_S * 1_000)).topics
        _check(made.error_code, f"create {topic}", made.error_message)

        def is_known() -> bool:
            found = [self.partitions(topic, node) for node in self.running]
            return all(len(each) == partitions and all(p.leader_id > 0 for p in each.values()) for each in found)

        wait_for(is_known, CHANGE_S, self._state, every_s=0.05)

    # -- moves ---------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition; -1 while there is none."""
        return self.partitions(topic)[partition].leader_id

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make a broker the leader of a partition, and wait until all brokers know it.

        The broker must have a copy in sync. It becomes the first of the partition's copies, and is elected.
        """
        copies = list(self.partitions(topic)[partition].replica_nodes)
        if to not in copies:
            raise BrokerFailedError(f"{topic}-{partition}: broker {to} has no copy; copies are at {copies}")
        copies.sort(key=lambda node: node != to)
        Assigned = m.AlterPartitionReassignmentsRequest.ReassignablePartition
        Of = m.AlterPartitionReassignmentsRequest.ReassignableTopic
        wanted = Of(name=topic, partitions=[Assigned(partition_index=partition, replicas=copies)])
        told = self.ask(m.AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=ASK_S * 1_000))
        _check(told.error_code, "reassign", told.error_message)
        for each in _inner(told.responses, "partitions"):
            _check(each.error_code, f"reassign {topic}-{partition}", each.error_message)
        elected = m.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])
        answer = self.ask(m.ElectLeadersRequest(topic_partitions=[elected], timeout_ms=ASK_S * 1_000))
        _check(answer.error_code, "elect", None)
        for each in _inner(answer.replica_election_results, "partition_result"):
            if codes.name_of(each.error_code) != "ELECTION_NOT_NEEDED":
                _check(each.error_code, f"elect for {topic}-{partition}", each.error_message)

        def all_know() -> bool:
            return all(self.partitions(topic, node)[partition].leader_id == to for node in self.running)

        wait_for(all_know, CHANGE_S, self._state, every_s=0.02)

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a group; -1 while there is none. The first call makes the offsets topic."""
        request = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        (found,) = self.ask(request).coordinators
        return -1 if found.error_code else found.node_id

    def move_coordinator(self, group: str, to: int) -> None:
        """Make a broker the coordinator of a group: the leader of the group's partition of the offsets topic."""
        wait_for(lambda: self.coordinator(group) > 0, CHANGE_S, self._state, every_s=0.05)
        self.move_leader(OFFSETS, _hash(group) % len(self.partitions(OFFSETS)), to)
        wait_for(lambda: self.coordinator(group) == to, CHANGE_S, self._state, every_s=0.02)

    # -- ACLs ----------------------------------------------------------------------------------------

    def allow(self, user: str, *operations: str, **resource: str) -> None:
        """Let a user do operations of `OPERATIONS`, and wait until all brokers know it.

        ``resource`` is ``topic=``, ``group=``, ``transactional_id=`` with a name, or ``*`` for all; or
        ``cluster="kafka-cluster"``.
        """
        self._rule(_ALLOW, user, operations, resource)

    def deny(self, user: str, *operations: str, **resource: str) -> None:
        """Forbid a user operations, whatever allows them; as `allow`."""
        self._rule(_DENY, user, operations, resource)

    def _rule(self, kind: int, user: str, operations: Iterable[str], resource: Mapping[str, str]) -> None:
        ((of, name),) = resource.items()
        numbers = {OPERATIONS[each] for each in operations}
        rules = [
            m.CreateAclsRequest.AclCreation(
                resource_type=RESOURCES[of],
                resource_name=name,
                resource_pattern_type=_LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=number,
                permission_type=kind,
            )
            for number in numbers
        ]
        for each in self.ask(m.CreateAclsRequest(creations=rules)).results:
            _check(each.error_code, f"ACL of {user}", each.error_message)
        question = m.DescribeAclsRequest(
            resource_type_filter=RESOURCES[of],
            resource_name_filter=name,
            pattern_type_filter=_LITERAL,
            principal_filter=f"User:{user}",
            host_filter=None,
            operation=_ANY,
            permission_type=kind,
        )

        def all_know() -> bool:
            found = [_inner(self.ask(question, node).resources, "acls") for node in self.running]
            return all(numbers <= {acl.operation for acl in each} for each in found)

        wait_for(all_know, CHANGE_S, every_s=0.02)


def _inner(outer: Iterable[Any], field: str) -> Iterator[Any]:
    return (each for one in outer for each in getattr(one, field))


def _check(code: int, what: str, message: str | None) -> None:
    if code:
        raise BrokerFailedError(f"{what}: {codes.name_of(code)} {message or ''}")


def _hash(text: str) -> int:
    """The absolute value of Java's hash of a text: it gives a group its partition of the offsets topic."""
    found = 0
    for unit in memoryview(text.encode("utf-16")[2:]).cast("H"):
        found = (31 * found + unit) & 0xFFFFFFFF
    signed = found - (found >> 31 << 32)
    return 0 if signed == -(1 << 31) else abs(signed)
