"""`ControllerLoop`: the thread that holds the office of the controller, or claims it while another node does.

A registry that is silent stops it; another controller ends its office.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from logstore.clock import Clock, SystemClock
from logstore.replication.api import NodeId, Registry
from logstore.replication.controller.commands import Command
from logstore.replication.controller.office import ControllerOffice

_logger = logging.getLogger(__name__)

#: How often a node that is not the controller, or has lost its session, tries again.
TICK_S = 0.1
#: Kafka's default of ``leader.imbalance.check.interval.seconds``.
BALANCE_S = 300.0


class ControllerLoop:
    """The controller of a cluster, if this node holds the office. Any thread may call.

    ``connect`` opens a session with the registry. ``send`` brings a command to its node and returns once it has
    arrived; it raises `PeerUnreachableError` if it has not, and is called again,
    as after any other exception. ``side_by_side`` calls of the
    registry, and of ``send``, are under way at a time. Leaders are balanced every ``balance_s`` seconds.
    """

    def __init__(
        self,
        node: NodeId,
        connect: Callable[[], Registry],
        send: Callable[[Command], object],
        *,
        side_by_side: int = 16,
        balance_s: float = BALANCE_S,
        clock: Clock | None = None,
    ) -> None:
        name = f"logstore-controller-{node}"
        self.node = node
        self._pool = ThreadPoolExecutor(side_by_side, name)
        self._office = ControllerOffice(
            node,
            connect,
            send,
            SystemClock() if clock is None else clock,
            map_calls=self._pool.map,
            balance_s=balance_s,
        )
        self._is_closing = False
        self._said = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def epoch(self) -> int | None:
        """The epoch of this controller; None while another node holds the office."""
        controller = self._office.controller
        return None if controller is None else controller.epoch

    def shut_down(self, node: NodeId, life: int, answer: Callable[[int], object]) -> None:
        """Move the leaders of a node that stops; ``answer`` gets how many it leads still. Ask again until it is 0.

        Nothing happens if this node is not the controller.
        """
        self._office.call(lambda controller: answer(controller.shut_down(node, life)))

    def balance(self) -> None:
        """Let the preferred replicas lead where they are in sync, now."""
        self._office.call(lambda controller: controller.balance(0))

    def close(self) -> None:
        """Give the office up, and end the threads. May be called again."""
        self._is_closing = True
        self._office.notify()
        self._thread.join()
        self._pool.shutdown()

    def __enter__(self) -> ControllerLoop:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self) -> None:
        has_failed = False
        while not self._is_closing:
            try:
                self._office.turn()
                self._say("")
                has_failed = False
            except BaseException as error:  # noqa: BLE001  a registry of an embedder may raise anything
                self._say(f"{type(error).__name__}: {error}")
                has_failed = True
            if not self._is_closing:
                # After an error also with something to do: it is what has just failed.
                self._office.wait(TICK_S, at_once=not has_failed)
        try:
            self._office.close()
        except BaseException as error:  # noqa: BLE001  a registry of an embedder may raise anything
            _logger.warning("controller on node %d: its session may last until it expires: %s", self.node, error)

    def _say(self, what: str) -> None:
        """Log what stands in the way, once until it changes."""
        if what != self._said:
            self._said = what
            _logger.warning("controller on node %d: %s", self.node, what or "works again")
