"""A registry in the memory of one process: for a single node, for tests and for simulated clusters.

It is kept in a store's directory if `LocalRegistry.kept_in` has made it: then each commit is on the disk before it
is answered or seen (`facts_file` has the bytes). After a commit that the disk has refused nothing is answered until
the disk has what the memory has: a fact that was read is never older than one that the disk may have.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, assert_never

from logstore.errors import LogstoreError, RegistryUnreachableError, StaleFactError
from logstore.replication.api import Change, Check, Create, Delete, Fact, Registry, RegistryWatch, Write, check_path
from logstore.replication.local.facts_file import FACTS_FILE, KeptFacts

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
        undo: list[Callable[[], object]] = []
        results: list[Fact | None] = []
        touched: list[str] = []
        created = self.created
        try:
            for change in changes:
                results.append(self._change(change, session, undo, touched))
            if undo:
                self.save()
        except BaseException:
            for step in reversed(undo):
                step()
            self.created = created
            raise
        return results, self.watching(touched)

    def watching(self, touched: list[str]) -> list[_LocalWatch]:
        found: dict[_LocalWatch, None] = {}
        for path in touched:
            found |= self.watches.get(path, {})
        return list(found)

    def _change(
        self, change: Change, session: LocalRegistry, undo: list[Callable[[], object]], touched: list[str]
    ) -> Fact | None:
        if isinstance(change, Create):
            return self._create(change, session, undo, touched)
        found = self.facts.get(change.path)
        if found is None or found.version != change.version:
            there = "it is not there" if found is None else f"it has version {found.version}"
            raise StaleFactError(f"{change.path}: expected version {change.version}, but {there}", fact=change.path)
        match change:
            case Check():
                return found
            case Write():
                fact = found._replace(value=_checked(change), version=found.version + 1)
                self.facts[change.path] = fact
                undo.append(lambda: self.facts.__setitem__(found.path, found))
                touched.append(change.path)
                return fact
            case Delete():
                if self.below.get(change.path):
                    raise StaleFactError(f"{change.path}: it has children", fact=change.path)
                owner = self.owners.get(change.path)
                self.remove(change.path, touched)
                undo.append(lambda: self.put(found, owner, []))
                return None
            case _:
                assert_never(change)

    def _create(
        self, change: Create, session: LocalRegistry, undo: list[Callable[[], object]], touched: list[str]
    ) -> Fact:
        path = change.path
        parent = path.rpartition("/")[0]
        if change.sequential:
            number = self.numbers.get(parent, 0)
            self.numbers[parent] = number + 1
            undo.append(lambda: self.numbers.__setitem__(parent, number))
            path = f"{path}{number:010d}"
        if path in self.facts:
            raise StaleFactError(f"{path}: it is there already", fact=path)
        for above in _above(path):
            if above in self.owners:
                raise StaleFactError(f"{path}: {above} is ephemeral and has no children", fact=above)
        if change.ephemeral and self.below.get(path):
            raise StaleFactError(f"{path}: it has children, so it cannot be ephemeral", fact=path)
        self.created += 1
        fact = Fact(path, _checked(change), 0, self.created)
        self.put(fact, session if change.ephemeral else None, touched)
        undo.append(lambda: self.remove(path, []))
        return fact

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
        restart. Ephemeral facts end with the process. Each commit writes all facts. Sessions of the same open store
        share them. Close the sessions before the store: then they raise `RegistryUnreachableError`.

        >>> import tempfile
        >>> import logstore
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


def _checked(change: Create | Write) -> bytes:
    if len(change.value) > _MOST_BYTES:
        raise ValueError(f"{change.path}: a fact has at most {_MOST_BYTES} bytes, found {len(change.value)}")
    return bytes(change.value)


def _above(path: str) -> list[str]:
    """Return the paths above a path, without the root."""
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[:count]) for count in range(1, len(names) + 1)]
