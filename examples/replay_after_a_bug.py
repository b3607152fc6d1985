"""Replay after a bug: repair the program, set its group back to a time, and build the output from scratch.

    python -m examples.replay_after_a_bug --directory data

Records stay where they are, read or not: a group is an offset for each partition, and an offset can be
set back. Here a first version of a job adds up delays and forgets that some flights are early. The second one is
right; the group goes back to the hour when the first one was rolled out, the output from then on is dropped, and
the job runs over the same records.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import logstore
from logstore import Record

TOPIC, GROUP = "delays", "delay-totals"

#: What the job makes: (hour of the record, airline) -> minutes.
Output = dict[tuple[int, bytes], int]

HOUR_MS = 3_600_000


def wrong(record: Record) -> int:
    """The bug: a sign is lost."""
    return abs(int(record.value or 0))


def right(record: Record) -> int:
    return int(record.value or 0)


def run(store: logstore.Store, output: Output, minutes_of: Callable[[Record], int]) -> int:
    """One run of the job, from the group's offsets to the end; how many records."""
    count = 0
    with store.consumer(group=GROUP, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics([TOPIC])
        for record in consumer.records(timeout_s=0):
            place = (record.timestamp_ms // HOUR_MS, record.key or b"")
            output[place] = output.get(place, 0) + minutes_of(record)
            count += 1
    return count


def go_back(store: logstore.Store, output: Output, timestamp_ms: int) -> None:
    """Set the group back to the first record of an hour, and drop what was made of it and all later ones.

    The offset is found by time, so it is right if records came in the order of their timestamps; else go back a
    little further than need be.
    """
    hour = timestamp_ms // HOUR_MS
    for place in [place for place in output if place[0] >= hour]:
        del output[place]
    with store.consumer(group=GROUP, enable_auto_commit=False) as consumer:
        consumer.assign_topics([TOPIC])
        consumer.seek_to_time(hour * HOUR_MS)
        consumer.commit(ack="synced")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", required=True, help="where the store is, or is to be")
    with logstore.open(parser.parse_args().directory) as store:
        topic = store.create_topic(TOPIC, 2, if_not_exists=True)
        rolled_out = topic.append(b"12", key=b"AA").timestamp_ms
        topic.append(b"-7", key=b"UA")
        output: Output = {}
        print(run(store, output, wrong), "records:", sorted(output.values()))
        go_back(store, output, rolled_out)
        print(run(store, output, right), "records again:", sorted(output.values()))


if __name__ == "__main__":
    main()
