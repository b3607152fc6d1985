"""AlterConfigs and IncrementalAlterConfigs: settings of topics, each resource for itself. In the pool.

A topic takes all changes of a request or none. A broker's settings are those that its store was opened with, so a
change of one is refused, as Kafka refuses one of a key that is read only at its start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation
from logstore.broker.access.rights import Rights
from logstore.broker.families.configs import (
    BROKER,
    TOPIC,
    denied_resources,
    not_configured,
    not_this_node,
    of_topic,
)
from logstore.broker.families.described import is_list, topic_keys
from logstore.broker.served import Served
from logstore.config.log import canonical
from logstore.config.schema import nearest
from logstore.errors import InvalidSettingError, LogstoreError, UnknownSettingError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from logstore.topic_names import check_name

#: Kafka's numbers for what is done to a setting.
SET, DELETE, APPEND, SUBTRACT = range(4)

#: The setting that a topic with replicas is made with.
REPLICATED = "logstore.replicated"

#: A resource of one of the two requests: they are alike but for the operation.
_R = TypeVar("_R", AlterConfigsRequest.AlterConfigsResource, IncrementalAlterConfigsRequest.AlterConfigsResource)

#: The answer for one resource, alike in both.
_A = TypeVar(
    "_A",
    AlterConfigsResponse.AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
)

#: Key -> its new value, or None for the store's default.
_Changes = Mapping[str, str | None]


class _Refused(Exception):
    """A resource is refused as Kafka refuses a request; the message says why."""


def alter_configs(served: Served, request: Request, connection: ClientConnection) -> AlterConfigsResponse:
    """Give each topic the settings of the request instead of its own: a key that is not named is reset."""
    asked = request.message
    assert isinstance(asked, AlterConfigsRequest)

    def changes(resource: AlterConfigsRequest.AlterConfigsResource) -> _Changes:
        given = {each.name: each.value for each in resource.configs}
        _refuse_nulls(name for name, value in given.items() if value is None)
        _check_values(given)
        return dict.fromkeys(served.entry(resource.resource_name).settings) | given

    kind = AlterConfigsResponse.AlterConfigsResourceResponse
    return AlterConfigsResponse(
        responses=_change_all(
            served,
            served.rights(request.client_id, connection),
            asked.resources,
            changes,
            kind,
            validate_only=asked.validate_only,
        )
    )


def incremental_alter_configs(
    served: Served, request: Request, connection: ClientConnection
) -> IncrementalAlterConfigsResponse:
    """Set, reset, append to and subtract from settings of each topic."""
    asked = request.message
    assert isinstance(asked, IncrementalAlterConfigsRequest)

    def changes(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> _Changes:
        _refuse_nulls(
            each.name for each in resource.configs if each.value is None and each.config_operation != DELETE
        )
        _check_values({each.name: each.value for each in resource.configs if each.config_operation == SET})
        return {
            each.name: _changed(served, resource.resource_name, each.name, each.config_operation, each.value)
            for each in resource.configs
        }

    kind = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=_change_all(
            served,
            served.rights(request.client_id, connection),
            asked.resources,
            changes,
            kind,
            validate_only=asked.validate_only,
        )
    )


def is_true(value: str | None) -> bool:
    """Return whether a value of a setting, None for the default, means true."""
    return value is not None and value.strip().lower() == "true"


def check_topic_keys(names: Sequence[str]) -> None:
    """Refuse keys that a topic does not have, such as a broker's name of one: Kafka does.

    Raises:
        UnknownSettingError: naming each, and the nearest key.
    """
    known = topic_keys()
    unknown = {name: nearest(name, known) for name in names if name not in known}
    if unknown:
        raise UnknownSettingError(unknown)


def _change_all(
    served: Served,
    rights: Rights,
    resources: Sequence[_R],
    changes: Callable[[_R], _Changes],
    kind: type[_A],
    *,
    validate_only: bool,
) -> list[_A]:
    """Change each resource, or say why not, in an answer of a ``kind`` for each."""
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    single = [each for each, count in times.items() if count == 1]
    denied = denied_resources(rights, AclOperation.ALTER_CONFIGS, single)
    answers = []
    for each in resources:
        answer = kind(error_message=None, resource_type=each.resource_type, resource_name=each.resource_name)
        code = denied.get((each.resource_type, each.resource_name))
        if code:
            answer.error_code, answer.error_message = code, "the settings may not be altered by this client"
            answers.append(answer)
            continue
        try:
            if times[each.resource_type, each.resource_name] > 1:
                raise _Refused(f"resource {each.resource_name[:300]!r} is named twice")
            _change(served, each, changes, validate_only=validate_only)
        except _Refused as error:
            answer.error_code, answer.error_message = codes.INVALID_REQUEST, str(error)
        except LogstoreError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        answers.append(answer)
    return answers


def _change(served: Served, resource: _R, changes: Callable[[_R], _Changes], *, validate_only: bool) -> None:
    names = [each.name for each in resource.configs]
    if len(set(names)) < len(names):
        raise _Refused("a key is named twice")
    if resource.resource_type == BROKER:
        problem = not_this_node(served, resource.resource_name) if resource.resource_name else ""
        raise _Refused(problem or "the settings of a broker are read when its store is opened; open it with others")
    if resource.resource_type != TOPIC:
        raise _Refused(not_configured(resource.resource_type))
    if not resource.resource_name:
        raise _Refused("a topic without a name, for all topics, has no settings")
    name = check_name(resource.resource_name)
    check_topic_keys(names)

    def wanted() -> _Changes:
        found = dict(changes(resource))
        if REPLICATED in found:
            now, value = served.is_replicated(name), found.pop(REPLICATED)
            if now != is_true(value) and REPLICATED in names:
                raise InvalidSettingError(
                    {REPLICATED: "is set by Node.create_topic when a topic is made, and cannot be changed"}
                )
        return found

    if validate_only:
        served.host.topics_table.check_alter(name, wanted(), served.host.disk_quota.check_alter)
    else:
        served.store._alter_topic(name, wanted)


def _changed(served: Served, topic: str, key: str, operation: int, value: str | None) -> str | None:
    """Return the new value of a key; None for the default."""
    if operation == DELETE:
        return None
    assert value is not None
    if operation == SET:
        return value
    if operation not in (APPEND, SUBTRACT):
        raise _Refused(f"operation {operation} is none; expected {SET} to {SUBTRACT}")
    if not is_list(key):
        raise InvalidSettingError({key: "holds one value, to which none is appended and from which none is taken"})
    (now,) = of_topic(served, topic, [key])
    values = [each for each in (now.value or "").split(",") if each]
    given = [each.strip() for each in value.split(",")]
    if operation == APPEND:
        values += [each for each in dict.fromkeys(given) if each not in values]
    else:
        values = [each for each in values if each not in given]
    return ",".join(values)


def _check_values(given: _Changes) -> None:
    """Refuse values out of range, as Kafka does before it looks for the topic."""
    canonical({key: value for key, value in given.items() if value is not None})


def _refuse_nulls(names: Iterable[str]) -> None:
    found = list(names)
    if found:
        raise _Refused(f"a value is missing: {', '.join(found)}")
