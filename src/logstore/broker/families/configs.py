"""DescribeConfigs and ListConfigResources: the settings of topics and of the node. Any thread."""

from __future__ import annotations

from collections.abc import Sequence

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.access.rights import Rights
from logstore.broker.families import described
from logstore.broker.families.described import DescribedSetting
from logstore.broker.served import Served
from logstore.config.broker import PLAINTEXT, ListenAddress
from logstore.errors import LogstoreError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from logstore.topic_names import check_name

#: Kafka's numbers for what has settings.
TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32
_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


_LONGEST_NUMBER = len(str(-(2**31)))

#: From this version on a client may ask for other resources than metrics.
_ANY_TYPE = 1

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Setting = DescribeConfigsResponse.DescribeConfigsResourceResult
_Synonym = DescribeConfigsResponse.DescribeConfigsSynonym
_Listed = ListConfigResourcesResponse.ConfigResource


def describe_configs(served: Served, request: Request, connection: ClientConnection) -> DescribeConfigsResponse:
    """Return the settings of each resource that was asked for: all keys, or those that were named."""
    asked = request.message
    assert isinstance(asked, DescribeConfigsRequest)
    results: list[_Result] = []
    refused: list[_Result] = []
    rights = served.rights(request.client_id, connection)
    if any(each.resource_type not in _TYPES for each in asked.resources):
        # As Kafka: of a request with a type that it does not know, nothing is described.
        return DescribeConfigsResponse(
            results=[
                _Result(
                    error_code=codes.INVALID_REQUEST,
                    error_message=not_configured(each.resource_type),
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[],
                )
                for each in asked.resources
            ]
        )
    named = [(each.resource_type, each.resource_name) for each in asked.resources]
    denied = denied_resources(rights, AclOperation.DESCRIBE_CONFIGS, named)
    # One that is named many times is described once: few bytes would ask for many.
    for each in {(each.resource_type, each.resource_name): each for each in asked.resources}.values():
        result = _Result(
            resource_type=each.resource_type, resource_name=each.resource_name, error_message=None, configs=[]
        )
        code = denied.get((each.resource_type, each.resource_name))
        if code:
            result.error_code, result.error_message = code, "the settings may not be described to this client"
            refused.append(result)
            continue
        try:
            found = _of(served, each, connection)
        except LogstoreError as error:
            result.error_code, result.error_message = error.code, str(error)
        else:
            if isinstance(found, str):
                result.error_code, result.error_message = codes.INVALID_REQUEST, found
            else:
                result.configs = [_told(setting, asked) for setting in found]
        results.append(result)
    return DescribeConfigsResponse(results=results + refused)


def denied_resources(
    rights: Rights, operation: AclOperation, resources: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """Return which resources, by type and name, a client may not use in a way, each with Kafka's code."""
    found = {}
    for kind, resource_type, code in (
        (TOPIC, ResourceType.TOPIC, codes.TOPIC_AUTHORIZATION_FAILED),
        (GROUP, ResourceType.GROUP, codes.GROUP_AUTHORIZATION_FAILED),
    ):
        names = [name for each, name in resources if each == kind]
        found.update(dict.fromkeys(((kind, name) for name in rights.denied(operation, resource_type, names)), code))
    of_cluster = [each for each in resources if each[0] in (BROKER, BROKER_LOGGER, CLIENT_METRICS)]
    if of_cluster and not rights.on_cluster(operation):
        found.update(dict.fromkeys(of_cluster, codes.CLUSTER_AUTHORIZATION_FAILED))
    return found


def _of(
    served: Served, asked: DescribeConfigsRequest.DescribeConfigsResource, connection: ClientConnection
) -> Sequence[DescribedSetting] | str:
    """Return the settings of one resource, or why it is not described."""
    keys = asked.configuration_keys or None  # no keys are all keys, as null is
    if asked.resource_type == TOPIC:
        return of_topic(served, asked.resource_name, keys)
    if asked.resource_type != BROKER:
        return not_configured(asked.resource_type)
    if not asked.resource_name:
        return []  # no setting was given to all brokers at once, nor can be
    problem = not_this_node(served, asked.resource_name)
    if problem:
        return problem
    facts, settings = _facts(served, connection), served.settings()
    return described.of_broker(served.host.config, facts, keys, recorded=served.defaults(), served=settings)


def of_topic(served: Served, name: str, keys: Sequence[str] | None = None) -> list[DescribedSetting]:
    """Return the settings of a topic.

    Raises:
        InvalidTopicError, UnknownTopicError: no topic can have that name, or none has it.
    """
    entry = served.entry(check_name(name))
    config, store = served.host.topic_config(name), served.host.config
    return described.of_topic(entry.settings, config, store, keys, recorded=entry.defaults or {})


def not_configured(resource_type: int) -> str:
    """Return why a resource that is neither a topic nor a broker is refused."""
    return f"resource type {resource_type} has no settings here; topics ({TOPIC}) and brokers ({BROKER}) have"


def not_this_node(served: Served, name: str) -> str:
    """Return why a broker's name is refused; "" for this node's."""
    if not (name.isascii() and name.removeprefix("-").isdecimal()) or len(name) > _LONGEST_NUMBER:
        return f"broker {name[:100]!r} is no number of 32 bits"
    node = served.node
    return "" if int(name) == node else f"broker {name[:100]} is another one than this, which is {node}"


def _facts(served: Served, connection: ClientConnection) -> dict[str, str]:
    """Return what is so of this node, whatever was configured."""
    address = f"{PLAINTEXT}://{ListenAddress(PLAINTEXT, *served.address_for(connection))}"
    return {
        "advertised.listeners": address,
        "broker.id": str(served.node),
        "listeners": address,
        "log.dir": served.host.path,
        "log.dirs": served.host.path,
        "node.id": str(served.node),
        "process.roles": "broker,controller",
    }


def _told(setting: DescribedSetting, asked: DescribeConfigsRequest) -> _Setting:
    synonyms = setting.synonyms if asked.include_synonyms else ()
    return _Setting(
        name=setting.name,
        value=setting.value,
        read_only=setting.is_read_only,
        config_source=setting.source,
        is_sensitive=setting.is_sensitive,
        synonyms=[_Synonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=setting.type,
        documentation=setting.documentation if asked.include_documentation else None,
    )


def list_config_resources(
    served: Served, request: Request, connection: ClientConnection
) -> ListConfigResourcesResponse:
    """Return what has settings, of the types asked for: topics and the node. Metrics and groups have none."""
    asked = request.message
    assert isinstance(asked, ListConfigResourcesRequest)
    if not served.rights(request.client_id, connection).on_cluster(AclOperation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=codes.CLUSTER_AUTHORIZATION_FAILED, config_resources=[])
    if request.version < _ANY_TYPE:
        return ListConfigResourcesResponse(config_resources=[])
    types = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
    wanted = asked.resource_types or types
    if not set(wanted) <= set(types):
        return ListConfigResourcesResponse(error_code=codes.UNSUPPORTED_VERSION, config_resources=[])
    found = []
    if TOPIC in wanted:
        names = served.host.topics(internal=True)
        found += [_Listed(resource_name=name, resource_type=TOPIC) for name in names]
    if BROKER in wanted:
        found.append(_Listed(resource_name=str(served.node), resource_type=BROKER))
    return ListConfigResourcesResponse(config_resources=found)
