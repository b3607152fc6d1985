"""`RequestHandler`: the handler of a broker's loop, which hands each frame to the family of its API key.

The table says which versions are served; ApiVersions announces exactly these. A key or version outside it closes
the connection, as Kafka does, but for ApiVersions itself. Used by the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from logstore.broker import produce
from logstore.broker._loop import Answer, ClientConnection
from logstore.broker.families import (
    cluster,
    config_changes,
    configs,
    elections,
    log_dirs,
    offsets,
    partitions,
    producers,
    records,
    topics,
)
from logstore.broker.fetching.fetches import Fetches
from logstore.broker.served import MOST_ITEMS, Served
from logstore.errors import UnsupportedVersionError
from logstore.io._notifier import Notifier
from logstore.protocol import frames
from logstore.protocol.frames import Request, encode_response
from logstore.protocol.generated.messages import ApiVersionsResponse
from logstore.protocol.message import Message


class Family(NamedTuple):
    """How one API key is served."""

    #: Returns the response; in a pool if it ``is_slow``, else in the loop's thread. None: it answers by itself.
    respond: Callable[[Served, Request, ClientConnection], Message] | None
    min_version: int
    max_version: int
    is_slow: bool = False
    announced_from: int | None = None  #: where that differs from ``min_version``


API_VERSIONS = 18
PRODUCE = 0
FETCH = 1

FAMILIES: dict[int, Family] = {
    # Announced from 0 on: librdkafka turns compression off for a broker without Produce 0 (KAFKA-18659).
    PRODUCE: Family(None, 3, 13, announced_from=0),
    FETCH: Family(None, 4, 18),
    2: Family(offsets.list_offsets, 1, 11, is_slow=True),
    3: Family(topics.metadata, 0, 13, is_slow=True),
    API_VERSIONS: Family(None, 0, 4),
    19: Family(topics.create_topics, 2, 7, is_slow=True),
    20: Family(topics.delete_topics, 1, 6, is_slow=True),
    21: Family(records.delete_records, 0, 2, is_slow=True),
    22: Family(cluster.init_producer_id, 0, 5, is_slow=True),
    23: Family(offsets.offset_for_leader_epoch, 2, 4, is_slow=True),
    32: Family(configs.describe_configs, 1, 4, is_slow=True),
    33: Family(config_changes.alter_configs, 0, 2, is_slow=True),
    35: Family(log_dirs.describe_log_dirs, 1, 5, is_slow=True),
    37: Family(partitions.create_partitions, 0, 3, is_slow=True),
    43: Family(elections.elect_leaders, 0, 2),
    44: Family(config_changes.incremental_alter_configs, 0, 1, is_slow=True),
    46: Family(elections.list_partition_reassignments, 0, 0),
    60: Family(cluster.describe_cluster, 0, 2),
    61: Family(producers.describe_producers, 0, 0, is_slow=True),
    74: Family(configs.list_config_resources, 0, 1, is_slow=True),
    75: Family(partitions.describe_topic_partitions, 0, 0, is_slow=True),
}


class RequestHandler:
    """The requests of all connections of one broker."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._fetches = Fetches(served)
        self._produces = produce.Produces(served)
        #: The requests that the loop asks before this handler.
        self.quick = (self._produces.turn, self._fetches.quick)

    def end(self) -> None:
        """Forget what waits, once the loop and the pool have ended."""
        self._produces.end()
        self._fetches.end()

    def request(self, answer: Answer, frame: bytes) -> None:
        """Answer a request, at once or later.

        Raises:
            ProtocolError: the frame is no request that is served. Its connection is closed.
        """
        head = frames.request_head(frame)
        family = FAMILIES.get(head.api_key)
        if family is None:
            raise UnsupportedVersionError(f"API key {head.api_key} is not served")
        if head.api_key == API_VERSIONS:
            self._answer_versions(answer, head.version, head.correlation_id, frame)
            return
        if not family.min_version <= head.version <= family.max_version:
            raise UnsupportedVersionError(
                f"API key {head.api_key} is served from version {family.min_version} to {family.max_version}, "
                f"found {head.version}"
            )
        request = frames.decode_request(frame, max_items=MOST_ITEMS)
        if head.api_key == FETCH:
            self._fetches.fetch(request, answer)
        else:
            self._respond(family, request, answer)

    def notified(self, notifier: Notifier) -> None:
        """Look again at a request that waits."""
        self._fetches.notified(notifier)
        self._produces.notified(notifier)

    def waits_for(self, connection: ClientConnection, notifier: Notifier) -> bool:
        """Return whether a fetch of a connection waits for a notifier."""
        return notifier in (connection.state or ())

    def closed(self, connection: ClientConnection) -> None:
        """Forget what waits for a connection."""
        self._fetches.closed(connection)
        self._produces.closed(connection)

    def _answer_versions(self, answer: Answer, version: int, correlation_id: int, frame: bytes) -> None:
        family = FAMILIES[API_VERSIONS]
        known = family.min_version <= version <= family.max_version
        if known:
            frames.decode_request(frame)
        response = ApiVersionsResponse(
            error_code=0 if known else UnsupportedVersionError.code,
            api_keys=[
                ApiVersionsResponse.ApiVersion(
                    api_key=key,
                    min_version=each.min_version if each.announced_from is None else each.announced_from,
                    max_version=each.max_version,
                )
                for key, each in FAMILIES.items()
            ],
        )
        answer.complete([encode_response(response, version if known else 0, correlation_id)])

    def _respond(self, family: Family, request: Request, answer: Answer) -> None:
        respond, served, connection = family.respond, self._served, answer.connection
        assert respond is not None

        def work() -> bytes:
            return encode_response(respond(served, request, connection), request.version, request.correlation_id)

        def then(found: bytes) -> None:
            answer.complete([found])

        # Answers may be large: the next is made when the client has read this one, as with Kafka.
        answer.hold()
        if family.is_slow:
            served.administer(connection, work, then)
        else:
            then(work())
