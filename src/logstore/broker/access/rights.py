"""`Rights`: what the client of one request may do; every family asks here, before it does anything.

Without an authorizer the answer is yes, and costs nothing. Any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from logstore.broker.access.authorizer import (
    CLUSTER_NAME,
    AclOperation,
    Authorizer,
    ClientIdentity,
    ResourceType,
)

_logger = logging.getLogger(__name__)

_O = AclOperation

#: The operations that there are on each type of resource, as Kafka's ACLs have them.
_OPERATIONS = {
    ResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DESCRIBE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
        _O.ALTER,
        _O.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE),
}

_NONE: frozenset[str] = frozenset()


class Rights:
    """What one client may do. Each method raises what the authorizer raises, which is logged here."""

    __slots__ = ("_authorizer", "_client")

    def __init__(self, authorizer: Authorizer | None, client: ClientIdentity) -> None:
        self._authorizer = authorizer
        self._client = client

    def denied(self, operation: AclOperation, resource_type: ResourceType, names: Iterable[str]) -> frozenset[str]:
        """Return those of the named resources to which the client may not do something."""
        if self._authorizer is None:
            return _NONE
        asked = frozenset(names)
        if not asked:
            return _NONE
        try:
            return asked.difference(self._authorizer.authorize(self._client, operation, resource_type, asked))
        except Exception:
            self._log(operation, resource_type)
            raise

    def allows(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may do something to one resource."""
        return not self.denied(operation, resource_type, (name,))

    def on_cluster(self, operation: AclOperation) -> bool:
        """Return whether the client may do something to the cluster as a whole."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def on_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether there is any name to which the client may do something."""
        if self._authorizer is None:
            return True
        try:
            return self._authorizer.authorize_any(self._client, operation, resource_type)
        except Exception:
            self._log(operation, resource_type)
            raise

    def bits_of(self, resource_type: ResourceType, names: Iterable[str]) -> dict[str, int]:
        """Return all that the client may do to each resource: a bit for each operation, by its number (KIP-430).

        One question is asked for each operation.
        """
        found = dict.fromkeys(names, 0)
        for operation in _OPERATIONS[resource_type]:
            denied = self.denied(operation, resource_type, found)
            for name in found:
                found[name] |= 0 if name in denied else 1 << operation
        return found

    def cluster_bits(self) -> int:
        """Return all that the client may do to the cluster; 0 for one that may not describe it, as from Kafka."""
        if not self.on_cluster(AclOperation.DESCRIBE):
            return 0
        return self.bits_of(ResourceType.CLUSTER, (CLUSTER_NAME,))[CLUSTER_NAME]

    def _log(self, operation: AclOperation, resource_type: ResourceType) -> None:
        _logger.exception(
            "authorizer failed, the request is refused: client=%s principal=%s operation=%s resource=%s",
            self._client.host,
            self._client.principal,
            operation.name,
            resource_type.name,
        )
