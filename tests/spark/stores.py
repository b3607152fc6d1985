"""What is in the stores that the tests read: every figure follows from the number of the record."""

from __future__ import annotations

from logstore import Store

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
                    None if n % 100 == 0 else b"user-%d" % (n % 10),
                    b'{"n": %d}' % n,
                    FIRST_TIMESTAMP_MS + n * 1_000,
                    [("n", b"%d" % n)],
                )
                for n in range(partition, records, PARTITIONS)
            ],
            partition=partition,
        )
