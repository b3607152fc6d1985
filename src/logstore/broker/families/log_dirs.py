"""DescribeLogDirs: the directory of the store, and the bytes of each partition. In the pool: it may open logs."""

from __future__ import annotations

import logging

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation
from logstore.broker.served import Served
from logstore.errors import LogstoreError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from logstore.records import TopicPartition
from logstore.store.catalog.topic_list import TopicEntry

_logger = logging.getLogger(__name__)

_Directory = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
_Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


def describe_log_dirs(served: Served, request: Request, connection: ClientConnection) -> DescribeLogDirsResponse:
    """Return the size of all partitions, or of those that were asked for and exist, and the space of the disk."""
    asked = request.message
    assert isinstance(asked, DescribeLogDirsRequest)
    if not served.rights(request.client_id, connection).on_cluster(AclOperation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=codes.CLUSTER_AUTHORIZATION_FAILED, results=[])
    wanted = None if asked.topics is None else {each.topic: each.partitions for each in asked.topics}
    topics = []
    for name, entry in served.topics():
        if wanted is not None and name not in wanted:
            continue
        numbers = range(entry.partitions)
        chosen = numbers if wanted is None else sorted(set(numbers) & set(wanted[name]))
        found = [each for number in chosen if (each := _sized(served, name, entry, number)) is not None]
        if found:
            topics.append(_Topic(name=name, partitions=found))
    total, usable = served.host.root.files.space(served.host.path)
    directory = _Directory(log_dir=served.host.path, topics=topics, total_bytes=total, usable_bytes=usable)
    return DescribeLogDirsResponse(results=[directory])


def _sized(served: Served, name: str, entry: TopicEntry, number: int) -> _Partition | None:
    """Return a partition with its size; None if its log cannot be opened: Kafka leaves out one that is offline."""
    partitions = served.host.partitions
    log = partitions.found((name, number))
    if log is None and served.is_replicated(name):
        return None  # another node has it, or its own node opens it
    if log is None and entry.is_synced:  # else no log of the topic was ever opened: each is empty
        try:
            log = partitions.get(TopicPartition(name, number))
        except LogstoreError as error:
            _logger.warning("size not known: log=%s-%d error=%s", name, number, error)
            return None
    return _Partition(partition_index=number, partition_size=0 if log is None else log.maintenance.size)
