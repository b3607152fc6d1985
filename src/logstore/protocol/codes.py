"""Kafka's error codes: their names, whether a client may retry, and the error of logstore for each.

The table is that of the protocol guide ("Error Codes"), as in Kafka 4.3.1's client. A code that a caller would
handle separately becomes an error class of its own in `logstore.errors`; every other code becomes a `BrokerError`.
Constant data and pure functions; any thread may use them.
"""

from __future__ import annotations

from typing import NamedTuple

from logstore import errors
from logstore.errors import BrokerError, LogstoreError

UNKNOWN_SERVER_ERROR = -1
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
NETWORK_EXCEPTION = 13
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
NOT_CONTROLLER = 41
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
KAFKA_STORAGE_ERROR = 56
UNKNOWN_PRODUCER_ID = 59
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
OFFSET_NOT_AVAILABLE = 78
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103
FETCH_SESSION_TOPIC_ID_ERROR = 106
REBOOTSTRAP_REQUIRED = 129


class Code(NamedTuple):
    """Kafka's definition of one code."""

    name: str
    retriable: bool


#: Names in the order of their codes, from 0 on; a star marks those that Kafka's own clients retry.
_NAMES = """
NONE OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE* UNKNOWN_TOPIC_OR_PARTITION* INVALID_FETCH_SIZE LEADER_NOT_AVAILABLE*
NOT_LEADER_OR_FOLLOWER* REQUEST_TIMED_OUT* BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE* MESSAGE_TOO_LARGE
STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION* COORDINATOR_LOAD_IN_PROGRESS*
COORDINATOR_NOT_AVAILABLE* NOT_COORDINATOR* INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS*
NOT_ENOUGH_REPLICAS_AFTER_APPEND* INVALID_REQUIRED_ACKS ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL
INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE
TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP
UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS INVALID_PARTITIONS
INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER* INVALID_REQUEST
UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER
INVALID_PRODUCER_EPOCH INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT
CONCURRENT_TRANSACTIONS* TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED
OPERATION_NOT_ATTEMPTED KAFKA_STORAGE_ERROR* LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED UNKNOWN_PRODUCER_ID
REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND
DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED
DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND FETCH_SESSION_ID_NOT_FOUND*
INVALID_FETCH_SESSION_EPOCH* LISTENER_NOT_FOUND* TOPIC_DELETION_DISABLED FENCED_LEADER_EPOCH*
UNKNOWN_LEADER_EPOCH* UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE* MEMBER_ID_REQUIRED
PREFERRED_LEADER_NOT_AVAILABLE* GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID ELIGIBLE_LEADERS_NOT_AVAILABLE*
ELECTION_NOT_NEEDED* NO_REASSIGNMENT_IN_PROGRESS GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD
UNSTABLE_OFFSET_COMMIT* THROTTLING_QUOTA_EXCEEDED* PRODUCER_FENCED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE
UNACCEPTABLE_CREDENTIAL INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED
PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE UNKNOWN_TOPIC_ID*
DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED INCONSISTENT_TOPIC_ID* INCONSISTENT_CLUSTER_ID
TRANSACTIONAL_ID_NOT_FOUND FETCH_SESSION_TOPIC_ID_ERROR* INELIGIBLE_REPLICA NEW_LEADER_ELECTED
OFFSET_MOVED_TO_TIERED_STORAGE FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR
STALE_MEMBER_EPOCH MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID
UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE INVALID_REGISTRATION TRANSACTION_ABORTABLE INVALID_RECORD_STATE
SHARE_SESSION_NOT_FOUND* INVALID_SHARE_SESSION_EPOCH* FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER
VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION REBOOTSTRAP_REQUIRED STREAMS_INVALID_TOPOLOGY
STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED*
"""

#: All of Kafka's codes.
CODES: dict[int, Code] = {UNKNOWN_SERVER_ERROR: Code("UNKNOWN_SERVER_ERROR", False)} | {
    number: Code(name.rstrip("*"), name.endswith("*")) for number, name in enumerate(_NAMES.split())
}

#: Codes after which a batch may have been written.
MAYBE_WRITTEN = frozenset(
    {
        UNKNOWN_SERVER_ERROR,
        REQUEST_TIMED_OUT,
        NETWORK_EXCEPTION,
        NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KAFKA_STORAGE_ERROR,
    }
)

_CLASSES: dict[str, type[LogstoreError]] = {
    "OFFSET_OUT_OF_RANGE": errors.OffsetOutOfRangeError,
    "CORRUPT_MESSAGE": errors.CorruptRecordError,
    "UNKNOWN_TOPIC_OR_PARTITION": errors.UnknownTopicError,
    "MESSAGE_TOO_LARGE": errors.RecordTooLargeError,
    "RECORD_LIST_TOO_LARGE": errors.RecordTooLargeError,
    "INVALID_TOPIC_EXCEPTION": errors.InvalidTopicError,
    "NOT_ENOUGH_REPLICAS": errors.NotEnoughReplicasError,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": errors.NotEnoughReplicasAfterAppendError,
    "INVALID_TIMESTAMP": errors.InvalidTimestampError,
    "UNSUPPORTED_VERSION": errors.UnsupportedVersionError,
    "TOPIC_ALREADY_EXISTS": errors.TopicExistsError,
    "INVALID_PARTITIONS": errors.InvalidPartitionsError,
    "POLICY_VIOLATION": errors.PolicyViolationError,
    "INVALID_GROUP_ID": errors.InvalidGroupError,
    "OFFSET_METADATA_TOO_LARGE": errors.OffsetMetadataTooLargeError,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": errors.OutOfOrderSequenceError,
    "INVALID_PRODUCER_EPOCH": errors.ProducerFencedError,
    "PRODUCER_FENCED": errors.ProducerFencedError,
    "UNSUPPORTED_COMPRESSION_TYPE": errors.UnsupportedCodecError,
    "INVALID_RECORD": errors.InvalidRecordError,
    "UNKNOWN_TOPIC_ID": errors.UnknownTopicError,
    "INCONSISTENT_TOPIC_ID": errors.TopicRecreatedError,
    "SASL_AUTHENTICATION_FAILED": errors.AuthenticationError,
    "UNSUPPORTED_SASL_MECHANISM": errors.AuthenticationError,
    "ILLEGAL_SASL_STATE": errors.AuthenticationError,
}

_ADVICE = {
    "TOPIC_AUTHORIZATION_FAILED": "the broker's ACLs do not let this client do that to the topic",
    "GROUP_AUTHORIZATION_FAILED": "the broker's ACLs do not let this client use the group",
    "CLUSTER_AUTHORIZATION_FAILED": "the broker's ACLs do not let this client do that",
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than min.insync.replicas asks for",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "fewer replicas are in sync than min.insync.replicas asks for",
    "MESSAGE_TOO_LARGE": "raise max.message.bytes of the topic, or lower batch.size",
    "INVALID_RECORD": "a compacted topic takes no record without a key",
    "UNKNOWN_TOPIC_OR_PARTITION": "there is no such topic or partition",
    "KAFKA_STORAGE_ERROR": "the broker cannot use the disk of that partition",
    "INVALID_REPLICATION_FACTOR": "there are fewer brokers than that",
}


def name_of(code: int) -> str:
    """Return Kafka's name of a code, or ``ERROR_n`` for an unknown one.

    >>> name_of(6)
    'NOT_LEADER_OR_FOLLOWER'
    """
    known = CODES.get(code)
    return f"ERROR_{code}" if known is None else known.name


def is_retriable(code: int) -> bool:
    """Return whether Kafka's own clients retry after this code; False for an unknown code."""
    known = CODES.get(code)
    return known is not None and known.retriable


def error_of(code: int, where: str, detail: str | None = None) -> LogstoreError:
    """Return the error for a code; ``where`` names the request and the broker, ``detail`` is the broker's text.

    >>> error_of(29, "fetch of orders-0").name
    'TOPIC_AUTHORIZATION_FAILED'
    """
    name = name_of(code)
    said = detail or _ADVICE.get(name)
    message = f"{where}: {name} ({code})" + (f": {said}" if said else "")
    cls = _CLASSES.get(name)
    if cls is None:
        return BrokerError(message, code=code, name=name, retriable=is_retriable(code))
    error = cls(message)
    # The default of the class can differ: an unknown topic is retried, since a new topic may not be known to every
    # broker yet.
    error.retriable = is_retriable(code)  # type: ignore[misc]
    return error
