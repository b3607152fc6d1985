"""``logstore bench``: speed of this machine and this disk, in a few seconds.

The numbers are rough. They can compare two disks, and should not be published. Proper benchmarks are in
`benchmarks/`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from logstore.cli import output
from logstore.cli.store_option import LocalPath, json_option
from logstore.store import Store, open_store

BATCH = 1_000


@click.command()
@click.argument("directory", default=".", type=LocalPath(exists=True, file_okay=False))
@click.option("-n", "--records", type=click.IntRange(1_000), default=200_000, show_default=True)
@click.option(
    "-s", "--size", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="Bytes of a value."
)
@click.option("--syncs", type=click.IntRange(1), default=50, show_default=True, help="Number of durable appends.")
@json_option
def bench(directory: str, records: int, size: int, syncs: int, as_json: bool) -> None:
    """Measure appends, reads and syncs in a temporary store below DIRECTORY, by default the current directory.

    JSON: what, records, seconds, records_per_s, mb_per_s.
    """
    place = tempfile.mkdtemp(prefix="logstore-bench-", dir=directory)
    try:
        with open_store(os.path.join(place, "data"), {"logstore.housekeeping": "manual"}, environ={}) as store:
            rows = []
            for name, count, run in _runs(store, records, size, syncs):
                output.say(f"{name} ...")
                began = time.perf_counter()
                run()
                rows.append(_row(name, count, size, time.perf_counter() - began))
    finally:
        shutil.rmtree(place)
    output.print_rows(rows, as_json=as_json)


def _row(name: str, count: int, size: int, seconds: float) -> dict[str, Any]:
    return {
        "what": name,
        "records": count,
        "seconds": round(seconds, 4),
        "records_per_s": round(count / seconds) if count and seconds else None,
        "mb_per_s": round(count * size / seconds / 1e6, 1) if count and seconds else None,
    }


def _runs(store: Store, records: int, size: int, syncs: int) -> Iterator[tuple[str, int, Callable[[], object]]]:
    value = os.urandom(size)
    batch = [value] * BATCH
    topic = store.create_topic("bench")
    many = store.create_topic("bench-many")
    durable = store.create_topic("bench-durable")
    batches = records // BATCH

    def append_many() -> None:
        for _ in range(batches):
            many.append_many(batch)

    def send() -> None:
        with store.producer() as producer:
            for _ in range(records // 4):
                producer.send("bench", value)

    def append_one() -> None:
        for _ in range(records // 20):
            topic.append(value)

    def append_synced() -> None:
        for _ in range(syncs):
            durable.append(value, ack="synced")

    def read() -> None:
        with store.consumer({"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign_topics(["bench-many"])
            while consumer.poll(0.0, BATCH):
                pass

    yield "append in batches of 1,000", batches * BATCH, append_many
    yield "send by a producer", records // 4, send
    yield "append one by one", records // 20, append_one
    yield "append one by one, each synced", syncs, append_synced
    yield "flush", 0, store.flush
    yield "consume", batches * BATCH, read
    yield "count", batches * BATCH, lambda: many.scan().count()
