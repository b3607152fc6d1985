"""What a member of a group asks of its driver, as values.

The driver owns sockets, threads and the clock. It calls ``steps(now_ms)``, does what it is given in that order, and
tells the member the outcome: ``answered`` or ``failed`` for a `SendRequest`, ``finished`` for a callback. Callbacks
run in the application's thread, one at a time; the member goes on with heartbeats meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from logstore.errors import LogstoreError
from logstore.protocol.generated.messages import FindCoordinatorRequest, LeaveGroupRequest
from logstore.protocol.message import Message
from logstore.records import TopicPartition


class SendRequest(NamedTuple):
    """Send a request, and tell its answer by this number. An answer that comes late or twice may be told, too."""

    number: int
    message: Message
    node_id: int | None  #: the broker; None is any
    timeout_ms: int  #: after this time without an answer the driver calls ``failed``


class PartitionsRevoked(NamedTuple):
    """Call ``on_revoked``: these go to other members. The application holds them until ``finished``."""

    partitions: tuple[TopicPartition, ...]


class PartitionsAssigned(NamedTuple):
    """Call ``on_assigned``, and read these besides what is held. There may be none."""

    partitions: tuple[TopicPartition, ...]


class PartitionsLost(NamedTuple):
    """Stop reading these at once, then call ``on_lost``: other members may have them already."""

    partitions: tuple[TopicPartition, ...]


class TopicsWanted(NamedTuple):
    """Look up the number of partitions of these topics, and call ``topics_known``."""

    names: tuple[str, ...]


class TopicIdsWanted(NamedTuple):
    """Look up the names of these topic ids, and call ``topics_named``."""

    topic_ids: tuple[str, ...]


class MembershipFailed(NamedTuple):
    """Raise this error at the next poll. Unless it is final, the poll after that joins again."""

    error: LogstoreError
    is_final: bool


Callback: TypeAlias = PartitionsRevoked | PartitionsAssigned | PartitionsLost
MemberStep: TypeAlias = SendRequest | Callback | TopicsWanted | TopicIdsWanted | MembershipFailed


def in_version(message: Message, version: int) -> Message:
    """Return the message in the form that an older version has: one group or one member instead of a list.

    >>> in_version(FindCoordinatorRequest(coordinator_keys=["billing"]), 3).key
    'billing'
    """
    if isinstance(message, FindCoordinatorRequest) and version < 4:
        return FindCoordinatorRequest(key=message.coordinator_keys[0], key_type=message.key_type)
    if isinstance(message, LeaveGroupRequest) and version < 3:
        return LeaveGroupRequest(group_id=message.group_id, member_id=message.members[0].member_id)
    return message
