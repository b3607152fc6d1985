"""ElectLeaders and ListPartitionReassignments: no leader is moved here; those who move replicas are told of it.

A node that is alone leads all partitions. Of a topic with replicas, its own node or a controller elects.
"""

from __future__ import annotations

from collections.abc import Sequence

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation
from logstore.broker.served import Served
from logstore.errors import UnknownTopicError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

#: Kafka's numbers for an election of the first replica, and of any replica that is there.
PREFERRED, UNCLEAN = 0, 1

_Elected = ElectLeadersResponse.ReplicaElectionResult
_Result = ElectLeadersResponse.PartitionResult
_Moving = ListPartitionReassignmentsResponse.OngoingTopicReassignment
_MovingPartition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


def elect_leaders(served: Served, request: Request, connection: ClientConnection) -> ElectLeadersResponse:
    """Say of each partition why no leader is elected; of all partitions at once, nothing is to be said."""
    asked = request.message
    assert isinstance(asked, ElectLeadersRequest)
    if not served.rights(request.client_id, connection).on_cluster(AclOperation.ALTER):
        code, message = codes.CLUSTER_AUTHORIZATION_FAILED, "the cluster may not be altered by this client"
        refused = [
            _Elected(
                topic=topic.topic,
                partition_result=[
                    _Result(partition_id=number, error_code=code, error_message=message)
                    for number in topic.partitions
                ],
            )
            for topic in asked.topic_partitions or ()
        ]
        return ElectLeadersResponse(error_code=code, replica_election_results=refused)
    known = asked.election_type in (PREFERRED, UNCLEAN)
    found = []
    for topic in asked.topic_partitions or ():
        results = []
        for number in topic.partitions:
            code = _code(served, topic.topic, number, asked.election_type) if known else codes.INVALID_REQUEST
            results.append(_Result(partition_id=number, error_code=code, error_message=None))
        found.append(_Elected(topic=topic.topic, partition_result=results))
    return ElectLeadersResponse(error_code=0 if known else codes.INVALID_REQUEST, replica_election_results=found)


def _code(served: Served, name: str, number: int, election_type: int) -> int:
    try:
        partitions = served.entry(name).partitions
    except UnknownTopicError:
        return codes.UNKNOWN_TOPIC_OR_PARTITION
    if not 0 <= number < partitions:
        return codes.UNKNOWN_TOPIC_OR_PARTITION
    state = served.state(name, number)
    if election_type == UNCLEAN:
        return codes.ELECTION_NOT_NEEDED if state.leader >= 0 else codes.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if state.leader >= 0 and state.leader == state.replicas[0]:
        return codes.ELECTION_NOT_NEEDED
    # Its nodes elect by themselves, or a controller does: it moves leaders back every few minutes.
    return codes.PREFERRED_LEADER_NOT_AVAILABLE


def list_partition_reassignments(
    served: Served, request: Request, connection: ClientConnection
) -> ListPartitionReassignmentsResponse:
    """Return the partitions whose replicas move from one node to another, of all or of those asked for."""
    asked = request.message
    assert isinstance(asked, ListPartitionReassignmentsRequest)
    if not served.rights(request.client_id, connection).on_cluster(AclOperation.DESCRIBE):
        R = ListPartitionReassignmentsResponse
        return R(
            error_code=codes.CLUSTER_AUTHORIZATION_FAILED,
            error_message="the cluster may not be described to this client",
            topics=[
                R.OngoingTopicReassignment(
                    name=topic.name,
                    partitions=[
                        R.OngoingPartitionReassignment(partition_index=each) for each in topic.partition_indexes
                    ],
                )
                for topic in asked.topics or ()
            ],
        )
    wanted: dict[str, Sequence[int]]
    if asked.topics is None:
        wanted = {name: range(entry.partitions) for name, entry in served.topics() if served.is_replicated(name)}
    else:
        wanted = {each.name: each.partition_indexes for each in asked.topics if _has_replicas(served, each.name)}
    found = []
    for name, numbers in wanted.items():
        moving = [each for number in numbers if (each := _moving(served, name, number)) is not None]
        if moving:
            found.append(_Moving(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=found)


def _has_replicas(served: Served, name: str) -> bool:
    return served.host.table.find(name) is not None and served.is_replicated(name)


def _moving(served: Served, name: str, number: int) -> _MovingPartition | None:
    state = served.state(name, number)
    if not state.adding and not state.removing:
        return None
    return _MovingPartition(
        partition_index=number,
        replicas=state.replicas,
        adding_replicas=state.adding,
        removing_replicas=state.removing,
    )
