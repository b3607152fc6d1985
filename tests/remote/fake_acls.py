"""Rights at the brokers of `fake_cluster`: what brokers with ACLs tell of them, and what they hide."""

from __future__ import annotations

from typing import Any

from logstore.protocol.generated import messages as m
from logstore.remote.diagnosis.rights import Operation
from tests.remote.fake_cluster import FakeCluster, Guard, Session

#: Operations that Kafka's authorizer derives from another one.
IMPLIED = {
    Operation.READ: {Operation.DESCRIBE},
    Operation.WRITE: {Operation.DESCRIBE},
    Operation.DELETE: {Operation.DESCRIBE},
    Operation.ALTER: {Operation.DESCRIBE},
    Operation.ALTER_CONFIGS: {Operation.DESCRIBE_CONFIGS},
}


class AclGuard(Guard):
    """Answers questions for rights; ``within`` is the login before them, if there is one.

    Owns nothing: `of` names the cluster whose topics it hides.
    """

    def __init__(self, within: Guard | None = None) -> None:
        self.within = Guard() if within is None else within
        self.cluster: FakeCluster | None = None
        self.permitted: dict[tuple[str, str], set[Operation]] = {}

    def allow(self, kind: str, name: str, *operations: Operation) -> None:
        found = self.permitted.setdefault((kind, name), set())
        for each in operations:
            found |= {each} | IMPLIED.get(each, set())

    def bits(self, kind: str, name: str) -> int:
        return sum(1 << each for each in self.permitted.get((kind, name), ()))

    def describes(self, kind: str, name: str) -> bool:
        return Operation.DESCRIBE in self.permitted.get((kind, name), ())

    def secured(self, connection: Any) -> Any:
        return self.within.secured(connection)

    def session(self) -> Session:
        return AclSession(self, self.within.session())


class AclSession(Session):
    """The rights of one connection, whose login is that of ``within``."""

    def __init__(self, guard: AclGuard, within: Session) -> None:
        self._guard = guard
        self._within = within

    def answer(self, request: Any) -> Any | None:
        found = self._within.answer(request)
        if found is not None:
            return found
        if isinstance(request, m.MetadataRequest):
            return self._metadata(request)
        if isinstance(request, m.DescribeClusterRequest):
            guard = self._guard
            told = guard.bits("cluster", "") if guard.describes("cluster", "") else 0
            return m.DescribeClusterResponse(cluster_id="fake", cluster_authorized_operations=told)
        if isinstance(request, m.FindCoordinatorRequest) and not self._guard.describes("group", request.key):
            return m.FindCoordinatorResponse(error_code=30)
        if isinstance(request, m.DescribeGroupsRequest):
            groups = [
                m.DescribeGroupsResponse.DescribedGroup(
                    group_id=each, group_state="Dead", authorized_operations=self._guard.bits("group", each)
                )
                for each in request.groups
            ]
            return m.DescribeGroupsResponse(groups=groups)
        return None

    def _metadata(self, request: Any) -> Any:
        cluster, guard = self._guard.cluster, self._guard
        assert cluster is not None
        answer = cluster.brokers[1].metadata(request, 0, 12)
        shown = []
        for topic in answer.topics:
            if guard.describes("topic", topic.name):
                topic.topic_authorized_operations = guard.bits("topic", topic.name)
                shown.append(topic)
            elif request.topics is not None:
                shown.append(m.MetadataResponse.MetadataResponseTopic(name=topic.name, error_code=29))
        answer.topics = shown
        return answer
