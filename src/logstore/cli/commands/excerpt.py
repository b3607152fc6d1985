"""``logstore count``, ``head`` and ``tail``: the number of records of a topic, the oldest and the newest."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import tzinfo

import click

from logstore.batch._batch import Record
from logstore.cli import completion, output
from logstore.cli.commands.consume import follow, printer, printing_options
from logstore.cli.param_types import Begin, all_of, isolation_option, partitions_option, range_options, zone_option
from logstore.cli.positions import logs_of, offset_in
from logstore.cli.store_option import StoreOptions, json_option, reach_options
from logstore.client.backend.partitions import Partition
from logstore.clock import SYSTEM_CLOCK
from logstore.records import Isolation, TopicPartition

_of_a_topic = all_of(click.argument("topic", shell_complete=completion.topics), partitions_option)


# --- count -------------------------------------------------------------------------------------


@click.command()
@_of_a_topic
@range_options
@isolation_option()
@json_option
@zone_option
@reach_options
def count(
    topic: str,
    partitions: tuple[int, ...],
    begin: Begin,
    end: Begin,
    isolation: str,
    as_json: bool,
    zone: tzinfo,
    options: StoreOptions,
) -> None:
    """Print the number of records of TOPIC. Records that compaction has deleted are not counted.

    JSON, one object for each partition: topic, partition, records.
    """
    level = Isolation(isolation)
    found: dict[int, int] = {}
    with options.reach(read_only=True) as store:
        now_ms = SYSTEM_CLOCK.now_ms()
        for number, log in logs_of(store.topic(topic), partitions).items():
            start, stop = offset_in(log, begin, now_ms, level), offset_in(log, end, now_ms, level)
            found[number] = log.scan(start, stop, isolation=level).count() if start < stop else 0
    if as_json:
        for number, records in found.items():
            output.print_json({"topic": topic, "partition": number, "records": records})
    else:
        output.line(str(sum(found.values())))


# --- head and tail -----------------------------------------------------------------------------

_NUMBER = click.option(
    "-n", "--number", type=click.IntRange(0), default=10, show_default=True, help="Number of records."
)


@click.command()
@_of_a_topic
@_NUMBER
@printing_options
@isolation_option()
@zone_option
@reach_options
def head(
    topic: str,
    partitions: tuple[int, ...],
    number: int,
    form: str | None,
    as_json: bool,
    isolation: str,
    zone: tzinfo,
    options: StoreOptions,
) -> None:
    """Print the oldest records of TOPIC. Several partitions are merged by timestamp."""
    show, level = printer(form, zone, as_json=as_json), Isolation(isolation)
    with options.reach(read_only=True) as store:
        logs = logs_of(store.topic(topic), partitions).values()
        runs = [itertools.islice(log.scan(isolation=level), number) for log in logs]
        for record in itertools.islice(_merged(runs), number):
            output.write(show(record))


@click.command()
@_of_a_topic
@_NUMBER
@click.option("-F", "--follow", "goes_on", is_flag=True, help="Print new records as they arrive, until Ctrl-C.")
@printing_options
@isolation_option()
@zone_option
@reach_options
def tail(
    topic: str,
    partitions: tuple[int, ...],
    number: int,
    goes_on: bool,
    form: str | None,
    as_json: bool,
    isolation: str,
    zone: tzinfo,
    options: StoreOptions,
) -> None:
    """Print the newest records of TOPIC. Several partitions are merged by timestamp."""
    show, level = printer(form, zone, as_json=as_json), Isolation(isolation)
    with options.reach(read_only=True) as store:
        logs = logs_of(store.topic(topic), partitions)
        ends = {TopicPartition(topic, each): log.end_offset(level) for each, log in logs.items()}
        runs = [_last(log, end, number, level) for log, end in zip(logs.values(), ends.values(), strict=True)]
        for record in deque(_merged(runs), maxlen=number):
            output.write(show(record))
        output.flush()
        if goes_on:
            follow(store, ends, show, level)


def _merged(runs: Iterable[Iterable[Record]]) -> Iterator[Record]:
    """Merge records of several partitions by timestamp; those of one stay in order."""
    return heapq.merge(*runs, key=lambda record: record.timestamp_ms)


def _last(log: Partition, end: int, number: int, isolation: Isolation) -> list[Record]:
    """Return the last records below an offset. Compaction and transactions leave offsets without a record."""
    back = number
    while True:
        start = max(end - back, log.log_start_offset)
        scan = log.scan(start, end, isolation=isolation) if start < end and number else ()
        found = deque(scan, maxlen=number)
        if len(found) >= number or start <= log.log_start_offset:
            return list(found)
        back *= 4
