"""What is known of a cluster: one immutable value, replaced as a whole.

A `KnownCluster` is made from the former one and an answer of a broker. It holds these rules:

- The leader epoch of a partition never falls while its topic has the same id. A broker that is behind cannot undo a
  newer leader.
- A partition never vanishes from a topic of the same id.
- Where an answer changes nothing, the same object is returned: readers compare by identity.

Constant data and pure functions. Any thread may read a value; one thread makes the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from logstore.config.remote import Address
from logstore.records import TopicPartition


class KnownBroker(NamedTuple):
    """A broker's address, and its rack if it has one."""

    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return self.host, self.port


class KnownPartition(NamedTuple):
    """Leader and replicas of a partition. ``leader`` is -1 while there is none, ``leader_epoch`` if not told."""

    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


class KnownTopic(NamedTuple):
    """A topic; ``id`` is empty if the brokers have no topic ids."""

    name: str
    id: str
    is_internal: bool
    partitions: Mapping[int, KnownPartition]


class NewLeader(NamedTuple):
    """The leader that a broker named beside an error (KIP-951)."""

    partition: TopicPartition
    leader: int
    leader_epoch: int


class TopicFault(NamedTuple):
    """A topic that a broker has refused. ``name`` or ``id`` is empty if the broker did not tell it."""

    name: str
    id: str
    code: int


class KnownCluster(NamedTuple):
    """Brokers, topics and the controller of one cluster."""

    cluster_id: str | None = None
    controller: int = -1
    brokers: Mapping[int, KnownBroker] = MappingProxyType({})
    topics: Mapping[str, KnownTopic] = MappingProxyType({})
    names: Mapping[str, str] = MappingProxyType({})  #: topic id -> name

    def leader(self, partition: TopicPartition) -> KnownPartition | None:
        """Return what is known of a partition; None if topic or partition is not known."""
        topic = self.topics.get(partition.topic)
        return topic and topic.partitions.get(partition.partition)

    def learnt(self, answer: Any, *, all_topics: bool = False) -> tuple[KnownCluster, list[TopicFault]]:
        """Return what is known after a Metadata answer, and the topics that it refuses.

        ``all_topics``: the answer is to a request for every topic, so a topic that is not in it was deleted. An
        answer without brokers comes from one that has just started: it changes nothing.
        """
        if not answer.brokers:
            return self, []
        base = self
        if None not in (self.cluster_id, answer.cluster_id) and self.cluster_id != answer.cluster_id:
            base = KnownCluster()  # leader epochs of another cluster mean nothing in this one
        faults, found = [], {}
        for each in answer.topics:
            name, topic_id = each.name or "", getattr(each, "topic_id", "")
            if each.error_code:
                faults.append(TopicFault(name, topic_id, each.error_code))
            else:
                found[name] = _topic_learnt(base.topics.get(name), each, name, topic_id)
        topics = dict(found) if all_topics else {**base.topics, **found}
        for fault in faults:
            if fault.name and _is_gone(fault, base.topics.get(fault.name)):
                topics.pop(fault.name, None)
        brokers = {each.node_id: KnownBroker(each.host, each.port, each.rack) for each in answer.brokers}
        return self._replaced(answer.cluster_id, answer.controller_id, brokers, topics), faults

    def led(self, leaders: Iterable[NewLeader], endpoints: Mapping[int, KnownBroker]) -> KnownCluster:
        """Return what is known after an answer that named new leaders, and the addresses of some of them (KIP-951).

        Only a leader epoch above the known one is taken, and only if the address of that leader is known.
        """
        brokers = dict(self.brokers)
        changed: dict[str, dict[int, KnownPartition]] = {}
        for partition, leader, leader_epoch in leaders:
            before = self.leader(partition)
            address = endpoints.get(leader, self.brokers.get(leader))
            if before is None or address is None or leader < 0 or leader_epoch <= before.leader_epoch:
                continue
            brokers[leader] = address
            theirs = changed.setdefault(partition.topic, dict(self.topics[partition.topic].partitions))
            theirs[partition.partition] = before._replace(leader=leader, leader_epoch=leader_epoch)
        topics = dict(self.topics)
        for name, partitions in changed.items():
            topics[name] = topics[name]._replace(partitions=MappingProxyType(partitions))
        return self._replaced(self.cluster_id, self.controller, brokers, topics)

    def without(self, names: Iterable[str]) -> KnownCluster:
        """Return what is known without some topics."""
        gone = set(names)
        topics = {name: topic for name, topic in self.topics.items() if name not in gone}
        return self._replaced(self.cluster_id, self.controller, self.brokers, topics)

    def _replaced(
        self,
        cluster_id: str | None,
        controller: int,
        brokers: Mapping[int, KnownBroker],
        topics: Mapping[str, KnownTopic],
    ) -> KnownCluster:
        made = KnownCluster(
            cluster_id,
            controller,
            MappingProxyType(dict(brokers)),
            # The same object where no topic has changed: readers compare it, too.
            self.topics if topics == self.topics else MappingProxyType(dict(topics)),
            MappingProxyType({topic.id: name for name, topic in topics.items() if topic.id}),
        )
        return self if made == self else made


def _is_gone(fault: TopicFault, before: KnownTopic | None) -> bool:
    """Whether a refused topic is no longer what was known; an answer by id speaks of that id alone."""
    return before is None or not fault.id or not before.id or fault.id == before.id


def _topic_learnt(before: KnownTopic | None, told: Any, name: str, topic_id: str) -> KnownTopic:
    if before is not None and before.id and topic_id and before.id != topic_id:
        before = None  # another topic of that name: its epochs and partitions begin again
    partitions = {} if before is None else dict(before.partitions)
    for each in told.partitions:
        number, epoch = each.partition_index, getattr(each, "leader_epoch", -1)
        known = partitions.get(number)
        if known is not None and 0 <= epoch < known.leader_epoch:
            continue  # a broker that is behind
        partitions[number] = KnownPartition(each.leader_id, epoch, tuple(each.replica_nodes), tuple(each.isr_nodes))
    return KnownTopic(name, topic_id, told.is_internal, MappingProxyType(partitions))
