"""What a controller tells a node: the states of its partitions. And how the node sees whether to obey.

A command carries the controller's epoch and the registration of the node that it is for (KIP-380): one of an older
controller, or for the process before this one, is not obeyed.
"""

from __future__ import annotations

from typing import NamedTuple

from logstore.records import TopicPartition
from logstore.replication.api import NodeId, PartitionState


class HeldState(NamedTuple):
    """The state of a partition that the addressee has a replica of."""

    topic_id: str
    place: TopicPartition
    state: PartitionState


class Command(NamedTuple):
    """What one controller has for one node. It may arrive late, twice or never."""

    to: NodeId
    life: int  #: the registration that it is for
    controller_epoch: int
    states: tuple[HeldState, ...] = ()


class CommandGate:
    """What one process of a node knows of controllers. The caller holds its lock for each call.

    >>> gate = CommandGate(life=4)
    >>> gate.admits(Command(to=1, life=4, controller_epoch=7))
    True
    >>> gate.admits(Command(to=1, life=4, controller_epoch=6)), gate.admits(Command(1, 3, 8))
    (False, False)
    """

    def __init__(self, life: int) -> None:
        self.life = life
        self.controller_epoch = 0  #: the largest that has been seen

    def admits(self, command: Command) -> bool:
        """Whether to obey a command; if so, no older controller is obeyed any more."""
        if command.life != self.life or command.controller_epoch < self.controller_epoch:
            return False
        self.controller_epoch = command.controller_epoch
        return True
