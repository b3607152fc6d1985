"""Conformance suite of databases that store offsets in their transactions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from logstore.client.consumer import Consumer
from logstore.client.dbapi import Connection, DatabaseOffsets
from logstore.errors import GroupFencedError
from logstore.records import TopicPartition
from logstore.store.store import Store
from logstore.testing.stores import temporary_store

_PLACE = TopicPartition("t", 0)


class DatabaseConformance:
    """The suite for a DB-API connection under `DatabaseOffsets`: its driver must store offsets and effects
    together, or neither.

    Every test makes its own table, ``table``, and drops it.
    """

    table: str = "logstore_conformance"
    paramstyle: str | None = None

    @abstractmethod
    def connect(self) -> Connection:
        """Return a new connection to one database, with transactions (no autocommit); the suite closes it."""

    @contextmanager
    def offsets(self) -> Iterator[tuple[DatabaseOffsets, Connection]]:
        """Yield offsets of a group over an existing table, and the connection."""
        connection = self.connect()
        try:
            offsets = DatabaseOffsets(connection, "g", table=self.table, paramstyle=self.paramstyle)
            offsets.create_table()
            connection.commit()
            try:
                yield offsets, connection
            finally:
                connection.rollback()
                self.execute(connection, f"DROP TABLE {self.table}")
                connection.commit()
        finally:
            connection.close()  # type: ignore[attr-defined]  # every DB-API connection has it

    def execute(self, connection: Connection, statement: str) -> None:
        """Run one statement; it is not committed."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement)

    def test_what_was_committed_is_found_by_another_connection(self) -> None:
        with self.offsets() as (offsets, connection), _consuming() as (_, consumer):
            offsets.claim(consumer)
            consumer.poll(0, 2)
            offsets.save(connection.cursor(), consumer)
            connection.commit()
            other = self.connect()
            try:
                found = DatabaseOffsets(other, "g", table=self.table, paramstyle=self.paramstyle).load()
                other.rollback()
            finally:
                other.close()  # type: ignore[attr-defined]
            assert found == {_PLACE: 2}

    def test_what_was_rolled_back_is_gone(self) -> None:
        with self.offsets() as (offsets, connection), _consuming() as (_, consumer):
            offsets.claim(consumer)
            connection.commit()
            consumer.poll(0, 2)
            offsets.save(connection.cursor(), consumer)
            connection.rollback()
            assert offsets.load() == {_PLACE: 0}

    def test_a_transaction_keeps_both_or_neither_and_the_consumer_goes_back(self) -> None:
        with self.offsets() as (offsets, connection), _consuming() as (_, consumer):
            offsets.claim(consumer)
            connection.commit()
            with offsets.transaction(consumer):
                consumer.poll(0, 2)
            with pytest.raises(ZeroDivisionError):
                _fail_in(offsets, consumer)
            assert offsets.load() == {_PLACE: 2}
            assert consumer.position(_PLACE) == 2

    def test_the_last_claim_has_the_partition(self) -> None:
        with self.offsets() as (offsets, connection), _consuming() as (store, consumer):
            offsets.claim(consumer)
            connection.commit()
            later = DatabaseOffsets(connection, "g", table=self.table, paramstyle=self.paramstyle)
            with _consumer_of(store) as second:
                later.claim(second)
                connection.commit()
                second.poll(0, 1)
                later.save(connection.cursor(), second)
                connection.commit()
            consumer.poll(0, 3)
            with pytest.raises(GroupFencedError):
                offsets.save(connection.cursor(), consumer)
            connection.rollback()
            assert offsets.load() == {_PLACE: 1}

    def test_the_same_offset_may_be_saved_twice(self) -> None:
        with self.offsets() as (offsets, connection), _consuming() as (_, consumer):
            offsets.claim(consumer)
            for _ in range(2):
                offsets.save(connection.cursor(), {_PLACE: 4})
                connection.commit()
            assert offsets.load() == {_PLACE: 4}


def _fail_in(offsets: DatabaseOffsets, consumer: Consumer) -> None:
    with offsets.transaction(consumer):
        consumer.poll(0, 2)
        raise ZeroDivisionError


@contextmanager
def _consuming() -> Iterator[tuple[Store, Consumer]]:
    with temporary_store() as store:
        store.create_topic("t").append_many([b"%d" % n for n in range(5)])
        with _consumer_of(store) as consumer:
            yield store, consumer


@contextmanager
def _consumer_of(store: Store) -> Iterator[Consumer]:
    with store.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(["t"])
        yield consumer
