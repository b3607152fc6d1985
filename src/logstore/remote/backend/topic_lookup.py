"""What a member of a group asks brokers about topics: partition counts, racks, ids, and names by pattern.

One `TopicLookup` is one Metadata request. It has no socket, and is asked by the thread of `member_loop`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from logstore.protocol import codes
from logstore.protocol.generated.messages import MetadataRequest
from logstore.remote.network.link import BrokerLink

#: The first version in which topics are asked for by id.
_BY_ID = 12


class TopicsFound(NamedTuple):
    """What one answer says."""

    counts: dict[str, int]  #: 0 for a topic that does not exist
    racks: dict[str, Sequence[Collection[str]]]  #: the racks of each partition's replicas, where they are known
    names: dict[str, str]  #: topic id -> name
    internal: frozenset[str]
    refused: tuple[str, int] | None  #: a topic, and the code with which brokers keep it from this client

    def matching(self, pattern: re.Pattern[str], *, internal: bool) -> frozenset[str]:
        """Return the topics that exist and whose whole name matches."""
        return frozenset(
            name
            for name, count in self.counts.items()
            if count and pattern.fullmatch(name) and (internal or name not in self.internal)
        )


class TopicLookup:
    """A question about topics, of these names and ids, or of all."""

    def __init__(self, names: Iterable[str], ids: Iterable[str], *, everything: bool) -> None:
        self._names = sorted(names)
        self._ids = sorted(ids)
        self._everything = everything

    def request(self, connection: BrokerLink) -> tuple[MetadataRequest, int]:
        """Return the request for this connection, and its version."""
        version = connection.version_of(MetadataRequest)
        topics: list[MetadataRequest.MetadataRequestTopic] | None = None
        if not self._everything and (version >= _BY_ID or not self._ids):
            topic = MetadataRequest.MetadataRequestTopic
            topics = [topic(name=name) for name in self._names]
            topics += [topic(topic_id=each, name=None) for each in self._ids]
        # Brokers so old that they cannot be told create what is asked for; all topics are asked for there.
        if version < 4:
            topics = [] if version == 0 else None
        return MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4), version

    def read(self, answer: Any) -> TopicsFound:
        """Return what an answer says. What is missing in it is unknown, but a name that was asked for."""
        rack_of = {each.node_id: each.rack for each in answer.brokers}
        found = TopicsFound({}, {}, {}, frozenset(each.name for each in answer.topics if each.is_internal), None)
        for topic in answer.topics:
            name = topic.name
            error = codes.name_of(topic.error_code)
            if error == "UNKNOWN_TOPIC_OR_PARTITION" and name:
                found.counts[name] = 0
            elif error == "TOPIC_AUTHORIZATION_FAILED" and name in self._names:
                found = found._replace(refused=(name, topic.error_code))
            elif topic.error_code == 0:
                found.counts[name] = len(topic.partitions)
                if topic.topic_id:
                    found.names[topic.topic_id] = name
                found.racks[name] = [
                    {rack for node in each.replica_nodes if (rack := rack_of.get(node)) is not None}
                    for each in sorted(topic.partitions, key=lambda one: one.partition_index)
                ]
        answered = {topic.name for topic in answer.topics}
        found.counts.update((name, 0) for name in self._names if name not in answered)
        return found
