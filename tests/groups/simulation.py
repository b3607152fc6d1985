"""Members of one group, their coordinator and the network between them under virtual time, with a ledger.

Everything random comes from one seed. The ledger refuses a partition that is given to an application while another
one holds it, unless the coordinator has removed one of the two.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from logstore.errors import LogstoreError
from logstore.groups.membership.classic import ClassicMember
from logstore.groups.membership.member import MemberPhase
from logstore.groups.membership.modern import MemberSubscription, ModernMember
from logstore.groups.membership.steps import (
    Callback,
    MembershipFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    SendRequest,
    TopicIdsWanted,
    TopicsWanted,
)
from logstore.groups.membership.timing import MemberSettings
from logstore.protocol.generated.messages import (
    RESPONSES,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
)
from logstore.records import TopicPartition
from tests.groups.coordinator import CODE, ClassicCoordinator, ModernCoordinator

TRANSIENT = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")


class RuleBrokenError(LogstoreError):
    """The ledger has found what may not be."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class Faults(NamedTuple):
    """How likely each fault is, for one message."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    doubled: float = 0.0
    refused: float = 0.0
    slow: float = 0.0


CALM = Faults()
ROUGH = Faults(request_lost=0.02, answer_lost=0.02, doubled=0.03, refused=0.03, slow=0.02)


class Actor:
    """One application with its member: a driver that does what the member asks."""

    def __init__(self, world: World, name: str, settings: MemberSettings, topics: Sequence[str]) -> None:
        self.world, self.name, self.topics = world, name, tuple(topics)
        self.settings = settings
        self.member: Any = world.make(self)
        self.holds: set[TopicPartition] = set()
        self.is_alive = True
        self.is_frozen = False  #: neither the application nor its driver runs
        self.is_busy = False  #: a handler of the application runs: it does not poll
        self.callback: Callback | None = None
        self.callbacks: list[Callback] = []
        self.failures: list[MembershipFailed] = []
        self.has_polled_ms = world.now
        self._in_callback = False
        self._kept: list[Callable[[], None]] = []
        self._arrival_ms = 0
        self._woken_at: int | None = None
        self.subscribe(topics)
        self.poll()

    def subscribe(self, topics: Sequence[str]) -> None:
        self.topics = tuple(topics)
        if isinstance(self.member, ModernMember):
            self.member.subscribe(MemberSubscription(frozenset(topics)), self.world.now)
        else:
            self.member.subscribe(topics, self.world.now)
        self.run()

    @property
    def member_id(self) -> str:
        member = self.member
        return member.member_id if isinstance(member, ModernMember) else member.identity.member_id

    # --- the application ---

    def poll(self) -> None:
        """Poll now and then; callbacks run inside."""
        if not self.is_alive:
            return
        self.world.after(self.world.rng.randint(50, 1_000), self.poll)
        if self.is_frozen or self.is_busy or self._in_callback:
            return
        self.has_polled_ms = self.world.now
        self.member.polled(self.world.now)
        if self.callback is not None:
            self._in_callback = True
            self.world.after(self.world.rng.choice([0, 1, 20, 1_500]), self.end_callback)
        self.run()

    def end_callback(self) -> None:
        if not self.is_alive:
            return
        if self.is_frozen:
            self._kept.append(self.end_callback)
            return
        callback, self.callback, self._in_callback = self.callback, None, False
        assert callback is not None
        if isinstance(callback, PartitionsRevoked):
            if not self.holds.issuperset(callback.partitions):
                raise RuleBrokenError(f"{self.name} is to revoke {callback.partitions}, and holds {self.holds}")
            self.holds -= set(callback.partitions)
        self.has_polled_ms = self.world.now
        self.member.polled(self.world.now)
        self.member.finished(callback, self.world.now)
        self.run()

    # --- the driver ---

    def tell(self, call: Callable[[], None]) -> None:
        """Tell the member something, if the process runs."""
        if not self.is_alive:
            return
        if self.is_frozen:
            self._kept.append(lambda: self.tell(call))
            return
        call()
        self.run()

    def thaw(self) -> None:
        self.is_frozen = False
        kept, self._kept = self._kept, []
        for call in kept:
            call()
        self.run()

    def run(self) -> None:
        if not self.is_alive or self.is_frozen:
            return
        now = self.world.now
        while steps := self.member.steps(now):
            for step in steps:
                self._do(step)
        due = self.member.deadline_ms()
        if due is not None and due <= now:
            raise RuleBrokenError(f"{self.name}: due at {due}, and has no step at {now}")
        if due is not None and (self._woken_at is None or due < self._woken_at):
            self._woken_at = due
            self.world.after(due - now, lambda: self._wake(due))

    def _wake(self, due: int) -> None:
        if self._woken_at == due:
            self._woken_at = None
        self.run()

    def _do(self, step: Any) -> None:
        if isinstance(step, SendRequest):
            self.world.send(self, step)
        elif isinstance(step, TopicsWanted):
            self.world.after(30, lambda: self.tell(self._tell_topics))
        elif isinstance(step, TopicIdsWanted):
            names = {topic_id: topic for topic, (topic_id, _) in self.world.topics.items()}
            self.world.after(30, lambda: self.tell(lambda: self.member.topics_named(names, self.world.now)))
        elif isinstance(step, MembershipFailed):
            self.failures.append(step)
            if step.is_final and self.world.restarts:
                self.world.after(1_000, lambda: self.world.restart(self))
        else:
            if self.callback is not None:
                raise RuleBrokenError(f"{self.name}: {step} before {self.callback} has finished")
            self.callback = step
            self.callbacks.append(step)
            if isinstance(step, PartitionsAssigned):
                self.world.check_assigned(self, step.partitions)
                self.holds |= set(step.partitions)
            elif isinstance(step, PartitionsLost):
                self.holds -= set(step.partitions)

    def _tell_topics(self) -> None:
        counts = {topic: self.world.topics.get(topic, ("", 0))[1] for topic in self.member.watched}
        self.member.topics_known(counts, {}, self.world.now)

    def arrival(self, delay_ms: int) -> int:
        """When a message of this connection arrives: not before those that were sent earlier."""
        self._arrival_ms = max(self._arrival_ms, self.world.now + delay_ms)
        return self._arrival_ms


class World:
    """A group under virtual time."""

    def __init__(
        self, seed: int, *, topics: dict[str, int], assignors: Sequence[str] | None, **settings: Any
    ) -> None:
        self.rng = Random(seed)
        self.now = 0
        self.topics = {topic: (f"id-{topic}", count) for topic, count in topics.items()}
        self.assignors = assignors  #: None: KIP-848
        self.settings = settings
        self.faults = CALM
        self.restarts = False  #: whether an application that is refused for good is started again
        self.restarted = 0
        self.node = 1
        self.coordinator: Any = (
            ModernCoordinator(self.topics, session_ms=28_000, interval_ms=3_000)
            if assignors is None
            else ClassicCoordinator(initial_delay_ms=100)
        )
        self.actors: list[Actor] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.after(50, self._tick)

    def make(self, actor: Actor) -> Any:
        rng = Random(self.rng.random())
        if self.assignors is None:
            return ModernMember(actor.settings, self.now, rng=rng)
        return ClassicMember(actor.settings, self.now, assignors=self.assignors, rng=rng)

    def join(self, topics: Sequence[str] | None = None, instance_id: str | None = None) -> Actor:
        settings = MemberSettings(group_id="g", group_instance_id=instance_id, **self.settings)
        actor = Actor(self, f"a{len(self.actors)}", settings, topics or [*self.topics])
        self.actors.append(actor)
        return actor

    @property
    def alive(self) -> list[Actor]:
        return [actor for actor in self.actors if actor.is_alive]

    @property
    def rounds(self) -> int:
        """How often the coordinator has begun a generation or a group epoch."""
        found: int = self.coordinator.epoch if self.assignors is None else self.coordinator.generation
        return found

    # --- time ---

    def after(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_ms, self._count, call))

    def run_for(self, duration_ms: int) -> None:
        until = self.now + duration_ms
        while self._events and self._events[0][0] <= until:
            self.now, _, call = heapq.heappop(self._events)
            call()
        self.now = until

    def _tick(self) -> None:
        self.coordinator.tick(self.now)
        for actor in self.alive:
            late = self.now - actor.has_polled_ms
            is_late = late > actor.settings.max_poll_interval_ms + 1_000 and not actor.is_frozen
            if is_late and actor.holds and actor.callback is None:
                raise RuleBrokenError(f"{actor.name} has not polled for {late} ms, and holds {actor.holds}")
        self.after(50, self._tick)

    # --- the network ---

    def send(self, actor: Actor, step: SendRequest) -> None:
        rng, faults = self.rng, self.faults
        self.after(step.timeout_ms, lambda: self._fail(actor, step))
        delay = rng.randint(1, 30)
        if rng.random() < faults.slow:
            delay = rng.randint(1_000, 40_000)
        if rng.random() < faults.request_lost:
            self.after(rng.randint(10, 20_000), lambda: self._fail(actor, step))
            return
        arrival = actor.arrival(delay) - self.now
        # A copy of a static member's first JoinGroup would fence the member that the original has made.
        may_be_doubled = actor.settings.group_instance_id is None or not isinstance(step.message, JoinGroupRequest)
        self.after(arrival, lambda: self._arrive(actor, step))
        if may_be_doubled and rng.random() < faults.doubled:
            self.after(arrival, lambda: self._arrive(actor, step, is_copy=True))

    def _fail(self, actor: Actor, step: SendRequest) -> None:
        actor.tell(lambda: actor.member.failed(step.number, self.now))

    def _arrive(self, actor: Actor, step: SendRequest, *, is_copy: bool = False) -> None:
        message = step.message

        def reply(response: Any) -> None:
            if is_copy:
                return  # the client waits for one answer
            if self.rng.random() < self.faults.answer_lost:
                self.after(self.rng.randint(10, 20_000), lambda: self._fail(actor, step))
                return
            self.after(
                self.rng.randint(1, 30),
                lambda: actor.tell(lambda: actor.member.answered(step.number, response, self.now)),
            )

        kind = RESPONSES[message.API_KEY]
        error = self.rng.choice(TRANSIENT) if self.rng.random() < self.faults.refused else None
        if isinstance(message, FindCoordinatorRequest):
            found = FindCoordinatorResponse.Coordinator(key="g", node_id=self.node)
            if error is not None:
                found.error_code = CODE[error]
            reply(FindCoordinatorResponse(coordinators=[found]))
        elif step.node_id != self.node:
            reply(kind(error_code=CODE["NOT_COORDINATOR"]))  # type: ignore[call-arg]  # any answer
        elif error is not None:
            reply(kind(error_code=CODE[error]))  # type: ignore[call-arg]  # any answer
        else:
            self.coordinator.deliver(message, self.now, reply)

    # --- faults ---

    def move_coordinator(self) -> None:
        self.node = self.node % 3 + 1
        self.coordinator.move(self.now)

    def add_partitions(self, topic: str, more: int) -> None:
        topic_id, count = self.topics[topic]
        self.topics[topic] = (topic_id, count + more)
        if self.assignors is None:
            self.coordinator.add_partitions(topic, count + more)
        else:
            for actor in self.alive:
                self.after(self.rng.randint(10, 5_000), lambda actor=actor: actor.tell(actor._tell_topics))

    def kill(self, actor: Actor) -> None:
        actor.is_alive = False
        actor.holds.clear()

    def restart(self, actor: Actor) -> None:
        """Start an application again that has ended by an error."""
        if actor.is_alive:
            self.restarted += 1
            self.kill(actor)
            self.join(actor.topics, actor.settings.group_instance_id)

    def close(self, actor: Actor) -> None:
        actor.tell(lambda: actor.member.close(self.now))

        def end() -> None:
            if actor.member.phase is MemberPhase.CLOSED:
                if actor.holds:
                    raise RuleBrokenError(f"{actor.name} is closed, and holds {actor.holds}")
                actor.is_alive = False
            elif actor.is_alive:
                self.after(100, end)

        end()

    # --- the ledger ---

    def check_assigned(self, actor: Actor, partitions: Sequence[TopicPartition]) -> None:
        for other in self.actors:
            both = other.holds.intersection(partitions)
            if other is actor or not both:
                continue
            # A process that has stood still may take the answer of a round that is over; it is told soon.
            if self.coordinator.counts(other.member_id) and self.coordinator.counts(actor.member_id):
                raise RuleBrokenError(f"{self.now}: {actor.name} gets {sorted(both)}, which {other.name} holds")

    def check_quiet(self) -> None:
        """Check that every partition is held once, and that shares differ by at most one."""
        wanted = {topic for actor in self.alive for topic in actor.topics}
        expected = sorted(
            TopicPartition(topic, n)
            for topic in wanted
            if topic in self.topics
            for n in range(self.topics[topic][1])
        )
        held = sorted(one for actor in self.alive for one in actor.holds)
        if self.alive and held != expected:
            shares = {actor.name: (str(actor.member.phase), sorted(actor.holds)) for actor in self.alive}
            raise RuleBrokenError(f"held {len(held)} of {len(expected)}: {shares}")
        if len({actor.topics for actor in self.alive}) == 1:
            sizes = [len(actor.holds) for actor in self.alive]
            if max(sizes) - min(sizes) > 1:
                phases = [(str(actor.member.phase), actor.failures) for actor in self.alive]
                raise RuleBrokenError(f"shares {sizes} {phases}")
        for actor in self.alive:
            if actor.holds != actor.member.held:
                raise RuleBrokenError(f"{actor.name} holds {actor.holds}, its member says {actor.member.held}")


def rough_life(world: World, *, turns: int, is_static: bool = False) -> None:
    """Let members come, die, pause and leave while messages are lost, and then let them be quiet."""
    rng = world.rng
    instances = [f"host-{n}" for n in range(5)]

    def join() -> None:
        used = {actor.settings.group_instance_id for actor in world.alive}
        free = [name for name in instances if name not in used]
        if not is_static:
            world.join()
        elif free:
            world.join(instance_id=rng.choice(free))

    def turn() -> None:
        awake = [actor for actor in world.alive if not actor.is_frozen and not actor.is_busy]
        kind = rng.choice(["join", "join", "kill", "close", "busy", "freeze", "move", "partitions", "subscribe"])
        if kind == "join" and len(world.alive) < 6:
            join()
        elif kind == "kill" and len(awake) > 1:
            world.kill(rng.choice(awake))
        elif kind == "close" and len(awake) > 1:
            world.close(rng.choice(awake))
        elif kind == "busy" and awake:
            actor = rng.choice(awake)
            actor.is_busy = True
            world.after(rng.choice([5_000, 40_000, 90_000]), lambda: setattr(actor, "is_busy", False))
        elif kind == "freeze" and awake:
            frozen = rng.choice(awake)
            frozen.is_frozen = True
            world.after(rng.choice([5_000, 28_500, 90_000]), frozen.thaw)
        elif kind == "move":
            world.move_coordinator()
        elif kind == "partitions" and rng.random() < 0.3:
            world.add_partitions(rng.choice([*world.topics]), 1)
        elif kind == "subscribe" and awake:
            rng.choice(awake).subscribe(rng.choice([[*world.topics], [*world.topics][:1]]))

    # A coordinator that moves before a round is stored forgets the id that a static member got in it, and fences
    # that member, as Kafka's does. Its application ends and is started again.
    world.restarts = is_static
    join()
    for _ in range(turns):
        world.faults = rng.choice([CALM, ROUGH, ROUGH])
        turn()
        world.run_for(rng.choice([10, 500, 3_000, 20_000, 60_000]))
    world.faults = CALM
    for actor in world.alive:
        actor.is_busy = False
    world.run_for(500_000)
    rounds = world.rounds
    world.run_for(100_000)
    if world.rounds != rounds:
        raise RuleBrokenError(f"{world.rounds - rounds} rounds although nothing has changed")
    world.check_quiet()
