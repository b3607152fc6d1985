"""Replication: the interfaces that an embedder implements, and the rules that stand above them.

`api` has the interfaces. `local_registry` is a registry in memory, for one process.
"""

from logstore.replication.api import (
    Change,
    Check,
    Create,
    Delete,
    Fact,
    NodeId,
    Registry,
    RegistryWatch,
    Transport,
    Write,
)
from logstore.replication.local_registry import LocalRegistry

__all__ = [
    "Change",
    "Check",
    "Create",
    "Delete",
    "Fact",
    "LocalRegistry",
    "NodeId",
    "Registry",
    "RegistryWatch",
    "Transport",
    "Write",
]
