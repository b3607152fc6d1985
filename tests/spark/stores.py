"""What is in the stores that the tests read: every figure follows from the number of the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST_TIMESTAMP_MS = 1_700_000_000_000
RECORDS = 1_000
PARTITIONS = 4


def fill(store: Store, topic: str = "events", records: int = RECORDS) -> None:
    """Make a topic of 4 partitions.

    Record ``n`` is in partition ``n % 4`` at offset ``n // 4``; it has the key ``user-<n % 10>`` (none where ``n``
    is a multiple of 100), the value ``{"n": n}``, one header and a timestamp of ``n`` seconds after the first.
    """
    made = store.create_topic(topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        made.append_many(
            [
                (
                    key_of(n),
                    value_of(n),
                    FIRST_TIMESTAMP_MS + n * 1_000,
                    [("n", b"%d" % n)],
                )
                for n in range(partition, records, PARTITIONS)
            ],
            partition=partition,
        )


def check(table: DataFrame, records: int = RECORDS) -> None:
    """See that a table has the records of `fill`, each once and in its place, with nothing lost on the way."""
    found = table.select("partition", "offset", "key", "value", "timestamp").toArrow().to_pylist()
    rows = sorted((row["offset"] * PARTITIONS + row["partition"], row) for row in found)
    assert [n for n, _ in rows] == list(range(records))
    for n, row in rows:
        assert row["key"] == key_of(n)
        assert row["value"] == value_of(n)
        assert row["timestamp"].timestamp() * 1_000 == FIRST_TIMESTAMP_MS + n * 1_000


def key_of(n: int) -> bytes | None:
    return None if n % 100 == 0 else b"user-%d" % (n % 10)


def value_of(n: int) -> bytes:
    return b'{"n": %d}' % n
