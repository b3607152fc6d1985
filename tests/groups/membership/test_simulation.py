"""Groups of several members under virtual time: no partition is held twice, all are held when all is quiet.

Bugs that are planted in a member are found by the same lives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logstore.groups.membership.classic import ClassicMember
from logstore.groups.membership.holdings import Holdings
from logstore.groups.membership.member import MemberPhase
from logstore.groups.membership.modern import ModernMember
from logstore.groups.membership.steps import PartitionsLost, PartitionsRevoked
from logstore.groups.membership.timing import PollTimer
from logstore.protocol.generated.messages import HeartbeatRequest
from tests.groups.simulation import Faults, RuleBrokenError, World, rough_life

KINDS: dict[str, list[str] | None] = {
    "cooperative": ["cooperative-sticky"],
    "eager": ["range", "cooperative-sticky"],
    "sticky": ["sticky"],
    "round robin": ["roundrobin"],
    "modern": None,
}
RUNS = 4
RUNS_WITH_A_BUG = 25  #: so many, until it is found


def world(kind: str, seed: int) -> World:
    settings = {"max_poll_interval_ms": 30_000, "session_timeout_ms": 10_000}
    topics = {"x": 7} if kind == "eager" else {"x": 7, "y": 4}  # range divides each topic alone
    return World(seed, topics=topics, assignors=KINDS[kind], **settings)


def live(kind: str, seed: int, *, is_static: bool = False, turns: int = 25) -> World:
    made = world(kind, seed)
    try:
        rough_life(made, turns=turns, is_static=is_static)
    except Exception as error:
        error.add_note(f"kind {kind!r}, seed {seed}, static {is_static}")
        raise
    return made


@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_partition_is_held_twice_and_all_are_held_when_all_is_quiet(kind: str, is_static: bool) -> None:
    for seed in range(RUNS):
        live(kind, seed, is_static=is_static)


@pytest.mark.parametrize("kind", KINDS)
def test_without_faults_no_member_loses_a_partition_without_being_asked(kind: str) -> None:
    made = world(kind, 1)
    for _ in range(4):
        made.join()
        made.run_for(30_000)
    made.add_partitions("x", 2)
    made.run_for(60_000)
    made.check_quiet()
    for _ in range(2):
        made.close(made.alive[0])
        made.run_for(30_000)
    made.check_quiet()
    assert len(made.alive) == 2
    seen = [callback for actor in made.actors for callback in actor.callbacks]
    assert any(isinstance(callback, PartitionsRevoked) for callback in seen)
    assert not any(isinstance(callback, PartitionsLost) for callback in seen)


@pytest.mark.parametrize("kind", ["cooperative", "modern"])
def test_a_member_that_joins_takes_only_its_share_from_the_others(kind: str) -> None:
    made = world(kind, 1)
    for _ in range(2):
        made.join()
    made.run_for(60_000)
    for actor in made.actors:
        actor.callbacks.clear()
    made.join()
    made.run_for(60_000)
    made.check_quiet()
    revoked = [
        one
        for actor in made.actors[:2]
        for callback in actor.callbacks
        if isinstance(callback, PartitionsRevoked)
        for one in callback.partitions
    ]
    assert sorted(revoked) == sorted(made.actors[2].holds)
    assert len(revoked) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_lost_answers_cost_no_membership(kind: str) -> None:
    lost = 0
    for seed in range(4):
        made = world(kind, seed)
        if kind == "modern":
            made.coordinator._session_ms = 60_000  # more than three answers that are lost one after another
        made.faults = Faults(answer_lost=0.1) if kind == "modern" else Faults(refused=0.1)
        for _ in range(3):
            made.join()
            made.run_for(20_000)
        made.run_for(100_000)
        made.faults = Faults()
        made.run_for(100_000)
        made.check_quiet()
        lost += sum(isinstance(callback, PartitionsLost) for actor in made.actors for callback in actor.callbacks)
    assert lost == 0


def test_a_static_member_that_starts_again_in_time_causes_no_rebalance() -> None:
    made = world("sticky", 1)
    for name in ("one", "two", "three"):
        made.join(instance_id=name)
    made.run_for(60_000)
    rounds, held = made.rounds, set(made.actors[1].holds)
    made.close(made.actors[1])
    made.run_for(2_000)
    again = made.join(instance_id="two")
    made.run_for(60_000)
    made.check_quiet()
    assert (made.rounds, again.holds) == (rounds, held)


def test_two_consumers_with_one_instance_id_do_not_both_stay() -> None:
    made = world("cooperative", 1)
    first = made.join(instance_id="one")
    made.run_for(30_000)
    second = made.join(instance_id="one")
    made.run_for(60_000)
    assert first.member.phase is MemberPhase.FAILED
    assert not first.holds
    assert len(second.holds) == 11
    assert [failure.is_final for failure in first.failures] == [True]


# --- planted bugs ------------------------------------------------------------------------------


def _revokes_without_asking(holdings: Holdings, partitions: Any) -> bool:
    found = set(partitions)
    holdings.held -= found
    return bool(found)


def _hands_over_before_the_callback_ends(original: Callable[..., Any]) -> Callable[..., Any]:
    def next_callback(holdings: Holdings) -> Any:
        found = original(holdings)
        if isinstance(found, PartitionsRevoked):
            holdings.held -= set(found.partitions)
        return found

    return next_callback


def _names_the_generation_before(original: Callable[..., Any]) -> Callable[..., Any]:
    def send_heartbeat(member: ClassicMember, now_ms: int, found: list[Any]) -> None:
        original(member, now_ms, found)
        for step in found:
            message = getattr(step, "message", None)
            if isinstance(message, HeartbeatRequest):
                message.generation_id -= 1

    return send_heartbeat


def _does_not_join_after_revoking(original: Callable[..., Any]) -> Callable[..., Any]:
    def begin_round(member: ClassicMember, partitions: Any) -> None:
        original(member, partitions)
        member._reason = None

    return begin_round


def _joins_with_the_old_epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    def join(member: ModernMember) -> None:
        epoch = member._epoch
        original(member)
        member._epoch = epoch

    return join


PLANTED: dict[str, tuple[str, type, str, Any]] = {
    "cooperative: partitions go without on_revoked": (
        "cooperative", Holdings, "revoke", lambda _: _revokes_without_asking,
    ),
    "eager: partitions go without on_revoked": ("eager", Holdings, "revoke", lambda _: _revokes_without_asking),
    "modern: partitions go without on_revoked": ("modern", Holdings, "revoke", lambda _: _revokes_without_asking),
    "eager: nothing is revoked before JoinGroup": (
        "eager", ClassicMember, "_prepare", lambda _: lambda member: setattr(member, "_is_prepared", True),
    ),
    "cooperative: the callback is not waited for": (
        "cooperative", Holdings, "is_settled", lambda _: property(lambda holdings: True),
    ),
    "modern: the callback is not waited for": (
        "modern", Holdings, "next_callback", _hands_over_before_the_callback_ends,
    ),
    "heartbeats of the generation before": (
        "cooperative", ClassicMember, "_send_heartbeat", _names_the_generation_before,
    ),
    "cooperative: no round after partitions were revoked": (
        "cooperative", ClassicMember, "_begin_round", _does_not_join_after_revoking,
    ),
    "classic: no leave although the application does not poll": (
        "cooperative", PollTimer, "is_expired", lambda _: lambda timer, now_ms: False,
    ),
    "modern: no leave although the application does not poll": (
        "modern", PollTimer, "is_expired", lambda _: lambda timer, now_ms: False,
    ),
    "classic: a fenced member keeps what it holds": (
        "cooperative", Holdings, "lose", lambda _: lambda holdings: holdings._waiting.clear(),
    ),
    "modern: a fenced member keeps what it holds": (
        "modern", Holdings, "lose", lambda _: lambda holdings: holdings._waiting.clear(),
    ),
    "modern: fenced, it joins with its old epoch": ("modern", ModernMember, "_join", _joins_with_the_old_epoch),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, owner, attribute, planted = PLANTED[name]
    monkeypatch.setattr(owner, attribute, planted(getattr(owner, attribute)))
    for seed in range(RUNS_WITH_A_BUG):
        try:
            live(kind, seed)
        except (RuleBrokenError, AssertionError):
            return
    pytest.fail(f"not found in {RUNS_WITH_A_BUG} lives")
