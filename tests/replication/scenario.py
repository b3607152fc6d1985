"""Scenarios as text: commands to replicas, and what they print.

A file has one command a line, and below it, indented, its output. ``#`` begins a comment. The replicas are those of
production, on logs in a simulated disk; a command is one step, and nothing happens between two of them::

    cluster N minimum M         N nodes, 1 to N; time stands at 0
    lead L [isr A B] [eligible C]    the registry stores a new epoch; the nodes do not know yet
    elect [live A B] [unclean]  the same, by the rule of elections
    learn [A B]                 those nodes (else all that run) take the registry's state
    append N ACKS v w           a client's batch; ACKS is 0, 1 or all
    fetch N [N]                 a follower asks, its leader answers, the follower takes it
    ask N as X, answer X [by M], take X    the same in three steps; a message may be taken twice, or late
    propose N [live A B]        what the leader wants stored
    store N                     the registry stores it, if nothing newer is there; the leader does not know yet
    distrust N                  the registry's state after a node has come back that may have lost records
    read N                      what a consumer sees there
    show [N]                    role, records with their epochs, marks
    kill N, power N, wipe N, start N    SIGKILL; a power cut that loses what is not synced; an empty disk
    break N                     a sync of the log of N fails, and what was not synced is lost
    reopen N                    the same process closes the log that has failed, and opens it again
    control N                   node N becomes the controller, in the place of another one, and reads the registry
    lose N, register N          the registry has a node no more, or again
    see N                       the controller on node N reads the registry
    decide N [as X]             what it wants stored; commit X: the registry stores it, if it is still in office
    tell N as X, obey X [N]     its commands to the nodes; a node (else each) obeys, unless it knows a newer one
    pass MS                     time passes
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from logstore.batch._batch import Batches
from logstore.batch._encode import encode
from logstore.config.log import LogConfig
from logstore.errors import LogstoreError, StaleFactError
from logstore.log import FixedPolicy, Log, Moves
from logstore.records import TopicPartition
from logstore.replication import election, facts
from logstore.replication.api import (
    Acks,
    Check,
    Create,
    Delete,
    Fact,
    FetchAnswer,
    FetchFrom,
    FetchRefusal,
    PartitionState,
    Pending,
    Write,
)
from logstore.replication.controller import Command, CommandGate, Controller, Step
from logstore.replication.controller.claim import claim
from logstore.replication.controller.cluster_view import NAMED
from logstore.replication.insync import InSyncReplica
from logstore.replication.local.local_registry import LocalRegistry
from logstore.testing import ManualClock, SimDisk
from logstore.testing.cluster.ledger import records_of

_PLACE = TopicPartition("t", 0)
_ACKS = {"0": Acks.NONE, "1": Acks.LEADER, "all": Acks.ALL}


class _Node:
    """One node: a disk, and a replica while its process runs."""

    def __init__(self, number: int) -> None:
        self.number, self.disk, self.life = number, SimDisk(seed=number), 0
        self.log: Log | None = None
        self.replica: InSyncReplica | None = None
        # While a controller takes part: the session with the registry, and what the process knows of controllers.
        self.session: LocalRegistry | None = None
        self.gate: CommandGate | None = None


class Scenario:
    """The state of one scenario; `run` gives the output of a command."""

    def __init__(
        self,
        kind: type[InSyncReplica] = InSyncReplica,
        registry: LocalRegistry | None = None,
        gate: type[CommandGate] = CommandGate,
    ) -> None:
        self._kind = kind
        self._gate = gate
        self._registry = LocalRegistry() if registry is None else registry
        self._clock = ManualClock()
        self._now_ms = 0
        self._nodes: dict[int, _Node] = {}
        self._state = PartitionState((1,), (1,))
        self._minimum = 1
        self._messages: dict[str, tuple[int, FetchFrom, FetchAnswer | None]] = {}
        self._pending: list[tuple[str, Pending, bool]] = []
        self._controllers: dict[str, Controller] = {}
        self._steps: dict[str, tuple[Controller, list[Step]]] = {}
        self._commands: dict[str, list[Command]] = {}

    def run(self, command: str) -> list[str]:
        """Run a command; return its output, a line each."""
        name, *words = command.split()
        try:
            found = getattr(self, f"_do_{name}")(*words)
        except LogstoreError as error:
            found = [f"{type(error).__name__}: {error}"]
        return [*(found or ()), *self._settled()]

    def close(self) -> None:
        for node in self._nodes.values():
            if node.log is not None:
                node.log.close()

    def _settled(self) -> list[str]:
        lines = []
        for at, (what, pending, is_told) in enumerate(self._pending):
            if pending.is_settled and not is_told:
                ending = "acknowledged" if pending.error is None else type(pending.error).__name__
                lines.append(f"{what}: {ending}")
                self._pending[at] = (what, pending, True)
        return lines

    # -- the nodes

    def _do_cluster(self, count: str, _: str = "", minimum: str = "1") -> None:
        self._minimum = int(minimum)
        self._nodes = {number: _Node(number) for number in range(1, int(count) + 1)}
        self._state = election.created(self._nodes)
        self._registry.commit([Create(facts.state_path(_PLACE), facts.encode_state(self._state))])
        self._state = self._read_state()
        for number in self._nodes:
            self._do_start(str(number))

    def _do_start(self, number: str) -> None:
        node = self._nodes[int(number)]
        node.life += 1
        self._open(node)

    def _open(self, node: _Node) -> None:
        node.log = Log.open(
            "/data/t-0",
            LogConfig(),
            files=node.disk,
            clock=self._clock,
            policy=FixedPolicy(Moves.FROM_OUTSIDE),
        )
        node.replica = self._kind(
            node.log, node.number, node.life, min_insync=self._minimum, lag_max_ms=1_000, fetch_bytes=4_096
        )

    def _do_kill(self, number: str) -> None:
        self._stop(number, lambda disk: disk.kill())

    def _do_power(self, number: str) -> None:
        self._stop(number, lambda disk: disk.crash("none"))

    def _do_wipe(self, number: str) -> None:
        self._stop(number, lambda _: SimDisk(seed=int(number)))

    def _do_break(self, number: str) -> None:
        node = self._nodes[int(number)]
        node.disk.rereads = True
        node.disk.fail("fdatasync", 1, errno.EIO, path_contains="/t-0/")
        try:
            self._replica(number).log.flush()
        finally:
            node.disk.heal()

    def _do_reopen(self, number: str) -> None:
        node = self._nodes[int(number)]
        assert node.log is not None
        assert node.log.replica.failure is not None, f"the log of node {number} has not failed"
        node.log.close()
        self._open(node)

    def _stop(self, number: str, after: Callable[[SimDisk], SimDisk]) -> None:
        node = self._nodes[int(number)]
        old, node.log, node.replica = node.log, None, None
        node.disk = after(node.disk)
        if old is not None:
            old.close()

    def _replica(self, number: str | int) -> InSyncReplica:
        found = self._nodes[int(number)].replica
        assert found is not None, f"node {number} does not run"
        return found

    def _running(self, words: tuple[str, ...] = ()) -> list[int]:
        return [int(word) for word in words] or [node.number for node in self._nodes.values() if node.replica]

    # -- the registry

    def _read_state(self) -> PartitionState:
        fact = self._registry.read(facts.state_path(_PLACE))
        assert fact is not None
        return facts.decode_state(fact, self._state.replicas)

    def _store(self, state: PartitionState) -> list[str]:
        """Commit a state in the place of the one that has its version."""
        try:
            self._registry.commit(facts.changes_to(_PLACE, state, state, {}))
        except StaleFactError:
            return [f"stale: the registry has version {self._state.version}, not {state.version}"]
        self._state = self._read_state()
        return [_described(self._state)]

    def _do_lead(self, leader: str, *words: str) -> list[str]:
        lists = _lists(words)
        isr = tuple(lists.get("isr", self._state.isr))
        return self._store(
            self._state._replace(
                leader=int(leader),
                last_leader=int(leader),
                leader_epoch=self._state.leader_epoch + 1,
                isr=isr,
                eligible=tuple(lists.get("eligible", ())),
            )
        )

    def _do_elect(self, *words: str) -> list[str]:
        lists = _lists(words)
        live = lists.get("live", self._running())
        found = election.elect(self._state, live, self._minimum, unclean="unclean" in lists)
        return ["none may lead"] if found is None else self._store(found)

    def _do_distrust(self, number: str) -> list[str]:
        is_empty = self._replica(number).standing().last_epoch < 0
        return self._store(election.distrusted(self._state, int(number), is_replaced=is_empty))

    def _do_learn(self, *words: str) -> None:
        for number in self._running(words):
            self._replica(number).apply(self._state, self._now_ms)

    def _do_propose(self, number: str, *words: str) -> list[str]:
        wanted = self._proposal(number, _lists(words).get("live", self._running()))
        return ["nothing"] if wanted is None else [_described(wanted)]

    def _proposal(self, number: str, live: Sequence[int]) -> PartitionState | None:
        return self._replica(number).propose({each: self._nodes[each].life for each in live}, self._now_ms)

    def _do_store(self, number: str) -> list[str]:
        wanted = self._proposal(number, self._running())
        return ["nothing"] if wanted is None else self._store(wanted)

    # -- controllers

    def _do_control(self, number: str) -> list[str]:
        if not self._controllers:
            self._make_facts()
        holder = self._registry.read(facts.CONTROLLER)
        if holder is not None:
            self._registry.commit([Delete(holder.path, holder.version)])
        made = claim(self._registry, int(number), f"session of {number}", self._now_ms)
        assert made is not None
        self._controllers[number] = Controller(made.epoch, made.version, lambda: "A" * 22)
        self._do_see(number)
        return [f"node {number} is the controller of epoch {made.epoch}"]

    def _make_facts(self) -> None:
        """Make the facts that only a controller reads."""
        topic = facts.encode_assignment("A" * 22, {_PLACE.partition: self._state.replicas})
        settings = facts.encode_config({"min.insync.replicas": str(self._minimum)})
        self._registry.commit(
            [Create(facts.topic_path(_PLACE.topic), topic), Create(facts.config_path(_PLACE.topic), settings)]
        )
        for number in self._nodes:
            self._do_register(str(number))

    def _do_register(self, number: str) -> None:
        node, path = self._nodes[int(number)], facts.life_path(int(number))
        session = node.session = self._registry.connect()
        known = session.read(path)
        life = Create(path, b"") if known is None else Write(path, b"", known.version)
        made = session.commit([life, Create(facts.id_path(node.number), b"{}", ephemeral=True)])[0]
        assert made is not None
        node.gate = self._gate(made.version)

    def _do_lose(self, number: str) -> None:
        session = self._nodes[int(number)].session
        assert session is not None, "no controller takes part"
        session.close()

    def _do_see(self, number: str) -> None:
        view = self._controllers[number].view
        view.to_list |= dict.fromkeys(NAMED)
        view.to_read[facts.state_path(_PLACE)] = None
        while view.to_list or view.to_read:
            for path in list(view.to_list):
                del view.to_list[path]
                view.take_names(path, self._registry.children(path))
            paths, view.to_read = list(view.to_read), {}
            for path in paths:
                view.take(path, self._registry.read(path))

    def _do_decide(self, number: str, _: str = "as", name: str = "_") -> list[str]:
        controller = self._controllers[number]
        steps = controller.steps()
        self._steps[name] = (controller, steps)
        path = facts.state_path(_PLACE)
        return [
            _described(facts.decode_state(Fact(path, change.value, 0, 0), ()))
            for step in steps
            for change in step.changes
            if isinstance(change, Write) and change.path == path
        ] or ["nothing"]

    def _do_commit(self, name: str = "_") -> list[str]:
        controller, steps = self._steps[name]
        for step in steps:
            try:
                made = self._registry.commit(step.changes)
            except StaleFactError as error:
                return [f"stale: {error.fact} is another one by now"]
            for change, fact in zip(step.changes, made, strict=True):
                if not isinstance(change, Check):
                    controller.view.take(change.path, fact)
        self._state = self._read_state()
        return [_described(self._state)]

    def _do_tell(self, number: str, _: str, name: str) -> list[str]:
        controller = self._controllers[number]
        assert controller.steps() == [], "what it has decided is not stored yet"
        self._commands[name] = controller.commands()
        return [
            f"to {command.to}, of controller epoch {command.controller_epoch}: {_described(held.state)}"
            for command in self._commands[name]
            for held in command.states
        ]

    def _do_obey(self, name: str, *numbers: str) -> list[str]:
        lines = []
        for command in self._commands[name]:
            if numbers and str(command.to) not in numbers:
                continue
            gate = self._nodes[command.to].gate
            assert gate is not None
            if not gate.admits(command):
                lines.append(
                    f"{command.to} does not obey: controller epoch {command.controller_epoch}, life {command.life}"
                    f", and it knows controller epoch {gate.controller_epoch}, life {gate.life}"
                )
                continue
            lines.append(f"{command.to} obeys")
            for held in command.states:
                self._replica(command.to).apply(held.state, self._now_ms)
        return lines

    # -- messages

    def _do_append(self, number: str, acks: str, *values: str) -> list[str]:
        batch = encode([value.encode() for value in values], timestamp_ms=0)
        pending = self._replica(number).append(batch, acks=_ACKS[acks], now_ms=self._now_ms)
        what = f"{' '.join(values)} at {pending.result.first_offset}"
        self._pending.append((what, pending, False))
        return [] if pending.is_settled else [f"{what}: waits"]

    def _do_ask(self, number: str, _: str, message: str) -> list[str]:
        question = self._replica(number).ask(self._now_ms)
        if question is None:
            return ["it follows no leader"]
        leader, wants = question
        self._messages[message] = (leader, wants, None)
        return [
            f"{number} asks {leader} in epoch {wants.leader_epoch}: "
            f"offset {wants.offset}, last epoch {wants.last_epoch}"
        ]

    def _do_answer(self, message: str, _: str = "by", number: str = "") -> list[str]:
        leader, wants, _fetched = self._messages[message]
        found = self._replica(number or leader).answer(wants, self._now_ms)
        if found.records is not None:
            region: Any = found.records
            found = found._replace(records=region.read())
            region.close()
        self._messages[message] = (leader, wants, found)
        return [_told(found)]

    def _do_take(self, message: str) -> list[str]:
        _, wants, fetched = self._messages[message]
        assert fetched is not None, f"{message} is not answered"
        replica = self._replica(wants.node)
        losses = len(replica.lost)
        moved = replica.take(wants, fetched, self._now_ms)
        lost = [
            f"{wants.node} has lost {each.start_offset}..{each.end_offset - 1}" for each in replica.lost[losses:]
        ]
        return lost if moved else ["no effect"]

    def _do_fetch(self, *numbers: str) -> list[str]:
        lines = []
        for number in numbers:
            asked = self._do_ask(number, "as", "_")
            if "_" not in self._messages or self._messages["_"][1].node != int(number):
                lines += asked
                continue
            lines += [*asked, *self._do_answer("_"), *self._do_take("_")]
        return lines

    # -- what is seen

    def _do_read(self, number: str) -> list[str]:
        log = self._replica(number).log
        return [" ".join(f"{each.offset}={(each.value or b'').decode()}" for each in log) or "nothing"]

    def _do_show(self, *words: str) -> list[str]:
        lines = []
        for number in self._running(words):
            replica = self._replica(number)
            log, epochs = replica.log, replica.log.replica.epochs
            records = " ".join(
                f"{at}:{epochs.epoch_at(at)}={value.decode()}" for at, value in records_of(log).items()
            )
            known = " ".join(f"{epoch}@{start}" for epoch, start in epochs.entries)
            lines.append(
                f"{number} {replica.role.value}: {records or 'empty'}; high watermark {log.high_watermark} of "
                f"{log.log_end_offset}; epochs {known}".rstrip()
            )
        return lines

    def _do_pass(self, ms: str) -> None:
        self._now_ms += int(ms)
        self._clock.advance(int(ms))


def _lists(words: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the numbers behind each word that is none."""
    found: dict[str, list[int]] = {}
    name = ""
    for word in words:
        if word.isdigit():
            found[name].append(int(word))
        else:
            name = word
            found[name] = []
    return found


def _described(state: PartitionState) -> str:
    leader = "no leader" if state.leader < 0 else f"leader {state.leader}"
    eligible = f", eligible {' '.join(map(str, state.eligible))}" if state.eligible else ""
    return f"epoch {state.leader_epoch}: {leader}, isr {' '.join(map(str, state.isr)) or 'empty'}{eligible}"


def _told(found: FetchAnswer) -> str:
    if found.refusal is not None:
        return f"refused: {found.refusal.name}" + (
            f", the log starts at {found.log_start_offset}" if found.refusal is FetchRefusal.OUT_OF_RANGE else ""
        )
    if found.diverging is not None:
        return f"diverging: epoch {found.diverging.epoch} ends at {found.diverging.end_offset}"
    data: Any = found.records
    values = [] if data is None else [(each.value or b"").decode() for each in Batches(data)]
    return f"records {' '.join(values) or 'none'}; high watermark {found.high_watermark}"


def play(
    path: Path,
    kind: type[InSyncReplica] = InSyncReplica,
    registry: LocalRegistry | None = None,
    gate: type[CommandGate] = CommandGate,
) -> str:
    """Return the scenario with the output that its commands have now."""
    scenario = Scenario(kind, registry, gate)
    lines = []
    try:
        for line in path.read_text().splitlines():
            if line.startswith("    "):
                continue
            lines.append(line)
            if line and not line.startswith("#"):
                lines += [f"    {told}" for told in scenario.run(line)]
    finally:
        scenario.close()
    return "\n".join(lines) + "\n"
