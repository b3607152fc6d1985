"""Exactly once in every mode of a connection: offsets and effects are committed together, or refused."""

from __future__ import annotations

import contextlib
import sqlite3
import sys

import pytest

import logstore
from logstore import DatabaseOffsets
from logstore.errors import GroupFencedError, NoTransactionError
from logstore.records import TopicPartition

pytestmark = pytest.mark.row("C13")

A = TopicPartition("payments", 0)


class Proxy:
    """A connection that passes calls on to one of sqlite3, which commits each statement by itself."""

    paramstyle = "qmark"

    def __init__(self, path):
        self._real = sqlite3.connect(path, isolation_level=None)

    def cursor(self):
        return self._real.cursor()

    def close(self):
        self._real.close()

    def commit(self):
        self._real.commit()

    def rollback(self):
        self._real.rollback()


class AsOf312(Proxy):
    """As Python 3.12's sqlite3 with autocommit=True, where commit and rollback do nothing."""

    autocommit = True
    isolation_level = ""

    @property
    def in_transaction(self):
        return self._real.in_transaction

    def commit(self):
        pass

    rollback = commit


class AsPsycopg2(AsOf312):
    """As psycopg2 with autocommit, which says by a number whether a transaction is open."""

    isolation_level = None
    in_transaction = None

    @property
    def info(self):
        class Info:
            transaction_status = 2 if self._real.in_transaction else 0

        return Info


class AsMySQL(Proxy):
    """As PyMySQL with autocommit, which does not say whether a transaction is open."""

    def get_autocommit(self):
        return True

    def autocommit(self, value):
        raise AssertionError("set, not asked")

    def begin(self):
        self._real.execute("BEGIN")


class Unknown(Proxy):
    """A driver that has the mode, and no way to begin a transaction that is known."""

    autocommit = 1


AUTOCOMMIT = {
    "isolation_level=None": lambda path: sqlite3.connect(path, isolation_level=None),
    "autocommit=True": AsOf312,
    "psycopg2": AsPsycopg2,
}
MODES = {
    "default": sqlite3.connect,
    "immediate": lambda path: sqlite3.connect(path, isolation_level="IMMEDIATE"),
    "mysql": AsMySQL,
    **AUTOCOMMIT,
}
if sys.version_info >= (3, 12):
    AUTOCOMMIT["autocommit=True of 3.12"] = lambda path: sqlite3.connect(path, autocommit=True)
    MODES["autocommit=False of 3.12"] = lambda path: sqlite3.connect(path, autocommit=False)
    MODES["autocommit=True of 3.12"] = AUTOCOMMIT["autocommit=True of 3.12"]


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "effects.db"
    setup = sqlite3.connect(path)
    setup.execute("CREATE TABLE seen (number INTEGER)")
    DatabaseOffsets(setup, "billing").create_table()
    setup.commit()
    setup.close()
    return path


def committed(place):
    """What another connection sees: the effects, and the offset beside them."""
    other = sqlite3.connect(place)
    try:
        numbers = [number for (number,) in other.execute("SELECT number FROM seen ORDER BY number")]
        return numbers, DatabaseOffsets(other, "billing").load().get(A)
    finally:
        other.close()


@pytest.fixture
def opened(place):
    """Makes the offsets of a connection."""
    connections = []

    def made(connect):
        connections.append(connect(place))
        return DatabaseOffsets(connections[-1], "billing", paramstyle="qmark"), connections[-1]

    yield made
    for connection in connections:
        connection.close()


@pytest.fixture
def consumer(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("payments").append_many([b"%d" % n for n in range(6)])
        consumer = store.consumer(auto_offset_reset="earliest")
        consumer.assign_topics(["payments"])
        yield consumer


def apply(cursor, consumer, statement="INSERT INTO seen VALUES (?)"):
    for record in consumer.poll(max_records=2):
        cursor.execute(statement, (int(record.value),))


@pytest.mark.parametrize("connect", MODES.values(), ids=MODES)
@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO seen VALUES (?)", "WITH given AS (SELECT ? AS number) INSERT INTO seen SELECT number FROM given"],
    ids=["insert", "with"],
)
def test_effects_and_offset_are_committed_together_or_not_at_all(place, opened, consumer, connect, statement):
    offsets, connection = opened(connect)
    offsets.claim(consumer)
    connection.commit()
    with offsets.transaction(consumer) as cursor:
        apply(cursor, consumer, statement)
        assert committed(place) == ([], 0)
    assert committed(place) == ([0, 1], 2)
    with contextlib.suppress(RuntimeError), offsets.transaction(consumer) as cursor:
        apply(cursor, consumer, statement)
        raise RuntimeError("in the middle")
    assert committed(place) == ([0, 1], 2)
    with offsets.transaction(consumer) as cursor:
        apply(cursor, consumer, statement)
    assert committed(place) == ([0, 1, 2, 3], 4)


@pytest.mark.parametrize("connect", MODES.values(), ids=MODES)
def test_an_effect_that_fails_in_the_database_takes_the_others_with_it(place, opened, consumer, connect):
    offsets, connection = opened(connect)
    offsets.claim(consumer)
    connection.commit()
    with contextlib.suppress(sqlite3.OperationalError), offsets.transaction(consumer) as cursor:
        apply(cursor, consumer)
        cursor.execute("INSERT INTO nothing VALUES (1)")
    assert committed(place) == ([], 0)
    assert consumer.position(A) == 0


@pytest.mark.parametrize("connect", AUTOCOMMIT.values(), ids=AUTOCOMMIT)
def test_a_save_outside_of_a_transaction_is_refused(place, opened, consumer, connect):
    offsets, connection = opened(connect)
    offsets.claim(consumer)
    assert committed(place) == ([], 0), "a claim is committed where every statement is"
    cursor = connection.cursor()
    consumer.poll(max_records=2)
    with pytest.raises(NoTransactionError, match=r"autocommit mode and no transaction .* block of transaction\(\)"):
        offsets.save(cursor, consumer)
    assert committed(place) == ([], 0)
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO seen VALUES (0)")
    offsets.save(cursor, consumer)
    assert committed(place) == ([], 0)
    cursor.execute("COMMIT")
    assert committed(place) == ([0], 2)


@pytest.mark.parametrize("connect", MODES.values(), ids=MODES)
def test_a_fenced_consumer_leaves_no_effect(place, opened, consumer, connect):
    offsets, connection = opened(connect)
    offsets.claim(consumer)
    connection.commit()
    later, other = opened(connect)
    later.claim(consumer)
    other.commit()
    with pytest.raises(GroupFencedError), offsets.transaction(consumer) as cursor:
        apply(cursor, consumer)
    assert committed(place) == ([], 0)


def test_a_driver_whose_transactions_are_not_known_is_refused(place, opened, consumer):
    offsets, connection = opened(Unknown)
    with pytest.raises(NoTransactionError, match="turn autocommit off"):
        offsets.claim(consumer)
    with pytest.raises(NoTransactionError, match="turn autocommit off"), offsets.transaction(consumer):
        pytest.fail("the block was entered")
    with pytest.raises(NoTransactionError):
        offsets.save(connection.cursor(), {A: 1})
    assert committed(place) == ([], None)
