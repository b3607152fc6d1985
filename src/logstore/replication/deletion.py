"""The end of a topic: it is asked for, each node deletes its replicas and says so, then the facts go.

The request is a fact below `facts.DELETED_TOPICS`, as Kafka's tools make it. A node says that it has deleted what
it had by a fact below the request. So nothing is forgotten when a node or a controller ends half way, and a topic
is not made again while a node that is away still has its records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import Change, Create, Delete, NodeId

#: A commit of ZooKeeper has at most 1 MB.
MOST_CHANGES = 1_000


def request_path(topic: str) -> str:
    return f"{facts.DELETED_TOPICS}/{topic}"


def confirmation(topic: str, node: NodeId) -> Create:
    """Return the change that says that a node has no record of a topic any more."""
    return Create(f"{request_path(topic)}/{node}", b"")


def is_confirmed(replicas: Iterable[Collection[NodeId]], confirmed: Collection[str]) -> bool:
    """Whether every node of some partitions is among the names below the request."""
    return all(str(node) in confirmed for nodes in replicas for node in nodes)


def facts_to_delete(
    topic: str, states: Mapping[TopicPartition, int], versions: Mapping[str, int], confirmed: Iterable[str]
) -> list[Change]:
    """Return the changes that remove a topic's facts, the request last.

    ``states`` has the versions of its partitions' states. While there are more than one commit can have, only they
    are removed: ask again. ``versions`` has those of the topic's fact, its settings' and the request's, by path.
    """
    gone: list[Change] = [Delete(facts.state_path(place), version) for place, version in sorted(states.items())]
    if len(gone) > MOST_CHANGES:
        return gone[:MOST_CHANGES]
    last = [Delete(f"{request_path(topic)}/{name}", 0) for name in sorted(confirmed)]
    paths = (facts.topic_path(topic), facts.config_path(topic))
    heads = [Delete(path, versions[path]) for path in paths if path in versions]
    return [*gone, *heads, *last, Delete(request_path(topic), versions[request_path(topic)])]
