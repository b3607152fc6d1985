"""Exactly once: the offset and the effect in one transaction of a database. A crash leaves both or neither.

    python -m examples.exactly_once --directory data --database totals.db

The consumer's position is stored in a table beside the totals (`logstore.DatabaseOffsets`; SQLite here, any DB-API
database will do), and nothing is committed to the store: it may be open read-only. What a process had in hand when
it died was rolled back with its offset, and is read again. A second process of the same group takes the partitions
over by `claim`, and the first one's next transaction fails instead of counting twice.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import logstore
from logstore import DatabaseOffsets, Record

TOPIC, GROUP = "payments", "exactly-once"


def consume(
    store: logstore.Store,
    database: sqlite3.Connection,
    process: Callable[[Any, Record], None],
    *,
    max_records: int = 10,
) -> int:
    """Process what the database has not seen yet, up to the end; how many records."""
    count = 0
    offsets = DatabaseOffsets(database, GROUP)
    offsets.create_table()
    with store.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign_topics([TOPIC])
        offsets.claim(consumer)
        database.commit()
        while records := consumer.poll(max_records=max_records):
            with offsets.transaction(consumer) as cursor:
                for record in records:
                    process(cursor, record)
            count += len(records)
    return count


def add_up(cursor: Any, record: Record) -> None:
    """The effect: an amount is added, which a repetition would make wrong."""
    cursor.execute(
        "INSERT INTO totals VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount",
        (record.key, int(record.value or 0)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", required=True, help="where the store is, or is to be")
    parser.add_argument("--database", required=True, help="where the totals are, or are to be")
    arguments = parser.parse_args()
    with logstore.open(arguments.directory) as store, closing(sqlite3.connect(arguments.database)) as database:
        topic = store.create_topic(TOPIC, 2, if_not_exists=True)
        for account, amount in ((b"ada", b"30"), (b"bob", b"12"), (b"ada", b"-5")):
            topic.append(amount, key=account)
        database.execute("CREATE TABLE IF NOT EXISTS totals (account BLOB PRIMARY KEY, amount INTEGER NOT NULL)")
        print(consume(store, database, add_up), "payments")
        print(database.execute("SELECT CAST(account AS TEXT), amount FROM totals ORDER BY account").fetchall())


if __name__ == "__main__":
    main()
