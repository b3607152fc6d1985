"""Committed offsets of consumer groups on a cluster.

Each group has a coordinator among the brokers, which is looked up and asked again when it has moved. A commit of no
member is made as Kafka's clients without a subscription make it: with no generation and no member id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from logstore.client.backend.group_offsets import GroupOffsets
from logstore.errors import BrokerUnreachableError, LogstoreError, UnknownPartitionError
from logstore.groups.membership.classic import GroupIdentity
from logstore.groups.offsets import OffsetAndMetadata, check_commit, check_group
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    FindCoordinatorRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from logstore.protocol.grouping import by_topic
from logstore.records import Ack, TopicPartition
from logstore.remote.answers import the_one
from logstore.remote.client import Client
from logstore.remote.network.link import BrokerLink

_T = TypeVar("_T")

#: What a commit says of a consumer that has not subscribed.
NO_MEMBER = GroupIdentity("", -1, None)

#: How often a consumer stores its offsets again. A coordinator forgets those of a group without members after
#: offsets.retention.minutes, by default seven days.
RENEW_S = 3_600.0

#: The last versions that name topics, and not their ids.
_BY_NAME = 9
_MANY_GROUPS = 8  #: the first version of OffsetFetch with a list of groups
_MANY_KEYS = 4  #: the first version of FindCoordinator with a list of keys

#: The most bytes of metadata in a commit that are sent; the coordinator's own limit may be lower.
_METADATA_BYTES = 32_767


class RemoteOffsets(GroupOffsets):
    """The offsets of the groups of one cluster. Any thread may call."""

    renew_s = RENEW_S

    def __init__(self, client: Client) -> None:
        self._client = client
        self._coordinators: dict[str, int] = {}

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets; waits while a transaction that commits some is being decided.

        Raises as `GroupOffsets.committed`, and as a request to a broker.
        """
        check_group(group)
        wanted = None if partitions is None else by_topic(partitions)
        if wanted is not None and not wanted:
            return {}

        def ask(connection: BrokerLink) -> dict[TopicPartition, OffsetAndMetadata]:
            version = connection.version_of(OffsetFetchRequest, _BY_NAME)
            R = OffsetFetchRequest
            if version >= _MANY_GROUPS:
                topics = (
                    None
                    if wanted is None
                    else [
                        R.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                        for name, numbers in wanted.items()
                    ]
                )
                request = R(groups=[R.OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
            else:
                listed = (
                    None
                    if wanted is None
                    else [
                        R.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
                        for name, numbers in wanted.items()
                    ]
                )
                request = R(group_id=group, topics=listed, require_stable=version >= 7)
            answer = connection.ask(request, version=version)
            where = f"committed offsets of group {group!r} at {connection}"
            if version >= _MANY_GROUPS:
                answer = the_one(answer.groups, where)
            _raise(getattr(answer, "error_code", 0), where)
            found = {}
            for topic in answer.topics:
                for each in topic.partitions:
                    _raise(each.error_code, where)
                    if each.committed_offset >= 0:
                        found[TopicPartition(topic.name, each.partition_index)] = OffsetAndMetadata(
                            each.committed_offset, each.metadata or "", leader_epoch=each.committed_leader_epoch
                        )
            return found

        return self._at_coordinator("committed offsets", group, ask)

    def groups(self) -> list[str]:
        found: set[str] = set()

        def ask(connection: BrokerLink) -> None:
            answer = connection.ask(ListGroupsRequest())
            _raise(answer.error_code, f"groups at {connection}")
            found.update(each.group_id for each in answer.groups)

        for node in self._client.metadata([]).brokers:
            self._client.cluster.attempts("list groups").run(partial(self._at, node, ask))
        return sorted(found)

    def check_writable(self, group: str) -> None:
        """Do nothing: a broker refuses a commit when it is made."""

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        ack: Ack | str | None = None,
    ) -> None:
        self.commit_as(NO_MEMBER, group, offsets)

    def commit_as(
        self, member: GroupIdentity, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit as `commit` does, as a member of the group."""
        check_group(group)
        commits: dict[TopicPartition, OffsetAndMetadata] = {}
        for place, given in offsets.items():
            name = TopicPartition(*place)
            commit = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
            check_commit(name, commit, _METADATA_BYTES)
            count = len(self._client.topic(name.topic, fresh=False).partitions)
            if not 0 <= name.partition < count:
                raise UnknownPartitionError(
                    f"topic {name.topic!r} has partitions 0 to {count - 1}, none with number {name.partition}"
                )
            commits[name] = commit
        left = dict(commits)

        def ask(connection: BrokerLink) -> None:
            R = OffsetCommitRequest
            request = R(
                group_id=group,
                generation_id_or_member_epoch=member.generation,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                topics=[
                    R.OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            R.OffsetCommitRequestPartition(
                                partition_index=number,
                                committed_offset=left[TopicPartition(topic, number)].offset,
                                committed_leader_epoch=left[TopicPartition(topic, number)].leader_epoch,
                                committed_metadata=left[TopicPartition(topic, number)].metadata,
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(left).items()
                ],
            )
            answer = connection.ask(request, version=connection.version_of(R, _BY_NAME))
            refused: LogstoreError | None = None
            for topic in answer.topics:
                for each in topic.partitions:
                    name = TopicPartition(topic.name, each.partition_index)
                    if each.error_code:
                        where = f"commit of group {group!r} for {name} at {connection}"
                        refused = refused or codes.error_of(each.error_code, where)
                    else:
                        left.pop(name, None)
            if refused is not None:
                raise refused
            if left:
                raise BrokerUnreachableError(
                    f"group {group!r}: {connection} left the commit of {next(iter(left))} out of its answer"
                )

        if commits:
            self._at_coordinator("commit", group, ask)

    def delete(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        ack: Ack | str | None = None,
    ) -> int:
        there = self.committed(group, partitions)
        if not there:
            return 0

        def ask(connection: BrokerLink) -> None:
            R = OffsetDeleteRequest
            answer = connection.ask(
                R(
                    group_id=group,
                    topics=[
                        R.OffsetDeleteRequestTopic(
                            name=topic,
                            partitions=[
                                R.OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                            ],
                        )
                        for topic, numbers in by_topic(there).items()
                    ],
                )
            )
            where = f"deletion of offsets of group {group!r} at {connection}"
            _raise(answer.error_code, where)
            for topic in answer.topics:
                for each in topic.partitions:
                    _raise(each.error_code, f"{where}, {topic.name}-{each.partition_index}")

        self._at_coordinator("delete offsets", group, ask)
        return len(there)

    def pin(self, group: str, holder: object) -> None:
        """Do nothing: `renew_s` keeps the offsets from expiring."""

    def unpin(self, holder: object) -> None:
        """Do nothing."""

    # -- the coordinator

    def _at_coordinator(self, what: str, group: str, ask: Callable[[BrokerLink], _T]) -> _T:
        """Call ``ask`` with a connection to a group's coordinator; look it up again after a retriable error."""
        attempts = self._client.cluster.attempts(f"{what} of group {group!r}")
        while True:
            try:
                node = self._coordinators.get(group)
                if node is None:
                    node = self._coordinators[group] = self._find(group)
                return self._at(node, ask)
            except LogstoreError as error:
                self._coordinators.pop(group, None)
                attempts.retry(error)

    def _at(self, node: int, ask: Callable[[BrokerLink], _T]) -> _T:
        with self._client.cluster.connection(node) as connection:
            return ask(connection)

    def _find(self, group: str) -> int:
        cluster = self._client.cluster
        with cluster.any_connection() as connection:
            version = connection.version_of(FindCoordinatorRequest)
            request = FindCoordinatorRequest(
                key=group if version < _MANY_KEYS else "",
                coordinator_keys=[group] if version >= _MANY_KEYS else [],
            )
            answer: Any = connection.ask(request, version=version)
            where = f"coordinator of group {group!r} at {connection}"
            if version >= _MANY_KEYS:
                answer = the_one(answer.coordinators, where)
            _raise(answer.error_code, where, answer.error_message)
        if answer.node_id not in cluster.known.brokers:
            self._client.metadata([])
            if answer.node_id not in cluster.known.brokers:
                raise BrokerUnreachableError(f"{where}: broker {answer.node_id} is not in the metadata")
        return int(answer.node_id)


def _raise(code: int, where: str, message: str | None = None) -> None:
    if code:
        raise codes.error_of(code, where, message)
