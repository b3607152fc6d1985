"""Acks of replicas: what a batch of a topic with replicas waits for, and the thread that answers its futures.

A replica tells an `Acknowledging` that a batcher has an answer, and the thread has that batcher take it. So no
thread is needed for each batch, and a partition whose replicas are slow keeps no other one waiting. What does: the
same thread appends the batches behind the answered ones, one partition after the other, as the timer does.
With a clock other than the machine's no thread runs: `Producer.tick` and `flush` do the work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.errors import LogstoreError, NotLeaderError
from logstore.io._interrupts import Condition, held
from logstore.records import Acks, AppendResult, TopicPartition

_logger = logging.getLogger(__name__)


class AckWait(Protocol):
    """The wait of one append for its acks: settled once, in the leader epoch of the append or with an error."""

    is_settled: bool
    error: LogstoreError | None


class AckSource(Protocol):
    """The replicas of a store, as far as an append needs them. Any thread may call."""

    def check_append(self, place: TopicPartition, acks: Acks) -> int:
        """Return the leader epoch in which an append may be made now.

        Raises:
            NotLeaderError: this process does not lead the partition.
            NotEnoughReplicasError: with `Acks.ALL`, too few replicas are in sync.
        """

    def wait_for_acks(
        self, place: TopicPartition, result: AppendResult, epoch: int, acks: Acks, notify: Callable[[], object]
    ) -> AckWait:
        """Begin to wait for the acks of an append that was made in a leader epoch.

        ``notify()`` is called once it is settled, in any thread: it wakes a thread, and does nothing else.
        """


class ReplicatedPartition(NamedTuple):
    """What a node knows of one partition of a topic with replicas: the newest state that it has taken."""

    leads: bool  #: whether this node leads it now
    leader: int = -1  #: the node that leads; -1 if none does, or if that is not known here
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()  #: the nodes that it is assigned to; the first one is preferred
    isr: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()  #: replicas that may lead, too, while none in sync does (KIP-966)
    last_leader: int = -1
    adding: tuple[int, ...] = ()  #: replicas that a reassignment under way adds (KIP-455)
    removing: tuple[int, ...] = ()


class ReplicaSource(AckSource, Protocol):
    """The replicas of a store, as a server of its topics needs them. Any thread may call."""

    @property
    def node(self) -> int:
        """Return the number of the node that has the replicas."""

    def leads(self, topic: str, partition: int) -> bool:
        """Return whether this node leads a partition. Does not block."""

    def partition(self, topic: str, partition: int) -> ReplicatedPartition | None:
        """Return what the node knows of a partition; None if its cluster has none of that name. Does not block."""

    def watch(self, notify: Callable[[], object]) -> None:
        """Call ``notify()`` after each new state of a partition, and at the end, in any thread."""

    def unwatch(self, notify: Callable[[], object]) -> None:
        """End a `watch`; nothing happens if there is none."""

    def forget(self, place: TopicPartition, wait: AckWait) -> None:
        """End a wait for acks that has no waiter any more. The records may be acknowledged all the same."""


class Answerable(Protocol):
    """A batcher with batches that wait for acks."""

    def write(self, *, wait: bool) -> Any: ...


class Acknowledging:
    """The batchers of one producer that have answers.

    Owns: the thread, which ends with `close`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._answered: set[Answerable] = set()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.answer_count = 0  #: for `wait`

    def notify(self, batcher: Answerable) -> None:
        """Note that a batcher has an answer. Does not block, and calls nothing."""
        with held(self._changed):
            self.answer_count += 1
            if self._clock is SYSTEM_CLOCK and not self._closed:
                self._answered.add(batcher)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="logstore-acks", daemon=True)
                    self._thread.start()
            self._changed.notify_all()

    def note(self) -> None:
        """Note an answer that its batcher has taken: a `wait` ends. Does not block."""
        with held(self._changed):
            self.answer_count += 1
            self._changed.notify_all()

    def wait(self, answer_count: int, timeout_s: float) -> None:
        """Wait for an answer after the one of this number."""
        with held(self._changed):
            if self.answer_count == answer_count:
                self._clock.wait(self._changed, timeout_s)

    def _run(self) -> None:
        while True:
            with held(self._changed):
                while not self._answered and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                answered, self._answered = self._answered, set()
            for batcher in answered:
                try:
                    # Not waited for: a thread that writes the partition now takes the answer, or else the timer.
                    batcher.write(wait=False)
                except Exception:
                    _logger.exception("acks of %r are left to the timer", batcher)

    def close(self) -> None:
        """End the thread; answers that come later are noted only. May be called again."""
        with held(self._changed):
            self._closed = True
            self._answered.clear()
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def no_node(name: TopicPartition) -> NotLeaderError:
    """Return the error of an append that needs replicas' acks where no node runs."""
    return NotLeaderError(
        f"{name}: the topic has replicas, and no node runs on this store: open one (logstore.replication.Node)"
    )
