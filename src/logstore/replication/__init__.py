"""Replication: the interfaces that an embedder implements, the rules that stand above them, and the node.

`Node` replicates a store with those of other processes, over a `Transport` and a `Registry` that its user provides.
`InSyncReplica` are Kafka's rules as a state machine, `QuorumReplica` those of a majority. `LocalRegistry` is a
registry in memory, for one process; for a node alone it can be kept in its store.
"""

from logstore.metrics import ReplicaMetrics
from logstore.records import Acks
from logstore.replication.api import (
    NO_NODE,
    Change,
    Check,
    Create,
    Delete,
    Diverging,
    Fact,
    FetchAnswer,
    FetchFrom,
    FetchRefusal,
    LostRange,
    NodeId,
    PartitionState,
    Pending,
    Registry,
    RegistryWatch,
    Replica,
    Role,
    Standing,
    Transport,
    Watches,
    Write,
    check_path,
)
from logstore.replication.insync import InSyncReplica
from logstore.replication.local.local_registry import LocalRegistry
from logstore.replication.log_copy import LogCopy
from logstore.replication.node.node import Node
from logstore.replication.placement import Arrival, InSyncPlacement, Placement
from logstore.replication.quorum import QuorumPlacement, QuorumReplica
from logstore.replication.table_registry import TableRegistry
from logstore.replication.waiting_appends import WaitingAppends

__all__ = [
    "NO_NODE",
    "Acks",
    "Arrival",
    "Change",
    "Check",
    "Create",
    "Delete",
    "Diverging",
    "Fact",
    "FetchAnswer",
    "FetchFrom",
    "FetchRefusal",
    "InSyncPlacement",
    "InSyncReplica",
    "LocalRegistry",
    "LogCopy",
    "LostRange",
    "Node",
    "NodeId",
    "PartitionState",
    "Pending",
    "Placement",
    "QuorumPlacement",
    "QuorumReplica",
    "Registry",
    "RegistryWatch",
    "Replica",
    "ReplicaMetrics",
    "Role",
    "Standing",
    "TableRegistry",
    "Transport",
    "WaitingAppends",
    "Watches",
    "Write",
    "check_path",
]
