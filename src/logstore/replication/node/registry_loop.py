"""The thread of a node that deals with the registry: registration, topics, states, elections, changes of the ISR.

It reads what a watch has named, everything once in a while, and commits what the placements want. A registry that
is slow, silent or holds values that are not ours stops nothing else: the node goes on with what it knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from logstore.clock import Clock
from logstore.errors import (
    InvalidSettingError,
    LogstoreError,
    MalformedFactError,
    NotLeaderError,
    RegistryUnreachableError,
    StaleFactError,
    StorageError,
)
from logstore.log.formats.last_stop import Stop
from logstore.records import TopicPartition
from logstore.replication import facts
from logstore.replication.api import Change, NodeId, PartitionState, Registry, RegistryWatch
from logstore.replication.deletion import request_path
from logstore.replication.fetch_messages import Slot
from logstore.replication.node.deletions import Deletions
from logstore.replication.node.member import OPEN_AGAIN_S, Member, Members, Unopened
from logstore.replication.node.moved_replicas import MovedReplicas
from logstore.replication.node.notices import Notices
from logstore.replication.node.registration import NodeRegistration

#: How often lag is looked at, and a lost session is opened again.
TICK_S = 0.1
#: How often everything is read, whatever the watches say: a registry may forget one.
READ_ALL_S = 5.0
#: How often a leader is asked that has every replica in sync: some may lag by now.
SETTLED_S = 1.0
#: Commits in a row for one partition; then the others have their turn.
_MOST_COMMITS = 8


class RegistryLoop:
    """The dealings of one node with its registry. All but `close` and `notify` run in its thread."""

    def __init__(
        self,
        registration: NodeRegistration,
        connect: Callable[[], Registry],
        make: Members,
        clock: Clock,
        changed: Callable[[Member], object],
        *,
        controlled: bool,
    ) -> None:
        self._registration = registration
        self._connect = connect
        self._make = make
        self._clock = clock
        self._changed = changed  # called after each state that a replica has taken
        self.members: dict[tuple[str, int], Member] = {}
        self.by_slot: dict[Slot, Member] = {}
        self.unopened: dict[tuple[str, int], Unopened] = {}
        self._registry: Registry | None = None
        self._watches: dict[str, RegistryWatch] = {}
        self._lives: dict[NodeId, int] = {}
        self._named: set[str] = set()  # paths whose watch has notified
        self.topics: dict[str, facts.Assignment] = {}  #: of the cluster, as they were last read
        self._has_read_topics = False  # all of them, and made a member of each replica of this node
        self._wake = threading.Condition()
        self._is_closing = False
        self._read_all_at_s = 0.0
        self._ask_leaders_at_s = 0.0
        self._say = Notices(registration.node).say
        self._is_controlled = controlled
        self._deletions = Deletions(registration.node, self._watch, self._delete, is_controlled=controlled)
        self._moved = MovedReplicas(make.store, registration, self._say, self._leave)

    # -- from any thread

    def notify(self, path: str = "") -> None:
        """Have a path read in the next round."""
        with self._wake:
            self._named.add(path)
            self._wake.notify()

    def stop(self) -> None:
        """Have `run` return; the session stays open."""
        with self._wake:
            self._is_closing = True
            self._wake.notify()

    # -- the thread

    def start(self) -> None:
        """Register, and make the first round; raise what stands against it."""
        if not self._open_session():
            raise RegistryUnreachableError(
                f"node {self._registration.node} is registered by another directory: end the node that runs there, "
                "or wait until its session has expired"
            )
        self._round()

    def run(self) -> None:
        while True:
            with self._wake:
                if not self._named and not self._is_closing:
                    self._clock.wait(self._wake, TICK_S)
                if self._is_closing:
                    return
            try:
                is_alive = self._registry is not None and self._registry.is_alive
                if is_alive or self._open_session():
                    self._round()
                    self._say("registry", "")
                    continue
            except InvalidSettingError as error:
                self._say("registry", f"refused: {error}")
            except BaseException as error:  # noqa: BLE001  a registry of an embedder may raise anything
                # Whatever an embedder's registry raises, as a cancelled future or an exit: the node goes on with
                # what it knows, and asks again.
                self._say("registry", f"{type(error).__name__}: {error}")
            # What was named is still to be read: without a pause a registry that fails at once would be asked
            # without end.
            with self._wake:
                if not self._is_closing:
                    self._clock.wait(self._wake, TICK_S)

    def close_session(self) -> None:
        """End the session: the node does not live any more."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.close()

    def _open_session(self) -> bool:
        self.close_session()
        registry = self._connect()
        try:
            if not self._registration.register(registry):
                registry.close()
                return False
        except BaseException:
            registry.close()
            raise
        self._registry, self._watches = registry, {}
        self._read_all_at_s = 0.0
        return True

    def _round(self) -> None:
        registry = self._registry
        assert registry is not None
        with self._wake:
            named, self._named = self._named, set()
        if self._clock.monotonic_s() >= self._read_all_at_s:
            self._read_all_at_s = self._clock.monotonic_s() + READ_ALL_S
            named.add(facts.IDS)
            named.add(facts.TOPICS)
            named.add(facts.DELETED_TOPICS)
            for member in self.members.values():
                member.must_read = True
            for unopened in self.unopened.values():
                unopened.must_read = True
        try:
            if any(path.startswith((facts.IDS, facts.REGISTRATIONS)) for path in named):
                self._read_lives(registry)
            if any(path.startswith((facts.TOPICS, facts.DELETED_TOPICS)) for path in named):
                self._read_topics(registry)
            asks_leaders = self._clock.monotonic_s() >= self._ask_leaders_at_s
            if asks_leaders:
                self._ask_leaders_at_s = self._clock.monotonic_s() + SETTLED_S
            for member in self.members.values():
                if named and facts.state_path(member.place) in named:
                    member.must_read = True
                if not named and member.is_settled and not (asks_leaders and member.leads_or_fails):
                    continue
                try:
                    self._step(registry, member)
                    self._say(str(member.place), "")
                except RegistryUnreachableError:
                    raise
                except LogstoreError as error:
                    # A fact that is not ours, or a disk that refuses: the other partitions go on.
                    self._say(str(member.place), f"{type(error).__name__}: {error}")
            for unopened in list(self.unopened.values()):
                if facts.state_path(unopened.place) in named:
                    unopened.must_read = True
                self._try_to_open(registry, unopened)
            self._note_replicas()
            if (
                self._has_read_topics
                and not self.unopened
                and all(each.placement.has_entered for each in self.members.values())
            ):
                self._registration.confirm()
        except BaseException:
            # What was named is not read yet.
            with self._wake:
                self._named |= named - {""}
            raise

    def _watch(self, registry: Registry, path: str) -> None:
        # Before the first read: a change in between would go unnoticed.
        if path not in self._watches:
            self._watches[path] = registry.watch(path, lambda: self.notify(path))

    def _read_lives(self, registry: Registry) -> None:
        self._watch(registry, facts.IDS)
        lives = {}
        names = registry.children(facts.IDS)
        for name in names:
            node = facts.node_of(name)
            if node is None:
                self._say(f"{facts.IDS}/{name}", "no number of a node")
                continue
            self._watch(registry, facts.life_path(node))
            life = registry.read(facts.life_path(node))
            if life is not None:
                lives[node] = life.version
        own, registered = self._registration.node, self._registration.life
        if lives.get(own) != registered:
            if registered >= 0 and str(own) in names:
                what = "is gone" if own not in lives else f"has version {lives[own]}"
                self._say(
                    facts.life_path(own),
                    f"{what}, and this process has registered version {registered}: this node takes no part until "
                    "it is closed and started again",
                )
            lives.pop(own, None)
        elif registered >= 0:
            self._say(facts.life_path(own), "")
        self._lives = lives

    def _read_topics(self, registry: Registry) -> None:
        self._watch(registry, facts.TOPICS)
        are_all_read = True
        going = self._deletions.go_on(registry)
        # What an earlier process has begun to remove: the partition may be this node's again.
        self._moved.go_on(registry, {}, {}, finish_only=True)
        read: dict[str, facts.Assignment] = {}
        there = registry.children(facts.TOPICS)
        self.topics = {topic: known for topic, known in self.topics.items() if topic in there}
        for place in list(self.unopened):
            if place[0] not in self.topics or place[0] in going:
                self._forget_unopened(place)
        for topic in sorted(there - going):
            path = facts.topic_path(topic)
            self._watch(registry, path)
            fact = registry.read(path)
            if fact is None:
                continue
            try:
                assignment = facts.decode_assignment(fact)
                self._check_assignment(topic, path, assignment)
                self.topics[topic] = read[topic] = assignment
                for partition, replicas in assignment.partitions.items():
                    place = TopicPartition(topic, partition)
                    if self._registration.node not in replicas:
                        self._forget_unopened(place)
                        continue
                    # Also for one that is open: a session that took the place of another one has no watch.
                    self._watch(registry, facts.state_path(place))
                    if place in self.members or place in self.unopened:
                        continue
                    if self._moved.is_clearing(place):
                        are_all_read = False
                    else:
                        self._open(registry, place, assignment)
                self._say(path, "")
            except BaseException as error:  # noqa: BLE001  a registry of an embedder may raise anything
                are_all_read = False
                self._say(path, f"{type(error).__name__}: {error}")
        self._moved.go_on(registry, read, self.members)
        self._end_watches(there, going)
        self._has_read_topics = are_all_read

    def _end_watches(self, topics: frozenset[str], going: frozenset[str]) -> None:
        """End the watches on topics and requests that are gone, and on partitions that have moved away."""
        needed = {facts.IDS, facts.TOPICS, facts.DELETED_TOPICS, *map(request_path, going)}
        needed.update(map(facts.topic_path, topics))
        needed.update(facts.state_path(each.place) for each in self.members.values())
        for topic, assignment in self.topics.items():
            for partition, replicas in assignment.partitions.items():
                if self._registration.node in replicas:
                    needed.add(facts.state_path(TopicPartition(topic, partition)))
        for path in self._watches.keys() - needed:
            if not path.startswith(facts.REGISTRATIONS):
                self._watches.pop(path).close()

    def _open(self, registry: Registry, place: TopicPartition, assignment: facts.Assignment) -> None:
        """Open the log of a replica, and take part with it; note it if the disk refuses."""
        made = self._make.make(place.topic, place.partition, assignment, registry)
        subject = f"disk of {place}"
        if isinstance(made, Member):
            self._forget_unopened(place)
            self._add(made)
            self._say(subject, "")
            return
        unopened = self.unopened.get(place, made)
        unopened.note(made, self._clock.monotonic_s())
        self.unopened = {**self.unopened, place: unopened}
        problem = f"{type(made.error).__name__}: {made.error}"
        self._say(subject, f"{problem}; this node tries again, and another one leads if it may")

    def _forget_unopened(self, place: tuple[str, int]) -> None:
        # Other threads iterate over them.
        self.unopened = {each: other for each, other in self.unopened.items() if each != place}

    def _try_to_open(self, registry: Registry, unopened: Unopened) -> None:
        """Give up the place of a replica whose log cannot be opened; open it again once it is time."""
        place = unopened.place
        try:
            for _ in range(_MOST_COMMITS):
                state = self._state_of(registry, unopened)
                wanted = state and self._make.given_up(unopened, state, self._lives)
                if state is None or wanted is None or wanted == state:
                    break
                unopened.must_read = True
                try:
                    registry.commit(self._changes(unopened, state, wanted))
                except StaleFactError as error:
                    if error.fact.startswith(facts.REGISTRATIONS):
                        self._read_lives(registry)
            now_s = self._clock.monotonic_s()
            if now_s >= unopened.open_again_at_s:
                unopened.open_again_at_s = now_s + unopened.wait_s  # if this raises
                self._open(registry, place, self.topics[place.topic])
                self.notify(facts.state_path(place))
            self._say(str(place), "")
        except RegistryUnreachableError:
            raise
        except LogstoreError as error:
            # A fact that is not ours, say: the other partitions go on.
            self._say(str(place), f"{type(error).__name__}: {error}")

    def _note_replicas(self) -> None:
        try:
            self._moved.note(self.members.values())
            self._say("note of replicas", "")
        except StorageError as error:
            self._say("note of replicas", f"{error}; replicas that move away will stay on the disk")

    def _leave(self, place: TopicPartition) -> None:
        """Take part in a partition no more: it has moved away."""
        member = self.members.get(place)
        if member is None:
            return
        self.members = {each: other for each, other in self.members.items() if each != place}
        self.by_slot = {slot: other for slot, other in self.by_slot.items() if other is not member}
        with member.lock:
            member.replica.stop_waiting(NotLeaderError(f"{place}: the partition has moved to other nodes"))
        self._changed(member)

    def _add(self, member: Member) -> None:
        # Other threads iterate over them.
        self.members = {**self.members, member.place: member}
        self.by_slot = {**self.by_slot, member.slot: member}

    def _delete(self, topic: str) -> None:
        """Take part in a topic no more, and delete what this node has of it."""
        gone = [member for member in self.members.values() if member.place.topic == topic]
        self.members = {place: member for place, member in self.members.items() if place[0] != topic}
        self.by_slot = {slot: member for slot, member in self.by_slot.items() if member not in gone}
        for member in gone:
            with member.lock:
                member.replica.stop_waiting(NotLeaderError(f"{member.place}: the topic is deleted"))
        self._make.delete(topic)
        self._moved.forget(topic)
        for member in gone:
            self._changed(member)

    def _check_assignment(self, topic: str, path: str, found: facts.Assignment) -> None:
        """Raise if an assignment is of another topic than the one in which this node takes part by its name.

        A name may be free and taken again before this node looks: one in which it takes no part is forgotten.
        """
        known = self.topics.get(topic)
        if known is None:
            return
        is_another = found.topic_id != known.topic_id or not known.partitions.keys() <= found.partitions.keys()
        if is_another and any(place[0] == topic for place in (*self.members, *self.unopened)):
            raise MalformedFactError(
                f"{path}: found topic {found.topic_id} with {len(found.partitions)} partitions, and had "
                f"{known.topic_id} with {len(known.partitions)}",
                fact=path,
            )

    def _step(self, registry: Registry, member: Member) -> None:
        """Let one placement take the newest state, and commit what it wants."""
        for _ in range(_MOST_COMMITS):
            state = self._state_of(registry, member)
            if state is None:
                return
            failure = member.calls.failure
            if failure is not None:
                given_up = member.placement.resigned(state, self._lives)
                if given_up == state:
                    self._open_again(member, failure)
                    return
                wanted: PartitionState | None = given_up
            else:
                with member.lock:
                    before = member.replica.state
                    wanted = member.placement.take(state, self._lives, self._now_ms())
                    is_new = member.replica.state is not before
                if is_new:
                    self._changed(member)
                self._accept_stop(member, state)
            if wanted is None:
                return
            member.must_read = True
            try:
                registry.commit(self._changes(member, state, wanted))
            except StaleFactError as error:
                if error.fact.startswith(facts.REGISTRATIONS):
                    self._read_lives(registry)

    def _changes(self, member: Member | Unopened, state: PartitionState, wanted: PartitionState) -> list[Change]:
        changes = facts.changes_to(member.place, state, wanted, self._lives)
        return [*changes, facts.isr_change([member.place])] if self._is_controlled else changes

    def _open_again(self, member: Member, failure: LogstoreError) -> None:
        """Have a log that has failed opened again, once its replica has given its place up.

        The member that takes its place enters as after an unclean stop: it leaves both sets, and is refilled.
        """
        subject = f"disk of {member.place}"
        self._say(subject, f"{failure}; this node does so by itself, and its leader fills the log again")
        now_s = self._clock.monotonic_s()
        if now_s < member.open_again_at_s:
            return
        member.open_again_at_s = now_s + OPEN_AGAIN_S
        self._add(self._make.open_again(member))
        self._say(subject, "")
        self.notify(facts.state_path(member.place))

    def _state_of(self, registry: Registry, member: Member | Unopened) -> PartitionState | None:
        if member.must_read or member.state is None:
            fact = registry.read(facts.state_path(member.place))
            if fact is None:
                if member.state is not None and registry.read(facts.topic_path(member.place.topic)) is not None:
                    self._say(
                        facts.state_path(member.place), "is gone: this node goes on with the one that it knows"
                    )
                return member.state
            self._say(facts.state_path(member.place), "")
            replicas = self.topics[member.place.topic].partitions[member.place.partition]
            state = facts.decode_state(fact, replicas)
            if member.state is not None and state.version < member.state.version:
                raise MalformedFactError(
                    f"{fact.path}: found version {state.version}, and had version {member.state.version} before",
                    fact=fact.path,
                )
            member.state = state
            member.must_read = False
        return member.state

    def _accept_stop(self, member: Member, state: PartitionState) -> None:
        """Record that an unclean stop is over, once the replica is in sync again."""
        if member.has_accepted_stop or self._registration.node not in state.isr:
            return
        calls = member.calls
        if calls.last_stop.stop is Stop.UNCLEAN:
            member.log.flush()
            calls.accept_stop()
        member.has_accepted_stop = True

    def resign(self) -> None:
        """Commit the states in which others have this node's place. Called once `run` has returned."""
        registry = self._registry
        if registry is None or not registry.is_alive:
            return
        self._read_lives(registry)
        for member in self.members.values():
            for _ in range(_MOST_COMMITS):
                member.must_read = True
                state = self._state_of(registry, member)
                if state is None:
                    break
                wanted = member.placement.resigned(state, self._lives)
                if wanted == state:
                    break
                try:
                    registry.commit(self._changes(member, state, wanted))
                    break
                except StaleFactError:
                    continue

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
