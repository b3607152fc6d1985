"""Offsets in the user's own database, in the transaction that holds the effects of the records.

A consumer that stores its position in the transaction of its results processes each record exactly once for the
database. After a crash both are stored or neither is. This module is responsible for the table; it needs a DB-API
2.0 connection of any driver. `transaction` commits or rolls back; `claim` and `save` leave that to the caller. In
autocommit mode a connection may have no open transaction: then `claim` too begins and commits one, and `save` is
refused. One thread at a time, as for the connection::

    CREATE TABLE logstore_offsets (
        consumer_group, topic, partition_number,       -- primary key
        next_offset, leader_epoch, topic_id, generation
    )

``leader_epoch`` is that of the last record read, which tells whether that record is still there (`groups.resume`).
``generation`` fences two consumers of one group. `claim` raises it; a `save` with an earlier one
changes nothing and raises `GroupFencedError`. So the last claimant has the partitions. The transaction of the
claimant before is rolled back, and no record takes effect twice. The comparison and the change are one statement,
under the row's lock in any database that has transactions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

from logstore.client.consumer import Consumer
from logstore.errors import GroupFencedError, InvalidOffsetError, NoTransactionError
from logstore.groups.offsets import OffsetAndMetadata, check_group, is_whole
from logstore.records import INT64_MAX, TopicPartition

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)

#: Placeholders of parameters by the driver's style (PEP 249). Drivers of pyformat take a sequence for %s as well.
_MARKS = {"qmark": "?", "numeric": ":{0}", "format": "%s", "pyformat": "%s"}

#: The longest group name that is stored: MySQL's indexes have no room for more beside a topic.
_NAME_MAX = 249


#: The transaction_status of libpq's connections, as in psycopg, outside of a transaction.
_IDLE = 0

_KEY = "consumer_group = ? AND topic = ? AND partition_number = ?"


class Cursor(Protocol):
    """A DB-API cursor, as far as it is used here."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, operation: str, parameters: Sequence[Any] = ..., /) -> Any: ...

    def fetchall(self) -> Sequence[Any]: ...

    def close(self) -> Any: ...


class Connection(Protocol):
    """A DB-API connection, as far as it is used here."""

    def cursor(self) -> Any: ...

    def commit(self) -> Any: ...

    def rollback(self) -> Any: ...


class DatabaseOffsets:
    """The offsets of one consumer group in a table of the user's database.

    >>> import sqlite3
    >>> database = sqlite3.connect(":memory:")
    >>> offsets = DatabaseOffsets(database, "billing")
    >>> offsets.create_table()
    >>> with logstore.open(tmp / "data") as store, database:
    ...     at = store.create_topic("flights").append(b"AA 1141")
    ...     consumer = store.consumer(auto_offset_reset="earliest")
    ...     consumer.assign_topics(["flights"])
    ...     begun = offsets.claim(consumer)
    ...     records = consumer.poll()
    ...     saved = offsets.save(database.cursor(), consumer)    # beside the effects of the records
    >>> offsets.load([("flights", 0)])
    {TopicPartition(topic='flights', partition=0): 1}
    >>> database.close()

    Owns: nothing; connection and transactions are the caller's.
    """

    def __init__(
        self, connection: Connection, group: str, *, table: str = "logstore_offsets", paramstyle: str | None = None
    ) -> None:
        """Use a table for one group; ``paramstyle`` is the driver's (PEP 249), by default its module's.

        Raises:
            ValueError: the table's name is no plain identifier, or the driver's style is not known.
            InvalidGroupError: the group's name cannot be used.
            InvalidOffsetError: the group's name has more than 249 characters.
        """
        check_group(group)
        if len(group) > _NAME_MAX:
            raise InvalidOffsetError(
                f"a group's name in a table has at most {_NAME_MAX} characters: {group[:50]!r}…"
            )
        if _TABLE.fullmatch(table) is None:
            raise ValueError(f"the table's name must be a plain identifier, found {table!r}")
        self._connection = connection
        self.group = group
        self.table = table
        self._mark = _mark_of(paramstyle or _paramstyle_of(connection))
        self._claims: dict[TopicPartition, int] = {}
        self._in_own = False  # inside of a transaction that was begun here
        self._joined: set[TopicPartition] = set()  # claimed by `save`; the row is gone if that is rolled back

    # -- the table

    def create_table(self) -> None:
        """Create the table if there is none. In the caller's transaction, where the database allows that."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {self.table} ("
                f"consumer_group VARCHAR({_NAME_MAX}) NOT NULL, topic VARCHAR(249) NOT NULL, "
                "partition_number INTEGER NOT NULL, next_offset BIGINT NOT NULL, leader_epoch INTEGER NOT NULL, "
                "topic_id VARCHAR(22) NOT NULL, generation BIGINT NOT NULL, "
                "PRIMARY KEY (consumer_group, topic, partition_number))"
            )

    # -- beginning

    def claim(self, consumer: Consumer) -> dict[TopicPartition, int]:
        """Take over a consumer's assigned partitions, and seek to the saved offsets of the group.

        The claim is part of the open transaction; commit it before the first records are processed. From then on
        no earlier claimant can save. A partition without an offset, or with one of an earlier topic of that name,
        begins at the consumer's position, which is stored too. A partition added to a topic of which the
        group has offsets begins at the log start. Returns the offset at which each partition begins.

        With a connection in autocommit mode, and no transaction open, the claim is committed on return.

        Raises:
            NoTransactionError: the driver's autocommit mode is on, and how to begin a transaction is not known.
            NotAssignedError: the consumer has no partitions.
            NoOffsetError: the consumer has no position, since ``auto.offset.reset`` is none; seek first.
        """
        if not _autocommits(self._connection) or _in_transaction(self._connection):
            return self._claim(consumer)
        end = self._begun_here()
        try:
            found = self._claim(consumer)
        except BaseException:
            end(False)
            raise
        end(True)
        return found

    def _claim(self, consumer: Consumer) -> dict[TopicPartition, int]:
        subscription = consumer._subscription
        positions = subscription.positions()
        begun = {partition.topic for partition in self.load()}
        found: dict[TopicPartition, int] = {}
        claims: dict[TopicPartition, int] = {}
        with closing(self._connection.cursor()) as cursor:
            for partition in sorted(positions):
                topic_id = subscription.one(partition).topic_id
                row = self._claimed(cursor, partition)
                if row is not None and (row[2] == topic_id or not row[2] or not topic_id):
                    consumer.seek(partition, OffsetAndMetadata(row[0], leader_epoch=row[1]))
                    found[partition] = consumer.position(partition)
                else:
                    if row is None and partition.topic in begun and subscription.was_added(partition):
                        consumer.seek_to_beginning(partition)
                        positions[partition] = consumer.position(partition)
                    found[partition] = positions[partition]
                    epoch = subscription.leader_epoch(partition, found[partition])
                    self._begin(cursor, partition, found[partition], epoch, topic_id, is_new=row is None)
                claims[partition] = 1 if row is None else row[3]
        self._claims = claims
        self._joined.clear()
        return found

    def _claimed(self, cursor: Cursor, partition: TopicPartition) -> tuple[int, int, str, int] | None:
        """Raise the generation of an existing row; return its offset, epoch, topic id and new generation."""
        # The update first: it takes the row's lock, so the values read then are current.
        changed = self._run(
            cursor,
            f"UPDATE {self.table} SET generation = generation + 1 WHERE {_KEY}",
            (self.group, *partition),
        )
        if not changed:
            return None
        self._run(
            cursor,
            f"SELECT next_offset, leader_epoch, topic_id, generation FROM {self.table} WHERE {_KEY}",
            (self.group, *partition),
        )
        ((offset, epoch, topic_id, generation),) = cursor.fetchall()
        return int(offset), int(epoch), str(topic_id), int(generation)

    def _begin(
        self, cursor: Cursor, partition: TopicPartition, offset: int, epoch: int, topic_id: str, *, is_new: bool
    ) -> None:
        if is_new:
            # If two claimants insert the row, one of them gets the database's own error, and retries.
            self._run(
                cursor,
                f"INSERT INTO {self.table} (consumer_group, topic, partition_number, next_offset, "
                "leader_epoch, topic_id, generation) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (self.group, *partition, offset, epoch, topic_id, 1),
            )
        else:
            self._run(
                cursor,
                f"UPDATE {self.table} SET next_offset = ?, leader_epoch = ?, topic_id = ? WHERE {_KEY}",
                (offset, epoch, topic_id, self.group, *partition),
            )

    def load(
        self, partitions: Iterable[TopicPartition | tuple[str, int]] | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets of the group, of these partitions or of all; those never saved are left out."""
        with closing(self._connection.cursor()) as cursor:
            self._run(
                cursor,
                f"SELECT topic, partition_number, next_offset FROM {self.table} WHERE consumer_group = ?",
                (self.group,),
            )
            rows = {TopicPartition(str(t), int(n)): int(offset) for t, n, offset in cursor.fetchall()}
        wanted = sorted(rows) if partitions is None else [TopicPartition(*each) for each in partitions]
        return {partition: rows[partition] for partition in wanted if partition in rows}

    # -- going on

    def save(self, cursor: Cursor, offsets: Consumer | Mapping[TopicPartition, int]) -> None:
        """Store the group's offsets in the transaction of ``cursor``.

        ``offsets`` are next offsets by partition, or a consumer, whose positions are stored. Nothing is durable
        before the caller commits. On an error roll back, so that the effects are undone too. A partition that was
        added while the consumer reads its topic is claimed by the first save.

        Raises:
            NoTransactionError: the connection is in autocommit mode, and no transaction is known to be open.
            GroupFencedError: a partition was never claimed here, or another consumer has claimed it since.
            InvalidOffsetError: an offset is no whole number from 0 on.
        """
        if not self._in_own and _autocommits(self._connection) and not _in_transaction(self._connection):
            raise NoTransactionError(
                f"the offsets of group {self.group!r} would be committed without the effects of the records: the "
                "connection is in autocommit mode and no transaction is known to be open; write the effects in a "
                "block of transaction(), or turn autocommit off"
            )
        if isinstance(offsets, Consumer):
            given: Mapping[TopicPartition, int] = offsets._subscription.positions()
            epochs = {name: offsets._subscription.leader_epoch(name, offset) for name, offset in given.items()}
        else:
            given, epochs = offsets, {}
        for name, offset in sorted(given.items()):
            partition = TopicPartition(*name)
            if not is_whole(offset) or not 0 <= offset <= INT64_MAX:
                raise InvalidOffsetError(f"{partition}: an offset is a whole number from 0 on, found {offset!r}")
            if isinstance(offsets, Consumer) and self._joins(cursor, offsets, partition):
                topic_id = offsets._subscription.one(partition).topic_id
                self._begin(cursor, partition, offset, epochs[partition], topic_id, is_new=True)
                self._claims[partition] = 1
                self._joined.add(partition)
                continue
            claim = self._claims.get(partition)
            if claim is None or not self._stored(cursor, partition, offset, epochs.get(partition, -1), claim):
                why = "was never claimed here" if claim is None else "was claimed by another consumer since"
                raise GroupFencedError(
                    f"{partition} {why}, group {self.group!r}; call rollback() on the connection, and claim() "
                    f"again",
                    offset=offset,
                )

    def _joins(self, cursor: Cursor, consumer: Consumer, partition: TopicPartition) -> bool:
        """Tell whether a partition joined the consumer after `claim`, and no other consumer has claimed it."""
        if partition in self._claims and partition not in self._joined:
            return False
        if not consumer._subscription.was_added(partition):
            return False
        self._run(cursor, f"SELECT COUNT(*) FROM {self.table} WHERE {_KEY}", (self.group, *partition))
        ((count,),) = cursor.fetchall()
        return not count

    def _stored(self, cursor: Cursor, partition: TopicPartition, offset: int, epoch: int, claim: int) -> bool:
        place = (self.group, *partition, claim)
        changed = self._run(
            cursor,
            f"UPDATE {self.table} SET next_offset = ?, leader_epoch = ? WHERE {_KEY} AND generation = ?",
            (offset, epoch, *place),
        )
        if changed <= 0:
            # The update reported no row: some drivers do not count unchanged rows, and some count nothing.
            self._run(
                cursor,
                f"SELECT COUNT(*) FROM {self.table} WHERE {_KEY} AND generation = ? AND next_offset = ?",
                (*place, offset),
            )
            ((changed,),) = cursor.fetchall()
        return bool(changed)

    @contextmanager
    def transaction(self, consumer: Consumer) -> Iterator[Any]:
        """Yield a cursor for the effects of the records handed out; save and commit at the end.

        On an error everything is rolled back, and the consumer returns to the saved offsets: the records are read
        again. If the driver begins no transaction, or only before some statements, this method begins one.

        Raises:
            NoTransactionError: the driver's autocommit mode is on, and how to begin a transaction is not known.
            GroupFencedError, InvalidOffsetError: as `save`.
        """
        end = self._begun_here()
        cursor = self._connection.cursor()
        self._in_own = True
        try:
            yield cursor
            self.save(cursor, consumer)
            end(True)
        except BaseException:
            end(False)
            saved = self.load()
            for partition in consumer.assignment:
                if partition in saved and partition in self._claims:
                    consumer.seek(partition, saved[partition])
                elif consumer._subscription.was_added(partition):
                    consumer.seek_to_beginning(partition)
            raise
        finally:
            self._in_own = False
            cursor.close()

    def _begun_here(self) -> Callable[[bool], None]:
        """Begin a transaction where the driver does not, or not before every statement; return its end function.

        Raises:
            NoTransactionError: how to begin one is not known.
        """
        connection: Any = self._connection
        is_open = _in_transaction(connection)
        if not _autocommits(connection):
            if _is_sqlite(connection) and not is_open:
                # sqlite3 would begin one before INSERT, and none before WITH … INSERT or CREATE.
                self._execute(f"BEGIN {connection.isolation_level}")
            return lambda good: connection.commit() if good else connection.rollback()
        if is_open is None:
            begin = getattr(connection, "begin", None) or getattr(connection, "start_transaction", None)
            if begin is None:
                raise NoTransactionError(
                    f"the connection is in autocommit mode, and how {type(connection).__module__} begins a "
                    "transaction is not known here; turn autocommit off"
                )
            begin()
            return lambda good: connection.commit() if good else connection.rollback()
        if not is_open:
            self._execute("BEGIN")

        def end(good: bool) -> None:
            # In this mode some drivers' commit() and rollback() do nothing. An error may have ended it.
            if _in_transaction(connection):
                self._execute("COMMIT" if good else "ROLLBACK")

        return end

    def _execute(self, statement: str) -> None:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)

    def _run(self, cursor: Cursor, statement: str, parameters: tuple[Any, ...]) -> int:
        """Execute a statement written with question marks; return how many rows it changed."""
        parts = statement.split("?")
        marked = "".join(part + self._mark.format(n) for n, part in enumerate(parts[:-1], 1)) + parts[-1]
        cursor.execute(marked, parameters)
        return cursor.rowcount


def _is_sqlite(connection: Any) -> bool:
    """Tell whether the connection is one of `sqlite3`, or of a module made like it."""
    return hasattr(connection, "isolation_level") and hasattr(connection, "in_transaction")


def _autocommits(connection: Any) -> bool:
    """Tell whether the connection is in autocommit mode; False if the driver does not tell, by PEP 249."""
    # pymssql and the drivers of MySQL have a method of this name, which sets the mode.
    for name in ("autocommit", "autocommit_state"):
        found = getattr(connection, name, None)
        if isinstance(found, int) and found in (False, True):
            return bool(found)
    if hasattr(connection, "get_autocommit"):
        return bool(connection.get_autocommit())
    return _is_sqlite(connection) and connection.isolation_level is None


def _in_transaction(connection: Any) -> bool | None:
    """Tell whether a transaction is open; None if the driver does not say."""
    found = getattr(connection, "in_transaction", None)
    if isinstance(found, bool):
        return found
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return None if status is None else int(status) != _IDLE


def _mark_of(paramstyle: str) -> str:
    mark = _MARKS.get(paramstyle)
    if mark is None:
        raise ValueError(
            f"drivers with paramstyle {', '.join(_MARKS)} can be used, not {paramstyle!r}; give paramstyle= what "
            "the driver's execute() takes"
        )
    return mark


def _paramstyle_of(connection: object) -> str:
    """Return the paramstyle of the driver's module, found by the class of the connection."""
    module = type(connection).__module__
    while module:
        style = getattr(sys.modules.get(module), "paramstyle", None)
        if isinstance(style, str):
            return style
        module = module.rpartition(".")[0]
    raise ValueError(
        f"paramstyle= is needed: that of {type(connection).__module__}.{type(connection).__qualname__} is not "
        "known here"
    )


__all__ = ["DatabaseOffsets"]
