"""A registry in one SQLite file: for processes of one machine. `RegistryConformance` is its test."""

import sqlite3
import threading
import time
import uuid

from logstore.errors import RegistryUnreachableError, StaleFactError
from logstore.replication import Create, Delete, Fact, Registry, Watches, Write, check_path

TABLES = """PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
CREATE TABLE IF NOT EXISTS facts(path PRIMARY KEY, value, version, created, owner);
CREATE TABLE IF NOT EXISTS sessions(id PRIMARY KEY, until);
CREATE TABLE IF NOT EXISTS counters(name PRIMARY KEY, n)"""


class SqliteRegistry(Registry):
    is_alive = True

    def __init__(self, file, timeout_s=1.0):
        self.id, self.timeout_s, self.watches, self.lock = uuid.uuid4().hex, timeout_s, Watches(), threading.Lock()
        self.db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=5)
        self.db.executescript(TABLES)
        self.run("INSERT INTO sessions VALUES (?, ?)", self.id, time.time() + timeout_s)
        threading.Thread(target=self.tend, daemon=True).start()

    def run(self, work, *values):
        """Execute SQL, or call a function, in one transaction. The facts of ended sessions are deleted first."""
        with self.lock:
            if not self.is_alive:
                raise RegistryUnreachableError("the session has ended")
            try:
                self.db.execute("BEGIN IMMEDIATE")
                with self.db:
                    self.db.execute("DELETE FROM sessions WHERE until < ?", (time.time(),))
                    self.db.execute("DELETE FROM facts WHERE owner NOT IN (SELECT id FROM sessions)")
                    return work() if callable(work) else self.db.execute(work, values).fetchall()
            except sqlite3.Error as error:
                raise RegistryUnreachableError(f"SQLite: {error}") from error

    def tend(self):
        """Renew the session, and notify the watches after each change of the file."""
        seen, renew_at = None, 0.0
        while self.is_alive:
            try:
                if time.time() >= renew_at:
                    renew_at = time.time() + self.timeout_s / 4
                    renewal = "UPDATE sessions SET until = ? WHERE id = ? RETURNING id"
                    self.is_alive = bool(self.run(renewal, time.time() + self.timeout_s, self.id))
                with self.lock:
                    now = self.db.execute("PRAGMA data_version").fetchone(), self.db.total_changes
            except (RegistryUnreachableError, sqlite3.Error):
                now = seen
            if now != seen:
                seen = now
                self.watches.notify_all()
            time.sleep(0.01)
        self.watches.notify_all()

    def read(self, path):
        check_path(path, root=True)
        return self.run(lambda: self.fact(path))

    def fact(self, path):
        found = self.db.execute(
            "SELECT path, value, version, created FROM facts WHERE path = ?", (path,)
        ).fetchone()
        return found and Fact(*found)

    def children(self, path):
        prefix = check_path(path, root=True).rstrip("/") + "/"
        return frozenset(each[len(prefix) :].split("/")[0] for each in self.run(lambda: self.below(prefix)))

    def below(self, prefix):  # "0" is the character after "/"
        return [
            each
            for (each,) in self.db.execute(
                "SELECT path FROM facts WHERE path > ? AND path < ?", (prefix, prefix[:-1] + "0")
            )
        ]

    def watch(self, path, notify):
        self.read(path)  # refuses a path that is none, and an ended session
        return self.watches.add(notify)

    def commit(self, changes):
        for change in changes:
            check_path(change.path)
        return self.run(lambda: [self.change(change) for change in changes])

    def count(self, name):
        count = "INSERT INTO counters VALUES (?, 0) ON CONFLICT DO UPDATE SET n = n + 1 RETURNING n"
        return self.db.execute(count, (name,)).fetchone()[0]

    def change(self, change):
        path, found = change.path, self.fact(change.path)
        if isinstance(change, Create):
            parents = ["/".join(path.split("/")[:n]) for n in range(2, path.count("/") + 1)]
            owned = [
                self.db.execute("SELECT owner FROM facts WHERE path = ? AND owner > ''", (each,)).fetchone()
                for each in parents
            ]
            path += f"{self.count(path.rpartition('/')[0]):010d}" if change.sequential else ""
            if self.fact(path) or any(owned) or (change.ephemeral and self.below(path + "/")):
                raise StaleFactError(f"{path} cannot be created", fact=path)
            row = path, bytes(change.value), 0, self.count(""), self.id if change.ephemeral else None
            self.db.execute("INSERT INTO facts VALUES (?, ?, ?, ?, ?)", row)
        elif (
            found is None
            or found.version != change.version
            or (isinstance(change, Delete) and self.below(path + "/"))
        ):
            raise StaleFactError(f"{path}: expected version {change.version}, found {found}", fact=path)
        elif isinstance(change, Write):
            self.db.execute(
                "UPDATE facts SET value = ?, version = version + 1 WHERE path = ?", (bytes(change.value), path)
            )
        elif isinstance(change, Delete):
            self.db.execute("DELETE FROM facts WHERE path = ?", (path,))
        return self.fact(path)

    def close(self):
        if self.is_alive:
            self.run("DELETE FROM facts WHERE owner = ?", self.id)
            self.is_alive = False  # its thread ends, and notifies the watches
