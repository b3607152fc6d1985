"""The end of topics on one node: what is asked for is deleted here, confirmed, and the facts removed.

Where a controller rules, it removes the facts. Else the node does that finds every confirmation there.
"""

from __future__ import annotations

from collections.abc import Callable

from logstore.errors import StaleFactError
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import NodeId, Registry
from logstore.replication.deletion import confirmation, facts_to_delete, is_confirmed, request_path


class Deletions:
    """The part of one node in the deletion of topics. ``watch`` has a path read again after a change.

    ``delete`` deletes what the node has of a topic; it does nothing if that is gone.
    """

    def __init__(
        self,
        node: NodeId,
        watch: Callable[[Registry, str], object],
        delete: Callable[[str], object],
        *,
        is_controlled: bool,
    ) -> None:
        self._node = node
        self._watch = watch
        self._delete = delete
        self._is_controlled = is_controlled

    def go_on(self, registry: Registry) -> frozenset[str]:
        """Do what is to be done now; return the topics that go, of which nothing is to be made."""
        self._watch(registry, facts.DELETED_TOPICS)
        asked = registry.children(facts.DELETED_TOPICS)
        for topic in sorted(asked):
            self._watch(registry, request_path(topic))
            self._go_on(registry, topic)
        return asked

    def _go_on(self, registry: Registry, topic: str) -> None:
        fact = registry.read(facts.topic_path(topic))
        partitions = {} if fact is None else facts.decode_assignment(fact, needs_id=False).partitions
        confirmed = registry.children(request_path(topic))
        if any(self._node in replicas for replicas in partitions.values()) and str(self._node) not in confirmed:
            self._delete(topic)
            try:
                registry.commit([confirmation(topic, self._node)])
            except StaleFactError:
                pass  # an answer was lost, or the request is gone
            confirmed = registry.children(request_path(topic))
        if not self._is_controlled and is_confirmed(partitions.values(), confirmed):
            self._remove_facts(registry, topic, confirmed)

    def _remove_facts(self, registry: Registry, topic: str, confirmed: frozenset[str]) -> None:
        names = registry.children(f"{facts.topic_path(topic)}/partitions")
        places = [TopicPartition(topic, int(name)) for name in names]
        states = {place: fact.version for place in places if (fact := registry.read(facts.state_path(place)))}
        paths = (facts.topic_path(topic), facts.config_path(topic), request_path(topic))
        versions = {path: fact.version for path in paths if (fact := registry.read(path))}
        if request_path(topic) not in versions:
            return
        try:
            registry.commit(facts_to_delete(topic, states, versions, confirmed))
        except StaleFactError:
            pass  # another node does the same
