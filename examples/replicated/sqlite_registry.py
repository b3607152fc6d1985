"""A registry in one SQLite file: for processes of one machine. `RegistryConformance` is its test."""

import contextlib
import sqlite3
import time
from pathlib import Path

from logstore.errors import RegistryUnreachableError
from logstore.replication import Fact, TableRegistry

TABLES = """PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
CREATE TABLE IF NOT EXISTS facts(path PRIMARY KEY, value, version, created, owner);
CREATE TABLE IF NOT EXISTS leases(id PRIMARY KEY, boot, until);
CREATE TABLE IF NOT EXISTS counters(name PRIMARY KEY, n)"""
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text()  # since when `time.monotonic` counts, for all processes


class SqliteRegistry(TableRegistry):
    def __init__(self, file, timeout_s=1.0):
        super().__init__(timeout_s=timeout_s)
        self.db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=5)
        for statement in TABLES.split(";"):  # refused while another process makes the file: `Node` connects again
            self.sql(statement)
        self.open()

    def sql(self, statement, *values):
        try:
            return self.db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise RegistryUnreachableError(f"SQLite: {error}") from error

    @contextlib.contextmanager
    def transaction(self):
        self.sql("BEGIN IMMEDIATE")
        try:
            self.sql("DELETE FROM leases WHERE until < ? OR boot <> ?", time.monotonic(), BOOT)
            self.sql("DELETE FROM facts WHERE owner NOT IN (SELECT id FROM leases)")
            yield
            self.sql("COMMIT")
        finally:
            self.db.rollback()  # does nothing after the commit

    def begin_session(self):
        self.sql("INSERT INTO leases VALUES (?, ?, ?)", self.session, BOOT, time.monotonic() + self.timeout_s)

    def renew_session(self):
        renewal = "UPDATE leases SET until = ? WHERE id = ? RETURNING id"
        return bool(self.sql(renewal, time.monotonic() + self.timeout_s, self.session))

    def end_session(self):  # its facts are gone in each later transaction
        self.sql("DELETE FROM leases WHERE id = ?", self.session)

    def version(self):
        return self.sql("PRAGMA data_version"), self.db.total_changes

    def row(self, path):
        found = self.sql("SELECT path, value, version, created, owner FROM facts WHERE path = ?", path)
        return (Fact(*found[0][:4]), found[0][4]) if found else None

    def paths_below(self, prefix):  # "0" is the character after "/"
        found = self.sql("SELECT path FROM facts WHERE path > ? AND path < ?", prefix, prefix[:-1] + "0")
        return [path for (path,) in found]

    def put(self, fact, owner):
        self.sql("REPLACE INTO facts VALUES (?, ?, ?, ?, ?)", *fact, owner)

    def remove(self, path):
        self.sql("DELETE FROM facts WHERE path = ?", path)

    def next_number(self, name):
        count = "INSERT INTO counters VALUES (?, 0) ON CONFLICT DO UPDATE SET n = n + 1 RETURNING n"
        return self.sql(count, name)[0][0]
