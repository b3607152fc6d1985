"""A member of a group in a process of its own, which tests kill: it prints each record that it was given.

``python -m tests.interop.group_member BOOTSTRAP GROUP TOPIC SETTINGS``; the settings are JSON. A line is printed
before the next poll, so that what is committed was printed.
"""

from __future__ import annotations

import json
import sys

from logstore.client.consumer import open_consumer
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client


def main(bootstrap: str, group: str, topic: str, settings: str) -> None:
    backend = RemoteBackend(Client(bootstrap, is_patient=True, fetch_max_wait_ms=100))
    consumer = open_consumer(backend, group, json.loads(settings), {})
    consumer.subscribe(topic)
    while True:
        for record in consumer.poll(0.1, max_records=5):
            print(record.partition, record.offset, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
