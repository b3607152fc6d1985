"""A simulated cluster: replicas on disks in memory, a network and a registry with faults, in virtual time.

`live` runs one life of a `SimCluster` under `Faults`, and raises `InvariantError` if a promise is broken. A set of
rules of your own is put into it by two functions, and by its `Tolerance`.
"""

from logstore.testing.cluster.cluster import Faults, SimCluster, live
from logstore.testing.cluster.ledger import Acknowledged, InvariantError, Ledger
from logstore.testing.cluster.node import SimNode
from logstore.testing.cluster.scene import Tolerance

__all__ = ["Acknowledged", "Faults", "InvariantError", "Ledger", "SimCluster", "SimNode", "Tolerance", "live"]
