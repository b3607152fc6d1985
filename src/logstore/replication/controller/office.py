"""The office of the controller, as one node holds it or strives for it: its session, its claim, and its turns.

Each turn reads what a watch has named, commits the steps of a `Controller`, and sends its commands. The thread is
`ControllerLoop`'s; a test takes the turns itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from logstore.clock import Clock
from logstore.errors import PeerUnreachableError, StaleFactError
from logstore.replication import facts
from logstore.replication.api import Check, Fact, NodeId, Registry, RegistryWatch
from logstore.replication.controller.claim import claim
from logstore.replication.controller.cluster_view import NAMED
from logstore.replication.controller.commands import Command
from logstore.replication.controller.controller import Controller, Step
from logstore.store.catalog.topic_list import new_id

_logger = logging.getLogger(__name__)

#: How often the names and requests are read, whatever the watches say: a registry may forget one.
READ_NAMES_S = 5.0
#: Rounds of commits in a row; then what is named meanwhile has its turn.
_MOST_ROUNDS = 100


class MapCalls(Protocol):
    """Calls a function with each item, perhaps several side by side; the results are in order: ``map``."""

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]: ...


class ControllerOffice:
    """One node's part in the office. `notify` and `call` are any thread's, the rest is one's.

    ``connect``, ``send`` and ``balance_s`` are those of `ControllerLoop`.
    """

    def __init__(
        self,
        node: NodeId,
        connect: Callable[[], Registry],
        send: Callable[[Command], object],
        clock: Clock,
        *,
        map_calls: MapCalls = map,
        balance_s: float,
    ) -> None:
        self.node = node
        self.controller: Controller | None = None  #: while this node holds the office
        self._connect, self._send = connect, send
        self._map_calls = map_calls
        self._balance_s = balance_s
        self._clock = clock
        self._registry: Registry | None = None
        self._session = ""
        self._watches: dict[str, RegistryWatch] = {}
        self._wake = threading.Condition()
        self._named: set[str] = set()
        self._calls: list[Callable[[Controller], object]] = []
        self._read_names_at_s = self._balance_at_s = 0.0

    # -- from any thread

    def call(self, work: Callable[[Controller], object]) -> None:
        """Have something done in the next turn, if this node is the controller then."""
        with self._wake:
            self._calls.append(work)
            self._wake.notify()

    def notify(self, path: str = "") -> None:
        """Have a path read in the next turn."""
        with self._wake:
            self._named.add(path)
            self._wake.notify()

    # -- the turns

    def wait(self, timeout_s: float, *, at_once: bool = True) -> None:
        """Wait until there is something to do; without ``at_once`` something new, or the end of the time."""
        with self._wake:
            if not at_once or (not self._named and not self._calls):
                self._clock.wait(self._wake, timeout_s)

    def turn(self) -> None:
        """Do what is to be done now.

        Raises:
            RegistryUnreachableError: the registry does not answer; the next turn goes on with what is left.
        """
        if self._registry is None or not self._registry.is_alive:
            self.close()
            self._registry, self._session = self._connect(), new_id()
        registry = self._registry
        controller = self.controller
        if controller is None:
            controller = self._take_office(registry)
            if controller is None:
                return
        with self._wake:
            named, self._named = self._named, set()
            calls, self._calls = self._calls, []
        try:
            now_s = self._clock.monotonic_s()
            if now_s >= self._read_names_at_s:
                self._read_names_at_s = now_s + READ_NAMES_S
                named |= {*NAMED, facts.REASSIGNMENTS, facts.PREFERRED_ELECTIONS, facts.CONTROLLER}
            if now_s >= self._balance_at_s:
                self._balance_at_s = now_s + self._balance_s
                controller.balance()
            self._read(registry, controller, named)
            if self.controller is controller:
                for call in calls:
                    call(controller)
                self._act(registry, controller)
        except BaseException:
            with self._wake:
                self._named |= named
            raise

    def _take_office(self, registry: Registry) -> Controller | None:
        self._watch(registry, facts.CONTROLLER)
        made = claim(registry, self.node, self._session, self._clock.now_ms())
        if made is None:
            with self._wake:
                self._named, self._calls = set(), []
            return None
        _logger.info("node %d is the controller of epoch %d", self.node, made.epoch)
        self.controller = Controller(made.epoch, made.version, new_id)
        self._read_names_at_s = 0.0
        self._balance_at_s = self._clock.monotonic_s() + self._balance_s
        return self.controller

    def _resign(self, why: str) -> None:
        _logger.info("node %d is the controller no more: %s", self.node, why)
        self.controller = None

    def close(self) -> None:
        """End the session, and with it the office. May be called again."""
        registry, self._registry = self._registry, None
        self._watches = {}
        if self.controller is not None:
            self._resign("its session has ended")
        if registry is not None:
            registry.close()

    def _watch(self, registry: Registry, path: str) -> None:
        # Before the first read: a change in between would go unnoticed.
        if path not in self._watches:
            self._watches[path] = registry.watch(path, lambda: self.notify(path))

    def _read(self, registry: Registry, controller: Controller, named: set[str]) -> None:
        """Read what is named, and what that names."""
        view = controller.view
        if facts.CONTROLLER in named:
            holder = registry.read(facts.CONTROLLER)
            if holder is None or self._session.encode() not in holder.value:
                # An administrator has deleted the fact, to have another one elected.
                self._resign(f"{facts.CONTROLLER} is held by node {facts.controller_of(holder)}")
                return
        listed = {path for path in named if path in NAMED or path.rpartition("/")[0] == facts.DELETED_TOPICS}
        # Sorted: in simulated time the order of calls is part of what happens.
        view.to_list |= dict.fromkeys(sorted(listed))
        view.to_read |= dict.fromkeys(sorted(named - {*listed, facts.CONTROLLER, ""}))
        while view.to_list or view.to_read:
            for path in list(view.to_list):
                self._watch(registry, path)
                names = registry.children(path)
                del view.to_list[path]
                view.take_names(path, names)
            paths = list(view.to_read)
            for path in paths:
                if path.startswith((facts.CONFIGS, "/admin/")) or path.rpartition("/")[0] == facts.TOPICS:
                    self._watch(registry, path)
            found = list(self._map_calls(registry.read, paths))
            view.to_read = {}
            for path, fact in zip(paths, found, strict=True):
                view.take(path, fact)

    def _act(self, registry: Registry, controller: Controller) -> None:
        """Commit steps until there are none, and send what is owed."""

        def commit(step: Step) -> list[Fact | None] | BaseException:
            try:
                return registry.commit(step.changes)
            except BaseException as error:  # noqa: BLE001  of any other kind it is the adapter's fault
                return error

        for _ in range(_MOST_ROUNDS):
            steps = controller.steps()
            if not steps:
                break
            unsettled: dict[str, None] = {}
            for step, made in zip(steps, self._map_calls(commit, steps), strict=True):
                changed = [change.path for change in step.changes if not isinstance(change, Check)]
                if isinstance(made, StaleFactError) and made.fact == facts.CONTROLLER_EPOCH:
                    self._resign("another one has been elected")
                    return
                if isinstance(made, BaseException):
                    lives = [change.path for change in step.changes if isinstance(change, Check)]
                    unsettled |= dict.fromkeys([*changed, *lives[1:]])
                    continue
                after = [
                    fact for change, fact in zip(step.changes, made, strict=True) if not isinstance(change, Check)
                ]
                for path, fact in zip(changed, after, strict=True):
                    controller.view.take(path, fact)
            if unsettled:
                controller.view.retry(unsettled)
                self._read(registry, controller, set())
        self._tell(controller)

    def _tell(self, controller: Controller) -> None:
        def send(command: Command) -> Command | None:
            try:
                self._send(command)
            except PeerUnreachableError:
                return command
            except BaseException as error:  # noqa: BLE001  a transport of an embedder may raise anything
                _logger.warning("node %d, %s: %s: %s", self.node, command, type(error).__name__, error)
                return command
            return None

        for missed in self._map_calls(send, controller.commands()):
            if missed is not None:
                controller.repeat(missed)
