"""Requests about topics: Metadata, CreateTopics, DeleteTopics. All run in the pool: topics are made on the disk."""

from __future__ import annotations

from collections.abc import Iterable

from logstore.broker._loop import ClientConnection
from logstore.broker.families import described
from logstore.broker.families.cluster import NOT_ASKED
from logstore.broker.families.config_changes import check_topic_keys
from logstore.broker.families.configs import of_topic
from logstore.broker.families.described import DescribedSetting
from logstore.broker.served import NODE, Served
from logstore.config.log import canonical
from logstore.errors import LogstoreError
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
from logstore.topic_names import INTERNAL, check_name

_Topic = MetadataResponse.MetadataResponseTopic
_Created = CreateTopicsResponse.CreatableTopicResult
_Deleted = DeleteTopicsResponse.DeletableTopicResult


#: The version of Metadata from which on a topic may have an id and no name.
_NULL_NAMES = 12


def metadata(served: Served, request: Request, connection: ClientConnection) -> MetadataResponse:
    """Return the one node, and the topics that were asked for: by name, by id, all or none.

    A topic that is asked for by its name and does not exist is made if client and store let it be.
    """
    asked = request.message
    assert isinstance(asked, MetadataRequest)
    host, port = served.address_for(connection)
    node = MetadataResponse.MetadataResponseBroker(node_id=NODE, host=host, port=port)
    wanted = asked.topics
    if wanted is None or (request.version == 0 and not wanted):
        found = [_described(name, entry) for name, entry in served.topics()]
    else:
        may_make = asked.allow_auto_topic_creation and served.makes_topics()
        # One that is named many times is described once: few bytes would ask for many.
        once = {(each.name, each.topic_id): each for each in wanted}.values()
        if request.version < _NULL_NAMES and any(each.name is None for each in once):
            # As Kafka: ids came to the request before the answer had a way to leave out a name.
            found = [_Topic(error_code=codes.INVALID_REQUEST, name=each.name or "") for each in once]
        else:
            found = [_asked_for(served, each, may_make=may_make) for each in once]
    return MetadataResponse(
        brokers=[node],
        cluster_id=served.cluster_id,
        controller_id=NODE,
        topics=found,
        cluster_authorized_operations=NOT_ASKED,
    )


def _described(name: str, entry: TopicEntry) -> _Topic:
    partitions = [
        MetadataResponse.MetadataResponsePartition(
            partition_index=number, leader_id=NODE, replica_nodes=[NODE], isr_nodes=[NODE]
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


def _asked_for(served: Served, wanted: MetadataRequest.MetadataRequestTopic, *, may_make: bool) -> _Topic:
    name = wanted.name
    if wanted.topic_id:
        name = served.name_of(wanted.topic_id)
        if name is None:
            return _unknown(None, codes.UNKNOWN_TOPIC_ID, wanted.topic_id)
    elif name is None:
        return _unknown(None, codes.INVALID_REQUEST)
    try:
        check_name(name)
        if may_make and not served.host.has(name):
            served.host.create_topic(name, None, served.defaults(), if_not_exists=True)
        return _described(name, served.entry(name))
    except LogstoreError as error:
        return _unknown(name, error.code)


def _unknown(name: str | None, code: int, topic_id: str = "") -> _Topic:
    return _Topic(error_code=code, name=name, topic_id=topic_id, topic_authorized_operations=NOT_ASKED)


def create_topics(served: Served, request: Request, _connection: ClientConnection) -> CreateTopicsResponse:
    """Create topics, each for itself: one that cannot be made does not hinder the others."""
    asked = request.message
    assert isinstance(asked, CreateTopicsRequest)
    names = [topic.name for topic in asked.topics]
    found = [
        _refused(topic.name, codes.INVALID_REQUEST, "the topic is named twice")
        if names.count(topic.name) > 1
        else _created(served, topic, validate_only=asked.validate_only)
        for topic in _once(asked.topics)
    ]
    return CreateTopicsResponse(topics=found)


def _once(topics: Iterable[CreateTopicsRequest.CreatableTopic]) -> Iterable[CreateTopicsRequest.CreatableTopic]:
    return {topic.name: topic for topic in topics}.values()


def _created(served: Served, topic: CreateTopicsRequest.CreatableTopic, *, validate_only: bool) -> _Created:
    name, count = topic.name, topic.num_partitions
    if topic.assignments:
        if count != -1 or topic.replication_factor != -1:
            return _refused(
                name, codes.INVALID_REQUEST, "both an assignment and a number of partitions or replicas"
            )
        given = sorted(each.partition_index for each in topic.assignments)
        if given != list(range(len(given))) or any(list(each.broker_ids) != [NODE] for each in topic.assignments):
            return _refused(name, codes.INVALID_REPLICA_ASSIGNMENT, f"expected node {NODE} for partitions 0, 1, …")
        count = len(given)
    elif topic.replication_factor not in (-1, 1):
        return _refused(
            name,
            codes.INVALID_REPLICATION_FACTOR,
            f"there is one node, found a factor of {topic.replication_factor}",
        )
    without_value = [each.name for each in topic.configs if each.value is None]
    if without_value:
        return _refused(name, codes.INVALID_CONFIG, f"a value is missing: {', '.join(without_value)}")
    settings = served.defaults() | {each.name: each.value for each in topic.configs}
    total = served.host.config.num_partitions if count == -1 else count
    new = NewTopic(name, total, 1, settings)
    try:
        check_topic_keys(list(settings))
        if validate_only:
            config = served.host.topics_table.check_new(new)
            found = described.of_topic(canonical(settings), config, served.host.config)
        else:
            served.host.create_topics([new])
            found = of_topic(served, name)
        return _Created(
            name=name,
            topic_id="" if validate_only else served.host.topic_id(name),
            error_message=None,
            num_partitions=total,
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


def _refused(name: str, code: int, message: str) -> _Created:
    return _Created(name=name, error_code=code, error_message=message, configs=None)


def delete_topics(served: Served, request: Request, _connection: ClientConnection) -> DeleteTopicsResponse:
    """Delete topics by name or id, each for itself. Durable when the answer is sent."""
    asked = request.message
    assert isinstance(asked, DeleteTopicsRequest)
    if request.version < 6:
        found = [_deleted(served, name, "") for name in asked.topic_names]
    else:
        found = [_deleted(served, each.name, each.topic_id) for each in asked.topics]
    return DeleteTopicsResponse(responses=found)


def _deleted(served: Served, name: str | None, topic_id: str) -> _Deleted:
    if topic_id:
        if name is not None:
            return _Deleted(name=name, topic_id=topic_id, error_code=codes.INVALID_REQUEST)
        name = served.name_of(topic_id)
        if name is None:
            return _Deleted(name=None, topic_id=topic_id, error_code=codes.UNKNOWN_TOPIC_ID)
    elif name is None:
        return _Deleted(name=None, error_code=codes.INVALID_REQUEST)
    try:
        if not served.host.has(name):
            return _Deleted(name=name, error_code=codes.UNKNOWN_TOPIC_OR_PARTITION)
        topic_id = served.host.topic_id(name)
        served.store.delete_topic(name)
    except LogstoreError as error:
        return _Deleted(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
    return _Deleted(name=name, topic_id=topic_id)
