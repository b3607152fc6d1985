"""Requests about the cluster: DescribeCluster and InitProducerId.

Each function returns the response to one request; it may run in the loop's thread or in the pool.
"""

from __future__ import annotations

import logging

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.served import Served
from logstore.errors import LogstoreError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_logger = logging.getLogger(__name__)


_BROKERS = 1
_CONTROLLERS = 2
#: Kafka's value of authorized operations that were not asked for.
NOT_ASKED = -(2**31)


def describe_cluster(served: Served, request: Request, connection: ClientConnection) -> DescribeClusterResponse:
    """Return the one node, at the address that the client has connected to."""
    asked = request.message
    assert isinstance(asked, DescribeClusterRequest)
    if asked.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=codes.MISMATCHED_ENDPOINT_TYPE
            if asked.endpoint_type == _CONTROLLERS
            else codes.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this endpoint is a broker's",
            endpoint_type=_BROKERS,
            cluster_authorized_operations=NOT_ASKED,
        )
    host, port = served.address_for(connection)
    return DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=served.cluster_id,
        controller_id=served.node,
        brokers=[DescribeClusterResponse.DescribeClusterBroker(broker_id=served.node, host=host, port=port)],
        cluster_authorized_operations=served.rights(request.client_id, connection).cluster_bits()
        if asked.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def init_producer_id(served: Served, request: Request, connection: ClientConnection) -> InitProducerIdResponse:
    """Return a new producer id with epoch 0, for an idempotent producer.

    Transactions are not served: a producer with a transactional id is told that there is no coordinator.
    """
    asked = request.message
    assert isinstance(asked, InitProducerIdRequest)
    rights = served.rights(request.client_id, connection)
    code = 0
    if asked.transactional_id is not None:
        if not rights.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id):
            code = codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not (
        rights.on_cluster(AclOperation.IDEMPOTENT_WRITE) or rights.on_any(AclOperation.WRITE, ResourceType.TOPIC)
    ):
        code = codes.CLUSTER_AUTHORIZATION_FAILED
    if code:
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    if asked.transactional_id is not None:
        return InitProducerIdResponse(error_code=codes.COORDINATOR_NOT_AVAILABLE, producer_epoch=-1)
    if (asked.producer_id == -1) != (asked.producer_epoch == -1):
        return InitProducerIdResponse(error_code=codes.INVALID_REQUEST, producer_epoch=-1)
    try:
        return InitProducerIdResponse(producer_id=served.host.next_producer_id(), producer_epoch=0)
    except LogstoreError as error:
        _logger.warning("no producer id: %s", error)
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
