"""Health of a cluster's partitions by its metadata: leaders, replicas in sync, and what appends ask of them.

`unhealthy` is a pure function over an answer of a broker; `least_in_sync` asks for one setting of the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from logstore.client.backend.findings import Finding, Level
from logstore.protocol import codes
from logstore.protocol.generated.messages import DescribeConfigsRequest

_problem = partial(Finding, Level.PROBLEM)

_TOPIC = 2  #: the resource type of a topic, in DescribeConfigs
_SETTING = "min.insync.replicas"

#: So many topics are asked about in one request.
_TOPICS_AT_ONCE = 500
#: So many numbers are listed in one message.
_LISTED = 10


def least_in_sync(ask: Callable[[Any], Any], topics: Sequence[str]) -> dict[str, int]:
    """Return the ``min.insync.replicas`` of topics, without those whose settings this client may not read."""
    found: dict[str, int] = {}
    for start in range(0, len(topics), _TOPICS_AT_ONCE):
        resources = [
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=[_SETTING]
            )
            for name in topics[start : start + _TOPICS_AT_ONCE]
        ]
        for result in ask(DescribeConfigsRequest(resources=resources)).results:
            values = [each.value for each in result.configs if each.name == _SETTING and each.value is not None]
            if not result.error_code and values:
                found[result.resource_name] = int(values[0])
    return found


def unhealthy(topics: Iterable[Any], least: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding for each topic and each thing that is wrong with partitions of it.

    ``topics`` are those of an answer to Metadata, ``least`` their `least_in_sync`.
    """
    for topic in sorted(topics, key=lambda each: str(each.name)):
        where = f"topic {topic.name!r}"
        if topic.error_code:
            yield _problem("topic-error", where, f"a broker tells of it only {codes.name_of(topic.error_code)}")
            continue
        parts = sorted(topic.partitions, key=lambda each: int(each.partition_index))
        offline = [each for each in parts if each.leader_id < 0]
        if offline:
            yield _problem(
                "no-leader",
                where,
                f"{_numbers(offline)} without a leader: it can be neither written nor read",
                f"start one of the brokers with its replicas ({_brokers(each.replica_nodes for each in offline)})",
            )
        led = [each for each in parts if each.leader_id >= 0]
        behind = [each for each in led if len(each.isr_nodes) < len(each.replica_nodes)]
        if behind:
            lost = _brokers(set(each.replica_nodes) - set(each.isr_nodes) for each in behind)
            yield _problem(
                "under-replicated",
                where,
                f"{_numbers(behind)} without all replicas in sync: those on {lost} are down or behind",
                "start these brokers, or read in their logs why they do not follow",
            )
        asked = least.get(topic.name, 1)
        few = [each for each in led if len(each.isr_nodes) < asked]
        if few:
            yield _problem(
                "under-min-insync",
                where,
                f"{_numbers(few)} with fewer replicas in sync than min.insync.replicas={asked}: appends with "
                "acks=all are refused",
                "start the brokers with the other replicas, or lower min.insync.replicas of the topic",
            )


def _numbers(parts: Sequence[Any]) -> str:
    """Return the partitions as a subject: ``partition 3``, or ``partitions 0, 1``."""
    listed = ", ".join(str(each.partition_index) for each in parts[:_LISTED])
    more = f" and {len(parts) - _LISTED} more" if len(parts) > _LISTED else ""
    return f"partition{'s' * (len(parts) > 1)} {listed}{more}"


def _brokers(nodes: Iterable[Iterable[int]]) -> str:
    numbers = sorted({number for each in nodes for number in each})
    return f"broker{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_LISTED]))}"
