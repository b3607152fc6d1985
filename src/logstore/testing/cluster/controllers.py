"""Simulated processes that are the controller, or claim the office while another one is.

The `ControllerOffice` is that of production. Time passes in each of its calls, and other events run meanwhile: so a
controller may be replaced between its reading and its commit, and go on as a zombie. `ControllerJudge` judges I11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from logstore.errors import LogstoreError, PeerUnreachableError, RegistryUnreachableError
from logstore.replication.api import Change, Fact, NodeId, Registry, RegistryWatch
from logstore.replication.controller import Command
from logstore.replication.controller.office import ControllerOffice
from logstore.testing.cluster.registry import SimSession
from logstore.testing.cluster.scene import Scene
from logstore.testing.cluster.world import SimClock

_Answer = TypeVar("_Answer")

_TURN_MS = 20
_CLAIM_MS = 100
_COMMAND_TIMEOUT_MS = 60

#: Brings a command to its node, and calls the function once it has arrived.
SendCommand = Callable[[NodeId, Command, Callable[[object], None]], None]
#: Commits changes, and judges them. The epoch is None for the commit that makes the process the controller.
JudgedCommit = Callable[[Registry, "int | None", Sequence[Change]], "list[Fact | None]"]


class ControllerJudge:
    """Judges what controllers commit, and what nodes obey. ``fail`` raises, with the name of what does not hold."""

    def __init__(self, scene: Scene, fail: Callable[[str, str], NoReturn]) -> None:
        self._scene = scene
        self._fail = fail
        self._obeyed: dict[tuple[NodeId, int], int] = {}  # (node, life) -> the newest controller's epoch
        self.commits = 0  #: of controllers
        self.commands = 0  #: that nodes have obeyed
        self.controllers = 0  #: how many have taken office

    def note_commit(self, epoch: int | None) -> None:
        """A controller of an epoch has committed; without epoch one has taken office."""
        if epoch is None:
            self.controllers += 1
            return
        self.commits += 1
        newest = self._scene.controller_epoch()
        if epoch != newest:
            self._fail(
                "I11", f"the controller of epoch {epoch} has committed, and that of epoch {newest} is in office"
            )

    def note_obeyed(self, command: Command, life: int) -> None:
        """The process of a node, in its registered life, obeys a command."""
        self.commands += 1
        key, epoch = (command.to, life), command.controller_epoch
        newest = self._obeyed.setdefault(key, epoch)
        if command.life != life or epoch < newest:
            self._fail(
                "I11",
                f"node {command.to} obeys controller epoch {epoch} for life {command.life}; it knows epoch {newest}, "
                f"and is in life {life}",
            )
        self._obeyed[key] = epoch


class SimController:
    """One process with a `ControllerOffice`. It is slow, stands still, is killed, and starts again."""

    def __init__(self, scene: Scene, number: int, send: SendCommand, commit: JudgedCommit) -> None:
        self.scene, self.world = scene, scene.world
        self.number = number
        self._send, self._commit = send, commit
        self.is_up = False
        self.stalled_until_ms = 0  #: the process stands still until then, and its session is not renewed
        #: Called ahead of the next commit, which takes as long on its way as it returns.
        self.before_commit: Callable[[], int] | None = None
        self._start_count = 0
        self._session: SimSession | None = None
        self._office: ControllerOffice | None = None
        self._verdict: BaseException | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch of this controller; None while it does not believe to be one."""
        controller = None if self._office is None else self._office.controller
        return None if controller is None else controller.epoch

    def start(self) -> None:
        self.world.note("controller starts", self.number)
        self.is_up, self.stalled_until_ms, self.before_commit = True, 0, None
        self._start_count += 1
        self._office = ControllerOffice(
            self.number, self._connect, self._bring, SimClock(self.world), balance_s=self.scene.balance_s
        )
        self._turn(self._start_count)
        self._renew(self._start_count)

    def kill(self) -> None:
        """End the process; its session lasts until it expires."""
        self.world.note("controller stops", self.number)
        self.is_up = False
        self._office = None

    def heal(self) -> None:
        self.stalled_until_ms, self.before_commit = 0, None
        if not self.is_up:
            self.start()

    # -- the process

    def _turn(self, count: int) -> None:
        office = self._office
        if not self.is_up or count != self._start_count or office is None:
            return
        try:
            office.turn()
        except (LogstoreError, _ProcessEndedError):
            pass  # the next turn goes on with what is left
        if self._verdict is not None:
            # A call of the office has raised it; the office takes any error for one of its registry.
            raise self._verdict
        self.world.after(_TURN_MS if office.controller is not None else _CLAIM_MS, lambda: self._turn(count))

    def _renew(self, count: int) -> None:
        if not self.is_up or count != self._start_count:
            return
        if self._session is not None and self.stalled_until_ms <= self.world.now_ms and not self.scene.link.is_down:
            self._session.renew()
        self.world.after(_CLAIM_MS, lambda: self._renew(count))

    def pass_time(self, ms: int) -> None:
        """Let other events run while a call of this process is on its way, or while it stands still.

        Raises:
            _ProcessEndedError: the process was killed meanwhile.
        """
        count, world = self._start_count, self.world
        end_ms = world.now_ms + ms
        try:
            while world.now_ms < end_ms or (self.is_up and world.now_ms < self.stalled_until_ms):
                world.run_until(max(end_ms, min(self.stalled_until_ms, world.now_ms + _CLAIM_MS)))
        except BaseException as error:
            self._verdict = self._verdict or error
            raise
        if not self.is_up or count != self._start_count:
            raise _ProcessEndedError

    def _connect(self) -> Registry:
        self.pass_time(1)
        if self.scene.link.is_down:
            raise RegistryUnreachableError("the registry is down")
        self._session = SimSession(self.world, self.scene.connect(), self.scene.session_ms)
        return _SlowSession(self, self._session)

    def _bring(self, command: Command) -> None:
        arrived: list[object] = []
        self._send(self.number, command, arrived.append)
        end_ms = self.world.now_ms + _COMMAND_TIMEOUT_MS
        while not arrived:
            self.pass_time(2)
            if self.world.now_ms >= end_ms:
                raise PeerUnreachableError(f"node {command.to} does not answer")

    def call(self, work: Callable[[], _Answer], *, delay_ms: int = 0) -> _Answer:
        """Make a call of the registry, which takes time on its way and on the way back."""
        link = self.scene.link
        self.pass_time(self.world.between(*link.delay_ms) + delay_ms)
        if link.is_down:
            raise RegistryUnreachableError("the registry is down")
        try:
            result = work()
        except AssertionError as error:
            self._verdict = self._verdict or error
            raise
        is_lost = self.world.chance(link.lost_answers)
        self.pass_time(self.world.between(*link.delay_ms))
        if is_lost:
            raise RegistryUnreachableError("the answer was lost")
        return result

    def commit(self, registry: Registry, changes: Sequence[Change]) -> list[Fact | None]:
        before_commit, self.before_commit = self.before_commit, None
        delay_ms = 0 if before_commit is None else before_commit()
        epoch = self.epoch
        return self.call(lambda: self._commit(registry, epoch, changes), delay_ms=delay_ms)


class _ProcessEndedError(Exception):
    """The process of a controller was killed while it waited for an answer."""


class _SlowSession(Registry):
    """The session of a controller, in whose calls time passes."""

    def __init__(self, controller: SimController, session: SimSession) -> None:
        self._controller, self._session = controller, session
        self._registry = session.registry

    def read(self, path: str) -> Fact | None:
        return self._controller.call(lambda: self._registry.read(path))

    def children(self, path: str) -> frozenset[str]:
        return self._controller.call(lambda: self._registry.children(path))

    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        return self._controller.commit(self._registry, changes)

    def watch(self, path: str, notify: Callable[[], object]) -> RegistryWatch:
        return self._registry.watch(path, notify)

    @property
    def is_alive(self) -> bool:
        return self._session.is_alive

    def close(self) -> None:
        self._session.end()
