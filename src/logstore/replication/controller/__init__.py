"""The controller of a cluster: one node that elects leaders and moves partitions for all the others.

A cluster of embedders needs none: its nodes elect through the registry.
"""

from logstore.replication.controller.commands import Command, CommandGate, HeldState
from logstore.replication.controller.controller import Controller, Step
from logstore.replication.controller.loop import ControllerLoop
from logstore.replication.controller.spread import spread

__all__ = ["Command", "CommandGate", "Controller", "ControllerLoop", "HeldState", "Step", "spread"]
