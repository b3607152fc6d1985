"""The rules of one change in a commit of a registry, for every registry that keeps facts as rows.

They decide which change holds, and make versions, numbers and owners. The rows are the caller's, and so is that all
changes of a commit are made or none: after an error it undoes those before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from logstore.errors import StaleFactError
from logstore.replication.api import Change, Check, Create, Delete, Fact

SessionT = TypeVar("SessionT")


class FactRows(Protocol[SessionT]):
    """Facts, each with the session that owns it if it is ephemeral."""

    def row(self, path: str) -> tuple[Fact, SessionT | None] | None:
        """Return the fact of a path and its owner, None if there is no fact."""

    def paths_below(self, prefix: str) -> Iterable[str]:
        """Return what there is below a path, given with a slash behind it; only whether there is any is asked."""

    def put(self, fact: Fact, owner: SessionT | None) -> None:
        """Insert a row, or replace the one of its path."""

    def remove(self, path: str) -> None:
        """Delete the row of a path."""

    def next_number(self, name: str) -> int:
        """Return a number that is larger than all that were returned for a name."""


def changed(rows: FactRows[SessionT], change: Change, session: SessionT) -> Fact | None:
    """Make one change for a session; return the fact as it is then, None if it was deleted.

    Raises:
        StaleFactError: the change does not hold. Nothing has changed but a number of a sequential fact.
    """
    if isinstance(change, Create):
        return _created(rows, change, session)
    path, found = change.path, rows.row(change.path)
    if found is None or found[0].version != change.version:
        there = "it is not there" if found is None else f"it has version {found[0].version}"
        raise StaleFactError(f"{path}: expected version {change.version}, but {there}", fact=path)
    fact, owner = found
    if isinstance(change, Check):
        return fact
    if isinstance(change, Delete):
        if _has_children(rows, path):
            raise StaleFactError(f"{path}: it has children", fact=path)
        rows.remove(path)
        return None
    fact = fact._replace(value=bytes(change.value), version=fact.version + 1)
    rows.put(fact, owner)
    return fact


def _created(rows: FactRows[SessionT], change: Create, session: SessionT) -> Fact:
    path = change.path
    if change.sequential:
        path += f"{rows.next_number(path.rpartition('/')[0] + '/'):010d}"
    if rows.row(path) is not None:
        raise StaleFactError(f"{path}: it is there already", fact=path)
    names = path.split("/")
    for above in ("/".join(names[:count]) for count in range(2, len(names))):
        found = rows.row(above)
        if found is not None and found[1] is not None:
            raise StaleFactError(f"{path}: {above} is ephemeral and has no children", fact=above)
    if change.ephemeral and _has_children(rows, path):
        raise StaleFactError(f"{path}: it has children, so it cannot be ephemeral", fact=path)
    fact = Fact(path, bytes(change.value), 0, rows.next_number(""))
    rows.put(fact, session if change.ephemeral else None)
    return fact


def _has_children(rows: FactRows[SessionT], path: str) -> bool:
    return any(True for _ in rows.paths_below(f"{path}/"))
