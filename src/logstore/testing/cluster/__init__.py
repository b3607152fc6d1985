"""A simulated cluster: replicas on disks in memory, a network and a registry with faults, in virtual time.

`live` runs one life of a `SimCluster` under `Faults`, and raises `InvariantError` if a promise is broken. A set of
rules of your own is put into it by two functions, and by its `Tolerance`.
"""

from logstore.testing.cluster.cluster import SimCluster
from logstore.testing.cluster.ledger import Acknowledged, InvariantError, Ledger
from logstore.testing.cluster.life import Faults, live
from logstore.testing.cluster.node import SimNode
from logstore.testing.cluster.scene import FaultCounts, Tolerance

__all__ = [
    "Acknowledged",
    "FaultCounts",
    "Faults",
    "InvariantError",
    "Ledger",
    "SimCluster",
    "SimNode",
    "Tolerance",
    "live",
]
