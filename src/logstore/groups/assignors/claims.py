"""The partitions that members say they own, and which of these claims hold (KIP-54, KIP-341, KIP-792).

Two members may claim one partition: one of them has missed a round and does not know that it has lost it. The
generation of the group tells which claim is the newer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from logstore.groups.assignors.members import Members, Topics
from logstore.groups.offsets import java_hash
from logstore.records import TopicPartition


class OwnedClaim(NamedTuple):
    """What one member says it owns, by the round of that generation."""

    partitions: Sequence[TopicPartition]
    generation: int


class Claims(NamedTuple):
    """The claims of a group, compared.

    ``owned`` are those that hold. ``older`` has, for each partition, the newest claim of a member that has missed
    the last round, whether it holds or not. ``doubtful`` are the partitions that two members claim by the same
    generation.
    """

    owned: dict[str, list[TopicPartition]]
    older: dict[TopicPartition, str]
    doubtful: set[TopicPartition]


def java_buckets(count: int) -> Callable[[int], int]:
    """Return the function from a hash code to the bucket that it has in a HashMap of Java with so many entries."""
    size = 16
    while count > size * 3 // 4:
        size *= 2

    def bucket(hash_code: int) -> int:
        found = hash_code & 0xFFFFFFFF
        return (found ^ found >> 16) & size - 1

    return bucket


def java_map_order(names: Sequence[str]) -> list[str]:
    """Return names in the order in which Java's HashMap walks over them, if they were added in the given one.

    The leader's client keeps the members in such a map, and the order decides where two claims are equal.

    >>> java_map_order(["consumer-2", "consumer-1"])
    ['consumer-2', 'consumer-1']
    """
    bucket = java_buckets(len(names))
    return sorted(names, key=lambda name: bucket(java_hash(name)))


def compare(topics: Topics, members: Members, claims: Mapping[str, OwnedClaim]) -> Claims:
    """Return which claims hold.

    A claim by a later generation wins. Of two by the same generation neither holds: one of the two members is
    wrong, and the partition goes to any. Claims of partitions that are unknown do
    not count.
    """
    owner: dict[TopicPartition, str] = {}
    owned: dict[str, dict[TopicPartition, None]] = {}
    older: dict[TopicPartition, str] = {}
    doubtful: set[TopicPartition] = set()
    newest = max(claims[member_id].generation for member_id in members)
    for member_id in java_map_order([*members]):
        claim = claims[member_id]
        if claim.generation < newest:
            for partition in claim.partitions:
                before = older.get(partition)
                if before is None or claims[before].generation < claim.generation:
                    older[partition] = member_id
        owned[member_id] = {}
        for partition in claim.partitions:
            if partition.partition >= topics.get(partition.topic, 0):
                continue
            other = owner.get(partition)
            if other is not None and other != member_id:
                rival = members[other].generation  # that of the subscription, also where user data has another
                if claim.generation == rival:
                    # A third member may still claim it by a later generation, which then holds.
                    doubtful.add(partition)
                    owned[other].pop(partition, None)
                    owner[partition] = member_id
                    continue
                if claim.generation < rival:
                    continue
                owned[other].pop(partition, None)
            owner[partition] = member_id
            owned[member_id][partition] = None
    return Claims({member_id: [*found] for member_id, found in owned.items()}, older, doubtful)
