"""`Authorizer`: the contract of what decides which client of a broker may do what, and the values it is asked with.

Operations and types of resources have Kafka's numbers and meanings. No I/O; it imports nothing of the broker.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import NamedTuple

#: Kafka's name of the one resource of the type ``CLUSTER``.
CLUSTER_NAME = "kafka-cluster"


class AclOperation(enum.IntEnum):
    """What a client wants to do to a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9  #: what nodes of a cluster ask of each other, such as the fetch of a follower
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(enum.IntEnum):
    """What has a name, and rights."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4  #: the one of the name ``kafka-cluster``
    TRANSACTIONAL_ID = 5


class Principal(NamedTuple):
    """The user that a connection has logged in as."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


#: The user of a connection without a login.
ANONYMOUS = Principal("User", "ANONYMOUS")


class ClientIdentity(NamedTuple):
    """The client of one request."""

    principal: Principal
    listener: str  #: the name of the listener to which it has connected
    client_id: str | None  #: what it calls itself: any client may take any
    host: str  #: the address that it has connected from


class Authorizer(ABC):
    """What decides which client may do what; given to `serve`.

    The threads of the broker ask, several at once, for each request again. One of them is the thread of all
    connections: answer from memory, without waiting for a disk or a network. All questions about a request come
    before anything of it is done, but for the session of a fetch, which stays. An exception closes the connection
    of the request, of which nothing is done.

    A broker asks for the operation that Kafka's documentation names for each request, and derives none from others:
    where ``WRITE`` is to include ``DESCRIBE``, as by Kafka's ACLs, the authorizer says yes to both.
    """

    @abstractmethod
    def authorize(
        self, client: ClientIdentity, operation: AclOperation, resource_type: ResourceType, names: Collection[str]
    ) -> Collection[str]:
        """Return those of the named resources to which a client may do something. A name need not exist."""

    def authorize_any(
        self,
        client: ClientIdentity,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool:
        """Return whether there is any name to which a client may do something; by default there is none.

        A producer gets an id for idempotence if it may write to any topic, or has ``IDEMPOTENT_WRITE``.
        """
        return False
