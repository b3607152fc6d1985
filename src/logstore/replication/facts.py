"""The facts of a cluster in its registry: their paths, and their values as bytes.

The tree is that of Kafka's ZooKeeper registry (2.8), so that Kafka's own tools read it::

    /brokers/ids/N                            ephemeral: the node lives; {"version": 4, "rack": "b"}, and ours:
                                               "directory_id"
    /brokers/lives/N                          ours: its version is the number of the node's newest registration
    /brokers/topics/T                         {"version": 3, "topic_id": "...", "partitions": {"0": [1, 2, 3]},
                                               "adding_replicas": {}, "removing_replicas": {}}
    /config/topics/T                          {"version": 1, "config": {"min.insync.replicas": "2"}}
    /brokers/topics/T/partitions/P/state      {"version": 1, "leader": 1, "leader_epoch": 4, "isr": [1, 2],
                                               "controller_epoch": 0}, and ours: "eligible", "last_leader",
                                               "replicas", "adding", "removing"
    /controller                               ephemeral: {"version": 1, "brokerid": 1, "timestamp": "..."}
    /controller_epoch                         the number of the newest controller's epoch, as text
    /isr_change_notification/isr_change_      a leader has changed an ISR: {"version": 1, "partitions": [...]}
    /admin/delete_topics/T                    the topic shall be deleted
    /admin/reassign_partitions                {"version": 1, "partitions": [{"topic": "T", "partition": 0,
                                               "replicas": [4, 5]}]}; no replicas: cancel what is under way
    /admin/preferred_replica_election         {"version": 1, "partitions": [{"topic": "T", "partition": 0}]}

Values are JSON. A value that is not ours is refused with its path; keys that are unknown here are left out.

The replicas of a partition stand in its topic's fact, for Kafka's tools, and in its state, which a node reads at
one moment. A state that a tool has made has none: then the topic's fact counts.

An ephemeral fact that is deleted and created again has version 0 each time, so a commit could not be made
conditional on it. Hence the lives: a fact that each registration of a node writes once more (KIP-903).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from logstore.errors import MalformedFactError, StaleFactError
from logstore.records import TopicPartition
from logstore.replication.api import (
    NO_NODE,
    Change,
    Check,
    Create,
    Fact,
    NodeId,
    PartitionState,
    Standing,
    Write,
)

IDS = "/brokers/ids"
REGISTRATIONS = "/brokers/lives"
TOPICS = "/brokers/topics"
CONFIGS = "/config/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
ISR_CHANGES = "/isr_change_notification"
DELETED_TOPICS = "/admin/delete_topics"
REASSIGNMENTS = "/admin/reassign_partitions"
PREFERRED_ELECTIONS = "/admin/preferred_replica_election"

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_NODE = re.compile(r"0|[1-9][0-9]{0,9}")
_LARGEST_NODE = 2**31 - 1


def id_path(node: NodeId) -> str:
    return f"{IDS}/{node}"


def life_path(node: NodeId) -> str:
    return f"{REGISTRATIONS}/{node}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def state_path(place: TopicPartition) -> str:
    return f"{TOPICS}/{place.topic}/partitions/{place.partition}/state"


def place_of(path: str) -> TopicPartition | None:
    """Return the partition whose state a path is; None if it is another fact's."""
    match path.split("/"):
        case ["", "brokers", "topics", topic, "partitions", partition, "state"] if _NODE.fullmatch(partition):
            return TopicPartition(topic, int(partition))
    return None


def node_of(name: str) -> NodeId | None:
    """Return the node that a name below `IDS` or `REGISTRATIONS` stands for; None if it is not ours."""
    if not _NODE.fullmatch(name) or int(name) > _LARGEST_NODE:
        return None
    return int(name)


def encode_node(directory_id: str, rack: str | None) -> bytes:
    """Encode a node's ephemeral fact."""
    return _encode({"version": 4, "directory_id": directory_id, **({} if rack is None else {"rack": rack})})


def rack_of(fact: Fact) -> str | None:
    """Return the rack that a node's ephemeral fact names; None if it names none.

    Raises:
        MalformedFactError: the fact is no node's.
    """
    rack = _decode(fact).get("rack")
    if rack is not None and not isinstance(rack, str):
        raise _malformed(fact, f"a rack {rack!r}")
    return rack


class Assignment(NamedTuple):
    """A topic's fact: its id in Kafka's text form, and each partition's replicas, the preferred leader first."""

    topic_id: str
    partitions: dict[int, tuple[NodeId, ...]]
    adding: Mapping[int, tuple[NodeId, ...]] = {}
    removing: Mapping[int, tuple[NodeId, ...]] = {}


def encode_assignment(
    topic_id: str,
    partitions: Mapping[int, Sequence[NodeId]],
    adding: Mapping[int, Sequence[NodeId]] | None = None,
    removing: Mapping[int, Sequence[NodeId]] | None = None,
) -> bytes:
    """Encode a topic's fact."""

    def listed(nodes: Mapping[int, Sequence[NodeId]] | None) -> dict[str, list[NodeId]]:
        return {str(partition): list(each) for partition, each in sorted((nodes or {}).items()) if each}

    return _encode(
        {
            "version": 3,
            "topic_id": topic_id,
            "partitions": listed(partitions),
            "adding_replicas": listed(adding),
            "removing_replicas": listed(removing),
        }
    )


def decode_assignment(fact: Fact, *, needs_id: bool = True) -> Assignment:
    """Decode a topic's fact; a tool of an old Kafka gives it no id: ``""`` with ``needs_id=False``.

    Raises:
        MalformedFactError: it is not one.
    """
    whole = _decode(fact)
    found, topic_id = whole.get("partitions"), whole.get("topic_id", None if needs_id else "")
    if topic_id is None or not isinstance(topic_id, str) or (topic_id and not _TOPIC_ID.fullmatch(topic_id)):
        raise _malformed(fact, f"a topic_id {topic_id!r}")
    if not isinstance(found, dict):
        raise _malformed(fact, "no partitions")
    partitions = {}
    for name, nodes in found.items():
        if not _NODE.fullmatch(name):
            raise _malformed(fact, f"a partition {name!r}")
        replicas = _nodes(fact, nodes, f"the replicas of partition {name}")
        if not replicas:
            raise _malformed(fact, f"no replicas of partition {name}")
        partitions[int(name)] = replicas
    if sorted(partitions) != list(range(len(partitions))) or not partitions:
        raise _malformed(fact, f"partitions {sorted(partitions)}")
    adding = _moved(fact, whole.get("adding_replicas"), partitions)
    return Assignment(topic_id, partitions, adding, _moved(fact, whole.get("removing_replicas"), partitions))


def config_path(topic: str) -> str:
    return f"{CONFIGS}/{topic}"


def encode_config(settings: Mapping[str, str]) -> bytes:
    """Encode a topic's settings."""
    return _encode({"version": 1, "config": dict(settings)})


def decode_config(fact: Fact | None) -> dict[str, str]:
    """Decode a topic's settings; none, if there is no fact.

    Raises:
        MalformedFactError: it is not one.
    """
    if fact is None:
        return {}
    found = _decode(fact).get("config")
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _malformed(fact, "no settings")
    return dict(found)


def encode_state(state: PartitionState) -> bytes:
    """Encode a partition's state."""
    return _encode(
        {
            "version": 1,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            "controller_epoch": state.controller_epoch,
            "eligible": list(state.eligible),
            "last_leader": state.last_leader,
            "replicas": list(state.replicas),
            **({"adding": list(state.adding)} if state.adding else {}),
            **({"removing": list(state.removing)} if state.removing else {}),
            **({"standings": {str(node): list(each) for node, each in state.standings}} if state.standings else {}),
        }
    )


def decode_state(fact: Fact, replicas: tuple[NodeId, ...]) -> PartitionState:
    """Decode a partition's state; ``replicas`` are those of its topic's fact, if it names none.

    Raises:
        MalformedFactError: it is not one, or its numbers contradict each other.
    """
    found = _decode(fact)
    replicas = _nodes(fact, found.get("replicas", list(replicas)), "the replicas")
    leader = _number(fact, found, "leader", NO_NODE)
    isr = _nodes(fact, found.get("isr"), "the isr")
    eligible = _nodes(fact, found.get("eligible", []), "the eligible replicas")
    state = PartitionState(
        replicas,
        isr=tuple(node for node in replicas if node in isr),
        leader=leader,
        leader_epoch=_number(fact, found, "leader_epoch", 0),
        eligible=tuple(node for node in replicas if node in eligible),
        last_leader=_number(fact, found, "last_leader", NO_NODE, default=leader),
        adding=_nodes(fact, found.get("adding", []), "the replicas to add"),
        removing=_nodes(fact, found.get("removing", []), "the replicas to remove"),
        controller_epoch=_number(fact, found, "controller_epoch", 0, default=0),
        standings=_standings(fact, found.get("standings", {})),
        version=fact.version,
    )
    if leader != NO_NODE and leader not in isr:
        raise _malformed(fact, f"a leader {leader} outside the isr {list(isr)}")
    if set(isr) & set(eligible):
        raise _malformed(fact, f"replicas both in the isr {list(isr)} and eligible {list(eligible)}")
    if not replicas or not {*state.adding, *state.removing} <= set(replicas):
        raise _malformed(fact, f"replicas {list(replicas)}, of which {state.adding} come and {state.removing} go")
    return state


def controller_of(fact: Fact | None) -> NodeId:
    """Return the node that the fact `CONTROLLER` names; `NO_NODE` without one."""
    return NO_NODE if fact is None else _number(fact, _decode(fact), "brokerid", 0)


def controller_epoch_of(fact: Fact | None) -> int:
    """Return the epoch of the newest controller; 0 before the first one."""
    if fact is None:
        return 0
    try:
        return int(fact.value)
    except ValueError as error:
        raise _malformed(fact, f"no number: {fact.value!r}") from error


class PartitionRequest(NamedTuple):
    """What an administrator asks for one partition."""

    place: TopicPartition
    #: The nodes that shall have it; none: cancel what is under way. None in a request that has no such list.
    replicas: tuple[NodeId, ...] | None


def encode_requests(requests: Sequence[PartitionRequest]) -> bytes:
    """Encode the value of `REASSIGNMENTS`, `PREFERRED_ELECTIONS` or of a fact below `ISR_CHANGES`."""
    return _encode(
        {
            "version": 1,
            "partitions": [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    **({} if replicas is None else {"replicas": list(replicas)}),
                }
                for place, replicas in requests
            ],
        }
    )


def decode_requests(fact: Fact) -> list[PartitionRequest]:
    """Decode what `encode_requests` has encoded, or Kafka's tools.

    Raises:
        MalformedFactError: it is something else.
    """
    found = _decode(fact).get("partitions")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _malformed(fact, f"partitions {found!r}")
    requests = []
    for each in found:
        topic = each.get("topic")
        if not isinstance(topic, str):
            raise _malformed(fact, f"a topic {topic!r}")
        place = TopicPartition(topic, _number(fact, each, "partition", 0))
        listed = each.get("replicas")
        replicas = None if listed is None else _nodes(fact, listed, f"the replicas of {place}")
        requests.append(PartitionRequest(place, replicas))
    return requests


def isr_change(places: Sequence[TopicPartition]) -> Create:
    """Return the change that tells the controller of other ISRs."""
    value = encode_requests([PartitionRequest(place, None) for place in places])
    return Create(f"{ISR_CHANGES}/isr_change_", value, sequential=True)


def changes_to(
    place: TopicPartition, before: PartitionState, after: PartitionState, lives: Mapping[NodeId, int]
) -> list[Change]:
    """Return the commit that stores a state in the place of another, on condition of what it rests on.

    Each replica that comes into the ISR, or leads, does so in the life of ``lives``: the commit fails if it has
    registered again since.

    Raises:
        StaleFactError: a replica that comes into the ISR is not in ``lives``.
    """
    path = state_path(place)
    joining = {*after.isr, after.leader} - {NO_NODE}
    if after.leader == before.leader:
        joining -= set(before.isr)
    for node in sorted({*after.isr} - {*before.isr} - lives.keys()):
        raise StaleFactError(
            f"{life_path(node)}: node {node} does not live, as far as is known", fact=life_path(node)
        )
    checks = [Check(life_path(node), lives[node]) for node in sorted(joining & lives.keys())]
    return [*checks, Write(path, encode_state(after), before.version)]


def _encode(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _decode(fact: Fact) -> dict[str, Any]:
    try:
        found = json.loads(fact.value)
    except (ValueError, RecursionError) as error:
        raise _malformed(fact, f"no JSON ({error})") from error
    if not isinstance(found, dict):
        raise _malformed(fact, "no JSON object")
    return found


def _number(fact: Fact, found: dict[str, Any], name: str, least: int, default: int | None = None) -> int:
    value = found.get(name, default)
    if type(value) is not int or not least <= value <= _LARGEST_NODE:
        raise _malformed(fact, f"{name} {value!r}")
    return value


def _moved(fact: Fact, found: object, partitions: Mapping[int, object]) -> dict[int, tuple[NodeId, ...]]:
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(_NODE.fullmatch(name) and int(name) in partitions for name in found):
        raise _malformed(fact, f"moves of partitions {found!r}")
    return {int(name): _nodes(fact, nodes, f"the moves of partition {name}") for name, nodes in found.items()}


def _standings(fact: Fact, found: object) -> tuple[tuple[NodeId, Standing], ...]:
    if not isinstance(found, dict):
        raise _malformed(fact, f"standings {found!r}")
    standings = []
    for name, each in sorted(found.items()):
        node = node_of(name)
        is_pair = isinstance(each, list) and len(each) == 2 and all(type(number) is int for number in each)
        if node is None or not is_pair:
            raise _malformed(fact, f"a standing {name!r}: {each!r}")
        standings.append((node, Standing(*each)))
    return tuple(standings)


def _nodes(fact: Fact, found: object, what: str) -> tuple[NodeId, ...]:
    if not isinstance(found, list) or not all(type(node) is int and 0 <= node <= _LARGEST_NODE for node in found):
        raise _malformed(fact, f"{what}: {found!r}")
    if len(set(found)) < len(found):
        raise _malformed(fact, f"{what}, one of them twice: {found!r}")
    return tuple(found)


def _malformed(fact: Fact, what: str) -> MalformedFactError:
    return MalformedFactError(f"{fact.path}: found {what}", fact=fact.path)
