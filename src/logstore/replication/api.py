"""The interfaces of replication: the registry of facts that all nodes share, and the transport between them.

A registry is a tree of small versioned facts, as ZooKeeper's, with one way to change it: a commit of several
changes, each under its condition, of which all take place or none. The rules of replication stand above it, once;
a registry knows nothing of them. Adapters for ZooKeeper, for SQL and for a dict in memory are small.

A transport carries a request to another node and its answer back. It may lose, repeat, delay and reorder both, and
never alters them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

#: The number of a node of a cluster, from 0 to 2**31 - 1: Kafka's ``broker.id``.
NodeId: TypeAlias = int


class Fact(NamedTuple):
    """One fact of a registry, as it was when it was read."""

    path: str  #: with a leading slash and names between slashes, such as ``/brokers/ids/1``
    value: bytes
    #: 0 when it was created, one more with each write.
    version: int
    #: The number of the commit that created it: never the same for two facts, and rising with each creation. A fact
    #: that was deleted and created again has another one.
    created: int


class Create(NamedTuple):
    """A change that makes a fact where there is none."""

    path: str
    value: bytes
    #: The fact is deleted when the session ends that has created it. It has no children.
    ephemeral: bool = False
    #: The registry appends a number of ten digits to the path, larger than that of every earlier one below the
    #: same parent.
    sequential: bool = False


class Write(NamedTuple):
    """A change that replaces the value of a fact that has this version."""

    path: str
    value: bytes
    version: int


class Delete(NamedTuple):
    """A change that removes a fact that has this version, and no children."""

    path: str
    version: int


class Check(NamedTuple):
    """A condition without a change: a fact has this version."""

    path: str
    version: int


Change: TypeAlias = Create | Write | Delete | Check


class RegistryWatch(ABC):
    """A wish to hear of the changes of a path; see `Registry.watch`."""

    @abstractmethod
    def close(self) -> None:
        """Notify no more. May be called again, and from any thread. A call that has begun may still come."""


class Registry(ABC):
    """A tree of small versioned facts, as one session sees it.

    A path begins with a slash, and names of one or more characters follow, separated by slashes. A parent need not
    be a fact: ``/a/b`` may be created without ``/a``. Values are at most 1 MB, and mean nothing to the registry.

    A session belongs to one object of this class. It ends when the object is closed, or when the registry has not
    heard of it for some time; then its ephemeral facts are deleted. A session that has ended stays so.

    Reads may be old, but never older than what the same session has read or committed before. Any thread may call
    any method; each may block on a network. An exception of another kind than those named is the adapter's fault:
    the rules take it as `RegistryUnreachableError`.
    """

    @abstractmethod
    def read(self, path: str) -> Fact | None:
        """Return the fact of a path, None if there is none.

        Raises:
            RegistryUnreachableError: no answer came, or the session has ended.
            ValueError: the path is malformed.
        """

    @abstractmethod
    def children(self, path: str) -> frozenset[str]:
        """Return the names right below a path, without slashes; ``/`` is the root.

        A name is there if a fact has that path or one below it. Raises as `read`.
        """

    @abstractmethod
    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        """Make all changes in their order, or none. Return, for each, the fact as it is afterwards.

        None stands for a fact that was deleted. Each change sees those before it. On return the changes are as
        durable as the registry promises, and each later read of this session has them.

        Raises:
            StaleFactError: a condition does not hold: a fact to be created is there, one to be written, deleted or
                checked is not or has another version, one to be deleted has children, or its parent is ephemeral.
                Its path is named. Nothing has changed.
            RegistryUnreachableError: no answer came, or the session has ended. Whether the changes took
                place is unknown: the caller reads again, and its values let it recognize its own.
            ValueError: a path is malformed. Nothing has changed.
        """

    @abstractmethod
    def watch(self, path: str, notify: Callable[[], object]) -> RegistryWatch:
        """Call ``notify()`` after each change of a path's fact or its children's names, until the watch is closed.

        Several changes may call it once, and a call may come without a change: the caller reads. It is also called
        after a reconnection, and when the session has ended. ``notify`` returns soon and calls no method of the
        registry: it sets a flag or wakes a thread. It is called without a lock of the registry, in any thread.

        Raises:
            RegistryUnreachableError: the session has ended.
            ValueError: the path is malformed.
        """

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the session has not ended, as far as this object knows. False is final."""

    @abstractmethod
    def close(self) -> None:
        """End the session: delete its ephemeral facts, notify its watches once more. May be called again."""


class Transport(ABC):
    """Carries requests to other nodes. The embedder's server hands them to its own node there, and answers."""

    @abstractmethod
    def call(self, to: NodeId, request: bytes, *, timeout_s: float) -> bytes:
        """Send a request to a node and return its answer. Any number of calls may be under way.

        A request may arrive later, twice or never, and an answer may be lost: the rules allow for all of it. Bytes
        that arrive are those that were sent.

        Raises:
            PeerUnreachableError: no answer came within ``timeout_s`` seconds, or the node cannot be reached.
        """


def check_path(path: str, *, root: bool = False) -> str:
    """Return a path if it is well-formed; with ``root`` a single slash is.

    Raises:
        ValueError: it is not.
    """
    if root and path == "/":
        return path
    if not path.startswith("/") or "" in path[1:].split("/"):
        raise ValueError(f"a path of a registry begins with a slash and has no empty name, found {path!r}")
    return path
