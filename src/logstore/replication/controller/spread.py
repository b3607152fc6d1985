"""Where the replicas of new partitions go: leaders and replicas spread evenly over nodes, and over racks.

The order of Kafka's assignment (KIP-36): nodes stand in a circle in which racks take turns, and the leaders go
round it. The followers of a partition stand at distances that grow by one with each round, so that the load of a
lost leader is shared by many.
"""

from __future__ import annotations

from collections.abc import Mapping

from logstore.errors import InvalidSettingError
from logstore.replication.api import NodeId


def spread(
    partitions: int, factor: int, racks: Mapping[NodeId, str | None], *, first: int = 0
) -> list[tuple[NodeId, ...]]:
    """Return the replicas of each new partition, the preferred leader first.

    ``racks`` has the nodes, each with its rack; a node without one is a rack of its own. No two replicas are in the
    same rack while there are others. ``first`` is where in the `circle` the leaders begin: a random number for a
    new topic, the number of partitions for one that grows.

    >>> spread(3, 2, {1: "a", 2: "b", 3: "c"})
    [(1, 2), (2, 3), (3, 1)]

    Raises:
        InvalidSettingError: there are less nodes than replicas.
    """
    if not 1 <= factor <= len(racks):
        raise InvalidSettingError(
            {"replication.factor": f"{factor} replicas need as many nodes, and {len(racks)} live: {sorted(racks)}"}
        )
    nodes = circle(racks)
    rack_of = {node: (racks[node], -1) if racks[node] is not None else (None, node) for node in nodes}
    rack_count = len(set(rack_of.values()))
    size = len(nodes)
    assigned = []
    for partition in range(partitions):
        leader = (first + partition) % size
        shift = (first + partition) // size
        chosen = [nodes[leader]]
        racks_left = rack_count - 1
        used = {rack_of[nodes[leader]]}
        step = 0
        while len(chosen) < factor:
            node = nodes[(leader + 1 + (shift + step) % (size - 1)) % size]
            step += 1
            if node in chosen or (racks_left and rack_of[node] in used):
                continue
            chosen.append(node)
            if rack_of[node] not in used:
                used.add(rack_of[node])
                racks_left -= 1
        assigned.append(tuple(chosen))
    return assigned


def circle(racks: Mapping[NodeId, str | None]) -> list[NodeId]:
    """Return the nodes in the order in which they lead new partitions: racks take turns."""
    by_rack: dict[tuple[str, NodeId], list[NodeId]] = {}
    for node in sorted(racks):
        rack = racks[node]
        by_rack.setdefault(("", node) if rack is None else (rack, -1), []).append(node)
    ordered = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, ordered))
    return [nodes[turn] for turn in range(longest) for nodes in ordered if turn < len(nodes)]
