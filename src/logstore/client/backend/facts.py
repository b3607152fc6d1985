"""Values of the contract: a topic as it is now, and as it is described.

Every value is immutable, and may be shared by threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from logstore.config.log import LogConfig


class TopicFacts(NamedTuple):
    """A topic as it is now.

    ``id`` is in Kafka's text form, and tells the topic from another one of its name; "" if it has none.
    ``added_from`` is the number that the first partition added after the topic's creation has, or would get.
    """

    name: str
    id: str
    partitions: int
    added_from: int
    is_internal: bool = False  #: kept by the back end for itself


class PartitionDescription(NamedTuple):
    """State of one partition. Offsets as of one moment; ``size`` is bytes of segments, without indexes.

    In a cluster ``size`` is what the leader's disk has, or -1 if brokers do not tell; ``log_end_offset`` and
    ``segment_count`` are -1: no request asks for them.
    """

    partition: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int
    segment_count: int


class TopicDescription(NamedTuple):
    """A topic as it is now: ``settings`` are its own, ``config`` all that hold for its logs."""

    name: str
    id: str
    partitions: tuple[PartitionDescription, ...]
    settings: Mapping[str, str]
    config: LogConfig
    internal: bool
    created_ms: int  #: -1 in a cluster
    #: False for a topic made before retention was recorded, which is kept for ever: set ``retention.ms``.
    retention_recorded: bool = True
