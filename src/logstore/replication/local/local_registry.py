"""A registry in the memory of one process: for a single node, for tests and for simulated clusters.

It is kept in a store's directory if `LocalRegistry.kept_in` has made it: then each commit is on the disk before it
is answered or seen (`facts_file` has the bytes). After a commit that the disk has refused nothing is answered until
the disk has what the memory has: a fact that was read is never older than one that the disk may have.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from logstore.errors import LogstoreError, RegistryUnreachableError
from logstore.replication.api import Change, Fact, Registry, RegistryWatch, check_path
from logstore.replication.commit_rules import changed
from logstore.replication.local.facts_file import KeptFacts
from logstore.store.catalog.layout import FACTS_FILE

if TYPE_CHECKING:
    from logstore.store import Store
    from logstore.store.host import StoreHost

#: Largest value of a fact: ZooKeeper's ``jute.maxbuffer``.
_MOST_BYTES = 1 << 20


class _Tree:
    """The facts that all sessions share. Its lock is held for each method's time.

    Owns: the facts, the owners of the ephemeral ones, the counters, and the watches of every session.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.facts: dict[str, Fact] = {}
        self.owners: dict[str, LocalRegistry] = {}  # of ephemeral facts
        self.below: dict[str, set[str]] = {}  # path -> names right below it
        self.numbers: dict[str, int] = {}  # parent -> the next number of a sequential fact
        self.created = 0
        self.watches: dict[str, dict[_LocalWatch, None]] = {}
        self.host: weakref.ref[StoreHost] | None = None  # of the store that the facts are kept in
        self._is_saved = True

    @classmethod
    def load(cls, host: StoreHost) -> _Tree:
        """Return the tree that is kept in a store."""
        kept = KeptFacts.load(host.root)
        tree = cls()
        tree.host = weakref.ref(host)
        for fact in kept.facts.values():
            tree.put(fact, None, [])
        tree.numbers, tree.created = dict(kept.numbers), kept.created
        return tree

    def check_saved(self) -> None:
        """Make the disk have what the memory has, after a commit whose outcome on the disk is unknown."""
        if not self._is_saved:
            self.save()

    def save(self) -> None:
        """Store the facts, if they are kept in a store.

        Raises:
            RegistryUnreachableError: the disk has refused, or the store is closed. The file is the old one or the
                new one.
        """
        if self.host is None:
            return
        self._is_saved = False
        host = self.host()
        if host is None:
            raise RegistryUnreachableError(f"{FACTS_FILE}: the store is closed")
        try:
            host.check_writable()
            lasting = {path: fact for path, fact in self.facts.items() if path not in self.owners}
            KeptFacts(lasting, self.numbers, self.created).save(host.root)
        except (LogstoreError, OSError) as error:
            raise RegistryUnreachableError(f"{FACTS_FILE}: {error}") from error
        self._is_saved = True

    def apply(
        self, changes: Sequence[Change], session: LocalRegistry
    ) -> tuple[list[Fact | None], list[_LocalWatch]]:
        """Make the changes, or none; return the facts and the watches to notify."""
        commit = _TreeCommit(self)
        try:
            results = [changed(commit, change, session) for change in changes]
            if commit.undo:
                self.save()
        except BaseException:
            for step in reversed(commit.undo):
                step()
            raise
        return results, self.watching(commit.touched)

    def watching(self, touched: list[str]) -> list[_LocalWatch]:
        found: dict[_LocalWatch, None] = {}
        for path in touched:
            found |= self.watches.get(path, {})
        return list(found)

    def put(self, fact: Fact, owner: LocalRegistry | None, touched: list[str]) -> None:
        """Add a fact; ``touched`` gets its path, and those whose children's names change."""
        self.facts[fact.path] = fact
        if owner is not None:
            self.owners[fact.path] = owner
        touched.append(fact.path)
        path = fact.path
        while path != "/":
            parent, _, name = path.rpartition("/")
            parent = parent or "/"
            names = self.below.setdefault(parent, set())
            if name in names:
                break
            names.add(name)
            touched.append(parent)
            path = parent

    def remove(self, path: str, touched: list[str]) -> None:
        """Remove a fact without children; ``touched`` as in `put`."""
        del self.facts[path]
        self.owners.pop(path, None)
        touched.append(path)
        while path != "/" and path not in self.facts and not self.below.get(path):
            parent, _, name = path.rpartition("/")
            parent = parent or "/"
            names = self.below[parent]
            names.discard(name)
            if not names:
                del self.below[parent]
            touched.append(parent)
            path = parent


class _TreeCommit:
    """The rows of a tree in one commit, which can be undone."""

    def __init__(self, tree: _Tree) -> None:
        self._tree = tree
        self.undo: list[Callable[[], object]] = []
        self.touched: list[str] = []  # paths whose watches are to be notified

    def row(self, path: str) -> tuple[Fact, LocalRegistry | None] | None:
        fact = self._tree.facts.get(path)
        return None if fact is None else (fact, self._tree.owners.get(path))

    def paths_below(self, prefix: str) -> Iterable[str]:
        return self._tree.below.get(prefix[:-1], ())

    def put(self, fact: Fact, owner: LocalRegistry | None) -> None:
        if len(fact.value) > _MOST_BYTES:
            raise ValueError(f"{fact.path}: a fact has at most {_MOST_BYTES} bytes, found {len(fact.value)}")
        facts, before = self._tree.facts, self._tree.facts.get(fact.path)
        if before is None:
            self._tree.put(fact, owner, self.touched)
            self.undo.append(lambda: self._tree.remove(fact.path, []))
        else:
            facts[fact.path] = fact
            self.undo.append(lambda: facts.__setitem__(fact.path, before))
            self.touched.append(fact.path)

    def remove(self, path: str) -> None:
        fact, owner = self._tree.facts[path], self._tree.owners.get(path)
        self._tree.remove(path, self.touched)
        self.undo.append(lambda: self._tree.put(fact, owner, []))

    def next_number(self, name: str) -> int:
        tree = self._tree
        if not name:
            created = tree.created
            self.undo.append(lambda: setattr(tree, "created", created))
            tree.created += 1
            return tree.created
        parent = name[:-1]
        number = tree.numbers.get(parent, 0)
        self.undo.append(lambda: tree.numbers.__setitem__(parent, number))
        tree.numbers[parent] = number + 1
        return number


class _LocalWatch(RegistryWatch):
    """A watch of one session; it is in the tree's watches and in its session's until it is closed."""

    def __init__(self, session: LocalRegistry, path: str, notify: Callable[[], object]) -> None:
        self._session, self._path, self.notify = session, path, notify

    def add_locked(self) -> None:
        self._session._tree.watches.setdefault(self._path, {})[self] = None
        self._session._own_watches[self] = None

    def remove_locked(self) -> None:
        watches = self._session._tree.watches
        found = watches.get(self._path, {})
        found.pop(self, None)
        if not found:
            watches.pop(self._path, None)
        self._session._own_watches.pop(self, None)

    def close(self) -> None:
        with self._session._tree.lock:
            self.remove_locked()


class LocalRegistry(Registry):
    """A session of a registry in memory; `connect` opens another one on the same facts.

    Nothing is stored: the facts end with the last session's object. `kept_in` returns one whose facts are stored.

    >>> from logstore.replication import Create
    >>> registry = LocalRegistry()
    >>> [first] = registry.commit([Create("/brokers/ids/1", b"here", ephemeral=True)])
    >>> other = registry.connect()
    >>> other.read("/brokers/ids/1").value, other.children("/brokers")
    (b'here', frozenset({'ids'}))
    >>> registry.close()
    >>> other.read("/brokers/ids/1") is None
    True
    """

    def __init__(self) -> None:
        self._tree = _Tree()
        self._store: Store | None = None  # in which the facts are kept: it stays open
        self._is_alive = True
        self._own_watches: dict[_LocalWatch, None] = {}

    @classmethod
    def kept_in(cls, store: Store) -> LocalRegistry:
        """Return a session on the facts that are kept in a store's directory, for the one node of that store.

        On the return of `commit` its facts are on the disk; versions and numbers go on where they were after a
        restart. Ephemeral facts end with the process. A `Store.snapshot` has the others. Each commit writes all
        facts. Sessions of the same open store share them. Close the sessions before the store: then they raise
        `RegistryUnreachableError`.

        >>> import tempfile
        >>> import logstore
        >>> from logstore.replication import Create
        >>> directory = tempfile.TemporaryDirectory()
        >>> for number in range(2):
        ...     with logstore.open(directory.name) as store:
        ...         registry = LocalRegistry.kept_in(store)
        ...         [fact] = registry.commit([Create(f"/{number}", b"")])
        ...         sorted(registry.children("/")), fact.created
        ...         registry.close()
        (['0'], 1)
        (['0', '1'], 2)
        >>> directory.cleanup()

        Raises:
            NotALogError: the file ``logstore.facts`` is damaged, or of a later version.
            ReadOnlyError: the store is open read-only.
            StorageError: the file cannot be read.
        """
        host = store._host
        host.check_writable()
        with _KEPT_LOCK:
            tree = _KEPT.get(host)
            if tree is None:
                tree = _KEPT[host] = _Tree.load(host)
        session = cls()
        session._tree, session._store = tree, store
        return session

    def connect(self) -> LocalRegistry:
        """Return a new session on the same facts."""
        session = LocalRegistry()
        session._tree, session._store = self._tree, self._store
        return session

    @property
    def is_alive(self) -> bool:
        return self._is_alive

    def read(self, path: str) -> Fact | None:
        check_path(path, root=True)
        with self._tree.lock:
            self._check_usable()
            return self._tree.facts.get(path)

    def children(self, path: str) -> frozenset[str]:
        check_path(path, root=True)
        with self._tree.lock:
            self._check_usable()
            return frozenset(self._tree.below.get(path, ()))

    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        for change in changes:
            check_path(change.path)
        with self._tree.lock:
            self._check_usable()
            results, watches = self._tree.apply(changes, self)
        _notify_all(watches)
        return results

    def watch(self, path: str, notify: Callable[[], object]) -> RegistryWatch:
        check_path(path, root=True)
        watch = _LocalWatch(self, path, notify)
        with self._tree.lock:
            self._check_alive()
            watch.add_locked()
        return watch

    def close(self) -> None:
        tree = self._tree
        with tree.lock:
            if not self._is_alive:
                return
            self._is_alive = False
            touched: list[str] = []
            for path in [path for path, owner in tree.owners.items() if owner is self]:
                tree.remove(path, touched)
            watches = dict.fromkeys([*self._own_watches, *tree.watching(touched)])
            for watch in list(self._own_watches):
                watch.remove_locked()
        _notify_all(list(watches))

    def _check_usable(self) -> None:
        self._check_alive()
        self._tree.check_saved()

    def _check_alive(self) -> None:
        if not self._is_alive:
            raise RegistryUnreachableError("the session with the registry has ended; connect again")


#: The facts of the open stores that keep some: two trees of one file would undo each other's commits.
_KEPT: weakref.WeakKeyDictionary[StoreHost, _Tree] = weakref.WeakKeyDictionary()
_KEPT_LOCK = threading.Lock()


def _notify_all(watches: list[_LocalWatch]) -> None:
    for watch in watches:
        watch.notify()
