"""Requests about topics: Metadata, CreateTopics, DeleteTopics. All run in the pool: topics are made on the disk."""

from __future__ import annotations

from collections import Counter

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.access.rights import Rights
from logstore.broker.families import described
from logstore.broker.families.cluster import NOT_ASKED
from logstore.broker.families.config_changes import REPLICATED, check_topic_keys, is_true
from logstore.broker.families.configs import of_topic
from logstore.broker.families.described import DescribedSetting
from logstore.broker.served import Served
from logstore.config.log import canonical
from logstore.errors import LogstoreError, PolicyViolationError, TopicExistsError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from logstore.records import NewTopic
from logstore.store.catalog.topic_list import TopicEntry
from logstore.topic_names import CONSUMER_OFFSETS, INTERNAL, check_name

_WITH_REPLICAS = "a topic with replicas is made by Node.create_topic in a program of its cluster"

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = MetadataResponse.MetadataResponsePartition
_Created = CreateTopicsResponse.CreatableTopicResult
_Deleted = DeleteTopicsResponse.DeletableTopicResult


#: The version of Metadata from which on it names leader epochs.
_LEADER_EPOCHS = 7
#: The version of Metadata from which on a topic may have an id and no name.
_NULL_NAMES = 12
#: Answers about a topic that say nothing about rights on it.
_WITHOUT_RIGHTS = (codes.TOPIC_AUTHORIZATION_FAILED, codes.INVALID_REQUEST)


def metadata(served: Served, request: Request, connection: ClientConnection) -> MetadataResponse:
    """Return the one node, and the topics that were asked for: by name, by id, all or none.

    A topic that is asked for by its name and does not exist is made if client and store let it be.
    """
    asked = request.message
    assert isinstance(asked, MetadataRequest)
    host, port = served.address_for(connection)
    node = MetadataResponse.MetadataResponseBroker(node_id=served.node, host=host, port=port)
    wanted = asked.topics
    rights = served.rights(request.client_id, connection)
    # Before a topic is made: of a request that an authorizer fails on, nothing is done.
    on_cluster = rights.cluster_bits() if asked.include_cluster_authorized_operations else NOT_ASKED
    allowed: dict[str, int] = {}
    if wanted is None or (request.version == 0 and not wanted):
        known = served.topics()
        hidden = rights.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, (name for name, _ in known))
        # Of all topics there may be many: the logs that are not open are not looked at.
        found = [
            _described(served, name, entry, request.version, is_sought=False)
            for name, entry in known
            if name not in hidden
        ]
        if asked.include_topic_authorized_operations:
            allowed = rights.bits_of(ResourceType.TOPIC, (each.name for each in found if each.name is not None))
    else:
        may_make = asked.allow_auto_topic_creation and served.makes_topics
        # One that is named many times is described once: few bytes would ask for many.
        once = {(each.name, each.topic_id): each for each in wanted}.values()
        named = [(served.name_of(each.topic_id) if each.topic_id else each.name, each.topic_id) for each in once]
        if asked.include_topic_authorized_operations:
            allowed = rights.bits_of(ResourceType.TOPIC, (name for name, _ in named if name is not None))
        if request.version < _NULL_NAMES and any(each.name is None for each in once):
            # As Kafka: ids came to the request before the answer had a way to leave out a name.
            found = [_Topic(error_code=codes.INVALID_REQUEST, name=each.name or "") for each in once]
        else:
            found = _asked_for(served, rights, named, request.version, may_make=may_make)
    for each in found:
        if each.name in allowed and each.error_code not in _WITHOUT_RIGHTS:
            each.topic_authorized_operations = allowed[each.name]
    return MetadataResponse(
        brokers=[node],
        cluster_id=served.cluster_id,
        controller_id=served.node,
        topics=found,
        cluster_authorized_operations=on_cluster,
    )


def _described(served: Served, name: str, entry: TopicEntry, version: int, *, is_sought: bool = True) -> _Topic:
    """Return a topic; ``is_sought`` as of `Served.epoch`."""
    node = served.node
    if served.is_replicated(name):
        partitions = [_replicated(served, name, number, version) for number in range(entry.partitions)]
    else:
        partitions = [
            _Partition(
                partition_index=number,
                leader_id=node,
                leader_epoch=served.epoch(name, number, is_sought=is_sought and version >= _LEADER_EPOCHS),
                replica_nodes=[node],
                isr_nodes=[node],
            )
            for number in range(entry.partitions)
        ]
    return _Topic(
        name=name,
        topic_id=entry.id,
        is_internal=name in INTERNAL,
        partitions=partitions,
        topic_authorized_operations=NOT_ASKED,
    )


def _replicated(served: Served, name: str, number: int, version: int) -> _Partition:
    """Return a partition with replicas. No client can reach another node: to Kafka, such a one is not alive."""
    state, node = served.state(name, number), served.node
    is_led = state.leader == node
    replicas, isr = list(state.replicas), list(state.isr)
    code = 0 if is_led else codes.LEADER_NOT_AVAILABLE
    if version == 0:
        # As Kafka, for clients that look for each node in the list of brokers.
        replicas, isr = [each for each in replicas if each == node], [each for each in isr if each == node]
        if is_led and (len(replicas) < len(state.replicas) or len(isr) < len(state.isr)):
            code = codes.REPLICA_NOT_AVAILABLE
    return _Partition(
        error_code=code,
        partition_index=number,
        leader_id=node if is_led else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=served.offline(name, state.replicas),
    )


def _asked_for(
    served: Served, rights: Rights, named: list[tuple[str | None, str]], version: int, *, may_make: bool
) -> list[_Topic]:
    """Return the topics that are asked for by name or id; all questions of rights come before a topic is made.

    Of each, its name, if there is one, and the id that it was asked for by, or "".
    """
    denied = rights.denied(
        AclOperation.DESCRIBE, ResourceType.TOPIC, (name for name, _ in named if name is not None)
    )
    missing: set[str] = set()
    if may_make:
        missing = {
            name for name, _ in named if name is not None and name not in denied and not served.host.has(name)
        }
        if missing and not rights.on_cluster(AclOperation.CREATE):
            denied |= rights.denied(AclOperation.CREATE, ResourceType.TOPIC, missing)
    errors = served.create_topics((_new(served, name) for name in sorted(missing - denied)), if_not_exists=True)
    return [
        # The id of a topic is no secret, its name is.
        _unknown(None if topic_id else name, codes.TOPIC_AUTHORIZATION_FAILED, topic_id)
        if name in denied
        else _named(served, name, topic_id, version, errors.get(name or ""))
        for name, topic_id in named
    ]


def _named(served: Served, name: str | None, topic_id: str, version: int, not_made: LogstoreError | None) -> _Topic:
    if name is None:
        return _unknown(None, codes.UNKNOWN_TOPIC_ID if topic_id else codes.INVALID_REQUEST, topic_id)
    try:
        check_name(name)
        if not_made is not None:
            raise not_made
        return _described(served, name, served.entry(name), version)
    except LogstoreError as error:
        return _unknown(name, error.code)


def _new(served: Served, name: str) -> NewTopic:
    """Return the topic that is made when a client asks for a name."""
    if name == CONSUMER_OFFSETS:
        return served.host.offsets.topic()
    return NewTopic(name, served.host.config.num_partitions, 1)


def _unknown(name: str | None, code: int, topic_id: str = "") -> _Topic:
    return _Topic(error_code=code, name=name, topic_id=topic_id, topic_authorized_operations=NOT_ASKED)


def create_topics(served: Served, request: Request, connection: ClientConnection) -> CreateTopicsResponse:
    """Create topics, each for itself: one that cannot be made does not hinder the others."""
    asked = request.message
    assert isinstance(asked, CreateTopicsRequest)
    times = Counter(topic.name for topic in asked.topics)
    once = [name for name, count in times.items() if count == 1]
    rights = served.rights(request.client_id, connection)
    denied: frozenset[str] = frozenset()
    if not rights.on_cluster(AclOperation.CREATE):
        denied = rights.denied(AclOperation.CREATE, ResourceType.TOPIC, once)
    hidden = rights.denied(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, once)
    found: dict[str, _Created | NewTopic] = {
        topic.name: _refused(topic.name, codes.INVALID_REQUEST, "the topic is named twice")
        if times[topic.name] > 1
        else _refused(topic.name, codes.TOPIC_AUTHORIZATION_FAILED, None)
        if topic.name in denied
        else _wanted(served, topic)
        for topic in asked.topics
    }
    wanted = [each for each in found.values() if isinstance(each, NewTopic)]
    errors = {} if asked.validate_only else served.create_topics(wanted)
    for new in wanted:
        error = errors.get(new.name)
        created = (
            _created(served, new, validate_only=asked.validate_only)
            if error is None
            else _refused(new.name, error.code, str(error))
        )
        found[new.name] = _shown(created, is_hidden=new.name in hidden)
    return CreateTopicsResponse(topics=[each for each in found.values() if not isinstance(each, NewTopic)])


def _shown(created: _Created, *, is_hidden: bool) -> _Created:
    """Return an answer without the settings of the topic, if its client may not see them."""
    if is_hidden and not created.error_code:
        created.topic_config_error_code = codes.TOPIC_AUTHORIZATION_FAILED
        created.num_partitions = created.replication_factor = -1
        created.configs = []
    return created


def _wanted(served: Served, topic: CreateTopicsRequest.CreatableTopic) -> NewTopic | _Created:
    """Return the topic to be made, or why it is refused before the store is asked."""
    name, count = topic.name, topic.num_partitions
    try:
        check_name(name)
        if served.host.has(name):
            raise TopicExistsError(f"topic {name!r} exists already")
    except LogstoreError as error:
        return _refused(name, error.code, str(error))
    if topic.assignments:
        if count != -1 or topic.replication_factor != -1:
            return _refused(
                name, codes.INVALID_REQUEST, "both an assignment and a number of partitions or replicas"
            )
        given = sorted(each.partition_index for each in topic.assignments)
        node = served.node
        if given != list(range(len(given))) or any(list(each.broker_ids) != [node] for each in topic.assignments):
            return _refused(
                name,
                codes.INVALID_REPLICA_ASSIGNMENT,
                f"expected node {node} for partitions 0, 1, …; {_WITH_REPLICAS}",
            )
        count = len(given)
    elif topic.replication_factor not in (-1, 1):
        return _refused(
            name,
            codes.INVALID_REPLICATION_FACTOR,
            f"a topic made here has one replica, found a factor of {topic.replication_factor}; {_WITH_REPLICAS}",
        )
    without_value = [each.name for each in topic.configs if each.value is None]
    if without_value:
        return _refused(name, codes.INVALID_CONFIG, f"a value is missing: {', '.join(without_value)}")
    settings = {each.name: each.value for each in topic.configs if each.value is not None}
    try:
        check_topic_keys(list(settings))
    except LogstoreError as error:
        return _refused(name, error.code, str(error))
    if is_true(settings.get(REPLICATED)):
        return _refused(name, codes.INVALID_CONFIG, f"{REPLICATED}: {_WITH_REPLICAS}")
    return NewTopic(name, served.host.config.num_partitions if count == -1 else count, 1, settings)


def _created(served: Served, new: NewTopic, *, validate_only: bool) -> _Created:
    """Return the answer for a topic that was made, or would be."""
    name = new.name
    try:
        if validate_only:
            recorded = served.defaults()
            config = served.host.topics_table.check_new(new, recorded)
            found = described.of_topic(canonical(new.settings), config, served.host.config, recorded=recorded)
        else:
            found = of_topic(served, name)
        return _Created(
            name=name,
            topic_id="" if validate_only else served.host.topic_id(name),
            error_message=None,
            num_partitions=new.partitions,
            replication_factor=1,
            configs=[_told(each) for each in found],
        )
    except LogstoreError as error:
        return _refused(name, error.code, str(error))


def _told(setting: DescribedSetting) -> CreateTopicsResponse.CreatableTopicConfigs:
    return CreateTopicsResponse.CreatableTopicConfigs(
        name=setting.name,
        value=setting.value,
        read_only=setting.is_read_only,
        config_source=setting.source,
        is_sensitive=setting.is_sensitive,
    )


def _refused(name: str, code: int, message: str | None) -> _Created:
    return _Created(name=name, error_code=code, error_message=message, configs=None)


def delete_topics(served: Served, request: Request, connection: ClientConnection) -> DeleteTopicsResponse:
    """Delete topics by name or id, each for itself. Durable when the answer is sent."""
    asked = request.message
    assert isinstance(asked, DeleteTopicsRequest)
    if request.version < 6:
        wanted: list[tuple[str | None, str]] = [(name, "") for name in asked.topic_names]
    else:
        wanted = [(each.name, each.topic_id) for each in asked.topics]
    rights = served.rights(request.client_id, connection)
    kept: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    if not rights.on_cluster(AclOperation.DELETE):
        named = [served.name_of(topic_id) if topic_id else name for name, topic_id in wanted]
        names = [name for name in named if name is not None]
        hidden = rights.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        kept = rights.denied(AclOperation.DELETE, ResourceType.TOPIC, names)
    times = Counter(wanted)
    ids = {topic_id for name, topic_id in times if name is None}
    # A topic that is named by its name and by its id is refused once, as by Kafka. A client that may not delete it
    # is not told that the two are one.
    both = {}
    for name, _ in times:
        if name is not None and times[name, ""] == 1 and name not in kept and name not in hidden:
            found = _id_of(served, name)
            if found and found in ids:
                both[name] = found
    responses = []
    for (name, topic_id), count in times.items():
        if count > 1:
            responses.append(_twice(name, topic_id))
        elif name in both and not topic_id:
            responses.append(_twice(name, both[name]))
        elif name is not None or topic_id not in both.values():
            responses.append(_deleted(served, name, topic_id, kept, hidden))
    return DeleteTopicsResponse(responses=responses)


def _id_of(served: Served, name: str) -> str:
    """Return the id of a topic; "" if there is none."""
    entry = served.host.table.find(name)
    return "" if entry is None else entry.id


def _twice(name: str | None, topic_id: str) -> _Deleted:
    return _Deleted(
        name=name, topic_id=topic_id, error_code=codes.INVALID_REQUEST, error_message="the topic is named twice"
    )


def _denied(name: str | None, topic_id: str) -> _Deleted:
    return _Deleted(
        name=name,
        topic_id=topic_id,
        error_code=codes.TOPIC_AUTHORIZATION_FAILED,
        error_message="the topic may not be deleted by this client",
    )


def _deleted(
    served: Served, name: str | None, topic_id: str, kept: frozenset[str], hidden: frozenset[str]
) -> _Deleted:
    """Delete a topic that is not among those to be kept; the answer does not say if a hidden one exists."""
    if topic_id:
        if name is not None:
            return _Deleted(name=name, topic_id=topic_id, error_code=codes.INVALID_REQUEST)
        name = served.name_of(topic_id)
        if name is None:
            return _Deleted(name=None, topic_id=topic_id, error_code=codes.UNKNOWN_TOPIC_ID)
        if name in kept:
            return _denied(None if name in hidden else name, topic_id)
    elif name is None:
        return _Deleted(name=None, error_code=codes.INVALID_REQUEST)
    elif name in hidden:
        return _denied(name, "")
    try:
        if not served.host.has(name):
            return _Deleted(name=name, error_code=codes.UNKNOWN_TOPIC_OR_PARTITION)
        if name in kept:
            return _denied(name, topic_id)
        topic_id = served.host.topic_id(name)
        if served.is_replicated(name):
            # The copy of this node alone: the others would stay, and this one would be made again.
            raise PolicyViolationError(
                f"topic {name!r} has replicas: call Node.delete_topic in a program of its cluster"
            )
        served.store.delete_topic(name)
    except LogstoreError as error:
        return _Deleted(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
    return _Deleted(name=name, topic_id=topic_id)
