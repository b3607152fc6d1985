"""How a node becomes the controller: by a commit that makes the ephemeral fact and raises the epoch at once."""

from __future__ import annotations

import json
from typing import NamedTuple

from logstore.errors import StaleFactError
from logstore.replication import facts
from logstore.replication.api import Change, Create, Fact, NodeId, Registry, Write


class Claim(NamedTuple):
    """A node is the controller of this epoch."""

    epoch: int
    version: int  #: of the fact of the epoch: each commit of this controller is conditional on it


def claim(registry: Registry, node: NodeId, session: str, now_ms: int) -> Claim | None:
    """Become the controller; None if another session is. ``session`` is a name that no other session has.

    A commit whose answer was lost may have taken place: then the facts name the session, and it is the controller.

    Raises:
        RegistryUnreachableError: as `Registry.commit`.
        MalformedFactError: the fact of the epoch is no number.
    """
    epoch = registry.read(facts.CONTROLLER_EPOCH)
    holder = registry.read(facts.CONTROLLER)
    if holder is not None:
        return _held(holder, registry.read(facts.CONTROLLER_EPOCH), session)
    number = facts.controller_epoch_of(epoch) + 1
    text = str(number).encode()
    value = {"version": 1, "brokerid": node, "timestamp": str(now_ms), "epoch": number, "session": session}
    changes: list[Change] = [
        Create(facts.CONTROLLER, json.dumps(value).encode(), ephemeral=True),
        Create(facts.CONTROLLER_EPOCH, text)
        if epoch is None
        else Write(facts.CONTROLLER_EPOCH, text, epoch.version),
    ]
    try:
        made = registry.commit(changes)[1]
    except StaleFactError:
        return None
    assert made is not None
    return Claim(number, made.version)


def _held(holder: Fact, epoch: Fact | None, session: str) -> Claim | None:
    try:
        value = json.loads(holder.value)
        is_ours = value["session"] == session and value["epoch"] == facts.controller_epoch_of(epoch)
    except (ValueError, KeyError, TypeError):
        return None  # of another implementation
    return Claim(value["epoch"], epoch.version) if is_ours and epoch is not None else None
