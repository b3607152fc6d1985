"""Simulated processes that are the controller, or claim the office while another one is.

The `ControllerOffice` is that of production, and its calls block. So each process is a thread, of which one runs at
a time, and which waits while other events run: a controller may be replaced between its reading and its commit, and
go on as a zombie. `ControllerJudge` judges I11.
"""

from __future__ import annotations

import threading
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
                f"node {command.to} obeys controller epoch {epoch} for life {command.life}; it knows epoch "
                f"{newest}, and is in life {life}",
            )
        self._obeyed[key] = epoch


class SimController:
    """One process with a `ControllerOffice`. It is slow, stands still, is killed, and starts again."""

    def __init__(self, scene: Scene, number: int, send: SendCommand, commit: JudgedCommit) -> None:
        self.scene, self.world = scene, scene.world
        self.number = number
        self._send, self._commit = send, commit
        self.stalled_until_ms = 0  #: the process stands still until then, and its session is not renewed
        #: Called ahead of the next commit, which takes as long on its way as it returns.
        self.before_commit: Callable[[], int] | None = None
        self._session: SimSession | None = None
        self._office: ControllerOffice | None = None
        self._process: _Process | None = None

    @property
    def is_up(self) -> bool:
        return self._process is not None

    @property
    def epoch(self) -> int | None:
        """The epoch of this controller; None while it does not believe to be one."""
        controller = None if self._office is None else self._office.controller
        return None if controller is None else controller.epoch

    def start(self) -> None:
        self.world.note("controller starts", self.number)
        self.stalled_until_ms, self.before_commit = 0, None
        office = self._office = ControllerOffice(
            self.number, self._connect, self._bring, SimClock(self.world), balance_s=self.scene.balance_s
        )
        process = self._process = _Process(lambda: self._run(office))
        self.world.after(0, process.go_on)
        self._renew(process)

    def kill(self) -> None:
        """End the process; its session lasts until it expires."""
        process = self._process
        if process is not None:
            self.world.note("controller stops", self.number)
            self._process = self._office = None
            process.end()

    def heal(self) -> None:
        self.stalled_until_ms, self.before_commit = 0, None
        if not self.is_up:
            self.start()

    def _renew(self, process: _Process) -> None:
        if process is not self._process:
            return
        if self._session is not None and self.stalled_until_ms <= self.world.now_ms and not self.scene.link.is_down:
            self._session.renew()
        self.world.after(_CLAIM_MS, lambda: self._renew(process))

    # -- in its process

    def _run(self, office: ControllerOffice) -> None:
        while True:
            try:
                office.turn()
            except LogstoreError:
                pass  # the next turn goes on with what is left
            self._pass(_TURN_MS if office.controller is not None else _CLAIM_MS)

    def _pass(self, ms: int) -> None:
        """Let other events run while a call of this process is on its way, or while it stands still."""
        process = self._process
        if process is None:
            raise _ProcessEndedError  # the office takes it for the registry's, and calls once more
        self.world.after(ms, process.go_on)
        process.wait()
        while self.world.now_ms < self.stalled_until_ms:
            self.world.after(self.stalled_until_ms - self.world.now_ms, process.go_on)
            process.wait()

    def _connect(self) -> Registry:
        self._pass(1)
        if self.scene.link.is_down:
            raise RegistryUnreachableError("the registry is down")
        self._session = SimSession(self.world, self.scene.connect(), self.scene.session_ms)
        return _SlowSession(self, self._session)

    def _bring(self, command: Command) -> None:
        arrived: list[object] = []
        self._send(self.number, command, arrived.append)
        end_ms = self.world.now_ms + _COMMAND_TIMEOUT_MS
        while not arrived:
            self._pass(2)
            if self.world.now_ms >= end_ms:
                raise PeerUnreachableError(f"node {command.to} does not answer")

    def call(self, work: Callable[[], _Answer], *, delay_ms: int = 0) -> _Answer:
        """Make a call of the registry, which takes time on its way and on the way back."""
        link, process = self.scene.link, self._process
        self._pass(self.world.between(*link.delay_ms) + delay_ms)
        if link.is_down:
            raise RegistryUnreachableError("the registry is down")
        try:
            result = work()
        except AssertionError as error:
            # The office takes any error for one of its registry; this one is a judge's.
            assert process is not None
            process.error = error
            raise
        is_lost = self.world.chance(link.lost_answers)
        self._pass(self.world.between(*link.delay_ms))
        if is_lost:
            raise RegistryUnreachableError("the answer was lost")
        return result

    def commit(self, registry: Registry, changes: Sequence[Change]) -> list[Fact | None]:
        before_commit, self.before_commit = self.before_commit, None
        delay_ms = 0 if before_commit is None else before_commit()
        epoch = self.epoch
        return self.call(lambda: self._commit(registry, epoch, changes), delay_ms=delay_ms)


class _ProcessEndedError(BaseException):
    """The process of a controller was killed while it waited for an answer."""


class _Process:
    """What a controller does, in a thread that runs while the world waits for it: never two at once.

    Owns: the thread, until `end`.
    """

    def __init__(self, run: Callable[[], object]) -> None:
        self.error: BaseException | None = None  #: the verdict of a judge, raised by `go_on`
        self._is_ended = False
        self._may_run, self._waits = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, args=(run,), name="simulated controller", daemon=True)
        self._thread.start()

    def _main(self, run: Callable[[], object]) -> None:
        self._may_run.acquire()
        try:
            if not self._is_ended:
                run()
        except _ProcessEndedError:
            pass
        except BaseException as error:  # noqa: BLE001  raised by `go_on`
            self.error = self.error or error
        self._is_ended = True
        self._waits.release()

    def go_on(self) -> None:
        """Let it run until it waits, or has ended."""
        if self._is_ended:
            return
        self._switch()
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._switch()
        self._thread.join()

    def _switch(self) -> None:
        self._may_run.release()
        self._waits.acquire()

    def wait(self) -> None:
        """Wait in the process until `go_on`.

        Raises:
            _ProcessEndedError: it has ended.
        """
        if not self._is_ended:
            self._waits.release()
            self._may_run.acquire()
        if self._is_ended:
            raise _ProcessEndedError


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
