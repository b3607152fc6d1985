"""At least once: process first, then commit. A crash in between does some records again; none is lost.

    python -m examples.at_least_once --directory data

What a consumer with a group does by itself: the records that a call hands out count as processed when the next
call is made, and a ``with`` block that an error ends commits nothing of what was in hand. Here the commit is
written out, so that it is durable, and made once for each poll. The processing should bear a repetition: setting
a value does, adding to one does not. Where it cannot, see `exactly_once`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import logstore
from logstore import Record

TOPIC, GROUP = "arrivals", "at-least-once"


def consume(store: logstore.Store, process: Callable[[Record], None], *, max_records: int = 10) -> int:
    """Process what the group has not committed yet, up to the end; how many records."""
    count = 0
    with store.consumer(group=GROUP, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign_topics([TOPIC])
        while records := consumer.poll(max_records=max_records):
            for record in records:
                process(record)
                count += 1
            consumer.commit(ack="synced")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", required=True, help="where the store is, or is to be")
    with logstore.open(parser.parse_args().directory) as store:
        topic = store.create_topic(TOPIC, 2, if_not_exists=True)
        for flight, gate in ((b"AA 1141", b"B2"), (b"UA 1545", b"C7"), (b"AA 1141", b"B4")):
            topic.append(gate, key=flight)
        board: dict[bytes | None, bytes | None] = {}
        count = consume(store, lambda record: board.__setitem__(record.key, record.value))
        print(count, "arrivals; the board:", board)


if __name__ == "__main__":
    main()
