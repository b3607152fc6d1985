"""A minute of logstore, in the directory that it is run in: write, read, consume, read as a table, come back.

    python examples/tour.py

Needs nothing but logstore, so `make release` runs it on each Python from an installed wheel. It ends with
status 1 if an answer is wrong.
"""

from __future__ import annotations

import sys

import logstore

RIDES = [(b"taxi-%d" % (n % 7), b"ride %d" % n, 1_793_611_800_000 + n) for n in range(10_000)]


def write(store: logstore.Store) -> None:
    """One record that is on disk when the call returns, many through a producer, many at once."""
    rides = store.create_topic("rides", partitions=4, compression_type="zstd")
    rides.append(RIDES[0][1], key=RIDES[0][0], timestamp=RIDES[0][2], ack="synced")
    with store.producer(linger_ms=20) as producer:
        for key, value, timestamp in RIDES[1:5_000]:
            producer.send("rides", value, key, timestamp=timestamp)
    rides.append_many(RIDES[5_000:])


def consume(store: logstore.Store, at_most: int) -> list[bytes]:
    """Up to so many values, from where the group has come to."""
    with store.consumer(group="tour", auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(["rides"])
        return [record.value for record in consumer.poll(max_records=at_most) if record.value is not None]


def main() -> int:
    with logstore.open("tour-data") as store:
        write(store)
        first = consume(store, 3_000)
    with logstore.open("tour-data") as store:  # as another program would, later
        rides = store["rides"]
        rest = []
        while values := consume(store, 4_000):
            rest += values
        answers = {
            "each record was consumed once": sorted(first + rest) == sorted(value for _, value, _ in RIDES),
            "each record is in the scan": rides.scan().count() == len(RIDES),
            "each key is in one partition": len({(r.key, r.partition) for r in rides.scan()}) == 7,
            "the time finds the place": rides.scan(since=RIDES[9_000][2]).count() == 1_000,
            "no group is behind": not any(lag.records for lag in store.lag("tour")),
        }
    for question, is_right in answers.items():
        print(f"{'ok   ' if is_right else 'WRONG'} {question}")
    print(f"logstore {logstore.__version__} on Python {sys.version.split()[0]}: {len(RIDES)} records")
    return 0 if all(answers.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
