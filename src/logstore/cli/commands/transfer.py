"""``logstore export`` to JSON lines, CSV or Parquet; ``logstore import`` from JSON lines or a directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import tzinfo

import click

from logstore.cli import completion, output
from logstore.cli.commands.produce import send_lines
from logstore.cli.forms import written
from logstore.cli.param_types import Begin, isolation_option, partitions_option, range_options, zone_option
from logstore.cli.positions import logs_of, offset_in
from logstore.cli.store_option import LocalPath, StoreOptions, reach_options
from logstore.client.store import AnyStore
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import NotALogError
from logstore.log import Log
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.records import Isolation
from logstore.store import Store
from logstore.store.admin.transfer import Line, copy_log, record_of_json


@click.command("export")
@click.argument("topic", shell_complete=completion.topics)
@partitions_option
@range_options
@isolation_option(Isolation.READ_COMMITTED)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Skip damaged records and name them on standard error; status 1 at the end.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    default="jsonl",
    show_default=True,
    help="parquet needs the extra logstore[tables].",
)
@click.option("--base64", "as_base64", is_flag=True, help="Write keys, values and headers of csv in base64.")
@click.option(
    "-O",
    "--out",
    type=LocalPath(dir_okay=False, allow_dash=True),
    default="-",
    metavar="FILE",
    help="Write to a file, which gets its name once it is complete.",
)
@zone_option
@reach_options
def export_records(
    topic: str,
    partitions: tuple[int, ...],
    begin: Begin,
    end: Begin,
    isolation: str,
    skip_damaged: bool,
    form: str,
    as_base64: bool,
    out: str,
    zone: tzinfo,
    options: StoreOptions,
) -> int:
    """Print the records of TOPIC as JSON lines, CSV or Parquet, one partition after the other.

    Fields: topic, partition, offset, timestamp (ms), key, value, headers. In JSON, bytes that are not UTF-8 are
    written as {"base64": "..."}, and `logstore import` reads the lines back. In CSV a null is an empty field, an
    empty text is "", and headers are in JSON. Bytes that are not UTF-8 need --base64 there. In Parquet keys and
    values are binary.
    """
    if as_base64 and form != "csv":
        raise click.UsageError("--base64 is for csv: the other formats hold any bytes")
    if skip_damaged and options.bootstrap is not None:
        raise click.UsageError("--skip-damaged reads the files of a store; leave it out with --bootstrap")
    count, status = 0, output.OK
    with options.reach(read_only=True) as store, written(form, out, as_base64=as_base64) as target:
        logs = logs_of(store.topic(topic), partitions).values()
        now_ms, level = SYSTEM_CLOCK.now_ms(), Isolation(isolation)
        ranges = [(log, offset_in(log, begin, now_ms, level), offset_in(log, end, now_ms, level)) for log in logs]
        total = sum(max(stop - start, 0) for _, start, stop in ranges)
        with output.progress("export", total, beside_data=out == "-") as step:
            for log, start, stop in ranges:
                damage = "skip" if skip_damaged else "raise"
                scan = log.scan(min(start, stop), stop, isolation=level, on_damage=damage)
                count += target.take(log.name, scan, step)
                for each in scan.left_out:
                    output.say(str(each))
                    status = output.FAILED
    output.say(f"{count} record(s)")
    return status


@click.command("import")
@click.argument("topic", shell_complete=completion.topics)
@click.argument("source", type=LocalPath(exists=True, allow_dash=True), default="-")
@click.option(
    "--keep-partitions", is_flag=True, help="Keep the partitions of the source, instead of choosing them by key."
)
@click.option(
    "--keep-offsets", is_flag=True, help="Keep offsets, batches and transactions of a directory as they are."
)
@click.option("--new-timestamps", is_flag=True, help="Give records the current time, instead of their own.")
@click.option("-c", "--create", is_flag=True, help="Create the topic and the store if they do not exist.")
@reach_options
def import_records(
    topic: str,
    source: str,
    keep_partitions: bool,
    keep_offsets: bool,
    new_timestamps: bool,
    create: bool,
    options: StoreOptions,
) -> None:
    """Append records to TOPIC from SOURCE: JSON lines (a file, or - for standard input), or a directory.

    A directory is a partition (topic-0), written by logstore or by Kafka, or a root that holds partitions of a
    topic named TOPIC. Keys and headers are kept, and timestamps unless --new-timestamps is given. Without
    --keep-offsets, records of aborted transactions are left out. All records are durable when the command ends.
    """
    is_directory = source != "-" and os.path.isdir(source)
    if keep_offsets and not is_directory:
        raise click.UsageError("--keep-offsets needs a directory: lines have no batches to keep")
    if is_directory and options.bootstrap is not None:
        raise click.UsageError("a directory is imported into a store: export its topic to JSON lines first")
    if keep_offsets and new_timestamps:
        raise click.UsageError("--keep-offsets keeps batches as they are, with their timestamps")
    with options.reach(read_only=False, create=create) as store:
        if isinstance(store, Store) and is_directory:
            _import_logs(store, topic, source, keep_partitions, keep_offsets, new_timestamps, create)
        else:
            if create:
                store.create_topic(topic, if_not_exists=True)
            store.topic(topic)
            count = _import_lines(store, topic, source, keep_partitions, new_timestamps)
            output.say(f"{count} record(s)")
        if options.bootstrap is None:
            store.flush()  # a producer of a cluster has the acks of all replicas in sync


def _import_lines(store: AnyStore, topic: str, source: str, keep_partitions: bool, new_timestamps: bool) -> int:
    def record_of(raw: bytes) -> Line | None:
        record = record_of_json(raw) if raw.strip() else None
        return record and record._replace(
            partition=record.partition if keep_partitions else None,
            timestamp_ms=None if new_timestamps else record.timestamp_ms,
        )

    with store.producer({"acks": "all"}) as producer:
        return send_lines(producer, topic, _lines(source), record_of, source=source.removeprefix("-"))


def _lines(source: str) -> Iterator[bytes]:
    if source == "-":
        yield from sys.stdin.buffer
        return
    total = os.path.getsize(source)
    with open(source, "rb") as file, output.progress("import", total) as step:
        for line in file:
            yield line
            step(len(line))


def _import_logs(
    store: Store,
    topic: str,
    source: str,
    keep_partitions: bool,
    keep_offsets: bool,
    new_timestamps: bool,
    create: bool,
) -> None:
    found = _partitions_of(source, topic)
    if create:
        store.create_topic(topic, max(found) + 1, if_not_exists=True)
    target = store.topic(topic)
    total = 0
    for number, path in sorted(found.items()):
        with Log.open(path, read_only=True) as log:
            if keep_offsets or (keep_partitions and not new_timestamps):
                into = target[number]
                assert isinstance(into, Log)
                with output.progress(str(log.name), log.maintenance.size) as step:
                    total += copy_log(log, into, keep_offsets=keep_offsets, step=step)
                continue
            start, end = log.log_start_offset, log.last_stable_offset
            with output.progress(str(log.name), log.maintenance.size) as step:
                for chunk in log.scan(start, end, isolation=Isolation.READ_COMMITTED).chunks():
                    records = [
                        (r.key, r.value, SYSTEM_CLOCK.now_ms() if new_timestamps else r.timestamp_ms, r.headers)
                        for r in chunk
                    ]
                    if records:
                        target.append_many(records, partition=number if keep_partitions else None)
                    total += chunk.size
                    step(chunk.size)
    output.say(f"{total} byte(s) of {len(found)} partition(s)")


def _partitions_of(source: str, topic: str) -> dict[int, str]:
    """Return the directories of the partitions of a source, by number.

    Raises:
        NotALogError: the source is neither a partition nor a root with partitions of the topic.
    """
    directory = Directory(source)
    if files.base_offsets(directory.names()):
        return {files.parse_partition(directory.path).partition: directory.path}
    found = {
        name.partition: directory.join(str(name))
        for name in files.partitions_below(directory)
        if name.topic == topic
    }
    if not found:
        raise NotALogError(
            f"the source is neither a partition's directory, nor one that holds partitions of topic {topic!r}",
            path=directory.path,
        )
    return found
