"""One classic member, driven step by step: what it sends, and how it reacts to each answer."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from logstore.errors import BrokerError, InvalidSettingError, LogstoreError, MalformedMessageError
from logstore.groups.assignors.embedded import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from logstore.groups.assignors.members import GroupMember
from logstore.groups.membership.classic import ClassicMember, CommitOutcome
from logstore.groups.membership.member import MemberPhase
from logstore.groups.membership.steps import (
    MembershipFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    SendRequest,
    TopicsWanted,
    in_version,
)
from logstore.groups.membership.timing import MemberSettings, Tries
from logstore.protocol.generated.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from logstore.protocol.message import Message
from logstore.records import TopicPartition
from tests.groups.coordinator import CODE
from tests.groups.membership.drive import MemberDrive

X = [TopicPartition("x", n) for n in range(4)]


class Drive(MemberDrive):
    """The driver of one member."""

    member: ClassicMember

    def __init__(self, *, assignors: tuple[str, ...] = ("cooperative-sticky",), **settings: Any) -> None:
        super().__init__()
        self.settings = MemberSettings(group_id="g", **settings)
        self.member = ClassicMember(self.settings, 0, assignors=assignors, rng=Random(1))
        self.member.subscribe(["x"], 0)
        self.run()

    def sent(self, kind: type[Message]) -> list[Any]:
        return [step.message for step in self.steps if isinstance(step, SendRequest) and type(step.message) is kind]

    def last(self, kind: type[Message]) -> SendRequest:
        found = [step for step in self.steps if isinstance(step, SendRequest) and type(step.message) is kind]
        return found[-1]

    def answer(self, kind: type[Message], response: Message) -> None:
        self.member.answered(self.last(kind).number, response, self.now)
        self.run()

    def find(self) -> Drive:
        found = FindCoordinatorResponse.Coordinator(key="g", node_id=7)
        self.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[found]))
        return self

    def joined(self, generation: int = 1) -> Drive:
        """Let the coordinator accept it as a follower."""
        if self.member.coordinator is None:
            self.find()
        response = JoinGroupResponse(
            generation_id=generation, protocol_name=self.member._protocols.names[0], leader="other", member_id="m-1"
        )
        self.answer(JoinGroupRequest, response)
        return self

    def stable(self, partitions: list[TopicPartition] = X[:2], generation: int = 1) -> Drive:
        self.joined(generation)
        self.answer(SyncGroupRequest, SyncGroupResponse(assignment=encode_assignment(partitions)))
        self.finish()
        return self


def test_it_finds_the_coordinator_and_joins_in_two_steps() -> None:
    one = Drive(max_poll_interval_ms=60_000, session_timeout_ms=9_000, assignors=("range", "cooperative-sticky"))
    assert one.sent(FindCoordinatorRequest)[0].coordinator_keys == ["g"]
    assert one.last(FindCoordinatorRequest).node_id is None
    one.find()
    first = one.sent(JoinGroupRequest)[0]
    assert (first.member_id, first.session_timeout_ms, first.rebalance_timeout_ms) == ("", 9_000, 60_000)
    assert [row.name for row in first.protocols] == ["range", "cooperative-sticky"]
    assert decode_subscription(first.protocols[1].metadata).topics == ("x",)
    assert one.last(JoinGroupRequest).node_id == 7
    assert one.last(JoinGroupRequest).timeout_ms == 65_000
    one.answer(JoinGroupRequest, JoinGroupResponse(error_code=CODE["MEMBER_ID_REQUIRED"], member_id="m-1"))
    assert [request.member_id for request in one.sent(JoinGroupRequest)] == ["", "m-1"]
    one.joined(5)
    request = one.sent(SyncGroupRequest)[0]
    assert (request.generation_id, request.member_id, request.assignments) == (5, "m-1", ())
    one.answer(SyncGroupRequest, SyncGroupResponse(assignment=encode_assignment(X)))
    assert one.seen(PartitionsAssigned)[0].partitions == (*X,)
    assert one.member.phase is MemberPhase.STABLE


def test_the_leader_asks_for_partition_counts_and_divides() -> None:
    one = Drive().find()
    own = one.sent(JoinGroupRequest)[0].protocols[0].metadata
    kind = JoinGroupResponse.JoinGroupResponseMember
    one.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            generation_id=1,
            protocol_name="cooperative-sticky",
            leader="m-1",
            member_id="m-1",
            members=[kind(member_id="m-1", metadata=own), kind(member_id="m-2", metadata=own)],
        ),
    )
    assert one.seen(TopicsWanted) == [TopicsWanted(("x",))]
    assert not one.sent(SyncGroupRequest)
    one.run(for_ms=300)
    assert len(one.seen(TopicsWanted)) > 1
    one.member.topics_known({"x": 4}, {}, one.now)
    one.run()
    given = one.sent(SyncGroupRequest)[0].assignments
    assert {row.member_id: len(decode_assignment(row.assignment).partitions) for row in given} == {
        "m-1": 2,
        "m-2": 2,
    }
    one.answer(SyncGroupRequest, SyncGroupResponse(assignment=given[0].assignment))
    one.finish()
    one.member.topics_known({"x": 6}, {}, one.now)
    one.run()
    assert "partitions" in one.sent(JoinGroupRequest)[-1].reason
    held = decode_assignment(given[0].assignment).partitions
    assert decode_subscription(one.sent(JoinGroupRequest)[-1].protocols[0].metadata).owned == held


def test_a_static_leader_that_comes_back_does_not_divide() -> None:
    one = Drive(group_instance_id="host").find()
    own = one.sent(JoinGroupRequest)[0].protocols[0].metadata
    assert one.sent(JoinGroupRequest)[0].group_instance_id == "host"
    one.member.topics_known({"x": 4}, {}, one.now)
    row = JoinGroupResponse.JoinGroupResponseMember(member_id="m-1", group_instance_id="host", metadata=own)
    one.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            generation_id=1,
            protocol_name="cooperative-sticky",
            leader="m-1",
            member_id="m-1",
            members=[row],
            skip_assignment=True,
        ),
    )
    assert one.sent(SyncGroupRequest)[0].assignments == ()


def test_a_leader_asks_again_for_topics_that_only_others_subscribe_to() -> None:
    one = Drive().find()
    kind = JoinGroupResponse.JoinGroupResponseMember
    own = one.sent(JoinGroupRequest)[0].protocols[0].metadata
    others = encode_subscription(GroupMember(("y",)))

    def lead(generation: int) -> None:
        one.answer(
            JoinGroupRequest,
            JoinGroupResponse(
                generation_id=generation,
                protocol_name="cooperative-sticky",
                leader="m-1",
                member_id="m-1",
                members=[kind(member_id="m-1", metadata=own), kind(member_id="m-2", metadata=others)],
            ),
        )

    lead(1)
    one.member.topics_known({"x": 4, "y": 1}, {}, one.now)
    one.run()
    one.answer(
        SyncGroupRequest, SyncGroupResponse(assignment=one.sent(SyncGroupRequest)[0].assignments[0].assignment)
    )
    one.finish()
    one.run(for_ms=3_000)
    one.answer(HeartbeatRequest, HeartbeatResponse(error_code=CODE["REBALANCE_IN_PROGRESS"]))
    # While it joins it does not watch y, which may have got partitions.
    assert one.member.watched == {"x"}
    lead(2)
    assert one.seen(TopicsWanted)[-1] == TopicsWanted(("y",))
    one.member.topics_known({"y": 2}, {}, one.now)
    one.run()
    given = one.sent(SyncGroupRequest)[-1].assignments
    assert sum(len(decode_assignment(row.assignment).partitions) for row in given) == 6


def test_a_cooperative_member_keeps_what_it_does_not_lose() -> None:
    one = Drive().stable(X[:3])
    one.run(for_ms=3_000)
    one.answer(HeartbeatRequest, HeartbeatResponse(error_code=CODE["REBALANCE_IN_PROGRESS"]))
    said = decode_subscription(one.sent(JoinGroupRequest)[-1].protocols[0].metadata)
    assert (said.owned, said.generation) == ((*X[:3],), 1)
    assert not one.seen(PartitionsRevoked)
    one.joined(2)
    one.answer(SyncGroupRequest, SyncGroupResponse(assignment=encode_assignment(X[:1])))
    assert one.seen(PartitionsRevoked) == [PartitionsRevoked((X[1], X[2]))]
    joins = len(one.sent(JoinGroupRequest))
    assert one.member.held == {*X[:3]}  # until the callback has finished
    one.finish()
    one.finish()  # of PartitionsAssigned, which has come after it
    assert one.member.held == {X[0]}
    assert len(one.sent(JoinGroupRequest)) == joins + 1
    said = decode_subscription(one.sent(JoinGroupRequest)[-1].protocols[0].metadata)
    assert (said.owned, said.generation) == ((X[0],), 2)


def test_an_eager_member_revokes_all_before_it_joins_and_goes_on_with_heartbeats() -> None:
    one = Drive(assignors=("range",)).stable(X[:3])
    one.run(for_ms=3_000)
    one.answer(HeartbeatRequest, HeartbeatResponse(error_code=CODE["REBALANCE_IN_PROGRESS"]))
    assert one.seen(PartitionsRevoked) == [PartitionsRevoked((*X[:3],))]
    assert len(one.sent(JoinGroupRequest)) == 1
    one.run(for_ms=4_000)
    assert len(one.sent(HeartbeatRequest)) == 2  # while the callback runs
    one.finish()
    assert len(one.sent(JoinGroupRequest)) == 2
    assert decode_subscription(one.sent(JoinGroupRequest)[-1].protocols[0].metadata).owned == ()


def test_another_subscription_joins_again_and_revokes_what_it_leaves_out() -> None:
    one = Drive().stable(X[:2])
    one.member.subscribe(["y"], one.now)
    one.run()
    assert one.seen(PartitionsRevoked) == [PartitionsRevoked((*X[:2],))]
    one.finish()
    assert decode_subscription(one.sent(JoinGroupRequest)[-1].protocols[0].metadata).topics == ("y",)


ALL_RETRY = ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"]
ALL_FAIL = ["GROUP_AUTHORIZATION_FAILED", "FENCED_INSTANCE_ID", "UNKNOWN_SERVER_ERROR"]
JOIN_FAILS = [
    "INCONSISTENT_GROUP_PROTOCOL",
    "INVALID_SESSION_TIMEOUT",
    "INVALID_GROUP_ID",
    "GROUP_MAX_SIZE_REACHED",
    "UNSUPPORTED_VERSION",
]


@pytest.mark.parametrize("name", [*ALL_RETRY, "REBALANCE_IN_PROGRESS"])
def test_join_group_is_tried_again_after_a_pause(name: str) -> None:
    one = Drive().find()
    one.answer(JoinGroupRequest, JoinGroupResponse(error_code=CODE[name]))
    assert len(one.sent(JoinGroupRequest)) == 1
    one.run(for_ms=150)
    is_elsewhere = name in ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
    assert len(one.sent(FindCoordinatorRequest)) == 1 + is_elsewhere
    if is_elsewhere:
        one.find()
    assert len(one.sent(JoinGroupRequest)) == 2


def test_join_group_of_an_unknown_member_begins_without_an_id() -> None:
    one = Drive().find()
    one.answer(JoinGroupRequest, JoinGroupResponse(error_code=CODE["MEMBER_ID_REQUIRED"], member_id="m-1"))
    one.answer(JoinGroupRequest, JoinGroupResponse(error_code=CODE["UNKNOWN_MEMBER_ID"]))
    assert [request.member_id for request in one.sent(JoinGroupRequest)] == ["", "m-1", ""]


@pytest.mark.parametrize("name", ALL_FAIL + JOIN_FAILS)
def test_join_group_fails_with_kafkas_code(name: str) -> None:
    one = Drive().find()
    one.answer(JoinGroupRequest, JoinGroupResponse(error_code=CODE[name]))
    (failure,) = one.seen(MembershipFailed)
    assert CODE[name] == failure.error.code
    assert failure.is_final is (name == "FENCED_INSTANCE_ID")
    assert one.member.phase is MemberPhase.FAILED
    one.member.polled(one.now)
    one.run()
    assert len(one.sent(JoinGroupRequest)) == 1 + (name != "FENCED_INSTANCE_ID")


@pytest.mark.parametrize("name", [*ALL_RETRY, "REBALANCE_IN_PROGRESS"])
def test_after_a_sync_group_that_may_succeed_later_it_joins_again_with_what_it_holds(name: str) -> None:
    one = Drive().stable(X[:2])
    one.member.rejoin("test")
    one.run()
    one.joined(2)
    one.answer(SyncGroupRequest, SyncGroupResponse(error_code=CODE[name]))
    one.run(for_ms=150)
    if one.member.coordinator is None:
        one.find()
    said = decode_subscription(one.sent(JoinGroupRequest)[-1].protocols[0].metadata)
    assert len(one.sent(JoinGroupRequest)) == 3
    assert (said.owned, said.generation) == ((*X[:2],), 1)  # the round that has failed gave nothing
    assert not one.seen(PartitionsLost)


@pytest.mark.parametrize("name", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
@pytest.mark.parametrize("kind", [SyncGroupRequest, HeartbeatRequest])
def test_a_member_that_was_removed_loses_all_before_it_joins(kind: type[Message], name: str) -> None:
    one = Drive().stable(X[:2])
    if kind is SyncGroupRequest:
        one.member.rejoin("test")
        one.run()
        one.joined(2)
        one.answer(kind, SyncGroupResponse(error_code=CODE[name]))
    else:
        one.run(for_ms=3_000)
        one.answer(kind, HeartbeatResponse(error_code=CODE[name]))
    assert one.seen(PartitionsLost) == [PartitionsLost((*X[:2],))]
    assert one.member.held == frozenset()
    joins = len(one.sent(JoinGroupRequest))
    one.finish()
    assert len(one.sent(JoinGroupRequest)) == joins + 1
    said = one.sent(JoinGroupRequest)[-1]
    assert said.member_id == ("m-1" if name == "ILLEGAL_GENERATION" else "")
    assert decode_subscription(said.protocols[0].metadata).owned == ()


@pytest.mark.parametrize("name", ALL_RETRY)
def test_a_heartbeat_is_tried_again(name: str) -> None:
    one = Drive().stable()
    one.run(for_ms=3_000)
    one.answer(HeartbeatRequest, HeartbeatResponse(error_code=CODE[name]))
    one.run(for_ms=150)
    if one.member.coordinator is None:
        one.find()
    assert len(one.sent(HeartbeatRequest)) == 2
    assert one.member.phase is MemberPhase.STABLE
    assert one.member.held == {*X[:2]}


@pytest.mark.parametrize("name", ALL_FAIL)
def test_a_heartbeat_fails_and_all_is_lost(name: str) -> None:
    one = Drive(group_instance_id="host").stable()
    one.run(for_ms=3_000)
    one.answer(HeartbeatRequest, HeartbeatResponse(error_code=CODE[name]))
    assert not one.seen(MembershipFailed)  # `on_lost` comes first
    one.finish()
    assert [failure.error.code for failure in one.seen(MembershipFailed)] == [CODE[name]]
    assert one.seen(PartitionsLost) == [PartitionsLost((*X[:2],))]


def test_a_coordinator_that_is_silent_for_a_session_is_looked_for_again() -> None:
    one = Drive(session_timeout_ms=9_000).stable()
    one.run(for_ms=9_200)
    assert len(one.sent(FindCoordinatorRequest)) == 2
    assert one.member.held == {*X[:2]}


def test_an_assignment_that_comes_after_the_session_is_not_taken() -> None:
    one = Drive(session_timeout_ms=9_000).joined()
    one.now += 9_000  # the process stands still
    one.answer(SyncGroupRequest, SyncGroupResponse(assignment=encode_assignment(X)))
    assert not one.seen(PartitionsAssigned)
    one.run(for_ms=150)
    one.find()
    assert len(one.sent(JoinGroupRequest)) == 2


def test_an_answer_counts_once_and_not_after_its_time() -> None:
    one = Drive().stable()
    one.run(for_ms=3_000)
    late = one.last(HeartbeatRequest)
    one.member.failed(late.number, one.now)
    one.member.answered(late.number, HeartbeatResponse(error_code=CODE["UNKNOWN_MEMBER_ID"]), one.now)
    one.member.failed(late.number, one.now)
    one.run()
    assert one.member.held == {*X[:2]}
    assert one.member.phase is MemberPhase.STABLE


def test_a_member_that_does_not_poll_leaves_and_joins_when_it_polls() -> None:
    one = Drive(max_poll_interval_ms=10_000, session_timeout_ms=60_000).stable()
    one.run(for_ms=10_000)
    (left,) = one.sent(LeaveGroupRequest)
    assert "max.poll.interval.ms" in left.members[0].reason
    assert left.members[0].member_id == "m-1"
    assert one.seen(PartitionsLost) == [PartitionsLost((*X[:2],))]
    one.finish()
    one.run(for_ms=60_000)
    assert len(one.sent(JoinGroupRequest)) == 1
    one.member.polled(one.now)
    one.run()
    assert one.sent(JoinGroupRequest)[-1].member_id == ""


def test_a_member_leaves_after_on_revoked_and_says_why() -> None:
    one = Drive().stable()
    one.member.close(one.now, "the program ends")
    one.run()
    assert one.seen(PartitionsRevoked) == [PartitionsRevoked((*X[:2],))]
    assert not one.sent(LeaveGroupRequest)
    one.finish()
    (left,) = one.sent(LeaveGroupRequest)
    assert [(row.member_id, row.reason) for row in left.members] == [("m-1", "the program ends")]
    one.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert one.member.phase is MemberPhase.CLOSED
    assert one.member.deadline_ms() is None


def test_a_static_member_does_not_leave() -> None:
    for is_late in (False, True):
        one = Drive(group_instance_id="host", max_poll_interval_ms=10_000).stable()
        if is_late:
            one.run(for_ms=10_000)
        one.member.close(one.now)
        one.run()
        one.finish()
        assert not one.sent(LeaveGroupRequest)
        assert one.member.phase is MemberPhase.CLOSED


def test_unsubscribing_leaves_and_a_later_subscription_joins() -> None:
    one = Drive().stable()
    one.member.subscribe([], one.now)
    one.run()
    one.finish()
    one.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert one.member.phase is MemberPhase.OUTSIDE
    one.member.subscribe(["x"], one.now)
    one.run()
    assert one.sent(JoinGroupRequest)[-1].member_id == ""


@pytest.mark.parametrize("name", ["COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_the_search_for_a_coordinator_goes_on_with_growing_pauses(name: str) -> None:
    one = Drive(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    times = [one.now]
    for _ in range(8):
        found = FindCoordinatorResponse.Coordinator(key="g", error_code=CODE[name])
        one.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[found]))
        due = one.member.deadline_ms()
        assert due is not None
        one.run(for_ms=due - one.now)
        times.append(one.now)
    pauses = [later - before for before, later in pairwise(times)]
    assert 80 <= pauses[0] <= 120
    assert all(800 <= pause <= 1_200 for pause in pauses[4:])
    assert len(set(pauses)) > 5


def test_a_search_that_is_not_allowed_fails() -> None:
    one = Drive()
    response = FindCoordinatorResponse(error_code=CODE["GROUP_AUTHORIZATION_FAILED"], error_message="no READ")
    one.answer(FindCoordinatorRequest, response)
    (failure,) = one.seen(MembershipFailed)
    assert isinstance(failure.error, BrokerError)
    assert "group 'g'" in str(failure.error)
    assert "no READ" in str(failure.error)


def test_bytes_that_are_no_assignment_or_subscription_fail() -> None:
    one = Drive().joined()
    one.answer(SyncGroupRequest, SyncGroupResponse(assignment=b"\0\3\x7f"))
    assert isinstance(one.seen(MembershipFailed)[0].error, MalformedMessageError)
    one = Drive().find()
    row = JoinGroupResponse.JoinGroupResponseMember(member_id="m-2", metadata=b"\0")
    one.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            generation_id=1, protocol_name="cooperative-sticky", leader="m-1", member_id="m-1", members=[row]
        ),
    )
    assert isinstance(one.seen(MembershipFailed)[0].error, MalformedMessageError)


def test_a_protocol_that_the_member_has_not_offered_fails() -> None:
    one = Drive().find()
    one.answer(JoinGroupRequest, JoinGroupResponse(generation_id=1, protocol_name="own", member_id="m-1"))
    error: LogstoreError = one.seen(MembershipFailed)[0].error
    assert error.code == CODE["INCONSISTENT_GROUP_PROTOCOL"]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("NONE", CommitOutcome.STORED),
        ("NOT_COORDINATOR", CommitOutcome.RETRY),
        ("COORDINATOR_LOAD_IN_PROGRESS", CommitOutcome.RETRY),
        ("REQUEST_TIMED_OUT", CommitOutcome.RETRY),
        ("REBALANCE_IN_PROGRESS", CommitOutcome.REBALANCING),
        ("ILLEGAL_GENERATION", CommitOutcome.FENCED),
        ("UNKNOWN_MEMBER_ID", CommitOutcome.FENCED),
        ("FENCED_INSTANCE_ID", CommitOutcome.FENCED),
        ("OFFSET_METADATA_TOO_LARGE", CommitOutcome.REFUSED),
        ("GROUP_AUTHORIZATION_FAILED", CommitOutcome.REFUSED),
    ],
)
def test_a_commit_that_is_refused_tells_about_the_membership(name: str, outcome: CommitOutcome) -> None:
    one = Drive().stable()
    assert one.member.settle_commit(CODE[name], one.member.identity, one.now) is outcome
    one.run()
    assert bool(one.seen(PartitionsLost)) is (outcome is CommitOutcome.FENCED)
    assert (len(one.sent(JoinGroupRequest)) == 2) is (outcome is CommitOutcome.REBALANCING)
    old = Drive().stable()
    assert old.member.settle_commit(CODE[name], old.member.identity._replace(generation=0), 0) is outcome
    old.run()
    assert not old.seen(PartitionsLost)


def test_a_commit_that_overtakes_the_answer_to_join_group_costs_no_membership() -> None:
    """The coordinator has begun generation 2, and the commit of generation 1 comes by another connection."""
    one = Drive().stable()
    one.member.rejoin("a test")
    one.run()
    held = one.member.held
    code = CODE["ILLEGAL_GENERATION"]
    assert one.member.settle_commit(code, one.member.identity, one.now) is CommitOutcome.REBALANCING
    one.run()
    assert (one.member.phase, one.member.held) == (MemberPhase.JOINING, held)
    one.stable(generation=2)
    assert (one.member.identity.generation, one.member.held) == (2, held)
    assert not one.seen(PartitionsLost)


def test_a_commit_between_two_tries_of_join_group_costs_no_membership() -> None:
    """The answer to JoinGroup was lost with its connection; the coordinator has begun generation 2."""
    one = Drive().stable()
    one.member.rejoin("a test")
    one.run()
    held = one.member.held
    one.member.failed(one.last(JoinGroupRequest).number, one.now)
    assert one.member.is_dividing
    code = CODE["ILLEGAL_GENERATION"]
    assert one.member.settle_commit(code, one.member.identity, one.now) is CommitOutcome.REBALANCING
    assert (one.member.phase, one.member.held) == (MemberPhase.JOINING, held)
    assert not one.seen(PartitionsLost)


def test_older_versions_name_one_group_and_one_member() -> None:
    assert in_version(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinator_keys == ["g"]
    message = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id="m-1")])
    assert in_version(message, 2).encode(2) == LeaveGroupRequest(group_id="g", member_id="m-1").encode(2)
    assert in_version(message, 5) is message


@pytest.mark.parametrize("names", [(), ("range", "own")])
def test_assignors_that_do_not_exist_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSettingError, match=r"partition\.assignment\.strategy"):
        ClassicMember(MemberSettings(group_id="g"), 0, assignors=names)


def test_tries_begin_without_a_pause_after_a_success() -> None:
    tries = Tries(MemberSettings(group_id="g"), Random(1))
    tries.pause(1_000)
    assert not tries.is_ready(1_050)
    tries.reset()
    assert tries.is_ready(1_050)
