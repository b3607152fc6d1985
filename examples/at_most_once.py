"""At most once: commit first, then process. A crash in between loses what was in hand; nothing is done twice.

    python -m examples.at_most_once --directory data

For what is worth less than a repetition: reminders, samples of sensors, cache warm-ups. The offset is committed
before the records are processed, durably, so that not even a power cut brings a record back. The price is up to
one poll of records after a crash; a smaller ``max_records`` makes it smaller and commits more often.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import logstore
from logstore import Record

TOPIC, GROUP = "reminders", "at-most-once"


def consume(store: logstore.Store, process: Callable[[Record], None], *, max_records: int = 10) -> int:
    """Process what the group has not read yet, up to the end; how many records."""
    count = 0
    # By itself it would commit behind the processing.
    with store.consumer(group=GROUP, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign_topics([TOPIC])
        while records := consumer.poll(max_records=max_records):
            consumer.commit(ack="synced")
            for record in records:
                process(record)
                count += 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", required=True, help="where the store is, or is to be")
    with logstore.open(parser.parse_args().directory) as store:
        topic = store.create_topic(TOPIC, 2, if_not_exists=True)
        topic.append_many([b"leave for the gate", b"boarding", b"last call"])
        print(
            consume(store, lambda record: print(f"remind: {record.value.decode()}")),
            "reminders, none of them twice",
        )


if __name__ == "__main__":
    main()
