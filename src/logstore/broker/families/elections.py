"""ElectLeaders and ListPartitionReassignments of a node that is alone: it leads all partitions, and none moves."""

from __future__ import annotations

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


def elect_leaders(served: Served, request: Request, connection: ClientConnection) -> ElectLeadersResponse:
    """Say of each partition that its leader leads it already; of all partitions at once, nothing is to be said."""
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
            code = _code(served, topic.topic, number) if known else codes.INVALID_REQUEST
            results.append(_Result(partition_id=number, error_code=code, error_message=None))
        found.append(_Elected(topic=topic.topic, partition_result=results))
    return ElectLeadersResponse(error_code=0 if known else codes.INVALID_REQUEST, replica_election_results=found)


def _code(served: Served, name: str, number: int) -> int:
    try:
        partitions = served.entry(name).partitions
    except UnknownTopicError:
        return codes.UNKNOWN_TOPIC_OR_PARTITION
    return codes.ELECTION_NOT_NEEDED if 0 <= number < partitions else codes.UNKNOWN_TOPIC_OR_PARTITION


def list_partition_reassignments(
    served: Served, request: Request, connection: ClientConnection
) -> ListPartitionReassignmentsResponse:
    """Return that no partition moves from one node to another."""
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
    return ListPartitionReassignmentsResponse(error_message=None, topics=[])
